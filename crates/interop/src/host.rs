//! The listing of a plain directory tree, to compare images with what went into them.

use std::fs::{self, File, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::record::{CONTENT_LIMIT_BYTES, Content, Digest, Kind, Listing, Record, Stamp};
use crate::{Failure, Result};

/// Lists `root` and all below it.
///
/// # Errors
/// Names the path that could not be read.
pub fn list(root: &Path) -> Result<Listing> {
    let mut listing = Listing::new();
    let meta = fs::symlink_metadata(root).map_err(Failure::of(root.display()))?;
    walk(root, b"", &meta, &mut listing)?;
    Ok(listing)
}

/// Lists what `at` is, under the name `path`, and all below it.
fn walk(at: &Path, path: &[u8], meta: &Metadata, listing: &mut Listing) -> Result<()> {
    let fail = |error| Failure::new(format!("{}: {error}", at.display()));
    let kind = Kind::of_mode(meta.mode());
    let mut record = Record {
        kind,
        mode: Some(meta.mode() & 0o7777),
        uid: Some(meta.uid()),
        gid: Some(meta.gid()),
        size: Some(meta.size()),
        nlink: u32::try_from(meta.nlink()).ok(),
        mtime: Some(Stamp { secs: meta.mtime(), nanos: u32::try_from(meta.mtime_nsec()).ok() }),
        ..Record::default()
    };
    match kind {
        Some(Kind::Directory) => {
            let mut directories = 0;
            for entry in fs::read_dir(at).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let name = entry.file_name();
                let below = if path.is_empty() {
                    name.as_bytes().to_vec()
                } else {
                    [path, b"/", name.as_bytes()].concat()
                };
                let meta = entry.metadata().map_err(fail)?;
                directories += u32::from(meta.is_dir());
                walk(&entry.path(), &below, &meta, listing)?;
            }
            record.size = None;
            record.nlink = Some(2 + directories);
        }
        Some(Kind::Regular) if meta.size() <= CONTENT_LIMIT_BYTES => {
            let file = File::open(at).map_err(fail)?;
            record.content = Some(Content::Read(Digest::of_stream(file).map_err(fail)?));
        }
        Some(Kind::Symlink) => {
            record.target = Some(fs::read_link(at).map_err(fail)?.into_os_string().into_vec());
        }
        Some(Kind::Character | Kind::Block) => {
            record.device = Some((rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev())));
        }
        _ => {}
    }
    let path = if path.is_empty() { b"." } else { path };
    listing.insert(path.to_vec(), record);
    Ok(())
}
