//! The experiments, a file each.

mod ffs_table1;

use crate::Experiment;

const FFS_1984: &str = "McKusick, Joy, Leffler and Fabry, \"A Fast File System for UNIX\", 1984";

/// In the order of the papers.
pub const ALL: &[Experiment] = &[Experiment {
    id: "ffs-table1",
    title: "space wasted by the organisation of the disk",
    paper: FFS_1984,
    section: "section 3.1, Table 1",
    stand_in: "for the 775 megabytes of user files at Berkeley: files of the sizes measured at the Vrije Universiteit in \
               1984, in directories of 12.6 files, and larger ones",
    run: ffs_table1::run,
}];
