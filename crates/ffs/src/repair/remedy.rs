//! What a repair does about each kind of finding, and what is lost by it.

use crate::check::Finding;
use serde::Serialize;

/// What a repair does about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What it does, as a part of a sentence.
    pub repair: &'static str,
    /// What may be lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<&'static str>,
}

/// Returns what a repair does about a finding; none for notes and for what cannot be repaired.
#[must_use]
pub const fn remedy(finding: &Finding) -> Option<Remedy> {
    let (repair, lost) = match finding {
        Finding::SuperblockUnusable { .. } => ("write a superblock from a copy", None),
        Finding::SuperblockField { .. } => ("correct the field", None),
        Finding::ReplicaMissing { .. }
        | Finding::ReplicaDiffers { .. }
        | Finding::ReplicaCheckHash { .. } => ("make the superblock and its copies agree", None),
        Finding::LabelMissing { .. } => ("make a label, with the name \"untitled\"", None),
        Finding::FalseSnapshot { .. } => ("take it out of the list", None),
        Finding::SnapshotFlag { .. } => ("clear the flag", None),
        Finding::DamagedSnapshot { .. } => {
            ("remove the snapshot", Some("the snapshot, with what only it had of the file system"))
        }
        Finding::DirectoryShort { .. } => ("take the size from the blocks", None),
        Finding::RecoveryRecord { .. } => ("write the record anew", None),
        Finding::PartialInode { .. } => ("clear the inode", None),
        Finding::BadMode { .. } | Finding::BadSize { .. } | Finding::NoDevice { .. } => {
            ("clear the inode", Some("the file, unless the rest of the inode says what it was"))
        }
        Finding::SpecialFileSize { .. } => ("set the size to 0", None),
        Finding::StrayPointer { .. } | Finding::PartlyTruncated { .. } => {
            ("clear the pointers", Some("what stands behind the end of the file"))
        }
        Finding::BadBlock { .. } | Finding::ExcessiveBadBlocks { .. } => {
            ("clear the pointers", Some("the blocks, in whose place the file has a hole"))
        }
        Finding::DuplicateBlock { .. } | Finding::ExcessiveDuplicateBlocks { .. } => {
            ("copy the blocks for the second file", Some("what the second file had before"))
        }
        Finding::BlockCount { .. } | Finding::LinkCount { .. } => ("correct the count", None),
        Finding::BlocksMissing { .. } => {
            ("correct the count", Some("the blocks that nothing leads to, in whose place the file has holes"))
        }
        Finding::EndsInHole { .. } => ("correct the size", Some("zeros at the end of the file")),
        Finding::InodeCheckHash { .. } => ("correct the check-hash", None),
        Finding::ExtattrSize { .. } | Finding::ExtattrCorrupt { .. } => {
            ("cut the extended attributes", Some("the extended attributes from there on"))
        }
        Finding::ExtattrStray { .. } => ("clear the pointer", None),
        Finding::ExtattrNamespace { .. } => ("remove the attribute", Some("the attribute")),
        Finding::LinkBlockHasNul { .. } => ("remove the symbolic link", Some("the symbolic link")),
        Finding::LinkHasNul { .. } => ("cut the target", Some("the target from there on")),
        Finding::Root { .. } => ("make a new root directory", Some("the names in the root directory")),
        Finding::DirectoryTooShort { .. } | Finding::DirectorySize { .. } => ("correct the size", None),
        Finding::DirectoryHole { .. } => ("close the hole", Some("the names in those blocks")),
        Finding::DirectoryCorrupt { .. } => ("correct the chunk", Some("the names in the rest of the chunk")),
        Finding::BadDot { .. }
        | Finding::MissingDot { .. }
        | Finding::BadDotdot { .. }
        | Finding::MissingDotdot { .. } => ("correct the entry", None),
        Finding::ExtraDot { .. }
        | Finding::EntryOutOfRange { .. }
        | Finding::EntryUnallocated { .. }
        | Finding::EntryDamaged { .. }
        | Finding::BadWhiteout { .. }
        | Finding::DuplicateName { .. }
        | Finding::ExtraParent { .. } => ("remove the entry", Some("the name")),
        Finding::EntryType { .. } => ("correct the type", None),
        Finding::UnreferencedFile { nlink: 0, .. } => ("free the inode of a removed file", None),
        Finding::UnreferencedDirectory { .. } | Finding::UnreferencedFile { .. } => {
            ("give it a name in lost+found", None)
        }
        Finding::DirectoryLoop { .. } => ("cut the loop, and give it a name in lost+found", Some("a name")),
        Finding::GroupUnusable { .. } => ("make the cylinder group anew from the inodes", None),
        Finding::GroupField { .. }
        | Finding::GroupCheckHash { .. }
        | Finding::FragsMarkedFree { .. }
        | Finding::FragsMarkedUsed { .. }
        | Finding::InodesMarkedFree { .. }
        | Finding::InodesMarkedUsed { .. }
        | Finding::GroupCounts { .. }
        | Finding::FreeRuns { .. }
        | Finding::ClusterMap { .. }
        | Finding::ClusterSum { .. }
        | Finding::CylinderBlocks { .. }
        | Finding::RotationalBlocks { .. }
        | Finding::SummaryCounts { .. }
        | Finding::FreeBeyondEnd { .. }
        | Finding::Totals { .. } => ("correct the cylinder group and the counts", None),
        Finding::QuotaFileMissing { .. } => ("make the file, without limits", None),
        Finding::QuotaFile { .. } => ("make the file anew", Some("limits whose record cannot be found")),
        Finding::QuotaUsage { .. } => ("correct the usage", None),
        Finding::NotClean { .. }
        | Finding::Pending { .. }
        | Finding::Unreadable { .. }
        | Finding::FreeInodeCheckHash { .. }
        | Finding::DirectoryDepth { .. }
        | Finding::OldTotals { .. } => return None,
    };
    Some(Remedy { repair, lost })
}
