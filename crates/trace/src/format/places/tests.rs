//! Tests of traces that other programs have written.

use crate::format::{Reader, SCHEMA};
use crate::invented::all;
use crate::{Batch, Columns, Event, FileId, Flags, Kind, Result, Source};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Values of a column, of which some may be missing.
enum Values {
    Wide(Vec<Option<i64>>),
    Narrow(Vec<Option<i32>>),
    Words(Vec<Option<&'static str>>),
    Real(Vec<Option<f64>>),
}

/// Writes a Parquet file of these columns, which are declared in the notation of Parquet.
fn write(path: &Path, columns: &[(String, Values)], properties: WriterProperties) {
    let fields: Vec<_> = columns.iter().map(|(field, _)| field.as_str()).collect();
    let schema = parse_message_type(&format!("message other {{ {} }}", fields.join(" "))).unwrap();
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (field, values) in columns {
        let is_optional = field.starts_with("OPTIONAL");
        let mut column = group.next_column().unwrap().unwrap();
        macro_rules! write {
            ($kind:ty, $values:expr) => {{
                let levels: Vec<i16> = $values.iter().map(|value| i16::from(value.is_some())).collect();
                let there: Vec<_> = $values.iter().flatten().cloned().collect();
                let levels = is_optional.then_some(&levels[..]);
                column.typed::<$kind>().write_batch(&there, levels, None).unwrap();
            }};
        }
        match values {
            Values::Wide(values) => write!(Int64Type, values),
            Values::Narrow(values) => write!(Int32Type, values),
            Values::Real(values) => write!(DoubleType, values),
            Values::Words(values) => {
                let values: Vec<_> = values.iter().map(|word| word.map(ByteArray::from)).collect();
                write!(ByteArrayType, values);
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

/// Reads a file as a trace; returns its events and notes.
fn events(path: &Path) -> Result<(Batch, Vec<String>)> {
    let mut source = Reader::open(path, Columns::ALL)?;
    let events = all(&mut source)?;
    Ok((events, source.info().notes))
}

/// Writes a file, and reads it as a trace.
fn read(columns: &[(String, Values)], properties: WriterProperties) -> Result<(Batch, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign.parquet");
    write(&path, columns, properties);
    events(&path)
}

/// Returns the columns of a trace of two events as a program may write them that knows neither
/// unsigned nor narrow numbers, in the reverse order, with another column between them.
fn columns() -> Vec<(String, Values)> {
    let wide = |values: [i64; 2]| Values::Wide(values.map(Some).into());
    let mut columns: Vec<_> = [
        ("OPTIONAL INT64 time (TIMESTAMP(MICROS,true))", wide([1_000_000, 2_000_000])),
        ("OPTIONAL BYTE_ARRAY kind (STRING)", Values::Words(vec![Some("open"), Some("close")])),
        ("OPTIONAL INT64 flags", wide([1, 1])),
        ("REQUIRED INT64 open", wide([7, 7])),
        ("OPTIONAL INT32 device", Values::Narrow(vec![Some(3), None])),
        ("OPTIONAL INT64 inode", Values::Wide(vec![None, Some(9)])),
        ("OPTIONAL INT64 user", wide([0, 4_294_967_295])),
        ("REQUIRED INT32 process (INTEGER(32,false))", Values::Narrow(vec![Some(-1), Some(5)])),
        ("OPTIONAL INT64 size (INTEGER(64,false))", wide([-1, 6])),
        ("REQUIRED INT32 position (INTEGER(32,false))", Values::Narrow(vec![Some(-1), Some(0)])),
        ("OPTIONAL INT64 read", Values::Wide(vec![None, None])),
        ("OPTIONAL INT64 written", wide([0, 0])),
        ("OPTIONAL DOUBLE other", Values::Real(vec![Some(0.5), None])),
        ("OPTIONAL INT64 new_position", wide([0, 8])),
        ("OPTIONAL INT32 calls (INTEGER(16,false))", Values::Narrow(vec![Some(0), Some(2)])),
        ("OPTIONAL BYTE_ARRAY command (STRING)", Values::Words(vec![None, Some("cc")])),
        ("OPTIONAL BYTE_ARRAY path", Values::Words(vec![Some("/ü"), Some("/ü")])),
        ("REQUIRED BYTE_ARRAY new_path (STRING)", Values::Words(vec![Some(""), Some("")])),
    ]
    .into_iter()
    .map(|(field, values)| (format!("{field};"), values))
    .collect();
    columns.reverse();
    columns
}

/// Promise: a trace is read in whatever order, width and unit its columns are, with every
/// compression and both versions of pages; a missing number is 0, a missing word is empty.
#[test]
fn columns_of_others() {
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_compression(compression)
                .set_writer_version(version)
                .set_data_page_row_count_limit(1)
                .set_write_batch_size(1)
                .set_dictionary_enabled(version == WriterVersion::PARQUET_2_0)
                .build();
            let (batch, notes) = read(&columns(), properties).unwrap();
            let [command, path] = ["cc", "/ü"].map(|word| batch.names.clone().symbol(word));
            let most = u64::from(u32::MAX);
            let first = Event {
                time: 1_000_000_000,
                flags: Flags::READ,
                open: 7,
                file: FileId { device: 3, inode: 0 },
                process: u32::MAX,
                size: u64::MAX,
                position: most,
                path,
                ..Event::default()
            };
            let last = Event {
                time: 2_000_000_000,
                kind: Kind::Close,
                file: FileId { device: 0, inode: 9 },
                user: u32::MAX,
                process: 5,
                size: 6,
                position: 0,
                new_position: 8,
                calls: 2,
                command,
                ..first
            };
            assert_eq!(batch.events, [first, last], "{compression} {version:?}");
            assert!(notes[0].starts_with("the file has no metadata of a trace"), "{notes:?}");
        }
    }
}

/// Promise: what cannot be a column, or a value of an event, is refused with the column and the
/// reason.
#[test]
fn what_is_no_trace_is_refused() {
    let with = |name: &str, field: &str, values: Values| {
        let mut columns = columns();
        let at = columns.iter().position(|(field, _)| field.split([' ', ';']).nth(2) == Some(name)).unwrap();
        columns[at] = (field.into(), values);
        read(&columns, WriterProperties::default()).unwrap_err().to_string()
    };
    let wide = |value| Values::Wide(vec![Some(value); 2]);
    let word = |value| Values::Words(vec![Some(value); 2]);
    for (name, field, values, what) in [
        ("size", "REQUIRED INT64 Size;", wide(1), "is not a Spindle trace: column size is missing"),
        ("other", "REQUIRED INT64 size;", wide(1), "column size is there twice"),
        ("size", "REQUIRED DOUBLE size;", Values::Real(vec![Some(1.0); 2]), "type DOUBLE; cast it to INT64"),
        ("kind", "REQUIRED INT64 kind;", wide(1), "type INT64; cast it to BYTE_ARRAY"),
        ("size", "REQUIRED INT64 size;", wide(-5), "column size: -5 is less than 0"),
        (
            "calls",
            "REQUIRED INT32 calls;",
            Values::Narrow(vec![Some(-5); 2]),
            "column calls: -5 is less than 0",
        ),
        ("user", "REQUIRED INT64 user;", wide(1 << 32), "column user: 4294967296 is too large"),
        ("user", "REQUIRED INT64 user (INTEGER(64,false));", wide(-1), "column user: 18446744073709551615"),
        (
            "time",
            "REQUIRED INT64 time (TIMESTAMP_MILLIS);",
            wide(i64::MAX),
            "column time: 9223372036854775807 is",
        ),
        ("time", "OPTIONAL INT64 time;", Values::Wide(vec![Some(1), None]), "column time: a time is missing"),
        (
            "kind",
            "OPTIONAL BYTE_ARRAY kind;",
            Values::Words(vec![Some("open"), None]),
            "kind \"\" is unknown",
        ),
        ("kind", "REQUIRED BYTE_ARRAY kind;", word("opened"), "kind \"opened\" is unknown"),
    ] {
        let refused = with(name, field, values);
        assert!(refused.contains(what), "{field}: {refused}");
    }
}

/// Promise: the columns that Spindle writes are copied without a conversion.
#[test]
fn our_own_need_no_conversion() {
    let schema = parquet::schema::types::SchemaDescriptor::new(Arc::new(parse_message_type(SCHEMA).unwrap()));
    for (n, place) in super::places(&schema).unwrap().into_iter().enumerate() {
        assert_eq!((place.number, place.leaf, place.is_optional, place.numbers), (n, n, false, None));
    }
}

/// Promise: whatever a byte of such a file is changed into, it is read, or refused with its path,
/// and nothing panics.
#[test]
fn damaged_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign.parquet");
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    write(&path, &columns(), properties.set_writer_version(WriterVersion::PARQUET_2_0).build());
    let good = std::fs::read(&path).unwrap();
    let (mut tried, mut refused) = (0, 0);
    // A prime step changes something of every structure.
    for at in (4..good.len()).step_by(7) {
        for value in [0, 0xff, good[at] ^ 0x81] {
            let mut bad = good.clone();
            bad[at] = value;
            std::fs::write(&path, bad).unwrap();
            tried += 1;
            if let Err(error) = events(&path) {
                refused += 1;
                let text = error.to_string();
                assert!(text.starts_with(&format!("{}: ", path.display())), "{at} {value}: {text}");
            }
        }
    }
    assert!(refused * 4 > tried, "{refused} of {tried}");
}
