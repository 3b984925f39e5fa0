//! How many events of a trace the analyser gets through in a second of one core's time, from the
//! file; and how many the reader alone.
//!
//! The trace is made first: programs of fifty users that make, read, append to and delete files,
//! about as often as in the 1985 traces, with some thousand files open at any time. It is a load,
//! not a likeness.

use std::path::Path;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_analyze::analyze;
use spindle_interop::{Failure, Result};
use spindle_trace::format::{Columns, Writer};
use spindle_trace::{Batch, Event, FileId, Flags, Info, Kind, open};

use crate::settings::Settings;
use crate::table::Table;

/// Measures both.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    let path = settings.directory.join("analysis.trace");
    let events = make(&path, settings.scaled(20_000_000)).map_err(Failure::of("the trace"))?;
    // Far below 2^52.
    #[expect(clippy::cast_precision_loss)]
    let amount = events as f64;
    let took = cpu("read", || {
        let mut source = open(&path, Columns::USAGE)?;
        let mut batch = Batch::default();
        while source.next(&mut batch)? {}
        spindle_trace::Result::Ok(())
    })?;
    table.note("events of a trace", "read", amount, "/s", took);
    let took = cpu("analyse", || {
        let mut source = open(&path, Columns::USAGE)?;
        analyze(&mut *source, |_| ()).map(drop)
    })?;
    table.note("events of a trace", "analyse", amount, "/s", took);
    std::fs::remove_file(&path).map_err(Failure::of(path.display()))
}

/// Measures the processor's time that some work of one thread takes.
fn cpu<E: std::fmt::Display>(
    name: &str,
    work: impl FnOnce() -> std::result::Result<(), E>,
) -> Result<Duration> {
    let before = spent()?;
    work().map_err(Failure::of(name))?;
    Ok(spent()?.saturating_sub(before).max(TICK))
}

/// The unit of the processor's time in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// Returns the processor's time that this process has had.
fn spent() -> Result<Duration> {
    let place = "/proc/self/stat";
    let stat = std::fs::read_to_string(place).map_err(Failure::of(place))?;
    // The name, in brackets, may hold blanks; the fields 14 and 15 are the user's and the system's
    // ticks.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<u32>);
    let ticks = ticks.sum::<std::result::Result<u32, _>>().map_err(Failure::of(place))?;
    Ok(TICK * ticks)
}

/// A file that is open, as the one who makes the trace knows it.
struct Open {
    event: Event,
    /// Events to come.
    left: u32,
}

/// Makes a trace of about so many events; gives how many it has.
fn make(path: &Path, events: u64) -> spindle_trace::Result<u64> {
    let mut rng = SmallRng::seed_from_u64(1985);
    let mut writer = Writer::create(path)?;
    let mut batch = Batch::default();
    let programs: Vec<_> = (0..200).map(|n| batch.names.symbol(&format!("program{n}"))).collect();
    let mut opened: Vec<Open> = Vec::new();
    let (mut time, mut opens, mut given) = (0_i64, 0_u64, 0_u64);
    while given < events {
        // A hundred events a second.
        time += rng.random_range(0..20_000_000);
        let user = rng.random_range(0..50_u32);
        let command = programs[rng.random_range(0..programs.len())];
        let at = rng.random_range(0..4000);
        let event = if let Some(file) = opened.get_mut(at) {
            let run = file.event.size.min(1 << rng.random_range(6..16));
            let writes = file.event.flags.has(Flags::WRITE);
            let (read, written) = if writes { (0, run) } else { (run, 0) };
            let mut event = Event { time, read, written, calls: 1, ..file.event };
            file.event.position = event.end();
            if file.left == 0 {
                event.kind = Kind::Close;
                event.size = event.size.max(event.end());
                opened.swap_remove(at);
            } else {
                file.left -= 1;
                event.kind = Kind::Seek;
                event.new_position = rng.random_range(0..=event.size);
                file.event.position = event.new_position;
            }
            event
        } else {
            let file = FileId { device: 1, inode: rng.random_range(1..2_000_000) };
            let size = 1 << rng.random_range(4..20);
            let common = Event { time, file, user, process: user * 7, size, command, ..Event::default() };
            match rng.random_range(0..100) {
                0..8 => Event { kind: Kind::Unlink, flags: Flags::LAST, ..common },
                8..14 => Event { kind: Kind::Exec, ..common },
                n => {
                    opens += 1;
                    let (kind, flags) = match n {
                        14..24 => (Kind::Create, Flags::WRITE),
                        24..34 => (Kind::Open, Flags::WRITE | Flags::TRUNCATED),
                        _ => (Kind::Open, Flags::READ),
                    };
                    let event = Event { kind, flags, open: opens, ..common };
                    opened.push(Open { event, left: u32::from(rng.random_bool(0.3)) });
                    event
                }
            }
        };
        batch.events.push(event);
        given += 1;
        if batch.events.len() == 1 << 16 {
            writer.write(&batch)?;
            batch.events.clear();
        }
    }
    writer.write(&batch)?;
    writer.finish(&Info { source: "benchmark".into(), ..Info::default() })
}
