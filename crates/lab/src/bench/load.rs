//! Units of load: programs whose calls are composed as those of Table 1 of the paper on the
//! multi-structured file system.
//!
//! Each unit makes calls at random moments, as many in a second as the traced system on average;
//! one that is due before the last has returned is made when it has. A unit has files of its own.
//! Nine of ten files that are opened or looked at are among the last that were, which gives the
//! caches about the hit rates that the paper found. What calls there were in what part of the
//! control calls, the paper does not say.

use crate::Result;
use crate::population::Sizes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::{Clock, Work};
use spindle_vfs::{FileKind, FileSystem, Ino, NewNode, Privilege, SetAttr};
use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

/// Calls of the paper's system in a second: 189,103 in 75 minutes.
const CALLS_PER_SECOND: f64 = 42.0;
/// Bytes that a call reads and writes on average (Table 2).
const READ: usize = 4235;
const WRITE: usize = 4688;
/// Directories of a unit, and files in each.
const DIRECTORIES: usize = 24;
const FILES: usize = 40;
/// Files that were used last, and the part of uses that go to them.
const RECENT: usize = 10;
const AGAIN: f64 = 0.9;
/// Files that a unit has open, at most.
const OPEN: usize = 4;
/// Files that a unit has made and not removed yet, at most.
const TEMPORARY: usize = 12;
const USER: Privilege = Privilege::User;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Finds a file by its name and opens it.
    Open,
    /// Closes the file that has been open longest, unless it is the last one.
    Close,
    /// Finds a file and returns its attributes, as `stat` and `access` do.
    Stat,
    /// Finds a directory.
    Chdir,
    /// Changes the permissions of a file.
    Chmod,
    /// Makes a file and opens it to write.
    Create,
    /// Removes the oldest file that was made.
    Unlink,
    /// Reads on in the file that was opened last.
    Read,
    /// Appends to the file that was made last.
    Write,
}

impl Call {
    /// All calls with their names and their shares in a thousand calls: 293 read, 92 write, and 615
    /// concern names and attributes (Table 1). The shares among these last stand in for unknown
    /// ones; few of them change something, so that the fast file system writes about as often for
    /// them as in Table 1.
    pub const ALL: [(Self, &'static str, u32); 9] = [
        (Self::Open, "open", 205),
        (Self::Close, "close", 205),
        (Self::Stat, "stat, access", 120),
        (Self::Chdir, "chdir", 27),
        (Self::Chmod, "chmod", 22),
        (Self::Create, "create", 18),
        (Self::Unlink, "unlink", 18),
        (Self::Read, "read", 293),
        (Self::Write, "write", 92),
    ];

    fn draw(random: &mut impl Rng) -> Self {
        let mut at = random.random_range(0..Self::ALL.iter().map(|(_, _, share)| share).sum::<u32>());
        for (call, _, share) in Self::ALL {
            if at < share {
                return call;
            }
            at -= share;
        }
        Self::Read
    }
}

thread_local! {
    /// The call that a unit is making in this thread.
    static PRESENT: Cell<Option<Call>> = const { Cell::new(None) };
}

/// Returns the call that a unit is making in this thread.
pub fn present() -> Option<Call> {
    PRESENT.get()
}

/// The time that calls of each kind took, in the order of [`Call::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times([(u64, Duration); Call::ALL.len()]);

impl Times {
    fn note(&mut self, call: Call, time: Duration) {
        let Some(n) = Call::ALL.iter().position(|(other, _, _)| *other == call) else { return };
        self.0[n].0 += 1;
        self.0[n].1 += time;
    }

    /// Adds those of another unit.
    pub fn add(&mut self, other: &Self) {
        for (sum, one) in self.0.iter_mut().zip(&other.0) {
            sum.0 += one.0;
            sum.1 += one.1;
        }
    }

    /// Returns the mean time of a kind of call in milliseconds.
    pub fn mean(&self, call: Call) -> f64 {
        mean(Call::ALL.iter().zip(&self.0).filter(|((other, _, _), _)| *other == call).map(|(_, sum)| sum))
    }

    /// Returns the number of calls of a kind.
    pub fn count(&self, call: Call) -> u64 {
        let of_kind = Call::ALL.iter().zip(&self.0).filter(|((other, _, _), _)| *other == call);
        of_kind.map(|(_, (count, _))| count).sum()
    }

    /// Returns the mean time of all calls in milliseconds.
    pub fn mean_of_all(&self) -> f64 {
        mean(self.0.iter())
    }

