//! Looking for data and holes under pages that the kernel has not written back.
//!
//! The kernel passes `SEEK_DATA` and `SEEK_HOLE` on without writing back what it holds (seen on Linux 6.18), so a file just
//! written would look like one hole, and `cp` would copy it as such. An invalidation notice has the kernel
//! write back the pages of a file and wait for that. It must not come from a thread that serves requests, because
//! these are what the kernel then waits for. So such questions queue here for a thread of their own.

use fuser::{INodeNo, Notifier, ReplyLseek};
use spindle_clock::{Condvar, Mutex};
use spindle_vfs::Seek;
use std::collections::VecDeque;

/// A question that waits for the kernel's pages.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) node: INodeNo,
    pub(crate) offset: u64,
    pub(crate) what: Seek,
    pub(crate) reply: ReplyLseek,
}

#[derive(Debug, Default)]
struct State {
    questions: VecDeque<Question>,
    closed: bool,
}

/// The questions of one mount.
#[derive(Debug, Default)]
pub(crate) struct SeekQueue {
    state: Mutex<State>,
    changed: Condvar,
}

impl SeekQueue {
    pub(crate) fn push(&self, question: Question) {
        self.state.lock().questions.push_back(question);
        self.changed.notify_one();
    }

    /// Lets [`Self::run`] return; what still waits is answered with an I/O error.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.questions.clear();
        self.changed.notify_one();
    }

    fn next(&self) -> Option<Question> {
        let mut state = self.state.lock();
        while state.questions.is_empty() && !state.closed {
            self.changed.wait(&mut state);
        }
        state.questions.pop_front()
    }

    /// Answers questions until the queue is closed.
    pub(crate) fn run(&self, notifier: &Notifier, answer: impl Fn(Question)) {
        while let Some(question) = self.next() {
            let from = i64::try_from(question.offset).unwrap_or(i64::MAX);
            // To the end of the file. The kernel refuses if it has forgotten the file: then it has no pages either.
            if let Err(error) = notifier.inval_inode(question.node, from, 0) {
                log::debug!("write-back of inode {}: {error}", question.node.0);
            }
            answer(question);
        }
    }
}
