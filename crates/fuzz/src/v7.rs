//! Blocks of V7, 4.1BSD and System V.

use crate::image::clock;
use crate::{Target, number, seed};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use spindle_device::{Device, MemoryDevice};
use spindle_ondisk::Endian;
use spindle_torture::base::node;
use spindle_torture::exercise::{change, walk};
use spindle_torture::overlay::Overlay;
use spindle_v7::check::{Options, check, repair};
use spindle_v7::newfs::{self, Parameters, Plan};
use spindle_v7::{Format, OpenOptions, V7};
use spindle_vfs::{FileKind, FileSystem, Privilege};
use std::sync::{Arc, LazyLock};

/// The super-block, inodes, directories, indirect blocks and the free list.
pub const OLD: Target = Target { name: "old", about: "a block of V7, 4.1BSD or System V", seeds, run };

/// Bytes of an image.
const SIZE: u64 = 256 << 10;

/// A valid image of a format.
struct Base {
    format: Format,
    bytes: Arc<[u8]>,
    bsize: usize,
}

static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
    [Format::V7, Format::BSD41, Format::sysv(Endian::Little), Format::sysv(Endian::Big)].map(make).into()
});

fn make(format: Format) -> Base {
    let device = Arc::new(MemoryDevice::new(SIZE));
    let plan = Plan::new(&Parameters::new(format, SIZE)).expect("a size that can be");
    newfs::write(&plan, &*device, &*clock()).expect("memory does not fail");
    let fs = V7::open(device.clone(), clock(), &OpenOptions::default()).expect("a new file system");
    let by = Privilege::Root;
    let add =
        |dir, name: &[u8], kind| fs.create(dir, name, &node(kind, b""), by).expect("there is space").ino;
    let dir = add(fs.root(), b"dir", FileKind::Directory);
    add(dir, b"sub", FileKind::Directory);
    add(dir, b"tty", FileKind::CharDevice);
    let file = add(dir, b"file", FileKind::Regular);
    fs.write(file, 0, &(0..=250).cycle().take(90_000).collect::<Vec<u8>>(), by).expect("there is space");
    fs.write(add(fs.root(), b"other", FileKind::Regular), 0, &[7; 1500], by).expect("there is space");
    fs.unmount().expect("an unmount");
    Base { format, bytes: device.to_bytes().into(), bsize: plan.layout.bsize() }
}

/// Returns the first blocks of each image that are not zeros: super-block, inodes, directories.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, base) in BASES.iter().enumerate() {
        let blocks = base.bytes.chunks(base.bsize).enumerate();
        let used = blocks.filter(|(_, block)| block.iter().any(|&byte| byte != 0));
        seeds.extend(used.take(8).map(|(at, block)| seed(&[n, at], block)));
    }
    seeds
}

/// Puts an input in the place of a block, reads, checks, changes and repairs.
fn run(mut data: &[u8]) {
    let (n, block) = (number(&mut data), number(&mut data));
    let base = &BASES[n % BASES.len()];
    let image = || {
        let device = Overlay::new(base.bytes.clone(), base.bytes.len());
        device.poke(
            block % (base.bytes.len() / base.bsize) * base.bsize,
            &data[..data.len().min(2 * base.bsize)],
        );
        Arc::new(device)
    };
    let format = Some(base.format);
    for options in [OpenOptions::default(), OpenOptions { format, ..OpenOptions::default() }] {
        let device = image();
        let reading = OpenOptions { read_only: true, ..options.clone() };
        if let Ok(fs) = V7::open(device.clone(), clock(), &reading) {
            walk(&fs);
            let _ = fs.unmount();
        }
        assert_eq!(device.usage().writes, 0, "reading has written");
        if let Ok(fs) = V7::open(device, clock(), &OpenOptions { force: true, ..options }) {
            let nodes = walk(&fs);
            change(&fs, nodes, &mut SmallRng::seed_from_u64(1));
            let _ = fs.unmount();
        }
    }
    let options = Options { format, ..Options::default() };
    let device: Arc<dyn Device> = image();
    let clean =
        check(&*device, &options, &mut |_| ()).is_ok_and(|found| found.is_clean() && found.marked_clean);
    if clean {
        let fs = V7::open(device.clone(), clock(), &OpenOptions { format, ..OpenOptions::default() });
        let fs = fs.expect("what is whole can be opened");
        assert!(!fs.read_only(), "what is whole can be written: {:?}", fs.read_only_reasons());
    }
    let _ = repair(&device, &*clock(), &options, false, &mut |_| ());
}
