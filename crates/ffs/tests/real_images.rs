//! The superblocks of images that real systems wrote.

use spindle_device::MemoryDevice;
use spindle_ffs::{Dialect, Superblock, Version};
use spindle_samples::present;

/// Promise: the superblocks are found, pass every check, hash right, and their dialect is detected;
/// a FreeBSD superblock encoded again is the same to the byte.
#[test]
fn superblocks_of_real_systems() {
    let all = ["freebsd-ufs2-le", "freebsd-ufs2-be", "openbsd28-ufs1", "openbsd28-43bsd"];
    for sample in present(&all) {
        let name = sample.name;
        let (version, dialect) = match name {
            "openbsd28-ufs1" => (Version::Ufs1, Dialect::Bsd44),
            "openbsd28-43bsd" => (Version::Ufs1, Dialect::Bsd43),
            _ => (Version::Ufs2, Dialect::FreeBsd),
        };
        let device = MemoryDevice::from_bytes(&sample.image());
        let mut superblock = Superblock::open(&device).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((superblock.layout.version, superblock.dialect), (version, dialect), "{name}");
        assert_eq!(superblock.objections(&device).unwrap(), [], "{name}");
        let before = superblock.raw().to_vec();
        let at = superblock.layout.fs_sblockloc;
        assert_eq!(superblock.encode(at), before, "{name}");
        let (_, replica) = Superblock::find_replica(&device).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(replica.layout.fs_size, superblock.layout.fs_size, "{name}");
    }
}
