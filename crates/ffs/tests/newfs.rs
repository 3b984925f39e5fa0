//! newfs: what it makes is consistent in every account, whoever reads it, and like what the real ones make.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Ticket};
use spindle_ffs::check::{Options, check};
use spindle_ffs::newfs::{Format, Geometry, Optimization, Parameters, Plan, ROOTINO, write};
use spindle_ffs::ondisk::{CG_MAGIC, Cg, Csum, Dinode1, Dinode2, DirectHeader, FsRecovery, OldCg, flags};
use spindle_ffs::{
    CG_CKHASH, CheckHashes, Dialect, Frag, GroupMap, InodeFormat, Superblock, Version, check_hash,
};
use spindle_ondisk::{Endian, Field};
use std::sync::atomic::{AtomicU32, Ordering};
use support::image;

const NOW: i64 = 1_700_000_000;

fn make_on(device: &MemoryDevice, parameters: &Parameters) -> Superblock {
    let plan = Plan::new(parameters).unwrap_or_else(|e| panic!("{parameters:?}: {e}"));
    let mut random = StdRng::seed_from_u64(7);
    write(&plan, device, &ManualClock::at(NOW), &mut random, &mut |_, _| ())
        .unwrap_or_else(|e| panic!("{parameters:?}: {e}"))
}

fn make(parameters: &Parameters) -> (MemoryDevice, Superblock) {
    let device = MemoryDevice::new(parameters.size_bytes);
    let superblock = make_on(&device, parameters);
    (device, superblock)
}

fn read(device: &dyn Device, superblock: &Superblock, at: Frag, bytes: usize) -> Vec<u8> {
    let mut buf = vec![0; bytes.next_multiple_of(device.info().sector_bytes as usize)];
    device.read_at(superblock.layout.byte(at), &mut buf).unwrap();
    buf.truncate(bytes);
    buf
}

fn bit(map: &[u8], n: u32) -> bool {
    map[n as usize / 8] & (1 << (n % 8)) != 0
}

/// Every account of the file system, recomputed from the maps alone.
fn audit(device: &dyn Device, superblock: &Superblock, what: &str) {
    let layout = &superblock.layout;
    assert_eq!(superblock.objections(device).unwrap(), [], "{what}");
    let summaries = read(device, superblock, layout.fs_csaddr, layout.fs_cssize as usize);
    let mut totals = [0_i64; 4];
    let mut in_use = 0;
    for cgx in 0..layout.fs_ncg {
        let what = &format!("{what}, group {cgx} of {}", layout.fs_ncg);
        let block = read(device, superblock, layout.cgtod(cgx), layout.fs_bsize as usize);
        let map = GroupMap::check(layout, &block, cgx).unwrap_or_else(|e| panic!("{what}: {e}"));
        let (cs, frsum) = counters(superblock, &block);
        let free = &block[map.blksfree.clone()];
        let used = &block[map.inosused.clone()];
        let inodes = (0..layout.fs_ipg).filter(|&i| bit(used, i)).count();
        let directories = if cgx == 0 { inodes - 2 } else { 0 };
        let mut want = Csum {
            cs_ndir: i32::try_from(directories).unwrap(),
            cs_nifree: i32::try_from(layout.fs_ipg as usize - inodes).unwrap(),
            ..Csum::default()
        };
        let mut runs = [0_u32; 8];
        let mut blocks = Vec::new();
        for first in (0..map.ndblk).step_by(layout.fs_frag as usize) {
            let bits: Vec<bool> =
                (first..map.ndblk.min(first + layout.fs_frag)).map(|n| bit(free, n)).collect();
            if bits.len() == layout.fs_frag as usize && bits.iter().all(|&b| b) {
                want.cs_nbfree += 1;
                blocks.push(first / layout.fs_frag);
                continue;
            }
            for run in bits.split(|b| !b).filter(|run| !run.is_empty()) {
                runs[run.len()] += 1;
                want.cs_nffree += i32::try_from(run.len()).unwrap();
            }
        }
        assert_eq!((cs, frsum), (want, runs), "{what}");
        assert_eq!(Csum::decode(&summaries[cgx as usize * 16..], layout.endian), want, "{what}");
        for (total, n) in
            totals.iter_mut().zip([want.cs_ndir, want.cs_nbfree, want.cs_nifree, want.cs_nffree])
        {
            *total += i64::from(n);
        }
        let in_group: u32 = (0..map.ndblk).map(|n| u32::from(!bit(free, n))).sum();
        in_use += u64::from(in_group);
        let start = u32::try_from(layout.cgsblock(cgx) - layout.cgbase(cgx)).unwrap();
        let data = u32::try_from(layout.cgdmin(cgx) - layout.cgbase(cgx)).unwrap();
        let from = if cgx == 0 { 0 } else { start };
        assert!((from..data).all(|n| !bit(free, n)), "{what}: its structures are in use");
        if cgx > 0 {
            assert_eq!(in_group, data - start, "{what}: nothing else is");
        }
        audit_clusters(superblock, &block, &map, &blocks, what);
        audit_rotation(superblock, &block, &map, &blocks, what);
        audit_copy(device, superblock, cgx, what);
        if superblock.check_hashes().groups {
            let hash = u32::get(&block[CG_CKHASH..], layout.endian);
            assert_eq!(check_hash(&block[..layout.fs_cgsize as usize], CG_CKHASH), hash, "{what}");
        }
        let gen_at = if layout.version == Version::Ufs1 { 108 } else { 80 };
        let inodes = read(device, superblock, layout.cgimin(cgx), layout.fs_bsize as usize);
        for inode in inodes.chunks_exact(layout.inode_size()) {
            assert!(i32::get(&inode[gen_at..], layout.endian) > 0, "{what}: di_gen");
        }
    }
    let t = superblock.totals();
    assert_eq!([t.cs_ndir, t.cs_nbfree, t.cs_nifree, t.cs_nffree], totals, "{what}");
    let csfrags = u64::from(layout.fs_cssize / layout.fs_fsize);
    let structures = u64::from(layout.fs_ncg) * u64::from(layout.fs_dblkno - layout.fs_sblkno);
    let overhead = u64::from(layout.fs_sblkno) + structures + csfrags;
    assert_eq!(layout.fs_dsize, layout.fs_size - overhead, "{what}");
    assert!(in_use > overhead && in_use <= overhead + 2 * u64::from(layout.fs_frag), "{what}");
    audit_root(device, superblock, what);
    if superblock.dialect == Dialect::FreeBsd {
        audit_as_freebsd(superblock, what);
    }
    let report = check(device, &Options::default(), &mut |_| {}).unwrap_or_else(|e| panic!("{what}: {e}"));
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, Vec::<String>::new(), "{what}");
}

