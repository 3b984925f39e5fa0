//! `spindle debug`

mod edit;
mod files;
mod old;
mod parse;
mod session;
mod structures;

use crate::error::{Context, Failure, Result};
use crate::image::WriteArgs;
use crate::inspect::{InspectArgs, open_old, open_to_read, open_to_write};
use crate::interruptible::Interruptible;
use crate::{interrupt, logger};
pub use files::holds_data;
pub use parse::commands;
use session::{Outcome, Session};
use spindle::newfs::clock;
use spindle_ffs::inspect::Editor;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Look inside a UFS, V7 or System V file system, structure by structure
///
/// Shows superblock, groups, inodes, directories and blocks as they stand on the disk, in the
/// manner of fsdb(8) and debugfs(8), also of damaged images. The commands come from the command
/// line, from a file (-f), from standard input, or from you at a prompt. "help" lists them.
///
/// An inode is named by its number (12 or <12>) or by a path. A path is from the root, or from the
/// directory that cd has chosen; symbolic links are not followed. A block is named by the address
/// of its first fragment. Numbers can be decimal, octal with 0 in front, or hexadecimal with 0x.
///
/// Nothing is written to the image without -w. If its log has to be replayed, the state after the
/// replay is shown.
///
/// With -w fields of inodes and of the superblock can be set, inodes cleared, and names entered and
/// removed. The image must not be mounted. Each change is written at once, with its check-hash;
/// nothing else is put right. Before the first change the file system is marked as one that needs a
/// check: run fsck when you have finished.
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

    On V7 and System V: super, inode, block N [dir|indirect], ls, blocks, owner,
    testb, free (the free list), deleted, help and quit; paths are from the root.

    With -w, on UFS:
    set INODE FIELD VALUE    set a field, named as \"inode\" shows it; di_ can be left out
    setsuper FIELD VALUE     set a field of the superblock, named as \"super\" shows it
    clri INODE               make an inode a free one
    link INODE PATH          enter a name; the count of links stays
    unlink PATH              remove a name; the inode stays

NOTES
    Words are separated by blanks; \"...\" holds a word with blanks together, and a backslash
    takes the next character as it is. A semicolon separates commands; # begins a comment.
    Commands from the command line, a file or a pipe end with the first that fails.

EXIT CODES
    0  done    1  failed    2  invalid command line

EXAMPLES
    spindle debug disk.img inode /etc/passwd
    spindle debug disk.img 'owner 3040 3048; testb 3040'
    spindle debug -w disk.img 'set <12> mode 0100644' && spindle fsck disk.img
    echo 'block 3040 dir' | spindle debug disk.img")]
pub struct Args {
    /// Allow changes of the image
    #[arg(short = 'w', long, conflicts_with_all = ["dialect", "superblock"])]
    write: bool,
    #[command(flatten)]
    force: WriteArgs,
    /// Read commands from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    #[command(flatten)]
    read: InspectArgs,
    /// The file, block device or partition
    #[arg(value_name = "IMAGE")]
    image: String,
    /// A command, as one argument or several
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut session = if args.write {
        interrupt::watch()?;
        let mut opened = open_to_write(&args.image)?;
        let editor = Editor::begin(opened.device.clone(), clock(None), args.force.force);
        // A long read ends after a signal, but no change is left half done.
        opened.device = Arc::new(Interruptible(opened.device));
        Session::new(opened, Some(editor.context(&args.image)?))
    } else if let Some(opened) = open_old(&args.image, args.read)? {
        let session = old::Session::new(&opened).context(&args.image)?;
        return run_commands(args, &mut |line| session.run_line(line));
    } else {
        Session::new(open_to_read(&args.image, args.read)?, None)
    };
    run_commands(args, &mut |line| session.run_line(line))
}

/// Runs the commands of the command line, of a file, or those that come from standard input.
fn run_commands(args: &Args, run_line: &mut dyn FnMut(&str) -> Result<Outcome>) -> Result<ExitCode> {
    if !args.command.is_empty() {
        run_line(&args.command.join(" ")).context(&args.image)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file).context(file.display())?;
        for (n, line) in (1..).zip(text.lines()) {
            match run_line(line).context(format_args!("{} line {n}", file.display()))? {
                Outcome::Quit => break,
                Outcome::Continue => interrupt::check()?,
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    prompt(run_line)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the commands on standard input; at a terminal it asks for each and goes on after a failure.
fn prompt(run_line: &mut dyn FnMut(&str) -> Result<Outcome>) -> Result<()> {
    let asks = std::io::stdin().is_terminal();
    let mut input = BufReader::new(interrupt::Reader(std::io::stdin()));
    let mut line = String::new();
    let mut number = 0;
    loop {
        if asks {
            let mut stderr = std::io::stderr();
            let _ = write!(stderr, "debug> ").and_then(|()| stderr.flush());
        }
        line.clear();
        if input.read_line(&mut line).context("standard input")? == 0 {
            return Ok(());
        }
        number += 1;
        match run_line(&line) {
            Ok(Outcome::Continue) => {}
            Ok(Outcome::Quit) => return Ok(()),
            Err(failure @ Failure::Message { .. }) if asks => logger::failure(&failure),
            failed => return failed.map(drop).context(format_args!("line {number}")),
        }
    }
}
