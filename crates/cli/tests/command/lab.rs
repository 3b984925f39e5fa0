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

/// Promise: experiments are listed, run by name, and written as text, JSON and pictures; unknown
/// names are refused.
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
    bench.fails("lab run nonsense", 2, &["nonsense", "spindle lab list"]);
    bench.fails("lab run", 2, &["ID"]);
}
