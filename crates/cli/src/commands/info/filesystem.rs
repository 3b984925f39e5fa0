//! The report of `spindle info` on a fast file system: its superblock, with the numbers of dumpfs.

use super::found::FoundInfo;
use crate::error::Result;
use crate::logger;
use crate::output::Output;
use crate::text;
use serde::Serialize;
use spindle::detect::version_name;
use spindle::newfs::clock;
use spindle::set::MountedAt;
use spindle_clock::Timestamp;
use spindle_device::Device;
use spindle_ffs::ondisk::{FS_OPTSPACE, flags};
use spindle_ffs::{CheckHashes, Dialect, Ffs, FoundLog, LogPlace, Replay, Superblock, Version};
use spindle_report::number;
use spindle_vfs::Objection;
use std::sync::Arc;

/// A fast file system. The names are those of `fs.h`.
#[derive(Debug, Serialize)]
pub struct FileSystemInfo {
    version: &'static str,
    dialect: String,
    inode_format: &'static str,
    #[serde(skip)]
    format: &'static str,
    byte_order: &'static str,
    superblock_at: u64,
    /// The byte of the copy that is shown instead of the superblock: its counts, dates and state
    /// are as old as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_at: Option<u64>,
    size_bytes: u64,
    clean: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mounted: Option<MountedAt>,
    writable: bool,
    pub objections: Vec<Objection>,
    volume_name: String,
    last_mounted_on: String,
    fs_id: String,
    last_written: String,
    flags: Vec<&'static str>,
    check_hashes: CheckHashes,
    log: Option<LogInfo>,
    /// The journal of another system that is to be followed first, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<String>,
    fs_bsize: u32,
    fs_fsize: u32,
    fs_frag: u32,
    fs_size: u64,
    fs_dsize: u64,
    fs_ncg: u32,
    fs_fpg: u32,
    fs_ipg: u32,
    fs_minfree: i32,
    fs_optim: &'static str,
    fs_maxcontig: i32,
    fs_maxbpg: i32,
    fs_avgfilesize: Option<u32>,
    fs_avgfpdir: Option<u32>,
    fs_contigsumsize: u32,
    fs_maxfilesize: u64,
    fs_sblkno: u32,
    fs_cblkno: u32,
    fs_iblkno: u32,
    fs_dblkno: u32,
    fs_cgsize: u32,
    fs_sbsize: u32,
    fs_csaddr: u64,
    fs_cssize: u32,
    cs_ndir: i64,
    cs_nbfree: i64,
    cs_nifree: i64,
    cs_nffree: i64,
    free_bytes: u64,
    geometry: Option<Geometry>,
}

/// The disk geometry that a UFS1 file system is laid out for.
#[derive(Debug, Serialize)]
struct Geometry {
    rotational_tables: bool,
    rps: i32,
    nsect: u32,
    ntrak: i32,
    spc: u32,
    cpg: u32,
    ncyl: i32,
    nrpos: u32,
    rotdelay_ms: i32,
    interleave: u32,
    trackskew: u32,
    cgoffset: u32,
}

/// The log of a file system.
#[derive(Debug, Serialize)]
struct LogInfo {
    /// Offset, length, and the inode that holds the log.
    #[serde(flatten)]
    place: LogPlace,
    /// Its last writer: `Spindle` or `NetBSD`.
    writer: Option<&'static str>,
    /// `empty`, `ready` (the file system is clean), `recovery`, `useless`, or `unknown` to a copy
    /// of the superblock, which does not say what was logged after it.
    state: &'static str,
    /// Blocks of 512 bytes to replay.
    blocks: usize,
    /// The reason why it is useless.
    reason: Option<String>,
}

