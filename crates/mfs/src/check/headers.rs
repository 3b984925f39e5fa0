//! Phase 1: all headers, and the data blocks, overflow headers and attribute headers that they lead
//! to.
//!
//! Of a file whose map is damaged and whose header is whole, the extents before the damage count;
//! of a directory, the leaves that are left.

use super::finding::Finding;
use super::sums::is_mismatch;
use super::{Checker, File};
use crate::format::attributes::{Chain, Piece, is_attributes};
use crate::format::cylinder::Kind;
use crate::format::extent::Extent;
use crate::format::header::{Contents, Header, NameMap, SYMLINK_MAX, is_used};
use crate::format::layout::{DataBlock, HEADER_BYTES, Layout, ROOT_INO, index};
use crate::format::overflow::{Overflow, is_overflow};
use spindle_vfs::{Error, FileKind, Result};

/// What was met on the way through the headers that a file leads to.
#[derive(Default)]
struct Parts {
    /// A failure of the device.
    failed: Option<Error>,
    /// A header of the file where no headers are.
    elsewhere: Option<u64>,
    seen: Vec<u64>,
}

impl Checker {
    /// Reads the bytes of the header of a file, which must have a place.
    pub(super) fn header_bytes(&self, ino: u64) -> Result<Vec<u8>> {
        let (at, within) = self.layout.header_at(ino).ok_or(Error::Stale)?;
        Ok(self.read(at, self.layout.block_bytes())?[within..within + HEADER_BYTES].to_vec())
    }

    /// Reads a header from its bytes. The inner error says why it is damaged.
    ///
    /// # Errors
    /// Device errors.
    pub(super) fn decode_header(
        &mut self,
        ino: u64,
        bytes: &[u8],
    ) -> Result<std::result::Result<Header, String>> {
        self.with_overflow(ino, |layout, overflow| Header::decode(bytes, ino, layout, overflow))
    }

    /// Calls `decode` with a way to read the overflow headers of a file.
    fn with_overflow(
        &mut self,
        ino: u64,
        decode: impl FnOnce(&Layout, &mut dyn FnMut(u64) -> Result<Overflow>) -> Result<Header>,
    ) -> Result<std::result::Result<Header, String>> {
        let mut parts = Parts::default();
        let decoded = decode(&self.layout, &mut |at| {
            self.part(ino, at, &mut parts, |bytes| Overflow::decode(bytes, ino, at))
        });
        self.end_parts(parts, decoded)
    }

    /// Reads a header that a file leads to with `decode`.
    fn part<T>(
        &self,
        ino: u64,
        at: u64,
        parts: &mut Parts,
        decode: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        parts.seen.push(at);
        let wrong = || Error::corrupt(format!("it leads to header {at}"), format!("file header {ino}"));
        self.layout.header_place(at).ok_or_else(wrong)?;
        let bytes = self.header_bytes(at).inspect_err(|error| parts.failed = Some(error.clone()))?;
        let part = decode(&bytes)?;
        if !self.holds_header(at) {
            parts.elsewhere = Some(at);
            return Err(wrong());
        }
        Ok(part)
    }

    /// Notes what was met on the way through the headers of a file, of which `decoded` was made.
    fn end_parts<T>(&mut self, parts: Parts, decoded: Result<T>) -> Result<std::result::Result<T, String>> {
        let Parts { failed, elsewhere, seen } = parts;
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some(at) = elsewhere {
            self.header_is_named(at)?;
        }
        if decoded.is_err() {
            self.tied_headers.extend(seen);
        }
        Ok(decoded.map_err(|error| error.problem()))
    }

