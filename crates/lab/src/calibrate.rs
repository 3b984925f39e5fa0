//! Measures a solid-state disk, and describes it as a preset.
//!
//! Each run of accesses shows one figure of the model: single transfers of 4 KiB their latency,
//! many at once the rate of commands, large ones in order the rate of bytes. The model has figures
//! that no access shows, as the number of dies: they come from the preset that is nearest, except
//! where what was measured says more.
//!
//! Runs of some seconds show how fast a disk writes as it is. How much slower it gets when it was
//! written all over at random they do not show, so the modelled disk begins as a new one.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_sim::preset::Preset;
use spindle_sim::{Time, disk, preset};
use std::fmt::Write as _;
use std::io;

/// Bytes of a transfer whose latency is measured.
const SMALL: u32 = 4096;
/// Bytes of a transfer for a rate of bytes.
const LARGE: u32 = 1 << 20;
/// Transfers at once for a rate of bytes.
const LARGE_DEPTH: u32 = 8;
/// Numbers of transfers at once that are tried for the rate of commands.
const DEPTHS: [u32; 4] = [8, 16, 32, 64];
/// Most accesses of a run.
const MOST: usize = 20_000;
/// From this latency of a random read on, in milliseconds, something turns.
const TURNS_MS: f64 = 2.0;
/// Flushes that are measured.
const FLUSHES: usize = 100;

/// A disk that can be measured.
pub trait Probe {
    /// Returns the bytes that may be accessed.
    fn size_bytes(&self) -> u64;

    /// Transfers `bytes` at each of these offsets, which are multiples of 4096, `depth` at once,
    /// without a cache of the host; begins none after [`BUDGET`].
    ///
    /// # Errors
    /// Those of the disk.
    fn run(&mut self, op: Op, bytes: u32, depth: u32, offsets: &[u64]) -> io::Result<Run>;

    /// Makes durable what was written. Returns how long that took.
    ///
    /// # Errors
    /// Those of the disk.
    fn flush(&mut self) -> io::Result<Time>;
}

/// How long a run goes on.
pub const BUDGET: Time = Time(2_000_000_000);

/// The accesses of a run that were done.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// How long each took, in any order.
    pub each: Vec<Time>,
    /// From the beginning of the first to the end of the last.
    pub total: Time,
}

impl Run {
    fn median_us(&self) -> f64 {
        let mut each = self.each.clone();
        each.sort_unstable();
        each.get(each.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
    }

    fn rate(&self) -> f64 {
        // A run has at most MOST accesses.
        #[expect(clippy::cast_precision_loss)]
        let count = self.each.len() as f64;
        count / self.total.as_secs_f64().max(1e-9)
    }
}

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

/// Why a disk was not measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// It is a kind of disk that is not measured.
    #[error(
        "a random read takes {0:.1} ms, so something turns; only solid-state disks are measured: take the \
         preset of a like disk (spindle lab presets), and change what its data sheet gives"
    )]
    Turns(f64),
    /// The measured figures make no disk.
    #[error("what was measured makes no disk: {0}")]
    Impossible(#[from] preset::Error),
}

/// Measures reads, at places that `seed` chooses.
///
/// # Errors
/// [`Error::Disk`], and [`Error::Turns`] for a disk that is not one of flash.
pub fn reads(probe: &mut dyn Probe, seed: u64) -> Result<Way, Error> {
    let random = &mut SmallRng::seed_from_u64(seed);
    let single = probe.run(Op::Read, SMALL, 1, &scattered(probe, 200, random))?;
    let ms = single.median_us() / 1e3;
    if ms > TURNS_MS { Err(Error::Turns(ms)) } else { way(probe, Op::Read, random) }
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

/// Returns this many offsets of 4 KiB at random.
fn scattered(probe: &dyn Probe, count: usize, random: &mut SmallRng) -> Vec<u64> {
    let places = (probe.size_bytes() / u64::from(SMALL)).max(1);
    (0..count).map(|_| random.random_range(0..places) * u64::from(SMALL)).collect()
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
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "title = {:?}", self.title);
        let _ = writeln!(
            text,
            "description = \"Measured by spindle lab calibrate; what no access shows is that of {like}.\""
        );
        let _ = writeln!(text, "\n[sources]\nmeasured = {:?}\n\n[disk.flash]", self.source);
        for Row { name, value, origin } in self.rows(like_flash) {
            let rounded = format!("{value:.*}", decimals(value));
            let origin = match origin {
                Origin::Measured => r#"sure = "high", source = "measured""#.to_owned(),
                Origin::Derived(note) => format!(r#"sure = "medium", source = "measured", note = "{note}""#),
                Origin::Like => format!(r#"sure = "estimated", note = "that of {like}""#),
            };
            let _ = writeln!(text, "{name} = {{ value = {rounded}, {origin} }}");
        }
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
        let row = |name, value, origin| Row { name, value, origin };
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

/// Returns the decimals with which a figure has at least three digits.
fn decimals(value: f64) -> usize {
    if value.fract() == 0.0 || value >= 1000.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        4
    }
}

/// A figure of the preset.
struct Row {
    name: &'static str,
    value: f64,
    origin: Origin,
}

/// Where a figure comes from.
#[derive(Clone, Copy)]
enum Origin {
    Measured,
    /// From measured ones, in this way.
    Derived(&'static str),
    /// From the preset that is nearest.
    Like,
}
