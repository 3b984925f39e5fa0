//! Shows what programs do while they do it.
//!
//! The one idea: an event ends a run, but a run may last for hours. So at each look the runs that
//! are under way are added as far as they have come, and what was shown of a run is left out when
//! it ends.

use crate::translate::Translator;
use crate::wire::OpenAtEnd;
use spindle_trace::{Batch, Event};
use std::collections::HashMap;

/// What was shown of a run that is under way.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    bytes: u64,
    calls: u32,
    /// It was under way at the last look. One that was not has ended just before that, and the
    /// event of its end is still to come.
    was_there: bool,
}

/// What was shown of the runs that are under way, by open and start.
#[derive(Debug, Default)]
pub struct Shown(HashMap<(u64, u64), Part>);

impl Shown {
    /// Takes what was shown off the events that end runs.
    pub fn leave_out(&mut self, events: &mut [Event]) {
        for event in events.iter_mut().filter(|event| event.kind.ends_run() && event.bytes() > 0) {
            let Some(Part { bytes, calls, .. }) = self.0.remove(&(event.open, event.position)) else {
                continue;
            };
            event.position += bytes;
            event.read = event.read.saturating_sub(bytes);
            event.written = event.written.saturating_sub(bytes);
            event.calls = event.calls.saturating_sub(calls);
        }
    }

    /// Adds runs as far as they have come since they were shown; `time` is the kernel's time.
    pub fn add(
        &mut self,
        translator: &mut Translator,
        under_way: &[OpenAtEnd],
        time: u64,
        batch: &mut Batch,
    ) {
        self.0.retain(|_, part| std::mem::take(&mut part.was_there));
        for open in under_way {
            let mut new = *open;
            for (start, bytes, calls, _) in &mut new.runs {
                if *bytes == 0 {
                    continue;
                }
                let part = self.0.entry((open.open, *start)).or_default();
                let before = *part;
                *part = Part { bytes: *bytes, calls: *calls, was_there: true };
                *start += before.bytes;
                *bytes = bytes.saturating_sub(before.bytes);
                *calls = calls.saturating_sub(before.calls);
            }
            translator.left(&new, time, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Selection;
    use crate::wire::{Message, WRITTEN};
    use spindle_trace::{FileId, Kind};

    /// Promise: of a run that lasts over several looks every byte and call is shown once, by the
    /// look in which it happened.
    #[test]
    fn long_runs() {
        let mut translator = Translator::new(0, Selection::default(), FileId::default(), |_| None);
        let mut shown = Shown::default();
        let mut batch = Batch::default();
        let create = Message { kind: Kind::Create as u8, open: 4, inode: 9, ..Message::default() };
        translator.take(&create, &mut batch);
        let under_way =
            |bytes, calls| [OpenAtEnd { open: 4, runs: [(100, bytes, calls, WRITTEN), (0, 0, 0, 0)] }];
        let mut look = |under_way: &[OpenAtEnd], message: Option<&Message<'_>>| {
            batch.clear();
            if let Some(message) = message {
                translator.take(message, &mut batch);
                shown.leave_out(&mut batch.events);
            }
            shown.add(&mut translator, under_way, 0, &mut batch);
            let moved = |event: &Event| (event.position, event.written, event.calls);
            batch.events.iter().map(moved).collect::<Vec<_>>()
        };
        assert_eq!(look(&under_way(10, 1), None), [(100, 10, 1)]);
        assert_eq!(look(&under_way(10, 1), None), []);
        assert_eq!(look(&under_way(35, 3), None), [(110, 25, 2)]);
        let close = Message {
            kind: Kind::Close as u8,
            open: 4,
            position: 100,
            bytes: 40,
            calls: 4,
            flags: WRITTEN,
            ..Message::default()
        };
        // The run has ended, but its event comes later.
        assert_eq!(look(&[], None), []);
        assert_eq!(look(&[], Some(&close)), [(135, 5, 1)]);
    }
}
