//! The images that real systems wrote, outside the repository: `SPINDLE_IMAGES` names
//! their directory, `../shared/images` beside the repository otherwise.

use spindle_device::MemoryDevice;
use std::path::PathBuf;
use std::process::Command;

/// Unpacks an image into memory.
pub fn image(name: &str) -> MemoryDevice {
    let dir = std::env::var_os("SPINDLE_IMAGES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/images"),
        PathBuf::from,
    );
    let file = dir.join(format!("{name}.img.zst"));
    let out = Command::new("zstd").arg("-dqc").arg(&file).output().expect("zstd runs");
    assert!(out.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&out.stderr));
    MemoryDevice::from_bytes(&out.stdout)
}
