//! Partitions: the contents of a disk, in any of the labels that the BSDs and their hosts write.
//!
//! [`partitions`] searches for the outermost label (GPT, Sun, MBR, Apple, NEXTSTEP, or on the bare
//! disk a BSD disklabel or the table of Ultrix), then for labels inside the slices that may have
//! one, and lists everything it finds by name:
//!
//! | name | meaning |
//! |---|---|
//! | `s1`…`s4`, `s5`… | MBR slice, logical ones from 5 |
//! | `p1`… | partition of a GPT or of Apple's map |
//! | `a`… | partition of a BSD disklabel, a Sun or NEXTSTEP label, or of Ultrix |
//! | `s1a`, `p2a` | BSD or Solaris partition inside a slice |
//!
//! Labels are untrusted. Every number is checked before it is used, and chains are bounded. An
//! impossible partition (outside the disk, outside its container, overlapping another one) is
//! listed with its problem and cannot be opened. One that begins on the disk and ends behind it is
//! that of an image that was cut: what there is of it can be read.

mod apple;
mod bsd;
mod gpt;
mod mbr;
mod next;
mod sun;
mod ultrix;
mod vtoc;

pub use mbr::EXTENDED;

use crate::{Device, Error, Info, Result};
use std::fmt;

/// The kind of label that defines a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// IBM PC master boot record, with extended partitions.
    Mbr,
    /// GUID partition table of UEFI.
    Gpt,
    /// Disklabel of 4.3BSD-Tahoe and its descendants.
    Bsd,
    /// Label of `SunOS` on SPARC and 68000.
    Sun,
    /// Table of contents of Solaris on PCs.
    Vtoc,
    /// Apple's partition map.
    Apple,
    /// Label of NEXTSTEP and OPENSTEP.
    Next,
    /// Partition table of Ultrix.
    Ultrix,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mbr => "MBR",
            Self::Gpt => "GPT",
            Self::Bsd => "BSD disklabel",
            Self::Sun => "Sun label",
            Self::Vtoc => "Solaris VTOC",
            Self::Apple => "Apple partition map",
            Self::Next => "NeXT label",
            Self::Ultrix => "Ultrix partition table",
        })
    }
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Name for users, such as `s1a`.
    pub name: String,
    /// The label that defines it.
    pub scheme: Scheme,
    /// First byte on the disk.
    pub start_bytes: u64,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Bytes at its end that the disk does not have: it can be read, but not written.
    pub missing_bytes: u64,
    /// Content according to the label.
    pub kind: String,
    /// Name given by its creator, if the label can store one.
    pub label: Option<String>,
    /// The reason why it cannot be opened.
    pub problem: Option<String>,
}

impl Partition {
    /// Returns the first byte after it; saturates if a hostile label would overflow.
    fn end(&self) -> u64 {
        self.start_bytes.saturating_add(self.size_bytes)
    }

    /// Returns how much of it is on the disk, in bytes.
    #[must_use]
    pub const fn bytes_on_disk(&self) -> u64 {
        self.size_bytes.saturating_sub(self.missing_bytes)
    }

    /// Sets the problem unless there is one already.
    fn set_problem(&mut self, problem: impl FnOnce() -> String) {
        if self.problem.is_none() {
            self.problem = Some(problem());
        }
    }
}

/// The partitions found on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name of the device.
    pub device: String,
    /// The outermost label; `None` for a bare file system.
    pub scheme: Option<Scheme>,
    /// The partitions in the order of the labels; those inside a slice follow it.
    pub partitions: Vec<Partition>,
    /// Peculiarities of the labels, as text.
    pub notes: Vec<String>,
}

impl Table {
    /// Returns the partition called `name`. The last letter alone is enough if only one partition
    /// ends in it: `a` for `s1a`.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is none, or if it has a problem.
    pub fn find(&self, name: &str) -> Result<&Partition> {
        let unusable = |reason| Error::Unusable { device: self.device.clone(), reason };
        let mut inner = self.partitions.iter().filter(|p| {
            matches!(p.scheme, Scheme::Bsd | Scheme::Vtoc) && name.len() == 1 && p.name.ends_with(name)
        });
        let found = match (self.partitions.iter().find(|p| p.name == name), inner.next(), inner.next()) {
            (Some(exact), ..) => exact,
            (None, Some(only), None) => only,
            (None, Some(one), Some(other)) => {
                return Err(unusable(format!("{name} may be {} or {}", one.name, other.name)));
            }
            (None, None, _) if self.partitions.is_empty() => {
                return Err(unusable(format!(
                    "no partition {name}: the disk has no label that Spindle knows"
                )));
            }
            (None, None, _) => {
                let names: Vec<&str> = self.partitions.iter().map(|p| p.name.as_str()).collect();
                return Err(unusable(format!(
                    "no partition {name}: the partitions are {}",
                    names.join(", ")
                )));
            }
        };
        match &found.problem {
            None => Ok(found),
            Some(problem) => Err(unusable(format!(
                "partition {} ({} bytes at {}) cannot be opened: {problem}; offset= opens the disk at any byte",
                found.name, found.size_bytes, found.start_bytes
            ))),
        }
    }
}

/// The content of one label.
#[derive(Default)]
struct Label {
    partitions: Vec<Partition>,
    /// For each partition, the place of a possible label inside; may be shorter than `partitions`.
    hosts: Vec<Option<Host>>,
    notes: Vec<String>,
}

