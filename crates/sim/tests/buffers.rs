//! The drive's memory: reading on into the read buffer, and the write cache.

mod common;

use common::{SEED, disk, in_ms, ms, near, read, spec, write};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_sim::disk::{Disk, ReadAheadUntil, Spec};
use spindle_sim::{Time, Transfer};

/// Returns the KiB per second of transfers that follow each other with a pause, after the first.
fn kib_per_second(disk: &mut Disk, transfers: &[Transfer], pause: Time) -> f64 {
    let first = disk.start(Time::ZERO, &transfers[0]).done;
    let mut now = first;
    let mut sectors = 0.0;
    for transfer in &transfers[1..] {
        now = disk.start(now + pause, transfer).done;
        sectors += f64::from(transfer.sectors);
    }
    sectors * f64::from(disk.sector_bytes()) / 1024.0 / (now - first).as_secs_f64()
}

/// Promise: reading on hides pauses between sequential reads: the IBM 0661 gives the 1610 KB/s of
/// the 1991 paper in clusters, and half of it where every other block is skipped.
#[test]
fn sequential_reads() {
    let clusters: Vec<_> = (0..100).map(|n| read(n * 240, 240)).collect();
    let blocks: Vec<_> = (0..1000).map(|n| read(n * 16, 16)).collect();
    let alternate: Vec<_> = (0..1000).map(|n| read(n * 32, 16)).collect();
    for pause in [0.0, 1.0, 3.0] {
        near(kib_per_second(&mut disk("ibm-0661"), &clusters, ms(pause)), 1610.0, 1.0);
    }
    near(kib_per_second(&mut disk("ibm-0661"), &blocks, ms(0.0)), 1610.0, 1.0);
    for pause in [0.0, 2.0, 4.0] {
        near(kib_per_second(&mut disk("ibm-0661"), &alternate, ms(pause)), 805.0, 1.0);
    }
    // A cluster as large as the buffer makes room for the next while the bus takes it.
    let large: Vec<_> = (0..100).map(|n| read(n * 256, 256)).collect();
    near(kib_per_second(&mut disk("ibm-0661"), &large, ms(1.0)), 1610.0, 1.0);
}

/// Promise: writes are not buffered on the IBM 0661: each cluster costs a revolution more (1359
/// KB/s in the paper), blocks with a gap between them do not (790), and consecutive blocks lose a
/// revolution each.
#[test]
fn sequential_writes() {
    let clusters: Vec<_> = (0..100).map(|n| write(n * 240, 240)).collect();
    let alternate: Vec<_> = (0..1000).map(|n| write(n * 32, 16)).collect();
    let blocks: Vec<_> = (0..1000).map(|n| write(n * 16, 16)).collect();
    let pause = ms(0.4);
    near(kib_per_second(&mut disk("ibm-0661"), &clusters, pause), 1359.0, 2.0);
    near(kib_per_second(&mut disk("ibm-0661"), &alternate, pause), 790.0, 3.0);
    near(kib_per_second(&mut disk("ibm-0661"), &blocks, pause), 8192.0 / 1024.0 / 18.54e-3, 3.0);
}

/// Promise: what is in the buffer comes at the rate of the bus, what is on its way when it has
/// passed the head, and what was written since from the platters.
#[test]
fn hits() {
    let mut disk = disk("ibm-0661");
    let first = disk.start(Time::ZERO, &read(0, 16));
    assert!(!first.hit);
    let later = first.done + ms(50.0);
    let hit = disk.start(later, &read(16, 16));
    assert!(hit.hit);
    near(in_ms(hit.done - later), 0.6 + 8192.0 / 2e3, 0.1);
    let again = disk.start(hit.done, &read(0, 16));
    assert!(again.hit, "read once more");
    disk.start(again.done, &write(24, 1));
    let stale = disk.start(again.done + ms(100.0), &read(16, 16));
    assert!(stale.transfer > ms(1.0), "{stale:?}");

    // Right behind the first read, nothing more is in than has passed since.
    let mut disk = common::disk("ibm-0661");
    let first = disk.start(Time::ZERO, &read(0, 16));
    let coming = disk.start(first.done, &read(16, 16));
    near(in_ms(coming.done - first.done), 16.0 * 0.2896, 2.0);
}

