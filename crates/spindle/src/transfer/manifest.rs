//! A source as a manifest describes it: what is listed gets the attributes of its entry, and what
//! is only in the manifest is created.

use super::local_source::open_content;
use super::mtree::{Entry, EntryKind, Manifest};
use super::{Body, Meta, Node, Sink, Source};
use crate::error::{Context, Error, Result};
use crate::text::printable;
use spindle_vfs::Rdev;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A source with a manifest.
pub struct Manifested<'a, S> {
    /// The source. Without one, the content of a file is in the file of this machine that
    /// `contents` names, or its own path.
    pub source: Option<S>,
    /// The manifest.
    pub manifest: &'a Manifest,
    /// Leave out what is not listed; directories above listed files stay.
    pub only_listed: bool,
}

impl<S: Source> Source for Manifested<'_, S> {
    fn walk(self, sink: &mut dyn Sink) -> Result<()> {
        let left = self.manifest.entries.iter().map(|(path, entry)| (&path[..], entry)).collect();
        let mut applied = Applied { sink, manifest: self.manifest, only_listed: self.only_listed, left };
        let own_paths = self.source.is_none();
        if let Some(source) = self.source {
            source.walk(&mut applied)?;
        }
        applied.create_rest(own_paths)
    }
}

struct Applied<'a> {
    sink: &'a mut dyn Sink,
    manifest: &'a Manifest,
    only_listed: bool,
    /// The entries that the source did not have yet.
    left: BTreeMap<&'a [u8], &'a Entry>,
}

impl Applied<'_> {
    /// Returns true if the manifest lists `path` or something below it.
    fn lists(&self, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        let entries = &self.manifest.entries;
        path.is_empty()
            || entries.contains_key(path)
            || entries.range(below.clone()..).next().is_some_and(|(found, _)| found.starts_with(&below))
    }

    /// Refuses another name of a file that is left out, or one that would give the file other
    /// attributes than its first name did.
    fn check_link(&self, path: &[u8], first: &[u8]) -> Result<()> {
        let refuse = |what: &str| Err(Error::new(format!("is another name of {}, {what}", printable(first))));
        if !self.wants(first) {
            return refuse("which the manifest does not list; list that, too");
        }
        let none = Entry::default();
        let first = self.manifest.entries.get(first).unwrap_or(&none);
        let Some(entry) = self.manifest.entries.get(path) else { return Ok(()) };
        let same = entry.uid.is_none_or(|uid| first.uid == Some(uid))
            && entry.gid.is_none_or(|gid| first.gid == Some(gid))
            && entry.perm.is_none_or(|perm| first.perm == Some(perm))
            && entry.time.is_none_or(|time| first.time == Some(time))
            && entry.flags.is_none_or(|flags| first.flags == Some(flags))
            && entry.contents.as_ref().is_none_or(|contents| first.contents.as_ref() == Some(contents));
        if same {
            return Ok(());
        }
        refuse("and must be listed with the same attributes")
            .named(path)
            .context(self.manifest.at(entry.line))
    }

    /// Puts the entries that the source did not have.
    fn create_rest(&mut self, own_paths: bool) -> Result<()> {
        for (path, entry) in std::mem::take(&mut self.left) {
            if !entry.optional {
                self.create(path, entry, own_paths).named(path).context(self.manifest.at(entry.line))?;
            }
        }
        Ok(())
    }

    fn create(&mut self, path: &[u8], entry: &Entry, own_paths: bool) -> Result<()> {
        let missing = |keyword: &str| {
            Error::new(format!("is not in the source, and to create it the manifest must have {keyword}="))
        };
        let kind = entry.kind.ok_or_else(|| missing("type"))?;
        let mut meta = Meta {
            perm: entry.perm.ok_or_else(|| missing("mode"))?,
            uid: entry.uid.ok_or_else(|| missing("uid"))?,
            gid: entry.gid.ok_or_else(|| missing("gid"))?,
            flags: entry.flags.unwrap_or(0),
            ..Meta::default()
        };
        let device = || entry.device.ok_or_else(|| missing("device"));
        let body = match kind {
            EntryKind::Directory => Body::Directory,
            EntryKind::Fifo => Body::Fifo,
            EntryKind::Socket => Body::Socket,
            EntryKind::Block => Body::Device { block: true, rdev: device()? },
            EntryKind::Char => Body::Device { block: false, rdev: device()? },
            EntryKind::Symlink => Body::Symlink(entry.link.as_deref().ok_or_else(|| missing("link"))?),
            EntryKind::File => {
                let contents = entry.contents.as_deref().or(own_paths.then_some(path));
                let contents = contents.ok_or_else(|| missing("contents"))?;
                let (size, mtime, mut content) =
                    open_content(Path::new(OsStr::from_bytes(contents))).named(contents)?;
                meta.mtime = mtime;
                apply_time(entry, &mut meta);
                return self.sink.put(Node { path, body: Body::File { size, content: &mut content }, meta });
            }
        };
        apply_time(entry, &mut meta);
        self.sink.put(Node { path, body, meta })
    }
}

