//! The on-disk structures of UFS1 and UFS2, as `sys/ufs/ffs/fs.h`, `sys/ufs/ufs/dinode.h`,
//! `sys/ufs/ufs/dir.h` and `sys/ufs/ufs/quota.h` of the BSDs lay them out. Decoded values are
//! unchecked: [`crate::Layout`] and the readers of each structure turn them into values that may be
//! computed with.

mod apple;
mod cg;
mod dinode;
mod dir;
mod fs;
mod lufs;
mod quota;
mod suj;

pub use apple::AppleLabel;
pub use cg::{CG_MAGIC, Cg, OldCg};
pub use dinode::{DI_CKHASH, Dinode1, Dinode2, NDADDR, NIADDR, SF_SNAPSHOT, SNAPSHOT_MARKS};
pub use dir::{DIRECT_HEADER, DirectHeader, MAXNAMLEN, dirsiz};
pub use fs::{
    CK_CYLGRP, CK_INODE, CK_SUPERBLOCK, Csum, CsumTotal, FS_42INODEFMT, FS_42POSTBLFMT, FS_44INODEFMT,
    FS_BAD_MAGIC, FS_CKHASH, FS_DYNAMICPOSTBLFMT, FS_HPUX_4GB, FS_HPUX_FEATURES, FS_HPUX_LFN, FS_OPTSPACE,
    FS_OPTTIME, FS_UFS1_MAGIC, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC, FSMAXSNAP, Fs, FsHpUx, FsLog, FsMark,
    FsNetBsd, FsRecovery, FsSun, FsUltrix, SBLOCK_UFS1, SBLOCK_UFS2, SBLOCKSEARCH, SBLOCKSIZE, flags,
};
pub use lufs::{
    Delta, LUFS_EXTENTS, LUFS_SECTOR, LUFS_USABLE, LUFS_VERSION, LufsExtent, LufsExtents, LufsHead,
    MAPBLOCKSIZE, SectTrailer, delta_type,
};
pub use quota::{
    Dqblk32, Dqblk64, Dqhdr64, Q_DQHDR64_MAGIC, Q_DQHDR64_VERSION, Q2_HEAD_MAGIC, Quota2Entry, Quota2Header,
    Quota2Val,
};
pub use suj::{
    JREC_SIZE, JblkRec, JmvRec, JrefRec, JsegRec, JtrncRec, SF_IMMUTABLE, SF_NOUNLINK, SUJ_FILE, SUJ_MIN, jop,
};
