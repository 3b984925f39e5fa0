//! `spindle newfs -t mfs`: the multi-structured file system.

mod data_class;

use self::data_class::DataClass;
use super::Args;
use crate::error::{Failure, Result};
use crate::interruptible::Interruptible;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::Spec;
use spindle::set::{NewArea, NewMember, Parameters, Role, Settings, Structure, Wishes, newfs, parse_members};
use spindle_report::number;
use std::process::ExitCode;
use std::sync::Arc;

/// The storage and the sizes of a set.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Multi-structured file system (-t mfs)")]
pub struct SetArgs {
    /// Copies of control storage: 1 to 8 files, block devices or partitions
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', requires_all = ["data", "log"])]
    control: Vec<String>,
    /// Data storage, striped: 1 to 32; D0+E0 makes E0 a copy of D0
    #[arg(long, value_name = "D0,D1,…", value_delimiter = ',', requires = "control")]
    data: Vec<String>,
    /// A further class of data, with its own storage and structure; files get the class of their
    /// directory. Options: block=BYTES, stripe=BYTES, track=BLOCKS
    #[arg(long, value_name = "NAME=D0,D1,…[:OPTIONS]", requires = "control", value_parser = data_class::parse)]
    data_class: Vec<DataClass>,
    /// Striping factor: bytes of a file that go to one member before the next one's turn
    #[arg(long, value_name = "BYTES", value_parser = text::parse_small)]
    stripe: Option<u32>,
    /// Blocks of data storage in a striped track, which is allocated as a whole to large requests
    #[arg(long, value_name = "BLOCKS")]
    track: Option<u32>,
    /// Keep a CRC-32C of each data block in control storage, and verify what is read
    #[arg(long)]
    checksums: bool,
    /// Block size of control storage, for the nodes of name maps
    #[arg(long, value_name = "BYTES", value_parser = text::parse_small)]
    control_block: Option<u32>,
    /// Cylinder of control storage: its unit of allocation to headers or to names
    #[arg(long, value_name = "BYTES", value_parser = text::parse_small)]
    cylinder: Option<u32>,
}

impl SetArgs {
    /// Returns true if an option is given that only a set has.
    pub fn is_given(&self) -> bool {
        !self.control.is_empty()
            || self.checksums
            || !self.data_class.is_empty()
            || [self.stripe, self.track, self.control_block, self.cylinder].iter().any(Option::is_some)
    }
}

/// The most members that a role can have.
const MOST: [(Role, usize); 3] = [(Role::Control, 8), (Role::Data, 32), (Role::Log, 8)];

/// The new set, as JSON.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    set_id: String,
    members: Vec<MemberReport>,
    control_bytes: u64,
    headers: u64,
    data_bytes: u64,
    classes: Vec<ClassReport>,
    log_bytes: u64,
    block_bytes: u32,
    cylinder_bytes: u32,
    checksums: bool,
    written: bool,
}

#[derive(Serialize)]
struct ClassReport {
    name: String,
    bytes: u64,
    block_bytes: u32,
    track_blocks: u32,
    stripe_bytes: u32,
}

#[derive(Serialize)]
struct MemberReport {
    path: String,
    areas: Vec<AreaReport>,
}

#[derive(Serialize)]
struct AreaReport {
    role: String,
    index: u32,
    /// Of data storage: the name of its class.
    class: Option<String>,
    copy: u32,
    bytes: u64,
}

fn members(args: &Args) -> Result<Vec<NewMember>> {
    let SetArgs { control, data, .. } = &args.set;
    if control.is_empty() {
        let Some(image) = args.image.as_ref().filter(|_| args.log.is_none()) else {
            return Err(Failure::usage("name one image, or members with --control, --data and --log"));
        };
        let areas = [Role::Control, Role::Data, Role::Log].map(NewArea::of).to_vec();
        return Ok(vec![NewMember { spec: Spec::parse(image)?, size: args.size, areas }]);
    }
    let mut members = Vec::new();
    // The option's value may also follow as a word of its own.
    let log = match (args.log.as_deref(), args.image.as_deref()) {
        (Some(""), Some(image)) => image,
        (Some(log), None) if !log.is_empty() => log,
        _ => return Err(Failure::usage("name log storage with --log, and no image beside the members")),
    };
    let log: Vec<_> = log.split(',').map(str::to_owned).collect();
    for ((role, most), words) in MOST.into_iter().zip([control, data, &log]) {
        if words.len() > most {
            return Err(Failure::usage(format!("a set has at most {most} of {role} storage")));
        }
        parse_members(&mut members, (role, 0), words, |size| text::parse_bytes(size).ok())?;
    }
    for (n, class) in (1..).zip(&args.set.data_class) {
        parse_members(&mut members, (Role::Data, n), &class.members, |size| text::parse_bytes(size).ok())?;
    }
    for member in &mut members {
        member.size = member.size.or(args.size);
    }
    Ok(members)
}

