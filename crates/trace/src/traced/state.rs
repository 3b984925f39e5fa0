//! The state of a recorded mount: open files and names.

use crate::fold::Run;
use crate::{Batch, Event, FileId, Flags, Kind};
use spindle_vfs::{Action, Attr, Caller, FileKind, Ino};
use std::collections::HashMap;

/// Maximum depth of a path, in case names form a cycle.
const DEPTH: usize = 4096;

/// An open file.
struct Open {
    ino: Ino,
    flags: Flags,
    by: Caller,
    command: Box<str>,
    run: Run,
}

/// Open files and names.
pub(super) struct State {
    mounted: String,
    root: Ino,
    opens: HashMap<u64, Open>,
    /// Number of opens of each file.
    users: HashMap<Ino, u32>,
    names: HashMap<Ino, (Ino, Box<str>)>,
}

impl State {
    pub(super) fn new((mounted, root): (&str, Ino)) -> Self {
        let mounted = mounted.trim_end_matches('/').to_owned();
        Self { mounted, root, opens: HashMap::new(), users: HashMap::new(), names: HashMap::new() }
    }

    /// Adds the events of an action.
    pub(super) fn observe(&mut self, time: i64, by: Caller, action: &Action<'_>, out: &mut Batch) {
        match *action {
            Action::Named { dir, name, ino } => self.name(dir, name, ino),
            Action::Forgotten(ino) => {
                if !self.users.contains_key(&ino) {
                    self.names.remove(&ino);
                }
            }
            Action::Opened { handle, attr, flags, created } => {
                let mut mode = Flags::NONE;
                for (set, flag) in
                    [(flags.read, Flags::READ), (flags.write, Flags::WRITE), (flags.append, Flags::APPEND)]
                {
                    if set {
                        mode |= flag;
                    }
                }
                let kind = if created { Kind::Create } else { Kind::Open };
                let command = command(by.process);
                let event = self.event(time, by, &command, attr.ino, out);
                out.events.push(Event { kind, flags: mode, open: handle, size: attr.size, ..event });
                *self.users.entry(attr.ino).or_default() += 1;
                let open =
                    Open { ino: attr.ino, flags: mode, by, command: command.into(), run: Run::default() };
                self.opens.insert(handle, open);
            }
            Action::Read { handle, ino, offset, bytes } => {
                self.transfer(time, by, handle, ino, offset, bytes, false, out);
            }
            Action::Written { handle, ino, offset, bytes } => {
                self.transfer(time, by, handle, ino, offset, bytes, true, out);
            }
            Action::Closed { handle, attr } => self.close(time, handle, attr, out),
            Action::Resized(ino, size) => {
                self.end_runs(time, ino, out);
                self.emit(time, by, ino, out, |event| Event { kind: Kind::Truncate, size, ..event });
            }
            Action::Synced { handle, ino } => {
                self.end_runs(time, ino, out);
                self.emit(time, by, ino, out, |event| Event { kind: Kind::Sync, open: handle, ..event });
            }
            Action::MadeDirectory(ino) => self.emit(time, by, ino, out, |event| Event {
                kind: Kind::Mkdir,
                flags: Flags::DIRECTORY,
                ..event
            }),
            Action::Removed { dir, name, attr } => self.remove(time, by, (dir, name), attr, Flags::NONE, out),
            Action::Renamed { from_dir, from, to_dir, to, attr, replaced, exchanged } => {
                if let Some(replaced) = replaced.filter(|_| !exchanged) {
                    if replaced.ino == attr.ino {
                        return; // Renaming one name of a file to another does nothing.
                    }
                    self.remove(time, by, (to_dir, to), replaced, Flags::REPLACED, out);
                }
                self.rename(time, by, attr.ino, (from_dir, from), (to_dir, to), out);
                if let Some(other) = replaced.filter(|_| exchanged) {
                    self.rename(time, by, other.ino, (to_dir, to), (from_dir, from), out);
                }
            }
        }
    }

    fn name(&mut self, dir: Ino, name: &[u8], ino: Ino) {
        if !matches!(name, b"." | b"..") {
            self.names.insert(ino, (dir, String::from_utf8_lossy(name).into()));
        }
    }

    /// Returns the absolute path of a file; empty if unknown.
    fn path(&self, ino: Ino) -> String {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != self.root {
            let Some((dir, name)) = self.names.get(&at).filter(|_| parts.len() < DEPTH) else {
                return String::new();
            };
            parts.push(&**name);
            at = *dir;
        }
        parts.reverse();
        format!("{}/{}", self.mounted, parts.join("/"))
    }

    fn path_in(&self, dir: Ino, name: &[u8]) -> String {
        match self.path(dir) {
            unknown if unknown.is_empty() => unknown,
            dir => format!("{}/{}", dir.trim_end_matches('/'), String::from_utf8_lossy(name)),
        }
    }

    /// Returns the fields that all events of a file have.
    fn event(&self, time: i64, by: Caller, command: &str, ino: Ino, out: &mut Batch) -> Event {
        Event {
            time,
            file: FileId { device: 0, inode: ino.0 },
            user: by.user,
            process: by.process,
            command: out.names.symbol(command),
            path: out.names.symbol(&self.path(ino)),
            ..Event::default()
        }
    }

