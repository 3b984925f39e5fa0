//! Telling an [`Observer`] what requests did.
//!
//! With an observer each open file gets a number of its own and OPEN is asked for; without one none
//! of this does anything.

use super::Inner;
use crate::protocol::Request;
use spindle_vfs::{Action, Attr, Caller, FileKind, Ino, Observer, OpenFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who is told, and the numbers of open files.
pub(super) struct Observed {
    observer: Option<Arc<dyn Observer>>,
    last_handle: AtomicU64,
}

impl Observed {
    pub(super) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { observer, last_handle: AtomicU64::new(0) }
    }

    /// Returns true if there is anyone to tell.
    pub(super) fn is_on(&self) -> bool {
        self.observer.is_some()
    }

    pub(super) fn tell(&self, by: Caller, action: &Action<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(by, action);
        }
    }

    /// Tells of a name that the kernel learns.
    pub(super) fn named(&self, dir: Ino, name: &[u8], attr: &Attr) {
        self.tell(Caller::default(), &Action::Named { dir, name, ino: attr.ino });
    }

    /// Tells of an open file, and gives it a number; 0 without an observer.
    pub(super) fn opened(&self, by: Caller, attr: &Attr, flags: i32, created: bool) -> u64 {
        if !self.is_on() {
            return 0;
        }
        let handle = self.last_handle.fetch_add(1, Ordering::Relaxed) + 1;
        let mode = flags & libc::O_ACCMODE;
        let flags = OpenFlags {
            read: mode != libc::O_WRONLY,
            write: mode != libc::O_RDONLY,
            append: flags & libc::O_APPEND != 0,
            truncate: false,
        };
        self.tell(by, &Action::Opened { handle, attr, flags, created });
        handle
    }
}

impl Inner {
    /// Returns what a name leads to, if someone will be told that it went.
    pub(super) fn before(&self, dir: Ino, name: &[u8]) -> Option<Attr> {
        if !self.observed.is_on() {
            return None;
        }
        let attr = self.fs.lookup(dir, name).ok()?;
        self.fs.forget(attr.ino, 1);
        Some(attr)
    }

    /// Tells that a name went.
    pub(super) fn removed(&self, by: Caller, dir: Ino, name: &[u8], before: Option<&Attr>) {
        if let Some(attr) = before {
            self.observed.tell(by, &Action::Removed { dir, name, attr });
        }
    }

    /// Tells that something was made under a name.
    pub(super) fn made(&self, by: Caller, dir: Ino, name: &[u8], attr: &Attr) {
        self.observed.named(dir, name, attr);
        if attr.kind == FileKind::Directory {
            self.observed.tell(by, &Action::MadeDirectory(attr.ino));
        }
    }
}

/// Returns who sent a request.
pub(super) fn caller(req: &Request) -> Caller {
    Caller { user: req.uid(), process: req.pid() }
}
