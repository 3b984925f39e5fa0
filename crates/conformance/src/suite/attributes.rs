//! Attributes: permissions, owners, times, flags.

use super::Feature;
use super::bench::*;
use spindle_clock::Timestamp;
use spindle_vfs::{
    Attr, Cred, FallocateMode, FileKind, HandleId, Ino, NewNode, OpenFlags, Options, Privilege, RenameMode,
    Result, SetAttr, SetTime, Vfs, XattrMode,
};

const ROOT: Privilege = Privilege::Root;

/// Promise: `setattr` changes the given attributes and no others, durably, and returns the
/// attributes that `getattr` then returns.
pub(super) fn setattr_changes_only_given_attributes(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    b.put(file, 0, b"12345");
    let strip = |mut attr: Attr| {
        attr.ctime = Timestamp::default();
        attr
    };
    let mut expected = strip(b.getattr(file).unwrap());
    let none = SetAttr::default();
    assert_eq!(strip(b.set(file, &none)), expected);
    let steps = [
        SetAttr { perm: Some(0o7777), ..none.clone() },
        SetAttr { perm: Some(0), ..none.clone() },
        SetAttr { uid: Some(12), ..none.clone() },
        SetAttr { gid: Some(34), ..none.clone() },
        SetAttr { perm: Some(0o4711), uid: Some(56), gid: Some(78), ..none.clone() },
        SetAttr { atime: Some(SetTime::At(Timestamp::new(1000, 0))), ..none.clone() },
        SetAttr { mtime: Some(SetTime::At(Timestamp::new(2000, 0))), ..none.clone() },
    ];
    for step in steps {
        expected.perm = step.perm.unwrap_or(expected.perm);
        expected.uid = step.uid.unwrap_or(expected.uid);
        expected.gid = step.gid.unwrap_or(expected.gid);
        if let Some(SetTime::At(time)) = step.atime {
            expected.atime = time;
        }
        if let Some(SetTime::At(time)) = step.mtime {
            expected.mtime = time;
        }
        let result = b.set(file, &step);
        assert_eq!(result, b.getattr(file).unwrap());
        assert_eq!(strip(result), expected, "{step:?}");
    }
    b.remount();
    assert_eq!(strip(b.getattr(file).unwrap()), expected);
    // Every kind of inode has attributes; a new size and other attributes are one change.
    let dir = b.dir(b.root(), "dir");
    let attr = b.set(dir, &SetAttr { perm: Some(0o1777), uid: Some(9), gid: Some(8), ..none.clone() });
    assert_eq!((attr.perm, attr.uid, attr.gid, attr.kind), (0o1777, 9, 8, FileKind::Directory));
    let mut kinds = vec![FileKind::CharDevice];
    if b.limits().symlink_max > 0 {
        kinds.push(FileKind::Symlink);
    }
    for kind in kinds {
        let ino = b.make(b.root(), format!("{kind:?}"), kind);
        let mtime = Some(SetTime::At(Timestamp::new(77, 0)));
        b.set(ino, &SetAttr { uid: Some(5), gid: Some(6), mtime, ..none.clone() });
        b.remount();
        let attr = b.getattr(ino).unwrap();
        assert_eq!((attr.uid, attr.gid, attr.mtime.secs, attr.kind), (5, 6, 77, kind));
    }
    let at = SetTime::At(Timestamp::new(5, 0));
    let attr = b.set(file, &SetAttr { size: Some(2), mtime: Some(at), perm: Some(0o600), ..none });
    assert_eq!((attr.size, attr.mtime.secs, attr.perm), (2, 5, 0o600));
    b.holds(file, b"12");
}

/// Promise: a refused `setattr` changes nothing.
pub(super) fn setattr_refuses(b: &mut Bench<'_>) {
    let dir = b.dir(b.root(), "dir");
    let before = b.getattr(dir).unwrap();
    let set = SetAttr { size: Some(0), perm: Some(0o700), uid: Some(5), ..SetAttr::default() };
    refuses(b.setattr(dir, &set, ROOT), &[EISDIR, EINVAL]);
    assert_eq!(b.getattr(dir).unwrap(), before);
    let file = b.file(b.root(), "file");
    b.unlink(b.root(), b"file").unwrap();
    b.set(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() });
    b.forget(file, 1);
    refuses(b.setattr(file, &SetAttr::default(), ROOT), &[ESTALE]);
}

