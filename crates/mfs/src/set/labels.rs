//! The labels of the members of a set: reading and changing them.
//!
//! A change of the set is written in two steps, as `format/label.rs` says. A change that could not
//! be written to all members is taken back in memory; but some of them may have it. So until the
//! label is written again, nothing else is acknowledged ([`Loss::settle`]).

use super::places::{Place, has_places, read_places, write_places};
use super::shared::Shared;
use crate::format::history::Opening;
use crate::format::label::{Area, LABEL_BYTES, Label, Role, last_label_at};
use crate::log::LogLoss;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::Mutex;
use spindle_device::{Device, Loss, Mirror};
use spindle_vfs::Error;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns true if a device has the label of a member, even a damaged one.
///
/// # Errors
/// Device errors.
pub fn is_member(device: &dyn Device) -> Result<bool> {
    match read_label(device) {
        Ok(None) => Ok(false),
        Err(error @ Error::Device(_)) => Err(error),
        Ok(Some(_)) | Err(_) => Ok(true),
    }
}

/// A label of a member that was found anywhere on a disk.
#[derive(Clone, Debug)]
pub struct FoundLabel {
    /// The label.
    pub label: Label,
    /// The first byte of the member on the disk.
    pub begins_at: u64,
    /// The first byte of the member if the label is the last one, where nothing says which of the
    /// two it is.
    pub or_at: Option<u64>,
}

/// Returns the label at byte `at` of a disk, and where the member begins that has it; none if there
/// is no label, or a damaged one. The other label of the member says which one it is, or the list
/// of members, which follows the first one.
///
/// # Errors
/// Device errors.
pub fn label_at(disk: &dyn Device, at: u64) -> Result<Option<FoundLabel>> {
    let read = |at: u64| -> Result<Option<Label>> {
        let mut bytes = vec![0; LABEL_BYTES];
        if at.checked_add(LABEL_BYTES as u64).is_none_or(|end| end > disk.info().size_bytes) {
            return Ok(None);
        }
        disk.read_at(at, &mut bytes)?;
        Ok(Label::decode(&bytes, &disk.info().name).unwrap_or_default())
    };
    let Some(label) = read(at)? else { return Ok(None) };
    let is_same = |other: Label| other.set_id == label.set_id && other.member_id == label.member_id;
    let apart = last_label_at(label.member_bytes);
    let found = |begins_at, or_at| Ok(Some(FoundLabel { label: label.clone(), begins_at, or_at }));
    let first = at.checked_sub(apart).filter(|&first| first < at);
    if let Some(first) = first
        && read(first)?.is_some_and(is_same)
    {
        return found(first, None);
    }
    let is_first = read(at.saturating_add(apart))?.is_some_and(is_same) || has_places(disk, at)?;
    found(at, first.filter(|_| !is_first))
}

/// Reads the label of a member from its first block, or its last if that one is damaged or older.
/// Returns none if it has none.
///
/// # Errors
/// [`Error::Corrupt`] if there are only damaged ones, [`Error::Unsupported`] if the version is not
/// known; device errors.
pub fn read_label(device: &dyn Device) -> Result<Option<Label>> {
    Ok(best_label(device)?.map(|(_, label)| label))
}

/// Returns the label that counts, with its byte on the device.
fn best_label(device: &dyn Device) -> Result<Option<(u64, Label)>> {
    let info = device.info();
    let mut bytes = vec![0; LABEL_BYTES];
    if info.size_bytes < 4 * LABEL_BYTES as u64 {
        return Ok(None);
    }
    let mut found: Result<Option<(u64, Label)>> = Ok(None);
    for at in [0, last_label_at(info.size_bytes)] {
        let label = device
            .read_at(at, &mut bytes)
            .map_err(Error::from)
            .and_then(|()| Label::decode(&bytes, &format!("label of {} at byte {at}", info.name)));
        match (label, &found) {
            // The last one of a member that begins elsewhere.
            (Ok(Some(label)), _) if at > 0 && last_label_at(label.member_bytes) != at => {}
            (Ok(Some(label)), Ok(Some((_, best)))) if best.is_as_new_as(&label) => {}
            (Ok(Some(label)), _) => found = Ok(Some((at, label))),
            (Err(error), Ok(None)) => found = Err(error),
            _ => {}
        }
    }
    found
}

