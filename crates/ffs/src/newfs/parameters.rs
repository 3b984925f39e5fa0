//! The parameters of newfs, and each system's defaults.
//!
//! [`Parameters`] are wishes: everything that is `None` gets the default of the dialect's own
//! newfs. [`Parameters::resolve`] checks each wish by itself; whether they fit together is the
//! planner's business. Every refusal names the parameter and what is allowed.

use crate::format::dialect::Dialect;
use crate::format::layout::{MAXBSIZE, MINBSIZE};
use crate::format::ondisk::flags::{FS_DOSOFTDEP, FS_MULTILABEL, FS_TRIM};
use spindle_ondisk::Endian;
use std::ops::RangeInclusive;

/// Bytes of the unit in which old superblocks count sectors.
pub const DEV_BSIZE: u32 = 512;

/// A parameter that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} {value} will not do: {allowed}")]
pub struct ParameterError {
    /// Name of the parameter.
    pub parameter: &'static str,
    /// The value that was asked for, or computed.
    pub value: String,
    /// The possible values.
    pub allowed: String,
}

impl ParameterError {
    #[allow(clippy::needless_pass_by_value)] // Numbers, and texts made for it.
    pub(super) fn new(parameter: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self { parameter, value: value.to_string(), allowed: allowed.into() }
    }
}

impl From<ParameterError> for spindle_vfs::Error {
    fn from(error: ParameterError) -> Self {
        Self::unsupported(format!("newfs: {} {}", error.parameter, error.value), error.allowed)
    }
}

/// Result of planning.
pub type Result<T> = std::result::Result<T, ParameterError>;

/// The on-disk format, as the option `-O` numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `-O 0`: UFS1 with the inodes and directories of 4.3BSD.
    Old,
    /// `-O 1`: UFS1.
    Ufs1,
    /// `-O 2`: UFS2.
    #[default]
    Ufs2,
}

/// `fs_optim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Optimization {
    /// Spend space to save time.
    Time,
    /// Keep fragmentation low.
    Space,
}

/// The disk's geometry (paper, sections 3.1 and 3.2), for UFS1 of the systems that use it. Sectors
/// are the device's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Revolutions per minute.
    pub rpm: Option<u32>,
    /// Data sectors on a track.
    pub nsect: Option<u32>,
    /// Tracks in a cylinder.
    pub ntrak: Option<u32>,
    /// Cylinders in a group.
    pub cpg: Option<u32>,
    /// Milliseconds from the end of a transfer to the start of the next on the same cylinder.
    pub rotdelay_ms: Option<u32>,
    /// Number of rotational positions to distinguish.
    pub nrpos: Option<u32>,
    /// Hardware sector interleave: 1 for none.
    pub interleave: Option<u32>,
    /// Sectors of skew from track to track.
    pub trackskew: Option<u32>,
    /// Spare sectors at the end of each track.
    pub trackspares: Option<u32>,
    /// Spare sectors at the end of each cylinder.
    pub cylspares: Option<u32>,
}

/// The wishes. [`Parameters::new`] leaves all but the size to the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Size of the file system in bytes.
    pub size_bytes: u64,
    /// On-disk format.
    pub format: Format,
    /// Byte order: big for Apple and Solaris on SPARC, little otherwise unless named.
    pub endian: Option<Endian>,
    /// Whose newfs to follow. By default FreeBSD's, 4.4BSD's for UFS1 with a geometry, 4.3BSD's for
    /// the old format.
    pub dialect: Option<Dialect>,
    /// Old format only: rotational tables and group maps at the fixed places of 4.2BSD.
    pub static_tables: bool,
    /// Bytes of a device sector.
    pub sector_bytes: u32,
    /// Block size in bytes.
    pub bsize: Option<u32>,
    /// Fragment size in bytes.
    pub fsize: Option<u32>,
    /// Bytes of space per inode.
    pub density: Option<u32>,
    /// Reserve in percent.
    pub minfree: Option<u32>,
    /// Blocks laid out contiguously; the cluster size.
    pub maxcontig: Option<u32>,
    /// Blocks of one file in a group before it moves on.
    pub maxbpg: Option<u32>,
    /// Largest extent in bytes (`fs_maxbsize`).
    pub maxbsize: Option<u32>,
    /// Optimise for time or for space.
    pub optimization: Option<Optimization>,
    /// Expected size of a file in bytes.
    pub avgfilesize: Option<u32>,
    /// Expected files in a directory.
    pub avgfpdir: Option<u32>,
    /// Most blocks in a cylinder group.
    pub blocks_per_group: Option<u32>,
    /// FreeBSD: fragments set aside for metadata in each group; rounded down to whole blocks.
    pub metaspace: Option<u32>,
    /// Disk geometry.
    pub geometry: Geometry,
    /// Volume name: letters, digits, `-` and `_`, at most 31. Apple's is `untitled` without one.
    pub label: Option<String>,
    /// FreeBSD: make the directory `.snap`.
    pub snap_dir: bool,
    /// FreeBSD UFS2: protect superblocks, groups and inodes with check-hashes.
    pub check_hashes: bool,
    /// Bits to set in `fs_flags`: soft updates, MAC labels, TRIM.
    pub fs_flags: u32,
    /// User and group of the root directory.
    pub root_owner: (u32, u32),
}

