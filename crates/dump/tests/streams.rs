//! Streams that are written and read again, whole and damaged.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Timestamp;
use spindle_dump::{
    BLOCK, Damage, Device, Error, Event, Inode, InodeMap, RECORD, Reader, Stamp, Volumes, Writer, attributes,
};
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

/// Volumes in memory, each with room for so many blocks.
struct Memory {
    rooms: Vec<usize>,
    volumes: Vec<Vec<u8>>,
}

impl Volumes for Memory {
    fn write(&mut self, block: &[u8]) -> io::Result<bool> {
        assert_eq!(block.len(), BLOCK);
        let room = self.rooms[(self.volumes.len() - 1) % self.rooms.len()];
        let volume = self.volumes.last_mut().unwrap();
        let fits = volume.len() + BLOCK <= room * BLOCK;
        if fits {
            volume.extend_from_slice(block);
        }
        Ok(fits)
    }

    fn change(&mut self, number: i32) -> io::Result<()> {
        self.volumes.push(Vec::new());
        assert_eq!(usize::try_from(number).unwrap(), self.volumes.len());
        Ok(())
    }
}

/// Writes a stream of files with these numbers.
fn write(files: &BTreeMap<u32, (File, Shape)>) -> Vec<u8> {
    write_volumes(files, vec![usize::MAX / BLOCK]).remove(0)
}

/// Writes a stream in volumes with room for these numbers of blocks, again and again.
fn write_volumes(files: &BTreeMap<u32, (File, Shape)>, rooms: Vec<usize>) -> Vec<Vec<u8>> {
    let mut map = InodeMap::with_room(20_000);
    for &ino in files.keys() {
        map.insert(ino);
    }
    let mut writer = Writer::new(Memory { rooms, volumes: vec![Vec::new()] }, stamp(), 20_000).unwrap();
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
    let (memory, records) = writer.finish().unwrap();
    let len: usize = memory.volumes.iter().map(Vec::len).sum();
    assert_eq!((len % BLOCK, len / RECORD), (0, usize::try_from(records).unwrap()));
    memory.volumes
}

/// What was read: the files, of those that come again the first, the maps, and the damage.
type Found = (BTreeMap<u32, File>, Vec<InodeMap>, Vec<Damage>);

/// Reads a stream.
fn read(bytes: &[u8]) -> Found {
    read_volumes(&[bytes]).unwrap()
}

