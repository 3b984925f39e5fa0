//! Translates messages into events.
//!
//! The kernel part sends each fact once: the path of a directory with a number, the file of an open
//! number. This module remembers and combines them. Calls by name do not say which file they affect
//! and how large it is, so this is looked up in what was seen of the file before. Files never seen
//! stay unknown, with zeros.
//!
//! Invariant: the memory for files that are not open is limited by [`REMEMBERED`].

use crate::wire::{DIRECTORY, Message, OpenAtEnd, SWAPPED, TRACE_FLAGS, WRITTEN};
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of names, and of files, to remember; beyond it all are dropped, which only makes
/// later deletions less precise.
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

/// State of a known file.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    size: u64,
    /// Number of links; 0 if unknown.
    links: u64,
    opens: u32,
}

/// Translates messages, with the state that they need.
#[derive(Debug)]
pub struct Translator {
    /// Added to the kernel's time to get nanoseconds since 1970.
    epoch_offset: i64,
    /// Path prefix of the files to record, without a slash at the end.
    prefix: Option<String>,
    /// The trace file, which is not recorded.
    trace_file: FileId,
    directories: BTreeMap<u64, Arc<str>>,
    opens: HashMap<u64, Open>,
    skipped: HashSet<u64>,
    by_name: HashMap<Arc<str>, FileId>,
    files: HashMap<FileId, Known>,
}

