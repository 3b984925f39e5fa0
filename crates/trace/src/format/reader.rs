//! Reads traces.

use super::column::{COLUMNS, Column, Columns};
use super::contained::contained;
use super::pages::Pages;
use super::places::{Numbers, Place, narrow, places};
use super::prefix::{MAGIC, Prefix};
use super::sums;
use super::{VERSION, key};
use crate::{Batch, Error, Event, Info, Kind, Names, Result, Source, Symbol};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Number of events returned at a time; they fit in the second-level cache of a processor.
const BATCH: usize = 1 << 11;

/// What is noted of a file that has the columns of a trace, and no metadata.
const NO_METADATA: &str = "the file has no metadata of a trace: who recorded it, whether it is complete, and how many \
                           events were lost, is unknown";

/// Reads a trace; memory holds the current pages of the columns.
pub struct Reader {
    path: PathBuf,
    file: SerializedFileReader<Prefix>,
    /// The same file, to compare checksums.
    bytes: File,
    /// The columns that are read.
    places: Vec<Place>,
    info: Info,
    is_finished: bool,
    /// The checksum of each column of each row group, if the file has them.
    sums: Option<Vec<u32>>,
    /// Number of the next row group, and the rest of the current one.
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
    /// A reader for each place.
    readers: Vec<ColumnReader>,
    left: usize,
}

impl Reader {
    /// Returns true if the file begins like a Parquet file.
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

    /// Opens a file to read `columns`; an unfinished file is read up to its last checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Malformed`] if it is not a trace, has a later version, or is
    /// unfinished without a checkpoint, or with one that has no events although more follows.
    /// A file of another program without metadata is a trace if it has all columns.
    pub fn open(path: &Path, columns: Columns) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let bytes = file.try_clone().map_err(|e| Error::io(path, e))?;
        let whole = Prefix::whole(file).map_err(|e| Error::io(path, e))?;
        let has_end = whole.has_end().map_err(|e| Error::io(path, e))?;
        let file = if has_end {
            contained(|| SerializedFileReader::new(whole))
                .map_err(|what| Error::malformed(path, "footer", what))?
                .map_err(|e| problem(path, "footer", e))?
        } else {
            let what = "the trace was not finished: its recorder was killed or is still running, or the \
                        file was cut off";
            let found = whole.last_checkpoint().map_err(|e| Error::io(path, e))?;
            found.ok_or_else(|| Error::malformed(path, "end", what))?
        };
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
                key::LATENCY if !info.latencies.add_line(&value) => {
                    return Err(bad(format!("times of calls {value:?}")));
                }
                key::UNFINISHED => is_finished = false,
                _ => {}
            }
        }
        if let Some(version) = version.filter(|&version| version > VERSION) {
            return Err(bad(format!(
                "the trace has version {version}; this Spindle reads versions up to {VERSION}"
            )));
        }
        let places = places(found.schema_descr()).map_err(|what| match version {
            Some(_) => bad(what),
            None => bad(format!("this Parquet file is not a Spindle trace: {what}")),
        })?;
        if version.is_none() {
            found.created_by().unwrap_or_default().clone_into(&mut info.source);
            info.notes.push(NO_METADATA.into());
        }
        if !has_end && found.num_rows() == 0 {
            let what = "no event can be read: the file was cut off, or its recorder was killed or is \
                        still running";
            return Err(Error::malformed(path, "end", what));
        }
        let sums = sums::stored(file.metadata()).map_err(bad)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            places: places.into_iter().filter(|place| columns.has(place.number)).collect(),
            info,
            is_finished,
            sums,
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

    /// Returns true if it has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a row group that has events left; opens the next one if necessary.
    fn group(&mut self) -> Result<Option<Group>> {
        if let Some(group) = self.open.take().filter(|group| group.left > 0) {
            return Ok(Some(group));
        }
        while self.group < self.file.num_row_groups() {
            let place = format!("row group {}", self.group);
            self.check_columns(&place)?;
            let group = contained(|| self.open_group())
                .map_err(|what| Error::malformed(&self.path, &place, what))?
                .map_err(|e| problem(&self.path, &place, e))?;
            self.group += 1;
            if group.left > 0 {
                return Ok(Some(group));
            }
        }
        Ok(None)
    }

    /// Opens the columns of the next row group that will be read.
    fn open_group(&self) -> parquet::errors::Result<Group> {
        let reader = self.file.get_row_group(self.group)?;
        let schema = self.file.metadata().file_metadata().schema_descr();
        let readers = self.places.iter().map(|place| {
            let pages = Pages::new(reader.get_column_page_reader(place.leaf)?);
            Ok(get_column_reader(schema.column(place.leaf), Box::new(pages)))
        });
        let readers = readers.collect::<parquet::errors::Result<_>>()?;
        let left = usize::try_from(reader.metadata().num_rows()).unwrap_or(0);
        Ok(Group { readers, left })
    }

    /// Checks where the columns of the next row group are that will be read, and compares them with
    /// their checksums, if there are some.
    fn check_columns(&self, group: &str) -> Result<()> {
        let columns = self.file.metadata().row_group(self.group).columns();
        let mut buffer = vec![0; 1 << 16];
        for Place { name, leaf, .. } in &self.places {
            let wrong =
                |what: &str| Error::malformed(&self.path, format!("{group}, column {name}"), what.to_owned());
            let column = columns.get(*leaf).ok_or_else(|| wrong("it is missing"))?;
            let mut place = sums::place(column).ok_or_else(|| wrong("it lies outside the file"))?;
            let Some(sums) = &self.sums else { continue };
            let mut sum = 0;
            while !place.is_empty() {
                let len = buffer.len().min(usize::try_from(place.end - place.start).unwrap_or(usize::MAX));
                let piece = &mut buffer[..len];
                self.bytes.read_exact_at(piece, place.start).map_err(|e| Error::io(&self.path, e))?;
                sum = crc32c::crc32c_append(sum, piece);
                place.start += len as u64;
            }
            if sums.get(self.group * columns.len() + leaf) != Some(&sum) {
                return Err(wrong("the checksum is wrong: the file is damaged there"));
            }
        }
        Ok(())
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
        for (place, reader) in self.places.iter().zip(&mut group.readers) {
            contained(|| self.values.fill(reader, place, batch)).and_then(|filled| filled).map_err(
                |what| {
                    let at = format!("events from {}, column {}", self.given, place.name);
                    Error::malformed(&self.path, at, what)
                },
            )?;
        }
        group.left -= count;
        self.given += count as u64;
        self.open = Some(group);
        Ok(true)
    }

    fn progress(&self) -> Option<f64> {
        // A progress bar does not need exact numbers.
        #[allow(clippy::cast_precision_loss)]
        Some(self.given as f64 / self.len().max(1) as f64)
    }
}

