//! `spindle waste`

use crate::error::{Context, FAILED, Result};
use crate::output::Output;
use crate::progress::Progress;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use serde::Serialize;
use spindle_lab::waste::{ORGANISATIONS, Object, Survey};
use spindle_report::outcome::{Column, Table};
use spindle_report::render;
use std::collections::HashSet;
use std::ffi::{CString, OsStr};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compute the space that files would waste, by block size
///
/// Prints Table 1 of the 1984 paper for your files: the space they would take in the old file
/// system with blocks of 512 to 4096 bytes, and in the new one with blocks and fragments. Waste is
/// in percent of the data. Only names, sizes and holes are read; a file with several names counts
/// once. Directories on which other file systems are mounted are not entered, so that the table
/// describes one disk.
///
/// "Data ends" is the unused space in the last block or fragment of each file. Directories count as
/// files of 16 bytes an entry, as in the old file system. Only inodes in use are counted. "Maps"
/// are the superblock copies and the blocks of the cylinder groups; the old file system has almost
/// none.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  something could not be read and was left out    2  invalid command line

EXAMPLES
    spindle waste ~
    spindle waste --cross-mounts /usr /var
    spindle waste --json . |
        jq '.organisations[] | select(.waste_percent < 10) | .name'")]
pub struct Args {
    /// Enter directories on which other file systems are mounted
    #[arg(short = 'c', long)]
    cross_mounts: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The directories
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    objects: u64,
    data_bytes: u64,
    organisations: Vec<OrganisationReport>,
}

