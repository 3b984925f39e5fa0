//! Every format, dialect, byte order, block size and geometry comes out consistent.

use super::audit::{FORMATS, NOW, audit, make, read, with};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_ffs::newfs::{Format, Geometry, Plan, write};
use spindle_ffs::ondisk::Cg;
use spindle_ffs::{Dialect, GroupMap, Superblock};
use spindle_ondisk::Endian;

/// Returns the byte orders a dialect has.
fn orders(dialect: Option<Dialect>) -> Vec<Endian> {
    match dialect {
        Some(Dialect::Sun { x86: true }) => vec![Endian::Little],
        Some(Dialect::Sun { x86: false }) => vec![Endian::Big],
        _ => vec![Endian::Little, Endian::Big],
    }
}

/// Promise: in every format, byte order and dialect, at sizes with awkward ends, a new file system
/// opens, has nothing against it, and all its accounts agree with its maps.
#[test]
fn every_format_is_consistent() {
    for (format, dialect, static_tables) in FORMATS {
        for endian in orders(dialect) {
            for size in [1 << 20, 5_000_000, (33 << 20) + 7 * 512, 100 << 20] {
                let parameters = with(size, |p| {
                    (p.format, p.dialect, p.endian, p.static_tables) =
                        (format, dialect, Some(endian), static_tables);
                });
                let what = format!("{format:?} {dialect:?} {endian:?} static {static_tables} {size}");
                let (device, superblock) = make(&parameters);
                assert_eq!(superblock.layout.endian, endian, "{what}");
                audit(&device, &superblock, &what);
            }
        }
    }
}

/// Promise: the dialect that was asked for is the one that is recognised, where the superblock can
/// show it.
#[test]
fn the_dialect_shows() {
    for (format, dialect, shown) in [
        (Format::Ufs2, None, Dialect::FreeBsd),
        (Format::Ufs1, None, Dialect::FreeBsd),
        (Format::Ufs2, Some(Dialect::OpenBsd), Dialect::OpenBsd),
        (Format::Ufs1, Some(Dialect::OpenBsd), Dialect::OpenBsd),
        (Format::Ufs2, Some(Dialect::NetBsd), Dialect::NetBsd),
        (Format::Ufs1, Some(Dialect::NetBsd), Dialect::NetBsd),
        (Format::Ufs1, Some(Dialect::Bsd44), Dialect::Bsd44),
        (Format::Ufs1, Some(Dialect::Apple), Dialect::Apple),
        (Format::Ufs1, Some(Dialect::Sun { x86: true }), Dialect::Sun { x86: true }),
        (Format::Ufs1, Some(Dialect::Sun { x86: false }), Dialect::Sun { x86: false }),
        (Format::Old, None, Dialect::Bsd43),
    ] {
        let parameters = with(32 << 20, |p| (p.format, p.dialect) = (format, dialect));
        assert_eq!(make(&parameters).1.dialect, shown, "{format:?} {dialect:?}");
    }
}

/// Promise: every block and fragment size works, in both versions.
#[test]
fn every_block_size_is_consistent() {
    for format in [Format::Ufs1, Format::Ufs2] {
        for bsize in (12..=16).map(|shift| 1 << shift) {
            for fsize in [bsize / 8, bsize / 4, bsize / 2, bsize] {
                let parameters = with(24 << 20, |p| {
                    (p.format, p.bsize, p.fsize) = (format, Some(bsize), Some(fsize));
                });
                let (device, superblock) = make(&parameters);
                audit(&device, &superblock, &format!("{format:?} {bsize}/{fsize}"));
            }
        }
    }
}

