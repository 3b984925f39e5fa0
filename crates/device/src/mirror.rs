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
mod rebuilt;

pub use judged::Judge;
pub use rebuilt::Scrubbed;

use crate::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use spindle_clock::{Condvar, Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// The places that were wrong in all members in the last read that found one which the read
    /// before it had not found: what is read again is not reported again.
    refused: Mutex<Vec<u64>>,
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

    /// Returns the byte for messages that `offset` of the mirror is in the member.
    fn place(&self, offset: u64) -> u64 {
        self.device.place(offset)
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
            refused: Mutex::default(),
            next: AtomicU64::new(0),
            traffic: Mutex::default(),
            moved: Condvar::default(),
        })
    }

    /// Returns the condition of each member.
    pub fn conditions(&self) -> Vec<Condition> {
        self.members.read().iter().map(|member| member.condition()).collect()
    }

    /// Returns the members that are whole, as devices of their own, in order.
    pub fn copies(&self) -> Vec<Arc<dyn Device>> {
        self.whole().iter().map(|member| member.device.clone()).collect()
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

    /// Takes member `n` out, if it is whole, because of `reason`.
    ///
    /// # Errors
    /// `reason` if it was the last whole one; those of recording the loss.
    pub fn lose_member(&self, n: usize, reason: &Error) -> Result<()> {
        let member = self.members.read().get(n).cloned();
        member.map_or(Ok(()), |member| self.lose(&member, reason.clone()))
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
        while traffic.piece.is_some() {
            self.moved.wait(&mut traffic);
        }
        self.enter_piece_with(traffic, piece);
    }

    /// Does the same; returns false if there is another piece. So it does not wait for who works on
    /// that one, and may be waiting for the caller.
    fn try_enter_piece(&self, piece: Range<u64>) -> bool {
        let traffic = self.traffic.lock();
        let is_free = traffic.piece.is_none();
        if is_free {
            self.enter_piece_with(traffic, piece);
        }
        is_free
    }

    fn leave_piece(&self) {
        self.traffic.lock().piece = None;
        self.moved.notify_all();
    }

    fn enter_piece_with<'a>(&'a self, mut traffic: MutexGuard<'a, Traffic>, piece: Range<u64>) {
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
        // Like a write: otherwise a piece that is being copied would bring back what is discarded,
        // in one member only.
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.enter_write(id, offset..offset + len);
        let result = self.written().iter().try_for_each(|member| member.device.discard(offset, len));
        self.leave_write(id);
        result
    }

    fn prepare(&self, offset: u64) {
        self.written().iter().for_each(|member| member.device.prepare(offset));
    }
}

#[cfg(test)]
mod tests;
