//! `spindle restore`

mod session;

use super::debug::commands as words_of;
use crate::caller::Caller;
use crate::date;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Failures, WriteArgs};
use crate::interrupt;
use crate::listing::Names as Shown;
use crate::logger;
use crate::output::Output;
use crate::progress::Progress;
use crate::target::{ImagePath, Target};
use crate::volumes::{Names as VolumeNames, ask};
use rustix::fs::OFlags;
use session::{Next, Session};
use spindle::dump::Stamp;
use spindle::path::{resolve, sorted_names};
use spindle::restore::{
    Compared, Destination, Discarded, MoreVolumes, Names, OnlyDirectories, Place, Report, Restore, Stream,
};
use spindle::transfer::{Adjust, Adjusted, Body, ImageSink, LocalSink, NewFiles, Node, Sink};
use spindle_ffs::{Dialect, LOG_NAME};
use spindle_vfs::Vfs;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List or restore dumps, as restore(8)
///
/// The dumps of the BSDs since 4.2BSD are read, in either byte order, and those of Linux's dump for
/// ext2 and its successors, unless it has compressed them. A dump of a higher level is restored
/// together with those that it is based on: each has its own -f, level 0 first. They are put
/// together into the tree that the last one had, so that every file is written once, and nothing
/// that was removed in between; restoresymtable is neither needed nor made.
///
/// What is damaged or missing in a dump is listed with the number of its record, and everything
/// else is restored; the exit code is then 1. Files that no directory names get their inode number
/// as a name, as #123. Data have no checksum: wrong bytes within them are not noticed.
///
/// Owners, device nodes and set-id bits are restored as by export: owners only by root. An image
/// also gets the file flags and the times of creation.
///
/// -C writes nothing: it lists what differs between the dump and the directory or image that --to
/// names, and exits with 1 if anything does. Compared are the kind, permissions, owners, size,
/// data and last change of each file, targets of links, device numbers, extended attributes of
/// users and access control lists. What the dump does not have is not looked at.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    group = clap::ArgGroup::new("task").required(true),
    after_long_help = "COMMANDS OF A SESSION (-i)
    ls [PATH]; cd [PATH]; pwd  look around; * marks what is chosen
    add [PATH...]              choose files, with everything below directories
    delete [PATH...]           no longer choose them
    extract                    extract what is chosen
    setmodes                   give directories that are chosen their attributes
    what; verbose              what the dump says of itself; more in lists
    help; quit

    Names can be patterns, in quotes, and cut commands do. Without a terminal the
    commands come from standard input, and the first that fails ends them.

EXAMPLES
    spindle restore -t -f home.0
    spindle restore -x -f home.0 --to saved home/alice/letters
    spindle restore -i -f home.0 --to saved
    spindle restore -C -f home.0 --to /home
    mkdir all && spindle restore -r -f home.0 -f home.1 --to all
    spindle newfs -s 1g new.img && spindle restore -r -f home.0 --to new.img
    spindle restore -x -M -f home.0. --to saved
    spindle restore -x -f /mnt/a/home,/mnt/b/home --to saved
    zstd -dc disk.dump.zst | spindle restore -r -f - --to new.img"
)]
pub struct Args {
    /// List the names in the dump, with their inodes
    ///
    /// Only the directories are read.
    #[arg(short = 't', group = "task")]
    list: bool,
    /// Extract files and directories, with everything below them; all without a NAME
    ///
    /// Existing files are replaced, and existing directories filled.
    #[arg(short = 'x', group = "task")]
    extract: bool,
    /// Restore everything into an empty directory or image
    #[arg(short = 'r', group = "task", conflicts_with = "names")]
    rebuild: bool,
    /// Choose files in a session, and extract them
    #[arg(short = 'i', group = "task", conflicts_with_all = ["names", "names_from"])]
    interactive: bool,
    /// Compare the dump with what is in its place
    #[arg(short = 'C', group = "task")]
    compare: bool,
    /// Read what would be restored, and write nothing
    #[arg(short = 'N')]
    dry: bool,
    /// Take directories without what is below them
    #[arg(short = 'h')]
    only_itself: bool,
    /// Read further names from a file, one on each line; - for standard input
    #[arg(short = 'X', value_name = "FILE", conflicts_with = "rebuild")]
    names_from: Vec<PathBuf>,
    /// A dump; - for standard input; A,B,C for the volumes of one. For a dump of a higher level
    /// give -f several times, level 0 first
    #[arg(short = 'f', value_name = "FILE[,FILE...]", required = true)]
    files: Vec<PathBuf>,
    /// Read volumes whose names are as -f with 001, 002 and so on behind it
    #[arg(short = 'M')]
    prefix: bool,
    /// The directory to restore into, which is made if it does not exist, or a directory in an
    /// image
    #[arg(long, value_name = "DIR|IMAGE[:/PATH]", default_value = ".")]
    to: OsString,
    /// The system that made the dump: freebsd, netbsd, openbsd, sun, 44bsd, 43bsd
    ///
    /// Only needed for device nodes with large numbers, which each system divides in its own way.
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Dialect>)]
    dialect: Option<Dialect>,
    #[command(flatten)]
    write: WriteArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// Paths in the dump
    #[arg(value_name = "NAME")]
    names: Vec<OsString>,
}

