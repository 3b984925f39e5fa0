//! Read-only classes of data: files whose bytes lie on devices that nobody writes.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_device::{AlignedBuf, Device, Info, MemoryDevice, Op, Request, Ticket};
use spindle_mfs::check::{check, repair};
use spindle_mfs::{ClassName, Fingerprint, Mfs, OpenOptions, ReadOnlyClass, Set, read_label};
use spindle_vfs::{
    Error, Extent, FallocateMode, FileKind, FileSystem, Ino, NewNode, Privilege, Result, SetAttr, XattrMode,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::{clock, make_with_classes};

const BY: Privilege = Privilege::Root;
const CLASS: &[u8] = b"user.spindle.class";
const BLOCK: u64 = 4096;

/// A disc: it refuses to be written, and remembers that somebody tried.
struct Disc {
    medium: MemoryDevice,
    info: Info,
    tried: AtomicBool,
}

impl Disc {
    /// Returns a disc of whole blocks, and two sectors behind them, of which no two sectors are
    /// the same.
    fn new(blocks: u64, seed: u64) -> Arc<Self> {
        let medium = MemoryDevice::new(blocks * BLOCK + 1024);
        let mut rng = StdRng::seed_from_u64(seed);
        for at in (0..blocks * BLOCK + 1024).step_by(512) {
            medium.write_at(at, &rng.random::<[u8; 32]>().repeat(16)).unwrap();
        }
        let info = Info { name: format!("disc {seed}"), read_only: true, ..medium.info().clone() };
        Arc::new(Self { medium, info, tried: false.into() })
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let at = usize::try_from(at).unwrap();
        self.medium.to_bytes()[at..at + len].to_vec()
    }
}

impl Device for Disc {
    fn info(&self) -> &Info {
        &self.info
    }
    fn submit(&self, request: Request) -> spindle_device::Result<Ticket> {
        self.tried.fetch_or(request.op == Op::Write, Ordering::Relaxed);
        self.info.check(request.op, request.offset, request.buf.len())?;
        self.medium.submit(request)
    }
    fn wait(&self, ticket: Ticket) -> spindle_device::Result<AlignedBuf> {
        self.medium.wait(ticket)
    }
    fn flush(&self) -> spindle_device::Result<()> {
        self.tried.store(true, Ordering::Relaxed);
        Ok(())
    }
    fn discard(&self, _: u64, _: u64) -> spindle_device::Result<()> {
        self.tried.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// A set with its discs.
struct Bench {
    media: Vec<Arc<MemoryDevice>>,
    discs: Vec<Arc<Disc>>,
}

impl Drop for Bench {
    /// Fails if the test has written to a disc.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.discs.iter().all(|disc| !disc.tried.load(Ordering::Relaxed)));
        }
    }
}

impl Bench {
    /// Makes a set with the classes `default` and `second`, whose blocks have 4 KiB, and `small`,
    /// whose blocks have 1 KiB.
    fn new(checksums: bool) -> Self {
        let classes = [("second", 4096), ("small", 1024)];
        let media = make_with_classes([2048, 3072, 2048, 2048], classes, checksums);
        Self { media, discs: Vec::new() }
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        let members = self.media.iter().map(|device| device.clone() as Arc<dyn Device>);
        members.chain(self.discs.iter().map(|disc| disc.clone() as Arc<dyn Device>)).collect()
    }

    fn set(&self) -> Set {
        Set::open(&self.devices()).unwrap()
    }

    fn open(&self) -> Mfs {
        let fs = Mfs::open(&self.set(), clock(), &OpenOptions::default()).unwrap();
        assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
        fs
    }

    fn try_attach(&self, name: &str, block_bytes: u32, disc: &Disc) -> Result<()> {
        let area = Some(Fingerprint::read(disc, &mut |_| Ok(())).unwrap());
        let class = ReadOnlyClass { name: name.parse().unwrap(), block_bytes, area };
        let set = self.set();
        set.begin_change(spindle_clock::Clock::now(&*clock())).unwrap();
        set.attach(&class, disc)
    }

    fn attach(&mut self, name: &str, block_bytes: u32, disc: &Arc<Disc>) {
        self.try_attach(name, block_bytes, disc).unwrap();
        self.discs.push(disc.clone());
    }

    fn detach(&self, name: &str) -> Result<Vec<Ino>> {
        self.set().detach(&name.parse().unwrap(), clock())
    }

    /// Returns the bytes that each class has in use.
    fn used(&self) -> Vec<u64> {
        self.set().storage_use().unwrap().classes.iter().map(|share| share.used).collect()
    }

    fn assert_clean(&self) {
        let report = check(&self.set(), 100, &mut |_| ()).unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }
}

fn create(fs: &Mfs, name: &str) -> Ino {
    let ino = fs.create(fs.root(), name.as_bytes(), &NewNode::new(FileKind::Regular, 0o644), BY).unwrap().ino;
    fs.forget(ino, 1);
    ino
}

/// Makes a file of blocks of a class, from block `at` on.
fn placed(fs: &Mfs, name: &str, size: u64, (class, to): (&str, Option<&str>), at: u64) -> Ino {
    let ino = create(fs, name);
    let run = Extent { offset: 0, at: at * BLOCK, len: size };
    fs.place(ino, size, (class.as_bytes(), to.map(str::as_bytes)), &[run]).unwrap();
    ino
}

fn class_of(fs: &Mfs, ino: Ino) -> String {
    String::from_utf8(fs.getxattr(ino, CLASS).unwrap()).unwrap()
}

fn read(fs: &Mfs, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(fs.getattr(ino).unwrap().size).unwrap()];
    assert_eq!(fs.read(ino, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn truncate(fs: &Mfs, ino: Ino, size: u64) -> Result<()> {
    fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, BY).map(drop)
}

/// Promise: a file on a disc reads as what is there, in several runs with holes, also after the set
/// was opened again, with and without checksums of data; it takes nothing of the other classes.
#[test]
fn files_on_a_disc_are_read() {
    for checksums in [false, true] {
        let mut bench = Bench::new(checksums);
        bench.attach("video", 4096, &Disc::new(100, 1));
        let fs = bench.open();
        let ino = create(&fs, "film");
        let runs = [(0, 7, 3 * BLOCK), (5, 0, 2 * BLOCK), (9, 99, 700)];
        let runs = runs.map(|(lbn, at, len)| Extent { offset: lbn * BLOCK, at: at * BLOCK, len });
        let size = 9 * BLOCK + 700;
        fs.place(ino, size, (b"video", Some(b"default")), &runs).unwrap();
        let mut expected = vec![0; usize::try_from(size).unwrap()];
        for run in runs {
            let bytes = bench.discs[0].bytes(run.at, usize::try_from(run.len).unwrap());
            expected[usize::try_from(run.offset).unwrap()..][..bytes.len()].copy_from_slice(&bytes);
        }
        assert!(read(&fs, ino) == expected);
        assert_eq!((fs.getattr(ino).unwrap().blocks512, class_of(&fs, ino)), (6 * 8, "default".into()));
        fs.unmount().unwrap();
        assert_eq!(bench.used(), [0, 0, 0, 100 * BLOCK]);
        bench.assert_clean();
        let fs = bench.open();
        assert!(read(&fs, ino) == expected);
        fs.unmount().unwrap();
    }
}

/// Promise: what is written over a file on a disc goes to the class that it was given, together
/// with what is not overwritten of the block; nothing that the disc has behind the end of the file
/// appears when it grows, in whatever way; and the freed blocks of the disc go nowhere.
#[test]
fn overwrites_go_to_another_class() {
    for checksums in [false, true] {
        let mut bench = Bench::new(checksums);
        bench.attach("video", 4096, &Disc::new(100, 1));
        let fs = bench.open();
        let size = 10 * BLOCK + 100;
        let original = bench.discs[0].bytes(20 * BLOCK, usize::try_from(size).unwrap());
        let file = |name: &str| placed(&fs, name, size, ("video", Some("second")), 20);
        let mut files = Vec::new();
        let mut expect = |name: &str, change: &dyn Fn(Ino), edit: &dyn Fn(&mut Vec<u8>)| {
            let (ino, mut expected) = (file(name), original.clone());
            change(ino);
            edit(&mut expected);
            assert!(read(&fs, ino) == expected, "{name}");
            files.push((name.to_owned(), ino, expected));
        };
        expect("inside", &|ino| drop(fs.write(ino, 5000, b"new", BY)), &|bytes| {
            bytes[5000..5003].copy_from_slice(b"new");
        });
        expect("append", &|ino| drop(fs.write(ino, size, &[7; 10], BY)), &|bytes| bytes.extend([7; 10]));
        expect("behind", &|ino| drop(fs.write(ino, size + 300, &[8; 5], BY)), &|bytes| {
            bytes.extend([0; 300]);
            bytes.extend([8; 5]);
        });
        expect("grown", &|ino| truncate(&fs, ino, size + 9000).unwrap(), &|bytes| {
            bytes.resize(original.len() + 9000, 0);
        });
        let shrunk = |ino| {
            truncate(&fs, ino, 3 * BLOCK + 50).unwrap();
            truncate(&fs, ino, 5 * BLOCK).unwrap();
        };
        expect("shrunk and grown", &shrunk, &|bytes| {
            bytes.truncate(3 * 4096 + 50);
            bytes.resize(5 * 4096, 0);
        });
        let allocate = FallocateMode::Allocate { keep_size: false };
        expect("allocated", &|ino| fs.fallocate(ino, allocate, size, 200, BY).unwrap(), &|bytes| {
            bytes.extend([0; 200]);
        });
        let punch = |ino| fs.fallocate(ino, FallocateMode::PunchHole, 100, 3 * BLOCK, BY).unwrap();
        expect("punched", &punch, &|bytes| bytes[100..100 + 3 * 4096].fill(0));
        let zero = FallocateMode::ZeroRange { keep_size: true };
        expect("zeroed", &|ino| fs.fallocate(ino, zero, 4000, 2 * BLOCK, BY).unwrap(), &|bytes| {
            bytes[4000..4000 + 2 * 4096].fill(0);
        });
        expect("emptied", &|ino| truncate(&fs, ino, 0).unwrap(), &Vec::clear);
        fs.unmount().unwrap();
        bench.assert_clean();
        assert!(bench.used()[1] > 0 && bench.used()[0] == 0, "{:?}", bench.used());
        let fs = bench.open();
        for (name, ino, expected) in &files {
            assert!(read(&fs, *ino) == *expected, "{name}");
            fs.unlink(fs.root(), name.as_bytes()).unwrap();
        }
        fs.unmount().unwrap();
        assert_eq!(bench.used(), [0, 0, 0, 100 * BLOCK]);
        bench.assert_clean();
    }
}

/// Promise: without a class of its block size nothing of a file can be written: EROFS, and nothing
/// has changed; attributes and names change, it can be cut, and when it is empty it is as any file.
#[test]
fn without_another_class_a_file_is_read_only() {
    let mut bench = Bench::new(false);
    bench.attach("old", 2048, &Disc::new(100, 1));
    let fs = bench.open();
    let size = 3 * BLOCK + 100;
    let ino = placed(&fs, "file", size, ("old", None), 20);
    let before = fs.getattr(ino).unwrap();
    let zero = FallocateMode::ZeroRange { keep_size: true };
    let allocate = FallocateMode::Allocate { keep_size: false };
    for (what, result) in [
        ("write", fs.write(ino, 100, b"new", BY).map(drop)),
        ("append", fs.write(ino, size, b"new", BY).map(drop)),
        ("grow", truncate(&fs, ino, size + 1)),
        ("zero", fs.fallocate(ino, zero, 0, BLOCK, BY)),
        ("punch", fs.fallocate(ino, FallocateMode::PunchHole, 10, 20, BY)),
        ("allocate", fs.fallocate(ino, allocate, size, 9000, BY)),
    ] {
        assert!(matches!(result, Err(Error::ReadOnly)), "{what}: {result:?}");
    }
    assert_eq!(fs.getattr(ino).unwrap(), before);
    assert!(read(&fs, ino) == bench.discs[0].bytes(20 * BLOCK, usize::try_from(size).unwrap()));
    let stat = fs.statfs_at(ino).unwrap();
    assert_eq!((stat.frsize, stat.blocks, stat.bfree, stat.bavail), (2048, 200, 0, 0), "as of a disc");
    assert_eq!(fs.statfs().unwrap().frsize, 4096);
    let set = fs.setxattr(ino, CLASS, b"default", XattrMode::Set, BY);
    assert!(matches!(set, Err(Error::NotEmpty)));
    fs.setattr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }, BY).unwrap();
    fs.link(ino, fs.root(), b"other", BY).unwrap();
    fs.forget(ino, 1);
    fs.unlink(fs.root(), b"file").unwrap();
    truncate(&fs, ino, BLOCK + 1).unwrap();
    assert!(read(&fs, ino) == bench.discs[0].bytes(20 * BLOCK, 4097));
    truncate(&fs, ino, 0).unwrap();
    assert_eq!(class_of(&fs, ino), "default");
    fs.write(ino, 0, &[5; 5000], BY).unwrap();
    assert!(read(&fs, ino) == [5; 5000]);
    let normal = create(&fs, "normal");
    for name in [&b"old"[..], b"none"] {
        assert!(fs.setxattr(normal, CLASS, name, XattrMode::Set, BY).is_err());
    }
    assert!(matches!(fs.setxattr(normal, CLASS, b"old", XattrMode::Set, BY), Err(Error::ReadOnly)));
    fs.unmount().unwrap();
    bench.assert_clean();
}

