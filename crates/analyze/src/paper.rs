//! The measurements of 1985 on three VAX-11/780 at Berkeley, as data: Ousterhout et al., "A
//! Trace-Driven Analysis of the UNIX 4.2 BSD File System", Tables III to V, and statements of its
//! text about its figures.
//!
//! Its "Mbytes" are millions: 1220 of them in 79.4 hours are the 4200 bytes per second of Table IV,
//! and likewise for the other traces.

use spindle_trace::Kind;

/// One of the paper's traces.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Its name in the paper.
    pub name: &'static str,
    /// Duration in hours (Table III, like all fields up to `events`).
    pub hours: f64,
    /// Number of events.
    pub records: f64,
    /// Size of the trace, in MB.
    pub file_mb: f64,
    /// Data read and written, in MB.
    pub moved_mb: f64,
    /// Number of events by kind.
    pub events: [(Kind, f64); 7],
    /// Bytes per second over the whole trace (Table IV, like all fields up to `second_rate`).
    pub throughput: f64,
    /// Number of users.
    pub users: f64,
    /// Maximum number of active users in ten minutes.
    pub most_active: f64,
    /// Active users in ten minutes, mean and deviation.
    pub minute_users: (f64, f64),
    /// Bytes per second per active user, over ten minutes.
    pub minute_rate: (f64, f64),
    /// Active users in ten seconds.
    pub second_users: (f64, f64),
    /// Bytes per second per active user, over ten seconds.
    pub second_rate: (f64, f64),
    /// Whole-file reads, and their share of read-only accesses (Table V, like all that follow).
    pub whole_reads: (f64, f64),
    /// Whole-file writes, and their share of write-only accesses.
    pub whole_writes: (f64, f64),
    /// MB transferred in whole-file transfers, and their share.
    pub whole_mb: (f64, f64),
    /// Sequential read-only accesses.
    pub sequential_reads: (f64, f64),
    /// Sequential write-only accesses.
    pub sequential_writes: (f64, f64),
    /// Sequential read-write accesses.
    pub sequential_both: (f64, f64),
    /// MB transferred sequentially.
    pub sequential_mb: (f64, f64),
}

const fn events(counts: [u32; 7]) -> [(Kind, f64); 7] {
    use Kind::{Close, Create, Exec, Open, Seek, Truncate, Unlink};
    let [create, open, close, seek, unlink, truncate, exec] = counts;
    [
        (Create, create as f64),
        (Open, open as f64),
        (Close, close as f64),
        (Seek, seek as f64),
        (Unlink, unlink as f64),
        (Truncate, truncate as f64),
        (Exec, exec as f64),
    ]
}

/// The three traces: "Ucbarpa" and "Ucbernie", used for programs and documents, and "Ucbcad", for
/// circuit design.
pub const TRACES: [Trace; 3] = [
    Trace {
        name: "A5",
        hours: 79.4,
        records: 1_017_464.0,
        file_mb: 26.0,
        moved_mb: 1220.0,
        events: events([38_142, 320_065, 358_191, 185_709, 37_780, 1_485, 60_712]),
        throughput: 4200.0,
        users: 137.0,
        most_active: 29.0,
        minute_users: (11.7, 5.8),
        minute_rate: (370.0, 290.0),
        second_users: (2.5, 1.5),
        second_rate: (1490.0, 10_000.0),
        whole_reads: (168_127.0, 0.69),
        whole_writes: (78_542.0, 0.82),
        whole_mb: (664.0, 0.54),
        sequential_reads: (221_136.0, 0.92),
        sequential_writes: (92_954.0, 0.97),
        sequential_both: (4215.0, 0.19),
        sequential_mb: (801.0, 0.66),
    },
    Trace {
        name: "E3",
        hours: 65.7,
        records: 921_526.0,
        file_mb: 23.0,
        moved_mb: 1196.0,
        events: events([37_172, 280_579, 317_763, 169_714, 36_517, 2_070, 64_732]),
        throughput: 5080.0,
        users: 331.0,
        most_active: 44.0,
        minute_users: (18.7, 10.1),
        minute_rate: (280.0, 190.0),
        second_users: (3.3, 2.0),
        second_rate: (1380.0, 4100.0),
        whole_reads: (131_408.0, 0.63),
        whole_writes: (67_340.0, 0.81),
        whole_mb: (592.0, 0.49),
        sequential_reads: (189_734.0, 0.91),
        sequential_writes: (79_847.0, 0.96),
        sequential_both: (5459.0, 0.21),
        sequential_mb: (804.0, 0.67),
    },
    Trace {
        name: "C4",
        hours: 72.5,
        records: 733_403.0,
        file_mb: 18.0,
        moved_mb: 1030.0,
        events: events([29_462, 203_613, 233_078, 189_245, 28_373, 1_115, 37_704]),
        throughput: 3940.0,
        users: 169.0,
        most_active: 20.0,
        minute_users: (7.4, 4.1),
        minute_rate: (570.0, 760.0),
        second_users: (1.7, 1.1),
        second_rate: (1790.0, 7400.0),
        whole_reads: (93_469.0, 0.70),
        whole_writes: (60_363.0, 0.85),
        whole_mb: (547.0, 0.53),
        sequential_reads: (122_557.0, 0.93),
        sequential_writes: (76_425.0, 0.98),
        sequential_both: (8163.0, 0.35),
        sequential_mb: (703.0, 0.68),
    },
];

