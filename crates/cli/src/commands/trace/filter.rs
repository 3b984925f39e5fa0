//! `spindle trace filter`

use crate::date;
use crate::error::{Failure, Result};
use crate::logger;
use crate::outfile::{self, Kind, OutArgs};
use spindle::pattern::Pattern;
use spindle_trace::Columns;
use spindle_trace::filter::{FileType, Filtered, Moment, Selection, WordTest};
use std::path::PathBuf;
use std::process::ExitCode;

/// Take a part of a trace: files, programs, processes, users, and a window of time
///
/// An event is kept if it has one of the values of each option that is given. An open file is kept
/// as a whole, or not at all: what counts is which file it is, and who opened it. If it was opened
/// before the window, the new trace begins with it as with a file that was open before a recording;
/// if it is closed later, the new trace ends before that. The bytes of a run count when it ends. A
/// note in the new trace says how it was filtered.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXIT CODES
    0  done    1  the trace cannot be read or written    2  invalid command line

EXAMPLES
    spindle trace filter build.trace --comm 'cc1*' -o compiler.trace
    spindle trace filter all.trace --path /home --path '*.o' -o some.trace
    spindle trace filter all.trace --uid 1000 --time 60,120 -o minute.trace
    spindle trace filter all.trace --time 2026-05-20T16:00,2026-05-20T17:00 \\
        -o hour.trace")]
pub struct Args {
    /// Only files whose absolute path has the form of this pattern, or that are below such a path;
    /// * and ? also stand for slashes. May be given several times
    #[arg(long, value_name = "PATTERN")]
    path: Vec<String>,
    /// Only files of these types: f for regular files, d for directories, l for symbolic links
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    types: Vec<Type>,
    /// Only what programs did whose name has the form of one of these patterns
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    comm: Vec<String>,
    /// Only what these processes did
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Only what these users did; a number, because another host may have other names
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    uid: Vec<u32>,
    /// Only from START on, and before STOP: seconds since the first event, or dates in UTC such as
    /// 2026-05-20T16:49:03, or @SECONDS since 1970. Either may be empty
    #[arg(long, value_name = "START,STOP", value_parser = window)]
    time: Option<Window>,
    /// The trace to write; - for standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Type {
    F,
    D,
    L,
}

/// The value of --time.
#[derive(Clone, Debug)]
struct Window {
    text: String,
    from: Option<Moment>,
    until: Option<Moment>,
}

fn window(text: &str) -> std::result::Result<Window, String> {
    let (from, until) = text.split_once(',').ok_or("give two moments with a comma between them")?;
    let (from, until) = (moment(from)?, moment(until)?);
    let is_empty = match (from, until) {
        (Some(Moment::At(from)), Some(Moment::At(until)))
        | (Some(Moment::After(from)), Some(Moment::After(until))) => from >= until,
        _ => false,
    };
    if is_empty {
        return Err("STOP is not later than START".into());
    }
    Ok(Window { text: text.into(), from, until })
}

fn moment(text: &str) -> std::result::Result<Option<Moment>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let nanos = |secs: i64, nanos: u32| secs.checked_mul(1_000_000_000)?.checked_add(nanos.into());
    // A number of seconds is what @SECONDS is, but from the first event on.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let time = date::parse(&if is_number { format!("@{text}") } else { text.into() });
    let time =
        time.map_err(|what| if is_number { format!("'{text}' is no number of seconds") } else { what })?;
    let time = nanos(time.secs, time.nanos).ok_or_else(|| format!("'{text}' is too far away"))?;
    Ok(Some(if is_number { Moment::After(time) } else { Moment::At(time) }))
}

/// Returns a test whether a word has the form of one of these patterns; none if there are none.
fn test(patterns: impl IntoIterator<Item = String>) -> Option<WordTest> {
    let patterns: Vec<_> =
        patterns.into_iter().map(|pattern| Pattern::new(pattern.as_bytes(), false)).collect();
    (!patterns.is_empty()).then(|| -> WordTest {
        Box::new(move |word| patterns.iter().any(|pattern| pattern.matches(word.as_bytes())))
    })
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    outfile::refuse_input(&args.output, &args.trace)?;
    outfile::check(&args.output, Kind::Trace, args.out.force)?;
    let how = how(args);
    if how.is_empty() {
        return Err(Failure::usage(
            "nothing is filtered; give --path, --type, --comm, --pid, --uid or --time",
        ));
    }
    let below = |path: &String| [path.clone(), format!("{}/*", path.trim_end_matches('/'))];
    let window = args.time.as_ref();
    let wanted = Selection {
        paths: test(args.path.iter().flat_map(below)),
        types: args.types.iter().map(|&kind| kind.into()).collect(),
        commands: test(args.comm.iter().cloned()),
        processes: args.pid.clone(),
        users: args.uid.clone(),
        from: window.and_then(|window| window.from),
        until: window.and_then(|window| window.until),
    };
    let mut source = Filtered::new(super::open(&args.trace, Columns::ALL)?, wanted, &how);
    let events = super::write(&mut source, &args.output, args.out, "filtering")?;
    if events == 0 {
        logger::note(format_args!("{}: no event has all of {how}", args.trace.display()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the options by which events are chosen, for the note in the new trace.
fn how(args: &Args) -> String {
    let mut words = Vec::new();
    words.extend(args.path.iter().map(|path| format!("--path {path}")));
    words.extend(args.types.iter().map(|kind| format!("--type {}", format!("{kind:?}").to_lowercase())));
    words.extend(args.comm.iter().map(|name| format!("--comm {name}")));
    words.extend(args.pid.iter().map(|pid| format!("--pid {pid}")));
    words.extend(args.uid.iter().map(|uid| format!("--uid {uid}")));
    words.extend(args.time.iter().map(|window| format!("--time {}", window.text)));
    words.join(" ")
}

impl From<Type> for FileType {
    fn from(letter: Type) -> Self {
        match letter {
            Type::F => Self::Regular,
            Type::D => Self::Directory,
            Type::L => Self::Symlink,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a moment is a number of seconds after the first event, or a date; a window has two,
    /// of which each may be missing, in their order.
    #[test]
    fn windows() {
        let both = |text| window(text).map(|window| (window.from, window.until));
        let (second, date) = (1_000_000_000, 1_779_292_800_000_000_000);
        assert_eq!(
            both("1.5,20"),
            Ok((Some(Moment::After(1_500_000_000)), Some(Moment::After(20 * second))))
        );
        assert_eq!(both(",@7"), Ok((None, Some(Moment::At(7 * second)))));
        assert_eq!(both("2026-05-20T16:00,"), Ok((Some(Moment::At(date)), None)));
        assert!(both("1,2026-05-20").is_ok());
        for (text, what) in [
            ("5", "two moments"),
            ("2,2", "not later"),
            ("@3,@2", "not later"),
            ("1.2.3,", "no number of seconds"),
            ("x,", "'x' is no date"),
            ("99999999999999999,", "too far away"),
        ] {
            let refused = both(text).unwrap_err();
            assert!(refused.contains(what), "{text}: {refused}");
        }
    }
}
