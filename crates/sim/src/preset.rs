//! Presets: files that describe a disk or a host, each figure with its source and how sure it is.
//!
//! A file is TOML. `[disk.*]` has what [`disk::Spec`] names, `[host]` what [`host::Spec`] names; a
//! figure is a plain number, or a number with its origin:
//!
//! ```toml
//! title = "Example 100"
//! description = "A small disk."
//!
//! [sources]
//! manual = "Example Corporation, Model 100 Reference Manual, 1984, page 12"
//!
//! [disk.geometry]
//! heads = { value = 4, sure = "high", source = "manual" }
//! head_switch_ms = { value = 1.5, sure = "estimated", note = "as the Model 90" }
//! ```
//!
//! The presets that come with Spindle are in `presets/`, and are examples for others. They describe
//! disks and hosts and nothing else: no figure is there to make a file system look good.

pub use crate::error::Error;
pub use crate::figure::{Figure, Sureness};

use crate::disk::{self, Disk};
use crate::disksim;
use crate::host::{self, Host};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The presets that come with Spindle.
const BUILT_IN: &[(&str, &str)] = &[
    ("capricorn-massbus", include_str!("../presets/capricorn-massbus.toml")),
    ("capricorn-unibus", include_str!("../presets/capricorn-unibus.toml")),
    ("eagle", include_str!("../presets/eagle.toml")),
    ("ibm-0661", include_str!("../presets/ibm-0661.toml")),
    ("nvme", include_str!("../presets/nvme.toml")),
    ("nearline-20tb", include_str!("../presets/nearline-20tb.toml")),
    ("ra81", include_str!("../presets/ra81.toml")),
    ("rm05", include_str!("../presets/rm05.toml")),
    ("rp06", include_str!("../presets/rp06.toml")),
    ("sata-ssd", include_str!("../presets/sata-ssd.toml")),
    ("smr-8tb", include_str!("../presets/smr-8tb.toml")),
    ("super-eagle", include_str!("../presets/super-eagle.toml")),
    ("sparcstation-1", include_str!("../presets/sparcstation-1.toml")),
    ("today", include_str!("../presets/today.toml")),
    ("today-mounted", include_str!("../presets/today-mounted.toml")),
    ("unisys-7000-51", include_str!("../presets/unisys-7000-51.toml")),
    ("vax-11-750", include_str!("../presets/vax-11-750.toml")),
    ("vax-11-780", include_str!("../presets/vax-11-780.toml")),
];

/// The fields of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    description: String,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    disk: Option<disk::Spec>,
    host: Option<host::Spec>,
}

/// What a preset describes.
#[derive(Clone, Debug, PartialEq)]
pub enum Model {
    /// A disk with controller and bus.
    Disk(Box<disk::Spec>),
    /// A host.
    Host(host::Spec),
}

/// A disk or a host by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Preset {
    /// The name of its file without `.toml`.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What it is, where it stood, and what the model leaves out.
    pub description: String,
    /// The model.
    pub model: Model,
    /// Its figures in the order of their names.
    pub figures: Vec<Figure>,
}

impl Preset {
    /// Reads a preset from the text of a file.
    ///
    /// # Errors
    /// When the text is not TOML, has a field that is wrong, missing or unknown, or describes what
    /// cannot be.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let syntax = |error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let problem = error.message().lines().collect::<Vec<_>>().join("; ");
            let before = before.matches('\n').count();
            let wrong = text.lines().nth(before).unwrap_or_default().trim().to_owned();
            Error::Syntax { name: name.to_owned(), line: before + 1, text: wrong, problem }
        };
        let inside = |source| Error::In { name: name.to_owned(), source: Box::new(source) };
        let invalid = |field: &str, problem: &str| {
            inside(Error::Invalid { field: field.to_owned(), problem: problem.to_owned() })
        };
        let file: File = toml::from_str(text).map_err(syntax)?;
        let table: toml::Table = toml::from_str(text).map_err(syntax)?;
        let figures = crate::figure::collect(&table, &file.sources).map_err(inside)?;
        let model = match (file.disk, file.host) {
            (Some(disk), None) => {
                Disk::new(&disk).map_err(inside)?;
                Model::Disk(Box::new(disk))
            }
            (None, Some(host)) => {
                Host::new(&host).map_err(inside)?;
                Model::Host(host)
            }
            (Some(_), Some(_)) => return Err(invalid("host", "must have a file of its own beside [disk]")),
            (None, None) => return Err(invalid("disk", "or [host] must be there")),
        };
        Ok(Self { name: name.to_owned(), title: file.title, description: file.description, model, figures })
    }
}

