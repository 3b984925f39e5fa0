//! Small operations on names and files, at random, from several threads.
//!
//! Each thread has a directory of its own, so that it knows what must be there: it keeps a model,
//! checks results as it goes, and at the end gives the listing that the file system must show, now
//! and after any number of remounts. All threads together keep moving files between one shared
//! directory and their own, so that they meet in allocation and in a directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::record::{Content, Digest, Kind, Listing, Record};
use crate::{Failure, Result};

/// Names that one thread has at most.
const NAMES: usize = 400;
/// Bytes in a file at most.
const SIZE_LIMIT_BYTES: usize = 40_000;

/// Works in the new directory `directory` until `operations` are done, and gives what must be in it
/// then, by paths relative to it, `.` left out.
///
/// # Errors
/// The first operation that failed or gave a wrong result.
pub fn run(directory: &Path, threads: u32, operations: u64, seed: u64) -> Result<Listing> {
    let shared = directory.join("shared");
    fs::create_dir(directory)
        .and_then(|()| fs::create_dir(&shared))
        .map_err(Failure::of(directory.display()))?;
    let each = operations / u64::from(threads);
    let results = thread::scope(|scope| {
        let start = |number: u32| {
            scope.spawn(move || {
                let name = format!("thread-{number}");
                let worker = Worker::new(directory, &name, seed.wrapping_add(u64::from(number)));
                worker.and_then(|worker| worker.run(each)).map_err(Failure::of(name))
            })
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(Failure::new("panic"))))
            .collect()
    });
    let listings: Result<Vec<Listing>> = results;
    let mut listing: Listing = listings?.into_iter().flatten().collect();
    listing.insert(b"shared".into(), directory_record(2));
    Ok(listing)
}

fn directory_record(nlink: u32) -> Record {
    Record { kind: Some(Kind::Directory), nlink: Some(nlink), ..Record::default() }
}

/// What a name stands for.
#[derive(Clone)]
enum Node {
    /// A place in [`Worker::files`].
    File(usize),
    Symlink(PathBuf),
    Directory,
}

struct Model {
    bytes: Vec<u8>,
    mode: u32,
    links: u32,
}

struct Worker {
    rng: SmallRng,
    home: PathBuf,
    shared: PathBuf,
    name: String,
    /// Names in the home directory, in no order.
    names: Vec<(String, Node)>,
    files: Vec<Model>,
    /// How many names were ever made, to make new ones.
    made: u64,
}

impl Worker {
    fn new(directory: &Path, name: &str, seed: u64) -> io::Result<Self> {
        let home = directory.join(name);
        fs::create_dir(&home)?;
        Ok(Self {
            rng: SmallRng::seed_from_u64(seed),
            home,
            shared: directory.join("shared"),
            name: name.into(),
            names: Vec::new(),
            files: Vec::new(),
            made: 0,
        })
    }

