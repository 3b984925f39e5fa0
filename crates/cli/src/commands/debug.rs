//! `spindle debug`

mod files;
mod parse;
mod session;
mod structures;

use crate::error::{Context, Failure, Result};
use crate::image::ReadArgs;
use crate::inspect::open_to_read;
use crate::{interrupt, logger};
use session::{Outcome, Session};
use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Look inside a UFS file system, structure by structure
///
/// Shows superblock, groups, inodes, directories and blocks as they stand on the disk, in the
/// manner of fsdb(8) and debugfs(8), also of damaged images. The commands come from the command
/// line, from a file (-f), from standard input, or from you at a prompt. "help" lists them.
///
/// An inode is named by its number (12 or <12>) or by a path. A path is from the root, or from the
/// directory that cd has chosen; symbolic links are not followed. A block is named by the address
/// of its first fragment. Numbers can be decimal, octal with 0 in front, or hexadecimal with 0x.
///
/// Nothing is written to the image. If its log has to be replayed, the state after the replay is
/// shown.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "COMMANDS
    super                    the superblock, all fields
    group N                  a cylinder group
    inode INODE              an inode, all fields
    block N [AS]             a block: as bytes, or AS dir, indirect, inodes
    ls [INODE]               the names in a directory, with their inodes
    cd [PATH]; pwd           choose a directory, and print its path
    cat INODE                the contents of a file
    dump INODE FILE          the same into a file; holes stay holes
    blocks INODE             where a file lies
    owner N...               the inodes that have these fragments, and as what
    names INODE...           all paths of these inodes
    testb N...               whether fragments are marked used
    testi INODE...           whether inodes are marked used
    deleted                  deleted names and inodes, as find-deleted
    help; quit

NOTES
    Words are separated by blanks; \"...\" holds a word with blanks together, and a backslash
    takes the next character as it is. A semicolon separates commands; # begins a comment.
    Commands from the command line, a file or a pipe end with the first that fails.

EXIT CODES
    0  done    1  failed    2  invalid command line

EXAMPLES
    spindle debug disk.img inode /etc/passwd
    spindle debug disk.img 'owner 3040 3048; testb 3040'
    echo 'block 3040 dir' | spindle debug disk.img")]
pub struct Args {
    /// Read commands from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
    /// A command, as one argument or several
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let opened = open_to_read(&args.image, args.read)?;
    let mut session = Session::new(opened);
    if !args.command.is_empty() {
        session.run_line(&args.command.join(" ")).context(&args.image)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file).context(file.display())?;
        for (n, line) in (1..).zip(text.lines()) {
            match session.run_line(line).context(format_args!("{} line {n}", file.display()))? {
                Outcome::Quit => break,
                Outcome::Continue => interrupt::check()?,
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    prompt(&mut session)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the commands on standard input; at a terminal it asks for each and goes on after a failure.
fn prompt(session: &mut Session) -> Result<()> {
    let stdin = std::io::stdin();
    let asks = stdin.is_terminal();
    let mut line = String::new();
    let mut number = 0;
    loop {
        if asks {
            let mut stderr = std::io::stderr();
            let _ = write!(stderr, "debug> ").and_then(|()| stderr.flush());
        }
        line.clear();
        if stdin.lock().read_line(&mut line).context("standard input")? == 0 {
            return Ok(());
        }
        number += 1;
        match session.run_line(&line) {
            Ok(Outcome::Continue) => {}
            Ok(Outcome::Quit) => return Ok(()),
            Err(failure @ Failure::Message { .. }) if asks => logger::failure(&failure),
            failed => return failed.map(drop).context(format_args!("line {number}")),
        }
    }
}
