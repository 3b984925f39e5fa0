//! The mutations: what a hostile or broken disk may hold.
//!
//! Half of the cases put extreme values into declared fields, each field in its turn. Some give the
//! file system another geometry; the others damage the metadata at random places. In half of all
//! cases the check-hashes are corrected afterwards, because otherwise most damage would be refused
//! at the mount.

use crate::anatomy::{Anatomy, Row};
use crate::base::Base;
use crate::geometry::change_geometry;
use crate::overlay::{Overlay, SECTOR};
use crate::rehash::fix_check_hashes;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore};
use spindle_ffs::Version;
use spindle_ffs::ondisk::{Fs, NIADDR};
use spindle_ondisk::{Endian, Field};
use std::fmt::Write;
use std::ops::Range;

/// Most changes of one case.
const MOST_EDITS: u32 = 4;

/// A mutated image.
pub struct Mutant {
    /// The image.
    pub device: Overlay,
    /// The changes that were made, for the report of a failure.
    pub story: String,
    /// The declared field that this case mutates, as [`Anatomy::field`] numbers it.
    pub field: Option<usize>,
}

/// An image that is being mutated.
struct Mutation<'a> {
    anatomy: &'a Anatomy,
    device: Overlay,
    rng: &'a mut SmallRng,
    touched: Vec<Range<usize>>,
    story: String,
    len: usize,
}

/// Makes the mutated image of a case. `turn` counts the cases of this base, so that each field is
/// mutated in its turn.
#[must_use]
pub fn mutate(base: &Base, turn: usize, rng: &mut SmallRng) -> Mutant {
    let len = base.bytes.len();
    let size = if rng.random_ratio(1, 25) { rng.random_range(0..len) } else { len };
    let mut mutation = Mutation::new(base, size, rng);
    if size < len {
        let _ = write!(mutation.story, "; truncated to {size}");
    }
    let field = turn.is_multiple_of(2).then_some(turn / 2 % base.anatomy.fields());
    let mut has_new_geometry = false;
    if let Some(n) = field {
        mutation.set_field(n);
        while mutation.rng.random_ratio(1, 4) {
            let n = mutation.rng.random_range(0..base.anatomy.fields());
            mutation.set_field(n);
        }
    } else {
        // A mount accepts a geometry only with a correct check-hash.
        has_new_geometry = mutation.rng.random_ratio(1, 4);
        if has_new_geometry {
            mutation.change_geometry();
        }
        for _ in u32::from(has_new_geometry)..mutation.rng.random_range(1..=MOST_EDITS) {
            mutation.damage();
        }
    }
    if has_new_geometry || mutation.rng.random() {
        mutation.fix_check_hashes();
    }
    Mutant { device: mutation.device, story: mutation.story, field }
}

impl<'a> Mutation<'a> {
    /// Starts with the first `size` bytes of a base.
    fn new(base: &'a Base, size: usize, rng: &'a mut SmallRng) -> Self {
        Self {
            anatomy: &base.anatomy,
            device: Overlay::new(base.bytes.clone(), size),
            rng,
            touched: Vec::new(),
            story: String::from(base.name),
            len: base.bytes.len(),
        }
    }