fn counters(superblock: &Superblock, block: &[u8]) -> (Csum, [u32; 8]) {
    let layout = &superblock.layout;
    if layout.old_cg {
        let cg = OldCg::decode(block, layout.endian);
        assert_eq!((cg.cg_magic, i64::from(cg.cg_time)), (CG_MAGIC, NOW));
        (cg.cg_cs, cg.cg_frsum.map(i32::cast_unsigned))
    } else {
        let cg = Cg::decode(block, layout.endian);
        let time = if layout.version == Version::Ufs1 { cg.cg_old_time.into() } else { cg.cg_time };
        assert_eq!(time, NOW);
        assert!(cg.cg_nextfreeoff <= layout.fs_cgsize);
        (cg.cg_cs, cg.cg_frsum)
    }
}

fn audit_clusters(superblock: &Superblock, block: &[u8], map: &GroupMap, free: &[u32], what: &str) {
    let Some(sums) = &map.clustersum else { return };
    let n = superblock.layout.fs_contigsumsize as usize;
    let mut want = vec![0_u32; n];
    for run in free.chunk_by(|a, b| a + 1 == *b) {
        want[run.len().min(n) - 1] += 1;
    }
    let got: Vec<u32> =
        block[sums.clone()].chunks_exact(4).map(|w| u32::get(w, superblock.layout.endian)).collect();
    assert_eq!(got, want, "{what}: clusters");
    let marked: Vec<u32> =
        (0..map.nclusterblks).filter(|&b| bit(&block[map.clustersfree.clone()], b)).collect();
    assert_eq!(marked, free, "{what}: cluster map");
}

/// The position by the arithmetic of the paper's time, on whole sectors.
fn audit_rotation(superblock: &Superblock, block: &[u8], map: &GroupMap, free: &[u32], what: &str) {
    let layout = &superblock.layout;
    let (Some(r), Some((btot, b))) = (&layout.rotation, &map.rotational) else { return };
    let mut totals = vec![0_i32; btot.len() / 4];
    let mut positions = vec![0_i16; b.len() / 2];
    for n in free {
        let sector = n * layout.fs_frag * r.fs_old_nspf;
        let (cylinder, within) = (sector / r.fs_old_spc, sector % r.fs_old_spc);
        let (track, sector) = (within / r.fs_old_nsect, within % r.fs_old_nsect);
        let angle = (track * r.fs_old_trackskew + sector * r.fs_old_interleave) % r.fs_old_nsect;
        let position = angle * r.fs_old_nrpos / r.fs_old_npsect;
        totals[cylinder as usize] += 1;
        positions[(cylinder * r.fs_old_nrpos + position) as usize] += 1;
    }
    let got: Vec<i32> = block[btot.clone()].chunks_exact(4).map(|w| i32::get(w, layout.endian)).collect();
    assert_eq!(got, totals, "{what}: free blocks per cylinder");
    let got: Vec<i16> = block[b.clone()].chunks_exact(2).map(|w| i16::get(w, layout.endian)).collect();
    assert_eq!(got, positions, "{what}: free blocks per position");
}

