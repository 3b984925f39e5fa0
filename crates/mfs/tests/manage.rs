//! Changing the members of a set: replacing, adding and removing them, and comparing copies.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{ManualClock, Timestamp};
use spindle_conformance::random::seed;
use spindle_device::{Device, Error, MemoryDevice};
use spindle_mfs::check::{check, repair};
use spindle_mfs::newfs::{Member, NewArea, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Progress, Role, Set, read_label};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use support::{Failing, NEVER, cases};

const BY: Privilege = Privilege::Root;
/// The members, with their areas. The last one has two.
const ROLES: [&[(Role, u32)]; 6] = [
    &[(Role::Control, 0)],
    &[(Role::Control, 0)],
    &[(Role::Data, 0)],
    &[(Role::Data, 0)],
    &[(Role::Data, 1)],
    &[(Role::Log, 0), (Role::Control, 0)],
];
const SIZE: u64 = 6 << 20;

type Members = Vec<Arc<Failing>>;

fn failing(device: MemoryDevice) -> Arc<Failing> {
    Arc::new(Failing::new(device, NEVER))
}

fn devices(members: &[Arc<Failing>]) -> Vec<Arc<dyn Device>> {
    members.iter().map(|member| member.clone() as Arc<dyn Device>).collect()
}

fn mount(members: &[Arc<Failing>]) -> Mfs {
    let set = Set::open(&devices(members)).unwrap();
    Mfs::open(&set, Arc::new(ManualClock::at(9)), &OpenOptions::default()).unwrap()
}

/// Returns a set with files.
fn new_set() -> Members {
    new_set_of(&ROLES)
}

fn new_set_of(roles: &[&[(Role, u32)]]) -> Members {
    let members: Members = roles.iter().map(|_| failing(MemoryDevice::new(SIZE))).collect();
    let member = |(device, areas): (&Arc<Failing>, &&[(Role, u32)])| Member {
        device: device.clone(),
        areas: areas.iter().map(|&(role, part)| NewArea { part: Some(part), ..NewArea::of(role) }).collect(),
    };
    let new: Vec<_> = members.iter().zip(roles).map(member).collect();
    make(&new, &Wishes::new(), &ManualClock::at(1), &mut StdRng::seed_from_u64(8)).unwrap();
    let fs = mount(&members);
    for n in 0..30 {
        let node = NewNode::new(FileKind::Regular, 0o644);
        let attr = fs.create(fs.root(), format!("{n}").as_bytes(), &node, BY).unwrap();
        fs.write(attr.ino, 0, &vec![n; 30_000], BY).unwrap();
        fs.forget(attr.ino, 1);
    }
    fs.unmount().unwrap();
    members
}

