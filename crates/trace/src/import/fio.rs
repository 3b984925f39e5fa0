//! Logs of fio, the I/O tester: its operations (`write_iolog`), and the times of its I/Os
//! (`write_lat_log`, `write_bw_log` and the like).
//!
//! Formats: fio's HOWTO, "Trace file format v2" and "v3", and "Log File Formats". Version 3 begins
//! each line with a time, in microseconds as fio 3.33 writes it; version 2 has `wait` lines
//! instead, in microseconds since the previous wait. Lines of the other logs are `time (ms), value,
//! direction, block size, offset, priority`, with the offset only after `log_offset=1`: without it
//! the bytes are unknown, and the log is refused.

use super::text::{Decode, Lines, number, shortened};
use super::{Format, lines};
use crate::fold::Run;
use crate::{Batch, Event, FileId, Flags, Info, Kind};
use std::collections::HashMap;

pub(super) const IOLOG: Format = Format {
    name: "fio-iolog",
    about: "fio's write_iolog, versions 2 and 3",
    settings: &[],
    recognises: |start| {
        start.starts_with(b"fio version 2 iolog") || start.starts_with(b"fio version 3 iolog")
    },
    open: |input, _| Ok(Box::new(Lines::new(input, Iolog::default()))),
};

pub(super) const LOG: Format = Format {
    name: "fio-log",
    about: "fio's write_lat_log, write_bw_log or write_iops_log, made with log_offset=1",
    settings: &[],
    recognises: |start| {
        let lines = lines(start, 20);
        !lines.is_empty()
            && lines.iter().all(|line| line.matches(", ").count() >= 4 && transfer(line).is_ok())
    },
    open: |input, _| Ok(Box::new(Lines::new(input, Log::default()))),
};

#[derive(Default)]
struct Iolog {
    version: u32,
    now: i64,
    files: HashMap<String, u64>,
    /// Open files with their runs, by name.
    opens: HashMap<String, (u64, Run)>,
    last_open: u64,
    other: u64,
}

impl Iolog {
    fn event(&mut self, name: &str, out: &mut Batch) -> Event {
        let next = self.files.len() as u64 + 1;
        let inode = *self.files.entry(name.to_owned()).or_insert(next);
        Event {
            time: self.now,
            file: FileId { device: 0, inode },
            path: out.names.symbol(name),
            ..Event::default()
        }
    }

    fn micros(micros: i64) -> Result<i64, String> {
        micros
            .checked_mul(1000)
            .filter(|_| micros >= 0)
            .ok_or_else(|| format!("time {micros} is out of range"))
    }

    fn transfer(&mut self, name: &str, event: Event, offset: u64, bytes: u64, writes: bool, out: &mut Batch) {
        let flags = Flags::READ | Flags::WRITE;
        let Some((open, run)) = self.opens.get_mut(name) else {
            let mut run = Run::default();
            run.add(offset, bytes, writes);
            return out.events.push(run.fill_into(Event { kind: Kind::Run, ..event }));
        };
        let open = *open;
        if bytes > 0 && run.end() != offset {
            let ended = std::mem::replace(run, Run::at(offset.min(i64::MAX as u64)));
            out.events.push(ended.fill_into(Event {
                kind: Kind::Seek,
                flags,
                open,
                new_position: run.end(),
                ..event
            }));
        }
        if let Some(ended) = run.add(offset, bytes, writes) {
            out.events.push(ended.fill_into(Event { kind: Kind::Run, flags, open, ..event }));
        }
    }
}

