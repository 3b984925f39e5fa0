//! The superblock: finding it, its replicas, and writing it back.
//!
//! [`Superblock::find`] looks at the standard places and gives a checked value or the reasons why
//! none would do ([`Superblock::open`] also takes one that was torn, if its log can put it right).
//! Only what a mount must change is ever changed (counts, state, times); all other bytes are
//! written back as they were read. The replicas are not touched after newfs, as in every BSD.

use crate::format::acl;
use crate::format::beside;
use crate::format::ckhash::check_hash;
use crate::format::copies::GROUPS_ASKED;
use crate::format::dialect::{Dialect, has_snapshots, is_hpux, is_marked_clean};
use crate::format::layout::{Extent, Layout, Version};
use crate::format::ondisk::{
    AppleLabel, CK_CYLGRP, CK_INODE, CK_SUPERBLOCK, Csum, CsumTotal, FS_42POSTBLFMT, FS_BAD_MAGIC, FS_CKHASH,
    FS_HPUX_4GB, FS_HPUX_FEATURES, FS_HPUX_LFN, FS_UFS1_MAGIC, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC, Fs, FsHpUx,
    FsRecovery, FsSun, SBLOCK_UFS1, SBLOCK_UFS2, SBLOCKSEARCH, SBLOCKSIZE, flags,
};
use crate::format::pending::Pending;
use crate::format::salvage::Salvaged;
use crate::format::units::low_word;
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_ondisk::Endian;
use spindle_vfs::{AclKind, Error, Objection, Result};

/// `fs_clean` of one that was clean when it was mounted (`FS_WASCLEAN` of NetBSD).
const FS_WASCLEAN: i8 = 2;

/// A checked superblock with the bytes it was read from.
#[derive(Clone, Debug)]
pub struct Superblock {
    /// The decoded fields. Only counts, state and times are changed after opening.
    pub fs: Fs,
    /// The checked geometry.
    pub layout: Layout,
    /// Whose rules it follows.
    pub dialect: Dialect,
    /// Name of the volume in Apple's label.
    pub(crate) apple_name: Option<Vec<u8>>,
    /// Bytes of a directory chunk, where the disk shows them.
    pub(crate) chunk: Option<u32>,
    /// Set if it is only good enough to read with: see [`Superblock::salvage`].
    pub salvaged: Option<Salvaged>,
    /// `fs_sblkno` on the disk, if it is wrong there and was corrected here.
    pub(crate) wrong_sblkno: Option<i32>,
    /// In what its replicas contradict it, if most do.
    pub(crate) contradiction: Option<String>,
    pub(crate) raw: Vec<u8>,
}

/// Which structures carry check-hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CheckHashes {
    /// Superblocks.
    pub superblock: bool,
    /// Cylinder groups.
    pub groups: bool,
    /// Inodes.
    pub inodes: bool,
}

impl Superblock {
    /// Finds and checks the superblock at its standard places.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no file system of this family, [`Error::Corrupt`] if
    /// there is one whose superblock cannot be used, naming the first complaint.
    pub(crate) fn find(device: &dyn Device) -> Result<Self> {
        let mut complaint = None;
        for at in SBLOCKSEARCH {
            match Self::read(device, at) {
                Ok(Some(superblock)) => return Ok(superblock),
                Ok(None) => {}
                Err(error) => complaint = complaint.or(Some(error)),
            }
        }
        Err(complaint.unwrap_or_else(|| {
            Error::unsupported(
                format!("{}: no UFS superblock at 64K, 8K, 0 or 256K", device.info().name),
                "name the partition that holds the file system (disk.img@s1a, @p2, offset=BYTES), which spindle \
                 scan finds where there is no label",
            )
        }))
    }

