//! Whether it is safe to write: what the super-block shows, and whether the blocks that new files
//! get are free.
//!
//! Nothing but the free list says which blocks are free, and neither the list nor a file shows
//! that a block is in both, or in two files. So the whole of it is compared before the first write,
//! as a check does; an old file system is small.

use super::{Checker, Finding, sizes};
use crate::format::superblock::Detected;
use spindle_device::Device;
use spindle_vfs::Objection;
use std::mem::discriminant;

/// Most findings that are kept; with more it is not written in any case.
const LIMIT: usize = 1000;

impl Detected {
    /// Returns the objections to writing. Reads all inodes, all indirect blocks and the free list,
    /// unless the super-block alone is a reason that cannot be overridden.
    #[must_use]
    pub fn objections(&self, device: &dyn Device) -> Vec<Objection> {
        let mut found = self.objections_of_superblock(device);
        if found.iter().all(|objection| objection.overridable) {
            found.extend(self.objections_of_blocks(device));
        }
        found
    }

    /// Returns the damage with which a file could get a block that another one has: one objection
    /// for each kind.
    fn objections_of_blocks(&self, device: &dyn Device) -> Vec<Objection> {
        // Impossible sizes are an error wherever it is opened.
        let Ok(mut checker) = Checker::new(device, self, LIMIT) else { return Vec::new() };
        checker.check_inodes();
        checker.check_free_list();
        let findings = checker.findings;
        let mut kinds = Vec::new();
        let mut objections = Vec::new();
        if let Ok(Some(_)) = sizes::better(device, self) {
            objections.push(refusal(sizes::CONTRADICTED.into()));
        }
        for finding in findings.list() {
            if kinds.contains(&discriminant(finding)) {
                continue;
            }
            kinds.push(discriminant(finding));
            objections.extend(objection(finding));
        }
        if findings.unlisted() > 0 && objections.is_empty() {
            objections.push(refusal(format!("its inodes are damaged in more than {LIMIT} places")));
        }
        objections
    }
}

fn refusal(reason: String) -> Objection {
    Objection { reason, remedy: "run spindle fsck -y on it".into(), overridable: false }
}

/// Returns the objection to writing that follows from a finding.
fn objection(finding: &Finding) -> Option<Objection> {
    Some(match finding {
        Finding::NoRoot {} => refusal("its root inode is not a directory".into()),
        Finding::DupBlock { ino, block, .. } => {
            refusal(format!("block {block} belongs to inode {ino} and to something else"))
        }
        Finding::FreeInUse { first, .. } => refusal(format!(
            "block {first} is in the free list and in a file, which the next new file would destroy"
        )),
        Finding::BadFreeList { why } => refusal(format!("its free list is damaged: {why}")),
        Finding::Unreadable { block, why } => Objection {
            reason: format!("block {block} cannot be read ({why}), so it is not certain what is free"),
            remedy: "copy what can be read to another device, and repair that".into(),
            overridable: false,
        },
        _ => return None,
    })
}
