//! Reads labels that are built here byte by byte.

use super::*;
use crate::MemoryDevice;
use others::{apple_map, next_label, seal_next, ultrix};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

mod others;

/// Size of the test disks in sectors.
const DISK: u64 = 20_000;

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    bytes[offset..offset + value.len()].copy_from_slice(value);
}

fn disk(parts: &[(u64, Vec<u8>)]) -> MemoryDevice {
    let device = MemoryDevice::new(DISK * 512);
    for (sector, bytes) in parts {
        let mut bytes = bytes.clone();
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        device.write_at(sector * 512, &bytes).unwrap();
    }
    device
}

/// Returns a boot record or extended table: type, start and length of each slot.
fn mbr(slots: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    for (i, &(typ, start, size)) in slots.iter().enumerate() {
        let at = 446 + 16 * i;
        bytes[at] = if i == 0 { 0x80 } else { 0 };
        bytes[at + 4] = typ;
        put(&mut bytes, at + 8, &start.to_le_bytes());
        put(&mut bytes, at + 12, &size.to_le_bytes());
    }
    put(&mut bytes, 510, &[0x55, 0xaa]);
    bytes
}

/// Returns a disklabel: size, offset, type of each partition; `high` has OpenBSD's high bits of all
/// offsets.
fn bsd(parts: &[(u32, u32, u8)], big: bool, high: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![0; 148 + 16 * parts.len()];
    let order = |le: &[u8]| -> Vec<u8> { if big { le.iter().rev().copied().collect() } else { le.to_vec() } };
    for at in [0, 132] {
        put(&mut bytes, at, &order(&0x8256_4557_u32.to_le_bytes()));
    }
    put(&mut bytes, 40, &order(&512_u32.to_le_bytes()));
    put(&mut bytes, 114, &order(&u16::from(high.is_some()).to_le_bytes()));
    put(&mut bytes, 138, &order(&u16::try_from(parts.len()).unwrap().to_le_bytes()));
    for (i, &(size, offset, fstype)) in parts.iter().enumerate() {
        let at = 148 + 16 * i;
        put(&mut bytes, at, &order(&size.to_le_bytes()));
        put(&mut bytes, at + 4, &order(&offset.to_le_bytes()));
        // Only OpenBSD reads these as high bits; elsewhere they are a fragment size.
        put(&mut bytes, at + 8, &order(&high.unwrap_or(1024).to_le_bytes()));
        bytes[at + 12] = fstype;
    }
    let (mut even, mut odd) = (0, 0);
    for word in bytes.chunks(2) {
        even ^= word[0];
        odd ^= word[1];
    }
    put(&mut bytes, 136, &[even, odd]);
    bytes
}