/// Refuses a device that no longer holds the member of a set that it held when it was opened:
/// somebody has cut it off or written over it, so that nothing on it is a copy of anything. A label
/// that cannot be read says nothing of that.
pub(crate) fn check_member(
    device: &dyn Device,
    set_id: [u8; 16],
    member_id: [u8; 16],
) -> spindle_device::Result<()> {
    let name = || device.info().name.clone();
    let gone = |what: &str| {
        let reason = format!("{what}: somebody has written over it");
        Err(spindle_device::Error::Unusable { device: name(), reason })
    };
    match read_label(device) {
        Ok(Some(label)) if (label.set_id, label.member_id) == (set_id, member_id) => Ok(()),
        Ok(Some(_)) => gone("it is another member now"),
        Ok(None) | Err(Error::Corrupt { .. } | Error::Unsupported { .. }) => gone("its label is gone"),
        Err(Error::Device(error @ spindle_device::Error::OutOfRange { .. })) => Err(error),
        Err(_) => Ok(()),
    }
}

/// Writes a label to both places of its member, one after the other. The one that counts now is
/// written last, so that one of them is whole at any moment: after a crash the other may be
/// damaged. The flush before makes sure that it would count after a crash too: an earlier try may
/// have failed after it was written.
pub(crate) fn write_label(device: &dyn Device, label: &Label) -> spindle_device::Result<()> {
    let bytes = label.encode();
    device.flush()?;
    let mut places = [last_label_at(label.member_bytes), 0];
    if matches!(best_label(device), Ok(Some((at, _))) if at == places[0]) {
        places.reverse();
    }
    for at in places {
        device.write_at(at, &bytes)?;
        device.flush()?;
    }
    Ok(())
}

/// The label that all members of an open set have.
pub(crate) struct Labels {
    label: Mutex<Label>,
    /// The number of this opening, if it writes labels.
    opening: Opening,
    /// True if some members may have a label that was taken back.
    unsettled: AtomicBool,
    /// None if log storage is needed; otherwise true if the set is marked as in use.
    in_use: Mutex<Option<bool>>,
    log_is_lost: AtomicBool,
    /// True while nothing may be written, so that losses are not recorded.
    is_only_read: AtomicBool,
    /// The mirrors of all parts.
    mirrors: Mutex<Vec<(Role, u32, Weak<Mirror>)>>,
    /// Members that a change of the labels has found lost, with the reasons, until the mirrors know
    /// it.
    found_lost: Mutex<Vec<([u8; 16], spindle_device::Error)>>,
    members: Mutex<BTreeMap<[u8; 16], Arc<dyn Device>>>,
    /// Members that have no label yet.
    new: Mutex<BTreeSet<[u8; 16]>>,
    /// Where the read-only areas are.
    read_only: Mutex<Vec<Place>>,
}

impl Labels {
    /// Returns the labels of a set; each of `members` is [`Shared`]. `read_only` says where the
    /// read-only areas are.
    pub(super) fn new(
        label: Label,
        members: BTreeMap<[u8; 16], Arc<dyn Device>>,
        read_only: Vec<Place>,
    ) -> Arc<Self> {
        let log_is_lost = label.log_is_lost().into();
        let opening = StdRng::from_os_rng().random();
        let (label, members) = (Mutex::new(label), Mutex::new(members));
        let (unsettled, in_use) = (AtomicBool::new(false), Mutex::default());
        let read_only = Mutex::new(read_only);
        Arc::new(Self {
            label,
            opening,
            unsettled,
            in_use,
            log_is_lost,
            is_only_read: AtomicBool::new(false),
            mirrors: Mutex::default(),
            found_lost: Mutex::default(),
            members,
            new: Mutex::default(),
            read_only,
        })
    }

    /// Returns the label as it is now; its member is any of them.
    pub(crate) fn now(&self) -> Label {
        self.label.lock().clone()
    }

    /// Returns the device of a member, if it is there.
    pub(crate) fn member(&self, member_id: [u8; 16]) -> Option<Arc<dyn Device>> {
        self.members.lock().get(&member_id).cloned()
    }

