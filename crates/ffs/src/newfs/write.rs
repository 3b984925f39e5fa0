//! Writing a planned file system.
//!
//! The order makes an interrupted newfs harmless: first superblocks of what was there lose their
//! magic and the new one's place gets that of an unfinished file system, then everything else is
//! written, and after a barrier the finished superblock. So at no time does an old superblock stand
//! for what is no longer whole. Each group's superblock copy, group block and inodes stand together
//! and are written in one piece. UFS1 needs all its inodes initialised, UFS2 only the first two
//! blocks of each group.

use super::block::positive;
use super::plan::{Plan, encode};
use super::wipe;
use crate::format::ckhash::check_hash;
use crate::format::dialect::Dialect;
use crate::format::layout::Version;
use crate::format::ondisk::{
    AppleLabel, CK_INODE, CK_SUPERBLOCK, Csum, CsumTotal, DI_CKHASH, FS_BAD_MAGIC, FS_CKHASH, Fs, FsRecovery,
    SBLOCK_UFS2,
};
use crate::format::superblock::Superblock;
use crate::format::units::{index, low_word};
use rand::RngCore;
use spindle_clock::{Clock, Timestamp};
use spindle_device::{AlignedBuf, Device, Op, Request, Ticket};
use spindle_ondisk::Field;
use spindle_vfs::{Error, Result};
use std::collections::VecDeque;

/// Byte offset of the magic.
const FS_MAGIC: usize = 1372;
/// Requests kept under way.
const IN_FLIGHT: usize = 8;

/// Values that are fixed when writing starts.
struct Stamp {
    now: Timestamp,
    id: i32,
    totals: CsumTotal,
    media_bytes: u64,
}

/// Writes in flight, so that a slow device sees more than one at a time.
struct Queue<'a> {
    device: &'a dyn Device,
    tickets: VecDeque<Ticket>,
}

impl Queue<'_> {
    fn write(&mut self, offset: u64, buf: AlignedBuf) -> Result<()> {
        if self.tickets.len() == IN_FLIGHT {
            self.wait_one()?;
        }
        self.tickets.push_back(self.device.submit(Request { op: Op::Write, offset, buf })?);
        Ok(())
    }

    fn wait_one(&mut self) -> Result<()> {
        if let Some(ticket) = self.tickets.pop_front() {
            self.device.wait(ticket)?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        let mut result = Ok(());
        while let Some(ticket) = self.tickets.pop_front() {
            let one = self.device.wait(ticket);
            if result.is_ok() {
                result = one.map(drop).map_err(Error::from);
            }
        }
        result
    }
}