/// Promise: one file can have blocks of a disc and of two classes that are written, and reads as a
/// whole; the blocks of the disc can be those of another file too.
#[test]
fn data_of_several_areas_is_merged_in_one_file() {
    for checksums in [false, true] {
        let mut bench = Bench::new(checksums);
        bench.attach("video", 4096, &Disc::new(100, 1));
        let fs = bench.open();
        let size = 30 * BLOCK;
        let ino = placed(&fs, "film", size, ("video", Some("default")), 50);
        let copy = placed(&fs, "copy", size, ("video", Some("default")), 50);
        let mut expected = bench.discs[0].bytes(50 * BLOCK, usize::try_from(size).unwrap());
        let original = expected.clone();
        fs.write(ino, 2 * BLOCK, &[1; 8192], BY).unwrap();
        fs.setxattr(ino, CLASS, b"second", XattrMode::Set, BY).unwrap();
        fs.write(ino, 20 * BLOCK, &[2; 12_288], BY).unwrap();
        expected[8192..16_384].fill(1);
        expected[20 * 4096..23 * 4096].fill(2);
        fs.sync().unwrap();
        assert_eq!(bench.used(), [8192, 12_288, 0, 100 * BLOCK], "it has blocks in three classes");
        assert!(read(&fs, ino) == expected && read(&fs, copy) == original);
        fs.unmount().unwrap();
        bench.assert_clean();
        let fs = bench.open();
        assert!(read(&fs, ino) == expected && read(&fs, copy) == original);
        fs.unmount().unwrap();
    }
}