    /// Reads what stands at byte `at`, one of the standard places; `None` if it is not a superblock
    /// whose place that is.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is one and cannot be used.
    pub fn read(device: &dyn Device, at: u64) -> Result<Option<Self>> {
        let Some(raw) = Self::read_raw(device, at)? else { return Ok(None) };
        let Some((fs, endian)) = decode(&raw) else { return Ok(None) };
        if fs.fs_magic == FS_BAD_MAGIC {
            return Err(Error::corrupt("newfs did not finish", format!("superblock at byte {at}")));
        }
        if !belongs(&fs, at) {
            return Ok(None);
        }
        let mut superblock = Self::checked(raw, &fs, endian, at, device)?;
        superblock.follow_replicas(device);
        superblock.contradiction = superblock.find_contradiction(device);
        Ok(Some(superblock))
    }

    /// Returns the change that the standard superblock names, and the byte of that, whose
    /// check-hash and sizes may be wrong meanwhile. Nothing is looked for behind a superblock
    /// without one: there anybody may have written what looks like a mark.
    pub(crate) fn find_pending(device: &dyn Device) -> Result<Option<(u64, Pending)>> {
        for at in SBLOCKSEARCH {
            let Some(raw) = Self::read_raw(device, at)? else { continue };
            let Some((fs, endian)) = decode(&raw).filter(|(fs, _)| belongs(fs, at)) else { continue };
            if let Some(pending) = Pending::decode(&raw) {
                return Ok(Some((at, pending)));
            }
            if Layout::check(&fs, &raw, endian, at, Extent::Whole(device.info().size_bytes)).is_ok() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Reads the replica at byte `at` of a file system whose standard superblock stands at
    /// `sblockloc`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if there is none or it cannot be used.
    pub fn read_replica(device: &dyn Device, at: u64, sblockloc: u64) -> Result<Self> {
        let none = || Error::corrupt("no superblock", format!("byte {at}"));
        let raw = Self::read_raw(device, at)?.ok_or_else(none)?;
        let (fs, endian) = decode(&raw).ok_or_else(none)?;
        Self::checked(raw, &fs, endian, sblockloc, device)
    }

    /// Returns the recovery record in front of the UFS2 superblock, if there is one.
    ///
    /// # Errors
    /// Device errors.
    pub fn read_recovery(device: &dyn Device) -> Result<Option<FsRecovery>> {
        let sector = device.info().sector_bytes as usize;
        let mut block = vec![0; sector];
        if device.info().size_bytes < SBLOCK_UFS2 {
            return Ok(None);
        }
        device.read_at(SBLOCK_UFS2 - sector as u64, &mut block)?;
        let tail = &block[sector - FsRecovery::SIZE..];
        Ok([Endian::Little, Endian::Big]
            .into_iter()
            .map(|endian| FsRecovery::decode(tail, endian))
            .find(|record| record.fsr_magic == FS_UFS2_MAGIC))
    }

    pub(crate) fn read_raw(device: &dyn Device, at: u64) -> Result<Option<Vec<u8>>> {
        if at.checked_add(SBLOCKSIZE as u64).is_none_or(|end| end > device.info().size_bytes) {
            return Ok(None);
        }
        let mut raw = vec![0; SBLOCKSIZE];
        device.read_at(at, &mut raw)?;
        Ok(Some(raw))
    }

    /// Returns the superblocks at the standard places whose check-hash may be wrong because a write
    /// was torn: a replica confirms the geometry, which no mount changes.
    pub(crate) fn find_torn(device: &dyn Device) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for at in SBLOCKSEARCH {
            let Some(raw) = Self::read_raw(device, at)? else { continue };
            let Some((fs, endian)) = decode(&raw).filter(|(fs, _)| fs.fs_sblockloc.cast_unsigned() == at)
            else {
                continue;
            };
            let extent = Extent::Whole(device.info().size_bytes);
            let Ok(torn) = Self::interpreted(raw, &fs, endian, at, extent, device) else { continue };
            let confirmed = (0..torn.layout.fs_ncg)
                .map(|cgx| torn.layout.byte(torn.layout.cgsblock(cgx)))
                .find_map(|place| Self::read_replica(device, place, at).ok())
                .is_some_and(|replica| replica.layout == torn.layout);
            if confirmed {
                found.push(torn);
            }
        }
        Ok(found)
    }

    fn checked(raw: Vec<u8>, fs: &Fs, endian: Endian, sblockloc: u64, device: &dyn Device) -> Result<Self> {
        Self::checked_in(raw, fs, endian, sblockloc, Extent::Whole(device.info().size_bytes), device)
    }

    /// Returns the superblock that these bytes are, whatever its check-hash says.
    fn interpreted(
        raw: Vec<u8>,
        fs: &Fs,
        endian: Endian,
        sblockloc: u64,
        extent: Extent,
        device: &dyn Device,
    ) -> Result<Self> {
        let layout = Layout::check(fs, &raw, endian, sblockloc, extent)?;
        let (dialect, chunk) = beside::look(device, &layout, Dialect::detect(fs, &raw, &layout));
        let label = (dialect == Dialect::Apple).then(|| AppleLabel::read(device)).flatten();
        let apple_name = label.map(|label| label.name().to_vec());
        let (salvaged, wrong_sblkno, contradiction) = (None, None, None);
        let mut superblock =
            Self { fs: *fs, layout, dialect, apple_name, chunk, raw, salvaged, wrong_sblkno, contradiction };
        superblock.set_dialect(dialect);
        Ok(superblock)
    }

    /// Reads it by the rules of `dialect` from now on, whatever it looks like; but what the disk
    /// shows of the chunks of its directories stays.
    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
        self.layout.adopt(&self.fs, dialect, self.chunk);
    }

