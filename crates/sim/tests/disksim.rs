//! Drives in the form of `DiskSim`, and the traces of their validation. The files here are made up.

mod common;

use common::{SEED, in_ms};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_sim::disk::{Disk, Layout, ReadAheadUntil, Spec};
use spindle_sim::disksim::{preset, read_trace, trials, validate};
use spindle_sim::preset::{Library, Model, Preset, disk};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const SYSTEM: &str = "
# A bus that is slower than the drive.
disksim_bus BUS0 {
   type = 1,
   Read block transfer time = 0.1024, # ms
   Write block transfer time = 0.128
}
disksim_bus BUS1 { type = 1, Read block transfer time = 0.05, Write block transfer time = 0.05 }
source example.diskspecs
instantiate [ statfoo, bus0 ] as BUS0
topology disksim_iodriver driver0 [
   disksim_bus bus0 [ disksim_disk disk0 [] ]
]
";

const DRIVE: &str = "
disksim_disk EXAMPLE_100 {
   Model = source example.model,
   Per-request overhead time = 0.100000,
   Time scale for overheads = 2.000000,
   Bulk sector transfer time = 0.08,
   Number of buffer segments = 3,
   Maximum number of write segments = 2,
   Segment size (in blks) = 64,
   Low (write) water mark = 0.9,
   High (read) water mark = 0.5,
   Enable caching in buffer = 1,
   Buffer continuous read = 4,
   Maximum read-ahead (blks) = 32,
   Fast write level = 2,
   Immediate buffer read = 1,
   Read hit over. after read = 0.2,
   Read hit over. after write = 0.3,
   Read miss over. after read = 0.4,
   Read miss over. after write = 0.5,
   Write hit over. after read = 0.6,
   Write hit over. after write = 0.7,
   Write miss over. after read = 0.8,
   Write miss over. after write = 0.9,
   Read completion overhead = 0.01,
   Write completion overhead = 0.02
} # end
";

const MODEL: &str = "
dm_disk EXAMPLE_100_model {
   Number of data surfaces = 4,
   Number of cylinders = 100,
   Block count = 20000,
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = 3,
      Rangesize for sparing = 1,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0, Last cylinder number = 59, Blocks per track = 60,
            Offset of first block = 0.0, Empty space at zone front = 120,
            Skew for track switch = 6.0, Skew for cylinder switch = 12.0,
            Number of spares = 2, slips = [ 7, 9 ], defects = []
         },
         dm_layout_g1_zone {
            First cylinder number = 60, Last cylinder number = 99, Blocks per track = 50,
            Offset of first block = 0.0, Empty space at zone front = 0,
            Skew units = revolutions,
            Skew for track switch = 0.1, Skew for cylinder switch = 0.25,
            Number of spares = 0, slips = [], defects = []
         }
      ]
   },
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted,
      Full seek curve = example.seek,
      Add. write settling delay = 0.25,
      Head switch time = 0.75,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   }
}
";

const SEEKS: &str = "Seek distances measured: 3\n1,\t1.5\n10,\t2.5\n\n99, 6.5\n";

/// The files by name.
const FILES: [(&str, &str); 4] = [
    ("example.parv", SYSTEM),
    ("example.diskspecs", DRIVE),
    ("example.model", MODEL),
    ("example.seek", SEEKS),
];

fn example() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn spec_of(directory: &Path) -> Spec {
    match preset(&directory.join("example.parv")).unwrap() {
        Preset { model: Model::Disk(spec), .. } => *spec,
        other => panic!("{other:?}"),
    }
}

fn near(value: Option<f64>, expected: f64) {
    assert!((value.unwrap() - expected).abs() < 1e-9, "{value:?} is not {expected}");
}

