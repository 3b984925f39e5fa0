//! tunefs: what is asked for lands on the device and nothing else does, in every format; refusals
//! change nothing.

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_clock::ManualClock;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Options as CheckOptions, check};
use spindle_ffs::newfs::{Format, Optimization, Parameters, Plan, write};
use spindle_ffs::ondisk::flags;
use spindle_ffs::tunefs::{Change, Options, Parameter, Tuning, Value, settings, tune};
use spindle_ffs::{Dialect, Superblock};
use spindle_ondisk::Endian;
use spindle_vfs::{AclKind, Error, Result};

const AT_ONCE: Options = Options { force: false, replicas: false };
const EVERYWHERE: Options = Options { force: false, replicas: true };

fn make(parameters: &Parameters) -> MemoryDevice {
    let device = MemoryDevice::new(parameters.size_bytes);
    let plan = Plan::new(parameters).unwrap();
    let mut random = StdRng::seed_from_u64(7);
    write(&plan, &device, &ManualClock::at(1_700_000_000), &mut random, &mut |_, _| ()).unwrap();
    device
}

fn wish(format: Format, dialect: Option<Dialect>, endian: Option<Endian>) -> Parameters {
    Parameters { format, dialect, endian, ..Parameters::new(16 << 20) }
}

/// Returns file systems of all formats and dialects, both byte orders.
fn everything() -> Vec<Parameters> {
    let mut all: Vec<_> = [Format::Old, Format::Ufs1, Format::Ufs2]
        .into_iter()
        .flat_map(|format| [Endian::Little, Endian::Big].map(|endian| wish(format, None, Some(endian))))
        .collect();
    for dialect in [
        Dialect::NetBsd,
        Dialect::OpenBsd,
        Dialect::Bsd44,
        Dialect::Apple,
        Dialect::Sun { x86: false },
        Dialect::Sun { x86: true },
    ] {
        all.push(wish(Format::Ufs1, Some(dialect), None));
    }
    all.push(wish(Format::Ufs2, Some(Dialect::NetBsd), None));
    all
}

/// Returns the bytes of a device.
fn bytes(device: &MemoryDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(device.info().size_bytes).unwrap()];
    device.read_at(0, &mut bytes).unwrap();
    bytes
}

fn assert_clean(device: &MemoryDevice, what: &str) {
    let report = check(device, &CheckOptions::default(), &mut |_| {}).unwrap();
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(report.is_clean() && report.marked_clean && found.is_empty(), "{what}: {found:?}");
}

/// Returns the settings that can be changed at once: lists of `NFSv4` exclude those of POSIX.1e.
fn settings_at_once(superblock: &Superblock) -> Vec<(Parameter, Value)> {
    let mut settings = settings(superblock);
    settings.retain(|(parameter, _)| *parameter != Parameter::Nfs4Acls);
    settings
}

/// Wishes for everything that this file system has, each other than what it is.
fn all_changed(superblock: &Superblock) -> Tuning {
    let has = |parameter| settings(superblock).iter().any(|(known, _)| *known == parameter);
    let fs = &superblock.fs;
    let more = |value: i32| Some(value.cast_unsigned() + 1);
    Tuning {
        maxcontig: more(fs.fs_maxcontig),
        rotdelay_ms: has(Parameter::Rotdelay).then(|| fs.fs_old_rotdelay.cast_unsigned() + 1),
        maxbpg: more(fs.fs_maxbpg),
        avgfilesize: has(Parameter::Avgfilesize).then(|| fs.fs_avgfilesize + 1),
        minfree: more(fs.fs_minfree),
        optimization: Some(if fs.fs_optim == 0 { Optimization::Space } else { Optimization::Time }),
        avgfpdir: has(Parameter::Avgfpdir).then(|| fs.fs_avgfpdir + 1),
        label: has(Parameter::Label).then(|| "tuned-1".into()),
        soft_updates: has(Parameter::SoftUpdates).then_some(true),
        posix_acls: has(Parameter::PosixAcls).then_some(true),
        nfs4_acls: None,
    }
}

