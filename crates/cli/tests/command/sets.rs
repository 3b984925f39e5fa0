//! Multi-structured file systems on the command line.

use crate::helpers::run_as;
use crate::support::{Bench, Ran};
use serde_json::Value;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the set of docs/USAGE.md, with smaller members, and puts a file into it.
fn set() -> Bench {
    let bench = Bench::new();
    bench.shell("mkdir fast slow mnt");
    let made = bench.ok(
        "newfs -t mfs --control fast/c0:16m,slow/c1:16m --data slow/d0:40m+slow/e0:44m,slow/d1:48m --log fast/l0:8m",
    );
    assert!(made.contains("6 members") && made.contains("slow/e0: data 0 (39.8 MiB, copy 1)"), "{made}");
    bench.write("text", "some text");
    bench.ok("cp text slow/d1:/text");
    bench
}

fn status(bench: &Bench, member: &str) -> Value {
    serde_json::from_str(&bench.run(&format!("mfs status --json {member}")).out).unwrap()
}

/// Returns the identity of the only member that is missing.
fn missing(bench: &Bench, member: &str) -> String {
    let status = status(bench, member);
    let gone: Vec<_> =
        status["members"].as_array().unwrap().iter().filter(|member| member["path"].is_null()).collect();
    assert_eq!(gone.len(), 1, "{status}");
    gone[0]["member_id"].as_str().unwrap().to_owned()
}

/// Promise: a set in one file that is too small is refused with the least size of the file, which
/// is enough, and no file is left.
#[test]
fn the_least_size_of_one_file_is_named() {
    let bench = Bench::new();
    let ran = bench.run("newfs -t mfs -s 16m one.img");
    assert!(ran.code == 1 && !bench.path("one.img").exists(), "{}", ran.err);
    let start = "spindle: one.img: 16777216 bytes are too few; it takes at least ";
    let least = ran.err.trim_end().strip_prefix(start).and_then(|rest| rest.strip_suffix(" bytes"));
    let least = least.unwrap_or_else(|| panic!("{}", ran.err));
    bench.ok(&format!("newfs -t mfs -s {least} one.img"));
    assert!(bench.ok("fsck -n one.img").contains("no problems found"));
}

/// Promise: every command takes any member and finds the others, in other directories too, also by
/// a mount; only what reads, or changes members, works beside one.
#[test]
fn any_member_names_the_set() {
    let bench = set();
    for member in ["fast/c0", "slow/c1", "slow/d0", "slow/e0", "slow/d1", "fast/l0"] {
        assert_eq!(bench.ok(&format!("cat {member}:/text")), "some text");
        assert!(bench.ok(&format!("fsck -n {member}")).contains("no problems found"));
        let info = bench.ok(&format!("info {member}"));
        assert!(info.contains("6 members") && info.contains("all members there"), "{info}");
    }
    assert_eq!(run_as(&bench, "mount.spindle", "slow/e0 mnt -o rw").code, 0);
    bench.write("mnt/new", "through the mount");
    assert_eq!(bench.run("cp text fast/c0:/x").code, 1);
    assert!(bench.ok("mfs scrub fast/c0").contains("mounted"));
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    assert_eq!(bench.ok("cat fast/l0:/new"), "through the mount");
    bench.fails("newfs -t v7 -s 1m slow/d0", 1, &["slow/d0", "a member of a multi-structured"]);
    bench.fails("tunefs -m 5 slow/d0", 1, &["nothing to tune"]);
}

/// Promise: the walk of docs/USAGE.md: a member is lost, the set goes on, a new one takes its
/// place, and the copies are equal.
#[test]
fn a_lost_member_is_replaced() {
    let bench = set();
    bench.shell("rm slow/e0");
    let ran = bench.run("cp text slow/d0:/more");
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("copy 1 of data storage 0 is missing"), "{}", ran.err);
    let lost = bench.path("slow").canonicalize().unwrap().join("e0");
    let was = format!("a member of the set is missing; it was last at {}", lost.display());
    assert!(ran.err.contains(&was), "{}", ran.err);
    // What is known of the place stays known after the set has been written without it.
    let shown = bench.run("mfs status slow/d0");
    assert_eq!(shown.code, 1);
    assert!(shown.out.contains(&format!(", last at {})", lost.display())), "{}", shown.out);
    assert_eq!(status(&bench, "fast/c0")["members"][3]["last_path"], lost.to_str().unwrap());
    let gone = missing(&bench, "slow/d0");
    bench.shell("dd if=/dev/zero of=small bs=1M count=8 status=none");
    let replace = format!("mfs replace slow/d0 {}", &gone[..8]);
    let ran = bench.run(&format!("{replace} small"));
    assert!(ran.code == 1 && ran.err.contains("too small"), "{}", ran.err);
    assert_eq!(bench.run(&format!("{replace} fast/c0")).code, 1);
    assert_eq!(bench.run(&format!("{replace} -s 44m slow/e1")).code, 0);
    bench.ok("mfs status slow/d0");
    assert!(bench.ok("mfs scrub slow/d0").contains("no problems found"));
    // The other copy is not needed any more.
    bench.ok("mfs remove slow/e1 slow/d0");
    bench.shell("test -e slow/d0 && rm slow/d0");
    assert_eq!(bench.ok("cat slow/e1:/more"), "some text");
    bench.ok("mfs status fast/c0");
    let ran = bench.run("mfs remove fast/c0 slow/e1");
    assert!(ran.code == 1 && ran.err.contains("the only copy"), "{}", ran.err);
    // Nor is it a second copy of itself by another name.
    bench.shell("ln -s slow/e1 other; ln slow/e1 same");
    for name in ["slow/e1", "other", "same"] {
        bench.fails(&format!("mfs add fast/c0 data:0 {name} --force"), 1, &["a member of this set"]);
    }
    for _ in 0..2 {
        bench.ok("mfs add fast/c0 log:0 slow/l1 -s 9m");
    }
    bench.ok("mfs remove fast/c0 fast/l0");
    assert_eq!(bench.ok("cat slow/l1:/text"), "some text");
}