/// Checks that the members are a whole set with the files of [`new_set`].
fn assert_whole(members: &[Arc<Failing>], what: &str) {
    let fs = mount(members);
    assert!(!fs.read_only(), "{what}: {:?}", fs.read_only_reasons());
    for n in 0..30 {
        let attr = fs.lookup(fs.root(), format!("{n}").as_bytes()).unwrap();
        let mut bytes = vec![0; 30_000];
        assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
        assert!(bytes == vec![n; 30_000], "{what}: {n}");
        fs.forget(attr.ino, 1);
    }
    fs.unmount().unwrap();
    let report = check(&Set::open(&devices(members)).unwrap(), 100, &mut |_| ()).unwrap();
    let findings: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{what}: {findings:#?}");
}

/// Opens the set to change its members.
fn begin(members: &[Arc<Failing>]) -> spindle_vfs::Result<Set> {
    let set = Set::open(&devices(members))?;
    set.begin_change(Timestamp::new(20, 0))?;
    Ok(set)
}

fn member_id(member: &Arc<Failing>) -> [u8; 16] {
    read_label(&**member).unwrap().unwrap().member_id
}

fn is_member(member: &Arc<Failing>) -> bool {
    spindle_mfs::is_member(&**member).unwrap()
}

fn new_device() -> (Arc<Failing>, Arc<dyn Device>) {
    let device = failing(MemoryDevice::new(SIZE + 8192));
    (device.clone(), device)
}

/// Promise: each member can be replaced, whether it is there or not if there are other copies; the
/// old one is not needed afterwards, and no member of the set.
#[test]
fn members_are_replaced() {
    for n in 0..ROLES.len() {
        for there in [true, false] {
            let what = format!("member {n}, there: {there}");
            let mut members = new_set();
            let old = members.remove(n);
            let id = member_id(&old);
            if there {
                members.push(old.clone());
            }
            let (new, device) = new_device();
            let Ok(set) = begin(&members) else {
                assert!([4, 5].contains(&n) && !there, "{what}");
                continue;
            };
            let (mut last, mut total) = (0, 0);
            let replaced = set.replace(id, &device, [7; 16], &mut |progress: Progress| {
                assert!(progress.done > last && progress.done <= progress.total);
                (last, total) = (progress.done, progress.total);
                Ok(())
            });
            replaced.unwrap();
            assert_eq!(last, total);
            drop(set);
            if there {
                assert!(!is_member(&members.pop().unwrap()), "{what}");
            }
            members.push(new);
            assert_whole(&members, &what);
            assert!(Set::open(&devices(&members)).unwrap().label.areas.iter().all(|area| !area.lost));
        }
    }
}

/// Promise: a copy can be added and another removed, also the smaller one of two; the last copy of
/// something cannot be removed.
#[test]
fn copies_are_added_and_removed() {
    let mut members = new_set();
    let set = begin(&members).unwrap();
    for n in [4, 5] {
        assert!(set.remove(member_id(&members[n])).is_err());
    }
    for (role, part) in [(Role::Control, 0), (Role::Data, 1), (Role::Log, 0)] {
        let (new, device) = new_device();
        let id = [u8::try_from(members.len()).unwrap(); 16];
        set.add(role, part, &device, id, &mut |_| Ok(())).unwrap();
        members.push(new);
    }
    drop(set);
    assert_whole(&members, "with more copies");
    for n in [5, 4, 2, 0] {
        let set = begin(&members).unwrap();
        set.remove(member_id(&members[n])).unwrap();
        drop(set);
        assert!(!is_member(&members.remove(n)));
        assert_whole(&members, &format!("without member {n}"));
    }
    // The copies are equal: each of the two of data storage 0 and 1 that are left works alone.
    let label = Set::open(&devices(&members)).unwrap().label;
    assert_eq!(label.parts(Role::Control)[0].len(), 2);
    assert_eq!(label.parts(Role::Data).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(label.parts(Role::Log)[0].len(), 1);
}

/// Promise: a device that has a part of the set, or is too small, is refused, and nothing changes.
#[test]
fn unsuitable_devices_are_refused() {
    let members = new_set();
    let before: Vec<_> = members.iter().map(|member| member.device.to_bytes()).collect();
    let set = Set::open(&devices(&members)).unwrap();
    let id = member_id(&members[0]);
    let small = failing(MemoryDevice::new(SIZE / 2));
    for device in [small, members[1].clone(), members[0].clone(), members[4].clone()] {
        let device: Arc<dyn Device> = device;
        assert!(set.replace(id, &device, [7; 16], &mut |_| Ok(())).is_err());
        assert!(set.add(Role::Control, 0, &device, [7; 16], &mut |_| Ok(())).is_err());
    }
    assert!(set.add(Role::Data, 2, &new_device().1, [7; 16], &mut |_| Ok(())).is_err());
    drop(set);
    assert!(before == members.iter().map(|member| member.device.to_bytes()).collect::<Vec<_>>());
    assert_whole(&members, "after refusals");
}

/// Promise: an interrupted change leaves a set that works, with and without the new member, and can
/// be taken up again; it goes on where it stopped, unless the set was used in between.
#[test]
fn an_interrupted_change_goes_on() {
    for (used, with_it) in [(false, false), (true, false), (true, true)] {
        let members = new_set();
        let id = member_id(&members[2]);
        let (new, device) = new_device();
        let set = begin(&members).unwrap();
        let half = |progress: Progress| {
            let enough = std::io::Error::from(std::io::ErrorKind::Interrupted);
            let stop = progress.done > progress.total / 4;
            if stop { Err(Error::io("test", "stopping", enough)) } else { Ok(()) }
        };
        assert!(set.replace(id, &device, [7; 16], &mut { half }).is_err());
        drop(set);
        let mut all = members.clone();
        all.push(new.clone());
        if used && !with_it {
            assert_whole(&members, "without the new member");
        }
        if used {
            assert_whole(&all, "with the new member");
        }
        let set = begin(&all).unwrap();
        let mut first = None;
        let mut report = |progress: Progress| {
            first.get_or_insert(progress.done);
            Ok(())
        };
        set.replace(id, &device, [9; 16], &mut report).unwrap();
        drop(set);
        assert_eq!(first.unwrap() > 1 << 20, !used, "{first:?}");
        all.remove(2);
        assert_whole(&all, "after it went on");
    }
}

/// Promise: a copy that a replacement has begun stays at its place when an addition finishes it,
/// and what the label says is there is there.
#[test]
fn an_addition_finishes_a_replacement_at_its_place() {
    let members = new_set();
    let id = member_id(&members[5]);
    let enough = || Err(Error::io("test", "stopping", std::io::ErrorKind::Interrupted.into()));
    let ((log, first), (new, second)) = (new_device(), new_device());
    let set = begin(&members).unwrap();
    let log_bytes = set.label_now().part_bytes(Role::Log)[0];
    let mut log_only = |progress: Progress| if progress.done > 2 * log_bytes { enough() } else { Ok(()) };
    assert!(set.replace(id, &first, [6; 16], &mut log_only).is_err());
    assert!(set.replace(id, &second, [7; 16], &mut |_| enough()).is_err());
    drop(set);
    let all = [&members[..], &[log.clone(), new.clone()]].concat();
    let set = begin(&all).unwrap();
    set.add(Role::Control, 0, &second, [8; 16], &mut |_| Ok(())).unwrap();
    set.remove(id).unwrap();
    for n in [0, 1] {
        set.remove(member_id(&members[n])).unwrap();
    }
    drop(set);
    let left = [&members[2..5], &[log, new]].concat();
    let set = begin(&left).unwrap();
    let scrubbed = set.scrub(&mut |_| Ok(())).unwrap();
    assert_eq!((scrubbed.differed, scrubbed.unreadable), (0, 0));
    drop(set);
    assert_whole(&left, "with the new copy");
}

/// Promise: whatever member fails at whatever moment of a change, the set has all its files with
/// the members that are left, before and after the other one comes back; also if it is mounted, and
/// files are written meanwhile.
#[test]
fn torture_failures_while_members_change() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test manage torture_failures");
    let set = new_set();
    for case in 0..cases(30) {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_add(case));
        let mut members: Members = set.iter().map(|member| failing(member.device.branch())).collect();
        let (new, device) = new_device();
        members.push(new);
        let dying = rng.random_range(0..members.len());
        members[dying].left.store(rng.random_range(1..60), Ordering::Relaxed);
        // A single copy of data or log storage is not the one that is replaced.
        let old = [0, 1, 2, 3][rng.random_range(0..4)];
        let what = format!("seed {}, member {dying} dies, {old} is replaced", seed.wrapping_add(case));
        let Ok(opened) = Set::open(&devices(&members[..6])) else { continue };
        let mut mounted = None;
        let begun = if rng.random_range(0..2) == 0 {
            Mfs::open(&opened, Arc::new(ManualClock::at(9)), &OpenOptions::default())
                .map(|fs| mounted = Some(fs))
        } else {
            opened.begin_change(Timestamp::new(20, 0))
        };
        let id = opened.label.members()[old];
        let change = rng.random_range(0..3);
        let mut durable = 0;
        let mut work = |_| {
            if let Some(fs) = &mounted {
                durable = write_files(fs, durable, &mut rng);
            }
            Ok(())
        };
        let _ = begun.and_then(|()| match change {
            0 => opened.replace(id, &device, [7; 16], &mut work),
            1 => opened.add(Role::Data, 0, &device, [7; 16], &mut work),
            _ => opened.remove(id),
        });
        if let Some(fs) = mounted {
            durable = write_files(&fs, durable, &mut rng);
            let _ = fs.unmount();
        }
        drop(opened);
        let present = |members: &[Arc<Failing>]| -> Members {
            members.iter().filter(|member| is_member(member)).cloned().collect()
        };
        // The same holds for the one that is left when its other copy was removed.
        let only = [4, 5].contains(&dying) || change == 2 && [(2, 3), (3, 2)].contains(&(old, dying));
        if !only {
            let left: Vec<_> = [&members[..dying], &members[dying + 1..]].concat();
            assert_whole(&present(&left), &format!("{what}, without it"));
            assert_written(&present(&left), durable, &what);
        }
        members[dying].left.store(NEVER, Ordering::Relaxed);
        let members = with_log(present(&members));
        assert_whole(&members, &what);
        assert_written(&members, durable, &what);
    }
}

