//! Quotas: what each user and each group may use, and uses (paper, section 5.5).
//!
//! The one idea: what is charged is exactly what a count of all inodes would find, `di_blocks` and
//! the inode itself, so that the file of a quota and `quotacheck` of any system agree. Here stand
//! the records and their forms on the disk ([`file`]), and the tables in memory that every
//! transaction charges ([`table`]); finding and writing the files is the tree's business.

pub(crate) mod file;
pub(crate) mod inside;
pub(crate) mod store;
pub(crate) mod table;
mod task;

use serde::{Deserialize, Serialize};
pub use task::{Edit, Limits, Row, Sheet, Task};

/// Longest grace period of a file that names none, in seconds (`MAX_DQ_TIME`, `MAX_IQ_TIME`).
pub const DEFAULT_GRACE: i64 = 7 * 24 * 60 * 60;
/// Largest id that is counted: of a greater one the array would be more than 64 GiB long, and the
/// BSDs take it for a negative one.
pub const MAX_ID: u32 = i32::MAX.unsigned_abs();

/// Whose usage is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// That of the owners of files.
    User,
    /// That of the groups of files.
    Group,
}

impl Kind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::User, Self::Group];

    /// Returns the name of the quota file in the root directory.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::User => "quota.user",
            Self::Group => "quota.group",
        }
    }

    /// Returns the word for it in messages.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Group => "group",
        }
    }
}

/// Usage and limits of blocks or of inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What is in use.
    pub used: u64,
    /// The first count that starts the grace period; 0 for no limit.
    pub soft: u64,
    /// The first count that is refused; 0 for no limit.
    pub hard: u64,
    /// When the grace period ends, in seconds since 1970; 0 if none has begun. Of id 0, the length
    /// of grace periods in seconds; 0 for [`DEFAULT_GRACE`].
    pub deadline: i64,
}

impl Account {
    /// Nothing in use, no limits.
    pub(crate) const NONE: Self = Self { used: 0, soft: 0, hard: 0, deadline: 0 };

    /// Sets the limits; a grace period that begins now ends at `deadline`.
    pub(crate) const fn limit(&mut self, soft: u64, hard: u64, deadline: i64) {
        let was_over = self.is_over_soft(self.used);
        (self.soft, self.hard) = (soft, hard);
        if !self.is_over_soft(self.used) {
            self.deadline = 0;
        } else if !was_over || self.deadline == 0 {
            self.deadline = deadline;
        }
    }

    /// Returns true if `used` is over the soft limit.
    #[must_use]
    pub const fn is_over_soft(&self, used: u64) -> bool {
        self.soft > 0 && used >= self.soft
    }

    /// Returns true if `used` is over the hard limit.
    #[must_use]
    pub const fn is_over_hard(&self, used: u64) -> bool {
        self.hard > 0 && used >= self.hard
    }
}

/// What is recorded of a user or a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Space, in blocks of 512 bytes (`DEV_BSIZE`).
    pub blocks: Account,
    /// Inodes.
    pub inodes: Account,
}

impl Quota {
    /// Returns what is in use: blocks of 512 bytes, and inodes.
    #[must_use]
    pub const fn usage(&self) -> Usage {
        Usage { blocks: self.blocks.used, inodes: self.inodes.used }
    }

    /// Takes the limits and the ends of the grace periods of another record.
    pub(crate) fn set_limits(&mut self, new: &Self) {
        for (account, new) in [(&mut self.blocks, new.blocks), (&mut self.inodes, new.inodes)] {
            *account = Account { used: account.used, ..new };
        }
    }

    /// Returns true if it says nothing.
    pub(crate) const fn is_empty(&self) -> bool {
        let Self { blocks: b, inodes: i } = self;
        b.used == 0 && b.soft == 0 && b.hard == 0 && i.used == 0 && i.soft == 0 && i.hard == 0
    }

    /// Sets what is in use.
    pub(crate) const fn set_usage(&mut self, usage: Usage) {
        (self.blocks.used, self.inodes.used) = (usage.blocks, usage.inodes);
    }
}

/// What is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
}

/// How long a soft limit may be passed, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grace {
    /// For blocks.
    pub blocks: i64,
    /// For inodes.
    pub inodes: i64,
}

impl Grace {
    /// Returns what the record of id 0 says.
    #[must_use]
    pub(crate) const fn of(zero: &Quota) -> Self {
        const fn or_default(seconds: i64) -> i64 {
            if seconds == 0 { DEFAULT_GRACE } else { seconds }
        }
        Self { blocks: or_default(zero.blocks.deadline), inodes: or_default(zero.inodes.deadline) }
    }
}