    /// Returns the number of all calls.
    pub fn count_of_all(&self) -> u64 {
        self.0.iter().map(|(count, _)| count).sum()
    }
}

fn mean<'a>(sums: impl Iterator<Item = &'a (u64, Duration)>) -> f64 {
    let (count, time) = sums.fold((0, Duration::ZERO), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    #[allow(clippy::cast_precision_loss)] // Thousands.
    let count = (count as f64).max(1.0);
    time.as_secs_f64() * 1000.0 / count
}

fn node(kind: FileKind) -> NewNode<'static> {
    NewNode::new(kind, 0o755)
}

fn home(unit: u32) -> String {
    format!("unit{unit}")
}

fn directory(n: usize) -> String {
    format!("directory{n}")
}

fn file(n: usize) -> String {
    format!("file{n}")
}

/// Makes the files of a unit.
///
/// # Errors
/// As the file system.
pub fn populate(fs: &dyn FileSystem, unit: u32) -> Result<()> {
    let mut random = StdRng::seed_from_u64(unit.into());
    let root = fs.create(fs.root(), home(unit).as_bytes(), &node(FileKind::Directory), USER)?.ino;
    for d in 0..DIRECTORIES {
        let dir = fs.create(root, directory(d).as_bytes(), &node(FileKind::Directory), USER)?.ino;
        for n in 0..FILES {
            let ino = fs.create(dir, file(n).as_bytes(), &node(FileKind::Regular), USER)?.ino;
            let bytes = usize::try_from(Sizes::Of1984.draw(&mut random)).unwrap_or(0);
            let data = vec![b'x'; bytes];
            let mut done = 0;
            while done < bytes {
                match fs.write(ino, done as u64, &data[done..], USER)? {
                    0 => return Err(spindle_vfs::Error::NoSpace.into()),
                    n => done += n,
                }
            }
            fs.forget(ino, 1);
        }
        fs.forget(dir, 1);
    }
    fs.forget(root, 1);
    Ok(())
}

/// A unit of load.
pub struct Unit<'a> {
    fs: &'a dyn FileSystem,
    clock: &'a dyn Clock,
    random: StdRng,
    home: String,
    /// The last files that were used: directory and number.
    recent: VecDeque<(usize, usize)>,
    /// The open files, and where reading goes on; the last one is read.
    open: VecDeque<(Ino, u64)>,
    /// The file that is written, and its length.
    written: Option<(Ino, u64)>,
    /// Files that were made: directory and name, oldest first.
    made: VecDeque<(usize, String)>,
    names: u64,
    buffer: Vec<u8>,
    /// Mean calls in a second; none if each call is made as soon as the last one has returned.
    pace: Option<f64>,
}

impl<'a> Unit<'a> {
    /// Returns the unit with this number, whose files have been made.
    pub fn new(fs: &'a dyn FileSystem, clock: &'a dyn Clock, unit: u32) -> Self {
        Self {
            fs,
            clock,
            random: StdRng::seed_from_u64(1991 + u64::from(unit)),
            home: home(unit),
            recent: VecDeque::new(),
            open: VecDeque::new(),
            written: None,
            made: VecDeque::new(),
            names: 0,
            buffer: vec![b'x'; READ.max(WRITE)],
            pace: Some(CALLS_PER_SECOND),
        }
    }

    /// Returns one of `parts` units that together make as many calls as one.
    pub fn part(mut self, parts: u32) -> Self {
        self.pace = Some(CALLS_PER_SECOND / f64::from(parts));
        self
    }

    /// Has it make each call as soon as the last one has returned.
    pub const fn at_once(&mut self) -> &mut Self {
        self.pace = None;
        self
    }

    /// Makes calls for as long as `goes_on` says, and returns their times. The first `warm` calls
    /// are not counted.
    ///
    /// # Errors
    /// As the file system.
    pub fn run(&mut self, warm: u64, mut goes_on: impl FnMut(u64) -> bool) -> Result<Times> {
        let mut times = Times::default();
        let mut due = self.clock.monotonic();
        for n in 0.. {
            if !goes_on(n) {
                break;
            }
            if let Some(pace) = self.pace {
                due += Duration::from_secs_f64(-(1.0 - self.random.random::<f64>()).ln() / pace);
                self.clock.sleep(due.saturating_sub(self.clock.monotonic()));
            }
            let call = Call::draw(&mut self.random);
            let started = self.clock.monotonic();
            PRESENT.set(Some(call));
            let done = self.carry_out(call);
            PRESENT.set(None);
            let done = done?;
            if n >= warm {
                times.note(done, self.clock.monotonic().saturating_sub(started));
            }
        }
        Ok(times)
    }

