//! A file system that knows its names and nothing else: the time that work takes on it is that of
//! the trips to a daemon. What is written is dropped, and reads as zeros; nothing is ever stored.
//!
//! Like all others it has a process of its own, this program with [`CHILD`] as first argument. For
//! each line on its standard input it mounts the same names again, answers with a line, and serves
//! until somebody unmounts.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spindle_clock::{Clock, RwLock, SystemClock, Timestamp};
use spindle_fuse::MountOptions;
use spindle_interop::{Failure, Result};
use spindle_vfs::{
    AclKind, Attr, DirEntry, Error, FallocateMode, FileKind, FileSystem, FsStat, Ino, Limits, NewNode,
    Privilege, RenameMode, Seek, SetAttr, SetTime, XattrMode,
};

type Outcome<T> = spindle_vfs::Result<T>;

/// First argument of the process that serves it; the mount point and the options follow.
pub const CHILD: &str = "--nothing";

/// A running process that serves it, which ends with this value.
#[derive(Debug)]
pub struct Server(Child);

impl Server {
    /// Starts the process for this mount point, and these options as `-o` takes them.
    pub fn start(directory: &Path, options: &str) -> Result<Self> {
        let program = std::env::current_exe().map_err(Failure::of("this program"))?;
        let mut command = Command::new(program);
        command.arg(CHILD).arg(directory).arg(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().map(Self).map_err(Failure::of(CHILD))
    }

    /// Mounts it, again.
    pub fn mount(&mut self) -> Result<()> {
        let (Some(input), Some(output)) = (&mut self.0.stdin, &mut self.0.stdout) else {
            return Err(Failure::new("the server has no pipes"));
        };
        input.write_all(b"mount\n").map_err(Failure::of(CHILD))?;
        let mut answer = String::new();
        BufReader::with_capacity(1, output).read_line(&mut answer).map_err(Failure::of(CHILD))?;
        if answer == "mounted\n" { Ok(()) } else { Err(Failure::new("the server did not mount")) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its standard input; what it was asked is done.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Serves it, as the first argument has asked; the others are `arguments`.
pub fn child(mut arguments: impl Iterator<Item = OsString>) -> Result<()> {
    let (Some(directory), Some(words)) = (arguments.next(), arguments.next()) else {
        return Err(Failure::new(format!("{CHILD} takes a directory and options")));
    };
    let directory = PathBuf::from(directory);
    let mut options = MountOptions::default();
    options.parse(&words.to_string_lossy()).map_err(Failure::of("options"))?;
    let nothing: Arc<dyn FileSystem> = Arc::new(Nothing::new());
    for _ in std::io::stdin().lines().map_while(std::result::Result::ok) {
        let session = spindle_fuse::mount(Arc::clone(&nothing), &directory, "nothing", &options, None);
        let mut session = session.map_err(Failure::of(directory.display()))?;
        println!("mounted");
        session.join().map_err(Failure::of(directory.display()))?;
    }
    Ok(())
}

/// A file or directory.
struct Node {
    attr: Attr,
    parent: Ino,
    target: Box<[u8]>,
    names: HashMap<Arc<[u8]>, Ino>,
    /// The names in the order of creation.
    entries: BTreeMap<Ino, Arc<[u8]>>,
}

/// The file system.
struct Nothing {
    nodes: RwLock<HashMap<Ino, Node>>,
    /// The number of the next inode, which is its cookie, too: 1 and 2 are those of the dots.
    next: AtomicU64,
    clock: SystemClock,
}

const ROOT: Ino = Ino(1);

impl Nothing {
    fn new() -> Self {
        let root = Node::new(ROOT, ROOT, &NewNode::new(FileKind::Directory, 0o755), SystemClock.now());
        Self {
            nodes: RwLock::new(HashMap::from([(ROOT, root)])),
            next: AtomicU64::new(3),
            clock: SystemClock,
        }
    }

    fn look<T>(&self, ino: Ino, at: impl FnOnce(&Node) -> T) -> Outcome<T> {
        self.nodes.read().get(&ino).map(at).ok_or(Error::Stale)
    }

    /// Removes a name. A file is gone with its name, however many others or open files there are.
    fn remove(&self, dir: Ino, name: &[u8]) -> Outcome<()> {
        let nodes = &mut *self.nodes.write();
        let parent = nodes.get_mut(&dir).ok_or(Error::Stale)?;
        let ino = parent.names.remove(name).ok_or(Error::NotFound)?;
        parent.entries.remove(&ino);
        nodes.remove(&ino);
        Ok(())
    }
}

impl Node {
    fn new(ino: Ino, parent: Ino, node: &NewNode<'_>, now: Timestamp) -> Self {
        let attr = Attr {
            ino,
            generation: 1,
            kind: node.kind,
            perm: node.perm,
            nlink: if node.kind == FileKind::Directory { 2 } else { 1 },
            uid: node.uid,
            gid: node.gid,
            rdev: node.rdev,
            size: node.target.len() as u64,
            blocks512: 0,
            blksize: 4096,
            atime: now,
            mtime: now,
            ctime: now,
            birthtime: None,
            flags: 0,
        };
        let (names, entries) = (HashMap::new(), BTreeMap::new());
        Self { attr, parent, target: node.target.into(), names, entries }
    }
}

impl FileSystem for Nothing {
    fn root(&self) -> Ino {
        ROOT
    }

    fn limits(&self) -> Limits {
        Limits {
            name_max: 255,
            symlink_max: 1023,
            link_max: 32_000,
            file_size_max: 1 << 50,
            xattrs: true,
            acls: AclKind::None,
            time_granularity_ns: 1,
            time_range: (i64::MIN, i64::MAX),
            birthtime: false,
            file_flags: 0,
            id_max: u32::MAX,
            log: None,
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn statfs(&self) -> Outcome<FsStat> {
        let plenty = 1 << 32;
        Ok(FsStat {
            bsize: 4096,
            frsize: 4096,
            blocks: plenty,
            bfree: plenty,
            bavail: plenty,
            reserve: 0,
            files: plenty,
            ffree: plenty,
            name_max: 255,
        })
    }

    fn statfs_at(&self, _: Ino) -> Outcome<FsStat> {
        self.statfs()
    }

    fn getattr(&self, ino: Ino) -> Outcome<Attr> {
        self.look(ino, |node| node.attr.clone())
    }

    fn setattr(&self, ino: Ino, set: &SetAttr, _: Privilege) -> Outcome<Attr> {
        let now = self.clock.now();
        let time = |set| match set {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        let mut nodes = self.nodes.write();
        let attr = &mut nodes.get_mut(&ino).ok_or(Error::Stale)?.attr;
        attr.perm = set.perm.unwrap_or(attr.perm);
        attr.uid = set.uid.unwrap_or(attr.uid);
        attr.gid = set.gid.unwrap_or(attr.gid);
        attr.size = set.size.unwrap_or(attr.size);
        attr.atime = set.atime.map_or(attr.atime, time);
        attr.mtime = set.mtime.map_or(attr.mtime, time);
        attr.ctime = set.ctime.unwrap_or(now);
        Ok(attr.clone())
    }

    fn lookup(&self, dir: Ino, name: &[u8]) -> Outcome<Attr> {
        let nodes = self.nodes.read();
        let parent = nodes.get(&dir).ok_or(Error::Stale)?;
        let ino = match name {
            b"." => dir,
            b".." => parent.parent,
            name => *parent.names.get(name).ok_or(Error::NotFound)?,
        };
        nodes.get(&ino).map(|node| node.attr.clone()).ok_or(Error::Stale)
    }

    fn reference(&self, ino: Ino) -> Outcome<Attr> {
        self.getattr(ino)
    }

    fn forget(&self, _: Ino, _: u64) {}

    fn readdir(
        &self,
        dir: Ino,
        from: u64,
        sink: &mut dyn FnMut(&DirEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        self.look(dir, |node| {
            let dots: [(u64, &[u8], Ino); 2] = [(1, b".", dir), (2, b"..", node.parent)];
            let dots = dots.into_iter().filter(|&(next, ..)| next > from);
            let others = node.entries.range(Ino(from + 1)..).map(|(&ino, name)| (ino.0, &name[..], ino));
            for (next, name, ino) in dots.chain(others) {
                if sink(&DirEntry { name, ino, kind: None, next }).is_break() {
                    return;
                }
            }
        })
    }

    fn create(&self, dir: Ino, name: &[u8], node: &NewNode<'_>, _: Privilege) -> Outcome<Attr> {
        let nodes = &mut *self.nodes.write();
        let parent = nodes.get_mut(&dir).ok_or(Error::Stale)?;
        if parent.names.contains_key(name) {
            return Err(Error::Exists);
        }
        let ino = Ino(self.next.fetch_add(1, Ordering::Relaxed));
        let name: Arc<[u8]> = name.into();
        parent.names.insert(Arc::clone(&name), ino);
        parent.entries.insert(ino, name);
        let made = Node::new(ino, dir, node, self.clock.now());
        let attr = made.attr.clone();
        nodes.insert(ino, made);
        Ok(attr)
    }

    fn create_unnamed(&self, _: Ino, _: &NewNode<'_>, _: Privilege) -> Outcome<Attr> {
        Err(Error::NotSupported)
    }

    fn link(&self, _: Ino, _: Ino, _: &[u8], _: Privilege) -> Outcome<Attr> {
        Err(Error::NotSupported)
    }

    fn unlink(&self, dir: Ino, name: &[u8]) -> Outcome<()> {
        self.remove(dir, name)
    }

    fn rmdir(&self, dir: Ino, name: &[u8]) -> Outcome<()> {
        self.remove(dir, name)
    }

    fn rename(&self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: RenameMode, _: Privilege) -> Outcome<()> {
        Err(Error::NotSupported)
    }

    fn readlink(&self, ino: Ino) -> Outcome<Vec<u8>> {
        self.look(ino, |node| node.target.to_vec())
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Outcome<usize> {
        let left = self.look(ino, |node| node.attr.size.saturating_sub(offset))?;
        let len = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        buf[..len].fill(0);
        Ok(len)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], _: Privilege) -> Outcome<usize> {
        let mut nodes = self.nodes.write();
        let attr = &mut nodes.get_mut(&ino).ok_or(Error::Stale)?.attr;
        attr.size = attr.size.max(offset + data.len() as u64);
        attr.mtime = self.clock.now();
        Ok(data.len())
    }

    fn write_late(&self, ino: Ino, offset: u64, data: &[u8], by: Privilege) -> Outcome<usize> {
        self.write(ino, offset, data, by)
    }

    fn fallocate(&self, _: Ino, _: FallocateMode, _: u64, _: u64, _: Privilege) -> Outcome<()> {
        Err(Error::NotSupported)
    }

    fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Outcome<u64> {
        let size = self.look(ino, |node| node.attr.size)?;
        let place = if what == Seek::Hole { size } else { offset };
        if offset < size { Ok(place) } else { Err(Error::NoSuchOffset) }
    }

    fn readable_after(&self, _: Ino, offset: u64) -> Outcome<u64> {
        Ok(offset + 1)
    }

    fn held(&self, _: Ino, _: &mut dyn FnMut(Range<u64>)) -> Outcome<()> {
        Ok(())
    }

    fn is_snapshot(&self, _: Ino) -> bool {
        false
    }

    fn passed_over(&self) -> Vec<String> {
        Vec::new()
    }

    fn fsync(&self, _: Ino, _: bool) -> Outcome<()> {
        Ok(())
    }

    fn sync(&self) -> Outcome<()> {
        Ok(())
    }

    fn trim(&self, _: Range<u64>, _: u64) -> Outcome<u64> {
        Err(Error::NotSupported)
    }

    fn getxattr(&self, _: Ino, _: &[u8]) -> Outcome<Vec<u8>> {
        Err(Error::NoAttribute)
    }

    fn setxattr(&self, _: Ino, _: &[u8], _: &[u8], _: XattrMode, _: Privilege) -> Outcome<()> {
        Err(Error::NotSupported)
    }

    fn listxattr(&self, _: Ino) -> Outcome<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    fn removexattr(&self, _: Ino, _: &[u8]) -> Outcome<()> {
        Err(Error::NoAttribute)
    }

    fn unmount(&self) -> Outcome<()> {
        Ok(())
    }
}
