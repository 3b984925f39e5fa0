//! The journal of FreeBSD's soft updates: its segments, and what they say was under way.
//!
//! Soft updates keep every inode and name that is on the disk sound. A crash costs no more than
//! counts of names that are too high, files that have lost their last name, and space that nobody
//! uses. The journal names the inodes concerned, so that what is left of a removal can be
//! distinguished from damage (`sbin/fsck_ffs/suj.c`). It knows nothing of contents.
//!
//! A segment counts if it has the time of the mount, and if each of its sectors has its head. The
//! kernel computes no checksum. The segments that count are those from the oldest number that any
//! of them names on, without a gap.

use crate::format::layout::Layout;
use crate::format::ondisk::{JREC_SIZE, JblkRec, JmvRec, JrefRec, JsegRec, JtrncRec, jop};
use crate::format::units::Frag;
use spindle_ondisk::{Endian, Field};
use std::collections::{BTreeMap, BTreeSet};

/// What a journal says was under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal {
    /// Inodes that have got or lost names, with the places of these: a directory, and a byte in it.
    pub(crate) names: BTreeMap<u32, BTreeSet<(u32, u64)>>,
    /// Files that were cut, with their bytes afterwards.
    pub(crate) cuts: BTreeMap<u32, u64>,
    /// All inodes that it names.
    pub(crate) inodes: BTreeSet<u32>,
    /// Number of records.
    pub(crate) records: usize,
}

/// A segment that counts.
struct Segment<'a> {
    head: JsegRec,
    records: Vec<&'a [u8]>,
}

impl Journal {
    /// Reads the journal from the bytes of its extents, in their order in the file. `mtime` is the
    /// time of the mount.
    ///
    /// # Errors
    /// The reason why it cannot be believed.
    pub(crate) fn read(extents: &[Vec<u8>], mtime: i64, layout: &Layout) -> Result<Self, String> {
        // The kernel counts in sectors of its disk, which an image does not say: those are right
        // with which most segments are found.
        let sectors = (9..=layout.fs_fshift).map(|shift| 1_usize << shift);
        let found = |sector| -> Vec<Segment<'_>> {
            let endian = layout.endian;
            extents.iter().flat_map(|extent| Segments { extent, mtime, sector, endian, at: 0 }).collect()
        };
        let most = sectors.map(found).reduce(|a, b| if b.len() > a.len() { b } else { a });
        let mut journal = Self::default();
        for record in chain(most.unwrap_or_default())?.iter().flat_map(|segment| &segment.records) {
            journal.take(record, layout)?;
        }
        Ok(journal)
    }

    fn take(&mut self, record: &[u8], layout: &Layout) -> Result<(), String> {
        let endian = layout.endian;
        let (op, ino) = (u32::get(record, endian), u32::get(&record[4..], endian));
        let valid = |ino: u32| (crate::format::layout::ROOT_INO..layout.inodes()).contains(&ino);
        let known = |ino: u32| if valid(ino) { Ok(ino) } else { Err(format!("it names inode {ino}")) };
        self.records += 1;
        self.inodes.insert(known(ino)?);
        let mut at = |parent: u32, offset: i64| {
            let offset = u64::try_from(offset).map_err(|_| format!("a name at byte {offset}"))?;
            self.inodes.insert(known(parent)?);
            self.names.entry(ino).or_default().insert((parent, offset));
            Ok(())
        };
        match op {
            jop::ADDREF | jop::REMREF => {
                let record = JrefRec::decode(record, endian);
                at(record.jr_parent, record.jr_diroff)
            }
            jop::MVREF => {
                let record = JmvRec::decode(record, endian);
                at(record.jm_parent, record.jm_oldoff)?;
                at(record.jm_parent, record.jm_newoff)
            }
            jop::NEWBLK | jop::FREEBLK => {
                let record = JblkRec::decode(record, endian);
                let frag = Frag(record.jb_blkno.cast_unsigned());
                let within = frag.0 % u64::from(layout.fs_frag) + u64::from(record.jb_frags);
                if layout.contains(frag, record.jb_frags.into()) && within <= layout.fs_frag.into() {
                    return Ok(());
                }
                Err(format!("it names {} fragments from {}", record.jb_frags, frag.0))
            }
            jop::TRUNC => {
                let size = JtrncRec::decode(record, endian).jt_size;
                let size = u64::try_from(size).map_err(|_| format!("a file of {size} bytes"))?;
                let least = self.cuts.entry(ino).or_insert(size);
                *least = size.min(*least);
                Ok(())
            }
            jop::SYNC => {
                self.cuts.remove(&ino);
                Ok(())
            }
            _ => Err(format!("it has a record of type {op}")),
        }
    }
}

/// Returns those of the segments that count, in their order.
fn chain(segments: Vec<Segment<'_>>) -> Result<Vec<Segment<'_>>, String> {
    let oldest = segments.iter().map(|segment| segment.head.jsr_oldest).max().unwrap_or(0);
    let mut found = BTreeMap::new();
    for segment in segments {
        let seq = segment.head.jsr_seq;
        if seq >= oldest && found.insert(seq, segment).is_some() {
            return Err(format!("it has two segments {seq}"));
        }
    }
    if let Some(&first) = found.keys().next()
        && first != oldest
    {
        return Err(format!("its oldest segment is {first}, not {oldest}"));
    }
    // The kernel writes several at once; only what is behind all others is finished.
    Ok((oldest..).zip(found).take_while(|(wanted, (seq, _))| wanted == seq).map(|(_, (_, s))| s).collect())
}

/// The segments in an extent that have the time of the mount and are whole.
struct Segments<'a> {
    extent: &'a [u8],
    mtime: i64,
    sector: usize,
    endian: Endian,
    at: usize,
}

impl<'a> Segments<'a> {
    fn head(&self, at: usize) -> Option<JsegRec> {
        let bytes = self.extent.get(at..at.checked_add(self.sector)?)?;
        let head = JsegRec::decode(bytes, self.endian);
        (head.jsr_time == self.mtime).then_some(head)
    }

    /// Returns the segment whose head stands at byte `at`, or none, and the sectors to go on by.
    fn segment(&self, at: usize) -> (Option<Segment<'a>>, usize) {
        let Some(head) = self.head(at) else { return (None, 1) };
        let (blocks, count) = (usize::from(head.jsr_blocks), usize::from(head.jsr_cnt));
        let room = blocks * (self.sector / JREC_SIZE - 1);
        let Some(bytes) = self.extent.get(at..at + blocks * self.sector) else { return (None, 1) };
        if count == 0 || count > room {
            return (None, 1);
        }
        let is_part =
            |n: &usize| self.head(at + n * self.sector).is_some_and(|other| other.jsr_seq == head.jsr_seq);
        let parts = (0..blocks).take_while(is_part).count();
        if parts < blocks {
            return (None, parts);
        }
        let sectors = bytes.chunks_exact(self.sector);
        let records = sectors.flat_map(|sector| sector.chunks_exact(JREC_SIZE).skip(1)).take(count).collect();
        (Some(Segment { head, records }), blocks)
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        while self.at < self.extent.len() {
            let (segment, sectors) = self.segment(self.at);
            self.at += sectors * self.sector;
            if segment.is_some() {
                return segment;
            }
        }
        None
    }
}
