//! tunefs: what of a file system can still be chosen after newfs, all of it in the superblock.
//!
//! A [`Tuning`] is wishes. [`Tuning::apply`] holds each of them against what this format has and
//! what its values may be, and changes a superblock in memory, or names the first one that will not
//! do and changes nothing. [`tune`] does the same to a device: it writes only if nothing speaks
//! against writing, only the bytes of the fields changed and of the check-hash, and first the
//! standard superblock, then, where asked, its replicas. If there is a log, it says before what the
//! superblock will be; one that has to be replayed must be replayed first ([`crate::recover`]).
//!
//! The caller locks the device, and has not mounted what is on it: a mounted file system writes its
//! own superblock over this. [`Tuning::apply_mounted`] is for one that is mounted: it allows
//! what the paper of 1984 changes in running systems.

mod mounted;
mod parameter;

pub use mounted::Tuned;
pub use parameter::{Parameter, Value, settings};

use crate::format::acl;
use crate::format::dialect::Dialect;
use crate::format::layout::Version;
use crate::format::ondisk::{FS_OPTSPACE, FS_OPTTIME, SBLOCKSIZE, flags};
use crate::format::superblock::Superblock;
use crate::log::locate::FoundLog;
use crate::log::wapbl::Stamp;
use crate::newfs::Optimization;
use parameter::{lacks, value};
use serde::{Deserialize, Serialize};
use spindle_device::Device;
use spindle_vfs::{Error, Objection, Result};
use std::fmt;
use std::ops::RangeInclusive;

/// Bytes of the largest cluster that can be asked for: what newfs allows with its largest blocks.
pub const MAX_CLUSTER_BYTES: u32 = 16 << 20;

/// Bytes of `fs_volname` that a name may take.
const MAX_LABEL_BYTES: usize = 31;

/// A parameter that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What.
    pub parameter: Parameter,
    /// Its value before.
    pub old: Value,
    /// Its value now; the same if it had it already.
    pub new: Value,
}

/// Changes to make; `None` leaves a parameter as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Blocks in a cluster: 1 to [`MAX_CLUSTER_BYTES`].
    pub maxcontig: Option<u32>,
    /// Milliseconds from block to block: 0 to 1000.
    pub rotdelay_ms: Option<u32>,
    /// Blocks of a file in a group: at least 1.
    pub maxbpg: Option<u32>,
    /// Expected bytes in a file: at least 1.
    pub avgfilesize: Option<u32>,
    /// The reserve in percent: 0 to 99.
    pub minfree: Option<u32>,
    /// Optimise for time or for space.
    pub optimization: Option<Optimization>,
    /// Expected files in a directory: at least 1.
    pub avgfpdir: Option<u32>,
    /// Volume name: at most 31 letters, digits, `-` and `_`; none to take it off.
    pub label: Option<String>,
    /// Soft updates when BSD mounts it.
    pub soft_updates: Option<bool>,
    /// Access control lists of POSIX.1e.
    pub posix_acls: Option<bool>,
    /// Access control lists of `NFSv4`.
    pub nfs4_acls: Option<bool>,
}

fn refused(parameter: Parameter, value: impl fmt::Display, why: impl Into<String>) -> Error {
    Error::unsupported(format!("{} {value} will not do", parameter.name()), why)
}

fn within(parameter: Parameter, value: u32, range: &RangeInclusive<u32>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let (least, most, unit) = (range.start(), range.end(), parameter.unit());
    Err(refused(parameter, value, format!("it can be {least} to {most}{unit}")))
}

impl Tuning {
    /// Returns the parameters that it changes.
    fn asked(&self) -> impl Iterator<Item = Parameter> {
        let asked = [
            self.maxcontig.is_some(),
            self.rotdelay_ms.is_some(),
            self.maxbpg.is_some(),
            self.avgfilesize.is_some(),
            self.minfree.is_some(),
            self.optimization.is_some(),
            self.avgfpdir.is_some(),
            self.label.is_some(),
            self.soft_updates.is_some(),
            self.posix_acls.is_some(),
            self.nfs4_acls.is_some(),
        ];
        Parameter::ALL.into_iter().zip(asked).filter_map(|(parameter, asked)| asked.then_some(parameter))
    }