/// Sets a flag when it is dropped, also after a failure.
struct Sets<'a>(&'a AtomicBool);

impl Drop for Sets<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Promise: members are replaced, added and removed while the set is mounted and written; what was
/// written meanwhile is on the new ones. Only root and the user of the mount can do it.
#[test]
fn members_change_under_a_mount() {
    let bench = set();
    assert_eq!(run_as(&bench, "mount.spindle", "slow/d1 mnt -o rw").code, 0);
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let over = Sets(&is_over);
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                bench.write(&format!("mnt/{written}"), "text".repeat(written % 3000));
                written += 1;
            }
            written
        });
        let ran = bench.run("mfs replace fast/c0 slow/d0 slow/e1 -s 8m");
        assert!(ran.code == 1 && ran.err.contains("slow/e1") && ran.err.contains("too small"), "{}", ran.err);
        bench.shell("test ! -e slow/e1");
        bench.ok("mfs replace fast/c0 slow/d0 slow/e1 -s 44m");
        bench.ok("mfs add slow/e1 log:0 slow/l1 -s 9m");
        bench.ok("mfs remove fast/c0 fast/l0");
        bench.ok("mfs replace fast/c0 slow/d1 slow/d2 -s 50m");
        let ran = bench.run("mfs remove fast/c0 slow/d2");
        assert!(ran.code == 1 && ran.err.contains("the only copy"), "{}", ran.err);
        bench.ok("mfs scrub fast/c0");
        bench.ok("mfs status fast/c0");
        drop(over);
        writer.join().unwrap()
    });
    if rustix::process::geteuid().is_root() {
        bench.shell("chmod a+rx . fast; chmod a+r fast/c0");
        let nobody = Command::new("setpriv")
            .args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_spindle"), "mfs", "scrub"])
            .arg(bench.path("fast/c0"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&nobody.stderr);
        assert!(!nobody.status.success() && said.contains("only root and the user"), "{said}");
    }
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    bench.shell("rm slow/d0 slow/d1 fast/l0");
    assert!(bench.ok("fsck -n fast/c0").contains("no problems found"));
    bench.ok("mfs status fast/c0");
    for n in 0..written {
        assert!(bench.ok(&format!("cat slow/c1:/{n}")) == "text".repeat(n % 3000), "{n}");
    }
    bench.ok("mfs scrub fast/c0");
}

/// Promise: status says whether and where a set is mounted, and what of it is used at this moment;
/// after the daemon was killed it says that the set was not unmounted and that copies may differ,
/// which stays so after the next mount; another user learns that the figures are old.
#[test]
fn status_says_how_a_set_is_used() {
    let bench = set();
    let state = |member: &str| {
        let status = status(&bench, member);
        let used = status["storage"]["data_bytes"]["used"].as_u64().unwrap();
        (status["state"].as_str().unwrap().to_owned(), used, status["unequal"].as_bool().unwrap())
    };
    let (before, used, unequal) = state("fast/c0");
    assert_eq!((before.as_str(), unequal), ("unmounted", false));
    assert_eq!(run_as(&bench, "mount.spindle", "slow/d1 mnt -o commit=300").code, 0);
    bench.write("mnt/new", vec![1; 3 << 20]);
    let now = (String::from("mounted"), used + (3 << 20), false);
    assert_eq!(state("fast/c0"), now);
    assert_eq!(state("mnt"), now, "by the directory");
    let at = status(&bench, "slow/e0")["mount"].clone();
    assert_eq!((at["dir"].as_str(), at["read_only"].as_bool()), (bench.path("mnt").to_str(), Some(false)));
    if rustix::process::geteuid().is_root() {
        bench.shell("chmod a+rx . fast slow; chmod a+r fast/* slow/*");
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_spindle"), "mfs", "status"]);
        let ran: Ran = nobody.arg(bench.path("fast/c0")).output().unwrap().into();
        let place = format!("mounted on {} by another user", bench.path("mnt").display());
        assert!(ran.out.contains(&place) && ran.out.contains("as it was written last"), "{}", ran.out);
    }
    let [daemon] = spindle_device::lock_holders(&bench.path("fast/c0"))[..] else { panic!("one daemon") };
    bench.shell(&format!("kill -9 {daemon}; while kill -0 {daemon} 2>&-; do sleep 0.1; done"));
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 32);
    let (after, _, unequal) = state("slow/d0");
    assert_eq!((after.as_str(), unequal), ("not_unmounted", true));
    let ran = bench.run("mfs status slow/d0");
    assert!(ran.out.contains("was not unmounted") && ran.out.contains("copies may differ"), "{}", ran.out);
    assert!(bench.ok("info slow/d0").contains("all members there, not unmounted"));
    assert_eq!(run_as(&bench, "mount.spindle", "-o ro slow/d1 mnt").code, 0);
    assert_eq!((state("slow/d0").0.as_str(), state("slow/d0").2), ("mounted", true));
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    bench.run("mfs scrub slow/d0");
    assert_eq!((state("slow/d0").0.as_str(), state("slow/d0").2), ("unmounted", false));
}

