//! Crashes of mounts: the daemon is killed under load, or its image copied while it is halted, and
//! what was promised is there after recovery.
//!
//! What is promised: after `fsync` of a file or directory has returned, data, length and name are
//! there, and so is everything that was done to names before; a rename is there whole or not at
//! all; operations appear in order; no file shows another's bytes; a full check after recovery
//! finds nothing.
//!
//! `SPINDLE_SEED` is the seed; it decides what loads do and how long they work, and the scheduler
//! decides the rest, so a failure may take several runs to come again. `SPINDLE_CASES` is the
//! number of crashes of each test, `SPINDLE_BUDGET` the number of seconds after which none is
//! begun.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_interop::Result;
use spindle_interop::crash::Load;
use spindle_interop::crash::data::Data;
use spindle_interop::crash::loopback::Loopback;
use spindle_interop::crash::names::Names;
use spindle_interop::crash::programs::{Database, Git};
use spindle_interop::crash::replace::Replace;
use spindle_interop::crash::rounds::{Loads, Rounds};
use spindle_interop::spindle::{binary, spindle};
use spindle_interop::tool::{command, run};
use tempfile::TempDir;

/// What differs most: FreeBSD's newfs by default; small blocks of the other byte order, and a log
/// that comes round in no time; a log as NetBSD has it; the multi-structured file system. One of
/// them with writes that the kernel keeps.
const FORMATS: [(&[&str], &str); 4] = [
    (&[], OPTIONS),
    (&["-O1", "-b8192", "-f1024", "--endian", "big"], "commit=1,logsize=256k,writeback"),
    (&["-O2", "-b16384", "-f2048", "--dialect", "netbsd"], "commit=1,dialect=netbsd"),
    (&["-t", "mfs", "-b1024", "--stripe=8k"], OPTIONS),
];
/// Bytes of an image, where it does not matter.
const SIZE: &str = "256m";
/// Commits by the timer are to fall among the others.
const OPTIONS: &str = "commit=1";

/// Returns an empty file system in a directory of its own.
fn image(newfs: &[&str], size: &str) -> Result<(TempDir, PathBuf)> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("image");
    let place = path.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", size].iter().chain(newfs).chain(&[place]))?;
    Ok((directory, path))
}

/// Returns the crashes of a test: `sample`, or as many as are asked for and the time allows.
fn crashes(sample: u64) -> impl Iterator<Item = u64> {
    let number =
        |name: &str| std::env::var(name).ok().map(|n| n.parse().unwrap_or_else(|_| panic!("{name}={n}")));
    let (most, budget) = (number("SPINDLE_CASES").unwrap_or(sample), number("SPINDLE_BUDGET"));
    let start = Instant::now();
    (0..most).take_while(move |_| budget.is_none_or(|seconds| start.elapsed().as_secs() < seconds))
}

/// Returns the seed, after printing how to repeat `test` with it.
fn seed_of(test: &str) -> u64 {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test crashes {test}");
    seed
}

/// Returns what works at the same time in a round of tests without programs: sometimes all,
/// sometimes little, because each sync of anything makes all names durable, also those that
/// somebody else should have.
fn files(seed: u64) -> Loads {
    let mut rng = SmallRng::seed_from_u64(seed);
    let others: [(&str, Box<dyn Load>); 4] = [
        ("data-1", Box::new(Data::new(seed))),
        ("data-2", Box::new(Data::new(seed ^ 1))),
        ("replace-1", Box::new(Replace::new(seed))),
        ("replace-2", Box::new(Replace::new(seed ^ 1))),
    ];
    let names: (String, Box<dyn Load>) =
        ("names".into(), Box::new(Names::new(rng.random_range(1..=3), seed)));
    let share = rng.random_range(0.0..1.0);
    let others = others.into_iter().filter(|_| rng.random_bool(share));
    others.map(|(name, load)| (name.into(), load)).chain([names]).collect()
}

