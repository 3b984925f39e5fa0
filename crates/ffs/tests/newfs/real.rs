//! What real systems' newfs made comes out here too, field by field.

use super::audit::{NOW, make, read, with};
use spindle_device::MemoryDevice;
use spindle_ffs::newfs::{Format, Geometry};
use spindle_ffs::ondisk::{Cg, Dinode2, flags};
use spindle_ffs::{CheckHashes, Superblock};
use spindle_ondisk::Endian;
use spindle_samples::present;

/// Promise: FreeBSD's own choice of geometry for 4 megabytes is made here too, field by field, with
/// the first directories in the same places, in both byte orders.
#[test]
fn agrees_with_freebsd() {
    for sample in present(&["freebsd-ufs2-le", "freebsd-ufs2-be"]) {
        let name = sample.name;
        let endian = if name == "freebsd-ufs2-be" { Endian::Big } else { Endian::Little };
        let theirs_on = MemoryDevice::from_bytes(&sample.image());
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

/// Promise: with the geometry that OpenBSD 2.8 used, its newfs' UFS1 comes out field by field, with
/// the same rotational tables, in the new and in the old format.
#[test]
fn agrees_with_openbsd_2_8() {
    for sample in present(&["openbsd28-ufs1", "openbsd28-43bsd"]) {
        let name = sample.name;
        let old = name == "openbsd28-43bsd";
        let (format, size) = if old { (Format::Old, 32 << 20) } else { (Format::Ufs1, 64 << 20) };
        let theirs = Superblock::open(&MemoryDevice::from_bytes(&sample.image())).unwrap();
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
            // 4.3BSD knew no clusters, and the kernel moves the masks of old formats when it writes
            // them.
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
