//! Parts of a set that are used apart and put together again: what each has of what was
//! acknowledged decides whether that is refused.

mod support;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, ManualClock};
use spindle_conformance::random::seed;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Result, Ticket};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Label, Mfs, OpenOptions, Role, Set, read_label};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use support::cases;

const BY: Privilege = Privilege::Root;
/// What each site has: a copy of everything.
const ROLES: [Role; 3] = [Role::Control, Role::Data, Role::Log];
const SIZE: u64 = 4 << 20;
/// As many writes and flushes as a session can make.
const NEVER: i64 = i64::MAX;

/// The power of a site: writes and flushes that are left.
#[derive(Clone)]
struct Power(Arc<AtomicI64>);

impl Power {
    fn new() -> Self {
        Self::of(NEVER)
    }

    fn of(left: i64) -> Self {
        Self(Arc::new(left.into()))
    }

    fn is_out(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }
}

/// A member whose power is cut after some writes and flushes of its site, in the midst of a write.
struct Cut {
    device: Arc<MemoryDevice>,
    power: Power,
}

impl Cut {
    /// Returns true if the power lasts, and an error if it was out before.
    fn lasts(&self) -> Result<bool> {
        match self.power.0.fetch_sub(1, Ordering::Relaxed) {
            1.. => Ok(true),
            0 => Ok(false),
            _ => Err(out()),
        }
    }
}

fn out() -> Error {
    Error::io("cut", "all", std::io::ErrorKind::Other.into())
}

impl Device for Cut {
    fn info(&self) -> &Info {
        self.device.info()
    }
    fn submit(&self, mut request: Request) -> Result<Ticket> {
        if request.op == Op::Write && !self.lasts()? {
            request.buf = AlignedBuf::from(&request.buf[..512]);
            let ticket = self.device.submit(request)?;
            self.device.wait(ticket)?;
            return Err(out());
        }
        self.device.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.device.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        if self.lasts()? { self.device.flush() } else { Err(out()) }
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.device.discard(offset, len)
    }
}

/// The devices of a site, and what they have.
struct Site {
    devices: Vec<Arc<MemoryDevice>>,
    /// The openings that they were part of.
    opened: BTreeSet<u32>,
    /// The files that were acknowledged then.
    files: BTreeSet<u32>,
    /// False while not all of them have the same state.
    is_whole: bool,
}

impl Site {
    fn copy(&self) -> Self {
        let Self { devices, opened, files, is_whole } = self;
        let devices = devices.iter().map(|device| Arc::new(device.branch())).collect();
        Self { devices, opened: opened.clone(), files: files.clone(), is_whole: *is_whole }
    }

    fn labels(&self) -> Vec<Option<Label>> {
        self.devices.iter().map(|device| read_label(&**device).ok().flatten()).collect()
    }

    /// Returns true if all its devices have a settled label of the opening of `now`.
    fn is_of(&self, now: &Label) -> bool {
        let opening = now.history.opening;
        let first = now.history.former.iter().find(|former| Some(former.next) == opening);
        let has = |label: &Label| {
            label.history.opening == opening
                && first.is_none_or(|former| label.settled > former.last)
                && !label.is_useless(label.member_id)
        };
        self.labels().iter().all(|label| label.as_ref().is_some_and(has))
    }

    /// Returns true if all its devices have one state, and none says that it is lost.
    fn is_usable(&self) -> bool {
        let is_lost = |label: &Label| label.is_useless(label.member_id);
        self.is_whole && !self.labels().iter().flatten().any(is_lost)
    }
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(9))
}

/// Makes a set of so many sites.
fn new_sites(count: usize, rng: &mut StdRng) -> Vec<Site> {
    let member = |role: Role| Member {
        device: Arc::new(MemoryDevice::new(SIZE)),
        areas: vec![NewArea { part: Some(0), ..NewArea::of(role) }],
    };
    let members: Vec<_> = (0..count).flat_map(|_| ROLES.map(member)).collect();
    let mut wishes = Wishes::new();
    wishes.parameters.cylinder_bytes = 64 << 10;
    make(&members, &wishes, &*clock(), rng).unwrap();
    let copy = |member: &Member| {
        let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
        member.device.read_at(0, &mut bytes).unwrap();
        Arc::new(MemoryDevice::from_bytes(&bytes))
    };
    let site = |members: &[Member]| Site {
        devices: members.iter().map(copy).collect(),
        opened: BTreeSet::new(),
        files: BTreeSet::new(),
        is_whole: true,
    };
    members.chunks(ROLES.len()).map(site).collect()
}

