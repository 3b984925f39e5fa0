//! NetBSD's quotas inside the file system: taking them up, giving their files more room, and what
//! can be asked about them.
//!
//! They are on whenever the file system is written to, because nothing but a check counts again:
//! what is recorded must be right after every transaction. What cannot be believed of their files
//! keeps the file system read-only.

use super::file::{Content, Request};
use super::mount::Ffs;
use super::quota::{Counts, Progress, corrected};
use crate::format::dinode::Dinode;
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::SF_SNAPSHOT;
use crate::format::units::Lbn;
use crate::quota::inside::{Contents, Reading, Record, Shape, arrange, kinds_inside, make, read};
use crate::quota::store::{Pen, Store};
use crate::quota::table::{Quotas, Table};
use crate::quota::{Edit, Kind, Limits, Sheet, Usage};
use crate::volume::tx::Tx;
use spindle_cache::Buffer;
use spindle_tree::{Dinode as _, Operations, Tree};
use spindle_vfs::{Error, FileKind, Privilege, Result};
use std::collections::BTreeMap;

/// Records that are changed in one transaction.
const AT_ONCE: usize = 4;

/// The file of a quota inside the file system.
pub(crate) struct InsideFile {
    pub(crate) ino: u32,
    /// Where its blocks are on the device, in bytes.
    pub(crate) blocks: Vec<u64>,
    pub(crate) reading: Reading,
}

/// Returns the error of a quota inside the file system that cannot be used.
fn corrupt(kind: Kind, what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("the quotas of {}s: {what}", kind.word()), "quotas inside the file system")
}

impl Ffs {
    /// Returns the quotas that the file system keeps inside, with the inodes of their files.
    pub(crate) fn quotas_inside(&self) -> Vec<(Kind, u64)> {
        kinds_inside(&self.volume.superblock.lock())
    }

    /// Starts to keep the quotas inside the file system.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if anything about them cannot be believed; device errors.
    pub(crate) fn take_up_quotas_inside(&mut self) -> Result<()> {
        let mut tables = Vec::new();
        for (kind, ino) in self.quotas_inside() {
            let InsideFile { ino, blocks, reading } = self.read_inside(kind, ino)?;
            let Reading { contents, damage: None, .. } = reading else {
                return Err(corrupt(kind, reading.damage.unwrap_or_default()));
            };
            let store = Store::new(Shape::of(self.layout()), blocks, &contents);
            let records = contents.records.iter().map(|(&id, &(_, record))| (id, record));
            tables.push(Table::inside((kind, ino), records, contents.default, store));
        }
        if tables.is_empty() {
            return Ok(());
        }
        let files: Vec<u32> = tables.iter().map(|table| table.ino).collect();
        if files.len() == 2 && files[0] == files[1] {
            return Err(corrupt(Kind::Group, format!("inode {} has those of users", files[0])));
        }
        let quotas = Quotas::new(tables, files);
        if let Some(ino) = self.log_inode() {
            quotas.set_unpaid(ino, true);
        }
        self.volume.quotas = Some(quotas);
        Ok(())
    }

    /// Returns the inode of the log that the superblock names.
    fn log_inode(&self) -> Option<u32> {
        self.volume.superblock.lock().log_place().and_then(|place| place.ino)
    }

    /// Reads the file of a quota.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the inode cannot have one; device errors.
    pub(crate) fn read_inside(&self, kind: Kind, ino: u64) -> Result<InsideFile> {
        let number = u32::try_from(ino).ok().filter(|_| ino != 0);
        let ino = number.ok_or_else(|| corrupt(kind, format!("their file is inode {ino}")))?;
        let di = match self.volume.read_inode(ino) {
            Err(Error::Stale) => return Err(corrupt(kind, format!("inode {ino} is free"))),
            di => di?,
        };
        let layout = self.layout();
        let blocks = di.size >> layout.fs_bshift;
        let is_whole = blocks << layout.fs_bshift == di.size && (1..=layout.fs_size).contains(&blocks);
        let is_plain = di.kind() == Some(FileKind::Regular) && di.nlink == 1 && di.flags & SF_SNAPSHOT == 0;
        if !(is_whole && is_plain) {
            let (mode, nlink, size) = (di.mode, di.nlink, di.size);
            let what = format!("inode {ino} has mode {mode:o}, {nlink} names and {size} bytes");
            return Err(corrupt(kind, what));
        }
        let places = self.blocks_of(ino, &di)?.ok_or_else(|| corrupt(kind, "their file has holes"))?;
        let bsize = layout.fs_bsize as usize;
        let mut bytes = Vec::with_capacity(places.len() * bsize);
        for &at in &places {
            bytes.extend_from_slice(&self.volume.cache.get(at, bsize, None)?.read());
        }
        Ok(InsideFile { ino, blocks: places, reading: read(kind, Shape::of(layout), &bytes) })
    }

