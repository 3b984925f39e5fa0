//! Disciplines of the driver's queue.

use spindle_device::Op;
use spindle_sim::{Discipline, Queue, Transfer};

const SECTORS_PER_CYLINDER: u64 = 100;

fn queue(discipline: Discipline) -> Queue<u32> {
    Queue::new(discipline, SECTORS_PER_CYLINDER)
}

fn push(queue: &mut Queue<u32>, sector: u64, owner: u32) {
    queue.push(Transfer::new(Op::Read, sector, 1), owner);
}

/// Pops everything; the head stays where it was sent.
fn drain(queue: &mut Queue<u32>, mut head: u64) -> Vec<u64> {
    let mut order = Vec::new();
    while let Some((transfer, _)) = queue.pop(head) {
        order.push(transfer.sector);
        head = transfer.sector;
    }
    order
}

/// Promise: `disksort` sorts what lies ahead of the transfer under way into this sweep, what lies
/// behind into the next.
#[test]
fn disksort_by_hand() {
    let mut queue = queue(Discipline::Disksort);
    push(&mut queue, 500, 0);
    assert_eq!(queue.pop(0).map(|(t, _)| t.sector), Some(500));
    for sector in [700, 300, 900, 100, 600, 400, 1000] {
        push(&mut queue, sector, 0);
    }
    assert_eq!(drain(&mut queue, 501), [600, 700, 900, 1000, 100, 300, 400]);
}

/// Promise: the sweep is by cylinder: a lower sector of the cylinder under way still joins it, and
/// goes first.
#[test]
fn disksort_same_cylinder() {
    let mut queue = queue(Discipline::Disksort);
    push(&mut queue, 550, 0);
    queue.pop(0);
    for sector in [580, 510, 499, 560] {
        push(&mut queue, sector, 0);
    }
    assert_eq!(drain(&mut queue, 551), [510, 560, 580, 499]);
}

/// Promise: an idle drive begins with what came first, and nothing that comes in the same moment
/// passes it.
#[test]
fn disksort_idle() {
    let mut queue = queue(Discipline::Disksort);
    for sector in [800, 200, 900, 100] {
        push(&mut queue, sector, 0);
    }
    assert_eq!(drain(&mut queue, 0), [800, 900, 100, 200]);
    assert!(queue.pop(0).is_none());
    for sector in [300, 200] {
        push(&mut queue, sector, 0);
    }
    assert_eq!(drain(&mut queue, 0), [300, 200], "idle again: no sweep is left over");
}

/// Promise: transfers to one place keep their order under every discipline, and none is lost.
#[test]
fn equal_places() {
    for discipline in [Discipline::Fifo, Discipline::Disksort, Discipline::Sstf, Discipline::Scan] {
        let mut queue = queue(discipline);
        for owner in 0..5 {
            push(&mut queue, 250, owner);
        }
        let owners: Vec<_> = std::iter::from_fn(|| queue.pop(400)).map(|(_, owner)| owner).collect();
        assert_eq!(owners, [0, 1, 2, 3, 4], "{discipline:?}");
    }
}

/// Promise: shortest seek first takes the nearest, the elevator goes on in its direction.
#[test]
fn sstf_and_scan_by_hand() {
    let sectors = [98, 183, 37, 122, 14, 124, 65, 67];
    let mut sstf = queue(Discipline::Sstf);
    let mut scan = queue(Discipline::Scan);
    let mut fifo = queue(Discipline::Fifo);
    for sector in sectors {
        push(&mut sstf, sector, 0);
        push(&mut scan, sector, 0);
        push(&mut fifo, sector, 0);
    }
    assert_eq!(drain(&mut sstf, 53), [65, 67, 37, 14, 98, 122, 124, 183]);
    assert_eq!(drain(&mut scan, 53), [65, 67, 98, 122, 124, 183, 37, 14]);
    assert_eq!(drain(&mut fifo, 53), sectors);
}

/// Promise: nothing passes an ordered transfer, in either direction.
#[test]
fn ordered_transfers_stay() {
    for discipline in [Discipline::Fifo, Discipline::Disksort, Discipline::Sstf, Discipline::Scan] {
        let mut queue = queue(discipline);
        push(&mut queue, 900, 0);
        push(&mut queue, 100, 0);
        queue.push(Transfer { ordered: true, ..Transfer::new(Op::Write, 5000, 1) }, 0);
        queue.push(Transfer { ordered: true, ..Transfer::new(Op::Write, 50, 1) }, 0);
        push(&mut queue, 60, 0);
        push(&mut queue, 40, 0);
        assert_eq!(queue.len(), 6);
        let order = drain(&mut queue, 0);
        assert_eq!(order[2..4], [5000, 50], "{discipline:?}: {order:?}");
        assert!(order[..2].contains(&900) && order[4..].contains(&40), "{discipline:?}: {order:?}");
        assert!(queue.is_empty());
    }
}
