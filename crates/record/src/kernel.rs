//! The kernel part of the recorder: loads and attaches its programs, and reads its maps.

use crate::wire::OPEN_FILE;
use crate::{Error, Filter, Result};
use aya::maps::{HashMap, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, Endianness};
use aya_obj::btf::BtfKind;
use spindle_trace::Info;
use spindle_trace::latency::{BUCKETS, Call, Class, Latencies};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where the kernel shows its type information.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Type of the file system that `statfs` says of sysfs (`SYSFS_MAGIC`).
const SYSFS: i64 = 0x6265_6572;

/// Returns true if the kernel's objects are shown in `/sys`, as they are not in many containers.
fn is_sysfs_mounted() -> bool {
    rustix::fs::statfs("/sys").is_ok_and(|found| found.f_type == SYSFS)
}

/// Returns why there is no recording where the type information cannot be read.
fn unreadable_types(has_sysfs: bool, error: std::io::Error) -> Error {
    let source = match (error.kind(), has_sysfs) {
        (std::io::ErrorKind::NotFound, false) => std::io::Error::other(
            "no such file: sysfs is not mounted on /sys, which \"mount -t sysfs sysfs /sys\" does",
        ),
        (std::io::ErrorKind::NotFound, true) => std::io::Error::other(
            "no such file: this kernel shows no type information (BTF; CONFIG_DEBUG_INFO_BTF)",
        ),
        _ => error,
    };
    Error::Io { path: TYPES.into(), source }
}

/// The object file that `scripts/build-bpf` makes.
static OBJECT: &[u8] = aya::include_bytes_aligned!("bpf/recorder.bpf.o");

/// Programs in the object file: their names, their tracepoints, and whether recording needs them.
const PROGRAMS: [(&str, &str, bool); 10] = [
    ("process_starts", "sched_process_fork", true),
    ("process_ends", "sched_process_exit", true),
    ("program_replaced", "sched_prepare_exec", true),
    ("program_loaded", "sched_process_exec", true),
    ("name_goes", "ext4_unlink_enter", false),
    ("data_goes", "ext4_evict_inode", false),
    ("request_starts", "io_uring_submit_req", false),
    ("request_ends", "io_uring_complete", false),
    ("call_begins", "sys_enter", true),
    ("call_ends", "sys_exit", true),
];

/// The loaded kernel part; dropping it unloads the programs.
pub struct Kernel {
    loaded: Ebpf,
    ring: RingBuf<MapData>,
    tree: HashMap<MapData, u32, u32>,
    own: u32,
    is_timed: bool,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").field("own", &self.own).finish_non_exhaustive()
    }
}

/// Counts of what the kernel part could not record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Number of messages that did not fit into the ring buffer.
    pub lost: u64,
    /// Number of requests of `io_uring` on files.
    pub uring: u64,
    /// Number of requests of `io_submit`, which are recorded as they begin.
    pub aio: u64,
    /// Number of calls of 32-bit programs.
    pub foreign: u64,
}

impl Missed {
    /// Returns what was missed since the counts were `before`.
    pub const fn since(self, before: Self) -> Self {
        Self {
            lost: self.lost.saturating_sub(before.lost),
            uring: self.uring.saturating_sub(before.uring),
            aio: self.aio.saturating_sub(before.aio),
            foreign: self.foreign.saturating_sub(before.foreign),
        }
    }

    /// Returns the notes of a trace that lacks this; lost messages have a place of their own.
    pub fn notes(self) -> impl Iterator<Item = String> {
        let uring = (self.uring > 0).then(|| Info::gap(self.uring, "io_uring"));
        let aio = (self.aio > 0).then(|| {
            format!(
                "{} requests of io_submit (libaio) are recorded as they began, with the bytes that they asked for",
                self.aio
            )
        });
        let foreign =
            (self.foreign > 0).then(|| format!("{} calls of 32-bit programs are not recorded", self.foreign));
        [uring, aio, foreign].into_iter().flatten()
    }
}

