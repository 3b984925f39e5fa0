//! The superblock (`struct fs`) and the summaries.

use spindle_ondisk::structure;

/// Bytes set aside for a superblock wherever it stands.
pub const SBLOCKSIZE: usize = 8192;
/// Where UFS1 keeps its superblock, in bytes from the start of the file system.
pub const SBLOCK_UFS1: u64 = 8192;
/// Where UFS2 keeps its superblock.
pub const SBLOCK_UFS2: u64 = 65536;
/// The places a standard superblock can stand at, in the order they are tried.
pub const SBLOCKSEARCH: [u64; 4] = [SBLOCK_UFS2, SBLOCK_UFS1, 0, 262_144];

/// Byte offset of `fs_ckhash` in the superblock.
pub const FS_CKHASH: usize = 1304;

/// Magic of UFS1.
pub const FS_UFS1_MAGIC: i32 = 0x01_1954;
/// Magic of UFS2.
pub const FS_UFS2_MAGIC: i32 = 0x1954_0119;
/// Magic of NetBSD's UFS2 with extended attributes.
pub const FS_UFS2EA_MAGIC: i32 = 0x1901_2038;
/// Magic of HP-UX with names of more than 14 bytes.
pub const FS_HPUX_LFN: i32 = 0x09_5014;
/// Magic of HP-UX with `fs_featurebits`.
pub const FS_HPUX_FEATURES: i32 = 0x19_5612;
/// Magic of HP-UX with `fs_featurebits` and more than 4 GiB.
pub const FS_HPUX_4GB: i32 = 0x0523_1994;
/// Magic while newfs has not finished.
pub const FS_BAD_MAGIC: i32 = 0x1996_0408;

/// `fs_old_inodefmt`: inodes with 16-bit owners, directories without types.
pub const FS_42INODEFMT: i32 = -1;
/// `fs_old_inodefmt`: inodes of 4.4BSD.
pub const FS_44INODEFMT: i32 = 2;
/// `fs_old_postblformat`: rotational tables of fixed size inside the superblock and the group.
pub const FS_42POSTBLFMT: i32 = -1;
/// `fs_old_postblformat`: rotational tables at stated offsets.
pub const FS_DYNAMICPOSTBLFMT: i32 = 1;
/// `fs_optim`: spend space to save time.
pub const FS_OPTTIME: i32 = 0;
/// `fs_optim`: keep fragmentation low.
pub const FS_OPTSPACE: i32 = 1;
/// Slots for snapshots in the superblock.
pub const FSMAXSNAP: usize = 20;

/// `fs_metackhash`: superblocks carry a check-hash.
pub const CK_SUPERBLOCK: u32 = 1;
/// `fs_metackhash`: cylinder groups carry a check-hash.
pub const CK_CYLGRP: u32 = 2;
/// `fs_metackhash`: inodes carry a check-hash.
pub const CK_INODE: u32 = 4;

/// Bits of `fs_flags`. Some mean different things in different dialects.
pub mod flags {
    /// Was mounted read-write while not clean.
    pub const FS_UNCLEAN: u32 = 0x001;
    /// Managed with soft updates.
    pub const FS_DOSOFTDEP: u32 = 0x002;
    /// A full check is needed before the next mount.
    pub const FS_NEEDSFSCK: u32 = 0x004;
    /// Journaled soft updates.
    pub const FS_SUJ: u32 = 0x008;
    /// POSIX.1e ACLs are enforced.
    pub const FS_ACLS: u32 = 0x010;
    /// MAC labels per file.
    pub const FS_MULTILABEL: u32 = 0x020;
    /// Under gjournal.
    pub const FS_GJOURNAL: u32 = 0x040;
    /// The flags have moved from `fs_old_flags` to `fs_flags`.
    pub const FS_FLAGS_UPDATED: u32 = 0x080;
    /// FreeBSD: `NFSv4` ACLs are enforced.
    pub const FREEBSD_NFS4ACLS: u32 = 0x100;
    /// FreeBSD: `fs_metackhash` counts.
    pub const FREEBSD_METACKHASH: u32 = 0x200;
    /// NetBSD: journaled with WAPBL.
    pub const NETBSD_DOWAPBL: u32 = 0x100;
    /// NetBSD: quotas inside the file system.
    pub const NETBSD_DOQUOTA2: u32 = 0x200;
    /// Freed blocks are discarded.
    pub const FS_TRIM: u32 = 0x400;
    /// NetBSD: `NFSv4` ACLs are enforced.
    pub const NETBSD_NFS4ACLS: u32 = 0x800;
}

