//! The areas of read-only classes: devices that are recognised by their fingerprints, and of which
//! only reads are passed on.

use super::members::no_label;
use super::places::{Place, read_places};
use crate::format::label::Label;
use crate::format::read_only::Fingerprint;
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Ticket};
use spindle_vfs::Result;
use std::sync::Arc;

/// The device of a read-only class.
pub(crate) struct ReadOnlyArea {
    info: Info,
    /// None if the area is not there.
    device: Option<Arc<dyn Device>>,
}

impl ReadOnlyArea {
    /// Returns the area of the class `name`, if it is on this device.
    fn new(name: String, bytes: u64, device: Option<Arc<dyn Device>>) -> Self {
        let sector_bytes = device.as_ref().map_or(512, |device| device.info().sector_bytes);
        Self { info: Info { name, size_bytes: bytes, sector_bytes, read_only: true }, device }
    }

    /// Returns its device.
    ///
    /// # Errors
    /// An error of input if it is not there.
    pub(crate) fn device(&self) -> spindle_device::Result<&Arc<dyn Device>> {
        let missing = || Error::io(&self.info.name, "reading it", std::io::ErrorKind::NotFound.into());
        self.device.as_ref().ok_or_else(missing)
    }

    /// Returns the device that counts: none if it is not there.
    pub(crate) const fn found(&self) -> Option<&Arc<dyn Device>> {
        self.device.as_ref()
    }
}

impl Device for ReadOnlyArea {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.info.check(request.op, request.offset, request.buf.len())?;
        self.device()?.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.device()?.wait(ticket)
    }

    /// Does nothing: nothing was written.
    fn flush(&self) -> spindle_device::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> spindle_device::Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> spindle_device::Result<()> {
        self.info.check(Op::Read, offset, buf.len())?;
        self.device()?.read_at(offset, buf)
    }
}

/// Returns the areas of all read-only classes in their order, each with its device if that is among
/// `devices`, which have no labels. What is not used goes to `left_out`.
///
/// # Errors
/// [`spindle_vfs::Error::Corrupt`] if the set has no read-only classes, so that a device without a
/// label is a mistake.
pub(super) fn find(
    label: &Label,
    mut devices: Vec<Arc<dyn Device>>,
    left_out: &mut Vec<String>,
) -> Result<Vec<Arc<ReadOnlyArea>>> {
    if label.read_only.is_empty() {
        return no_label(&devices).map_or(Ok(Vec::new()), Err);
    }
    let mut areas = Vec::new();
    for class in &label.read_only {
        let mut is_it = |print: Fingerprint, device: &Arc<dyn Device>| {
            let fits = print.fits(&**device);
            fits.inspect_err(|error| left_out.push(format!("{error}: it is left out"))).unwrap_or(false)
        };
        let place = class.area.and_then(|print| devices.iter().position(|device| is_it(print, device)));
        let device = place.map(|place| devices.swap_remove(place));
        if class.area.is_some() && device.is_none() {
            left_out.push(format!(
                "the device of class {} is not found, or is not what it was: what lies on it cannot be read",
                class.name
            ));
        }
        let bytes = class.area.map_or(0, |area| area.bytes);
        areas.push(Arc::new(ReadOnlyArea::new(format!("data ({})", class.name), bytes, device)));
    }
    for device in devices {
        let name = &device.info().name;
        left_out.push(format!("{name} is left out: no read-only class has what is on it"));
    }
    Ok(areas)
}

/// Returns where the areas are; of those that are not there, where they were, as some of `members`
/// know.
pub(super) fn places<'a>(
    label: &Label,
    areas: &[Arc<ReadOnlyArea>],
    members: impl Iterator<Item = &'a Arc<dyn Device>>,
) -> Vec<Place> {
    let mut known: Option<Vec<Place>> = None;
    let mut members = members.peekable();
    let mut places = Vec::new();
    for (class, area) in label.read_only.iter().zip(areas) {
        let Some(id) = class.area.map(|print| print.id()) else { continue };
        if let Some(device) = area.found() {
            places.push((id, device.info().name.clone()));
            continue;
        }
        let known = known.get_or_insert_with(|| {
            members
                .find_map(|member| read_places(&**member).ok().filter(|places| !places.is_empty()))
                .unwrap_or_default()
        });
        places.extend(known.iter().find(|(other, _)| *other == id).cloned());
    }
    places
}
