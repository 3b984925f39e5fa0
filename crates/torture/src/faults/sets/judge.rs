//! Judges what the members of a set have after a session with a fault.

use super::healthy::Healthy;
use super::rig::{Rig, Standing, mount};
use super::session::Reached;
use crate::crash::images::{self, Mounting};
use crate::crash::oracle::Tree;
use crate::faults::device::Unflushed;
use crate::faults::healthy_run::Unread;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_mfs::check::{Finding, check, repair};
use spindle_mfs::{Role, read_label};
use spindle_vfs::FileSystem;
use std::sync::Arc;

/// Findings that are listed.
const MOST_FINDINGS: usize = 10;

/// Returns a clock that shows a time after the session.
pub(super) fn later() -> Arc<ManualClock> {
    let clock = images::clock();
    clock.advance(1000);
    clock
}

/// Opens what the members have on healthy devices, reads it, unmounts and checks. Does the same
/// without one of the members of which there are copies, before or after that. A set of which
/// metadata could not be read must ask for a check first, which finds nothing else.
///
/// # Errors
/// The first promise that is broken.
pub(super) fn judge(
    media: &[MemoryDevice],
    expected: &Healthy,
    reached: Reached,
    seed: u64,
) -> Result<(), String> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let media = &mark_whole(media, reached.unread).map_err(|e| format!("after unread metadata: {e}"))?;
    if rng.random_range(0..3) == 0
        && let Some(without) = without_one(media, &mut rng)
    {
        judge_one(&without, expected, reached).map_err(|e| format!("without a member: {e}"))?;
    }
    let media = judge_one(media, expected, reached).map_err(|e| format!("after reopening: {e}"))?;
    if let Some(without) = without_one(&media, &mut rng) {
        judge_one(&without, expected, reached).map_err(|e| format!("then without a member: {e}"))?;
    }
    Ok(())
}

/// Has a repair take back the mark of a set of which metadata could not be read, and returns what
/// the members have then.
fn mark_whole(media: &[MemoryDevice], unread: Unread) -> Result<Vec<MemoryDevice>, String> {
    let unchanged = || media.iter().map(MemoryDevice::branch).collect();
    if unread == Unread::Nothing {
        return Ok(unchanged());
    }
    let rig = Rig::healthy(media);
    let set = rig.open_set().map_err(|e| format!("open: {e}"))?;
    // It is not written before it has log storage again.
    if set.label_now().log_is_lost() {
        return Ok(unchanged());
    }
    let repaired =
        repair(&set, &*later(), true, MOST_FINDINGS, &mut |_| ()).map_err(|e| format!("repair: {e}"))?;
    let is_mark = |found: &&spindle_mfs::check::Found| matches!(found.finding, Finding::MarkedDamaged {});
    if unread == Unread::Marked && !repaired.before.findings.iter().any(|found| is_mark(&found)) {
        return Err("the unmount has left no mark".into());
    }
    if !(repaired.after.is_clean() && repaired.after.marked_clean) {
        let list: Vec<_> = repaired.before.findings.iter().map(ToString::to_string).collect();
        return Err(format!("not clean after a repair that may lose nothing:\n{}", list.join("\n")));
    }
    drop(set);
    Ok(rig.media(Unflushed::Lost))
}

/// Returns the devices without one of which there are copies, if there is one.
fn without_one(media: &[MemoryDevice], rng: &mut SmallRng) -> Option<Vec<MemoryDevice>> {
    let labels: Vec<_> = media.iter().map(|medium| read_label(medium).ok().flatten()).collect();
    let set = Rig::healthy(media).open_set().ok()?;
    let is_expendable = |n: &usize| {
        let own = labels[*n].as_ref();
        own.is_some_and(|own| {
            let is_lost = |area: &&spindle_mfs::Area| area.member_id == own.member_id && area.lost;
            Standing::of(&set.label, own.member_id) == Standing::Expendable
                && !set.label.areas.iter().any(|area| is_lost(&area))
        })
    };
    let expendable: Vec<_> = (0..media.len()).filter(is_expendable).collect();
    let gone = *expendable.choose(rng)?;
    let others = media.iter().enumerate().filter(|(n, _)| *n != gone);
    Some(others.map(|(_, medium)| medium.branch()).collect())
}

