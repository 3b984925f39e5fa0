//! Where the columns of the schema are in a file, and how their values are stored there.
//!
//! The one idea: a column is found by its name. Spindle writes all columns required, with the types
//! of the schema, and these are copied as they are. Other programs that write a trace anew choose
//! another order, allow missing values, or have numbers of another width or sign and times of
//! another unit; their values are converted, and one that does not fit is an error.

use super::column::{COLUMNS, Column};
use super::schema;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

/// A column of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Its name.
    pub(super) name: String,
    /// Number of the column in the schema.
    pub(super) number: usize,
    /// Number of the column in the file.
    pub(super) leaf: usize,
    /// Values may be missing.
    pub(super) is_optional: bool,
    /// How its numbers become those of events; nothing if they already are.
    pub(super) numbers: Option<Numbers>,
}

/// What the numbers of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// Times in a unit of this many ns.
    Times(i64),
    /// Numbers that may be negative, which those of events are not.
    Signed,
    /// Numbers from 0 on, of another width.
    Unsigned,
}

/// The column that no event can be without.
const TIME: &str = "time";

impl Place {
    /// Returns true if it has the times of events.
    pub(super) fn is_time(&self) -> bool {
        self.name == TIME
    }
}

/// Returns the place of each column of the schema.
///
/// # Errors
/// What is wrong, if a column is missing or cannot hold the values of events.
pub(super) fn places(found: &SchemaDescriptor) -> Result<Vec<Place>, String> {
    let wanted = schema();
    let names = wanted.get_fields().iter().map(|field| field.name());
    (0..).zip(names).map(|(number, name)| place(found, number, name)).collect()
}

fn place(found: &SchemaDescriptor, number: usize, name: &str) -> Result<Place, String> {
    let mut same = (0..).zip(found.columns()).filter(|(_, column)| column.path().parts() == [name]);
    let (leaf, column) = same.next().ok_or_else(|| format!("column {name} is missing"))?;
    if same.next().is_some() {
        return Err(format!("column {name} is there twice"));
    }
    let has = column.physical_type();
    let (wanted, is_possible) = match COLUMNS[number] {
        Column::Kind | Column::Word { .. } => (Type::BYTE_ARRAY, has == Type::BYTE_ARRAY),
        Column::Wide { .. } => (Type::INT64, matches!(has, Type::INT64 | Type::INT32)),
        Column::Narrow { .. } => (Type::INT32, matches!(has, Type::INT64 | Type::INT32)),
    };
    if !is_possible {
        return Err(format!("column {name} has the type {has}; cast it to {wanted}"));
    }
    if column.max_rep_level() > 0 {
        return Err(format!("column {name} has lists"));
    }
    let numbers = match numbers(column, name == TIME) {
        Numbers::Unsigned | Numbers::Times(1) if has == wanted => None,
        _ if wanted == Type::BYTE_ARRAY => None,
        numbers => Some(numbers),
    };
    Ok(Place { name: name.to_owned(), number, leaf, is_optional: column.max_def_level() > 0, numbers })
}

fn numbers(column: &ColumnDescriptor, is_time: bool) -> Numbers {
    if is_time {
        return Numbers::Times(match (column.logical_type_ref(), column.converted_type()) {
            (Some(LogicalType::Timestamp(time)), _) => match time.unit {
                TimeUnit::MILLIS => 1_000_000,
                TimeUnit::MICROS => 1000,
                TimeUnit::NANOS => 1,
            },
            (_, ConvertedType::TIMESTAMP_MILLIS) => 1_000_000,
            (_, ConvertedType::TIMESTAMP_MICROS) => 1000,
            _ => 1,
        });
    }
    match (column.logical_type_ref(), column.converted_type()) {
        (Some(LogicalType::Integer(number)), _) if !number.is_signed => Numbers::Unsigned,
        (
            _,
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64,
        ) => Numbers::Unsigned,
        _ => Numbers::Signed,
    }
}

impl Numbers {
    /// Converts numbers of 64 bits.
    ///
    /// # Errors
    /// What is wrong, if one is no value of an event.
    pub(super) fn convert(self, values: &mut [i64]) -> Result<(), String> {
        match self {
            Self::Times(unit) => values.iter_mut().try_for_each(|value| {
                *value = value.checked_mul(unit).ok_or_else(|| format!("{value} is out of range"))?;
                Ok(())
            }),
            Self::Signed => values
                .iter()
                .find(|value| **value < 0)
                .map_or(Ok(()), |value| Err(format!("{value} is less than 0"))),
            Self::Unsigned => Ok(()),
        }
    }

    /// Returns a number of 32 bits in 64.
    pub(super) fn wide(self, value: i32) -> i64 {
        match self {
            Self::Unsigned => value.cast_unsigned().into(),
            Self::Times(_) | Self::Signed => value.into(),
        }
    }
}

/// Returns the low 32 bits of a number that has no others.
///
/// # Errors
/// What is wrong, if it has.
pub(super) fn narrow(value: i64) -> Result<i32, String> {
    u32::try_from(value).map(u32::cast_signed).map_err(|_| format!("{} is too large", value.cast_unsigned()))
}

#[cfg(test)]
mod tests;