/// Promise: with a real geometry the structures spiral, the tables of each cycle list every block
/// once at its position, and all accounts agree.
#[test]
fn geometries_are_consistent() {
    let disks = [
        Geometry { nsect: Some(32), ntrak: Some(19), nrpos: Some(8), ..Geometry::default() },
        Geometry { nsect: Some(63), ntrak: Some(16), nrpos: Some(1), ..Geometry::default() },
        Geometry { nsect: Some(48), ntrak: Some(23), nrpos: Some(32), cpg: Some(16), ..Geometry::default() },
        Geometry {
            nsect: Some(50),
            ntrak: Some(5),
            nrpos: Some(8),
            interleave: Some(3),
            trackskew: Some(7),
            trackspares: Some(1),
            cylspares: Some(2),
            rpm: Some(5400),
            rotdelay_ms: Some(4),
            ..Geometry::default()
        },
    ];
    for (n, geometry) in disks.into_iter().enumerate() {
        for (format, dialect) in [
            (Format::Ufs1, None),
            (Format::Ufs1, Some(Dialect::Sun { x86: false })),
            (Format::Ufs1, Some(Dialect::Sun { x86: true })),
            (Format::Old, None),
        ] {
            for endian in orders(dialect) {
                let what = format!("disk {n} {format:?} {dialect:?} {endian:?}");
                let parameters = with(60_000_000, |p| {
                    (p.format, p.dialect, p.geometry, p.endian) = (format, dialect, geometry, Some(endian));
                });
                let (device, superblock) = make(&parameters);
                audit(&device, &superblock, &what);
                audit_tables(&superblock, &what);
            }
        }
    }
}

fn audit_tables(superblock: &Superblock, what: &str) {
    let layout = &superblock.layout;
    let r = layout.rotation.as_ref().unwrap();
    let shifts: std::collections::BTreeSet<u64> =
        (0..layout.fs_ncg).map(|c| layout.cgstart(c) - layout.cgbase(c)).collect();
    assert!(shifts.len() > 1, "{what}: the structures spiral");
    assert!(r.fs_old_cpc > 0, "{what}");
    let mut seen = vec![false; r.blocks_per_cycle(layout.fs_frag)];
    for cylinder in 0..r.fs_old_cpc {
        for position in 0..r.fs_old_nrpos {
            for block in r.blocks_at(cylinder, position) {
                let at = block * layout.fs_frag;
                assert_eq!((r.cylinder(at), r.position(at)), (cylinder, position), "{what}: block {block}");
                assert!(!std::mem::replace(&mut seen[block as usize], true), "{what}: block {block} twice");
            }
        }
    }
    assert!(seen.iter().all(|&s| s), "{what}: every block is in the tables");
}

/// Promise: a `PlayStation`'s shape (64K blocks and fragments, no reserve, sectors of 4096) works,
/// and saves space because there is no reserve.
#[test]
fn playstation_shape() {
    let (device, superblock) = make(&with(256 << 20, |p| {
        (p.bsize, p.fsize, p.minfree, p.sector_bytes) = (Some(65536), Some(65536), Some(0), 4096);
    }));
    audit(&device, &superblock, "playstation");
    assert_eq!((superblock.fs.fs_fsbtodb, superblock.fs.fs_minfree, superblock.fs.fs_optim), (7, 0, 1));
}

/// Promise: terabytes cost a few small writes per group.
#[test]
fn large_file_systems_are_sparse() {
    let size = 4 << 40;
    let parameters = with(size, |p| (p.bsize, p.fsize) = (Some(65536), Some(8192)));
    let plan = Plan::new(&parameters).unwrap();
    let device = MemoryDevice::new(size);
    let mut groups = 0;
    let mut random = StdRng::seed_from_u64(1);
    let superblock = write(&plan, &device, &ManualClock::at(NOW), &mut random, &mut |done, all| {
        assert!(done <= all);
        groups = done;
    })
    .unwrap();
    assert_eq!(groups, superblock.layout.fs_ncg);
    assert_eq!(superblock.totals(), plan.totals());
    assert!(groups < 2000);
    let block = read(&device, &superblock, superblock.layout.cgtod(groups - 1), 65536);
    GroupMap::check(&superblock.layout, &block, groups - 1).unwrap();
}

