//! The progress bar on standard error, if that is a terminal.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::borrow::Cow;
use std::io::IsTerminal;

/// A progress bar; hidden if standard error is not a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Returns a bar that counts bytes, up to `total` if it is known, and shows the name `what`.
    pub fn new(what: &'static str, total: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::no_length(),
        };
        let template = if total.is_some() {
            "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}"
        } else {
            "{prefix} {spinner} {bytes} {bytes_per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.set_prefix(what);
        Self(bar)
    }

    /// Returns a bar that shows a fraction of the work, the name `what`, and a message about the
    /// current step.
    pub fn of_fraction(what: impl Into<Cow<'static, str>>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(1000);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {msg}") {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.set_prefix(what);
        Self(bar)
    }

    /// Shows `part` of 1000 parts as done, and `what` as the current step.
    pub fn set(&self, part: u64, what: &str) {
        self.0.set_position(part);
        self.0.set_message(what.to_owned());
    }

    /// Shows `what` as the current step.
    pub fn set_message(&self, what: &'static str) {
        self.0.set_message(what);
    }

    /// Shows a fraction of the work, from 0 to 1, as done; changes nothing if it is unknown.
    pub fn set_fraction(&self, done: Option<f64>) {
        if let Some(done) = done {
            // Between 0 and 1000.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            self.0.set_position((done * 1000.0) as u64);
        }
    }

    /// Adds `bytes` to the bytes done. Fails if a signal was received.
    pub fn step(&self, bytes: u64) -> spindle::Result<()> {
        interrupt::check()?;
        self.add(bytes);
        Ok(())
    }

    /// Adds `bytes` to the bytes done.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
