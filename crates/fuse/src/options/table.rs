//! The table of the options of `-o`: what each is called, what follows it, what it does, and what
//! the help says.

use super::{Access, DEFAULT_COMMIT, MountOptions, WriteLimit, values::Given};
use crate::{Error, Result};
use spindle_vfs::{AtimePolicy, GroupRule};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Each thread has a request buffer, so a typing error must not start thousands of threads.
const MAX_THREADS: u32 = 64;
const MAX_COMMIT_SECS: u32 = 300;
/// Limit of the cluster size, because a cluster is read into memory completely.
const MAX_CLUSTER_BYTES: u64 = 16 << 20;
/// In less memory than some blocks every read would evict what the next one needs.
const MIN_FILE_CACHE_BYTES: u64 = 1 << 20;
/// A smaller log could not hold the largest operation; a larger one takes longer to replay, and is
/// never made.
const LOG_BYTES: RangeInclusive<u64> = 64 << 10..=64 << 20;
/// The largest number of a user or a group; the next one means none.
const MAX_ID: u32 = u32::MAX - 1;

/// An option.
pub(super) struct Word {
    pub(super) name: &'static str,
    effect: Effect,
}

/// What an option does.
#[derive(Clone, Copy)]
enum Effect {
    /// It has no value.
    Plain(fn(&mut MountOptions)),
    /// It may have a value, which the help calls so.
    Optional(&'static str, fn(&mut MountOptions, Option<String>)),
    /// It has a value, which the help calls so.
    Valued(&'static str, fn(&mut MountOptions, Given<'_>) -> Result<()>),
}

const fn plain(name: &'static str, set: fn(&mut MountOptions)) -> Word {
    Word { name, effect: Effect::Plain(set) }
}

const fn optional(
    name: &'static str,
    value: &'static str,
    set: fn(&mut MountOptions, Option<String>),
) -> Word {
    Word { name, effect: Effect::Optional(value, set) }
}

