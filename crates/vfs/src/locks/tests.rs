//! Waiting, waking, deadlock and interruption.

use super::*;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const A: LockOwner = LockOwner(1);
const B: LockOwner = LockOwner(2);
const C: LockOwner = LockOwner(3);
const F: Ino = Ino(10);
const G: Ino = Ino(11);
/// Timeout that no working test reaches, even on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

use LockKind::{Exclusive, Shared};

fn errno(result: Result<()>) -> i32 {
    result.err().map_or(0, |error| error.errno())
}

/// Runs `work` on a thread; the receiver gets its error number.
fn start(work: impl FnOnce() -> Result<()> + Send + 'static) -> mpsc::Receiver<i32> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(errno(work())));
    receiver
}

/// Waits until this many requests are waiting in the table.
fn until_waiting(table: &LockTable, count: usize) {
    while table.0.lock().waiters.len() < count {
        thread::yield_now();
    }
}

fn range(table: &Arc<LockTable>, ino: Ino, owner: LockOwner, start: u64, len: u64) -> mpsc::Receiver<i32> {
    let table = table.clone();
    super::tests::start(move || {
        let range = ByteRange::from_len(start, len);
        table.lock_range(ino, owner, 0, range, Exclusive, Wait::Until(&Interrupt::new()))
    })
}

/// Promise: shared whole-file locks can be held together, an exclusive one only alone; each owner
/// converts its own lock.
#[test]
fn whole_file_without_waiting() {
    let table = LockTable::new();
    let lock = |owner, kind| errno(table.lock_whole(F, owner, kind, Wait::No));
    assert_eq!(lock(A, Shared), 0);
    assert_eq!(lock(B, Shared), 0);
    assert_eq!(lock(A, Exclusive), 11, "B shares it");
    assert_eq!(lock(C, Exclusive), 11);
    table.unlock_whole(F, B);
    assert_eq!(lock(C, Exclusive), 11, "a refused conversion kept A's shared lock");
    assert_eq!(lock(A, Exclusive), 0, "upgrade");
    assert_eq!(lock(B, Shared), 11);
    assert_eq!(lock(A, Shared), 0, "downgrade");
    assert_eq!(lock(B, Shared), 0);
    assert_eq!(errno(table.lock_range(F, C, 0, ByteRange::ALL, Exclusive, Wait::No)), 0, "another world");
    table.unlock_whole(F, A);
    table.unlock_whole(F, B);
    table.unlock_range(F, C, ByteRange::ALL);
    assert!(table.is_free(F));
}

/// Promise: `test_range` returns the first blocking lock, never one of the owner's own.
#[test]
fn test_names_the_holder() {
    let table = LockTable::new();
    let at = |start, len| ByteRange::from_len(start, len);
    table.lock_range(F, A, 77, at(10, 10), Exclusive, Wait::No).unwrap();
    table.lock_range(F, B, 88, at(30, 0), Shared, Wait::No).unwrap();
    let holder = table.test_range(F, C, at(0, 0), Exclusive).unwrap();
    assert_eq!(holder, LockHolder { owner: A, pid: 77, kind: Exclusive, range: at(10, 10) });
    assert_eq!(table.test_range(F, C, at(15, 100), Shared).unwrap().pid, 77);
    assert_eq!(table.test_range(F, C, at(20, 100), Shared), None);
    assert_eq!(table.test_range(F, C, at(20, 100), Exclusive).unwrap().pid, 88);
    assert_eq!(table.test_range(F, A, at(0, 20), Exclusive), None);
    assert_eq!(table.test_range(G, C, at(0, 0), Exclusive), None);
}

/// Promise: a waiter gets the lock when the last blocking lock is released; meanwhile others lock
/// and unlock.
#[test]
fn waiters_wait_alone() {
    let table = Arc::new(LockTable::new());
    let at = |start, len| ByteRange::from_len(start, len);
    table.lock_range(F, A, 0, at(0, 10), Exclusive, Wait::No).unwrap();
    table.lock_range(F, B, 0, at(10, 10), Exclusive, Wait::No).unwrap();
    let waiter = range(&table, F, C, 5, 10);
    until_waiting(&table, 1);
    table.lock_range(F, LockOwner(4), 0, at(100, 1), Exclusive, Wait::No).unwrap();
    table.lock_whole(G, A, Exclusive, Wait::No).unwrap();
    table.unlock_range(F, A, at(0, 10));
    assert!(waiter.try_recv().is_err(), "B is still in the way");
    table.unlock_range(F, B, at(10, 10));
    assert_eq!(waiter.recv_timeout(PATIENCE), Ok(0));
    assert_eq!(table.test_range(F, A, at(0, 100), Exclusive).unwrap().owner, C);
}

