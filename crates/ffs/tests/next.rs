//! Apple's volumes, and those of NEXTSTEP and OPENSTEP before them, whose directories have chunks
//! of 1024 bytes, and the static formats of HP-UX and Ultrix: distinguished by what stands on the
//! disk, and read; Apple's are written as well.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice, Scheme, Window, partitions};
use spindle_ffs::check::{self, Finding, Found, Options, check};
use spindle_ffs::newfs::{self, Format, Parameters, Plan};
use spindle_ffs::ondisk::{
    AppleLabel, Cg, Dinode1, DirectHeader, FS_HPUX_4GB, FS_HPUX_FEATURES, FS_HPUX_LFN, FS_UFS1_MAGIC, Fs,
    FsHpUx, FsUltrix,
};
use spindle_ffs::repair::{Scope, plan};
use spindle_ffs::{Dialect, Ffs, Frag, LogUse, OpenOptions, ROOT_INO, Superblock};
use spindle_ondisk::Endian;
use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Objection, Privilege};
use std::sync::Arc;

const NOW: i64 = 1_000_000_000;

fn parameters(dialect: Dialect, endian: Endian) -> Parameters {
    Parameters {
        dialect: Some(dialect),
        format: if dialect == Dialect::Bsd43 { Format::Old } else { Format::Ufs1 },
        endian: Some(endian),
        ..Parameters::new(8 << 20)
    }
}

fn make_on(device: &MemoryDevice, parameters: &Parameters) {
    let plan = Plan::new(parameters).unwrap();
    let mut random = StdRng::seed_from_u64(1);
    newfs::write(&plan, device, &ManualClock::at(NOW), &mut random, &mut |_, _| ()).unwrap();
}

fn make(parameters: &Parameters) -> Arc<MemoryDevice> {
    let device = Arc::new(MemoryDevice::new(parameters.size_bytes));
    make_on(&device, parameters);
    device
}

fn open(device: &Arc<MemoryDevice>) -> Ffs {
    let options = OpenOptions { log: LogUse::Never, seed: Some(1), ..OpenOptions::default() };
    Ffs::open(device.clone(), Arc::new(ManualClock::at(NOW)), &options).unwrap()
}

/// Returns names of so many bytes that one entry of the root lies across byte 512, and some chunks
/// are filled.
fn names() -> impl Iterator<Item = Vec<u8>> {
    (0..60).map(|n| format!("a-name-of-thirty-one-bytes-{n:04}").into_bytes())
}

/// Fills the root with files and short symbolic links.
fn populate(device: &Arc<MemoryDevice>) {
    let fs = open(device);
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    for (n, name) in names().enumerate() {
        let node = NewNode::new(FileKind::Regular, 0o644);
        let file = fs.create(fs.root(), &name, &node, Privilege::Root).unwrap();
        fs.write(file.ino, 0, &vec![b'x'; n * 100], Privilege::Root).unwrap();
        fs.forget(file.ino, 1);
    }
    let link = NewNode { target: b"somewhere/else", ..NewNode::new(FileKind::Symlink, 0o777) };
    let link = fs.create(fs.root(), b"link", &link, Privilege::Root).unwrap();
    fs.forget(link.ino, 1);
    fs.unmount().unwrap();
}

/// Expects all that [`populate`] has made.
fn expect_files(fs: &Ffs, what: &str) {
    for (n, name) in names().enumerate() {
        let file = fs.lookup(fs.root(), &name).unwrap_or_else(|e| panic!("{what}: {n}: {e}"));
        assert_eq!(file.size, n as u64 * 100, "{what}");
        fs.forget(file.ino, 1);
    }
    let link = fs.lookup(fs.root(), b"link").unwrap();
    assert_eq!(fs.readlink(link.ino).unwrap(), b"somewhere/else", "{what}");
    fs.forget(link.ino, 1);
}

fn expect_clean(device: &MemoryDevice, what: &str) {
    let report = check(device, &check::Options::default(), &mut |_| ()).unwrap();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.marked_clean && found.is_empty(), "{what}: {found:?}");
}