/// Returns what the members have afterwards.
fn judge_one(
    media: &[MemoryDevice],
    expected: &Healthy,
    reached: Reached,
) -> Result<Vec<MemoryDevice>, String> {
    let rig = Rig::healthy(media);
    let set = rig.open_set().map_err(|e| format!("open: {e}"))?;
    let label = set.label_now();
    let fs = mount(&set, later(), Mounting::Plain).map_err(|e| format!("mount: {e}"))?;
    if fs.read_only() && !label.log_is_lost() {
        let reasons: Vec<_> = fs.read_only_reasons().iter().map(|o| o.reason.as_str()).collect();
        return Err(format!("opened read-only: {}", reasons.join("; ")));
    }
    let tree = Tree::of(&fs, std::iter::empty());
    // Without a log a crash may damage what was changed since.
    if label.log_is_lost() && !reached.is_synced && !reached.is_unmounted {
        return Ok(media.iter().map(MemoryDevice::branch).collect());
    }
    expected.history.judge(&tree?, reached.promises, reached.version)?;
    fs.unmount().map_err(|e| format!("unmount: {e}"))?;
    drop((fs, set));
    checked(&rig, reached.is_unmounted || !label.log_is_lost())?;
    if label.log_is_lost() && !label.unlogged {
        with_new_log(&rig.media(Unflushed::Lost), expected, reached)
            .map_err(|e| format!("with a new log: {e}"))?;
    }
    Ok(rig.media(Unflushed::Lost))
}

/// Checks that a set has no damage, and that it was unmounted if `clean`.
fn checked(rig: &Rig, clean: bool) -> Result<(), String> {
    let report = rig.open_set().and_then(|set| check(&set, MOST_FINDINGS, &mut |_| ()));
    let report = report.map_err(|e| format!("check: {e}"))?;
    // After a crash without a log it says so until a repair, and what has no name any more is not
    // freed before.
    let is_wrong = |found: &&spindle_mfs::check::Found| {
        clean || !matches!(found.finding, Finding::MarkedDamaged {} | Finding::Orphan { .. })
    };
    let list: Vec<_> = report.findings.iter().filter(is_wrong).map(ToString::to_string).collect();
    if list.is_empty() && (report.marked_clean || !clean) {
        return Ok(());
    }
    Err(format!("check (marked clean: {}):\n{}", report.marked_clean, list.join("\n")))
}

/// Gives the log storage that is lost to new devices; then the set can be written again.
fn with_new_log(media: &[MemoryDevice], expected: &Healthy, reached: Reached) -> Result<(), String> {
    let rig = Rig::healthy(media);
    let set = rig.open_set().map_err(|e| e.to_string())?;
    set.begin_change(later().now()).map_err(|e| e.to_string())?;
    let mut devices = Vec::new();
    while let label = set.label_now()
        && let Some(area) = label.areas.iter().find(|area| label.log_is_lost() && area.role == Role::Log)
    {
        let device = Arc::new(MemoryDevice::new(4 << 20));
        let id = [100 + u8::try_from(devices.len()).unwrap_or(0); 16];
        let member = device.clone() as Arc<dyn Device>;
        set.replace(area.member_id, &member, id, &mut |_| Ok(())).map_err(|e| e.to_string())?;
        devices.push(device);
    }
    let mut members = rig.media(Unflushed::Kept);
    members.extend(devices.iter().map(|device| device.branch()));
    let rig = Rig::healthy(&members);
    let set = rig.open_set().map_err(|e| e.to_string())?;
    let fs = mount(&set, later(), Mounting::Plain).map_err(|e| e.to_string())?;
    if fs.read_only() {
        return Err("opened read-only".into());
    }
    let tree = Tree::of(&fs, std::iter::empty())?;
    expected.history.judge(&tree, reached.promises, reached.version)?;
    fs.unmount().map_err(|e| e.to_string())?;
    drop((fs, set));
    checked(&rig, true)
}
