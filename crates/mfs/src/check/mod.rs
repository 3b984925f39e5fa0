//! The check of a whole set, in the phases of the classic checker, and its repair.
//!
//! File headers and name maps are trusted; everything else (maps of free space, counts) is computed
//! from them and compared. If the log has records, they are replayed to a copy in memory first.
//! [`check`] only reads; [`repair`] makes of everything what the check has found that it should be.
//!
//! Sets are hostile. Memory and time are bounded by the size of the set: each block and header is
//! visited a fixed number of times, an extent costs no more than what it meets, and the list of
//! findings has a limit.

mod connectivity;
mod copies;
mod cylinders;
mod finding;
mod headers;
mod maps;
mod names;
mod repair;
mod sums;

pub use finding::Finding;
pub use repair::{Repaired, repair};
pub use spindle_tree::check::{Phase, Severity};

use crate::format::extent::Extent;
use crate::format::header::{Contents, Header, NameMap};
use crate::format::layout::{ControlBlock, Layout, ROOT_INO};
use crate::format::node::Name;
use crate::format::runs::Runs;
use crate::log::{Ring, State, replay_to_copy};
use crate::set::members::Set;
use crate::set::sums::Still;
use cylinders::{CylinderState, Doubts};
use siphasher::sip::SipHasher13;
use spindle_device::{CowDevice, Device};
use spindle_vfs::{Error, FileKind, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// A finding with the path of its file.
pub type Found = spindle_tree::check::Found<Finding>;
type Findings = spindle_tree::check::Findings<Finding>;

/// Most walks through a set: each takes into account what those before have found out about
/// cylinders.
const WALKS_MAX: usize = 8;

/// The contents of a set, counted by the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Files of all kinds.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Attribute headers of all files.
    pub attribute_headers: u64,
    /// Overflow headers of all files.
    pub overflow_headers: u64,
    /// Data blocks that files hold, of all classes that can be written.
    pub used_blocks: u64,
    /// Data blocks that are free, of all classes.
    pub free_blocks: u64,
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { files, directories, used_blocks, free_blocks, .. } = self;
        write!(f, "{files} files, {directories} directories, {used_blocks} blocks used, {free_blocks} free")
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// The findings, in the order of the phases.
    pub findings: Vec<Found>,
    /// Findings beyond the limit, which are not listed.
    pub unlisted: u64,
    /// Number of all damages, listed or not, harmless or not.
    pub damages: u64,
    /// Number of damages whose repair may lose something.
    pub serious: u64,
    /// False if the log says that the set was not unmounted, or is damaged.
    pub marked_clean: bool,
    /// Number of files that were removed and are not freed yet.
    pub orphans: u64,
    /// The contents.
    pub usage: Usage,
}

impl Report {
    /// Returns true if there is no damage; notes do not count.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.damages == 0
    }

    /// Adds a finding without a path that loses nothing, before all others.
    fn add(&mut self, finding: Finding) {
        let mut one = Findings::new(1);
        one.push(finding);
        self.damages += one.damages();
        self.findings.splice(0..0, one.found(|_| None));
    }
}

/// Checks a set without changing it, reads all data that has checksums, and lists at most `limit`
/// findings. Calls `progress` when a phase begins.
///
/// # Errors
/// [`Error::Unsupported`] if a part of data storage is missing; device errors. Damage becomes
/// findings.
pub fn check(set: &Set, limit: usize, progress: &mut dyn FnMut(Phase)) -> Result<Report> {
    check_with(set, true, limit, progress)
}

/// Does the same; reads data, and compares copies of control storage, only if `all`.
fn check_with(set: &Set, all: bool, limit: usize, progress: &mut dyn FnMut(Phase)) -> Result<Report> {
    if !set.unavailable.is_empty() {
        let what = format!("a check without {}", set.unavailable.join(" and "));
        return Err(Error::unsupported(what, "make all members of the set available"));
    }
    let device: Arc<dyn Device> = Arc::new(CowDevice::new(set.space.clone()));
    let log = OpenedLog::open(set, &device, replay_to_copy)?;
    let mut checker = Checker::run(set, &device, &log.findings, limit, progress)?;
    // The log may have what a copy lacks.
    let is_a_copy_wrong = all && log.marked_clean && checker.is_a_copy_wrong(set)?;
    if all && set.layout.parameters.checksums {
        let _verification = set.verify(Arc::new(Still(device)), false);
        checker.read_data()?;
    }
    let mut report = checker.report(log.marked_clean);
    if is_a_copy_wrong {
        report.add(Finding::Copies {});
    }
    Ok(report)
}

