//! Finding all members of a set when one is named.
//!
//! Whether a file or a device is a member is decided by its label alone. Members are looked for in
//! the directory of the one that is named, then where they were when the set was last opened to
//! write, then among the block devices of this machine. So a set that was copied to another
//! directory as a whole is not mixed with the original. The areas of read-only classes are looked
//! for in the same places, by what is on them, first where they were.

use super::named::MountedSet;
use crate::error::{Error, Result};
use crate::image::{open_device_unlocked, open_unlocked};
use crate::partition;
use spindle_device::{Device, Part, Spec, partitions};
use spindle_mfs::{Fingerprint, LABEL_BYTES, Label, Place, newest, read_label, read_places};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A member that was found.
#[derive(Clone, Debug)]
pub struct FoundMember {
    /// Where it is.
    pub spec: Spec,
    /// Its label.
    pub label: Label,
}

/// The area of a read-only class that was found.
#[derive(Clone, Debug)]
pub struct FoundArea {
    /// Where it is.
    pub spec: Spec,
    /// What it was recognised by.
    pub fingerprint: Fingerprint,
}

/// What was found of a set.
#[derive(Clone, Debug)]
pub struct FoundSet {
    /// Its newest label; of a mounted set that of the mount.
    pub label: Label,
    /// The members, in the order of the table of the newest label; first those that the table has,
    /// then those that it no longer has.
    pub members: Vec<FoundMember>,
    /// The areas of read-only classes, in the order of the classes.
    pub read_only: Vec<FoundArea>,
    /// Where the members that were not found were when the set was last opened to
    /// write, as far as the others know, by their identities.
    pub away: Vec<Place>,
    /// Where members were that the set no longer has, as far as its members know.
    pub former: Vec<Place>,
    /// Why a member that is needed and was not found cannot be opened where it was when the set was
    /// last opened to write, if it is there: it is not permitted, or it is in use.
    pub refused: Option<spindle_device::Error>,
}

/// Finds the members of the set that `spec` is a member of, and its read-only areas. Those that are
/// not found are left out. The devices are read without a lock.
///
/// # Errors
/// If `spec` is not a member, its device cannot be read, two files claim to be the same member, or
/// members were used apart from each other, so that each side has changes that the other lacks.
pub fn find(spec: &Spec) -> Result<FoundSet> {
    let spec = &absolute(spec);
    let device = open_device_unlocked(spec)?;
    let label = own_label(spec, &*device)?;
    let found = vec![FoundMember { spec: spec.clone(), label: label.clone() }];
    let mut search = Search { newest: label, is_mounted: false, given: 1, found, earlier: Vec::new() };
    let places = search.look(Vec::new())?;
    let all = search.found.iter().chain(&search.earlier);
    let all: Vec<_> = all.map(|member| (member.spec.to_string(), &member.label)).collect();
    search.newest = newest(&all)?;
    Ok(search.finish(&places))
}

/// Finds the members of a mounted set, first where they are as the process knows that serves the
/// mount, which need not have a label any more. Members that were used apart from it are among
/// them.
///
/// # Errors
/// If the label is damaged, or two files claim to be the same member.
pub(super) fn find_mounted(MountedSet { label, places }: &MountedSet) -> Result<FoundSet> {
    let damaged = || Error::new("the process that serves the mount does not say which set it is");
    let newest = (label.len() == LABEL_BYTES).then(|| Label::decode(label, "label of the mounted set"));
    let newest = newest.transpose()?.flatten().ok_or_else(damaged)?;
    let (found, earlier) = (Vec::new(), Vec::new());
    let mut search = Search { newest, is_mounted: true, given: 0, found, earlier };
    for (_, path) in places {
        if let Ok(spec) = Spec::parse(path) {
            search.look_at(&spec)?;
        }
    }
    search.given = search.found.len();
    let places = search.look(places.clone())?;
    Ok(search.finish(&places))
}

/// Returns the areas of the read-only classes that are among the candidates.
fn read_only_areas(label: &Label, candidates: &mut dyn Iterator<Item = Spec>) -> Vec<FoundArea> {
    let areas: Vec<_> = label.read_only.iter().filter_map(|class| class.area).collect();
    let mut found: Vec<FoundArea> = Vec::new();
    while found.len() < areas.len()
        && let Some(candidate) = candidates.next()
    {
        // What an offset names reaches to the end of what is there.
        let Ok(spec) = partition::choose_length(absolute(&candidate)) else { continue };
        let Ok(device) = open_device_unlocked(&spec) else { continue };
        let is_new = |print: &&Fingerprint| !found.iter().any(|area| area.fingerprint == **print);
        let fits = |print: &&Fingerprint| print.fits(&*device).unwrap_or(false);
        if let Some(&fingerprint) = areas.iter().filter(is_new).find(fits) {
            found.push(FoundArea { spec, fingerprint });
        }
    }
    found.sort_by_key(|area| areas.iter().position(|print| *print == area.fingerprint));
    found
}

