//! The plan: a whole, validated file system that has not been written yet.
//!
//! [`Plan::new`] is pure. What comes out has a superblock that [`Layout::check`] accepted, knows
//! where the first directories go, and knows every count without a device. Only time, identity
//! and the size of the medium are left to the writing.

use super::block::{self, GroupBlocks, GroupCounts, Used};
use super::conventions::Conventions;
use super::cylinders::{self, Cylinders};
use super::frame::{Frame, Groups};
use super::packing;
use super::parameters::{Format, Optimization, ParameterError, Parameters, Resolved, Result};
use super::root::{self, Directory};
use crate::format::dialect::Dialect;
use crate::format::layout::{Extent, InodeFormat, Layout, Version};
use crate::format::ondisk::{
    CK_CYLGRP, CK_INODE, CK_SUPERBLOCK, Csum, CsumTotal, FS_42INODEFMT, FS_44INODEFMT, FS_DYNAMICPOSTBLFMT,
    FS_OPTSPACE, FS_OPTTIME, FS_UFS1_MAGIC, FS_UFS2_MAGIC, Fs, FsMark, FsSun, NDADDR, NIADDR, SBLOCKSIZE,
    flags,
};
use crate::format::units::Frag;
use std::fmt;

/// A file system to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The superblock, except for what is known only when it is written.
    pub(super) fs: Fs,
    pub(super) wishes: Resolved,
    pub(super) cylinders: Option<Cylinders>,
    pub(super) directories: Vec<Directory>,
    /// What the first group has in use besides its structures.
    used: Used,
    pub(super) counts: GroupCounts,
    /// The checked geometry.
    pub layout: Layout,
    /// Whose rules it follows.
    pub dialect: Dialect,
    /// Notes for the user: what was changed or left out.
    pub notes: Vec<String>,
}

impl Plan {
    /// Returns the plan of the file system that `parameters` ask for.
    ///
    /// # Errors
    /// [`ParameterError`] naming what cannot be had and what could.
    pub fn new(parameters: &Parameters) -> Result<Self> {
        let mut wishes = parameters.resolve()?;
        let mut notes = std::mem::take(&mut wishes.notes);
        let frame = Frame::new(&wishes);
        let (groups, cylinders) = match wishes.disk {
            Some(disk) => {
                let (groups, cylinders) = cylinders::groups(&wishes, &frame, disk, &mut notes)?;
                (groups, Some(cylinders))
            }
            None => (packing::groups(&wishes, &frame, &mut notes)?, None),
        };
        let fs = superblock(&wishes, &frame, &groups, cylinders.as_ref());
        let first = u64::from(groups.fs_fpg).min(groups.fs_size);
        let reserved =
            u64::from(fs.fs_dblkno.cast_unsigned()) + u64::from(fs.fs_cssize.cast_unsigned() / frame.fsize);
        let directories = root::directories(&wishes, reserved);
        let needed =
            directories.iter().map(|d| d.frag.0 + u64::from(frame.frag)).max().unwrap_or(0).max(reserved);
        if needed > first {
            if groups.fs_ncg > 16 {
                let allowed = "fewer: the first group cannot hold the summaries of all";
                return Err(ParameterError::new("number of groups", groups.fs_ncg, allowed));
            }
            let least = needed * u64::from(frame.fsize);
            let allowed = format!("at least about {least} bytes with this block size and density");
            return Err(ParameterError::new("size", format_args!("{} bytes", wishes.size_bytes), allowed));
        }

        let raw = encode(&fs, cylinders.as_ref(), &wishes);
        let device_bytes = groups.fs_size * u64::from(frame.fsize);
        // As a reader finds it, who sees the tables of old formats in newer fields' places.
        let found = Fs::decode(&raw, wishes.endian);
        let mut layout =
            Layout::check(&found, &raw, wishes.endian, frame.sblockloc, Extent::Whole(device_bytes))
                .map_err(|error| ParameterError::new("combination", error, "other parameters"))?;
        layout.adopt(&found, wishes.dialect, None);
        let used = Used {
            frags: directories.iter().map(|d| (d.frag.0, u64::from(d.size.div_ceil(frame.fsize)))).collect(),
            inodes: 2 + u32::try_from(directories.len()).unwrap_or(0),
            directories: u32::try_from(directories.len()).unwrap_or(0),
        };
        let counts = GroupCounts::new(&layout, &used);
        Ok(Self { fs, dialect: wishes.dialect, wishes, cylinders, directories, used, counts, layout, notes })
    }

