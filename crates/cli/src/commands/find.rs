//! `spindle find`

mod expression;
mod parse;

use crate::error::{Context, Failure, Result};
use crate::image::{self, Losses, ReadArgs};
use crate::interrupt;
use crate::listing::{self, Names};
use crate::output::Output;
use crate::text::encoded;
use expression::{Action, Expression};
use parse::{Parsed, begins_expression};
use spindle::path::{names_before_damage, resolve};
use spindle::walk::{Visit, Walk, When};
use spindle_clock::{Clock, SystemClock, Timestamp};
use spindle_vfs::{FileKind, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Find files in an image
///
/// Goes through directories with everything below them, and prints the paths for which the
/// EXPRESSION is true. It has the words of find(1):
///
/// -name, -iname, -path, -ipath PATTERN; -type b|c|d|f|l|p|s; -size [+-]N[c|k|M|G|T];
/// -mtime, -atime, -ctime [+-]N[s|m|h|d|w]; -mmin, -amin, -cmin [+-]N; -newer FILE,
/// -newermt DATE; -uid, -gid, -links, -inum [+-]N; -perm [-|/]MODE; -empty; -maxdepth,
/// -mindepth N; -depth; -prune; -quit; -true; -false; -print, -print0, -ls; and ! ( ) -a -o.
///
/// -print escapes special characters, so that each path is one line; -print0 writes the bytes of
/// the path and a zero byte, for xargs -0. Symbolic links are not followed. -user and -group are
/// -uid and -gid, because an image has users of its own.
///
/// What cannot be read in a damaged image is listed on standard error and passed over. The exit
/// code is then 1.
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "spindle find [OPTIONS] IMAGE[:/PATH]... [EXPRESSION]",
    after_long_help = "EXAMPLES
    spindle find disk.img:/usr -name '*.c' -size +100k
    spindle find disk.img -type f -perm -4000 -ls
    spindle find disk.img:/etc -newer disk.img:/etc/passwd
    spindle find disk.img ! -type d -empty -print0 | xargs -0 -n 1 echo"
)]
pub struct Args {
    #[command(flatten)]
    read: ReadArgs,
    /// The directories, then the expression; an image alone means its root
    #[arg(
        value_name = "IMAGE[:/PATH]",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    words: Vec<OsString>,
}

/// What goes on after a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wishes {
    prune: bool,
    quit: bool,
}

struct Finder<'a> {
    vfs: &'a Vfs,
    out: &'a mut Output,
    now: Timestamp,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode> {
    let expression = args.words.iter().position(|word| begins_expression(word)).unwrap_or(args.words.len());
    let (targets, words) = args.words.split_at(expression);
    if targets.is_empty() {
        return Err(Failure::usage("find: name an image before the expression"));
    }
    let parsed = parse::parse(words)?;
    let mut out = Output::stdout();
    let losses = Losses::default();
    let now = SystemClock.now();
    let mut quit = false;
    let code = image::read_each(targets, args.read, |vfs, target, _| {
        if quit {
            return Ok(());
        }
        let node = resolve(vfs, &target.path, target.path.ends_with(b"/"))?;
        let walk = Walk::new(&target.path, node);
        let lost = |failure: Failure| losses.add(&target.image, failure);
        quit = Finder { vfs, out: &mut out, now }.walk(walk, &parsed, &lost)?;
        Ok(())
    })?;
    out.finish()?;
    losses.check()?;
    Ok(code)
}

impl Finder<'_> {
    /// Goes through a tree. Returns true if the command shall end.
    fn walk(&mut self, mut walk: Walk<'_>, parsed: &Parsed, lost: &dyn Fn(Failure)) -> Result<bool> {
        let turn = if parsed.depth_first { When::After } else { When::Before };
        while let Some(visit) = walk.next() {
            interrupt::check()?;
            let visit = match visit {
                Ok(visit) => visit,
                Err(error) => {
                    lost(error.into());
                    continue;
                }
            };
            let mut wishes = Wishes::default();
            if (visit.when == When::Once || visit.when == turn) && visit.depth >= parsed.min_depth {
                match self.evaluate(&parsed.expression, &visit, &mut wishes).named(&visit.path) {
                    Err(failure @ Failure::Message { .. }) => lost(failure),
                    other => drop(other?),
                }
            }
            if wishes.quit {
                return Ok(true);
            }
            if visit.when == When::Before && (wishes.prune || visit.depth >= parsed.max_depth) {
                walk.prune();
            }
        }
        Ok(false)
    }

    fn evaluate(&mut self, expression: &Expression, visit: &Visit, wishes: &mut Wishes) -> Result<bool> {
        match expression {
            Expression::And(all) => {
                for one in all {
                    if !self.evaluate(one, visit, wishes)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Expression::Or(any) => {
                for one in any {
                    if self.evaluate(one, visit, wishes)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Expression::Not(inner) => Ok(!self.evaluate(inner, visit, wishes)?),
            Expression::Test(test) => {
                let is_empty = || match names_before_damage(self.vfs, visit.attr.ino) {
                    (names, None) => Ok(names.is_empty()),
                    (_, Some(error)) => Err(error.into()),
                };
                test.fits(&visit.path, visit.name(), &visit.attr, self.now, &is_empty)
            }
            Expression::Action(action) => self.act(*action, visit, wishes).map(|()| true),
        }
    }

    fn act(&mut self, action: Action, visit: &Visit, wishes: &mut Wishes) -> Result<()> {
        if wishes.quit {
            return Ok(());
        }
        match action {
            Action::Print => self.out.line(encoded(&visit.path)),
            Action::PrintZero => {
                self.out.bytes(&visit.path)?;
                self.out.bytes(b"\0")
            }
            Action::List => self.list(visit),
            Action::Prune => {
                wishes.prune = true;
                Ok(())
            }
            Action::Quit => {
                wishes.quit = true;
                Ok(())
            }
        }
    }

    fn list(&mut self, visit: &Visit) -> Result<()> {
        let attr = &visit.attr;
        let has_acl = listing::has_acl(&**self.vfs.fs(), attr);
        let (size, time) = (listing::size(attr, false), listing::time(attr.mtime, false));
        let long = listing::long(attr, has_acl, None, &size, &time);
        let names = Names::Escaped;
        let mut line = format!("{:>8} {:>6} {long} {}", attr.ino.0, attr.blocks512, names.show(&visit.path));
        if attr.kind == FileKind::Symlink {
            line += " -> ";
            line += &names.show(&self.vfs.fs().readlink(attr.ino)?);
        }
        self.out.line(line)
    }
}
