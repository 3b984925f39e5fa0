//! File handles of Linux, as its NFS server uses them: `name_to_handle_at(2)` and
//! `open_by_handle_at(2)`. Only root can open them.

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most bytes of a handle (`MAX_HANDLE_SZ`).
const MOST_BYTES: usize = 128;

/// A file handle, with the layout of the kernel's `struct file_handle`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; MOST_BYTES],
}

impl Handle {
    /// Returns the handle of a file, of a symbolic link itself.
    ///
    /// # Errors
    /// Those of `name_to_handle_at(2)`.
    #[allow(unsafe_code)]
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let most = u32::try_from(MOST_BYTES).unwrap_or(0);
        let mut handle = Self { len: most, kind: 0, bytes: [0; MOST_BYTES] };
        let mut mount = 0;
        // SAFETY: the handle has room for as many bytes as it says, behind a header like the
        // kernel's, and the path ends with a NUL.
        let result = unsafe {
            libc::name_to_handle_at(
                CWD.as_raw_fd(),
                path.as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount,
                0,
            )
        };
        if result == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    /// Opens the file for reading in the file system on `mount`; of a file that is neither regular
    /// nor a directory, only its place (`O_PATH`).
    ///
    /// # Errors
    /// Those of `open_by_handle_at(2)`: ESTALE if there is no such file any more.
    pub fn open(&self, mount: &Path) -> io::Result<File> {
        let place = self.open_with(mount, OFlags::PATH | OFlags::NOFOLLOW)?;
        let kind = File::from(place).metadata()?.file_type();
        let flags = if kind.is_file() || kind.is_dir() { OFlags::RDONLY } else { OFlags::PATH };
        self.open_with(mount, flags | OFlags::NOFOLLOW).map(File::from)
    }

    #[allow(unsafe_code)]
    fn open_with(&self, mount: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let root = rustix::fs::open(mount, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
        let mut handle = self.clone();
        // SAFETY: the handle has as many bytes as it says, behind a header like the kernel's; the
        // kernel only reads it. The descriptor that it returns belongs to nobody else.
        unsafe {
            match libc::open_by_handle_at(root.as_raw_fd(), (&raw mut handle).cast(), flags) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(OwnedFd::from_raw_fd(fd)),
            }
        }
    }

    /// Returns this handle with other bytes at an offset, as a hostile client makes one.
    #[must_use]
    pub fn forged(&self, at: usize, bytes: &[u8]) -> Self {
        let mut forged = self.clone();
        forged.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        forged
    }

    /// Returns the target of the symbolic link that was opened with [`Self::open`].
    ///
    /// # Errors
    /// Those of `readlinkat(2)`.
    pub fn target(link: &File) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(link, "", Vec::new())?.into_bytes())
    }
}

/// Makes the kernel forget the files on `mount`: writes back what it keeps of them, and empties its
/// caches of names and inodes, those of other file systems as well.
///
/// # Errors
/// Without the rights of root.
pub fn drop_caches(mount: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(mount)?)?;
    std::fs::write("/proc/sys/vm/drop_caches", "2")
}

/// Returns the kernel's number of the file's inode, to see whether it is in use again.
///
/// # Errors
/// If there is no such file.
pub fn number(path: &Path) -> io::Result<u64> {
    Ok(rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?.st_ino)
}
