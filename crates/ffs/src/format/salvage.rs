//! Superblocks that are good enough to read with, where [`Superblock::open`] finds none.
//!
//! The primary superblock may be destroyed, and the image may end before the file system does. A
//! copy of the superblock has the same geometry (only counts and state in it are old), and the
//! groups that the image still has can be read. Nothing is ever written through such a superblock:
//! [`Salvaged`] speaks against it, and cannot be overridden.

use crate::format::layout::Extent;
use crate::format::ondisk::{
    FS_BAD_MAGIC, FS_HPUX_4GB, FS_HPUX_FEATURES, FS_HPUX_LFN, FS_UFS1_MAGIC, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC,
    SBLOCK_UFS1, SBLOCK_UFS2, SBLOCKSEARCH,
};
use crate::format::pending::Pending;
use crate::format::superblock::{Superblock, decode};
use spindle_device::{Device, Scan};
use spindle_vfs::{Error, Objection, Result};

/// Size of a sector in which BSD counts the places of superblocks (`DEV_BSIZE`).
const DEV_BSIZE: u64 = 512;
/// How much of a device is searched for copies of the superblock, in bytes.
const SEARCH_BYTES: u64 = 1 << 30;

/// Why a superblock is only good enough to read with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// It is the copy at this byte, because the standard one cannot be used.
    pub copy_at: Option<u64>,
    /// The user has named the copy: whether the standard one can be used is not known.
    pub named: bool,
    /// The device ends this many bytes before the file system does.
    pub missing_bytes: u64,
}

/// What to do about a superblock in whose place a copy stands.
const COPY: &str = "repair it with spindle fsck -y, or copy its files away";
/// What to do about a device that ends early, which fsck does not repair.
const TRUNCATED: &str = "copy away the files that can still be read, or find the rest";

impl Salvaged {
    /// Returns what speaks against writing.
    pub(crate) fn objections(self) -> impl Iterator<Item = Objection> {
        let copy = self.copy_at.map(|at| {
            let (reason, remedy) = if self.named {
                (
                    format!(
                        "it is read with the copy of the superblock at byte {at}, which was asked for; its \
                         counts may be old"
                    ),
                    "leave out the place of the copy if the standard superblock is whole",
                )
            } else {
                (
                    format!("its superblock cannot be used; the copy at byte {at} stands in"),
                    if self.missing_bytes > 0 { TRUNCATED } else { COPY },
                )
            };
            Objection { reason, remedy: remedy.into(), overridable: false }
        });
        let truncated = (self.missing_bytes > 0).then(|| Objection {
            reason: format!("the device ends {} bytes before the file system does", self.missing_bytes),
            remedy: TRUNCATED.into(),
            overridable: false,
        });
        copy.into_iter().chain(truncated)
    }
}

impl Superblock {
    /// Finds the superblock as [`Superblock::open`] does; failing that, one to read with: at its
    /// place on a device that is too short, or a copy of it.
    ///
    /// # Errors
    /// Those of [`Superblock::open`]; device errors.
    pub fn salvage(device: &dyn Device) -> Result<Self> {
        Pending::refuse(device)?;
        let complaint = match Self::open(device) {
            Err(error) if !matches!(error, Error::Device(_)) => error,
            found => return found,
        };
        search(device, true)?.ok_or(complaint)
    }

    /// Reads the copy of the superblock at a place that the user has named: a sector of 512 bytes,
    /// as BSD counts, or else a byte.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no superblock stands there, or it cannot be used;
    /// [`Error::Unsupported`] if it belongs to a file system that begins elsewhere; device errors.
    pub fn read_copy(device: &dyn Device, place: u64) -> Result<Self> {
        let (mut complaint, mut elsewhere) = (None, None);
        let is_sector = |at: &u64| at.is_multiple_of(device.info().sector_bytes.into());
        for at in place.checked_mul(DEV_BSIZE).into_iter().chain([place]).filter(is_sector) {
            match Self::salvage_at(device, at) {
                Ok(Some(mut found)) => {
                    found.salvaged = found.salvaged.map(|salvaged| Salvaged { named: true, ..salvaged });
                    return Ok(found);
                }
                Ok(None) => {
                    elsewhere = elsewhere.or(Self::origin(device, at)?.map(|start| (at, start)));
                }
                Err(error) => complaint = complaint.or(Some(error)),
            }
        }
        let none = || match elsewhere {
            Some((at, start)) => Error::unsupported(
                format!(
                    "the superblock at byte {} belongs to a file system that begins at byte {}",
                    device.place(at),
                    device.place(start)
                ),
                format!("name that one without -b: IMAGE@offset={}", device.place(start)),
            ),
            None => Error::corrupt("no superblock", format!("sector {place}, byte {place}")),
        };
        Err(complaint.unwrap_or_else(none))
    }

