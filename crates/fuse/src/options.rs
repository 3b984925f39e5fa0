//! The mount options of `-o`.
//!
//! [`MountOptions`] is plain data. It contains the options of this crate and also those of the
//! caller (`offset`, `force`, the access-time policy), because `mount(8)` passes all of them in one
//! string. Later options override earlier ones, as with every `mount`. What each is called and does
//! is in one table (`table`), which the help is made of, too.

mod table;
mod values;

use crate::{Error, Result, kernel};
use spindle_vfs::{AclKind, AtimePolicy, GroupRule};
use std::path::PathBuf;
use std::time::Duration;
use values::Given;

/// The users who may use the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The user who mounts.
    #[default]
    Owner,
    /// The user who mounts, and root; only for mounts by root, where it is the same.
    OwnerAndRoot,
    /// All users.
    Everyone,
}

/// Limit of the bytes of one file on their way to the device; writers wait when it is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteLimit {
    /// The default of the caller.
    #[default]
    Usual,
    /// This many bytes.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

/// All options of `-o`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Many options are on or off.
pub struct MountOptions {
    /// `ro`: nothing can be changed. The caller must open the image read-only.
    pub read_only: bool,
    /// `allow_other`, `allow_root`.
    pub access: Access,
    /// `default_permissions`: the kernel checks permissions even if that is not needed for
    /// safety.
    pub default_permissions: bool,
    /// `noatime`, `relatime`, `strictatime`; for the caller.
    pub atime: AtimePolicy,
    /// `uid=`: the owner shown for all files.
    pub uid: Option<u32>,
    /// `gid=`: the group shown for all files.
    pub gid: Option<u32>,
    /// `fmask=` or `umask=`: all files are shown with the permissions 777 without these bits.
    pub file_mask: Option<u32>,
    /// `dmask=` or `umask=`: the same for directories.
    pub dir_mask: Option<u32>,
    /// `offset=`: start of the file system in the image, in bytes; for the caller.
    pub offset: Option<u64>,
    /// `sb=`: the copy of the superblock to read with, its sector of 512 bytes or its byte; for the
    /// caller.
    pub superblock: Option<u64>,
    /// `dialect=`: dialect or format of the file system, instead of the detected one; for the
    /// caller.
    pub dialect: Option<String>,
    /// The block device of the file system, if it is on one and the caller has not claimed it.
    /// If root mounts it, the kernel passes on `sync(2)` and `syncfs(2)`, from Linux 6.18 on.
    pub block_device: Option<PathBuf>,
    /// `fsname=`: the source that `mount` and `df` show.
    pub fsname: Option<String>,
    /// `subtype=`: the type shown is `fuse.` and this.
    pub subtype: String,
    /// `users`: any user may unmount it, as mount(8) promises; for the caller.
    pub any_user_unmounts: bool,
    /// `auto_unmount`: unmount even if the daemon is killed; needs `fusermount3`.
    pub auto_unmount: bool,
    /// `suid`, `nosuid`: honour set-id bits; only for root. `None` is the default of the caller; if
    /// the caller has none, they are not honoured.
    pub suid: Option<bool>,
    /// `dev`, `nodev`: the same for device nodes.
    pub dev: Option<bool>,
    /// `exec`, `noexec`: programs can be run.
    pub exec: bool,
    /// `grpid` or `bsdgroups`, `nogrpid` or `sysvgroups`: the group of new files.
    pub groups: GroupRule,
    /// `force`: write in spite of objections; for the caller.
    pub force: bool,
    /// `threads=`: number of threads that serve requests; with `io_uring`, for each CPU.
    pub threads: usize,
    /// `io_uring`, `noio_uring`: requests come through `io_uring`, or not; with neither, if the
    /// kernel has it switched on.
    pub io_uring: Option<bool>,
    /// `commit=`: maximum time from a change until it is durable.
    pub commit: Duration,
    /// `writeback`: the kernel keeps written data and sends it later, so `write(2)` cannot
    /// report a full disk. Without it, and with `writethrough`, a write that has returned has
    /// its space.
    pub writeback: bool,
    /// `nouser_xattr`: no extended attributes, which saves two requests for each listed file.
    pub xattrs: bool,
    /// `sync` and `dirsync`, `async`: each change of names is on the device, one block after
    /// the other, before it is reported as done, as in 1984 and without a log; for the caller.
    pub synchronous_names: bool,
    /// `log`, `nolog`: use of a log, which is created if missing. `None` is the default of the
    /// caller. For the caller.
    pub log: Option<bool>,
    /// `logsize=`: size of a new log in bytes; for the caller.
    pub log_bytes: Option<u64>,
    /// `userquota`, `noquota`: the quota file of users in the file system, if their quota is on;
    /// for the caller.
    pub user_quota: Option<String>,
    /// `groupquota`, `noquota`: the same for groups.
    pub group_quota: Option<String>,
    /// `cluster=`, `nocluster`: size of a transfer of file data in bytes, 0 for single blocks;
    /// `None` for the cluster size of the file system. For the caller.
    pub cluster_bytes: Option<u64>,
    /// `readahead`, `noreadahead`: read the next cluster of a file in advance; for the caller.
    pub read_ahead: bool,
    /// `runs`, `noruns`: a file whose next block is in use continues at a long run of free
    /// blocks; for the caller.
    pub runs: bool,
    /// `discard`, `nodiscard`: space is declared unused to the device when it is freed.
    pub discard: bool,
    /// `writelimit=`, `nowritelimit`: see [`WriteLimit`]; for the caller.
    pub write_limit: WriteLimit,
    /// `filecache=`, `nofilecache`: bytes of memory in which the daemon keeps file data that was
    /// used; `None` to keep none. For the caller.
    pub file_cache_bytes: Option<u64>,
    /// `freebehind`, `nofreebehind`: evict data behind a sequential reader of a large file when
    /// that memory is nearly full; for the caller.
    pub free_behind: bool,
    /// `smallfiles=`, `nosmallfiles`: files of up to this many bytes stay in memory with their
    /// inodes, besides that memory; for the caller.
    pub small_file_bytes: Option<u64>,
    /// `trace=`: the trace file in which to record the use of files; for the caller.
    pub trace: Option<PathBuf>,
    /// The access control lists of the file system, which no option says: of those of `NFSv4` no
    /// kernel knows, so the daemon checks permissions in its place.
    pub acls: AclKind,
}

