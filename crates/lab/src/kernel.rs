//! What the kernel does above a mount: its page cache and its read-ahead, as far as a file system
//! notices them.
//!
//! The one idea: a mount is asked for what the kernel does not have. So a read becomes requests for
//! the pages that are missing, with as many behind them as Linux's on-demand read-ahead wants
//! (`mm/readahead.c` of Linux 6.18), and a write goes through at once, as it was made
//! (`fuse_perform_write` in `fs/fuse/file.c`). Only a page that a write covers as a whole counts as
//! read then, so that what was written in smaller parts is read again from the mount. Each request
//! is a trip to a daemon ([`Trips`]); which there are is the table of `docs/PERFORMANCE.md`.
//!
//! Left out: reads ahead are waited for, where the kernel goes on; large folios; and the limit on
//! requests in the background.

use spindle_cache::policy::Lru;
use spindle_clock::{Clock, Timestamp, Work};
use spindle_vfs::Ino;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages of a read-ahead at most: what a mount of root asks for (`read_ahead_kb` of 4096).
const MOST_AHEAD: u64 = 1024;
/// Pages of a request at most: 1 MiB.
const MOST_REQUEST: u64 = 256;

/// Bytes of a request that writes, at most.
const MOST_WRITE: u64 = MOST_REQUEST * PAGE;

/// The time between two ticks of the kernel in nanoseconds: Linux with the usual 250 a second.
const TICK: u32 = 4_000_000;

/// A clock by whose ticks files are dated, as on a mount ([`spindle_clock::TickClock`]): a file
/// that is written twice within one has the same time, and its inode need not be written again.
pub struct Ticking(pub Arc<dyn Clock>);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        let Timestamp { secs, nanos } = self.0.now();
        Timestamp::new(secs, nanos / TICK * TICK)
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }

    fn work(&self, work: Work) {
        self.0.work(work);
    }
}

/// Requests to the daemon of a mount.
pub type Trips = u64;

/// A file's pages, and the state of its reader (`struct file_ra_state`; a file has one reader
/// here).
#[derive(Debug, Default)]
struct File {
    pages: BTreeSet<u64>,
    /// The window that was read last: its first page, its length, and how much of its end was only
    /// ahead of the reader.
    window: Window,
    /// Pages that make a reader read on when it comes to them.
    marked: BTreeSet<u64>,
    /// Page of the byte after the last one that was read.
    after: Option<u64>,
    /// A write has asked whether the file has capabilities, which it would have to remove.
    is_written: bool,
    /// A write has made the attributes in the kernel invalid.
    is_stale: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: u64,
    pages: u64,
    ahead: u64,
}

/// The kernel above a mount: which files it knows, and which of their pages it has, not what is in
/// them.
#[derive(Debug)]
pub struct Kernel {
    capacity_pages: u64,
    files: HashMap<Ino, File>,
    used: Lru<(Ino, u64)>,
}

impl Kernel {
    /// Returns an empty one with so much memory.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        let capacity_pages = (capacity_bytes / PAGE).max(MOST_AHEAD);
        Self { capacity_pages, files: HashMap::new(), used: Lru::default() }
    }

    /// Notes that a name was looked up, of a file that may be known.
    pub fn looked_up(&mut self, ino: Ino) -> Trips {
        if self.files.contains_key(&ino) {
            return 0;
        }
        self.files.insert(ino, File::default());
        1
    }

    /// Notes that a file was created and opened, after the kernel has found that there is none.
    pub fn created(&mut self, ino: Ino) -> Trips {
        self.forget(ino);
        self.looked_up(ino) + 1
    }

    /// Notes that a file was opened: its reader begins anew.
    pub fn opened(&mut self, ino: Ino) -> Trips {
        let trips = self.looked_up(ino);
        let file = self.files.entry(ino).or_default();
        (file.window, file.after) = (Window::default(), None);
        trips
    }

    /// Notes that a program has asked for attributes.
    pub fn asked(&mut self, ino: Ino) -> Trips {
        let trips = self.looked_up(ino);
        let file = self.files.entry(ino).or_default();
        trips + Trips::from(std::mem::take(&mut file.is_stale))
    }

    /// Returns the bytes that a read of `position..position + bytes` of a file of `size` bytes asks
    /// the mount for, in order, and keeps them.
    pub fn read(&mut self, ino: Ino, size: u64, position: u64, bytes: u64) -> Vec<Range<u64>> {
        let end = position.saturating_add(bytes).min(size);
        if position >= end {
            return Vec::new();
        }
        let (last, pages) = (position.saturating_add(bytes).div_ceil(PAGE), size.div_ceil(PAGE));
        let mut missing = Vec::new();
        for page in position / PAGE..end.div_ceil(PAGE) {
            let file = self.files.entry(ino).or_default();
            for range in file.reaches(page, last - page, pages) {
                self.keep(ino, range.clone());
                missing.push(range.start * PAGE..(range.end * PAGE).min(size));
            }
            self.used.touch((ino, page));
        }
        self.files.entry(ino).or_default().after = Some(end / PAGE);
        self.evict();
        missing
    }

    /// Notes a write, which goes through: the pages that it covers are here then.
    pub fn wrote(&mut self, ino: Ino, position: u64, bytes: u64) -> Trips {
        self.keep(ino, position.div_ceil(PAGE)..position.saturating_add(bytes) / PAGE);
        self.evict();
        let file = self.files.entry(ino).or_default();
        file.is_stale = true;
        bytes.div_ceil(MOST_WRITE) + Trips::from(!std::mem::replace(&mut file.is_written, true))
    }

    /// Notes that a file was cut or extended to `size` bytes, and forgets what is behind them.
    pub fn truncated(&mut self, ino: Ino, size: u64) -> Trips {
        let trips = self.looked_up(ino) + 1;
        self.cut(ino, size);
        trips
    }

    /// Notes that a file that the kernel has looked up was removed.
    pub fn removed(&mut self, ino: Ino) -> Trips {
        let trips = self.looked_up(ino) + 1;
        self.forget(ino);
        trips
    }

    fn cut(&mut self, ino: Ino, size: u64) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        file.marked.split_off(&size.div_ceil(PAGE));
        for page in file.pages.split_off(&size.div_ceil(PAGE)) {
            self.used.remove((ino, page));
        }
    }

    fn forget(&mut self, ino: Ino) {
        self.cut(ino, 0);
        self.files.remove(&ino);
    }

    fn keep(&mut self, ino: Ino, pages: Range<u64>) {
        let file = self.files.entry(ino).or_default();
        for page in pages {
            file.pages.insert(page);
            self.used.touch((ino, page));
        }
    }

    fn evict(&mut self) {
        while self.used.len() as u64 > self.capacity_pages
            && let Some((ino, page)) = self.used.oldest()
        {
            self.used.remove((ino, page));
            if let Some(file) = self.files.get_mut(&ino) {
                file.pages.remove(&page);
                file.marked.remove(&page);
            }
        }
    }
}

