//! One case: all phases on one mutated image, and the judgement.

use crate::base::{Base, MADE};
use crate::exercise::{change, walk};
use crate::inspect::{edit, look};
use crate::memory::measure;
use crate::mutate::{Mutant, mutate};
use crate::overlay::{Allowance, Overlay, Usage};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_cache::Settings;
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, partitions};
use spindle_ffs::check::{Options, check};
use spindle_ffs::{Ffs, OpenOptions, Superblock};
use spindle_vfs::{AtimePolicy, FileSystem};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The requests and bytes that each phase may ask of its device: many times what the valid images
/// need.
pub const ALLOWANCE: Allowance = Allowance { requests: 20_000, bytes: 128 << 20 };
/// Bytes of memory that a phase may hold at once.
pub const MOST_MEMORY: usize = 32 << 20;
/// Findings that a check may list.
const MOST_FINDINGS: usize = 200;

/// How far a case came and what it took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// True if it could be opened for reading.
    pub opened: bool,
    /// True if the check ran.
    pub checked: bool,
    /// Present if it could be opened for writing; true if the unmount after the changes succeeded.
    pub changed: Option<bool>,
    /// The most that a phase asked of the device.
    pub usage: Usage,
    /// The most memory that a phase took, in bytes.
    pub memory: usize,
    /// The declared field that was mutated.
    pub field: Option<usize>,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The phase that failed.
    pub phase: &'static str,
    /// The broken promise.
    pub what: String,
    /// The image, and the changes that were made to it.
    pub story: String,
}

/// Returns the base of case `id`, and how many cases of this base come before it.
#[must_use]
pub fn base_of(bases: &[Base], id: u64) -> (&Base, usize) {
    let n = usize::try_from(id).unwrap_or(usize::MAX);
    (&bases[n % bases.len()], n / bases.len())
}

/// Runs case `id` of the campaign with this seed.
///
/// # Errors
/// The first promise that it breaks.
pub fn run(bases: &[Base], seed: u64, id: u64) -> Result<Outcome, Failure> {
    let mut rng = SmallRng::seed_from_u64(seed.rotate_left(32) ^ id);
    let (base, turn) = base_of(bases, id);
    let Mutant { device, story, field } = mutate(base, turn, &mut rng);
    Ok(Outcome { field, ..judge(device, story, &mut rng)? })
}

/// Does with an image whatever people do, and judges the result. `story` names the image, and the
/// changes that were made to it.
///
/// # Errors
/// The first promise that it breaks.
pub fn judge(device: Overlay, story: String, rng: &mut SmallRng) -> Result<Outcome, Failure> {
    let mut run = CaseRun { device: Arc::new(device), story, outcome: Outcome::default() };
    run.phases(rng)?;
    Ok(run.outcome)
}

/// A case that is running.
struct CaseRun {
    device: Arc<Overlay>,
    story: String,
    outcome: Outcome,
}

impl CaseRun {
    fn phases(&mut self, rng: &mut SmallRng) -> Result<(), Failure> {
        self.phase("partitions", |device| drop(partitions(&**device)))?;
        self.outcome.opened = self.phase("open and walk, read-only", |device| {
            let Ok(fs) = open(device, true) else { return false };
            walk(&fs);
            let _ = fs.unmount();
            true
        })?;
        let mut random = rng.clone();
        self.phase("look inside", |device| look(&**device, &mut random))?;
        if self.device.usage().writes > 0 {
            return Err(self.failure("reading", "the device was written to".into()));
        }
        self.outcome.checked = self.phase("check", run_check)?;
        self.outcome.changed = self.phase("open, walk and change", |device| {
            let fs = open(device, false).ok()?;
            let nodes = walk(&fs);
            change(&fs, nodes, rng);
            Some(fs.unmount().is_ok())
        })?;
        if self.outcome.changed.is_some() {
            self.phase("check after changes", run_check)?;
        }
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(MADE + 2000));
        if self.phase("edit", |device| edit(device.clone(), clock, &mut random))? {
            self.phase("check after edits", run_check)?;
        }
        Ok(())
    }

    /// Runs one phase, and checks what it has used against the limits.
    fn phase<T>(&mut self, phase: &'static str, work: impl FnOnce(&Arc<Overlay>) -> T) -> Result<T, Failure> {
        self.device.allow(ALLOWANCE);
        let (result, memory) = measure(|| catch_unwind(AssertUnwindSafe(|| work(&self.device))));
        let usage = self.device.usage();
        self.outcome.usage = self.outcome.usage.max(usage);
        self.outcome.memory = self.outcome.memory.max(memory);
        match result {
            Err(panic) => Err(self.failure(phase, format!("panic: {}", message(&*panic)))),
            Ok(_) if self.device.exhausted() => Err(self.failure(phase, format!("asked for {usage:?}"))),
            Ok(_) if memory > MOST_MEMORY => Err(self.failure(phase, format!("held {memory} bytes"))),
            Ok(value) => Ok(value),
        }
    }

    fn failure(&self, phase: &'static str, what: String) -> Failure {
        Failure { phase, what, story: self.story.clone() }
    }
}

fn open(device: &Arc<Overlay>, read_only: bool) -> spindle_vfs::Result<Ffs> {
    let options = OpenOptions {
        read_only,
        force: !read_only,
        seed: Some(3),
        atime: AtimePolicy::Always,
        cache: Settings { capacity_bytes: 4 << 20, dirty_limit_bytes: 1 << 20, ..Settings::default() },
        ..OpenOptions::default()
    };
    let device: Arc<dyn Device> = device.clone();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(MADE + 1000));
    if read_only {
        // As the commands that read damaged disks do.
        Ffs::open_found(Superblock::salvage(&*device)?, device, clock, &options)
    } else {
        Ffs::open(device, clock, &options)
    }
}

fn run_check(device: &Arc<Overlay>) -> bool {
    let options = Options { limit: MOST_FINDINGS, ..Options::default() };
    match check(&**device, &options, &mut |_| ()) {
        Ok(report) => {
            assert!(report.findings.len() <= MOST_FINDINGS, "{} findings", report.findings.len());
            for found in &report.findings {
                let _ = found.to_string();
            }
            true
        }
        Err(_) => false,
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").into()
}