/// Two threads were fastest: one can serve while the other waits for the device, and few threads
/// are woken in vain.
const DEFAULT_THREADS: usize = 2;
const DEFAULT_COMMIT: Duration = Duration::from_secs(5);

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            access: Access::default(),
            default_permissions: false,
            atime: AtimePolicy::default(),
            uid: None,
            gid: None,
            file_mask: None,
            dir_mask: None,
            offset: None,
            superblock: None,
            dialect: None,
            block_device: None,
            fsname: None,
            subtype: "spindle".into(),
            any_user_unmounts: false,
            auto_unmount: false,
            suid: None,
            dev: None,
            exec: true,
            groups: GroupRule::default(),
            force: false,
            threads: DEFAULT_THREADS,
            io_uring: None,
            commit: DEFAULT_COMMIT,
            writeback: false,
            xattrs: true,
            synchronous_names: false,
            log: None,
            log_bytes: None,
            user_quota: None,
            group_quota: None,
            cluster_bytes: None,
            read_ahead: true,
            runs: false,
            discard: false,
            write_limit: WriteLimit::Usual,
            file_cache_bytes: None,
            free_behind: true,
            small_file_bytes: None,
            trace: None,
            acls: AclKind::None,
        }
    }
}

impl MountOptions {
    /// Returns true if owners or permissions are shown that are not those of the files.
    pub(crate) fn changes_shown_attrs(&self) -> bool {
        self.uid.is_some() || self.gid.is_some() || self.file_mask.is_some() || self.dir_mask.is_some()
    }

    /// Parses one `-o` string into these options. A backslash escapes the next character, so
    /// that a name can contain a comma.
    ///
    /// # Errors
    /// [`Error::UnknownOption`]; [`Error::Option`] with the option that lacks its value, or has an
    /// invalid one.
    pub fn parse(&mut self, text: &str) -> Result<()> {
        for word in split(text) {
            self.apply(&word)?;
        }
        self.check_file_cache()?;
        self.check_log()
    }

    /// Refuses options about a memory for file data if there is none.
    fn check_file_cache(&self) -> Result<()> {
        let words = [("smallfiles", self.small_file_bytes.is_some()), ("nofreebehind", !self.free_behind)];
        match words.into_iter().find(|(_, given)| *given && self.file_cache_bytes.is_none()) {
            Some((word, _)) => Err(Error::option(word, "changes nothing without filecache=")),
            None => Ok(()),
        }
    }

    /// Returns true if the `-o` string `text` asks to change an existing mount.
    #[must_use]
    pub fn ask_remount(text: &str) -> bool {
        split(text).iter().any(|word| word == "remount")
    }

