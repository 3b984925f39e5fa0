//! Writing a trace, group of rows by group of rows.

use super::column::{COLUMNS, Column};
use super::{VERSION, key, schema};
use crate::{Batch, Error, Info, Kind, Result, Symbol};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, SchemaDescriptor};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Events of a row group: what a writer holds in memory, and a reader may skip.
const GROUP: usize = 1 << 18;

/// Writes a trace; what it holds in memory is one group of a quarter of a million events. A file is
/// complete only after [`Writer::finish`], and readable up to the last [`Writer::checkpoint`]
/// before.
pub struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    pending: Batch,
    written: u64,
    /// What was written before the last checkpoint.
    secured: Option<u64>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("path", &self.path)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Makes a file, or empties the one that is there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(path, e))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_dictionary_enabled(ColumnPath::from("time"), false)
            .set_column_encoding(ColumnPath::from("time"), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(ColumnPath::from("open"), false)
            .set_column_encoding(ColumnPath::from("open"), Encoding::DELTA_BINARY_PACKED)
            // Of words the smallest and the largest say nothing, and comparing all of them costs a
            // third of writing.
            .set_column_statistics_enabled(ColumnPath::from("kind"), EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("command"), EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("path"), EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("new_path"), EnabledStatistics::None)
            .set_created_by(concat!("spindle ", env!("CARGO_PKG_VERSION")).into())
            .build();
        let mut file = SerializedFileWriter::new(file, Arc::new(schema()), Arc::new(properties))
            .map_err(|e| problem(path, e))?;
        // So that who is killed leaves what is known as a trace.
        file.flush().map_err(|e| Error::io(path, e))?;
        Ok(Self { path: path.to_owned(), file, pending: Batch::default(), written: 0, secured: None })
    }

    /// Adds events.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&mut self, batch: &Batch) -> Result<()> {
        let mut rest = &batch.events[..];
        while let Some((some, behind)) = rest.split_at_checked(GROUP - self.pending.events.len()) {
            self.pending.extend(some, &batch.names);
            self.write_group()?;
            rest = behind;
        }
        self.pending.extend(rest, &batch.names);
        Ok(())
    }

    /// Makes what was written so far readable even if nothing more comes of the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoint(&mut self, info: &Info) -> Result<()> {
        if !self.pending.events.is_empty() {
            self.write_group()?;
        }
        if self.secured == Some(self.written) {
            return Ok(());
        }
        let note = format!(
            "the trace was not finished: what came after its first {} events is missing, and how many were lost is not known",
            self.written
        );
        let mut pairs = pairs(info);
        pairs.push(KeyValue::new(key::NOTE.to_owned(), note));
        pairs.push(KeyValue::new(key::UNFINISHED.to_owned(), None));
        let properties = self.file.properties();
        let about = FileMetaData::new(
            properties.writer_version().as_num(),
            self.written.try_into().unwrap_or(i64::MAX),
            Some(properties.created_by().to_owned()),
            Some(pairs),
            Arc::new(SchemaDescriptor::new(Arc::new(schema()))),
            None,
        );
        let directory = ParquetMetaData::new(about, self.file.flushed_row_groups().to_vec());
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &directory).finish().map_err(|e| problem(&self.path, e))?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.flush());
        written.map_err(|e| Error::io(&self.path, e))?;
        self.secured = Some(self.written);
        Ok(())
    }

    /// Completes the file, with what the trace says of itself; gives the number of events in it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self, info: &Info) -> Result<u64> {
        if !self.pending.events.is_empty() {
            self.write_group()?;
        }
        for pair in pairs(info) {
            self.file.append_key_value_metadata(pair);
        }
        self.file.close().map_err(|e| problem(&self.path, e))?;
        Ok(self.written)
    }

    fn write_group(&mut self) -> Result<()> {
        let done = self.file.next_row_group().and_then(|group| write_columns(group, &self.pending));
        done.map_err(|e| problem(&self.path, e))?;
        self.written += self.pending.events.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Returns what a trace says of itself.
fn pairs(info: &Info) -> Vec<KeyValue> {
    let told = [
        (key::VERSION, VERSION.to_string()),
        (key::SOURCE, info.source.clone()),
        (key::LOST, info.lost.to_string()),
    ];
    let notes = info.notes.iter().map(|note| (key::NOTE, note.clone()));
    told.into_iter().chain(notes).map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect()
}

fn write_columns(
    mut group: SerializedRowGroupWriter<'_, File>,
    batch: &Batch,
) -> parquet::errors::Result<()> {
    let (mut wide, mut narrow) = (Vec::new(), Vec::new());
    let kinds = Kind::ALL.map(|kind| ByteArray::from(kind.name()));
    for column in &COLUMNS {
        let Some(mut writer) = group.next_column()? else { break };
        match column {
            Column::Kind => {
                let values: Vec<_> =
                    batch.events.iter().map(|event| kinds[event.kind as usize].clone()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
            Column::Wide { take, .. } => {
                wide.clear();
                take(&batch.events, &mut wide);
                writer.typed::<Int64Type>().write_batch(&wide, None, None)?;
            }
            Column::Narrow { take, .. } => {
                narrow.clear();
                take(&batch.events, &mut narrow);
                writer.typed::<Int32Type>().write_batch(&narrow, None, None)?;
            }
            Column::Word { get, .. } => {
                let mut known: Vec<Option<ByteArray>> = vec![None; batch.names.len()];
                let mut value = |symbol: Symbol| {
                    known[symbol.number()].get_or_insert_with(|| batch.names.word(symbol).into()).clone()
                };
                let values: Vec<_> = batch.events.iter().map(|event| value(get(event))).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

/// Returns what went wrong in writing: nearly always the system's own error.
fn problem(path: &Path, error: ParquetError) -> Error {
    let text = error.to_string();
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(other) => std::io::Error::other(other.to_string()),
        },
        _ => std::io::Error::other(text),
    };
    Error::io(path, source)
}