impl LogInfo {
    fn of(superblock: &Superblock, device: &dyn Device) -> spindle_vfs::Result<Option<Self>> {
        let Some(place) = superblock.log_place() else { return Ok(None) };
        if copy_of(superblock).is_some() {
            return Ok(Some(Self { place, writer: None, state: "unknown", blocks: 0, reason: None }));
        }
        let (state, blocks, writer, reason) = match FoundLog::look(device, superblock)? {
            FoundLog::None => return Ok(None),
            FoundLog::Ready(replay) if replay.is_empty() => ("empty", 0, Some(writer(&replay)), None),
            FoundLog::Ready(replay) => ("ready", 0, Some(writer(&replay)), None),
            FoundLog::Recovery(replay) => ("recovery", replay.blocks(), Some(writer(&replay)), None),
            FoundLog::Useless(reason) => ("useless", 0, None, Some(reason)),
        };
        Ok(Some(Self { place, writer, state, blocks, reason }))
    }

    fn text(&self) -> String {
        let LogPlace { at, len, ino } = self.place;
        let place = ino.map_or_else(|| "behind the file system".into(), |ino| format!("inode {ino}"));
        let state = match (self.state, &self.reason) {
            ("recovery", _) => format!("{} blocks to replay", self.blocks),
            ("ready", _) => "nothing to replay".into(),
            ("unknown", _) => "with contents of which the copy of the superblock says nothing".into(),
            (_, Some(reason)) => format!("useless: {reason}"),
            (state, None) => state.into(),
        };
        let writer = self.writer.map_or_else(String::new, |writer| format!(", written by {writer}"));
        format!("{} at byte {at}, {place}, {state}{writer}", number::bytes(len))
    }
}

/// Returns the byte of the copy that a superblock is, if it is one.
fn copy_of(superblock: &Superblock) -> Option<u64> {
    superblock.salvaged.as_ref().and_then(|salvaged| salvaged.copy_at)
}

/// Returns the last writer of a log.
fn writer(replay: &Replay) -> &'static str {
    if replay.stamp().is_some() { "Spindle" } else { "NetBSD" }
}