/// Promise: without its disc a set can be written, and only what lies on the disc cannot be read;
/// so it is with a disc that is not the one that was attached. Afterwards all is there.
#[test]
fn a_disc_that_is_gone_takes_nothing_else() {
    let mut bench = Bench::new(false);
    bench.attach("video", 4096, &Disc::new(100, 1));
    let fs = bench.open();
    let far = placed(&fs, "far", 5 * BLOCK, ("video", Some("default")), 20);
    fs.unmount().unwrap();
    let disc = bench.discs.remove(0);
    let changed = Disc::new(100, 1);
    changed.medium.write_at(64 << 10, &[0; 512]).unwrap();
    for others in [vec![], vec![Disc::new(100, 2)], vec![Disc::new(101, 1)], vec![changed]] {
        bench.discs = others;
        let fs = bench.open();
        let near = create(&fs, "near");
        fs.write(near, 0, &[1; 16_000], BY).unwrap();
        assert!(read(&fs, near) == [1; 16_000]);
        assert!(matches!(fs.read(far, 0, &mut [0; 10]), Err(Error::Device(_))));
        assert!(fs.write(far, 10, b"x", BY).is_err(), "the rest of the block is not known");
        fs.write(far, BLOCK, &[7; 4096], BY).unwrap();
        fs.unlink(fs.root(), b"near").unwrap();
        fs.unmount().unwrap();
        bench.assert_clean();
    }
    bench.discs = vec![disc];
    let fs = bench.open();
    let mut expected = bench.discs[0].bytes(20 * BLOCK, 5 * 4096);
    expected[4096..8192].fill(7);
    assert!(read(&fs, far) == expected);
    fs.unmount().unwrap();
}

