//! Cylinders: what each holds.
//!
//! The description of a cylinder is believed unless it is damaged, or contradicted: a name leads to
//! a whole header, or a name map to a whole node of its directory, in a cylinder of which the
//! description says something else, and more of these references than of those that agree with it.
//! Then the cylinder's kind follows from what its blocks hold.

use super::Checker;
use super::finding::Finding;
use crate::format::cylinder::{CYLINDER_BYTES, Cylinder, Kind};
use crate::format::header::{is_used, is_whole};
use crate::format::layout::{HEADER_BYTES, ROOT_INO, index};
use crate::format::node::is_node;
use spindle_vfs::Result;
use std::collections::BTreeMap;

/// A cylinder, and what was found in it.
pub(super) struct CylinderState {
    /// Its description, if that is whole.
    pub(super) described: Option<Cylinder>,
    /// What it holds.
    pub(super) kind: Kind,
    /// Blocks at its end that were never used.
    pub(super) fresh: u32,
    /// Why `kind` and `fresh` are not those of the description.
    pub(super) wrong: Option<String>,
    /// Free headers found.
    pub(super) free: u32,
    /// Headers of files without a name.
    pub(super) orphans: u32,
    /// The blocks that have a free header, in order.
    pub(super) map: Vec<u32>,
    /// References that agree with its kind.
    pub(super) agreed: u64,
}

/// What references say of a cylinder that they lead to.
#[derive(Clone, Copy)]
pub(super) struct Doubt {
    /// The kind that they expect.
    pub(super) kind: Kind,
    /// The last block that they lead to.
    pub(super) block: u32,
    /// Their number.
    pub(super) references: u64,
}

/// What earlier walks have found out about cylinders.
pub(super) type Doubts = BTreeMap<u64, Doubt>;

impl Checker {
    /// Reads the descriptions of all cylinders; where references have contradicted one, `settled`
    /// counts.
    pub(super) fn read_cylinders(&mut self, settled: &Doubts) -> Result<()> {
        let blocks = self.layout.cylinder_blocks();
        for number in 0..self.layout.cylinders {
            let bytes = self.read(self.layout.cylinder_at(number), CYLINDER_BYTES)?;
            let decoded = Cylinder::decode(&bytes, number, blocks);
            let (mut kind, mut fresh, mut wrong) = match &decoded {
                Ok(cylinder) => (cylinder.kind, cylinder.fresh, None),
                Err(error) => {
                    let (kind, fresh) = self.contents_of(number)?;
                    (kind, fresh, Some(error.problem()))
                }
            };
            let mut referred = settled.get(&number).map(|doubt| (doubt.kind, doubt.block));
            if number == 0 {
                // The root directory is always there.
                let block = 1 + u32::try_from(ROOT_INO).unwrap_or(0) / self.layout.headers_in_block();
                referred = referred.filter(|&(kind, last)| kind == Kind::Headers && last > block);
                referred = Some(referred.unwrap_or((Kind::Headers, block)));
            }
            if let Some((expected, block)) = referred {
                if kind != expected {
                    (_, fresh) = self.contents_of(number)?;
                    wrong.get_or_insert_with(|| format!("IT HOLDS {expected}, NOT {kind}"));
                    kind = expected;
                }
                if kind == Kind::Headers && block > blocks - fresh {
                    fresh = blocks - block;
                    wrong.get_or_insert_with(|| format!("ITS BLOCK {block} IS IN USE"));
                }
            }
            if let Some(what) = &wrong {
                self.findings.push(Finding::Cylinder { cylinder: number, what: what.clone() });
            }
            let described = decoded.ok();
            let (free, orphans, map, agreed) = (0, 0, Vec::new(), 0);
            self.cylinders.push(CylinderState { described, kind, fresh, wrong, free, orphans, map, agreed });
        }
        Ok(())
    }

    /// Returns what the blocks of a cylinder hold most of, and the blocks after the last one with a
    /// whole header.
    fn contents_of(&self, number: u64) -> Result<(Kind, u32)> {
        let (mut headers, mut nodes, mut last) = (0, 0, 0);
        for block in 1..=self.layout.cylinder_blocks() {
            let at = self.layout.block_of(number, block);
            let bytes = self.read(self.layout.control_byte(at), self.layout.block_bytes())?;
            let bytes = &bytes[..self.layout.block_bytes()];
            if is_node(bytes, at) {
                nodes += 1;
                continue;
            }
            let first = (block - 1) * self.layout.headers_in_block();
            let mut slots = (first..).zip(bytes.chunks_exact(HEADER_BYTES));
            if slots.any(|(slot, header)| is_whole(header, self.layout.ino_of(number, slot))) {
                headers += 1;
                last = block;
            }
        }
        let kind = match (headers, nodes) {
            (0, 0) => Kind::Unused,
            (headers, nodes) if headers > nodes => Kind::Headers,
            _ => Kind::Names,
        };
        Ok((kind, self.layout.cylinder_blocks() - last))
    }

