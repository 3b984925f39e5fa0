//! What is in a dump: the files that have changed since the one that it is based on, and the
//! directories that lead to them.

use crate::error::{Error, Result};
use crate::image::{Family, Image};
use crate::path::is_log;
use crate::text::quoted;
use crate::walk::{Visit, Walk, When};
use spindle_dump::{Device, InodeMap, PER_HEADER, RECORD, Stamp};
use spindle_ffs::Dialect;
use spindle_vfs::{Attr, FileKind, Ino, Vfs};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The flag of what is not to be dumped (`UF_NODUMP`).
const UF_NODUMP: u32 = 1;
/// Most bytes of holes of a file: their headers alone take 64 GiB.
const MOST_HOLES: u64 = 32 << 40;
/// Inode of the root directory in every dump.
pub(super) const ROOT: u32 = 2;

/// The levels of dumps that leave out what has the flag `nodump`: this one and those above (`-h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Honor(pub i32);

impl Default for Honor {
    /// Returns the default of the BSDs: all but level 0.
    fn default() -> Self {
        Self(1)
    }
}

/// What is in a dump.
pub struct Plan {
    pub(super) vfs: Vfs,
    pub(super) stamp: Stamp,
    /// Dialect by which device numbers are encoded.
    pub(super) dialect: Dialect,
    /// Inodes that directories name, but for those that nobody shall find there.
    pub(super) in_use: InodeMap,
    pub(super) in_dump: InodeMap,
    /// The directory above each directory.
    pub(super) parents: BTreeMap<u32, u32>,
    /// How many names each file has, if it has more than one, without those in directories that are
    /// left out.
    pub(super) links: HashMap<u32, u16>,
    /// Number of the last inode of the file system.
    pub(super) last: u32,
    bytes: u64,
    /// Directories that have the flag `nodump`, or are below one.
    excluded: HashSet<u32>,
    /// Files that are not dumped because of the flag, and may be others than those that the dump
    /// before knows under these numbers.
    doubtful: Vec<u32>,
}

impl Plan {
    /// Finds out what is in the dump of a file system with this stamp. `lost` is called with what
    /// cannot be read, and `step` again and again: the plan ends if it fails.
    ///
    /// # Errors
    /// If the file system is of a kind that cannot be dumped; those of `step`.
    pub fn new(
        image: &Image,
        stamp: Stamp,
        honor: Honor,
        lost: &dyn Fn(Error),
        step: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        if image.family() == Family::Mfs {
            return Err(Error::new("is a multi-structured file system, which has no dumps; export it"));
        }
        let vfs = image.vfs();
        let files = vfs.statfs().map_or(0, |stat| stat.files);
        let mut plan = Self {
            stamp,
            dialect: image.dialect().unwrap_or(Dialect::Bsd43),
            in_use: InodeMap::default(),
            in_dump: InodeMap::default(),
            parents: BTreeMap::new(),
            links: HashMap::new(),
            last: u32::try_from(files).unwrap_or(u32::MAX).saturating_add(ROOT),
            bytes: 0,
            excluded: HashSet::new(),
            doubtful: Vec::new(),
            vfs,
        };
        let vfs = image.vfs();
        let root = vfs.root_node().map_err(Error::from)?;
        if root.ino() != Ino(ROOT.into()) {
            return Err(Error::new("has a root directory that is not inode 2, as dumps need it"));
        }
        let honors = plan.stamp.level >= honor.0;
        for visit in Walk::new(b"/", root) {
            step()?;
            match visit {
                Ok(visit) if visit.when != When::After => {
                    if let Err(error) = plan.visit(&visit, honors) {
                        lost(error.within(quoted(&visit.path)));
                    }
                }
                Ok(_) => {}
                Err(error) => lost(error),
            }
        }
        plan.finish();
        Ok(plan)
    }

    /// Returns the stamp of the dump.
    #[must_use]
    pub const fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Returns the estimated size of the stream in bytes. Holes count if they are within a block.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of files in the dump, directories included.
    #[must_use]
    pub fn files(&self) -> usize {
        self.in_dump.iter().count()
    }