    /// Returns the blocks of the groups.
    pub(super) fn blocks(&self) -> GroupBlocks {
        let disk = self.cylinders.as_ref().map(|c| block::Cylinders { rotation: &c.rotation, ncyl: c.ncyl });
        GroupBlocks::new(&self.layout, &self.fs, &Conventions::of(self.dialect), disk, &self.used)
    }

    /// Returns the bytes that the file system takes on its device.
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.layout.byte(Frag(self.layout.fs_size))
    }

    /// Returns the counts of the new file system.
    #[must_use]
    pub fn totals(&self) -> CsumTotal {
        let mut total = CsumTotal::default();
        for cgx in 0..self.layout.fs_ncg {
            let Csum { cs_ndir, cs_nbfree, cs_nifree, cs_nffree } = self.counts.of(&self.layout, cgx);
            total.cs_ndir += i64::from(cs_ndir);
            total.cs_nbfree += i64::from(cs_nbfree);
            total.cs_nifree += i64::from(cs_nifree);
            total.cs_nffree += i64::from(cs_nffree);
        }
        total
    }

    /// Returns the reserve in percent.
    #[must_use]
    pub const fn minfree(&self) -> u32 {
        self.wishes.minfree
    }

    /// Returns the byte addresses of the superblock copies, for the user to note.
    pub fn replicas(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.layout.fs_ncg).map(|cgx| self.layout.byte(self.layout.cgsblock(cgx)))
    }

    /// Returns the superblock as newfs lays it out, with the counts and times still zero.
    #[must_use]
    pub const fn superblock(&self) -> &Fs {
        &self.fs
    }
}

impl fmt::Display for Plan {
    /// Returns two lines: sizes, and groups.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = &self.layout;
        let kibibytes = |frags: u64| layout.byte(Frag(frags)) >> 10;
        let version = match (layout.version, layout.inode_format) {
            (Version::Ufs2, _) => "UFS2",
            (Version::Ufs1, InodeFormat::Old) => "UFS1 in the old format",
            (Version::Ufs1, _) => "UFS1",
        };
        writeln!(
            f,
            "{version} ({}), {} KiB: blocks of {}, fragments of {} bytes",
            self.dialect,
            kibibytes(layout.fs_size),
            layout.fs_bsize,
            layout.fs_fsize
        )?;
        write!(
            f,
            "{} cylinder groups of {} KiB, {} blocks, {} inodes",
            layout.fs_ncg,
            kibibytes(layout.fs_fpg.into()),
            layout.fs_fpg / layout.fs_frag,
            layout.fs_ipg
        )
    }
}

/// Returns the superblock's bytes: the structure, what Solaris keeps elsewhere, and the tables over
/// it.
pub(super) fn encode(fs: &Fs, cylinders: Option<&Cylinders>, wishes: &Resolved) -> Vec<u8> {
    let mut raw = vec![0; SBLOCKSIZE];
    let mut fs = *fs;
    let mut sun = None;
    if let Dialect::Sun { x86 } = wishes.dialect {
        let state = FsSun::FSOKAY.wrapping_sub(fs.fs_old_time);
        let quad = |mask: i64| {
            let [high, low] = [mask >> 32, mask & 0xffff_ffff].map(|w| i32::try_from(w).unwrap_or(0));
            if wishes.endian == spindle_ondisk::Endian::Big { [high, low] } else { [low, high] }
        };
        // The two systems keep fs_state and fs_npsect in each other's places.
        let fs_state = if x86 { std::mem::replace(&mut fs.fs_old_npsect, state) } else { state };
        sun = Some(FsSun {
            fs_rolled: 0,
            fs_logbno: 0,
            fs_reclaim: 0,
            fs_state,
            fs_qbmask: quad(fs.fs_qbmask),
            fs_qfmask: quad(fs.fs_qfmask),
        });
        (fs.fs_qbmask, fs.fs_qfmask) = (0, 0);
    }
    fs.encode(&mut raw, wishes.endian);
    if let Some(sun) = sun {
        sun.encode(&mut raw, wishes.endian);
    }
    if let Some(fs_mark) = Conventions::of(wishes.dialect).mark {
        FsMark { fs_mark }.encode(&mut raw, wishes.endian);
    }
    if let Some(tables) = cylinders.and_then(|c| c.tables.as_ref()) {
        tables.overlay(&mut raw, wishes.endian);
    }
    raw
}

/// Returns a number that the checks before have kept small, as the structure's signed field.
fn int(n: impl TryInto<i32>) -> i32 {
    n.try_into().unwrap_or(i32::MAX)
}

