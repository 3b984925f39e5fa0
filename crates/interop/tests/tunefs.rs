//! Tuned images before the foreign readers: what real systems and `makefs` wrote is still theirs
//! after it.

use std::path::Path;

use spindle_interop::format::Format;
use spindle_interop::linux::RealImage;
use spindle_interop::makefs::Makefs;
use spindle_interop::reader::Reader;
use spindle_interop::record::Listing;
use spindle_interop::spindle::{fsck, spindle};
use spindle_interop::tool::{command, run};
use spindle_interop::tree::{Shape, plant};
use spindle_interop::{Result, host};

/// Tunes the image with these words and wants our check and every reader of its format to find
/// everything as it was.
fn tuned(image: &Path, words: &[&str], expected: &Listing) -> Result<usize> {
    let image_word = image.to_str().expect("a path in UTF-8");
    spindle([&["tunefs", "-A"], words, &[image_word]].concat())?;
    fsck(image)?;
    let format = Format::of(image)?;
    let readers: Vec<_> = Reader::ALL.into_iter().filter(|reader| reader.reads(&format)).collect();
    for reader in &readers {
        let differences = reader.disagrees(image, expected)?;
        assert!(differences.is_empty(), "{reader:?} after {words:?}:\n{}", differences.join("\n"));
    }
    Ok(readers.len())
}

/// Promise: images of FreeBSD and OpenBSD, in either byte order and with old inodes, are clean and
/// read by others as before once everything that the format has was tuned, replicas included.
#[test]
fn images_of_real_systems() -> Result<()> {
    let all: &[&str] = &["-a", "5", "-e", "77", "-m", "11", "-o", "space"];
    let newer: &[&str] = &["-f", "5000", "-s", "17", "-L", "tuned", "-n", "enable"];
    let mut shown = 0;
    let real =
        RealImage::unpack(&["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"])?;
    for image in &real {
        let more = if image.name.starts_with("freebsd") { newer } else { &["-d", "3"] };
        shown += tuned(&image.path(), &[all, more].concat(), &image.listing)?;
    }
    assert!(shown >= real.len(), "only {shown} readings");
    Ok(())
}

/// Promise: what was tuned in an image of `makefs` leaves its tree as it was to all readers, and
/// The Sleuth Kit finds a volume name and the flag of soft updates where we put them.
#[test]
fn others_find_what_was_set() -> Result<()> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let (source, image) = (directory.path().join("source"), directory.path().join("image"));
    std::fs::create_dir(&source).expect("source directory");
    plant(&source, Shape::ufs1(8192, 1024), 1)?;
    let makefs = Makefs { bsize: 8192, fsize: 1024, free_bytes: 4 << 20, ..Makefs::default() };
    makefs.write(&image, &source)?;
    tuned(&image, &["-m", "1", "-o", "space", "-L", "tuned"], &Makefs::keeps(&host::list(&source)?))?;

    let image_word = image.to_str().expect("a path in UTF-8");
    spindle(["newfs", "--force", image_word])?;
    spindle(["tunefs", "-L", "Volume-7", "-n", "enable", image_word])?;
    let shown = run(command("fsstat").args(["-f", "ufs2"]).arg(&image))?;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("Volume Name: Volume-7\n") && shown.contains("Soft Dependencies"), "{shown}");
    Ok(())
}
