//! The settings of the cache: how much it may hold, and how it moves file data.

/// How much the cache may hold, and how it moves file data.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Unchanged metadata kept, in bytes.
    pub capacity_bytes: usize,
    /// Changed metadata and file data kept before the next transaction has to flush, in bytes.
    pub dirty_limit_bytes: usize,
    /// When names and inodes reach the device.
    pub naming: Naming,
    /// Append metadata to the log again rather than write it to its place, if the log can do that.
    pub compaction: bool,
    /// How file data moves.
    pub data: DataSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity_bytes: 256 << 20,
            dirty_limit_bytes: 64 << 20,
            naming: Naming::Delayed,
            compaction: true,
            data: DataSettings::default(),
        }
    }
}

/// When the changes of a naming operation (create, link, remove, rename) reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// With the next flush, all changes of an operation together. Within a flush there is no order.
    /// This is most of what the clustering paper expected of `B_ORDER`.
    #[default]
    Delayed,
    /// Before the operation returns, one block after the other, as in the fast file system of 1984.
    Synchronous,
    /// As [`Self::Synchronous`], followed by a barrier. Disks of 1984 had no write cache; on disks
    /// that have one, this gives the same promise. Indirect blocks and other new metadata are
    /// durable before anything points to them ([`crate::Buffer::precede`]).
    Durable,
}

/// How file data moves between a file and its device: the clustering paper's design as settings.
///
/// [`Self::old`] and [`Self::clustered`] are the two sides of its figure 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each is one of the paper's switches; they are independent.
pub struct DataSettings {
    /// Largest transfer in bytes; none for `maxcontig` blocks. One block moves data block by block,
    /// as before clustering.
    pub cluster_bytes: Option<usize>,
    /// Start reading the next cluster while a sequential reader uses this one.
    pub read_ahead: bool,
    /// Keep a whole cluster ahead of a sequential reader, even if its pieces on the device need
    /// several transfers. Otherwise one transfer is ahead, however short (clustering paper, "Read
    /// clustering implementation").
    pub pieces_ahead: bool,
    /// Writes of at least this many bytes go to the device at once, without a copy. This is for
    /// devices that only copy the bytes into the system's memory.
    pub straight_bytes: Option<usize>,
    /// So do writes of whole units of this many bytes, at multiples of it, which do not begin where
    /// the last write of the file ended: nothing would be gathered with them.
    pub straight_random_bytes: Option<usize>,
    /// Leave out writes of zeros, as on a new device that has zeros wherever nothing was written.
    /// This is for trying out what space files take: what they had before may still be read.
    pub zeros_left_out: bool,
    /// A large request is read in one cluster at any offset ("random clustering").
    pub random_clusters: bool,
    /// Evict blocks behind a sequential reader when memory is nearly full.
    pub free_behind: bool,
    /// Most bytes of one file that may be in flight to the device; further writes wait.
    pub write_limit_bytes: Option<usize>,
    /// Delayed data from which on it begins to be written while changes go on, so that a flush,
    /// or a change at the limit, waits for less; at most as much again is in flight.
    pub start_bytes: Option<usize>,
    /// Keep data after it was used. Otherwise only delayed writes, data ahead of a reader and data
    /// in flight are held.
    pub keep: bool,
    /// File data held, in bytes.
    pub capacity_bytes: usize,
    /// Bytes that are evicted beyond what is needed when memory is full, as a page daemon works in
    /// bursts.
    pub reclaim_bytes: usize,
    /// Files of up to this many bytes stay in memory with their inode and do not count towards the
    /// capacity ("data in the inode").
    pub small_file_bytes: usize,
}

impl DataSettings {
    /// Free-behind begins at this offset of a file: a smaller one may be read again.
    pub(crate) const LARGE_OFFSET_BYTES: u64 = 256 << 10;

    /// Largest cluster in bytes. A cluster is also at most a quarter of the capacity.
    pub const CLUSTER_BYTES_MAX: usize = 16 << 20;

    /// Settings under a front-end that has a cache of its own: clusters for reads and writes,
    /// nothing is kept.
    pub const THROUGH: Self = Self {
        cluster_bytes: None,
        read_ahead: true,
        pieces_ahead: false,
        straight_bytes: None,
        straight_random_bytes: None,
        zeros_left_out: false,
        random_clusters: true,
        free_behind: true,
        write_limit_bytes: Some(4 << 20),
        start_bytes: Some(16 << 20),
        keep: false,
        capacity_bytes: 64 << 20,
        reclaim_bytes: 0,
        small_file_bytes: 0,
    };

    /// Returns these settings adapted to an image file. The system caches such files, reads ahead
    /// and writes behind by itself; doing so here as well would only cost copies. Settings that
    /// move data block by block keep doing so.
    #[must_use]
    pub fn on_image_file(self) -> Self {
        const STRAIGHT_BYTES: usize = 64 << 10;
        // The system's pages: of smaller parts it would have to read the rest.
        const PAGE_BYTES: usize = 4096;
        let unless_by_block = |bytes| (self.cluster_bytes != Some(0)).then_some(bytes);
        Self {
            read_ahead: false,
            straight_bytes: unless_by_block(STRAIGHT_BYTES),
            straight_random_bytes: unless_by_block(PAGE_BYTES),
            ..self
        }
    }

    /// Moves data block by block with one block of read-ahead, in `capacity_bytes` of memory: run
    /// D of the clustering paper, and the file systems of 1984 and before.
    #[must_use]
    pub const fn old(block_bytes: usize, capacity_bytes: usize) -> Self {
        Self {
            cluster_bytes: Some(block_bytes),
            read_ahead: true,
            pieces_ahead: false,
            straight_bytes: None,
            straight_random_bytes: None,
            zeros_left_out: false,
            random_clusters: false,
            free_behind: false,
            write_limit_bytes: None,
            start_bytes: None,
            keep: true,
            capacity_bytes,
            reclaim_bytes: 0,
            small_file_bytes: 0,
        }
    }

    /// Clusters, free-behind and the paper's write limit of 240 KB: run A of the clustering paper
    /// with its 120 KB.
    #[must_use]
    pub const fn clustered(cluster_bytes: usize, capacity_bytes: usize) -> Self {
        Self {
            cluster_bytes: Some(cluster_bytes),
            free_behind: true,
            write_limit_bytes: Some(240 << 10),
            ..Self::old(cluster_bytes, capacity_bytes)
        }
    }
}

impl Default for DataSettings {
    fn default() -> Self {
        Self::THROUGH
    }
}
