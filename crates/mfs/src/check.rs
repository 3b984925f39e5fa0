//! The check of a whole set, in the phases of the classic checker. It only reads.
//!
//! File headers and name maps are trusted; everything else (maps of free space, counts) is computed
//! from them and compared. If the log has records, they are replayed to a copy in memory first.
//!
//! Sets are hostile. Memory and time are bounded by the size of the set: each block and header is
//! visited once, and the list of findings has a limit.

use crate::format::cylinder::{CYLINDER_BYTES, Cylinder, Kind};
use crate::format::header::{Contents, Header, Overflow, is_overflow, is_used};
use crate::format::layout::{ControlBlock, HEADER_BYTES, Layout, ROOT_INO, index};
use crate::format::map_page::{MAP_PAGE_BYTES, MapPage};
use crate::format::node::{Node, key_of};
use crate::log::{Ring, replay};
use crate::set::members::Set;
use siphasher::sip::SipHasher13;
use spindle_device::{CowDevice, Device};
pub use spindle_tree::check::{Phase, Severity};
use spindle_vfs::{Error, FileKind, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A finding with the path of its file.
pub type Found = spindle_tree::check::Found<Finding>;
type Findings = spindle_tree::check::Findings<Finding>;

spindle_tree::findings! {
    /// The log cannot be read.
    Log: Setup, Damage {
        /// The reason.
        what: String,
    } "LOG: {what}";
    /// The set was not unmounted; the log has been replayed for the check.
    InUse: Setup, Note {} "FILE SYSTEM WAS NOT UNMOUNTED; ITS LOG WAS REPLAYED FOR THIS CHECK";
    /// The description of a cylinder is damaged.
    Cylinder: Setup, Damage {
        /// The reason.
        what: String,
    } "{what}";
    /// A header is damaged.
    Header: Inodes, Damage, at (*ino) {
        /// The file.
        ino: u64,
        /// The reason.
        what: String,
    } "I={ino}: {what}";
    /// Data blocks belong to two files.
    Duplicate: Inodes, Damage, at (*ino) {
        /// The second file that claims them.
        ino: u64,
        /// The first of them.
        block: u64,
    } "DUP BLOCK {block} I={ino}";
    /// An overflow header belongs to no file, or to two.
    StrayOverflow: Inodes, Harmless {
        /// The header.
        header: u64,
    } "OVERFLOW HEADER {header} BELONGS TO NO FILE";
    /// A node of a name map is damaged.
    Node: Names, Damage, at (*dir) {
        /// The directory.
        dir: u64,
        /// The reason.
        what: String,
    } "DIRECTORY CORRUPTED I={dir}: {what}";
    /// A name is wrong.
    Name: Names, Damage, at (*dir) {
        /// The directory.
        dir: u64,
        /// The name; bytes that are not UTF-8 are replaced.
        name: String,
        /// The file that it names.
        ino: u64,
        /// What is wrong.
        what: String,
    } "{what} I={ino} NAME={name} DIR I={dir}";
    /// A directory counts its names or blocks wrongly.
    DirectoryCounts: Names, Harmless, at (*dir) {
        /// The directory.
        dir: u64,
        /// Names counted in it, and found.
        names: (u64, u64),
        /// Blocks counted in it, and found.
        blocks: (u64, u64),
    } "DIRECTORY I={dir} COUNTS {names:?} NAMES AND {blocks:?} BLOCKS";
    /// A directory has no name that its `..` leads to.
    Unconnected: Connectivity, Damage {
        /// The directory.
        ino: u64,
    } "UNREF DIR I={ino}";
    /// A file has no name, and says that it has.
    Unreferenced: Links, Damage {
        /// The file.
        ino: u64,
    } "UNREF FILE I={ino}";
    /// A file was removed while it was open.
    Orphan: Links, Note {
        /// The file.
        ino: u64,
    } "REMOVED FILE I={ino} IS NOT FREED YET";
    /// The number of names is wrong.
    Links: Links, Damage, at (*ino) {
        /// The file.
        ino: u64,
        /// Names counted in its header.
        counted: u16,
        /// Names found.
        found: u64,
    } "LINK COUNT I={ino} COUNT {counted} SHOULD BE {found}";
    /// The description of a cylinder does not agree with what the cylinder holds.
    CylinderCounts: Groups, Damage {
        /// The cylinder.
        cylinder: u64,
        /// What does not agree.
        what: String,
    } "CYLINDER {cylinder}: {what}";
    /// The allocation map does not agree with the files.
    Map: Groups, Damage {
        /// The page.
        page: u64,
        /// What does not agree.
        what: String,
    } "ALLOCATION MAP PAGE {page}: {what}";
}

/// The contents of a set, counted by the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Files of all kinds.
    pub files: u64,
    /// Directories among them.
    pub directories: u64,
    /// Data blocks that files hold.
    pub used_blocks: u64,
    /// Data blocks that are free.
    pub free_blocks: u64,
}