/// Promise: status and info show what of each role's storage is used, `df -i` what can still be
/// made; names count as no files.
#[test]
fn usage_is_shown_by_role() {
    let bench = set();
    let storage = || status(&bench, "slow/d0")["storage"].clone();
    let number = |storage: &Value, name: &str, part: &str| storage[name][part].as_u64().unwrap();
    let before = storage();
    assert_eq!((number(&before, "headers", "used"), number(&before, "name_blocks", "used")), (2, 1));
    bench.shell("head -c 3000000 /dev/zero >big");
    bench.ok("cp big slow/d0:/big");
    let after = storage();
    assert_eq!(number(&after, "headers", "used"), 3);
    assert_eq!(number(&after, "data_bytes", "used") - number(&before, "data_bytes", "used"), 733 * 4096);
    for name in ["headers", "name_blocks", "data_bytes", "log_bytes"] {
        let all = |storage| number(storage, name, "used") + number(storage, name, "free");
        assert_eq!(all(&before), all(&after), "{name}");
    }
    let shown = bench.ok("mfs status slow/d0");
    assert!(shown.contains("3 used, ") && shown.contains("2.8 MiB used, "), "{shown}");
    assert_eq!(run_as(&bench, "mount.spindle", "slow/e0 mnt -o rw").code, 0);
    assert_eq!(bench.shell("df --output=iused mnt").split_whitespace().last(), Some("3"));
    bench.shell("mkdir mnt/links && cd mnt/links && for n in $(seq 300); do ln ../big $n; done");
    assert_eq!(bench.shell("df --output=iused mnt").split_whitespace().last(), Some("4"));
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    let links = storage();
    assert!(number(&links, "name_blocks", "used") > number(&after, "name_blocks", "used"), "{links}");
}

/// Promise: import and export keep extended attributes.
#[test]
fn attributes_are_imported() {
    let bench = set();
    bench.shell("mkdir t && echo text >t/file && setfattr -n user.one -v value t/file t");
    assert_eq!(bench.run("import t slow/d1:/").code, 0);
    assert!(bench.ok("stat slow/d1:/file").contains("user.one (5 bytes)"));
    bench.ok("export slow/d0 back");
    assert!(bench.shell("getfattr -hd back/file").contains("user.one=\"value\""));
    assert!(bench.ok("fsck -n fast/c0").contains("no problems found"));
}

/// Promise: the walk of docs/USAGE.md: a class of data is made with a set, a directory gives it to
/// new files, offline and on a mount, and all that shows space shows it by class.
#[test]
fn a_class_of_data_is_used() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    let class = "--data-class archive=hdd0,hdd1+hdd2:block=64k,stripe=128k";
    let made = bench.ok(&format!("newfs -t mfs --control c --data d --log l {class} -s 24m"));
    assert!(made.contains("hdd2: data 2 (23.8 MiB, copy 1, class archive)"), "{made}");
    assert!(made.contains("class archive: 46 MiB in blocks of 65536 bytes, striped by 128 KiB"), "{made}");
    bench.shell("head -c 300000 /dev/zero >big");
    bench.ok("mkdir c:/video");
    bench.ok("mfs class c:/video archive");
    assert_eq!(bench.ok("mfs class hdd1:/video"), "archive\n");
    assert_eq!(bench.ok("mfs class d"), "default\n");
    bench.fails("mfs class c:/video none", 1, &["no class \"none\"", "default, archive"]);
    bench.ok("cp big c:/video/a");
    bench.ok("cp big c:/b");
    bench.fails("mfs class c:/b archive", 1, &["c:/b", "blocks of another size"]);
    assert!(bench.ok("stat c:/video/a").contains("class: archive"));
    let used = |name: &str| {
        let status = status(&bench, "c");
        let classes = status["classes"].as_array().unwrap();
        let class = classes.iter().find(|class| class["name"] == name).unwrap();
        class["share"]["used"].as_u64().unwrap()
    };
    assert_eq!((used("default"), used("archive")), (74 * 4096, 5 * 65_536));
    assert!(bench.ok("info hdd0").contains("class archive: 320 KiB used"));
    let sizes = ["df --json c", "df --json c:/video"].map(|words| bench.json(words)[0]["used_bytes"].clone());
    assert_eq!(sizes, [74 * 4096, 5 * 65_536]);
    bench.fails("df c:/none", 1, &["c", "none"]);
    assert_eq!(run_as(&bench, "mount.spindle", "c mnt -o rw").code, 0);
    let space = |path: &str| bench.shell(&format!("stat -f -c '%S %b' {path}"));
    assert_ne!(space("mnt"), space("mnt/video"));
    assert!(space("mnt/video/a").starts_with("65536 "));
    bench.shell("mkdir mnt/more && setfattr -n user.spindle.class -v archive mnt/more && cp big mnt/more/c");
    assert!(bench.shell("getfattr -n user.spindle.class mnt/more/c").contains("=\"archive\""));
    assert!(!bench.shell("getfattr -d mnt/more/c").contains("class"));
    bench.shell("! setfattr -n user.spindle.class -v none mnt/more 2>error && grep Invalid error");
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    assert_eq!(used("archive"), 10 * 65_536);
    assert!(bench.ok("fsck -n l").contains("no problems found"));
    bench.ok("mfs scrub l");
    bench.fails(
        "newfs -t mfs --control x --data y --log z --data-class a=w:block=1k,size=1 -s 8m",
        2,
        &["size=1"],
    );
}

