//! What a check can find: one variant for each kind of damage, with all that its repair needs.

use serde::Serialize;
use std::fmt;

/// The location of a block pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pointer {
    /// In the inode.
    Inode {
        /// Number of the address.
        index: usize,
    },
    /// In an indirect block.
    Indirect {
        /// The block.
        block: u32,
        /// Number of the pointer.
        index: usize,
    },
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inode { index } => write!(f, "ADDRESS {index}"),
            Self::Indirect { block, index } => write!(f, "POINTER {index} OF INDIRECT BLOCK {block}"),
        }
    }
}

/// A name in a directory, and its location.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The directory.
    pub dir: u16,
    /// Byte offset in the directory.
    pub offset: u64,
    /// The block that contains it.
    pub block: u32,
    /// The name; bytes that are not UTF-8 are replaced.
    pub name: String,
    /// The inode that it names.
    pub ino: u16,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, offset, name, ino, .. } = self;
        write!(f, "I={ino} NAME={} DIR I={dir} OFFSET {offset}", name.escape_debug())
    }
}

/// The damage of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryDamage {
    /// There is no such inode.
    OutOfRange,
    /// The inode is free, or cannot be used.
    Unallocated,
    /// It is empty or holds a slash.
    BadName,
    /// The directory has this name already.
    Duplicate,
    /// The directory that it names has a name already.
    SecondParent,
    /// It closes a cycle of directories that cannot be reached from the root.
    Ring,
}

impl fmt::Display for EntryDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfRange => "I OUT OF RANGE",
            Self::Unallocated => "UNALLOCATED",
            Self::BadName => "IMPOSSIBLE NAME",
            Self::Duplicate => "DUPLICATE NAME",
            Self::SecondParent => "EXTRANEOUS HARD LINK TO DIRECTORY",
            Self::Ring => "DIRECTORIES IN A RING",
        })
    }
}

