//! Images of each dialect, and the damage that is planted in them.

use crate::images::{self, Image, makefs};
use crate::plants::{Plant, UFS2, Want, only, with};
use serde_json::json;
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::quota::Kind;
use spindle_ffs::repair::switch_quotas;
use spindle_ffs::{Dialect, Frag};
use spindle_samples::present;
use std::sync::{Arc, OnceLock};

/// The images that damage is planted in.
struct Bases {
    /// Version 2 of `makefs`: no check-hashes.
    ufs2: Image,
    /// FreeBSD, where it is there: check-hashes, recovery record, extended attributes.
    freebsd: Option<Image>,
    /// OpenBSD, where it is there: rotational tables.
    openbsd: Option<Image>,
    /// OpenBSD in the 4.3BSD format, where it is there: old directories.
    bsd43: Option<Image>,
    /// New, with the fixed group blocks of 4.2BSD.
    bsd42: Image,
    /// New, Solaris on SPARC.
    sun: Image,
    /// New, NetBSD.
    netbsd: Image,
    /// New, UFS1 of NetBSD.
    netbsd1: Image,
    /// New, NetBSD with quotas inside.
    quotas: Image,
}

fn bases() -> &'static Bases {
    static BASES: OnceLock<Bases> = OnceLock::new();
    BASES.get_or_init(|| {
        let tree = tempfile::tempdir().expect("a temporary directory");
        let root = tree.path();
        let write = |name: &str, bytes: usize| std::fs::write(root.join(name), vec![b'd'; bytes]).unwrap();
        for dir in ["dir/sub", "many", "bare"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for (name, bytes) in
            [("one", 100), ("two", 100), ("nil", 0), ("dir/a", 10), ("dir/b", 10), ("dir/sub/s", 1)]
        {
            write(name, bytes);
        }
        for (name, bytes) in [("large", 1 << 20), ("also-large", 1 << 20)] {
            write(name, bytes);
        }
        for n in 0..600 {
            write(&format!("many/a-name-of-some-length-{n:04}"), 0);
        }
        images::run(std::process::Command::new("mkfifo").arg(root.join("pipe")));
        let options = "version=2,bsize=8192,fsize=1024,maxbpcg=512";
        let there = present(&["freebsd-ufs2-le", "openbsd28-ufs1", "openbsd28-43bsd"]);
        let real = |name| {
            let sample = there.iter().find(|sample| sample.name == name)?;
            Some(Image::new(&MemoryDevice::from_bytes(&sample.image())))
        };
        Bases {
            ufs2: Image::new(&makefs(root, &["-B", "le", "-o", options, "-s", "32m"])),
            freebsd: real("freebsd-ufs2-le"),
            openbsd: real("openbsd28-ufs1"),
            bsd43: real("openbsd28-43bsd"),
            bsd42: Image::new(&images::new(&Parameters {
                format: Format::Old,
                static_tables: true,
                ..Parameters::new(8 << 20)
            })),
            sun: Image::new(&images::new(&Parameters {
                format: Format::Ufs1,
                dialect: Some(Dialect::Sun { x86: false }),
                ..Parameters::new(8 << 20)
            })),
            netbsd: Image::new(&images::new(&Parameters {
                dialect: Some(Dialect::NetBsd),
                ..Parameters::new(8 << 20)
            })),
            netbsd1: Image::new(&images::new(&Parameters {
                format: Format::Ufs1,
                dialect: Some(Dialect::NetBsd),
                blocks_per_group: Some(300),
                ..Parameters::new(8 << 20)
            })),
            quotas: with_quotas(images::new(&Parameters {
                dialect: Some(Dialect::NetBsd),
                ..Parameters::new(8 << 20)
            })),
        }
    })
}

/// Turns quotas inside a file system on.
fn with_quotas(device: MemoryDevice) -> Image {
    let device: Arc<MemoryDevice> = Arc::new(device);
    let (on, clock): (Arc<dyn Device>, Arc<dyn Clock>) = (device.clone(), Arc::new(ManualClock::at(0)));
    switch_quotas(&on, &clock, &Kind::ALL, true).unwrap();
    Image::new(&device)
}

