//! Opening a fast file system for the commands that look inside without a mount.

use crate::error::Result;
use crate::image::ReadArgs;
use crate::logger;
use spindle::inspect::{Opened, open};
use spindle::partition;

/// Opens the image for reading, and says on standard error what its log did and what is damaged.
pub fn open_to_read(image: &str, read: ReadArgs) -> Result<Opened> {
    let opened = open(&partition::find(image)?, &read.open_options())?;
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
