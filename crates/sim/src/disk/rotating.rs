//! A rotating disk with its controller: overhead, motion, bus, read buffer and write cache put
//! together.
//!
//! What the drive does by itself between two requests (reading on, emptying the write cache) is
//! worked out when the next request comes.

use super::arm::{Arm, Mechanism, Motion};
use super::read_buffer::{Held, ReadBuffer};
use super::recent::Recent;
use super::spec::{self, Forwarding, Spec};
use super::write_cache::WriteCache;
use super::{Service, invalid};
use crate::error::Error;
use crate::queue::Transfer;
use crate::time::Time;
use spindle_device::Op;

/// The largest memory of a drive: 16 GiB.
const MOST_KIB: u32 = 1 << 24;

/// From the command to the first movement.
#[derive(Clone, Copy, Debug)]
struct Overhead {
    /// Where the platters are needed.
    miss: Time,
    /// Where the buffer or the write cache does.
    hit: Time,
}

/// Overheads by the transfer before.
#[derive(Clone, Copy, Debug)]
struct Overheads {
    after_read: Each,
    after_write: Each,
}

#[derive(Clone, Copy, Debug)]
struct Each {
    read: Overhead,
    write: Overhead,
}

impl Overheads {
    fn new(controller: &spec::Controller) -> Result<Self, Error> {
        let hit_ms = controller.hit_overhead_ms.or(controller.write_overhead_ms);
        let after_read = spec::Overheads {
            overhead_ms: controller.overhead_ms,
            hit_overhead_ms: controller.hit_overhead_ms.unwrap_or(controller.overhead_ms),
            write_overhead_ms: controller.write_overhead_ms.unwrap_or(controller.overhead_ms),
            write_hit_overhead_ms: controller
                .write_hit_overhead_ms
                .or(hit_ms)
                .unwrap_or(controller.overhead_ms),
        };
        let after_write = controller.after_write.as_ref().unwrap_or(&after_read);
        Ok(Self {
            after_read: Each::new("controller", &after_read)?,
            after_write: Each::new("controller.after_write", after_write)?,
        })
    }

    const fn after(&self, last: Op) -> &Each {
        match last {
            Op::Read => &self.after_read,
            Op::Write => &self.after_write,
        }
    }
}

impl Each {
    fn new(table: &str, spec: &spec::Overheads) -> Result<Self, Error> {
        let time = |field, ms: f64| match ms {
            0.0..=1000.0 => Ok(Time::from_ms_f64(ms)),
            _ => Err(invalid(&format!("{table}.{field}"), "must be from 0 to 1000")),
        };
        Ok(Self {
            read: Overhead {
                miss: time("overhead_ms", spec.overhead_ms)?,
                hit: time("hit_overhead_ms", spec.hit_overhead_ms)?,
            },
            write: Overhead {
                miss: time("write_overhead_ms", spec.write_overhead_ms)?,
                hit: time("write_hit_overhead_ms", spec.write_hit_overhead_ms)?,
            },
        })
    }
}

/// From how many commands the drive chooses the next.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// How many it holds.
    pub depth: usize,
    /// How long one may wait.
    pub age_limit: Time,
}

impl Choice {
    fn new(spec: Option<&spec::CommandQueue>) -> Result<Self, Error> {
        let Some(spec) = spec else { return Ok(Self { depth: 1, age_limit: Time::ZERO }) };
        if !(1..=65536).contains(&spec.depth) {
            return Err(invalid("command_queue.depth", "must be from 1 to 65536"));
        }
        if !(0.0..=1e6).contains(&spec.age_limit_ms) {
            return Err(invalid("command_queue.age_limit_ms", "must be from 0 to 1000000"));
        }
        Ok(Self { depth: spec.depth as usize, age_limit: Time::from_ms_f64(spec.age_limit_ms) })
    }
}

