//! Images that the user names: opening them with messages, working in them, and unmounting them in
//! any case.

use crate::error::{Context, FAILED, Failure, Result};
use crate::interrupt;
use crate::target::{ImagePath, Target};
use crate::timestamp::source_date_epoch;
use crate::{logger, mount_point, text};
use spindle::detect::Kind;
use spindle::image::log_file;
use spindle::newfs::{clock, seed};
use spindle::{Image, LogNote, OpenOptions, Spec, partition};
use spindle_clock::SystemClock;
use spindle_report::number;
use spindle_vfs::Vfs;
use std::cell::Cell;
use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of all commands that change the contents of an image.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct WriteArgs {
    /// Write in spite of objections that can be overridden
    ///
    /// Without this option, for example, an image that was not unmounted cleanly is not written.
    /// Writes that can never be right, as to an image whose journal still holds changes, are
    /// refused even with this option.
    #[arg(long)]
    pub force: bool,
}

impl WriteArgs {
    /// Returns the settings for opening the image. Its clock stands at the time of a reproducible
    /// build, if the environment has one.
    pub fn open_options(self) -> Result<OpenOptions> {
        let epoch = source_date_epoch()?;
        let (clock, seed) = (clock(epoch), seed(epoch));
        Ok(OpenOptions { force: self.force, clock, seed, ..OpenOptions::read_write() })
    }
}

/// Returns the image of this name, or the one that is mounted on the directory of this name.
pub fn named(name: &str) -> Result<Spec> {
    match mount_point::image_on(name)? {
        Some(spec) => Ok(spec),
        None => Ok(partition::find(name)?),
    }
}

/// Does the same, and waits for the daemon of its last mount, if that still writes it.
pub fn find(name: &str) -> Result<Spec> {
    let spec = named(name)?;
    await_last_mount(&spec)?;
    Ok(spec)
}

/// Waits for the daemon of the last mount of an image, if it has been unmounted and is still
/// writing the image.
pub fn await_last_mount(spec: &Spec) -> Result<()> {
    let device = spec.place()?.path;
    if spindle_fuse::is_held_by_ending_daemon(&device) {
        logger::note(format_args!(
            "{spec}: waiting for the daemon of the last mount, which is still writing the image"
        ));
        spindle_fuse::wait_for_ending_daemon::<Failure>(&device, &SystemClock, &mut || Ok(()))?;
    }
    Ok(())
}

/// Prints what opening an image did with its log.
pub fn print_log_notes(spec: &impl std::fmt::Display, image: &Image) {
    for note in image.log_notes() {
        logger::note(format_args!("{spec}: {}", log_note(note)));
    }
}

/// Returns what happened to a log, as a sentence.
pub fn log_note(note: &LogNote) -> String {
    match *note {
        LogNote::Recovered { blocks } => {
            format!("recovered {} from the log", text::counted(blocks as u64, "block"))
        }
        LogNote::Shown { blocks } => format!(
            "not unmounted cleanly: showing the state after replay of its log ({}); nothing is written",
            text::counted(blocks as u64, "block")
        ),
        LogNote::JournalRecovered { kind, records } => {
            format!("recovered with the {kind} (records: {records})")
        }
        LogNote::Created { bytes, dialect } => format!(
            "created a {} log in {}; mount with -o nolog to do without",
            number::bytes(bytes),
            log_file(dialect)
        ),
        LogNote::Kept { bytes } => {
            format!("the log of {} is kept; logsize= applies only to a new log", number::bytes(bytes))
        }
    }
}

/// Options of all commands that read files in an image.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct ReadArgs {
    /// The system of the file system, if detection is in doubt or fails: freebsd, netbsd, openbsd,
    /// sun …, v7, 32v, bsd, sysv-1024-be … (the formats of newfs)
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Kind>)]
    dialect: Option<Kind>,

    /// Read UFS with the copy of its superblock at this place: a sector of 512 bytes, as BSD
    /// counts, or a byte
    ///
    /// Without this option a copy is searched for if the superblock cannot be used.
    #[arg(short = 'b', long, value_name = "PLACE", value_parser = text::parse_bytes)]
    superblock: Option<u64>,

    /// Show what no directory names any more, in place of the root directory: each file as # and
    /// the number of its inode
    ///
    /// This finds what was in a lost directory of UFS, V7 or System V. All inodes and directories
    /// are read.
    #[arg(long)]
    lost: bool,
}

impl ReadArgs {
    /// Returns the settings for opening the image.
    pub fn open_options(self) -> OpenOptions {
        OpenOptions {
            kind: self.dialect,
            superblock: self.superblock,
            unnamed: self.lost,
            ..OpenOptions::read_only()
        }
    }
}

/// The end of the command lines of commands that list files and have a `-h` of their own.
#[derive(clap::Args, Debug)]
pub struct Listed {
    #[command(flatten)]
    pub read: ReadArgs,
    /// Print help
    #[arg(long, action = clap::ArgAction::HelpLong)]
    help: Option<bool>,
    /// The files or directories; an image alone means its root
    #[arg(value_name = "IMAGE[:/PATH]", required = true)]
    pub targets: Vec<OsString>,
}

/// Opens an image for reading, and calls `work` with it.
pub fn read<T>(image: &str, args: ReadArgs, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    run(image, &args.open_options(), work)
}

/// True once a message was printed that makes the command fail in the end: then it needs no other
/// last line that says so.
static FAILURE_SAID: AtomicBool = AtomicBool::new(false);