/// Promise: two owners that share a whole-file lock and both request it exclusively get it one
/// after the other.
#[test]
fn two_upgrades_do_not_deadlock() {
    let table = Arc::new(LockTable::new());
    for owner in [A, B] {
        table.lock_whole(F, owner, Shared, Wait::No).unwrap();
    }
    let upgrade = |owner| {
        let table = table.clone();
        start(move || {
            table.lock_whole(F, owner, Exclusive, Wait::Until(&Interrupt::new()))?;
            table.unlock_whole(F, owner);
            Ok(())
        })
    };
    let (first, second) = (upgrade(A), upgrade(B));
    assert_eq!(first.recv_timeout(PATIENCE), Ok(0));
    assert_eq!(second.recv_timeout(PATIENCE), Ok(0));
    assert!(table.is_free(F));
}

/// Promise: a request whose owner would wait for itself, over any number of owners and files, is
/// refused; the others continue.
#[test]
fn circles_are_refused() {
    let table = Arc::new(LockTable::new());
    for (ino, owner) in [(F, A), (G, B), (Ino(12), C)] {
        table.lock_range(ino, owner, 0, ByteRange::ALL, Exclusive, Wait::No).unwrap();
    }
    let a = range(&table, G, A, 0, 1);
    until_waiting(&table, 1);
    let b = range(&table, Ino(12), B, 0, 1);
    until_waiting(&table, 2);
    let c = table.lock_range(F, C, 0, ByteRange::ALL, Shared, Wait::Until(&Interrupt::new()));
    assert_eq!(errno(c), 35);
    assert_eq!(errno(table.lock_range(F, C, 0, ByteRange::ALL, Shared, Wait::No)), 11);
    table.unlock_range(Ino(12), C, ByteRange::ALL);
    assert_eq!(b.recv_timeout(PATIENCE), Ok(0));
    table.unlock_range(G, B, ByteRange::ALL);
    assert_eq!(a.recv_timeout(PATIENCE), Ok(0));
}

/// Promise: an interrupted waiter ends with EINTR and gets no new lock, also when interrupted
/// before it waits; other waiters continue to wait.
#[test]
fn interrupts_end_waits() {
    let table = Arc::new(LockTable::new());
    table.lock_whole(F, A, Exclusive, Wait::No).unwrap();
    let lock = |owner, interrupt: &Interrupt| {
        let (table, interrupt) = (table.clone(), interrupt.clone());
        start(move || table.lock_whole(F, owner, Exclusive, Wait::Until(&interrupt)))
    };
    let (one, two) = (Interrupt::new(), Interrupt::new());
    let (b, c) = (lock(B, &one), lock(C, &two));
    until_waiting(&table, 2);
    table.interrupt(&one);
    assert_eq!(b.recv_timeout(PATIENCE), Ok(4));
    assert_eq!(errno(table.lock_whole(F, B, Exclusive, Wait::Until(&one))), 4);
    assert!(c.try_recv().is_err());
    table.unlock_whole(F, A);
    assert_eq!(c.recv_timeout(PATIENCE), Ok(0));
    table.unlock_whole(F, C);
    assert!(table.is_free(F));
}

/// Promise: with many threads locking random ranges, an exclusive lock is never shared, and nobody
/// waits forever.
#[test]
fn exclusive_is_alone() {
    use std::sync::atomic::AtomicI64;
    let table = LockTable::new();
    let slots: Vec<AtomicI64> = (0..8).map(|_| AtomicI64::new(0)).collect();
    thread::scope(|scope| {
        for owner in 1..=4u64 {
            let (table, slots) = (&table, &slots);
            scope.spawn(move || {
                for round in 0..400u64 {
                    let start = (round * 7 + owner * 3) % 8;
                    let end = (start + round % 3).min(7);
                    let exclusive = (round + owner) % 3 == 0;
                    let kind = if exclusive { Exclusive } else { Shared };
                    let range = ByteRange { start, end };
                    let by = if exclusive { -1000 } else { 1 };
                    table
                        .lock_range(F, LockOwner(owner), 0, range, kind, Wait::Until(&Interrupt::new()))
                        .unwrap();
                    for slot in &slots[start as usize..=end as usize] {
                        let before = slot.fetch_add(by, Ordering::SeqCst);
                        assert!(if exclusive { before == 0 } else { before >= 0 }, "held: {before}");
                    }
                    for slot in &slots[start as usize..=end as usize] {
                        slot.fetch_sub(by, Ordering::SeqCst);
                    }
                    table.unlock_range(F, LockOwner(owner), range);
                }
            });
        }
    });
    assert!(table.is_free(F));
}