const fn valued(
    name: &'static str,
    value: &'static str,
    set: fn(&mut MountOptions, Given<'_>) -> Result<()>,
) -> Word {
    Word { name, effect: Effect::Valued(value, set) }
}

/// Options that the help describes together.
struct Row {
    words: &'static [Word],
    /// What the help says of them; empty for other names of what it describes.
    help: &'static str,
}

/// All options, in the order of the help.
const ROWS: &[Row] = &[
    Row {
        words: &[plain("ro", |o| o.read_only = true), plain("rw", |o| o.read_only = false)],
        help: "read-only or not",
    },
    Row {
        // What asks for a remount looks for this word before anything else.
        words: &[plain("remount", |_| {})],
        help: "change the mount on DIR: ro, rw, the rule for access times, suid, dev, exec, commit=, force, quotas; \
               other changes are refused (root only)",
    },
    Row {
        words: &[plain("force", |o| o.force = true)],
        help: "write in spite of objections that can be overridden",
    },
    Row {
        words: &[valued("offset", "BYTES", |o, given| {
            o.offset = Some(given.size()?);
            Ok(())
        })],
        help: "the byte of IMAGE at which the file system starts",
    },
    Row {
        words: &[valued("sb", "PLACE", |o, given| {
            o.superblock = Some(given.size()?);
            Ok(())
        })],
        help: "read UFS, read-only, with the copy of its superblock at this place: a sector of 512 bytes, \
               as BSD counts, or a byte; without this option a copy is searched for if the superblock \
               cannot be used",
    },
    Row {
        words: &[valued("dialect", "NAME", |o, given| {
            o.dialect = Some(given.text()?);
            Ok(())
        })],
        help: "the system of the file system, if detection is in doubt: freebsd, netbsd, openbsd, sun, \
               sunx86, 43bsd, 44bsd, apple, nextstep, openstep, hpux or ultrix; or the format of an old one: \
               v7, 32v, bsd, sysv, sysv16, with block size and byte order if they are not the usual ones \
               (sysv-2048-be)",
    },
    Row {
        words: &[
            plain("noatime", |o| o.atime = AtimePolicy::Never),
            plain("relatime", |o| o.atime = AtimePolicy::Relative),
            plain("strictatime", |o| o.atime = AtimePolicy::Always),
        ],
        help: "reading changes access times never, rarely (the default) or always",
    },
    Row {
        words: &[
            plain("atime", |o| o.atime = AtimePolicy::Relative),
            plain("norelatime", |o| o.atime = AtimePolicy::Relative),
            plain("nostrictatime", |o| o.atime = AtimePolicy::Relative),
        ],
        help: "",
    },
    Row {
        words: &[plain("allow_other", |o| o.access = Access::Everyone)],
        help: "all users may use the mount, subject to file permissions; otherwise only the user who mounts",
    },
    Row {
        words: &[plain("allow_root", |o| o.access = Access::OwnerAndRoot)],
        help: "for mounts by root only, where it has no effect; refused to other users, because the kernel \
               could not enforce it",
    },
    Row {
        words: &[plain("default_permissions", |o| o.default_permissions = true)],
        help: "let the kernel check permissions in any case",
    },
    Row {
        words: &[
            valued("uid", "N", |o, given| {
                o.uid = Some(given.number(10, MAX_ID)?);
                Ok(())
            }),
            valued("gid", "N", |o, given| {
                o.gid = Some(given.number(10, MAX_ID)?);
                Ok(())
            }),
            valued("umask", "M", |o, given| {
                let mask = given.number(8, 0o777)?;
                (o.file_mask, o.dir_mask) = (Some(mask), Some(mask));
                Ok(())
            }),
            valued("fmask", "M", |o, given| {
                o.file_mask = Some(given.number(8, 0o777)?);
                Ok(())
            }),
            valued("dmask", "M", |o, given| {
                o.dir_mask = Some(given.number(8, 0o777)?);
                Ok(())
            }),
        ],
        help: "show everything with this owner, group and these permissions",
    },
    Row {
        words: &[plain("suid", |o| o.suid = Some(true)), plain("dev", |o| o.dev = Some(true))],
        help: "honour set-id bits and device nodes (root only; nosuid, nodev by default)",
    },
    Row {
        words: &[plain("nosuid", |o| o.suid = Some(false)), plain("nodev", |o| o.dev = Some(false))],
        help: "",
    },
    Row { words: &[plain("noexec", |o| o.exec = false)], help: "do not run programs" },
    Row { words: &[plain("exec", |o| o.exec = true)], help: "" },
    Row {
        words: &[
            plain("grpid", |o| o.groups = GroupRule::Bsd),
            plain("nogrpid", |o| o.groups = GroupRule::SysV),
        ],
        help: "new files get the group of the directory, or of the user",
    },
    Row {
        words: &[
            plain("bsdgroups", |o| o.groups = GroupRule::Bsd),
            plain("sysvgroups", |o| o.groups = GroupRule::SysV),
        ],
        help: "",
    },
    Row {
        words: &[
            valued("fsname", "NAME", |o, given| {
                o.fsname = Some(given.text()?);
                Ok(())
            }),
            valued("subtype", "NAME", |o, given| {
                let subtype = given.text()?;
                if subtype.is_empty() || subtype.bytes().any(|b| !b.is_ascii_alphanumeric() && b != b'_') {
                    return Err(given.wrong("must be letters, digits and underscores"));
                }
                o.subtype = subtype;
                Ok(())
            }),
        ],
        help: "the names that mount and df show",
    },
    Row {
        words: &[valued("commit", "SECONDS", |o, given| {
            let secs = given.number(10, MAX_COMMIT_SECS)?;
            // As in other file systems, 0 means the default.
            o.commit = if secs == 0 { DEFAULT_COMMIT } else { Duration::from_secs(secs.into()) };
            Ok(())
        })],
        help: "make changes durable at least this often (5)",
    },
    Row {
        words: &[valued("threads", "N", |o, given| {
            match given.number(10, MAX_THREADS)? {
                0 => return Err(given.wrong("must be at least 1")),
                threads => o.threads = threads as usize,
            }
            Ok(())
        })],
        help: "number of threads that serve requests, with io_uring for each CPU (2)",
    },
    Row {
        words: &[
            plain("io_uring", |o| o.io_uring = Some(true)),
            plain("noio_uring", |o| o.io_uring = Some(false)),
        ],
        help: "get requests through io_uring, which is faster, or through /dev/fuse; the default is io_uring \
               where root has switched it on by writing Y to /sys/module/fuse/parameters/enable_uring, \
               except with auto_unmount",
    },
    Row {
        words: &[plain("writethrough", |o| o.writeback = false), plain("writeback", |o| o.writeback = true)],
        help: "writethrough (the default): write(2) returns when the write has its space, or fails if the \
               disk is full.\n\
               writeback: the kernel keeps written data and sends it later, which makes small writes faster, \
               with these costs: a full disk (or a write that is too large or not allowed) is reported by \
               fsync or close, if the program asks, and otherwise by the system log and by umount, which \
               then fails; such writes cannot use the reserve for root, unless only root can use the mount; \
               size and times of a file come from the kernel and reach the image later",
    },
    Row { words: &[plain("nouser_xattr", |o| o.xattrs = false)], help: "no extended attributes" },
    Row { words: &[plain("user_xattr", |o| o.xattrs = true)], help: "" },
    Row {
        words: &[
            valued("cluster", "SIZE", |o, given| {
                let bytes = given.size()?;
                if bytes > MAX_CLUSTER_BYTES {
                    return Err(given.wrong("must be at most 16m"));
                }
                o.cluster_bytes = Some(bytes);
                Ok(())
            }),
            plain("nocluster", |o| o.cluster_bytes = Some(0)),
        ],
        help: "move file data in clusters of this many bytes (k and m for powers of 1024; at most 16m), or \
               block by block; by default in clusters as set by tunefs -a",
    },
    Row {
        words: &[plain("readahead", |o| o.read_ahead = true), plain("noreadahead", |o| o.read_ahead = false)],
        help: "read the next cluster in advance (the default on block devices; for image files the system \
               does), or only the requested data",
    },
    Row {
        words: &[plain("runs", |o| o.runs = true), plain("noruns", |o| o.runs = false)],
        help: "if the next block of a file is in use, continue at a long run of free blocks, which keeps an \
               aged disk fast, or at the nearest free block, as BSD does (the default)",
    },
    Row {
        words: &[
            valued("writelimit", "SIZE", |o, given| {
                let bytes = given.size()?;
                if bytes == 0 {
                    return Err(given.wrong("must be more than 0; nowritelimit removes the limit"));
                }
                o.write_limit = WriteLimit::Bytes(bytes);
                Ok(())
            }),
            plain("nowritelimit", |o| o.write_limit = WriteLimit::Unlimited),
        ],
        help: "make writers wait while this many bytes of a file are on their way to the device (4m)",
    },
    Row {
        words: &[
            valued("filecache", "SIZE", |o, given| {
                let bytes = given.size()?;
                if bytes < MIN_FILE_CACHE_BYTES {
                    return Err(given.wrong("must be at least 1m; nofilecache keeps nothing"));
                }
                o.file_cache_bytes = Some(bytes);
                Ok(())
            }),
            plain("nofilecache", |o| o.file_cache_bytes = None),
        ],
        help: "keep file data that was used in so much memory of the daemon (k, m and g; at least 1m), or \
               none (the default), because the kernel keeps it above the daemon. It helps readers that pass \
               by the kernel's cache (O_DIRECT), or if the kernel gives that memory to other programs",
    },
    Row {
        words: &[
            plain("freebehind", |o| o.free_behind = true),
            plain("nofreebehind", |o| o.free_behind = false),
        ],
        help: "with filecache=: when that memory is nearly full, evict what a sequential reader of a large \
               file leaves behind (the default), so that one large file does not evict all others; or what \
               was used longest ago",
    },
    Row {
        words: &[
            valued("smallfiles", "SIZE", |o, given| {
                o.small_file_bytes = Some(given.size()?).filter(|&bytes| bytes > 0);
                Ok(())
            }),
            plain("nosmallfiles", |o| o.small_file_bytes = None),
        ],
        help: "with filecache=: files of up to this many bytes, and less than a block, stay in memory with \
               their inodes, besides that memory",
    },
    Row {
        words: &[plain("log", |o| o.log = Some(true)), plain("nolog", |o| o.log = Some(false))],
        help: "log: changes go through a log, so that after a crash the next mount finds each operation done \
               or not done, in order, and everything that fsync had reported as done (the default for UFS; \
               the first mount creates the log, in the file /.spindlelog or, for NetBSD, as NetBSD does).\n\
               nolog: after a crash the image needs a check, and operations may be lost or half done",
    },
    Row {
        words: &[valued("logsize", "SIZE", |o, given| {
            let bytes = given.size()?;
            if !LOG_BYTES.contains(&bytes) {
                return Err(given.wrong("must be 64k to 64m; use nolog to do without a log"));
            }
            o.log_bytes = Some(bytes);
            Ok(())
        })],
        help: "size of a new log in bytes (k and m; default a 128th of the file system, 1m to 64m)",
    },
    Row {
        words: &[plain("discard", |o| o.discard = true), plain("nodiscard", |o| o.discard = false)],
        help: "UFS with a log: declare space unused to the device once it is durably free, so that an image \
               gets holes and a flash disk has less to move, at a cost for each commit; spindle trim and \
               fstrim do it for all free space at once. nodiscard is the default",
    },
    Row {
        words: &[
            optional("userquota", "PATH", |o, path| {
                o.user_quota = Some(path.unwrap_or_else(|| "quota.user".into()));
            }),
            optional("groupquota", "PATH", |o, path| {
                o.group_quota = Some(path.unwrap_or_else(|| "quota.group".into()));
            }),
            plain("noquota", |o| (o.user_quota, o.group_quota) = (None, None)),
        ],
        help: "UFS: count what each user, each group has, and enforce the limits of the file /quota.user, \
               /quota.group or PATH in the file system, which \"spindle quota check\" makes; users other \
               than root get EDQUOT. The mount reads all inodes first. noquota is the default",
    },
    Row {
        words: &[
            plain("sync", |o| o.synchronous_names = true),
            plain("async", |o| o.synchronous_names = false),
        ],
        help: "sync: each change of names is on the device before it is reported as done, one block after \
               the other, as in 1984 and without a log (dirsync means the same); async is the default",
    },
    Row { words: &[plain("dirsync", |o| o.synchronous_names = true)], help: "" },
    Row {
        words: &[valued("trace", "FILE", |o, given| {
            o.trace = Some(given.text()?.into());
            Ok(())
        })],
        help: "record all use of the files into the trace FILE (docs/SPEC-trace.md) until the unmount; it \
               does not see what the kernel answers from its cache (\"spindle trace record\" does)",
    },
    Row { words: &[plain("notrace", |o| o.trace = None)], help: "" },
    Row {
        words: &[
            plain("users", |o| o.any_user_unmounts = true),
            plain("nousers", |o| o.any_user_unmounts = false),
        ],
        help: "any user may unmount it; in fstab, any user may also mount it",
    },
    Row {
        words: &[plain("auto_unmount", |o| o.auto_unmount = true)],
        help: "unmount even if the daemon is killed",
    },
];

/// Options in fstab for other programs: `mount(8)`, systemd, the network.
#[rustfmt::skip]
const FOR_OTHERS: &[&str] = &[
    "", "defaults", "auto", "noauto", "user", "nouser", "owner", "noowner", "group",
    "nogroup", "_rnetdev", "nofail", "_netdev", "mand", "nomand", "nodiratime", "diratime", "lazytime",
    "nolazytime", "iversion", "noiversion", "silent", "loud",
];

fn is_for_others(given: &Given<'_>) -> bool {
    ["x-", "X-", "comment"].iter().any(|prefix| given.name.starts_with(prefix))
        || FOR_OTHERS.contains(&given.name) && (given.value.is_none() || given.name == "user")
}

/// Returns all options.
pub(super) fn words() -> impl Iterator<Item = &'static Word> {
    ROWS.iter().flat_map(|row| row.words)
}