/// Reads a stream from its volumes.
fn read_volumes(volumes: &[&[u8]]) -> Result<Found, Error> {
    let mut rest = volumes[1..].iter();
    let more = Box::new(|_| Ok(rest.next().copied()));
    let mut reader = Reader::new(volumes[0], Some(more))?;
    assert_eq!(reader.stamp(), &stamp());
    let (mut files, mut maps, mut damages) = (BTreeMap::new(), Vec::new(), Vec::new());
    loop {
        match reader.next_event()? {
            Event::InUse(map) | Event::InDump(map) => maps.push(map),
            Event::Damage(damage) => damages.push(damage),
            Event::End => return Ok((files, maps, damages)),
            Event::File { ino, inode, .. } => {
                let mut data = Vec::new();
                let mut buffer = vec![0; 8 * RECORD];
                while let Some(piece) = reader.data(&mut buffer)? {
                    data.resize(usize::try_from(piece.at).unwrap(), 0);
                    data.extend_from_slice(&buffer[..piece.len]);
                }
                data.resize(usize::try_from(reader.data_passed()).unwrap(), 0);
                let attributes = reader.attributes()?;
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

/// Returns volumes as slices.
fn slices(volumes: &[Vec<u8>]) -> Vec<&[u8]> {
    volumes.iter().map(Vec::as_slice).collect()
}

/// Returns the number that stands at a byte of a record.
fn number(record: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(record[at..at + 8].try_into().unwrap())
}

/// Promise: a stream in volumes of any sizes is read as one, wherever they change: in maps, in data
/// and attributes, between files. Each volume begins with a header that has its number, the number
/// of its record, and how many records follow before the next header, so that other restores can
/// go on.
#[test]
fn volumes_are_one_stream() {
    let mut random = StdRng::seed_from_u64(seed());
    let (files, _) = stream(&mut random);
    for rooms in [vec![1], vec![2, 1], vec![7, 100], vec![50], vec![random.random_range(1..200)]] {
        let volumes = write_volumes(&files, rooms.clone());
        assert!(volumes.len() > 1, "{rooms:?}");
        let (found, maps, damage) = read_volumes(&slices(&volumes)).unwrap();
        assert_eq!((damage, maps.len()), (vec![], 2), "{rooms:?}");
        assert!(files.iter().all(|(ino, (file, _))| found.get(ino) == Some(file)), "{rooms:?}");
        let mut records = 0;
        for (n, volume) in (1_i32..).zip(&volumes) {
            assert_eq!((volume[0], &volume[12..16]), (1, &n.to_le_bytes()[..]), "{rooms:?}");
            assert_eq!(number(volume, 912), records, "{rooms:?}");
            let count = usize::try_from(i32::from_le_bytes(volume[160..164].try_into().unwrap())).unwrap();
            let behind = (count + 1) * RECORD;
            if n > 1 && behind < volume.len() {
                assert_eq!(&volume[behind + 24..behind + 28], &0x1954_0119_u32.to_le_bytes(), "{rooms:?}");
            }
            records += i64::try_from(volume.len() / RECORD).unwrap();
        }
    }
}

/// Puts the checksum of a header right.
fn sign(record: &mut [u8]) {
    record[28..32].fill(0);
    let words = record.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let sum = words.fold(0, u32::wrapping_add);
    record[28..32].copy_from_slice(&84_446_u32.wrapping_sub(sum).to_le_bytes());
}

/// Promise: volumes as a BSD writes them at the end of a tape are read as well: their headers do
/// not count as records, and may repeat what the tape before had got already.
#[test]
fn headers_that_do_not_count() {
    let mut random = StdRng::seed_from_u64(seed());
    let (files, bytes) = stream(&mut random);
    for (cut, repeated) in [(30, 0), (31, 0), (30, 4), (500, 10), (2000, 3)] {
        let mut header = bytes[..RECORD].to_vec();
        header[12] = 2;
        let first = i64::from(cut - repeated);
        header[912..920].copy_from_slice(&first.to_le_bytes());
        sign(&mut header);
        let second = [&header[..], &bytes[usize::try_from(first).unwrap() * RECORD..]].concat();
        let first = &bytes[..usize::try_from(cut).unwrap() * RECORD];
        let (found, _, damage) = read_volumes(&[first, &second]).unwrap();
        assert_eq!(damage, [], "{cut} {repeated}");
        assert!(files.iter().all(|(ino, (file, _))| found.get(ino) == Some(file)), "{cut} {repeated}");
    }
}

/// Promise: a volume that is missing, cut or begins with damage is reported and costs only what was
/// in it; one of another dump or in the wrong place is refused, and no file gets its bytes.
#[test]
fn volumes_that_are_missing() {
    let mut random = StdRng::seed_from_u64(seed());
    let (files, _) = stream(&mut random);
    let volumes = write_volumes(&files, vec![40]);
    let (count, all) = (volumes.len(), slices(&volumes));
    let whole = |found: &BTreeMap<u32, File>| {
        files.iter().filter(|(ino, (file, _))| found.get(ino) == Some(file)).count()
    };
    for lost in 1..count {
        let left: Vec<_> = [&all[..lost], &all[lost + 1..]].concat();
        let (found, _, damage) = read_volumes(&left).unwrap();
        assert!(!damage.is_empty(), "{lost}");
        // A volume has 400 records; files have up to 3000.
        assert!(whole(&found) + 40 > files.len(), "{lost}: {}", whole(&found));
        for (ino, file) in &found {
            assert!(files[ino].0.inode == file.inode, "{lost}: inode {ino}");
        }
        let mut cut = all.clone();
        cut[lost - 1] = &all[lost - 1][..all[lost - 1].len() - 3 * RECORD];
        let (_, _, damage) = read_volumes(&cut).unwrap();
        assert!(damage.iter().any(|damage| damage.what.contains("3 records are missing")), "{damage:?}");
        let mut bad = volumes[lost].clone();
        bad[700] ^= 1;
        let mut damaged = all.clone();
        damaged[lost] = &bad;
        let (found, _, damage) = read_volumes(&damaged).unwrap();
        assert_eq!((whole(&found), damage.len()), (files.len(), 1), "{damage:?}");
    }
    assert!(count > 3, "{count}");
    let refused = |volumes: &[&[u8]]| read_volumes(volumes).unwrap_err().to_string();
    assert!(refused(&[all[1]]).contains("is volume 2 of a dump"));
    assert!(refused(&[all[0], all[0]]).contains("volume 1 was given in place of volume 2"));
    assert!(refused(&[all[0], &[0; 4096]]).contains("volume 2 is not of this dump"));
    let mut other = volumes[1].clone();
    other[896] ^= 1;
    sign(&mut other[..RECORD]);
    assert!(refused(&[all[0], &other]).contains("volume 2 is not of this dump"));
}
