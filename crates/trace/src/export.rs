//! Exports a trace for other cache simulators: requests for blocks, in libCacheSim's oracleGeneral
//! format or as CSV.
//!
//! The one idea: the next request for a block is known only later, so records are written forwards
//! without it, and it is then filled in backwards, in place. Memory holds the distinct blocks, and
//! does not grow with the number of requests.
//!
//! Format and rule: `traceReader/customizedReader/oracle/oracleGeneralBin.h` and
//! `bin/traceUtils/traceConv.cpp` of libCacheSim (github.com/1a1a11a/libCacheSim, 2024-10): records
//! of 24 bytes, `u32` seconds, `u64` object, `u32` size, `i64` next; requests count from 1, and -1
//! means none.

use crate::{Batch, Error, FileId, Flags, Kind, Result, Source};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Size of a record in bytes.
const RECORD: usize = 24;
/// Number of records filled in at a time.
const CHUNK: u64 = 1 << 15;
/// Maximum number of distinct blocks, as of a simulation: more would not fit into memory.
const MAX_BLOCKS: u64 = 1 << 30;

/// An output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// Columns `time` (s), `object`, `size` (bytes), `op` (read or write), with a header.
    Csv,
}

/// Counts of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Number of requests.
    pub requests: u64,
    /// Number of distinct blocks.
    pub blocks: u64,
    /// Bytes of files that were mapped into memory, which are not exported: a trace does not say
    /// what of them was touched.
    pub mapped: u64,
}

/// Numbers blocks in the order of their first requests. If the id of a deleted file is reused, its
/// blocks get new numbers.
#[derive(Default)]
struct Blocks {
    numbers: HashMap<(FileId, u32, u64), u64>,
    lives: HashMap<FileId, u32>,
}

impl Blocks {
    fn number(&mut self, file: FileId, block: u64) -> u64 {
        let life = self.lives.get(&file).copied().unwrap_or(0);
        let next = self.numbers.len() as u64 + 1;
        *self.numbers.entry((file, life, block)).or_insert(next)
    }
}

/// Writes every block that a run of the trace touches as a request of `block` bytes, in order, to
/// an empty file, which errors call by its path; for [`To::OracleGeneral`] it must be a regular
/// one. Runs that were only mapped make no requests. `progress` receives the part that is done,
/// from 0 to 1, if known.
///
/// # Errors
/// Errors of the source; [`Error::Io`]; [`Error::Refused`] if `block` is 0 or larger than 2^32 - 1
/// bytes, and for a run that could bring the number of distinct blocks above 2^30.
pub fn export(
    source: &mut dyn Source,
    to: To,
    block: u64,
    (file, path): (File, &Path),
    mut progress: impl FnMut(Option<f64>),
) -> Result<Exported> {
    let size = u32::try_from(block).ok().filter(|size| *size > 0);
    let size = size.ok_or_else(|| {
        Error::Refused(format!("blocks of {block} bytes cannot be exported; use 1 to 4294967295"))
    })?;
    let fail = |e| Error::io(path, e);
    let mut out = BufWriter::with_capacity(1 << 16, file);
    if to == To::Csv {
        writeln!(out, "time,object,size,op").map_err(fail)?;
    }
    let mut blocks = Blocks::default();
    let (mut requests, mut mapped) = (0, 0_u64);
    let mut batch = Batch::default();
    while source.next(&mut batch)? {
        for event in &batch.events {
            if event.flags.has(Flags::MAPPED) {
                mapped = mapped.saturating_add(event.bytes());
            } else if event.end() > event.position && event.kind.ends_run() {
                let seconds = event.time.div_euclid(1_000_000_000);
                let (first, last) = (event.position / block, (event.end() - 1) / block);
                if last - first >= MAX_BLOCKS - blocks.numbers.len() as u64 {
                    let what = format!(
                        "a run of {} bytes at {} ns: more than a billion blocks; use larger blocks",
                        event.bytes(),
                        event.time
                    );
                    return Err(Error::Refused(what));
                }
                for number in first..=last {
                    let object = blocks.number(event.file, number);
                    requests += 1;
                    match to {
                        To::OracleGeneral => {
                            // The format has no other times; those outside its range are clamped.
                            let seconds = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
                            out.write_all(&record(seconds, object, size, -1)).map_err(fail)?;
                        }
                        To::Csv => {
                            let op = if event.written > 0 { "write" } else { "read" };
                            writeln!(out, "{seconds},{object},{size},{op}").map_err(fail)?;
                        }
                    }
                }
            }
            // Without its deletion, which a part of a trace may lack, a file ends with its next
            // creation.
            if event.flags.has(Flags::LAST) || event.kind == Kind::Create {
                *blocks.lives.entry(event.file).or_default() += 1;
            }
        }
        progress(source.progress());
    }
    let exported = Exported { requests, blocks: blocks.numbers.len() as u64, mapped };
    drop(blocks);
    let mut file = out.into_inner().map_err(|e| fail(e.into_error()))?;
    if to == To::OracleGeneral {
        link(&mut file, requests).map_err(fail)?;
    }
    Ok(exported)
}

