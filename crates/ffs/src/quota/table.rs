//! The tables of usage in memory, which every transaction charges.
//!
//! The rules are those of the BSD kernels (`ufs_quota.c`): what would reach the hard limit is
//! refused; what reaches the soft limit starts the grace period, and is refused when that is over;
//! root is counted and not limited; in quota files id 0 has no limits, because its record holds the
//! grace periods. NetBSD's quotas inside the file system are the same tables, but every change goes
//! to their file at once ([`Store`]), in the transaction that is charged.

use super::inside::Record;
use super::store::{Pen, Store};
use super::{Account, Grace, Kind, Quota, Usage};
use spindle_clock::{Mutex, MutexGuard};
use spindle_vfs::{Error, Privilege, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A change of the usage of a user or a group; negative if something is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) kind: Kind,
    pub(crate) id: u32,
    /// Blocks of 512 bytes.
    pub(crate) blocks: i64,
    pub(crate) inodes: i64,
    /// The owner of the file, who is warned.
    pub(crate) owner: u32,
}

/// A charge that was made, and what it takes to take it back.
#[derive(Clone, Copy)]
pub(crate) struct Charged {
    charge: Charge,
    /// The ends of the grace periods for blocks and inodes before it.
    deadlines: [i64; 2],
    /// The warnings that were given before it.
    warned: [Warned; 2],
    /// More was given back than was in use: the table is wrong, and nothing was changed.
    pub(crate) impossible: bool,
}

/// Who pays for a file, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bill {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) usage: Usage,
}

impl Bill {
    /// Returns the id that pays.
    pub(crate) const fn id(&self, kind: Kind) -> u32 {
        match kind {
            Kind::User => self.uid,
            Kind::Group => self.gid,
        }
    }

    /// Returns its charge, or what takes it back.
    pub(crate) fn charge(&self, kind: Kind, sign: i64) -> Charge {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX) * sign;
        Charge {
            kind,
            id: self.id(kind),
            blocks: signed(self.usage.blocks),
            inodes: signed(self.usage.inodes),
            owner: self.uid,
        }
    }
}

/// Where a warning was given that a limit was met, since something was last given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Warned {
    in_log: bool,
    on_terminal: bool,
}

/// A record with what only memory knows of it.
#[derive(Clone, Copy)]
struct Entry {
    record: Record,
    /// Warnings about blocks and inodes.
    warned: [Warned; 2],
}

impl From<Record> for Entry {
    fn from(record: Record) -> Self {
        Self { record, warned: Default::default() }
    }
}

/// A warning about a limit, which is given when it is certain that the charge stays, or is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Warning {
    kind: Kind,
    id: u32,
    resource: &'static str,
    verdict: Verdict,
    /// It goes to the log of the system.
    in_log: bool,
    /// The process on whose terminal it is shown.
    process: Option<u32>,
}

impl Warning {
    /// Returns true if it says that a charge was refused.
    pub(crate) fn is_refusal(&self) -> bool {
        self.verdict != Verdict::Passes
    }

    /// Returns the process on whose terminal it is shown.
    pub(crate) const fn process(&self) -> Option<u32> {
        self.process
    }

    /// Returns the line for the log of the system, if it goes there.
    pub(crate) fn log_line(&self, device: &str) -> Option<String> {
        let (kind, id, what) = (self.kind.word(), self.id, self.what());
        self.in_log.then(|| format!("{device}: {kind} {id}: {} {what}", self.resource))
    }

    /// Returns the line for a terminal, in BSD's words.
    pub(crate) fn terminal_line(&self) -> String {
        let consequence = if self.is_refusal() { "write failed" } else { "warning" };
        format!("{consequence}, {} {} {}", self.kind.word(), self.resource, self.what())
    }

    const fn what(&self) -> &'static str {
        match self.verdict {
            Verdict::Fits | Verdict::Passes => "quota exceeded",
            Verdict::Full => "limit reached",
            Verdict::Late => "quota exceeded for too long",
        }
    }
}

/// Usage and limits of all users or all groups.
struct Entries {
    by_id: HashMap<u32, Entry>,
    /// What those have that are not there.
    default: Record,
    /// Those that the file has otherwise.
    changed: BTreeSet<u32>,
    /// Where records inside the file system go.
    store: Option<Store>,
    /// How often something was changed.
    changes: u64,
}