/// Promise: what a parameter file says of a drive is taken over: sectors and spares, skews as
/// times, measured seeks, overheads by the request before, the slowest of the buses, and the
/// buffers.
#[test]
fn drives_are_read() {
    let directory = example();
    let spec = spec_of(directory.path());
    let geometry = spec.geometry.as_ref().unwrap();
    assert_eq!((geometry.heads, geometry.layout), (4, Layout::CylinderSerpentine));
    let [outer, inner] = geometry.zone.as_slice() else { panic!() };
    assert_eq!((outer.cylinders, outer.sectors_per_track), (60, 60));
    assert_eq!((outer.spare_sectors, outer.spare_every_tracks), (Some(2), Some(1)));
    assert_eq!((outer.front_reserved_sectors, outer.end_reserved_sectors), (Some(120), Some(2)));
    near(outer.track_skew_ms, 1.0);
    near(outer.cylinder_skew_ms, 2.0);
    near(inner.track_skew_ms, 1.0);
    near(inner.cylinder_skew_ms, 2.5);

    let seek = spec.seek.as_ref().unwrap();
    assert_eq!(seek.table_ms, [(1, 1.5), (10, 2.5), (99, 6.5)].into_iter().collect());
    near(seek.write_settle_ms, 0.25);

    let controller = spec.controller.as_ref().unwrap();
    near(Some(controller.overhead_ms), 2.0 * (0.1 + 0.4 + 0.01));
    near(controller.write_hit_overhead_ms, 2.0 * (0.1 + 0.6 + 0.02));
    near(Some(controller.after_write.as_ref().unwrap().hit_overhead_ms), 2.0 * (0.1 + 0.3 + 0.01));
    near(Some(controller.bus_mb_s), 5.0);
    near(controller.write_bus_mb_s, 4.0);
    near(controller.read_watermark, 0.5);
    assert_eq!(controller.zero_latency, Some(true));

    let buffer = spec.read_buffer.as_ref().unwrap();
    assert_eq!((buffer.segments, buffer.segment_kib), (3, 32));
    assert_eq!(buffer.read_ahead_until, ReadAheadUntil::NextTrack);
    assert_eq!(spec.write_cache.as_ref().unwrap().size_kib, 64);

    // 238 tracks of 58 sectors, less two that were slipped; then 160 of 50.
    assert_eq!(Disk::new(&spec).unwrap().capacity_sectors(), (240 * 58 - 120 - 2) + 160 * 50);

    let path = directory.path().join("example.parv");
    assert_eq!(disk(path.to_str().unwrap()).unwrap(), spec);
    let mut library = Library::built_in().unwrap();
    assert_eq!(library.load(&path).unwrap(), ["example"]);
    assert_eq!(library.disk("example").unwrap(), &spec);
}

/// Promise: seek times by formula are those of the formula, with the first ten in front.
#[test]
fn seeks_by_formula() {
    let directory = example();
    let formula = "Seek type = hplplus10,
      HPL seek equation values = [ 50, 2.0, 0.5, 4.0, 0.02, -1 ],
      First ten seek times = [ 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0 ]";
    fs::write(directory.path().join("example.model"), MODEL.replace("Seek type = extracted", formula))
        .unwrap();
    let table = spec_of(directory.path()).seek.unwrap().table_ms;
    for (distance, ms) in [(1, 1.1), (10, 2.0), (16, 4.0), (49, 5.5), (50, 5.0), (1000, 24.0)] {
        near(table.get(&distance).copied(), ms);
    }
}

/// Promise: whatever is wrong with the files, the message names the file and the line or the key.
#[test]
fn errors_name_the_place() {
    let cases = [
        ("example.parv", "disksim_bus BUS1 {", "disksim_bus BUS1", &["example.parv", "line 8"][..]),
        ("example.parv", "source example.diskspecs", "source none", &["none"]),
        ("example.parv", "source example.diskspecs", "source example.parv", &["example.parv"]),
        ("example.parv", "source example.diskspecs", "", &["example.parv", "disksim_disk"]),
        (
            "example.diskspecs",
            "Fast write level = 2",
            "Fast write level = two",
            &["diskspecs", "Fast write", "two"],
        ),
        ("example.diskspecs", "Fast write level = 2,", "Fast write level = 2", &["diskspecs", "line 16"]),
        (
            "example.diskspecs",
            "Read hit over. after write = 0.3,",
            "",
            &["diskspecs", "Read hit over. after write"],
        ),
        ("example.model", "dm_layout_g1 {", "dm_layout_g9 {", &["example.model", "dm_layout_g1"]),
        (
            "example.model",
            "Sparing scheme used = 3",
            "Sparing scheme used = 77",
            &["example.model", "Sparing"],
        ),
        (
            "example.model",
            "Last cylinder number = 59",
            "Last cylinder number = -1",
            &["example.model", "Last"],
        ),
        ("example.model", "Zones = [", "Zones = 3, [", &["example.model", "line 10"]),
        ("example.model", "= extracted", "= guessed", &["example.model", "Seek type", "guessed"]),
        ("example.model", "rpms) = 6000", "rpms) = 0", &["example", "geometry"]),
        ("example.seek", "10,\t2.5", "ten, 2.5", &["example.seek", "line 3"]),
    ];
    for (file, from, to, words) in cases {
        let directory = example();
        let text = FILES.iter().find(|(name, _)| *name == file).unwrap().1;
        assert!(text.contains(from), "{from}");
        fs::write(directory.path().join(file), text.replacen(from, to, 1)).unwrap();
        let message = preset(&directory.path().join("example.parv")).expect_err(to).to_string();
        for word in words {
            assert!(message.contains(word), "{to:?}: {word} is not in: {message}");
        }
    }
}

