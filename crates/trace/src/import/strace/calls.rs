//! The effects of each call on the [`State`], and its events.
//!
//! Failed calls change nothing; those that only look at a file are recorded as failed. Calls that
//! are not listed here have no recorded effect on files.

use super::files::absolute;
use super::mappings::Mapping;
use super::state::{Origin, State, emit, is_device};
use super::syntax::{Call, Label, descriptor, field, integer, text};
use crate::{Batch, Event, Flags, Kind};
use std::sync::Arc;

/// Number of bytes of a program's name that the system keeps.
const COMMAND: usize = 15;

impl State {
    /// Processes a call that has returned.
    pub(super) fn call(&mut self, process: u32, time: i64, call: &Call<'_>, out: &mut Batch) {
        let origin = self.origin(process, time);
        let mut at = CallContext { state: self, process, origin: &origin, out };
        if call.name == "exit_group" {
            return at.state.exit_process(process, time, at.out);
        }
        if let Some((kind, named)) = looks(call) {
            at.look(kind, call, named);
        }
        if !call.succeeded() {
            return;
        }
        match call.name {
            "open" => at.open(call, None, 0, 1),
            "creat" => at.open_with(call, None, 0, "O_WRONLY|O_CREAT|O_TRUNC"),
            "openat" => at.open(call, Some(0), 1, 2),
            "openat2" => at.open_with(call, Some(0), 1, field(call.arg(2), "flags").unwrap_or("")),
            "close" => at.close(call),
            "close_range" => at.close_range(call),
            "dup" => at.duplicate(call, false),
            "dup2" | "dup3" if call.arg(0) != call.arg(1) => {
                at.duplicate(call, call.arg(2).contains("CLOEXEC"));
            }
            "fcntl" | "fcntl64" => at.fcntl(call),
            "read" | "readv" => at.transfer(call, 0, None, false),
            "write" | "writev" => at.transfer(call, 0, None, true),
            "pread64" | "pread" | "preadv" | "preadv2" => at.transfer(call, 0, Some(3), false),
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => at.transfer(call, 0, Some(3), true),
            "sendfile" | "sendfile64" => at.copy(call, (1, Some(2)), (0, None)),
            "copy_file_range" | "splice" => at.copy(call, (0, Some(1)), (2, Some(3))),
            "lseek" => at.seek(call),
            "mmap" | "mmap2" => at.map(call),
            "getdents" | "getdents64" => at.list(call),
            "fsync" | "fdatasync" => at.sync(call, 0),
            "sync_file_range" if call.arg(3).contains("SYNC_FILE_RANGE_WRITE") => at.sync(call, 0),
            "sync" | "syncfs" => at.sync_all(),
            "msync" if call.arg(2).contains("MS_SYNC") => at.sync_mapping(call),
            "munmap" => at.unmap(call),
            "ftruncate" | "ftruncate64" => at.cut_open(call, call.number(1)),
            "fallocate" if call.arg(1) == "0" => at.extend(call),
            "truncate" | "truncate64" => at.truncate(call),
            "unlink" => at.unlink(call, None, 0),
            "unlinkat" if call.arg(2).contains("AT_REMOVEDIR") => {
                at.directory_change(Kind::Rmdir, call, Some(0), 1);
            }
            "unlinkat" => at.unlink(call, Some(0), 1),
            "rmdir" => at.directory_change(Kind::Rmdir, call, None, 0),
            "mkdir" => at.directory_change(Kind::Mkdir, call, None, 0),
            "mkdirat" => at.directory_change(Kind::Mkdir, call, Some(0), 1),
            "rename" => at.rename(call, (None, 0), (None, 1)),
            "renameat" | "renameat2" => at.rename(call, (Some(0), 1), (Some(2), 3)),
            "link" => at.link(call, (None, 0), (None, 1)),
            "linkat" => at.link(call, (Some(0), 1), (Some(2), 3)),
            "execve" => at.exec(call, None, 0),
            "execveat" => at.exec(call, Some(0), 1),
            "clone" | "clone3" | "fork" | "vfork" => at.fork(call),
            "chdir" => at.change_directory(call),
            "fchdir" => at.change_to_open_directory(call),
            "chmod" => at.change(Kind::Chmod, call, (None, 0)),
            "fchmodat" | "fchmodat2" => at.change(Kind::Chmod, call, (Some(0), 1)),
            "fchmod" => at.change_open(Kind::Chmod, call, 0),
            "chown" | "lchown" => at.change(Kind::Chown, call, (None, 0)),
            "fchownat" => at.change(Kind::Chown, call, (Some(0), 1)),
            "fchown" => at.change_open(Kind::Chown, call, 0),
            "utime" | "utimes" => at.change(Kind::Utime, call, (None, 0)),
            "futimesat" | "utimensat" if call.arg(1) == "NULL" => at.change_open(Kind::Utime, call, 0),
            "futimesat" | "utimensat" => at.change(Kind::Utime, call, (Some(0), 1)),
            "symlink" => at.change(Kind::Symlink, call, (None, 1)),
            "symlinkat" => at.change(Kind::Symlink, call, (Some(1), 2)),
            "fstat" | "fstat64" => at.stat_open(call),
            "newfstatat" | "fstatat64" | "statx" if call.arg(1) == "\"\"" => at.stat_open(call),
            "getuid" | "geteuid" => {
                at.state.task(process).user = call.returned().unwrap_or(0).try_into().unwrap_or(0);
            }
            "setuid" => at.state.task(process).user = call.number(0).unwrap_or(0).try_into().unwrap_or(0),
            "io_submit" | "io_uring_enter" => at.state.counts.asynchronous_calls += 1,
            _ => {}
        }
    }
}

