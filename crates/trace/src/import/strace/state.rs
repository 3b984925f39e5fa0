//! The state while a log is read: processes, descriptors, open files.
//!
//! Invariants: `descriptors` of an open file is the number of slots that refer to it; `tasks` of a
//! table is the number of tasks that use it; both are dropped at 0, with the events of their end.

use super::files::{Files, Number};
use super::mappings::Mappings;
use super::syntax::{Label, descriptor};
use crate::fold::Run;
use crate::{Batch, Event, FileId, Flags, Kind};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A process or thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Task {
    /// The process of a thread.
    pub(super) process: u32,
    pub(super) table: u32,
    pub(super) directory: Option<Arc<str>>,
    pub(super) command: Arc<str>,
    pub(super) user: u32,
    /// The first part of an unfinished call.
    pending: Option<String>,
}

/// A table of descriptors.
#[derive(Clone, Debug, Default)]
struct Table {
    tasks: u32,
    slots: BTreeMap<i32, Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Number of the open; 0 for anything but a file.
    open: u64,
    close_on_exec: bool,
}

/// An open file.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) file: Number,
    pub(super) path: Arc<str>,
    pub(super) flags: Flags,
    /// Each write is a sync, too (`O_SYNC`, `O_DSYNC`).
    pub(super) is_synced: bool,
    /// The run at the file's position, and the run of positional accesses.
    pub(super) run: Run,
    pub(super) positional: Run,
    descriptors: u32,
    /// Batch and index of the event of the open, while its size may still be corrected.
    event: Option<(u64, usize)>,
}

/// The origin of an event: time, process, user and program.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) time: i64,
    process: u32,
    user: u32,
    command: Arc<str>,
}

/// Numbers of things that the log did not show.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) unknown_descriptors: u64,
    pub(super) asynchronous_calls: u64,
    pub(super) assumed_new: u64,
    pub(super) relative: u64,
}

/// The whole state.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: Files,
    pub(super) counts: Counts,
    pub(super) mappings: Mappings,
    tasks: HashMap<u32, Task>,
    /// Children that were seen before the call that made them returned. They may have ended by
    /// then.
    early: HashSet<u32>,
    tables: HashMap<u32, Table>,
    opens: HashMap<u64, Open>,
    last_table: u32,
    last_open: u64,
    batch: u64,
}

impl State {
    /// Records that the events so far were taken.
    pub(super) fn batch_taken(&mut self) {
        self.batch += 1;
    }

    pub(super) fn begin(&mut self, process: u32, head: &str) {
        self.task(process).pending = Some(head.to_owned());
    }

    pub(super) fn resume(&mut self, process: u32) -> Option<String> {
        self.tasks.get_mut(&process)?.pending.take()
    }

    /// Returns a task. If it is new, its parent is a task that is just creating a child, if there
    /// is one.
    pub(super) fn task(&mut self, process: u32) -> &mut Task {
        if !self.tasks.contains_key(&process) {
            let forks = |head: &str| ["clone", "fork", "vfork"].iter().any(|name| head.starts_with(name));
            let parents = self.tasks.iter().filter(|(_, task)| task.pending.as_deref().is_some_and(forks));
            // If there are several, choose the one with the nearest lower number.
            let parent =
                parents.map(|(&number, _)| number).min_by_key(|number| process.wrapping_sub(*number));
            if let Some(parent) = parent {
                let how = self.tasks[&parent].pending.clone().unwrap_or_default();
                self.fork(parent, process, &how);
                self.early.insert(process);
            } else {
                let table = self.new_table(Table { tasks: 1, slots: BTreeMap::new() });
                self.tasks.insert(process, Task { process, table, ..Task::default() });
            }
        }
        self.tasks.get_mut(&process).expect("the task was just added")
    }

    fn new_table(&mut self, table: Table) -> u32 {
        self.last_table += 1;
        self.tables.insert(self.last_table, table);
        self.last_table
    }

