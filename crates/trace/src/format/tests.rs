//! Tests of the file format.

use super::*;
use crate::invented::{anything, worded};
use crate::latency::{Call, Class, Latencies};
use crate::{Batch, Error, Event, Flags, Info, Kind, Source, open};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter,
};
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Promise: a reader returns everything that was written, every field and word, over the borders of
/// batches and row groups.
#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    let batch = anything(300_000, 7);
    let mut latencies = Latencies::default();
    latencies.add(Call::Sync, Class::File(0), 40, 2);
    latencies.add(Call::Read, Class::Directory, 41, 1);
    let info = Info { source: "a test".into(), lost: 3, notes: vec!["one".into(), "two".into()], latencies };
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&batch).unwrap();
    assert_eq!(writer.finish(&info).unwrap(), 300_000);

    let mut source = open(&path, Columns::ALL).unwrap();
    assert_eq!(source.info(), info);
    let (mut n, mut found) = (0, Batch::default());
    while source.next(&mut found).unwrap() {
        for event in &found.events {
            assert_eq!(worded(&found, event), worded(&batch, &batch.events[n]), "event {n}");
            n += 1;
        }
    }
    assert_eq!(n, 300_000);
}

/// Promise: only requested columns are read.
#[test]
fn some_columns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    let batch = anything(100, 8);
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&batch).unwrap();
    writer.finish(&Info::default()).unwrap();
    for (columns, words) in [
        (Columns::NUMBERS, [false, false, false]),
        (Columns::NUMBERS | Columns::COMMAND, [true, false, false]),
        (Columns::NUMBERS | Columns::PATHS, [false, true, true]),
    ] {
        let mut found = Batch::default();
        assert!(Reader::open(&path, columns).unwrap().next(&mut found).unwrap());
        for (event, expected) in found.events.iter().zip(&batch.events) {
            let (numbers, mut names) = worded(&batch, expected);
            for (name, there) in names.iter_mut().zip(words) {
                if !there {
                    name.clear();
                }
            }
            assert_eq!(worded(&found, event), (numbers, names));
        }
    }
}

/// Promise: a file that is not a trace or has no end is refused with a reason. In a damaged file,
/// an invalid structure is refused, a possible value is read (pages have no checksum), and nothing
/// panics.
#[test]
fn bad_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&anything(50_000, 9)).unwrap();
    writer.finish(&Info::default()).unwrap();
    let good = std::fs::read(&path).unwrap();

    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let read = || -> crate::Result<()> {
            let mut source = open(&path, Columns::ALL)?;
            let mut batch = Batch::default();
            while source.next(&mut batch)? {}
            Ok(())
        };
        read()
    };
    for bytes in [&b""[..], b"PAR", b"nothing of the kind", &good[..good.len() / 2], &good[..good.len() - 1]]
    {
        assert!(matches!(refused(bytes), Err(Error::Malformed { .. } | Error::Unknown { .. })));
    }
    for cut in [4, 11, good.len() / 2] {
        assert!(refused(&good[..cut]).unwrap_err().to_string().contains("was not finished"), "{cut}");
    }
    let mut seen = 0;
    for at in (4..good.len()).step_by(good.len() / 199) {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        seen += u32::from(refused(&bad).is_err());
    }
    assert!(seen > 5, "{seen} of 199 damaged files were noticed");
}

/// Promise: a file of another program, which has no checksums, is refused if it has a column where
/// no byte of a file can be.
#[test]
fn impossible_places_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    for (is_refused, start) in
        [(false, None), (true, Some(-1)), (true, Some(i64::MIN)), (true, Some(i64::MAX))]
    {
        let bytes = foreign_trace(&path, |column| {
            let start = start.or(column.dictionary_page_offset());
            column.into_builder().set_dictionary_page_offset(start).build().unwrap()
        });
        std::fs::write(&path, bytes).unwrap();
        let mut source = open(&path, Columns::ALL).unwrap();
        assert_eq!(source.next(&mut Batch::default()).is_err(), is_refused, "{start:?}");
    }
}

/// Returns a small trace as another program writes it, without checksums, and with what `change`
/// makes of its columns; `path` is overwritten.
fn foreign_trace(
    path: &std::path::Path,
    change: impl Fn(ColumnChunkMetaData) -> ColumnChunkMetaData,
) -> Vec<u8> {
    let mut writer = Writer::create(path).unwrap();
    writer.write(&anything(10, 9)).unwrap();
    writer.finish(&Info::default()).unwrap();
    let file = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let directory = file.metadata();
    let about = FileMetaData::new(
        directory.file_metadata().version(),
        directory.file_metadata().num_rows(),
        Some("another program".into()),
        Some(vec![KeyValue::new(key::VERSION.into(), VERSION.to_string())]),
        directory.file_metadata().schema_descr_ptr(),
        None,
    );
    let mut bytes = std::fs::read(path).unwrap();
    let end = bytes.len() - 8;
    let len = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
    bytes.truncate(end - usize::try_from(len).unwrap());
    let groups = directory.row_groups().iter().map(|group| {
        let columns = group.columns().iter().cloned().map(&change).collect();
        group.clone().into_builder().set_column_metadata(columns).build().unwrap()
    });
    let directory = ParquetMetaData::new(about, groups.collect());
    ParquetMetaDataWriter::new(&mut bytes, &directory).finish().unwrap();
    bytes
}

