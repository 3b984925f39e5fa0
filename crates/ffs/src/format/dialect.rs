//! Whose file system it is, and whether it is safe to write.
//!
//! The same bytes of a superblock mean different things to FreeBSD, NetBSD, OpenBSD and Solaris, so
//! the dialect is settled before any write. Everything here is a pure function of the superblock:
//! the evidence is looked at in a fixed order, and what is not known is an [`Objection`] to
//! writing, with the reason and the remedy.

use crate::format::beside::{DIRBLKSIZ, LARGE_DIRBLKSIZ};
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{
    CK_CYLGRP, CK_INODE, CK_SUPERBLOCK, FS_42POSTBLFMT, FS_DYNAMICPOSTBLFMT, FS_HPUX_4GB, FS_HPUX_FEATURES,
    FS_HPUX_LFN, FS_UFS1_MAGIC, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC, Fs, FsHpUx, FsMark, FsNetBsd, FsSun,
    FsUltrix, Q2_HEAD_MAGIC, SBLOCK_UFS1, flags,
};
use spindle_ondisk::Endian;
use spindle_vfs::Objection;

/// Which system's rules the superblock follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Dialect {
    /// FreeBSD 5 and later, with the fields only it has in use.
    FreeBsd,
    /// NetBSD, with the fields only it has in use.
    NetBsd,
    /// OpenBSD with its own place for the flags.
    OpenBsd,
    /// Solaris; on x86 `fs_state` stands elsewhere.
    Sun {
        /// Written on x86.
        x86: bool,
    },
    /// 4.2BSD and 4.3BSD: old inodes and directories.
    Bsd43,
    /// 4.4BSD, and systems that keep to it: nothing that the BSDs disagree on is in use.
    Bsd44,
    /// Mac OS X, and what NetBSD and OpenBSD make for it: a label in front of the superblock.
    Apple,
    /// NEXTSTEP: old inodes, and directories in chunks of 1024 bytes.
    NextStep,
    /// HP-UX: 4.2BSD with magics and a clean flag of its own.
    HpUx,
    /// Ultrix: 4.2BSD with a clean flag of its own.
    Ultrix,
    /// OPENSTEP and Rhapsody: new inodes, and directories in chunks of 1024 bytes, without a label.
    OpenStep,
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FreeBsd => "FreeBSD",
            Self::NetBsd => "NetBSD",
            Self::OpenBsd => "OpenBSD",
            Self::Sun { x86: false } => "Sun",
            Self::Sun { x86: true } => "Sun (x86)",
            Self::Bsd43 => "4.3BSD",
            Self::Bsd44 => "4.4BSD",
            Self::Apple => "Apple",
            Self::NextStep => "NEXTSTEP",
            Self::HpUx => "HP-UX",
            Self::Ultrix => "Ultrix",
            Self::OpenStep => "OPENSTEP",
        })
    }
}

impl std::str::FromStr for Dialect {
    type Err = String;
    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "freebsd" => Self::FreeBsd,
            "netbsd" => Self::NetBsd,
            "openbsd" => Self::OpenBsd,
            "sun" | "solaris" => Self::Sun { x86: false },
            "sunx86" => Self::Sun { x86: true },
            "43bsd" | "4.3bsd" | "42bsd" | "4.2bsd" => Self::Bsd43,
            "44bsd" | "4.4bsd" => Self::Bsd44,
            "apple" => Self::Apple,
            "nextstep" => Self::NextStep,
            "hpux" => Self::HpUx,
            "ultrix" => Self::Ultrix,
            "openstep" => Self::OpenStep,
            _ => {
                return Err(format!(
                    "{name}: not freebsd, netbsd, openbsd, sun, sunx86, 43bsd, 44bsd, apple, nextstep, \
                     openstep, hpux or ultrix"
                ));
            }
        })
    }
}

impl Dialect {
    /// Returns the dialect whose fields and habits it has, where it has none of its own.
    #[must_use]
    pub const fn base(self) -> Self {
        match self {
            Self::Apple | Self::OpenStep => Self::Bsd44,
            Self::NextStep | Self::HpUx | Self::Ultrix => Self::Bsd43,
            other => other,
        }
    }

