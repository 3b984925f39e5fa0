//! What `spindle trace analyze` analyses: traces, and stored findings of others.

use crate::error::{Context, Failure, Result};
use crate::progress::Progress;
use spindle_analyze::{Caches, Dimension, MAGIC, Partial, analyze_partially};
use spindle_cachesim::simulate;
use spindle_trace::format::Columns;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What the findings of each trace must have.
#[derive(Debug)]
pub struct Wanted {
    /// Amounts by these.
    pub dimensions: Vec<Dimension>,
    /// Simulated caches.
    pub caches: bool,
}

/// Returns the findings of all traces together.
pub fn all(inputs: &[PathBuf], wanted: &Wanted) -> Result<Partial> {
    let (first, others) = inputs.split_first().ok_or_else(|| Failure::usage("name a trace"))?;
    let mut all = one(first, wanted)?;
    for other in others {
        all.merge(&one(other, wanted)?);
    }
    Ok(all)
}

fn one(input: &Path, wanted: &Wanted) -> Result<Partial> {
    if is_findings(input).context(input.display())? {
        let bytes = std::fs::read(input).context(input.display())?;
        let found = Partial::from_bytes(input, &bytes)?;
        refuse_incomplete(input, &found, wanted)?;
        return Ok(found);
    }
    let columns = wanted.dimensions.iter().fold(Columns::USAGE, |all, dimension| all | dimension.columns());
    let mut source = super::open(input, columns)?;
    let bar = Progress::of_fraction("analysing");
    let mut found = analyze_partially(&mut *source, &wanted.dimensions, |done| bar.set_fraction(done))?;
    drop(bar);
    found.describe(super::name(input), std::fs::metadata(input).ok().map(|found| found.len()));
    if wanted.caches {
        let mut source = spindle_trace::open(input, Columns::NUMBERS)?;
        let bar = Progress::of_fraction("simulating");
        let simulated = simulate(&mut *source, &Caches::grids(), &|done| bar.set_fraction(done))?;
        found.simulated(&simulated.results);
    }
    Ok(found)
}

/// Returns true if a file contains findings.
fn is_findings(path: &Path) -> std::io::Result<bool> {
    let is_file = path != Path::new("-") && path.metadata().is_ok_and(|found| found.is_file());
    if !is_file {
        return Ok(false);
    }
    let mut start = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// Refuses findings that were made without what is to be shown of them.
fn refuse_incomplete(input: &Path, found: &Partial, wanted: &Wanted) -> Result<()> {
    let missing = wanted.dimensions.iter().filter(|&&dimension| !found.has(dimension));
    let missing: Vec<_> = missing.map(|dimension| dimension.name()).collect();
    let by = (!missing.is_empty()).then(|| format!("--by {}", missing.join(",")));
    let caches = (wanted.caches && found.caches().is_none()).then(|| "--caches".to_owned());
    let options: Vec<_> = by.into_iter().chain(caches).collect();
    if options.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{}: these findings were made without {}; make them again with it",
        input.display(),
        options.join(" ")
    )))
}
