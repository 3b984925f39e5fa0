//! The types of the interface.

use crate::{AclKind, Caller};
use spindle_clock::Timestamp;

/// Inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

/// Kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Block device node.
    BlockDevice,
    /// Character device node.
    CharDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
}

impl FileKind {
    /// Returns the `S_IFMT` bits of `st_mode`.
    #[must_use]
    pub const fn mode_bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// Returns the kind for the `S_IFMT` bits of `mode`.
    #[must_use]
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }
}

/// Device number of a device node, independent of any encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rdev {
    /// Driver number (major).
    pub major: u32,
    /// Unit number (minor).
    pub minor: u32,
}

/// Attributes, as `stat` returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Generation; number and generation together are unique for the life of the file system.
    pub generation: u64,
    /// Kind.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits (`0o7777`).
    pub perm: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of device nodes.
    pub rdev: Rdev,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks512: u64,
    /// Preferred transfer size in bytes.
    pub blksize: u32,
    /// Time of the last read.
    pub atime: Timestamp,
    /// Time of the last change of the data.
    pub mtime: Timestamp,
    /// Time of the last change of the inode.
    pub ctime: Timestamp,
    /// Time of creation, if the format stores it.
    pub birthtime: Option<Timestamp>,
    /// BSD file flags (`UF_*`, `SF_*`).
    pub flags: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present time of the file system's clock.
    Now,
    /// This time.
    At(Timestamp),
}

/// Changes of attributes; `None` leaves an attribute as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits (`0o7777`).
    pub perm: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<SetTime>,
    /// New modification time.
    pub mtime: Option<SetTime>,
    /// New inode change time (importers and the writeback cache); `None` for the clock's time.
    pub ctime: Option<Timestamp>,
    /// New birth time (importers).
    pub birthtime: Option<Timestamp>,
    /// New BSD file flags.
    pub flags: Option<u32>,
}

/// An inode to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode<'a> {
    /// Kind.
    pub kind: FileKind,
    /// Permission bits (`0o7777`), with the umask applied.
    pub perm: u32,
    /// Permission bits that the umask has taken away. A default access control list of the
    /// directory gives them back: it takes the place of the umask.
    pub masked: u32,
    /// Owner.
    pub uid: u32,
    /// Group; the caller has applied set-group-id inheritance.
    pub gid: u32,
    /// Device number, for device nodes.
    pub rdev: Rdev,
    /// Target, for symbolic links.
    pub target: &'a [u8],
}

impl NewNode<'_> {
    /// Returns a node that belongs to root, without a device number or a target.
    #[must_use]
    pub const fn new(kind: FileKind, perm: u32) -> Self {
        Self { kind, perm, masked: 0, uid: 0, gid: 0, rdev: Rdev { major: 0, minor: 0 }, target: b"" }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Inode that it names.
    pub ino: Ino,
    /// Kind of the inode, if the directory stores it.
    pub kind: Option<FileKind>,
    /// Cookie from which reading continues after this entry.
    pub next: u64,
}

/// The caller's right to space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// May not use the free-space reserve, and obeys quotas.
    User,
    /// The same, for a process whose terminal can show warnings.
    Process(Caller),
    /// May use the free-space reserve, and exceed quotas.
    Root,
}

impl Privilege {
    /// Returns true for the superuser.
    #[must_use]
    pub const fn is_root(self) -> bool {
        matches!(self, Self::Root)
    }
}

/// Treatment of an existing new name by a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// Refuse the rename.
    NoReplace,
    /// Exchange the two.
    Exchange,
    /// Replace it, and leave a whiteout of this owner under the old name: a character device with
    /// the number 0, 0, which stands for a removed name in the upper directory of an overlayfs.
    Whiteout {
        /// Owner.
        uid: u32,
        /// Group; the caller has applied set-group-id inheritance.
        gid: u32,
    },
}

impl RenameMode {
    /// Returns the node that takes the old name.
    #[must_use]
    pub const fn whiteout(self) -> Option<NewNode<'static>> {
        match self {
            Self::Whiteout { uid, gid } => {
                Some(NewNode { uid, gid, ..NewNode::new(FileKind::CharDevice, 0) })
            }
            _ => None,
        }
    }
}

/// Target of a search in a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not stored, or the end.
    Hole,
}

