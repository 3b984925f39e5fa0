//! Control storage and the classes of data storage in one address space.

use crate::format::class::CLASSES_MAX;
use crate::format::layout::{CLASS_BYTES, index};
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::sync::Arc;

/// Bits of a ticket that say which device it is of.
const DEVICE_BITS: u32 = 4;
const _: () = assert!(CLASSES_MAX < 1 << DEVICE_BITS);

/// A device of [`CLASS_BYTES`] for each of several devices: control storage, then the classes of
/// data.
pub(super) struct Space {
    info: Info,
    devices: Vec<Arc<dyn Device>>,
}

impl Space {
    /// Returns the address space of a set called `name`. Read-only classes do not keep the others
    /// from being written.
    pub(super) fn new(
        control: Arc<dyn Device>,
        mut data: Vec<Arc<dyn Device>>,
        read_only: Vec<Arc<dyn Device>>,
        name: String,
    ) -> Self {
        let writable = data.len();
        data.extend(read_only);
        let end = data.last().map_or(0, |last| last.info().size_bytes);
        let before = data.len() as u64 * CLASS_BYTES;
        let devices: Vec<_> = std::iter::once(control).chain(data).collect();
        let infos = || devices.iter().map(|device| device.info());
        let info = Info {
            name,
            size_bytes: before + end,
            sector_bytes: infos().map(|info| info.sector_bytes).max().unwrap_or(0),
            read_only: devices[..=writable].iter().any(|device| device.info().read_only),
        };
        Self { info, devices }
    }

    /// Returns the device that has `len` bytes at `offset`, its number and the byte there.
    fn place(&self, op: Op, offset: u64, len: usize) -> Result<(&Arc<dyn Device>, u64, u64)> {
        self.info.check(op, offset, len)?;
        let (number, at) = (offset / CLASS_BYTES, offset % CLASS_BYTES);
        let device = &self.devices[index(number)];
        if at.checked_add(len as u64).is_none_or(|end| end > device.info().size_bytes) {
            let Info { name, size_bytes, .. } = device.info().clone();
            return Err(Error::OutOfRange { device: name, offset: at, len: len as u64, size: size_bytes });
        }
        Ok((device, number, at))
    }
}

impl Device for Space {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let (device, number, offset) = self.place(request.op, request.offset, request.buf.len())?;
        let ticket = device.submit(Request { offset, ..request })?;
        Ok(Ticket::new(ticket.id() << DEVICE_BITS | number))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let number = ticket.id() & ((1 << DEVICE_BITS) - 1);
        self.devices[index(number)].wait(Ticket::new(ticket.id() >> DEVICE_BITS))
    }

    fn flush(&self) -> Result<()> {
        // All, also after one has failed.
        let flushed: Vec<_> = self.devices.iter().rev().map(|device| device.flush()).collect();
        flushed.into_iter().collect()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let (device, _, at) = self.place(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        device.discard(at, len)
    }
}
