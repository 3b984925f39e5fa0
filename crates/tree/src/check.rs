//! The vocabulary of a check of a whole file system, in the phases of the classic checker
//! (`McKusick` and Kowalski, "Fsck: The UNIX File System Check Program").
//!
//! A file system declares its findings with [`findings!`](crate::findings), collects them in
//! [`Findings`] and reports them as [`Found`].

use serde::Serialize;
use std::fmt;

/// The part of a check that finds something, numbered as in the classic checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The superblock and its replicas.
    Setup,
    /// Phase 1 and 1b: inodes, blocks and sizes.
    Inodes,
    /// Phase 2: names in directories.
    Names,
    /// Phase 3: connectivity.
    Connectivity,
    /// Phase 4: reference counts.
    Links,
    /// Phase 5 where there are cylinder groups: their maps and summaries.
    Groups,
    /// Phase 5 where there is a free list.
    FreeList,
    /// Phase 6: what quotas inside the file system say is in use.
    Quotas,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setup => "Superblock",
            Self::Inodes => "Phase 1 - Check Blocks and Sizes",
            Self::Names => "Phase 2 - Check Pathnames",
            Self::Connectivity => "Phase 3 - Check Connectivity",
            Self::Links => "Phase 4 - Check Reference Counts",
            Self::Groups => "Phase 5 - Check Cyl groups",
            Self::FreeList => "Phase 5 - Check Free List",
            Self::Quotas => "Phase 6 - Check Quotas",
        })
    }
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; the file system is consistent all the same.
    Note,
    /// Damage whose repair loses nothing.
    Harmless,
    /// Damage.
    Damage,
}

impl Severity {
    /// Returns true for damage, with a loss or without.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        !matches!(self, Self::Note)
    }
}

/// The outcome of a repair, with the reports of the checks before and after it.
#[derive(Clone, Debug)]
pub struct Repaired<R> {
    /// The report before the repair.
    pub before: R,
    /// The report after the repair.
    pub after: R,
    /// True if anything was changed.
    pub changed: bool,
}

/// One thing that a check can find.
pub trait Finding: fmt::Display {
    /// Returns the phase that finds it.
    fn phase(&self) -> Phase;

    /// Returns how much it weighs.
    fn severity(&self) -> Severity;

    /// Returns the inode whose path shows a user where this is.
    fn inode(&self) -> Option<u64>;
}

/// A finding with the path that shows a user where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found<F> {
    /// The finding.
    #[serde(flatten)]
    pub finding: F,
    /// When it was found.
    pub phase: Phase,
    /// What it weighs.
    pub severity: Severity,
    /// Path of the inode (of the directory, if it is about an entry) where one leads to it.
    pub path: Option<String>,
}

impl<F: Finding> fmt::Display for Found<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{} ({path})", self.finding),
            None => self.finding.fmt(f),
        }
    }
}

/// Findings in the order in which they were found. Those beyond a limit are only counted.
pub struct Findings<F> {
    list: Vec<F>,
    limit: usize,
    all: u64,
    damages: u64,
    serious: u64,
    /// Notes that are kept.
    notes: usize,
}

