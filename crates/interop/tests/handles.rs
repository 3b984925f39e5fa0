//! File handles on mounts, as the kernel's NFS server and those in user space use them.

use spindle_clock::{Clock, SystemClock};
use spindle_interop::handle::{Handle, drop_caches, number};
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::{Failure, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The file systems: their newfs, and whether they have symbolic links and fifos.
const FILE_SYSTEMS: [(&[&str], bool); 6] = [
    (&[], true),
    (&["-O1"], true),
    (&["-O0", "--dialect", "43bsd"], true),
    (&["-t", "mfs"], true),
    (&["-t", "v7"], false),
    (&["-t", "sysv"], false),
];

/// The ways to mount for writing.
const MODES: [&str; 3] = ["writethrough", "writeback", "writethrough,allow_other,default_permissions"];

fn io<T>(result: io::Result<T>) -> Result<T> {
    result.map_err(Failure::of("a call on the mount"))
}

/// Returns the error number of a handle that cannot be opened, or 0. The kernel reports a close to
/// the daemon in its own time, and until then a removed file can still be opened: so this waits.
fn errno(handle: &Handle, mount: &Path) -> i32 {
    for _ in 0..500 {
        match handle.open(mount) {
            Err(error) => return error.raw_os_error().unwrap_or(0),
            Ok(file) => drop(file),
        }
        SystemClock.sleep(Duration::from_millis(20));
    }
    0
}

/// A new image in a directory of its own.
struct Image {
    _directory: TempDir,
    path: PathBuf,
}

fn image(newfs: &[&str]) -> Result<Image> {
    let directory = io(tempfile::tempdir())?;
    let path = directory.path().join("image");
    let place = path.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", "64m"].into_iter().chain(newfs.iter().copied()).chain([place]))?;
    Ok(Image { _directory: directory, path })
}

/// Makes a file of each kind, deep in a tree.
fn plant(mount: &Path, links: bool) -> io::Result<Vec<PathBuf>> {
    let deep = mount.join("a/b/c/d/e/f/g/h");
    fs::create_dir_all(&deep)?;
    let mut planted = vec![mount.to_owned(), mount.join("a"), deep.clone()];
    for path in [mount.join("file"), deep.join("file")] {
        fs::write(&path, path.as_os_str().as_encoded_bytes().repeat(300))?;
        planted.push(path);
    }
    if links {
        symlink("a/target", deep.join("link"))?;
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, deep.join("fifo"), rustix::fs::FileType::Fifo, mode, 0)?;
        planted.extend([deep.join("link"), deep.join("fifo")]);
    }
    Ok(planted)
}

/// Compares what a handle opens with what the path names.
fn same(handle: &Handle, mount: &Path, path: &Path) -> io::Result<()> {
    let mut opened = handle.open(mount)?;
    let (by_handle, by_path) = (opened.metadata()?, fs::symlink_metadata(path)?);
    let shown = |data: &fs::Metadata| (data.ino(), data.mode(), data.len(), data.nlink(), data.mtime());
    assert_eq!(shown(&by_handle), shown(&by_path), "{}", path.display());
    let kind = by_path.file_type();
    if kind.is_file() {
        let mut bytes = Vec::new();
        opened.read_to_end(&mut bytes)?;
        assert!(bytes == fs::read(path)?, "{}", path.display());
    } else if kind.is_dir() {
        // The kernel has found the way from the root: it knows the whole path.
        use std::os::fd::AsRawFd;
        let known = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()))?;
        assert_eq!(known, path);
    } else if kind.is_symlink() {
        assert_eq!(Handle::target(&opened)?, fs::read_link(path)?.as_os_str().as_encoded_bytes());
    } else {
        assert!(kind.is_fifo());
    }
    Ok(())
}

/// Promise: the handle of a file of any kind opens it after the kernel has dropped its caches, and
/// on a later mount, for writing or read-only.
#[test]
fn handles_outlive_caches_and_mounts() -> Result<()> {
    for (newfs, links) in FILE_SYSTEMS {
        let image = image(newfs)?;
        let mut planted = Vec::new();
        for mode in MODES.into_iter().chain(["ro"]) {
            println!("{newfs:?} {mode}");
            let mounted = Mounted::new(&image.path, mode)?;
            let mount = mounted.path().to_owned();
            if planted.is_empty() {
                let paths = io(plant(&mount, links))?;
                let handles = io(paths.iter().map(|path| Handle::of(path)).collect::<io::Result<Vec<_>>>())?;
                let below = paths.iter().map(|path| path.strip_prefix(&mount).expect("below").to_owned());
                planted = below.zip(handles).collect();
            }
            for _ in 0..2 {
                io(drop_caches(&mount))?;
                planted.reverse();
                for (path, handle) in &planted {
                    // `join` of an empty path would add a slash.
                    let path = if path.as_os_str().is_empty() { mount.clone() } else { mount.join(path) };
                    io(same(handle, &mount, &path))?;
                    assert_eq!(io(Handle::of(&path))?, *handle, "{}", path.display());
                }
            }
            mounted.unmount()?;
        }
        fsck(&image.path)?;
    }
    Ok(())
}

