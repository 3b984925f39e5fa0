//! What crash safety costs: mounts of Spindle with a log (writes passed through, and kept by the
//! kernel), without one and with synchronous names, and ext4 with its journal.
//!
//! They are mounted side by side, each new in an image of its own, and take turns row by row; who
//! begins moves on with each round, and before each turn everything else is given time to reach the
//! disk. All have the log that they make by themselves; ext4 has `data=ordered`, its default.
//! Images are written through beforehand, so that the file system below, which would have to find
//! their blocks, is no part of it.
//!
//! Every row counts until what was done is durable:
//! - *storms* and *untar*: the work, then one `syncfs` of the mount and one `fsync` of its top
//!   directory. ext4 commits with the first; a FUSE daemon hears of the second alone, and Spindle's
//!   makes everything durable, with whatever options;
//! - *untar, unmounted*: the same, and unmounting: with a log, what it holds has gone home then,
//!   too;
//! - *fsync* rows: one file, with an `fsync` or `fdatasync` after each write; nothing else at the
//!   end;
//! - *mail*: a new file each time: create, write 8 KiB, `fsync`, close.
//!
//! What they promise is not the same: with a log or a journal an operation is there whole after a
//! crash or not at all, in order; with synchronous names each is written before it returns, but not
//! past a drive's own cache, and a check must follow; without either a crash leaves whatever had
//! been written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};

use crate::contender::{Contender, Image, Medium, Mounted};
use crate::measure::time;
use crate::mounted::sources;
use crate::settings::Settings;
use crate::table::Table;

/// Bytes of each image.
const SIZE_BYTES: u64 = 2 << 30;
/// Directories that names are spread over.
const DIRECTORIES: u64 = 20;

/// The ways, the one that the others are compared with first.
const WAYS: [(&str, Contender, &str); 5] = [
    ("log", Contender::Spindle, "log"),
    ("writeback", Contender::Spindle, "log,writeback"),
    ("nolog", Contender::Spindle, "nolog"),
    ("sync", Contender::Spindle, "sync"),
    ("ext4", Contender::Ext4, "data=ordered"),
];

/// Measures all ways on both kinds of device, all rounds.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    let image = |way: &str| Image::written(settings.directory.join(format!("durable-{way}.img")), SIZE_BYTES);
    let images = WAYS.iter().map(|(way, ..)| image(way)).collect::<Result<Vec<_>>>()?;
    for round in 0..settings.rounds {
        for medium in Medium::ALL {
            eprintln!("round {} of {}: {}", round + 1, settings.rounds, medium.name());
            let mount = |((_, contender, options), image)| Mounted::new(contender, options, image, medium);
            let mounts = WAYS.into_iter().zip(&images).map(mount).collect::<Result<Vec<_>>>()?;
            let race = Race { settings, round, kind: medium.name(), mounts };
            race.storms(table)?;
            race.single_files(table)?;
            race.untar(table)?;
        }
    }
    Ok(())
}

struct Race<'a> {
    settings: &'a Settings,
    round: u64,
    kind: &'static str,
    /// In the order of [`WAYS`].
    mounts: Vec<Mounted<'a>>,
}