/// The arguments of a name: that of its directory, if any, and that of the name.
type Named = (Option<usize>, usize);

/// Returns the kind of a call that only looks at a file by its name, and where the name is.
fn looks(call: &Call<'_>) -> Option<(Kind, Named)> {
    Some(match call.name {
        "stat" | "stat64" | "lstat" | "lstat64" => (Kind::Stat, (None, 0)),
        "newfstatat" | "fstatat64" | "statx" if call.arg(1) != "\"\"" => (Kind::Stat, (Some(0), 1)),
        "access" => (Kind::Access, (None, 0)),
        "faccessat" | "faccessat2" => (Kind::Access, (Some(0), 1)),
        "readlink" => (Kind::Readlink, (None, 0)),
        "readlinkat" => (Kind::Readlink, (Some(0), 1)),
        _ => return None,
    })
}

/// Returns how bytes are moved, by the words for the flags of an open file.
fn ways(words: &str) -> Flags {
    let flag = |word, flag| if words.split('|').any(|one| one == word) { flag } else { Flags::NONE };
    flag("O_APPEND", Flags::APPEND) | flag("O_DIRECT", Flags::DIRECT)
}

/// The context of a call that is being processed.
struct CallContext<'a> {
    state: &'a mut State,
    process: u32,
    origin: &'a Origin,
    out: &'a mut Batch,
}

