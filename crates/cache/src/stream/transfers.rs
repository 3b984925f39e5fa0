//! Which transfers reach the device, seen from outside: the clustering paper's figures as sequences
//! of requests.

use super::*;
use crate::{DataSettings, Extent, Settings, Space};
use spindle_clock::SystemClock;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Ticket};

const BLOCK: u64 = 4096;

/// Notes what is asked of a device in memory, and what has not been waited for.
struct Recorder {
    inner: MemoryDevice,
    log: Mutex<Vec<(Op, Range<u64>)>>,
    under_way: Mutex<(BTreeMap<u64, usize>, usize)>,
}

impl Device for Recorder {
    fn info(&self) -> &Info {
        self.inner.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        let len = request.buf.len();
        let blocks = request.offset / BLOCK..(request.offset + len as u64).div_ceil(BLOCK);
        self.log.lock().push((request.op, blocks));
        let ticket = self.inner.submit(request)?;
        let (under_way, most) = &mut *self.under_way.lock();
        under_way.insert(ticket.id(), len);
        *most = (*most).max(under_way.values().sum());
        Ok(ticket)
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.under_way.lock().0.remove(&ticket.id());
        self.inner.wait(ticket)
    }
    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.discard(offset, len)
    }
}

/// A cache over a recorder, and one file that lies block for block at the start of the device.
struct File {
    device: Arc<Recorder>,
    cache: Cache,
    stream: Arc<Stream>,
    blocks: u64,
    /// How often the file system was asked where something is.
    asked: Mutex<u64>,
}

impl File {
    fn new(blocks: u64, data: DataSettings) -> Self {
        let inner = MemoryDevice::new(1 << 30);
        let device = Arc::new(Recorder { inner, log: Mutex::default(), under_way: Mutex::default() });
        let cache =
            Cache::new(device.clone(), Arc::new(SystemClock), Settings { data, ..Settings::default() });
        let stream = cache.stream(4096, 1);
        Self { device, cache, stream, blocks, asked: Mutex::new(0) }
    }

    fn read(&self, block: u64, count: u64) {
        let mut buf = vec![0; usize::try_from(count * BLOCK).unwrap()];
        let bmap = |block: u64, most: u64| {
            *self.asked.lock() += 1;
            Ok::<_, Error>(Extent { at: Some(block * BLOCK), blocks: most.min(self.blocks - block) })
        };
        self.cache.read(&self.stream, self.blocks * BLOCK, block * BLOCK, &mut buf, bmap).unwrap();
    }

    fn write(&self, block: u64) {
        let tx = self.cache.begin(0).unwrap().unwrap();
        let at = block * BLOCK;
        let space = Space { offset: at, at, end: at + BLOCK };
        self.cache.write(&self.stream, &tx, space, &[1; 4096]).unwrap();
        tx.commit();
    }

    /// Returns what was asked of the device since the last call.
    fn log(&self) -> Vec<(Op, Range<u64>)> {
        std::mem::take(&mut *self.device.log.lock())
    }

    fn reads(&self) -> Vec<Range<u64>> {
        self.log().into_iter().filter(|(op, _)| *op == Op::Read).map(|(_, blocks)| blocks).collect()
    }
}

const MEMORY: usize = 1 << 20;

fn clusters(blocks: usize) -> DataSettings {
    DataSettings::clustered(blocks * 4096, MEMORY)
}

/// Promise: the old way reads block by block, the next always under way while one is used.
#[test]
fn block_by_block() {
    let file = File::new(5, DataSettings::old(4096, MEMORY));
    file.read(0, 1);
    assert_eq!(file.reads(), [0..1, 1..2]);
    (1..5).for_each(|block| file.read(block, 1));
    assert_eq!(file.reads(), [2..3, 3..4, 4..5]);
}

/// Promise: figure 6 of the paper: two clusters at the start, and the next whenever one is entered.
#[test]
fn cluster_by_cluster() {
    let file = File::new(12, clusters(3));
    file.read(0, 1);
    assert_eq!(file.reads(), [0..3, 3..6]);
    file.read(1, 1);
    file.read(2, 1);
    assert_eq!(file.reads(), []);
    file.read(3, 1);
    assert_eq!(file.reads(), std::slice::from_ref(&(6..9)));
}

/// Promise: a large request somewhere is one transfer with random clustering, and block by block
/// without; nothing is read ahead.
#[test]
fn random_clusters() {
    let file = File::new(100, clusters(8));
    file.read(50, 5);
    assert_eq!(file.reads()[0], 50..51);
    let file = File::new(100, DataSettings { random_clusters: true, ..clusters(8) });
    file.read(50, 5);
    assert_eq!(file.reads(), std::slice::from_ref(&(50..55)));
}

/// Promise: figure 7: writes go in whole clusters; what is left goes with a flush, neighbours
/// together.
#[test]
fn delayed_writes() {
    let file = File::new(0, clusters(3));
    (0..7).for_each(|block| file.write(block));
    assert_eq!(file.log(), [(Op::Write, 0..3), (Op::Write, 3..6)]);
    file.write(20);
    assert_eq!(file.log(), [(Op::Write, 6..7)]);
    file.write(21);
    file.cache.flush().unwrap();
    assert_eq!(file.log(), [(Op::Write, 20..22)]);
}

/// Promise: no more bytes of a file are under way than its limit, however fast it is written.
#[test]
fn the_write_limit() {
    for (limit, most) in [(Some(4 * 4096), 4 * 4096), (None, 100 * 4096)] {
        let file = File::new(0, DataSettings { write_limit_bytes: limit, ..clusters(2) });
        (0..100).for_each(|block| file.write(block));
        assert_eq!(file.device.under_way.lock().1, most);
    }
}

/// Promise: a large sequential read does not drive out what others use, if free-behind is on.
#[test]
fn free_behind() {
    for free_behind in [true, false] {
        let file = File::new(2000, DataSettings { free_behind, ..clusters(8) });
        let other = file.cache.stream(4096, 1);
        let used = |log: bool| {
            let mut buf = [0; 4096];
            let bmap = |_, _| Ok::<_, Error>(Extent { at: Some(512 << 20), blocks: 1 });
            file.cache.read(&other, BLOCK, 0, &mut buf, bmap).unwrap();
            log && !file.reads().is_empty()
        };
        used(false);
        (0..2000).for_each(|block| file.read(block, 1));
        file.reads();
        assert_eq!(used(true), !free_behind);
    }
}

/// Promise: the bmap cache: a file system is asked once for a run, and not at all for what is in
/// memory.
#[test]
fn bmap_is_remembered() {
    let file = File::new(500, clusters(8));
    (0..500).for_each(|block| file.read(block, 1));
    assert_eq!(*file.asked.lock(), 1);
}

/// Promise: a small file stays in memory with its inode, whatever else is read.
#[test]
fn small_files_stay() {
    for (small_file_bytes, again) in [(2048, 0), (0, 1)] {
        let file = File::new(2000, DataSettings { free_behind: false, small_file_bytes, ..clusters(8) });
        let small = file.cache.stream(4096, 1);
        let look = || {
            let mut buf = [0; 700];
            let bmap = |_, _| Ok::<_, Error>(Extent { at: Some(512 << 20), blocks: 1 });
            file.cache.read(&small, 700, 0, &mut buf, bmap).unwrap();
        };
        look();
        (0..2000).for_each(|block| file.read(block, 1));
        file.reads();
        look();
        assert_eq!(file.reads().len(), again);
    }
}
