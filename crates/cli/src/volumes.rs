//! The volumes of a dump: their names, and asking for the next one as dump(8) does.

use crate::error::Result;
use crate::{error, interrupt};
use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The names of volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// Those of the first ones.
    List(Vec<PathBuf>),
    /// What each name has before the number of the volume.
    Prefix(PathBuf),
}

impl Names {
    /// Returns what an option `-f` names: files, divided by commas, or with `-M` a prefix.
    ///
    /// # Errors
    /// If a name is empty or comes twice, or if standard input or output is one of several.
    pub fn new(file: &Path, is_prefix: bool) -> Result<Self> {
        if is_prefix {
            return Ok(Self::Prefix(file.to_owned()));
        }
        let names: Vec<PathBuf> = file
            .as_os_str()
            .as_bytes()
            .split(|&b| b == b',')
            .map(|name| OsStr::from_bytes(name).into())
            .collect();
        let wrong = |what: &str| Err(error::Failure::usage(format!("-f {}: {what}", file.display())));
        for (n, name) in names.iter().enumerate() {
            if name.as_os_str().is_empty() {
                return wrong("the name of a volume is empty");
            }
            if names[..n].contains(name) {
                return wrong("two volumes have the same name");
            }
            if names.len() > 1 && name.as_os_str() == "-" {
                return wrong("standard input or output cannot be one of several volumes");
            }
        }
        Ok(Self::List(names))
    }

    /// Returns the name of a volume, from 1; none if it has to be asked for.
    pub fn get(&self, number: i32) -> Option<PathBuf> {
        match self {
            Self::List(names) => names.get(usize::try_from(number - 1).ok()?).cloned(),
            Self::Prefix(prefix) => {
                let mut name = prefix.clone().into_os_string();
                name.push(format!("{number:03}"));
                Some(name.into())
            }
        }
    }

    /// Returns the names that are known from the start.
    pub fn known(&self) -> Vec<PathBuf> {
        match self {
            Self::List(names) => names.clone(),
            Self::Prefix(_) => self.get(1).into_iter().collect(),
        }
    }
}

/// Asks on a terminal, and returns the answer without blanks around it; none at the end of the
/// input, or without a terminal.
pub fn ask(question: &str) -> io::Result<Option<String>> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Ok(None);
    }
    let mut stderr = io::stderr();
    let _ = write!(stderr, "{question} ").and_then(|()| stderr.flush());
    // A terminal gives a line at a time, so that nothing of the next one is lost here.
    let mut line = String::new();
    let read = BufReader::new(interrupt::Reader(stdin)).read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names are divided at commas, a prefix gets numbers of three digits as Linux's `-M`
    /// has them, and what would write one volume over another is refused.
    #[test]
    fn names_of_volumes() {
        let names = |file: &str| Names::new(Path::new(file), false);
        let list = names("a,/b/c").unwrap();
        assert_eq!((list.get(1), list.get(2), list.get(3)), (Some("a".into()), Some("/b/c".into()), None));
        let prefix = Names::new(Path::new("d,e."), true).unwrap();
        assert_eq!((prefix.get(1), prefix.get(1000)), (Some("d,e.001".into()), Some("d,e.1000".into())));
        for wrong in ["a,", ",", "a,b,a", "-,a", ""] {
            assert_eq!(names(wrong).unwrap_err().code(), error::USAGE, "{wrong}");
        }
        assert_eq!(names("-").unwrap().get(1), Some("-".into()));
    }
}
