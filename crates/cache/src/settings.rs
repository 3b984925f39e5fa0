//! What the cache may hold, and how it moves file data.

/// How much the cache may hold, and how it moves file data.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Unchanged metadata kept, in bytes.
    pub capacity_bytes: usize,
    /// Changed metadata and file data kept before the next transaction has to flush, in bytes.
    pub dirty_limit_bytes: usize,
    /// When names and inodes reach the device.
    pub naming: Naming,
    /// How file data moves.
    pub data: DataSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity_bytes: 256 << 20,
            dirty_limit_bytes: 64 << 20,
            naming: Naming::Delayed,
            data: DataSettings::default(),
        }
    }
}

/// When the changes of a naming operation (create, link, remove, rename) reach the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Naming {
    /// With the next flush, all changes of an operation together, which is most of what the
    /// clustering paper hoped for from `B_ORDER`. Within a flush there is no order.
    #[default]
    Delayed,
    /// Before the operation returns, one block after the other, as the fast file system had it
    /// in 1984.
    Synchronous,
    /// As [`Self::Synchronous`], and durable: the same on devices that keep what they have taken in
    /// a memory of their own, as those of 1984 did not.
    Durable,
}

/// How file data moves between a file and its device: the clustering paper's design as settings.
///
/// [`Self::old`] and [`Self::clustered`] are the two sides of its figure 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each is one of the paper's switches; they are independent.
pub struct DataSettings {
    /// Largest transfer in bytes: `maxcontig` blocks. One block is the old way, block by block.
    pub cluster_bytes: Option<usize>,
    /// Start the next cluster while a sequential reader is busy with this one.
    pub read_ahead: bool,
    /// Keep a whole cluster ahead of a sequential reader, in as many transfers as it lies in pieces
    /// on the device. Without, one transfer is ahead, however short (clustering paper, "Read
    /// clustering implementation").
    pub pieces_ahead: bool,
    /// Writes of at least so many bytes at once are carried out at once, without a copy: for
    /// devices that only copy them into the system's memory.
    pub straight_bytes: Option<usize>,
    /// A large request is read in one cluster wherever it lies ("random clustering").
    pub random_clusters: bool,
    /// Give up blocks behind a sequential reader when memory is nearly full.
    pub free_behind: bool,
    /// Bytes of one file that may be on their way to the device; who writes more waits.
    pub write_limit_bytes: Option<usize>,
    /// Keep data after it was used. Without, only what is delayed, ahead of a reader or on its way
    /// is held.
    pub keep: bool,
    /// File data held, in bytes.
    pub capacity_bytes: usize,
    /// When memory is full, so much more than needed is given up at once, in bytes: a page daemon
    /// works in bursts.
    pub reclaim_bytes: usize,
    /// Files up to this size stay in memory with their inode, outside the capacity ("data in the
    /// inode").
    pub small_file_bytes: usize,
}

impl DataSettings {
    /// Free-behind begins at this offset of a file: a smaller one may be read again.
    pub(crate) const LARGE_OFFSET_BYTES: u64 = 256 << 10;

    /// The largest cluster: larger ones are cut, and so is what would take more than a quarter of
    /// the capacity.
    pub const CLUSTER_BYTES_MAX: usize = 16 << 20;

    /// Under a front-end that has a cache of its own: clusters both ways, nothing is kept.
    pub const THROUGH: Self = Self {
        cluster_bytes: None,
        read_ahead: true,
        pieces_ahead: false,
        straight_bytes: None,
        random_clusters: true,
        free_behind: true,
        write_limit_bytes: Some(4 << 20),
        keep: false,
        capacity_bytes: 64 << 20,
        reclaim_bytes: 0,
        small_file_bytes: 0,
    };

    /// Returns the same on an image file. The system keeps such files in memory, reads ahead in
    /// them and writes them behind by itself: to do so here as well would only cost copies. Who
    /// wants blocks one by one gets them.
    #[must_use]
    pub fn on_image_file(self) -> Self {
        const STRAIGHT_BYTES: usize = 64 << 10;
        let block_by_block = self.cluster_bytes == Some(0);
        Self { read_ahead: false, straight_bytes: (!block_by_block).then_some(STRAIGHT_BYTES), ..self }
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
            random_clusters: false,
            free_behind: false,
            write_limit_bytes: None,
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