impl Race<'_> {
    /// Returns all mounts with their names, in the order of this round.
    fn turns(&self) -> impl Iterator<Item = (&'static str, &Mounted<'_>)> {
        let first = usize::try_from(self.round).unwrap_or(0) % WAYS.len();
        let ways = WAYS.iter().map(|(name, ..)| *name).zip(&self.mounts);
        ways.cycle().skip(first).take(WAYS.len())
    }

    /// Does `work` on each mount in turn and notes how many of its `amount` units went by in a
    /// second.
    fn row(
        &self,
        table: &mut Table,
        row: &str,
        (amount, unit): (u64, &'static str),
        work: impl Fn(&Mounted<'_>) -> io::Result<()>,
    ) -> Result<()> {
        for (name, mounted) in self.turns() {
            rustix::fs::sync();
            let took = time(row, || work(mounted))?;
            // Amounts are far below 2^52.
            #[expect(clippy::cast_precision_loss)]
            table.note(&format!("{}: {row}", self.kind), name, amount as f64, unit, took);
        }
        Ok(())
    }

    /// Measures many changes of names, made durable at the end.
    fn storms(&self, table: &mut Table) -> Result<()> {
        let (files, directories) = (self.settings.scaled(10_000), self.settings.scaled(4000));
        let path = |mounted: &Mounted<'_>, n: u64, name: &str| -> PathBuf {
            mounted.directory().join(format!("{}/{name}-{n}", n % DIRECTORIES))
        };
        for mounted in &self.mounts {
            let make = |n: u64| fs::create_dir(mounted.directory().join(n.to_string()));
            (0..DIRECTORIES).try_for_each(make).map_err(Failure::of("a directory"))?;
        }
        let mut storm = |name: &str, count: u64, work: &dyn Fn(&Mounted<'_>, u64) -> io::Result<()>| {
            self.row(table, name, (count, "/s"), |mounted| {
                (0..count).try_for_each(|n| work(mounted, n))?;
                mounted.sync()
            })
        };
        storm("create files of 1 KiB", files, &|mounted, n| {
            File::create(path(mounted, n, "file"))?.write_all(&[5; 1 << 10])
        })?;
        storm("rename", files, &|mounted, n| {
            fs::rename(path(mounted, n, "file"), path(mounted, files - 1 - n, "renamed"))
        })?;
        storm("unlink", files, &|mounted, n| fs::remove_file(path(mounted, n, "renamed")))?;
        storm("mkdir", directories, &|mounted, n| fs::create_dir(path(mounted, n, "directory")))?;
        storm("rmdir", directories, &|mounted, n| fs::remove_dir(path(mounted, n, "directory")))?;
        storm("create empty files", files, &|mounted, n| File::create(path(mounted, n, "empty")).map(drop))
    }

    /// Measures writes that are made durable one by one.
    fn single_files(&self, table: &mut Table) -> Result<()> {
        let count = self.settings.scaled(500);
        let block = [5; 4 << 10];
        let file = |mounted: &Mounted<'_>| mounted.directory().join("file");
        self.row(table, "append 4 KiB, fsync", (count, "/s"), |mounted| {
            let mut file = File::create(file(mounted))?;
            (0..count).try_for_each(|_| file.write_all(&block).and_then(|()| file.sync_all()))
        })?;
        for name in ["fdatasync", "fsync"] {
            let sync = if name == "fsync" { File::sync_all } else { File::sync_data };
            self.row(table, &format!("overwrite 4 KiB, {name}"), (count, "/s"), |mounted| {
                let file = OpenOptions::new().write(true).open(file(mounted))?;
                let overwrite = |n| file.write_all_at(&block, n * 4096).and_then(|()| sync(&file));
                (0..count).try_for_each(overwrite)
            })?;
        }
        self.row(table, "mail", (count, "/s"), |mounted| {
            (0..count).try_for_each(|n| {
                let mut file =
                    File::create(mounted.directory().join(format!("{}/mail-{n}", n % DIRECTORIES)))?;
                file.write_all(&[5; 8 << 10])?;
                file.sync_all()
            })
        })
    }

    /// Measures unpacking a real tree, until it is durable, and until it is unmounted.
    fn untar(&self, table: &mut Table) -> Result<()> {
        let archive = sources(self.settings)?;
        let listed = run(command("tar").arg("-tf").arg(&archive))?;
        let entries = (listed.split(|&byte| byte == b'\n').count() - 1) as u64;
        self.row(table, "untar", (entries, "/s"), |mounted| {
            unpack(&archive, mounted.directory())?;
            mounted.sync()
        })?;
        self.row(table, "remove that tree", (entries, "/s"), |mounted| {
            run(command("rm").arg("-rf").arg(mounted.directory().join("tree"))).map_err(io::Error::other)?;
            mounted.sync()
        })?;
        self.row(table, "untar, unmounted", (entries, "/s"), |mounted| {
            unpack(&archive, mounted.directory())?;
            mounted.sync()?;
            mounted.unmount().map_err(io::Error::other)
        })?;
        self.mounts.iter().try_for_each(Mounted::mount)
    }
}

fn unpack(archive: &Path, directory: &Path) -> io::Result<()> {
    let tree = directory.join("tree");
    fs::create_dir(&tree)?;
    run(command("tar").arg("-xf").arg(archive).arg("-C").arg(tree)).map(drop).map_err(io::Error::other)
}
