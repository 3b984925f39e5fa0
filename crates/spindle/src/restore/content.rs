//! The data and extended attributes of a file in a stream, as the content of a transfer.

use super::stream::{Next, Report, Stream};
use crate::error::{Context, Error, Result};
use crate::transfer::Content;
use spindle_dump::{Body, Event, Form, Reader, attributes as records};
use spindle_ffs::acl::for_linux;
use std::io::Read;

/// Full names and values of extended attributes.
type Attributes = Vec<(Vec<u8>, Vec<u8>)>;
/// The same, as far as they could be read, and what is wrong with the rest.
pub(super) type Found = (Attributes, Option<String>);

/// Bytes of Linux's extended attributes that are read: more than a block of ext2 has.
const MAX_EXT2: usize = 1 << 16;

/// Returns the extended attributes that come next in a stream, in a file of this kind, and what is
/// wrong with them.
pub(super) fn attributes<R: Read>(reader: &mut Reader<'_, R>, body: Body) -> Result<Found> {
    let endian = reader.endian();
    let (mut found, wrong) = if body == Body::Attributes {
        let mut bytes = vec![0; MAX_EXT2];
        let len = reader.data(&mut bytes)?.filter(|piece| piece.at == 0).map_or(0, |piece| piece.len);
        records::decode_ext2(&bytes[..len], endian)
    } else {
        records::decode(&reader.attributes()?, endian)
    };
    // Lists as such, and not as attributes that mean nothing where lists are switched off.
    for (name, value) in &mut found {
        if let Some((shown, list)) = for_linux(name, value) {
            (*name, *value) = (shown.to_vec(), list);
        }
    }
    Ok((found, wrong))
}

/// The content of the file that comes next in a stream.
pub(super) struct Streamed<'s, 'a> {
    pub(super) stream: &'s mut Stream<'a>,
    pub(super) ino: u32,
    pub(super) report: Report<'s>,
    /// What messages call the file.
    pub(super) path: String,
}

impl Streamed<'_, '_> {
    fn say(&self, what: String) {
        self.stream.say(self.report, Error::new(what).within(&self.path));
    }

    /// Reads the data of a file as a whole, but at most `max` bytes.
    pub(super) fn whole(&mut self, max: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; max.next_multiple_of(spindle_dump::RECORD)];
        let len =
            self.stream.reader.data(&mut bytes)?.filter(|piece| piece.at == 0).map_or(0, |piece| piece.len);
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Reports it if the file ends early.
    fn check_cut(&self) {
        if self.stream.reader.is_cut() {
            let passed = self.stream.reader.data_passed();
            self.say(format!("only {passed} bytes are in the dump, the rest is missing"));
        }
    }
}

impl Content for Streamed<'_, '_> {
    fn next(&mut self, buf: &mut [u8]) -> Result<Option<(u64, usize)>> {
        let piece = self.stream.reader.data(buf).context(&self.stream.name)?;
        Ok(piece.map(|piece| (piece.at, piece.len)))
    }

    /// Reads also what Linux puts behind a file as a file of its own, so that what comes next in
    /// the stream is another one.
    fn attributes_behind(&mut self) -> Result<Attributes> {
        self.check_cut();
        let (mut found, wrong) = attributes(&mut self.stream.reader, Body::Data)?;
        if let Some(wrong) = wrong {
            self.say(format!("extended attributes: {wrong}"));
        }
        if self.stream.reader.form() != Form::Linux {
            return Ok(found);
        }
        loop {
            match self.stream.reader.next_event()? {
                Event::Damage(damage) => self.stream.say(self.report, Error::new(damage.to_string())),
                Event::File { ino, body: Body::Attributes, .. } if ino == self.ino => {
                    let (more, wrong) = attributes(&mut self.stream.reader, Body::Attributes)?;
                    if let Some(wrong) = wrong {
                        self.say(format!("extended attributes: {wrong}"));
                    }
                    found.extend(more);
                }
                Event::File { ino, inode, body, .. } => {
                    self.stream.next = Some(Next { ino, inode, body });
                    return Ok(found);
                }
                Event::InUse(_) | Event::InDump(_) => self.say("a map stands behind it".into()),
                Event::End => return Ok(found),
            }
        }
    }
}