/// The names that a new file system may have in its root directory.
pub(super) const NEW: [&[u8]; 3] = [b"lost+found", b".snap", LOG_NAME];

/// What is damaged or missing in dumps: each is a message on standard error, and makes the command
/// fail in the end.
#[derive(Debug, Default)]
struct Damages(Cell<usize>);

impl Damages {
    fn add(&self, error: &spindle::Error) {
        self.0.set(self.0.get() + 1);
        logger::error(error);
    }

    /// Fails if there were any.
    fn check(&self) -> Result<()> {
        match self.0.get() {
            0 => Ok(()),
            1 => Err(Failure::new("1 thing in the dump is damaged or missing, as said above")),
            count => {
                Err(Failure::new(format!("{count} things in the dump are damaged or missing, as said above")))
            }
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let inputs = args.files.iter().chain(&args.names_from).filter(|file| file.as_os_str() == "-").count();
    if inputs > 1 {
        return Err(Failure::usage("standard input can be one of the dumps only, or the names"));
    }
    if inputs > 0 && args.interactive {
        return Err(Failure::usage("-i reads commands from standard input: name the file of the dump"));
    }
    let wanted = wanted(args)?;
    let damages = Damages::default();
    let report = |error: spindle::Error| damages.add(&error);
    let failures = Failures::default();
    let verbose = Cell::new(log::log_enabled!(log::Level::Info));
    let task = Task { args, report: &report, failures: &failures, verbose };
    if args.interactive {
        interact(&task)?;
    } else if args.list {
        let restore = open_all(args, &report)?;
        let mut out = Output::stdout();
        restore.stamps().try_for_each(|stamp| describe(&mut out, stamp))?;
        list(&wanted, &restore, &mut out)?;
        out.finish()?;
        match restore.unnamed() {
            0 => {}
            count => damages.add(&spindle::Error::new(format!("no directory names {count} of the inodes"))),
        }
    } else {
        let mut restore = open_all(args, &report)?;
        let how = match (args.compare, args.dry) {
            (true, _) => How::Compare,
            (false, true) => How::Read,
            (false, false) => How::Write,
        };
        task.run(&mut restore, &wanted, how)?;
    }
    damages.check()?;
    Ok(failures.exit_code())
}

/// Returns the names that are wanted.
fn wanted(args: &Args) -> Result<Names> {
    let mut names: Vec<Vec<u8>> = args.names.iter().map(|name| name.as_bytes().to_vec()).collect();
    for file in &args.names_from {
        let (name, mut input) = open(file)?;
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes).context(&name)?;
        let lines: Vec<_> = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect();
        if lines.is_empty() && names.is_empty() {
            return Err(Failure::new("has no names")).context(&name);
        }
        names.extend(lines.into_iter().map(<[u8]>::to_vec));
    }
    Ok(if args.only_itself { Names::exactly(names) } else { Names::new(names) })
}

/// Opens the dumps, and puts them together.
fn open_all<'a>(args: &Args, report: Report<'_>) -> Result<Restore<'a>> {
    let mut streams = Vec::new();
    for file in &args.files {
        let names = VolumeNames::new(file, args.prefix)?;
        let (name, input) = open(&names.get(1).unwrap_or_default())?;
        let more: MoreVolumes<'_> = Box::new(move |number| next_volume(&names, number));
        streams.push(Stream::open(&name, input, Some(more), report)?);
    }
    check_chain(args, &streams)?;
    Ok(Restore::new(streams, report)?)
}

