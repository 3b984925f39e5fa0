//! Restoring damaged and hostile streams.

use super::random::seed;
use super::tree::{Tree, read_tree};
use super::{Chain, FORMATS, Format, chain, dump, make, restore, stamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle::dump::Honor;
use spindle_clock::ManualClock;
use spindle_dump::{Event, RECORD, Reader};
use spindle_vfs::{FileKind, Ino, NewNode, Privilege};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Which records of a stream are headers of files, and where the files that are no directories
/// begin.
struct Anatomy {
    headers: Vec<usize>,
    first_file: usize,
}

impl Anatomy {
    fn of(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(bytes, None).unwrap();
        let (mut headers, mut first_file) = (Vec::new(), bytes.len() / RECORD);
        loop {
            match reader.next_event().unwrap() {
                Event::File { inode, record, .. } => {
                    let record = usize::try_from(record).unwrap();
                    headers.push(record);
                    if inode.kind() != Some(FileKind::Directory) {
                        first_file = first_file.min(record);
                    }
                }
                Event::End => return Self { headers, first_file },
                Event::InUse(_) | Event::InDump(_) => {}
                Event::Damage(damage) => panic!("{damage}"),
            }
        }
    }

    /// Returns a record: often one before the files, or the header of a file.
    fn pick(&self, records: usize, random: &mut StdRng) -> usize {
        match random.random_range(0..3) {
            0 => random.random_range(0..self.first_file.max(1)),
            1 if !self.headers.is_empty() => self.headers[random.random_range(0..self.headers.len())],
            _ => random.random_range(0..records),
        }
    }
}

/// Damages a stream at random. Returns what was done, and the only record that was hit if there is
/// one.
fn damage(bytes: &mut Vec<u8>, random: &mut StdRng) -> (String, Option<usize>) {
    let anatomy = Anatomy::of(bytes);
    let records = bytes.len() / RECORD;
    let at = anatomy.pick(records, random);
    let range = at * RECORD..(at + 1) * RECORD;
    let only = (at >= anatomy.first_file).then_some(at);
    match random.random_range(0..8) {
        0..3 => {
            let count = random.random_range(1..4);
            for _ in 0..count {
                let byte = range.start + random.random_range(0..RECORD);
                bytes[byte] ^= 1 << random.random_range(0..8);
            }
            (format!("{count} bits of record {at} flipped"), only)
        }
        3 => {
            let from = random.random_range(range.clone());
            let to = random.random_range(from..=range.end);
            random.fill(&mut bytes[from..to]);
            (format!("random bytes {from} to {to}"), only)
        }
        4 => {
            bytes[range].fill(0);
            (format!("zeros in record {at}"), only)
        }
        5 => {
            let count = random.random_range(1..5).min(records - at);
            bytes.drain(range.start..range.start + count * RECORD);
            (format!("{count} records from {at} removed"), None)
        }
        6 => {
            let other = anatomy.pick(records, random);
            let copy = bytes[other * RECORD..(other + 1) * RECORD].to_vec();
            bytes[range].copy_from_slice(&copy);
            (format!("record {other} in place of {at}"), None)
        }
        _ => {
            let len = random.random_range(1..bytes.len());
            bytes.truncate(len);
            (format!("cut to {len} bytes"), None)
        }
    }
}

/// Returns what headers say of the files of a tree, without their names and data.
fn headers(tree: &Tree) -> Vec<&str> {
    let mut headers: Vec<_> = tree.0.values().map(|file| &file.attributes[..]).collect();
    headers.sort_unstable();
    headers
}

/// Returns the format of a case, which is known by its seed alone.
fn format_of(case_seed: u64) -> Format {
    FORMATS[usize::try_from(case_seed % 6).unwrap()]
}

/// Returns how many dumps a case makes.
fn dumps_of(case_seed: u64) -> usize {
    1 + usize::try_from(case_seed % 3).unwrap()
}

/// Restores a damaged chain. Returns the tree, and what was said.
fn restored(dir: &Path, case_seed: u64, chain: &Chain) -> (Tree, Vec<String>) {
    let clock = Arc::new(ManualClock::at(2_000_000_000));
    let target = make(&dir.join("target.img"), format_of(case_seed), &clock);
    let (_, said) = restore(&chain.streams, &target, chain.dialect);
    let tree = read_tree(&target);
    target.unmount().unwrap();
    (tree, said)
}

/// Returns the seeds of the cases of a test.
fn case_seeds(test: &str) -> Range<u64> {
    let seed = seed(test);
    seed..seed + std::env::var("SPINDLE_CASES").map_or(60, |cases| cases.parse::<u64>().unwrap())
}

/// Returns the chain of a case, its random numbers, and which of the dumps is to be damaged.
fn victim(dir: &Path, case_seed: u64) -> (Chain, StdRng, usize) {
    let chain = chain(dir, format_of(case_seed), case_seed, dumps_of(case_seed));
    let mut random = StdRng::seed_from_u64(case_seed);
    let which = random.random_range(0..chain.streams.len());
    (chain, random, which)
}

/// Promise: with any damage, the restore does not panic, and says something unless every file came
/// with its attributes. Damage in the data or the header of one file costs no other.
#[test]
fn torture_damage_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for case_seed in case_seeds("torture_damage_is_reported") {
        let (mut chain, mut random, which) = victim(dir.path(), case_seed);
        let (what, only) = damage(&mut chain.streams[which], &mut random);
        let (tree, said) = restored(dir.path(), case_seed, &chain);
        let context = format!(
            "SPINDLE_SEED={case_seed} SPINDLE_CASES=1, dump {which} of {}, {what}: {said:#?}",
            chain.streams.len()
        );
        if said.is_empty() {
            assert_eq!(headers(&tree), headers(&chain.tree), "{context}");
        }
        if only.is_some() {
            let differ = |path: &&Vec<u8>| tree.0.get(*path) != chain.tree.0.get(*path);
            let differ: BTreeSet<_> = chain.tree.0.keys().filter(differ).collect();
            let files: BTreeSet<_> = differ.iter().map(|path| &chain.tree.0[*path].first).collect();
            assert!(files.len() <= 1, "{context}: {differ:?}");
        }
    }
}

