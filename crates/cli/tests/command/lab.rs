//! The commands `lab` and `waste`.

use crate::support::Bench;

/// Promise: waste counts data once, does not count holes, and counts the blocks, inodes and
/// fragments of each organisation.
#[test]
fn waste_of_a_tree() {
    let bench = Bench::new();
    bench.shell(
        "mkdir -p t/sub && printf %011000d 0 > t/file && ln t/file t/sub/again && ln -s file t/link
         truncate -s 10M t/sparse && printf x | dd of=t/sparse bs=1 seek=5M conv=notrunc status=none",
    );
    let output = bench.json("waste --json t");
    // Two directories of 4 + 2 and 1 + 2 entries, a file, a symbolic link, and the stored part
    // of the sparse file.
    assert_eq!(output["objects"], 5);
    let sparse = output["data_bytes"].as_u64().unwrap() - (6 + 3) * 16 - 11_000 - 4;
    assert!((1..=65_536).contains(&sparse), "{sparse}");
    let of = |name: &str, key: &str| {
        let all = output["organisations"].as_array().unwrap();
        all.iter().find(|o| o["name"] == name).unwrap()[key].as_u64().unwrap()
    };
    assert_eq!(of("old file system, 1024", "inode_bytes"), 5 * 64);
    assert_eq!(of("UFS2, 32768/4096", "inode_bytes"), 5 * 256);
    assert_eq!(of("data only, no separation", "used_bytes"), output["data_bytes"].as_u64().unwrap());
    let text = bench.ok("waste t");
    assert!(
        text.contains("5 files and directories") && text.contains("new file system, 4096/1024"),
        "{text}"
    );
    bench.fails("waste none", 1, &["none: no such file or directory"]);
}

/// Promise: modelled disks and hosts are shown with the sources of their figures, and an invalid
/// preset file is refused with its error.
#[test]
fn presets() {
    let bench = Bench::new();
    assert!(bench.ok("lab presets").contains("ibm-0661"));
    assert!(bench.ok("lab presets ibm-0661").contains("  disk.geometry.rpm = 4316\n      high"));
    std::fs::write(bench.path("mine.toml"), "title = 'm'\ndescription = 'd'\n[disk]\n").unwrap();
    bench.fails("lab presets mine.toml", 1, &["mine.toml: ", "geometry"]);
    bench.write("dir/text", "[host]\nroot:x:0:0\n");
    bench.fails("lab presets dir/text", 1, &["spindle: dir/text: line 2 ("]);
    bench.fails("trace synth --model dir/text -o made", 2, &["dir/text: line 2: "]);
    for name in ["vax-11-750", "ibm-0661"] {
        let shown = bench.ok(&format!("lab presets {name}"));
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }
    bench.fails("lab presets none", 2, &["none: neither a file nor a preset"]);
}

/// Promise: what is measured of a disk is a preset, and the disk stays as it was; what cannot be
/// measured is refused with the reason.
#[test]
fn calibration() {
    let bench = Bench::new();
    bench.fails("lab calibrate none", 1, &["none"]);
    bench.fails("lab calibrate /dev/null", 1, &["/dev/null", "neither a regular file nor a block device"]);
    let before: Vec<u8> = (0..16_u32 << 20).map(|n| n.to_le_bytes()[2]).collect();
    bench.write("disk", &before);
    let ran = bench.run("lab calibrate disk");
    assert!(std::fs::read(bench.path("disk")).unwrap() == before);
    if ran.code == 1 {
        // The disk below may be one that turns, of which so small a file shows too little.
        assert!(["something turns", "revolution"].iter().any(|why| ran.err.contains(why)), "{}", ran.err);
        assert!(ran.err.contains("spindle: disk: "), "{}", ran.err);
        return;
    }
    assert_eq!((ran.code, &ran.err[..]), (0, ""));
    bench.write("mine.toml", &ran.out);
    let shown = bench.ok("lab presets mine.toml");
    assert!(shown.starts_with("mine, disk: disk\n"), "{shown}");
    assert!(shown.contains("high; spindle lab calibrate disk\n"), "{shown}");
}

