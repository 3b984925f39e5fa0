//! Deleted files: The Sleuth Kit finds the same names in what real systems have left, and reads the
//! same of an inode that still has its pointers.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use serde_json::Value;
use spindle_device::{FileDevice, OpenOptions};
use spindle_ffs::Superblock;
use spindle_interop::Result;
use spindle_interop::linux::RealImage;
use spindle_interop::spindle::spindle;
use spindle_interop::tool::{command, run};

/// Promise: in images of FreeBSD and OpenBSD, exactly the deleted names that `fls -rd` lists are
/// found, with the same inodes.
#[test]
fn names_agree_with_the_sleuth_kit() -> Result<()> {
    // It reads no directories from before 4.4BSD.
    let real = RealImage::unpack(&["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1"])?;
    for image in &real {
        let path = image.path();
        let listed = run(command("fls").args(["-f", "ufs", "-r", "-d", "-p"]).arg(&path))?;
        // `r/r * 1928(realloc):   d/f7`
        let theirs: BTreeSet<(u64, String)> = String::from_utf8_lossy(&listed)
            .lines()
            .filter(|line| !line.contains("$OrphanFiles"))
            .map(|line| {
                let (entry, name) = line.split_once('\t').expect("a tab before the name");
                let ino = entry.rsplit(' ').next().expect("an inode").trim_end_matches(':');
                let ino = ino.trim_end_matches("(realloc)").parse().expect("a number");
                (ino, format!("/{name}"))
            })
            .collect();
        let found = spindle(["find-deleted", "--json", path.to_str().expect("a path in UTF-8")])?;
        let found: Value = serde_json::from_slice(&found).expect("JSON");
        let names = found["names"].as_array().expect("an array").iter();
        let ours: BTreeSet<(u64, String)> = names
            .map(|name| {
                let text = |field: &str| name[field].as_str().expect("text").to_owned();
                let path = format!("{}/{}", text("directory").trim_end_matches('/'), text("name"));
                (name["inode"].as_u64().expect("a number"), path)
            })
            .collect();
        assert_eq!(ours, theirs, "{}", image.name);
    }
    Ok(())
}

/// Promise: what `--save` copies of a deleted inode is what `icat -r` reads, and what was in the
/// file.
#[test]
fn contents_agree_with_the_sleuth_kit() -> Result<()> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let word = |name: &str| directory.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let content: Vec<u8> = (0..700_000_u32).map(|n| (n / 9).to_le_bytes()[0]).collect();
    std::fs::create_dir(word("source")).expect("source directory");
    std::fs::write(word("source/file"), &content).expect("source file");
    for version in ["1", "2"] {
        let (image, saved) = (word("image"), word(&format!("saved{version}")));
        spindle(["newfs", "--force", "-O", version, "-s", "16m", &image])?;
        spindle(["import", &word("source"), &image])?;
        let stat = spindle(["stat", "--json", &format!("{image}:/file")])?;
        let stat: Value = serde_json::from_slice(&stat).expect("JSON");
        let ino = u32::try_from(stat[0]["ino"].as_u64().expect("a number")).expect("32 bits");
        let layout = {
            let device = FileDevice::open(&image, &OpenOptions::read_only()).expect("the image");
            Superblock::open(&device).expect("a superblock").layout
        };
        let (block, offset) = layout.ino_to_fsba(ino);
        let at = layout.byte(block) + offset as u64;
        let file = std::fs::File::options().read(true).write(true).open(&image).expect("the image");
        let mut inode = vec![0; layout.inode_size()];
        file.read_exact_at(&mut inode, at).expect("the inode");
        spindle(["rm", &format!("{image}:/file")])?;
        // As a crash leaves it: freed, and not cleared.
        file.write_all_at(&inode, at).expect("the inode");
        spindle(["find-deleted", "--save", &saved, &image])?;
        let ours = std::fs::read(format!("{saved}/inode-{ino}")).expect("what was saved");
        let theirs = run(command("icat").args(["-f", "ufs", "-r", &image, &ino.to_string()]))?;
        assert!(ours == content, "UFS{version}");
        assert!(theirs == content, "UFS{version}");
    }
    Ok(())
}
