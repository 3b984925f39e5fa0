//! The rows about checks and repairs: `spindle fsck` beside `e2fsck`, on images of the same tree,
//! read cold.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use spindle_interop::tool::{command, output, run};
use spindle_interop::{Failure, Result};

use crate::contender::spindle;
use crate::measure::time;
use crate::settings::{Group, Settings};
use crate::table::Table;

/// Names in a directory of the tree of small files.
const NAMES: u64 = 1000;
/// What the trees hold.
const FILES: &str = "a million files, one in ten of 4 KiB";
const BYTES: &str = "4 GiB in 64 files";

/// The same tree in two images.
struct Images {
    ext4: PathBuf,
    ufs: PathBuf,
}

/// Measures them, if wanted.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    if !settings.wants(Group::Check) {
        return Ok(());
    }
    let files = settings.scaled(1_000_000);
    let of_files = Images::new(settings, "files", files, |tree| small_files(tree, files))?;
    let mebibytes = settings.scaled(4096);
    let of_bytes = Images::new(settings, "bytes", 64, |tree| large_files(tree, mebibytes))?;
    for _ in 0..settings.rounds {
        // Counts far below 2^52.
        #[expect(clippy::cast_precision_loss)]
        for (images, row, amount, unit) in
            [(&of_files, FILES, files as f64, "/s"), (&of_bytes, BYTES, mebibytes as f64, "MiB/s")]
        {
            images.check(&format!("check: {row}"), amount, unit, table)?;
            images.repair(&format!("repair: {row}"), amount, unit, table)?;
        }
    }
    for image in [of_files.ext4, of_files.ufs, of_bytes.ext4, of_bytes.ufs] {
        fs::remove_file(&image).map_err(Failure::of(image.display()))?;
    }
    Ok(())
}

impl Images {
    /// Makes images of a tree that `fill` makes, of so many files.
    fn new(settings: &Settings, name: &str, files: u64, fill: impl Fn(&Path) -> Result<()>) -> Result<Self> {
        let path = |end: &str| settings.directory.join(format!("{name}.{end}"));
        let (tree, ext4, ufs) = (path("tree"), path("ext4.img"), path("ufs.img"));
        fs::create_dir_all(&tree).map_err(Failure::of(tree.display()))?;
        fill(&tree)?;
        let used: u64 = run(command("du").arg("-sm").arg(&tree)).and_then(|text| {
            let text = String::from_utf8_lossy(&text);
            text.split('\t').next().and_then(|text| text.parse().ok()).ok_or_else(|| Failure::new("du"))
        })?;
        let megabytes = used * 5 / 4 + files / 2000 + 64;
        let _ = fs::remove_file(&ext4);
        run(command("mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-N", &(files + files / 100 + 100).to_string(), "-d"])
            .arg(&tree)
            .arg(&ext4)
            .arg(format!("{megabytes}m")))?;
        let _ = fs::remove_file(&ufs);
        run(command(spindle()).args(["import", "-s", "fit"]).arg(&tree).arg(&ufs))?;
        fs::remove_dir_all(&tree).map_err(Failure::of(tree.display()))?;
        Ok(Self { ext4, ufs })
    }

    /// Measures checks that only read.
    fn check(&self, row: &str, amount: f64, unit: &'static str, table: &mut Table) -> Result<()> {
        forget(&self.ext4)?;
        let took = time(row, || run(command("e2fsck").arg("-fn").arg(&self.ext4)).map(drop))?;
        table.note(row, "e2fsck -fn", amount, unit, took);
        forget(&self.ufs)?;
        let took = time(row, || run(command(spindle()).args(["fsck", "-n"]).arg(&self.ufs)).map(drop))?;
        table.note(row, "spindle fsck -n", amount, unit, took);
        Ok(())
    }

    /// Measures repairs of a file with a wrong link count.
    fn repair(&self, row: &str, amount: f64, unit: &'static str, table: &mut Table) -> Result<()> {
        let damage = "set_inode_field /0/0 links_count 7";
        run(command("debugfs").args(["-w", "-R", damage]).arg(&self.ext4))?;
        run(command(spindle()).args(["debug", "-w"]).arg(&self.ufs).arg("set /0/0 di_nlink 7"))?;
        forget(&self.ext4)?;
        let took = time(row, || repaired(command("e2fsck").arg("-fy").arg(&self.ext4)))?;
        table.note(row, "e2fsck -fy", amount, unit, took);
        forget(&self.ufs)?;
        let took = time(row, || repaired(command(spindle()).args(["fsck", "-y"]).arg(&self.ufs)))?;
        table.note(row, "spindle fsck -y", amount, unit, took);
        Ok(())
    }
}

/// Makes the kernel forget what it has of an image, and nothing else: programs stay in memory.
fn forget(image: &Path) -> Result<()> {
    let file = fs::File::open(image).map_err(Failure::of(image.display()))?;
    file.sync_all().map_err(Failure::of(image.display()))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(Failure::of(image.display()))
}

/// Runs a repair, which must find something and repair all of it.
fn repaired(command: &mut Command) -> Result<()> {
    let output = output(command)?;
    if output.status.code() == Some(1) {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Err(Failure::new(format!("the repair ended with {}: {}", output.status, said.trim_end())))
}

/// Makes so many files, a thousand in each directory, of which one in ten is not empty.
fn small_files(tree: &Path, files: u64) -> Result<()> {
    for n in 0..files {
        let dir = tree.join((n / NAMES).to_string());
        if n % NAMES == 0 {
            fs::create_dir_all(&dir).map_err(Failure::of(dir.display()))?;
        }
        let file = dir.join((n % NAMES).to_string());
        fs::write(&file, if n % 10 == 0 { &[7; 4096][..] } else { &[] })
            .map_err(Failure::of(file.display()))?;
    }
    Ok(())
}

/// Makes 64 files of so many mebibytes together.
fn large_files(tree: &Path, mebibytes: u64) -> Result<()> {
    let dir = tree.join("0");
    fs::create_dir_all(&dir).map_err(Failure::of(dir.display()))?;
    let mut rng = SmallRng::seed_from_u64(1984);
    let mut bytes = vec![0; 1 << 20];
    for n in 0..64 {
        let path = dir.join(n.to_string());
        let mut file = fs::File::create(&path).map_err(Failure::of(path.display()))?;
        for _ in 0..mebibytes.div_ceil(64) {
            rng.fill_bytes(&mut bytes);
            file.write_all(&bytes).map_err(Failure::of(path.display()))?;
        }
    }
    Ok(())
}
