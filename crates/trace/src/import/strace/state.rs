//! What is kept while a log is read: processes, descriptors, open files.
//!
//! Invariants: an open file has as many `descriptors` as there are slots with its number; a table
//! has as many `tasks` as name it; what has none is gone, and its end was told.

use super::files::{Files, Number};
use super::syntax::{Label, descriptor};
use crate::fold::Run;
use crate::{Batch, Event, FileId, Flags, Kind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A process or thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Task {
    /// The process that it is a thread of.
    pub(super) process: u32,
    pub(super) table: u32,
    pub(super) directory: Option<Arc<str>>,
    pub(super) command: Arc<str>,
    pub(super) user: u32,
    /// A call that was begun.
    pending: Option<String>,
}

/// Descriptors.
#[derive(Clone, Debug, Default)]
struct Table {
    tasks: u32,
    slots: BTreeMap<i32, Slot>,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// 0 for what is no file.
    open: u64,
    close_on_exec: bool,
}

/// An open file.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) file: Number,
    pub(super) path: Arc<str>,
    pub(super) flags: Flags,
    /// What goes through the file's position, and what has its own.
    pub(super) run: Run,
    pub(super) positional: Run,
    descriptors: u32,
    /// The batch and place of the event that told of the opening, while the size in it may be put
    /// right.
    told: Option<(u64, usize)>,
}

/// Who did something when.
#[derive(Clone, Debug)]
pub(super) struct Who {
    pub(super) time: i64,
    process: u32,
    user: u32,
    command: Arc<str>,
}

/// How often something was not to be had.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) unknown_descriptors: u64,
    pub(super) unseen_transfers: u64,
    pub(super) taken_for_new: u64,
    pub(super) relative: u64,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: Files,
    pub(super) counts: Counts,
    tasks: HashMap<u32, Task>,
    tables: HashMap<u32, Table>,
    opens: HashMap<u64, Open>,
    last_table: u32,
    last_open: u64,
    batch: u64,
}

impl State {
    /// The events so far were given away.
    pub(super) fn given(&mut self) {
        self.batch += 1;
    }

    pub(super) fn begin(&mut self, process: u32, head: &str) {
        self.task(process).pending = Some(head.to_owned());
    }

    pub(super) fn resume(&mut self, process: u32) -> Option<String> {
        self.tasks.get_mut(&process)?.pending.take()
    }

    /// Returns the task, which may be new: then its parent is one that is just making a child, if
    /// there is such.
    pub(super) fn task(&mut self, process: u32) -> &mut Task {
        if !self.tasks.contains_key(&process) {
            let forks = |head: &str| ["clone", "fork", "vfork"].iter().any(|name| head.starts_with(name));
            let parents = self.tasks.iter().filter(|(_, task)| task.pending.as_deref().is_some_and(forks));
            // The one numbered just before, if there are several.
            let parent =
                parents.map(|(&number, _)| number).min_by_key(|number| process.wrapping_sub(*number));
            if let Some(parent) = parent {
                let how = self.tasks[&parent].pending.clone().unwrap_or_default();
                self.fork(parent, process, &how);
            } else {
                let table = self.new_table(Table { tasks: 1, slots: BTreeMap::new() });
                self.tasks.insert(process, Task { process, table, ..Task::default() });
            }
        }
        self.tasks.get_mut(&process).expect("it was just made")
    }

    fn new_table(&mut self, table: Table) -> u32 {
        self.last_table += 1;
        self.tables.insert(self.last_table, table);
        self.last_table
    }