    /// Returns where all members and read-only areas are, as the names of their devices say; of
    /// those that are not there, where they were, as far as the others know.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut away = self.now().members();
        let (members, read_only) = (self.members.lock(), self.read_only.lock());
        away.retain(|id| !members.contains_key(id));
        let mut places: Vec<_> =
            members.iter().map(|(&id, device)| (id, device.info().name.clone())).collect();
        for place in members.values().filter_map(|device| read_places(&**device).ok()).flatten() {
            if away.contains(&place.0) && places.iter().all(|(id, _)| *id != place.0) {
                places.push(place);
            }
        }
        places.extend(read_only.iter().cloned());
        places
    }

    /// Writes to each member where all are, if there are several. A failure is only reported.
    pub(crate) fn write_places(&self) {
        let (label, places) = (self.now(), self.places());
        let (members, read_only) = (self.members.lock(), self.read_only.lock());
        if members.len() + read_only.len() < 2 {
            return;
        }
        for (&id, device) in members.iter() {
            let is_new = self.new.lock().contains(&id);
            let is_ours = if is_new { Ok(()) } else { check_member(&**device, label.set_id, id) };
            if let Err(error) = is_ours.and_then(|()| write_places(&**device, &places)) {
                log::info!("the list of members was not written: {error}");
            }
        }
    }

    /// Notes where a read-only area is.
    pub(crate) fn note_read_only(&self, id: [u8; 16], path: &str) {
        let mut places = self.read_only.lock();
        places.retain(|(other, _)| *other != id);
        places.push((id, path.to_owned()));
    }

    /// Forgets where a read-only area is.
    pub(crate) fn forget_read_only(&self, id: [u8; 16]) {
        self.read_only.lock().retain(|(other, _)| *other != id);
    }

    /// Adds a member that the next change of the label gives its areas. Returns the device by which
    /// all use it.
    pub(crate) fn add_member(&self, member_id: [u8; 16], device: Arc<dyn Device>) -> Arc<dyn Device> {
        let shared: Arc<dyn Device> = Arc::new(Shared::new(device, true));
        self.members.lock().insert(member_id, shared.clone());
        self.new.lock().insert(member_id);
        shared
    }

    /// Says that no member has a label yet.
    pub(crate) fn expect_none(&self) {
        self.new.lock().extend(self.members.lock().keys());
    }

    /// Returns the device of a member that the label no longer has, and does not use it any more.
    pub(crate) fn remove_member(&self, member_id: [u8; 16]) -> Option<Arc<dyn Device>> {
        self.new.lock().remove(&member_id);
        self.members.lock().remove(&member_id)
    }

    /// Returns the members that are no more what they were when they were opened, with the reasons.
    pub(crate) fn strangers(&self) -> Vec<([u8; 16], spindle_device::Error)> {
        let set_id = self.now().set_id;
        let (members, new) = (self.members.lock(), self.new.lock());
        let old = members.iter().filter(|(id, _)| !new.contains(*id));
        let stranger = |(&id, device): (&[u8; 16], &Arc<dyn Device>)| {
            check_member(&**device, set_id, id).err().map(|error| (id, error))
        };
        old.filter_map(stranger).collect()
    }

    /// Changes the label of all members, durably. A member that cannot be written is recorded as
    /// lost too, if there is another copy of all that it has; while log storage may be lost, of all
    /// but that.
    ///
    /// # Errors
    /// Device errors; the change is taken back then.
    pub(crate) fn change(&self, apply: impl FnOnce(&mut Label)) -> spindle_device::Result<()> {
        let mut label = self.label.lock();
        let members = self.members.lock();
        let before = label.clone();
        apply(&mut label);
        let mut new = self.new.lock();
        let is_left = |id: &[u8; 16], label: &Label| {
            !before.is_useless(*id) && (label.is_useless(*id) || !members.contains_key(id))
        };
        let had = before.members();
        let mut failed = false;
        loop {
            let parted = had.iter().any(|id| is_left(id, &label));
            label.history = before.gone_on(self.opening, parted, failed);
            let Err((member_id, error)) = write_labels(&mut label, &members, &new) else { break };
            failed = true;
            if !label.can_lose(member_id)
                && let Some(in_use) = *self.in_use.lock()
            {
                let without = label.without_log(in_use);
                if without.can_lose(member_id) {
                    *label = without;
                }
            }
            if !label.can_lose(member_id) {
                // Some members may have a label of this opening, and miss what follows.
                let history = before.gone_on(self.opening, true, true);
                *label = Label { epoch: label.epoch, history, ..before };
                self.unsettled.store(true, Ordering::Release);
                return Err(error);
            }
            log::warn!("{error}: this member of the set counts as lost");
            label.areas.iter_mut().filter(|area| area.member_id == member_id).for_each(|a| a.lost = true);
            self.found_lost.lock().push((member_id, error));
        }
        new.clear();
        self.unsettled.store(false, Ordering::Release);
        let was_lost = self.log_is_lost.swap(label.log_is_lost(), Ordering::AcqRel);
        if label.log_is_lost() && !was_lost {
            log::error!(
                "log storage is lost; the file system goes on without it, and until it is unmounted a crash \
                 may damage it"
            );
        }
        Ok(())
    }

    /// Says which mirrors use the members.
    pub(super) fn set_mirrors(&self, mirrors: Vec<(Role, u32, Weak<Mirror>)>) {
        *self.mirrors.lock() = mirrors;
    }

    /// Says whether the members may only be read. Then losses are not recorded.
    pub(crate) fn set_only_read(&self, only_read: bool) {
        self.is_only_read.store(only_read, Ordering::Release);
    }

    /// Has all mirrors stop using a member, because of `reason`, and records that it is lost.
    ///
    /// # Errors
    /// Device errors if it has the only copy of something, or the loss cannot be recorded.
    pub(crate) fn lose(&self, id: [u8; 16], reason: &spindle_device::Error) -> spindle_device::Result<()> {
        let label = self.now();
        let own = label.areas.iter().filter(|area| area.member_id == id && area.filling.is_none());
        // Log storage that is lost is not used any more.
        let is_used = |area: &&Area| area.role != Role::Log || !label.log_is_lost();
        for Area { role, index, copy, .. } in own.filter(is_used) {
            let is_it = |(r, i, _): &&(Role, u32, Weak<Mirror>)| (r, i) == (role, index);
            let mirror = self.mirrors.lock().iter().find(is_it).and_then(|(_, _, mirror)| mirror.upgrade());
            if let Some(mirror) = mirror {
                mirror.lose_member(*copy as usize, reason)?;
            }
        }
        Ok(())
    }

    /// Writes the label again if some members may have one that was taken back, and has the mirrors
    /// stop using the members that a change of the labels has found lost.
    fn settle(&self) -> spindle_device::Result<()> {
        if self.unsettled.load(Ordering::Acquire) {
            self.change(|_| ())?;
        }
        for (id, reason) in std::mem::take(&mut *self.found_lost.lock()) {
            // The labels have the loss already, so nothing that succeeds depends on this.
            if let Err(error) = self.lose(id, &reason) {
                log::warn!("{error}: this member is still used");
            }
        }
        Ok(())
    }
}

