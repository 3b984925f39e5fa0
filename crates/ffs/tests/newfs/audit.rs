//! Making file systems for the tests, and every account of one recomputed from its maps alone.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Options, check};
use spindle_ffs::newfs::{Format, Parameters, Plan, ROOTINO, write};
use spindle_ffs::ondisk::{CG_MAGIC, Cg, Csum, Dinode1, Dinode2, DirectHeader, OldCg};
use spindle_ffs::{CG_CKHASH, Dialect, Frag, GroupMap, InodeFormat, Superblock, Version, check_hash};
use spindle_ondisk::Field;

pub const NOW: i64 = 1_700_000_000;

pub fn make_on(device: &MemoryDevice, parameters: &Parameters) -> Superblock {
    let plan = Plan::new(parameters).unwrap_or_else(|e| panic!("{parameters:?}: {e}"));
    let mut random = StdRng::seed_from_u64(7);
    write(&plan, device, &ManualClock::at(NOW), &mut random, &mut |_, _| ())
        .unwrap_or_else(|e| panic!("{parameters:?}: {e}"))
}

pub fn make(parameters: &Parameters) -> (MemoryDevice, Superblock) {
    let device = MemoryDevice::new(parameters.size_bytes);
    let superblock = make_on(&device, parameters);
    (device, superblock)
}

pub fn read(device: &dyn Device, superblock: &Superblock, at: Frag, bytes: usize) -> Vec<u8> {
    let mut buf = vec![0; bytes.next_multiple_of(device.info().sector_bytes as usize)];
    device.read_at(superblock.layout.byte(at), &mut buf).unwrap();
    buf.truncate(bytes);
    buf
}

fn bit(map: &[u8], n: u32) -> bool {
    map[n as usize / 8] & (1 << (n % 8)) != 0
}

/// Recomputes every count of the file system from the maps alone.
pub fn audit(device: &dyn Device, superblock: &Superblock, what: &str) {
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

/// Computes the rotational positions by the arithmetic of the paper's time, on whole sectors.
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

/// Checks what FreeBSD 15 demands of a superblock before it mounts it (`ffs_subr.c`).
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

/// Returns the directory's names with their inodes, and its link count.
pub fn list(device: &dyn Device, superblock: &Superblock, ino: u32) -> (i16, Vec<(u32, String)>) {
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
    for chunk in contents.chunks(layout.dirblksiz as usize) {
        let mut at = 0;
        while at < chunk.len() {
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
        assert_eq!(at, chunk.len(), "entries fill their chunk");
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

pub fn with(size: u64, change: impl FnOnce(&mut Parameters)) -> Parameters {
    let mut parameters = Parameters::new(size);
    change(&mut parameters);
    parameters
}

pub const FORMATS: [(Format, Option<Dialect>, bool); 14] = [
    (Format::Ufs2, None, false),
    (Format::Ufs2, Some(Dialect::NetBsd), false),
    (Format::Ufs2, Some(Dialect::OpenBsd), false),
    (Format::Ufs2, Some(Dialect::Bsd44), false),
    (Format::Ufs1, None, false),
    (Format::Ufs1, Some(Dialect::NetBsd), false),
    (Format::Ufs1, Some(Dialect::OpenBsd), false),
    (Format::Ufs1, Some(Dialect::Bsd44), false),
    (Format::Ufs1, Some(Dialect::Apple), false),
    (Format::Ufs1, Some(Dialect::Sun { x86: false }), false),
    (Format::Ufs1, Some(Dialect::Sun { x86: true }), false),
    (Format::Old, None, false),
    (Format::Old, Some(Dialect::Bsd43), false),
    (Format::Old, None, true),
];
