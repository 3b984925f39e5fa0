use super::*;
use crate::{DataSettings, Extent, Settings, Space};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_clock::SystemClock;
use spindle_device::{AlignedBuf, Device, Error, Info, MemoryDevice, Op, Request, Ticket};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

/// A memory device that carries requests out only when a caller waits for them or for a barrier, in
/// any order.
struct Lazy {
    inner: MemoryDevice,
    queue: Mutex<(u64, StdRng, BTreeMap<u64, Request>)>,
    done: Mutex<BTreeMap<u64, AlignedBuf>>,
}

impl Lazy {
    fn new(bytes: u64, seed: u64) -> Self {
        Self {
            inner: MemoryDevice::new(bytes),
            queue: Mutex::new((0, StdRng::seed_from_u64(seed), BTreeMap::new())),
            done: Mutex::default(),
        }
    }

    /// Carries out requests until `wanted` is among them.
    fn work(&self, wanted: Option<u64>) {
        loop {
            let next = {
                let (_, random, queue) = &mut *self.queue.lock();
                if queue.is_empty() || wanted.is_some_and(|id| !queue.contains_key(&id)) {
                    return;
                }
                let nth = random.random_range(0..queue.len());
                let id = *queue.keys().nth(nth).unwrap();
                (id, queue.remove(&id).unwrap())
            };
            let (id, mut request) = next;
            match request.op {
                Op::Read => self.inner.read_at(request.offset, &mut request.buf).unwrap(),
                Op::Write => self.inner.write_at(request.offset, &request.buf).unwrap(),
            }
            self.done.lock().insert(id, request.buf);
        }
    }
}

impl Device for Lazy {
    fn info(&self) -> &Info {
        self.inner.info()
    }
    fn submit(&self, request: Request) -> Result<Ticket> {
        self.info().check(request.op, request.offset, request.buf.len())?;
        let (ids, _, queue) = &mut *self.queue.lock();
        *ids += 1;
        queue.insert(*ids, request);
        Ok(Ticket::new(*ids))
    }
    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        self.work(Some(ticket.id()));
        Ok(self.done.lock().remove(&ticket.id()).expect("each ticket is waited for once"))
    }
    fn flush(&self) -> Result<()> {
        self.work(None);
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }
}

/// A file whose blocks lie anywhere, and its expected contents.
struct Model {
    bytes: Vec<u8>,
    places: Vec<Option<u64>>,
}

/// Returns the blocks of the device, in the order in which files get them.
fn space(random: &mut StdRng) -> Vec<u64> {
    let mut free: Vec<u64> = (1..3 * BLOCKS).rev().map(|n| n * BLOCK as u64).collect();
    if random.random_bool(0.3) {
        for _ in 0..free.len() {
            let (a, b) = (random.random_range(0..free.len()), random.random_range(0..free.len()));
            free.swap(a, b);
        }
    }
    free
}

impl Model {
    fn new() -> Self {
        Self { bytes: Vec::new(), places: vec![None; index_of(BLOCKS)] }
    }

    fn bmap(&self, block: u64, most: u64) -> Extent {
        let at = self.places[index_of(block)];
        let follows = |n: &u64| {
            let next = self.places.get(index_of(block + n)).copied();
            next == Some(at.map(|at| at + n * BLOCK as u64))
        };
        Extent { at, blocks: 1 + (1..most).take_while(follows).count() as u64 }
    }
}

fn index_of(n: u64) -> usize {
    usize::try_from(n).unwrap()
}

fn write(
    cache: &Cache,
    stream: &Arc<Stream>,
    model: &mut Model,
    free: &mut Vec<u64>,
    offset: usize,
    data: &[u8],
) {
    let tx = cache.begin(0).unwrap().unwrap();
    let end = offset + data.len();
    if model.bytes.len() < end {
        model.bytes.resize(end, 0);
    }
    let mut at = offset;
    while at < end {
        let block = at / BLOCK;
        let stop = end.min((block + 1) * BLOCK);
        if model.places[block].is_none() {
            let place = free.pop().unwrap();
            model.places[block] = Some(place);
            if stop - at < BLOCK {
                let written = if at.is_multiple_of(BLOCK) { stop % BLOCK } else { 0 };
                cache.write_zeros(stream, &tx, block as u64, place, written..BLOCK).unwrap();
            }
        }
        let place = model.places[block].unwrap();
        let space =
            Space { offset: at as u64, at: place + (at % BLOCK) as u64, end: ((block + 1) * BLOCK) as u64 };
        cache.write(stream, &tx, space, &data[at - offset..stop - offset]).unwrap();
        at = stop;
    }
    model.bytes[offset..end].copy_from_slice(data);
    tx.commit();
}

fn read(cache: &Cache, stream: &Arc<Stream>, model: &Model, offset: usize, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    let size = model.bytes.len() as u64;
    let bmap = |block, most| Ok::<_, Error>(model.bmap(block, most));
    cache.read(stream, size, offset as u64, &mut buf, bmap).unwrap();
    buf
}