/// What a command that goes on past damage has lost: each is a message on standard error, and makes
/// the command fail in the end.
#[derive(Debug, Default)]
pub struct Losses(Cell<usize>);

impl Losses {
    /// Prints a message about something that cannot be read in `image`.
    pub fn add(&self, image: impl Display, error: impl Display) {
        self.0.set(self.0.get() + 1);
        FAILURE_SAID.store(true, Ordering::Relaxed);
        logger::error(format_args!("{image}: {error}"));
    }

    /// Fails if anything was lost.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            0 => Ok(()),
            count => {
                let things = if count == 1 { "thing" } else { "things" };
                Err(Failure::new(format!(
                    "{count} {things} could not be read, as said above; what was below the directories \
                     among them is not counted (--lost shows what is left of it)"
                )))
            }
        }
    }
}

/// What the commands do that have several operands, or a tree as an operand: a failure of one is
/// printed, the others are done, and the command fails in the end, as those of BSD.
#[derive(Debug, Default)]
pub struct Failures(Cell<bool>);

impl Failures {
    /// Prints a failure, unless it is one that ends the command.
    pub fn add(&self, failure: impl Into<Failure>) -> Result<()> {
        let failure = failure.into();
        let Failure::Message { .. } = &failure else { return Err(failure) };
        if interrupt::received().is_some() || failure.is(&spindle_vfs::Error::ReadOnly) {
            return Err(failure);
        }
        self.0.set(true);
        FAILURE_SAID.store(true, Ordering::Relaxed);
        logger::failure(&failure);
        Ok(())
    }

    /// Does the same with what fails of one file in a transfer; `place` is the path of that file.
    pub fn add_file(&self, place: &[u8], error: spindle::Error) -> spindle::Result<()> {
        self.add(error.within(text::quoted(place))).map_err(Failure::into_error)
    }

    /// Does the same with the failure of a result. Returns its value if it has one.
    pub fn unless<T>(&self, result: Result<T, impl Into<Failure>>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(failure) => self.add(failure).map(|()| None),
        }
    }

    /// Returns the exit code of the command.
    pub fn exit_code(&self) -> ExitCode {
        if self.0.get() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
    }
}

/// Calls `work` with the image and the path of each operand, one after the other; those that follow
/// each other in one image find it open. Returns the exit code.
fn each(
    words: &[OsString],
    open: impl Fn(&str, &mut dyn FnMut(&Vfs) -> Result<()>) -> Result<()>,
    mut work: impl FnMut(&Vfs, &ImagePath, &Failures) -> Result<()>,
) -> Result<ExitCode> {
    let failures = Failures::default();
    let mut targets = Vec::new();
    for word in words {
        targets.extend(failures.unless(Target::in_image(word))?);
    }
    for group in targets.chunk_by(|a, b| a.image == b.image) {
        let opened = open(&group[0].image, &mut |vfs| {
            for target in group {
                interrupt::check()?;
                failures.unless(work(vfs, target, &failures).context(&target.image))?;
            }
            Ok(())
        });
        failures.unless(opened)?;
    }
    Ok(failures.exit_code())
}

/// Calls `work` with each operand of a command that reads; see [`Failures`].
pub fn read_each(
    words: &[OsString],
    args: ReadArgs,
    work: impl FnMut(&Vfs, &ImagePath, &Failures) -> Result<()>,
) -> Result<ExitCode> {
    each(words, |image, found| read(image, args, |vfs| found(vfs)), work)
}

/// Calls `work` with each operand of a command that writes; see [`Failures`].
pub fn change_each(
    words: &[OsString],
    args: WriteArgs,
    work: impl FnMut(&Vfs, &ImagePath, &Failures) -> Result<()>,
) -> Result<ExitCode> {
    each(words, |image, found| change(image, args, |vfs| found(vfs)), work)
}

/// Opens an image for writing, and calls `work` with it. Fails with the objections if it cannot be
/// written.
pub fn change<T>(image: &str, write: WriteArgs, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    interrupt::watch()?;
    run(image, &write.open_options()?, work)
}

/// Opens an image, calls `work` with its view, and unmounts it. Returns the first failure.
pub fn run<T>(name: &str, options: &OpenOptions, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    run_image(name, options, |image| work(&image.vfs()))
}

/// Does the same with the image itself.
pub fn run_image<T>(name: &str, options: &OpenOptions, work: impl FnOnce(&Image) -> Result<T>) -> Result<T> {
    let image = Image::open(&find(name)?, options)?;
    if !options.read_only
        && let Err(objections) = image.check_writable()
    {
        // Nothing was changed, so nothing is lost if this fails.
        let _ = image.unmount();
        return Err(objections).context(format_args!("{name} cannot be written"));
    }
    work_in(name, image, work)
}

/// Calls `work` with an open image, and unmounts it. Returns the first failure.
pub fn work_in<T>(name: &str, image: Image, work: impl FnOnce(&Image) -> Result<T>) -> Result<T> {
    print_log_notes(&name, &image);
    let done = work(&image);
    let is_damaged = !image.fs().passed_over().is_empty();
    let closed = image.unmount().context(name);
    let value = done?;
    closed?;
    if is_damaged && !FAILURE_SAID.load(Ordering::Relaxed) {
        return Err(Failure::new("damaged, as said above")).context(name);
    }
    Ok(value)
}
