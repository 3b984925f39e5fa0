//! The presets that come with Spindle, and what is said of files that are wrong.

mod common;

use spindle_sim::Time;
use spindle_sim::disk::Disk;
use spindle_sim::host::Host;
use spindle_sim::preset::{Library, Model, Preset, Sureness, all};

/// Promise: every preset describes something that can be built, and says of every figure where it
/// is from.
#[test]
fn all_are_whole() {
    for preset in all().unwrap() {
        let name = &preset.name;
        match &preset.model {
            Model::Disk(spec) => drop(Disk::new(spec).unwrap()),
            Model::Host(spec) => drop(Host::new(spec).unwrap()),
        }
        assert!(!preset.title.is_empty() && !preset.description.is_empty(), "{name}");
        assert!(preset.figures.len() > 8, "{name}");
        for figure in &preset.figures {
            let sure = figure.sure.unwrap_or_else(|| panic!("{name}: {}: how sure?", figure.field));
            assert!(sure == Sureness::Estimated || figure.source.is_some() || figure.note.is_some());
        }
    }
}

const EXAMPLE: &str = r#"
title = "Example"
description = "A small disk."
[sources]
manual = "Manual, page 1"
[disk.geometry]
rpm = 3600
heads = { value = 4, sure = "high", source = "manual" }
sector_bytes = 512
head_switch_ms = 0
[[disk.geometry.zone]]
cylinders = 100
sectors_per_track = 17
[disk.seek]
min_ms = 3
average_ms = 12
max_ms = 25
[disk.controller]
overhead_ms = 0.5
bus_mb_s = 1
forwarding = "direct"
"#;

/// Promise: plain numbers do where nobody asks for a source.
#[test]
fn plain_numbers() {
    let preset = Preset::parse("example", EXAMPLE).unwrap();
    let heads = preset.figures.iter().find(|figure| figure.field == "disk.geometry.heads").unwrap();
    assert_eq!(heads.source.as_deref(), Some("Manual, page 1"));
    assert_eq!((heads.value, heads.sure), (4.0, Some(Sureness::High)));
    let rpm = preset.figures.iter().find(|figure| figure.field == "disk.geometry.rpm").unwrap();
    assert_eq!((rpm.value, rpm.sure), (3600.0, None));
    let Model::Disk(spec) = &preset.model else { panic!() };
    assert_eq!(Disk::new(spec).unwrap().capacity_sectors(), 100 * 4 * 17);
}

