//! The rows that are measured on a mounted file system.
//!
//! *Cold* means after unmounting, mounting and emptying the kernel's caches; *warm* right after the
//! same work was done once. All work is done by one thread.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{FileType, Stat, lstat};
use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};

use crate::contender::{Contender, Image, Medium, Mounted};
use crate::measure::time;
use crate::postmark::postmark;
use crate::settings::{Group, Settings};
use crate::table::Table;

const MIB: u64 = 1 << 20;
/// Bytes of each image.
const SIZE_BYTES: u64 = 8 << 30;
/// Directories over which files are spread.
const DIRECTORIES: u64 = 200;

/// Measures all wanted groups of rows on a new file system of the contender.
pub fn all(contender: Contender, settings: &Settings, table: &mut Table) -> Result<()> {
    let groups = [Group::Large, Group::One, Group::Spread, Group::Tree, Group::Names];
    if !groups.iter().any(|&group| settings.wants(group)) {
        return Ok(());
    }
    let image = Image::sparse(settings.directory.join(format!("{}.img", contender.name())), SIZE_BYTES)?;
    let mounted = Mounted::new(contender, contender.options(), &image, Medium::File)?;
    let bench = Bench { contender, settings, mounted };
    if settings.wants(Group::Large) {
        bench.large_file(table)?;
    }
    if settings.wants(Group::One) {
        bench.small_files(table, "one directory", 1, 0)?;
    }
    if settings.wants(Group::Spread) {
        bench.small_files(table, "200 directories", DIRECTORIES, 4096)?;
    }
    if settings.wants(Group::Tree) {
        bench.tree(table)?;
    }
    // fuse2fs would take hours: it searches directories from their start.
    if settings.wants(Group::Names) && contender != Contender::Fuse2fs {
        bench.names(table)?;
    }
    Ok(())
}

struct Bench<'a> {
    contender: Contender,
    settings: &'a Settings,
    mounted: Mounted<'a>,
}