impl Parameters {
    /// Defaults for a file system of `size_bytes`: UFS2 as FreeBSD makes it, little-endian.
    #[must_use]
    pub const fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            format: Format::Ufs2,
            endian: None,
            dialect: None,
            static_tables: false,
            sector_bytes: DEV_BSIZE,
            bsize: None,
            fsize: None,
            density: None,
            minfree: None,
            maxcontig: None,
            maxbpg: None,
            maxbsize: None,
            optimization: None,
            avgfilesize: None,
            avgfpdir: None,
            blocks_per_group: None,
            metaspace: None,
            geometry: Geometry {
                rpm: None,
                nsect: None,
                ntrak: None,
                cpg: None,
                rotdelay_ms: None,
                nrpos: None,
                interleave: None,
                trackskew: None,
                trackspares: None,
                cylspares: None,
            },
            label: None,
            snap_dir: true,
            check_hashes: true,
            fs_flags: 0,
            root_owner: (0, 0),
        }
    }
}

/// The wishes with every default filled in, each checked by itself.
#[derive(Clone, Debug)]
pub(super) struct Resolved {
    pub size_bytes: u64,
    pub format: Format,
    pub endian: Endian,
    pub dialect: Dialect,
    pub static_tables: bool,
    pub sector_bytes: u32,
    pub bsize: u32,
    pub fsize: u32,
    pub density: u32,
    pub minfree: u32,
    pub maxcontig: u32,
    pub maxbpg: u32,
    pub maxbsize: u32,
    pub optimization: Optimization,
    pub avgfilesize: u32,
    pub avgfpdir: u32,
    pub blocks_per_group: Option<u32>,
    pub metaspace: Option<u32>,
    pub disk: Option<Disk>,
    pub label: String,
    pub snap_dir: bool,
    pub check_hashes: bool,
    pub fs_flags: u32,
    pub root_owner: (u32, u32),
    pub notes: Vec<String>,
}

/// The geometry in sectors of [`DEV_BSIZE`] bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    pub rps: u32,
    pub nsect: u32,
    pub npsect: u32,
    pub ntrak: u32,
    pub spc: u32,
    /// `None`: as many as suit the size.
    pub cpg: Option<u32>,
    pub rotdelay_ms: u32,
    pub nrpos: u32,
    pub interleave: u32,
    pub trackskew: u32,
}

const MEGABYTE: u64 = 1 << 20;

/// The defaults in which the systems differ.
struct Defaults {
    bsize: u32,
    fsize: u32,
    /// Returns the bytes per inode for a fragment size.
    density: fn(u32) -> u32,
    minfree: u32,
    /// Bytes of the largest transfer, which `maxcontig` fills.
    transfer: u32,
}

impl Defaults {
    /// Returns the defaults of each system's `newfs.c` and `newfs.h`.
    fn of(dialect: Dialect, size: u64) -> Self {
        match dialect {
            Dialect::FreeBsd => {
                Self { bsize: 32768, fsize: 4096, density: |f| 2 * f, minfree: 8, transfer: 1 << 20 }
            }
            Dialect::NetBsd => {
                let fsize = match size {
                    s if s < 20 * MEGABYTE => 512,
                    s if s < 1000 * MEGABYTE => 1024,
                    s if s < 128 * 1024 * MEGABYTE => 2048,
                    _ => 4096,
                };
                Self { bsize: 8 * fsize, fsize, density: |f| 4 * f, minfree: 5, transfer: 65536 }
            }
            Dialect::OpenBsd => {
                Self { bsize: 16384, fsize: 2048, density: |f| 4 * f, minfree: 5, transfer: 0 }
            }
            Dialect::Bsd44 | Dialect::Apple | Dialect::OpenStep => {
                Self { bsize: 8192, fsize: 1024, density: |f| 4 * f, minfree: 5, transfer: 65536 }
            }
            Dialect::Bsd43 | Dialect::NextStep | Dialect::HpUx | Dialect::Ultrix => {
                Self { bsize: 8192, fsize: 1024, density: |_| 2048, minfree: 10, transfer: 0 }
            }
            Dialect::Sun { .. } => Self {
                bsize: 8192,
                fsize: 1024,
                density: match size >> 30 {
                    0 => |_| 2048,
                    1 => |_| 4096,
                    2 => |_| 6144,
                    _ => |_| 8192,
                },
                // 64 megabytes, but between 1 and 10 percent.
                minfree: u32::try_from((64 * MEGABYTE * 100 / size.max(1)).clamp(1, 10)).unwrap_or(10),
                transfer: 1 << 17,
            },
        }
    }
}