    fn peek<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.device.peek(at, &mut bytes);
        bytes
    }

    fn poke(&mut self, at: usize, bytes: &[u8]) {
        self.device.poke(at, bytes);
        self.touched.push(at..at + bytes.len());
    }

    /// Returns a number of `width` bytes.
    fn number(&self, at: usize, width: usize) -> u64 {
        let endian = self.anatomy.endian();
        match width {
            1 => self.peek::<1>(at)[0].into(),
            2 => u16::get(&self.peek::<2>(at), endian).into(),
            4 => u32::get(&self.peek::<4>(at), endian).into(),
            _ => u64::get(&self.peek::<8>(at), endian),
        }
    }

    fn set_number(&mut self, at: usize, width: usize, value: u64) {
        let bytes = value.to_be_bytes();
        let mut bytes = bytes[8 - width..].to_vec();
        if self.anatomy.endian() == Endian::Little {
            bytes.reverse();
        }
        self.poke(at, &bytes);
    }

    /// Returns an extreme value for a number that is `old` and stands at `at`.
    fn extreme(&mut self, at: usize, width: usize, old: u64) -> u64 {
        let bits = 8 * u32::try_from(width).unwrap_or(8);
        let power = 1_u64 << self.rng.random_range(0..bits);
        let layout = self.anatomy.layout();
        match self.rng.random_range(0..16) {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => u64::MAX >> (65 - bits),
            4 => 1 << (bits - 1),
            5 => power,
            6 => power - 1,
            7 => power.wrapping_add(1),
            8 => self.number(at.saturating_sub(width), width),
            9 => self.number(at + width, width),
            10 => old.wrapping_add(1),
            11 => old.wrapping_sub(1),
            12 => old ^ power,
            13 => old.wrapping_mul(2),
            14 => self.address(),
            _ => {
                let around = [layout.fs_size, layout.fs_fpg.into(), layout.fs_ipg.into()];
                let edge = *around.choose(self.rng).unwrap_or(&0);
                edge.wrapping_add(self.rng.random_range(0..3)).wrapping_sub(1)
            }
        }
    }

    /// Returns an address or inode number that refers to something else: metadata, another file,
    /// the end.
    fn address(&mut self) -> u64 {
        let layout = self.anatomy.layout();
        let cgx = self.rng.random_range(0..layout.fs_ncg);
        match self.rng.random_range(0..7) {
            0 => layout.cgtod(cgx).0,
            1 => layout.cgimin(cgx).0,
            2 => layout.cgdmin(cgx).0,
            3 => layout.fs_csaddr.0,
            4 => self.anatomy.inodes.choose(self.rng).copied().unwrap_or(2).into(),
            5 => {
                let place = self.anatomy.metadata.choose(self.rng).map_or(0, |m| m.start);
                place as u64 / u64::from(layout.fs_fsize)
            }
            _ => self.rng.random_range(0..layout.fs_size),
        }
    }

    /// Puts an extreme value into declared field `n` of one of its structures.
    fn set_field(&mut self, n: usize) {
        let (structure, (name, offset, size)): (_, Row) = self.anatomy.field(n);
        let start = *structure.places.choose(self.rng).unwrap_or(&0) + offset;
        let widths: &[usize] = match size {
            1 | 2 | 4 | 8 => &[size],
            _ => &[8, 4, 4, 2, 1],
        };
        let width = *widths.choose(self.rng).unwrap_or(&1);
        let at = start + self.rng.random_range(0..size / width) * width;
        let old = self.number(at, width);
        let new = self.extreme(at, width, old);
        let _ = write!(
            self.story,
            "; {}.{name} at {at} ({width} bytes): {old:#x} becomes {new:#x}",
            structure.name
        );
        self.set_number(at, width, new);
    }

    /// Makes one file huge, by pointers in circles, or by many pointers to one block.
    fn make_huge_file(&mut self) {
        let layout = self.anatomy.layout();
        let (bsize, width) = (layout.fs_bsize as usize, layout.pointer_size());
        let pointers = self.anatomy.structures.iter().find(|s| s.name == "indirect block");
        let places = pointers.map_or(&[][..], |s| &s.places);
        let block_of = |place: &usize| place / bsize * bsize;
        let (Some(one), Some(other)) = (places.choose(self.rng), places.choose(self.rng)) else { return };
        let (one, other) = (block_of(one), block_of(other));
        let frag_of = |at: usize| (at as u64) >> layout.fs_fshift;
        // In the block `one`, every `every`th pointer becomes `target`, and the others 0.
        let every = *[1, 1, 2, layout.fs_nindir as usize - 1].choose(self.rng).unwrap_or(&1);
        let target = frag_of(*[one, other].choose(self.rng).unwrap_or(&one));
        for n in 0..bsize / width {
            let value = if n.is_multiple_of(every) { target } else { 0 };
            self.set_number(one + n * width, width, value);
        }
        if self.rng.random() {
            self.poke(other, &vec![0; bsize]);
        }
        let Some(&ino) = self.anatomy.inodes.choose(self.rng) else { return };
        let inode = self.anatomy.inode(ino);
        let (size_at, ib_at) = if layout.version == Version::Ufs2 { (16, 208) } else { (8, 88) };
        let most = layout.fs_maxfilesize;
        let size =
            *[most, most / 2, 1 << 40, layout.fs_dsize << layout.fs_fshift].choose(self.rng).unwrap_or(&most);
        self.set_number(inode + size_at, 8, size);
        let first = self.rng.random_range(0..NIADDR);
        for level in first..NIADDR {
            self.set_number(inode + ib_at + level * width, width, frag_of(one));
        }
        let _ = write!(
            self.story,
            "; inode {ino} of size {size:#x} leads to byte {one}, whose every {every}th pointer is {target}"
        );
    }

    /// Returns a byte offset in the metadata, sometimes anywhere.
    fn place(&mut self) -> usize {
        match self.anatomy.metadata.choose(self.rng) {
            Some(range) if !range.is_empty() && self.rng.random_ratio(9, 10) => {
                self.rng.random_range(range.clone())
            }
            _ => self.rng.random_range(0..self.len),
        }
    }

    /// Gives the superblock another geometry, consistent in itself, through one or two changes.
    fn change_geometry(&mut self) {
        let at = usize::try_from(self.anatomy.layout().fs_sblockloc).unwrap_or(0);
        let mut bytes = vec![0; Fs::SIZE];
        self.device.peek(at, &mut bytes);
        for _ in 0..self.rng.random_range(1..=2) {
            let mut fs = Fs::decode(&bytes, self.anatomy.endian());
            let what = change_geometry(&mut fs, self.rng);
            fs.encode(&mut bytes, self.anatomy.endian());
            let _ = write!(self.story, "; {what}");
        }
        self.poke(at, &bytes);
    }

    /// Damages the image at a random place.
    fn damage(&mut self) {
        let at = self.place();
        if self.rng.random_ratio(1, 8) {
            return self.make_huge_file();
        }
        let what = match self.rng.random_range(0..7) {
            0 | 1 => {
                let bit = self.rng.random_range(0..8);
                let [byte] = self.peek(at);
                self.poke(at, &[byte ^ 1 << bit]);
                format!("bit {bit} flipped")
            }
            2 => {
                let value = *[0, 1, 0x7f, 0x80, 0xff, b'/', b'.'].choose(self.rng).unwrap_or(&0);
                self.poke(at, &[value]);
                format!("byte set to {value:#x}")
            }
            3 => {
                let mut noise = vec![0; self.rng.random_range(1..=64)];
                self.rng.fill_bytes(&mut noise);
                self.poke(at, &noise);
                format!("{} bytes of noise", noise.len())
            }
            4 => {
                let fill = *[0, 0xff].choose(self.rng).unwrap_or(&0);
                let len = self.rng.random_range(1..=4096);
                self.poke(at, &vec![fill; len]);
                format!("{len} bytes of {fill:#x}")
            }
            5 => {
                let width = *[2, 4, 8].choose(self.rng).unwrap_or(&4);
                let at = at / width * width;
                let old = self.number(at, width);
                let new = self.extreme(at, width, old);
                self.set_number(at, width, new);
                format!("{width} bytes {old:#x} become {new:#x}")
            }
            _ => self.swap(at),
        };
        let _ = write!(self.story, "; at {at}: {what}");
    }

    /// Swaps two runs of sectors, or overwrites one with the other.
    fn swap(&mut self, at: usize) -> String {
        let unit = self.anatomy.layout().fs_fsize as usize;
        let len = *[SECTOR, unit, self.anatomy.layout().fs_bsize as usize].choose(self.rng).unwrap_or(&unit);
        let (one, other) = (at / len * len, self.place() / len * len);
        let (mut first, mut second) = (vec![0; len], vec![0; len]);
        self.device.peek(one, &mut first);
        self.device.peek(other, &mut second);
        self.poke(one, &second);
        if self.rng.random() {
            self.poke(other, &first);
            format!("{len} bytes swapped with those at {other}")
        } else {
            format!("{len} bytes from {other}")
        }
    }

    /// Corrects the check-hashes that the mutation has invalidated.
    fn fix_check_hashes(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        if fix_check_hashes(&self.device, self.anatomy, &touched) {
            self.story.push_str("; check-hashes corrected");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::all;
    use rand::SeedableRng;
    use spindle_ffs::Superblock;

    /// Promise: a seed gives the same case each time; and more than a quarter of the new geometries
    /// is accepted, so that they test more than the checks at the mount.
    #[test]
    fn geometries_are_accepted() {
        const TRIES: u64 = 200;
        for base in all() {
            let mut accepted = 0;
            for seed in 0..TRIES {
                let story = |_| {
                    let mut rng = SmallRng::seed_from_u64(seed);
                    let mut mutation = Mutation::new(&base, base.bytes.len(), &mut rng);
                    mutation.change_geometry();
                    mutation.fix_check_hashes();
                    (mutation.story, Superblock::open(&mutation.device).is_ok())
                };
                let [one, other] = [0, 1].map(story);
                assert_eq!(one, other);
                accepted += u64::from(one.1);
            }
            assert!(accepted * 4 > TRIES, "{}: {accepted} of {TRIES} geometries accepted", base.name);
        }
    }
}
