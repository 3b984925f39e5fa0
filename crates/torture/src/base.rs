//! The valid images that mutations start from: small, one of each format, each with every structure
//! of the format in it.

use crate::anatomy::Anatomy;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_clock::ManualClock;
use spindle_device::MemoryDevice;
use spindle_ffs::newfs::{self, Format, Geometry, Parameters, Plan};
use spindle_ffs::{Dialect, Ffs, OpenOptions, Superblock};
use spindle_ondisk::Endian;
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, Result, XattrMode};
use std::sync::Arc;

/// The time at which the images were made, in seconds since 1970.
pub const MADE: i64 = 1_700_000_000;

/// A valid image.
pub struct Base {
    /// The name of its format.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// The places of its structures.
    pub anatomy: Anatomy,
}

/// Returns the defaults of newfs with these blocks and fragments, without the directory for
/// snapshots, in cylinder groups of about 512 KiB.
fn shape(size_bytes: u64, bsize: u32, fsize: u32) -> Parameters {
    Parameters {
        bsize: Some(bsize),
        fsize: Some(fsize),
        density: Some(2 * fsize.max(2048)),
        snap_dir: false,
        ..Parameters::new(size_bytes)
    }
}

fn disk() -> Geometry {
    Geometry {
        rpm: Some(3600),
        nsect: Some(32),
        ntrak: Some(8),
        cpg: Some(8),
        rotdelay_ms: Some(4),
        ..Geometry::default()
    }
}

/// Returns the formats, by name.
fn formats() -> Vec<(&'static str, Parameters)> {
    let mib = 1 << 20;
    let small = |blocks| Parameters { blocks_per_group: Some(blocks), ..shape(2 * mib, 4096, 512) };
    let ufs1 = |dialect, endian| Parameters {
        format: Format::Ufs1,
        dialect: Some(dialect),
        endian: Some(endian),
        ..shape(2 * mib, 4096, 1024)
    };
    let old = Parameters { format: Format::Old, ..shape(2 * mib, 4096, 1024) };
    vec![
        ("ufs2-freebsd-le", small(128)),
        ("ufs2-freebsd-be", Parameters { endian: Some(Endian::Big), ..small(200) }),
        ("ufs2-freebsd-32k", shape(4 * mib, 32768, 4096)),
        ("ufs2-64k", Parameters { minfree: Some(0), ..shape(6 * mib, 65536, 65536) }),
        ("ufs2-netbsd-le", Parameters { dialect: Some(Dialect::NetBsd), ..shape(2 * mib, 8192, 1024) }),
        ("ufs2-openbsd-le", Parameters { dialect: Some(Dialect::OpenBsd), ..shape(2 * mib, 16384, 2048) }),
        (
            "ufs1-freebsd-le",
            Parameters { blocks_per_group: Some(128), ..ufs1(Dialect::FreeBsd, Endian::Little) },
        ),
        ("ufs1-netbsd-be", ufs1(Dialect::NetBsd, Endian::Big)),
        ("ufs1-rotational-be", Parameters { geometry: disk(), ..ufs1(Dialect::Bsd44, Endian::Big) }),
        ("ufs1-apple-be", ufs1(Dialect::Apple, Endian::Big)),
        ("old-4.3bsd-le", Parameters { geometry: disk(), ..old.clone() }),
        (
            "old-4.2bsd-be",
            Parameters { static_tables: true, endian: Some(Endian::Big), geometry: disk(), ..old },
        ),
        ("sun-sparc", Parameters { geometry: disk(), ..ufs1(Dialect::Sun { x86: false }, Endian::Big) }),
        ("sun-x86", Parameters { geometry: disk(), ..ufs1(Dialect::Sun { x86: true }, Endian::Little) }),
    ]
}

/// Makes one image of each format.
///
/// # Panics
/// If one cannot be made.
#[must_use]
pub fn all() -> Vec<Base> {
    formats().into_iter().map(|(name, parameters)| make(name, &parameters)).collect()
}

fn make(name: &'static str, parameters: &Parameters) -> Base {
    let clock = Arc::new(ManualClock::at(MADE));
    let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
    let plan = Plan::new(parameters).unwrap_or_else(|e| panic!("{name}: {e}"));
    newfs::write(&plan, &*device, &*clock, &mut SmallRng::seed_from_u64(1), &mut |_, _| ())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let options = OpenOptions { seed: Some(1), ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), clock, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    populate(&fs).unwrap_or_else(|e| panic!("{name}: {e}"));
    fs.unmount().unwrap_or_else(|e| panic!("{name}: {e}"));
    let bytes: Arc<[u8]> = device.to_bytes().into();
    let superblock = Superblock::open(&*device).unwrap_or_else(|e| panic!("{name}: {e}"));
    let anatomy = Anatomy::of(&bytes, superblock);
    Base { name, bytes, anatomy }
}

