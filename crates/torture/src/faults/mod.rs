//! Faulty devices: whatever a device does, nothing that was acknowledged is lost by us, and nothing panics or hangs.

pub mod device;
pub mod plan;
