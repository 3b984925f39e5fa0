//! Dumps of random trees, restored from whole and from damaged streams.

mod damaged;
mod random;
mod tree;

use random::{Changes, seed};
use spindle::dump::{Honor, Plan, Single, Stamp};
use spindle::restore::{Destination, Names, Restore, Restored, Stream};
use spindle::transfer::{ImageSink, NewFiles, Sink as _};
use spindle::{Error, Image, OpenOptions, Parameters, Spec, newfs as make_fs};
use spindle_clock::ManualClock;
use spindle_ffs::{Dialect, newfs};
use spindle_ondisk::Endian;
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use tree::{Tree, read_tree};

/// Bytes of the images.
const SIZE: u64 = 12 << 20;

/// A format to dump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format(newfs::Format, Endian, Dialect);

const FORMATS: [Format; 6] = [
    Format(newfs::Format::Ufs2, Endian::Little, Dialect::FreeBsd),
    Format(newfs::Format::Ufs2, Endian::Big, Dialect::NetBsd),
    Format(newfs::Format::Ufs1, Endian::Little, Dialect::OpenBsd),
    Format(newfs::Format::Ufs1, Endian::Big, Dialect::Bsd44),
    Format(newfs::Format::Ufs1, Endian::Big, Dialect::Sun { x86: false }),
    Format(newfs::Format::Old, Endian::Little, Dialect::Bsd43),
];

/// Makes an image of a format, and opens it with a clock.
pub(crate) fn make(path: &Path, format: Format, clock: &Arc<ManualClock>) -> Image {
    let spec = Spec::parse(path.to_str().unwrap()).unwrap();
    if path.exists() {
        std::fs::remove_file(path).unwrap();
    }
    let Format(kind, endian, dialect) = format;
    let parameters =
        Parameters { format: kind, endian: Some(endian), dialect: Some(dialect), ..Parameters::new(SIZE) };
    make_fs::newfs(&spec, &parameters).unwrap_or_else(|error| panic!("{format:?}: {error}"));
    let image = open(path, clock);
    // What a system makes in a new file system would be in the way of what is restored.
    for name in [&b".snap"[..], b"lost+found"] {
        let removed = image.fs().rmdir(image.fs().root(), name);
        assert!(matches!(removed, Ok(()) | Err(spindle_vfs::Error::NotFound)), "{removed:?}");
    }
    image
}

/// Opens an image with a clock.
pub(crate) fn open(path: &Path, clock: &Arc<ManualClock>) -> Image {
    let spec = Spec::parse(path.to_str().unwrap()).unwrap();
    let options = OpenOptions { clock: clock.clone(), ..OpenOptions::read_write() };
    Image::open(&spec, &options).unwrap()
}

/// Returns the stamp of a dump.
pub(crate) fn stamp(level: i32, date: i64, ddate: i64) -> Stamp {
    Stamp { date, ddate, level, label: b"test".to_vec(), ..Stamp::default() }
}

/// Dumps an image. Nothing of it must be lost.
pub(crate) fn dump(image: &Image, stamp: Stamp, honor: Honor) -> Vec<u8> {
    let lost = |error: Error| panic!("{error}");
    let plan = Plan::new(image, stamp, honor, &lost, &|| Ok(())).unwrap();
    let mut bytes = Vec::new();
    let written = plan.write(Single(&mut bytes), &lost, &|_| Ok(())).unwrap();
    assert_eq!((written.files, written.bytes), (plan.files() as u64, bytes.len() as u64));
    bytes
}

