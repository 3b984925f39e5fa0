//! Tests of findings that merge: in any groups, and from damaged files.

use super::super::tests::{MemorySource, random::random};
use super::super::{Show, analyze_partially};
use super::*;
use crate::caches::Caches;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_cachesim::simulate;
use spindle_trace::latency::{BUCKETS, Call, Class, Latencies};
use spindle_trace::{Batch, Event, Info, Names};

fn seeded(test: &str) -> StdRng {
    let seed =
        std::env::var("SPINDLE_SEED").map_or_else(|_| StdRng::from_os_rng().random(), |s| s.parse().unwrap());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-analyze {test}");
    StdRng::seed_from_u64(seed)
}

/// Returns the findings of a trace with groups of all kinds, and with caches.
fn found(rng: &mut StdRng, number: usize) -> Partial {
    let mut names = Names::default();
    let words = ["", "/a", "/a/b.c", "/d/e/f.o"].map(|word| names.symbol(word));
    let mut events = random(rng);
    for event in &mut events {
        let [command, path] = [(); 2].map(|()| words[rng.random_range(0..words.len())]);
        *event = Event { command, path, calls: rng.random_range(0..9), ..*event };
    }
    let mut latencies = Latencies::default();
    for _ in 0..rng.random_range(0..5) {
        let class = Class::ALL[rng.random_range(0..Class::ALL.len())];
        latencies.add(Call::Read, class, rng.random_range(0..BUCKETS), 1);
    }
    let source = || {
        let batch = Batch { events: events.clone(), names: names.clone() };
        let maker = ["one", "two", "one; three"][number % 3];
        let notes = vec![format!("Note {}.", number % 2)];
        let info = Info { source: maker.into(), notes, lost: 7, latencies: latencies.clone() };
        MemorySource(Some(batch), info)
    };
    let mut partial = analyze_partially(&mut source(), &Dimension::ALL, |_| ()).unwrap();
    partial.describe(format!("{number}.trace"), (number != 3).then_some(1 << number));
    partial.simulated(&simulate(&mut source(), &Caches::grids(), &|_| ()).unwrap().results);
    partial
}

fn stored(partial: &Partial) -> Partial {
    Partial::from_bytes(Path::new("x.partial"), &partial.to_bytes()).unwrap()
}

/// Returns everything that a user can see of findings.
fn shown(partial: Partial) -> String {
    let (names, caches) = (partial.names().to_vec(), partial.caches());
    let findings = partial.findings(&Dimension::ALL, 3);
    let sections = findings.sections(&Show { caches, ..Show::default() });
    let text = spindle_report::render::sections(&sections);
    format!("{names:?}\n{text}\n{findings:?}")
}

/// Merges findings, of which each is stored before, in random groups of neighbours.
fn grouped(mut all: Vec<Partial>, rng: &mut StdRng) -> Partial {
    while all.len() > 1 {
        let at = rng.random_range(1..all.len());
        let next = stored(&all.remove(at));
        all[at - 1] = stored(&all[at - 1]);
        all[at - 1].merge(&next);
    }
    all.remove(0)
}

/// Promise: findings of random traces, stored and merged in random groups, are to the last bit
/// those that are merged one after the other, and nothing is lost when they are stored.
#[test]
fn torture_merged_in_any_groups() {
    let mut rng = seeded("torture_merged_in_any_groups");
    for case in 0..20 {
        let all: Vec<_> = (0..rng.random_range(2..8)).map(|number| found(&mut rng, number)).collect();
        let mut one = all[0].clone();
        all[1..].iter().for_each(|next| one.merge(next));
        let other = grouped(all, &mut rng);
        assert_eq!(one.to_bytes(), other.to_bytes(), "case {case}");
        assert_eq!(shown(one), shown(other), "case {case}");
    }
}

/// Promise: what is merged is what the traces have together: sums, all values of each distribution,
/// users once, the largest of the maxima, the different makers and notes.
#[test]
fn merged_is_all_of_both() {
    let mut rng = seeded("merged_is_all_of_both");
    let (a, b) = (found(&mut rng, 0), found(&mut rng, 2));
    let mut both = a.clone();
    both.merge(&b);
    let [a, b, both] = [a, b, both].map(|partial| partial.findings(&Dimension::ALL, usize::MAX));
    let sum = |of: fn(&Findings) -> u64| assert_eq!(of(&both), of(&a) + of(&b));
    sum(|found| found.totals.records());
    sum(|found| found.totals.read);
    sum(|found| found.totals.duration);
    sum(|found| found.patterns.all().accesses);
    sum(|found| found.patterns.runs.count());
    sum(|found| found.lifetimes.all().files);
    sum(|found| found.activity.seconds.count);
    sum(|found| found.requests.over_time.calls.iter().flatten().sum());
    sum(|found| found.groups[0].totals[0]);
    sum(|found| found.groups[0].rows.iter().map(|row| row.amounts[0]).sum());
    assert_eq!(both.today.open_most, a.today.open_most.max(b.today.open_most));
    assert!(both.activity.users <= 4 && both.activity.users >= a.activity.users.max(b.activity.users));
    assert_eq!((both.totals.traces, both.totals.file_bytes), (2, Some(1 + 4)));
    assert_eq!(
        (both.totals.source.as_str(), &both.totals.notes[..]),
        ("one; three", &["Note 0.".to_owned()][..])
    );
    let text = |found: &Findings| spindle_report::render::sections(&found.sections(&Show::default()));
    assert!(!text(&a).contains("2 traces") && text(&both).contains("2 traces"));
}