    /// A child of `parent`, made by a call that says `how`, unless it has been met before.
    pub(super) fn fork(&mut self, parent: u32, child: u32, how: &str) {
        if self.tasks.contains_key(&child) || child == parent {
            return;
        }
        let mut task = Task { pending: None, ..self.task(parent).clone() };
        if !how.contains("CLONE_THREAD") {
            task.process = child;
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

    pub(super) fn who(&mut self, process: u32, time: i64) -> Who {
        let task = self.task(process);
        Who { time, process: task.process, user: task.user, command: Arc::clone(&task.command) }
    }

    /// A task is gone, and with the last of a table its descriptors.
    pub(super) fn exit(&mut self, process: u32, time: i64, out: &mut Batch) {
        if !self.tasks.contains_key(&process) {
            return;
        }
        let who = self.who(process, time);
        let table = self.tasks.remove(&process).map_or(0, |task| task.table);
        self.leave(table, &who, out);
    }

    fn leave(&mut self, table: u32, who: &Who, out: &mut Batch) {
        let Some(left) = self.tables.get_mut(&table) else { return };
        left.tasks = left.tasks.saturating_sub(1);
        if left.tasks == 0 {
            let slots = self.tables.remove(&table).map(|table| table.slots).unwrap_or_default();
            for slot in slots.into_values() {
                self.release(slot.open, Flags::IMPLICIT, who, out);
            }
        }
    }

    /// The whole process is gone, all threads of it.
    pub(super) fn exit_process(&mut self, process: u32, time: i64, out: &mut Batch) {
        let group = self.task(process).process;
        let mut all: Vec<_> =
            self.tasks.iter().filter(|(_, task)| task.process == group).map(|(&number, _)| number).collect();
        all.sort_unstable();
        for one in all {
            self.exit(one, time, out);
        }
    }

    /// Another program: the task stands alone, with a table of its own from which some descriptors
    /// go.
    pub(super) fn exec(&mut self, process: u32, command: &str, who: &Who, out: &mut Batch) {
        let task = self.task(process).clone();
        let slots = self.tables.get(&task.table).map(|table| table.slots.clone()).unwrap_or_default();
        for slot in slots.values() {
            if let Some(open) = self.opens.get_mut(&slot.open) {
                open.descriptors += 1;
            }
        }
        self.leave(task.table, who, out);
        let (gone, slots): (BTreeMap<_, _>, _) = slots.into_iter().partition(|(_, slot)| slot.close_on_exec);
        for slot in gone.into_values() {
            self.release(slot.open, Flags::IMPLICIT, who, out);
        }
        let table = self.new_table(Table { tasks: 1, slots });
        let task = self.task(process);
        task.table = table;
        task.command = command.into();
    }

    /// Puts an open file, or 0 for something else, under a descriptor; what was there is closed.
    pub(super) fn install(
        &mut self,
        process: u32,
        fd: i32,
        open: u64,
        close_on_exec: bool,
        who: &Who,
        out: &mut Batch,
    ) {
        if let Some(open) = self.opens.get_mut(&open) {
            open.descriptors += 1;
        }
        let table = self.task(process).table;
        let slots = &mut self.tables.entry(table).or_default().slots;
        if let Some(before) = slots.insert(fd, Slot { open, close_on_exec }) {
            self.release(before.open, Flags::IMPLICIT, who, out);
        }
    }

    /// Closes the descriptors from `first` to `last`.
    pub(super) fn close(&mut self, process: u32, first: i32, last: i32, who: &Who, out: &mut Batch) {
        let table = self.task(process).table;
        let slots = &mut self.tables.entry(table).or_default().slots;
        let closed: Vec<_> = slots.range(first..=last.max(first)).map(|(&fd, &slot)| (fd, slot)).collect();
        for (fd, _) in &closed {
            slots.remove(fd);
        }
        for (_, slot) in closed {
            self.release(slot.open, Flags::NONE, who, out);
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

    /// Returns the open file behind an argument; one that nobody saw being opened is told of now.
    pub(super) fn open_of(&mut self, process: u32, arg: &str, who: &Who, out: &mut Batch) -> Option<u64> {
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
                Some(self.open_before(process, fd, file, &path, who, out))
            }
            (None, Label::Deleted(path)) => {
                let file = self.files.nameless();
                Some(self.open_before(process, fd, file, &path, who, out))
            }
        }
    }

    fn open_before(
        &mut self,
        process: u32,
        fd: i32,
        file: Number,
        path: &str,
        who: &Who,
        out: &mut Batch,
    ) -> u64 {
        let open = self.open(Kind::Open, file, path, Flags::BEFORE, who, out);
        self.install(process, fd, open, false, who, out);
        open
    }

    /// Opens a file, and tells.
    pub(super) fn open(
        &mut self,
        kind: Kind,
        file: Number,
        path: &str,
        flags: Flags,
        who: &Who,
        out: &mut Batch,
    ) -> u64 {
        self.last_open += 1;
        let number = self.last_open;
        let size = self.files.get(file).size;
        self.files.get(file).opens += 1;
        let kept = Flags(flags.0 & !(Flags::TRUNCATED | Flags::BEFORE | Flags::NAMELESS).0);
        let told = Some((self.batch, out.events.len()));
        let path: Arc<str> = path.into();
        tell(file, &path, who, out, |all| Event { kind, flags, open: number, size, ..all });
        let open = Open {
            file,
            path,
            flags: kept,
            run: Run::default(),
            positional: Run::default(),
            descriptors: 0,
            told,
        };
        self.opens.insert(number, open);
        number
    }

    pub(super) fn get(&mut self, open: u64) -> Option<&mut Open> {
        self.opens.get_mut(&open)
    }

    /// An `fstat` showed the size. What was told of the opening is put right if nothing has
    /// happened to the file since.
    pub(super) fn learn_size(&mut self, open: u64, size: u64, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        let told = found.told.take().filter(|(batch, _)| *batch == self.batch);
        if let Some(event) = told.and_then(|(_, at)| out.events.get_mut(at)) {
            if !event.flags.has(Flags::TRUNCATED) {
                event.size = size;
            }
            if event.kind == Kind::Create && size > 0 {
                event.kind = Kind::Open;
                self.counts.taken_for_new = self.counts.taken_for_new.saturating_sub(1);
            }
        }
        let file = found.file;
        let known = self.files.get(file);
        (known.size, known.exact) = (size, true);
    }

    /// A transfer through an open file: at `position`, or where the file's position is.
    pub(super) fn transfer(
        &mut self,
        open: u64,
        position: Option<u64>,
        bytes: u64,
        writes: bool,
        who: &Who,
        out: &mut Batch,
    ) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        if writes {
            found.told = None;
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
        tell(file, &path, who, out, |all| ended.told(Event { kind: Kind::Run, flags, open, ..all }));
    }

    /// The position goes elsewhere.
    pub(super) fn seek(&mut self, open: u64, to: u64, who: &Who, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        if found.run.end() == to {
            return;
        }
        let ended = std::mem::replace(&mut found.run, Run::at(to));
        let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags);
        let flags = Flags(flags.0 & !Flags::DIRECT.0);
        tell(file, &path, who, out, |all| {
            ended.told(Event { kind: Kind::Seek, flags, open, new_position: to, ..all })
        });
    }

    /// A descriptor of an open file went; with the last one it is closed.
    fn release(&mut self, open: u64, how: Flags, who: &Who, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        found.descriptors = found.descriptors.saturating_sub(1);
        if found.descriptors > 0 {
            return;
        }
        self.flush_positional(open, who, out);
        let Some(mut gone) = self.opens.remove(&open) else { return };
        let known = self.files.get(gone.file);
        known.opens = known.opens.saturating_sub(1);
        let (size, dead) = (known.size, known.names == 0 && known.opens == 0);
        let mut flags = Flags(gone.flags.0 & !Flags::DIRECT.0) | how;
        if dead {
            flags |= Flags::LAST;
        }
        let ended = gone.run.take();
        tell(gone.file, &gone.path, who, out, |all| {
            ended.told(Event { kind: Kind::Close, flags, open, size, ..all })
        });
        self.files.settle(gone.file);
    }

    fn flush_positional(&mut self, open: u64, who: &Who, out: &mut Batch) {
        let Some(found) = self.opens.get_mut(&open) else { return };
        if found.positional.is_empty() {
            return;
        }
        let ended = found.positional.take();
        let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags | Flags::POSITIONAL);
        tell(file, &path, who, out, |all| ended.told(Event { kind: Kind::Run, flags, open, ..all }));
    }

