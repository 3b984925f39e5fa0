//! Members of sets in files: how they are named and found, and changes that were interrupted at any
//! moment.

use spindle::set::{
    AreaState, Change, MemberName, Named, NewDevice, Role, Settings, Status, Wishes, change, find, newfs,
    parse_members, scrub, status,
};
use spindle::{Error, Image, OpenOptions, Result, Spec};
use spindle_device::Device;
use spindle_mfs::{LABEL_BYTES, Label, is_member, read_label};
use spindle_vfs::{FileKind, NewNode, Privilege};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BY: Privilege = Privilege::Root;
/// Bytes of a member.
const SIZE: u64 = 5 << 20;
/// Bytes of the file in the set.
const LEN: usize = 600_000;

/// A set in a directory: `c` with control and log storage, `d` and `e` with copies of data storage.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(files.path("sub")).unwrap();
        let mut members = Vec::new();
        for (role, words) in [(Role::Control, "c"), (Role::Data, "d+e"), (Role::Log, "c")] {
            let words: Vec<_> = words.split('+').map(|name| files.path(name).display().to_string()).collect();
            parse_members(&mut members, (role, 0), &[words.join("+")], |_| None).unwrap();
        }
        for member in &mut members {
            member.size = Some(SIZE);
        }
        newfs(&members, &Wishes::new(), Settings::default(), |device| device).unwrap();
        let image = Image::open(&files.spec("c"), &OpenOptions::read_write()).unwrap();
        let fs = image.fs();
        let file = fs.create(fs.root(), b"file", &NewNode::new(FileKind::Regular, 0o644), BY).unwrap();
        fs.write(file.ino, 0, &contents(), BY).unwrap();
        fs.forget(file.ino, 1);
        image.unmount().unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn spec(&self, name: &str) -> Spec {
        Spec::parse(&self.path(name).display().to_string()).unwrap()
    }

    fn named(&self) -> Named {
        Named::Member(self.spec("c"))
    }

    fn change(&self, what: &Change) -> Result<()> {
        change(&self.named(), what, &mut |_| Ok(())).map(|_| ())
    }

    /// Makes the change until `is_far` says of the bytes that are done, of how many, that it is far
    /// enough.
    fn interrupt(&self, what: &Change, is_far: impl Fn(u64, u64) -> bool) {
        let interrupted = change(&self.named(), what, &mut |progress| {
            if is_far(progress.done, progress.total) { Err(Error::new("interrupted")) } else { Ok(()) }
        });
        assert!(interrupted.unwrap_err().to_string().contains("interrupted"));
    }

    fn new_device(&self, name: &str) -> NewDevice {
        NewDevice { path: self.path(name).display().to_string(), size: Some(SIZE), force: false }
    }

    fn replace(&self, old: &str, new: &str) -> Change {
        let old = MemberName::new(&self.path(old).display().to_string());
        Change::Replace { old, new: self.new_device(new), discard_log: false }
    }

    fn label(&self, name: &str) -> Label {
        read_label(&*device(&self.spec(name))).unwrap().unwrap()
    }

    fn id(&self, name: &str) -> String {
        format!("{:032x}", u128::from_be_bytes(self.label(name).member_id))
    }

    fn status(&self) -> Status {
        status(&self.named()).unwrap()
    }

    /// Returns the state of what is at this path, or was last.
    fn state(&self, name: &str) -> AreaState {
        let (status, path) = (self.status(), self.path(name).display().to_string());
        let is_it = |at: &Option<String>| at.as_ref() == Some(&path);
        let member = status.members.iter().find(|member| is_it(&member.path) || is_it(&member.last_path));
        member.unwrap_or_else(|| panic!("{name}: {status:?}")).areas[0].state
    }

    /// Checks that the set is whole and has its file, in each copy.
    fn assert_whole(&self, what: &str) {
        let image = Image::open(&self.spec("c"), &OpenOptions::read_only()).unwrap();
        let fs = image.fs();
        let file = fs.lookup(fs.root(), b"file").unwrap();
        let mut bytes = vec![0; LEN];
        assert_eq!(fs.read(file.ino, 0, &mut bytes).unwrap(), LEN, "{what}");
        assert!(bytes == contents(), "{what}");
        fs.forget(file.ino, 1);
        drop(image);
        let found = scrub(&self.named(), &mut |_| Ok(()), &mut |_| ()).unwrap();
        let copies = found.copies;
        assert_eq!((copies.differed, copies.unreadable, copies.lost), (0, 0, 0), "{what}: {copies:?}");
        assert!(found.check.unwrap().is_clean(), "{what}");
        assert!(self.status().is_whole(), "{what}");
    }

    /// Copies the members into another directory, which keeps them.
    fn kept(&self) -> Kept {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        for name in ["c", "d", "e", "a", "n", "sub/n"].iter().filter(|name| self.path(name).exists()) {
            fs::copy(self.path(name), dir.path().join(name)).unwrap();
        }
        Kept { dir }
    }
}

