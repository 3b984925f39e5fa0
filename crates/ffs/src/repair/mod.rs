//! The repair of a file system.
//!
//! The one idea: repairs are made to a copy-on-write device over the image, and checked there. A
//! *round* checks the planned state and has the first of these stages change it that finds anything
//! to do:
//!
//! 1. the superblock and its copies;
//! 2. groups that cannot be used, and inodes that a group hides;
//! 3. what contradicts itself in one inode;
//! 4. pointers that lead nowhere, and blocks of two files;
//! 5. sizes and counts of blocks;
//! 6. the root, the blocks of directories, their entries;
//! 7. loops, counts of names, inodes that were removed;
//! 8. the maps and counts of groups, the summaries and the totals;
//! 9. files without names, which get some in `lost+found`;
//! 10. the files of quotas inside the file system.
//!
//! When a check finds nothing more, the difference between the planned state and the image is what
//! has to be written ([`Plan`]). If it finds something that no stage can repair, nothing is.
//!
//! # Crashes
//!
//! The superblock says first that the file system is not clean, names no log, which could be
//! replayed over the repair, and has a time of its last mount that the journal of FreeBSD's soft
//! updates does not have, for the same reason. Then comes what goes to space that was free, to
//! which nothing leads yet; then everything else, in any order; at the end the superblock says
//! "clean". Barriers are in between. Inodes and directory chunks never cross a sector. So a repair
//! that was cut leaves files as they were or as they will be, and the next one comes to the same
//! contents. What [`journal`] plans has an order of its own.

mod blocks;
pub(crate) mod chunk;
mod groups;
mod image;
mod inodes;
mod journal;
mod links;
mod lost;
mod names;
mod plan;
mod quotas;
mod redo;
mod remedy;
mod snapshots;
mod space;
mod superblock;
mod undo;

pub(crate) use blocks::Copy;
use blocks::put_pointer;
pub(crate) use groups::seal;
pub(crate) use image::Image;
pub use journal::{Journal, Recovery, journal};
pub use lost::find_log;
pub(crate) use plan::Meanwhile;
pub use plan::Plan;
pub use quotas::switch_quotas;
pub(crate) use redo::Redo;
pub use redo::{resume, resumed};
pub use remedy::{Remedy, remedy};
pub(crate) use superblock::forget_log;
pub use undo::undo;
pub(crate) use undo::undo_bytes;

use crate::check::setup::find_superblock;
use crate::check::state::BlockMap;
use crate::check::{Checker, Finding, Findings, Options, Progress, Report, check};
use crate::format::dialect::Dialect;
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use space::Space;
use spindle_clock::{Clock, Timestamp};
use spindle_device::{CowDevice, Device};
use spindle_tree::check::Finding as _;
use spindle_tree::check::Severity;
use spindle_vfs::{Error, Result};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Most rounds; an ordinary repair takes less than fifteen.
const ROUNDS_MAX: usize = 200;
/// Findings that a round looks at; more are left to the next ones.
const FINDINGS_MAX: usize = 100_000;
/// What to do if the repair cannot be made on this device.
const COPY: &str = "copy what can be read to another device";

/// The kinds of findings whose repair may be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Only if nothing can be lost.
    Harmless,
    /// All.
    All,
}

/// What a repair remembers from round to round.
#[derive(Default)]
struct Memory {
    /// Groups whose number of initialised inodes is not certain.
    doubtful: HashSet<u32>,
    /// Data that is moved when the plan is carried out.
    later: Vec<Copy>,
}

/// A round.
struct Round<'a> {
    checker: Checker<'a>,
    image: Image<'a>,
    now: Timestamp,
    memory: &'a mut Memory,
    /// The replica was named by the user.
    named: bool,
    /// Fragments that no file is to use.
    vacant: Range<u64>,
    /// If data is moved later: fragments that nothing is to be moved to.
    taken: Option<&'a BlockMap>,
    /// Inodes that are freed if they have no name.
    removed: &'a BTreeSet<u32>,
    space: Option<Space<'a>>,
}

/// The end of a round.
enum End {
    /// Something was changed.
    Changed,
    /// Only names are missing.
    Unnamed(Vec<(u32, spindle_vfs::FileKind)>),
    /// Only quotas are wrong.
    Quotas,
    /// Nothing can be done any more.
    Over,
}

