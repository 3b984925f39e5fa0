//! The library without a mount: a file system in memory with its log, used by one thread and by
//! two, each in directories and a file of its own.
//!
//! What is left out is the trip through the kernel. The second column shows what locks and the
//! cache cost two threads that share nothing but the file system, the third what the machine and
//! the allocator of memory leave of the speed of two if each has a file system of its own.
//! Allocations of memory are those
//! of the thread that calls; nothing else calls in the run with one thread.

use std::fmt::Write;
use std::sync::Arc;
use std::thread;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_clock::TickClock;
use spindle_device::MemoryDevice;
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Ffs, LogUse, OpenOptions};
use spindle_interop::{Failure, Result};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};

use crate::allocations::allocations;
use crate::measure::time;
use crate::settings::Settings;
use crate::table::Table;

/// Bytes of the file system.
const SIZE_BYTES: u64 = 2 << 30;
/// Operations of a row, of all threads together: so the file system is as large with two.
const COUNT: u64 = 50_000;
/// Files in a directory.
const FILES: u64 = 1000;
/// Bytes of a read or write.
const BYTES: usize = 4096;

/// A thread's own part of a file system.
struct Place {
    fs: Arc<Ffs>,
    directories: Vec<Ino>,
    file: Ino,
    inodes: Vec<Ino>,
}

/// One operation, the `n`th of a thread.
type Operation = dyn Fn(&Ffs, &mut Place, u64, &mut SmallRng) -> spindle_vfs::Result<()> + Sync;

/// The operations, in an order in which each finds what it needs.
const OPERATIONS: [(&str, &Operation); 8] = [
    ("create an empty file", &|fs, place, n, _| {
        let directory = place.directories[index(n / FILES)];
        let node = NewNode::new(FileKind::Regular, 0o644);
        let made = fs.create(directory, name(n).as_bytes(), &node, Privilege::Root)?;
        place.inodes.push(made.ino);
        fs.forget(made.ino, 1);
        Ok(())
    }),
    ("look up a name", &|fs, place, _, random| {
        let n = random.random_range(0..place.inodes.len() as u64);
        let found = fs.lookup(place.directories[index(n / FILES)], name(n).as_bytes())?;
        fs.forget(found.ino, 1);
        Ok(())
    }),
    ("read attributes", &|fs, place, _, random| {
        let n = random.random_range(0..place.inodes.len());
        fs.getattr(place.inodes[n]).map(drop)
    }),
    ("write 4 KiB to a new file", &|fs, place, n, _| {
        fs.write(place.inodes[index(n)], 0, &[5; BYTES], Privilege::Root).map(drop)
    }),
    ("append 4 KiB to a large file", &|fs, place, n, _| {
        fs.write(place.file, n * BYTES as u64, &[6; BYTES], Privilege::Root).map(drop)
    }),
    ("overwrite 4 KiB of a large file", &|fs, place, _, random| {
        let at = random.random_range(0..place.inodes.len() as u64) * BYTES as u64;
        fs.write(place.file, at, &[7; BYTES], Privilege::Root).map(drop)
    }),
    ("read 4 KiB of a large file", &|fs, place, _, random| {
        let at = random.random_range(0..place.inodes.len() as u64) * BYTES as u64;
        fs.read(place.file, at, &mut [0; BYTES]).map(drop)
    }),
    ("unlink a file of 4 KiB", &|fs, place, n, _| {
        fs.unlink(place.directories[index(n / FILES)], name(n).as_bytes())
    }),
];

fn name(n: u64) -> String {
    format!("file-{n}")
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Measures all operations with one thread, and with two in one file system and in two. Returns a
/// table of the allocations.
pub fn all(settings: &Settings, table: &mut Table) -> Result<String> {
    let total = settings.scaled(COUNT);
    let mut text = String::from("| in memory, one thread | allocations per operation |\n|---|---|\n");
    for (threads, systems, column) in
        [(1, 1, "one thread"), (2, 1, "two threads"), (2, 2, "two file systems")]
    {
        let count = total / threads;
        let mut places = prepared(threads, systems, count).map_err(Failure::of("a file system in memory"))?;
        for (operation, work) in OPERATIONS {
            let row = format!("in memory: {operation}");
            let mut made = 0;
            let took = time(&row, || {
                made = repeated(&mut places, count, work)?;
                spindle_vfs::Result::Ok(())
            })?;
            // Amounts are far below 2^52.
            #[expect(clippy::cast_precision_loss)]
            let (done, each) = ((count * threads) as f64, made as f64 / count as f64);
            table.note(&row, column, done, "/s", took);
            if threads == 1 {
                let _ = writeln!(text, "| {operation} | {each:.1} |");
            }
        }
    }
    Ok(text)
}

/// Makes file systems with a place for each thread, which take turns.
fn prepared(threads: u64, systems: u64, count: u64) -> spindle_vfs::Result<Vec<Place>> {
    let all: Vec<_> = (0..systems).map(|_| opened().map(Arc::new)).collect::<spindle_vfs::Result<_>>()?;
    let place = |(thread, fs): (u64, &Arc<Ffs>)| {
        let make = |directory, name: String, kind| -> spindle_vfs::Result<Ino> {
            Ok(fs.create(directory, name.as_bytes(), &NewNode::new(kind, 0o755), Privilege::Root)?.ino)
        };
        let directories = (0..count.div_ceil(FILES))
            .map(|n| make(fs.root(), format!("{thread}-{n}"), FileKind::Directory))
            .collect::<spindle_vfs::Result<_>>()?;
        let file = make(fs.root(), format!("{thread}-file"), FileKind::Regular)?;
        Ok(Place { fs: fs.clone(), directories, file, inodes: Vec::new() })
    };
    (0..threads).zip(all.iter().cycle()).map(place).collect()
}

/// Makes a file system in memory, and opens it with a log.
fn opened() -> spindle_vfs::Result<Ffs> {
    let (device, clock) = (Arc::new(MemoryDevice::new(SIZE_BYTES)), Arc::new(TickClock));
    let plan = Plan::new(&Parameters::new(SIZE_BYTES)).expect("parameters that are valid");
    newfs::write(&plan, &*device, &*clock, &mut SmallRng::seed_from_u64(1), &mut |_, _| ())
        .expect("memory takes all");
    let options = OpenOptions { log: LogUse::Wanted, seed: Some(1), ..OpenOptions::default() };
    Ffs::open(device, clock, &options)
}

/// Has a thread for each place repeat an operation. Returns the allocations of the first one, which
/// is this thread.
fn repeated(places: &mut [Place], count: u64, work: &Operation) -> spindle_vfs::Result<u64> {
    let repeat = |place: &mut Place, seed| {
        let (fs, mut random) = (place.fs.clone(), SmallRng::seed_from_u64(seed));
        let before = allocations();
        (0..count).try_for_each(|n| work(&fs, place, n, &mut random))?;
        Ok(allocations() - before)
    };
    let Some((own, others)) = places.split_first_mut() else { return Ok(0) };
    thread::scope(|scope| {
        let others: Vec<_> = others
            .iter_mut()
            .zip(1..)
            .map(|(place, seed)| scope.spawn(move || repeat(place, seed)))
            .collect();
        let own = repeat(own, 0);
        for other in others {
            other.join().expect("a thread that does not panic")?;
        }
        own
    })
}