    /// Reads the attributes of a file.
    fn attributes(&mut self, ino: u64, header: &Header) -> Result<()> {
        let mut parts = Parts::default();
        let chain = Chain::read(header.attributes, ino, |at, position| {
            self.part(ino, at, &mut parts, |bytes| Piece::decode(bytes, ino, at, position))
        });
        match self.end_parts(parts, chain)? {
            Ok(chain) => {
                self.usage.attribute_headers += chain.headers.len() as u64;
                self.parts.extend(chain.headers);
            }
            Err(what) => {
                self.findings.push(Finding::Attributes { ino, what });
                self.bad_attributes.insert(ino);
            }
        }
        Ok(())
    }

    /// Reads all headers.
    pub(super) fn headers(&mut self) -> Result<()> {
        let (blocks, each) = (self.layout.cylinder_blocks(), self.layout.headers_in_block());
        for number in 0..self.layout.cylinders {
            let state = &self.cylinders[index(number)];
            if state.kind != Kind::Headers {
                continue;
            }
            let fresh = state.fresh;
            for block in 1..=blocks {
                let mut free = 0;
                if block > blocks - fresh {
                    free = each;
                } else {
                    let at = self.layout.control_byte(self.layout.block_of(number, block));
                    let bytes = self.read(at, self.layout.block_bytes())?;
                    for (slot, header) in ((block - 1) * each..).zip(bytes.chunks_exact(HEADER_BYTES)) {
                        let ino = self.layout.ino_of(number, slot);
                        if !is_used(header) {
                            free += u32::from(ino >= ROOT_INO);
                        } else if ino < ROOT_INO {
                            self.damaged_header(ino, "NO FILE CAN HAVE THIS HEADER".into());
                        } else if is_overflow(header) || is_attributes(header) {
                            self.strays.insert(ino, is_attributes(header));
                        } else {
                            self.header(ino, header)?;
                        }
                    }
                }
                let state = &mut self.cylinders[index(number)];
                state.free += free;
                if free > 0 {
                    state.map.push(block);
                }
            }
        }
        for at in &self.parts {
            self.strays.remove(at);
        }
        for (&header, &attributes) in &self.strays {
            let stray = if attributes {
                Finding::StrayAttributes { header }
            } else {
                Finding::StrayOverflow { header }
            };
            self.findings.push(stray);
        }
        self.root();
        Ok(())
    }

    fn damaged_header(&mut self, ino: u64, what: String) {
        self.findings.push(Finding::Header { ino, what });
        self.damaged.insert(ino);
    }

    /// Sees to it that there is a root directory; if it must be made anew, leaves of its names that
    /// are left still count.
    fn root(&mut self) {
        if self.files.contains_key(&ROOT_INO) {
            return;
        }
        if !self.damaged.remove(&ROOT_INO) {
            let what = "ROOT INODE UNALLOCATED".into();
            self.findings.push(Finding::Header { ino: ROOT_INO, what });
        }
        self.rebuild.insert(ROOT_INO);
        self.no_root = true;
        self.add_file(ROOT_INO, FileKind::Directory, &Self::new_directory(0o755));
    }

    /// Returns the header of a new directory without names. Its parent is the root.
    pub(super) fn new_directory(perm: u16) -> Header {
        let contents = Contents::Names(NameMap::default());
        Header { mode: 0o040_000 | perm, nlink: 2, parent: ROOT_INO, contents, ..Header::free(0) }
    }

