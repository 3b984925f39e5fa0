//! Each kind of damage.

use super::support::clock;
use super::victim::{BLOCK, BY, DATA_BASE, Tree, Victim, put, seal, word};
use spindle_mfs::check::Finding;
use spindle_mfs::{Mfs, OpenOptions};
use spindle_vfs::{FileKind, FileSystem, NewNode};

/// Numbers that plants use.
struct Known<'a> {
    v: &'a Victim,
    tree: &'a Tree,
}

impl Known<'_> {
    fn ino(&self, path: &str) -> u64 {
        self.tree[path].0
    }

    /// Returns a header that is free.
    fn free(&self) -> u64 {
        let last = self.tree.values().map(|node| node.0).max().unwrap();
        (last + 1..last + 60).find(|&ino| self.v.header_bytes(ino)[..2] == [0, 0]).unwrap()
    }

    /// Returns the cylinder of a block of names.
    fn cylinder_of(&self, block: u64) -> u64 {
        let layout = self.v.layout();
        block / u64::from(layout.cylinder_blocks() + 1)
    }

    /// Returns the address of a data block.
    fn data_at(&self, block: u64) -> u64 {
        let start = (self.v.layout().classes[0].map_pages * 4096).next_multiple_of(8 * 1024);
        DATA_BASE + start + block * 1024
    }

    /// Changes both headers of the log.
    fn log(&self, change: impl Fn(&mut [u8])) {
        let log = &self.v.set().log[0];
        for at in [0, 4096] {
            let mut bytes = [0; 512];
            log.read_at(at, &mut bytes).unwrap();
            change(&mut bytes);
            seal(&mut bytes, 4);
            log.write_at(at, &bytes).unwrap();
        }
    }
}

/// A kind of damage: the finding that it makes, the paths that it costs (after an `@`, only their
/// attributes), how many names it moves to `lost+found`, and what does it.
struct Plant {
    finding: &'static str,
    lost: &'static [&'static str],
    moved: usize,
    damage: fn(&Known<'_>),
}

const fn plant(
    finding: &'static str,
    lost: &'static [&'static str],
    moved: usize,
    damage: fn(&Known<'_>),
) -> Plant {
    Plant { finding, lost, moved, damage }
}

/// Files that get the same name.
const TWINS: &[&str] =
    &["/dir/0zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", "/dir/1zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"];
/// Any number of names.
const SOME: usize = usize::MAX;