/// Promise: a scrub mends what differs, and says so.
#[test]
fn a_scrub_mends() {
    let bench = set();
    bench.shell("printf garbage | dd of=slow/e0 bs=1 seek=1500000 conv=notrunc status=none");
    let ran = bench.run("mfs scrub fast/c0");
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("1 megabyte of copies differed"), "{}", ran.out);
    bench.ok("mfs scrub fast/c0");
}

/// Promise: whichever copy of control storage is damaged, a scrub brings it back from the other;
/// before that everything can be read and a repair finds nothing.
#[test]
fn the_whole_copy_of_control_storage_counts() {
    for copy in ["fast/c0", "slow/c1"] {
        let bench = set();
        let damage = || {
            // The first are the description of cylinder 0 and the header of the root.
            for kilobytes in (64..4000).step_by(64).chain([69]) {
                let dd = format!("printf garbage | dd of={copy} bs=1 seek={kilobytes}k conv=notrunc");
                bench.shell(&format!("{dd} status=none"));
            }
        };
        damage();
        assert_eq!(warned(&bench, "cat slow/d0:/text", 0).out, "some text");
        let ran = warned(&bench, "fsck -n slow/d0", 4);
        assert!(ran.out.contains("COPY OF CONTROL STORAGE IS WRONG"), "{}", ran.out);
        let ran = warned(&bench, "fsck -y slow/d0", 1);
        assert!(ran.out.contains("COPY OF CONTROL STORAGE IS WRONG"), "{}", ran.out);
        assert_eq!(bench.ok("cat slow/d0:/text"), "some text");
        assert!(bench.ok("fsck -y slow/d0").contains("no problems found"));
        damage();
        let ran = bench.run("mfs scrub slow/d0");
        assert!(ran.code == 1 && ran.out.contains("differed"), "{} {}", ran.out, ran.err);
        assert!(ran.out.contains("no problems found"), "{}", ran.out);
        bench.ok("mfs scrub slow/d0");
        assert_eq!(bench.ok("cat slow/d0:/text"), "some text");
    }
}

/// Runs a command that warns of the state of the set, and expects this exit code; the result is
/// without the warnings.
fn warned(bench: &Bench, words: &str, code: i32) -> Ran {
    let mut ran = bench.run(words);
    assert_eq!(ran.code, code, "spindle {words}: {}", ran.err);
    ran.err = ran.err.lines().filter(|line| !line.starts_with("spindle: warning: ")).collect();
    assert!(code != 0 || ran.err.is_empty(), "spindle {words}: {}", ran.err);
    ran
}

/// Promise: a member that was away while the set was used, and comes back out of date, is named by
/// its path, also if it lies in another directory than the member that is named.
#[test]
fn a_member_that_is_out_of_date_is_named_by_its_path() {
    let bench = set();
    bench.shell("mkdir away && mv slow/e0 away");
    bench.write("more", "more text");
    assert_eq!(warned(&bench, "cp more slow/d0:/more", 0).code, 0);
    let ran = bench.run("mfs status fast/c0");
    assert!(ran.code == 1 && ran.out.contains("), MISSING"), "{}", ran.out);
    bench.shell("mv away/e0 slow");
    let ran = bench.run("mfs status fast/c0");
    assert!(ran.code == 1 && ran.out.contains("slow/e0, LOST"), "{}", ran.out);
    assert_eq!(warned(&bench, "mfs remove fast/c0 slow/e0", 0).code, 0);
}

/// Promise: on a terminal of 80 columns the values of info and status have no longer lines;
/// elsewhere each is one line.
#[test]
fn values_fit_on_a_terminal() {
    let bench = set();
    bench.ok("newfs -s 64m ufs");
    for command in ["mfs status fast/c0", "info ufs"] {
        let values = |text: String| -> Vec<String> {
            // The terminal has the echo of the end of the input before the first line.
            let lines = text.lines().skip(1).map(|line| line.trim_end().to_owned());
            lines.filter(|line| line.starts_with("  ") && !line.contains('/')).collect()
        };
        let terminal = format!("stty cols 80; {} {command}", env!("CARGO_BIN_EXE_spindle"));
        let shown = values(bench.shell(&format!("script -qec '{terminal}' /dev/null </dev/null")));
        let piped = values(bench.ok(command));
        assert!(shown.iter().all(|line| line.chars().count() <= 80), "{shown:?}");
        assert!(piped.iter().any(|line| line.chars().count() > 80), "{piped:?}");
        assert_eq!(words(&shown), words(&piped), "{command}");
    }
}

fn words(lines: &[String]) -> Vec<&str> {
    lines.iter().flat_map(|line| line.split_whitespace()).collect()
}

