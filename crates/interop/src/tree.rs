//! Source trees with everything in them that an importer or a reader could get wrong, from a seed.
//!
//! The same shape and seed give the same tree, byte for byte. What is in it is fixed by the borders
//! of the [`Shape`]; the seed chooses contents, owners, modes and times. Making one needs root: it
//! has owners and devices.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngCore, SeedableRng};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, makedev, mknodat, utimensat};

use crate::{Failure, Result};

/// Direct addresses in an inode of UFS1 and UFS2 alike.
const NDADDR: u64 = 12;
/// The longest hole that is left before data; it bounds the image when a writer fills holes.
const HOLE_LIMIT_BYTES: u64 = 32 << 20;

/// The borders of the format that the tree is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes in a block.
    pub bsize: u32,
    /// Bytes in a fragment.
    pub fsize: u32,
    /// Bytes in a block address: 4 in UFS1, 8 in UFS2.
    pub address_bytes: u32,
    /// Times before 1970 and after 2038, which UFS1 does not hold.
    pub wide_times: bool,
    /// Owners and groups above 65535, which the formats before 4.4BSD do not hold.
    pub wide_ids: bool,
    /// Names in the largest directory.
    pub names: u32,
}

impl Shape {
    /// Returns what UFS1 in its 4.4BSD form holds.
    #[must_use]
    pub fn ufs1(bsize: u32, fsize: u32) -> Self {
        Self { bsize, fsize, address_bytes: 4, wide_times: false, wide_ids: true, names: 300 }
    }

    /// Returns what UFS2 holds.
    #[must_use]
    pub fn ufs2(bsize: u32, fsize: u32) -> Self {
        Self { bsize, fsize, address_bytes: 8, wide_times: true, wide_ids: true, names: 300 }
    }
}

/// Fills the empty directory `root` with the tree of this shape and seed.
///
/// # Errors
/// Names the path that could not be made.
pub fn plant(root: &Path, shape: Shape, seed: u64) -> Result<()> {
    let rng = SmallRng::seed_from_u64(seed);
    let mut planter = Planter { root, shape, rng, made: vec![PathBuf::new()] };
    planter.sizes()?;
    planter.holes()?;
    planter.links()?;
    planter.names()?;
    planter.many()?;
    planter.deep()?;
    planter.modes()?;
    planter.special()?;
    planter.times()?;
    planter.finish()
}

struct Planter<'a> {
    root: &'a Path,
    shape: Shape,
    rng: SmallRng,
    /// Paths in the order in which they were made, a directory before what is in it.
    made: Vec<PathBuf>,
}

