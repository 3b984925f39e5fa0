//! Reading a trace.

use super::column::{COLUMNS, Column, Columns};
use super::prefix::{MAGIC, Prefix};
use super::{VERSION, key, schema};
use crate::{Batch, Error, Event, Info, Kind, Names, Result, Source, Symbol};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Events given at a time: what fits a processor's second-level cache.
const BATCH: usize = 1 << 11;

/// Reads a trace; what it holds in memory are the pages of the columns that it is at.
pub struct Reader {
    path: PathBuf,
    file: SerializedFileReader<Prefix>,
    columns: Columns,
    info: Info,
    is_finished: bool,
    /// The next row group, and what is left of the one before.
    group: usize,
    open: Option<Group>,
    given: u64,
    values: Values,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("given", &self.given).finish_non_exhaustive()
    }
}

/// A row group that is being read.
struct Group {
    readers: Vec<(usize, ColumnReader)>,
    left: usize,
}

impl Reader {
    /// Returns true if the file begins as Parquet files do.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn recognises(path: &Path) -> Result<bool> {
        let mut magic = [0; 4];
        match File::open(path).and_then(|mut file| file.read_exact(&mut magic)) {
            Ok(()) => Ok(&magic == MAGIC),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// Opens a file, of which only `columns` will be read; of one that was not finished, what
    /// stands before its last checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Malformed`] when it is not a trace, or one of a later version, or
    /// was not finished and has no checkpoint.
    pub fn open(path: &Path, columns: Columns) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let whole = Prefix::whole(file).map_err(|e| Error::io(path, e))?;
        let file = if whole.has_end().map_err(|e| Error::io(path, e))? {
            SerializedFileReader::new(whole).map_err(|e| problem(path, "footer", e))?
        } else {
            let what = "the trace was not finished: who wrote it was killed, or is still at work";
            let found = whole.last_checkpoint().map_err(|e| Error::io(path, e))?;
            found.ok_or_else(|| Error::malformed(path, "end", what))?
        };
        let wanted = schema();
        let found = file.metadata().file_metadata();
        let bad = |what: String| Error::malformed(path, "footer", what);
        let mut info = Info::default();
        let (mut version, mut is_finished) = (None, true);
        for pair in found.key_value_metadata().into_iter().flatten() {
            let value = pair.value.clone().unwrap_or_default();
            match pair.key.as_str() {
                key::VERSION => {
                    version = Some(value.parse::<u32>().map_err(|e| bad(format!("version {value}: {e}")))?);
                }
                key::SOURCE => info.source = value,
                key::LOST => {
                    info.lost = value.parse().map_err(|e| bad(format!("lost events {value}: {e}")))?;
                }
                key::NOTE => info.notes.push(value),
                key::UNFINISHED => is_finished = false,
                _ => {}
            }
        }
        match version {
            None => return Err(bad("this Parquet file is not a trace of Spindle's".into())),
            Some(version) if version > VERSION => {
                return Err(bad(format!("a trace of version {version}: this Spindle reads up to {VERSION}")));
            }
            Some(_) => {}
        }
        for (wanted, found) in wanted.get_fields().iter().zip(found.schema().get_fields()) {
            if wanted.name() != found.name()
                || wanted.get_physical_type() != found.get_physical_type()
                || found.is_optional()
            {
                return Err(bad(format!("column {} stands where {} should", found.name(), wanted.name())));
            }
        }
        if found.schema().get_fields().len() < wanted.get_fields().len() {
            return Err(bad("columns are missing".into()));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            columns,
            info,
            is_finished,
            group: 0,
            open: None,
            given: 0,
            values: Values::default(),
        })
    }

    /// Returns the number of events in the file.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.file.metadata().file_metadata().num_rows().try_into().unwrap_or(0)
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the row group with events left, opened if need be.
    fn group(&mut self) -> Result<Option<Group>> {
        if let Some(group) = self.open.take().filter(|group| group.left > 0) {
            return Ok(Some(group));
        }
        while self.group < self.file.num_row_groups() {
            let place = format!("row group {}", self.group);
            let reader = self.file.get_row_group(self.group).map_err(|e| problem(&self.path, &place, e))?;
            self.group += 1;
            let wanted = (0..COLUMNS.len()).filter(|&number| self.columns.has(number));
            let readers = wanted
                .map(|number| {
                    Ok((
                        number,
                        reader.get_column_reader(number).map_err(|e| problem(&self.path, &place, e))?,
                    ))
                })
                .collect::<Result<Vec<_>>>()?;
            let left = usize::try_from(reader.metadata().num_rows()).unwrap_or(0);
            if left > 0 {
                return Ok(Some(Group { readers, left }));
            }
        }
        Ok(None)
    }
}

