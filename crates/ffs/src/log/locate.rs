//! The log in its file system: where it is, whether it can be believed, and what a mount does about
//! it.
//!
//! The superblock leads to the log: on NetBSD's dialect through its own fields, elsewhere through
//! spare ones ([`FsLog`]). Its space belongs to a file, so that every other system leaves it alone.
//!
//! The *stamp* in its header decides whether its contents may be replayed. We never write
//! the superblock before the header says what each of its sectors will be, and was
//! ([`crate::log::wapbl::Stamp`]). A superblock with a sector that is neither was written by
//! another system since, and the log is not believed. One of either state that is clean needs no
//! recovery. A mixture of the two was torn in the writing, and needs it. What NetBSD has logged
//! itself has no stamp; there its flag in the superblock decides.

use crate::format::dialect::{CHECK, Dialect, objections, snapshot_objection};
use crate::format::ondisk::{FS_42POSTBLFMT, FsLog, FsNetBsd, flags};
use crate::format::pending::Pending;
use crate::format::superblock::Superblock;
use crate::log::LogUse;
use crate::log::wapbl::{DEV_BSIZE, Identity, Replay, SuperblockState};
use spindle_device::Device;
use spindle_ondisk::Endian;
use spindle_vfs::{Error, Objection, Result};

/// Where a superblock says that the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LogPlace {
    /// Where it begins, in bytes.
    pub at: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The inode that its space belongs to; none if it stands behind the file system.
    pub ino: Option<u32>,
}

/// NetBSD's version of the log.
const UFS_WAPBL_VERSION: u8 = 1;
/// NetBSD: the log stands behind the file system.
const UFS_WAPBL_JOURNALLOC_END_PARTITION: u8 = 1;
/// NetBSD: the log is a file without a name.
const UFS_WAPBL_JOURNALLOC_IN_FILESYSTEM: u8 = 2;

/// Largest log in bytes (`UFS_WAPBL_MAX_JOURNAL_SIZE`).
pub const MAX_LOG_BYTES: u64 = 64 << 20;
/// Smallest log that is made unless another is asked for, in bytes (`UFS_WAPBL_MIN_JOURNAL_SIZE`).
pub(crate) const MIN_LOG_BYTES: u64 = 1 << 20;

impl LogPlace {
    /// Returns true if this kind of superblock can say where a log is: the oldest have their tables
    /// in its place.
    pub(crate) fn can_be_kept(superblock: &Superblock) -> bool {
        match superblock.dialect {
            Dialect::NetBsd => superblock.has_new_fields(),
            _ => superblock.fs.fs_old_postblformat != FS_42POSTBLFMT || superblock.has_new_fields(),
        }
    }

    pub(crate) fn get(raw: &[u8], superblock: &Superblock) -> Option<Self> {
        let endian = superblock.layout.endian;
        if !Self::can_be_kept(superblock) {
            return None;
        }
        if superblock.dialect == Dialect::NetBsd {
            let fs = netbsd_journal(raw, endian)?;
            let [addr, count, block, ino] = fs.fs_journallocs;
            if fs.fs_journal_version != UFS_WAPBL_VERSION {
                return None;
            }
            let ino = match fs.fs_journal_location {
                UFS_WAPBL_JOURNALLOC_END_PARTITION => None,
                UFS_WAPBL_JOURNALLOC_IN_FILESYSTEM => Some(u32::try_from(ino).ok()?),
                _ => return None,
            };
            return Some(Self { at: addr.checked_mul(block)?, len: count.checked_mul(block)?, ino });
        }
        let fs = FsLog::decode(raw, endian);
        let place = Self { at: fs.fs_log_at, len: fs.fs_log_bytes, ino: Some(fs.fs_log_ino) };
        [FsLog::MAGIC, FsLog::ENDED].contains(&fs.fs_log_magic).then_some(place)
    }

