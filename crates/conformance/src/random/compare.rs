//! Comparison of two whole file systems.

use super::{MODEL_NOW, Run};
use spindle_vfs::{Attr, FileKind, FileSystem, Ino, Seek};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Number of bytes compared at a time.
const CHUNK: usize = 64 * 1024;

/// Returns the entries of a directory except `.` and `..`, sorted by name.
pub(super) fn list(fs: &dyn FileSystem, dir: Ino) -> Vec<(Vec<u8>, Ino, FileKind)> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push((entry.name.to_vec(), entry.ino));
        }
        ControlFlow::Continue(())
    })
    .expect("readdir");
    names.sort();
    let kind = |ino| fs.getattr(ino).expect("an entry names an inode").kind;
    names.into_iter().map(|(name, ino)| (name, ino, kind(ino))).collect()
}

impl Run<'_> {
    /// Panics unless the attributes agree. Times agree if the model's is its own time.
    #[track_caller]
    pub(super) fn same_attr(&self, real: &Attr, model: &Attr) {
        let is_dir = model.kind == FileKind::Directory;
        let mut expected = model.clone();
        expected.ino = real.ino;
        expected.generation = real.generation;
        expected.size = if is_dir { real.size } else { model.size };
        expected.blocks512 = real.blocks512;
        expected.blksize = real.blksize;
        expected.atime = real.atime;
        expected.ctime = real.ctime;
        expected.birthtime = real.birthtime;
        if model.mtime.secs == MODEL_NOW {
            expected.mtime = real.mtime;
        }
        if *real != expected {
            self.differ(&format!("attributes\n{real:?}\nshould be\n{expected:?}"));
        }
    }

    /// Compares everything below the base directory, and every known file without a name.
    pub(super) fn compare(&mut self) {
        self.record("compare".to_owned());
        let mut seen: HashMap<Ino, Ino> = HashMap::new();
        let mut below = Vec::new();
        for pair in &self.known {
            seen.insert(pair.real, pair.model);
            below.push((format!("{:?}", pair.real), pair.real, pair.model));
        }
        while let Some((path, real, model)) = below.pop() {
            let attr = self.compare_one(&path, real, model);
            if attr.kind != FileKind::Directory || attr.nlink == 0 {
                continue;
            }
            let (ours, theirs) = (list(&*self.real, real), list(&self.model, model));
            let names = |list: &[(Vec<u8>, Ino, FileKind)]| -> Vec<String> {
                list.iter().map(|entry| entry.0.escape_ascii().to_string()).collect()
            };
            if names(&ours) != names(&theirs) {
                self.differ(&format!("{path} has\n{:?}\nnot\n{:?}", names(&ours), names(&theirs)));
            }
            for ((name, real, _), (_, model, _)) in ours.into_iter().zip(theirs) {
                let path = format!("{path}/{}", name.escape_ascii());
                match seen.insert(real, model) {
                    None => below.push((path, real, model)),
                    Some(known) if known == model => {}
                    Some(known) => self.differ(&format!("{path} is {model:?} to the model, not {known:?}")),
                }
            }
        }
    }

    /// Compares one inode with its data and extended attributes.
    fn compare_one(&self, path: &str, real: Ino, model: Ino) -> Attr {
        let (ours, theirs) = match (self.real.getattr(real), self.model.getattr(model)) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (ours, theirs) => self.differ(&format!("{path}: {ours:?} should be {theirs:?}")),
        };
        self.same_attr(&ours, &theirs);
        match theirs.kind {
            FileKind::Regular => self.compare_bytes(path, real, model),
            FileKind::Symlink => {
                let (ours, theirs) = (self.real.readlink(real), self.model.readlink(model));
                if ours.as_ref().ok() != theirs.as_ref().ok() {
                    self.differ(&format!("{path}: target {ours:?} should be {theirs:?}"));
                }
            }
            _ => {}
        }
        if self.real.limits().xattrs {
            self.compare_xattrs(path, real, model);
        }
        theirs
    }

    /// Compares the bytes where at least one of the two reports data.
    fn compare_bytes(&self, path: &str, real: Ino, model: Ino) {
        let mut at = 0;
        let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
        loop {
            let data = |fs: &dyn FileSystem, ino| fs.seek(ino, at, Seek::Data).ok();
            let next = [data(&*self.real, real), data(&self.model, model)].into_iter().flatten().min();
            let Some(next) = next else { return };
            let read = self.real.read(real, next, &mut ours).ok();
            let expected = self.model.read(model, next, &mut theirs).ok();
            let differs = ours.iter().zip(&theirs).take(read.unwrap_or(0)).position(|(a, b)| a != b);
            if read != expected {
                self.differ(&format!("{path}: read {read:?} bytes at {next} instead of {expected:?}"));
            }
            if let Some(place) = differs {
                let at = next + place as u64;
                self.differ(&format!("{path}: byte {at} is {} not {}", ours[place], theirs[place]));
            }
            at = next + read.unwrap_or(CHUNK) as u64;
        }
    }

    fn compare_xattrs(&self, path: &str, real: Ino, model: Ino) {
        let sorted = |fs: &dyn FileSystem, ino| {
            let mut names = fs.listxattr(ino).expect("listxattr");
            names.sort();
            names
        };
        let (ours, theirs) = (sorted(&*self.real, real), sorted(&self.model, model));
        if ours != theirs {
            self.differ(&format!("{path}: extended attributes {ours:?} should be {theirs:?}"));
        }
        for name in theirs {
            if self.real.getxattr(real, &name).ok() != self.model.getxattr(model, &name).ok() {
                self.differ(&format!("{path}: the value of {} differs", name.escape_ascii()));
            }
        }
    }
}
