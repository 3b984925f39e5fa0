//! The map of an old file system.

use super::picture::{self, Paint, percent};
use super::{Args, damaged};
use crate::error::{Context, Failure, Result};
use crate::output::Output;
use crate::text::{counted, encoded};
use serde::Serialize;
use spindle::inspect::OpenedOld;
use spindle_ffs::inspect::Use as Shown;
use spindle_report::number;
use spindle_v7::inspect::{Inspector, Pointer, Survey, Use};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    block_bytes: u32,
    blocks: u32,
    first_data_block: u32,
    /// Blocks by use.
    uses: Vec<(Shown, u64)>,
    files: u64,
    files_of_several_blocks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout_score: Option<f64>,
    /// A letter for each block.
    map: String,
    shared_blocks: u64,
    bad_pointers: u64,
    unread_blocks: u64,
    free_list_damage: &'a Option<String>,
}

#[derive(Serialize)]
struct FileReport<'a> {
    image: &'a str,
    path: String,
    inode: u16,
    size: u64,
    runs: Vec<RunReport>,
}

#[derive(Clone, Copy, Serialize)]
struct RunReport {
    /// The first block of the file that it has, or leads to.
    lbn: u64,
    /// 0 for data, 1 to 3 for an indirect block.
    level: usize,
    block: u32,
    blocks: u64,
}

/// Returns what stands for a use in the pictures of all file systems.
const fn shown(used: Use) -> Shown {
    match used {
        Use::Metadata => Shown::Metadata,
        Use::Inodes => Shown::Inodes,
        Use::Directory => Shown::Directory,
        Use::Indirect => Shown::Indirect,
        Use::Data => Shown::Data,
        Use::Free => Shown::Free,
        Use::Unknown => Shown::Unknown,
    }
}

/// Shows the map, or where a file lies.
pub fn show(args: &Args, opened: &OpenedOld) -> Result<ExitCode> {
    if args.svg.is_some() || args.groups {
        return Err(Failure::usage("-g and --svg are for UFS, which has cylinder groups"));
    }
    let inspector = Inspector::new(&*opened.device, &opened.detected).context(&args.image)?;
    if let Some(path) = &args.path {
        return show_file(args, &inspector, path);
    }
    let survey = inspector.survey();
    let mut out = Output::stdout();
    if args.json {
        let layout = inspector.layout();
        out.json(&Report {
            image: &args.image,
            block_bytes: layout.format.bsize,
            blocks: layout.s_fsize,
            first_data_block: layout.s_isize,
            uses: survey.counts().into_iter().map(|(used, count)| (shown(used), count)).collect(),
            files: survey.files.0,
            files_of_several_blocks: survey.files.1,
            layout_score: survey.layout_score(),
            map: survey.uses.iter().map(|used| shown(*used).letter()).collect(),
            shared_blocks: survey.shared_blocks,
            bad_pointers: survey.bad_pointers,
            unread_blocks: survey.unread_blocks,
            free_list_damage: &survey.free_list,
        })?;
    } else {
        print(&mut out, &inspector, &survey)?;
    }
    out.finish()?;
    let mut found = Vec::new();
    found.extend(survey.free_list.as_ref().map(|why| format!("the free list ({why})")));
    let counts = [
        (survey.shared_blocks, "blocks of several owners"),
        (survey.bad_pointers, "pointers that lead nowhere"),
        (survey.unread_blocks, "unreadable blocks"),
    ];
    found
        .extend(counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")));
    damaged(args, &found)
}

fn print(out: &mut Output, inspector: &Inspector<'_>, survey: &Survey) -> Result<()> {
    let layout = inspector.layout();
    let paint = Paint::new();
    let (rows, columns) = picture::size();
    let all = survey.uses.len();
    let each = all.div_ceil((rows * columns) as usize).max(1);
    let cells: Vec<_> = survey.uses.chunks(each).map(most).collect();
    for (n, row) in cells.chunks(columns as usize).enumerate() {
        let first = n * columns as usize * each;
        out.bytes(format!("{first:>6} {}\n", paint.cells(row).trim_end()).as_bytes())?;
    }
    out.line("")?;
    for (used, count) in survey.counts().into_iter().filter(|(_, count)| *count > 0) {
        let (cell, name) = (paint.cells(&[Some(shown(used))]), shown(used).name());
        let (bytes, part) =
            (number::bytes(count * u64::from(layout.format.bsize)), percent(count, all as u64));
        out.bytes(format!("     {cell} {name:<20} {bytes:>10} {part:>5.1}%\n").as_bytes())?;
    }
    out.line("")?;
    let (files, several) = survey.files;
    out.line(format!("{}, {several} of several blocks", counted(files, "file")))?;
    if let Some(score) = survey.layout_score() {
        out.line(format!("layout score {score:.3}"))?;
    }
    Ok(())
}

/// Returns the use of most blocks of a cell.
fn most(uses: &[Use]) -> Option<Shown> {
    let count = |wanted: Use| uses.iter().filter(|used| **used == wanted).count();
    Use::ALL.into_iter().rev().max_by_key(|used| count(*used)).map(shown)
}

fn show_file(args: &Args, inspector: &Inspector<'_>, path: &OsStr) -> Result<ExitCode> {
    let bytes = path.as_bytes();
    let found = inspector.lookup(bytes).and_then(|ino| Ok((inspector.inode(ino)?, inspector.blocks(ino)?)));
    let (inode, pointers) = found.named(bytes).context(&args.image)?;
    let runs = runs(&pointers);
    let mut out = Output::stdout();
    if args.json {
        let (path, size) = (encoded(bytes), inode.di_size);
        out.json(&FileReport { image: &args.image, path, inode: inode.ino, size, runs })?;
    } else {
        let size = counted(inode.di_size, "byte");
        let count = counted(pointers.len() as u64, "block");
        out.line(format!("inode {}, {size}: {count} in {}", inode.ino, counted(runs.len() as u64, "run")))?;
        print_runs(&mut out, &runs)?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the blocks of a file, as runs.
pub fn print_pointers(out: &mut Output, pointers: &[Pointer]) -> Result<()> {
    print_runs(out, &runs(pointers))
}

fn print_runs(out: &mut Output, runs: &[RunReport]) -> Result<()> {
    if !runs.is_empty() {
        out.line("block of file           block     blocks")?;
    }
    for RunReport { lbn, level, block, blocks } in runs {
        let place = match (level, blocks) {
            (0, 1) => lbn.to_string(),
            (0, blocks) => format!("{lbn}-{}", lbn + blocks - 1),
            (level, _) => format!("indirect {level} for {lbn}"),
        };
        out.line(format!("{place:<18} {block:>10} {blocks:>10}"))?;
    }
    Ok(())
}

/// Returns pointers that follow each other as runs.
fn runs(pointers: &[Pointer]) -> Vec<RunReport> {
    let mut runs: Vec<RunReport> = Vec::new();
    for &Pointer { lbn, level, block } in pointers {
        match runs.last_mut() {
            Some(run)
                if (run.level, level) == (0, 0)
                    && run.lbn + run.blocks == lbn
                    && u64::from(run.block) + run.blocks == u64::from(block) =>
            {
                run.blocks += 1;
            }
            _ => runs.push(RunReport { lbn, level, block, blocks: 1 }),
        }
    }
    runs
}
