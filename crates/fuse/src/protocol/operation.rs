//! Decoding of requests.

use super::wire::{FSYNC_DATA, Fields, Malformed, opcode, set};
use spindle_clock::Timestamp;
use spindle_fuse_uring::Pace;
use spindle_vfs::{SetAttr, SetTime};

/// The kernel's number of an inode; the root has 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u64);

impl NodeId {
    pub(crate) const ROOT: Self = Self(1);
}

/// Bytes of a `struct fuse_in_header`.
const REQUEST_HEADER_BYTES: usize = 40;

/// The header of a request: operation, inode and caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(super) opcode: u32,
    pub(super) unique: u64,
    pub(crate) node: NodeId,
    uid: u32,
    gid: u32,
    pid: u32,
}

impl Request {
    /// Decodes a request that is in one piece. Returns its header and its arguments.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, Fields<'_>), Malformed> {
        let mut fields = Fields::new(bytes);
        let (request, arguments) = Self::header(&mut fields)?;
        // Extensions would be at the end.
        let arguments = fields.first.get(..arguments).ok_or(Malformed)?;
        if size(Fields::new(bytes).u32()?)? != bytes.len() {
            return Err(Malformed);
        }
        Ok((request, Fields::new(arguments)))
    }

    /// Decodes a request whose header, structure of the operation and payload are in different
    /// places. The place of the structure has room for any.
    pub(super) fn parse_parts<'a>(
        header: &'a [u8],
        operation: &'a [u8],
        payload: &'a [u8],
    ) -> Result<(Self, Fields<'a>), Malformed> {
        let (request, arguments) = Self::header(&mut Fields::new(header))?;
        // Extensions would be at the end of the payload; none was requested.
        let first = arguments.checked_sub(payload.len()).ok_or(Malformed)?;
        let first = operation.get(..first).ok_or(Malformed)?;
        Ok((request, Fields { first, rest: payload }))
    }

    /// Decodes the header of a request. Returns it and the number of bytes of the arguments.
    fn header(fields: &mut Fields<'_>) -> Result<(Self, usize), Malformed> {
        let len = size(fields.u32()?)?;
        let request = Self {
            opcode: fields.u32()?,
            unique: fields.u64()?,
            node: NodeId(fields.u64()?),
            uid: fields.u32()?,
            gid: fields.u32()?,
            pid: fields.u32()?,
        };
        // In units of 8 bytes.
        let extensions = usize::from(fields.u16()?) * 8;
        fields.u16()?;
        let arguments = len.checked_sub(REQUEST_HEADER_BYTES + extensions).ok_or(Malformed)?;
        Ok((request, arguments))
    }

    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    pub(crate) fn gid(&self) -> u32 {
        self.gid
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }
}

/// An operation with its arguments.
#[derive(Debug, PartialEq)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    GetAttr,
    SetAttr {
        set: SetAttr,
        /// The request is about an open file.
        of_open: bool,
    },
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MkNod {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    MkDir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RmDir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        to: NodeId,
        new: &'a [u8],
        flags: u32,
    },
    /// The node of the request is the directory.
    Link {
        of: NodeId,
        name: &'a [u8],
    },
    Open {
        flags: i32,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
    },
    Write {
        handle: u64,
        offset: u64,
        flags: u32,
        data: &'a [u8],
    },
    StatFs,
    Release {
        handle: u64,
    },
    Fsync {
        handle: u64,
        data_only: bool,
    },
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: i32,
        /// Flags of [`super::wire::setxattr`].
        more_flags: u32,
    },
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    OpenDir,
    ReadDir {
        offset: u64,
        size: u32,
    },
    ReadDirPlus {
        offset: u64,
        size: u32,
    },
    ReleaseDir,
    FsyncDir {
        data_only: bool,
    },
    /// What `access(2)` and `chdir(2)` ask where the kernel does not check permissions.
    Access {
        /// The bits of `access(2)`.
        mask: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: i32,
    },
    /// As `Create`, without a name.
    TmpFile {
        mode: u32,
        umask: u32,
        flags: i32,
    },
    Ioctl {
        /// The number of the call, as `ioctl(2)` gets it.
        command: u32,
        input: &'a [u8],
        /// Bytes that the caller expects.
        output: u32,
    },
    Fallocate {
        offset: u64,
        len: u64,
        mode: i32,
    },
    Seek {
        offset: i64,
        whence: u32,
    },
    SyncFs,
    StatX,
    /// An operation that is not implemented.
    Unknown,
}

fn size(value: u32) -> Result<usize, Malformed> {
    usize::try_from(value).map_err(|_| Malformed)
}