    fn visit(&mut self, visit: &Visit, honors: bool) -> Result<()> {
        let attr = &visit.attr;
        let ino = number(attr.ino)?;
        let dir = visit.dir.map(number).transpose()?;
        if is_log(&**self.vfs.fs(), visit.dir, visit.name(), attr) {
            return Ok(());
        }
        if matches!(attr.kind, FileKind::BlockDevice | FileKind::CharDevice)
            && Device::of(attr.rdev, self.dialect).is_none()
        {
            let (major, minor) = (attr.rdev.major, attr.rdev.minor);
            return Err(Error::new(format!("the device number {major}, {minor} does not fit into a dump")));
        }
        let holes = attr.size.saturating_sub(attr.blocks512.saturating_mul(512));
        if holes > MOST_HOLES && !self.vfs.fs().is_snapshot(attr.ino) {
            return Err(Error::new(format!("has {holes} bytes of holes, which a dump cannot have")));
        }
        self.in_use.insert(ino);
        self.last = self.last.max(ino);
        let is_excluded =
            honors && (attr.flags & UF_NODUMP != 0 || dir.is_some_and(|dir| self.excluded.contains(&dir)));
        if attr.kind == FileKind::Directory {
            self.parents.insert(ino, dir.unwrap_or(ROOT));
            if is_excluded {
                self.excluded.insert(ino);
            }
        }
        if attr.nlink > 1 && attr.kind != FileKind::Directory && !is_excluded {
            let links = self.links.entry(ino).or_default();
            *links = links.saturating_add(1);
        }
        let ddate = self.stamp.ddate;
        let is_changed = ddate == 0 || attr.mtime.secs >= ddate || attr.ctime.secs >= ddate;
        if dir.is_none() {
            self.add(ino, attr);
        } else if is_excluded {
            let is_known = ddate == 0 || !is_changed || attr.birthtime.is_some_and(|born| born.secs < ddate);
            if !is_known {
                self.doubtful.push(ino);
            }
        } else if is_changed {
            self.add(ino, attr);
            self.add_directories(dir);
        }
        Ok(())
    }

    /// Puts a file into the dump.
    fn add(&mut self, ino: u32, attr: &Attr) {
        if self.in_dump.contains(ino) {
            return;
        }
        self.in_dump.insert(ino);
        let has_data = !self.vfs.fs().is_snapshot(attr.ino);
        let data = if has_data { attr.size.min(attr.blocks512.saturating_mul(512)) } else { 0 };
        let records = |bytes: u64, each: usize| bytes.div_ceil(each as u64);
        let headers = records(if has_data { attr.size } else { 0 }, PER_HEADER * RECORD).max(1);
        let whole = records(data, RECORD).saturating_add(headers).saturating_mul(RECORD as u64);
        self.bytes = self.bytes.saturating_add(whole);
    }

    /// Puts a directory and all above it into the dump. If one is in it, those above it are, too.
    fn add_directories(&mut self, dir: Option<u32>) {
        let mut next = dir;
        while let Some(dir) = next.filter(|&dir| !self.in_dump.contains(dir)) {
            if let Ok(attr) = self.vfs.getattr(Ino(dir.into())) {
                self.add(dir, &attr);
            } else {
                self.in_dump.insert(dir);
            }
            next = self.parents.get(&dir).copied();
        }
    }

    /// Removes from those in use what the restored tree must not take for an older file with the
    /// same number, and counts what every stream has.
    fn finish(&mut self) {
        for ino in std::mem::take(&mut self.doubtful) {
            if !self.in_dump.contains(ino) {
                self.in_use.remove(ino);
            }
        }
        let map = (self.last as usize).div_ceil(8).next_multiple_of(RECORD) + RECORD;
        self.bytes = self.bytes.saturating_add(2 * map as u64 + 2 * RECORD as u64);
    }
}

/// Returns an inode number as a stream has it.
fn number(ino: Ino) -> Result<u32> {
    u32::try_from(ino.0).map_err(|_| Error::new(format!("inode {} has no place in a dump", ino.0)))
}
