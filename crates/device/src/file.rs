//! Regular files and block devices.
//!
//! A [`FileDevice`] transfers synchronously, with plain system calls, in `read_at` and `write_at`,
//! and asynchronously, through an engine, in `submit` and `wait`. The engine (`io_uring` if the
//! system permits it, otherwise a few threads) is started by the first `submit`. A daemon must open
//! devices after it has forked: the engine's threads do not exist in the child, and dropping the
//! parent's device would release the lock of both.
//!
//! Invariants: a device opened read-only has a descriptor without write permission; the advisory
//! lock is held exactly as long as the device exists; the first failed write or flush ends writing.

use crate::backing::Backing;
use crate::lock::{WHOLE, lock, reason_of_claim};
use crate::looped;
use crate::sysfs::is_write_protected;
#[cfg(target_os = "linux")]
use crate::uring::Ring;
use crate::workers::Workers;
use crate::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Use of the system's page cache by transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Direct for block devices, for which the page cache would hold a second copy of everything;
    /// buffered for files, whose holes and growth make direct transfers slow.
    #[default]
    Auto,
    /// Through the page cache.
    Buffered,
    /// Bypassing the page cache. The sector size is then what the system requires for direct
    /// transfers.
    Direct,
}

/// How the system is kept from mounting a block device that is opened for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Claim {
    /// The device is claimed until it is closed.
    #[default]
    Kept,
    /// The device must not be claimed; the caller is about to have the system mount it.
    Checked,
    /// Another open file of this process, or a mount that it serves, has the claim.
    Elsewhere,
}

/// The engine of asynchronous transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`, or threads if the system refuses it.
    #[default]
    Auto,
    /// A few threads.
    Threads,
}

/// Options for opening a file or block device.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Opens without permission to write.
    pub read_only: bool,
    /// Use of the page cache.
    pub caching: Caching,
    /// Takes an advisory lock of the part that is used: exclusive for writing, shared for reading.
    pub lock: bool,
    /// How the system is kept from using a block device that is opened for writing with a lock.
    pub claim: Claim,
    /// Engine of asynchronous transfers.
    pub engine: Engine,
}

impl OpenOptions {
    /// Returns options for reading and writing, with an exclusive lock.
    #[must_use]
    pub fn read_write() -> Self {
        Self {
            read_only: false,
            caching: Caching::Auto,
            lock: true,
            claim: Claim::default(),
            engine: Engine::Auto,
        }
    }

    /// Returns options for reading, with a shared lock.
    #[must_use]
    pub fn read_only() -> Self {
        Self { read_only: true, ..Self::read_write() }
    }

    /// Returns options for reading without a lock: another program may be writing.
    #[must_use]
    pub fn look() -> Self {
        Self { lock: false, ..Self::read_only() }
    }
}

/// Effect of opening on the size of a file.
#[derive(Clone, Copy)]
enum Sizing {
    Keep,
    Set(u64),
    Empty(u64),
}

/// A regular file or block device.
///
/// Its [`Info::size_bytes`] counts whole sectors; bytes after the last whole sector are out of
/// range.
pub struct FileDevice {
    backing: Arc<Backing>,
    engine: OnceLock<ActiveEngine>,
    engine_option: Engine,
    direct: bool,
}

enum ActiveEngine {
    #[cfg(target_os = "linux")]
    Ring(Box<Ring>),
    Workers(Workers),
    /// The system provides neither a ring nor threads.
    Failed(Error),
}