    pub(crate) fn put(place: Option<Self>, raw: &mut [u8], superblock: &Superblock) {
        let endian = superblock.layout.endian;
        if superblock.dialect == Dialect::NetBsd {
            let mut fs = FsNetBsd::decode(raw, endian);
            let block = DEV_BSIZE;
            fs.fs_journal_flags = 0;
            fs.fs_journal_version = if place.is_some() { UFS_WAPBL_VERSION } else { 0 };
            (fs.fs_journal_location, fs.fs_journallocs) = match place {
                None => (0, [0; 4]),
                Some(Self { at, len, ino: Some(ino) }) => {
                    (UFS_WAPBL_JOURNALLOC_IN_FILESYSTEM, [at / block, len / block, block, ino.into()])
                }
                Some(Self { at, len, ino: None }) => {
                    (UFS_WAPBL_JOURNALLOC_END_PARTITION, [at / block, len / block, block, 0])
                }
            };
            fs.encode(raw, endian);
            return;
        }
        let (fs_log_magic, place) = match place {
            Some(place) => (FsLog::MAGIC, place),
            None => (0, Self { at: 0, len: 0, ino: None }),
        };
        let fs_log_ino = place.ino.unwrap_or(0);
        let (fs_log_at, fs_log_bytes) = (place.at, place.len);
        FsLog { fs_log_magic, fs_log_ino, fs_log_at, fs_log_bytes }.encode(raw, endian);
    }

    /// Returns true if it can be where it says: on whole fragments of the file system's data, or
    /// behind the file system.
    fn is_sound(&self, superblock: &Superblock, device: &dyn Device) -> bool {
        let layout = &superblock.layout;
        let end = layout.fs_size << layout.fs_fshift;
        let Some(last) = self.at.checked_add(self.len) else { return false };
        let place = match self.ino {
            None => self.at >= end,
            Some(_) => self.at.is_multiple_of(layout.fs_fsize.into()) && last <= end,
        };
        place && last <= device.info().size_bytes && self.len <= MAX_LOG_BYTES
    }
}

/// Returns what NetBSD's superblock says of a journal, if there can be one. Its kernel leaves these
/// fields in the machine's order of bytes, whatever the file system's is.
pub(crate) fn netbsd_journal(raw: &[u8], endian: Endian) -> Option<FsNetBsd> {
    [endian, opposite(endian)]
        .map(|endian| FsNetBsd::decode(raw, endian))
        .into_iter()
        .find(|fs| (1..=MAX_LOG_BYTES).contains(&fs.fs_journallocs[2]))
}

fn opposite(endian: Endian) -> Endian {
    if endian == Endian::Big { Endian::Little } else { Endian::Big }
}

impl Superblock {
    /// Finds and checks the superblock at its standard places. One that was torn in the writing
    /// will do, too, if the log says that it was being written; it counts as not clean.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no file system of this family, [`Error::Corrupt`] if
    /// there is one whose superblock cannot be used, naming the first complaint, or one that is
    /// half changed.
    pub fn open(device: &dyn Device) -> Result<Self> {
        Pending::refuse(device)?;
        Self::find(device).or_else(|complaint| {
            for mut torn in Self::find_torn(device)? {
                if matches!(FoundLog::look(device, &torn)?, FoundLog::Recovery(_)) {
                    torn.fs.fs_clean = 0;
                    return Ok(torn);
                }
            }
            Err(complaint)
        })
    }

    /// Returns what speaks against writing past a mount, after a recovery if a log allows one.
    ///
    /// # Errors
    /// Device errors while a log is looked at.
    pub fn objections(&self, device: &dyn Device) -> Result<Vec<Objection>> {
        Ok(self.objections_with(device, &FoundLog::look(device, self)?))
    }

    /// Returns what speaks against a mount that writes, after a recovery if a log allows one. What
    /// its snapshots need is not looked at: such a mount preserves changes for them.
    ///
    /// # Errors
    /// Device errors while a log is looked at.
    pub fn objections_to_mounting(&self, device: &dyn Device) -> Result<Vec<Objection>> {
        Ok(self.objections_of_mount(&FoundLog::look(device, self)?))
    }

