//! Images in memory that are damaged and repaired, and their files.

use spindle_clock::{Clock, ManualClock};
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::{Finding, Options, Report, check};
use spindle_ffs::repair::{Plan, Scope, plan};
use spindle_ffs::{Ffs, OpenOptions};
use spindle_tree::check::Severity;
use spindle_vfs::{FileKind, FileSystem, Ino};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A file: its inode, kind, permissions and content, and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub ino: u64,
    pub kind: FileKind,
    pub content: Vec<u8>,
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Files by path.
pub type Tree = BTreeMap<String, File>;

/// Bytes of a file that are compared.
const BYTES_MAX: u64 = 2 << 20;

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::at(1_800_000_000))
}

/// Returns the plan of a repair of all findings.
pub fn planned(device: &MemoryDevice, scope: Scope) -> Plan {
    let device: Arc<dyn Device> = Arc::new(device.branch());
    plan(&device, &clock(), &Options::default(), scope, &mut |_| true, &mut |_| ()).unwrap()
}

/// Repairs everything.
pub fn repair(device: &MemoryDevice) -> Plan {
    let plan = planned(device, Scope::All);
    plan.apply(device).unwrap();
    plan
}

pub fn checked(device: &MemoryDevice) -> Report {
    check(device, &Options::default(), &mut |_| ()).unwrap()
}

/// Returns the damage that a check finds.
pub fn damage(device: &MemoryDevice) -> Vec<String> {
    let found = checked(device).findings.into_iter();
    found.filter(|found| found.severity != Severity::Note).map(|found| found.to_string()).collect()
}

/// Returns true if a finding cannot be repaired in any way.
pub fn beyond_repair(finding: &Finding) -> bool {
    matches!(finding, Finding::Unreadable { .. })
}

/// Returns all files of a file system; what cannot be read is left out.
pub fn tree(device: &MemoryDevice) -> Tree {
    let options = OpenOptions { read_only: true, seed: Some(0), ..OpenOptions::default() };
    let fs = Ffs::open(Arc::new(device.branch()), clock(), &options).unwrap();
    let mut tree = Tree::new();
    walk(&fs, fs.root(), "", &mut tree);
    fs.unmount().unwrap();
    tree
}

fn walk(fs: &Ffs, dir: Ino, path: &str, tree: &mut Tree) {
    let mut names = Vec::new();
    let read = fs.readdir(dir, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            names.push(entry.name.to_vec());
        }
        ControlFlow::Continue(())
    });
    if read.is_err() {
        return;
    }
    for name in names {
        let Ok(attr) = fs.lookup(dir, &name) else { continue };
        let path = format!("{path}/{}", name.escape_ascii());
        let mut content = Vec::new();
        match attr.kind {
            FileKind::Regular => {
                content.resize(usize::try_from(attr.size.min(BYTES_MAX)).unwrap(), 0);
                let _ = fs.read(attr.ino, 0, &mut content);
            }
            FileKind::Symlink => content = fs.readlink(attr.ino).unwrap_or_default(),
            _ => {}
        }
        let value = |name: Vec<u8>| {
            let value = fs.getxattr(attr.ino, &name).unwrap_or_default();
            (name, value)
        };
        let attributes = fs.listxattr(attr.ino).unwrap_or_default().into_iter().map(value).collect();
        let file = File { ino: attr.ino.0, kind: attr.kind, content, attributes };
        let is_new = tree.insert(path.clone(), file).is_none();
        if attr.kind == FileKind::Directory && is_new && path.len() < 4000 {
            walk(fs, attr.ino, &path, tree);
        }
        fs.forget(attr.ino, 1);
    }
}

/// Returns the paths of `before` that have other content in `after`, or are gone, also from
/// `lost+found`, where a directory may be above them.
pub fn missing(before: &Tree, after: &Tree) -> Vec<String> {
    let lost: Vec<_> = after.iter().filter(|(path, _)| path.starts_with("/lost+found")).collect();
    let gone = |(path, file): &(&String, &File)| {
        after.get(*path) != Some(file) && !lost.iter().any(|(_, other)| other == file)
    };
    before.iter().filter(gone).map(|(path, _)| path.clone()).collect()
}
