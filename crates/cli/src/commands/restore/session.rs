//! The session of `spindle restore -i`: a shell in the directories of a dump, in which files are
//! chosen.

use crate::error::{Failure, Result};
use crate::listing::Names as Shown;
use crate::output::Output;
use spindle::pattern::Pattern;
use spindle::restore::Listed;
use std::collections::{BTreeMap, BTreeSet};

/// What comes after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next command.
    Command,
    /// The chosen files are extracted.
    Extract,
    /// The chosen directories get their attributes.
    SetModes,
    /// What the dumps say of themselves is printed.
    What,
    /// The end.
    Quit,
}

/// The commands: name, words, help, and the most words.
const COMMANDS: [(&str, &str, &str, usize); 12] = [
    ("ls", "[PATH]", "names in a directory; * marks what is chosen", usize::MAX),
    ("cd", "[PATH]", "choose a directory", 1),
    ("pwd", "", "print its path", 0),
    ("add", "[PATH...]", "choose files, with everything below directories", usize::MAX),
    ("delete", "[PATH...]", "no longer choose them", usize::MAX),
    ("extract", "", "extract what is chosen", 0),
    ("setmodes", "", "give owners, modes and times to the directories that are chosen", 0),
    ("what", "", "what the dump says of itself", 0),
    ("verbose", "", "switch inode numbers in ls and names in extract on or off", 0),
    ("help", "", "this list; ? does the same", 0),
    ("quit", "", "end the session", 0),
    ("xit", "", "the same", 0),
];

/// A session.
pub struct Session {
    /// Inode of each file by path, and whether it is a directory.
    files: BTreeMap<Vec<u8>, (u32, bool)>,
    chosen: BTreeSet<Vec<u8>>,
    directory: Vec<u8>,
    only_itself: bool,
    pub verbose: bool,
    shown: Shown,
}

impl Session {
    /// Begins in the root directory. With `only_itself`, a directory is chosen without what is
    /// below it.
    pub fn new(files: impl Iterator<Item = Listed>, only_itself: bool, verbose: bool) -> Self {
        let files = files.map(|file| (file.path, (file.ino, file.is_directory))).collect();
        let (chosen, directory) = (BTreeSet::new(), Vec::new());
        Self { files, chosen, directory, only_itself, verbose, shown: Shown::for_stdout() }
    }

    /// Returns the files that are chosen.
    pub const fn chosen(&self) -> &BTreeSet<Vec<u8>> {
        &self.chosen
    }

    /// Forgets what was chosen, as after an extraction.
    pub fn clear(&mut self) {
        self.chosen.clear();
    }

    /// Runs a command; its name may be cut as long as it begins it.
    pub fn run(&mut self, words: &[String], out: &mut Output) -> Result<Next> {
        let Some((word, rest)) = words.split_first() else { return Ok(Next::Command) };
        let word = if word == "?" { "help" } else { word };
        let (name, form, _, most) = COMMANDS
            .iter()
            .find(|(name, ..)| name.starts_with(word))
            .ok_or_else(|| Failure::new(format!("{word}: no such command; help lists them")))?;
        if rest.len() > *most {
            return Err(Failure::new(format!("give {name} {form}").trim_end().to_owned()));
        }
        let paths = || -> Result<Vec<Vec<u8>>> {
            if rest.is_empty() {
                return Ok(vec![self.directory.clone()]);
            }
            let found: Result<Vec<_>> = rest.iter().map(|word| self.find(word)).collect();
            Ok(found?.concat())
        };
        match *name {
            "ls" => self.list(&paths()?, out)?,
            "cd" => match &paths()?[..] {
                _ if rest.is_empty() => self.directory.clear(),
                [path] if self.is_directory(path) => self.directory.clone_from(path),
                [path] => return Err(Failure::new(format!("{}: not a directory", self.name(path)))),
                _ => return Err(Failure::new(format!("{}: more than one", rest[0]))),
            },
            "pwd" => out.line(self.name(&self.directory))?,
            "add" => {
                for path in paths()? {
                    let all: Vec<_> = self.below(&path).cloned().collect();
                    self.chosen.extend(all);
                }
            }
            "delete" => {
                for path in paths()? {
                    let all: Vec<_> = self.below(&path).cloned().collect();
                    self.chosen.retain(|chosen| !all.contains(chosen));
                }
            }
            "verbose" => {
                self.verbose = !self.verbose;
                out.line(format!("verbose mode {}", if self.verbose { "on" } else { "off" }))?;
            }
            "help" => {
                for (name, form, help, _) in COMMANDS {
                    out.line(format!("{:<20} {help}", format!("{name} {form}")))?;
                }
            }
            "extract" => return Ok(Next::Extract),
            "setmodes" => return Ok(Next::SetModes),
            "what" => return Ok(Next::What),
            _ => return Ok(Next::Quit),
        }
        Ok(Next::Command)
    }

    fn is_directory(&self, path: &[u8]) -> bool {
        path.is_empty() || self.files.get(path).is_some_and(|(_, is_directory)| *is_directory)
    }

    /// Returns a path as it is shown.
    fn name(&self, path: &[u8]) -> String {
        self.shown.show(&[b"/", path].concat())
    }

