//! Equal members that each hold everything: a mirror.
//!
//! A write goes to all members that are not lost and has succeeded when each of them has it or is
//! lost. A member is *lost* when a write or a flush of it fails: before any success is returned
//! that it does not take part in, [`Loss::note`] must have recorded the loss where the next start
//! finds it. Otherwise the member could be taken later for one that is up to date. A read goes to
//! the member that has the least to do, and among those to the one whose last request was nearest;
//! if it fails, another member is read.
//!
//! A member can be *rebuilt* while the mirror is in use, to be added or to take the place of
//! another: it gets all writes at once, and everything else by a copy, piece by piece. A write
//! waits while the piece that it overlaps is copied, and a piece waits for the writes in flight
//! that overlap it; so neither can undo the other. The member is read only when it has everything.

mod judged;

pub use judged::Judge;

use crate::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use spindle_clock::{Condvar, Mutex, RwLock};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that are copied or compared at a time.
const PIECE: usize = 1 << 20;

/// Records the loss of members.
pub trait Loss: Send + Sync {
    /// Records durably, on what is left, that a member is lost.
    ///
    /// # Errors
    /// If it cannot be recorded. The write or flush that found the loss then fails, and so does
    /// every later one until this function has succeeded for the member.
    fn note(&self, member: usize, reason: &Error) -> Result<()>;

    /// Makes sure that what is recorded is what holds, before a write or flush succeeds: a record
    /// that has failed may be there in part.
    ///
    /// # Errors
    /// If it cannot be made sure. The write or flush then fails.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// What a member is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    /// It has everything.
    Whole,
    /// It gets all writes, and is being filled.
    Rebuilding,
    /// It is not used.
    Lost,
}

/// A mirror over members.
pub struct Mirror {
    info: Info,
    members: RwLock<Vec<Arc<Member>>>,
    /// The member that is being rebuilt.
    rebuilt: RwLock<Option<Arc<Member>>>,
    /// Bytes that it has; held while it is filled.
    filled: Mutex<u64>,
    loss: Arc<dyn Loss>,
    /// Losses that are not recorded yet; held while one is recorded, so that nobody returns a
    /// success before.
    losses: Mutex<Vec<(usize, Error)>>,
    /// True while the members may differ in what was never flushed: the first one is read.
    unequal: AtomicBool,
    judge: OnceLock<Arc<dyn Judge>>,
    next: AtomicU64,
    traffic: Mutex<Traffic>,
    /// Signalled when a write or the copy of a piece has ended.
    moved: Condvar,
}

/// What is in flight.
#[derive(Default)]
struct Traffic {
    transfers: HashMap<u64, Transfer>,
    /// The results of writes that have ended before their callers waited for them.
    ended: HashMap<u64, Result<AlignedBuf>>,
    /// Bytes of writes in flight, by their tickets; from before they are started until all members
    /// have them.
    writes: HashMap<u64, Range<u64>>,
    /// The piece that is being copied or compared.
    piece: Option<Range<u64>>,
}

struct Member {
    device: Arc<dyn Device>,
    condition: AtomicU8,
    /// Requests in flight.
    busy: AtomicUsize,
    /// Byte after the last request.
    head: AtomicU64,
}

impl Member {
    fn new(device: Arc<dyn Device>, condition: Condition) -> Arc<Self> {
        let condition = AtomicU8::new(condition as u8);
        Arc::new(Self { device, condition, busy: AtomicUsize::new(0), head: AtomicU64::new(0) })
    }

    fn condition(&self) -> Condition {
        let is = |condition: &Condition| *condition as u8 == self.condition.load(Ordering::Acquire);
        let lost = Condition::Lost;
        [Condition::Whole, Condition::Rebuilding].into_iter().find(is).unwrap_or(lost)
    }

    fn set(&self, condition: Condition) {
        self.condition.store(condition as u8, Ordering::Release);
    }