/// Promise: whatever is wrong with a file, the message names the preset and the field.
#[test]
fn errors_name_the_place() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("rpm = 3600", "rpm = \"fast\"", &["rpm = \"fast\"", "string"]),
        ("rpm = 3600", "rpm = 0", &["geometry.rpm"]),
        ("rpm = 3600", "", &["missing field `rpm`"]),
        ("rpm = 3600", "rpm = 3600\ncolour = 3", &["unknown field `colour`"]),
        ("heads = { value = 4,", "heads = { value = -4,", &["heads", "-4"]),
        ("sure = \"high\"", "sure = \"maybe\"", &["maybe", "estimated"]),
        ("sure = \"high\", ", "", &["sure"]),
        (", source = \"manual\"", "", &["source"]),
        (", source = \"manual\"", ", source = \"brochure\"", &["disk.geometry.heads", "brochure"]),
        ("value = 4, ", "", &["value"]),
        ("average_ms = 12", "average_ms = 2", &["seek", "rise"]),
        ("average_ms = 12", "average_ms = 24", &["seek", "average_ms"]),
        ("\"direct\"", "\"directly\"", &["directly", "whole"]),
        ("bus_mb_s = 1", "bus_mb_s = 0.1", &["controller.forwarding", "bus"]),
        ("bus_mb_s = 1", "bus_mb_s = nan", &["controller.bus_mb_s"]),
        ("sector_bytes = 512", "sector_bytes = 500", &["geometry.sector_bytes"]),
        ("cylinders = 100", "cylinders = 0", &["geometry.zone.cylinders"]),
        ("[disk.seek]", "[disk.sook]", &["sook"]),
        ("title = \"Example\"", "title = ", &["title"]),
        ("average_ms = 12", "", &["average_ms", "table_ms"]),
        ("average_ms = 12", "table_ms = { 1 = 3, 9 = 4 }", &["table_ms", "no other"]),
        ("average_ms = 12", "average_ms = 12\nwrite_table_ms = { 1 = 3, 9 = 4 }", &["needs a table_ms"]),
        ("average_ms = 12", "table_ms = { near = 3 }", &["near", "whole number"]),
        ("average_ms = 12", "average_ms = 12\nwrite_settle_ms = 1e9", &["seek.write_settle_ms"]),
        ("rpm = 3600", "rpm = 3600\nlayout = \"spiral\"", &["spiral", "surface-serpentine"]),
        ("rpm = 3600", "rpm = 3600\nserpentine_cylinders = 9", &["geometry.serpentine_cylinders"]),
        (
            "rpm = 3600",
            "rpm = 3600\nlayout = \"surface-serpentine\"",
            &["serpentine_cylinders", "at least 1"],
        ),
        ("cylinders = 100", "cylinders = 100\ntrack_skew_ms = -1", &["geometry.zone.track_skew_ms"]),
        ("bus_mb_s = 1", "bus_mb_s = 1\nwrite_overhead_ms = -1", &["controller.write_overhead_ms"]),
        ("bus_mb_s = 1", "bus_mb_s = 1\nread_watermark = 0.5", &["controller.read_watermark", "sector"]),
    ];
    for (from, to, words) in cases {
        let text = EXAMPLE.replacen(from, to, 1);
        assert_ne!(text, EXAMPLE, "{from}");
        let message = Preset::parse("mine", &text).expect_err(to).to_string();
        assert!(message.contains("mine"), "{message}");
        for word in *words {
            assert!(message.contains(word), "{to}: {word} is not in: {message}");
        }
    }
    let seeks = "min_ms = 3\naverage_ms = 12\nmax_ms = 25\n";
    for (table, words) in
        [("{ 1 = 3 }", "one more"), ("{ 2 = 3, 3 = 4 }", "next cylinder"), ("{ 1 = -1, 2 = 3 }", "from 0")]
    {
        let text = EXAMPLE.replacen(seeks, &format!("table_ms = {table}\n"), 1);
        let message = Preset::parse("mine", &text).expect_err(table).to_string();
        assert!(message.contains("seek.table_ms") && message.contains(words), "{table}: {message}");
    }
    let neither = Preset::parse("mine", "title = \"\"\ndescription = \"\"").unwrap_err().to_string();
    assert!(neither.contains("[host]"), "{neither}");
}

/// Promise: users' files and directories add to the library and replace what has the same name; an
/// unknown name is answered with those there are.
#[test]
fn users_files() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine.toml"), EXAMPLE).unwrap();
    std::fs::write(directory.path().join("eagle.toml"), EXAMPLE).unwrap();
    std::fs::write(directory.path().join("README"), "not a preset").unwrap();
    let mut library = Library::built_in().unwrap();
    let before = library.iter().count();
    assert_eq!(library.load(directory.path()).unwrap(), ["eagle", "mine"]);
    assert_eq!(library.iter().count(), before + 1);
    assert_eq!(library.disk("eagle").unwrap(), library.disk("mine").unwrap());
    let message = library.disk("vax-11-750").unwrap_err().to_string();
    assert!(message.contains("no disk `vax-11-750`") && message.contains("capricorn-unibus"), "{message}");
    assert!(library.host("vax-11-750").is_ok() && library.host("mine").is_err());
    let message = library.load(&directory.path().join("none.toml")).unwrap_err().to_string();
    assert!(message.contains("none.toml"), "{message}");
    std::fs::write(directory.path().join("bad.toml"), "title = 1").unwrap();
    let message = library.load(directory.path()).unwrap_err().to_string();
    assert!(
        message.contains("bad") && message.contains(&*directory.path().display().to_string()),
        "{message}"
    );
}