/// Promise: a member that has become too short counts as missing: the set goes on with the other
/// copy, status shows it and fails, and the member can be replaced; without a copy, what is left
/// can still be read.
#[test]
fn a_member_that_is_too_short_is_missing() {
    let bench = set();
    bench.shell("truncate -s 1m slow/e0");
    let ran = bench.run("mfs status fast/c0");
    assert!(ran.code == 1 && ran.out.contains("TOO SHORT"), "{} {}", ran.code, ran.out);
    assert_eq!(warned(&bench, "cat fast/c0:/text", 0).out, "some text");
    let done = warned(&bench, "mfs replace fast/c0 slow/e0 slow/f0 -s 50m", 0);
    assert_eq!(done.out, "slow/f0: has taken the place of slow/e0\n");
    bench.shell("rm slow/e0");
    assert_eq!(bench.ok("cat fast/c0:/text"), "some text");
    bench.ok("mfs scrub fast/c0");
    bench.shell("truncate -s 1m slow/d1");
    assert_eq!(bench.run("mfs status fast/c0").code, 1);
    assert_eq!(warned(&bench, "ls fast/c0:/", 0).out, "text\n");
    let ran = bench.run("mfs scrub fast/c0");
    assert!(ran.code == 1 && ran.err.contains("data storage 1 is missing"), "{}", ran.err);
}

/// Promise: while the only copy of data storage is away, nothing gives it up: changes, repairs and
/// checks are refused with the reason, and afterwards it is used as before.
#[test]
fn an_only_copy_that_is_away_is_kept() {
    let bench = set();
    bench.shell("mkdir away && mv slow/d1 away");
    for words in ["mfs scrub fast/c0", "mfs add fast/c0 data:0 x -s 50m", "mfs remove fast/c0 slow/c1"] {
        let ran = warned(&bench, words, 1);
        let last = ran.err.lines().last().unwrap_or_default();
        assert!(last.contains("data storage 1 is missing; make all members available"), "{}", ran.err);
    }
    bench.shell("test ! -e x");
    for how in ["-n", "-p", "-y"] {
        let ran = bench.run(&format!("fsck {how} fast/c0"));
        assert!(ran.code == 8 && ran.err.contains("data storage 1"), "{how}: {} {}", ran.code, ran.err);
    }
    bench.shell("mv away/d1 slow");
    bench.ok("mfs status fast/c0");
    assert_eq!(bench.ok("cat fast/c0:/text"), "some text");
}

/// Promise: a scrub of a set with a copy that is lost does not say that all is well.
#[test]
fn a_scrub_says_that_a_copy_is_lost() {
    let bench = set();
    bench.shell("rm slow/e0");
    let ran = bench.run("mfs scrub fast/c0");
    assert!(ran.code == 1 && ran.out.contains("lost or missing: 1 copy;"), "{} {}", ran.code, ran.out);
    // Bringing it back as it was is refused, with what to do.
    let ran = warned(&bench, "mfs replace fast/c0 slow/d0 slow/d0", 1);
    assert!(ran.err.contains("slow/d0: a member of this set"), "{}", ran.err);
    let ran = warned(&bench, "mfs add fast/c0 data:7 x -s 50m", 1);
    assert!(ran.err.contains("data storage 7") && ran.err.contains("data storage 0, 1"), "{}", ran.err);
    bench.shell("test ! -e x");
}

/// Promise: a member that is there and cannot be opened does not count as lost: the command is
/// refused with the reason.
#[test]
fn a_member_that_is_not_permitted_is_not_lost() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = set();
    bench.shell("chmod -R a+rwX . && chmod 000 slow/e0");
    let ran = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", env!("CARGO_BIN_EXE_spindle"), "rm", "fast/c0:/text"])
        .current_dir(bench.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && said.contains("slow/e0") && said.contains("ermission denied"), "{said}");
    bench.ok("mfs status fast/c0");
}

/// Promise: a set that was copied as a whole is not mixed with the original, a member of an earlier
/// moment is left out, and two files that claim to be the same member are refused.
#[test]
fn copies_of_a_set_stay_apart() {
    let bench = Bench::new();
    bench.shell("mkdir a b");
    bench.ok("newfs -t mfs --control a/c0:16m,a/c1:16m --data a/d0:40m --log a/l0:8m");
    bench.write("text", "one");
    bench.ok("cp text a/c0:/text");
    bench.shell("cp a/* b/");
    bench.ok("cp text a/c0:/again");
    bench.write("text", "two");
    bench.ok("cp text b/c0:/text");
    assert_eq!(bench.ok("cat a/c0:/text") + &bench.ok("cat b/l0:/text"), "onetwo");
    bench.shell("cp a/c1 a/l0 .; cp b/c1 a/c1");
    for command in ["mfs status a/d0", "cat a/d0:/text"] {
        bench.fails(command, 1, &["a/c1", "used apart from each other"]);
    }
    bench.shell("cp c1 a/c1");
    bench.ok("cp text a/c0:/text");
    bench.shell("cp c1 a/c1");
    let ran = bench.run("cat a/d0:/text");
    assert_eq!((ran.code, ran.out.as_str()), (0, "two"));
    assert!(ran.err.contains("an earlier state of the set"), "{}", ran.err);
    bench.shell("cp l0 a/l0");
    let ran = bench.run("cat a/d0:/text");
    assert!(ran.code == 1 && ran.err.contains("log storage 0 is missing"), "{}", ran.err);
    bench.shell("rm b/*; cp a/c0 a/c0.bak");
    bench.fails("cat a/d0:/text", 1, &["c0", "both claim to be the same member"]);
}

