//! `spindle cp`

mod picked;

use crate::caller::Caller;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Failures, Losses, ReadArgs, WriteArgs};
use crate::interrupt;
use crate::logger;
use crate::outfile::{image_at, overwrite_in_place};
use crate::output::Output;
use crate::progress::Progress;
use crate::target::{ImagePath, Target};
use crate::text::quoted;
use picked::{Copied, Exists, Picked};
use spindle::Spec;
use spindle::path::{child, resolve, resolve_parent};
use spindle::transfer::{
    Adjust, Adjusted, Asked, Failed, Follow, ImageSink, ImageSource, LocalSink, LocalSource, NewFiles,
    PastFailures, Place, Sink, Source, split,
};
use spindle_ffs::LOG_NAME;
use spindle_vfs::{Error, Node, Vfs};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

/// Copy files into, out of, within and between images
///
/// Each source and the target is a path of this machine or IMAGE:/PATH. A copy into a directory
/// keeps the name. Existing files are replaced, existing directories are filled; in an image, the
/// old file stays if the new one cannot be made, unless it has to make room for it. A target that
/// you name on the command line is followed if it is a symbolic link, and written if it is a device
/// or a pipe. An image without :/PATH is overwritten only with --force. Sparse files stay sparse.
/// Without -p the copies belong to you, with the permissions that your umask allows. A SOURCE that
/// is a symbolic link is followed, unless -P is given; links below it are copied as links, unless
/// -L is given. -v (see below) prints the name of each copy.
///
/// With -L, a symbolic link that leads nowhere, in a circle, or to a directory that it is in is
/// listed on standard error and left out. In an image, links lead to files of the image.
///
/// What cannot be copied is listed on standard error, and copying goes on, unless the target is
/// full or fails: a file, directory or attribute is left out, and zeros stand in place of what
/// cannot be read of a file in a damaged image. Files of an image that claim the same space are
/// copied and named: one of them has contents of the other. The exit code is then 1.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle cp -r src disk.img:/usr
    spindle cp disk.img@s1a:/etc/fstab .
    spindle cp -a old.img:/home new.img:/")]
pub struct Args {
    /// Copy directories with everything below them; keep hard links within them
    #[arg(short = 'r', short_alias = 'R')]
    recursive: bool,
    /// Keep owners, permissions, times, extended attributes and, in images, file flags
    #[arg(short = 'p')]
    preserve: bool,
    /// Copy everything as it is: -r, -p and, without -H and -L, -P
    #[arg(short = 'a')]
    archive: bool,
    /// Follow symbolic links named on the command line (the default without -a)
    #[arg(short = 'H', overrides_with_all = ["follow_named", "follow_all", "no_follow"])]
    follow_named: bool,
    /// Follow all symbolic links
    #[arg(short = 'L', overrides_with_all = ["follow_named", "follow_all", "no_follow"])]
    follow_all: bool,
    /// Copy symbolic links as links, also those named on the command line
    #[arg(short = 'P', overrides_with_all = ["follow_named", "follow_all", "no_follow"])]
    no_follow: bool,
    /// Keep existing files
    #[arg(short = 'n')]
    keep: bool,
    /// Replace existing files that cannot be written; they always are
    #[arg(short = 'f', conflicts_with = "keep")]
    _replace: bool,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// The files to copy
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<OsString>,
    /// The name of the copy, or a directory for the copies
    #[arg(value_name = "TARGET", required = true)]
    target: OsString,
}

impl Args {
    const fn recursive(&self) -> bool {
        self.recursive || self.archive
    }

    const fn preserve(&self) -> bool {
        self.preserve || self.archive
    }

    /// Returns which symbolic links are followed.
    const fn follow(&self) -> Follow {
        if self.follow_all {
            Follow::All
        } else if self.no_follow || self.archive && !self.follow_named {
            Follow::Never
        } else {
            Follow::Named
        }
    }
}

