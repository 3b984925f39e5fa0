//! The report of `spindle info` on a file system of any kind.

use super::filesystem::FileSystemInfo;
use super::mfs::SetInfo;
use super::old::OldInfo;
use crate::error::Result;
use crate::mount_point;
use crate::output::Output;
use serde::Serialize;
use spindle::detect::Found;
use spindle::set::MountedAt;
use spindle_device::{Device, Spec};
use spindle_vfs::Objection;
use std::sync::Arc;

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FoundInfo {
    Ffs(Box<FileSystemInfo>),
    Old(Box<OldInfo>),
    Mfs(Box<SetInfo>),
}

impl FoundInfo {
    /// Collects the report of what was found on the device that `spec` names.
    pub fn of(found: &Found, device: &Arc<dyn Device>, spec: &Spec) -> Result<Self> {
        let mounted = || mount_point::of_image(spec);
        Ok(match found {
            Found::Ffs(superblock) => Self::Ffs(Box::new(FileSystemInfo::of(superblock, device, mounted())?)),
            Found::Old(detected) => Self::Old(Box::new(OldInfo::of(detected, &**device, mounted())?)),
            Found::Mfs(label) => Self::Mfs(Box::new(SetInfo::of(label, &device.info().name)?)),
        })
    }

    /// Returns format, size and state in one line.
    pub fn summary(&self) -> String {
        match self {
            Self::Ffs(info) => info.summary(),
            Self::Old(info) => info.summary(),
            Self::Mfs(info) => info.summary(),
        }
    }

    /// Returns the objections to writing.
    pub fn objections(&self) -> &[Objection] {
        match self {
            Self::Ffs(info) => &info.objections,
            Self::Old(info) => &info.objections,
            Self::Mfs(info) => &info.objections,
        }
    }

    /// Returns the state of a file system that may be mounted, and how it can be mounted: while it
    /// is mounted read-write it is marked as not clean, which says nothing of damage.
    pub fn state(mounted: Option<&MountedAt>, clean: &str, writable: bool) -> String {
        match mounted {
            Some(at) if at.read_only => format!("{clean}, mounted read-only {}", mount_point::place(at)),
            Some(at) => format!("mounted read-write {}", mount_point::place(at)),
            None if writable => format!("{clean}, can be mounted read-write"),
            None => format!("{clean}, mounts read-only"),
        }
    }

    /// Prints everything, for people.
    pub fn show(&self, out: &mut Output, image: &str) -> Result<()> {
        out.line(format!("{image}: {}", self.summary()))?;
        for objection in self.objections() {
            let suffix = if objection.overridable { "" } else { " (cannot be overridden)" };
            out.line(format!("  read-only because {}{suffix}; {}", objection.reason, objection.remedy))?;
        }
        match self {
            Self::Ffs(info) => info.show(out),
            Self::Old(info) => info.show(out),
            Self::Mfs(info) => info.show(out),
        }
    }
}
