//! Crashes of sets: after a loss of power at any instant nothing acknowledged is lost, and every
//! operation is done completely or not at all.
//!
//! A random workload runs on a set whose members record their writes and flushes. For a cut, each
//! member keeps what it had when it was last flushed before, and any part of what was written to it
//! since. The set is opened from that, also without one of the copies of a part, and also after a
//! second cut during the recovery. In some workloads a member is replaced under them. The set must
//! have the tree after some number of operations, those included that were acknowledged as durable,
//! and a check must find nothing.
//!
//! Files are written once, and shortened only to whole blocks: so their bytes after a crash are
//! known exactly. Where data has checksums, nothing is written over, so files are also written over
//! in any place, and made longer and shorter: a call is done whole or not at all.
//!
//! Some files lie on a disc that nobody writes, and are written over once: that goes elsewhere,
//! whole or not at all.

mod support;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_clock::Clock;
use spindle_conformance::random::seed;
use spindle_device::{Device, Error, MemoryDevice, Scrubbed};
use spindle_mfs::check::check;
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{
    Area, Class, Fingerprint, Label, LogUnits, Mfs, OpenOptions, Progress, ReadOnlyClass, Role, Set,
    Structure, read_label,
};
use spindle_vfs::{Extent, FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode, SetAttr, XattrMode};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use support::{Event, Events, after_cut, cases, clock, recorders};

/// A tree: directories and files by path.
type Tree = BTreeMap<String, Node>;

/// A directory or a file.
#[derive(Clone, PartialEq)]
struct Node {
    /// The bytes of a file; none of a directory.
    bytes: Option<Vec<u8>>,
    /// The value of its extended attribute; empty if it has none.
    attribute: Vec<u8>,
    /// True if its class of data is the second one.
    large: bool,
}

impl Node {
    const fn new(bytes: Option<Vec<u8>>, large: bool) -> Self {
        Self { bytes, attribute: Vec::new(), large }
    }

    fn is_directory(&self) -> bool {
        self.bytes.is_none()
    }

    fn is_file(&self) -> bool {
        self.bytes.is_some()
    }
}

const BY: Privilege = Privilege::Root;
const ATTRIBUTE: &[u8] = b"user.attribute";
const CLASS: &[u8] = b"user.spindle.class";
/// The members: their sizes in KiB, their roles, and the part of which they have a copy. The last
/// one has the second class of data, with larger blocks. The log is
/// as small as it can be, so that it goes round; in half of the workloads a part of it is full when
/// they begin, so that checkpoints come while they run.
const ROLES: [(u64, Role, u32); 9] = [
    (2048, Role::Control, 0),
    (2048, Role::Control, 0),
    (3072, Role::Data, 0),
    (3136, Role::Data, 0),
    (2048, Role::Data, 1),
    (768, Role::Log, 0),
    (768, Role::Log, 0),
    (576, Role::Log, 1),
    (2048, Role::Data, 2),
];
/// The members of which there is another copy, with those that take the place of others.
const MIRRORED: [usize; 8] = [0, 1, 2, 3, 5, 6, 9, 10];
/// The sizes in KiB of devices that are no members at first.
const SPARE: [u64; 2] = [3200, 3200];

/// Blocks of the disc, of 4 KiB.
const DISC_BLOCKS: usize = 64;

/// Returns the disc that all sets have: nobody writes it, so no cut touches it.
fn disc() -> Arc<MemoryDevice> {
    static DISC: OnceLock<Arc<MemoryDevice>> = OnceLock::new();
    let new = || {
        let mut bytes = vec![0; DISC_BLOCKS * 4096];
        StdRng::seed_from_u64(1).fill(&mut bytes[..]);
        Arc::new(MemoryDevice::from_bytes(&bytes))
    };
    DISC.get_or_init(new).clone()
}

/// Makes the disc a read-only class of a new set.
fn attach_disc(members: &[Arc<dyn Device>]) {
    let set = Set::open(members).unwrap();
    set.begin_change(clock().now()).unwrap();
    let area = Some(Fingerprint::read(&*disc(), &mut |_| Ok(())).unwrap());
    let class = ReadOnlyClass { name: "disc".parse().unwrap(), block_bytes: 4096, area };
    set.attach(&class, &*disc()).unwrap();
}