/// Promise: what a disc has lost, or has more, is found by a scrub, by the name of its class; and a
/// disc that is not there.
#[test]
fn a_scrub_reads_the_whole_disc() {
    let mut bench = Bench::new(false);
    bench.attach("video", 4096, &Disc::new(100, 1));
    bench.attach("other", 4096, &Disc::new(100, 2));
    let wrong = |bench: &Bench| bench.set().verify_read_only(&mut |_| Ok(())).unwrap();
    assert_eq!(wrong(&bench), []);
    bench.discs[0].medium.write_at(200 << 10, &[0; 512]).unwrap();
    let fs = bench.open();
    fs.unmount().unwrap();
    let video: ClassName = "video".parse().unwrap();
    assert_eq!(wrong(&bench), std::slice::from_ref(&video));
    bench.discs.remove(0);
    assert_eq!(wrong(&bench), [video]);
}

/// Promise: a class is detached only if no file has anything of it; the numbers of the others stay,
/// and a set without read-only classes is again one that older versions read.
#[test]
fn a_class_is_detached() {
    let version = |bench: &Bench| {
        let mut bytes = [0; 512];
        bench.media[0].read_at(0, &mut bytes).unwrap();
        bytes[8]
    };
    let mut bench = Bench::new(false);
    assert_eq!(version(&bench), 2);
    for n in 1..=3 {
        bench.attach(&format!("disc{n}"), 4096, &Disc::new(100, n));
    }
    assert_eq!(version(&bench), 3);
    let fs = bench.open();
    let file = placed(&fs, "file", 5 * BLOCK, ("disc2", Some("default")), 20);
    let last = placed(&fs, "last", 5 * BLOCK, ("disc3", None), 20);
    fs.unmount().unwrap();
    assert_eq!(bench.detach("disc2").unwrap(), [file]);
    assert_eq!(bench.detach("disc3").unwrap(), [last]);
    assert_eq!(bench.detach("disc1").unwrap(), []);
    bench.discs.remove(0);
    for name in ["disc1", "second", "none"] {
        assert!(matches!(bench.detach(name), Err(Error::Unsupported { .. })), "{name}");
    }
    bench.attach("disc4", 1024, &Disc::new(80, 4));
    let fs = bench.open();
    assert!(read(&fs, file) == bench.discs[0].bytes(20 * BLOCK, 5 * 4096));
    assert!(read(&fs, last) == bench.discs[1].bytes(20 * BLOCK, 5 * 4096));
    fs.unlink(fs.root(), b"last").unwrap();
    fs.write(file, 0, &vec![1; 5 * 4096], BY).unwrap();
    fs.unmount().unwrap();
    for name in ["disc2", "disc3", "disc4"] {
        assert_eq!(bench.detach(name).unwrap(), [], "{name}");
    }
    bench.discs.clear();
    assert_eq!(version(&bench), 2);
    let fs = bench.open();
    assert!(read(&fs, file) == vec![1; 5 * 4096]);
    fs.unmount().unwrap();
    bench.assert_clean();
}