/// Crashes under `loads`, each time new ones, of the file system in `image`.
fn crash(
    image: &Path,
    options: &'static str,
    seed: u64,
    crashes: impl Iterator<Item = u64>,
    loads: impl Fn(u64) -> Loads,
) -> Result<()> {
    let mut rounds = Rounds::new(image, options, seed);
    for number in crashes {
        rounds.round(&loads(seed.wrapping_add(number << 8)))?;
    }
    println!("{:?}", rounds.tally);
    assert!(rounds.tally.kept > 0, "nothing was acknowledged before a crash");
    Ok(())
}

/// Promise: files keep what was synced, names appear in order, and a replaced file is whole,
/// however the daemon ends.
#[test]
fn torture_kills() -> Result<()> {
    let seed = seed_of("torture_kills");
    for (newfs, options) in FORMATS {
        let (_directory, image) = image(newfs, SIZE)?;
        crash(&image, options, seed, crashes(2), files)?;
    }
    Ok(())
}

/// Promise: any moment of an image in use is a state that recovery makes whole.
#[test]
fn torture_copies() -> Result<()> {
    let seed = seed_of("torture_copies");
    let (_directory, image) = image(&[], SIZE)?;
    let mut rounds = Rounds::new(&image, OPTIONS, seed);
    rounds.copies(&files(seed), crashes(3))?;
    println!("{:?}", rounds.tally);
    assert!(rounds.tally.kept > 0, "nothing was acknowledged before a copy");
    Ok(())
}

/// Promise: nor does it matter that requests to a block device are on their way when the daemon is
/// killed.
#[test]
fn torture_block_device() -> Result<()> {
    let seed = seed_of("torture_block_device");
    let (_directory, image) = image(&[], SIZE)?;
    let device = Loopback::new(&image)?;
    crash(device.path(), OPTIONS, seed, crashes(2), files)
}

/// Promise: space that was given back shows its old content after a crash that undoes that, however
/// soon it is wanted again.
#[test]
fn torture_little_space() -> Result<()> {
    let seed = seed_of("torture_little_space");
    let (_directory, image) = image(&[], "24m")?;
    let device = Loopback::new(&image)?;
    let replacing = |seed| -> Loads {
        (0..4).map(|n| (format!("replace-{n}"), Box::new(Replace::new(seed ^ n)) as _)).collect()
    };
    crash(device.path(), OPTIONS, seed, crashes(3), replacing)
}

/// A set over block devices, each of which has a copy.
struct SetOfDevices {
    directory: TempDir,
    devices: Vec<Loopback>,
    made: usize,
}

impl SetOfDevices {
    fn new() -> Result<Self> {
        let mut set =
            Self { directory: TempDir::new().expect("temporary directory"), devices: Vec::new(), made: 0 };
        for _ in 0..6 {
            let device = set.device()?;
            set.devices.push(device);
        }
        let name = |n: usize| set.devices[n].path().display().to_string();
        let words = [
            format!("--control={},{}", name(0), name(1)),
            format!("--data={}+{}", name(2), name(3)),
            format!("--log={}+{}", name(4), name(5)),
        ];
        spindle(["newfs", "-t", "mfs"].into_iter().chain(words.iter().map(String::as_str)))?;
        Ok(set)
    }

    /// Makes a new device.
    fn device(&mut self) -> Result<Loopback> {
        self.made += 1;
        let path = self.directory.path().join(self.made.to_string());
        let file = std::fs::File::create(&path).expect("an image");
        file.set_len(96 << 20).expect("its size");
        Loopback::new(&path)
    }

