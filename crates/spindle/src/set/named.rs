//! What names a set, and what names one of its members.

use super::find::{FoundSet, absolute, find, find_mounted, is_same};
use crate::control::{Name, Request, request};
use crate::error::Result;
use crate::mounted::Description;
use serde::{Deserialize, Serialize};
use spindle_device::Spec;
use spindle_mfs::Place;

/// What a set is named by.
#[derive(Clone, Debug)]
pub enum Named {
    /// One of its members.
    Member(Spec),
    /// Its mount. The process that serves it is asked, so no member has to be what it was.
    Mount(Box<NamedMount>),
}

/// The mount of a set.
#[derive(Clone, Debug)]
pub struct NamedMount {
    /// The name under which it is asked.
    pub name: Name,
    /// What it says of itself.
    pub says: Description,
    /// What it says of the set.
    pub set: MountedSet,
}

/// What a mount says of its set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MountedSet {
    /// The bytes of its label.
    pub label: Vec<u8>,
    /// Where its members are, or were, by their identities.
    pub places: Vec<Place>,
}

impl Named {
    /// Finds the members of the set.
    ///
    /// # Errors
    /// As [`find`].
    pub fn find(&self) -> Result<FoundSet> {
        match self {
            Self::Member(spec) => find(spec),
            Self::Mount(mount) => find_mounted(&mount.set),
        }
    }

    /// Asks the process that serves the mount of the set. Returns none if it is not mounted.
    ///
    /// # Errors
    /// As [`request`]; if the set is named by what is no member of one.
    pub(super) fn ask<T: serde::de::DeserializeOwned>(
        &self,
        asked: &Request,
        report: &mut super::Report<'_>,
    ) -> Result<Option<T>> {
        let name = match self {
            Self::Member(spec) => Name::of_set(super::find::label(spec)?.set_id, spec)?,
            Self::Mount(mount) => mount.name.clone(),
        };
        request(&name, asked, report)
    }

    /// Returns a member of the set, if possible one that is still there.
    ///
    /// # Errors
    /// If the mount names what is no file.
    pub(super) fn member(&self) -> Result<Spec> {
        match self {
            Self::Member(spec) => Ok(spec.clone()),
            Self::Mount(mount) => Ok(Spec::parse(&mount.says.image)?),
        }
    }
}

/// A member as a user names it: by the path where it is, by that where it was last, or by the
/// beginning of its identity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberName {
    /// What the user has given.
    pub given: String,
    /// The same as a path that means the same in another process.
    path: String,
}

impl MemberName {
    /// Returns the name that a user has given.
    #[must_use]
    pub fn new(given: &str) -> Self {
        let path = Spec::parse(given).map_or_else(|_| given.to_owned(), |spec| absolute(&spec).to_string());
        Self { given: given.to_owned(), path }
    }

    /// Returns it as a place; none if it cannot be one.
    pub(super) fn place(&self) -> Option<Spec> {
        Spec::parse(&self.path).ok()
    }

    /// Returns true if it is this place.
    pub(super) fn is_place(&self, path: &str) -> bool {
        let places = self.place().zip(Spec::parse(path).ok());
        places.is_some_and(|(own, other)| is_same(&own, &other))
    }

    /// Returns true if it is the beginning of this identity, as [`Status`](super::Status) shows it.
    pub(super) fn begins(&self, id: [u8; 16]) -> bool {
        let digits = format!("{:032x}", u128::from_be_bytes(id));
        self.given.len() >= 4 && digits.starts_with(&self.given)
    }
}
