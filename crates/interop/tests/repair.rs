//! Repaired images before the foreign readers.

use std::os::unix::fs::FileExt;
use std::path::Path;

use spindle_interop::Result;
use spindle_interop::format::Format;
use spindle_interop::linux::RealImage;
use spindle_interop::reader::Reader;
use spindle_interop::record::Listing;
use spindle_interop::spindle::{binary, fsck};
use spindle_interop::tool::{command, output};

/// Repairs an image, and wants our check and every reader of its format to find everything as it
/// was.
fn repaired(image: &Path, what: &str, expected: &Listing) -> Result<usize> {
    let ran = output(command(binary()).args(["fsck", "-y"]).arg(image))?;
    assert_eq!(ran.status.code(), Some(1), "{what}: {}", String::from_utf8_lossy(&ran.stderr));
    fsck(image)?;
    let format = Format::of(image)?;
    let readers: Vec<_> = Reader::ALL.into_iter().filter(|reader| reader.reads(&format)).collect();
    for reader in &readers {
        let differences = reader.disagrees(image, expected)?;
        assert!(differences.is_empty(), "{reader:?} after {what}:\n{}", differences.join("\n"));
    }
    Ok(readers.len())
}

/// Promise: images of FreeBSD and OpenBSD, in either byte order and with old inodes, are read by
/// others as before once their superblock, the cylinder groups and the summaries were destroyed and
/// repaired.
#[test]
fn images_of_real_systems() -> Result<()> {
    let mut shown = 0;
    let real =
        RealImage::unpack(&["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"])?;
    for image in &real {
        let path = image.path();
        let device = spindle_device::FileDevice::open(&path, &spindle_device::OpenOptions::read_only())
            .expect("the image");
        let layout = spindle_ffs::Superblock::open(&device).expect("a good image").layout;
        drop(device);
        let file = std::fs::File::options().write(true).open(&path).expect("the image");
        let destroy = |at: u64, bytes: u32| {
            file.write_all_at(&vec![0xa5; bytes as usize], at).expect("written");
        };
        (0..layout.fs_ncg).for_each(|cgx| destroy(layout.byte(layout.cgtod(cgx)), layout.fs_cgsize));
        destroy(layout.byte(layout.fs_csaddr), layout.fs_cssize);
        shown += repaired(&path, "the loss of the groups", &image.listing)?;
        destroy(layout.fs_sblockloc, layout.fs_sbsize);
        shown += repaired(&path, "the loss of the superblock", &image.listing)?;
    }
    assert!(shown >= 2 * real.len(), "only {shown} readings");
    Ok(())
}
