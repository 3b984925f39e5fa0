//! Changing single fields and entries of a file system that is not mounted.
//!
//! Before the first change the superblock says, durably, that the file system needs a check, and
//! names no log, which could be replayed over the change. What is changed gets its check-hash where
//! the format has one. Nothing else is put right: counts, maps and copies of the superblock are
//! left to the check.

use super::Inspector;
use super::fields::{Field, Form};
use crate::check::node::{Node, kind};
use crate::format::ckhash::check_hash;
use crate::format::dinode::{Dinode, put_owner};
use crate::format::layout::{Extent, Version};
use crate::format::ondisk::{DI_CKHASH, Dinode1, FS_CKHASH, MAXNAMLEN};
use crate::format::superblock::{Superblock, decode};
use crate::log::locate::FoundLog;
use crate::repair::{Image, chunk, forget_log};
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_ondisk::Field as _;
use spindle_vfs::{Error, Result};
use std::sync::Arc;

/// A field that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The field.
    pub field: Field,
    /// What it was.
    pub old: i128,
    /// What it is now.
    pub new: i128,
}

/// A file system that is being changed. The caller has locked the device for writing.
pub struct Editor {
    device: Arc<dyn Device>,
    clock: Arc<dyn Clock>,
    superblock: Superblock,
    is_marked: bool,
}

impl Editor {
    /// Begins to change the file system on `device`; nothing is written yet. With `force`, also if
    /// something speaks against it that can be overridden.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if it must not be written, or its log still holds changes; those of
    /// [`Superblock::open`].
    pub fn begin(device: Arc<dyn Device>, clock: Arc<dyn Clock>, force: bool) -> Result<Self> {
        let superblock = Superblock::open(&*device)?;
        if matches!(FoundLog::look(&*device, &superblock)?, FoundLog::Recovery(_)) {
            let what = "it was not unmounted, and its log still holds changes";
            return Err(Error::unsupported(what, "carry them out with spindle fsck -p, or mount it once"));
        }
        let objections = superblock.objections(&*device)?;
        let stands = |objection: &&spindle_vfs::Objection| !(force && objection.overridable);
        if let Some(objection) = objections.iter().find(stands) {
            let (what, remedy) = (format!("it cannot be written: {}", objection.reason), &objection.remedy);
            return Err(Error::unsupported(what, remedy.clone()));
        }
        Ok(Self { device, clock, superblock, is_marked: false })
    }

    /// Returns the superblock as it is on the device.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Marks the file system as one that needs a check, durably, before the first change.
    fn mark(&mut self) -> Result<()> {
        if !self.is_marked {
            let mut marked = self.superblock.clone();
            marked.set_clean(false, false, self.clock.now());
            forget_log(&mut marked);
            marked.write(&*self.device)?;
            self.device.flush()?;
            self.superblock = marked;
            self.is_marked = true;
        }
        Ok(())
    }

