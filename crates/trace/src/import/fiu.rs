//! The traces of Florida International University, of disks and of system calls.
//!
//! *Disks* (`fiu-block`; Koller and Rangaswami, FAST 2010, and others): the `README` of SNIA
//! IOTTA's block traces, set 411: `[ts in ns] [pid] [process] [lba] [size in 512 Bytes blocks]
//! [Write or Read] [major device number] [minor device number] [MD5 per 4096 Bytes]`.
//!
//! *System calls* (`fiu-syscall`; Campello et al., "Non-blocking Writes to Files", FAST 2015): the
//! page of the traces, sylab-srv.cs.fiu.edu/projects/nbw/traces: `[seq num] [ts in ns] [operation]
//! [inode num] [inode size in Bytes] [offset in Bytes] [size in Bytes] [HIT, MISS or APPEND]` for
//! READ and WRITE, only the first five for OPEN, CLOSE, FSYNC and FDATASYNC. They have neither
//! process nor descriptor: closes of a file are matched with its opens in order, and a transfer
//! belongs to an open file only while its file has exactly one.

use super::blkparse::device_number;
use super::text::{Decode, Lines, number, shortened};
use super::{Format, lines};
use crate::fold::Run;
use crate::{Batch, Event, FileId, Info, Kind};
use std::collections::{HashMap, VecDeque};

pub(super) const BLOCK: Format = Format {
    name: "fiu-block",
    about: "block traces of Florida International University",
    settings: &[],
    recognises: |start| all(start, |line| request(line).is_ok()),
    open: |input, _| Ok(Box::new(Lines::new(input, Block))),
};

pub(super) const SYSCALL: Format = Format {
    name: "fiu-syscall",
    about: "system call traces of Florida International University",
    settings: &[],
    recognises: |start| all(start, |line| call(line).is_ok()),
    open: |input, _| Ok(Box::new(Lines::new(input, Syscalls::default()))),
};

fn all(start: &[u8], good: impl Fn(&str) -> bool) -> bool {
    let lines = lines(start, 20);
    !lines.is_empty() && lines.iter().all(|line| good(line))
}

fn time(text: &str) -> Result<i64, String> {
    number(text, "the time")
}

struct Block;

struct Request {
    time: i64,
    process: u32,
    position: u64,
    bytes: u64,
    writes: bool,
    device: u64,
    command: String,
}

fn request(line: &str) -> Result<Request, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    // A program's name may contain spaces; the other fields do not.
    let [at, process, command @ .., lba, size, direction, major, minor, _digest] = &words[..] else {
        return Err(format!("{} words instead of 9", words.len()));
    };
    let writes = match *direction {
        "W" => true,
        "R" => false,
        other => return Err(format!("{:?} is neither W nor R", shortened(other))),
    };
    let bytes = |text: &str, what: &str| -> Result<u64, String> {
        let blocks: u64 = number(text, what)?;
        blocks
            .checked_mul(512)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or(format!("{what} is out of range"))
    };
    Ok(Request {
        time: time(at)?,
        process: number(process, "the process")?,
        position: bytes(lba, "the address")?,
        bytes: bytes(size, "the size")?,
        writes,
        device: device_number(number(major, "the device")?, number(minor, "the device")?),
        command: command.join(" "),
    })
}

impl Decode for Block {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let request = request(line)?;
        let (read, written) = if request.writes { (0, request.bytes) } else { (request.bytes, 0) };
        out.events.push(Event {
            time: request.time,
            kind: Kind::Run,
            file: FileId { device: request.device, inode: 0 },
            process: request.process,
            position: request.position,
            read,
            written,
            calls: 1,
            command: out.names.symbol(&request.command),
            ..Event::default()
        });
        Ok(())
    }

    fn info(&self) -> Info {
        Info { source: "import fiu-block".into(), ..Info::default() }
    }
}

enum Operation {
    Open,
    Close,
    Sync,
    Transfer { offset: u64, bytes: u64, writes: bool },
}

