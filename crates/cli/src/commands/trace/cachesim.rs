//! `spindle trace cachesim`

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, OutArgs};
use crate::output::Output;
use crate::progress::Progress;
use crate::text::parse_bytes;
use spindle_cachesim::replacement::PolicyName;
use spindle_cachesim::{CacheGrid, Cell, Extras, Simulated, Write, paper, simulate, table};
use spindle_report::outcome::Evidence;
use spindle_report::{Outcome, render};
use spindle_trace::Source;
use spindle_trace::format::Columns;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What the help says after the options, below the policies.
const MORE: &str = "EXIT CODES
    0  done    1  the trace cannot be read, or the results not written    2  invalid command line

EXAMPLES
    spindle trace cachesim build.trace
    spindle trace cachesim --size 64m,1g --write delayed,flush:30s build.trace
    spindle trace cachesim --size all --policy lru -o curve/ build.trace
    spindle trace cachesim --policy lru,arc,s3-fifo --csv build.trace > out.csv
    spindle trace cachesim --paper a5.trace";

/// Returns the end of the help.
fn help() -> String {
    let policy = |name: &PolicyName| format!("    {:<12}{}\n", name.as_str(), name.summary());
    format!("POLICIES\n{}\n{MORE}", PolicyName::ALL.iter().map(policy).collect::<String>())
}

/// Simulate caches of several sizes and policies over a trace
///
/// The cache is that of the 1985 study: all blocks have one size; a missing block is read unless it
/// is overwritten completely; modified blocks are written back according to --write, and data that
/// is deleted before is never written. The miss ratio is the number of disk reads and writes
/// divided by the number of block accesses. Every combination of --size, --block, --policy and
/// --write is simulated in one pass over the trace. With --size all, the many sizes of LRU cost no
/// more than one, but the times that blocks are dirty are not measured.
#[derive(clap::Args, Debug)]
#[command(after_long_help = help())]
pub struct Args {
    /// Sizes of the cache, or "all": LRU at eight sizes for each doubling (default: the powers
    /// of two up to the size of the data that the trace touches)
    #[arg(long, value_name = "SIZE|all", value_delimiter = ',', value_parser = parse_size)]
    size: Vec<Size>,
    /// Sizes of a block
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4k", value_parser = parse_block)]
    block: Vec<u32>,
    /// Replacement policies
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "lru,s3-fifo")]
    policy: Vec<PolicyName>,
    /// When modified blocks are written: "through" (at once), "flush:30s" (at intervals; also
    /// m, h), "delayed" (when they are evicted)
    #[arg(long, value_name = "WHEN", value_delimiter = ',', default_value = "delayed", value_parser = parse_write)]
    write: Vec<Write>,
    /// Count program loads as reads of the whole file
    #[arg(long)]
    exec: bool,
    /// Count files mapped into memory as read, or written, in the whole range that was mapped: an
    /// upper bound, as a trace does not say what of it was touched
    #[arg(long)]
    mapped: bool,
    /// Simulate the caches of the 1985 study, for its Tables VI and VII and figures 5 to 7,
    /// with the numbers of the study beside them ("alone": without)
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "beside", conflicts_with_all = ["size", "block", "policy", "write", "exec", "mapped"])]
    paper: Option<Paper>,
    /// Print tables and figures as JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the counts of every cache as CSV
    #[arg(long)]
    csv: bool,
    /// Also write cachesim.txt, .json, .csv and an SVG file for each figure into this directory
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    out: OutArgs,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Paper {
    /// Show the paper's numbers beside ours
    Beside,
    /// Show only our numbers
    Alone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    All,
    Bytes(u64),
}

fn parse_size(text: &str) -> Result<Size, String> {
    if text == "all" { Ok(Size::All) } else { parse_bytes(text).map(Size::Bytes) }
}

fn parse_block(text: &str) -> Result<u32, String> {
    let block = crate::text::parse_small(text)?;
    if (512..=1 << 30).contains(&block) { Ok(block) } else { Err("give from 512 bytes to 1g".into()) }
}

