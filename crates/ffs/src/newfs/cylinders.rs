//! Cylinder groups made of cylinders (paper, sections 3.1 and 3.2), as newfs of 4.2BSD to 4.4BSD
//! and of Solaris divide a disk whose geometry is known or assumed.
//!
//! A group is a number of cylinders whose sectors make whole blocks. The structures of each group
//! start a track further than those of the group before, so that the superblock copies spiral down
//! the pack and no single platter, track or cylinder holds them all. The rotational tables describe
//! one cycle of cylinders, after which the pattern of blocks on tracks repeats.

use super::frame::{Frame, Groups};
use super::packing::MAX_UFS1_IPG;
use super::parameters::{Disk, ParameterError, Resolved, Result};
use crate::format::beside::LARGE_DIRBLKSIZ;
use crate::format::ondisk::{Fs, SBLOCKSIZE};
use crate::format::rotation::Rotation;
use spindle_ondisk::{Endian, Field};

/// Cylinders in a group where the user leaves it open.
const DESCPG: u32 = 16;
/// More groups than this are avoided by taking more cylinders into one.
const MANY_GROUPS: u64 = 512;
/// Inodes in a group of the fixed format.
const STATIC_MAXIPG: u64 = 2048;
/// Cylinders in a group, and in a cycle of tables, of the fixed format. A whole table of 32 would
/// end where newer systems look for `fs_postblformat`, so a cycle is limited to half.
const STATIC_MAXCPG: u32 = 32;
const STATIC_MAXCPC: u32 = 16;
/// Byte offset of the tables' first place, which belongs to the structure, and of what follows it.
const OPOSTBL: usize = 860;
const OPOSTBL_END: usize = 1372;
const FS_SPACE: usize = Fs::SIZE;

/// The rotational tables, and where in the superblock they go.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub postbl_at: usize,
    pub rotbl_at: usize,
    postbl: Vec<i16>,
    rotbl: Vec<u8>,
    is_static: bool,
}

impl Tables {
    /// Writes the tables over the superblock.
    pub fn overlay(&self, raw: &mut [u8], endian: Endian) {
        if self.is_static {
            raw[OPOSTBL..OPOSTBL_END].fill(0xff);
        }
        for (i, first) in self.postbl.iter().enumerate() {
            first.put(&mut raw[self.postbl_at + i * 2..], endian);
        }
        raw[self.rotbl_at..self.rotbl_at + self.rotbl.len()].copy_from_slice(&self.rotbl);
    }

    fn bytes(&self) -> usize {
        (self.rotbl_at + self.rotbl.len()).max(FS_SPACE)
    }
}

/// The fields of the superblock that come from the geometry.
#[derive(Clone, Debug)]
pub(super) struct Cylinders {
    pub rotation: Rotation,
    pub ntrak: u32,
    pub ncyl: u32,
    pub rps: u32,
    pub rotdelay_ms: u32,
    pub cgoffset: u32,
    pub cgmask: u32,
    pub tables: Option<Tables>,
}

impl Cylinders {
    /// Returns the bytes of the superblock with its tables.
    pub fn superblock_bytes(&self) -> usize {
        self.tables.as_ref().map_or(FS_SPACE, Tables::bytes)
    }
}

struct Cutter<'a> {
    wishes: &'a Resolved,
    frame: &'a Frame,
    disk: Disk,
    cgoffset: u32,
    cgmask: u32,
}

