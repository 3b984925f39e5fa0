//! What `trace record` and `trace top` look at.

use super::container;
use crate::error::{Context, Failure, Result};
use spindle_record::Filter;
use std::path::{Path, PathBuf};

/// The options that select processes and files.
#[derive(clap::Args, Clone, Debug)]
pub struct SelectArgs {
    /// Only processes of this user: a name or a number
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only these processes, and those that they start from now on; it ends with them
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with = "all")]
    pub pid: Vec<u32>,
    /// Only processes in this cgroup or below it: a directory such as
    /// /sys/fs/cgroup/system.slice, or the name or ID of a container (Docker, Podman, containerd,
    /// CRI-O, LXC, systemd-nspawn)
    #[arg(long, value_name = "DIR|CONTAINER")]
    cgroup: Option<PathBuf>,
    /// Only files on the file system of this directory
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// Only files at or below this absolute path, as the kernel has it: below the root of a chroot
    /// or container, that root comes first
    #[arg(long, value_name = "PREFIX")]
    path: Option<String>,
    /// All processes, not only those of the COMMAND
    #[arg(long)]
    all: bool,
}

impl SelectArgs {
    /// Returns true if an option selects something, or everything.
    pub const fn is_given(&self) -> bool {
        let Self { user, pid, cgroup, mount, path, all } = self;
        *all || user.is_some() || !pid.is_empty() || cgroup.is_some() || mount.is_some() || path.is_some()
    }

    /// Returns what is selected, of the processes of a command if there is one.
    pub fn filter(&self, has_command: bool) -> Result<Filter> {
        if self.path.as_ref().is_some_and(|prefix| !prefix.starts_with('/')) {
            return Err(Failure::usage("--path: the path must be absolute"));
        }
        Ok(Filter {
            children: has_command && !self.all,
            processes: self.pid.clone(),
            user: self.user.as_deref().map(account).transpose()?,
            cgroup: self.cgroup.as_deref().map(cgroup).transpose()?,
            mount: self.mount.clone(),
            prefix: self.path.as_deref().map(real),
            ..Filter::default()
        })
    }
}

/// Returns an absolute path without the symbolic links in that part of it which exists: in a trace
/// files have the names that the kernel has for them.
fn real(path: &str) -> String {
    let path = Path::new(path);
    let found = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let whole = found.and_then(|(above, real)| Some(real.join(path.strip_prefix(above).ok()?)));
    whole.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

/// Returns the directory of a cgroup: the one at this path, or that of a container.
fn cgroup(wanted: &Path) -> Result<PathBuf> {
    match wanted.to_str() {
        Some(name) if !name.contains('/') && !wanted.is_dir() => container::cgroup(name),
        _ => Ok(wanted.to_owned()),
    }
}

/// Returns the user ID of an account.
fn account(name: &str) -> Result<u32> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let accounts = std::fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1))?
    });
    found
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| Failure::usage(format!("--user: there is no account {name}")))
}
