//! The journal of gjournal: journals made from the description of the format, and what readers see
//! of them.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{self, check};
use spindle_ffs::gjournal::{GjournalEntry, GjournalHeader, GjournalMetadata, GjournalRecord, md5};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::{Fs, flags};
use spindle_ffs::{Dialect, Ffs, JournalKind, LogUse, OpenOptions, Superblock, replayed};
use spindle_ondisk::Endian;
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::sync::Arc;

const FS_BYTES: u64 = 8 << 20;
const SECTOR: u64 = 512;
const NOW: i64 = 1_700_000_000;

fn open(device: &Arc<MemoryDevice>) -> Ffs {
    let options = OpenOptions { log: LogUse::Never, seed: Some(1), ..OpenOptions::default() };
    Ffs::open(device.clone(), Arc::new(ManualClock::at(NOW)), &options).unwrap()
}

fn create(device: &Arc<MemoryDevice>, name: &str, bytes: &[u8]) {
    let fs = open(device);
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    let file =
        fs.create(fs.root(), name.as_bytes(), &NewNode::new(FileKind::Regular, 0o644), Privilege::Root);
    fs.write(file.unwrap().ino, 0, bytes, Privilege::Root).unwrap();
    fs.unmount().unwrap();
}

/// Sets the flag of gjournal in the superblock.
fn mark(device: &MemoryDevice) {
    let layout = Superblock::open(device).unwrap().layout;
    let mut raw = vec![0; 8192];
    device.read_at(layout.fs_sblockloc, &mut raw).unwrap();
    let mut fs = Fs::decode(&raw, layout.endian);
    fs.fs_flags |= flags::FS_GJOURNAL;
    fs.encode(&mut raw, layout.endian);
    device.write_at(layout.fs_sblockloc, &raw).unwrap();
}

/// States of a file system with one file more in each.
fn states(count: usize) -> Vec<Vec<u8>> {
    let parameters = Parameters {
        dialect: Some(Dialect::FreeBsd),
        format: Format::Ufs2,
        endian: Some(Endian::Little),
        check_hashes: false,
        ..Parameters::new(FS_BYTES)
    };
    let device = Arc::new(MemoryDevice::new(FS_BYTES));
    let plan = Plan::new(&parameters).unwrap();
    let random = &mut StdRng::seed_from_u64(1);
    newfs::write(&plan, &*device, &ManualClock::at(NOW), random, &mut |_, _| ()).unwrap();
    let mut states = Vec::new();
    for n in 0..count {
        create(&device, &format!("file{n}"), format!("content {n}").repeat(5000).as_bytes());
        let marked = device.branch();
        mark(&marked);
        states.push(marked.to_bytes());
    }
    states
}

/// A provider with a file system, a journal of `journal` bytes behind it, and metadata.
struct Provider {
    bytes: Vec<u8>,
    metadata: GjournalMetadata,
    /// Where the next sector of the journal goes.
    at: u64,
    /// Most bytes of an entry of this system.
    maxphys: u64,
}

impl Provider {
    /// Begins a journal at byte `from` of its space.
    fn new(state: &[u8], journal: u64, from: u64, maxphys: u64) -> Self {
        let mut bytes = state.to_vec();
        bytes.resize(usize::try_from(FS_BYTES + journal + SECTOR).unwrap(), 0);
        let mut magic = [0; 16];
        magic[..13].copy_from_slice(GjournalMetadata::MAGIC);
        let metadata = GjournalMetadata {
            md_magic: magic,
            md_version: 0,
            md_id: 77,
            md_type: GjournalMetadata::COMPLETE,
            md_jstart: FS_BYTES,
            md_jend: FS_BYTES + journal,
            md_joffset: FS_BYTES + from,
            md_jid: 7,
            md_flags: 0,
            md_provider: [0; 16],
            md_provsize: bytes.len() as u64,
            md_hash: [0; 16],
        };
        Self { bytes, metadata, at: FS_BYTES + from, maxphys }
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::try_from(self.at).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len() as u64;
    }

    /// Begins at the start again where the largest record has no room any more.
    fn wrap(&mut self) {
        if self.at + SECTOR + 20 * self.maxphys >= self.metadata.md_jend {
            self.at = self.metadata.md_jstart;
        }
    }

    fn header(&mut self, id: u32, next: u32) {
        let mut sector = vec![0; 512];
        let header = GjournalHeader { jh_magic: *b"GJHDR\0", jh_journal_id: id, jh_journal_next_id: next };
        header.encode(&mut sector, Endian::Little);
        self.put(&sector);
    }

    /// Adds records of all sectors in which `after` differs from `before`.
    fn records(&mut self, id: u32, before: &[u8], after: &[u8]) {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (n, (old, new)) in before.chunks(512).zip(after.chunks(512)).enumerate() {
            let at = n as u64 * SECTOR;
            match runs.last_mut() {
                _ if old == new => {}
                Some((start, bytes)) if *start + bytes.len() as u64 == at && bytes.len() < 8192 => {
                    bytes.extend(new);
                }
                _ => runs.push((at, new.to_vec())),
            }
        }
        for part in runs.chunks(GjournalRecord::MOST) {
            self.wrap();
            let mut sector = vec![0; 512];
            let head = GjournalRecord {
                jrh_magic: *b"GJRHDR\0",
                jrh_journal_id: id,
                jrh_nentries: u16::try_from(part.len()).unwrap(),
                jrh_sum: [0; 8],
            };
            head.encode(&mut sector, Endian::Little);
            let mut data = self.at + SECTOR;
            for ((at, bytes), entry) in part.iter().zip(sector[25..].chunks_exact_mut(24)) {
                let len = bytes.len() as u64;
                let entry_is = GjournalEntry { je_joffset: data, je_offset: *at, je_length: len };
                entry_is.encode(entry, Endian::Little);
                data += len;
            }
            self.put(&sector);
            for (_, bytes) in part {
                self.put(bytes);
            }
        }
    }

