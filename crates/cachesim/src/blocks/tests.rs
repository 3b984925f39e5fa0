//! Hand-made events and the accesses that they must give. Blocks have 100 bytes.

use super::*;

/// Returns an event of file 1, at `time`.
pub(crate) fn event(time: i64, kind: Kind, flags: Flags) -> Event {
    Event { time, kind, flags, file: FileId { device: 1, inode: 1 }, open: 1, ..Event::default() }
}

fn wrote(position: u64, written: u64, size: u64) -> Event {
    Event { size, position, written, ..event(0, Kind::Close, Flags::WRITE) }
}

fn read(position: u64, read: u64, size: u64) -> Event {
    Event { size, position, read, ..event(0, Kind::Close, Flags::READ) }
}

fn open(size: u64) -> Event {
    Event { size, ..event(0, Kind::Open, Flags::READ | Flags::WRITE) }
}

/// Returns the accesses of events: numbers of blocks after `r`, `m`, `w` or `d`.
fn done(events: &[Event]) -> String {
    done_with(events, Extras::default())
}

fn done_with(events: &[Event], extras: Extras) -> String {
    let mut blocks = Blocks::new(100, extras);
    let (mut at, mut accesses, mut out) = (0, Vec::new(), Vec::new());
    loop {
        blocks.fill(events, &mut at, &mut accesses).unwrap();
        if accesses.is_empty() && at == events.len() && blocks.is_idle() {
            return out.join(" ");
        }
        out.extend(accesses.iter().map(|access| {
            let op = match access.op {
                Op::Read => 'r',
                Op::Modify => 'm',
                Op::Overwrite => 'w',
                Op::Delete => 'd',
                Op::Sync => 's',
            };
            format!("{op}{}", access.block)
        }));
    }
}

/// Promise: a run gives one access for each block that it touches, from its first byte to its last;
/// an empty run gives none.
#[test]
fn runs_become_blocks() {
    assert_eq!(done(&[open(1000), read(99, 2, 1000)]), "r0 r1");
    assert_eq!(done(&[open(1000), read(100, 100, 1000)]), "r0");
    assert_eq!(done(&[open(1000), read(0, 250, 1000), open(1000), read(150, 1, 1000)]), "r0 r1 r2 r1");
    assert_eq!(done(&[open(1000), read(50, 0, 1000)]), "");
}

/// Promise: a write reads the old block if it keeps a part of it that the file has, and not
/// otherwise.
#[test]
fn partial_writes_need_the_block() {
    assert_eq!(done(&[open(1000), wrote(50, 200, 1000)]), "m0 w1 m2");
    assert_eq!(done(&[open(1000), wrote(0, 100, 1000)]), "w0");
    // The file ends in the block: bytes beyond the end need not be kept.
    assert_eq!(done(&[open(130), wrote(100, 30, 130)]), "w0");
    assert_eq!(done(&[open(130), wrote(100, 29, 130)]), "m0");
    assert_eq!(done(&[open(130), wrote(110, 50, 160)]), "m0");
    // Beyond the end, also with a hole before it.
    assert_eq!(done(&[open(130), wrote(250, 30, 280)]), "w0");
    assert_eq!(done(&[open(200), wrote(200, 30, 230)]), "w0");
}

/// Promise: the blocks of a new file need no read; when another run extends its last block, that
/// block is modified.
#[test]
fn a_growing_file() {
    let create = event(0, Kind::Create, Flags::WRITE);
    let grow = Event { kind: Kind::Seek, ..wrote(0, 150, 0) };
    assert_eq!(done(&[create, grow, wrote(150, 100, 250)]), "w0 w1 m1 w2");
}

/// Promise: removing the last name deletes all blocks at once if the file is not open, otherwise at
/// the last close, after the writes billed to that close. Removing another name deletes nothing.
#[test]
fn deletion() {
    let last = event(0, Kind::Unlink, Flags::LAST);
    let name = event(0, Kind::Unlink, Flags::NONE);
    assert_eq!(done(&[open(0), wrote(0, 150, 150), name, last]), "w0 w1 d0 d1");
    assert_eq!(done(&[open(0), wrote(0, 150, 150), open(150), last, wrote(0, 50, 150)]), "w0 w1 m0 d0 d1");
    let gone = Event { flags: Flags::LAST, ..wrote(0, 50, 50) };
    assert_eq!(done(&[event(0, Kind::Create, Flags::UNNAMED), gone]), "w0 d0");
    assert_eq!(done(&[last]), "");
    // Replaced by a rename.
    let replaced = event(0, Kind::Unlink, Flags::LAST | Flags::REPLACED);
    assert_eq!(done(&[open(100), read(0, 100, 100), replaced]), "r0 d0");
}

