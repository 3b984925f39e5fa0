//! What checksums cost in processor time: the same work on a set in memory, without and with them.
//!
//! The sets take turns, and the median over the rounds counts. The time is that of the thread on a
//! processor, so other programs hardly matter.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use spindle_clock::SystemClock;
use spindle_device::MemoryDevice;
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege};
use std::sync::Arc;

const BY: Privilege = Privilege::Root;
const ROUNDS: usize = 7;
/// Bytes of the large file, and of a call that reads or writes it in order.
const FILE: u64 = 64 << 20;
const CALL: usize = 128 << 10;
const BLOCK: usize = 4096;
/// Small files, and blocks that are overwritten at random.
const COUNT: u64 = 4000;

/// Some work, with its name.
type Work = (&'static str, fn(&Mfs));

const WORK: [Work; 4] = [
    ("sequential write", |fs| {
        let ino = create(fs, "large");
        (0..FILE).step_by(CALL).for_each(|at| write(fs, ino, at, CALL));
        fs.sync().unwrap();
    }),
    ("sequential read", |fs| {
        let ino = fs.lookup(fs.root(), b"large").unwrap().ino;
        let mut bytes = vec![0; CALL];
        for at in (0..FILE).step_by(CALL) {
            assert_eq!(fs.read(ino, at, &mut bytes).unwrap(), CALL);
        }
    }),
    ("random 4 KiB overwrites", |fs| {
        let ino = fs.lookup(fs.root(), b"large").unwrap().ino;
        let mut blocks: Vec<u64> = (0..FILE / BLOCK as u64).collect();
        blocks.shuffle(&mut StdRng::seed_from_u64(3));
        for (n, block) in blocks.into_iter().take(4000).enumerate() {
            write(fs, ino, block * BLOCK as u64, BLOCK);
            if n % 100 == 99 {
                fs.sync().unwrap();
            }
        }
    }),
    ("small files", |fs| {
        for n in 0..COUNT {
            let ino = create(fs, &n.to_string());
            write(fs, ino, 0, 6000);
            fs.forget(ino, 1);
        }
        fs.sync().unwrap();
    }),
];

fn create(fs: &Mfs, name: &str) -> Ino {
    fs.create(fs.root(), name.as_bytes(), &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino
}

fn write(fs: &Mfs, ino: Ino, at: u64, len: usize) {
    let bytes: Vec<u8> = vec![u8::try_from(at / 4096 % 251).unwrap() + 1; len];
    assert_eq!(fs.write(ino, at, &bytes, BY).unwrap(), len);
}

fn new_set(checksums: bool) -> Mfs {
    let device = Arc::new(MemoryDevice::new(512 << 20));
    let mut wishes = Wishes::new();
    wishes.parameters.checksums = checksums;
    let clock = Arc::new(SystemClock);
    let members = [Member::with_all(device)];
    let set = make(&members, &wishes, &*clock, &mut StdRng::seed_from_u64(1)).unwrap();
    Mfs::open(&set, clock, &OpenOptions::default()).unwrap()
}

/// Returns the seconds that this thread has been on a processor.
fn seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says it");
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).expect("nanoseconds first") / 1e9
}

fn main() {
    let mut times = vec![[Vec::new(), Vec::new()]; WORK.len()];
    for _ in 0..ROUNDS {
        for (way, checksums) in [false, true].into_iter().enumerate() {
            let fs = new_set(checksums);
            for (n, (_, work)) in WORK.iter().enumerate() {
                let before = seconds();
                work(&fs);
                times[n][way].push(seconds() - before);
            }
            fs.unmount().unwrap();
        }
    }
    println!("| work | without, s | with, s | times as long |\n|---|---|---|---|");
    for ((name, _), [mut without, mut with]) in WORK.iter().zip(times) {
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        };
        let (without, with) = (median(&mut without), median(&mut with));
        println!("| {name} | {without:.3} | {with:.3} | **{:.2}** |", with / without);
    }
}
