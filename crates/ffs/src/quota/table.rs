//! The tables of usage in memory, which every transaction charges.
//!
//! The rules are those of the BSD kernels (`ufs_quota.c`): what would reach the hard limit is
//! refused; what reaches the soft limit starts the grace period, and is refused when that is over;
//! root is counted and not limited; id 0 has no limits, because its record holds the grace periods.

use super::{Account, Grace, Kind, Quota, Usage};
use spindle_clock::Mutex;
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
}

/// A charge that was made, and what it takes to take it back.
#[derive(Clone, Copy)]
pub(crate) struct Charged {
    charge: Charge,
    /// The ends of the grace periods for blocks and inodes before it.
    deadlines: [i64; 2],
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
        }
    }
}

/// A record with what only memory knows of it.
#[derive(Default)]
struct Entry {
    quota: Quota,
    /// A warning was given that a limit was met, since something was last given back.
    warned: bool,
}

/// Usage and limits of all users or all groups.
struct Entries {
    by_id: HashMap<u32, Entry>,
    /// Those that the file has otherwise.
    changed: BTreeSet<u32>,
}

/// One quota that is on.
pub(crate) struct Table {
    pub(crate) kind: Kind,
    /// The inode of its file.
    pub(crate) ino: u32,
    /// The name of the device, for messages.
    device: String,
    entries: Mutex<Entries>,
}

