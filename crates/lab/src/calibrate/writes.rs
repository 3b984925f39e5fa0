//! What a write takes more than a read.

use super::Error;
use super::bench::{Bench, mean_without, median};
use spindle_device::Op;

/// Accesses of each kind.
const ACCESSES: usize = 250;
/// The part of the slowest, which do not count.
const SLOW: f64 = 0.02;

/// What a drive does with writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Write {
    /// Seconds that a write of [`super::SMALL`] takes, if the drive says that it is done before it
    /// is on the platters.
    pub cached: Option<f64>,
    /// How many seconds longer a write takes to be on the platters than a read of the same.
    pub longer: f64,
}

/// Measures writes, which destroys what the disk of this bench has. `rotation` is the time of a
/// revolution in seconds.
///
/// # Errors
/// [`Error::Disk`].
pub fn measure(bench: &mut Bench<'_>, rotation: f64) -> Result<Write, Error> {
    let read = took(bench, Op::Read, false)?;
    let usual = median(took(bench, Op::Write, false)?);
    bench.flush()?;
    let cached = (usual < rotation / 4.0).then_some(usual);
    let durable = took(bench, Op::Write, cached.is_some())?;
    let longer = mean_without(durable, SLOW) - mean_without(read, SLOW) - cached.unwrap_or(0.0);
    Ok(Write { cached, longer })
}

/// Returns how long accesses at random take, each with a flush if wanted.
fn took(bench: &mut Bench<'_>, op: Op, flush: bool) -> Result<Vec<f64>, Error> {
    let count = bench.sectors_of(u64::from(super::SMALL));
    let places = bench.sectors() / count;
    let mut took = Vec::new();
    for _ in 0..ACCESSES {
        let place = bench.somewhere(0) % places * count;
        let access = bench.transfer(op, place, count)?.took();
        took.push(access + if flush { bench.flush()? } else { 0.0 });
    }
    Ok(took)
}