/// Opens the set of those devices that are members, with the disc.
fn open_set(devices: &[Arc<dyn Device>]) -> Set {
    let is_member = |device: &&Arc<dyn Device>| read_label(&***device).is_ok_and(|label| label.is_some());
    let disc = disc() as Arc<dyn Device>;
    Set::open(&devices.iter().filter(is_member).cloned().chain([disc]).collect::<Vec<_>>()).unwrap()
}

fn mount(set: &Set) -> Mfs {
    let fs = Mfs::open(set, clock(), &OpenOptions::default()).unwrap();
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    fs
}

fn open(devices: &[Arc<dyn Device>]) -> Mfs {
    mount(&open_set(devices))
}

fn walk(fs: &Mfs, dir: Ino, path: &str, tree: &mut Tree) {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    for name in names {
        let attr = fs.lookup(dir, name.as_bytes()).unwrap();
        let path = format!("{path}/{name}");
        let attribute = match fs.getxattr(attr.ino, ATTRIBUTE) {
            Err(spindle_vfs::Error::NoAttribute) => Vec::new(),
            value => value.unwrap(),
        };
        let large = fs.getxattr(attr.ino, CLASS).unwrap() == b"large";
        if attr.kind == FileKind::Directory {
            tree.insert(path.clone(), Node { bytes: None, attribute, large });
            walk(fs, attr.ino, &path, tree);
        } else {
            let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
            assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
            tree.insert(path, Node { bytes: Some(bytes), attribute, large });
        }
        fs.forget(attr.ino, 1);
    }
}

/// The workload, beside what it must give.
struct Run {
    fs: Arc<Mfs>,
    set: Arc<Set>,
    devices: Vec<Arc<dyn Device>>,
    tree: Tree,
    versions: Vec<Tree>,
    events: Events,
    written: u32,
    /// Files that are in use, with or without names.
    held: Vec<Ino>,
    /// True if data has checksums.
    sums: bool,
}

