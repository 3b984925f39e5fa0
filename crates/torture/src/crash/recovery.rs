//! The next mount after a crash, and the checks afterwards.

use super::images::{self, Mounting};
use super::operation::{Driver, Op, Sync};
use super::oracle::Tree;
use super::record::{message, open};
use super::recorder::{Event, Recorder};
use crate::overlay::{Allowance, Usage};
use spindle_clock::{Clock, ManualClock};
use spindle_device::Device;
use spindle_ffs::check::{Finding, Found, Options, check};
use spindle_ffs::repair::{Scope, plan};
use spindle_ffs::{Ffs, LogUse, Superblock};
use spindle_vfs::{Error, FileKind, FileSystem};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The requests and bytes of one recovery: many times what the images need. More is a loop.
const ALLOWANCE: Allowance = Allowance { requests: 20_000, bytes: 64 << 20 };

/// A file system that was recovered.
pub struct Recovered {
    /// Its tree.
    pub tree: Tree,
    /// The requests and bytes of the mount.
    pub usage: Usage,
    /// The events of the mount and the unmount.
    pub events: Vec<Event>,
}

/// Mounts the file system on the medium, reads it all, unmounts it and checks it. If `work`, also
/// uses it and checks it once more. The changes stay on the medium. What a mount without a log has
/// left is repaired first.
///
/// # Errors
/// What went wrong.
pub fn recover(device: &Arc<Recorder>, mounting: Mounting, work: bool) -> Result<Recovered, String> {
    let start = device.position();
    device.allow(ALLOWANCE);
    let recovery = || {
        let clock = images::clock();
        clock.advance(1000);
        if mounting == Mounting::Synchronous {
            repaired(device, clock.clone())?;
        }
        let fs = open(device.clone(), clock.clone(), LogUse::IfThere)?;
        let usage = device.usage();
        let tree = Tree::of(&fs, std::iter::empty())?;
        fs.unmount().map_err(|e| format!("unmount after recovery: {e}"))?;
        drop(fs);
        let events = device.since(start);
        checked(&**device, "after recovery")?;
        if work {
            let fs = open(device.clone(), clock, LogUse::IfThere)?;
            use_it(&fs).map_err(|e| format!("work after recovery: {e}"))?;
            fs.unmount().map_err(|e| format!("unmount after work: {e}"))?;
            checked(&**device, "after recovery and work")?;
        }
        Ok(Recovered { tree, usage, events })
    };
    catch_unwind(AssertUnwindSafe(recovery))
        .unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))
}

/// Repairs what a mount with `-o sync` has left, and marks it clean. No pointer may lead to a block
/// that was never written.
fn repaired(device: &Arc<Recorder>, clock: Arc<ManualClock>) -> Result<(), String> {
    let (options, medium): (_, Arc<dyn Device>) = (Options::default(), device.clone());
    let clock: Arc<dyn Clock> = clock;
    let failed = |error: Error| format!("repair: {error}");
    let plan = plan(&medium, &clock, &options, Scope::All, &mut |_| true, &mut |_| ()).map_err(failed)?;
    let unwritten = plan.before.findings.iter().filter(|found| {
        use Finding::{
            BadBlock, DirectoryCorrupt, ExcessiveBadBlocks, ExtattrCorrupt, ExtattrNamespace, LinkHasNul,
        };
        matches!(
            found.finding,
            BadBlock { .. }
                | DirectoryCorrupt { .. }
                | ExcessiveBadBlocks { .. }
                | ExtattrCorrupt { .. }
                | ExtattrNamespace { .. }
                | LinkHasNul { .. }
        )
    });
    let unwritten: Vec<_> = unwritten.map(ToString::to_string).collect();
    if !unwritten.is_empty() {
        return Err(format!("pointers to what was never written:\n{}", unwritten.join("\n")));
    }
    if let Some(refusal) = &plan.refusal {
        return Err(format!("repair: {refusal}"));
    }
    if plan.changes_anything() {
        return plan.apply(&**device).map_err(failed);
    }
    let marked = Superblock::open(&**device).and_then(|mut found| found.mark_checked(&**device, clock.now()));
    marked.map(drop).map_err(failed)
}

/// Checks that a file system has no damage and is clean.
pub(crate) fn checked(device: &dyn Device, when: &str) -> Result<(), String> {
    let options = Options { limit: 10, ..Options::default() };
    let report = check(device, &options, &mut |_| ()).map_err(|e| format!("check {when}: {e}"))?;
    // When a directory with others in it is moved, the depth hints of those are not updated, as on
    // FreeBSD.
    let hint = |found: &&Found| !matches!(found.finding, Finding::DirectoryDepth { .. });
    let list: Vec<_> = report.findings.iter().filter(hint).map(ToString::to_string).collect();
    if list.is_empty() && report.marked_clean {
        return Ok(());
    }
    Err(format!("check {when} (marked clean: {}):\n{}", report.marked_clean, list.join("\n")))
}

/// Makes a file on a recovered file system, if there is space.
fn use_it(fs: &Ffs) -> spindle_vfs::Result<()> {
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