structure! {
    /// Counts of a cylinder group (`struct csum`).
    #[derive(Default)]
    pub struct Csum: 16 {
        /// Directories.
        0 cs_ndir: i32,
        /// Free blocks.
        4 cs_nbfree: i32,
        /// Free inodes.
        8 cs_nifree: i32,
        /// Free fragments outside free blocks.
        12 cs_nffree: i32,
    }
}

structure! {
    /// Counts of the whole file system (`struct csum_total`).
    #[derive(Default)]
    pub struct CsumTotal: 64 {
        /// Directories.
        0 cs_ndir: i64,
        /// Free blocks.
        8 cs_nbfree: i64,
        /// Free inodes.
        16 cs_nifree: i64,
        /// Free fragments outside free blocks.
        24 cs_nffree: i64,
        /// Free clusters (not maintained by the BSDs).
        32 cs_numclusters: i64,
        /// For later.
        40 cs_spare: [i64; 3],
    }
}

structure! {
    /// The superblock with FreeBSD's names (`struct fs`). Where older systems or other dialects
    /// name the same bytes differently, see [`FsNetBsd`], [`FsSun`] and the accessors below.
    pub struct Fs: 1376 {
        /// Historic link.
        0 fs_firstfield: i32,
        /// Historic link.
        4 fs_unused_1: i32,
        /// Offset of the superblock copy in a group, in fragments.
        8 fs_sblkno: i32,
        /// Offset of the group block in a group, in fragments.
        12 fs_cblkno: i32,
        /// Offset of the inodes in a group, in fragments.
        16 fs_iblkno: i32,
        /// Offset of the first data after the inodes in a group, in fragments.
        20 fs_dblkno: i32,
        /// UFS1: offset of the group's data structures per group, in fragments.
        24 fs_old_cgoffset: i32,
        /// UFS1: which bits of the group number do not shift the group's structures.
        28 fs_old_cgmask: i32,
        /// UFS1: last written, seconds.
        32 fs_old_time: i32,
        /// UFS1: fragments.
        36 fs_old_size: i32,
        /// UFS1: fragments for data.
        40 fs_old_dsize: i32,
        /// Cylinder groups.
        44 fs_ncg: u32,
        /// Block size in bytes.
        48 fs_bsize: i32,
        /// Fragment size in bytes.
        52 fs_fsize: i32,
        /// Fragments in a block.
        56 fs_frag: i32,
        /// Reserve in percent.
        60 fs_minfree: i32,
        /// Milliseconds to the next block of a file.
        64 fs_old_rotdelay: i32,
        /// Revolutions per second.
        68 fs_old_rps: i32,
        /// Mask of the block part of an offset.
        72 fs_bmask: i32,
        /// Mask of the fragment part of an offset.
        76 fs_fmask: i32,
        /// log2 of the block size.
        80 fs_bshift: i32,
        /// log2 of the fragment size.
        84 fs_fshift: i32,
        /// Blocks allocated contiguously before a rotational delay; the cluster size.
        88 fs_maxcontig: i32,
        /// Blocks of one file in a group before it moves on.
        92 fs_maxbpg: i32,
        /// log2 of the fragments in a block.
        96 fs_fragshift: i32,
        /// log2 of sectors in a fragment.
        100 fs_fsbtodb: i32,
        /// Bytes of this structure with its tables.
        104 fs_sbsize: i32,
        /// Old `fs_csmask` and `fs_csshift`.
        108 fs_spare1: [i32; 2],
        /// Block pointers in an indirect block.
        116 fs_nindir: i32,
        /// Inodes in a block.
        120 fs_inopb: u32,
        /// Sectors in a fragment.
        124 fs_old_nspf: i32,
        /// [`FS_OPTTIME`] or [`FS_OPTSPACE`].
        128 fs_optim: i32,
        /// Sectors on a track with spares (Sun on x86: `fs_state`).
        132 fs_old_npsect: i32,
        /// Hardware sector interleave.
        136 fs_old_interleave: i32,
        /// Sectors of skew from track to track.
        140 fs_old_trackskew: i32,
        /// Identity of the file system.
        144 fs_id: [i32; 2],
        /// UFS1: address of the summaries, in fragments.
        152 fs_old_csaddr: i32,
        /// Bytes of the summaries.
        156 fs_cssize: i32,
        /// Bytes of a group block.
        160 fs_cgsize: i32,
        /// Old `fs_ntrak`: tracks in a cylinder.
        164 fs_spare2: i32,
        /// Sectors on a track.
        168 fs_old_nsect: i32,
        /// Sectors in a cylinder.
        172 fs_old_spc: i32,
        /// Cylinders.
        176 fs_old_ncyl: i32,
        /// Cylinders in a group.
        180 fs_old_cpg: i32,
        /// Inodes in a group.
        184 fs_ipg: u32,
        /// Fragments in a group.
        188 fs_fpg: i32,
        /// UFS1: counts of the whole file system.
        192 fs_old_cstotal: Csum,
        /// Superblock changed in memory.
        208 fs_fmod: i8,
        /// State at the last unmount.
        209 fs_clean: i8,
        /// Mounted read-only.
        210 fs_ronly: i8,
        /// Flags before they moved.
        211 fs_old_flags: i8,
        /// Where it was mounted last.
        212 fs_fsmnt: [u8; 468],
        /// Volume name.
        680 fs_volname: [u8; 32],
        /// System-wide identity.
        712 fs_swuid: u64,
        /// Group searched last.
        724 fs_cgrotor: i32,
        /// Cylinders in a cycle of the rotational tables.
        856 fs_old_cpc: i32,
        /// Largest block size allowed.
        860 fs_maxbsize: i32,
        /// Unreferenced inodes (gjournal).
        864 fs_unrefs: i64,
        /// Size of the medium.
        872 fs_providersize: i64,
        /// Fragments set aside for metadata in each group.
        880 fs_metaspace: i64,
        /// Where this copy stands, in bytes.
        992 fs_sblockactualloc: i64,
        /// Where the standard superblock stands, in bytes.
        1000 fs_sblockloc: i64,
        /// Counts of the whole file system.
        1008 fs_cstotal: CsumTotal,
        /// Last written, seconds.
        1072 fs_time: i64,
        /// Fragments.
        1080 fs_size: i64,
        /// Fragments for data.
        1088 fs_dsize: i64,
        /// Address of the summaries, in fragments.
        1096 fs_csaddr: i64,
        /// Blocks being freed.
        1104 fs_pendingblocks: i64,
        /// Inodes being freed.
        1112 fs_pendinginodes: u32,
        /// Inodes of snapshots.
        1116 fs_snapinum: [u32; FSMAXSNAP],
        /// Expected size of a file in bytes.
        1196 fs_avgfilesize: u32,
        /// Expected files in a directory.
        1200 fs_avgfpdir: u32,
        /// Real group size where `fs_cgsize` was replaced.
        1204 fs_save_cgsize: i32,
        /// Last mounted or checked, seconds.
        1208 fs_mtime: i64,
        /// Journaled soft updates: first unlinked inode.
        1216 fs_sujfree: i32,
        /// Check-hash of this superblock.
        1304 fs_ckhash: u32,
        /// Which structures carry check-hashes (OpenBSD: its `fs_flags`).
        1308 fs_metackhash: u32,
        /// [`flags`] (OpenBSD: `fs_fscktime`).
        1312 fs_flags: u32,
        /// Entries in the groups' tables of free clusters.
        1316 fs_contigsumsize: i32,
        /// Symbolic links shorter than this stand in the inode.
        1320 fs_maxsymlinklen: i32,
        /// [`FS_42INODEFMT`] or [`FS_44INODEFMT`].
        1324 fs_old_inodefmt: i32,
        /// Largest file in bytes.
        1328 fs_maxfilesize: u64,
        /// `fs_bsize - 1`.
        1336 fs_qbmask: i64,
        /// `fs_fsize - 1`.
        1344 fs_qfmask: i64,
        /// Validates `fs_clean`.
        1352 fs_state: i32,
        /// [`FS_42POSTBLFMT`] or [`FS_DYNAMICPOSTBLFMT`].
        1356 fs_old_postblformat: i32,
        /// Rotational positions.
        1360 fs_old_nrpos: i32,
        /// Old `fs_postbloff` and `fs_rotbloff`: byte offsets of the rotational tables in this
        /// structure.
        1364 fs_spare5: [i32; 2],
        /// [`FS_UFS1_MAGIC`], [`FS_UFS2_MAGIC`], …
        1372 fs_magic: i32,
    }
}