/// Returns the label of a member.
pub(super) fn label(spec: &Spec) -> Result<Label> {
    own_label(spec, &*open_device_unlocked(spec)?)
}

fn own_label(spec: &Spec, device: &dyn Device) -> Result<Label> {
    let stranger = || Error::new("it is not a member of a multi-structured file system").within(spec);
    read_label(device)?.ok_or_else(stranger)
}

struct Search {
    /// The newest label that was seen; of a mounted set, of those that are not apart from it.
    newest: Label,
    is_mounted: bool,
    /// The number of members that were not looked for: no other file is taken for one of them.
    given: usize,
    found: Vec<FoundMember>,
    /// Others that claim to be one of those found, with an earlier state.
    earlier: Vec<FoundMember>,
}

impl Search {
    fn is_complete(&self) -> bool {
        let has = |id: &[u8; 16]| self.found.iter().any(|member| member.label.member_id == *id);
        self.newest.members().iter().all(has)
    }

    /// Returns true if there is nothing to look for.
    fn is_all(&self) -> bool {
        self.is_complete() && self.newest.read_only.is_empty()
    }

    /// Looks for the members that are not found yet. `places` says where they are or were; returns
    /// it with what they say themselves.
    fn look(&mut self, mut places: Vec<Place>) -> Result<Vec<Place>> {
        if !self.is_complete() {
            for candidate in self.near() {
                self.look_at(&candidate)?;
            }
        }
        places.extend(self.found.iter().filter_map(|member| places_of(&member.spec)).flatten());
        let known = places.iter().filter_map(|(_, path)| Spec::parse(path).ok());
        for candidate in known.chain(block_devices()) {
            if self.is_complete() {
                break;
            }
            self.look_at(&absolute(&candidate))?;
        }
        Ok(places)
    }

    /// Returns what is near the first member that was found, if there is anything to look for.
    fn near(&self) -> Vec<Spec> {
        let first = self.found.first().filter(|_| !self.is_all()).map(|member| member.spec.clone());
        let first = first.and_then(|spec| open_device_unlocked(&spec).ok().map(|device| (spec, device)));
        first.map_or_else(Vec::new, |(spec, device)| neighbours(&spec, &*device))
    }

    /// Returns what was found, and the read-only areas.
    fn finish(self, places: &[Place]) -> FoundSet {
        let near = self.near();
        let known = || places.iter().filter_map(|(_, path)| Spec::parse(path).ok());
        let Self { newest: label, found: mut members, .. } = self;
        let order = label.members();
        let (mut away, mut former): (Vec<Place>, Vec<Place>) = (Vec::new(), Vec::new());
        for place in places {
            let is_found = members.iter().any(|member| member.label.member_id == place.0);
            let is_area = label.read_only.iter().any(|class| class.area.is_some_and(|a| a.id() == place.0));
            let list = if order.contains(&place.0) { &mut away } else { &mut former };
            if !is_found && !is_area && list.iter().all(|(id, _)| *id != place.0) {
                list.push(place.clone());
            }
        }
        let needed = |(id, _): &&Place| !label.is_useless(*id);
        let refused = away.iter().filter(needed).find_map(|(_, path)| refusal(path));
        // What is the same is as good; so the place where it was comes first.
        let read_only = read_only_areas(&label, &mut known().chain(near).chain(block_devices()));
        let place = |member: &FoundMember| order.iter().position(|id| *id == member.label.member_id);
        members.sort_by_key(|member| place(member).unwrap_or(usize::MAX));
        FoundSet { label, members, read_only, away, former, refused }
    }

    /// Adds a member.
    fn add(&mut self, spec: &Spec, label: Label) {
        let is_of_set = !(self.is_mounted && label.is_apart_from(&self.newest));
        if is_of_set && !self.newest.is_as_new_as(&label) {
            self.newest = label.clone();
        }
        self.found.push(FoundMember { spec: spec.clone(), label });
    }

