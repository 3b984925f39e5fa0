//! Full file systems, and files of the largest size: a write that returned is in the image, or its
//! loss is reported.

use crate::common::WRITE_MODES;
use crate::harness::{Mounted, in_both_modes};
use crate::small::{fill_but, small_model};
use crate::{big_model, errno};
use spindle_conformance::model::ModelOptions;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Promise: `write` fails when the disk is full, and everything written before is in the image.
#[test]
fn write_reports_a_full_disk() {
    let Some(mut m) = Mounted::with_model("", small_model()) else { return };
    for record in [100, 4096, 10_000] {
        let mut file = File::create(m.path("f")).unwrap();
        let mut written = 0;
        let error = loop {
            match file.write(&vec![7; record]) {
                Ok(len) => written += len as u64,
                Err(error) => break error,
            }
            assert!(written < 301 * 4096, "more than the disk can hold");
        };
        assert_eq!(errno(&error), libc::ENOSPC);
        file.sync_all().unwrap();
        drop(file);
        m.remount();
        assert_eq!(fs::read(m.path("f")).unwrap(), vec![7; usize::try_from(written).unwrap()]);
        fs::remove_file(m.path("f")).unwrap();
    }
    m.unmount();
}

/// Promise: with `writeback` the unmount reports the number of lost bytes and the files, even if no
/// program called `fsync`.
#[test]
fn lost_late_writes_are_reported() {
    let Some(mut m) = Mounted::with_model("writeback", small_model()) else { return };
    fs::create_dir(m.path("d")).unwrap();
    fill_but(&m.path(""), 10);
    let mut file = File::create(m.path("d/f")).unwrap();
    file.write_all(&vec![7; 100 * 4096]).unwrap();
    assert_eq!(errno(&file.sync_all().unwrap_err()), libc::ENOSPC);
    drop(file);
    let error = m.end().unwrap_err().to_string();
    assert!(error.contains("bytes of late writes") && error.contains(" of /d/f (no space left)"), "{error}");
    // Data that is written again before the unmount is not lost.
    m.remount_ended();
    fs::remove_file(m.path("d/f")).unwrap();
    let mut file = File::create(m.path("d/g")).unwrap();
    file.write_all(&vec![7; 100 * 4096]).unwrap();
    assert_eq!(errno(&file.sync_all().unwrap_err()), libc::ENOSPC);
    fs::remove_file(m.path("filler")).unwrap();
    file.write_all_at(&vec![8; 100 * 4096], 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    m.remount();
    assert_eq!(fs::read(m.path("d/g")).unwrap(), vec![8; 100 * 4096]);
}

/// Promise: writes, truncations and allocations beyond the largest file size are refused and change
/// nothing.
#[test]
fn beyond_the_largest_file_size() {
    const MAX: u64 = 1 << 30;
    let limits = spindle_vfs::Limits { file_size_max: MAX, ..big_model().limits };
    let model = ModelOptions { limits, ..big_model() };
    for mode in WRITE_MODES {
        let Some(mut m) = Mounted::with_model(mode, model.clone()) else { return };
        fs::write(m.path("f"), b"contents").unwrap();
        let file = OpenOptions::new().read(true).write(true).open(m.path("f")).unwrap();
        let efbig = |what: &str, offset: u64, result: std::io::Result<()>| {
            let error = result.as_ref().err().map(errno);
            assert_eq!(error, Some(libc::EFBIG), "{mode}: {what} at {offset}");
        };
        for offset in [MAX, MAX - 3, 1 << 62] {
            // With `writeback` the kernel accepts such a write. A write that starts
            // below the limit is partly written.
            if mode == "writethrough" && offset >= MAX {
                efbig("write", offset, file.write_at(b"more", offset).map(drop));
            }
            efbig("truncate", offset, file.set_len(offset + 4));
            let place = i64::try_from(offset).unwrap();
            let allocate = nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), place, 4);
            efbig("allocate", offset, allocate.map_err(Into::into));
        }
        let found = file.metadata().unwrap();
        assert_eq!((found.len(), found.blocks()), (8, 8), "{mode}");
        drop(file);
        m.remount();
        assert_eq!(fs::read(m.path("f")).unwrap(), b"contents");
    }
}

/// Promise: the use of the reserve depends on the user who writes, not on the owner of the file.
#[test]
fn the_reserve_is_for_the_superuser() {
    in_both_modes("allow_other", |m| {
        drop(m);
        let Some(m) = Mounted::with_model("allow_other", small_model()) else { return };
        fill_but(&m.path(""), 15);
        fs::write(m.path("root's"), b"").unwrap();
        fs::set_permissions(m.path("root's"), std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=4096", "count=1", "conv=notrunc"]).uid(65534).gid(65534);
        dd.arg(format!("of={}", m.path("root's").display())).stderr(std::process::Stdio::null());
        assert!(!dd.status().unwrap().success(), "user nobody writes to a file of root");
        assert_eq!(fs::metadata(m.path("root's")).unwrap().len(), 0);
        fs::write(m.path("nobody's"), b"").unwrap();
        chown(m.path("nobody's"), Some(65534), None).unwrap();
        let file = OpenOptions::new().write(true).open(m.path("nobody's")).unwrap();
        file.write_all_at(&[1; 4096], 0).expect("root writes to a file of user nobody");
        file.sync_all().unwrap();
    });
}
