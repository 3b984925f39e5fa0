//! The user who runs the command, as the owner of new files.

use rustix::fs::Mode;

/// Owner, group and umask of new files.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// User ID.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Permission bits that new files do not get.
    pub umask: u32,
}

impl Caller {
    /// Reads them from the system. Call it before starting threads: the umask can only be read by
    /// setting it.
    pub fn find() -> Self {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            umask: umask.as_raw_mode(),
        }
    }
}
