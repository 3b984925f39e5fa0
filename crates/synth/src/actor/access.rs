//! Accesses: what an actor does with a file from the open to the close.

use super::{Actor, Machine};
use crate::files::File;
use crate::model::{AccessMethod, FixedRun, Operation};
use crate::plan::ResolvedStep;
use rand::Rng;
use spindle_trace::{Event, Flags, Kind};
use std::collections::VecDeque;

/// The beginning of a run.
#[derive(Clone, Copy, Debug)]
enum RunStart {
    /// At the current position of the open file.
    Current,
    At(u64),
    End,
}

/// A run to be done: bytes to transfer in one direction.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: RunStart,
    /// Number of bytes at most; a read ends at the end of the file.
    bytes: u64,
    write: bool,
    way: AccessMethod,
    seconds: f64,
}

impl AccessMethod {
    /// Returns the flag of the `run` event of an access with a position of its own, or `None` for
    /// one that uses the position of the open file.
    const fn own_position_flag(self) -> Option<Flags> {
        match self {
            Self::Calls => None,
            Self::Positional => Some(Flags::POSITIONAL),
            Self::Mapped => Some(Flags::MAPPED),
        }
    }
}

/// An open file.
#[derive(Debug)]
pub(super) struct Open {
    id: u64,
    file: File,
    flags: Flags,
    /// Current position in the file, and the position where the current run began.
    position: u64,
    start: u64,
    written: bool,
    current: Option<Run>,
    /// Position where the current run began, if it has a position of its own.
    own_position: u64,
    runs: VecDeque<Run>,
    /// Number of syncs to do before the close.
    syncs: u64,
}

impl Machine {
    /// Opens a file for a step and plans its runs; returns the seconds until the next event.
    pub(super) fn open(&mut self, actor: &mut Actor, file: File, now: i64) -> f64 {
        let ResolvedStep { step, class, .. } = self.resolved(actor);
        let (class, act, both) = (*class, step.act, step.both);
        let size = self.files.at(file).size;
        let flags = match act {
            _ if both => Flags::READ | Flags::WRITE,
            Operation::Read | Operation::Lookup => Flags::READ,
            _ => Flags::WRITE,
        };
        let flags = if self.plan.classes[class].directories { flags | Flags::DIRECTORY } else { flags };
        let mut event = Event { flags, size, ..self.event_of(file) };
        match act {
            Operation::Create => event.kind = Kind::Create,
            Operation::Rewrite => event.flags |= Flags::TRUNCATED,
            Operation::Append if self.plan.classes[class].limit.is_some_and(|limit| size > limit) => {
                self.files.at(file).size = 0;
                let cut = Event { kind: Kind::Truncate, flags: Flags::NONE, size: 0, ..event };
                self.emit(actor, now, cut);
                event.size = 0;
            }
            _ => {}
        }
        let runs = self.runs(actor, file);
        let syncs =
            self.resolved(actor).step.syncs.clone().map_or(0, |syncs| syncs.draw_whole(&mut self.random));
        if matches!(act, Operation::Rewrite | Operation::Create) {
            self.files.at(file).size = 0;
        }
        self.remember(actor, class, file);
        self.opens += 1;
        event.open = self.opens;
        self.files.at(file).opens += 1;
        self.emit(actor, now, event);
        let mut open = Open {
            id: self.opens,
            file,
            flags,
            position: 0,
            start: 0,
            written: false,
            current: None,
            own_position: 0,
            runs,
            syncs,
        };
        let mut seconds = self.timing.call;
        if matches!(open.runs.front(), Some(Run { start: RunStart::Current, .. })) {
            open.current = open.runs.pop_front();
            seconds = open.current.map_or(0.0, |run| run.seconds);
        }
        actor.open = Some(open);
        seconds
    }

