//! The figures of a solid-state disk.
//!
//! Each run of accesses shows one figure of the model: single transfers of 4 KiB their latency,
//! many at once the rate of commands, large ones in order the rate of bytes. The model has figures
//! that no access shows, as the number of dies: they come from the preset that is nearest, except
//! where what was measured says more.
//!
//! Runs of some seconds show how fast a disk writes as it is. How much slower it gets when it was
//! written all over at random they do not show, so the modelled disk begins as a new one.

use super::rows::{self, Origin, Row};
use super::{Error, Probe, Run, SMALL, scattered};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::preset::Preset;
use spindle_sim::{disk, preset};

/// Bytes of a transfer for a rate of bytes.
const LARGE: u32 = 1 << 20;
/// Transfers at once for a rate of bytes.
const LARGE_DEPTH: u32 = 8;
/// Numbers of transfers at once that are tried for the rate of commands.
const DEPTHS: [u32; 4] = [8, 16, 32, 64];
/// Most accesses of a run.
const MOST: usize = 20_000;
/// Flushes that are measured.
const FLUSHES: usize = 100;

/// What was measured of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// Latency of 4 KiB at random, in microseconds.
    pub random_us: f64,
    /// Latency of 4 KiB in order, in microseconds.
    pub sequential_us: f64,
    /// Most transfers of 4 KiB a second.
    pub iops: f64,
    /// Transfers at once with which that was reached.
    pub depth: u32,
    /// Megabytes (10^6) a second in order.
    pub mb_s: f64,
}

/// Measures reads, at places that `seed` chooses.
///
/// # Errors
/// [`Error::Disk`].
pub fn reads(probe: &mut dyn Probe, seed: u64) -> Result<Way, Error> {
    way(probe, Op::Read, &mut SmallRng::seed_from_u64(seed))
}

/// Measures writes, which destroys what the disk has, and flushes. Returns how long a flush behind
/// a write of 4 KiB takes, in microseconds, besides.
///
/// # Errors
/// [`Error::Disk`].
pub fn writes(probe: &mut dyn Probe, seed: u64) -> Result<(Way, f64), Error> {
    let random = &mut SmallRng::seed_from_u64(seed);
    let way = way(probe, Op::Write, random)?;
    let mut flushes = Run::default();
    for offset in scattered(probe, FLUSHES, random) {
        probe.run(Op::Write, SMALL, 1, &[offset])?;
        flushes.each.push(probe.flush()?);
    }
    Ok((way, flushes.median_us()))
}

fn way(probe: &mut dyn Probe, op: Op, random: &mut SmallRng) -> Result<Way, Error> {
    let in_order = |size: u64, bytes: u32, random: &mut SmallRng| {
        let (count, bytes) = (size / u64::from(bytes), u64::from(bytes));
        let start = random.random_range(0..count.max(1));
        (start..start + MOST as u64).map(|n| n % count.max(1) * bytes).collect::<Vec<u64>>()
    };
    let size = probe.size_bytes();
    let large = probe.run(op, LARGE, LARGE_DEPTH, &in_order(size, LARGE, random))?;
    let sequential = probe.run(op, SMALL, 1, &in_order(size, SMALL, random))?;
    let single = probe.run(op, SMALL, 1, &scattered(probe, MOST, random))?;
    let (mut iops, mut depth) = (single.rate(), 1);
    for tried in DEPTHS {
        let rate = probe.run(op, SMALL, tried, &scattered(probe, MOST, random))?.rate();
        if rate > iops {
            (iops, depth) = (rate, tried);
        }
    }
    Ok(Way {
        random_us: single.median_us(),
        sequential_us: sequential.median_us(),
        iops,
        depth,
        mb_s: large.rate() * f64::from(LARGE) / 1e6,
    })
}

/// What a preset is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// What was measured, for people.
    pub title: String,
    /// Where and when, for people.
    pub source: String,
    /// Bytes of the whole disk.
    pub capacity_bytes: u64,
    /// Reads.
    pub read: Way,
    /// Writes and flushes in microseconds, if they were measured.
    pub write: Option<(Way, f64)>,
}

