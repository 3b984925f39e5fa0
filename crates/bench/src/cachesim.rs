//! Simulating caches: Spindle beside libCacheSim, both from the same file to the printed count, in
//! CPU seconds of a process of its own.
//!
//! libCacheSim is not part of this repository. Where its `cachesim` and `mrcProfiler` are in the
//! directory `SPINDLE_LIBCACHESIM` (the Python source package `libcachesim` has them: `cmake
//! -DCMAKE_BUILD_TYPE=Release src/libCacheSim && make cachesim mrcProfiler`), they are the first
//! column; otherwise it says that they were left out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use spindle_cachesim::curve::{self, Curve, Rate};
use spindle_cachesim::policy::simulate;
use spindle_cachesim::replacement::{Policy, PolicyName};
use spindle_cachesim::requests::{OracleFile, Requests};
use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};

use crate::settings::Settings;
use crate::table::Table;
use crate::zipf;

/// First argument of the processes that are measured.
pub const CHILD: &str = "--simulate";

/// Blocks in the cache, where there is one size.
const SIZE: u32 = zipf::OBJECTS / 10;
/// Where there are eight.
const SIZES: [u32; 8] = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000];
/// The sampled curves: one object in so many.
const SAMPLES: [u32; 2] = [10, 100];

/// Policies, with what libCacheSim calls them.
const POLICIES: [(PolicyName, &str); 9] = [
    (PolicyName::Lru, "lru"),
    (PolicyName::S3Fifo, "s3fifo"),
    (PolicyName::Sieve, "sieve"),
    (PolicyName::Fifo, "fifo"),
    (PolicyName::Clock, "clock"),
    (PolicyName::TwoQ, "twoq"),
    (PolicyName::Arc, "arc"),
    (PolicyName::Lirs, "lirs"),
    (PolicyName::WTinyLfu, "wtinylfu"),
];

/// What a process printed, and the CPU time it took.
struct Measured {
    cpu: Duration,
    text: String,
}

impl Measured {
    fn of(command: &mut Command) -> Result<Self> {
        let before = cpu()?;
        let text = String::from_utf8_lossy(&run(command)?).into_owned();
        Ok(Self { cpu: cpu()?.saturating_sub(before), text })
    }

    /// Returns the number behind the last `word`.
    fn number(&self, word: &str) -> Result<f64> {
        let behind = self.text.rsplit_once(word).map(|(_, behind)| behind.trim_start());
        let number = behind.and_then(|behind| behind.split([' ', '\n', '\t', ',']).next());
        let number = number.and_then(|number| number.parse().ok());
        number.ok_or_else(|| Failure::new(format!("no number behind {word:?} in {:?}", self.text)))
    }
}

/// Returns the CPU time of all processes that were waited for.
fn cpu() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(Failure::of("getrusage"))?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(microseconds.unsigned_abs()))
}

/// One row: the trace through libCacheSim, if it is there, and through Spindle.
struct Bench<'a> {
    libcachesim: Option<PathBuf>,
    trace: PathBuf,
    requests: f64,
    table: &'a mut Table,
}

impl Bench<'_> {
    fn libcachesim(&mut self, row: &str, program: &str, arguments: &[&str]) -> Result<Option<Measured>> {
        let Some(directory) = &self.libcachesim else { return Ok(None) };
        let mut command = command(directory.join(program));
        // It makes a directory for its results where it runs.
        command
            .current_dir(self.trace.parent().unwrap_or(Path::new(".")))
            .arg(&self.trace)
            .arg("oracleGeneral");
        let measured = Measured::of(command.args(arguments))?;
        self.table.note(row, "libCacheSim", self.requests / 1e3, "thousand requests/CPU s", measured.cpu);
        Ok(Some(measured))
    }

    fn spindle(&mut self, row: &str, arguments: &[&str]) -> Result<Measured> {
        let program = std::env::current_exe().map_err(Failure::of("this program"))?;
        let measured = Measured::of(command(program).arg(CHILD).arg(&self.trace).args(arguments))?;
        self.table.note(row, "spindle", self.requests / 1e3, "thousand requests/CPU s", measured.cpu);
        Ok(measured)
    }
}