/// Writes the planned file system to `device`, with the time of `clock` and identity and
/// generations from `random`: the same plan, time and random numbers give the same bytes.
/// `progress` is called after each cylinder group, with the number written and that of all.
///
/// # Errors
/// [`Error::Unsupported`] if the device is too small or its sectors too large; device errors. The
/// device then holds no file system, or an unfinished one.
pub fn write(
    plan: &Plan,
    device: &dyn Device,
    clock: &dyn Clock,
    random: &mut dyn RngCore,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<Superblock> {
    let layout = &plan.layout;
    check_device(plan, device)?;
    let stamp = Stamp {
        now: clock.now(),
        id: positive(random),
        totals: plan.totals(),
        media_bytes: device.info().size_bytes,
    };

    wipe::standard_superblocks(layout, device)?;
    device.flush()?;
    let mut unfinished = superblock(plan, &stamp, layout.fs_sblockloc);
    FS_BAD_MAGIC.put(&mut unfinished[FS_MAGIC..], layout.endian);
    device.write_at(layout.fs_sblockloc, &unfinished)?;
    device.flush()?;
    wipe::other_file_systems(layout, device)?;

    let mut queue = Queue { device, tickets: VecDeque::new() };
    let written = write_groups(plan, &stamp, random, &mut queue, progress);
    queue.drain().and(written)?;
    write_summaries(plan, device)?;
    for directory in &plan.directories {
        device.write_at(layout.byte(directory.frag), &directory.contents(layout))?;
    }
    if layout.version == Version::Ufs2 {
        write_recovery(plan, device)?;
    }
    if plan.dialect == Dialect::Apple {
        let name = if plan.wishes.label.is_empty() { "untitled" } else { &plan.wishes.label };
        let label = AppleLabel::new_bytes(name.as_bytes(), stamp.now.secs, random.next_u64());
        wipe::patch(device, AppleLabel::AT, &label)?;
    }
    device.flush()?;
    device.write_at(layout.fs_sblockloc, &superblock(plan, &stamp, layout.fs_sblockloc))?;
    device.flush()?;
    Superblock::open(device)
}

fn check_device(plan: &Plan, device: &dyn Device) -> Result<()> {
    let info = device.info();
    let refuse = |what: String, remedy: &str| Err(Error::unsupported(format!("newfs: {what}"), remedy));
    if info.read_only {
        return Err(spindle_device::Error::ReadOnly { device: info.name.clone() }.into());
    }
    let fsize = plan.layout.fs_fsize;
    if fsize < info.sector_bytes {
        let what = format!("fragments of {fsize} bytes on sectors of {}", info.sector_bytes);
        return refuse(what, "name the device's sector size, or a fragment size not below it");
    }
    let size = plan.size_bytes();
    if size > info.size_bytes {
        let what = format!("{}: holds {} bytes, the file system {size}", info.name, info.size_bytes);
        return refuse(what, "name a smaller size");
    }
    // That the last sector answers shows that the size is the truth.
    let sector = u64::from(info.sector_bytes);
    let mut last = vec![0; info.sector_bytes as usize];
    device.read_at((size - 1) / sector * sector, &mut last)?;
    Ok(())
}

fn superblock(plan: &Plan, stamp: &Stamp, at: u64) -> Vec<u8> {
    let layout = &plan.layout;
    let mut fs = plan.fs;
    let secs = low_word(stamp.now.secs);
    fs.fs_id = [secs, stamp.id];
    let newer = fs.fs_sblockloc != 0;
    let ufs1 = layout.version == Version::Ufs1;
    if newer {
        fs.fs_time = stamp.now.secs;
        fs.fs_cstotal = stamp.totals;
    }
    if ufs1 {
        let narrow = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
        fs.fs_old_time = secs;
        fs.fs_old_cstotal = Csum {
            cs_ndir: narrow(stamp.totals.cs_ndir),
            cs_nbfree: narrow(stamp.totals.cs_nbfree),
            cs_nifree: narrow(stamp.totals.cs_nifree),
            cs_nffree: narrow(stamp.totals.cs_nffree),
        };
    }
    if plan.dialect == Dialect::FreeBsd {
        fs.fs_sblockactualloc = at.cast_signed();
        fs.fs_providersize = (stamp.media_bytes >> layout.fs_fshift).cast_signed();
    }
    let mut raw = encode(&fs, plan.cylinders.as_ref(), &plan.wishes);
    if fs.fs_metackhash & CK_SUPERBLOCK != 0 && plan.wishes.check_hashes {
        let hash = check_hash(&raw[..layout.fs_sbsize as usize], FS_CKHASH);
        hash.put(&mut raw[FS_CKHASH..], layout.endian);
    }
    raw
}

fn write_groups(
    plan: &Plan,
    stamp: &Stamp,
    random: &mut dyn RngCore,
    queue: &mut Queue<'_>,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<()> {
    let layout = &plan.layout;
    let inode_size = layout.inode_size();
    let blocks = plan.blocks();
    for cgx in 0..layout.fs_ncg {
        let copy = superblock(plan, stamp, layout.byte(layout.cgsblock(cgx)));
        let (at, mut run) = blocks.structures(layout, cgx, stamp.now.secs, &copy, random);
        if cgx == 0 {
            let inodes_at = index(layout.byte(layout.cgimin(cgx)) - at);
            for directory in &plan.directories {
                let at = inodes_at + directory.ino as usize * inode_size;
                let inode = &mut run[at..at + inode_size];
                directory.put_inode(layout, stamp.now, inode);
                if plan.wishes.check_hashes && plan.fs.fs_metackhash & CK_INODE != 0 {
                    check_hash(inode, DI_CKHASH).put(&mut inode[DI_CKHASH..], layout.endian);
                }
            }
        }
        queue.write(at, run)?;
        progress(cgx + 1, layout.fs_ncg);
    }
    Ok(())
}

fn write_summaries(plan: &Plan, device: &dyn Device) -> Result<()> {
    let layout = &plan.layout;
    let bytes = layout.fs_cssize.next_multiple_of(layout.fs_fsize) as usize;
    let mut summaries = vec![0; bytes];
    for (cgx, slot) in (0..layout.fs_ncg).zip(summaries.chunks_exact_mut(Csum::SIZE)) {
        plan.counts.of(layout, cgx).encode(slot, layout.endian);
    }
    device.write_at(layout.byte(layout.fs_csaddr), &summaries)?;
    Ok(())
}

/// Leaves in front of the superblock what it takes to find its copies.
fn write_recovery(plan: &Plan, device: &dyn Device) -> Result<()> {
    let Fs { fs_magic, fs_fsbtodb, fs_sblkno, fs_fpg, fs_ncg, .. } = plan.fs;
    let record = FsRecovery {
        fsr_magic: fs_magic,
        fsr_fsbtodb: fs_fsbtodb,
        fsr_sblkno: fs_sblkno,
        fsr_fpg: fs_fpg,
        fsr_ncg: fs_ncg,
    };
    let mut bytes = [0; FsRecovery::SIZE];
    record.encode(&mut bytes, plan.layout.endian);
    wipe::patch(device, SBLOCK_UFS2 - FsRecovery::SIZE as u64, &bytes)
}