fn settings(random: &mut StdRng) -> Settings {
    let memory = BLOCK * random.random_range(4..40);
    let mut data = match random.random_range(0..3) {
        0 => DataSettings::old(BLOCK, memory),
        1 => DataSettings::clustered(BLOCK * random.random_range(1..9), memory),
        _ => DataSettings { capacity_bytes: memory, ..DataSettings::THROUGH },
    };
    data.random_clusters = random.random();
    data.free_behind = random.random();
    data.straight_bytes = random.random_bool(0.3).then(|| BLOCK * random.random_range(1..6));
    data.straight_random_bytes = random.random_bool(0.3).then(|| 512 << random.random_range(0..4));
    data.pieces_ahead = random.random();
    data.reclaim_bytes = BLOCK * random.random_range(0..3);
    data.small_file_bytes = if random.random() { 2048 } else { 0 };
    data.write_limit_bytes = random.random_bool(0.5).then(|| BLOCK * random.random_range(1..8));
    Settings { data, ..Settings::default() }
}

fn run(seed: u64) {
    let random = &mut StdRng::seed_from_u64(seed);
    let settings = settings(random);
    let device = Arc::new(Lazy::new(4 * BLOCKS * BLOCK as u64, seed));
    let cache = Cache::new(device.clone(), Arc::new(SystemClock), settings);
    let files = 2;
    let streams: Vec<_> = (0..files).map(|_| cache.stream(4096, random.random_range(1..8))).collect();
    let mut free = space(random);
    let mut models: Vec<Model> = (0..files).map(|_| Model::new()).collect();
    let most = index_of(BLOCKS) * BLOCK;
    let (mut next, mut place) = (0, 0);
    for step in 0..300 {
        let nth = random.random_range(0..files);
        let (stream, model) = (&streams[nth], &mut models[nth]);
        let len = 1 + match random.random_range(0..3) {
            0 => random.random_range(0..700),
            1 => random.random_range(0..2 * BLOCK),
            _ => random.random_range(0..10 * BLOCK),
        };
        match random.random_range(0..20) {
            0..=5 => {
                let offset = if random.random() { next } else { random.random_range(0..most) };
                // Whole sectors often enough for what goes straight to the device.
                let (offset, len) = if random.random() {
                    (offset / 512 * 512, len.next_multiple_of(512))
                } else {
                    (offset, len)
                };
                let len = len.min(most - offset);
                let data: Vec<u8> = (0..len).map(|_| random.random()).collect();
                write(&cache, stream, model, &mut free, offset, &data);
                next = (offset + len) % most;
            }
            6..=14 if !model.bytes.is_empty() => {
                let offset = if random.random() { place } else { random.random_range(0..model.bytes.len()) };
                let offset = offset.min(model.bytes.len() - 1);
                let len = len.min(model.bytes.len() - offset);
                let found = read(&cache, stream, model, offset, len);
                let wrong = (0..len).find(|&n| found[n] != model.bytes[offset + n]);
                assert_eq!(wrong, None, "seed {seed}, step {step}: {len} bytes at {offset}, {settings:?}");
                place = offset + len;
            }
            15 | 16 => {
                let block = random.random_range(0..index_of(BLOCKS));
                if let Some(old) = model.places[block] {
                    cache.discard(stream, block as u64..block as u64 + 1).unwrap();
                    model.places[block] = None;
                    let end = ((block + 1) * BLOCK).min(model.bytes.len());
                    model.bytes[block * BLOCK..end].fill(0);
                    // Space that another file may get, and fill, at once.
                    free.push(old);
                }
            }
            17 => {
                let from = random.random_range(0..BLOCKS);
                cache.settle(stream, from..from + random.random_range(1..9)).unwrap();
            }
            18 => cache.flush().unwrap(),
            _ => cache.sync().unwrap(),
        }
    }
    cache.sync().unwrap();
    for (model, stream) in models.iter().zip(&streams) {
        for (block, place) in model.places.iter().enumerate() {
            let range = (block * BLOCK).min(model.bytes.len())..((block + 1) * BLOCK).min(model.bytes.len());
            let Some(place) = place else { continue };
            let mut stored = vec![0; BLOCK];
            device.inner.read_at(*place, &mut stored).unwrap();
            assert!(stored[..range.len()] == model.bytes[range], "seed {seed}: block {block} on the device");
        }
        cache.discard(stream, 0..u64::MAX).unwrap();
    }
    drop(streams);
    assert_eq!((cache.pool.bytes(), cache.pool.dirty_bytes()), (0, 0), "seed {seed}");
}

/// Promise: with reads, writes, moves, drops and flushes in any order, under any settings, on a
/// device that carries requests out in any order, every read returns the newest bytes, and the
/// device has them after a sync.
#[test]
fn torture_streams_against_a_model() {
    let cases = std::env::var("SPINDLE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let first = match std::env::var("SPINDLE_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed,
        None => StdRng::from_os_rng().random_range(0..u64::MAX / 2),
    };
    println!("repeat with: SPINDLE_SEED={first} cargo test -p spindle-cache torture_streams");
    for seed in first..first + cases {
        run(seed);
    }
}
