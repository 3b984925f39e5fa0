//! `spindle trim`

use crate::error::{Context, Failure, Result};
use crate::image::{self, WriteArgs};
use crate::output::Output;
use crate::{interrupt, text};
use serde::Serialize;
use spindle_report::number;
use spindle_vfs::Error;
use std::process::ExitCode;

/// Declare the free space of a UFS unused
///
/// A disk image then gets holes where nothing is stored, and takes less space. A flash disk has
/// less to move around. What was removed before cannot be found again (spindle find-deleted).
///
/// What is mounted is trimmed by fstrim(8), with its mount point.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle trim disk.img
    spindle trim -m 64k /dev/sdb@s1a")]
pub struct Args {
    /// Leave out free space in pieces smaller than this: bytes, with k, m, g or t for powers of
    /// 1024
    #[arg(short = 'm', long, value_name = "SIZE", default_value = "0", value_parser = text::parse_bytes)]
    minimum: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    write: WriteArgs,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
}

#[derive(Serialize)]
struct Report<'a> {
    image: &'a str,
    trimmed_bytes: u64,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    interrupt::watch()?;
    let image = &args.image;
    let trimmed_bytes = image::run_image(image, &args.write.open_options()?, |opened| {
        opened.fs().trim(0..u64::MAX, args.minimum).map_err(|error| match error {
            Error::NotSupported => Failure::new("only a UFS can be trimmed, on a device that supports it"),
            error => Failure::from(error),
        })
    })
    .context(image)?;
    let mut out = Output::stdout();
    if args.json {
        out.json(&Report { image, trimmed_bytes })?;
    } else {
        let amount = number::bytes(trimmed_bytes);
        out.line(format!("{image}: {amount} ({trimmed_bytes} bytes) trimmed"))?;
    }
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
