//! Encoding and decoding of fields, and the constants of the protocol.

/// The error of a request that is too short or malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The remaining bytes of a request: of the structure of its operation, and what follows, which
/// can be elsewhere. No field is in both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) first: &'a [u8],
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the fields of a request that is in one piece.
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { first: bytes, rest: &[] }
    }

    /// Returns the part that has the next bytes.
    fn part(&mut self) -> &mut &'a [u8] {
        if self.first.is_empty() { &mut self.rest } else { &mut self.first }
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        if len == 0 {
            return Ok(&[]);
        }
        let part = self.part();
        let (bytes, rest) = part.split_at_checked(len).ok_or(Malformed)?;
        *part = rest;
        Ok(bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_ne_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.bytes(4)?.try_into().map(u32::from_ne_bytes).map_err(|_| Malformed)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.bytes(8)?.try_into().map(u64::from_ne_bytes).map_err(|_| Malformed)
    }

    /// Returns the bytes up to a NUL, and skips the NUL.
    pub(super) fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.part().iter().position(|&byte| byte == 0).ok_or(Malformed)?;
        let name = self.bytes(len)?;
        self.bytes(1)?;
        Ok(name)
    }
}

/// The encoded fields of a reply.
#[derive(Debug, Default)]
pub(super) struct Builder(pub(super) Vec<u8>);

impl Builder {
    pub(super) fn u16(mut self, value: u16) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    pub(super) fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn zeros(mut self, len: usize) -> Self {
        self.0.resize(self.0.len() + len, 0);
        self
    }
}

/// Size of a `fuse_out_header` in bytes.
pub(super) const OUT_HEADER_BYTES: usize = 16;
/// Version of the protocol that this module implements: the first with SYNCFS.
pub(super) const VERSION: (u32, u32) = (7, 34);

/// Opcodes of requests, and their names.
pub(super) mod opcode {
    macro_rules! opcodes {
        ($($name:ident = $code:literal),* $(,)?) => {
            $(pub const $name: u32 = $code;)*

            /// Returns the name of a request, as `include/uapi/linux/fuse.h` has it.
            pub const fn name(opcode: u32) -> Option<&'static str> {
                match opcode {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        };
    }

    opcodes! {
        LOOKUP = 1,
        FORGET = 2,
        GETATTR = 3,
        SETATTR = 4,
        READLINK = 5,
        SYMLINK = 6,
        MKNOD = 8,
        MKDIR = 9,
        UNLINK = 10,
        RMDIR = 11,
        RENAME = 12,
        LINK = 13,
        OPEN = 14,
        READ = 15,
        WRITE = 16,
        STATFS = 17,
        RELEASE = 18,
        FSYNC = 20,
        SETXATTR = 21,
        GETXATTR = 22,
        LISTXATTR = 23,
        REMOVEXATTR = 24,
        INIT = 26,
        OPENDIR = 27,
        READDIR = 28,
        RELEASEDIR = 29,
        FSYNCDIR = 30,
        ACCESS = 34,
        CREATE = 35,
        DESTROY = 38,
        IOCTL = 39,
        BATCH_FORGET = 42,
        FALLOCATE = 43,
        READDIRPLUS = 44,
        RENAME2 = 45,
        LSEEK = 46,
        SYNCFS = 50,
        TMPFILE = 51,
        STATX = 52,
    }
}

/// Flags of INIT; `flags2` has the upper half.
pub(crate) mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    /// `flags2` counts.
    pub const INIT_EXT: u64 = 1 << 30;
    pub use spindle_fuse_uring::OVER_IO_URING;
}

/// Flags of SETXATTR, with [`init::SETXATTR_EXT`].
pub(crate) mod setxattr {
    pub const ACL_KILL_SGID: u32 = 1 << 0;
}

/// Flags of the reply to OPEN.
pub(crate) mod open {
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
}

/// Flags of WRITE.
pub(crate) mod write {
    pub const CACHE: u32 = 1 << 0;
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// Bits for the valid fields of SETATTR.
pub(super) mod set {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
}

/// Code of the notice that invalidates an inode.
pub(super) const NOTIFY_INVAL_INODE: i32 = 2;
/// Code of the notice that invalidates a name.
pub(super) const NOTIFY_INVAL_ENTRY: i32 = 3;

/// Flag of FSYNC: `FUSE_FSYNC_FDATASYNC`.
pub(super) const FSYNC_DATA: u32 = 1;
