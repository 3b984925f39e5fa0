use super::rebuilt::PIECE;
use super::*;
use crate::MemoryDevice;

const SIZE: u64 = 4 << 20;

/// A device that fails while its flag is set.
struct Failing(MemoryDevice, AtomicBool);

impl Failing {
    fn check(&self) -> Result<()> {
        let broken = std::io::ErrorKind::Other.into();
        if self.1.load(Ordering::Relaxed) { Err(Error::io("failing", "all", broken)) } else { Ok(()) }
    }
}

impl Device for Failing {
    fn info(&self) -> &Info {
        self.0.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        self.check()?;
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let result = self.0.wait(ticket)?;
        self.check()?;
        Ok(result)
    }
    fn flush(&self) -> Result<()> {
        self.check()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.0.discard(offset, len)
    }
}

#[derive(Default)]
struct Noted(Mutex<Vec<usize>>);

impl Loss for Noted {
    fn note(&self, member: usize, _: &Error) -> Result<()> {
        self.0.lock().push(member);
        Ok(())
    }
}

struct Fixture {
    members: Vec<Arc<Failing>>,
    noted: Arc<Noted>,
    mirror: Mirror,
}

fn three() -> Fixture {
    let member = || Arc::new(Failing(MemoryDevice::new(SIZE), AtomicBool::new(false)));
    let members = vec![member(), member(), member()];
    let noted = Arc::new(Noted::default());
    let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let mirror = Mirror::new(devices, &[false; 3], noted.clone(), "mirror".into()).unwrap();
    Fixture { members, noted, mirror }
}

impl Fixture {
    fn fail(&self, member: usize) {
        self.members[member].1.store(true, Ordering::Relaxed);
    }
}

/// Promise: every member has what was written.
#[test]
fn all_members_are_written() {
    let Fixture { members, mirror, .. } = three();
    mirror.write_at(4096, &[7; 1024]).unwrap();
    mirror.flush().unwrap();
    for member in &members {
        let mut bytes = [0; 1024];
        member.read_at(4096, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 1024]);
    }
}

/// Promise: a read survives the failure of all members but one, and takes none out.
#[test]
fn a_read_finds_a_member_that_works() {
    for good in 0..3 {
        let fixture = three();
        fixture.mirror.write_at(0, &[9; 512]).unwrap();
        (0..3).filter(|&n| n != good).for_each(|n| fixture.fail(n));
        let mut bytes = [0; 512];
        fixture.mirror.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [9; 512]);
        assert_eq!(fixture.mirror.conditions(), [Condition::Whole; 3]);
    }
}

/// Promise: the loss of a member is recorded once, before the write that found it succeeds, and
/// the loss of the last one is an error.
#[test]
fn a_lost_member_is_recorded() {
    let fixture = three();
    fixture.fail(1);
    fixture.mirror.write_at(0, &[1; 512]).unwrap();
    assert_eq!(*fixture.noted.0.lock(), [1]);
    fixture.mirror.write_at(0, &[2; 512]).unwrap();
    fixture.fail(0);
    fixture.mirror.flush().unwrap();
    assert_eq!(*fixture.noted.0.lock(), [1, 0]);
    fixture.mirror.write_at(0, &[3; 512]).unwrap();
    fixture.fail(2);
    assert!(fixture.mirror.write_at(0, &[4; 512]).is_err());
    assert!(fixture.mirror.flush().is_err());
    assert_eq!(fixture.mirror.conditions(), [Condition::Lost, Condition::Lost, Condition::Whole]);
}

/// Promise: without a record of the loss there is no success: not for the request that found
/// it, and not for a later one.
#[test]
fn a_loss_that_cannot_be_recorded_is_an_error() {
    struct Refusing(AtomicBool);
    impl Loss for Refusing {
        fn note(&self, _: usize, error: &Error) -> Result<()> {
            if self.0.load(Ordering::Relaxed) { Err(error.clone()) } else { Ok(()) }
        }
    }
    let Fixture { members, .. } = three();
    let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let refusing = Arc::new(Refusing(true.into()));
    let mirror = Mirror::new(devices, &[false; 3], refusing.clone(), "mirror".into()).unwrap();
    members[2].1.store(true, Ordering::Relaxed);
    assert!(mirror.write_at(0, &[1; 512]).is_err());
    assert!(mirror.write_at(0, &[2; 512]).is_err());
    assert!(mirror.flush().is_err());
    refusing.0.store(false, Ordering::Relaxed);
    mirror.write_at(0, &[3; 512]).unwrap();
    mirror.flush().unwrap();
}

