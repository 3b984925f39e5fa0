//! Looking for file systems anywhere on a disk, as where its label is lost: by the superblocks of
//! UFS and their copies, by the root directories of V7 and System V, and by the labels of members
//! of sets.

use crate::detect::{Found, detect};
use crate::error::Result;
use crate::foreign::{Volume, volume_with};
use spindle_device::{Device, Scan, Window};
use spindle_mfs::FoundLabel;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// A file system that was found on a disk.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its first byte on the disk.
    pub at: u64,
    /// What it is.
    pub found: Found,
    /// The byte of the copy of the superblock, from the beginning of the file system on, by which
    /// it was found, if its standard one cannot be used.
    pub copy_at: Option<u64>,
}

/// What a search has found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The file systems, in the order of their places.
    pub places: Vec<Place>,
    /// The bytes of superblocks of which nothing says where their file systems begin.
    pub stray: Vec<u64>,
    /// Bytes of the disk that could not be read.
    pub unreadable_bytes: u64,
}

/// Looks for file systems in these bytes of a disk, also for those that begin elsewhere and have a
/// copy of their superblock there. `progress` hears of the byte up to which everything was looked
/// at, and may end the search. Holes of an image file are passed over, and so is what cannot be
/// read.
///
/// # Errors
/// Those of `progress`.
pub fn search(
    disk: &Arc<dyn Device>,
    bytes: Range<u64>,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Findings> {
    let mut stray = Vec::new();
    let mut places = BTreeMap::new();
    let mut each = |event: Event| {
        match event {
            Event::Found { place, .. } => drop(places.insert(place.at, *place)),
            Event::Stray(at) => stray.push(at),
            Event::Foreign { .. } | Event::Damaged(_) => {}
            Event::Read { until, .. } => progress(until)?,
        }
        Ok(ControlFlow::Continue(()))
    };
    let unreadable_bytes = walk(disk, bytes, &mut each)?;
    let places: Vec<Place> = places.into_values().collect();
    stray.retain(|at| !places.iter().any(|place| place.has_superblock(*at)));
    Ok(Findings { places, stray, unreadable_bytes })
}

impl Place {
    /// Returns true if this file system has a superblock at that byte of the disk.
    fn has_superblock(&self, at: u64) -> bool {
        let Found::Ffs(found) = &self.found else { return false };
        let layout = &found.layout;
        let is_copy = |at| (0..layout.fs_ncg).any(|cgx| layout.byte(layout.cgsblock(cgx)) == at);
        at.checked_sub(self.at).is_some_and(|at| at == layout.fs_sblockloc || is_copy(at))
    }

    /// Returns the byte of the disk at which it ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.found.size_bytes())
    }
}

/// What [`walk`] meets.
pub(crate) enum Event {
    /// A file system, by what stands at this byte; the same one once more for each further
    /// superblock of it, if the first was only a copy.
    Found { place: Box<Place>, by: u64 },
    /// A file system that this program does not read, by what stands at this byte.
    Foreign { volume: Volume, by: u64 },
    /// A superblock of which nothing says where its file system begins.
    Stray(u64),
    /// The label of a member of a set that cannot be read.
    Damaged(u64),
    /// Everything before this byte was looked at, and so much data read.
    Read { until: u64, data: u64 },
}

/// Walks through these bytes of a disk, and returns how many could not be read.
pub(crate) fn walk(
    disk: &Arc<dyn Device>,
    bytes: Range<u64>,
    each: &mut dyn FnMut(Event) -> Result<ControlFlow<()>>,
) -> Result<u64> {
    let reach = spindle_ffs::Superblock::LIKELY_BYTES.max(spindle_v7::Superblock::BEGINNING_BYTES);
    let mut scan = Scan::new(&**disk, bytes, reach);
    let mut known = BTreeSet::new();
    let mut events = Vec::new();
    while let Some(piece) = scan.next_piece() {
        for (at, sector) in piece.sectors() {
            events.extend(event(disk, at, sector, &mut known));
        }
        events.push(Event::Read { until: scan.position(), data: scan.read_bytes() });
        for event in events.drain(..) {
            if each(event)?.is_break() {
                return Ok(scan.unreadable_bytes());
            }
        }
    }
    Ok(scan.unreadable_bytes())
}

/// Returns what the sector at byte `at` of a disk belongs to. `known` are the beginnings of those
/// file systems of which one superblock is enough.
fn event(disk: &Arc<dyn Device>, at: u64, sector: &[u8], known: &mut BTreeSet<u64>) -> Option<Event> {
    let found = |place: Place| Event::Found { place: Box::new(place), by: at };
    if spindle_ffs::Superblock::is_likely(sector) {
        // What cannot be read says nothing.
        let start = spindle_ffs::Superblock::origin(&**disk, at).ok()?;
        if start.is_some_and(|start| known.contains(&start)) {
            return None;
        }
        let Some(place) = start.and_then(|start| ffs_at(disk, start, at)) else {
            return Some(Event::Stray(at));
        };
        known.extend(place.copy_at.is_none().then_some(place.at));
        return Some(found(place));
    }
    if spindle_mfs::Label::is_likely(sector) {
        return match spindle_mfs::label_at(&**disk, at) {
            Ok(Some(label)) => member_with(disk, label).map(found),
            Ok(None) | Err(_) => Some(Event::Damaged(at)),
        };
    }
    if spindle_v7::Superblock::may_begin(sector)
        && let Some(place) = old_at(disk, at)
    {
        return Some(found(place));
    }
    volume_with(&**disk, at, sector).map(|volume| Event::Foreign { volume, by: at })
}

