//! Direct and asynchronous I/O.

use crate::common::WRITE_MODES;
use crate::harness::Mounted;
use crate::observed::observed;
use crate::{big_model, errno};
use spindle_conformance::model::ModelOptions;
use spindle_vfs::FileSystem;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The calls of `libaio`, which are not in the C library.
mod aio {
    #![allow(unsafe_code)] // Plain calls with pointers to structures that outlive them.
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// `struct iocb` of `linux/aio_abi.h`.
    #[repr(C)]
    #[derive(Default)]
    struct Iocb {
        data: u64,
        key: u32,
        rw_flags: i32,
        opcode: u16,
        priority: i16,
        fd: u32,
        buf: u64,
        bytes: u64,
        offset: i64,
        reserved: u64,
        flags: u32,
        resfd: u32,
    }

    /// `struct io_event`.
    #[repr(C)]
    #[derive(Default)]
    struct Event {
        data: u64,
        obj: u64,
        res: i64,
        res2: i64,
    }

    const PWRITE: u16 = 1;

    /// Memory with the alignment for direct I/O.
    #[repr(align(4096))]
    pub struct Aligned<const N: usize>(pub [u8; N]);

    /// Writes with `io_submit` and waits. Returns the number of bytes written, or the error number.
    pub fn write<const N: usize>(file: &File, data: &Aligned<N>, offset: i64) -> Result<i64, i32> {
        let mut context = 0u64;
        let mut iocb = Iocb {
            opcode: PWRITE,
            fd: u32::try_from(file.as_raw_fd()).unwrap(),
            buf: data.0.as_ptr() as u64,
            bytes: N as u64,
            offset,
            ..Iocb::default()
        };
        let mut event = Event::default();
        let none = std::ptr::null_mut::<libc::timespec>();
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_io_setup, 1, &raw mut context), 0);
            let list = [&raw mut iocb];
            assert_eq!(libc::syscall(libc::SYS_io_submit, context, 1, list.as_ptr()), 1);
            assert_eq!(libc::syscall(libc::SYS_io_getevents, context, 1, 1, &raw mut event, none), 1);
            libc::syscall(libc::SYS_io_destroy, context);
        }
        if event.res < 0 { Err(i32::try_from(-event.res).unwrap()) } else { Ok(event.res) }
    }
}

/// Promise: a read after the end of an asynchronous direct write returns the new bytes, even if the
/// old bytes were read into the kernel's cache during the write.
#[test]
fn no_stale_reads_after_asynchronous_writes() {
    for mode in WRITE_MODES {
        let Some((m, fs)) = observed(mode) else { return };
        fs::write(m.path("f"), [1; 16384]).unwrap();
        let direct = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(m.path("f")).unwrap();
        direct.sync_all().unwrap();
        let reader = fs::File::open(m.path("f")).unwrap();
        fs.hold_next_write();
        let data = Box::new(aio::Aligned([2u8; 16384]));
        std::thread::scope(|scope| {
            let written = scope.spawn(|| aio::write(&direct, &data, 0));
            fs.wait_for_held_write();
            let mut bytes = [0; 16384];
            reader.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes, [1; 16384], "{mode}: the write is not done yet");
            fs.release_write();
            assert_eq!(written.join().unwrap(), Ok(16384), "{mode}");
        });
        let mut bytes = [0; 16384];
        reader.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == [2; 16384], "{mode}: the read returned old bytes");
    }
}

/// Promise: a direct write, asynchronous or not, writes as much as fits, and then fails with
/// ENOSPC.
#[test]
fn direct_writes_to_a_full_disk() {
    for mode in WRITE_MODES {
        let model = ModelOptions { blocks: 300, reserve_blocks: 0, ..big_model() };
        let Some(m) = Mounted::with_model(mode, model) else { return };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        let file = options.open(m.path("f")).unwrap();
        file.set_len(1 << 20).unwrap();
        let filler = fs::File::create(m.path("filler")).unwrap();
        let free = m.fs.statfs().unwrap().bfree;
        let bytes = i64::try_from((free - 1) * 4096).unwrap();
        nix::fcntl::fallocate(&filler, nix::fcntl::FallocateFlags::empty(), 0, bytes).unwrap();
        let data = Box::new(aio::Aligned([3u8; 8192]));
        assert_eq!(aio::write(&file, &data, 0), Ok(4096), "{mode}: half of the data fits");
        for offset in [4096, 1 << 20] {
            assert_eq!(aio::write(&file, &data, offset), Err(libc::ENOSPC), "{mode}: asynchronous");
            let direct = file.write_at(&data.0, u64::try_from(offset).unwrap());
            assert_eq!(errno(&direct.unwrap_err()), libc::ENOSPC, "{mode}: direct");
        }
    }
}
