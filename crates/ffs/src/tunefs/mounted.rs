//! Tuning a file system while it is mounted.

use super::{Change, Parameter, Tuning, notes};
use crate::tree::mount::Ffs;
use serde::{Deserialize, Serialize};
use spindle_vfs::{Error, FileSystem, Result};

/// The changes that were made to a mounted file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tuned {
    /// Each parameter asked for, with what it was and is.
    pub changes: Vec<Change>,
    /// Advice about settings that go badly together, as parts of sentences.
    pub notes: Vec<String>,
}

/// Changes parameters of a mounted file system; the allocator obeys them at once.
///
/// # Errors
/// [`Error::Unsupported`] with the first parameter that cannot be changed while it is mounted, or
/// that this format does not have, or whose value cannot be; then nothing is changed. Also if it is
/// mounted read-only, or the device fails.
pub fn tune_mounted(ffs: &Ffs, tuning: &Tuning) -> Result<Tuned> {
    const WHILE_MOUNTED: [Parameter; 3] = [Parameter::Minfree, Parameter::Optimization, Parameter::Rotdelay];
    if let Some(parameter) = tuning.asked().find(|asked| !WHILE_MOUNTED.contains(asked)) {
        let why = "it is mounted; unmount it first";
        return Err(Error::unsupported(format!("{} cannot be changed", parameter.name()), why));
    }
    if ffs.read_only() {
        return Err(Error::unsupported("it cannot be changed", "it is mounted read-only; unmount it first"));
    }
    let changes = ffs.volume.change_superblock(|superblock| tuning.apply(superblock))?;
    Ok(Tuned { changes, notes: notes(&ffs.superblock(), tuning) })
}
