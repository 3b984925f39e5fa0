//! Requests through `io_uring`, where the kernel offers it, which `scripts/with-io-uring` sees to;
//! elsewhere the same through `/dev/fuse`.

use super::harness::{Mounted, in_both_modes};
use nix::unistd::{Whence, lseek64};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::thread;

/// Returns true if this process has a thread that serves a ring.
fn has_ring_threads() -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads
        .filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("comm")).ok())
        .any(|name| name.starts_with("fuse-ring-"))
}

/// Promise: requests come through `io_uring` if the kernel offers it; if not, a mount that asks for
/// it works nevertheless.
#[test]
fn io_uring_is_used_where_it_is_offered() {
    for words in ["", "io_uring"] {
        let Some(mounted) = Mounted::new(words) else { return };
        fs::write(mounted.path("f"), b"content").unwrap();
        assert_eq!(fs::read(mounted.path("f")).unwrap(), b"content");
        assert_eq!(has_ring_threads(), spindle_fuse_uring::is_switched_on() == Some(true));
    }
}

/// Promise: a search for data or a hole finds them, also if the kernel has to write the data back
/// first, for which the search waits.
#[test]
fn searches_wait_for_data() {
    in_both_modes("io_uring", |mounted| {
        let open = OpenOptions::new().read(true).write(true).create_new(true).open(mounted.path("f"));
        let file = open.unwrap();
        file.set_len(64 << 20).unwrap();
        for at in (1..64_i64).map(|mib| mib << 20) {
            file.write_all_at(b"data", at.cast_unsigned()).unwrap();
            assert_eq!(lseek64(&file, at - (1 << 20) + 4096, Whence::SeekData), Ok(at));
            assert_eq!(lseek64(&file, at, Whence::SeekHole), Ok(at + 4096));
        }
    });
}

/// Promise: many programs at once, which store through the kernel's cache, search for data and ask
/// for durability, all get their answers, and what they have stored is there.
#[test]
fn many_programs_are_answered() {
    const PROGRAMS: usize = 32;
    in_both_modes("io_uring", |mut mounted| {
        let start = Barrier::new(PROGRAMS);
        thread::scope(|scope| {
            for program in 0..PROGRAMS {
                let (start, path) = (&start, mounted.path(&program.to_string()));
                scope.spawn(move || {
                    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
                    file.set_len(8 << 20).unwrap();
                    start.wait();
                    for at in (1..=5_i64).map(|mib| mib << 20) {
                        file.write_all_at(b"data", at.cast_unsigned()).unwrap();
                        let found = lseek64(&file, at - 4096, Whence::SeekData).unwrap();
                        assert!((at - 4096..=at).contains(&found), "{found}");
                        file.sync_data().unwrap();
                    }
                });
            }
        });
        mounted.remount();
        for program in 0..PROGRAMS {
            let data = fs::read(mounted.path(&program.to_string())).unwrap();
            assert!((1..=5).all(|mib| data[mib << 20..].starts_with(b"data")));
        }
    });
}

/// Promise: a mount that is in use by several programs ends, and all of them hear of it.
#[test]
fn unmounts_under_load() {
    const PROGRAMS: usize = 8;
    in_both_modes("io_uring", |mut mounted| {
        let all_work = Arc::new(Barrier::new(PROGRAMS + 1));
        let work = |path: PathBuf| {
            let all_work = Arc::clone(&all_work);
            thread::spawn(move || {
                let file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
                file.write_all_at(&[7; 8192], 0).unwrap();
                all_work.wait();
                while file.write_all_at(&[7; 8192], 4096).is_ok() && fs::metadata(&path).is_ok() {}
            })
        };
        let programs: Vec<_> =
            (0..PROGRAMS).map(|program| work(mounted.path(&program.to_string()))).collect();
        all_work.wait();
        // Their files are open, so the mount is detached.
        mounted.session().unmounter().stop();
        for program in programs {
            program.join().unwrap();
        }
        mounted.end().unwrap();
    });
}
