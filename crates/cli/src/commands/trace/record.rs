//! `spindle trace record`

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, Out, OutArgs};
use crate::text::counted;
use spindle_record::{Filter, Probes, Signals, Summary};
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
/// COMMAND, it records all processes that the options select, until SIGINT or SIGTERM, or for the
/// given time.
///
/// The trace contains opens, closes, seeks, deletions and so on of regular files and directories,
/// with exact counts of the bytes that were read and written between them; it does not contain
/// accesses through io_uring and libaio, which are noted. Recording needs root and Linux 6.10 or
/// newer on x86-64, where a small program in the kernel (BPF) collects the events; a build takes a
/// few per cent longer.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    With a COMMAND its own exit code, or 128 plus the number of the signal that ended it.
    0  done    1  nothing was recorded, or the file could not be written    2  invalid command line
    127  the COMMAND does not exist

EXAMPLES
    spindle trace record -o build.trace -- make -j4
    spindle trace record -o mail.trace --user postfix --duration 3600
    spindle trace record -o data.trace --all --mount /srv
    spindle trace record -o tests.trace --path /home/ann/project -- cargo test")]
pub struct Args {
    /// The trace to write; - for standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// Record only processes of this user: a name or a number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Record only processes in this cgroup or below it: a directory such as
    /// /sys/fs/cgroup/system.slice
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Record only files on the file system of this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Record only files at or below this absolute path, as the kernel has it: below the root of a
    /// chroot or container, that root comes first
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// Stop after this many seconds; a COMMAND that still runs is not stopped
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Record all processes, not only those of the COMMAND
    #[arg(long)]
    all: bool,
    /// The command to run, with its arguments
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let is_selected = args.all
        || args.user.is_some()
        || args.cgroup.is_some()
        || args.mount.is_some()
        || args.path.is_some();
    if args.command.is_empty() && !is_selected {
        return Err(Failure::usage(
            "nothing to record; give a COMMAND, --all, or an option that selects processes or files",
        ));
    }
    let duration = args.duration.map(Duration::try_from_secs_f64).transpose();
    let duration = duration.map_err(|_| Failure::usage("--duration: not a number of seconds"))?;
    if args.path.as_ref().is_some_and(|prefix| !prefix.starts_with('/')) {
        return Err(Failure::usage("--path: the path must be absolute"));
    }
    let wanted = Filter {
        children: !args.command.is_empty() && !args.all,
        user: args.user.as_deref().map(account).transpose()?,
        cgroup: args.cgroup.clone(),
        mount: args.mount.clone(),
        prefix: args.path.as_deref().map(real),
    };
    let prefix = wanted.prefix.clone();
    let prefix = prefix.as_deref();
    let source = concat!("spindle ", env!("CARGO_PKG_VERSION"), ", trace record");
    outfile::check(&args.output, Kind::Trace, args.out.force)?;
    let signals = Signals::block()?;
    let probes = Probes::attach(&wanted)?;
    let out = Out::create(&args.output, Kind::Trace, args.out.force)?;
    let (ends, end) = channel();
    let failed = ends.clone();
    let failed = move || drop(failed.send(End::Failed));
    let mut recording = probes.record((out.handle()?, Path::new(&out.name)), source, failed)?;
    let mut has_command = false;
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
        has_command = true;
        let ends = ends.clone();
        std::thread::spawn(move || ends.send(End::Command(child.wait())));
    }
    // From now on it can be read, even if the recorder is killed.
    out.finish()?;
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
                Some(End::Signal | End::Failed) | None => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

/// The reason for which a recording ends.
enum End {
    Command(std::io::Result<ExitStatus>),
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

/// Returns an absolute path without the symbolic links in that part of it which exists: in a trace
/// files have the names that the kernel has for them.
fn real(path: &str) -> String {
    let path = Path::new(path);
    let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let whole = found.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    whole.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

/// Returns the user ID of an account.
fn account(name: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let accounts = std::fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1))?
    });
    found
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| Failure::usage(format!("--user: there is no account {name}")))
}