/// Promise: the data of files is copied off a disc, without a change of their bytes and times; what
/// cannot be written stays there; then the disc is not needed.
#[test]
fn data_is_copied_off_a_disc() {
    for checksums in [false, true] {
        let mut bench = Bench::new(checksums);
        bench.attach("video", 4096, &Disc::new(100, 1));
        bench.attach("other", 4096, &Disc::new(100, 2));
        let fs = bench.open();
        let size = 40 * BLOCK + 10;
        let file = placed(&fs, "file", size, ("video", Some("second")), 20);
        let far = placed(&fs, "far", BLOCK, ("other", Some("second")), 20);
        let rigid = placed(&fs, "rigid", BLOCK, ("video", None), 20);
        fs.write(file, 5000, b"new", BY).unwrap();
        let (before, attr) = (read(&fs, file), fs.getattr(file).unwrap());
        let video: ClassName = "video".parse().unwrap();
        assert_eq!(fs.copy_from(&video, &mut |_| Ok(())).unwrap(), size - BLOCK);
        assert!(read(&fs, file) == before);
        assert_eq!(fs.getattr(file).unwrap(), attr);
        fs.unmount().unwrap();
        assert_eq!(bench.detach("video").unwrap(), [rigid]);
        assert_eq!(bench.detach("other").unwrap(), [far]);
        let fs = bench.open();
        fs.unlink(fs.root(), b"rigid").unwrap();
        fs.unmount().unwrap();
        assert_eq!(bench.detach("video").unwrap(), []);
        bench.discs.remove(0);
        let fs = bench.open();
        assert!(read(&fs, file) == before);
        fs.unmount().unwrap();
        bench.assert_clean();
    }
}

