//! `spindle newfs` of an old file system (`-t v7` and others).

use super::Args;
use crate::error::{Context, Failure, Result};
use crate::interruptible::Interruptible;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::Spec;
use spindle::newfs::{clock, open_new, size_of};
use spindle_report::number;
use spindle_v7::Format;
use spindle_v7::newfs::{Parameters, Plan, write};
use std::process::ExitCode;

/// The new file system, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    version: &'static str,
    format: String,
    byte_order: &'static str,
    bsize: u32,
    size_bytes: u64,
    s_isize: u32,
    s_fsize: u32,
    inodes: u16,
    interleave: (u16, u16),
    written: bool,
}

pub fn run(args: &Args, image: &str, spec: &Spec, format: Format) -> Result<ExitCode> {
    if args.fs.is_for_ffs() {
        return Err(Failure::usage(
            "an old file system takes only the parameters -s, -L, --root-owner, --inodes and --gap; its type determines the others",
        ));
    }
    let timestamp = args.timestamp()?;
    let plan_for = |size_bytes: u64| {
        let name = args.fs.label().unwrap_or_default().as_bytes().to_vec();
        let (inodes, interleave) = (args.inodes, args.gap);
        let usual = Parameters::new(format, size_bytes);
        let mut root_owner = args.fs.owner_of_root();
        if args.fs.root_owner().is_none() && root_owner.0.max(root_owner.1) > u16::MAX.into() {
            log::warn!(
                "{image}: the root directory belongs to root, as user {} is too large a number",
                root_owner.0
            );
            root_owner = usual.root_owner;
        }
        Plan::new(&Parameters { inodes, interleave, name, root_owner, ..usual })
    };
    let plan = if args.dry_run {
        plan_for(args.size.map_or_else(|| size_of(spec), Ok)?).context(image)?
    } else {
        let (device, created) = open_new(spec, args.size, args.force)?;
        let has = device.info().size_bytes;
        let made = plan_for(args.size.map_or(has, |size| size.min(has)))
            .and_then(|plan| write(&plan, &Interruptible(&*device), &*clock(timestamp)).map(|()| plan));
        made.inspect_err(|_| created.undo()).context(image)?
    };
    let layout = &plan.layout;
    let report = Report {
        image,
        version: text::old_family(format.family),
        format: format.to_string(),
        byte_order: text::endian(format.endian),
        bsize: format.bsize,
        size_bytes: u64::from(layout.s_fsize) * u64::from(format.bsize),
        s_isize: layout.s_isize,
        s_fsize: layout.s_fsize,
        inodes: layout.last_ino(),
        interleave: plan.interleave,
        written: !args.dry_run,
    };
    let mut out = Output::stdout();
    if args.json {
        out.json(&report)?;
    } else {
        let made = if report.written { "created" } else { "would create" };
        let (m, n) = report.interleave;
        out.line(format!(
            "{image}: {made} {}, {}-endian, {} ({})",
            report.version,
            report.byte_order,
            number::bytes(report.size_bytes),
            report.format,
        ))?;
        out.line(format!(
            "{} blocks of {} bytes, data from block {}; {} inodes; free list {m}/{n}",
            report.s_fsize, report.bsize, report.s_isize, report.inodes,
        ))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