/// Promise: two halves of a set that were both used without the other, however often each was, are
/// refused by every command when they are put together, with the members of each half, how often it
/// was opened, and the remedy; nothing is changed by that. Each half can be used as before when the
/// other one is moved away. A half that was only read, or not used, is no reason to refuse.
#[test]
fn halves_that_were_used_apart_are_refused() {
    let bench = Bench::new();
    let halves = "--control c0:16m,c1:16m --data d0:40m+e0:40m --log l0:8m+l1:8m";
    bench.ok(&format!("newfs -t mfs {halves}"));
    bench.write("p", "precious");
    bench.shell("mkdir A B; mv c0 d0 l0 A; mv c1 e0 l1 B");
    // Only one half is used: the other has an earlier state, also if it is read meanwhile.
    bench.run("cp p A/c0:/one");
    assert_eq!(bench.run("ls B/c1:/").code, 0);
    bench.shell("cp -a A A1; cp -a B B1; mv A1/* B1/* .");
    let ran = bench.run("cat c1:/one");
    assert_eq!((ran.code, ran.out.as_str()), (0, "precious"), "{}", ran.err);
    assert!(ran.err.contains("c1 is left out: it has an earlier state of the set"), "{}", ran.err);
    bench.shell("rm c0 c1 d0 e0 l0 l1");
    for n in ["1", "2", "3"] {
        bench.run(&format!("mkdir B/c1:/d{n}"));
    }
    bench.shell("mv A/* B/* .; sha256sum [cdel]? >sums");
    let both = [
        "used apart from each other",
        "c0, ",
        "d0, ",
        "l0 (opened to write or changed 1 time, last at 20",
        "c1, ",
        "e0, ",
        "l1 (opened to write or changed 3 times, last at 20",
        "move the members of the other to another directory",
    ];
    for command in [
        "ls c0:/",
        "cat c1:/one",
        "find d0:/",
        "df e0",
        "info c0",
        "stat l0:/",
        "export c0 out",
        "fsck -n c0",
        "fsck -p c1",
        "fsck -y c1",
        "cp p c0:/more",
        "mfs status c0",
        "mfs status e0",
        "mfs scrub c0",
        "mfs replace c0 d0 n0 -s 40m",
        "mfs add c0 control n0 -s 16m",
        "mfs remove c0 c1",
        "mfs attach c0 p --raw x --as /x",
    ] {
        let ran = bench.run(command);
        assert!(ran.code != 0 && both.iter().all(|part| ran.err.contains(part)), "{command}: {}", ran.err);
    }
    bench.shell("mkdir m");
    for options in ["-o ro c0 m", "c1 m"] {
        let ran = run_as(&bench, "mount.spindle", options);
        assert!(ran.code != 0 && ran.err.contains(both[0]), "{options}: {}", ran.err);
    }
    bench.shell("sha256sum --quiet -c sums; test ! -e n0");
    bench.shell("mv c1 e0 l1 B");
    assert_eq!(bench.run("cat c0:/one").out, "precious");
    // The devices of the other half can become copies again.
    let gone = |bench: &Bench| {
        let status = status(bench, "c0");
        let members = status["members"].as_array().unwrap().clone();
        members
            .iter()
            .find(|member| member["path"].is_null())
            .map(|m| m["member_id"].as_str().unwrap().to_owned())
    };
    while let Some(id) = gone(&bench) {
        assert_eq!(bench.run(&format!("mfs remove c0 {id}")).code, 0);
    }
    for (storage, name) in [("control", "c1"), ("data:0", "e0"), ("log:0", "l1")] {
        bench.fails(&format!("mfs add c0 {storage} B/{name}"), 1, &["a member of a multi-structured"]);
        bench.ok(&format!("mfs add --force c0 {storage} B/{name}"));
    }
    bench.shell("mv B/* .");
    bench.ok("mfs status c1");
    assert_eq!(bench.ok("cat c1:/one"), "precious");
    assert!(bench.ok("mfs scrub c0").contains("no problems found"));
}

/// Promise: wrong members are refused before anything is written, and files that were made are
/// removed again.
#[test]
fn wrong_members_are_refused() {
    let bench = Bench::new();
    for (words, code, wanted) in [
        ("newfs -t mfs --control c:16m --data d:40m", 2, "--log"),
        ("newfs -t mfs --control c:16m --data d:40m --log l:1m", 1, "log storage"),
        ("newfs -t mfs --control c --data d:40m --log l:8m", 1, "-s"),
        ("newfs -t mfs --control c:16m,c:16m --data d:40m --log l:8m", 1, "named twice"),
        ("newfs -t mfs --stripe 1000 -s 64m x", 1, "stripe"),
        ("newfs -t mfs -m 5 -s 64m x", 2, "takes only"),
        ("newfs -t ffs --stripe 4k -s 64m x", 2, "-t mfs"),
        ("newfs -t mfs -s 100k x", 1, "x"),
    ] {
        let ran = bench.run(words);
        assert!(ran.code == code && ran.err.contains(wanted), "{words}: {} {}", ran.code, ran.err);
        bench.shell("test ! -e c && test ! -e d && test ! -e l && test ! -e x");
    }
    let plan = bench.ok("newfs -N -t mfs --json --control c:16m --data d:40m --log l:8m");
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["written"], false);
    bench.shell("test ! -e c");
    // The same time gives the same bytes.
    bench.ok("newfs -t mfs --timestamp 5 -s 40m x");
    bench.ok("newfs -t mfs --timestamp 5 -s 40m y");
    bench.shell("cmp x y");
}

