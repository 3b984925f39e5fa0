//! Tests of fio's logs: hand-made ones, and those of the real fio.

use crate::Kind;
use crate::import::mutations::{events, failure, read};
use std::process::Command;

pub(crate) const V2: &str = "fio version 2 iolog\n/a b add\n/a b open\n/a b read 0 4096\n/a b wait 150 0\n\
    /a b read 4096 4096\n/a b write 100 10\n/a b trim 0 4096\n/a b sync 0 0\n/a b close\n";
pub(crate) const LATENCY: &str = "0, 15533, 1, 4096, 0, 0\n7, 100, 0, 512, 45056, 0\n";

/// Promise: reads and writes of an iolog are merged into runs of its open files, and waits advance
/// the time.
#[test]
fn an_iolog_of_version_2() {
    let (batch, _) = events(V2, None).unwrap();
    let found: Vec<_> = batch
        .events
        .iter()
        .map(|e| (e.time, e.kind, e.position, e.read, e.written, e.new_position, batch.names.word(e.path)))
        .collect();
    assert_eq!(
        found,
        [
            (0, Kind::Open, 0, 0, 0, 0, "/a b"),
            (150_000, Kind::Seek, 0, 8192, 0, 100, "/a b"),
            (150_000, Kind::Sync, 0, 0, 0, 0, "/a b"),
            (150_000, Kind::Close, 100, 0, 10, 0, "/a b"),
        ]
    );
    assert!(failure(format!("{V2}/a b jump\n"), None).contains("line 11: unknown action \"jump\""));
    assert!(failure(V2.replace("0 4096\n/a b wait", "0 x\n/a b wait"), None).contains("line 4"));
    assert!(failure("0, 1, 1, 4096\n", Some("fio-log")).contains("line 1: there is no offset"));
}

/// Promise: logs of the real fio contain what it was asked to do: each block of the file once.
#[test]
fn logs_of_the_real_fio() {
    let dir = tempfile::tempdir().unwrap();
    let done = Command::new("fio")
        .args(["--name=j", "--filename=data", "--size=64k", "--bs=4k", "--rw=randwrite", "--ioengine=psync"])
        .args(["--write_iolog=iolog", "--write_lat_log=l", "--log_offset=1", "--output=/dev/null"])
        .current_dir(dir.path())
        .status()
        .expect("fio is a Debian package that `make setup` installs");
    assert!(done.success());
    for log in ["iolog", "l_lat.1.log"] {
        let (batch, info) = read(&dir.path().join(log), None).unwrap();
        assert!(info.source.starts_with("import fio-"));
        let mut blocks: Vec<_> = batch
            .events
            .iter()
            .filter(|e| e.written > 0)
            .flat_map(|e| (e.position..e.end()).step_by(4096))
            .collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..65536).step_by(4096).collect::<Vec<_>>(), "{log}");
    }
}
