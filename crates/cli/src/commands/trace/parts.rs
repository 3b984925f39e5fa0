//! The files of a recording that goes on in another one when it is large or old.
//!
//! The one idea: the parts of `mail.trace` are `mail-000001.trace`, `mail-000002.trace` and so on,
//! and a later recording goes on after the last one that is there, so that no part is overwritten.

use crate::error::{Context, Failure, Result};
use crate::outfile::{self, Kind, Out};
use spindle_record::{Error, Rotation};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options of a recording in parts.
#[derive(clap::Args, Clone, Debug)]
pub struct PartArgs {
    /// Go on in another file when one has this size: FILE gets a number, mail-000001.trace for
    /// mail.trace, which goes on after the last one that is there
    #[arg(long, value_name = "SIZE", value_parser = parse_part_size)]
    rotate_size: Option<u64>,
    /// Go on in another file when one is so old
    #[arg(long, value_name = "SECONDS", value_parser = parse_age)]
    rotate_age: Option<Duration>,
    /// Keep only the newest parts, so many; remove older ones, also those of earlier recordings
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
}

fn parse_part_size(text: &str) -> Result<u64, String> {
    match crate::text::parse_bytes(text)? {
        0..0x1_0000 => Err("is less than 64k".into()),
        bytes => Ok(bytes),
    }
}

fn parse_age(text: &str) -> Result<Duration, String> {
    let age = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    age.filter(|age| *age >= Duration::from_secs(1)).ok_or_else(|| "give at least 1 second".into())
}

/// The parts of a recording.
#[derive(Clone, Debug)]
pub struct Parts {
    directory: PathBuf,
    /// What is before and after the number.
    ends: (OsString, OsString),
    /// Number of the last part so far.
    number: u64,
    keep: Option<u64>,
    force: bool,
}

impl Parts {
    /// Returns the parts of a recording into `output`, and when the next one begins; none if the
    /// options do not ask for parts.
    pub fn of(args: &PartArgs, output: &Path, force: bool) -> Result<Option<Self>> {
        if args.rotate_size.is_none() && args.rotate_age.is_none() {
            return match args.keep {
                Some(_) => Err(Failure::usage("--keep: needs --rotate-size or --rotate-age")),
                None => Ok(None),
            };
        }
        let is_dir = output.as_os_str().as_encoded_bytes().ends_with(b"/");
        let is_file = !is_dir && output.metadata().map_or(true, |found| found.is_file());
        let stem = output.file_stem().filter(|_| is_file && !outfile::is_stdout(output));
        let stem = stem.ok_or_else(|| Failure::usage("--output: the parts of a recording need a name"))?;
        let mut begin = stem.to_owned();
        begin.push("-");
        let mut end = OsString::new();
        if let Some(extension) = output.extension() {
            end.push(".");
            end.push(extension);
        }
        let directory = output.parent().filter(|directory| !directory.as_os_str().is_empty());
        // The working directory may change.
        let directory = std::path::absolute(directory.unwrap_or(Path::new("."))).context("--output")?;
        let mut parts = Self { directory, ends: (begin, end), number: 0, keep: args.keep, force };
        parts.number = parts.numbers()?.into_iter().max().unwrap_or(0);
        Ok(Some(parts))
    }

    /// Returns the numbers of the parts that there are.
    fn numbers(&self) -> Result<Vec<u64>> {
        let entries = std::fs::read_dir(&self.directory).context(self.directory.display())?;
        let (begin, end) = (self.ends.0.as_encoded_bytes(), self.ends.1.as_encoded_bytes());
        let number = |name: OsString| {
            let digits = name.as_encoded_bytes().strip_prefix(begin)?.strip_suffix(end)?;
            let digits = std::str::from_utf8(digits).ok()?;
            let is_number = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        Ok(entries.flatten().filter_map(|entry| number(entry.file_name())).collect())
    }

    fn path(&self, number: u64) -> PathBuf {
        let mut name = self.ends.0.clone();
        name.push(format!("{number:06}"));
        name.push(&self.ends.1);
        self.directory.join(name)
    }

    /// Begins the next part.
    pub fn next(&mut self) -> Result<Out> {
        self.number += 1;
        Out::create(&self.path(self.number), Kind::Trace, self.force)
    }

    /// Removes the parts that are not to be kept beside the last one, which must have its name: a
    /// recording that cannot begin must not take the place of another.
    pub fn remove_old(&self) -> Result<()> {
        let Some(keep) = self.keep else { return Ok(()) };
        let is_old = |number: &u64| number.saturating_add(keep) <= self.number;
        for number in self.numbers()?.into_iter().filter(is_old) {
            let old = self.path(number);
            // Something else may have such a name.
            if outfile::check(&old, Kind::Trace, false).is_ok() {
                std::fs::remove_file(&old).context(old.display())?;
            }
        }
        Ok(())
    }

    /// Returns when the recording goes on in the next part.
    pub fn rotation(mut self, args: &PartArgs) -> Rotation {
        let mut begin = move || -> Result<(File, PathBuf)> {
            let out = self.next()?;
            let begun = (out.handle()?, PathBuf::from(&out.name));
            out.finish()?;
            self.remove_old()?;
            Ok(begun)
        };
        let next = move || begin().map_err(|failure| Error::Refused(failure.to_string()));
        Rotation { bytes: args.rotate_size, age: args.rotate_age, next: Box::new(next) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: parts are numbered on from those that are there, so many are kept, and what only
    /// has such a name stays.
    #[test]
    fn parts_are_numbered_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let names = || {
            let entries = std::fs::read_dir(directory.path()).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let write = |name: &str, content: &str| std::fs::write(directory.path().join(name), content).unwrap();
        write("a-000001.trace", "a letter");
        write("a-000007.trace", "PAR1");
        write("a-12.trace", "PAR1");
        write("b-000009.trace", "PAR1");
        let args = PartArgs { rotate_size: Some(1 << 20), rotate_age: None, keep: Some(2) };
        let output = directory.path().join("a.trace");
        let mut parts = Parts::of(&args, &output, false).unwrap().unwrap();
        for _ in 0..3 {
            let before = names();
            let begun = parts.next().unwrap();
            assert_eq!(names(), before);
            begun.finish().unwrap();
            parts.remove_old().unwrap();
        }
        let kept = ["a-000001.trace", "a-000009.trace", "a-000010.trace", "a-12.trace", "b-000009.trace"];
        assert_eq!(names(), kept);
        let none = PartArgs { rotate_size: None, rotate_age: None, keep: None };
        assert!(Parts::of(&none, &output, false).unwrap().is_none());
        assert!(Parts::of(&PartArgs { keep: Some(1), ..none }, &output, false).is_err());
        for wrong in ["-", "/tmp/", "/dev/null", "/"] {
            assert!(Parts::of(&args, Path::new(wrong), false).is_err(), "{wrong}");
        }
    }
}