/// Measures everything.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    let libcachesim = std::env::var_os("SPINDLE_LIBCACHESIM").map(PathBuf::from);
    if libcachesim.is_none() {
        eprintln!("  libCacheSim is left out: SPINDLE_LIBCACHESIM does not say where its programs are");
    }
    let requests = settings.scaled(10_000_000);
    let trace = settings.directory.join("zipf.oracleGeneral");
    zipf::write(&trace, requests)?;
    // Far below 2^52.
    #[expect(clippy::cast_precision_loss)]
    let requests = requests as f64;
    let mut bench = Bench { libcachesim, trace, requests, table };
    for (name, known_as) in POLICIES {
        let (row, size) = (format!("{name}, one size"), SIZE.to_string());
        let theirs = bench.libcachesim(&row, "cachesim", &[known_as, &size, "--ignore-obj-size", "1"])?;
        let ours = bench.spindle(&row, &[name.as_str(), &size])?.number("miss ratio ")?;
        let theirs = theirs.map(|theirs| theirs.number("miss ratio ")).transpose()?;
        compare(&row, ours, theirs, name == PolicyName::Lru)?;
    }
    let sizes = SIZES.map(|size| size.to_string()).join(",");
    let row = "lru, eight sizes";
    bench.libcachesim(row, "cachesim", &["lru", &sizes, "--ignore-obj-size", "1", "--num-thread", "1"])?;
    bench.spindle(row, &["lru", &sizes])?;
    for one_in in [&[1], &SAMPLES[..]].concat() {
        let row = match one_in {
            1 => "lru, the whole curve".into(),
            _ => format!("lru, the curve from 1/{one_in} of the objects"),
        };
        let rate = format!("--profiler-params=FIX_RATE,{},42", 1.0 / f64::from(one_in));
        let size = format!("--size=1000B,10000B,{SIZE}B");
        let options = ["--algo=LRU", "--profiler=SHARDS", &rate, &size, "--ignore-obj-size"];
        let theirs = bench.libcachesim(&row, "mrcProfiler", &options)?;
        let ours = bench.spindle(&row, &["curve", &one_in.to_string()])?.number("miss ratio ")?;
        let theirs = theirs.map(|theirs| theirs.number(&format!("\n{SIZE}B"))).transpose()?;
        compare(&row, ours, theirs, one_in == 1)?;
    }
    std::fs::remove_file(&bench.trace).map_err(Failure::of(bench.trace.display()))
}

/// Shows both miss ratios, which must agree, to the last digit of theirs that both print, if they
/// are to be `equal`.
fn compare(row: &str, ours: f64, theirs: Option<f64>, equal: bool) -> Result<()> {
    let Some(theirs) = theirs else { return Ok(()) };
    eprintln!("  {row}: miss ratio {theirs} in libCacheSim, {ours:.4} in spindle");
    if equal && (ours - theirs).abs() > 0.000_051 {
        return Err(Failure::new(format!("{row}: the miss ratios {theirs} and {ours} should be equal")));
    }
    Ok(())
}

/// Does what a measured process of ours does: `TRACE POLICY SIZE,…`, or `TRACE curve ONE_IN`.
pub fn child(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let trace = PathBuf::from(arguments.next().unwrap_or_default());
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let [what, parameter] = &words[..] else { return Err(Failure::new("TRACE WHAT PARAMETER are wanted")) };
    let objects = OracleFile::open(&trace).map_err(Failure::of("trace"))?;
    if what == "curve" {
        let curve = the_curve(objects, parameter)?;
        println!("miss ratio {}", curve.at(SIZE.into()));
        return Ok(());
    }
    let name: PolicyName = what.parse().map_err(Failure::of(what))?;
    let policy = |size: &str| Ok(Policy::new(name, size.parse().map_err(Failure::of(size))?));
    let mut policies = parameter.split(',').map(policy).collect::<Result<Vec<_>>>()?;
    for tally in simulate(objects.numbered(), &mut policies).map_err(Failure::of(what))? {
        println!("miss ratio {}", tally.miss_ratio());
    }
    Ok(())
}

fn the_curve(objects: OracleFile, one_in: &str) -> Result<Curve> {
    let one_in: f64 = one_in.parse().map_err(Failure::of(one_in))?;
    if one_in > 1.0 {
        curve::sampled(objects, Rate::Share(1.0 / one_in))
    } else {
        curve::exact(objects.numbered())
    }
    .map_err(Failure::of("curve"))
}