/// Buffers for the values of a column; kept to reuse their memory.
#[derive(Default)]
struct Values {
    wide: Vec<i64>,
    narrow: Vec<i32>,
    words: Vec<ByteArray>,
    /// For each event 1 if there is a value, else 0.
    levels: Vec<i16>,
}

impl Values {
    /// Reads one value of a column for each event of the batch into the events.
    fn fill(
        &mut self,
        reader: &mut ColumnReader,
        place: &Place,
        batch: &mut Batch,
    ) -> std::result::Result<(), String> {
        let count = batch.events.len();
        let Self { wide, narrow: few, words, levels } = self;
        let levels = place.is_optional.then_some(levels);
        match (&COLUMNS[place.number], reader) {
            (Column::Wide { put, .. }, ColumnReader::Int64ColumnReader(reader)) => {
                read(reader, count, wide, levels)?;
                if place.is_time() && place.is_optional && self.levels.contains(&0) {
                    return Err("a time is missing".into());
                }
                place.numbers.map_or(Ok(()), |numbers| numbers.convert(wide))?;
                put(&mut batch.events, wide);
            }
            (Column::Wide { put, .. }, ColumnReader::Int32ColumnReader(reader)) => {
                read(reader, count, few, levels)?;
                wide.clear();
                let numbers = place.numbers.unwrap_or(Numbers::Unsigned);
                wide.extend(few.iter().map(|&value| numbers.wide(value)));
                numbers.convert(wide)?;
                put(&mut batch.events, wide);
            }
            (Column::Narrow { put, .. }, ColumnReader::Int32ColumnReader(reader)) => {
                read(reader, count, few, levels)?;
                if place.numbers == Some(Numbers::Signed)
                    && let Some(value) = few.iter().find(|value| **value < 0)
                {
                    return Err(format!("{value} is less than 0"));
                }
                put(&mut batch.events, few);
            }
            (Column::Narrow { put, .. }, ColumnReader::Int64ColumnReader(reader)) => {
                read(reader, count, wide, levels)?;
                place.numbers.map_or(Ok(()), |numbers| numbers.convert(wide))?;
                few.clear();
                for &value in &*wide {
                    few.push(narrow(value)?);
                }
                put(&mut batch.events, few);
            }
            (Column::Kind, ColumnReader::ByteArrayColumnReader(reader)) => {
                read(reader, count, words, levels)?;
                let mut known = WordCache::default();
                for (event, name) in batch.events.iter_mut().zip(&*words) {
                    let unknown = || format!("kind {:?} is unknown", String::from_utf8_lossy(name.data()));
                    event.kind = known.get(name, |name| Kind::from_name(name.data()).ok_or_else(unknown))?;
                }
            }
            (Column::Word { at, .. }, ColumnReader::ByteArrayColumnReader(reader)) => {
                read(reader, count, words, levels)?;
                let mut known = WordCache::default();
                for (event, word) in batch.events.iter_mut().zip(&*words) {
                    *at(event) = known.get(word, |word| symbol(&mut batch.names, word))?;
                }
            }
            _ => return Err("it does not have the type in its schema".into()),
        }
        Ok(())
    }
}