/// Decides how to repair the file system on `device`, which is not written to. For each kind of
/// finding, `agree` is asked once whether it may be repaired: without its consent to all of them
/// there is no repair. `progress` hears of the check before the repair.
///
/// # Errors
/// As for [`check`]; errors of the device.
pub fn plan(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    options: &Options,
    scope: Scope,
    agree: &mut dyn FnMut(&Finding) -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Plan> {
    let before = check(&**device, options, progress)?;
    if before.is_clean() {
        return Ok(Plan::nothing(before));
    }
    if scope == Scope::Harmless && before.serious > 0 {
        return Ok(Plan::refused(before, "this needs a full repair (fsck -y)".into()));
    }
    let mut unlisted = Findings::new(0);
    let (superblock, _) = find_superblock(&**device, options, &mut unlisted)?;
    let mut superblock = superblock.as_checked(clock.now());
    // What its replicas say about it decides the repair.
    (superblock.salvaged, superblock.wrong_sblkno, superblock.contradiction) = (None, None, None);
    superblock.drop_false_snapshots(&**device);
    let objections = match superblock.dialect {
        // What its snapshots need they get.
        Dialect::FreeBsd | Dialect::NetBsd => superblock.objections_to_mounting(&**device)?,
        _ => superblock.objections(&**device)?,
    };
    if let Some(objection) = objections.first() {
        return Ok(Plan::refused(before, format!("{}; {}", objection.reason, objection.remedy)));
    }
    let overlay = Arc::new(CowDevice::new(device.clone()));
    let mut agreed = HashSet::new();
    let mut once = |finding: &Finding| {
        let agrees = agreed.contains(finding.kind()) || agree(finding);
        agreed.insert(finding.kind());
        agrees
    };
    settle(&overlay, clock, before, &Wanted::of(options), &mut once)
}

/// What a repair is to leave, besides a file system without damage.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// How the first round finds the superblock.
    pub(crate) options: &'a Options,
    /// Fragments that no file is to use: those that do are moved.
    pub(crate) vacant: Range<u64>,
    /// Fragments that nothing is to be moved to. If they are named, the data of regular files is
    /// moved when the plan is carried out ([`vacate`]).
    pub(crate) taken: Option<&'a BlockMap>,
    /// Inodes that are freed if they have no name, instead of getting one.
    pub(crate) removed: BTreeSet<u32>,
    /// What stands for the file system until all is written.
    pub(crate) meanwhile: Meanwhile<'a>,
}

impl<'a> Wanted<'a> {
    /// Returns that nothing else is wanted.
    pub(crate) const fn of(options: &'a Options) -> Self {
        Self { options, vacant: 0..0, taken: None, removed: BTreeSet::new(), meanwhile: Meanwhile::NotClean }
    }
}

/// Makes the planned state of `overlay` one that a check finds nothing in. What was changed in it
/// before is part of the plan. Each round asks `agree` about its findings.
///
/// # Errors
/// As for [`check`]; errors of the device.
pub(crate) fn settle(
    overlay: &Arc<CowDevice>,
    clock: &Arc<dyn Clock>,
    before: Report,
    wanted: &Wanted<'_>,
    agree: &mut dyn FnMut(&Finding) -> bool,
) -> Result<Plan> {
    match settled(overlay, clock, wanted, agree)? {
        Settled::Refused(reason) => Ok(Plan::refused(before, reason)),
        Settled::Ready { after, used, kept } => {
            let plan = Plan::of(before.clone(), *after, overlay, &used, wanted.meanwhile, clock.now());
            let whole = plan.and_then(|plan| match kept {
                Some(kept) => plan.into_whole(overlay, [&used, &kept]),
                None => Ok(plan),
            });
            match whole {
                Err(Error::Unsupported { what, remedy }) => {
                    Ok(Plan::refused(before, format!("{what}; {remedy}")))
                }
                whole => whole,
            }
        }
    }
}