/// Changes the label where it stands.
fn with_label(device: &MemoryDevice, change: impl FnOnce(&mut [u8])) {
    let mut bytes = vec![0; AppleLabel::SIZE];
    device.read_at(AppleLabel::AT, &mut bytes).unwrap();
    change(&mut bytes);
    device.write_at(AppleLabel::AT, &bytes).unwrap();
}

/// Promise: a volume of Apple is one by its label, whose checksum is that of the Internet
/// protocols; it is written in chunks of 1024 bytes, in both byte orders, and is clean afterwards.
#[test]
fn apple_volumes_are_written() {
    for endian in [Endian::Little, Endian::Big] {
        let wishes = Parameters { label: Some("Photos".into()), ..parameters(Dialect::Apple, endian) };
        let device = make(&wishes);
        expect_clean(&device, "new");
        assert_eq!(AppleLabel::read(&*device).unwrap().name(), b"Photos");
        with_label(&device, |bytes| {
            let words = bytes.chunks_exact(2).map(|w| u64::from(u16::from_be_bytes([w[0], w[1]])));
            assert_eq!(words.sum::<u64>() % 0xffff, 0, "the sum of all words is -0");
        });
        populate(&device);
        let superblock = Superblock::open(&*device).unwrap();
        assert_eq!(superblock.volume_name(), b"Photos");
        assert_eq!((superblock.dialect, superblock.layout.dirblksiz), (Dialect::Apple, 1024));
        assert_eq!(superblock.layout.fs_maxsymlinklen, 60);
        expect_clean(&device, "populated");
        expect_files(&open(&device), "Apple");
    }
}

/// Promise: the counts of free clusters begin where Apple has them, a word behind everybody else's
/// (`fsck_ffs/pass5.c` of NetBSD).
#[test]
fn apple_counts_clusters_elsewhere() {
    for (dialect, gap) in [(Dialect::Bsd44, -4), (Dialect::Apple, 0)] {
        let device = make(&parameters(dialect, Endian::Big));
        let layout = Superblock::open(&*device).unwrap().layout;
        assert!(layout.fs_contigsumsize > 0);
        let mut block = vec![0; layout.fs_bsize as usize];
        device.read_at(layout.byte(layout.cgtod(0)), &mut block).unwrap();
        let cg = Cg::decode(&block, Endian::Big);
        let end = (cg.cg_freeoff + layout.fs_fpg.div_ceil(8)).next_multiple_of(4);
        assert_eq!(i64::from(cg.cg_clustersumoff) - i64::from(end), gap, "{dialect}");
    }
}

/// Promise: without its label, or with a wrong one, such a volume is read as OPENSTEP's as soon as
/// its root directory shows the chunks, and is not written; its files are all there.
#[test]
fn openstep_is_read() {
    for endian in [Endian::Little, Endian::Big] {
        let device = make(&parameters(Dialect::Apple, endian));
        populate(&device);
        for (what, byte) in [("magic", 0), ("checksum", 5), ("name", 20)] {
            let device = Arc::new(device.branch());
            with_label(&device, |bytes| bytes[byte] ^= 1);
            let superblock = Superblock::open(&*device).unwrap();
            assert_eq!(
                (superblock.dialect, superblock.layout.dirblksiz),
                (Dialect::OpenStep, 1024),
                "{what}"
            );
            let before = device.to_bytes();
            let fs = open(&device);
            assert!(fs.read_only());
            let reasons = fs.read_only_reasons();
            assert!(reasons.iter().any(|r| !r.overridable && r.reason.contains("OPENSTEP")), "{reasons:?}");
            expect_files(&fs, what);
            drop(fs);
            expect_clean(&device, what);
            assert!(device.to_bytes() == before, "nothing was written");
        }
    }
}