/// What `-p` asks for; without it no attributes are copied.
const ALL: Asked = Asked { xattrs: true, flags: true };

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let caller = Caller::find();
    let messages = Messages::default();
    let sources: Vec<Target> = args.sources.iter().map(|word| Target::parse(word)).collect();
    match Target::parse(&args.target) {
        Target::Local(path) => {
            Target::check_local(&path)?;
            to_local(args, &sources, &path, &caller, &messages)?;
        }
        Target::Inside(to) => {
            // Sources in the same image are read from the same open file system.
            image::change(&to.image, args.write, |vfs| {
                to_image(args, &sources, vfs, &to, &caller, &messages)
            })?;
        }
    }
    messages.losses.check()?;
    Ok(messages.failures.exit_code())
}

/// What was said of files that are not copied, or not wholly.
#[derive(Default)]
struct Messages {
    /// What cannot be read.
    losses: Losses,
    /// Operands that fail, and what cannot be made in the target.
    failures: Failures,
}

/// Returns a path without trailing slashes.
fn trimmed(path: &[u8]) -> &[u8] {
    &path[..path.len() - path.iter().rev().take_while(|&&b| b == b'/').count()]
}

/// Returns the name of the copy of `source` in a directory; an empty one if the content of a root
/// directory, or of one that is named by `.` or `..`, is to be copied into it.
fn name_of(source: &Target) -> Result<Vec<u8>> {
    match source {
        Target::Local(path) => {
            let name = match path.file_name() {
                Some(name) => name.to_owned(),
                // Such as `.` and `..`.
                None => {
                    path.canonicalize().context(path.display())?.file_name().unwrap_or_default().to_owned()
                }
            };
            Ok(name.as_bytes().to_vec())
        }
        Target::Inside(inside) => {
            let name = split(trimmed(&inside.path)).1;
            Ok(if name == b"." || name == b".." { Vec::new() } else { name.to_vec() })
        }
    }
}

fn to_local(
    args: &Args,
    sources: &[Target],
    path: &Path,
    caller: &Caller,
    messages: &Messages,
) -> Result<()> {
    let into = path.is_dir();
    if !into && sources.len() > 1 {
        return Err(Failure::new("to copy several files, name a directory as the target"))
            .context(path.display());
    }
    let shown_parent = if into { path } else { path.parent().unwrap_or(path) };
    let parent = if shown_parent.as_os_str().is_empty() { Path::new(".") } else { shown_parent };
    let failed = |path: &[u8], error| {
        let place = shown_parent.join(OsStr::from_bytes(path));
        messages.failures.add_file(place.as_os_str().as_bytes(), error)
    };
    let sink = LocalSink::new(parent, args.preserve(), caller.umask)?.writing_in_place(overwrite_in_place);
    let mut sink = sink.past_failures(&failed).asking_for(ALL);
    let copied = each(sources, messages, |source| {
        let name = match path.file_name() {
            Some(name) if !into => name.as_bytes().to_vec(),
            _ => name_of(source)?,
        };
        let copy = if into { path.join(OsStr::from_bytes(&name)) } else { path.to_owned() };
        check_target(args, source, &copy)?;
        let exists = |path: &[u8]| Ok(parent.join(OsStr::from_bytes(path)).symlink_metadata().is_ok());
        let copied = |path: &[u8]| report(source, &name, copy.as_os_str().as_bytes(), path);
        let sink = picked(args, &mut sink, &exists, &copied);
        let place = |path: &[u8]| quoted(shown_parent.join(OsStr::from_bytes(path)).as_os_str().as_bytes());
        send(args, source, &Destination::Local(&copy), &name, sink, (&failed, &place, messages))
    });
    // Directories get their permissions and times in any case.
    let finished = sink.finish();
    copied?;
    Ok(finished?)
}

/// Copies the sources one after the other, also after one that fails.
fn each(sources: &[Target], messages: &Messages, mut copy: impl FnMut(&Target) -> Result<()>) -> Result<()> {
    for source in sources {
        interrupt::check()?;
        let checked = if let Target::Local(path) = source { Target::check_local(path) } else { Ok(()) };
        messages.failures.unless(checked.and_then(|()| copy(source)))?;
    }
    Ok(())
}

