//! The same work on Spindle, on kernel ext4 over a loop device and on `fuse2fs`, side by side.
//!
//! Absolute figures say more about the machine than about the file system, so the result is ratios: how many times as
//! fast as ext4 each is, in one run in which they take turns. Each round gives every contender a new file system
//! and all rows; the median over the rounds counts. Needs root.
//!
//! ```text
//! spindle-bench [--rounds N] [--scale PERCENT] [--only GROUP,…] [DIRECTORY]
//! ```
//!
//! The images are made in DIRECTORY, by default `target/bench`. `--scale 10` does a tenth of the work, for trying
//! out. The groups are `large`, `one`, `spread`, `tree`, `names`, `image`; `clusters`, which compares Spindle with
//! itself, without and with clustering; `durable`, what surviving crashes costs; `events`, the speed of simulations; `analysis`,
//! that of the analyser of traces; and `cachesim`, that of cache simulation beside libCacheSim.

mod analysis;
mod cachesim;
mod clusters;
mod contender;
mod counts;
mod durable;
mod events;
mod images;
mod measure;
mod mounted;
mod table;
mod zipf;

use std::path::PathBuf;
use std::process::ExitCode;

use contender::Contender;
use measure::Settings;
use spindle_interop::{Failure, Result};
use table::Table;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spindle-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == cachesim::CHILD) {
        return cachesim::child(arguments);
    }
    let settings = settings()?;
    std::fs::create_dir_all(&settings.directory).map_err(Failure::of(settings.directory.display()))?;
    let mut table = Table::default();
    for round in 1..=settings.rounds {
        for contender in Contender::ALL {
            eprintln!("round {round} of {}: {}", settings.rounds, contender.name());
            mounted::all(contender, &settings, &mut table)?;
        }
        images::all(&settings, &mut table)?;
        if settings.wants("clusters") {
            clusters::all(&settings, &mut table)?;
        }
        if settings.wants("events") {
            events::all(&settings, &mut table)?;
        }
        if settings.wants("analysis") {
            analysis::all(&settings, &mut table)?;
        }
        if settings.wants("cachesim") {
            cachesim::all(&settings, &mut table)?;
        }
    }
    if settings.wants("durable") {
        durable::all(&settings, &mut table)?;
    }
    print!("{}", table.markdown());
    if settings.wants("durable") {
        print!("\n{}", counts::all()?);
    }
    Ok(())
}

fn settings() -> Result<Settings> {
    let mut settings = Settings {
        rounds: 3,
        scale_percent: 100,
        only: Vec::new(),
        directory: PathBuf::from("target/bench"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Failure::new(format!("{word} needs a value")));
        let number = |text: String| text.parse().map_err(Failure::of(text));
        match word.as_str() {
            "--rounds" => settings.rounds = number(value()?)?,
            "--scale" => settings.scale_percent = number(value()?)?,
            "--only" => settings.only = value()?.split(',').map(String::from).collect(),
            option if option.starts_with('-') => {
                return Err(Failure::new(format!("no such option: {option}")));
            }
            directory => settings.directory = directory.into(),
        }
    }
    // Paths are handed to programs that work elsewhere.
    settings.directory = std::path::absolute(&settings.directory).map_err(Failure::of("the directory"))?;
    Ok(settings)
}