impl Trace {
    /// Returns the number of events of the listed kinds: 98.5 % of all records, and the total of
    /// the paper's shares.
    #[must_use]
    pub fn listed_events(&self) -> f64 {
        self.events.iter().map(|(_, count)| count).sum()
    }

    /// Returns the number of events of a kind; `None` for kinds that were not recorded then.
    #[must_use]
    pub fn count(&self, kind: Kind) -> Option<f64> {
        self.events.iter().find(|(of, _)| *of == kind).map(|&(_, count)| count)
    }
}

/// A statement of the paper's text about a curve: the share below a value.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// The value, in the unit of the curve: bytes or ns.
    pub below: u64,
    /// The share, from and to.
    pub share: (f64, f64),
}

const fn anchor(below: u64, from: f64, to: f64) -> Anchor {
    Anchor { below, share: (from, to) }
}

const SECOND: u64 = 1_000_000_000;

/// Figure 1(a): lengths of runs, by runs.
pub const RUNS: [Anchor; 1] = [anchor(4000, 0.70, 0.75)];
/// Figure 1(b): by bytes.
pub const RUN_BYTES: [Anchor; 1] = [anchor(25_000, 0.60, 0.70)];
/// Figure 2(a): sizes at close, by accesses.
pub const SIZES: [Anchor; 1] = [anchor(10_000, 0.80, 0.80)];
/// Figure 2(b): by bytes moved.
pub const SIZE_BYTES: [Anchor; 1] = [anchor(10_000, 0.30, 0.30)];
/// Figure 3: open times.
pub const OPEN_TIMES: [Anchor; 2] = [anchor(SECOND / 2, 0.70, 0.80), anchor(10 * SECOND, 0.90, 0.90)];
/// Figure 4(a): lives of new files.
pub const LIVES: [Anchor; 1] = [anchor(200 * SECOND, 0.80, 0.80)];
/// Figure 4(b), and the fourth line of Table I: by bytes.
pub const LIFE_BYTES: [Anchor; 3] =
    [anchor(30 * SECOND, 0.20, 0.30), anchor(200 * SECOND, 0.40, 0.40), anchor(300 * SECOND, 0.50, 0.50)];
/// Section 3.1: time between events of an open file.
pub const INTERVALS: [Anchor; 3] =
    [anchor(SECOND / 2, 0.75, 0.75), anchor(10 * SECOND, 0.90, 0.90), anchor(30 * SECOND, 0.99, 0.99)];

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the figures agree with each other within the paper's rounding, so none was misread.
    #[test]
    fn figures_agree() {
        for trace in &TRACES {
            let all = trace.listed_events();
            // The kinds add up to 98.5 % of the records.
            assert!((all / trace.records - 1.0).abs() < 0.016, "{}: {all}", trace.name);
            let rate = trace.moved_mb * 1e6 / (trace.hours * 3600.0);
            assert!((rate / trace.throughput - 1.0).abs() < 0.02, "{}: {rate}", trace.name);
            for (mb, share) in [trace.whole_mb, trace.sequential_mb] {
                assert!((mb / trace.moved_mb - share).abs() < 0.006, "{}", trace.name);
            }
            // Accesses of the three modes, from counts and shares, are as many as closes.
            let accesses: f64 = [trace.sequential_reads, trace.sequential_writes, trace.sequential_both]
                .map(|(count, share)| count / share)
                .iter()
                .sum();
            let closes = trace.count(Kind::Close).unwrap();
            assert!((accesses / closes - 1.0).abs() < 0.02, "{}: {accesses}", trace.name);
        }
    }
}
