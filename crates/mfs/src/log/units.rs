//! How log storage is laid over its parts.

use spindle_device::{Device, Stripe, Window};
use spindle_vfs::{Error, Result};
use std::sync::Arc;

/// Bytes of a slot of the header.
pub(super) const SLOT_BYTES: u64 = 4096;
/// Byte at which the circle begins.
const START: u64 = 2 * SLOT_BYTES;
/// Least bytes of log storage.
pub(crate) const LEAST_BYTES: u64 = START + (1 << 20);
/// Bytes of a unit in a log whose header says nothing of units.
const STRIPED: u32 = 64 << 10;

/// How log storage is laid over its parts, and where a record begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogUnits {
    /// Bytes of a unit, in which the parts take turns: a power of two from 8192 to 16 MiB; 0 for
    /// 65536.
    pub unit_bytes: u32,
    /// A record begins at a multiple of so many bytes, a power of two of no more than a unit; 0 for
    /// the next sector. The gap before the next record is the time that a host has before the
    /// sectors of it have passed the head.
    pub record_bytes: u32,
}

impl LogUnits {
    /// A record begins where the one before has ended.
    pub const STRIPED: Self = Self { unit_bytes: 0, record_bytes: 0 };

    /// Returns the bytes at a multiple of which a record begins.
    pub(super) fn step(self, sector_bytes: u32) -> u64 {
        self.record_bytes.max(sector_bytes).into()
    }
}

impl Default for LogUnits {
    fn default() -> Self {
        Self { unit_bytes: 32 << 10, record_bytes: 8192 }
    }
}

/// Returns the circle of log storage with these parts; its first part begins with the headers.
///
/// # Errors
/// [`Error::Corrupt`] if the parts are too small, or units impossible.
pub(crate) fn circle(parts: &[Arc<dyn Device>], units: LogUnits) -> Result<Arc<dyn Device>> {
    let corrupt = |what: String| Err(Error::corrupt(what, "log"));
    let unit = if units.unit_bytes == 0 { STRIPED } else { units.unit_bytes };
    let LogUnits { unit_bytes, record_bytes } = units;
    let is_possible = unit.is_power_of_two()
        && (8192..=16 << 20).contains(&unit)
        && (record_bytes == 0 || record_bytes.is_power_of_two() && record_bytes <= unit);
    if !is_possible {
        return corrupt(format!("units of {unit_bytes} bytes with records at each {record_bytes}"));
    }
    let stripe = Stripe::new(parts.to_vec(), unit.into(), "log".into())?;
    let size = stripe.info().size_bytes;
    if size < LEAST_BYTES {
        return corrupt(format!("log storage of {size} bytes"));
    }
    Ok(Arc::new(Window::new(Arc::new(stripe), START, size - START, "log".into())?))
}