/// A slice, or the disk, that may contain a label.
#[derive(Clone, Copy)]
struct Host {
    start: u64,
    size: u64,
    nested: Nested,
}

/// The kind of label inside a slice.
#[derive(Clone, Copy)]
enum Nested {
    /// BSD disklabel.
    Bsd(bsd::Numbering),
    /// Table of contents of Solaris.
    Vtoc,
}

impl Host {
    fn read(self, device: &dyn Device, prefix: &str) -> Result<Option<Label>> {
        match self.nested {
            Nested::Bsd(numbering) => bsd::read(device, self, numbering, prefix),
            Nested::Vtoc => vtoc::read(device, self, prefix),
        }
    }
}

/// Finds the partitions of a disk.
///
/// # Errors
/// Errors of reading the device. An invalid label is not an error; it is noted in the table.
pub fn partitions(device: &dyn Device) -> Result<Table> {
    let mut table = labelled(device)?;
    let disk_bytes = device.info().size_bytes;
    for p in &mut table.partitions {
        if p.start_bytes >= disk_bytes {
            p.set_problem(|| format!("it is not inside the disk, which is {disk_bytes} bytes at 0"));
        } else {
            p.missing_bytes = p.size_bytes.saturating_sub(disk_bytes - p.start_bytes);
        }
    }
    Ok(table)
}

/// Returns the partitions as the labels have them.
fn labelled(device: &dyn Device) -> Result<Table> {
    let info = device.info();
    let mut table =
        Table { device: info.name.clone(), scheme: None, partitions: Vec::new(), notes: Vec::new() };
    let disk = Host { start: 0, size: info.size_bytes, nested: Nested::Bsd(bsd::Numbering::Bare) };
    let (scheme, label) = if let Some(label) = gpt::read(device)? {
        (Scheme::Gpt, label)
    } else if let Some(label) = sun::read(device)? {
        (Scheme::Sun, label)
    } else if let Some(label) = mbr::read(device)? {
        (Scheme::Mbr, label)
    } else if let Some(label) = apple::read(device)? {
        (Scheme::Apple, label)
    } else if let Some(label) = next::read(device)? {
        (Scheme::Next, label)
    } else if let Some(label) = disk.read(device, "")? {
        (Scheme::Bsd, label)
    } else if let Some(label) = ultrix::read(device)? {
        (Scheme::Ultrix, label)
    } else {
        return Ok(table);
    };
    table.scheme = Some(scheme);
    table.notes = label.notes;
    let mut nested = false;
    let hosts = label.hosts.into_iter().chain(std::iter::repeat(None));
    for (partition, host) in label.partitions.into_iter().zip(hosts) {
        let inner = match host {
            Some(host) if partition.problem.is_none() => host.read(device, &partition.name)?,
            _ => None,
        };
        table.partitions.push(partition);
        if let Some(inner) = inner {
            nested = true;
            table.partitions.extend(inner.partitions);
            table.notes.extend(inner.notes);
        }
    }
    // NetBSD and OpenBSD put the label in the disk's second sector if they have no slice.
    if scheme == Scheme::Mbr
        && !nested
        && let Some(bare) = disk.read(device, "")?
    {
        table.partitions.extend(bare.partitions);
        table.notes.extend(bare.notes);
    }
    Ok(table)
}

/// Reads `len` bytes at `offset`, which need not be whole sectors; returns `None` if the device is
/// shorter.
fn bytes_at(device: &dyn Device, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
    let &Info { size_bytes, sector_bytes, .. } = device.info();
    let sector = u64::from(sector_bytes);
    let Some(end) = offset.checked_add(len as u64).filter(|&end| end <= size_bytes) else {
        return Ok(None);
    };
    let first = offset / sector * sector;
    let Ok(span) = usize::try_from(end.next_multiple_of(sector) - first) else {
        return Ok(None);
    };
    let mut bytes = vec![0; span];
    device.read_at(first, &mut bytes)?;
    bytes.truncate(bytes.len() - usize::try_from(end.next_multiple_of(sector) - end).unwrap_or(0));
    Ok(Some(bytes.split_off(bytes.len() - len)))
}

/// Sets a problem in partitions that are not within `start..end`, the range of `container`.
fn mark_outside<'a>(
    partitions: impl Iterator<Item = &'a mut Partition>,
    start: u64,
    end: u64,
    container: &str,
) {
    for p in partitions {
        if p.start_bytes < start || p.end() > end {
            p.set_problem(|| {
                format!("it is not inside {container}, which is {} bytes at {start}", end - start)
            });
        }
    }
}

/// Sets a problem in every partition that overlaps another one.
fn mark_overlaps<'a>(partitions: impl Iterator<Item = &'a mut Partition>) {
    let mut sorted: Vec<&mut Partition> = partitions.filter(|p| p.size_bytes > 0).collect();
    sorted.sort_by_key(|p| p.start_bytes);
    // In this order a partition overlaps an earlier one exactly if it begins before the furthest
    // end so far.
    let mut furthest = 0;
    for i in 1..sorted.len() {
        let (before, after) = sorted.split_at_mut(i);
        let (reach, this) = (&mut before[furthest], &mut after[0]);
        if this.start_bytes < reach.end() {
            this.set_problem(|| format!("it overlaps {}", reach.name));
            reach.set_problem(|| format!("it overlaps {}", this.name));
        }
        if this.end() > reach.end() {
            furthest = i;
        }
    }
}

#[cfg(test)]
mod tests;
