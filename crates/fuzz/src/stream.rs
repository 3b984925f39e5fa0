//! Streams and files that are no images: tar, manifests, dumps, traces, findings.

use crate::Target;
use crate::image::BASES;
use spindle::dump::{self, Stamp};
use spindle::newfs::NewFs;
use spindle::restore::{Destination, Names as Wanted, Restore, Stream};
use spindle::transfer::{ImageSource, Manifest, Names, Source, TarReader, TarWriter, rehearse};
use spindle::{Image, OpenOptions, Parameters, Spec};
use spindle_analyze::{self as findings, Dimension, Partial, Show, analyze_partially};
use spindle_trace::{Batch, Columns, Event, FileId, Info, Kind};
use std::io::{Cursor, Write};
use std::path::Path;

/// Tar streams.
pub const TAR: Target = Target { name: "tar", about: "a tar stream", seeds: tar_seeds, run: run_tar };

/// Manifests of mtree(5).
pub const MANIFEST: Target =
    Target { name: "manifest", about: "an mtree manifest", seeds: manifest_seeds, run: run_manifest };

/// Streams of dump(8).
pub const DUMP: Target =
    Target { name: "dump", about: "a stream of dump(8)", seeds: dump_seeds, run: run_dump };

/// Traces of all formats.
pub const TRACE: Target =
    Target { name: "trace", about: "a trace of any format", seeds: trace_seeds, run: run_trace };

/// Findings of analysed traces.
pub const FINDINGS: Target = Target {
    name: "findings",
    about: "a file of findings of trace analyze --partial",
    seeds: findings_seeds,
    run: run_findings,
};

/// Bytes of the file system that a tar stream is put into.
const ROOM: u64 = 4 << 20;
/// Most bytes of a seed.
const SEED: usize = 60_000;
/// Bytes of a record of a dump.
const RECORD: usize = 1024;

/// Opens a valid image, and passes it on.
fn with_image<T>(work: impl FnOnce(&Image) -> T) -> T {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&BASES[0].bytes).expect("room for an image");
    let spec = Spec::parse(file.path().to_str().expect("a plain name")).expect("a plain name");
    let image = Image::open(&spec, &OpenOptions::read_only()).expect("a valid image");
    let result = work(&image);
    image.unmount().expect("an unmount");
    result
}

fn tar_seeds() -> Vec<Vec<u8>> {
    let mut stream = Vec::new();
    with_image(|image| {
        let vfs = image.vfs();
        let root = vfs.root_node().expect("a root directory");
        ImageSource::new(&vfs, root).walk(&mut TarWriter::new(&mut stream, "seed")).expect("a tree");
    });
    stream.truncate(SEED);
    vec![stream]
}

/// Puts a tar stream into a file system, and copies it.
fn run_tar(data: &[u8]) {
    let plan = spindle_ffs::newfs::Plan::new(&Parameters::new(ROOM)).expect("a size that can be");
    let bytes = data.to_vec();
    let walk =
        |sink: &mut dyn spindle::transfer::Sink| TarReader::stream(Cursor::new(bytes.clone())).walk(sink);
    let _ = rehearse(&NewFs::Ffs(Box::new(plan)), Some(0), &walk);
    let mut out = TarWriter::new(Bounded(64 << 20), "copy");
    let _ = TarReader::seekable(Cursor::new(data.to_vec())).walk(&mut out);
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let full = b"#mtree\n/set type=file uid=0 gid=0 mode=0755 nlink=1\n. type=dir\n    a mode=0644 \
        time=1700000000.5 size=3 flags=uchg,nodump contents=/tmp/x\n    l type=link link=a\\040b\n\
        d type=dir optional\n    c type=char device=native,1,2\n..\n..\n";
    let paths = b"./a type=file mode=0600 uname=root gname=wheel sha256digest=00\n./d type=dir\n./d/f type=fifo \\\n mode=1\n";
    vec![full.to_vec(), paths.to_vec()]
}

fn run_manifest(data: &[u8]) {
    let names = Names::parse(b"root:*:0:0::/:/bin/sh\n", b"wheel:*:0:root\n");
    let _ = Manifest::parse("manifest", data, &names);
}

fn dump_seeds() -> Vec<Vec<u8>> {
    let stamp = Stamp {
        date: 1_700_000_000,
        ddate: 0,
        level: 0,
        label: b"none".to_vec(),
        filesys: b"/mnt".to_vec(),
        device: b"disk".to_vec(),
        host: b"here".to_vec(),
    };
    let mut stream = Vec::new();
    with_image(|image| {
        let plan =
            dump::Plan::new(image, stamp, dump::Honor::default(), &|_| (), &|| Ok(())).expect("a plan");
        plan.write(dump::Single(&mut stream), &|_| (), &|_| Ok(())).expect("a dump");
    });
    stream.truncate(SEED / RECORD * RECORD);
    vec![stream]
}

