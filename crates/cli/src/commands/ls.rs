//! `spindle ls`

use crate::describe::Description;
use crate::error::{Context, Failure, Result};
use crate::image::{self, Listed, Losses};
use crate::listing::{self, Names};
use crate::output::Output;
use crate::text;
use spindle::flags;
use spindle::path::{child, names_before_damage, resolve};
use spindle_clock::Timestamp;
use spindle_vfs::{Attr, Error, FileKind, Ino, Node, Vfs};
use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write;
use std::process::ExitCode;

/// List files in an image
///
/// Lists the contents of a directory, one line for each file, or a single file. Owners are numbers,
/// because an image has users of its own; times are in UTC.
///
/// On a terminal, names with special characters are quoted so that they can be pasted into a shell.
/// Elsewhere control characters, invisible characters, backslashes and bytes that are not UTF-8 are
/// shown as escapes. Neither can control the terminal.
///
/// A file that cannot be read in a damaged image is shown with question marks and an error, and the
/// listing goes on. The exit code is then 1.
#[derive(clap::Args, Debug)]
#[command(
    disable_help_flag = true,
    after_long_help = "EXAMPLES
    spindle ls -l disk.img:/etc
    spindle ls -lath disk.img:/var/log
    spindle ls -Ra disk.img@s1a
    spindle ls --json disk.img:/ | jq '.[].path'"
)]
pub struct Args {
    /// Show type and permissions, number of links, owner, group, size, time of the last change,
    /// and name
    #[arg(short = 'l', visible_short_alias = 'n')]
    long: bool,
    /// With -l, also show the file flags
    #[arg(short = 'o')]
    flags: bool,
    /// Also show names that start with a dot
    #[arg(short = 'a')]
    all: bool,
    /// Also show names that start with a dot, except . and ..
    #[arg(short = 'A')]
    almost_all: bool,
    /// Also show everything below directories
    #[arg(short = 'R')]
    recursive: bool,
    /// Show directories themselves, not their contents
    #[arg(short = 'd')]
    directory: bool,
    /// Follow symbolic links
    #[arg(short = 'L')]
    follow: bool,
    /// Show inode numbers
    #[arg(short = 'i')]
    inodes: bool,
    /// Show the allocated space, in units of 512 bytes
    #[arg(short = 's')]
    blocks: bool,
    /// Count allocated space in units of 1024 bytes
    #[arg(short = 'k')]
    kilobytes: bool,
    /// Show sizes with units, as 1.5K
    #[arg(short = 'h')]
    human: bool,
    /// Sort by size, the largest first
    #[arg(short = 'S')]
    by_size: bool,
    /// Sort by the time of the last change, the latest first
    #[arg(short = 't')]
    by_time: bool,
    /// Use the time of the last read instead
    #[arg(short = 'u', overrides_with = "status_time")]
    read_time: bool,
    /// Use the time of the last change of the inode instead
    #[arg(short = 'c')]
    status_time: bool,
    /// Show times in full
    #[arg(short = 'T')]
    full_time: bool,
    /// Sort the other way round
    #[arg(short = 'r')]
    reverse: bool,
    /// Show kinds behind the names: / directory, @ symbolic link, * program, | fifo, = socket
    #[arg(short = 'F')]
    mark: bool,
    /// Show a slash behind names of directories
    #[arg(short = 'p')]
    slash: bool,
    /// Print special characters as escapes, also on a terminal
    #[arg(short = 'B', overrides_with = "hidden")]
    escaped: bool,
    /// Print special characters as question marks
    #[arg(short = 'q')]
    hidden: bool,
    /// Print one name on each line; it always does
    #[arg(short = '1')]
    _single: bool,
    /// Print everything as a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    listed: Listed,
}

impl Args {
    /// Returns the time that is shown and sorted by.
    fn time(&self, attr: &Attr) -> Timestamp {
        if self.read_time {
            attr.atime
        } else if self.status_time {
            attr.ctime
        } else {
            attr.mtime
        }
    }