    /// Returns the runs that a step will do in its file.
    fn runs(&mut self, actor: &Actor, file: File) -> VecDeque<Run> {
        let resolved = &self.plan.scripts[actor.script].steps[actor.step];
        let (step, class) = (&resolved.step, &self.plan.classes[resolved.class]);
        let random = &mut self.random;
        let state = self.files.at(file);
        let rate = self.timing.bytes_per_second;
        let hold = step.hold.as_ref().unwrap_or(&self.timing.hold);
        let count = step.runs.as_ref().map_or(1, |runs| runs.draw_whole(random));
        let mut runs = VecDeque::new();
        for n in 0..count {
            if let Some(piece) = fixed_run(&step.pieces, n, count, random) {
                let FixedRun { at, bytes, writes: write, way, .. } = *piece;
                runs.push_back(Run {
                    start: RunStart::At(at),
                    bytes,
                    write,
                    way,
                    seconds: hold.draw(random),
                });
                continue;
            }
            let given = step.bytes.as_ref().map(|bytes| bytes.draw_whole(random));
            let (place, bytes, write) = match step.act {
                Operation::Read => (RunStart::Current, given.unwrap_or(u64::MAX), false),
                Operation::Lookup => (RunStart::At(state.record(class, random)), given.unwrap_or(0), false),
                Operation::Append => (RunStart::End, given.unwrap_or(0), true),
                Operation::Rewrite => {
                    let again = || {
                        // Nine parts of the old size and one part of the typical size: the size
                        // changes, but stays near its class.
                        (9 * state.size + class.size.draw_whole(random)).div_ceil(10)
                    };
                    (RunStart::Current, given.unwrap_or_else(again), true)
                }
                Operation::Create if n == 0 => {
                    (RunStart::Current, given.unwrap_or_else(|| class.size.draw_whole(random)), true)
                }
                _ => {
                    let write = !step.both || random.random::<f64>() < step.writing;
                    let grow = write && random.random::<f64>() < step.growing;
                    let place = if grow { RunStart::End } else { RunStart::At(state.record(class, random)) };
                    let given = match &step.reading {
                        Some(reading) if !write => Some(reading.draw_whole(random)),
                        _ => given,
                    };
                    (place, given.unwrap_or(class.record), write)
                }
            };
            let moved = if write { bytes } else { bytes.min(state.size) };
            #[allow(clippy::cast_precision_loss)] // A time.
            let seconds = hold.draw(random) + moved as f64 / rate;
            if matches!(step.act, Operation::Create) {
                state.size = state.size.max(if n == 0 { bytes } else { state.size });
            }
            let place = match place {
                // If records were measured, so was the number of bytes to read from them.
                RunStart::At(at) if class.records.ranks.is_some() && !write => {
                    RunStart::At(at.min(state.size.saturating_sub(bytes)))
                }
                _ => place,
            };
            runs.push_back(Run { start: place, bytes, write, way: step.way, seconds });
        }
        runs
    }

    /// Ends the current run of an open file and begins the next one or closes the file; returns the
    /// seconds until the next event.
    pub(super) fn next_run(&mut self, actor: &mut Actor, mut open: Open, now: i64) -> f64 {
        if let Some(run) = open.current.take() {
            let state = self.files.at(open.file);
            let begin = if run.way.own_position_flag().is_some() { open.own_position } else { open.position };
            let bytes = if run.write { run.bytes } else { run.bytes.min(state.size.saturating_sub(begin)) };
            if run.write {
                state.size = state.size.max(begin + bytes);
            }
            if let Some(flags) = run.way.own_position_flag() {
                self.emit_positional(actor, &open, now, (begin, bytes, run.write), flags);
            } else {
                open.position += bytes;
                open.written = run.write;
            }
        }
        let Open { id, file, flags, position, start, written, .. } = open;
        let bytes = position - start;
        let mut event = Event {
            open: id,
            flags,
            position: start,
            read: if written { 0 } else { bytes },
            written: if written { bytes } else { 0 },
            ..self.event_of(file)
        };
        let Some(run) = open.runs.pop_front() else {
            let base = self.event_of(file);
            for _ in 0..open.syncs {
                self.emit(actor, now, Event { kind: Kind::Sync, open: id, flags, ..base });
            }
            event.kind = Kind::Close;
            event.size = self.files.at(file).size;
            let path = self.files.at(file).path.clone();
            if self.files.close(file) {
                event.flags |= Flags::LAST;
            }
            event.path = self.out.names.symbol(&path);
            self.emit(actor, now, event);
            return self.gap(actor);
        };
        let target = match run.start {
            RunStart::Current => position,
            RunStart::At(place) => place,
            RunStart::End => self.files.at(file).size,
        };
        if run.way.own_position_flag().is_some() {
            open.own_position = target;
        } else if target != position {
            event.kind = Kind::Seek;
            event.new_position = target;
            self.emit(actor, now, event);
            (open.position, open.start) = (target, target);
        } else if bytes > 0 && run.write != written {
            event.kind = Kind::Run;
            self.emit(actor, now, event);
            open.start = position;
        }
        open.current = Some(run);
        actor.open = Some(open);
        run.seconds
    }

    /// Emits a run that has a position of its own.
    fn emit_positional(
        &mut self,
        actor: &Actor,
        open: &Open,
        now: i64,
        (position, bytes, write): (u64, u64, bool),
        flags: Flags,
    ) {
        if bytes > 0 {
            let (read, written) = if write { (0, bytes) } else { (bytes, 0) };
            let (kind, flags) = (Kind::Run, open.flags | flags);
            let base = self.event_of(open.file);
            self.emit(actor, now, Event { kind, flags, open: open.id, position, read, written, ..base });
        }
    }
}

/// Returns the fixed run for run `number` of `count`, if it is one. The fixed runs divide the
/// numbers by their shares, so if there is one of each they keep the order of the model.
#[allow(clippy::cast_precision_loss)] // Small numbers.
fn fixed_run<'a>(
    pieces: &'a [FixedRun],
    number: u64,
    count: u64,
    random: &mut impl Rng,
) -> Option<&'a FixedRun> {
    if pieces.is_empty() {
        return None;
    }
    let mut left = (number as f64 + random.random::<f64>()) / count as f64;
    pieces.iter().find(|piece| {
        left -= piece.share;
        left < 0.0
    })
}
