//! The command quota, and mounts with quotas.

use crate::mounts::in_namespace;
use crate::support::Bench;

/// Promise: check makes the files, says what differed and puts it right, and then says nothing;
/// report counts whatever the file says; fsck takes no offence.
#[test]
fn usage_is_checked_and_reported() {
    let bench = Bench::new();
    for format in ["", "--dialect netbsd -O1"] {
        bench.ok(&format!("newfs --force -s 16m {format} a.img"));
        assert_eq!(bench.ok("quota check a.img"), "a.img: made quota.user\na.img: made quota.group\n");
        assert_eq!(bench.ok("quota check a.img"), "");
        bench.write("file", vec![1; 40 << 10]);
        bench.ok("cp file a.img:/file");
        bench.ok("chown 1234:4321 a.img:/file");
        let row = |output: &str, id: &str| {
            let line = output.lines().find(|line| line.starts_with(id)).unwrap_or_default().to_owned();
            line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>().join(" ")
        };
        let report = bench.ok("quota report a.img");
        assert_eq!(row(&report, "#1234"), "#1234 -- 40 0 0 1 0 0", "{report}");
        assert_eq!(row(&report, "#4321"), "#4321 -- 40 0 0 1 0 0", "{report}");
        let fixed = bench.ok("quota check -u a.img");
        assert_eq!(fixed, "a.img: #1234 fixed (user): inodes 0 -> 1 blocks 0 -> 80\n");
        bench.ok("quota edit a.img -u 1234 --blocks 30:1m --inodes 1:5 --grace 3d");
        let report = bench.ok("quota report -u a.img");
        assert!(report.contains("Block grace time: 3 days; inode grace time: 3 days"), "{report}");
        assert_eq!(row(&report, "#1234"), "#1234 ++ 40 30 1024 3 days 1 1 5 3 days", "{report}");
        bench.ok("quota edit a.img -u 77 -u 78 -p 1234");
        let json = bench.json("quota report --json -u a.img");
        let rows = json["quotas"][0]["rows"].as_array().unwrap();
        let limited: Vec<_> =
            rows.iter().filter(|row| row["blocks"]["hard"] == 2048).map(|row| &row["id"]).collect();
        assert_eq!(limited, [77, 78, 1234]);
        bench.check("a.img");
    }
}

/// Promise: quotas inside a file system of NetBSD are turned on and off, counted by every command
/// that changes it, edited and reported, and fsck agrees; others refuse.
#[test]
fn quotas_inside_are_kept() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m --dialect netbsd a.img");
    bench.write("file", vec![1; 40 << 10]);
    bench.ok("cp file a.img:/before");
    bench.ok("chown 1234:4321 a.img:/before");
    bench.ok("quota on a.img");
    bench.ok("cp file a.img:/after");
    bench.ok("chown 1234:4321 a.img:/after");
    bench.check("a.img");
    assert_eq!(bench.ok("quota check a.img"), "");
    bench.ok("quota edit a.img -u 1234 --blocks 30:1m --inodes 1:5 --grace 3d");
    let report = bench.ok("quota report a.img");
    for words in ["#1234", "#4321", "3 days", "1024"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let json = bench.json("quota report --json -u a.img");
    let rows = json["quotas"][0]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == 1234).unwrap();
    assert_eq!((&row["blocks"]["used"], &row["inodes"]["used"]), (&160.into(), &2.into()), "{json}");
    bench.ok("quota off -g a.img");
    bench.fails("quota report -g a.img", 1, &["no quotas of groups", "quota on"]);
    bench.ok("quota report -u a.img");
    bench.ok("quota off a.img");
    bench.check("a.img");
    bench.ok("newfs -s 16m b.img");
    bench.fails("quota on b.img", 1, &["none of NetBSD's", "quota check"]);
}

/// Promise: what makes no sense is refused with the reason, and changes nothing.
#[test]
fn nonsense_is_refused() {
    let bench = Bench::new();
    bench.ok("newfs -s 16m a.img");
    bench.fails("quota edit a.img --blocks 1:2", 2, &["whose limits", "-u USER"]);
    bench.fails("quota edit a.img -u 5", 2, &["nothing to change"]);
    bench.fails("quota edit a.img -u no-such-user --inodes 1:2", 2, &["no-such-user"]);
    bench.fails("quota edit a.img -u 0 --inodes 1:2", 1, &["grace periods"]);
    bench.fails("quota edit a.img -u 4294967295 --inodes 1:2", 1, &["a.img"]);
    bench.write("odd", "this is no quota file");
    bench.ok("cp odd a.img:/quota.group");
    bench.fails("quota report a.img", 1, &["quota.group is no quota file", "move it away"]);
    bench.ok("newfs -s 16m -t v7 old.img");
    bench.fails("quota report old.img", 1, &["only UFS has quotas"]);
    bench.check("a.img");
}

