//! Random sequences of operations, applied to a file system and to the model in lockstep.
//!
//! Every result is compared, and at intervals the whole tree: names, attributes, bytes and extended
//! attributes, also of files without names. From time to time the file system is mounted again and
//! checked. At the end everything is removed, and all space must be free again. In every third run,
//! chosen by the seed, the disk is nearly full. Not compared: the error where several apply, the
//! access time, and the point at which space runs out (an operation refused for lack of space is
//! not applied to the model; of a short write, the written part is).

mod compare;
mod steps;

use crate::model::{ModelFs, ModelOptions};
use crate::suite::{Feature, Harness};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::ManualClock;
use spindle_vfs::{AtimePolicy, Attr, Error, FileKind, FileSystem, Ino, NewNode, Privilege};
use std::collections::VecDeque;
use std::sync::Arc;

/// The model's time, which no operation sets: where the model has it, the two times may differ.
const MODEL_NOW: i64 = 7777;
/// Number of steps listed when something differs.
const LISTED_STEPS: usize = 40;
/// Directory in which everything happens.
const BASE: &[u8] = b"base";
/// File that takes most of the space in every third run, so that space keeps running out.
const BALLAST: &[u8] = b"ballast";
/// Free space beside it in bytes, and size of the largest disk that is filled in this way.
const LEFT_BYTES: u64 = 1 << 20;
const FILLED_BYTES: u64 = 256 << 20;

/// Returns the seed to use: the value of the environment variable `SPINDLE_SEED`, or a new one.
///
/// # Panics
/// If the variable is not a number.
#[must_use]
pub fn seed() -> u64 {
    match std::env::var("SPINDLE_SEED") {
        Ok(text) => text.parse().expect("SPINDLE_SEED is a number"),
        Err(_) => StdRng::from_os_rng().random(),
    }
}

/// Applies `operations` random operations to the file system and the model.
///
/// # Panics
/// If the two differ, the check finds a problem, or space is lost; the message ends with the last
/// operations.
pub fn random_run(harness: &mut dyn Harness, seed: u64, operations: usize) {
    println!("random run of {operations} operations; SPINDLE_SEED={seed} repeats it");
    let mut run = Run::new(harness, seed);
    for step in 0..operations {
        run.step();
        if step % 250 == 249 {
            run.compare();
        }
    }
    run.finish();
}

/// One inode in both file systems, with the references held on it.
#[derive(Clone, Copy)]
struct Pair {
    real: Ino,
    model: Ino,
    references: u64,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (model {})", self.real.0, self.model.0)
    }
}

struct Run<'a> {
    harness: &'a mut dyn Harness,
    real: Arc<dyn FileSystem>,
    model: ModelFs,
    rng: StdRng,
    /// Every inode with references; the base directory is the first.
    known: Vec<Pair>,
    recent: VecDeque<String>,
    names: Vec<Vec<u8>>,
    free_before: (u64, u64),
}

fn node(kind: FileKind) -> NewNode<'static> {
    NewNode::new(kind, 0o755)
}

/// Returns free space in bytes and free inodes.
fn free(fs: &dyn FileSystem) -> (u64, u64) {
    fs.sync().expect("sync");
    let stat = fs.statfs().expect("statfs");
    (stat.bfree * u64::from(stat.frsize), stat.ffree)
}

impl<'a> Run<'a> {
    fn new(harness: &'a mut dyn Harness, seed: u64) -> Self {
        let real = harness.fs();
        let limits = real.limits();
        let max = limits.name_max;
        let options = ModelOptions {
            limits,
            block_bytes: 512,
            blocks: 1 << 40,
            reserve_blocks: 0,
            files: 1 << 40,
            read_only: false,
            atime: AtimePolicy::Always,
        };
        let model = ModelFs::new(options, Arc::new(ManualClock::at(MODEL_NOW)));
        let mut names: Vec<Vec<u8>> = (b'a'..=b'j').map(|letter| vec![letter]).collect();
        names.extend([
            b"name".to_vec(),
            b"longer-name".to_vec(),
            vec![0xff; 3],
            vec![b'z'; max],
            vec![b'y'; max - 1],
        ]);
        let free_before = free(&*real);
        let mut run = Self {
            harness,
            real,
            model,
            rng: StdRng::seed_from_u64(seed),
            known: Vec::new(),
            recent: VecDeque::new(),
            names,
            free_before,
        };
        if seed.is_multiple_of(3) {
            run.load_ballast();
        }
        let base = node(FileKind::Directory);
        let real =
            run.real.create(run.real.root(), BASE, &base, Privilege::Root).expect("the base directory");
        let model =
            run.model.create(run.model.root(), BASE, &base, Privilege::Root).expect("the base directory");
        run.add_reference(&real, &model);
        run
    }

