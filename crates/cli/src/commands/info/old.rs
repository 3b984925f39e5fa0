//! The report of `spindle info` on an old file system.

use super::found::FoundInfo;
use crate::error::Result;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::set::MountedAt;
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_report::number;
use spindle_v7::Detected;
use spindle_vfs::Objection;

/// An old file system. The names are those of `filsys.h`.
#[derive(Debug, Serialize)]
pub struct OldInfo {
    version: &'static str,
    format: String,
    byte_order: &'static str,
    bsize: u32,
    size_bytes: u64,
    clean: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mounted: Option<MountedAt>,
    writable: bool,
    pub objections: Vec<Objection>,
    /// Not of a guessed super-block, nor are its names, counts and interleave.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_written: Option<String>,
    s_fname: String,
    s_fpack: String,
    s_isize: u32,
    s_fsize: u32,
    inodes: u16,
    /// Free blocks and inodes as the super-block counts them; the Seventh Edition does not keep
    /// them up to date.
    s_tfree: u32,
    s_tinode: u16,
    s_m: u16,
    s_n: u16,
}

impl OldInfo {
    pub fn of(
        detected: &Detected,
        device: &dyn Device,
        mounted: Option<MountedAt>,
    ) -> spindle_vfs::Result<Self> {
        let superblock = &detected.superblock;
        let (format, layout) = (superblock.format, superblock.layout()?);
        // The mount has met them, or was forced.
        let is_written = mounted.as_ref().is_some_and(|at| !at.read_only);
        let objections = if is_written { Vec::new() } else { detected.objections(device) };
        let name = |bytes: &[u8]| text::encoded(bytes.split(|&b| b == 0).next().unwrap_or_default());
        Ok(Self {
            version: text::old_family(format.family),
            format: format.to_string(),
            byte_order: text::endian(format.endian),
            bsize: format.bsize,
            size_bytes: u64::from(layout.s_fsize) * u64::from(format.bsize),
            clean: superblock.is_clean() && detected.unusable.is_none(),
            mounted,
            writable: objections.is_empty(),
            objections,
            last_written: detected
                .unusable
                .is_none()
                .then(|| Timestamp::new(superblock.head.s_time.into(), 0).to_string()),
            s_fname: name(&superblock.tail.s_fname),
            s_fpack: name(&superblock.tail.s_fpack),
            s_isize: layout.s_isize,
            s_fsize: layout.s_fsize,
            inodes: layout.last_ino(),
            s_tfree: superblock.tail.s_tfree,
            s_tinode: superblock.tail.s_tinode,
            s_m: superblock.tail.s_m,
            s_n: superblock.tail.s_n,
        })
    }

    /// Returns format, size and state in one line.
    pub fn summary(&self) -> String {
        let clean = match (&self.last_written, self.clean) {
            (None, _) => "sizes guessed",
            (_, true) => "clean",
            (_, false) => "not clean",
        };
        format!(
            "{}, {}-endian, {}, {}",
            self.version,
            self.byte_order,
            number::bytes(self.size_bytes),
            FoundInfo::state(self.mounted.as_ref(), clean, self.writable),
        )
    }

    /// Prints everything except the summary, for people.
    pub fn show(&self, out: &mut Output) -> Result<()> {
        let mut row = |name: &str, value: String| out.row(name, &value);
        row("format", self.format.clone())?;
        if let Some(written) = &self.last_written {
            row("written", written.clone())?;
        }
        if !self.s_fname.is_empty() || !self.s_fpack.is_empty() {
            row("names", format!("fname {} fpack {}", self.s_fname, self.s_fpack))?;
        }
        row("blocks", format!("{} of {} bytes, data from {}", self.s_fsize, self.bsize, self.s_isize))?;
        row("inodes", self.inodes.to_string())?;
        if self.last_written.is_none() {
            return Ok(());
        }
        row("free", format!("tfree {} tinode {} (as the super-block says)", self.s_tfree, self.s_tinode))?;
        row("free list", format!("interleave {}/{}", self.s_m, self.s_n))
    }
}