/// What the presets that come with Spindle do not have.
const REST: &str = r#"
title = "Rest"
description = "A disk with every other figure."
[disk.geometry]
rpm = { value = 7200, sure = "low", note = "" }
heads = { value = 3, sure = "low", note = "" }
sector_bytes = 512
head_switch_ms = { value = 0.8, sure = "low", note = "" }
layout = "surface-serpentine"
serpentine_cylinders = { value = 7, sure = "low", note = "" }
[[disk.geometry.zone]]
cylinders = { value = 100, sure = "low", note = "" }
sectors_per_track = { value = 61, sure = "low", note = "" }
track_skew_ms = { value = 0.9, sure = "low", note = "" }
cylinder_skew_ms = { value = 1.5, sure = "low", note = "" }
[[disk.geometry.zone]]
cylinders = 90
sectors_per_track = 50
[disk.seek]
write_settle_ms = { value = -0.3, sure = "low", note = "" }
[disk.seek.table_ms]
1 = { value = 1.2, sure = "low", note = "" }
10 = { value = 2.2, sure = "low", note = "" }
150 = { value = 5.2, sure = "low", note = "" }
[disk.seek.write_table_ms]
1 = { value = 1.4, sure = "low", note = "" }
150 = { value = 5.2, sure = "low", note = "" }
[disk.controller]
overhead_ms = 0.5
hit_overhead_ms = 0.2
write_overhead_ms = { value = 0.4, sure = "low", note = "" }
write_hit_overhead_ms = { value = 0.1, sure = "low", note = "" }
bus_mb_s = 10
forwarding = "sector"
read_watermark = { value = 0.5, sure = "low", note = "" }
write_watermark = { value = 0.25, sure = "low", note = "" }
[disk.read_buffer]
segments = 2
segment_kib = 64
read_ahead_kib = { value = 200, sure = "low", note = "" }
[disk.write_cache]
size_kib = 64
idle_ms = 1
"#;

/// Promise: no number in a file makes the model panic or hang: it is refused, or the disk works.
#[test]
fn extreme_figures() {
    let extremes = [
        "0",
        "-1",
        "1",
        "2",
        "0.001",
        "1e-300",
        "1e300",
        "nan",
        "inf",
        "65536",
        "4294967295",
        "9223372036854775807",
    ];
    let mut built = 0;
    let mut texts = vec![("rest", REST.to_owned())];
    for name in ["capricorn-unibus", "ibm-0661", "nearline-20tb", "nvme", "vax-11-750"] {
        let path = format!("{}/presets/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        texts.push((name, std::fs::read_to_string(path).unwrap()));
    }
    for (name, text) in texts {
        assert!(Preset::parse(name, &text).is_ok(), "{name}");
        let places: Vec<_> = text.match_indices("{ value = ").map(|(at, found)| at + found.len()).collect();
        for at in places {
            let end = at + text[at..].find(',').unwrap();
            for extreme in extremes {
                let changed = format!("{}{extreme}{}", &text[..at], &text[end..]);
                let Ok(Preset { model: Model::Disk(spec), .. }) = Preset::parse(name, &changed) else {
                    continue;
                };
                let mut disk = Disk::new(&spec).unwrap();
                built += 1;
                let last = disk.capacity_sectors() - 1;
                let mut now = Time::ZERO;
                for (n, place) in (0..12_u64).zip([0, 1, 2, 3].into_iter().cycle()) {
                    let sector = [0, last, last / 2, n * 8 % (last + 1)][place];
                    let sectors = u32::try_from((last + 1 - sector).min(300)).unwrap();
                    let transfer = if n % 3 == 0 {
                        common::write(sector, sectors)
                    } else {
                        common::read(sector, sectors)
                    };
                    let service = disk.start(now, &transfer);
                    assert!(service.done >= now, "{name}: {service:?}");
                    now = service.done + Time(n * 10_000_000);
                }
                assert!(disk.flush(now) >= now);
            }
        }
    }
    assert!(built > 200, "{built}");
}
