//! Mounting and unmounting by the kernel.
//!
//! If root mounts a block device, the type is `fuseblk`: the kernel claims the device for the mount
//! and passes on `sync(2)` and `syncfs(2)` (Linux 6.18 and newer). The kernel allows only one such
//! mount of a device. A second one, of another partition that the kernel does not see, is an
//! ordinary FUSE mount.
//!
//! Root mounts directly. Other users, and mounts with `auto_unmount`, use `fusermount3`, which
//! passes the open device back over a socket (`_FUSE_COMMFD`, the protocol of libfuse's `mount.c`).
//! For `auto_unmount` it also waits for that socket to close.

use crate::mountinfo::{self, MountDevice};
use crate::{Access, Error, MountOptions, Result};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::mount::{MntFlags, MsFlags};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{getegid, geteuid};
use spindle_vfs::{AclKind, AtimePolicy};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const DEVICE: &str = "/dev/fuse";
/// Block size that the kernel uses for a mounted block device; all disks support it.
const BLOCK_BYTES: u32 = 4096;
const FUSERMOUNT: &str = "fusermount3";

/// A mount that exists but is not served yet.
pub(crate) struct KernelMount {
    /// The open `/dev/fuse`.
    pub(crate) fd: OwnedFd,
    /// The kernel's device number of the mounted file system.
    pub(crate) device: MountDevice,
    /// True for a `fuseblk` mount of a block device.
    pub(crate) is_block: bool,
    /// Socket to `fusermount3`, which unmounts when it is closed.
    pub(crate) auto_unmount: Option<UnixStream>,
}

/// Returns true if anyone except root may use the mount. Root passes every check.
fn is_used_by_users(options: &MountOptions) -> bool {
    options.access == Access::Everyone || !geteuid().is_root()
}

/// Returns true if the kernel must check permissions. With its checks each create costs a GETATTR
/// of the directory.
pub(crate) fn needs_permission_checks(options: &MountOptions) -> bool {
    options.default_permissions || is_used_by_users(options) && !server_checks(options)
}

/// Returns true if the server checks permissions, because the lists that decide are none of the
/// kernel's. With `uid=`, `umask=` and such they do not decide.
pub(crate) fn server_checks(options: &MountOptions) -> bool {
    options.acls == AclKind::Nfs4 && is_used_by_users(options) && !options.changes_shown_attrs()
}

/// Refuses an access rule that the kernel does not enforce.
fn check_access(access: Access, is_root: bool) -> Result<()> {
    if access == Access::OwnerAndRoot && !is_root {
        return Err(Error::option(
            "allow_root",
            "cannot be enforced: the kernel admits only the owner or everyone, and shows cached data without asking; \
             use allow_other, which enforces the permissions of the files, or let root mount it",
        ));
    }
    Ok(())
}

/// Mounts on `dir`, an absolute path without symbolic links. `mount` and `df` show `source`.
pub(crate) fn mount(dir: &Path, source: &str, options: &MountOptions) -> Result<KernelMount> {
    let root = geteuid().is_root();
    check_access(options.access, root)?;
    for (asked, word) in [(options.suid, "suid"), (options.dev, "dev")] {
        if asked == Some(true) && (!root || options.auto_unmount) {
            let why = if root { "cannot be combined with auto_unmount" } else { "is for root only" };
            return Err(Error::option(word, why));
        }
    }
    let (fd, auto_unmount) = if root && !options.auto_unmount {
        (mount_directly(dir, source, options)?, None)
    } else {
        mount_by_helper(dir, source, options)?
    };
    let (device, is_block) = match mountinfo::mounted_on(dir)? {
        Some(entry) => (entry.device, entry.fs_type.starts_with("fuseblk.")),
        None => {
            return Err(Error::State(format!(
                "{} is mounted, but is missing in the mount table",
                dir.display()
            )));
        }
    };
    Ok(KernelMount { fd, device, is_block, auto_unmount })
}