/// Returns a node of a kind, for root.
#[must_use]
pub const fn node(kind: FileKind, target: &[u8]) -> NewNode<'_> {
    NewNode { kind, perm: 0o755, uid: 0, gid: 0, masked: 0, rdev: Rdev { major: 3, minor: 7 }, target }
}

/// Fills a file system with every structure of the format: fragments, all levels of indirect
/// blocks, both kinds of symbolic links, every kind of node, several directories with one of
/// several blocks, hard links, names removed from between others, extended attributes.
fn populate(fs: &Ffs) -> Result<()> {
    let make = |dir: Ino, name: &str, kind, target: &[u8]| {
        fs.create(dir, name.as_bytes(), &node(kind, target), Privilege::Root).map(|attr| attr.ino)
    };
    let write = |ino, at, len: usize| {
        let data: Vec<u8> = (1..=251).cycle().take(len).collect();
        fs.write(ino, at, &data, Privilege::Root)
    };
    let root = fs.root();
    let bsize = u64::from(fs.layout().fs_bsize);
    let fsize = fs.layout().fs_fsize as usize;

    let dir = make(root, "dir", FileKind::Directory, b"")?;
    let sub = make(dir, "sub", FileKind::Directory, b"")?;
    for n in 1..=fs.layout().fs_frag as usize {
        write(make(dir, &format!("frags{n}"), FileKind::Regular, b"")?, 0, n * fsize - 100)?;
    }
    write(make(sub, "direct", FileKind::Regular, b"")?, 0, 2 * fs.layout().fs_bsize as usize + fsize)?;
    let nindir = u64::from(fs.layout().fs_nindir);
    for (n, block) in [12, 12 + nindir, 12 + nindir + nindir * nindir].into_iter().enumerate() {
        let sparse = make(root, &format!("indirect{}", n + 1), FileKind::Regular, b"")?;
        if (block + 2) * bsize <= fs.limits().file_size_max {
            write(sparse, block * bsize, 100)?;
            write(sparse, 0, 10)?;
        }
    }
    write(make(root, "all-levels", FileKind::Regular, b"")?, 11 * bsize, fs.layout().fs_bsize as usize * 3)?;
    let big = make(root, "big", FileKind::Directory, b"")?;
    for n in 0..90 {
        let name = format!("{n:03}-{}", "long".repeat(n % 13));
        make(big, &name, if n % 9 == 0 { FileKind::Fifo } else { FileKind::Regular }, b"")?;
    }
    for n in (0..90).step_by(7) {
        fs.unlink(big, format!("{n:03}-{}", "long".repeat(n % 13)).as_bytes())?;
    }
    let empty = make(root, "empty", FileKind::Regular, b"")?;
    fs.link(empty, sub, b"hard", Privilege::Root)?;
    fs.link(empty, dir, b"hard", Privilege::Root)?;
    make(root, "short", FileKind::Symlink, b"dir/sub")?;
    make(root, "long", FileKind::Symlink, &b"../dir/".repeat(40))?;
    make(root, "null", FileKind::CharDevice, b"")?;
    make(root, "disk", FileKind::BlockDevice, b"")?;
    make(root, "pipe", FileKind::Fifo, b"")?;
    make(root, "socket", FileKind::Socket, b"")?;
    if fs.limits().xattrs {
        for ino in [root, dir, empty] {
            fs.setxattr(ino, b"user.small", b"value", XattrMode::Set, Privilege::Root)?;
            fs.setxattr(ino, b"system.large", &[7; 700], XattrMode::Set, Privilege::Root)?;
            fs.setxattr(ino, b"user.third", b"", XattrMode::Set, Privilege::Root)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_ffs::check::{Options, check};

    /// Promise: every base has no damage and has every structure that its format knows.
    #[test]
    fn bases_are_valid_and_complete() {
        for base in all() {
            let report =
                check(&MemoryDevice::from_bytes(&base.bytes), &Options::default(), &mut |_| ()).unwrap();
            assert!(report.findings.is_empty(), "{}: {:?}", base.name, report.findings);
            let names: Vec<_> = base.anatomy.structures.iter().map(|s| s.name).collect();
            for name in ["Fs", "Csum", "DirectHeader", "indirect block"] {
                assert!(names.contains(&name), "{}: no {name} in {names:?}", base.name);
            }
            let superblock = Superblock::open(&MemoryDevice::from_bytes(&base.bytes)).unwrap();
            let has = superblock.dialect.has_extattr(&superblock.fs, &superblock.layout);
            assert_eq!(names.contains(&"extattr"), has, "{}", base.name);
        }
    }
}
