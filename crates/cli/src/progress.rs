//! The progress bar: on a terminal only, on standard error.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar that counts bytes, or nothing at all where nobody watches.
pub struct Progress(ProgressBar);

impl Progress {
    /// Returns a bar for `what`, over `total` bytes where that is known.
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

    /// Returns a bar over parts of 1000, with a changing word of what is under way.
    pub fn of_parts(what: &'static str) -> Self {
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

    /// Of 1000 parts so many are done, and `what` is under way.
    pub fn at(&self, part: u64, what: &str) {
        self.0.set_position(part);
        self.0.set_message(what.to_owned());
    }

    /// `what` is under way.
    pub fn say(&self, what: &'static str) {
        self.0.set_message(what);
    }

    /// Such a part of the whole, from 0 to 1, is done; nothing is known to change if it is not.
    pub fn fraction(&self, done: Option<f64>) {
        if let Some(done) = done {
            // A part of a thousand, by construction.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            self.0.set_position((done * 1000.0) as u64);
        }
    }

    /// So many bytes more.
    pub fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
