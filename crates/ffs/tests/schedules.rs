//! Many clients under a scheduler that decides by chance who runs: what the order of real threads
//! hides or rarely shows.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cache::{DataSettings, Naming, Settings};
use spindle_clock::{ManualClock, Mutex};
use spindle_conformance::random::seed;
use spindle_device::MemoryDevice;
use spindle_ffs::check::{self, check};
use spindle_ffs::newfs::{self, Parameters, Plan};
use spindle_ffs::{Allocation, Ffs, LogUse, OpenOptions};
use spindle_sim::disk::Disk;
use spindle_sim::preset::Library;
use spindle_sim::{Discipline, DriveDevice, HostClock, Simulation, Time};
use spindle_vfs::{Error, FileKind, FileSystem, Ino, NewNode, Privilege, RenameMode};
use std::collections::BTreeMap;
use std::sync::Arc;

const CLIENTS: u64 = 5;
const STEPS: usize = 60;

fn file() -> NewNode<'static> {
    NewNode::new(FileKind::Regular, 0o644)
}

fn directory() -> NewNode<'static> {
    NewNode { kind: FileKind::Directory, perm: 0o755, ..file() }
}

fn settings(random: &mut StdRng) -> Settings {
    let memory = 4096 * random.random_range(16..200);
    let data = match random.random_range(0..3) {
        0 => DataSettings::old(4096, memory),
        1 => DataSettings::clustered(4096 * random.random_range(2..16), memory),
        _ => DataSettings {
            capacity_bytes: memory,
            start_bytes: random.random::<bool>().then(|| random.random_range(4..64) << 10),
            ..DataSettings::THROUGH
        },
    };
    let naming = if random.random() { Naming::Synchronous } else { Naming::Delayed };
    let dirty_limit_bytes = random.random_range(64..1024) << 10;
    Settings { data, naming, dirty_limit_bytes, ..Settings::default() }
}

/// The power of the disk: what is on it when that fails, amid whatever the others do.
struct Power {
    store: Arc<MemoryDevice>,
    losses: Mutex<Vec<MemoryDevice>>,
}

impl Power {
    fn lose(&self) {
        self.losses.lock().push(self.store.branch());
    }
}

/// Returns a byte that client `number` writes: nobody else does, and it is not 0.
fn byte_of(number: u64, chance: u8) -> u8 {
    (u8::try_from(number).unwrap() + 1) << 5 | chance >> 3
}

/// Fails if a file has bytes that its client has not written.
fn check_owners(fs: &Ffs, place: &str) {
    for number in 0..CLIENTS {
        let Ok(dir) = fs.lookup(fs.root(), format!("dir{number}").as_bytes()) else { continue };
        for name in 0..6 {
            let Ok(attr) = fs.lookup(dir.ino, format!("f{name}").as_bytes()) else { continue };
            let mut bytes = vec![0; usize::try_from(attr.size).unwrap()];
            fs.read(attr.ino, 0, &mut bytes).unwrap();
            let foreign = bytes.iter().position(|&byte| byte != 0 && byte >> 5 != byte_of(number, 0) >> 5);
            assert_eq!(foreign, None, "{place}: dir{number}/f{name}");
        }
    }
}

fn damage(device: &MemoryDevice) -> Vec<String> {
    let report = check(device, &check::Options::default(), &mut |_| ()).unwrap();
    let damage = report.findings.iter().filter(|f| f.severity.is_damage());
    damage.map(ToString::to_string).collect()
}