fn superblock(wishes: &Resolved, frame: &Frame, groups: &Groups, cylinders: Option<&Cylinders>) -> Fs {
    let ufs2 = wishes.format == Format::Ufs2;
    let conventions = Conventions::of(wishes.dialect);
    let bsize = u64::from(frame.bsize);
    let frags_of = |bytes: u32| bytes.next_multiple_of(frame.fsize);
    let inode_frags = groups.fs_ipg / frame.inopb * frame.frag;
    let dblkno = frame.iblkno + inode_frags;
    let cssize = frags_of(groups.fs_ncg.saturating_mul(16));
    let csfrags = cssize / frame.fsize;
    let overhead = u64::from(frame.sblkno)
        + u64::from(groups.fs_ncg) * u64::from(dblkno - frame.sblkno)
        + u64::from(csfrags);
    let dsize = groups.fs_size.saturating_sub(overhead);
    let nindir = bsize / if ufs2 { 8 } else { 4 };
    let sb_bytes = cylinders.map_or(Fs::SIZE, Cylinders::superblock_bytes);
    let sblocksize = u32::try_from(SBLOCKSIZE).unwrap_or(0);

    let mut fs = Fs::decode(&[0; Fs::SIZE], wishes.endian);
    fs.fs_magic = if ufs2 { FS_UFS2_MAGIC } else { FS_UFS1_MAGIC };
    fs.fs_sblkno = int(frame.sblkno);
    fs.fs_cblkno = int(frame.cblkno);
    fs.fs_iblkno = int(frame.iblkno);
    fs.fs_dblkno = int(dblkno);
    fs.fs_ncg = groups.fs_ncg;
    fs.fs_bsize = int(frame.bsize);
    fs.fs_fsize = int(frame.fsize);
    fs.fs_frag = int(frame.frag);
    fs.fs_minfree = int(wishes.minfree);
    fs.fs_bmask = -int(frame.bsize);
    fs.fs_fmask = -int(frame.fsize);
    fs.fs_bshift = int(frame.bsize.trailing_zeros());
    fs.fs_fshift = int(frame.fsize.trailing_zeros());
    fs.fs_maxcontig = int(wishes.maxcontig);
    fs.fs_maxbpg = int(wishes.maxbpg);
    fs.fs_fragshift = int(frame.frag.trailing_zeros());
    fs.fs_fsbtodb = int(frame.nspf.trailing_zeros());
    let sbsize = frags_of(u32::try_from(sb_bytes).unwrap_or(u32::MAX)).min(sblocksize);
    fs.fs_sbsize = int(sbsize.max(wishes.sector_bytes).min(sblocksize));
    fs.fs_nindir = int(nindir);
    fs.fs_inopb = frame.inopb;
    fs.fs_optim = match wishes.optimization {
        Optimization::Time => FS_OPTTIME,
        Optimization::Space => FS_OPTSPACE,
    };
    fs.fs_cssize = int(cssize);
    fs.fs_cgsize = int(frags_of(groups.cg_bytes));
    fs.fs_ipg = groups.fs_ipg;
    fs.fs_fpg = int(groups.fs_fpg);
    fs.fs_clean = FsSun::FSCLEAN;

    if !ufs2 {
        fs.fs_old_size = int(groups.fs_size);
        fs.fs_old_dsize = int(dsize);
        fs.fs_old_csaddr = int(dblkno);
        fs.fs_old_nspf = int(frame.nspf);
        fs.fs_old_rps = 60;
        fs.fs_old_postblformat = FS_DYNAMICPOSTBLFMT;
        match cylinders {
            Some(cylinders) => describe_disk(&mut fs, cylinders),
            None => fake_disk(&mut fs, groups, frame),
        }
    }
    if ufs2 && conventions.disk_in_ufs2 {
        fs.fs_old_nspf = int(frame.nspf);
        fs.fs_old_cpg = 1;
        fs.fs_old_nrpos = 1;
        fs.fs_old_postblformat = FS_DYNAMICPOSTBLFMT;
    }
    let sun = matches!(wishes.dialect, Dialect::Sun { .. });
    if !wishes.static_tables {
        fs.fs_qbmask = i64::from(frame.bsize) - 1;
        fs.fs_qfmask = i64::from(frame.fsize) - 1;
        if !sun {
            let blocks = NDADDR as u64 + nindir + nindir.pow(2) + nindir.pow(3);
            fs.fs_maxfilesize = bsize * blocks - 1;
            fs.fs_contigsumsize = int(frame.contigsumsize);
            let pointers = NDADDR + NIADDR;
            (fs.fs_old_inodefmt, fs.fs_maxsymlinklen) = match wishes.format {
                Format::Old => (FS_42INODEFMT, 0),
                Format::Ufs1 => (FS_44INODEFMT, int(pointers * 4)),
                Format::Ufs2 => (conventions.ufs2_inodefmt, int(pointers * 8)),
            };
        }
    }
    if cylinders.is_none() {
        describe_newer(&mut fs, wishes, &conventions, frame, groups, dsize);
    }
    fs
}

