//! Importing trees, as `spindle import` does: into an open image, or into a new one that is made
//! for them.

use crate::failure::{Failure, Result};
use crate::image::Image;
use crate::make::{make, planned};
use crate::parameters::{Given, Kind};
use crate::work::{Signals, await_last_mount, work};
use pyo3::prelude::*;
use spindle::detect::detect;
use spindle::image::open_device_unlocked;
use spindle::newfs::{Fitted, NewFs, Room, Wanted, clock, is_new, misfits_in, old, plan_to_fit, seed};
use spindle::path::resolve;
use spindle::text::{printable, quoted};
use spindle::transfer::Source as _;
use spindle::transfer::{
    self, Adjust, Adjusted, ImageSink, LocalSource, Manifest, Manifested, Misfit, Names, NewFiles, Original,
    Sink, TarReader, Times, misfits_behind, rehearse,
};
use spindle::{Context, Error, OpenOptions, Spec};
use spindle_clock::{Mutex, Timestamp};
use spindle_vfs::{Error as FsError, Privilege, SetAttr, Vfs};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a tree is imported: the class of this name in Python.
#[derive(FromPyObject)]
pub struct Importing {
    source: PathBuf,
    uid: Option<u32>,
    gid: Option<u32>,
    /// The second of the clock and of the seed.
    timestamp: Option<i64>,
    /// All times are that second; otherwise those that are later.
    all_times: bool,
    manifest: Option<PathBuf>,
    only_listed: bool,
    user_db: Option<PathBuf>,
}

/// How large a new image is to be: the class of this name in Python.
#[derive(FromPyObject)]
pub struct Size {
    /// Bytes; it fits if they are not given.
    bytes: Option<u64>,
    free_bytes: u64,
    free_percent: u16,
    free_inodes: Option<u64>,
    least: u64,
    most: Option<u64>,
    multiple_of: u64,
}

/// A tree and its manifest.
struct Source {
    tree: Tree,
    manifest: Option<Manifest>,
    only_listed: bool,
}

enum Tree {
    Directory(PathBuf),
    Tar(PathBuf),
}

impl Importing {
    fn adjust(&self) -> Adjust {
        let times = match self.timestamp.map(|secs| Timestamp::new(secs, 0)) {
            None => Times::Kept,
            Some(time) if self.all_times => Times::All(time),
            Some(time) => Times::Latest(time),
        };
        Adjust { uid: self.uid, gid: self.gid, times }
    }

    fn source(&self) -> Result<Source> {
        let path = &self.source;
        let found = std::fs::metadata(path).context(path.display())?;
        let tree = match (found.is_dir(), found.is_file()) {
            (true, _) => Tree::Directory(path.clone()),
            (_, true) => Tree::Tar(path.clone()),
            // It could not be walked twice, and its reads could wait forever.
            _ => return Err(Failure::Value(format!("{}: give a directory or a file", path.display()))),
        };
        if self.manifest.is_none() && (self.only_listed || self.user_db.is_some()) {
            return Err(Failure::Value("only_listed and user_db belong to a manifest".into()));
        }
        let manifest = self.manifest.as_ref().map(|path| self.read_manifest(path)).transpose()?;
        Ok(Source { tree, manifest, only_listed: self.only_listed })
    }

    /// Reads a manifest, with the numbers of users from a directory, or from /etc.
    fn read_manifest(&self, path: &Path) -> Result<Manifest> {
        let read = |path: &Path| std::fs::read(path).context(path.display());
        let dir = self.user_db.as_deref().unwrap_or(Path::new("/etc"));
        let master = dir.join("master.passwd");
        let passwd = if self.user_db.is_some() && master.exists() { master } else { dir.join("passwd") };
        let names = Names::parse(&read(&passwd)?, &read(&dir.join("group"))?);
        Ok(Manifest::parse(&path.display().to_string(), &read(path)?, &names)?)
    }

    /// Passes the source to a sink that does not read data.
    fn walk_unread(&self, source: &Source, signals: &Signals, sink: &mut dyn Sink) -> spindle::Result<()> {
        let step = |_| signals.check();
        source.walk(&mut Adjusted::new(sink, self.adjust(), &step), false)
    }