impl Cutter<'_> {
    fn bytes(&self, cpg: u32) -> u64 {
        u64::from(cpg) * u64::from(self.disk.spc) * 512
    }

    fn fpg(&self, cpg: u32) -> u64 {
        self.bytes(cpg) / u64::from(self.frame.fsize)
    }

    /// Returns the inodes of a group, at least one block of them.
    fn ipg(&self, cpg: u32) -> u64 {
        let frame = self.frame;
        let inopb = u64::from(frame.inopb);
        // The inodes of a single cylinder stand for the space that structures take.
        let inodes = (self.bytes(1) / 128).next_multiple_of(inopb).min(self.max_ipg());
        let used = u64::from(frame.iblkno) * u64::from(frame.fsize) + inodes * 128;
        let ipg = self.bytes(cpg).saturating_sub(used) / u64::from(self.wishes.density);
        let ipg = ipg.max(1).next_multiple_of(inopb);
        if self.wishes.static_tables { ipg.min(STATIC_MAXIPG) } else { ipg }
    }

    /// Returns a third of a block for the map of inodes, and 16 bits with a sign for their number.
    fn max_ipg(&self) -> u64 {
        if self.wishes.static_tables {
            STATIC_MAXIPG
        } else {
            let inopb = u64::from(self.frame.inopb);
            (u64::from(self.frame.bsize) * 8 / 3).next_multiple_of(inopb).min(MAX_UFS1_IPG / inopb * inopb)
        }
    }

    /// Returns the bytes of the group block (`CGSIZE`).
    fn cg_bytes(&self, cpg: u32) -> u64 {
        let fpg = self.fpg(cpg);
        if self.wishes.static_tables {
            return 988 + fpg.div_ceil(8);
        }
        let clusters = u64::from(self.frame.contigsumsize);
        // Apple has a word for entry 0 of their counts.
        let unused = if self.wishes.dialect.dirblksiz() == LARGE_DIRBLKSIZ { 4 } else { 0 };
        let cluster_bytes = if clusters > 0 {
            unused + clusters * 4 + (fpg / u64::from(self.frame.frag)).div_ceil(8)
        } else {
            0
        };
        172 + u64::from(cpg) * (4 + 2 * u64::from(self.disk.nrpos))
            + self.ipg(cpg).div_ceil(8)
            + fpg.div_ceil(8)
            + cluster_bytes
    }

    fn maps_fit(&self, cpg: u32) -> bool {
        self.ipg(cpg) <= self.max_ipg() && self.cg_bytes(cpg) <= u64::from(self.frame.bsize)
    }

    fn dblkno(&self, cpg: u32) -> u64 {
        u64::from(self.frame.iblkno)
            + self.ipg(cpg) / u64::from(self.frame.inopb) * u64::from(self.frame.frag)
    }

    /// Returns the fragments from the start of group `cgx` to its data.
    fn structures(&self, cpg: u32, cgx: u64) -> u64 {
        u64::from(self.cgoffset) * (cgx & u64::from(!self.cgmask)) + self.dblkno(cpg)
    }

    /// Returns true if the group whose structures are shifted most still has room for data.
    fn structures_fit(&self, cpg: u32, ncg: u64) -> bool {
        self.structures(cpg, u64::from(!self.cgmask).min(ncg.saturating_sub(1))) < self.fpg(cpg)
    }

    fn pick_cpg(&self, step: u32, ncyl: u64) -> Result<u32> {
        let most = if self.wishes.static_tables { STATIC_MAXCPG } else { 32767 };
        let fits = |cpg: u32| {
            cpg <= most && self.maps_fit(cpg) && self.structures_fit(cpg, ncyl.div_ceil(cpg.into()))
        };
        if let Some(cpg) = self.disk.cpg {
            if cpg.is_multiple_of(step) && fits(cpg) {
                return Ok(cpg);
            }
            let good: Vec<u32> = (1..=most / step).map(|n| n * step).filter(|&n| fits(n)).collect();
            let allowed = match (good.first(), good.last()) {
                (Some(low), Some(high)) => format!("multiples of {step} from {low} to {high}"),
                _ => "no number fits this block size, density and geometry".into(),
            };
            return Err(ParameterError::new("cylinders per group", cpg, allowed));
        }
        let whole = u32::try_from(ncyl).unwrap_or(u32::MAX).max(1);
        let mut cpg = DESCPG.min(whole).next_multiple_of(step);
        // Less where the maps of a group would not fit, more where its structures would not.
        while cpg > step && !self.maps_fit(cpg) {
            cpg -= step;
        }
        while self.maps_fit(cpg) && !fits(cpg) && cpg <= most {
            cpg += step;
        }
        while ncyl / u64::from(cpg) > MANY_GROUPS && fits(cpg * 2) {
            cpg *= 2;
        }
        if fits(cpg) {
            return Ok(cpg);
        }
        let allowed = "another block size, density, or number of sectors and tracks";
        Err(ParameterError::new(
            "disk geometry",
            format_args!("{} sectors per cylinder", self.disk.spc),
            allowed,
        ))
    }
}

