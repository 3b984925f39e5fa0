//! `spindle scan`

use crate::error::{Context, Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::{interrupt, text};
use serde::Serialize;
use spindle::Spec;
use spindle::detect::{Found, version_name};
use spindle::image::open_device_unlocked;
use spindle::search::{Findings, Place, search};
use spindle_clock::Timestamp;
use spindle_ondisk::Endian;
use spindle_report::number;
use std::process::ExitCode;

/// Find file systems anywhere on a disk
///
/// For a disk whose label is lost or wrong. At each sector it looks for superblocks of UFS1 and
/// UFS2, in either byte order, for the file systems of V7 and System V, and for members of sets
/// (mfs). Each line has the name by which the other commands take what was found. What cannot be
/// read is passed over, and so are the holes of an image file. Nothing is written.
///
/// The cylinder groups say whether a superblock of UFS is the standard one or a copy, and so where
/// its file system begins: it is found, too, if only one copy is left. Those of V7 and System V are
/// recognised by their super-block together with their root directory. Old file systems are found
/// as well, parts of which were overwritten later, and those in files that are images of disks.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  nothing was found, something could not be read, or failed
    2  invalid command line

EXAMPLES
    spindle scan disk.img
    spindle ls disk.img@offset=397824:/
    spindle scan --json /dev/sdb | jq -r '.file_systems[].name'")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The disk: a file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    file_systems: Vec<FileSystem>,
    /// Bytes of superblocks of which nothing says where their file systems begin.
    stray_superblocks: Vec<u64>,
    unreadable_bytes: u64,
}

/// A file system that was found.
#[derive(Serialize)]
struct FileSystem {
    /// Its name for the other commands.
    name: String,
    /// Its first byte on the disk.
    offset: u64,
    format: String,
    /// Whose UFS it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    dialect: Option<String>,
    byte_order: &'static str,
    size_bytes: u64,
    /// Empty of a set that was never mounted: its labels do not say when it was made.
    last_written: String,
    /// Where it was mounted last; empty if its superblock does not say that.
    last_mounted_on: String,
    /// The byte of the file system at which the copy of the superblock stands by which it was
    /// found, if its standard one cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_at: Option<u64>,
    /// The file system that it lies in.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let image = &args.image;
    let spec = Spec::parse(image)?;
    let disk = open_device_unlocked(&spec)?;
    let size = disk.info().size_bytes;
    let bar = Progress::new("scan", Some(size));
    let mut shown = 0;
    let findings = search(&disk, 0..size, &mut |until| {
        let step = until.saturating_sub(shown);
        shown = until;
        bar.step(step)
    })?;
    drop(bar);
    let report = report(image, &spec, &findings)?;
    let mut out = Output::stdout();
    if args.json {
        out.json(&report)?;
    } else {
        show(&mut out, &report)?;
    }
    out.finish()?;
    if findings.unreadable_bytes > 0 {
        let unreadable = number::bytes(findings.unreadable_bytes);
        let what = format!("{unreadable} could not be read; what is there is not known");
        return Err(Failure::new(what)).context(image);
    }
    if report.file_systems.is_empty() {
        let what =
            "has no file system that was found: neither UFS nor one of V7 or System V, nor a member of a set";
        return Err(Failure::new(what)).context(image);
    }
    Ok(ExitCode::SUCCESS)
}

fn report<'a>(image: &'a str, spec: &Spec, findings: &Findings) -> Result<Report<'a>> {
    // Places count from the beginning of the disk, also where a partition was searched.
    let place = spec.place()?;
    let base = place.bytes.map_or(0, |bytes| bytes.start);
    let name = |at: u64| format!("{}@offset={}", place.path.display(), base + at);
    let file_system = |place: &Place| {
        let (format, dialect, byte_order, secs, mounted) = match &place.found {
            Found::Ffs(found) => (
                version_name(found.layout.version, found.layout.inode_format).to_owned(),
                Some(found.dialect.to_string()),
                found.layout.endian,
                found.written_at(),
                text_of(&found.fs.fs_fsmnt),
            ),
            Found::Old(found) => {
                let superblock = &found.superblock;
                let secs = superblock.head.s_time.into();
                (superblock.format.to_string(), None, superblock.format.endian, secs, String::new())
            }
            Found::Mfs(label) => {
                let secs = label.opened.div_euclid(1_000_000_000);
                ("member of a set".to_owned(), None, Endian::Little, secs, String::new())
            }
        };
        let around = |other: &&Place| other.at < place.at && place.end() <= other.end();
        let is_new = matches!(&place.found, Found::Mfs(label) if label.opened == 0);
        FileSystem {
            name: name(place.at),
            offset: base + place.at,
            format,
            dialect,
            byte_order: text::endian(byte_order),
            size_bytes: place.found.size_bytes(),
            last_written: if is_new { String::new() } else { Timestamp::new(secs, 0).to_string() },
            last_mounted_on: mounted,
            copy_at: place.copy_at,
            inside: findings.places.iter().rfind(around).map(|other| name(other.at)),
        }
    };
    Ok(Report {
        image,
        file_systems: findings.places.iter().map(file_system).collect(),
        stray_superblocks: findings.stray.iter().map(|at| base + at).collect(),
        unreadable_bytes: findings.unreadable_bytes,
    })
}

fn text_of(bytes: &[u8]) -> String {
    text::encoded(bytes.split(|&byte| byte == 0).next().unwrap_or_default())
}

fn show(out: &mut Output, report: &Report) -> Result<()> {
    for found in &report.file_systems {
        let dialect = found.dialect.as_ref().map(|dialect| format!(" of {dialect}")).unwrap_or_default();
        let mut line = vec![
            format!("{}: {}{dialect}", found.name, found.format),
            format!("{}-endian", found.byte_order),
            number::bytes(found.size_bytes),
        ];
        if !found.last_written.is_empty() {
            line.push(format!("written {}", found.last_written));
        }
        if !found.last_mounted_on.is_empty() {
            line.push(format!("last mounted on {}", found.last_mounted_on));
        }
        if found.copy_at.is_some() {
            line.push("only copies of its superblock are left".into());
        }
        line.extend(found.inside.as_ref().map(|other| format!("inside {other}")));
        out.line(line.join(", "))?;
    }
    for at in &report.stray_superblocks {
        out.line(format!(
            "{}: superblock at byte {at}, but no cylinder group says where its file system begins",
            report.image
        ))?;
    }
    Ok(())
}