    /// Returns the options of this mount after a remount with the `-o` string `text`, which may
    /// repeat options of the mount, as `mount(8)` does with those of fstab and of the table of
    /// mounts.
    ///
    /// # Errors
    /// As [`Self::parse`], and [`Error::Option`] with the first option that a remount cannot
    /// change.
    pub fn remounted(&self, text: &str) -> Result<Self> {
        let mut new = self.clone();
        for word in split(text).into_iter().filter(|word| !self.is_shown(word)) {
            new.apply(&word)?;
            let rest = Self {
                read_only: self.read_only,
                atime: self.atime,
                suid: self.suid,
                dev: self.dev,
                exec: self.exec,
                commit: self.commit,
                force: self.force,
                user_quota: self.user_quota.clone(),
                group_quota: self.group_quota.clone(),
                any_user_unmounts: self.any_user_unmounts,
                ..new.clone()
            };
            if rest != *self {
                return Err(Error::option(
                    &word,
                    "cannot be changed by a remount; unmount it, and mount it again",
                ));
            }
        }
        Ok(new)
    }

    /// Returns true for options that the table of mounts shows of such a mount although nobody gave
    /// them.
    fn is_shown(&self, word: &str) -> bool {
        let key = word.split_once('=').map_or(word, |(key, _)| key);
        matches!(key, "user_id" | "group_id" | "rootmode" | "blksize" | "max_read" | "seclabel")
            || word == "default_permissions" && kernel::needs_permission_checks(self)
    }

    /// Checks that the options about the log do not contradict each other.
    fn check_log(&self) -> Result<()> {
        if self.synchronous_names && (self.log == Some(true) || self.log_bytes.is_some()) {
            return Err(Error::option(
                "sync",
                "works without a log, so it cannot be combined with log or logsize=",
            ));
        }
        if self.log == Some(false) && self.log_bytes.is_some() {
            return Err(Error::option("nolog", "cannot be combined with logsize="));
        }
        Ok(())
    }

    fn apply(&mut self, word: &str) -> Result<()> {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        table::apply(self, Given { word, name, value })
    }

    /// Returns the names of all options, without those for other programs.
    pub fn names() -> impl Iterator<Item = &'static str> {
        table::words().map(|word| word.name)
    }

    /// Returns the help of the options, indented, at most 100 columns wide.
    #[must_use]
    pub fn help() -> String {
        table::help()
    }
}