    /// Looks for a copy of the superblock that can be used: where the recovery record in front of a
    /// UFS2 superblock points, at the usual second place (sector 32), then at every sector of the
    /// first part of the device. Returns the byte it stands at.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if none is found; device errors.
    pub fn find_replica(device: &dyn Device) -> Result<(u64, Self)> {
        let found = search(device, false)?;
        let none = || Error::corrupt("no usable superblock replica", device.info().name.clone());
        let mut found = found.ok_or_else(none)?;
        let at = found.salvaged.take().and_then(|salvaged| salvaged.copy_at).ok_or_else(none)?;
        Ok((at, found))
    }

    /// Reads the superblock or the copy of one at byte `at`; `None` if there is neither, or if it
    /// belongs to a file system that begins elsewhere.
    fn salvage_at(device: &dyn Device, at: u64) -> Result<Option<Self>> {
        let Some(raw) = Self::read_raw(device, at)? else { return Ok(None) };
        let Some((fs, endian)) = decode(&raw) else { return Ok(None) };
        let standard = match fs.fs_magic {
            FS_UFS1_MAGIC if at == 0 => 0,
            FS_UFS1_MAGIC | FS_HPUX_LFN | FS_HPUX_FEATURES | FS_HPUX_4GB => SBLOCK_UFS1,
            FS_UFS2_MAGIC | FS_UFS2EA_MAGIC => fs.fs_sblockloc.cast_unsigned(),
            _ => return Ok(None),
        };
        if !SBLOCKSEARCH.contains(&standard) {
            return Ok(None);
        }
        let bytes = device.info().size_bytes;
        let mut found = Self::checked_in(raw, &fs, endian, standard, Extent::Beginning(bytes), device)?;
        let layout = &found.layout;
        let copy_at = (at != standard).then_some(at);
        if copy_at.is_some() && !(0..layout.fs_ncg).any(|cgx| layout.byte(layout.cgsblock(cgx)) == at) {
            return Ok(None);
        }
        let missing_bytes = (layout.fs_size << layout.fs_fshift).saturating_sub(bytes);
        found.salvaged = Some(Salvaged { copy_at, missing_bytes, named: false });
        Ok(Some(found))
    }
}

