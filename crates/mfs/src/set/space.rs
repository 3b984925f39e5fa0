//! Control storage and data storage in one address space.

use crate::format::layout::DATA_BASE;
use spindle_device::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use std::sync::Arc;

/// A device whose bytes below [`DATA_BASE`] are control storage and the others data storage.
pub(super) struct Space {
    info: Info,
    control: Arc<dyn Device>,
    data: Arc<dyn Device>,
}

impl Space {
    /// Returns the address space of a set called `name`.
    pub(super) fn new(control: Arc<dyn Device>, data: Arc<dyn Device>, name: String) -> Self {
        let (a, b) = (control.info(), data.info());
        let info = Info {
            name,
            size_bytes: DATA_BASE + b.size_bytes,
            sector_bytes: a.sector_bytes.max(b.sector_bytes),
            read_only: a.read_only || b.read_only,
        };
        Self { info, control, data }
    }

    /// Returns the device that has `len` bytes at `offset`, its number and the byte there.
    fn place(&self, op: Op, offset: u64, len: usize) -> Result<(&Arc<dyn Device>, u64, u64)> {
        self.info.check(op, offset, len)?;
        let (device, number, at) = match offset.checked_sub(DATA_BASE) {
            Some(at) => (&self.data, 1, at),
            None => (&self.control, 0, offset),
        };
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
        Ok(Ticket::new(ticket.id() << 1 | number))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let device = if ticket.id() & 1 == 1 { &self.data } else { &self.control };
        device.wait(Ticket::new(ticket.id() >> 1))
    }

    fn flush(&self) -> Result<()> {
        // Both, also after one has failed.
        let (data, control) = (self.data.flush(), self.control.flush());
        data.and(control)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let (device, _, at) = self.place(Op::Write, offset, usize::try_from(len).unwrap_or(usize::MAX))?;
        device.discard(at, len)
    }
}