/// Makes the planned state of `overlay` one that a check finds nothing in, as [`settle`] does, and
/// returns what the check finds.
///
/// # Errors
/// [`Error::Unsupported`] if that cannot be; as for [`check`]; errors of the device.
pub(crate) fn settle_in_memory(
    overlay: &Arc<CowDevice>,
    clock: &Arc<dyn Clock>,
    wanted: &Wanted<'_>,
) -> Result<Report> {
    match settled(overlay, clock, wanted, &mut |_| true)? {
        Settled::Refused(reason) => Err(Error::unsupported(reason, COPY)),
        Settled::Ready { after, .. } => Ok(*after),
    }
}

/// Moves what lies in the vacant fragments, in the planned state of `overlay`, and makes that one
/// without damage. Returns the copies that remain to be made.
///
/// # Errors
/// [`Error::NoSpace`] if there is none; as for [`check`]; errors of the device.
pub(crate) fn vacate(
    overlay: &Arc<CowDevice>,
    clock: &Arc<dyn Clock>,
    wanted: &Wanted<'_>,
) -> Result<Vec<Copy>> {
    let (overlay, clock, memory) = (overlay.clone(), clock.clone(), Memory::default());
    let mut planner = Planner { overlay, clock, memory, used: None };
    planner.rounds(wanted, &mut |_| true)?;
    Ok(planner.memory.later)
}

/// How planning a state without damage has ended.
enum Settled {
    /// Not at all, for this reason.
    Refused(String),
    /// With what a check finds in it; `used` are the fragments in use at the beginning, `kept`
    /// those that snapshots need, if there are some.
    Ready { after: Box<Report>, used: BlockMap, kept: Option<BlockMap> },
}

/// Does the work of [`settle`].
fn settled(
    overlay: &Arc<CowDevice>,
    clock: &Arc<dyn Clock>,
    wanted: &Wanted<'_>,
    agree: &mut dyn FnMut(&Finding) -> bool,
) -> Result<Settled> {
    let (overlay, clock, memory) = (overlay.clone(), clock.clone(), Memory::default());
    let mut planner = Planner { overlay, clock, memory, used: None };
    let mut kept = None;
    match planner.rounds_with_snapshots(wanted, agree, &mut kept) {
        Ok(true) => {}
        Ok(false) => return Ok(Settled::Refused("not everything was agreed to".into())),
        Err(Error::Unsupported { what, remedy }) => {
            return Ok(Settled::Refused(format!("{what}; {remedy}")));
        }
        Err(error) => return Err(error),
    }
    let Planner { overlay, clock, used, .. } = planner;
    let standard = Options { replica: None, ..wanted.options.clone() };
    let mut after = check(&*overlay, &standard, &mut |_| ())?;
    if after.damages > 0 {
        return Ok(Settled::Refused(left_over(&after)));
    }
    let planned: Arc<dyn Device> = overlay.clone();
    lost::find_log(&planned, &clock)?;
    let mut superblock = Superblock::open(&*overlay)?;
    if let Some(dialect) = standard.dialect {
        superblock.set_dialect(dialect);
    }
    let marked = superblock.mark_checked(&*overlay, clock.now())?;
    if let Some(objection) = marked.first() {
        return Ok(Settled::Refused(format!("{}; {}", objection.reason, objection.remedy)));
    }
    after.marked_clean = true;
    after
        .findings
        .retain(|found| !matches!(found.finding, Finding::NotClean { .. } | Finding::Pending { .. }));
    let used = used.ok_or_else(|| Error::corrupt("no round was made", "repair"))?;
    Ok(Settled::Ready { after: Box::new(after), used, kept })
}

/// Returns what a repair would leave, as the reason why it is not made.
fn left_over(after: &Report) -> String {
    let Some(left) = after.findings.iter().find(|found| found.severity != Severity::Note) else {
        return format!("{} problems would be left", after.damages);
    };
    let is_unnamed =
        matches!(left.finding, Finding::UnreferencedFile { .. } | Finding::UnreferencedDirectory { .. });
    let why = if is_unnamed { "; there is no space for its name in lost+found" } else { "" };
    format!("{left}{why}")
}

/// A repair that is being planned.
struct Planner {
    /// The planned state.
    overlay: Arc<CowDevice>,
    clock: Arc<dyn Clock>,
    memory: Memory,
    /// The fragments in use at the beginning.
    used: Option<BlockMap>,
}

