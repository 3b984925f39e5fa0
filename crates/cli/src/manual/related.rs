//! Which pages belong together, and which files a command uses. A test holds this to the commands.

/// A reference to a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// Name of the page.
    pub name: String,
    /// Section of the manual.
    pub section: String,
    /// It is a page of Spindle.
    pub is_ours: bool,
}

/// For each page the pages that it refers to. A command stands without the `spindle-` before it,
/// another program with its section.
const SEE_ALSO: &[(&str, &[&str])] = &[
    ("spindle", &["fsck.spindle", "mkfs.spindle", "mount.spindle", "umount.spindle"]),
    ("newfs", &["advise", "fsck", "growfs", "import", "info", "mfs", "mkfs.spindle", "mount", "tunefs"]),
    ("info", &["fsck", "ls", "mfs-status", "scan", "stat", "tunefs"]),
    ("scan", &["find-deleted", "fsck", "info", "ls"]),
    ("mount", &["fsck", "info", "mount.spindle", "trace-record", "tunefs", "umount", "fstab(5)", "mount(8)"]),
    ("umount", &["fsck", "mount", "umount.spindle", "umount(8)"]),
    ("fsck", &["fsck.spindle", "info", "mfs-scrub", "mount", "fsck(8)"]),
    ("tunefs", &["fsck", "info", "mount", "newfs"]),
    ("growfs", &["fsck", "info", "newfs", "tunefs"]),
    ("map", &["debug", "fsck", "info", "tunefs"]),
    ("debug", &["find-deleted", "fsck", "info", "map", "stat"]),
    ("find-deleted", &["debug", "fsck", "ls"]),
    ("quota", &["mount", "quota-check", "quota-edit", "quota-off", "quota-on", "quota-report"]),
    ("quota-check", &["fsck", "quota", "quota-edit", "quota-report", "quotacheck(8)"]),
    ("quota-edit", &["quota", "quota-check", "quota-report", "edquota(8)"]),
    ("quota-off", &["quota", "quota-on", "quotaoff(8)"]),
    ("quota-on", &["fsck", "quota", "quota-check", "quota-off", "tunefs", "quotaon(8)"]),
    ("quota-report", &["du", "quota", "quota-check", "quota-edit", "repquota(8)"]),
    ("snapshot", &["cp", "mount", "snapshot-list", "snapshot-make", "snapshot-rm"]),
    ("snapshot-list", &["info", "ls", "snapshot"]),
    ("snapshot-make", &["mount", "snapshot", "tunefs"]),
    ("snapshot-rm", &["rm", "snapshot"]),
    ("mfs", &["fsck", "info", "mount", "newfs"]),
    ("mfs-status", &["info", "mfs", "mfs-replace", "mfs-scrub"]),
    ("mfs-replace", &["mfs", "mfs-add", "mfs-remove", "mfs-status"]),
    ("mfs-add", &["mfs", "mfs-remove", "mfs-replace", "mfs-status"]),
    ("mfs-remove", &["mfs", "mfs-add", "mfs-replace", "mfs-status"]),
    ("mfs-scrub", &["fsck", "mfs", "mfs-replace", "mfs-status"]),
    ("mfs-class", &["mfs", "mfs-status", "newfs", "stat"]),
    ("mfs-attach", &["cp", "import", "mfs", "mfs-class", "mfs-detach", "mfs-scrub", "mfs-status"]),
    ("mfs-detach", &["mfs", "mfs-attach", "mfs-status"]),
    ("trim", &["find-deleted", "mount", "newfs", "fstrim(8)"]),
    ("df", &["du", "info", "mfs-status", "df(1)"]),
    ("du", &["df", "find", "ls", "du(1)"]),
    ("find", &["du", "ls", "find(1)"]),
    ("chflags", &["chmod", "ls", "stat", "chflags(1)"]),
    ("chmod", &["chflags", "chown", "ls", "stat", "chmod(1)"]),
    ("chown", &["chmod", "ls", "stat", "chown(8)"]),
    ("touch", &["chmod", "ls", "stat", "touch(1)"]),
    ("ls", &["cat", "cp", "du", "find", "info", "stat"]),
    ("cat", &["cp", "export", "ls"]),
    ("stat", &["info", "ls"]),
    ("cp", &["cat", "export", "import", "ln", "ls", "mv"]),
    ("mkdir", &["cp", "ls", "rm"]),
    ("rm", &["ls", "mkdir", "mv"]),
    ("mv", &["cp", "ln", "rm"]),
    ("ln", &["cp", "ls", "mv"]),
    ("import", &["cp", "export", "newfs", "fakeroot(1)", "mtree(5)", "tar(1)"]),
    ("export", &["cat", "cp", "import", "tar(1)"]),
    ("dump", &["chflags", "export", "fsck", "restore", "dump(8)", "restore(8)"]),
    ("restore", &["dump", "import", "newfs", "dump(8)", "restore(8)"]),
    ("advise", &["lab-presets", "mount", "newfs", "trace-record", "trace-replay", "trace-report", "tunefs"]),
    ("waste", &["advise", "lab", "newfs", "trace-report"]),
    ("lab", &["trace", "waste"]),
    ("lab-list", &["lab", "lab-run"]),
    ("lab-run", &["lab", "lab-all", "lab-list", "lab-presets"]),
    ("lab-calibrate", &["lab", "lab-presets", "advise", "trace-replay"]),
    ("lab-disksim", &["lab", "lab-presets", "trace-replay"]),
    ("lab-beside", &["advise", "lab", "lab-presets", "trace-record", "trace-replay"]),
    ("lab-presets", &["lab", "lab-calibrate", "lab-disksim", "lab-run", "trace-replay"]),
    ("lab-all", &["lab", "lab-list", "lab-run"]),
    ("trace", &["advise", "lab", "mount", "waste"]),
    ("trace-analyze", &["trace", "trace-cachesim", "trace-diff", "trace-report", "trace-show"]),
    ("trace-cachesim", &["trace", "trace-analyze", "trace-export", "trace-report"]),
    ("trace-diff", &["trace", "trace-analyze", "trace-filter", "trace-synth"]),
    ("trace-export", &["trace", "trace-import", "fio(1)"]),
    ("trace-filter", &["find", "trace", "trace-merge", "trace-record", "trace-show"]),
    ("trace-import", &["trace", "trace-analyze", "trace-export", "trace-show", "strace(1)"]),
    ("trace-merge", &["trace", "trace-filter", "trace-record"]),
    ("trace-replay", &["lab-presets", "trace", "trace-synth"]),
    ("trace-report", &["advise", "trace", "trace-analyze", "trace-cachesim", "tunefs"]),
    (
        "trace-record",
        &["mount", "trace", "trace-import", "trace-report", "trace-show", "trace-top", "strace(1)"],
    ),
    ("trace-show", &["trace", "trace-analyze", "trace-import", "trace-record"]),
    ("trace-synth", &["trace", "trace-analyze", "trace-replay"]),
    ("trace-top", &["trace", "trace-analyze", "trace-record", "top(1)"]),
    ("mount.spindle", &["mount", "umount.spindle", "fstab(5)", "mount(8)"]),
    ("umount.spindle", &["mount.spindle", "umount", "umount(8)"]),
    ("mkfs.spindle", &["fsck.spindle", "mount.spindle", "newfs", "mkfs(8)"]),
    ("fsck.spindle", &["fsck", "mkfs.spindle", "mount.spindle", "fstab(5)", "fsck(8)"]),
];

