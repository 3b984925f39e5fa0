//! A tar stream as a sink: ustar headers, and extended headers of pax for values that do not fit.
//!
//! The same tree gives the same bytes. Extended headers hold long names, large numbers,
//! nanoseconds, extended attributes (`SCHILY.xattr.`), access control lists (`SCHILY.acl.`),
//! BSD's file flags by name (`SCHILY.fflags`, as star and libarchive have them), and the maps of
//! sparse files (GNU's format 1.0).

use super::pax::FFLAGS;
use super::{Body, CHUNK, Content, Failed, LeftOut, Meta, Node, Sink, acl, pax};
use crate::error::{Context, Error, Result};
use crate::flags;
use spindle_vfs::Rdev;
use std::io::Write;
use tar::{EntryType, Header};

const BLOCK: usize = 512;
/// Longest name in bytes that fits the header.
const NAME: usize = 100;
/// Largest number of eleven octal digits.
const MAX_OCTAL_11: u64 = (1 << 33) - 1;
/// Largest number of seven octal digits.
const MAX_OCTAL_7: u32 = (1 << 21) - 1;

/// A sink that writes a tar stream.
pub struct TarWriter<'a, W> {
    out: W,
    /// Name of the output, for messages.
    name: String,
    /// What to call with what a tar stream cannot contain, if that is left out.
    failed: Option<Failed<'a>>,
    left_out: LeftOut,
    buffer: Vec<u8>,
}

/// Type and content of an entry.
struct Entry<'a> {
    kind: EntryType,
    /// Number of data bytes that follow.
    size: u64,
    /// Target of a link.
    link: &'a [u8],
    /// Extended records of the entry.
    records: Vec<u8>,
    device: Option<(u32, u32)>,
}

impl Entry<'_> {
    const fn new(kind: EntryType) -> Self {
        Self { kind, size: 0, link: b"", records: Vec::new(), device: None }
    }
}

impl<'a, W: Write> TarWriter<'a, W> {
    /// Returns a sink that writes to `out`, which messages call `name`.
    pub fn new(out: W, name: impl Into<String>) -> Self {
        let left_out = LeftOut::default();
        Self { out, name: name.into(), failed: None, left_out, buffer: vec![0; CHUNK] }
    }