    fn image(&self) -> Image<'_> {
        let layout = &self.superblock.layout;
        Image { device: &*self.device, layout, hashes: self.superblock.check_hashes() }
    }

    fn inspector(&self) -> Inspector<'_> {
        Inspector::new(&*self.device, &self.superblock)
    }

    /// Sets a field of an inode.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such inode or field, or the value does not fit. Then
    /// nothing is changed. Device errors.
    pub fn set_inode(&mut self, ino: u32, name: &str, value: i128) -> Result<Edited> {
        let layout = self.superblock.layout.clone();
        let before = self.inspector().inode_bytes(ino)?;
        let mut bytes = before.clone();
        let owner = name.strip_prefix("di_").unwrap_or(name);
        let edited = match (layout.version, owner) {
            (Version::Ufs1, "uid" | "gid") => {
                let d = Dinode::decode(&bytes, &layout);
                let id = u32::try_from(value).map_err(|_| unfit(name, value))?;
                let (old, ids) = if owner == "uid" { (d.uid, (id, d.gid)) } else { (d.gid, (d.uid, id)) };
                let mut raw = Dinode1::decode(&bytes, layout.endian);
                put_owner(&mut raw, layout.inode_format, ids);
                raw.encode(&mut bytes, layout.endian);
                let now = Dinode::decode(&bytes, &layout);
                if (now.uid, now.gid) != ids {
                    return Err(unfit(name, value));
                }
                let field = Field { name: name.into(), at: 0, len: 4, form: Form::Number };
                Edited { field, old: old.into(), new: value }
            }
            _ => change(&Field::of_inode(&layout), &mut bytes, layout.endian, name, value)?,
        };
        if layout.version == Version::Ufs2 && self.superblock.check_hashes().inodes {
            check_hash(&bytes, DI_CKHASH).put(&mut bytes[DI_CKHASH..], layout.endian);
        }
        self.mark()?;
        let (block, offset) = layout.ino_to_fsba(ino);
        self.image().put(layout.byte(block) + offset as u64, &bytes)?;
        self.device.flush()?;
        Ok(edited)
    }

    /// Makes an inode a free one; its generation stays, and its space stays marked used.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such inode. Device errors.
    pub fn clear_inode(&mut self, ino: u32) -> Result<()> {
        self.inspector().inode_bytes(ino)?;
        self.mark()?;
        self.image().clear_inode(ino)?;
        Ok(self.device.flush()?)
    }

    /// Takes a name out of a directory; the inode stays as it is. Returns the inode.
    ///
    /// # Errors
    /// [`Error::NotFound`]; as [`Inspector::list`]. Device errors.
    pub fn unlink(&mut self, dir: u32, name: &[u8]) -> Result<u32> {
        let (listed, _) = self.inspector().list(dir)?;
        let entry = listed.into_iter().find(|entry| entry.name == name).ok_or(Error::NotFound)?;
        self.mark()?;
        let layout = self.superblock.layout.clone();
        let chunk_bytes = u64::from(layout.dirblksiz);
        let within = entry.at % chunk_bytes;
        let len = layout.dirblksiz as usize;
        self.image().change(entry.byte - within, len, |chunk| {
            chunk::remove(&layout, chunk, usize::try_from(within).unwrap_or(0));
        })?;
        self.device.flush()?;
        Ok(entry.ino)
    }

    /// Enters a name for an inode into the space that a directory has left; the inode stays as it
    /// is.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NameTooLong`]; [`Error::Unsupported`] if it can be no name, the
    /// inode is free, or no chunk of the directory has room. As [`Inspector::list`]. Device errors.
    pub fn link(&mut self, dir: u32, name: &[u8], ino: u32) -> Result<()> {
        if name.len() > MAXNAMLEN {
            return Err(Error::NameTooLong);
        }
        if name.is_empty() || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Error::unsupported("that can be no name", "give one without a slash"));
        }
        let layout = self.superblock.layout.clone();
        let node = Node::decode(&layout, &self.inspector().inode_bytes(ino)?);
        if !node.known_kind(&layout) || node.kind() == kind::SHAD {
            return Err(Error::unsupported(format!("inode {ino} is no file"), "set its mode first"));
        }
        let (listed, _) = self.inspector().list(dir)?;
        if listed.iter().any(|entry| entry.name == name) {
            return Err(Error::Exists);
        }
        let mut places: Vec<u64> =
            listed.iter().map(|entry| entry.byte - entry.at % u64::from(layout.dirblksiz)).collect();
        places.dedup();
        let len = layout.dirblksiz as usize;
        for place in places {
            let mut bytes = self.image().read(place, len)?;
            if chunk::insert(&layout, &mut bytes, ino, node.kind(), name) {
                self.mark()?;
                self.image().put(place, &bytes)?;
                return Ok(self.device.flush()?);
            }
        }
        let remedy = "remove a name from it, or use the commands that write, such as spindle ln";
        Err(Error::unsupported("the directory has no room for the name", remedy))
    }

    /// Sets a field of the standard superblock.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such field or the value does not fit;
    /// [`Error::Corrupt`] if the superblock could not be used with it. Then nothing is changed.
    /// Device errors.
    pub fn set_superblock(&mut self, name: &str, value: i128) -> Result<Edited> {
        let fields = Field::of_superblock();
        // What is refused is refused before the superblock is marked.
        with_field(&self.superblock, &self.device, &fields, name, value)?;
        self.mark()?;
        let (mut changed, edited) = with_field(&self.superblock, &self.device, &fields, name, value)?;
        let sector = self.device.info().sector_bytes as usize;
        let bytes = changed.written_bytes(sector);
        self.device.write_at(changed.layout.fs_sblockloc, &changed.raw[..bytes])?;
        self.device.flush()?;
        changed.dialect = self.superblock.dialect;
        self.superblock = changed;
        Ok(edited)
    }
}

fn unfit(name: &str, value: i128) -> Error {
    Error::unsupported(format!("{name} cannot be {value}"), "give a value that fits into the field")
}

/// Sets a field of a structure.
fn change(
    fields: &[Field],
    bytes: &mut [u8],
    endian: spindle_ondisk::Endian,
    name: &str,
    value: i128,
) -> Result<Edited> {
    let field = Field::find(fields, name)
        .ok_or_else(|| Error::unsupported(format!("there is no field {name}"), "name one as it is shown"))?;
    let old = field.number(bytes, endian);
    match old {
        Some(old) if field.put(bytes, endian, value) => Ok(Edited { field: field.clone(), old, new: value }),
        _ => Err(unfit(name, value)),
    }
}

/// Returns a superblock with another value in a field, and its check-hash.
fn with_field(
    superblock: &Superblock,
    device: &Arc<dyn Device>,
    fields: &[Field],
    name: &str,
    value: i128,
) -> Result<(Superblock, Edited)> {
    let layout = &superblock.layout;
    let mut raw = superblock.raw.clone();
    let edited = change(fields, &mut raw, layout.endian, name, value)?;
    let unusable = || Error::corrupt(format!("{name} {value} would make it unusable"), "superblock");
    if superblock.check_hashes().superblock && edited.field.at != FS_CKHASH {
        let bytes = raw.get(..layout.fs_sbsize as usize).ok_or_else(unusable)?;
        check_hash(bytes, FS_CKHASH).put(&mut raw[FS_CKHASH..], layout.endian);
    }
    let (fs, endian) = decode(&raw).filter(|(_, endian)| *endian == layout.endian).ok_or_else(unusable)?;
    let whole = Extent::Whole(device.info().size_bytes);
    let changed = Superblock::checked_in(raw, &fs, endian, layout.fs_sblockloc, whole, &**device)?;
    Ok((changed, edited))
}