const FSTAB: (&str, &str) = ("/etc/fstab", "the file systems that mount(8) and fsck(8) know");
const DUMPDATES: (&str, &str) = ("/etc/dumpdates", "for each image and level, when it was dumped last");
const LOG: (&str, &str) =
    ("/.spindlelog", "in the root directory of a UFS, its log, except where NetBSD would have its own");
const RECORDS: (&str, &str) = (
    "/run/spindle, /run/user/UID/spindle",
    "records of mounts, from which umount learns when an image is complete",
);

/// For each page that has any, the files that the command uses, and what for.
const FILES: &[(&str, &[(&str, &str)])] = &[
    ("mount", &[FSTAB, LOG, RECORDS]),
    ("umount", &[RECORDS]),
    ("tunefs", &[LOG]),
    ("dump", &[DUMPDATES]),
    ("mount.spindle", &[FSTAB, LOG, RECORDS]),
    ("umount.spindle", &[FSTAB, RECORDS]),
    ("fsck.spindle", &[FSTAB]),
];

/// Returns the entry of a page in a table.
fn entry<T>(table: &'static [(&str, &'static [T])], page: &str) -> Option<&'static [T]> {
    table.iter().find(|(short, _)| full_name(short) == page).map(|(_, entry)| *entry)
}

/// Returns the name of the page that an entry is for.
fn full_name(short: &str) -> String {
    let is_full = short == "spindle" || short.ends_with(".spindle");
    if is_full { short.to_owned() } else { format!("spindle-{short}") }
}

/// Returns the pages that a page refers to.
pub fn see_also(page: &str) -> Vec<Reference> {
    let mut references = Vec::new();
    if page != "spindle" {
        references.push(reference("spindle"));
    }
    references.extend(entry(SEE_ALSO, page).unwrap_or_default().iter().map(|other| reference(other)));
    references
}

/// Returns the files of a page.
pub fn files(page: &str) -> &'static [(&'static str, &'static str)] {
    entry(FILES, page).unwrap_or_default()
}

/// Returns the names of all pages in the tables.
#[cfg(test)]
pub fn known_pages() -> Vec<String> {
    SEE_ALSO
        .iter()
        .map(|(page, _)| full_name(page))
        .chain(FILES.iter().map(|(page, _)| full_name(page)))
        .collect()
}

fn reference(short: &str) -> Reference {
    if let Some((name, section)) = short.trim_end_matches(')').split_once('(') {
        return Reference { name: name.to_owned(), section: section.to_owned(), is_ours: false };
    }
    let section = if short.ends_with(".spindle") { "8" } else { "1" };
    Reference { name: full_name(short), section: section.to_owned(), is_ours: true }
}
