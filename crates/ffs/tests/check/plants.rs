//! Damage of every kind for the UFS2 image of the tests, each with what the check must say of it.

use crate::images::Image;
use serde_json::{Value, json};

/// What a piece of damage must give: findings with these members, and kinds that may come with
/// them.
pub struct Want {
    pub exactly: Vec<Value>,
    pub also: &'static [&'static str],
}

/// Returns one finding and nothing else.
pub fn only(finding: Value) -> Want {
    Want { exactly: vec![finding], also: &[] }
}

pub fn with(finding: Value, also: &'static [&'static str]) -> Want {
    Want { exactly: vec![finding], also }
}

/// What follows from space changing hands: maps and counts that no longer agree.
const SPACE: &[&str] = &[
    "FragsMarkedUsed",
    "FragsMarkedFree",
    "GroupCounts",
    "FreeRuns",
    "ClusterMap",
    "ClusterSum",
    "SummaryCounts",
    "Totals",
];
/// The same, and the count of a file whose space it is.
const SPOILT: &[&str] = &[
    "BlockCount",
    "FragsMarkedUsed",
    "FragsMarkedFree",
    "GroupCounts",
    "FreeRuns",
    "ClusterMap",
    "ClusterSum",
    "SummaryCounts",
    "Totals",
];
/// What follows from a name that is lost.
const LOST: &[&str] = &["UnreferencedFile"];

/// Plants damage and returns what the check must find.
pub type Plant = fn(&mut Image) -> Want;

/// What follows from the loss of the end of a directory.
const SHORTENED: &[&str] = &[
    "UnreferencedFile",
    "UnreferencedDirectory",
    "EntryDamaged",
    "EntryUnallocated",
    "LinkCount",
    "InodesMarkedUsed",
    "FragsMarkedUsed",
    "FragsMarkedFree",
    "GroupCounts",
    "FreeRuns",
    "ClusterMap",
    "ClusterSum",
    "SummaryCounts",
    "Totals",
];

/// What follows from the loss of the root.
const ROOTLESS: &[&str] = &[
    "BadMode",
    "BadSize",
    "UnreferencedFile",
    "UnreferencedDirectory",
    "LinkCount",
    "InodesMarkedUsed",
    "FragsMarkedUsed",
    "GroupCounts",
    "FreeRuns",
    "ClusterMap",
    "ClusterSum",
    "SummaryCounts",
    "Totals",
];

/// Returns what a broken entry gives: the rest of its chunk is lost.
fn broken(i: &Image, at: u64, why: &str) -> Want {
    let dir = i.ino("dir");
    let offset = at - i.block(dir, 0) * 1024;
    with(
        json!({"finding": "DirectoryCorrupt", "ino": dir, "offset": offset, "bytes": 512 - offset, "why": why}),
        &["UnreferencedFile", "UnreferencedDirectory"],
    )
}

/// Turns the bit of a fragment in its group's map over.
fn flip(i: &mut Image, frag: u64) {
    let (cgx, n) = (frag / 1696, frag % 1696);
    let cg = i.cg(u32::try_from(cgx).unwrap());
    let at = cg + u64::from(i.get::<u32>(cg + 96)) + n / 8;
    i.put(at, i.get::<u8>(at) ^ 1 << (n % 8));
}

/// Turns the bit of an inode in its group's map over.
fn flip_inode(i: &mut Image, ino: u32) {
    let cg = i.cg(ino / 32);
    let at = cg + u64::from(i.get::<u32>(cg + 92) + ino % 32 / 8);
    i.put(at, i.get::<u8>(at) ^ 1 << (ino % 8));
}