/// Creates a file and makes it durable. Returns true if that is acknowledged.
fn acknowledge(fs: &Mfs, number: u32) -> bool {
    let node = NewNode::new(FileKind::Regular, 0o644);
    let Ok(attr) = fs.create(fs.root(), name(number).as_bytes(), &node, BY) else { return false };
    let written = fs.write(attr.ino, 0, &number.to_le_bytes().repeat(300), BY);
    fs.forget(attr.ino, 1);
    written.is_ok() && fs.sync().is_ok()
}

fn name(number: u32) -> String {
    format!("file {number}")
}

fn assert_has(fs: &Mfs, files: &BTreeSet<u32>, what: &str) {
    for number in files {
        let attr = fs.lookup(fs.root(), name(*number).as_bytes());
        let attr = attr.unwrap_or_else(|error| panic!("file {number}: {error}, {what}"));
        let mut bytes = vec![0; 2000];
        assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), 1200, "file {number}, {what}");
        assert!(bytes[..1200] == number.to_le_bytes().repeat(300), "file {number}, {what}");
        fs.forget(attr.ino, 1);
    }
}

/// What happens to the sites.
struct Case {
    name: String,
    sites: Vec<Site>,
    /// The number of the next opening or file.
    next: u32,
    steps: Vec<String>,
    /// How often sites were refused that had to be, and opened that had different states.
    refused: u32,
    joined: u32,
}

/// A session in which sites are used.
struct Session<'a> {
    set: &'a Set,
    powers: &'a [Power],
    /// The opening, and what comes after some have lost their power.
    openings: [u32; 2],
    /// Acknowledged files, each with the sites that had power then.
    files: Vec<(u32, Vec<bool>)>,
}

impl Case {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn what(&self) -> String {
        format!("{}: {:#?}", self.name, self.steps)
    }

    fn step(&mut self, text: String) {
        self.steps.push(text);
    }

    /// Returns the devices of a site.
    fn devices(&self, n: usize, power: &Power) -> Vec<Arc<dyn Device>> {
        let cut = |device: &Arc<MemoryDevice>| {
            Arc::new(Cut { device: device.clone(), power: power.clone() }) as Arc<dyn Device>
        };
        self.sites[n].devices.iter().map(cut).collect()
    }

    /// Puts some sites together: they must be refused if two have files that the other has not, and
    /// must not if one has been part of everything. Returns the set, and that site.
    fn put_together(&mut self, chosen: &[usize], powers: &[Power]) -> Option<(Set, usize)> {
        let site = |n: usize| &self.sites[n];
        let lacks = |a: &BTreeSet<u32>, b: &BTreeSet<u32>| !a.is_subset(b);
        let whole: Vec<usize> = chosen.iter().copied().filter(|&n| site(n).is_usable()).collect();
        let must_refuse = whole.iter().any(|&a| {
            let own = &site(a).files;
            whole.iter().map(|&b| &site(b).files).any(|other| lacks(own, other) && lacks(other, own))
        });
        let has_all = |n: &&usize| whole.iter().all(|&other| !lacks(&site(other).opened, &site(**n).opened));
        let newest = whole.iter().find(has_all).copied();
        let differ = whole.iter().any(|&n| site(n).opened != site(whole[0]).opened);
        let are_all_whole = whole.len() == chosen.len();
        let devices: Vec<_> = chosen.iter().flat_map(|&n| self.devices(n, &powers[n])).collect();
        let opened = Set::open(&devices);
        self.step(format!(
            "{chosen:?}: {}",
            opened.as_ref().map_or_else(ToString::to_string, |_| "opened".into())
        ));
        match opened {
            Ok(set) => {
                assert!(!must_refuse, "not refused, {}", self.what());
                self.joined += u32::from(differ);
                // What half a site is part of is not followed any further.
                newest.filter(|_| chosen.iter().all(|&n| self.sites[n].is_whole)).map(|newest| (set, newest))
            }
            Err(error) => {
                let is_apart = error.to_string().contains("used apart from each other");
                let has_forgotten =
                    |&n: &usize| self.sites[n].labels().iter().flatten().any(|label| label.history.forgotten);
                let may_refuse = is_apart && (newest.is_none() || chosen.iter().any(has_forgotten));
                assert!(may_refuse || !are_all_whole, "{error}, {}", self.what());
                self.refused += u32::from(must_refuse);
                None
            }
        }
    }