/// Returns the first superblock that can be used: a copy of one whose file system the device holds,
/// or, with `any`, also the standard one, and of a file system of which it holds only a part.
fn search(device: &dyn Device, any: bool) -> Result<Option<Superblock>> {
    // The copies of a file system that newfs did not finish describe nothing.
    for at in SBLOCKSEARCH {
        if let Some(raw) = Superblock::read_raw(device, at)?
            && decode(&raw).is_some_and(|(fs, _)| fs.fs_magic == FS_BAD_MAGIC)
        {
            return Ok(None);
        }
    }
    let mut places = Vec::new();
    if any {
        places.extend([SBLOCK_UFS2, SBLOCK_UFS1]);
    }
    if let Some(record) = Superblock::read_recovery(device)? {
        let fsize = 512_u64.checked_shl(record.fsr_fsbtodb.cast_unsigned()).filter(|&f| f <= 65536);
        if let (Some(fsize), Ok(fpg), Ok(sblkno)) =
            (fsize, u64::try_from(record.fsr_fpg), u64::try_from(record.fsr_sblkno))
        {
            places.extend((1..u64::from(record.fsr_ncg).min(16)).map(|c| (fpg * c + sblkno) * fsize));
        }
    }
    places.push(32 * DEV_BSIZE);
    let usable = |at| -> Result<Option<Superblock>> {
        let found = match Superblock::salvage_at(device, at) {
            Err(error @ Error::Device(_)) => return Err(error),
            found => found.ok().flatten(),
        };
        let wanted = |s: &Salvaged| any || (s.copy_at.is_some() && s.missing_bytes == 0);
        Ok(found.filter(|found| found.salvaged.as_ref().is_some_and(wanted)))
    };
    for at in places {
        if let Some(found) = usable(at)? {
            return Ok(Some(found));
        }
    }
    // What cannot be read is passed over: copies stand in every group.
    let mut scan = Scan::new(device, 0..SEARCH_BYTES, Superblock::LIKELY_BYTES);
    while let Some(piece) = scan.next_piece() {
        for (at, bytes) in piece.sectors() {
            if Superblock::is_likely(bytes)
                && let Some(found) = usable(at)?
            {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{self, Format, Parameters, Plan};
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;

    fn image(format: Format) -> (MemoryDevice, Plan) {
        let mut wishes = Parameters::new(64 << 20);
        wishes.format = format;
        let plan = Plan::new(&wishes).unwrap();
        let device = MemoryDevice::new(plan.size_bytes());
        let clock = ManualClock::at(1_700_000_000);
        newfs::write(&plan, &device, &clock, &mut StdRng::seed_from_u64(1), &mut |_, _| ()).unwrap();
        (device, plan)
    }

    /// Promise: with the primary superblock destroyed, and copies in front of it, the next copy is
    /// found, and by the numbers in which BSD and we count; nothing may be written with it.
    #[test]
    fn copies_are_found() {
        for format in [Format::Ufs1, Format::Ufs2] {
            let (device, plan) = image(format);
            let layout = &plan.layout;
            assert_eq!(Superblock::salvage(&device).unwrap().salvaged, None);
            device.write_at(layout.fs_sblockloc, &[0; 8192]).unwrap();
            assert!(Superblock::open(&device).is_err());
            let mut left: Vec<u64> =
                (0..layout.fs_ncg).map(|cgx| layout.byte(layout.cgsblock(cgx))).collect();
            while !left.is_empty() {
                let found = Superblock::salvage(&device).unwrap();
                let at = found.salvaged.and_then(|salvaged| salvaged.copy_at).unwrap();
                let missing_bytes = 0;
                assert_eq!(found.salvaged, Some(Salvaged { copy_at: Some(at), missing_bytes, named: false }));
                assert!(left.contains(&at));
                left.retain(|&other| other != at);
                assert_eq!(&found.layout, layout);
                assert!(found.objections(&device).unwrap().iter().any(|o| !o.overridable));
                assert_eq!(Superblock::find_replica(&device).unwrap().0, at);
                for place in [at, at / 512] {
                    let named = Superblock::read_copy(&device, place).unwrap();
                    let wanted = Salvaged { copy_at: Some(at), missing_bytes, named: true };
                    assert_eq!(named.salvaged, Some(wanted), "{place}");
                }
                device.write_at(at, &[0; 8192]).unwrap();
            }
            assert!(Superblock::salvage(&device).is_err());
        }
    }

    /// Promise: a file system that begins elsewhere on the device is not taken for one here, and is
    /// named if its superblock is; a device that ends early is read as far as it goes.
    #[test]
    fn only_what_begins_here() {
        let (device, plan) = image(Format::Ufs2);
        let size = plan.size_bytes();
        let bytes = device.to_bytes();
        let shifted = MemoryDevice::new(size + (1 << 20));
        shifted.write_at(1 << 20, &bytes).unwrap();
        assert!(Superblock::salvage(&shifted).is_err());
        let at = (1 << 20) + plan.layout.fs_sblockloc;
        let refused = Superblock::read_copy(&shifted, at).unwrap_err().to_string();
        assert!(
            refused.contains("begins at byte 1048576") && refused.contains("@offset=1048576"),
            "{refused}"
        );
        let short = MemoryDevice::from_bytes(&bytes[..bytes.len() / 2]);
        assert!(Superblock::open(&short).is_err());
        let found = Superblock::salvage(&short).unwrap();
        assert_eq!(
            found.salvaged,
            Some(Salvaged { copy_at: None, missing_bytes: size.div_ceil(2), named: false })
        );
    }
}
