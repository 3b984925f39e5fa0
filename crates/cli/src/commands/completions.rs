//! `spindle completions`, for packagers: prints the script with which a shell completes commands
//! and options, generated from the commands.

use crate::commands::Cli;
use crate::error::Result;
use crate::output::Output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::process::ExitCode;

/// Print the completions of a shell
///
/// The script goes where the shell looks for it, under these names: for bash,
/// /usr/share/bash-completion/completions/spindle; for zsh,
/// /usr/share/zsh/vendor-completions/_spindle; for fish,
/// /usr/share/fish/vendor_completions.d/spindle.fish.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "spindle", &mut script);
    let mut out = Output::stdout();
    out.bytes(&script)?;
    out.finish()?;
    Ok(ExitCode::SUCCESS)
}