/// A cache of the meanings of words. Equal words of a dictionary have the same address, so a word
/// is recognised by its address and length, as long as the values exist that it came with.
struct WordCache<T>([(*const u8, usize, T); CACHE_SIZE]);

/// Number of entries, selected by the middle bits of the address.
const CACHE_SIZE: usize = 64;

impl<T: Copy + Default> Default for WordCache<T> {
    fn default() -> Self {
        Self([(std::ptr::null(), 0, T::default()); CACHE_SIZE])
    }
}

impl<T: Copy> WordCache<T> {
    fn get<E>(
        &mut self,
        word: &ByteArray,
        look: impl FnOnce(&ByteArray) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (place, len) = (word.data().as_ptr(), word.len());
        // Words of a dictionary lie some bytes apart, each after its length.
        let at = (place.addr() >> 3) % CACHE_SIZE;
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

/// A value of a column that may be missing.
trait Missing: Sized {
    /// Returns what stands for a missing value.
    fn missing() -> Self;
}

impl Missing for i64 {
    fn missing() -> Self {
        0
    }
}

impl Missing for i32 {
    fn missing() -> Self {
        0
    }
}

impl Missing for ByteArray {
    fn missing() -> Self {
        Self::from("")
    }
}

/// Replaces `values` with the next ones; with `levels` some may be missing.
fn read<T: DataType<T: Missing>>(
    reader: &mut ColumnReaderImpl<T>,
    count: usize,
    values: &mut Vec<T::T>,
    levels: Option<&mut Vec<i16>>,
) -> std::result::Result<(), String> {
    values.clear();
    let Some(levels) = levels else {
        while values.len() < count {
            let (read, ..) =
                reader.read_records(count - values.len(), None, None, values).map_err(|e| e.to_string())?;
            if read == 0 {
                return Err(format!("it is {} values too short", count - values.len()));
            }
        }
        return Ok(());
    };
    levels.clear();
    while levels.len() < count {
        let left = count - levels.len();
        let (read, ..) = reader.read_records(left, Some(levels), None, values).map_err(|e| e.to_string())?;
        if read == 0 {
            return Err(format!("it is {left} values too short"));
        }
    }
    if values.len() < count {
        let mut there = std::mem::take(values).into_iter();
        let value = |&level: &i16| if level > 0 { there.next() } else { Some(T::T::missing()) };
        values.extend(levels.iter().map_while(value));
        if values.len() < count {
            return Err("it has fewer values than it says".into());
        }
    }
    Ok(())
}

fn problem(path: &Path, place: &str, error: ParquetError) -> Error {
    match error {
        ParquetError::External(inner) if inner.is::<std::io::Error>() => {
            Error::io(path, *inner.downcast::<std::io::Error>().expect("the type was just checked"))
        }
        other => Error::malformed(path, place, other),
    }
}