impl Fs {
    /// Returns the tracks in a cylinder.
    #[must_use]
    pub const fn fs_ntrak(&self) -> i32 {
        self.fs_spare2
    }

    /// Returns the byte offset of the table of first blocks by rotational position.
    #[must_use]
    pub const fn fs_postbloff(&self) -> i32 {
        self.fs_spare5[0]
    }

    /// Returns the byte offset of the table of next blocks at the same rotational position.
    #[must_use]
    pub const fn fs_rotbloff(&self) -> i32 {
        self.fs_spare5[1]
    }
}

structure! {
    /// The fields that NetBSD keeps in the middle of the superblock (`sys/ufs/ffs/fs.h` of NetBSD).
    pub struct FsNetBsd: 1376 {
        /// WAPBL version, 1.
        864 fs_journal_version: u8,
        /// 1: at the end of the partition, 2: inside the file system.
        865 fs_journal_location: u8,
        /// Flags of the journal.
        868 fs_journal_flags: u32,
        /// Address, blocks, block size and inode of the journal.
        872 fs_journallocs: [u64; 4],
        /// Magic of the quotas inside the file system.
        904 fs_quota_magic: u32,
        /// Which quotas are on.
        908 fs_quota_flags: u8,
        /// Inodes of the user and group quota files.
        912 fs_quotafile: [u64; 2],
    }
}

