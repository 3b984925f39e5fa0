//! Work that waits for the disk, on file systems over several devices: Spindle's multi-structured
//! file system, with copies, with checksums and without, beside its fast file system with a log on
//! one device, ext4 with its journal on another device, and btrfs with two copies of everything.
//!
//! Each has loop devices of its own, all over files of one disk: so this shows what the devices
//! cost in requests and barriers, not what unlike or independent disks gain. They take turns row by
//! row; who begins moves on with each round.
//!
//! - *sqlite*: one row a transaction, with the default journal and with a write-ahead log, both
//!   with `synchronous=FULL`;
//! - *mail*: a delivery as Maildir has it: a new file of 8 KiB in `tmp`, `fsync`, a rename to
//!   `new`, and `fsync` of that directory;
//! - *postmark*: small files are created, read, appended to and deleted at random, and all made
//!   durable at the end;
//! - *untar*: a real tree, made durable at the end.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};

use crate::contender::{Image, spindle};
use crate::measure::time;
use crate::mounted::sources;
use crate::postmark::postmark;
use crate::settings::Settings;
use crate::table::Table;

/// Bytes of each device.
const SIZE_BYTES: u64 = 1 << 30;

/// A file system to measure.
struct Way {
    name: &'static str,
    /// Number of its devices.
    devices: usize,
    /// Returns the commands that make it on them; the first one is mounted.
    make: fn(&[String]) -> Vec<Command>,
    /// Returns the beginning of the command that mounts it.
    mount: fn() -> Command,
}

/// The file systems, the one that the others are compared with first.
const WAYS: [Way; 6] = [
    Way {
        name: "ffs",
        devices: 1,
        make: |devices| vec![words(&spindle().display().to_string(), &["newfs", "--force", &devices[0]])],
        mount: mount_spindle,
    },
    Way {
        name: "mfs",
        devices: 3,
        make: |devices| make_set(&devices[0], &devices[1], &devices[2], &[]),
        mount: mount_spindle,
    },
    Way {
        name: "mfs, checksums",
        devices: 3,
        make: |devices| make_set(&devices[0], &devices[1], &devices[2], &["--checksums"]),
        mount: mount_spindle,
    },
    Way {
        name: "mfs, two copies",
        devices: 6,
        make: |devices| {
            let [c0, c1, d0, d1, l0, l1] = devices else { return Vec::new() };
            make_set(&format!("{c0},{c1}"), &format!("{d0}+{d1}"), &format!("{l0}+{l1}"), &[])
        },
        mount: mount_spindle,
    },
    Way {
        name: "ext4, own journal device",
        devices: 2,
        make: |devices| {
            let journal = format!("device={}", devices[1]);
            let quiet = ["-q", "-F", "-b", "4096"];
            let extended = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
            let mut first = words("mke2fs", &quiet);
            first.args(["-O", "journal_dev", &devices[1]]);
            let mut second = words("mkfs.ext4", &quiet);
            second.args(["-E", extended, "-J", &journal, &devices[0]]);
            vec![first, second]
        },
        mount: || command("mount"),
    },
    Way {
        name: "btrfs raid1",
        devices: 2,
        make: |devices| {
            let raid = ["-q", "-f", "-K", "-m", "raid1", "-d", "raid1", &devices[0], &devices[1]];
            vec![words("mkfs.btrfs", &raid)]
        },
        mount: || command("mount"),
    },
];

fn words(program: &str, arguments: &[&str]) -> Command {
    let mut command = command(program);
    command.args(arguments);
    command
}

fn make_set(control: &str, data: &str, log: &str, options: &[&str]) -> Vec<Command> {
    let mut newfs = command(spindle());
    newfs
        .args(["newfs", "--force", "-t", "mfs", "--control", control, "--data", data, "--log", log])
        .args(options);
    vec![newfs]
}

fn mount_spindle() -> Command {
    words(&spindle().display().to_string(), &["mount"])
}

/// A loop device, which is let go with this value.
struct Loop(String);

