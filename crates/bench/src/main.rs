//! The same work on Spindle (passing writes through, with `writeback`, and over `io_uring`), on
//! kernel ext4 and XFS over a loop device, on `fuse2fs`, and on a file system that does nothing,
//! side by side.
//!
//! Absolute figures say more about the machine than about the file system, so the result is ratios:
//! how many times as fast as ext4 each is, in one run in which they take turns. Each round gives
//! every contender a new file system and all rows; the median over the rounds counts. Needs root.
//! What can be chosen is in [`settings`].

mod allocations;
mod analysis;
mod cachesim;
mod check;
mod clusters;
mod compare;
mod contender;
mod counts;
mod devices;
mod durable;
mod events;
mod images;
mod library;
mod measure;
mod mounted;
mod nothing;
mod postmark;
mod settings;
mod table;
mod zipf;

use std::process::ExitCode;

use settings::{Group, Settings};
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
    match arguments.next() {
        Some(first) if first == cachesim::CHILD => return cachesim::child(arguments),
        Some(first) if first == nothing::CHILD => return nothing::child(arguments),
        _ => {}
    }
    let settings = Settings::get()?;
    if let Some(tables) = settings.compared() {
        let [before, after] = tables.map(Table::load);
        print!("{}", compare::markdown(&before?, &after?)?);
        return Ok(());
    }
    std::fs::create_dir_all(&settings.directory).map_err(Failure::of(settings.directory.display()))?;
    let mut table = settings.json.as_deref().map_or_else(|| Ok(Table::default()), Table::load)?;
    let mut allocations = String::new();
    for round in 1..=settings.rounds {
        for contender in settings.contenders() {
            eprintln!("round {round} of {}: {}", settings.rounds, contender.name());
            mounted::all(contender, &settings, &mut table)?;
        }
        images::all(&settings, &mut table)?;
        if settings.wants(Group::Clusters) {
            clusters::all(&settings, &mut table)?;
        }
        if settings.wants(Group::Events) {
            events::all(&settings, &mut table)?;
        }
        if settings.wants(Group::Analysis) {
            analysis::all(&settings, &mut table)?;
        }
        if settings.wants(Group::Cachesim) {
            cachesim::all(&settings, &mut table)?;
        }
        if settings.wants(Group::Library) {
            allocations = library::all(&settings, &mut table)?;
        }
    }
    check::all(&settings, &mut table)?;
    if settings.wants(Group::Durable) {
        durable::all(&settings, &mut table)?;
    }
    if settings.wants(Group::Devices) {
        devices::all(&settings, &mut table)?;
    }
    if let Some(path) = &settings.json {
        table.save(path)?;
    }
    print!("{}", table.markdown());
    if settings.wants(Group::Durable) {
        print!("\n{}", counts::all()?);
    }
    if settings.wants(Group::Library) {
        print!("\n{allocations}");
    }
    Ok(())
}
