//! Access control lists on mounts: `setfacl`, `getfacl`, and users whom the kernel lets in or not,
//! in comparison with a file system of the kernel; and the roads on which lists leave an image.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::tool::{command, output, run};
use spindle_interop::{Failure, Result};
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use tempfile::TempDir;

/// Users with their groups; the first is root.
const USERS: [(&str, &str); 4] =
    [("0", "0"), ("1001", "1001,2001"), ("1002", "1002,1001"), ("1003", "2002,2001")];
/// Names in the tree, directories first. They are used whether they exist or not.
const PATHS: [&str; 8] = ["d", "d/e", "d/e/f", "g", "d/1", "d/e/2", "g/3", "4"];
/// The first of [`PATHS`] that are files.
const FIRST_FILE: usize = 4;

fn io<T>(result: io::Result<T>) -> Result<T> {
    result.map_err(Failure::of("a temporary file"))
}

/// Returns a new image with access control lists.
fn image(directory: &TempDir, name: &str) -> Result<PathBuf> {
    let path = directory.path().join(name);
    let word = path.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", "64m", word])?;
    spindle(["tunefs", "-a", "enable", word])?;
    Ok(path)
}

/// Runs a script in `directory` as a user. Returns whether it succeeded.
fn shell(directory: &Path, (uid, groups): (&str, &str), script: &str) -> Result<bool> {
    let gid = groups.split(',').next().unwrap_or(groups);
    let mut shell = command("setpriv");
    shell.args([format!("--reuid={uid}"), format!("--regid={gid}"), format!("--groups={groups}")]);
    shell.args(["--", "sh", "-c", script]).current_dir(directory);
    Ok(output(&mut shell)?.status.success())
}

/// Returns what `getfacl` shows of a tree, with numbers.
fn lists(directory: &Path) -> Result<String> {
    let shown = run(command("getfacl").args(["-R", "-n", "-p", "."]).current_dir(directory))?;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    // The order of names in a directory is that of the file system; some files it has for itself.
    let mut files: Vec<_> = shown.split("\n\n").filter(|file| !file.contains("# file: ./.")).collect();
    files.sort_unstable();
    Ok(files.join("\n\n"))
}

/// Returns a random change of lists, or another step for which they matter, as a script.
fn step(rng: &mut StdRng) -> String {
    let any = *PATHS.choose(rng).unwrap();
    let other = *PATHS.choose(rng).unwrap();
    let file = *PATHS[FIRST_FILE..].choose(rng).unwrap();
    let dir = *PATHS[..FIRST_FILE].choose(rng).unwrap();
    let perm = ["---", "r--", "rw-", "r-x", "rwx", "-w-", "--x"].choose(rng).unwrap();
    let who =
        *["u:1001", "u:1002", "u:1003", "g:2001", "g:2002", "m:", "u:", "g:", "o:"].choose(rng).unwrap();
    let umask = *["000", "022", "077", "027"].choose(rng).unwrap();
    let default = if rng.random_ratio(1, 3) { "d:" } else { "" };
    match rng.random_range(0..22) {
        0..4 => format!("umask {umask}; set -C; : > {file}"),
        4..7 => format!("umask {umask}; mkdir {dir}"),
        7..11 => format!("setfacl -m {default}{who}:{perm} {any}"),
        11 => format!("setfacl -x {default}{who} {any}"),
        12 => format!("setfacl {} {any}", ["-b", "-k"].choose(rng).unwrap()),
        13 => format!("setfacl --set u::rwx,g::{perm},o::r-x,u:1002:{perm},m::rwx {any}"),
        14 | 15 => format!("chmod {:o} {any}", rng.random_range(0..0o1000)),
        16 => format!("chmod g{}s {any}", if rng.random() { "+" } else { "-" }),
        17 => format!("cat {file}; ls {dir}"),
        18 => format!("echo more >> {file}"),
        19 => format!("test -r {any} && test -w {any} || test -x {other}"),
        20 => format!("mv -n {any} {other}"),
        _ => format!("rmdir {dir} || rm -f {file}"),
    }
}

/// Promise: whatever root and other users do to lists, modes and names, each of them is let in or
/// refused, and each file gets the lists, as on the file system of the kernel that has the
/// temporary files; the next mount shows the same, and the check finds nothing.
#[test]
fn torture_as_the_kernel_does() -> Result<()> {
    let given = |name| env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = given("SPINDLE_SEED").unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    for case in 0..given("SPINDLE_CASES").unwrap_or(3) {
        let directory = io(TempDir::new())?;
        let image = image(&directory, "image")?;
        let reference = directory.path().join("reference");
        io(fs::create_dir(&reference))?;
        for path in [directory.path(), &reference] {
            run(command("chmod").arg("755").arg(path))?;
        }
        let options =
            *["allow_other", "allow_other,writeback", "allow_other,nouser_xattr"].choose(&mut rng).unwrap();
        let mounted = Mounted::new(&image, options)?;
        for script in ["mkdir d g; chmod 777 d g .", "setfacl -m d:u:1001:rwx,d:g:2001:r-x d"] {
            assert!(shell(&reference, USERS[0], script)? && shell(mounted.path(), USERS[0], script)?);
        }
        let mut done = Vec::new();
        for n in 0..250 {
            let user = *USERS.choose(&mut rng).unwrap();
            let script = step(&mut rng);
            let (expected, found) =
                (shell(&reference, user, &script)?, shell(mounted.path(), user, &script)?);
            done.push(format!("{}: {script} ({expected})", user.0));
            let story = || format!("case {case} with {options}:\n{}", done.join("\n"));
            assert_eq!(expected, found, "{}", story());
            if n % 10 == 9 {
                assert_eq!(lists(&reference)?, lists(mounted.path())?, "{}", story());
            }
        }
        mounted.unmount()?;
        fsck(&image)?;
        let mounted = Mounted::new(&image, "ro,allow_other")?;
        assert_eq!(lists(&reference)?, lists(mounted.path())?, "case {case}: the next mount");
        mounted.unmount()?;
    }
    Ok(())
}

