//! Which part of a disk a command works on that was given all of it.
//!
//! Partitions are looked for first: a disk has no superblock of its own, and what is found where
//! one would be may be a partition's, at the wrong place. The one partition that has a file system
//! is meant, or the user is asked which.

use crate::error::{Context, Failure, Result};
use crate::image::{self, Found};
use spindle_device::{Device, Part, Partition, Spec, Window, partitions};
use spindle_vfs::Error;
use std::sync::Arc;

/// Reads a device specification of a file system that is there; where it names a whole disk, of the
/// one in its partitions.
pub fn spec(image: &str) -> Result<Spec> {
    choose(image::parse_spec(image)?)
}

/// Chooses the part that is meant of what a specification names.
pub fn choose(spec: Spec) -> Result<Spec> {
    if spec.part != Part::Whole {
        return Ok(spec);
    }
    let device = image::open_device_unlocked(&spec)?;
    let table = partitions(&*device)?;
    let usable = |p: &Partition| p.start_bytes > 0 && p.size_bytes > 0 && p.problem.is_none();
    let mut parts: Vec<Partition> = table.partitions.into_iter().filter(usable).collect();
    // Of a slice and what is in it, and of partitions that start together, the smallest.
    parts.sort_by_key(|part| (part.start_bytes, part.size_bytes));
    parts.dedup_by_key(|part| part.start_bytes);
    if parts.is_empty() {
        return Ok(spec);
    }
    let mut held = Vec::new();
    for part in &parts {
        let window = Window::new(Arc::clone(&device), part.start_bytes, part.size_bytes, spec.to_string())?;
        if let Some(at) = superblock(&window) {
            held.push((part, part.start_bytes + at));
        }
    }
    let own = superblock(&*device).filter(|at| held.iter().all(|(_, other)| other != at));
    let candidates: Vec<&Partition> = match (own, &held[..]) {
        (Some(_), []) => return Ok(spec),
        // None is whole: what is left of one is in the only partition, or in one of several.
        (None, []) => parts.iter().collect(),
        (_, held) => held.iter().map(|(part, _)| *part).collect(),
    };
    match (own, &candidates[..]) {
        (None, [only]) => {
            log::info!("{spec}: taking its partition {}", only.name);
            Ok(Spec { part: Part::Named(only.name.clone()), ..spec })
        }
        _ => Err(ask(&spec, own.is_some(), &candidates)).context(&spec),
    }
}

/// Returns where on a device the superblock is, if there is a file system, damaged or not.
fn superblock(device: &dyn Device) -> Option<u64> {
    match image::detect(device) {
        Ok(Found::Ffs(found)) => Some(found.layout.fs_sblockloc),
        Ok(Found::Old(_)) => Some(512),
        Err(Error::Corrupt { .. }) => Some(0),
        Err(_) => None,
    }
}

fn ask(spec: &Spec, at_start: bool, candidates: &[&Partition]) -> Failure {
    let names: Vec<&str> = candidates.iter().map(|part| part.name.as_str()).collect();
    let first = candidates.first().map_or("", |part| part.name.as_str());
    let listed = names.join(", ");
    Failure::new(if at_start {
        format!(
            "there are file systems at its start and in {listed}; name one, as {spec}@offset=0 or {spec}@{first}"
        )
    } else {
        format!("its partitions are {listed}; name one, as {spec}@{first}")
    })
}