    /// Uses some sites together.
    fn use_together(&mut self, chosen: &[usize], rng: &mut StdRng) {
        let mut powers: Vec<Power> = self.sites.iter().map(|_| Power::new()).collect();
        let Some((set, newest)) = self.put_together(chosen, &powers) else { return };
        drop(set);
        let left = rng.random_range(0..120);
        // All lose their power at the same time, or one of them.
        match rng.random_range(0..6) {
            0 => powers.fill(Power::of(left)),
            1 => powers[*chosen.choose(rng).unwrap()] = Power::of(left),
            _ => {}
        }
        let devices: Vec<_> = chosen.iter().flat_map(|&n| self.devices(n, &powers[n])).collect();
        let set = Set::open(&devices).unwrap();
        let read_only = rng.random_bool(0.2);
        let fs = Mfs::open(&set, clock(), &OpenOptions { read_only, ..OpenOptions::default() });
        let openings = [self.number(), self.number()];
        let mut session = Session { set: &set, powers: &powers, openings, files: Vec::new() };
        match fs {
            Err(error) => {
                assert!(powers.iter().any(Power::is_out), "{error}, {}", self.what());
                self.step(format!("  {error}"));
            }
            Ok(fs) => {
                if fs.read_only() && !read_only {
                    // The power went while the log counted as lost.
                    let reasons = format!("{:?}", fs.read_only_reasons());
                    assert!(reasons.contains("log storage is lost"), "{reasons}, {}", self.what());
                    return;
                }
                assert_has(&fs, &self.sites[newest].files, &self.what());
                for _ in 0..if read_only { 0 } else { rng.random_range(0..3) } {
                    let number = self.number();
                    if acknowledge(&fs, number) {
                        let lasts = powers.iter().map(|power| !power.is_out()).collect();
                        self.step(format!("  file {number}, power {lasts:?}"));
                        session.files.push((number, lasts));
                    }
                }
                if rng.random_bool(0.7) {
                    let ended = fs.unmount();
                    self.step(format!("  {ended:?}"));
                }
            }
        }
        if !read_only {
            self.end(chosen, newest, &session);
        }
    }

    /// Notes what each site has after a session.
    fn end(&mut self, chosen: &[usize], newest: usize, session: &Session<'_>) {
        let (now, before) = (session.set.label_now(), self.sites[newest].copy());
        let all_at_once = session.powers.iter().all(Power::is_out);
        let goes_along = |n: &&usize| {
            let site = &self.sites[**n];
            site.opened == before.opened && site.is_usable()
        };
        // An opening that has not become known to all has acknowledged nothing; but those that know
        // it cannot know that.
        if all_at_once && !chosen.iter().filter(goes_along).all(|&n| self.sites[n].is_of(&now)) {
            assert!(session.files.is_empty(), "{}", self.what());
            for &n in chosen {
                let site = &mut self.sites[n];
                if site.is_of(&now) {
                    site.opened.insert(session.openings[0]);
                }
            }
            return;
        }
        for &n in chosen {
            if !self.sites[n].is_of(&now) {
                continue;
            }
            let [first, second] = session.openings;
            let has_power = all_at_once || !session.powers[n].is_out();
            let site = &mut self.sites[n];
            (site.opened, site.files) = (before.opened.clone(), before.files.clone());
            site.opened.insert(first);
            if has_power {
                site.opened.insert(second);
            }
            let has = |lasts: &[bool]| lasts[n] || all_at_once;
            site.files
                .extend(session.files.iter().filter(|(_, lasts)| has(lasts)).map(|(number, _)| *number));
            self.steps.push(format!("  site {n} has it, power {has_power}"));
        }
    }