    /// Fills the disk almost completely.
    fn load_ballast(&self) {
        let fs = &self.real;
        let file = fs
            .create(fs.root(), BALLAST, &node(FileKind::Regular), Privilege::Root)
            .expect("the ballast")
            .ino;
        let chunk = vec![1; 128 << 10];
        let mut size = 0;
        loop {
            let stat = fs.statfs().expect("statfs");
            let free = stat.bavail * u64::from(stat.frsize);
            let large = stat.blocks * u64::from(stat.frsize) > FILLED_BYTES;
            if large || free < LEFT_BYTES || size + LEFT_BYTES > fs.limits().file_size_max {
                break;
            }
            match fs.write(file, size, &chunk, Privilege::User) {
                Ok(written) => size += written as u64,
                Err(Error::NoSpace) => break,
                Err(error) => panic!("writing the ballast: {error}"),
            }
        }
        fs.forget(file, 1);
    }

    fn lacks(&self, feature: Feature) -> bool {
        self.harness.lacks().contains(&feature)
    }

    /// Records a step for the message of a failure.
    fn record(&mut self, step: String) {
        if self.recent.len() == LISTED_STEPS {
            self.recent.pop_front();
        }
        self.recent.push_back(step);
    }

    /// Panics with the difference and the steps that led to it.
    #[track_caller]
    fn differ(&self, what: &str) -> ! {
        let steps: Vec<&str> = self.recent.iter().map(String::as_str).collect();
        panic!("{what}\nafter these operations, the last one last:\n{}", steps.join("\n"));
    }

    /// Adds an inode on which both file systems took a reference; it must be the same one.
    fn add_reference(&mut self, real: &Attr, model: &Attr) {
        self.same_attr(real, model);
        for pair in &mut self.known {
            if pair.real == real.ino && pair.model == model.ino {
                pair.references += 1;
                return;
            }
        }
        if let Some(pair) = self.known.iter().find(|pair| pair.real == real.ino || pair.model == model.ino) {
            self.differ(&format!("{:?} is {:?} to the model, which is {pair:?}", real.ino, model.ino));
        }
        self.known.push(Pair { real: real.ino, model: model.ino, references: 1 });
    }

    /// Releases all references on the inode at `index`.
    fn release(&mut self, index: usize) {
        let pair = self.known.swap_remove(index);
        self.real.forget(pair.real, pair.references);
        self.model.forget(pair.model, pair.references);
    }

    /// Mounts both again, with a check of the image if asked; the base directory is looked up
    /// again.
    fn mount_again(&mut self, check: bool) {
        self.record(if check { "check" } else { "remount" }.to_owned());
        self.known.clear();
        // No reference to the mounted file system may be left when it is mounted again.
        self.real = Arc::new(ModelFs::new(ModelOptions::default(), Arc::new(ManualClock::at(0))));
        if check {
            let complaints = self.harness.check();
            if !complaints.is_empty() {
                self.differ(&format!("the check found:\n{}", complaints.join("\n")));
            }
        } else {
            self.harness.remount();
        }
        self.model.remount();
        self.real = self.harness.fs();
        let real = self.real.lookup(self.real.root(), BASE);
        let model = self.model.lookup(self.model.root(), BASE);
        match (real, model) {
            (Ok(real), Ok(model)) => self.add_reference(&real, &model),
            _ => self.differ("the base directory is gone"),
        }
    }

    /// Compares everything, checks, removes everything, and compares the free space with that at
    /// the start.
    fn finish(&mut self) {
        self.compare();
        self.mount_again(true);
        self.compare();
        let base = self.known[0].real;
        self.remove_all(base);
        self.known.clear();
        let fs = &self.real;
        fs.forget(base, 1);
        if let Err(error) = fs.rmdir(fs.root(), BASE) {
            self.differ(&format!("removing the base directory: {error}"));
        }
        match fs.unlink(fs.root(), BALLAST) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => self.differ(&format!("removing the ballast: {error}")),
        }
        let free_after = free(&*self.real);
        if free_after != self.free_before {
            self.differ(&format!(
                "free (bytes, inodes): {:?} before, {free_after:?} after",
                self.free_before
            ));
        }
        let complaints = self.harness.check();
        assert!(
            complaints.is_empty(),
            "the check of the empty file system found:\n{}",
            complaints.join("\n")
        );
    }

    fn remove_all(&self, dir: Ino) {
        for (name, ino, kind) in compare::list(&*self.real, dir) {
            let removed = if kind == FileKind::Directory {
                self.remove_all(ino);
                self.real.rmdir(dir, &name)
            } else {
                self.real.unlink(dir, &name)
            };
            if let Err(error) = removed {
                self.differ(&format!("removing {}: {error}", name.escape_ascii()));
            }
        }
    }
}