impl File {
    /// Returns what is read when a reader comes to a page, of a call that wants `wanted` pages from
    /// there on, of a file of `size` pages: pages that are missing, in requests.
    fn reaches(&mut self, page: u64, wanted: u64, size: u64) -> Vec<Range<u64>> {
        if self.pages.contains(&page) {
            return if self.marked.remove(&page) { self.goes_on(page, wanted, size) } else { Vec::new() };
        }
        // page_cache_sync_ra
        let follows = self.after.is_some_and(|after| page.wrapping_sub(after) <= 1);
        if page == 0 || wanted > MOST_AHEAD || follows {
            let pages = first_window(wanted);
            let ahead = if pages > wanted { pages - wanted } else { pages / 2 };
            return self.reads(Window { start: page, pages, ahead }, size);
        }
        let before = self.run_before(page);
        if before <= wanted {
            // A read at random: what it wants, and nothing else.
            return self.lacks(page..(page + wanted).min(size));
        }
        // A file that is here from its beginning is likely to be read to its end.
        let before = if before == page { 2 * before } else { before };
        self.reads(Window { start: page, pages: (before + wanted).min(MOST_AHEAD), ahead: 1 }, size)
    }

    /// Returns what is read when a reader comes to a marked page (`page_cache_async_ra`).
    fn goes_on(&mut self, page: u64, wanted: u64, size: u64) -> Vec<Range<u64>> {
        let Window { start, pages, ahead } = self.window;
        if page == start + pages - ahead {
            let next = next_window(pages);
            return self.reads(Window { start: start + pages, pages: next, ahead: next }, size);
        }
        let mut behind = page + 1..=page + MOST_AHEAD;
        let Some(missing) = behind.find(|page| !self.pages.contains(page)) else { return Vec::new() };
        let pages = next_window(missing - page + wanted);
        self.reads(Window { start: missing, pages, ahead: pages }, size)
    }

    /// Returns what is missing of a window in a file of `size` pages, and marks the first page that
    /// is only ahead, if it is missing.
    fn reads(&mut self, window: Window, size: u64) -> Vec<Range<u64>> {
        self.window = window;
        let range = window.start..(window.start + window.pages).min(size);
        let mark = range.end.checked_sub(window.ahead).filter(|mark| range.contains(mark));
        self.marked.extend(mark.filter(|mark| !self.pages.contains(mark)));
        self.lacks(range)
    }

    /// Returns how many pages directly before this one are here.
    fn run_before(&self, page: u64) -> u64 {
        (1..=page.min(MOST_AHEAD)).find(|back| !self.pages.contains(&(page - back))).map_or(page, |n| n - 1)
    }

