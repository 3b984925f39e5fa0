//! What a preset file says of a disk, as numbers. Every figure carries its unit in its name.

use crate::figure::{figure, figure_or_none};
use serde::Deserialize;

/// A disk with its controller and bus: a rotating one, or flash.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Sectors and rotation; a rotating disk has this and [`Self::seek`].
    pub geometry: Option<Geometry>,
    /// How long the arm takes.
    pub seek: Option<Seek>,
    /// What comes between host and platters.
    pub controller: Option<Controller>,
    /// Read-ahead into the drive's buffer.
    pub read_buffer: Option<ReadBuffer>,
    /// Writes acknowledged before they are on the platters.
    pub write_cache: Option<WriteCache>,
    /// A solid-state disk has this and nothing else.
    pub flash: Option<Flash>,
}

/// Sectors and rotation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Revolutions per minute.
    #[serde(deserialize_with = "figure")]
    pub rpm: f64,
    /// Tracks per cylinder.
    #[serde(deserialize_with = "figure")]
    pub heads: u32,
    /// Bytes per sector, a power of two of at least 512.
    #[serde(deserialize_with = "figure")]
    pub sector_bytes: u32,
    /// Distance between consecutive sectors of a track in sectors; 1, the default, leaves nothing
    /// out.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub interleave: Option<u32>,
    /// Time to choose another head of the cylinder, in milliseconds.
    #[serde(deserialize_with = "figure")]
    pub head_switch_ms: f64,
    /// How far a track's first sector stands behind that of the track before, in sectors. Without
    /// it: as many as cover the head switch.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub track_skew_sectors: Option<u32>,
    /// The same from the last track of a cylinder to the next cylinder. Without it: as many as
    /// cover the longer of the shortest seeks for reading and writing.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub cylinder_skew_sectors: Option<u32>,
    /// Bands of cylinders with equally many sectors per track, the outermost, which hold the lowest
    /// sectors, first. Old disks have one.
    pub zone: Vec<Zone>,
}

/// A band of cylinders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// How many.
    #[serde(deserialize_with = "figure")]
    pub cylinders: u32,
    /// Sectors on each of their tracks.
    #[serde(deserialize_with = "figure")]
    pub sectors_per_track: u32,
}

/// Seek times, settling included, in milliseconds. Those of writing follow those of reading where
/// they are left out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// To the next cylinder.
    #[serde(deserialize_with = "figure")]
    pub min_ms: f64,
    /// Mean over random pairs of cylinders.
    #[serde(deserialize_with = "figure")]
    pub average_ms: f64,
    /// From the first cylinder to the last.
    #[serde(deserialize_with = "figure")]
    pub max_ms: f64,
    /// To the next cylinder, before a write.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_min_ms: Option<f64>,
    /// Mean before a write.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_average_ms: Option<f64>,
    /// Longest before a write.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_max_ms: Option<f64>,
}

/// Controller and bus.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// From the host's command to the first movement of the arm, in milliseconds.
    #[serde(deserialize_with = "figure")]
    pub overhead_ms: f64,
    /// The same for what the buffer has, or the write cache takes; without it the same.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub hit_overhead_ms: Option<f64>,
    /// Rate of the bus in megabytes (10^6) per second.
    #[serde(deserialize_with = "figure")]
    pub bus_mb_s: f64,
    /// How data pass between platters and bus.
    pub forwarding: Forwarding,
    /// Reading may begin in the middle of what is asked for, and end with its beginning.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub zero_latency: Option<bool>,
}

/// How data pass between platters and bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// Each byte as it passes under the head: the bus must keep up with the platters.
    Direct,
    /// Each sector as soon as it is whole.
    Sector,
    /// Everything at the end.
    Whole,
}

/// Read-ahead into the drive's buffer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadBuffer {
    /// How many separate sequences it can hold.
    #[serde(deserialize_with = "figure")]
    pub segments: u32,
    /// Size of each in KiB.
    #[serde(deserialize_with = "figure")]
    pub segment_kib: u32,
    /// How far an idle drive reads on behind the last read, in KiB; without it until the segment is
    /// full.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub read_ahead_kib: Option<u32>,
}

/// A volatile write cache.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCache {
    /// Size in KiB.
    #[serde(deserialize_with = "figure")]
    pub size_kib: u32,
    /// How long after the last read the drive begins to write, in milliseconds.
    #[serde(deserialize_with = "figure")]
    pub idle_ms: f64,
}

/// A solid-state disk. Latencies are those of one 4 KiB transfer on an idle disk.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Capacity in gigabytes (10^9 bytes).
    #[serde(deserialize_with = "figure")]
    pub capacity_gb: f64,
    /// Bytes per sector, a power of two of at least 512.
    #[serde(deserialize_with = "figure")]
    pub sector_bytes: u32,
    /// How many commands it takes at once.
    #[serde(deserialize_with = "figure")]
    pub queue_depth: u32,
    /// Latency of a random read in microseconds.
    #[serde(deserialize_with = "figure")]
    pub random_read_us: f64,
    /// Latency of a random write in microseconds.
    #[serde(deserialize_with = "figure")]
    pub random_write_us: f64,
    /// Latency of a sequential read in microseconds.
    #[serde(deserialize_with = "figure")]
    pub sequential_read_us: f64,
    /// Latency of a sequential write in microseconds.
    #[serde(deserialize_with = "figure")]
    pub sequential_write_us: f64,
    /// Random reads per second at most.
    #[serde(deserialize_with = "figure")]
    pub random_read_iops: f64,
    /// Random writes per second at most.
    #[serde(deserialize_with = "figure")]
    pub random_write_iops: f64,
    /// Megabytes (10^6) per second at most, reading.
    #[serde(deserialize_with = "figure")]
    pub read_mb_s: f64,
    /// Megabytes per second at most, writing.
    #[serde(deserialize_with = "figure")]
    pub write_mb_s: f64,
    /// Dies that work independently.
    #[serde(deserialize_with = "figure")]
    pub dies: u32,
    /// Consecutive KiB on one die.
    #[serde(deserialize_with = "figure")]
    pub stripe_kib: u32,
    /// Time that a read keeps its die, in microseconds; part of the latency.
    #[serde(deserialize_with = "figure")]
    pub die_read_us: f64,
    /// Time that programming keeps a die per stripe, in microseconds; after the write was
    /// acknowledged.
    #[serde(deserialize_with = "figure")]
    pub die_program_us: f64,
    /// Time of a flush that finds nothing to do, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub flush_us: f64,
}