impl<F: Finding> Findings<F> {
    /// Returns an empty list that keeps at most `limit` findings.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit, all: 0, damages: 0, serious: 0, notes: 0 }
    }

    /// Adds a finding. Where there is no room for damage, the later half of the notes goes.
    pub fn push(&mut self, finding: F) {
        let is_note = |finding: &F| !finding.severity().is_damage();
        self.all += 1;
        self.damages += u64::from(!is_note(&finding));
        self.serious += u64::from(finding.severity() == Severity::Damage);
        if self.list.len() >= self.limit {
            if self.notes == 0 || is_note(&finding) {
                return;
            }
            self.notes /= 2;
            let mut left = self.notes;
            self.list.retain(|finding| {
                let stays = !is_note(finding) || left > 0;
                left -= usize::from(stays && is_note(finding));
                stays
            });
        }
        self.notes += usize::from(is_note(&finding));
        self.list.push(finding);
    }

    /// Returns the findings that are kept.
    #[must_use]
    pub fn list(&self) -> &[F] {
        &self.list
    }

    /// Returns the number of findings beyond the limit.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.all - self.list.len() as u64
    }

    /// Returns the number of all findings but notes, kept or not.
    #[must_use]
    pub const fn damages(&self) -> u64 {
        self.damages
    }

    /// Returns the number of those among them whose repair may lose something.
    #[must_use]
    pub const fn serious(&self) -> u64 {
        self.serious
    }

    /// Returns the findings in the order of the phases, with the paths that `path` gives for
    /// inodes.
    pub fn found(self, mut path: impl FnMut(u64) -> Option<String>) -> Vec<Found<F>> {
        let found = |finding: F| Found {
            phase: finding.phase(),
            severity: finding.severity(),
            path: finding.inode().and_then(&mut path),
            finding,
        };
        let mut findings: Vec<_> = self.list.into_iter().map(found).collect();
        findings.sort_by_key(|found| found.phase);
        findings
    }
}

/// Declares the type `Finding` of a file system, a row for each kind:
/// `Name: Phase, Severity [, at (inode whose path shows where)] { fields } "text";`.
#[macro_export]
macro_rules! findings {
    ($(
        $(#[$meta:meta])*
        $name:ident: $phase:ident, $severity:ident $(, at ($at:expr))?
        { $($(#[$fmeta:meta])* $field:ident: $type:ty),* $(,)? } $text:literal;
    )*) => {
        /// One thing that is wrong, with what a repair needs to know.
        #[derive(Clone, Debug, PartialEq, Eq, ::serde::Serialize)]
        #[serde(tag = "finding")]
        pub enum Finding {
            $($(#[$meta])* $name { $($(#[$fmeta])* $field: $type),* },)*
        }

        impl Finding {
            /// The names of all kinds of findings.
            pub const KINDS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Returns the name of its kind.
            #[must_use]
            pub const fn kind(&self) -> &'static str {
                match self { $(Self::$name { .. } => stringify!($name),)* }
            }
        }

        impl $crate::check::Finding for Finding {
            fn phase(&self) -> $crate::check::Phase {
                match self { $(Self::$name { .. } => $crate::check::Phase::$phase,)* }
            }

            fn severity(&self) -> $crate::check::Severity {
                match self { $(Self::$name { .. } => $crate::check::Severity::$severity,)* }
            }

            #[allow(unused_variables, unreachable_code, clippy::match_same_arms)] // One arm for each kind, from the table.
            fn inode(&self) -> Option<u64> {
                match self {
                    $(Self::$name { $($field),* } => { $(return Some($at.into());)? None },)*
                }
            }
        }

        impl ::std::fmt::Display for Finding {
            #[allow(unused_variables)] // Not every text shows every field.
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self { $(Self::$name { $($field),* } => write!(f, $text),)* }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::findings! {
        /// A hint.
        Hint: Inodes, Note {
            /// Its number.
            n: u32,
        } "HINT {n}";
        /// Damage.
        Bad: Groups, Damage {
            /// Its number.
            n: u32,
        } "BAD {n}";
    }

    /// Promise: many notes do not keep damage that is found later out of the list, and all are
    /// counted.
    #[test]
    fn notes_give_way_to_damage() {
        let mut findings = Findings::new(3);
        (0..5).for_each(|n| findings.push(Finding::Hint { n }));
        (0..2).for_each(|n| findings.push(Finding::Bad { n }));
        findings.push(Finding::Hint { n: 9 });
        let kept = |list: &[Finding]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(kept(findings.list()), ["HINT 0", "BAD 0", "BAD 1"]);
        assert_eq!((findings.unlisted(), findings.damages()), (5, 2));
        assert_eq!(findings.list()[0].kind(), Finding::KINDS[0]);
        (2..5).for_each(|n| findings.push(Finding::Bad { n }));
        assert_eq!(kept(findings.list()), ["BAD 0", "BAD 1", "BAD 2"]);
        assert_eq!((findings.unlisted(), findings.damages(), findings.serious()), (8, 5, 5));
    }
}
