//! Tests of libCacheSim's binary formats, with records made here as its headers describe them.

use crate::import::mutations::{events, failure};
use crate::{Batch, Kind};

/// Returns records of oracleGeneral.
pub(crate) fn oracle(records: &[(u32, u64, u32, i64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (time, object, size, next) in records {
        bytes.extend(time.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(next.to_le_bytes());
    }
    bytes
}

pub(crate) const ORACLE: &[(u32, u64, u32, i64)] =
    &[(5, u64::MAX, 4096, 2), (5, 7, 100, -1), (6, u64::MAX, 4096, 3), (9, u64::MAX, 4096, i64::MAX)];

fn summary(batch: &Batch) -> Vec<(i64, Kind, u64, u64, u64)> {
    batch.events.iter().map(|e| (e.time, e.kind, e.file.inode, e.read, e.written)).collect()
}

/// Promise: a record is a run over its object, and the format is detected by its links, whether
/// they count from 0 or 1.
#[test]
fn oracle_general() {
    let expected = [
        (5_000_000_000, Kind::Run, u64::MAX, 4096, 0),
        (5_000_000_000, Kind::Run, 7, 100, 0),
        (6_000_000_000, Kind::Run, u64::MAX, 4096, 0),
        (9_000_000_000, Kind::Run, u64::MAX, 4096, 0),
    ];
    let (batch, info) = events(oracle(ORACLE), None).unwrap();
    assert_eq!(summary(&batch), expected);
    assert_eq!(info.source, "import oracle-general");
    let from_one: Vec<_> = ORACLE
        .iter()
        .map(|&(time, object, size, next)| {
            (time, object, size, if next > 0 && next < 9 { next + 1 } else { next })
        })
        .collect();
    assert_eq!(summary(&events(oracle(&from_one), None).unwrap().0), expected);
    let wrong = [(5, 1, 4096, 1), (5, 7, 100, -1), (6, 1, 1, -1)];
    assert!(failure(oracle(&wrong), None).contains("format of the trace was not detected"));
    assert_eq!(events(oracle(&wrong), Some("oracle-general")).unwrap().0.events.len(), 3);
}

/// Promise: an incomplete record is an error that names the place.
#[test]
fn incomplete_records_are_errors() {
    let mut bytes = oracle(ORACLE);
    bytes.pop();
    let failure = failure(bytes, Some("oracle-general"));
    assert!(failure.contains("offset 72: a record has 24 bytes, but only 23 are left"), "{failure}");
}

/// Promise: a format string has the same meaning as in libCacheSim; operations distinguish reads,
/// writes and deletions.
#[test]
fn binary_with_a_format_string() {
    let mut bytes = Vec::new();
    for (op, object, size, time) in [(1_u8, 70_000_u32, 10_u64, 3.9_f64), (13, 1, 20, 4.0), (9, 1, 0, 5.5)] {
        bytes.push(op);
        bytes.extend(object.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend(time.to_le_bytes());
    }
    let format = "binary:format=<BIQd, op-col=1,obj-id-col=2, obj-size-col=3,time-col=4";
    let (batch, _) = events(bytes.clone(), Some(format)).unwrap();
    assert_eq!(
        summary(&batch),
        [
            (3_000_000_000, Kind::Run, 70_000, 10, 0),
            (4_000_000_000, Kind::Run, 1, 0, 20),
            (5_000_000_000, Kind::Unlink, 1, 0, 0)
        ]
    );
    for (format, what) in [
        ("binary", "format= must give"),
        ("binary:format=IQ", "must start with <"),
        ("binary:format=<IQ", "obj-id-col must give"),
        ("binary:format=<IZ,obj-id-col=1", "no field type 'Z'"),
        ("binary:format=<IQ,obj-id-col=3", "no column 3"),
        ("binary:format=<IQ,obj-id-col=two", "obj-id-col is \"two\""),
        ("binary:size=1", "unknown setting \"size\"; the settings are: format, time-col"),
        ("bin", "unknown format \"bin\"; the formats are: strace"),
    ] {
        let failure = failure(bytes.clone(), Some(format));
        assert!(failure.contains(what), "{format}: {failure}");
    }
}

/// Returns an lcs file of two requests with fields as in libCacheSim's converter.
pub(crate) fn lcs() -> Vec<u8> {
    let mut header = vec![0; 1024];
    let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    header[..8].copy_from_slice(&magic);
    header[8..13].copy_from_slice(b"<IQIQ");
    (header[248], header[249], header[250], header[252]) = (2, 3, 1, 4);
    header[1000] = 4;
    header[1004] = 24;
    header[1016..].copy_from_slice(&magic);
    header.extend(oracle(&ORACLE[..2]));
    header
}

/// Promise: the header of an lcs file is used only if it is consistent.
#[test]
fn lcs_headers_describe_the_fields() {
    let (batch, info) = events(lcs(), None).unwrap();
    assert_eq!(
        summary(&batch),
        [(5_000_000_000, Kind::Run, u64::MAX, 4096, 0), (5_000_000_000, Kind::Run, 7, 100, 0)]
    );
    assert_eq!(info.source, "import lcs");
    for (at, byte, what) in [
        (1004, 25, "have 24 bytes, not 25"),
        (248, 9, "no column 9"),
        (9, b'x', "no field type"),
        (1016, 1, "magic"),
    ] {
        let mut bytes = lcs();
        bytes[at] = byte;
        let failure = failure(bytes, Some("lcs"));
        assert!(failure.contains("header: ") && failure.contains(what), "{failure}");
    }
}