#[derive(Serialize)]
struct OrganisationReport {
    name: String,
    used_bytes: u64,
    waste_percent: f64,
    data_end_bytes: u64,
    inode_bytes: u64,
    indirect_bytes: u64,
    map_bytes: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut census = Census {
        survey: Survey::new(ORGANISATIONS),
        progress: Progress::new("waste", None),
        counted: HashSet::new(),
        cross_mounts: args.cross_mounts,
        left_out: 0,
    };
    for dir in &args.dirs {
        census.walk(dir).context(dir.display())?;
    }
    let report = report_of(&census.survey);
    drop(census.progress);
    let mut out = Output::stdout();
    if args.json {
        out.json(&report)?;
    } else {
        out.text(&render::table(&table(&report)))?;
    }
    out.finish()?;
    Ok(if census.left_out == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn report_of(survey: &Survey) -> Report {
    let organisations = survey.usage().map(|(organisation, usage)| OrganisationReport {
        name: organisation.to_string(),
        used_bytes: usage.total(),
        waste_percent: survey.percent_waste(&usage),
        data_end_bytes: usage.data.saturating_sub(survey.bytes()),
        inode_bytes: usage.inodes,
        indirect_bytes: usage.indirect,
        map_bytes: usage.maps,
    });
    Report { objects: survey.objects(), data_bytes: survey.bytes(), organisations: organisations.collect() }
}

#[allow(clippy::cast_precision_loss)] // Shown with one decimal.
fn table(report: &Report) -> Table {
    const UNITS: [(&str, f64); 4] =
        [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("TiB", 1_099_511_627_776.0)];
    let largest = report.organisations.iter().map(|o| o.used_bytes).max().unwrap_or(0) as f64;
    let (unit, scale) =
        UNITS.into_iter().rev().find(|(_, scale)| largest >= 10.0 * scale).unwrap_or(UNITS[0]);
    let amount = |bytes: u64| bytes as f64 / scale;
    let title = format!(
        "{:.1} {unit} of data in {} files and directories",
        amount(report.data_bytes),
        report.objects
    );
    let amounts = ["data ends", "inodes", "indirect", "maps"].map(|name| format!("{name}, {unit}"));
    let columns = ["organisation".into(), format!("used, {unit}"), "waste, %".into()];
    let mut table =
        Table::new(title, columns.into_iter().chain(amounts).map(|name: String| Column::new(name, 1)));
    for o in &report.organisations {
        let parts = [o.data_end_bytes, o.inode_bytes, o.indirect_bytes, o.map_bytes];
        let first = [o.name.as_str().into(), amount(o.used_bytes).into(), o.waste_percent.into()];
        table.row(first.into_iter().chain(parts.map(|bytes| amount(bytes).into())));
    }
    table
}

/// A directory on the path to the current object.
struct Level {
    dir: OwnedFd,
    path: PathBuf,
    names: std::vec::IntoIter<CString>,
}

/// The state of the walk.
struct Census {
    survey: Survey,
    progress: Progress,
    /// Device and inode number of directories and files with several names that are counted.
    counted: HashSet<(u64, u64)>,
    cross_mounts: bool,
    left_out: u64,
}

impl Census {
    /// Counts `top` and everything below it; `top` may be a symbolic link.
    fn walk(&mut self, top: &PathBuf) -> Result<()> {
        let stat = rustix::fs::statat(CWD, top, AtFlags::empty())?;
        let mut levels = Vec::new();
        levels.extend(self.count(CWD, top.as_os_str(), top.clone(), &stat, OFlags::empty())?);
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.next() else {
                levels.pop();
                continue;
            };
            let name = OsStr::from_bytes(name.as_bytes());
            let path = level.path.join(name);
            let found = rustix::fs::statat(&level.dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(Into::into)
                .and_then(|below| {
                    if below.st_dev != stat.st_dev && !self.cross_mounts {
                        return Ok(None);
                    }
                    self.count(level.dir.as_fd(), name, path.clone(), &below, OFlags::NOFOLLOW)
                });
            match found {
                Ok(entered) => levels.extend(entered),
                // It was removed during the walk.
                Err(e) if e.is(&spindle_vfs::Error::NotFound) => {}
                Err(e) => {
                    log::warn!("left out {}: {e}", path.display());
                    self.left_out += 1;
                }
            }
        }
        Ok(())
    }

    /// Counts one object. Returns the level to enter if it is a directory.
    fn count(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        path: PathBuf,
        stat: &Stat,
        follow: OFlags,
    ) -> Result<Option<Level>> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let several = stat.st_nlink > 1 || kind == FileType::Directory;
        if several && !self.counted.insert((stat.st_dev, stat.st_ino)) {
            return Ok(None);
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let stored = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        match kind {
            FileType::Directory => {
                let fd = open(dir, name, OFlags::DIRECTORY | follow)?;
                let names = names(&fd)?;
                let lengths: Vec<usize> = names.iter().map(|name| name.as_bytes().len()).collect();
                self.survey.add(Object::Directory(&lengths));
                return Ok(Some(Level { dir: fd, path, names: names.into_iter() }));
            }
            // Fewer bytes stored than the size: holes or compression, which SEEK_HOLE
            // distinguishes.
            FileType::RegularFile if stored < size => match open(dir, name, follow) {
                Ok(fd) => self.survey.add(Object::Sparse(size, &extents(&fd, size)?)),
                Err(_) => self.survey.add(Object::Sparse(size, std::slice::from_ref(&(0..stored)))),
            },
            FileType::RegularFile => self.survey.add(Object::File(size)),
            FileType::Symlink => self.survey.add(Object::Symlink(size)),
            _ => self.survey.add(Object::Special),
        }
        self.progress.add(size.min(stored));
        Ok(None)
    }
}

fn open(dir: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(dir, name, flags, Mode::empty()),
        other => other,
    }
}

fn names(dir: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() != b"." && name.to_bytes() != b".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the ranges of a file that hold data.
fn extents(fd: &OwnedFd, size: u64) -> rustix::io::Result<Vec<Range<u64>>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            // The file system does not support holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            other => other?.min(size),
        };
        let end = match rustix::fs::seek(fd, SeekFrom::Hole(start)) {
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => size,
            other => other?.min(size),
        };
        if start < end {
            found.push(start..end);
        }
        at = end.max(at + 1);
    }
    Ok(found)
}
