//! Warnings of the crates below, and what users are told though nothing is wrong, on standard error.

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // A closed standard error is nothing that anybody could be told of.
        use std::io::Write;
        let level = match record.level() {
            Level::Warn => "warning".to_owned(),
            other => other.as_str().to_ascii_lowercase(),
        };
        let _ = writeln!(std::io::stderr(), "spindle: {level}: {}", record.args());
    }

    fn flush(&self) {}
}

/// Tells something that was not asked for and is not wrong either.
pub fn note(text: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "spindle: note: {text}");
}

/// Shows warnings; with `verbose` 1 what is going on, with 2 all details.
pub fn start(verbose: u8) {
    static LOGGER: Stderr = Stderr;
    // Fails only if there is one already, which then does as well.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    });
}
