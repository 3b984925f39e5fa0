//! NetBSD's quotas inside the file system: making their files right, and turning them on and off.
//!
//! The files are put right by the file system itself, mounted on the planned state, when everything
//! else in it is right. A record whose entry can still be found keeps its limits and its place.

use super::{Image, Meanwhile, Wanted, lost, settle};
use crate::check::{Finding, Options, Report, check};
use crate::format::dialect::Dialect;
use crate::format::superblock::Superblock;
use crate::quota::Kind;
use crate::quota::inside::kinds_inside;
use spindle_clock::Clock;
use spindle_device::{CowDevice, Device};
use spindle_tree::check::Finding as _;
use spindle_tree::check::Severity;
use spindle_vfs::{Error, FileSystem, Result};
use std::sync::Arc;

/// Returns true for a finding about quotas, which are put right last.
pub(super) const fn is_of_quotas(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::QuotaFile { .. } | Finding::QuotaFileMissing { .. } | Finding::QuotaUsage { .. }
    )
}

/// Returns true if there is damage, and all of it is in quotas.
pub(super) fn only_quotas(findings: &[Finding]) -> bool {
    let mut damage = findings.iter().filter(|finding| finding.severity() != Severity::Note).peekable();
    damage.peek().is_some() && damage.all(is_of_quotas)
}

/// Makes the files of the quotas inside the file system on `device` right.
///
/// # Errors
/// [`Error::NoSpace`]; device errors.
pub(super) fn put_right(device: &Arc<dyn Device>, clock: &Arc<dyn Clock>) -> Result<()> {
    let ffs = lost::mount(device, clock)?;
    if ffs.read_only() {
        return Err(Error::ReadOnly);
    }
    ffs.rebuild_quotas_inside()?;
    ffs.unmount()
}

/// Turns quotas inside the file system on `device` on, with what is in use now, or off, with all
/// their limits. The caller locks the device, and has not mounted what is on it. Returns what a
/// check finds afterwards, which is nothing.
///
/// # Errors
/// [`Error::Unsupported`] if the file system is none of NetBSD's, or not clean and whole, or cannot
/// be written; errors of the device. The file system is as it was then, or needs a repair.
pub fn switch_quotas(
    device: &Arc<dyn Device>,
    clock: &Arc<dyn Clock>,
    kinds: &[Kind],
    on: bool,
) -> Result<Report> {
    let before = Superblock::open(&**device)?;
    if before.dialect != Dialect::NetBsd || !before.has_new_fields() {
        let what = "quotas inside a file system that is none of NetBSD's";
        return Err(Error::unsupported(what, "use quota files (spindle quota check)"));
    }
    if let Some(objection) = before.objections(&**device)?.first() {
        return Err(Error::unsupported(objection.reason.clone(), objection.remedy.clone()));
    }
    let found = check(&**device, &Options::default(), &mut |_| ())?;
    if !found.is_clean() || !found.marked_clean {
        return Err(Error::unsupported("it is not clean and whole", "repair it first (spindle fsck -y)"));
    }
    let overlay = Arc::new(CowDevice::new(device.clone()));
    let image = Image { device: &*overlay, layout: &before.layout, hashes: before.check_hashes() };
    let mut after = before.clone();
    for &kind in kinds {
        let file = kinds_inside(&before).into_iter().find(|&(other, _)| other == kind);
        match (file, on) {
            (None, true) => {
                after.switch_quota(kind, true);
                after.set_quota_file(kind, 0);
            }
            (Some((_, ino)), false) => {
                after.switch_quota(kind, false);
                after.set_quota_file(kind, 0);
                // A file without names that has none is freed.
                let ino = u32::try_from(ino).map_err(|_| Error::Invalid)?;
                image.change_inode(ino, |fields| fields.set_nlink(0))?;
            }
            _ => {}
        }
    }
    after.write(&*overlay)?;
    let options = Options::default();
    let wanted = Wanted { meanwhile: Meanwhile::Smaller(&before), ..Wanted::of(&options) };
    let plan = settle(&overlay, clock, found, &wanted, &mut |_| true)?;
    if let Some(reason) = plan.refusal {
        return Err(Error::unsupported(reason, "repair it first (spindle fsck -y)"));
    }
    plan.apply(&**device)?;
    Ok(plan.after)
}