fn audit_copy(device: &dyn Device, superblock: &Superblock, cgx: u32, what: &str) {
    let layout = &superblock.layout;
    let at = layout.byte(layout.cgsblock(cgx));
    let copy =
        Superblock::read_replica(device, at, layout.fs_sblockloc).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(copy.totals(), superblock.totals(), "{what}: copy");
    if superblock.fs.fs_sblockactualloc != 0 && superblock.dialect == Dialect::FreeBsd {
        assert_eq!(copy.fs.fs_sblockactualloc.cast_unsigned(), at, "{what}: copy");
    }
}

/// What FreeBSD 15 demands of a superblock before it mounts it (`ffs_subr.c`).
fn audit_as_freebsd(superblock: &Superblock, what: &str) {
    let fs = &superblock.fs;
    let layout = &superblock.layout;
    let wide = |n: u32| i64::from(n);
    let blocks =
        |bytes: i64| bytes.div_euclid(wide(layout.fs_bsize)) + i64::from(bytes % wide(layout.fs_bsize) > 0);
    let frag = wide(layout.fs_frag);
    let (pointer, inode) = if layout.version == Version::Ufs2 {
        assert_eq!((fs.fs_sblockloc, fs.fs_sblockactualloc), (65536, 65536), "{what}");
        (8, 256)
    } else {
        assert_eq!((fs.fs_sblockloc, fs.fs_sblockactualloc), (8192, 8192), "{what}");
        assert_eq!((fs.fs_old_inodefmt, fs.fs_old_rotdelay, fs.fs_old_rps), (2, 0, 60), "{what}");
        assert_eq!((fs.fs_old_cpg, fs.fs_old_interleave, fs.fs_old_trackskew), (1, 1, 0), "{what}");
        assert_eq!((fs.fs_old_cpc, fs.fs_old_postblformat, fs.fs_old_nrpos), (0, 1, 1), "{what}");
        assert_eq!(fs.fs_old_nspf, fs.fs_fsize / 512, "{what}");
        assert_eq!(fs.fs_old_spc, fs.fs_fpg * fs.fs_old_nspf, "{what}");
        assert_eq!((fs.fs_old_nsect, fs.fs_old_npsect), (fs.fs_old_spc, fs.fs_old_spc), "{what}");
        assert_eq!(fs.fs_old_ncyl.cast_unsigned(), fs.fs_ncg, "{what}");
        (4, 128)
    };
    assert_eq!(fs.fs_maxsymlinklen, 15 * pointer, "{what}");
    assert_eq!(
        (fs.fs_nindir, fs.fs_inopb.cast_signed()),
        (fs.fs_bsize / pointer, fs.fs_bsize / inode),
        "{what}"
    );
    assert!(wide(fs.fs_ipg) * wide(fs.fs_ncg) <= (1 << 32) - wide(fs.fs_inopb), "{what}");
    assert!(i64::from(fs.fs_fpg) >= 3 * frag && fs.fs_size >= 8 * frag, "{what}");
    assert!((1376..=8192).contains(&fs.fs_sbsize) && fs.fs_sbsize % 512 == 0, "{what}");
    assert!((fs.fs_bsize..=16 * fs.fs_bsize).contains(&fs.fs_maxbsize), "{what}");
    assert_eq!((fs.fs_bmask, fs.fs_fmask), (!(fs.fs_bsize - 1), !(fs.fs_fsize - 1)), "{what}");
    assert_eq!((fs.fs_qbmask, fs.fs_qfmask), ((!fs.fs_bmask).into(), (!fs.fs_fmask).into()), "{what}");
    assert_eq!(1 << fs.fs_fragshift, fs.fs_frag, "{what}");
    assert_eq!(512 << fs.fs_fsbtodb, fs.fs_fsize, "{what}");
    let bits = |n: i64| (n + 7) / 8;
    let clusters = i64::from(fs.fs_contigsumsize);
    let mut cgsize = 176 + 4 + bits(wide(fs.fs_ipg)) + bits(fs.fs_fpg.into()) + 6 * i64::from(fs.fs_old_cpg);
    if clusters > 0 {
        cgsize += clusters * 4 + bits(i64::from(fs.fs_fpg) / frag);
    }
    assert!(cgsize <= fs.fs_bsize.into(), "{what}: CGSIZE {cgsize}");
    assert!(cgsize <= fs.fs_cgsize.into() && fs.fs_cgsize % fs.fs_fsize == 0, "{what}");
    assert_eq!(i64::from(fs.fs_sblkno), blocks(fs.fs_sblockloc + 8192) * frag, "{what}");
    assert_eq!(i64::from(fs.fs_cblkno), i64::from(fs.fs_sblkno) + blocks(8192) * frag, "{what}");
    assert_eq!(fs.fs_iblkno, fs.fs_cblkno + fs.fs_frag, "{what}");
    let inodes = wide(fs.fs_ipg / fs.fs_inopb) * frag;
    assert_eq!(i64::from(fs.fs_dblkno), i64::from(fs.fs_iblkno) + inodes, "{what}");
    assert!((0..=i64::from(fs.fs_fpg) / 2).contains(&fs.fs_metaspace), "{what}");
    let reach: u64 = (1..=3).map(|n| u64::from(layout.fs_nindir).pow(n)).sum();
    assert_eq!(fs.fs_maxfilesize, u64::from(layout.fs_bsize) * (12 + reach) - 1, "{what}");
    let ncg = wide(fs.fs_ncg);
    assert!(fs.fs_size > (ncg - 1) * i64::from(fs.fs_fpg), "{what}");
    assert!(fs.fs_size <= ncg * i64::from(fs.fs_fpg), "{what}");
    assert_eq!(fs.fs_csaddr, fs.fs_dblkno.into(), "{what}");
    assert_eq!(fs.fs_cssize.cast_unsigned(), (fs.fs_ncg * 16).next_multiple_of(layout.fs_fsize), "{what}");
    assert!(
        fs.fs_csaddr + i64::from(fs.fs_cssize / fs.fs_fsize) < i64::from(fs.fs_fpg).min(fs.fs_size),
        "{what}"
    );
    assert!((1..=256).contains(&fs.fs_maxcontig), "{what}");
    if fs.fs_maxcontig > 1 {
        assert_eq!(fs.fs_contigsumsize, fs.fs_maxcontig.min(16), "{what}");
    }
}