fn mount_directly(dir: &Path, source: &str, options: &MountOptions) -> Result<OwnedFd> {
    let refused = |e: io::Error| Error::mount("mount on", dir, e);
    let fuse = File::options()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|e| Error::system(format!("cannot open {DEVICE} (is the fuse module loaded?)"), e))?;
    let mode = std::fs::metadata(dir).map_err(refused)?.mode();
    let data = format!(
        "fd={},rootmode={mode:o},user_id={},group_id={}",
        fuse.as_raw_fd(),
        geteuid().as_raw(),
        getegid().as_raw()
    );
    let words = [
        (",allow_other", options.access == Access::Everyone),
        (",default_permissions", needs_permission_checks(options)),
    ];
    let data = words.into_iter().filter(|&(_, on)| on).fold(data, |data, (word, _)| data + word);
    let flags = flags(options);
    let mount = |kind: &str, source: &Path, data: &str| {
        let fs_type = format!("{kind}.{}", options.subtype);
        nix::mount::mount(Some(source), dir, Some(fs_type.as_str()), flags, Some(data))
    };
    if let Some(device) = options.block_device.as_deref().filter(|_| options.fsname.is_none()) {
        match mount("fuseblk", device, &format!("{data},blksize={BLOCK_BYTES}")) {
            Ok(()) => return Ok(fuse.into()),
            // Nothing has to be made durable.
            Err(error) if options.read_only => {
                log::info!("{}: cannot mount it as a block device: {error}", device.display());
            }
            Err(error) => {
                log::warn!(
                    "{}: cannot mount it as a block device, so sync(2) will not make it durable: {error}",
                    device.display()
                );
            }
        }
    }
    mount("fuse", Path::new(source), &data).map_err(|e| refused(e.into()))?;
    Ok(fuse.into())
}

/// Returns the flags of mount(2). FUSE takes no notice of the rule for access times, but the table
/// of mounts shows it, and mount(8) repeats what that shows at a remount.
fn flags(options: &MountOptions) -> MsFlags {
    let flags = [
        (MsFlags::MS_RDONLY, options.read_only),
        (MsFlags::MS_NOSUID, options.suid != Some(true)),
        (MsFlags::MS_NODEV, options.dev != Some(true)),
        (MsFlags::MS_NOEXEC, !options.exec),
        (MsFlags::MS_NOATIME, options.atime == AtimePolicy::Never),
        (MsFlags::MS_RELATIME, options.atime == AtimePolicy::Relative),
        (MsFlags::MS_STRICTATIME, options.atime == AtimePolicy::Always),
    ];
    flags.into_iter().filter(|&(_, on)| on).fold(MsFlags::empty(), |flags, (flag, _)| flags | flag)
}

/// Gives the mount of `device` on `dir` the flags of `options`; only root can do it. If it becomes
/// read-only the kernel writes back all pages first.
///
/// # Errors
/// [`Error::Mount`] with EBUSY if it is to become read-only and files are open for writing, or are
/// open and have no name any more.
pub(crate) fn remount(dir: &Path, device: MountDevice, options: &MountOptions) -> Result<()> {
    if mountinfo::mounted_on(dir)?.is_none_or(|entry| entry.device != device) {
        return Err(Error::State(format!("{} is not where it was mounted any more", dir.display())));
    }
    let flags = flags(options) | MsFlags::MS_REMOUNT;
    nix::mount::mount(None::<&str>, dir, None::<&str>, flags, None::<&str>)
        .map_err(|e| Error::mount("remount", dir, e))
}

fn mount_by_helper(
    dir: &Path,
    source: &str,
    options: &MountOptions,
) -> Result<(OwnedFd, Option<UnixStream>)> {
    let failed = |what: &str, e: io::Error| Error::system(format!("{what} {FUSERMOUNT}"), e);
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("cannot create a socket for", e))?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))
        .map_err(|e| failed("cannot create a socket for", e.into()))?;
    let mut child = Command::new(FUSERMOUNT)
        .arg("-o")
        .arg(helper_options(source, options))
        .arg("--")
        .arg(dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .spawn()
        .map_err(|e| not_run("mount", dir, e))?;
    drop(theirs);
    let fd = receive_fd(&ours);
    if options.auto_unmount {
        // The helper runs until our end of the socket is closed.
        if let Ok(fd) = fd {
            return Ok((fd, Some(ours)));
        }
    }
    drop(ours);
    let status = child.wait().map_err(|e| failed("cannot wait for", e))?;
    match fd {
        Ok(fd) if status.success() => Ok((fd, None)),
        Ok(_) => Err(Error::mount("mount on", dir, io::Error::other(format!("{FUSERMOUNT}: {status}")))),
        Err(e) => Err(Error::mount("mount on", dir, e)),
    }
}

/// Returns the error of a `fusermount3` that could not be started.
fn not_run(what: &str, dir: &Path, error: io::Error) -> Error {
    let dir = dir.display();
    if error.kind() == io::ErrorKind::NotFound {
        return Error::State(format!(
            "cannot {what} {dir}: {FUSERMOUNT} is not installed, and only root can do without it; install the package \
             fuse3"
        ));
    }
    Error::system(format!("cannot {what} {dir}: cannot run {FUSERMOUNT}"), error)
}