/// Promise: what cannot be attached is refused, and the set is as before: a name that is used, a
/// disc that is attached, a member, an impossible size of blocks, too many classes; and changes
/// while the set is mounted.
#[test]
fn impossible_classes_are_refused() {
    let mut bench = Bench::new(false);
    let disc = Disc::new(100, 1);
    bench.attach("video", 4096, &disc);
    bench.try_attach("video", 4096, &disc).unwrap();
    let before = bench.set().label_now().read_only;
    for (name, block, disc) in [
        ("video", 4096, Disc::new(100, 2)),
        ("second", 4096, Disc::new(100, 2)),
        ("default", 4096, Disc::new(100, 2)),
        ("again", 4096, disc.clone()),
        ("video", 1024, disc),
        ("odd", 3000, Disc::new(100, 2)),
    ] {
        let refused = bench.try_attach(name, block, &disc);
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{name} {block}: {refused:?}");
    }
    let area = Some(Fingerprint::read(&*bench.media[0], &mut |_| Ok(())).unwrap());
    let class = ReadOnlyClass { name: "member".parse().unwrap(), block_bytes: 4096, area };
    assert!(bench.set().attach(&class, &*bench.media[0]).is_err());
    assert_eq!(bench.set().label_now().read_only, before);
    for n in 2..=5 {
        bench.attach(&format!("disc{n}"), 4096, &Disc::new(20, n));
    }
    assert!(bench.try_attach("ninth", 4096, &Disc::new(20, 9)).is_err());
    let set = bench.set();
    let fs = Mfs::open(&set, clock(), &OpenOptions::default()).unwrap();
    assert!(matches!(set.detach(&"disc2".parse().unwrap(), clock()), Err(Error::Unsupported { .. })));
    let ino = create(&fs, "file");
    let run = |offset, at, len| [Extent { offset, at, len }];
    for runs in [
        run(0, 100, 100),
        run(10, 0, 90),
        run(0, 100 * BLOCK, 100),
        run(0, 0, 50),
        run(0, u64::MAX - 4095, 100),
    ] {
        assert!(matches!(fs.place(ino, 100, (b"video", None), &runs), Err(Error::Invalid)), "{runs:?}");
    }
    for classes in [(&b"default"[..], None), (b"video", Some(&b"small"[..])), (b"video", Some(b"video"))] {
        assert!(matches!(fs.place(ino, 100, classes, &run(0, 0, 100)), Err(Error::Invalid)), "{classes:?}");
    }
    fs.unmount().unwrap();
}

/// Promise: a repair of a set that was damaged elsewhere leaves files on a disc, and blocks that
/// they share, as they are.
#[test]
fn a_repair_leaves_the_disc_alone() {
    for checksums in [false, true] {
        let mut bench = Bench::new(checksums);
        bench.attach("video", 4096, &Disc::new(100, 1));
        let fs = bench.open();
        let files = ["a", "b"].map(|name| placed(&fs, name, 5 * BLOCK, ("video", Some("second")), 20));
        fs.write(files[0], 0, &[1; 4096], BY).unwrap();
        fs.unmount().unwrap();
        // The allocation map of the class `second`, whose member has one area.
        let at = read_label(&*bench.media[2]).unwrap().unwrap();
        let at = at.areas.iter().find(|area| area.class == 1).unwrap().offset;
        bench.media[2].write_at(at, &[0; 4096]).unwrap();
        assert!(!check(&bench.set(), 9, &mut |_| ()).unwrap().is_clean());
        let repaired = repair(&bench.set(), &*clock(), false, 9, &mut |_| ()).unwrap();
        assert!(repaired.changed && repaired.after.is_clean(), "{:#?}", repaired.after);
        let fs = bench.open();
        let mut expected = bench.discs[0].bytes(20 * BLOCK, 5 * 4096);
        assert!(read(&fs, files[1]) == expected);
        expected[..4096].fill(1);
        assert!(read(&fs, files[0]) == expected);
        fs.unmount().unwrap();
    }
}