/// The directory's names with their inodes, and its link count.
fn list(device: &dyn Device, superblock: &Superblock, ino: u32) -> (i16, Vec<(u32, String)>) {
    let layout = &superblock.layout;
    let (at, offset) = layout.ino_to_fsba(ino);
    let block = read(device, superblock, at, layout.fs_bsize as usize);
    let inode = &block[offset..offset + layout.inode_size()];
    let (mode, nlink, size, first, sectors) = match layout.version {
        Version::Ufs1 => {
            let di = Dinode1::decode(inode, layout.endian);
            (di.di_mode, di.di_nlink, di.di_size, i64::from(di.di_db[0]), u64::from(di.di_blocks))
        }
        Version::Ufs2 => {
            let di = Dinode2::decode(inode, layout.endian);
            (di.di_mode, di.di_nlink, di.di_size, di.di_db[0], di.di_blocks)
        }
    };
    assert_eq!(mode & 0o170_000, 0o040_000);
    assert_eq!(sectors * 512, size.next_multiple_of(layout.fs_fsize.into()));
    if superblock.check_hashes().inodes {
        assert_eq!(check_hash(inode, 244), u32::get(&inode[244..], layout.endian), "inode {ino}");
    }
    let contents = read(device, superblock, Frag(first.cast_unsigned()), usize::try_from(size).unwrap());
    let mut names = Vec::new();
    for chunk in contents.chunks(512) {
        let mut at = 0;
        while at < 512 {
            let head = DirectHeader::decode(&chunk[at..], layout.endian);
            let namlen = match layout.inode_format {
                InodeFormat::New => {
                    assert_eq!(head.d_type, if head.d_ino == 0 { 0 } else { 4 });
                    head.d_namlen.into()
                }
                _ => u16::get(&chunk[at + 6..], layout.endian),
            };
            assert!(head.d_reclen >= 8 && head.d_reclen.is_multiple_of(4));
            if head.d_ino != 0 {
                let name = &chunk[at + 8..at + 8 + usize::from(namlen)];
                names.push((head.d_ino, String::from_utf8(name.into()).unwrap()));
            }
            at += usize::from(head.d_reclen);
        }
        assert_eq!(at, 512, "entries fill their chunk");
    }
    (nlink, names)
}

fn audit_root(device: &dyn Device, superblock: &Superblock, what: &str) {
    let (nlink, names) = list(device, superblock, ROOTINO);
    assert_eq!(names[..2], [(ROOTINO, ".".into()), (ROOTINO, "..".into())], "{what}");
    assert_eq!(usize::from(nlink.unsigned_abs()), names.len(), "{what}");
    for (ino, name) in &names[2..] {
        let (nlink, below) = list(device, superblock, *ino);
        assert_eq!((nlink, below), (2, vec![(*ino, ".".into()), (ROOTINO, "..".into())]), "{what}: {name}");
    }
}

fn with(size: u64, change: impl FnOnce(&mut Parameters)) -> Parameters {
    let mut parameters = Parameters::new(size);
    change(&mut parameters);
    parameters
}