    /// Adds a child of `parent` made by the call text `how`, unless it is known.
    pub(super) fn fork(&mut self, parent: u32, child: u32, how: &str) {
        if self.early.remove(&child) || self.tasks.contains_key(&child) || child == parent {
            return;
        }
        let mut task = Task { pending: None, ..self.task(parent).clone() };
        if !how.contains("CLONE_THREAD") {
            let parent = task.process;
            task.process = child;
            self.mappings.copy(parent, child);
        }
        if how.contains("CLONE_FILES") {
            self.tables.entry(task.table).or_default().tasks += 1;
        } else {
            let copy = Table { tasks: 1, ..self.tables.get(&task.table).cloned().unwrap_or_default() };
            for slot in copy.slots.values() {
                if let Some(open) = self.opens.get_mut(&slot.open) {
                    open.descriptors += 1;
                }
            }
            task.table = self.new_table(copy);
        }
        self.tasks.insert(child, task);
    }

    pub(super) fn origin(&mut self, process: u32, time: i64) -> Origin {
        let task = self.task(process);
        Origin { time, process: task.process, user: task.user, command: Arc::clone(&task.command) }
    }

    /// Removes a task, and with the last task of a table its descriptors.
    pub(super) fn exit(&mut self, process: u32, time: i64, out: &mut Batch) {
        if !self.tasks.contains_key(&process) {
            return;
        }
        let origin = self.origin(process, time);
        let table = self.tasks.remove(&process).map_or(0, |task| task.table);
        // A thread has no mappings of its own.
        self.mappings.forget(process);
        self.leave(table, &origin, out);
    }

    fn leave(&mut self, table: u32, origin: &Origin, out: &mut Batch) {
        let Some(left) = self.tables.get_mut(&table) else { return };
        left.tasks = left.tasks.saturating_sub(1);
        if left.tasks == 0 {
            let slots = self.tables.remove(&table).map(|table| table.slots).unwrap_or_default();
            for slot in slots.into_values() {
                self.release(slot.open, Flags::IMPLICIT, origin, out);
            }
        }
    }

    /// Removes all threads of a process.
    pub(super) fn exit_process(&mut self, process: u32, time: i64, out: &mut Batch) {
        let group = self.task(process).process;
        let mut all: Vec<_> =
            self.tasks.iter().filter(|(_, task)| task.process == group).map(|(&number, _)| number).collect();
        all.sort_unstable();
        for one in all {
            self.exit(one, time, out);
        }
    }

    /// Processes an `exec`: the task gets a table of its own, without the descriptors that are
    /// closed on exec.
    pub(super) fn exec(&mut self, process: u32, command: &str, origin: &Origin, out: &mut Batch) {
        let task = self.task(process).clone();
        self.mappings.forget(task.process);
        let slots = self.tables.get(&task.table).map(|table| table.slots.clone()).unwrap_or_default();
        for slot in slots.values() {
            if let Some(open) = self.opens.get_mut(&slot.open) {
                open.descriptors += 1;
            }
        }
        self.leave(task.table, origin, out);
        let (gone, slots): (BTreeMap<_, _>, _) = slots.into_iter().partition(|(_, slot)| slot.close_on_exec);
        for slot in gone.into_values() {
            self.release(slot.open, Flags::IMPLICIT, origin, out);
        }
        let table = self.new_table(Table { tasks: 1, slots });
        let task = self.task(process);
        task.table = table;
        task.command = command.into();
    }

    /// Assigns an open file, or 0 for something else, to a descriptor; closes what was there.
    pub(super) fn install(
        &mut self,
        process: u32,
        fd: i32,
        open: u64,
        close_on_exec: bool,
        origin: &Origin,
        out: &mut Batch,
    ) {
        if let Some(open) = self.opens.get_mut(&open) {
            open.descriptors += 1;
        }
        let table = self.task(process).table;
        let slots = &mut self.tables.entry(table).or_default().slots;
        if let Some(before) = slots.insert(fd, Slot { open, close_on_exec }) {
            self.release(before.open, Flags::IMPLICIT, origin, out);
        }
    }

    /// Closes the descriptors from `first` to `last`.
    pub(super) fn close(&mut self, process: u32, first: i32, last: i32, origin: &Origin, out: &mut Batch) {
        let table = self.task(process).table;
        let slots = &mut self.tables.entry(table).or_default().slots;
        let closed: Vec<_> = slots.range(first..=last.max(first)).map(|(&fd, &slot)| (fd, slot)).collect();
        for (fd, _) in &closed {
            slots.remove(fd);
        }
        for (_, slot) in closed {
            self.release(slot.open, Flags::NONE, origin, out);
        }
    }