/// Runs the commands of a session.
fn interact(task: &Task<'_>) -> Result<()> {
    let args = task.args;
    let first = open_all(args, task.report)?;
    let stamps: Vec<Stamp> = first.stamps().cloned().collect();
    let mut session = Session::new(first.list(), args.only_itself, task.verbose.get());
    // What was extracted from is read again for the next extraction.
    let mut opened = Some(first);
    let asks = io::stdin().is_terminal();
    let mut input = BufReader::new(interrupt::Reader(io::stdin()));
    let mut number = 0;
    loop {
        if asks {
            let mut stderr = io::stderr();
            let _ = write!(stderr, "restore > ").and_then(|()| stderr.flush());
        }
        let mut line = String::new();
        if input.read_line(&mut line).context("standard input")? == 0 {
            return Ok(());
        }
        number += 1;
        let mut work = || -> Result<bool> {
            for words in words_of(&line)? {
                let mut out = Output::stdout();
                let next = session.run(&words, &mut out);
                out.finish()?;
                match next? {
                    Next::Command => {}
                    Next::Quit => return Ok(false),
                    Next::What => {
                        let mut out = Output::stdout();
                        stamps.iter().try_for_each(|stamp| describe(&mut out, stamp))?;
                        out.finish()?;
                    }
                    next @ (Next::Extract | Next::SetModes) => {
                        if session.chosen().is_empty() {
                            return Err(Failure::new("nothing is chosen; add names first"));
                        }
                        let mut restore = match opened.take() {
                            Some(restore) => restore,
                            None => open_all(args, task.report)?,
                        };
                        task.verbose.set(session.verbose);
                        let how = match next {
                            _ if args.dry => How::Read,
                            Next::SetModes => How::SetModes,
                            _ => How::Write,
                        };
                        task.run(&mut restore, &Names::Exactly(session.chosen().clone()), how)?;
                        if how != How::SetModes {
                            session.clear();
                        }
                    }
                }
            }
            Ok(true)
        };
        match work() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure @ Failure::Message { .. }) if asks => logger::failure(&failure),
            Err(failure) => return Err(failure).context(format_args!("line {number}")),
        }
    }
}

/// Opens a dump. Returns what messages call it, and what it is read from.
fn open(path: &Path) -> Result<(String, Box<dyn Read>)> {
    if path == Path::new("-") {
        let stdin = io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
        let input = interrupt::Reader(File::from(stdin));
        return Ok(("standard input".into(), Box::new(BufReader::with_capacity(1 << 20, input))));
    }
    // A named pipe is opened at once, and its reads wait for a writer and can be interrupted.
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = file.context(path.display())?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).context(path.display())?;
    let input = BufReader::with_capacity(1 << 20, interrupt::Reader(file));
    Ok((path.display().to_string(), Box::new(input)))
}

/// Opens the volume of a dump with this number, from 2. Asks for it on a terminal if it has no
/// name. Returns none if there is no other.
fn next_volume(names: &VolumeNames, number: i32) -> io::Result<Option<Box<dyn Read>>> {
    let opened = |path: &Path| open(path).map(|(_, input)| input);
    if let Some(name) = names.get(number) {
        let is_missing = name.symlink_metadata().is_err();
        // Behind the last number there is nothing.
        if is_missing && matches!(names, VolumeNames::Prefix(_)) {
            return Ok(None);
        }
        return opened(&name).map(Some).map_err(|failure| io::Error::other(failure.into_error()));
    }
    let dump = names.get(1).unwrap_or_default();
    loop {
        let question = format!("{}: ends; the name of volume {number}, or none:", dump.display());
        match ask(&question)?.as_deref() {
            None | Some("none") => return Ok(None),
            Some("") => {}
            Some(name) => match opened(Path::new(name)) {
                Ok(input) => return Ok(Some(input)),
                Err(failure) => logger::failure(&failure),
            },
        }
    }
}

