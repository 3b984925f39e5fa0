//! `find`, `du`, `df`, and the options of `ls`.

use crate::support::Bench;

/// Makes an image with files of several sizes, ages and kinds.
fn image(newfs: &str) -> Bench {
    let bench = Bench::new();
    bench.ok(newfs);
    bench.shell(
        "mkdir -p t/sub/deep t/none; head -c 100000 /dev/zero | tr '\\0' x >t/big; echo hi >t/sub/small.c
         : >t/sub/deep/nothing; ln t/big t/sub/again; echo x >t/.hidden
         touch -d @1000 t/big; touch -d @3000 t/sub/small.c; touch -d @2000 t/.hidden t/none
         chmod 644 t/big t/sub/small.c; chmod 4755 t/sub/deep/nothing",
    );
    // The Seventh Edition has no named pipes.
    if !newfs.contains("v7") {
        bench.shell("mkfifo t/sub/pipe; touch -d @2000 t/sub");
    }
    bench.ok("cp -rp t a.img:/");
    bench
}

/// Promise: find prints what the find of this machine prints for the same tree and expression; on
/// every kind of file system.
#[test]
fn find_is_that_of_this_machine() {
    for newfs in ["newfs -s 8m a.img", "newfs -t v7 -s 4m a.img", "newfs -t mfs -s 64m a.img"] {
        let bench = image(newfs);
        for expression in [
            "",
            "-name '*.c'",
            "-iname 'BIG'",
            "-type f -size +100",
            "-type f -size -2",
            "-type d -empty",
            "-empty -type f",
            "-type p",
            "! -type d ! -name '.*'",
            "-links 2",
            "-perm -4000",
            "-perm 644",
            "-perm /111 -type f",
            "( -name big -o -name again ) -size 100000c",
            "-maxdepth 1",
            "-mindepth 2 -maxdepth 2",
            "-name sub -prune -o -print",
            "-depth -type d",
            "-path '*/sub/*'",
            "-newermt 1970-01-01T00:40:00 -type f",
            "-mtime +300 -type f",
            "-name sub -o -name deep -type d",
        ] {
            let ours = expression.replace('\'', "");
            let ours = bench.ok(&format!("find a.img:/t {ours}"));
            let shell = expression.replace('(', "\\(").replace(')', "\\)").replace('!', "\\!");
            let theirs = bench.shell(&format!("TZ=UTC find t {shell} | sed 's,^,/,'"));
            let sorted = |text: &str| {
                let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(sorted(&ours), sorted(&theirs), "{newfs}: {expression}");
        }
    }
}

/// Promise: find takes several operands, passes bytes of names on, shows lines, ends early, and
/// refuses what it does not have.
#[test]
fn find_options_and_refusals() {
    let bench = image("newfs -s 8m a.img");
    assert_eq!(bench.ok("find a.img:/t/none a.img:/t/big"), "/t/none\n/t/big\n");
    bench.shell("printf x >\"$(printf 'a\\nb')\"");
    assert_eq!(bench.run_args(["cp", "a\nb", "a.img:/t/sub"]).code, 0);
    assert_eq!(bench.ok("find a.img -name a*b"), "/t/sub/a\\nb\n");
    assert_eq!(bench.run("find a.img -name a*b -print0").bytes, b"/t/sub/a\nb\0");
    let line = bench.ok("find a.img:/t/big -ls");
    assert!(line.contains("-rw-r--r--   2") && line.ends_with(" 1970-01-01 00:16 /t/big\n"), "{line}");
    assert_eq!(bench.ok("find a.img:/t a.img:/t -name big -print -quit"), "/t/big\n");
    assert_eq!(
        bench.ok("find a.img:/t -newer a.img:/t/sub/small.c -type f"),
        "/t/sub/a\\nb\n/t/sub/deep/nothing\n"
    );
    bench.fails("find a.img -user root", 2, &["users of its own"]);
    bench.fails("find a.img -nam x", 2, &["-nam is not known here; did you mean -name?"]);
    bench.fails("find -name x", 2, &["name an image"]);
    bench.fails("find a.img:/gone", 1, &["a.img: /gone: no such file or directory"]);
    let ran = bench.run("find a.img:/gone a.img:/t/big");
    assert_eq!((ran.code, ran.out.as_str()), (1, "/t/big\n"));
}

/// Promise: du counts allocated space as du of this machine does on a mount would: each file once,
/// directories with what is below; its options choose lines and units.
#[test]
fn du_counts_space() {
    for newfs in ["newfs -s 8m a.img", "newfs -t v7 -s 4m a.img", "newfs -t mfs -s 64m a.img"] {
        let bench = image(newfs);
        let files = bench.json("ls --json -RA a.img");
        let mut seen = std::collections::HashSet::new();
        let stat = bench.json("stat --json a.img:/");
        let mut sum = stat[0]["blocks512"].as_u64().unwrap();
        for file in files.as_array().unwrap() {
            if seen.insert(file["ino"].as_u64().unwrap()) {
                sum += file["blocks512"].as_u64().unwrap();
            }
        }
        assert_eq!(bench.ok("du -s a.img"), format!("{sum}\t/\n"), "{newfs}");
        let lines = bench.ok("du -a a.img:/t");
        assert_eq!(lines.matches("big\n").count() + lines.matches("again\n").count(), 2, "{lines}");
        let last: u64 = lines.lines().last().unwrap().split('\t').next().unwrap().parse().unwrap();
        let once = bench.json("du --json -s a.img:/t");
        assert_eq!(once[0]["bytes"], last * 512);
        assert!(lines.ends_with("\t/t\n"));
        let again = lines.lines().find(|line| line.ends_with("/again")).unwrap();
        assert!(again.starts_with("0\t"), "the second name counts again: {lines}");
    }
    let bench = image("newfs -s 8m a.img");
    let paths = |words: &str| -> Vec<String> {
        bench.ok(words).lines().map(|line| line.split('\t').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(paths("du a.img:/t"), ["/t/none", "/t/sub/deep", "/t/sub", "/t"]);
    assert_eq!(paths("du -d 1 a.img:/t"), ["/t/none", "/t/sub", "/t"]);
    assert_eq!(paths("du -sc a.img:/t/none a.img:/t/big"), ["/t/none", "/t/big", "total"]);
    let (human, kilo) = (bench.ok("du -h a.img:/t/big"), bench.ok("du -k a.img:/t/big"));
    let kilo: u64 = kilo.split('\t').next().unwrap().parse().unwrap();
    assert!(kilo >= 98 && human.starts_with(&format!("{kilo}K\t")), "{human} {kilo}");
    assert_eq!(bench.ok("du -A a.img:/t/big"), "196\t/t/big\n");
    bench.fails("du -s -a a.img", 2, &["cannot be used with"]);
}

/// Promise: df shows the space of several images and of sets, with the reserve as BSD has it, and
/// goes on past images that it cannot open.
#[test]
fn df_shows_space() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m -m 10 a.img");
    bench.ok("newfs -t v7 -s 1m old.img");
    bench.ok("newfs -t mfs -s 64m set.img");
    let before = bench.json("df --json a.img old.img set.img");
    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    for space in before.as_array().unwrap() {
        assert_eq!(
            number(&space["size_bytes"]),
            number(&space["used_bytes"]) + number(&space["free_bytes"]),
            "{space}"
        );
        assert_eq!(
            number(&space["available_bytes"]),
            number(&space["free_bytes"]) - number(&space["reserve_bytes"]),
            "{space}"
        );
    }
    assert!(number(&before[0]["reserve_bytes"]) > 1_000_000);
    assert_eq!((number(&before[1]["reserve_bytes"]), number(&before[2]["reserve_bytes"])), (0, 0));
    // Root uses the reserve.
    let free = number(&before[0]["free_bytes"]) - 300_000;
    bench.shell(&format!("head -c {free} /dev/zero | tr '\\0' x >big"));
    bench.ok("cp big a.img:/");
    let full = &bench.json("df --json a.img")[0];
    assert!(
        number(&full["available_bytes"]) < 0 && full["capacity_percent"].as_f64().unwrap() > 100.0,
        "{full}"
    );
    let table = bench.ok("df -ki a.img");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        ["Filesystem", "1K-blocks", "Used", "Avail", "Capacity", "iused", "ifree", "%iused"]
    );
    assert!(lines[1][3].starts_with('-') && lines[1][4].len() == 4, "{table}");
    assert!(bench.ok("df -h a.img").contains("-1."), "{}", bench.ok("df -h a.img"));
    let ran = bench.run("df none.img old.img");
    assert_eq!((ran.code, ran.out.lines().count()), (1, 2), "{}", ran.err);
    assert_eq!(
        ran.err,
        "spindle: none.img: there is no such image; name a path in an image as IMAGE:/path\n"
    );
}

/// Promise: ls sorts, marks, counts and shows what its options say, also several of them in one
/// word.
#[test]
fn ls_options() {
    let bench = image("newfs -s 8m a.img");
    let list = |options: &str| {
        bench.ok(&format!("ls {options} a.img:/t")).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(list("-1"), ["big", "none", "sub"]);
    assert_eq!(list("-A"), [".hidden", "big", "none", "sub"]);
    assert_eq!(list("-r"), ["sub", "none", "big"]);
    assert_eq!(list("-F"), ["big", "none/", "sub/"]);
    assert_eq!(list("-p"), ["big", "none/", "sub/"]);
    assert_eq!(list("-S")[0], "big");
    assert_eq!(list("-Sr")[2], "big");
    assert_eq!(list("-t"), ["none", "sub", "big"]);
    assert_eq!(list("-tr"), ["big", "sub", "none"]);
    let long = list("-lath");
    assert_eq!(long.len(), 6);
    assert!(long.last().unwrap().contains("98K 1970-01-01 00:16 big"), "{long:?}");
    let full = list("-lT");
    assert!(full[0].contains("1970-01-01T00:16:40.000000000Z big"), "{full:?}");
    assert_eq!(list("-n"), list("-l"));
    let blocks = list("-sk");
    let stat = bench.json("stat --json a.img:/t/big");
    let kilobytes = stat[0]["blocks512"].as_u64().unwrap() / 2;
    assert_eq!(blocks[0].trim(), format!("{kilobytes} big"));
    assert!(list("-is")[0].trim_start().starts_with(&stat[0]["ino"].to_string()));
    let program = bench.ok("ls -F a.img:/t/sub a.img:/t/sub/deep");
    assert!(program.contains("pipe|") && program.contains("nothing*"), "{program}");
    bench.ok("ln -s sub a.img:/t/link");
    assert!(list("-F").contains(&"link@".into()));
    assert!(list("-l").iter().any(|line| line.starts_with('l') && line.ends_with("link -> sub")));
    assert!(list("-lL").iter().any(|line| line.starts_with('d') && line.ends_with(" link")));
    let ran = bench.run("ls a.img:/none a.img:/t/big");
    assert_eq!((ran.code, ran.out.as_str()), (1, "/t/big\n"), "{}", ran.err);
    assert!(bench.ok("ls --help").contains("-S"));
}

/// Promise: on a terminal names are quoted for the shell, or as -B and -q say.
#[test]
fn names_on_a_terminal() {
    let bench = Bench::new();
    bench.ok("newfs -s 8m a.img");
    for name in ["plain", "a b", "it's", "new\nline"] {
        bench.write(name, "x");
        assert_eq!(bench.run_args(["cp", name, "a.img:/"]).code, 0);
    }
    let on_terminal = |options: &str| {
        let spindle = env!("CARGO_BIN_EXE_spindle");
        let script = format!("script -qec '{spindle} ls {options} a.img' /dev/null </dev/null");
        bench.shell(&script).replace('\r', "")
    };
    assert_eq!(on_terminal(""), "'a b'\n\"it's\"\n$'new\\nline'\nplain\n");
    assert_eq!(on_terminal("-B"), "a b\nit's\nnew\\nline\nplain\n");
    assert_eq!(on_terminal("-q"), "a b\nit's\nnew?line\nplain\n");
    assert_eq!(bench.ok("ls a.img"), "a b\nit's\nnew\\nline\nplain\n");
}