    /// Returns true if what it expects of a writer is not known well enough.
    #[must_use]
    pub const fn is_only_read(self) -> bool {
        matches!(self, Self::NextStep | Self::OpenStep | Self::HpUx | Self::Ultrix)
    }

    /// Returns the `fs_clean` of a file system that is not in use; not for Solaris, which has two.
    pub(crate) const fn clean_value(self) -> i8 {
        match self {
            Self::HpUx => FsHpUx::FS_CLEAN,
            Self::Ultrix => FsUltrix::FS_CLEAN,
            _ => 1,
        }
    }

    /// Returns the bytes of a directory chunk.
    #[must_use]
    pub const fn dirblksiz(self) -> u32 {
        match self {
            Self::Apple | Self::NextStep | Self::OpenStep => LARGE_DIRBLKSIZ,
            _ => DIRBLKSIZ,
        }
    }

    /// Detects the dialect of a superblock whose layout is known, without what stands beside it
    /// ([`crate::format::beside`]).
    #[must_use]
    pub fn detect(fs: &Fs, raw: &[u8], layout: &Layout) -> Self {
        match layout.inode_format {
            InodeFormat::Sun => return Self::Sun { x86: layout.endian == Endian::Little },
            InodeFormat::Old if is_hpux(fs) => return Self::HpUx,
            InodeFormat::Old if layout.old_cg && is_ultrix(fs, raw, layout.endian) => return Self::Ultrix,
            InodeFormat::Old => return Self::Bsd43,
            InodeFormat::New => {}
        }
        if is_new_openbsd_ufs1(fs) {
            return Self::OpenBsd;
        }
        if layout.version == Version::Ufs1 && !layout.flags_updated {
            // What only newer systems have stands where rotational tables may be.
            return Self::Bsd44;
        }
        let netbsd = FsNetBsd::decode(raw, layout.endian);
        if fs.fs_magic == FS_UFS2EA_MAGIC
            || (netbsd.fs_journal_version == 1 && matches!(netbsd.fs_journal_location, 1 | 2))
            || netbsd.fs_quota_magic == Q2_HEAD_MAGIC
        {
            return Self::NetBsd;
        }
        let checks = CK_SUPERBLOCK | CK_CYLGRP | CK_INODE;
        let hashed = fs.fs_flags & flags::FREEBSD_METACKHASH != 0 && fs.fs_metackhash & checks != 0;
        let newer_freebsd = layout.version == Version::Ufs2 && fs.fs_sblockactualloc > 0;
        if hashed
            || newer_freebsd
            || (fs.fs_providersize > 0 && fs.fs_providersize <= i64::from(i32::MAX) << 20)
        {
            return Self::FreeBsd;
        }
        // OpenBSD keeps its flags where the others have fs_metackhash, and a date where they have
        // flags.
        let dated = fs.fs_flags > 0x2000_0000;
        let flagged = fs.fs_metackhash & flags::FS_FLAGS_UPDATED != 0;
        if dated || (flagged && fs.fs_flags == 0) || is_openbsd_ufs2(fs) {
            return Self::OpenBsd;
        }
        if FsMark::decode(raw, layout.endian).fs_mark == FsMark::NETBSD {
            return Self::NetBsd;
        }
        Self::Bsd44
    }

    /// Returns the `fs_flags` of this dialect, from wherever it keeps them.
    #[must_use]
    pub fn flags(self, fs: &Fs, layout: &Layout) -> u32 {
        match self {
            // In UFS1 its kernel takes them from the old place at each mount.
            Self::OpenBsd if layout.version == Version::Ufs1 => fs.fs_old_flags.cast_unsigned().into(),
            Self::OpenBsd => fs.fs_metackhash,
            Self::Sun { .. } | Self::Bsd43 | Self::NextStep | Self::HpUx | Self::Ultrix => 0,
            _ if layout.version == Version::Ufs2 || layout.flags_updated => fs.fs_flags,
            _ => fs.fs_old_flags.cast_unsigned().into(),
        }
    }

