//! `spindle info`

mod filesystem;
mod found;
mod groups;
pub mod mfs;
mod old;

use crate::error::{Context, Failure, Result};
use crate::image::ReadArgs;
use crate::mount_point;
use crate::output::Output;
use crate::text;
use found::FoundInfo;
use groups::GroupInfo;
use serde::Serialize;
use spindle::detect::{Found, detect, detect_damaged};
use spindle::image::open_device_unlocked;
use spindle::{OpenOptions, partition};
use spindle_device::{Device, Part, Spec, Table, Window, partitions};
use spindle_report::number;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;

/// Show what an image contains
///
/// For a file system, info shows its format and dialect, the numbers that dumpfs prints, whether it
/// is clean, and whether it can be written; if not, also the reason and the remedy. For a disk, it
/// shows the partitions and the file system in each. The image is opened read-only and without a
/// lock, so it may be mounted.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle info disk.img
    spindle info -g 0-3 disk.img@s1a
    spindle info --json disk.img | jq '.partitions[].file_system.dialect'")]
pub struct Args {
    /// Also show these cylinder groups: a number, or a range like 0-3
    #[arg(short = 'g', value_name = "GROUPS", value_parser = parse_range)]
    range: Option<RangeInclusive<u32>>,
    /// Also show all cylinder groups
    #[arg(long)]
    groups: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
    /// The file, block device or partition, or the directory where it is mounted
    #[arg(value_name = "IMAGE|DIR")]
    image: String,
}

fn parse_range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("give a number or a range like 0-3".into()),
    }
}

#[derive(Serialize)]
struct Report {
    image: String,
    size_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_system: Option<FoundInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<PartitionInfo>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Serialize)]
