//! The command tunefs.

use crate::support::Bench;

/// Promise: each option changes its parameter, prints the old and new value, and is shown by info;
/// the image has no damage afterwards.
#[test]
fn each_option_takes_effect() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m a.img");
    let output = bench.ok("tunefs -a 4 -e 99 -f 4k -m 12 -o space -s 9 -L vol_1 -n enable a.img");
    for line in [
        "maxcontig changes from 32 blocks to 4 blocks\n",
        "maxbpg changes from 4096 blocks to 99 blocks\n",
        "avgfilesize changes from 16384 bytes to 4096 bytes\n",
        "minfree changes from 8% to 12%\n",
        "optimization changes from time to space\n",
        "avgfpdir changes from 64 files to 9 files\n",
        "label changes from \"\" to \"vol_1\"\n",
        "soft updates changes from disabled to enabled\n",
        "note: with a reserve of 8% or more, optimization for time is better\n",
    ] {
        assert!(output.contains(line), "{line} is not in {output}");
    }
    assert_eq!(
        bench.ok("tunefs -m 12 a.img"),
        "minfree remains 12%\nnote: with a reserve of 8% or more, optimization for time is better\n"
    );
    let found = bench.json("info --json a.img")["file_system"].clone();
    for (field, value) in [
        ("fs_maxcontig", 4),
        ("fs_maxbpg", 99),
        ("fs_avgfilesize", 4096),
        ("fs_minfree", 12),
        ("fs_avgfpdir", 9),
    ] {
        assert_eq!(found[field], value, "{field}");
    }
    assert_eq!((&found["fs_optim"], &found["volume_name"]), (&"space".into(), &"vol_1".into()));
    assert_eq!(found["flags"][0], "soft updates");
    bench.check("a.img");
    bench.ok("newfs -O0 -s 16m old.img");
    assert_eq!(bench.ok("tunefs -d 0 old.img"), "rotdelay changes from 4 ms to 0 ms\n");
    assert_eq!(bench.json("info --json old.img")["file_system"]["geometry"]["rotdelay_ms"], 0);
    bench.check("old.img");
}

/// Promise: -p prints the settings without a change, also while another program uses the image, and
/// as JSON with the settings of the format.
#[test]
fn settings_are_printed() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m -L vol a.img");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    let output = bench.ok("tunefs -p a.img");
    assert!(output.starts_with("-a  maxcontig     32 blocks\n") && output.contains("\"vol\""), "{output}");
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let output = bench.json("tunefs --json -m 9 -A a.img");
    assert_eq!(
        (&output["settings"]["minfree"], &output["settings"]["soft_updates"]),
        (&9.into(), &false.into())
    );
    assert_eq!(output["changes"][0]["parameter"], "minfree");
    assert_eq!((&output["changes"][0]["old"], &output["changes"][0]["new"]), (&8.into(), &9.into()));
    let groups = bench.json("info --json a.img")["file_system"]["fs_ncg"].clone();
    assert_eq!(output["superblock_copies_written"], groups);
    bench.ok("newfs -O1 --dialect sun -s 16m sun.img");
    let output = bench.json("tunefs -p --json sun.img");
    let names: Vec<_> = output["settings"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["maxbpg", "maxcontig", "minfree", "optimization", "rotdelay"]);
}

/// Promise: an invalid parameter is refused with its name and nothing is changed; an image that is
/// in use or not clean is not written.
#[test]
fn refusals() {
    let bench = Bench::new();
    bench.ok("newfs --no-check-hashes -s 16m a.img");
    let before = std::fs::read(bench.path("a.img")).unwrap();
    bench.fails("tunefs a.img", 2, &["a.img", "-p"]);
    bench.fails("tunefs -m 9 -a 0 a.img", 1, &["a.img", "maxcontig 0", "1 to 512 blocks"]);
    bench.fails("tunefs -m 100 a.img", 1, &["minfree 100", "0 to 99%"]);
    bench.fails("tunefs -m 9 -d 4 a.img", 1, &["rotdelay", "UFS1"]);
    bench.fails("tunefs -a on a.img", 2, &["enable or disable for access control lists"]);
    bench.fails("tunefs -n on a.img", 2, &["enable or disable"]);
    bench.fails("tunefs -o speed a.img", 2, &["time or space"]);
    assert!(std::fs::read(bench.path("a.img")).unwrap() == before);
    let spec = spindle_device::Spec::parse(bench.path("a.img").to_str().unwrap()).unwrap();
    let user = spec.open(&spindle_device::OpenOptions::read_write()).unwrap();
    bench.fails("tunefs -m 9 a.img", 1, &["a.img", "in use"]);
    bench.ok("tunefs -p a.img");
    drop(user);
    bench.shell("printf '\\000' | dd bs=1 seek=$((65536 + 209)) conv=notrunc of=a.img status=none");
    bench.fails("tunefs -m 9 a.img", 1, &["cannot be written", "not unmounted cleanly", "force"]);
    assert_eq!(bench.ok("tunefs --force -m 9 a.img"), "minfree changes from 8% to 9%\n");
    assert_eq!(bench.json("info --json a.img")["file_system"]["clean"], false);
    bench.write("none.img", [0; 4096]);
    bench.fails("tunefs -p none.img", 1, &["none.img", "superblock"]);
    bench.ok("newfs -t v7 -s 1m old.img");
    bench.fails("tunefs -p old.img", 1, &["old.img", "nothing to tune"]);
    bench.fails("tunefs -m 9 missing.img", 1, &["missing.img", "No such file"]);
}
