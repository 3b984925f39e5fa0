//! Random changes of a tree in an image.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle::Image;
use spindle::walk::{Walk, When};
use spindle_clock::{Clock, ManualClock, Timestamp};
use spindle_vfs::{
    Error, FileKind, FileSystem, Ino, NewNode, Privilege, Rdev, RenameMode, SetAttr, SetTime, XattrMode,
};
use std::sync::Arc;

/// Returns the seed of a random test: `SPINDLE_SEED`, or a random one; a failing test prints it.
pub fn seed(test: &str) -> u64 {
    let random = || u64::from(StdRng::from_os_rng().random::<u32>());
    let seed = std::env::var("SPINDLE_SEED").map_or_else(|_| random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle --test dumps {test}");
    seed
}

/// A name in a tree: the directory, the name and the inode.
type Place = (Ino, Vec<u8>, Ino, FileKind);

/// Changes of a tree.
pub struct Changes<'a> {
    fs: &'a dyn FileSystem,
    image: &'a Image,
    clock: Arc<ManualClock>,
    random: StdRng,
}

impl<'a> Changes<'a> {
    pub fn new(image: &'a Image, clock: Arc<ManualClock>, seed: u64) -> Self {
        Self { fs: &**image.fs(), image, clock, random: StdRng::seed_from_u64(seed) }
    }

    /// Makes random changes.
    pub fn make(&mut self, count: usize) {
        for _ in 0..count {
            match self.change() {
                Ok(())
                | Err(
                    Error::Exists
                    | Error::NotEmpty
                    | Error::NotFound
                    | Error::NotSupported
                    | Error::Invalid
                    | Error::NotPermitted
                    | Error::IsDirectory
                    | Error::NotDirectory
                    | Error::Overflow
                    | Error::NoAttribute
                    | Error::NoSpace
                    | Error::TooBig,
                ) => {}
                Err(error) => panic!("{error}"),
            }
            if self.random.random_ratio(1, 3) {
                self.clock.advance(self.random.random_range(0..100));
            }
        }
    }

    /// Returns a level other than 0.
    pub fn level(&mut self) -> i32 {
        self.random.random_range(1..10)
    }

    /// Returns the time in seconds.
    pub fn now(&self) -> i64 {
        self.clock.now().secs
    }

    /// Lets time pass, or none.
    pub fn pause(&mut self) {
        self.clock.advance(self.random.random_range(0..3));
    }

    /// Returns all names, and the directories.
    fn places(&self) -> (Vec<Place>, Vec<Ino>) {
        let vfs = self.image.vfs();
        let visits = Walk::new(b"/", vfs.root_node().unwrap()).map(Result::unwrap);
        let visits: Vec<_> = visits.filter(|visit| visit.when != When::After).collect();
        let dirs = visits.iter().filter(|visit| visit.attr.kind == FileKind::Directory);
        let dirs = dirs.map(|visit| visit.attr.ino).collect();
        let place = |visit: &spindle::walk::Visit| {
            Some((visit.dir?, visit.name().to_vec(), visit.attr.ino, visit.attr.kind))
        };
        (visits.iter().filter_map(place).collect(), dirs)
    }

    fn name(&mut self) -> Vec<u8> {
        let len = if self.random.random_ratio(1, 10) { 200 } else { 1 };
        let letter = self.random.random_range(b'a'..b'k');
        vec![letter; len]
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.random.fill(&mut bytes[..]);
        bytes
    }

    fn create(&mut self, dir: Ino, name: &[u8]) -> Result<(), Error> {
        let kinds = [
            FileKind::Regular,
            FileKind::Regular,
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Fifo,
            FileKind::CharDevice,
            FileKind::BlockDevice,
            FileKind::Socket,
        ];
        let kind = *kinds.choose(&mut self.random).unwrap();
        let target = vec![b't'; self.random.random_range(1..500)];
        // Large numbers that all systems but 4.3BSD can have.
        let large = if self.random.random_ratio(1, 4) { 0x3_0000 } else { 0 };
        let minor = self.random.random_range(0..255) | large;
        let node = NewNode {
            uid: self.random.random_range(0..3),
            gid: self.random.random_range(0..60_000),
            rdev: Rdev { major: self.random.random_range(0..255), minor },
            target: if kind == FileKind::Symlink { &target } else { b"" },
            ..NewNode::new(kind, self.random.random_range(0..0o10000))
        };
        let ino = self.fs.create(dir, name, &node, Privilege::Root)?.ino;
        let filled = if kind == FileKind::Regular { self.write(ino) } else { Ok(()) };
        self.fs.forget(ino, 1);
        filled
    }

    fn write(&mut self, ino: Ino) -> Result<(), Error> {
        for _ in 0..self.random.random_range(0..3) {
            let sparse = self.random.random_ratio(1, 5);
            let at = self.random.random_range(0..if sparse { 900_000 } else { 3000 });
            let len = self.random.random_range(0..20_000);
            let bytes = self.bytes(len);
            self.fs.write(ino, at, &bytes, Privilege::Root)?;
        }
        Ok(())
    }

    fn set(&mut self, set: &SetAttr, ino: Ino) -> Result<(), Error> {
        self.fs.setattr(ino, set, Privilege::Root).map(drop)
    }

    fn change(&mut self) -> Result<(), Error> {
        let (places, dirs) = self.places();
        let dir = *dirs.choose(&mut self.random).unwrap();
        let name = self.name();
        let Some((of, old, ino, kind)) = places.choose(&mut self.random).cloned() else {
            return self.create(dir, &name);
        };
        let time = SetTime::At(Timestamp::new(self.random.random_range(0..900_000_000), 12_000));
        match self.random.random_range(0..20) {
            0..6 => self.create(dir, &name),
            6..8 if kind == FileKind::Directory => self.fs.rmdir(of, &old),
            6..8 => self.fs.unlink(of, &old),
            8..11 => self.fs.rename(of, &old, dir, &name, RenameMode::Replace, Privilege::Root),
            11 => self.fs.rename(of, &old, dir, &name, RenameMode::Exchange, Privilege::Root),
            12..14 => {
                self.fs.link(ino, dir, &name, Privilege::Root)?;
                self.fs.forget(ino, 1);
                Ok(())
            }
            14..16 => self.write(ino),
            16 => {
                let size = Some(self.random.random_range(0..100_000));
                self.set(&SetAttr { size, ..SetAttr::default() }, ino)
            }
            17 => {
                let perm = Some(self.random.random_range(0..0o10000));
                let uid = Some(self.random.random_range(0..60_000));
                self.set(
                    &SetAttr { perm, uid, mtime: Some(time), atime: Some(time), ..SetAttr::default() },
                    ino,
                )
            }
            18 => {
                // UF_NODUMP and UF_HIDDEN, which nothing enforces.
                let flags = Some(*[0, 1, 0x8000, 0x8001].choose(&mut self.random).unwrap());
                self.set(&SetAttr { flags, ..SetAttr::default() }, ino)
            }
            _ => {
                let name = [&b"user."[..], &name].concat();
                if self.random.random_ratio(1, 4) {
                    return self.fs.removexattr(ino, &name);
                }
                let len = self.random.random_range(0..9000);
                let value = self.bytes(len);
                self.fs.setxattr(ino, &name, &value, XattrMode::Set, Privilege::Root)
            }
        }
    }
}