fn record(seconds: u32, object: u64, size: u32, next: i64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&seconds.to_le_bytes());
    record[4..12].copy_from_slice(&object.to_le_bytes());
    record[12..16].copy_from_slice(&size.to_le_bytes());
    record[16..].copy_from_slice(&next.to_le_bytes());
    record
}

/// Fills in the next request of each object, from the last record to the first.
fn link(file: &mut File, requests: u64) -> std::io::Result<()> {
    let mut next: HashMap<[u8; 8], u64> = HashMap::new();
    let mut end = requests;
    let mut chunk = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(CHUNK);
        chunk.clear();
        file.seek(SeekFrom::Start(start * RECORD as u64))?;
        (&mut *file).take((end - start) * RECORD as u64).read_to_end(&mut chunk)?;
        for (record, number) in
            chunk.chunks_exact_mut(RECORD).zip(start + 1..).collect::<Vec<_>>().into_iter().rev()
        {
            let object = record[4..12].try_into().expect("eight bytes");
            if let Some(later) = next.insert(object, number) {
                record[16..].copy_from_slice(&later.to_le_bytes());
            }
        }
        file.seek(SeekFrom::Start(start * RECORD as u64))?;
        file.write_all(&chunk)?;
        end = start;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Writer;
    use crate::{Columns, Event, Info, open, open_as};

    fn trace(path: &Path, events: Vec<Event>) {
        let mut writer = Writer::create(path).unwrap();
        writer.write(&Batch { events, ..Batch::default() }).unwrap();
        writer.finish(&Info::default()).unwrap();
    }

    fn empty(path: &Path) -> (File, &Path) {
        let mut options = File::options();
        (options.read(true).write(true).create(true).truncate(true).open(path).unwrap(), path)
    }

    fn run(second: i64, inode: u64, position: u64, read: u64) -> Event {
        let file = FileId { device: 1, inode };
        Event { time: second * 1_000_000_000, kind: Kind::Run, file, position, read, ..Event::default() }
    }

    /// Promise: each block of a run is a request; the next one is given by number from 1, or as -1
    /// if there is none; a file id reused after deletion, or by a creation, has other blocks.
    #[test]
    fn records_have_the_next_request() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let dead = Event { kind: Kind::Unlink, flags: Flags::LAST, ..run(3, 7, 0, 0) };
        trace(
            &from,
            vec![
                run(1, 7, 4000, 200),
                run(2, 7, 0, 1),
                run(2, 8, 0, 4096),
                dead,
                run(4, 7, 0, 1),
                run(5, 8, 0, 1),
                Event { kind: Kind::Create, ..run(6, 8, 0, 0) },
                run(7, 8, 0, 1),
            ],
        );
        let mut source = open(&from, Columns::ALL).unwrap();
        let exported = export(&mut *source, To::OracleGeneral, 4096, empty(&to), |_| {}).unwrap();
        assert_eq!(exported, Exported { requests: 7, blocks: 5, mapped: 0 });
        let expected = [(1, 1, 3), (1, 2, -1), (2, 1, -1), (2, 3, 6), (4, 4, -1), (5, 3, -1), (7, 5, -1)];
        let expected: Vec<_> = expected.iter().flat_map(|&(s, o, n)| record(s, o, 4096, n)).collect();
        assert_eq!(std::fs::read(&to).unwrap(), expected);
        let mut source = open(&from, Columns::ALL).unwrap();
        let refused = export(&mut *source, To::Csv, 0, empty(&to), |_| {}).unwrap_err();
        assert!(refused.to_string().contains("blocks of 0 bytes"));
    }

    /// Promise: what was only mapped makes no request, however long the mapping was; its bytes are
    /// counted apart.
    #[test]
    fn mapped_files_make_no_requests() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let mapped = Event { flags: Flags::READ | Flags::MAPPED, ..run(1, 7, 0, 300_000_000_000) };
        trace(&from, vec![mapped, run(2, 7, 0, 1), mapped]);
        let mut source = open(&from, Columns::ALL).unwrap();
        let exported = export(&mut *source, To::Csv, 4096, empty(&to), |_| {}).unwrap();
        assert_eq!(exported, Exported { requests: 1, blocks: 1, mapped: 600_000_000_000 });
        assert_eq!(std::fs::read_to_string(&to).unwrap(), "time,object,size,op\n2,1,4096,read\n");
    }

    /// Promise: a run of more blocks than fit into memory is refused before any is written, up to
    /// the end of all positions; a run of no bytes at that end makes no request.
    #[test]
    fn absurd_runs_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for (position, read, block) in [(0, 1 << 63, 4096), (0, 1 << 44, 4096), (1, u64::MAX, 4096)] {
            trace(&from, vec![run(1, 7, position, read)]);
            let mut source = open(&from, Columns::ALL).unwrap();
            let refused = export(&mut *source, To::Csv, block, empty(&to), |_| {}).unwrap_err();
            assert!(refused.to_string().contains(&format!("a run of {read} bytes")), "{refused}");
        }
        trace(&from, vec![run(1, 7, u64::MAX, 10)]);
        let mut source = open(&from, Columns::ALL).unwrap();
        let exported = export(&mut *source, To::Csv, 4096, empty(&to), |_| {}).unwrap();
        assert_eq!(exported, Exported::default());
    }

    /// Promise: importing an export gives the same blocks in the same order, in both formats, with
    /// more records than are filled in at a time; and the format is detected.
    #[test]
    fn an_import_of_an_export_agrees() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let asked: Vec<u64> = (0..100_000_u64).map(|n| n * n % 7919).collect();
        trace(&from, asked.iter().map(|block| run(0, 1, block * 512, 512)).collect());
        for (format, name) in [
            (To::OracleGeneral, None),
            (To::Csv, Some("csv:time-col=1,obj-id-col=2,obj-id-is-num=true,obj-size-col=3,op-col=4")),
        ] {
            let mut source = open(&from, Columns::ALL).unwrap();
            export(&mut *source, format, 512, empty(&to), |_| {}).unwrap();
            let mut source = open_as(&to, name, Columns::ALL).unwrap();
            let (mut got, mut batch) = (Vec::new(), Batch::default());
            while source.next(&mut batch).unwrap() {
                got.extend(batch.events.iter().map(|event| (event.file.inode, event.read)));
            }
            let mut numbers = HashMap::new();
            let number = |block: &u64| {
                let next = numbers.len() as u64 + 1;
                (*numbers.entry(*block).or_insert(next), 512)
            };
            assert_eq!(got, asked.iter().map(number).collect::<Vec<_>>());
        }
    }
}
