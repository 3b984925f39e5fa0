//! `spindle trace record`

use super::parts::{PartArgs, Parts};
use super::selection::SelectArgs;
use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, Out, OutArgs};
use crate::text::counted;
use spindle_record::{Filter, Probes, Processes, Signals, Summary};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Record what programs do with files
///
/// With a COMMAND, record runs it and records it and its child processes until it ends. Without a
/// COMMAND, it records all processes that the options select, until SIGINT or SIGTERM, for the
/// given time, or until all processes of --pid have ended.
///
/// The trace contains opens, closes, seeks, deletions and so on of regular files and directories,
/// with exact counts of the bytes that were read and written between them, also through io_uring;
/// requests of libaio have the bytes that they ask for. Recording needs root and Linux 6.10 or
/// newer on x86-64, where a small program in the kernel (BPF) collects the events; a build takes a
/// few per cent longer.
///
/// With --rotate-size or --rotate-age the trace has several parts. Each is a trace that can be read
/// alone, and "spindle trace merge --parts" makes one of them.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    With a COMMAND its own exit code, or 128 plus the number of the signal that ended it.
    0  done    1  nothing was recorded, or the file could not be written    2  invalid command line
    127  the COMMAND does not exist

EXAMPLES
    spindle trace record -o build.trace -- make -j4
    spindle trace record -o mail.trace --user postfix --duration 3600
    spindle trace record -o data.trace --all --mount /srv
    spindle trace record -o db.trace --pid $(pidof -s postgres)
    spindle trace record -o web.trace --cgroup web --rotate-age 3600 --keep 24
    spindle trace record -o tests.trace --path /home/ann/project -- cargo test")]
pub struct Args {
    /// The trace to write; - for standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    #[command(flatten)]
    select: SelectArgs,
    /// Stop after this many seconds; a COMMAND that still runs is not stopped
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Leave out calls that only look at a file or change its attributes: stat, access, readlink,
    /// getdents, chdir, chmod, chown, utime; in a build, more than half of the events
    #[arg(long)]
    no_looks: bool,
    /// Measure also how long opens, reads, writes and syncs take, which "spindle trace analyze"
    /// shows by the size of the files; --path selects none of them
    #[arg(long)]
    latency: bool,
    #[command(flatten)]
    parts: PartArgs,
    /// The command to run, with its arguments
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.command.is_empty() && !args.select.is_given() {
        return Err(Failure::usage(
            "nothing to record; give a COMMAND, --all, or an option that selects processes or files",
        ));
    }
    if !args.command.is_empty() && !args.select.pid.is_empty() {
        return Err(Failure::usage("--pid: give either processes that run already, or a COMMAND"));
    }
    let duration = args.duration.map(Duration::try_from_secs_f64).transpose();
    let duration = duration.map_err(|_| Failure::usage("--duration: not a number of seconds"))?;
    let has_command = !args.command.is_empty();
    let (latency, no_looks) = (args.latency, args.no_looks);
    let wanted = Filter { latency, no_looks, ..args.select.filter(has_command)? };
    let prefix = wanted.prefix.clone();
    let prefix = prefix.as_deref();
    let source = concat!("spindle ", env!("CARGO_PKG_VERSION"), ", trace record");
    let mut parts = Parts::of(&args.parts, &args.output, args.out.force)?;
    if parts.is_none() {
        outfile::check(&args.output, Kind::Trace, args.out.force)?;
    }
    let signals = Signals::block()?;
    let processes = Processes::find(&args.select.pid)?;
    let probes = Probes::attach(&wanted)?;
    let out = match &mut parts {
        Some(parts) => parts.next()?,
        None => Out::create(&args.output, Kind::Trace, args.out.force)?,
    };
    let rotation = parts.clone().map(|parts| parts.rotation(&args.parts));
    let (ends, end) = channel();
    let failed = ends.clone();
    let failed = move || drop(failed.send(End::Failed));
    let first = (out.handle()?, Path::new(&out.name));
    let mut recording = probes.record(first, rotation, source, failed)?;
    if let Some((program, words)) = args.command.split_first() {
        let started = signals.spawn(program, words);
        recording.stop_following()?;
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                recording.finish()?;
                return Err(error)
                    .context(program.display())
                    .map_err(|failure: Failure| failure.with_code(127));
            }
        };
        let ends = ends.clone();
        std::thread::spawn(move || ends.send(End::Command(child.wait())));
    }
    if !args.select.pid.is_empty() {
        let ends = ends.clone();
        std::thread::spawn(move || processes.wait().map(|()| ends.send(End::Processes)));
    }
    // From now on it can be read, even if the recorder is killed.
    out.finish()?;
    parts.iter().try_for_each(Parts::remove_old)?;
    std::thread::spawn(move || {
        while let Ok(is_interrupt) = signals.wait() {
            // A command gets an interrupt from the terminal, too, and decides itself whether it
            // ends.
            if !(has_command && is_interrupt) {
                let _ = ends.send(End::Signal);
            }
        }
    });
    let reason = match duration {
        None => end.recv().ok(),
        Some(time) => end.recv_timeout(time).ok(),
    };
    let done = recording.finish().map_err(Failure::from);
    match (done, reason) {
        (Err(failure), Some(End::Failed)) if has_command => {
            // It is reported now, and the command, which uses the terminal, is not left alone.
            let _ = writeln!(std::io::stderr(), "spindle: {failure}; the command goes on, unrecorded");
            let _ = end.recv();
            Ok(ExitCode::from(failure.code()))
        }
        (Err(failure), _) => Err(failure),
        (Ok(summary), reason) => {
            print_summary(&summary, prefix);
            match reason {
                Some(End::Command(status)) => Ok(ExitCode::from(code(status?))),
                Some(End::Processes | End::Signal | End::Failed) | None => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

/// The reason for which a recording ends.
enum End {
    Command(std::io::Result<ExitStatus>),
    /// All processes that were to be recorded have ended.
    Processes,
    Signal,
    /// The trace could not be written.
    Failed,
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::error::FAILED)
}

fn print_summary(done: &Summary, prefix: Option<&str>) {
    let mut err = std::io::stderr();
    // If standard error is closed, the trace still contains the counts and notes.
    let _ = writeln!(err, "spindle: {} recorded", counted(done.events, "event"));
    if let Some(prefix) = prefix.filter(|_| done.events == 0) {
        let _ = writeln!(
            err,
            "spindle: note: no file was used whose path begins with {prefix}; in a chroot or a container, put \
             the path of its root in front: paths are those of the kernel"
        );
    }
    if done.lost > 0 {
        let _ = writeln!(err, "spindle: lost {}; all counts are lower bounds", counted(done.lost, "event"));
    }
    for note in &done.notes {
        let _ = writeln!(err, "spindle: {note}");
    }
}