impl Decode for Iolog {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        if self.version == 0 {
            self.version = match line.trim() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                other => {
                    return Err(format!(
                        "{:?} is not the first line of an iolog of version 2 or 3",
                        shortened(other)
                    ));
                }
            };
            return Ok(());
        }
        let mut line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        if self.version == 3 {
            let (time, rest) = line.split_once(' ').ok_or("the line ends after its time")?;
            self.now = Self::micros(number(time, "the time")?)?;
            line = rest;
        }
        // A name may contain spaces; actions and numbers do not.
        let words: Vec<_> = line.split(' ').collect();
        let (action, first) = match words.len() {
            0 | 1 => return Err("an action is missing".into()),
            len if len >= 4 && words[len - 1].parse::<u64>().is_ok() => (words[len - 3], len - 3),
            len => (words[len - 1], len - 1),
        };
        let name = words[..first].join(" ");
        let numbers = || -> Result<(u64, u64), String> {
            let [offset, bytes] = words[first + 1..] else {
                return Err("offset and length are missing".into());
            };
            Ok((number(offset, "the offset")?, number(bytes, "the length")?))
        };
        let mode = Flags::READ | Flags::WRITE;
        match action {
            "add" => drop(self.event(&name, out)),
            "open" => {
                self.last_open += 1;
                let event = self.event(&name, out);
                self.opens.insert(name, (self.last_open, Run::default()));
                out.events.push(Event { kind: Kind::Open, flags: mode, open: self.last_open, ..event });
            }
            "close" => {
                let event = self.event(&name, out);
                if let Some((open, mut run)) = self.opens.remove(&name) {
                    out.events.push(run.take().fill_into(Event {
                        kind: Kind::Close,
                        flags: mode,
                        open,
                        ..event
                    }));
                }
            }
            "wait" => {
                let wait = i64::try_from(numbers()?.0).map_err(|_| "the wait is out of range")?;
                self.now = self.now.saturating_add(Self::micros(wait)?);
            }
            "read" | "write" => {
                let (offset, bytes) = numbers()?;
                let event = self.event(&name, out);
                self.transfer(&name, event, offset, bytes, action == "write", out);
            }
            "sync" | "datasync" => {
                let event = self.event(&name, out);
                let open = self.opens.get(&name).map_or(0, |(open, _)| *open);
                out.events.push(Event { kind: Kind::Sync, open, ..event });
            }
            "trim" => self.other += 1,
            other => return Err(format!("unknown action {:?}", shortened(other))),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Batch) {
        let mut left: Vec<_> = self.opens.drain().filter(|(_, (_, run))| !run.is_empty()).collect();
        left.sort_unstable_by_key(|(_, (open, _))| *open);
        for (name, (open, run)) in left {
            let event = self.event(&name, out);
            let flags = Flags::READ | Flags::WRITE;
            out.events.push(run.fill_into(Event { kind: Kind::Run, flags, open, ..event }));
        }
    }

    fn info(&self) -> Info {
        let mut notes =
            vec!["times count from the beginning of the job; sizes and access modes are unknown".to_owned()];
        if self.other > 0 {
            notes.push(format!("{} trims are left out", self.other));
        }
        Info { source: "import fio-iolog".into(), notes, ..Info::default() }
    }
}

#[derive(Default)]
struct Log {
    trims: u64,
}

/// Parses a line into its time in ns, direction, bytes and offset.
fn transfer(line: &str) -> Result<(i64, u32, u64, u64), String> {
    let fields: Vec<_> = line.split(',').collect();
    let [time, _value, direction, bytes, offset, ..] = fields[..] else {
        return Err("there is no offset: make the log with log_offset=1".into());
    };
    let time: i64 = number(time, "the time")?;
    let time = time.checked_mul(1_000_000).ok_or("the time is out of range")?;
    Ok((
        time,
        number(direction, "the direction")?,
        number(bytes, "the block size")?,
        number(offset, "the offset")?,
    ))
}

impl Decode for Log {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let (time, direction, bytes, offset) = transfer(line)?;
        if direction > 1 {
            self.trims += 1;
            return Ok(());
        }
        let mut run = Run::default();
        run.add(offset, bytes, direction == 1);
        out.events.push(run.fill_into(Event { time, kind: Kind::Run, ..Event::default() }));
        Ok(())
    }

    fn info(&self) -> Info {
        let mut notes = vec![
            "times count from the beginning of the job, in milliseconds; the log does not name its file"
                .to_owned(),
        ];
        if self.trims > 0 {
            notes.push(format!("{} trims and others are left out", self.trims));
        }
        Info { source: "import fio-log".into(), notes, ..Info::default() }
    }
}

#[cfg(test)]
pub(super) mod tests;
