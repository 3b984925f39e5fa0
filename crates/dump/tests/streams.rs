//! Streams that are written and read again, whole and damaged.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Timestamp;
use spindle_dump::{Damage, Device, Event, Inode, InodeMap, RECORD, Reader, Stamp, Writer, attributes};
use std::collections::BTreeMap;
use std::io;

/// Returns the seed of the random tests: `SPINDLE_SEED`, or a random one; a failing test prints it.
fn seed() -> u64 {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-dump --test streams");
    seed
}

fn stamp() -> Stamp {
    Stamp {
        date: 5_000_000_000,
        ddate: 17,
        level: 3,
        label: b"weekly".to_vec(),
        filesys: b"/home".to_vec(),
        device: b"disk.img".to_vec(),
        host: b"here".to_vec(),
    }
}

/// A file: what the header says, runs of data, and extended attributes.
#[derive(Clone, Debug, PartialEq)]
struct File {
    inode: Inode,
    data: Vec<u8>,
    attributes: Vec<u8>,
}

/// Size of a file and its runs of data.
type Shape = (u64, Vec<(u64, usize)>);

fn file(random: &mut StdRng, (size, runs): &Shape, attributes: usize) -> File {
    let mut data = vec![0; usize::try_from(*size).unwrap()];
    for &(at, len) in runs {
        let at = usize::try_from(at).unwrap();
        random.fill(&mut data[at..at + len]);
    }
    let value = vec![5; attributes];
    let area =
        if attributes == 0 { Vec::new() } else { attributes::encode(&[(b"user.a".to_vec(), value)]).0 };
    let inode = Inode {
        mode: 0o100_640,
        size: *size,
        uid: 70_000,
        gid: 5,
        atime: Timestamp::new(-3, 999_999_999),
        mtime: Timestamp::new(1 << 33, 1),
        birthtime: Some(Timestamp::new(12, 13)),
        device: Device::Raw(0),
        flags: 0x2_0001,
        extsize: u32::try_from(area.len()).unwrap(),
        names: 3,
    };
    File { inode, data, attributes: area }
}

fn shapes() -> Vec<Shape> {
    let mib = 1 << 20;
    vec![
        (0, vec![]),
        (1, vec![(0, 1)]),
        (1024, vec![(0, 1024)]),
        (300_000, vec![(0, 300_000)]),
        (512 << 10, vec![(0, 512 << 10)]),
        ((512 << 10) + 1, vec![(0, (512 << 10) + 1)]),
        (3 * mib + 77, vec![(4096, 8192), (mib, 5000), (3 * mib, 77)]),
        (2 * mib, vec![]),
        (mib, vec![(mib - 1024, 1024)]),
    ]
}

/// Writes a stream of files with these numbers.
fn write(files: &BTreeMap<u32, (File, Shape)>) -> Vec<u8> {
    let mut map = InodeMap::with_room(20_000);
    for &ino in files.keys() {
        map.insert(ino);
    }
    let mut writer = Writer::new(Vec::new(), stamp(), 20_000).unwrap();
    writer.maps(&map, &map).unwrap();
    for (&ino, (file, (_, runs))) in files {
        let mut runs = runs.iter().copied();
        let mut left: Option<(u64, usize)> = None;
        let mut next = |buffer: &mut [u8]| {
            let Some((at, len)) = left.take().or_else(|| runs.next()) else {
                return Ok::<_, io::Error>(None);
            };
            let here = len.min(buffer.len());
            let from = usize::try_from(at).unwrap();
            buffer[..here].copy_from_slice(&file.data[from..from + here]);
            left = (here < len).then_some((at + here as u64, len - here));
            Ok(Some((at, here)))
        };
        writer.file(ino, &file.inode, &mut next, &file.attributes).unwrap();
    }
    let (bytes, records) = writer.finish().unwrap();
    assert_eq!((bytes.len() % (10 * RECORD), bytes.len() / RECORD), (0, usize::try_from(records).unwrap()));
    bytes
}

