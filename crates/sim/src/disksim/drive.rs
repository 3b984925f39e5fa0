//! From a parameter file to a preset.

use super::parameters::{self, Block, Value};
use crate::error::Error;
use crate::preset::Preset;
use std::path::Path;
use toml::{Table, Value as Toml};

/// Bytes of a sector.
const SECTOR: f64 = 512.0;
/// Megabytes per second of a bus that takes no time.
const NO_TIME_MB_S: f64 = 1e5;

/// Reads the first drive of a parameter file.
///
/// # Errors
/// When a file cannot be read or is not in this form, when it has no drive with a rotating disk, or
/// when a figure is out of its range.
pub fn preset(path: &Path) -> Result<Preset, Error> {
    let blocks = parameters::read(path)?;
    let drive = blocks.iter().find(|block| block.kind == "disksim_disk").ok_or_else(|| Error::Invalid {
        field: path.display().to_string(),
        problem: "has no drive (disksim_disk)".to_owned(),
    })?;
    let model = drive.block("Model")?;
    let (layout, mechanics) = (model.block("Layout Model")?, model.block("Mechanical Model")?);
    for (block, kind) in [(layout, "dm_layout_g1"), (mechanics, "dm_mech_g1")] {
        if block.kind != kind {
            return Err(block.wrong("the kind", &format!("is not {kind}, the only one that is modelled")));
        }
    }

    let revolution_ms = 60e3 / mechanics.number("Rotation speed (in rpms)")?;
    let mut disk = Table::new();
    disk.insert("geometry".to_owned(), geometry(model, layout, mechanics, revolution_ms)?.into());
    disk.insert("seek".to_owned(), seek(mechanics)?.into());
    disk.insert("controller".to_owned(), controller(drive, &blocks)?.into());
    if drive.count("Enable caching in buffer")? > 0 {
        disk.insert("read_buffer".to_owned(), read_buffer(drive)?.into());
    }
    if drive.count("Fast write level")? > 0 {
        disk.insert("write_cache".to_owned(), write_cache(drive)?.into());
    }

    let mut file = Table::new();
    file.insert("title".to_owned(), drive.name.clone().into());
    let description = format!("The drive of DiskSim's {}.", path.display());
    file.insert("description".to_owned(), description.into());
    file.insert("disk".to_owned(), disk.into());
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Preset::parse(&name, &file.to_string()).map_err(|error| error.of_file(path))
}

/// Returns the sectors and the rotation. Sectors that were slipped are counted, but taken for the
/// last of their zone, and those that were replaced are where they would be.
fn geometry(model: &Block, layout: &Block, mechanics: &Block, revolution_ms: f64) -> Result<Table, Error> {
    let mut geometry = Table::new();
    geometry.insert("rpm".to_owned(), mechanics.number("Rotation speed (in rpms)")?.into());
    let heads = model.count("Number of data surfaces")?;
    geometry.insert("heads".to_owned(), heads.into());
    geometry.insert("sector_bytes".to_owned(), 512.into());
    geometry.insert("head_switch_ms".to_owned(), mechanics.number("Head switch time")?.into());
    let order = match layout.count("LBN-to-PBN mapping scheme")? {
        0 => "cylinder",
        1 | 2 => "cylinder-serpentine",
        _ => return Err(layout.wrong("LBN-to-PBN mapping scheme", "must be 0, 1 or 2")),
    };
    geometry.insert("layout".to_owned(), order.into());
    let in_revolutions = |block: &Block| block.word("Skew units").ok().map(|unit| unit == "revolutions");
    let (sparing, range) = (layout.count("Sparing scheme used")?, layout.count("Rangesize for sparing")?);
    let mut zones = Vec::new();
    for zone in layout.list("Zones")? {
        let Value::Block(zone) = zone else { return Err(layout.wrong("Zones", "must be a list of blocks")) };
        let (first, last) = (zone.count("First cylinder number")?, zone.count("Last cylinder number")?);
        let per_track = zone.count("Blocks per track")?;
        if last < first || per_track == 0 {
            return Err(
                zone.wrong("Last cylinder number", "must not be less than the first, with some blocks")
            );
        }
        let in_revolutions = in_revolutions(zone).or_else(|| in_revolutions(layout)).unwrap_or(false);
        let unit_ms = if in_revolutions { revolution_ms } else { revolution_ms / f64::from(per_track) };
        let mut table = Table::new();
        table.insert("cylinders".to_owned(), (i64::from(last) - i64::from(first) + 1).into());
        table.insert("sectors_per_track".to_owned(), per_track.into());
        let slipped = zone.list("slips").map_or(0, <[Value]>::len) as u64;
        let spare_sectors = zone.count("Number of spares")?;
        let spares = u64::from(spare_sectors);
        let front = zone.count("Empty space at zone front")?;
        table.insert("front_reserved_sectors".to_owned(), front.into());
        let (at_end, every_tracks) = match sparing {
            // None, and spares of the whole disk.
            0 | 7 => (0, None),
            // Whole tracks at the end of the zone.
            1 => (spares * u64::from(per_track), None),
            3 => (0, Some(1)),
            2 | 4 => (0, Some(heads)),
            8 => (0, Some(heads.saturating_mul(range))),
            9 | 10 => (spares, None),
            _ => return Err(layout.wrong("Sparing scheme used", "is one that is not modelled")),
        };
        let at_end = i64::try_from(at_end + slipped).unwrap_or(i64::MAX);
        table.insert("end_reserved_sectors".to_owned(), at_end.into());
        if let (Some(tracks), 1..) = (every_tracks, spares) {
            table.insert("spare_sectors".to_owned(), spare_sectors.into());
            table.insert("spare_every_tracks".to_owned(), tracks.into());
        }
        for (key, name) in
            [("Skew for track switch", "track_skew_ms"), ("Skew for cylinder switch", "cylinder_skew_ms")]
        {
            table.insert(name.to_owned(), (zone.number_or_0(key)? * unit_ms).into());
        }
        zones.push(Toml::from(table));
    }
    geometry.insert("zone".to_owned(), zones.into());
    Ok(geometry)
}