struct PartitionInfo {
    name: String,
    scheme: String,
    start_bytes: u64,
    size_bytes: u64,
    /// Bytes at its end that the disk does not have.
    #[serde(skip_serializing_if = "is_zero")]
    missing_bytes: u64,
    kind: String,
    label: Option<String>,
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_system: Option<FoundInfo>,
    /// The reason why the file system cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
const fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (name, spec) = match mount_point::image_on(&args.image)? {
        Some(mounted) => (mounted.to_string(), mounted),
        None => (args.image.clone(), Spec::parse(&args.image)?),
    };
    // Without groups, all partitions of a disk are shown; groups need one partition.
    let spec = if args.groups || args.range.is_some() { partition::choose(spec)? } else { spec };
    let device = open_device_unlocked(&spec)?;
    let mut report = Report {
        image: name,
        size_bytes: device.info().size_bytes,
        label: None,
        file_system: None,
        groups: Vec::new(),
        partitions: Vec::new(),
        notes: Vec::new(),
    };
    let OpenOptions { kind, superblock, .. } = args.read.open_options();
    let is_named = kind.is_some() || superblock.is_some();
    let found = if is_named { detect_damaged(&*device, kind, superblock) } else { detect(&*device) };
    // Partitions at the start of the disk are the file system itself.
    let table = if spec.part == Part::Whole { Some(partitions(&*device)?) } else { None };
    let table = table.filter(|table| table.partitions.iter().any(|p| p.start_bytes > 0));
    let found = match (found, &table) {
        (Err(_), None) if !is_named => {
            if let Some(elsewhere) = partition::at_usual_places(&device, &spec)? {
                return Err(elsewhere.into());
            }
            detect_damaged(&*device, None, None)
        }
        (found, _) => found,
    };
    match (found, table) {
        (Ok(found), table) => {
            report.file_system = Some(FoundInfo::of(&found, &device, &spec)?);
            let wanted = match &args.range {
                Some(range) => Some(range.clone()),
                None => args.groups.then_some(0..=u32::MAX),
            };
            if let (Some(range), Found::Ffs(superblock)) = (wanted, &found) {
                report.groups = groups::read(superblock, &*device, range).context(&args.image)?;
            }
            if let Some(table) = table {
                add_partitions(&mut report, &device, &spec, table);
            }
        }
        (Err(_), Some(table)) => add_partitions(&mut report, &device, &spec, table),
        (Err(error), None) => return Err(Failure::from(error)).context(&args.image),
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&report)?;
    } else {
        show(&mut out, &report)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn add_partitions(report: &mut Report, device: &Arc<dyn Device>, spec: &Spec, table: Table) {
    report.label = table.scheme.map(|scheme| scheme.to_string());
    report.notes = table.notes;
    for partition in table.partitions {
        let bytes_on_disk = partition.bytes_on_disk();
        let mut info = PartitionInfo {
            name: partition.name.clone(),
            scheme: partition.scheme.to_string(),
            start_bytes: partition.start_bytes,
            size_bytes: partition.size_bytes,
            missing_bytes: partition.missing_bytes,
            kind: partition.kind,
            label: partition.label,
            problem: partition.problem,
            file_system: None,
            damage: None,
        };
        if info.problem.is_none() && info.size_bytes > 0 {
            let spec = Spec { part: Part::Named(partition.name), ..spec.clone() };
            let inside = Window::new(Arc::clone(device), info.start_bytes, bytes_on_disk, spec.to_string())
                .map_err(spindle_vfs::Error::from)
                .and_then(|window| {
                    let is_cut = info.missing_bytes > 0;
                    let found = if is_cut { detect_damaged(&window, None, None) } else { detect(&window) };
                    let window: Arc<dyn Device> = Arc::new(window);
                    found.map(|found| (found, window))
                });
            match inside {
                Ok((found, window)) => match FoundInfo::of(&found, &window, &spec) {
                    Ok(found) => info.file_system = Some(found),
                    Err(error) => info.damage = Some(error.to_string()),
                },
                Err(spindle_vfs::Error::Unsupported { .. }) => {}
                Err(error) => info.damage = Some(error.to_string()),
            }
        }
        report.partitions.push(info);
    }
}

fn show(out: &mut Output, report: &Report) -> Result<()> {
    if let Some(found) = &report.file_system {
        found.show(out, &report.image)?;
    }
    for group in &report.groups {
        group.show(out)?;
    }
    if let Some(label) = &report.label {
        if report.file_system.is_some() {
            out.line("")?;
        }
        out.line(format!("{}: {label}, {}", report.image, number::bytes(report.size_bytes)))?;
        for partition in &report.partitions {
            show_partition(out, partition)?;
        }
        if let Some(first) = report.partitions.iter().find(|p| p.file_system.is_some()) {
            out.line(format!("name a partition like this: {}@{}", report.image, first.name))?;
        }
    }
    for note in &report.notes {
        out.line(format!("note: {note}"))?;
    }
    Ok(())
}

fn show_partition(out: &mut Output, p: &PartitionInfo) -> Result<()> {
    let kind = text::printable(p.kind.as_bytes());
    let label =
        p.label.as_ref().map(|l| format!(" \"{}\"", text::printable(l.as_bytes()))).unwrap_or_default();
    out.line(format!(
        "  {:<6} {:>10} at {:<14} {kind}{label}",
        p.name,
        number::bytes(p.size_bytes),
        p.start_bytes
    ))?;
    if let Some(problem) = &p.problem {
        out.line(format!("         cannot be opened: {problem}"))?;
    }
    if p.problem.is_none() && p.missing_bytes > 0 {
        let missing = number::bytes(p.missing_bytes);
        out.line(format!("         cut: the disk ends {missing} before it does; it can only be read"))?;
    }
    if let Some(found) = &p.file_system {
        out.line(format!("         {}", found.summary()))?;
        for objection in found.objections() {
            out.line(format!("         read-only: {}; {}", objection.reason, objection.remedy))?;
        }
    }
    if let Some(damage) = &p.damage {
        let damage = damage.strip_prefix("corrupt: ").unwrap_or(damage);
        out.line(format!("         damaged: {damage}"))?;
    }
    Ok(())
}