/// Restores a chain of dumps into the root of an image. Returns what was restored, if it came to
/// its end, and everything that was reported.
pub(crate) fn restore(
    streams: &[Vec<u8>],
    image: &Image,
    dialect: Dialect,
) -> (Option<Restored>, Vec<String>) {
    let said = RefCell::new(Vec::new());
    let report = |error: Error| said.borrow_mut().push(error.to_string());
    let failed = |path: &[u8], error: Error| {
        said.borrow_mut().push(format!("{}: {error}", String::from_utf8_lossy(path)));
        Ok(())
    };
    let vfs = image.vfs();
    let root = vfs.root_node().unwrap();
    let mut sink = ImageSink::new(&root, b"/", NewFiles::PRESERVED).past_failures(&failed);
    let mut done = || {
        let mut opened = Vec::new();
        for (n, bytes) in streams.iter().enumerate() {
            opened.push(Stream::open(&format!("dump.{n}"), &bytes[..], None, &report)?);
        }
        let mut restore = Restore::new(opened, &report)?;
        let to = Destination { sink: &mut sink, failed: &failed, report: &report, dialect: Some(dialect) };
        let restored = restore.extract(&Names::default(), to)?;
        sink.finish()?;
        Ok::<_, Error>(restored)
    };
    let restored = match done() {
        Ok(restored) => Some(restored),
        Err(error) => {
            said.borrow_mut().push(error.to_string());
            None
        }
    };
    (restored, said.take())
}

/// A chain of dumps of a tree that changes, and the tree that it ends with.
pub(crate) struct Chain {
    /// The dumps, level 0 first.
    pub streams: Vec<Vec<u8>>,
    /// The tree at the time of the last one.
    pub tree: Tree,
    /// The dialect of the image.
    pub dialect: Dialect,
}

/// Makes a random tree and changes it, with dumps of random levels in between. Returns those that
/// are needed to restore the last one.
pub(crate) fn chain(dir: &Path, format: Format, seed: u64, dumps: usize) -> Chain {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let image = make(&dir.join("source.img"), format, &clock);
    let mut changes = Changes::new(&image, clock.clone(), seed);
    // The dumps that later ones can be based on: level, date and stream, from level 0.
    let mut kept: Vec<(i32, i64, Vec<u8>)> = Vec::new();
    for n in 0..dumps {
        changes.make(if n == 0 { 60 } else { 15 });
        let level = if n == 0 { 0 } else { changes.level() };
        kept.retain(|(below, ..)| *below < level);
        let ddate = kept.last().map_or(0, |(_, date, _)| *date);
        let date = changes.now();
        let bytes = dump(&image, stamp(level, date, ddate), Honor(10));
        kept.push((level, date, bytes));
        // Files of the same second are dumped again.
        changes.pause();
    }
    let tree = read_tree(&image);
    image.unmount().unwrap();
    Chain { streams: kept.into_iter().map(|(.., bytes)| bytes).collect(), tree, dialect: format.2 }
}

/// Promise: whatever happens to a tree of any format between dumps of whatever levels, what the
/// chain restores is the tree of the last one, with all attributes.
#[test]
fn torture_chains_round_trip() {
    let seed = seed("torture_chains_round_trip");
    let cases = std::env::var("SPINDLE_CASES").map_or(18, |cases| cases.parse::<u64>().unwrap());
    let dir = tempfile::tempdir().unwrap();
    for case_seed in seed..seed + cases {
        let number = usize::try_from(case_seed).unwrap();
        let format = FORMATS[number % FORMATS.len()];
        let chain = chain(dir.path(), format, case_seed, 1 + number % 4);
        let clock = Arc::new(ManualClock::at(2_000_000_000));
        let target = make(&dir.path().join("target.img"), format, &clock);
        let (restored, said) = restore(&chain.streams, &target, chain.dialect);
        let context =
            format!("SPINDLE_SEED={case_seed} SPINDLE_CASES=1, {format:?}, {} dumps", chain.streams.len());
        assert_eq!(said, Vec::<String>::new(), "{context}");
        assert_eq!(restored.map(|restored| restored.absent), Some(0), "{context}");
        let differences = chain.tree.differences(&read_tree(&target));
        assert!(differences.is_empty(), "{context}:\n{}", differences.join("\n"));
        target.unmount().unwrap();
    }
}
