//! Sparse files: holes, far offsets, and `fallocate`.

use super::Feature;
use super::bench::*;
use spindle_vfs::{FallocateMode, Ino, Privilege, Seek};

const ROOT: Privilege = Privilege::Root;
const ALLOCATE: FallocateMode = FallocateMode::Allocate { keep_size: false };

/// Promise: the gap between two writes reads as zeros and takes almost no space.
pub(super) fn sparse_files_read_zeros(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    let mut data = vec![0; 3_000_000];
    for at in [2_999_990, 1_500_000, 700_001, 12_345, 0] {
        let part = pattern(at as u64, 10);
        b.put(file, at as u64, &part);
        data[at..at + 10].copy_from_slice(&part);
    }
    b.holds(file, &data);
    assert!(b.getattr(file).unwrap().blocks512 * 512 < 2_000_000, "holes take no space");
    b.remount();
    b.holds(file, &data);
    for (at, byte) in data.iter_mut().enumerate().skip(600_000).take(200_000) {
        *byte = (at % 251) as u8;
    }
    b.put(file, 600_000, &data[600_000..800_000]);
    b.holds(file, &data);
}

/// Promise: bytes can be stored at offsets of every size up to the limit, without effect on others.
pub(super) fn far_offsets(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    let offsets: Vec<u64> = (10..50)
        .step_by(2)
        .flat_map(|power| [(1u64 << power) - 3, 1 << power, 3 << power])
        .filter(|offset| b.fits(offset + 8))
        .collect();
    for &offset in &offsets {
        b.put(file, offset, &pattern(offset, 8));
    }
    b.remount();
    let mut sorted = offsets.clone();
    sorted.sort_unstable();
    for pair in sorted.windows(2) {
        let len = (pair[1] - pair[0]).min(8) as usize;
        // Ranges may overlap: the next write may begin before the end of this one, and may have
        // come first.
        if len == 8 {
            assert_eq!(b.get(file, pair[0], 8), pattern(pair[0], 8), "at {}", pair[0]);
        }
        if pair[1] - pair[0] > 200 {
            assert_eq!(b.get(file, pair[0] + 100, 50), [0; 50], "after {}", pair[0]);
        }
    }
}

/// Promise: a file whose blocks use every level of indirection frees all its space, both when it is
/// truncated and when it is removed.
pub(super) fn far_files_free_all_space(b: &mut Bench<'_>) {
    let before = b.free();
    for end in [1u64 << 16, 1 << 20, 1 << 24, 1 << 30, 1 << 36, 1 << 40, 1 << 44] {
        if !b.fits(end + 1) {
            continue;
        }
        let file = b.file(b.root(), "file");
        let mut offset = end;
        while offset > 0 {
            b.put(file, offset, b"x");
            offset /= 8;
        }
        let mut cut = end;
        while cut > 1 << 12 {
            cut /= 16;
            b.resize(file, cut + 1);
            assert_eq!(b.get(file, cut / 8, 1).len(), 1);
        }
        b.resize(file, 0);
        assert_eq!(b.getattr(file).unwrap().blocks512, 0);
        b.put(file, end, b"again");
        b.unlink(b.root(), b"file").unwrap();
        b.forget(file, 1);
        assert_eq!(b.free(), before, "after a file of {end} bytes");
    }
}

/// Returns the ranges of data that `seek` finds, and checks their order.
fn data_ranges(b: &Bench<'_>, file: Ino) -> Vec<(u64, u64)> {
    let size = b.size(file);
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < size {
        let data = match b.seek(file, at, Seek::Data) {
            Ok(data) => data,
            Err(error) => {
                refuses::<()>(Err(error), &[ENXIO]);
                break;
            }
        };
        assert!(data >= at && data < size, "data at {data} sought from {at} in {size} bytes");
        let hole = b.seek(file, data, Seek::Hole).unwrap();
        assert!(hole > data && hole <= size, "hole at {hole} sought from {data} in {size} bytes");
        ranges.push((data, hole));
        at = hole;
    }
    ranges
}

/// Promise: `seek` finds every written byte as data, reports holes only where zeros are read, never
/// goes backwards, and finds a hole at the end of every file.
pub(super) fn seek_finds_data_and_holes(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    for what in [Seek::Data, Seek::Hole] {
        refuses(b.seek(file, 0, what), &[ENXIO]);
    }
    let parts = [(0, 10), (100_000, 5000), (1_000_000, 1), (5_000_000, 70_000)];
    for (at, len) in parts {
        b.put(file, at, &pattern(at, len));
    }
    b.resize(file, 9_000_000);
    for _ in 0..2 {
        let ranges = data_ranges(b, file);
        for (at, len) in parts {
            let end = at + len as u64;
            assert!(ranges.iter().any(|(from, to)| *from <= at && end <= *to), "{at} is data: {ranges:?}");
        }
        for gap in ranges.windows(2) {
            let (from, to) = (gap[0].1, gap[1].0);
            assert!(b.get(file, from, (to - from) as usize).iter().all(|byte| *byte == 0));
        }
        for what in [Seek::Data, Seek::Hole] {
            refuses(b.seek(file, 9_000_000, what), &[ENXIO]);
            refuses(b.seek(file, u64::MAX, what), &[ENXIO]);
        }
        assert!(b.seek(file, 8_999_999, Seek::Hole).unwrap() >= 8_999_999);
        b.remount();
    }
    let full = b.file(b.root(), "full");
    b.put(full, 0, &pattern(1, 100_000));
    assert_eq!(data_ranges(b, full), [(0, 100_000)]);
}

