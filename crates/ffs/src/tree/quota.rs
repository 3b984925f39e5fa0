//! The quota files, and counting who uses what.
//!
//! Nothing on a UFS says whether it has been changed by a mount without quotas, or by a system that
//! does not count. So usage is counted anew by every mount with quotas on, from the inodes, as the
//! BSDs do when they start; what the files say of it is for reports and for other systems. It is
//! written to them with every sync and at the unmount.

use super::inode::{Inode, State};
use super::mount::Ffs;
use crate::format::dinode::Dinode;
use crate::format::group::isset;
use crate::format::layout::ROOT_INO;
use crate::format::ondisk::Dqhdr64;
use crate::format::units::index;
use crate::quota::file::{Form, not_a_quota_file};
use crate::quota::store::Pen;
use crate::quota::table::{Quotas, Table};
use crate::quota::{Edit, Kind, MAX_ID, Quota, Sheet, Task, Usage};
use crate::volume::quota::bill_of;
use spindle_tree::{Dinode as _, Operations, Tree};
use spindle_vfs::{Error, FileKind, FileSystem, NewNode, Privilege, Result, Seek};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Group of new quota files, `operator` on the BSDs, which may read them.
const OPERATOR: u32 = 5;
/// Bytes of a quota file that are read at once.
const CHUNK: u64 = 64 << 10;

/// The quotas of a mount: the path of each quota file inside the file system, if it is on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaFiles {
    /// That of users.
    pub user: Option<String>,
    /// That of groups.
    pub group: Option<String>,
}

impl QuotaFiles {
    /// Returns the path of a kind, if it is on.
    #[must_use]
    pub fn path(&self, kind: Kind) -> Option<&str> {
        match kind {
            Kind::User => self.user.as_deref(),
            Kind::Group => self.group.as_deref(),
        }
    }

    /// Returns true if no quota is on.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.user.is_none() && self.group.is_none()
    }
}

/// Is called with how many cylinder groups have been counted, and of how many; can end the work.
pub type Progress<'a> = dyn FnMut(u32, u32) -> ControlFlow<()> + 'a;

/// A quota file.
struct File {
    kind: Kind,
    inode: Arc<Inode>,
    form: Form,
}

/// What each user, and what each group, uses.
pub(crate) type Counts = [BTreeMap<u32, Usage>; 2];

impl Ffs {
    /// Starts to count and to limit what `quotas` names.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such file, or it is none.
    pub(crate) fn take_up_quotas(&mut self, quotas: &QuotaFiles) -> Result<()> {
        if quotas.is_empty() {
            return Ok(());
        }
        self.refuse_files_beside_inside(quotas)?;
        let (on, all) = self.quota_files(quotas)?;
        let counts =
            self.count_usage(false, &|ino| all.contains(&ino), &mut |_, _| ControlFlow::Continue(()))?;
        let device = self.volume.cache.device().info().name.clone();
        let mut tables = Vec::new();
        for file in on {
            let (records, differing) =
                corrected(self.read_records(&file, &file.inode.state.read())?, &counts[file.kind as usize]);
            if !differing.is_empty() {
                log::info!(
                    "{device}: {} quota: the file has other counts for {} ids",
                    file.kind.word(),
                    differing.len()
                );
            }
            let changed = differing.into_keys().collect();
            tables.push(Table::new((file.kind, file.inode.ino), &records, changed));
        }
        self.volume.quotas = Some(Quotas::new(tables, all));
        Ok(())
    }

