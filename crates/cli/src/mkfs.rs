//! The parameters of a new file system on the command line, and making it.

use crate::error::Result;
use crate::interruptible::Interruptible;
use crate::progress::Progress;
use crate::text;
use spindle::newfs::{self, Format, Geometry, Optimization, Parameters, Plan};
use spindle_device::Device;
use spindle_ffs::ondisk::flags;
use spindle_ffs::{Dialect, MAX_LOG_BYTES};
use spindle_ondisk::Endian;
use std::ops::RangeInclusive;

/// The type of the file system to make.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The fast file system.
    Ffs,
    /// The multi-structured file system.
    Mfs,
    /// An old file system.
    Old(spindle_v7::Format),
}

/// Parses the type of a file system.
pub fn parse_kind(name: &str) -> Result<Kind, String> {
    match name {
        "ffs" | "ufs" => Ok(Kind::Ffs),
        "mfs" => Ok(Kind::Mfs),
        _ => name
            .parse()
            .map(Kind::Old)
            .map_err(|e: String| format!("neither ffs nor mfs nor an old file system: {e}")),
    }
}

/// The parameters of newfs.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "File system")]
pub struct FsArgs {
    /// Format: 2 for UFS2, 1 for UFS1, 0 for UFS1 with the inodes and directories of 4.3BSD
    #[arg(short = 'O', long = "format", value_name = "0|1|2", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    format: u8,
    /// System whose newfs to follow: freebsd, netbsd, openbsd, sun, sunx86, 43bsd, 44bsd or apple
    #[arg(long, value_parser = parse_dialect)]
    dialect: Option<Dialect>,
    /// Byte order: little or big (default: that of the dialect's machines)
    #[arg(long, value_name = "ORDER", value_parser = parse_endian)]
    endian: Option<Endian>,
    /// Block size in bytes, 4096 to 65536
    #[arg(short = 'b', long, value_name = "BYTES", value_parser = text::parse_small)]
    block_size: Option<u32>,
    /// Fragment size in bytes: the block size or a half, a quarter or an eighth of it
    #[arg(short = 'f', long, value_name = "BYTES", value_parser = text::parse_small)]
    fragment_size: Option<u32>,
    /// Bytes of space for each inode
    #[arg(short = 'i', long, value_name = "BYTES", value_parser = text::parse_small)]
    density: Option<u32>,
    /// Free space that only root may use, in percent
    #[arg(short = 'm', long, value_name = "PERCENT")]
    minfree: Option<u32>,
    /// Optimise for time or for space
    #[arg(short = 'o', long, value_name = "time|space", value_parser = parse_optimization)]
    optimization: Option<Optimization>,
    /// Blocks in a cluster, which are allocated contiguously
    #[arg(short = 'a', long, value_name = "BLOCKS")]
    maxcontig: Option<u32>,
    /// Blocks that one file may have in a cylinder group before it continues in another
    #[arg(short = 'e', long, value_name = "BLOCKS")]
    maxbpg: Option<u32>,
    /// Largest extent in bytes
    #[arg(short = 'd', long, value_name = "BYTES", value_parser = text::parse_small)]
    max_extent_size: Option<u32>,
    /// Maximum number of blocks in a cylinder group
    #[arg(short = 'c', long, value_name = "BLOCKS")]
    blocks_per_group: Option<u32>,
    /// Expected size of a file in bytes
    #[arg(short = 'g', long, value_name = "BYTES", value_parser = text::parse_small)]
    avgfilesize: Option<u32>,
    /// Expected number of files in a directory
    #[arg(short = 'h', long, value_name = "FILES")]
    avgfpdir: Option<u32>,
    /// Fragments reserved for metadata in each cylinder group
    #[arg(short = 'k', long, value_name = "FRAGMENTS")]
    metaspace: Option<u32>,
    /// Volume name: letters, digits, - and _
    #[arg(short = 'L', long, value_name = "NAME")]
    label: Option<String>,
    /// Use soft updates when BSD mounts it
    #[arg(short = 'U', long)]
    soft_updates: bool,
    /// Give each file a MAC label when BSD mounts it
    #[arg(short = 'l', long)]
    multilabel: bool,
    /// Send TRIM for freed blocks when BSD mounts it
    #[arg(long)]
    trim: bool,
    /// Do not create the directory .snap
    #[arg(short = 'n', long)]
    no_snap_dir: bool,
    /// Do not use check-hashes (UFS2 of FreeBSD)
    #[arg(long)]
    no_check_hashes: bool,
    /// Owner of the root directory, as two numbers (default, and without a value: the user who
    /// runs the command, who could not use the file system otherwise)
    #[arg(long, value_name = "UID:GID", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = parse_owner)]
    root_owner: Option<(u32, u32)>,
    /// Sector size of the device in bytes
    #[arg(short = 'S', long, value_name = "BYTES", default_value_t = 512, value_parser = text::parse_small)]
    sector_size: u32,
    /// With -O 0: rotational tables and maps at the fixed places of 4.2BSD
    #[arg(long)]
    static_tables: bool,
    #[command(flatten)]
    geometry: GeometryArgs,
}

