//! How newfs treats a device: what was on it, interruptions, sectors, size.

use super::audit::{FORMATS, NOW, audit, make, make_on, with};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Ticket};
use spindle_ffs::newfs::{Format, Parameters, Plan, write};
use spindle_ffs::ondisk::FsRecovery;
use spindle_ffs::{Dialect, Superblock};
use spindle_ondisk::Endian;
use std::sync::atomic::{AtomicU32, Ordering};

/// Promise: the same parameters, time and random numbers give the same bytes.
#[test]
fn is_reproducible() {
    for format in [Format::Old, Format::Ufs1, Format::Ufs2] {
        let parameters = with(8 << 20, |p| p.format = format);
        assert!(make(&parameters).0.to_bytes() == make(&parameters).0.to_bytes(), "{format:?}");
    }
}

/// Promise: garbage on the device does not show through: what newfs writes it writes whole, other
/// file systems' magics go, the boot area and what lies behind the file system stay.
#[test]
fn garbage_is_overwritten() {
    const BEHIND: usize = 1 << 20;
    for (format, dialect, static_tables) in FORMATS {
        let size = 12 << 20;
        let parameters =
            with(size, |p| (p.format, p.dialect, p.static_tables) = (format, dialect, static_tables));
        let what = format!("{format:?} {dialect:?} {static_tables}");
        let size = usize::try_from(size).unwrap();
        let mut old = vec![0xa5; size + BEHIND];
        for at in [0, 8192, 16384, 65536, 262_144] {
            old[at + 1372..at + 1376].copy_from_slice(&0x0001_1954_i32.to_le_bytes());
        }
        old[1080..1082].copy_from_slice(b"\x53\xef");
        let device = MemoryDevice::from_bytes(&old);
        let superblock = make_on(&device, &parameters);
        audit(&device, &superblock, &what);
        let new = device.to_bytes();
        assert_eq!(new[1080..1082], [0, 0], "{what}");
        assert!(new[..1080] == old[..1080], "{what}: boot area");
        assert!(new[size..] == old[size..], "{what}: behind the end");
        for place in [0, 8192, 65536, 262_144] {
            let found = Superblock::read(&device, place).unwrap();
            assert_eq!(found.is_some(), place == superblock.layout.fs_sblockloc, "{what}: at {place}");
        }
    }
}

/// Promise: if the standard superblock is lost, the recovery record leads to a copy.
#[test]
fn recovery_record_leads_to_a_copy() {
    for endian in [Endian::Little, Endian::Big] {
        let (device, superblock) = make(&with(64 << 20, |p| p.endian = Some(endian)));
        device.write_at(65536, &[0; 8192]).unwrap();
        let record = Superblock::read_recovery(&device).unwrap().unwrap();
        let FsRecovery { fsr_fpg, fsr_ncg, .. } = record;
        assert_eq!((fsr_fpg, fsr_ncg), (superblock.fs.fs_fpg, superblock.fs.fs_ncg));
        let (at, _) = Superblock::find_replica(&device).unwrap();
        assert_eq!(at, superblock.layout.byte(superblock.layout.cgsblock(1)));
    }
}

/// A device that takes so many writes and then fails, or has larger sectors than its memory.
struct Odd {
    inner: MemoryDevice,
    info: Info,
    writes_left: AtomicU32,
}

impl Odd {
    fn new(inner: MemoryDevice, sector_bytes: u32, writes: u32) -> Self {
        let info = Info { sector_bytes, ..inner.info().clone() };
        Self { inner, info, writes_left: AtomicU32::new(writes) }
    }
}

impl Device for Odd {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        if request.op == Op::Write {
            let left = self.writes_left.load(Ordering::Relaxed);
            if left == 0 {
                let error = std::io::Error::other("no more writes");
                return Err(spindle_device::Error::io("odd", "write", error));
            }
            self.writes_left.store(left - 1, Ordering::Relaxed);
        }
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> spindle_device::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> spindle_device::Result<()> {
        Ok(())
    }
}

/// Promise: newfs cut short after any write leaves no file system, or the old one whole; never a
/// broken one that passes for good.
#[test]
fn an_interrupted_newfs_is_harmless() {
    let shapes = [
        (Format::Ufs2, None, false),
        (Format::Ufs1, None, false),
        (Format::Old, None, true),
        (Format::Ufs1, Some(Dialect::Sun { x86: false }), false),
    ];
    let parameters = |shape: (Format, Option<Dialect>, bool)| {
        with(6 << 20, |p| (p.format, p.dialect, p.static_tables) = shape)
    };
    for old in shapes {
        let (before, _) = make(&parameters(old));
        let before = before.to_bytes();
        for new in shapes {
            let plan = Plan::new(&parameters(new)).unwrap();
            for cut in 0.. {
                let device = Odd::new(MemoryDevice::from_bytes(&before), 512, cut);
                let mut random = StdRng::seed_from_u64(9);
                let done = write(&plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ()).is_ok();
                let what = format!("{old:?} to {new:?} after {cut} writes");
                match Superblock::open(&device) {
                    Ok(superblock) => audit(&device, &superblock, &what),
                    Err(_) => assert!(!done, "{what}"),
                }
                if done {
                    break;
                }
                assert!(cut < 100, "{what}: still not done");
            }
        }
    }
}

/// Promise: large device sectors are respected, and fragments smaller than them refused.
#[test]
fn large_sectors() {
    for format in [Format::Ufs1, Format::Ufs2, Format::Old] {
        let parameters = with(8 << 20, |p| (p.format, p.sector_bytes) = (format, 4096));
        let plan = Plan::new(&parameters).unwrap();
        let device = Odd::new(MemoryDevice::new(8 << 20), 4096, u32::MAX);
        let mut random = StdRng::seed_from_u64(2);
        let mut put = |plan: &Plan| write(plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ());
        let superblock = put(&plan).unwrap();
        audit(&device, &superblock, &format!("{format:?} on sectors of 4096"));
        let small = with(8 << 20, |p| (p.format, p.bsize, p.fsize) = (format, Some(4096), Some(512)));
        let error = put(&Plan::new(&small).unwrap()).unwrap_err();
        assert!(error.to_string().contains("sector"), "{error}");
    }
}

/// Promise: a device that is too small is refused before anything is written.
#[test]
fn too_small_a_device() {
    let plan = Plan::new(&Parameters::new(8 << 20)).unwrap();
    let device = Odd::new(MemoryDevice::new((8 << 20) - 512), 512, 0);
    let mut random = StdRng::seed_from_u64(2);
    let error = write(&plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ()).unwrap_err();
    assert!(error.to_string().contains("smaller size"), "{error}");
}
