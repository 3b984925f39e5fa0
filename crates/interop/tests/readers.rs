//! The foreign readers against the sources of images that Spindle had no part in: what they are
//! said to read they read, and no more, so that a disagreement about an image of ours is ours.

use std::path::Path;

use spindle_interop::format::Format;
use spindle_interop::linux::RealImage;
use spindle_interop::makefs::Makefs;
use spindle_interop::reader::Reader;
use spindle_interop::record::Listing;
use spindle_interop::tree::{Shape, plant};
use spindle_interop::{Result, host};

/// Fails unless exactly those readers agree with `expected` that [`Reader::reads`] says can read
/// `image`.
fn check(image: &Path, expected: &Listing) -> Result<()> {
    let format = Format::of(image)?;
    for reader in Reader::ALL {
        match (reader.reads(&format), reader.disagrees(image, expected)) {
            (true, Ok(differences)) => {
                assert!(differences.is_empty(), "{reader:?} on {format:?}:\n{}", differences.join("\n"));
            }
            (true, Err(error)) => panic!("{reader:?} on {format:?}: {error}"),
            (false, Ok(differences)) => {
                assert!(!differences.is_empty(), "{reader:?} does read {format:?}");
            }
            (false, Err(_)) => {}
        }
    }
    Ok(())
}

fn check_makefs(makefs: Makefs) -> Result<()> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    std::fs::create_dir(&source).expect("source directory");
    let shape = if makefs.ufs2 { Shape::ufs2 } else { Shape::ufs1 };
    plant(&source, shape(makefs.bsize, makefs.fsize), 1)?;
    makefs.write(&image, &source)?;
    check(&image, &Makefs::keeps(&host::list(&source)?))
}

fn check_real(names: &[&'static str]) -> Result<()> {
    RealImage::unpack(names)?.iter().try_for_each(|real| check(&real.path(), &real.listing))
}

/// Returns UFS1 with these block and fragment sizes and room for 4 MiB more.
fn ufs1(bsize: u32, fsize: u32) -> Makefs {
    Makefs { bsize, fsize, free_bytes: 4 << 20, ..Makefs::default() }
}

/// Returns the same in UFS2.
fn ufs2(bsize: u32, fsize: u32) -> Makefs {
    Makefs { ufs2: true, ..ufs1(bsize, fsize) }
}

/// Promise: the readers' support of UFS1, in either byte order and at the borders of block sizes,
/// is as stated.
#[test]
fn makefs_ufs1() -> Result<()> {
    check_makefs(Makefs { maxbpcg: Some(1024), ..ufs1(4096, 512) })?;
    check_makefs(Makefs { big_endian: true, space: true, ..ufs1(8192, 1024) })?;
    check_makefs(ufs1(16384, 16384))?;
    check_makefs(Makefs { big_endian: true, minfree_percent: Some(0), ..ufs1(65536, 8192) })
}

/// Promise: the same of UFS2 with its superblock at 8192, where `makefs` puts it with blocks below
/// 64 KiB.
#[test]
fn makefs_ufs2_at_8192() -> Result<()> {
    check_makefs(Makefs { maxbpcg: Some(1024), ..ufs2(4096, 512) })?;
    check_makefs(Makefs { big_endian: true, ..ufs2(8192, 1024) })?;
    check_makefs(Makefs { density_bytes: Some(4096), ..ufs2(32768, 4096) })
}

/// Promise: the same of UFS2 with its superblock at 65536 and blocks of 64 KiB, fragments of 64 KiB
/// included.
#[test]
fn makefs_ufs2_at_65536() -> Result<()> {
    check_makefs(ufs2(65536, 8192))?;
    check_makefs(Makefs { big_endian: true, ..ufs2(65536, 8192) })?;
    check_makefs(ufs2(65536, 65536))
}

/// Promise: the same of images that FreeBSD made, with holes of hundreds of gigabytes and extended
/// attributes.
#[test]
fn freebsd() -> Result<()> {
    check_real(&["freebsd-ufs2-le", "freebsd-ufs2-be"])
}

/// Promise: the same of images that an early OpenBSD made, with rotational tables and with old
/// directories.
#[test]
fn openbsd() -> Result<()> {
    check_real(&["openbsd28-ufs1", "openbsd28-43bsd"])
}
