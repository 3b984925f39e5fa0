//! Compares partition tables written by util-linux with Spindle's reading of them.

use spindle_device::{FileDevice, OpenOptions, Place, Scheme, Spec, open_spec, partitions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns an empty image of `size` bytes in a directory of its own.
fn image(size: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    FileDevice::create(&path, size, &OpenOptions::read_write()).unwrap();
    (dir, path)
}

/// Runs a program of Debian's package `fdisk` on the image, with `input`; returns its output.
fn run(program: &str, args: &[&str], path: &Path, input: &str) -> String {
    let mut child = Command::new(format!("/usr/sbin/{program}"))
        .args(args)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}; `make setup` installs it"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} failed");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns name, first sector and sectors of every partition that can be opened.
fn found(path: &Path) -> Vec<(String, u64, u64)> {
    let device = FileDevice::open(path, &OpenOptions::read_only()).unwrap();
    let table = partitions(&device).unwrap();
    assert!(table.notes.is_empty(), "{:?}", table.notes);
    let good = table.partitions.iter().filter(|p| p.problem.is_none());
    good.map(|p| (p.name.clone(), p.start_bytes / 512, p.size_bytes / 512)).collect()
}

/// Returns the same from `sfdisk --dump`, with `prefix` before each number.
fn dumped(path: &Path, prefix: &str) -> Vec<(String, u64, u64)> {
    let value = |line: &str, key: &str| -> u64 {
        let rest = line.split_once(key).unwrap().1;
        rest.split(',').next().unwrap().trim().parse().unwrap()
    };
    let dump = run("sfdisk", &["--dump"], path, "");
    dump.lines()
        .filter_map(|line| line.strip_prefix(path.to_str().unwrap())?.split_once(" : "))
        .map(|(number, line)| (format!("{prefix}{number}"), value(line, "start="), value(line, "size=")))
        .collect()
}

/// Promise: primary and logical slices are where sfdisk put them.
#[test]
fn slices_of_sfdisk() {
    let (_dir, path) = image(50 << 20);
    run("sfdisk", &["-q", "--label", "dos"], &path, ",5M,a5\n,20M,E\n,4M,a9\n,3M\n,4M,a6\n,5M,83\n");
    let dumped = dumped(&path, "s");
    assert_eq!(dumped.len(), 6);
    assert_eq!(found(&path), dumped);
}

/// Promise: GPT partitions, their types and names are those that sfdisk wrote.
#[test]
fn gpt_of_sfdisk() {
    let (_dir, path) = image(50 << 20);
    let ufs = "size=10M, type=516E7CB6-6ECF-11D6-8FF8-00022D09712B, name=\"root fs\"";
    let ffs = "size=5M, type=49F48D5A-B10E-11DC-B99B-0019D1879648";
    run("sfdisk", &["-q", "--label", "gpt"], &path, &format!("{ufs}\n{ffs}\n,\n"));
    let dumped = dumped(&path, "p");
    assert_eq!(dumped.len(), 3);
    assert_eq!(found(&path), dumped);
    let table = partitions(&FileDevice::open(&path, &OpenOptions::read_only()).unwrap()).unwrap();
    let found: Vec<_> = table.partitions.iter().map(|p| (p.kind.as_str(), p.label.as_deref())).collect();
    assert_eq!(found, [("FreeBSD UFS", Some("root fs")), ("NetBSD FFS", None), ("Linux", None)]);
}

/// Promise: a Sun label of sfdisk gives the requested cylinders and sectors.
#[test]
fn sun_label_of_sfdisk() {
    let (_dir, path) = image(50 << 20);
    run("sfdisk", &["-q", "--label", "sun"], &path, ",10M,2\n,5M,3\n");
    // sfdisk's cylinders have 255 tracks of 63 sectors.
    let expected = [("a".to_owned(), 0, 20_480), ("b".to_owned(), 2 * 255 * 63, 10_240)];
    assert_eq!(found(&path), expected);
    let table = partitions(&FileDevice::open(&path, &OpenOptions::read_only()).unwrap()).unwrap();
    assert_eq!(table.scheme, Some(Scheme::Sun));
    assert_eq!(table.find("b").unwrap().kind, "swap");
}

