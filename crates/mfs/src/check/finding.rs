//! What a check can find: one variant for each kind of damage.

spindle_tree::findings! {
    /// The log cannot be read.
    Log: Setup, Damage {
        /// The reason.
        what: String,
    } "LOG: {what}";
    /// The set was not unmounted; the log has been replayed for the check.
    InUse: Setup, Note {} "FILE SYSTEM WAS NOT UNMOUNTED; ITS LOG WAS REPLAYED FOR THIS CHECK";
    /// A mount or a repair has left the set with the mark that it is damaged.
    MarkedDamaged: Setup, Note {} "FILE SYSTEM IS MARKED AS DAMAGED";
    /// A copy of control storage is not what it should be.
    Copies: Setup, Harmless {} "A COPY OF CONTROL STORAGE IS WRONG";
    /// The description of a cylinder is damaged, or names a kind that the cylinder has not.
    Cylinder: Setup, Harmless {
        /// The cylinder.
        cylinder: u64,
        /// The reason.
        what: String,
    } "CYLINDER {cylinder}: {what}";
    /// A header is damaged.
    Header: Inodes, Damage, at (*ino) {
        /// The file.
        ino: u64,
        /// The reason.
        what: String,
    } "I={ino}: {what}";
    /// Data blocks belong to two files.
    Duplicate: Inodes, Damage, at (*ino) {
        /// The second file that claims them.
        ino: u64,
        /// The class of data.
        class: String,
        /// The first of them.
        block: u64,
        /// Their number.
        blocks: u64,
    } "{blocks} DUP BLOCKS FROM {block} OF CLASS {class} ON I={ino}";
    /// An overflow header belongs to no file.
    StrayOverflow: Inodes, Harmless {
        /// The header.
        header: u64,
    } "OVERFLOW HEADER {header} BELONGS TO NO FILE";
    /// The attributes of a file are damaged.
    Attributes: Inodes, Damage, at (*ino) {
        /// The file.
        ino: u64,
        /// The reason.
        what: String,
    } "ATTRIBUTES CORRUPTED I={ino}: {what}";
    /// An attribute header belongs to no file.
    StrayAttributes: Inodes, Harmless {
        /// The header.
        header: u64,
    } "ATTRIBUTE HEADER {header} BELONGS TO NO FILE";
    /// A node of a name map is damaged.
    Node: Names, Damage, at (*dir) {
        /// The directory.
        dir: u64,
        /// The reason.
        what: String,
    } "DIRECTORY CORRUPTED I={dir}: {what}";
    /// A name is wrong.
    Name: Names, Damage, at (*dir) {
        /// The directory.
        dir: u64,
        /// The name; bytes that are not UTF-8 are replaced.
        name: String,
        /// The file that it names.
        ino: u64,
        /// What is wrong.
        what: &'static str,
    } "{what} I={ino} NAME={name} DIR I={dir}";
    /// A directory counts its names or blocks wrongly.
    DirectoryCounts: Names, Harmless, at (*dir) {
        /// The directory.
        dir: u64,
        /// Names counted in it, and found.
        names: (u64, u64),
        /// Blocks counted in it, and found.
        blocks: (u64, u64),
    } "DIRECTORY I={dir} COUNTS {names:?} NAMES AND {blocks:?} BLOCKS";
    /// `..` of a directory does not lead to the directory that names it.
    Parent: Connectivity, Damage, at (*ino) {
        /// The directory.
        ino: u64,
        /// Where `..` leads.
        parent: u64,
        /// The directory that names it.
        expected: u64,
    } "BAD INODE NUMBER {parent} FOR '..' I={ino}, SHOULD BE {expected}";
    /// A directory has no name through which the root leads to it.
    Unconnected: Connectivity, Damage {
        /// The directory.
        ino: u64,
    } "UNREF DIR I={ino}";
    /// A file has no name, and says that it has.
    Unreferenced: Links, Damage {
        /// The file.
        ino: u64,
    } "UNREF FILE I={ino}";
    /// A file was removed while it was open.
    Orphan: Links, Note {
        /// The file.
        ino: u64,
    } "REMOVED FILE I={ino} IS NOT FREED YET";
    /// The number of names is wrong.
    Links: Links, Harmless, at (*ino) {
        /// The file.
        ino: u64,
        /// Names counted in its header.
        counted: u16,
        /// Names found.
        found: u16,
    } "LINK COUNT I={ino} COUNT {counted} SHOULD BE {found}";
    /// The description of a cylinder does not agree with what the cylinder holds.
    CylinderCounts: Groups, Harmless {
        /// The cylinder.
        cylinder: u64,
        /// What does not agree.
        what: String,
    } "CYLINDER {cylinder}: {what}";
    /// The allocation map does not agree with the files.
    Map: Groups, Harmless {
        /// The class of data.
        class: String,
        /// The page.
        page: u64,
        /// What does not agree.
        what: String,
    } "ALLOCATION MAP PAGE {page} OF CLASS {class}: {what}";
    /// A sector of the table of checksums is damaged.
    Sums: Groups, Damage {
        /// The sector.
        sector: u64,
        /// Blocks of files whose checksums it has.
        blocks: u64,
    } "CHECKSUMS OF {blocks} BLOCKS LOST: SECTOR {sector} OF THE TABLE IS DAMAGED";
    /// A block of a file is not what its checksum was made of, in any copy.
    Data: Groups, Damage, at (*ino) {
        /// The file.
        ino: u64,
        /// Where the block begins in it, in bytes.
        offset: u64,
    } "CHECKSUM OF DATA WRONG I={ino} OFFSET={offset}";
}