impl FsNetBsd {
    /// `fs_quota_flags`: users and groups are counted (`FS_Q2_DO_TYPE`).
    pub const Q2_ALL: u8 = 0b11;
}

structure! {
    /// Where Spindle keeps its log in the file system of a system that knows none: in words that
    /// are spare (`fs_sparecon`) in every dialect but the oldest, and that every BSD leaves as they
    /// are.
    pub struct FsLog: 1376 {
        /// [`FsLog::MAGIC`] or [`FsLog::ENDED`] if there is one.
        1224 fs_log_magic: u32,
        /// Inode of the file that has its space.
        1228 fs_log_ino: u32,
        /// Where it begins, in bytes.
        1232 fs_log_at: u64,
        /// Its length in bytes.
        1240 fs_log_bytes: u64,
    }
}

impl FsLog {
    /// The letters `SpLg`.
    pub const MAGIC: u32 = 0x5370_4c67;
    /// The letters `SpLe`: everything of it is in its place, but the file system needs a check all
    /// the same.
    pub const ENDED: u32 = 0x5370_4c65;
}

structure! {
    /// Whose newfs has been followed, where the dialect's own fields do not say: in a word that is
    /// spare in every dialect but the oldest.
    pub struct FsMark: 1376 {
        /// [`FsMark::NETBSD`], or anything else.
        1248 fs_mark: u32,
    }
}