    /// [`Self::objections`] with the log that was found.
    pub(crate) fn objections_with(&self, device: &dyn Device, log: &FoundLog) -> Vec<Objection> {
        let mut found = self.objections_of_mount(log);
        // The inode of a snapshot may still be in the log.
        let recovers = matches!(log, FoundLog::Recovery(_));
        let wrong = if recovers { Vec::new() } else { self.false_snapshots(device) };
        if self.snapshots().len() > wrong.len() {
            found.push(snapshot_objection());
        } else if let Some(ino) = wrong.first() {
            found.push(Objection {
                reason: format!("its superblock lists inode {ino} as a snapshot, which it is not"),
                remedy: "have the list corrected (spindle fsck -p)".into(),
                overridable: false,
            });
        }
        found
    }

    /// [`Self::objections_to_mounting`] with the log that was found.
    pub(crate) fn objections_of_mount(&self, log: &FoundLog) -> Vec<Objection> {
        let recovers = matches!(log, FoundLog::Recovery(_));
        let mut found = objections(&self.fs, &self.raw, &self.layout, self.dialect, recovers);
        found.extend(self.salvaged.iter().flat_map(|salvaged| salvaged.objections()));
        if let Some(wrong) = self.wrong_sblkno {
            let right = self.layout.fs_sblkno;
            found.push(Objection {
                reason: format!("its fs_sblkno is {wrong}, and its replicas are at {right}"),
                remedy: CHECK.into(),
                overridable: true,
            });
        }
        if let Some(contradiction) = &self.contradiction {
            found.push(Objection { reason: contradiction.clone(), remedy: CHECK.into(), overridable: true });
        }
        if let FoundLog::Useless(reason) = log
            && self.needs_log()
        {
            found.push(Objection { reason: reason.clone(), remedy: CHECK.into(), overridable: true });
        }
        found
    }

    /// Returns true if what a log holds, if there is one, has to be replayed: NetBSD has a flag for
    /// that, elsewhere it is so whenever the file system was not left clean, unless damage was met
    /// ([`Self::end_log`]).
    #[must_use]
    pub(crate) fn needs_log(&self) -> bool {
        match self.dialect {
            Dialect::NetBsd => self.flags() & flags::NETBSD_DOWAPBL != 0,
            _ => !self.is_clean() && !self.log_has_ended(),
        }
    }

    fn log_has_ended(&self) -> bool {
        LogPlace::can_be_kept(self)
            && FsLog::decode(&self.raw, self.layout.endian).fs_log_magic == FsLog::ENDED
    }

    /// Enters that everything of the log is in its place although the file system is not clean: a
    /// mount that finds it so asks for a check, instead of replaying the log and calling it clean.
    /// NetBSD's flag says the same.
    pub(crate) fn end_log(&mut self) {
        self.set_log_magic(FsLog::ENDED);
    }

    /// Enters that the log is in use, and is replayed after a crash.
    pub(crate) fn begin_log(&mut self) {
        self.set_log_magic(FsLog::MAGIC);
    }

    fn set_log_magic(&mut self, magic: u32) {
        if self.dialect != Dialect::NetBsd && self.log_place().is_some() {
            let endian = self.layout.endian;
            let log = FsLog { fs_log_magic: magic, ..FsLog::decode(&self.raw, endian) };
            log.encode(&mut self.raw, endian);
        }
    }

    /// Returns what the log knows it by: the bytes as last read, written or sealed.
    #[must_use]
    pub fn identity(&self) -> Identity {
        Identity::of(&self.raw[..self.layout.fs_sbsize as usize])
    }

    /// Returns where it says that the log is.
    #[must_use]
    pub fn log_place(&self) -> Option<LogPlace> {
        LogPlace::get(&self.raw, self)
    }

