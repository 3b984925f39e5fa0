//! What stands in for a root directory that cannot be read: the files without a name.
//!
//! Where the root directory is lost, so are the names of what was in it, but not the files. A file
//! system that is open to read shows each file and directory that no directory names any more, as
//! `#` and the number of its inode; below such a directory all is as it was. That is what fsck
//! would leave in `lost+found`. Nothing is written.
//!
//! Where another directory is lost, a user can ask for the same in place of the root directory.

use crate::{Condition, Dinode, Found, Number};
use spindle_vfs::{DirEntry, Error, FileKind, Ino, Result};
use std::ops::{ControlFlow, Range};

/// The files and directories that no directory names.
pub struct LostRoot<N> {
    root: N,
    /// Why the root directory cannot be read; none if the user does not want to see it.
    error: Option<Error>,
    /// Their inodes, in order, with their kinds.
    unnamed: Vec<(N, Option<FileKind>)>,
}

/// A set of inode numbers, a bit for each.
struct Inodes(Vec<u64>);

impl Inodes {
    fn insert(&mut self, ino: u64) {
        if let Some(word) = usize::try_from(ino / 64).ok().and_then(|n| self.0.get_mut(n)) {
            *word |= 1 << (ino % 64);
        }
    }

    fn contains(&self, ino: u64) -> bool {
        let word = usize::try_from(ino / 64).ok().and_then(|n| self.0.get(n));
        word.is_some_and(|word| word >> (ino % 64) & 1 != 0)
    }
}

impl<N: Number> LostRoot<N> {
    /// Returns what stands in for the directory `root`, which fails with `error`, or which the user
    /// does not want to see. Looks at all of `inodes`, which are without `root`: `read` returns one
    /// that is not free, which includes what was removed while it was open, and `names` calls its
    /// argument with each inode that a directory names, but for `.` and `..`.
    ///
    /// # Errors
    /// `error`, if the file system can be changed, if the device has failed, or if no file is left;
    /// EROFS without one, if the file system can be changed; those of `names`.
    pub fn search<D: Dinode>(
        condition: &Condition,
        error: Option<Error>,
        root: N,
        inodes: Range<N>,
        read: impl Fn(N) -> Option<D>,
        names: impl Fn(N, &mut dyn FnMut(N)) -> Result<()>,
    ) -> Result<Self> {
        match &error {
            // The device may have failed for a moment only.
            Some(Error::Device(error)) => return Err(Error::Device(error.clone())),
            Some(Error::Corrupt { what, place }) if !condition.is_read_only() => {
                return Err(Error::corrupt(format!("{what}: open it read-only to see what is left"), place));
            }
            None if !condition.is_read_only() => return Err(Error::ReadOnly),
            _ => {}
        }
        let (first, end): (u64, u64) = (inodes.start.into(), inodes.end.into());
        let words = usize::try_from(end / 64 + 1).unwrap_or(0);
        let (mut named, mut in_use) = (Inodes(vec![0; words]), Inodes(vec![0; words]));
        if error.is_none() {
            names(root, &mut |target| named.insert(target.into()))?;
        }
        let numbers = || (first..end).filter_map(|ino| Some((ino, N::try_from(ino).ok()?)));
        for (ino, number) in numbers() {
            // Inodes that cannot be read are lost with the root.
            let Some(di) = read(number) else { continue };
            in_use.insert(ino);
            if di.is_directory() {
                names(number, &mut |target| named.insert(target.into()))?;
            }
        }
        let unnamed: Vec<_> = numbers()
            .filter(|&(ino, _)| in_use.contains(ino) && !named.contains(ino))
            .map(|(_, number)| (number, read(number).and_then(|di| di.kind())))
            .collect();
        if let Some(error) = &error {
            if unnamed.is_empty() {
                return Err(error.clone());
            }
            condition.pass_over(error);
            log::warn!("the root directory is lost; {} files in it are shown by their inodes", unnamed.len());
        }
        Ok(Self { root, error, unnamed })
    }

    /// Finds a name.
    ///
    /// # Errors
    /// Why the root directory cannot be read, if it is no number of a file: it may be one of its
    /// names.
    pub fn find(&self, name: &[u8]) -> Result<Option<Found<N>>> {
        let number = |name: &[u8]| {
            let digits = std::str::from_utf8(name.strip_prefix(b"#")?).ok()?;
            let ino = N::try_from(digits.parse().ok()?).ok()?;
            self.unnamed.binary_search_by_key(&ino, |&(ino, _)| ino).ok()?;
            Some(ino)
        };
        let ino = if matches!(name, b"." | b"..") { Some(self.root) } else { number(name) };
        match (ino, &self.error) {
            (Some(ino), _) => Ok(Some(Found { place: 0, ino })),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Ok(None),
        }
    }

    /// Passes the names to `sink`, from the one with this cookie on.
    ///
    /// # Errors
    /// At the end, why the root directory cannot be read.
    pub fn list(&self, from: u64, sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>) -> Result<()> {
        let directory = Some(FileKind::Directory);
        let dots = [(".".to_owned(), self.root, directory), ("..".to_owned(), self.root, directory)];
        let files = self.unnamed.iter().map(|&(ino, kind)| (format!("#{ino}"), ino, kind));
        for (n, (name, ino, kind)) in (0..).zip(dots.into_iter().chain(files)) {
            let entry = DirEntry { name: name.as_bytes(), ino: Ino(ino.into()), kind, next: n + 1 };
            if n >= from && sink(&entry).is_break() {
                return Ok(());
            }
        }
        self.error.clone().map_or(Ok(()), Err)
    }
}
