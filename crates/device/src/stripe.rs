//! Members whose units of so many bytes take turns: a stripe.
//!
//! Byte `n` of the stripe lies in unit `n / unit`. The units go round the members. Where the
//! members are unequal, they go round all of them up to the end of the smallest, then round those
//! that are left up to the end of the next one: a *zone* is such a range, in which the number of
//! members does not change.
//!
//! A request becomes at most one request for each member and zone, because the units that a range
//! has on a member follow each other there.

use crate::{AlignedBuf, Device, Error, Info, Op, Request, Result, Ticket};
use spindle_clock::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stripe over members.
pub struct Stripe {
    info: Info,
    members: Vec<Arc<dyn Device>>,
    unit: u64,
    zones: Vec<Zone>,
    next: AtomicU64,
    transfers: Mutex<HashMap<u64, Transfer>>,
}

/// A range of the stripe in which the same members take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// Bytes of the stripe.
    range: Range<u64>,
    /// Byte of each member at which the zone begins.
    start: u64,
    /// The members.
    members: Vec<usize>,
}

/// The part of a request that goes to one member.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    member: usize,
    /// Byte of the member.
    offset: u64,
    /// The ranges of the request's bytes, in the order of the member.
    pieces: Vec<Range<usize>>,
}

impl Part {
    fn len(&self) -> usize {
        self.pieces.iter().map(Range::len).sum()
    }
}

/// A request in flight.
struct Transfer {
    buf: AlignedBuf,
    op: Op,
    parts: Vec<(Part, Result<Ticket>)>,
}

/// Returns the zones of members with these sizes in bytes.
fn zones(sizes: &[u64], unit: u64) -> Vec<Zone> {
    let mut zones = Vec::new();
    let (mut at, mut start) = (0, 0);
    loop {
        let members: Vec<_> = (0..sizes.len()).filter(|&n| sizes[n] / unit * unit > start).collect();
        let Some(end) = members.iter().map(|&n| sizes[n] / unit * unit).min() else { return zones };
        let len = (end - start) * members.len() as u64;
        zones.push(Zone { range: at..at + len, start, members });
        (at, start) = (at + len, end);
    }
}

impl Stripe {
    /// Returns a stripe called `name` over `members`, in units of `unit` bytes: whole sectors.
    ///
    /// # Errors
    /// [`Error::Unusable`] if there is no space for a unit, or units are not whole sectors.
    pub fn new(members: Vec<Arc<dyn Device>>, unit: u64, name: String) -> Result<Self> {
        let sector_bytes = members.iter().map(|member| member.info().sector_bytes).max().unwrap_or(512);
        let unusable = |reason: String| Err(Error::Unusable { device: name.clone(), reason });
        if unit == 0 || !unit.is_multiple_of(sector_bytes.into()) {
            return unusable(format!("units of {unit} bytes are not whole sectors of {sector_bytes}"));
        }
        let sizes: Vec<_> = members.iter().map(|member| member.info().size_bytes).collect();
        let zones = zones(&sizes, unit);
        let Some(last) = zones.last() else {
            return unusable(format!("no member has {unit} bytes"));
        };
        let size_bytes = last.range.end;
        let read_only = members.iter().any(|member| member.info().read_only);
        let info = Info { name, size_bytes, sector_bytes, read_only };
        Ok(Self { info, members, unit, zones, next: AtomicU64::new(0), transfers: Mutex::default() })
    }

    /// Returns the byte of the stripe that is byte `offset` of a member, and how many follow it
    /// there on both; none if it is not used.
    #[must_use]
    pub fn address_of(&self, member: usize, offset: u64) -> Option<(u64, u64)> {
        let nth = |zone: &Zone| zone.members.iter().position(|&other| other == member).map(|n| n as u64);
        // The last zone that begins before it: zones of a member follow each other.
        let zone = self.zones.iter().rev().find(|zone| zone.start <= offset && nth(zone).is_some())?;
        let (within, width) = (offset - zone.start, zone.members.len() as u64);
        let at =
            zone.range.start + (within / self.unit * width + nth(zone)?) * self.unit + within % self.unit;
        (at < zone.range.end).then(|| (at, self.unit - within % self.unit))
    }