impl LogLoss for Labels {
    fn note(&self, unlogged: bool) -> spindle_device::Result<()> {
        self.change(|label| *label = label.without_log(unlogged))
    }

    fn is_noted(&self) -> bool {
        self.log_is_lost.load(Ordering::Acquire)
    }

    fn set_in_use(&self, in_use: bool) {
        *self.in_use.lock() = Some(in_use);
    }
}

/// Writes the next epoch of a label to all members, in two steps. Those that are not `new` must
/// have one: a device on which somebody else has written is not written. Returns the member that
/// failed.
fn write_labels(
    label: &mut Label,
    members: &BTreeMap<[u8; 16], Arc<dyn Device>>,
    new: &BTreeSet<[u8; 16]>,
) -> Result<(), ([u8; 16], spindle_device::Error)> {
    let mut written = Vec::new();
    for (&member_id, device) in members {
        let is_new = new.contains(&member_id);
        match if is_new { Ok(()) } else { check_member(&**device, label.set_id, member_id) } {
            Ok(()) => written.push((member_id, device)),
            Err(error) if label.is_useless(member_id) => log::info!("{error}: it gets no label"),
            Err(error) => return Err((member_id, error)),
        }
    }
    label.epoch += 1;
    for settled in [false, true] {
        if settled {
            label.settled = label.epoch;
        }
        for &(member_id, device) in &written {
            let member_bytes = device.info().size_bytes;
            match write_label(&**device, &Label { member_id, member_bytes, ..label.clone() }) {
                Err(error) if label.is_useless(member_id) => {
                    log::info!("{error}: not needed, as all that this member has is lost");
                }
                written => written.map_err(|error| (member_id, error))?,
            }
        }
    }
    Ok(())
}

