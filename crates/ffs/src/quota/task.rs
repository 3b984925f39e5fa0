//! What can be asked about quotas, and the answer.

use super::{Account, Grace, Kind, Quota, Usage};
use serde::{Deserialize, Serialize};
use spindle_vfs::{Error, Result};
use std::collections::BTreeMap;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Count usage, enter it into the files, and make those that are missing.
    Check(Vec<Kind>),
    /// Change limits or grace periods.
    Edit(Edit),
    /// Say what is used and allowed.
    Report(Vec<Kind>),
}

/// A change of limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Whose.
    pub kind: Kind,
    /// The users or groups.
    pub ids: Vec<u32>,
    /// The limits of blocks of 512 bytes, if they change.
    pub blocks: Option<Limits>,
    /// The limits of inodes, if they change.
    pub inodes: Option<Limits>,
    /// The user or group whose limits they get.
    pub prototype: Option<u32>,
    /// The grace periods of all users or all groups in seconds, if they change.
    pub grace: Option<i64>,
}

/// A soft and a hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// [`Account::soft`](super::Account::soft).
    pub soft: u64,
    /// [`Account::hard`](super::Account::hard).
    pub hard: u64,
}

/// Limits and usage of all users or all groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sheet {
    /// Whose.
    pub kind: Kind,
    /// There is a quota file.
    pub has_file: bool,
    /// The file was made now.
    pub made: bool,
    /// The limits are enforced now.
    pub enforced: bool,
    /// The grace periods.
    pub grace: Grace,
    /// Those that use something or have limits, by id.
    pub rows: Vec<Row>,
}

/// Limits and usage of a user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The id.
    pub id: u32,
    /// Limits, and usage as it is.
    #[serde(flatten)]
    pub quota: Quota,
    /// The usage that the file had, if that was another.
    pub recorded: Option<Usage>,
}

impl Edit {
    /// Changes `records`, and returns the ids of those that have changed.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for limits of id 0.
    pub(crate) fn apply(&self, records: &mut BTreeMap<u32, Quota>, now: i64) -> Result<Vec<u32>> {
        let limits = |account: Account| Limits { soft: account.soft, hard: account.hard };
        let pattern = self.prototype.map(|id| records.get(&id).copied().unwrap_or_default());
        let blocks = self.blocks.or(pattern.map(|quota| limits(quota.blocks)));
        let inodes = self.inodes.or(pattern.map(|quota| limits(quota.inodes)));
        let mut changed = Vec::new();
        if let Some(grace) = self.grace {
            let zero = records.entry(0).or_default();
            (zero.blocks.deadline, zero.inodes.deadline) = (grace, grace);
            changed.push(0);
        }
        let grace = Grace::of(&records.get(&0).copied().unwrap_or_default());
        for &id in &self.ids {
            if id == 0 {
                let what = format!("limits of {} 0, whose record holds the grace periods", self.kind.word());
                return Err(Error::unsupported(what, "limit others"));
            }
            let quota = records.entry(id).or_default();
            for (account, new, grace) in
                [(&mut quota.blocks, blocks, grace.blocks), (&mut quota.inodes, inodes, grace.inodes)]
            {
                if let Some(Limits { soft, hard }) = new {
                    account.limit(soft, hard, now.saturating_add(grace));
                }
            }
            changed.push(id);
        }
        Ok(changed)
    }
}

impl Sheet {
    /// Returns the sheet of these records, where `recorded` has the usage of the file that was
    /// another.
    pub(crate) fn new(kind: Kind, records: &BTreeMap<u32, Quota>, recorded: &BTreeMap<u32, Usage>) -> Self {
        let grace = Grace::of(&records.get(&0).copied().unwrap_or_default());
        let rows = records.iter().map(|(&id, &quota)| {
            let mut quota = quota;
            if id == 0 {
                (quota.blocks.deadline, quota.inodes.deadline) = (0, 0);
            }
            Row { id, quota, recorded: recorded.get(&id).copied() }
        });
        let rows = rows.filter(|row| !row.quota.is_empty() || row.recorded.is_some()).collect();
        Self { kind, has_file: true, made: false, enforced: false, grace, rows }
    }

    /// Returns the sheet of quotas inside the file system, where id 0 is like others.
    pub(crate) fn inside(
        kind: Kind,
        records: &BTreeMap<u32, Quota>,
        grace: Grace,
        recorded: &BTreeMap<u32, Usage>,
        enforced: bool,
    ) -> Self {
        let row = |(&id, &quota)| Row { id, quota, recorded: recorded.get(&id).copied() };
        let rows = records.iter().map(row).filter(|row| !row.quota.is_empty() || row.recorded.is_some());
        Self { kind, has_file: true, made: false, enforced, grace, rows: rows.collect() }
    }
}
