//! The `spindle` command.
//!
//! [`commands`] is the table of what it can do, each with its arguments; [`transfer`] moves trees;
//! [`image`] opens file systems. What goes wrong comes up as a [`error::Failure`], and is told
//! here, once.

// The comments on arguments are what users read on a terminal and in the manual, not Markdown.
#![allow(clippy::doc_markdown)]
// Command lines are made of switches.
#![allow(clippy::struct_excessive_bools)]

mod caller;
mod commands;
mod describe;
mod error;
mod image;
mod interrupt;
mod interruptible;
mod logger;
mod making;
mod outfile;
mod output;
mod partition;
mod paths;
mod progress;
mod target;
mod text;
mod transfer;

use commands::helper::{Invocation, understand};
use error::Failure;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match understand(std::env::args_os().collect()) {
        Invocation::Run(command, verbose) => {
            logger::start(verbose);
            command.run()
        }
        Invocation::Nothing(result) => result,
    };
    result.unwrap_or_else(|failure| {
        if let Failure::Told { .. } = &failure {
            // If nobody can be told, the exit code still says it.
            let _ = writeln!(std::io::stderr(), "spindle: {failure}");
        }
        // A signal that ended it counts, whatever the failure that it led to.
        ExitCode::from(interrupt::seen().map_or(failure.code(), |signal| 128 + signal))
    })
}