    /// Fills a directory of an image; `strict` means that a time that it cannot store is a failure.
    /// Returns what was left out or changed on the way.
    fn fill(
        &self,
        source: &Source,
        vfs: &Vfs,
        path: &[u8],
        signals: &Signals,
        strict: bool,
    ) -> Result<Vec<(String, String)>> {
        let dir = resolve(vfs, path, true)?;
        if !dir.is_dir() {
            return Err(FsError::NotDirectory.into());
        }
        let failures = Mutex::new(Vec::new());
        let failed = |path: &[u8], error: Error| {
            if error.is(&FsError::ReadOnly) || error.is(&FsError::Interrupted) {
                return Err(error);
            }
            failures.lock().push((source.path_of(path), error.to_string()));
            Ok(())
        };
        let step = |_| signals.check();
        let (uid, gid) = (self.uid.unwrap_or(0), self.gid.unwrap_or(0));
        let new = NewFiles { uid, gid, ..NewFiles::PRESERVED };
        let sink = ImageSink::new(&dir, path, new).past_failures(&failed).strict(strict).without_log();
        let mut sink = Adjusted::new(sink, self.adjust(), &step);
        let walked = source.walk(&mut sink, true);
        // Directories get their permissions and times in any case.
        let finished = sink.finish();
        walked.and(finished)?;
        drop(sink);
        Ok(failures.into_inner())
    }
}

impl Source {
    /// Passes everything to a sink, which reads data or not.
    fn walk(&self, sink: &mut dyn Sink, reads: bool) -> spindle::Result<()> {
        match &self.tree {
            // The data of what a manifest does not list is not read.
            Tree::Directory(path) if reads && self.manifest.is_none() => {
                LocalSource::new(path).ahead().walk(sink)
            }
            Tree::Directory(path) => self.walk_tree(LocalSource::new(path), sink),
            Tree::Tar(path) => {
                let reader = File::open(path).map(TarReader::seekable).context(path.display())?;
                self.walk_tree(reader, sink).context(path.display())
            }
        }
    }

    fn walk_tree<S: transfer::Source>(&self, source: S, sink: &mut dyn Sink) -> spindle::Result<()> {
        match &self.manifest {
            Some(manifest) => {
                Manifested { source: Some(source), manifest, only_listed: self.only_listed }.walk(sink)
            }
            None => source.walk(sink),
        }
    }

    /// Returns the place in the source of a path of the transfer, for messages.
    fn path_of(&self, path: &[u8]) -> String {
        match &self.tree {
            Tree::Directory(dir) => quoted(dir.join(OsStr::from_bytes(path)).as_os_str().as_bytes()),
            Tree::Tar(file) => format!("{}: {}", file.display(), printable(path)),
        }
    }

    /// Returns the failure for files that the format cannot store.
    fn misfits(&self, misfits: Vec<Misfit>, name: &impl std::fmt::Display) -> Failure {
        let texts =
            misfits.into_iter().map(|Misfit { path, error }| (self.path_of(&path), error.to_string()));
        Failure::Misfits(name.to_string(), texts.collect())
    }
}

/// Imports a tree into a directory of an open image. Returns what was left out or changed on the
/// way: each path, and why.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "it comes from Python")]
pub fn import_into(
    py: Python<'_>,
    image: &Image,
    path: &[u8],
    importing: Importing,
) -> PyResult<Vec<(String, String)>> {
    work(py, |signals| {
        let open = image.open()?;
        let source = importing.source()?;
        let found = detect(&*open_device_unlocked(&open.spec)?)?;
        let walk = |sink: &mut dyn Sink| importing.walk_unread(&source, signals, sink);
        let place = |path: &[u8]| source.path_of(path);
        let original = Original { walk: &walk, step: &|_| signals.check(), place: &place };
        let misfits = misfits_in(&found, original)?;
        if !misfits.is_empty() {
            return Err(source.misfits(misfits, &open.spec));
        }
        importing.fill(&source, &open.vfs, path, signals, false)
    })
}

