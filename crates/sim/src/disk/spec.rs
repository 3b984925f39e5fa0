//! What a preset file says of a disk, as numbers. Every figure carries its unit in its name.

use crate::figure::{figure, figure_or_none, figures_by_number};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A disk with its controller and bus: a rotating one, with shingled tracks or without, or flash.
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
    /// Commands among which the drive chooses by the position of its heads.
    pub command_queue: Option<CommandQueue>,
    /// Writes acknowledged before they are on the platters.
    pub write_cache: Option<WriteCache>,
    /// A rotating disk with shingled tracks that it manages itself has this, too.
    pub shingled: Option<Shingled>,
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
    /// Bytes of a sector on the platters, where it holds several of those that the host sees: what
    /// writes less reads it first. Without it: the same.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub physical_sector_bytes: Option<u32>,
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
    /// The same for the first track of a cylinder against the last track of the cylinder before.
    /// Without it: as many as cover the longer of the shortest seeks for reading and writing.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub cylinder_skew_sectors: Option<u32>,
    /// In which order sectors follow each other over the tracks.
    #[serde(default)]
    pub layout: Layout,
    /// With [`Layout::SurfaceSerpentine`]: over how many cylinders one head goes before the next
    /// head comes back.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub serpentine_cylinders: Option<u32>,
    /// Bands of cylinders with equally many sectors per track, the outermost, which hold the lowest
    /// sectors, first. Old disks have one.
    pub zone: Vec<Zone>,
}

/// In which order sectors follow each other over the tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// All tracks of a cylinder by the number of the head, then the next cylinder.
    #[default]
    Cylinder,
    /// All tracks of a cylinder, then the next cylinder: every other one backwards, so that no
    /// other head is chosen between cylinders.
    CylinderSerpentine,
    /// One head over several cylinders, then the next head back over the same.
    SurfaceSerpentine,
}

/// A band of cylinders.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// How many.
    #[serde(deserialize_with = "figure")]
    pub cylinders: u32,
    /// Sectors on each of their tracks.
    #[serde(deserialize_with = "figure")]
    pub sectors_per_track: u32,
    /// How many sectors at the beginning of the band hold no data.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub front_reserved_sectors: Option<u32>,
    /// The same at its end, spare sectors not counted.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub end_reserved_sectors: Option<u32>,
    /// How many sectors at the end of each [`Self::spare_every_tracks`] are kept to replace others.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub spare_sectors: Option<u32>,
    /// How many tracks share these: 1 for spares on each track, the number of heads for spares on
    /// each cylinder.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub spare_every_tracks: Option<u32>,
    /// How far a track's first sector stands behind that of the track before, as a time in
    /// milliseconds, in place of [`Geometry::track_skew_sectors`].
    #[serde(default, deserialize_with = "figure_or_none")]
    pub track_skew_ms: Option<f64>,
    /// The same in place of [`Geometry::cylinder_skew_sectors`].
    #[serde(default, deserialize_with = "figure_or_none")]
    pub cylinder_skew_ms: Option<f64>,
}

/// Seek times, settling included, in milliseconds: either three figures, through which a curve is
/// drawn, or a table. Those of writing follow those of reading where they are left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// To the next cylinder.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub min_ms: Option<f64>,
    /// Mean over random pairs of cylinders.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub average_ms: Option<f64>,
    /// From the first cylinder to the last.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub max_ms: Option<f64>,
    /// To the next cylinder, before a write.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_min_ms: Option<f64>,
    /// Mean before a write.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_average_ms: Option<f64>,
    /// Longest before a write.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_max_ms: Option<f64>,
    /// Measured times by distance in cylinders, with straight lines between them; beyond the last
    /// one, the line through the last two.
    #[serde(default, deserialize_with = "figures_by_number")]
    pub table_ms: BTreeMap<u32, f64>,
    /// The same before a write.
    #[serde(default, deserialize_with = "figures_by_number")]
    pub write_table_ms: BTreeMap<u32, f64>,
    /// How much longer the heads take to settle before a write, after a seek or another head was
    /// chosen; negative where they take less.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_settle_ms: Option<f64>,
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
    /// [`Self::overhead_ms`] of writes; without it that of reads.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_overhead_ms: Option<f64>,
    /// [`Self::hit_overhead_ms`] of writes, which the write cache takes; without it that of reads,
    /// or else [`Self::write_overhead_ms`].
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_hit_overhead_ms: Option<f64>,
    /// How long the drive takes to come back to the bus with data from the platters, in
    /// milliseconds; without it none.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub read_delay_ms: Option<f64>,
    /// From the first movement of the arm before a write to the first byte that the drive asks from
    /// the bus, in milliseconds; without it none. What the arm needs in any case hides it.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_delay_ms: Option<f64>,
    /// The overheads of a request that follows a write, where they are others.
    pub after_write: Option<Overheads>,
    /// Rate of the bus in megabytes (10^6) per second.
    #[serde(deserialize_with = "figure")]
    pub bus_mb_s: f64,
    /// The same for writes, where it is another.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_bus_mb_s: Option<f64>,
    /// How data pass between platters and bus.
    pub forwarding: Forwarding,
    /// With [`Forwarding::Sector`]: the part of a request, from 0 to 1, that must have come from
    /// the platters before the first sector goes to the bus. Without it: a sector.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub read_watermark: Option<f64>,
    /// With [`Forwarding::Sector`]: the part of a request, from 0 to 1, that must have come from
    /// the bus before the first sector goes to the platters. Without it: a sector.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub write_watermark: Option<f64>,
    /// Reading may begin in the middle of what is asked for, and end with its beginning.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub zero_latency: Option<bool>,
}

