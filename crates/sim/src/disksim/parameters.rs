//! The text of a parameter file: blocks of named values, which may stand in other files.
//!
//! A file is a sequence of statements. `TYPE NAME { key = value, … }` is a block; `source FILE`
//! takes in the blocks of another file; `instantiate […] as NAME` and `topology …` say which parts
//! a simulation has. A value is a word, a list in brackets, a block (`TYPE { … }`), or `source
//! FILE`, which is the first block of that file. Keys have spaces in them. `#` begins a comment.

use crate::error::Error;
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// How deep blocks, lists and files may stand in each other.
const MOST_DEPTH: u32 = 32;
/// The largest file: 64 MiB.
const MOST_BYTES: u64 = 64 << 20;
/// How many files a file may take in, those that these take in included.
const MOST_FILES: u32 = 100;

/// A named group of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it describes, such as `disksim_disk`.
    pub kind: String,
    /// Its name; empty where it is left out.
    pub name: String,
    /// The file that it stands in.
    pub file: PathBuf,
    values: Vec<(String, Value)>,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, a name or a file.
    Word(String),
    /// Several values.
    List(Vec<Value>),
    /// A block.
    Block(Box<Block>),
}

impl Block {
    /// Returns the value of this key, if it has one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Returns the word of this key.
    ///
    /// # Errors
    /// When there is none.
    pub fn word(&self, key: &str) -> Result<&str, Error> {
        match self.get(key) {
            Some(Value::Word(word)) => Ok(word),
            _ => Err(self.wrong(key, "is missing, or is not one value")),
        }
    }

    /// Returns the number of this key.
    ///
    /// # Errors
    /// When there is none.
    pub fn number(&self, key: &str) -> Result<f64, Error> {
        let word = self.word(key)?;
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.wrong(key, &format!("is `{word}`, which is not a number"))),
        }
    }

    /// Returns the number of this key, or 0 where it is left out.
    ///
    /// # Errors
    /// When it is no number.
    pub fn number_or_0(&self, key: &str) -> Result<f64, Error> {
        self.get(key).map_or(Ok(0.0), |_| self.number(key))
    }

    /// Returns the whole number of this key.
    ///
    /// # Errors
    /// When there is none, or it is negative or above 2^32 - 1.
    pub fn count(&self, key: &str) -> Result<u32, Error> {
        let word = self.word(key)?;
        word.parse().map_err(|_| self.wrong(key, &format!("is `{word}`, which is not a whole number")))
    }

    /// Returns the block of this key.
    ///
    /// # Errors
    /// When there is none.
    pub fn block(&self, key: &str) -> Result<&Self, Error> {
        match self.get(key) {
            Some(Value::Block(block)) => Ok(block),
            _ => Err(self.wrong(key, "is missing, or is not a block")),
        }
    }

    /// Returns the values of the list of this key.
    ///
    /// # Errors
    /// When there is none.
    pub fn list(&self, key: &str) -> Result<&[Value], Error> {
        match self.get(key) {
            Some(Value::List(values)) => Ok(values),
            _ => Err(self.wrong(key, "is missing, or is not a list")),
        }
    }

    /// Returns the numbers of the list of this key.
    ///
    /// # Errors
    /// When there is none, or it has something else.
    pub fn numbers(&self, key: &str) -> Result<Vec<f64>, Error> {
        let number = |value: &Value| match value {
            Value::Word(word) => word.parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        };
        let numbers = self.list(key)?.iter().map(number).collect::<Option<_>>();
        numbers.ok_or_else(|| self.wrong(key, "has something that is not a number"))
    }

    /// Returns the error of a value of this block.
    #[must_use]
    pub fn wrong(&self, key: &str, problem: &str) -> Error {
        Error::Invalid {
            field: format!("{}: {} of {} {}:", self.file.display(), key, self.kind, self.name),
            problem: problem.to_owned(),
        }
    }
}

/// Reads all blocks of a file, and of those that it names.
///
/// # Errors
/// When a file cannot be read, or is not in this form.
pub fn read(path: &Path) -> Result<Vec<Block>, Error> {
    read_at(path, 0, &Cell::new(MOST_FILES))
}