    /// Returns the command that replaces the member that is missing by `new`. If the daemon was
    /// killed while it began to replace it, there is another one, which was to take its place and
    /// may have no label yet: the last copy. Returns none if `new` is in its place: the daemon was
    /// killed between the end of the work and its answer.
    fn replace_missing(&self, new: &Loopback) -> Option<Command> {
        let any = self.devices[0].path();
        let said = command(binary()).args(["mfs", "status", "--json"]).arg(any).output();
        let said: serde_json::Value =
            serde_json::from_slice(&said.expect("spindle runs").stdout).expect("JSON");
        let members = said["members"].as_array().expect("members");
        let gone = members.iter().filter(|member| member["path"].is_null());
        let Some(gone) = gone.min_by_key(|member| member["areas"][0]["copy"].as_u64()) else {
            let is_new =
                |member: &serde_json::Value| member["path"].as_str().map(Path::new) == Some(new.path());
            assert!(members.iter().any(is_new), "no member is missing, nor is one replaced: {said}");
            return None;
        };
        let mut replace = command(binary());
        replace.args(["mfs", "replace"]).arg(any);
        replace.arg(gone["member_id"].as_str().expect("an identity")).arg(new.path());
        Some(replace)
    }

    /// Compares all copies, checks, and looks if the set is whole.
    fn check(&self) -> Result<()> {
        let any = self.devices[0].path().to_str().expect("UTF-8");
        spindle(["mfs", "scrub", any])?;
        spindle(["mfs", "status", any]).map(drop)
    }
}

/// Promise: a member that is pulled out under load costs nothing if there is a copy of what it has:
/// no program notices, nothing acknowledged is lost although the daemon is killed after that, and
/// with a new member the set is whole again; also if the daemon was replacing the member when it
/// was killed.
#[test]
fn torture_members_pulled_out() -> Result<()> {
    let seed = seed_of("torture_members_pulled_out");
    let mut set = SetOfDevices::new()?;
    let any = set.devices[0].path().to_owned();
    let mut rounds = Rounds::new(&any, OPTIONS, seed);
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut replaced = 0;
    for number in crashes(5) {
        let seed = seed.wrapping_add(number << 8);
        let mut loads = files(seed);
        loads.push(("database".into(), Box::new(Database::new("wal", "full"))));
        loads.push(("git".into(), Box::new(Git::new(seed))));
        let victim = rng.random_range(1..set.devices.len());
        let new = set.device()?;
        let mut replacing = None;
        rounds.disturbed_round(&loads, || {
            set.devices[victim].fail()?;
            if rng.random_bool(0.8) {
                let mut replace = set.replace_missing(&new).expect("a member is missing");
                let mut child = replace.spawn().expect("spindle runs");
                if rng.random_bool(0.6) {
                    child.wait().expect("it ends");
                }
                replacing = Some(child);
            }
            Ok(())
        })?;
        let is_replaced =
            replacing.is_some_and(|mut child| child.wait().is_ok_and(|status| status.success()));
        if is_replaced {
            replaced += 1;
        } else if let Some(mut replace) = set.replace_missing(&new) {
            run(&mut replace)?;
        }
        set.devices[victim] = new;
        set.check()?;
    }
    println!("{replaced} replaced under load");
    println!("{:?}", rounds.tally);
    assert!(rounds.tally.kept > 0, "nothing was acknowledged before a crash");
    Ok(())
}

/// Promise: `SQLite` loses no transaction that it has acknowledged, and none is there in part.
#[test]
fn torture_databases() -> Result<()> {
    let seed = seed_of("torture_databases");
    let databases = |_| -> Loads {
        let kinds = [("delete", "extra"), ("delete", "full"), ("wal", "full"), ("wal", "extra")];
        kinds
            .map(|(journal, sync)| (format!("{journal}-{sync}"), Box::new(Database::new(journal, sync)) as _))
            .into()
    };
    let (_directory, image) = image(&[], SIZE)?;
    crash(&image, OPTIONS, seed, crashes(3), databases)
}

/// Promise: git loses no commit that was acknowledged and synced, and its repository is whole.
#[test]
fn torture_git() -> Result<()> {
    let seed = seed_of("torture_git");
    let repositories = |seed| -> Loads {
        vec![("git-1".into(), Box::new(Git::new(seed))), ("git-2".into(), Box::new(Git::new(seed ^ 1)))]
    };
    let (_directory, image) = image(&[], SIZE)?;
    crash(&image, OPTIONS, seed, crashes(3), repositories)
}