/// Damages the first place of a member that holds some text.
fn damage(bench: &Bench, member: &str, text: &str) {
    let path = bench.path(member);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("it is there");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Promise: of a set with checksums, a file whose data a device returns wrongly is named by fsck
/// and cannot be read, and others can; where there is a copy, reading and a scrub mend it.
#[test]
fn checksums_name_and_mend_what_is_wrong() {
    let bench = Bench::new();
    let (bad, good) = ("this is read wrongly. ".repeat(900), "all of this is right. ".repeat(900));
    bench.write("bad", &bad);
    bench.write("good", &good);
    let make = |data: &str| {
        bench.shell("rm -f c d e l");
        let made = bench.ok(&format!("newfs -t mfs --checksums --control c:8m --data {data} --log l:4m"));
        assert!(made.contains("blocks of 4096 bytes with checksums"), "{made}");
        bench.ok("cp bad c:/bad");
        bench.ok("cp good c:/good");
        assert!(bench.ok("fsck -n c").contains("no problems found"));
        damage(&bench, "d", "this is read wrongly. ");
    };
    make("d:8m");
    assert!(bench.ok("info c").contains("with checksums"));
    assert_eq!(status(&bench, "c")["checksums"], true);
    let ran = bench.run("fsck -n c");
    assert!(
        ran.code == 4 && ran.out.contains("CHECKSUM OF DATA WRONG") && ran.out.contains("(/bad)"),
        "{}",
        ran.out
    );
    let ran = bench.run("cat c:/bad");
    assert!(ran.code == 1 && ran.err.contains("c:/bad: 4096 bytes at byte 0 cannot be read"), "{}", ran.err);
    assert_eq!(bench.ok("cat c:/good"), good);
    let ran = bench.run("mfs scrub c");
    assert!(ran.code == 4 && ran.out.contains("wrong checksum in all copies: 1 block;"), "{}", ran.out);
    make("d:8m+e:8m");
    // Another copy is right.
    let ran = bench.run("fsck -n c");
    assert!(ran.code == 0 && ran.out.contains("no problems found"), "{}", ran.out);
    let ran = bench.run("cat c:/bad");
    assert!(ran.code == 0 && ran.out == bad, "{}", ran.err);
    assert_eq!(bench.run("mfs scrub c").code, 1, "it mends the copy");
    bench.ok("mfs scrub c");
    damage(&bench, "e", "this is read wrongly. ");
    let ran = bench.run("cat c:/bad");
    assert!(ran.code == 0 && ran.out == bad, "the first copy was mended: {}", ran.err);
    // What is wrong in all copies stays as each has it, as parts of it may be right.
    damage(&bench, "d", "wrongly. this is");
    damage(&bench, "e", "read wrongly. ");
    bench.shell("mkdir before && cp d e before");
    assert_eq!(bench.run("mfs scrub c").code, 4);
    // What is outside the labels.
    bench.shell("for m in d e; do cmp -n 4000000 -i 1000000 $m before/$m || exit 1; done");
}

/// Promise: the directory of a mount names its set whatever has become of its members, also of the
/// one by which it was mounted: status and info show the others and what is missing, also by the
/// place where it was last; a scrub, a replacement and a remount work.
#[test]
fn a_mount_names_its_set_whatever_becomes_of_a_member() {
    let wiped = "dd if=/dev/zero of=slow/d0 bs=1M count=44 conv=notrunc status=none";
    for damage in [": >slow/d0", "rm slow/d0", wiped, "mv slow/d0 slow/elsewhere && echo text >slow/d0"] {
        let bench = set();
        assert_eq!(run_as(&bench, "mount.spindle", "slow/d0 mnt -o rw").code, 0);
        bench.shell(damage);
        let old = bench.path("slow").canonicalize().unwrap().join("d0");
        let shown = bench.run("mfs status mnt");
        // One that has another name may be found.
        assert!(shown.code == 1 || damage.starts_with("mv"), "{damage}: {} {}", shown.out, shown.err);
        assert!(shown.out.contains(&format!("mounted on {}", bench.path("mnt").display())), "{}", shown.err);
        assert!(shown.out.contains(&bench.path("slow/e0").display().to_string()), "{}", shown.out);
        if shown.code == 1 {
            assert!(shown.out.contains(&format!("last at {}), MISSING", old.display())), "{}", shown.out);
        }
        assert_eq!(status(&bench, "mnt")["state"], "mounted");
        assert!(bench.ok("info mnt").contains("mounted on"));
        bench.write("mnt/new", "text".repeat(30_000));
        let scrubbed = bench.run("mfs scrub mnt");
        assert!(scrubbed.out.contains("the set is mounted") && scrubbed.err.is_empty(), "{}", scrubbed.err);
        if rustix::process::geteuid().is_root() {
            bench.ok("mount -o remount,ro mnt");
            bench.ok("mount -o remount,rw mnt");
        }
        bench.ok("mfs replace mnt slow/d0 slow/n0 -s 44m");
        bench.ok("mfs status mnt");
        assert_eq!(bench.shell("cat mnt/text"), "some text");
        assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
        bench.shell("rm slow/e0; rm -f slow/d0 slow/elsewhere");
        assert_eq!(bench.run("cat slow/n0:/new").out, "text".repeat(30_000), "{damage}");
    }
}

/// Promise: from when `status` of a mount shows that a member was written over, the mount reads
/// nothing from it, and its loss is recorded.
#[test]
fn a_member_that_status_misses_is_not_read() {
    let bench = set();
    bench.shell("head -c 9000000 /dev/urandom >r");
    bench.ok("cp r slow/d0:/r");
    assert_eq!(run_as(&bench, "mount.spindle", "fast/c0 mnt").code, 0);
    bench.shell("dd if=/dev/zero of=slow/d0 bs=1M count=40 conv=notrunc status=none");
    let ran = bench.run("mfs status mnt");
    assert!(ran.code == 1 && ran.out.contains("MISSING"), "{}{}", ran.out, ran.err);
    bench.shell("cmp r mnt/r");
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 0);
    let ran = bench.run("cat slow/e0:/text");
    assert!(ran.out == "some text" && ran.err.contains("copy 0 of data storage 0 is lost"), "{}", ran.err);
}