    fn header(&mut self, ino: u64, bytes: &[u8]) -> Result<()> {
        let header = match self.decode_header(ino, bytes)? {
            Ok(header) => header,
            Err(what) => {
                self.damaged_header(ino, what);
                let salvage = |layout: &Layout, overflow: &mut dyn FnMut(u64) -> Result<Overflow>| {
                    Header::salvage(bytes, ino, layout, overflow)
                };
                let Ok(header) = self.with_overflow(ino, salvage)? else { return Ok(()) };
                self.damaged.remove(&ino);
                if header.kind() == Some(FileKind::Directory) {
                    self.rebuild.insert(ino);
                }
                self.salvaged.insert(ino, header.clone());
                header
            }
        };
        let Some(kind) = header.kind() else { return Ok(()) };
        if ino == ROOT_INO && kind != FileKind::Directory {
            self.damaged_header(ino, "ROOT INODE NOT DIRECTORY".into());
            return Ok(());
        }
        if kind == FileKind::Symlink
            && let Some(what) = self.wrong_target(&header)?
        {
            self.salvaged.remove(&ino);
            self.damaged_header(ino, what);
            return Ok(());
        }
        self.parts.extend(header.overflow.iter().map(|part| part.at));
        self.usage.overflow_headers += header.overflow.len() as u64;
        self.attributes(ino, &header)?;
        // Files may share blocks of a read-only class, which have neither a map nor checksums.
        let is_counted = |extent: &&Extent| !self.layout.is_read_only(DataBlock(extent.start).class());
        let counted: Vec<Extent> = header.extents().iter().filter(is_counted).copied().collect();
        if self.layout.parameters.checksums {
            self.extents.extend(counted.iter().map(|&extent| (ino, extent)));
        }
        for extent in &counted {
            let first = DataBlock(extent.start);
            let number = first.class();
            let held = self.claims[number].enter(first.within()..first.within() + extent.len);
            if let Some(range) = held.first() {
                let blocks = held.iter().map(|range| range.end - range.start).sum();
                let class = self.layout.class(number).name.to_string();
                self.findings.push(Finding::Duplicate { ino, class, block: range.start, blocks });
            }
            let part = |range: std::ops::Range<u64>| {
                let before = range.start - first.within();
                extent.part(extent.lbn + before, extent.lbn + before + (range.end - range.start))
            };
            if !held.is_empty() {
                self.overlaps.entry(ino).or_default().extend(held.into_iter().map(part));
            }
        }
        if header.nlink == 0
            && let Some((cylinder, _)) = self.layout.header_place(ino)
        {
            self.cylinders[index(cylinder)].orphans += 1;
        }
        self.add_file(ino, kind, &header);
        Ok(())
    }

    /// Returns what is wrong with the target of a symbolic link.
    fn wrong_target(&self, header: &Header) -> Result<Option<String>> {
        let size = index(header.size);
        if !(1..=SYMLINK_MAX).contains(&size) {
            return Ok(Some(format!("SYMBOLIC LINK OF {size} BYTES")));
        }
        let nul_at = match &header.contents {
            Contents::Immediate(target) => target.iter().position(|&byte| byte == 0),
            // A hole, and what is behind the last extent, reads as zeros.
            _ => self.first_nul(header.extents(), size)?,
        };
        Ok(nul_at.map(|at| format!("SYMBOLIC LINK OF {size} BYTES HAS A NUL AT BYTE {at}")))
    }

    /// Returns the first byte that is zero of a file with these extents.
    fn first_nul(&self, extents: &[Extent], size: usize) -> Result<Option<usize>> {
        let mut at = 0;
        for extent in extents {
            let class = DataBlock(extent.start).class();
            if self.layout.is_read_only(class) {
                return Ok(None);
            }
            let block_bytes = self.layout.class(class).block_bytes();
            if extent.lbn * block_bytes != at as u64 {
                break;
            }
            let len = index(extent.len * block_bytes).min(size - at);
            let bytes = match self.read(self.layout.data_byte(DataBlock(extent.start)), len) {
                // The last phase says so.
                Err(error) if is_mismatch(&error) => return Ok(None),
                bytes => bytes?,
            };
            if let Some(nul) = bytes[..len].iter().position(|&byte| byte == 0) {
                return Ok(Some(at + nul));
            }
            at += len;
            if at == size {
                return Ok(None);
            }
        }
        Ok(Some(at))
    }

    fn add_file(&mut self, ino: u64, kind: FileKind, header: &Header) {
        self.usage.files += 1;
        self.usage.directories += u64::from(kind == FileKind::Directory);
        self.files.insert(ino, File::new(kind, header));
    }
}