/// Returns the seek times.
fn seek(mechanics: &Block) -> Result<Table, Error> {
    let mut seek = Table::new();
    seek.insert("write_settle_ms".to_owned(), mechanics.number("Add. write settling delay")?.into());
    let kind = mechanics.word("Seek type")?;
    let table = match kind {
        "curve" => {
            let keys = [
                ("min_ms", "Single cylinder seek time"),
                ("average_ms", "Average seek time"),
                ("max_ms", "Full strobe seek time"),
            ];
            for (name, key) in keys {
                seek.insert(name.to_owned(), mechanics.number(key)?.into());
            }
            return Ok(seek);
        }
        "constant" => {
            let ms = mechanics.number("Constant seek time")?;
            vec![(1, ms), (2, ms)]
        }
        "extracted" => extracted(mechanics)?,
        "hpl" => formula(mechanics, &[])?,
        "hplplus10" => formula(mechanics, &mechanics.numbers("First ten seek times")?)?,
        _ => return Err(mechanics.wrong("Seek type", &format!("is `{kind}`, which is not modelled"))),
    };
    let table: Table = table.into_iter().map(|(distance, ms)| (distance.to_string(), ms.into())).collect();
    seek.insert("table_ms".to_owned(), table.into());
    Ok(seek)
}

/// Returns the measured times that stand in a file of their own: a line with their number, and a
/// line `DISTANCE, MILLISECONDS` for each.
fn extracted(mechanics: &Block) -> Result<Vec<(u32, f64)>, Error> {
    let name = mechanics.word("Full seek curve")?;
    let path = mechanics.file.parent().unwrap_or(Path::new("")).join(name);
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let mut points = Vec::new();
    for (n, line) in text.lines().enumerate().skip(1) {
        let mut fields = line.split(',').map(str::trim);
        match (fields.next().map(str::parse), fields.next().map(str::parse)) {
            (Some(Ok(distance)), Some(Ok(ms))) => points.push((distance, ms)),
            _ if line.trim().is_empty() => {}
            _ => {
                return Err(Error::Syntax {
                    name: path.display().to_string(),
                    line: n + 1,
                    text: line.trim().to_owned(),
                    problem: "a distance in cylinders and milliseconds must stand here".to_owned(),
                });
            }
        }
    }
    Ok(points)
}

/// Returns points of the formula of Ruemmler and Wilkes, V2 + V3·√d below a distance V1 and
/// V4 + V5·d from it on, with `first` in place of its shortest distances.
fn formula(mechanics: &Block, first: &[f64]) -> Result<Vec<(u32, f64)>, Error> {
    let key = "HPL seek equation values";
    let Ok([from, v2, v3, v4, v5, single]) = <[f64; 6]>::try_from(mechanics.numbers(key)?) else {
        return Err(mechanics.wrong(key, "must be six numbers"));
    };
    let mut points = Vec::new();
    for distance in (1..=100).chain((110..=20_000).step_by(10)) {
        let at = f64::from(distance);
        let ms = match first.get(distance as usize - 1) {
            Some(ms) => *ms,
            None if distance == 1 && single >= 0.0 => single,
            None if at < from => v2 + v3 * at.sqrt(),
            None => v4 + v5 * at,
        };
        points.push((distance, ms));
    }
    Ok(points)
}