impl Run {
    fn dir_of<'p>(&self, path: &'p str) -> (Ino, &'p str) {
        let (dir, name) = path.rsplit_once('/').unwrap();
        let mut ino = self.fs.root();
        for part in dir.split('/').filter(|part| !part.is_empty()) {
            let attr = self.fs.lookup(ino, part.as_bytes()).unwrap();
            self.fs.forget(attr.ino, 1);
            ino = attr.ino;
        }
        (ino, name)
    }

    fn pick(&self, rng: &mut StdRng, wanted: impl Fn(&Node) -> bool) -> Option<String> {
        let paths: Vec<_> = self.tree.iter().filter(|(_, node)| wanted(node)).map(|(path, _)| path).collect();
        paths.choose(rng).map(|path| (*path).clone())
    }

    fn new_path(&self, rng: &mut StdRng) -> String {
        let dir =
            self.pick(rng, Node::is_directory).filter(|_| rng.random_range(0..3) > 0).unwrap_or_default();
        // Long names divide nodes soon.
        let name = format!("{}{}", rng.random_range(0..2000), "x".repeat(rng.random_range(1..60)));
        format!("{dir}/{name}")
    }

    /// Returns a new node, with the class of data of its directory.
    fn node(&self, path: &str, bytes: Option<Vec<u8>>) -> Node {
        let dir = path.rsplit_once('/').unwrap().0;
        Node::new(bytes, self.tree.get(dir).is_some_and(|dir| dir.large))
    }

    fn make(&self, path: &str, kind: FileKind) -> Ino {
        let node = NewNode::new(kind, 0o755);
        let (dir, name) = self.dir_of(path);
        let ino = self.fs.create(dir, name.as_bytes(), &node, BY).unwrap().ino;
        self.fs.forget(ino, 1);
        ino
    }

    /// Runs one operation that makes a version.
    fn does(&mut self, operation: impl FnOnce(&mut Self)) {
        self.events.lock().push(Event::Begins(self.versions.len()));
        operation(self);
        self.versions.push(self.tree.clone());
    }

    fn create(&mut self, path: &str) {
        self.make(path, FileKind::Regular);
        self.tree.insert(path.to_owned(), self.node(path, Some(Vec::new())));
    }

    fn link(&mut self, from: &str, to: &str) {
        let ((dir, name), (to_dir, to_name)) = (self.dir_of(from), self.dir_of(to));
        let ino = self.fs.lookup(dir, name.as_bytes()).unwrap().ino;
        self.fs.link(ino, to_dir, to_name.as_bytes(), BY).unwrap();
        self.fs.forget(ino, 2);
        self.tree.insert(to.to_owned(), self.tree[from].clone());
    }

    fn chmod(&mut self, path: &str) {
        let (dir, name) = self.dir_of(path);
        let ino = self.fs.lookup(dir, name.as_bytes()).unwrap().ino;
        self.fs.setattr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }, BY).unwrap();
        self.fs.forget(ino, 1);
    }

    fn unlink(&mut self, path: &str) {
        let (dir, name) = self.dir_of(path);
        self.fs.unlink(dir, name.as_bytes()).unwrap();
        self.tree.remove(path);
    }

    /// Fills a part of the log with changes of some files. What happened until then is not cut.
    fn fill_log(&mut self, rng: &mut StdRng) {
        const FILES: usize = 24;
        let names: Vec<_> = (0..FILES).map(|n| format!("filler{n}")).collect();
        for name in &names {
            self.create(&format!("/{name}"));
        }
        let root = self.fs.root();
        for round in 0..rng.random_range(30..70) {
            for name in &names {
                let ino = self.fs.lookup(root, name.as_bytes()).unwrap().ino;
                let perm = Some(0o600 + round % 2);
                self.fs.setattr(ino, &SetAttr { perm, ..SetAttr::default() }, BY).unwrap();
                self.fs.forget(ino, 1);
            }
            self.fs.sync().unwrap();
        }
        self.versions = vec![self.tree.clone()];
        self.events.lock().clear();
    }

    fn sync(&self) {
        self.fs.sync().unwrap();
        self.events.lock().push(Event::Durable(self.versions.len() - 1));
    }

    /// Gives a new file some blocks of the disc, and sometimes writes over a part of it once: that
    /// goes to other blocks.
    fn place(&mut self, rng: &mut StdRng, path: &str, ino: Ino) {
        let from = rng.random_range(0..DISC_BLOCKS - 10) * 4096;
        let len = rng.random_range(1..10 * 4096);
        let run = Extent { offset: 0, at: from as u64, len: len as u64 };
        self.fs.place(ino, len as u64, (b"disc", Some(b"default")), &[run]).unwrap();
        let mut bytes = vec![0; len];
        let whole = len.next_multiple_of(512);
        let mut sectors = vec![0; whole];
        disc().read_at(from as u64, &mut sectors).unwrap();
        bytes.copy_from_slice(&sectors[..len]);
        // Overwritten blocks are those of the class `default`, whatever the directory has.
        self.tree.insert(path.to_owned(), Node::new(Some(bytes.clone()), false));
        if rng.random() {
            self.versions.push(self.tree.clone());
            self.events.lock().push(Event::Begins(self.versions.len()));
            let at = rng.random_range(0..=len + 3000);
            let text = vec![7; rng.random_range(1..9000)];
            let done = self.fs.write(ino, at as u64, &text, BY).unwrap_or(0);
            if done > 0 {
                bytes.resize(bytes.len().max(at + done), 0);
                bytes[at..at + done].copy_from_slice(&text[..done]);
            }
            self.tree.insert(path.to_owned(), Node::new(Some(bytes), false));
        }
    }

    /// Writes over a part of a file, or behind it, and sometimes gives it to `fsync`.
    fn overwrite(&mut self, rng: &mut StdRng) {
        let Some(path) = self.pick(rng, Node::is_file) else { return };
        let (dir, name) = self.dir_of(&path);
        let attr = self.fs.lookup(dir, name.as_bytes()).unwrap();
        let offset = rng.random_range(0..=attr.size + 5000);
        let len = [1, 100, 4096, 9000, 20_000][rng.random_range(0..5)];
        self.written += 1;
        let bytes: Vec<u8> = (0..len).map(|n: u32| 1 + ((n / 5 + self.written * 37) % 255) as u8).collect();
        let done = self.fs.write(attr.ino, offset, &bytes, BY).unwrap_or(0);
        let file = self.tree.get_mut(&path).unwrap().bytes.as_mut().unwrap();
        let offset = usize::try_from(offset).unwrap();
        if done > 0 {
            file.resize(file.len().max(offset + done), 0);
            file[offset..offset + done].copy_from_slice(&bytes[..done]);
        }
        if rng.random_range(0..4) == 0 {
            self.versions.push(self.tree.clone());
            self.fs.fsync(attr.ino, rng.random()).unwrap();
            self.events.lock().push(Event::Durable(self.versions.len() - 1));
            self.events.lock().push(Event::Begins(self.versions.len()));
        }
        self.fs.forget(attr.ino, 1);
    }

    /// Runs one random operation, and sometimes makes all of them durable, also while others go on.
    fn step(&mut self, rng: &mut StdRng) {
        self.operation(rng);
        match rng.random_range(0..24) {
            0 => self.sync(),
            1 => {
                let (fs, events, version) = (self.fs.clone(), self.events.clone(), self.versions.len() - 1);
                let syncing = std::thread::spawn(move || {
                    fs.sync().unwrap();
                    events.lock().push(Event::Durable(version));
                });
                (0..rng.random_range(1..8)).for_each(|_| self.operation(rng));
                syncing.join().unwrap();
            }
            _ => {}
        }
    }

    fn operation(&mut self, rng: &mut StdRng) {
        self.events.lock().push(Event::Begins(self.versions.len()));
        match rng.random_range(0..if self.sums { 21 } else { 15 }) {
            0..4 => {
                let path = self.new_path(rng);
                if self.tree.contains_key(&path) {
                    return;
                }
                let ino = self.make(&path, FileKind::Regular);
                self.tree.insert(path.clone(), self.node(&path, Some(Vec::new())));
                self.versions.push(self.tree.clone());
                self.events.lock().push(Event::Begins(self.versions.len()));
                if rng.random_range(0..4) == 0 {
                    self.place(rng, &path, ino);
                    self.versions.push(self.tree.clone());
                    return;
                }
                let len = [10, 300, 5000, 70_000][rng.random_range(0..4)] + rng.random_range(0..200);
                self.written += 1;
                let bytes: Vec<u8> =
                    (0..len).map(|n: u32| 1 + ((n / 7 + self.written * 31) % 255) as u8).collect();
                let done = self.fs.write(ino, 0, &bytes, BY).unwrap_or(0);
                self.tree.insert(path.clone(), self.node(&path, Some(bytes[..done].to_vec())));
            }
            4 => {
                let path = self.new_path(rng);
                if self.tree.contains_key(&path) {
                    return;
                }
                self.make(&path, FileKind::Directory);
                self.tree.insert(path.clone(), self.node(&path, None));
            }
            5..7 => {
                let Some(path) = self.pick(rng, Node::is_file) else { return };
                if rng.random_range(0..4) == 0 {
                    let (dir, name) = self.dir_of(&path);
                    self.held.push(self.fs.lookup(dir, name.as_bytes()).unwrap().ino);
                }
                self.unlink(&path);
                if rng.random_range(0..4) == 0 {
                    self.held.drain(..).for_each(|ino| self.fs.forget(ino, 1));
                }
            }
            7 => {
                let Some(path) = self.pick(rng, Node::is_directory) else { return };
                let (dir, name) = self.dir_of(&path);
                let below = format!("{path}/");
                if self.tree.keys().any(|other| other.starts_with(&below)) {
                    let to = self.new_path(rng);
                    if self.tree.contains_key(&to) || to.starts_with(&below) {
                        return;
                    }
                    let (to_dir, to_name) = self.dir_of(&to);
                    let (from, into) = (name.as_bytes(), to_name.as_bytes());
                    self.fs.rename(dir, from, to_dir, into, RenameMode::NoReplace, BY).unwrap();
                    let moved = |old: &String| old == &path || old.starts_with(&below);
                    let renamed: Vec<_> = self.tree.keys().filter(|old| moved(old)).cloned().collect();
                    for old in renamed {
                        let node = self.tree.remove(&old).unwrap();
                        self.tree.insert(format!("{to}{}", &old[path.len()..]), node);
                    }
                } else {
                    self.fs.rmdir(dir, name.as_bytes()).unwrap();
                    self.tree.remove(&path);
                }
            }
            8 => {
                let (Some(from), Some(to)) = (self.pick(rng, Node::is_file), self.pick(rng, Node::is_file))
                else {
                    return;
                };
                let ((dir, name), (to_dir, to_name)) = (self.dir_of(&from), self.dir_of(&to));
                let (old, new) = (name.as_bytes(), to_name.as_bytes());
                self.fs.rename(dir, old, to_dir, new, RenameMode::Replace, BY).unwrap();
                let node = self.tree.remove(&from).unwrap();
                self.tree.insert(to, node);
            }
            9..12 => {
                let Some(path) = self.pick(rng, |_| true) else { return };
                let (dir, name) = self.dir_of(&path);
                let ino = self.fs.lookup(dir, name.as_bytes()).unwrap().ino;
                let len = [0, 1, 400, 3000, 20_000][rng.random_range(0..5)];
                self.written += 1;
                let value = vec![(self.written % 255) as u8; len];
                let node = self.tree.get_mut(&path).unwrap();
                if len > 0 {
                    // Control storage may be full.
                    let set = self.fs.setxattr(ino, ATTRIBUTE, &value, XattrMode::Set, BY);
                    if set.is_ok() {
                        node.attribute = value;
                    }
                } else if !node.attribute.is_empty() {
                    self.fs.removexattr(ino, ATTRIBUTE).unwrap();
                    node.attribute = value;
                }
                self.fs.forget(ino, 1);
            }
            12..14 => {
                let Some(path) = self.pick(rng, |_| true) else { return };
                let (dir, name) = self.dir_of(&path);
                let ino = self.fs.lookup(dir, name.as_bytes()).unwrap().ino;
                let large = rng.random();
                let class: &[u8] = if large { b"large" } else { b"default" };
                match self.fs.setxattr(ino, CLASS, class, XattrMode::Set, BY) {
                    Ok(()) => self.tree.get_mut(&path).unwrap().large = large,
                    // It has blocks of the other size.
                    Err(spindle_vfs::Error::NotEmpty) => {}
                    Err(error) => panic!("{error}"),
                }
                self.fs.forget(ino, 1);
            }
            14 => {
                let Some(path) = self.pick(rng, Node::is_file) else { return };
                let (dir, name) = self.dir_of(&path);
                let attr = self.fs.lookup(dir, name.as_bytes()).unwrap();
                let whole = attr.size / 16_384 * 8192;
                let size = if self.sums { rng.random_range(0..=attr.size) } else { whole };
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                self.fs.setattr(attr.ino, &set, BY).unwrap();
                self.fs.forget(attr.ino, 1);
                let bytes = self.tree.get_mut(&path).unwrap().bytes.as_mut().unwrap();
                bytes.truncate(usize::try_from(size).unwrap());
            }
            _ => self.overwrite(rng),
        }
        self.versions.push(self.tree.clone());
    }
}