    /// Returns a sink that leaves out what a tar stream cannot contain, and calls `failed` with it.
    #[must_use]
    pub fn past_failures(self, failed: Failed<'a>) -> Self {
        Self { failed: Some(failed), ..self }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).context(&self.name)
    }

    fn pad(&mut self, len: u64) -> Result<()> {
        let over = usize::try_from(len % BLOCK as u64).unwrap_or(0);
        self.write(&[0; BLOCK][..(BLOCK - over) % BLOCK])
    }

    /// Writes the headers of an entry.
    fn header(&mut self, path: &[u8], entry: Entry<'_>, meta: &Meta) -> Result<()> {
        let Entry { kind, size, link, mut records, device } = entry;
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(meta.perm);
        let mut number = |key: &str, value: u64, most: u64| {
            if value > most {
                pax::append(&mut records, key.as_bytes(), value.to_string().as_bytes());
            }
            if value > most { 0 } else { value }
        };
        header.set_size(number("size", size, MAX_OCTAL_11));
        header.set_uid(number("uid", meta.uid.into(), MAX_OCTAL_7.into()));
        header.set_gid(number("gid", meta.gid.into(), MAX_OCTAL_7.into()));
        let whole = u64::try_from(meta.mtime.secs).ok().filter(|&secs| secs <= MAX_OCTAL_11);
        header.set_mtime(whole.unwrap_or(0));
        if whole.is_none() || meta.mtime.nanos != 0 {
            pax::append(&mut records, b"mtime", pax::time_text(meta.mtime).as_bytes());
        }
        if let Some(ustar) = header.as_ustar_mut() {
            put_name(&mut ustar.name, path, b"path", &mut records);
            put_name(&mut ustar.linkname, link, b"linkpath", &mut records);
            if let Some((major, minor)) = device {
                ustar.set_device_major(major);
                ustar.set_device_minor(minor);
            }
        }
        if meta.flags != 0 {
            pax::append(&mut records, FFLAGS, flags::names(meta.flags).as_bytes());
        }
        for (name, value) in &meta.xattrs {
            match acl::record(name, value) {
                Some((key, text)) => pax::append(&mut records, key, text.as_bytes()),
                None => pax::append(&mut records, &[b"SCHILY.xattr.", &name[..]].concat(), value),
            }
        }
        if !records.is_empty() {
            let mut extended = Header::new_ustar();
            extended.set_entry_type(EntryType::XHeader);
            extended.set_mode(0o644);
            extended.set_size(records.len() as u64);
            if let Some(ustar) = extended.as_ustar_mut() {
                let (_, last) = super::split(path.strip_suffix(b"/").unwrap_or(path));
                let name = [b"PaxHeaders/", last].concat();
                let len = name.len().min(NAME);
                ustar.name[..len].copy_from_slice(&name[..len]);
            }
            extended.set_cksum();
            self.write(extended.as_bytes())?;
            self.write(&records)?;
            self.pad(records.len() as u64)?;
        }
        header.set_cksum();
        self.write(header.as_bytes())
    }

    fn file(&mut self, path: &[u8], size: u64, content: &mut dyn Content, meta: &Meta) -> Result<()> {
        let extents = content.extents()?;
        let mut records = Vec::new();
        let mut map = Vec::new();
        let stored = if let Some(extents) = &extents {
            pax::append(&mut records, b"GNU.sparse.major", b"1");
            pax::append(&mut records, b"GNU.sparse.minor", b"0");
            pax::append(&mut records, b"GNU.sparse.name", path);
            pax::append(&mut records, b"GNU.sparse.realsize", size.to_string().as_bytes());
            // GNU tar needs a last piece at the end of the file, even if it is empty.
            let last = extents.last().is_none_or(|&(offset, len)| offset + len != size).then_some((size, 0));
            let pieces = extents.len() + usize::from(last.is_some());
            map.extend_from_slice(format!("{pieces}\n").as_bytes());
            for (offset, len) in extents.iter().chain(&last) {
                map.extend_from_slice(format!("{offset}\n{len}\n").as_bytes());
            }
            map.resize(map.len().next_multiple_of(BLOCK), 0);
            extents.iter().map(|&(_, len)| len).sum()
        } else {
            size
        };
        let total = map.len() as u64 + stored;
        self.header(path, Entry { size: total, records, ..Entry::new(EntryType::Regular) }, meta)?;
        self.write(&map)?;
        let mut written = 0;
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Some((_, len)) = content.next(&mut buffer)? {
            written += len as u64;
            if written > stored {
                break;
            }
            self.write(&buffer[..len])?;
        }
        self.buffer = buffer;
        if written != stored {
            return Err(Error::new(format!(
                "the file has {written} bytes instead of {stored}: it changed while it was read"
            )));
        }
        self.pad(total)
    }
}

/// Puts as much of a name into its field as fits, and all of it into a record if it does not fit.
fn put_name(field: &mut [u8; NAME], name: &[u8], key: &[u8], records: &mut Vec<u8>) {
    let len = name.len().min(NAME);
    field[..len].copy_from_slice(&name[..len]);
    if name.len() > NAME {
        pax::append(records, key, name);
    }
}

impl<W: Write> Sink for TarWriter<'_, W> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let Node { path, body, meta } = node;
        let done = match body {
            Body::File { size, content } => self.file(path, size, content, &meta),
            Body::Directory => {
                let path = if path.is_empty() { b"./".to_vec() } else { [path, b"/"].concat() };
                self.header(&path, Entry::new(EntryType::Directory), &meta)
            }
            Body::Symlink(target) => {
                self.header(path, Entry { link: target, ..Entry::new(EntryType::Symlink) }, &meta)
            }
            Body::HardLink(first) => {
                self.header(path, Entry { link: first, ..Entry::new(EntryType::Link) }, &meta)
            }
            Body::Device { rdev: Rdev { major, minor }, .. } if major.max(minor) > MAX_OCTAL_7 => {
                let error = Error::new(format!("device number {major}:{minor} is too large for tar"));
                match self.failed {
                    Some(failed) => return failed(path, error),
                    None => Err(error),
                }
            }
            Body::Device { block, rdev } => {
                let kind = if block { EntryType::Block } else { EntryType::Char };
                let device = Some((rdev.major, rdev.minor));
                self.header(path, Entry { device, ..Entry::new(kind) }, &meta)
            }
            Body::Fifo => self.header(path, Entry::new(EntryType::Fifo), &meta),
            Body::Socket => {
                self.left_out.sockets.add(path);
                Ok(())
            }
        };
        done.named(path)
    }

    fn finish(&mut self) -> Result<()> {
        self.write(&[0; 2 * BLOCK])?;
        self.out.flush().context(&self.name)?;
        self.left_out.warn();
        Ok(())
    }
}