/// Promise: whatever a byte of a file of another program, which has no checksums, is changed into,
/// the file is read, or refused with the path and the place, and nothing panics.
#[test]
fn damaged_files_of_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    let good = foreign_trace(&path, |column| column);
    let start = good.len() - 8;
    let directory = start - u32::from_le_bytes(good[start..start + 4].try_into().unwrap()) as usize;
    let (mut tried, mut refused) = (0, 0);
    // Of the directory each byte is tried, of the pages some.
    for at in (4..directory).step_by(5).chain(directory..good.len()) {
        let changes = [0, 0xff, good[at] ^ 0x81];
        for value in changes.into_iter().filter(|&value| value != good[at]) {
            let mut bad = good.clone();
            bad[at] = value;
            std::fs::write(&path, bad).unwrap();
            tried += 1;
            if let Err(error) = whole(&path) {
                refused += 1;
                let text = error.to_string();
                assert!(text.starts_with(&format!("{}: ", path.display())), "{at} {value}: {text}");
            }
        }
    }
    assert!(refused * 3 > tried, "{refused} of {tried}");
}

/// Promise: an unfinished file is read up to the last checkpoint, wherever it was cut after that,
/// and a note says that something is missing; a finished file has no such note.
#[test]
fn a_checkpoint_survives_what_comes_after() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    let info = Info { source: "test".into(), ..Info::default() };
    let (first, second) = (anything(30_000, 11), anything(30_000, 12));
    let mut writer = Writer::create(&path).unwrap();
    let mut ends = Vec::new();
    for batch in [&Batch::default(), &first, &second] {
        writer.write(batch).unwrap();
        writer.checkpoint(&info).unwrap();
        writer.checkpoint(&info).unwrap();
        ends.push(std::fs::metadata(&path).unwrap().len());
    }
    writer.write(&anything(30_000, 13)).unwrap();
    assert_eq!(writer.finish(&info).unwrap(), 90_000);
    let file = std::fs::read(&path).unwrap();

    let ids =
        |batch: &Batch| batch.events.iter().map(|event| (event.time, event.file.inode)).collect::<Vec<_>>();
    let both = [ids(&first), ids(&second)].concat();
    let len = u64::try_from(file.len()).unwrap();
    for (number, (&end, next)) in ends.iter().zip(ends[1..].iter().copied().chain([len])).enumerate() {
        let (step, last) = (usize::try_from((next - end) / 19).unwrap(), usize::try_from(next - 1).unwrap());
        for cut in (usize::try_from(end).unwrap()..last).step_by(step.max(1)).chain([last]) {
            std::fs::write(&path, &file[..cut]).unwrap();
            if number == 0 && cut as u64 > end {
                let refused = open(&path, Columns::ALL).err().unwrap().to_string();
                assert!(refused.contains("no event can be read: the file was cut off"), "{refused}");
                continue;
            }
            let mut source = open(&path, Columns::ALL).unwrap();
            let (mut found, mut batch) = (Vec::new(), Batch::default());
            while source.next(&mut batch).unwrap() {
                found.extend(ids(&batch));
            }
            assert_eq!(found, both[..30_000 * number], "{cut}");
            assert_eq!((source.info().source.as_str(), source.is_finished()), ("test", false));
            assert!(source.info().notes[0].contains(&format!("first {} events", found.len())), "{cut}");
        }
    }
    std::fs::write(&path, &file).unwrap();
    let whole = open(&path, Columns::ALL).unwrap();
    assert!(whole.is_finished());
    assert_eq!(whole.info(), info);
}

/// Promise: the document has the schema that is written, and every kind and flag with its bit.
#[test]
fn the_document_is_true() {
    let document = include_str!("../../../../docs/SPEC-trace.md");
    assert!(document.contains(SCHEMA));
    assert!(document.starts_with(&format!("# The trace file, version {VERSION}\n")));
    for kind in Kind::ALL {
        assert!(document.contains(&format!("`{}`", kind.name())), "{kind:?}");
    }
    for (bit, (_, name)) in Flags::ALL.into_iter().enumerate() {
        assert!(document.contains(&format!("\n| {bit} | `{name}` |")), "{name}");
    }
}

/// An event with its words.
type Worded = (Event, [String; 3]);

/// Returns the events and the information of a trace, or that it cannot be read.
fn whole(path: &std::path::Path) -> Result<(Vec<Worded>, Info), Error> {
    let mut source = open(path, Columns::ALL)?;
    let (mut events, mut found) = (Vec::new(), Batch::default());
    while source.next(&mut found)? {
        events.extend(found.events.iter().map(|event| worded(&found, event)));
    }
    Ok((events, source.info()))
}

/// Promise: whichever bit of a trace is wrong, it is refused, or gives what was written; if its end
/// is not found any more, what was written before the last checkpoint, with a note.
#[test]
fn a_wrong_bit_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.trace");
    let info = Info { source: "a test".into(), lost: 3, notes: vec!["one".into()], ..Info::default() };
    let mut writer = Writer::create(&path).unwrap();
    writer.write(&anything(40, 7)).unwrap();
    writer.checkpoint(&info).unwrap();
    writer.write(&anything(30, 8)).unwrap();
    writer.finish(&info).unwrap();
    let (wanted, bytes) = (whole(&path).unwrap(), std::fs::read(&path).unwrap());
    assert_eq!((wanted.0.len(), &wanted.1), (70, &info));
    let end = bytes.len() - 200;
    let (mut tried, mut noticed) = (0, 0);
    // The end has the length of the directory, and the magic number.
    for bit in (0..end * 8).step_by(29).chain(end * 8..bytes.len() * 8) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, damaged).unwrap();
        tried += 1;
        let Ok((events, found)) = whole(&path) else {
            noticed += 1;
            continue;
        };
        if found == info {
            assert!(events == wanted.0, "bit {bit}");
        } else {
            assert!(events == wanted.0[..40], "bit {bit}");
            assert!(found.notes.iter().any(|note| note.contains("not finished")), "bit {bit}");
        }
    }
    assert!(noticed * 2 > tried, "{noticed} of {tried}");
}