impl FileDevice {
    /// Opens an existing file or block device.
    ///
    /// # Errors
    /// [`Error::Busy`] if another program holds the lock, [`Error::Unusable`] if it is neither a
    /// file nor a block device, [`Error::Io`] if the system refuses.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        Self::open_part(path.as_ref(), options, &WHOLE)
    }

    /// Opens an existing file or block device that messages call `name`.
    pub(crate) fn open_named(path: &Path, name: String, options: &OpenOptions) -> Result<Self> {
        Self::open_sized(path, name, options, Sizing::Keep, &WHOLE)
    }

    /// Creates a sparse file of `size_bytes` zero bytes; replaces the content of an existing file
    /// (once it is locked). A block device is used unchanged if it is large enough.
    ///
    /// # Errors
    /// Those of [`Self::open`]; [`Error::Unusable`] if a block device is smaller than `size_bytes`.
    pub fn create(path: impl AsRef<Path>, size_bytes: u64, options: &OpenOptions) -> Result<Self> {
        Self::open_sized(path.as_ref(), name_of(path.as_ref()), options, Sizing::Empty(size_bytes), &WHOLE)
    }

    /// Opens an existing file and sets its size to `size_bytes`, keeping the content that fits. A
    /// block device is used unchanged if it is large enough.
    ///
    /// # Errors
    /// Those of [`Self::create`].
    pub fn open_resized(path: impl AsRef<Path>, size_bytes: u64, options: &OpenOptions) -> Result<Self> {
        Self::open_sized(path.as_ref(), name_of(path.as_ref()), options, Sizing::Set(size_bytes), &WHOLE)
    }

    /// Opens an existing file or block device of which only the bytes `part` are used and locked.
    pub(crate) fn open_part(path: &Path, options: &OpenOptions, part: &Range<u64>) -> Result<Self> {
        Self::open_sized(path, name_of(path), options, Sizing::Keep, part)
    }

    fn open_sized(
        path: &Path,
        name: String,
        options: &OpenOptions,
        sizing: Sizing,
        part: &Range<u64>,
    ) -> Result<Self> {
        if options.read_only && !matches!(sizing, Sizing::Keep) {
            return Err(Error::ReadOnly { device: name });
        }
        let create = matches!(sizing, Sizing::Empty(_));
        let is_block = match std::fs::metadata(path) {
            Ok(metadata) if metadata.file_type().is_block_device() => true,
            Ok(metadata) if metadata.is_file() => false,
            Ok(_) => {
                let reason = "neither a regular file nor a block device".to_owned();
                return Err(Error::Unusable { device: name, reason });
            }
            Err(e) if create && e.kind() == std::io::ErrorKind::NotFound => false,
            Err(e) => return Err(Error::io(&name, "opening", e)),
        };
        if is_block && !options.read_only && is_write_protected(path) {
            return Err(Error::io(&name, "opening for writing", Errno::ROFS.into()));
        }
        let direct = match options.caching {
            Caching::Auto => is_block,
            Caching::Buffered => false,
            Caching::Direct => true,
        };
        let mut flags = if direct { system::DIRECT } else { 0 };
        if is_block && options.lock && !options.read_only && options.claim != Claim::Elsewhere {
            flags |= system::EXCLUSIVE;
        }
        let action = if options.read_only { "opening" } else { "opening for writing" };
        let open = |flags| {
            std::fs::OpenOptions::new()
                .read(true)
                .write(!options.read_only)
                .create(create && !is_block)
                .truncate(false)
                .custom_flags(flags)
                .open(path)
                .map_err(|e| match Errno::from_io_error(&e) {
                    Some(Errno::BUSY) => {
                        Error::Busy { device: name.clone(), reason: reason_of_claim(path, part) }
                    }
                    Some(Errno::INVAL) if direct => Error::Unusable {
                        device: name.clone(),
                        reason: "its file system does not support direct transfers; open it buffered".into(),
                    },
                    _ => Error::io(&name, action, e),
                })
        };
        let mut file = open(flags)?;
        if options.claim == Claim::Checked && flags & system::EXCLUSIVE != 0 {
            drop(file);
            file = open(flags & !system::EXCLUSIVE)?;
        }
        let mut below = None;
        if options.lock {
            lock(&file, &name, part, options.read_only)?;
            if is_block {
                below = looped::lock_below(path, part, options.read_only)?;
            } else if !options.read_only {
                let found = file.metadata().map_err(|e| Error::io(&name, "looking at it", e))?;
                looped::check_unused(&found, &name)?;
            }
        }
        if let Sizing::Set(size) | Sizing::Empty(size) = sizing
            && !is_block
        {
            resize(&file, size, create)
                .map_err(|e| Error::io(&name, format!("resizing to {size} bytes"), e))?;
        }
        let size = file.seek(SeekFrom::End(0)).map_err(|e| Error::io(&name, "finding its size", e))?;
        if let Sizing::Set(wanted) | Sizing::Empty(wanted) = sizing
            && size < wanted
        {
            let reason = format!("has only {size} bytes instead of {wanted}");
            return Err(Error::Unusable { device: name, reason });
        }
        let sector_bytes = system::sector_bytes(&file, is_block, direct)
            .map_err(|e| Error::io(&name, "finding its sector size", e))?;
        if !sector_bytes.is_power_of_two() || sector_bytes < 512 || sector_bytes as usize > AlignedBuf::ALIGN
        {
            let reason = format!("sectors of {sector_bytes} bytes are not supported");
            return Err(Error::Unusable { device: name, reason });
        }
        let info = Info {
            name,
            size_bytes: size - size % u64::from(sector_bytes),
            sector_bytes,
            read_only: options.read_only,
        };
        log::debug!("opened {info:?}, direct: {direct}");
        Ok(Self {
            backing: Arc::new(Backing::new(file, below, info)),
            engine: OnceLock::new(),
            engine_option: options.engine,
            direct,
        })
    }

    fn engine(&self) -> &ActiveEngine {
        self.engine.get_or_init(|| {
            let name = &self.backing.info.name;
            #[cfg(target_os = "linux")]
            if self.engine_option == Engine::Auto {
                match Ring::start(Arc::clone(&self.backing)) {
                    Ok(ring) => {
                        log::debug!("{name}: asynchronous transfers through io_uring");
                        return ActiveEngine::Ring(Box::new(ring));
                    }
                    Err(e) => log::debug!("{name}: no io_uring: {e}"),
                }
            }
            log::debug!("{name}: asynchronous transfers by threads");
            match Workers::start(Arc::clone(&self.backing)) {
                Ok(workers) => ActiveEngine::Workers(workers),
                Err(e) => ActiveEngine::Failed(e),
            }
        })
    }
}