/// Refuses to overwrite an image, which happens when a colon is forgotten, or the source.
fn check_target(args: &Args, source: &Target, path: &Path) -> Result<()> {
    let shown = path.display();
    let from = match source {
        Target::Local(path) => path.clone(),
        Target::Inside(inside) => Spec::parse(&inside.image)?.path,
    };
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(from), Ok(to)) = (from.metadata(), path.metadata())
        && !to.is_dir()
        && same(&from, &to)
    {
        return Err(Failure::new(format!("{shown}: source and target are the same file")));
    }
    match image_at(path).context(&shown)? {
        Some(found) if !args.write.force => Err(Failure::new(format!(
            "{shown}: contains {found}, which the copy would overwrite; \
             name {shown}:/ to copy into it, or use --force"
        ))),
        _ => Ok(()),
    }
}

fn to_image(
    args: &Args,
    sources: &[Target],
    vfs: &Vfs,
    to: &ImagePath,
    caller: &Caller,
    messages: &Messages,
) -> Result<()> {
    let image = &to.image;
    let new = NewFiles { preserve: args.preserve(), uid: caller.uid, gid: caller.gid, umask: caller.umask };
    let existing = match resolve(vfs, &to.path, true) {
        Ok(node) => Some(node),
        Err(e) if e.is(&Error::NotFound) => None,
        Err(e) => return Err(e).context(image),
    };
    // A file that is replaced is not held: its space may be wanted.
    let (dir, name) = if let Some(dir) = existing.filter(Node::is_dir) {
        (dir, None)
    } else {
        let (dir, name) = resolve_parent(vfs, &to.path).context(image)?;
        (dir, Some(name.to_vec()))
    };
    if name.is_some() && sources.len() > 1 {
        let error = Failure::new("to copy several files, name a directory as the target");
        return Err(error).named(&to.path).context(image);
    }
    let dir_path = if name.is_some() { split(trimmed(&to.path)).0 } else { &to.path };
    let inside = |path: &[u8]| [dir_path.strip_suffix(b"/").unwrap_or(dir_path), b"/", path].concat();
    let failed = |path: &[u8], error: spindle::Error| {
        let error = error.within(quoted(&inside(path))).within(image);
        messages.failures.add(error).map_err(Failure::into_error)
    };
    let mut sink = ImageSink::new(&dir, dir_path, new).past_failures(&failed).asking_for(ALL);
    let copied = each(sources, messages, |source| {
        let name = match &name {
            Some(name) => name.clone(),
            None => name_of(source)?,
        };
        if name == LOG_NAME && dir.ino() == vfs.fs().root() {
            return Err(Failure::new("is the name of the log of a file system; give the copy another name"))
                .named(&inside(&name))
                .context(image);
        }
        let exists = |path: &[u8]| match resolve(vfs, &inside(path), false) {
            Ok(_) => Ok(true),
            Err(e) if e.is(&Error::NotFound) || e.is(&Error::NotDirectory) => Ok(false),
            Err(e) => Err(e),
        };
        let copy = [to.image.as_bytes(), b":", &inside(&name)].concat();
        let copied = |path: &[u8]| report(source, &name, &copy, path);
        let sink = picked(args, &mut sink, &exists, &copied);
        let destination = Destination::Inside(image, &dir);
        let place = |path: &[u8]| quoted(&[image.as_bytes(), b":", &inside(path)].concat());
        send(args, source, &destination, &name, sink, (&failed, &place, messages))
    });
    let finished = sink.finish().context(image);
    copied?;
    finished
}

/// Returns a sink that keeps existing files with `-n`, and prints the copies with `-v`.
fn picked<'a>(args: &Args, sink: &'a mut dyn Sink, exists: Exists<'a>, copied: Copied<'a>) -> Picked<'a> {
    let verbose = log::log_enabled!(log::Level::Info);
    Picked::new(sink, args.keep.then_some(exists), verbose.then_some(copied))
}

/// Prints `SOURCE -> COPY` for a file of the path `path` in the transfer, which begins with `name`:
/// the name of `copy`, which is what becomes of the source itself.
fn report(source: &Target, name: &[u8], copy: &[u8], path: &[u8]) -> spindle::Result<()> {
    let top = match source {
        Target::Local(path) => path.as_os_str().as_bytes().to_vec(),
        Target::Inside(inside) => [inside.image.as_bytes(), b":", &inside.path].concat(),
    };
    let rest = path.strip_prefix(name).unwrap_or(path);
    let (from, copy) = ([trimmed(&top), rest].concat(), [copy, rest].concat());
    let mut out = Output::stdout();
    let printed = out.line(format!("{} -> {}", quoted(&from), quoted(&copy))).and_then(|()| out.finish());
    printed.map_err(Failure::into_error)
}

