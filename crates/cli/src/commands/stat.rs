//! `spindle stat`

use crate::describe::Description;
use crate::error::Result;
use crate::image::{self, ReadArgs};
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::flags;
use spindle::path::resolve;
use spindle::set::CLASS_ATTRIBUTE;
use std::ffi::OsString;
use std::process::ExitCode;

/// Show all attributes of files in an image
///
/// Times are in UTC with nanoseconds. Extended attributes are listed with the length of their
/// values.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle stat disk.img:/etc/passwd
    spindle stat --json disk.img:/bin/sh disk.img:/bin/ls | jq '.[].mode'")]
pub struct Args {
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'L')]
    follow: bool,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
    /// The files; an image alone means its root
    #[arg(value_name = "IMAGE[:/PATH]", required = true)]
    targets: Vec<OsString>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    file: Description,
    xattrs: Vec<Attribute>,
    /// The class of data, in a multi-structured file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
}

#[derive(Serialize)]
struct Attribute {
    name: String,
    bytes: usize,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut out = Output::stdout();
    let mut found = Vec::new();
    let code = image::read_each(&args.targets, args.read, |vfs, target, _| {
        let fs = vfs.fs();
        let node = resolve(vfs, &target.path, args.follow)?;
        let mut xattrs = Vec::new();
        if fs.limits().xattrs {
            for name in fs.listxattr(node.ino())? {
                let bytes = fs.getxattr(node.ino(), &name)?.len();
                xattrs.push(Attribute { name: text::encoded(&name), bytes });
            }
        }
        // Elsewhere it is an attribute as others, which are listed.
        let listed = xattrs.iter().any(|attribute| attribute.name.as_bytes() == CLASS_ATTRIBUTE);
        let class = fs.getxattr(node.ino(), CLASS_ATTRIBUTE).ok().filter(|_| !listed);
        let class = class.map(|name| text::encoded(&name));
        found.push(Report { file: Description::of(&**fs, &target.path, node.attr())?, xattrs, class });
        Ok(())
    })?;
    if args.json {
        out.json(&found)?;
    } else {
        for report in &found {
            show(&mut out, report)?;
        }
    }
    out.finish()?;
    Ok(code)
}

fn show(out: &mut Output, report: &Report) -> Result<()> {
    let Report { file, xattrs, class } = report;
    let arrow = file.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
    out.line(format!("{}{arrow}", file.path))?;
    let device = file.rdev.map(|(major, minor)| format!(" {major}, {minor}")).unwrap_or_default();
    out.line(format!("   kind: {}{device}", file.kind))?;
    out.line(format!("   size: {} ({} blocks of 512 bytes)", file.size, file.blocks512))?;
    out.line(format!("  inode: {} generation {} names {}", file.ino, file.generation, file.nlink))?;
    let flags = flags::names(file.flags);
    out.line(format!(" access: {} uid {} gid {} flags {flags}", file.mode, file.uid, file.gid))?;
    out.line(format!("   read: {}", file.atime))?;
    out.line(format!("changed: {}", file.mtime))?;
    out.line(format!(" status: {}", file.ctime))?;
    out.line(format!("   born: {}", file.birthtime.as_deref().unwrap_or("not recorded")))?;
    if let Some(class) = class {
        out.line(format!("  class: {class}"))?;
    }
    for Attribute { name, bytes } in xattrs {
        out.line(format!("  xattr: {name} ({bytes} bytes)"))?;
    }
    Ok(())
}