/// Members as they were.
struct Kept {
    dir: tempfile::TempDir,
}

impl Kept {
    /// Brings a member back; removes it if it was not there.
    fn bring(&self, files: &Files, name: &str) {
        let _ = fs::remove_file(files.path(name));
        if self.dir.path().join(name).exists() {
            fs::copy(self.dir.path().join(name), files.path(name)).unwrap();
        }
    }

    /// Brings a member back as it was after so many steps of the last change of the label, by which
    /// `new` became known.
    fn bring_at(&self, files: &Files, name: &str, step: u32, new: &str) {
        self.bring(files, name);
        let label = self.label(name);
        let last = label.epoch - 1;
        match step {
            0 if name == new => fs::remove_file(files.path(new)).unwrap(),
            0 => {
                let mut label = Label { epoch: last, settled: last, ..label };
                label.areas.retain(|area| area.filling.is_none());
                put(&files.path(name), &label.encode());
            }
            1 => put(&files.path(name), &Label { settled: last, ..label }.encode()),
            _ => {}
        }
    }

    fn label(&self, name: &str) -> Label {
        let spec = Spec::parse(&self.dir.path().join(name).display().to_string()).unwrap();
        read_label(&*device(&spec)).unwrap().unwrap()
    }
}

fn contents() -> Vec<u8> {
    (0..LEN).map(|n| u8::try_from(n * 31 % 251).unwrap()).collect()
}

fn device(spec: &Spec) -> std::sync::Arc<dyn Device> {
    spindle::image::open_device_unlocked(spec).unwrap()
}

/// Writes a label to both places of a member.
fn put(path: &Path, bytes: &[u8]) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.write_all_at(bytes, SIZE - LABEL_BYTES as u64).unwrap();
}

/// Returns all ways in which a change of the label can have been interrupted: for each of `n`
/// members, how many of the two steps it has.
fn moments(n: u32) -> Vec<Vec<u32>> {
    let steps =
        |from: u32| (0..1 << n).map(move |mask: u32| (0..n).map(|bit| from + ((mask >> bit) & 1)).collect());
    let mut all: Vec<Vec<u32>> = steps(0).chain(steps(1)).collect();
    all.sort();
    all.dedup();
    all
}

/// Promise: a replacement and an addition that were killed while the new member became known, with
/// its label on it before the others know it or the other way round, go on with the same command,
/// whether the new member is found before the others, after them, or not at all.
#[test]
fn a_change_that_was_killed_at_its_beginning_goes_on() {
    for (new, adds) in [("a", false), ("n", true), ("sub/n", false)] {
        let files = Files::new();
        let what = if adds {
            Change::Add { role: Role::Data, index: 0, new: files.new_device(new) }
        } else {
            files.replace("d", new)
        };
        files.interrupt(&what, |_, _| true);
        let begun = files.kept();
        let names = ["c", "d", "e", new];
        for steps in moments(4) {
            names.iter().zip(&steps).for_each(|(name, step)| begun.bring_at(&files, name, *step, new));
            let what = &what;
            files.change(what).unwrap_or_else(|error| panic!("{new}, {adds}, {steps:?}: {error}"));
            files.assert_whole(&format!("{new}, {adds}, {steps:?}"));
            assert_eq!(files.state(new), AreaState::Whole);
            assert_eq!(is_member(&*device(&files.spec("d"))).unwrap(), adds, "{new}, {steps:?}");
        }
    }
}