/// Promise: the mean and deviation over the windows of two traces are those over all their windows.
#[test]
fn windows_are_averaged_together() {
    let user = |seconds: i64, read| Event { time: seconds * 1_000_000_000, read, ..Event::default() };
    let trace = |reads: &[u64]| {
        let events = (0..).zip(reads).map(|(n, &read)| user(10 * n, 10 * read)).collect();
        let mut source = MemorySource(Some(Batch { events, names: Names::default() }), Info::default());
        analyze_partially(&mut source, &[], |_| ()).unwrap()
    };
    // The last window of each trace is not whole.
    let mut both = trace(&[2, 4, 0]);
    both.merge(&trace(&[6, 0]));
    let seconds = both.findings(&[], 0).activity.seconds;
    assert_eq!((seconds.count, seconds.most), (3, 1));
    assert!((seconds.throughput.mean - 4.0).abs() < 1e-9, "{seconds:?}");
    assert!((seconds.throughput.deviation - (8.0_f64 / 3.0).sqrt()).abs() < 1e-9, "{seconds:?}");
}

/// Promise: a group or a simulation that one of the traces lacks is not shown for the others.
#[test]
fn only_what_all_traces_have() {
    let mut rng = seeded("only_what_all_traces_have");
    let one = found(&mut rng, 0);
    let mut source = MemorySource(Some(Batch::default()), Info::default());
    let other = analyze_partially(&mut source, &[Dimension::User], |_| ()).unwrap();
    for (mut first, second) in [(one.clone(), &other), (other.clone(), &one)] {
        first.merge(second);
        let has: Vec<_> = Dimension::ALL.into_iter().filter(|&by| first.has(by)).collect();
        assert_eq!((has, first.caches()), (vec![Dimension::User], None));
        assert_eq!(first.findings(&Dimension::ALL, 1).groups.len(), 1);
    }
}

fn refused(bytes: &[u8]) -> String {
    Partial::from_bytes(Path::new("x.partial"), bytes).unwrap_err().to_string()
}

/// Promise: another file, another version, a cut and a changed byte are refused, with the name of
/// the file, the place and what is wrong.
#[test]
fn damage_is_named() {
    let good = found(&mut StdRng::seed_from_u64(1), 0).to_bytes();
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        refused(&bytes)
    };
    assert_eq!(refused(b"PAR1"), "x.partial: byte 0: these are no findings");
    let newer = changed(17, VERSION + 1);
    assert!(newer.starts_with("x.partial: byte 17: findings of version 2,"), "{newer}");
    let last = good.len() - 1;
    for said in [changed(30, good[30] ^ 1), changed(last, good[last] ^ 1), refused(&good[..last])] {
        assert!(said.starts_with("x.partial: byte 18: the checksum does not match"), "{said}");
    }
    for cut in [MAGIC.len(), MAGIC.len() + 3] {
        assert_eq!(refused(&good[..cut]), format!("x.partial: byte {cut}: the end is missing"));
    }
    let resealed = |bytes: &[u8]| refused(&sealed(bytes.to_vec()));
    assert_eq!(resealed(&good[..last]), format!("x.partial: byte {last}: the end is missing"));
    let longer = [&good[..], &[0]].concat();
    assert_eq!(resealed(&longer), format!("x.partial: byte {}: bytes after the end", last + 1));
}

/// Corrects the checksum.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(fields) = bytes.get(HEADER..) {
        let sum = crc32c::crc32c(fields);
        bytes[HEADER - 4..HEADER].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Promise: of thousands of damaged files whose checksums are right, each is refused or read,
/// whatever lengths it claims; what is read merges with others, with itself, is stored again, and
/// is shown, without a panic.
#[test]
fn torture_damaged_files() {
    let mut rng = seeded("torture_damaged_files");
    let good: Vec<_> = (0..4).map(|number| found(&mut rng, number)).collect();
    let mut read = 0;
    for case in 0..4000 {
        let mut bytes = good[case % good.len()].to_bytes();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            match rng.random_range(0..5) {
                0 => bytes[at] = rng.random(),
                1 => bytes[at] ^= 1 << rng.random_range(0..8),
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let end = (at + rng.random_range(1..10)).min(bytes.len());
                    bytes[at..end].fill([0, 0x7f, 0xff][rng.random_range(0..3)]);
                }
                _ => {
                    // A number of nine bytes, as large as a count or larger.
                    let large = [0xff; 8].into_iter().chain([rng.random_range(0..0x80)]);
                    bytes.splice(at..=at, large);
                }
            }
        }
        let Ok(mut partial) = Partial::from_bytes(Path::new("x.partial"), &sealed(bytes)) else { continue };
        read += 1;
        partial.merge(&good[0]);
        partial.merge(&partial.clone());
        assert_eq!(stored(&partial).to_bytes(), partial.to_bytes(), "case {case}");
        drop(shown(partial));
    }
    println!("{read} of 4000 were read");
    assert!(read > 100);
}

/// Promise: counts at their largest can be summed without an overflow.
#[test]
fn largest_counts() {
    let one = found(&mut StdRng::seed_from_u64(2), 0);
    let mut partial = one.clone();
    for _ in 0..60 {
        partial.activity = one.activity.clone();
        partial.names.clear();
        partial.merge(&partial.clone());
    }
    assert_eq!(stored(&partial).to_bytes(), partial.to_bytes());
    assert!(shown(partial).contains("Table V"));
}
