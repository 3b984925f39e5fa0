//! Where one file lies.

use super::{Args, amount};
use crate::error::{Context, Failure, Result};
use crate::output::Output;
use crate::text::counted;
use serde::Serialize;
use spindle_ffs::Layout;
use spindle_ffs::inspect::{BlockPlace, FileMap, Inspector, Run};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    path: String,
    #[serde(flatten)]
    map: &'a FileMap,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout_score: Option<f64>,
}

/// Prints where the file at `path` lies.
pub fn show(inspector: &mut Inspector<'_>, args: &Args, path: &OsStr) -> Result<ExitCode> {
    let bytes = path.as_bytes();
    let found = inspector.lookup(spindle_ffs::ROOT_INO, bytes).and_then(|ino| inspector.file_map(ino));
    let map = found.named(bytes).context(&args.image)?;
    let layout = &inspector.superblock().layout;
    let mut out = Output::stdout();
    if args.json {
        let path = crate::text::encoded(bytes);
        out.json(&Report { image: &args.image, path, map: &map, layout_score: map.data.score() })?;
    } else {
        print(&mut out, layout, &map)?;
    }
    out.finish()?;
    if map.damage.is_none() {
        return Ok(ExitCode::SUCCESS);
    }
    let failure = Failure::new("damaged: some of its pointers lead nowhere, and are left out");
    Err(failure).named(bytes).context(&args.image)
}

/// Prints the runs of a file.
pub fn print(out: &mut Output, layout: &Layout, map: &FileMap) -> Result<()> {
    let data = map.data;
    out.line(format!(
        "inode {}, {}: {} ({}) in {}, {}",
        map.ino,
        counted(map.size, "byte"),
        counted(data.blocks, "block"),
        amount(layout, data.frags),
        counted(data.runs, "run"),
        counted(map.indirect_blocks, "indirect block")
    ))?;
    if let Some(score) = data.score() {
        out.line(format!("layout score {score:.3}"))?;
    }
    if !map.runs.is_empty() {
        out.line("block of file          address      frags   group      distance")?;
    }
    for run in &map.runs {
        let distance = run.distance.map_or_else(|| "-".into(), |distance| format!("{distance:+}"));
        let Run { frag, frags, group, .. } = run;
        out.line(format!("{:<18} {frag:>11} {frags:>10} {group:>7} {distance:>13}", place(run)))?;
    }
    Ok(())
}

/// Returns what a run is of the file.
fn place(run: &Run) -> String {
    let range = |lbn: u64| match run.blocks {
        1 => lbn.to_string(),
        blocks => format!("{lbn}-{}", lbn + blocks - 1),
    };
    match run.first {
        BlockPlace::Data { lbn } => range(lbn),
        BlockPlace::Indirect { level, lbn } => format!("indirect {level} for {lbn}"),
        BlockPlace::Extattr { lbn } => format!("attributes {}", range(lbn)),
    }
}
