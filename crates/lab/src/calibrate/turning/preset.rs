//! The preset of a disk that turns.

use super::super::bench::float;
use super::super::buffer::Ends;
use super::super::rows::{self, Origin, Row};
use super::super::seeks::Band;
use super::super::writes::Write;
use super::super::{Error, SMALL};
use super::{Heads, MARGIN, QUEUE, Turning, physical_sectors};
use spindle_sim::disk::{self, Spec};
use spindle_sim::preset::{self, Preset};

impl Turning {
    /// Returns the text of a preset, with the writes that were measured, or those of the like disk.
    ///
    /// # Errors
    /// [`Error::Impossible`] if no modelled disk is like this.
    pub fn preset(&self, title: &str, source: &str, write: Option<Write>) -> Result<String, Error> {
        let like = preset::disk(self.like)?;
        let more = " Shingled tracks would not show: if the disk has them, long series of writes are slower.";
        let mut text = rows::head(title, source, self.like, more);
        let mut table = |name: &str, rows: Vec<Row>| {
            if !rows.is_empty() {
                text.push('\n');
                text.push_str(name);
                text.push('\n');
                rows::add(&mut text, self.like, &rows);
            }
        };
        table("[disk.geometry]", self.geometry(&like));
        for zone in self.zones() {
            table("[[disk.geometry.zone]]", zone);
        }
        let (read, writes) = self.seek_tables(&like, write);
        table("[disk.seek.table_ms]", read);
        table("[disk.seek.write_table_ms]", writes);
        let forwarding = if self.bus().is_some() { "sector" } else { "direct" };
        let controller = format!("[disk.controller]\nforwarding = \"{forwarding}\"");
        table(&controller, self.controller(&like, write));
        table("[disk.read_buffer]", self.read_buffer(&like));
        table("[disk.command_queue]", self.command_queue(&like));
        table("[disk.write_cache]", write_cache(&like, write));
        Preset::parse("calibrated", &text)?;
        Ok(text)
    }

    fn geometry(&self, like: &Spec) -> Vec<Row> {
        let heads = match self.heads {
            Heads::Skew(_) => Origin::Derived("skews are longer from cylinder to cylinder"),
            Heads::Lost => Origin::Derived("a revolution is lost from cylinder to cylinder"),
            Heads::Seeks => Origin::Derived("the heads take longer from cylinder to cylinder"),
            Heads::Like => Origin::Like,
        };
        let mut rows = vec![
            Row::new("rpm", 60.0 / self.rotation, Origin::Measured),
            Row::new("heads", f64::from(self.layout.heads), heads),
            Row::new("sector_bytes", f64::from(self.sector_bytes), Origin::Measured),
            Row::new("head_switch_ms", self.head_switch * 1e3, Origin::Derived("covered by the skew")),
        ];
        let together = physical_sectors(like, self.sector_bytes);
        if together > 1 {
            rows.push(Row::new(
                "physical_sector_bytes",
                f64::from(together * self.sector_bytes),
                Origin::Like,
            ));
        }
        rows
    }

    fn zones(&self) -> Vec<Vec<Row>> {
        let last = self.layout.bands.len().saturating_sub(1);
        let zone = |(n, (band, skews)): (usize, (&Band, &(f64, f64)))| {
            let by_rate = Origin::Derived("by the rate in order and the phases of sectors");
            let mut rows = vec![
                Row::new("cylinders", f64::from(band.cylinders), Origin::Derived("where the rate changes")),
                Row::new("sectors_per_track", f64::from(band.per_track), by_rate),
                Row::new("track_skew_ms", skews.0 * 1e3, by_rate),
                Row::new("cylinder_skew_ms", skews.1 * 1e3, by_rate),
            ];
            if n == last && self.beyond > 0 {
                rows.push(Row::new(
                    "end_reserved_sectors",
                    float(self.beyond),
                    Origin::Derived("makes the size"),
                ));
            }
            rows
        };
        self.layout.bands.iter().zip(&self.skews).enumerate().map(zone).collect()
    }

