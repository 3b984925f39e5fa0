//! Equal members that each hold everything: a mirror.
//!
//! A write goes to all members that are alive and has succeeded when each of them has it or is
//! lost. A member is *lost* when a write or a flush of it fails: before any success is returned
//! that it does not take part in, [`Loss::note`] must have recorded the loss where the next start
//! finds it. Otherwise the member could be taken later for one that is up to date. A read goes to
//! the member that has the least to do, and among those to the one whose last request was nearest;
//! if it fails, another member is read.

use crate::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use spindle_clock::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Records the loss of members.
pub trait Loss: Send + Sync {
    /// Records durably, on what is left, that a member is lost. It is called once for each member.
    ///
    /// # Errors
    /// If it cannot be recorded. The write or flush that found the loss then fails.
    fn note(&self, member: usize, reason: &Error) -> Result<()>;
}

/// A mirror over members.
pub struct Mirror {
    info: Info,
    members: Vec<Member>,
    loss: Arc<dyn Loss>,
    /// Held while a loss is recorded, so that nobody returns a success before.
    losing: Mutex<()>,
    next: AtomicU64,
    transfers: Mutex<HashMap<u64, Transfer>>,
}

struct Member {
    device: Arc<dyn Device>,
    /// True when writes and flushes leave it out.
    lost: AtomicBool,
    /// Requests in flight.
    busy: AtomicUsize,
    /// Byte after the last request.
    head: AtomicU64,
}

/// A request in flight.
struct Transfer {
    op: Op,
    offset: u64,
    len: usize,
    /// The members that have it, with their tickets, or the reason why it could not be started.
    tickets: Vec<(usize, Result<Ticket>)>,
}

impl Mirror {
    /// Returns a mirror called `name` over `members`, as large as the smallest. Members whose
    /// element of `lost` is true are not used.
    ///
    /// # Errors
    /// [`Error::Unusable`] if no member is left.
    pub fn new(
        members: Vec<Arc<dyn Device>>,
        lost: &[bool],
        loss: Arc<dyn Loss>,
        name: String,
    ) -> Result<Self> {
        let alive = members.iter().zip(lost).filter(|(_, lost)| !**lost).map(|(member, _)| member.info());
        let (mut size_bytes, mut sector_bytes, mut read_only) = (u64::MAX, 512, false);
        let mut any = false;
        for info in alive {
            any = true;
            size_bytes = size_bytes.min(info.size_bytes);
            sector_bytes = sector_bytes.max(info.sector_bytes);
            read_only |= info.read_only;
        }
        if !any {
            return Err(Error::Unusable { device: name, reason: "all its members are lost".into() });
        }
        size_bytes -= size_bytes % u64::from(sector_bytes);
        let member = |(device, &lost): (Arc<dyn Device>, &bool)| Member {
            device,
            lost: lost.into(),
            busy: AtomicUsize::new(0),
            head: AtomicU64::new(0),
        };
        Ok(Self {
            info: Info { name, size_bytes, sector_bytes, read_only },
            members: members.into_iter().zip(lost).map(member).collect(),
            loss,
            losing: Mutex::new(()),
            next: AtomicU64::new(0),
            transfers: Mutex::default(),
        })
    }

    /// Returns for each member whether it is lost.
    pub fn lost(&self) -> Vec<bool> {
        self.members.iter().map(|member| member.lost.load(Ordering::Acquire)).collect()
    }

    fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|&n| !self.members[n].lost.load(Ordering::Acquire))
    }

    /// Takes a member out after `error`. Returns the error if it was the last one.
    fn lose(&self, member: usize, error: Error) -> Result<()> {
        let _one = self.losing.lock();
        if self.members[member].lost.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.alive().all(|n| n == member) {
            return Err(error);
        }
        log::error!("{error}: {} goes on without this member", self.info.name);
        self.members[member].lost.store(true, Ordering::Release);
        self.loss.note(member, &error)
    }

    /// Returns the member to read `offset` from, other than those in `tried`.
    fn nearest(&self, offset: u64, tried: &[usize]) -> Option<usize> {
        self.alive().filter(|n| !tried.contains(n)).min_by_key(|&n| {
            let member = &self.members[n];
            (member.busy.load(Ordering::Relaxed), member.head.load(Ordering::Relaxed).abs_diff(offset))
        })
    }

    fn start(&self, member: usize, request: Request) -> Result<Ticket> {
        let Member { device, busy, head, .. } = &self.members[member];
        busy.fetch_add(1, Ordering::Relaxed);
        head.store(request.offset + request.buf.len() as u64, Ordering::Relaxed);
        let ticket = device.submit(request);
        if ticket.is_err() {
            busy.fetch_sub(1, Ordering::Relaxed);
        }
        ticket
    }

    fn finish(&self, member: usize, ticket: Ticket) -> Result<AlignedBuf> {
        let result = self.members[member].device.wait(ticket);
        self.members[member].busy.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Reads from the other members until one succeeds.
    fn read_another(&self, offset: u64, len: usize, first: usize, failed: Error) -> Result<AlignedBuf> {
        let mut tried = vec![first];
        let mut failure = failed;
        while let Some(member) = self.nearest(offset, &tried) {
            log::warn!("{failure}: reading another member of {}", self.info.name);
            let request = Request { op: Op::Read, offset, buf: AlignedBuf::zeroed(len) };
            match self.start(member, request).and_then(|ticket| self.finish(member, ticket)) {
                Ok(buf) => return Ok(buf),
                Err(error) => failure = error,
            }
            tried.push(member);
        }
        Err(failure)
    }
}

impl Device for Mirror {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let Request { op, offset, buf } = request;
        self.info.check(op, offset, buf.len())?;
        let len = buf.len();
        let tickets = match op {
            Op::Read => {
                let gone = || Error::Unusable {
                    device: self.info.name.clone(),
                    reason: "all its members are lost".into(),
                };
                let member = self.nearest(offset, &[]).ok_or_else(gone)?;
                vec![(member, self.start(member, Request { op, offset, buf }))]
            }
            Op::Write => {
                let members: Vec<_> = self.alive().collect();
                let copy = |&member| {
                    let buf = AlignedBuf::from(&buf[..]);
                    (member, self.start(member, Request { op, offset, buf }))
                };
                members.iter().map(copy).collect()
            }
        };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.transfers.lock().insert(id, Transfer { op, offset, len, tickets });
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let transfer = self.transfers.lock().remove(&ticket.id());
        let Transfer { op, offset, len, tickets } =
            transfer.expect("each ticket is waited for once, on its device");
        let mut buf = None;
        let mut result = Ok(());
        for (member, ticket) in tickets {
            match (op, ticket.and_then(|ticket| self.finish(member, ticket))) {
                (_, Ok(done)) => buf = Some(done),
                (Op::Read, Err(error)) => buf = Some(self.read_another(offset, len, member, error)?),
                // The other members are still waited for.
                (Op::Write, Err(error)) => result = result.and(self.lose(member, error)),
            }
        }
        result?;
        // Another request may be recording the loss that this one went without.
        drop(self.losing.lock());
        let nowhere = || std::io::Error::other("no member has it");
        buf.ok_or_else(|| Error::io(&self.info.name, format!("writing {len} bytes at {offset}"), nowhere()))
    }

    fn flush(&self) -> Result<()> {
        let members: Vec<_> = self.alive().collect();
        let mut flushed = 0;
        for member in members {
            match self.members[member].device.flush() {
                Ok(()) => flushed += 1,
                Err(error) => self.lose(member, error)?,
            }
        }
        drop(self.losing.lock());
        let nowhere = || std::io::Error::other("no member was flushed");
        if flushed > 0 { Ok(()) } else { Err(Error::io(&self.info.name, "flushing", nowhere())) }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        self.alive().try_for_each(|n| self.members[n].device.discard(offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

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
        let member = || Arc::new(Failing(MemoryDevice::new(1 << 20), AtomicBool::new(false)));
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
            assert_eq!(fixture.mirror.lost(), [false; 3]);
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
        assert_eq!(fixture.mirror.lost(), [true, true, false]);
    }

    /// Promise: without a record of the loss there is no success.
    #[test]
    fn a_loss_that_cannot_be_recorded_is_an_error() {
        struct Refusing;
        impl Loss for Refusing {
            fn note(&self, _: usize, error: &Error) -> Result<()> {
                Err(error.clone())
            }
        }
        let Fixture { members, .. } = three();
        let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
        let mirror = Mirror::new(devices, &[false; 3], Arc::new(Refusing), "mirror".into()).unwrap();
        members[2].1.store(true, Ordering::Relaxed);
        assert!(mirror.write_at(0, &[1; 512]).is_err());
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
}
