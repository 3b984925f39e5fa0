//! The attributes of a file as `ls --json` and `stat` print them.

use crate::error::Result;
use crate::text;
use serde::Serialize;
use spindle_vfs::{Attr, FileKind, FileSystem};

/// A file as JSON. Names are escaped as in listings.
#[derive(Debug, Serialize)]
pub struct Description {
    /// Path in the image.
    pub path: String,
    /// Inode number.
    pub ino: u64,
    /// Generation of the inode number.
    pub generation: u64,
    /// Type, as [`text::kind_name`] names it.
    pub kind: &'static str,
    /// Permission bits in octal.
    pub mode: String,
    /// Number of names (hard links).
    pub nlink: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks512: u64,
    /// Time of the last read, UTC.
    pub atime: String,
    /// Time of the last change of the data, UTC.
    pub mtime: String,
    /// Time of the last change of the inode, UTC.
    pub ctime: String,
    /// Time of creation, UTC, if the format stores it.
    pub birthtime: Option<String>,
    /// BSD file flags.
    pub flags: u32,
    /// Device number (major, minor) of a device node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdev: Option<(u32, u32)>,
    /// Target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Returns true for device nodes.
pub const fn is_device(kind: FileKind) -> bool {
    matches!(kind, FileKind::BlockDevice | FileKind::CharDevice)
}

impl Description {
    /// Describes the file at `path`, which has the attributes `attr`.
    pub fn of(fs: &dyn FileSystem, path: &[u8], attr: &Attr) -> Result<Self> {
        let target = match attr.kind {
            FileKind::Symlink => Some(text::encoded(&fs.readlink(attr.ino)?)),
            _ => None,
        };
        Ok(Self {
            path: text::encoded(path),
            ino: attr.ino.0,
            generation: attr.generation,
            kind: text::kind_name(attr.kind),
            mode: format!("{:04o}", attr.perm),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            blocks512: attr.blocks512,
            atime: attr.atime.to_string(),
            mtime: attr.mtime.to_string(),
            ctime: attr.ctime.to_string(),
            birthtime: attr.birthtime.map(|time| time.to_string()),
            flags: attr.flags,
            rdev: is_device(attr.kind).then_some((attr.rdev.major, attr.rdev.minor)),
            target,
        })
    }
}