/// Promise: a member that is rebuilt while the mirror is written has everything in the end, is
/// recorded as such before it is used, and is used from then on.
#[test]
fn a_member_is_rebuilt_under_writes() {
    let Fixture { members, mirror, .. } = three();
    members[1].1.store(true, Ordering::Relaxed);
    mirror.write_at(0, &[1; 512]).unwrap();
    assert_eq!(mirror.conditions()[1], Condition::Lost);
    let new: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0_u64.. {
                let at = n * 7919 % (SIZE / 512 - 2) * 512;
                mirror.write_at(at, &[u8::try_from(n % 251).unwrap(); 1024]).unwrap();
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let recorded = AtomicBool::new(false);
        let restored = || {
            recorded.store(true, Ordering::Relaxed);
            Ok(())
        };
        let mut last = 0;
        let mut progress = |done| {
            assert!(done > last);
            last = done;
            Ok(())
        };
        let rebuilt = mirror.rebuild(&new, Some(1), 0, &mut progress, restored);
        stop.store(true, Ordering::Relaxed);
        rebuilt.unwrap();
        assert!(recorded.load(Ordering::Relaxed));
        assert_eq!(last, 2 * SIZE);
    });
    assert_eq!(mirror.conditions(), [Condition::Whole; 3]);
    assert!(bytes(&*new) == bytes(&*members[0]) && bytes(&*new) == bytes(&*members[2]));
}

/// Returns everything that a device holds.
fn bytes(device: &dyn Device) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Promise: no write misses a member that is rebuilt, whenever it begins and ends: in flight before
/// the rebuilding, between two of its pieces, while it is recorded that the member has everything,
/// or after that.
#[test]
fn a_rebuilding_loses_no_write() {
    let Fixture { members, mirror, .. } = three();
    mirror.write_at(0, &vec![1; usize::try_from(SIZE).unwrap()]).unwrap();
    let (tickets, count) = (Mutex::new(Vec::new()), AtomicU8::new(2));
    // Each write is only begun; it ends when a piece needs it to, or after everything.
    let begin = |at: u64| {
        let mut buf = AlignedBuf::zeroed(1024);
        buf.fill(count.fetch_add(1, Ordering::Relaxed));
        let ticket = mirror.submit(Request { op: Op::Write, offset: at, buf }).unwrap();
        tickets.lock().push(ticket);
    };
    let everywhere = |shift: u64| (0..SIZE / PIECE as u64).for_each(|n| begin(n * PIECE as u64 + shift));
    everywhere(0);
    let new: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE));
    let mut progress = |done| {
        everywhere(done >> 8);
        Ok(())
    };
    let restored = || {
        everywhere(1 << 18);
        Ok(())
    };
    mirror.rebuild(&new, Some(1), 0, &mut progress, restored).unwrap();
    everywhere(1 << 19);
    tickets.into_inner().into_iter().for_each(|ticket| drop(mirror.wait(ticket).unwrap()));
    assert!(bytes(&*new) == bytes(&*members[0]) && bytes(&*new) == bytes(&*members[2]));
}

/// Promise: what is discarded while a piece is copied that has it stays discarded in the new member
/// too.
#[test]
fn a_discard_waits_for_the_copy_of_a_piece() {
    /// A member whose next write is held up until somebody else has had time to discard.
    struct Slow(MemoryDevice, AtomicBool, Arc<AtomicBool>);
    impl Device for Slow {
        fn info(&self) -> &Info {
            self.0.info()
        }
        fn submit(&self, request: Request) -> Result<Ticket> {
            if request.op == Op::Write && !self.1.swap(true, Ordering::Relaxed) {
                self.2.store(true, Ordering::Release);
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            self.0.submit(request)
        }
        fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
            self.0.wait(ticket)
        }
        fn flush(&self) -> Result<()> {
            self.0.flush()
        }
        fn discard(&self, offset: u64, len: u64) -> Result<()> {
            self.0.discard(offset, len)
        }
    }
    let Fixture { mirror, .. } = three();
    mirror.write_at(0, &vec![1; PIECE]).unwrap();
    let copying = Arc::new(AtomicBool::new(false));
    let new: Arc<dyn Device> =
        Arc::new(Slow(MemoryDevice::new(SIZE), AtomicBool::new(false), copying.clone()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !copying.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            mirror.discard(0, PIECE as u64).unwrap();
        });
        mirror.rebuild(&new, None, 0, &mut |_| Ok(()), || Ok(())).unwrap();
    });
    let mut bytes = vec![1; PIECE];
    new.read_at(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
}