    /// Returns true if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.asked().next().is_none()
    }

    /// Changes a superblock in memory; says of each parameter asked for what it was and is, in the
    /// order of [`Parameter::ALL`].
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the first parameter that this format does not have, or whose
    /// value cannot be; then nothing is changed.
    pub fn apply(&self, superblock: &mut Superblock) -> Result<Vec<Change>> {
        self.check(superblock)?;
        let old: Vec<_> = self.asked().map(|parameter| (parameter, value(superblock, parameter))).collect();
        let number = |value: u32| value.cast_signed();
        let old_flags = superblock.layout.version == Version::Ufs1 && !superblock.layout.flags_updated;
        let nfs4 = acl::nfs4_flag(superblock.dialect).unwrap_or(0);
        superblock.change(|fs| {
            fs.fs_maxcontig = self.maxcontig.map_or(fs.fs_maxcontig, number);
            fs.fs_old_rotdelay = self.rotdelay_ms.map_or(fs.fs_old_rotdelay, number);
            fs.fs_maxbpg = self.maxbpg.map_or(fs.fs_maxbpg, number);
            fs.fs_avgfilesize = self.avgfilesize.unwrap_or(fs.fs_avgfilesize);
            fs.fs_minfree = self.minfree.map_or(fs.fs_minfree, number);
            fs.fs_optim = match self.optimization {
                Some(Optimization::Time) => FS_OPTTIME,
                Some(Optimization::Space) => FS_OPTSPACE,
                None => fs.fs_optim,
            };
            fs.fs_avgfpdir = self.avgfpdir.unwrap_or(fs.fs_avgfpdir);
            if let Some(label) = &self.label {
                fs.fs_volname.fill(0);
                fs.fs_volname[..label.len()].copy_from_slice(label.as_bytes());
            }
            let switches = [
                (self.soft_updates, flags::FS_DOSOFTDEP),
                (self.posix_acls, flags::FS_ACLS),
                (self.nfs4_acls, nfs4),
            ];
            let switched = |bits: u32| {
                switches.into_iter().fold(bits, |bits, (switch, flag)| match switch {
                    Some(true) => bits | flag,
                    Some(false) => bits & !flag,
                    None => bits,
                })
            };
            if old_flags {
                // UFS1 has no lists, and the bit of soft updates is among the eight that there are.
                let bits = switched(fs.fs_old_flags.cast_unsigned().into());
                fs.fs_old_flags = u8::try_from(bits).map_or(fs.fs_old_flags, u8::cast_signed);
            } else {
                fs.fs_flags = switched(fs.fs_flags);
            }
        });
        let change = |(parameter, old)| Change { parameter, old, new: value(superblock, parameter) };
        Ok(old.into_iter().map(change).collect())
    }

    fn check(&self, superblock: &Superblock) -> Result<()> {
        const POSITIVE: RangeInclusive<u32> = 1..=i32::MAX.cast_unsigned();
        if let Some((parameter, why)) =
            self.asked().find_map(|parameter| lacks(superblock, parameter).map(|why| (parameter, why)))
        {
            return Err(Error::unsupported(format!("{} cannot be set", parameter.name()), why));
        }
        let blocks = 1..=MAX_CLUSTER_BYTES / superblock.layout.fs_bsize;
        for (parameter, value, range) in [
            (Parameter::Maxcontig, self.maxcontig, blocks),
            (Parameter::Rotdelay, self.rotdelay_ms, 0..=1000),
            (Parameter::Maxbpg, self.maxbpg, POSITIVE),
            (Parameter::Avgfilesize, self.avgfilesize, POSITIVE),
            (Parameter::Minfree, self.minfree, 0..=99),
            (Parameter::Avgfpdir, self.avgfpdir, POSITIVE),
        ] {
            value.map_or(Ok(()), |value| within(parameter, value, &range))?;
        }
        if let Some(label) = &self.label {
            let plain = label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
            if label.len() > MAX_LABEL_BYTES || !plain {
                let allowed = format!("it can be at most {MAX_LABEL_BYTES} letters, digits, '-' and '_'");
                return Err(refused(Parameter::Label, format_args!("{label:?}"), allowed));
            }
        }
        let on = |wish: Option<bool>, flag| wish.unwrap_or(superblock.flags() & flag != 0);
        let nfs4 = acl::nfs4_flag(superblock.dialect).unwrap_or(0);
        let asked = (self.posix_acls == Some(true), self.nfs4_acls == Some(true));
        if asked != (false, false) && on(self.posix_acls, flags::FS_ACLS) && on(self.nfs4_acls, nfs4) {
            let parameter = if asked.0 { Parameter::PosixAcls } else { Parameter::Nfs4Acls };
            let why = "a file system has one of the two; disable the other one";
            return Err(refused(parameter, "enabled", why));
        }
        match self.soft_updates {
            Some(true) if superblock.fs.fs_clean != 1 => {
                let why = "they rely on the file system having been clean; check it first";
                Err(refused(Parameter::SoftUpdates, "enabled", why))
            }
            Some(false) if superblock.flags() & flags::FS_SUJ != 0 => {
                let why = "their journal is on; turn it off on FreeBSD (tunefs -j disable)";
                Err(refused(Parameter::SoftUpdates, "disabled", why))
            }
            _ => Ok(()),
        }
    }
}

/// Settings for writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Write in spite of objections that can be overridden.
    pub force: bool,
    /// Write the replicas as well, even if nothing was changed.
    pub replicas: bool,
}

/// The changes that were made.
#[derive(Clone, Debug)]
pub struct Report {
    /// Each parameter asked for, with what it was and is.
    pub changes: Vec<Change>,
    /// Advice about settings that go badly together, as parts of sentences.
    pub notes: Vec<String>,
    /// Number of replicas written.
    pub replicas: u32,
    /// The superblock as it is on the device now.
    pub superblock: Superblock,
}