fn read_at(path: &Path, depth: u32, files: &Cell<u32>) -> Result<Vec<Block>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    match files.get().checked_sub(1) {
        Some(left) => files.set(left),
        None => return Err(failed(std::io::Error::other("too many files are taken in"))),
    }
    if std::fs::metadata(path).map_err(failed)?.len() > MOST_BYTES {
        return Err(failed(std::io::Error::other("the file is larger than 64 MiB")));
    }
    let text = String::from_utf8_lossy(&std::fs::read(path).map_err(failed)?).into_owned();
    let mut reader = Reader { path, text: &text, at: 0, depth, files };
    let mut blocks = Vec::new();
    while let Some(word) = reader.word() {
        match word {
            "source" => {
                let file = reader.file()?;
                reader.enter()?;
                blocks.extend(read_at(&file, reader.depth, files)?);
                reader.depth -= 1;
            }
            "instantiate" => {
                reader.value()?;
                reader.expect_word("as")?;
                reader.word();
            }
            "topology" => reader.part()?,
            kind => {
                let name = reader.word().unwrap_or_default();
                blocks.push(reader.block(kind, name)?);
            }
        }
    }
    match reader.peek() {
        None => Ok(blocks),
        Some(found) => Err(reader.wrong(&format!("a statement cannot begin with `{found}`"))),
    }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    at: usize,
    depth: u32,
    /// How many more files may be read.
    files: &'a Cell<u32>,
}

impl<'a> Reader<'a> {
    /// Goes past white space and comments, and returns the next character.
    fn peek(&mut self) -> Option<char> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return trimmed.chars().next();
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), Error> {
        if self.take(wanted) { Ok(()) } else { Err(self.wrong(&format!("here `{wanted}` must stand"))) }
    }

    fn expect_word(&mut self, wanted: &str) -> Result<(), Error> {
        if self.word() == Some(wanted) {
            Ok(())
        } else {
            Err(self.wrong(&format!("`{wanted}` must stand before this")))
        }
    }

    /// Returns the text up to one of these characters or a comment, without the white space around
    /// it.
    fn until(&mut self, ends: &[char]) -> &'a str {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.find(|c| c == '#' || ends.contains(&c)).unwrap_or(rest.len());
        self.at += end;
        rest[..end].trim_end()
    }

    /// Returns the next word of a statement.
    fn word(&mut self) -> Option<&'a str> {
        let word = self.until(&[' ', '\t', '\r', '\n', '{', '}', '[', ']', ',', '=']);
        (!word.is_empty()).then_some(word)
    }

    /// Returns the file whose name stands here, beside this one.
    fn file(&mut self) -> Result<PathBuf, Error> {
        let Some(name) = self.word() else { return Err(self.wrong("the name of a file must stand here")) };
        Ok(self.path.parent().unwrap_or(Path::new("")).join(name))
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            Err(self.wrong("blocks or files stand too deep in each other"))
        } else {
            Ok(())
        }
    }

    /// Reads `{ key = value, … }`.
    fn block(&mut self, kind: &str, name: &str) -> Result<Block, Error> {
        self.expect('{')?;
        self.enter()?;
        let mut values = Vec::new();
        while !self.take('}') {
            let key = self.until(&['=', '{', '}', '[', ']', ',']).to_owned();
            self.expect('=')?;
            values.push((key, self.value()?));
            if !self.take(',') && self.peek() != Some('}') {
                return Err(self.wrong("here `,` or `}` must stand"));
            }
        }
        self.depth -= 1;
        Ok(Block { kind: kind.to_owned(), name: name.to_owned(), file: self.path.to_owned(), values })
    }

    fn value(&mut self) -> Result<Value, Error> {
        if self.take('[') {
            self.enter()?;
            let mut values = Vec::new();
            while !self.take(']') {
                values.push(self.value()?);
                if !self.take(',') && self.peek() != Some(']') {
                    return Err(self.wrong("here `,` or `]` must stand"));
                }
            }
            self.depth -= 1;
            return Ok(Value::List(values));
        }
        let start = self.at;
        let Some(word) = self.word() else { return Err(self.wrong("a value must stand here")) };
        if word == "source" {
            let file = self.file()?;
            self.enter()?;
            let block = read_at(&file, self.depth, self.files)?.into_iter().next();
            self.depth -= 1;
            let block = block.ok_or_else(|| self.wrong(&format!("{} has no block", file.display())))?;
            return Ok(Value::Block(Box::new(block)));
        }
        let name = self.word().unwrap_or_default();
        if self.peek() == Some('{') {
            return Ok(Value::Block(Box::new(self.block(word, name)?)));
        }
        self.at = start;
        Ok(Value::Word(self.until(&[',', '{', '}', '[', ']', '=']).to_owned()))
    }

    /// Goes past a part of a topology, with those inside it: `TYPE NAME [ … ]`.
    fn part(&mut self) -> Result<(), Error> {
        self.enter()?;
        self.word();
        self.word();
        self.expect('[')?;
        while !self.take(']') {
            self.part()?;
            self.take(',');
        }
        self.depth -= 1;
        Ok(())
    }

    fn wrong(&self, problem: &str) -> Error {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count();
        Error::Syntax {
            name: self.path.display().to_string(),
            line: line + 1,
            text: self.text.lines().nth(line).unwrap_or_default().trim().to_owned(),
            problem: problem.to_owned(),
        }
    }
}