/// Promise: a member that cannot be filled stays lost, without harm to the others.
#[test]
fn a_member_that_fails_again_stays_lost() {
    let Fixture { members, mirror, noted } = three();
    members[1].1.store(true, Ordering::Relaxed);
    mirror.write_at(0, &[1; 512]).unwrap();
    mirror.write_at(SIZE - 512, &[1; 512]).unwrap();
    let again: Arc<dyn Device> = members[1].clone();
    let restored = || unreachable!("it was not restored");
    assert!(mirror.rebuild(&again, Some(1), 0, &mut |_| Ok(()), restored).is_err());
    let small: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE / 2));
    assert!(mirror.rebuild(&small, Some(1), 0, &mut |_| Ok(()), restored).is_err());
    let lies: Arc<dyn Device> = Arc::new(Forgetful(MemoryDevice::new(SIZE)));
    let error = mirror.rebuild(&lies, Some(1), 0, &mut |_| Ok(()), restored).unwrap_err();
    assert!(error.to_string().contains("does not return what was written"), "{error}");
    assert_eq!(mirror.conditions()[1], Condition::Lost);
    mirror.write_at(0, &[2; 512]).unwrap();
    assert_eq!(*noted.0.lock(), [1]);
}

/// Promise: a whole member can be replaced or removed, but not the last one; and what is lost
/// afterwards is recorded under its new number.
#[test]
fn members_are_replaced_and_removed() {
    let Fixture { members, mirror, noted } = three();
    mirror.write_at(0, &[1; 512]).unwrap();
    let new: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE));
    mirror.rebuild(&new, Some(0), 0, &mut |_| Ok(()), || Ok(())).unwrap();
    mirror.remove(0, || Ok(())).unwrap();
    // Left are the third and the new one.
    mirror.write_at(0, &[2; 512]).unwrap();
    let first = |device: &dyn Device| {
        let mut bytes = [0; 512];
        device.read_at(0, &mut bytes).unwrap();
        bytes[0]
    };
    assert_eq!([&*members[0], &*members[1], &*members[2]].map(|m| first(m)), [1, 1, 2]);
    assert_eq!(first(&*new), 2);
    members[2].1.store(true, Ordering::Relaxed);
    mirror.write_at(0, &[3; 512]).unwrap();
    assert_eq!(*noted.0.lock(), [0]);
    assert!(mirror.remove(1, || unreachable!("it is the last one")).is_err());
    mirror.remove(0, || Ok(())).unwrap();
    assert_eq!(mirror.conditions(), [Condition::Whole]);
}

/// Promise: a rebuilding that goes on after an interruption copies only what is missing, and
/// still compares everything.
#[test]
fn a_rebuilding_goes_on() {
    let Fixture { mirror, .. } = three();
    mirror.write_at(0, &[1; 512]).unwrap();
    let new: Arc<dyn Device> = Arc::new(MemoryDevice::new(SIZE));
    let mut stop = |done| {
        let enough = std::io::Error::from(std::io::ErrorKind::Interrupted);
        if done < SIZE / 2 { Ok(()) } else { Err(Error::io("test", "stopping", enough)) }
    };
    let unreachable = || unreachable!("it was stopped");
    assert!(mirror.rebuild(&new, None, 0, &mut stop, unreachable).is_err());
    let mut all = Vec::new();
    let mut progress = |done| {
        all.push(done);
        Ok(())
    };
    mirror.give_up();
    mirror.rebuild(&new, None, SIZE / 2, &mut progress, || Ok(())).unwrap();
    assert_eq!(all.len() as u64 * PIECE as u64, SIZE + SIZE / 2);
    assert_eq!(mirror.conditions(), [Condition::Whole; 4]);
}

