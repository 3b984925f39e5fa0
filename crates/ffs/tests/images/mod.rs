//! Images for the tests of the check: those of real systems, outside the repository (`SPINDLE_IMAGES` names
//! their directory, `../shared/images` beside the repository otherwise), and those that `makefs` makes.

use spindle_device::MemoryDevice;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn directory() -> PathBuf {
    std::env::var_os("SPINDLE_IMAGES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/images"),
        PathBuf::from,
    )
}

/// The bytes that a command writes.
fn run(command: &mut Command) -> Vec<u8> {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}: run the set-up script"));
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

/// An image of a real system.
pub fn real(name: &str) -> MemoryDevice {
    let file = directory().join(format!("{name}.img.zst"));
    MemoryDevice::from_bytes(&run(Command::new("zstd").arg("-dqc").arg(file)))
}

/// How many inodes the independent listing of a real image names.
pub fn listing(name: &str) -> u64 {
    let file = directory().join(format!("{name}.tsv"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let inodes: HashSet<_> = text.lines().skip(1).filter_map(|line| line.split('\t').nth(9)).collect();
    inodes.len() as u64
}

/// An image that `makefs` makes of a directory.
pub fn makefs(tree: &Path, options: &[&str]) -> MemoryDevice {
    let out = tempfile::NamedTempFile::new().expect("a temporary file");
    run(Command::new("makefs").args(["-t", "ffs"]).args(options).arg(out.path()).arg(tree));
    MemoryDevice::from_bytes(&std::fs::read(out.path()).expect("makefs wrote it"))
}
