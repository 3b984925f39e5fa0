//! Parameters arrive, or are refused by their names.

use super::audit::{FORMATS, audit, list, make, with};
use super::seeded;
use rand::Rng;
use rand::rngs::StdRng;
use spindle_ffs::newfs::{Format, Optimization, Parameters, Plan, ROOTINO};
use spindle_ffs::ondisk::flags;
use spindle_ffs::{CheckHashes, Dialect};
use spindle_ondisk::Endian;

/// Promise: what cannot be had is refused by the name of its parameter.
#[test]
fn refusals_name_the_parameter() {
    type Change = fn(&mut Parameters);
    let cases: [(&str, Change); 17] = [
        ("block size", |p| p.bsize = Some(2048)),
        ("block size", |p| p.bsize = Some(131_072)),
        ("block size", |p| p.bsize = Some(12_288)),
        ("fragment size", |p| (p.bsize, p.fsize) = (Some(32768), Some(1024))),
        ("fragment size", |p| (p.sector_bytes, p.fsize) = (4096, Some(512))),
        ("sector size", |p| p.sector_bytes = 520),
        ("minfree", |p| p.minfree = Some(100)),
        ("density", |p| p.density = Some(0)),
        ("label", |p| p.label = Some("a b".into())),
        ("label", |p| (p.format, p.label) = (Format::Old, Some("x".into()))),
        ("dialect", |p| p.dialect = Some(Dialect::Sun { x86: true })),
        ("dialect", |p| (p.format, p.dialect) = (Format::Old, Some(Dialect::FreeBsd))),
        ("disk geometry", |p| p.geometry.nsect = Some(32)),
        ("static tables", |p| p.static_tables = true),
        ("byte order", |p| p.endian = Some(Endian::Pdp)),
        ("byte order", |p| {
            (p.format, p.dialect) = (Format::Ufs1, Some(Dialect::Sun { x86: true }));
            p.endian = Some(Endian::Big);
        }),
        ("size", |p| p.size_bytes = 0),
    ];
    for (name, change) in cases {
        assert_eq!(Plan::new(&with(64 << 20, change)).unwrap_err().parameter, name);
    }
}

/// Promise: the remaining parameters arrive in the superblock.
#[test]
fn parameters_arrive() {
    let (device, superblock) = make(&with(64 << 20, |p| {
        p.minfree = Some(12);
        p.maxcontig = Some(4);
        p.maxbpg = Some(99);
        p.optimization = Some(Optimization::Space);
        p.avgfilesize = Some(5000);
        p.avgfpdir = Some(33);
        p.density = Some(65536);
        p.label = Some("spindle-1".into());
        p.fs_flags = flags::FS_DOSOFTDEP;
        p.blocks_per_group = Some(300);
        p.metaspace = Some(80);
        p.snap_dir = false;
    }));
    audit(&device, &superblock, "parameters");
    let fs = &superblock.fs;
    assert_eq!((fs.fs_minfree, fs.fs_maxcontig, fs.fs_maxbpg, fs.fs_optim), (12, 4, 99, 1));
    assert_eq!((fs.fs_avgfilesize, fs.fs_avgfpdir, fs.fs_contigsumsize, fs.fs_metaspace), (5000, 33, 4, 80));
    assert_eq!(&fs.fs_volname[..10], b"spindle-1\0");
    assert_eq!(fs.fs_flags, flags::FS_DOSOFTDEP | flags::FREEBSD_METACKHASH);
    assert!(fs.fs_fpg <= 2400);
    assert_eq!(list(&device, &superblock, ROOTINO).1.len(), 2);
    let (_, unhashed) = make(&with(64 << 20, |p| p.check_hashes = false));
    assert_eq!(unhashed.check_hashes(), CheckHashes::default());
}

/// Promise: whatever is asked for is either refused by name or made consistent; nothing panics.
#[test]
fn random_parameters() {
    let mut random = seeded("random_parameters");
    let mut made = 0;
    for round in 0..400 {
        let parameters = random_wishes(&mut random);
        let what = format!("round {round}: {parameters:?}");
        match Plan::new(&parameters) {
            Ok(plan) if plan.size_bytes() <= 256 << 20 => {
                made += 1;
                let (device, superblock) = make(&parameters);
                assert_eq!(superblock.totals(), plan.totals(), "{what}");
                audit(&device, &superblock, &what);
            }
            Ok(plan) => assert!(plan.totals().cs_nbfree > 0, "{what}"),
            Err(error) => assert_ne!(error.parameter, "combination", "{what}: {error}"),
        }
    }
    assert!(made > 50, "only {made} were possible");
}

fn random_wishes(random: &mut StdRng) -> Parameters {
    fn maybe(random: &mut StdRng, values: &[u32]) -> Option<u32> {
        random.random_bool(0.3).then(|| values[random.random_range(0..values.len())])
    }
    let (format, dialect, static_tables) = FORMATS[random.random_range(0..FORMATS.len())];
    let size = match random.random_range(0..10) {
        0 => random.random(),
        1 => random.random::<u64>() >> 16,
        2 => random.random_range(0..1 << 20),
        _ => random.random_range(1 << 20..64 << 20),
    };
    let bsize = maybe(random, &[4096, 8192, 16384, 32768, 65536, 0, 1, u32::MAX, 1 << 31]);
    let edges = [0, 1, 2, 3, 7, 8, 64, 511, 4096, 65535, 1 << 20, i32::MAX as u32, u32::MAX];
    with(size, |p| {
        (p.format, p.dialect, p.static_tables) = (format, dialect, static_tables);
        p.bsize = bsize;
        p.fsize = bsize.and_then(|b| maybe(random, &[b, b / 2, b / 4, b / 8, b / 16]));
        p.density = maybe(random, &[0, 512, 600, 4096, 10_000, 1 << 20, i32::MAX as u32]);
        p.minfree = maybe(random, &[0, 1, 50, 99, 100]);
        p.maxcontig = maybe(random, &edges);
        p.maxbpg = maybe(random, &edges);
        p.blocks_per_group = maybe(random, &edges);
        p.metaspace = maybe(random, &edges);
        p.sector_bytes = [512, 512, 512, 4096][random.random_range(0..4)];
        if matches!(dialect, Some(Dialect::Bsd44 | Dialect::Apple | Dialect::Sun { .. } | Dialect::Bsd43)) {
            let g = &mut p.geometry;
            g.nsect = maybe(random, &[1, 9, 17, 32, 63, 100, 1000, 65535]);
            g.ntrak = maybe(random, &[1, 2, 5, 16, 19, 255, 65535]);
            g.cpg = maybe(random, &[1, 2, 8, 16, 31, 32, 1000, 0]);
            g.nrpos = maybe(random, &[1, 2, 8, 32, 64, 65]);
            g.interleave = maybe(random, &[0, 1, 2, 5]);
            g.trackskew = maybe(random, &edges);
            g.trackspares = maybe(random, &[0, 1, 5, 65535]);
            g.cylspares = maybe(random, &[0, 1, 2, 31, 65535]);
            g.rpm = maybe(random, &[0, 60, 3600, u32::MAX]);
        }
    })
}

/// Promise: a plan says in words what it is.
#[test]
fn plans_describe_themselves() {
    let plan = Plan::new(&with(4 << 20, |_| ())).unwrap();
    let text = "UFS2 (FreeBSD), 4096 KiB: blocks of 32768, fragments of 4096 bytes\n\
                4 cylinder groups of 1056 KiB, 33 blocks, 256 inodes";
    assert_eq!(plan.to_string(), text);
}
