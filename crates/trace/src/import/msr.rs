//! The block traces of Microsoft Research Cambridge (Narayanan et al., FAST 2008).
//!
//! Format: the `README.txt` of the traces (SNIA IOTTA repository, set 388):
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, times in Windows' file time (100
//! ns since 1601), offset and size in bytes. Many other published traces use it, too.

use super::text::{Decode, Lines, number, shortened};
use super::{Format, lines};
use crate::{Batch, Event, FileId, Info, Kind};

/// The beginning of 1970 in Windows' file time.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

pub(super) const FORMAT: Format = Format {
    name: "msr",
    about: "CSV of the Microsoft Research Cambridge block traces",
    settings: &[],
    recognises: |start| {
        let lines = lines(start, 20);
        let rest = lines.strip_prefix(&[HEADER.to_owned()]).unwrap_or(&lines);
        !rest.is_empty() && rest.iter().all(|line| parse(line).is_ok())
    },
    open: |input, _| Ok(Box::new(Lines::new(input, Msr::default()))),
};

const HEADER: &str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

#[derive(Default)]
struct Msr {
    started: bool,
    hosts: Vec<String>,
}

struct Request<'a> {
    time: i64,
    host: &'a str,
    disk: u32,
    writes: bool,
    offset: u64,
    size: u64,
}

fn parse(line: &str) -> Result<Request<'_>, String> {
    let fields: Vec<_> = line.split(',').collect();
    let [time, host, disk, kind, offset, size, _response] = fields[..] else {
        return Err(format!("{} columns instead of 7", fields.len()));
    };
    let time: i64 = number(time, "Timestamp")?;
    let time = time.checked_sub(UNIX_EPOCH).and_then(|ticks| ticks.checked_mul(100));
    let writes = match kind.trim() {
        kind if kind.eq_ignore_ascii_case("read") => false,
        kind if kind.eq_ignore_ascii_case("write") => true,
        other => return Err(format!("Type is {:?}, neither Read nor Write", shortened(other))),
    };
    Ok(Request {
        time: time.ok_or("Timestamp is out of range")?,
        host: host.trim(),
        disk: number(disk, "DiskNumber")?,
        writes,
        offset: number(offset, "Offset")?,
        size: number(size, "Size")?,
    })
}

impl Decode for Msr {
    fn line(&mut self, line: &str, out: &mut Batch) -> Result<(), String> {
        if !std::mem::replace(&mut self.started, true) && line == HEADER || line.is_empty() {
            return Ok(());
        }
        let request = parse(line)?;
        let host = self.hosts.iter().position(|host| host == request.host).unwrap_or_else(|| {
            self.hosts.push(request.host.to_owned());
            self.hosts.len() - 1
        });
        let (read, written) = if request.writes { (0, request.size) } else { (request.size, 0) };
        out.events.push(Event {
            time: request.time,
            kind: Kind::Run,
            // Disks of one host keep their numbers.
            file: FileId { device: (host as u64) << 32 | u64::from(request.disk), inode: 0 },
            position: request.offset,
            read,
            written,
            calls: 1,
            path: out.names.symbol(&format!("{}_{}", request.host, request.disk)),
            ..Event::default()
        });
        Ok(())
    }

    fn info(&self) -> Info {
        Info {
            source: "import msr".into(),
            notes: vec!["times are those at which requests were issued".into()],
            ..Info::default()
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::mutations::{events, failure};
    use super::*;

    pub(crate) const SAMPLE: &str = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
        128166372016382155,usr,0,Write,2517696512,4096,703\n\
        128166372026382245,src1,2,Read,0,512,1\n";

    /// Promise: a line is a run of bytes on its disk, with its time since 1970, and disks of
    /// different hosts are distinguished.
    #[test]
    fn a_line_is_a_run() {
        for text in [SAMPLE.to_owned(), format!("{HEADER}\r\n{}", SAMPLE.replace('\n', "\r\n"))] {
            let (batch, info) = events(&text, None).unwrap();
            assert_eq!(info.source, "import msr");
            let found: Vec<_> = batch
                .events
                .iter()
                .map(|e| {
                    let path = batch.names.word(e.path);
                    (e.time, e.kind, e.file.device, e.position, e.read, e.written, path)
                })
                .collect();
            assert_eq!(
                found,
                [
                    // 2007-02-22 17:00:00.306 UTC.
                    (1_172_163_600_306_162_900, Kind::Run, 0, 7_014_609_920, 24576, 0, "usr_0"),
                    (1_172_163_601_638_215_500, Kind::Run, 0, 2_517_696_512, 0, 4096, "usr_0"),
                    (1_172_163_602_638_224_500, Kind::Run, 1 << 32 | 2, 0, 512, 0, "src1_2"),
                ]
            );
        }
    }

    /// Promise: an error names the line and the column.
    #[test]
    fn errors_name_the_place() {
        for (line, what) in [
            ("1,usr,0,Read,0,512", "line 4: 6 columns instead of 7"),
            (
                "128166372003061629,usr,0,Read,18446744073709551615,512,1",
                "line 4: 512 bytes at offset 18446744073709551615 are out of range",
            ),
            ("x,usr,0,Read,0,512,1", "line 4: Timestamp is \"x\", not a number that fits"),
            ("1,usr,0,Trim,0,512,1", "line 4: Type is \"Trim\", neither Read nor Write"),
            ("128166372003061629,usr,0,Read,-1,512,1", "line 4: Offset is \"-1\", not a number that fits"),
            ("-9223372036854775808,usr,0,Read,0,512,1", "line 4: Timestamp is out of range"),
        ] {
            let text = format!("{SAMPLE}{line}\n");
            assert!(failure(&text, Some("msr")).contains(what), "{line}");
        }
    }
}
