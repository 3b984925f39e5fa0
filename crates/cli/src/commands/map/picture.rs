//! The map of a file system on a terminal.

use super::{Args, GROUPS_LISTED, amount};
use crate::error::Result;
use crate::output::Output;
use crate::text::counted;
use spindle_ffs::Layout;
use spindle_ffs::inspect::{GroupUse, Survey, Use};
use std::io::IsTerminal;

/// Rows of the map at the most.
const ROWS: u32 = 24;
/// Columns of a terminal that does not say.
const COLUMNS: u16 = 80;
/// Letters in front of a row of the map.
const MARGIN: u16 = 7;
/// Cells of a bar.
const BAR: u64 = 20;

/// Returns the greatest number of rows and columns of the map.
pub fn size() -> (u32, u32) {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    let columns: u16 = columns.or_else(terminal).filter(|&columns| columns > 0).unwrap_or(COLUMNS);
    (ROWS, u32::from(columns.clamp(MARGIN + 16, 1000) - MARGIN - 1))
}

/// The colours of the map, or none.
pub(super) struct Paint(bool);

impl Paint {
    pub(super) fn new() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && std::io::stdout().is_terminal())
    }

    /// Returns cells as text: each run of one use in its colour.
    pub(super) fn cells(&self, cells: &[Option<Use>]) -> String {
        let mut text = String::new();
        for run in cells.chunk_by(|a, b| a == b) {
            let letters: String = run.iter().map(|cell| cell.map_or(' ', Use::letter)).collect();
            match run[0].filter(|_| self.0) {
                Some(used) => text.extend(["\x1b[", colour(used), "m", &letters, "\x1b[0m"]),
                None => text += &letters,
            }
        }
        text
    }
}

/// Returns the colour of a use on a terminal.
const fn colour(used: Use) -> &'static str {
    match used {
        Use::Metadata => "35",
        Use::Inodes => "36",
        Use::Directory => "33",
        Use::Indirect => "31",
        Use::Data => "34",
        Use::Fragment => "94",
        Use::Log => "32",
        Use::Free => "2",
        Use::Unknown => "91",
    }
}

/// Prints everything about a file system.
pub fn show(out: &mut Output, args: &Args, layout: &Layout, survey: &Survey) -> Result<()> {
    let paint = Paint::new();
    if args.svg.is_none() {
        show_map(out, &paint, survey)?;
    }
    show_legend(out, &paint, layout, survey)?;
    show_groups(out, args, layout, survey)?;
    show_free(out, layout, survey)?;
    show_files(out, layout, survey)
}

fn show_map(out: &mut Output, paint: &Paint, survey: &Survey) -> Result<()> {
    for row in survey.grid.rows() {
        let margin = if row.begins_group { row.group.to_string() } else { String::new() };
        let cells = paint.cells(&row.cells);
        out.bytes(format!("{margin:>6} {}\n", cells.trim_end()).as_bytes())?;
    }
    out.line("")
}

fn show_legend(out: &mut Output, paint: &Paint, layout: &Layout, survey: &Survey) -> Result<()> {
    for (used, frags) in Use::ALL.into_iter().zip(survey.uses).filter(|(_, frags)| *frags > 0) {
        let cell = paint.cells(&[Some(used)]);
        let percent = percent(frags, layout.fs_size);
        out.bytes(
            format!("     {cell} {:<20} {:>10} {percent:>5.1}%\n", used.name(), amount(layout, frags))
                .as_bytes(),
        )?;
    }
    Ok(())
}

/// Returns a part of a whole in percent.
#[allow(clippy::cast_precision_loss)] // For people.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Returns a bar that is filled as far as `part` fills `whole`.
fn bar(part: u64, whole: u64) -> String {
    let cells = usize::try_from((part * BAR).div_ceil(whole.max(1)).min(BAR)).unwrap_or(0);
    let width = usize::try_from(BAR).unwrap_or(0);
    format!("{:<width$}", "=".repeat(cells))
}

fn show_groups(out: &mut Output, args: &Args, layout: &Layout, survey: &Survey) -> Result<()> {
    out.line("")?;
    out.line("group  full                        free blocks  frags  inodes used   dirs")?;
    let listed = if args.groups { survey.groups.len() } else { GROUPS_LISTED };
    for group in survey.groups.iter().take(listed) {
        out.line(group_line(layout, group))?;
    }
    if let Some(more @ 1..) = survey.groups.len().checked_sub(listed) {
        out.line(format!("{}; -g lists them", counted(more as u64, "more group")))?;
    }
    Ok(())
}

fn group_line(layout: &Layout, group: &GroupUse) -> String {
    let number = group.group;
    if group.unreadable {
        return format!("{number:>5}  cannot be read");
    }
    let used = group.used_frags(layout);
    format!(
        "{number:>5} [{}] {:>5.1}% {:>11} {:>6} {:>12} {:>6}",
        bar(used, group.data_frags),
        percent(used, group.data_frags),
        group.free_blocks,
        group.free_frags,
        group.used_inodes,
        group.directories
    )
}

fn show_free(out: &mut Output, layout: &Layout, survey: &Survey) -> Result<()> {
    out.line("")?;
    let total: u64 = survey.free_runs.iter().map(|length| length.blocks).sum();
    if total == 0 {
        out.line("no free blocks")?;
    } else {
        out.line("free runs of blocks   runs     blocks  share of the free blocks")?;
    }
    for length in &survey.free_runs {
        let from = length.from_blocks;
        let range = if from == 1 { "1".into() } else { format!("{from}-{}", 2 * from - 1) };
        out.line(format!(
            "{range:>19} {:>6} {:>10}  [{}] {:>5.1}%",
            length.runs,
            length.blocks,
            bar(length.blocks, total),
            percent(length.blocks, total)
        ))?;
    }
    if total > 0 {
        let longest = survey.longest_free_run;
        let bytes = amount(layout, longest * u64::from(layout.fs_frag));
        out.line(format!("the longest has {} ({bytes})", counted(longest, "block")))?;
    }
    let loose: Vec<String> = (1..)
        .zip(&survey.loose_runs)
        .filter(|(_, runs)| **runs > 0)
        .map(|(frags, runs): (u32, _)| format!("{runs} of {frags}"))
        .collect();
    if !loose.is_empty() {
        out.line(format!("free runs of fragments outside free blocks: {}", loose.join(", ")))?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)] // For people.
fn show_files(out: &mut Output, layout: &Layout, survey: &Survey) -> Result<()> {
    let files = survey.fragmentation;
    out.line("")?;
    if files.files == 0 {
        return out.line("no files with data");
    }
    let megabytes = (files.frags << layout.fs_fshift) as f64 / 1_048_576.0;
    out.line(format!(
        "{} with data, {} in one run ({:.1}%)",
        counted(files.files, "file"),
        files.files_in_one_run,
        percent(files.files_in_one_run, files.files)
    ))?;
    out.line(format!(
        "{}: {:.2} a file, {:.2} a MiB",
        counted(files.runs, "run"),
        files.runs as f64 / files.files as f64,
        files.runs as f64 / megabytes
    ))?;
    let score = files.layout_score().map_or_else(
        || "none: no file has more than one block".into(),
        |score| format!("{score:.3} ({} of more than one block)", counted(files.scored_files, "file")),
    );
    out.line(format!("layout score {score}"))
}