    /// Returns the parts of `len` bytes at `offset`.
    fn parts(&self, offset: u64, len: usize) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let end = offset + len as u64;
        let first = self.zones.partition_point(|zone| zone.range.end <= offset);
        for zone in self.zones[first..].iter().take_while(|zone| zone.range.start < end) {
            let before = parts.len();
            let mut at = offset.max(zone.range.start);
            let stop = end.min(zone.range.end);
            while at < stop {
                let within = at - zone.range.start;
                let unit = within / self.unit;
                let width = zone.members.len() as u64;
                let member = zone.members[index(unit % width)];
                let next = stop.min(zone.range.start + (unit + 1) * self.unit);
                let piece = index(at - offset)..index(next - offset);
                if let Some(part) = parts[before..].iter_mut().find(|part| part.member == member) {
                    part.pieces.push(piece);
                } else {
                    let offset = zone.start + unit / width * self.unit + within % self.unit;
                    parts.push(Part { member, offset, pieces: vec![piece] });
                }
                at = next;
            }
        }
        parts
    }
}

/// Converts a number to an index: Spindle needs a machine with 64 bits.
#[allow(clippy::cast_possible_truncation)] // Asserted beside it.
const fn index(n: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    n as usize
}

impl Device for Stripe {
    fn info(&self) -> &Info {
        &self.info
    }

    fn submit(&self, request: Request) -> Result<Ticket> {
        let Request { op, offset, buf } = request;
        self.info.check(op, offset, buf.len())?;
        let parts = self.parts(offset, buf.len());
        let start = |part: Part| {
            let mut bytes = AlignedBuf::zeroed(part.len());
            if op == Op::Write {
                let mut at = 0;
                for piece in &part.pieces {
                    bytes[at..at + piece.len()].copy_from_slice(&buf[piece.clone()]);
                    at += piece.len();
                }
            }
            let request = Request { op, offset: part.offset, buf: bytes };
            let ticket = self.members[part.member].submit(request);
            (part, ticket)
        };
        let parts = parts.into_iter().map(start).collect();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.transfers.lock().insert(id, Transfer { buf, op, parts });
        Ok(Ticket::new(id))
    }

    fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
        let transfer = self.transfers.lock().remove(&ticket.id());
        let Transfer { mut buf, op, parts } =
            transfer.expect("each ticket is waited for once, on its device");
        let mut result = Ok(());
        for (part, ticket) in parts {
            // All parts are waited for, also after one has failed.
            match ticket.and_then(|ticket| self.members[part.member].wait(ticket)) {
                Ok(bytes) if op == Op::Read => {
                    let mut at = 0;
                    for piece in part.pieces {
                        let len = piece.len();
                        buf[piece].copy_from_slice(&bytes[at..at + len]);
                        at += len;
                    }
                }
                Ok(_) => {}
                Err(error) => result = result.and(Err(error)),
            }
        }
        result.map(|()| buf)
    }

    fn flush(&self) -> Result<()> {
        let mut result = Ok(());
        for member in &self.members {
            result = result.and(member.flush());
        }
        result
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.info.check(Op::Write, offset, len)?;
        self.parts(offset, len)
            .into_iter()
            .try_for_each(|part| self.members[part.member].discard(part.offset, part.len() as u64))
    }

    /// Prepares each member for the first unit from `offset` on that it has.
    fn prepare(&self, offset: u64) {
        let Some(zone) = self.zones.iter().find(|zone| offset < zone.range.end) else { return };
        let turn = self.unit * zone.members.len() as u64;
        let len = turn.min(zone.range.end - offset);
        for Part { member, offset, .. } in self.parts(offset, index(len)) {
            self.members[member].prepare(offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDevice;

    const UNIT: u64 = 4096;

    fn stripe(sizes: &[u64]) -> (Vec<Arc<MemoryDevice>>, Stripe) {
        let members: Vec<_> = sizes.iter().map(|&size| Arc::new(MemoryDevice::new(size))).collect();
        let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
        (members, Stripe::new(devices, UNIT, "stripe".into()).unwrap())
    }

    /// Promise: a byte of a member is found where the stripe puts it, and what follows it there.
    #[test]
    fn addresses_lead_back() {
        let (_, stripe) = stripe(&[40_960, 12_288, 23_040, 12_288]);
        for offset in (0..stripe.info().size_bytes).step_by(512) {
            let part = &stripe.parts(offset, 512)[0];
            let left = 4096 - offset % 4096;
            assert_eq!(stripe.address_of(part.member, part.offset), Some((offset, left)));
        }
        assert_eq!(stripe.address_of(1, 12_288), None, "beyond the last unit");
    }

    /// Promise: unequal members are used to their ends, in zones.
    #[test]
    fn zones_use_every_unit() {
        let zones = zones(&[3 * UNIT, UNIT + 100, 3 * UNIT, 0], UNIT);
        assert_eq!(
            zones,
            [
                Zone { range: 0..3 * UNIT, start: 0, members: vec![0, 1, 2] },
                Zone { range: 3 * UNIT..7 * UNIT, start: UNIT, members: vec![0, 2] },
            ]
        );
    }

    /// Promise: each byte of the stripe lies in one place of its own, and is read back, whatever
    /// the size of the requests.
    #[test]
    fn bytes_come_back() {
        let (members, stripe) = stripe(&[5 * UNIT, 2 * UNIT, 9 * UNIT]);
        let size = usize::try_from(stripe.info().size_bytes).unwrap();
        assert_eq!(size as u64, 16 * UNIT);
        let data: Vec<u8> = (0..size).map(|n| u8::try_from((n / 512 * 7 + n % 251) % 256).unwrap()).collect();
        for len in [512, 1024, 4096, 4608, 12_288, size] {
            for (n, piece) in data.chunks(len).enumerate() {
                stripe.write_at((n * len) as u64, piece).unwrap();
            }
            for offset in (0..size).step_by(1536) {
                let mut back = vec![0; (size - offset).min(3 * len)];
                stripe.read_at(offset as u64, &mut back).unwrap();
                assert!(back == data[offset..offset + back.len()], "{len} {offset}");
            }
        }
        let mut units: Vec<_> = members.iter().flat_map(|member| member.to_bytes()).collect();
        let mut all = data;
        units.sort_unstable();
        all.sort_unstable();
        assert!(units == all);
    }

    /// Promise: a request gives each member at most one request in a zone.
    #[test]
    fn a_range_is_one_request_for_each_member() {
        let (_, stripe) = stripe(&[64 * UNIT; 4]);
        let parts = stripe.parts(UNIT / 2, index(8 * UNIT));
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[0].len(), index(2 * UNIT));
        assert_eq!((parts[1].member, parts[1].offset, parts[1].len()), (1, 0, index(2 * UNIT)));
    }

    /// Promise: each member is prepared for what it has first from an address on.
    #[test]
    fn members_are_prepared_for_their_next_unit() {
        struct Heads(MemoryDevice, Mutex<Vec<u64>>);
        impl Device for Heads {
            fn info(&self) -> &Info {
                self.0.info()
            }
            fn submit(&self, request: Request) -> Result<Ticket> {
                self.0.submit(request)
            }
            fn wait(&self, ticket: Ticket) -> Result<AlignedBuf> {
                self.0.wait(ticket)
            }
            fn flush(&self) -> Result<()> {
                self.0.flush()
            }
            fn discard(&self, offset: u64, len: u64) -> Result<()> {
                self.0.discard(offset, len)
            }
            fn prepare(&self, offset: u64) {
                self.1.lock().push(offset);
            }
        }
        let members = [8, 8, 4].map(|n| Arc::new(Heads(MemoryDevice::new(n * UNIT), Mutex::default())));
        let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
        let stripe = Stripe::new(devices, UNIT, "stripe".into()).unwrap();
        let prepared = |offset| {
            stripe.prepare(offset);
            members.each_ref().map(|member| member.1.lock().pop())
        };
        assert_eq!(prepared(0), [Some(0); 3]);
        assert_eq!(prepared(UNIT + 512), [Some(UNIT), Some(512), Some(0)]);
        assert_eq!(prepared(12 * UNIT), [Some(4 * UNIT), Some(4 * UNIT), None]);
        assert_eq!(prepared(100 * UNIT), [None; 3]);
    }

    /// Promise: nothing beyond the ends is accessed, and units must be whole sectors.
    #[test]
    fn bad_requests_are_refused() {
        let (_, stripe) = stripe(&[UNIT; 2]);
        assert!(matches!(stripe.write_at(2 * UNIT, &[0; 512]), Err(Error::OutOfRange { .. })));
        let member = || Arc::new(MemoryDevice::new(UNIT)) as Arc<dyn Device>;
        assert!(Stripe::new(vec![member()], 700, "stripe".into()).is_err());
        assert!(Stripe::new(vec![member()], 2 * UNIT, "stripe".into()).is_err());
    }
}