/// Damage that needs check-hashes, a recovery record or extended attributes.
const FREEBSD: &[(&str, Plant)] = &[
    ("a byte of the superblock", |i| {
        i.put(i.sb() + 212, b'?');
        // The recovery record leads to the first replica beyond group 0.
        only(json!({"finding": "SuperblockUnusable", "replica": i.replica(1)}))
    }),
    ("a byte of a replica", |i| {
        i.put(i.replica(2) + 212, b'?');
        only(json!({"finding": "ReplicaCheckHash", "cgx": 2, "byte": i.replica(2)}))
    }),
    ("the recovery record", |i| {
        i.put(65536 - 4, 77_u32);
        only(json!({"finding": "RecoveryRecord", "field": "fsr_ncg", "found": 77, "expected": 4}))
    }),
    ("a time in an inode", |i| {
        i.add(i.inode(2) + 32, 1);
        only(json!({"finding": "InodeCheckHash", "ino": 2, "path": "/"}))
    }),
    ("the time of a group", |i| {
        i.add(i.cg(3) + 136, 1);
        only(json!({"finding": "GroupCheckHash", "cgx": 3}))
    }),
    ("a directory's depth", |i| {
        let ino = i.ino("dir1");
        i.put(i.inode(ino) + 240, 9_u32);
        i.hash_inode(ino);
        only(json!({"finding": "DirectoryDepth", "severity": "note", "ino": ino, "found": 9, "expected": 1}))
    }),
    ("a block beyond the extended attributes", |i| {
        let ino = i.find_inode(3, |i, at| i.get::<u16>(at) != 0 && i.get::<u32>(at + 92) > 0);
        i.put(i.inode(ino) + 104, 777_u64);
        i.hash_inode(ino);
        only(json!({"finding": "ExtattrStray", "ino": ino, "index": 1, "pointer": 777}))
    }),
    ("an extended attribute's name space", |i| {
        let ino = i.find_inode(3, |i, at| i.get::<u16>(at) != 0 && i.get::<u32>(at + 92) > 0);
        let frag: u64 = i.get(i.inode(ino) + 96);
        i.put(frag * 4096 + 4, 7_u8);
        only(json!({"finding": "ExtattrNamespace", "ino": ino, "offset": 0, "namespace": 7}))
    }),
    ("a NUL in a symbolic link", |i| {
        let ino = i
            .find_inode(3, |i, at| i.get::<u16>(at) >> 12 == 10 && (3..100).contains(&i.get::<u64>(at + 16)));
        i.put(i.inode(ino) + 112 + 2, 0_u8);
        i.hash_inode(ino);
        only(json!({"finding": "LinkHasNul", "ino": ino, "offset": 2}))
    }),
    ("the block of a symbolic link", |i| {
        let long = |i: &Image, at| i.get::<u16>(at) >> 12 == 10 && i.get::<u64>(at + 16) >= 120;
        let ino = i.find_inode(3, long);
        let size = usize::try_from(i.get::<u64>(i.inode(ino) + 16)).unwrap();
        let at = usize::try_from(i.get::<u64>(i.pointer(ino, 0)) * 4096).unwrap();
        i.bytes[at..at + size].fill(0);
        only(json!({"finding": "LinkBlockHasNul", "ino": ino, "offset": 0, "size": size}))
    }),
    ("the check-hash of a free inode", |i| {
        let ino = i.find_inode(3, |i, at| i.get::<u16>(at) == 0);
        i.put(i.inode(ino) + 244, 77_u32);
        only(json!({"finding": "FreeInodeCheckHash", "severity": "note", "ino": ino, "found": 77}))
    }),
    ("an extended attribute's length", |i| {
        let ino = i.find_inode(3, |i, at| i.get::<u16>(at) != 0 && i.get::<u32>(at + 92) > 0);
        let frag: u64 = i.get(i.inode(ino) + 96);
        i.put(frag * 4096, 3_u32);
        only(json!({"finding": "ExtattrCorrupt", "ino": ino, "offset": 0}))
    }),
];