    /// Refuses `quotas` as [`Self::take_up_quotas`] does, of a file system that is only read.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn refuse_quotas(&self, quotas: &QuotaFiles) -> Result<()> {
        self.refuse_files_beside_inside(quotas)?;
        let (on, _) = self.quota_files(quotas)?;
        on.iter().try_for_each(|file| self.read_records(file, &file.inode.state.read()).map(drop))
    }

    /// Refuses quota files where the file system keeps its quotas inside.
    fn refuse_files_beside_inside(&self, quotas: &QuotaFiles) -> Result<()> {
        if quotas.is_empty() || self.quotas_inside().is_empty() {
            return Ok(());
        }
        let what = "quota files of a file system that keeps its quotas inside";
        Err(Error::unsupported(what, "mount it without userquota and groupquota; its own are always on"))
    }

    /// Returns the files of `quotas`, and the inodes of all quota files.
    fn quota_files(&self, quotas: &QuotaFiles) -> Result<(Vec<File>, Vec<u32>)> {
        let mut on = Vec::new();
        let mut all = Vec::new();
        for kind in Kind::ALL {
            let path = quotas.path(kind);
            let file = self.find_quota_file(kind, path.unwrap_or(kind.file_name()));
            match (path, file) {
                (Some(path), Ok(None)) => {
                    let remedy = format!(
                        "make it with \"spindle quota check\", or mount without {}quota",
                        kind.word()
                    );
                    return Err(Error::unsupported(format!("there is no quota file {path}"), remedy));
                }
                (Some(_), file) => on.extend(file?),
                (None, file) => all.extend(file.ok().flatten().map(|file| file.inode.ino)),
            }
        }
        all.extend(on.iter().map(|file| file.inode.ino));
        Ok((on, all))
    }

    /// Does what is asked about quotas, and returns what it is about: all users or all groups. What
    /// it changes is durable then.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Unsupported`] if a quota file is none, or a limit does not fit
    /// into its form; [`Error::Interrupted`] if `progress` ends it; [`Error::Invalid`] for an id
    /// that cannot have a record; device errors.
    pub fn quota(&self, task: &Task, progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        let inside = !self.quotas_inside().is_empty();
        let sheets = match task {
            Task::Report(kinds) if inside => return self.report_inside(kinds, progress),
            Task::Report(kinds) => return self.report_quotas(kinds, progress),
            _ if self.volume.is_read_only() => return Err(Error::ReadOnly),
            Task::Check(kinds) if inside => self.check_inside(kinds, progress)?,
            Task::Edit(edit) if inside => self.edit_inside(edit, progress)?,
            Task::Check(kinds) => self.check_quotas(kinds, progress)?,
            Task::Edit(edit) => self.edit_quotas(edit, progress)?,
        };
        self.sync_all()?;
        Ok(sheets)
    }

    /// Writes the usage that has changed into the quota files that are on. What cannot be written
    /// stays to be written: the next mount counts in any case.
    pub(crate) fn write_quotas(&self) {
        for table in self.volume.quotas.iter().flat_map(Quotas::tables) {
            if let Err(error) = self.write_table(table) {
                let device = &self.volume.cache.device().info().name;
                log::warn!("{device}: the {} quota file cannot be written yet: {error}", table.kind.word());
            }
        }
    }

    fn write_table(&self, table: &Table) -> Result<()> {
        if !table.has_changed() {
            return Ok(());
        }
        let file = self.quota_file(table.kind, self.iget(table.ino)?)?;
        // Under the lock, so that older records are not written after younger ones.
        let mut state = file.inode.state.write();
        let changed = table.take_changed();
        self.write_records(&file, &mut state, &changed)
            .inspect_err(|_| table.keep_changed(changed.into_keys()))
    }

    /// Returns the quota file at `path`, if there is one.
    fn find_quota_file(&self, kind: Kind, path: &str) -> Result<Option<File>> {
        let mut at = self.root();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match self.lookup(at, name.as_bytes()) {
                Ok(attr) => {
                    self.forget(attr.ino, 1);
                    at = attr.ino;
                }
                Err(Error::NotFound) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        self.quota_file(kind, self.iget_ino(at)?).map(Some)
    }

    /// Returns the quota file that an inode is.
    fn quota_file(&self, kind: Kind, inode: Arc<Inode>) -> Result<File> {
        let form = {
            let state = inode.state.read();
            let name = kind.file_name();
            if state.di.kind() != Some(FileKind::Regular) {
                return Err(not_a_quota_file(name, "it is no regular file"));
            }
            let mut head = [0; Dqhdr64::SIZE];
            let read = self.read_file(inode.ino, &inode.stream, &state.di, 0, &mut head, || Ok(()))?;
            Form::of(&head[..read], state.di.size, self.layout().endian, name)?
        };
        Ok(File { kind, inode, form })
    }

    /// Makes an empty quota file, in the form that the system of the file system makes.
    fn make_quota_file(&self, kind: Kind) -> Result<File> {
        let form = Form::usual(self.volume.dialect, self.layout().endian);
        let node = NewNode { gid: OPERATOR, ..NewNode::new(FileKind::Regular, 0o640) };
        let made = self.create(self.root(), kind.file_name().as_bytes(), &node, Privilege::Root)?;
        let inode = self.iget_ino(made.ino);
        self.forget(made.ino, 1);
        let inode = inode?;
        let head = form.empty();
        let mut state = inode.state.write();
        self.write_all(&inode, &mut state, 0, &head)?;
        drop(state);
        Ok(File { kind, inode, form })
    }

    /// Reads all records that have anything in them.
    fn read_records(&self, file: &File, state: &State) -> Result<BTreeMap<u32, Quota>> {
        let (ino, di) = (file.inode.ino, &state.di);
        let len = file.form.record_bytes() as u64;
        // Of pointers that lead to one block again and again there would be no end.
        let mut most = (self.layout().fs_dsize + 1) << self.layout().fs_fshift;
        let mut records = BTreeMap::new();
        let mut at = file.form.start();
        while at < di.size {
            let stored = match self.seek_file(ino, di, (at, Seek::Data), || Ok(())) {
                Err(Error::NoSuchOffset) => break,
                found => found?,
            };
            // From the start of a record on.
            at = at.max(stored - (stored - file.form.start()) % len);
            let mut chunk = vec![0; index(CHUNK.min(di.size - at))];
            let read = self.read_file(ino, &file.inode.stream, di, at, &mut chunk, || Ok(()))?;
            for bytes in chunk[..read].chunks_exact(index(len)) {
                let id = u32::try_from((at - file.form.start()) / len).ok().filter(|&id| id <= MAX_ID);
                if let Some(id) = id.filter(|_| bytes.iter().any(|&byte| byte != 0)) {
                    records.insert(id, file.form.decode(bytes));
                }
                at += len;
            }
            most = most.checked_sub(read as u64).ok_or_else(|| {
                Error::corrupt("more data than the file system has", format!("inode {ino}"))
            })?;
        }
        Ok(records)
    }

    /// Writes records into a quota file that is locked for change.
    fn write_records(&self, file: &File, state: &mut State, records: &BTreeMap<u32, Quota>) -> Result<()> {
        let len = file.form.record_bytes();
        let mut records = records.iter().peekable();
        while let Some((&first, quota)) = records.next() {
            let mut bytes = vec![0; len];
            file.form.encode(quota, &mut bytes)?;
            let mut last = first;
            // Those that follow go with it.
            while let Some((&id, quota)) = records.next_if(|&(&id, _)| id == last + 1) {
                let at = bytes.len();
                bytes.resize(at + len, 0);
                file.form.encode(quota, &mut bytes[at..])?;
                last = id;
            }
            self.write_all(&file.inode, state, file.form.offset(first), &bytes)?;
        }
        Ok(())
    }

    fn write_all(&self, inode: &Inode, state: &mut State, at: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let date = |di: &mut Dinode| di.set_modified(self.now());
            let (at, rest) = (at + done as u64, &bytes[done..]);
            done += self.write_locked(inode, state, at, rest, Privilege::Root, &date)?;
        }
        Ok(())
    }

    /// Counts what all inodes but those that are `unpaid` use, as for quotas `inside` the file
    /// system, or for quota files.
    pub(crate) fn count_usage(
        &self,
        inside: bool,
        unpaid: &dyn Fn(u32) -> bool,
        progress: &mut Progress<'_>,
    ) -> Result<Counts> {
        let layout = self.layout();
        let mut counts = Counts::default();
        for cgx in 0..layout.fs_ncg {
            if progress(cgx, layout.fs_ncg).is_break() {
                return Err(Error::Interrupted);
            }
            let first = cgx * layout.fs_ipg;
            let used: Vec<u32> = self.volume.view_group(cgx, |group| {
                let made = group.initediblk().min(layout.fs_ipg);
                (0..made).filter(|&n| isset(group.inosused(), n)).map(|n| first + n).collect()
            })?;
            for ino in used.into_iter().filter(|&ino| ino >= ROOT_INO && !unpaid(ino)) {
                let di = match self.volume.read_inode(ino) {
                    // Taken, and not made yet.
                    Err(Error::Stale) => continue,
                    Err(error @ Error::Corrupt { .. }) => {
                        log::warn!("it is counted for nobody: {error}; run a check");
                        continue;
                    }
                    di => di?,
                };
                let Some(bill) = bill_of(&di, inside) else { continue };
                for (kind, counts) in Kind::ALL.into_iter().zip(&mut counts) {
                    let sum = counts.entry(bill.id(kind)).or_default();
                    sum.blocks = sum.blocks.saturating_add(bill.usage.blocks);
                    sum.inodes += bill.usage.inodes;
                }
            }
        }
        Ok(counts)
    }

    /// Returns the quota file of each kind at its usual place, if there is one.
    fn usual_files(&self) -> Result<[Option<File>; 2]> {
        let [user, group] = Kind::ALL.map(|kind| self.find_quota_file(kind, kind.file_name()));
        Ok([user?, group?])
    }

    /// Returns the kinds of `asked`; if none, those that are on or have a file, or both.
    fn kinds(&self, asked: &[Kind], files: &[Option<File>; 2]) -> Vec<Kind> {
        let is_there = |kind: &Kind| self.quota_table(*kind).is_some() || files[*kind as usize].is_some();
        let is_none = !Kind::ALL.iter().any(is_there);
        let is_meant = |kind: &Kind| {
            if asked.is_empty() { is_none || is_there(kind) } else { asked.contains(kind) }
        };
        Kind::ALL.into_iter().filter(is_meant).collect()
    }

    fn report_quotas(&self, asked: &[Kind], progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        let mut files = self.usual_files()?;
        let kinds = self.kinds(asked, &files);
        let mut counts = None;
        let mut sheets = Vec::new();
        for kind in kinds {
            if let Some(table) = self.quota_table(kind) {
                sheets.push(Sheet { enforced: true, ..Sheet::new(kind, &table.records(), &BTreeMap::new()) });
                continue;
            }
            if counts.is_none() {
                let exempt = self.exempt(&files);
                counts = Some(self.count_usage(false, &|ino| exempt.contains(&ino), progress)?);
            }
            let file = files[kind as usize].take();
            let has_file = file.is_some();
            let records = file
                .map(|file| self.read_records(&file, &file.inode.state.read()))
                .transpose()?
                .unwrap_or_default();
            let none = BTreeMap::new();
            let counts = counts.as_ref().map_or(&none, |counts| &counts[kind as usize]);
            let (records, differing) = corrected(records, counts);
            let differing = if has_file { differing } else { BTreeMap::new() };
            sheets.push(Sheet { has_file, ..Sheet::new(kind, &records, &differing) });
        }
        Ok(sheets)
    }

    fn check_quotas(&self, asked: &[Kind], progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        let mut files = self.usual_files()?;
        let kinds = self.kinds(asked, &files);
        let mut made = Vec::new();
        for &kind in &kinds {
            if self.quota_table(kind).is_none() && files[kind as usize].is_none() {
                files[kind as usize] = Some(self.make_quota_file(kind)?);
                made.push(kind);
            }
        }
        let exempt = self.exempt(&files);
        let counts = self.count_usage(false, &|ino| exempt.contains(&ino), progress)?;
        let mut sheets = Vec::new();
        for kind in kinds {
            if let Some(table) = self.quota_table(kind) {
                self.write_table(table)?;
                sheets.push(Sheet { enforced: true, ..Sheet::new(kind, &table.records(), &BTreeMap::new()) });
                continue;
            }
            let Some(file) = &files[kind as usize] else { continue };
            let (records, differing) =
                corrected(self.read_records(file, &file.inode.state.read())?, &counts[kind as usize]);
            let changed = differing.keys().map(|id| (*id, records[id])).collect();
            self.write_records(file, &mut file.inode.state.write(), &changed)?;
            let is_made = made.contains(&kind);
            sheets.push(Sheet { made: is_made, ..Sheet::new(kind, &records, &differing) });
        }
        Ok(sheets)
    }

    fn edit_quotas(&self, edit: &Edit, progress: &mut Progress<'_>) -> Result<Vec<Sheet>> {
        let kind = edit.kind;
        if edit.ids.iter().chain(&edit.prototype).any(|&id| id > MAX_ID) {
            return Err(Error::Invalid);
        }
        let now = self.volume.clock.now().secs;
        if let Some(table) = self.quota_table(kind) {
            let form = self.quota_file(kind, self.iget(table.ino)?)?.form;
            let new = edited(edit, form, table.records(), now)?;
            self.volume.transact((), |tx, ()| {
                let pen = Pen { cache: &self.volume.cache, tx };
                new.iter()
                    .try_for_each(|(&id, new)| table.change(id, &pen, |record| record.quota.set_limits(new)))
            })?;
            self.write_table(table)?;
        } else {
            // Who is over the new limits depends on what is used.
            self.check_quotas(&[kind], progress)?;
            let Some(file) = self.find_quota_file(kind, kind.file_name())? else {
                return Err(Error::NotFound);
            };
            let mut state = file.inode.state.write();
            let new = edited(edit, file.form, self.read_records(&file, &state)?, now)?;
            self.write_records(&file, &mut state, &new)?;
        }
        self.report_quotas(&[kind], progress)
    }

    pub(crate) fn quota_table(&self, kind: Kind) -> Option<&Table> {
        self.volume.quotas.as_ref().and_then(|quotas| quotas.table(kind))
    }

    /// Returns the inodes of all quota files.
    fn exempt(&self, files: &[Option<File>; 2]) -> Vec<u32> {
        let on = self.volume.quotas.iter().flat_map(Quotas::tables).map(|table| table.ino);
        files.iter().flatten().map(|file| file.inode.ino).chain(on).collect()
    }
}

/// Puts the usage in `records` right. Returns them, and the usage that was wrong.
pub(crate) fn corrected(
    mut records: BTreeMap<u32, Quota>,
    counts: &BTreeMap<u32, Usage>,
) -> (BTreeMap<u32, Quota>, BTreeMap<u32, Usage>) {
    for &id in counts.keys() {
        records.entry(id).or_default();
    }
    let mut wrong = BTreeMap::new();
    for (&id, quota) in &mut records {
        let (recorded, counted) = (quota.usage(), counts.get(&id).copied().unwrap_or_default());
        if recorded != counted {
            wrong.insert(id, recorded);
            quota.set_usage(counted);
        }
    }
    (records, wrong)
}

/// Returns the records that an edit changes, as they are then.
fn edited(
    edit: &Edit,
    form: Form,
    mut records: BTreeMap<u32, Quota>,
    now: i64,
) -> Result<BTreeMap<u32, Quota>> {
    let ids = edit.apply(&mut records, now)?;
    records.retain(|id, _| ids.contains(id));
    records.values().try_for_each(|quota| form.check(quota))?;
    Ok(records)
}