struct Call {
    time: i64,
    inode: u64,
    size: u64,
    operation: Operation,
}

fn call(line: &str) -> Result<Call, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [sequence, at, operation, inode, size, rest @ ..] = &words[..] else {
        return Err(format!("{} words instead of at least 5", words.len()));
    };
    let _: u64 = number(sequence, "the sequence number")?;
    let operation = match (operation.to_ascii_uppercase().as_str(), rest) {
        ("OPEN", _) => Operation::Open,
        ("CLOSE", _) => Operation::Close,
        ("FSYNC" | "FDATASYNC", _) => Operation::Sync,
        (name @ ("READ" | "WRITE"), [offset, bytes, ..]) => Operation::Transfer {
            offset: number(offset, "the offset")?,
            bytes: number(bytes, "the size")?,
            writes: name == "WRITE",
        },
        ("READ" | "WRITE", _) => return Err("offset and size are missing".into()),
        _ => return Err(format!("unknown operation {:?}", shortened(operation))),
    };
    Ok(Call {
        time: time(at)?,
        inode: number(inode, "the inode")?,
        size: number(size, "the file's size")?,
        operation,
    })
}

#[derive(Default)]
struct Syscalls {
    last_open: u64,
    opens: HashMap<u64, VecDeque<(u64, Run)>>,
    unmatched: u64,
}

impl Decode for Syscalls {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let Call { time, inode, size, operation } = call(line)?;
        let size = size.min(i64::MAX as u64);
        let event = Event { time, file: FileId { device: 0, inode }, ..Event::default() };
        match operation {
            Operation::Open => {
                self.last_open += 1;
                self.opens.entry(inode).or_default().push_back((self.last_open, Run::default()));
                out.events.push(Event { kind: Kind::Open, open: self.last_open, size, ..event });
            }
            Operation::Close => {
                let opens = self.opens.entry(inode).or_default();
                match opens.pop_front() {
                    Some((open, mut run)) => {
                        out.events.push(run.take().fill_into(Event {
                            kind: Kind::Close,
                            open,
                            size,
                            ..event
                        }));
                    }
                    None => self.unmatched += 1,
                }
                if opens.is_empty() {
                    self.opens.remove(&inode);
                }
            }
            Operation::Sync => {
                let open = match self.opens.get(&inode).map(|opens| (opens.len(), opens.front())) {
                    Some((1, Some((open, _)))) => *open,
                    _ => 0,
                };
                out.events.push(Event { kind: Kind::Sync, open, ..event });
            }
            Operation::Transfer { offset, bytes, writes } => self.transfer(event, offset, bytes, writes, out),
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Batch) {
        let mut left: Vec<_> = self
            .opens
            .drain()
            .flat_map(|(inode, opens)| opens.into_iter().map(move |o| (inode, o)))
            .collect();
        left.sort_unstable_by_key(|(_, (open, _))| *open);
        let time = out.events.last().map_or(0, |event| event.time);
        for (inode, (open, run)) in left.into_iter().filter(|(_, (_, run))| !run.is_empty()) {
            let file = FileId { device: 0, inode };
            out.events.push(run.fill_into(Event { time, kind: Kind::Run, open, file, ..Event::default() }));
        }
    }

    fn info(&self) -> Info {
        let mut notes = vec![
            "processes, names and access modes are unknown; closes are matched with opens in order"
                .to_owned(),
            "transfers while a file was open more than once belong to no open file".to_owned(),
        ];
        if self.unmatched > 0 {
            notes.push(format!("{} closes without an open are left out", self.unmatched));
        }
        Info { source: "import fiu-syscall".into(), notes, ..Info::default() }
    }
}