    /// Returns the superblock that these bytes are, if everything in it can be: `fs` is what they
    /// say, and the standard superblock stands at `sblockloc`.
    pub(crate) fn checked_in(
        raw: Vec<u8>,
        fs: &Fs,
        endian: Endian,
        sblockloc: u64,
        extent: Extent,
        device: &dyn Device,
    ) -> Result<Self> {
        let superblock = Self::interpreted(raw, fs, endian, sblockloc, extent, device)?;
        if superblock.check_hashes().superblock {
            let hash = superblock.hash(&superblock.raw);
            if hash != fs.fs_ckhash {
                return Err(Error::corrupt(
                    format!("check-hash {:#010x} is recorded, {hash:#010x} computed", fs.fs_ckhash),
                    format!("superblock at byte {sblockloc}"),
                ));
            }
        }
        Ok(superblock)
    }

    /// Corrects `fs_sblkno`, unless a check-hash vouches for it, if no replica of the first groups
    /// is where it says, and one is where newfs puts them and says so itself. A wrong number would
    /// make data of files count as metadata, or metadata as free. Where it says what newfs says,
    /// nothing is read.
    fn follow_replicas(&mut self, device: &dyn Device) {
        if self.check_hashes().superblock {
            return;
        }
        let layout = &self.layout;
        // On the first border of a block behind the superblock.
        let border = (layout.fs_sblockloc + SBLOCKSIZE as u64).next_multiple_of(layout.fs_bsize.into());
        let usual = u32::try_from(border >> layout.fs_fshift).unwrap_or(u32::MAX);
        if usual == layout.fs_sblkno || usual >= layout.fs_cblkno {
            return;
        }
        let is_confirmed = |sblkno: u32| -> Result<bool> {
            for cgx in 0..layout.fs_ncg.min(GROUPS_ASKED) {
                let raw = Self::read_raw(device, layout.byte(layout.cgstart(cgx) + u64::from(sblkno)))?;
                let replica = raw.and_then(|raw| decode_replica(&raw, layout));
                if replica.is_some_and(|fs| fs.fs_sblkno == sblkno.cast_signed()) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        // What cannot be read may confirm either.
        if let (Ok(false), Ok(true)) = (is_confirmed(layout.fs_sblkno), is_confirmed(usual)) {
            self.wrong_sblkno = Some(self.fs.fs_sblkno);
            self.layout.fs_sblkno = usual;
            self.change(|fs| fs.fs_sblkno = usual.cast_signed());
        }
    }

    fn hash(&self, raw: &[u8]) -> u32 {
        check_hash(&raw[..self.layout.fs_sbsize as usize], FS_CKHASH)
    }

    /// Returns the bytes as last read or written.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Returns the name of the volume, up to its first NUL; empty where there is none.
    #[must_use]
    pub fn volume_name(&self) -> &[u8] {
        let field: &[u8] = match &self.apple_name {
            Some(name) => name,
            None if self.has_new_fields() => &self.fs.fs_volname,
            None => &[],
        };
        field.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Flags of the dialect.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.dialect.flags(&self.fs, &self.layout)
    }

    /// Returns true if NetBSD keeps quotas inside the file system.
    pub(crate) fn keeps_quotas_inside(&self) -> bool {
        self.dialect == Dialect::NetBsd && self.flags() & flags::NETBSD_DOQUOTA2 != 0
    }

    /// Returns which access control lists are switched on.
    #[must_use]
    pub fn acls(&self) -> AclKind {
        acl::kind_of(self)
    }

    /// Returns true if this format and its system can have access control lists.
    #[must_use]
    pub fn can_have_acls(&self) -> bool {
        acl::nfs4_flag(self.dialect).is_some() && self.dialect.has_extattr(&self.fs, &self.layout)
    }

    /// Returns which structures carry check-hashes that must be kept right.
    #[must_use]
    pub fn check_hashes(&self) -> CheckHashes {
        let on = self.dialect == Dialect::FreeBsd
            && self.layout.version == Version::Ufs2
            && self.fs.fs_flags & flags::FREEBSD_METACKHASH != 0;
        let has = |bit| on && self.fs.fs_metackhash & bit != 0;
        CheckHashes { superblock: has(CK_SUPERBLOCK), groups: has(CK_CYLGRP), inodes: has(CK_INODE) }
    }

    /// Brings its bytes up to date with its fields, as [`Self::write`] is going to write them.
    pub(crate) fn seal(&mut self) {
        let _ = self.encode(self.layout.fs_sblockloc);
    }

    /// Returns true if nothing says that it was left in use. Of 4.2BSD and 4.3BSD, which have no
    /// clean flag, that is less than [`Self::is_clean`] says.
    #[must_use]
    pub fn is_marked_clean(&self) -> bool {
        matches!(self.dialect, Dialect::Bsd43 | Dialect::NextStep) && is_marked_clean(&self.fs, self.dialect)
            || self.is_clean()
    }

    /// Returns true if the device says that it is not in use.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        match self.dialect {
            Dialect::Sun { .. } => matches!(self.fs.fs_clean, FsSun::FSCLEAN | FsSun::FSSTABLE),
            dialect => self.fs.fs_clean == dialect.clean_value(),
        }
    }

