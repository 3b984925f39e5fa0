//! Warnings and notes: they go to standard error. A daemon, which closes standard error, also sends
//! them to the system log.

use crate::text::terminal_safe;
use log::{Level, LevelFilter, Log, Metadata, Record};
use std::fmt::Display;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::OnceLock;

/// Socket of the system log.
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
        emit(record.level(), format_args!("{level}: {}", record.args()));
    }

    fn flush(&self) {}
}

/// Writes a message to standard error and to the system log, and ignores errors of both.
fn emit(level: Level, text: impl Display) {
    // The text may contain names from an image.
    let text = terminal_safe(&text.to_string());
    let _ = writeln!(std::io::stderr(), "spindle: {text}");
    if let Some(socket) = SYSTEM_LOG.get() {
        let _ = socket.send(message(level, &text).as_bytes());
    }
}

/// Returns a message in the form of `syslog(3)`.
fn message(level: Level, text: impl Display) -> String {
    let severity = match level {
        Level::Error => 3,
        Level::Warn => 4,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    };
    format!("<{}>spindle[{}]: {text}", FACILITY | severity, std::process::id())
}

/// Does something without warnings and notes, because its result says what there is to say.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let level = log::max_level();
    log::set_max_level(LevelFilter::Off);
    let done = work();
    log::set_max_level(level);
    done
}

/// Prints an error that does not end the command.
pub fn error(text: impl Display) {
    emit(Level::Error, format_args!("error: {text}"));
}

/// Prints a failure of a part of the command as `main` prints that of the whole.
pub fn failure(failure: &crate::error::Failure) {
    emit(Level::Error, failure);
}

/// Prints a note: information that is no warning.
pub fn note(text: impl Display) {
    emit(Level::Info, format_args!("note: {text}"));
}

/// Connects to the system log, if there is one: later messages go there too.
pub fn start_system_log() {
    if let Ok(socket) = connect(Path::new(SYSLOG)) {
        let _ = SYSTEM_LOG.set(socket);
    }
}

fn connect(path: &Path) -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    // A full log must not block requests for files.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Starts the logger: it shows warnings, with `verbose` 1 also information, with 2 also
/// details, with 3 also each request of the kernel.
pub fn start(verbose: u8) {
    static LOGGER: Logger = Logger;
    // Fails only if a logger is set already.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a message of a daemon reaches the system log in the form of `syslog(3)`.
    #[test]
    fn messages_reach_the_system_log() {
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