fn parse_write(text: &str) -> Result<Write, String> {
    let wrong =
        || "give \"through\", \"delayed\", or \"flush:\" with a time such as 30s, 5m or 1h".to_owned();
    match text {
        "through" => return Ok(Write::Through),
        "delayed" => return Ok(Write::Delayed),
        _ => {}
    }
    let time = text.strip_prefix("flush:").ok_or_else(wrong)?;
    let (digits, unit) = [("s", 1), ("m", 60), ("h", 3600)]
        .into_iter()
        .find_map(|(suffix, seconds)| Some((time.strip_suffix(suffix)?, seconds)))
        .ok_or_else(wrong)?;
    let seconds = digits.parse::<u32>().map_err(|_| wrong())?;
    // At most 2^32 seconds (136 years).
    let seconds = u64::from(seconds) * unit;
    if seconds == 0 || seconds > 1 << 32 {
        Err(wrong())
    } else {
        Ok(Write::Flush(Duration::from_secs(seconds)))
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).context(dir.display())?;
    }
    let source = || super::open(&args.trace, Columns::NUMBERS);
    let (simulated, outcome) = if let Some(paper) = args.paper {
        let simulated = pass(source()?, &paper::grids(), "simulating")?;
        let outcome = paper::outcome(&simulated, (paper == Paper::Beside).then_some(Evidence::Predicted));
        (simulated, outcome)
    } else {
        let (lanes, rows) = lanes(args)?;
        let simulated = pass(source()?, &lanes, "simulating")?;
        let outcome = table::outcome(&simulated, &rows);
        (simulated, outcome)
    };
    let text = render::text(&outcome);
    if let Some(dir) = &args.output {
        write(dir, &outcome, &simulated, text.trim_start(), args.out.force)?;
    }
    let mut out = Output::stdout();
    if args.json {
        out.json(&outcome)?;
    } else if args.csv {
        out.bytes(csv(&simulated).as_bytes())?;
    } else {
        out.text(text.trim_start())?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// Simulates `lanes` in one pass over the trace.
fn pass(mut source: Box<dyn Source>, lanes: &[CacheGrid], what: &'static str) -> Result<Simulated> {
    let bar = Progress::of_fraction(what);
    Ok(simulate(&mut *source, lanes, &|done| bar.set_fraction(done))?)
}

/// Returns the caches to simulate, and the sizes that get a row of the table.
fn lanes(args: &Args) -> Result<(Vec<CacheGrid>, Vec<u64>)> {
    let lane = |block: u32, sizes: &[u64], policies: &[PolicyName], ages| CacheGrid {
        block,
        extras: Extras { programs: args.exec, mapped: args.mapped },
        sizes: sizes.to_vec(),
        policies: policies.to_vec(),
        writes: args.write.clone(),
        ages,
    };
    let given: Vec<u64> =
        args.size.iter().filter_map(|size| if let Size::Bytes(n) = size { Some(*n) } else { None }).collect();
    if !given.is_empty() && given.len() == args.size.len() {
        return Ok((
            args.block.iter().map(|&block| lane(block, &given, &args.policy, true)).collect(),
            given,
        ));
    }
    let all = args.size.contains(&Size::All);
    let looks: Vec<CacheGrid> = args.block.iter().map(|&block| lane(block, &[], &[], false)).collect();
    // The pass that follows has the warnings.
    let source = spindle_trace::open(&args.trace, Columns::NUMBERS)?;
    let looked = pass(source, &looks, "looking")?;
    let bytes = looked.results.iter().zip(&args.block).map(|(lot, &block)| lot.footprint * u64::from(block));
    let least = args.block.iter().copied().max().map_or(4096, u64::from);
    let most = bytes.max().unwrap_or(0).max(least).next_power_of_two();
    let doublings =
        std::iter::successors(Some(most), |size| Some(size / 2)).take_while(|&size| size >= least);
    let mut rows: Vec<u64> = doublings.take(if all { usize::MAX } else { 9 }).chain(given).collect();
    rows.sort_unstable();
    rows.dedup();
    if !all {
        let lanes = args.block.iter().map(|&block| lane(block, &rows, &args.policy, true)).collect();
        return Ok((lanes, rows));
    }
    let mut curve: Vec<u64> = rows
        .iter()
        .flat_map(|&row| (8..16).map(move |eighths| row * eighths / 8))
        .chain(rows.clone())
        .collect();
    curve.retain(|&size| (least..=most).contains(&size));
    curve.sort_unstable();
    curve.dedup();
    let (lru, others): (Vec<_>, Vec<_>) = args.policy.iter().partition(|&&name| name == PolicyName::Lru);
    let mut lanes = Vec::new();
    for &block in &args.block {
        lanes.push(lane(block, &curve, &lru, false));
        lanes.push(lane(block, &rows, &others, true));
    }
    lanes.retain(|lane| !lane.policies.is_empty());
    Ok((lanes, rows))
}

/// Returns the counts as CSV, a line for each cache.
fn csv(simulated: &Simulated) -> String {
    let mut out = String::from(
        "block,cache,policy,write,reads,writes,disk_reads,disk_writes,deleted_dirty,left_dirty,miss_ratio\n",
    );
    for Cell { block, size, policy, write, counts, .. } in simulated.results.iter().flat_map(|lot| &lot.cells)
    {
        let counted =
            [counts.reads, counts.writes, counts.disk_reads, counts.disk_writes, counts.dropped, counts.left];
        let counted = counted.map(|count| count.to_string()).join(",");
        let _ = writeln!(out, "{block},{size},{policy},{write},{counted},{:.6}", counts.miss_ratio());
    }
    out
}

fn write(dir: &Path, outcome: &Outcome, simulated: &Simulated, text: &str, force: bool) -> Result<()> {
    let put = |name: String, content: &str| outfile::write(&dir.join(name), Kind::Result, content, force);
    put("cachesim.txt".into(), text)?;
    let json = serde_json::to_string_pretty(outcome).map_err(|e| Failure::new(e.to_string()))?;
    put("cachesim.json".into(), &(json + "\n"))?;
    put("cachesim.csv".into(), &csv(simulated))?;
    for (n, figure) in outcome.figures.iter().enumerate() {
        let number = if outcome.figures.len() > 1 { format!("-{}", n + 1) } else { String::new() };
        put(format!("cachesim{number}.svg"), &render::svg(figure)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the values of `--write` are the names in the tables, and invalid text is
    /// refused with a list of the valid forms.
    #[test]
    fn values_of_write_are_the_names_in_tables() {
        for text in ["through", "delayed", "flush:30s", "flush:5m", "flush:2h", "flush:90s"] {
            assert_eq!(parse_write(text).unwrap().to_string(), text);
        }
        assert_eq!(parse_write("flush:60s"), parse_write("flush:1m"));
        for wrong in ["", "flush", "flush:", "flush:30", "flush:0s", "flush:-1s", "flush:9999999h", "back"] {
            assert!(parse_write(wrong).unwrap_err().contains("flush:"), "{wrong}");
        }
    }
}