/// Promise: no text makes the reader panic or hang: it is refused, or describes a disk that works.
#[test]
fn hostile_files() {
    let seed = std::env::var("SPINDLE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    println!("SPINDLE_SEED={seed} cargo test -p spindle-sim --test disksim hostile_files");
    let mut random = SmallRng::seed_from_u64(seed);
    let directory = example();
    let bits = [
        "{",
        "}",
        "[",
        "]",
        ",",
        "=",
        "source example.parv",
        "-1",
        "4294967295",
        "1e300",
        "nan",
        "#",
        "\u{e9}",
    ];
    let mut read = 0;
    for _ in 0..1500 {
        let (name, text) = FILES[random.random_range(0..FILES.len())];
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..random.random_range(1..4) {
            let from = random.random_range(0..bytes.len());
            let to = (from + random.random_range(0..8)).min(bytes.len());
            let bit = bits[random.random_range(0..bits.len())];
            bytes.splice(from..to, bit.bytes());
        }
        fs::write(directory.path().join(name), &bytes).unwrap();
        if let Ok(Preset { model: Model::Disk(spec), .. }) = preset(&directory.path().join("example.parv")) {
            let mut disk = Disk::new(&spec).unwrap();
            let last = disk.capacity_sectors() - 1;
            for sector in [0, last, last / 2] {
                let now = spindle_sim::Time(1 << 40);
                assert!(disk.start(now, &common::read(sector, 1)).done >= now);
            }
            read += 1;
        }
        fs::write(directory.path().join(name), text).unwrap();
    }
    assert!(read > 100, "{read}");
}

/// Promise: a trace runs in a closed loop: a model that takes as long as the drive did has a root
/// mean square of 0, and one that always takes a millisecond less has 1.
#[test]
fn traces_run_in_a_closed_loop() {
    let directory = example();
    let spec = spec_of(directory.path());
    let mut random = SmallRng::seed_from_u64(SEED);
    let (mut disk, mut now) = (Disk::new(&spec).unwrap(), spindle_sim::Time::ZERO);
    let (mut same, mut later) = (String::new(), String::new());
    for n in 0..500 {
        let (sector, sectors) = (random.random_range(0..20_000), random.random_range(1..20));
        let (op, transfer) = if n % 3 == 0 {
            ('W', common::write(sector, sectors))
        } else {
            ('R', common::read(sector, sectors))
        };
        let (done, gap_us) = (disk.start(now, &transfer).done, random.random_range(0..30_000));
        let us = in_ms(done - now) * 1e3;
        writeln!(same, "{op} Hit {sector} {sectors} {us:.3} {gap_us}.000").unwrap();
        writeln!(later, "{op} Miss {sector} {sectors} {:.3} {gap_us}.000", us + 1000.0).unwrap();
        now = done + spindle_sim::Time(gap_us * 1000);
    }
    for (text, rms) in [(same, 0.0), (later, 1.0)] {
        let path = directory.path().join("example.trace");
        fs::write(&path, text).unwrap();
        let found = validate(&mut Disk::new(&spec).unwrap(), &read_trace(&path).unwrap()).unwrap();
        assert_eq!(found.requests, 500);
        assert!((found.rms_ms - rms).abs() < 1e-3, "{found:?}");
        assert!((found.measured_ms - found.modelled_ms - rms).abs() < 1e-3, "{found:?}");
    }
    let mut disk = Disk::new(&spec).unwrap();
    assert!(validate(&mut disk, &[]).unwrap_err().to_string().contains("no requests"));
    let path = directory.path().join("example.trace");
    fs::write(&path, "R Hit 5 1 100.0 10.0\nR Hit 9999999 1 100.0 10.0\n").unwrap();
    let message = validate(&mut disk, &read_trace(&path).unwrap()).unwrap_err().to_string();
    assert!(message.contains("line 2"), "{message}");
    fs::write(&path, "R Hit 5 1 100.0 10.0\nX Hit 5 1 1 1\n").unwrap();
    assert!(read_trace(&path).unwrap_err().to_string().contains("line 2"));
}

/// Promise: the drives of a directory are those with a trace of this form, each with the figure
/// that the script names before it runs the drive.
#[test]
fn drives_of_a_directory() {
    let directory = example();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("example.trace", "R Hit 5 1 100.0 10.0\n");
    write("other.parv", SYSTEM);
    write("other.trace", "R Hit 5 1 100.0 10.0\n");
    write("open.parv", SYSTEM);
    write("open.trace", "13.19 30 0 5 1\n");
    write("alone.parv", SYSTEM);
    write(
        "runvalid",
        "echo \"EXAMPLE (rms should be about 0.125)\"\n${P}/disksim example.parv a.outv validate example.trace 0\\\n",
    );
    let found = trials(directory.path()).unwrap();
    let names: Vec<_> =
        found.iter().map(|trial| trial.drive.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["example.parv", "other.parv"]);
    assert_eq!((found[0].disksim_rms_ms, found[1].disksim_rms_ms), (Some(0.125), None));
}