    fn start(&self, request: Request) -> Result<Ticket> {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.head.store(request.offset + request.buf.len() as u64, Ordering::Relaxed);
        let ticket = self.device.submit(request);
        if ticket.is_err() {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
        ticket
    }

    fn finish(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let result = self.device.wait(ticket);
        self.busy.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

/// A request in flight.
struct Transfer {
    op: Op,
    offset: u64,
    len: usize,
    /// The bytes of it that were asked for.
    wanted: Range<usize>,
    /// The members that have it, with their tickets, or the reason why it could not be started.
    tickets: Vec<(Arc<Member>, Result<Ticket>)>,
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
        let condition = |&lost: &bool| if lost { Condition::Lost } else { Condition::Whole };
        let member = |(device, lost)| Member::new(device, condition(lost));
        Ok(Self {
            info: Info { name, size_bytes, sector_bytes, read_only },
            members: RwLock::new(members.into_iter().zip(lost).map(member).collect()),
            rebuilt: RwLock::new(None),
            filled: Mutex::new(0),
            loss,
            losses: Mutex::default(),
            unequal: AtomicBool::new(false),
            judge: OnceLock::new(),
            next: AtomicU64::new(0),
            traffic: Mutex::default(),
            moved: Condvar::default(),
        })
    }

    /// Returns the condition of each member.
    pub fn conditions(&self) -> Vec<Condition> {
        self.members.read().iter().map(|member| member.condition()).collect()
    }

    /// Says whether the members may differ in what was never flushed, as after a crash. While they
    /// may, reads go to the first member that is whole, so that what was read once does not change.
    pub fn set_unequal(&self, unequal: bool) {
        self.unequal.store(unequal, Ordering::Release);
    }

    /// Has every read judged from now on. There is one judge for the life of a mirror; another one
    /// is not taken.
    pub fn set_judge(&self, judge: Arc<dyn Judge>) {
        let _ = self.judge.set(judge);
    }

    /// Returns the members that are whole, in order.
    fn whole(&self) -> Vec<Arc<Member>> {
        let members = self.members.read();
        members.iter().filter(|member| member.condition() == Condition::Whole).cloned().collect()
    }

    /// Returns the members that get writes.
    fn written(&self) -> Vec<Arc<Member>> {
        // The one that is rebuilt first: it may become one of the others in between.
        let mut written: Vec<_> = self.rebuilt.read().iter().cloned().collect();
        for member in self.whole() {
            if !written.iter().any(|other| Arc::ptr_eq(other, &member)) {
                written.push(member);
            }
        }
        written.retain(|member| member.condition() != Condition::Lost);
        written
    }

    /// Takes a member out after `error`. Returns the error if it was the last whole one.
    fn lose(&self, member: &Arc<Member>, error: Error) -> Result<()> {
        let mut losses = self.losses.lock();
        let place = self.members.read().iter().position(|other| Arc::ptr_eq(other, member));
        match member.condition() {
            Condition::Lost => return Ok(()),
            // Its loss is recorded already.
            Condition::Rebuilding => {
                log::error!("{error}: this member of {} cannot be rebuilt", self.info.name);
                member.set(Condition::Lost);
                return Ok(());
            }
            Condition::Whole => {}
        }
        // A member that was removed meanwhile is not needed.
        let Some(n) = place else { return Ok(()) };
        if self.whole().iter().all(|other| Arc::ptr_eq(other, member)) {
            return Err(error);
        }
        log::error!("{error}: {} goes on without this member", self.info.name);
        member.set(Condition::Lost);
        losses.push((n, error));
        self.record(&mut losses)
    }

    /// Records the losses that are not recorded yet.
    fn record(&self, losses: &mut Vec<(usize, Error)>) -> Result<()> {
        while let Some((member, error)) = losses.last() {
            self.loss.note(*member, error)?;
            losses.pop();
        }
        Ok(())
    }

    /// Returns when no loss is left that is not recorded.
    fn all_recorded(&self) -> Result<()> {
        self.record(&mut self.losses.lock())?;
        self.loss.settle()
    }

    /// Returns the member to read `offset` from, other than those in `tried`.
    fn nearest(&self, offset: u64, tried: &[Arc<Member>]) -> Option<Arc<Member>> {
        let is_new = |member: &Arc<Member>| !tried.iter().any(|other| Arc::ptr_eq(other, member));
        let mut members = self.whole().into_iter().filter(is_new);
        if self.unequal.load(Ordering::Acquire) {
            return members.next();
        }
        members.min_by_key(|member| {
            let (busy, head) = (member.busy.load(Ordering::Relaxed), member.head.load(Ordering::Relaxed));
            (busy, head.abs_diff(offset))
        })
    }

    /// Reads from the other members until one succeeds, and returns that one too.
    fn read_another(
        &self,
        offset: u64,
        len: usize,
        first: Arc<Member>,
        failed: Error,
    ) -> Result<(Arc<Member>, AlignedBuf)> {
        let mut tried = vec![first];
        let mut failure = failed;
        while let Some(member) = self.nearest(offset, &tried) {
            log::warn!("{failure}: reading another member of {}", self.info.name);
            let request = Request { op: Op::Read, offset, buf: AlignedBuf::zeroed(len) };
            match member.start(request).and_then(|ticket| member.finish(ticket)) {
                Ok(buf) => return Ok((member, buf)),
                Err(error) => failure = error,
            }
            tried.push(member);
        }
        Err(failure)
    }

    /// Waits until no piece is copied that overlaps the write, and enters it.
    fn enter_write(&self, id: u64, range: Range<u64>) {
        let mut traffic = self.traffic.lock();
        while traffic.piece.as_ref().is_some_and(|piece| overlap(piece, &range)) {
            self.moved.wait(&mut traffic);
        }
        traffic.writes.insert(id, range);
    }

    fn leave_write(&self, id: u64) {
        self.traffic.lock().writes.remove(&id);
        self.moved.notify_all();
    }

    /// Ends the writes in flight that overlap a piece, and lets no other begin. Their callers may
    /// wait for them much later, so this function does.
    fn enter_piece(&self, piece: Range<u64>) {
        let mut traffic = self.traffic.lock();
        traffic.piece = Some(piece.clone());
        while let Some(id) =
            traffic.writes.iter().find(|(_, write)| overlap(write, &piece)).map(|(id, _)| *id)
        {
            match traffic.transfers.remove(&id) {
                Some(transfer) => {
                    drop(traffic);
                    let result = self.end_write(transfer);
                    traffic = self.traffic.lock();
                    traffic.ended.insert(id, result);
                    traffic.writes.remove(&id);
                    self.moved.notify_all();
                }
                // It is being started or ended.
                None => self.moved.wait(&mut traffic),
            }
        }
    }

    /// Waits until all members have a write or are lost.
    fn end_write(&self, transfer: Transfer) -> Result<AlignedBuf> {
        let Transfer { offset, len, tickets, .. } = transfer;
        let mut buf = None;
        let mut result = Ok(());
        for (member, started) in tickets {
            match started.and_then(|ticket| member.finish(ticket)) {
                Ok(done) => buf = Some(done),
                // The other members are still waited for.
                Err(error) => result = result.and(self.lose(&member, error)),
            }
        }
        result?;
        let nowhere = || std::io::Error::other("no member has it");
        buf.ok_or_else(|| Error::io(&self.info.name, format!("writing {len} bytes at {offset}"), nowhere()))
    }

    /// Waits for a read, from another member if the first one fails.
    fn end_read(&self, transfer: Transfer) -> Result<AlignedBuf> {
        let Transfer { offset, len, wanted, mut tickets, .. } = transfer;
        let (member, started) = tickets.pop().expect("a read has one member");
        let (member, mut buf) = match started.and_then(|ticket| member.finish(ticket)) {
            Ok(buf) => (member, buf),
            Err(error) => self.read_another(offset, len, member, error)?,
        };
        if let Some(judge) = self.judge.get() {
            self.judge_read(&**judge, offset, &member, &mut buf)?;
        }
        Ok(if wanted == (0..len) { buf } else { AlignedBuf::from(&buf[wanted]) })
    }

    /// Calls `work` for each piece of the mirror from byte `at` on, while no write overlaps it, and
    /// `done` with the byte after it, when writes can go on.
    fn each_piece(
        &self,
        mut at: u64,
        mut work: impl FnMut(u64, usize) -> Result<()>,
        mut done: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        while at < self.info.size_bytes {
            let len = usize::try_from(self.info.size_bytes - at).unwrap_or(PIECE).min(PIECE);
            self.enter_piece(at..at + len as u64);
            let result = work(at, len);
            self.traffic.lock().piece = None;
            self.moved.notify_all();
            result?;
            at += len as u64;
            done(at)?;
        }
        Ok(())
    }

    /// Fills `device` from the members, compares all of it with them, and makes it a member: the
    /// last one. A member whose number is `replaced` is left out from then on. The first `done`
    /// bytes, whole pieces, are there already: a former rebuilding ended after them, and nothing
    /// was written since without this member. The mirror can be used meanwhile.
    ///
    /// If `progress` returns an error, the work is interrupted: the member goes on to get writes,
    /// and the next call with the same device goes on with it, unless [`Self::give_up`] was called.
    ///
    /// `progress` is called with the bytes that are done, of twice the size. `restored` is called
    /// when the member has everything; it must record durably that it has.
    ///
    /// # Errors
    /// Those of the devices and of the two functions, and [`Error::Unusable`] if the device is too
    /// small, another one is being rebuilt, or it does not return what was written. Nothing has
    /// changed then.
    pub fn rebuild(
        &self,
        device: &Arc<dyn Device>,
        replaced: Option<usize>,
        done: u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
        restored: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let info = device.info();
        let unusable =
            |reason: &str| Error::Unusable { device: info.name.clone(), reason: reason.to_owned() };
        if info.size_bytes < self.info.size_bytes || info.sector_bytes > self.info.sector_bytes {
            return Err(unusable("too small, or its sectors are too large, for this mirror"));
        }
        let Some(mut filled) = self.filled.try_lock() else {
            return Err(unusable("another member is being rebuilt"));
        };
        let begun = self.rebuilt.read().clone();
        let is_same = |member: &Arc<Member>| {
            member.condition() == Condition::Rebuilding && Arc::ptr_eq(&member.device, device)
        };
        let member = begun.filter(is_same).unwrap_or_else(|| {
            *filled = done;
            Member::new(device.clone(), Condition::Rebuilding)
        });
        *self.rebuilt.write() = Some(member.clone());
        self.fill(&member, &mut filled, progress)?;
        // A later failure of the member is a loss, and waits for this lock.
        let mut losses = self.losses.lock();
        self.record(&mut losses)?;
        if member.condition() != Condition::Rebuilding {
            return Err(unusable("a write to it has failed"));
        }
        restored()?;
        member.set(Condition::Whole);
        {
            let mut members = self.members.write();
            if let Some(n) = replaced {
                members.remove(n);
            }
            members.push(member);
        }
        *self.rebuilt.write() = None;
        Ok(())
    }

    /// Copies everything to a member that is being rebuilt, and compares it.
    fn fill(
        &self,
        member: &Member,
        filled: &mut u64,
        progress: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let device = &member.device;
        // After a failure it is not gone on with.
        let failed = |error| {
            member.set(Condition::Lost);
            error
        };
        let copy = |at, len| device.write_at(at, &self.read_piece(at, len)?).map_err(failed);
        self.each_piece(*filled, copy, |end| {
            *filled = end;
            progress(end)
        })?;
        device.flush().map_err(failed)?;
        let mut bytes = AlignedBuf::zeroed(PIECE);
        let compare = |at, len| {
            device.read_at(at, &mut bytes[..len]).map_err(failed)?;
            if self.read_piece(at, len)?[..] != bytes[..len] {
                let differs = std::io::Error::other("it does not return what was written");
                let doing = format!("comparing {len} bytes at {at}");
                return Err(failed(Error::io(&device.info().name, doing, differs)));
            }
            Ok(())
        };
        self.each_piece(0, compare, |end| progress(self.info.size_bytes + end))?;
        device.flush().map_err(failed)
    }

    /// Forgets a rebuilding that was interrupted.
    pub fn give_up(&self) {
        if self.filled.try_lock().is_some() {
            *self.rebuilt.write() = None;
        }
    }

    /// Leaves out member `n` from now on. `recorded` is called before; it must record durably that
    /// the member is not needed.
    ///
    /// # Errors
    /// Those of `recorded`, and [`Error::Unusable`] if no other member is whole.
    pub fn remove(&self, n: usize, recorded: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut losses = self.losses.lock();
        self.record(&mut losses)?;
        let mut members = self.members.write();
        let others = members.iter().enumerate().filter(|(other, _)| *other != n);
        if n >= members.len() || others.into_iter().all(|(_, other)| other.condition() != Condition::Whole) {
            let reason = "no other copy is whole".to_owned();
            return Err(Error::Unusable { device: self.info.name.clone(), reason });
        }
        recorded()?;
        members.remove(n);
        Ok(())
    }

    /// Reads all members that are whole, compares them with the first, and writes what the first
    /// has, or the first that can be read, where another differs or cannot be read. Calls
    /// `progress` with the bytes that are done. The mirror can be used meanwhile.
    ///
    /// # Errors
    /// Those of the devices, if no member can be read or one can no longer be written.
    pub fn scrub(&self, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<Scrubbed> {
        let mut done = Scrubbed::default();
        self.each_piece(0, |at, len| self.scrub_piece(at, len, &mut done), progress)?;
        self.flush()?;
        Ok(done)
    }

    fn scrub_piece(&self, at: u64, len: usize, done: &mut Scrubbed) -> Result<()> {
        let (good, copies, wrong) = self.best(self.judge.get().map(|judge| &**judge), at, len)?;
        done.bytes += (len * copies.len()) as u64;
        done.wrong.extend(wrong);
        for (member, copy) in &copies {
            match copy {
                Ok(bytes) if bytes[..] == good[..] => continue,
                Ok(_) => done.differed += 1,
                Err(_) => done.unreadable += 1,
            }
            log::warn!("{}: {len} bytes at {at} are written again", member.device.info().name);
            if let Err(error) = member.device.write_at(at, &good) {
                self.lose(member, error)?;
            }
        }
        Ok(())
    }
}

/// What a scrub has found and mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes read, of all members.
    pub bytes: u64,
    /// Pieces of a megabyte of a member that differed from the first member, and were written.
    pub differed: u64,
    /// Pieces of a member that could not be read, and were written.
    pub unreadable: u64,
    /// What the judge says is wrong in all members that can be read.
    pub wrong: Vec<Range<u64>>,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Device for Mirror {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let Request { op, offset, buf } = request;
        self.info.check(op, offset, buf.len())?;
        let len = buf.len();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (mut offset, mut len, mut buf) = (offset, len, buf);
        let mut wanted = 0..len;
        if let Some(judge) = self.judge.get().filter(|_| op == Op::Read) {
            let whole = judge.whole(offset..offset + len as u64);
            let before = usize::try_from(offset - whole.start).unwrap_or(usize::MAX);
            let all = usize::try_from(whole.end - whole.start).unwrap_or(usize::MAX);
            if all != len {
                wanted = before..before + len;
                (offset, len, buf) = (whole.start, all, AlignedBuf::zeroed(all));
            }
        }
        let tickets = match op {
            Op::Read => {
                let gone = || Error::Unusable {
                    device: self.info.name.clone(),
                    reason: "all its members are lost".into(),
                };
                let member = self.nearest(offset, &[]).ok_or_else(gone)?;
                let ticket = member.start(Request { op, offset, buf });
                vec![(member, ticket)]
            }
            Op::Write => {
                self.enter_write(id, offset..offset + len as u64);
                let copy = |member: Arc<Member>| {
                    let buf = AlignedBuf::from(&buf[..]);
                    let ticket = member.start(Request { op, offset, buf });
                    (member, ticket)
                };
                self.written().into_iter().map(copy).collect()
            }
        };
        self.traffic.lock().transfers.insert(id, Transfer { op, offset, len, wanted, tickets });
        self.moved.notify_all();
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let id = ticket.id();
        let mut traffic = self.traffic.lock();
        let transfer = loop {
            if let Some(result) = traffic.ended.remove(&id) {
                drop(traffic);
                self.all_recorded()?;
                return result;
            }
            match traffic.transfers.remove(&id) {
                Some(transfer) => break transfer,
                // Before a piece is copied or compared it is waited for.
                None => self.moved.wait(&mut traffic),
            }
        };
        drop(traffic);
        match transfer.op {
            Op::Read => self.end_read(transfer),
            Op::Write => {
                let result = self.end_write(transfer);
                self.leave_write(id);
                self.all_recorded()?;
                result
            }
        }
    }

    fn flush(&self) -> Result<()> {
        let mut flushed = 0;
        for member in self.written() {
            match member.device.flush() {
                Ok(()) => flushed += usize::from(member.condition() == Condition::Whole),
                Err(error) => self.lose(&member, error)?,
            }
        }
        self.all_recorded()?;
        let nowhere = || std::io::Error::other("no member was flushed");
        if flushed > 0 { Ok(()) } else { Err(Error::io(&self.info.name, "flushing", nowhere())) }
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.info.check(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        self.written().iter().try_for_each(|member| member.device.discard(offset, len))
    }

    fn prepare(&self, offset: u64) {
        self.written().iter().for_each(|member| member.device.prepare(offset));
    }
}

#[cfg(test)]
mod tests {
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
        let bytes = |device: &dyn Device| {
            let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
            device.read_at(0, &mut bytes).unwrap();
            bytes
        };
        assert!(bytes(&*new) == bytes(&*members[0]) && bytes(&*new) == bytes(&*members[2]));
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
        let done = mirror.scrub(&mut |_| Ok(())).unwrap();
        assert_eq!(done, Scrubbed { bytes: 3 * SIZE, differed: 1, ..Scrubbed::default() });
        members[2].read_at(512, &mut bytes).unwrap();
        assert_eq!(bytes, [5; 512]);
        assert_eq!(mirror.scrub(&mut |_| Ok(())).unwrap().differed, 0);
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