/// Damage that needs rotational tables.
const OPENBSD: &[(&str, Plant)] = &[
    ("the free blocks of a cylinder", |i| {
        let at = i.cg(2) + u64::from(i.get::<u32>(i.cg(2) + 84)) + 4 * 7;
        let found: i32 = i.get(at);
        i.add(at, 1);
        only(
            json!({"finding": "CylinderBlocks", "cgx": 2, "cylinder": 7, "found": found + 1, "expected": found}),
        )
    }),
    ("the free blocks at a rotational position", |i| {
        let at = i.cg(2) + u64::from(i.get::<u32>(i.cg(2) + 88)) + 2 * 7;
        let found: u16 = i.get(at);
        i.put(at, found + 1);
        only(
            json!({"finding": "RotationalBlocks", "cgx": 2, "cylinder": 7, "position": 0, "found": found + 1, "expected": found}),
        )
    }),
    ("a pointer beyond 31 bits", |i| {
        let ino = i.find_inode(3, |i, at| {
            i.get::<u16>(at) >> 12 == 8 && i.get::<u64>(at + 8) > 8192 && i.get::<u32>(at + 40) != 0
        });
        i.put(i.pointer(ino, 0), -1_i32);
        with(json!({"finding": "BadBlock", "ino": ino, "frags": 8, "why": "out_of_range"}), OPENBSD_SPACE)
    }),
    ("the size for data", |i| old_size(i, i.sb() + 40)),
    ("the size for data in the last replica", |i| old_size(i, i.replica(i.layout().fs_ncg - 1) + 40)),
    ("the cylinders of the last group", |i| in_group(i, i.layout().fs_ncg - 1, 16, "cg_old_ncyl")),
    ("the counts of the file system", |i| {
        i.add(i.sb() + 192 + 8, 3);
        only(json!({"finding": "Totals"}))
    }),
];
const OPENBSD_SPACE: &[&str] = &[
    "FragsMarkedUsed",
    "GroupCounts",
    "FreeRuns",
    "ClusterMap",
    "ClusterSum",
    "SummaryCounts",
    "Totals",
    "CylinderBlocks",
    "RotationalBlocks",
];

/// Returns what systems before UFS2 compare between all superblocks.
fn old_size(i: &mut Image, at: u64) -> Want {
    i.add(at, 1);
    let last = i.layout().fs_ncg - 1;
    with(json!({"finding": "ReplicaDiffers", "cgx": last, "field": "fs_old_dsize"}), &["ReplicaDiffers"])
}

/// Damage in old directories.
const BSD43: &[(&str, Plant)] = &[
    ("a name of more than 255 bytes", |i| {
        let at = i.entry_of(2, "..").unwrap();
        i.put(at + 6, 300_u16);
        Want {
            exactly: vec![
                json!({"finding": "DirectoryCorrupt", "ino": 2, "offset": 12, "why": "name_too_long"}),
            ],
            also: &["MissingDotdot", "UnreferencedFile", "UnreferencedDirectory", "LinkCount"],
        }
    }),
    ("an entry without an inode", |i| {
        let ino = i.find_inode(3, |i, at| i.get::<u16>(at) >> 12 == 4);
        i.put(i.entry_of(ino, ".").unwrap(), 0_u32);
        only(json!({"finding": "MissingDot", "ino": ino}))
    }),
];