/// Promise: owner and group numbers up to `id_max` are stored exactly; larger ones are refused, not
/// truncated.
pub(super) fn owners_up_to_the_limit(b: &mut Bench<'_>) {
    let root = b.root();
    let max = b.limits().id_max;
    let ids: Vec<u32> = [0, 1, 127, 128, 255, 256, 65_533, 65_534, 65_535, 65_536, 100_000, max - 1]
        .into_iter()
        .filter(|id| *id < max)
        .collect();
    for (i, &id) in ids.iter().enumerate() {
        let new = NewNode { uid: id, gid: ids[ids.len() - 1 - i], ..node(FileKind::Regular) };
        let ino = b.create(root, format!("f{i}").as_bytes(), &new, ROOT).unwrap().ino;
        b.set(ino, &SetAttr { gid: Some(id), ..SetAttr::default() });
    }
    b.remount();
    for (i, &id) in ids.iter().enumerate() {
        let attr = b.peek(root, format!("f{i}")).unwrap();
        assert_eq!((attr.uid, attr.gid), (id, id));
    }
    if max < u32::MAX {
        let new = NewNode { uid: max + 1, ..node(FileKind::Regular) };
        refuses(b.create(root, b"over", &new, ROOT), &[EOVERFLOW, EINVAL]);
        let file = b.at(root, "f0");
        let before = b.getattr(file).unwrap();
        for (uid, gid) in [(None, Some(max + 1)), (Some(7), Some(max + 1)), (Some(max + 1), Some(7))] {
            let set = SetAttr { uid, gid, perm: Some(0o7), size: Some(9), ..SetAttr::default() };
            refuses(b.setattr(file, &set, ROOT), &[EOVERFLOW, EINVAL]);
            assert_eq!(b.getattr(file).unwrap(), before, "what is refused changes nothing");
        }
    }
}

/// Returns the time as a format of this granularity stores it.
fn rounded(b: &Bench<'_>, time: Timestamp) -> Timestamp {
    Timestamp::new(time.secs, time.nanos - time.nanos % b.limits().time_granularity_ns)
}

/// Promise: times are stored with the format's granularity, also before 1970 and at both ends of
/// its range.
pub(super) fn times_are_kept(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    let (first, last) = b.limits().time_range;
    let times = [
        (0, 0),
        (0, 1),
        (1_700_000_000, 123_456_789),
        (1, 999_999_999),
        (-1, 500_000_000),
        (-1_000_000_000, 999_999_999),
        (i64::from(i32::MAX), 5),
        (i64::from(i32::MAX) + 1, 5),
        (first, 0),
        (last, 0),
    ];
    for (secs, nanos) in times {
        if secs < first || secs > last {
            continue;
        }
        let (atime, mtime) = (Timestamp::new(secs, nanos), Timestamp::new(secs, nanos / 2));
        b.set(
            file,
            &SetAttr {
                atime: Some(SetTime::At(atime)),
                mtime: Some(SetTime::At(mtime)),
                ctime: Some(atime),
                ..SetAttr::default()
            },
        );
        b.remount();
        let attr = b.getattr(file).unwrap();
        assert_eq!((attr.atime, attr.mtime), (rounded(b, atime), rounded(b, mtime)));
        assert_eq!(attr.ctime, rounded(b, atime), "a given change time is kept");
    }
}

/// Promise: a time that the format cannot store is refused or moved to the end of its range, never
/// changed to another time.
pub(super) fn times_out_of_range(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    let (first, last) = b.limits().time_range;
    for (edge, beyond) in [(first, first.checked_sub(1)), (last, last.checked_add(1))] {
        let Some(beyond) = beyond else { continue };
        let before = b.getattr(file).unwrap();
        let mtime = Some(SetTime::At(Timestamp::new(beyond, 0)));
        match b.setattr(file, &SetAttr { mtime, ..SetAttr::default() }, ROOT) {
            Ok(attr) => assert_eq!(attr.mtime.secs, edge),
            Err(error) => {
                refuses::<()>(Err(error), &[EOVERFLOW, EINVAL]);
                assert_eq!(b.getattr(file).unwrap(), before);
            }
        }
    }
}

