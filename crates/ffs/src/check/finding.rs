//! The findings of a check: one variant for each kind of damage, with the data that a repair needs.
//!
//! A finding says where (inode, fragment, group, byte of a directory) and what stands there against
//! what should. It is made by the phase named beside it and never changed. The text follows the
//! messages that users know from fsck of the BSDs.

use super::terms::{BadAddress, BlockPlace, Counts, Entry, RootProblem};
use crate::format::entries::EntryDamage;

spindle_tree::findings! {
    /// The superblock at its standard place cannot be used; a replica is.
    SuperblockUnusable: Setup, Damage {
        /// The reason why it cannot be used.
        why: String,
        /// Byte of the replica that was used.
        replica: u64,
    } "BAD SUPER BLOCK: {why}; USING ALTERNATE SUPERBLOCK AT BYTE {replica}";

    /// A field of the superblock that contradicts the others or is out of its range.
    SuperblockField: Setup, Damage {
        /// Its name.
        field: &'static str,
        /// The value found.
        found: i64,
        /// The possible values.
        expected: String,
    } "IMPOSSIBLE {field}={found} IN SUPERBLOCK, SHOULD BE {expected}";

    /// A number in the list of snapshots that is not the inode of one.
    FalseSnapshot: Setup, Harmless {
        /// The number.
        ino: u32,
    } "SUPERBLOCK LISTS I={ino} AS A SNAPSHOT, WHICH IT IS NOT";

    /// No label in front of the superblock of a volume of Apple, which is known by nothing else.
    LabelMissing: Setup, Harmless {
    } "NO LABEL IN FRONT OF THE SUPERBLOCK";

    /// No superblock where a group's replica should be.
    ReplicaMissing: Setup, Damage {
        /// Group.
        cgx: u32,
        /// Byte on the device.
        byte: u64,
    } "CG {cgx}: NO ALTERNATE SUPERBLOCK AT BYTE {byte}";

    /// A replica disagrees with the superblock in a field that never changes.
    ReplicaDiffers: Setup, Damage {
        /// Group.
        cgx: u32,
        /// Byte on the device.
        byte: u64,
        /// Name of the field.
        field: &'static str,
        /// The value in the replica.
        found: i64,
        /// The value in the superblock.
        expected: i64,
    } "CG {cgx}: VALUES IN SUPER BLOCK DISAGREE WITH THOSE IN ALTERNATE AT BYTE {byte}: {field} IS {found}, NOT {expected}";

    /// The check-hash of a replica is wrong.
    ReplicaCheckHash: Setup, Damage {
        /// Group.
        cgx: u32,
        /// Byte on the device.
        byte: u64,
        /// The hash recorded.
        found: u32,
        /// The hash of its bytes.
        expected: u32,
    } "CG {cgx}: ALTERNATE SUPERBLOCK AT BYTE {byte}: BAD CHECK-HASH {found:#x} vs {expected:#x}";

    /// The recovery record in front of the superblock disagrees with it.
    RecoveryRecord: Setup, Damage {
        /// Name of the field.
        field: &'static str,
        /// The value in the record.
        found: i64,
        /// The value in the superblock.
        expected: i64,
    } "RECOVERY RECORD DISAGREES WITH SUPERBLOCK: {field} IS {found}, NOT {expected}";

    /// It was not unmounted cleanly, or asks for a check.
    NotClean: Setup, Note {
        /// The clean flag.
        fs_clean: i8,
        /// `fs_flags` of the dialect.
        flags: u32,
    } "FILE SYSTEM NOT MARKED CLEAN (fs_clean {fs_clean}, flags {flags:#x})";

    /// Blocks and inodes were still being freed when it was last written.
    Pending: Setup, Note {
        /// `fs_pendingblocks`.
        blocks: i64,
        /// `fs_pendinginodes`.
        inodes: u32,
    } "{blocks} BLOCKS AND {inodes} INODES WERE STILL BEING FREED";

    /// The device cannot read something; it is taken for zeros.
    Unreadable: Setup, Damage {
        /// First byte.
        byte: u64,
        /// Bytes.
        bytes: u64,
        /// The device's error.
        why: String,
    } "CANNOT READ {bytes} BYTES AT {byte}: {why}";

    /// A free inode that still has a size, pointers or permission bits.
    PartialInode: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
    } "PARTIALLY ALLOCATED INODE I={ino}";

    /// A mode that is no kind of file.
    BadMode: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_mode`.
        mode: u16,
    } "UNKNOWN FILE TYPE I={ino} MODE={mode:o}";

    /// A size that no file of its kind can have.
    BadSize: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_size`.
        size: u64,
        /// The largest possible.
        most: u64,
    } "UNKNOWN FILE TYPE I={ino}: SIZE {size} BEYOND {most}";

    /// A device, pipe or socket with a size.
    SpecialFileSize: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_size`.
        size: u64,
    } "UNKNOWN FILE TYPE I={ino}: SPECIAL FILE WITH SIZE {size}";

    /// A device file that names no device.
    NoDevice: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
    } "UNKNOWN FILE TYPE I={ino}: NO DEVICE";

    /// The flag of a snapshot on what can be none, which no system lets anybody clear or write.
    SnapshotFlag: Inodes, Harmless, at (*ino) {
        /// Inode.
        ino: u32,
    } "I={ino} IS MARKED AS A SNAPSHOT, WHICH IT IS NOT";

    /// A snapshot that may show something else than the file system as it was.
    DamagedSnapshot: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// The reason why it cannot be believed.
        why: &'static str,
    } "SNAPSHOT I={ino} CANNOT BE BELIEVED: {why}";

    /// A pointer in the inode that the size does not reach.
    StrayPointer: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Number of the pointer: direct ones first, then indirect ones.
        index: u32,
        /// The pointer.
        pointer: u64,
    } "UNKNOWN FILE TYPE I={ino}: POINTER {index} IS {pointer} BEYOND ITS SIZE";

    /// Pointers in an indirect block that the size does not reach.
    PartlyTruncated: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// The indirect block.
        frag: u64,
        /// First such pointer.
        index: u32,
        /// Number of such pointers.
        pointers: u32,
    } "PARTIALLY TRUNCATED INODE I={ino}: {pointers} POINTERS FROM {index} IN INDIRECT BLOCK {frag}";

    /// A pointer to where no file's data can be.
    BadBlock: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Where in the file.
        place: BlockPlace,
        /// Where it points.
        frag: u64,
        /// Fragments it claims there.
        frags: u32,
        /// The reason.
        why: BadAddress,
    } "{frag} BAD I={ino} ({place}: {frags} fragments {why})";

    /// More bad pointers in one inode than are listed; the rest of it was not looked at.
    ExcessiveBadBlocks: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
    } "EXCESSIVE BAD BLKS I={ino}";

    /// Fragments that another inode, or this one elsewhere, holds already.
    DuplicateBlock: Inodes, Damage, at (*ino) {
        /// The later inode.
        ino: u32,
        /// First fragment held twice.
        frag: u64,
        /// Fragments held twice.
        frags: u32,
        /// The inode that holds them too.
        owner: u32,
    } "{frag} DUP I={ino} ({frags} fragments, also I={owner})";

    /// More duplicates in one inode than are listed; the rest of it was not looked at.
    ExcessiveDuplicateBlocks: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
    } "EXCESSIVE DUP BLKS I={ino}";

    /// `di_blocks` is not the space that the inode holds.
    BlockCount: Inodes, Harmless, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_blocks`.
        found: u64,
        /// Units of 512 bytes that it holds.
        expected: u64,
    } "INCORRECT BLOCK COUNT I={ino} ({found} should be {expected})";

    /// The size of a directory ends before its blocks do, which hold more chunks of names.
    DirectoryShort: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_size`.
        size: u64,
        /// The size that its blocks have.
        expected: u64,
    } "DIRECTORY I={ino} HAS SIZE {size}, BUT ITS BLOCKS HOLD NAMES UP TO {expected}";

    /// A file with holes has fewer blocks than `di_blocks` counts: an indirect block may have been
    /// overwritten with zeros, and its blocks are lost if they are freed.
    BlocksMissing: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_blocks`.
        found: u64,
        /// Units of 512 bytes that it holds.
        expected: u64,
    } "BLOCKS MISSING I={ino} ({found} counted, {expected} found, and the file has holes; save free \
       blocks before a repair, they may be its own)";

    /// The last block of a file is a hole, which the format does not allow.
    EndsInHole: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_size`.
        size: u64,
        /// Bytes to the end of the last block there is.
        allocated: u64,
    } "INODE I={ino} HAS SIZE {size} BEYOND THE END OF ITS ALLOCATED FILE, SHOULD BE {allocated}";

    /// The check-hash of an inode is wrong.
    InodeCheckHash: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// The hash recorded.
        found: u32,
        /// The hash of its bytes.
        expected: u32,
    } "INODE CHECK-HASH FAILED I={ino} ({found:#x} vs {expected:#x})";

    /// More extended attributes than an inode can have.
    ExtattrSize: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_extsize`.
        size: u32,
        /// The largest possible.
        most: u32,
    } "EXTENDED ATTRIBUTES OF I={ino} HAVE SIZE {size} BEYOND {most}";

    /// A block of extended attributes that their size does not reach.
    ExtattrStray: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Number of the pointer.
        index: u32,
        /// The pointer.
        pointer: u64,
    } "EXTENDED ATTRIBUTES OF I={ino}: POINTER {index} IS {pointer} BEYOND THEIR SIZE";

    /// An extended attribute in a name space that nobody knows, so that nobody sees it.
    ExtattrNamespace: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Byte offset of the attribute.
        offset: u32,
        /// The name space.
        namespace: u8,
    } "EXTENDED ATTRIBUTE I={ino} AT BYTE {offset}: UNKNOWN NAME SPACE {namespace}";

    /// A symbolic link in its inode whose target has a NUL in it.
    LinkHasNul: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Byte offset of the first one.
        offset: u32,
        /// `di_size`.
        size: u64,
    } "SYMBOLIC LINK I={ino} OF {size} BYTES HAS A NUL AT BYTE {offset}";

    /// A symbolic link with a NUL in the block of its target.
    LinkBlockHasNul: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Byte offset of the first one.
        offset: u32,
        /// `di_size`.
        size: u64,
    } "SYMBOLIC LINK I={ino} OF {size} BYTES HAS A NUL AT BYTE {offset} OF ITS BLOCK";

    /// The check-hash of a free inode is wrong, for which no system looks.
    FreeInodeCheckHash: Inodes, Note {
        /// Inode.
        ino: u32,
        /// The hash recorded.
        found: u32,
        /// The hash of its bytes.
        expected: u32,
    } "FREE INODE I={ino} HAS CHECK-HASH {found:#x}, NOT {expected:#x}";

    /// An extended attribute whose lengths contradict each other.
    ExtattrCorrupt: Inodes, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// Byte offset of the attribute.
        offset: u32,
    } "CORRUPTED EXTENDED ATTRIBUTE I={ino} AT BYTE {offset}";

    /// The root cannot be used.
    Root: Names, Damage {
        /// Why.
        problem: RootProblem,
    } "ROOT INODE {problem}";

    /// A directory without room for "." and "..".
    DirectoryTooShort: Names, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_size`.
        size: u64,
    } "DIRECTORY TOO SHORT I={ino} SIZE={size}";

    /// A directory that does not end with a chunk.
    DirectorySize: Names, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// `di_size`.
        size: u64,
        /// Bytes of a chunk.
        dirblksiz: u32,
    } "DIRECTORY I={ino}: LENGTH {size} NOT MULTIPLE OF {dirblksiz}";

    /// Blocks missing in a directory.
    DirectoryHole: Names, Damage, at (*ino) {
        /// Inode.
        ino: u32,
        /// First missing block.
        lbn: u64,
        /// Missing blocks.
        blocks: u64,
    } "DIRECTORY I={ino}: CONTAINS EMPTY BLOCKS ({blocks} FROM {lbn})";

    /// An entry whose structure is broken; the rest of its chunk cannot be read.
    DirectoryCorrupt: Names, Damage, at (*ino) {
        /// Inode of the directory.
        ino: u32,
        /// Byte offset of the entry in the directory.
        offset: u64,
        /// Bytes to the end of the chunk.
        bytes: u32,
        /// The problem.
        why: EntryDamage,
    } "DIRECTORY CORRUPTED I={ino} AT BYTE {offset}: {why}, {bytes} BYTES UNREADABLE";

    /// "." names something else.
    BadDot: Names, Damage, at (*ino) {
        /// The directory.
        ino: u32,
        /// The inode that it names.
        found: u32,
    } "BAD INODE NUMBER FOR '.' I={ino} (IS {found})";

    /// No "." at the start of a directory.
    MissingDot: Names, Damage, at (*ino) {
        /// The directory.
        ino: u32,
    } "MISSING '.' I={ino}";

    /// ".." names something other than the parent.
    BadDotdot: Names, Damage, at (*ino) {
        /// The directory.
        ino: u32,
        /// The inode that it names.
        found: u32,
        /// The parent.
        parent: u32,
    } "BAD INODE NUMBER FOR '..' I={ino} (IS {found}, SHOULD BE {parent})";

    /// No ".." as the second entry of a directory.
    MissingDotdot: Names, Damage, at (*ino) {
        /// The directory.
        ino: u32,
        /// The parent, 0 if nothing names this directory.
        parent: u32,
    } "MISSING '..' I={ino} (SHOULD BE {parent})";

    /// "." or ".." at another place.
    ExtraDot: Names, Damage, at (entry.dir) {
        /// The entry.
        entry: Entry,
    } "EXTRA '.' OR '..' ENTRY {entry}";

    /// An inode number beyond the last.
    EntryOutOfRange: Names, Damage, at (entry.dir) {
        /// The entry.
        entry: Entry,
    } "I OUT OF RANGE {entry}";

    /// The name of a free inode.
    EntryUnallocated: Names, Damage, at (entry.dir) {
        /// The entry.
        entry: Entry,
    } "UNALLOCATED {entry}";

    /// The name of an inode that must be cleared.
    EntryDamaged: Names, Damage, at (entry.dir) {
        /// The entry.
        entry: Entry,
    } "DUP/BAD {entry}";

    /// `d_type` is not the kind of the inode.
    EntryType: Names, Damage, at (entry.dir) {
        /// The entry.
        entry: Entry,
        /// `d_type`.
        found: u8,
        /// The kind of the inode.
        expected: u8,
    } "BAD TYPE VALUE {entry} ({found} should be {expected})";

    /// A whiteout that names an inode, or the whiteout's inode with another kind.
    BadWhiteout: Names, Damage, at (entry.dir) {
        /// The entry.
        entry: Entry,
    } "BAD WHITEOUT ENTRY {entry}";

    /// A name that stands in the directory already.
    DuplicateName: Names, Damage, at (entry.dir) {
        /// The later entry.
        entry: Entry,
    } "DUPLICATE NAME {entry}";

    /// A directory with a second name.
    ExtraParent: Names, Damage, at (entry.dir) {
        /// The name that is too many.
        entry: Entry,
        /// The parent that counts.
        parent: u32,
    } "{entry} IS AN EXTRANEOUS HARD LINK TO DIRECTORY IN I={parent}";

    /// A directory without a name.
    UnreferencedDirectory: Connectivity, Harmless, at (*ino) {
        /// The directory.
        ino: u32,
        /// The inode that its ".." names, 0 for none.
        dotdot: u32,
    } "UNREF DIR I={ino} (PARENT WAS I={dotdot})";

    /// Directories that contain each other and hang from nothing.
    DirectoryLoop: Connectivity, Damage, at (*ino) {
        /// The one with the lowest number.
        ino: u32,
    } "ORPHANED DIRECTORY LOOP DETECTED I={ino}";

    /// FreeBSD's hint how deep a directory is.
    DirectoryDepth: Connectivity, Note, at (*ino) {
        /// The directory.
        ino: u32,
        /// `di_dirdepth`.
        found: u32,
        /// Steps from the root.
        expected: u32,
    } "DIRECTORY I={ino} DEPTH {found} SHOULD BE {expected}";

    /// A file without a name.
    UnreferencedFile: Links, Harmless, at (*ino) {
        /// The inode.
        ino: u32,
        /// `di_nlink`.
        nlink: u16,
    } "UNREF FILE I={ino} COUNT={nlink}";

    /// `di_nlink` is not the number of names.
    LinkCount: Links, Harmless, at (*ino) {
        /// The inode.
        ino: u32,
        /// `di_nlink`.
        found: u16,
        /// Names.
        expected: u32,
    } "LINK COUNT I={ino} COUNT {found} SHOULD BE {expected}";

    /// A group block that cannot be used.
    GroupUnusable: Groups, Damage {
        /// Group.
        cgx: u32,
        /// The problem.
        why: String,
    } "CG {cgx}: BAD CYLINDER GROUP: {why}";

    /// A field of a group block out of its range.
    GroupField: Groups, Damage {
        /// Group.
        cgx: u32,
        /// Its name.
        field: &'static str,
        /// The value found.
        found: i64,
        /// The right value, or its upper bound.
        expected: i64,
    } "CG {cgx}: {field} IS {found}, SHOULD BE {expected}";

    /// The check-hash of a group block is wrong.
    GroupCheckHash: Groups, Damage {
        /// Group.
        cgx: u32,
        /// The hash recorded.
        found: u32,
        /// The hash of its bytes.
        expected: u32,
    } "CG {cgx}: BAD CHECK-HASH {found:#x} vs {expected:#x}";

    /// Fragments in use that the map gives as free.
    FragsMarkedFree: Groups, Harmless {
        /// First fragment.
        frag: u64,
        /// Fragments.
        frags: u32,
    } "BLK(S) MISSING IN BIT MAPS: {frags} ALLOCATED FRAGS FROM {frag} MARKED FREE";

    /// Fragments that nothing holds and the map gives as in use.
    FragsMarkedUsed: Groups, Harmless {
        /// First fragment.
        frag: u64,
        /// Fragments.
        frags: u32,
    } "BLK(S) MISSING IN BIT MAPS: {frags} UNALLOCATED FRAGS FROM {frag} MARKED USED";

    /// Inodes in use that the map gives as free.
    InodesMarkedFree: Groups, Harmless, at (*ino) {
        /// First inode.
        ino: u32,
        /// Inodes.
        inodes: u32,
    } "{inodes} ALLOCATED INODES FROM I={ino} MARKED FREE";

    /// Free inodes that the map gives as in use.
    InodesMarkedUsed: Groups, Harmless {
        /// First inode.
        ino: u32,
        /// Inodes.
        inodes: u32,
    } "{inodes} UNALLOCATED INODES FROM I={ino} MARKED USED";

    /// The counts in a group block.
    GroupCounts: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// The value found.
        found: Counts,
        /// The value counted.
        expected: Counts,
    } "CG {cgx}: SUMMARY INFORMATION BAD ({found}; SHOULD BE {expected})";

    /// A count of free runs of fragments (`cg_frsum`).
    FreeRuns: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// Length of the runs.
        frags: u32,
        /// The value found.
        found: u32,
        /// The value counted.
        expected: u32,
    } "CG {cgx}: {found} FREE RUNS OF {frags} FRAGS, SHOULD BE {expected}";

    /// The map of free blocks.
    ClusterMap: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// First wrong block, from the start of the group.
        block: u32,
        /// Wrong blocks.
        blocks: u32,
    } "CG {cgx}: {blocks} BLOCKS FROM {block} WRONG IN CLUSTER MAP";

    /// A count of free clusters.
    ClusterSum: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// Length of the clusters.
        blocks: u32,
        /// The value found.
        found: u32,
        /// The value counted.
        expected: u32,
    } "CG {cgx}: {found} FREE CLUSTERS OF {blocks} BLOCKS, SHOULD BE {expected}";

    /// The free blocks of a cylinder.
    CylinderBlocks: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// Cylinder in the group.
        cylinder: u32,
        /// The value found.
        found: i32,
        /// The value counted.
        expected: i32,
    } "CG {cgx}: {found} FREE BLOCKS IN CYLINDER {cylinder}, SHOULD BE {expected}";

    /// The free blocks of a cylinder at a rotational position.
    RotationalBlocks: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// Cylinder in the group.
        cylinder: u32,
        /// Rotational position.
        position: u32,
        /// The value found.
        found: i32,
        /// The value counted.
        expected: i32,
    } "CG {cgx}: {found} FREE BLOCKS IN CYLINDER {cylinder} AT POSITION {position}, SHOULD BE {expected}";

    /// The counts of a group in the summary area.
    SummaryCounts: Groups, Harmless {
        /// Group.
        cgx: u32,
        /// The value found.
        found: Counts,
        /// The value counted.
        expected: Counts,
    } "FREE BLK COUNT(S) WRONG IN SUPERBLK: CG {cgx} HAS {found}, SHOULD BE {expected}";

    /// Free space in a map beyond the end of its group, which a system may allocate.
    FreeBeyondEnd: Groups, Damage {
        /// Group.
        cgx: u32,
        /// Which map: `fragments` or `clusters`.
        map: &'static str,
        /// First such bit.
        bit: u32,
    } "CG {cgx}: MAP OF FREE {map}: BIT {bit} IS SET BEYOND THE END OF THE GROUP";

    /// The counts of the whole file system.
    Totals: Groups, Harmless {
        /// The value in the superblock.
        found: Counts,
        /// The value counted.
        expected: Counts,
    } "SUMMARY BLK COUNT(S) WRONG IN SUPERBLK ({found}; SHOULD BE {expected})";

    /// The counts where systems before UFS2 look for them, in a file system whose writer counts
    /// elsewhere.
    OldTotals: Groups, Note {
        /// The values found.
        found: Counts,
        /// The value counted.
        expected: Counts,
    } "SUMMARY BLK COUNT(S) FOR OLDER SYSTEMS ARE OUT OF DATE ({found}; SHOULD BE {expected})";

    /// A quota inside the file system that is on has no file yet.
    QuotaFileMissing: Quotas, Harmless {
        /// Whose quota: `user` or `group`.
        of: &'static str,
    } "NO {of} QUOTA INODE";

    /// The file of a quota inside the file system cannot be believed. Limits may be lost.
    QuotaFile: Quotas, Damage {
        /// Whose quota: `user` or `group`.
        of: &'static str,
        /// The inode that the superblock names.
        ino: u64,
        /// What is wrong.
        why: String,
    } "CORRUPTED {of} QUOTA INODE {ino}: {why}";

    /// What a quota inside the file system says is in use.
    QuotaUsage: Quotas, Harmless {
        /// Whose quota: `user` or `group`.
        of: &'static str,
        /// The user or group.
        id: u32,
        /// Blocks of 512 bytes recorded.
        blocks: u64,
        /// Inodes recorded.
        inodes: u64,
        /// Blocks of 512 bytes counted.
        expected_blocks: u64,
        /// Inodes counted.
        expected_inodes: u64,
    } "{of} QUOTA MISMATCH FOR ID {id}: {blocks}/{inodes} SHOULD BE {expected_blocks}/{expected_inodes}";
}

impl Finding {
    /// Returns what this is one of, in the plural, if it is only a hint that may be out of date in
    /// a sound file system, in many places at once: FreeBSD, when it moves a directory, leaves the
    /// depths of those below it as they are.
    #[must_use]
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::DirectoryDepth { .. } => Some("DIRECTORIES WITH AN OLD DEPTH, WHICH IS ONLY A HINT"),
            Self::FreeInodeCheckHash { .. } => {
                Some("FREE INODES WITH A WRONG CHECK-HASH, FOR WHICH NO SYSTEM LOOKS")
            }
            _ => None,
        }
    }
}