const PLANTS: &[Plant] = &[
    plant("LOG: neither of its headers is whole", &[], 0, |k| {
        let log = &k.v.set().log[0];
        log.write_at(0, &[7; 512]).unwrap();
        log.write_at(4096, &[7; 512]).unwrap();
    }),
    plant("FILE SYSTEM IS MARKED AS DAMAGED", &[], 0, |k| k.log(|bytes| bytes[48] |= 2)),
    // Cylinders.
    plant("CYLINDER 0: its description is damaged", &[], 0, |k| {
        k.v.edit(0, 512, None, |bytes| bytes.fill(0xee));
    }),
    plant("CYLINDER 1: its description is damaged", &[], 0, |k| {
        k.v.edit(k.v.layout().cylinder_at(1), 512, None, |bytes| bytes[100] ^= 1);
    }),
    plant("CYLINDER 2: its description is damaged", &[], 0, |k| {
        k.v.edit(k.v.layout().cylinder_at(2), 512, None, |bytes| bytes[100] ^= 1);
    }),
    plant("CYLINDER 9: its description is that of cylinder 7", &[], 0, |k| {
        k.v.cylinder(9, |bytes| bytes[8] = 7);
    }),
    plant("CYLINDER 0: IT HOLDS FILE HEADERS, NOT NAMES", &[], 0, |k| k.v.cylinder(0, |bytes| bytes[4] = 2)),
    plant("IT HOLDS FILE HEADERS, NOT NOTHING", &[], 0, |k| {
        let (cylinder, _) = k.v.layout().header_place(k.ino("/dir/sub/sparse")).unwrap();
        k.v.cylinder(cylinder, |bytes| bytes[4] = 0);
    }),
    plant("IT HOLDS NAMES, NOT FILE HEADERS", &[], 0, |k| {
        k.v.cylinder(k.cylinder_of(k.v.name_map(2)), |bytes| bytes[4] = 1);
    }),
    plant("IT HOLDS NAMES, NOT NOTHING", &[], 0, |k| {
        k.v.cylinder(k.cylinder_of(k.v.name_map(2)), |bytes| bytes[4] = 0);
    }),
    plant("CYLINDER 0: ITS BLOCK", &[], 0, |k| k.v.cylinder(0, |bytes| bytes[24] = 31)),
    plant("5 FREE ENTRIES, SHOULD BE", &[], 0, |k| k.v.cylinder(0, |bytes| bytes[16] = 5)),
    plant("3 FILES WITHOUT A NAME, SHOULD BE 0", &[], 0, |k| k.v.cylinder(0, |bytes| bytes[20] = 3)),
    plant("CYLINDER 0: ITS BIT MAP IS WRONG", &[], 0, |k| k.v.cylinder(0, |bytes| bytes[32] ^= 1)),
    plant("CYLINDER 1: ITS BIT MAP IS WRONG", &[], 0, |k| k.v.cylinder(1, |bytes| bytes[400] ^= 1)),
    // Symbolic links.
    plant("SYMBOLIC LINK OF 9 BYTES HAS A NUL AT BYTE 4", &["/dir/sub/link"], 0, |k| {
        k.v.header(k.ino("/dir/sub/link"), |bytes| bytes[124] = 0);
    }),
    plant("SYMBOLIC LINK OF 890700 BYTES", &["/dir/sub/sparse"], 0, |k| {
        k.v.header(k.ino("/dir/sub/sparse"), |b| b[2..4].copy_from_slice(&0o120_777_u16.to_le_bytes()));
    }),
    // The allocation map.
    plant("it is damaged (page 0 of the allocation map)", &[], 0, |k| {
        k.v.edit(DATA_BASE, 4096, None, |bytes| bytes.fill(3));
    }),
    plant("ALLOCATION MAP PAGE 0 OF CLASS default: 8 BLOCKS ARE MARKED WRONGLY", &[], 0, |k| {
        k.v.page(0, |b| b[64] ^= 0xff);
    }),
    plant("ALLOCATION MAP PAGE 0 OF CLASS default: IT COUNTS 1 FREE BLOCKS", &[], 0, |k| {
        k.v.page(0, |bytes| bytes[12..16].copy_from_slice(&1_u32.to_le_bytes()));
    }),
    plant("ALLOCATION MAP PAGE 0 OF CLASS default: ITS TRACKS ARE MARKED WRONGLY", &[], 0, |k| {
        k.v.page(0, |b| b[16] ^= 1);
    }),
    plant("ALLOCATION MAP PAGE 0 OF CLASS other: 8 BLOCKS ARE MARKED WRONGLY", &[], 0, |k| {
        let at = k.v.layout().classes[1].map_page_at(0);
        k.v.edit(at, 4096, Some(4), |bytes| bytes[65] ^= 0xff);
    }),
    // Headers.
    plant("it is damaged (file header 2)", &[], 0, |k| k.v.edit(header_at(k, 2), 512, None, |b| b[300] ^= 1)),
    plant("ROOT INODE UNALLOCATED", &[], 0, |k| k.v.header(2, |bytes| bytes.fill(0))),
    plant("ROOT INODE NOT DIRECTORY", &[], 0, |k| {
        k.v.header(2, |bytes| {
            (bytes[3], bytes[6]) = (0x81, 1);
            bytes[24..40].fill(0);
        });
    }),
    plant("NO FILE CAN HAVE THIS HEADER", &[], 0, |k| k.v.edit(header_at(k, 1), 512, None, |b| b.fill(0x11))),
    plant("it is damaged (file header", &["/file1y"], 0, |k| {
        k.v.edit(header_at(k, k.ino("/file1y")), 512, None, |bytes| bytes[300] ^= 1);
    }),
    plant("mode is 7755", &["/dir/short", "/dir/hard"], 0, |k| {
        k.v.header(k.ino("/dir/short"), |bytes| bytes[3] = 0x0f);
    }),
    plant("a wrong extent", &["/dir/sub/sparse"], 0, |k| {
        k.v.header(k.ino("/dir/sub/sparse"), |bytes| bytes[131] = 0xff);
    }),
    plant("its name map begins in block", &[], 0, |k| {
        k.v.header(k.ino("/dir"), |bytes| bytes[125] = 0x40);
    }),
    plant("it is damaged (overflow header", &["/dir/sub/sparse"], 0, |k| {
        let overflow = word(&k.v.header_bytes(k.ino("/dir/sub/sparse")), 96);
        k.v.edit(header_at(k, overflow), 512, None, |bytes| bytes[60] ^= 1);
    }),
    plant("2 DUP BLOCKS FROM ", &[], 0, |k| {
        // A file with the same content has the blocks of another, and its own are overwritten.
        let (from, to) = (k.v.header_bytes(k.ino("/file0")), k.ino("/file3yyy"));
        let own = word(&k.v.header_bytes(to), 128);
        k.v.edit(k.data_at(own), 2048, None, |bytes| bytes.fill(0xaa));
        k.v.header(to, |bytes| bytes[120..136].copy_from_slice(&from[120..136]));
    }),
    plant("OF CLASS other ON I=", &["/dir/sub/sparse"], 0, |k| {
        // The last extents of a file, which are in another class than the first, lead to one block.
        let next = |at: u64| word(&k.v.header_bytes(at), 16);
        let mut last = word(&k.v.header_bytes(k.ino("/dir/sub/sparse")), 96);
        while next(last) != 0 {
            last = next(last);
        }
        k.v.header(last, |bytes| {
            let from = word(bytes, 40);
            assert_eq!((from & ((1 << 48) - 1)) >> 44, 1, "the class");
            put(bytes, 56, from);
        });
    }),
    plant("its class of data is 2", &["/file0"], 0, |k| k.v.header(k.ino("/file0"), |bytes| bytes[7] = 2)),
    plant("a wrong extent", &["/file0"], 0, |k| {
        // In a class that the set does not have.
        k.v.header(k.ino("/file0"), |bytes| bytes[133] |= 0x30);
    }),
    // The attributes are lost, and nothing else.
    plant("ATTRIBUTES CORRUPTED I=", &["@/dir"], 0, |k| {
        let first = word(&k.v.header_bytes(k.ino("/dir")), 112);
        let second = word(&k.v.header_bytes(first), 16);
        k.v.edit(header_at(k, second), 512, None, |bytes| bytes[60] ^= 1);
    }),
    plant("it is number 0 of file", &["@/dir/sub/sparse"], 0, |k| {
        let first = word(&k.v.header_bytes(k.ino("/dir/sub/sparse")), 112);
        k.v.header(first, |bytes| put(bytes, 16, first));
    }),
    plant("it leads to header 1099511627776", &["@/dir/sub"], 0, |k| {
        k.v.header(k.ino("/dir/sub"), |bytes| put(bytes, 112, 1 << 40));
    }),
    plant("names out of order", &["@/dir/sub"], 0, |k| {
        let first = word(&k.v.header_bytes(k.ino("/dir/sub")), 112);
        k.v.header(first, |bytes| (bytes[36], bytes[38]) = (2, b'z'));
    }),
    plant("it has 20 bytes", &["@/dir"], 0, |k| {
        let first = word(&k.v.header_bytes(k.ino("/dir")), 112);
        k.v.header(first, |bytes| bytes[2..4].copy_from_slice(&20_u16.to_le_bytes()));
    }),
    plant("ATTRIBUTE HEADER ", &[], 0, |k| {
        let free = k.free();
        k.v.header(free, |bytes| bytes[..2].copy_from_slice(b"MA"));
    }),
    plant("OVERFLOW HEADER ", &[], 0, |k| {
        let free = k.free();
        k.v.header(free, |bytes| bytes[..2].copy_from_slice(b"MO"));
    }),
    // Name maps.
    plant("DIRECTORY CORRUPTED I=2: it is damaged", &[], 0, |k| {
        // The root of its tree: the leaves are still there.
        k.v.edit(k.v.name_map(2) * BLOCK as u64, BLOCK, None, |bytes| bytes[500] ^= 1);
    }),
    plant("is of level 3", &[], SOME, |k| {
        let child = word(&k.v.node_bytes(k.v.name_map(2)), 40);
        k.v.node(child, |bytes| {
            bytes[4] = 3;
            bytes[6] = 1;
        });
    }),
    plant("has no names", &[], 0, |k| {
        let dir = k.ino("/other");
        let from = k.v.name_map(k.ino("/dir/sub"));
        let leaf = k.v.node_bytes(from);
        let spare = free_block(k);
        k.v.node(spare, |bytes| {
            bytes.copy_from_slice(&leaf);
            put(bytes, 8, dir);
            bytes[6] = 0;
        });
        k.v.header(dir, |bytes| put(bytes, 120, spare));
    }),
    plant("does not exist", &[], 0, |k| {
        k.v.node(k.v.name_map(2), |bytes| put(bytes, 40, 31 * 1024 * 1024));
    }),
    plant("is used twice", &[], 0, |k| {
        k.v.node(k.v.name_map(2), |bytes| {
            let first = word(bytes, 40);
            put(bytes, 56, first);
        });
    }),
    plant("UNALLOCATED", &[], 1, |k| {
        let free = k.free();
        k.v.rename(2, b"file7yyyyyyy", |entry| put(entry, 8, free));
    }),
    plant("WRONG KIND", &[], 0, |k| k.v.rename(2, b"file0", |entry| entry[16] = 3)),
    plant("NAME IN THE WRONG PLACE", &["/file0"], 0, |k| k.v.rename(2, b"file0", |entry| entry[21] = b'X')),
    plant("DUPLICATE NAME", TWINS, 1, |k| {
        let name = [b"0".as_slice(), &[b'z'; 40]].concat();
        k.v.rename(k.ino("/dir"), &name, |entry| entry[18] = b'1');
    }),
    plant("IMPOSSIBLE NAME", &[], 1, |k| {
        let dir = k.ino("/other");
        lonely(k, dir, b".", k.ino("/file0"), 1);
        k.v.remove(2, b"file0");
    }),
    plant("EXTRANEOUS HARD LINK TO DIRECTORY", &[], 0, |k| {
        lonely(k, k.ino("/other"), b"again", k.ino("/dir/sub"), 2);
    }),
    plant("EXTRANEOUS HARD LINK TO DIRECTORY I=2 ", &[], 0, |k| lonely(k, k.ino("/other"), b"up", 2, 2)),
    plant("DIRECTORIES IN A RING", &[], 1, |k| {
        let (dir, deep) = (k.ino("/dir"), k.ino("/dir/sub/deep"));
        k.v.remove(2, b"dir");
        lonely(k, deep, b"ring", dir, 2);
        k.v.header(dir, |bytes| put(bytes, 104, deep));
    }),
    plant("COUNTS (99, ", &[], 0, |k| k.v.header(2, |bytes| put(bytes, 24, 99))),
    plant("AND (77, ", &[], 0, |k| k.v.header(2, |bytes| put(bytes, 128, 77))),
    plant("BAD INODE NUMBER 2 FOR '..'", &[], 0, |k| {
        k.v.header(k.ino("/dir/sub"), |bytes| put(bytes, 104, 2));
    }),
    plant("UNREF DIR", &[], 1, |k| k.v.remove(2, b"dir")),
    plant("UNREF FILE", &[], 1, |k| k.v.remove(2, b"file0")),
    plant("IS NOT FREED YET", &["/file0"], 0, |k| {
        k.v.remove(2, b"file0");
        k.v.header(k.ino("/file0"), |bytes| bytes[4] = 0);
    }),
    plant("LINK COUNT", &[], 0, |k| k.v.header(k.ino("/dir/hard"), |bytes| bytes[4] = 9)),
];