/// The disk geometry that a UFS1 file system is laid out for.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Disk geometry (UFS1)")]
struct GeometryArgs {
    /// Revolutions per minute
    #[arg(long, value_name = "RPM")]
    rpm: Option<u32>,
    /// Data sectors on a track
    #[arg(long, value_name = "SECTORS")]
    sectors_per_track: Option<u32>,
    /// Tracks in a cylinder
    #[arg(long, value_name = "TRACKS")]
    tracks_per_cylinder: Option<u32>,
    /// Cylinders in a cylinder group
    #[arg(long, value_name = "CYLINDERS")]
    cylinders_per_group: Option<u32>,
    /// Milliseconds before the next transfer on the same cylinder can start
    #[arg(long, value_name = "MS")]
    rotdelay: Option<u32>,
    /// Number of rotational positions to distinguish
    #[arg(long, value_name = "COUNT")]
    rotational_positions: Option<u32>,
    /// Interleave of the sectors: 1 for none
    #[arg(long, value_name = "COUNT")]
    interleave: Option<u32>,
    /// Sectors of skew from track to track
    #[arg(long, value_name = "SECTORS")]
    track_skew: Option<u32>,
    /// Spare sectors at the end of each track
    #[arg(long, value_name = "SECTORS")]
    track_spares: Option<u32>,
    /// Spare sectors at the end of each cylinder
    #[arg(long, value_name = "SECTORS")]
    cylinder_spares: Option<u32>,
}

fn parse_dialect(name: &str) -> Result<Dialect, String> {
    name.parse()
}

fn parse_endian(name: &str) -> Result<Endian, String> {
    match name {
        "little" | "le" => Ok(Endian::Little),
        "big" | "be" => Ok(Endian::Big),
        _ => Err("give little or big".into()),
    }
}

/// Parses `time` or `space`.
pub fn parse_optimization(name: &str) -> Result<Optimization, String> {
    match name {
        "time" => Ok(Optimization::Time),
        "space" => Ok(Optimization::Space),
        _ => Err("give time or space".into()),
    }
}

/// Returns the user and the group who run the command; 0 and 0 for root in any group.
fn caller() -> (u32, u32) {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() { (0, 0) } else { (uid.as_raw(), gid.as_raw()) }
}

/// Parses a user and a group, 1000:1000; nothing stands for those who run the command.
fn parse_owner(text: &str) -> Result<(u32, u32), String> {
    if text.is_empty() {
        return Ok(caller());
    }
    let number = |text: &str| text.parse().ok().filter(|&id| id < u32::MAX);
    let owner = text.split_once(':').and_then(|(uid, gid)| Some((number(uid)?, number(gid)?)));
    owner.ok_or_else(|| "give two numbers, as 1000:1000".into())
}