/// Returns what begins at byte `at` of a disk as a device of its own, up to the end of the disk.
fn from(disk: &Arc<dyn Device>, at: u64) -> Option<Window> {
    let len = disk.info().size_bytes.checked_sub(at)?;
    Window::new(Arc::clone(disk), at, len, disk.info().name.clone()).ok()
}

/// Returns the fast file system that begins at byte `start`, to which the superblock at `at`
/// belongs.
fn ffs_at(disk: &Arc<dyn Device>, start: u64, at: u64) -> Option<Place> {
    let window = from(disk, start)?;
    if let Ok(found @ Found::Ffs(_)) = detect(&window) {
        return Some(Place { at: start, found, copy_at: None });
    }
    let copy = spindle_ffs::Superblock::read_copy(&window, (at - start) / 512).ok()?;
    let copy_at = copy.salvaged.and_then(|salvaged| salvaged.copy_at);
    Some(Place { at: start, found: Found::Ffs(Box::new(copy)), copy_at })
}

/// Returns the old file system that begins at byte `start`, if it has a root directory, and nothing
/// newer begins there.
fn old_at(disk: &Arc<dyn Device>, start: u64) -> Option<Place> {
    let window = from(disk, start)?;
    let found = spindle_v7::Superblock::open(&window, None).ok()?;
    let has_root = spindle_v7::Superblock::is_readable_as(&window, found.superblock.format);
    let is_replaced = || matches!(detect(&window), Ok(Found::Ffs(_) | Found::Mfs(_)));
    (has_root && !is_replaced()).then(|| Place {
        at: start,
        found: Found::Old(Box::new(found)),
        copy_at: None,
    })
}

/// Returns the member of a set with this label; none if something else begins now where it began.
fn member_with(disk: &Arc<dyn Device>, label: FoundLabel) -> Option<Place> {
    let begins = |at| from(disk, at).and_then(|window| detect(&window).ok());
    let is_replaced = match label.or_at.and_then(begins) {
        Some(_) => true,
        None => begins(label.begins_at).is_some_and(|found| !matches!(found, Found::Mfs(_))),
    };
    let place = || Place { at: label.begins_at, found: Found::Mfs(Box::new(label.label)), copy_at: None };
    (!is_replaced).then(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{clock, old, rng};
    use spindle_device::MemoryDevice;
    use spindle_ffs::newfs::{Format, Parameters, Plan};

    /// Makes file systems of all kinds on a disk, each at an odd sector; returns where.
    fn disk() -> (Arc<dyn Device>, Vec<(u64, String)>) {
        let disk: Arc<dyn Device> = Arc::new(MemoryDevice::new(80 << 20));
        let mut places = Vec::new();
        let mut next = 777 * 512;
        for format in [Format::Ufs2, Format::Ufs1, Format::Old] {
            let plan = Plan::new(&Parameters { format, ..Parameters::new(8 << 20) }).unwrap();
            let window = Window::new(Arc::clone(&disk), next, 8 << 20, "part".into()).unwrap();
            crate::newfs::write(&plan, &window, Some(1_000_000_000), &mut || ()).unwrap();
            places.push((next, detect(&window).unwrap().to_string()));
            next += (9 << 20) + 512;
        }
        for format in ["v7", "bsd", "sysv-512-be", "sysv-2048-le", "sysv16-1024-pdp"] {
            let format: spindle_v7::Format = format.parse().unwrap();
            let plan = old::Plan::new(&old::Parameters::new(format, 1 << 20)).unwrap();
            let window = Window::new(Arc::clone(&disk), next, 1 << 20, "part".into()).unwrap();
            old::write(&plan, &window, &*clock(Some(1_000_000_000))).unwrap();
            places.push((next, detect(&window).unwrap().to_string()));
            next += (2 << 20) + 512;
        }
        let window: Arc<dyn Device> =
            Arc::new(Window::new(Arc::clone(&disk), next, 18 << 20, "part".into()).unwrap());
        let wishes = spindle_mfs::newfs::Wishes::new();
        let members = [spindle_mfs::newfs::Member::with_all(Arc::clone(&window))];
        spindle_mfs::newfs::make(&members, &wishes, &*clock(Some(1)), &mut rng(Some(1))).unwrap();
        places.push((next, detect(&*window).unwrap().to_string()));
        (disk, places)
    }

    fn found(disk: &Arc<dyn Device>, bytes: Range<u64>) -> Vec<(u64, String)> {
        let findings = search(disk, bytes, &mut |_| Ok(())).unwrap();
        assert!(findings.stray.is_empty() && findings.unreadable_bytes == 0, "{findings:?}");
        findings.places.iter().map(|place| (place.at, place.found.to_string())).collect()
    }

    /// Promise: each file system of a disk without a label is found where it begins, and nothing
    /// else; also one whose standard superblock is lost, by a copy.
    #[test]
    fn each_file_system_is_found() {
        let (disk, places) = disk();
        assert_eq!(found(&disk, 0..u64::MAX), places);
        let start = places[0].0;
        disk.write_at(start + (64 << 10), &[0; 8192]).unwrap();
        let findings = search(&disk, 0..u64::MAX, &mut |_| Ok(())).unwrap();
        let first = &findings.places[0];
        assert!(first.at == start && first.copy_at.is_some() && findings.stray.is_empty(), "{findings:?}");
        assert_eq!(first.end(), start + (8 << 20));
        // The search ends where its caller says so.
        let ended = search(&disk, 0..u64::MAX, &mut |_| Err(crate::Error::new("enough")));
        assert_eq!(ended.unwrap_err().to_string(), "enough");
    }
}