    /// Enters where the log is, or that there is none.
    pub(crate) fn set_log_place(&mut self, place: Option<LogPlace>) {
        let mut raw = std::mem::take(&mut self.raw);
        LogPlace::put(place, &mut raw, self);
        self.raw = raw;
    }
}

/// Returns what speaks against writing a file system of NetBSD in an order of bytes that few
/// machines have: its kernel does not swap what belongs to the log. Only a machine of the same
/// order as the one that has written it can carry it out, and whose turn is next cannot be known.
/// Reading is safe.
pub(crate) fn foreign_order(superblock: &Superblock, found: &FoundLog, wish: LogUse) -> Option<Objection> {
    let endian = superblock.layout.endian;
    let strange = match found {
        FoundLog::Ready(replay) | FoundLog::Recovery(replay) => replay.endian != endian,
        FoundLog::None | FoundLog::Useless(_) => false,
    };
    let pending = superblock.needs_log() && !matches!(found, FoundLog::None);
    let used = match wish {
        LogUse::Wanted | LogUse::Required => true,
        LogUse::IfThere => superblock.log_place().is_some(),
        LogUse::Never => pending,
    };
    let netbsd = superblock.dialect == Dialect::NetBsd && superblock.has_new_fields();
    (netbsd && used && (endian == Endian::Big || strange)).then(|| {
        let remedy = if pending {
            "let NetBSD carry its log out, on the kind of machine that has written it"
        } else {
            "mount it without a log (nolog)"
        };
        Objection {
            reason:
                "NetBSD keeps its log in its machine's order of bytes, not in the file system's, so that \
                     not every machine could read it"
                    .into(),
            remedy: remedy.into(),
            overridable: false,
        }
    })
}

/// The log of a file system, as found before a mount.
#[derive(Clone, Debug)]
pub enum FoundLog {
    /// There is none.
    None,
    /// The file system needs no recovery; the log can be gone on with.
    Ready(Box<Replay>),
    /// The file system was in use when something happened: replaying the log puts it right.
    Recovery(Box<Replay>),
    /// It must not be believed, or cannot be read; with the reason.
    Useless(String),
}

impl FoundLog {
    /// Looks for the log of a file system and reads it. Nothing is written.
    ///
    /// # Errors
    /// Device errors.
    pub fn look(device: &dyn Device, superblock: &Superblock) -> Result<Self> {
        let Some(place) = superblock.log_place() else { return Ok(Self::None) };
        if !place.is_sound(superblock, device) {
            return Ok(Self::Useless("its log is not where the superblock says".into()));
        }
        let replay = match Replay::read(device, place.at, place.len) {
            Ok(replay) => Box::new(replay),
            Err(Error::Corrupt { what, .. }) => {
                return Ok(Self::Useless(format!("its log cannot be read ({what})")));
            }
            Err(error) => return Err(error),
        };
        let state = match replay.stamp() {
            Some(stamp) => stamp.state_of(superblock.identity()),
            None if superblock.dialect == Dialect::NetBsd => SuperblockState::Ours,
            None => SuperblockState::Foreign,
        };
        Ok(match state {
            SuperblockState::Foreign => {
                Self::Useless("another system has written to it since its log was written".into())
            }
            SuperblockState::Ours if !superblock.needs_log() => Self::Ready(replay),
            SuperblockState::Ours | SuperblockState::Torn => Self::Recovery(replay),
        })
    }
}

/// Returns the bytes of a log for a file system of `bytes`, where nothing else is asked for: a
/// share of it within NetBSD's bounds; none if it is too small to spare that.
pub(crate) fn default_log_bytes(bytes: u64) -> Option<u64> {
    const SHARE: u64 = 128;
    const LEAST_SHARE: u64 = 16;
    let wanted = (bytes / SHARE).clamp(MIN_LOG_BYTES, MAX_LOG_BYTES);
    (wanted <= bytes / LEAST_SHARE).then_some(wanted)
}