/// Promise: a reused file id is a new file with new blocks, whatever is left of the old one.
#[test]
fn file_ids_are_used_again() {
    let create = event(0, Kind::Create, Flags::WRITE);
    let last = event(0, Kind::Unlink, Flags::LAST);
    assert_eq!(done(&[open(90), read(0, 90, 90), last, create, wrote(0, 10, 10)]), "r0 d0 w0");
    assert_eq!(done(&[open(90), read(0, 90, 90), create, wrote(0, 10, 10)]), "r0 d0 w0");
}

/// Promise: `truncate` deletes the blocks beyond the end, but not the block that contains it;
/// opening with truncation deletes all. Later writes need no read of the deleted data, and bytes
/// that `truncate` adds are a hole.
#[test]
fn truncation() {
    let cut = |size| Event { size, ..event(0, Kind::Truncate, Flags::NONE) };
    let all = [open(1000), Event { kind: Kind::Seek, ..read(0, 300, 0) }];
    let with = |more: &[Event]| done(&[&all[..], more].concat());
    assert_eq!(with(&[cut(150), wrote(200, 10, 210)]), "r0 r1 r2 d2 w2");
    assert_eq!(with(&[cut(200)]), "r0 r1 r2 d2");
    assert_eq!(with(&[cut(150), wrote(100, 50, 150)]), "r0 r1 r2 d2 w1");
    assert_eq!(with(&[cut(150), cut(400), wrote(120, 50, 400)]), "r0 r1 r2 d2 m1");
    assert_eq!(with(&[cut(150), cut(400), wrote(220, 50, 400)]), "r0 r1 r2 d2 w2");
    let truncating = Event { size: 1000, ..event(0, Kind::Open, Flags::WRITE | Flags::TRUNCATED) };
    assert_eq!(with(&[truncating, wrote(0, 10, 10)]), "r0 r1 r2 d0 d1 d2 w2");
}

/// Promise: an unknown size, given as 0, truncates nothing.
#[test]
fn unknown_sizes() {
    assert_eq!(done(&[open(0), read(0, 100, 0), open(0), wrote(10, 10, 0)]), "r0 m0");
}

/// Promise: a disk, which is never opened, has all its blocks.
#[test]
fn disks_have_no_end() {
    let run = Event { open: 0, kind: Kind::Run, ..wrote(1 << 50, 150, 0) };
    assert_eq!(done(&[run]), "m0 m1");
    let whole = Event { position: 1000, written: 100, ..run };
    assert_eq!(done(&[whole]), "w0");
}

/// Promise: a program load reads the whole file if requested, and does nothing otherwise.
#[test]
fn programs() {
    let exec = Event { size: 201, ..event(0, Kind::Exec, Flags::NONE) };
    let extras = Extras { programs: true, ..Extras::default() };
    assert_eq!(done_with(&[exec], extras), "r0 r1 r2");
    assert_eq!(done(&[exec]), "");
    let mut blocks = Blocks::new(100, extras);
    blocks.fill(&[Event { file: FileId::default(), ..exec }], &mut 0, &mut Vec::new()).unwrap();
    assert_eq!(blocks.unknown_programs(), 1);
}

/// Promise: what was mapped into memory does not count, and is not taken for the size of a file,
/// unless it is requested; its bytes are counted apart.
#[test]
fn mapped_files() {
    let mapped = Event { read: 250, ..event(0, Kind::Run, Flags::READ | Flags::MAPPED) };
    let mut blocks = Blocks::new(100, Extras::default());
    blocks.fill(&[mapped, mapped], &mut 0, &mut Vec::new()).unwrap();
    assert_eq!((blocks.mapped_bytes(), blocks.footprint()), (500, 0));
    // What lies behind the end of the file need not be read.
    let then = [open(100), mapped, wrote(110, 50, 160)];
    assert_eq!(done(&then), "w0");
    let extras = Extras { mapped: true, ..Extras::default() };
    assert_eq!(done_with(&then, extras), "r0 r1 r2 m1");
}