impl<'a> Operation<'a> {
    /// Returns what the answer takes: it can take long if it copies much, or frees, allocates or
    /// writes more than one name, inode or block. Large reads are mostly those of the kernel, which
    /// reads ahead.
    pub(super) fn pace(&self) -> Pace {
        /// A request for this many bytes is short.
        const SHORT_BYTES: u32 = 32 << 10;
        match self {
            Self::Read { size, .. } if *size > SHORT_BYTES => Pace::Ahead,
            Self::ReadDir { size, .. } | Self::ReadDirPlus { size, .. } if *size > SHORT_BYTES => Pace::Long,
            Self::Write { data, .. } if data.len() > SHORT_BYTES as usize => Pace::Long,
            Self::SetAttr { set, .. } if set.size.is_some() => Pace::Long,
            Self::Release { .. }
            | Self::Fsync { .. }
            | Self::FsyncDir { .. }
            | Self::SetXattr { .. }
            | Self::RemoveXattr { .. }
            | Self::Ioctl { .. }
            | Self::Fallocate { .. }
            | Self::Seek { .. }
            | Self::SyncFs => Pace::Long,
            _ => Pace::Short,
        }
    }

    /// Decodes the operation with the opcode `kind` and these arguments. With `setxattr_ext` the
    /// kernel sends the longer form of SETXATTR.
    pub(super) fn parse(kind: u32, arguments: Fields<'a>, setxattr_ext: bool) -> Result<Self, Malformed> {
        let mut f = arguments;
        Ok(match kind {
            opcode::LOOKUP => Self::Lookup { name: f.name()? },
            opcode::GETATTR => Self::GetAttr,
            opcode::SETATTR => {
                let mut head = f;
                let of_open = head.u32()? & set::HANDLE != 0;
                Self::SetAttr { set: set_attr(&mut f)?, of_open }
            }
            opcode::READLINK => Self::ReadLink,
            opcode::SYMLINK => Self::Symlink { name: f.name()?, target: f.name()? },
            opcode::MKNOD => {
                let (mode, rdev, umask) = (f.u32()?, f.u32()?, f.u32()?);
                f.bytes(4)?;
                Self::MkNod { name: f.name()?, mode, umask, rdev }
            }
            opcode::MKDIR => {
                let (mode, umask) = (f.u32()?, f.u32()?);
                Self::MkDir { name: f.name()?, mode, umask }
            }
            opcode::UNLINK => Self::Unlink { name: f.name()? },
            opcode::RMDIR => Self::RmDir { name: f.name()? },
            opcode::RENAME => {
                let to = NodeId(f.u64()?);
                Self::Rename { name: f.name()?, to, new: f.name()?, flags: 0 }
            }
            opcode::RENAME2 => {
                let (to, flags) = (NodeId(f.u64()?), f.u32()?);
                f.bytes(4)?;
                Self::Rename { name: f.name()?, to, new: f.name()?, flags }
            }
            opcode::LINK => Self::Link { of: NodeId(f.u64()?), name: f.name()? },
            opcode::OPEN => Self::Open { flags: f.u32()?.cast_signed() },
            opcode::READ => {
                let (handle, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
                Self::Read { handle, offset, size }
            }
            opcode::WRITE => {
                let (handle, offset) = (f.u64()?, f.u64()?);
                let (len, flags) = (f.u32()?, f.u32()?);
                // The owner of locks, and the flags of `open`.
                f.bytes(16)?;
                Self::Write { handle, offset, flags, data: f.bytes(size(len)?)? }
            }
            opcode::STATFS => Self::StatFs,
            opcode::RELEASE => Self::Release { handle: f.u64()? },
            opcode::FSYNC => {
                let handle = f.u64()?;
                Self::Fsync { handle, data_only: f.u32()? & FSYNC_DATA != 0 }
            }
            opcode::SETXATTR => {
                let (len, flags) = (f.u32()?, f.u32()?.cast_signed());
                let more_flags = if setxattr_ext { f.u32()? } else { 0 };
                f.bytes(if setxattr_ext { 4 } else { 0 })?;
                Self::SetXattr { name: f.name()?, value: f.bytes(size(len)?)?, flags, more_flags }
            }
            opcode::GETXATTR => {
                let size = f.u32()?;
                f.bytes(4)?;
                Self::GetXattr { name: f.name()?, size }
            }
            opcode::LISTXATTR => Self::ListXattr { size: f.u32()? },
            opcode::REMOVEXATTR => Self::RemoveXattr { name: f.name()? },
            opcode::OPENDIR => Self::OpenDir,
            opcode::READDIR | opcode::READDIRPLUS => {
                f.bytes(8)?;
                let (offset, size) = (f.u64()?, f.u32()?);
                let plus = kind == opcode::READDIRPLUS;
                if plus { Self::ReadDirPlus { offset, size } } else { Self::ReadDir { offset, size } }
            }
            opcode::RELEASEDIR => Self::ReleaseDir,
            opcode::FSYNCDIR => {
                f.bytes(8)?;
                Self::FsyncDir { data_only: f.u32()? & FSYNC_DATA != 0 }
            }
            opcode::ACCESS => Self::Access { mask: f.u32()? },
            opcode::CREATE => {
                let (flags, mode, umask) = (f.u32()?.cast_signed(), f.u32()?, f.u32()?);
                f.bytes(4)?;
                Self::Create { name: f.name()?, mode, umask, flags }
            }
            opcode::TMPFILE => {
                // A name follows, which says nothing.
                let (flags, mode, umask) = (f.u32()?.cast_signed(), f.u32()?, f.u32()?);
                Self::TmpFile { mode, umask, flags }
            }
            opcode::IOCTL => {
                // The handle and flags.
                f.bytes(12)?;
                let command = f.u32()?;
                // The address in the caller's memory.
                f.bytes(8)?;
                let (input, output) = (f.u32()?, f.u32()?);
                Self::Ioctl { command, input: f.bytes(size(input)?)?, output }
            }
            opcode::FALLOCATE => {
                f.bytes(8)?;
                let (offset, len) = (f.u64()?, f.u64()?);
                Self::Fallocate { offset, len, mode: f.u32()?.cast_signed() }
            }
            opcode::LSEEK => {
                f.bytes(8)?;
                Self::Seek { offset: f.u64()?.cast_signed(), whence: f.u32()? }
            }
            opcode::SYNCFS => Self::SyncFs,
            opcode::STATX => Self::StatX,
            _ => Self::Unknown,
        })
    }
}

/// Returns the references that FORGET or `BATCH_FORGET` releases; `None` for other requests.
pub(super) fn forgets(
    request: &Request,
    arguments: Fields<'_>,
) -> Result<Option<Vec<(NodeId, u64)>>, Malformed> {
    let mut f = arguments;
    match request.opcode {
        opcode::FORGET => Ok(Some(vec![(request.node, f.u64()?)])),
        opcode::BATCH_FORGET => {
            let count = f.u32()?;
            f.bytes(4)?;
            (0..count).map(|_| Ok((NodeId(f.u64()?), f.u64()?))).collect::<Result<_, _>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// Decodes a `fuse_setattr_in`.
fn set_attr(f: &mut Fields<'_>) -> Result<SetAttr, Malformed> {
    let valid = f.u32()?;
    // Padding, and the handle.
    f.bytes(12)?;
    let size = f.u64()?;
    // The owner of locks.
    f.bytes(8)?;
    let secs = [f.u64()?, f.u64()?, f.u64()?];
    let nanos = [f.u32()?, f.u32()?, f.u32()?];
    let mode = f.u32()?;
    f.bytes(4)?;
    let (uid, gid) = (f.u32()?, f.u32()?);
    let time = |n: usize| Timestamp::new(secs[n].cast_signed(), nanos[n]);
    let given = |bit, now, n| match (valid & bit != 0, valid & now != 0) {
        (_, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(time(n))),
        (false, false) => None,
    };
    Ok(SetAttr {
        perm: (valid & set::MODE != 0).then_some(mode & 0o7777),
        uid: (valid & set::UID != 0).then_some(uid),
        gid: (valid & set::GID != 0).then_some(gid),
        size: (valid & set::SIZE != 0).then_some(size),
        atime: given(set::ATIME, set::ATIME_NOW, 0),
        mtime: given(set::MTIME, set::MTIME_NOW, 1),
        ctime: (valid & set::CTIME != 0).then(|| time(2)),
        birthtime: None,
        flags: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::Builder;

    /// Returns a request in the form of the kernel.
    fn message(opcode: u32, arguments: &[u8]) -> Vec<u8> {
        let len = u32::try_from(40 + arguments.len()).unwrap();
        let head = Builder::default().u32(len).u32(opcode).u64(7).u64(5).u32(1000).u32(100).u32(42).u32(0);
        head.bytes(arguments).0
    }

    /// Promise: a decoded request has the caller, names and data that the kernel sent.
    #[test]
    fn requests_are_decoded() {
        let write = Builder::default().u64(3).u64(4096).u32(4).u32(1).zeros(16).bytes(b"data").0;
        let bytes = message(opcode::WRITE, &write);
        let (request, arguments) = Request::parse(&bytes).unwrap();
        assert_eq!((request.node, request.uid(), request.gid(), request.pid()), (NodeId(5), 1000, 100, 42));
        let operation = Operation::parse(request.opcode, arguments, false);
        assert_eq!(operation, Ok(Operation::Write { handle: 3, offset: 4096, flags: 1, data: b"data" }));
        let rename = Builder::default().u64(9).u32(2).u32(0).bytes(b"old\0new\0").0;
        let expected = Operation::Rename { name: b"old", to: NodeId(9), new: b"new", flags: 2 };
        assert_eq!(Operation::parse(opcode::RENAME2, Fields::new(&rename), false), Ok(expected));
        let early = Builder::default().u32(set::MTIME).zeros(28).u64(0).u64((-2i64).cast_unsigned());
        let mut early = early.u64(0).u32(0).u32(1).zeros(24).0;
        let mtime = Some(SetTime::At(Timestamp::new(-2, 1)));
        for of_open in [false, true] {
            let expected = Operation::SetAttr { set: SetAttr { mtime, ..SetAttr::default() }, of_open };
            assert_eq!(Operation::parse(opcode::SETATTR, Fields::new(&early), false), Ok(expected));
            early[..4].copy_from_slice(&(set::MTIME | set::HANDLE).to_ne_bytes());
        }
        let set = Builder::default().u32(1).u32(0).bytes(b"user.a\0v").0;
        let expected = Operation::SetXattr { name: b"user.a", value: b"v", flags: 0, more_flags: 0 };
        assert_eq!(Operation::parse(opcode::SETXATTR, Fields::new(&set), false), Ok(expected));
        let set = Builder::default().u32(1).u32(0).u32(1).u32(0).bytes(b"user.a\0v").0;
        let expected = Operation::SetXattr { name: b"user.a", value: b"v", flags: 0, more_flags: 1 };
        assert_eq!(Operation::parse(opcode::SETXATTR, Fields::new(&set), true), Ok(expected));
        assert_eq!(Operation::parse(opcode::SYNCFS, Fields::new(&[0; 8]), false), Ok(Operation::SyncFs));
        let ioctl = Builder::default().zeros(12).u32(0x4008_6602).u64(0).u32(4).u32(0).u32(0x40).0;
        let expected = Operation::Ioctl { command: 0x4008_6602, input: &0x40_u32.to_ne_bytes(), output: 0 };
        assert_eq!(Operation::parse(opcode::IOCTL, Fields::new(&ioctl), false), Ok(expected));
        assert_eq!(Operation::parse(9999, Fields::new(&[]), false), Ok(Operation::Unknown));
    }

    /// Promise: a request that is truncated, or states wrong lengths, is reported as malformed
    /// and does not panic.
    #[test]
    fn malformed_requests() {
        let long = Builder::default().zeros(8).u32(u32::MAX).zeros(80).bytes(b"name\0other\0").0;
        for opcode in 0..60 {
            for len in 0..long.len() {
                let bytes = message(opcode, &long[..len]);
                let (request, arguments) = Request::parse(&bytes).unwrap();
                let _ = Operation::parse(opcode, arguments, false);
                let _ = Operation::parse(opcode, arguments, true);
                let _ = forgets(&request, arguments);
                assert!(Request::parse(&bytes[..bytes.len() - 1]).is_err());
            }
        }
        let write = Builder::default().zeros(16).u32(u32::MAX).zeros(20).0;
        assert_eq!(Operation::parse(opcode::WRITE, Fields::new(&write), false), Err(Malformed));
        assert_eq!(Operation::parse(opcode::LOOKUP, Fields::new(b"no end"), false), Err(Malformed));
        let many = Builder::default().u32(u32::MAX).zeros(20).0;
        let bytes = message(opcode::BATCH_FORGET, &many);
        let (request, arguments) = Request::parse(&bytes).unwrap();
        assert_eq!(forgets(&request, arguments), Err(Malformed));
    }

    /// Promise: requests whose parts are in different places are decoded as those in one piece.
    #[test]
    fn parts_of_requests() {
        let write = Builder::default().u64(3).u64(4096).u32(4).u32(1).zeros(16).0;
        let rename = Builder::default().u64(9).u32(2).u32(0).0;
        let attribute = Builder::default().u32(100).u32(0).0;
        let requests: [(u32, &[u8], &[u8]); 5] = [
            (opcode::WRITE, &write, b"data"),
            (opcode::RENAME2, &rename, b"old\0new\0"),
            (opcode::GETXATTR, &attribute, b"user.a\0"),
            (opcode::LOOKUP, b"", b"name\0"),
            (opcode::STATFS, b"", b""),
        ];
        for (opcode, first, payload) in requests {
            let whole = message(opcode, &[first, payload].concat());
            let (request, arguments) = Request::parse(&whole).unwrap();
            let expected = Operation::parse(request.opcode, arguments, false).unwrap();
            let mut place = [0xa5; 128];
            place[..first.len()].copy_from_slice(first);
            let (request, arguments) = Request::parse_parts(&whole[..40], &place, payload).unwrap();
            assert_eq!(request.node, NodeId(5));
            assert_eq!(Operation::parse(request.opcode, arguments, false), Ok(expected));
            assert!(Request::parse_parts(&whole[..40], &place, &[0; 200]).is_err());
            assert!(Request::parse_parts(&whole[..39], &place, payload).is_err());
        }
    }
}
