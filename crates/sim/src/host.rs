//! The processor of a host, as a price list: what each piece of work that a file system and its
//! driver do costs.

use crate::error::Error;
use crate::figure::figure;
use crate::time::Time;
use serde::Deserialize;
use spindle_clock::Work;

/// What a preset file says of a host. Times are processor time.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Entering and leaving the system for one call, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub call_us: f64,
    /// Rate of copying between a program and the system in megabytes (10^6) per second.
    #[serde(deserialize_with = "figure")]
    pub copy_mb_s: f64,
    /// One trip through the file system for a block that is read, in microseconds, without the
    /// transfer.
    #[serde(deserialize_with = "figure")]
    pub read_block_us: f64,
    /// The same for a block that is written, without finding space.
    #[serde(deserialize_with = "figure")]
    pub write_block_us: f64,
    /// Finding space for a new block by searching maps, and preparing it, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub allocate_us: f64,
    /// Handing a transfer to the driver, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub request_us: f64,
    /// The interrupt at its end, with the switch to the process that waits for it, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub interrupt_us: f64,
    /// A page fault on a mapped file that ends in the cache, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub fault_us: f64,
    /// Giving up a block in memory for another, in microseconds.
    #[serde(deserialize_with = "figure")]
    pub reclaim_us: f64,
    /// A request to a daemon that serves a file system, and its answer, in microseconds; 0 where
    /// file systems are in the kernel.
    #[serde(default, deserialize_with = "figure")]
    pub trip_us: f64,
}

/// The price list of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    call: Time,
    copy_ns_per_byte: f64,
    read_block: Time,
    write_block: Time,
    allocate: Time,
    request: Time,
    interrupt: Time,
    fault: Time,
    reclaim: Time,
    trip: Time,
}

impl Host {
    /// Returns the host that `spec` describes.
    ///
    /// # Errors
    /// When a figure is negative or none.
    pub fn new(spec: &Spec) -> Result<Self, Error> {
        let time = |field: &str, us: f64| {
            if (0.0..=1e9).contains(&us) {
                Ok(Time::from_secs_f64(us / 1e6))
            } else {
                Err(Error::Invalid { field: field.to_owned(), problem: "must be from 0 to 10^9".to_owned() })
            }
        };
        if !(0.001..=1e9).contains(&spec.copy_mb_s) {
            let problem = "must be from 0.001 to 10^9".to_owned();
            return Err(Error::Invalid { field: "host.copy_mb_s".to_owned(), problem });
        }
        Ok(Self {
            call: time("host.call_us", spec.call_us)?,
            copy_ns_per_byte: 1e3 / spec.copy_mb_s,
            read_block: time("host.read_block_us", spec.read_block_us)?,
            write_block: time("host.write_block_us", spec.write_block_us)?,
            allocate: time("host.allocate_us", spec.allocate_us)?,
            request: time("host.request_us", spec.request_us)?,
            interrupt: time("host.interrupt_us", spec.interrupt_us)?,
            fault: time("host.fault_us", spec.fault_us)?,
            reclaim: time("host.reclaim_us", spec.reclaim_us)?,
            trip: time("host.trip_us", spec.trip_us)?,
        })
    }

    /// Returns what a piece of work costs.
    #[must_use]
    pub fn cost(&self, work: Work) -> Time {
        match work {
            Work::Call => self.call,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "positive; a nanosecond more or less"
            )]
            Work::Copy { bytes } => Time((bytes as f64 * self.copy_ns_per_byte).round() as u64),
            Work::Fault => self.fault,
            Work::ReadBlock => self.read_block,
            Work::WriteBlock => self.write_block,
            Work::Allocate => self.allocate,
            Work::Reclaim => self.reclaim,
            Work::Request => self.request,
            Work::Interrupt => self.interrupt,
            Work::Trip => self.trip,
        }
    }
}