    /// Notes that a reference leads to an entry of a kind that is really there.
    pub(super) fn doubt(&mut self, number: u64, kind: Kind, block: u32) {
        let doubt = self.doubts.entry(number).or_insert(Doubt { kind, block, references: 0 });
        if doubt.kind == kind {
            doubt.block = doubt.block.max(block);
            doubt.references += 1;
        }
    }

    /// Returns true if the header of a file is where headers are that have been used.
    pub(super) fn holds_header(&self, ino: u64) -> bool {
        let Some((cylinder, slot)) = self.layout.header_place(ino) else { return false };
        let state = &self.cylinders[index(cylinder)];
        let block = 1 + slot / self.layout.headers_in_block();
        state.kind == Kind::Headers && block <= self.layout.cylinder_blocks() - state.fresh
    }

    /// Notes that something refers to a header: agreement if it is where headers are, doubt if it
    /// is elsewhere and whole.
    pub(super) fn header_is_named(&mut self, ino: u64) -> Result<()> {
        let Some((cylinder, slot)) = self.layout.header_place(ino) else { return Ok(()) };
        let there = self.files.contains_key(&ino);
        if !there {
            self.tied_headers.insert(ino);
        }
        if self.holds_header(ino) {
            self.cylinders[index(cylinder)].agreed += u64::from(there);
            return Ok(());
        }
        let bytes = self.header_bytes(ino)?;
        if is_used(&bytes) && is_whole(&bytes, ino) {
            self.doubt(cylinder, Kind::Headers, 1 + slot / self.layout.headers_in_block());
        }
        Ok(())
    }

    /// Takes what references have found out in a walk into `settled`. Returns true if there is
    /// anything new, so that another walk finds more.
    pub(super) fn settle(&self, settled: &mut Doubts) -> bool {
        let mut any = false;
        for (&number, doubt) in &self.doubts {
            let state = &self.cylinders[index(number)];
            if state.kind != doubt.kind && (settled.contains_key(&number) || doubt.references <= state.agreed)
            {
                continue;
            }
            settled.insert(number, *doubt);
            any = true;
        }
        any
    }

    /// Returns the description that a cylinder should have.
    pub(super) fn expected_cylinder(&self, number: u64) -> Cylinder {
        let (state, blocks) = (&self.cylinders[index(number)], self.layout.cylinder_blocks());
        let mut cylinder = Cylinder::unused(number, blocks);
        (cylinder.kind, cylinder.orphans) = (state.kind, state.orphans);
        match state.kind {
            Kind::Unused => {}
            Kind::Headers => {
                (cylinder.free, cylinder.fresh) = (state.free, state.fresh);
                state.map.iter().for_each(|&block| cylinder.set_free(block, true));
            }
            Kind::Names => {
                cylinder.fresh = state.fresh;
                for block in 1..=blocks {
                    let free = !self.nodes.contains(&self.layout.block_of(number, block));
                    cylinder.free += u32::from(free);
                    cylinder.set_free(block, free);
                }
            }
        }
        cylinder
    }

    /// Compares the descriptions of cylinders with what is in them.
    pub(super) fn compare_cylinders(&mut self) {
        for number in 0..self.layout.cylinders {
            let state = &self.cylinders[index(number)];
            let Some(described) = state.described.as_ref().filter(|_| state.wrong.is_none()) else {
                continue;
            };
            let expected = self.expected_cylinder(number);
            let mut wrong = Vec::new();
            let mut compare = |what, (found, expected): (u32, u32)| {
                if found != expected {
                    wrong.push(format!("{found} {what}, SHOULD BE {expected}"));
                }
            };
            compare("FREE ENTRIES", (described.free, expected.free));
            compare("FILES WITHOUT A NAME", (described.orphans, expected.orphans));
            compare("BLOCKS THAT WERE NEVER USED", (described.fresh, expected.fresh));
            if described.map != expected.map {
                wrong.push("ITS BIT MAP IS WRONG".into());
            }
            for what in wrong {
                self.findings.push(Finding::CylinderCounts { cylinder: number, what });
            }
        }
    }
}
