//! Who runs the command, as far as new files are concerned.

use rustix::fs::Mode;

/// Owner, group and umask that new files get.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits that new files do not get.
    pub umask: u32,
}

impl Caller {
    /// Asks the system. To be called before there are threads, since the umask can only be read by
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
