//! Before the phases: the superblock, its replicas and the recovery record.
//!
//! Geometry that contradicts itself never gets here ([`Layout::check`](crate::Layout::check)); then
//! a replica stands in. What is checked here can be wrong without anything being misplaced.

use super::Findings;
use super::finding::Finding;
use super::{Checker, Options};
use crate::format::ckhash::check_hash;
use crate::format::copies::differing;
use crate::format::dialect::Dialect;
use crate::format::layout::{InodeFormat, Version};
use crate::format::ondisk::{FS_CKHASH, FS_OPTSPACE, FS_OPTTIME, Fs, NDADDR, SBLOCK_UFS2};
use crate::format::pending::Pending;
use crate::format::superblock::{Superblock, is_finished};
use spindle_device::Device;
use spindle_vfs::{Error, Result};

/// Returns the superblock to start from, and the byte of the replica if it is one.
pub(crate) fn find_superblock(
    device: &dyn Device,
    options: &Options,
    findings: &mut Findings,
) -> Result<(Superblock, Option<u64>)> {
    let (mut superblock, replica) = find(device, options, findings)?;
    if let Some(dialect) = options.dialect {
        superblock.set_dialect(dialect);
    }
    Ok((superblock, replica))
}

fn find(
    device: &dyn Device,
    options: &Options,
    findings: &mut Findings,
) -> Result<(Superblock, Option<u64>)> {
    if options.replica.is_none() {
        Pending::refuse(device)?;
    }
    let standard = match (Superblock::open(device), options.replica) {
        (Err(Error::Device(error)), _) => return Err(error.into()),
        (Ok(superblock), None) => return Ok((superblock, None)),
        (standard, _) => standard,
    };
    let (at, superblock) = match options.replica {
        Some(place) => replica(device, place)?,
        None => match (Superblock::find_replica(device), &standard) {
            (Err(_), Err(_)) => return standard.map(|superblock| (superblock, None)),
            (found, _) => found?,
        },
    };
    let why = match &standard {
        Err(error) => Some(error.problem()),
        Ok(standard) => contradiction(standard, &superblock),
    };
    if let Some(why) = why {
        findings.push(Finding::SuperblockUnusable { why, replica: at });
    }
    Ok((superblock, Some(at)))
}

/// Returns in what a superblock differs from the replica that the user has named, if it does: then
/// the replica is right.
fn contradiction(standard: &Superblock, named: &Superblock) -> Option<String> {
    let (theirs, raw) = (&standard.fs, standard.clone().encode(standard.layout.fs_sblockloc));
    let size = ("fs_size", standard.layout.fs_size, named.layout.fs_size);
    let size = Some(size).filter(|(_, found, expected)| found != expected);
    let mut all = differing(theirs, &raw, &named.fs, &named.layout);
    all.extend(size.map(|(field, found, expected)| (field, found.cast_signed(), expected.cast_signed())));
    let (field, found, expected) = all.first()?;
    Some(format!("{field} is {found}, and {expected} in the copy that was named"))
}

/// Reads the replica at a place that the user has named. Returns also the byte it stands at.
fn replica(device: &dyn Device, place: u64) -> Result<(u64, Superblock)> {
    let mut found = Superblock::read_copy(device, place)?;
    let salvaged = found.salvaged.take().unwrap_or_default();
    if salvaged.missing_bytes > 0 {
        let what = format!("the device ends {} bytes before the file system does", salvaged.missing_bytes);
        return Err(Error::corrupt(what, "superblock"));
    }
    Ok((salvaged.copy_at.unwrap_or(found.layout.fs_sblockloc), found))
}

