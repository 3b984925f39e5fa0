//! Warnings of the crates below, and what users are told though nothing is wrong: on standard
//! error, and from a daemon, which lets go of that, to the system's log as well.

use crate::text::tame;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::fmt::Display;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::OnceLock;

/// Where the system's log listens.
const SYSLOG: &str = "/dev/log";
/// `LOG_DAEMON` of `syslog(3)`.
const FACILITY: u8 = 3 << 3;

static SYSTEM_LOG: OnceLock<UnixDatagram> = OnceLock::new();

struct Logger;

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = match record.level() {
            Level::Warn => "warning".to_owned(),
            other => other.as_str().to_ascii_lowercase(),
        };
        tell(record.level(), format_args!("{level}: {}", record.args()));
    }

    fn flush(&self) {}
}

/// A closed standard error or log is nothing that anybody could be told of.
fn tell(level: Level, text: impl Display) {
    // It may have names in it that nobody has looked at.
    let text = tame(&text.to_string());
    let _ = writeln!(std::io::stderr(), "spindle: {text}");
    if let Some(socket) = SYSTEM_LOG.get() {
        let _ = socket.send(message(level, &text).as_bytes());
    }
}

/// Returns a message as `syslog(3)` sends it.
fn message(level: Level, text: impl Display) -> String {
    let severity = match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    };
    format!("<{}>spindle[{}]: {text}", FACILITY | severity, std::process::id())
}

/// Tells something that was not asked for and is not wrong either.
pub fn note(text: impl Display) {
    tell(Level::Info, format_args!("note: {text}"));
}

/// From now on what is told goes to the system's log, too, if there is one.
pub fn start_system_log() {
    if let Ok(socket) = connect(Path::new(SYSLOG)) {
        let _ = SYSTEM_LOG.set(socket);
    }
}

fn connect(path: &Path) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    // Nobody's files wait for a log that is full.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Shows warnings; with `verbose` 1 what is going on, with 2 all details.
pub fn start(verbose: u8) {
    static LOGGER: Logger = Logger;
    // Fails only if there is one already, which then does as well.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what a daemon tells reaches a log as `syslog(3)` would send it.
    #[test]
    fn the_system_log_hears() {
        let dir = tempfile::tempdir().unwrap();
        let log = UnixDatagram::bind(dir.path().join("log")).unwrap();
        let socket = connect(&dir.path().join("log")).unwrap();
        socket.send(message(Level::Error, "the disk is full").as_bytes()).unwrap();
        let mut bytes = [0; 100];
        let len = log.recv(&mut bytes).unwrap();
        let wanted = format!("<27>spindle[{}]: the disk is full", std::process::id());
        assert_eq!(std::str::from_utf8(&bytes[..len]), Ok(wanted.as_str()));
    }
}
