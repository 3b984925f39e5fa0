//! The values that cross the seam.

use spindle_clock::Timestamp;

/// Inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

/// What an inode is.
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

    /// Returns the kind that the `S_IFMT` bits of `mode` name.
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

/// Device number of a device node, apart from any encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rdev {
    /// Driver.
    pub major: u32,
    /// Unit.
    pub minor: u32,
}

/// What `stat` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Generation: together with the number unique for the life of the file system.
    pub generation: u64,
    /// Kind.
    pub kind: FileKind,
    /// Permission, set-id and sticky bits (`0o7777`).
    pub perm: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of device nodes.
    pub rdev: Rdev,
    /// Size in bytes.
    pub size: u64,
    /// Space held, in units of 512 bytes.
    pub blocks512: u64,
    /// Best transfer size in bytes.
    pub blksize: u32,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the data.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// Birth, where the format has it.
    pub birthtime: Option<Timestamp>,
    /// BSD file flags (`UF_*`, `SF_*`).
    pub flags: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The file system's clock.
    Now,
    /// A given time.
    At(Timestamp),
}

/// The attributes to change; `None` leaves one alone.
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
    /// New inode change time (importers and the writeback cache); otherwise the clock's.
    pub ctime: Option<Timestamp>,
    /// New birth time (importers).
    pub birthtime: Option<Timestamp>,
    /// New BSD file flags.
    pub flags: Option<u32>,
}

/// What to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode<'a> {
    /// Kind.
    pub kind: FileKind,
    /// Permission bits (`0o7777`), umask applied.
    pub perm: u32,
    /// Owner.
    pub uid: u32,
    /// Group, as given: set-group-id inheritance is the caller's business.
    pub gid: u32,
    /// Device number, of device nodes.
    pub rdev: Rdev,
    /// Target, of symbolic links.
    pub target: &'a [u8],
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// What it names.
    pub ino: Ino,
    /// Its kind, where the directory says so.
    pub kind: Option<FileKind>,
    /// Where to go on after this entry.
    pub next: u64,
}

/// Who asks, as far as space is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privilege {
    /// May not use the free-space reserve.
    User,
    /// May use the free-space reserve.
    Root,
}

/// How to rename onto an existing name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameMode {
    /// Replace it.
    Replace,
    /// Refuse.
    NoReplace,
    /// Swap the two.
    Exchange,
}

/// What to look for in a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not, or the end.
    Hole,
}

/// What `fallocate` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Give the range blocks that read as zeros where it has none.
    Allocate {
        /// Leave the size alone.
        keep_size: bool,
    },
    /// Make the range read as zeros and give its whole blocks back; the size stays.
    PunchHole,
    /// Make the range read as zeros, keeping its blocks.
    ZeroRange {
        /// Leave the size alone.
        keep_size: bool,
    },
}

/// How to set an extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Create or replace.
    Set,
    /// It must not exist.
    Create,
    /// It must exist.
    Replace,
}

/// When reading changes the access time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtimePolicy {
    /// Never.
    Never,
    /// When it is older than the last change, or than a day.
    #[default]
    Relative,
    /// Always.
    Always,
}

impl AtimePolicy {
    /// After a read at `now`, whether the access time `last` of a file that was changed at these
    /// times is renewed.
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

/// What `statfs` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsStat {
    /// Best transfer size in bytes.
    pub bsize: u32,
    /// Unit of the counts in bytes.
    pub frsize: u32,
    /// Size in units.
    pub blocks: u64,
    /// Free units.
    pub bfree: u64,
    /// Free units for other than root.
    pub bavail: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}

/// What the format can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest name in bytes.
    pub name_max: usize,
    /// Longest symbolic-link target in bytes; 0 where there are none.
    pub symlink_max: usize,
    /// Most names of one file.
    pub link_max: u32,
    /// Largest file in bytes.
    pub file_size_max: u64,
    /// Has extended attributes.
    pub xattrs: bool,
    /// The smallest step of a time stamp in nanoseconds.
    pub time_granularity_ns: u32,
    /// Earliest and latest second of a time stamp.
    pub time_range: (i64, i64),
    /// Keeps a birth time.
    pub birthtime: bool,
    /// Largest user or group number.
    pub id_max: u32,
}

/// Bytes of a file that lie together on the device: what a file system tells about its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file in bytes.
    pub offset: u64,
    /// Byte on the device.
    pub at: u64,
    /// Length in bytes; the last one of a file ends where the file does.
    pub len: u64,
}

impl Extent {
    /// Returns the extents of a file of `size` bytes in blocks of `block_bytes`, in its order,
    /// without its holes. `bmap` tells where the run that begins with a block of the file is on the
    /// device, if it is no hole, and how many blocks it has, given the most to look at.
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