/// Promise: what is read as OPENSTEP's because its label is lost says how to name it; named as
/// Apple's, the missing label is a finding, and a repair that loses nothing makes one, after which
/// it is Apple's for everybody, and can be written.
#[test]
fn a_lost_label_is_made_again() {
    let device = make(&parameters(Dialect::Apple, Endian::Big));
    populate(&device);
    with_label(&device, |label| label.fill(0));
    let fs = open(&device);
    let reasons = fs.read_only_reasons();
    assert!(reasons[0].remedy.contains("fsck -y --dialect apple"), "{reasons:?}");
    drop(fs);
    let options = Options { dialect: Some(Dialect::Apple), ..Options::default() };
    let found = check(&*device, &options, &mut |_| ()).unwrap().findings;
    assert!(matches!(found[..], [Found { finding: Finding::LabelMissing {}, .. }]), "{found:?}");
    let (view, clock): (Arc<dyn Device>, Arc<dyn Clock>) =
        (device.clone(), Arc::new(ManualClock::at(1_700_000_000)));
    let plan = plan(&view, &clock, &options, Scope::Harmless, &mut |_| true, &mut |_| ()).unwrap();
    assert_eq!(plan.refusal, None);
    plan.apply(&*device).unwrap();
    let superblock = Superblock::open(&*device).unwrap();
    assert_eq!((superblock.dialect, superblock.volume_name()), (Dialect::Apple, &b"untitled"[..]));
    expect_clean(&device, "with a new label");
    let fs = open(&device);
    assert!(!fs.read_only(), "{:?}", fs.read_only_reasons());
    expect_files(&fs, "with a new label");
}

/// Promise: a label that was left in front of a file system with chunks of 512 bytes does not make
/// it Apple's, and newfs leaves none there.
#[test]
fn a_label_that_was_left_decides_nothing() {
    let device = make(&parameters(Dialect::Bsd44, Endian::Big));
    with_label(&device, |bytes| bytes.copy_from_slice(&AppleLabel::new_bytes(b"old", NOW, 1)));
    assert!(AppleLabel::read(&*device).is_some());
    assert_eq!(Superblock::open(&*device).unwrap().dialect, Dialect::Bsd44);
    expect_clean(&device, "with a label");
    for dialect in [Dialect::Bsd44, Dialect::FreeBsd, Dialect::NetBsd, Dialect::OpenBsd] {
        let device = make(&parameters(Dialect::Apple, Endian::Big));
        make_on(&device, &parameters(dialect, Endian::Big));
        assert!(AppleLabel::read(&*device).is_none(), "{dialect}");
        assert_eq!(Superblock::open(&*device).unwrap().dialect, dialect);
    }
}

/// Promise: damage in the root of Apple's volume does not make it another system's, whose chunks
/// are written otherwise: only a whole chunk of 512 bytes speaks against its label.
#[test]
fn a_damaged_root_stays_apples() {
    let device = make(&parameters(Dialect::Apple, Endian::Big));
    populate(&device);
    let layout = Superblock::open(&*device).unwrap().layout;
    let (frag, within) = layout.ino_to_fsba(ROOT_INO);
    let mut block = vec![0; layout.fs_bsize as usize];
    device.read_at(layout.byte(frag), &mut block).unwrap();
    let root = Dinode1::decode(&block[within..], Endian::Big);
    for (size, first) in [(1536, root.di_db[0]), (1024, 0), (1024, i32::MAX), (0, 0), (512, -1)] {
        let mut damaged = root;
        (damaged.di_size, damaged.di_db[0]) = (size, first);
        damaged.encode(&mut block[within..], Endian::Big);
        device.write_at(layout.byte(frag), &block).unwrap();
        assert_eq!(Superblock::open(&*device).unwrap().dialect, Dialect::Apple, "{size} {first}");
    }
}

