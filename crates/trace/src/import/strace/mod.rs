//! Output of strace, the tracer of system calls.
//!
//! The one idea: this module models the state of the kernel: a table of descriptors for each
//! process (shared by threads, copied by `fork`, reduced by `exec`), a position for each open file,
//! a file for each name. Each line changes that state and may give events. `strace -f -ttt -y`
//! gives the best result; without `-y` relative names and inherited descriptors are unknown,
//! without `-f` the child processes are missing.
//!
//! Information that strace does not show is replaced as follows:
//! - *Inodes*: files are numbered by name, from 1, on device 0 ([`files`]). Two names of one file
//!   (hard links made before the trace, symbolic links) count as two files; removing a name counts
//!   as removing the last one unless a link was seen.
//! - *Sizes*: from `stat` calls, from reads that reached the end, and from writes to a new file. An
//!   unknown size is the largest position that was accessed. An `fstat` right after an `open` still
//!   sets the size in the `open` event.
//! - *Whether `O_CREAT` created the file*: yes if the name was unknown before and no such `fstat`
//!   shows content.
//! - *Users*: from the results of `getuid` and similar calls, which most programs make.
//!
//! Sources: strace(1), and the manual pages of the calls. [`syntax`] parses lines, [`state`] has
//! the state, and [`calls`] the effects of each call on it.

mod calls;
mod files;
mod mappings;
mod state;
mod syntax;

use super::text::{Decode, Lines};
use super::{Format, lines};
use crate::{Batch, Info};
use state::State;
use syntax::{Call, LineKind, Stamp};

pub(super) const FORMAT: Format = Format {
    name: "strace",
    about: "output of strace; best is strace -f -ttt -y -o FILE",
    settings: &[],
    recognises: |start| {
        let lines = lines(start, 50);
        let understood = lines.iter().filter(|line| syntax::line(line).is_some()).count();
        let is_call = |line: &String| match syntax::line(line).map(|line| line.kind) {
            Some(LineKind::Call(text)) => Call::parse(text).is_some(),
            _ => false,
        };
        understood * 10 >= lines.len() * 9 && lines.iter().any(is_call)
    },
    open: |input, _| Ok(Box::new(Lines::new(input, Strace::default()))),
};

const DAY: i64 = 24 * 3600 * 1_000_000_000;

/// Combines lines into calls and assigns their times.
#[derive(Default)]
struct Strace {
    state: State,
    number: u64,
    /// Number of lines that were not understood, and the number of the first one.
    unknown_lines: u64,
    first_unknown: u64,
    now: i64,
    /// Midnights that have passed in a log with times of day.
    midnights: i64,
    any_date: bool,
}

impl Strace {
    fn tick(&mut self, stamp: Option<Stamp>) {
        match stamp {
            Some(Stamp::At(at)) if at < DAY => {
                let today = at + self.midnights * DAY;
                let passed = today + DAY / 2 < self.now && self.midnights < 10_000;
                self.midnights += i64::from(passed);
                self.now = if passed { today + DAY } else { today };
            }
            Some(Stamp::At(at)) => {
                self.any_date = true;
                self.now = at;
            }
            Some(Stamp::Since(since)) => self.now = self.now.saturating_add(since),
            None => {}
        }
    }

    fn call(&mut self, process: u32, text: &str, out: &mut Batch) {
        // strace marks some calls that never return as unfinished, but gives their result.
        let text = text.replace(" <unfinished ...>)", ")");
        match Call::parse(&text) {
            Some(call) => {
                let time = self.now.saturating_add(call.took.unwrap_or(0));
                self.state.call(process, time, &call, out);
            }
            None => self.note_unknown(),
        }
    }

    fn note_unknown(&mut self) {
        self.unknown_lines += 1;
        if self.unknown_lines == 1 {
            self.first_unknown = self.number;
        }
    }
}

impl Decode for Strace {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        self.number += 1;
        if line.trim().is_empty() {
            return Ok(());
        }
        let Some(line) = syntax::line(line) else {
            self.note_unknown();
            return Ok(());
        };
        self.tick(line.stamp);
        let process = line.process.unwrap_or(0);
        match line.kind {
            LineKind::Message => {}
            LineKind::Exit => self.state.exit(process, self.now, out),
            LineKind::Unfinished(head) => self.state.begin(process, head),
            LineKind::Resumed(rest) => match self.state.resume(process) {
                Some(head) => self.call(process, &(head + rest), out),
                None => self.note_unknown(),
            },
            LineKind::Call(text) => self.call(process, text, out),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Batch) {
        self.state.end(self.now, out);
    }

    fn batch_taken(&mut self) {
        self.state.batch_taken();
    }

    fn info(&self) -> Info {
        let mut notes = vec![
            "files are numbered by name, because strace does not show inodes".to_owned(),
            "sizes that strace did not show are lower bounds".to_owned(),
        ];
        if !self.any_date {
            notes.push("the log has no dates: times count from 1970".into());
        }
        if self.unknown_lines > 0 {
            notes.push(format!(
                "{} lines were not understood; the first is line {}",
                self.unknown_lines, self.first_unknown
            ));
        }
        notes.extend(self.state.notes());
        Info { source: "import strace".into(), notes, ..Info::default() }
    }
}

#[cfg(test)]
pub(super) mod tests;
