//! The members of a set, put together from their labels.
//!
//! The members are given in any order. The newest label says which areas there are, and which of
//! them are lost. A member of another set is refused, and so are members that were used apart from
//! each other (`moment`); one with the state of an earlier moment, or that has become too short, is
//! left out, as if it were not there. Of each part of the storage one copy must be there, except
//! that without a part of data storage the rest can still be read, and that log storage is not
//! needed if its loss was recorded: everything is in its place then. Devices without labels are the
//! areas of read-only classes, or refused.

use super::labels::{Labels, PartLoss, read_label};
use super::moment::newest;
use super::read_only::{self, ReadOnlyArea};
use super::shared::Shared;
use super::space::Space;
use super::structures::{OfControl, OfLog};
use super::sums::{OfData, Still, Verification, Verifier};
use crate::format::class::Class;
use crate::format::label::{Area, Label, Role};
use crate::format::layout::Layout;
use crate::format::sums::Source;
use crate::log::{Ring, State};
use spindle_clock::{Mutex, Timestamp};
use spindle_device::{Device, Mirror, Stripe, Window};
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A set whose members have been found.
pub struct Set {
    /// The newest label; its member is the first one that has it.
    pub label: Label,
    /// The geometry.
    pub layout: Layout,
    /// Control and data storage.
    pub space: Arc<dyn Device>,
    /// The parts of log storage. The first one begins with the headers.
    pub log: Vec<Arc<dyn Device>>,
    /// What is missing so that nothing can be written, for people.
    pub unavailable: Vec<String>,
    /// What the set was opened without although it is there, with the reasons, for people.
    pub left_out: Vec<String>,
    /// The areas of the read-only classes, in their order.
    pub(crate) read_only: Vec<Arc<ReadOnlyArea>>,
    /// The parts of the storage, with their copies.
    pub(crate) parts: Vec<Part>,
    pub(crate) labels: Arc<Labels>,
    /// True from when it is written as a file system.
    pub(crate) is_mounted: Arc<AtomicBool>,
    /// Held while the members are changed.
    pub(crate) change: Mutex<()>,
    verifier: Arc<Verifier>,
}

/// A part of a role's storage.
pub(crate) struct Part {
    pub(crate) role: Role,
    pub(crate) index: u32,
    /// Its copies; none if all are missing.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// Copies that are missing and not recorded as lost.
    missing: Vec<u32>,
    /// The copy that was last begun to be filled, with its member.
    pub(crate) begun: Mutex<Option<Begun>>,
}

/// A copy that is being filled, by the identity of its member.
pub(crate) type Begun = ([u8; 16], Arc<dyn Device>);

impl Part {
    fn is_mirrored(&self) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| mirror.conditions().len() > 1)
    }
}

/// The members that can be used, by their identities.
type Members = BTreeMap<[u8; 16], Arc<dyn Device>>;

/// What the devices of a set are.
#[derive(Default)]
pub(crate) struct Labelled {
    /// Those with labels.
    pub(crate) members: Vec<Arc<dyn Device>>,
    /// Their labels.
    pub(crate) labels: Vec<Label>,
    /// Those without one: read-only areas.
    pub(crate) others: Vec<Arc<dyn Device>>,
    /// Those that cannot be read, with the reasons.
    pub(crate) left_out: Vec<String>,
}