/// Runs one client: its own files, whose contents it knows, and names in a directory that all
/// share.
fn client(fs: &Ffs, number: u64, seed: u64, shared: Ino, power: &Power) {
    let random = &mut StdRng::seed_from_u64(seed ^ number << 32);
    let own =
        fs.create(fs.root(), format!("dir{number}").as_bytes(), &directory(), Privilege::Root).unwrap().ino;
    let mut files: BTreeMap<Vec<u8>, (Ino, Vec<u8>)> = BTreeMap::new();
    for step in 0..STEPS {
        if random.random_range(0..STEPS) == 0 {
            power.lose();
        }
        let name = format!("f{}", random.random_range(0..6)).into_bytes();
        match random.random_range(0..12) {
            0..=5 => {
                let (ino, bytes) = files.entry(name.clone()).or_insert_with(|| {
                    (fs.create(own, &name, &file(), Privilege::Root).unwrap().ino, Vec::new())
                });
                let offset = random.random_range(0..=bytes.len());
                let data: Vec<u8> =
                    (0..random.random_range(1..30_000)).map(|_| byte_of(number, random.random())).collect();
                assert_eq!(fs.write(*ino, offset as u64, &data, Privilege::Root).unwrap(), data.len());
                bytes.resize(bytes.len().max(offset + data.len()), 0);
                bytes[offset..offset + data.len()].copy_from_slice(&data);
            }
            6 | 7 => {
                if let Some((ino, bytes)) = files.get(&name) {
                    let mut found = vec![0; bytes.len()];
                    assert_eq!(fs.read(*ino, 0, &mut found).unwrap(), bytes.len());
                    assert!(
                        found == *bytes,
                        "seed {seed}: client {number}, step {step}: {} bytes",
                        bytes.len()
                    );
                }
            }
            8 => {
                if let Some((ino, _)) = files.remove(&name) {
                    fs.unlink(own, &name).unwrap();
                    fs.forget(ino, 1);
                }
            }
            9 => {
                let other = format!("s{}", random.random_range(0..8));
                match fs.create(shared, other.as_bytes(), &file(), Privilege::Root) {
                    Ok(attr) => fs.forget(attr.ino, 1),
                    Err(Error::Exists) => match fs.unlink(shared, other.as_bytes()) {
                        Ok(()) | Err(Error::NotFound) => {}
                        Err(error) => panic!("seed {seed}: {error}"),
                    },
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
            10 => {
                let (from, to) = (random.random_range(0..8), random.random_range(0..8));
                let (from, to) = (format!("s{from}"), format!("s{to}"));
                let moved = fs.rename(
                    shared,
                    from.as_bytes(),
                    shared,
                    to.as_bytes(),
                    RenameMode::Replace,
                    Privilege::Root,
                );
                assert!(matches!(moved, Ok(()) | Err(Error::NotFound)), "seed {seed}: {moved:?}");
            }
            _ => match files.values().next() {
                Some((ino, _)) if random.random() => fs.fsync(*ino, random.random()).unwrap(),
                _ => fs.sync().unwrap(),
            },
        }
    }
    for (ino, bytes) in files.values() {
        let mut found = vec![0; bytes.len()];
        fs.read(*ino, 0, &mut found).unwrap();
        assert!(found == *bytes, "seed {seed}: client {number} at its end");
    }
}

fn run(seed: u64) -> Time {
    let random = &mut StdRng::seed_from_u64(seed);
    let simulation = Simulation::with_random_schedule(seed);
    let clock = Arc::new(HostClock::new(&simulation, |_| Time::ZERO));
    let disk = Disk::new(Library::built_in().unwrap().disk("eagle").unwrap()).unwrap();
    let device = Arc::new(DriveDevice::new(&simulation, &clock, disk, Discipline::Disksort));
    let parameters = Parameters {
        bsize: Some(4096),
        fsize: Some(512),
        density: Some(4096),
        snap_dir: false,
        ..Parameters::new(24 << 20)
    };
    let plan = Plan::new(&parameters).unwrap();
    let store = device.store().clone();
    let now = ManualClock::at(HostClock::EPOCH);
    newfs::write(&plan, &*store, &now, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
    let allocation = if random.random() { Allocation::Runs } else { Allocation::Nearest };
    let log = if random.random() { LogUse::Wanted } else { LogUse::Never };
    let options = OpenOptions {
        seed: Some(seed),
        cache: settings(random),
        allocation,
        log,
        log_bytes: Some(random.random_range(128..1024) << 10),
        ..OpenOptions::default()
    };
    let fs = Arc::new(Ffs::open(device, clock, &options).unwrap());
    assert_eq!(fs.superblock().log_place().is_some(), log == LogUse::Wanted, "seed {seed}");
    let power = Arc::new(Power { store: store.clone(), losses: Mutex::default() });
    let shared = fs.create(fs.root(), b"shared", &directory(), Privilege::Root).unwrap().ino;
    for number in 0..CLIENTS {
        let (fs, power) = (fs.clone(), power.clone());
        simulation.spawn(&format!("client {number}"), move || client(&fs, number, seed, shared, &power));
    }
    simulation.run();
    fs.unmount().unwrap();
    assert_eq!(damage(&store), Vec::<String>::new(), "seed {seed}");
    let losses = std::mem::take(&mut *power.losses.lock());
    for (nth, store) in losses.into_iter().enumerate().filter(|_| log == LogUse::Wanted) {
        let store = Arc::new(store);
        let clock = Arc::new(ManualClock::at(HostClock::EPOCH));
        let fs = Ffs::open(store.clone(), clock, &OpenOptions::default()).unwrap();
        assert!(!fs.read_only(), "seed {seed}, loss {nth}: {:?}", fs.read_only_reasons());
        check_owners(&fs, &format!("seed {seed}, loss {nth}"));
        fs.unmount().unwrap();
        assert_eq!(damage(&store), Vec::<String>::new(), "seed {seed}, loss {nth}");
    }
    simulation.now()
}

/// Promise: in any order of the threads, every client finds its own bytes, no thread waits for
/// ever, and the image checks clean; so does, with a log, what a loss of power at any moment
/// leaves, where no file has bytes of another client's.
#[test]
fn torture_any_schedule() {
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40_u64).min(2000);
    let first = seed();
    for seed in 0..cases {
        run(first.wrapping_add(seed));
    }
}

/// Promise: a random schedule repeats exactly from its seed, to the last nanosecond of virtual
/// time.
#[test]
fn schedules_repeat() {
    assert_eq!(run(77), run(77));
}