/// Imports a tree into a new file system in `image`. Returns what was left out or changed on the
/// way.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "they come from Python")]
pub fn import_new(
    py: Python<'_>,
    image: &str,
    importing: Importing,
    size: Size,
    parameters: Given,
    force: bool,
) -> PyResult<Vec<(String, String)>> {
    work(py, |signals| {
        let spec = Spec::parse(image)?;
        await_last_mount(&spec, signals)?;
        let source = importing.source()?;
        let strict = is_new(&spec);
        let plan = plan(&importing, &source, &size, &parameters, &spec, signals, strict)?;
        let created = make(&spec, &plan, importing.timestamp, force, signals)?;
        let fill = || -> Result<Vec<(String, String)>> {
            let options = OpenOptions {
                clock: clock(importing.timestamp),
                seed: seed(importing.timestamp),
                ..OpenOptions::read_write()
            };
            let image = spindle::Image::open(&spec, &options)?;
            let vfs = image.vfs();
            let failures = importing.fill(&source, &vfs, b"/", signals, strict)?;
            if let Some((uid, gid)) = parameters.root_owner() {
                // The source's root has an owner of its own.
                let set = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
                vfs.fs().setattr(vfs.root(), &set, Privilege::Root)?;
            }
            drop(vfs);
            image.unmount().context(&spec)?;
            Ok(failures)
        };
        fill().map_err(|failure| {
            created.undo_written();
            if let (true, Failure::Library(error)) = (strict, &failure) {
                let walk = |sink: &mut dyn Sink| importing.walk_unread(&source, signals, sink);
                let misfits = misfits_behind(error, &plan, importing.timestamp, &walk);
                if !misfits.is_empty() {
                    return source.misfits(misfits, &spec);
                }
            }
            failure
        })
    })
}

/// Returns the plan of a new file system that holds the source. One of a given size that gets a new
/// file is not tried out.
fn plan(
    importing: &Importing,
    source: &Source,
    size: &Size,
    parameters: &Given,
    spec: &Spec,
    signals: &Arc<Signals>,
    is_new: bool,
) -> Result<NewFs> {
    let kind = parameters.kind()?;
    let least = parameters.ffs(0, false)?;
    let ffs = |size_bytes| spindle::Parameters { size_bytes, ..least.clone() };
    let format = if let Kind::Old(format) = kind { format } else { spindle_v7::Format::V7 };
    let old = |size_bytes| old::Parameters { root_owner: (0, 0), ..parameters.old(format, size_bytes) };
    let walk = |sink: &mut dyn Sink| importing.walk_unread(source, signals, sink);
    let Some(bytes) = size.bytes else {
        let wanted = match kind {
            Kind::Ffs => Wanted::Ffs(&ffs),
            Kind::Old(_) => Wanted::Old(&old),
        };
        let room = Room {
            free_bytes: size.free_bytes,
            free_percent: size.free_percent,
            free_inodes: size.free_inodes,
            free_inodes_percent: None,
            min_bytes: size.least,
            max_bytes: size.most,
            multiple_of: size.multiple_of.max(1),
        };
        let place = |path: &[u8]| source.path_of(path);
        let original = Original { walk: &walk, step: &|_| signals.check(), place: &place };
        return match plan_to_fit(wanted, &room, importing.timestamp, original).context(spec)? {
            Fitted::Plan(plan, _) => Ok(plan),
            Fitted::Misfits(misfits) => Err(source.misfits(misfits, spec)),
        };
    };
    let plan = match kind {
        Kind::Ffs => NewFs::Ffs(Box::new(planned(&ffs(bytes))?)),
        Kind::Old(_) => NewFs::Old(old::Plan::new(&old(bytes)).context(spec)?),
    };
    if is_new {
        return Ok(plan);
    }
    let rehearsed = rehearse(&plan, importing.timestamp, &walk)?;
    if !rehearsed.misfits.is_empty() {
        return Err(source.misfits(rehearsed.misfits, spec));
    }
    match rehearsed.used {
        Some(_) => Ok(plan),
        None => Err(Error::from(FsError::NoSpace).within(spec).into()),
    }
}