/// Presets by name.
#[derive(Clone, Debug, Default)]
pub struct Library(BTreeMap<String, Preset>);

impl Library {
    /// Returns the presets that come with Spindle.
    ///
    /// # Errors
    /// Never: a test reads them all.
    pub fn built_in() -> Result<Self, Error> {
        let presets = BUILT_IN.iter().map(|(name, text)| Preset::parse(name, text));
        Ok(Self(
            presets
                .map(|preset| preset.map(|preset| (preset.name.clone(), preset)))
                .collect::<Result<_, _>>()?,
        ))
    }

    /// Adds a file, or all files of a directory that end in `.toml`; a preset of the same name is
    /// replaced. A file that ends in `.parv` has a drive in the form of `DiskSim`. Gives the names
    /// in their order.
    ///
    /// # Errors
    /// When something cannot be read, or as [`Preset::parse`]; then nothing was added.
    pub fn load(&mut self, path: &Path) -> Result<Vec<String>, Error> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Read { path, source }
        };
        let mut files = vec![path.to_owned()];
        if path.is_dir() {
            let entries =
                path.read_dir().and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed(path))?;
            files = entries.into_iter().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
            files.sort();
        }
        let mut found = Vec::new();
        for file in files {
            if file.extension().is_some_and(|extension| extension == "parv") {
                found.push(disksim::preset(&file)?);
                continue;
            }
            let text = std::fs::read_to_string(&file).map_err(failed(&file))?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            found.push(Preset::parse(&name, &text).map_err(|error| error.of_file(&file))?);
        }
        let names = found.iter().map(|preset| preset.name.clone()).collect();
        self.0.extend(found.into_iter().map(|preset| (preset.name.clone(), preset)));
        Ok(names)
    }

    /// Returns all of them in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Preset> {
        self.0.values()
    }

    /// Returns a disk by name.
    ///
    /// # Errors
    /// When there is none of that name; the message names those that there are.
    pub fn disk(&self, name: &str) -> Result<&disk::Spec, Error> {
        match self.0.get(name) {
            Some(Preset { model: Model::Disk(disk), .. }) => Ok(disk),
            _ => Err(self.unknown("disk", name, |model| matches!(model, Model::Disk(_)))),
        }
    }

    /// Returns a host by name.
    ///
    /// # Errors
    /// When there is none of that name; the message names those that there are.
    pub fn host(&self, name: &str) -> Result<&host::Spec, Error> {
        match self.0.get(name) {
            Some(Preset { model: Model::Host(host), .. }) => Ok(host),
            _ => Err(self.unknown("host", name, |model| matches!(model, Model::Host(_)))),
        }
    }

    fn unknown(&self, kind: &'static str, name: &str, is_kind: impl Fn(&Model) -> bool) -> Error {
        let known = self.iter().filter(|preset| is_kind(&preset.model)).map(|preset| preset.name.as_str());
        Error::Unknown { kind, name: name.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
    }
}

/// Returns a disk: of the preset with this name, or of a file, as [`Library::load`] reads it.
///
/// # Errors
/// When there is neither, or the file is wrong.
pub fn disk(name: &str) -> Result<disk::Spec, Error> {
    let (library, name) = with_file(name)?;
    library.disk(&name).cloned()
}

/// Returns a host: of the preset with this name, or of a file.
///
/// # Errors
/// When there is neither, or the file is wrong.
pub fn host(name: &str) -> Result<host::Spec, Error> {
    let (library, name) = with_file(name)?;
    library.host(&name).cloned()
}

/// Returns the presets that come with Spindle, and that of a file if `name` is one, with the name
/// of the preset that is meant.
fn with_file(name: &str) -> Result<(Library, String), Error> {
    let mut library = Library::built_in()?;
    let path = Path::new(name);
    let names = if path.is_file() { library.load(path)? } else { Vec::new() };
    let name = names.into_iter().next().unwrap_or_else(|| name.to_owned());
    Ok((library, name))
}

/// Returns the presets that come with Spindle, in the order of their names.
///
/// # Errors
/// Never, as [`Library::built_in`].
pub fn all() -> Result<Vec<Preset>, Error> {
    Ok(Library::built_in()?.0.into_values().collect())
}