    /// Returns the counts of the whole file system, from where its dialect looks for them. In UFS1
    /// whose flags have moved that is `fs_cstotal`: NetBSD leaves the old counts alone from then
    /// on. OpenBSD goes on with the old ones.
    #[must_use]
    pub fn totals(&self) -> CsumTotal {
        match self.dialect {
            Dialect::OpenBsd if self.layout.version == Version::Ufs1 => self.old_totals(),
            _ if self.has_new_fields() => self.fs.fs_cstotal,
            _ => self.old_totals(),
        }
    }

    /// Returns the counts where systems before UFS2 keep them.
    #[must_use]
    pub fn old_totals(&self) -> CsumTotal {
        let old = self.fs.fs_old_cstotal;
        CsumTotal {
            cs_ndir: old.cs_ndir.into(),
            cs_nbfree: old.cs_nbfree.into(),
            cs_nifree: old.cs_nifree.into(),
            cs_nffree: old.cs_nffree.into(),
            ..CsumTotal::default()
        }
    }

    /// Sets the counts wherever any system looks for them in this version.
    pub fn set_totals(&mut self, totals: &CsumTotal) {
        if self.has_new_fields() {
            let CsumTotal { cs_ndir, cs_nbfree, cs_nifree, cs_nffree, .. } = *totals;
            self.fs.fs_cstotal = CsumTotal { cs_ndir, cs_nbfree, cs_nifree, cs_nffree, ..self.fs.fs_cstotal };
        }
        if self.layout.version == Version::Ufs1 {
            let narrow = |v: i64| i32::try_from(v).unwrap_or(i32::MAX);
            self.fs.fs_old_cstotal = Csum {
                cs_ndir: narrow(totals.cs_ndir),
                cs_nbfree: narrow(totals.cs_nbfree),
                cs_nifree: narrow(totals.cs_nifree),
                cs_nffree: narrow(totals.cs_nffree),
            };
        }
    }

