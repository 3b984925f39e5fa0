//! The `spindle` command.
//!
//! [`commands`] lists the commands with their arguments; what they do is in the crate `spindle`. An
//! error comes up as an [`error::Failure`]; `main` prints it once.

// Users read the comments on arguments on a terminal and in the manual: they are not Markdown.
#![allow(clippy::doc_markdown)]
// Structures of arguments consist of switches.
#![allow(clippy::struct_excessive_bools)]

mod attributes;
mod caller;
mod commands;
mod date;
mod describe;
mod error;
mod image;
mod inspect;
mod interrupt;
mod interruptible;
mod listing;
mod logger;
mod manual;
mod mkfs;
mod mount_point;
mod mounted;
mod outfile;
mod output;
mod progress;
mod suggest;
mod target;
mod text;
mod timestamp;
mod volumes;

use commands::helper::{Invocation, parse_command_line};
use error::Failure;
use mimalloc::MiMalloc;
use std::io::Write;
use std::process::ExitCode;

/// Blocks, names and steps of a log come and go by thousands, on several threads: an import takes
/// a fifth less time with this allocator than with that of glibc (docs/PERFORMANCE.md).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let result = match parse_command_line(std::env::args_os().collect()) {
        Invocation::Run(command, verbose) => {
            logger::start(verbose);
            command.run()
        }
        Invocation::Done(result) => result,
    };
    result.unwrap_or_else(|failure| {
        if let Failure::Message { .. } = &failure {
            // If standard error is closed, the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "spindle: {failure}");
        }
        // If a signal ended the command, its exit code has priority over the failure it caused.
        ExitCode::from(interrupt::received().map_or(failure.code(), |signal| 128 + signal))
    })
}