impl Planter<'_> {
    /// Makes one thing at `path` and remembers it.
    fn make<E: std::fmt::Display>(
        &mut self,
        path: impl AsRef<Path>,
        make: impl FnOnce(&Path) -> std::result::Result<(), E>,
    ) -> Result<()> {
        let full = self.root.join(path.as_ref());
        make(&full).map_err(Failure::of(full.display()))?;
        self.made.push(path.as_ref().to_path_buf());
        Ok(())
    }

    fn directory(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.make(path, |full| fs::create_dir(full))
    }

    fn file(&mut self, path: impl AsRef<Path>, size: u64) -> Result<()> {
        let mut bytes = vec![0; usize::try_from(size).expect("files made whole fit in memory")];
        self.rng.fill_bytes(&mut bytes);
        self.make(path, |full| fs::write(full, &bytes))
    }

    /// Makes files at every border of size: of each fragment of a block, of the direct blocks, of
    /// two indirect ones.
    fn sizes(&mut self) -> Result<()> {
        let (bsize, fsize) = (u64::from(self.shape.bsize), u64::from(self.shape.fsize));
        let borders = (1..=bsize / fsize).map(|fragments| fragments * fsize);
        let borders =
            borders.chain([2 * bsize, NDADDR * bsize, NDADDR * bsize + fsize, (NDADDR + 1) * bsize]);
        let mut sizes: Vec<u64> = borders.flat_map(|border| [border - 1, border, border + 1]).collect();
        sizes.extend([0, 1, 2]);
        sizes.sort_unstable();
        sizes.dedup();
        self.directory("sizes")?;
        sizes.into_iter().try_for_each(|size| self.file(format!("sizes/{size}"), size))
    }

    /// Holes before, between and after data, also where whole indirect blocks are missing.
    fn holes(&mut self) -> Result<()> {
        let bsize = u64::from(self.shape.bsize);
        let first = NDADDR * bsize;
        let second = first + bsize / u64::from(self.shape.address_bytes) * bsize;
        self.directory("holes")?;
        self.holey("holes/all", bsize * 3 + 1, &[])?;
        self.holey("holes/start", bsize * 3, &[bsize * 2])?;
        self.holey("holes/end", bsize * 5 + 7, &[0])?;
        self.holey("holes/comb", bsize * 20, &[bsize, bsize * 3, bsize * 13, bsize * 17])?;
        self.holey("holes/unaligned", bsize * 4, &[bsize / 2, bsize * 3 - 50])?;
        self.holey("holes/first-indirect", first + bsize, &[first])?;
        if second < HOLE_LIMIT_BYTES {
            self.holey("holes/before-second", second, &[second - bsize])?;
            self.holey("holes/second-indirect", second + bsize + 1, &[second])?;
            self.holey("holes/beyond-second", second + 3 * bsize, &[0])?;
        }
        Ok(())
    }

    /// Makes a file of `size` bytes with 100 bytes of data at each of `places` (less at the end).
    fn holey(&mut self, path: &str, size: u64, places: &[u64]) -> Result<()> {
        let mut data = [0; 100];
        self.rng.fill_bytes(&mut data);
        self.make(path, |full| {
            let file = File::create(full)?;
            for &place in places {
                file.write_all_at(&data, place)?;
            }
            file.set_len(size)
        })
    }

    /// Makes hard links within and across directories; symbolic links on both sides of every length
    /// at which they move out of the inode.
    fn links(&mut self) -> Result<()> {
        self.directory("links")?;
        self.directory("links/other")?;
        self.file("links/one", 100)?;
        let root = self.root.to_path_buf();
        for path in ["links/two", "links/other/three"] {
            self.make(path, |full| fs::hard_link(root.join("links/one"), full))?;
        }
        for length in [1, 2, 58, 59, 60, 61, 118, 119, 120, 121, 255, 500, 1022, 1023] {
            let mut target = vec![b'/'; length];
            for place in target.iter_mut().skip(1).step_by(2) {
                *place = self.rng.random_range(b'a'..=b'z');
            }
            self.make(format!("links/length-{length}"), |full| symlink(OsStr::from_bytes(&target), full))?;
        }
        for (name, target) in
            [("file", "one"), ("directory", "other"), ("dangling", "nowhere"), ("loop", "loop")]
        {
            self.make(format!("links/to-{name}"), |full| symlink(target, full))?;
        }
        Ok(())
    }

    /// Makes names of every length that matters and with every byte that some program treats in a
    /// special way. No line feeds and no ` -> `: in the output of the foreign tools these are
    /// ambiguous.
    fn names(&mut self) -> Result<()> {
        self.directory("names")?;
        for length in [1, 2, 3, 4, 5, 6, 7, 8, 127, 128, 254, 255] {
            let name = vec![b'n'; length];
            self.file(Path::new("names").join(OsStr::from_bytes(&name)), 3)?;
        }
        let odd: [&[u8]; 19] = [
            b".hidden",
            b"...",
            b"-dash",
            b" leading",
            b"trailing ",
            b"two  blanks",
            b"back\\slash",
            b"tab\there",
            b"\x01one",
            b"\x7fdel",
            b"\xff\xfe",
            "\u{e9}\u{65e5}\u{1f980}".as_bytes(),
            b"*",
            b"$HOME",
            b"'quote\"",
            b"%s",
            b"a,b",
            b"(p)",
            b"bar|",
        ];
        for name in odd {
            self.file(Path::new("names").join(OsStr::from_bytes(name)), 5)?;
        }
        Ok(())
    }

    /// Makes a directory of several blocks.
    fn many(&mut self) -> Result<()> {
        self.directory("many")?;
        for number in 0..self.shape.names {
            let width = self.rng.random_range(1..60);
            let size = self.rng.random_range(0..3);
            self.file(format!("many/{number:0width$}"), size)?;
        }
        Ok(())
    }

    fn deep(&mut self) -> Result<()> {
        let mut path = PathBuf::from("deep");
        for level in 0..30 {
            self.directory(&path)?;
            self.file(path.join("file"), level)?;
            path.push(format!("level-{level}"));
        }
        Ok(())
    }

    /// Makes a file for each mode that has a meaning of its own; their modes are in their names.
    fn modes(&mut self) -> Result<()> {
        self.directory("modes")?;
        for mode in ["0000", "0400", "0644", "0666", "0777", "1755", "2755", "4755", "6711", "7777"] {
            self.file(format!("modes/{mode}"), 1)?;
        }
        for mode in ["0700", "1777", "2775"] {
            self.directory(format!("modes/directory-{mode}"))?;
        }
        Ok(())
    }

    fn special(&mut self) -> Result<()> {
        self.directory("special")?;
        let mode = Mode::from_raw_mode(0o600);
        for (name, kind, device) in [
            ("null", FileType::CharacterDevice, makedev(1, 3)),
            ("tty", FileType::CharacterDevice, makedev(5, 0)),
            ("disk", FileType::BlockDevice, makedev(8, 1)),
            ("last", FileType::BlockDevice, makedev(127, 255)),
            ("fifo", FileType::Fifo, 0),
            ("socket", FileType::Socket, 0),
        ] {
            self.make(format!("special/{name}"), |full| mknodat(CWD, full, kind, mode, device))?;
        }
        Ok(())
    }

    /// Makes files whose time of last change is their name: seconds, a point, nanoseconds.
    fn times(&mut self) -> Result<()> {
        self.directory("times")?;
        let always = ["0.0", "0.1", "1.999999999", "1000000000.123456789", "2147483647.5"];
        let wide = ["-1.0", "-2147483648.250000000", "2147483648.0", "4294967296.1", "8589934592.999999999"];
        let wide = if self.shape.wide_times { &wide[..] } else { &[] };
        always.iter().chain(wide).try_for_each(|name| self.file(format!("times/{name}"), 1))
    }

    /// Gives everything its owner, mode and time, the inside of a directory before itself.
    fn finish(&mut self) -> Result<()> {
        let ids: &[u32] = if self.shape.wide_ids {
            &[0, 1, 1000, 65534, 65535, 65536, 1 << 31, u32::MAX - 1]
        } else {
            &[0, 1, 1000, 65534]
        };
        for path in std::mem::take(&mut self.made).iter().rev() {
            let full = self.root.join(path);
            let fail = |error| Failure::new(format!("{}: {error}", full.display()));
            let (uid, gid) = (pick(&mut self.rng, ids), pick(&mut self.rng, ids));
            lchown(&full, Some(uid), Some(gid)).map_err(fail)?;
            let meta = fs::symlink_metadata(&full).map_err(fail)?;
            if !meta.is_symlink() {
                let usual =
                    if meta.is_dir() { 0o755 } else { pick(&mut self.rng, &[0o644, 0o600, 0o755, 0o444]) };
                let mode = named_mode(path).unwrap_or(usual);
                fs::set_permissions(&full, fs::Permissions::from_mode(mode)).map_err(fail)?;
            }
            let mtime = named_time(path).unwrap_or_else(|| Timespec {
                tv_sec: self.rng.random_range(0..1 << 30),
                tv_nsec: self.rng.random_range(0..1_000_000_000),
            });
            let times = Timestamps { last_access: mtime, last_modification: mtime };
            utimensat(CWD, &full, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| fail(error.into()))?;
        }
        Ok(())
    }
}

