//! Members that record or fail, cuts of their power, and trees to compare.

#![allow(dead_code)] // No test uses everything.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{ManualClock, Mutex};
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Area, Class, Mfs, OpenOptions, Role, Set, Structure, read_label};
use spindle_vfs::FileSystem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// What happens to the members, in order.
pub enum Event {
    Write {
        member: usize,
        at: u64,
        bytes: Vec<u8>,
    },
    Flush {
        member: usize,
    },
    /// Everything up to this version of the tree was acknowledged as durable.
    Durable(usize),
    /// An operation begins that makes this version.
    Begins(usize),
}

pub type Events = Arc<Mutex<Vec<Event>>>;

/// A member that records.
struct Recorder {
    member: usize,
    device: MemoryDevice,
    events: Events,
}

impl Device for Recorder {
    fn info(&self) -> &Info {
        self.device.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Write {
            let (at, bytes) = (request.offset, request.buf.to_vec());
            self.events.lock().push(Event::Write { member: self.member, at, bytes });
        }
        self.device.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }
    /// Takes a moment, so that other threads go on meanwhile.
    fn flush(&self) -> Result<()> {
        std::thread::sleep(Duration::from_micros(50));
        self.events.lock().push(Event::Flush { member: self.member });
        self.device.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }
}

/// A member that refuses everything after so many writes and flushes.
pub struct Failing {
    pub device: MemoryDevice,
    pub left: AtomicI64,
    /// True if it has refused anything.
    pub refused: AtomicBool,
}

/// As many writes and flushes as a test can make.
pub const NEVER: i64 = i64::MAX;

impl Failing {
    pub fn new(device: MemoryDevice, left: i64) -> Self {
        Self { device, left: left.into(), refused: false.into() }
    }

    fn check(&self, counts: bool) -> Result<()> {
        let left = self.left.fetch_sub(i64::from(counts), Ordering::Relaxed);
        let dead = || Error::io("failing", "all", std::io::ErrorKind::Other.into());
        self.refused.fetch_or(left <= 0, Ordering::Relaxed);
        if left > 0 { Ok(()) } else { Err(dead()) }
    }
}

impl Device for Failing {
    fn info(&self) -> &Info {
        self.device.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        self.check(request.op == Op::Write)?;
        self.device.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        self.check(true)?;
        self.device.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }
}

/// A member that counts the bytes that are read.
pub struct Counting {
    pub device: Arc<MemoryDevice>,
    pub read: Arc<AtomicU64>,
}

impl Device for Counting {
    fn info(&self) -> &Info {
        self.device.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        if request.op == Op::Read {
            self.read.fetch_add(request.buf.len() as u64, Ordering::Relaxed);
        }
        self.device.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        self.device.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }
}

/// Returns branches of members that record what happens to them.
pub fn recorders(media: &[MemoryDevice], events: &Events) -> Vec<Arc<dyn Device>> {
    let recorder = |(member, device): (usize, &MemoryDevice)| {
        Arc::new(Recorder { member, device: device.branch(), events: events.clone() }) as Arc<dyn Device>
    };
    media.iter().enumerate().map(recorder).collect()
}

/// A set in memory, each of whose members has one area.
pub struct MemorySet {
    pub members: Vec<Arc<MemoryDevice>>,
}

impl MemorySet {
    /// Makes a set of small members, each a copy of the only part of its role's storage.
    pub fn new(roles: &[Role], checksums: bool) -> Self {
        let mut wishes = Wishes::new();
        wishes.parameters.cylinder_bytes = 64 << 10;
        wishes.parameters.track_blocks = 8;
        wishes.parameters.checksums = checksums;
        let members: Vec<_> = roles.iter().map(|_| Arc::new(MemoryDevice::new(4 << 20))).collect();
        let area = |role| vec![NewArea { part: Some(0), ..NewArea::of(role) }];
        let new = members.iter().zip(roles);
        let new: Vec<_> =
            new.map(|(device, role)| Member { device: device.clone(), areas: area(*role) }).collect();
        make(&new, &wishes, &*clock(), &mut StdRng::seed_from_u64(1)).unwrap();
        Self { members }
    }