/// Does what an option says.
pub(super) fn apply(options: &mut MountOptions, given: Given<'_>) -> Result<()> {
    match words().find(|word| word.name == given.name).map(|word| word.effect) {
        Some(Effect::Plain(set)) if given.value.is_none() => set(options),
        Some(Effect::Plain(_)) => return Err(given.wrong("takes no value")),
        Some(Effect::Optional(_, set)) if given.value.is_none() => set(options, None),
        Some(Effect::Optional(_, set)) => set(options, Some(given.text()?)),
        Some(Effect::Valued(_, set)) if given.value.is_some() => return set(options, given),
        Some(Effect::Valued(value, _)) => {
            return Err(given.wrong(&format!("needs a value: {}={value}", given.name)));
        }
        None if is_for_others(&given) => {}
        None => return Err(Error::UnknownOption { word: given.word.into() }),
    }
    Ok(())
}

/// Column at which the words of the help begin, and the first one beyond the line.
const HELP_COLUMN: usize = 32;
const HELP_WIDTH: usize = 100;
/// Columns between the names and the words, at least.
const GAP: usize = 2;

/// Returns the help of all options in two columns.
pub(super) fn help() -> String {
    let mut help = String::new();
    for row in ROWS.iter().filter(|row| !row.help.is_empty()) {
        let names = row.words.iter().map(|word| match word.effect {
            Effect::Plain(_) => word.name.to_owned(),
            Effect::Optional(value, _) => format!("{}[={value}]", word.name),
            Effect::Valued(value, _) => format!("{}={value}", word.name),
        });
        let mut line = format!("    {}", names.collect::<Vec<_>>().join(", "));
        let mut column = line.len();
        if column + GAP > HELP_COLUMN {
            line.push('\n');
            column = 0;
        }
        for paragraph in row.help.lines() {
            for word in paragraph.split(' ') {
                if column > HELP_COLUMN && column + 1 + word.len() > HELP_WIDTH {
                    line.push('\n');
                    column = 0;
                }
                let gap = if column > HELP_COLUMN { 1 } else { HELP_COLUMN - column };
                line.extend(std::iter::repeat_n(' ', gap));
                line.push_str(word);
                column += gap + word.len();
            }
            line.push('\n');
            column = 0;
        }
        help.push_str(&line);
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Promise: each option is in the table once, and takes a value if the table says so.
    #[test]
    fn the_table_is_sound() {
        let mut names = HashSet::new();
        for word in words() {
            assert!(names.insert(word.name), "{} is twice in the table", word.name);
            assert!(!FOR_OTHERS.contains(&word.name), "{}", word.name);
            let parsed = |text: String| MountOptions::default().parse(&text).map_err(|e| e.to_string());
            match word.effect {
                Effect::Plain(_) => {
                    assert!(parsed(format!("{}=1", word.name)).unwrap_err().ends_with("takes no value"));
                }
                Effect::Optional(..) => {
                    parsed(word.name.to_owned()).unwrap();
                    parsed(format!("{}=value", word.name)).unwrap();
                }
                Effect::Valued(value, _) => {
                    let error = parsed(word.name.to_owned()).unwrap_err();
                    assert!(error.ends_with(&format!("needs a value: {}={value}", word.name)), "{error}");
                }
            }
        }
    }

    /// Promise: the help has each row in two columns and at most 100 columns wide.
    #[test]
    fn help_has_two_columns() {
        let help = help();
        assert!(help.lines().all(|line| line.len() <= HELP_WIDTH && !line.ends_with(' ')), "{help}");
        assert!(help.starts_with("    ro, rw                      read-only or not\n"), "{help}");
        let wide =
            "    writelimit=SIZE, nowritelimit\n                                make writers wait while";
        assert!(help.contains(wide), "{help}");
        assert!(
            help.contains("    filecache=SIZE, nofilecache\n        "),
            "names and words must stay apart: {help}"
        );
        let rows = help.lines().filter(|line| line.as_bytes()[4] != b' ').count();
        assert_eq!(rows, ROWS.iter().filter(|row| !row.help.is_empty()).count());
    }
}