/// Promise: every change sets the times that POSIX requires, of the file and of the directories.
pub(super) fn changes_set_times(b: &mut Bench<'_>) {
    let root = b.root();
    let dir = b.dir(root, "dir");
    let file = b.file(dir, "file");
    b.put(file, 0, b"data");
    let old = Timestamp::new(1000, 0);
    let at = Some(SetTime::At(old));
    let age = |b: &Bench<'_>| {
        for ino in [root, dir, file] {
            b.set(ino, &SetAttr { atime: at, mtime: at, ctime: Some(old), ..SetAttr::default() });
        }
    };
    // The times that an operation sets, of (dir mtime, dir ctime, file mtime, file ctime).
    let newer = |b: &Bench<'_>| {
        let (d, f) = (b.getattr(dir).unwrap(), b.getattr(file).unwrap());
        [d.mtime > old, d.ctime > old, f.mtime > old, f.ctime > old]
    };
    age(b);
    assert_eq!(newer(b), [false; 4], "given times are kept");
    b.put(file, 0, b"DATA");
    assert_eq!(newer(b), [false, false, true, true], "write");
    age(b);
    b.resize(file, 2);
    assert_eq!(newer(b), [false, false, true, true], "truncate");
    age(b);
    b.set(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() });
    assert_eq!(newer(b), [false, false, false, true], "chmod");
    age(b);
    b.link(file, dir, b"link", ROOT).unwrap();
    assert_eq!(newer(b), [true, true, false, true], "link");
    age(b);
    b.unlink(dir, b"link").unwrap();
    assert_eq!(newer(b), [true, true, false, true], "unlink");
    age(b);
    b.mv((dir, b"file"), (dir, b"moved"), RenameMode::Replace).unwrap();
    assert_eq!(newer(b)[..3], [true, true, false], "rename");
    age(b);
    b.dir(dir, "sub");
    assert_eq!(newer(b), [true, true, false, false], "mkdir");
    age(b);
    b.rmdir(dir, b"sub").unwrap();
    assert_eq!(newer(b), [true, true, false, false], "rmdir");
    age(b);
    refuses(b.rmdir(dir, b"sub"), &[ENOENT]);
    b.get(file, 0, 2);
    b.list(dir);
    assert_eq!(newer(b), [false; 4], "reading and refusals set no change time");
    b.set(file, &SetAttr { mtime: Some(SetTime::Now), ..SetAttr::default() });
    assert_eq!(newer(b), [false, false, true, true], "utimes");
    if b.tick() {
        let before = b.getattr(file).unwrap();
        b.put(file, 0, b"x");
        assert!(b.getattr(file).unwrap().mtime > before.mtime, "the clock goes on");
    }
}

/// Promise: data kept by a front end is written like other data, but the times are those that the
/// front end sets.
pub(super) fn late_writes_keep_times(b: &mut Bench<'_>) {
    let root = b.root();
    let file = b.file(root, "file");
    let given = Timestamp::new(1000, 0);
    b.set(file, &SetAttr { mtime: Some(SetTime::At(given)), ctime: Some(given), ..SetAttr::default() });
    let data = vec![7; 100_000];
    assert_eq!(b.write_late(file, 10, &data, ROOT).unwrap(), data.len());
    assert_eq!(b.write_late(file, 0, b"", ROOT).unwrap(), 0);
    refuses(b.write_late(root, 0, b"data", ROOT), &[EISDIR]);
    b.remount();
    let file = b.at(root, "file");
    let attr = b.getattr(file).unwrap();
    assert_eq!((attr.size, attr.mtime, attr.ctime), (100_010, given, given));
    assert_eq!(b.get(file, 0, 100_010), [&[0; 10][..], &data].concat());
}

/// Promise: the birth time is the time of creation; only an importer changes it.
pub(super) fn birth_time_stays(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    let born = b.getattr(file).unwrap().birthtime;
    assert_eq!(born.is_some(), b.limits().birthtime);
    b.tick();
    b.put(file, 0, b"data");
    b.set(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() });
    b.remount();
    assert_eq!(b.getattr(file).unwrap().birthtime, born);
    if born.is_some() {
        let given = Timestamp::new(1234, 0);
        b.set(file, &SetAttr { birthtime: Some(given), ..SetAttr::default() });
        b.remount();
        assert_eq!(b.getattr(file).unwrap().birthtime, Some(given));
    }
}

/// Promise: file flags are stored, or refused if the format has none.
pub(super) fn flags_are_kept(b: &mut Bench<'_>) {
    let file = b.file(b.root(), "file");
    assert_eq!(b.getattr(file).unwrap().flags, 0);
    // UF_NODUMP, UF_IMMUTABLE, UF_APPEND, SF_IMMUTABLE, SF_APPEND: the layer above enforces them.
    for flags in [0x1, 0x2, 0x4, 0x20000, 0x40000, 0x7, 0] {
        let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
        if !b.has(Feature::Flags) {
            refuses(b.setattr(file, &set, ROOT), &[ENOTSUP]);
            continue;
        }
        assert_eq!(b.set(file, &set).flags, flags);
        b.remount();
        assert_eq!(b.getattr(file).unwrap().flags, flags);
    }
}

/// A change of the file `name` of `dir` that file flags may forbid; the inode is the last argument.
type Change = fn(&Vfs, Ino, &[u8], Ino) -> Result<()>;

/// Opens a file, writes as `write` does, and closes it.
fn opened(vfs: &Vfs, file: Ino, flags: OpenFlags, write: impl Fn(HandleId) -> Result<()>) -> Result<()> {
    let handle = vfs.open(&Cred::root(), file, flags)?;
    write(handle).and(vfs.close(handle))
}

const APPENDING: OpenFlags = OpenFlags { append: true, ..OpenFlags::WRITE };