    /// Returns the runs of pages in a range that are not here, in requests.
    fn lacks(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in range.filter(|page| !self.pages.contains(page)) {
            match runs.last_mut() {
                Some(run) if run.end == page && run.end - run.start < MOST_REQUEST => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }
}

/// Returns the pages of the first window of a reader that wants so many (`get_init_ra_size`).
const fn first_window(wanted: u64) -> u64 {
    let pages = wanted.next_power_of_two();
    if pages <= MOST_AHEAD / 32 {
        4 * pages
    } else if pages <= MOST_AHEAD / 4 {
        2 * pages
    } else {
        MOST_AHEAD
    }
}

/// Returns the pages of the window after one with so many (`get_next_ra_size`).
const fn next_window(pages: u64) -> u64 {
    if pages < MOST_AHEAD / 16 {
        4 * pages
    } else if pages <= MOST_AHEAD / 2 {
        2 * pages
    } else {
        MOST_AHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);
    const MIB: u64 = 1 << 20;

    /// Returns what reads of a page each, of a file of 4 MiB, ask a mount for, in pages.
    fn asked(kernel: &mut Kernel, pages: impl IntoIterator<Item = u64>) -> Vec<Range<u64>> {
        let reads = pages.into_iter().flat_map(|page| kernel.read(FILE, 4 * MIB, page * PAGE, PAGE));
        reads.map(|bytes| bytes.start / PAGE..bytes.end / PAGE).collect()
    }

    /// Promise: a reader in order gets the windows of Linux: four pages first, then four times as
    /// many, then twice as many, in requests of at most 1 MiB, each when it comes to the beginning
    /// of the one before; and what was read is kept.
    #[test]
    fn windows_grow() {
        let mut kernel = Kernel::new(64 * MIB);
        assert_eq!(asked(&mut kernel, [0]), vec![0..4]);
        assert_eq!(asked(&mut kernel, [1]), vec![4..20]);
        assert_eq!(asked(&mut kernel, [2, 3]), vec![]);
        assert_eq!(asked(&mut kernel, [4]), vec![20..84]);
        assert_eq!(asked(&mut kernel, 5..20), vec![]);
        assert_eq!(asked(&mut kernel, [20]), vec![84..212]);
        assert_eq!(asked(&mut kernel, 21..212), vec![212..468]);
        assert_eq!(asked(&mut kernel, 212..1024), vec![468..724, 724..980, 980..1024]);
        assert_eq!(asked(&mut kernel, 0..1024), vec![]);
    }

    /// Promise: a read at random gets what it wants and nothing ahead; a file that is opened anew
    /// does not go on where it was.
    #[test]
    fn random_reads_get_no_more() {
        let mut kernel = Kernel::new(64 * MIB);
        assert_eq!(asked(&mut kernel, [500, 300, 700]), vec![500..501, 300..301, 700..701]);
        kernel.opened(FILE);
        assert_eq!(asked(&mut kernel, [701]), vec![701..702]);
        assert_eq!(kernel.read(FILE, 4 * MIB, 100, 10), vec![0..4 * PAGE]);
        assert_eq!(kernel.read(Ino(9), 100, 0, 4096), vec![0..100], "not behind the end");
    }

    /// Promise: a page that was written as a whole is there; one that was written in parts is read,
    /// and so is what was cut off or forgotten for other files.
    #[test]
    fn whole_pages_stay() {
        let mut kernel = Kernel::new(4 * MIB);
        kernel.wrote(FILE, 0, 3 * PAGE + 100);
        assert_eq!(asked(&mut kernel, [1, 2]), vec![]);
        assert_eq!(kernel.read(FILE, 3 * PAGE + 100, 3 * PAGE, 100), vec![3 * PAGE..3 * PAGE + 100]);
        kernel.truncated(FILE, PAGE);
        assert_eq!(asked(&mut kernel, [0]), vec![]);
        assert_eq!(asked(&mut kernel, [2])[0].start, 2);
        kernel.wrote(Ino(9), 0, 4 * MIB);
        assert_eq!(asked(&mut kernel, [0])[0].start, 0);
    }

    /// Promise: the requests of operations are those of the table in docs/PERFORMANCE.md.
    #[test]
    fn trips_are_those_that_were_counted() {
        let mut kernel = Kernel::new(64 * MIB);
        assert_eq!(kernel.created(FILE), 2, "create an empty file");
        assert_eq!(kernel.wrote(FILE, 0, PAGE), 2, "the first write");
        assert_eq!(kernel.wrote(FILE, 0, PAGE), 1, "overwrite");
        assert_eq!((kernel.asked(FILE), kernel.asked(FILE)), (1, 0), "stat after a write, warm");
        assert_eq!(kernel.opened(FILE), 0, "open, warm");
        assert_eq!(kernel.removed(FILE), 1, "unlink");
        assert_eq!(kernel.removed(FILE), 2, "unlink, cold");
        assert_eq!((kernel.asked(Ino(8)), kernel.opened(Ino(9))), (1, 1), "stat and open, cold");
    }

    /// Promise: dates are those of ticks, and time passes as it does.
    #[test]
    fn dates_are_ticks() {
        struct At(Timestamp);
        impl Clock for At {
            fn now(&self) -> Timestamp {
                self.0
            }
            fn monotonic(&self) -> Duration {
                Duration::from_nanos(7)
            }
            fn sleep(&self, _: Duration) {}
        }
        let clock = Ticking(Arc::new(At(Timestamp::new(5, 7_999_999))));
        assert_eq!((clock.now(), clock.monotonic()), (Timestamp::new(5, 4_000_000), Duration::from_nanos(7)));
    }
}