    /// Returns the device, with the metadata as `change` makes it.
    fn device(&self, change: impl FnOnce(&mut GjournalMetadata)) -> Arc<MemoryDevice> {
        let mut metadata = self.metadata;
        change(&mut metadata);
        let mut bytes = self.bytes.clone();
        let at = bytes.len() - 512;
        metadata.encode(&mut bytes[at..], Endian::Little);
        let hash = md5(&bytes[at..at + 85]);
        bytes[at + 85..at + 101].copy_from_slice(&hash);
        Arc::new(MemoryDevice::from_bytes(&bytes))
    }
}

/// Expects that readers see the first `count` files of [`states`], and that nothing is written.
fn expect_files(device: &Arc<MemoryDevice>, count: usize, what: &str) {
    let before = device.to_bytes();
    let fs = open(device);
    assert!(fs.read_only() && fs.read_only_reasons()[0].reason.contains("gjournal"), "{what}");
    for n in 0..3 {
        let found = fs.lookup(fs.root(), format!("file{n}").as_bytes());
        assert_eq!(found.is_ok(), n < count, "{what}: file{n}");
        if let Ok(file) = found {
            let wanted = format!("content {n}").repeat(5000);
            let mut bytes = vec![0; wanted.len()];
            assert_eq!(fs.read(file.ino, 0, &mut bytes).unwrap(), wanted.len());
            assert_eq!(bytes, wanted.as_bytes(), "{what}: file{n}");
        }
    }
    drop(fs);
    assert_eq!(device.to_bytes(), before, "{what}");
}

/// Promise: what complete journals hold is in its place for who reads, wherever the journal begins
/// in its space, of systems with small and large transfers; what stands behind the last header has
/// not happened; and nothing is written.
#[test]
fn complete_journals_are_replayed() {
    let states = states(3);
    for (journal, from, maxphys) in [
        (6 << 20, 0, 128 << 10),
        (6 << 20, (6 << 20) - (2600 << 10), 128 << 10),
        (24 << 20, 3 << 20, 1 << 20),
    ] {
        let what = format!("{journal} {from}");
        let mut provider = Provider::new(&states[0], journal, from, maxphys);
        provider.header(7, 9);
        provider.records(7, &states[0], &states[1]);
        expect_files(&provider.device(|_| ()), 1, &format!("{what}: no end"));
        provider.wrap();
        provider.header(9, 4);
        let device = provider.device(|_| ());
        expect_files(&device, 2, &what);
        let dynamic: Arc<dyn Device> = device.clone();
        let shown = replayed(&dynamic, &Superblock::open(&*device).unwrap()).unwrap().unwrap();
        assert!(shown.kind == JournalKind::Gjournal && shown.records > 0);
        let report = check(&*shown.view, &check::Options::default(), &mut |_| ()).unwrap();
        assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
        provider.records(9, &states[1], &states[2]);
        expect_files(&provider.device(|_| ()), 2, &format!("{what}: the second has no end"));
        provider.wrap();
        provider.header(4, 5);
        expect_files(&provider.device(|_| ()), 3, &format!("{what}: two journals"));
    }
}

/// Promise: a journal that is clean, of another number, damaged, of another version, on another
/// device or where it cannot be is not replayed; no length or place in it leads out of the journal
/// or the file system.
#[test]
fn journals_that_are_not_replayed() {
    let states = states(2);
    let mut provider = Provider::new(&states[0], 6 << 20, 0, 128 << 10);
    provider.header(7, 9);
    provider.records(7, &states[0], &states[1]);
    provider.wrap();
    provider.header(9, 4);
    expect_files(&provider.device(|_| ()), 2, "as it is");
    expect_files(&provider.device(|md| md.md_flags = GjournalMetadata::CLEAN), 1, "clean");
    expect_files(&provider.device(|md| md.md_jid = 8), 1, "another number");
    expect_files(&provider.device(|md| md.md_version = 1), 1, "version");
    expect_files(&provider.device(|md| md.md_type = 1), 1, "data alone");
    for (start, end, at) in [
        (FS_BYTES - 512, FS_BYTES + (6 << 20), FS_BYTES),
        (FS_BYTES, u64::MAX - 511, FS_BYTES),
        (FS_BYTES, FS_BYTES, FS_BYTES),
        (FS_BYTES, FS_BYTES + (6 << 20), 0),
        (FS_BYTES, FS_BYTES + (6 << 20), FS_BYTES + 1),
    ] {
        let placed = provider.device(|md| (md.md_jstart, md.md_jend, md.md_joffset) = (start, end, at));
        expect_files(&placed, 1, "misplaced");
    }
    let device = provider.device(|_| ());
    let mut bytes = device.to_bytes();
    let last = bytes.len() - 512;
    bytes[last + 30] ^= 1;
    expect_files(&Arc::new(MemoryDevice::from_bytes(&bytes)), 1, "a wrong checksum");
    let record = usize::try_from(FS_BYTES).unwrap() + 512;
    for (at, value) in [(25, 0_u64), (33, FS_BYTES), (33, u64::MAX - 511), (41, u64::MAX - 511), (41, 513)] {
        let mut bytes = device.to_bytes();
        bytes[record + at..record + at + 8].copy_from_slice(&value.to_le_bytes());
        expect_files(&Arc::new(MemoryDevice::from_bytes(&bytes)), 1, "a wrong entry");
    }
}
