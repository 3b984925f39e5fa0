//! The parameters of a new file system.

use crate::failure::{Failure, Result};
use pyo3::prelude::*;
use spindle::newfs::{Format, Optimization, Parameters, old};
use spindle_ffs::ondisk::flags;
use spindle_ondisk::Endian;

/// What is to be made.
pub enum Kind {
    /// A fast file system.
    Ffs,
    /// An old file system.
    Old(spindle_v7::Format),
}

/// The class `Parameters` of Python.
#[derive(FromPyObject)]
#[allow(clippy::struct_excessive_bools, reason = "they are the options of newfs")]
pub struct Given {
    kind: String,
    format: u8,
    dialect: Option<String>,
    endian: Option<String>,
    block_size: Option<u32>,
    fragment_size: Option<u32>,
    density: Option<u32>,
    minfree: Option<u32>,
    optimization: Option<String>,
    label: Option<String>,
    sector_size: u32,
    soft_updates: bool,
    snap_dir: Option<bool>,
    check_hashes: bool,
    root_owner: Option<(u32, u32)>,
}

impl Given {
    /// Returns what is to be made.
    pub fn kind(&self) -> Result<Kind> {
        let kind = match &self.kind[..] {
            "ffs" | "ufs" => return Ok(Kind::Ffs),
            "mfs" => {
                let remedy = "make it with spindle newfs -t mfs".into();
                return Err(Failure::Unsupported("a set of devices cannot be made here".into(), remedy));
            }
            other => other,
        };
        let neither = |why: String| Failure::Value(format!("neither ffs nor an old file system: {why}"));
        let format = kind.parse().map_err(neither)?;
        // The size is no parameter: all others are those of the fast file system.
        let (name, plain) = (self.label.as_ref(), Parameters { root_owner: (0, 0), ..Parameters::new(0) });
        let ours = Parameters { label: None, root_owner: (0, 0), snap_dir: true, ..self.ffs(0, true)? };
        if ours != plain || name.is_some_and(|name| name.len() > 6) {
            let what = "an old file system has no other parameters than a label of six bytes";
            return Err(Failure::Value(what.into()));
        }
        Ok(Kind::Old(format))
    }

    /// Returns the user and the group of the root directory: who runs the program, if they are not
    /// given; 0 and 0 for root in any group.
    fn owner_of_root(&self) -> (u32, u32) {
        self.root_owner.unwrap_or_else(|| {
            let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
            if uid.is_root() { (0, 0) } else { (uid.as_raw(), gid.as_raw()) }
        })
    }

    /// Returns the user and group that the root directory is to have, if they are given.
    pub const fn root_owner(&self) -> Option<(u32, u32)> {
        self.root_owner
    }

    /// Returns the parameters of a fast file system of `size_bytes`.
    pub fn ffs(&self, size_bytes: u64, snap_dir: bool) -> Result<Parameters> {
        let word = |name: &str, given: &str, known: &str| {
            Err(Failure::Value(format!("{name} is {given}, and can be {known}")))
        };
        let plain = Parameters::new(size_bytes);
        Ok(Parameters {
            format: match self.format {
                0 => Format::Old,
                1 => Format::Ufs1,
                2 => Format::Ufs2,
                other => return word("format", &other.to_string(), "2, 1 or 0"),
            },
            endian: match self.endian.as_deref() {
                None => None,
                Some("little") => Some(Endian::Little),
                Some("big") => Some(Endian::Big),
                Some(other) => return word("endian", other, "little or big"),
            },
            dialect: self.dialect.as_deref().map(str::parse).transpose().map_err(Failure::Value)?,
            sector_bytes: self.sector_size,
            bsize: self.block_size,
            fsize: self.fragment_size,
            density: self.density,
            minfree: self.minfree,
            optimization: match self.optimization.as_deref() {
                None => None,
                Some("time") => Some(Optimization::Time),
                Some("space") => Some(Optimization::Space),
                Some(other) => return word("optimization", other, "time or space"),
            },
            label: self.label.clone(),
            snap_dir: self.snap_dir.unwrap_or(snap_dir),
            check_hashes: self.check_hashes,
            fs_flags: if self.soft_updates { flags::FS_DOSOFTDEP } else { 0 },
            root_owner: self.owner_of_root(),
            ..plain
        })
    }

    /// Returns the parameters of an old file system of `size_bytes`.
    pub fn old(&self, format: spindle_v7::Format, size_bytes: u64) -> old::Parameters {
        let name = self.label.clone().unwrap_or_default().into_bytes();
        let usual = old::Parameters::new(format, size_bytes);
        // The numbers of users have 16 bits.
        let fits = |&(uid, gid): &(u32, u32)| uid.max(gid) <= u16::MAX.into();
        let root_owner = Some(self.owner_of_root()).filter(|owner| self.root_owner.is_some() || fits(owner));
        old::Parameters { name, root_owner: root_owner.unwrap_or(usual.root_owner), ..usual }
    }
}