/// Makes a file system of 4.3BSD into one of NEXTSTEP: joins the two chunks of each 1024 bytes of
/// its directories, and gives the root a whole one.
fn make_nextstep(device: &MemoryDevice) {
    let layout = Superblock::open(device).unwrap().layout;
    assert!(layout.fs_fsize >= 1024);
    for ino in [ROOT_INO, ROOT_INO + 1] {
        let (frag, within) = layout.ino_to_fsba(ino);
        let mut block = vec![0; layout.fs_bsize as usize];
        device.read_at(layout.byte(frag), &mut block).unwrap();
        let mut di = Dinode1::decode(&block[within..], layout.endian);
        di.di_size = di.di_size.next_multiple_of(1024);
        di.encode(&mut block[within..], layout.endian);
        device.write_at(layout.byte(frag), &block).unwrap();
        for n in 0..di.di_size / 1024 {
            let at = layout.byte(Frag(u64::try_from(di.di_db[0]).unwrap())) + n * 1024;
            let mut chunk = vec![0; 1024];
            device.read_at(at, &mut chunk).unwrap();
            let mut last = 0;
            loop {
                let head = DirectHeader::decode(&chunk[last..], layout.endian);
                if last + usize::from(head.d_reclen) == 512 {
                    let joined = DirectHeader { d_reclen: head.d_reclen + 512, ..head };
                    joined.encode(&mut chunk[last..], layout.endian);
                    break;
                }
                last += usize::from(head.d_reclen);
            }
            chunk[512..].fill(0);
            device.write_at(at, &chunk).unwrap();
        }
    }
}

/// Promise: NEXTSTEP's file systems, with the inodes of 4.3BSD, are distinguished by their root
/// directory, read and found clean, in both byte orders; nothing is written to them, not with force
/// either.
#[test]
fn nextstep_is_read() {
    for endian in [Endian::Little, Endian::Big] {
        let device = make(&parameters(Dialect::Bsd43, endian));
        assert_eq!(Superblock::open(&*device).unwrap().dialect, Dialect::Bsd43);
        make_nextstep(&device);
        let superblock = Superblock::open(&*device).unwrap();
        assert_eq!((superblock.dialect, superblock.layout.dirblksiz), (Dialect::NextStep, 1024));
        expect_clean(&device, "NEXTSTEP");
        let options = OpenOptions { force: true, ..OpenOptions::default() };
        let fs = Ffs::open(device.clone(), Arc::new(ManualClock::at(NOW)), &options).unwrap();
        assert!(fs.read_only() && fs.read_only_reasons()[0].reason.contains("NEXTSTEP"));
        let lost = fs.lookup(fs.root(), b"lost+found").unwrap();
        assert_eq!(lost.kind, FileKind::Directory);
        let node = NewNode::new(FileKind::Regular, 0o644);
        let refused = fs.create(fs.root(), b"new", &node, Privilege::Root);
        assert!(matches!(refused, Err(Error::ReadOnly)));
    }
}

/// Returns the first 8192 bytes of a CD-ROM of NEXTSTEP: a label of version 3 with sectors of 2048
/// bytes, a front porch of so many sectors, and one partition of so many behind it.
fn next_cd_label(front: i16, sectors: i32) -> Vec<u8> {
    let mut bytes = vec![0; 8192];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"dlV3");
    put(12, b"NS_CD");
    put(92, &2048_i32.to_be_bytes());
    put(112, &front.to_be_bytes());
    for at in (190..).step_by(46).take(8) {
        put(at + 4, &(-1_i32).to_be_bytes());
    }
    put(190, &0_i32.to_be_bytes());
    put(194, &sectors.to_be_bytes());
    put(190 + 37, b"4.3BSD");
    let sum: u32 = bytes[..558].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    bytes[558..560].copy_from_slice(&((sum + (sum >> 16)) & 0xffff).to_be_bytes()[2..]);
    bytes
}

