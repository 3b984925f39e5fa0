//! Rings: places for requests, which the kernel and the server have by turns.
//!
//! A place is a header and a payload, and the memory of both stays where it is as long as the
//! kernel has the place. It has it from REGISTER or `COMMIT_AND_FETCH` to their completion, with
//! which a request comes. The kernel writes and reads the memory only during system calls of the
//! thread that serves the ring.

use crate::placement::Placement;
use crate::queue::Queue;
use crate::reply::{Late, Reply, Slot, Stage};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use spindle_device::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// `FUSE_IO_URING_CMD_REGISTER`
const REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`
const COMMIT_AND_FETCH: u32 = 2;
/// Entries of the submission queue; more places than that are submitted in several steps.
const ENTRIES: u32 = 4;
/// The completion that says that a place was answered late.
const WAKE: u64 = u64::MAX;

/// Bytes of the parts of a `struct fuse_uring_req_header`: `in_out`, `op_in` and
/// `ring_ent_in_out`.
const IN_OUT: usize = 128;
const OP_IN: usize = 128;
const ENT_IN_OUT: usize = 32;
/// Where the last has `commit_id` and `payload_sz`.
const COMMIT_ID: usize = IN_OUT + OP_IN + 8;
const PAYLOAD_SZ: usize = IN_OUT + OP_IN + 16;
/// Bytes of a `struct fuse_out_header`.
const OUT_HEADER: u32 = 16;
/// Where a `struct fuse_in_header` has `unique`.
const UNIQUE: usize = 8;

/// A request of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The `struct fuse_in_header`, and unused bytes.
    pub header: &'a [u8],
    /// The structure of the operation, and unused bytes. Its size follows from the operation.
    pub operation: &'a [u8],
    /// What follows it: names and data.
    pub payload: &'a [u8],
}

/// A place for a request.
#[derive(Debug)]
struct Place {
    header: AlignedBuf,
    /// None while who answers has it.
    payload: Option<AlignedBuf>,
    /// The addresses of both for REGISTER.
    parts: Box<[libc::iovec; 2]>,
    slot: Arc<Slot>,
    /// The kernel has it.
    is_lent: bool,
    /// Its number in the [`Queue`] if it had no request yet, and is not the first there.
    new: Option<u64>,
}

/// Places in the queue of one CPU, which one thread serves.
pub struct Ring {
    uring: IoUring<squeue::Entry128>,
    device: Arc<File>,
    queue: Queue,
    /// It is the first of its queue, and has not offered a place yet.
    is_first: bool,
    payload_bytes: usize,
    places: Vec<Place>,
    late: Arc<Late>,
    /// Submission entries that are not handed in; the last goes first.
    waiting: Vec<squeue::Entry128>,
    /// Places that were given to the kernel with an answer since it was last asked for completions.
    committed: Vec<u64>,
    /// Completions to look at: what they are of, and their results.
    completed: Vec<(u64, i32)>,
}

// SAFETY: the raw pointers are those to the memory of the places, which belongs to the ring.
#[allow(unsafe_code)]
unsafe impl Send for Ring {}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("queue", &self.queue.number).finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring for one of the [`queues`](crate::queues) of the connection that has `device`
    /// (an open `/dev/fuse`) open. `payload_bytes` is the largest of 8192, `max_write` and the
    /// bytes of `max_pages` as the reply to INIT has them. Nothing is asked before
    /// [`serve`](Self::serve).
    ///
    /// # Errors
    /// If the system has no `io_uring` of this kind, forbids it, or lacks memory for it.
    pub fn new(device: &Arc<File>, queue: &Queue, payload_bytes: usize) -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(ENTRIES)?;
        let late = Arc::new(Late::new()?);
        let (device, queue, is_first) = (Arc::clone(device), queue.clone(), queue.add_ring());
        Ok(Self {
            uring,
            device,
            queue,
            is_first,
            payload_bytes,
            places: Vec::new(),
            late,
            waiting: Vec::new(),
            committed: Vec::new(),
            completed: Vec::new(),
        })
    }

    /// Serves requests until the kernel has unmounted. `answer` is called in this thread, one
    /// request at a time; it need not have answered when it returns. The thread stays on the CPU of
    /// the queue, where the program waits that has asked.
    ///
    /// # Errors
    /// If the kernel refuses, or if `answer` panicked; the others are answered even so.
    pub fn serve(mut self, mut answer: impl FnMut(Message<'_>, Reply, &mut Placement)) -> io::Result<()> {
        let mut placement = Placement::new(&self.queue);
        self.uring.submitter().register_enable_rings()?;
        self.watch_late();
        self.begin()?;
        let mut panicked = false;
        while self.places.iter().any(|place| place.is_lent) {
            placement.hand_over();
            self.next_completions()?;
            for (which, result) in std::mem::take(&mut self.completed) {
                if which == WAKE {
                    for number in self.late.take() {
                        self.commit(number);
                    }
                    self.watch_late();
                    continue;
                }
                let Some(number) = usize::try_from(which).ok().filter(|number| *number < self.places.len())
                else {
                    continue;
                };
                self.places[number].is_lent = false;
                match result {
                    0.. => {
                        placement.take_over();
                        let mut answer = |message: Message<'_>, reply| answer(message, reply, &mut placement);
                        panicked |= self.ask(number, &mut answer).is_err();
                        if self.places.iter().all(|place| !place.is_lent) {
                            self.add_place()?;
                        }
                    }
                    // The kernel has unmounted.
                    _ if matches!(-result, libc::ENOTCONN | libc::ECONNABORTED | libc::ENODEV) => {}
                    _ => return Err(io::Error::from_raw_os_error(-result)),
                }
            }
        }
        if panicked { Err(io::Error::other("the answer to a request panicked")) } else { Ok(()) }
    }

    /// Offers the kernel a place, in each queue that of the first ring before the others.
    fn begin(&mut self) -> io::Result<()> {
        if !self.is_first {
            self.queue.wait_for_first();
            return self.add_place();
        }
        self.offer()?;
        self.is_first = false;
        self.queue.begin();
        Ok(())
    }

    /// Hands in what is to be submitted, and gets completions, for which it waits.
    fn next_completions(&mut self) -> io::Result<()> {
        let committed = std::mem::take(&mut self.committed);
        let new = self.queue.new_places();
        if !committed.is_empty() && !new.is_empty() {
            self.submit(0)?;
            // A request that waited for the place would have completed it during the call.
            let is_free = |number: &u64| self.completed.iter().all(|(which, _)| which != number);
            if self.uring.submission().is_empty() && committed.iter().any(is_free) {
                self.queue.settle(&new);
            }
        }
        match (self.completed.is_empty(), self.waiting.is_empty()) {
            (true, _) => self.submit(1),
            (false, false) => self.submit(0),
            (false, true) => Ok(()),
        }
    }

    /// Hands in what is to be submitted, waits for so many completions, and takes those that there
    /// are.
    fn submit(&mut self, wanted: usize) -> io::Result<()> {
        loop {
            let is_all = self.push_waiting();
            let submitted = self.uring.submit_and_wait(if is_all { wanted } else { 0 });
            self.completed.extend(
                self.uring.completion().map(|entry: cqueue::Entry| (entry.user_data(), entry.result())),
            );
            match submitted {
                Ok(_) if is_all => return Ok(()),
                Ok(_) => {}
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) =>
                {
                    if !self.completed.is_empty() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Moves entries to the submission queue. Returns true if all had room.
    #[allow(unsafe_code)]
    fn push_waiting(&mut self) -> bool {
        let mut submission = self.uring.submission();
        while let Some(entry) = self.waiting.last() {
            // SAFETY: the memory to which an entry points stays in place until its completion.
            if unsafe { submission.push(entry) }.is_err() {
                return false;
            }
            self.waiting.pop();
        }
        true
    }

    /// Lets a completion come when a place is answered late.
    fn watch_late(&mut self) {
        let wake = types::Fd(self.late.wake.as_raw_fd());
        let events = u32::try_from(libc::POLLIN).unwrap_or_default();
        self.waiting.push(opcode::PollAdd::new(wake, events).build().user_data(WAKE).into());
    }

    /// Offers the kernel one more place.
    fn add_place(&mut self) -> io::Result<()> {
        let number = self.offer()?;
        self.places[number].new = Some(self.queue.add_new());
        Ok(())
    }

    /// Offers the kernel a place, at once. Returns its number here.
    fn offer(&mut self) -> io::Result<usize> {
        let mut header = AlignedBuf::zeroed(IN_OUT + OP_IN + ENT_IN_OUT);
        let mut payload = AlignedBuf::zeroed(self.payload_bytes);
        let part =
            |buf: &mut AlignedBuf| libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
        let parts = Box::new([part(&mut header), part(&mut payload)]);
        let number = self.places.len();
        let slot = Slot::new(number, &self.late, &self.queue);
        self.places.push(Place { header, payload: Some(payload), parts, slot, is_lent: false, new: None });
        self.lend(number, REGISTER, 0);
        self.submit(0)?;
        Ok(number)
    }

    /// Gives the kernel a place, with the reply to the request with this `commit_id`.
    fn lend(&mut self, number: usize, command: u32, commit_id: u64) {
        let place = &mut self.places[number];
        place.is_lent = true;
        // A `struct fuse_uring_cmd_req`: flags, commit_id and qid.
        let mut request = [0; 80];
        request[8..16].copy_from_slice(&commit_id.to_ne_bytes());
        request[16..18].copy_from_slice(&self.queue.number.to_ne_bytes());
        let entry = opcode::UringCmd80::new(types::Fd(self.device.as_raw_fd()), command).cmd(request);
        let entry = if command == REGISTER {
            with_len(entry.addr(Some(place.parts.as_ptr() as u64)).build(), place.parts.len())
        } else {
            self.committed.push(number as u64);
            entry.build()
        };
        self.waiting.push(entry.user_data(number as u64));
    }

    /// Has a request answered.
    fn ask(&mut self, number: usize, answer: &mut impl FnMut(Message<'_>, Reply)) -> std::thread::Result<()> {
        let place = &mut self.places[number];
        if let Some(new) = place.new.take() {
            self.queue.settle(&[new]);
        }
        let size = u32::from_ne_bytes(field(&place.header, PAYLOAD_SZ));
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(self.payload_bytes);
        {
            let mut exchange = place.slot.exchange.lock();
            exchange.stage = Stage::AtRing;
            exchange.payload = if size == 0 { place.payload.take() } else { None };
        }
        let payload = place.payload.as_deref().map_or(&[][..], |payload| &payload[..size]);
        let (header, rest) = place.header.split_at(IN_OUT);
        let message = Message { header, operation: &rest[..OP_IN], payload };
        let reply = Reply::new(&place.slot);
        let outcome = catch_unwind(AssertUnwindSafe(|| answer(message, reply)));
        let is_answered = {
            let mut exchange = place.slot.exchange.lock();
            let is_answered = exchange.stage == Stage::Answered;
            if !is_answered {
                exchange.stage = Stage::Late;
            }
            is_answered
        };
        if is_answered {
            self.commit(number);
        }
        outcome
    }

    /// Hands in the answer at a place.
    fn commit(&mut self, number: usize) {
        let place = &mut self.places[number];
        let (errno, len) = {
            let mut exchange = place.slot.exchange.lock();
            if std::mem::take(&mut exchange.waits) {
                self.queue.add_taker();
            }
            match exchange.payload.take() {
                Some(payload) => place.payload = Some(payload),
                None => {
                    if let Some(to) =
                        place.payload.as_mut().and_then(|payload| payload.get_mut(..exchange.len))
                    {
                        to.copy_from_slice(&exchange.body[..exchange.len]);
                    } else {
                        (exchange.errno, exchange.len) = (libc::EIO, 0);
                    }
                }
            }
            (exchange.errno, u32::try_from(exchange.len).unwrap_or_default())
        };
        let commit_id = u64::from_ne_bytes(field(&place.header, COMMIT_ID));
        let unique: [u8; 8] = field(&place.header, UNIQUE);
        // A `struct fuse_out_header`: len, error and unique.
        place.header[..4].copy_from_slice(&(OUT_HEADER + len).to_ne_bytes());
        place.header[4..8].copy_from_slice(&(-errno).to_ne_bytes());
        place.header[8..16].copy_from_slice(&unique);
        place.header[PAYLOAD_SZ..PAYLOAD_SZ + 4].copy_from_slice(&len.to_ne_bytes());
        self.lend(number, COMMIT_AND_FETCH, commit_id);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_first {
            // The others shall end, too.
            self.queue.begin();
        }
        // After an error the kernel may still have places, whose memory is never freed then.
        for place in self.places.drain(..).filter(|place| place.is_lent) {
            std::mem::forget(place);
        }
    }
}

/// Returns a field of a header: the `N` bytes from `at` on.
fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| header[at + n])
}

/// Sets `len` of a submission entry, which `UringCmd80` leaves at 0.
#[allow(unsafe_code)]
fn with_len(mut entry: squeue::Entry128, len: usize) -> squeue::Entry128 {
    /// Where a `struct io_uring_sqe` has `len`.
    const LEN: usize = 24;
    const { assert!(size_of::<squeue::Entry128>() == 128) };
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    // SAFETY: an `Entry128` is a `struct io_uring_sqe` of 128 bytes (`repr(C)`), of plain numbers,
    // and it is borrowed exclusively.
    unsafe { (&raw mut entry).cast::<u8>().add(LEN).cast::<u32>().write_unaligned(len) };
    entry
}