/// Divides the file system along its cylinders.
///
/// # Errors
/// [`ParameterError`] if geometry, block size, density and size do not go together.
pub(super) fn groups(
    wishes: &Resolved,
    frame: &Frame,
    disk: Disk,
    notes: &mut Vec<String>,
) -> Result<(Groups, Cylinders)> {
    let sectors_per_block = frame.nspf * frame.frag;
    let cgmask = u32::MAX << disk.ntrak.next_power_of_two().trailing_zeros();
    let cgoffset = disk.nsect.div_ceil(frame.nspf).next_multiple_of(frame.frag);
    let cutter = Cutter { wishes, frame, disk, cgoffset, cgmask };

    // A cycle ends after as many cylinders as make whole blocks.
    let mut cycle = sectors_per_block;
    let mut odd = disk.spc;
    while cycle > 1 && odd.is_multiple_of(2) {
        cycle /= 2;
        odd /= 2;
    }
    let nspf = u64::from(frame.nspf);
    let spc = u64::from(disk.spc);
    let mut fs_size = wishes.size_bytes / u64::from(frame.fsize);
    if fs_size > i32::MAX.unsigned_abs().into() {
        let most = u64::from(i32::MAX.unsigned_abs()) * u64::from(frame.fsize);
        return Err(ParameterError::new(
            "size",
            format_args!("{} bytes", wishes.size_bytes),
            format!("at most {most} bytes in UFS1"),
        ));
    }
    let mut ncyl = (fs_size * nspf).div_ceil(spc);
    let cpg = cutter.pick_cpg(cycle, ncyl)?;
    let (fpg, ipg) = (cutter.fpg(cpg), cutter.ipg(cpg));
    let mut ncg = ncyl.div_ceil(cpg.into());
    let last = fs_size.saturating_sub(ncg.saturating_sub(1) * fpg);
    if ncg == 0 || cutter.structures(cpg, ncg - 1) > last {
        if ncg <= 1 {
            let least = (cutter.structures(cpg, 0) + 3 * u64::from(frame.frag)) * u64::from(frame.fsize);
            let allowed = format!("at least {least} bytes");
            return Err(ParameterError::new("size", format_args!("{} bytes", wishes.size_bytes), allowed));
        }
        notes.push(format!(
            "{} bytes at the end are too few for a group and stay unused",
            last * u64::from(frame.fsize)
        ));
        ncg -= 1;
        ncyl = ncg * u64::from(cpg);
        fs_size = ncg * fpg;
    }

    if ncg * ipg >= 1 << 32 {
        let allowed = "larger: inode numbers have 32 bits, and each group has whole blocks of inodes";
        return Err(ParameterError::new("density", wishes.density, allowed));
    }

    let rotation = Rotation {
        fs_old_nspf: frame.nspf,
        fs_old_nsect: disk.nsect,
        fs_old_npsect: disk.npsect,
        fs_old_interleave: disk.interleave,
        fs_old_trackskew: disk.trackskew,
        fs_old_spc: disk.spc,
        fs_old_cpg: cpg,
        fs_old_nrpos: disk.nrpos,
        fs_old_cpc: cycle,
        postbl: Vec::new(),
        rotbl: Vec::new(),
    };
    let tables = if disk.ntrak > 1 { tables(&rotation, frame.frag, wishes.static_tables) } else { None };
    if disk.ntrak > 1 && tables.is_none() {
        notes.push("the rotational tables do not fit the superblock and are left out".into());
    }
    let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let tables = match tables {
        None if wishes.static_tables => Some(Tables {
            postbl_at: OPOSTBL,
            rotbl_at: FS_SPACE,
            postbl: Vec::new(),
            rotbl: Vec::new(),
            is_static: true,
        }),
        tables => tables,
    };
    let has_tables = tables.as_ref().is_some_and(|t| !t.postbl.is_empty());
    let cylinders = Cylinders {
        rotation: Rotation { fs_old_cpc: if has_tables { cycle } else { 0 }, ..rotation },
        ntrak: disk.ntrak,
        ncyl: narrow(ncyl),
        rps: disk.rps,
        rotdelay_ms: disk.rotdelay_ms,
        cgoffset,
        cgmask,
        tables,
    };
    let groups = Groups {
        fs_size,
        fs_ncg: narrow(ncg),
        fs_fpg: narrow(fpg),
        fs_ipg: narrow(ipg),
        cg_bytes: narrow(cutter.cg_bytes(cpg)),
    };
    Ok((groups, cylinders))
}

/// Returns the tables of one cycle, if they can be expressed and fit the superblock.
fn tables(rotation: &Rotation, frag: u32, is_static: bool) -> Option<Tables> {
    let (cpc, nrpos) = (rotation.fs_old_cpc, rotation.fs_old_nrpos);
    let blocks = rotation.blocks_per_cycle(frag);
    let entries = (cpc as usize).checked_mul(nrpos as usize)?;
    if blocks > SBLOCKSIZE || entries > SBLOCKSIZE || (is_static && cpc > STATIC_MAXCPC) {
        return None;
    }
    let in_structure = is_static || (nrpos == 8 && cpc <= 16);
    let (postbl_at, rotbl_at) =
        if in_structure { (OPOSTBL, FS_SPACE) } else { (FS_SPACE, FS_SPACE + entries * 2) };
    let mut postbl = vec![-1_i16; entries];
    let mut rotbl = vec![0_u8; blocks];
    for block in (0..blocks).rev() {
        let at = u32::try_from(block).ok()?.checked_mul(frag)?;
        let first = postbl.get_mut((rotation.cylinder(at) * nrpos + rotation.position(at)) as usize)?;
        if let Ok(next) = usize::try_from(*first) {
            rotbl[block] = u8::try_from(next - block).ok()?;
        }
        *first = i16::try_from(block).ok()?;
    }
    let tables = Tables { postbl_at, rotbl_at, postbl, rotbl, is_static };
    (tables.bytes() <= SBLOCKSIZE).then_some(tables)
}