    fn emit(&self, time: i64, by: Caller, ino: Ino, out: &mut Batch, complete: impl FnOnce(Event) -> Event) {
        let event = self.event(time, by, &command(by.process), ino, out);
        out.events.push(complete(event));
    }

    #[allow(clippy::too_many_arguments)] // The fields of an action, and its time.
    fn transfer(
        &mut self,
        time: i64,
        by: Caller,
        handle: u64,
        ino: Ino,
        offset: u64,
        bytes: u64,
        writes: bool,
        out: &mut Batch,
    ) {
        let Some(open) = self.opens.get_mut(&handle) else {
            // Perhaps late pages of a mapping; they belong to no open file.
            let mut run = Run::default();
            run.add(offset, bytes, writes);
            return self.emit(time, by, ino, out, |event| run.fill_into(Event { kind: Kind::Run, ..event }));
        };
        let jumps = bytes > 0 && open.run.end() != offset;
        let ended = if jumps {
            Some((Kind::Seek, offset, std::mem::replace(&mut open.run, Run::at(offset))))
        } else {
            None
        };
        let turned = open.run.add(offset, bytes, writes).map(|run| (Kind::Run, 0, run));
        let (by, flags) = (open.by, open.flags);
        for (kind, new_position, run) in ended.into_iter().chain(turned) {
            let command = self.opens.get(&handle).map_or("", |open| &*open.command).to_owned();
            let event = self.event(time, by, &command, ino, out);
            out.events.push(run.fill_into(Event { kind, flags, open: handle, new_position, ..event }));
        }
    }

    fn close(&mut self, time: i64, handle: u64, attr: Option<&Attr>, out: &mut Batch) {
        let Some(mut open) = self.opens.remove(&handle) else { return };
        let users = self.users.entry(open.ino).or_default();
        *users = users.saturating_sub(1);
        let unused = *users == 0;
        let mut flags = open.flags;
        if unused && attr.is_some_and(|attr| attr.nlink == 0) {
            flags |= Flags::LAST;
        }
        let run = open.run.take();
        let size = attr.map_or(0, |attr| attr.size);
        let event = self.event(time, open.by, &open.command, open.ino, out);
        out.events.push(run.fill_into(Event { kind: Kind::Close, flags, open: handle, size, ..event }));
        if unused {
            self.users.remove(&open.ino);
        }
    }

    fn remove(&mut self, time: i64, by: Caller, at: (Ino, &[u8]), attr: &Attr, how: Flags, out: &mut Batch) {
        let path = self.path_in(at.0, at.1);
        let directory = attr.kind == FileKind::Directory;
        let (kind, flags, size) = match directory {
            true => (Kind::Rmdir, how | Flags::DIRECTORY, 0),
            false if attr.nlink <= 1 => (Kind::Unlink, how | Flags::LAST, attr.size),
            false => (Kind::Unlink, how, attr.size),
        };
        let path = out.names.symbol(&path);
        if matches!(attr.kind, FileKind::Directory | FileKind::Regular) {
            self.emit(time, by, attr.ino, out, |event| Event { kind, flags, size, path, ..event });
        }
    }

    fn rename(
        &mut self,
        time: i64,
        by: Caller,
        ino: Ino,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        out: &mut Batch,
    ) {
        let (path, new_path) = (self.path_in(from.0, from.1), self.path_in(to.0, to.1));
        let (path, new_path) = (out.names.symbol(&path), out.names.symbol(&new_path));
        self.emit(time, by, ino, out, |event| Event { kind: Kind::Rename, path, new_path, ..event });
        self.name(to.0, to.1, ino);
    }

    /// Ends the recording: adds the runs of files that are still open.
    pub(super) fn end(&mut self, time: i64, out: &mut Batch) {
        self.end_runs_if(time, |_| true, out);
        self.opens.clear();
    }

    /// Ends the runs of a file, by whatever open, so that a sync or a truncation stands between
    /// what came before it and what comes after it.
    fn end_runs(&mut self, time: i64, ino: Ino, out: &mut Batch) {
        self.end_runs_if(time, |open| open.ino == ino, out);
    }

    fn end_runs_if(&mut self, time: i64, wanted: impl Fn(&Open) -> bool, out: &mut Batch) {
        let chosen = self.opens.iter_mut().filter(|(_, open)| !open.run.is_empty() && wanted(open));
        let mut ended: Vec<_> = chosen
            .map(|(&handle, open)| {
                (handle, open.run.take(), open.ino, open.flags, open.by, open.command.clone())
            })
            .collect();
        ended.sort_unstable_by_key(|&(handle, ..)| handle);
        for (handle, run, ino, flags, by, command) in ended {
            let event = self.event(time, by, &command, ino, out);
            out.events.push(run.fill_into(Event { kind: Kind::Run, flags, open: handle, ..event }));
        }
    }
}

/// Returns the system's name of a process's program; empty if unknown.
fn command(process: u32) -> String {
    match process {
        0 => String::new(),
        _ => std::fs::read(format!("/proc/{process}/comm"))
            .map(|name| String::from_utf8_lossy(&name).trim_end().to_owned())
            .unwrap_or_default(),
    }
}