/// Promise: a new member whose label no other member knows, because the change was killed, is in
/// nobody's way: the set is used, and the change goes on after that.
#[test]
fn a_new_member_that_nobody_knows_does_no_harm() {
    for new in ["a", "n", "sub/n"] {
        let files = Files::new();
        files.interrupt(&files.replace("d", new), |_, _| true);
        let begun = files.kept();
        for used in 0..3 {
            for name in ["c", "d", "e"] {
                begun.bring_at(&files, name, 0, new);
            }
            begun.bring_at(&files, new, 1, new);
            for _ in 0..used {
                // Without the new member: it is found among the files beside the others.
                let hidden = files.dir.path().join("hidden");
                fs::create_dir(&hidden).unwrap();
                fs::rename(files.path(new), hidden.join("x")).unwrap();
                Image::open(&files.spec("c"), &OpenOptions::read_write()).unwrap().unmount().unwrap();
                fs::rename(hidden.join("x"), files.path(new)).unwrap();
                fs::remove_dir(&hidden).unwrap();
            }
            files.assert_whole(&format!("{new}, {used}"));
            files.change(&files.replace("d", new)).unwrap_or_else(|error| panic!("{new}, {used}: {error}"));
            files.assert_whole(&format!("{new}, {used}: replaced"));
        }
    }
}

/// Promise: a replacement that was killed at its end, when the new member has everything and the
/// old one is being left out, succeeds when it is given again, and the old one is no member.
#[test]
fn a_replacement_that_was_killed_at_its_end_is_done() {
    let files = Files::new();
    let what = files.replace("d", "n");
    files.interrupt(&what, |done, total| done == total);
    let late = files.kept();
    // The epoch of the interrupted change goes on with that of its end.
    let old = files.label("d");
    let mut label = Label { epoch: old.epoch + 1, ..old.clone() };
    label.areas.retain(|area| area.member_id != old.member_id);
    for area in label.areas.iter_mut().filter(|area| area.role == Role::Data) {
        (area.copy, area.lost, area.filling) = (u32::from(area.filling.is_some()), false, None);
    }
    let names = ["c", "d", "e", "n"];
    let again = |steps: &[u32], erased: usize| {
        for (name, step) in names.iter().zip(steps) {
            late.bring(&files, name);
            let Label { member_id, member_bytes, settled, .. } = late.label(name);
            let settled = if *step == 2 { label.epoch } else { settled };
            if *step > 0 {
                put(&files.path(name), &Label { member_id, member_bytes, settled, ..label.clone() }.encode());
            }
        }
        let file = fs::File::options().write(true).open(files.path("d")).unwrap();
        for at in [0, SIZE - LABEL_BYTES as u64].into_iter().take(erased) {
            file.write_all_at(&[0; LABEL_BYTES], at).unwrap();
        }
        drop(file);
        files.change(&what).unwrap_or_else(|error| panic!("{steps:?}, {erased}: {error}"));
        files.assert_whole(&format!("{steps:?}, {erased}"));
        assert!(!is_member(&*device(&files.spec("d"))).unwrap(), "{steps:?}");
        assert!(
            find(&files.spec("c")).unwrap().label.areas.iter().all(|area| area.member_id != old.member_id)
        );
    };
    for steps in moments(4) {
        again(&steps, 0);
    }
    again(&[2; 4], 1);
    again(&[2; 4], 2);
}

/// Promise: a change writes to no member of another set, of a copy of this one, or of this one,
/// even where such a set has a replacement that was not finished.
#[test]
fn sets_that_are_not_concerned_are_not_overwritten() {
    let (files, other) = (Files::new(), Files::new());
    other.interrupt(&other.replace("d", "n"), |_, _| true);
    let copy = files.kept();
    let others = ["c", "d", "e", "n"].map(|name| other.path(name));
    let copies = ["c", "d", "e"].map(|name| copy.dir.path().join(name));
    for path in others.iter().chain(&copies) {
        let before = fs::read(path).unwrap();
        let new = NewDevice { path: path.display().to_string(), size: None, force: false };
        let old = MemberName::new(&files.path("d").display().to_string());
        let replaced = files.change(&Change::Replace { old, new: new.clone(), discard_log: false });
        assert!(replaced.unwrap_err().to_string().contains("--force"), "{}", path.display());
        let added = files.change(&Change::Add { role: Role::Data, index: 0, new });
        assert!(added.unwrap_err().to_string().contains("--force"), "{}", path.display());
        assert!(fs::read(path).unwrap() == before, "{}", path.display());
    }
    files.assert_whole("after refusals");
    // Nor is a former member of a copy of the set touched.
    files.change(&files.replace("d", "n")).unwrap();
    let path = copy.dir.path().join("d");
    let before = fs::read(&path).unwrap();
    let old = MemberName::new(&path.display().to_string());
    let again = Change::Replace { old, new: files.new_device("n"), discard_log: false };
    assert!(files.change(&again).is_err() && fs::read(&path).unwrap() == before);
}