fn wishes(args: &Args) -> Wishes {
    let usual = Wishes::new();
    let SetArgs { stripe, track, checksums, control_block, cylinder, .. } = &args.set;
    let block_bytes = control_block.unwrap_or(usual.parameters.block_bytes);
    let parameters = Parameters {
        block_bytes,
        cylinder_bytes: cylinder.unwrap_or_else(|| usual.parameters.cylinder_bytes.max(8 * block_bytes)),
        data_block_bytes: args.fs.block_size().unwrap_or(usual.parameters.data_block_bytes),
        track_blocks: track.unwrap_or(usual.parameters.track_blocks),
        stripe_bytes: stripe.unwrap_or(usual.parameters.stripe_bytes),
        checksums: *checksums,
        ..usual.parameters
    };
    let classes = args.set.data_class.iter().map(|class| class.beside(parameters.structure())).collect();
    let root_owner = args.fs.owner_of_root();
    Wishes { parameters, classes, root_owner, ..usual }
}

pub fn run(args: &Args) -> Result<ExitCode> {
    if args.fs.is_for_ffs_only() {
        return Err(Failure::usage(
            "a multi-structured file system takes only the parameters -s, -b, --root-owner, \
             --data-class, --stripe, --track, --checksums, --control-block and --cylinder",
        ));
    }
    let members = members(args)?;
    let wishes = wishes(args);
    let settings = Settings { force: args.force, dry_run: args.dry_run, timestamp: args.timestamp()? };
    let set =
        newfs(&members, &wishes, settings, |device| Arc::new(Interruptible(device))).map_err(|error| {
            match &args.image {
                Some(image) if args.set.control.is_empty() => error.within(image),
                _ => error,
            }
        })?;
    let (label, layout) = (&set.label, &set.layout);
    let area = |area: &spindle::set::Area| AreaReport {
        role: area.role.to_string(),
        index: area.index,
        class: (area.role == Role::Data).then(|| layout.class(area.class.into()).name.to_string()),
        copy: area.copy,
        bytes: area.len,
    };
    let member_of = |(member, id): (&NewMember, [u8; 16])| MemberReport {
        path: member.spec.to_string(),
        areas: label.areas.iter().filter(|area| area.member_id == id).map(area).collect(),
    };
    let report = Report {
        version: "MFS",
        set_id: format!("{:032x}", u128::from_be_bytes(label.set_id)),
        members: members.iter().zip(label.members()).map(member_of).collect(),
        control_bytes: label.part_bytes(Role::Control).into_iter().sum(),
        headers: layout.cylinders * layout.headers_in_cylinder(),
        data_bytes: layout.data_bytes(),
        classes: layout.classes.iter().map(class_report).collect(),
        log_bytes: label.part_bytes(Role::Log).into_iter().sum(),
        block_bytes: label.parameters.block_bytes,
        cylinder_bytes: label.parameters.cylinder_bytes,
        checksums: label.parameters.checksums,
        written: !args.dry_run,
    };
    let mut out = Output::stdout();
    if args.json {
        out.json(&report)?;
    } else {
        show(&mut out, &report)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn class_report(class: &spindle::set::ClassLayout) -> ClassReport {
    let Structure { block_bytes, track_blocks, stripe_bytes } = class.structure;
    let (name, bytes) = (class.name.to_string(), class.blocks() * class.block_bytes());
    ClassReport { name, bytes, block_bytes, track_blocks, stripe_bytes }
}

fn show(out: &mut Output, report: &Report) -> Result<()> {
    let made = if report.written { "created" } else { "would create" };
    let count = report.members.len();
    out.line(format!(
        "{made} a multi-structured file system of {count} member{}: {} of data, {} of log",
        if count == 1 { "" } else { "s" },
        number::bytes(report.data_bytes),
        number::bytes(report.log_bytes),
    ))?;
    for MemberReport { path, areas } in &report.members {
        let copies = |area: &AreaReport| {
            report.members.iter().flat_map(|member| &member.areas).any(|other| {
                (&other.role, other.index) == (&area.role, area.index) && other.copy != area.copy
            })
        };
        let name = |area: &AreaReport| {
            let copy = if copies(area) { format!(", copy {}", area.copy) } else { String::new() };
            let class = area.class.as_ref().filter(|_| report.classes.len() > 1);
            let class = class.map_or_else(String::new, |name| format!(", class {name}"));
            format!("{} {} ({}{copy}{class})", area.role, area.index, number::bytes(area.bytes))
        };
        let areas: Vec<_> = areas.iter().map(name).collect();
        out.line(format!("  {path}: {}", areas.join(", ")))?;
    }
    let control = number::bytes(report.control_bytes);
    let room = format!("room for {} files or names in {control} of control", report.headers);
    let with = if report.checksums { " with checksums" } else { "" };
    for (n, class) in report.classes.iter().enumerate() {
        let stripe = number::bytes(class.stripe_bytes.into());
        let ClassReport { name, bytes, block_bytes, track_blocks, .. } = class;
        let structure = format!(
            "blocks of {block_bytes} bytes{with}, striped by {stripe} in tracks of {track_blocks} blocks"
        );
        out.line(match n {
            0 => format!("{structure}; {room}"),
            _ => format!("class {name}: {} in {structure}", number::bytes(*bytes)),
        })?;
    }
    Ok(())
}