/// Promise: a sync writes each block of the file that was written since the last one, once, and
/// none that was only read, or deleted since.
#[test]
fn syncs() {
    let sync = event(0, Kind::Sync, Flags::WRITE);
    let wrote = |position, written| Event { kind: Kind::Run, ..wrote(position, written, 0) };
    let events = [open(300), read(0, 100, 300), open(300), wrote(100, 200), wrote(100, 100), sync, sync];
    assert_eq!(done(&events), "r0 w1 w2 w1 s1 s2");
    let cut = Event { size: 200, ..event(0, Kind::Truncate, Flags::NONE) };
    assert_eq!(done(&[open(300), wrote(100, 200), cut, sync]), "w0 w1 d1 s0");
    let other = Event { file: FileId { device: 1, inode: 2 }, ..sync };
    assert_eq!(done(&[open(300), wrote(0, 100), other, sync]), "w0 s0");
}

/// Promise: a sync of no file writes what is modified of all, or of those on its device.
#[test]
fn syncs_of_all_files() {
    let on = |device, inode, event: Event| Event { file: FileId { device, inode }, ..event };
    let wrote = |device, inode| on(device, inode, Event { kind: Kind::Run, ..wrote(0, 200, 0) });
    let sync = |device| on(device, 0, Event { open: 0, ..event(0, Kind::Sync, Flags::NONE) });
    let events = [wrote(1, 1), wrote(2, 1), wrote(1, 2), sync(2), sync(0), sync(1)];
    assert_eq!(done(&events), "w0 w1 w2 w3 w4 w5 s2 s3 s0 s1 s4 s5");
}

/// Promise: a run of more blocks than fit is refused before any of them is numbered, up to the end
/// of all positions.
#[test]
fn too_many_blocks_are_refused_at_once() {
    for (position, bytes) in
        [(0, 1 << 63), (0, 1 << 44), (1, u64::MAX), (u64::MAX - 9, 9), (1 << 62, 1 << 44)]
    {
        for kind in [Kind::Run, Kind::Close, Kind::Exec] {
            let read = Event { kind, read: bytes, ..read(position, bytes, bytes) };
            let extras = Extras { programs: true, mapped: true };
            let mut blocks = Blocks::new(4096, extras);
            let refused = blocks.fill(&[Event { size: bytes, ..read }], &mut 0, &mut Vec::new());
            assert_eq!(refused.is_err(), bytes > 9, "{kind:?} {position} {bytes}");
            assert!(blocks.footprint() <= 2);
        }
    }
}

/// Promise: directories do not count.
#[test]
fn directories() {
    let directory = |event: Event| Event { flags: event.flags | Flags::DIRECTORY, ..event };
    assert_eq!(done(&[directory(open(1000)), directory(read(0, 100, 1000))]), "");
}

/// Promise: a run longer than a chunk gives the same accesses in pieces; times never decrease.
#[test]
fn long_runs_come_in_pieces() {
    let count = 3 * CHUNK as u64 + 5;
    let events = [Event { time: 9, ..open(0) }, Event { time: 5, ..wrote(0, count * 100, count * 100) }];
    let mut blocks = Blocks::new(100, Extras::default());
    let (mut at, mut accesses, mut next) = (0, Vec::new(), 0);
    loop {
        blocks.fill(&events, &mut at, &mut accesses).unwrap();
        assert!(accesses.len() <= 2 * CHUNK);
        for access in &accesses {
            assert_eq!(*access, Access { time: 9, block: next, op: Op::Overwrite });
            next += 1;
        }
        if accesses.is_empty() {
            break;
        }
    }
    assert_eq!(u64::from(next), count);
    assert_eq!(blocks.footprint(), count);
}

/// Promise: a run longer than any file is refused, naming its event; one at the end of the address
/// range is not.
#[test]
fn absurd_runs_are_refused() {
    let mut blocks = Blocks::new(512, Extras::default());
    let absurd = wrote(0, u64::MAX, 0);
    let error = blocks.fill(&[open(0), absurd], &mut 0, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("event 2") && error.contains("18446744073709551615 bytes"), "{error}");
    assert_eq!(done(&[wrote(u64::MAX - 150, 150, 0)]), "m0 w1 w2");
}