impl Syscalls {
    fn transfer(&mut self, event: Event, offset: u64, bytes: u64, writes: bool, out: &mut Batch) {
        let event = Event { kind: Kind::Run, ..event };
        let Some((open, run)) =
            self.opens.get_mut(&event.file.inode).filter(|o| o.len() == 1).and_then(|o| o.front_mut())
        else {
            let mut run = Run::default();
            run.add(offset, bytes, writes);
            return out.events.push(run.fill_into(event));
        };
        let open = *open;
        if bytes > 0 && run.end() != offset {
            let ended = std::mem::replace(run, Run::at(offset.min(i64::MAX as u64)));
            out.events.push(ended.fill_into(Event {
                kind: Kind::Seek,
                open,
                new_position: run.end(),
                ..event
            }));
        }
        if let Some(ended) = run.add(offset, bytes, writes) {
            out.events.push(ended.fill_into(Event { open, ..event }));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::mutations::{events, failure};
    use super::*;

    pub(crate) const BLOCKS: &str = "\
89966445267 4892 syslogd 904265560 8 W 6 0 531e779d8afaef0bf5b01e64a8bd2f4c
89966445268 12 two words 16 1 R 8 1 0cc175b9c0f1b6a831c399e269772661
";

    pub(crate) const CALLS: &str = "\
1 100 OPEN 7 5000
2 200 READ 7 5000 0 4096 MISS
3 300 READ 7 5000 4096 904 HIT
4 400 WRITE 7 5000 100 50
5 500 OPEN 7 5000
6 600 READ 7 5000 0 10
7 700 FSYNC 7 5000
8 800 CLOSE 7 5000
9 900 CLOSE 7 5000
10 950 CLOSE 7 5000
11 990 WRITE 8 0 0 100 APPEND
";

    /// Promise: a line of a block trace is a run on its disk.
    #[test]
    fn blocks() {
        let (batch, info) = events(BLOCKS, None).unwrap();
        let found: Vec<_> = batch
            .events
            .iter()
            .map(|e| {
                (e.time, e.process, e.file.device, e.position, e.read, e.written, batch.names.word(e.command))
            })
            .collect();
        assert_eq!(
            found,
            [
                (89_966_445_267, 4892, 0x600, 904_265_560 * 512, 0, 4096, "syslogd"),
                (89_966_445_268, 12, 0x801, 8192, 512, 0, "two words")
            ]
        );
        assert_eq!(info.source, "import fiu-block");
        let wrong = format!("{BLOCKS}1 2 x 3 4 T 5 6 7\n");
        assert!(failure(wrong, Some("fiu-block")).contains("line 3: \"T\" is neither W nor R"));
    }

    /// Promise: transfers of a file that is open once are merged into its runs, others are
    /// separate.
    #[test]
    fn calls() {
        let (batch, info) = events(CALLS, None).unwrap();
        let found: Vec<_> = batch
            .events
            .iter()
            .map(|e| (e.time, e.kind, e.open, e.position, e.read, e.written, e.calls))
            .collect();
        assert_eq!(
            found,
            [
                (100, Kind::Open, 1, 0, 0, 0, 0),
                (400, Kind::Seek, 1, 0, 5000, 0, 2),
                (500, Kind::Open, 2, 0, 0, 0, 0),
                (600, Kind::Run, 0, 0, 10, 0, 1),
                (700, Kind::Sync, 0, 0, 0, 0, 0),
                (800, Kind::Close, 1, 100, 0, 50, 1),
                (900, Kind::Close, 2, 0, 0, 0, 0),
                (990, Kind::Run, 0, 0, 0, 100, 1),
            ]
        );
        assert!(info.notes.iter().any(|note| note.starts_with("1 closes")), "{:?}", info.notes);
        for (line, what) in [
            ("1 2 READ 3 4", "offset and size are missing"),
            ("1 2 STAT 3 4", "unknown operation \"STAT\""),
            ("1 2 OPEN 3", "4 words"),
        ] {
            assert!(failure(format!("{CALLS}{line}\n"), Some("fiu-syscall")).contains(what), "{line}");
        }
    }
}
