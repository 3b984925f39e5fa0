//! Which file it is that an event is about: one number and one path for all events of a file, on
//! file systems that have several, and however a program names it.

use std::fs;
use std::path::Path;

use spindle_interop::spindle::{binary, spindle};
use spindle_interop::tool::{command, run};
use tempfile::TempDir;

use crate::{expect, record, shown};

/// What Python needs for the scripts.
const MAKE: &str = "import os
def make(name, n):
    f = os.open(name, os.O_WRONLY | os.O_CREAT); os.write(f, b'x' * n); os.close(f)
";

/// Mounts something on the directory `work` by a script, in a namespace of its own, so that nothing
/// stays mounted; records a script of Python there; and calls `check` with the trace and `work`.
fn mounted(mount: &str, options: &str, script: &str, check: impl FnOnce(&Path, &Path)) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().canonicalize().unwrap();
    fs::create_dir(path.join("work")).unwrap();
    let shell = format!(
        "{mount}
cd work && exec \"$0\" trace record {options} -o ../events.trace -- /usr/bin/python3 -I -c \"$1\""
    );
    let mut unshare = command("unshare");
    unshare.args(["--mount", "sh", "-ec", &shell]).arg(binary()).arg(format!("{MAKE}{script}"));
    run(unshare.current_dir(&path)).unwrap();
    check(&path.join("events.trace"), &path.join("work"));
}

const OVERLAY: &str = "mount -t tmpfs none work; mkdir work/low work/up work/wk; echo 12345 > work/low/old
mount -t overlay none -o lowerdir=work/low,upperdir=work/up,workdir=work/wk work";
const OVERLAY_ON_DISK: &str = "truncate -s 8m disk; mkfs.ext4 -q disk; mount -o loop disk work
mkdir work/low work/up work/wk; echo 12345 > work/low/old
mount -t overlay none -o lowerdir=work/low,upperdir=work/up,workdir=work/wk work";
const SUBVOLUME: &str = "truncate -s 120m disk; mkfs.btrfs -q disk; mkdir top; mount -o loop disk top
btrfs -q subvolume create top/sub; mount -o subvol=sub \"$(losetup -n -O name -j disk)\" work
echo 12345 > work/old";
const TMPFS: &str = "mount -t tmpfs none work; echo 12345 > work/old";

/// Promise: all events of a file have the device and the number that `stat` returns, also its
/// deletion, on overlayfs, in subvolumes of btrfs, and on tmpfs.
#[test]
fn one_number_for_all_events() {
    let script = "make('a', 3); os.chmod('a', 0o600)
os.stat('a'); os.unlink('a')
make('b', 4); make('c', 5); os.rename('b', 'c'); os.unlink('c')
f = os.open('old', os.O_RDONLY); os.read(f, 9); os.close(f); os.stat('old'); os.unlink('old')";
    for (name, mount) in
        [("overlay", OVERLAY), ("overlay on ext4", OVERLAY_ON_DISK), ("btrfs", SUBVOLUME), ("tmpfs", TMPFS)]
    {
        mounted(mount, "--path \"$PWD\"", script, |trace, work| {
            let numbered = |file: &str| -> Vec<(String, String)> {
                let shown = spindle([Path::new("trace"), Path::new("show"), trace]).unwrap();
                let shown = String::from_utf8(shown).unwrap();
                let path = format!("path={:?}", work.join(file));
                let lines = shown.lines().filter(|line| line.ends_with(&path));
                let number = |line: &str| {
                    let words = line
                        .split(' ')
                        .filter(|word| word.starts_with("device=") || word.starts_with("inode="));
                    words.collect::<Vec<_>>().join(" ")
                };
                lines.map(|line| (line.split(' ').nth(1).unwrap().to_owned(), number(line))).collect()
            };
            for (file, kinds) in [
                ("a", &["create+write", "close+write", "chmod", "stat", "unlink+last"][..]),
                ("old", &["open+read", "close+read", "stat", "unlink+last"]),
            ] {
                let events = numbered(file);
                let got: Vec<_> = events.iter().map(|(kind, _)| kind.as_str()).collect();
                assert_eq!(got, kinds, "{name}");
                assert!(!events[0].1.contains("inode=0"), "{name}: {events:?}");
                assert!(events.iter().all(|(_, number)| *number == events[0].1), "{name}: {events:?}");
            }
            let c: Vec<_> = shown(trace, work).into_iter().filter(|event| event.contains("\"c\"")).collect();
            assert_eq!(
                c[2..],
                [
                    "unlink+last+replaced size=5 path=\"c\"",
                    "rename path=\"b\" new_path=\"c\"",
                    "unlink+last size=4 path=\"c\"",
                ],
                "{name}"
            );
        });
    }
}