/// Returns the options for `fusermount3`, which removes a backslash before a comma or a backslash.
fn helper_options(source: &str, options: &MountOptions) -> String {
    let mut text = format!("fsname={}", source.replace('\\', r"\\").replace(',', r"\,"));
    let words = [
        ("ro", options.read_only),
        ("noexec", !options.exec),
        ("noatime", options.atime == AtimePolicy::Never),
        ("nosuid", true),
        ("nodev", true),
        ("allow_other", options.access == Access::Everyone),
        ("default_permissions", needs_permission_checks(options)),
        ("auto_unmount", options.auto_unmount),
    ];
    text.push_str(",subtype=");
    text.push_str(&options.subtype);
    for (word, _) in words.into_iter().filter(|&(_, on)| on) {
        text.push(',');
        text.push_str(word);
    }
    text
}

#[allow(unsafe_code)]
fn receive_fd(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0];
    let mut data = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!(RawFd);
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(Errno::EINTR) => {}
            other => break other?,
        }
    };
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control
            && let Some(&fd) = fds.first()
        {
            // SAFETY: the kernel has just created this descriptor for us; nothing else
            // uses its number.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(io::Error::other(format!("{FUSERMOUNT} refused the mount")))
}

/// The way to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmount {
    /// Unmount only if nothing is in use.
    Unused,
    /// Detach the mount now; it ends with its last use.
    Detach,
    /// Break the connection with the daemon, which fails all requests, and detach the mount.
    Abort,
}

/// Unmounts `device` from `dir` (an absolute path without symbolic links). Does nothing if it is
/// not mounted, and fails if another file system is mounted over it.
pub(crate) fn unmount(dir: &Path, device: MountDevice, how: Unmount) -> Result<()> {
    match mountinfo::mounted_on(dir)? {
        Some(entry) if entry.device == device => {}
        _ if !mountinfo::is_mounted(device)? => return Ok(()),
        _ => return Err(Error::mount("unmount", dir, Errno::EBUSY)),
    }
    if geteuid().is_root() {
        let unmount = |flag| nix::mount::umount2(dir, MntFlags::UMOUNT_NOFOLLOW | flag);
        let result = match how {
            Unmount::Unused => unmount(MntFlags::empty()),
            Unmount::Detach => unmount(MntFlags::MNT_DETACH),
            Unmount::Abort => unmount(MntFlags::MNT_FORCE).or_else(|_| unmount(MntFlags::MNT_DETACH)),
        };
        return result.map_err(|e| Error::mount("unmount", dir, e));
    }
    let mut command = Command::new(FUSERMOUNT);
    command.args(if how == Unmount::Unused { &["-u", "--"][..] } else { &["-u", "-z", "--"] });
    command.arg(dir).stdin(Stdio::null()).env("LC_ALL", "C");
    let ran = command.output().map_err(|e| not_run("unmount", dir, e))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(Error::mount("unmount", dir, refusal(&said)))
}

/// Returns the reason that `fusermount3` gives in words.
fn refusal(said: &str) -> io::Error {
    let said = said.trim();
    if said.is_empty() || said.contains("busy") {
        return Errno::EBUSY.into();
    }
    if said.contains("not found in /etc/mtab") {
        return io::Error::other("another user has mounted it; only that user and root can unmount it");
    }
    io::Error::other(said.lines().collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `allow_root` is accepted for mounts by root, which behave so anyway, and
    /// refused to other users.
    #[test]
    fn allow_root_is_for_root() {
        assert!(check_access(Access::OwnerAndRoot, true).is_ok());
        let error = check_access(Access::OwnerAndRoot, false).unwrap_err().to_string();
        assert!(
            error.contains("`allow_root` cannot be enforced") && error.contains("use allow_other"),
            "{error}"
        );
        let options = MountOptions { access: Access::OwnerAndRoot, ..Default::default() };
        assert!(!helper_options("image", &options).contains("allow_other"));
    }

    /// Promise: only a mount that is in use is busy; of others the reason is passed on.
    #[test]
    fn reasons_of_fusermount() {
        let busy = refusal("fusermount3: failed to unmount /mnt: Device or resource busy\n");
        assert_eq!(busy.raw_os_error(), Some(libc::EBUSY));
        let other = refusal("fusermount3: entry for /mnt not found in /etc/mtab\n").to_string();
        assert!(other.contains("another user has mounted it"), "{other}");
        let failed = refusal("fusermount3: failed to open /etc/mtab: No such file or directory\n");
        assert!(failed.raw_os_error().is_none() && failed.to_string().contains("/etc/mtab"), "{failed}");
    }

    /// Promise: `fusermount3` reads a name with commas as a name, not as options.
    #[test]
    fn helper_options_are_escaped() {
        let text = helper_options(r"a,suid\,b", &MountOptions { auto_unmount: true, ..Default::default() });
        assert!(text.starts_with(r"fsname=a\,suid\\\,b,subtype=spindle,nosuid,nodev,"), "{text}");
        assert!(text.ends_with(",auto_unmount"), "{text}");
    }
}