fn within(parameter: &'static str, value: u32, range: RangeInclusive<u32>) -> Result<u32> {
    if range.contains(&value) {
        Ok(value)
    } else {
        let allowed = format!("{} to {}", range.start(), range.end());
        Err(ParameterError::new(parameter, value, allowed))
    }
}

/// Bytes per inode: at least so many that inodes take no more than half of the space.
const DENSITIES: RangeInclusive<u32> = MIN_DENSITY..=i32::MAX.cast_unsigned();
pub(super) const MIN_DENSITY: u32 = 512;
const POSITIVE: RangeInclusive<u32> = 1..=i32::MAX.cast_unsigned();

impl Parameters {
    fn has_geometry(&self) -> bool {
        self.geometry != Geometry::default()
    }

    fn pick_dialect(&self) -> Result<Dialect> {
        let default = match self.format {
            Format::Old => Dialect::Bsd43,
            Format::Ufs1 if self.has_geometry() => Dialect::Bsd44,
            _ => Dialect::FreeBsd,
        };
        let dialect = self.dialect.unwrap_or(default);
        let allowed = match (self.format, dialect) {
            (_, only_read) if only_read.is_only_read() => "file systems of this dialect are only read",
            (Format::Old, Dialect::Bsd43) => return Ok(dialect),
            (Format::Old, _) => "the old format is made as 4.3BSD makes it (43bsd)",
            (_, Dialect::Bsd43) => "4.3BSD knows only the old format (-O 0)",
            (Format::Ufs2, Dialect::Sun { .. }) => "Solaris has UFS1 only (-O 1)",
            (Format::Ufs2, Dialect::Apple) => "Apple has UFS1 only (-O 1)",
            _ => return Ok(dialect),
        };
        Err(ParameterError::new("dialect", dialect, allowed))
    }

    fn pick_endian(&self, dialect: Dialect) -> Result<Endian> {
        let own = match dialect {
            // Macintoshes kept it when their processors were little-endian.
            Dialect::Sun { x86: false } | Dialect::Apple => Endian::Big,
            _ => Endian::Little,
        };
        let endian = self.endian.unwrap_or(own);
        match dialect {
            _ if endian == Endian::Pdp => Err(ParameterError::new("byte order", "PDP-11", "little or big")),
            // The two differ in more than the order of bytes, and are distinguished by it.
            Dialect::Sun { x86 } if endian != own => {
                let allowed =
                    if x86 { "Solaris on x86 is little-endian" } else { "on SPARC it is big-endian" };
                let named = if endian == Endian::Big { "big" } else { "little" };
                Err(ParameterError::new("byte order", named, allowed))
            }
            _ => Ok(endian),
        }
    }

