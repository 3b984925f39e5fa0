//! Work without the interpreter's lock, which hears signals and does not panic into Python.

use crate::failure::{Result, of_panic};
use crate::messages;
use pyo3::prelude::*;
use spindle::Context;
use spindle_clock::{Clock, Mutex, SystemClock};
use spindle_device::{AlignedBuf, Device, Error, Info, Request, Ticket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Time between two questions whether there is a signal. To ask takes the interpreter's lock.
const BETWEEN: Duration = Duration::from_millis(50);

/// Whether Python has had a signal to handle during some work.
pub struct Signals(Mutex<State>);

struct State {
    /// When Python was asked.
    asked: Duration,
    /// The exception of the handler, such as `KeyboardInterrupt`.
    raised: Option<PyErr>,
}

impl Signals {
    fn new() -> Self {
        Self(Mutex::new(State { asked: SystemClock.monotonic(), raised: None }))
    }

    /// Fails if the handler of a signal has raised an exception, which ends the work.
    pub fn check(&self) -> spindle::Result<()> {
        let interrupted = || Err(spindle_vfs::Error::Interrupted.into());
        let now = SystemClock.monotonic();
        {
            let mut state = self.0.lock();
            if state.raised.is_some() {
                return interrupted();
            }
            if now.saturating_sub(state.asked) < BETWEEN {
                return Ok(());
            }
            state.asked = now;
        }
        // A handler runs here, which may do anything: no lock is held.
        match Python::attach(|py: Python<'_>| py.check_signals()) {
            Ok(()) => Ok(()),
            Err(raised) => {
                self.0.lock().raised = Some(raised);
                interrupted()
            }
        }
    }
}

/// Does some work without the interpreter's lock, and returns its result or the exception for it.
pub fn work<T: Send>(py: Python<'_>, what: impl FnOnce(&Arc<Signals>) -> Result<T> + Send) -> PyResult<T> {
    let signals = Arc::new(Signals::new());
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(|| what(&signals))));
    messages::pass_on(py)?;
    let raised = signals.0.lock().raised.take();
    if let Some(raised) = raised {
        return Err(raised);
    }
    match done {
        Ok(result) => result.map_err(|failure| failure.into_exception(py)),
        Err(panic) => Err(of_panic(py, &*panic)),
    }
}

/// Does work that is short and cannot be interrupted.
pub fn quick<T: Send>(py: Python<'_>, what: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    work(py, |_| what())
}

/// A device whose requests fail after a signal.
pub struct Interruptible {
    inner: Arc<dyn Device>,
    signals: Arc<Signals>,
}

impl Interruptible {
    /// Returns a device that passes requests on to `inner` as long as there is no signal.
    pub fn new(inner: Arc<dyn Device>, signals: &Arc<Signals>) -> Self {
        Self { inner, signals: Arc::clone(signals) }
    }
}

impl Device for Interruptible {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.signals.check().map_err(|error| {
            Error::io(&self.info().name, "a transfer", std::io::Error::other(error.to_string()))
        })?;
        self.inner.submit(request)
    }

    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.inner.wait(ticket)
    }

    fn flush(&self) -> spindle_device::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> spindle_device::Result<()> {
        self.inner.discard(offset, len)
    }

    fn prepare(&self, offset: u64) {
        self.inner.prepare(offset);
    }
}

/// Waits for the daemon of the last mount of an image, if it has been unmounted and is still
/// writing the image, as the command line does.
pub fn await_last_mount(spec: &spindle::Spec, signals: &Signals) -> Result<()> {
    let device = spec.place()?.path;
    Ok(spindle_fuse::wait_for_ending_daemon(&device, &SystemClock, &mut || signals.check())?)
}

/// Returns the failure for a name of an image that is not there, as the system has it.
pub fn check_exists(spec: &spindle::Spec) -> Result<()> {
    let found = std::fs::File::open(&spec.path);
    Ok(found.map(drop).context(spec.path.display())?)
}