/// Gives log storage that is lost to a new device, and repairs the set if it was in use meanwhile.
fn with_log(mut members: Members) -> Members {
    let label = Set::open(&devices(&members)).unwrap().label;
    if label.log_is_lost() {
        let old = label.parts(Role::Log)[0][0].member_id;
        let (new, device) = new_device();
        let set = begin(&members).unwrap();
        set.replace(old, &device, [5; 16], &mut |_| Ok(())).unwrap();
        drop(set);
        members.push(new);
        members.retain(is_member);
        let set = Set::open(&devices(&members)).unwrap();
        // What had no log may have ended in the midst of a write.
        assert!(!label.unlogged || set.label.unequal);
        repair(&set, &ManualClock::at(30), false, 100, &mut |_| ()).unwrap();
    }
    members
}

/// Writes some files, the next of which is `first`, and makes them durable. Returns the number of
/// files that are.
fn write_files(fs: &Mfs, first: u32, rng: &mut StdRng) -> u32 {
    let last = first + rng.random_range(1..5);
    for n in first..last {
        let node = NewNode::new(FileKind::Regular, 0o644);
        let Ok(attr) = fs.create(fs.root(), format!("new {n}").as_bytes(), &node, BY) else { return first };
        let written = fs.write(attr.ino, 0, &n.to_le_bytes().repeat(5000), BY);
        fs.forget(attr.ino, 1);
        if written.is_err() {
            return first;
        }
    }
    if fs.sync().is_ok() { last } else { first }
}