/// The log after its replay.
struct OpenedLog {
    /// The log; none if it cannot be read.
    ring: Option<Ring>,
    findings: Vec<Finding>,
    marked_clean: bool,
}

impl OpenedLog {
    /// Opens the log of a set, and replays it to `device` in this way if the set is in use.
    ///
    /// # Errors
    /// Device errors. Damage becomes findings.
    fn open(
        set: &Set,
        device: &Arc<dyn Device>,
        replay: fn(&Ring, &dyn Device) -> Result<usize>,
    ) -> Result<Self> {
        let damaged = |error: Error| match error {
            Error::Device(_) => Err(error),
            damage => Ok(vec![Finding::Log { what: damage.problem() }]),
        };
        let (ring, state) = match set.open_log(device.clone()) {
            Ok((Some(ring), state)) => (ring, state),
            Ok((None, State { damaged, .. })) => {
                let findings = if damaged { vec![Finding::MarkedDamaged {}] } else { Vec::new() };
                return Ok(Self { ring: None, findings, marked_clean: !damaged });
            }
            Err(error) => return Ok(Self { ring: None, findings: damaged(error)?, marked_clean: false }),
        };
        let mut findings = Vec::new();
        if state.damaged {
            findings.push(Finding::MarkedDamaged {});
        }
        if state.in_use {
            findings.push(Finding::InUse {});
            if let Err(error) = replay(&ring, &**device) {
                findings.extend(damaged(error)?);
                return Ok(Self { ring: None, findings, marked_clean: false });
            }
        }
        Ok(Self { ring: Some(ring), findings, marked_clean: state == State::default() })
    }
}

/// A file.
struct File {
    kind: FileKind,
    /// What its header says.
    nlink: u16,
    parent: u64,
    size: u64,
    map: NameMap,
    /// What was found: of a directory, its names and blocks and the directory that names it.
    found_names: u64,
    found_blocks: u64,
    found_parent: u64,
    found_nlink: u16,
    /// Names found, and one that counts, with its directory.
    names: u64,
    name: Option<(u64, Name)>,
    /// Directories that it names.
    subdirectories: u64,
}

impl File {
    /// Returns a file after phase 1.
    fn new(kind: FileKind, header: &Header) -> Self {
        let map = if let Contents::Names(map) = header.contents { map } else { NameMap::default() };
        let Header { nlink, parent, size, .. } = *header;
        let (found_names, found_blocks, found_parent, found_nlink) = (0, 0, 0, 0);
        let (names, name, subdirectories) = (0, None, 0);
        Self {
            kind,
            nlink,
            parent,
            size,
            map,
            found_names,
            found_blocks,
            found_parent,
            found_nlink,
            names,
            name,
            subdirectories,
        }
    }
}

/// A name that leads to a directory.
struct Edge {
    dir: u64,
    /// Its position among the names of `dir`.
    n: usize,
    name: Name,
}

/// The state of a check, which the phases share, and what a repair needs to know.
struct Checker {
    device: Arc<dyn Device>,
    layout: Layout,
    hash: SipHasher13,
    findings: Findings,
    cylinders: Vec<CylinderState>,
    doubts: Doubts,
    files: BTreeMap<u64, File>,
    /// Headers to be cleared.
    damaged: BTreeSet<u64>,
    /// Files whose maps are damaged, as far as they can be read.
    salvaged: BTreeMap<u64, Header>,
    /// True if the header of the root directory is damaged or free.
    no_root: bool,
    /// Overflow and attribute headers that a file has, and those that none has (true: attributes).
    parts: HashSet<u64>,
    strays: BTreeMap<u64, bool>,
    /// Files whose attributes are damaged.
    bad_attributes: BTreeSet<u64>,
    /// The data blocks that files hold, by classes; those of read-only classes are not counted.
    claims: Vec<Runs>,
    /// The extents of all files, if data has checksums.
    extents: Vec<(u64, Extent)>,
    /// Sectors of the table of checksums that are damaged.
    damaged_sums: Vec<u64>,
    /// The parts of files whose data blocks other files have.
    overlaps: BTreeMap<u64, Vec<Extent>>,
    /// Blocks of names that a directory has.
    nodes: HashSet<ControlBlock>,
    /// Blocks and headers that something leads to that is wrong: not to be used before that is put
    /// right.
    tied_blocks: HashSet<ControlBlock>,
    tied_headers: HashSet<u64>,
    /// The leaves of all directories, if one of them is looked for.
    leaves: Option<BTreeMap<u64, Vec<ControlBlock>>>,
    /// Directories whose name maps must be built again, and the names that are left out.
    rebuild: BTreeSet<u64>,
    dropped: BTreeMap<u64, BTreeSet<usize>>,
    /// All names of each directory.
    edges: BTreeMap<u64, Vec<Edge>>,
    /// Files and directories that need a name.
    lost: BTreeSet<u64>,
    orphans: BTreeSet<u64>,
    usage: Usage,
}