/// The changes, and whether an append-only file permits them.
const CHANGES: &[(&str, bool, Change)] = &[
    ("open for writing", false, |vfs, _, _, file| opened(vfs, file, OpenFlags::WRITE, |_| Ok(()))),
    ("open to truncate", false, |vfs, _, _, file| {
        opened(vfs, file, OpenFlags { truncate: true, ..APPENDING }, |_| Ok(()))
    }),
    ("append", true, |vfs, _, _, file| {
        opened(vfs, file, APPENDING, |handle| vfs.write(&Cred::root(), handle, 0, b"more").map(drop))
    }),
    ("truncate", false, |vfs, _, _, file| set(vfs, file, &SetAttr { size: Some(1), ..SetAttr::default() })),
    ("chmod", false, |vfs, _, _, file| set(vfs, file, &SetAttr { perm: Some(0o600), ..SetAttr::default() })),
    ("chown", false, |vfs, _, _, file| set(vfs, file, &SetAttr { uid: Some(0), ..SetAttr::default() })),
    ("touch", true, |vfs, _, _, file| {
        let now = Some(SetTime::Now);
        set(vfs, file, &SetAttr { atime: now, mtime: now, ..SetAttr::default() })
    }),
    ("utimes", false, |vfs, _, _, file| {
        let then = Some(SetTime::At(Timestamp::new(5000, 0)));
        set(vfs, file, &SetAttr { mtime: then, ..SetAttr::default() })
    }),
    ("link", false, |vfs, dir, _, file| {
        let linked = vfs.link(&Cred::root(), file, dir, b"another")?;
        vfs.forget(linked.ino, 1);
        vfs.unlink(&Cred::root(), dir, b"another")
    }),
    ("rename", false, |vfs, dir, name, _| {
        vfs.rename(&Cred::root(), (dir, name), (dir, b"other"), RenameMode::Replace)?;
        vfs.rename(&Cred::root(), (dir, b"other"), (dir, name), RenameMode::Replace)
    }),
    ("unlink", false, |vfs, dir, name, _| vfs.unlink(&Cred::root(), dir, name)),
];

fn set(vfs: &Vfs, file: Ino, set: &SetAttr) -> Result<()> {
    vfs.setattr(&Cred::root(), file, set, None).map(drop)
}

/// Promise: through the front, file flags forbid even the superuser what a BSD forbids: all changes
/// of an immutable file and of names in an immutable directory, and of what is append-only all but
/// appending, new names, and the present time.
pub(super) fn flags_forbid_changes(b: &mut Bench<'_>) {
    if !b.has(Feature::Flags) {
        return;
    }
    let dir = b.make(b.root(), "dir", FileKind::Directory);
    let vfs = Vfs::new(b.shared(), Options::default());
    let set_flags =
        |ino, flags| set(&vfs, ino, &SetAttr { flags: Some(flags), ..SetAttr::default() }).unwrap();
    let root = Cred::root();
    // UF_IMMUTABLE, SF_IMMUTABLE, UF_APPEND, SF_APPEND.
    for (flags, immutable) in [(0x2, true), (0x2_0000, true), (0x4, false), (0x4_0000, false)] {
        let file = b.file(dir, "file");
        b.put(file, 0, b"some");
        let xattr = |vfs: &Vfs| vfs.setxattr(&root, file, b"user.x", b"1", XattrMode::Set);
        let zero = |handle| vfs.fallocate(handle, FallocateMode::PunchHole, 0, 4);
        let held = vfs.open(&root, file, APPENDING).unwrap();
        set_flags(file, flags);
        for (what, appends, change) in CHANGES {
            let done = change(&vfs, dir, b"file", file);
            let expected = if *appends && !immutable { 0 } else { EPERM };
            assert_eq!(errno(&done), expected, "{what} of a file with the flags {flags:#x}");
        }
        refuses(xattr(&vfs), &[EPERM]);
        refuses(zero(held), &[EPERM]);
        vfs.close(held).unwrap();
        set_flags(file, 0);
        set_flags(dir, flags);
        let made = vfs.create(&root, dir, b"new", &NewNode::new(FileKind::Regular, 0o644));
        assert_eq!(errno(&made), if immutable { EPERM } else { 0 }, "a name below the flags {flags:#x}");
        refuses(vfs.unlink(&root, dir, b"file"), &[EPERM]);
        refuses(vfs.rename(&root, (dir, b"file"), (vfs.root(), b"file"), RenameMode::Replace), &[EPERM]);
        set_flags(dir, 0);
        if let Ok(made) = made {
            vfs.forget(made.ino, 1);
            vfs.unlink(&root, dir, b"new").unwrap();
        }
        for (what, _, change) in CHANGES {
            let done = change(&vfs, dir, b"file", file);
            assert_eq!(errno(&done), 0, "{what} of a file without flags");
        }
        b.forget(file, 1);
    }
}
