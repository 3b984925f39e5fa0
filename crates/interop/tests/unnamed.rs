//! Files that are opened without a name (`O_TMPFILE`) on mounts of every kind.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open, statvfs};
use spindle_clock::{Clock, SystemClock};
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::{Failure, Result};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const FILE_SYSTEMS: [&[&str]; 5] = [&[], &["-O1"], &["-t", "mfs"], &["-t", "v7"], &["-t", "sysv"]];
const MODES: [&str; 2] = ["writethrough", "writeback"];

fn io<T>(result: io::Result<T>) -> Result<T> {
    result.map_err(Failure::of("a call on the mount"))
}

fn unnamed(dir: &Path, flags: OFlags) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | flags;
    Ok(File::from(open(dir, flags, Mode::from_raw_mode(0o640))?))
}

fn name(file: &File, path: &Path) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, open, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Waits until as many blocks are free as `free`; the kernel reports a close in its own time.
fn is_freed(dir: &Path, free: u64) -> bool {
    let is_free = || statvfs(dir).is_ok_and(|stat| stat.f_bfree == free);
    (0..500).any(|_| {
        SystemClock.sleep(Duration::from_millis(20));
        fs::File::open(dir).and_then(|dir| dir.sync_all()).is_ok() && is_free()
    })
}

fn use_mount(dir: &Path) -> io::Result<()> {
    let below = dir.join("below");
    fs::create_dir(&below)?;
    fs::write(below.join("taken"), b"other")?;
    File::open(dir)?.sync_all()?;
    let free = statvfs(dir)?.f_bfree;
    let mut file = unnamed(&below, OFlags::empty())?;
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    file.write_all(&bytes)?;
    let found = file.metadata()?;
    assert_eq!((found.nlink(), found.mode() & 0o7777, found.len()), (0, 0o640, 300_000));
    assert_eq!(fs::read_dir(&below)?.count(), 1);
    let dated = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(dated)?;
    assert_eq!(name(&file, &below.join("taken")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    name(&file, &dir.join("named"))?;
    assert_eq!((file.metadata()?.nlink(), fs::metadata(dir.join("named"))?.ino()), (1, found.ino()));
    file.rewind()?;
    let mut read = Vec::new();
    file.read_to_end(&mut read)?;
    assert!(read == bytes);
    drop(file);
    fs::remove_file(dir.join("named"))?;
    assert!(is_freed(dir, free), "the space of a named file that was removed");
    let mut lost = unnamed(dir, OFlags::EXCL)?;
    lost.write_all(&bytes)?;
    assert_eq!(name(&lost, &dir.join("never")).unwrap_err().kind(), io::ErrorKind::NotFound);
    drop(lost);
    assert!(is_freed(dir, free), "the space of a file that got no name");
    let mut kept = unnamed(&below, OFlags::empty())?;
    kept.write_all(&bytes)?;
    kept.set_modified(dated)?;
    // With writeback the kernel writes the time before the file has a name.
    kept.sync_all()?;
    name(&kept, &dir.join("kept"))
}

/// Promise: a file that is opened without a name has none until it is linked, whatever the format;
/// its data and times stay with the name; without one its space is free after the close; and the
/// image is in order afterwards.
#[test]
fn files_without_names() -> Result<()> {
    for newfs in FILE_SYSTEMS {
        for mode in MODES {
            let directory = io(TempDir::new())?;
            let image = directory.path().join("image");
            let word = image.to_str().expect("a path in UTF-8");
            spindle(["newfs", "-s", "32m"].into_iter().chain(newfs.iter().copied()).chain([word]))?;
            let mounted = Mounted::new(&image, mode)?;
            io(use_mount(mounted.path()))
                .map_err(|error| Failure::new(format!("{newfs:?} {mode}: {error}")))?;
            mounted.unmount()?;
            fsck(&image)?;
            let mounted = Mounted::new(&image, "ro")?;
            let kept = io(fs::metadata(mounted.path().join("kept")))?;
            assert_eq!(
                (kept.nlink(), kept.len(), kept.mtime()),
                (1, 300_000, 1_000_000_000),
                "{newfs:?} {mode}"
            );
            mounted.unmount()?;
        }
    }
    Ok(())
}