/// Returns the header and entries of a GPT: type GUID, first and last sector of each entry.
fn gpt(my: u64, other: u64, entries_at: u64, parts: &[([u8; 16], u64, u64)]) -> (Vec<u8>, Vec<u8>) {
    let mut entries = vec![0; 128 * 128];
    for (i, (guid, first, last)) in parts.iter().enumerate() {
        put(&mut entries, 128 * i, guid);
        put(&mut entries, 128 * i + 32, &first.to_le_bytes());
        put(&mut entries, 128 * i + 40, &last.to_le_bytes());
        let name: Vec<u8> = format!("part{i}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        put(&mut entries, 128 * i + 56, &name);
    }
    let mut header = vec![0; 92];
    put(&mut header, 0, b"EFI PART\0\0\x01\0\x5c\0\0\0");
    for (at, value) in [(24, my), (32, other), (40, 34), (48, DISK - 34), (72, entries_at)] {
        put(&mut header, at, &value.to_le_bytes());
    }
    put(&mut header, 80, &128_u32.to_le_bytes());
    put(&mut header, 84, &128_u32.to_le_bytes());
    put(&mut header, 88, &crc32fast::hash(&entries).to_le_bytes());
    let crc = crc32fast::hash(&header);
    put(&mut header, 16, &crc.to_le_bytes());
    (header, entries)
}

const UFS: [u8; 16] = *b"\xb6\x7c\x6e\x51\xcf\x6e\xd6\x11\x8f\xf8\x00\x02\x2d\x09\x71\x2b";
const LABELLED: [u8; 16] = *b"\xb4\x7c\x6e\x51\xcf\x6e\xd6\x11\x8f\xf8\x00\x02\x2d\x09\x71\x2b";

/// Returns a whole disk with a GPT, primary and backup.
fn gpt_disk(parts: &[([u8; 16], u64, u64)]) -> MemoryDevice {
    let (primary, entries) = gpt(1, DISK - 1, 2, parts);
    let (backup, _) = gpt(DISK - 1, 1, DISK - 33, parts);
    let protective = mbr(&[(0xee, 1, u32::try_from(DISK - 1).unwrap())]);
    disk(&[(0, protective), (1, primary), (2, entries.clone()), (DISK - 33, entries), (DISK - 1, backup)])
}

/// Returns a Sun label with 10 sectors per cylinder: tag, first cylinder and sectors of each
/// partition.
fn sun(parts: &[(u16, u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    put(&mut bytes, 128, &1_u32.to_be_bytes());
    put(&mut bytes, 140, &8_u16.to_be_bytes());
    put(&mut bytes, 188, &0x600d_deee_u32.to_be_bytes());
    put(&mut bytes, 436, &2_u16.to_be_bytes());
    put(&mut bytes, 438, &5_u16.to_be_bytes());
    for (i, &(tag, cylinder, sectors)) in parts.iter().enumerate() {
        put(&mut bytes, 142 + 4 * i, &tag.to_be_bytes());
        put(&mut bytes, 444 + 8 * i, &cylinder.to_be_bytes());
        put(&mut bytes, 448 + 8 * i, &sectors.to_be_bytes());
    }
    put(&mut bytes, 508, &[0xda, 0xbe]);
    let sum: [u8; 2] = bytes.chunks(2).fold([0; 2], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
    put(&mut bytes, 510, &sum);
    bytes
}

/// Returns a Solaris table of contents: tag, first sector and sectors of each partition.
fn vtoc(parts: &[(u16, u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    put(&mut bytes, 12, &0x600d_deee_u32.to_le_bytes());
    put(&mut bytes, 16, &1_u32.to_le_bytes());
    put(&mut bytes, 30, &16_u16.to_le_bytes());
    for (i, &(tag, start, size)) in parts.iter().enumerate() {
        put(&mut bytes, 72 + 12 * i, &tag.to_le_bytes());
        put(&mut bytes, 76 + 12 * i, &start.to_le_bytes());
        put(&mut bytes, 80 + 12 * i, &size.to_le_bytes());
    }
    bytes
}

/// Returns name, first sector and sectors of partitions that can be opened, and the names of
/// others.
fn listed(device: &MemoryDevice) -> (Vec<(String, u64, u64)>, Vec<String>) {
    let table = partitions(device).unwrap();
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for p in &table.partitions {
        if table.find(&p.name).is_ok() {
            good.push((p.name.clone(), p.start_bytes / 512, p.size_bytes / 512));
        } else {
            bad.push(p.name.clone());
        }
    }
    (good, bad)
}

fn expect(device: &MemoryDevice, good: &[(&str, u64, u64)], bad: &[&str]) {
    let good: Vec<_> = good.iter().map(|&(name, start, size)| (name.to_owned(), start, size)).collect();
    assert_eq!(listed(device), (good, bad.iter().map(|&name| name.to_owned()).collect()));
}

/// Promise: primary and logical slices are found and numbered as usual.
#[test]
fn slices() {
    let device = disk(&[
        (0, mbr(&[(0x83, 63, 1000), (0x0f, 2000, 8000), (0, 0, 0), (0xa5, 12_000, 1000)])),
        (2000, mbr(&[(0x83, 10, 100), (0x05, 1000, 2000)])),
        (3000, mbr(&[(0x07, 20, 200), (0x05, 3000, 2000)])),
        (5000, mbr(&[(0x82, 30, 300)])),
    ]);
    let all = [
        ("s1", 63, 1000),
        ("s2", 2000, 8000),
        ("s4", 12_000, 1000),
        ("s5", 2010, 100),
        ("s6", 3020, 200),
        ("s7", 5030, 300),
    ];
    expect(&device, &all, &[]);
    let table = partitions(&device).unwrap();
    assert_eq!(table.scheme, Some(Scheme::Mbr));
    assert!(table.notes.is_empty());
    assert_eq!(table.find("s4").unwrap().kind, "FreeBSD");
    assert!(table.find("s3").unwrap_err().to_string().contains("s1, s2, s4"));
}

/// Promise: a chain of logical slices that is cyclic, leaves its container or leads nowhere ends
/// with a note.
#[test]
fn bad_chains() {
    for (link, what) in [(0, "circle"), (9000, "leaves"), (700, "without a table")] {
        let device = disk(&[
            (0, mbr(&[(0x05, 2000, 8000)])),
            (2000, mbr(&[(0x83, 10, 100), (0x05, 500, 100)])),
            (2500, mbr(&[(0x83, 10, 9000), (0x05, link, 100)])),
        ]);
        expect(&device, &[("s1", 2000, 8000), ("s5", 2010, 100)], &["s6"]);
        let notes = partitions(&device).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].contains(what), "{notes:?}");
    }
    let mut endless = vec![(0, mbr(&[(0x05, 2000, 18_000)]))];
    endless.extend((0..1000).map(|i| (2000 + 2 * u64::from(i), mbr(&[(0x83, 1, 1), (0x05, 2 * i + 2, 2)]))));
    let table = partitions(&disk(&endless)).unwrap();
    assert!(table.partitions.len() < 200 && table.notes[0].contains("too long"), "{:?}", table.notes);
}

/// Promise: FreeBSD's label in a slice counts from its partition `c`, whether that begins at 0 or
/// at the start of the slice.
#[test]
fn freebsd_label_in_a_slice() {
    for base in [0, 63] {
        let label = bsd(&[(3000, base + 16, 7), (900, base + 3016, 1), (4000, base, 0)], false, None);
        let device = disk(&[(0, mbr(&[(0xa5, 63, 4000), (0x0c, 5000, 500)])), (64, label)]);
        expect(
            &device,
            &[("s1", 63, 4000), ("s1a", 79, 3000), ("s1b", 3079, 900), ("s1c", 63, 4000), ("s2", 5000, 500)],
            &[],
        );
        let table = partitions(&device).unwrap();
        assert_eq!(table.find("a").unwrap().name, "s1a");
        assert_eq!(
            (table.find("s1b").unwrap().kind.as_str(), table.find("s1b").unwrap().scheme),
            ("swap", Scheme::Bsd)
        );
    }
}

/// Promise: the labels of NetBSD and OpenBSD count from the start of the disk, and may name
/// partitions outside their slice.
#[test]
fn absolute_labels_in_a_slice() {
    let size = u32::try_from(DISK).unwrap();
    let parts = [(3000, 64, 7), (900, 3064, 1), (size, 0, 0), (500, 5000, 8)];
    // 0xa5 was once the type of all BSDs; a `c` as large as the disk then decides.
    for (typ, version) in [(0xa9, None), (0xa6, Some(0)), (0xa6, None), (0xa5, None)] {
        let device =
            disk(&[(0, mbr(&[(typ, 63, 4000), (0x0c, 5000, 500)])), (64, bsd(&parts, false, version))]);
        let all = [
            ("s1", 63, 4000),
            ("s1a", 64, 3000),
            ("s1b", 3064, 900),
            ("s1c", 0, DISK),
            ("s1d", 5000, 500),
            ("s2", 5000, 500),
        ];
        expect(&device, &all, &[]);
    }
}

/// Promise: in a slice of any BSD, a partition `c` that covers the slice from 0 on means that the
/// label counts from the slice, as image makers write it.
#[test]
fn relative_labels_in_a_slice() {
    for typ in [0xa5, 0xa6, 0xa9] {
        let label = bsd(&[(3000, 16, 7), (0, 0, 0), (4000, 0, 0)], false, None);
        let device = disk(&[(0, mbr(&[(typ, 63, 4000)])), (64, label)]);
        expect(&device, &[("s1", 63, 4000), ("s1a", 79, 3000), ("s1c", 63, 4000)], &[]);
    }
}

/// Promise: the high bits that only OpenBSD writes are read in its labels only.
#[test]
fn openbsd_high_bits() {
    let device = disk(&[(1, bsd(&[(100, 50, 7)], false, Some(1)))]);
    let table = partitions(&device).unwrap();
    let a = &table.partitions[0];
    assert_eq!((a.start_bytes, a.size_bytes), (((1 << 32) + 50) * 512, 100 * 512));
    assert!(a.problem.as_ref().unwrap().contains("not inside the disk"));
}

/// Promise: a label on a bare disk is found at every place where a BSD puts it, in both byte
/// orders.
#[test]
fn bare_labels() {
    for place in [512, 64, 128, 0, 4096] {
        for big in [false, true] {
            let mut start = vec![0; place];
            start.extend(bsd(&[(3000, 16, 7), (0, 0, 0), (20_000, 0, 0)], big, None));
            let device = disk(&[(0, start)]);
            expect(&device, &[("a", 16, 3000), ("c", 0, DISK)], &[]);
            assert_eq!(partitions(&device).unwrap().scheme, Some(Scheme::Bsd));
        }
    }
    // A slice copied out of its disk still counts from that disk's start.
    let device = disk(&[(1, bsd(&[(3000, 79, 7), (0, 0, 0), (20_000, 63, 0)], false, None))]);
    expect(&device, &[("a", 16, 3000), ("c", 0, DISK)], &[]);
    // A dummy boot record, whose slot contains itself, does not hide a label; nor does one without
    // BSD slices.
    for slot in [(0xa5, 0, 50_000), (0x0c, 10_000, 100)] {
        let device = disk(&[(0, mbr(&[slot])), (1, bsd(&[(3000, 16, 7)], false, None))]);
        assert_eq!(partitions(&device).unwrap().find("a").unwrap().start_bytes, 16 * 512);
    }
}

/// Promise: a damaged disklabel has no partition that can be opened, and a good one none that
/// overlaps or leaves its container.
#[test]
fn bad_disklabels() {
    let parts = [(3000, 16, 7), (1000, 3000, 7), (4000, 0, 0), (500, 3900, 7), (10, 3600, 7), (5, 3605, 7)];
    let good = bsd(&parts, false, None);
    let slice = mbr(&[(0xa5, 63, 4000)]);
    let device = disk(&[(0, slice.clone()), (64, good.clone())]);
    expect(&device, &[("s1", 63, 4000), ("s1c", 63, 4000)], &["s1a", "s1b", "s1d", "s1e", "s1f"]);
    let problem = |name| partitions(&device).unwrap().find(name).unwrap_err().to_string();
    assert!(problem("s1a").contains("overlaps s1b") && problem("s1d").contains("not inside s1"));
    let mut wrong_sum = good.clone();
    wrong_sum[8] ^= 1;
    let device = disk(&[(0, slice.clone()), (64, wrong_sum)]);
    assert_eq!(listed(&device).0.len(), 1);
    let mut many = good.clone();
    put(&mut many, 138, &u16::MAX.to_le_bytes());
    let table = partitions(&disk(&[(0, slice.clone()), (64, many)])).unwrap();
    assert!(table.partitions.len() < 60 && table.notes[0].contains("65535"));
    let mut odd_sector = good;
    put(&mut odd_sector, 40, &0_u32.to_le_bytes());
    let table = partitions(&disk(&[(0, slice), (64, odd_sector)])).unwrap();
    assert!(table.partitions.len() == 1 && table.notes[0].contains("sectors of 0"));
}

/// Promise: slices that overlap or leave the disk are listed, but cannot be opened.
#[test]
fn bad_slices() {
    let slots = [(0x83, 100, 1000), (0xa5, 1000, 200), (0x83, 20_000, 2), (0xa6, u32::MAX, u32::MAX)];
    expect(&disk(&[(0, mbr(&slots))]), &[], &["s1", "s2", "s3", "s4"]);
}

/// Promise: a partition that begins on the disk and ends behind it can be opened, as those in it,
/// and says how much of it is missing.
#[test]
fn cut_partitions() {
    let label = bsd(&[(1000, 16, 7), (0, 0, 0), (4000, 0, 0), (2000, 1016, 7), (500, 3200, 7)], false, None);
    let device = disk(&[(0, mbr(&[(0xa5, 17_000, 4000)])), (17_001, label)]);
    let table = partitions(&device).unwrap();
    let missing = |name| table.find(name).map(|p| p.missing_bytes / 512);
    assert_eq!(missing("s1").unwrap(), 1000);
    assert_eq!(missing("s1a").unwrap(), 0);
    assert_eq!(missing("s1d").unwrap(), 16);
    assert_eq!(table.find("s1d").unwrap().bytes_on_disk(), 1984 * 512);
    assert!(missing("s1e").unwrap_err().to_string().contains("not inside the disk"));
    // The end of the last one is beyond all numbers.
    let last = u64::MAX - 1;
    let (mut header, entries) = gpt(1, DISK - 1, 2, &[(UFS, 40, last)]);
    put(&mut header, 48, &last.to_le_bytes());
    put(&mut header, 16, &[0; 4]);
    let crc = crc32fast::hash(&header[..92]);
    put(&mut header, 16, &crc.to_le_bytes());
    let table = partitions(&disk(&[(0, mbr(&[(0xee, 1, 19_999)])), (1, header), (2, entries)])).unwrap();
    assert_eq!(table.find("p1").unwrap().bytes_on_disk(), (DISK - 40) * 512);
}

/// Promise: a GPT is read with its types and names, and a disklabel inside it.
#[test]
fn gpt_partitions() {
    let device = gpt_disk(&[(UFS, 40, 1039), ([0; 16], 0, 0), (LABELLED, 2000, 3999)]);
    device
        .write_at(2001 * 512, &{
            let mut label = bsd(&[(100, 16, 7)], false, None);
            label.resize(512, 0);
            label
        })
        .unwrap();
    expect(&device, &[("p1", 40, 1000), ("p3", 2000, 2000), ("p3a", 2016, 100)], &[]);
    let table = partitions(&device).unwrap();
    let p1 = table.find("p1").unwrap();
    assert_eq!(
        (table.scheme, p1.kind.as_str(), p1.label.as_deref()),
        (Some(Scheme::Gpt), "FreeBSD UFS", Some("part0"))
    );
    assert!(table.notes.is_empty());
}

/// Promise: if the primary GPT is damaged in any way, the backup is used and the damage is noted;
/// without both there are no partitions.
#[test]
fn gpt_backup() {
    for sector in [1, 2] {
        for byte in [0, 20, 45] {
            let device = gpt_disk(&[(UFS, 40, 1039)]);
            let flip = |sector| {
                let mut bytes = [0; 512];
                device.read_at(sector * 512, &mut bytes).unwrap();
                bytes[byte] ^= 1;
                device.write_at(sector * 512, &bytes).unwrap();
            };
            flip(sector);
            expect(&device, &[("p1", 40, 1000)], &[]);
            let notes = partitions(&device).unwrap().notes;
            assert!(notes[0].contains("backup"), "{notes:?}");
            flip(if sector == 1 { DISK - 1 } else { DISK - 33 });
            let table = partitions(&device).unwrap();
            assert!(table.partitions.is_empty() && table.notes[0].contains("no usable GPT"), "{table:?}");
        }
    }
}

/// Promise: GPT partitions that overlap, end before they begin or cover the GPT itself cannot be
/// opened, and an excessive number of entries is refused.
#[test]
fn bad_gpts() {
    let parts = [(UFS, 40, 100), (UFS, 100, 200), (UFS, 300, 250), (UFS, 1, 20), (UFS, 400, u64::MAX)];
    expect(&gpt_disk(&parts), &[], &["p1", "p2", "p3", "p4", "p5"]);
    let (mut header, entries) = gpt(1, DISK - 1, 2, &[(UFS, 40, 100)]);
    put(&mut header, 80, &u32::MAX.to_le_bytes());
    put(&mut header, 16, &[0; 4]);
    let crc = crc32fast::hash(&header);
    put(&mut header, 16, &crc.to_le_bytes());
    let device = disk(&[(0, mbr(&[(0xee, 1, 19_999)])), (1, header), (2, entries.clone())]);
    let table = partitions(&device).unwrap();
    assert!(table.partitions.is_empty() && table.notes[0].contains("impossible"), "{table:?}");
    // Slices made after the GPT count, not the rest of the GPT.
    let (header, _) = gpt(1, DISK - 1, 2, &[(UFS, 40, 100)]);
    let device = disk(&[(0, mbr(&[(0x83, 63, 100)])), (1, header), (2, entries)]);
    expect(&device, &[("s1", 63, 100)], &[]);
}

/// Promise: a Sun label gives partitions on cylinders, and one for the whole disk.
#[test]
fn sun_label() {
    let device = disk(&[(0, sun(&[(2, 0, 500), (3, 50, 500), (5, 0, 20_000), (0, 0, 0), (4, 100, 900)]))]);
    expect(&device, &[("a", 0, 500), ("b", 500, 500), ("c", 0, DISK), ("e", 1000, 900)], &[]);
    let table = partitions(&device).unwrap();
    assert_eq!((table.scheme, table.find("e").unwrap().kind.as_str()), (Some(Scheme::Sun), "usr"));
    expect(&disk(&[(0, sun(&[(2, 0, 500), (3, 49, 500), (0, 2000, 1)]))]), &[], &["a", "b", "c"]);
    let mut wrong = sun(&[(2, 0, 500)]);
    wrong[0] ^= 1;
    let table = partitions(&disk(&[(0, wrong)])).unwrap();
    assert!(table.partitions.is_empty() && table.notes[0].contains("checksum"));
}

/// Promise: the table of contents in a Solaris slice counts from the slice, and Linux swap space of
/// the same type has none.
#[test]
fn solaris_slice() {
    let parts =
        [(2_u16, 16_u32, 3000_u32), (3, 3016, 900), (5, 0, 4000), (4, 3900, 10), (1, 0, 16), (8, 4000, 1)];
    let slices = mbr(&[(0xbf, 63, 4000), (0x82, 5000, 1000)]);
    let device = disk(&[(0, slices), (64, vtoc(&parts))]);
    let good = [("s1", 63, 4000), ("s1a", 79, 3000), ("s1c", 63, 4000), ("s1e", 63, 16), ("s2", 5000, 1000)];
    expect(&device, &good, &["s1b", "s1d", "s1f"]);
    let table = partitions(&device).unwrap();
    assert!(table.find("b").unwrap_err().to_string().contains("overlaps s1d"));
    assert_eq!(table.find("a").unwrap().kind, "root");
}

/// Promise: a disk without a label has no partitions, and opening one reports this.
#[test]
fn no_label() {
    let table = partitions(&disk(&[])).unwrap();
    assert_eq!((table.scheme, table.partitions.len()), (None, 0));
    assert!(table.find("a").unwrap_err().to_string().contains("no label"));
    for sectors in 0..5 {
        assert!(partitions(&MemoryDevice::new(sectors * 512)).unwrap().partitions.is_empty());
    }
}

/// Promise: labels with random damage, with or without corrected checksums, give a bounded table in
/// which every partition that can be opened is on the disk.
#[test]
fn torture_labels() {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-device torture_labels");
    let mut rng = StdRng::seed_from_u64(seed);
    let label = bsd(&[(3000, 16, 7), (900, 3016, 1), (4000, 0, 0)], false, None);
    let chain = [
        (0, mbr(&[(0xa5, 63, 4000), (0x05, 5000, 8000), (0xbf, 13_000, 4000)])),
        (64, label.clone()),
        (5000, mbr(&[(0xa5, 1, 100), (0x05, 500, 1000)])),
        (5500, mbr(&[(0xa5, 1, 100)])),
        (13_001, vtoc(&[(2, 16, 3000), (5, 0, 4000)])),
    ];
    let cases = std::env::var("SPINDLE_CASES").map_or(4000, |s| s.parse().unwrap());
    for round in 0..cases {
        let device = match round % 7 {
            0 => disk(&chain),
            1 => gpt_disk(&[(UFS, 40, 1039), (LABELLED, 2000, 3999)]),
            2 => disk(&[(0, sun(&[(2, 0, 500), (5, 0, 20_000)]))]),
            3 => disk(&[(1, label.clone())]),
            4 => disk(&[(0, apple_map(512, &[("", "Apple_UFS", 10, 500), ("", "Apple_Free", 9, 1)]))]),
            5 => disk(&[(0, next_label(*b"dlV3", 1024, 160, &[(0, 3000), (3000, 500)]))]),
            _ => disk(&[(0, ultrix(&[(3000, 0), (1000, 3000)]))]),
        };
        for _ in 0..rng.random_range(1..6) {
            let sector = [0, 1, 2, 31, 64, 2001, 5000, 5500, 13_001, DISK - 1][rng.random_range(0..10)];
            let mut bytes = [0; 512];
            device.read_at(sector * 512, &mut bytes).unwrap();
            let at = rng.random_range(0..508);
            let len = rng.random_range(1..=4);
            let value = [0, 0xff, 0x7f, rng.random()][rng.random_range(0..4)];
            bytes[at..at + len].fill(value);
            mend(&mut bytes);
            device.write_at(sector * 512, &bytes).unwrap();
        }
        let mut start = vec![0; 1024];
        device.read_at(0, &mut start).unwrap();
        if start.starts_with(b"dlV3") {
            seal_next(&mut start, 558);
            device.write_at(0, &start).unwrap();
        }
        let table = partitions(&device).unwrap();
        assert!(table.partitions.len() < 1000 && table.notes.len() < 1000);
        for p in table.partitions.iter().filter(|p| p.problem.is_none()) {
            assert!(p.start_bytes < DISK * 512 || p.size_bytes == 0, "{p:?}");
            let end = p.start_bytes.checked_add(p.bytes_on_disk());
            assert!(end.is_some_and(|end| end <= DISK * 512), "{p:?}");
        }
    }
}

/// Corrects the checksums of the label in this sector.
fn mend(bytes: &mut [u8; 512]) {
    if bytes.starts_with(b"EFI PART") {
        let len = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
        bytes[16..20].fill(0);
        let crc = crc32fast::hash(&bytes[..len.min(512)]);
        put(bytes, 16, &crc.to_le_bytes());
    } else if bytes[508..510] == [0xda, 0xbe] {
        let sum = bytes[..510].chunks(2).fold([0; 2], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
        put(bytes, 510, &sum);
    } else if bytes[..4] == 0x8256_4557_u32.to_le_bytes() {
        let parts = usize::from(u16::from_le_bytes([bytes[138], bytes[139]])).min(22);
        bytes[136..138].fill(0);
        let table = &bytes[..148 + 16 * parts];
        let sum = table.chunks(2).fold([0; 2], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
        put(bytes, 136, &sum);
    }
}
