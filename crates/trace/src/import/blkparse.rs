//! Output of blkparse, the text form of traces of the Linux block layer.
//!
//! Format: blkparse(1), the default output: `8,0 3 11 0.009507758 697 Q W 223490 + 8 [kjournald]`:
//! device, CPU, sequence number, seconds since the trace began, process, action, kind of request
//! (RWBS), first sector and number of sectors of 512 bytes, program.
//!
//! A request appears several times on its way. Only one action is imported: `Q` (queued), or if the
//! start of the trace has none, `D` (sent to the driver), or else `C` (completed). Lines of other
//! actions, and the summary at the end, are skipped.

use super::text::{Decode, Lines, number};
use super::{Format, lines};
use crate::{Batch, Error, Event, FileId, Flags, Info, Kind};

pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    about: "text of blkparse, in its default format",
    settings: &[("action", "which lines to import: Q (queued), D (sent to the driver) or C (completed)")],
    recognises: |start| {
        let lines = lines(start, 200);
        let requests = lines.iter().filter(|line| matches!(parse(line), Ok(Some(_)))).count();
        requests > 0 && requests * 2 >= lines.len().min(20)
    },
    open: |input, settings| {
        let start = lines(&input.start(), usize::MAX);
        let has = |action: &&str| {
            start.iter().any(|line| matches!(parse(line), Ok(Some(r)) if r.action == *action))
        };
        let action = match settings.get("action") {
            Some(action) if ["Q", "D", "C"].contains(&action) => action.to_owned(),
            Some(other) => {
                return Err(Error::Refused(format!("format blkparse: action {other:?} is not Q, D or C")));
            }
            None => ["Q", "D", "C"].iter().find(|action| has(action)).copied().unwrap_or("Q").to_owned(),
        };
        Ok(Box::new(Lines::new(input, Blkparse { action, discards: 0, other: 0 })))
    },
};

struct Blkparse {
    action: String,
    discards: u64,
    other: u64,
}

struct Request<'a> {
    device: u64,
    time: i64,
    process: u32,
    action: &'a str,
    kind: &'a str,
    sector: u64,
    sectors: u64,
    command: &'a str,
}

/// Parses a line; returns `None` for other kinds of line.
fn parse(line: &str) -> Result<Option<Request<'_>>, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let [device, cpu, sequence, time, process, action, kind, rest @ ..] = &words[..] else { return Ok(None) };
    let Some((major, minor)) = device.split_once(',') else { return Ok(None) };
    let numbers = [major, minor, cpu, sequence];
    if !numbers.iter().all(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(None);
    }
    let [sector, "+", sectors, ..] = rest else { return Ok(None) };
    let (seconds, nanos) = time.split_once('.').ok_or("the time has no decimal point")?;
    let seconds: i64 = number(seconds, "the time")?;
    let nanos: i64 = number(&format!("{nanos:0<9}"), "the time")?;
    let command = line.rsplit_once('[').and_then(|(_, rest)| rest.strip_suffix(']')).unwrap_or("");
    let time = seconds.checked_mul(1_000_000_000).and_then(|at| at.checked_add(nanos));
    let bytes = |text: &str, what: &str| -> Result<u64, String> {
        let sectors: u64 = number(text, what)?;
        sectors
            .checked_mul(512)
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or(format!("{what} is out of range"))
    };
    Ok(Some(Request {
        device: device_number(number(major, "the device")?, number(minor, "the device")?),
        time: time.ok_or("the time is out of range")?,
        process: number(process, "the process")?,
        action,
        kind,
        sector: bytes(sector, "the sector")?,
        sectors: bytes(sectors, "the number of sectors")?,
        command,
    }))
}

/// Returns a device number as Linux's `makedev(3)` encodes it for programs.
pub(super) fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

