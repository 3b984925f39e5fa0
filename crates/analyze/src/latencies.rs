//! Shows how long calls took, by call and by the size of the file, and stores it.

use super::outcome::table_section;
use super::parts::{Count, How, Part, Read, Reader, number};
use spindle_report::Section;
use spindle_report::number::{real, share};
use spindle_report::outcome::{Cell, Column, Figure, Measured, Plot, Series, Table, Unit};
use spindle_trace::latency::{BUCKETS, Call, Class, Latencies, shortest};

/// Returns the table and the figure; none if nothing was measured.
pub fn section(latencies: &Latencies) -> Option<Section> {
    if latencies.is_empty() {
        return None;
    }
    let heads = ["", "files", "calls", "median", "90 %", "99 %", "99.9 %", "longest"];
    let mut table = Table::new("", heads.map(|head| Column::new(head, 0)));
    for (call, class, counts) in latencies.rows() {
        let counts = Counts::new(counts);
        let time = |part| Cell::from(milliseconds(counts.quantile(part)));
        let calls = Measured::new(real(counts.calls), 0);
        let name = Cell::from(call.name());
        let times = [0.5, 0.9, 0.99, 0.999].map(time);
        let longest = Cell::from(milliseconds(counts.longest()));
        table.row([name, class.title().into(), calls.into()].into_iter().chain(times).chain([longest]));
    }
    table.explain(
        "Milliseconds from the beginning of a call to its end, with the size of the file when it returned. Each is exact to a quarter: \
         calls are counted in buckets of time, four for each doubling, and within one they count as spread evenly. The longest is the end \
         of its bucket. Not measured are requests of io_uring and libaio, and calls that failed.",
    );
    let mut section = table_section("latency", "How long calls took", table);
    let series = Call::ALL.into_iter().filter_map(|(call, name)| {
        let all = latencies.rows().filter(|row| row.0 == call).flat_map(|(_, _, counts)| counts);
        let counts = Counts::new(all);
        (counts.calls > 0).then(|| Series { name: name.into(), points: counts.curve() })
    });
    let plot = Plot::Cumulative {
        x: "time from the beginning of a call to its end".into(),
        unit: Unit::Seconds,
        y: "share of calls up to this time".into(),
        series: series.collect(),
        marks: Vec::new(),
    };
    section.outcome.figures.push(Figure { title: "How long calls took".into(), plot });
    Some(section)
}

/// Shows nanoseconds in milliseconds.
fn milliseconds(ns: f64) -> Measured {
    Measured::new(ns / 1e6, 4)
}

/// Stores the rows by the numbers of their calls and classes, and of these the buckets that are not
/// empty, by their numbers.
impl Part for Latencies {
    fn merge(&mut self, other: &Self) {
        Self::merge(self, other);
    }

    fn write(&self, out: &mut Vec<u8>) {
        number(self.rows().count() as u64, out);
        for (call, class, counts) in self.rows() {
            let counts: Vec<_> = counts.collect();
            number(call as u64, out);
            number(Class::ALL.iter().position(|one| *one == class).unwrap_or_default() as u64, out);
            number(counts.len() as u64, out);
            for (bucket, calls) in counts {
                number(bucket as u64, out);
                Count::write(&calls, out);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        let mut read = Self::default();
        for _ in 0..from.index(Call::ALL.len() * Class::ALL.len() + 1, "too many times of calls")? {
            let (call, _) = Call::ALL[from.index(Call::ALL.len(), "times of an unknown call")?];
            let class = Class::ALL[from.index(Class::ALL.len(), "times of files of an unknown size")?];
            for _ in 0..from.index(BUCKETS + 1, "more times than there are")? {
                let bucket = from.index(BUCKETS, "a time that there is not")?;
                read.add(call, class, bucket, Count::read(from)?);
            }
        }
        Ok(read)
    }
}

/// Calls by bucket.
struct Counts {
    buckets: [u64; BUCKETS],
    calls: u64,
}

impl Counts {
    fn new(counts: impl Iterator<Item = (usize, u64)>) -> Self {
        let mut found = Self { buckets: [0; BUCKETS], calls: 0 };
        for (bucket, calls) in counts {
            found.buckets[bucket] = found.buckets[bucket].saturating_add(calls);
            found.calls = found.calls.saturating_add(calls);
        }
        found
    }

    /// Returns the time in ns within which the share `part` of the calls, from 0 to 1, has ended.
    fn quantile(&self, part: f64) -> f64 {
        let wanted = real(self.calls) * part;
        let mut before = 0.0;
        for (bucket, &calls) in self.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0) {
            if before + real(calls) >= wanted {
                let (from, to) = (real(shortest(bucket)), real(shortest(bucket + 1)));
                return from + (to - from) * (wanted - before) / real(calls);
            }
            before += real(calls);
        }
        self.longest()
    }

    /// Returns the time in ns within which all calls have ended.
    fn longest(&self) -> f64 {
        self.buckets.iter().rposition(|&calls| calls > 0).map_or(0.0, |bucket| real(shortest(bucket + 1)))
    }

    /// Returns seconds, and the share of the calls that have ended within them.
    fn curve(&self) -> Vec<(f64, f64)> {
        let mut ended = 0;
        let filled = self.buckets.iter().enumerate().filter(|(_, calls)| **calls > 0);
        filled
            .map(|(bucket, calls)| {
                ended += calls;
                (real(shortest(bucket + 1)) / 1e9, share(ended, self.calls).unwrap_or(0.0))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_trace::latency::bucket_of;

    /// Promise: quantiles lie in the bucket of their call, and curves end at 1 with the longest.
    #[test]
    fn quantiles() {
        let mut latencies = Latencies::default();
        for ns in 1..=1000_u64 {
            latencies.add(Call::Read, Class::File(0), bucket_of(ns * 1000), 1);
        }
        let (_, _, counts) = latencies.rows().next().unwrap();
        let counts = Counts::new(counts);
        for (part, ns) in [(0.5, 500_000.0), (0.9, 900_000.0), (0.99, 990_000.0)] {
            let found = counts.quantile(part);
            assert!((found - ns).abs() < ns * 0.05, "{part}: {found}");
        }
        assert!((counts.longest() - 1_048_576.0).abs() < 1.0);
        assert_eq!(counts.curve().last(), Some(&(counts.longest() / 1e9, 1.0)));
        assert!(section(&Latencies::default()).is_none());
        assert_eq!(section(&latencies).unwrap().outcome.figures.len(), 1);
    }
}
