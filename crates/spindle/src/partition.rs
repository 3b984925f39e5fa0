//! Choosing the partition when the user names a whole disk.
//!
//! Partitions have priority over a superblock of the whole disk: a superblock found at the place
//! where the disk would have one may belong to a partition that starts elsewhere. If exactly one
//! partition has a file system, that one is used; otherwise the command fails and asks the user to
//! name one, and says what each holds.

use crate::detect::{Found, detect, version_name};
use crate::error::{Context, Error, Result};
use crate::foreign::recognise;
use crate::image::open_device_unlocked;
use crate::text;
use spindle_device::{Device, Part, Partition, Spec, Window, partitions};
use spindle_ffs::Frag;
use spindle_ffs::inspect::Inspector;
use spindle_vfs::Error as FsError;
use std::sync::Arc;

/// First sectors of partitions as the tools of the systems make them: behind the boot programs of
/// the BSDs and of GPT, a track of 32, 63 or 64 sectors, a cylinder of 255 tracks, or a megabyte.
const USUAL_SECTORS: [u64; 18] =
    [16, 32, 34, 40, 56, 63, 64, 79, 126, 128, 162, 256, 1064, 2048, 2064, 4096, 16_065, 16_128];

/// Parses the specification of an existing file system (`disk.img`, `disk.img@s1a`,
/// `disk.img@offset=32256`), and chooses the partition if it names a whole disk.
///
/// # Errors
/// If the specification is wrong, or does not say which of several partitions is meant.
pub fn find(image: &str) -> Result<Spec> {
    choose(Spec::parse(image)?)
}

/// Chooses the partition if `spec` names a whole disk. A file system that is named by its first
/// byte gets its length, so that it is not in the way of others behind it.
///
/// # Errors
/// If there are several partitions to choose from, or the device cannot be read.
pub fn choose(spec: Spec) -> Result<Spec> {
    if spec.part != Part::Whole {
        return choose_length(spec);
    }
    let device = open_device_unlocked(&spec)?;
    let table = partitions(&*device)?;
    let usable = |p: &Partition| p.start_bytes > 0 && p.size_bytes > 0 && p.problem.is_none();
    let mut parts: Vec<Partition> = table.partitions.into_iter().filter(usable).collect();
    // Of partitions that start at the same byte (such as a slice and its first partition), keep the
    // smallest.
    parts.sort_by_key(|part| (part.start_bytes, part.size_bytes));
    parts.dedup_by_key(|part| part.start_bytes);
    if parts.is_empty() {
        return match at_usual_places(&device, &spec)? {
            Some(error) => Err(error),
            None => Ok(spec),
        };
    }
    let mut file_systems = Vec::new();
    for part in &parts {
        let window =
            Window::new(Arc::clone(&device), part.start_bytes, part.bytes_on_disk(), spec.to_string())?;
        if let Some(at) = superblock(&window) {
            file_systems.push((part, part.start_bytes + at));
        }
    }
    let own = superblock(&*device).filter(|at| file_systems.iter().all(|(_, other)| other != at));
    let candidates: Vec<&Partition> = match (own, &file_systems[..]) {
        (Some(_), []) => return Ok(spec),
        // No superblock was found: a damaged file system may be in any partition.
        (None, []) => parts.iter().collect(),
        (_, found) => found.iter().map(|(part, _)| *part).collect(),
    };
    if let (None, [only]) = (own, &candidates[..]) {
        log::info!("{spec}: using partition {}", only.name);
        return Ok(Spec { part: Part::Named(only.name.clone()), ..spec });
    }
    let mut choices = Vec::new();
    if own.is_some() {
        choices.push(format!("{spec}@offset=0 ({})", holds(&*device, "")));
    }
    for part in candidates {
        let window =
            Window::new(Arc::clone(&device), part.start_bytes, part.bytes_on_disk(), spec.to_string())?;
        let held = holds(&window, &part.kind);
        choices.push(format!("{spec}@{} ({held}, {})", part.name, text::human(part.size_bytes)));
    }
    let what =
        if own.is_some() { "file systems at its start and in partitions" } else { "several partitions" };
    Err(Error::new(format!("has {what}; name one of {}", choices.join(", ")))).context(&spec)
}