    /// Returns when it was written last, in seconds since 1970.
    #[must_use]
    pub fn written_at(&self) -> i64 {
        if self.has_new_fields() { self.fs.fs_time } else { self.fs.fs_old_time.cast_unsigned().into() }
    }

    /// Returns true if the fields that came with UFS2 are in use.
    pub(crate) fn has_new_fields(&self) -> bool {
        self.layout.version == Version::Ufs2 || self.layout.flags_updated
    }

    /// Marks it in use (before the first change) or clean (after the last), at `now`. `logged` says
    /// whether there is a log that makes good an unclean end.
    pub fn set_clean(&mut self, clean: bool, logged: bool, now: Timestamp) {
        self.fs.fs_clean = match self.dialect {
            _ if clean => self.dialect.clean_value(),
            // A file system with a log that is replayed was clean before, and will be again.
            Dialect::NetBsd if logged => FS_WASCLEAN,
            _ => 0,
        };
        let in_use = match self.dialect {
            // It mounts what soft updates have left behind without a check.
            Dialect::FreeBsd => flags::FS_NEEDSFSCK,
            // It believes what a log has left behind.
            Dialect::NetBsd if logged => flags::NETBSD_DOWAPBL,
            _ => 0,
        };
        if self.has_new_fields() {
            if self.dialect == Dialect::NetBsd {
                self.fs.fs_flags &= !flags::NETBSD_DOWAPBL;
            }
            self.fs.fs_flags = if clean { self.fs.fs_flags & !in_use } else { self.fs.fs_flags | in_use };
        }
        self.set_time(now);
        // Where there is no clean flag, this one says it; elsewhere it is of no use on a disk.
        self.fs.fs_fmod = i8::from(!clean && self.dialect.base() == Dialect::Bsd43);
        if let Dialect::Sun { x86 } = self.dialect {
            let state = FsSun::FSOKAY.wrapping_sub(self.fs.fs_old_time);
            if x86 {
                self.fs.fs_old_npsect = state;
            } else {
                let mut sun = FsSun::decode(&self.raw, self.layout.endian);
                sun.fs_state = state;
                sun.encode(&mut self.raw, self.layout.endian);
            }
        }
    }

    /// Returns true if FreeBSD keeps a journal of soft updates in it.
    #[must_use]
    pub fn has_journal(&self) -> bool {
        self.dialect == Dialect::FreeBsd && self.flags() & flags::FS_SUJ != 0
    }

    /// Returns true if Solaris keeps a log in it.
    #[must_use]
    pub fn has_solaris_log(&self) -> bool {
        matches!(self.dialect, Dialect::Sun { .. }) && self.fs.fs_clean == FsSun::FSLOG
    }

