//! The superblock, its replicas and the recovery record.
//!
//! Where the superblock and its replicas disagree about what never changes, most of them are right;
//! one with a check-hash is right by itself.

use super::Round;
use crate::check::Finding;
use crate::format::copies::{Fields, agreed_fields, copy_constants, format_fields, size};
use crate::format::dialect::Dialect;
use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{AppleLabel, FS_OPTTIME, Fs, FsRecovery, NDADDR, SBLOCK_UFS2, SBLOCKSIZE};
use crate::format::superblock::{Superblock, decode_replica};
use spindle_vfs::{Error, Result};
use std::collections::HashMap;

/// The reserve that newfs leaves, in percent.
const MINFREE: i32 = 8;

impl Round<'_> {
    /// Repairs the superblock, and then all copies of it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if nothing confirms what it says.
    pub(super) fn superblocks(&mut self) -> Result<bool> {
        let replicas = self.replicas()?;
        if !self.named {
            self.confirm_essentials(&replicas)?;
        }
        if self.checker.from_replica {
            let (agree, _) = self.votes(&replicas);
            let most = agree > 1 && agree > self.layout().fs_ncg / 2;
            if !(self.named || most || self.groups_confirm()?) {
                return Err(unconfirmed("nothing confirms the replica that was found"));
            }
            if !self.named && self.is_contradicted(&replicas) {
                return Err(unconfirmed("the other replicas do not agree with the one that was found"));
            }
            self.restore()?;
            return Ok(true);
        }
        let findings = self.findings();
        let differs = |finding: &Finding| {
            matches!(finding, Finding::ReplicaDiffers { .. } | Finding::ReplicaMissing { .. })
        };
        if findings.iter().any(differs) && self.outvoted(&replicas)? {
            return Ok(true);
        }
        let mut superblock = self.checker.superblock.clone();
        let mut changed = false;
        for finding in &findings {
            if let Finding::SuperblockField { field, .. } = finding {
                self.set_field(&mut superblock, field);
                changed = true;
            }
        }
        changed |= superblock.drop_false_snapshots(self.image.device);
        if changed {
            superblock.write(self.image.device)?;
            return Ok(true);
        }
        for finding in &findings {
            changed |= match *finding {
                Finding::ReplicaMissing { cgx, .. }
                | Finding::ReplicaDiffers { cgx, .. }
                | Finding::ReplicaCheckHash { cgx, .. } => self.put_replica(cgx)?,
                Finding::RecoveryRecord { .. } => self.put_recovery_record()?,
                Finding::LabelMissing { .. } => self.put_label()?,
                _ => false,
            };
        }
        Ok(changed)
    }

    /// Writes a superblock where there is none that can be used: the one that is there, if only its
    /// check-hash is wrong and the replica agrees with it, or else the replica.
    fn restore(&self) -> Result<()> {
        let device = self.image.device;
        let mut torn = Superblock::find_torn(device)?;
        torn.retain(|superblock| superblock.layout == *self.layout() && !self.named);
        let mut superblock = torn.pop().unwrap_or_else(|| {
            let mut replica = self.checker.superblock.clone();
            forget_log(&mut replica);
            self.list_snapshots(&mut replica);
            replica
        });
        superblock.set_clean(false, false, self.now);
        superblock.write(device)?;
        Ok(())
    }

    /// Has a superblock that is made from a replica, whose list is old, list the snapshots that
    /// there are.
    fn list_snapshots(&self, superblock: &mut Superblock) {
        let found = &self.checker.state.snapshots;
        let listed = superblock.snapshots();
        let mut all: Vec<u32> = listed.iter().copied().filter(|ino| found.contains(ino)).collect();
        all.extend(found.iter().filter(|ino| !listed.contains(ino)));
        all.truncate(superblock.fs.fs_snapinum.len());
        // There are not too many.
        let _ = superblock.set_snapshots(&all);
    }

    /// Returns what the superblock in use says.
    fn own(&self) -> Claim {
        Claim { fs: self.checker.superblock.fs, inode_format: Some(self.layout().inode_format) }
    }

    /// Returns what the replicas say, as far as there are some.
    fn replicas(&self) -> Result<Vec<Claim>> {
        let layout = self.layout();
        let mut replicas = Vec::new();
        for cgx in 0..layout.fs_ncg {
            let raw = self.image.read(layout.byte(layout.cgsblock(cgx)), SBLOCKSIZE)?;
            let claim = |fs| Claim { fs, inode_format: InodeFormat::of(&fs, &raw, layout.endian) };
            replicas.extend(decode_replica(&raw, layout).map(claim));
        }
        Ok(replicas)
    }

    /// Returns true if as many replicas contradict the one in use, about one of the fields that
    /// never change, as agree with it, which is one of them.
    fn is_contradicted(&self, replicas: &[Claim]) -> bool {
        let fields = |claim: &Claim| agreed_fields(&claim.fs, self.layout());
        let all: Vec<_> = replicas.iter().map(fields).collect();
        fields(&self.own()).iter().enumerate().any(|(n, own)| {
            let same = all.iter().filter(|fields| fields[n] == *own).count();
            all.len() - same >= same.max(1)
        })
    }

    /// Refuses a superblock that no majority of all copies, itself among them, confirms in fields
    /// by which good files would look damaged if they were wrong.
    fn confirm_essentials(&self, replicas: &[Claim]) -> Result<()> {
        if self.checker.superblock.check_hashes().superblock || self.has_grown(replicas)? {
            return Ok(());
        }
        let layout = self.layout();
        let own = self.own().essentials(layout);
        let same = replicas.iter().filter(|claim| claim.essentials(layout) == own).count();
        if replicas.len() - same > same {
            return Err(unconfirmed("its replicas have another size, or other formats of its parts"));
        }
        Ok(())
    }

    /// Returns true if replicas have a smaller size, and the superblock is right all the same,
    /// because every group that only it has is there: growing it was cut.
    fn has_grown(&self, replicas: &[Claim]) -> Result<bool> {
        let layout = self.layout();
        let own = size(&self.checker.superblock.fs, layout);
        // What is damaged in other ways says nothing about growth.
        let lasting = |claim: &Claim| {
            let mut fields = agreed_fields(&claim.fs, layout);
            fields.retain(|(name, _)| {
                !matches!(*name, "fs_ncg" | "fs_cssize" | "fs_old_size" | "fs_old_dsize")
            });
            (fields, claim.essentials(layout).1)
        };
        let lasting_own = lasting(&self.own());
        let is_older = |claim: &&Claim| {
            (1..own).contains(&size(&claim.fs, layout))
                && claim.fs.fs_ncg <= layout.fs_ncg
                && lasting(claim) == lasting_own
        };
        let Some(least) = replicas.iter().filter(is_older).map(|claim| claim.fs.fs_ncg).min() else {
            return Ok(false);
        };
        // The last group of the smaller size has become longer.
        self.are_groups(least.saturating_sub(1)..layout.fs_ncg)
    }

    /// Returns how many replicas agree with the superblock about what never changes, and what most
    /// of the others say, with their number.
    fn votes(&self, replicas: &[Claim]) -> (u32, Option<(u32, Fs)>) {
        let layout = self.layout();
        let own = agreed_fields(&self.checker.superblock.fs, layout);
        let mut votes: HashMap<Vec<(&str, i64)>, (u32, Fs)> = HashMap::new();
        for Claim { fs, .. } in replicas {
            votes.entry(agreed_fields(fs, layout)).or_insert((0, *fs)).0 += 1;
        }
        let agree = votes.remove(&own).map_or(0, |(count, _)| count);
        (agree, votes.into_values().max_by_key(|(count, _)| *count))
    }

    /// Lets the replicas decide about the constants of the superblock. Returns true if they have
    /// changed it.
    fn outvoted(&self, replicas: &[Claim]) -> Result<bool> {
        let layout = self.layout();
        let superblock = self.checker.superblock;
        if superblock.check_hashes().superblock || self.has_grown(replicas)? {
            return Ok(false);
        }
        let (agree, others) = self.votes(replicas);
        let Some((against, fs)) = others else {
            if agree > 0 || self.groups_confirm()? {
                return Ok(false);
            }
            return Err(unconfirmed("no replica and too few cylinder groups confirm the superblock"));
        };
        match against.cmp(&(agree + 1)) {
            std::cmp::Ordering::Less => Ok(false),
            std::cmp::Ordering::Greater if self.outvote(&fs, replicas) => {
                let mut right = superblock.clone();
                let old = !(layout.version == Version::Ufs2 || layout.flags_updated);
                right.change(|own| {
                    // The number of groups and the sizes stand and fall together.
                    let resized = (own.fs_ncg, own.fs_cssize) != (fs.fs_ncg, fs.fs_cssize);
                    copy_constants(own, &fs);
                    if layout.version == Version::Ufs1 && (old || resized) {
                        (own.fs_old_size, own.fs_old_dsize) = (fs.fs_old_size, fs.fs_old_dsize);
                        own.fs_old_ncyl = fs.fs_old_ncyl;
                    }
                    if !old && resized {
                        (own.fs_size, own.fs_dsize) = (fs.fs_size, fs.fs_dsize);
                    }
                });
                right.write(self.image.device)?;
                Ok(true)
            }
            _ => Err(unconfirmed("its replicas do not agree with the superblock")),
        }
    }

    /// Returns true if in each field in which a replica differs from the superblock, more replicas
    /// have what it has than confirm the superblock: some that agree with each other may have the
    /// same damage.
    fn outvote(&self, fs: &Fs, replicas: &[Claim]) -> bool {
        let fields = |fs: &Fs| agreed_fields(fs, self.layout());
        let all: Vec<_> = replicas.iter().map(|claim| fields(&claim.fs)).collect();
        let pairs = fields(fs).into_iter().zip(fields(&self.checker.superblock.fs)).enumerate();
        let count = |n: usize, field| all.iter().filter(|fields| fields[n] == field).count();
        pairs
            .filter(|(_, (theirs, own))| theirs != own)
            .all(|(n, (theirs, own))| count(n, theirs) > count(n, own) + 1)
    }

    /// Gives a field of the superblock the value that it must have, or that newfs gives it.
    fn set_field(&self, superblock: &mut Superblock, field: &str) {
        let layout = self.layout();
        let (bsize, fsize) = (layout.fs_bsize.cast_signed(), layout.fs_fsize.cast_signed());
        let nindir = u64::from(layout.fs_nindir);
        let blocks = NDADDR as u64 + nindir + nindir.pow(2) + nindir.pow(3);
        superblock.change(|fs| match field {
            "fs_optim" => fs.fs_optim = FS_OPTTIME,
            "fs_minfree" => fs.fs_minfree = MINFREE,
            "fs_maxbpg" => fs.fs_maxbpg = layout.fs_nindir.cast_signed(),
            "fs_bmask" => fs.fs_bmask = -bsize,
            "fs_fmask" => fs.fs_fmask = -fsize,
            "fs_fragshift" => fs.fs_fragshift = layout.fs_frag.trailing_zeros().cast_signed(),
            "fs_qbmask" => fs.fs_qbmask = i64::from(bsize) - 1,
            "fs_qfmask" => fs.fs_qfmask = i64::from(fsize) - 1,
            "fs_maxfilesize" => fs.fs_maxfilesize = blocks * u64::from(layout.fs_bsize) - 1,
            "fs_sblockactualloc" => fs.fs_sblockactualloc = layout.fs_sblockloc.cast_signed(),
            "fs_fsbtodb" => fs.fs_fsbtodb = (layout.fs_fsize / 512).ilog2().cast_signed(),
            "fs_cgrotor" => fs.fs_cgrotor = 0,
            _ => {}
        });
    }

    /// Writes the replica of a group.
    fn put_replica(&self, cgx: u32) -> Result<bool> {
        let layout = self.layout();
        let mut replica = self.checker.superblock.clone();
        forget_log(&mut replica);
        replica.set_clean(true, false, self.now);
        let at = layout.byte(layout.cgsblock(cgx));
        let raw = replica.encode(at);
        self.image.put(at, &raw[..layout.fs_sbsize as usize])
    }

    fn put_label(&self) -> Result<bool> {
        let [high, low] = self.checker.superblock.fs.fs_id.map(i32::cast_unsigned).map(u64::from);
        let label = AppleLabel::new_bytes(b"untitled", self.now.secs, high << 32 | low);
        self.image.put(AppleLabel::AT, &label)
    }

    fn put_recovery_record(&self) -> Result<bool> {
        let fs = &self.checker.superblock.fs;
        let at = SBLOCK_UFS2 - FsRecovery::SIZE as u64;
        self.image.change(at, FsRecovery::SIZE, |bytes| {
            let mut record = FsRecovery::decode(bytes, self.layout().endian);
            record.fsr_fsbtodb = fs.fs_fsbtodb;
            record.fsr_sblkno = fs.fs_sblkno;
            record.fsr_fpg = fs.fs_fpg;
            record.fsr_ncg = fs.fs_ncg;
            record.encode(bytes, self.layout().endian);
        })
    }
}

/// Takes the place of the log out of a superblock. NetBSD has it in all copies.
pub(crate) fn forget_log(superblock: &mut Superblock) {
    if superblock.dialect != Dialect::NetBsd && superblock.log_place().is_some() {
        superblock.set_log_place(None);
    }
}

/// What a superblock or a replica says.
struct Claim {
    fs: Fs,
    /// None if it says none that there is.
    inode_format: Option<InodeFormat>,
}

impl Claim {
    /// Returns the size in UFS2, and the other things besides the constants on which it depends
    /// what is damage.
    fn essentials(&self, layout: &Layout) -> (i64, (Option<InodeFormat>, Fields)) {
        let size = if layout.version == Version::Ufs2 { self.fs.fs_size } else { 0 };
        (size, (self.inode_format, format_fields(&self.fs, layout)))
    }
}

fn unconfirmed(what: &str) -> Error {
    Error::unsupported(what, "name the superblock or replica that is right (-b PLACE)")
}
