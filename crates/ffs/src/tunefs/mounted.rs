//! Tuning a file system while it is mounted.

use super::{Change, Parameter, Tuning, notes};
use crate::format::superblock::Superblock;
use serde::{Deserialize, Serialize};
use spindle_vfs::{Error, Result};

/// The changes that were made to a mounted file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tuned {
    /// Each parameter asked for, with what it was and is.
    pub changes: Vec<Change>,
    /// Advice about settings that go badly together, as parts of sentences.
    pub notes: Vec<String>,
}

impl Tuning {
    /// Changes the superblock in memory of a mounted file system, as [`Self::apply`] does.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the first parameter that cannot be changed while it is mounted,
    /// and as [`Self::apply`]; then nothing is changed.
    pub fn apply_mounted(&self, superblock: &mut Superblock) -> Result<Tuned> {
        const WHILE_MOUNTED: [Parameter; 3] =
            [Parameter::Minfree, Parameter::Optimization, Parameter::Rotdelay];
        if let Some(parameter) = self.asked().find(|asked| !WHILE_MOUNTED.contains(asked)) {
            let why = "it is mounted; unmount it first";
            return Err(Error::unsupported(format!("{} cannot be changed", parameter.name()), why));
        }
        let changes = self.apply(superblock)?;
        Ok(Tuned { changes, notes: notes(superblock, self) })
    }
}