/// Where a copy goes.
enum Destination<'a> {
    /// To this path of this machine.
    Local(&'a Path),
    /// Into a directory of the image of this name.
    Inside(&'a str, &'a Node<'a>),
}

/// Sends one source to a sink, which makes the copy `name` at its destination. What of it cannot be
/// made is passed to `failed`; what ends the copy is named by `place`.
fn send(
    args: &Args,
    source: &Target,
    to: &Destination<'_>,
    name: &[u8],
    sink: Picked<'_>,
    (failed, place, messages): (Failed<'_>, Place<'_>, &Messages),
) -> Result<()> {
    let progress = Progress::new("copying", None);
    let step = |bytes| progress.step(bytes);
    let past_failures = PastFailures::new(sink, failed).naming(place);
    let mut sink = Adjusted::new(past_failures, Adjust::default(), &step);
    let (follow, named) = (args.follow(), args.follow() != Follow::Never);
    match (source, to) {
        (Target::Local(path), _) => {
            let is_dir = path.is_dir() && (named || !path.is_symlink());
            check_recursive(args, is_dir).context(path.display())?;
            let lost = |path: &str, error: spindle::Error| {
                messages.failures.add(error.within(path)).map_err(Failure::into_error)
            };
            let said = |place: &str| {
                logger::note(format_args!("{place}: is the image itself, and is left out"));
            };
            let source = LocalSource::new(path).below(name).following(follow);
            let source = source.past_failures(&lost).noticing(&lost);
            let source = match to {
                Destination::Local(copy) => source.outside(copy),
                Destination::Inside(image, _) => source.without(&Spec::parse(image)?.path, &said),
            };
            Ok(source.walk(&mut sink)?)
        }
        (Target::Inside(from), Destination::Inside(image, dir)) if from.image == **image => {
            let vfs = dir.vfs();
            let node = resolve(vfs, &from.path, named).context(image)?;
            check_recursive(args, node.is_dir()).named(&from.path).context(image)?;
            check_not_below(&node, dir, name).named(&from.path).context(image)?;
            let lost = |error| messages.losses.add(image, error);
            let is_copy = |ino| child(vfs, dir.ino(), name).is_ok_and(|copy| copy.ino() == ino);
            let source = ImageSource::new(vfs, node).at(&from.path).below(name).following(follow);
            source.past_damage(&lost).outside(&is_copy).walk(&mut sink).context(image)
        }
        (Target::Inside(from), _) => image::run(&from.image, &args.read.open_options(), |vfs| {
            let node = resolve(vfs, &from.path, named)?;
            check_recursive(args, node.is_dir()).named(&from.path)?;
            let lost = |error| messages.losses.add(&from.image, error);
            let source = ImageSource::new(vfs, node).at(&from.path).below(name).following(follow);
            Ok(source.past_damage(&lost).walk(&mut sink)?)
        })
        .context(&from.image),
    }
}

/// Refuses a directory without `-r`.
fn check_recursive(args: &Args, is_dir: bool) -> Result<()> {
    if is_dir && !args.recursive() {
        return Err(Failure::new("is a directory; -r copies it with everything below"));
    }
    Ok(())
}

/// Refuses to copy a file onto itself, or a directory into itself: that copy would never end.
fn check_not_below(source: &Node<'_>, dir: &Node<'_>, name: &[u8]) -> Result<()> {
    let vfs = dir.vfs();
    if child(vfs, dir.ino(), name).is_ok_and(|there| there.ino() == source.ino()) {
        return Err(Failure::new("source and target are the same file"));
    }
    let mut at = child(vfs, dir.ino(), b".")?;
    let mut steps = 0;
    loop {
        if at.ino() == source.ino() {
            return Err(Failure::new("a directory cannot be copied into itself"));
        }
        let up = child(vfs, at.ino(), b"..")?;
        steps += 1;
        if up.ino() == at.ino() || steps > 10_000 {
            return Ok(());
        }
        at = up;
    }
}