    /// Sets whether descriptors are closed by `exec`.
    pub(super) fn set_close_on_exec(&mut self, process: u32, first: i32, last: i32, close_on_exec: bool) {
        let table = self.task(process).table;
        let slots = &mut self.tables.entry(table).or_default().slots;
        for slot in slots.range_mut(first..=last.max(first)).map(|(_, slot)| slot) {
            slot.close_on_exec = close_on_exec;
        }
    }

    /// Returns the open file of an argument; if its open was not seen, records one now.
    pub(super) fn open_of(
        &mut self,
        process: u32,
        arg: &str,
        origin: &Origin,
        out: &mut Batch,
    ) -> Option<u64> {
        let (fd, label) = descriptor(arg)?;
        let fd = fd?;
        let table = self.task(process).table;
        let slot = self.tables.get(&table).and_then(|table| table.slots.get(&fd)).copied();
        match (slot, label) {
            (_, Label::Other) => None,
            (Some(slot), _) => (slot.open != 0).then_some(slot.open),
            (None, Label::Unknown) => {
                self.counts.unknown_descriptors += u64::from(fd > 2);
                None
            }
            (None, Label::File(path)) if is_device(&path) => None,
            (None, Label::File(path)) => {
                let file = self.files.named(&path).0;
                Some(self.open_before(process, fd, file, &path, origin, out))
            }
            (None, Label::Deleted(path)) => {
                let file = self.files.unnamed();
                Some(self.open_before(process, fd, file, &path, origin, out))
            }
        }
    }

    fn open_before(
        &mut self,
        process: u32,
        fd: i32,
        file: Number,
        path: &str,
        origin: &Origin,
        out: &mut Batch,
    ) -> u64 {
        let open = self.open(Kind::Open, file, path, Flags::BEFORE, origin, out);
        self.install(process, fd, open, false, origin, out);
        open
    }

    /// Opens a file and adds the event.
    pub(super) fn open(
        &mut self,
        kind: Kind,
        file: Number,
        path: &str,
        flags: Flags,
        origin: &Origin,
        out: &mut Batch,
    ) -> u64 {
        self.last_open += 1;
        let number = self.last_open;
        let size = self.files.get(file).size;
        self.files.get(file).opens += 1;
        let kept = Flags(flags.0 & !(Flags::TRUNCATED | Flags::BEFORE | Flags::UNNAMED).0);
        let event = Some((self.batch, out.events.len()));
        let path: Arc<str> = path.into();
        emit(file, &path, origin, out, |all| Event { kind, flags, open: number, size, ..all });
        let open = Open {
            file,
            path,
            flags: kept,
            is_synced: false,
            run: Run::default(),
            positional: Run::default(),
            descriptors: 0,
            event,
        };
        self.opens.insert(number, open);
        number
    }

    pub(super) fn get(&mut self, open: u64) -> Option<&mut Open> {
        self.opens.get_mut(&open)
    }

    /// Sets the size that an `fstat` showed. Corrects the event of the open if nothing has happened
    /// to the file since.
    pub(super) fn learn_size(&mut self, open: u64, size: u64, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        let event = found.event.take().filter(|(batch, _)| *batch == self.batch);
        if let Some(event) = event.and_then(|(_, at)| out.events.get_mut(at)) {
            if !event.flags.has(Flags::TRUNCATED) {
                event.size = size;
            }
            if event.kind == Kind::Create && size > 0 {
                event.kind = Kind::Open;
                self.counts.assumed_new = self.counts.assumed_new.saturating_sub(1);
            }
        }
        let file = found.file;
        let known = self.files.get(file);
        (known.size, known.exact) = (size, true);
    }