    /// Returns what it is to be when a full check has found no damage. As FreeBSD's does, such a
    /// check stands in for the journal of soft updates, and outdates it (`fsck_ffs/main.c`). A log
    /// of Solaris is given up, as by a mount with `nologging`: what is written without it must not
    /// be replayed over.
    pub(crate) fn as_checked(&self, now: Timestamp) -> Self {
        let mut marked = self.clone();
        marked.set_clean(true, false, now);
        let journal = self.has_journal();
        if journal {
            marked.note_mount(now);
        }
        let new_fields = self.has_new_fields();
        marked.change(|fs| {
            self.dialect.clear_flags(fs, &self.layout, flags::FS_UNCLEAN | flags::FS_NEEDSFSCK);
            if new_fields {
                (fs.fs_pendingblocks, fs.fs_pendinginodes) = (0, 0);
            }
            if journal {
                fs.fs_sujfree = 0;
            }
        });
        if let Dialect::Sun { .. } = self.dialect {
            let mut sun = FsSun::decode(&marked.raw, self.layout.endian);
            (sun.fs_logbno, sun.fs_rolled) = (0, FsSun::FS_ALL_ROLLED);
            sun.encode(&mut marked.raw, self.layout.endian);
        }
        marked
    }

    /// Marks a file system as clean in which a full check has found no damage, and makes that
    /// durable, as fsck does. Snapshots have a copy of the superblock from the beginning. Returns
    /// what forbids that, in which case nothing is written.
    ///
    /// # Errors
    /// Device errors.
    pub fn mark_checked(&mut self, device: &dyn Device, now: Timestamp) -> Result<Vec<Objection>> {
        let mut marked = self.as_checked(now);
        let objections = marked.objections_to_mounting(device)?;
        if objections.is_empty() {
            marked.write(device)?;
            device.flush()?;
            *self = marked;
        }
        Ok(objections)
    }

    /// Sets when it was written.
    pub fn set_time(&mut self, now: Timestamp) {
        if self.has_new_fields() {
            self.fs.fs_time = now.secs;
        }
        if self.layout.version == Version::Ufs1 {
            self.fs.fs_old_time = low_word(now.secs);
        }
    }

    /// Notes a read-write mount or a repair: a journal of soft updates left from before must not be
    /// believed any more, which FreeBSD checks by comparing `fs_mtime` (`fsck_ffs/suj.c`).
    pub fn note_mount(&mut self, now: Timestamp) {
        if self.dialect == Dialect::FreeBsd && self.has_new_fields() {
            // Another value is all that counts; behind the last one there is the time now.
            self.fs.fs_mtime = now.secs.max(self.fs.fs_mtime.wrapping_add(1));
        }
    }

    /// Returns the bytes to write for a copy that stands at byte `at`, with its check-hash.
    #[must_use]
    pub fn encode(&mut self, at: u64) -> Vec<u8> {
        let endian = self.layout.endian;
        if self.fs.fs_sblockactualloc > 0 && self.has_new_fields() {
            self.fs.fs_sblockactualloc = at.cast_signed();
        }
        let mut raw = self.raw.clone();
        self.encode_known(&mut raw);
        if self.check_hashes().superblock {
            self.fs.fs_ckhash = self.hash(&raw);
            self.fs.encode_hash(&mut raw, endian);
        }
        self.raw.clone_from(&raw);
        raw
    }

    /// Overwrites just the fields that a mount changes: in old formats the others are other
    /// people's tables.
    fn encode_known(&self, raw: &mut [u8]) {
        let endian = self.layout.endian;
        let mut base = Fs::decode(raw, endian);
        base.fs_fmod = self.fs.fs_fmod;
        base.fs_clean = self.fs.fs_clean;
        base.fs_cgrotor = self.fs.fs_cgrotor;
        base.fs_old_time = self.fs.fs_old_time;
        base.fs_old_cstotal = self.fs.fs_old_cstotal;
        base.fs_old_npsect = self.fs.fs_old_npsect;
        base.fs_minfree = self.fs.fs_minfree;
        base.fs_optim = self.fs.fs_optim;
        if self.has_new_fields() {
            base.fs_cstotal = self.fs.fs_cstotal;
            base.fs_time = self.fs.fs_time;
            base.fs_mtime = self.fs.fs_mtime;
            base.fs_flags = self.fs.fs_flags;
            base.fs_sblockactualloc = self.fs.fs_sblockactualloc;
        }
        if has_snapshots(&self.layout, self.dialect) {
            base.fs_snapinum = self.fs.fs_snapinum;
        }
        base.encode(raw, endian);
    }