    pub(super) fn resolve(&self) -> Result<Resolved> {
        let dialect = self.pick_dialect()?;
        let mut notes = Vec::new();
        let endian = self.pick_endian(dialect)?;
        if self.static_tables && self.format != Format::Old {
            return Err(ParameterError::new("static tables", "on", "only in the old format (-O 0)"));
        }
        let defaults = Defaults::of(dialect, self.size_bytes);
        let sector_bytes = self.sector_bytes;
        if !sector_bytes.is_power_of_two() || !(DEV_BSIZE..=MAXBSIZE).contains(&sector_bytes) {
            let allowed = format!("a power of two, {DEV_BSIZE} to {MAXBSIZE}");
            return Err(ParameterError::new("sector size", sector_bytes, allowed));
        }
        let (bsize, fsize) = self.block_sizes(&defaults)?;
        let minfree = within("minfree", self.minfree.unwrap_or(defaults.minfree), 0..=99)?;
        let mut optimization = self.optimization.unwrap_or(Optimization::Time);
        if dialect == Dialect::FreeBsd && minfree < defaults.minfree && optimization == Optimization::Time {
            notes.push(format!("optimization changed to space: minfree is below {}%", defaults.minfree));
            optimization = Optimization::Space;
        }
        let pointer = match (self.format, dialect) {
            (Format::Ufs2, _) | (_, Dialect::FreeBsd) => 8,
            _ => 4,
        };
        let maxbpg = if self.static_tables { fsize / 4 } else { bsize / pointer };
        let maxcontig = self.maxcontig.unwrap_or((defaults.transfer / bsize).max(1));
        let maxbsize = self.maxbsize.unwrap_or(bsize);
        if !maxbsize.is_power_of_two() || !(bsize..=16 * bsize).contains(&maxbsize) {
            let allowed = format!("a power of two, {bsize} to {}", 16 * bsize);
            return Err(ParameterError::new("extent size", maxbsize, allowed));
        }
        let allowed_flags = match dialect {
            Dialect::FreeBsd => FS_DOSOFTDEP | FS_MULTILABEL | FS_TRIM,
            Dialect::NetBsd => FS_DOSOFTDEP,
            _ => 0,
        };
        let (uid, gid) = self.root_owner;
        if self.format == Format::Old && uid.max(gid) > 0xffff {
            let allowed = "numbers up to 65535 in the old format";
            return Err(ParameterError::new("root owner", format!("{uid}:{gid}"), allowed));
        }
        if self.fs_flags & !allowed_flags != 0 {
            let allowed = format!("bits of {allowed_flags:#x} for {dialect}");
            return Err(ParameterError::new("fs_flags", format!("{:#x}", self.fs_flags), allowed));
        }
        let resolved = Resolved {
            size_bytes: self.size_bytes,
            format: self.format,
            endian,
            dialect,
            static_tables: self.static_tables,
            sector_bytes,
            bsize,
            fsize,
            density: within("density", self.density.unwrap_or((defaults.density)(fsize)), DENSITIES)?,
            minfree,
            maxcontig: within("maxcontig", maxcontig, 1..=256)?.max(maxbsize / bsize),
            maxbpg: within("maxbpg", self.maxbpg.unwrap_or(maxbpg), POSITIVE)?,
            maxbsize,
            optimization,
            avgfilesize: within("avgfilesize", self.avgfilesize.unwrap_or(16384), POSITIVE)?,
            avgfpdir: within("avgfpdir", self.avgfpdir.unwrap_or(64), POSITIVE)?,
            blocks_per_group: self
                .blocks_per_group
                .map(|blocks| within("blocks per group", blocks, 1..=(i32::MAX.cast_unsigned() / 16)))
                .transpose()?,
            metaspace: self.metaspace,
            disk: self.disk(dialect)?,
            label: self.checked_label(dialect)?,
            snap_dir: self.snap_dir && dialect == Dialect::FreeBsd,
            check_hashes: self.check_hashes && dialect == Dialect::FreeBsd && self.format == Format::Ufs2,
            fs_flags: self.fs_flags,
            root_owner: self.root_owner,
            notes,
        };
        if resolved.disk.is_some() && resolved.blocks_per_group.is_some() {
            return Err(ParameterError::new(
                "blocks per group",
                self.blocks_per_group.unwrap_or_default(),
                "with a disk geometry, name the cylinders per group instead",
            ));
        }
        Ok(resolved)
    }

    /// Returns where only one of the two was asked for, the other follows it.
    fn block_sizes(&self, defaults: &Defaults) -> Result<(u32, u32)> {
        let least = self.sector_bytes.max(DEV_BSIZE);
        let fsize = match (self.fsize, self.bsize) {
            (Some(fsize), _) => fsize,
            (None, Some(bsize)) => defaults.fsize.clamp(bsize / 8, bsize.max(bsize / 8)).max(least),
            (None, None) => defaults.fsize.max(least),
        };
        let bsize = self.bsize.unwrap_or_else(|| defaults.bsize.min(fsize.saturating_mul(8)).max(fsize));
        if !bsize.is_power_of_two() || !(MINBSIZE..=MAXBSIZE).contains(&bsize) {
            let allowed = format!("a power of two, {MINBSIZE} to {MAXBSIZE}");
            return Err(ParameterError::new("block size", bsize, allowed));
        }
        let least = least.max(bsize / 8);
        if !fsize.is_power_of_two() || !(least..=bsize).contains(&fsize) {
            let allowed = format!("a power of two, {least} to {bsize}");
            return Err(ParameterError::new("fragment size", fsize, allowed));
        }
        Ok((bsize, fsize))
    }