/// Promise: a disklabel that fdisk puts into a slice is read, and its partitions open at their
/// places.
#[test]
fn nested_disklabel_of_fdisk() {
    let (_dir, path) = image(10 << 20);
    run("sfdisk", &["-q", "--label", "dos"], &path, "start=63, size=16000, type=a5\n");
    run("fdisk", &[], &path, "b\ny\nn\na\n79\n4158\nn\nb\n4159\n16000\nw\nr\nw\n");
    let found = found(&path);
    for expected in [("s1", 63, 16_000), ("s1a", 79, 4080), ("s1b", 4159, 11_842), ("s1c", 63, 16_000)] {
        assert!(
            found.contains(&(expected.0.to_owned(), expected.1, expected.2)),
            "{expected:?} in {found:?}"
        );
    }
    let name = |part: &str| format!("{}@{part}", path.display());
    let device = open_spec(&name("s1a"), &OpenOptions::read_write()).unwrap();
    assert_eq!((device.info().size_bytes, &device.info().name), (4080 * 512, &name("s1a")));
    device.write_at(512, &[0x5a; 512]).unwrap();
    drop(device);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes[80 * 512..81 * 512], [0x5a; 512]);
    let device = open_spec(&name("a"), &OpenOptions::read_only()).unwrap();
    assert_eq!(device.info().size_bytes, 4080 * 512);
}

/// Promise: of a block device, a partition is the device that the system has for exactly its bytes;
/// where it has none, and for other parts, it is these bytes of the disk.
#[test]
fn partitions_that_the_system_knows() {
    struct Loop(String);
    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = Command::new("partx").args(["-d", &self.0]).status();
            let _ = Command::new("/usr/sbin/losetup").args(["-d", &self.0]).status();
        }
    }
    let (_dir, path) = image(50 << 20);
    run("sfdisk", &["-q", "--label", "dos"], &path, "start=2048, size=8192\nstart=16384, size=8192\n");
    let disk = Loop(run("losetup", &["--find", "--show"], &path, "").trim().to_owned());
    let add = |part: &str, start: &str, size: &str| {
        let added = Command::new("addpart").args([&disk.0, part, start, size]).status().unwrap();
        assert!(added.success());
    };
    // The second is a sector longer on the disk than the system has it.
    add("1", "2048", "8192");
    add("2", "16384", "8191");
    let place = |part: &str| Spec::parse(&format!("{}@{part}", disk.0)).unwrap().place().unwrap();
    let node = PathBuf::from(format!("{}p1", disk.0));
    assert_eq!(place("s1"), Place { path: node, bytes: None, is_cut: false });
    let bytes =
        |start: u64, end: u64| Place { path: disk.0.clone().into(), bytes: Some(start..end), is_cut: false };
    assert_eq!(place("s2"), bytes(16384 * 512, 24576 * 512));
    assert_eq!(place("offset=1048576"), bytes(1 << 20, u64::MAX));

    let open = |part: &str| open_spec(&format!("{}@{part}", disk.0), &OpenOptions::read_write());
    let device = open("s1").unwrap();
    assert_eq!((device.info().size_bytes, &device.info().name), (8192 * 512, &format!("{}@s1", disk.0)));
    device.write_at(512, &[0x5a; 512]).unwrap();
    device.flush().unwrap();
    let busy = open("s2").err().unwrap().to_string();
    assert!(busy.contains(&format!("which overlaps {}p2", disk.0)), "{busy}");
    drop(device);
    drop(open("s2").unwrap());
    let whole = open_spec(&disk.0, &OpenOptions::look()).unwrap();
    let mut read = [0; 512];
    whole.read_at(2049 * 512, &mut read).unwrap();
    assert_eq!(read, [0x5a; 512]);
}