fn apply_time(entry: &Entry, meta: &mut Meta) {
    if let Some(time) = entry.time {
        meta.mtime = time;
        meta.atime = Some(time);
    }
}

/// Returns true if a node is of the type of its entry.
fn agrees(kind: EntryKind, body: &Body<'_>) -> bool {
    match body {
        Body::File { .. } => kind == EntryKind::File,
        Body::Directory => kind == EntryKind::Directory,
        Body::Symlink(_) => kind == EntryKind::Symlink,
        Body::Device { block, .. } => kind == if *block { EntryKind::Block } else { EntryKind::Char },
        Body::Fifo => kind == EntryKind::Fifo,
        Body::Socket => kind == EntryKind::Socket,
        Body::HardLink(_) => kind != EntryKind::Directory,
    }
}

impl Sink for Applied<'_> {
    fn put(&mut self, node: Node<'_>) -> Result<()> {
        let Node { path, body, mut meta } = node;
        if !self.wants(path) {
            return Ok(());
        }
        if let Body::HardLink(first) = body {
            self.check_link(path, first)?;
        }
        self.left.remove(path);
        let Some(entry) = self.manifest.entries.get(path) else {
            return self.sink.put(Node { path, body, meta });
        };
        let at = || self.manifest.at(entry.line);
        if entry.kind.is_some_and(|kind| !agrees(kind, &body)) {
            let error = Error::new("has another type in the source");
            return Err(error.within(printable(path))).context(at());
        }
        meta.perm = entry.perm.unwrap_or(meta.perm);
        meta.uid = entry.uid.unwrap_or(meta.uid);
        meta.gid = entry.gid.unwrap_or(meta.gid);
        meta.flags = entry.flags.unwrap_or(meta.flags);
        apply_time(entry, &mut meta);
        let rdev = |rdev: Rdev| entry.device.unwrap_or(rdev);
        match body {
            Body::Symlink(target) => {
                let target = entry.link.as_deref().unwrap_or(target);
                self.sink.put(Node { path, body: Body::Symlink(target), meta })
            }
            Body::Device { block, rdev: number } => {
                self.sink.put(Node { path, body: Body::Device { block, rdev: rdev(number) }, meta })
            }
            Body::File { .. } if entry.contents.is_some() => {
                let contents = entry.contents.as_deref().unwrap_or_default();
                let (size, _, mut content) =
                    open_content(Path::new(OsStr::from_bytes(contents))).named(contents).context(at())?;
                self.sink.put(Node { path, body: Body::File { size, content: &mut content }, meta })
            }
            body => self.sink.put(Node { path, body, meta }),
        }
    }

    fn wants(&self, path: &[u8]) -> bool {
        !self.only_listed || self.lists(path)
    }

    fn finish(&mut self) -> Result<()> {
        self.sink.finish()
    }
}