/// Promise: where a directory names the wrong inode, what was below the right one is restored under
/// its number, and said to be; so are files that no directory names, and all of them if the root is
/// lost.
#[test]
fn what_no_directory_names_gets_a_number() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let image = make(&dir.path().join("source.img"), FORMATS[0], &clock);
    let fs = image.fs();
    let make_in = |dir, name: &[u8], kind| {
        let ino = fs.create(dir, name, &NewNode::new(kind, 0o700), Privilege::Root).unwrap().ino;
        fs.forget(ino, 1);
        ino
    };
    let above = make_in(fs.root(), b"above", FileKind::Directory);
    let below = make_in(above, b"below", FileKind::Directory);
    make_in(below, b"fifo", FileKind::Fifo);
    let file = make_in(above, b"file", FileKind::Regular);
    let bytes = dump(&image, stamp(0, 1_000_000_001, 0), Honor::default());
    image.unmount().unwrap();
    let restored = |bytes: Vec<u8>| {
        let chain = Chain { streams: vec![bytes], tree: Tree(BTreeMap::new()), dialect: FORMATS[0].2 };
        let (tree, said) = restored(dir.path(), 0, &chain);
        let names = tree.0.keys().map(|path| String::from_utf8(path.clone()).unwrap());
        (names.collect::<Vec<_>>(), said)
    };
    let place = |name: &[u8]| bytes.windows(name.len()).position(|found| found == name).unwrap() - 8;
    let (below_at, file_at) = (place(b"below\0"), place(b"file\0"));
    let number = |ino: Ino| u32::try_from(ino.0).unwrap().to_le_bytes();

    let mut wrong = bytes.clone();
    wrong[below_at..below_at + 4].copy_from_slice(&number(file));
    let (names, said) = restored(wrong);
    let hash = format!("/#{}", below.0);
    let wanted = ["/", &hash, &format!("{hash}/fifo"), "/above", "/above/below", "/above/file"];
    assert_eq!(names, wanted, "{said:#?}");
    assert!(
        said[0].contains(&format!("no directory names inode {}; it becomes '#{0}'", below.0)),
        "{said:#?}"
    );

    let mut unnamed = bytes.clone();
    unnamed[file_at..file_at + 4].fill(0);
    let (names, said) = restored(unnamed);
    assert!(names.contains(&format!("/#{}", file.0)) && said.len() == 1, "{names:?} {said:#?}");

    let mut rootless = bytes.clone();
    let root_at = Anatomy::of(&bytes).headers[0] * RECORD;
    rootless[root_at..root_at + 2 * RECORD].fill(0xee);
    let (names, said) = restored(rootless);
    let hash = format!("/#{}", above.0);
    let wanted =
        ["/", &hash, &format!("{hash}/below"), &format!("{hash}/below/fifo"), &format!("{hash}/file")];
    assert_eq!(names, wanted, "{said:#?}");
    assert!(said.iter().any(|said| said.contains("the root directory is in none of the dumps")), "{said:#?}");
}

/// Puts the checksum of a header right.
fn sign(record: &mut [u8]) {
    record[28..32].fill(0);
    let words = record.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let sum = words.fold(0, u32::wrapping_add);
    record[28..32].copy_from_slice(&84_446_u32.wrapping_sub(sum).to_le_bytes());
}

/// Promise: headers with right checksums and any contents do not make a restore panic or run
/// without end.
#[test]
fn torture_hostile_headers() {
    let dir = tempfile::tempdir().unwrap();
    for case_seed in case_seeds("torture_hostile_headers") {
        let (mut chain, mut random, which) = victim(dir.path(), case_seed);
        let bytes = &mut chain.streams[which];
        let anatomy = Anatomy::of(bytes);
        for _ in 0..random.random_range(1..4) {
            let at = anatomy.pick(bytes.len() / RECORD, &mut random);
            let record = &mut bytes[at * RECORD..(at + 1) * RECORD];
            // Kind, inode, mode, size, device, attributes, count, holes, and anything.
            let fields = [0, 20, 32, 40, 72, 104, 160, 164, random.random_range(0..RECORD - 8)];
            let field = fields[random.random_range(0..fields.len())];
            let extremes = [0, 1, 2, 3, 5, 511, 512, 513, 0x7fff_ffff, u32::MAX, random.random()];
            let value: u32 = extremes[random.random_range(0..extremes.len())];
            record[field..field + 4].copy_from_slice(&value.to_le_bytes());
            sign(record);
        }
        let (tree, _) = restored(dir.path(), case_seed, &chain);
        assert!(!tree.0.is_empty());
    }
}