/// Describes the disk as it is, in the fields of the old systems.
fn describe_disk(fs: &mut Fs, cylinders: &Cylinders) {
    let rotation = &cylinders.rotation;
    let csums = fs.fs_bsize / 16;
    fs.fs_spare1 = [-csums, int(csums.trailing_zeros())];
    fs.fs_old_cgoffset = int(cylinders.cgoffset);
    fs.fs_old_cgmask = cylinders.cgmask.cast_signed();
    fs.fs_old_rps = int(cylinders.rps);
    fs.fs_old_rotdelay = int(cylinders.rotdelay_ms);
    fs.fs_spare2 = int(cylinders.ntrak);
    fs.fs_old_nsect = int(rotation.fs_old_nsect);
    fs.fs_old_npsect = int(rotation.fs_old_npsect);
    fs.fs_old_interleave = int(rotation.fs_old_interleave);
    fs.fs_old_trackskew = int(rotation.fs_old_trackskew);
    fs.fs_old_spc = int(rotation.fs_old_spc);
    fs.fs_old_ncyl = int(cylinders.ncyl);
    fs.fs_old_cpg = int(rotation.fs_old_cpg);
    fs.fs_old_cpc = int(rotation.fs_old_cpc);
    fs.fs_old_nrpos = int(rotation.fs_old_nrpos);
    if let Some(tables) = &cylinders.tables {
        fs.fs_spare5 = [int(tables.postbl_at), int(tables.rotbl_at)];
    }
}

/// Describes a disk that is not there, as the newer systems do for the older ones: a cylinder group
/// is one cylinder of one track.
fn fake_disk(fs: &mut Fs, groups: &Groups, frame: &Frame) {
    fs.fs_old_cgmask = -1;
    fs.fs_old_spc = int(groups.fs_fpg.saturating_mul(frame.nspf));
    fs.fs_old_nsect = fs.fs_old_spc;
    fs.fs_old_npsect = fs.fs_old_spc;
    fs.fs_old_interleave = 1;
    fs.fs_old_ncyl = int(groups.fs_ncg);
    fs.fs_old_cpg = 1;
    fs.fs_old_nrpos = 1;
}

/// Fills in the fields that came with UFS2, which the newer systems use in UFS1 as well.
fn describe_newer(
    fs: &mut Fs,
    wishes: &Resolved,
    conventions: &Conventions,
    frame: &Frame,
    groups: &Groups,
    dsize: u64,
) {
    let wide = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    if conventions.flags_updated {
        fs.fs_old_flags = i8::MIN; // FS_FLAGS_UPDATED in its eight bits.
    }
    if conventions.maxbsize {
        fs.fs_maxbsize = int(wishes.maxbsize);
    }
    fs.fs_sblockloc = wide(frame.sblockloc);
    fs.fs_size = wide(groups.fs_size);
    fs.fs_dsize = wide(dsize);
    fs.fs_csaddr = i64::from(fs.fs_dblkno);
    fs.fs_avgfilesize = wishes.avgfilesize;
    fs.fs_avgfpdir = wishes.avgfpdir;
    fs.fs_volname[..wishes.label.len()].copy_from_slice(wishes.label.as_bytes());
    fs.fs_flags = wishes.fs_flags;
    if wishes.dialect == Dialect::FreeBsd {
        fs.fs_sblockactualloc = fs.fs_sblockloc;
        let half_reserve = u64::from(groups.fs_fpg) * u64::from(wishes.minfree) / 200;
        let asked = wishes.metaspace.map(u64::from).filter(|&frags| frags < u64::from(groups.fs_fpg) / 2);
        let metaspace = asked.unwrap_or(half_reserve);
        fs.fs_metaspace = wide(metaspace - metaspace % u64::from(frame.frag));
        if wishes.check_hashes {
            fs.fs_flags |= flags::FREEBSD_METACKHASH;
            fs.fs_metackhash = CK_SUPERBLOCK | CK_CYLGRP | CK_INODE;
        }
    }
}