    fn run(mut self, operations: u64) -> io::Result<Listing> {
        for operation in 0..operations {
            self.step().map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("operation {operation} in {}: {error}", self.home.display()),
                )
            })?;
        }
        Ok(self.listing())
    }

    /// Does one operation.
    fn step(&mut self) -> io::Result<()> {
        let full = self.names.len() >= NAMES;
        let chosen = (!self.names.is_empty()).then(|| self.rng.random_range(0..self.names.len()));
        let (Some(place), choice) = (chosen, self.rng.random_range(0..100)) else {
            return self.create();
        };
        match choice {
            0..16 if !full => self.create(),
            16..18 if !full => self.directory(),
            18..20 if !full => self.symlink(),
            20..24 if !full => self.link(place),
            0..38 => self.remove(place),
            38..60 => self.write(place),
            60..66 => self.truncate(place),
            66..80 => self.read(place),
            80..84 => self.chmod(place),
            84..94 => self.rename(place),
            94..97 => self.through_shared(place),
            _ => self.look(place),
        }
    }

    fn path(&self, place: usize) -> PathBuf {
        self.home.join(&self.names[place].0)
    }

    /// Returns a name that was never used, of a length between 3 and 40.
    fn new_name(&mut self) -> String {
        self.made += 1;
        let width = self.rng.random_range(1..38);
        format!("{:x}-{:0width$}", self.made, 0)
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.rng.random_range(0..=most)];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    fn create(&mut self) -> io::Result<()> {
        let name = self.new_name();
        let bytes = self.bytes(3000);
        fs::write(self.home.join(&name), &bytes)?;
        fs::set_permissions(self.home.join(&name), fs::Permissions::from_mode(0o644))?;
        self.files.push(Model { bytes, mode: 0o644, links: 1 });
        self.names.push((name, Node::File(self.files.len() - 1)));
        Ok(())
    }

    fn directory(&mut self) -> io::Result<()> {
        let name = self.new_name();
        fs::create_dir(self.home.join(&name))?;
        self.names.push((name, Node::Directory));
        Ok(())
    }

    fn symlink(&mut self) -> io::Result<()> {
        let (name, target) = (self.new_name(), PathBuf::from(self.new_name().repeat(3)));
        symlink(&target, self.home.join(&name))?;
        self.names.push((name, Node::Symlink(target)));
        Ok(())
    }

    fn link(&mut self, place: usize) -> io::Result<()> {
        let Node::File(file) = self.names[place].1 else { return self.look(place) };
        let name = self.new_name();
        fs::hard_link(self.path(place), self.home.join(&name))?;
        self.files[file].links += 1;
        self.names.push((name, Node::File(file)));
        Ok(())
    }

    fn remove(&mut self, place: usize) -> io::Result<()> {
        match self.names[place].1 {
            Node::Directory => fs::remove_dir(self.path(place))?,
            _ => fs::remove_file(self.path(place))?,
        }
        self.forget(place);
        Ok(())
    }

    /// Forgets the name at `place`.
    fn forget(&mut self, place: usize) {
        if let (_, Node::File(file)) = self.names.swap_remove(place) {
            let model = &mut self.files[file];
            model.links -= 1;
            if model.links == 0 {
                model.bytes = Vec::new();
            }
        }
    }

    /// Writes inside, across or behind the end, there leaving a hole.
    fn write(&mut self, place: usize) -> io::Result<()> {
        let Node::File(file) = self.names[place].1 else { return self.look(place) };
        let data = self.bytes(2000);
        let length = self.files[file].bytes.len();
        let most = (length + 5000).min(SIZE_LIMIT_BYTES - data.len());
        let at = if self.rng.random() { length.min(most) } else { self.rng.random_range(0..=most) };
        OpenOptions::new().write(true).open(self.path(place))?.write_all_at(&data, at as u64)?;
        let bytes = &mut self.files[file].bytes;
        if !data.is_empty() {
            bytes.resize(length.max(at + data.len()), 0);
            bytes[at..at + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    fn truncate(&mut self, place: usize) -> io::Result<()> {
        let Node::File(file) = self.names[place].1 else { return self.look(place) };
        let length = self.rng.random_range(0..SIZE_LIMIT_BYTES / 4);
        OpenOptions::new().write(true).open(self.path(place))?.set_len(length as u64)?;
        self.files[file].bytes.resize(length, 0);
        Ok(())
    }

    fn read(&mut self, place: usize) -> io::Result<()> {
        let Node::File(file) = self.names[place].1 else { return self.look(place) };
        let want = &self.files[file].bytes;
        let at = self.rng.random_range(0..=want.len());
        let mut have = vec![0; want.len() - at];
        File::open(self.path(place))?.read_exact_at(&mut have, at as u64)?;
        self.must(place, have == want[at..], "content")
    }

    fn chmod(&mut self, place: usize) -> io::Result<()> {
        let Node::File(file) = self.names[place].1 else { return self.look(place) };
        let mode = 0o600 + self.rng.random_range(0..0o100);
        fs::set_permissions(self.path(place), fs::Permissions::from_mode(mode))?;
        self.files[file].mode = mode;
        Ok(())
    }

    /// Renames to a new name, or over another name where both are files.
    fn rename(&mut self, place: usize) -> io::Result<()> {
        let over = self.rng.random_range(0..self.names.len());
        match (&self.names[place].1, &self.names[over].1) {
            (Node::File(from), Node::File(to)) if from != to => {
                fs::rename(self.path(place), self.path(over))?;
                self.names[place].0 = self.names[over].0.clone();
                self.forget(over);
            }
            _ => {
                let name = self.new_name();
                fs::rename(self.path(place), self.home.join(&name))?;
                self.names[place].0 = name;
            }
        }
        Ok(())
    }

    /// Moves a file to the directory that all threads share, and back.
    fn through_shared(&mut self, place: usize) -> io::Result<()> {
        let there = self.shared.join(format!("{}-{}", self.name, self.names[place].0));
        fs::rename(self.path(place), &there)?;
        fs::rename(&there, self.path(place))
    }

    fn look(&mut self, place: usize) -> io::Result<()> {
        let meta = fs::symlink_metadata(self.path(place))?;
        match &self.names[place].1 {
            Node::File(file) => {
                self.must(place, meta.len() == self.files[*file].bytes.len() as u64, "length")
            }
            Node::Symlink(target) => self.must(place, fs::read_link(self.path(place))? == *target, "target"),
            Node::Directory => self.must(place, meta.is_dir(), "type"),
        }
    }

    fn must(&self, place: usize, right: bool, what: &str) -> io::Result<()> {
        if right { Ok(()) } else { Err(io::Error::other(format!("{}: wrong {what}", self.names[place].0))) }
    }

    /// Returns what must be there.
    fn listing(&self) -> Listing {
        let mut directories = 0;
        let mut listing = Listing::new();
        for (name, node) in &self.names {
            let record = match node {
                Node::File(file) => {
                    let model = &self.files[*file];
                    Record {
                        kind: Some(Kind::Regular),
                        mode: Some(model.mode),
                        size: Some(model.bytes.len() as u64),
                        nlink: Some(model.links),
                        content: Some(Content::Read(Digest::of(&model.bytes))),
                        ..Record::default()
                    }
                }
                Node::Symlink(target) => Record {
                    kind: Some(Kind::Symlink),
                    target: Some(target.to_string_lossy().into_owned().into_bytes()),
                    ..Record::default()
                },
                Node::Directory => {
                    directories += 1;
                    directory_record(2)
                }
            };
            listing.insert(format!("{}/{name}", self.name).into_bytes(), record);
        }
        listing.insert(self.name.clone().into_bytes(), directory_record(2 + directories));
        listing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host;
    use crate::record::differences;

    /// Promise: on a file system that works, what the storm expects is what is there; and a change
    /// shows.
    #[test]
    fn expects_what_a_working_file_system_shows() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("storm");
        let expected = run(&directory, 2, 6000, 1).unwrap();
        let list = || {
            let mut listing = host::list(&directory).unwrap();
            listing.remove(&b"."[..]);
            listing
        };
        assert_eq!(differences(&expected, &list(), |_| true), Vec::<String>::new());
        fs::write(directory.join("thread-1/unexpected"), "").unwrap();
        assert_eq!(differences(&expected, &list(), |_| true), ["thread-1/unexpected: not expected"]);
    }
}
