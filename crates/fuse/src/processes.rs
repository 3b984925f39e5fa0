//! What `/proc` says of the processes that use a mount.
//!
//! A request names user, group and process of its caller, but not the caller's other groups. The
//! process waits for the reply, so they can be looked up while they are true.

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use spindle_vfs::Cred;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// The processes of this machine. `/proc` is opened before anything is served, because a path could
/// lead through the mount itself.
#[derive(Debug, Default)]
pub(crate) struct Processes(Option<OwnedFd>);

impl Processes {
    /// Opens `/proc`. If there is none, nothing is known of any process.
    pub(crate) fn open() -> Self {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Self(nix::fcntl::open("/proc", flags, Mode::empty()).ok())
    }

    /// Returns the caller with all its groups; with that of the request alone if they are not
    /// known, as those of a process in a container that the daemon does not see.
    pub(crate) fn with_groups<'a>(&self, by: &Cred<'a>) -> Cred<'a> {
        self.known(by).unwrap_or_else(|| by.clone())
    }

    /// Returns the caller with all its groups, if they are known.
    pub(crate) fn known<'a>(&self, by: &Cred<'a>) -> Option<Cred<'a>> {
        Some(Cred { groups: self.groups(by.process)?.into(), ..by.clone() })
    }

    fn groups(&self, process: u32) -> Option<Vec<u32>> {
        let (flags, name) = (OFlag::O_RDONLY | OFlag::O_CLOEXEC, format!("{process}/status"));
        let status = openat(self.0.as_ref()?, name.as_str(), flags, Mode::empty()).ok()?;
        let mut text = Vec::new();
        File::from(status).read_to_end(&mut text).ok()?;
        groups_in(&String::from_utf8_lossy(&text))
    }
}

/// Returns the groups in a `/proc/PID/status`.
fn groups_in(status: &str) -> Option<Vec<u32>> {
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    groups.split_whitespace().map(|gid| gid.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: all groups of a process are found, and none where nothing is known.
    #[test]
    fn groups_of_a_process() {
        assert_eq!(
            groups_in("Name:\tGroups: 7\nGid:\t1\t1\t1\t1\nGroups:\t4 24 1001 \nNStgid:\t9\n"),
            Some(vec![4, 24, 1001])
        );
        assert_eq!(groups_in("Groups:\t\n"), Some(vec![]));
        assert_eq!(groups_in("Groups:\tx\n"), None);
        assert_eq!(groups_in(""), None);
        let own: Vec<u32> =
            nix::unistd::getgroups().unwrap().into_iter().map(nix::unistd::Gid::as_raw).collect();
        assert_eq!(Processes::open().groups(std::process::id()), Some(own));
        assert_eq!(Processes(None).groups(std::process::id()), None);
        let unknown = Cred { process: u32::MAX, ..Cred::user(1, 10) };
        assert_eq!(Processes::open().with_groups(&unknown), unknown);
    }
}
