//! Notification of an [`Observer`] about requests.
//!
//! With an observer, the kernel sends OPEN requests and each open file gets its own number. Without
//! one, nothing here has an effect.

use super::Inner;
use crate::protocol::Request;
use spindle_vfs::{Action, Attr, Caller, FileKind, Ino, Observer, OpenFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The observer, and the numbers of open files.
pub(super) struct Observed {
    observer: Option<Arc<dyn Observer>>,
    last_handle: AtomicU64,
}

impl Observed {
    pub(super) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { observer, last_handle: AtomicU64::new(0) }
    }

    /// Returns true if there is an observer.
    pub(super) fn is_on(&self) -> bool {
        self.observer.is_some()
    }

    pub(super) fn notify(&self, by: Caller, action: &Action<'_>) {
        if let Some(observer) = &self.observer {
            observer.observe(by, action);
        }
    }

    /// Notifies of a name that the kernel gets to know.
    pub(super) fn notify_named(&self, dir: Ino, name: &[u8], attr: &Attr) {
        self.notify(Caller::default(), &Action::Named { dir, name, ino: attr.ino });
    }

    /// Notifies of an open file. Returns its number, or 0 without an observer.
    pub(super) fn notify_opened(&self, by: Caller, attr: &Attr, flags: i32, created: bool) -> u64 {
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
        self.notify(by, &Action::Opened { handle, attr, flags, created });
        handle
    }
}

impl Inner {
    /// Returns the attributes of a name that may be removed, if there is an observer.
    pub(super) fn attr_if_observed(&self, dir: Ino, name: &[u8]) -> Option<Attr> {
        if !self.observed.is_on() {
            return None;
        }
        let attr = self.fs.lookup(dir, name).ok()?;
        self.fs.forget(attr.ino, 1);
        Some(attr)
    }

    /// Notifies of a removed name.
    pub(super) fn notify_removed(&self, by: Caller, dir: Ino, name: &[u8], before: Option<&Attr>) {
        if let Some(attr) = before {
            self.observed.notify(by, &Action::Removed { dir, name, attr });
        }
    }

    /// Notifies of a new file or directory.
    pub(super) fn notify_made(&self, by: Caller, dir: Ino, name: &[u8], attr: &Attr) {
        self.observed.notify_named(dir, name, attr);
        if attr.kind == FileKind::Directory {
            self.observed.notify(by, &Action::MadeDirectory(attr.ino));
        }
    }
}

/// Returns the caller of a request.
pub(super) fn caller(req: &Request) -> Caller {
    Caller { user: req.uid(), process: req.pid() }
}
