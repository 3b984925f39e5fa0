//! A solid-state disk: independent dies behind one command processor and one interface.
//!
//! A transfer waits for its turn at the processor, which each direction passes at no more than the
//! published rate of commands and bytes; then for its dies, if it reads from them; then it takes
//! the published latency. Sequential transfers find their data in the disk's memory, or leave them
//! there. Programming goes on behind acknowledged writes, and keeps reads from the dies that it
//! occupies.

use super::spec::{self, Spec};
use super::{Service, invalid};
use crate::error::Error;
use crate::queue::Transfer;
use crate::time::Time;
use spindle_device::Op;

/// The transfer that published latencies and rates of commands are about.
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
    /// Time at which each die is free again.
    dies: Vec<Time>,
    stripe_bytes: u64,
    die_read: Time,
    die_program: Time,
    flush: Time,
    /// Bytes written, to know which die is next: what is written goes to the dies in turn.
    written: u64,
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
            ("write_cache", spec.write_cache.is_some()),
        ];
        if let Some((other, _)) = others.iter().find(|(_, present)| *present) {
            return Err(invalid(other, "a disk with [flash] has nothing that turns"));
        }
        if flash.sector_bytes < 512 || !flash.sector_bytes.is_power_of_two() || flash.sector_bytes > 1 << 16 {
            return Err(invalid("flash.sector_bytes", "must be a power of two from 512 to 65536"));
        }
        let positive = [
            ("flash.capacity_gb", flash.capacity_gb, 1e9),
            ("flash.random_read_iops", flash.random_read_iops, 1e9),
            ("flash.random_write_iops", flash.random_write_iops, 1e9),
            ("flash.read_mb_s", flash.read_mb_s, 1e7),
            ("flash.write_mb_s", flash.write_mb_s, 1e7),
            ("flash.queue_depth", f64::from(flash.queue_depth), 65536.0),
            ("flash.dies", f64::from(flash.dies), 65536.0),
            ("flash.stripe_kib", f64::from(flash.stripe_kib), 65536.0),
        ];
        if let Some((field, ..)) =
            positive.iter().find(|(_, value, most)| !(*value >= 0.001 && value <= most))
        {
            return Err(invalid(field, "is not within reason"));
        }
        if flash.die_read_us > flash.random_read_us {
            return Err(invalid("flash.die_read_us", "is part of random_read_us, so not longer"));
        }
        let way = |random: f64, sequential: f64, iops: f64, mb_s: f64| Way {
            random: Time::from_ms_f64(random / 1e3),
            sequential: Time::from_ms_f64(sequential / 1e3),
            command: Time::from_secs_f64(1.0 / iops),
            byte_ns: 1e3 / mb_s,
            free_at: Time::ZERO,
            ends: [u64::MAX; SEQUENCES],
            newest: 0,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "range checked above")]
        let bytes = (flash.capacity_gb * 1e9) as u64;
        Ok(Self {
            sectors: bytes / u64::from(flash.sector_bytes),
            sector_bytes: flash.sector_bytes,
            queue_depth: flash.queue_depth,
            read: way(
                flash.random_read_us,
                flash.sequential_read_us,
                flash.random_read_iops,
                flash.read_mb_s,
            ),
            write: way(
                flash.random_write_us,
                flash.sequential_write_us,
                flash.random_write_iops,
                flash.write_mb_s,
            ),
            dies: vec![Time::ZERO; flash.dies as usize],
            stripe_bytes: u64::from(flash.stripe_kib) * 1024,
            die_read: Time::from_ms_f64(flash.die_read_us / 1e3),
            die_program: Time::from_ms_f64(flash.die_program_us / 1e3),
            flush: Time::from_ms_f64(flash.flush_us / 1e3),
            written: 0,
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

    /// Commands at once.
    pub const fn queue_depth(&self) -> u32 {
        self.queue_depth
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
        let mut ready = from;
        if transfer.op == Op::Write {
            self.program(from, bytes);
        } else if !sequential {
            ready = self.sense(from, transfer.sector * u64::from(self.sector_bytes), bytes);
        }
        Service {
            done: ready + latency + rest,
            overhead: latency,
            wait: ready - now,
            transfer: rest,
            hit: sequential,
            ..Service::at(now)
        }
    }

    /// Makes acknowledged writes durable.
    pub fn flush(&mut self, now: Time) -> Time {
        self.write.free_at.max(now) + self.flush
    }

    /// Occupies the dies that hold the data for a read; when the last of them begins with it.
    fn sense(&mut self, from: Time, offset: u64, bytes: u64) -> Time {
        let (first, last) = (offset / self.stripe_bytes, (offset + bytes.max(1) - 1) / self.stripe_bytes);
        let mut ready = from;
        for stripe in first..=last {
            let die = self.die(scattered(stripe));
            let begin = self.dies[die].max(from);
            self.dies[die] = begin + self.die_read;
            ready = ready.max(begin);
        }
        ready
    }

    /// Occupies the dies that take the data of a write.
    fn program(&mut self, from: Time, bytes: u64) {
        let (first, last) = (self.written / self.stripe_bytes, (self.written + bytes) / self.stripe_bytes);
        self.written += bytes;
        for stripe in first..last {
            let die = self.die(stripe);
            self.dies[die] = self.dies[die].max(from) + self.die_program;
        }
    }

    fn die(&self, stripe: u64) -> usize {
        usize::try_from(stripe % self.dies.len() as u64).unwrap_or(0)
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

/// Returns where a stripe has come to lie after many rewrites: anywhere, but always the same.
fn scattered(stripe: u64) -> u64 {
    let mixed = (stripe ^ (stripe >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
