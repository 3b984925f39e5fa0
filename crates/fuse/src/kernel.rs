//! Asking the kernel for a mount, and for its end.
//!
//! What is on a block device is mounted as `fuseblk` if root does it, so that the kernel claims the
//! device for the mount and tells of `sync(2)` and `syncfs(2)` (Linux 6.18 and newer). It knows one
//! mount of a device; a second one, of another partition that the kernel does not see, is an
//! ordinary one.
//!
//! Root mounts by itself. Others, and `auto_unmount`, go through `fusermount3`, which passes the
//! open device back over a socket (`_FUSE_COMMFD`, the protocol of libfuse's `mount.c`) and, for
//! `auto_unmount`, waits for that socket to close.

use crate::mountinfo::{self, MountDevice};
use crate::{Access, Error, MountOptions, Result};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::mount::{MntFlags, MsFlags};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{getegid, geteuid};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const DEVICE: &str = "/dev/fuse";
/// What the kernel counts a block device in while it is mounted: what all disks can do.
const BLOCK_BYTES: u32 = 4096;
const FUSERMOUNT: &str = "fusermount3";

/// A mount that exists but is not served yet.
pub(crate) struct KernelMount {
    /// The open `/dev/fuse`.
    pub(crate) fd: OwnedFd,
    /// What the kernel calls the mounted file system.
    pub(crate) device: MountDevice,
    /// It is the block device itself.
    pub(crate) is_block: bool,
    /// While this is open, `fusermount3` does not unmount.
    pub(crate) auto_unmount: Option<UnixStream>,
}

/// Returns whether the kernel must check permissions: whenever anyone but root on behalf of root
/// may come in. Root would pass every check, and each create would cost a GETATTR of the directory.
pub(crate) fn needs_permission_checks(options: &MountOptions) -> bool {
    options.default_permissions || options.access == Access::Everyone || !geteuid().is_root()
}

/// Refuses what the kernel would not hold anybody to.
fn check_access(access: Access, is_root: bool) -> Result<()> {
    if access == Access::OwnerAndRoot && !is_root {
        return Err(Error::option(
            "allow_root",
            "cannot be kept: the kernel lets in the owner alone or everyone, and what it has in its caches it shows without \
             asking; use allow_other, which holds everyone to the permissions of the files, or let root mount it",
        ));
    }
    Ok(())
}

