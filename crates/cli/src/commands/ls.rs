//! `spindle ls`

use crate::describe::{Description, is_device};
use crate::error::{Context, Failure, Result};
use crate::image::{self, Losses, ReadArgs};
use crate::output::Output;
use crate::target::Target;
use crate::text;
use spindle::path::{child, names_before_damage, resolve};
use spindle_vfs::{Attr, Error, FileKind, Ino, Node, Vfs};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;

/// List files in an image
///
/// Lists the contents of a directory, sorted by the bytes of the names, or a single file. Control
/// characters, invisible characters, backslashes and bytes that are not UTF-8 are shown as escapes,
/// so that names cannot control the terminal.
///
/// A file that cannot be read in a damaged image is shown with question marks and an error, and the
/// listing goes on. The exit code is then 1.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "EXAMPLES
    spindle ls -l disk.img:/etc
    spindle ls -Ra disk.img@s1a
    spindle ls --json disk.img:/ | jq '.[].path'")]
pub struct Args {
    /// One line for each file: type and permissions, number of links, owner, group, size, time
    /// of the last change (UTC), name
    #[arg(short = 'l')]
    long: bool,
    /// Also show names that start with a dot
    #[arg(short = 'a')]
    all: bool,
    /// Also show everything below directories
    #[arg(short = 'R')]
    recursive: bool,
    /// Show inode numbers
    #[arg(short = 'i')]
    inodes: bool,
    /// Show directories themselves, not their contents
    #[arg(short = 'd')]
    directory: bool,
    /// Print everything as a JSON array
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
    /// The files or directories; an image alone means its root
    #[arg(value_name = "IMAGE[:/PATH]", required = true)]
    targets: Vec<OsString>,
}

struct Lister<'a, 'v> {
    args: &'a Args,
    vfs: &'v Vfs,
    out: &'a mut Output,
    found: &'a mut Vec<Description>,
    lost: &'a dyn Fn(Failure),
    seen: HashSet<u64>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut out = Output::stdout();
    let mut found = Vec::new();
    let losses = Losses::default();
    for target in &args.targets {
        let target = Target::in_image(target)?;
        let lost = |failure| losses.add(&target.image, failure);
        image::read(&target.image, args.read, |vfs| {
            let seen = HashSet::new();
            let mut lister = Lister { args, vfs, out: &mut out, found: &mut found, lost: &lost, seen };
            lister.list(&target.path).context(&target.image)
        })?;
    }
    if args.json {
        out.json(&found)?;
    }
    out.finish()?;
    losses.check()?;
    Ok(ExitCode::SUCCESS)
}

impl<'v> Lister<'_, 'v> {
    fn list(&mut self, path: &[u8]) -> Result<()> {
        let follow = !self.args.long || path.ends_with(b"/");
        let node = resolve(self.vfs, path, follow)?;
        if !node.is_dir() || self.args.directory {
            return self.show(path, path, node.attr());
        }
        let headed = self.args.recursive || self.args.targets.len() > 1;
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
                self.out.line(format!("{}:", text::printable(&path)))?;
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
        if self.args.all {
            names.splice(0..0, [b".".to_vec(), b"..".to_vec()]);
        } else {
            names.retain(|name| !name.starts_with(b"."));
        }
        let base = path.strip_suffix(b"/").unwrap_or(path);
        let mut below = Vec::new();
        for name in names {
            let path = [base, b"/", &name].concat();
            let plain = !self.args.long && !self.args.inodes && !self.args.json && !self.args.recursive;
            if plain {
                self.out.line(text::printable(&name))?;
                continue;
            }
            let found = child(self.vfs, dir, &name);
            let Some(node) = self.note_loss(&path, found) else {
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

    /// Returns what was read; nothing if it was lost, which is noted.
    fn note_loss<T>(&self, path: &[u8], read: spindle_vfs::Result<T>) -> Option<T> {
        read.named(path).map_err(self.lost).ok()
    }

    /// Prints the line of a file whose inode cannot be read.
    fn show_unknown(&mut self, name: &[u8]) -> Result<()> {
        if self.args.json {
            return Ok(());
        }
        let inode = if self.args.inodes { "       ? " } else { "" };
        let long = if self.args.long {
            format!("?????????? {0:>3} {0:>5} {0:>5} {0:>12} {0:>16} ", '?')
        } else {
            String::new()
        };
        self.out.line(format!("{inode}{long}{}", text::printable(name)))
    }

    fn show(&mut self, path: &[u8], name: &[u8], attr: &Attr) -> Result<()> {
        if self.args.json {
            self.found.push(Description::of(&**self.vfs.fs(), path, attr)?);
            return Ok(());
        }
        let mut line = String::new();
        if self.args.inodes {
            line = format!("{:>8} ", attr.ino.0);
        }
        if self.args.long {
            let size = if is_device(attr.kind) {
                format!("{}, {}", attr.rdev.major, attr.rdev.minor)
            } else {
                attr.size.to_string()
            };
            let _ = write!(
                line,
                "{} {:>3} {:>5} {:>5} {size:>12} {} ",
                text::mode_string(attr.kind, attr.perm),
                attr.nlink,
                attr.uid,
                attr.gid,
                text::minute(attr.mtime),
            );
        }
        line += &text::printable(name);
        if self.args.long && attr.kind == FileKind::Symlink {
            line += " -> ";
            let target = self.vfs.fs().readlink(attr.ino);
            let target = self.note_loss(path, target).unwrap_or_else(|| b"?".to_vec());
            line += &text::printable(&target);
        }
        self.out.line(line)
    }
}