    /// Processes a transfer through an open file, at `position` or at the file's own position.
    pub(super) fn transfer(
        &mut self,
        open: u64,
        position: Option<u64>,
        bytes: u64,
        writes: bool,
        origin: &Origin,
        out: &mut Batch,
    ) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        if writes {
            found.event = None;
        }
        let known = self.files.get(found.file);
        let at = match position {
            Some(at) => at,
            None if writes && found.flags.has(Flags::APPEND) && known.exact => known.size,
            None => found.run.end(),
        };
        let (run, positional) = match position {
            Some(_) => (&mut found.positional, Flags::POSITIONAL),
            None => (&mut found.run, Flags::NONE),
        };
        let ended = run.add(at, bytes, writes);
        let end = at.saturating_add(bytes);
        if writes && bytes > 0 {
            known.size = known.size.max(end);
        } else if !known.exact {
            known.size = known.size.max(if bytes > 0 { end } else { 0 });
        }
        let Some(ended) = ended else { return };
        let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags | positional);
        emit(file, &path, origin, out, |all| ended.fill_into(Event { kind: Kind::Run, flags, open, ..all }));
    }

    /// Moves the position of an open file.
    pub(super) fn seek(&mut self, open: u64, to: u64, origin: &Origin, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        if found.run.end() == to {
            return;
        }
        let ended = std::mem::replace(&mut found.run, Run::at(to));
        let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags);
        let flags = Flags(flags.0 & !Flags::DIRECT.0);
        emit(file, &path, origin, out, |all| {
            ended.fill_into(Event { kind: Kind::Seek, flags, open, new_position: to, ..all })
        });
    }

    /// Removes a descriptor of an open file; the last one closes it.
    fn release(&mut self, open: u64, how: Flags, origin: &Origin, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        found.descriptors = found.descriptors.saturating_sub(1);
        if found.descriptors > 0 {
            return;
        }
        self.flush_positional(open, origin, out);
        let Some(mut gone) = self.opens.remove(&open) else { return };
        let known = self.files.get(gone.file);
        known.opens = known.opens.saturating_sub(1);
        let (size, dead) = (known.size, known.names == 0 && known.opens == 0);
        let mut flags = Flags(gone.flags.0 & !Flags::DIRECT.0) | how;
        if dead {
            flags |= Flags::LAST;
        }
        let ended = gone.run.take();
        emit(gone.file, &gone.path, origin, out, |all| {
            ended.fill_into(Event { kind: Kind::Close, flags, open, size, ..all })
        });
        self.files.drop_if_unused(gone.file);
    }

    fn flush_positional(&mut self, open: u64, origin: &Origin, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        if found.positional.is_empty() {
            return;
        }
        let ended = found.positional.take();
        let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags | Flags::POSITIONAL);
        emit(file, &path, origin, out, |all| ended.fill_into(Event { kind: Kind::Run, flags, open, ..all }));
    }

    /// Ends the log: adds the runs of files that are still open.
    pub(super) fn end(&mut self, time: i64, out: &mut Batch) {
        let origin = Origin { time, process: 0, user: 0, command: "".into() };
        self.end_all_runs(&origin, out);
    }

    /// Ends the runs of all open files.
    pub(super) fn end_all_runs(&mut self, origin: &Origin, out: &mut Batch) {
        let mut open: Vec<_> = self.opens.keys().copied().collect();
        open.sort_unstable();
        for open in open {
            self.end_runs(open, origin, out);
        }
    }

    /// Ends the runs of an open file, so that a sync or a truncation stands between what came
    /// before it and what comes after it.
    pub(super) fn end_runs(&mut self, open: u64, origin: &Origin, out: &mut Batch) {
        self.flush_positional(open, origin, out);
        let Some(found) = self.opens.get_mut(&open).filter(|found| !found.run.is_empty()) else { return };
        let ended = found.run.take();
        let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags);
        emit(file, &path, origin, out, |all| ended.fill_into(Event { kind: Kind::Run, flags, open, ..all }));
    }

    /// Returns notes about what the log did not show.
    pub(super) fn notes(&self) -> Vec<String> {
        let Counts { unknown_descriptors, asynchronous_calls, assumed_new, relative } = self.counts;
        [
            (
                unknown_descriptors,
                "calls on descriptors whose open was not seen are left out (strace -y shows their files)",
            ),
            (
                asynchronous_calls,
                "calls of asynchronous I/O are left out, because strace does not show their transfers",
            ),
            (assumed_new, "files opened with O_CREAT count as new, because they were unknown"),
            (relative, "names are relative to an unknown directory (strace -y shows it)"),
        ]
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}

/// Adds an event of a file; `complete` fills in what its kind needs.
pub(super) fn emit(
    file: Number,
    path: &str,
    origin: &Origin,
    out: &mut Batch,
    complete: impl FnOnce(Event) -> Event,
) {
    let all = Event {
        time: origin.time,
        file: FileId { device: 0, inode: file },
        user: origin.user,
        process: origin.process,
        command: out.names.symbol(&origin.command),
        path: out.names.symbol(path),
        ..Event::default()
    };
    out.events.push(complete(all));
}

/// Returns true for names of devices.
pub(super) fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && !path.starts_with("/dev/shm/")
}
