//! Events out of messages.
//!
//! The kernel's half tells each thing once: the name of a directory under a number, the file behind
//! an open number. Here these are remembered and put together; and what calls by name do not say
//! (which file it was, how large) is looked up in what was seen of the file before. What was never
//! seen stays unknown, and is 0.
//!
//! Invariant: what is remembered of files that are not open is bounded by [`REMEMBERED`].

use crate::wire::{DIRECTORY, LINK, Left, SWAPPED, TRACE_FLAGS, WRITTEN, Wire};
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Names of files that are remembered, and files; then all are forgotten, which only makes later
/// deletions less precise.
const REMEMBERED: usize = 1 << 20;

/// An open file.
#[derive(Clone, Debug)]
struct Open {
    file: FileId,
    flags: Flags,
    path: Arc<str>,
    user: u32,
    process: u32,
    command: Box<[u8]>,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    size: u64,
    /// 0 for unknown.
    links: u64,
    opens: u32,
}

/// Puts messages together.
#[derive(Debug)]
pub struct Translator {
    /// What is added to the kernel's time to get nanoseconds since 1970.
    since_1970: i64,
    /// Only files at or below this name, without its last slash.
    prefix: Option<String>,
    /// A file that is not told of: the trace.
    hidden: FileId,
    directories: BTreeMap<u64, Arc<str>>,
    opens: HashMap<u64, Open>,
    unwanted: HashSet<u64>,
    by_name: HashMap<Arc<str>, FileId>,
    files: HashMap<FileId, Known>,
}