    /// The log is over: what is still open stays so, but its bytes are told.
    pub(super) fn end(&mut self, time: i64, out: &mut Batch) {
        let mut open: Vec<_> = self.opens.keys().copied().collect();
        open.sort_unstable();
        let who = Who { time, process: 0, user: 0, command: "".into() };
        for open in open {
            self.flush_positional(open, &who, out);
            let Some(found) = self.opens.get_mut(&open).filter(|found| !found.run.is_empty()) else {
                continue;
            };
            let ended = found.run.take();
            let (file, path, flags) = (found.file, Arc::clone(&found.path), found.flags);
            tell(file, &path, &who, out, |all| ended.told(Event { kind: Kind::Run, flags, open, ..all }));
        }
    }

    /// Returns what is to be said of what was not to be had.
    pub(super) fn notes(&self) -> Vec<String> {
        let Counts { unknown_descriptors, unseen_transfers, taken_for_new, relative } = self.counts;
        [
            (unknown_descriptors, "calls on descriptors that nobody saw being opened are left out (strace -y tells what they are)"),
            (unseen_transfers, "calls of asynchronous I/O, whose transfers strace does not show"),
            (taken_for_new, "files opened with O_CREAT are taken for new, as nothing was known of them"),
            (relative, "names are relative to a directory that is not known (strace -y tells it)"),
        ]
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }
}

/// Adds an event of a file, completed from what all of them have.
pub(super) fn tell(
    file: Number,
    path: &str,
    who: &Who,
    out: &mut Batch,
    complete: impl FnOnce(Event) -> Event,
) {
    let all = Event {
        time: who.time,
        file: FileId { device: 0, inode: file },
        user: who.user,
        process: who.process,
        command: out.names.symbol(&who.command),
        path: out.names.symbol(path),
        ..Event::default()
    };
    out.events.push(complete(all));
}

/// Returns true for names that are of devices, as far as a name tells.
pub(super) fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && !path.starts_with("/dev/shm/")
}