/// The outcome of a check.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// The findings, in the order of the phases.
    pub findings: Vec<Found>,
    /// Findings beyond the limit, which are not listed.
    pub unlisted: u64,
    /// Number of all damages, listed or not, harmless or not.
    pub damages: u64,
    /// The contents.
    pub usage: Usage,
}

impl Report {
    /// Returns true if there is no damage; notes do not count.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.damages == 0
    }
}

/// Checks a set without changing it, and lists at most `limit` findings. Calls `progress` when a
/// phase begins.
///
/// # Errors
/// Device errors. Damage becomes findings.
pub fn check(set: &Set, limit: usize, progress: &mut dyn FnMut(Phase)) -> Result<Report> {
    let mut findings = Findings::new(limit);
    progress(Phase::Setup);
    let device: Arc<dyn Device> = Arc::new(CowDevice::new(set.space.clone()));
    let opened = Ring::open(set.log.clone(), device.clone(), set.label.set_id);
    let replayed = opened.and_then(|(ring, state)| {
        if state.in_use {
            findings.push(Finding::InUse {});
            replay(&ring, &*device)?;
        }
        Ok(())
    });
    match replayed {
        Err(error @ Error::Device(_)) => return Err(error),
        Err(error) => findings.push(Finding::Log { what: error.to_string() }),
        Ok(()) => {}
    }
    let layout = set.layout.clone();
    let used = vec![0; index(layout.data_blocks().div_ceil(8))];
    let hash = SipHasher13::new_with_key(&set.label.parameters.hash_key);
    let mut checker = Checker {
        device,
        layout,
        hash,
        findings,
        cylinders: Vec::new(),
        files: HashMap::new(),
        overflow: HashSet::new(),
        used,
        nodes: HashSet::new(),
        usage: Usage::default(),
    };
    checker.read_cylinders()?;
    progress(Phase::Inodes);
    checker.headers()?;
    progress(Phase::Names);
    checker.names()?;
    progress(Phase::Connectivity);
    checker.connectivity();
    progress(Phase::Links);
    checker.links();
    progress(Phase::Groups);
    checker.control_maps();
    checker.data_map()?;
    let Checker { findings, usage, files, .. } = checker;
    let (unlisted, damages) = (findings.unlisted(), findings.damages());
    let findings = findings.found(|ino| path_of(&files, ino));
    Ok(Report { findings, unlisted, damages, usage })
}

/// A file after phase 1.
struct File {
    kind: FileKind,
    nlink: u16,
    /// Of a directory: the directory that names it, its names, and the root and the blocks of its
    /// map.
    parent: u64,
    size: u64,
    root: Option<ControlBlock>,
    blocks: u64,
    /// Names found, and the first of them with its directory.
    names: u64,
    name: Option<(u64, Vec<u8>)>,
    /// Directories that it names.
    subdirectories: u64,
}

fn path_of(files: &HashMap<u64, File>, ino: u64) -> Option<String> {
    let (mut path, mut at) = (String::new(), ino);
    // Damaged directories may form a ring.
    for _ in 0..1000 {
        if at == ROOT_INO {
            return Some(if path.is_empty() { "/".into() } else { path });
        }
        let (parent, name) = files.get(&at)?.name.as_ref()?;
        path = format!("/{}{path}", String::from_utf8_lossy(name));
        at = *parent;
    }
    None
}

/// A cylinder, and what was found in it.
struct CylinderState {
    description: Option<Cylinder>,
    /// Free entries found, and orphans.
    free: u32,
    orphans: u32,
    /// The blocks that have a free entry.
    map: Vec<u32>,
}

struct Checker {
    device: Arc<dyn Device>,
    layout: Layout,
    hash: SipHasher13,
    findings: Findings,
    cylinders: Vec<CylinderState>,
    files: HashMap<u64, File>,
    /// Overflow headers that a file has.
    overflow: HashSet<u64>,
    /// A bit for each data block that a file has.
    used: Vec<u8>,
    /// Blocks of names that a directory has.
    nodes: HashSet<ControlBlock>,
    usage: Usage,
}

