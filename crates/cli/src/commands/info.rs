//! `spindle info`

mod filesystem;
mod found;
mod groups;
mod old;

use crate::error::{Context, Failure, Result};
use crate::image::Found;
use crate::output::Output;
use crate::{image, partition, text};
use found::FoundInfo;
use groups::GroupInfo;
use serde::Serialize;
use spindle_device::{Device, Part, Spec, Table, Window, partitions};
use spindle_report::number;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;

/// Tell what is in an image
///
/// For a file system: its format and dialect, its numbers as dumpfs tells them, whether it is
/// clean, whether it can be written, and if not why and what would help. For a disk: its
/// partitions, and the file system in each. The image is opened read-only, and not locked: it may
/// be mounted meanwhile.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle info disk.img
    spindle info -g 0-3 disk.img@s1a
    spindle info --json disk.img | jq '.partitions[].file_system.dialect'")]
pub struct Args {
    /// Tell about these cylinder groups, too: a number, or a range like 0-3
    #[arg(short = 'g', value_name = "GROUPS", value_parser = parse_range)]
    range: Option<RangeInclusive<u32>>,
    /// Tell about all cylinder groups, too
    #[arg(long)]
    groups: bool,
    /// Tell it as JSON
    #[arg(long)]
    json: bool,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
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
struct Told {
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
    kind: String,
    label: Option<String>,
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_system: Option<FoundInfo>,
    /// Why what looks like a file system cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let spec = image::parse_spec(&args.image)?;
    // Of a disk all partitions are told; groups are those of one.
    let spec = if args.groups || args.range.is_some() { partition::choose(spec)? } else { spec };
    let device = image::open_device_unlocked(&spec)?;
    let mut told = Told {
        image: args.image.clone(),
        size_bytes: device.info().size_bytes,
        label: None,
        file_system: None,
        groups: Vec::new(),
        partitions: Vec::new(),
        notes: Vec::new(),
    };
    let found = image::detect(&*device);
    // A file system that starts where the disk does is what the user means, unless there are others
    // inside a label.
    let table = if spec.part == Part::Whole { Some(partitions(&*device)?) } else { None };
    match (found, table.filter(|table| table.partitions.iter().any(|p| p.start_bytes > 0))) {
        (Ok(found), table) => {
            told.file_system = Some(FoundInfo::of(&found, &*device)?);
            let wanted = match &args.range {
                Some(range) => Some(range.clone()),
                None => args.groups.then_some(0..=u32::MAX),
            };
            if let (Some(range), Found::Ffs(superblock)) = (wanted, &found) {
                told.groups = groups::read(superblock, &*device, range).context(&args.image)?;
            }
            if let Some(table) = table {
                add_partitions(&mut told, &device, &spec, table);
            }
        }
        (Err(_), Some(table)) => add_partitions(&mut told, &device, &spec, table),
        (Err(error), None) => return Err(Failure::from(error)).context(&args.image),
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&told)?;
    } else {
        show(&mut out, &told)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn add_partitions(told: &mut Told, device: &Arc<dyn Device>, spec: &Spec, table: Table) {
    told.label = table.scheme.map(|scheme| scheme.to_string());
    told.notes = table.notes;
    for partition in table.partitions {
        let mut info = PartitionInfo {
            name: partition.name.clone(),
            scheme: partition.scheme.to_string(),
            start_bytes: partition.start_bytes,
            size_bytes: partition.size_bytes,
            kind: partition.kind,
            label: partition.label,
            problem: partition.problem,
            file_system: None,
            damage: None,
        };
        if info.problem.is_none() && info.size_bytes > 0 {
            let name = Spec { part: Part::Named(partition.name), ..spec.clone() }.to_string();
            let inside = Window::new(Arc::clone(device), info.start_bytes, info.size_bytes, name)
                .map_err(spindle_vfs::Error::from)
                .and_then(|window| {
                    let found = image::detect(&window)?;
                    FoundInfo::of(&found, &window)
                });
            match inside {
                Ok(found) => info.file_system = Some(found),
                Err(spindle_vfs::Error::Unsupported { .. }) => {}
                Err(error) => info.damage = Some(error.to_string()),
            }
        }
        told.partitions.push(info);
    }
}

fn show(out: &mut Output, told: &Told) -> Result<()> {
    if let Some(found) = &told.file_system {
        found.show(out, &told.image)?;
    }
    for group in &told.groups {
        group.show(out)?;
    }
    if let Some(label) = &told.label {
        if told.file_system.is_some() {
            out.line("")?;
        }
        out.line(format!("{}: {label}, {}", told.image, number::bytes(told.size_bytes)))?;
        for partition in &told.partitions {
            show_partition(out, partition)?;
        }
        if let Some(first) = told.partitions.iter().find(|p| p.file_system.is_some()) {
            out.line(format!("name one as {}@{}", told.image, first.name))?;
        }
    }
    for note in &told.notes {
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
    if let Some(found) = &p.file_system {
        out.line(format!("         {}", found.summary()))?;
        for objection in found.objections() {
            out.line(format!("         read-only: {}; {}", objection.reason, objection.remedy))?;
        }
    }
    if let Some(damage) = &p.damage {
        out.line(format!("         damaged: {damage}"))?;
    }
    Ok(())
}