/// Fails if the dumps are not based on each other.
fn check_chain(args: &Args, streams: &[Stream<'_>]) -> Result<()> {
    let is_whole = args.rebuild || streams.len() > 1;
    let Some(at) = Restore::gap(streams, is_whole) else { return Ok(()) };
    let stamp = streams[at].stamp();
    let wanted = match stamp.ddate {
        0 => "has everything: it is the first of a chain, without others before it".to_owned(),
        ddate => format!(
            "has what has changed since {}: give the dump of that date before it, and level 0 first",
            date::second(ddate)
        ),
    };
    Err(Failure::new(format!("is of level {} and {wanted}", stamp.level))).context(args.files[at].display())
}

/// Prints what a dump says of itself.
fn describe(out: &mut Output, stamp: &Stamp) -> Result<()> {
    let since = match stamp.ddate {
        0 => "the epoch".to_owned(),
        ddate => date::ctime(ddate),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    out.line(format!("Dump   date: {}", date::ctime(stamp.date)))?;
    out.line(format!("Dumped from: {since}"))?;
    let (filesys, host, device) = (text(&stamp.filesys), text(&stamp.host), text(&stamp.device));
    out.line(format!("Level {} dump of {filesys} on {host}:{device}", stamp.level))?;
    out.line(format!("Label: {}", text(&stamp.label)))
}

/// Prints the names in a dump.
fn list(chosen: &Names, restore: &Restore<'_>, out: &mut Output) -> Result<()> {
    let shown = Shown::for_stdout();
    let mut found = Vec::new();
    for listed in restore.list().filter(|listed| chosen.has(&listed.path)) {
        let path = if listed.path.is_empty() { b".".to_vec() } else { [b"./", &listed.path[..]].concat() };
        // Neither form of a name has control characters.
        out.bytes(format!("{:>10}\t{}\n", listed.ino, shown.show(&path)).as_bytes())?;
        found.push(listed.path);
    }
    let missing = chosen.iter().find(|name| !found.iter().any(|path| path == name));
    match missing {
        Some(name) => Err(Failure::new("is not in the dump")).named(name),
        None => Ok(()),
    }
}

/// What is done with the files of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// They are written.
    Write,
    /// Directories that are there get their attributes.
    SetModes,
    /// They are read.
    Read,
    /// They are compared with those that are there.
    Compare,
}

/// A restore of files.
struct Task<'a> {
    args: &'a Args,
    report: &'a dyn Fn(spindle::Error),
    failures: &'a Failures,
    /// The names of files are printed.
    verbose: Cell<bool>,
}

/// Is called with what fails of a file.
type Failed<'f> = &'f dyn Fn(&[u8], spindle::Error) -> spindle::Result<()>;

