//! Names of devices: `disk.img`, `disk.img@s1a`, `disk.img@offset=1048576`.

use crate::known::node_of;
use crate::{Device, Error, FileDevice, OpenOptions, Result, Window, partitions};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file or block device, and a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The file or block device.
    pub path: PathBuf,
    /// The part of it.
    pub part: Part,
}

/// A part of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole disk.
    Whole,
    /// The partition of this name, as in [`crate::Table::find`].
    Named(String),
    /// From a byte on.
    Offset {
        /// The first byte.
        at: u64,
        /// Number of bytes, if it is known what is there; otherwise it reaches to the end.
        len: Option<u64>,
    },
}

/// What is opened for a [`Spec`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file or block device: that of the partition, if the system has one.
    pub path: PathBuf,
    /// The bytes of it; none if it is all of it, however large that becomes.
    pub bytes: Option<Range<u64>>,
    /// The disk ends before the partition does: it can only be read.
    pub is_cut: bool,
}

impl Spec {
    /// Parses `IMAGE`, `IMAGE@PARTITION` and `IMAGE@offset=BYTES`. A path that exists is never
    /// split, so a file may have an `@` in its name.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the text after `offset=` is not a number.
    pub fn parse(spec: &str) -> Result<Self> {
        let whole = || Self { path: spec.into(), part: Part::Whole };
        if Path::new(spec).symlink_metadata().is_ok() {
            return Ok(whole());
        }
        let Some((path, part)) = spec.rsplit_once('@') else {
            return Ok(whole());
        };
        // An @ in the name of a directory belongs to the path.
        if path.is_empty() || part.contains('/') {
            return Ok(whole());
        }
        let part = match part.strip_prefix("offset=") {
            Some(number) => {
                let at = parse_bytes(number).ok_or_else(|| Error::Unusable {
                    device: path.to_owned(),
                    reason: format!("offset={number} is not a number of bytes"),
                })?;
                Part::Offset { at, len: None }
            }
            None => Part::Named(part.to_owned()),
        };
        Ok(Self { path: path.into(), part })
    }

    /// Opens the device. A lock covers the bytes of the part only.
    ///
    /// # Errors
    /// Those of [`FileDevice::open`], [`partitions`], [`crate::Table::find`] and [`Window::new`].
    pub fn open(&self, options: &OpenOptions) -> Result<Arc<dyn Device>> {
        let Place { path, bytes, is_cut } = self.place()?;
        let Some(part) = bytes else {
            return Ok(Arc::new(FileDevice::open_named(&path, self.to_string(), options)?));
        };
        let device = Arc::new(FileDevice::open_part(&path, options, &part)?);
        let end = part.end.min(device.info().size_bytes);
        if is_cut {
            let missing = part.end - end;
            log::warn!("{self}: the disk ends {missing} bytes before the partition: it is only read");
        }
        let len = end.saturating_sub(part.start);
        let window = Window::new(device, part.start, len, self.to_string())?;
        Ok(Arc::new(if is_cut { window.read_only() } else { window }))
    }

    /// Returns what is opened: of a block device, the device that the system has for exactly this
    /// partition, if it has one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn place(&self) -> Result<Place> {
        let path = self.path.clone();
        let name = match &self.part {
            Part::Whole => return Ok(Place { path, bytes: None, is_cut: false }),
            Part::Offset { at, len } => {
                let end = len.map_or(u64::MAX, |len| at.saturating_add(len));
                return Ok(Place { path, bytes: Some(*at..end), is_cut: false });
            }
            Part::Named(name) => name,
        };
        let table = partitions(&FileDevice::open(&path, &OpenOptions::look())?)?;
        for note in &table.notes {
            log::warn!("{}: {note}", table.device);
        }
        let partition = table.find(name)?;
        let start = partition.start_bytes;
        let part = start..start.saturating_add(partition.size_bytes);
        if let Some(node) = node_of(&path, &part) {
            return Ok(Place { path: node, bytes: None, is_cut: false });
        }
        Ok(Place { path, bytes: Some(part), is_cut: partition.missing_bytes > 0 })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.part {
            Part::Whole => write!(f, "{path}"),
            Part::Named(name) => write!(f, "{path}@{name}"),
            Part::Offset { at, .. } => write!(f, "{path}@offset={at}"),
        }
    }
}

/// Parses and opens a device: [`Spec::parse`] and [`Spec::open`].
///
/// # Errors
/// Errors of both.
pub fn open_spec(spec: &str, options: &OpenOptions) -> Result<Arc<dyn Device>> {
    Spec::parse(spec)?.open(options)
}

/// Parses a number of bytes, decimal or hexadecimal.
fn parse_bytes(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}