    /// Takes a candidate if it is a member that is not found yet.
    fn look_at(&mut self, candidate: &Spec) -> Result<()> {
        let Some(label) = label_of(candidate) else { return Ok(()) };
        if label.set_id != self.newest.set_id {
            return Ok(());
        }
        let same = self.found.iter().position(|member| member.label.member_id == label.member_id);
        let Some(other) = same else {
            self.add(candidate, label);
            return Ok(());
        };
        if other < self.given || is_same(&self.found[other].spec, candidate) {
            return Ok(());
        }
        let known = &self.found[other];
        if known.label.epoch == label.epoch {
            return Err(Error::new(format!(
                "{} and {candidate} both claim to be the same member of the set; move the copy to another directory",
                known.spec
            )));
        }
        if known.label.epoch < label.epoch {
            let known = self.found.remove(other);
            self.earlier.push(known);
            self.add(candidate, label);
        } else {
            self.earlier.push(FoundMember { spec: candidate.clone(), label });
        }
        Ok(())
    }
}

/// Returns the specification with an absolute path without symbolic links, as far as it is there.
pub(super) fn absolute(spec: &Spec) -> Spec {
    let path = spec.path.canonicalize().or_else(|_| {
        let path = std::path::absolute(&spec.path)?;
        let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
        Ok::<_, std::io::Error>(dir.zip(path.file_name()).map_or(path.clone(), |(dir, name)| dir.join(name)))
    });
    let path = path.unwrap_or_else(|_| spec.path.clone());
    Spec { path, ..spec.clone() }
}

/// Returns the label of a candidate, if it can be read and has one.
pub(super) fn label_of(spec: &Spec) -> Option<Label> {
    let device = open_device_unlocked(spec).ok()?;
    read_label(&*device).ok().flatten()
}

fn places_of(spec: &Spec) -> Option<Vec<Place>> {
    read_places(&*open_device_unlocked(spec).ok()?).ok()
}

/// Returns why what is at `path` cannot be opened, unless it is not there or broken.
fn refusal(path: &str) -> Option<spindle_device::Error> {
    let error = open_unlocked(&Spec::parse(path).ok()?).err()?;
    match &error {
        spindle_device::Error::Busy { .. } => Some(error),
        spindle_device::Error::Io { source, .. } => {
            let is_refused = matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ResourceBusy);
            is_refused.then_some(error)
        }
        _ => None,
    }
}

/// Returns true if both name the same bytes of the same file or device, also by links to it, or the
/// same place where there is nothing yet.
pub(super) fn is_same(a: &Spec, b: &Spec) -> bool {
    let place = |spec: &Spec| {
        let place = spec.place().ok()?;
        Some((identity(&place.path)?, place.bytes))
    };
    absolute(a) == absolute(b) || place(a).is_some_and(|a| place(b) == Some(a))
}

/// Returns what a file or device has under all its names: the numbers of a device, or those of a
/// file and of the device on which it is.
fn identity(path: &Path) -> Option<(bool, u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    let is_device = metadata.file_type().is_block_device();
    let number = if is_device { (metadata.rdev(), 0) } else { (metadata.dev(), metadata.ino()) };
    Some((is_device, number.0, number.1))
}

/// Returns the other partitions of the disk, and the files in its directory that are large enough.
fn neighbours(spec: &Spec, device: &dyn Device) -> Vec<Spec> {
    let mut candidates = Vec::new();
    if spec.part != Part::Whole {
        let disk = Spec { part: Part::Whole, ..spec.clone() };
        let table = open_device_unlocked(&disk).ok().and_then(|disk| partitions(&*disk).ok());
        for partition in table.into_iter().flat_map(|table| table.partitions) {
            candidates.push(Spec { part: Part::Named(partition.name), ..spec.clone() });
        }
    }
    let is_candidate = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() >= 64 << 10)
    };
    let dir = spec.path.parent().unwrap_or(Path::new("/"));
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(is_candidate).collect();
    files.sort();
    let here = device.info().name.clone();
    candidates.extend(
        files
            .into_iter()
            .map(|path| Spec { path, part: Part::Whole })
            .filter(|spec| spec.to_string() != here),
    );
    candidates
}

/// Returns the block devices of this machine.
fn block_devices() -> Vec<Spec> {
    let entries = std::fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| Path::new("/dev").join(entry.file_name())).collect();
    names.sort();
    names.into_iter().map(|path| Spec { path, part: Part::Whole }).collect()
}