impl Kernel {
    /// Loads and attaches the programs; `device` is that of the only file system to record, in the
    /// kernel's encoding.
    pub fn load(filter: &Filter, device: Option<u32>) -> Result<Self> {
        if !rustix::process::geteuid().is_root() && !has_capabilities() {
            return Err(Error::Forbidden);
        }
        let types = std::fs::read(TYPES).map_err(|error| unreadable_types(is_sysfs_mounted(), error))?;
        let btf = Btf::parse(&types, Endianness::default()).map_err(|e| {
            Error::Kernel(format!("its type information (BTF) in {TYPES} cannot be used: {e}"))
        })?;
        let own = std::process::id();
        let cgroup = filter.cgroup.as_deref().map(cgroup_of).transpose()?;
        let flag = |is: bool| u32::from(is);
        let (level, id) = cgroup.unwrap_or_default();
        let words = [
            ("OWN", own),
            ("BY_TREE", flag(filter.children || !filter.processes.is_empty())),
            ("BY_USER", flag(filter.user.is_some())),
            ("USER", filter.user.unwrap_or_default()),
            ("BY_DEVICE", flag(device.is_some())),
            ("DEVICE", device.unwrap_or_default()),
            ("BY_CGROUP", flag(cgroup.is_some())),
            ("CGROUP_LEVEL", level),
            ("TIMED", flag(filter.latency)),
            ("LOOKS", flag(!filter.no_looks)),
        ];
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf)).override_global("CGROUP", &id, true);
        for (name, value) in &words {
            loader.override_global(name, value, true);
        }
        let (space, object) = object(&btf)?;
        let mut loaded = loader.load(&space[object]).map_err(|e| Error::Kernel(with_causes(&e)))?;
        let ring = loaded.take_map("EVENTS").ok_or(MapError::InvalidName { name: "EVENTS".into() });
        let ring = ring.and_then(RingBuf::try_from).map_err(|e| Error::Kernel(with_causes(&e)))?;
        let tree = loaded.take_map("TREE").ok_or(MapError::InvalidName { name: "TREE".into() });
        let tree = tree.and_then(HashMap::try_from).map_err(|e| Error::Kernel(with_causes(&e)))?;
        let mut kernel = Self { loaded, ring, tree, own, is_timed: filter.latency };
        let followed = filter.children.then_some(own).into_iter().chain(filter.processes.iter().copied());
        followed.into_iter().try_for_each(|process| kernel.follow(process, true))?;
        for (name, tracepoint, is_needed) in PROGRAMS {
            match kernel.attach(name, tracepoint, &btf) {
                Err(error) if is_needed => return Err(error),
                // Without ext4's information, the files seen before are looked up; a kernel may
                // lack io_uring.
                Err(_) | Ok(()) => {}
            }
        }
        Ok(kernel)
    }

    fn attach(&mut self, name: &str, tracepoint: &str, btf: &Btf) -> Result<()> {
        let problem = |what: String| Error::Kernel(format!("tracepoint {tracepoint}: {what}"));
        let program = self.loaded.program_mut(name).ok_or_else(|| problem("no program".into()))?;
        let program: &mut BtfTracePoint = program.try_into().map_err(|e| problem(with_causes(&e)))?;
        program.load(tracepoint, btf).map_err(|e| problem(with_causes(&e)))?;
        program.attach().map_err(|e| problem(with_causes(&e)))?;
        Ok(())
    }

    /// Starts or stops following a process and those that it starts from now on.
    fn follow(&mut self, process: u32, on: bool) -> Result<()> {
        let done = if on { self.tree.insert(process, 1, 0) } else { self.tree.remove(&process) };
        done.map_err(|e| Error::Kernel(with_causes(&e)))
    }

    /// Stops following the processes that this process starts from now on.
    pub fn stop_following(&mut self) -> Result<()> {
        self.follow(self.own, false)
    }

    /// Calls `take` with each message in the ring buffer.
    pub fn messages(&mut self, mut take: impl FnMut(&[u8])) {
        while let Some(message) = self.ring.next() {
            take(&message);
        }
    }

    /// Stops the programs; their messages and maps can still be read.
    pub fn detach(&mut self) {
        for (name, _, _) in PROGRAMS.into_iter().rev() {
            if let Some(Ok(program)) = self.loaded.program_mut(name).map(<&mut BtfTracePoint>::try_from) {
                // An error means that the program was not attached.
                let _ = program.unload();
            }
        }
    }

    /// Returns the entries of open files, and of some closed ones, which the translator does not
    /// know any more.
    pub fn open_files(&self) -> Vec<[u8; OPEN_FILE]> {
        let Some(map) = self.loaded.map("FILES") else { return Vec::new() };
        let Ok(files) = HashMap::<_, u64, [u8; OPEN_FILE]>::try_from(map) else { return Vec::new() };
        files.iter().filter_map(|entry| entry.ok().map(|(_, value)| value)).collect()
    }

    /// Returns how long calls took so far.
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        let counts = self.loaded.map("LATENCIES").filter(|_| self.is_timed);
        let counts = counts.and_then(|map| PerCpuArray::<_, [u64; BUCKETS]>::try_from(map).ok());
        let rows = Call::ALL.into_iter().flat_map(|(call, _)| Class::ALL.map(|class| (call, class)));
        for (row, (call, class)) in (0..).zip(rows) {
            let cpus = counts.as_ref().and_then(|counts| counts.get(&row, 0).ok());
            for cpu in cpus.iter().flat_map(|cpus| cpus.iter()) {
                (0..).zip(cpu).for_each(|(bucket, &calls)| latencies.add(call, class, bucket, calls));
            }
        }
        latencies
    }

    /// Returns the counts of what was missed so far.
    pub fn missed(&self) -> Missed {
        let Some(map) = self.loaded.map("MISSED") else { return Missed::default() };
        let Ok(counts) = PerCpuArray::<_, u64>::try_from(map) else { return Missed::default() };
        let count =
            |n| counts.get(&n, 0).map_or(0, |values| values.iter().copied().fold(0, u64::wrapping_add));
        // Requests that were under way at the beginning are completed without having been counted.
        let uring = count(1);
        let uring = if uring.cast_signed() < 0 { 0 } else { uring };
        Missed { lost: count(0), uring, foreign: count(2), aio: count(3) }
    }
}

