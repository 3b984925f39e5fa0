//! Damaged traces of every format, and helpers for the tests of the formats.

use super::FORMATS;
use super::binary::tests as binary;
use crate::{Batch, Columns, Info, Result, open_as};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;

/// Returns all events of a trace with this content.
pub(super) fn events(content: impl AsRef<[u8]>, format: Option<&str>) -> Result<(Batch, Info)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign");
    std::fs::write(&path, content).unwrap();
    read(&path, format)
}

/// Returns all events of a file.
pub(super) fn read(path: &Path, format: Option<&str>) -> Result<(Batch, Info)> {
    let mut source = open_as(path, format, Columns::ALL)?;
    let (mut all, mut batch) = (Batch::default(), Batch::default());
    while source.next(&mut batch)? {
        all.extend(&batch.events, &batch.names);
    }
    Ok((all, source.info()))
}

/// Returns the error message for a trace that cannot be read.
pub(super) fn failure(content: impl AsRef<[u8]>, format: Option<&str>) -> String {
    events(content, format).expect_err("this cannot be read").to_string()
}

/// Returns a valid sample of each format, with its format argument.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("strace", super::strace::tests::SAMPLE.into()),
        ("msr", super::msr::tests::SAMPLE.into()),
        ("oracle-general", binary::oracle(binary::ORACLE)),
        ("lcs", binary::lcs()),
        ("blkparse", super::blkparse::tests::SAMPLE.into()),
        ("fio-iolog", super::fio::tests::V2.into()),
        ("fio-log", super::fio::tests::LATENCY.into()),
        ("fiu-block", super::fiu::tests::BLOCKS.into()),
        ("fiu-syscall", super::fiu::tests::CALLS.into()),
        ("vscsi", super::vscsi::tests::sample(1)),
        ("vscsi", super::vscsi::tests::sample(2)),
        (super::table::tests::COLUMNS, super::table::tests::SAMPLE.into()),
        ("txt", b"a\nb\na\n".to_vec()),
        ("binary:format=<IQIq,time-col=1,obj-id-col=2,obj-size-col=3", binary::oracle(binary::ORACLE)),
    ]
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Promise: each format has a sample here that can be read, and that is detected if its format can
/// be.
#[test]
fn samples_are_detected() {
    let samples = samples();
    for format in FORMATS {
        assert!(
            samples.iter().any(|(name, _)| name.split(':').next() == Some(format.name)),
            "{}",
            format.name
        );
    }
    for (name, sample) in samples {
        let (batch, info) = events(&sample, Some(name)).unwrap();
        assert!(!batch.events.is_empty(), "{name}");
        let plain = name.split(':').next().unwrap();
        assert_eq!(info.source, format!("import {plain}"));
        let format = FORMATS.iter().find(|format| format.name == plain).unwrap();
        if (format.recognises)(&sample) {
            assert_eq!(events(&sample, None).unwrap().1.source, info.source);
        }
    }
}

/// Promise: reading any file ends without a panic, in events or in an error that names the file,
/// and all its events are valid.
#[test]
fn torture_damaged_traces() {
    let seed = env("SPINDLE_SEED").unwrap_or_else(|| StdRng::from_os_rng().random());
    println!("SPINDLE_SEED={seed} cargo test -p spindle-trace torture_damaged_traces");
    let mut random = StdRng::seed_from_u64(seed);
    let samples = samples();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("foreign");
    let mut good = 0;
    for _ in 0..env("SPINDLE_CASES").unwrap_or(600) {
        let (name, sample) = &samples[random.random_range(0..samples.len())];
        let mut bytes = sample.clone();
        for _ in 0..random.random_range(1..6) {
            damage(&mut bytes, &mut random);
        }
        std::fs::write(&path, &bytes).unwrap();
        let format = random.random_bool(0.7).then_some(*name);
        match read(&path, format) {
            Ok((batch, _)) => {
                good += 1;
                for event in &batch.events {
                    assert!(event.read == 0 || event.written == 0);
                    assert!(i64::try_from(event.end()).is_ok(), "{name}: {event:?}");
                }
            }
            Err(error) => assert!(error.to_string().contains("foreign"), "{error}"),
        }
    }
    assert!(good > 0, "all were refused");
}

fn damage(bytes: &mut Vec<u8>, random: &mut StdRng) {
    if bytes.is_empty() {
        return;
    }
    let at = random.random_range(0..bytes.len());
    let to = random.random_range(at..bytes.len()).min(at + 64);
    match random.random_range(0..7) {
        0 => bytes[at] = random.random(),
        1 => bytes[at] = *b"()<>[]{},= \"\\\n0-9/".get(random.random_range(0..18)).unwrap(),
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(at..to)),
        4 => {
            let part = bytes[at..to].to_vec();
            let place = random.random_range(0..bytes.len());
            bytes.splice(place..place, part);
        }
        5 => {
            let number = ["18446744073709551615", "-1", "9223372036854775807", "0", "99999999999999999999"];
            let number = number[random.random_range(0..number.len())];
            bytes.splice(at..to, number.bytes());
        }
        _ => {
            let extreme = [0, u64::MAX, i64::MAX as u64, 1 << 63][random.random_range(0..4)];
            for (place, byte) in bytes[at..].iter_mut().zip(extreme.to_le_bytes()) {
                *place = byte;
            }
        }
    }
}
