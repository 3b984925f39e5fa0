//! What a user's next mount does after a crash, and what is looked at afterwards.

use super::images;
use super::operation::{Driver, Op, Sync};
use super::oracle::Tree;
use super::record::{message, open};
use super::recorder::{Event, Recorder};
use crate::overlay::{Allowance, Usage};
use spindle_device::Device;
use spindle_ffs::check::{Finding, Found, Options, check};
use spindle_ffs::{Ffs, LogUse};
use spindle_vfs::{Error, FileKind, FileSystem};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What one recovery may ask of its device: many times what the images need. More is a loop.
const ALLOWANCE: Allowance = Allowance { requests: 20_000, bytes: 64 << 20 };

/// A file system that was recovered.
pub struct Recovered {
    /// What is in it.
    pub tree: Tree,
    /// What mounting it asked of the device.
    pub usage: Usage,
    /// What mounting and unmounting it did to the device.
    pub events: Vec<Event>,
}

/// Mounts what is on the medium, reads it all, unmounts it and checks it; with `work`, it is used
/// and checked once more. The device is not taken back.
///
/// # Errors
/// What went wrong.
pub fn recover(device: &Arc<Recorder>, work: bool) -> Result<Recovered, String> {
    let start = device.position();
    device.allow(ALLOWANCE);
    let recovery = || {
        let clock = images::clock();
        clock.advance(1000);
        let fs = open(device.clone(), clock.clone(), LogUse::IfThere)?;
        let usage = device.usage();
        let tree = Tree::of(&fs, std::iter::empty())?;
        fs.unmount().map_err(|e| format!("unmount after recovery: {e}"))?;
        drop(fs);
        let events = device.since(start);
        checked(&**device, "after recovery")?;
        if work {
            let fs = open(device.clone(), clock, LogUse::IfThere)?;
            work_with(&fs).map_err(|e| format!("work after recovery: {e}"))?;
            fs.unmount().map_err(|e| format!("unmount after work: {e}"))?;
            checked(&**device, "after recovery and work")?;
        }
        Ok(Recovered { tree, usage, events })
    };
    catch_unwind(AssertUnwindSafe(recovery))
        .unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))
}

/// Checks a file system that must be without damage, and clean.
pub(crate) fn checked(device: &dyn Device, when: &str) -> Result<(), String> {
    let options = Options { limit: 10, ..Options::default() };
    let report = check(device, &options, &mut |_| ()).map_err(|e| format!("check {when}: {e}"))?;
    // Where directories are moved with others in them, the hint about the depth of those stays as
    // it was, as on FreeBSD.
    let hint = |found: &&Found| !matches!(found.finding, Finding::DirectoryDepth { .. });
    let list: Vec<_> = report.findings.iter().filter(hint).map(ToString::to_string).collect();
    if list.is_empty() && report.marked_clean {
        return Ok(());
    }
    Err(format!("check {when} (marked clean: {}):\n{}", report.marked_clean, list.join("\n")))
}

/// Makes a file on a recovered file system; that there may be no room is no fault.
fn work_with(fs: &Ffs) -> spindle_vfs::Result<()> {
    let mut driver = Driver::new(fs);
    let path = || "after-the-crash".to_owned();
    for op in [Op::Create(path(), FileKind::Regular), Op::Write(path(), 0, 5000)] {
        match driver.apply(&op, u64::MAX / 2, usize::MAX) {
            Ok(_) => driver.sync(&op, Sync::Fsync)?,
            Err(Error::NoSpace) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