/// Promise: the handle of a removed file is stale, also if its number is used again, and on a later
/// mount. So is a handle with any number and generation that a client makes up, unless a file has
/// them, and asking harms nothing.
#[test]
fn handles_of_removed_files_are_stale() -> Result<()> {
    for (newfs, _) in FILE_SYSTEMS {
        println!("{newfs:?}");
        let image = image(newfs)?;
        let mounted = Mounted::new(&image.path, "")?;
        let mount = mounted.path().to_owned();
        io(fs::create_dir(mount.join("dir")))?;
        io(fs::write(mount.join("gone"), "first"))?;
        let [dir, gone] = ["dir", "gone"].map(|name| Handle::of(&mount.join(name)));
        let (dir, gone) = (io(dir)?, io(gone)?);
        let was = io(number(&mount.join("gone")))?;
        io(fs::remove_dir(mount.join("dir")))?;
        io(fs::remove_file(mount.join("gone")))?;
        assert_eq!([errno(&gone, &mount), errno(&dir, &mount)], [libc::ESTALE; 2]);
        io(drop_caches(&mount))?;
        assert_eq!([errno(&gone, &mount), errno(&dir, &mount)], [libc::ESTALE; 2]);
        mounted.unmount()?;

        let mounted = Mounted::new(&image.path, "")?;
        let mount = mounted.path().to_owned();
        assert_eq!([errno(&gone, &mount), errno(&dir, &mount)], [libc::ESTALE; 2]);
        let mut again = None;
        for n in 0..100 {
            let path = mount.join(format!("new{n}"));
            io(fs::write(&path, "another"))?;
            if io(number(&path))? == was {
                again = Some(path);
                break;
            }
        }
        let again = again.expect("the number is used again");
        assert_eq!(errno(&gone, &mount), libc::ESTALE);
        io(drop_caches(&mount))?;
        assert_eq!(errno(&gone, &mount), libc::ESTALE);
        let new = io(Handle::of(&again))?;
        assert!(new != gone);

        // The kernel's number, in two halves, and its generation.
        let mut opened = 0;
        for number in (0..64).chain((0..64).map(|bit| (1_u64 << bit).wrapping_sub(1))).chain([u64::MAX]) {
            for generation in [0_u32, 1, u32::MAX] {
                let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap_or(0).to_ne_bytes();
                let bytes = [half(number >> 32), half(number), generation.to_ne_bytes()].concat();
                match new.forged(0, &bytes).open(&mount) {
                    Ok(_) => opened += 1,
                    Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{number:#x}"),
                }
            }
        }
        println!("{opened} of the handles that were made up are those of files");
        assert_eq!(io(fs::read(&again))?, b"another");
        mounted.unmount()?;
        fsck(&image.path)?;
    }
    Ok(())
}

/// Promise: what is written through a handle, to a file that the kernel had forgotten, is there on
/// the next mount; a file that is removed while a handle has it open lives until it is closed.
#[test]
fn files_are_used_through_handles() -> Result<()> {
    for (newfs, _) in FILE_SYSTEMS {
        for mode in MODES {
            println!("{newfs:?} {mode}");
            let image = image(newfs)?;
            let mounted = Mounted::new(&image.path, mode)?;
            let mount = mounted.path().to_owned();
            for name in ["kept", "removed"] {
                io(fs::write(mount.join(name), name.repeat(2000)))?;
            }
            let [kept, removed] = ["kept", "removed"].map(|name| Handle::of(&mount.join(name)));
            let (kept, removed) = (io(kept)?, io(removed)?);
            io(drop_caches(&mount))?;
            let file = io(kept.open(&mount))?;
            let place = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
            let writer = io(File::options().write(true).open(place))?;
            io(std::os::unix::fs::FileExt::write_all_at(&writer, b"written by a handle", 5000))?;
            drop((file, writer));
            let mut open = io(removed.open(&mount))?;
            io(fs::remove_file(mount.join("removed")))?;
            io(drop_caches(&mount))?;
            let mut text = String::new();
            io(open.read_to_string(&mut text))?;
            assert_eq!(text, "removed".repeat(2000));
            drop(open);
            io(drop_caches(&mount))?;
            assert_eq!(errno(&removed, &mount), libc::ESTALE);
            mounted.unmount()?;
            fsck(&image.path)?;
            let mounted = Mounted::new(&image.path, "ro")?;
            let kept_bytes = io(fs::read(mounted.path().join("kept")))?;
            let mut expected = "kept".repeat(2000).into_bytes();
            expected[5000..5019].copy_from_slice(b"written by a handle");
            assert!(kept_bytes == expected);
            assert_eq!(errno(&removed, mounted.path()), libc::ESTALE);
            mounted.unmount()?;
        }
    }
    Ok(())
}