/// Promise: in every format and dialect, everything that it has can be changed at once; each old
/// and new value is reported and found again; a full check finds nothing; and not a byte changes
/// outside the superblock, or its replicas where they were asked for, which are usable then.
#[test]
fn changes_land() {
    for parameters in everything() {
        let what = format!("{:?} {:?} {:?}", parameters.format, parameters.dialect, parameters.endian);
        let device = make(&parameters);
        let before = bytes(&device);
        let old = Superblock::open(&device).unwrap();
        let tuning = all_changed(&old);
        let report = tune(&device, &tuning, AT_ONCE).unwrap();
        assert_eq!(report.replicas, 0, "{what}");
        let reported: Vec<_> = report.changes.iter().map(|c| (c.parameter, c.old.clone())).collect();
        assert_eq!(reported, settings_at_once(&old), "{what}: everything was changed");
        assert!(report.changes.iter().all(|c| c.old != c.new), "{what}: {:?}", report.changes);
        let now: Vec<_> = report.changes.iter().map(|c| (c.parameter, c.new.clone())).collect();
        let reread = Superblock::open(&device).unwrap();
        assert_eq!(settings_at_once(&reread), now, "{what}");
        assert_clean(&device, &what);

        let (layout, after) = (&old.layout, bytes(&device));
        let inside = |byte: u64, start: u64| (start..start + u64::from(layout.fs_sbsize)).contains(&byte);
        let changed = |before: &[u8], after: &[u8]| -> Vec<u64> {
            let pairs = before.iter().zip(after).enumerate();
            pairs.filter(|(_, (a, b))| a != b).map(|(byte, _)| byte as u64).collect()
        };
        let stray = changed(&before, &after).into_iter().find(|&byte| !inside(byte, layout.fs_sblockloc));
        assert_eq!(stray, None, "{what}");

        let report = tune(&device, &Tuning::default(), EVERYWHERE).unwrap();
        assert_eq!((report.replicas, report.changes.len()), (layout.fs_ncg, 0), "{what}");
        let replicas: Vec<u64> = (0..layout.fs_ncg).map(|cgx| layout.byte(layout.cgsblock(cgx))).collect();
        for &at in &replicas {
            let replica = Superblock::read_replica(&device, at, layout.fs_sblockloc).unwrap();
            assert_eq!(settings_at_once(&replica), now, "{what}: byte {at}");
            if replica.fs.fs_sblockactualloc > 0 {
                assert_eq!(replica.fs.fs_sblockactualloc, at.cast_signed(), "{what}");
            }
        }
        let stray = changed(&after, &bytes(&device))
            .into_iter()
            .find(|&byte| !replicas.iter().any(|&start| inside(byte, start)));
        assert_eq!(stray, None, "{what}");
        assert_clean(&device, &what);
    }
}

