//! Logs that a mount replays.

use crate::image::use_image;
use crate::{Target, number, seed};
use spindle_device::MemoryDevice;
use spindle_ffs::{LogUse, Superblock};
use spindle_torture::base::node;
use spindle_torture::crash::images::{self, Image, shapes};
use spindle_torture::overlay::Overlay;
use spindle_vfs::{FileKind, FileSystem, Privilege};
use std::sync::{Arc, LazyLock};

/// The log of our own, and of NetBSD.
pub const LOG: Target =
    Target { name: "log", about: "a log that is in use, from one of its sectors on", seeds, run };

/// Bytes of a log that a seed holds.
const SEED: usize = 4096;

/// An image as a crash leaves it.
struct Crashed {
    name: &'static str,
    bytes: Arc<[u8]>,
    /// The byte of the image at which the log begins, and its length.
    log: (usize, usize),
}

static CRASHED: LazyLock<Vec<Crashed>> = LazyLock::new(|| {
    let names = ["ufs2-freebsd", "ufs2-netbsd", "ufs1-netbsd", "sun-sparc"];
    shapes().iter().filter(|shape| names.contains(&shape.name)).map(crash).collect()
});

/// Makes an image with changes that are in its log only.
fn crash(shape: &images::Shape) -> Crashed {
    let image = Image::new(shape, LogUse::Wanted);
    let device = Arc::new(MemoryDevice::from_bytes(&image.bytes).with_sectors(image.sector_bytes));
    let fs = images::open(device.clone(), images::clock(), LogUse::Wanted).expect("a valid image");
    for n in 0..6 {
        let made = fs.create(
            fs.root(),
            format!("new{n}").as_bytes(),
            &node(FileKind::Regular, b""),
            Privilege::Root,
        );
        let ino = made.expect("there is space").ino;
        fs.write(ino, 0, &[7; 3000], Privilege::Root).expect("there is space");
        fs.sync().expect("a sync");
    }
    fs.rmdir(fs.root(), b"B").expect("an empty directory");
    fs.sync().expect("a sync");
    let bytes: Arc<[u8]> = device.to_bytes().into();
    let _ = fs.unmount();
    let superblock = Superblock::open(&MemoryDevice::from_bytes(&bytes)).expect("a superblock");
    let place = superblock.log_place().expect("a log");
    let log = [place.at, place.len].map(|n| usize::try_from(n).expect("a small image")).into();
    Crashed { name: shape.name, bytes, log }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (n, crashed) in CRASHED.iter().enumerate() {
        let (at, len) = crashed.log;
        for sector in [0, 2, 4, 12] {
            let from = (at + 512 * sector).min(at + len);
            seeds.push(seed(&[n, sector], &crashed.bytes[from..(from + SEED).min(at + len)]));
        }
    }
    seeds
}

/// Puts an input into a log, and uses the image, which replays it.
fn run(mut data: &[u8]) {
    let (n, sector) = (number(&mut data), number(&mut data));
    let crashed = &CRASHED[n % CRASHED.len()];
    let (at, len) = crashed.log;
    let from = sector % (len / 512) * 512;
    let image = || {
        let device = Overlay::new(crashed.bytes.clone(), crashed.bytes.len());
        device.poke(at + from, &data[..data.len().min(len - from)]);
        device
    };
    use_image(image, &format!("{}: log changed from sector {sector} on", crashed.name));
}