/// A call of `bpf_rdonly_cast` in the object file; `bpf/kernel.h` uses a placeholder for its
/// number.
const CALL: [u8; 8] = [0x85, 0x20, 0, 0, 0x57, 0xca, 0x57, 0x7e];

/// Returns a copy of the object file, with this kernel's number of the function in its calls, and
/// its range in the buffer, which is aligned for reading ELF.
fn object(btf: &Btf) -> Result<(Vec<u8>, Range<usize>)> {
    let number = btf.id_by_type_name_kind("bpf_rdonly_cast", BtfKind::Func).map_err(|_| {
        Error::Kernel("it lacks the function bpf_rdonly_cast; Linux 6.10 or newer is needed".into())
    })?;
    let mut space = vec![0; OBJECT.len() + 8];
    let start = space.as_ptr().align_offset(8);
    let place = start..start + OBJECT.len();
    let object = &mut space[place.clone()];
    object.copy_from_slice(OBJECT);
    for word in object.as_chunks_mut::<8>().0 {
        if *word == CALL {
            word[4..].copy_from_slice(&number.to_le_bytes());
        }
    }
    Ok((space, place))
}

/// Formats an error with all its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Returns true if the process has `CAP_BPF` (39) and `CAP_PERFMON` (38).
fn has_capabilities() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let has = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    has >> 38 & 3 == 3
}

/// Returns the depth of a cgroup below the root of its hierarchy, and its number.
fn cgroup_of(path: &Path) -> Result<(u32, u64)> {
    let problem = |source| Error::Io { path: path.to_owned(), source };
    let path = path.canonicalize().map_err(problem)?;
    let found = std::fs::metadata(&path).map_err(problem)?;
    let is_one = |path: &Path| path.join("cgroup.controllers").exists();
    if !is_one(&path) {
        return Err(Error::Refused(format!(
            "{}: not a directory of the unified cgroup hierarchy",
            path.display()
        )));
    }
    let above = path.ancestors().skip(1).take_while(|above| is_one(above)).count();
    Ok((u32::try_from(above).unwrap_or(u32::MAX), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: where the type information cannot be read, the message says whether the kernel has
    /// none or only does not show it, and what helps.
    #[test]
    fn missing_types_are_explained() {
        let says = |has_sysfs, errno| {
            unreadable_types(has_sysfs, std::io::Error::from_raw_os_error(errno)).to_string()
        };
        let (missing, denied) = (2, 13);
        let hidden = says(false, missing);
        assert!(
            hidden.starts_with(TYPES) && hidden.contains("no such file: sysfs is not mounted"),
            "{hidden}"
        );
        assert!(hidden.contains("mount -t sysfs sysfs /sys"), "{hidden}");
        assert!(says(true, missing).contains("this kernel shows no type information"));
        assert!(says(true, denied).contains("denied") && !says(false, denied).contains("mounted"));
    }
}
