//! Shingled disks against what can be computed.
#![allow(clippy::cast_precision_loss, reason = "counts that are compared are far below 2^53")]

mod common;

use common::{SEED, in_ms, ms, near, read, spec, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_sim::Time;
use spindle_sim::disk::{Condition, Disk, ShingledSpec, Spec};

/// Sectors of a MiB, and of a band of the preset.
const MIB: u64 = 2048;
const BAND: u64 = 30 * MIB;
/// Bytes of the same.
const BAND_BYTES: f64 = (30 << 20) as f64;

/// Returns the preset with changes.
fn with(change: impl FnOnce(&mut ShingledSpec)) -> Spec {
    let mut spec = spec("smr-8tb");
    change(spec.shingled.as_mut().unwrap());
    spec
}

/// Writes so many MiB from `start` on, one after the other; returns when they are on the platters.
fn fill(disk: &mut Disk, mut now: Time, start: u64, mib: u64) -> Time {
    for n in 0..mib {
        now = disk.start(now, &write(start + n * MIB, 2048)).done;
    }
    disk.flush(now)
}

/// Writes `count` times 4 KiB at random into the first `sectors`.
fn scatter(disk: &mut Disk, random: &mut SmallRng, mut now: Time, sectors: u64, count: u32) -> Time {
    for _ in 0..count {
        now = disk.start(now, &write(random.random_range(0..sectors / 8) * 8, 8)).done;
    }
    now
}

/// Returns the time of a track with the change to the next, in seconds, and the sectors of a track
/// of each zone, the outermost first.
fn tracks(spec: &Spec) -> (f64, Vec<f64>) {
    let geometry = spec.geometry.as_ref().unwrap();
    let sectors = geometry.zone.iter().map(|zone| f64::from(zone.sectors_per_track)).collect();
    (60.0 / geometry.rpm + geometry.head_switch_ms / 1e3, sectors)
}

/// Returns the seconds of a band on the outermost tracks, and the mean over bands at random.
fn band_seconds(spec: &Spec) -> (f64, f64) {
    let (track, sectors) = tracks(spec);
    let zones = f64::from(u32::try_from(sectors.len()).unwrap());
    let sectors_of_band = BAND_BYTES / 512.0;
    let mean = sectors.iter().sum::<f64>() / zones;
    (sectors_of_band / sectors[0] * track, sectors_of_band / mean * track)
}

/// Promise: the host sees 8 TB in whole bands.
#[test]
fn capacity() {
    let disk = Disk::new(&spec("smr-8tb")).unwrap();
    assert_eq!(disk.capacity_sectors() % BAND, 0);
    near(disk.capacity_sectors() as f64 * 512.0, 8.0016e12, 0.1);
}

/// Promise: a sequential fill streams at the rate of the platters and nothing is cleaned for it: on
/// a new disk from the first byte on, on a full one after the first band, which the cache takes.
#[test]
fn sequential_fill() {
    let (outermost, _) = band_seconds(&spec("smr-8tb"));
    for condition in [Condition::New, Condition::Aged] {
        let mut disk = Disk::new(&with(|shingled| shingled.condition = condition)).unwrap();
        let end = fill(&mut disk, Time::ZERO, 0, 20 * 30);
        near(end.as_secs_f64(), 20.0 * outermost, 3.0);
        let cleaning = disk.cleaning().unwrap();
        let in_cache = if condition == Condition::New { 0 } else { 30 };
        assert_eq!((cleaning.bands, cleaning.cached_runs), (0, in_cache), "{condition:?}");
    }
}

/// Promise: a new disk that is filled at several places at once cleans nothing either.
#[test]
fn several_fills() {
    let mut disk = Disk::new(&with(|shingled| shingled.condition = Condition::New)).unwrap();
    let mut now = Time::ZERO;
    for n in 0..60 * MIB / 256 {
        for place in 0..8 {
            now = disk.start(now, &write(place * 100 * BAND + n * 256, 256)).done;
        }
    }
    now = disk.start(now + ms(60e3), &read(0, 8)).done;
    assert!(now > Time::ZERO);
    let cleaning = disk.cleaning().unwrap();
    assert_eq!((cleaning.bands, cleaning.cached_runs), (0, 0));
}

/// Promise: writes at random over the whole disk run at the speed of the cache until that is full:
/// one after the other at the rate of the log, data and records; each made durable, one in little
/// more than a revolution. A disk without shingles is slower by far.
#[test]
fn random_writes_into_the_cache() {
    let spec = spec("smr-8tb");
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = Disk::new(&spec).unwrap();
    let sectors = disk.capacity_sectors();
    let end = scatter(&mut disk, &mut random, Time::ZERO, sectors, 50_000);
    let end = disk.flush(end);
    let command: f64 = 0.05e-3 + 8192.0 / 550e6;
    let (track, outermost) = tracks(&spec);
    let log = 16.0 / outermost[0] * track;
    near(end.as_secs_f64(), 50_000.0 * command.max(log), 5.0);

    let revolution = in_ms(disk.revolution().unwrap());
    let mut now = end;
    for _ in 0..1000 {
        now = scatter(&mut disk, &mut random, now, sectors, 1);
        now = disk.flush(now);
    }
    let each = in_ms(now - end) / 1000.0;
    assert!(each > revolution && each < 1.2 * revolution, "{each} ms");
    assert_eq!(disk.cleaning().unwrap().bands, 0);

    let mut other = Disk::new(&Spec { shingled: None, ..spec }).unwrap();
    let slow = scatter(&mut other, &mut random, Time::ZERO, sectors, 20_000);
    assert!(other.flush(slow) > Time(5 * end.0));
}

/// Promise: when the map is full, a write at random over the whole disk takes as long as cleaning a
/// band: reading it, a run from the cache, writing it twice, and the movements for that.
#[test]
fn random_writes_collapse() {
    let spec = with(|shingled| shingled.cache_runs = 2000);
    let (outermost, mean) = band_seconds(&spec);
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = Disk::new(&spec).unwrap();
    let sectors = disk.capacity_sectors();
    let full = scatter(&mut disk, &mut random, Time::ZERO, sectors, 1998);
    assert_eq!(disk.cleaning().unwrap().bands, 0);
    assert!(full < ms(1000.0));
    let end = scatter(&mut disk, &mut random, full, sectors, 500);
    let cleaning = disk.cleaning().unwrap();
    assert_eq!(cleaning.bands, cleaning.waited_for);
    assert!((450..=500).contains(&cleaning.bands), "{cleaning:?}");
    // To the band, to the cache, to the band again, to the cache again: 12 ms and half a
    // revolution each; to the place for one band half a revolution and hardly a movement.
    let moving = 4.0 * (12e-3 + 0.5 * 60.0 / 5900.0) + 0.5 * 60.0 / 5900.0;
    let each = (end - full).as_secs_f64() / f64::from(u32::try_from(cleaning.bands).unwrap());
    near(each, 2.0 * mean + outermost + moving, 5.0);
}

/// Promise: where writes at random touch few bands, each band that is cleaned makes room for many:
/// taken in turn, twice as many as the full map has runs for each band.
#[test]
fn few_bands_are_cleaned_less_often() {
    let (runs, bands) = (2000, 100);
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut disk = Disk::new(&with(|shingled| shingled.cache_runs = runs)).unwrap();
    let warm = scatter(&mut disk, &mut random, Time::ZERO, bands * BAND, 10_000);
    let before = disk.cleaning().unwrap().bands;
    scatter(&mut disk, &mut random, warm, bands * BAND, 20_000);
    let cleaned = disk.cleaning().unwrap().bands - before;
    near(20_000.0 / cleaned as f64, 2.0 * f64::from(runs) / bands as f64, 10.0);
}

/// Promise: the size of the region limits the cache as its map does: large writes fill it.
#[test]
fn large_writes_fill_the_region() {
    let mut disk = Disk::new(&with(|shingled| shingled.cache_gb = 0.15)).unwrap();
    let mut now = Time::ZERO;
    let mut written = 0.0;
    for n in 0_u64.. {
        now = disk.start(now, &write(n * 7 * BAND + MIB, 2048)).done;
        if disk.cleaning().unwrap().bands > 0 {
            break;
        }
        written += f64::from(1_u32 << 20);
    }
    near(written, 0.15e9, 2.0);
}

/// Promise: cleaning begins after a second without requests, not before, and cleans as many bands
/// as fit into the time; it ends when nothing is left.
#[test]
fn idle_time_cleans() {
    let (outermost, _) = band_seconds(&spec("smr-8tb"));
    let cleaned = |idle: f64| {
        let mut disk = Disk::new(&spec("smr-8tb")).unwrap();
        let mut now = Time::ZERO;
        for n in 0..100 {
            now = disk.start(now, &write(n * BAND + 8000, 8)).done;
        }
        let service = disk.start(now + ms(idle), &read(0, 8));
        (disk.cleaning().unwrap(), service)
    };
    assert_eq!(cleaned(999.0).0.bands, 0);
    let (one, service) = cleaned(1001.0);
    assert_eq!((one.bands, one.waited_for, one.cached_runs), (1, 0, 99));
    assert!(service.wait > ms(500.0), "the read waits for the band: {service:?}");
    // Between band and cache the arm hardly moves here; to each of the four places it waits for
    // half a revolution.
    let each = 3.0 * outermost + 4.0 * (2e-3 + 0.5 * 60.0 / 5900.0);
    near(cleaned(21e3).0.bands as f64, 20.0 / each, 10.0);
    let (all, service) = cleaned(200e3);
    assert_eq!((all.bands, all.cached_runs), (100, 0));
    assert_eq!(service.wait, Time::ZERO);
}

/// Promise: writes at random into a file make reading it slow, since what lies in the cache is read
/// there; after cleaning it is read as fast as before.
#[test]
fn cleaning_makes_reading_sequential() {
    let mut disk = Disk::new(&spec("smr-8tb")).unwrap();
    let time = |disk: &mut Disk, mut now: Time| {
        let begin = now;
        for n in 0..60 {
            now = disk.start(now, &read(n * MIB, 2048)).done;
        }
        (now, (now - begin).as_secs_f64())
    };
    let (now, before) = time(&mut disk, Time::ZERO);
    let mut random = SmallRng::seed_from_u64(SEED);
    let now = scatter(&mut disk, &mut random, now, 2 * BAND, 500);
    let runs = disk.cleaning().unwrap().cached_runs;
    // Other writes take their place in the memory of the drive.
    let now = (0..160).fold(now, |now, n| disk.start(now, &write((100 + n) * BAND + MIB, 2048)).done);
    let now = disk.flush(now);
    let (now, scattered) = time(&mut disk, now);
    assert!(scattered > 5.0 * before, "{before} s, then {scattered} s for {runs} runs");
    let (_, after) = time(&mut disk, now + ms(300e3));
    assert_eq!(disk.cleaning().unwrap().cached_runs, 0);
    near(after, before, 3.0);
}

/// Promise: a sequence over a full disk that breaks off within a band leaves the rest of that to be
/// written again: in idle time, or when so many other sequences follow that it is forgotten.
#[test]
fn broken_sequences() {
    let (outermost, _) = band_seconds(&spec("smr-8tb"));
    let rest = 3.0 * outermost * 20.0 / 30.0;
    let broken = || {
        let mut disk = Disk::new(&spec("smr-8tb")).unwrap();
        let end = fill(&mut disk, Time::ZERO, 0, 70);
        (disk, end)
    };
    let (mut disk, end) = broken();
    let wait = disk.start(end + ms(1001.0), &read(500 * BAND, 8)).wait;
    near(wait.as_secs_f64(), rest, 15.0);
    let (mut disk, end) = broken();
    let mut now = end;
    let waits: Vec<bool> = (1..40)
        .map(|n| {
            let service = disk.start(now, &write(n * 100 * BAND + 8, 8));
            now = service.done;
            service.wait.as_secs_f64() > rest * 0.85
        })
        .collect();
    assert_eq!(waits.iter().filter(|waits| **waits).count(), 1, "{waits:?}");
    let (mut disk, end) = broken();
    let end = fill(&mut disk, end, 70 * MIB, 20);
    let service = disk.start(end + ms(1001.0), &read(500 * BAND, 8));
    assert!(service.wait > ms(500.0), "the first band is cleaned: {service:?}");
    assert_eq!(disk.cleaning().unwrap().bands, 1);
}

/// Promise: a flush writes the map where it has changed without a write to the cache, once.
#[test]
fn flushes_write_the_map() {
    let mut disk = Disk::new(&spec("smr-8tb")).unwrap();
    let now = disk.start(Time::ZERO, &write(8000, 8)).done;
    let now = disk.start(now + ms(5000.0), &read(0, 8)).done;
    assert_eq!(disk.cleaning().unwrap().bands, 1);
    let flushed = disk.flush(now);
    assert!(flushed - now > ms(1.0), "a record is written");
    assert!(disk.flush(flushed) - flushed < ms(1.0), "nothing is left to write");
}

/// Promise: figures that contradict each other are refused with the field.
#[test]
fn impossible_disks() {
    let refused = |change: fn(&mut ShingledSpec)| Disk::new(&with(change)).unwrap_err().to_string();
    for (message, field) in [
        (refused(|shingled| shingled.cache_gb = 0.1), "shingled.cache_gb"),
        (refused(|shingled| shingled.cache_gb = f64::NAN), "shingled.cache_gb"),
        (refused(|shingled| shingled.cache_gb = 9000.0), "shingled.band_mib"),
        (refused(|shingled| shingled.band_mib = 0), "shingled.band_mib"),
        (refused(|shingled| shingled.cache_runs = 3), "shingled.cache_runs"),
        (refused(|shingled| shingled.record_kib = 0), "shingled.record_kib"),
        (refused(|shingled| shingled.idle_ms = -1.0), "shingled.idle_ms"),
    ] {
        assert!(message.contains(field), "{message}");
    }
    let both = Spec { shingled: spec("smr-8tb").shingled, ..spec("nvme") };
    assert!(Disk::new(&both).unwrap_err().to_string().contains("shingled"));
}
