//! The check on images that real systems and `makefs` wrote: they are consistent, so it must find
//! nothing.

use crate::images::{self, makefs};
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Options, Report, check};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ffs::{Dialect, Ffs, OpenOptions};
use spindle_ondisk::Endian;
use spindle_samples::present;
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege, Rdev, XattrMode};
use std::sync::Arc;

fn report(device: &dyn Device) -> Report {
    check(device, &Options::default(), &mut |_| {}).expect("the check runs")
}

/// Returns what the check finds, as lines; nothing in a good image.
fn damage(report: &Report) -> Vec<String> {
    report.findings.iter().filter(|f| f.severity.is_damage()).map(ToString::to_string).collect()
}

fn expect_clean(name: &str, device: &MemoryDevice) -> Report {
    let report = report(device);
    assert_eq!(damage(&report), Vec::<String>::new(), "{name}");
    assert!(report.marked_clean && report.is_clean(), "{name}");
    report
}

/// Promise: what FreeBSD's and OpenBSD's kernels wrote passes all phases, both byte orders, old and
/// new formats, with its rotational tables; the files counted are those that an independent reader
/// lists.
#[test]
fn real_systems() {
    for real in present(&["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"]) {
        let report = expect_clean(real.name, &MemoryDevice::from_bytes(&real.image()));
        assert_eq!(report.usage.files, images::listed(&real.listing()), "{}", real.name);
    }
}

/// Returns a tree with small and large files, directories with and without fragments, links of
/// every kind.
fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let root = dir.path();
    for d in 0..20 {
        let sub = root.join(format!("d{d}/deep/er"));
        std::fs::create_dir_all(&sub).unwrap();
        for f in 0..d * 2 {
            std::fs::write(sub.join(format!("file-with-a-long-name-{f}")), vec![b'x'; f * 700]).unwrap();
        }
    }
    std::fs::write(root.join("indirect"), vec![b'y'; 3 << 20]).unwrap();
    std::fs::hard_link(root.join("indirect"), root.join("d1/link")).unwrap();
    std::os::unix::fs::symlink("short", root.join("short-link")).unwrap();
    std::os::unix::fs::symlink("x".repeat(300), root.join("long-link")).unwrap();
    dir
}

/// Promise: what `makefs` makes passes all phases, in both versions and byte orders and several
/// geometries.
#[test]
fn makefs_images() {
    let tree = tree();
    for version in ["1", "2"] {
        for endian in ["le", "be"] {
            for (bsize, fsize) in
                [(4096, 512), (8192, 1024), (16384, 2048), (16384, 16384), (32768, 4096), (65536, 8192)]
            {
                let options = format!("version={version},bsize={bsize},fsize={fsize}");
                let device = makefs(tree.path(), &["-B", endian, "-o", &options, "-s", "64m"]);
                let usage = expect_clean(&format!("{options} {endian}"), &device).usage;
                // 20 times three directories, the root; 2 * (0 + … + 19) small files, one large,
                // two links.
                assert_eq!((usage.directories, usage.files), (61, 61 + 380 + 3), "{options} {endian}");
            }
        }
    }
}

/// Checks as [`expect_clean`], and that there are no notes.
fn expect_nothing(name: &str, device: &MemoryDevice) -> Report {
    let report = expect_clean(name, device);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(found, Vec::<String>::new(), "{name}");
    report
}

/// Mounts it without a log, makes and removes files of all sizes and kinds, and unmounts it.
fn use_it(name: &str, device: &Arc<MemoryDevice>) {
    let options = OpenOptions { seed: Some(1), ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), Arc::new(ManualClock::at(1_700_000_000)), &options).unwrap();
    assert!(!fs.read_only(), "{name}: {:?}", fs.read_only_reasons());
    let root = fs.root();
    let make = |name: &str, kind, target: &[u8]| {
        let node = NewNode { kind, perm: 0o644, uid: 1, gid: 2, masked: 0, rdev: Rdev::default(), target };
        fs.create(root, name.as_bytes(), &node, Privilege::Root).unwrap().ino
    };
    for n in 0..60 {
        let file = make(&format!("file-{n}"), FileKind::Regular, b"");
        fs.write(file, 0, &vec![7; n * n * 19], Privilege::Root).unwrap();
        if n % 4 == 0 && fs.limits().xattrs {
            fs.setxattr(file, b"user.x", &vec![8; n * 40], XattrMode::Set, Privilege::Root).unwrap();
            fs.setxattr(file, b"user.x", b"less", XattrMode::Set, Privilege::Root).unwrap();
        }
        make(&format!("link-{n}"), FileKind::Symlink, &vec![b't'; n * 3 + 1]);
        make(&format!("dir-{n}"), FileKind::Directory, b"");
        if n % 3 == 0 {
            fs.unlink(root, format!("file-{n}").as_bytes()).unwrap();
            fs.unlink(root, format!("link-{n}").as_bytes()).unwrap();
            fs.rmdir(root, format!("dir-{n}").as_bytes()).unwrap();
        }
    }
    fs.unmount().unwrap();
}

/// Promise: what our newfs makes passes all phases, before and after it has been used: every
/// dialect and format, the static tables of 4.2BSD, both byte orders, sizes that cut the last group
/// and block off.
#[test]
fn new_file_systems() {
    use Dialect::{Apple, Bsd43, Bsd44, FreeBsd, NetBsd, OpenBsd, Sun};
    for (dialect, formats) in [
        (FreeBsd, &[Format::Ufs1, Format::Ufs2][..]),
        (NetBsd, &[Format::Ufs1, Format::Ufs2]),
        (OpenBsd, &[Format::Ufs1, Format::Ufs2]),
        (Bsd44, &[Format::Ufs1]),
        (Apple, &[Format::Ufs1]),
        (Bsd43, &[Format::Old]),
        (Sun { x86: false }, &[Format::Ufs1]),
        (Sun { x86: true }, &[Format::Ufs1]),
    ] {
        for &format in formats {
            for (endian, static_tables) in
                [(Endian::Little, false), (Endian::Big, false), (Endian::Little, format == Format::Old)]
            {
                let fixed = matches!(dialect, Sun { x86 } if x86 == (endian == Endian::Big));
                for size_bytes in [4 << 20, (21 << 20) + 7 * 512] {
                    let mut wish = Parameters::new(size_bytes);
                    (wish.dialect, wish.format, wish.static_tables) = (Some(dialect), format, static_tables);
                    wish.endian = (!fixed).then_some(endian);
                    let name = format!("{dialect} {format:?} {endian:?} {size_bytes} {static_tables}");
                    let device = images::new(&wish);
                    let usage = expect_nothing(&name, &device).usage;
                    assert!((1..=3).contains(&usage.directories), "{name}: {usage}");
                    let device = Arc::new(device);
                    use_it(&name, &device);
                    expect_nothing(&format!("{name}, used"), &device);
                }
            }
        }
    }
}