fn refusal(result: Result<impl std::fmt::Debug>) -> String {
    match result {
        Err(error @ Error::Unsupported { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

/// Promise: what cannot be, or what the format does not have, is refused by name with what is
/// possible, and together with good wishes changes nothing.
#[test]
fn bad_values_change_nothing() {
    let ufs2 = wish(Format::Ufs2, None, None);
    let good = || Tuning { minfree: Some(9), maxbpg: Some(77), ..Tuning::default() };
    let label = |label: &str| Tuning { label: Some(label.into()), ..good() };
    let cases = [
        (&ufs2, Tuning { maxcontig: Some(0), ..good() }, "maxcontig 0", "1 to 512 blocks"),
        (&ufs2, Tuning { maxcontig: Some(513), ..good() }, "maxcontig 513", "1 to 512 blocks"),
        (&ufs2, Tuning { maxbpg: Some(0), ..good() }, "maxbpg 0", "1 to 2147483647"),
        (&ufs2, Tuning { maxbpg: Some(1 << 31), ..good() }, "maxbpg 2147483648", "2147483647"),
        (&ufs2, Tuning { minfree: Some(100), ..good() }, "minfree 100", "0 to 99%"),
        (&ufs2, Tuning { avgfilesize: Some(0), ..good() }, "avgfilesize 0", "1 to"),
        (&ufs2, Tuning { avgfpdir: Some(0), ..good() }, "avgfpdir 0", "1 to"),
        (&ufs2, Tuning { rotdelay_ms: Some(4), ..good() }, "rotdelay cannot", "UFS1"),
        (&ufs2, label("a b"), "label \"a b\"", "letters"),
        (&ufs2, label(&"x".repeat(32)), "label", "at most 31"),
        (
            &wish(Format::Old, None, None),
            Tuning { rotdelay_ms: Some(1001), ..good() },
            "rotdelay 1001",
            "1000 ms",
        ),
        (&wish(Format::Old, None, None), label("name"), "label cannot", "4.3BSD"),
        (
            &wish(Format::Ufs1, Some(Dialect::Sun { x86: false }), None),
            Tuning { avgfilesize: Some(1), ..good() },
            "avgfilesize cannot",
            "Sun",
        ),
        (
            &wish(Format::Ufs1, Some(Dialect::OpenBsd), None),
            Tuning { soft_updates: Some(true), ..good() },
            "soft updates cannot",
            "OpenBSD",
        ),
    ];
    for (parameters, tuning, named, possible) in cases {
        let device = make(parameters);
        let before = bytes(&device);
        let message = refusal(tune(&device, &tuning, EVERYWHERE));
        assert!(message.contains(named) && message.contains(possible), "{message}");
        assert!(bytes(&device) == before, "{message}");
    }
}

/// Promise: what must not be written is not, unless it can be insisted on; and insisting does not
/// call it clean.
#[test]
fn objections_are_heard() {
    let parameters = Parameters { check_hashes: false, ..wish(Format::Ufs2, None, None) };
    let tuning = Tuning { minfree: Some(20), ..Tuning::default() };
    let forced = Options { force: true, replicas: false };
    let with = |patch: fn(&mut [u8])| {
        let device = make(&parameters);
        let mut sector = vec![0; 8192];
        device.read_at(65536, &mut sector).unwrap();
        patch(&mut sector);
        device.write_at(65536, &sector).unwrap();
        device
    };
    let dirty = with(|sb| sb[209] = 0);
    assert!(refusal(tune(&dirty, &tuning, AT_ONCE)).contains("not unmounted cleanly"));
    let report = tune(&dirty, &tuning, forced).unwrap();
    assert_eq!((report.superblock.fs.fs_clean, report.superblock.fs.fs_minfree), (0, 20));
    let soft = Tuning { soft_updates: Some(true), ..Tuning::default() };
    assert!(refusal(tune(&dirty, &soft, forced)).contains("soft updates"));
    // A number in the list of snapshots.
    let listed = with(|sb| sb[1116] = 5);
    assert!(refusal(tune(&listed, &tuning, forced)).contains("lists inode 5 as a snapshot"));
    // Journaled soft updates (0x008 beside 0x002).
    let journaled = with(|sb| sb[1312] |= 0x0a);
    let off = Tuning { soft_updates: Some(false), ..Tuning::default() };
    assert!(refusal(tune(&journaled, &off, AT_ONCE)).contains("tunefs -j"));
    assert!(refusal(tune(&MemoryDevice::new(1 << 20), &tuning, forced)).contains("no UFS superblock"));
}

/// Promise: a wish for what is already so writes nothing; soft updates go on and off again, and a
/// name goes off, without a trace, where UFS1 keeps its flags in eight bits, too.
#[test]
fn back_to_what_it_was() {
    for parameters in [wish(Format::Ufs2, None, None), wish(Format::Ufs1, Some(Dialect::Bsd44), None)] {
        let device = make(&parameters);
        let before = bytes(&device);
        let set = |on| Tuning { soft_updates: Some(on), ..Tuning::default() };
        let report = tune(&device, &set(false), AT_ONCE).unwrap();
        let same = Value::Switch(false);
        let unchanged = Change { parameter: Parameter::SoftUpdates, old: same.clone(), new: same };
        assert_eq!(report.changes, [unchanged]);
        let report = tune(&device, &set(true), AT_ONCE).unwrap();
        assert_eq!(report.superblock.flags() & flags::FS_DOSOFTDEP, flags::FS_DOSOFTDEP);
        assert!(report.superblock.objections(&device).unwrap().is_empty());
        tune(&device, &set(false), AT_ONCE).unwrap();
        if parameters.format == Format::Ufs2 {
            let named = |name: &str| Tuning { label: Some(name.into()), ..Tuning::default() };
            tune(&device, &named("a-long_name-1"), AT_ONCE).unwrap();
            tune(&device, &named(""), AT_ONCE).unwrap();
        }
        assert!(bytes(&device) == before);
    }
}

/// Promise: combinations that the systems' own tools advise against are reported, and only those.
#[test]
fn advice() {
    let device = make(&Parameters { check_hashes: false, ..wish(Format::Ufs2, None, None) });
    let notes = |minfree, optimization| {
        let tuning = Tuning { minfree: Some(minfree), optimization, ..Tuning::default() };
        tune(&device, &tuning, AT_ONCE).unwrap().notes.join("; ")
    };
    assert_eq!(notes(8, Some(Optimization::Time)), "");
    assert!(notes(7, None).contains("below 8%, optimization for space"));
    assert_eq!(notes(7, Some(Optimization::Space)), "");
    assert!(notes(8, None).contains("optimization for time"));
    assert!(notes(4, Some(Optimization::Space)).contains("slow"));
    // Free blocks: nearly none.
    device
        .write_at(65536 + 512, &{
            let mut sector = [0; 1024];
            device.read_at(65536 + 512, &mut sector).unwrap();
            sector[504..512].copy_from_slice(&1_u64.to_le_bytes());
            sector
        })
        .unwrap();
    assert!(notes(8, Some(Optimization::Time)).contains("only root"));
}

/// Promise: lists of POSIX.1e and of `NFSv4` are switched on and off, one of them at a time, and
/// only where there are attributes in inodes.
#[test]
fn access_control_lists() {
    let posix = |on| Tuning { posix_acls: Some(on), ..Tuning::default() };
    let nfs4 = |on| Tuning { nfs4_acls: Some(on), ..Tuning::default() };
    let device = make(&wish(Format::Ufs2, None, None));
    let acls = || Superblock::open(&device).unwrap().acls();
    assert_eq!(acls(), AclKind::None);
    tune(&device, &posix(true), AT_ONCE).unwrap();
    assert_eq!(acls(), AclKind::Posix);
    assert!(refusal(tune(&device, &nfs4(true), AT_ONCE)).contains("one of the two"));
    tune(&device, &Tuning { posix_acls: Some(false), ..nfs4(true) }, AT_ONCE).unwrap();
    assert_eq!(acls(), AclKind::Nfs4);
    assert!(refusal(tune(&device, &posix(true), AT_ONCE)).contains("one of the two"));
    assert!(
        refusal(tune(&device, &Tuning { posix_acls: Some(true), ..nfs4(true) }, AT_ONCE)).contains("POSIX")
    );
    tune(&device, &nfs4(false), AT_ONCE).unwrap();
    assert_eq!(acls(), AclKind::None);
    assert_clean(&device, "tuned");
    for other in [
        wish(Format::Ufs1, None, None),
        wish(Format::Ufs2, Some(Dialect::NetBsd), None),
        wish(Format::Ufs1, Some(Dialect::Bsd44), None),
    ] {
        let device = make(&other);
        assert!(refusal(tune(&device, &posix(true), AT_ONCE)).contains("keep them in inodes"));
        assert!(refusal(tune(&device, &nfs4(true), AT_ONCE)).contains("keep them in inodes"));
    }
}