/// Promise: drives in the form of `DiskSim` are presets, run with the traces of their validation,
/// and are marked where they are further off than `DiskSim`'s figure allows.
#[test]
fn drives_of_disksim() {
    let bench = Bench::new();
    bench.write(
        "d/a.parv",
        "disksim_disk SMALL {
            Model = dm_disk SMALL_model {
                Number of data surfaces = 2,
                Layout Model = dm_layout_g1 {
                    LBN-to-PBN mapping scheme = 0, Sparing scheme used = 0, Rangesize for sparing = 1,
                    Zones = [ dm_layout_g1_zone {
                        First cylinder number = 0, Last cylinder number = 99, Blocks per track = 60,
                        Empty space at zone front = 0, Number of spares = 0 } ] },
                Mechanical Model = dm_mech_g1 {
                    Seek type = constant, Constant seek time = 3.0, Add. write settling delay = 0.0,
                    Head switch time = 0.5, Rotation speed (in rpms) = 6000 } },
            Time scale for overheads = 1.0, Bulk sector transfer time = 0.0,
            High (read) water mark = 0.0, Enable caching in buffer = 0, Fast write level = 0,
            Immediate buffer read = 0,
            Read hit over. after read = 0.5, Read hit over. after write = 0.5,
            Read miss over. after read = 0.5, Read miss over. after write = 0.5,
            Write hit over. after read = 0.5, Write hit over. after write = 0.5,
            Write miss over. after read = 0.5, Write miss over. after write = 0.5
        }",
    );
    // Sector 3 begins at .5 ms, when the overhead has passed, and takes a sixth of a millisecond.
    bench.write("d/a.trace", "R Miss 3 1 666.667 1000.0\n");
    bench.write("d/runvalid", "(rms should be about 0.100)\ndisksim a.parv a.outv validate a.trace 0\n");
    assert!(bench.ok("lab presets d/a.parv").contains("disk.geometry.zone[0].sectors_per_track = 60"));
    let found = bench.json("lab disksim --json d");
    assert_eq!((&found[0]["drive"], &found[0]["requests"]), (&"a".into(), &1.into()));
    assert!(found[0]["rms_ms"].as_f64().unwrap() < 0.001, "{found}");
    bench.write("d/a.trace", "R Miss 3 1 866.667 1000.0\n");
    let ran = bench.run("lab disksim d");
    assert!(ran.code == 1 && ran.out.contains(" 0.200    0.100   2.00 !\n"), "{}", ran.out);
    bench.fails("lab disksim dir", 1, &["dir"]);
    std::fs::create_dir(bench.path("empty")).unwrap();
    bench.fails("lab disksim empty", 1, &["empty: no DRIVE.parv"]);
    bench.write("d/a.parv", "disksim_disk SMALL { Model = 3 }");
    bench.fails("lab disksim d", 1, &["a.parv", "Model"]);
}

/// Promise: a trace of disks runs on modelled disks without a file system, a trace of files does
/// not.
#[test]
fn requests_on_modelled_disks() {
    let bench = Bench::new();
    let request = |n: u64| {
        let (time, disk, offset) = (128_166_372_003_061_629 + n * 500_000, n % 2, n * 999_936 % 300_000_000);
        format!(
            "{time},src1,{disk},{},{offset},8192,100\n",
            if n.is_multiple_of(3) { "Write" } else { "Read" }
        )
    };
    bench.write("msr.csv", (0..60).map(request).collect::<String>());
    let text = bench.ok("trace replay msr.csv --disk eagle --fs none");
    let figures = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(["read", "write", "disks"].map(figures), ["40", "20", "2.00"]);
    let outcome = bench.json("trace replay msr.csv --disk nvme --fs none --speed max --queue sstf --json");
    assert_eq!(outcome["tables"].as_array().unwrap().len(), 3);
    bench.ok("trace synth --events 1k --like a5 -o files.trace");
    bench.fails("trace replay files.trace --disk eagle --fs none", 1, &["files.trace: ", "one of files"]);
    bench.ok("trace replay files.trace --disk nvme --host today");
    bench.fails("trace replay files.trace --disk none", 1, &["no disk `none`", "eagle"]);
}