    /// Makes a call, or another one where it makes no sense, and returns which.
    fn carry_out(&mut self, call: Call) -> Result<Call> {
        self.clock.work(Work::Call);
        match call {
            Call::Open => self.open()?,
            Call::Close if self.open.len() > 1 => self.close(),
            Call::Close => {}
            Call::Stat => {
                let ino = self.find()?;
                self.fs.getattr(ino)?;
                self.fs.forget(ino, 1);
            }
            Call::Chdir => {
                let dir = {
                    let d = self.random.random_range(0..DIRECTORIES);
                    self.directory(d)?
                };
                self.fs.forget(dir, 1);
            }
            Call::Chmod => {
                let ino = self.find()?;
                let perm = Some(0o600 + self.random.random_range(0..0o100));
                self.fs.setattr(ino, &SetAttr { perm, ..SetAttr::default() }, USER)?;
                self.fs.forget(ino, 1);
            }
            Call::Unlink if self.made.len() > 1 => self.unlink()?,
            Call::Read => {
                let Some(&(ino, at)) = self.open.back() else {
                    self.open()?;
                    return Ok(Call::Open);
                };
                let n = self.fs.read(ino, at, &mut self.buffer[..READ])?;
                self.clock.work(Work::Copy { bytes: n as u64 });
                if let Some((_, at)) = self.open.back_mut() {
                    *at = if n < READ { 0 } else { *at + n as u64 };
                }
            }
            Call::Write if self.written.is_some() => {
                let Some((ino, at)) = self.written else { return Ok(call) };
                self.clock.work(Work::Copy { bytes: WRITE as u64 });
                let n = self.fs.write(ino, at, &self.buffer[..WRITE], USER)?;
                self.written = Some((ino, at + n as u64));
            }
            Call::Create if self.made.len() >= TEMPORARY => {
                self.unlink()?;
                return Ok(Call::Unlink);
            }
            Call::Create | Call::Unlink | Call::Write => {
                self.create()?;
                return Ok(Call::Create);
            }
        }
        Ok(call)
    }

    /// Opens a file; of many open ones the oldest is closed.
    fn open(&mut self) -> Result<()> {
        let ino = self.find()?;
        self.open.push_back((ino, 0));
        if self.open.len() > OPEN {
            self.close();
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some((ino, _)) = self.open.pop_front() {
            self.fs.forget(ino, 1);
        }
    }

    /// Finds a directory by its name, from the root.
    fn directory(&self, n: usize) -> Result<Ino> {
        let home = self.fs.lookup(self.fs.root(), self.home.as_bytes())?.ino;
        let found = self.fs.lookup(home, directory(n).as_bytes());
        self.fs.forget(home, 1);
        Ok(found?.ino)
    }

    /// Finds a file that the unit uses next, by its name.
    fn find(&mut self) -> Result<Ino> {
        let again = !self.recent.is_empty() && self.random.random_bool(AGAIN);
        let (d, n) = if again {
            self.recent[self.random.random_range(0..self.recent.len())]
        } else {
            let next = (self.random.random_range(0..DIRECTORIES), self.random.random_range(0..FILES));
            self.recent.push_back(next);
            if self.recent.len() > RECENT {
                self.recent.pop_front();
            }
            next
        };
        let dir = self.directory(d)?;
        let found = self.fs.lookup(dir, file(n).as_bytes());
        self.fs.forget(dir, 1);
        Ok(found?.ino)
    }

    fn create(&mut self) -> Result<()> {
        let d = self.random.random_range(0..DIRECTORIES);
        self.names += 1;
        let name = format!("temporary{}", self.names);
        let dir = self.directory(d)?;
        let made = self.fs.create(dir, name.as_bytes(), &node(FileKind::Regular), USER);
        self.fs.forget(dir, 1);
        if let Some((old, _)) = self.written.replace((made?.ino, 0)) {
            self.fs.forget(old, 1);
        }
        self.made.push_back((d, name));
        Ok(())
    }

    fn unlink(&mut self) -> Result<()> {
        let Some((d, name)) = self.made.pop_front() else { return Ok(()) };
        let dir = self.directory(d)?;
        let done = self.fs.unlink(dir, name.as_bytes());
        self.fs.forget(dir, 1);
        Ok(done?)
    }
}
