//! Restoring the files of a chain into a sink.

use super::content::Streamed;
use super::names::Names;
use super::stream::{Directory, Next, Report};
use super::tree::Restore;
use crate::error::{Context, Error, Result};
use crate::text::quoted;
use crate::transfer::{Body, Content, Failed, Meta, Node, PastFailures, Sink};
use spindle_dump::{Body as Behind, Event, Inode};
use spindle_ffs::Dialect;
use spindle_vfs::FileKind;
use std::cell::RefCell;
use std::collections::HashSet;

/// Longest target of a symbolic link in bytes: a block of 64 KiB.
const MAX_TARGET: usize = 1 << 16;

/// Where files are restored to, and how.
pub struct Destination<'s> {
    /// The target. The caller finishes it.
    pub sink: &'s mut dyn Sink,
    /// Is called with what the target cannot have.
    pub failed: Failed<'s>,
    /// Is called with what is damaged or missing in the streams.
    pub report: Report<'s>,
    /// The dialect of the system that wrote the streams, for device numbers of more than 16 bits.
    pub dialect: Option<Dialect>,
}

/// What was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Names of files and directories.
    pub names: u64,
    /// Names of files that the streams do not have, and do not say that they have.
    pub absent: u64,
}

impl Restore<'_> {
    /// Restores the files with these names.
    ///
    /// # Errors
    /// Those of reading a stream, and of a target that is full or fails.
    pub fn extract(&mut self, names: &Names, to: Destination<'_>) -> Result<Restored> {
        let Destination { sink, failed, report, dialect } = to;
        let refused = RefCell::new(HashSet::new());
        let failed = |path: &[u8], error| {
            refused.borrow_mut().insert(path.to_vec());
            failed(path, error)
        };
        let mut work = Work {
            sink: PastFailures::new(sink, &failed),
            chosen: self.chosen(names),
            report,
            dialect,
            takes_all: names.is_all(),
            came: vec![HashSet::new(); self.streams.len()],
            restored: Restored::default(),
        };
        self.make_directories(&mut work)?;
        let mut done = Ok(());
        for at in 0..self.streams.len() {
            done = done.and_then(|()| self.extract_stream(at, &mut work));
        }
        // Directories get their permissions and times in any case.
        let finished = self.finish_directories(&mut work, names, &refused.borrow());
        done.and(finished)?;
        self.report_missing(&mut work);
        for name in names.iter().filter(|name| !self.list().any(|listed| listed.path == *name)) {
            report(Error::new("is not in the dump").within(quoted(name)));
        }
        Ok(work.restored)
    }

    /// Returns which names are wanted, and which directories lead to them.
    fn chosen(&self, names: &Names) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = Vec::with_capacity(self.names.len());
        for (at, named) in self.names.iter().enumerate() {
            let above = if at == 0 { Chosen::Above } else { chosen[named.dir] };
            let takes_below = matches!(names, Names::Trees(_));
            chosen.push(match above {
                Chosen::Wanted if takes_below => Chosen::Wanted,
                Chosen::No => Chosen::No,
                _ if names.has(&self.path(at)) => Chosen::Wanted,
                _ if named.is_directory && names.leads_through(&self.path(at)) => Chosen::Above,
                Chosen::Above | Chosen::Wanted => Chosen::No,
            });
        }
        chosen
    }

    /// Makes the directories, for nobody else as long as they are not complete.
    fn make_directories(&self, work: &mut Work<'_, '_>) -> Result<()> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        for at in (1..self.names.len()).filter(|&at| self.names[at].is_directory) {
            if work.chosen[at] != Chosen::No {
                let meta = Meta { perm: 0o700, uid, gid, ..Meta::default() };
                work.sink.put(Node { path: &self.path(at), body: Body::Directory, meta })?;
                work.restored.names += u64::from(work.chosen[at] == Chosen::Wanted);
            }
        }
        Ok(())
    }

    /// Gives the directories their attributes, those below others first.
    fn finish_directories(
        &mut self,
        work: &mut Work<'_, '_>,
        names: &Names,
        refused: &HashSet<Vec<u8>>,
    ) -> Result<()> {
        for at in (0..self.names.len()).rev().filter(|&at| self.names[at].is_directory) {
            let path = self.path(at);
            let is_wanted = if at == 0 { names.has_root() } else { work.chosen[at] != Chosen::No };
            let (ino, source) = (self.names[at].ino, self.names[at].source);
            let source = source.and_then(|source| self.streams.get_mut(source));
            let Some(directory) = source.and_then(|stream| stream.directories.get_mut(&ino)) else {
                continue;
            };
            if is_wanted && !refused.contains(&path) {
                let Directory { inode, xattrs, .. } = directory;
                let meta = meta(inode, std::mem::take(xattrs));
                work.sink.put(Node { path: &path, body: Body::Directory, meta })?;
            }
        }
        Ok(())
    }

    /// Restores the files that come from one stream.
    fn extract_stream(&mut self, at: usize, work: &mut Work<'_, '_>) -> Result<()> {
        loop {
            let next = match self.streams[at].next.take() {
                Some(next) => next,
                None => match self.next_file(at, work)? {
                    Some(next) => next,
                    None => return Ok(()),
                },
            };
            self.extract_file(at, next, work)?;
        }
    }

    /// Returns the next file of a stream; none at its end.
    fn next_file(&mut self, at: usize, work: &mut Work<'_, '_>) -> Result<Option<Next>> {
        loop {
            let stream = &mut self.streams[at];
            match stream.reader.next_event().context(&stream.name)? {
                Event::File { ino, inode, body, .. } => return Ok(Some(Next { ino, inode, body })),
                Event::Damage(damage) => stream.say(work.report, Error::new(damage.to_string())),
                Event::InUse(_) | Event::InDump(_) => {
                    stream.say(work.report, Error::new("a map of inodes stands among the files"));
                }
                Event::End => return Ok(None),
            }
        }
    }

    /// Restores a file under all its names, or passes over it.
    fn extract_file(&mut self, at: usize, next: Next, work: &mut Work<'_, '_>) -> Result<()> {
        let Next { ino, inode, body } = next;
        if body == Behind::Attributes {
            return Ok(());
        }
        let kind = inode.kind().filter(|kind| *kind != FileKind::Directory);
        let is_new = work.came[at].insert(ino);
        let wrong = match kind {
            _ if !is_new => Some("comes again"),
            Some(_) => None,
            None if inode.kind().is_none() => Some("has no known kind"),
            None => Some("is a directory behind other files"),
        };
        let (Some(kind), None) = (kind, wrong) else {
            let what = format!("inode {ino} {}", wrong.unwrap_or_default());
            self.streams[at].say(work.report, Error::new(what));
            return Ok(());
        };
        let places = self.places(at, ino, work);
        let wanted: Vec<usize> =
            places.iter().copied().filter(|&place| work.chosen[place] == Chosen::Wanted).collect();
        let Some((&first, others)) = wanted.split_first() else { return Ok(()) };
        let named = u16::try_from(places.len()).unwrap_or(u16::MAX);
        if inode.names != 0 && inode.names != named {
            let what = format!("inode {ino} has {} names, of which {named} are in directories", inode.names);
            self.streams[at].say(work.report, Error::new(what));
        }
        for &place in &wanted {
            if self.names[place].kind.is_some_and(|said| said != kind) {
                let path = quoted(&self.path(place));
                (work.report)(Error::new(format!("{path}: is another kind of file by its name")));
            }
        }
        let path = self.path(first);
        let links: Vec<_> = others.iter().map(|&other| self.path(other)).collect();
        let stream = &mut self.streams[at];
        let content = Streamed { stream, ino, report: work.report, path: quoted(&path) };
        if !put(&path, kind, &inode, body, content, work)? {
            return Ok(());
        }
        work.restored.names += wanted.len() as u64;
        for link in links {
            let meta = meta(&inode, Vec::new());
            work.sink.put(Node { path: &link, body: Body::HardLink(&path), meta })?;
        }
        Ok(())
    }

    /// Returns the names of a file that has come in a stream and is restored from it. If no
    /// directory names it, it gets one.
    fn places(&mut self, at: usize, ino: u32, work: &mut Work<'_, '_>) -> Vec<usize> {
        let is_mapped = self.streams[at].in_dump.as_ref().is_none_or(|map| map.contains(ino));
        if !is_mapped {
            let what = format!("inode {ino} is in the dump, and not in its map");
            self.streams[at].say(work.report, Error::new(what));
        }
        // A file that is not in the map belongs to the names for which there is no other.
        let is_from_here = |source: Option<usize>| source.map_or(!is_mapped, |source| source == at);
        if work.takes_all && !self.by_ino.contains_key(&ino) && is_from_here(self.source(ino)) {
            self.name_number(ino, work.report);
            work.chosen.resize(self.names.len(), Chosen::Wanted);
        }
        let places = self.by_ino.get(&ino).cloned().unwrap_or_default();
        places.into_iter().filter(|&place| is_from_here(self.names[place].source)).collect()
    }

    /// Reports the files that should have come and did not.
    fn report_missing(&self, work: &mut Work<'_, '_>) {
        for at in (0..self.names.len()).filter(|&at| work.chosen[at] == Chosen::Wanted) {
            let named = &self.names[at];
            match named.source {
                _ if named.is_directory => {}
                Some(source) if !work.came[source].contains(&named.ino) => {
                    let what = format!("inode {} is missing in {}", named.ino, self.streams[source].name);
                    (work.report)(Error::new(what).within(quoted(&self.path(at))));
                }
                Some(_) => {}
                None if work.came.iter().any(|map| map.contains(&named.ino)) => {}
                None => work.restored.absent += 1,
            }
        }
        for at in 0..self.streams.len() {
            let mut unnamed = self.unnamed_in(at).filter(|ino| !work.came[at].contains(ino));
            if let Some(first) = unnamed.next().filter(|_| work.takes_all) {
                let count = unnamed.count() + 1;
                let what = format!(
                    "{count} inodes of its map are neither in the dump nor in a directory, inode {first} first"
                );
                self.streams[at].say(work.report, Error::new(what));
            }
        }
    }
}