    /// Changes fields besides those that a mount changes. The caller knows that this format has
    /// them where [`Fs`] does.
    pub(crate) fn change(&mut self, change: impl Fn(&mut Fs)) {
        let mut base = Fs::decode(&self.raw, self.layout.endian);
        change(&mut base);
        base.encode(&mut self.raw, self.layout.endian);
        change(&mut self.fs);
    }

    /// Returns the bytes of it that are written to a device with sectors of `sector` bytes.
    pub(crate) fn written_bytes(&self, sector: usize) -> usize {
        (self.layout.fs_sbsize as usize).next_multiple_of(sector).min(SBLOCKSIZE)
    }

    /// Writes the standard superblock.
    ///
    /// # Errors
    /// Device errors.
    pub fn write(&mut self, device: &dyn Device) -> spindle_device::Result<()> {
        let at = self.layout.fs_sblockloc;
        let raw = self.encode(at);
        device.write_at(at, &raw[..self.written_bytes(device.info().sector_bytes as usize)])?;
        (self.wrong_sblkno, self.contradiction) = (None, None);
        Ok(())
    }
}

impl Fs {
    fn encode_hash(&self, raw: &mut [u8], endian: Endian) {
        spindle_ondisk::Field::put(&self.fs_ckhash, &mut raw[FS_CKHASH..], endian);
    }
}

/// Returns true if a superblock at byte `at`, one of the standard places, is in its own place.
const fn belongs(fs: &Fs, at: u64) -> bool {
    match fs.fs_magic {
        // At 64K stands the first alternate of a UFS1 with 64K blocks.
        FS_UFS1_MAGIC => at != SBLOCK_UFS2,
        FS_HPUX_LFN | FS_HPUX_FEATURES | FS_HPUX_4GB => at == SBLOCK_UFS1,
        FS_UFS2_MAGIC | FS_UFS2EA_MAGIC => fs.fs_sblockloc.cast_unsigned() == at,
        _ => false,
    }
}

/// Decodes with the byte order that makes the magic one of ours.
pub(crate) fn decode(raw: &[u8]) -> Option<(Fs, Endian)> {
    [Endian::Little, Endian::Big]
        .into_iter()
        .map(|endian| (decode_as(raw, endian), endian))
        .find(|(fs, _)| MAGICS.contains(&fs.fs_magic))
}

/// Magics of superblocks, and of those that newfs did not finish.
pub(crate) const MAGICS: [i32; 7] =
    [FS_UFS1_MAGIC, FS_UFS2_MAGIC, FS_UFS2EA_MAGIC, FS_BAD_MAGIC, FS_HPUX_LFN, FS_HPUX_FEATURES, FS_HPUX_4GB];

/// Returns true for a magic of a file system that newfs has finished.
pub(crate) fn is_finished(magic: i32) -> bool {
    magic != FS_BAD_MAGIC && MAGICS.contains(&magic)
}

/// Decodes the replica of a superblock with this layout; none if it is none.
pub(crate) fn decode_replica(raw: &[u8], layout: &Layout) -> Option<Fs> {
    decode(raw).filter(|(fs, endian)| *endian == layout.endian && is_finished(fs.fs_magic)).map(|(fs, _)| fs)
}

/// Decodes in one byte order; what HP-UX keeps elsewhere comes to its usual place.
fn decode_as(raw: &[u8], endian: Endian) -> Fs {
    let mut fs = Fs::decode(raw, endian);
    if is_hpux(&fs) {
        let hpux = FsHpUx::decode(raw, endian);
        (fs.fs_id, fs.fs_optim) = (hpux.fs_id, hpux.fs_optim);
        (fs.fs_old_npsect, fs.fs_old_interleave, fs.fs_old_trackskew) = (fs.fs_old_nsect, 1, 0);
        fs.fs_old_postblformat = FS_42POSTBLFMT;
    }
    fs
}