impl Bench<'_> {
    /// Does `work` and notes how many of its `amount` units went by in a second.
    fn row(
        &self,
        table: &mut Table,
        row: &str,
        (amount, unit): (u64, &'static str),
        work: impl FnOnce() -> io::Result<()>,
    ) -> Result<()> {
        let took = time(row, work)?;
        // Amounts are far below 2^52.
        #[expect(clippy::cast_precision_loss)]
        table.note(row, self.contender.name(), amount as f64, unit, took);
        Ok(())
    }

    fn large_file(&self, table: &mut Table) -> Result<()> {
        let path = self.mounted.directory().join("large");
        let mib = self.settings.scaled(1024);
        let volume = (mib, "MiB/s");
        self.row(table, "sequential write, fsync", volume, || {
            let buffer: Vec<u8> = (0..MIB).map(|place| (place % 251) as u8).collect();
            let mut file = File::create(&path)?;
            (0..mib).try_for_each(|_| file.write_all(&buffer))?;
            file.sync_all()
        })?;
        self.mounted.make_cold()?;
        self.row(table, "sequential read, cold", volume, || read_through(&path))?;
        self.row(table, "sequential read, warm", volume, || read_through(&path))?;
        self.mounted.make_cold()?;
        let count = self.settings.scaled(20_000);
        let blocks = mib * MIB / 4096;
        let mut rng = SmallRng::seed_from_u64(1);
        let mut buffer = [7; 4096];
        self.row(table, "random 4K read, cold", (count, "/s"), || {
            let file = File::open(&path)?;
            (0..count).try_for_each(|_| file.read_exact_at(&mut buffer, rng.random_range(0..blocks) * 4096))
        })?;
        self.row(table, "random 4K write, fsync", (count, "/s"), || {
            let file = OpenOptions::new().write(true).open(&path)?;
            (0..count).try_for_each(|_| file.write_all_at(&buffer, rng.random_range(0..blocks) * 4096))?;
            file.sync_all()
        })?;
        fs::remove_file(&path).map_err(Failure::of(path.display()))
    }

    fn small_files(&self, table: &mut Table, kind: &str, directories: u64, bytes: usize) -> Result<()> {
        let top = self.mounted.directory().join("small");
        let files = self.settings.scaled(20_000);
        let count = (files, "/s");
        let content = vec![5; bytes];
        let paths: Vec<PathBuf> =
            (0..files).map(|file| top.join(format!("{}/file-{file}", file % directories))).collect();
        let row = |work: &str| format!("{work}, {kind}");
        fs::create_dir(&top).map_err(Failure::of(top.display()))?;
        self.row(table, &row("create"), count, || {
            (0..directories).try_for_each(|directory| fs::create_dir(top.join(directory.to_string())))?;
            paths.iter().try_for_each(|path| File::create(path)?.write_all(&content))
        })?;
        let stat_all = || paths.iter().try_for_each(|path| stat(path).map(drop));
        let list = || list_all(&top);
        self.mounted.make_cold()?;
        self.row(table, &row("stat cold"), count, stat_all)?;
        self.row(table, &row("stat warm"), count, stat_all)?;
        self.mounted.make_cold()?;
        self.row(table, &row("list cold"), count, list)?;
        self.row(table, &row("list warm"), count, list)?;
        self.row(table, &row("unlink"), count, || paths.iter().try_for_each(fs::remove_file))?;
        fs::remove_dir_all(&top).map_err(Failure::of(top.display()))
    }

    /// Measures a tree of the sources of the crates that are built with, as many as wanted, and the
    /// load of postmark.
    fn tree(&self, table: &mut Table) -> Result<()> {
        let archive = sources(self.settings)?;
        let top = self.mounted.directory().join("tree");
        fs::create_dir(&top).map_err(Failure::of(top.display()))?;
        let listed = run(command("tar").arg("-tf").arg(&archive))?;
        let entries = ((listed.split(|&byte| byte == b'\n').count() - 1) as u64, "/s");
        let shell = |command: &mut std::process::Command| run(command).map(drop).map_err(io::Error::other);
        self.row(table, "untar", entries, || {
            shell(command("tar").arg("-xf").arg(&archive).arg("-C").arg(&top))
        })?;
        self.mounted.make_cold()?;
        self.row(table, "remove tree", entries, || shell(command("rm").arg("-rf").arg(&top)))?;
        let top = self.mounted.directory().join("postmark");
        fs::create_dir(&top).map_err(Failure::of(top.display()))?;
        let steps = self.settings.scaled(20_000);
        self.row(table, "postmark", (steps, "/s"), || postmark(&top, steps))
    }

    /// Measures a million names in one directory, made and looked up at random.
    fn names(&self, table: &mut Table) -> Result<()> {
        let top = self.mounted.directory().join("names");
        let names = self.settings.scaled(1_000_000);
        fs::create_dir(&top).map_err(Failure::of(top.display()))?;
        self.row(table, "create a million names", (names, "/s"), || {
            (0..names).try_for_each(|name| File::create(top.join(format!("name-{name}"))).map(drop))
        })?;
        self.mounted.make_cold()?;
        let count = self.settings.scaled(20_000);
        let mut rng = SmallRng::seed_from_u64(1);
        self.row(table, "look up among a million names, cold", (count, "/s"), || {
            (0..count)
                .try_for_each(|_| stat(&top.join(format!("name-{}", rng.random_range(0..names)))).map(drop))
        })
    }
}

fn read_through(path: &Path) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut file = File::open(path)?;
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Asks for the attributes that `ls`, `tar` and git ask for. `fs::metadata` asks for the time of
/// birth, too.
fn stat(path: &Path) -> io::Result<Stat> {
    Ok(lstat(path)?)
}

/// Reads what `ls -lR` asks for.
fn list_all(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if FileType::from_raw_mode(stat(&path)?.st_mode).is_dir() {
            list_all(&path)?;
        }
    }
    Ok(())
}

/// Returns an archive of the crates' sources that cargo keeps: a real tree that every machine that
/// built Spindle has.
pub fn sources(settings: &Settings) -> Result<PathBuf> {
    let archive = settings.directory.join("sources.tar");
    if !archive.exists() {
        let tree = source_tree()?;
        run(command("tar").arg("-cf").arg(&archive).arg("-C").arg(tree).arg("."))?;
    }
    Ok(archive)
}

/// Returns where cargo keeps the sources of crates.
pub fn source_tree() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let tree = home.map(|home| home.join("registry/src")).filter(|tree| tree.is_dir());
    tree.ok_or_else(|| Failure::new("no crates' sources: neither CARGO_HOME nor HOME has registry/src"))
}