/// Promise: experiments are listed, run by name, and written as text, JSON and pictures, each of
/// which counts fitted and held out figures apart; unknown names are refused.
#[test]
fn experiments() {
    let bench = Bench::new();
    let listed = bench.ok("lab list");
    let line = listed.lines().find(|line| line.starts_with("ffs-table1 "));
    assert!(line.is_some_and(|line| line.contains(" space wasted")), "{listed}");
    assert_eq!(bench.json("lab list --json")[0]["id"], "ffs-table1");
    let text = bench.ok("lab run ffs-table1 -o out");
    assert_eq!(text, std::fs::read_to_string(bench.path("out/ffs-table1.txt")).unwrap());
    let svg = std::fs::read_to_string(bench.path("out/ffs-table1.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let json = std::fs::read_to_string(bench.path("out/ffs-table1.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["outcome"]["tables"][0]["columns"][0]["name"], "organisation");
    // One row of Table 1 was fitted, the others were held out.
    assert_eq!(json["tally"]["fitted"]["held"], 1);
    let held = json["tally"]["held_out"]["held"].as_u64().unwrap();
    for line in ["fitted: 1 of 1 figures within tolerance".to_owned(), format!("held out: {held} of 6 ")] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(svg.contains(&format!("fitted 1 of 1, held out {held} of 6")), "{svg}");
    bench.fails("lab run nonsense", 2, &["nonsense", "spindle lab list"]);
    bench.fails("lab run", 2, &["ID"]);
}

/// Promise: on a disk and a host of one's own, text, JSON and pictures name both, and nothing is
/// judged; what cannot be is refused before anything runs.
#[test]
fn experiments_on_a_disk_of_ones_own() {
    let bench = Bench::new();
    let text = bench.ok("lab run cluster-iobench --disk nvme --host today -o out");
    assert!(text.contains("machine: disk nvme, host today, in place of"), "{text}");
    assert!(!text.contains("within tolerance"), "{text}");
    let svg = std::fs::read_to_string(bench.path("out/cluster-iobench.svg")).unwrap();
    assert!(svg.contains("disk nvme, host today") && !svg.contains("tolerance"), "{svg}");
    let json = std::fs::read_to_string(bench.path("out/cluster-iobench.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["machine"], &json["tally"]), (&"disk nvme, host today".into(), &().into()));
    assert_eq!(json["outcome"]["tables"][0]["rows"][0]["cells"][1]["paper"], 1610.0);
    bench.fails("lab run cluster-cpu ffs-table1 --disk nvme", 2, &["ffs-table1: has no disk"]);
    bench.fails("lab run cluster-cpu --disk none", 2, &["no disk `none`", "eagle"]);
    bench.fails("lab all --disk nvme", 2, &["--disk"]);
}

/// Promise: what the simulation says of a trace is what a real mount does, within 10 %: calls,
/// reads and writes of the disk, and their bytes; times are shown.
#[test]
fn predicted_beside_real() {
    let bench = Bench::new();
    bench.ok("trace synth --events 3k --like a5 --seed 3 -o a5.trace");
    let reports = bench.json("lab beside --disk nvme --json a5.trace");
    let [real, predicted] = ["real", "predicted"].map(|side| &reports[0][side]);
    let of = |side: &serde_json::Value, name: &str| side[name].as_f64().unwrap();
    assert_eq!(real["calls"], predicted["calls"]);
    assert!(of(real, "reads") > 100.0 && of(real, "bytes_written") > 100_000.0, "{real}");
    for name in ["reads", "bytes_read", "writes", "bytes_written"] {
        let ratio = of(predicted, name) / of(real, name);
        assert!((0.9..=1.1).contains(&ratio), "{name}: {real} {predicted}");
    }
    assert!(of(real, "elapsed_seconds") > 0.0 && of(predicted, "elapsed_seconds") > 0.0);
    bench.fails("lab beside none.trace", 1, &["none.trace"]);
}