impl Translator {
    /// With the time of 1970 in the kernel's, the prefix that names must have, and a file that is
    /// not told of.
    pub fn new(since_1970: i64, prefix: Option<&str>, hidden: FileId) -> Self {
        Self {
            since_1970,
            prefix: prefix.map(|prefix| prefix.trim_end_matches('/').to_owned()),
            hidden,
            directories: BTreeMap::new(),
            opens: HashMap::new(),
            unwanted: HashSet::new(),
            by_name: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Adds what a message tells to the batch.
    pub fn take(&mut self, wire: &Wire<'_>, batch: &mut Batch) {
        let Some(&kind) = Kind::ALL.get(usize::from(wire.kind)) else {
            match wire.kind {
                DIRECTORY => {
                    self.directories.insert(wire.base, whole_name(wire.text));
                }
                LINK => self.linked(wire),
                _ => {}
            }
            return;
        };
        match kind {
            Kind::Open | Kind::Create => self.opened(kind, wire, batch),
            Kind::Close => self.closed(wire, batch),
            Kind::Seek | Kind::Run | Kind::Sync => self.in_open(kind, wire, batch),
            Kind::Truncate if wire.open != 0 => self.in_open(kind, wire, batch),
            Kind::Truncate => self.truncated(wire, batch),
            Kind::Unlink => self.unlinked(wire, batch),
            Kind::Rename => self.renamed(wire, batch),
            Kind::Exec => {
                let path = self.name(wire.base, wire.text);
                self.tell(kind, wire, file(wire), &path, "", batch);
            }
            Kind::Mkdir | Kind::Rmdir => {
                let path = self.name(wire.base, wire.text);
                self.tell(kind, wire, FileId::default(), &path, "", batch);
            }
        }
    }

    /// What was still going on in a file that is open at the end, `time` in the kernel's time.
    pub fn left(&mut self, left: &Left, time: u64, batch: &mut Batch) {
        let Some(open) = self.opens.get(&left.open).cloned() else { return };
        for (start, bytes, calls, flags) in left.runs {
            if bytes > 0 {
                let wire = Wire {
                    time,
                    open: left.open,
                    position: start,
                    bytes,
                    calls,
                    flags: flags | open.flags.0,
                    user: open.user,
                    process: open.process,
                    command: &open.command,
                    ..Wire::default()
                };
                self.in_open(Kind::Run, &wire, batch);
            }
        }
    }

    /// Returns the number of open files.
    pub fn open(&self) -> usize {
        self.opens.len()
    }

    fn opened(&mut self, kind: Kind, wire: &Wire<'_>, batch: &mut Batch) {
        let id = file(wire);
        let is_directory = wire.flags & Flags::DIRECTORY.0 != 0;
        let path = if wire.text.is_empty() && is_directory {
            self.directories.get(&wire.base).cloned().unwrap_or_default()
        } else {
            self.name(wire.base, wire.text)
        };
        if id == self.hidden || !self.wants(&path) {
            self.unwanted.insert(wire.open);
            return;
        }
        if kind == Kind::Create {
            self.files.remove(&id);
        }
        let known = self.files.entry(id).or_default();
        known.opens += 1;
        let mut told = *wire;
        if wire.flags & Flags::TRUNCATED.0 != 0 {
            told.size = std::mem::take(&mut known.size);
        } else {
            known.size = wire.size;
        }
        let flags = Flags(wire.flags & TRACE_FLAGS);
        if !is_directory && !flags.has(Flags::NAMELESS) {
            self.remember(&path, id);
        }
        // What the system calls such a file in its messages is no name.
        let path = if flags.has(Flags::NAMELESS) { Arc::default() } else { path };
        let open = Open {
            file: id,
            flags: Flags(flags.0 & !(Flags::BEFORE | Flags::TRUNCATED | Flags::NAMELESS).0),
            path: Arc::clone(&path),
            user: wire.user,
            process: wire.process,
            command: wire.command.into(),
        };
        self.opens.insert(wire.open, open);
        self.tell(kind, &told, id, &path, "", batch);
    }

    fn closed(&mut self, wire: &Wire<'_>, batch: &mut Batch) {
        if self.unwanted.remove(&wire.open) {
            return;
        }
        let Some(open) = self.opens.remove(&wire.open) else { return };
        let known = self.files.entry(open.file).or_default();
        known.opens = known.opens.saturating_sub(1);
        known.size = wire.size;
        known.links = wire.other;
        let mut told = *wire;
        told.other = 0;
        if wire.other == 0 && known.opens == 0 {
            told.flags |= Flags::LAST.0;
            self.files.remove(&open.file);
        } else if self.files.len() > REMEMBERED {
            self.files.retain(|_, known| known.opens > 0);
        }
        self.tell(Kind::Close, &told, open.file, &open.path, "", batch);
    }

    fn in_open(&mut self, kind: Kind, wire: &Wire<'_>, batch: &mut Batch) {
        let Some(open) = self.opens.get(&wire.open) else { return };
        let (file, path) = (open.file, Arc::clone(&open.path));
        self.tell(kind, wire, file, &path, "", batch);
    }

    fn truncated(&mut self, wire: &Wire<'_>, batch: &mut Batch) {
        let path = self.name(wire.base, wire.text);
        let id = self.by_name.get(&path).copied().unwrap_or_default();
        if let Some(known) = self.files.get_mut(&id) {
            known.size = wire.size;
        }
        self.tell(Kind::Truncate, wire, id, &path, "", batch);
    }

    fn linked(&mut self, wire: &Wire<'_>) {
        let (from, to) = self.two_names(wire);
        if let Some(&id) = self.by_name.get(&from) {
            self.remember(&to, id);
            if let Some(known) = self.files.get_mut(&id)
                && known.links > 0
            {
                known.links += 1;
            }
        }
    }

    fn unlinked(&mut self, wire: &Wire<'_>, batch: &mut Batch) {
        let path = self.name(wire.base, wire.text);
        self.name_went(wire, &path, Flags::NONE, batch);
    }

    /// A name went: which file's, is in the message if the file system told, or else in what was
    /// seen.
    fn name_went(&mut self, wire: &Wire<'_>, path: &Arc<str>, how: Flags, batch: &mut Batch) {
        let seen = self.by_name.remove(path).unwrap_or_default();
        let mut told = *wire;
        told.flags |= how.0;
        let id = if wire.inode != 0 { file(wire) } else { seen };
        if let Some(known) = self.files.get_mut(&id) {
            let is_last = if wire.inode == 0 {
                told.size = known.size;
                known.links == 1
            } else {
                wire.flags & Flags::LAST.0 != 0
            };
            known.links = known.links.saturating_sub(1);
            let is_open = known.opens > 0;
            if is_last {
                told.flags |= Flags::LAST.0;
                if !is_open {
                    self.files.remove(&id);
                }
            }
        }
        self.tell(Kind::Unlink, &told, id, path, "", batch);
    }

    fn renamed(&mut self, wire: &Wire<'_>, batch: &mut Batch) {
        let (from, to) = self.two_names(wire);
        let plain = Wire { inode: 0, size: 0, flags: 0, device: 0, ..*wire };
        if wire.flags & SWAPPED != 0 {
            let [a, b] = [&from, &to].map(|name| self.by_name.remove(name));
            for (name, id) in [(&to, a), (&from, b)] {
                if let Some(id) = id {
                    self.remember(name, id);
                }
            }
            self.tell(Kind::Rename, &plain, a.unwrap_or_default(), &from, &to, batch);
            self.tell(Kind::Rename, &plain, b.unwrap_or_default(), &to, &from, batch);
            return;
        }
        let moved = self.by_name.remove(&from);
        if wire.inode != 0 || self.by_name.get(&to).is_some_and(|&other| Some(other) != moved) {
            let victim = Wire { flags: wire.flags & TRACE_FLAGS, ..*wire };
            self.name_went(&victim, &to, Flags::REPLACED, batch);
        }
        if let Some(id) = moved {
            self.remember(&to, id);
        } else {
            self.directory_moved(&from, &to);
        }
        self.tell(Kind::Rename, &plain, moved.unwrap_or_default(), &from, &to, batch);
    }

    /// Names below a directory begin otherwise now. (It may have been a file of which nothing was
    /// known: then there are none.)
    fn directory_moved(&mut self, from: &str, to: &str) {
        let moved = |name: &str| {
            let rest = name.strip_prefix(from)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| Arc::<str>::from(format!("{to}{rest}")))
        };
        let mut was_directory = false;
        for name in self.directories.values_mut() {
            if let Some(new) = moved(name) {
                *name = new;
                was_directory = true;
            }
        }
        if was_directory {
            let names: Vec<_> =
                self.by_name.keys().filter_map(|name| Some((Arc::clone(name), moved(name)?))).collect();
            for (old, new) in names {
                if let Some(id) = self.by_name.remove(&old) {
                    self.by_name.insert(new, id);
                }
            }
        }
    }

    fn remember(&mut self, path: &Arc<str>, id: FileId) {
        if self.by_name.len() > REMEMBERED {
            self.by_name.clear();
        }
        self.by_name.insert(Arc::clone(path), id);
    }

    fn wants(&self, path: &str) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| {
            path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Returns the absolute name of what is called `text` in the directory of number `base`.
    fn name(&self, base: u64, text: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(text));
        let empty = Arc::default();
        join(self.directories.get(&base).unwrap_or(&empty), &text)
    }

    fn two_names(&self, wire: &Wire<'_>) -> (Arc<str>, Arc<str>) {
        let mut names = wire.text.splitn(2, |&byte| byte == 0);
        let mut next = |base| self.name(base, names.next().unwrap_or_default());
        (next(wire.base), next(wire.other))
    }

    fn tell(&self, kind: Kind, wire: &Wire<'_>, file: FileId, path: &str, new_path: &str, batch: &mut Batch) {
        if wire.open == 0 && !self.wants(path) && (new_path.is_empty() || !self.wants(new_path)) {
            return;
        }
        let is_written = wire.flags & WRITTEN != 0;
        let event = Event {
            time: self.since_1970.saturating_add_unsigned(wire.time),
            kind,
            flags: Flags(wire.flags & TRACE_FLAGS),
            open: wire.open,
            file,
            user: wire.user,
            process: wire.process,
            size: wire.size,
            position: wire.position,
            read: if is_written { 0 } else { wire.bytes },
            written: if is_written { wire.bytes } else { 0 },
            new_position: if kind == Kind::Seek { wire.other } else { 0 },
            calls: wire.calls,
            command: batch.names.symbol(&String::from_utf8_lossy(wire.command)),
            path: batch.names.symbol(path),
            new_path: batch.names.symbol(new_path),
        };
        batch.events.push(event);
    }
}

fn file(wire: &Wire<'_>) -> FileId {
    FileId { device: wire.device(), inode: wire.inode }
}

/// Returns the name of a directory, whose components come last first, each with a 0 behind it.
fn whole_name(text: &[u8]) -> Arc<str> {
    let mut name = String::new();
    for part in text.strip_suffix(b"\0").unwrap_or(text).rsplit(|&byte| byte == 0) {
        name.push('/');
        name.push_str(&String::from_utf8_lossy(part));
    }
    name.into()
}

/// `name` in `directory`, without `.` and `..`; symbolic links are not looked at.
fn join(directory: &str, name: &str) -> Arc<str> {
    let is_plain = !name.is_empty() && !name.split('/').any(|part| matches!(part, "" | "." | ".."));
    if is_plain {
        let directory = directory.trim_end_matches('/');
        return [directory, "/", name].concat().into();
    }
    let mut parts: Vec<&str> = Vec::new();
    let directory = if name.starts_with('/') { "" } else { directory };
    for part in directory.split('/').chain(name.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/")).into()
}
