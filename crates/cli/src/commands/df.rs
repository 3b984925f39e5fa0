//! `spindle df`

use crate::error::{Context, Result};
use crate::image::{self, Failures, ReadArgs};
use crate::mount_point;
use crate::output::Output;
use crate::target::{ImagePath, Target};
use crate::text::{human, quoted};
use serde::Serialize;
use spindle::Image;
use spindle::path::resolve;
use spindle_fuse::FuseMount;
use spindle_vfs::FsStat;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Show the free space of file systems in images
///
/// As on BSD, Avail is what users other than root can have: the free space without the reserve
/// (minfree). If root has used some of the reserve, Avail is negative and Capacity above 100 %.
/// Any member names the whole of a set; a path in it, the class of data of that file or directory.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle df -h disk.img
    spindle df -ih disk.img@s1a disk.img@s1d
    spindle df -h /mnt                 what is mounted there
    spindle df --json disk.img | jq '.[].available_bytes'"
)]
pub struct Args {
    /// Show sizes with units, as 1.5K
    #[arg(short = 'h', overrides_with = "kilobytes")]
    human: bool,
    /// Show sizes in units of 1024 bytes, not of 512
    #[arg(short = 'k')]
    kilobytes: bool,
    /// Also show the number of inodes
    #[arg(short = 'i')]
    inodes: bool,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// The images, or the directories where they are mounted; a path in an image means the space
    /// that this file can get
    #[arg(value_name = "IMAGE|DIR", required = true)]
    images: Vec<OsString>,
}

/// The space and inodes of a file system.
#[derive(Serialize)]
struct Space {
    image: String,
    size_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    /// What users other than root can have; negative if root has used some of the reserve.
    available_bytes: i128,
    reserve_bytes: u64,
    capacity_percent: f64,
    inodes: u64,
    inodes_used: u64,
    inodes_free: u64,
}

impl Space {
    fn of(image: &str, stat: &FsStat) -> Self {
        let bytes = |units: u64| units * u64::from(stat.frsize);
        let used = bytes(stat.blocks.saturating_sub(stat.bfree));
        let available = i128::from(bytes(stat.bfree)) - i128::from(bytes(stat.reserve));
        Self {
            image: image.to_owned(),
            size_bytes: bytes(stat.blocks),
            used_bytes: used,
            free_bytes: bytes(stat.bfree),
            available_bytes: available,
            reserve_bytes: bytes(stat.reserve),
            capacity_percent: percent(used.into(), i128::from(used) + available),
            inodes: stat.files,
            inodes_used: stat.files.saturating_sub(stat.ffree),
            inodes_free: stat.ffree,
        }
    }
}

/// Returns a part of a whole in percent, to tenths; all of nothing is 100.
fn percent(part: i128, whole: i128) -> f64 {
    if whole <= 0 {
        return 100.0;
    }
    // Not more than the size of a device in bytes.
    #[expect(clippy::cast_precision_loss)]
    let percent = (part * 1000 / whole) as f64 / 10.0;
    percent
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let failures = Failures::default();
    let mut found = Vec::new();
    for word in &args.images {
        let space = match mount_point::on(Path::new(word)) {
            Ok(Some(mount)) => of_mount(&mount),
            Ok(None) => Target::in_image(word).and_then(|target| space(&target, args.read)),
            Err(error) => Err(error),
        };
        found.extend(failures.unless(space)?);
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&found)?;
    } else if !found.is_empty() {
        show(&mut out, args, &found)?;
    }
    out.finish()?;
    Ok(failures.exit_code())
}

/// Returns the space of what is mounted, as the mount says.
fn of_mount(mount: &FuseMount) -> Result<Space> {
    // To a user whom it does not let in the kernel answers with zeros, without asking the mount.
    std::fs::metadata(&mount.dir).context(mount.dir.display())?;
    let stat = rustix::fs::statvfs(&mount.dir).context(mount.dir.display())?;
    let stat = FsStat {
        bsize: u32::try_from(stat.f_bsize).unwrap_or(u32::MAX),
        frsize: u32::try_from(stat.f_frsize).unwrap_or(u32::MAX),
        blocks: stat.f_blocks,
        bfree: stat.f_bfree,
        bavail: stat.f_bavail,
        reserve: stat.f_bfree.saturating_sub(stat.f_bavail),
        files: stat.f_files,
        ffree: stat.f_ffree,
        name_max: u32::try_from(stat.f_namemax).unwrap_or(u32::MAX),
    };
    Ok(Space::of(&mount.source.to_string_lossy(), &stat))
}

fn space(target: &ImagePath, read: ReadArgs) -> Result<Space> {
    let name = target.image.as_str();
    let image = Image::open(&image::find(name)?, &read.open_options())?;
    image::print_log_notes(&name, &image);
    let stat = stat(&image, target);
    image.unmount().context(name)?;
    Ok(Space::of(name, &stat?))
}

/// Returns the space of a file system, or what a file in it can get.
fn stat(image: &Image, target: &ImagePath) -> Result<FsStat> {
    if target.path == b"/" {
        return image.fs().statfs().context(&target.image);
    }
    let vfs = image.vfs();
    let node = resolve(&vfs, &target.path, true).context(&target.image)?;
    image.fs().statfs_at(node.ino()).context(target.display())
}

fn show(out: &mut Output, args: &Args, found: &[Space]) -> Result<()> {
    let unit = if args.kilobytes { 1024 } else { 512 };
    let size = |bytes: i128| {
        if args.human {
            let sign = if bytes < 0 { "-" } else { "" };
            format!("{sign}{}", human(u64::try_from(bytes.unsigned_abs()).unwrap_or(u64::MAX)))
        } else {
            (bytes / unit).to_string()
        }
    };
    let blocks = match (args.human, args.kilobytes) {
        (true, _) => "Size",
        (false, true) => "1K-blocks",
        (false, false) => "512-blocks",
    };
    let mut head = vec!["Filesystem", blocks, "Used", "Avail", "Capacity"];
    if args.inodes {
        head.extend(["iused", "ifree", "%iused"]);
    }
    let mut rows = vec![head.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()];
    for space in found {
        let mut row = vec![
            quoted(space.image.as_bytes()),
            size(space.size_bytes.into()),
            size(space.used_bytes.into()),
            size(space.available_bytes),
            format!("{:.0}%", space.capacity_percent),
        ];
        if args.inodes {
            row.extend([
                space.inodes_used.to_string(),
                space.inodes_free.to_string(),
                format!("{:.0}%", percent(space.inodes_used.into(), space.inodes.into())),
            ]);
        }
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(n, (cell, &width))| {
            if n == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        out.line(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what is available is what is free without the reserve, and becomes negative.
    #[test]
    fn the_reserve_is_not_available() {
        let stat = |bfree| FsStat {
            bsize: 8192,
            frsize: 1024,
            blocks: 1000,
            bfree,
            bavail: 0,
            reserve: 80,
            files: 100,
            ffree: 75,
            name_max: 255,
        };
        let full = Space::of("a", &stat(30));
        assert_eq!((full.available_bytes, full.used_bytes), (-50 * 1024, 970 * 1024));
        assert!((full.capacity_percent - 105.4).abs() < 0.01, "{}", full.capacity_percent);
        let half = Space::of("a", &stat(540));
        assert_eq!((half.available_bytes, half.capacity_percent, half.inodes_used), (460 * 1024, 50.0, 25));
        assert!(
            (Space::of("a", &FsStat { blocks: 0, reserve: 0, ..stat(0) }).capacity_percent - 100.0).abs()
                < 0.01
        );
    }
}