/// Promise: the buffer never gives more than has passed under the heads, whatever the pauses.
#[test]
fn never_faster_than_the_platters() {
    let mut random = SmallRng::seed_from_u64(SEED);
    for name in ["ibm-0661", "nearline-20tb"] {
        let mut disk = disk(name);
        let (mut now, mut next) = (Time::ZERO, 0_u64);
        let start = disk.start(now, &read(0, 1)).done;
        let revolution = disk.revolution().unwrap().as_secs_f64();
        let per_track = disk.sectors_per_cylinder() / if name == "ibm-0661" { 14 } else { 18 };
        for _ in 0..3000 {
            let sectors = random.random_range(1..300);
            let service = disk.start(now, &read(next, sectors));
            next += u64::from(sectors);
            // What the buffer may hold when the clock starts is a track at most.
            let passed = (service.done - start).as_secs_f64() / revolution + 2.0;
            assert!(
                u64_as_f64(next) <= passed * u64_as_f64(per_track),
                "{name}: {next} at {:?}",
                service.done
            );
            now = service.done + Time(random.random_range(0..3_000_000));
        }
    }
}

fn u64_as_f64(n: u64) -> f64 {
    f64::from(u32::try_from(n).unwrap())
}

/// Promise: a full buffer halts, and what follows it costs less than a revolution more.
#[test]
fn halted_stream() {
    let mut disk = disk("ibm-0661");
    let first = disk.start(Time::ZERO, &read(0, 240)).done;
    let idle = first + ms(1000.0);
    let ahead = disk.start(idle, &read(240, 240));
    assert!(ahead.hit && in_ms(ahead.done - idle) < 0.7 + 122_880.0 / 2e3, "{ahead:?}");
    // 256 sectors were read on; the rest of these and what follows have to come round.
    let next = disk.start(ahead.done, &read(480, 240));
    assert!(next.hit, "{next:?}");
    let most = 13.9 + 240.0 * 0.2896 * 1.1;
    assert!(in_ms(next.done - ahead.done) < most, "{next:?}");
}

/// Promise: with several segments interleaved sequences do not spoil each other's read-ahead.
#[test]
fn segments() {
    let mut spec = spec("ibm-0661");
    let sequences = |spec: &Spec| {
        let mut disk = Disk::new(spec).unwrap();
        let mut now = Time::ZERO;
        let mut hits = 0;
        for n in 0..100 {
            for base in [0, 100_000] {
                let service = disk.start(now, &read(base + n * 16, 16));
                hits += u32::from(service.hit);
                now = service.done + ms(20.0);
            }
        }
        hits
    };
    assert_eq!(sequences(&spec), 0, "one segment");
    spec.read_buffer.as_mut().unwrap().segments = 2;
    assert!(sequences(&spec) > 170, "two segments: {}", sequences(&spec));
}

/// Promise: a cached write is done when the bus has it; a flush waits for the platters; then
/// nothing is left to do.
#[test]
fn write_cache() {
    let mut disk = disk("nearline-20tb");
    let cached = disk.start(Time::ZERO, &write(1_000_000_000, 8));
    assert!(cached.hit && cached.done < ms(0.1), "{cached:?}");
    let hit = disk.start(cached.done, &read(1_000_000_000, 8));
    assert!(hit.hit && hit.done - cached.done < ms(0.1), "{hit:?}");
    let flushed = disk.flush(hit.done);
    assert!(flushed - hit.done > ms(1.0) && flushed - hit.done < ms(25.0), "{flushed:?}");
    assert!(disk.flush(flushed) - flushed < ms(0.2));
    let mut without = common::disk("capricorn-massbus");
    let done = without.start(Time::ZERO, &write(0, 16)).done;
    assert_eq!(without.flush(done), done);
}