/// Opens the members, and returns the tree after an unmount and a check.
fn recover(devices: &[Arc<dyn Device>], what: &str) -> Tree {
    let fs = open(devices);
    let mut tree = Tree::new();
    walk(&fs, fs.root(), "", &mut tree);
    fs.unmount().unwrap();
    drop(fs);
    let report = check(&open_set(devices), 100, &mut |_| ()).unwrap();
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{what}: {findings:#?}");
    assert_eq!(report.orphans, 0, "{what}");
    tree
}

/// Compares the copies of a set that was recovered, mounted or not: they differ only where the cut
/// explains it, and are equal after that.
fn compare(devices: &[Arc<dyn Device>], is_mounted: bool, what: &str) {
    for again in [false, true] {
        let set = open_set(devices);
        let fs = is_mounted.then(|| mount(&set));
        let Scrubbed { differed, unreadable, undecided, unclean, kept, wrong, .. } =
            set.scrub(&mut |_| Ok(())).unwrap();
        assert_eq!((differed, unreadable, undecided, wrong.len()), (0, 0, 0, 0), "{what}, {again}");
        // Records of a log in use stay.
        assert!(!again || unclean == 0, "{what}: {unclean} bytes differ again");
        assert!(is_mounted || kept == 0, "{what}: {kept} bytes still differ");
        assert_eq!(set.label_now().unequal, kept > 0, "{what}");
        if let Some(fs) = fs {
            fs.unmount().unwrap();
        }
    }
}

fn run(seed: u64, cuts: usize, sums: bool, work: impl FnOnce(&mut Run, &mut StdRng)) {
    let mut rng = StdRng::seed_from_u64(seed);
    let new: Vec<_> = ROLES.iter().map(|&(kib, ..)| MemoryDevice::new(kib << 10)).collect();
    let members: Vec<_> = new
        .iter()
        .zip(ROLES)
        .map(|(device, (_, role, part))| Member {
            device: Arc::new(device.branch()),
            areas: vec![NewArea {
                class: u8::from((role, part) == (Role::Data, 2)),
                part: Some(part),
                ..NewArea::of(role)
            }],
        })
        .collect();
    let mut wishes = Wishes::new();
    wishes.parameters.block_bytes = 1024;
    wishes.parameters.cylinder_bytes = 16 << 10;
    wishes.parameters.track_blocks = 8;
    wishes.parameters.stripe_bytes = 4096;
    wishes.parameters.checksums = sums;
    // Blocks with checksums lie on one device each.
    let stripe_bytes = if sums { 8192 } else { 4096 };
    let structure = Structure { block_bytes: 8192, track_blocks: 8, stripe_bytes };
    wishes.classes = vec![Class { name: "large".parse().unwrap(), structure }];
    // Parts of most logs take turns as newfs has it, some are striped.
    wishes.log = if rng.random_range(0..4) == 0 { LogUnits::STRIPED } else { LogUnits::default() };
    make(&members, &wishes, &*clock(), &mut rng).unwrap();
    attach_disc(&members.iter().map(|member| member.device.clone()).collect::<Vec<_>>());
    let events = Events::default();
    let copy = |device: &dyn Device| {
        let mut bytes = vec![0; usize::try_from(device.info().size_bytes).unwrap()];
        device.read_at(0, &mut bytes).unwrap();
        MemoryDevice::from_bytes(&bytes)
    };
    let mut media: Vec<_> = members.iter().map(|member| copy(&*member.device)).collect();
    media.extend(SPARE.map(|kib| MemoryDevice::new(kib << 10)));
    let devices = recorders(&media, &events);
    let set = Arc::new(open_set(&devices));
    let (fs, tree, events_of) = (Arc::new(mount(&set)), Tree::new(), events.clone());
    let versions = vec![tree.clone()];
    let mut run =
        Run { fs, set, devices, versions, tree, events: events_of, written: 0, held: Vec::new(), sums };
    if rng.random_bool(0.5) {
        run.fill_log(&mut rng);
        media = run.devices.iter().map(|device| copy(&**device)).collect();
    }
    work(&mut run, &mut rng);
    let Run { fs, versions, .. } = run;
    fs.sync().unwrap();
    drop(fs);
    let events = std::mem::take(&mut *events.lock());
    for _ in 0..cuts {
        let cut = rng.random_range(0..=events.len());
        let what = format!("seed {seed}, cut {cut} of {}", events.len());
        let (mut durable, mut last) = (0, 0);
        for event in &events[..cut] {
            match event {
                Event::Durable(version) => durable = *version,
                Event::Begins(version) => last = *version,
                _ => {}
            }
        }
        let mut found = after_cut(&media, &events, cut, &mut rng);
        if rng.random_range(0..3) == 0 {
            // Power is cut again during the recovery.
            let again = Events::default();
            drop(open(&recorders(&found, &again)));
            let again = std::mem::take(&mut *again.lock());
            let second = rng.random_range(0..=again.len());
            found = after_cut(&found, &again, second, &mut rng);
        }
        let mut devices: Vec<Arc<dyn Device>> =
            found.into_iter().map(|device| Arc::new(device) as Arc<dyn Device>).collect();
        let lost = (rng.random_range(0..3) == 0).then(|| devices.remove(*MIRRORED.choose(&mut rng).unwrap()));
        let tree = recover(&devices, &what);
        // Comparing the copies takes longer than all else.
        let is_compared = rng.random_bool(0.1);
        let is_mounted = rng.random_bool(0.5);
        if is_compared {
            compare(&devices, is_mounted, &what);
        }
        if let Some(copy) = lost {
            // A copy that was missing comes back: it is out of date.
            let fs = open(&devices);
            let node = NewNode::new(FileKind::Directory, 0o755);
            let new = fs.create(fs.root(), b"new", &node, BY).is_ok();
            fs.unmount().unwrap();
            devices.push(copy);
            let mut again = recover(&devices, &what);
            assert_eq!(again.remove("/new").is_some(), new, "{what}");
            assert!(again == tree, "{what}, with the copy that was missing");
            if is_compared {
                compare(&devices, is_mounted, &what);
            }
        }
        if versions[durable..=last.min(versions.len() - 1)].contains(&tree) {
            continue;
        }
        let version = versions.iter().rposition(|version| *version == tree);
        let same =
            |version: &Tree| version.iter().filter(|&(path, node)| tree.get(path) == Some(node)).count();
        let nearest = versions.iter().max_by_key(|version| same(version)).unwrap();
        let differs = |(path, node): (&String, &Node)| {
            (tree.get(path) != Some(node)).then(|| (path.clone(), node.bytes.as_ref().map(Vec::len)))
        };
        let difference: Vec<_> = nearest.iter().filter_map(differs).take(5).collect();
        panic!("{what}: version {version:?}, not from {durable} to {last}; the nearest has {difference:?}");
    }
}

/// Promise: nothing acknowledged is lost, whatever part of the unflushed writes each member has,
/// and whichever copy of a part is gone.
#[test]
fn torture_crashes() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test crash torture_crashes");
    for case in 0..cases(4) {
        run(seed.wrapping_add(case), 60, false, |run, rng| (0..250).for_each(|_| run.step(rng)));
    }
}