/// Plants damage in the UFS2 image without check-hashes.
pub const UFS2: &[(&str, Plant)] = &[
    ("the superblock's block size", |i| {
        i.put(i.sb() + 48, 12345_i32);
        only(json!({"finding": "SuperblockUnusable", "replica": i.replica(0)}))
    }),
    ("an optimisation that is none", |i| {
        i.put(i.sb() + 128, 7_i32);
        only(json!({"finding": "SuperblockField", "field": "fs_optim", "found": 7}))
    }),
    ("a mask that contradicts the block size", |i| {
        i.put(i.sb() + 72, -4096_i32);
        with(
            json!({"finding": "SuperblockField", "field": "fs_bmask", "found": -4096, "expected": "-8192"}),
            &["ReplicaDiffers"],
        )
    }),
    ("a snapshot that is an ordinary file", |i| {
        let ino = i.ino("large");
        i.put(i.sb() + 1116, ino);
        only(json!({"finding": "FalseSnapshot", "severity": "harmless", "ino": ino}))
    }),
    ("a snapshot behind the last inode", |i| {
        i.put(i.sb() + 1116 + 8, 99_999_u32);
        i.hash_superblock();
        only(json!({"finding": "FalseSnapshot", "ino": 99_999}))
    }),
    ("a replica's magic", |i| {
        i.put(i.replica(3) + 1372, 0_i32);
        only(json!({"finding": "ReplicaMissing", "cgx": 3, "byte": i.replica(3)}))
    }),
    ("a replica's number of groups", |i| {
        i.put(i.replica(2) + 44, 9_u32);
        only(json!({"finding": "ReplicaDiffers", "cgx": 2, "field": "fs_ncg", "found": 9, "expected": 20}))
    }),
    ("the clean flag", |i| {
        i.put(i.sb() + 209, 0_u8);
        only(json!({"finding": "NotClean", "severity": "note", "fs_clean": 0}))
    }),
    ("NetBSD's clean flag while mounted", |i| {
        i.put(i.sb() + 209, 2_u8);
        only(json!({"finding": "NotClean", "fs_clean": 2}))
    }),
    ("inodes being freed", |i| {
        i.put(i.sb() + 1112, 3_u32);
        only(json!({"finding": "Pending", "severity": "note", "inodes": 3}))
    }),
    ("an unreadable group block", |i| {
        i.unreadable = i.cg(1)..i.cg(1) + 1;
        only(json!({"finding": "Unreadable", "byte": i.cg(1), "bytes": 1024}))
    }),
    ("an unreadable indirect block", |i| {
        let byte = i.block(i.ino("large"), 12) * 1024;
        i.unreadable = byte..byte + 512;
        with(json!({"finding": "Unreadable", "byte": byte, "bytes": 8192}), SPACE)
    }),
    ("a size in a free inode", |i| {
        let ino = i.find_inode(3, |i, at| i.get::<u16>(at) == 0);
        i.put(i.inode(ino) + 16, 5_u64);
        only(json!({"finding": "PartialInode", "ino": ino}))
    }),
    ("a kind that is none", |i| {
        let ino = i.ino("nil");
        i.put(i.inode(ino), 0o030_644_u16);
        Want {
            exactly: vec![
                json!({"finding": "BadMode", "ino": ino, "mode": 0o030_644, "path": "/nil"}),
                json!({"finding": "EntryDamaged", "entry": {"dir": 2, "name": "nil", "ino": ino}}),
            ],
            also: &[],
        }
    }),
    ("a size beyond all", |i| {
        let ino = i.ino("nil");
        i.put(i.inode(ino) + 16, 1_u64 << 60);
        with(json!({"finding": "BadSize", "ino": ino, "size": 1_u64 << 60}), &["EntryDamaged"])
    }),
    ("a pipe with a size", |i| {
        let ino = i.ino("pipe");
        i.put(i.inode(ino) + 16, 1_u64);
        with(json!({"finding": "SpecialFileSize", "ino": ino, "size": 1}), &["EntryDamaged"])
    }),
    ("a device file without a device", |i| {
        let ino = i.ino("nil");
        i.put(i.inode(ino), 0o020_644_u16);
        i.put(i.pointer(ino, 0), -1_i64);
        with(json!({"finding": "NoDevice", "ino": ino}), &["EntryDamaged"])
    }),
    ("a pointer beyond the size", |i| {
        let ino = i.ino("one");
        i.put(i.pointer(ino, 13), 777_i64);
        with(
            json!({"finding": "StrayPointer", "ino": ino, "index": 13, "pointer": 777}),
            &[
                "EntryDamaged",
                "FragsMarkedUsed",
                "GroupCounts",
                "FreeRuns",
                "ClusterSum",
                "ClusterMap",
                "SummaryCounts",
                "Totals",
            ],
        )
    }),
    ("pointers beyond the size in an indirect block", |i| {
        let ino = i.ino("large");
        let frag = i.block(ino, 12);
        i.put(frag * 1024 + 8 * 1000, 777_i64);
        i.put(frag * 1024 + 8 * 1023, 777_i64);
        only(json!({"finding": "PartlyTruncated", "ino": ino, "frag": frag, "index": 1000, "pointers": 2}))
    }),
    ("a pointer beyond the file system", |i| {
        let ino = i.ino("one");
        i.put(i.pointer(ino, 0), 32768_i64);
        with(
            json!({"finding": "BadBlock", "ino": ino, "place": {"data": {"lbn": 0}}, "frag": 32768, "frags": 1, "why": "out_of_range"}),
            SPACE,
        )
    }),
    ("a negative pointer", |i| {
        let ino = i.ino("one");
        i.put(i.pointer(ino, 0), -5_i64);
        with(json!({"finding": "BadBlock", "ino": ino, "why": "out_of_range"}), SPACE)
    }),
    ("a pointer into the inodes", |i| {
        let ino = i.ino("one");
        let frag = i.layout().cgimin(4).0;
        i.put(i.pointer(ino, 0), frag);
        with(json!({"finding": "BadBlock", "ino": ino, "frag": frag, "why": "metadata"}), SPACE)
    }),
    ("a pointer into the summaries", |i| {
        let ino = i.ino("one");
        let frag = i.layout().fs_csaddr.0;
        i.put(i.pointer(ino, 0), frag);
        with(json!({"finding": "BadBlock", "ino": ino, "frag": frag, "why": "metadata"}), SPACE)
    }),
    ("a whole block that starts inside one", |i| {
        let ino = i.ino("large");
        let frag = i.block(ino, 3) + 1;
        i.put(i.pointer(ino, 3), frag);
        with(
            json!({"finding": "BadBlock", "ino": ino, "place": {"data": {"lbn": 3}}, "frag": frag, "frags": 8, "why": "unaligned"}),
            SPACE,
        )
    }),
    ("a bad indirect block", |i| {
        let ino = i.ino("large");
        i.put(i.pointer(ino, 12), 40000_i64);
        with(
            json!({"finding": "BadBlock", "ino": ino, "place": {"indirect": {"level": 1, "lbn": 12}}, "frag": 40000, "frags": 8, "why": "out_of_range"}),
            SPACE,
        )
    }),
    ("bad pointers without end", |i| {
        let ino = i.ino("large");
        (0..12).for_each(|n| i.put(i.pointer(ino, n), 1_i64 << 40));
        Want {
            exactly: vec![json!({"finding": "ExcessiveBadBlocks", "ino": ino})],
            also: &[
                "BadBlock",
                "FragsMarkedUsed",
                "GroupCounts",
                "FreeRuns",
                "ClusterSum",
                "ClusterMap",
                "SummaryCounts",
                "Totals",
            ],
        }
    }),
    ("a fragment of two files", |i| {
        let (first, second) = (i.ino("one").min(i.ino("two")), i.ino("one").max(i.ino("two")));
        let frag = i.block(first, 0);
        i.put(i.pointer(second, 0), frag);
        with(
            json!({"finding": "DuplicateBlock", "ino": second, "frag": frag, "frags": 1, "owner": first}),
            SPACE,
        )
    }),
    ("an indirect block of two files", |i| {
        let (a, b) = (i.ino("large"), i.ino("also-large"));
        let (first, second) = (a.min(b), a.max(b));
        let frag = i.block(first, 12);
        i.put(i.pointer(second, 12), frag);
        with(
            json!({"finding": "DuplicateBlock", "ino": second, "frag": frag, "frags": 8, "owner": first}),
            SPACE,
        )
    }),
    ("all blocks of two files", |i| {
        let (a, b) = (i.ino("large"), i.ino("also-large"));
        let (first, second) = (a.min(b), a.max(b));
        (0..12).for_each(|n| i.put(i.pointer(second, n), i.block(first, n)));
        Want {
            exactly: vec![json!({"finding": "ExcessiveDuplicateBlocks", "ino": second})],
            also: &[
                "DuplicateBlock",
                "FragsMarkedUsed",
                "GroupCounts",
                "FreeRuns",
                "ClusterSum",
                "ClusterMap",
                "SummaryCounts",
                "Totals",
            ],
        }
    }),
    ("the count of blocks", |i| {
        let ino = i.ino("large");
        let blocks: u64 = i.get(i.inode(ino) + 24);
        i.put(i.inode(ino) + 24, blocks + 16);
        only(
            json!({"finding": "BlockCount", "ino": ino, "found": blocks + 16, "expected": blocks, "path": "/large"}),
        )
    }),
    ("a pointer of zeros", |i| {
        let ino = i.ino("large");
        let blocks: u64 = i.get(i.inode(ino) + 24);
        i.put(i.pointer(ino, 0), 0_i64);
        with(json!({"finding": "BlocksMissing", "ino": ino, "found": blocks, "expected": blocks - 16}), SPACE)
    }),
    ("a hole at the end", |i| {
        let ino = i.ino("one");
        i.put(i.pointer(ino, 0), 0_i64);
        i.put(i.inode(ino) + 24, 0_u64);
        with(json!({"finding": "EndsInHole", "ino": ino, "size": 100, "allocated": 0}), SPACE)
    }),
    ("more extended attributes than can be", |i| {
        let ino = i.ino("nil");
        i.put(i.inode(ino) + 92, 16385_u32);
        with(json!({"finding": "ExtattrSize", "ino": ino, "size": 16385, "most": 16384}), &["EntryDamaged"])
    }),
    ("a bad block of extended attributes", |i| {
        let ino = i.ino("nil");
        i.put(i.inode(ino) + 92, 100_u32);
        i.put(i.inode(ino) + 96, 1_u64 << 50);
        with(
            json!({"finding": "BadBlock", "ino": ino, "place": {"extattr": {"lbn": 0}}, "frag": 1_u64 << 50, "frags": 1}),
            &["BlockCount"],
        )
    }),
    ("a directory that is marked as a snapshot", |i| {
        let ino = i.ino("many");
        i.put(i.inode(ino) + 88, 0x20_0000_u32);
        only(json!({"finding": "SnapshotFlag", "severity": "harmless", "ino": ino, "path": "/many"}))
    }),
    ("a file that is marked as a snapshot and not listed", |i| {
        let ino = i.ino("large");
        i.put(i.inode(ino) + 88, 0x20_0000_u32);
        only(json!({"finding": "SnapshotFlag", "severity": "harmless", "ino": ino}))
    }),
    ("a snapshot whose marks hold no space", |i| {
        let ino = i.ino("large");
        // As long as the file system: it may be one that the superblock has lost.
        i.put(i.inode(ino) + 16, 32_u64 << 20);
        i.put(i.inode(ino) + 88, 0x20_0000_u32);
        i.put(i.pointer(ino, 0), 1_u64);
        i.put(i.pointer(ino, 1), 2_u64);
        with(json!({"finding": "DamagedSnapshot", "ino": ino, "path": "/large"}), SPOILT)
    }),
    ("a root that is free", |i| {
        (0..256).for_each(|n| i.put(i.inode(2) + n, 0_u8));
        with(json!({"finding": "Root", "problem": "unallocated"}), ROOTLESS)
    }),
    ("a root that is a file", |i| {
        i.put(i.inode(2), 0o100_755_u16);
        with(json!({"finding": "Root", "problem": "not_directory"}), ROOTLESS)
    }),
    ("a root that must be cleared", |i| {
        i.put(i.inode(2) + 16, u64::MAX);
        with(json!({"finding": "Root", "problem": "damaged"}), ROOTLESS)
    }),
    ("a directory without room", |i| {
        let ino = i.ino("bare");
        i.put(i.inode(ino) + 16, 12_u64);
        only(json!({"finding": "DirectoryTooShort", "ino": ino, "size": 12, "path": "/bare"}))
    }),
    ("a directory that ends in a chunk", |i| {
        let ino = i.ino("bare");
        i.put(i.inode(ino) + 16, 500_u64);
        only(json!({"finding": "DirectorySize", "ino": ino, "size": 500, "dirblksiz": 512}))
    }),
    ("a directory whose size ends within its last block", |i| {
        let ino = i.ino("many");
        let size: u64 = i.get(i.inode(ino) + 16);
        let less = (size - 1) / 8192 * 8192 + 512;
        i.put(i.inode(ino) + 16, less);
        let short = json!({"finding": "DirectoryShort", "ino": ino, "size": less, "expected": size});
        Want { exactly: vec![short], also: SHORTENED }
    }),
    ("a directory whose size ends within its first block", |i| {
        let ino = i.ino("many");
        i.put(i.inode(ino) + 16, 512_u64);
        let stray = json!({"finding": "StrayPointer", "ino": ino, "index": 1});
        Want { exactly: vec![stray], also: SHORTENED }
    }),
    ("a directory that counts too much", |i| {
        let ino = i.ino("bare");
        i.add(i.inode(ino) + 24, 2);
        only(json!({"finding": "BlockCount", "severity": "harmless", "ino": ino}))
    }),
    ("a directory with a hole", |i| {
        let ino = i.ino("many");
        i.put(i.pointer(ino, 1), 0_i64);
        i.add(i.inode(ino) + 24, -16);
        Want {
            exactly: vec![json!({"finding": "DirectoryHole", "ino": ino, "lbn": 1, "blocks": 1})],
            also: &[
                "UnreferencedFile",
                "FragsMarkedUsed",
                "GroupCounts",
                "FreeRuns",
                "ClusterSum",
                "ClusterMap",
                "SummaryCounts",
                "Totals",
            ],
        }
    }),
    ("'.' of another directory", |i| {
        let ino = i.ino("bare");
        i.put(i.entry_of(ino, ".").unwrap(), 2_u32);
        only(json!({"finding": "BadDot", "ino": ino, "found": 2}))
    }),
    ("no '.'", |i| {
        let ino = i.ino("bare");
        i.put(i.entry_of(ino, ".").unwrap(), 0_u32);
        only(json!({"finding": "MissingDot", "ino": ino}))
    }),
    ("'..' of another directory", |i| {
        let ino = i.ino("dir/sub");
        i.put(i.entry_of(ino, "..").unwrap(), 2_u32);
        only(
            json!({"finding": "BadDotdot", "ino": ino, "found": 2, "parent": i.ino("dir"), "path": "/dir/sub"}),
        )
    }),
    ("no '..'", |i| {
        let ino = i.ino("dir/sub");
        i.put(i.entry_of(ino, "..").unwrap(), 0_u32);
        only(json!({"finding": "MissingDotdot", "ino": ino, "parent": i.ino("dir")}))
    }),
    ("a second '.'", |i| {
        let at = i.entry("dir/a");
        i.put(at + 8, b'.');
        with(json!({"finding": "ExtraDot", "entry": {"dir": i.ino("dir"), "name": "."}}), LOST)
    }),
    ("an entry beyond the inodes", |i| {
        i.put(i.entry("dir/a"), 20 * 32_u32);
        with(
            json!({"finding": "EntryOutOfRange", "entry": {"dir": i.ino("dir"), "name": "a", "ino": 640}}),
            LOST,
        )
    }),
    ("an entry for a free inode", |i| {
        i.put(i.entry("dir/a"), 639_u32);
        with(
            json!({"finding": "EntryUnallocated", "entry": {"dir": i.ino("dir"), "name": "a", "ino": 639}}),
            LOST,
        )
    }),
    ("an entry of another kind", |i| {
        i.put(i.entry("dir/a") + 6, 10_u8);
        only(
            json!({"finding": "EntryType", "entry": {"name": "a"}, "found": 10, "expected": 8, "path": "/dir"}),
        )
    }),
    ("'.' of another kind", |i| {
        let at = i.entry_of(i.ino("bare"), ".").unwrap();
        i.put(at + 6, 8_u8);
        only(json!({"finding": "EntryType", "entry": {"name": "."}, "found": 8, "expected": 4}))
    }),
    ("a whiteout that is a file", |i| {
        i.put(i.entry("dir/a"), 1_u32);
        with(json!({"finding": "BadWhiteout", "entry": {"name": "a", "ino": 1}}), LOST)
    }),
    ("a name twice", |i| {
        let (a, b) = (i.entry("dir/a"), i.entry("dir/b"));
        i.put(a.max(b) + 8, i.get::<u8>(a.min(b) + 8));
        only(json!({"finding": "DuplicateName", "entry": {"dir": i.ino("dir")}}))
    }),
    ("a directory with two names", |i| {
        let (at, bare) = (i.entry("dir/a"), i.ino("bare"));
        i.put(at, bare);
        i.put(at + 6, 4_u8);
        with(
            json!({"finding": "ExtraParent", "entry": {"dir": i.ino("dir"), "name": "a", "ino": bare}, "parent": 2}),
            LOST,
        )
    }),
    ("a directory with two names whose '..' agrees with the later one", |i| {
        let (at, bare, dir) = (i.entry("dir/a"), i.ino("bare"), i.ino("dir"));
        i.put(at, bare);
        i.put(at + 6, 4_u8);
        i.put(i.entry_of(bare, "..").unwrap(), dir);
        with(
            json!({"finding": "ExtraParent", "entry": {"dir": 2, "name": "bare", "ino": bare}, "parent": dir}),
            &["UnreferencedFile", "LinkCount"],
        )
    }),
    ("a directory without a name", |i| {
        let ino = i.ino("bare");
        i.put(i.entry("bare"), 0_u32);
        only(json!({"finding": "UnreferencedDirectory", "ino": ino, "dotdot": 2, "path": null}))
    }),
    ("directories in a loop", |i| {
        let (dir, sub) = (i.ino("dir"), i.ino("dir/sub"));
        let at = i.entry("dir/sub/s");
        i.put(i.entry("dir"), 0_u32);
        i.put(at, dir);
        i.put(at + 6, 4_u8);
        i.put(i.entry_of(dir, "..").unwrap(), sub);
        with(json!({"finding": "DirectoryLoop", "ino": dir.min(sub)}), &["UnreferencedFile", "LinkCount"])
    }),
    ("a file without a name", |i| {
        let ino = i.ino("dir/a");
        i.put(i.entry("dir/a"), 0_u32);
        only(json!({"finding": "UnreferencedFile", "ino": ino, "nlink": 1}))
    }),
    ("a count of links", |i| {
        let ino = i.ino("dir/a");
        i.put(i.inode(ino) + 2, 5_u16);
        only(json!({"finding": "LinkCount", "ino": ino, "found": 5, "expected": 1, "path": "/dir/a"}))
    }),
    ("a group's magic", |i| {
        i.put(i.cg(1) + 4, 0_u32);
        only(json!({"finding": "GroupUnusable", "cgx": 1}))
    }),
    ("a group's initialised inodes", |i| {
        i.put(i.cg(1) + 120, 1_000_000_u32);
        only(json!({"finding": "GroupUnusable", "cgx": 1}))
    }),
    ("a group's rotor", |i| {
        i.put(i.cg(1) + 40, 1_000_000_u32);
        only(
            json!({"finding": "GroupField", "cgx": 1, "field": "cg_rotor", "found": 1_000_000, "expected": 1695}),
        )
    }),
    ("a group's number of inodes", |i| {
        i.put(i.cg(1) + 116, 8_u32);
        only(json!({"finding": "GroupField", "cgx": 1, "field": "cg_niblk", "found": 8, "expected": 32}))
    }),
    ("a used fragment marked free", |i| {
        let frag = i.block(i.ino("one"), 0);
        flip(i, frag);
        only(json!({"finding": "FragsMarkedFree", "frag": frag, "frags": 1}))
    }),
    ("free fragments marked used", |i| {
        let frag = 32768 - 40;
        (0..3).for_each(|n| flip(i, frag + n));
        only(json!({"finding": "FragsMarkedUsed", "frag": frag, "frags": 3}))
    }),
    ("a used inode marked free", |i| {
        let ino = i.ino("dir/a");
        flip_inode(i, ino);
        only(json!({"finding": "InodesMarkedFree", "ino": ino, "inodes": 1, "path": "/dir/a"}))
    }),
    ("a free inode marked used", |i| {
        flip_inode(i, 639);
        only(json!({"finding": "InodesMarkedUsed", "ino": 639, "inodes": 1}))
    }),
    ("a group's free blocks", |i| {
        i.add(i.cg(1) + 28, 1);
        only(json!({"finding": "GroupCounts", "cgx": 1}))
    }),
    ("a group's runs of 3 fragments", |i| {
        let found = i.get::<u32>(i.cg(1) + 64);
        i.add(i.cg(1) + 64, 1);
        only(json!({"finding": "FreeRuns", "cgx": 1, "frags": 3, "found": found + 1, "expected": found}))
    }),
    ("a group's map of free blocks", |i| {
        let at = i.cg(1) + u64::from(i.get::<u32>(i.cg(1) + 108));
        i.put(at, i.get::<u8>(at) ^ 0x30);
        only(json!({"finding": "ClusterMap", "cgx": 1, "block": 4, "blocks": 2}))
    }),
    ("a group's clusters of 2 blocks", |i| {
        let at = i.cg(1) + u64::from(i.get::<u32>(i.cg(1) + 104)) + 8;
        let found: u32 = i.get(at);
        i.add(at, 1);
        only(json!({"finding": "ClusterSum", "cgx": 1, "blocks": 2, "found": found + 1, "expected": found}))
    }),
    ("a group's counts in the summaries", |i| {
        let at = i.layout().byte(i.layout().fs_csaddr) + 16 * 5;
        i.add(at + 8, 1);
        only(json!({"finding": "SummaryCounts", "cgx": 5}))
    }),
    ("the counts of the file system", |i| {
        let found: i64 = i.get(i.sb() + 1008);
        i.put(i.sb() + 1008, found + 1);
        only(json!({"finding": "Totals", "found": {"ndir": found + 1}, "expected": {"ndir": found}}))
    }),
    ("a name with a slash", |i| {
        let at = i.entry("dir/a");
        i.put(at + 8, b'/');
        broken(i, at, "name_has_slash")
    }),
    ("a name with a NUL", |i| {
        let at = i.entry("dir/a");
        i.put(at + 8, 0_u8);
        broken(i, at, "name_has_nul")
    }),
    ("a name that does not end", |i| {
        let at = i.entry("dir/a");
        i.put(at + 9, b'x');
        broken(i, at, "not_terminated")
    }),
    ("an empty name", |i| {
        let at = i.entry("dir/a");
        i.put(at + 7, 0_u8);
        broken(i, at, "name_empty")
    }),
    ("a kind of entry that is none", |i| {
        let at = i.entry("dir/a");
        i.put(at + 6, 77_u8);
        broken(i, at, "type_invalid")
    }),
    ("an entry of length 0", |i| {
        let at = i.entry("dir/a");
        i.put(at + 4, 0_u16);
        broken(i, at, "reclen_unaligned")
    }),
    ("an entry that leaves its chunk", |i| {
        let at = i.entry("dir/a");
        i.put(at + 4, 1024_u16);
        broken(i, at, "reclen_too_long")
    }),
    ("an entry shorter than its name", |i| {
        let at = i.entry("dir/a");
        i.put(at + 4, 8_u16);
        broken(i, at, "reclen_too_short")
    }),
];