impl FsMark {
    /// The letters `SpNb`.
    pub const NETBSD: u32 = 0x5370_4e62;
}

structure! {
    /// The fields that Solaris keeps at the end of the superblock (`ufs_fs.h`; on x86 `fs_state`
    /// stands at 132).
    pub struct FsSun: 1376 {
        /// Whether everything in the log is in its place.
        4 fs_rolled: u32,
        /// The block of extents of the log, in sectors of 512 bytes; 0 without a log.
        1324 fs_logbno: i32,
        /// Flags of reclaiming threads.
        1328 fs_reclaim: i32,
        /// With `fs_time` makes [`FsSun::FSOKAY`].
        1336 fs_state: i32,
        /// `fs_bsize - 1` as two words.
        1340 fs_qbmask: [i32; 2],
        /// `fs_fsize - 1` as two words.
        1348 fs_qfmask: [i32; 2],
    }
}

impl FsSun {
    /// The sum of `fs_state` and `fs_time` when `fs_clean` can be believed.
    pub const FSOKAY: i32 = 0x7c26_9d38;
    /// `fs_clean`: in use.
    pub const FSACTIVE: i8 = 0;
    /// `fs_clean`: unmounted.
    pub const FSCLEAN: i8 = 1;
    /// `fs_clean`: in use, but nothing pending.
    pub const FSSTABLE: i8 = 2;
    /// `fs_clean`: it has a log, whether it was unmounted or not.
    pub const FSLOG: i8 = -3;
    /// `fs_rolled`: everything is in its place.
    pub const FS_ALL_ROLLED: u32 = 1;
}

structure! {
    /// The fields that HP-UX keeps elsewhere (`hpux/sys/fs.h`, `struct fs` of the 4.2BSD format).
    pub struct FsHpUx: 1376 {
        /// Identity of the file system.
        128 fs_id: [i32; 2],
        /// What it uses: see [`FsHpUx::LARGE_UIDS`].
        144 fs_featurebits: u32,
        /// [`FS_OPTTIME`] or [`FS_OPTSPACE`].
        148 fs_optim: i32,
    }
}

impl FsHpUx {
    /// `fs_featurebits`: owners have more than 16 bits.
    pub const LARGE_UIDS: u32 = 4;
    /// `fs_clean`: unmounted.
    pub const FS_CLEAN: i8 = 0x17;
    /// `fs_clean`: clean when it was mounted.
    pub const FS_OK: i8 = 0x53;
    /// `fs_clean`: not clean when it was mounted.
    pub const FS_NOTOK: i8 = 0x31;
}

structure! {
    /// The fields that Ultrix takes from the end of `fs_fsmnt`.
    pub struct FsUltrix: 1376 {
        /// Mounts after which a check is advised.
        712 fs_deftimer: u8,
        /// Last check, in seconds.
        716 fs_lastfsck: i32,
    }
}

impl FsUltrix {
    /// `fs_clean`: unmounted.
    pub const FS_CLEAN: i8 = 30;
}

structure! {
    /// The record that newfs leaves in front of a UFS2 superblock so that its replicas can be found
    /// (`struct fsrecovery`).
    pub struct FsRecovery: 20 {
        /// `fs_magic`.
        0 fsr_magic: i32,
        /// `fs_fsbtodb`.
        4 fsr_fsbtodb: i32,
        /// `fs_sblkno`.
        8 fsr_sblkno: i32,
        /// `fs_fpg`.
        12 fsr_fpg: i32,
        /// `fs_ncg`.
        16 fsr_ncg: u32,
    }
}
