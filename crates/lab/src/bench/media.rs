//! What a disk delivers at most: large requests, one behind the other, through the same driver,
//! without a file system.

use crate::Result;
use crate::bench::machine::{Machine, Rate};
use spindle_device::{AlignedBuf, Device, MemoryDevice, Op, Request, Ticket};
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests under way at a time.
const DEPTH: usize = 4;

/// Moves the first `bytes` of a disk in requests of `request` bytes.
///
/// # Errors
/// When there are no such presets.
pub fn sequential(host: &str, disk: &str, op: Op, bytes: u64, request: usize) -> Result<Rate> {
    Machine::new(host, disk, Arc::new(MemoryDevice::new(bytes)))?.run(move |machine| {
        machine.measure(bytes, || {
            let mut under_way: VecDeque<Ticket> = VecDeque::new();
            let mut offset = 0;
            while offset < bytes || !under_way.is_empty() {
                if offset < bytes && under_way.len() < DEPTH {
                    let len = request.min(usize::try_from(bytes - offset).unwrap_or(request));
                    let buf = AlignedBuf::zeroed(len);
                    under_way.push_back(machine.drive.submit(Request { op, offset, buf })?);
                    offset += len as u64;
                } else if let Some(ticket) = under_way.pop_front() {
                    machine.drive.wait(ticket)?;
                }
            }
            Ok(())
        })
    })
}