/// Damage in group blocks whose parts stand at fixed places.
const BSD42: &[(&str, Plant)] = &[
    ("a group's magic", |i| {
        i.put(i.cg(1) + 980, 0_u32);
        only(json!({"finding": "GroupUnusable", "cgx": 1}))
    }),
    ("the free blocks of a cylinder", |i| {
        i.add(i.cg(1) + 84 + 4 * 3, 1);
        only(json!({"finding": "CylinderBlocks", "cgx": 1, "cylinder": 3}))
    }),
    ("the free blocks at a rotational position", |i| {
        let at = i.cg(1) + 212 + 2 * (8 * 3 + 5);
        i.put(at, i.get::<u16>(at) + 1);
        only(json!({"finding": "RotationalBlocks", "cgx": 1, "cylinder": 3, "position": 5}))
    }),
    ("a free inode marked used", |i| {
        let at = i.cg(1) + 724 + 1;
        i.put(at, i.get::<u8>(at) ^ 4);
        let ino = i.layout().fs_ipg + 10;
        only(json!({"finding": "InodesMarkedUsed", "ino": ino, "inodes": 1}))
    }),
    ("free fragments marked used", |i| {
        let at = i.cg(1) + 984 + u64::from(i.layout().cg_frags(1)) / 8 - 2;
        i.put(at, 0_u8);
        let frag = i.layout().cgbase(1).0 + (at - i.cg(1) - 984) * 8;
        only(json!({"finding": "FragsMarkedUsed", "frag": frag, "frags": 8}))
    }),
];

/// Damage that only Solaris can have.
const SUN: &[(&str, Plant)] = &[("an access control list with too many links", |i| {
    let ino = i.find_inode(3, |i, at| i.get::<u16>(at) == 0);
    i.put(i.inode(ino), 0xb000_u16);
    i.put(i.inode(ino) + 2, 2_u16);
    i.put(i.inode(2) + 112, ino);
    with(
        json!({"finding": "LinkCount", "ino": ino, "found": 2, "expected": 1}),
        &["InodesMarkedFree", "GroupCounts", "SummaryCounts", "Totals"],
    )
})];

/// Returns a file at the first free inode of group 0 that no name leads to; the group's accounts do
/// not know it.
fn file_without_name(i: &mut Image) -> u32 {
    let ino = i.find_inode(3, |i, at| i.get::<u16>(at) == 0);
    i.put(i.inode(ino), 0o100_600_u16);
    i.put(i.inode(ino) + 2, 1_u16);
    ino
}

/// NetBSD's files without names: what is wrong is only that the maps do not have them.
const NETBSD: &[(&str, Plant)] = &[
    ("a file without a name", |i| {
        let ino = file_without_name(i);
        with(json!({"finding": "UnreferencedFile", "ino": ino}), UNCOUNTED)
    }),
    ("the journal", |i| {
        let ino = file_without_name(i);
        i.put(i.sb() + 864, 1_u8);
        i.put(i.sb() + 865, 2_u8);
        i.put(i.sb() + 896, u64::from(ino));
        with(json!({"finding": "InodesMarkedFree", "ino": ino}), &["GroupCounts", "SummaryCounts", "Totals"])
    }),
    ("the quotas of users", |i| {
        let ino = file_without_name(i);
        i.put(i.sb() + 904, 0xb746_915e_u32);
        i.put(i.sb() + 912, u64::from(ino));
        with(json!({"finding": "InodesMarkedFree", "ino": ino}), &["GroupCounts", "SummaryCounts", "Totals"])
    }),
];
const UNCOUNTED: &[&str] = &["InodesMarkedFree", "GroupCounts", "SummaryCounts", "Totals"];

/// Returns the inode of the quota of users, and the byte at which its file begins.
fn quota_of_users(i: &Image) -> (u32, u64) {
    let ino = u32::try_from(i.get::<u64>(i.sb() + 912)).unwrap();
    (ino, i.layout().byte(Frag(i.block(ino, 0))))
}