impl Translator {
    /// Returns a translator with the offset from the kernel's time to that since 1970, the prefix
    /// that paths must have, and a file to leave out.
    pub fn new(epoch_offset: i64, prefix: Option<&str>, trace_file: FileId) -> Self {
        Self {
            epoch_offset,
            prefix: prefix.map(|prefix| prefix.trim_end_matches('/').to_owned()),
            trace_file,
            directories: BTreeMap::new(),
            opens: HashMap::new(),
            skipped: HashSet::new(),
            by_name: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Adds the events of a message to the batch.
    pub fn take(&mut self, message: &Message<'_>, batch: &mut Batch) {
        let Some(&kind) = Kind::ALL.get(usize::from(message.kind)) else {
            if message.kind == DIRECTORY {
                self.directories.insert(message.base, whole_name(message.text));
            }
            return;
        };
        match kind {
            Kind::Open | Kind::Create => self.opened(kind, message, batch),
            Kind::Close => self.closed(message, batch),
            Kind::Seek | Kind::Run | Kind::Sync => self.in_open(kind, message, batch),
            _ if message.open != 0 => self.in_open(kind, message, batch),
            Kind::Truncate => self.truncated(message, batch),
            Kind::Unlink => self.unlinked(message, batch),
            Kind::Rename => self.renamed(message, batch),
            Kind::Link => self.linked(message, batch),
            Kind::Exec => {
                let path = self.name(message.base, message.text);
                self.emit(kind, message, file(message), &path, "", batch);
            }
            Kind::Mkdir | Kind::Rmdir => {
                let path = self.name(message.base, message.text);
                self.emit(kind, message, FileId::default(), &path, "", batch);
            }
            Kind::Stat
            | Kind::Access
            | Kind::Readlink
            | Kind::List
            | Kind::Chdir
            | Kind::Chmod
            | Kind::Chown
            | Kind::Utime
            | Kind::Symlink => {
                let path = self.name(message.base, message.text);
                let found = message.flags & Flags::FAILED.0 == 0;
                let seen = self.by_name.get(&path).filter(|_| found).copied().unwrap_or_default();
                let id = if message.inode == 0 { seen } else { file(message) };
                self.emit(kind, message, id, &path, "", batch);
            }
        }
    }

    /// Adds the unfinished runs of a file that is open at the end; `time` is the kernel's time.
    pub fn left(&mut self, left: &OpenAtEnd, time: u64, batch: &mut Batch) {
        let Some(open) = self.opens.get(&left.open).cloned() else { return };
        for (start, bytes, calls, flags) in left.runs {
            if bytes > 0 {
                let message = Message {
                    time,
                    open: left.open,
                    position: start,
                    bytes,
                    calls,
                    flags: flags | open.flags.0,
                    user: open.user,
                    process: open.process,
                    command: &open.command,
                    ..Message::default()
                };
                self.in_open(Kind::Run, &message, batch);
            }
        }
    }

    /// Returns the number of open files.
    pub fn open(&self) -> usize {
        self.opens.len()
    }

    fn opened(&mut self, kind: Kind, message: &Message<'_>, batch: &mut Batch) {
        let id = file(message);
        let is_directory = message.flags & Flags::DIRECTORY.0 != 0;
        let path = if message.text.is_empty() && is_directory {
            self.directories.get(&message.base).cloned().unwrap_or_default()
        } else {
            self.name(message.base, message.text)
        };
        if id == self.trace_file || !self.is_selected(&path) {
            self.skipped.insert(message.open);
            return;
        }
        if kind == Kind::Create {
            self.files.remove(&id);
        }
        let known = self.files.entry(id).or_default();
        known.opens += 1;
        let mut changed = *message;
        if message.flags & Flags::TRUNCATED.0 != 0 {
            changed.size = std::mem::take(&mut known.size);
        } else {
            known.size = message.size;
        }
        let flags = Flags(message.flags & TRACE_FLAGS);
        if !is_directory && !flags.has(Flags::UNNAMED) {
            self.remember(&path, id);
        }
        // The system's name of such a file is not a path.
        let path = if flags.has(Flags::UNNAMED) { Arc::default() } else { path };
        let open = Open {
            file: id,
            flags: Flags(flags.0 & !(Flags::BEFORE | Flags::TRUNCATED | Flags::UNNAMED).0),
            path: Arc::clone(&path),
            user: message.user,
            process: message.process,
            command: message.command.into(),
        };
        self.opens.insert(message.open, open);
        self.emit(kind, &changed, id, &path, "", batch);
    }

    fn closed(&mut self, message: &Message<'_>, batch: &mut Batch) {
        if self.skipped.remove(&message.open) {
            return;
        }
        let Some(open) = self.opens.remove(&message.open) else { return };
        let known = self.files.entry(open.file).or_default();
        known.opens = known.opens.saturating_sub(1);
        known.size = message.size;
        known.links = message.other;
        let mut changed = *message;
        changed.other = 0;
        if message.other == 0 && known.opens == 0 {
            changed.flags |= Flags::LAST.0;
            self.files.remove(&open.file);
        } else if self.files.len() > REMEMBERED {
            self.files.retain(|_, known| known.opens > 0);
        }
        self.emit(Kind::Close, &changed, open.file, &open.path, "", batch);
    }

    fn in_open(&mut self, kind: Kind, message: &Message<'_>, batch: &mut Batch) {
        let Some(open) = self.opens.get(&message.open) else { return };
        let (file, path) = (open.file, Arc::clone(&open.path));
        self.emit(kind, message, file, &path, "", batch);
    }

    fn truncated(&mut self, message: &Message<'_>, batch: &mut Batch) {
        let path = self.name(message.base, message.text);
        let id = self.by_name.get(&path).copied().unwrap_or_default();
        if let Some(known) = self.files.get_mut(&id) {
            known.size = message.size;
        }
        self.emit(Kind::Truncate, message, id, &path, "", batch);
    }

    fn linked(&mut self, message: &Message<'_>, batch: &mut Batch) {
        let (from, to) = self.two_names(message);
        let id = self.by_name.get(&from).copied();
        let plain = Message { other: 0, ..*message };
        self.emit(Kind::Link, &plain, id.unwrap_or_default(), &from, &to, batch);
        if let Some(id) = id {
            self.remember(&to, id);
            if let Some(known) = self.files.get_mut(&id)
                && known.links > 0
            {
                known.links += 1;
            }
        }
    }

    fn unlinked(&mut self, message: &Message<'_>, batch: &mut Batch) {
        let path = self.name(message.base, message.text);
        self.name_removed(message, &path, Flags::NONE, batch);
    }

    /// Processes the removal of a name. The file is in the message if the file system sent it, or
    /// else looked up.
    fn name_removed(&mut self, message: &Message<'_>, path: &Arc<str>, how: Flags, batch: &mut Batch) {
        let seen = self.by_name.remove(path).unwrap_or_default();
        let mut changed = *message;
        changed.flags |= how.0;
        let id = if message.inode != 0 { file(message) } else { seen };
        if let Some(known) = self.files.get_mut(&id) {
            let is_last = if message.inode == 0 {
                changed.size = known.size;
                known.links == 1
            } else {
                message.flags & Flags::LAST.0 != 0
            };
            known.links = known.links.saturating_sub(1);
            let is_open = known.opens > 0;
            if is_last {
                changed.flags |= Flags::LAST.0;
                if !is_open {
                    self.files.remove(&id);
                }
            }
        }
        self.emit(Kind::Unlink, &changed, id, path, "", batch);
    }

    fn renamed(&mut self, message: &Message<'_>, batch: &mut Batch) {
        let (from, to) = self.two_names(message);
        let plain = Message { inode: 0, size: 0, flags: 0, device: 0, ..*message };
        if message.flags & SWAPPED != 0 {
            let [a, b] = [&from, &to].map(|name| self.by_name.remove(name));
            for (name, id) in [(&to, a), (&from, b)] {
                if let Some(id) = id {
                    self.remember(name, id);
                }
            }
            self.emit(Kind::Rename, &plain, a.unwrap_or_default(), &from, &to, batch);
            self.emit(Kind::Rename, &plain, b.unwrap_or_default(), &to, &from, batch);
            return;
        }
        let moved = self.by_name.remove(&from);
        if message.inode != 0 || self.by_name.get(&to).is_some_and(|&other| Some(other) != moved) {
            let victim = Message { flags: message.flags & TRACE_FLAGS, ..*message };
            self.name_removed(&victim, &to, Flags::REPLACED, batch);
        }
        if let Some(id) = moved {
            self.remember(&to, id);
        } else {
            self.directory_moved(&from, &to);
        }
        self.emit(Kind::Rename, &plain, moved.unwrap_or_default(), &from, &to, batch);
    }

    /// Changes the paths below a renamed directory. (If it was an unknown file, there are none.)
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

    fn is_selected(&self, path: &str) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| {
            path.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Returns the absolute path of the name `text` in the directory with number `base`.
    fn name(&self, base: u64, text: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(text));
        let empty = Arc::default();
        join(self.directories.get(&base).unwrap_or(&empty), &text)
    }

    fn two_names(&self, message: &Message<'_>) -> (Arc<str>, Arc<str>) {
        let mut names = message.text.splitn(2, |&byte| byte == 0);
        let mut next = |base| self.name(base, names.next().unwrap_or_default());
        (next(message.base), next(message.other))
    }

    fn emit(
        &self,
        kind: Kind,
        message: &Message<'_>,
        file: FileId,
        path: &str,
        new_path: &str,
        batch: &mut Batch,
    ) {
        if message.open == 0
            && !self.is_selected(path)
            && (new_path.is_empty() || !self.is_selected(new_path))
        {
            return;
        }
        let is_written = message.flags & WRITTEN != 0;
        let event = Event {
            time: self.epoch_offset.saturating_add_unsigned(message.time),
            kind,
            flags: Flags(message.flags & TRACE_FLAGS),
            open: message.open,
            file,
            user: message.user,
            process: message.process,
            size: message.size,
            position: message.position,
            read: if is_written { 0 } else { message.bytes },
            written: if is_written { message.bytes } else { 0 },
            new_position: if kind == Kind::Seek { message.other } else { 0 },
            calls: message.calls,
            command: batch.names.symbol(&String::from_utf8_lossy(message.command)),
            path: batch.names.symbol(path),
            new_path: batch.names.symbol(new_path),
        };
        batch.events.push(event);
    }
}

fn file(message: &Message<'_>) -> FileId {
    FileId { device: message.device(), inode: message.inode }
}

/// Returns the path of a directory, whose components are in reverse order, each followed by a 0.
fn whole_name(text: &[u8]) -> Arc<str> {
    let mut name = String::new();
    for part in text.strip_suffix(b"\0").unwrap_or(text).rsplit(|&byte| byte == 0) {
        name.push('/');
        name.push_str(&String::from_utf8_lossy(part));
    }
    name.into()
}

/// Joins a directory and a name, and resolves `.` and `..`, but not symbolic links.
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
