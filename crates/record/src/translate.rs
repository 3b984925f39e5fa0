//! Translates messages into events.
//!
//! The kernel part sends each fact once: the path of a directory with a number, the file of an open
//! number. This module remembers and combines them. Calls by name do not say which file they affect
//! and how large it is, so this is looked up in what was seen of the file before. Files never seen
//! stay unknown, with zeros.
//!
//! Invariant: the memory for files that are not open is limited by [`REMEMBERED`].

use crate::directories::Directories;
use crate::links::{Links, Look};
use crate::mounts::is_below;
use crate::selection::Selection;
use crate::wire::{DIRECTORY, Message, OpenAtEnd, SWAPPED, TRACE_FLAGS, WRITTEN};
use spindle_trace::{Batch, Event, FileId, Flags, Kind};
use std::collections::{HashMap, HashSet};
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
    /// Its position in bytes at the end of its last run or seek.
    position: u64,
}

impl Open {
    /// Returns what all messages of this open have that the kernel part does not send.
    fn message(&self, number: u64, time: u64) -> Message<'_> {
        let Self { user, process, .. } = *self;
        Message { time, open: number, user, process, command: &self.command, ..Message::default() }
    }
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
    selection: Selection,
    /// The trace file, which is not recorded.
    trace_file: FileId,
    /// Time of the latest message, in the kernel's time.
    time: u64,
    directories: Directories,
    links: Links,
    opens: HashMap<u64, Open>,
    skipped: HashSet<u64>,
    by_name: HashMap<Arc<str>, FileId>,
    files: HashMap<FileId, Known>,
}

