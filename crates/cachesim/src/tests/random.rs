//! Random traces of a few files that are created, written, truncated, removed and created again
//! with the same id.

use rand::Rng;
use rand::rngs::StdRng;
use spindle_trace::{Batch, Event, FileId, Flags, Info, Kind, Result, Source};

/// The true state of a file while the trace is generated.
#[derive(Default)]
struct Real {
    exists: bool,
    named: bool,
    size: u64,
    opens: Vec<u64>,
}

pub fn events(rng: &mut StdRng, count: usize, most: u64) -> Vec<Event> {
    let mut files: Vec<Real> = Vec::new();
    files.resize_with(rng.random_range(1..12), Real::default);
    let (mut events, mut time, mut opened) = (Vec::new(), 0_i64, 0);
    while events.len() < count {
        time += rng.random_range(0..20) * rng.random_range(0..1_000_000_000);
        // Out of order now and then.
        let seen = time - if rng.random_ratio(1, 20) { rng.random_range(0..2_000_000_000) } else { 0 };
        let number = rng.random_range(0..files.len());
        let (file, id) = (&mut files[number], FileId { device: 3, inode: number as u64 + 1 });
        let base = Event { time: seen, file: id, ..Event::default() };
        if !file.exists {
            opened += 1;
            *file = Real { exists: true, named: rng.random_ratio(9, 10), size: 0, opens: vec![opened] };
            let flags = if file.named { Flags::WRITE } else { Flags::WRITE | Flags::UNNAMED };
            events.push(Event { kind: Kind::Create, flags, open: opened, ..base });
            continue;
        }
        let event = match rng.random_range(0..12) {
            0..=1 if file.named => {
                opened += 1;
                file.opens.push(opened);
                let cut = rng.random_ratio(1, 4);
                let flags = if cut { Flags::TRUNCATED } else { Flags::NONE };
                let event = Event { kind: Kind::Open, flags, open: opened, size: file.size, ..base };
                file.size = if cut { 0 } else { file.size };
                event
            }
            2 if file.named && rng.random_ratio(1, 2) => {
                let last = rng.random_ratio(3, 4);
                file.named = !last;
                file.exists = file.named || !file.opens.is_empty();
                let flags = if last { Flags::LAST } else { Flags::NONE };
                Event { kind: Kind::Unlink, flags, size: file.size, ..base }
            }
            3 => {
                file.size = rng.random_range(0..most);
                Event { kind: Kind::Truncate, size: file.size, ..base }
            }
            4 => Event { kind: Kind::Exec, size: file.size, ..base },
            5 if rng.random_ratio(1, 4) => {
                Event { kind: Kind::Run, flags: Flags::DIRECTORY, read: 50, ..base }
            }
            5 if rng.random_ratio(1, 3) => Event { kind: Kind::Sync, file: FileId::default(), ..base },
            5 => Event { kind: Kind::Sync, ..base },
            6..=11 if !file.opens.is_empty() => {
                let kind = [Kind::Seek, Kind::Run, Kind::Close][rng.random_range(0..3)];
                let (mut position, mut read, mut written) = (0, 0, 0);
                match rng.random_range(0..3) {
                    0 if file.size > 0 => {
                        position = rng.random_range(0..file.size);
                        read = rng.random_range(0..=file.size - position);
                    }
                    1 => {
                        position = rng.random_range(0..=file.size.min(most));
                        written = rng.random_range(0..most / 4);
                        if written > 0 {
                            file.size = file.size.max(position + written);
                        }
                    }
                    _ => {}
                }
                let open = file.opens[rng.random_range(0..file.opens.len())];
                let mut event = Event { kind, open, position, read, written, size: file.size, ..base };
                if kind == Kind::Run && rng.random_ratio(1, 4) {
                    event.flags = Flags::MAPPED;
                }
                if kind == Kind::Close {
                    file.opens.retain(|&other| other != open);
                    file.exists = file.named || !file.opens.is_empty();
                    if !file.exists && rng.random() {
                        event.flags = Flags::LAST;
                    }
                }
                event
            }
            _ => continue,
        };
        events.push(event);
    }
    events
}

/// A source of events in memory, in small batches.
pub struct MemorySource {
    pub events: Vec<Event>,
    pub at: usize,
    pub batch: usize,
}

impl MemorySource {
    pub fn new(events: &[Event], batch: usize) -> Self {
        Self { events: events.to_vec(), at: 0, batch }
    }
}

impl Source for MemorySource {
    fn info(&self) -> Info {
        Info::default()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<bool> {
        batch.clear();
        let rest = &self.events[self.at..];
        batch.events.extend(&rest[..self.batch.min(rest.len())]);
        self.at += batch.events.len();
        Ok(!batch.events.is_empty())
    }
}
