//! A solid-state disk: dies behind channels, a translation layer, one command processor and one
//! interface.
//!
//! A transfer waits for its turn at the processor, which each direction passes at no more than the
//! published rate of commands and bytes; then for its dies, if it reads from them; then it takes
//! the published latency. Sequential reads find their data in the disk's memory. Writes are
//! acknowledged when they are there, which keeps them from loss; programming, cleaning and erasing
//! go on behind. Reads go before what a die has not begun, and wait for what it has; writes wait
//! when the memory is full. So slow responses, and the rate of writes at random, come from the
//! translation layer.

use super::dies::Dies;
use super::spec::{self, Condition, Spec};
use super::translation::{Shape, Translation, Wear, Work};
use super::{Service, invalid};
use crate::error::Error;
use crate::queue::Transfer;
use crate::time::Time;
use spindle_device::Op;
use std::collections::VecDeque;

/// The transfer that published latencies and rates of commands are about, and what the translation
/// layer moves.
const UNIT_BYTES: u64 = 4096;

/// How many sequences it follows at once.
const SEQUENCES: usize = 16;

/// What one direction takes.
#[derive(Clone, Debug)]
struct Way {
    random: Time,
    sequential: Time,
    /// Least distance of random commands.
    command: Time,
    /// Nanoseconds per byte.
    byte_ns: f64,
    /// When the processor can pass the next transfer.
    free_at: Time,
    /// Where the latest transfers ended, to know sequential ones by; a ring.
    ends: [u64; SEQUENCES],
    newest: usize,
}

/// A solid-state disk.
#[derive(Clone, Debug)]
pub struct Flash {
    sectors: u64,
    sector_bytes: u32,
    queue_depth: u32,
    read: Way,
    write: Way,
    dies: Dies,
    layer: Translation,
    die_read: Time,
    die_program: Time,
    die_erase: Time,
    /// When each of the pages in the memory will be programmed, the oldest first.
    in_memory: VecDeque<Time>,
    memory_pages: usize,
    flush: Time,
    host_bytes: u64,
    /// What the layer gave the dies to do last.
    work: Vec<Work>,
}

