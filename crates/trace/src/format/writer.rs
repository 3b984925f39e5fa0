//! Writes traces, one row group at a time.

use super::column::{COLUMNS, Column};
use super::sums::{CREATOR, Kept, with_sums};
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

/// Number of events in a row group, which a writer keeps in memory.
const GROUP: usize = 1 << 18;

/// Writes a trace; memory holds one row group of a quarter of a million events. A file is complete
/// only after [`Writer::finish`]; before that, it can be read up to the last
/// [`Writer::checkpoint`].
pub struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<Kept<File>>,
    pending: Batch,
    written: u64,
    /// The checksum of each column of the row groups so far.
    sums: Vec<u32>,
    /// Number of events written before the last checkpoint.
    checkpointed: Option<u64>,
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
    /// Creates a file, or truncates an existing one.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn create(path: &Path) -> Result<Self> {
        Self::new(File::create(path).map_err(|e| Error::io(path, e))?, path)
    }

    /// Begins a trace in an empty file, or a pipe, which errors call `path`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(file: File, path: &Path) -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_dictionary_enabled(ColumnPath::from("time"), false)
            .set_column_encoding(ColumnPath::from("time"), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(ColumnPath::from("open"), false)
            .set_column_encoding(ColumnPath::from("open"), Encoding::DELTA_BINARY_PACKED)
            // The smallest and the largest word are useless, and comparing all words takes a third
            // of the time of writing.
            .set_column_statistics_enabled(ColumnPath::from("kind"), EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("command"), EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("path"), EnabledStatistics::None)
            .set_column_statistics_enabled(ColumnPath::from("new_path"), EnabledStatistics::None)
            .set_created_by(format!("{CREATOR}{}", env!("CARGO_PKG_VERSION")))
            .build();
        let mut file = SerializedFileWriter::new(Kept::new(file), Arc::new(schema()), Arc::new(properties))
            .map_err(|e| problem(path, e))?;
        // A file whose writer is killed can then be recognised as a trace.
        file.flush().map_err(|e| Error::io(path, e))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            pending: Batch::default(),
            written: 0,
            sums: Vec::new(),
            checkpointed: None,
        })
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

    /// Returns the number of bytes written to the file.
    pub(super) fn bytes(&self) -> u64 {
        self.file.bytes_written() as u64
    }

    /// Makes the events written so far readable even if the file is never finished.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn checkpoint(&mut self, info: &Info) -> Result<()> {
        if !self.pending.events.is_empty() {
            self.write_group()?;
        }
        if self.checkpointed == Some(self.written) {
            return Ok(());
        }
        let note = format!(
            "the trace was not finished: it has only its first {} events, and the number of lost events is unknown",
            self.written
        );
        let mut pairs = pairs(info);
        if !info.notes.contains(&note) {
            pairs.push(KeyValue::new(key::NOTE.to_owned(), note));
        }
        pairs.push(KeyValue::new(key::UNFINISHED.to_owned(), None));
        let groups = self.file.flushed_row_groups();
        let pairs = with_sums(pairs, groups.iter(), &self.sums);
        let properties = self.file.properties();
        let about = FileMetaData::new(
            properties.writer_version().as_num(),
            self.written.try_into().unwrap_or(i64::MAX),
            Some(properties.created_by().to_owned()),
            Some(pairs),
            Arc::new(SchemaDescriptor::new(Arc::new(schema()))),
            None,
        );
        let directory = ParquetMetaData::new(about, groups.to_vec());
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &directory).finish().map_err(|e| problem(&self.path, e))?;
        let written = self.file.write_all(&bytes).and_then(|()| self.file.flush());
        written.map_err(|e| Error::io(&self.path, e))?;
        self.checkpointed = Some(self.written);
        Ok(())
    }

    /// Completes a copy of a trace that is not finished, so that it does not count as finished
    /// either; returns the number of events in it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish_unfinished(mut self, info: &Info) -> Result<u64> {
        self.checkpoint(info)?;
        Ok(self.written)
    }

    /// Completes the file with information about the trace; returns the number of events in it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn finish(mut self, info: &Info) -> Result<u64> {
        if !self.pending.events.is_empty() {
            self.write_group()?;
        }
        for pair in with_sums(pairs(info), self.file.flushed_row_groups().iter(), &self.sums) {
            self.file.append_key_value_metadata(pair);
        }
        self.file.close().map_err(|e| problem(&self.path, e))?;
        Ok(self.written)
    }

    fn write_group(&mut self) -> Result<()> {
        let done = self.file.next_row_group().and_then(|group| write_columns(group, &self.pending));
        done.map_err(|e| problem(&self.path, e))?;
        self.file.flush().map_err(|e| Error::io(&self.path, e))?;
        if let Some(group) = self.file.flushed_row_groups().last().cloned() {
            self.sums.extend(self.file.inner_mut().sums(&group));
        }
        self.written += self.pending.events.len() as u64;
        self.pending.clear();
        Ok(())
    }
}

/// Returns the metadata of a trace.
fn pairs(info: &Info) -> Vec<KeyValue> {
    let fixed = [
        (key::VERSION, VERSION.to_string()),
        (key::SOURCE, info.source.clone()),
        (key::LOST, info.lost.to_string()),
    ];
    let notes = info.notes.iter().map(|note| (key::NOTE, note.clone()));
    let latencies = info.latencies.lines().map(|line| (key::LATENCY, line));
    fixed
        .into_iter()
        .chain(notes)
        .chain(latencies)
        .map(|(key, value)| KeyValue::new(key.to_owned(), value))
        .collect()
}

fn write_columns(
    mut group: SerializedRowGroupWriter<'_, Kept<File>>,
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

/// Converts an error of writing, nearly always the system's own error.
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
