//! What each way of being safe asks of a device, counted: nothing here depends on the machine or on
//! the hour.
//!
//! A file system in memory, its device counted, without a front-end. What a row does is made
//! durable; the counts are barriers ([`Device::flush`]), writes and bytes per operation. Going home
//! from the log counts when it happens amid a row.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_cache::{Naming, Settings};
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Ticket};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Ffs, LogUse, OpenOptions};
use spindle_interop::{Failure, Result};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode};

/// Bytes of the file system.
const SIZE_BYTES: u64 = 1 << 30;
/// Operations of a row.
const COUNT: u64 = 1000;
/// Directories that names are spread over.
const DIRECTORIES: u64 = 10;

/// The ways, as mounts have them.
const WAYS: [(&str, LogUse, Naming); 3] = [
    ("log", LogUse::Wanted, Naming::Delayed),
    ("nolog", LogUse::Never, Naming::Delayed),
    ("sync", LogUse::Never, Naming::Durable),
];

/// Returns a table of all ways.
pub fn all() -> Result<String> {
    let heads = WAYS.map(|(way, ..)| format!(" {way}: barriers, writes, KiB |")).concat();
    let mut text = format!("| per operation |{heads}\n|---|---|---|---|\n");
    let ways = WAYS.into_iter().map(rows).collect::<spindle_vfs::Result<Vec<_>>>();
    let ways = ways.map_err(Failure::of("a file system in memory"))?;
    for row in 0..ways[0].len() {
        let _ = write!(text, "| {} |", ways[0][row].name);
        for way in &ways {
            let Row { each: [barriers, writes, bytes], .. } = way[row];
            let _ = write!(text, " {barriers:.2}, {writes:.2}, {:.1} |", bytes / 1024.0);
        }
        text += "\n";
    }
    Ok(text)
}

/// What one kind of operation asks for.
struct Row {
    name: &'static str,
    /// Barriers, writes and bytes.
    each: [f64; 3],
}

/// Returns all rows of one way.
fn rows((_, log, naming): (&str, LogUse, Naming)) -> spindle_vfs::Result<Vec<Row>> {
    let device = Arc::new(Counting { below: MemoryDevice::new(SIZE_BYTES), counts: Default::default() });
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let plan = Plan::new(&Parameters::new(SIZE_BYTES)).expect("parameters that are valid");
    newfs::write(&plan, &*device, &*clock, &mut SmallRng::seed_from_u64(1), &mut |_, _| ())
        .expect("memory takes all");
    let cache = Settings { naming, ..Settings::default() };
    let options = OpenOptions { log, cache, seed: Some(1), ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), clock.clone(), &options)?;
    let make = |directory, name: String, kind| -> spindle_vfs::Result<Ino> {
        let node = NewNode::new(kind, 0o755);
        Ok(fs.create(directory, name.as_bytes(), &node, Privilege::Root)?.ino)
    };
    let directories = (0..DIRECTORIES)
        .map(|n| make(fs.root(), n.to_string(), FileKind::Directory))
        .collect::<spindle_vfs::Result<Vec<_>>>()?;
    let directory = |n: u64| directories[usize::try_from(n % DIRECTORIES).unwrap_or(0)];
    let append = |ino, n: u64, bytes: usize| {
        fs.write(ino, n * bytes as u64, &vec![5; bytes], Privilege::Root).map(drop)
    };
    let file = make(fs.root(), "file".into(), FileKind::Regular)?;
    fs.sync()?;

    let mut rows = Vec::new();
    let mut row = |name: &'static str, work: &dyn Fn(u64) -> spindle_vfs::Result<()>| {
        device.take();
        for n in 0..COUNT {
            // Times change, as they do in life.
            clock.advance(1);
            work(n)?;
        }
        fs.sync()?;
        rows.push(Row { name, each: device.take() });
        spindle_vfs::Result::Ok(())
    };
    row("create files of 1 KiB", &|n| {
        let ino = make(directory(n), format!("file-{n}"), FileKind::Regular)?;
        append(ino, 0, 1 << 10)?;
        fs.forget(ino, 1);
        Ok(())
    })?;
    row("rename", &|n| {
        let (from, to) = (format!("file-{n}"), format!("renamed-{n}"));
        let (by, mode) = (Privilege::Root, RenameMode::Replace);
        fs.rename(directory(n), from.as_bytes(), directory(n + 1), to.as_bytes(), mode, by)
    })?;
    row("unlink", &|n| fs.unlink(directory(n + 1), format!("renamed-{n}").as_bytes()))?;
    row("mkdir", &|n| {
        let ino = make(directory(n), format!("directory-{n}"), FileKind::Directory)?;
        fs.forget(ino, 1);
        Ok(())
    })?;
    row("rmdir", &|n| fs.rmdir(directory(n), format!("directory-{n}").as_bytes()))?;
    row("create empty files", &|n| {
        let ino = make(directory(n), format!("empty-{n}"), FileKind::Regular)?;
        fs.forget(ino, 1);
        Ok(())
    })?;
    row("append 4 KiB, fsync", &|n| append(file, n, 4 << 10).and_then(|()| fs.fsync(file, false)))?;
    row("overwrite 4 KiB, fdatasync", &|n| append(file, n, 4 << 10).and_then(|()| fs.fsync(file, true)))?;
    row("overwrite 4 KiB, fsync", &|n| append(file, n, 4 << 10).and_then(|()| fs.fsync(file, false)))?;
    row("mail", &|n| {
        let ino = make(directory(n), format!("mail-{n}"), FileKind::Regular)?;
        append(ino, 0, 8 << 10)?;
        fs.fsync(ino, false)?;
        fs.forget(ino, 1);
        Ok(())
    })?;
    fs.unmount()?;
    Ok(rows)
}