/// Damage of NetBSD's quotas inside the file system.
const QUOTAS: &[(&str, Plant)] = &[
    ("a quota without a file", |i| {
        i.put(i.sb() + 912, 0_u64);
        with(json!({"finding": "QuotaFileMissing", "of": "user"}), &["UnreferencedFile", "QuotaUsage"])
    }),
    ("the header of a quota", |i| {
        let (ino, at) = quota_of_users(i);
        i.put(at, 0_u32);
        only(json!({"finding": "QuotaFile", "of": "user", "ino": ino}))
    }),
    ("the file of a quota with two names", |i| {
        let (ino, _) = quota_of_users(i);
        i.put(i.inode(ino) + 2, 2_u16);
        only(json!({"finding": "QuotaFile", "of": "user", "ino": ino}))
    }),
    ("what a user has", |i| {
        let (_, at) = quota_of_users(i);
        let entry = at + i.get::<u64>(at + 112);
        i.put(entry + 16, 77_u64);
        only(json!({"finding": "QuotaUsage", "of": "user", "id": 0, "blocks": 77}))
    }),
];

/// Sets a bit in a map of a group, whose offset stands at byte `offset` of it.
fn free_beyond(i: &mut Image, offset: u64, per: u32, map: &str) -> Want {
    let cgx = i.layout().fs_ncg - 1;
    let (ends, most) = (i.layout().cg_frags(cgx) / per, i.layout().fs_fpg / per);
    assert!(ends.div_ceil(8) < most.div_ceil(8), "the last group is shorter");
    let bit = most / 8 * 8 - 1;
    let at = i.cg(cgx) + u64::from(i.get::<u32>(i.cg(cgx) + offset)) + u64::from(bit / 8);
    i.put(at, 0x80_u8);
    only(json!({"finding": "FreeBeyondEnd", "cgx": cgx, "map": map, "bit": bit}))
}

/// Returns a field of the superblock that has to be what others make it.
fn constant(i: &mut Image, at: u64, field: &str) -> Want {
    i.put(i.sb() + at, i.get::<u64>(i.sb() + at) + 2);
    only(json!({"finding": "SuperblockField", "field": field}))
}

/// Returns a field of a group that has to be what others make it.
fn in_group(i: &mut Image, cgx: u32, at: u64, field: &str) -> Want {
    i.add(i.cg(cgx) + at, 1);
    only(json!({"finding": "GroupField", "cgx": cgx, "field": field}))
}

/// UFS1 whose counts have moved to their new places.
const NETBSD1: &[(&str, Plant)] = &[
    ("free fragments beyond the end", |i| free_beyond(i, 96, 1, "fragments")),
    ("free clusters beyond the end", |i| free_beyond(i, 108, i.layout().fs_frag, "clusters")),
    ("the largest file", |i| constant(i, 1328, "fs_maxfilesize")),
    ("the mask of a block", |i| constant(i, 1336, "fs_qbmask")),
    ("the mask of a fragment", |i| constant(i, 1344, "fs_qfmask")),
    ("the end of the maps", |i| in_group(i, 1, 100, "cg_nextfreeoff")),
    ("the cylinders of a group", |i| in_group(i, 1, 16, "cg_old_ncyl")),
    ("the cylinders of the last group", |i| in_group(i, i.layout().fs_ncg - 1, 16, "cg_old_ncyl")),
    ("free runs of no fragments", |i| in_group(i, 2, 52, "cg_frsum[0]")),
    ("the counts", |i| {
        i.add(i.sb() + 1008 + 8, 3);
        only(json!({"finding": "Totals"}))
    }),
    ("the counts that NetBSD leaves alone", |i| {
        i.add(i.sb() + 192 + 4, 3);
        only(json!({"finding": "OldTotals", "severity": "note"}))
    }),
];

/// Damage by name.
pub type Table = &'static [(&'static str, Plant)];

/// Returns each image, unless it is one of a real system that is not there, with the damage that is
/// planted in it.
pub fn all() -> [(Option<&'static Image>, Table); 9] {
    let b = bases();
    [
        (Some(&b.ufs2), UFS2),
        (b.freebsd.as_ref(), FREEBSD),
        (b.openbsd.as_ref(), OPENBSD),
        (b.bsd43.as_ref(), BSD43),
        (Some(&b.bsd42), BSD42),
        (Some(&b.sun), SUN),
        (Some(&b.netbsd), NETBSD),
        (Some(&b.netbsd1), NETBSD1),
        (Some(&b.quotas), QUOTAS),
    ]
}