impl Checker {
    /// Runs all phases on `device`, control and data storage after the replay of the log. The
    /// findings begin with `first`.
    fn run(
        set: &Set,
        device: &Arc<dyn Device>,
        first: &[Finding],
        limit: usize,
        progress: &mut dyn FnMut(Phase),
    ) -> Result<Self> {
        let mut settled = Doubts::new();
        for walk in 1.. {
            let mut checker = Self::new(set, device.clone(), limit);
            for finding in first {
                checker.findings.push(finding.clone());
            }
            progress(Phase::Setup);
            checker.read_cylinders(&settled)?;
            progress(Phase::Inodes);
            checker.headers()?;
            progress(Phase::Names);
            checker.names()?;
            if walk < WALKS_MAX && checker.settle(&mut settled) {
                continue;
            }
            progress(Phase::Connectivity);
            checker.connectivity();
            progress(Phase::Links);
            checker.links();
            progress(Phase::Groups);
            checker.compare_cylinders();
            checker.compare_pages()?;
            checker.compare_sums()?;
            checker.usage.used_blocks = checker.claims.iter().map(Runs::held).sum();
            checker.usage.free_blocks = checker.layout.writable_blocks() - checker.usage.used_blocks;
            return Ok(checker);
        }
        unreachable!("the last walk returns")
    }

    fn new(set: &Set, device: Arc<dyn Device>, limit: usize) -> Self {
        Self {
            device,
            hash: SipHasher13::new_with_key(&set.label.parameters.hash_key),
            findings: Findings::new(limit),
            cylinders: Vec::new(),
            doubts: Doubts::new(),
            files: BTreeMap::new(),
            damaged: BTreeSet::new(),
            salvaged: BTreeMap::new(),
            no_root: false,
            parts: HashSet::new(),
            bad_attributes: BTreeSet::new(),
            strays: BTreeMap::new(),
            claims: set.layout.classes.iter().map(|class| Runs::new(class.blocks())).collect(),
            extents: Vec::new(),
            damaged_sums: Vec::new(),
            overlaps: BTreeMap::new(),
            nodes: HashSet::new(),
            tied_blocks: HashSet::new(),
            tied_headers: HashSet::new(),
            leaves: None,
            rebuild: BTreeSet::new(),
            dropped: BTreeMap::new(),
            edges: BTreeMap::new(),
            lost: BTreeSet::new(),
            orphans: BTreeSet::new(),
            usage: Usage::default(),
            layout: set.layout.clone(),
        }
    }

    fn report(self, marked_clean: bool) -> Report {
        let Self { findings, usage, files, orphans, .. } = self;
        let (unlisted, damages, serious) = (findings.unlisted(), findings.damages(), findings.serious());
        let findings = findings.found(|ino| path_of(&files, ino));
        Report { findings, unlisted, damages, serious, marked_clean, orphans: orphans.len() as u64, usage }
    }

    /// Reads whole sectors, at least `len` bytes.
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len.next_multiple_of(self.device.info().sector_bytes as usize)];
        self.device.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns the numbers of all directories.
    fn directories(&self) -> impl Iterator<Item = u64> + '_ {
        self.files.iter().filter(|(_, file)| file.kind == FileKind::Directory).map(|(&ino, _)| ino)
    }
}

fn path_of(files: &BTreeMap<u64, File>, ino: u64) -> Option<String> {
    let (mut path, mut at) = (String::new(), ino);
    // Damaged directories may form a ring.
    for _ in 0..1000 {
        if at == ROOT_INO {
            return Some(if path.is_empty() { "/".into() } else { path });
        }
        let (parent, name) = files.get(&at)?.name.as_ref()?;
        path = format!("/{}{path}", String::from_utf8_lossy(name));
        at = *parent;
    }
    None
}
