//! The members of a set, found by their labels.
//!
//! The members are given in any order. Each must belong to the same set; the label with the
//! greatest epoch says which areas there are, and which of them are lost. A copy of control storage
//! may be missing, if another one is there: it is recorded as lost before anything is written. All
//! data and log storage must be there.

use super::space::Space;
use crate::format::label::{Area, LABEL_BYTES, Label, Role, last_label_at};
use crate::format::layout::Layout;
use spindle_clock::Mutex;
use spindle_device::{Device, Loss, Mirror, Stripe, Window};
use spindle_vfs::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of log storage that take turns on its devices.
const LOG_UNIT: u64 = 64 << 10;

/// A set whose members have been found.
pub struct Set {
    /// The newest label; its member is the first one that has it.
    pub label: Label,
    /// The geometry.
    pub layout: Layout,
    /// Control and data storage.
    pub space: Arc<dyn Device>,
    /// Log storage.
    pub log: Arc<dyn Device>,
    /// Copies of control storage that are missing and not recorded as lost.
    missing: Vec<usize>,
    losses: Arc<Losses>,
}

/// Returns true if a device has the label of a member, even a damaged one.
///
/// # Errors
/// Device errors.
pub fn is_member(device: &dyn Device) -> Result<bool> {
    Ok(!matches!(read_label(device), Ok(None) | Err(Error::Device(_))))
}

/// Reads the label of a member from its first block, or its last if that one is damaged.
fn read_label(device: &dyn Device) -> Result<Option<Label>> {
    let info = device.info();
    let mut bytes = vec![0; LABEL_BYTES];
    if info.size_bytes < 4 * LABEL_BYTES as u64 {
        return Ok(None);
    }
    let mut found = Ok(None);
    for at in [0, last_label_at(info.size_bytes)] {
        let label = device
            .read_at(at, &mut bytes)
            .map_err(Error::from)
            .and_then(|()| Label::decode(&bytes, &format!("label of {} at byte {at}", info.name)));
        match (label, &found) {
            (Ok(Some(label)), Ok(Some(Label { epoch, .. }))) if *epoch >= label.epoch => {}
            (Ok(Some(label)), _) => found = Ok(Some(label)),
            (Err(error), Ok(None)) => found = Err(error),
            _ => {}
        }
    }
    found
}

/// Writes a label to both places of its member, one after the other, so that one of them is whole
/// at any moment.
pub(crate) fn write_label(device: &dyn Device, label: &Label) -> spindle_device::Result<()> {
    let bytes = label.encode();
    for at in [0, last_label_at(label.member_bytes)] {
        device.write_at(at, &bytes)?;
        device.flush()?;
    }
    Ok(())
}

/// Records losses of copies of control storage in the labels of the members that are left.
struct Losses {
    label: Mutex<Label>,
    members: HashMap<[u8; 16], Arc<dyn Device>>,
}

impl Loss for Losses {
    fn note(&self, member: usize, reason: &spindle_device::Error) -> spindle_device::Result<()> {
        let mut label = self.label.lock();
        label.epoch += 1;
        let mut lost_member = None;
        for area in &mut label.areas {
            if area.role == Role::Control && area.index as usize == member {
                area.lost = true;
                lost_member = Some(area.member_id);
            }
        }
        log::warn!("copy {member} of control storage is lost: {reason}; the set goes on without it");
        for (id, device) in &self.members {
            let label = Label { member_id: *id, member_bytes: device.info().size_bytes, ..label.clone() };
            match write_label(&**device, &label) {
                Err(error) if Some(*id) == lost_member => log::info!("{error}, as was to be expected"),
                written => written?,
            }
        }
        Ok(())
    }
}

impl Set {
    /// Opens a set whose members are `devices`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a member is missing or a stranger, [`Error::Corrupt`] if labels
    /// are damaged, and device errors.
    pub fn open(devices: &[Arc<dyn Device>]) -> Result<Self> {
        let mut labels = Vec::new();
        for device in devices {
            let name = &device.info().name;
            let stranger = || Error::corrupt("it has no label of a set", name);
            labels.push(read_label(&**device)?.ok_or_else(stranger)?);
        }
        Self::assemble(devices, &labels)
    }

    /// Puts a set together from its members and their labels.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn assemble(devices: &[Arc<dyn Device>], labels: &[Label]) -> Result<Self> {
        let newest = labels.iter().max_by_key(|label| label.epoch);
        let Some(label) = newest.cloned() else {
            return Err(Error::unsupported("a set without members", "name at least one"));
        };
        let mut members = HashMap::new();
        for (device, member) in devices.iter().zip(labels) {
            if member.set_id != label.set_id {
                let what = format!("{} belongs to another set", device.info().name);
                return Err(Error::unsupported(what, "name the members of one set"));
            }
            if members.insert(member.member_id, device.clone()).is_some() {
                let what = format!("{} is a copy of another member", device.info().name);
                return Err(Error::unsupported(what, "name each member once"));
            }
        }
        let layout = Layout::of(&label)?;
        let window = |area: &Area| -> Result<Option<Arc<dyn Device>>> {
            let Some(device) = members.get(&area.member_id) else { return Ok(None) };
            let name = format!("{} ({} {})", device.info().name, area.role, area.index);
            Ok(Some(Arc::new(Window::new(device.clone(), area.offset, area.len, name)?)))
        };
        let mut missing = Vec::new();
        let mut copies: Vec<Arc<dyn Device>> = Vec::new();
        let mut lost = Vec::new();
        for (n, area) in label.areas_of(Role::Control).into_iter().enumerate() {
            if let Some(device) = window(area)? {
                copies.push(device);
                lost.push(area.lost);
                continue;
            }
            if !area.lost {
                missing.push(n);
            }
            copies.push(Arc::new(Missing::new(area)));
            lost.push(true);
        }
        let whole = |role| -> Result<Vec<Arc<dyn Device>>> {
            let find = |area: &Area| {
                let what = format!("{role} storage {} is missing", area.index);
                window(area)?.ok_or_else(|| Error::unsupported(what, "name all members of the set"))
            };
            label.areas_of(role).into_iter().map(find).collect()
        };
        let data = Stripe::new(whole(Role::Data)?, label.parameters.stripe_bytes.into(), "data".into())?;
        let log = Stripe::new(whole(Role::Log)?, LOG_UNIT, "log".into())?;
        let losses = Arc::new(Losses { label: Mutex::new(label.clone()), members });
        let control = Mirror::new(copies, &lost, losses.clone(), "control".into())?;
        let name = devices.iter().map(|device| device.info().name.clone()).collect::<Vec<_>>().join(", ");
        let space = Arc::new(Space::new(Arc::new(control), Arc::new(data), name));
        Ok(Self { label, layout, space, log: Arc::new(log), missing, losses })
    }

    /// Records the copies of control storage that are missing as lost, before anything is written.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn note_missing(&self) -> Result<()> {
        for &copy in &self.missing {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            let reason = spindle_device::Error::io("control storage", "opening a copy", missing);
            self.losses.note(copy, &reason)?;
        }
        Ok(())
    }
}

/// Stands for a copy that is not there; a mirror never uses it.
struct Missing(spindle_device::Info);

impl Missing {
    fn new(area: &Area) -> Self {
        let name = format!("missing {} {}", area.role, area.index);
        Self(spindle_device::Info { name, size_bytes: area.len, sector_bytes: 512, read_only: false })
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
