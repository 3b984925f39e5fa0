//! The commands in section 8: what mount(8), umount(8), mkfs(8) and fsck(8) call.

use super::sections::{Section, sections};
use crate::commands::helper;
use clap::Command;

const MOUNT: &str = "Mount a file system for mount(8)

mount(8) calls this program for file systems of the type \"spindle\". It does what \"spindle mount\" \
does, with the same options of -o and the same exit codes; see spindle-mount(1). In place of a \
device, /etc/fstab and the command line name an image: a block device, a file, or a partition in \
one of them (disk.img@s1a).

A mount by root is for all users, and honours device nodes and set-id bits, as one of the kernel; \
nodev, nosuid, noexec, and user in /etc/fstab take that away.

With user, mount(8) runs this program as the user who calls it. It then needs fusermount3(1), and \
a mount point that this user may write to.";

const MOUNT_MORE: &str = "EXIT CODES
    0   mounted
    32  could not be mounted

EXAMPLES
    mount -t spindle /dev/sdb1 /mnt
    mount -t spindle -o ro /srv/disk.img@s1a /mnt

    Lines of /etc/fstab:

    /dev/sdb1          /srv/bsd   spindle  defaults             0 2
    /srv/disk.img@s1a  /srv/disk  spindle  noauto,user,noatime  0 0";

const UMOUNT: &str = "Unmount a file system for umount(8)

umount(8) calls this program for file systems that Spindle serves: for other users always, and \
for root if the daemon has noted it in /run/mount/utab, the table of libmount, as it does for \
mounts by root. It does what \"spindle umount\" \
does: it returns when the image is complete, and fails if it is not.";

const MKFS: &str = "Make a file system for mkfs(8)

mkfs(8) calls this program for the type \"spindle\", with all options that it is given. It does what \
\"spindle newfs\" does and has the same options; see spindle-newfs(1). After the image it also takes \
the size, in blocks of 1024 bytes as mke2fs(8) does, or with k, m, g or t for powers of 1024. The value of the first option \
must be a word of its own (-O 1 and not -O1), because mkfs(8) otherwise passes on its own arguments.";

const MKFS_MORE: &str = "EXIT CODES
    0  done    1  failed    2  invalid command line

EXAMPLES
    mkfs -t spindle /dev/sdb1
    mkfs.spindle disk.img 512m
    mkfs -t spindle -O 1 --dialect netbsd -L home /dev/sdb1";

const FSCK: &str = "Check a file system for fsck(8)

fsck(8) calls this program for file systems of the type \"spindle\": at boot, with -a, for those \
whose last field in /etc/fstab is not 0. It does what \"spindle fsck\" does; see spindle-fsck(1). \
Without -a, -p and -y nothing is changed. Give fsck(8) the whole path of an image: it takes names \
that do not begin with / for options. Of an image without a line in /etc/fstab it calls the helper \
of the type that libblkid sees, whatever its option -t says; so this program is also installed as \
fsck.ufs and fsck.sysv, unless another one has these names.

-a and -p replay the log, and repair what can be repaired without loss; -y repairs everything. \
Options of e2fsck that change nothing here are accepted: -f, because what is marked clean is checked \
in any case, and -C, -T, -M, -l and -r.";

const FSCK_MORE: &str = "EXAMPLES
    fsck.spindle -n /dev/sdb1
    fsck -n /srv/bsd         for a line of /etc/fstab
    fsck -t spindle /srv/disk.img -n

    A line of /etc/fstab; its last field has it checked at boot:

    /dev/sdb1  /srv/bsd  spindle  defaults  0 2";

/// Returns the helpers, built. `cli` is the whole command line, built.
pub fn commands(cli: &Command) -> Vec<Command> {
    let newfs = cli.find_subcommand("newfs").cloned().unwrap_or_default();
    let fsck_codes = cli.find_subcommand("fsck").map(exit_codes).unwrap_or_default();
    let umount_codes = cli.find_subcommand("umount").map(exit_codes).unwrap_or_default();
    let [mount, umount, fsck] = helper::command_lines();
    let name = "mkfs.spindle";
    let mkfs =
        helper::with_mkfs_operands(newfs).name(name).bin_name(name).display_name(name).visible_alias(None);
    let described = [
        (mount, MOUNT, MOUNT_MORE.to_owned()),
        (umount, UMOUNT, umount_codes),
        (mkfs, MKFS, MKFS_MORE.to_owned()),
        (fsck, FSCK, format!("{fsck_codes}\n{FSCK_MORE}")),
    ];
    let helpers = described.into_iter().map(|(helper, about, more)| {
        let first = about.lines().next().unwrap_or_default();
        let mut helper = helper.about(first).long_about(about).after_long_help(more);
        helper.build();
        helper
    });
    helpers.collect()
}

/// Returns the exit codes in the help of a command, as they stand there.
fn exit_codes(command: &Command) -> String {
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let lines = sections(&help).into_iter().find(Section::is_exit_codes).map(|section| section.lines);
    let lines = lines.unwrap_or_default().into_iter().map(|line| format!("\n    {line}"));
    format!("EXIT CODES{}\n", lines.collect::<String>())
}