    /// Clears bits of the flags, where [`Self::flags`] finds them.
    pub(crate) fn clear_flags(self, fs: &mut Fs, layout: &Layout, bits: u32) {
        let old = i8::try_from(bits).unwrap_or(0);
        match self {
            Self::OpenBsd if layout.version == Version::Ufs1 => fs.fs_old_flags &= !old,
            Self::OpenBsd => fs.fs_metackhash &= !bits,
            Self::Sun { .. } | Self::Bsd43 | Self::NextStep | Self::HpUx | Self::Ultrix => {}
            _ if layout.version == Version::Ufs2 || layout.flags_updated => fs.fs_flags &= !bits,
            _ => fs.fs_old_flags &= !old,
        }
    }

    /// Returns the fragments that are set aside for metadata after the inodes of each group. Only
    /// FreeBSD has the field; NetBSD keeps the length of its log in the same place. A value that no
    /// group can meet counts as none, as it only says where to look first.
    #[must_use]
    pub fn metaspace(self, fs: &Fs, layout: &Layout) -> u32 {
        match u32::try_from(fs.fs_metaspace) {
            Ok(frags)
                if self == Self::FreeBsd && layout.version == Version::Ufs2 && frags <= layout.fs_fpg =>
            {
                frags
            }
            _ => 0,
        }
    }

    /// Returns true if this system has extended attributes in its inodes. The others know nothing
    /// of their blocks, which are lost when they remove the file: OpenBSD's always, NetBSD's unless
    /// the magic says that there are some.
    #[must_use]
    pub fn has_extattr(self, fs: &Fs, layout: &Layout) -> bool {
        layout.version == Version::Ufs2
            && match self {
                Self::NetBsd => fs.fs_magic == FS_UFS2EA_MAGIC,
                Self::OpenBsd => false,
                _ => true,
            }
    }

    /// Returns the flags that a writer who knows this dialect can meet.
    const fn known_flags(self) -> u32 {
        use flags::{
            FREEBSD_METACKHASH, FREEBSD_NFS4ACLS, FS_ACLS, FS_DOSOFTDEP, FS_FLAGS_UPDATED, FS_GJOURNAL,
            FS_MULTILABEL, FS_NEEDSFSCK, FS_SUJ, FS_TRIM, FS_UNCLEAN, NETBSD_DOQUOTA2, NETBSD_DOWAPBL,
            NETBSD_NFS4ACLS,
        };
        let common = FS_UNCLEAN
            | FS_DOSOFTDEP
            | FS_NEEDSFSCK
            | FS_SUJ
            | FS_ACLS
            | FS_MULTILABEL
            | FS_GJOURNAL
            | FS_FLAGS_UPDATED
            | FS_TRIM;
        match self {
            Self::FreeBsd => common | FREEBSD_NFS4ACLS | FREEBSD_METACKHASH,
            Self::NetBsd => common | NETBSD_DOWAPBL | NETBSD_DOQUOTA2 | NETBSD_NFS4ACLS,
            Self::OpenBsd => FS_UNCLEAN | FS_FLAGS_UPDATED,
            Self::Bsd44 | Self::Apple | Self::OpenStep => common,
            Self::Sun { .. } | Self::Bsd43 | Self::NextStep | Self::HpUx | Self::Ultrix => 0,
        }
    }
}

/// Returns true for HP-UX, by its magics, or in the static format by the values of its clean flag.
pub(crate) const fn is_hpux(fs: &Fs) -> bool {
    let is_static = fs.fs_magic == FS_UFS1_MAGIC && fs.fs_old_postblformat == FS_42POSTBLFMT;
    matches!(fs.fs_magic, FS_HPUX_LFN | FS_HPUX_FEATURES | FS_HPUX_4GB)
        || is_static && matches!(fs.fs_clean, FsHpUx::FS_CLEAN | FsHpUx::FS_OK | FsHpUx::FS_NOTOK)
}

/// Returns true for the static format of Ultrix: its clean flag has a value of its own, and what it
/// notes of checks stands where 4.2BSD has the end of a long path.
fn is_ultrix(fs: &Fs, raw: &[u8], endian: Endian) -> bool {
    let ultrix = FsUltrix::decode(raw, endian);
    fs.fs_clean == FsUltrix::FS_CLEAN || (ultrix.fs_lastfsck > 0 && ultrix.fs_deftimer > 0)
}