/// Promise: sequential writes through the cache go at the rate of the platters random ones faster
/// than their seeks would let them.
#[test]
fn write_back() {
    let sequential: Vec<_> = (0..20_000).map(|n| write(n * 256, 256)).collect();
    let mut disk = disk("nearline-20tb");
    let mut now = Time::ZERO;
    for transfer in &sequential {
        now = disk.start(now, transfer).done;
    }
    now = disk.flush(now);
    near(20_000.0 * 131_072.0 / now.as_secs_f64(), 285e6, 3.0);

    let mut random = SmallRng::seed_from_u64(SEED);
    let start = now;
    for _ in 0..20_000 {
        now = disk.start(now, &write(random.random_range(0..1_000_000_000) * 8, 8)).done;
    }
    let each = in_ms(disk.flush(now) - start) / 20_000.0;
    assert!(each < 8.0, "{each} ms a write");
}

/// Promise: what does not fit the cache waits for room, and is not lost on the way.
#[test]
fn full_write_cache() {
    let mut spec = spec("nearline-20tb");
    spec.write_cache.as_mut().unwrap().size_kib = 64;
    let mut disk = Disk::new(&spec).unwrap();
    let mut now = Time::ZERO;
    let mut waited = Time::ZERO;
    for n in 0..100 {
        let service = disk.start(now, &write((n * 7919) % 1000 * 30_000_000, 64));
        waited += service.wait;
        now = service.done;
    }
    assert!(in_ms(waited) > 98.0 * 5.0, "{waited:?}");
    let larger_than_cache = disk.start(now, &write(0, 4096));
    assert!(!larger_than_cache.hit);
    assert!(disk.flush(larger_than_cache.done) - larger_than_cache.done < ms(25.0));
}

/// Promise: a drive that reads on beyond its segment has what it read last, and no longer what came
/// right behind the last request.
#[test]
fn reading_on_beyond_the_segment() {
    let run = |read_ahead_kib, next: u64| {
        let mut spec = spec("ibm-0661");
        let buffer = spec.read_buffer.as_mut().unwrap();
        (buffer.segment_kib, buffer.read_ahead_kib) = (64, read_ahead_kib);
        let mut disk = Disk::new(&spec).unwrap();
        let first = disk.start(Time::ZERO, &read(0, 16));
        disk.start(first.done + ms(1000.0), &read(next, 16)).hit
    };
    // The segment has 128 sectors: at first it reads on to 16 + 128.
    assert!(run(None, 16) && run(None, 128) && !run(None, 300));
    assert!(run(Some(256), 16 + 512 - 100) && !run(Some(256), 16));
}

/// Promise: reading on halts at the end of the track, of the next track for a stream that came from
/// the track before, or of the cylinder, where the preset says so.
#[test]
fn reading_on_until() {
    let run = |until, first: &[u64], next: u64| {
        let mut spec = spec("ibm-0661");
        let buffer = spec.read_buffer.as_mut().unwrap();
        (buffer.segment_kib, buffer.read_ahead_kib) = (1024, Some(1024));
        buffer.read_ahead_until = until;
        let mut disk = Disk::new(&spec).unwrap();
        let mut now = Time::ZERO;
        for sector in first {
            now = disk.start(now, &read(*sector, 8)).done + ms(1000.0);
        }
        disk.start(now, &read(next, 8)).hit
    };
    // Tracks have 48 sectors, cylinders 14 tracks.
    assert!(run(ReadAheadUntil::Distance, &[0], 48 * 14));
    assert!(run(ReadAheadUntil::Track, &[0], 40) && !run(ReadAheadUntil::Track, &[0], 48 + 8));
    assert!(run(ReadAheadUntil::NextTrack, &[0], 40) && !run(ReadAheadUntil::NextTrack, &[0], 48 + 8));
    assert!(run(ReadAheadUntil::NextTrack, &[40, 48], 48 + 48 + 40));
    assert!(!run(ReadAheadUntil::NextTrack, &[40, 48], 48 * 3 + 8));
    assert!(run(ReadAheadUntil::Cylinder, &[0], 48 * 14 - 8));
    assert!(!run(ReadAheadUntil::Cylinder, &[0], 48 * 14 + 8));
}
