//! Images that the user names: opening them with messages, working in them, and unmounting them in
//! any case.

use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::{logger, text};
use spindle::detect::Kind;
use spindle::image::log_file;
use spindle::{Image, LogNote, OpenOptions, partition};
use spindle_report::number;
use spindle_vfs::Vfs;
use std::cell::Cell;
use std::fmt::Display;

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
    /// Returns the settings for opening the image.
    pub fn open_options(self) -> OpenOptions {
        OpenOptions { force: self.force, ..OpenOptions::read_write() }
    }
}

/// Prints what opening an image did with its log.
pub fn print_log_notes(spec: &impl std::fmt::Display, image: &Image) {
    for note in image.log_notes() {
        logger::note(format_args!("{spec}: {}", log_note(note)));
    }
}

fn log_note(note: &LogNote) -> String {
    match *note {
        LogNote::Recovered { blocks } => format!("recovered {blocks} blocks from the log"),
        LogNote::Shown { blocks } => format!(
            "not unmounted cleanly: showing the state after replay of its log ({blocks} blocks); \
             nothing is written"
        ),
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
}

impl ReadArgs {
    /// Returns the settings for opening the image.
    pub fn open_options(self) -> OpenOptions {
        OpenOptions { kind: self.dialect, superblock: self.superblock, ..OpenOptions::read_only() }
    }
}

/// Opens an image for reading, and calls `work` with it.
pub fn read<T>(image: &str, args: ReadArgs, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    run(image, &args.open_options(), work)
}

/// What a command that goes on past damage has lost: each is a message on standard error, and makes
/// the command fail in the end.
#[derive(Debug, Default)]
pub struct Losses(Cell<usize>);

impl Losses {
    /// Prints a message about something that cannot be read in `image`.
    pub fn add(&self, image: impl Display, error: impl Display) {
        self.0.set(self.0.get() + 1);
        logger::error(format_args!("{image}: {error}"));
    }

    /// Fails if anything was lost.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            0 => Ok(()),
            1 => Err(Failure::new("1 thing could not be read, as said above; all others were")),
            n => Err(Failure::new(format!("{n} things could not be read, as said above; all others were"))),
        }
    }
}

/// Opens an image for writing, and calls `work` with it. Fails with the objections if it cannot be
/// written.
pub fn change<T>(image: &str, write: WriteArgs, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    interrupt::watch()?;
    run(image, &write.open_options(), work)
}

/// Opens an image, calls `work` with it, and unmounts it. Returns the first failure.
pub fn run<T>(name: &str, options: &OpenOptions, work: impl FnOnce(&Vfs) -> Result<T>) -> Result<T> {
    let image = Image::open(&partition::find(name)?, options)?;
    if !options.read_only
        && let Err(objections) = image.check_writable()
    {
        // Nothing was changed, so nothing is lost if this fails.
        let _ = image.unmount();
        return Err(objections).context(format_args!("{name} cannot be written"));
    }
    print_log_notes(&name, &image);
    let done = work(&image.vfs());
    let passed_over = image.fs().passed_over().len();
    let closed = image.unmount().context(name);
    let value = done?;
    closed?;
    if passed_over > 0 {
        let places = if passed_over == 1 { "place" } else { "places" };
        return Err(Failure::new(format!("damaged in {passed_over} {places}, as said above"))).context(name);
    }
    Ok(value)
}
