//! `lab calibrate`: a preset of a disk of this machine.

use super::ProgressBar;
use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::outfile;
use crate::output::Output;
use crate::progress::Progress;
use spindle_clock::{Clock as _, SystemClock};
use spindle_device::{AlignedBuf, Caching, Device, FileDevice, Op, OpenOptions};
use spindle_lab::calibrate::{BUDGET, Job, Probe, Run, Writes, calibrate};
use spindle_lab::sim::Time;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// The end of a pause in which no system is trusted to wake up in time.
const AWAKE: Duration = Duration::from_micros(300);
/// Bytes of the temporary file in which writes are measured.
const SCRATCH_BYTES: u64 = 1 << 30;

/// Measure a disk, solid-state or one that turns, and print a preset of it
///
/// Reads are measured on TARGET, a block device or a file, of which nothing is changed. Writes are
/// measured in a temporary file of 1 GiB in the directory of --scratch, which should be on the same
/// disk; without it they are those of a like disk. If TARGET is a directory, both are measured in
/// such a file, which does for solid-state disks only. All transfers go past the cache of the
/// system. It takes half a minute for each direction of a solid-state disk, and two to five
/// minutes for one that turns; other work on the disk disturbs it.
///
/// The preset goes wherever a disk is named: spindle advise, trace replay. What no access shows, as
/// the number of dies, is that of a like disk, and marked so. A modelled solid-state disk begins as
/// a new one: how much slower writes get after weeks is not measured. Shingled tracks are not
/// noticed.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  it cannot be measured, or there was an error    2  invalid command line

EXAMPLES
    spindle lab calibrate /dev/nvme0n1 --scratch /var/tmp > mine.toml
    spindle lab calibrate /dev/sda > mine.toml
    spindle advise build.trace --disk mine.toml")]
pub struct Args {
    /// A directory on the disk, for a temporary file in which writes are measured
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Block device, file or directory
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// A file or block device whose transfers go past the cache.
struct Direct {
    device: FileDevice,
    /// What is written, as long as the last transfer.
    data: AlignedBuf,
}

impl Direct {
    fn new(device: FileDevice) -> Self {
        Self { device, data: AlignedBuf::zeroed(0) }
    }

    /// Transfers at every `step`-th of these offsets from number `first` on.
    fn transfers(
        &self,
        op: Op,
        begin: Duration,
        offsets: &[u64],
        (first, step): (usize, usize),
    ) -> io::Result<Vec<Time>> {
        let mut buffer = self.data.clone();
        let mut each = Vec::new();
        for &offset in offsets.iter().skip(first).step_by(step) {
            let start = SystemClock.monotonic();
            if Time::from(start.saturating_sub(begin)) > BUDGET {
                break;
            }
            match op {
                Op::Read => self.device.read_at(offset, &mut buffer),
                Op::Write => self.device.write_at(offset, &buffer),
            }
            .map_err(io::Error::other)?;
            each.push(time_since(start));
        }
        Ok(each)
    }
}

impl Probe for Direct {
    fn size_bytes(&self) -> u64 {
        self.device.info().size_bytes
    }

    fn unit_bytes(&self) -> u32 {
        self.device.info().sector_bytes
    }

    fn run(&mut self, op: Op, bytes: u32, depth: u32, offsets: &[u64]) -> io::Result<Run> {
        interrupt::check().map_err(io::Error::other)?;
        if self.data.len() != bytes as usize {
            self.data = AlignedBuf::from(&noise(bytes as usize)[..]);
        }
        let begin = SystemClock.monotonic();
        let depth = depth as usize;
        let each = if depth == 1 {
            self.transfers(op, begin, offsets, (0, 1))?
        } else {
            let this = &*self;
            std::thread::scope(|scope| {
                let running: Vec<_> = (0..depth)
                    .map(|first| scope.spawn(move || this.transfers(op, begin, offsets, (first, depth))))
                    .collect();
                let ended = running
                    .into_iter()
                    .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                ended.collect::<io::Result<Vec<_>>>()
            })?
            .concat()
        };
        Ok(Run { each, begin: begin.into(), total: time_since(begin) })
    }