spindle_tree::findings! {
    /// It was not unmounted cleanly, as far as its format can say.
    NotClean: Setup, Note {} "FILE SYSTEM WAS NOT UNMOUNTED CLEANLY";

    /// The super-block is lost; the sizes are those that inodes and free blocks show.
    LostSuperblock: Setup, Damage {
        /// First block of data.
        s_isize: u32,
        /// Blocks of the file system.
        s_fsize: u32,
    } "SUPERBLOCK LOST; INODES END BEFORE BLOCK {s_isize}, DATA BEFORE BLOCK {s_fsize}";

    /// The sizes in the super-block contradict several inodes.
    WrongSizes: Setup, Damage {
        /// `s_isize` and `s_fsize`.
        found: (u32, u32),
        /// First block of data.
        s_isize: u32,
        /// Blocks of the file system.
        s_fsize: u32,
    } "SIZES {found:?} WRONG IN SUPERBLOCK; INODES END BEFORE BLOCK {s_isize}, DATA BEFORE BLOCK {s_fsize}";

    /// System V's magic number or block size is not that of its format.
    BadMagic: Setup, Harmless {} "BAD MAGIC NUMBER OR TYPE IN SUPERBLOCK";

    /// It could be read in several formats.
    Ambiguous: Setup, Damage {
        /// The format in which it is checked.
        format: String,
        /// The others.
        others: String,
    } "FORMAT {format} IS NOT CERTAIN, IT COULD BE {others}: NAME IT";

    /// The device ends before the file system.
    DeviceTooShort: Setup, Damage {
        /// Bytes of the device.
        bytes: u64,
        /// Bytes of the file system.
        expected: u64,
    } "THE DEVICE HAS {bytes} BYTES, THE FILE SYSTEM {expected}";

    /// The device cannot read a block; it is taken for zeros.
    Unreadable: Setup, Damage {
        /// The block.
        block: u32,
        /// The device's error.
        why: String,
    } "CANNOT READ BLOCK {block}: {why}";

    /// A mode that names no kind of file.
    BadMode: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
        /// `di_mode`.
        mode: u16,
    } "UNKNOWN FILE TYPE I={ino} MODE={mode:o}";

    /// A size that no file of its kind can have, or that of a file that ends in a hole.
    BadSize: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
        /// `di_size`.
        size: u64,
        /// The largest possible, or the end of its last block.
        most: u64,
    } "FILE SIZE ERROR I={ino}: SIZE {size} BEYOND {most}";

    /// A directory that ends within an entry.
    OddDirectory: Inodes, Harmless, at (*ino) {
        /// Inode.
        ino: u16,
        /// `di_size`.
        size: u64,
    } "DIRECTORY SIZE {size} IS NOT A MULTIPLE OF 16 I={ino}";

    /// The size of a directory ends before the names in its blocks.
    ShortDirectory: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
        /// `di_size`.
        size: u64,
        /// The end of the last name.
        expected: u64,
    } "DIRECTORY I={ino} HAS SIZE {size}, BUT ITS BLOCKS HOLD NAMES UP TO {expected}";

    /// A device or a pipe with a size, or a pipe with blocks: on the disk they hold nothing. It may
    /// be a regular file whose mode is damaged, so it becomes one if it has blocks.
    NodeWithContents: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
        /// `di_size`.
        size: u64,
    } "DEVICE OR PIPE WITH CONTENTS I={ino} SIZE={size}";

    /// A symbolic link that is empty, or has zeros in its target.
    BadLink: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
    } "SYMBOLIC LINK WITHOUT A TARGET I={ino}";

    /// A pointer that leads out of the data area.
    BadBlock: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
        /// Where it stands.
        pointer: Pointer,
        /// Where it leads.
        block: u32,
    } "{block} BAD I={ino} ({pointer})";

    /// An indirect block of zeros: it was overwritten, because one is freed with its last pointer.
    /// The blocks behind it are lost if they are freed. A repair makes it a hole.
    EmptyIndirect: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u16,
        /// Where its address stands.
        pointer: Pointer,
        /// The indirect block.
        block: u32,
    } "{block} EMPTY INDIRECT BLOCK I={ino} ({pointer}; save free blocks before a repair, they may be \
       its own)";

    /// A sector of a directory that is zeros: it was overwritten, because a name stays when its
    /// file is removed. A repair makes it free entries.
    LostNames: Names, Damage, at (*dir) {
        /// The directory.
        dir: u16,
        /// Byte in the directory.
        offset: u64,
        /// The block.
        block: u32,
    } "SECTOR OF ZEROS I={dir} OFFSET={offset}: ITS NAMES ARE LOST";

    /// A hole in a directory, which has none until its pointers are overwritten. A repair puts free
    /// entries there, or ends the directory before it.
    DirectoryHole: Names, Damage, at (*dir) {
        /// The directory.
        dir: u16,
        /// The block of the directory.
        lbn: u64,
    } "HOLE I={dir} BLOCK {lbn} OF THE DIRECTORY: ITS NAMES ARE LOST";

    /// A pointer to a block that another pointer has already. A repair copies the block, so that
    /// each of them keeps its bytes.
    DupBlock: Inodes, Damage, at (*ino) {
        /// The later inode.
        ino: u16,
        /// Where it stands.
        pointer: Pointer,
        /// Where it leads.
        block: u32,
        /// The inode that has it first.
        owner: u16,
    } "{block} DUP I={ino} ({pointer}, also I={owner}; a repair copies it)";

    /// Fewer free blocks than blocks to copy for a second claimant. A repair does not change what
    /// it cannot copy.
    NoRoomForCopies: Inodes, Note {
        /// Blocks to copy, at least.
        blocks: u64,
        /// Blocks that no file has.
        free: u32,
    } "{blocks} DUP BLKS TO COPY AND {free} FREE: THE REST STAYS AS IT IS, AND NOTHING OF IT IS LOST; \
       COPY THE FILES TO ANOTHER FILE SYSTEM (spindle export)";

    /// Blocks that the size does not reach.
    BeyondSize: Inodes, Note, at (*ino) {
        /// Inode.
        ino: u16,
        /// How many.
        blocks: u64,
    } "POSSIBLE FILE SIZE ERROR I={ino}: {blocks} BLOCKS BEYOND ITS SIZE";

    /// The root is not a directory.
    NoRoot: Inodes, Damage {} "ROOT INODE IS NOT A DIRECTORY";

    /// A name that must be removed.
    BadEntry: Names, Damage, at (entry.dir) {
        /// The name.
        entry: Entry,
        /// What is wrong with it.
        damage: EntryDamage,
    } "{damage} {entry}";

    /// `.` or `..` leads to the wrong inode.
    BadDots: Names, Damage, at (entry.dir) {
        /// The name.
        entry: Entry,
        /// The inode that it should name.
        expected: u16,
    } "BAD INODE NUMBER: {entry}, SHOULD BE {expected}";

    /// `.` or `..` is missing.
    MissingDots: Names, Damage, at (*dir) {
        /// The directory.
        dir: u16,
        /// The name.
        name: &'static str,
        /// The inode that it should name.
        expected: u16,
    } "MISSING '{name}' I={dir}, SHOULD BE {expected}";

    /// A directory without a name.
    OrphanDirectory: Connectivity, Damage {
        /// Inode.
        ino: u16,
    } "UNREF DIR I={ino}";

    /// A file without a name.
    OrphanFile: Links, Damage {
        /// Inode.
        ino: u16,
        /// `di_nlink`.
        nlink: u16,
        /// `di_size`.
        size: u64,
    } "UNREF FILE I={ino} LINKS={nlink} SIZE={size}";

    /// A file that was removed while it was open, or that never had a name and holds nothing.
    Leftover: Links, Harmless {
        /// Inode.
        ino: u16,
    } "UNREF FILE I={ino} WITHOUT LINKS OR CONTENTS";

    /// A count of names that is wrong.
    LinkCount: Links, Harmless, at (*ino) {
        /// Inode.
        ino: u16,
        /// `di_nlink`.
        nlink: u16,
        /// Names that were found.
        expected: u16,
    } "LINK COUNT I={ino} COUNT {nlink} SHOULD BE {expected}";

    /// The list of free inodes is damaged.
    BadInodeList: FreeList, Harmless {
        /// The damage.
        why: String,
    } "BAD FREE INODE LIST: {why}";

    /// The free list is damaged.
    BadFreeList: FreeList, Harmless {
        /// The damage.
        why: String,
    } "BAD FREE LIST: {why}";

    /// Blocks that are both in the free list and in files.
    FreeInUse: FreeList, Harmless {
        /// How many.
        blocks: u32,
        /// The first.
        first: u32,
    } "{blocks} DUP BLKS IN FREE LIST, THE FIRST {first}";

    /// Blocks that are neither in the free list nor in files.
    Missing: FreeList, Harmless {
        /// How many.
        blocks: u32,
    } "{blocks} BLK(S) MISSING";

    /// The counts in the super-block are wrong. (The Seventh Edition does not keep them.)
    WrongTotals: FreeList, Note {
        /// `s_tfree` and `s_tinode`.
        found: (u32, u16),
        /// What was counted.
        expected: (u32, u16),
    } "FREE COUNTS {found:?} WRONG IN SUPERBLOCK, SHOULD BE {expected:?}";
}