/// Promise: a user whom only a list lets in is let in, and one whom it keeps out is not, also where
/// the mount has no other attributes; without the flag there are no lists.
#[test]
fn lists_are_enforced() -> Result<()> {
    let directory = io(TempDir::new())?;
    let image = image(&directory, "image")?;
    for options in ["allow_other", "allow_other,nouser_xattr"] {
        let mounted = Mounted::new(&image, options)?;
        let root = |script| shell(mounted.path(), USERS[0], script);
        assert!(root("rm -rf x; echo data > x; chmod 604 x; setfacl -m u:1001:rw,u:1002:- x")?);
        for (user, script, allowed) in [
            (USERS[1], "cat x && echo more >> x", true),
            (USERS[2], "cat x", false),
            (USERS[3], "cat x", true),
            (USERS[3], "echo more >> x", false),
            (USERS[1], "setfacl -m u:1002:rwx x", false),
            (USERS[0], "chmod 600 x", true),
            (USERS[1], "cat x", false),
            (USERS[0], "setfacl -m m::r x", true),
            (USERS[1], "cat x", true),
            (USERS[1], "echo more >> x", false),
            (USERS[1], "getfacl x | grep -q 'user:1001:rw-.*effective:r--'", true),
        ] {
            assert_eq!(shell(mounted.path(), user, script)?, allowed, "{options}: {script} by {}", user.0);
        }
        mounted.unmount()?;
    }
    let word = image.to_str().expect("a path in UTF-8");
    spindle(["tunefs", "-a", "disable", word])?;
    let mounted = Mounted::new(&image, "allow_other")?;
    assert!(!shell(mounted.path(), USERS[0], "setfacl -m u:1001:rw x")?);
    assert!(shell(mounted.path(), USERS[0], "test \"$(getfacl -c x | grep -c :1001:)\" = 0")?);
    mounted.unmount()?;
    fsck(&image)
}

/// Promise: lists go from a directory into an image and out again, by import, export, tar, cp and
/// dump, and each file has exactly its own, whatever its directory would give it.
#[test]
fn lists_travel() -> Result<()> {
    let directory = io(TempDir::new())?;
    let source = directory.path().join("source");
    io(fs::create_dir(&source))?;
    let plant = "mkdir -p d/e; echo 1 > d/e/plain; setfacl -m u:1001:rw,g:2001:r d/e/plain; \
                 setfacl -m d:u:1002:rwx,d:m::rx d; echo 2 > d/inherits; mkdir d/sub; echo 3 > d/bare; \
                 setfacl -b d/bare; chmod 640 d/bare";
    assert!(shell(&source, USERS[0], plant)?);
    let expected = lists(&source)?;
    assert!(expected.contains("default:user:1002:rwx") && expected.contains("user:1001:rw-"));
    let path = |name: &str| directory.path().join(name).to_str().expect("a path in UTF-8").to_owned();
    let shown = |name: &str| lists(Path::new(&path(name)));

    let first = image(&directory, "first")?;
    spindle(["import", &path("source"), &path("first")])?;
    let listing = spindle(["ls", "-lR", &format!("{}:/", first.display())])?;
    let listing = String::from_utf8_lossy(&listing).into_owned();
    let marked = |name: &str| listing.lines().any(|line| line.ends_with(name) && line.as_bytes()[10] == b'+');
    assert!(marked(" plain") && marked(" d") && marked(" inherits") && !marked(" bare"), "{listing}");
    let mounted = Mounted::new(&first, "ro")?;
    assert_eq!(lists(mounted.path())?, expected);
    mounted.unmount()?;

    spindle(["export", &path("first"), &path("exported")])?;
    assert_eq!(shown("exported")?, expected, "export");

    // Another image that has lists, through tar and through a dump.
    spindle(["export", &path("first"), &path("first.tar")])?;
    spindle(["dump", "-f", &path("first.dump"), &path("first")])?;
    for name in ["by-tar", "by-dump", "by-cp"] {
        let second = image(&directory, name)?;
        match name {
            "by-tar" => spindle(["import", &path("first.tar"), &path(name)])?,
            "by-dump" => spindle(["restore", "-x", "-f", &path("first.dump"), "--to", &path(name)])?,
            _ => spindle(["cp", "-a", &format!("{}/d", path("source")), &format!("{}:/", path(name))])?,
        };
        let mounted = Mounted::new(&second, "ro")?;
        assert_eq!(lists(mounted.path())?, expected, "{name}");
        mounted.unmount()?;
        fsck(&second)?;
    }
    io(fs::create_dir(path("restored")))?;
    spindle(["restore", "-r", "-f", &path("first.dump"), "--to", &path("restored")])?;
    assert_eq!(shown("restored")?, expected, "a dump in a directory");
    Ok(())
}