    /// Returns the seeks of reads and of writes.
    fn seek_tables(&self, like: &Spec, write: Option<Write>) -> (Vec<Row>, Vec<Row>) {
        let (longer, origin): (Box<dyn Fn(f64) -> f64>, _) = match write {
            Some(write) => (
                Box::new(move |_| write.longer),
                Origin::Derived("longer by as much as a write takes longer"),
            ),
            None => (Box::new(|time| like_longer(like, time)), Origin::Like),
        };
        let covered = self.skews.iter().map(|skews| skews.1).fold(f64::MAX, f64::min) - MARGIN;
        let write_time = |(distance, time): &(u32, f64)| {
            let longer = (time + longer(*time)).max(self.head_switch);
            let time = if *distance == 1 && self.covered { longer.min(covered.max(*time)) } else { longer };
            Row::new(distance, time * 1e3, origin)
        };
        let read = self.seeks.iter().map(|(distance, time)| Row::new(distance, time * 1e3, Origin::Measured));
        (read.collect(), self.seeks.iter().map(write_time).collect())
    }

    fn controller(&self, like: &Spec, write: Option<Write>) -> Vec<Row> {
        let fastest = self.layout.bands.iter().map(|band| band.per_track).max().unwrap_or(1);
        let media = f64::from(fastest) * f64::from(self.sector_bytes) / self.rotation;
        let like_bus = like.controller.as_ref().map_or(0.0, |controller| controller.bus_mb_s * 1e6);
        let (bus, origin) = match self.bus() {
            Some(bus) => (bus, Origin::Measured),
            None => (like_bus.max(media * 1.01), Origin::Like),
        };
        let mut rows = vec![
            Row::new(
                "overhead_ms",
                self.overhead * 1e3,
                Origin::Derived("what reads take more than seeks and rotation"),
            ),
            Row::new("bus_mb_s", bus / 1e6, origin),
            Row::truth(
                "zero_latency",
                self.ends == Ends::Anywhere,
                Origin::Derived("by the phases in which long reads end"),
            ),
        ];
        if let Some(buffer) = self.buffer {
            rows.push(Row::new("hit_overhead_ms", buffer.overhead * 1e3, Origin::Measured));
        }
        if let Some(cached) = write.and_then(|write| write.cached) {
            let overhead = (cached - f64::from(SMALL) / bus).max(0.0);
            rows.push(Row::new("write_hit_overhead_ms", overhead * 1e3, Origin::Measured));
        }
        rows
    }

    fn read_buffer(&self, like: &Spec) -> Vec<Row> {
        let Some(buffer) = self.buffer else { return Vec::new() };
        let like_kib = like.read_buffer.as_ref().map_or(0, |buffer| buffer.segment_kib);
        let (kib, origin) =
            buffer.segment_kib.map_or((like_kib, Origin::Like), |kib| (kib, Origin::Measured));
        let mut rows = vec![
            Row::new("segments", f64::from(buffer.segments), Origin::Measured),
            Row::new("segment_kib", f64::from(kib), origin),
        ];
        if buffer.segment_kib.is_none() {
            rows.push(Row::new("read_ahead_kib", 0.0, Origin::Measured));
        }
        rows
    }

    fn command_queue(&self, like: &Spec) -> Vec<Row> {
        let age_limit_ms = like.command_queue.as_ref().map_or(500.0, |queue| queue.age_limit_ms);
        let rows = vec![
            Row::new("depth", f64::from(QUEUE), Origin::Derived("so many reads at once are faster")),
            Row::new("age_limit_ms", age_limit_ms, Origin::Like),
        ];
        if self.chooses { rows } else { Vec::new() }
    }
}

/// Returns how many seconds longer a seek before a write takes on a like disk than one before a
/// read that takes `time`.
fn like_longer(like: &Spec, time: f64) -> f64 {
    let figures = |seek: &disk::Seek| {
        let (min, average) = (seek.min_ms?, seek.average_ms?);
        let part = ((time * 1e3 - min) / (average - min)).clamp(0.0, 1.0);
        let (at_min, at_average) = (seek.write_min_ms? - min, seek.write_average_ms? - average);
        Some((at_min + part * (at_average - at_min)) / 1e3)
    };
    like.seek.as_ref().and_then(figures).unwrap_or(0.0)
}

/// Returns the write cache: that of the like disk if writes were not measured.
fn write_cache(like: &Spec, write: Option<Write>) -> Vec<Row> {
    let cached = write.map_or(like.write_cache.is_some(), |write| write.cached.is_some());
    // A track of an old disk, and a revolution.
    let (kib, idle_ms) =
        like.write_cache.as_ref().map_or((32, 10.0), |cache| (cache.size_kib, cache.idle_ms));
    let rows =
        vec![Row::new("size_kib", f64::from(kib), Origin::Like), Row::new("idle_ms", idle_ms, Origin::Like)];
    if cached { rows } else { Vec::new() }
}