/// The quotas that are on.
pub(crate) struct Quotas {
    tables: Vec<Table>,
    /// The inodes of all quota files, also of those that are not on. They are charged to nobody.
    files: Vec<u32>,
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
fn add(account: &mut Account, change: i64, now: i64, grace: i64, id: u32) {
    account.used = account.used.saturating_add_signed(change);
    if id == 0 {
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
        device: String,
        records: &BTreeMap<u32, Quota>,
        changed: BTreeSet<u32>,
    ) -> Self {
        let by_id = records.iter().map(|(&id, &quota)| (id, Entry { quota, warned: false })).collect();
        Self { kind, ino, device, entries: Mutex::new(Entries { by_id, changed }) }
    }

    /// Returns all records.
    pub(crate) fn records(&self) -> BTreeMap<u32, Quota> {
        self.entries.lock().by_id.iter().map(|(&id, entry)| (id, entry.quota)).collect()
    }

    /// Returns true if the file has a record otherwise.
    pub(crate) fn has_changed(&self) -> bool {
        !self.entries.lock().changed.is_empty()
    }

    /// Takes the records that the file has otherwise; they count as written.
    pub(crate) fn take_changed(&self) -> BTreeMap<u32, Quota> {
        let mut entries = self.entries.lock();
        let changed = std::mem::take(&mut entries.changed);
        let quota = |id| entries.by_id.get(&id).map(|entry| entry.quota).unwrap_or_default();
        changed.into_iter().map(|id| (id, quota(id))).collect()
    }

    /// Notes records that could not be written after all.
    pub(crate) fn keep_changed(&self, ids: impl IntoIterator<Item = u32>) {
        self.entries.lock().changed.extend(ids);
    }

    /// Changes a record.
    pub(crate) fn change(&self, id: u32, change: impl FnOnce(&mut Quota)) {
        let mut entries = self.entries.lock();
        change(&mut entries.by_id.entry(id).or_default().quota);
        entries.changed.insert(id);
    }

    /// Checks a charge and, if `apply`, makes it. What is refused changes nothing.
    fn charge(&self, charge: Charge, now: i64, by: Privilege, apply: bool) -> Result<Charged> {
        let mut entries = self.entries.lock();
        let grace = Grace::of(&entries.by_id.get(&0).map(|zero| zero.quota).unwrap_or_default());
        let entry = entries.by_id.entry(charge.id).or_default();
        let deadlines = [entry.quota.blocks.deadline, entry.quota.inodes.deadline];
        let verdicts = [
            ("disk", judge(&entry.quota.blocks, charge.blocks, now)),
            ("inode", judge(&entry.quota.inodes, charge.inodes, now)),
        ];
        let mut messages = Vec::new();
        let mut refused = false;
        if by == Privilege::User && charge.id > 0 {
            for (resource, verdict) in verdicts {
                let message = match verdict {
                    Verdict::Fits => continue,
                    Verdict::Passes => "quota exceeded",
                    Verdict::Full => "limit reached",
                    Verdict::Late => "quota exceeded for too long",
                };
                let refuses = verdict != Verdict::Passes;
                if !refuses || !entry.warned {
                    messages.push(format!(
                        "{}: {} {}: {resource} {message}",
                        self.device,
                        self.kind.word(),
                        charge.id
                    ));
                }
                refused |= refuses;
            }
            entry.warned |= refused;
        }
        if apply && !refused {
            let Quota { blocks, inodes } = &mut entry.quota;
            add(blocks, charge.blocks, now, grace.blocks, charge.id);
            add(inodes, charge.inodes, now, grace.inodes, charge.id);
            entry.warned &= charge.blocks >= 0 && charge.inodes >= 0;
            entries.changed.insert(charge.id);
        }
        drop(entries);
        for message in messages.iter().filter(|_| apply) {
            log::warn!("{message}");
        }
        if refused { Err(Error::QuotaExceeded) } else { Ok(Charged { charge, deadlines }) }
    }

    /// Takes a charge back, and has its grace periods end when they would have without it.
    fn take_back(&self, Charged { charge, deadlines }: &Charged, now: i64) {
        let back = Charge { blocks: -charge.blocks, inodes: -charge.inodes, ..*charge };
        // Root is never refused.
        let _ = self.charge(back, now, Privilege::Root, true);
        let mut entries = self.entries.lock();
        let Quota { blocks, inodes } = &mut entries.by_id.entry(charge.id).or_default().quota;
        for (account, &deadline) in [blocks, inodes].into_iter().zip(deadlines) {
            if deadline != 0 && account.is_over_soft(account.used) {
                account.deadline = deadline;
            }
        }
    }
}

impl Quotas {
    pub(crate) const fn new(tables: Vec<Table>, files: Vec<u32>) -> Self {
        Self { tables, files }
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

    /// Makes a charge; what is refused changes nothing. Returns none if the quota is not on.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`].
    pub(crate) fn charge(&self, charge: Charge, now: i64, by: Privilege) -> Result<Option<Charged>> {
        self.table(charge.kind).map(|table| table.charge(charge, now, by, true)).transpose()
    }

    /// Refuses what [`Self::charge`] would.
    ///
    /// # Errors
    /// [`Error::QuotaExceeded`].
    pub(crate) fn check(&self, charge: Charge, now: i64, by: Privilege) -> Result<()> {
        self.table(charge.kind).map_or(Ok(()), |table| table.charge(charge, now, by, false).map(drop))
    }

    /// Takes a charge back.
    pub(crate) fn take_back(&self, charged: &Charged, now: i64) {
        if let Some(table) = self.table(charged.charge.kind) {
            table.take_back(charged, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn quotas(blocks: Account) -> Quotas {
        let record = Quota { blocks, ..Quota::default() };
        let records = BTreeMap::from([(7, record)]);
        Quotas::new(vec![Table::new((Kind::User, 3), "test".into(), &records, BTreeSet::new())], vec![3])
    }

    fn blocks(quotas: &Quotas) -> Account {
        quotas.table(Kind::User).unwrap().records()[&7].blocks
    }

    const fn of(blocks: i64) -> Charge {
        Charge { kind: Kind::User, id: 7, blocks, inodes: 0 }
    }

    /// Promise: what is taken back leaves usage and the end of the grace period as they were,
    /// whether the limit was passed or usage went below it.
    #[test]
    fn taking_back_leaves_no_trace() {
        let under = Account { used: 90, soft: 100, hard: 0, deadline: 0 };
        let over = Account { used: 120, deadline: NOW + 5, ..under };
        for (before, change) in [(under, 20), (under, 5), (under, -5), (over, 20), (over, -60), (over, -5)] {
            let quotas = quotas(before);
            let charged = quotas.charge(of(change), NOW, Privilege::User).unwrap().unwrap();
            assert_eq!(blocks(&quotas).used, before.used.saturating_add_signed(change));
            quotas.take_back(&charged, NOW + 3);
            assert_eq!(blocks(&quotas), before, "{change}");
        }
    }

    /// Promise: the limits are the first counts that are refused, or start the grace period, as for
    /// the kernels of BSD; a check changes nothing; other kinds and root are not limited.
    #[test]
    fn limits_are_those_of_the_kernels() {
        let account = Account { used: 90, soft: 100, hard: 110, deadline: 0 };
        let charge = |account: Account, change, now, by| {
            let quotas = quotas(account);
            let checked = quotas.check(of(change), now, by).is_ok();
            assert_eq!(blocks(&quotas), account);
            let charged = quotas.charge(of(change), now, by).is_ok();
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
        let quotas = quotas(account);
        let group = Charge { kind: Kind::Group, ..of(1 << 40) };
        assert!(quotas.charge(group, NOW, Privilege::User).unwrap().is_none());
    }
}