impl Source for Reader {
    fn info(&self) -> Info {
        self.info.clone()
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        let Some(mut group) = self.group()? else { return Ok(false) };
        let count = group.left.min(BATCH);
        batch.events.resize(count, Event::default());
        for (number, reader) in &mut group.readers {
            self.values
                .fill(reader, &COLUMNS[*number], batch)
                .map_err(|what| Error::malformed(&self.path, format!("events from {}", self.given), what))?;
        }
        group.left -= count;
        self.given += count as u64;
        self.open = Some(group);
        Ok(true)
    }

    fn progress(&self) -> Option<f64> {
        // Rounding does not matter to a progress bar.
        #[allow(clippy::cast_precision_loss)]
        Some(self.given as f64 / self.len().max(1) as f64)
    }
}

/// Values of a column, before they are in events; kept, so that their memory is.
#[derive(Default)]
struct Values {
    wide: Vec<i64>,
    narrow: Vec<i32>,
    words: Vec<ByteArray>,
}

impl Values {
    /// Reads as many values of a column as the batch has events, and puts them there.
    fn fill(
        &mut self,
        reader: &mut ColumnReader,
        column: &Column,
        batch: &mut Batch,
    ) -> std::result::Result<(), String> {
        let count = batch.events.len();
        match (column, reader) {
            (Column::Wide { put, .. }, ColumnReader::Int64ColumnReader(reader)) => {
                read(reader, count, &mut self.wide)?;
                put(&mut batch.events, &self.wide);
            }
            (Column::Narrow { put, .. }, ColumnReader::Int32ColumnReader(reader)) => {
                read(reader, count, &mut self.narrow)?;
                put(&mut batch.events, &self.narrow);
            }
            (Column::Kind, ColumnReader::ByteArrayColumnReader(reader)) => {
                read(reader, count, &mut self.words)?;
                let mut known = Known::default();
                for (event, name) in batch.events.iter_mut().zip(&self.words) {
                    let unknown = || format!("kind {:?} is unknown", String::from_utf8_lossy(name.data()));
                    event.kind = known.get(name, |name| Kind::from_name(name.data()).ok_or_else(unknown))?;
                }
            }
            (Column::Word { at, .. }, ColumnReader::ByteArrayColumnReader(reader)) => {
                read(reader, count, &mut self.words)?;
                let mut known = Known::default();
                for (event, word) in batch.events.iter_mut().zip(&self.words) {
                    *at(event) = known.get(word, |word| symbol(&mut batch.names, word))?;
                }
            }
            _ => return Err("a column has another type than its schema says".into()),
        }
        Ok(())
    }
}

/// What some words mean. Equal words of a dictionary lie at one place, so a word is known by its
/// place, without a look at it, as long as the values that it came with are there.
struct Known<T>([(*const u8, usize, T); KNOWN]);

/// Places for words, by the middle bits of their addresses.
const KNOWN: usize = 64;

impl<T: Copy + Default> Default for Known<T> {
    fn default() -> Self {
        Self([(std::ptr::null(), 0, T::default()); KNOWN])
    }
}

impl<T: Copy> Known<T> {
    fn get<E>(
        &mut self,
        word: &ByteArray,
        look: impl FnOnce(&ByteArray) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (place, len) = (word.data().as_ptr(), word.len());
        // Words of a dictionary lie some bytes apart, behind their lengths.
        let at = (place.addr() >> 3) % KNOWN;
        let (known, known_len, value) = self.0[at];
        if known == place && known_len == len && len > 0 {
            return Ok(value);
        }
        let value = look(word)?;
        self.0[at] = (place, len, value);
        Ok(value)
    }
}

fn symbol(names: &mut Names, word: &ByteArray) -> std::result::Result<Symbol, String> {
    std::str::from_utf8(word.data()).map(|word| names.symbol(word)).map_err(|e| e.to_string())
}

/// Replaces what is in `values` by the next ones.
fn read<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    values: &mut Vec<T::T>,
) -> std::result::Result<(), String> {
    values.clear();
    while values.len() < count {
        let (read, ..) =
            reader.read_records(count - values.len(), None, None, values).map_err(|e| e.to_string())?;
        if read == 0 {
            return Err(format!("a column ends {} values early", count - values.len()));
        }
    }
    Ok(())
}

fn problem(path: &Path, place: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) if inner.is::<std::io::Error>() => {
            Error::io(path, *inner.downcast::<std::io::Error>().expect("it is one"))
        }
        other => Error::malformed(path, place, other),
    }
}