impl Entries {
    fn get(&self, id: u32) -> Entry {
        self.by_id.get(&id).copied().unwrap_or_else(|| self.default.into())
    }

    /// Enters a record; one inside the file system goes to its place.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no entry for a new one; device errors. Nothing is changed
    /// then.
    fn put(&mut self, id: u32, entry: Entry, pen: &Pen<'_>) -> Result<()> {
        match &mut self.store {
            Some(store) => store.write(id, &entry.record, pen)?,
            None => drop(self.changed.insert(id)),
        }
        self.by_id.insert(id, entry);
        self.changes += 1;
        Ok(())
    }

    /// Returns the grace periods of a user or group.
    fn grace(&self, record: &Record) -> Grace {
        if self.store.is_some() { record.grace } else { Grace::of(&self.get(0).record.quota) }
    }

    /// Returns true if an id can have limits.
    const fn limits(&self, id: u32) -> bool {
        self.store.is_some() || id != 0
    }
}

/// One quota that is on.
pub(crate) struct Table {
    pub(crate) kind: Kind,
    /// The inode of its file.
    pub(crate) ino: u32,
    entries: Mutex<Entries>,
}

/// The quotas that are on.
pub(crate) struct Quotas {
    tables: Vec<Table>,
    /// The inodes of all quota files, also of those that are not on. They are charged to nobody.
    files: Vec<u32>,
    /// Other inodes that are charged to nobody: that of NetBSD's log.
    unpaid: Mutex<Vec<u32>>,
    inside: bool,
}

/// What a charge does to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fits,
    /// The soft limit is passed just now.
    Passes,
    /// The hard limit would be reached.
    Full,
    /// The grace period is over.
    Late,
}

/// What the accounts of a record count.
const RESOURCES: [&str; 2] = ["disk", "inode"];

/// Returns whether `change` may be added to an account.
fn judge(account: &Account, change: i64, now: i64) -> Verdict {
    let after = account.used.saturating_add_signed(change);
    if change <= 0 || !(account.is_over_hard(after) || account.is_over_soft(after)) {
        Verdict::Fits
    } else if account.is_over_hard(after) {
        Verdict::Full
    } else if !account.is_over_soft(account.used) || account.deadline == 0 {
        Verdict::Passes
    } else if now > account.deadline {
        Verdict::Late
    } else {
        Verdict::Fits
    }
}

/// Adds `change` to an account, and starts or ends its grace period.
fn add(account: &mut Account, change: i64, now: i64, grace: i64, limits: bool) {
    account.used = account.used.saturating_add_signed(change);
    if !limits {
        return;
    }
    if !account.is_over_soft(account.used) {
        account.deadline = 0;
    } else if account.deadline == 0 {
        account.deadline = now.saturating_add(grace);
    }
}

impl Table {
    /// Returns a table of these records, of which those in `changed` are not in the file, which has
    /// this inode on this device.
    pub(crate) fn new(
        (kind, ino): (Kind, u32),
        records: &BTreeMap<u32, Quota>,
        changed: BTreeSet<u32>,
    ) -> Self {
        let entry = |&quota: &Quota| Entry::from(Record { quota, ..Record::UNLIMITED });
        let by_id = records.iter().map(|(&id, quota)| (id, entry(quota))).collect();
        let entries = Entries { by_id, default: Record::UNLIMITED, changed, store: None, changes: 0 };
        Self { kind, ino, entries: Mutex::new(entries) }
    }

    /// Returns the table of quotas inside the file system.
    pub(crate) fn inside(
        (kind, ino): (Kind, u32),
        records: impl IntoIterator<Item = (u32, Record)>,
        default: Record,
        store: Store,
    ) -> Self {
        let by_id = records.into_iter().map(|(id, record)| (id, record.into())).collect();
        let entries = Entries { by_id, default, changed: BTreeSet::new(), store: Some(store), changes: 0 };
        Self { kind, ino, entries: Mutex::new(entries) }
    }

    /// Returns true for quotas inside the file system.
    pub(crate) fn is_inside(&self) -> bool {
        self.entries.lock().store.is_some()
    }

    /// Has the store of quotas inside the file system changed.
    pub(crate) fn with_store<T>(&self, change: impl FnOnce(&mut Store) -> T) -> Option<T> {
        self.entries.lock().store.as_mut().map(change)
    }