fn name_of(path: &Path) -> String {
    path.display().to_string()
}

fn resize(file: &File, size: u64, empty: bool) -> std::io::Result<()> {
    if empty {
        file.set_len(0)?;
    }
    file.set_len(size)?;
    file.sync_all()
}

impl Device for FileDevice {
    fn info(&self) -> &Info {
        &self.backing.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        self.backing.check(request.op, request.offset, request.buf.len())?;
        match self.engine() {
            #[cfg(target_os = "linux")]
            ActiveEngine::Ring(ring) => ring.submit(request).map(Ticket::new),
            ActiveEngine::Workers(workers) => Ok(Ticket::new(workers.submit(request))),
            ActiveEngine::Failed(e) => Err(e.clone()),
        }
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        match self.engine() {
            #[cfg(target_os = "linux")]
            ActiveEngine::Ring(ring) => ring.wait(ticket.id()),
            ActiveEngine::Workers(workers) => workers.wait(ticket.id()),
            ActiveEngine::Failed(e) => Err(e.clone()),
        }
    }

    fn flush(&self) -> Result<()> {
        if self.backing.info.read_only { Ok(()) } else { self.backing.flush() }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.backing.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        let discarded = match system::discard(&self.backing.file, offset, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => {
                Err(std::io::ErrorKind::Unsupported.into())
            }
            other => other.map_err(std::io::Error::from),
        };
        let action = || format!("discarding {len} bytes at {offset}");
        discarded.map_err(|error| Error::io(&self.backing.info.name, action(), error))
    }

