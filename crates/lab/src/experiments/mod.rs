//! The experiments, a file each.

mod beyond;
mod cluster_extents;
mod cluster_iobench;
mod ffs_aging;
mod ffs_inodes;
mod ffs_table1;
mod ffs_table2;
mod log_price;
mod mfs_competing;
mod mfs_large;
mod mfs_load;
mod mfs_log;
mod mfs_scaling;
mod mfs_workload;
mod trace_activity;
mod trace_cache;

use crate::bench::storage;
use crate::bench::subject::Disk;
use crate::experiment::Run;
use crate::setting::{Papers, Setting};
use crate::{Experiment, Outcome, Progress, Result};

const FFS_1984: &str = "McKusick, Joy, Leffler and Fabry, \"A Fast File System for UNIX\", 1984";
const TRACE_1985: &str =
    "Ousterhout and others, \"A Trace-Driven Analysis of the UNIX 4.2 BSD File System\", 1985";
const CLUSTERING_1991: &str = "McVoy and Kleiman, \"Extent-like Performance from a UNIX File System\", 1991";
const MFS_1991: &str =
    "Muller and Pasquale, \"A High Performance Multi-Structured File System Design\", 1991";

/// The machines of the papers.
const CAPRICORN_UNIBUS: Papers =
    Papers { host: "vax-11-750", disk: "capricorn-unibus", geometry: Disk::CAPRICORN };
const CAPRICORN_MASSBUS: Papers = Papers { disk: "capricorn-massbus", ..CAPRICORN_UNIBUS };
const IBM: Papers = Papers { host: "sparcstation-1", disk: "ibm-0661", geometry: Disk::IBM_0661 };
const SUPER_EAGLE: Papers = storage::PAPERS;

/// Returns how an experiment runs on the machines of its paper, and on others.
const fn on(
    machines: &'static [Papers],
    run: fn(&Setting, &dyn Progress) -> Result<Outcome>,
    stand_in: Option<&'static str>,
) -> Run {
    Run::OnMachines { run, machines, stand_in, fixed_disks: None }
}

/// Why an experiment on the layout of files has no other disk or host.
const COUNTED: &str = "counts where blocks lie and has no modelled disk or host, so others make no difference; \
                       run it without --disk and --host";
/// Why an experiment without file systems has no other disk or host.
const NO_DISK: &str = "has no disk and no host; run it without --disk and --host";