    /// Returns all records.
    pub(crate) fn records(&self) -> BTreeMap<u32, Quota> {
        self.entries.lock().by_id.iter().map(|(&id, entry)| (id, entry.record.quota)).collect()
    }

    /// Returns what is recorded of a user or group.
    pub(crate) fn record(&self, id: u32) -> Record {
        self.entries.lock().get(id).record
    }

    /// Returns the grace periods of those that have none of their own.
    pub(crate) fn grace(&self) -> Grace {
        let entries = self.entries.lock();
        entries.grace(&entries.default)
    }

    /// Returns how often something was changed.
    pub(crate) fn changes(&self) -> u64 {
        self.entries.lock().changes
    }

    /// Returns true if the file has a record otherwise.
    pub(crate) fn has_changed(&self) -> bool {
        !self.entries.lock().changed.is_empty()
    }

    /// Takes the records that the file has otherwise; they count as written.
    pub(crate) fn take_changed(&self) -> BTreeMap<u32, Quota> {
        let mut entries = self.entries.lock();
        let changed = std::mem::take(&mut entries.changed);
        changed.into_iter().map(|id| (id, entries.get(id).record.quota)).collect()
    }

    /// Notes records that could not be written after all.
    pub(crate) fn keep_changed(&self, ids: impl IntoIterator<Item = u32>) {
        self.entries.lock().changed.extend(ids);
    }

    /// Changes a record.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is no entry for it; device errors.
    pub(crate) fn change(&self, id: u32, pen: &Pen<'_>, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut entries = self.entries.lock();
        let mut entry = entries.get(id);
        change(&mut entry.record);
        entries.put(id, entry, pen)
    }

    /// Sets the usage of these ids, if nothing was changed since [`Self::changes`] was `since`.
    /// Returns the number of changes now, or none if something was.
    ///
    /// # Errors
    /// As [`Self::change`].
    pub(crate) fn set_usage(&self, since: u64, usage: &[(u32, Usage)], pen: &Pen<'_>) -> Result<Option<u64>> {
        let mut entries = self.entries.lock();
        if entries.changes != since {
            return Ok(None);
        }
        for &(id, usage) in usage {
            let mut entry = entries.get(id);
            entry.record.quota.set_usage(usage);
            entries.put(id, entry, pen)?;
        }
        Ok(Some(entries.changes))
    }

    /// Changes what new records get, and those that have none, inside the file system.
    ///
    /// # Errors
    /// Device errors.
    pub(crate) fn change_default(&self, pen: &Pen<'_>, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut entries = self.entries.lock();
        let mut default = entries.default;
        change(&mut default);
        if let Some(store) = &mut entries.store {
            store.write_default(&default, pen)?;
        }
        entries.default = default;
        Ok(())
    }

    /// Checks a charge, and makes it if there is a pen. What is refused changes nothing.
    fn charge(
        &self,
        charge: Charge,
        now: i64,
        by: Privilege,
        pen: Option<&Pen<'_>>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Charged> {
        let mut entries = self.entries.lock();
        let mut entry = entries.get(charge.id);
        let limits = entries.limits(charge.id);
        let grace = entries.grace(&entry.record);
        let quota = &mut entry.record.quota;
        let deadlines = [quota.blocks.deadline, quota.inodes.deadline];
        let verdicts = [judge(&quota.blocks, charge.blocks, now), judge(&quota.inodes, charge.inodes, now)];
        let refused = !by.is_root()
            && limits
            && verdicts.iter().any(|verdict| matches!(verdict, Verdict::Full | Verdict::Late));
        let warned = entry.warned;
        if !by.is_root() && limits {
            let process = match by {
                Privilege::Process(caller) if caller.user == charge.owner => Some(caller.process),
                _ => None,
            };
            for ((resource, verdict), warned) in RESOURCES.into_iter().zip(verdicts).zip(&mut entry.warned) {
                let (kind, id) = (self.kind, charge.id);
                let warning = Warning { kind, id, resource, verdict, in_log: true, process };
                match verdict {
                    Verdict::Fits => {}
                    Verdict::Passes if refused || pen.is_none() => {}
                    Verdict::Passes => warnings.push(warning),
                    Verdict::Full | Verdict::Late => {
                        let in_log = !std::mem::replace(&mut warned.in_log, true);
                        let process = process.filter(|_| !warned.on_terminal);
                        warned.on_terminal |= process.is_some();
                        warnings.push(Warning { in_log, process, ..warning });
                    }
                }
            }
        }
        let lacks = |used: u64, change: i64| used.checked_add_signed(change).is_none();
        let is_impossible =
            lacks(quota.blocks.used, charge.blocks) || lacks(quota.inodes.used, charge.inodes);
        let impossible = is_impossible && entries.store.is_some();
        if let (Some(pen), false, false) = (pen, refused, impossible) {
            let Quota { blocks, inodes } = quota;
            add(blocks, charge.blocks, now, grace.blocks, limits);
            add(inodes, charge.inodes, now, grace.inodes, limits);
            for (warned, change) in entry.warned.iter_mut().zip([charge.blocks, charge.inodes]) {
                if change < 0 {
                    *warned = Warned::default();
                }
            }
            entries.put(charge.id, entry, pen)?;
        } else if let Some(kept) = entries.by_id.get_mut(&charge.id) {
            kept.warned = entry.warned;
        }
        if refused {
            Err(Error::QuotaExceeded)
        } else {
            Ok(Charged { charge, deadlines, warned, impossible })
        }
    }

