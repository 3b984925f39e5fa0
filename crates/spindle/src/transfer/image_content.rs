//! The content of a file in a file system, without its holes.
//!
//! What cannot be read fails, or ([`ImageContent::past_damage`]) is replaced by zeros, in pieces as
//! small as the file system reads, and reported.

use super::{Content, Extents, extents_of};
use crate::error::{Error, Result};
use spindle_vfs::{Attr, Error as FsError, FileSystem, Ino, Seek};
use std::ops::Range;

/// Bytes that are read at a time where a larger read has failed.
const CAREFUL: u64 = 4096;

/// The content of a regular file.
pub struct ImageContent<'a> {
    fs: &'a dyn FileSystem,
    ino: Ino,
    size: u64,
    at: u64,
    /// End of the current run of data.
    data_end: u64,
    /// What to do past damage.
    past: Option<Past<'a>>,
}

/// What is known of the damage in a file.
struct Past<'a> {
    report: &'a dyn Fn(Error),
    /// Small pieces are read before this place.
    careful_until: u64,
    /// What cannot be read, in order, with the first reason for each range.
    lost: Vec<(Range<u64>, FsError)>,
}

impl Past<'_> {
    fn lose(&mut self, range: Range<u64>, why: FsError) {
        match self.lost.iter_mut().find(|(known, _)| known.start <= range.end && range.start <= known.end) {
            Some((known, _)) => *known = known.start.min(range.start)..known.end.max(range.end),
            None => self.lost.push((range, why)),
        }
    }
}

impl<'a> ImageContent<'a> {
    /// Returns the content of the regular file with these attributes. The caller must hold a
    /// reference to the inode meanwhile.
    pub fn new(fs: &'a dyn FileSystem, attr: &Attr) -> Self {
        let dense = attr.blocks512.saturating_mul(512) >= attr.size;
        let data_end = if dense { attr.size } else { 0 };
        Self { fs, ino: attr.ino, size: attr.size, at: 0, data_end, past: None }
    }

    /// Returns the content with zeros in place of what cannot be read. `report` is called with each
    /// such range at the end.
    #[must_use]
    pub fn past_damage(self, report: &'a dyn Fn(Error)) -> Self {
        Self { past: Some(Past { report, careful_until: 0, lost: Vec::new() }), ..self }
    }

    /// Returns the end of what cannot be read at `at`, which is noted as lost; or the error, if
    /// that is not damage, or not to be passed.
    fn skip(&mut self, at: u64, error: FsError) -> Result<u64> {
        match &mut self.past {
            Some(past) if is_damage(&error) => {
                let end = self.fs.readable_after(self.ino, at)?.clamp(at + 1, self.size.max(at + 1));
                past.lose(at..end, error);
                Ok(end)
            }
            _ => Err(error.into()),
        }
    }

    /// Returns start and end of the first run of data at or after `offset`; an empty run at the end
    /// of the file if there is none.
    fn data_after(&mut self, mut offset: u64) -> Result<(u64, u64)> {
        let start = loop {
            match self.fs.seek(self.ino, offset, Seek::Data) {
                Err(FsError::NoSuchOffset) => return Ok((self.size, self.size)),
                Ok(start) => break start.min(self.size),
                Err(error) => offset = self.skip(offset, error)?,
            }
            if offset >= self.size {
                return Ok((self.size, self.size));
            }
        };
        let end = match self.fs.seek(self.ino, start, Seek::Hole) {
            Err(FsError::NoSuchOffset) => self.size,
            // The reads find out what of this run is lost.
            Err(error) if self.past.is_some() && is_damage(&error) => {
                self.fs.readable_after(self.ino, start)?.max(start + 1).min(self.size)
            }
            other => other?.min(self.size),
        };
        Ok((start, end))
    }

    fn report_lost(&mut self) {
        let Some(past) = &mut self.past else { return };
        for (range, why) in past.lost.drain(..) {
            let len = range.end - range.start;
            let (start, why) = (range.start, Error::from(why));
            let what = format!("{len} bytes at byte {start} cannot be read, zeros stand in their place");
            (past.report)(why.within(what));
        }
    }
}

impl Content for ImageContent<'_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        loop {
            if self.at >= self.data_end && self.at < self.size {
                (self.at, self.data_end) = self.data_after(self.at)?;
            }
            let at = self.at;
            let piece_end = match &self.past {
                Some(past) if at < past.careful_until => self.data_end.min((at / CAREFUL + 1) * CAREFUL),
                _ => self.data_end,
            };
            let want = usize::try_from(piece_end.saturating_sub(at)).unwrap_or(usize::MAX).min(buf.len());
            if want == 0 {
                self.report_lost();
                return Ok(None);
            }
            let got = match self.fs.read(self.ino, at, &mut buf[..want]) {
                Ok(0) => return Err(Error::new("the file became shorter while it was read")),
                Ok(got) => got,
                Err(error) => match &mut self.past {
                    Some(past) if is_damage(&error) && want as u64 > CAREFUL => {
                        past.careful_until = at + want as u64;
                        continue;
                    }
                    _ => {
                        let end = self.skip(at, error)?.min(self.data_end);
                        let lost = usize::try_from(end - at).unwrap_or(usize::MAX).min(buf.len());
                        buf[..lost].fill(0);
                        lost
                    }
                },
            };
            self.at += got as u64;
            return Ok(Some((at, got)));
        }
    }

    fn extents(&mut self) -> Result<Option<Extents>> {
        if self.data_end == self.size {
            return Ok(None);
        }
        extents_of(self.size, |at| self.data_after(at)).map(Some)
    }
}

/// Returns true for errors of what lies on the device.
fn is_damage(error: &FsError) -> bool {
    matches!(error, FsError::Corrupt { .. } | FsError::Device(_))
}