impl Loop {
    fn new(image: &Path) -> Result<Self> {
        let shown = run(command("losetup").args(["--find", "--show", "--direct-io=on"]).arg(image))?;
        Ok(Self(String::from_utf8_lossy(&shown).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run(command("losetup").arg("--detach").arg(&self.0));
    }
}

/// A mounted file system, unmounted with this value.
struct Mount {
    name: &'static str,
    directory: PathBuf,
    devices: Vec<Loop>,
    _images: Vec<Image>,
}

impl Mount {
    /// Makes a new file system and mounts it.
    fn new(way: &Way, settings: &Settings) -> Result<Self> {
        let name = way.name.replace([',', ' '], "-");
        let path = |n: usize| settings.directory.join(format!("devices-{name}-{n}.img"));
        let images: Vec<_> =
            (0..way.devices).map(|n| Image::written(path(n), SIZE_BYTES)).collect::<Result<_>>()?;
        let devices: Vec<_> = (0..way.devices).map(|n| Loop::new(&path(n))).collect::<Result<_>>()?;
        let names: Vec<_> = devices.iter().map(|device| device.0.clone()).collect();
        (way.make)(&names).iter_mut().try_for_each(|command| run(command).map(drop))?;
        let directory = settings.directory.join(format!("devices-{name}.mnt"));
        fs::create_dir_all(&directory).map_err(Failure::of(directory.display()))?;
        run((way.mount)().arg(&names[0]).arg(&directory))?;
        Ok(Self { name: way.name, directory, devices, _images: images })
    }

    /// Makes everything durable, as [`crate::contender::Mounted::sync`] does.
    fn sync(&self) -> io::Result<()> {
        let top = File::open(&self.directory)?;
        rustix::fs::syncfs(&top)?;
        top.sync_all()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if run(command("umount").arg(&self.directory)).is_err() {
            let _ = run(command("umount").arg("--lazy").arg(&self.directory));
        }
        // A daemon writes on after umount has returned, and holds its lock until it is done.
        for device in &self.devices {
            let _ = run(command("flock").arg(&device.0).arg("true"));
        }
    }
}

/// Measures all, all rounds.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    for round in 0..settings.rounds {
        eprintln!("round {} of {}: several devices", round + 1, settings.rounds);
        let mounts = WAYS.iter().map(|way| Mount::new(way, settings)).collect::<Result<Vec<_>>>()?;
        let first = usize::try_from(round).unwrap_or(0) % WAYS.len();
        let mut row = |name: &str, amount: u64, work: &dyn Fn(&Mount) -> io::Result<()>| {
            for mount in mounts.iter().cycle().skip(first).take(WAYS.len()) {
                rustix::fs::sync();
                let took = time(name, || work(mount))?;
                // Amounts are far below 2^52.
                #[expect(clippy::cast_precision_loss)]
                table.note(name, mount.name, amount as f64, "/s", took);
            }
            Ok::<_, Failure>(())
        };
        let transactions = settings.scaled(1000);
        for mode in ["delete", "wal"] {
            row(&format!("sqlite, {mode}"), transactions, &|mount| sqlite(mount, mode, transactions))?;
        }
        let mails = settings.scaled(1000);
        row("mail", mails, &|mount| mail(mount, mails))?;
        let steps = settings.scaled(20_000);
        row("postmark", steps, &|mount| {
            postmark(&mount.directory, steps)?;
            mount.sync()
        })?;
        let archive = sources(settings)?;
        let listed = run(command("tar").arg("-tf").arg(&archive))?;
        let entries = (listed.split(|&byte| byte == b'\n').count() - 1) as u64;
        row("untar", entries, &|mount| {
            let tree = mount.directory.join("tree");
            fs::create_dir(&tree)?;
            run(command("tar").arg("-xf").arg(&archive).arg("-C").arg(tree)).map_err(io::Error::other)?;
            mount.sync()
        })?;
    }
    Ok(())
}

fn sqlite(mount: &Mount, mode: &str, transactions: u64) -> io::Result<()> {
    use std::fmt::Write;
    let mut script = format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL;\n");
    script.push_str("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT);\n");
    for n in 0..transactions {
        let _ = writeln!(script, "INSERT INTO t VALUES ({n}, '{}');", "text ".repeat(40));
    }
    let file = mount.directory.join(format!("{mode}.sql"));
    fs::write(&file, script)?;
    let mut sqlite = command("sqlite3");
    sqlite.arg(mount.directory.join(format!("{mode}.db"))).stdin(File::open(&file)?);
    run(&mut sqlite).map(drop).map_err(io::Error::other)
}

fn mail(mount: &Mount, count: u64) -> io::Result<()> {
    let [tmp, new] = ["tmp", "new"].map(|name| mount.directory.join(name));
    fs::create_dir(&tmp)?;
    fs::create_dir(&new)?;
    for n in 0..count {
        let path = tmp.join(n.to_string());
        let mut file = File::create(&path)?;
        file.write_all(&[b'x'; 8 << 10])?;
        file.sync_all()?;
        fs::rename(path, new.join(n.to_string()))?;
        File::open(&new)?.sync_all()?;
    }
    Ok(())
}