impl Checker<'_> {
    /// The fields of the superblock, its state and the recovery record.
    pub(crate) fn check_superblock(&mut self, device: &dyn Device) -> Result<()> {
        self.check_fields();
        let fs = &self.superblock.fs;
        if !self.is_marked_clean() && !self.from_replica {
            let flags = self.superblock.flags();
            self.findings.push(Finding::NotClean { fs_clean: fs.fs_clean, flags });
        }
        let newer = self.layout.version == Version::Ufs2 || self.layout.flags_updated;
        if newer && (fs.fs_pendingblocks != 0 || fs.fs_pendinginodes != 0) {
            self.findings.push(Finding::Pending { blocks: fs.fs_pendingblocks, inodes: fs.fs_pendinginodes });
        }
        if self.superblock.dialect == Dialect::Apple && self.superblock.apple_name.is_none() {
            self.findings.push(Finding::LabelMissing {});
        }
        for ino in self.superblock.false_snapshots(device) {
            self.findings.push(Finding::FalseSnapshot { ino });
        }
        if self.layout.fs_sblockloc == SBLOCK_UFS2
            && let Some(record) = Superblock::read_recovery(device)?
        {
            for (field, found, expected) in [
                ("fsr_fsbtodb", record.fsr_fsbtodb.into(), fs.fs_fsbtodb.into()),
                ("fsr_sblkno", record.fsr_sblkno.into(), fs.fs_sblkno.into()),
                ("fsr_fpg", record.fsr_fpg.into(), fs.fs_fpg.into()),
                ("fsr_ncg", i64::from(record.fsr_ncg), i64::from(fs.fs_ncg)),
            ] {
                if found != expected {
                    self.findings.push(Finding::RecoveryRecord { field, found, expected });
                }
            }
        }
        Ok(())
    }

    /// Fields that can be computed from others or have few values.
    fn check_fields(&mut self) {
        let (fs, layout) = (&self.superblock.fs, self.layout);
        let mut check = |field: &'static str, found: i64, good: bool, expected: String| {
            if !good {
                self.findings.push(Finding::SuperblockField { field, found, expected });
            }
        };
        let optim = matches!(fs.fs_optim, FS_OPTTIME | FS_OPTSPACE);
        check("fs_optim", fs.fs_optim.into(), optim, format!("{FS_OPTTIME} or {FS_OPTSPACE}"));
        check("fs_minfree", fs.fs_minfree.into(), (0..=99).contains(&fs.fs_minfree), "0 to 99".into());
        check("fs_maxbpg", fs.fs_maxbpg.into(), fs.fs_maxbpg > 0, "positive".into());
        let (bsize, fsize) = (i64::from(layout.fs_bsize), i64::from(layout.fs_fsize));
        let mut equal = |field, found: i64, want: i64| check(field, found, found == want, want.to_string());
        equal("fs_bmask", fs.fs_bmask.into(), -bsize);
        equal("fs_fmask", fs.fs_fmask.into(), -fsize);
        equal("fs_fragshift", fs.fs_fragshift.into(), i64::from(layout.fs_frag.trailing_zeros()));
        if layout.inode_format == InodeFormat::New {
            equal("fs_qbmask", fs.fs_qbmask, bsize - 1);
            equal("fs_qfmask", fs.fs_qfmask, fsize - 1);
            let nindir = u64::from(layout.fs_nindir);
            let blocks = NDADDR as u64 + nindir + nindir.pow(2) + nindir.pow(3);
            let reach = blocks * u64::from(layout.fs_bsize) - 1;
            equal("fs_maxfilesize", fs.fs_maxfilesize.cast_signed(), reach.cast_signed());
        }
        if layout.version == Version::Ufs2 && fs.fs_sblockactualloc > 0 && !self.from_replica {
            equal("fs_sblockactualloc", fs.fs_sblockactualloc, layout.fs_sblockloc.cast_signed());
        }
        // In sectors of 512 bytes or larger ones.
        let most = i64::from(layout.fs_fsize / 512).ilog2();
        let shift = u32::try_from(fs.fs_fsbtodb).is_ok_and(|shift| shift <= most);
        check("fs_fsbtodb", fs.fs_fsbtodb.into(), shift, format!("at most {most}"));
        if let Some(wrong) = self.superblock.wrong_sblkno {
            check("fs_sblkno", wrong.into(), false, layout.fs_sblkno.to_string());
        }
        let rotor = (0..=i64::from(layout.fs_ncg)).contains(&i64::from(fs.fs_cgrotor));
        check("fs_cgrotor", fs.fs_cgrotor.into(), rotor, format!("below {}", layout.fs_ncg));
    }

    /// The replica in a group against the superblock in use.
    pub(crate) fn check_replica(&mut self, cgx: u32) {
        let layout = self.layout;
        let byte = layout.byte(layout.cgsblock(cgx));
        let size = layout.fs_sbsize as usize;
        let bytes = match self.reader.read(byte, size, 0) {
            Ok(bytes) => bytes,
            Err(error) => return self.unreadable(byte, size as u64, &error),
        };
        let fs = Fs::decode(bytes, layout.endian);
        if !is_finished(fs.fs_magic) {
            return self.findings.push(Finding::ReplicaMissing { cgx, byte });
        }
        let expected = check_hash(bytes, FS_CKHASH);
        for (field, found, expected) in differing(&fs, bytes, &self.superblock.fs, layout) {
            self.findings.push(Finding::ReplicaDiffers { cgx, byte, field, found, expected });
        }
        if self.hashes.superblock && fs.fs_ckhash != expected {
            self.findings.push(Finding::ReplicaCheckHash { cgx, byte, found: fs.fs_ckhash, expected });
        }
    }
}