/// Promise: the file system of a NEXTSTEP CD-ROM is found behind its label and read, from the drive
/// with its sectors of 2048 bytes as from an image of it, although it counts in these: a fragment
/// is one (`fs_fsbtodb` 0, `fs_nspf` 1), and its geometry is that of the disc.
#[test]
fn cd_roms_of_nextstep() {
    const FRONT: u64 = 96;
    let wishes =
        Parameters { bsize: Some(8192), fsize: Some(2048), ..parameters(Dialect::Bsd43, Endian::Big) };
    let volume = make(&wishes);
    let layout = Superblock::open(&*volume).unwrap().layout;
    let copies = (0..layout.fs_ncg).map(|cgx| layout.byte(layout.cgsblock(cgx)));
    for at in copies.chain([layout.fs_sblockloc]) {
        let mut raw = vec![0; 8192];
        volume.read_at(at, &mut raw).unwrap();
        let mut fs = Fs::decode(&raw, Endian::Big);
        assert_eq!((fs.fs_fsbtodb, fs.fs_old_nspf), (2, 4));
        (fs.fs_fsbtodb, fs.fs_old_nspf) = (0, 1);
        fs.fs_old_nsect /= 4;
        fs.fs_old_npsect /= 4;
        fs.fs_old_spc /= 4;
        fs.encode(&mut raw, Endian::Big);
        volume.write_at(at, &raw).unwrap();
    }
    make_nextstep(&volume);
    expect_clean(&volume, "the volume alone");
    let bytes = volume.to_bytes();
    let sectors = i32::try_from(bytes.len() / 2048).unwrap();
    for sector_bytes in [512, 2048] {
        let disc = MemoryDevice::new(FRONT * 2048 + bytes.len() as u64).with_sectors(sector_bytes);
        disc.write_at(0, &next_cd_label(96, sectors)).unwrap();
        disc.write_at(FRONT * 2048, &bytes).unwrap();
        let table = partitions(&disc).unwrap();
        let a = table.find("a").unwrap().clone();
        assert_eq!((table.scheme, a.start_bytes), (Some(Scheme::Next), FRONT * 2048));
        let disc: Arc<dyn Device> = Arc::new(disc);
        let window = Window::new(disc, a.start_bytes, a.size_bytes, "a".into()).unwrap();
        let window: Arc<dyn Device> = Arc::new(window.read_only());
        assert_eq!(Superblock::open(&*window).unwrap().dialect, Dialect::NextStep, "{sector_bytes}");
        let report = check(&*window, &check::Options::default(), &mut |_| ()).unwrap();
        assert!(report.marked_clean && report.findings.is_empty(), "{:?}", report.findings);
        let fs = Ffs::open(window, Arc::new(ManualClock::at(NOW)), &OpenOptions::default()).unwrap();
        let lost = fs.lookup(fs.root(), b"lost+found").unwrap();
        assert_eq!(lost.kind, FileKind::Directory);
    }
}

/// Makes a file system of 4.2BSD, with the files of [`populate`], and lets `change` change all
/// copies of its superblock.
fn static_format(endian: Endian, change: impl Fn(&mut [u8], &mut Fs)) -> Arc<MemoryDevice> {
    let wishes = Parameters { static_tables: true, ..parameters(Dialect::Bsd43, endian) };
    let device = make(&wishes);
    populate(&device);
    let superblock = Superblock::open(&*device).unwrap();
    assert_eq!(superblock.dialect, Dialect::Bsd43);
    let layout = &superblock.layout;
    let copies = (0..layout.fs_ncg).map(|cgx| layout.byte(layout.cgsblock(cgx)));
    for at in copies.chain([layout.fs_sblockloc]) {
        let mut raw = vec![0; 8192];
        device.read_at(at, &mut raw).unwrap();
        let mut fs = Fs::decode(&raw, endian);
        change(&mut raw, &mut fs);
        fs.encode(&mut raw, endian);
        device.write_at(at, &raw).unwrap();
    }
    device
}

/// Promise: a dialect that is named wrongly does not change what the disk shows: directories keep
/// their chunks, and HP-UX is not written.
#[test]
fn a_wrong_name_changes_no_chunks() {
    let opened = |device: &Arc<MemoryDevice>, dialect| {
        let options = OpenOptions { dialect: Some(dialect), force: true, ..OpenOptions::default() };
        Ffs::open(device.clone(), Arc::new(ManualClock::at(NOW)), &options).unwrap()
    };
    let apple = make(&parameters(Dialect::Apple, Endian::Big));
    populate(&apple);
    expect_files(&opened(&apple, Dialect::FreeBsd), "Apple as FreeBSD");
    for dialect in [Dialect::Bsd44, Dialect::FreeBsd] {
        let device = make(&parameters(dialect, Endian::Big));
        let fs = opened(&device, Dialect::Apple);
        assert_eq!(fs.superblock().layout.dirblksiz, 512, "{dialect}");
    }
    let hpux = static_format(Endian::Big, |_, fs| fs.fs_magic = FS_HPUX_LFN);
    assert!(opened(&hpux, Dialect::Bsd43).read_only());
}

