//! A figure of a preset: a plain number, or one with its origin.

use crate::error::Error;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// How sure a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sureness {
    /// Published by who made or measured it.
    High,
    /// Published at second hand, or derived from what was published.
    Medium,
    /// Uncertain, or taken from a sibling.
    Low,
    /// Nothing was published: a reasonable value.
    Estimated,
}

impl Sureness {
    const WORDS: &[&str] = &["high", "medium", "low", "estimated"];

    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "high" => Self::High,
            "medium" => Self::Medium,
            "low" => Self::Low,
            "estimated" => Self::Estimated,
            _ => return None,
        })
    }
}

impl fmt::Display for Sureness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WORDS[*self as usize])
    }
}

/// A figure as a person wants to see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its place in the file, such as `disk.geometry.rpm`.
    pub field: String,
    /// The number.
    pub value: f64,
    /// How sure it is; not known for a plain number.
    pub sure: Option<Sureness>,
    /// Where it was published.
    pub source: Option<String>,
    /// How it was come by.
    pub note: Option<String>,
}

/// Reads a figure, leaving its origin to [`collect`].
pub fn figure<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Number(PhantomData).deserialize(deserializer)
}

/// Reads a figure that may be left out.
pub fn figure_or_none<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    figure(deserializer).map(Some)
}

/// Reads a table of figures, whose keys are numbers.
pub fn figures_by_number<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<u32, T>, D::Error> {
    deserializer.deserialize_map(Table(PhantomData))
}

struct Table<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Table<T> {
    type Value = BTreeMap<u32, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("figures by whole numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut figures = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let number = key
                .parse()
                .map_err(|_| A::Error::custom(format!("`{key}` is not a whole number below 2^32")))?;
            figures.insert(number, map.next_value_seed(Number(PhantomData))?);
        }
        Ok(figures)
    }
}

struct Number<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Number<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or { value = …, sure = \"…\", source = \"…\" }")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<T, E> {
        T::deserialize(value.into_deserializer())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<T, E> {
        T::deserialize(value.into_deserializer())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<T, E> {
        T::deserialize(value.into_deserializer())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let (mut value, mut sure, mut explained) = (None, false, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "value" => value = Some(map.next_value()?),
                "sure" => {
                    let word: String = map.next_value()?;
                    if Sureness::parse(&word).is_none() {
                        return Err(A::Error::unknown_variant(&word, Sureness::WORDS));
                    }
                    sure = true;
                }
                "source" | "note" => {
                    map.next_value::<String>()?;
                    explained = true;
                }
                other => return Err(A::Error::unknown_field(other, &["value", "sure", "source", "note"])),
            }
        }
        if !sure {
            return Err(A::Error::missing_field("sure"));
        }
        if !explained {
            return Err(A::Error::custom("a figure with `sure` needs a `source` or a `note`"));
        }
        value.ok_or_else(|| A::Error::missing_field("value"))
    }
}

/// Returns all figures of a file with their origins.
///
/// # Errors
/// When a figure names a source that is not in `[sources]`.
pub fn collect(file: &toml::Table, sources: &BTreeMap<String, String>) -> Result<Vec<Figure>, Error> {
    let mut figures = Vec::new();
    for (name, value) in file.iter().filter(|(name, _)| *name != "sources") {
        walk(name, value, sources, &mut figures)?;
    }
    Ok(figures)
}

fn walk(
    field: &str,
    value: &toml::Value,
    sources: &BTreeMap<String, String>,
    figures: &mut Vec<Figure>,
) -> Result<(), Error> {
    if let Some(value) = number(value) {
        figures.push(Figure { field: field.to_owned(), value, sure: None, source: None, note: None });
        return Ok(());
    }
    match value {
        toml::Value::Table(table) => match table.get("value").and_then(number) {
            Some(value) => {
                let text = |key: &str| table.get(key).and_then(toml::Value::as_str);
                let source = match text("source") {
                    Some(key) => Some(sources.get(key).cloned().ok_or_else(|| Error::Invalid {
                        field: field.to_owned(),
                        problem: format!("has the source `{key}`, which is not among [sources]"),
                    })?),
                    None => None,
                };
                let sure = text("sure").and_then(Sureness::parse);
                let note = text("note").map(ToOwned::to_owned);
                figures.push(Figure { field: field.to_owned(), value, sure, source, note });
            }
            None => {
                for (name, value) in table {
                    walk(&format!("{field}.{name}"), value, sources, figures)?;
                }
            }
        },
        toml::Value::Array(values) => {
            for (n, value) in values.iter().enumerate() {
                walk(&format!("{field}[{n}]"), value, sources, figures)?;
            }
        }
        _ => {}
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "to be shown")]
fn number(value: &toml::Value) -> Option<f64> {
    match value {
        toml::Value::Float(number) => Some(*number),
        toml::Value::Integer(number) => Some(*number as f64),
        toml::Value::Boolean(truth) => Some(f64::from(u8::from(*truth))),
        _ => None,
    }
}