    /// Takes a charge back, and has its grace periods end when they would have without it.
    fn take_back(&self, charged: &Charged, now: i64, pen: &Pen<'_>) -> Result<()> {
        let Charged { charge, deadlines, warned, impossible } = charged;
        if *impossible {
            return Ok(());
        }
        let mut entries: MutexGuard<'_, Entries> = self.entries.lock();
        let mut entry = entries.get(charge.id);
        let (grace, limits) = (entries.grace(&entry.record), entries.limits(charge.id));
        let Quota { blocks, inodes } = &mut entry.record.quota;
        add(blocks, -charge.blocks, now, grace.blocks, limits);
        add(inodes, -charge.inodes, now, grace.inodes, limits);
        for (account, &deadline) in [blocks, inodes].into_iter().zip(deadlines) {
            if deadline != 0 && account.is_over_soft(account.used) {
                account.deadline = deadline;
            }
        }
        for (now, before) in entry.warned.iter_mut().zip(warned) {
            now.in_log |= before.in_log;
            now.on_terminal |= before.on_terminal;
        }
        entries.put(charge.id, entry, pen)
    }
}

impl Quotas {
    pub(crate) fn new(tables: Vec<Table>, files: Vec<u32>) -> Self {
        let inside = tables.iter().any(Table::is_inside);
        Self { tables, files, unpaid: Mutex::new(Vec::new()), inside }
    }

    /// Charges an inode to nobody from now on, or to its owner.
    pub(crate) fn set_unpaid(&self, ino: u32, unpaid: bool) {
        let mut inodes = self.unpaid.lock();
        inodes.retain(|&other| other != ino);
        if unpaid {
            inodes.push(ino);
        }
    }

    /// Returns true if nobody pays for an inode.
    pub(crate) fn is_unpaid(&self, ino: u32) -> bool {
        self.is_file(ino) || self.unpaid.lock().contains(&ino)
    }

    /// Returns true for quotas inside the file system: all of them are, or none.
    pub(crate) const fn is_inside(&self) -> bool {
        self.inside
    }

    /// Returns the quotas.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the quota of this kind, if it is on.
    pub(crate) fn table(&self, kind: Kind) -> Option<&Table> {
        self.tables.iter().find(|table| table.kind == kind)
    }

    /// Returns true if an inode has the records of a quota.
    pub(crate) fn is_file(&self, ino: u32) -> bool {
        self.files.contains(&ino)
    }