/// Mounts on `dir`, an absolute path without links. `source` is shown by `mount` and `df`.
pub(crate) fn mount(dir: &Path, source: &str, options: &MountOptions) -> Result<KernelMount> {
    let root = geteuid().is_root();
    check_access(options.access, root)?;
    for (asked, word) in [(options.suid, "suid"), (options.dev, "dev")] {
        if asked && (!root || options.auto_unmount) {
            let why = if root { "does not go together with auto_unmount" } else { "is for root only" };
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
        None => return Err(Error::State(format!("{} is mounted, but not to be seen", dir.display()))),
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
    let flags = [
        (MsFlags::MS_RDONLY, options.read_only),
        (MsFlags::MS_NOSUID, !options.suid),
        (MsFlags::MS_NODEV, !options.dev),
        (MsFlags::MS_NOEXEC, !options.exec),
    ];
    let flags =
        flags.into_iter().filter(|&(_, on)| on).fold(MsFlags::empty(), |flags, (flag, _)| flags | flag);
    let mount = |kind: &str, source: &Path, data: &str| {
        let fs_type = format!("{kind}.{}", options.subtype);
        nix::mount::mount(Some(source), dir, Some(fs_type.as_str()), flags, Some(data))
    };
    if let Some(device) = options.block_device.as_deref().filter(|_| options.fsname.is_none()) {
        match mount("fuseblk", device, &format!("{data},blksize={BLOCK_BYTES}")) {
            Ok(()) => return Ok(fuse.into()),
            Err(error) => {
                log::warn!(
                    "{}: the kernel will not tell of sync: no mount of a block device: {error}",
                    device.display()
                );
            }
        }
    }
    mount("fuse", Path::new(source), &data).map_err(|e| refused(e.into()))?;
    Ok(fuse.into())
}

fn mount_by_helper(
    dir: &Path,
    source: &str,
    options: &MountOptions,
) -> Result<(OwnedFd, Option<UnixStream>)> {
    let failed = |what: &str, e: io::Error| Error::system(format!("{what} {FUSERMOUNT}"), e);
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("no socket for", e))?;
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(|e| failed("no socket for", e.into()))?;
    let mut child = Command::new(FUSERMOUNT)
        .arg("-o")
        .arg(helper_options(source, options))
        .arg("--")
        .arg(dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .spawn()
        .map_err(|e| failed("cannot run", e))?;
    drop(theirs);
    let fd = receive_fd(&ours);
    if options.auto_unmount {
        // The helper stays until our end of the socket closes.
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

/// Returns the options as `fusermount3` reads them: it takes a backslash before a comma or a
/// backslash away.
fn helper_options(source: &str, options: &MountOptions) -> String {
    let mut text = format!("fsname={}", source.replace('\\', r"\\").replace(',', r"\,"));
    let words = [
        ("ro", options.read_only),
        ("noexec", !options.exec),
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
            // SAFETY: the kernel has just made this descriptor for us; nothing else knows its
            // number.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(io::Error::other(format!("{FUSERMOUNT} refused")))
}

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmount {
    /// Only if nothing is in use.
    Unused,
    /// Take it out of sight now; it ends when the last use ends.
    Detach,
}

/// Unmounts `device` from `dir` (absolute, without links), if it is mounted at all and is what is
/// seen there.
pub(crate) fn unmount(dir: &Path, device: MountDevice, how: Unmount) -> Result<()> {
    match mountinfo::mounted_on(dir)? {
        Some(entry) if entry.device == device => {}
        _ if !mountinfo::is_mounted(device)? => return Ok(()),
        _ => return Err(Error::mount("unmount", dir, Errno::EBUSY)),
    }
    if geteuid().is_root() {
        let detach = if how == Unmount::Detach { MntFlags::MNT_DETACH } else { MntFlags::empty() };
        return nix::mount::umount2(dir, MntFlags::UMOUNT_NOFOLLOW | detach)
            .map_err(|e| Error::mount("unmount", dir, e));
    }
    let mut command = Command::new(FUSERMOUNT);
    command.args(if how == Unmount::Detach { &["-u", "-q", "-z", "--"][..] } else { &["-u", "-q", "--"] });
    let status = command
        .arg(dir)
        .stdin(Stdio::null())
        .status()
        .map_err(|e| Error::system(format!("cannot run {FUSERMOUNT}"), e))?;
    // It says nothing of the reason; being in use is the usual one.
    if status.success() { Ok(()) } else { Err(Error::mount("unmount", dir, Errno::EBUSY)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `allow_root` is what the kernel does for a mount of root, and nothing that could be
    /// kept for others.
    #[test]
    fn allow_root_is_for_root() {
        assert!(check_access(Access::OwnerAndRoot, true).is_ok());
        let error = check_access(Access::OwnerAndRoot, false).unwrap_err().to_string();
        assert!(
            error.contains("`allow_root` cannot be kept") && error.contains("use allow_other"),
            "{error}"
        );
        let options = MountOptions { access: Access::OwnerAndRoot, ..Default::default() };
        assert!(!helper_options("image", &options).contains("allow_other"));
    }

    /// Promise: a name full of commas reaches `fusermount3` as a name, not as options.
    #[test]
    fn helper_options_are_escaped() {
        let text = helper_options(r"a,suid\,b", &MountOptions { auto_unmount: true, ..Default::default() });
        assert!(text.starts_with(r"fsname=a\,suid\\\,b,subtype=spindle,nosuid,nodev,"), "{text}");
        assert!(text.ends_with(",auto_unmount"), "{text}");
    }
}