/// Promise: a member that is missing is named by the place where status says it was last, also if
/// something else is there now, and by its identity; a name that may be two members is refused.
#[test]
fn a_missing_member_is_named_by_its_last_place() {
    for there in [None, Some(vec![0; 100]), Some(vec![1; 1 << 20])] {
        for by_path in [true, false] {
            let files = Files::new();
            let id = files.id("d");
            fs::remove_file(files.path("d")).unwrap();
            let shown = files.status().members.iter().find_map(|member| member.last_path.clone());
            assert_eq!(shown, Some(files.path("d").display().to_string()));
            if let Some(bytes) = &there {
                fs::write(files.path("d"), bytes).unwrap();
            }
            assert_eq!(files.state("d"), AreaState::Missing);
            let name = if by_path { shown.unwrap() } else { id[..8].to_owned() };
            let old = MemberName::new(&name);
            let new = files.new_device("n");
            files.change(&Change::Replace { old: old.clone(), new, discard_log: false }).unwrap();
            files.assert_whole(&name);
            assert_eq!(fs::read(files.path("d")).ok(), there);
            fs::remove_file(files.path("e")).unwrap();
            let old = MemberName::new(&files.path("e").display().to_string());
            files.change(&Change::Remove { old: old.clone() }).unwrap();
            files.assert_whole("without a copy");
            let again = files.change(&Change::Remove { old }).unwrap_err().to_string();
            assert!(again.contains("neither the path of a member"), "{again}");
        }
    }
    let files = Files::new();
    fs::rename(files.path("e"), files.path("x")).unwrap();
    fs::rename(files.path("d"), files.path("e")).unwrap();
    fs::remove_file(files.path("x")).unwrap();
    let old = MemberName::new(&files.path("e").display().to_string());
    let refused = files.change(&Change::Remove { old }).unwrap_err().to_string();
    assert!(refused.contains("may be several members"), "{refused}");
    assert!(is_member(&*device(&files.spec("e"))).unwrap());
}

/// Promise: a new copy that is not finished, because its change was interrupted or its device has
/// failed, is shown as that, and the set as whole; what finishes and what drops it does so.
#[test]
fn a_copy_that_is_not_finished_is_not_a_lost_one() {
    for (adds, is_there) in [(false, true), (false, false), (true, true), (true, false)] {
        let files = Files::new();
        files.interrupt(&files.replace("d", "n"), |done, total| done > total / 4);
        let id = files.id("n");
        if !is_there {
            fs::remove_file(files.path("n")).unwrap();
        }
        let now = files.status();
        assert!(now.is_whole(), "{now:?}");
        assert_eq!(files.state("n"), AreaState::Unfinished);
        let new = now.members.iter().find(|member| member.member_id == id).unwrap();
        assert!(new.areas[0].filled_bytes > Some(0), "{new:?}");
        assert_eq!((new.path.is_some(), new.last_path.is_some()), (is_there, !is_there));
        let found = scrub(&files.named(), &mut |_| Ok(()), &mut |_| ()).unwrap();
        assert_eq!(found.copies.lost, 0);
        if adds {
            files.change(&Change::Add { role: Role::Data, index: 0, new: files.new_device("n") }).unwrap();
            assert_eq!(files.state("n"), AreaState::Whole);
            assert_eq!(files.label("c").areas.len(), 5);
        } else {
            let old = MemberName::new(&files.path("n").display().to_string());
            files.change(&Change::Remove { old }).unwrap();
            assert_eq!(files.label("c").areas.len(), 4);
        }
        files.assert_whole(&format!("{adds}, {is_there}"));
    }
}