/// Checks that the files of [`write_files`] are there.
fn assert_written(members: &[Arc<Failing>], durable: u32, what: &str) {
    let fs = mount(members);
    for n in 0..durable {
        let attr = fs.lookup(fs.root(), format!("new {n}").as_bytes());
        let attr = attr.unwrap_or_else(|error| panic!("{what}: new file {n} of {durable}: {error}"));
        let mut bytes = vec![0; 20_001];
        assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), 20_000);
        assert!(bytes[..20_000] == n.to_le_bytes().repeat(5000), "{what}: new file {n} of {durable}");
        fs.forget(attr.ino, 1);
    }
    fs.unmount().unwrap();
}

/// Promise: when the last copy that is left fails while the other one is removed from a mounted
/// set, one of them stays in use, and nothing durable is lost.
#[test]
fn a_removal_that_fails_is_taken_back() {
    for left in 1..24 {
        let members = new_set();
        let set = Set::open(&devices(&members)).unwrap();
        let fs = Mfs::open(&set, Arc::new(ManualClock::at(9)), &OpenOptions::default()).unwrap();
        members[2].left.store(left, Ordering::Relaxed);
        let _ = set.remove(member_id(&members[3]));
        let durable = write_files(&fs, 0, &mut StdRng::seed_from_u64(3));
        let _ = fs.unmount();
        drop((fs, set));
        members[2].left.store(NEVER, Ordering::Relaxed);
        let members: Members = members.into_iter().filter(is_member).collect();
        let what = format!("{left} writes to the member that fails");
        assert_whole(&members, &what);
        assert_written(&members, durable, &what);
    }
}

/// Promise: log storage that is lost while the set is mounted costs nothing that was made durable,
/// also if the set is not unmounted after that: then it is damaged until a repair. What is left can
/// be compared.
#[test]
fn a_set_goes_on_without_its_log() {
    for unmounted in [true, false] {
        let what = format!("unmounted: {unmounted}");
        let mut roles = ROLES;
        roles[5] = &[(Role::Log, 0)];
        let members = new_set_of(&roles);
        let set = Set::open(&devices(&members)).unwrap();
        let fs = Mfs::open(&set, Arc::new(ManualClock::at(9)), &OpenOptions::default()).unwrap();
        let mut rng = StdRng::seed_from_u64(3);
        let mut durable = write_files(&fs, 0, &mut rng);
        members[5].left.store(0, Ordering::Relaxed);
        for _ in 0..5 {
            let more = write_files(&fs, durable, &mut rng);
            assert!(more > durable, "{what}");
            durable = more;
        }
        let scrubbed = set.scrub(&mut |_| Ok(())).unwrap();
        assert_eq!((scrubbed.differed, scrubbed.unreadable, scrubbed.undecided), (0, 0, 0), "{what}");
        if unmounted {
            fs.unmount().unwrap();
        } else {
            // The next change is under way, and in part in its place, when power is cut.
            write_files(&fs, durable, &mut rng);
        }
        drop((fs, set));
        let left: Members = members[..5].iter().map(|member| failing(member.device.branch())).collect();
        let fs = mount(&left);
        assert!(fs.read_only(), "{what}");
        let reasons = format!("{:?}", fs.read_only_reasons());
        assert!(reasons.contains("log storage is lost"), "{what}: {reasons}");
        drop(fs);
        assert_eq!(Set::open(&devices(&left)).unwrap().label.unlogged, !unmounted);
        let set = Set::open(&devices(&left)).unwrap();
        assert_eq!(check(&set, 9, &mut |_| ()).unwrap().marked_clean, unmounted);
        let whole = with_log(left);
        assert_whole(&whole, &what);
        assert_written(&whole, durable, &what);
    }
}