/// Returns what comes between host and platters.
fn controller(drive: &Block, blocks: &[Block]) -> Result<Table, Error> {
    let scale = drive.number("Time scale for overheads")?;
    let each = drive.number_or_0("Per-request overhead time")?;
    let (write_overhead, write_delay) = write_disconnects(drive)?;
    let overheads = |after: &str| {
        let read = drive.number_or_0("Read completion overhead")?;
        let write = drive.number_or_0("Write completion overhead")?;
        let figures = [
            ("overhead_ms", "Read miss", read),
            ("hit_overhead_ms", "Read hit", read),
            ("write_overhead_ms", "Write miss", write),
            ("write_hit_overhead_ms", "Write hit", write),
        ];
        let mut table = Table::new();
        for (name, what, completion) in figures {
            let ms = each + drive.number(&format!("{what} over. after {after}"))? + completion;
            table.insert(name.to_owned(), (ms * scale).into());
        }
        if let Some(ms) = write_overhead {
            table.insert("write_overhead_ms".to_owned(), (ms * scale).into());
        }
        Ok::<_, Error>(table)
    };
    let (mut controller, after_write) = (overheads("read")?, overheads("write")?);
    let read_delay = drive.number_or_0("First reselect overhead")?;
    controller.insert("read_delay_ms".to_owned(), (read_delay * scale).into());
    controller.insert("write_delay_ms".to_owned(), (write_delay * scale).into());
    controller.insert("after_write".to_owned(), after_write.into());
    // The slowest of the drive and the buses moves the data.
    for (name, key) in
        [("bus_mb_s", "Read block transfer time"), ("write_bus_mb_s", "Write block transfer time")]
    {
        let mut sector_ms = drive.number("Bulk sector transfer time")?;
        for bus in blocks.iter().filter(|block| block.kind == "disksim_bus") {
            sector_ms = sector_ms.max(bus.number(key)?);
        }
        let mb_s = if sector_ms > 0.0 { (SECTOR / sector_ms / 1e3).min(NO_TIME_MB_S) } else { NO_TIME_MB_S };
        controller.insert(name.to_owned(), mb_s.into());
    }
    controller.insert("forwarding".to_owned(), "sector".into());
    controller.insert("read_watermark".to_owned(), drive.number("High (read) water mark")?.into());
    controller.insert("zero_latency".to_owned(), (drive.count("Immediate buffer read")? > 0).into());
    Ok(controller)
}

/// Returns, in milliseconds, when the arm begins to move before a write, where that is not the
/// overhead of a write, and how much later the first data can go to the platters: a drive may leave
/// the bus once more before it asks for them, and wait for as long as a short seek takes.
fn write_disconnects(drive: &Block) -> Result<(Option<f64>, f64), Error> {
    let ms = |key: &str| drive.number_or_0(key);
    let (preparation, least) = (ms("Data preparation overhead")?, ms("Minimum seek delay")?);
    if drive.number_or_0("Extra write disconnect")? == 0.0 {
        return Ok((None, preparation + least));
    }
    let lead = ms("Extradisc seek delta")?;
    let away = ms("Extradisc disconnect overhead")?
        + ms("Extradisc inter-disconnect delay")?
        + ms("First reselect overhead")?;
    let overhead = ms("Extradisc command overhead")? + lead + ms("Write completion overhead")?;
    Ok((Some(overhead), (away - lead).max(0.0) + preparation + least))
}

/// Returns the buffer for reading.
fn read_buffer(drive: &Block) -> Result<Table, Error> {
    let mut buffer = Table::new();
    buffer.insert("segments".to_owned(), drive.count("Number of buffer segments")?.into());
    let (segment, most) = (drive.count("Segment size (in blks)")?, drive.count("Maximum read-ahead (blks)")?);
    buffer.insert("segment_kib".to_owned(), segment.div_ceil(2).into());
    let most = if most == 0 { segment } else { most };
    let (until, most) = match drive.count("Buffer continuous read")? {
        0 => ("distance", 0),
        1 => ("track", u32::MAX),
        2 => ("cylinder", u32::MAX),
        3 => ("distance", most),
        4 => ("next-track", u32::MAX),
        _ => return Err(drive.wrong("Buffer continuous read", "must be from 0 to 4")),
    };
    buffer.insert("read_ahead_kib".to_owned(), most.div_ceil(2).into());
    buffer.insert("read_ahead_until".to_owned(), until.into());
    Ok(buffer)
}

/// Returns the buffer for writing.
fn write_cache(drive: &Block) -> Result<Table, Error> {
    let segments = i64::from(drive.count("Maximum number of write segments")?);
    let blocks = segments * i64::from(drive.count("Segment size (in blks)")?);
    let mut cache = Table::new();
    cache.insert("size_kib".to_owned(), (blocks / 2).into());
    cache.insert("idle_ms".to_owned(), 0.0.into());
    Ok(cache)
}
