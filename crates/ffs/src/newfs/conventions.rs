//! The values that each system's newfs leaves in fields that do not affect the layout.
//!
//! The kernels agree on the geometry and hardly look at the rest; their checkers do, and conclude
//! from it whose file system it is. So the differences are a table, one row for each system: see
//! `docs/DIALECTS.md`.

use crate::format::dialect::Dialect;
use crate::format::ondisk::{FS_44INODEFMT, FsMark};

/// The fields in which the systems differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conventions {
    /// `fs_old_flags` says that the flags have moved to `fs_flags` (`FS_FLAGS_UPDATED`).
    pub flags_updated: bool,
    /// `fs_maxbsize` is filled in.
    pub maxbsize: bool,
    /// UFS2 has the fake disk of UFS1 too: `fs_nspf`, `fs_cpg`, `fs_nrpos`, `fs_postblformat`.
    pub disk_in_ufs2: bool,
    /// `fs_inodefmt` of UFS2.
    pub ufs2_inodefmt: i32,
    /// `cg_ncyl` of the last group of UFS1 whose groups are cylinders of a fake disk.
    pub last_ncyl: i16,
    /// Mark of the system for which it was made, where no other field says so.
    pub mark: Option<u32>,
}

impl Conventions {
    /// Returns the row of a system.
    pub const fn of(dialect: Dialect) -> Self {
        let newer = Self {
            flags_updated: true,
            maxbsize: true,
            disk_in_ufs2: false,
            ufs2_inodefmt: FS_44INODEFMT,
            last_ncyl: 1,
            mark: None,
        };
        match dialect {
            Dialect::FreeBsd => Self { ufs2_inodefmt: 0, ..newer },
            Dialect::NetBsd => Self { mark: Some(FsMark::NETBSD), ..newer },
            Dialect::OpenBsd => {
                Self { flags_updated: false, maxbsize: false, disk_in_ufs2: true, last_ncyl: 0, ..newer }
            }
            Dialect::Bsd44
            | Dialect::Apple
            | Dialect::Bsd43
            | Dialect::Sun { .. }
            | Dialect::NextStep
            | Dialect::HpUx
            | Dialect::Ultrix
            | Dialect::OpenStep => newer,
        }
    }
}