/// Promise: a set whose log storage is missing is given up as it is only on request, and counts as
/// damaged then; log storage that is there is not given up.
#[test]
fn a_missing_log_is_given_up_on_request() {
    let members = new_set();
    let fs = mount(&members);
    let durable = write_files(&fs, 0, &mut StdRng::seed_from_u64(3));
    drop(fs);
    assert!(durable > 0);
    assert!(Set::open_without_log(&devices(&members)).is_err());
    let mut left = members[..5].to_vec();
    assert!(Set::open(&devices(&left)).is_err());
    let set = Set::open_without_log(&devices(&left)).unwrap();
    set.begin_change(Timestamp::new(20, 0)).unwrap();
    let (new, device) = new_device();
    set.replace(member_id(&members[5]), &device, [7; 16], &mut |_| Ok(())).unwrap();
    drop(set);
    left.push(new);
    let fs = mount(&left);
    assert!(format!("{:?}", fs.read_only_reasons()).contains("damaged"));
    drop(fs);
    let set = Set::open(&devices(&left)).unwrap();
    repair(&set, &ManualClock::at(30), false, 100, &mut |_| ()).unwrap();
    drop(set);
    assert_whole(&left, "after the repair");
    // The old log comes back: it is out of date.
    left.push(members[5].clone());
    assert_whole(&left, "with the old log");
}

/// Promise: a device that gets log storage that was lost has the label of the set before anything
/// else, so that it is known again after an interruption at any moment; the same replacement goes
/// on then.
#[test]
fn an_interrupted_renewal_of_the_log_goes_on() {
    let members = new_set();
    let old = member_id(&members[5]);
    let mut ended = false;
    for writes in 0.. {
        let mut left: Members = members[..5].iter().map(|member| failing(member.device.branch())).collect();
        let (new, device) = new_device();
        new.left.store(writes, Ordering::Relaxed);
        let set = Set::open_without_log(&devices(&left)).unwrap();
        set.begin_change(Timestamp::new(20, 0)).unwrap();
        let replaced = set.replace(old, &device, [7; 16], &mut |_| Ok(()));
        drop(set);
        new.left.store(NEVER, Ordering::Relaxed);
        let is_blank = new.device.to_bytes().iter().all(|&byte| byte == 0);
        assert!(is_blank || is_member(&new), "after {writes} writes");
        if is_member(&new) {
            left.push(new.clone());
        }
        let label = Set::open(&devices(&left)).unwrap().label;
        if label.members().contains(&old) {
            let set = begin(&left).unwrap();
            set.replace(old, &device, [9; 16], &mut |_| Ok(())).unwrap();
        }
        let set = Set::open(&devices(&[&left[..5], std::slice::from_ref(&new)].concat())).unwrap();
        assert!(
            !set.label.log_is_lost() && set.label.parts(Role::Log)[0].len() == 1,
            "after {writes} writes"
        );
        ended = replaced.is_ok() && !new.refused.load(Ordering::Relaxed);
        if ended {
            break;
        }
    }
    assert!(ended);
}