/// Records losses of the copies of a part.
pub(super) struct PartLoss {
    pub(super) labels: Arc<Labels>,
    pub(super) role: Role,
    pub(super) index: u32,
}

impl Loss for PartLoss {
    fn settle(&self) -> spindle_device::Result<()> {
        self.labels.settle()
    }

    fn note(&self, copy: usize, reason: &spindle_device::Error) -> spindle_device::Result<()> {
        let Self { role, index, .. } = *self;
        if self.labels.is_only_read.load(Ordering::Acquire) {
            return Ok(());
        }
        log::warn!("copy {copy} of {role} storage {index} is lost: {reason}; the set goes on without it");
        self.labels.change(|label| {
            let is_it =
                |area: &&mut Area| area.role == role && area.index == index && area.copy as usize == copy;
            label.areas.iter_mut().filter(is_it).for_each(|area| area.lost = true);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::history::History;
    use crate::format::label::Parameters;
    use spindle_device::{AlignedBuf, Info, MemoryDevice, Op, Request, Ticket};
    use std::sync::atomic::AtomicU32;

    /// A member whose power is cut after so many writes, in the midst of the next.
    struct Cut {
        device: MemoryDevice,
        left: AtomicU32,
    }

    impl Device for Cut {
        fn info(&self) -> &Info {
            self.device.info()
        }
        fn submit(&self, mut request: Request) -> spindle_device::Result<Ticket> {
            if request.op == Op::Write && self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
                request.buf = AlignedBuf::from(&request.buf[..512]);
                let ticket = self.device.submit(request)?;
                self.device.wait(ticket)?;
                return Err(spindle_device::Error::io("cut", "writing", std::io::ErrorKind::Other.into()));
            }
            self.device.submit(request)
        }
        fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
            self.device.wait(ticket)
        }
        fn flush(&self) -> spindle_device::Result<()> {
            self.device.flush()
        }
        fn discard(&self, offset: u64, len: u64) -> spindle_device::Result<()> {
            self.device.discard(offset, len)
        }
    }

    /// Returns a label of many areas, so that a part of it is no label.
    fn label(epoch: u64, member_bytes: u64) -> Label {
        let parameters = Parameters::small();
        let area = |n: u32| Area {
            role: [Role::Control, Role::Data, Role::Log][n.min(2) as usize],
            class: 0,
            index: n.saturating_sub(2),
            copy: 0,
            member_id: [1; 16],
            offset: u64::from(n + 1) << 20,
            len: 1 << 20,
            lost: false,
            filling: None,
        };
        Label {
            set_id: [9; 16],
            member_id: [1; 16],
            member_bytes,
            epoch,
            settled: epoch,
            opened: 0,
            history: History::default(),
            unequal: false,
            unlogged: false,
            parameters,
            classes: Vec::new(),
            read_only: Vec::new(),
            areas: (0..10).map(area).collect(),
        }
    }

    /// Promise: however often power is cut while a label is written, each time one is left that
    /// counts, and it is never older than one that was found before.
    #[test]
    fn a_label_survives_cuts_one_after_the_other() {
        let bytes = 16 << 20;
        for cuts in 0..27_u32 {
            let cut = Cut { device: MemoryDevice::new(bytes), left: u32::MAX.into() };
            write_label(&cut, &label(1, bytes)).unwrap();
            let mut known = 1;
            for n in 0..3 {
                cut.left.store(cuts / 3_u32.pow(n) % 3, Ordering::Relaxed);
                let epoch = 2 + u64::from(n);
                let written = write_label(&cut, &label(epoch, bytes)).is_ok();
                let found = read_label(&cut).unwrap().map(|label| label.epoch);
                assert!(found >= Some(known) && (!written || found == Some(epoch)), "cuts {cuts}, {found:?}");
                known = found.unwrap_or_default();
            }
        }
    }
}