    fn checked_label(&self, dialect: Dialect) -> Result<String> {
        let label = self.label.clone().unwrap_or_default();
        let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        if label.len() > 31 || !plain {
            let allowed = "at most 31 letters, digits, '-' and '_'";
            return Err(ParameterError::new("label", format!("{label:?}"), allowed));
        }
        let has_volname =
            matches!(dialect, Dialect::FreeBsd | Dialect::NetBsd | Dialect::OpenBsd | Dialect::Apple)
                || self.format == Format::Ufs2;
        if !label.is_empty() && !has_volname {
            let allowed = format!("superblocks of {dialect} have no volume name");
            return Err(ParameterError::new("label", format!("{label:?}"), allowed));
        }
        Ok(label)
    }

    /// Returns the geometry where this system's file systems have one.
    fn disk(&self, dialect: Dialect) -> Result<Option<Disk>> {
        let g = &self.geometry;
        let real = matches!(dialect.base(), Dialect::Bsd43 | Dialect::Bsd44 | Dialect::Sun { .. });
        if !real || self.format == Format::Ufs2 {
            return if self.has_geometry() {
                let allowed = "only UFS1 as 44bsd, 43bsd, apple or sun make it records one";
                Err(ParameterError::new("disk geometry", "given", allowed))
            } else {
                Ok(None)
            };
        }
        // What is faked where nothing is known: one track of 4096 sectors (4.4BSD and after), or
        // the disk that mkfs of 4.2BSD and Solaris assumed.
        let (nsect, ntrak, nrpos) = if dialect.base() == Dialect::Bsd44 { (4096, 1, 1) } else { (32, 16, 8) };
        let scale = self.sector_bytes / DEV_BSIZE;
        let sectors = |parameter, value: u32, range: RangeInclusive<u32>| {
            within(parameter, value, range).map(|sectors| sectors * scale)
        };
        let nsect = match g.nsect {
            Some(nsect) => sectors("sectors per track", nsect, 1..=65535)?,
            None => nsect,
        };
        let ntrak = within("tracks per cylinder", g.ntrak.unwrap_or(ntrak), 1..=65535)?;
        let trackspares = sectors("spare sectors per track", g.trackspares.unwrap_or(0), 0..=65535)?;
        let cylspares = sectors("spare sectors per cylinder", g.cylspares.unwrap_or(0), 0..=65535)?;
        let whole = u64::from(nsect) * u64::from(ntrak);
        let spc = u32::try_from(whole).unwrap_or(u32::MAX).saturating_sub(cylspares);
        if spc < nsect || spc >= 1 << 24 {
            let allowed = "a cylinder holds at least one track and less than 2^24 sectors of 512 bytes";
            return Err(ParameterError::new("sectors per cylinder", spc, allowed));
        }
        let nrpos = match g.nrpos {
            Some(nrpos) => within("rotational positions", nrpos, 1..=64)?,
            None => nrpos,
        };
        if self.static_tables && nrpos != 8 {
            return Err(ParameterError::new("rotational positions", nrpos, "8 in the format of 4.2BSD"));
        }
        for (parameter, value) in [
            ("spare sectors per track", g.trackspares),
            ("track skew", g.trackskew),
            ("interleave", g.interleave.filter(|&n| n != 1)),
        ] {
            if self.static_tables
                && let Some(value) = value.filter(|&n| n != 0)
            {
                return Err(ParameterError::new(parameter, value, "4.2BSD does not record it"));
            }
        }
        let rotdelay = match dialect {
            Dialect::Bsd43 if self.static_tables => 2,
            Dialect::Bsd43 => 4,
            _ => 0,
        };
        let most_cylinders = if self.static_tables { 32 } else { 32767 };
        Ok(Some(Disk {
            rps: within("rpm", g.rpm.unwrap_or(3600), 60..=600_000)? / 60,
            nsect,
            npsect: nsect + trackspares,
            ntrak,
            spc,
            cpg: g.cpg.map(|cpg| within("cylinders per group", cpg, 1..=most_cylinders)).transpose()?,
            rotdelay_ms: within("rotational delay", g.rotdelay_ms.unwrap_or(rotdelay), 0..=1000)?,
            nrpos,
            interleave: within("interleave", g.interleave.unwrap_or(1), 1..=nsect)?,
            trackskew: sectors("track skew", g.trackskew.unwrap_or(0), 0..=nsect / scale)?,
        }))
    }
}
