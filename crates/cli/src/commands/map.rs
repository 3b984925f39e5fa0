//! `spindle map`

pub mod file;
pub mod old;
mod picture;
mod svg;

use crate::error::{Context, Failure, Result};
use crate::inspect::{InspectArgs, open_old, open_to_read};
use crate::outfile::{self, Kind, OutArgs};
use crate::output::Output;
use crate::progress::Progress;
use serde::Serialize;
use spindle_ffs::inspect::{Fragmentation, FreeRuns, Grid, GroupUse, Inspector, Survey, Use};
use spindle_report::number;
use std::path::PathBuf;
use std::process::ExitCode;

/// Rows of the picture in SVG at the most, and its columns.
const SVG_GRID: (u32, u32) = (96, 128);
/// Groups that are listed one a line, unless all are asked for.
const GROUPS_LISTED: usize = 24;

/// Show what is where in a UFS, V7 or System V file system
///
/// Shows a map of the disk, how full each cylinder group is, the runs of free blocks by length, and
/// how fragmented the files are; with a path, where that file lies: its runs in the order of the
/// file, their cylinder groups, and the distance from one to the next.
///
/// In the map a character stands for a range of fragments, and shows what most of them are used
/// for. A row begins with a cylinder group, whose number stands in front of it, or goes on with it;
/// if there are many groups, a row holds several.
///
/// V7 and System V have no cylinder groups: their map counts blocks, and shows what is free from
/// the free list. Blocks that are neither free nor in a file are shown as unknown.
///
/// Everything is counted from the inodes and the maps of the groups, not from the counts that the
/// file system keeps. Damage is left out and reported at the end.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "NOTES
    The layout score is that of Smith and Seltzer (1996): of all blocks of a file except its
    first, the share that follow the block before on the disk. That of the file system counts
    the blocks of all regular files. 1.00 is contiguous, 0.00 scattered. The fragments at the
    end of a file count as a block.
    On V7 and System V the interleave of the free list (see info) parts the blocks of files
    on purpose, so that a score near 0 is usual.
    The bars and the map have colours on a terminal, unless NO_COLOR is set.

EXIT CODES
    0  done    1  failed, or some of it could not be read    2  invalid command line

EXAMPLES
    spindle map disk.img
    spindle map disk.img /usr/lib/libc.a
    spindle map --svg disk.svg disk.img@s1a
    spindle map --json disk.img | jq '.fragmentation.layout_score'")]
pub struct Args {
    /// List all cylinder groups, however many there are
    #[arg(short = 'g', long)]
    groups: bool,
    /// Draw the map as an SVG picture, in place of the one in text
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    read: InspectArgs,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
    /// A file in it: its path
    #[arg(value_name = "PATH")]
    path: Option<std::ffi::OsString>,
}

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    block_bytes: u32,
    fragment_bytes: u32,
    fragments: u64,
    /// Fragments by use.
    uses: Vec<(Use, u64)>,
    groups: &'a [GroupUse],
    free_runs: &'a [FreeRuns],
    longest_free_run_blocks: u64,
    /// Runs of 1, 2, … free fragments outside free blocks.
    loose_fragment_runs: &'a [u64],
    fragmentation: FragmentationReport,
    map: Vec<MapRow>,
    damage: DamageReport,
}

#[derive(Serialize)]
struct FragmentationReport {
    #[serde(flatten)]
    counted: Fragmentation,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout_score: Option<f64>,
}

#[derive(Serialize)]
struct MapRow {
    group: u32,
    first_fragment: u64,
    fragments: u64,
    cells: String,
}

#[derive(Serialize)]
struct DamageReport {
    shared_fragments: u64,
    bad_pointers: u64,
    unreadable_inode_blocks: u64,
    unreadable_groups: usize,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.path.is_some() && args.svg.is_some() {
        return Err(Failure::usage("--svg draws the map of the whole file system; leave out the path"));
    }
    if let Some(svg) = &args.svg {
        outfile::check(svg, Kind::Picture, args.out.force)?;
    }
    if let Some(opened) = open_old(&args.image, args.read)? {
        return old::show(args, &opened);
    }
    let opened = open_to_read(&args.image, args.read)?;
    let mut inspector = Inspector::new(&*opened.device, &opened.superblock);
    if let Some(path) = &args.path {
        return file::show(&mut inspector, args, path);
    }
    let (rows, columns) = if args.svg.is_some() { SVG_GRID } else { picture::size() };
    let grid = Grid::new(&opened.superblock.layout, rows, columns);
    let progress = Progress::of_fraction("map");
    let survey = inspector.survey(grid, &mut |done, groups| {
        progress.set(u64::from(done) * 1000 / u64::from(groups.max(1)), "inodes");
    });
    drop(progress);
    if let Some(path) = &args.svg {
        let drawn = svg::draw(&args.image, &opened.superblock.layout, &survey)?;
        outfile::write(path, Kind::Picture, drawn, args.out.force)?;
        if outfile::is_stdout(path) {
            return damage(args, &survey);
        }
    }
    let mut out = Output::stdout();
    let layout = &opened.superblock.layout;
    if args.json {
        out.json(&report(args, layout, &survey))?;
    } else {
        picture::show(&mut out, args, layout, &survey)?;
    }
    out.finish()?;
    damage(args, &survey)
}

fn unreadable_groups(survey: &Survey) -> usize {
    survey.groups.iter().filter(|group| group.unreadable).count()
}

/// Fails if something could not be read or followed.
fn damage(args: &Args, survey: &Survey) -> Result<ExitCode> {
    let groups = unreadable_groups(survey);
    let counts = [
        (survey.shared_frags, "fragments of several files"),
        (survey.bad_pointers, "pointers that lead nowhere"),
        (survey.unread_inode_blocks, "unreadable blocks of inodes"),
        (groups as u64, "unreadable cylinder groups"),
    ];
    let found: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    damaged(args, &found)
}

/// Fails if something was found that is damaged.
fn damaged(args: &Args, found: &[String]) -> Result<ExitCode> {
    if found.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::new(format!("damaged: {}; see spindle fsck -n", found.join(", ")))).context(&args.image)
}

fn report<'a>(args: &'a Args, layout: &spindle_ffs::Layout, survey: &'a Survey) -> Report<'a> {
    let cells = |cells: &[Option<Use>]| cells.iter().flatten().map(|used| used.letter()).collect();
    Report {
        image: &args.image,
        block_bytes: layout.fs_bsize,
        fragment_bytes: layout.fs_fsize,
        fragments: layout.fs_size,
        uses: Use::ALL.into_iter().zip(survey.uses).collect(),
        groups: &survey.groups,
        free_runs: &survey.free_runs,
        longest_free_run_blocks: survey.longest_free_run,
        loose_fragment_runs: &survey.loose_runs,
        fragmentation: FragmentationReport {
            counted: survey.fragmentation,
            layout_score: survey.fragmentation.layout_score(),
        },
        map: survey
            .grid
            .rows()
            .iter()
            .map(|row| MapRow {
                group: row.group,
                first_fragment: row.start,
                fragments: row.frags,
                cells: cells(&row.cells),
            })
            .collect(),
        damage: DamageReport {
            shared_fragments: survey.shared_frags,
            bad_pointers: survey.bad_pointers,
            unreadable_inode_blocks: survey.unread_inode_blocks,
            unreadable_groups: unreadable_groups(survey),
        },
    }
}

/// Returns fragments as bytes, for people.
fn amount(layout: &spindle_ffs::Layout, frags: u64) -> String {
    number::bytes(frags << layout.fs_fshift)
}