/// Returns true for UFS1 as OpenBSD's newfs leaves it: the newer fields are filled in, and neither
/// `fs_maxbsize` nor the flag that says so. Nobody reads those fields then. Its kernel sets both
/// when it mounts it, and then it looks like NetBSD's.
fn is_new_openbsd_ufs1(fs: &Fs) -> bool {
    fs.fs_magic == FS_UFS1_MAGIC
        && u32::from(fs.fs_old_flags.cast_unsigned()) & flags::FS_FLAGS_UPDATED == 0
        && fs.fs_old_postblformat == FS_DYNAMICPOSTBLFMT
        && (fs.fs_old_cpc, fs.fs_postbloff(), fs.fs_maxbsize) == (0, 0, 0)
        && fs.fs_sblockloc.cast_unsigned() == SBLOCK_UFS1
        && fs.fs_size == i64::from(fs.fs_old_size)
}

/// Returns true for UFS2 as OpenBSD's newfs makes it, with the fake disk that the others leave out.
fn is_openbsd_ufs2(fs: &Fs) -> bool {
    fs.fs_magic == FS_UFS2_MAGIC
        && fs.fs_old_postblformat == FS_DYNAMICPOSTBLFMT
        && (fs.fs_old_cpg, fs.fs_old_nrpos, fs.fs_maxbsize) == (1, 1, 0)
}

/// The remedy for what an unclean end has left.
pub(crate) const CHECK: &str =
    "check it with spindle fsck or the fsck of its own system, or insist with the option force";

/// Returns true if the superblock says that the file system is not in use; not for Solaris. 4.2BSD
/// and 4.3BSD have no clean flag, so theirs is clean unless it says that it was changed
/// (`fs_fmod`): they write that as 0, and we, and the 4.4BSDs, as 1 while it is in use.
pub(crate) const fn is_marked_clean(fs: &Fs, dialect: Dialect) -> bool {
    fs.fs_clean == dialect.clean_value()
        || matches!(dialect, Dialect::Bsd43 | Dialect::NextStep) && fs.fs_fmod == 0
}

/// Returns true if the superblock can list snapshots. In the older ones, and in those of OpenBSD,
/// the field is something else.
pub(crate) fn has_snapshots(layout: &Layout, dialect: Dialect) -> bool {
    dialect != Dialect::OpenBsd && (layout.version == Version::Ufs2 || layout.flags_updated)
}

/// Returns the inodes of the snapshots that the superblock lists.
pub(crate) fn snapshots(fs: &Fs, layout: &Layout, dialect: Dialect) -> Vec<u32> {
    if !has_snapshots(layout, dialect) {
        return Vec::new();
    }
    fs.fs_snapinum.iter().copied().filter(|&ino| ino != 0).collect()
}

/// Returns what snapshots say against writing past a mount, which preserves changes for them.
pub(crate) fn snapshot_objection() -> Objection {
    Objection {
        reason: "it has snapshots, which need a copy of every block before it changes".to_owned(),
        remedy: "remove the snapshots (spindle snapshot rm)".to_owned(),
        overridable: false,
    }
}