    /// Returns true if names are all that the listing needs to know.
    fn names_suffice(&self) -> bool {
        let sorted = self.by_size || self.by_time;
        let marked = self.mark || self.slash;
        !(self.long || self.inodes || self.blocks || self.json || self.recursive || sorted || marked)
    }

    fn names(&self) -> Names {
        if self.hidden {
            Names::Hidden
        } else if self.escaped {
            Names::Escaped
        } else {
            Names::for_stdout()
        }
    }
}

struct Lister<'a, 'v> {
    args: &'a Args,
    names: Names,
    vfs: &'v Vfs,
    out: &'a mut Output,
    found: &'a mut Vec<Description>,
    lost: &'a dyn Fn(Failure),
    seen: HashSet<u64>,
    /// Characters of the column of flags.
    flags_width: usize,
}

/// A file in a directory; without attributes if its inode cannot be read.
struct Entry<'v> {
    name: Vec<u8>,
    path: Vec<u8>,
    node: Option<Node<'v>>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut out = Output::stdout();
    let mut found = Vec::new();
    let losses = Losses::default();
    let code = image::read_each(&args.listed.targets, args.listed.read, |vfs, target, _| {
        let lost = |failure| losses.add(&target.image, failure);
        let (out, found, seen) = (&mut out, &mut found, HashSet::new());
        let names = args.names();
        Lister { args, names, vfs, out, found, lost: &lost, seen, flags_width: 0 }.list(&target.path)
    })?;
    if args.json {
        out.json(&found)?;
    }
    out.finish()?;
    losses.check()?;
    Ok(code)
}