impl CallContext<'_> {
    /// Returns the name in an argument, absolute if possible.
    fn name(&mut self, call: &Call<'_>, (directory, name): Named) -> Option<String> {
        let name = text(call.arg(name))?;
        let base = match directory.map(|directory| descriptor(call.arg(directory))) {
            Some(Some((fd, Label::File(path) | Label::Deleted(path)))) => {
                if fd.is_none() {
                    self.state.task(self.process).directory = Some(path.as_str().into());
                }
                Some(path)
            }
            Some(Some((Some(fd), _))) => {
                let open = self.state.open_of(self.process, &fd.to_string(), self.origin, self.out);
                open.and_then(|open| self.state.get(open)).map(|open| open.path.to_string())
            }
            _ => self.state.task(self.process).directory.as_deref().map(str::to_owned),
        };
        let whole = absolute(base.as_deref(), &name);
        self.state.counts.relative += u64::from(!whole.starts_with('/'));
        Some(whole)
    }

    fn open_of(&mut self, arg: &str) -> Option<u64> {
        self.state.open_of(self.process, arg, self.origin, self.out)
    }

    /// Records the open of a file that was open before the trace and is mentioned only by its
    /// close.
    fn note_open(&mut self, arg: &str) {
        if arg.contains('<') {
            self.open_of(arg);
        }
    }

    fn open(&mut self, call: &Call<'_>, directory: Option<usize>, name: usize, flags: usize) {
        self.open_with(call, directory, name, call.arg(flags));
    }

    fn open_with(&mut self, call: &Call<'_>, directory: Option<usize>, name: usize, words: &str) {
        let Some((Some(fd), label)) = descriptor(call.result) else { return };
        let has = |word: &str| words.split('|').any(|one| one == word);
        let named = self.name(call, (directory, name));
        // The system's name of the file is better than the program's.
        let path = match (label, named) {
            (Label::Other, _) => None,
            (Label::File(path) | Label::Deleted(path), _) => Some(path),
            (Label::Unknown, named) => named,
        };
        let Some(path) = path.filter(|path| !is_device(path) && !has("O_PATH")) else {
            return self.state.install(self.process, fd, 0, has("O_CLOEXEC"), self.origin, self.out);
        };
        let mut flags = if has("O_RDWR") {
            Flags::READ | Flags::WRITE
        } else if has("O_WRONLY") {
            Flags::WRITE
        } else {
            Flags::READ
        };
        flags |= ways(words);
        if has("O_DIRECTORY") {
            flags |= Flags::DIRECTORY;
        }
        let is_synced = has("O_SYNC") || has("O_DSYNC");
        if has("O_TMPFILE") {
            let file = self.state.files.unnamed();
            self.state.files.get(file).exact = true;
            let flags = Flags(flags.0 & !Flags::DIRECTORY.0) | Flags::UNNAMED;
            let open = self.state.open(Kind::Create, file, &path, flags, self.origin, self.out);
            self.state.get(open).into_iter().for_each(|opened| opened.is_synced = is_synced);
            return self.state.install(self.process, fd, open, has("O_CLOEXEC"), self.origin, self.out);
        }
        let was_known = self.state.files.is_known(&path);
        let (file, _) = self.state.files.named(&path);
        let creates = has("O_CREAT") && (has("O_EXCL") || !was_known);
        if creates {
            self.state.counts.assumed_new += u64::from(!has("O_EXCL"));
            *self.state.files.get(file) =
                super::files::FileInfo { names: 1, exact: true, ..Default::default() };
        } else if has("O_TRUNC") {
            flags |= Flags::TRUNCATED;
        }
        let kind = if creates { Kind::Create } else { Kind::Open };
        let open = self.state.open(kind, file, &path, flags, self.origin, self.out);
        self.state.get(open).into_iter().for_each(|opened| opened.is_synced = is_synced);
        if has("O_TRUNC") {
            let known = self.state.files.get(file);
            (known.size, known.exact) = (0, true);
        }
        self.state.install(self.process, fd, open, has("O_CLOEXEC"), self.origin, self.out);
    }

    fn close(&mut self, call: &Call<'_>) {
        self.note_open(call.arg(0));
        if let Some((Some(fd), _)) = descriptor(call.arg(0)) {
            self.state.close(self.process, fd, fd, self.origin, self.out);
        }
    }

    fn close_range(&mut self, call: &Call<'_>) {
        let fd = |arg: usize| call.number(arg).map_or(i32::MAX, |fd| i32::try_from(fd).unwrap_or(i32::MAX));
        if call.arg(2).contains("CLOSE_RANGE_CLOEXEC") {
            self.state.set_close_on_exec(self.process, fd(0), fd(1), true);
        } else {
            self.state.close(self.process, fd(0), fd(1), self.origin, self.out);
        }
    }

    fn duplicate(&mut self, call: &Call<'_>, close_on_exec: bool) {
        let open = self.open_of(call.arg(0)).unwrap_or(0);
        if let Some((Some(fd), _)) = descriptor(call.result) {
            // The file under the new number is closed, even if its open was not seen.
            if call.name != "dup" && call.name != "fcntl" {
                self.note_open(call.arg(1));
            }
            self.state.install(self.process, fd, open, close_on_exec, self.origin, self.out);
        }
    }

    fn fcntl(&mut self, call: &Call<'_>) {
        match call.arg(1) {
            "F_DUPFD" => self.duplicate(call, false),
            "F_DUPFD_CLOEXEC" => self.duplicate(call, true),
            "F_SETFL" => {
                let open = self.open_of(call.arg(0));
                if let Some(found) = open.and_then(|open| self.state.get(open)) {
                    let kept = found.flags.0 & !(Flags::APPEND | Flags::DIRECT).0;
                    found.flags = Flags(kept) | ways(call.arg(2));
                }
            }
            "F_SETFD" => {
                if let Some((Some(fd), _)) = descriptor(call.arg(0)) {
                    let set = call.arg(2).contains("FD_CLOEXEC");
                    self.state.set_close_on_exec(self.process, fd, fd, set);
                }
            }
            _ => {}
        }
    }

    fn transfer(&mut self, call: &Call<'_>, fd: usize, position: Option<usize>, writes: bool) {
        let (Some(open), Some(bytes)) = (self.open_of(call.arg(fd)), call.transferred()) else { return };
        // `preadv2` uses -1 for the file's own position.
        let position = position.and_then(|position| call.number(position));
        self.state.transfer(open, position, bytes, writes, self.origin, self.out);
        let is_synced = self.state.get(open).is_some_and(|found| found.is_synced);
        let words = call.arg(4);
        if writes && bytes > 0 && (is_synced || words.contains("RWF_DSYNC") || words.contains("RWF_SYNC")) {
            self.sync(call, fd);
        }
        let asked = if call.name.contains('v') { None } else { call.number(2) };
        if !writes && asked.is_some_and(|asked| bytes < asked) {
            self.reached_end(open, position, bytes);
        }
    }

    /// Sets the size of a file after a read that returned less than it asked for.
    fn reached_end(&mut self, open: u64, position: Option<u64>, bytes: u64) {
        let Some(found) = self.state.get(open) else { return };
        let end = position.map_or(found.run.end(), |position| position.saturating_add(bytes));
        // A read that returned nothing may have begun beyond the end.
        let reached = bytes > 0 || (position.is_none() && !found.run.is_empty());
        let file = found.file;
        let known = self.state.files.get(file);
        if reached && !known.exact {
            (known.size, known.exact) = (known.size.max(end), true);
        }
    }

    /// Processes a copy from one file to another, each at an explicit position or the file's own.
    fn copy(&mut self, call: &Call<'_>, from: (usize, Option<usize>), to: (usize, Option<usize>)) {
        let Some(bytes) = call.transferred() else { return };
        for ((fd, position), writes) in [(from, false), (to, true)] {
            let position =
                position.and_then(|at| integer(call.arg(at).strip_prefix('[')?.split(']').next()?));
            if let Some(open) = self.open_of(call.arg(fd)) {
                self.state.transfer(open, position, bytes, writes, self.origin, self.out);
                if writes && bytes > 0 && self.state.get(open).is_some_and(|found| found.is_synced) {
                    self.sync(call, fd);
                }
            }
        }
    }

    fn seek(&mut self, call: &Call<'_>) {
        let (Some(open), Some(to)) = (self.open_of(call.arg(0)), call.returned()) else { return };
        if call.arg(2) == "SEEK_END" && call.arg(1) == "0" {
            self.state.learn_size(open, to, self.out);
        }
        self.state.seek(open, to, self.origin, self.out);
    }

    fn map(&mut self, call: &Call<'_>) {
        if call.arg(3).contains("MAP_ANON") || call.arg(2) == "PROT_NONE" {
            return;
        }
        let (Some(open), Some(len), Some(position)) =
            (self.open_of(call.arg(4)), call.number(1), call.number(5))
        else {
            return;
        };
        let Some(found) = self.state.get(open) else { return };
        let (file, path, flags) = (found.file, found.path.clone(), found.flags | Flags::MAPPED);
        let known = self.state.files.get(file);
        let position = position.min(i64::MAX as u64);
        let there =
            if known.exact { known.size.saturating_sub(position) } else { i64::MAX as u64 - position };
        let bytes = len.min(there);
        if bytes == 0 {
            return;
        }
        if let Some(address) = integer(call.result).filter(|_| call.arg(3).contains("MAP_SHARED")) {
            let process = self.state.task(self.process).process;
            self.state.mappings.add(process, address, Mapping { len, file, path: Arc::clone(&path) });
        }
        let writes = call.arg(2).contains("PROT_WRITE") && call.arg(3).contains("MAP_SHARED");
        let (read, written) = if writes { (0, bytes) } else { (bytes, 0) };
        emit(file, &path, self.origin, self.out, |all| Event {
            kind: Kind::Run,
            flags,
            open,
            position,
            read,
            written,
            calls: 1,
            ..all
        });
    }

    /// Marks an open file as a directory, since only directories have entries.
    fn list(&mut self, call: &Call<'_>) {
        let open = self.open_of(call.arg(0));
        if let Some(found) = open.and_then(|open| self.state.get(open)) {
            found.flags |= Flags::DIRECTORY;
        }
        self.change_open(Kind::List, call, 0);
    }

    /// Records a call that only looks at a file.
    fn look(&mut self, kind: Kind, call: &Call<'_>, named: Named) {
        let Some(path) = self.name(call, named).filter(|path| !is_device(path)) else { return };
        if call.succeeded() && kind == Kind::Stat {
            return self.stat(call, &path);
        }
        if call.succeeded() {
            return self.note(kind, &path);
        }
        emit(0, &path, self.origin, self.out, |all| Event { kind, flags: Flags::FAILED, ..all });
    }

    /// Records a change of the attributes of a file, or another call that names it.
    fn change(&mut self, kind: Kind, call: &Call<'_>, named: Named) {
        if let Some(path) = self.name(call, named) {
            self.note(kind, &path);
        }
    }

    /// Records a call that succeeded on a file with this name.
    fn note(&mut self, kind: Kind, path: &str) {
        if !is_device(path) {
            let (file, _) = self.state.files.named(path);
            emit(file, path, self.origin, self.out, |all| Event { kind, ..all });
        }
    }

    /// Records the same of an open file.
    fn change_open(&mut self, kind: Kind, call: &Call<'_>, fd: usize) {
        let open = self.open_of(call.arg(fd));
        if let Some((number, found)) = open.and_then(|open| Some((open, self.state.get(open)?))) {
            let (file, path) = (found.file, found.path.clone());
            emit(file, &path, self.origin, self.out, |all| Event { kind, open: number, ..all });
        }
    }

    fn sync(&mut self, call: &Call<'_>, fd: usize) {
        if let Some(open) = self.open_of(call.arg(fd)) {
            self.state.end_runs(open, self.origin, self.out);
        }
        self.change_open(Kind::Sync, call, fd);
    }

    /// Records a sync of all files; of `syncfs`, too, because a log does not say which files are on
    /// which file system.
    fn sync_all(&mut self) {
        self.state.end_all_runs(self.origin, self.out);
        emit(0, "", self.origin, self.out, |all| Event { kind: Kind::Sync, ..all });
    }

    fn sync_mapping(&mut self, call: &Call<'_>) {
        let process = self.state.task(self.process).process;
        let found = call.number(0).and_then(|address| self.state.mappings.at(process, address));
        let Some(Mapping { file, path, .. }) = found.cloned() else { return };
        emit(file, &path, self.origin, self.out, |all| Event { kind: Kind::Sync, ..all });
    }

    fn unmap(&mut self, call: &Call<'_>) {
        let process = self.state.task(self.process).process;
        if let (Some(address), Some(len)) = (call.number(0), call.number(1)) {
            self.state.mappings.remove(process, address, len);
        }
    }

    fn cut_open(&mut self, call: &Call<'_>, size: Option<u64>) {
        let (Some(open), Some(size)) = (self.open_of(call.arg(0)), size) else { return };
        self.state.end_runs(open, self.origin, self.out);
        let Some(found) = self.state.get(open) else { return };
        let (file, path) = (found.file, found.path.clone());
        self.cut(file, &path, size);
    }

    fn truncate(&mut self, call: &Call<'_>) {
        let (Some(path), Some(size)) = (self.name(call, (None, 0)), call.number(1)) else { return };
        let (file, _) = self.state.files.named(&path);
        self.cut(file, &path, size);
    }

    fn cut(&mut self, file: u64, path: &str, size: u64) {
        let known = self.state.files.get(file);
        (known.size, known.exact) = (size, true);
        emit(file, path, self.origin, self.out, |all| Event { kind: Kind::Truncate, size, ..all });
    }

    /// Processes a `fallocate` that may extend the file.
    fn extend(&mut self, call: &Call<'_>) {
        let (Some(from), Some(len)) = (call.number(2), call.number(3)) else { return };
        let end = from.saturating_add(len);
        let open = self.open_of(call.arg(0));
        let Some(found) = open.and_then(|open| self.state.get(open)) else { return };
        let (file, path) = (found.file, found.path.clone());
        let known = self.state.files.get(file);
        if known.exact && known.size < end {
            self.cut(file, &path, end);
        }
    }

    fn unlink(&mut self, call: &Call<'_>, directory: Option<usize>, name: usize) {
        if let Some(path) = self.name(call, (directory, name)) {
            self.remove(&path, Flags::NONE);
        }
    }

    fn remove(&mut self, path: &str, how: Flags) {
        let (file, last) = self.state.files.unlink(path);
        let size = self.state.files.get(file).size;
        let flags = if last { how | Flags::LAST } else { how };
        emit(file, path, self.origin, self.out, |all| Event { kind: Kind::Unlink, flags, size, ..all });
        self.state.files.drop_if_unused(file);
    }

    fn directory_change(&mut self, kind: Kind, call: &Call<'_>, directory: Option<usize>, name: usize) {
        let Some(path) = self.name(call, (directory, name)) else { return };
        let file = match kind {
            Kind::Rmdir => self.state.files.unlink(&path).0,
            _ => self.state.files.named(&path).0,
        };
        emit(file, &path, self.origin, self.out, |all| Event { kind, flags: Flags::DIRECTORY, ..all });
        self.state.files.drop_if_unused(file);
    }

    fn rename(&mut self, call: &Call<'_>, from: Named, to: Named) {
        let (Some(from), Some(to)) = (self.name(call, from), self.name(call, to)) else { return };
        if from == to {
            return;
        }
        let renames = [(&from, &to), (&to, &from)];
        let exchanges = call.arg(4).contains("RENAME_EXCHANGE");
        if !exchanges && self.state.files.is_known(&to) {
            if self.state.files.named(&from).0 == self.state.files.named(&to).0 {
                return; // Renaming one name of a file to another does nothing.
            }
            self.remove(&to, Flags::REPLACED);
        }
        for (from, to) in if exchanges { &renames[..] } else { &renames[..1] } {
            let (file, _) = self.state.files.named(from);
            let new_path = self.out.names.symbol(to);
            emit(file, from, self.origin, self.out, |all| Event { kind: Kind::Rename, new_path, ..all });
        }
        if exchanges {
            self.state.files.exchange(&from, &to);
        } else {
            self.state.files.rename(&from, &to);
        }
    }

    fn link(&mut self, call: &Call<'_>, from: Named, to: Named) {
        if let (Some(from), Some(to)) = (self.name(call, from), self.name(call, to)) {
            let (file, _) = self.state.files.named(&from);
            let new_path = self.out.names.symbol(&to);
            emit(file, &from, self.origin, self.out, |all| Event { kind: Kind::Link, new_path, ..all });
            self.state.files.link(&from, &to);
        }
    }

    fn exec(&mut self, call: &Call<'_>, directory: Option<usize>, name: usize) {
        let Some(path) = self.name(call, (directory, name)) else { return };
        let command: String = path.rsplit('/').next().unwrap_or("").chars().take(COMMAND).collect();
        self.state.exec(self.process, &command, self.origin, self.out);
        // The event belongs to the new program.
        let origin = self.state.origin(self.process, self.origin.time);
        let (file, _) = self.state.files.named(&path);
        let size = self.state.files.get(file).size;
        emit(file, &path, &origin, self.out, |all| Event { kind: Kind::Exec, size, ..all });
    }

    fn fork(&mut self, call: &Call<'_>) {
        if let Some(child) = call.returned().and_then(|child| u32::try_from(child).ok()) {
            self.state.fork(self.process, child, &call.args.join(","));
        }
    }

    fn change_directory(&mut self, call: &Call<'_>) {
        let name = self.name(call, (None, 0));
        if let Some(path) = &name {
            self.note(Kind::Chdir, path);
        }
        self.state.task(self.process).directory = name.filter(|name| name.starts_with('/')).map(Into::into);
    }

    fn change_to_open_directory(&mut self, call: &Call<'_>) {
        let open = self.open_of(call.arg(0));
        let path = open.and_then(|open| self.state.get(open)).map(|open| open.path.clone());
        self.state.task(self.process).directory = path;
        self.change_open(Kind::Chdir, call, 0);
    }

    fn stat_open(&mut self, call: &Call<'_>) {
        let Some(open) = self.open_of(call.arg(0)) else { return };
        if let Some(size) = regular_size(stat_structure(call)) {
            self.state.learn_size(open, size, self.out);
        }
        let Some(found) = self.state.get(open) else { return };
        let (file, path) = (found.file, found.path.clone());
        let size = self.state.files.get(file).size;
        emit(file, &path, self.origin, self.out, |all| Event { kind: Kind::Stat, open, size, ..all });
    }

    fn stat(&mut self, call: &Call<'_>, path: &str) {
        let structure = stat_structure(call);
        let (file, _) = self.state.files.named(path);
        let known = self.state.files.get(file);
        if let Some(size) = regular_size(structure) {
            (known.size, known.exact) = (size, true);
        }
        let size = known.size;
        let flags = if mode(structure).starts_with("S_IFDIR") { Flags::DIRECTORY } else { Flags::NONE };
        emit(file, path, self.origin, self.out, |all| Event { kind: Kind::Stat, flags, size, ..all });
    }
}

/// Returns the `stat` structure that a call has filled in.
fn stat_structure<'a>(call: &'a Call<'_>) -> &'a str {
    call.arg(match call.name {
        "statx" => 4,
        "newfstatat" | "fstatat64" => 2,
        _ => 1,
    })
}

/// Returns the size in a `stat` structure of a regular file.
fn regular_size(structure: &str) -> Option<u64> {
    let size = field(structure, "st_size").or_else(|| field(structure, "stx_size"))?;
    if mode(structure).starts_with("S_IFREG") { integer(size) } else { None }
}

/// Returns the mode in a `stat` structure; empty if it is not there.
fn mode(structure: &str) -> &str {
    field(structure, "st_mode").or_else(|| field(structure, "stx_mode")).unwrap_or_default()
}