impl Planner {
    /// Makes rounds, and gives snapshots what they need of what was changed, until there is nothing
    /// more to do; `kept` becomes what snapshots need. Returns false if a repair was not agreed to.
    fn rounds_with_snapshots(
        &mut self,
        wanted: &Wanted<'_>,
        agree: &mut dyn FnMut(&Finding) -> bool,
        kept: &mut Option<BlockMap>,
    ) -> Result<bool> {
        if !self.rounds(wanted, agree)? {
            return Ok(false);
        }
        for _ in 0..ROUNDS_MAX {
            let mut superblock = Superblock::open(&*self.overlay)?;
            if let Some(dialect) = wanted.options.dialect {
                superblock.set_dialect(dialect);
            }
            let (Some(used), false) = (&self.used, superblock.snapshots().is_empty()) else {
                return Ok(true);
            };
            let kept = kept.get_or_insert_with(|| BlockMap::new(superblock.layout.fs_size));
            if !snapshots::preserve(&self.overlay, &superblock, used, kept)? {
                return Ok(true);
            }
            // What this makes wrong is no finding that anybody has to agree to.
            self.rounds(wanted, &mut |_| true)?;
        }
        Err(Error::unsupported("what its snapshots need changes with each round of the repair", COPY))
    }

    /// Makes rounds until there is nothing more to do. Returns false if a repair was not agreed to.
    fn rounds(&mut self, wanted: &Wanted<'_>, agree: &mut dyn FnMut(&Finding) -> bool) -> Result<bool> {
        let device: Arc<dyn Device> = self.overlay.clone();
        for number in 0..ROUNDS_MAX {
            let named = wanted.options.replica.filter(|_| number == 0);
            let mut findings = Findings::new(FINDINGS_MAX);
            let options = Options { replica: named, dialect: wanted.options.dialect, limit: FINDINGS_MAX };
            let (superblock, replica) = find_superblock(&*device, &options, &mut findings)?;
            let mut quiet = |_| ();
            let checker = Checker::run(&*device, &superblock, replica, findings, &mut quiet)?;
            let is_unread = |finding: &&Finding| matches!(finding, Finding::Unreadable { .. });
            if let Some(unread) = checker.findings.list().iter().find(is_unread) {
                return Err(Error::unsupported(unread.to_string(), COPY));
            }
            if self.used.is_none() {
                self.used = Some(checker.state.used.clone());
            }
            let mut damage =
                checker.findings.list().iter().filter(|finding| finding.severity() != Severity::Note);
            if !damage.all(&mut *agree) {
                return Ok(false);
            }
            let image = Image { device: &*device, layout: checker.layout, hashes: checker.hashes };
            let (now, named) = (self.clock.now(), named.is_some());
            let mut round = Round {
                checker,
                image,
                now,
                memory: &mut self.memory,
                named,
                vacant: wanted.vacant.clone(),
                taken: wanted.taken,
                removed: &wanted.removed,
                space: None,
            };
            match round.run()? {
                End::Changed => {}
                End::Quotas => quotas::put_right(&device, &self.clock)?,
                End::Unnamed(unnamed) if lost::give_names(&device, &self.clock, &unnamed)? => {}
                _ => break,
            }
        }
        Ok(true)
    }
}

impl Round<'_> {
    fn run(&mut self) -> Result<End> {
        let changed = self.superblocks()?
            || self.hidden_inodes()?
            || self.inodes()?
            || self.blocks()?
            || self.sizes()?
            || self.root()?
            || self.directories()?
            || self.names()?
            || self.links()?
            || self.groups()?;
        if changed {
            return Ok(End::Changed);
        }
        let only_names = |finding: &Finding| {
            finding.severity() == Severity::Note
                || quotas::is_of_quotas(finding)
                || matches!(finding, Finding::UnreferencedFile { .. } | Finding::UnreferencedDirectory { .. })
        };
        if quotas::only_quotas(self.checker.findings.list()) {
            return Ok(End::Quotas);
        }
        let unnamed = self.unnamed()?;
        let ready = self.checker.findings.list().iter().all(only_names) && !unnamed.is_empty();
        Ok(if ready { End::Unnamed(unnamed) } else { End::Over })
    }

    fn layout(&self) -> &Layout {
        self.checker.layout
    }

    /// Returns the findings of this round.
    fn findings(&self) -> Vec<Finding> {
        self.checker.findings.list().to_vec()
    }
}
