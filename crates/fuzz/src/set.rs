//! Structures of a multi-structured file system.

#[path = "../../mfs/tests/support/structures.rs"]
mod structures;

use crate::image::clock;
use crate::{Target, number, seed};
use rand::SeedableRng;
use rand::rngs::{SmallRng, StdRng};
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{check, repair};
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Set};
use spindle_torture::base::node;
use spindle_torture::exercise::{change, walk};
use spindle_torture::overlay::Overlay;
use spindle_vfs::{FileKind, FileSystem, Ino, Privilege, XattrMode};
use std::sync::{Arc, LazyLock};
use structures::{STRUCTURES, seal};

/// All structures that have checksums.
pub const SET: Target =
    Target { name: "set", about: "a structure of a multi-structured file system", seeds, run };

/// Bytes of the set's only device.
const SIZE: u64 = 10 << 20;
/// Most findings that are listed.
const FINDINGS: usize = 100;

/// A set that was not unmounted, and where its structures of each kind are.
struct Base {
    bytes: Arc<[u8]>,
    places: [Vec<usize>; STRUCTURES.len()],
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 1024;
    wishes.parameters.cylinder_bytes = 32 << 10;
    wishes.parameters.track_blocks = 8;
    let member = Member::with_all(device.clone());
    let set = make(&[member], &wishes, &*clock(), &mut StdRng::seed_from_u64(5)).expect("a set");
    let fs = Mfs::open(&set, clock(), &OpenOptions::default()).expect("a new set");
    fill(&fs).expect("there is space");
    let bytes: Arc<[u8]> = device.to_bytes().into();
    let _ = fs.unmount();
    let places = STRUCTURES.map(|(magic, ..)| {
        (0..bytes.len()).step_by(512).filter(|&at| bytes[at..].starts_with(magic)).collect()
    });
    Base { bytes, places }
});

fn fill(fs: &Mfs) -> spindle_vfs::Result<()> {
    let by = Privilege::Root;
    let make = |dir: Ino, name: &str, kind, target: &[u8]| {
        fs.create(dir, name.as_bytes(), &node(kind, target), by).map(|attr| attr.ino)
    };
    let dir = make(fs.root(), "dir", FileKind::Directory, b"")?;
    for n in 0..40 {
        make(dir, &format!("file{n}{}", "y".repeat(n % 40)), FileKind::Regular, b"")?;
    }
    make(dir, "link", FileKind::Symlink, b"somewhere")?;
    let sparse = make(fs.root(), "sparse", FileKind::Regular, b"")?;
    for n in 0..30 {
        fs.write(sparse, n * 10_000, &[7; 100], by)?;
    }
    for ino in [dir, sparse] {
        fs.setxattr(ino, b"user.first", &[8; 1200], XattrMode::Set, by)?;
    }
    fs.sync()
}

/// Returns the first, the middle and the last structure of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (kind, places) in BASE.places.iter().enumerate() {
        let (_, len, _) = STRUCTURES[kind];
        for place in [0, places.len() / 2, places.len().saturating_sub(1)] {
            let Some(&at) = places.get(place) else { continue };
            let len = if len == 0 { 512 } else { len };
            seeds.push(seed(&[kind, place], &BASE.bytes[at..(at + len).min(BASE.bytes.len())]));
        }
    }
    seeds
}

/// Returns the set with an input in the place of a structure, whose checksum is corrected.
fn changed(kind: usize, place: usize, data: &[u8]) -> Option<Overlay> {
    let (_, len, checksum) = STRUCTURES[kind % STRUCTURES.len()];
    let places = &BASE.places[kind % STRUCTURES.len()];
    let &at = places.get(place % places.len().max(1))?;
    let device = Overlay::new(BASE.bytes.clone(), BASE.bytes.len());
    let most = if len == 0 { 4096 } else { len };
    device.poke(at, &data[..data.len().min(most)]);
    let len = if len == 0 {
        let mut stored = [0; 8];
        device.peek(at + 32, &mut stored);
        let stored = usize::try_from(u64::from_le_bytes(stored)).unwrap_or(usize::MAX);
        stored.clamp(checksum + 4, BASE.bytes.len() - at)
    } else {
        len
    };
    let mut bytes = vec![0; len];
    device.peek(at, &mut bytes);
    seal(&mut bytes, checksum);
    device.poke(at + checksum, &bytes[checksum..checksum + 4]);
    Some(device)
}

/// Opens, checks, uses and repairs a set.
fn run(mut data: &[u8]) {
    let (kind, place) = (number(&mut data), number(&mut data));
    let Some(device) = changed(kind, place, data) else { return };
    let Ok(set) = Set::open(&[Arc::new(device) as Arc<dyn Device>]) else { return };
    let _ = check(&set, FINDINGS, &mut |_| ());
    let mut random = SmallRng::seed_from_u64(1);
    if let Ok(fs) = Mfs::open(&set, clock(), &OpenOptions::default()) {
        let nodes = walk(&fs);
        change(&fs, nodes, &mut random);
        let _ = fs.unmount();
    }
    let Ok(repaired) = repair(&set, &*clock(), false, FINDINGS, &mut |_| ()) else { return };
    if repaired.after.is_clean() {
        let fs = Mfs::open(&set, clock(), &OpenOptions::default()).expect("what is whole can be opened");
        // A label may say that log storage was lost, which takes nothing else away.
        let can_be_written = !fs.read_only() || set.label_now().log_is_lost();
        assert!(can_be_written, "what is whole can be written: {:?}", fs.read_only_reasons());
        let nodes = walk(&fs);
        change(&fs, nodes, &mut random);
        let _ = fs.unmount();
    }
}