const FORMATS: [(Format, Option<Dialect>, bool); 13] = [
    (Format::Ufs2, None, false),
    (Format::Ufs2, Some(Dialect::NetBsd), false),
    (Format::Ufs2, Some(Dialect::OpenBsd), false),
    (Format::Ufs2, Some(Dialect::Bsd44), false),
    (Format::Ufs1, None, false),
    (Format::Ufs1, Some(Dialect::NetBsd), false),
    (Format::Ufs1, Some(Dialect::OpenBsd), false),
    (Format::Ufs1, Some(Dialect::Bsd44), false),
    (Format::Ufs1, Some(Dialect::Sun { x86: false }), false),
    (Format::Ufs1, Some(Dialect::Sun { x86: true }), false),
    (Format::Old, None, false),
    (Format::Old, Some(Dialect::Bsd43), false),
    (Format::Old, None, true),
];

/// The byte orders a dialect has.
fn orders(dialect: Option<Dialect>) -> Vec<Endian> {
    match dialect {
        Some(Dialect::Sun { x86: true }) => vec![Endian::Little],
        Some(Dialect::Sun { x86: false }) => vec![Endian::Big],
        _ => vec![Endian::Little, Endian::Big],
    }
}

/// Promise: in every format, byte order and dialect, at sizes with awkward ends, a new file system opens, has
/// nothing against it, and all its accounts agree with its maps.
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