/// Promise: the smallest file systems work, and one step below them is refused with the least size
/// possible.
#[test]
fn smallest_sizes() {
    for (format, dialect, static_tables) in FORMATS {
        let parameters = |size| {
            with(size, |p| {
                (p.format, p.dialect, p.static_tables) = (format, dialect, static_tables);
                (p.bsize, p.fsize) = (Some(4096), Some(512));
            })
        };
        let least = (1..2048).map(|n| n * 512).find(|&size| Plan::new(&parameters(size)).is_ok()).unwrap();
        assert!(least <= 300_000, "{format:?} {dialect:?}: {least}");
        let (device, superblock) = make(&parameters(least));
        audit(&device, &superblock, &format!("{format:?} {dialect:?} {static_tables} {least}"));
        let error = Plan::new(&parameters(least - 512)).unwrap_err();
        assert_eq!(error.parameter, "size", "{format:?} {dialect:?}: {error}");
    }
}

/// Promise: the fields that mean nothing to other systems are left as each system's own newfs
/// leaves them, as its checker compares them (`docs/DIALECTS.md`).
#[test]
fn each_system_finds_its_own_habits() {
    struct Row {
        dialect: Dialect,
        flags_updated: bool,
        maxbsize: bool,
        disk_in_ufs2: bool,
        ufs2_inodefmt: i32,
        last_ncyl: i16,
    }
    for row in [
        Row {
            dialect: Dialect::FreeBsd,
            flags_updated: true,
            maxbsize: true,
            disk_in_ufs2: false,
            ufs2_inodefmt: 0,
            last_ncyl: 1,
        },
        Row {
            dialect: Dialect::NetBsd,
            flags_updated: true,
            maxbsize: true,
            disk_in_ufs2: false,
            ufs2_inodefmt: 2,
            last_ncyl: 1,
        },
        Row {
            dialect: Dialect::OpenBsd,
            flags_updated: false,
            maxbsize: false,
            disk_in_ufs2: true,
            ufs2_inodefmt: 2,
            last_ncyl: 0,
        },
    ] {
        for format in [Format::Ufs1, Format::Ufs2] {
            let what = format!("{} {format:?}", row.dialect);
            let parameters = with(32 << 20, |p| (p.format, p.dialect) = (format, Some(row.dialect)));
            let (device, superblock) = make(&parameters);
            assert_eq!(superblock.dialect, row.dialect, "{what}");
            let (fs, layout) = (&superblock.fs, &superblock.layout);
            assert_eq!(fs.fs_old_flags < 0, row.flags_updated, "{what}");
            assert_eq!(fs.fs_maxbsize, if row.maxbsize { fs.fs_bsize } else { 0 }, "{what}");
            let disk = format == Format::Ufs1 || row.disk_in_ufs2;
            let expected = if disk { (fs.fs_fsize / 512, 1, 1, 1) } else { (0, 0, 0, 0) };
            let found = (fs.fs_old_nspf, fs.fs_old_cpg, fs.fs_old_nrpos, fs.fs_old_postblformat);
            assert_eq!(found, expected, "{what}");
            let inodefmt = if format == Format::Ufs1 { 2 } else { row.ufs2_inodefmt };
            assert_eq!(fs.fs_old_inodefmt, inodefmt, "{what}");
            for cgx in 0..layout.fs_ncg {
                let block = read(&device, &superblock, layout.cgtod(cgx), Cg::SIZE);
                let ncyl = match (format, cgx + 1 == layout.fs_ncg) {
                    (Format::Ufs1, false) => 1,
                    (Format::Ufs1, true) => row.last_ncyl,
                    _ => 0,
                };
                assert_eq!(Cg::decode(&block, layout.endian).cg_old_ncyl, ncyl, "{what}, group {cgx}");
            }
        }
    }
}