/// Promise: with `--mount`, given through a symbolic link or not, what is on the file system is
/// recorded, also of btrfs, and no name of another one, however it is used.
#[test]
fn nothing_from_elsewhere() {
    let script = "make('a', 3)
os.mkdir('../leak'); os.rmdir('../leak'); os.access('../none', 0); os.path.exists('/none'); os.stat('..')
make('../outside', 3); os.chmod('../outside', 0o600); os.unlink('../outside')
os.path.exists('none')";
    for mount in [TMPFS, SUBVOLUME, OVERLAY] {
        for option in ["--mount .", "--mount ../link"] {
            let mount = format!("{mount}\nln -s work link");
            mounted(&mount, option, script, |trace, work| {
                assert_eq!(
                    shown(trace, work),
                    [
                        "create+write path=\"a\"",
                        "close+write size=3 written=3 calls=1 path=\"a\"",
                        "stat+failed path=\"none\"",
                    ],
                    "{mount}"
                );
            });
        }
    }
}

/// Promise: a `--path` that goes through a symbolic link is that of the files behind it.
#[test]
fn paths_through_links() {
    let mount = format!("{TMPFS}\nln -s work link");
    mounted(&mount, "--path \"$PWD/../link\"", "make('a', 3)", |trace, work| {
        let made = ["create+write path=\"a\"", "close+write size=3 written=3 calls=1 path=\"a\""];
        assert_eq!(shown(trace, work), made);
    });
}

/// Promise: a name that goes through a symbolic link, or up from behind one, is that of the file.
#[test]
fn links_as_parents() {
    mounted(
        TMPFS,
        "--path \"$PWD\"",
        "os.mkdir('d'); os.mkdir('d/e'); os.symlink('d/e', 'l')
make('l/a', 3); os.chmod('l/a', 0o600); os.unlink('l/../e/./a')
make('l/../b', 4); os.unlink('l/../b'); os.mkdir('l/c')",
        |trace, work| {
            assert_eq!(
                shown(trace, work)[3..],
                [
                    "create+write path=\"d/e/a\"",
                    "close+write size=3 written=3 calls=1 path=\"d/e/a\"",
                    "chmod path=\"d/e/a\"",
                    "unlink+last size=3 path=\"d/e/a\"",
                    "create+write path=\"d/b\"",
                    "close+write size=4 written=4 calls=1 path=\"d/b\"",
                    "unlink+last size=4 path=\"d/b\"",
                    "mkdir+directory path=\"d/e/c\"",
                ]
            );
        },
    );
}

/// Promise: names in a `chroot` begin at its root, as those of opened files do.
#[test]
fn chroot() {
    let script = format!(
        "{MAKE}os.mkdir('root'); os.chroot('root'); os.chdir('/')
make('/a', 3); os.chmod('/a', 0o600); os.mkdir('/d'); os.rename('a', '/d/../b'); os.unlink('d/../b')"
    );
    let events = record(&script);
    assert_eq!(
        events,
        [
            "mkdir+directory path=\"root\"",
            "chdir+directory path=\"root\"",
            "create+write path=\"root/a\"",
            "close+write size=3 written=3 calls=1 path=\"root/a\"",
            "chmod path=\"root/a\"",
            "mkdir+directory path=\"root/d\"",
            "rename path=\"root/a\" new_path=\"root/b\"",
            "unlink+last size=3 path=\"root/b\"",
        ]
    );
}

/// Promise: names have as many components as a path may have, and one that is longer is unknown
/// instead of wrong.
#[test]
fn deep_paths() {
    let script = format!(
        "{MAKE}
for n in range(1900): os.mkdir('d'); os.chdir('d')
make('a', 3)"
    );
    let events = record(&script);
    let deep = "d/".repeat(1900) + "a";
    assert_eq!(events[events.len() - 2], format!("create+write path={deep:?}"));
    let script = format!(
        "{MAKE}
for n in range(40): os.mkdir('d' * 200); os.chdir('d' * 200)
make('a', 3); os.unlink('a')"
    );
    // Of what has no name, nobody knows whether it is below the path.
    let events = record(&script);
    let names = |event: &String| event.matches("dddd/").count();
    assert!(events.iter().all(|event| names(event) < 21 && !event.contains("/a\"")), "{events:?}");
    assert_eq!(events.last().map(names), Some(20));
}

/// Promise: two directories that change places take the names below them along.
#[test]
fn exchanged_directories() {
    let exchange = "import ctypes; libc = ctypes.CDLL(None)
assert not libc.renameat2(-100, b'd', -100, b'e', 2)";
    expect(
        &format!(
            "{MAKE}os.mkdir('d'); os.mkdir('d/sub'); os.mkdir('e'); make('d/sub/a', 3); make('e/b', 4)
{exchange}
os.close(os.open('e/sub/a', os.O_RDONLY)); os.unlink('e/sub/a'); os.unlink('d/b')"
        ),
        &[
            "mkdir+directory path=\"d\"",
            "mkdir+directory path=\"d/sub\"",
            "mkdir+directory path=\"e\"",
            "create+write path=\"d/sub/a\"",
            "close+write size=3 written=3 calls=1 path=\"d/sub/a\"",
            "create+write path=\"e/b\"",
            "close+write size=4 written=4 calls=1 path=\"e/b\"",
            "rename path=\"d\" new_path=\"e\"",
            "rename path=\"e\" new_path=\"d\"",
            "open+read size=3 path=\"e/sub/a\"",
            "close+read size=3 path=\"e/sub/a\"",
            "unlink+last size=3 path=\"e/sub/a\"",
            "unlink+last size=4 path=\"d/b\"",
        ],
    );
}