/// A rotating disk.
#[derive(Clone, Debug)]
pub struct Rotating {
    mechanism: Mechanism,
    sector_bytes: u32,
    overheads: Overheads,
    choice: Choice,
    /// The last transfer.
    last: Op,
    /// Nanoseconds per byte on the bus.
    read_bus_ns: f64,
    write_bus_ns: f64,
    forwarding: Forwarding,
    /// Parts of a request, with [`Forwarding::Sector`].
    read_watermark: f64,
    write_watermark: f64,
    read_delay: Time,
    write_delay: Time,
    buffer: Option<ReadBuffer>,
    cache: Option<WriteCache>,
    cache_idle: Time,
    arm: Arm,
    /// The sector after the last one transferred.
    head: u64,
    /// Time at which the heads are free again.
    free_at: Time,
    /// Before this, only a lack of room makes the drive empty its write cache.
    quiet_until: Time,
    /// When the write cache got the first of what it holds.
    dirty_since: Time,
    /// What was written from the cache: still there until other runs take its place.
    written: Recent,
}

impl Rotating {
    /// Returns the disk that `spec` describes, idle, with its heads on cylinder 0.
    ///
    /// # Errors
    /// When a part is missing or a figure is out of its range.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        let missing = |part| move || invalid(part, "a rotating disk must have it");
        let geometry = spec.geometry.as_ref().ok_or_else(missing("geometry"))?;
        let seek = spec.seek.as_ref().ok_or_else(missing("seek"))?;
        let controller = spec.controller.as_ref().ok_or_else(missing("controller"))?;
        let mechanism = Mechanism::new(geometry, seek, controller.zero_latency.unwrap_or(false))?;
        let overheads = Overheads::new(controller)?;
        let delay = |field, ms: Option<f64>| match ms.unwrap_or(0.0) {
            ms @ 0.0..=1000.0 => Ok(Time::from_ms_f64(ms)),
            _ => Err(invalid(field, "must be from 0 to 1000")),
        };
        let watermarks = [
            ("controller.read_watermark", controller.read_watermark),
            ("controller.write_watermark", controller.write_watermark),
        ];
        for (field, part) in watermarks {
            match part {
                Some(part) if !(0.0..=1.0).contains(&part) => {
                    return Err(invalid(field, "must be from 0 to 1"));
                }
                Some(_) if controller.forwarding != Forwarding::Sector => {
                    return Err(invalid(field, "needs the forwarding sector"));
                }
                _ => {}
            }
        }
        let write_bus_mb_s = controller.write_bus_mb_s.unwrap_or(controller.bus_mb_s);
        let rates =
            [("controller.bus_mb_s", controller.bus_mb_s), ("controller.write_bus_mb_s", write_bus_mb_s)];
        if let Some((field, _)) = rates.iter().find(|(_, mb_s)| !(0.01..=1e6).contains(mb_s)) {
            return Err(invalid(field, "must be from 0.01 to 1000000"));
        }
        let sector_bytes = geometry.sector_bytes;
        let fastest = geometry.zone.iter().map(|zone| zone.sectors_per_track).max().unwrap_or(0);
        let media_mb_s = f64::from(fastest) * f64::from(sector_bytes) * geometry.rpm / 60e6;
        if controller.forwarding == Forwarding::Direct && controller.bus_mb_s.min(write_bus_mb_s) < media_mb_s
        {
            return Err(invalid("controller.forwarding", "direct needs a bus as fast as the platters"));
        }
        let sizes = [
            ("read_buffer.segments", spec.read_buffer.as_ref().map(|buffer| buffer.segments), 1024),
            ("read_buffer.segment_kib", spec.read_buffer.as_ref().map(|buffer| buffer.segment_kib), MOST_KIB),
            ("write_cache.size_kib", spec.write_cache.as_ref().map(|cache| cache.size_kib), MOST_KIB),
        ];
        if let Some((field, ..)) = sizes.iter().find(|(_, size, most)| size.is_some_and(|size| size > *most))
        {
            return Err(invalid(field, "is not within reason"));
        }
        let sectors = |kib: u32| u64::from(kib) * 1024 / u64::from(sector_bytes);
        let buffer = spec.read_buffer.as_ref().map(|buffer| {
            let capacity = sectors(buffer.segment_kib);
            ReadBuffer::new(
                buffer.segments.min(4096),
                capacity,
                buffer.read_ahead_kib.map_or(capacity, sectors),
                buffer.read_ahead_until,
            )
        });
        let idle_ms = spec.write_cache.as_ref().map_or(0.0, |cache: &spec::WriteCache| cache.idle_ms);
        let together = mechanism.geometry.together();
        Ok(Self {
            arm: mechanism.parked(),
            mechanism,
            sector_bytes,
            overheads,
            choice: Choice::new(spec.command_queue.as_ref())?,
            last: Op::Read,
            read_bus_ns: 1e3 / controller.bus_mb_s,
            write_bus_ns: 1e3 / write_bus_mb_s,
            forwarding: controller.forwarding,
            read_watermark: controller.read_watermark.unwrap_or(0.0),
            write_watermark: controller.write_watermark.unwrap_or(0.0),
            read_delay: delay("controller.read_delay_ms", controller.read_delay_ms)?,
            write_delay: delay("controller.write_delay_ms", controller.write_delay_ms)?,
            buffer,
            cache: spec.write_cache.as_ref().map(|cache| WriteCache::new(sectors(cache.size_kib), together)),
            cache_idle: Time::from_ms_f64(idle_ms),
            head: 0,
            free_at: Time::ZERO,
            quiet_until: Time::ZERO,
            dirty_since: Time::ZERO,
            written: Recent::default(),
        })
    }

    /// Returns the capacity in sectors.
    pub const fn sectors(&self) -> u64 {
        self.mechanism.geometry.sectors()
    }

    /// Returns the bytes per sector.
    pub const fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// Returns how many sectors lie in one on the platters.
    pub const fn together(&self) -> u64 {
        self.mechanism.geometry.together()
    }

    /// Returns the sectors of an outermost cylinder.
    pub fn sectors_per_cylinder(&self) -> u64 {
        self.mechanism.geometry.sectors_per_cylinder()
    }

    /// Returns the time of a revolution.
    pub const fn revolution(&self) -> Time {
        self.mechanism.geometry.revolution()
    }

    /// Returns the sector after the last one transferred.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Returns from how many commands it chooses.
    pub const fn choice(&self) -> Choice {
        self.choice
    }

    /// Returns when the first sector of a transfer would begin, or its data be in memory, if it
    /// were started at `now`. What the drive does by itself meanwhile is not taken into account.
    pub fn reached(&self, now: Time, transfer: &Transfer) -> Time {
        let (start, sectors) = (transfer.sector, u64::from(transfer.sectors));
        let in_memory = match (transfer.op, &self.buffer, &self.cache) {
            (Op::Write, _, Some(cache)) => cache.has_room(sectors),
            (Op::Read, _, Some(cache)) if cache.holds(start, transfer.end()) => true,
            (Op::Read, Some(buffer), _) => buffer.has(start),
            _ => false,
        };
        if in_memory {
            return now;
        }
        let each = self.overheads.after(self.last);
        match transfer.op {
            Op::Read => {
                let from = self.free_at.max(now + each.read.miss);
                self.mechanism.in_order(self.arm, Op::Read, start, 1, from).begin
            }
            Op::Write => {
                let from = self.free_at.max(now + each.write.miss);
                self.mechanism.rewrite(self.arm, &self.written, start, sectors, from).begin
            }
        }
    }

    /// Carries out a transfer.
    pub fn start(&mut self, now: Time, transfer: &Transfer) -> Service {
        self.empty_cache(now);
        let service = match transfer.op {
            Op::Read => self.read(now, transfer),
            Op::Write => self.write(now, transfer),
        };
        self.last = transfer.op;
        service
    }

    /// Returns the time in which the heads move by so many cylinders before a write.
    pub fn seek(&self, cylinders: u32) -> Time {
        self.mechanism.seek(cylinders)
    }

    /// Moves the heads to the track of `sector`. A drive with a write cache moves them as it likes.
    pub fn prepare(&mut self, now: Time, sector: u64) {
        if self.cache.is_some() || sector >= self.sectors() {
            return;
        }
        let track = self.mechanism.geometry.place(sector).track;
        let seek = self.mechanism.reach(self.arm, Op::Write, track);
        if seek > Time::ZERO {
            self.stop_reading_on(now);
            self.free_at = self.free_at.max(now + self.overheads.after(self.last).write.miss) + seek;
        }
        (self.arm, self.head) = (Arm { track }, sector);
    }

    /// Writes everything that the write cache holds.
    pub fn flush(&mut self, now: Time) -> Time {
        if self.cache.is_none() {
            return now;
        }
        self.empty_cache(now);
        let ready = now + self.overheads.after(self.last).write.miss;
        self.free_at = self.free_at.max(ready);
        while let Some((start, end)) = self.next_run() {
            self.put(start, end, ready);
        }
        self.free_at
    }

    /// Moves sectors between the platters and the drive's own memory, which must hold no writes for
    /// them, not before `from`; returns when the last has passed.
    pub fn travel(&mut self, op: Op, start: u64, sectors: u64, from: Time) -> Time {
        let from = from.max(self.free_at);
        self.stop_reading_on(from);
        if op == Op::Write {
            self.forget(start, start + sectors, from);
            self.written.forget(start, start + sectors);
        }
        let motion = self.mechanism.in_order(self.arm, op, start, sectors, from);
        self.settle(&motion, start + sectors);
        motion.end
    }

    fn read(&mut self, now: Time, transfer: &Transfer) -> Service {
        let (start, end) = (transfer.sector, transfer.end());
        let hit_ready = now + self.overheads.after(self.last).read.hit;
        if self.written.holds(start, end) || self.cache.as_ref().is_some_and(|cache| cache.holds(start, end))
        {
            return self.hit(now, transfer);
        }
        while let Some((from, to)) = self.cache.as_mut().and_then(|cache| cache.take_overlapping(start, end))
        {
            self.put(from, to, now);
        }
        let held = match &mut self.buffer {
            Some(buffer) => buffer.look_up(&self.mechanism, start, end, hit_ready),
            None => Held::Nothing,
        };
        let ready = now + self.overheads.after(self.last).read.miss;
        let service = match held {
            Held::All => self.hit(now, transfer),
            Held::Coming { next, from, arm, halted } => {
                let motion = if halted {
                    self.mechanism.access(arm, Op::Read, next, end - next, from)
                } else {
                    self.mechanism.in_order(arm, Op::Read, next, end - next, from)
                };
                let direct = self.mechanism.access(arm, Op::Read, start, end - start, ready);
                if next <= start && direct.end < motion.end {
                    self.read_platters(now, ready, transfer, start)
                } else {
                    let mark = self.mark(arm, transfer, next, from, &motion);
                    self.deliver(now, hit_ready, transfer, motion, next, mark)
                }
            }
            Held::Beginning { next } => self.read_platters(now, ready, transfer, next),
            Held::Nothing => self.read_platters(now, ready, transfer, start),
        };
        self.quiet_until = service.done + self.cache_idle;
        service
    }

    /// Returns the buffer or the write cache has it.
    fn hit(&mut self, now: Time, transfer: &Transfer) -> Service {
        let bus = self.on_bus(Op::Read, transfer.sectors);
        if let Some(buffer) = &mut self.buffer {
            buffer.taken(&self.mechanism, transfer.end(), now + self.overheads.after(self.last).read.hit);
        }
        Service {
            done: now + self.overheads.after(self.last).read.hit + bus,
            overhead: self.overheads.after(self.last).read.hit,
            bus,
            hit: true,
            ..Service::at(now)
        }
    }

    /// Reads from `next` to the end of the request; what lies before `next` is in the buffer.
    fn read_platters(&mut self, now: Time, ready: Time, transfer: &Transfer, next: u64) -> Service {
        self.stop_reading_on(ready);
        let from = ready.max(self.free_at);
        let motion = self.mechanism.access(self.arm, Op::Read, next, transfer.end() - next, from);
        let mark = self.mark(self.arm, transfer, next, from, &motion);
        let mut service = self.deliver(now, ready, transfer, motion, next, mark);
        service.wait = from - ready;
        service.seek = motion.seek;
        service.rotation = motion.begin - (from + motion.seek);
        service.transfer = motion.end - motion.begin;
        service
    }

    /// Returns when as much of a read is in the buffer as the watermark wants, if the sectors from
    /// `next` on come from the platters by `motion`, which began with the heads at `arm` at `from`.
    fn mark(&self, arm: Arm, transfer: &Transfer, next: u64, from: Time, motion: &Motion) -> Time {
        let wanted = part(self.read_watermark, transfer.sectors);
        let missing = (transfer.sector + u64::from(wanted)).saturating_sub(next);
        match (missing, wanted) {
            (0, _) => Time::ZERO,
            (_, 1) => motion.begin + self.slot_time(motion.arm),
            _ => self.mechanism.access(arm, Op::Read, next, missing, from).end.min(motion.end),
        }
    }

    /// Returns the data from `next` on come from the platters by `motion`, those before are in the
    /// buffer; all go to the host from `mark` on.
    fn deliver(
        &mut self,
        now: Time,
        ready: Time,
        transfer: &Transfer,
        motion: Motion,
        next: u64,
        mark: Time,
    ) -> Service {
        let (start, end) = (transfer.sector, transfer.end());
        let on_bus = self.on_bus(Op::Read, transfer.sectors);
        let from_buffer = next > start;
        let in_buffer = if mark > ready { mark + self.read_delay } else { ready };
        let done = match self.forwarding {
            Forwarding::Direct => motion.end.max(ready),
            Forwarding::Sector => (motion.end.max(ready) + self.on_bus(Op::Read, 1)).max(in_buffer + on_bus),
            Forwarding::Whole => motion.end.max(ready) + on_bus,
        };
        self.settle(&motion, end);
        if let Some(buffer) = &mut self.buffer {
            buffer.filled(&self.mechanism, start.min(next), end, motion.end, motion.arm);
        }
        Service {
            done,
            overhead: ready - now,
            transfer: motion.end - ready,
            bus: done - motion.end.max(ready),
            hit: from_buffer,
            ..Service::at(now)
        }
    }

    fn write(&mut self, now: Time, transfer: &Transfer) -> Service {
        let (start, end) = (transfer.sector, transfer.end());
        let sectors = end - start;
        if self.cache.as_ref().is_some_and(|cache| cache.accepts(sectors)) {
            self.forget(start, end, now);
            let ready = now + self.overheads.after(self.last).write.hit;
            let mut room_at = ready;
            while self.cache.as_ref().is_some_and(|cache| !cache.has_room(sectors)) {
                let Some((from, to)) = self.next_run() else { break };
                self.put(from, to, now);
                room_at = ready.max(self.free_at);
            }
            let bus = self.on_bus(Op::Write, transfer.sectors);
            if let Some(cache) = &mut self.cache {
                if cache.is_empty() {
                    self.dirty_since = room_at + bus;
                }
                cache.insert(start, end);
            }
            let (overhead, wait) = (self.overheads.after(self.last).write.hit, room_at - ready);
            return Service { done: room_at + bus, overhead, wait, bus, hit: true, ..Service::at(now) };
        }
        while let Some((from, to)) = self.cache.as_mut().and_then(|cache| cache.take_overlapping(start, end))
        {
            self.put(from, to, now);
        }
        let ready = now + self.overheads.after(self.last).write.miss;
        self.stop_reading_on(ready);
        self.forget(start, end, ready);
        let from = ready.max(self.free_at);
        let track = self.mechanism.geometry.place(start).track;
        let seek = self.mechanism.reach(self.arm, Op::Write, track);
        let media = Time(self.slot_time(Arm { track }).0 * sectors);
        // The platters must not run ahead of the bus.
        let lead = self.write_delay
            + match self.forwarding {
                Forwarding::Direct => Time::ZERO,
                Forwarding::Sector => self
                    .on_bus(Op::Write, part(self.write_watermark, transfer.sectors))
                    .max(self.on_bus(Op::Write, transfer.sectors) - media),
                Forwarding::Whole => self.on_bus(Op::Write, transfer.sectors),
            };
        let late = lead - (seek + (from - ready));
        let motion = self.mechanism.rewrite(self.arm, &self.written, start, sectors, from + late);
        self.settle(&motion, end);
        Service {
            done: motion.end,
            overhead: self.overheads.after(self.last).write.miss,
            wait: from - ready,
            seek: motion.seek,
            rotation: motion.begin - (from + late + motion.seek),
            transfer: motion.end - motion.begin,
            bus: late,
            hit: false,
        }
    }

    /// Empties the write cache as far as the drive comes by `until`.
    fn empty_cache(&mut self, until: Time) {
        loop {
            let from = self.free_at.max(self.quiet_until).max(self.dirty_since);
            if from >= until || self.cache.as_ref().is_none_or(WriteCache::is_empty) {
                return;
            }
            let Some((start, end)) = self.next_run() else { return };
            self.put(start, end, from);
        }
    }

    /// Returns what the write cache gives to the platters next: at most a track at once, so that a
    /// read need not wait long.
    fn next_run(&mut self) -> Option<(u64, u64)> {
        let most = self.mechanism.geometry.per_track(self.arm.track);
        self.cache.as_mut()?.take_next(self.head, most)
    }

    /// Writes sectors of the write cache, not before `from`.
    fn put(&mut self, start: u64, end: u64, from: Time) {
        let from = from.max(self.free_at);
        self.stop_reading_on(from);
        self.forget(start, end, from);
        let motion = self.mechanism.rewrite(self.arm, &self.written, start, end - start, from);
        self.settle(&motion, end);
        let together = self.mechanism.geometry.together();
        self.written.add(start / together * together, end.next_multiple_of(together));
    }

    /// Drops these sectors from the read buffer at `now`, because they are stale.
    fn forget(&mut self, start: u64, end: u64, now: Time) {
        let Some(buffer) = &mut self.buffer else { return };
        if let Some(arm) = buffer.invalidate(&self.mechanism, start, end, now) {
            self.arm = arm;
        }
    }

    fn stop_reading_on(&mut self, now: Time) {
        if let Some(arm) = self.buffer.as_mut().and_then(|buffer| buffer.interrupt(&self.mechanism, now)) {
            self.arm = arm;
        }
    }

    fn settle(&mut self, motion: &Motion, head: u64) {
        self.arm = motion.arm;
        self.free_at = motion.end;
        self.head = head;
    }

    /// Returns the time of so many sectors on the bus.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and within a day")]
    fn on_bus(&self, op: Op, sectors: u32) -> Time {
        let ns = if op == Op::Read { self.read_bus_ns } else { self.write_bus_ns };
        Time((f64::from(sectors) * f64::from(self.sector_bytes) * ns) as u64)
    }

    /// Returns the time of one sector under the head.
    fn slot_time(&self, arm: Arm) -> Time {
        Time(self.revolution().0 / self.mechanism.geometry.per_track(arm.track))
    }
}

/// Returns so many sectors of a request as a watermark wants: at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^32")]
fn part(watermark: f64, sectors: u32) -> u32 {
    ((f64::from(sectors) * watermark).ceil() as u32).clamp(1, sectors.max(1))
}
