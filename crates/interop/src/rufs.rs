//! `rufs`, the library of `fuse-ufs`: another reader in Rust, called in this process.
//!
//! It panics on some images, so it runs behind `catch_unwind`. Device numbers are not shown, and
//! neither are times before 1970, whose fractions it mirrors. It takes an empty entry for the end
//! of a directory block, so names after one removed from the start of a block are lost to it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::UNIX_EPOCH;

use rufs::{InodeAttr, InodeNum, InodeType, Ufs};

use crate::record::{CONTENT_LIMIT_BYTES, Content, Digest, Kind, Listing, Record, Stamp};
use crate::{Failure, Result};

type Image = Ufs<std::fs::File>;

/// Lists the file system that starts at the first byte of `image`.
///
/// # Errors
/// What the reader said, also when it said it by a panic.
pub fn list(image: &Path) -> Result<Listing> {
    let read = || -> std::io::Result<Listing> {
        let mut ufs = Ufs::open(image, false)?;
        let mut listing = Listing::new();
        walk(&mut ufs, InodeNum::ROOT, b"", &mut listing)?;
        Ok(listing)
    };
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(std::io::Error::other("panicked")))
        .map_err(Failure::of(format!("rufs {}", image.display())))
}

fn walk(ufs: &mut Image, inode: InodeNum, path: &[u8], listing: &mut Listing) -> std::io::Result<()> {
    let attr = ufs.inode_attr(inode)?;
    let mut record = record(&attr);
    match attr.kind {
        InodeType::Symlink => record.target = Some(ufs.symlink_read(inode)?),
        InodeType::RegularFile if attr.size <= CONTENT_LIMIT_BYTES => {
            let bytes = Bytes { ufs, inode, at: 0, size: attr.size };
            record.content = Some(Content::of(Digest::of_stream(bytes)));
        }
        InodeType::Directory => {
            let mut entries = Vec::new();
            ufs.dir_iter(inode, |name, child, _| {
                entries.push((name.as_encoded_bytes().to_vec(), child));
                None::<()>
            })?;
            for (name, child) in entries.into_iter().filter(|(name, _)| name != b"." && name != b"..") {
                let below = if path.is_empty() { name } else { [path, b"/", &name].concat() };
                walk(ufs, child, &below, listing)?;
            }
        }
        _ => {}
    }
    let path = if path.is_empty() { b"." } else { path };
    listing.insert(path.to_vec(), record);
    Ok(())
}

fn record(attr: &InodeAttr) -> Record {
    let kind = match attr.kind {
        InodeType::RegularFile => Kind::Regular,
        InodeType::Directory => Kind::Directory,
        InodeType::Symlink => Kind::Symlink,
        InodeType::CharDevice => Kind::Character,
        InodeType::BlockDevice => Kind::Block,
        InodeType::NamedPipe => Kind::Fifo,
        InodeType::Socket => Kind::Socket,
    };
    let mtime = attr.mtime.duration_since(UNIX_EPOCH).ok().and_then(|since| {
        Some(Stamp { secs: i64::try_from(since.as_secs()).ok()?, nanos: Some(since.subsec_nanos()) })
    });
    Record {
        kind: Some(kind),
        mode: Some(u32::from(attr.perm)),
        uid: Some(attr.uid),
        gid: Some(attr.gid),
        size: Some(attr.size),
        nlink: Some(u32::from(attr.nlink)),
        mtime,
        ..Record::default()
    }
}

/// A file's bytes from the start.
struct Bytes<'a> {
    ufs: &'a mut Image,
    inode: InodeNum,
    at: u64,
    size: u64,
}

impl std::io::Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.size {
            return Ok(0);
        }
        let read = self.ufs.inode_read(self.inode, self.at, buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}