/// Operation of `fallocate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Allocate blocks that read as zeros where the range has none.
    Allocate {
        /// Keep the size.
        keep_size: bool,
    },
    /// Zero the range and free its whole blocks; the size stays.
    PunchHole,
    /// Zero the range and keep its blocks.
    ZeroRange {
        /// Keep the size.
        keep_size: bool,
    },
}

/// Treatment of an existing extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    Set,
    /// The attribute must not exist.
    Create,
    /// The attribute must exist.
    Replace,
}

/// Rule for the access time of files that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimePolicy {
    /// Never update it.
    Never,
    /// Update it if it is older than the last change, or older than a day.
    #[default]
    Relative,
    /// Update it always.
    Always,
}

impl AtimePolicy {
    /// Returns true if a read at `now` updates the access time `last` of a file with these change
    /// times.
    #[must_use]
    pub fn is_due(self, last: Timestamp, mtime: Timestamp, ctime: Timestamp, now: Timestamp) -> bool {
        const DAY: i64 = 86_400;
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Relative => last <= mtime || last <= ctime || last.secs.saturating_add(DAY) <= now.secs,
        }
    }
}

/// Space and inodes, as `statfs` returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsStat {
    /// Preferred transfer size in bytes.
    pub bsize: u32,
    /// Unit of the counts in bytes.
    pub frsize: u32,
    /// Total units.
    pub blocks: u64,
    /// Free units.
    pub bfree: u64,
    /// Free units for users other than root, not below 0.
    pub bavail: u64,
    /// Units that stay free for root (`minfree`): `bavail` is `bfree` less these. More than `bfree`
    /// once root has used some of them.
    pub reserve: u64,
    /// Total inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}

impl FsStat {
    /// Returns where the unit that follows the one at the byte `offset` of a file begins.
    #[must_use]
    pub fn next_unit(&self, offset: u64) -> u64 {
        let unit = u64::from(self.frsize.max(512));
        (offset / unit + 1).saturating_mul(unit)
    }
}

/// Limits of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest name in bytes.
    pub name_max: usize,
    /// Longest target of a symbolic link in bytes; 0 if there are no symbolic links.
    pub symlink_max: usize,
    /// Largest number of names of one file.
    pub link_max: u32,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// True if there are extended attributes.
    pub xattrs: bool,
    /// The access control lists that there are, as attributes with Linux's names and in Linux's
    /// form.
    pub acls: AclKind,
    /// Smallest step of a time stamp in nanoseconds.
    pub time_granularity_ns: u32,
    /// Earliest and latest second of a time stamp.
    pub time_range: (i64, i64),
    /// True if the time of creation is stored.
    pub birthtime: bool,
    /// BSD's file flags that are stored; 0 if there are none.
    pub file_flags: u32,
    /// Largest user or group number.
    pub id_max: u32,
    /// The file that has the space of the log, if there is one: a copy of it is of no use.
    pub log: Option<Ino>,
}

/// Bytes of a file that are contiguous on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Offset on the device in bytes.
    pub at: u64,
    /// Length in bytes; the last extent of a file ends where the file does.
    pub len: u64,
}

impl Extent {
    /// Returns the extents of a file of `size` bytes in blocks of `block_bytes`, in the order of
    /// the file, without its holes. For a block of the file and a maximum number of blocks, `bmap`
    /// returns the position on the device of the run that begins there (`None` for a hole) and its
    /// length in blocks.
    ///
    /// # Errors
    /// Those of `bmap`.
    pub fn of_file<E>(
        size: u64,
        block_bytes: u32,
        mut bmap: impl FnMut(u64, u64) -> Result<(Option<u64>, u64), E>,
    ) -> Result<Vec<Self>, E> {
        let block_bytes = u64::from(block_bytes);
        let blocks = size.div_ceil(block_bytes);
        let mut extents: Vec<Self> = Vec::new();
        let mut block = 0;
        while block < blocks {
            let (at, count) = bmap(block, blocks - block)?;
            let offset = block * block_bytes;
            let len = (count * block_bytes).min(size - offset);
            match (at, extents.last_mut()) {
                (None, _) => {}
                (Some(at), Some(last)) if last.offset + last.len == offset && last.at + last.len == at => {
                    last.len += len;
                }
                (Some(at), _) => extents.push(Self { offset, at, len }),
            }
            block += count.max(1);
        }
        Ok(extents)
    }
}
