//! New file systems, as newfs leaves them, before the foreign readers: each reads them in every
//! format it knows.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_clock::ManualClock;
use spindle_device::{FileDevice, OpenOptions};
use spindle_ffs::Dialect;
use spindle_ffs::newfs::{Format as Version, Parameters, Plan, write};
use spindle_interop::format::Format;
use spindle_interop::reader::Reader;
use spindle_interop::record::{Kind, Listing, Record, Stamp};
use spindle_ondisk::Endian;

const NOW: i64 = 1_700_000_000;

/// Returns a directory as newfs makes it.
fn directory(mode: u32, gid: u32, nlink: u32) -> Record {
    Record {
        kind: Some(Kind::Directory),
        mode: Some(mode),
        uid: Some(0),
        gid: Some(gid),
        nlink: Some(nlink),
        mtime: Some(Stamp { secs: NOW, nanos: None }),
        ..Record::default()
    }
}

/// Makes the file system in a file and shows it to all readers that know its format. Gives how many
/// they were.
fn show(parameters: &Parameters) -> usize {
    let file = tempfile::NamedTempFile::new().unwrap();
    let device = FileDevice::create(file.path(), parameters.size_bytes, &OpenOptions::read_write()).unwrap();
    let plan = Plan::new(parameters).unwrap_or_else(|error| panic!("{parameters:?}: {error}"));
    let mut random = SmallRng::seed_from_u64(1);
    let superblock = write(&plan, &device, &ManualClock::at(NOW), &mut random, &mut |_, _| ()).unwrap();
    drop(device);

    let below = match superblock.dialect {
        Dialect::FreeBsd => Some((".snap", directory(0o775, 5, 2))),
        Dialect::Bsd43 => Some(("lost+found", directory(0o755, 0, 2))),
        Dialect::Sun { .. } => Some(("lost+found", directory(0o700, 0, 2))),
        // NetBSD, OpenBSD, 4.4BSD and Apple begin with an empty root; no others are made.
        _ => None,
    };
    let root = directory(0o755, 0, 2 + u32::from(below.is_some()));
    let mut expected = Listing::from([(b".".to_vec(), root)]);
    expected.extend(below.map(|(name, record)| (name.into(), record)));
    let format = Format::of(file.path()).unwrap();
    let readers: Vec<_> = Reader::ALL.into_iter().filter(|reader| reader.reads(&format)).collect();
    for reader in &readers {
        let differences = reader.disagrees(file.path(), &expected).unwrap();
        assert!(differences.is_empty(), "{reader:?} of {parameters:?}:\n{}", differences.join("\n"));
    }
    readers.len()
}

/// Promise: in every version, byte order and dialect, and with every block size, what newfs makes
/// is a file system to all programs that read that format, and every reader has formats that it
/// reads.
#[test]
fn every_reader_finds_the_root() {
    let mut shown = 0;
    for format in [Version::Old, Version::Ufs1, Version::Ufs2] {
        for endian in [Endian::Little, Endian::Big] {
            for (bsize, fsize) in
                [(4096, 512), (8192, 1024), (8192, 8192), (32768, 4096), (65536, 8192), (65536, 65536)]
            {
                shown += show(&Parameters {
                    format,
                    endian: Some(endian),
                    bsize: Some(bsize),
                    fsize: Some(fsize),
                    ..Parameters::new(64 << 20)
                });
            }
        }
    }
    for dialect in [
        Dialect::NetBsd,
        Dialect::OpenBsd,
        Dialect::Bsd44,
        Dialect::Sun { x86: false },
        Dialect::Sun { x86: true },
    ] {
        shown +=
            show(&Parameters { format: Version::Ufs1, dialect: Some(dialect), ..Parameters::new(64 << 20) });
    }
    assert!(shown > 50, "only {shown} readings");
}