    /// Makes the devices of a site new copies of what others have.
    fn adopt(&mut self, chosen: &[usize], new: usize, rng: &mut StdRng) {
        let mut powers: Vec<Power> = self.sites.iter().map(|_| Power::new()).collect();
        let Some((set, newest)) = self.put_together(chosen, &powers) else { return };
        drop(set);
        if rng.random_bool(0.3) {
            powers.fill(Power::of(rng.random_range(0..120)));
        }
        let devices: Vec<_> = chosen.iter().flat_map(|&n| self.devices(n, &powers[n])).collect();
        let set = Set::open(&devices).unwrap();
        let old: Vec<_> =
            self.sites[new].labels().into_iter().flatten().map(|label| label.member_id).collect();
        let is_current = old.iter().any(|id| !set.label.is_useless(*id));
        if is_current || set.needs_replay().unwrap() {
            return;
        }
        self.step(format!("  site {new} is made anew from {chosen:?}"));
        let adopted = set.begin_change(clock().now()).and_then(|()| {
            for id in old.into_iter().filter(|id| set.label.members().contains(id)) {
                set.remove(id)?;
            }
            let devices = self.devices(new, &powers[new]);
            for (device, role) in devices.iter().zip(ROLES) {
                set.add(role, 0, device, rng.random(), &mut |_| Ok(()))?;
            }
            Ok(())
        });
        self.step(format!("  {adopted:?}"));
        assert!(adopted.is_ok() || powers[0].is_out(), "{adopted:?}, {}", self.what());
        let openings = [self.number(), self.number()];
        let session = Session { set: &set, powers: &powers, openings, files: Vec::new() };
        self.sites[new].is_whole = adopted.is_ok();
        let mut all = chosen.to_vec();
        all.extend(adopted.is_ok().then_some(new));
        self.end(&all, newest, &session);
        let site = &self.sites[new];
        assert!(!site.is_whole || site.is_of(&set.label_now()), "{}", self.what());
    }
}

/// Promise: sites that were used apart are refused when they are put together if each has
/// acknowledged something that the other lacks, and never if only one was used or the other only
/// read: after any number of openings, power cuts at any moment, copies that were replaced, and
/// devices that were brought back from a copy. What was acknowledged is there.
#[test]
fn torture_sites_that_are_used_apart() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test apart torture_");
    let (mut refused, mut joined) = (0, 0);
    for case in 0..cases(40) {
        let seed = seed.wrapping_add(case);
        let mut rng = StdRng::seed_from_u64(seed);
        let count = rng.random_range(2..4);
        let sites = new_sites(count, &mut rng);
        // Copies of sites. Labels do not know enough of one that is brought back and used if others
        // are made anew, too.
        let mut kept: Vec<(usize, Site)> = Vec::new();
        let brings_back = rng.random_bool(0.5);
        let name = format!("seed {seed}");
        let mut case = Case { name, sites, next: 0, steps: Vec::new(), refused: 0, joined: 0 };
        for _ in 0..40 {
            let mut chosen: Vec<usize> = (0..count).filter(|_| rng.random_bool(0.6)).collect();
            if chosen.is_empty() {
                chosen = vec![rng.random_range(0..count)];
            }
            let other = (0..count).find(|n| !chosen.contains(n));
            match rng.random_range(0..16) {
                0 if brings_back => kept.push((chosen[0], case.sites[chosen[0]].copy())),
                1 if brings_back => {
                    if let Some((n, site)) = kept.choose(&mut rng) {
                        case.step(format!("site {n} is what it was with {:?}", site.files));
                        case.sites[*n] = site.copy();
                    }
                }
                0..4 if !brings_back => {
                    if let Some(new) = other {
                        case.adopt(&chosen, new, &mut rng);
                    }
                }
                _ => case.use_together(&chosen, &mut rng),
            }
        }
        (refused, joined) = (refused + case.refused, joined + case.joined);
    }
    println!("{refused} times refused, {joined} times joined");
    assert!(refused > 20 && joined > 20, "{refused} times refused, {joined} times joined");
}
