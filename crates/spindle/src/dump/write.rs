//! Writing a dump that is planned.

use super::plan::{Plan, ROOT};
use crate::error::{Context, Error, Result};
use crate::flags::SNAPSHOT;
use crate::transfer::{Claims, Content, ImageContent, check_name, xattrs};
use spindle_dump::directory::{self, Entry};
use spindle_dump::{Device, Inode, Volumes, Writer, attributes};
use spindle_vfs::{Attr, FileKind, FileSystem, Ino, Node};
use std::ops::ControlFlow;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Files, directories included.
    pub files: u64,
    /// Bytes of the stream.
    pub bytes: u64,
}

impl Plan {
    /// Writes the dump to the volumes `out`. `lost` is called with what cannot be read and is
    /// therefore missing in it, or zeros; `step` with the bytes written, again and again: the dump
    /// ends if it fails.
    ///
    /// # Errors
    /// Those of `out` and `step`: the stream is then incomplete.
    pub fn write(
        &self,
        out: impl Volumes,
        lost: &dyn Fn(Error),
        step: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Written> {
        let mut writer = Writer::new(out, self.stamp.clone(), self.last)?;
        writer.maps(&self.in_use, &self.in_dump)?;
        let is_directory = |ino: &u32| self.parents.contains_key(ino);
        let directories = self.in_dump.iter().filter(is_directory);
        let others = self.in_dump.iter().filter(|ino| !is_directory(ino));
        let mut files = 0;
        let mut claims = Claims::new(&**self.vfs.fs());
        for ino in directories.chain(others) {
            let before = writer.records();
            let reported = |error: Error| lost(error.within(format!("inode {ino}")));
            let node = match self.vfs.fs().reference(Ino(ino.into())) {
                Ok(attr) => Node::new(&self.vfs, attr),
                Err(error) => {
                    reported(error.into());
                    continue;
                }
            };
            self.write_file(&mut writer, ino, node.attr(), &reported, step)?;
            claims.add(&**self.vfs.fs(), node.ino(), || format!("inode {ino}"));
            files += u64::from(writer.records() > before);
        }
        claims.losses(&self.vfs).into_iter().for_each(lost);
        let (_, records) = writer.finish()?;
        Ok(Written { files, bytes: records * spindle_dump::RECORD as u64 })
    }

    /// Writes a file, unless it cannot be read.
    fn write_file<V: Volumes>(
        &self,
        writer: &mut Writer<V>,
        ino: u32,
        attr: &Attr,
        lost: &dyn Fn(Error),
        step: &dyn Fn(u64) -> Result<()>,
    ) -> Result<()> {
        let fs = &**self.vfs.fs();
        let data = match attr.kind {
            FileKind::Directory => self.directory(ino),
            FileKind::Symlink => match fs.readlink(attr.ino) {
                Ok(target) => target,
                Err(error) => {
                    lost(error.into());
                    return Ok(());
                }
            },
            _ => Vec::new(),
        };
        let attributes = attributes_of(fs, attr, lost);
        let is_file = attr.kind == FileKind::Regular;
        let is_snapshot = fs.is_snapshot(attr.ino);
        let size = match attr.kind {
            FileKind::Regular if !is_snapshot => attr.size,
            _ => data.len() as u64,
        };
        let inode = Inode {
            mode: u16::try_from(attr.kind.mode_bits() | attr.perm).unwrap_or(0),
            size,
            uid: attr.uid,
            gid: attr.gid,
            atime: attr.atime,
            mtime: attr.mtime,
            birthtime: attr.birthtime,
            device: Device::of(attr.rdev, self.dialect).unwrap_or(Device::Raw(0)),
            flags: attr.flags & !SNAPSHOT,
            extsize: u32::try_from(attributes.len()).unwrap_or(0),
            names: self.links.get(&ino).copied().unwrap_or(1),
        };
        let mut rest = &data[..];
        let mut content = ImageContent::new(fs, attr).past_damage(lost);
        let mut next = |buffer: &mut [u8]| -> Result<Option<(u64, usize)>> {
            if is_file && !is_snapshot {
                let piece = content.next(buffer)?;
                step(piece.map_or(0, |(_, len)| len as u64))?;
                return Ok(piece);
            }
            let at = (data.len() - rest.len()) as u64;
            let (here, left) = rest.split_at(rest.len().min(buffer.len()));
            buffer[..here.len()].copy_from_slice(here);
            rest = left;
            step(here.len() as u64)?;
            Ok((!here.is_empty()).then_some((at, here.len())))
        };
        writer.file(ino, &inode, &mut next, &attributes)
    }

    /// Returns the data of a directory: the names of files in use, as the plan has found them.
    fn directory(&self, ino: u32) -> Vec<u8> {
        let parent = self.parents.get(&ino).copied().unwrap_or(ROOT);
        let special = |name: &[u8], ino| Entry { name: name.to_vec(), ino, kind: Some(FileKind::Directory) };
        let mut entries = vec![special(b".", ino), special(b"..", parent)];
        // The plan has reported what cannot be read of it.
        let _ = self.vfs.fs().readdir(Ino(ino.into()), 0, &mut |entry| {
            let named = u32::try_from(entry.ino.0).unwrap_or(0);
            // Of a directory with two names the walk has gone through one.
            let is_elsewhere = self.parents.get(&named).is_some_and(|&parent| parent != ino);
            if check_name(entry.name).is_ok() && self.in_use.contains(named) && !is_elsewhere {
                entries.push(Entry { name: entry.name.to_vec(), ino: named, kind: entry.kind });
            }
            ControlFlow::Continue(())
        });
        directory::encode(&entries)
    }
}

/// Returns the extended attributes of a file as a stream has them.
fn attributes_of(fs: &dyn FileSystem, attr: &Attr, lost: &dyn Fn(Error)) -> Vec<u8> {
    if !fs.limits().xattrs {
        return Vec::new();
    }
    let found = match xattrs(fs, attr.ino).context("extended attributes") {
        Ok(found) => found,
        Err(error) => {
            lost(error);
            return Vec::new();
        }
    };
    let (area, left_out) = attributes::encode(&found);
    if left_out > 0 {
        lost(Error::new(format!("{left_out} extended attributes have names that a dump cannot have")));
    }
    area
}