impl FileSystemInfo {
    /// Collects the report from a superblock and the log on the device.
    pub fn of(
        superblock: &Superblock,
        device: &Arc<dyn Device>,
        mounted: Option<MountedAt>,
    ) -> spindle_vfs::Result<Self> {
        let Superblock { fs, layout, dialect, .. } = superblock;
        // The mount has met them, or was forced.
        let is_written = mounted.as_ref().is_some_and(|at| !at.read_only);
        let objections = if is_written {
            Vec::new()
        } else {
            let clock = clock(None);
            // It reports what it has met.
            logger::quietly(|| Ffs::objections_to_writing(superblock, device, &clock))?
        };
        let totals = superblock.totals();
        let free = totals.cs_nbfree.saturating_mul(layout.fs_frag.into()).saturating_add(totals.cs_nffree);
        let new_fields = layout.version == Version::Ufs2 || layout.flags_updated;
        let text_of = |bytes: &[u8]| text::encoded(bytes.split(|&b| b == 0).next().unwrap_or_default());
        let geometry = layout.rotation.as_ref().map(|r| Geometry {
            rotational_tables: r.fs_old_cpc > 0,
            rps: fs.fs_old_rps,
            nsect: r.fs_old_nsect,
            ntrak: fs.fs_ntrak(),
            spc: r.fs_old_spc,
            cpg: r.fs_old_cpg,
            ncyl: fs.fs_old_ncyl,
            nrpos: r.fs_old_nrpos,
            rotdelay_ms: fs.fs_old_rotdelay,
            interleave: r.fs_old_interleave,
            trackskew: r.fs_old_trackskew,
            cgoffset: layout.fs_old_cgoffset,
        });
        Ok(Self {
            version: text::version_name(layout.version),
            dialect: dialect.to_string(),
            inode_format: text::inode_format(layout.inode_format),
            format: version_name(layout.version, layout.inode_format),
            byte_order: text::endian(layout.endian),
            superblock_at: layout.fs_sblockloc,
            copy_at: copy_of(superblock),
            size_bytes: layout.fs_size << layout.fs_fshift,
            clean: superblock.is_marked_clean(),
            mounted,
            writable: objections.is_empty(),
            objections,
            volume_name: text_of(superblock.volume_name()),
            last_mounted_on: text_of(&fs.fs_fsmnt),
            fs_id: format!("{:08x}{:08x}", fs.fs_id[0], fs.fs_id[1]),
            last_written: Timestamp::new(superblock.written_at(), 0).to_string(),
            flags: flag_names(*dialect, superblock.flags()),
            check_hashes: superblock.check_hashes(),
            log: LogInfo::of(superblock, &**device)?,
            journal: superblock.pending_journal().map(|kind| kind.to_string()),
            fs_bsize: layout.fs_bsize,
            fs_fsize: layout.fs_fsize,
            fs_frag: layout.fs_frag,
            fs_size: layout.fs_size,
            fs_dsize: layout.fs_dsize,
            fs_ncg: layout.fs_ncg,
            fs_fpg: layout.fs_fpg,
            fs_ipg: layout.fs_ipg,
            fs_minfree: fs.fs_minfree,
            fs_optim: if fs.fs_optim == FS_OPTSPACE { "space" } else { "time" },
            fs_maxcontig: fs.fs_maxcontig,
            fs_maxbpg: fs.fs_maxbpg,
            fs_avgfilesize: new_fields.then_some(fs.fs_avgfilesize),
            fs_avgfpdir: new_fields.then_some(fs.fs_avgfpdir),
            fs_contigsumsize: layout.fs_contigsumsize,
            fs_maxfilesize: layout.fs_maxfilesize,
            fs_sblkno: layout.fs_sblkno,
            fs_cblkno: layout.fs_cblkno,
            fs_iblkno: layout.fs_iblkno,
            fs_dblkno: layout.fs_dblkno,
            fs_cgsize: layout.fs_cgsize,
            fs_sbsize: layout.fs_sbsize,
            fs_csaddr: layout.fs_csaddr.0,
            fs_cssize: layout.fs_cssize,
            cs_ndir: totals.cs_ndir,
            cs_nbfree: totals.cs_nbfree,
            cs_nifree: totals.cs_nifree,
            cs_nffree: totals.cs_nffree,
            free_bytes: u64::try_from(free).unwrap_or(0).saturating_mul(layout.fs_fsize.into()),
            geometry,
        })
    }

    /// Returns format, dialect, size and state in one line.
    pub fn summary(&self) -> String {
        let state = match (self.copy_at, self.clean) {
            (Some(_), _) => {
                FoundInfo::state(self.mounted.as_ref(), "free space and state unknown", self.writable)
            }
            (None, clean) => {
                let free = number::bytes(self.free_bytes);
                let clean = if clean { "clean" } else { "not clean" };
                format!("{free} free, {}", FoundInfo::state(self.mounted.as_ref(), clean, self.writable))
            }
        };
        format!(
            "{} of {}, {}-endian, {}, {state}",
            self.format,
            self.dialect,
            self.byte_order,
            number::bytes(self.size_bytes),
        )
    }