impl FsArgs {
    /// Returns the volume name.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns the block size in bytes.
    pub fn block_size(&self) -> Option<u32> {
        self.block_size
    }

    /// Returns true if a parameter other than the block size is set that only the fast file system
    /// has.
    pub fn is_for_ffs_only(&self) -> bool {
        Parameters { bsize: None, root_owner: (0, 0), ..self.parameters(0) } != Parameters::new(0)
    }

    /// Returns true if a parameter other than the volume name is set that only the fast file system
    /// has.
    pub fn is_for_ffs(&self) -> bool {
        Parameters { label: None, root_owner: (0, 0), ..self.parameters(0) } != Parameters::new(0)
    }

    /// Returns the user and group that the root directory is to have, if they are given.
    pub fn root_owner(&self) -> Option<(u32, u32)> {
        self.root_owner
    }

    /// Returns the user and group that the root directory of a new file system gets.
    pub fn owner_of_root(&self) -> (u32, u32) {
        self.root_owner.unwrap_or_else(caller)
    }

    /// Returns the parameters of newfs for a file system of `size_bytes`.
    pub fn parameters(&self, size_bytes: u64) -> Parameters {
        let g = &self.geometry;
        let flag = |on: bool, bit: u32| if on { bit } else { 0 };
        Parameters {
            format: match self.format {
                0 => Format::Old,
                1 => Format::Ufs1,
                _ => Format::Ufs2,
            },
            endian: self.endian,
            dialect: self.dialect,
            static_tables: self.static_tables,
            sector_bytes: self.sector_size,
            bsize: self.block_size,
            fsize: self.fragment_size,
            density: self.density,
            minfree: self.minfree,
            maxcontig: self.maxcontig,
            maxbpg: self.maxbpg,
            maxbsize: self.max_extent_size,
            optimization: self.optimization,
            avgfilesize: self.avgfilesize,
            avgfpdir: self.avgfpdir,
            blocks_per_group: self.blocks_per_group,
            metaspace: self.metaspace,
            geometry: Geometry {
                rpm: g.rpm,
                nsect: g.sectors_per_track,
                ntrak: g.tracks_per_cylinder,
                cpg: g.cylinders_per_group,
                rotdelay_ms: g.rotdelay,
                nrpos: g.rotational_positions,
                interleave: g.interleave,
                trackskew: g.track_skew,
                trackspares: g.track_spares,
                cylspares: g.cylinder_spares,
            },
            label: self.label.clone(),
            snap_dir: !self.no_snap_dir,
            check_hashes: !self.no_check_hashes,
            fs_flags: flag(self.soft_updates, flags::FS_DOSOFTDEP)
                | flag(self.multilabel, flags::FS_MULTILABEL)
                | flag(self.trim, flags::FS_TRIM),
            root_owner: self.owner_of_root(),
            ..Parameters::new(size_bytes)
        }
    }
}

/// Writes a planned file system, with a progress bar. A signal ends it.
pub fn make(plan: &Plan, device: &dyn Device, timestamp: Option<i64>) -> Result<()> {
    let progress = Progress::new("making", None);
    let group_bytes = u64::from(plan.layout.fs_fpg) * u64::from(plan.layout.fs_fsize);
    Ok(newfs::write(plan, &Interruptible(device), timestamp, &mut || progress.add(group_bytes))?)
}

/// Size of a log in bytes; `None` for the default size of a mount's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSize(pub Option<u64>);

impl std::str::FromStr for LogSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const BYTES: RangeInclusive<u64> = 64 << 10..=MAX_LOG_BYTES;
        match text {
            "" => Ok(Self(None)),
            _ => match text::parse_bytes(text)? {
                bytes if BYTES.contains(&bytes) => Ok(Self(Some(bytes))),
                _ => Err("give 64k to 64m".into()),
            },
        }
    }
}