/// In the order of the papers.
pub const ALL: &[Experiment] = &[
    Experiment {
        id: "ffs-table1",
        title: "space wasted by the organisation of the disk",
        paper: FFS_1984,
        section: "section 3.1, Table 1",
        stand_in: "for the 775 megabytes of user files at Berkeley: files of the sizes measured at the Vrije \
                   Universiteit in 1984, in directories of 12.6 files, and larger ones",
        run: Run::InMemory { run: ffs_table1::run, why: NO_DISK },
    },
    Experiment {
        id: "ffs-inodes",
        title: "disk accesses for inodes when a large directory is listed",
        paper: FFS_1984,
        section: "section 4",
        stand_in: "for file systems in production use: a month of synthetic use of one of 150 MB",
        run: Run::InMemory { run: ffs_inodes::run, why: COUNTED },
    },
    Experiment {
        id: "ffs-table2",
        title: "rates of reading and writing a large file",
        paper: FFS_1984,
        section: "section 4, Tables 2a and 2b",
        stand_in: "for file systems in production use: a month of synthetic use, and two weeks more",
        run: on(&[CAPRICORN_UNIBUS, CAPRICORN_MASSBUS], ffs_table2::run, None),
    },
    Experiment {
        id: "ffs-aging",
        title: "what use does to the rates of the old and the new file system",
        paper: FFS_1984,
        section: "sections 2 and 4",
        stand_in: "for weeks of use at Berkeley: half a year of synthetic use",
        run: on(&[CAPRICORN_MASSBUS], ffs_aging::run, None),
    },
    Experiment {
        id: "trace-activity",
        title: "how files are used",
        paper: TRACE_1985,
        section: "section 5, Tables III to V, figures 1 to 4",
        stand_in: "for the traces A5, E3 and C4: synthetic ones, by models of their users, programs and files that were fitted to these \
                   very tables",
        run: Run::InMemory { run: trace_activity::run, why: NO_DISK },
    },
    Experiment {
        id: "trace-cache",
        title: "disk accesses that caches of blocks need",
        paper: TRACE_1985,
        section: "section 6, Tables VI and VII, figures 5 to 7",
        stand_in: "for the trace A5: a synthetic one of the same length, by a model whose locality was fitted to Tables VI and VII: what is shown \
                   is that one such population exists, and what the simulator makes of it",
        run: Run::InMemory { run: trace_cache::run, why: NO_DISK },
    },
    Experiment {
        id: "cluster-iobench",
        title: "transfer rates with and without clusters",
        paper: CLUSTERING_1991,
        section: "figures 9 to 11",
        stand_in: "for IObench, which was internal to Sun, and of which the paper gives the names of the columns: a program that \
                   visits each block of a file of 16 MB (the size in figure 12, twice the memory) once, in requests of 8 KB, in \
                   order or shuffled, after the machine came up, until all that it wrote is on the disk; 5 of the 8 MB of \
                   memory hold pages",
        run: on(
            &[IBM],
            cluster_iobench::iobench,
            Some("for the 400 MB IBM disk: the 0661-467, with the file on its outer cylinders"),
        ),
    },
    Experiment {
        id: "cluster-cpu",
        title: "processor time with and without clusters",
        paper: CLUSTERING_1991,
        section: "figure 12",
        stand_in: "for Sun's internal benchmark: a program that touches every page of a mapped file",
        run: on(
            &[IBM],
            cluster_iobench::processor,
            Some("for its SPARCstation 1: prices derived from this very figure"),
        ),
    },
    Experiment {
        id: "cluster-extents",
        title: "how contiguous files are without preallocation",
        paper: CLUSTERING_1991,
        section: "\"Allocator details\"",
        stand_in: "for Sun's heavily fragmented /home: a year of synthetic use of a file system that is 85 % full",
        run: Run::InMemory { run: cluster_extents::run, why: COUNTED },
    },
    Experiment {
        id: "mfs-workload",
        title: "what a time-sharing system asks of its disks",
        paper: MFS_1991,
        section: "section 3, Tables 1 and 2, figure 2",
        stand_in: "for the traced system: seven programs that together make as many calls as it did, whose shares are those of \
                   Table 1 by construction, on three disks that are striped; for its name and inode caches: those of our \
                   file system, with half of 7 MB for names and attributes",
        run: on(&[SUPER_EAGLE], mfs_workload::run, None),
    },
    Experiment {
        id: "mfs-load",
        title: "service times of calls against load",
        paper: MFS_1991,
        section: "section 5.1, figure 8",
        stand_in: "for the traces: programs of ours whose calls have the shares of Table 1 and the sizes of Table 2, at random \
                   moments, 42 in a second, of which the control calls are divided by guess",
        run: on(
            &[SUPER_EAGLE],
            mfs_load::run,
            Some(
                "for its disks, of which only the kind is stated: parts of a Super Eagle for the small ones; for the \
                 host: a guess at what a machine of six MIPS takes",
            ),
        ),
    },
    Experiment {
        id: "mfs-large",
        title: "a large file in large requests, by the number of data disks",
        paper: MFS_1991,
        section: "section 5.2, figure 9",
        stand_in: "for the small disks of log and control storage, which are not named: parts of the same disk; for its memory: \
                   16 MB for files, a part of the 30 to 50 that were free; for the programs that make the requests: one that \
                   writes a new file, reads it, and visits each megabyte of it once in a shuffled order",
        run: on(&[mfs_large::TODAY, SUPER_EAGLE], mfs_large::run, None),
    },
    Experiment {
        id: "mfs-competing",
        title: "reading a large file beside other programs",
        paper: MFS_1991,
        section: "section 5.3, figure 10",
        stand_in: "for the traces of the loads: programs of ours whose calls have the shares of Table 1, made one after the other; for \
                   the request of 1 MB that competes: a file of 50 MB, read in order; for the order in the queues of the \
                   simulated disks, which is not stated: that of arrival; for disks and host: as in mfs-load",
        run: on(&[SUPER_EAGLE], mfs_competing::run, None),
    },
    Experiment {
        id: "mfs-scaling",
        title: "service times of calls by the number of disks",
        paper: MFS_1991,
        section: "section 5.4, figure 11",
        stand_in: "for traces, disks and host: as in mfs-load; each set has two more disks for its log",
        run: on(&[SUPER_EAGLE], mfs_scaling::run, None),
    },
    Experiment {
        id: "mfs-log",
        title: "appends to the log by its disks, and compaction",
        paper: MFS_1991,
        section: "section 4.5",
        stand_in: "for the disks of the log, which are not named: parts of a Super Eagle, and of one of its platters; for the \
                   programs: changes of headers that are made durable one after the other, without and with pauses",
        run: Run::OnMachines {
            run: mfs_log::run,
            machines: &[SUPER_EAGLE],
            stand_in: None,
            fixed_disks: Some(
                "lays its logs out by the tracks and platters of the Super Eagle, so another disk cannot take its \
                 place; run it without --disk",
            ),
        },
    },
    Experiment {
        id: "log-price",
        title: "what it costs that names survive a crash",
        paper: CLUSTERING_1991,
        section: "\"Further Work\", B_ORDER, which the paper does not measure",
        stand_in: "for programs that make, rename and remove files: a thousand files of 1 KB in one directory, one after the \
                   other, on a new file system",
        run: on(&log_price::MACHINES, log_price::run, None),
    },
    Experiment {
        id: "beyond",
        title: "what our best settings make of the papers' disks",
        paper: "both papers",
        section: "\"Further Work\" of 1991, and beyond",
        stand_in: "for production use: half a year of synthetic use of disks that are 80 % full before users clean up",
        run: on(
            &beyond::MACHINES,
            beyond::run,
            Some("for disks and hosts: as in the papers' experiments, and a processor of today"),
        ),
    },
];