/// Promise: a member whose rebuilding was interrupted goes on to get what is written, and only
/// what is missing is copied afterwards; another device takes its place from the beginning.
#[test]
fn an_interrupted_member_gets_writes() {
    for same in [true, false] {
        let Fixture { mirror, members, .. } = three();
        mirror.write_at(SIZE - 512, &[1; 512]).unwrap();
        let new = || -> Arc<dyn Device> { Arc::new(MemoryDevice::new(SIZE)) };
        let first = new();
        let mut stop = |done| {
            let enough = std::io::Error::from(std::io::ErrorKind::Interrupted);
            if done < SIZE / 2 { Ok(()) } else { Err(Error::io("test", "stopping", enough)) }
        };
        let unreachable = || unreachable!("it was stopped");
        assert!(mirror.rebuild(&first, None, 0, &mut stop, unreachable).is_err());
        mirror.write_at(1024, &[2; 512]).unwrap();
        let mut count = 0;
        let mut progress = |_| {
            count += 1;
            Ok(())
        };
        let second = if same { first } else { new() };
        mirror.rebuild(&second, None, 0, &mut progress, || Ok(())).unwrap();
        assert_eq!(count * PIECE as u64, if same { SIZE + SIZE / 2 } else { 2 * SIZE });
        let mut bytes = [vec![0; 1 << 22], vec![0; 1 << 22]];
        second.read_at(0, &mut bytes[0]).unwrap();
        members[0].read_at(0, &mut bytes[1]).unwrap();
        assert!(bytes[0] == bytes[1]);
    }
}

/// A device that forgets what is written to its second half.
struct Forgetful(MemoryDevice);

impl Device for Forgetful {
    fn info(&self) -> &Info {
        self.0.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        let half = self.0.info().size_bytes / 2;
        match request.op {
            Op::Write if request.offset + request.buf.len() as u64 > half => {
                let buf = AlignedBuf::zeroed(request.buf.len());
                self.0.submit(Request { buf, ..request })
            }
            _ => self.0.submit(request),
        }
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.0.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.0.discard(offset, len)
    }
}

/// Promise: a scrub finds members that differ, and gives them what the first one has; reads
/// before that can be bound to the first.
#[test]
fn a_scrub_makes_members_equal() {
    let Fixture { members, mirror, .. } = three();
    mirror.write_at(0, &[5; 4096]).unwrap();
    members[2].write_at(512, &[6; 512]).unwrap();
    mirror.set_unequal(true);
    let mut bytes = [0; 512];
    for at in [0, 512, 3584, 512] {
        mirror.read_at(at, &mut bytes).unwrap();
        assert_eq!(bytes, [5; 512]);
    }
    let done = mirror.scrub(true, false, &mut |_| Ok(())).unwrap();
    assert_eq!(done, Scrubbed { bytes: 3 * SIZE, differed: 1, undecided: 512, ..Scrubbed::default() });
    members[2].read_at(512, &mut bytes).unwrap();
    assert_eq!(bytes, [5; 512]);
    assert_eq!(mirror.scrub(true, false, &mut |_| Ok(())).unwrap().differed, 0);
}

/// Promise: what an unclean end explains is made equal and counted apart; what it does not explain
/// counts as before, also in the same piece, and so does everything if there was no such end.
#[test]
fn a_scrub_after_an_unclean_end() {
    let half = SIZE / 2;
    // The judge of these tests knows sectors that begin with 7, and explains only what is in the
    // first half and not decided. Each case is a place, the byte that the first member and the
    // others begin with, the numbers of pieces and undecided sectors that count as faults, and that
    // of sectors that are explained.
    for (unclean, at, bytes, (differed, undecided, explained)) in [
        (true, 512, [5, 6], (0, 0, 2)),
        (false, 512, [5, 6], (2, 2, 0)),
        (true, 512, [6, 7], (1, 0, 0)),
        (true, half + 512, [5, 6], (2, 2, 0)),
    ] {
        let Fixture { members, mirror, .. } = three();
        let judge = Knows { right: 7, on_its_way: false, refuses: false };
        mirror.set_judge(Arc::new(judge));
        mirror.write_at(0, &vec![7; usize::try_from(SIZE).unwrap()]).unwrap();
        let expected = Scrubbed {
            bytes: 3 * SIZE,
            differed,
            undecided: undecided * 512,
            unclean: explained * 512,
            ..Scrubbed::default()
        };
        for (n, member) in members.iter().enumerate() {
            member.write_at(at, &[bytes[n.min(1)]; 512]).unwrap();
        }
        assert_eq!(
            mirror.scrub(true, unclean, &mut |_| Ok(())).unwrap(),
            expected,
            "{unclean} {at} {bytes:?}"
        );
        let equal = Scrubbed { bytes: 3 * SIZE, ..Scrubbed::default() };
        assert_eq!(mirror.scrub(true, unclean, &mut |_| Ok(())).unwrap(), equal, "{unclean} {at} {bytes:?}");
    }
}

