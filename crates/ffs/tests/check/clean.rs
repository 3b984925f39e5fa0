//! The check on images that real systems and `makefs` wrote: they are consistent, so it must find nothing.

use crate::images::{self, makefs};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::Dialect;
use spindle_ffs::check::{Options, Report, Severity, check};
use spindle_ffs::newfs::{Format, Parameters};
use spindle_ondisk::Endian;
use spindle_samples::present;

fn report(device: &dyn Device) -> Report {
    check(device, &Options::default(), &mut |_| {}).expect("the check runs")
}

/// What the check finds, as lines; nothing in a good image.
fn damage(report: &Report) -> Vec<String> {
    report.findings.iter().filter(|f| f.severity == Severity::Damage).map(ToString::to_string).collect()
}

fn expect_clean(name: &str, device: &MemoryDevice) -> Report {
    let report = report(device);
    assert_eq!(damage(&report), Vec::<String>::new(), "{name}");
    assert!(report.marked_clean && report.is_clean() && report.exit_code() == 0, "{name}");
    report
}

/// Promise: what FreeBSD's and OpenBSD's kernels wrote passes all phases, both byte orders, old and new
/// formats, with its rotational tables; the files counted are those that an independent reader lists.
#[test]
fn real_systems() {
    for real in present(&["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"]) {
        let report = expect_clean(real.name, &MemoryDevice::from_bytes(&real.image()));
        assert_eq!(report.usage.files, images::listed(&real.listing()), "{}", real.name);
    }
}

/// A tree with small and large files, directories with and without fragments, links of every kind.
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

/// Promise: what `makefs` makes passes all phases, in both versions and byte orders and several geometries.
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
                // 20 times three directories, the root; 2 * (0 + … + 19) small files, one large, two links.
                assert_eq!((usage.directories, usage.files), (61, 61 + 380 + 3), "{options} {endian}");
            }
        }
    }
}

/// Promise: what our newfs makes passes all phases: every dialect and format, the static tables of 4.2BSD,
/// both byte orders, sizes that cut the last group and block off.
#[test]
fn new_file_systems() {
    use Dialect::{Bsd43, Bsd44, FreeBsd, NetBsd, OpenBsd, Sun};
    for (dialect, formats) in [
        (FreeBsd, &[Format::Ufs1, Format::Ufs2][..]),
        (NetBsd, &[Format::Ufs1, Format::Ufs2]),
        (OpenBsd, &[Format::Ufs1, Format::Ufs2]),
        (Bsd44, &[Format::Ufs1]),
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
                    let usage = expect_clean(&name, &images::new(&wish)).usage;
                    assert!((1..=3).contains(&usage.directories), "{name}: {usage}");
                }
            }
        }
    }
}
