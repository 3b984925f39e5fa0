//! What `ls --json` and `stat` tell of a file.

use crate::error::Result;
use crate::text;
use serde::Serialize;
use spindle_vfs::{Attr, FileKind, FileSystem};

/// A file as JSON has it. What is no text in names is escaped as in listings.
#[derive(Debug, Serialize)]
pub struct Description {
    /// Its path in the image.
    pub path: String,
    /// Inode number.
    pub ino: u64,
    /// Generation of the inode number.
    pub generation: u64,
    /// What it is.
    pub kind: &'static str,
    /// Permission bits in octal.
    pub mode: String,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space held, in units of 512 bytes.
    pub blocks512: u64,
    /// Last read, UTC.
    pub atime: String,
    /// Last change of the data, UTC.
    pub mtime: String,
    /// Last change of the inode, UTC.
    pub ctime: String,
    /// Birth, UTC, where the format has it.
    pub birthtime: Option<String>,
    /// BSD file flags.
    pub flags: u32,
    /// Device number of device nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rdev: Option<(u32, u32)>,
    /// Target of symbolic links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// Returns true for device nodes.
pub const fn is_device(kind: FileKind) -> bool {
    matches!(kind, FileKind::BlockDevice | FileKind::CharDevice)
}

impl Description {
    /// Describes what stands at `path`.
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
            atime: text::exact(attr.atime),
            mtime: text::exact(attr.mtime),
            ctime: text::exact(attr.ctime),
            birthtime: attr.birthtime.map(text::exact),
            flags: attr.flags,
            rdev: is_device(attr.kind).then_some((attr.rdev.major, attr.rdev.minor)),
            target,
        })
    }
}