/// Promise: a fault beside what an unclean end explains, in the same piece, is still one; and what
/// is only compared stays as it is, and is counted as such.
#[test]
fn a_fault_beside_what_an_unclean_end_explains() {
    for undecided in [true, false] {
        let Fixture { members, mirror, .. } = three();
        mirror.set_judge(Arc::new(Knows { right: 7, on_its_way: false, refuses: false }));
        mirror.write_at(0, &vec![7; usize::try_from(SIZE).unwrap()]).unwrap();
        for (n, member) in (5..).zip([0, 2]) {
            members[member].write_at(512, &[n; 512]).unwrap();
        }
        members[1].write_at(512, &[5; 512]).unwrap();
        members[2].write_at(4096, &[9; 512]).unwrap();
        let found = mirror.scrub(undecided, true, &mut |_| Ok(())).unwrap();
        let bytes = 3 * SIZE;
        let expected = if undecided {
            Scrubbed { bytes, differed: 1, unclean: 512, ..Scrubbed::default() }
        } else {
            Scrubbed { bytes, kept: 1024, ..Scrubbed::default() }
        };
        assert_eq!(found, expected);
    }
}

/// Promise: lost members are never read, and without any other there is no mirror.
#[test]
fn lost_members_are_left_out() {
    let Fixture { members, noted, .. } = three();
    members[0].write_at(0, &[5; 512]).unwrap();
    let devices = || members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let mirror = Mirror::new(devices(), &[true, false, true], noted.clone(), "m".into()).unwrap();
    let mut bytes = [1; 512];
    mirror.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 512]);
    assert!(Mirror::new(devices(), &[true; 3], noted, "m".into()).is_err());
}

/// A device whose next read returns other bytes than it has.
struct Torn(MemoryDevice, AtomicBool);

impl Device for Torn {
    fn info(&self) -> &Info {
        self.0.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        self.0.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let mut buf = self.0.wait(ticket)?;
        if self.1.swap(false, Ordering::Relaxed) {
            buf.fill(0xee);
        }
        Ok(buf)
    }
    fn flush(&self) -> Result<()> {
        self.0.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.0.discard(offset, len)
    }
}

/// A judge that knows that each sector begins with `right`. While `on_its_way`, it does not judge
/// what is read for copies.
struct Knows {
    right: u8,
    on_its_way: bool,
    refuses: bool,
}

impl Judge for Knows {
    fn whole(&self, bytes: Range<u64>) -> Range<u64> {
        bytes
    }
    fn wrong(&self, _: u64, bytes: &[u8], for_copy: bool) -> Vec<Range<usize>> {
        let sectors = (0..bytes.len()).step_by(512).filter(|&at| bytes[at] != self.right);
        sectors.filter(|_| !(for_copy && self.on_its_way)).map(|at| at..at + 512).collect()
    }
    fn refuses(&self, _: u64) -> bool {
        self.refuses
    }
    fn mends(&self, _: u64) -> bool {
        true
    }
    fn may_differ(&self, offset: u64, decided: bool) -> bool {
        !decided && offset < SIZE / 2
    }
}

/// Promise: what was read wrongly is read again before it counts as wrong: a write may have
/// overtaken the first read.
#[test]
fn a_second_read_is_judged() {
    let torn = Arc::new(Torn(MemoryDevice::new(SIZE), AtomicBool::new(false)));
    torn.write_at(0, &[7; 1024]).unwrap();
    let noted = Arc::new(Noted::default());
    let mirror = Mirror::new(vec![torn.clone() as Arc<dyn Device>], &[false], noted, "m".into()).unwrap();
    mirror.set_judge(Arc::new(Knows { right: 7, on_its_way: false, refuses: true }));
    let mut bytes = [0; 1024];
    torn.1.store(true, Ordering::Relaxed);
    mirror.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [7; 1024]);
}

/// Promise: a member that has wrong bytes gets the right ones, unless they are on their way to it.
#[test]
fn wrong_bytes_are_mended_once() {
    for on_its_way in [false, true] {
        let Fixture { members, mirror, .. } = three();
        mirror.write_at(0, &[7; 512]).unwrap();
        members[0].write_at(0, &[6; 512]).unwrap();
        // All reads of this place begin with the first member.
        mirror.set_unequal(true);
        mirror.set_judge(Arc::new(Knows { right: 7, on_its_way, refuses: true }));
        let mut bytes = [0; 512];
        mirror.read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 512]);
        members[0].read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[0], if on_its_way { 6 } else { 7 });
        members[1].read_at(0, &mut bytes).unwrap();
        assert_eq!(bytes[0], 7);
    }
}
