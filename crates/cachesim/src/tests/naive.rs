//! The same cache again, written as simply as possible: event by event, block by block, byte by
//! byte, one size and one write policy at a time. It shares no code with the simulator, so that
//! both would have to make the same mistake.

use super::super::{Counts, Extras, Write};
use spindle_trace::{Event, FileId, Flags, Kind};
use std::collections::{HashMap, HashSet};

type Block = (FileId, u64);

pub struct Naive {
    block: u64,
    capacity: usize,
    write: Write,
    extras: Extras,
    /// Cached blocks, most recently used last.
    cache: Vec<Block>,
    /// Dirty blocks.
    dirty: HashSet<Block>,
    sizes: HashMap<FileId, u64>,
    opens: HashMap<FileId, u32>,
    unlinked: HashSet<FileId>,
    now: i64,
    next_flush: Option<i64>,
    pub counts: Counts,
}

impl Naive {
    pub fn new(block: u64, capacity: usize, write: Write, extras: Extras) -> Self {
        Self {
            block,
            capacity,
            write,
            extras,
            cache: Vec::new(),
            dirty: HashSet::new(),
            sizes: HashMap::new(),
            opens: HashMap::new(),
            unlinked: HashSet::new(),
            now: i64::MIN,
            next_flush: None,
            counts: Counts::default(),
        }
    }

    pub fn run(mut self, events: &[Event]) -> Counts {
        for event in events {
            self.event(event);
        }
        self.counts.left = self.dirty.len() as u64;
        self.counts
    }

    fn event(&mut self, event: &Event) {
        self.now = self.now.max(event.time);
        if let Write::Flush(every) = self.write {
            let every = i64::try_from(every.as_nanos()).unwrap();
            let next = self.next_flush.get_or_insert(event.time + every);
            while self.now >= *next {
                *next += every;
                self.counts.disk_writes += self.dirty.drain().count() as u64;
            }
        }
        if event.flags.has(Flags::DIRECTORY) {
            return;
        }
        let file = event.file;
        match event.kind {
            Kind::Create => {
                self.delete(file, 0);
                self.sizes.insert(file, 0);
                self.opens.insert(file, 1);
                self.unlinked.remove(&file);
                if event.flags.has(Flags::UNNAMED) {
                    self.unlinked.insert(file);
                }
            }
            Kind::Open => {
                *self.opens.entry(file).or_default() += 1;
                if event.flags.has(Flags::TRUNCATED) {
                    self.delete(file, 0);
                    self.sizes.insert(file, 0);
                } else {
                    self.sizes.insert(file, event.size);
                }
            }
            Kind::Truncate => {
                self.delete(file, event.size);
                if let Some(size) = self.sizes.get_mut(&file) {
                    *size = event.size.min(*size);
                }
            }
            Kind::Unlink if event.flags.has(Flags::LAST) => {
                if self.opens.get(&file).is_some_and(|&opens| opens > 0) {
                    self.unlinked.insert(file);
                } else {
                    self.gone(file);
                }
            }
            Kind::Sync => {
                let before = self.dirty.len();
                let is_synced = |owner: FileId| owner == file || file == FileId::default();
                self.dirty.retain(|&(owner, _)| !is_synced(owner));
                self.counts.disk_writes += (before - self.dirty.len()) as u64;
            }
            Kind::Run if event.flags.has(Flags::MAPPED) && !self.extras.mapped => {}
            Kind::Exec if self.extras.programs => self.bytes(file, 0, event.size, false),
            Kind::Seek | Kind::Run | Kind::Close => {
                self.bytes(file, event.position, event.position + event.read, false);
                self.bytes(file, event.position, event.position + event.written, true);
                if event.kind == Kind::Close {
                    let opens = self.opens.entry(file).or_default();
                    *opens = opens.saturating_sub(1);
                    let unheld = *opens == 0 && self.unlinked.contains(&file);
                    self.sizes.insert(file, event.size);
                    if unheld || event.flags.has(Flags::LAST) {
                        self.gone(file);
                    }
                }
            }
            _ => {}
        }
    }

    fn gone(&mut self, file: FileId) {
        self.delete(file, 0);
        self.sizes.remove(&file);
        self.opens.remove(&file);
        self.unlinked.remove(&file);
    }

    /// Deletes the blocks that begin at byte `from` or later.
    fn delete(&mut self, file: FileId, from: u64) {
        let size = self.block;
        let there = |&(owner, index): &Block| owner == file && index * size >= from;
        self.cache.retain(|block| !there(block));
        let before = self.dirty.len();
        self.dirty.retain(|block| !there(block));
        self.counts.dropped += (before - self.dirty.len()) as u64;
    }

    fn bytes(&mut self, file: FileId, from: u64, to: u64, write: bool) {
        let old = self.sizes.get(&file).copied();
        for index in 0.. {
            let bytes = index * self.block..(index + 1) * self.block;
            if bytes.start >= to {
                break;
            }
            if bytes.end <= from || from == to {
                continue;
            }
            let mut kept = bytes.filter(|byte| !(from..to).contains(byte));
            let needs_old = !write || kept.any(|byte| old.is_none_or(|old| byte < old));
            self.access((file, index), write, needs_old);
        }
        if let Some(size) = self.sizes.get_mut(&file).filter(|_| from < to) {
            *size = to.max(*size);
        }
    }

    fn access(&mut self, block: Block, write: bool, needs_old: bool) {
        if let Some(at) = self.cache.iter().position(|&found| found == block) {
            self.cache.remove(at);
        } else {
            if needs_old {
                self.counts.disk_reads += 1;
            }
            if self.cache.len() == self.capacity {
                let oldest = self.cache.remove(0);
                if self.dirty.remove(&oldest) {
                    self.counts.disk_writes += 1;
                }
            }
        }
        self.cache.push(block);
        if !write {
            self.counts.reads += 1;
            return;
        }
        self.counts.writes += 1;
        if self.write == Write::Through {
            self.counts.disk_writes += 1;
        } else {
            self.dirty.insert(block);
        }
    }
}