    /// Prints everything except the summary, for people.
    pub fn show(&self, out: &mut Output) -> Result<()> {
        let mut row = |name: &str, value: String| out.row(name, &value);
        if let Some(at) = self.copy_at {
            row("copy", format!("of the superblock, at byte {at}; what follows is as old as it is"))?;
        }
        if !self.volume_name.is_empty() {
            row("volume", self.volume_name.clone())?;
        }
        if !self.last_mounted_on.is_empty() {
            row("last mount", self.last_mounted_on.clone())?;
        }
        row("written", format!("{}  id {}", self.last_written, self.fs_id))?;
        if !self.flags.is_empty() {
            row("flags", self.flags.join(", "))?;
        }
        let hashes: Vec<&str> = [
            (self.check_hashes.superblock, "superblocks"),
            (self.check_hashes.groups, "groups"),
            (self.check_hashes.inodes, "inodes"),
        ]
        .into_iter()
        .filter_map(|(on, name)| on.then_some(name))
        .collect();
        if !hashes.is_empty() {
            row("check-hashes", hashes.join(", "))?;
        }
        if let Some(log) = &self.log {
            row("log", log.text())?;
        }
        if let Some(journal) = &self.journal {
            row("journal", format!("{journal}, followed by fsck -p and by the first mount that writes"))?;
        }
        row("blocks", format!("bsize {} fsize {} frag {}", self.fs_bsize, self.fs_fsize, self.fs_frag))?;
        row(
            "size",
            format!(
                "{} fragments, {} for data; largest file {} bytes",
                self.fs_size, self.fs_dsize, self.fs_maxfilesize
            ),
        )?;
        row("groups", format!("ncg {} fpg {} ipg {}", self.fs_ncg, self.fs_fpg, self.fs_ipg))?;
        row(
            "free",
            format!(
                "nbfree {} nffree {} nifree {}; ndir {}",
                self.cs_nbfree, self.cs_nffree, self.cs_nifree, self.cs_ndir
            ),
        )?;
        row(
            "layout",
            format!(
                "superblock at byte {}; sblkno {} cblkno {} iblkno {} dblkno {} csaddr {}",
                self.superblock_at,
                self.fs_sblkno,
                self.fs_cblkno,
                self.fs_iblkno,
                self.fs_dblkno,
                self.fs_csaddr
            ),
        )?;
        row(
            "structures",
            format!("sbsize {} cgsize {} cssize {}", self.fs_sbsize, self.fs_cgsize, self.fs_cssize),
        )?;
        let expected = match (self.fs_avgfilesize, self.fs_avgfpdir) {
            (Some(size), Some(files)) => format!(" avgfilesize {size} avgfpdir {files}"),
            _ => String::new(),
        };
        row(
            "policy",
            format!(
                "minfree {}% optim {} maxcontig {} maxbpg {} contigsumsize {}{expected}",
                self.fs_minfree, self.fs_optim, self.fs_maxcontig, self.fs_maxbpg, self.fs_contigsumsize
            ),
        )?;
        if let Some(g) = &self.geometry {
            row(
                "disk",
                format!(
                    "rps {} nsect {} ntrak {} spc {} cpg {} ncyl {} interleave {} trackskew {}",
                    g.rps, g.nsect, g.ntrak, g.spc, g.cpg, g.ncyl, g.interleave, g.trackskew
                ),
            )?;
            let tables = if g.rotational_tables { "tables" } else { "no tables" };
            row(
                "rotation",
                format!(
                    "{tables}, nrpos {} rotdelay {} ms, groups shifted by {}",
                    g.nrpos, g.rotdelay_ms, g.cgoffset
                ),
            )?;
        }
        Ok(())
    }
}

/// Returns the names of flags; the systems use some bits for different flags.
fn flag_names(dialect: Dialect, bits: u32) -> Vec<&'static str> {
    let netbsd = dialect == Dialect::NetBsd;
    [
        (flags::FS_UNCLEAN, "was mounted unclean"),
        (flags::FS_DOSOFTDEP, "soft updates"),
        (flags::FS_NEEDSFSCK, "needs fsck"),
        (flags::FS_SUJ, "journaled soft updates"),
        (flags::FS_ACLS, "POSIX.1e ACLs"),
        (flags::FS_MULTILABEL, "multilabel"),
        (flags::FS_GJOURNAL, "gjournal"),
        (flags::FREEBSD_NFS4ACLS, if netbsd { "WAPBL journal" } else { "NFSv4 ACLs" }),
        (flags::FREEBSD_METACKHASH, if netbsd { "quotas inside" } else { "check-hashes" }),
        (flags::FS_TRIM, "trim"),
        (flags::NETBSD_NFS4ACLS, "NFSv4 ACLs"),
    ]
    .into_iter()
    .filter_map(|(bit, name)| (bits & bit != 0).then_some(name))
    .collect()
}