impl Translator {
    /// Returns a translator with the offset from the kernel's time to that since 1970, what is to
    /// be recorded, a file to leave out, and how the real path of a directory is found.
    pub fn new(epoch_offset: i64, selection: Selection, trace_file: FileId, look: Look) -> Self {
        Self {
            epoch_offset,
            selection,
            trace_file,
            time: 0,
            directories: Directories::default(),
            links: Links::new(look),
            opens: HashMap::new(),
            skipped: HashSet::new(),
            by_name: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Adds the events of a message to the batch.
    pub fn take(&mut self, message: &Message<'_>, batch: &mut Batch) {
        self.time = self.time.max(message.time);
        let Some(&kind) = Kind::ALL.get(usize::from(message.kind)) else {
            if message.kind == DIRECTORY {
                self.directories.add(message);
            }
            return;
        };
        match kind {
            Kind::Open | Kind::Create => self.opened(kind, message, batch),
            Kind::Close => self.closed(message, batch),
            Kind::Seek | Kind::Run => self.in_open(kind, message, batch),
            _ if message.open != 0 => self.in_open(kind, message, batch),
            Kind::Truncate => self.truncated(message, batch),
            Kind::Unlink => self.unlinked(message, batch),
            Kind::Rename => self.renamed(message, batch),
            Kind::Link => self.linked(message, batch),
            // A sync without a name is one of all files, or of those of a file system.
            Kind::Exec | Kind::Sync => {
                let path = self.name(message.base, message.text);
                self.emit(kind, message, file(message), &path, "", batch);
            }
            Kind::Mkdir | Kind::Rmdir => {
                let path = self.name(message.base, message.text);
                self.links.changed(&path);
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
                if kind == Kind::Symlink {
                    self.links.changed(&path);
                }
                let found = message.flags & Flags::FAILED.0 == 0;
                let seen = self.by_name.get(&path).filter(|_| found).copied().unwrap_or_default();
                // On overlayfs, `stat` may have another device for a file than its opens have.
                let is_same = message.inode == 0 || message.inode == seen.inode;
                let id = if is_same { seen } else { file(message) };
                self.emit(kind, message, id, &path, "", batch);
            }
        }
    }

    /// Adds the unfinished runs of a file that is open at the end; `time` is the kernel's time.
    pub fn left(&mut self, left: &OpenAtEnd, time: u64, batch: &mut Batch) {
        let Some(open) = self.opens.get(&left.open).cloned() else { return };
        for (start, bytes, calls, flags) in left.runs {
            if bytes > 0 {
                let flags = flags | open.flags.0;
                let message =
                    Message { position: start, bytes, calls, flags, ..open.message(left.open, time) };
                self.in_open(Kind::Run, &message, batch);
            }
        }
    }

    /// Leaves out another trace file from now on.
    pub fn leave_out(&mut self, trace_file: FileId) {
        self.trace_file = trace_file;
    }

    /// Adds an `open` from before for each open file, with which a trace begins that goes on where
    /// another one ends.
    pub fn reopen(&self, batch: &mut Batch) {
        let mut numbers: Vec<_> = self.opens.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let open = &self.opens[&number];
            let message = Message {
                size: self.files.get(&open.file).map_or(0, |known| known.size),
                position: open.position,
                flags: (open.flags | Flags::BEFORE).0,
                ..open.message(number, self.time)
            };
            self.emit(Kind::Open, &message, open.file, &open.path, "", batch);
        }
    }

    /// Returns the number of open files.
    pub fn open(&self) -> usize {
        self.opens.len()
    }

    fn opened(&mut self, kind: Kind, message: &Message<'_>, batch: &mut Batch) {
        let id = file(message);
        let is_directory = message.flags & Flags::DIRECTORY.0 != 0;
        let path = self.name(message.base, message.text);
        if id == self.trace_file || !self.selection.has_path(&path) {
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
            position: message.position,
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
        let Some(open) = self.opens.get_mut(&message.open) else { return };
        let (file, path) = (open.file, Arc::clone(&open.path));
        let end = message.position.saturating_add(message.bytes);
        let is_elsewhere = message.flags & (Flags::POSITIONAL | Flags::MAPPED).0 != 0;
        match kind {
            Kind::Seek => open.position = message.other,
            Kind::Run if !is_elsewhere => open.position = end,
            _ => {}
        }
        if let Some(known) = self.files.get_mut(&file) {
            if kind == Kind::Truncate {
                known.size = message.size;
            } else if message.flags & WRITTEN != 0 && message.flags & Flags::MAPPED.0 == 0 {
                known.size = known.size.max(end);
            }
        }
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
        let id = self.removed_file(message, (message.base, message.text), &path);
        self.name_removed(message, id, &path, Flags::NONE, batch);
    }

    /// Returns the file that had this name. The file system that has removed it says so in the
    /// message, or else it is looked up. But that file system may lie below the one that the name
    /// is on (overlayfs), and then its device is not that of the other events of the file.
    fn removed_file(&mut self, message: &Message<'_>, (base, text): (u64, &[u8]), path: &str) -> FileId {
        let seen = self.by_name.get(path).copied();
        if message.inode == 0 {
            return seen.unwrap_or_default();
        }
        let given = file(message);
        match seen {
            Some(seen) if seen.device != given.device => seen,
            Some(_) => given,
            None => {
                let directory = self.directories.get(base).filter(|_| is_plain(text));
                FileId { device: directory.map_or(given.device, |found| found.device), ..given }
            }
        }
    }

    /// Processes the removal of a name of the file `id`, for which `message` has the rest.
    fn name_removed(
        &mut self,
        message: &Message<'_>,
        id: FileId,
        path: &Arc<str>,
        how: Flags,
        batch: &mut Batch,
    ) {
        self.by_name.remove(path);
        self.links.changed(path);
        let mut changed = *message;
        changed.flags |= how.0;
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
            self.names_moved(&[(&from, &to), (&to, &from)]);
            self.emit(Kind::Rename, &plain, a.unwrap_or_default(), &from, &to, batch);
            self.emit(Kind::Rename, &plain, b.unwrap_or_default(), &to, &from, batch);
            return;
        }
        let moved = self.by_name.remove(&from);
        if message.inode != 0 || self.by_name.get(&to).is_some_and(|&other| Some(other) != moved) {
            let victim = Message { flags: message.flags & TRACE_FLAGS, ..*message };
            let second = message.text.splitn(2, |&byte| byte == 0).nth(1).unwrap_or_default();
            let id = self.removed_file(message, (message.other, second), &to);
            self.name_removed(&victim, id, &to, Flags::REPLACED, batch);
        }
        if let Some(id) = moved {
            self.remember(&to, id);
        } else {
            self.names_moved(&[(&from, &to)]);
        }
        self.emit(Kind::Rename, &plain, moved.unwrap_or_default(), &from, &to, batch);
    }

    /// Changes the paths below renamed directories, from the first of each pair to the second. (If
    /// they were files, there are none.)
    fn names_moved(&mut self, pairs: &[(&str, &str)]) {
        let moved = |name: &str| {
            let (from, to) = pairs.iter().find(|(from, _)| is_below(name, from))?;
            Some(Arc::<str>::from(format!("{to}{}", &name[from.len()..])))
        };
        if self.directories.rename(moved) {
            let all = std::mem::take(&mut self.by_name);
            self.by_name = all.into_iter().map(|(name, id)| (moved(&name).unwrap_or(name), id)).collect();
        }
        for (from, _) in pairs {
            self.links.changed(from);
        }
    }

    fn remember(&mut self, path: &Arc<str>, id: FileId) {
        if self.by_name.len() > REMEMBERED {
            self.by_name.clear();
        }
        self.by_name.insert(Arc::clone(path), id);
    }

    /// Returns the absolute path of the name `text`, which begins in the directory with number
    /// `base`, or at that root; an empty one if the directory is not known.
    fn name(&mut self, base: u64, text: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(text.strip_suffix(b"\0").unwrap_or(text));
        let start = match self.directories.get(base) {
            Some(start) if !start.path.is_empty() => &*start.path,
            _ if base == 0 && text.starts_with('/') => "",
            _ => return Arc::default(),
        };
        let start = start.trim_end_matches('/');
        let whole = [start, "/", text.trim_start_matches('/')].concat();
        if is_plain(text.as_bytes()) {
            return whole.into();
        }
        let whole = without_dots(&whole);
        if whole == start {
            return if whole.is_empty() { "/" } else { whole }.into();
        }
        let (directory, last) = whole.rsplit_once('/').unwrap_or_default();
        let root = if text.starts_with('/') { start } else { "" };
        let real = if directory == start { start.into() } else { self.links.real(directory, root) };
        if last == ".." {
            parent(&real).into()
        } else {
            [real.trim_end_matches('/'), "/", last].concat().into()
        }
    }

    fn two_names(&mut self, message: &Message<'_>) -> (Arc<str>, Arc<str>) {
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
        // A call on a name returns the device only if it asks for it.
        let device = (kind == Kind::Stat && message.inode != 0).then_some(message.device);
        let is_selected = |path: &str| match kind {
            _ if message.open != 0 => true,
            // The kernel part has chosen by the file.
            Kind::Sync if message.inode == 0 => true,
            Kind::Exec | Kind::Sync => self.selection.has_path(path),
            _ => self.selection.has_name(path, device),
        };
        if !is_selected(path) && (new_path.is_empty() || !is_selected(new_path)) {
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

/// Returns true if a name is that of something in the directory where it begins.
fn is_plain(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    !matches!(text, b"" | b"." | b"..") && !text.contains(&b'/')
}

/// Returns a path without empty components and `.` at its end.
fn without_dots(path: &str) -> &str {
    let shorter = path.trim_end_matches('/');
    shorter.strip_suffix("/.").map_or(shorter, without_dots)
}

/// Returns the path of the directory that contains one.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map(|(directory, _)| directory).filter(|above| !above.is_empty()).unwrap_or("/")
}
#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a translator in which `/l` leads to `/d`.
    fn translator() -> Translator {
        let look = |path: &str| path.strip_prefix("/l").map(|rest| format!("/d{rest}"));
        Translator::new(0, Selection::default(), FileId::default(), look)
    }

    fn directory(number: u64, text: &[u8], device: u32) -> Message<'_> {
        Message { kind: DIRECTORY, base: number, text, device, ..Message::default() }
    }

    fn kind(kind: Kind) -> u8 {
        u8::try_from(Kind::ALL.iter().position(|&one| one == kind).unwrap()).unwrap()
    }

    /// Returns the paths and files of the events of messages.
    fn events(translator: &mut Translator, messages: &[Message<'_>]) -> Vec<(String, FileId, u64)> {
        let mut batch = Batch::default();
        for message in messages {
            translator.take(message, &mut batch);
        }
        let path = |event: &Event| batch.names.word(event.path).to_owned();
        batch.events.iter().map(|event| (path(event), event.file, event.size)).collect()
    }

    /// Promise: what another file system below says of a deletion has the device of the name: that
    /// of the file's opens, or of the directory; where neither is known, it is taken as it is.
    #[test]
    fn deletions_through_layers() {
        let mut translator = translator();
        let id = |device, inode| FileId { device, inode };
        let opened = |inode| Message {
            kind: kind(Kind::Create),
            open: inode,
            inode,
            device: 5,
            base: 1,
            ..Message::default()
        };
        let unlink = |base, text| Message {
            kind: kind(Kind::Unlink),
            inode: 77,
            device: 9,
            size: 3,
            base,
            text,
            ..Message::default()
        };
        let got = events(
            &mut translator,
            &[
                directory(1, b"d\0", 5),
                Message { text: b"a", ..opened(6) },
                unlink(1, b"a\0"),
                unlink(1, b"b\0"),
                unlink(0, b"/e/c\0"),
            ],
        );
        let path = |path: &str| path.to_owned();
        assert_eq!(
            got,
            [
                (path("/d/a"), id(5, 6), 0),
                (path("/d/a"), id(5, 6), 3),
                (path("/d/b"), id(5, 77), 3),
                (path("/e/c"), id(9, 77), 3),
            ]
        );
    }

    /// Promise: names begin in their directory or at their root, go through symbolic links, and are
    /// unknown where the directory is.
    #[test]
    fn names() {
        let mut translator = translator();
        events(
            &mut translator,
            &[directory(1, b"x\0d\0", 5), directory(2, b"jail\0", 5), directory(3, b"", 5)],
        );
        for (base, text, path) in [
            (1, "a", "/d/x/a"),
            (1, "", "/d/x"),
            (1, ".", "/d/x"),
            (1, "./", "/d/x"),
            (1, "..", "/d"),
            (1, "../..", "/"),
            (1, "y/./a..", "/d/x/y/a.."),
            (1, "../l/a", "/d/l/a"),
            (0, "/l/a", "/d/a"),
            (0, "/l/../a/", "/d/../a"), // as this `look` has it
            (0, "/", "/"),
            (0, "/a/..", "/"),
            (2, "/a", "/jail/a"),
            (2, "/", "/jail"),
            (3, "a", "/a"),
            (7, "a", ""),
            (7, "/a", ""),
            (0, "a", ""),
        ] {
            assert_eq!(&*translator.name(base, text.as_bytes()), path, "{base} {text}");
        }
    }
}