impl Task<'_> {
    /// Restores, reads or compares files.
    fn run(&self, restore: &mut Restore<'_>, names: &Names, how: How) -> Result<()> {
        if how == How::Read {
            let failed = |path: &[u8], error| self.failures.add_file(path, error);
            return self.extract(restore, names, &mut Discarded, &failed);
        }
        let to = Path::new(&self.args.to);
        let is_new = to.symlink_metadata().is_err() && how == How::Write;
        if to.is_dir() || is_new && Target::parse(&self.args.to) == Target::Local(to.into()) {
            Target::check_local(to)?;
            if how == How::Compare {
                let inside =
                    |path: &[u8]| to.join(OsStr::from_bytes(path)).into_os_string().into_encoded_bytes();
                return self.compare(restore, names, Place::Local(to), &inside);
            }
            return self.to_directory(restore, names, to, how);
        }
        let target = Target::in_image(&self.args.to)?;
        if how == How::Compare {
            return image::run(&target.image, &spindle::OpenOptions::read_only(), |vfs| {
                let place = Place::Image(vfs, &target.path);
                self.compare(restore, names, place, &|path| inside(&target, path))
            });
        }
        image::change(&target.image, self.args.write, |vfs| {
            self.to_image(restore, names, vfs, &target, how).context(&target.image)
        })
    }

    /// Lists what differs from the files of a place.
    fn compare(
        &self,
        restore: &mut Restore<'_>,
        names: &Names,
        place: Place<'_>,
        inside: &dyn Fn(&[u8]) -> Vec<u8>,
    ) -> Result<()> {
        let failed = |path: &[u8], error| self.failures.add_file(&inside(path), error);
        let differs = |path: &[u8], error| {
            // Directories that lead to what is wanted come as well. It goes on in any case: what
            // ends a command is noticed by the next step.
            if names.has(path) {
                let _ = failed(path, error);
            }
        };
        self.extract(restore, names, &mut Compared::new(place, &differs), &failed)
    }

    /// Restores into a directory of this machine.
    fn to_directory(&self, restore: &mut Restore<'_>, names: &Names, dir: &Path, how: How) -> Result<()> {
        std::fs::create_dir_all(dir).context(dir.display())?;
        let entries = std::fs::read_dir(dir).context(dir.display())?;
        let there: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        self.check_empty(there.context(dir.display())?).context(dir.display())?;
        let failed = |path: &[u8], error| {
            let place = dir.join(OsStr::from_bytes(path));
            self.failures.add_file(place.as_os_str().as_bytes(), error)
        };
        let umask = Caller::find().umask;
        let mut sink = LocalSink::new(dir, true, umask)?.past_failures(&failed);
        self.fill(restore, names, &mut sink, Place::Local(dir), how, &failed)
    }

    /// Restores into a directory of an image.
    fn to_image(
        &self,
        restore: &mut Restore<'_>,
        names: &Names,
        vfs: &Vfs,
        to: &ImagePath,
        how: How,
    ) -> Result<()> {
        let dir = resolve(vfs, &to.path, true)?;
        if !dir.is_dir() {
            return Err(spindle_vfs::Error::NotDirectory).named(&to.path);
        }
        let there = sorted_names(vfs, dir.ino())?;
        self.check_empty(there.iter().map(|name| OsStr::from_bytes(name))).named(&to.path)?;
        let failed = |path: &[u8], error| self.failures.add_file(&inside(to, path), error);
        let mut sink = ImageSink::new(&dir, &to.path, NewFiles::PRESERVED).past_failures(&failed);
        self.fill(restore, names, &mut sink, Place::Image(vfs, &to.path), how, &failed)
    }

    /// Fills a target, or gives its directories their attributes.
    fn fill(
        &self,
        restore: &mut Restore<'_>,
        names: &Names,
        sink: &mut dyn Sink,
        place: Place<'_>,
        how: How,
        failed: Failed<'_>,
    ) -> Result<()> {
        if how == How::SetModes {
            return self.extract(restore, names, &mut OnlyDirectories::new(place, sink), failed);
        }
        self.extract(restore, names, sink, failed)
    }

    /// Fails if everything is to be restored into a directory that has files already.
    fn check_empty(&self, names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<()> {
        let is_old = |name: &[u8]| !NEW.contains(&name);
        if self.args.rebuild && names.into_iter().any(|name| is_old(name.as_ref().as_bytes())) {
            return Err(Failure::new(
                "is not empty; restore a whole dump into an empty directory, or use -x",
            ));
        }
        Ok(())
    }

    fn extract(
        &self,
        restore: &mut Restore<'_>,
        names: &Names,
        sink: &mut dyn Sink,
        failed: Failed<'_>,
    ) -> Result<()> {
        let progress = Progress::new("restoring", None);
        let step = |bytes| progress.step(bytes);
        let mut named = Named { sink: &mut *sink, shown: self.verbose.get().then(Shown::for_stdout) };
        let mut counted = Adjusted::new(&mut named, Adjust::default(), &step);
        let to = Destination { sink: &mut counted, failed, report: self.report, dialect: self.args.dialect };
        let done = restore.extract(names, to);
        // Directories get their permissions and times in any case.
        let finished = sink.finish();
        let restored = done?;
        finished?;
        if restored.absent > 0 && self.args.rebuild {
            logger::note(format_args!(
                "{} to files that are not in the dump, as those with the flag nodump",
                if restored.absent == 1 {
                    "1 name belongs".into()
                } else {
                    format!("{} names belong", restored.absent)
                }
            ));
        }
        Ok(())
    }
}

/// Returns the path in an image of a path below a directory in it.
fn inside(to: &ImagePath, path: &[u8]) -> Vec<u8> {
    [to.path.strip_suffix(b"/").unwrap_or(&to.path), b"/", path].concat()
}

/// A target that prints the names of the files that come, if they are to be shown.
struct Named<'s> {
    sink: &'s mut dyn Sink,
    shown: Option<Shown>,
}

impl Sink for Named<'_> {
    fn put(&mut self, node: Node<'_>) -> spindle::Result<()> {
        if let Some(shown) = self.shown.filter(|_| !matches!(node.body, Body::Directory)) {
            let mut out = Output::stdout();
            let line = format!("x ./{}", shown.show(node.path));
            out.line(line).and_then(|()| out.finish()).map_err(Failure::into_error)?;
        }
        self.sink.put(node)
    }

    fn finish(&mut self) -> spindle::Result<()> {
        self.sink.finish()
    }
}
