//! Asynchronous transfers by a few threads, for systems without permission for `io_uring`.
//!
//! Requests are queued in order of submission; idle threads take them. A request's buffer is in the
//! queue, with the thread that works on it, or with the tickets: never with the caller. Closing
//! completes the queue first.

use crate::backing::Backing;
use crate::tickets::Tickets;
use crate::{AlignedBuf, Error, Request, Result};
use spindle_clock::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// Number of threads: enough for a device to reorder and overlap requests, and cheap.
const THREADS: usize = 4;

/// A pool of threads for one device.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    backing: Arc<Backing>,
    state: Mutex<State>,
    work: Condvar,
    finished: Condvar,
}

#[derive(Default)]
struct State {
    tickets: Tickets,
    queue: VecDeque<(u64, Request)>,
    closing: bool,
}

impl Workers {
    pub fn start(backing: Arc<Backing>) -> Result<Self> {
        let shared = Arc::new(Shared {
            backing,
            state: Mutex::default(),
            work: Condvar::new(),
            finished: Condvar::new(),
        });
        let mut workers = Self { shared, threads: Vec::new() };
        for _ in 0..THREADS {
            let shared = Arc::clone(&workers.shared);
            let thread = Builder::new().name("spindle-io".into()).spawn(move || shared.run());
            match thread {
                Ok(thread) => workers.threads.push(thread),
                Err(e) => {
                    let device = &workers.shared.backing.info.name;
                    return Err(Error::io(device, "starting a thread for transfers", e));
                }
            }
        }
        Ok(workers)
    }

    pub fn submit(&self, request: Request) -> u64 {
        let mut state = self.shared.state.lock();
        let id = state.tickets.issue();
        state.queue.push_back((id, request));
        drop(state);
        self.shared.work.notify_one();
        id
    }

    pub fn wait(&self, id: u64) -> Result<AlignedBuf> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(result) = state.tickets.take(id) {
                return result;
            }
            self.shared.finished.wait(&mut state);
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((id, Request { op, offset, mut buf })) = state.queue.pop_front() {
                drop(state);
                let result = self.backing.transfer(op, offset, &mut buf).map(|()| buf);
                state = self.state.lock();
                state.tickets.finish(id, result);
                self.finished.notify_all();
            } else if state.closing {
                return;
            } else {
                self.work.wait(&mut state);
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("{}: a transfer thread panicked", self.shared.backing.info.name);
            }
        }
    }
}