/// Lists and restores everything, as a tar stream.
fn run_dump(data: &[u8]) {
    let mut data = data.to_vec();
    for record in data.chunks_exact_mut(RECORD) {
        mend(record);
    }
    let Ok(stream) = Stream::open("dump", Cursor::new(data), None, &|_| ()) else { return };
    let Ok(mut restore) = Restore::new(vec![stream], &|_| ()) else { return };
    let _ = (restore.list().count(), restore.unnamed());
    let mut sink = TarWriter::new(Bounded(64 << 20), "restored");
    let to = Destination { sink: &mut sink, failed: &|_, _| Ok(()), report: &|_| (), dialect: None };
    let _ = restore.extract(&Wanted::new(Vec::<Vec<u8>>::new()), to);
}

/// Corrects the checksum of a record that looks like a header: its words add up to 84446.
fn mend(record: &mut [u8]) {
    const CHECKSUM: usize = 28;
    for (get, put) in [
        (u32::from_le_bytes as fn([u8; 4]) -> u32, u32::to_le_bytes as fn(u32) -> [u8; 4]),
        (u32::from_be_bytes, u32::to_be_bytes),
    ] {
        let word =
            |record: &[u8], at: usize| get([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        if !matches!(word(record, 24), 60_011 | 60_012 | 0x1954_0119) {
            continue;
        }
        record[CHECKSUM..CHECKSUM + 4].fill(0);
        let sum = (0..RECORD).step_by(4).fold(0_u32, |sum, at| sum.wrapping_add(word(record, at)));
        record[CHECKSUM..CHECKSUM + 4].copy_from_slice(&put(84_446_u32.wrapping_sub(sum)));
    }
}

fn findings_seeds() -> Vec<Vec<u8>> {
    let found = |dimensions: &[Dimension]| {
        let mut batch = Batch::default();
        let path = batch.names.symbol("/a/b.c");
        for (n, seconds) in (0..40).zip(0..) {
            let kind = [Kind::Create, Kind::Run, Kind::Close, Kind::Unlink][n % 4];
            let open = if kind == Kind::Unlink { 0 } else { 1 + n as u64 / 4 };
            let file = FileId { device: 1, inode: open };
            let time = seconds * 1_000_000_000;
            batch.events.push(Event {
                time,
                kind,
                open,
                file,
                written: 100,
                calls: 2,
                path,
                ..Event::default()
            });
        }
        let mut partial = analyze_partially(&mut batch, dimensions, |_| ()).expect("a trace in memory");
        partial.describe("a.trace".into(), Some(1000));
        partial.to_bytes()
    };
    vec![found(&[]), found(&Dimension::ALL)]
}

/// Reads findings, merges them with themselves, shows and stores them.
fn run_findings(data: &[u8]) {
    const HEADER: usize = findings::MAGIC.len() + 1;
    let mut data = data.to_vec();
    if let Some((sum, fields)) = data.get_mut(HEADER..).and_then(|rest| rest.split_at_mut_checked(4)) {
        sum.copy_from_slice(&crc32c::crc32c(fields).to_le_bytes());
    }
    let path = Path::new("findings");
    let Ok(mut read) = Partial::from_bytes(path, &data) else { return };
    let other = read.clone();
    read.merge(&other);
    let bytes = read.to_bytes();
    let again = Partial::from_bytes(path, &bytes).expect("what was written is read");
    assert_eq!(again.to_bytes(), bytes);
    let found = read.findings(&Dimension::ALL, 10);
    let _ = spindle_report::render::sections(&found.sections(&Show::default()));
}

fn trace_seeds() -> Vec<Vec<u8>> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut writer = spindle_trace::format::Writer::create(file.path()).expect("a temporary file");
    let mut batch = Batch::default();
    for n in 0..20 {
        batch.events.push(Event { time: n, read: 10, ..Event::default() });
    }
    writer.write(&batch).expect("a temporary file");
    writer.finish(&Info::default()).expect("a temporary file");
    let ours = std::fs::read(file.path()).expect("a temporary file");
    let lines: [&[u8]; 7] = [
        b"100 1700000000.000001 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC) = 3</etc/passwd>\n\
          100 1700000000.000002 read(3</etc/passwd>, \"root\"..., 4096) = 4 <0.000010>\n\
          100 1700000000.000003 close(3</etc/passwd>) = 0\n",
        b"128166372003061629,hm,0,Read,383496192,32768,413\n",
        b"  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n",
        b"fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\n/dev/sda close\n",
        b"0, 100, 0, 4096, 0, 0\n",
        b"89966094447622 4892 syslogd 904265560 8 W 6 0 md5\n",
        b"time,id,size,op\n1,a,100,read\n2,b,100,write\n",
    ];
    lines.iter().map(|lines| lines.to_vec()).chain([ours]).collect()
}

/// Reads all events of a trace.
fn run_trace(data: &[u8]) {
    let mut file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a temporary file");
    file.write_all(data).expect("a temporary file");
    let Ok(mut source) = spindle_trace::open(file.path(), Columns::ALL) else { return };
    let mut batch = Batch::default();
    while source.next(&mut batch).unwrap_or(false) {
        for event in &batch.events {
            assert!(i64::try_from(event.end()).is_ok(), "{event:?}");
        }
    }
    let _ = source.info();
}

/// An output that ends with an error after so many bytes.
struct Bounded(usize);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