    fn flush(&mut self) -> io::Result<Time> {
        interrupt::check().map_err(io::Error::other)?;
        let begin = SystemClock.monotonic();
        self.device.flush().map_err(io::Error::other)?;
        Ok(time_since(begin))
    }

    fn pause(&mut self, time: Time) {
        let end = SystemClock.monotonic() + Duration::from(time);
        SystemClock.sleep(Duration::from(time).saturating_sub(AWAKE));
        while SystemClock.monotonic() < end {
            std::hint::spin_loop();
        }
    }
}

fn time_since(begin: Duration) -> Time {
    SystemClock.monotonic().saturating_sub(begin).into()
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let target = &args.target;
    let progress = ProgressBar(Progress::of_fraction("measuring"));
    let (capacity_bytes, mut disk) = if target.is_dir() {
        let space = rustix::fs::statvfs(target).context(target.display())?;
        (space.f_blocks.saturating_mul(space.f_frsize), scratch(target, &progress.0)?)
    } else {
        let options = OpenOptions { caching: Caching::Direct, ..OpenOptions::look() };
        let device = FileDevice::open(target, &options).map_err(spindle::Error::from)?;
        (device.info().size_bytes, Direct::new(device))
    };
    let mut other = args.scratch.as_ref().map(|dir| scratch(dir, &progress.0)).transpose()?;
    let writes = match &mut other {
        Some(other) => Writes::On(other),
        None if target.is_dir() => Writes::There,
        None => Writes::Nowhere,
    };
    let name = target.display().to_string();
    let job = Job {
        title: model(target).unwrap_or_else(|| name.clone()),
        source: format!("spindle lab calibrate {name}"),
        // A multiple of what the model moves.
        capacity_bytes: capacity_bytes - capacity_bytes % 4096,
        disk: &mut disk,
        writes,
        seed: time_since(Duration::ZERO).0,
    };
    let text = calibrate(job, &progress);
    drop(progress);
    interrupt::check()?;
    let text = text.map_err(|error| Failure::new(format!("{}: {error}", target.display())))?;
    let mut out = Output::stdout();
    out.text(&text)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a file without a name in a directory, filled, so that its places are those of the disk.
fn scratch(dir: &Path, progress: &Progress) -> Result<Direct> {
    let space = rustix::fs::statvfs(dir).context(dir.display())?;
    if space.f_bavail.saturating_mul(space.f_frsize) < 2 * SCRATCH_BYTES {
        let needed = "2 GiB must be free for a temporary file";
        return Err(Failure::new(format!("{}: {needed}", dir.display())));
    }
    let no_file = || Failure::new(format!("{}: cannot have a file without a name", dir.display()));
    let file = outfile::without_name(dir).ok_or_else(no_file)?;
    let options = OpenOptions { caching: Caching::Direct, lock: false, ..OpenOptions::read_write() };
    let device = FileDevice::create(outfile::path_of(&file), SCRATCH_BYTES, &options);
    let device = device.map_err(spindle::Error::from).context(dir.display())?;
    let data = AlignedBuf::from(&noise(1 << 20)[..]);
    for offset in (0..SCRATCH_BYTES).step_by(data.len()) {
        interrupt::check()?;
        progress.set(offset * 1000 / SCRATCH_BYTES, "making a temporary file");
        device.write_at(offset, &data).map_err(spindle::Error::from)?;
    }
    device.flush().map_err(spindle::Error::from)?;
    Ok(Direct::new(device))
}

/// Returns bytes that cannot be compressed, which some disks would write faster.
fn noise(len: usize) -> Vec<u8> {
    let numbers = (1_u64..).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    numbers.flat_map(u64::to_le_bytes).take(len).collect()
}

/// Returns what the manufacturer calls a block device, if the system knows it.
fn model(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.file_type().is_block_device())?;
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let device = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition is below its disk.
    let found =
        device.ancestors().take(2).find_map(|dir| std::fs::read_to_string(dir.join("device/model")).ok());
    found.map(|model| model.trim().to_owned())
}
