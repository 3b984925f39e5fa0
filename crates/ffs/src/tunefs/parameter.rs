//! The parameters that can be tuned: names, units, which formats have them, and where each keeps
//! them.

use crate::format::acl;
use crate::format::dialect::Dialect;
use crate::format::ondisk::{FS_OPTSPACE, FS_OPTTIME, flags};
use crate::format::superblock::Superblock;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that can be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// `fs_maxcontig`: blocks in a cluster; before a rotational delay, where there is one.
    Maxcontig,
    /// `fs_rotdelay`: milliseconds between blocks of a file on a track (UFS1 with a disk geometry).
    Rotdelay,
    /// `fs_maxbpg`: blocks of one file in a cylinder group before it moves on.
    Maxbpg,
    /// `fs_avgfilesize`: expected size of a file in bytes.
    Avgfilesize,
    /// `fs_minfree`: the reserve in percent.
    Minfree,
    /// `fs_optim`: what is saved, time or space.
    Optimization,
    /// `fs_avgfpdir`: expected files in a directory.
    Avgfpdir,
    /// `fs_volname`: the volume name.
    Label,
    /// Soft updates, used when BSD mounts it.
    SoftUpdates,
    /// Access control lists of POSIX.1e.
    PosixAcls,
    /// Access control lists of `NFSv4`.
    Nfs4Acls,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Maxcontig,
        Self::Rotdelay,
        Self::Maxbpg,
        Self::Avgfilesize,
        Self::Minfree,
        Self::Optimization,
        Self::Avgfpdir,
        Self::Label,
        Self::SoftUpdates,
        Self::PosixAcls,
        Self::Nfs4Acls,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Maxcontig => "maxcontig",
            Self::Rotdelay => "rotdelay",
            Self::Maxbpg => "maxbpg",
            Self::Avgfilesize => "avgfilesize",
            Self::Minfree => "minfree",
            Self::Optimization => "optimization",
            Self::Avgfpdir => "avgfpdir",
            Self::Label => "label",
            Self::SoftUpdates => "soft updates",
            Self::PosixAcls => "POSIX.1e ACLs",
            Self::Nfs4Acls => "NFSv4 ACLs",
        }
    }

    /// Returns the unit of its values with the blank before it, empty where they have none.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Maxcontig | Self::Maxbpg => " blocks",
            Self::Rotdelay => " ms",
            Self::Avgfilesize => " bytes",
            Self::Minfree => "%",
            Self::Avgfpdir => " files",
            Self::Optimization | Self::Label | Self::SoftUpdates | Self::PosixAcls | Self::Nfs4Acls => "",
        }
    }
}

/// The value of a [`Parameter`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number in the parameter's unit.
    Number(i64),
    /// A word; of a volume name that is not UTF-8, what is not is replaced.
    Word(String),
    /// On or off.
    Switch(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
            Self::Switch(on) => f.write_str(if *on { "enabled" } else { "disabled" }),
        }
    }
}

/// Returns the values of all parameters that this format has.
#[must_use]
pub fn settings(superblock: &Superblock) -> Vec<(Parameter, Value)> {
    Parameter::ALL
        .into_iter()
        .filter(|&parameter| lacks(superblock, parameter).is_none())
        .map(|parameter| (parameter, value(superblock, parameter)))
        .collect()
}

/// Returns the reason why this format does not have the parameter, as the rest of a sentence;
/// `None` if it has it.
pub(super) fn lacks(superblock: &Superblock, parameter: Parameter) -> Option<String> {
    let (dialect, newer) = (superblock.dialect, superblock.has_new_fields());
    match parameter {
        Parameter::Maxcontig | Parameter::Maxbpg | Parameter::Minfree | Parameter::Optimization => None,
        Parameter::Rotdelay => {
            newer.then(|| "only UFS1 as it was before UFS2 came lays files out by rotation".into())
        }
        Parameter::Avgfilesize | Parameter::Avgfpdir | Parameter::Label => (!newer)
            .then(|| format!("a superblock of {dialect} without the fields of UFS2 has no place for it")),
        // On OpenBSD it was an option of mount, NetBSD dropped it for its journal, and Solaris
        // never had it.
        Parameter::SoftUpdates => (!matches!(dialect, Dialect::FreeBsd | Dialect::Bsd44))
            .then(|| format!("{dialect} does not keep it in the superblock")),
        Parameter::PosixAcls | Parameter::Nfs4Acls => (!superblock.can_have_acls()).then(|| {
            format!("{dialect} has none here: only UFS2 of FreeBSD and UFS2ea of NetBSD keep them in inodes")
        }),
    }
}

/// Returns the value of a parameter, wherever this format keeps it.
pub(super) fn value(superblock: &Superblock, parameter: Parameter) -> Value {
    let fs = &superblock.fs;
    match parameter {
        Parameter::Maxcontig => Value::Number(fs.fs_maxcontig.into()),
        Parameter::Rotdelay => Value::Number(fs.fs_old_rotdelay.into()),
        Parameter::Maxbpg => Value::Number(fs.fs_maxbpg.into()),
        Parameter::Avgfilesize => Value::Number(fs.fs_avgfilesize.into()),
        Parameter::Minfree => Value::Number(fs.fs_minfree.into()),
        Parameter::Optimization => match fs.fs_optim {
            FS_OPTTIME => Value::Word("time".into()),
            FS_OPTSPACE => Value::Word("space".into()),
            other => Value::Number(other.into()),
        },
        Parameter::Avgfpdir => Value::Number(fs.fs_avgfpdir.into()),
        Parameter::Label => {
            let name = fs.fs_volname.split(|&byte| byte == 0).next().unwrap_or_default();
            Value::Word(String::from_utf8_lossy(name).into_owned())
        }
        Parameter::SoftUpdates => Value::Switch(superblock.flags() & flags::FS_DOSOFTDEP != 0),
        Parameter::PosixAcls => Value::Switch(superblock.flags() & flags::FS_ACLS != 0),
        Parameter::Nfs4Acls => {
            let flag = acl::nfs4_flag(superblock.dialect).unwrap_or(0);
            Value::Switch(superblock.flags() & flag != 0)
        }
    }
}