/// Splits an option string at commas, and resolves escapes.
fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ',' => words.push(String::new()),
            '\\' => words.last_mut().expect("never empty").push(chars.next().unwrap_or('\\')),
            _ => words.last_mut().expect("never empty").push(c),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> MountOptions {
        let mut options = MountOptions::default();
        options.parse(text).unwrap();
        options
    }

    /// Promise: every option has its effect, and later options override earlier ones.
    #[test]
    fn options_have_their_effect() {
        let o =
            parsed("ro,allow_other,noatime,uid=1000,gid=100,umask=022,fmask=133,offset=63k,suid,dev,noexec");
        assert!(o.read_only && !o.exec);
        assert_eq!((o.suid, o.dev), (Some(true), Some(true)));
        assert_eq!((o.access, o.atime), (Access::Everyone, AtimePolicy::Never));
        assert_eq!((o.uid, o.gid), (Some(1000), Some(100)));
        assert_eq!((o.file_mask, o.dir_mask), (Some(0o133), Some(0o022)));
        assert_eq!(o.offset, Some(63 * 1024));
        let o =
            parsed("ro,rw,dev,nodev,suid,nosuid,grpid,threads=4,commit=30,nouser_xattr,force,dialect=netbsd");
        assert_eq!(o.dialect.as_deref(), Some("netbsd"));
        assert!(!o.read_only && !o.xattrs && o.force);
        assert_eq!((o.suid, o.dev), (Some(false), Some(false)));
        assert_eq!((o.groups, o.threads, o.commit), (GroupRule::Bsd, 4, Duration::from_secs(30)));
        assert!(parsed("writeback").writeback);
        assert_eq!(parsed("writeback,writethrough"), MountOptions::default());
        assert_eq!(parsed("grpid,sysvgroups,commit=0"), MountOptions::default());
        let o = parsed("sync,cluster=120k,noreadahead,writelimit=240K");
        assert!(o.synchronous_names && !o.read_ahead);
        assert_eq!((o.cluster_bytes, o.write_limit), (Some(120 << 10), WriteLimit::Bytes(240 << 10)));
        assert!(parsed("runs").runs && !parsed("runs,noruns").runs);
        assert!(parsed("discard").discard && !parsed("discard,nodiscard").discard);
        let o = parsed("dirsync,nocluster,nowritelimit");
        assert_eq!((o.cluster_bytes, o.write_limit), (Some(0), WriteLimit::Unlimited));
        assert!(o.synchronous_names && o.read_ahead);
        assert_eq!(parsed("cluster=16m,cluster=0").cluster_bytes, Some(0));
        assert_eq!(parsed("sync,async,noreadahead,readahead"), MountOptions::default());
        let o = parsed("nolog,sync,log,async,logsize=4m");
        assert_eq!((o.log, o.log_bytes, o.synchronous_names), (Some(true), Some(4 << 20), false));
        assert_eq!(parsed("log,sync,nolog").log, Some(false));
        let o = parsed("filecache=64m,nofreebehind,smallfiles=8k");
        assert_eq!((o.file_cache_bytes, o.small_file_bytes), (Some(64 << 20), Some(8 << 10)));
        assert!(!o.free_behind);
        let undone = "filecache=64m,nofreebehind,smallfiles=8k,freebehind,smallfiles=0,nofilecache";
        assert_eq!(parsed(undone), MountOptions::default());
    }

    /// Promise: a remount changes what it can, refuses everything else by name, and takes repeated
    /// options and those of the table of mounts for what they are: no change.
    #[test]
    fn remounts() {
        let mounted = parsed("allow_other,cluster=64k,noatime,fsname=disk");
        let table =
            "rw,nosuid,nodev,noatime,user_id=0,group_id=0,default_permissions,allow_other,blksize=4096";
        let changed = |text: &str| mounted.remounted(text);
        assert_eq!(
            changed("remount,ro,strictatime,commit=9,noexec").unwrap(),
            MountOptions {
                read_only: true,
                atime: AtimePolicy::Always,
                commit: Duration::from_secs(9),
                exec: false,
                ..mounted.clone()
            }
        );
        let same = MountOptions { suid: Some(false), dev: Some(false), ..mounted.clone() };
        assert_eq!(changed(&format!("{table},remount,cluster=64k,fsname=disk")).unwrap(), same);
        for word in [
            "cluster=128k",
            "nocluster",
            "allow_root",
            "uid=5",
            "writeback",
            "trace=x",
            "threads=3",
            "nonsense",
        ] {
            let error = changed(&format!("remount,ro,{word}")).unwrap_err().to_string();
            assert!(error.contains(&format!("`{word}`")), "{error}");
        }
    }

    /// Promise: options in fstab for `mount(8)` or systemd are accepted and change nothing.
    #[test]
    fn fstab_options_are_ignored() {
        let text =
            "defaults,_netdev,nofail,noauto,user,group,x-systemd.automount,x-gvfs-name=a b,,comment=hello";
        assert_eq!(parsed(text), MountOptions::default());
    }

    /// Promise: a name can contain an escaped comma.
    #[test]
    fn escaped_commas_stay_in_the_name() {
        let o = parsed(r"fsname=a\,b\\c,ro");
        assert_eq!(o.fsname.as_deref(), Some(r"a,b\c"));
        assert!(o.read_only);
    }

    /// Promise: invalid options are refused, and the error names them.
    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("ro,rwx", "rwx"),
            ("uid=", "uid="),
            ("uid", "uid"),
            ("uid=-1", "uid=-1"),
            ("uid=+1", "uid=+1"),
            ("uid=4294967295", "uid=4294967295"),
            ("umask=8", "umask=8"),
            ("umask=1000", "umask=1000"),
            ("ro=1", "ro=1"),
            ("offset=1x", "offset=1x"),
            ("offset=99999999999t", "offset=99999999999t"),
            ("threads=0", "threads=0"),
            ("threads=65", "threads=65"),
            ("subtype=a.b", "subtype=a.b"),
            ("fsname", "fsname"),
            ("dialect", "dialect"),
            ("cluster", "cluster"),
            ("cluster=17m", "cluster=17m"),
            ("nocluster=1", "nocluster=1"),
            ("writelimit=0", "writelimit=0"),
            ("sync=1", "sync=1"),
            ("log=1m", "log=1m"),
            ("logsize", "logsize"),
            ("logsize=1k", "logsize=1k"),
            ("logsize=65m", "logsize=65m"),
            ("log,sync", "sync"),
            ("dirsync,logsize=4m", "sync"),
            ("nolog,logsize=4m", "nolog"),
            ("filecache=1k", "filecache=1k"),
            ("filecache", "filecache"),
            ("smallfiles=4k", "smallfiles"),
            ("filecache=8m,nofreebehind,nofilecache", "nofreebehind"),
        ] {
            let error = MountOptions::default().parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{word}`")), "{text}: {error}");
        }
    }
}