fn header_at(k: &Known<'_>, ino: u64) -> u64 {
    let (at, within) = k.v.layout().header_at(ino).unwrap();
    at + within as u64
}

/// Returns a block in a cylinder of names that no directory has.
fn free_block(k: &Known<'_>) -> u64 {
    let cylinder = k.cylinder_of(k.v.name_map(2));
    let layout = k.v.layout();
    let mut description = [0; 512];
    k.v.set().space.read_at(layout.cylinder_at(cylinder), &mut description).unwrap();
    let free =
        |block: &u64| description[32 + usize::try_from(block - 1).unwrap() / 8] >> ((block - 1) % 8) & 1 == 1;
    let block = (1..=u64::from(layout.cylinder_blocks())).rev().find(free).unwrap();
    cylinder * u64::from(layout.cylinder_blocks() + 1) + block
}

/// Gives an empty directory one name.
fn lonely(k: &Known<'_>, dir: u64, name: &[u8], ino: u64, kind: u8) {
    let block = free_block(k);
    k.v.node(block, |bytes| {
        bytes.fill(0);
        bytes[..4].copy_from_slice(b"MNam");
        bytes[6] = 1;
        put(bytes, 8, dir);
        put(bytes, 32, 1 << 20);
        put(bytes, 40, ino);
        (bytes[48], bytes[49]) = (kind, u8::try_from(name.len()).unwrap());
        bytes[50..50 + name.len()].copy_from_slice(name);
    });
    k.v.header(dir, |bytes| {
        put(bytes, 24, 1);
        put(bytes, 120, block);
        put(bytes, 128, 1);
    });
}

