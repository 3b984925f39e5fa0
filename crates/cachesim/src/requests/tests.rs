//! Requests from events and from files, and their numbers.

use super::*;
use spindle_trace::{Batch, Event, FileId, Info, Kind, Source};
use std::num::NonZeroU64;

/// Returns all requests.
fn all<R: Requests>(mut requests: R) -> Result<Vec<Request<R::Block>>> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while requests.next(&mut batch)? {
        assert!(!batch.is_empty() && batch.len() <= BATCH);
        all.extend_from_slice(&batch);
    }
    assert!(batch.is_empty());
    Ok(all)
}

/// A source of batches of events.
struct MemorySource(Vec<Vec<Event>>);

impl Source for MemorySource {
    fn info(&self) -> Info {
        Info::default()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        if !self.0.is_empty() {
            batch.events = self.0.remove(0);
        }
        Ok(!batch.events.is_empty())
    }
}

fn run(device: u64, inode: u64, position: u64, read: u64) -> Event {
    let file = FileId { device, inode };
    Event { kind: Kind::Run, file, position, read, ..Event::default() }
}

fn id(device: u64, inode: u64, block: u64) -> BlockId {
    BlockId { file: FileId { device, inode }, block }
}

/// Promise: a run of a disk makes one request for every block that it touches, in order, and an
/// empty run makes none.
#[test]
fn runs_touch_blocks() {
    let unit = Unit::Bytes(NonZeroU64::new(4096).unwrap());
    let events =
        vec![vec![run(7, 0, 4095, 2), run(7, 0, 8192, 4096)], vec![run(7, 0, 0, 0), run(8, 0, 0, 1)]];
    let expected = [(7, 0), (7, 1), (7, 2), (8, 0)].map(|(disk, block)| Request::Use(id(disk, 0, block)));
    assert_eq!(all(Events::new(MemorySource(events), unit)).unwrap(), expected);
}

/// Promise: an object is one block of any size, and its deletion is reported.
#[test]
fn objects_are_blocks() {
    let gone = Event { kind: Kind::Unlink, ..run(0, 5, 0, 0) };
    let events = vec![vec![run(0, 5, 0, 1 << 40), run(0, 6, 0, 0), gone, run(0, 5, 0, 1)]];
    let [five, six] = [5, 6].map(|object| id(0, object, 0));
    let expected = [Request::Use(five), Request::Use(six), Request::Deleted(five), Request::Use(five)];
    assert_eq!(all(Events::new(MemorySource(events), Unit::Object)).unwrap(), expected);
}

/// Promise: a run larger than memory makes requests batch by batch.
#[test]
fn a_huge_run_needs_no_memory() {
    let unit = Unit::Bytes(NonZeroU64::MIN);
    let mut requests = Events::new(MemorySource(vec![vec![run(0, 0, u64::MAX - 10, u64::MAX)]]), unit);
    let mut batch = Vec::new();
    assert!(requests.next(&mut batch).unwrap());
    assert_eq!(batch.len(), 10);
    let mut requests = Events::new(MemorySource(vec![vec![run(0, 0, 0, u64::MAX)]]), unit);
    for _ in 0..3 {
        assert!(requests.next(&mut batch).unwrap());
    }
    assert_eq!((batch.len(), batch[0]), (BATCH, Request::Use(id(0, 0, 2 * BATCH as u64))));
}

/// Promise: a trace of programs is refused, naming the event.
#[test]
fn traces_of_programs_are_refused() {
    let close = Event { kind: Kind::Close, time: 99, ..run(0, 1, 0, 5) };
    let error = all(Events::new(MemorySource(vec![vec![close]]), Unit::Object)).unwrap_err().to_string();
    assert!(error.contains("close at 99 ns"), "{error}");
}

/// Promise: numbers are dense, in order of appearance, and reused after deletion; the deletion of
/// an unused block is left out.
#[test]
fn numbers_are_dense() {
    use Request::{Deleted, Use};
    let named = [Use(50_u64), Use(9), Deleted(7), Use(50), Deleted(50), Use(8), Use(50), Use(9)];
    let mut numbered = RequestList::new(&named).numbered();
    assert_eq!(all(&mut numbered).unwrap(), [Use(0), Use(1), Use(0), Deleted(0), Use(0), Use(2), Use(1)]);
    assert_eq!(numbered.blocks(), 3);
    assert_eq!(all(RequestList::new(&[Deleted(7_u64)]).numbered()).unwrap(), []);
}

/// Promise: a file of oracleGeneral records gives its objects, in more than one batch, and an
/// incomplete one is refused.
#[test]
fn oracle_general_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.oracleGeneral");
    let objects: Vec<u64> = (0..BATCH as u64 * 2 + 5).map(|n| n << 40 | 3).collect();
    let mut bytes = Vec::new();
    for object in &objects {
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(object.to_le_bytes());
        bytes.extend([0xff; 12]);
    }
    std::fs::write(&path, &bytes).unwrap();
    let expected: Vec<_> = objects.into_iter().map(Request::Use).collect();
    assert_eq!(all(OracleFile::open(&path).unwrap()).unwrap(), expected);
    bytes.pop();
    std::fs::write(&path, &bytes).unwrap();
    assert!(
        OracleFile::open(&path).unwrap_err().to_string().contains("not a multiple of the record size 24")
    );
}