/// Promise: allocation provides space that reads as zeros, keeps existing data, and extends the
/// file on request.
pub(super) fn fallocate_allocates(b: &mut Bench<'_>) {
    if !b.has(Feature::Fallocate) {
        return;
    }
    let before = b.free();
    let file = b.file(b.root(), "file");
    b.put(file, 0, b"head");
    b.put(file, 50_000, b"tail");
    b.fallocate(file, ALLOCATE, 2, 100_000, ROOT).unwrap();
    let mut expected = vec![0; 100_002];
    expected[..4].copy_from_slice(b"head");
    expected[50_000..50_004].copy_from_slice(b"tail");
    b.holds(file, &expected);
    assert!(b.getattr(file).unwrap().blocks512 * 512 >= 100_002);
    b.fallocate(file, FallocateMode::Allocate { keep_size: true }, 10, 100, ROOT).unwrap();
    b.holds(file, &expected);
    if b.has(Feature::KeepSize) {
        b.fallocate(file, FallocateMode::Allocate { keep_size: true }, 0, 200_000, ROOT).unwrap();
        b.holds(file, &expected);
        b.resize(file, 150_000);
        expected.resize(150_000, 0);
        b.holds(file, &expected);
    } else {
        // A file system that cannot reserve space beyond the end refuses.
        let beyond = b.statfs().unwrap().bfree;
        for mode in
            [FallocateMode::Allocate { keep_size: true }, FallocateMode::ZeroRange { keep_size: true }]
        {
            refuses(b.fallocate(file, mode, 0, 200_000, ROOT), &[ENOTSUP]);
            refuses(b.fallocate(file, mode, 150_000, 1, ROOT), &[ENOTSUP]);
        }
        b.holds(file, &expected);
        assert_eq!(b.statfs().unwrap().bfree, beyond);
    }
    b.remount();
    let file = b.at(b.root(), "file");
    b.holds(file, &expected);
    b.unlink(b.root(), b"file").unwrap();
    assert_eq!(b.free(), before);
}

/// Promise: a punched range reads as zeros and its whole blocks are free again; everything else and
/// the size stay.
pub(super) fn punch_hole_frees(b: &mut Bench<'_>) {
    if !b.has(Feature::Fallocate) {
        return;
    }
    let file = b.file(b.root(), "file");
    let mut data = pattern(1, 600_000);
    b.put(file, 0, &data);
    let full = b.getattr(file).unwrap().blocks512;
    let ranges = [
        (1000, 10),
        (70_000, 300_000),
        (599_000, 5000),
        (0, 1),
        (400_000, 65_536),
        (700_000, 10),
        (511, 1026),
    ];
    for (at, len) in ranges {
        b.fallocate(file, FallocateMode::PunchHole, at, len, ROOT).unwrap();
        let end = data.len().min((at + len) as usize);
        if let Some(part) = data.get_mut(at as usize..end) {
            part.fill(0);
        }
        b.holds(file, &data);
    }
    assert!(b.getattr(file).unwrap().blocks512 < full, "whole blocks are given back");
    b.remount();
    b.holds(file, &data);
    b.put(file, 0, &data);
    b.fallocate(file, FallocateMode::PunchHole, 0, 600_000, ROOT).unwrap();
    b.holds(file, &vec![0; 600_000]);
}

/// Promise: a zeroed range reads as zeros, whatever it held, and extends the file only on request.
pub(super) fn zero_range_zeros(b: &mut Bench<'_>) {
    if !b.has(Feature::Fallocate) {
        return;
    }
    let file = b.file(b.root(), "file");
    let mut data = pattern(1, 100_000);
    b.put(file, 0, &data);
    for (at, len) in [(10usize, 100usize), (5000, 20_000), (99_990, 10)] {
        b.fallocate(file, FallocateMode::ZeroRange { keep_size: true }, at as u64, len as u64, ROOT).unwrap();
        data[at..at + len].fill(0);
        b.holds(file, &data);
    }
    b.fallocate(file, FallocateMode::ZeroRange { keep_size: false }, 90_000, 50_000, ROOT).unwrap();
    data.resize(140_000, 0);
    data[90_000..].fill(0);
    b.holds(file, &data);
    b.remount();
    b.holds(b.at(b.root(), "file"), &data);
}

/// Promise: empty and impossible ranges are refused, and so are ranges larger than the disk;
/// nothing changes.
pub(super) fn fallocate_refuses(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    b.put(file, 0, b"kept");
    if !b.has(Feature::Fallocate) {
        refuses(b.fallocate(file, ALLOCATE, 0, 10, ROOT), &[ENOTSUP]);
        return;
    }
    let max = b.limits().file_size_max;
    for mode in [ALLOCATE, FallocateMode::PunchHole, FallocateMode::ZeroRange { keep_size: false }] {
        refuses(b.fallocate(file, mode, 0, 0, ROOT), &[EINVAL]);
    }
    refuses(b.fallocate(file, ALLOCATE, max, 1, ROOT), &[EFBIG]);
    refuses(b.fallocate(file, ALLOCATE, u64::MAX, 2, ROOT), &[EFBIG, EINVAL]);
    let stat = b.statfs().unwrap();
    let more = (stat.bfree + 1) * u64::from(stat.frsize);
    if b.fits(more + 4) {
        let before = b.free();
        refuses(b.fallocate(file, ALLOCATE, 4, more, ROOT), &[ENOSPC]);
        assert_eq!(b.free(), before, "a refused allocation keeps nothing");
    }
    b.holds(file, b"kept");
}