impl Decode for Blkparse {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        let Some(request) = parse(line)?.filter(|request| request.action == self.action) else {
            return Ok(());
        };
        if request.kind.contains('D') {
            self.discards += 1;
            return Ok(());
        }
        // `R`, `RA` (read ahead), `RM`; `W`, `WS`, `FWS`.
        let (read, written) = match (request.kind.contains('R'), request.kind.contains('W')) {
            (true, false) => (request.sectors, 0),
            (false, true) => (0, request.sectors),
            _ => {
                self.other += 1;
                return Ok(());
            }
        };
        if request.sectors > 0 {
            out.events.push(Event {
                time: request.time,
                kind: Kind::Run,
                flags: Flags::NONE,
                file: FileId { device: request.device, inode: 0 },
                process: request.process,
                position: request.sector,
                read,
                written,
                calls: 1,
                command: out.names.symbol(request.command),
                ..Event::default()
            });
        }
        Ok(())
    }

    fn info(&self) -> Info {
        let mut notes = vec![format!(
            "imported lines of action {}; times count from the beginning of the trace",
            self.action
        )];
        if self.discards > 0 {
            notes.push(format!("{} discard requests are left out", self.discards));
        }
        if self.other > 0 {
            notes.push(format!("{} requests that neither read nor wrote are left out", self.other));
        }
        Info { source: "import blkparse".into(), notes, ..Info::default() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::mutations::{events, failure};
    use super::*;

    pub(crate) const SAMPLE: &str = "\
  8,16   3        1     0.000000000   697  A   W 2048 + 8 <- (8,17) 0
  8,16   3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,16   3        3     0.000005000   697  D   W 223490 + 8 [kjournald]
  8,16   1        4     0.009507758  1016  Q  RA 512 + 256 [two words]
  8,16   1        5     0.010000000  1016  Q   D 1024 + 8 [fstrim]
  8,16   1        6     0.010000001  1016  Q FWS [fsync]
  8,16   1        7     0.010000002  1016  P   N [fsync]
  8,16   3        8     1.500000000     0  C   W 223490 + 8 [0]
CPU0 (8,16):
 Reads Queued:           1,      128KiB  Writes Queued:           1,        4KiB
";

    /// Promise: a request is imported once, in bytes, with its device, process and program; the
    /// action can be chosen.
    #[test]
    fn a_request_is_imported_once() {
        let (batch, info) = events(SAMPLE, None).unwrap();
        let found: Vec<_> = batch
            .events
            .iter()
            .map(|e| {
                (e.time, e.file.device, e.process, e.position, e.read, e.written, batch.names.word(e.command))
            })
            .collect();
        assert_eq!(
            found,
            [
                (1829, 0x810, 697, 223_490 * 512, 0, 4096, "kjournald"),
                (9_507_758, 0x810, 1016, 512 * 512, 131_072, 0, "two words")
            ]
        );
        assert!(info.notes.iter().any(|note| note.contains("1 discard requests")), "{:?}", info.notes);
        let (batch, _) = events(SAMPLE, Some("blkparse:action=C")).unwrap();
        assert_eq!(batch.events.iter().map(|e| e.time).collect::<Vec<_>>(), [1_500_000_000]);
        let without: String =
            SAMPLE.lines().filter(|line| !line.contains("  Q ")).map(|line| line.to_owned() + "\n").collect();
        assert_eq!(events(without, None).unwrap().0.events[0].time, 5000);
        assert!(failure(SAMPLE, Some("blkparse:action=M")).contains("is not Q, D or C"));
        let wrong = SAMPLE.replace("223490 + 8 [k", "99999999999999999999 + 8 [k");
        assert!(failure(wrong, Some("blkparse")).contains("line 2: the sector is \"99999999999999999999\""));
    }

    /// Promise: device numbers are encoded as the system does.
    #[test]
    fn device_numbers() {
        assert_eq!(
            [device_number(8, 16), device_number(259, 0), device_number(8, 300)],
            [0x810, 0x10300, 0x10_082c]
        );
    }
}