/// Checks that everything of `before` is still there: under its name, or in `lost+found`.
fn compare(before: &Tree, after: &Tree, lost: &[&str], what: &str) {
    for (path, node) in before.iter().filter(|(path, _)| !lost.contains(&&path[..])) {
        let mut node = node.clone();
        if lost.contains(&&format!("@{path}")[..]) {
            node.3.clear();
        }
        let same = after.get(path) == Some(&node);
        let moved = |(path, other): (&String, &_)| path.starts_with("/lost+found/") && *other == node;
        assert!(same || after.iter().any(moved), "{what}: {path} is gone");
    }
}

/// Promise: the check finds each kind of damage, the repair removes it, a mount works, and all
/// files but those that the damage was in are still there with their names and contents. A repair
/// that may lose nothing changes nothing where something can be lost.
#[test]
fn every_damage_is_repaired() {
    let mut kinds: Vec<&str> =
        Finding::KINDS.iter().copied().filter(|kind| !matches!(*kind, "InUse" | "Copies")).collect();
    // Sets with checksums have a test of their own, `checksums.rs`.
    kinds.retain(|kind| !matches!(*kind, "Sums" | "Data"));
    for many in [false, true] {
        let victim = Victim::new(many, true);
        let tree = victim.tree();
        for Plant { finding, lost, moved, damage } in PLANTS {
            let victim = Victim::of(victim.branch());
            assert_eq!(victim.findings(), Vec::<String>::new());
            damage(&Known { v: &victim, tree: &tree });
            let found = victim.findings();
            assert!(found.iter().any(|text| text.contains(finding)), "{finding}: {found:#?}");

            let given = victim.branch();
            let preened = Victim::of(victim.branch()).repair(true);
            assert_eq!(preened.changed, preened.before.serious == 0, "{finding}");
            assert_eq!(preened.after.is_clean(), preened.changed, "{finding}: {:#?}", preened.after);
            assert!(victim.holds(&given), "a copy was repaired");

            let repaired = victim.repair(false);
            let reported = |kind: &&str| repaired.before.findings.iter().any(|f| f.finding.kind() == *kind);
            kinds.retain(|kind| !reported(kind));
            assert!(repaired.changed && repaired.after.marked_clean, "{finding}");
            assert_eq!(victim.findings(), Vec::<String>::new(), "{finding}");
            assert!(!victim.repair(false).changed, "{finding}: a second repair has something to do");
            let after = victim.tree();
            compare(&tree, &after, lost, finding);
            let direct = |path: &&String| path.strip_prefix("/lost+found/").is_some_and(|p| !p.contains('/'));
            let found = after.keys().filter(direct).count();
            assert!(if *moved == SOME { found > 0 } else { found == *moved }, "{finding}: {found} are moved");
            let path = |path: &&str| path.trim_start_matches('@').to_owned();
            let gone = lost.iter().map(path).filter(|path| after.get(path) != tree.get(path)).count();
            assert_eq!(gone, lost.len(), "{finding}: a file that should be lost is not");
            assert_eq!(victim.findings(), Vec::<String>::new(), "{finding}");
        }
    }
    assert!(kinds.is_empty(), "no damage makes {kinds:?}");
}

/// Promise: only the superuser can look into the `lost+found` that a repair has made; and a name
/// that is taken there is not taken from its file.
#[test]
fn lost_and_found() {
    let victim = Victim::new(false, true);
    let tree = victim.tree();
    let [first, second] = ["/file0", "/file1y"].map(|path| tree[path].0);
    victim.remove(2, b"file0");
    victim.repair(false);
    let fs = Mfs::open(&victim.set(), clock(), &OpenOptions::default()).unwrap();
    let found = fs.lookup(fs.root(), b"lost+found").unwrap();
    assert_eq!((found.perm, found.uid, found.gid), (0o700, 0, 0));
    let taken = format!("#{second}");
    fs.create(found.ino, taken.as_bytes(), &NewNode::new(FileKind::Regular, 0o600), BY).unwrap();
    fs.unmount().unwrap();
    victim.remove(2, b"file1y");
    victim.repair(false);
    let after = victim.tree();
    assert_eq!(after[&format!("/lost+found/#{first}")], tree["/file0"]);
    assert_eq!(after[&format!("/lost+found/#{second}-1")], tree["/file1y"]);
    assert!(after[&format!("/lost+found/#{second}")].2.is_empty());
}