impl Measured {
    /// Returns the text of a preset.
    ///
    /// # Errors
    /// [`Error::Impossible`] if no modelled disk is like this.
    pub fn preset(&self) -> Result<String, Error> {
        let like = if self.read.mb_s > 600.0 { "nvme" } else { "sata-ssd" };
        let model = preset::disk(like)?;
        let Some(like_flash) = &model.flash else {
            return Err(
                preset::Error::Invalid { field: "flash".into(), problem: "is not there".into() }.into()
            );
        };
        let mut text = rows::head(&self.title, &self.source, like, "");
        text.push_str("\n[disk.flash]\n");
        rows::add(&mut text, like, &self.rows(like_flash));
        text.push_str("condition = \"new\"\n");
        Preset::parse("calibrated", &text)?;
        Ok(text)
    }

    /// Returns the figures of the model.
    fn rows(&self, like: &disk::FlashSpec) -> Vec<Row> {
        let read = &self.read;
        let page_bytes = f64::from(like.page_kib) * 1024.0;
        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
        let capacity = self.capacity_bytes as f64;
        // A small disk has fewer dies and smaller blocks: a row of blocks over all dies must be a
        // small part of it.
        let (mut dies, mut block_pages) = (like.dies, like.block_pages);
        while block_pages > 4 && f64::from(dies * block_pages) * page_bytes * 100.0 > capacity {
            let halved = if dies > 1 { &mut dies } else { &mut block_pages };
            *halved /= 2;
        }
        let channels = like.channels.min(dies);
        // Of a page: reading it from the die and passing it on are parts of the latency, and all
        // together must do what was measured.
        let most_us = |ways: u32| f64::from(ways) * 1e6 / read.iops;
        let channel_us = (page_bytes / like.channel_mb_s).min(read.random_us / 2.0).min(most_us(channels));
        let die_read_us = like.die_read_us.min((read.random_us - channel_us) * 0.98).min(most_us(dies));
        let [random_write_us, sequential_write_us, write_mb_s, flush_us] = self.write.map_or(
            [like.random_write_us, like.sequential_write_us, like.write_mb_s, like.flush_us],
            |(way, flush_us)| [way.random_us, way.sequential_us, way.mb_s, flush_us],
        );
        let of_writes = if self.write.is_some() { Origin::Measured } else { Origin::Like };
        // The dies must reach just more than the rate of writing.
        let die_program_us = like.die_program_us.min(f64::from(dies) * page_bytes / (write_mb_s * 1.05));
        let row = Row::new;
        let derived = Origin::Derived;
        vec![
            row("capacity_gb", capacity / 1e9, Origin::Measured),
            row("sector_bytes", 512.0, Origin::Like),
            row("queue_depth", f64::from(like.queue_depth.max(read.depth)), Origin::Like),
            row("random_read_us", read.random_us, Origin::Measured),
            row("random_write_us", random_write_us, of_writes),
            row("sequential_read_us", read.sequential_us, Origin::Measured),
            row("sequential_write_us", sequential_write_us, of_writes),
            row("iops", read.iops, derived("reads at random; taken for writes, too")),
            row("read_mb_s", read.mb_s, Origin::Measured),
            row("write_mb_s", write_mb_s, of_writes),
            row("dies", f64::from(dies), Origin::Like),
            row("channels", f64::from(channels), Origin::Like),
            row("channel_mb_s", page_bytes / channel_us, derived("half of the latency of a read, at most")),
            row("page_kib", f64::from(like.page_kib), Origin::Like),
            row("block_pages", f64::from(block_pages), Origin::Like),
            row("spare_percent", like.spare_percent, Origin::Like),
            row("die_read_us", die_read_us, derived("a part of the latency of a read")),
            row("die_program_us", die_program_us, derived("at most what all dies reach write_mb_s with")),
            row("die_erase_us", like.die_erase_us, Origin::Like),
            row("memory_kib", f64::from(like.memory_kib), Origin::Like),
            row("flush_us", flush_us, of_writes),
        ]
    }
}