/// Returns an error with the file systems that begin where partitions usually do, if there are some
/// and the start of the disk has none, as where its label is lost.
///
/// # Errors
/// Those of the device.
pub fn at_usual_places(device: &Arc<dyn Device>, spec: &Spec) -> Result<Option<Error>> {
    let mut found = Vec::new();
    if spec.part != Part::Whole || !matches!(detect(&**device), Err(FsError::Unsupported { .. })) {
        return Ok(None);
    }
    let size = device.info().size_bytes;
    for at in USUAL_SECTORS.map(|sector| sector * 512).into_iter().filter(|&at| at < size) {
        let Ok(window) = Window::new(Arc::clone(device), at, size - at, spec.to_string()) else { continue };
        // A copy of the superblock may stand where another file system would have its first.
        let is_whole = match detect(&window) {
            Ok(Found::Ffs(found)) => Inspector::new(&window, &found).group(0).is_ok(),
            Ok(Found::Old(_)) => true,
            _ => false,
        };
        if is_whole {
            found.push(format!("{spec}@offset={at} ({})", holds(&window, "")));
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let what = "has neither a file system at its start nor a partition table";
    let error = Error::new(format!(
        "{what}; name what is where a partition may begin: {}; or {spec}@offset=0 for the start; only \
         usual places were looked at, spindle scan {spec} looks at all",
        found.join(", ")
    ));
    Ok(Some(error.within(spec)))
}

/// Gives a file system that is named by its first byte its length.
///
/// # Errors
/// If the device cannot be read.
pub(crate) fn choose_length(spec: Spec) -> Result<Spec> {
    let Part::Offset { at, .. } = spec.part else { return Ok(spec) };
    let len = length(&*open_device_unlocked(&spec)?);
    Ok(Spec { part: Part::Offset { at, len }, ..spec })
}

/// Returns in a few words what a device holds; `kind` is what the table of partitions says.
fn holds(device: &dyn Device, kind: &str) -> String {
    match detect(device) {
        Ok(Found::Ffs(found)) => version_name(found.layout.version, found.layout.inode_format).into(),
        Ok(Found::Old(found)) => found.superblock.format.to_string(),
        Ok(Found::Mfs(_)) => "member of a set".into(),
        Err(FsError::Corrupt { .. }) => "a damaged file system".into(),
        Err(_) => match recognise(device) {
            Ok(Some(found)) => found.name.into(),
            _ if kind.is_empty() => "unknown".into(),
            _ => kind.to_owned(),
        },
    }
}

/// Returns the number of bytes from the beginning of the device that its file system uses, with its
/// log; none if that is not known.
fn length(device: &dyn Device) -> Option<u64> {
    let used = match detect(device).ok()? {
        Found::Ffs(found) => {
            let log = found.log_place().map_or(0, |log| log.at.saturating_add(log.len));
            found.layout.byte(Frag(found.layout.fs_size)).max(log)
        }
        Found::Old(found) => {
            let layout = found.superblock.layout().ok()?;
            u64::from(layout.s_fsize) * u64::from(layout.format.bsize)
        }
        Found::Mfs(_) => return None,
    };
    let sector = u64::from(device.info().sector_bytes);
    Some(used.checked_next_multiple_of(sector)?.min(device.info().size_bytes))
}

/// Returns the byte offset of the superblock, if the device has a file system, damaged or not.
fn superblock(device: &dyn Device) -> Option<u64> {
    match detect(device) {
        Ok(Found::Ffs(found)) => Some(found.layout.fs_sblockloc),
        Ok(Found::Old(_)) => Some(512),
        Ok(Found::Mfs(_)) | Err(FsError::Corrupt { .. }) => Some(0),
        Err(_) => None,
    }
}