/// Overheads in milliseconds, as those of [`Controller`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overheads {
    /// Of a read.
    #[serde(deserialize_with = "figure")]
    pub overhead_ms: f64,
    /// Of a read that the buffer has.
    #[serde(deserialize_with = "figure")]
    pub hit_overhead_ms: f64,
    /// Of a write.
    #[serde(deserialize_with = "figure")]
    pub write_overhead_ms: f64,
    /// Of a write that the write cache takes.
    #[serde(deserialize_with = "figure")]
    pub write_hit_overhead_ms: f64,
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
    /// full. Beyond the size of a segment, it gives up the beginning of what it holds.
    #[serde(default, deserialize_with = "figure_or_none")]
    pub read_ahead_kib: Option<u32>,
    /// Where it halts before that.
    #[serde(default)]
    pub read_ahead_until: ReadAheadUntil,
}

/// Where reading on halts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadUntil {
    /// Only where [`ReadBuffer::read_ahead_kib`] says.
    #[default]
    Distance,
    /// At the end of the track on which the read ended.
    Track,
    /// At the end of the track behind that, if the segment began on the track before; at the end of
    /// the track itself otherwise.
    NextTrack,
    /// At the end of the cylinder.
    Cylinder,
}

/// Commands that a drive holds to choose the next from: native or tagged command queueing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandQueue {
    /// How many.
    #[serde(deserialize_with = "figure")]
    pub depth: u32,
    /// How long one may wait in the drive before it goes before all others, in milliseconds.
    #[serde(deserialize_with = "figure")]
    pub age_limit_ms: f64,
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
    /// Commands per second that are not sequential, at most, of each direction. How many writes at
    /// random come to last follows from the rest.
    #[serde(deserialize_with = "figure")]
    pub iops: f64,
    /// Megabytes (10^6) per second at most, reading.
    #[serde(deserialize_with = "figure")]
    pub read_mb_s: f64,
    /// Megabytes per second at most, writing.
    #[serde(deserialize_with = "figure")]
    pub write_mb_s: f64,
    /// Dies that work independently.
    #[serde(deserialize_with = "figure")]
    pub dies: u32,
    /// Channels, each with as many of the dies.
    #[serde(deserialize_with = "figure")]
    pub channels: u32,
    /// Rate of a channel in megabytes per second.
    #[serde(deserialize_with = "figure")]
    pub channel_mb_s: f64,
    /// What a die reads or programs at once, in KiB: a page of each of its planes.
    #[serde(deserialize_with = "figure")]
    pub page_kib: u32,
    /// How many of these it erases at once.
    #[serde(deserialize_with = "figure")]
    pub block_pages: u32,
    /// Flash beyond the capacity, as percent of that.
    #[serde(deserialize_with = "figure")]
    pub spare_percent: f64,
    /// Time that a read keeps its die, in microseconds; part of the latency.
    #[serde(deserialize_with = "figure")]
    pub die_read_us: f64,
    /// Time that programming keeps a die, in microseconds; after the write was acknowledged.
    #[serde(deserialize_with = "figure")]
    pub die_program_us: f64,
    /// Time that erasing keeps a die, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub die_erase_us: f64,
    /// Memory for pages that are not programmed yet, safe against loss of power, in KiB.
    #[serde(deserialize_with = "figure")]
    pub memory_kib: u32,
    /// What was done with the disk before.
    #[serde(default)]
    pub condition: Condition,
    /// Time of a flush that finds nothing to do, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub flush_us: f64,
}

/// Shingled tracks behind a translation layer in the drive, which keeps parts of the platters for
/// it: the host sees whole bands, fewer than the geometry has room for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shingled {
    /// Size of the persistent cache, at the outer edge, in gigabytes (10^9 bytes).
    #[serde(deserialize_with = "figure")]
    pub cache_gb: f64,
    /// How many runs of consecutive sectors the map of the cache has room for.
    #[serde(deserialize_with = "figure")]
    pub cache_runs: u32,
    /// What is written with each write to the cache, to find it again, in KiB.
    #[serde(deserialize_with = "figure")]
    pub record_kib: u32,
    /// Size of a band in MiB.
    #[serde(deserialize_with = "figure")]
    pub band_mib: u32,
    /// How much must have been written in sequence, in MiB, before the rest goes straight into
    /// bands that hold something already.
    #[serde(deserialize_with = "figure")]
    pub sequence_mib: u32,
    /// How long nothing must come before the drive begins to clean, in milliseconds.
    #[serde(deserialize_with = "figure")]
    pub idle_ms: f64,
    /// What was done with the disk before.
    #[serde(default)]
    pub condition: Condition,
}

/// What was done with a solid-state or shingled disk before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Nothing: no block of flash, and no band, holds anything.
    New,
    /// It was written at random, all over and for long; a shingled disk has cleaned up after that.
    #[default]
    Aged,
}