/// Returns everything that speaks against writing to the file system but its snapshots; empty if it
/// is safe. With `recovers`, a log puts right whatever an unclean end has left.
#[must_use]
pub fn objections(fs: &Fs, raw: &[u8], layout: &Layout, dialect: Dialect, recovers: bool) -> Vec<Objection> {
    let mut found = Vec::new();
    let mut object = |reason: String, remedy: &str, overridable| {
        found.push(Objection { reason, remedy: remedy.to_owned(), overridable });
    };
    let bits = dialect.flags(fs, layout);

    // What HP-UX keeps elsewhere would be written to wrong places, whatever it is called.
    let dialect = if is_hpux(fs) { Dialect::HpUx } else { dialect };
    if dialect.is_only_read() {
        let what = format!("{dialect} wrote it, and what that expects of a writer is not known well enough");
        let remedy = if dialect == Dialect::OpenStep {
            "copy its files to a file system of another dialect; if it is a volume of Mac OS X whose label is \
             lost, name that (--dialect apple; mount: -o dialect=apple), and have a new label made (spindle \
             fsck -y --dialect apple)"
        } else {
            "copy its files to a file system of another dialect"
        };
        object(what, remedy, false);
    }
    if dialect == Dialect::HpUx && fs.fs_magic != FS_UFS1_MAGIC {
        let bits = FsHpUx::decode(raw, layout.endian).fs_featurebits;
        if fs.fs_magic != FS_HPUX_LFN && bits & FsHpUx::LARGE_UIDS != 0 {
            let what = "it has owners of more than 16 bits, of which 16 are shown";
            object(what.into(), "read its files on HP-UX if their owners matter", false);
        }
    }
    if let Dialect::Sun { x86 } = dialect {
        let state = if x86 { fs.fs_old_npsect } else { FsSun::decode(raw, layout.endian).fs_state };
        if fs.fs_clean == FsSun::FSLOG {
            let remedy = "have it replayed (spindle fsck -p), or mount it once on Solaris with nologging";
            object("it has a Solaris log".into(), remedy, false);
        } else if !matches!(fs.fs_clean, FsSun::FSCLEAN | FsSun::FSSTABLE) {
            if !recovers {
                object(format!("it was not unmounted cleanly (fs_clean {})", fs.fs_clean), CHECK, true);
            }
        } else if state.wrapping_add(fs.fs_old_time) != FsSun::FSOKAY && !recovers {
            object(format!("fs_state {state:#x} does not confirm that it is clean"), CHECK, true);
        }
    } else if !is_marked_clean(fs, dialect) && !recovers {
        object(format!("it was not unmounted cleanly (fs_clean {})", fs.fs_clean), CHECK, true);
    }
    if bits & flags::FS_UNCLEAN != 0 {
        object("it was mounted while not clean (FS_UNCLEAN)".into(), CHECK, true);
    }
    if bits & flags::FS_NEEDSFSCK != 0 && !recovers {
        object("its system asks for a full check (FS_NEEDSFSCK)".into(), CHECK, true);
    }
    let newer = layout.version == Version::Ufs2 || layout.flags_updated;
    if newer && (fs.fs_pendingblocks != 0 || fs.fs_pendinginodes != 0) {
        object(
            format!(
                "{} blocks and {} inodes are still being freed",
                fs.fs_pendingblocks, fs.fs_pendinginodes
            ),
            CHECK,
            true,
        );
    }
    if bits & flags::FS_GJOURNAL != 0 && dialect == Dialect::FreeBsd {
        object("it is under gjournal".into(), "take gjournal off on FreeBSD (tunefs -J disable)", false);
    }
    if dialect == Dialect::NetBsd && bits & flags::NETBSD_DOQUOTA2 != 0 {
        let netbsd = FsNetBsd::decode(raw, layout.endian);
        let remedy = "turn its quotas off on NetBSD (tunefs -q nouser, -q nogroup)";
        if netbsd.fs_quota_magic != Q2_HEAD_MAGIC {
            let magic = netbsd.fs_quota_magic;
            object(
                format!("its flags say that it keeps quotas inside, its magic {magic:#x} not"),
                remedy,
                true,
            );
        } else if netbsd.fs_quota_flags & !FsNetBsd::Q2_ALL != 0 {
            object(format!("fs_quota_flags has unknown bits {:#x}", netbsd.fs_quota_flags), remedy, false);
        }
    }
    let unknown = bits & !dialect.known_flags();
    if unknown != 0 {
        object(
            format!("fs_flags has unknown bits {unknown:#x}"),
            "name its dialect (dialect=), or insist with the option force",
            true,
        );
    }
    if dialect == Dialect::FreeBsd && bits & flags::FREEBSD_METACKHASH != 0 {
        let unknown = fs.fs_metackhash & !(CK_SUPERBLOCK | CK_CYLGRP | CK_INODE);
        if unknown != 0 {
            object(
                format!("fs_metackhash has unknown bits {unknown:#x}"),
                "use a Spindle that knows these check-hashes",
                false,
            );
        }
    }
    if layout.version == Version::Ufs1
        && !layout.flags_updated
        && layout.rotation.is_none()
        && fs.fs_old_cpc != 0
    {
        object("it has rotational tables but no disk geometry".into(), "insist with the option force", true);
    }
    found
}