    pub fn set(&self) -> Set {
        let devices: Vec<_> = self.members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
        Set::open(&devices).unwrap()
    }

    /// Mounts it, and expects that it can be written.
    pub fn open(&self) -> Mfs {
        let fs = Mfs::open(&self.set(), clock(), &OpenOptions::default()).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        fs
    }

    /// Returns the areas of a role, with their members.
    pub fn areas(&self, role: Role) -> Vec<(Arc<MemoryDevice>, Area)> {
        let label = read_label(&*self.members[0]).unwrap().unwrap();
        let id = |member: &Arc<MemoryDevice>| read_label(&**member).unwrap().unwrap().member_id;
        let areas = label.areas.iter().filter(|area| area.role == role);
        let member = |area: &Area| self.members.iter().find(|member| id(member) == area.member_id).unwrap();
        areas.map(|area| (member(area).clone(), area.clone())).collect()
    }
}

/// Makes a set with the default class of data and two others, whose blocks have so many bytes, and
/// returns its members: control storage, the default class with log storage, and the others.
pub fn make_with_classes(
    kib: [u64; 4],
    classes: [(&str, u32); 2],
    checksums: bool,
) -> Vec<Arc<MemoryDevice>> {
    let media: Vec<_> = kib.iter().map(|kib| Arc::new(MemoryDevice::new(kib << 10))).collect();
    let data = |class, part| NewArea { class, part: Some(part), ..NewArea::of(Role::Data) };
    let areas = [
        vec![NewArea::of(Role::Control)],
        vec![data(0, 0), NewArea::of(Role::Log)],
        vec![data(1, 1)],
        vec![data(2, 2)],
    ];
    let member = |(device, areas): (&Arc<MemoryDevice>, Vec<NewArea>)| Member {
        device: device.clone(),
        areas: areas.into_iter().map(|area| NewArea { share: 1, ..area }).collect(),
    };
    let members: Vec<_> = media.iter().zip(areas).map(member).collect();
    let mut wishes = Wishes::new();
    wishes.parameters.cylinder_bytes = 64 << 10;
    wishes.parameters.track_blocks = 8;
    wishes.parameters.checksums = checksums;
    wishes.classes = classes.map(|(name, block_bytes)| class(name, block_bytes)).to_vec();
    make(&members, &wishes, &*clock(), &mut StdRng::seed_from_u64(2)).unwrap();
    media
}

/// Returns a class of data with short tracks.
pub fn class(name: &str, block_bytes: u32) -> Class {
    let structure = Structure { block_bytes, track_blocks: 8, stripe_bytes: 8192 };
    Class { name: name.parse().unwrap(), structure }
}

/// Returns the clock of all tests.
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(1_000_000_000))
}

/// Returns the number of cases of a random test.
pub fn cases(default: u64) -> u64 {
    std::env::var("SPINDLE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default)
}

/// Returns the members as a cut after `cut` events may leave them.
pub fn after_cut(
    media: &[MemoryDevice],
    events: &[Event],
    cut: usize,
    rng: &mut StdRng,
) -> Vec<MemoryDevice> {
    let members: Vec<_> = media.iter().map(MemoryDevice::branch).collect();
    let mut flushed = vec![0; members.len()];
    for (n, event) in events[..cut].iter().enumerate() {
        if let Event::Flush { member } = event {
            flushed[*member] = n;
        }
    }
    // Everything, nothing, or any part of what was not flushed is there.
    let chance = [0.0, 0.5, 0.9, 1.0][rng.random_range(0..4)];
    for (n, event) in events[..cut].iter().enumerate() {
        let Event::Write { member, at, bytes } = event else { continue };
        for (sector, bytes) in bytes.chunks(512).enumerate() {
            if n < flushed[*member] || rng.random_bool(chance) {
                members[*member].write_at(at + sector as u64 * 512, bytes).unwrap();
            }
        }
    }
    members
}