    /// Returns a file, and what is below it unless directories are chosen alone.
    fn below(&self, path: &[u8]) -> impl Iterator<Item = &Vec<u8>> {
        let prefix = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        let only_itself = self.only_itself;
        let path = path.to_vec();
        self.files.keys().filter(move |file| **file == path || !only_itself && file.starts_with(&prefix))
    }

    /// Returns the names in a directory.
    fn names(&self, dir: &[u8]) -> impl Iterator<Item = (&[u8], &Vec<u8>)> {
        let prefix = if dir.is_empty() { Vec::new() } else { [dir, b"/"].concat() };
        let range = self.files.range(prefix.clone()..);
        let range = range.take_while({
            let prefix = prefix.clone();
            move |(path, _)| path.starts_with(&prefix)
        });
        let len = prefix.len();
        range.filter_map(move |(path, _)| {
            let name = &path[len..];
            (!name.is_empty() && !name.contains(&b'/')).then_some((name, path))
        })
    }

    /// Returns the files that a word names; each name in it may be a pattern.
    fn find(&self, word: &str) -> Result<Vec<Vec<u8>>> {
        let mut found = vec![if word.starts_with('/') { Vec::new() } else { self.directory.clone() }];
        for part in word.as_bytes().split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    for path in &mut found {
                        let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                        path.truncate(end);
                    }
                }
                part => {
                    let pattern = Pattern::new(part, false);
                    let hidden = part.starts_with(b".");
                    let names = |dir: &Vec<u8>| -> Vec<Vec<u8>> {
                        let named = self.names(dir).filter(|(name, _)| {
                            *name == part || pattern.matches(name) && (hidden || !name.starts_with(b"."))
                        });
                        named.map(|(_, path)| path.clone()).collect()
                    };
                    found = found.iter().flat_map(names).collect();
                }
            }
        }
        if found.is_empty() { Err(Failure::new(format!("{word}: is not in the dump"))) } else { Ok(found) }
    }

    /// Lists files, and the names in directories.
    fn list(&self, paths: &[Vec<u8>], out: &mut Output) -> Result<()> {
        for path in paths.iter().filter(|path| !self.is_directory(path)) {
            out.line(self.line(path, path))?;
        }
        for path in paths.iter().filter(|path| self.is_directory(path)) {
            out.line(format!("{}:", self.name(path)))?;
            for (name, path) in self.names(path) {
                out.line(self.line(name, path))?;
            }
        }
        Ok(())
    }

    /// Returns the line of a file.
    fn line(&self, name: &[u8], path: &[u8]) -> String {
        let mark = if self.chosen.contains(path) { "*" } else { " " };
        let slash = if self.is_directory(path) { "/" } else { "" };
        let ino = self.files.get(path).map_or(0, |(ino, _)| *ino);
        let ino = if self.verbose { format!("{ino:>10} ") } else { String::new() };
        format!("{ino}{mark}{}{slash}", self.shown.show(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(only_itself: bool) -> Session {
        let files = [("", true), ("a", true), ("a/b", true), ("a/b/c", false), ("a.c", false), ("d", false)];
        let listed = |(path, is_directory): (&str, bool)| Listed { path: path.into(), ino: 7, is_directory };
        Session::new(files.into_iter().map(listed), only_itself, false)
    }

    fn run(session: &mut Session, line: &str) -> Result<Next> {
        let words: Vec<_> = line.split(' ').map(ToOwned::to_owned).collect();
        session.run(&words, &mut Output::stdout())
    }

    fn chosen(session: &Session) -> Vec<&str> {
        session.chosen().iter().map(|path| std::str::from_utf8(path).unwrap()).collect()
    }

    /// Promise: what is added is chosen with everything below it, what is deleted is not any more;
    /// names are from the chosen directory, and may be patterns.
    #[test]
    fn files_are_chosen() {
        let mut session = session(false);
        run(&mut session, "add a").unwrap();
        assert_eq!(chosen(&session), ["a", "a/b", "a/b/c"]);
        run(&mut session, "cd a/b").unwrap();
        run(&mut session, "del c").unwrap();
        assert_eq!(chosen(&session), ["a", "a/b"]);
        run(&mut session, "delete ..").unwrap();
        assert_eq!(chosen(&session), [""; 0]);
        run(&mut session, "add /*.c ./c ../../d").unwrap();
        assert_eq!(chosen(&session), ["a.c", "a/b/c", "d"]);
        run(&mut session, "cd").unwrap();
        run(&mut session, "add").unwrap();
        assert_eq!(session.chosen().len(), 6);
        for wrong in ["cd a.c", "cd x", "add x", "walk", "cd a b", "cd *"] {
            assert!(run(&mut session, wrong).is_err(), "{wrong}");
        }
        for (line, next) in
            [("e", Next::Extract), ("s", Next::SetModes), ("w", Next::What), ("q", Next::Quit)]
        {
            assert_eq!(run(&mut session, line).unwrap(), next);
        }
    }

    /// Promise: with -h a directory is chosen without what is below it.
    #[test]
    fn directories_alone() {
        let mut session = session(true);
        run(&mut session, "add a").unwrap();
        assert_eq!(chosen(&session), ["a"]);
    }
}
