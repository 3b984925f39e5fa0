//! The check on bytes that nobody meant.

use crate::images::{Image, makefs};
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use spindle_device::MemoryDevice;
use spindle_ffs::check::{Options, check};
use spindle_samples::present;

/// Mutated images of each kind; a hundred times as many with `SPINDLE_LONG`.
const ROUNDS: u64 = 400;

/// Changes the image in a few places where it hurts: the structures of a group, the first data,
/// directories and indirect blocks, with bits, numbers at the edge, swapped blocks or noise.
fn mutate(bytes: &mut Vec<u8>, image: &Image, rng: &mut SmallRng) {
    let layout = image.layout();
    for _ in 0..rng.random_range(1..=8) {
        let cgx = rng.random_range(0..layout.fs_ncg);
        let start = layout.byte(layout.cgsblock(cgx));
        let end = layout.byte(layout.cgdmin(cgx)) + 16 * u64::from(layout.fs_bsize);
        let at = match rng.random_range(0..6) {
            0 => image.sb() + rng.random_range(0..1376),
            1 => image.cg(cgx) + rng.random_range(0..256),
            2 => image.inode(rng.random_range(2..40.min(layout.inodes()))) + rng.random_range(0..128),
            _ => rng.random_range(start..end),
        };
        let at = usize::try_from(at).unwrap().min(bytes.len() - 8192);
        match rng.random_range(0..5) {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at] = *[0, 1, 0x7f, 0x80, 0xff].get(rng.random_range(0..5)).unwrap(),
            2 => {
                let number =
                    [0_u64, 1, u64::MAX, 1 << 31, 1 << 63, u64::from(u32::MAX)][rng.random_range(0..6)];
                let at = at / 8 * 8;
                bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            3 => {
                let from = rng.random_range(0..bytes.len() - 8192) / 512 * 512;
                bytes.copy_within(from..from + 512, at / 512 * 512);
            }
            _ => rng.fill_bytes(&mut bytes[at..at + 64]),
        }
    }
    if rng.random_ratio(1, 50) {
        bytes.truncate(rng.random_range(bytes.len() / 4..bytes.len()) / 512 * 512);
    }
}

/// Promise: whatever the bytes, the check returns, and it neither lists more findings than asked
/// for nor reads far more than the device holds.
#[test]
fn any_bytes_are_survived() {
    let seed = std::env::var("SPINDLE_SEED")
        .map_or_else(|_| SmallRng::from_os_rng().next_u64(), |s| s.parse().expect("a number"));
    println!("repeat with: SPINDLE_SEED={seed} cargo test -p spindle-ffs --test check any_bytes");
    let rounds = if std::env::var_os("SPINDLE_LONG").is_some() { 100 * ROUNDS } else { ROUNDS };
    let tree = tempfile::tempdir().expect("a temporary directory");
    for n in 0..30 {
        std::fs::create_dir_all(tree.path().join(format!("dir{}", n % 3))).unwrap();
        std::fs::write(tree.path().join(format!("dir{}/file{n}", n % 3)), vec![b'm'; n * 5000]).unwrap();
    }
    let made = |version: &str, endian: &str| {
        let options = format!("version={version},bsize=4096,fsize=512,maxbpcg=256");
        Image::new(&makefs(tree.path(), &["-B", endian, "-o", &options, "-s", "4m"]))
    };
    let mut bases = vec![made("1", "le"), made("2", "be")];
    for real in present(&["freebsd-ufs2-le", "freebsd-ufs2-be"]) {
        bases.push(Image::new(&MemoryDevice::from_bytes(&real.image())));
    }
    let mut rng = SmallRng::seed_from_u64(seed);
    let options = Options { limit: 100, ..Options::default() };
    let mut checked = 0;
    for round in 0..rounds {
        for image in &bases {
            let mut bytes = image.bytes.clone();
            mutate(&mut bytes, image, &mut rng);
            // A superblock that is refused is no test of the phases: keep it in some rounds only.
            if round % 4 != 0 {
                let sb = usize::try_from(image.sb()).unwrap();
                if bytes.len() > sb + 8192 {
                    bytes[sb..sb + 1376].copy_from_slice(&image.bytes[sb..sb + 1376]);
                }
            }
            let size = bytes.len() as u64;
            let Ok(report) = check(&MemoryDevice::from_bytes(&bytes), &options, &mut |_| {}) else {
                continue;
            };
            checked += 1;
            assert!(report.findings.len() <= 100);
            assert!(report.bytes_read < 64 * size, "{} bytes read", report.bytes_read);
        }
    }
    let all = rounds * bases.len() as u64;
    assert!(checked > all / 2, "only {checked} of {all} images were checked at all");
}

/// Promise: time and reading stay in proportion to the device when a thousand inodes share indirect
/// blocks that point at themselves, through all three levels.
#[test]
fn shared_and_circular_indirect_blocks_cost_nothing() {
    let tree = tempfile::tempdir().expect("a temporary directory");
    for n in 0..1000 {
        std::fs::create_dir_all(tree.path().join(format!("d{}", n % 10))).unwrap();
        std::fs::write(tree.path().join(format!("d{}/file{n}", n % 10)), b"").unwrap();
    }
    std::fs::write(tree.path().join("victim"), vec![b'v'; 1 << 20]).unwrap();
    for (version, endian) in [("1", "be"), ("2", "le")] {
        let options = format!("version={version},bsize=4096,fsize=512");
        let mut image = Image::new(&makefs(tree.path(), &["-B", endian, "-o", &options, "-s", "16m"]));
        let width = if image.is_ufs2() { 8 } else { 4 };
        let put = |image: &mut Image, at: u64, pointer: u64| {
            if width == 8 { image.put(at, pointer) } else { image.put(at, u32::try_from(pointer).unwrap()) }
        };
        let ring = image.block(image.ino("victim"), 12);
        for n in 0..4096 / width {
            put(&mut image, ring * 512 + n * width, ring);
        }
        for n in 0..1000 {
            let ino = image.ino(&format!("d{}/file{n}", n % 10));
            image.put(image.inode(ino) + if width == 8 { 16 } else { 8 }, 1_u64 << 35);
            for level in 12..15 {
                let at = image.pointer(ino, level);
                put(&mut image, at, ring);
            }
        }
        let report = image.check();
        assert!(report.damages >= 1000, "{}", report.damages);
        assert!(report.bytes_read < 3 * image.bytes.len() as u64, "{} bytes read", report.bytes_read);
    }
}
