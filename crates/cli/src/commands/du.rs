//! `spindle du`

use crate::error::{Context, Failure, Result};
use crate::image::{self, Listed, Losses};
use crate::listing::Names;
use crate::output::Output;
use crate::text::{encoded, human};
use serde::Serialize;
use spindle::path::resolve;
use spindle::walk::{Visit, Walk, When};
use spindle_vfs::{Ino, Node};
use std::collections::HashSet;
use std::process::ExitCode;

/// Show the space that files in an image use
///
/// Shows the allocated space of each directory with everything below it, in units of 512 bytes. A
/// file with several names counts once. Symbolic links are not followed.
///
/// What cannot be read in a damaged image is listed on standard error and left out. The exit code
/// is then 1.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle du -sh disk.img:/usr disk.img:/home
    spindle du -hd 1 disk.img
    spindle du -ak disk.img | sort -n"
)]
pub struct Args {
    /// Show only the total of each operand
    #[arg(short = 's', conflicts_with_all = ["all", "depth"])]
    summary: bool,
    /// Also show files
    #[arg(short = 'a')]
    all: bool,
    /// Show directories at most so deep; everything below counts nevertheless
    #[arg(short = 'd', value_name = "DEPTH")]
    depth: Option<usize>,
    /// Show the total of all operands at the end
    #[arg(short = 'c')]
    total: bool,
    /// Show sizes with units, as 1.5K
    #[arg(short = 'h', overrides_with = "kilobytes")]
    human: bool,
    /// Show sizes in units of 1024 bytes
    #[arg(short = 'k')]
    kilobytes: bool,
    /// Count the sizes of files, not the space that they use
    #[arg(short = 'A')]
    apparent: bool,
    /// Count a file as often as it has names
    #[arg(short = 'l')]
    links: bool,
    /// Print a JSON array; sizes are in bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    listed: Listed,
}

/// The space of a file or directory.
#[derive(Serialize)]
struct Usage {
    path: String,
    bytes: u64,
}

/// Adds up and prints.
struct Counter<'a> {
    args: &'a Args,
    names: Names,
    out: Output,
    found: Vec<Usage>,
    /// Files with several names that were counted, of the image in question.
    counted: HashSet<Ino>,
    total: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let losses = Losses::default();
    let (names, out) = (Names::for_stdout(), Output::stdout());
    let mut counter = Counter { args, names, out, found: Vec::new(), counted: HashSet::new(), total: 0 };
    let mut image = String::new();
    let code = image::read_each(&args.listed.targets, args.listed.read, |vfs, target, _| {
        if image != target.image {
            image.clone_from(&target.image);
            counter.counted.clear();
        }
        let node = resolve(vfs, &target.path, false)?;
        counter.count(&target.path, node, &|lost| losses.add(&target.image, lost))
    })?;
    if args.total && !args.json {
        let total = counter.total;
        counter.print(total, "total")?;
    }
    if args.json {
        counter.out.json(&counter.found)?;
    }
    counter.out.finish()?;
    losses.check()?;
    Ok(code)
}

impl Counter<'_> {
    /// Counts everything below one file.
    fn count(&mut self, path: &[u8], node: Node<'_>, lost: &dyn Fn(Failure)) -> Result<()> {
        // What is below the directories that the walk is in.
        let mut sums = Vec::new();
        for visit in Walk::new(path, node) {
            let visit = match visit {
                Ok(visit) => visit,
                Err(error) => {
                    lost(error.into());
                    continue;
                }
            };
            let bytes = match visit.when {
                When::Before => {
                    sums.push(self.bytes(&visit));
                    continue;
                }
                When::Once => self.bytes(&visit),
                When::After => sums.pop().unwrap_or(0),
            };
            match sums.last_mut() {
                Some(sum) => *sum += bytes,
                None => self.total += bytes,
            }
            if self.is_shown(&visit) {
                self.show(&visit, bytes).named(&visit.path)?;
            }
        }
        Ok(())
    }

    /// Returns what a file itself counts.
    fn bytes(&mut self, visit: &Visit) -> u64 {
        let attr = &visit.attr;
        let several = visit.when == When::Once && attr.nlink > 1;
        if several && !self.args.links && !self.counted.insert(attr.ino) {
            return 0;
        }
        if self.args.apparent { attr.size } else { attr.blocks512.saturating_mul(512) }
    }

    fn is_shown(&self, visit: &Visit) -> bool {
        let args = self.args;
        let deepest = if args.summary { 0 } else { args.depth.unwrap_or(usize::MAX) };
        visit.depth <= deepest && (visit.when == When::After || args.all || visit.depth == 0)
    }

    fn show(&mut self, visit: &Visit, bytes: u64) -> Result<()> {
        if self.args.json {
            self.found.push(Usage { path: encoded(&visit.path), bytes });
            return Ok(());
        }
        self.print(bytes, &self.names.show(&visit.path))
    }

    fn print(&mut self, bytes: u64, name: &str) -> Result<()> {
        let unit = if self.args.kilobytes { 1024 } else { 512 };
        let size = if self.args.human { human(bytes) } else { bytes.div_ceil(unit).to_string() };
        self.out.text(&size)?;
        self.out.bytes(b"\t")?;
        self.out.line(name)
    }
}