/// Promise: the dialect that was asked for is the one that is recognised, where the superblock can show it.
#[test]
fn the_dialect_shows() {
    for (format, dialect, shown) in [
        (Format::Ufs2, None, Dialect::FreeBsd),
        (Format::Ufs1, None, Dialect::FreeBsd),
        (Format::Ufs2, Some(Dialect::OpenBsd), Dialect::OpenBsd),
        (Format::Ufs1, Some(Dialect::OpenBsd), Dialect::OpenBsd),
        // Nothing that only NetBSD has is in use.
        (Format::Ufs2, Some(Dialect::NetBsd), Dialect::Bsd44),
        (Format::Ufs1, Some(Dialect::Bsd44), Dialect::Bsd44),
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

/// Promise: with a real geometry the structures spiral, the tables of each cycle list every block once at its
/// position, and all accounts agree.
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

/// Promise: FreeBSD's own choice of geometry for 4 megabytes is made here too, field by field, with the first
/// directories in the same places, in both byte orders.
#[test]
fn agrees_with_freebsd() {
    for (name, endian) in [("freebsd-ufs2-le", Endian::Little), ("freebsd-ufs2-be", Endian::Big)] {
        let theirs_on = image(name);
        let theirs = Superblock::open(&theirs_on).unwrap();
        let (ours_on, ours) = make(&with(4 << 20, |p| {
            (p.endian, p.fs_flags) = (Some(endian), flags::FS_DOSOFTDEP);
        }));
        let mut expect = theirs.fs;
        // What its use changed since, and what is chance.
        expect.fs_id = ours.fs.fs_id;
        expect.fs_time = NOW;
        expect.fs_mtime = 0;
        expect.fs_ckhash = ours.fs.fs_ckhash;
        expect.fs_cgrotor = 0;
        expect.fs_cstotal = ours.fs.fs_cstotal;
        expect.fs_fsmnt = ours.fs.fs_fsmnt;
        assert_eq!(ours.fs, expect, "{name}");
        assert_eq!(ours.check_hashes(), CheckHashes { superblock: true, groups: true, inodes: true });
        let place = |device: &MemoryDevice, ino| {
            let (at, offset) = ours.layout.ino_to_fsba(ino);
            let block = read(device, &ours, at, ours.layout.fs_bsize as usize);
            let di = Dinode2::decode(&block[offset..], endian);
            (di.di_db[0], di.di_size, di.di_blocks, di.di_gid, di.di_mode)
        };
        for ino in [2, 3] {
            assert_eq!(place(&ours_on, ino), place(&theirs_on, ino), "{name}: inode {ino}");
        }
        for cgx in 0..ours.layout.fs_ncg {
            let head = |device: &MemoryDevice| {
                let block = read(device, &ours, ours.layout.cgtod(cgx), Cg::SIZE);
                let cg = Cg::decode(&block, endian);
                (cg.cg_iusedoff, cg.cg_freeoff, cg.cg_nextfreeoff, cg.cg_clustersumoff, cg.cg_clusteroff)
            };
            assert_eq!(head(&ours_on), head(&theirs_on), "{name}: group {cgx}");
        }
    }
}

/// Promise: with the geometry that OpenBSD 2.8 used, its newfs' UFS1 comes out field by field, with the same
/// rotational tables, in the new and in the old format.
#[test]
fn agrees_with_openbsd_2_8() {
    for (name, format, size) in
        [("openbsd28-ufs1", Format::Ufs1, 64 << 20), ("openbsd28-43bsd", Format::Old, 32 << 20)]
    {
        let theirs = Superblock::open(&image(name)).unwrap();
        let geometry = Geometry {
            nsect: Some(63),
            ntrak: Some(16),
            nrpos: Some(1),
            rotdelay_ms: Some(0),
            ..Geometry::default()
        };
        let (_, ours) = make(&with(size, |p| {
            (p.format, p.geometry) = (format, geometry);
            (p.minfree, p.maxcontig, p.density) = (Some(5), Some(8), Some(4096));
        }));
        let mut expect = theirs.fs;
        expect.fs_id = ours.fs.fs_id;
        expect.fs_old_time = ours.fs.fs_old_time;
        expect.fs_old_cstotal = ours.fs.fs_old_cstotal;
        expect.fs_fsmnt = ours.fs.fs_fsmnt;
        expect.fs_volname = ours.fs.fs_volname;
        expect.fs_swuid = ours.fs.fs_swuid;
        if format == Format::Old {
            // 4.3BSD knew no clusters, and the kernel moves the masks of old formats when it writes them.
            expect.fs_contigsumsize = 0;
            expect.fs_cgsize = ours.fs.fs_cgsize;
            (expect.fs_qbmask, expect.fs_qfmask) = (ours.fs.fs_qbmask, ours.fs.fs_qfmask);
            expect.fs_state = ours.fs.fs_state;
        }
        assert_eq!(ours.fs, expect, "{name}");
        let tables = |s: &Superblock| {
            let r = s.layout.rotation.clone().unwrap();
            (r.postbl, r.rotbl)
        };
        assert_eq!(tables(&ours), tables(&theirs), "{name}");
    }
}

/// Promise: the same parameters, time and random numbers give the same bytes.
#[test]
fn is_reproducible() {
    for format in [Format::Old, Format::Ufs1, Format::Ufs2] {
        let parameters = with(8 << 20, |p| p.format = format);
        assert!(make(&parameters).0.to_bytes() == make(&parameters).0.to_bytes(), "{format:?}");
    }
}

/// Promise: garbage on the device does not show through: what newfs writes it writes whole, other file systems'
/// magics go, the boot area and what lies behind the file system stay.
#[test]
fn garbage_is_overwritten() {
    const BEHIND: usize = 1 << 20;
    for (format, dialect, static_tables) in FORMATS {
        let size = 12 << 20;
        let parameters =
            with(size, |p| (p.format, p.dialect, p.static_tables) = (format, dialect, static_tables));
        let what = format!("{format:?} {dialect:?} {static_tables}");
        let size = usize::try_from(size).unwrap();
        let mut old = vec![0xa5; size + BEHIND];
        for at in [0, 8192, 16384, 65536, 262_144] {
            old[at + 1372..at + 1376].copy_from_slice(&0x0001_1954_i32.to_le_bytes());
        }
        old[1080..1082].copy_from_slice(b"\x53\xef");
        let device = MemoryDevice::from_bytes(&old);
        let superblock = make_on(&device, &parameters);
        audit(&device, &superblock, &what);
        let new = device.to_bytes();
        assert_eq!(new[1080..1082], [0, 0], "{what}");
        assert!(new[..1080] == old[..1080], "{what}: boot area");
        assert!(new[size..] == old[size..], "{what}: behind the end");
        for place in [0, 8192, 65536, 262_144] {
            let found = Superblock::read(&device, place).unwrap();
            assert_eq!(found.is_some(), place == superblock.layout.fs_sblockloc, "{what}: at {place}");
        }
    }
}

/// Promise: a `PlayStation`'s shape (64K blocks and fragments, no reserve, sectors of 4096) works, and saves
/// space because there is no reserve.
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

/// Promise: the smallest file systems work, and one step below them is refused with the least size possible.
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

/// Promise: what cannot be had is refused by the name of its parameter.
#[test]
fn refusals_name_the_parameter() {
    type Change = fn(&mut Parameters);
    let cases: [(&str, Change); 17] = [
        ("block size", |p| p.bsize = Some(2048)),
        ("block size", |p| p.bsize = Some(131_072)),
        ("block size", |p| p.bsize = Some(12_288)),
        ("fragment size", |p| (p.bsize, p.fsize) = (Some(32768), Some(1024))),
        ("fragment size", |p| (p.sector_bytes, p.fsize) = (4096, Some(512))),
        ("sector size", |p| p.sector_bytes = 520),
        ("minfree", |p| p.minfree = Some(100)),
        ("density", |p| p.density = Some(0)),
        ("label", |p| p.label = Some("a b".into())),
        ("label", |p| (p.format, p.label) = (Format::Old, Some("x".into()))),
        ("dialect", |p| p.dialect = Some(Dialect::Sun { x86: true })),
        ("dialect", |p| (p.format, p.dialect) = (Format::Old, Some(Dialect::FreeBsd))),
        ("disk geometry", |p| p.geometry.nsect = Some(32)),
        ("static tables", |p| p.static_tables = true),
        ("byte order", |p| p.endian = Some(Endian::Pdp)),
        ("byte order", |p| {
            (p.format, p.dialect) = (Format::Ufs1, Some(Dialect::Sun { x86: true }));
            p.endian = Some(Endian::Big);
        }),
        ("size", |p| p.size_bytes = 0),
    ];
    for (name, change) in cases {
        assert_eq!(Plan::new(&with(64 << 20, change)).unwrap_err().parameter, name);
    }
}

/// Promise: the remaining parameters arrive in the superblock.
#[test]
fn parameters_arrive() {
    let (device, superblock) = make(&with(64 << 20, |p| {
        p.minfree = Some(12);
        p.maxcontig = Some(4);
        p.maxbpg = Some(99);
        p.optimization = Some(Optimization::Space);
        p.avgfilesize = Some(5000);
        p.avgfpdir = Some(33);
        p.density = Some(65536);
        p.label = Some("spindle-1".into());
        p.fs_flags = flags::FS_DOSOFTDEP;
        p.blocks_per_group = Some(300);
        p.metaspace = Some(80);
        p.snap_dir = false;
    }));
    audit(&device, &superblock, "parameters");
    let fs = &superblock.fs;
    assert_eq!((fs.fs_minfree, fs.fs_maxcontig, fs.fs_maxbpg, fs.fs_optim), (12, 4, 99, 1));
    assert_eq!((fs.fs_avgfilesize, fs.fs_avgfpdir, fs.fs_contigsumsize, fs.fs_metaspace), (5000, 33, 4, 80));
    assert_eq!(&fs.fs_volname[..10], b"spindle-1\0");
    assert_eq!(fs.fs_flags, flags::FS_DOSOFTDEP | flags::FREEBSD_METACKHASH);
    assert!(fs.fs_fpg <= 2400);
    assert_eq!(list(&device, &superblock, ROOTINO).1.len(), 2);
    let (_, unhashed) = make(&with(64 << 20, |p| p.check_hashes = false));
    assert_eq!(unhashed.check_hashes(), CheckHashes::default());
}

/// Promise: if the standard superblock is lost, the recovery record leads to a copy.
#[test]
fn recovery_record_leads_to_a_copy() {
    for endian in [Endian::Little, Endian::Big] {
        let (device, superblock) = make(&with(64 << 20, |p| p.endian = Some(endian)));
        device.write_at(65536, &[0; 8192]).unwrap();
        let record = Superblock::read_recovery(&device).unwrap().unwrap();
        let FsRecovery { fsr_fpg, fsr_ncg, .. } = record;
        assert_eq!((fsr_fpg, fsr_ncg), (superblock.fs.fs_fpg, superblock.fs.fs_ncg));
        let (at, _) = Superblock::find_replica(&device).unwrap();
        assert_eq!(at, superblock.layout.byte(superblock.layout.cgsblock(1)));
    }
}

/// Promise: whatever is asked for is either refused by name or made consistent; nothing panics.
#[test]
fn random_parameters() {
    let seed = std::env::var("SPINDLE_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-ffs --test newfs random_parameters");
    let mut random = StdRng::seed_from_u64(seed);
    let mut made = 0;
    for round in 0..400 {
        let parameters = random_wishes(&mut random);
        let what = format!("round {round}: {parameters:?}");
        match Plan::new(&parameters) {
            Ok(plan) if plan.size_bytes() <= 256 << 20 => {
                made += 1;
                let (device, superblock) = make(&parameters);
                assert_eq!(superblock.totals(), plan.totals(), "{what}");
                audit(&device, &superblock, &what);
            }
            Ok(plan) => assert!(plan.totals().cs_nbfree > 0, "{what}"),
            Err(error) => assert_ne!(error.parameter, "combination", "{what}: {error}"),
        }
    }
    assert!(made > 50, "only {made} were possible");
}

fn random_wishes(random: &mut StdRng) -> Parameters {
    fn maybe(random: &mut StdRng, values: &[u32]) -> Option<u32> {
        random.random_bool(0.3).then(|| values[random.random_range(0..values.len())])
    }
    let (format, dialect, static_tables) = FORMATS[random.random_range(0..FORMATS.len())];
    let size = match random.random_range(0..10) {
        0 => random.random(),
        1 => random.random::<u64>() >> 16,
        2 => random.random_range(0..1 << 20),
        _ => random.random_range(1 << 20..64 << 20),
    };
    let bsize = maybe(random, &[4096, 8192, 16384, 32768, 65536, 0, 1, u32::MAX, 1 << 31]);
    let edges = [0, 1, 2, 3, 7, 8, 64, 511, 4096, 65535, 1 << 20, i32::MAX as u32, u32::MAX];
    with(size, |p| {
        (p.format, p.dialect, p.static_tables) = (format, dialect, static_tables);
        p.bsize = bsize;
        p.fsize = bsize.and_then(|b| maybe(random, &[b, b / 2, b / 4, b / 8, b / 16]));
        p.density = maybe(random, &[0, 512, 600, 4096, 10_000, 1 << 20, i32::MAX as u32]);
        p.minfree = maybe(random, &[0, 1, 50, 99, 100]);
        p.maxcontig = maybe(random, &edges);
        p.maxbpg = maybe(random, &edges);
        p.blocks_per_group = maybe(random, &edges);
        p.metaspace = maybe(random, &edges);
        p.sector_bytes = [512, 512, 512, 4096][random.random_range(0..4)];
        if matches!(dialect, Some(Dialect::Bsd44 | Dialect::Sun { .. } | Dialect::Bsd43)) {
            let g = &mut p.geometry;
            g.nsect = maybe(random, &[1, 9, 17, 32, 63, 100, 1000, 65535]);
            g.ntrak = maybe(random, &[1, 2, 5, 16, 19, 255, 65535]);
            g.cpg = maybe(random, &[1, 2, 8, 16, 31, 32, 1000, 0]);
            g.nrpos = maybe(random, &[1, 2, 8, 32, 64, 65]);
            g.interleave = maybe(random, &[0, 1, 2, 5]);
            g.trackskew = maybe(random, &edges);
            g.trackspares = maybe(random, &[0, 1, 5, 65535]);
            g.cylspares = maybe(random, &[0, 1, 2, 31, 65535]);
            g.rpm = maybe(random, &[0, 60, 3600, u32::MAX]);
        }
    })
}

/// A device that takes so many writes and then fails, or has larger sectors than its memory.
struct Odd {
    inner: MemoryDevice,
    info: Info,
    writes_left: AtomicU32,
}

impl Odd {
    fn new(inner: MemoryDevice, sector_bytes: u32, writes: u32) -> Self {
        let info = Info { sector_bytes, ..inner.info().clone() };
        Self { inner, info, writes_left: AtomicU32::new(writes) }
    }
}

impl Device for Odd {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        if request.op == Op::Write {
            let left = self.writes_left.load(Ordering::Relaxed);
            if left == 0 {
                let error = std::io::Error::other("no more writes");
                return Err(spindle_device::Error::io("odd", "write", error));
            }
            self.writes_left.store(left - 1, Ordering::Relaxed);
        }
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> spindle_device::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> spindle_device::Result<()> {
        Ok(())
    }
}

/// Promise: newfs cut short after any write leaves no file system, or the old one whole; never a broken one that
/// passes for good.
#[test]
fn an_interrupted_newfs_is_harmless() {
    let shapes = [
        (Format::Ufs2, None, false),
        (Format::Ufs1, None, false),
        (Format::Old, None, true),
        (Format::Ufs1, Some(Dialect::Sun { x86: false }), false),
    ];
    let parameters = |shape: (Format, Option<Dialect>, bool)| {
        with(6 << 20, |p| (p.format, p.dialect, p.static_tables) = shape)
    };
    for old in shapes {
        let (before, _) = make(&parameters(old));
        let before = before.to_bytes();
        for new in shapes {
            let plan = Plan::new(&parameters(new)).unwrap();
            for cut in 0.. {
                let device = Odd::new(MemoryDevice::from_bytes(&before), 512, cut);
                let mut random = StdRng::seed_from_u64(9);
                let done = write(&plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ()).is_ok();
                let what = format!("{old:?} to {new:?} after {cut} writes");
                match Superblock::open(&device) {
                    Ok(superblock) => audit(&device, &superblock, &what),
                    Err(_) => assert!(!done, "{what}"),
                }
                if done {
                    break;
                }
                assert!(cut < 100, "{what}: still not done");
            }
        }
    }
}

/// Promise: large device sectors are respected, and fragments smaller than them refused.
#[test]
fn large_sectors() {
    for format in [Format::Ufs1, Format::Ufs2, Format::Old] {
        let parameters = with(8 << 20, |p| (p.format, p.sector_bytes) = (format, 4096));
        let plan = Plan::new(&parameters).unwrap();
        let device = Odd::new(MemoryDevice::new(8 << 20), 4096, u32::MAX);
        let mut random = StdRng::seed_from_u64(2);
        let mut put = |plan: &Plan| write(plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ());
        let superblock = put(&plan).unwrap();
        audit(&device, &superblock, &format!("{format:?} on sectors of 4096"));
        let small = with(8 << 20, |p| (p.format, p.bsize, p.fsize) = (format, Some(4096), Some(512)));
        let error = put(&Plan::new(&small).unwrap()).unwrap_err();
        assert!(error.to_string().contains("sector"), "{error}");
    }
}

/// Promise: a device that is too small is refused before anything is written.
#[test]
fn too_small_a_device() {
    let plan = Plan::new(&Parameters::new(8 << 20)).unwrap();
    let device = Odd::new(MemoryDevice::new((8 << 20) - 512), 512, 0);
    let mut random = StdRng::seed_from_u64(2);
    let error = write(&plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("smaller size"), "{error}");
}
