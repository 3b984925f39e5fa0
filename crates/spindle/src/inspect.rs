//! Opening a fast or an old file system to look inside, without a mount.

use crate::check::LogEffect;
use crate::detect::{Found, detect_damaged};
use crate::error::{Context, Error, Result};
use crate::image::{OpenOptions, open_device, open_with};
use spindle_device::{Device, Spec};
use spindle_ffs::{FoundLog, Replayed, Superblock, replayed};
use std::sync::Arc;

/// A fast file system that is open to be looked at, or to be changed byte by byte.
pub struct Opened {
    /// Its device. If its log has to be replayed, this shows the state after the replay.
    pub device: Arc<dyn Device>,
    /// Its superblock, or a copy that stands in for it.
    pub superblock: Superblock,
    /// What the log did, if anything.
    pub log: Option<LogEffect>,
}

/// Opens the fast file system in `spec`. Of the options, the kind of file system, the place of the
/// superblock, and whether it may be written count. To be written it must be as it is on the disk:
/// a log is not replayed then.
///
/// # Errors
/// If there is no fast file system that can be read, or another program is writing it; to be
/// written, if any program has it open.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Opened> {
    let device = if options.read_only { open_device(spec)? } else { open_with(spec, options)? };
    let find = |device: &dyn Device| match detect_damaged(device, options.kind, options.superblock) {
        Ok(Found::Ffs(superblock)) => Ok(*superblock),
        Ok(found) => Err(Error::new(format!("is {found}; this is only for UFS1 and UFS2"))),
        Err(error) => Err(error.into()),
    };
    let superblock = find(&*device).context(spec)?;
    if !options.read_only || superblock.salvaged.is_some() {
        return Ok(Opened { device, superblock, log: None });
    }
    let (device, log) = match replayed(&device, &superblock).context(spec)? {
        Some(Replayed { view, kind, records }) => (view, Some(LogEffect::JournalShown { kind, records })),
        None => after_replay(device, &superblock).context(spec)?,
    };
    let superblock = find(&*device).context(spec)?;
    Ok(Opened { device, superblock, log })
}

/// An old file system that is open to be looked at.
pub struct OpenedOld {
    /// Its device.
    pub device: Arc<dyn Device>,
    /// Its super-block, or one that was guessed.
    pub detected: Box<spindle_v7::Detected>,
}

/// Opens what is in `spec` for reading if it is an old file system; none if it is anything else.
/// Of the options, the kind of file system counts.
///
/// # Errors
/// If another program is writing it; those of reading.
pub fn open_old(spec: &Spec, options: &OpenOptions) -> Result<Option<OpenedOld>> {
    let device = open_device(spec)?;
    Ok(match detect_damaged(&*device, options.kind, options.superblock) {
        Ok(Found::Old(detected)) => Some(OpenedOld { device, detected }),
        // What else there is, and what is wrong with it, is reported by who opens that.
        Ok(_) | Err(_) => None,
    })
}

/// Returns what a device holds after a replay of its log, and no more than that: what a mount would
/// free then, which are the files that were removed while they were open, is still there.
fn after_replay(
    device: Arc<dyn Device>,
    superblock: &Superblock,
) -> spindle_vfs::Result<(Arc<dyn Device>, Option<LogEffect>)> {
    Ok(match FoundLog::look(&*device, superblock)? {
        FoundLog::Recovery(replay) => {
            (replay.view(device)?, Some(LogEffect::Shown { blocks: replay.blocks() }))
        }
        FoundLog::Useless(why) if !superblock.is_clean() => (device, Some(LogEffect::Useless(why))),
        _ => (device, None),
    })
}
