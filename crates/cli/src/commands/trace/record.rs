//! `spindle trace record`

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, OutArgs};
use spindle_record::{Filter, Recording, Signals, Summary};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Record what programs do with files
///
/// With a COMMAND it is run, and what it and the processes that it starts do is recorded until it
/// ends. Without one all processes are recorded, those that the options leave, until SIGINT or
/// SIGTERM, or for the given time.
///
/// Recorded are opens, closes, seeks, deletions and so on of regular files and directories, with
/// the bytes that were read and written between them, exactly; accesses through io_uring are not. A
/// small program in the kernel (BPF) does it on Linux on x86-64, from version 6.10, and a build
/// takes a few per cent longer. It needs root.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    That of the COMMAND, or 128 and the number of the signal that ended it.
    0  done    1  nothing was recorded, or the file could not be written    2  the command line makes no sense
    127  there is no such COMMAND

EXAMPLES
    spindle trace record -o build.trace -- make -j4
    spindle trace record -o mail.trace --user postfix --duration 3600
    spindle trace record -o data.trace --all --mount /srv
    spindle trace record -o tests.trace --path /home/ann/project -- cargo test")]
pub struct Args {
    /// The trace to make
    #[arg(short = 'o', long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// Only processes of this account: a name or a number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only processes in this cgroup or below it: a directory such as /sys/fs/cgroup/system.slice
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Only files on the file system that this directory is on
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Only files at or below this absolute name
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// End after so many seconds, and leave the COMMAND alone if it still runs
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Record all processes, not only the COMMAND's
    #[arg(long)]
    all: bool,
    /// What to run
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let is_narrow = args.all
        || args.user.is_some()
        || args.cgroup.is_some()
        || args.mount.is_some()
        || args.path.is_some();
    if args.command.is_empty() && !is_narrow {
        return Err(Failure::usage(
            "what to record? Give a COMMAND, or --all, or one of the options that choose",
        ));
    }
    let duration = args.duration.map(Duration::try_from_secs_f64).transpose();
    let duration = duration.map_err(|_| Failure::usage("--duration: not a number of seconds"))?;
    if args.path.as_ref().is_some_and(|prefix| !prefix.starts_with('/')) {
        return Err(Failure::usage("--path: the name must be absolute"));
    }
    let wanted = Filter {
        children: !args.command.is_empty() && !args.all,
        user: args.user.as_deref().map(account).transpose()?,
        cgroup: args.cgroup.clone(),
        mount: args.mount.clone(),
        prefix: args.path.clone(),
    };
    let source = concat!("spindle ", env!("CARGO_PKG_VERSION"), ", trace record");
    outfile::check(&args.output, args.out.force)?;
    let signals = Signals::block()?;
    let mut recording = Recording::start(&wanted, &args.output, source)?;
    let (ends, end) = channel();
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
    std::thread::spawn(move || {
        while let Ok(is_interrupt) = signals.wait() {
            // With a command an interrupt from the terminal is its own business: it gets it, too.
            if !(has_command && is_interrupt) {
                let _ = ends.send(End::Signal);
            }
        }
    });
    let reason = match duration {
        None => end.recv().ok(),
        Some(time) => end.recv_timeout(time).ok(),
    };
    tell(&recording.finish()?);
    match reason {
        Some(End::Command(status)) => Ok(ExitCode::from(code(status?))),
        Some(End::Signal) | None => Ok(ExitCode::SUCCESS),
    }
}

/// Why a recording ends.
enum End {
    Command(std::io::Result<ExitStatus>),
    Signal,
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::error::FAILED)
}

fn tell(done: &Summary) {
    let mut err = std::io::stderr();
    // If nobody can be told, the file still says it.
    let _ = writeln!(err, "spindle: {} events recorded", done.events);
    if done.lost > 0 {
        let _ = writeln!(err, "spindle: {} events were lost: counts are lower bounds", done.lost);
    }
    for note in &done.notes {
        let _ = writeln!(err, "spindle: {note}");
    }
}

/// Returns the number of an account.
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
        .ok_or_else(|| Failure::usage(format!("--user: no account {name}")))
}