/// Reads a stream: its files, the maps, and the damage. Of a file that comes again the first
/// counts.
fn read(bytes: &[u8]) -> (BTreeMap<u32, File>, Vec<InodeMap>, Vec<Damage>) {
    let mut reader = Reader::new(bytes).unwrap();
    assert_eq!(reader.stamp(), &stamp());
    let (mut files, mut maps, mut damages) = (BTreeMap::new(), Vec::new(), Vec::new());
    loop {
        match reader.next_event().unwrap() {
            Event::InUse(map) | Event::InDump(map) => maps.push(map),
            Event::Damage(damage) => damages.push(damage),
            Event::End => return (files, maps, damages),
            Event::File { ino, inode, .. } => {
                let mut data = Vec::new();
                let mut buffer = vec![0; 8 * RECORD];
                while let Some(piece) = reader.data(&mut buffer).unwrap() {
                    data.resize(usize::try_from(piece.at).unwrap(), 0);
                    data.extend_from_slice(&buffer[..piece.len]);
                }
                data.resize(usize::try_from(reader.data_passed()).unwrap(), 0);
                let attributes = reader.attributes().unwrap();
                files.entry(ino).or_insert(File { inode, data, attributes });
            }
        }
    }
}

fn stream(random: &mut StdRng) -> (BTreeMap<u32, (File, Shape)>, Vec<u8>) {
    let mut files = BTreeMap::new();
    let mut ino = 2;
    for attributes in [0, 10, 1000, 70_000] {
        for shape in shapes() {
            files.insert(ino, (file(random, &shape, attributes), shape));
            ino += 3;
        }
    }
    let bytes = write(&files);
    (files, bytes)
}

/// Promise: what is written is read: inodes, data with holes, attributes beside data and on their
/// own, and the maps.
#[test]
fn streams_round_trip() {
    let mut random = StdRng::seed_from_u64(seed());
    let (files, bytes) = stream(&mut random);
    let (found, maps, damage) = read(&bytes);
    assert_eq!(damage, []);
    assert_eq!(maps.len(), 2);
    assert_eq!(maps[1].iter().collect::<Vec<_>>(), files.keys().copied().collect::<Vec<_>>());
    assert_eq!(found.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>());
    for (ino, (file, _)) in &files {
        assert!(&found[ino] == file, "inode {ino}");
    }
}

/// Promise: a stream in which records are lost, doubled, or cut off is read to its end, and every
/// file that is not whole is next to a damage: there is none without a report. Others are whole.
#[test]
fn torture_lost_records() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (files, bytes) = stream(&mut random);
    let records = bytes.len() / RECORD;
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for case in 0..cases {
        let at = random.random_range(1..records - 1);
        let len = random.random_range(1..6).min(records - at);
        let (from, to) = (at * RECORD, (at + len) * RECORD);
        let damaged = match case % 3 {
            0 => [&bytes[..from], &bytes[to..]].concat(),
            1 => [&bytes[..to], &bytes[from..]].concat(),
            _ => bytes[..from].to_vec(),
        };
        let (found, maps, damage) = read(&damaged);
        let is_whole = maps.len() == 2 && files.iter().all(|(ino, (file, _))| found.get(ino) == Some(file));
        let only_ends = case % 3 == 2 && is_whole;
        assert!(is_whole || !damage.is_empty(), "case {case} of seed {seed}: records {at}+{len}");
        assert!(!damage.is_empty() || only_ends || at + len + 10 > records, "case {case} of seed {seed}");
        let wrong = files.iter().filter(|(ino, (file, _))| found.get(ino) != Some(file)).count();
        assert!(case % 3 == 2 || wrong <= 6, "case {case} of seed {seed}: {wrong} files are lost");
    }
}

/// Promise: bytes at random in place of others never panic, and cost no more than what they stand
/// in.
#[test]
fn torture_random_bytes() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let (files, bytes) = stream(&mut random);
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(60);
    for case in 0..cases {
        let mut damaged = bytes.clone();
        let at = random.random_range(RECORD..bytes.len() - 200);
        let len = random.random_range(1..200);
        random.fill(&mut damaged[at..at + len]);
        let (found, ..) = read(&damaged);
        let wrong = files.iter().filter(|(ino, (file, _))| found.get(ino) != Some(file)).count();
        assert!(wrong <= 2, "case {case} of seed {seed}: {wrong} files are lost");
    }
}