impl Checker {
    fn read(&self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len.next_multiple_of(self.device.info().sector_bytes as usize)];
        self.device.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    fn read_cylinders(&mut self) -> Result<()> {
        for number in 0..self.layout.cylinders {
            let bytes = self.read(self.layout.cylinder_at(number), CYLINDER_BYTES)?;
            let description = match Cylinder::decode(&bytes, number, self.layout.cylinder_blocks()) {
                Ok(cylinder) => Some(cylinder),
                Err(error) => {
                    self.findings.push(Finding::Cylinder { what: error.to_string() });
                    None
                }
            };
            self.cylinders.push(CylinderState { description, free: 0, orphans: 0, map: Vec::new() });
        }
        Ok(())
    }

    /// Reads all headers.
    fn headers(&mut self) -> Result<()> {
        let mut strays = Vec::new();
        for number in 0..self.layout.cylinders {
            let Some(cylinder) = &self.cylinders[index(number)].description else { continue };
            if cylinder.kind != Kind::Headers {
                continue;
            }
            let (blocks, fresh) = (self.layout.cylinder_blocks(), cylinder.fresh);
            for block in 1..=blocks {
                let first = (block - 1) * self.layout.headers_in_block();
                let mut free = 0;
                if block > blocks - fresh {
                    free = self.layout.headers_in_block();
                } else {
                    let at = self.layout.control_byte(self.layout.block_of(number, block));
                    let bytes = self.read(at, self.layout.block_bytes())?;
                    for (slot, header) in (first..).zip(bytes.chunks_exact(HEADER_BYTES)) {
                        let ino = self.layout.ino_of(number, slot);
                        if is_overflow(header) {
                            strays.push(ino);
                        } else if is_used(header) {
                            self.header(ino, header)?;
                        } else if ino >= ROOT_INO {
                            free += 1;
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
        strays.retain(|at| !self.overflow.contains(at));
        for header in strays {
            self.findings.push(Finding::StrayOverflow { header });
        }
        Ok(())
    }

    fn header(&mut self, ino: u64, bytes: &[u8]) -> Result<()> {
        let mut failed = None;
        let header = Header::decode(bytes, ino, &self.layout, |at| {
            let wrong = || Error::corrupt("its overflow header is none", format!("file header {ino}"));
            let (block, within) = self.layout.header_at(at).ok_or_else(wrong)?;
            let bytes = self.read(block, self.layout.block_bytes()).inspect_err(|error| {
                failed = Some(error.clone());
            })?;
            Overflow::decode(&bytes[within..within + HEADER_BYTES], ino, at)
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let header = match header {
            Ok(header) => header,
            Err(error) => {
                self.findings.push(Finding::Header { ino, what: error.to_string() });
                return Ok(());
            }
        };
        let Some(kind) = header.kind() else { return Ok(()) };
        for &at in &header.overflow {
            if !self.overflow.insert(at) {
                self.findings.push(Finding::StrayOverflow { header: at });
            }
        }
        for extent in header.extents() {
            for block in extent.start..extent.start + extent.len {
                let (byte, bit) = (index(block / 8), 1 << (block % 8));
                if self.used[byte] & bit != 0 {
                    self.findings.push(Finding::Duplicate { ino, block });
                }
                self.used[byte] |= bit;
            }
            self.usage.used_blocks += extent.len;
        }
        let (root, blocks) = match header.contents {
            Contents::Names(map) => (map.root, map.blocks),
            _ => (None, 0),
        };
        self.usage.files += 1;
        self.usage.directories += u64::from(kind == FileKind::Directory);
        if header.nlink == 0
            && let Some((cylinder, _)) = self.layout.header_place(ino)
        {
            self.cylinders[index(cylinder)].orphans += 1;
        }
        let Header { nlink, parent, size, .. } = header;
        let file = File { kind, nlink, parent, size, root, blocks, names: 0, name: None, subdirectories: 0 };
        self.files.insert(ino, file);
        Ok(())
    }

    /// Reads all name maps.
    fn names(&mut self) -> Result<()> {
        let directory = |(&ino, file): (&u64, &File)| (file.kind == FileKind::Directory).then_some(ino);
        let mut directories: Vec<_> = self.files.iter().filter_map(directory).collect();
        directories.sort_unstable();
        for dir in directories {
            let (root, size, blocks) = match self.files.get(&dir) {
                Some(file) => (file.root, file.size, file.blocks),
                None => continue,
            };
            let (mut names, mut nodes) = (0, 0);
            // The nodes that are left, with the range of their keys and their level.
            let mut rest: Vec<(ControlBlock, u64, u64, Option<u16>)> =
                root.into_iter().map(|root| (root, 0, u64::MAX, None)).collect();
            while let Some((at, low, high, level)) = rest.pop() {
                nodes += 1;
                let found = self.node(dir, at, level)?;
                match found {
                    None => {}
                    Some(Node::Inner(level, children)) => {
                        for (n, child) in children.iter().enumerate() {
                            let first = if n == 0 { low } else { child.key };
                            let end = children.get(n + 1).map_or(high, |next| next.key);
                            if first < low || end > high {
                                let what = format!("block {}: its keys are out of range", at.0);
                                self.findings.push(Finding::Node { dir, what });
                            }
                            rest.push((child.at, first, end, Some(level - 1)));
                        }
                    }
                    Some(Node::Leaf(entries)) => {
                        if entries.is_empty() {
                            let what = format!("block {} has no names", at.0);
                            self.findings.push(Finding::Node { dir, what });
                        }
                        names += entries.len() as u64;
                        for entry in entries {
                            let inside = (low..high).contains(&entry.key);
                            self.name(dir, &entry.name, entry.ino, entry.kind, (entry.key, inside));
                        }
                    }
                }
            }
            if (names, nodes) != (size, blocks) {
                let (names, blocks) = ((size, names), (blocks, nodes));
                self.findings.push(Finding::DirectoryCounts { dir, names, blocks });
            }
        }
        Ok(())
    }

    /// Reads a node of a directory; none if it is damaged.
    fn node(&mut self, dir: u64, at: ControlBlock, level: Option<u16>) -> Result<Option<Node>> {
        let what = 'damaged: {
            let Some((cylinder, _)) = self.layout.block_place(at) else {
                break 'damaged format!("block {} does not exist", at.0);
            };
            let description = &self.cylinders[index(cylinder)].description;
            if description.as_ref().is_none_or(|cylinder| cylinder.kind != Kind::Names) {
                break 'damaged format!("block {} is in a cylinder without names", at.0);
            }
            if !self.nodes.insert(at) {
                break 'damaged format!("block {} is used twice", at.0);
            }
            let bytes = self.read(self.layout.control_byte(at), self.layout.block_bytes())?;
            match Node::decode(&bytes[..self.layout.block_bytes()], dir, at) {
                Ok(node) => {
                    let found = if let Node::Inner(level, _) = node { level } else { 0 };
                    if level.is_none_or(|level| level == found) {
                        return Ok(Some(node));
                    }
                    format!("block {} is of level {found}", at.0)
                }
                Err(error) => error.to_string(),
            }
        };
        self.findings.push(Finding::Node { dir, what });
        Ok(None)
    }

    fn name(&mut self, dir: u64, name: &[u8], ino: u64, kind: FileKind, (key, inside): (u64, bool)) {
        let is_key = key >> 8 == key_of(self.hash, name) >> 8;
        let what = match self.files.get_mut(&ino) {
            None => "UNALLOCATED",
            Some(_) if !is_key || !inside => "NAME IN THE WRONG PLACE",
            Some(file) if file.kind != kind => "WRONG KIND",
            Some(file) => {
                file.names += 1;
                file.name.get_or_insert_with(|| (dir, name.to_vec()));
                if kind != FileKind::Directory {
                    return;
                }
                let (second, stranger) = (file.names > 1, file.parent != dir);
                if let Some(parent) = self.files.get_mut(&dir) {
                    parent.subdirectories += 1;
                }
                match (second, stranger) {
                    (true, _) => "EXTRANEOUS HARD LINK TO DIRECTORY",
                    (false, true) => "BAD INODE NUMBER FOR '..'",
                    (false, false) => return,
                }
            }
        };
        let name = String::from_utf8_lossy(name).into_owned();
        self.findings.push(Finding::Name { dir, name, ino, what: what.into() });
    }

    /// Checks that each directory can be reached from the root.
    fn connectivity(&mut self) {
        if self.files.get(&ROOT_INO).is_none_or(|file| file.kind != FileKind::Directory) {
            self.findings.push(Finding::Header { ino: ROOT_INO, what: "ROOT INODE NOT DIRECTORY".into() });
        }
        let mut reached: HashSet<u64> = HashSet::from([ROOT_INO]);
        let mut directories: Vec<_> =
            self.files.iter().filter(|(_, f)| f.kind == FileKind::Directory).collect();
        directories.sort_unstable_by_key(|(ino, _)| **ino);
        let mut lost = Vec::new();
        for (&ino, file) in directories {
            let (mut way, mut at) = (Vec::new(), ino);
            let connected = loop {
                if reached.contains(&at) {
                    break true;
                }
                let Some((parent, _)) = self.files.get(&at).and_then(|file| file.name.as_ref()) else {
                    break false;
                };
                if way.len() > self.files.len() {
                    break false;
                }
                way.push(at);
                at = *parent;
            };
            if connected {
                reached.extend(way);
            } else if file.nlink > 0 {
                lost.push(ino);
            }
        }
        for ino in lost {
            self.findings.push(Finding::Unconnected { ino });
        }
    }

    fn links(&mut self) {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort_unstable_by_key(|(ino, _)| **ino);
        for (&ino, file) in files {
            let directory = file.kind == FileKind::Directory;
            let found = if directory { 2 + file.subdirectories } else { file.names };
            let named = file.names > 0 || ino == ROOT_INO;
            if !named && file.nlink == 0 {
                self.findings.push(Finding::Orphan { ino });
            } else if !named && !directory {
                self.findings.push(Finding::Unreferenced { ino });
            } else if named && u64::from(file.nlink) != found {
                self.findings.push(Finding::Links { ino, counted: file.nlink, found });
            }
        }
    }

    /// Compares the descriptions of cylinders with what is in them.
    fn control_maps(&mut self) {
        for number in 0..self.layout.cylinders {
            let state = &self.cylinders[index(number)];
            let Some(cylinder) = &state.description else { continue };
            let blocks = self.layout.cylinder_blocks();
            let (free, map) = match cylinder.kind {
                Kind::Unused => (0, Vec::new()),
                Kind::Headers => (state.free, state.map.clone()),
                Kind::Names => {
                    let unused = |&block: &u32| !self.nodes.contains(&self.layout.block_of(number, block));
                    let map: Vec<_> = (1..=blocks).filter(unused).collect();
                    (u32::try_from(map.len()).unwrap_or(0), map)
                }
            };
            let counted: Vec<_> = (1..=blocks).filter(|&block| cylinder.has_free(block)).collect();
            let mut wrong = Vec::new();
            if cylinder.free != free {
                wrong.push(format!("{} FREE ENTRIES, SHOULD BE {free}", cylinder.free));
            }
            if cylinder.orphans != state.orphans {
                wrong.push(format!("{} FILES WITHOUT A NAME, SHOULD BE {}", cylinder.orphans, state.orphans));
            }
            if counted != map {
                wrong.push("ITS BIT MAP IS WRONG".into());
            }
            for what in wrong {
                self.findings.push(Finding::CylinderCounts { cylinder: number, what });
            }
        }
    }

    /// Compares the allocation map with the blocks of files.
    fn data_map(&mut self) -> Result<()> {
        let track_blocks = self.layout.parameters.track_blocks;
        let mut left = self.layout.data_blocks();
        for number in 0..self.layout.map_pages {
            let bytes = self.read(self.layout.map_page_at(number), MAP_PAGE_BYTES)?;
            let first = number * self.layout.blocks_in_page();
            let blocks = u32::try_from(left.min(self.layout.blocks_in_page())).unwrap_or(u32::MAX);
            left -= u64::from(blocks);
            let page = match MapPage::new(&bytes[..MAP_PAGE_BYTES], number, track_blocks) {
                Ok(page) => page,
                Err(error) => {
                    self.findings.push(Finding::Map { page: number, what: error.to_string() });
                    continue;
                }
            };
            let is_used = |block: u32| {
                let block = first + u64::from(block);
                self.used[index(block / 8)] >> (block % 8) & 1 == 1
            };
            let free = (0..blocks).filter(|&block| !is_used(block)).count();
            let wrong = (0..blocks).filter(|&block| page.is_free(block) == is_used(block)).count();
            self.usage.free_blocks += free as u64;
            let tracks_agree = (0..blocks / track_blocks).all(|track| {
                let whole =
                    (track * track_blocks..(track + 1) * track_blocks).all(|block| page.is_free(block));
                (page.free_track(track) == Some(track)) == whole
            });
            if wrong > 0 {
                let what = format!("{wrong} BLOCKS ARE MARKED WRONGLY");
                self.findings.push(Finding::Map { page: number, what });
            }
            if page.free() as usize != free || !tracks_agree {
                let what = format!("IT COUNTS {} FREE BLOCKS, SHOULD BE {free}", page.free());
                self.findings.push(Finding::Map { page: number, what });
            }
        }
        Ok(())
    }
}