    /// Returns where the blocks of a file of whole blocks are, in bytes; none if one is missing.
    fn blocks_of(&self, ino: u32, di: &Dinode) -> Result<Option<Vec<u64>>> {
        let layout = self.layout();
        let total = di.size >> layout.fs_bshift;
        let mut places = Vec::new();
        while (places.len() as u64) < total {
            let lbn = places.len() as u64;
            let run = self.volume.bmap(ino, di, Lbn(lbn), total - lbn)?;
            let Some(at) = run.at else { return Ok(None) };
            places.extend((0..run.blocks).map(|n| layout.byte(at) + (n << layout.fs_bshift)));
        }
        Ok(Some(places))
    }

    /// Gives the files of quotas inside the file system more room, if users or groups that are new
    /// to them may not find any. The caller is about to begin a transaction. A file system that is
    /// full refuses them then.
    pub(crate) fn make_room_for_quotas(&self) -> Result<()> {
        let tables = self.volume.quotas.iter().flat_map(Quotas::tables);
        for table in tables.filter(|table| table.with_store(|store| store.is_short()) == Some(true)) {
            match self.grow_inside(table) {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn grow_inside(&self, table: &Table) -> Result<()> {
        let inode = self.iget(table.ino)?;
        let mut state = inode.state.write();
        // Somebody else may have done it.
        if table.with_store(|store| store.is_short()) != Some(true) {
            return Ok(());
        }
        let ino = table.ino;
        self.volume.transact(&mut *state, |tx, state| {
            let (at, buffer) = self.extend_inside(tx, ino, &mut state.di)?;
            let pen = Pen { cache: &self.volume.cache, tx };
            table.with_store(|store| store.add_block((at, &buffer), &pen)).unwrap_or(Ok(()))
        })
    }

    /// Returns a sheet for each kind that is asked for.
    pub(crate) fn report_inside(&self, asked: &[Kind], progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        let mut counts = None;
        let mut sheets = Vec::new();
        let none = BTreeMap::new();
        for (kind, ino) in self.kinds_asked(asked)? {
            if let Some(table) = self.quota_table(kind) {
                sheets.push(Sheet::inside(kind, &table.records(), table.grace(), &none, true));
                continue;
            }
            let InsideFile { reading, .. } = self.read_inside(kind, ino)?;
            if let Some(damage) = reading.damage {
                return Err(corrupt(kind, damage));
            }
            if counts.is_none() {
                counts = Some(self.count_inside(progress)?);
            }
            let Contents { default, records, .. } = reading.contents;
            let records = records.into_iter().map(|(id, (_, record))| (id, record.quota)).collect();
            let counts = counts.as_ref().map_or(&none, |counts| &counts[kind as usize]);
            let (records, differing) = corrected(records, counts);
            sheets.push(Sheet::inside(kind, &records, default.grace, &differing, false));
        }
        Ok(sheets)
    }

    /// Counts what is in use, and puts right what is recorded otherwise.
    pub(crate) fn check_inside(&self, asked: &[Kind], progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        let kinds = self.kinds_asked(asked)?;
        let tables: Vec<&Table> = kinds.iter().filter_map(|&(kind, _)| self.quota_table(kind)).collect();
        // If nothing is charged from now on until all is counted, no operation was under way when
        // the commit was made, and the inodes are those of that moment.
        let before: Vec<u64> = tables.iter().map(|table| table.changes()).collect();
        if self.volume.is_marked() {
            self.volume.commit()?;
        }
        let counts = self.count_inside(progress)?;
        let mut sheets = Vec::new();
        for (table, since) in tables.into_iter().zip(before) {
            let (records, differing) = corrected(table.records(), &counts[table.kind as usize]);
            let wrong: Vec<(u32, Usage)> = differing.keys().map(|id| (*id, records[id].usage())).collect();
            let mut since = Some(since).filter(|&since| table.changes() == since);
            for part in wrong.chunks(AT_ONCE) {
                self.make_room_for_quotas()?;
                since = since.map_or(Ok(None), |since| {
                    self.volume.transact((), |tx, ()| {
                        table.set_usage(since, part, &Pen { cache: &self.volume.cache, tx })
                    })
                })?;
            }
            if since.is_none() {
                log::warn!(
                    "the file system was changed while its usage was counted; check it when nobody does"
                );
                return Err(Error::Busy);
            }
            sheets.push(Sheet::inside(table.kind, &records, table.grace(), &differing, true));
        }
        Ok(sheets)
    }

    /// Changes limits and grace periods.
    pub(crate) fn edit_inside(&self, edit: &Edit, progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        self.kinds_asked(&[edit.kind])?;
        let table = self.quota_table(edit.kind).ok_or(Error::ReadOnly)?;
        let now = self.volume.clock.now().secs;
        let limits = |account: crate::quota::Account| Limits { soft: account.soft, hard: account.hard };
        let pattern = edit.prototype.map(|id| table.record(id).quota);
        let blocks = edit.blocks.or_else(|| pattern.map(|quota| limits(quota.blocks)));
        let inodes = edit.inodes.or_else(|| pattern.map(|quota| limits(quota.inodes)));
        if let Some(grace) = edit.grace {
            let set = |record: &mut Record| (record.grace.blocks, record.grace.inodes) = (grace, grace);
            self.volume
                .transact((), |tx, ()| table.change_default(&Pen { cache: &self.volume.cache, tx }, set))?;
            self.change_records(table, &table.records().into_keys().collect::<Vec<_>>(), &set)?;
        }
        self.change_records(table, &edit.ids, &|record| {
            let Record { quota, grace } = record;
            for (account, new, grace) in
                [(&mut quota.blocks, blocks, grace.blocks), (&mut quota.inodes, inodes, grace.inodes)]
            {
                if let Some(Limits { soft, hard }) = new {
                    account.limit(soft, hard, now.saturating_add(grace));
                }
            }
        })?;
        self.report_inside(&[edit.kind], progress)
    }

    fn change_records(&self, table: &Table, ids: &[u32], change: &dyn Fn(&mut Record)) -> Result<()> {
        for part in ids.chunks(AT_ONCE) {
            self.make_room_for_quotas()?;
            self.volume.transact((), |tx, ()| {
                let pen = Pen { cache: &self.volume.cache, tx };
                part.iter().try_for_each(|&id| table.change(id, &pen, change))
            })?;
        }
        Ok(())
    }

    /// Counts what all inodes use that somebody pays for.
    pub(crate) fn count_inside(&self, progress: &mut Progress<'_>) -> Result<Counts> {
        let files = self.quotas_inside().into_iter().map(|(_, ino)| ino);
        let unpaid: Vec<u64> = files.chain(self.log_inode().map(u64::from)).collect();
        self.count_usage(true, &|ino| unpaid.contains(&ino.into()), progress)
    }

    /// Returns the kinds that are inside, and asked for.
    fn kinds_asked(&self, asked: &[Kind]) -> Result<Vec<(Kind, u64)>> {
        let inside = self.quotas_inside();
        if let Some(missing) = asked.iter().find(|&&kind| inside.iter().all(|&(other, _)| other != kind)) {
            let what = format!("the file system keeps no quotas of {}s", missing.word());
            return Err(Error::unsupported(what, "turn them on (spindle quota on)"));
        }
        Ok(inside.into_iter().filter(|(kind, _)| asked.is_empty() || asked.contains(kind)).collect())
    }

    /// Makes the files of quotas inside the file system anew, with the usage that is counted and
    /// the limits that can be found. Nothing else may be wrong, and nobody else change anything.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; device errors.
    pub(crate) fn rebuild_quotas_inside(&self) -> Result<()> {
        for (kind, ino) in self.quotas_inside() {
            let found = match self.read_inside(kind, ino) {
                Err(Error::Corrupt { .. }) => None,
                found => Some(found?).filter(|file| file.reading.is_one),
            };
            if found.is_none() {
                // What the superblock names now is somebody else's, or gets a name in lost+found.
                let made = self.make_inside_inode()?;
                self.volume.change_superblock(|superblock| {
                    superblock.set_quota_file(kind, made.into());
                    Ok(())
                })?;
            }
            let counts = self.count_inside(&mut |_, _| std::ops::ControlFlow::Continue(()))?;
            self.write_inside(kind, found, &counts[kind as usize])?;
        }
        Ok(())
    }

    /// Makes an empty inode without a name for the file of a quota.
    fn make_inside_inode(&self) -> Result<u32> {
        let now = self.now();
        let mut di = Dinode {
            mode: u16::try_from(FileKind::Regular.mode_bits()).unwrap_or(u16::MAX),
            nlink: 1,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: now,
            ..Dinode::free(0)
        };
        self.volume.transact((), |tx, ()| {
            let ino = self.volume.alloc_inode(tx, ROOT_INO, false)?;
            di.r#gen = self.volume.next_generation(ino)?;
            self.volume.store(tx, ino, &di)?;
            Ok(ino)
        })
    }

    /// Writes the whole file of a quota, with this usage and the limits that were `found`.
    fn write_inside(
        &self,
        kind: Kind,
        found: Option<InsideFile>,
        usage: &BTreeMap<u32, Usage>,
    ) -> Result<()> {
        let shape = Shape::of(self.layout());
        let now = self.volume.clock.now().secs;
        let (mut places, known, default) = match found {
            Some(InsideFile { blocks, reading: Reading { contents, .. }, .. }) => {
                (blocks, contents.records, contents.default)
            }
            None => (Vec::new(), BTreeMap::new(), Record::UNLIMITED),
        };
        let mut records: BTreeMap<u32, Record> =
            known.iter().map(|(&id, &(_, record))| (id, record)).collect();
        for &id in usage.keys() {
            records.entry(id).or_insert(default);
        }
        for (id, record) in &mut records {
            record.quota.set_usage(usage.get(id).copied().unwrap_or_default());
            let Record { quota: crate::quota::Quota { blocks, inodes }, grace } = record;
            for (account, grace) in [(blocks, grace.blocks), (inodes, grace.inodes)] {
                account.limit(account.soft, account.hard, now.saturating_add(grace));
            }
        }
        let (arranged, count) = arrange(shape, &known, &records, places.len() as u64);
        let bytes = make(kind, shape, &default, &arranged, count);
        let ino = self.quotas_inside().into_iter().find(|&(other, _)| other == kind).map(|(_, ino)| ino);
        let ino = ino.and_then(|ino| u32::try_from(ino).ok()).ok_or(Error::Stale)?;
        let inode = self.iget(ino)?;
        let mut state = inode.state.write();
        let bsize = self.layout().fs_bsize as usize;
        for (lbn, block) in (0..).zip(bytes.chunks_exact(bsize)) {
            self.volume.transact(&mut *state, |tx, state| {
                let buffer = if let Some(&at) = places.get(lbn) {
                    self.volume.cache.get(at, bsize, None)?
                } else {
                    let (at, buffer) = self.extend_inside(tx, ino, &mut state.di)?;
                    places.push(at);
                    buffer
                };
                buffer.write(tx).bytes_mut(0..bsize).copy_from_slice(block);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Gives the file of a quota one more block, and stores its inode. Returns where the block is,
    /// in bytes, and its buffer.
    fn extend_inside(&self, tx: &Tx<'_>, ino: u32, di: &mut Dinode) -> Result<(u64, Buffer<'_>)> {
        let bsize = self.layout().fs_bsize;
        let (lbn, final_size) = (self.layout().lblkno(di.size), di.size + u64::from(bsize));
        let (written, content, by) = (0..0, Content::Directory, Privilege::Root);
        let request = Request { ino, lbn, final_size, written, content, by, given: None };
        let at = self.layout().byte(self.place(tx, di, &request)?.at);
        let buffer = self.volume.cache.get_new(at, bsize as usize, None, tx)?;
        di.size = final_size;
        di.set_modified(self.now());
        self.volume.store(tx, ino, di)?;
        Ok((at, buffer))
    }
}