impl Flash {
    /// Returns the disk that `spec` describes.
    ///
    /// # Errors
    /// When a figure is out of its range.
    pub fn new(spec: &Spec, flash: &spec::Flash) -> Result<Self, Error> {
        let others = [
            ("geometry", spec.geometry.is_some()),
            ("seek", spec.seek.is_some()),
            ("controller", spec.controller.is_some()),
            ("read_buffer", spec.read_buffer.is_some()),
            ("command_queue", spec.command_queue.is_some()),
            ("write_cache", spec.write_cache.is_some()),
            ("shingled", spec.shingled.is_some()),
        ];
        if let Some((other, _)) = others.iter().find(|(_, present)| *present) {
            return Err(invalid(other, "a disk with [flash] has nothing that turns"));
        }
        if flash.sector_bytes < 512 || !flash.sector_bytes.is_power_of_two() || flash.sector_bytes > 4096 {
            return Err(invalid("flash.sector_bytes", "must be a power of two from 512 to 4096"));
        }
        let positive = [
            ("flash.capacity_gb", flash.capacity_gb, 1e9),
            ("flash.iops", flash.iops, 1e9),
            ("flash.read_mb_s", flash.read_mb_s, 1e7),
            ("flash.write_mb_s", flash.write_mb_s, 1e7),
            ("flash.channel_mb_s", flash.channel_mb_s, 1e7),
            ("flash.queue_depth", f64::from(flash.queue_depth), 65536.0),
            ("flash.channels", f64::from(flash.channels), f64::from(flash.dies)),
            ("flash.dies", f64::from(flash.dies), 65536.0),
            ("flash.block_pages", f64::from(flash.block_pages), 65536.0),
            ("flash.spare_percent", flash.spare_percent, 1000.0),
            ("flash.memory_kib", f64::from(flash.memory_kib), f64::from(1 << 24)),
        ];
        if let Some((field, ..)) =
            positive.iter().find(|(_, value, most)| !(*value >= 0.001 && value <= most))
        {
            return Err(invalid(field, "is not within reason"));
        }
        let times = [
            ("flash.random_read_us", flash.random_read_us),
            ("flash.random_write_us", flash.random_write_us),
            ("flash.sequential_read_us", flash.sequential_read_us),
            ("flash.sequential_write_us", flash.sequential_write_us),
            ("flash.die_read_us", flash.die_read_us),
            ("flash.die_program_us", flash.die_program_us),
            ("flash.die_erase_us", flash.die_erase_us),
            ("flash.flush_us", flash.flush_us),
        ];
        if let Some((field, _)) = times.iter().find(|(_, us)| !(0.0..=1e7).contains(us)) {
            return Err(invalid(field, "must be from 0 to 10000000"));
        }
        if !flash.page_kib.is_power_of_two() || !(4..=1024).contains(&flash.page_kib) {
            return Err(invalid("flash.page_kib", "must be a power of two from 4 to 1024"));
        }
        if flash.memory_kib < flash.page_kib {
            return Err(invalid("flash.memory_kib", "must hold a page"));
        }
        let us = |us: f64| Time::from_ms_f64(us / 1e3);
        let channel = Time::from_secs_f64(f64::from(flash.page_kib) * 1024.0 / (flash.channel_mb_s * 1e6));
        if us(flash.die_read_us) + channel > us(flash.random_read_us) {
            let why = "and a page on its channel are parts of random_read_us, so not longer";
            return Err(invalid("flash.die_read_us", why));
        }
        let way = |random: f64, sequential: f64, mb_s: f64| Way {
            random: us(random),
            sequential: us(sequential),
            command: Time::from_secs_f64(1.0 / flash.iops),
            byte_ns: 1e3 / mb_s,
            free_at: Time::ZERO,
            ends: [u64::MAX; SEQUENCES],
            newest: 0,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked above")]
        let bytes = (flash.capacity_gb * 1e9) as u64;
        let too_large = "with capacity_gb and the shape of the flash, is no number of blocks that can be: from \
                         three rows of them more than the host's up to 16 TB in all";
        let shape = Shape {
            units: u32::try_from(bytes.div_ceil(UNIT_BYTES))
                .map_err(|_| invalid("flash.capacity_gb", "must be at most 16 TB"))?,
            page_units: flash.page_kib / 4,
            block_pages: flash.block_pages,
            dies: flash.dies,
            spare: flash.spare_percent / 100.0,
        };
        Ok(Self {
            sectors: bytes / u64::from(flash.sector_bytes),
            sector_bytes: flash.sector_bytes,
            queue_depth: flash.queue_depth,
            read: way(flash.random_read_us, flash.sequential_read_us, flash.read_mb_s),
            write: way(flash.random_write_us, flash.sequential_write_us, flash.write_mb_s),
            dies: Dies::new(flash.dies, flash.channels, channel),
            layer: Translation::new(shape, flash.condition == Condition::Aged)
                .ok_or_else(|| invalid("flash.spare_percent", too_large))?,
            die_read: us(flash.die_read_us),
            die_program: us(flash.die_program_us),
            die_erase: us(flash.die_erase_us),
            in_memory: VecDeque::new(),
            memory_pages: (flash.memory_kib / flash.page_kib) as usize,
            flush: us(flash.flush_us),
            host_bytes: 0,
            work: Vec::new(),
        })
    }

    /// Returns the capacity in sectors.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Returns the bytes per sector.
    pub const fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// Returns how many commands it takes at once.
    pub const fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    /// Returns what was written so far.
    pub const fn wear(&self) -> Wear {
        let (units, erased_blocks) = self.layer.totals();
        Wear { host_bytes: self.host_bytes, flash_bytes: units * UNIT_BYTES, erased_blocks }
    }

    /// Starts a transfer.
    pub fn start(&mut self, now: Time, transfer: &Transfer) -> Service {
        let bytes = u64::from(transfer.sectors) * u64::from(self.sector_bytes);
        let way = if transfer.op == Op::Read { &mut self.read } else { &mut self.write };
        let sequential = way.follows(transfer);
        let passing = way.bytes(bytes);
        let from = way.free_at.max(now);
        way.free_at = from + if sequential { passing } else { passing.max(way.command) };
        let latency = if sequential { way.sequential } else { way.random };
        let rest = way.bytes(bytes.saturating_sub(UNIT_BYTES));
        let offset = transfer.sector * u64::from(self.sector_bytes);
        let ready = match transfer.op {
            Op::Write => self.take(from, offset, bytes),
            Op::Read if sequential => from,
            Op::Read => from + self.sense(from, offset, bytes),
        };
        Service {
            done: ready + latency + rest,
            overhead: latency,
            wait: ready - now,
            transfer: rest,
            hit: sequential,
            ..Service::at(now)
        }
    }

    /// Makes acknowledged writes durable: the memory is safe.
    pub fn flush(&mut self, now: Time) -> Time {
        self.write.free_at.max(now) + self.flush
    }

    /// Forgets what whole units of these sectors hold.
    pub fn discard(&mut self, sector: u64, sectors: u64) {
        let bytes = u64::from(self.sector_bytes);
        let (start, end) = (sector * bytes, (sector + sectors) * bytes);
        for unit in start.div_ceil(UNIT_BYTES)..end / UNIT_BYTES {
            self.layer.discard(number(unit));
        }
    }

    /// Occupies the dies that hold the data for a read; returns how much later than on idle dies
    /// the last of them has them.
    fn sense(&mut self, from: Time, offset: u64, bytes: u64) -> Time {
        let (mut late, mut last) = (Time::ZERO, None);
        for unit in offset / UNIT_BYTES..(offset + bytes).div_ceil(UNIT_BYTES) {
            let place = self.layer.place(number(unit));
            if let Some((die, _)) = place.filter(|place| last.replace(*place) != Some(*place)) {
                late = late.max(self.dies.read(die, from, self.die_read));
            }
        }
        late
    }

    /// Takes the data of a write into the memory, and gives the dies what follows from it; returns
    /// when the memory had room.
    fn take(&mut self, from: Time, offset: u64, bytes: u64) -> Time {
        self.host_bytes += bytes;
        let end = offset + bytes;
        for unit in offset / UNIT_BYTES..end.div_ceil(UNIT_BYTES) {
            let partly = unit * UNIT_BYTES < offset || (unit + 1) * UNIT_BYTES > end;
            self.layer.write(number(unit), partly, &mut self.work);
        }
        let mut ready = from;
        let work = std::mem::take(&mut self.work);
        for work in &work {
            match *work {
                Work::Read { die } => self.dies.fetch(die, ready, self.die_read),
                Work::Program { die, erase } => {
                    if self.in_memory.len() >= self.memory_pages
                        && let Some(programmed) = self.in_memory.pop_front()
                    {
                        ready = ready.max(programmed);
                    }
                    let takes = if erase { self.die_erase + self.die_program } else { self.die_program };
                    self.in_memory.push_back(self.dies.program(die, ready, takes));
                }
            }
        }
        self.work = work;
        self.work.clear();
        ready
    }
}

impl Way {
    /// Returns true if the transfer begins where one of the latest ended; remembers where this one
    /// ends.
    fn follows(&mut self, transfer: &Transfer) -> bool {
        let found = self.ends.iter().position(|end| *end == transfer.sector);
        let place = found.unwrap_or_else(|| {
            self.newest = (self.newest + 1) % SEQUENCES;
            self.newest
        });
        self.ends[place] = transfer.end();
        found.is_some()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "within a day"
    )]
    fn bytes(&self, bytes: u64) -> Time {
        Time((bytes as f64 * self.byte_ns) as u64)
    }
}

/// Returns the number of a unit, of which a disk has fewer than 2^32.
fn number(unit: u64) -> u32 {
    u32::try_from(unit).unwrap_or(u32::MAX)
}