/// Promise: where data has checksums, each call that writes over files or changes their lengths is
/// done whole or not at all, `fsync` makes it durable, and the data that is there is that of its
/// checksums in every copy.
#[test]
fn torture_crashes_with_checksums() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test crash torture_crashes_with");
    for case in 0..cases(4) {
        run(seed.wrapping_add(case), 60, true, |run, rng| (0..250).for_each(|_| run.step(rng)));
    }
}

/// Promise: the same holds while members of a mounted set are replaced, added and removed, also if
/// a change is interrupted, and goes on or is given up.
#[test]
fn torture_crashes_while_members_change() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test crash torture_crashes_while");
    for case in 0..cases(4) {
        run(seed.wrapping_add(case), 60, case % 2 == 1, |run, rng| {
            (0..50).for_each(|_| run.step(rng));
            for spare in [9, 10] {
                let (set, device) = (run.set.clone(), run.devices[spare].clone());
                let id = [u8::try_from(spare).unwrap(); 16];
                let patience =
                    if rng.random_range(0..2) == 0 { u64::MAX } else { rng.random_range(0..8) << 20 };
                let mut stop = false;
                let mut work = |Progress { done, .. }| {
                    (0..8).for_each(|_| run.step(rng));
                    let enough = std::io::Error::from(std::io::ErrorKind::Interrupted);
                    stop = done > patience;
                    if stop { Err(Error::io("test", "stopping", enough)) } else { Ok(()) }
                };
                let of_data = |label: &Label| {
                    let mine =
                        |area: &&Area| area.filling.is_none() && (area.role, area.index) == (Role::Data, 0);
                    label.areas.iter().filter(mine).map(|area| area.member_id).collect::<Vec<_>>()
                };
                let old = of_data(&set.label_now())[0];
                let changed = match spare {
                    9 => set.replace(old, &device, id, &mut work),
                    _ => set.add(Role::Data, 0, &device, id, &mut work),
                };
                assert_eq!(changed.is_err(), stop, "{changed:?}");
                (0..20).for_each(|_| run.step(rng));
                if changed.is_err() && rng.random_range(0..2) == 0 {
                    let old = of_data(&set.label_now())[0];
                    let mut work = |_| {
                        (0..8).for_each(|_| run.step(rng));
                        Ok(())
                    };
                    match spare {
                        9 => set.replace(old, &device, id, &mut work).unwrap(),
                        _ => set.add(Role::Data, 0, &device, id, &mut work).unwrap(),
                    }
                }
                (0..20).for_each(|_| run.step(rng));
            }
        });
    }
}

/// Promise: when a cylinder of headers becomes one of names, nothing that the log has of the
/// headers is written over the names.
#[test]
fn torture_cylinders_that_change_their_kind() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test crash torture_cylinders");
    run(seed, 100, false, |run, _| {
        let files: Vec<_> = (0..70).map(|n| format!("/file{n}")).collect();
        for path in &files {
            run.does(|run| run.create(path));
        }
        run.sync();
        // What is changed in headers that are there already goes to the log.
        for path in &files {
            run.does(|run| run.chmod(path));
        }
        run.sync();
        for path in &files {
            run.does(|run| run.unlink(path));
        }
        run.sync();
        run.does(|run| run.create("/one"));
        for n in 0..160 {
            run.does(|run| run.link("/one", &format!("/{n}{}", "y".repeat(100))));
            if n % 8 == 0 {
                run.sync();
            }
        }
    });
}