/// Whether a name is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    /// No.
    No,
    /// Only as a directory above others.
    Above,
    /// Yes.
    Wanted,
}

/// A restore that is being done.
struct Work<'w, 'f> {
    sink: PastFailures<'w, &'f mut dyn Sink>,
    /// For each name, whether it is wanted.
    chosen: Vec<Chosen>,
    report: Report<'w>,
    dialect: Option<Dialect>,
    /// Everything is wanted.
    takes_all: bool,
    /// For each stream, the inodes that have come.
    came: Vec<HashSet<u32>>,
    restored: Restored,
}

/// Passes a file to the sink under its first name. Returns false if it cannot be restored.
fn put(
    path: &[u8],
    kind: FileKind,
    inode: &Inode,
    body: Behind,
    mut content: Streamed<'_, '_>,
    work: &mut Work<'_, '_>,
) -> Result<bool> {
    let say = |what: String| (work.report)(Error::new(what).within(quoted(path)));
    if body == Behind::Nothing {
        say("only its inode is in the dump".into());
        return Ok(false);
    }
    if kind == FileKind::Regular {
        let body = Body::File { size: inode.size, content: &mut content };
        work.sink.put(Node { path, body, meta: meta(inode, Vec::new()) })?;
        return Ok(true);
    }
    let target = match kind {
        FileKind::Symlink if inode.size > MAX_TARGET as u64 => {
            say(format!("is a symbolic link of {} bytes", inode.size));
            return Ok(false);
        }
        FileKind::Symlink => content.whole(MAX_TARGET)?,
        _ => Vec::new(),
    };
    let xattrs = content.attributes_behind()?;
    if kind == FileKind::Symlink && target.len() as u64 != inode.size {
        say("its target is not whole".into());
        return Ok(false);
    }
    let device = |block| inode.device.rdev(work.dialect).map(|rdev| Body::Device { block, rdev });
    let body = match kind {
        FileKind::Symlink => Some(Body::Symlink(&target)),
        FileKind::BlockDevice => device(true),
        FileKind::CharDevice => device(false),
        FileKind::Fifo => Some(Body::Fifo),
        FileKind::Regular | FileKind::Directory | FileKind::Socket => Some(Body::Socket),
    };
    let Some(body) = body else {
        say("each system divides its device number in its own way; say whose it is (--dialect)".into());
        return Ok(false);
    };
    work.sink.put(Node { path, body, meta: meta(inode, xattrs) })?;
    Ok(true)
}

/// Returns the metadata of a file.
fn meta(inode: &Inode, mut xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Meta {
    xattrs.sort_unstable();
    Meta {
        perm: u32::from(inode.mode) & 0o7777,
        uid: inode.uid,
        gid: inode.gid,
        atime: Some(inode.atime),
        mtime: inode.mtime,
        birthtime: inode.birthtime,
        flags: inode.flags,
        xattrs,
    }
}