/// Changes the superblock on `device`.
///
/// # Errors
/// [`Error::Unsupported`] when there is no such file system, it must not be written, or a wish
/// cannot be had; [`Error::Corrupt`] when its superblock cannot be used. The device is as it was
/// then. Device errors.
pub fn tune(device: &dyn Device, tuning: &Tuning, options: Options) -> Result<Report> {
    let mut superblock = Superblock::open(device)?;
    let log = FoundLog::look(device, &superblock)?;
    let objections = superblock.objections_with(device, &log);
    let overridden = options.force && objections.iter().all(|o| o.overridable);
    if !(objections.is_empty() || overridden) {
        return Err(refusal(&objections));
    }
    if matches!(log, FoundLog::Recovery(_)) {
        let what = "it was not unmounted, and its log still holds changes";
        return Err(Error::unsupported(what, "mount it once, which carries them out"));
    }
    let before = superblock.identity();
    let changes = tuning.apply(&mut superblock)?;
    let notes = notes(&superblock, tuning);
    let mut replicas = 0;
    if options.replicas {
        check_room(&superblock, device)?;
    }
    if options.replicas || changes.iter().any(|change| change.old != change.new) {
        if let FoundLog::Ready(replay) = &log {
            superblock.seal();
            replay.restamp(device, &Stamp { before, after: superblock.identity() })?;
        }
        superblock.write(device)?;
        device.flush()?;
    }
    if options.replicas {
        for cgx in 0..superblock.layout.fs_ncg {
            let at = superblock.layout.byte(superblock.layout.cgsblock(cgx));
            let raw = superblock.clone().encode(at);
            device.write_at(at, &raw[..written_bytes(&superblock, device)])?;
            replicas += 1;
        }
        device.flush()?;
    }
    let superblock = Superblock::open(device)?;
    Ok(Report { changes, notes, replicas, superblock })
}

fn refusal(objections: &[Objection]) -> Error {
    let joined = |part: fn(&Objection) -> &str| {
        let mut parts: Vec<&str> = objections.iter().map(part).collect();
        // Several can have the same remedy.
        parts.dedup();
        parts.join(", and ")
    };
    Error::unsupported(format!("it cannot be written: {}", joined(|o| &o.reason)), joined(|o| &o.remedy))
}

/// Returns the bytes of a superblock in whole sectors.
fn written_bytes(superblock: &Superblock, device: &dyn Device) -> usize {
    let sector = device.info().sector_bytes as usize;
    (superblock.layout.fs_sbsize as usize).next_multiple_of(sector).min(SBLOCKSIZE)
}

/// Checks that there is room for the replicas: a layout can leave none before the group block, or
/// have it where the standard superblock is.
fn check_room(superblock: &Superblock, device: &dyn Device) -> Result<()> {
    let layout = &superblock.layout;
    let bytes = written_bytes(superblock, device) as u64;
    let room = u64::from(layout.fs_cblkno - layout.fs_sblkno) << layout.fs_fshift;
    let first = layout.byte(layout.cgsblock(0));
    if bytes > room || first.abs_diff(layout.fs_sblockloc) < bytes {
        return Err(Error::corrupt("there is no room for the replicas of the superblock", "fs_sblkno"));
    }
    Ok(())
}

/// Returns the reserve from which on each system's own tools recommend to save time (`MINFREE` of
/// its `fs.h`).
const fn roomy_percent(dialect: Dialect) -> i32 {
    match dialect {
        Dialect::FreeBsd => 8,
        Dialect::NetBsd | Dialect::OpenBsd | Dialect::Bsd44 | Dialect::Apple | Dialect::OpenStep => 5,
        Dialect::Sun { .. } | Dialect::Bsd43 | Dialect::NextStep | Dialect::HpUx | Dialect::Ultrix => 10,
    }
}

fn notes(superblock: &Superblock, tuning: &Tuning) -> Vec<String> {
    let (fs, layout) = (&superblock.fs, &superblock.layout);
    let mut notes = Vec::new();
    let roomy = roomy_percent(superblock.dialect);
    if tuning.minfree.is_some() || tuning.optimization.is_some() {
        if fs.fs_minfree >= roomy && fs.fs_optim == FS_OPTSPACE {
            notes.push(format!("with a reserve of {roomy}% or more, optimization for time is better"));
        }
        if fs.fs_minfree < roomy && fs.fs_optim == FS_OPTTIME {
            notes.push(format!("with a reserve below {roomy}%, optimization for space is better"));
        }
    }
    if tuning.minfree.is_some() {
        if fs.fs_minfree < 5 {
            notes.push("with a reserve below 5%, a full file system has scattered files and is slow".into());
        }
        let totals = superblock.totals();
        let free = i128::from(totals.cs_nbfree) * i128::from(layout.fs_frag) + i128::from(totals.cs_nffree);
        let reserve = i128::from(layout.fs_dsize) * i128::from(fs.fs_minfree) / 100;
        if free <= reserve {
            notes.push("less is free than the reserve: only root can add to it now".into());
        }
    }
    notes
}