impl<'v> Lister<'_, 'v> {
    fn list(&mut self, path: &[u8]) -> Result<()> {
        let follow = self.args.follow || !self.args.long || path.ends_with(b"/");
        let node = resolve(self.vfs, path, follow)?;
        if !node.is_dir() || self.args.directory {
            return self.show(path, path, node.attr());
        }
        let headed = self.args.recursive || self.args.listed.targets.len() > 1;
        let mut todo = vec![(path.to_vec(), node)];
        let mut first = true;
        while let Some((path, dir)) = todo.pop() {
            if !self.seen.insert(dir.ino().0) {
                let place = format!("inode {}", dir.ino().0);
                self.note_loss::<()>(&path, Err(Error::corrupt("a directory has two names", place)));
                continue;
            }
            if headed && !self.args.json {
                if !first {
                    self.out.line("")?;
                }
                self.out.line(format!("{}:", self.names.show(&path)))?;
            }
            first = false;
            let mut below = self.directory(&path, dir.ino())?;
            below.reverse();
            todo.append(&mut below);
        }
        Ok(())
    }

    /// Prints the contents of a directory. Returns the directories in it if the listing is
    /// recursive.
    fn directory(&mut self, path: &[u8], dir: Ino) -> Result<Vec<(Vec<u8>, Node<'v>)>> {
        let (mut names, damage) = names_before_damage(self.vfs, dir);
        self.note_loss(path, damage.map_or(Ok(()), Err));
        if !self.args.all && !self.args.almost_all {
            names.retain(|name| !name.starts_with(b"."));
        }
        if self.args.all {
            names.splice(0..0, [b".".to_vec(), b"..".to_vec()]);
        }
        if self.args.names_suffice() {
            if self.args.reverse {
                names.reverse();
            }
            for name in names {
                self.out.line(self.names.show(&name))?;
            }
            return Ok(Vec::new());
        }
        let base = path.strip_suffix(b"/").unwrap_or(path);
        let mut entries: Vec<Entry<'v>> = Vec::with_capacity(names.len());
        for name in names {
            let path = [base, b"/", &name].concat();
            let node = self.look_up(dir, &path, &name);
            entries.push(Entry { name, path, node });
        }
        self.sort(&mut entries);
        let flags = entries.iter().filter_map(|entry| Some(flags::names(entry.node.as_ref()?.attr().flags)));
        self.flags_width = flags.map(|flags| flags.len()).max().unwrap_or(1);
        let mut below = Vec::new();
        for Entry { name, path, node } in entries {
            let Some(node) = node else {
                self.show_unknown(&name)?;
                continue;
            };
            self.show(&path, &name, node.attr()).named(&name)?;
            if self.args.recursive && node.is_dir() && name != b"." && name != b".." {
                below.push((path, node));
            }
        }
        Ok(below)
    }

    /// Looks up a name in a directory; with `-L`, follows a symbolic link that leads somewhere.
    fn look_up(&self, dir: Ino, path: &[u8], name: &[u8]) -> Option<Node<'v>> {
        let node = self.note_loss(path, child(self.vfs, dir, name))?;
        let is_link = self.args.follow && node.attr().kind == FileKind::Symlink;
        Some(if is_link { resolve(self.vfs, path, true).unwrap_or(node) } else { node })
    }

    /// Sorts by size or time, then by name.
    fn sort(&self, entries: &mut [Entry<'v>]) {
        let attr = |entry: &Entry<'v>| entry.node.as_ref().map(|node| node.attr().clone());
        if self.args.by_size {
            entries.sort_by_cached_key(|entry| Reverse(attr(entry).map(|attr| attr.size)));
        } else if self.args.by_time {
            entries.sort_by_cached_key(|entry| {
                Reverse(attr(entry).map(|attr| self.args.time(&attr)).map(|time| (time.secs, time.nanos)))
            });
        }
        if self.args.reverse {
            entries.reverse();
        }
    }

    /// Returns what was read; nothing if it was lost, which is noted.
    fn note_loss<T>(&self, path: &[u8], read: spindle_vfs::Result<T>) -> Option<T> {
        read.named(path).map_err(self.lost).ok()
    }

    /// Prints the line of a file whose inode cannot be read.
    fn show_unknown(&mut self, name: &[u8]) -> Result<()> {
        if self.args.json {
            return Ok(());
        }
        let mut line = String::new();
        if self.args.inodes {
            line += "       ? ";
        }
        if self.args.blocks {
            line += "     ? ";
        }
        if self.args.long {
            let width = listing::time(Timestamp::new(0, 0), self.args.full_time).len();
            let flags = self.args.flags.then(|| self.flags_column("?"));
            line += &listing::long_unknown(flags.as_deref(), width);
            line.push(' ');
        }
        self.out.line(line + &self.names.show(name))
    }

    /// Returns flags in their column, which is as wide as the longest ones of a directory.
    fn flags_column(&self, flags: &str) -> String {
        format!("{flags:<width$}", width = self.flags_width)
    }

    fn show(&mut self, path: &[u8], name: &[u8], attr: &Attr) -> Result<()> {
        if self.args.json {
            self.found.push(Description::of(&**self.vfs.fs(), path, attr)?);
            return Ok(());
        }
        let args = self.args;
        let mut line = String::new();
        if args.inodes {
            line = format!("{:>8} ", attr.ino.0);
        }
        if args.blocks {
            let space = match (args.human, args.kilobytes) {
                (true, _) => text::human(attr.blocks512 * 512),
                (false, true) => attr.blocks512.div_ceil(2).to_string(),
                (false, false) => attr.blocks512.to_string(),
            };
            let _ = write!(line, "{space:>6} ");
        }
        if args.long {
            let time = listing::time(args.time(attr), args.full_time);
            let flags = args.flags.then(|| self.flags_column(&flags::names(attr.flags)));
            let has_acl = listing::has_acl(&**self.vfs.fs(), attr);
            let size = listing::size(attr, args.human);
            line += &listing::long(attr, has_acl, flags.as_deref(), &size, &time);
            line.push(' ');
        }
        line += &self.names.show(name);
        let mark = listing::mark(attr);
        let is_long_link = args.long && attr.kind == FileKind::Symlink;
        if args.mark && !is_long_link || args.slash && mark == "/" {
            line += mark;
        }
        if is_long_link {
            line += " -> ";
            let target = self.vfs.fs().readlink(attr.ino);
            let target = self.note_loss(path, target).unwrap_or_else(|| b"?".to_vec());
            line += &self.names.show(&target);
        }
        self.out.line(line)
    }
}
