//! Opening a file system for the commands that look inside without a mount.

use crate::error::Result;
use crate::{image, logger, text};
use spindle::OpenOptions;
use spindle::detect::Kind;
use spindle::inspect::{Opened, OpenedOld, open};

/// Options of the commands that look inside a file system.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct InspectArgs {
    /// The system of the file system, if detection is in doubt: freebsd, netbsd, openbsd, sun …
    #[arg(long, value_name = "NAME", value_parser = str::parse::<Kind>)]
    dialect: Option<Kind>,

    /// Read with the copy of the superblock at this place: a sector of 512 bytes, as BSD counts, or
    /// a byte
    ///
    /// Without this option a copy is searched for if the superblock cannot be used.
    #[arg(short = 'b', long, value_name = "PLACE", value_parser = text::parse_bytes)]
    superblock: Option<u64>,
}

/// Opens the image for reading, and says on standard error what its log did and what is damaged.
pub fn open_to_read(image: &str, args: InspectArgs) -> Result<Opened> {
    let options = OpenOptions { kind: args.dialect, superblock: args.superblock, ..OpenOptions::read_only() };
    let opened = open(&image::find(image)?, &options)?;
    if let Some(log) = &opened.log {
        logger::note(format_args!("{image}: {log}"));
    }
    if let Some(salvaged) = opened.superblock.salvaged {
        if let Some(at) = salvaged.copy_at {
            logger::note(format_args!("{image}: read with the copy of the superblock at byte {at}"));
        }
        if salvaged.missing_bytes > 0 {
            let missing = salvaged.missing_bytes;
            logger::note(format_args!("{image}: ends {missing} bytes before the file system does"));
        }
    }
    Ok(opened)
}

/// Opens the image for reading if it has an old file system, and says on standard error what is
/// guessed of it; none if it has anything else.
pub fn open_old(image: &str, args: InspectArgs) -> Result<Option<OpenedOld>> {
    let options = OpenOptions { kind: args.dialect, superblock: args.superblock, ..OpenOptions::read_only() };
    let opened = spindle::inspect::open_old(&image::find(image)?, &options)?;
    if let Some(why) = opened.as_ref().and_then(|opened| opened.detected.unusable.as_ref()) {
        logger::note(format_args!("{image}: read with a guessed super-block: {why}"));
    }
    Ok(opened)
}

/// Opens the image to change it byte by byte.
pub fn open_to_write(image: &str) -> Result<Opened> {
    Ok(open(&image::find(image)?, &OpenOptions::read_write())?)
}
