//! The drive's read buffer: what has been read, and reading on while the host asks for nothing.
//!
//! A segment holds consecutive sectors. After a read the drive reads on behind it into the same
//! segment (the stream) until the segment is full or the heads are needed elsewhere.
//!
//! Invariant: a segment never claims a sector before it has passed under the head.

use super::arm::{Arm, Mechanism};
use super::spec::ReadAheadUntil;
use crate::time::Time;

#[derive(Clone, Copy, Debug)]
struct Segment {
    /// First sector held.
    start: u64,
    /// The sector after the last one held.
    end: u64,
    /// When it was used last, in requests.
    used: u64,
}

/// Reading on behind a segment.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    /// When the segment's last sector had passed, or reading went on after a halt.
    from: Time,
    /// The sector at which it halts.
    limit: u64,
    arm: Arm,
}

/// What a buffer has of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// All of it.
    All,
    /// Nothing, or only the beginning; reading goes on from `next` with the heads at `arm` since
    /// `from`.
    Coming {
        /// First sector that is not in yet.
        next: u64,
        /// Since when the heads are free to read it.
        from: Time,
        /// Where they are.
        arm: Arm,
        /// Reading on had come to its end.
        halted: bool,
    },
    /// The beginning, and the heads are elsewhere.
    Beginning {
        /// First sector that is not held.
        next: u64,
    },
    /// Nothing.
    Nothing,
}

/// Segments and stream.
#[derive(Clone, Debug)]
pub struct ReadBuffer {
    segments: Vec<Segment>,
    /// Sectors of a segment.
    capacity: u64,
    /// How far to read on.
    read_ahead: u64,
    until: ReadAheadUntil,
    stream: Option<Stream>,
    requests: u64,
}

impl ReadBuffer {
    /// Returns an empty buffer of `count` segments of `capacity` sectors that reads on by at most
    /// `read_ahead`, and not beyond `until`. Where that is more than a segment, the segment loses
    /// its beginning.
    #[must_use]
    pub fn new(count: u32, capacity: u64, read_ahead: u64, until: ReadAheadUntil) -> Self {
        let segments = (0..count).map(|_| Segment { start: 0, end: 0, used: 0 }).collect();
        Self { segments, capacity, read_ahead, until, stream: None, requests: 0 }
    }

    /// Returns what there is at `now` of the sectors from `start` to `end`.
    pub fn look_up(&mut self, mechanism: &Mechanism, start: u64, end: u64, now: Time) -> Held {
        self.read_on(mechanism, now);
        self.requests += 1;
        if let Some(stream) = &self.stream {
            let segment = &mut self.segments[stream.segment];
            if segment.start <= start && start <= stream.limit {
                segment.used = self.requests;
                return if end <= segment.end {
                    Held::All
                } else {
                    let halted = segment.end == stream.limit;
                    let from = if halted { stream.from.max(now) } else { stream.from };
                    Held::Coming { next: segment.end, from, arm: stream.arm, halted }
                };
            }
        }
        let held = |segment: &&mut Segment| segment.start <= start && start < segment.end;
        let Some(segment) = self.segments.iter_mut().find(held) else { return Held::Nothing };
        segment.used = self.requests;
        if end <= segment.end { Held::All } else { Held::Beginning { next: segment.end } }
    }

    /// Returns true if it has `sector`, or is going to without another movement.
    #[must_use]
    pub fn has(&self, sector: u64) -> bool {
        let coming = |stream: &Stream| self.segments[stream.segment].start <= sector && sector < stream.limit;
        self.segments.iter().any(|segment| segment.start <= sector && sector < segment.end)
            || self.stream.as_ref().is_some_and(coming)
    }

    /// Notes that the host took the sectors up to `end` at `now`, which makes room to read on.
    pub fn taken(&mut self, mechanism: &Mechanism, end: u64, now: Time) {
        let Some(Stream { segment, .. }) = self.stream else { return };
        let limit = self.limit(mechanism, self.segments[segment].start, end);
        let Some(stream) = &mut self.stream else { return };
        let segment = &self.segments[stream.segment];
        if segment.start < end && limit > stream.limit {
            if segment.end == stream.limit {
                stream.from = stream.from.max(now);
            }
            stream.limit = limit;
        }
    }

    /// Notes that the sectors from `start` to `end` have passed under the heads, the last one at
    /// `at`; the drive reads on.
    pub fn filled(&mut self, mechanism: &Mechanism, start: u64, end: u64, at: Time, arm: Arm) {
        let extends =
            |segment: &Segment| segment.start < segment.end && (segment.start..=segment.end).contains(&start);
        let oldest = |segments: &[Segment]| (0..segments.len()).min_by_key(|n| segments[*n].used);
        let found = self.segments.iter().position(extends);
        let Some(index) = found.or_else(|| oldest(&self.segments)) else { return };
        let segment = &mut self.segments[index];
        if found.is_none() {
            segment.start = start;
        }
        segment.end = end;
        segment.start = segment.start.max(end.saturating_sub(self.capacity));
        segment.used = self.requests;
        let limit = self.limit(mechanism, self.segments[index].start, end);
        self.stream = Some(Stream { segment: index, from: at, limit, arm });
    }

    /// Returns the sector at which reading on halts, behind a read that ended at `end`, into a
    /// segment that begins at `start`.
    fn limit(&self, mechanism: &Mechanism, start: u64, end: u64) -> u64 {
        let geometry = &mechanism.geometry;
        let until = match self.until {
            ReadAheadUntil::Distance => u64::MAX,
            ReadAheadUntil::Track => geometry.track_bounds(end - 1).1,
            ReadAheadUntil::NextTrack => match geometry.track_bounds(end) {
                (track_start, track_end) if start < track_start => geometry.track_bounds(track_end).1,
                (_, track_end) => track_end,
            },
            ReadAheadUntil::Cylinder => geometry.cylinder_end(end - 1),
        };
        (end + self.read_ahead).min(until).max(end)
    }

    /// Returns the heads are needed elsewhere at `now`: reading on ends, and they are found here.
    pub fn interrupt(&mut self, mechanism: &Mechanism, now: Time) -> Option<Arm> {
        self.read_on(mechanism, now);
        self.stream.take().map(|stream| stream.arm)
    }

    /// Returns the sectors from `start` to `end` are being written at `now`: what the buffer has of
    /// them is stale. Where reading on would have to go back for them, it ends, and the heads are
    /// found here.
    pub fn invalidate(&mut self, mechanism: &Mechanism, start: u64, end: u64, now: Time) -> Option<Arm> {
        self.read_on(mechanism, now);
        let mut arm = None;
        for (n, segment) in self.segments.iter_mut().enumerate() {
            if segment.start < end && start < segment.end {
                segment.end = segment.start.max(start);
                if self.stream.as_ref().is_some_and(|stream| stream.segment == n) {
                    arm = self.stream.take().map(|stream| stream.arm);
                }
            }
        }
        arm
    }

    /// Lets the stream come to where it is at `now`.
    fn read_on(&mut self, mechanism: &Mechanism, now: Time) {
        let Some(stream) = &mut self.stream else { return };
        let segment = &mut self.segments[stream.segment];
        let limit = stream.limit.min(mechanism.geometry.sectors());
        let count = limit.saturating_sub(segment.end);
        let reached = mechanism.progress(stream.arm, segment.end, count, stream.from, now);
        segment.end += reached.sectors;
        segment.start = segment.start.max(segment.end.saturating_sub(self.capacity));
        (stream.from, stream.arm, stream.limit) = (reached.end, reached.arm, limit);
    }
}