/// Promise: a scrub finds what differs between copies, and mends it; a set without copies is read
/// as a whole.
#[test]
fn a_scrub_mends_copies() {
    let members = new_set();
    let at = (64 << 10) + (1 << 20);
    members[1].device.write_at(at, &[0xaa; 512]).unwrap();
    members[3].device.write_at(at, &[0xbb; 512]).unwrap();
    let set = begin(&members).unwrap();
    let (mut last, mut total) = (0, 0);
    let mut report = |progress: Progress| {
        (last, total) = (progress.done, progress.total);
        Ok(())
    };
    let found = set.scrub(&mut report).unwrap();
    assert_eq!((found.differed, found.unreadable), (2, 0));
    assert_eq!(last, total);
    assert_eq!(set.scrub(&mut |_| Ok(())).unwrap().differed, 0);
    drop(set);
    assert_whole(&members, "after the scrub");
    for gone in [0, 2] {
        let mut left = members.clone();
        left.remove(gone);
        let left: Members = left.iter().map(|member| failing(member.device.branch())).collect();
        assert_whole(&left, "with the copy that was mended");
    }
}

/// Promise: a member that somebody has written over while the set is mounted, with zeros or with
/// the label of another member, is no source of anything from the next change of the set on: a
/// scrub, a replacement and a new copy take everything from the other copy, which cannot be left
/// out, and the set is whole without it. Its label does not come back with a later change.
#[test]
fn a_member_that_was_written_over_is_no_source() {
    for foreign in [false, true] {
        for change in 0..5 {
            let what = format!("foreign {foreign}, change {change}");
            let mut members = new_set();
            let (old, good) = (member_id(&members[2]), member_id(&members[3]));
            let set = Set::open(&devices(&members)).unwrap();
            let fs = Mfs::open(&set, Arc::new(ManualClock::at(9)), &OpenOptions::default()).unwrap();
            let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
            if foreign {
                members[0].read_at(0, &mut bytes).unwrap();
            }
            members[2].write_at(0, &bytes).unwrap();
            let (new, device) = new_device();
            let mut report = |_| Ok(());
            match change {
                0 => assert_eq!(set.scrub(&mut report).unwrap().undecided, 0, "{what}"),
                1 => set.replace(old, &device, [7; 16], &mut report).unwrap(),
                2 => set.add(Role::Data, 0, &device, [7; 16], &mut report).unwrap(),
                3 => set.remove(good).unwrap_err().to_string().contains("only copy").then_some(()).unwrap(),
                // A change that another loss brings about.
                _ => set.remove(member_id(&members[1])).unwrap(),
            }
            fs.unmount().unwrap();
            drop((fs, set));
            assert_ne!(
                read_label(&*members[2]).ok().flatten().map(|label| label.member_id),
                Some(old),
                "{what}"
            );
            members.remove(2);
            if (1..3).contains(&change) {
                members.push(new);
            }
            if change == 4 {
                members.remove(1);
            }
            assert_whole(&members, &what);
        }
    }
}

/// Promise: from when a mount learns that somebody has written over a member, by a look at the
/// labels or by a change of them that the loss of another member brings about, it reads nothing
/// from it, and the loss is recorded; a mount that only reads records nothing.
#[test]
fn a_member_that_was_written_over_is_not_read() {
    for case in ["look", "read-only", "another loss"] {
        let members = new_set();
        let old = member_id(&members[2]);
        let set = Set::open(&devices(&members)).unwrap();
        let read_only = case == "read-only";
        let options = OpenOptions { read_only, ..OpenOptions::default() };
        let fs = Mfs::open(&set, Arc::new(ManualClock::at(9)), &options).unwrap();
        members[2].write_at(0, &vec![0; usize::try_from(SIZE).unwrap()]).unwrap();
        let before: Vec<_> = members.iter().map(|member| member.device.to_bytes()).collect();
        if case == "another loss" {
            members[1].left.store(0, Ordering::Relaxed);
            let durable = write_files(&fs, 0, &mut StdRng::seed_from_u64(3));
            assert!(durable > 0, "{case}");
        } else {
            set.look_for_strangers();
        }
        for n in 0..30 {
            let attr = fs.lookup(fs.root(), format!("{n}").as_bytes()).unwrap();
            let mut bytes = vec![0; 30_000];
            assert_eq!(fs.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
            assert!(bytes == vec![n; 30_000], "{case}: {n}");
            fs.forget(attr.ino, 1);
        }
        let label = set.label_now();
        assert_eq!(label.is_useless(old), !read_only, "{case}");
        fs.unmount().unwrap();
        drop((fs, set));
        let after: Vec<_> = members.iter().map(|member| member.device.to_bytes()).collect();
        assert!(!read_only || before == after, "{case}: something was written");
    }
}
