//! A session: the image, the directory that was chosen, and the table of commands.

use super::{edit, files, parse, structures};
use crate::error::{Context, Failure, Result};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use spindle::inspect::Opened;
use spindle_ffs::inspect::{Editor, Inspector};
use spindle_ffs::{Layout, ROOT_INO, Superblock};

/// What comes after a line of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next line.
    Continue,
    /// Nothing.
    Quit,
}

/// A session.
pub struct Session {
    opened: Opened,
    /// What changes the image, if that is allowed.
    editor: Option<Editor>,
    /// The chosen directory, and its path.
    pub directory: (u32, String),
}

/// A command.
struct Command {
    name: &'static str,
    words: &'static str,
    help: &'static str,
    /// The least and the greatest number of words behind the name.
    count: (usize, usize),
    run: fn(&mut Session, &mut Output, &[String]) -> Result<()>,
}

const MANY: usize = usize::MAX;

const COMMANDS: &[Command] = &[
    Command {
        name: "super",
        words: "",
        help: "the superblock, all fields",
        count: (0, 0),
        run: structures::superblock,
    },
    Command { name: "group", words: "N", help: "a cylinder group", count: (1, 1), run: structures::group },
    Command {
        name: "inode",
        words: "INODE",
        help: "an inode, all fields",
        count: (1, 1),
        run: structures::inode,
    },
    Command {
        name: "block",
        words: "N [AS]",
        help: "a block: as bytes, or AS dir, indirect, inodes",
        count: (1, 2),
        run: structures::block,
    },
    Command {
        name: "ls",
        words: "[INODE]",
        help: "the names in a directory, with their inodes",
        count: (0, 1),
        run: files::ls,
    },
    Command { name: "cd", words: "[PATH]", help: "choose a directory", count: (0, 1), run: files::cd },
    Command { name: "pwd", words: "", help: "print its path", count: (0, 0), run: files::pwd },
    Command { name: "cat", words: "INODE", help: "the contents of a file", count: (1, 1), run: files::cat },
    Command {
        name: "dump",
        words: "INODE FILE",
        help: "the same into a file; holes stay holes",
        count: (2, 2),
        run: files::dump,
    },
    Command { name: "blocks", words: "INODE", help: "where a file lies", count: (1, 1), run: files::blocks },
    Command {
        name: "owner",
        words: "N...",
        help: "the inodes that have these fragments, and as what",
        count: (1, MANY),
        run: files::owner,
    },
    Command {
        name: "names",
        words: "INODE...",
        help: "all paths of these inodes",
        count: (1, MANY),
        run: files::names,
    },
    Command {
        name: "testb",
        words: "N...",
        help: "whether fragments are marked used",
        count: (1, MANY),
        run: structures::testb,
    },
    Command {
        name: "testi",
        words: "INODE...",
        help: "whether inodes are marked used",
        count: (1, MANY),
        run: structures::testi,
    },
    Command {
        name: "deleted",
        words: "",
        help: "deleted names and inodes, as find-deleted",
        count: (0, 0),
        run: files::deleted,
    },
    Command {
        name: "set",
        words: "INODE FIELD VALUE",
        help: "set a field of an inode (-w)",
        count: (3, 3),
        run: edit::set,
    },
    Command {
        name: "setsuper",
        words: "FIELD VALUE",
        help: "set a field of the superblock (-w)",
        count: (2, 2),
        run: edit::setsuper,
    },
    Command {
        name: "clri",
        words: "INODE",
        help: "make an inode a free one (-w)",
        count: (1, 1),
        run: edit::clri,
    },
    Command {
        name: "link",
        words: "INODE PATH",
        help: "enter a name; the count of links stays (-w)",
        count: (2, 2),
        run: edit::link,
    },
    Command {
        name: "unlink",
        words: "PATH",
        help: "remove a name; the inode stays (-w)",
        count: (1, 1),
        run: edit::unlink,
    },
    Command { name: "help", words: "", help: "this list", count: (0, 0), run: help },
    Command { name: "quit", words: "", help: "end the session", count: (0, 0), run: |_, _, _| Ok(()) },
];

impl Session {
    /// Begins in the root directory.
    pub fn new(opened: Opened, editor: Option<Editor>) -> Self {
        Self { opened, editor, directory: (ROOT_INO, "/".into()) }
    }

    /// Returns what changes the image.
    ///
    /// # Errors
    /// If that was not allowed.
    pub fn editor(&mut self) -> Result<&mut Editor> {
        self.editor.as_mut().ok_or_else(|| Failure::new("changes nothing without -w"))
    }

    /// Returns the file system to be looked at.
    pub fn inspector(&self) -> Inspector<'_> {
        Inspector::new(&*self.opened.device, self.superblock())
    }

    pub fn superblock(&self) -> &Superblock {
        self.editor.as_ref().map_or(&self.opened.superblock, Editor::superblock)
    }

    pub fn layout(&self) -> &Layout {
        &self.superblock().layout
    }

    /// Returns the inode that a word names, by number or by path.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, word: &str) -> Result<u32> {
        let mut inspector = self.inspector();
        match parse::inode_number(word)? {
            Some(ino) => inspector.check_ino(ino).map(|()| ino).map_err(Into::into),
            None => inspector.lookup(self.directory.0, word.as_bytes()).named(word.as_bytes()),
        }
    }

    /// Calls `work` with a progress bar that is named after the command.
    pub fn with_progress<T>(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Inspector<'_>, &mut dyn FnMut(u32, u32)) -> T,
    ) -> T {
        let progress = Progress::of_fraction(name);
        work(&mut self.inspector(), &mut |done, groups| {
            progress.set(u64::from(done) * 1000 / u64::from(groups.max(1)), "inodes");
        })
    }

    /// Runs the commands of a line.
    ///
    /// # Errors
    /// The first failure; the commands behind it are not run.
    pub fn run_line(&mut self, line: &str) -> Result<Outcome> {
        for words in parse::commands(line)? {
            let name = words[0].as_str();
            let command = COMMANDS
                .iter()
                .find(|command| command.name == name)
                .ok_or_else(|| Failure::new(format!("{name}: no such command; help lists them")))?;
            let (least, most) = command.count;
            if !(least..=most).contains(&(words.len() - 1)) {
                return Err(Failure::new(format!("give {name} {}", command.words)));
            }
            if name == "quit" {
                return Ok(Outcome::Quit);
            }
            let mut out = Output::stdout();
            let done = (command.run)(self, &mut out, &words[1..]).context(name);
            out.finish()?;
            interrupt::check()?;
            done?;
        }
        Ok(Outcome::Continue)
    }
}

fn help(_: &mut Session, out: &mut Output, _: &[String]) -> Result<()> {
    for command in COMMANDS {
        out.line(format!("{:<24} {}", format!("{} {}", command.name, command.words), command.help))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::COMMANDS;

    /// Promise: the manual lists every command, with its words.
    #[test]
    fn commands_are_in_the_manual() {
        let command = <super::super::Args as clap::Args>::augment_args(clap::Command::new("debug"));
        let manual = command.get_after_long_help().unwrap().to_string();
        for command in COMMANDS {
            let line = format!("{} {}", command.name, command.words);
            assert!(manual.contains(line.trim_end()), "{line}");
        }
    }
}
