//! What a trace asks of storage, in sentences: blocks and fragments, memory, when to write,
//! clusters, devices of their own.
//!
//! The one idea: an [`Advice`] is a consequence of figures, and comes with them. What is measured
//! is measured once, in a few readings of the trace ([`Measured::of`]); each rule in [`rules`] is a
//! function from that to an advice, or to nothing where the trace does not say enough. Thresholds
//! are constants with names, so that they can be argued with.

mod measured;
mod rules;

pub use measured::{Cache, Measured, Names, Open};

use serde::Serialize;
use spindle_report::{Outcome, Section};

/// One advice for the design of storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The topic.
    pub topic: &'static str,
    /// The advice.
    pub advice: String,
    /// The measurements that are the reason for it.
    pub because: String,
}

/// Returns all advice that the trace supports.
#[must_use]
pub fn advise(measured: &Measured) -> Vec<Advice> {
    rules::ALL.iter().filter_map(|rule| rule(measured)).collect()
}

/// Returns the advice as a section of a report.
#[must_use]
pub fn section(advice: &[Advice]) -> Section {
    let sentence = |Advice { topic, advice, because }: &Advice| format!("{topic}: {advice} ({because})");
    let findings = if advice.is_empty() {
        vec!["The trace is too small to say anything.".into()]
    } else {
        advice.iter().map(sentence).collect()
    };
    Section {
        id: "advice".into(),
        title: "What these measurements advise".into(),
        text: "Each with the figures it rests on. They hold for the programs that were recorded, as long as they go on like that.".into(),
        outcome: Outcome { findings, ..Outcome::default() },
    }
}

#[cfg(test)]
mod tests;
