//! Stages 2 and 4: headers.

use super::Round;
use crate::format::extent::{Extent, Extents};
use crate::format::header::{Contents, HEADER_EXTENTS, Header, NameMap, generation_of};
use crate::format::layout::{DataBlock, ROOT_INO};
use crate::format::overflow::{self, Part};
use spindle_vfs::{FileKind, Result};
use std::collections::BTreeSet;

impl Round<'_> {
    /// Gives files whose extents are damaged or belong to others too extents of their own, drops
    /// damaged attributes, and clears the headers that are no file's.
    pub(super) fn headers(&mut self) -> Result<bool> {
        let mut changed = false;
        let mut overlaps = std::mem::take(&mut self.checker.overlaps);
        let data = |header: &Header| matches!(header.contents, Contents::Extents(_));
        for (&ino, _) in self.checker.salvaged.iter().filter(|(_, header)| data(header)) {
            overlaps.entry(ino).or_default();
        }
        let written: BTreeSet<u64> = overlaps.keys().chain(self.checker.salvaged.keys()).copied().collect();
        for (ino, parts) in overlaps {
            if !self.checker.orphans.contains(&ino) {
                changed |= self.separate(ino, &parts)?;
            }
        }
        // What has a damaged map besides gets its header from those who put that right.
        let rest = self.checker.bad_attributes.iter().filter(|ino| !written.contains(ino));
        for ino in rest.copied().collect::<Vec<_>>() {
            if let Some(header) = self.header_of(ino)? {
                changed |= self.image.put_header(&self.checker, ino, &header)?;
            }
        }
        let checker = &self.checker;
        let cleared = checker.damaged.iter().chain(checker.strays.keys()).chain(&checker.orphans);
        for ino in cleared.copied().collect::<Vec<_>>() {
            let generation = generation_of(&self.checker.header_bytes(ino)?).wrapping_add(1);
            changed |= self.image.put_header(&self.checker, ino, &Header::free(generation))?;
        }
        Ok(changed)
    }

    /// Reads the header of a file that is not damaged, or as far as it can be read; without its
    /// attributes, if those are damaged.
    pub(super) fn header_of(&mut self, ino: u64) -> Result<Option<Header>> {
        let mut header = if let Some(header) = self.checker.salvaged.get(&ino) {
            Some(header.clone())
        } else {
            let bytes = self.checker.header_bytes(ino)?;
            self.checker.decode_header(ino, &bytes)?.ok().filter(|header| header.mode != 0)
        };
        if let Some(header) = header.as_mut().filter(|_| self.checker.bad_attributes.contains(&ino)) {
            header.attributes = None;
        }
        Ok(header)
    }

    /// Gives a file copies of `parts` of it, in order, whose blocks belong to other files. Where
    /// there is no space for a copy, it gets a hole.
    fn separate(&mut self, ino: u64, parts: &[Extent]) -> Result<bool> {
        let Some(mut header) = self.header_of(ino)? else { return Ok(false) };
        let (mut extents, mut copies) = (Joined::default(), Vec::new());
        let mut parts = parts.iter().peekable();
        for extent in header.extents() {
            let mut at = extent.lbn;
            while let Some(part) = parts.next_if(|part| part.lbn < extent.end()) {
                extents.push(extent.part(at, part.lbn));
                at = part.lbn;
                let class = DataBlock(part.start).class();
                while let Some(found) = self.checker.claims[class].allocate(part.end() - at) {
                    let len = found.end - found.start;
                    let DataBlock(start) = DataBlock::of(class, found.start);
                    extents.push(Extent { lbn: at, start, len });
                    copies.push((part.start + (at - part.lbn), start, len));
                    at += len;
                }
                at = part.end();
            }
            extents.push(extent.part(at, extent.end()));
        }
        let place = format!("file header {ino}");
        let extents = Extents::new(extents.0, &self.checker.layout, header.class, &place)?;
        header.contents = Contents::Extents(extents);
        let count = header.extents().len().saturating_sub(HEADER_EXTENTS);
        let lens = overflow::packed(count);
        let Some(headers) = self.take_headers(lens.len())? else { return Ok(self.is_full()) };
        header.overflow = headers.into_iter().zip(lens).map(|(at, len)| Part { at, len }).collect();
        let layout = self.checker.layout.clone();
        let byte = |block| layout.data_byte(DataBlock(block));
        for (from, to, len) in copies {
            self.image.copy(byte(from)..byte(from + len), byte(to));
            self.copy_sums(from, to, len)?;
        }
        let mut rest = &header.extents()[header.extents().len() - count..];
        for (n, part) in header.overflow.iter().enumerate() {
            let (here, more) = rest.split_at(part.len);
            let next = header.overflow.get(n + 1).map(|part| part.at);
            self.image.put_slot(&self.checker, part.at, |bytes| overflow::encode(bytes, ino, here, next))?;
            rest = more;
        }
        self.image.put_header(&self.checker, ino, &header)
    }

    /// Puts the counts of names and blocks in headers right, and `..`.
    pub(super) fn counts(&mut self) -> Result<bool> {
        let wrong = |(&ino, file): (&u64, &super::super::File)| {
            let directory = file.kind == FileKind::Directory;
            let counted = (file.size, file.map.blocks) == (file.found_names, file.found_blocks);
            let named = file.name.is_some();
            let right = file.nlink == file.found_nlink
                && (!directory || counted)
                && (!directory || !named || file.parent == file.found_parent);
            let later = self.checker.rebuild.contains(&ino) || self.checker.lost.contains(&ino);
            (!right && !later).then_some(ino)
        };
        let wrong: Vec<u64> = self.checker.files.iter().filter_map(wrong).collect();
        let mut changed = false;
        for ino in wrong {
            let Some(mut header) = self.header_of(ino)? else { continue };
            let file = &self.checker.files[&ino];
            header.nlink = file.found_nlink;
            if let Contents::Names(map) = header.contents {
                header.size = file.found_names;
                header.contents = Contents::Names(NameMap { blocks: file.found_blocks, ..map });
                header.parent = if ino == ROOT_INO { ROOT_INO } else { file.found_parent };
            }
            changed |= self.image.put_header(&self.checker, ino, &header)?;
        }
        Ok(changed)
    }
}

/// Extents in order, of which neighbours are one.
#[derive(Default)]
struct Joined(Vec<Extent>);

impl Joined {
    fn push(&mut self, new: Extent) {
        match self.0.last_mut() {
            _ if new.len == 0 => {}
            Some(last) if last.end() == new.lbn && last.start + last.len == new.start => last.len += new.len,
            _ => self.0.push(new),
        }
    }
}