fn pick(rng: &mut SmallRng, choices: &[u32]) -> u32 {
    *choices.choose(rng).expect("there is something to choose")
}

/// Returns the mode that a path below `modes` asks for.
fn named_mode(path: &Path) -> Option<u32> {
    let name = path.strip_prefix("modes").ok()?.to_str()?;
    u32::from_str_radix(name.strip_prefix("directory-").unwrap_or(name), 8).ok()
}

/// Returns the time that a path below `times` asks for.
fn named_time(path: &Path) -> Option<Timespec> {
    let (secs, nanos) = path.strip_prefix("times").ok()?.to_str()?.split_once('.')?;
    Some(Timespec { tv_sec: secs.parse().ok()?, tv_nsec: nanos.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;
    use crate::record::{Kind, differences};

    /// Promise: shape and seed decide the tree to the last byte, and another seed gives another
    /// one.
    #[test]
    fn a_seed_gives_one_tree() {
        let plant_new = |seed| {
            let directory = tempfile::tempdir().unwrap();
            plant(directory.path(), Shape::ufs2(4096, 1024), seed).unwrap();
            host::list(directory.path()).unwrap()
        };
        let first = plant_new(1);
        assert_eq!(differences(&first, &plant_new(1), |_| true), Vec::<String>::new());
        assert!(!differences(&first, &plant_new(2), |_| true).is_empty());
        for kind in [
            Kind::Regular,
            Kind::Directory,
            Kind::Symlink,
            Kind::Character,
            Kind::Block,
            Kind::Fifo,
            Kind::Socket,
        ] {
            assert!(first.values().any(|record| record.kind == Some(kind)), "no {kind:?} in the tree");
        }
    }
}