/// Promise: on a mount with quotas the system calls of users get EDQUOT at the limit, and those of
/// root do not; what fitted is kept; a report and a change of limits go through the mount, and a
/// remount turns quotas off and on; its files are right after the unmount; without the files a
/// mount is refused and says how to make them.
#[test]
fn mounts_enforce_limits() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    in_namespace(
        &bench,
        r#"fails 'no quota file' spindle mount -o userquota a.img mnt
        spindle quota check a.img
        spindle quota edit a.img -u 7001 --blocks 0:1m --inodes 0:6
        spindle quota edit a.img -g 7100 --blocks 0:512k
        spindle mount -o userquota,groupquota,allow_other a.img mnt
        chmod 1777 mnt
        as() { setpriv --reuid "$1" --regid "$1" --groups "$1,7100" sh -c "$2"; }
        over() { ! as "$1" "$2" 2>error; grep -q 'quota exceeded' error; }
        as 7001 'head -c 600k /dev/zero >mnt/kept'
        sha256sum mnt/kept >sum
        over 7001 'head -c 2m /dev/zero >>mnt/kept'
        over 7001 'dd if=/dev/zero of=mnt/kept bs=4k seek=400 count=1'
        over 7001 'truncate -s 9m mnt/kept; fallocate -l 2m mnt/kept'
        as 7001 'truncate -s 600k mnt/kept'
        sha256sum -c sum
        as 7001 'touch mnt/2 mnt/3 mnt/4 mnt/5'
        over 7001 'touch mnt/6'
        over 7001 'mkdir mnt/6'
        over 7001 'ln -s target mnt/6'
        over 7001 'mkfifo mnt/6'
        [ ! -e mnt/6 ]
        over 7001 'chgrp 7100 mnt/kept'
        [ "$(stat -c %g mnt/kept)" = 7001 ]
        as 7002 'head -c 3m /dev/zero >mnt/others; touch mnt/6'
        chown 7001 mnt/6
        rm mnt/6
        spindle quota report a.img >report
        grep -q 'user quotas on a.img (enforced)' report
        grep '^#7001' report | head -n 1 >line
        read -r id signs used soft hard files few most <line
        [ "$id $signs $soft $hard $files $few $most" = '#7001 -- 0 1024 5 0 6' ]
        [ "$used" = "$(($(stat -c %b mnt/kept) / 2))" ]
        spindle quota edit a.img -u 7001 --blocks 0:3m --inodes 0:0
        as 7001 'head -c 1m /dev/zero >>mnt/kept; mkdir mnt/7'
        ! rm mnt/quota.user
        mount -o remount,ro mnt 2>/dev/null || spindle mount -o remount,ro mnt
        spindle mount -o remount,rw mnt
        over 7001 'head -c 9m /dev/zero >>mnt/2'
        spindle mount -o remount,noquota mnt
        as 7001 'head -c 9m /dev/zero >>mnt/2'
        ! spindle mount -o remount,userquota=nothing mnt
        as 7001 'head -c 1m /dev/zero >>mnt/2'
        spindle mount -o remount,userquota,groupquota mnt
        over 7001 'head -c 1m /dev/zero >>mnt/2'
        spindle umount mnt
        [ -z "$(spindle quota check a.img)" ]"#,
    );
    bench.check("a.img");
}

/// Promise: if the daemon dies, the next mount with quotas on counts what is there, not what the
/// files say.
#[test]
fn usage_is_right_after_a_crash() {
    let bench = Bench::new();
    bench.ok("newfs -s 64m a.img");
    bench.ok("quota check a.img");
    in_namespace(
        &bench,
        r#"spindle mount -o userquota,groupquota,allow_other,commit=300 a.img mnt
        for n in 1 2 3 4 5 6; do
            head -c "${n}00k" /dev/zero >mnt/file$n
            chown 7001:7100 mnt/file$n
        done
        rm mnt/file1
        sync mnt/file6
        kill -9 "$(daemon)"
        while stat mnt 2>/dev/null; do sleep 0.1; done
        umount mnt || [ $? = 32 ]
        spindle mount -o userquota,groupquota,allow_other a.img mnt
        spindle quota report a.img | grep '^#7001' >line
        read -r id signs used soft hard files few most <line
        [ "$used $files" = "$((($(stat -c %b mnt/file? | paste -sd+)) / 2)) 5" ]
        spindle umount mnt
        [ -z "$(spindle quota check a.img)" ]"#,
    );
    bench.check("a.img");
}