/// Reads the labels of members. One that cannot be read counts as missing; the error is passed to
/// `failed`.
fn read_labels(devices: &[Arc<dyn Device>], failed: &mut Option<Error>) -> Result<Labelled> {
    let mut found = Labelled::default();
    for device in devices {
        let name = &device.info().name;
        match read_label(&**device) {
            Ok(Some(label)) => {
                found.members.push(device.clone());
                found.labels.push(label);
            }
            Ok(None) => found.others.push(device.clone()),
            Err(error @ Error::Device(_)) => {
                found.left_out.push(format!("{error}: {name} is left out"));
                failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Returns why devices of which none has a label are no set.
pub(super) fn no_label(devices: &[Arc<dyn Device>]) -> Option<Error> {
    devices.first().map(|device| Error::corrupt("it has no label of a set", &device.info().name))
}

/// Chooses the members whose labels belong to the moment of the newest one. The others go to
/// `left_out`, but for those that were only begun: the set needs nothing of them.
fn choose(
    devices: &[Arc<dyn Device>],
    labels: &[Label],
    newest: &Label,
    left_out: &mut Vec<String>,
) -> Result<Members> {
    let mut members = BTreeMap::new();
    for (device, label) in devices.iter().zip(labels) {
        let name = &device.info().name;
        let refuse = |what: String, remedy: &str| Err(Error::unsupported(what, remedy));
        if label.set_id != newest.set_id {
            return refuse(format!("{name} belongs to another set"), "name the members of one set");
        }
        if label.is_only_begun() && !newest.members().contains(&label.member_id) {
            continue;
        }
        if label.epoch < newest.settled || !newest.members().contains(&label.member_id) {
            let Label { epoch, .. } = label;
            let now = newest.epoch;
            left_out.push(format!(
                "{name} is left out: it has an earlier state of the set ({epoch}, which is at {now})"
            ));
            continue;
        }
        let areas = newest.areas.iter().filter(|area| area.member_id == label.member_id);
        let end = areas.clone().map(|area| area.offset.saturating_add(area.len)).max().unwrap_or(0);
        let size = device.info().size_bytes;
        if size < end {
            left_out
                .push(format!("{name} is left out: it has become too short, {size} bytes of at least {end}"));
            continue;
        }
        let shared: Arc<dyn Device> = Arc::new(Shared::new(device.clone(), areas.count() > 1));
        if members.insert(label.member_id, shared).is_some() {
            return refuse(format!("{name} is a copy of another member"), "name each member once");
        }
    }
    Ok(members)
}

/// Puts a part together from those of its copies that are there.
fn assemble_part(members: &Members, copies: &[&Area], labels: &Arc<Labels>) -> Result<Part> {
    let Area { role, index, len, .. } = *copies[0];
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    let (mut lost, mut missing) = (Vec::new(), Vec::new());
    let begun = Mutex::new(None);
    // A new copy that is being filled is the last one, and no copy yet.
    for area in copies.iter().filter(|area| area.filling.is_none()) {
        let name = format!("{role} {index}.{}", area.copy);
        if let Some(device) = members.get(&area.member_id) {
            let name = format!("{} ({name})", device.info().name);
            devices.push(Arc::new(Window::new(device.clone(), area.offset, len, name)?));
            lost.push(area.lost);
        } else {
            if !area.lost {
                missing.push(area.copy);
            }
            devices.push(Arc::new(Missing::new(&name, len)));
            lost.push(true);
        }
    }
    if lost.iter().all(|lost| *lost) {
        return Ok(Part { role, index, mirror: None, missing, begun });
    }
    let loss = Arc::new(PartLoss { labels: labels.clone(), role, index });
    let mirror = Mirror::new(devices, &lost, loss, format!("{role} storage {index}"))?;
    // Records are read in recovery only, and then all from one copy.
    mirror.set_unequal(role == Role::Log);
    Ok(Part { role, index, mirror: Some(Arc::new(mirror)), missing, begun })
}

impl Set {
    /// Opens a set whose members are `devices`. One whose label cannot be read counts as missing.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a member is missing or a stranger, [`Error::Corrupt`] if labels
    /// are damaged, and device errors.
    pub fn open(devices: &[Arc<dyn Device>]) -> Result<Self> {
        Self::open_readable(devices, false)
    }

    /// Opens a set whose log storage is missing, as if it had been lost: what only the log had is
    /// given up, and the set counts as damaged. This is recorded with the next change.
    ///
    /// # Errors
    /// As [`Self::open`], and [`Error::Unsupported`] if log storage is there.
    pub fn open_without_log(devices: &[Arc<dyn Device>]) -> Result<Self> {
        Self::open_readable(devices, true)
    }

    fn open_readable(devices: &[Arc<dyn Device>], without_log: bool) -> Result<Self> {
        let mut failed = None;
        let found = read_labels(devices, &mut failed)?;
        // If something is missing, the reason is that a member cannot be read.
        Self::assemble(found, without_log).map_err(|error| match error {
            Error::Unsupported { .. } => failed.unwrap_or(error),
            other => other,
        })
    }

    /// Puts a set together from its members and their labels.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn assemble(found: Labelled, without_log: bool) -> Result<Self> {
        let Labelled { members: devices, labels, others, mut left_out } = found;
        if let Some(error) = no_label(&others).filter(|_| labels.is_empty()) {
            return Err(error);
        }
        let named = devices.iter().zip(&labels).map(|(device, label)| (device.info().name.clone(), label));
        let mut label = newest(&named.collect::<Vec<_>>())?;
        let layout = Layout::of(&label)?;
        let members = choose(&devices, &labels, &label, &mut left_out)?;
        let read_only = read_only::find(&label, others, &mut left_out)?;
        if without_log && !label.log_is_lost() {
            let is_here = |area: &&Area| !area.lost && members.contains_key(&area.member_id);
            if label.parts(Role::Log).iter().all(|copies| copies.iter().any(is_here)) {
                return Err(Error::unsupported("giving up log storage that is there", "use it"));
            }
            label = label.without_log(true);
        }
        let places = read_only::places(&label, &read_only, members.values());
        let labels = Labels::new(label.clone(), members.clone(), places);
        let mut parts = Vec::new();
        let mut unavailable = Vec::new();
        let mut devices_of = |role: Role| -> Result<Vec<Arc<dyn Device>>> {
            let mut devices: Vec<Arc<dyn Device>> = Vec::new();
            for copies in label.parts(role) {
                let part = assemble_part(&members, &copies, &labels)?;
                match &part.mirror {
                    Some(mirror) => devices.push(mirror.clone()),
                    None if role == Role::Data => {
                        let name = format!("data storage {}", part.index);
                        unavailable.push(name.clone());
                        devices.push(Arc::new(Missing::new(&name, copies[0].len)));
                    }
                    None if role == Role::Log && label.log_is_lost() => {
                        devices.push(Arc::new(Missing::new("log storage", copies[0].len)));
                    }
                    None => {
                        let what = format!("{role} storage {} is missing", part.index);
                        let remedy = match role {
                            Role::Log => {
                                "make all members of the set available, or give up the log with \"spindle mfs \
                                 replace --discard-log\""
                            }
                            _ => "make all members of the set available",
                        };
                        return Err(Error::unsupported(what, remedy));
                    }
                }
                parts.push(part);
            }
            Ok(devices)
        };
        let control = devices_of(Role::Control)?.remove(0);
        let data = devices_of(Role::Data)?;
        let log = devices_of(Role::Log)?;
        let mirror = |part: &Part| Some((part.role, part.index, Arc::downgrade(part.mirror.as_ref()?)));
        labels.set_mirrors(parts.iter().filter_map(mirror).collect());
        let data = stripes(&label, &data)?;
        let devices = data.iter().map(|class| class.clone() as Arc<dyn Device>).collect();
        let name = members.values().map(|device| device.info().name.clone()).collect::<Vec<_>>().join(", ");
        let areas = read_only.iter().map(|area| area.clone() as Arc<dyn Device>).collect();
        let space = Arc::new(Space::new(control, devices, areas, name));
        let (is_mounted, change) = (Arc::default(), Mutex::new(()));
        let verifier = Arc::new(Verifier::default());
        let set = Self {
            label,
            layout,
            space,
            log,
            unavailable,
            left_out,
            read_only,
            parts,
            labels,
            is_mounted,
            change,
            verifier,
        };
        set.set_judges(&data);
        if set.label.unequal || set.label.unlogged {
            set.prefer_first();
        }
        Ok(set)
    }

    /// Has everything judged that is read from all storage.
    fn set_judges(&self, stripes: &[Arc<Stripe>]) {
        let parts = self.label.parts(Role::Data);
        let class_of = |part: &Vec<&Area>| usize::from(part[0].class);
        for Part { role, index, mirror, .. } in &self.parts {
            let Some(mirror) = mirror else { continue };
            let (layout, is_mounted) = (self.layout.clone(), self.is_mounted.clone());
            match role {
                Role::Control => {
                    let storage = Arc::downgrade(mirror);
                    mirror.set_judge(Arc::new(OfControl { layout, storage, is_mounted }));
                }
                Role::Log if *index == 0 => mirror.set_judge(Arc::new(OfLog { set_id: self.label.set_id })),
                Role::Log => {}
                Role::Data => {
                    let (before, rest) = parts.split_at(*index as usize);
                    let class = class_of(&rest[0]);
                    let member = before.iter().filter(|part| class_of(part) == class).count();
                    let (stripe, verifier) = (Arc::downgrade(&stripes[class]), self.verifier.clone());
                    let judge = OfData { verifier, layout, class, stripe, member, is_mounted };
                    mirror.set_judge(Arc::new(judge));
                }
            }
        }
    }

    /// Has data verified by `source` until the result is dropped, and what is wrong in one copy
    /// mended if `mends`.
    pub(crate) fn verify(&self, source: Arc<dyn Source>, mends: bool) -> Verification {
        self.verifier.begin(source, mends)
    }

    /// Has data verified while the members are changed, unless a mount does it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the log has to be replayed first.
    pub(crate) fn verify_change(&self) -> Result<Option<Verification>> {
        if !self.layout.parameters.checksums || self.verifier.is_active() {
            return Ok(None);
        }
        if self.needs_replay()? {
            return Err(Error::unsupported("a set that was not unmounted", "mount and unmount it first"));
        }
        Ok(Some(self.verify(Arc::new(Still(self.space.clone())), false)))
    }

    /// Opens the log, with `space` for control and data storage. Returns it with its state; without
    /// it if log storage is lost.
    ///
    /// # Errors
    /// As [`Ring::open`].
    pub(crate) fn open_log(&self, space: Arc<dyn Device>) -> Result<(Option<Ring>, State)> {
        let label = self.labels.now();
        if label.log_is_lost() {
            return Ok((None, State { in_use: false, damaged: label.unlogged }));
        }
        let (ring, state) = Ring::open(&self.log, space, label.set_id)?;
        let parts = self.parts.iter().filter(|part| part.role == Role::Log);
        let copies: Vec<_> = parts.filter_map(|part| Some(part.mirror.as_ref()?.copies())).collect();
        Ok((Some(ring.with_copies(&copies)?.recording_to(self.labels.clone())), state))
    }

    /// Reads data storage from the first copy of each part: after a crash the copies may differ in
    /// what was never flushed.
    pub(crate) fn prefer_first(&self) {
        for part in self.parts.iter().filter(|part| part.role == Role::Data) {
            part.mirror.iter().for_each(|mirror| mirror.set_unequal(true));
        }
    }

    /// Returns true if any part of the storage has several copies.
    pub(crate) fn has_copies(&self) -> bool {
        self.parts.iter().any(Part::is_mirrored)
    }

    /// Begins to write: all members get the next epoch, and copies that are missing are recorded as
    /// lost. If the set was in use, its copies may differ from now on.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if no whole copy of a part of data storage is there: one that is away
    /// would be left out for ever. Device errors.
    pub(crate) fn begin_writing(&self, now: Timestamp, was_in_use: bool) -> Result<()> {
        self.begin(now, was_in_use, true)?;
        self.is_mounted.store(true, Ordering::Release);
        Ok(())
    }

    /// Does the same; what copies that are being filled have stays valid unless files are written.
    pub(crate) fn begin(&self, now: Timestamp, was_in_use: bool, writes_files: bool) -> Result<()> {
        let is_away = |part: &&Part| part.mirror.is_none() && !part.missing.is_empty();
        if let Some(part) = self.parts.iter().filter(|part| part.role != Role::Log).find(is_away) {
            return Err(missing(part.role, part.index));
        }
        let is_unequal = was_in_use && self.has_copies();
        self.labels.set_only_read(false);
        self.labels.change(|label| {
            label.opened = now.secs.saturating_mul(1_000_000_000).saturating_add(now.nanos.into());
            label.unequal |= is_unequal;
            if writes_files {
                let filling = label.areas.iter_mut().filter_map(|area| area.filling.as_mut());
                filling.for_each(|megabytes| *megabytes = 0);
            }
            for Part { role, index, missing, .. } in &self.parts {
                for area in &mut label.areas {
                    if area.role == *role && area.index == *index && missing.contains(&area.copy) {
                        log::warn!(
                            "copy {} of {role} storage {index} is missing; it counts as lost",
                            area.copy
                        );
                        area.lost = true;
                    }
                }
            }
        })?;
        self.labels.write_places();
        if is_unequal {
            self.prefer_first();
        }
        Ok(())
    }
}

/// Returns the storage of each class of data that can be written, whose parts are `devices`.
fn stripes(label: &Label, devices: &[Arc<dyn Device>]) -> Result<Vec<Arc<Stripe>>> {
    let parts = label.parts(Role::Data);
    let stripe = |(n, class): (usize, Class)| -> Result<Arc<Stripe>> {
        let of_class = parts.iter().zip(devices).filter(|(copies, _)| usize::from(copies[0].class) == n);
        let devices = of_class.map(|(_, device)| device.clone()).collect();
        let name = format!("data ({})", class.name);
        Ok(Arc::new(Stripe::new(devices, class.structure.stripe_bytes.into(), name)?))
    };
    label.all_classes().into_iter().enumerate().map(stripe).collect()
}

/// Returns the error of a part of which no copy is there.
pub(crate) fn missing(role: Role, index: u32) -> Error {
    Error::unsupported(format!("{role} storage {index} is missing"), "make all members available")
}

/// Stands for an area that is not there: everything fails.
struct Missing(spindle_device::Info);

impl Missing {
    fn new(name: &str, len: u64) -> Self {
        let name = format!("missing {name}");
        Self(spindle_device::Info { name, size_bytes: len, sector_bytes: 512, read_only: false })
    }

    fn error(&self) -> spindle_device::Error {
        spindle_device::Error::io(&self.0.name, "using it", std::io::ErrorKind::NotFound.into())
    }
}

impl Device for Missing {
    fn info(&self) -> &spindle_device::Info {
        &self.0
    }
    fn submit(&self, _: spindle_device::Request) -> spindle_device::Result<spindle_device::Ticket> {
        Err(self.error())
    }
    fn wait(&self, _: spindle_device::Ticket) -> spindle_device::Result<spindle_device::AlignedBuf> {
        Err(self.error())
    }
    fn flush(&self) -> spindle_device::Result<()> {
        Err(self.error())
    }
    fn discard(&self, _: u64, _: u64) -> spindle_device::Result<()> {
        Err(self.error())
    }
}