    fn next_data(&self, offset: u64) -> u64 {
        match system::next_data(&self.backing.file, offset) {
            Ok(at) => at,
            Err(Errno::NXIO) => offset.max(self.backing.info.size_bytes),
            // Of a block device, or on a file system without holes, nothing is known.
            Err(_) => offset,
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.backing.check(Op::Read, offset, buf.len())?;
        if self.direct && !is_aligned(buf) {
            let mut aligned = AlignedBuf::zeroed(buf.len());
            self.backing.read(offset, &mut aligned)?;
            buf.copy_from_slice(&aligned);
            return Ok(());
        }
        self.backing.read(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.backing.check(Op::Write, offset, buf.len())?;
        if self.direct && !is_aligned(buf) {
            return self.backing.write(offset, &AlignedBuf::from(buf));
        }
        self.backing.write(offset, buf)?;
        if !self.direct && buf.len() >= LARGE_WRITE_BYTES {
            system::start_writeback(&self.backing.file, offset, buf.len());
        }
        Ok(())
    }
}

/// Minimum size in bytes of a buffered write that starts writeback at once, so that a later flush
/// does not find the disk idle and all data unwritten.
const LARGE_WRITE_BYTES: usize = 256 << 10;

/// Returns true if direct transfers accept this memory.
fn is_aligned(buf: &[u8]) -> bool {
    buf.as_ptr().addr().is_multiple_of(AlignedBuf::ALIGN)
}

#[cfg(target_os = "linux")]
mod system {
    //! Calls that only Linux has.

    use rustix::fs::{AtFlags, FallocateFlags, FileType, OFlags, StatxFlags};
    use rustix::io::Errno;
    use std::fs::File;

    /// Open flag for direct transfers.
    pub const DIRECT: i32 = OFlags::DIRECT.bits().cast_signed();
    /// Open flag that prevents the system from mounting a block device meanwhile.
    pub const EXCLUSIVE: i32 = OFlags::EXCL.bits().cast_signed();

    /// Returns the smallest unit of transfers: the logical sector of a block device, the
    /// requirement of direct transfers for a file, or 512.
    pub fn sector_bytes(file: &File, is_block: bool, direct: bool) -> std::io::Result<u32> {
        if is_block {
            return Ok(rustix::fs::ioctl_blksszget(file)?);
        }
        if !direct {
            return Ok(512);
        }
        let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
        Ok(match stat.stx_dio_offset_align {
            0 => stat.stx_blksize.min(4096),
            align => align.max(512),
        })
    }

    /// Starts writing a range of the page cache to the disk, without waiting. This is a hint; a
    /// flush does or reports what it could not do.
    #[allow(unsafe_code)] // There is no safe wrapper of this call.
    pub fn start_writeback(file: &File, offset: u64, len: usize) {
        use std::os::fd::AsRawFd;
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
        // SAFETY: the call takes numbers only, and the descriptor is open.
        unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    /// Returns the first byte of data at or behind `offset`.
    pub fn next_data(file: &File, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset))
    }

    /// Frees the space of a range.
    pub fn discard(file: &File, offset: u64, len: u64) -> Result<(), Errno> {
        if FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode) == FileType::RegularFile {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return rustix::fs::fallocate(file, flags, offset, len);
        }
        discard_sectors(file, [offset, len])
    }

    #[allow(unsafe_code)] // There is no other call for this.
    fn discard_sectors(file: &File, range: [u64; 2]) -> Result<(), Errno> {
        use rustix::ioctl::{Setter, ioctl, opcode};
        // `BLKDISCARD` is declared without a size although it takes a pair of 64-bit numbers.
        const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);
        // SAFETY: the call reads one pair of 64-bit numbers and changes no memory.
        unsafe { ioctl(file, Setter::<BLKDISCARD, [u64; 2]>::new(range)) }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! Systems without these calls: sectors of 512 bytes, no direct transfers, no discarding.

    use rustix::io::Errno;
    use std::fs::File;

    /// No such flag.
    pub const DIRECT: i32 = 0;
    /// No such flag.
    pub const EXCLUSIVE: i32 = 0;

    /// Returns 512.
    pub fn sector_bytes(_: &File, _: bool, _: bool) -> std::io::Result<u32> {
        Ok(512)
    }

    /// Does nothing; the system writes back by itself.
    pub const fn start_writeback(_: &File, _: u64, _: usize) {}

    /// Fails: not supported.
    pub fn next_data(_: &File, _: u64) -> Result<u64, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Fails: not supported.
    pub fn discard(_: &File, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::OPNOTSUPP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a closed device has no lock, even if a copy of its descriptor exists, as in a
    /// process that another thread is starting.
    #[test]
    fn the_lock_ends_with_the_device() {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(4096).unwrap();
        let device = FileDevice::open(image.path(), &OpenOptions::read_write()).unwrap();
        let copy = device.backing.file.try_clone().unwrap();
        assert!(matches!(
            FileDevice::open(image.path(), &OpenOptions::read_write()),
            Err(Error::Busy { .. })
        ));
        drop(device);
        FileDevice::open(image.path(), &OpenOptions::read_write()).unwrap();
        drop(copy);
    }
}