    /// Makes a charge; what is refused changes nothing. Adds what has to be said. Returns none if
    /// the quota is not on.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`]; inside the file system [`Error::NoSpace`] and device errors.
    pub(crate) fn charge(
        &self,
        charge: Charge,
        now: i64,
        by: Privilege,
        pen: &Pen<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<Charged>> {
        self.table(charge.kind).map(|table| table.charge(charge, now, by, Some(pen), warnings)).transpose()
    }

    /// Refuses what [`Self::charge`] would, and adds what has to be said then.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`].
    pub(crate) fn check(
        &self,
        charge: Charge,
        now: i64,
        by: Privilege,
        warnings: &mut Vec<Warning>,
    ) -> Result<()> {
        self.table(charge.kind)
            .map_or(Ok(()), |table| table.charge(charge, now, by, None, warnings).map(drop))
    }

    /// Takes a charge back.
    ///
    /// # Errors
    /// Device errors, inside the file system.
    pub(crate) fn take_back(&self, charged: &Charged, now: i64, pen: &Pen<'_>) -> Result<()> {
        let table = self.table(charged.charge.kind);
        table.map_or(Ok(()), |table| table.take_back(charged, now, pen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_cache::{Cache, Settings};
    use spindle_clock::ManualClock;
    use spindle_device::MemoryDevice;
    use std::sync::Arc;

    fn cache() -> Cache {
        Cache::new(Arc::new(MemoryDevice::new(4096)), Arc::new(ManualClock::at(NOW)), Settings::default())
    }

    const NOW: i64 = 1_000_000;

    fn quotas(blocks: Account) -> Quotas {
        let record = Quota { blocks, ..Quota::default() };
        let records = BTreeMap::from([(7, record)]);
        Quotas::new(vec![Table::new((Kind::User, 3), &records, BTreeSet::new())], vec![3])
    }

    fn blocks(quotas: &Quotas) -> Account {
        quotas.table(Kind::User).unwrap().records()[&7].blocks
    }

    const fn of(blocks: i64) -> Charge {
        Charge { kind: Kind::User, id: 7, blocks, inodes: 0, owner: 7 }
    }

    /// Promise: what is taken back leaves usage and the end of the grace period as they were,
    /// whether the limit was passed or usage went below it.
    #[test]
    fn taking_back_leaves_no_trace() {
        let under = Account { used: 90, soft: 100, hard: 0, deadline: 0 };
        let over = Account { used: 120, deadline: NOW + 5, ..under };
        for (before, change) in [(under, 20), (under, 5), (under, -5), (over, 20), (over, -60), (over, -5)] {
            let (quotas, cache) = (quotas(before), cache());
            let tx = cache.begin(0).unwrap().unwrap();
            let pen = Pen { cache: &cache, tx: &tx };
            let charged =
                quotas.charge(of(change), NOW, Privilege::User, &pen, &mut Vec::new()).unwrap().unwrap();
            assert_eq!(blocks(&quotas).used, before.used.saturating_add_signed(change));
            quotas.take_back(&charged, NOW + 3, &pen).unwrap();
            assert_eq!(blocks(&quotas), before, "{change}");
        }
    }

    /// Promise: the limits are the first counts that are refused, or start the grace period, as for
    /// the kernels of BSD; a check changes nothing; other kinds and root are not limited.
    #[test]
    fn limits_are_those_of_the_kernels() {
        let account = Account { used: 90, soft: 100, hard: 110, deadline: 0 };
        let charge = |account: Account, change, now, by| {
            let (quotas, cache) = (quotas(account), cache());
            let tx = cache.begin(0).unwrap().unwrap();
            let pen = Pen { cache: &cache, tx: &tx };
            let checked = quotas.check(of(change), now, by, &mut Vec::new()).is_ok();
            assert_eq!(blocks(&quotas), account);
            let charged = quotas.charge(of(change), now, by, &pen, &mut Vec::new()).is_ok();
            assert_eq!(checked, charged);
            charged.then(|| blocks(&quotas))
        };
        let user = |change| charge(account, change, NOW, Privilege::User);
        assert_eq!(user(9).unwrap().deadline, 0);
        assert_eq!(user(10).unwrap().deadline, NOW + crate::quota::DEFAULT_GRACE);
        assert_eq!((user(19).is_some(), user(20)), (true, None));
        assert_eq!(charge(account, 500, NOW, Privilege::Root).unwrap().used, 590);
        let late = Account { used: 105, deadline: NOW, ..account };
        assert!(charge(late, 1, NOW, Privilege::User).is_some());
        assert!(charge(late, 1, NOW + 1, Privilege::User).is_none());
        assert!(charge(late, -1, NOW + 1, Privilege::User).is_some());
        let (quotas, cache) = (quotas(account), cache());
        let tx = cache.begin(0).unwrap().unwrap();
        let pen = Pen { cache: &cache, tx: &tx };
        let group = Charge { kind: Kind::Group, ..of(1 << 40) };
        assert!(quotas.charge(group, NOW, Privilege::User, &pen, &mut Vec::new()).unwrap().is_none());
    }
}