/// Promise: if no member is what it was, the mount still says what the set was.
#[test]
fn a_mount_without_members_shows_its_set() {
    let bench = Bench::new();
    bench.shell("mkdir mnt");
    bench.ok("newfs -t mfs -s 20m one");
    assert_eq!(run_as(&bench, "mount.spindle", "one mnt -o rw").code, 0);
    bench.shell(": >one");
    let ran = bench.run("mfs status mnt");
    assert!(
        ran.code == 1 && ran.out.contains("one), MISSING") && ran.err.is_empty(),
        "{} {}",
        ran.out,
        ran.err
    );
    assert_eq!(status(&bench, "mnt")["members"][0]["areas"][0]["state"], "missing");
    // What is written then has no member to go to. This waits until the daemon has ended.
    run_as(&bench, "umount.spindle", "mnt");
}

/// Promise: a scrub says each thing once: of a set with a lost copy, also one that has to be
/// recovered first, and of blocks that are wrong in all copies.
#[test]
fn a_scrub_says_everything_once() {
    let once = |ran: &Ran, wanted: &str| {
        let lines: Vec<_> = ran.err.lines().collect();
        assert_eq!(lines.iter().filter(|line| line.contains(wanted)).count(), 1, "{wanted}: {}", ran.err);
        let mut different = lines.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), lines.len(), "{}", ran.err);
    };
    let bench = set();
    assert_eq!(run_as(&bench, "mount.spindle", "slow/d1 mnt -o rw").code, 0);
    bench.shell("rm slow/e0 && mkdir mnt/dir && sync -f mnt/dir");
    let [daemon] = spindle_device::lock_holders(&bench.path("fast/c0"))[..] else { panic!("one daemon") };
    bench.shell(&format!("kill -9 {daemon}; while kill -0 {daemon} 2>&-; do sleep 0.1; done"));
    assert_eq!(run_as(&bench, "umount.spindle", "mnt").code, 32);
    once(&bench.run("mfs scrub slow/d0"), "a member of the set is missing");
    let lost = "copy 1 of data storage 0 is lost";
    once(&bench.run("mfs scrub slow/d0"), lost);
    bench.ok("newfs -s 4m old.img");
    once(&bench.run("mfs attach slow/d0 old.img --class attic"), lost);
    once(&bench.run("mfs detach slow/d0 attic --copy"), lost);
    let bench = Bench::new();
    bench.ok("newfs -t mfs --checksums --control c:4m --data d:8m --log l:4m");
    bench.write("bad", "this is read wrongly. ".repeat(1000));
    bench.ok("cp bad c:/bad");
    damage(&bench, "d", "this is read wrongly. ");
    let ran = bench.run("mfs scrub c");
    assert_eq!(ran.code, 4);
    once(&ran, "are wrong");
}

/// Promise: a replacement that has failed because its target is full leaves a copy that is shown as
/// what it is, with the commands that finish and drop it, and a set that is whole; the same command
/// goes on when there is room, and the one that drops it does that.
#[test]
fn a_replacement_that_has_failed_is_shown_as_that() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for drops in [false, true] {
        let bench = set();
        bench.shell("mkdir full && mount -t tmpfs -o size=20m none full");
        let ran = bench.run("mfs replace fast/c0 slow/d0 full/n0 -s 44m");
        let shown = bench.run("mfs status fast/c0");
        let info = bench.run("info fast/c0");
        let states = status(&bench, "fast/c0");
        let dropped = bench.run(if drops { "mfs remove fast/c0 full/n0" } else { "mfs status fast/c0" });
        bench.shell("mount -o remount,size=60m full");
        let again = bench.run("mfs replace fast/c0 slow/d0 full/n0 -s 44m");
        let scrubbed = bench.run("mfs scrub fast/c0");
        bench.shell("umount full");
        assert!(ran.code == 1 && ran.err.contains("full/n0"), "{}", ran.err);
        assert_eq!(shown.code, 0, "{}", shown.out);
        assert!(shown.err.is_empty() && shown.out.contains("full/n0, NOT FINISHED"), "{}", shown.out);
        let place = |name: &str| bench.path(name).canonicalize().unwrap().display().to_string();
        let (member, new) = (place("fast/c0"), format!("{}/n0", place("full")));
        assert!(shown.out.contains(&format!("spindle mfs add {member} data:0 {new}\n")), "{}", shown.out);
        assert!(shown.out.contains(&format!("spindle mfs remove {member} {new}\n")), "{}", shown.out);
        assert!(info.out.contains("all members there"), "{}", info.out);
        let new = states["members"].as_array().unwrap().iter().find(|member| member["path"] == new.as_str());
        assert_eq!(new.unwrap()["areas"][0]["state"], "unfinished", "{states}");
        assert_eq!(dropped.code, 0, "{}", dropped.err);
        assert_eq!(again.code, i32::from(drops), "{}", again.err);
        assert!(!drops || again.err.contains("--force"), "{}", again.err);
        assert_eq!((scrubbed.code, scrubbed.err.as_str()), (0, ""));
    }
}