/// Expects that a volume with the files of [`populate`] is read as one of `dialect` and never
/// written, not with force either.
fn expect_only_read(device: &Arc<MemoryDevice>, dialect: Dialect, what: &str) {
    let before = device.to_bytes();
    assert_eq!(Superblock::open(&**device).unwrap().dialect, dialect, "{what}");
    expect_clean(device, what);
    let options = OpenOptions { force: true, ..OpenOptions::default() };
    let fs = Ffs::open(device.clone(), Arc::new(ManualClock::at(NOW)), &options).unwrap();
    let reasons = fs.read_only_reasons();
    let named = |r: &Objection| !r.overridable && r.reason.contains(&dialect.to_string());
    assert!(fs.read_only() && reasons.iter().any(named), "{what}: {reasons:?}");
    expect_files(&fs, what);
    drop(fs);
    assert!(device.to_bytes() == before, "{what}: nothing was written");
}

/// Promise: HP-UX is recognised by its magics, and with the magic of all by its clean flag; what it
/// keeps in other places is found there, in both byte orders, and is no damage.
#[test]
fn hpux_is_read() {
    for endian in [Endian::Little, Endian::Big] {
        for (magic, name) in [
            (FS_UFS1_MAGIC, "magic of all"),
            (FS_HPUX_LFN, "long names"),
            (FS_HPUX_FEATURES, "features"),
            (FS_HPUX_4GB, "4 GB"),
        ] {
            let device = static_format(endian, |raw, fs| {
                let (id, optim) = (fs.fs_id, fs.fs_optim);
                // The mirrors of its root and swap space.
                (fs.fs_old_interleave, fs.fs_old_trackskew) = (-77, 1 << 30);
                (fs.fs_clean, fs.fs_magic) = (FsHpUx::FS_CLEAN, magic);
                fs.encode(raw, endian);
                FsHpUx { fs_id: id, fs_featurebits: 1, fs_optim: optim }.encode(raw, endian);
                *fs = Fs::decode(raw, endian);
            });
            expect_only_read(&device, Dialect::HpUx, name);
            let superblock = Superblock::open(&*device).unwrap();
            let mut raw = superblock.raw().to_vec();
            for clean in [FsHpUx::FS_OK, FsHpUx::FS_NOTOK] {
                raw[209] = clean.cast_unsigned();
                device.write_at(superblock.layout.fs_sblockloc, &raw).unwrap();
                let left = Superblock::open(&*device).unwrap();
                assert_eq!((left.dialect, left.is_marked_clean()), (Dialect::HpUx, false), "{name}");
            }
            device.write_at(superblock.layout.fs_sblockloc, &[0; 8192]).unwrap();
            let copy = Superblock::salvage(&*device).unwrap();
            assert_eq!(copy.dialect, Dialect::HpUx, "{name}: a copy");
        }
    }
}

/// Promise: Ultrix is recognised by its clean flag, or while it is in use by what it notes of
/// checks.
#[test]
fn ultrix_is_read() {
    let noted = |raw: &mut [u8]| {
        FsUltrix { fs_deftimer: 20, fs_lastfsck: 600_000_000 }.encode(raw, Endian::Little);
    };
    let device = static_format(Endian::Little, |raw, fs| {
        noted(raw);
        *fs = Fs::decode(raw, Endian::Little);
        fs.fs_clean = FsUltrix::FS_CLEAN;
    });
    expect_only_read(&device, Dialect::Ultrix, "clean");
    let in_use = static_format(Endian::Little, |raw, fs| {
        noted(raw);
        *fs = Fs::decode(raw, Endian::Little);
        fs.fs_clean = 0;
    });
    let superblock = Superblock::open(&*in_use).unwrap();
    assert_eq!((superblock.dialect, superblock.is_marked_clean()), (Dialect::Ultrix, false));
}

/// Promise: what newfs makes of the static format is neither of HP-UX nor of Ultrix, so it stays
/// writable.
#[test]
fn four_two_stays_writable() {
    let device = static_format(Endian::Little, |_, _| ());
    assert_eq!(Superblock::open(&*device).unwrap().dialect, Dialect::Bsd43);
    assert!(!open(&device).read_only());
}