/// Memory that counts what it is asked for.
struct Counting {
    below: MemoryDevice,
    /// Barriers, writes and bytes written.
    counts: [AtomicU64; 3],
}

impl Counting {
    fn count(&self, barriers: u64, writes: u64, bytes: usize) {
        for (count, more) in self.counts.iter().zip([barriers, writes, bytes as u64]) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Returns what was counted since the last time, per operation of a row.
    #[expect(clippy::cast_precision_loss)] // Counts are far below 2^52.
    fn take(&self) -> [f64; 3] {
        self.counts.each_ref().map(|count| count.swap(0, Ordering::Relaxed) as f64 / COUNT as f64)
    }
}

impl Device for Counting {
    fn info(&self) -> &Info {
        self.below.info()
    }

    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        if request.op == Op::Write {
            self.count(0, 1, request.buf.len());
        }
        self.below.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.below.wait(ticket)
    }

    fn flush(&self) -> spindle_device::Result<()> {
        self.count(1, 0, 0);
        self.below.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> spindle_device::Result<()> {
        self.below.discard(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: with a log a write is durable after two barriers, or one if its blocks were durable
    /// before; many operations share a commit; and less is written than by any other way of making
    /// each durable.
    #[test]
    fn a_log_asks_for_little() {
        let [log, nolog, sync] = WAYS.map(|way| rows(way).unwrap());
        let each =
            |rows: &[Row], name: &str| rows.iter().find(|row| row.name.starts_with(name)).unwrap().each;
        for (name, most) in [
            ("append", 2.0),
            ("overwrite 4 KiB, fdatasync", 1.0),
            ("overwrite 4 KiB, fsync", 2.0),
            ("mail", 2.0),
        ] {
            let [barriers, _, bytes] = each(&log, name);
            assert!(barriers <= most + 0.05, "{name}: {barriers} barriers");
            for others in [&nolog, &sync] {
                assert!(bytes < each(others, name)[2], "{name}: {bytes} bytes");
            }
        }
        for name in ["create", "rename", "unlink", "mkdir", "rmdir"] {
            let [barriers, writes, _] = each(&log, name);
            assert!(barriers < 0.1 && writes * 10.0 < each(&sync, name)[1], "{name}: {barriers}, {writes}");
        }
    }
}
