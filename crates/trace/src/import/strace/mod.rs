//! Output of strace, the tracer of system calls that is everywhere.
//!
//! The one idea: what the kernel keeps is kept here, too: for each process a table of descriptors
//! (shared by threads, copied by `fork`, cut by `exec`), for each open file its position, for each
//! name a file; each line changes that state, and events fall out. `strace -f -ttt -y` gives the
//! most; without `-y` relative names and descriptors that were passed in are unknown, without `-f`
//! children are.
//!
//! What strace does not say, and what is done about it:
//! - *Inodes*: files are numbered by name, from 1, on device 0 ([`files`]). Two names of one file
//!   (links made before the trace, a way through a symbolic link) are two files; a name's removal
//!   is taken for the last one unless a link was seen.
//! - *Sizes*: from `stat` calls, from reads that came to the end, from what was written to a new
//!   file. An unknown size is told as what was reached at least. An `fstat` right after an `open`
//!   still counts for the `open`.
//! - *Whether `O_CREAT` made the file*: yes if the name was not met before and no such `fstat`
//!   shows contents.
//! - *Users*: from the answers to `getuid` and the like, which most programs ask for.
//!
//! Sources: strace(1), and the manual pages of the calls. [`syntax`] is what a line says, [`state`]
//! what is kept, [`calls`] what each call does to it.

mod calls;
mod files;
mod state;
mod syntax;

use super::text::{Decode, Lines};
use super::{Format, lines};
use crate::{Batch, Info};
use state::State;
use syntax::{Call, Stamp, What};

pub(super) const FORMAT: Format = Format {
    name: "strace",
    about: "output of strace; best is strace -f -ttt -y -o FILE",
    settings: &[],
    recognises: |start| {
        let lines = lines(start, 50);
        let understood = lines.iter().filter(|line| syntax::line(line).is_some()).count();
        let is_call = |line: &String| match syntax::line(line).map(|line| line.what) {
            Some(What::Call(text)) => Call::parse(text).is_some(),
            _ => false,
        };
        understood * 10 >= lines.len() * 9 && lines.iter().any(is_call)
    },
    open: |input, _| Ok(Box::new(Lines::new(input, Strace::default()))),
};

const DAY: i64 = 24 * 3600 * 1_000_000_000;

/// Puts lines together to calls and gives them a time.
#[derive(Default)]
struct Strace {
    state: State,
    number: u64,
    /// Lines that were not understood, and the first of them.
    odd: u64,
    first_odd: u64,
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
        // strace says of some calls that never return that they are unfinished, and gives their
        // result nevertheless.
        let text = text.replace(" <unfinished ...>)", ")");
        match Call::parse(&text) {
            Some(call) => {
                let time = self.now.saturating_add(call.took.unwrap_or(0));
                self.state.call(process, time, &call, out);
            }
            None => self.note_odd(),
        }
    }

    fn note_odd(&mut self) {
        self.odd += 1;
        if self.odd == 1 {
            self.first_odd = self.number;
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
            self.note_odd();
            return Ok(());
        };
        self.tick(line.stamp);
        let process = line.process.unwrap_or(0);
        match line.what {
            What::Remark => {}
            What::Exit => self.state.exit(process, self.now, out),
            What::Unfinished(head) => self.state.begin(process, head),
            What::Resumed(rest) => match self.state.resume(process) {
                Some(head) => self.call(process, &(head + rest), out),
                None => self.note_odd(),
            },
            What::Call(text) => self.call(process, text, out),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Batch) {
        self.state.end(self.now, out);
    }

    fn given(&mut self) {
        self.state.given();
    }

    fn info(&self) -> Info {
        let mut notes = vec![
            "files are numbered by name, as strace tells no inodes".to_owned(),
            "a size that strace did not show is what was reached at least".to_owned(),
        ];
        if !self.any_date {
            notes.push("the log has no dates: times count from 1970".into());
        }
        if self.odd > 0 {
            notes.push(format!(
                "{} lines were not understood, the first is line {}",
                self.odd, self.first_odd
            ));
        }
        notes.extend(self.state.notes());
        Info { source: "import strace".into(), lost: 0, notes }
    }
}

#[cfg(test)]
pub(super) mod tests;
