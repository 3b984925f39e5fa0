//! The labels of Apple, NEXTSTEP and Ultrix.

use super::*;

/// Returns Apple's map from block 0 on: name, type, first block and length of each partition.
pub(super) fn apple_map(block: usize, parts: &[(&str, &str, u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; block * (1 + parts.len())];
    put(&mut bytes, 0, b"ER");
    put(&mut bytes, 2, &u16::try_from(block).unwrap().to_be_bytes());
    for (i, &(name, kind, start, count)) in parts.iter().enumerate() {
        let at = block * (i + 1);
        put(&mut bytes, at, b"PM");
        put(&mut bytes, at + 4, &u32::try_from(parts.len()).unwrap().to_be_bytes());
        put(&mut bytes, at + 8, &start.to_be_bytes());
        put(&mut bytes, at + 12, &count.to_be_bytes());
        put(&mut bytes, at + 16, name.as_bytes());
        put(&mut bytes, at + 48, kind.as_bytes());
    }
    bytes
}

/// Returns a label of NEXTSTEP: first sector behind the front porch and length of each partition.
pub(super) fn next_label(version: [u8; 4], secsize: i32, front: i16, parts: &[(i32, i32)]) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    put(&mut bytes, 0, &version);
    put(&mut bytes, 12, b"Release");
    put(&mut bytes, 92, &secsize.to_be_bytes());
    put(&mut bytes, 112, &front.to_be_bytes());
    for (i, at) in (190..).step_by(46).take(8).enumerate() {
        let (offset, size) = parts.get(i).copied().unwrap_or((-1, -1));
        put(&mut bytes, at, &offset.to_be_bytes());
        put(&mut bytes, at + 4, &size.to_be_bytes());
        put(&mut bytes, at + 37, b"4.3BSD");
    }
    seal_next(&mut bytes, if &version == b"dlV3" { 558 } else { 7238 });
    bytes
}

/// Puts the checksum of a label of NEXTSTEP at its place.
pub(super) fn seal_next(bytes: &mut [u8], at: usize) {
    let words = bytes[..at].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    put(bytes, at, &((sum + (sum >> 16)) & 0xffff).to_be_bytes()[2..]);
}

/// Returns the first 32 sectors of a disk with a table of Ultrix: length and first sector of each
/// partition.
pub(super) fn ultrix(parts: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 16384];
    put(&mut bytes, 16312, &0x03_2957_u32.to_le_bytes());
    put(&mut bytes, 16316, &1_u32.to_le_bytes());
    for (i, &(size, offset)) in parts.iter().enumerate() {
        put(&mut bytes, 16320 + 8 * i, &size.to_le_bytes());
        put(&mut bytes, 16324 + 8 * i, &offset.to_le_bytes());
    }
    bytes
}

/// Promise: Apple's map is read in blocks of the size that its first block names, or of 512 bytes
/// if the map is there; only free space may overlap.
#[test]
fn apple_partition_map() {
    let parts = [
        ("Apple", "Apple_partition_map", 1, 15),
        ("Boot", "Apple_Boot", 16, 100),
        ("Photos", "Apple_UFS", 116, 3000),
        ("", "Apple_Free", 100, 50),
        ("far", "Apple_HFS", 4990, 20_000),
    ];
    let good = |n: u64| {
        [("p1", 1, 15), ("p2", 16, 100), ("p3", 116, 3000), ("p4", 100, 50), ("p5", 4990, 20_000)]
            .map(|(name, start, size)| (name, start * n, size * n))
    };
    for block in [512, 2048] {
        let device = disk(&[(0, apple_map(block, &parts))]);
        expect(&device, &good(block as u64 / 512), &[]);
        let table = partitions(&device).unwrap();
        assert_eq!(table.scheme, Some(Scheme::Apple));
        let ufs = table.find("p3").unwrap();
        assert_eq!((ufs.kind.as_str(), ufs.label.as_deref()), ("Apple_UFS", Some("Photos")));
    }
    let mut hybrid = apple_map(512, &parts);
    put(&mut hybrid, 2, &2048_u16.to_be_bytes());
    put(&mut hybrid, 2048, &[0; 2]);
    put(&mut hybrid, 512 + 4, &3_u32.to_be_bytes());
    expect(&disk(&[(0, hybrid)]), &good(1)[..3], &[]);
    expect(&disk(&[(0, apple_map(512, &[("", "x", 10, 20), ("", "y", 29, 5)]))]), &[], &["p1", "p2"]);
    let mut cut = apple_map(512, &parts);
    put(&mut cut, 1024, &[0; 2]);
    let table = partitions(&disk(&[(0, cut)])).unwrap();
    assert!(table.partitions.len() == 1 && table.notes[0].contains("ends before partition 2"));
}

/// Promise: the labels of NEXTSTEP and OPENSTEP, in all versions and with the sectors of disks and
/// CD-ROMs, count behind the front porch; a wrong checksum or sector size is noted.
#[test]
fn next_labels() {
    for version in [*b"NeXT", *b"dlV2", *b"dlV3"] {
        for (secsize, n) in [(512, 1), (1024, 2), (2048, 4)] {
            let device = disk(&[(
                0,
                next_label(version, secsize, 160, &[(0, 3000), (3000, 500), (0, 0), (4000, 16_000)]),
            )]);
            // The last one is cut.
            let good = [("a", 160 * n, 3000 * n), ("b", 3160 * n, 500 * n), ("d", 4160 * n, 16_000 * n)];
            expect(&device, &good, &[]);
            let table = partitions(&device).unwrap();
            let a = table.find("a").unwrap();
            assert_eq!(
                (table.scheme, a.kind.as_str(), a.label.as_deref()),
                (Some(Scheme::Next), "4.3BSD", Some("Release"))
            );
        }
        let mut wrong = next_label(version, 1024, 160, &[(0, 3000)]);
        wrong[30] ^= 1;
        for (bytes, why) in [(wrong, "checksum"), (next_label(version, 0, 160, &[(0, 3000)]), "sectors of 0")]
        {
            let table = partitions(&disk(&[(0, bytes)])).unwrap();
            assert!(table.partitions.is_empty() && table.notes[0].contains(why), "{:?}", table.notes);
        }
    }
    let parts = [(i32::MIN, 1000), (0, i32::MAX), (500, 100), (550, 100)];
    expect(&disk(&[(0, next_label(*b"dlV3", 512, -1, &parts))]), &[], &["a", "b", "c", "d"]);
}

/// Promise: the table of Ultrix at the end of the first superblock is read; its partitions may
/// overlap, as its usual ones do, and what is there of a cut one can be read.
#[test]
fn ultrix_table() {
    let parts = [(3000, 0), (1000, 3000), (20_000, 0), (0, 0), (5000, 2000), (5000, 15_001)];
    let device = disk(&[(0, ultrix(&parts))]);
    expect(
        &device,
        &[("a", 0, 3000), ("b", 3000, 1000), ("c", 0, DISK), ("e", 2000, 5000), ("f", 15_001, 5000)],
        &[],
    );
    assert_eq!(partitions(&device).unwrap().scheme, Some(Scheme::Ultrix));
    let mut invalid = ultrix(&parts);
    put(&mut invalid, 16316, &[0]);
    assert_eq!(partitions(&disk(&[(0, invalid)])).unwrap().scheme, None);
}
