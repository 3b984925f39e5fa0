//! The words of the expressions of `find`.

use super::expression::{Action, Clock, Expression, Number, Permissions, Test};
use crate::commands::touch::times_of;
use crate::date;
use crate::error::{Failure, Result};
use spindle::mode::Mode;
use spindle::pattern::Pattern;
use spindle_vfs::FileKind;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Seconds of a day.
const DAY: i64 = 86_400;
/// How deep parentheses and negations may lie in each other.
const DEEPEST: usize = 200;

/// A whole expression, and what it says about the walk.
#[derive(Debug)]
pub struct Parsed {
    /// The expression; it has an action.
    pub expression: Expression,
    /// The deepest files to look at.
    pub max_depth: usize,
    /// The files to pass over at the top.
    pub min_depth: usize,
    /// A directory comes after what is in it.
    pub depth_first: bool,
}

/// Returns true for words that begin an expression.
pub fn begins_expression(word: &OsStr) -> bool {
    let bytes = word.as_bytes();
    bytes.len() > 1 && bytes[0] == b'-' || matches!(bytes, b"!" | b"(" | b")")
}

/// Parses the words of an expression.
pub fn parse(words: &[OsString]) -> Result<Parsed> {
    let mut parser = Parser {
        words,
        at: 0,
        nested: 0,
        acts: false,
        max_depth: usize::MAX,
        min_depth: 0,
        depth_first: false,
    };
    let mut expression =
        if words.is_empty() { Expression::And(Vec::new()) } else { parser.alternatives()? };
    if let Some(word) = parser.words.get(parser.at) {
        return Err(Failure::usage(format!("find: '{}' is here without what belongs to it", word.display())));
    }
    if !parser.acts {
        expression = Expression::And(vec![expression, Expression::Action(Action::Print)]);
    }
    let Parser { max_depth, min_depth, depth_first, .. } = parser;
    Ok(Parsed { expression, max_depth, min_depth, depth_first })
}

struct Parser<'a> {
    words: &'a [OsString],
    at: usize,
    nested: usize,
    /// True once an action was named that replaces `-print`.
    acts: bool,
    max_depth: usize,
    min_depth: usize,
    depth_first: bool,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.words.get(self.at).map(|word| word.as_bytes())
    }

    fn alternatives(&mut self) -> Result<Expression> {
        let mut any = vec![self.conjunction()?];
        while matches!(self.peek(), Some(b"-o" | b"-or")) {
            self.at += 1;
            any.push(self.conjunction()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Expression::Or(any) })
    }

    fn conjunction(&mut self) -> Result<Expression> {
        let mut all = vec![self.factor()?];
        loop {
            match self.peek() {
                None | Some(b"-o" | b"-or" | b")") => break,
                Some(b"-a" | b"-and") => self.at += 1,
                Some(_) => {}
            }
            all.push(self.factor()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Expression::And(all) })
    }

    fn factor(&mut self) -> Result<Expression> {
        let word = self.words.get(self.at);
        let Some(word) = word else {
            let last = self.words.last().map_or("", |word| word.to_str().unwrap_or(""));
            return Err(Failure::usage(format!("find: nothing follows '{last}'")));
        };
        self.at += 1;
        match word.as_bytes() {
            b"!" | b"-not" | b"(" if self.nested == DEEPEST => {
                Err(Failure::usage("find: the expression is nested too deeply"))
            }
            b"!" | b"-not" => {
                self.nested += 1;
                let inner = self.factor()?;
                self.nested -= 1;
                Ok(Expression::Not(Box::new(inner)))
            }
            b"(" => {
                self.nested += 1;
                let inner = self.alternatives()?;
                self.nested -= 1;
                if self.peek() != Some(b")") {
                    return Err(Failure::usage("find: a '(' has no ')'"));
                }
                self.at += 1;
                Ok(inner)
            }
            _ => {
                let shown = word.display().to_string();
                self.primary(&shown)
            }
        }
    }

    /// Returns the word behind the primary `name`, which belongs to it.
    fn argument(&mut self, name: &str) -> Result<&'a OsStr> {
        let word = self.words.get(self.at);
        self.at += 1;
        word.map(OsString::as_os_str).ok_or_else(|| Failure::usage(format!("find: {name} needs an argument")))
    }

    /// Parses the word behind the primary `name`; `want` says what it should be.
    fn value<T>(&mut self, name: &str, want: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T> {
        let word = self.argument(name)?;
        word.to_str().and_then(parse).ok_or_else(|| {
            Failure::usage(format!("find: {name} {}: give {want}", crate::text::quoted(word.as_bytes())))
        })
    }

    fn number(&mut self, name: &str) -> Result<Number> {
        self.value(name, "a number: N, +N for more or -N for less", Number::parse)
    }

    fn owner(&mut self, name: &str) -> Result<Number> {
        self.value(name, "a number; an image has users of its own, see its /etc/passwd", Number::parse)
    }

    fn pattern(&mut self, name: &str, ignore_case: bool) -> Result<Pattern> {
        Ok(Pattern::new(self.argument(name)?.as_bytes(), ignore_case))
    }

    fn age(&mut self, name: &str, clock: Clock, unit: i64) -> Result<Expression> {
        let (number, unit) = self.value(name, "a number, with s, m, h, d or w if not days", |text| {
            let unit_of = |letter| match letter {
                b's' => Some(1),
                b'm' => Some(60),
                b'h' => Some(3600),
                b'd' => Some(DAY),
                b'w' => Some(7 * DAY),
                _ => None,
            };
            match text.as_bytes().last().copied().and_then(unit_of) {
                Some(unit) => Some((Number::parse(&text[..text.len() - 1])?, unit)),
                None => Some((Number::parse(text)?, unit)),
            }
        })?;
        Ok(Expression::Test(Test::Age(clock, number, unit)))
    }

    fn act(&mut self, action: Action) -> Expression {
        self.acts |= !matches!(action, Action::Prune | Action::Quit);
        Expression::Action(action)
    }

    fn primary(&mut self, name: &str) -> Result<Expression> {
        let depth = |text: &str| text.parse::<usize>().ok();
        let test = match name {
            "-name" => Test::Name(self.pattern(name, false)?),
            "-iname" => Test::Name(self.pattern(name, true)?),
            "-path" | "-wholename" => Test::Path(self.pattern(name, false)?),
            "-ipath" | "-iwholename" => Test::Path(self.pattern(name, true)?),
            "-type" => Test::Kind(self.value(name, "one of b, c, d, f, l, p, s", |text| {
                Some(match text {
                    "b" => FileKind::BlockDevice,
                    "c" => FileKind::CharDevice,
                    "d" => FileKind::Directory,
                    "f" => FileKind::Regular,
                    "l" => FileKind::Symlink,
                    "p" => FileKind::Fifo,
                    "s" => FileKind::Socket,
                    _ => return None,
                })
            })?),
            "-size" => {
                let want = "a number of 512-byte blocks, with c for bytes, or k, M, G, T";
                let (number, unit) = self.value(name, want, |text| {
                    let unit = match text.as_bytes().last()? {
                        b'c' => 1,
                        b'k' => 1 << 10,
                        b'M' => 1 << 20,
                        b'G' => 1 << 30,
                        b'T' => 1 << 40,
                        _ => return Some((Number::parse(text)?, 512)),
                    };
                    Some((Number::parse(&text[..text.len() - 1])?, unit))
                })?;
                Test::Size(number, unit)
            }
            "-mtime" => return self.age(name, Clock::Changed, DAY),
            "-atime" => return self.age(name, Clock::Read, DAY),
            "-ctime" => return self.age(name, Clock::Status, DAY),
            "-mmin" => Test::Age(Clock::Changed, self.number(name)?, 60),
            "-amin" => Test::Age(Clock::Read, self.number(name)?, 60),
            "-cmin" => Test::Age(Clock::Status, self.number(name)?, 60),
            "-newer" | "-mnewer" => Test::Newer(Clock::Changed, times_of(self.argument(name)?, true)?.1),
            "-newermt" => {
                let date =
                    self.value(name, "a date like 2026-05-20T16:49:03", |text| date::parse(text).ok())?;
                Test::Newer(Clock::Changed, date)
            }
            "-user" | "-uid" => Test::Uid(self.owner(name)?),
            "-group" | "-gid" => Test::Gid(self.owner(name)?),
            "-links" => Test::Links(self.number(name)?),
            "-inum" => Test::Inode(self.number(name)?),
            "-perm" => {
                let want = "permissions, with - for all of these or / for any of these";
                Test::Permissions(self.value(name, want, |text| {
                    let (form, mode): (fn(u32) -> Permissions, _) = match text.as_bytes().first()? {
                        b'-' => (Permissions::AllOf, &text[1..]),
                        b'/' | b'+' => (Permissions::AnyOf, &text[1..]),
                        _ => (Permissions::Exactly, text),
                    };
                    Some(form(mode.parse::<Mode>().ok()?.apply(0, false, 0)))
                })?)
            }
            "-empty" => Test::Empty,
            // An image has no mounts in it.
            "-true" | "-xdev" | "-mount" | "-x" => Test::Constant(true),
            "-false" => Test::Constant(false),
            "-maxdepth" => {
                self.max_depth = self.value(name, "a number of levels", depth)?;
                Test::Constant(true)
            }
            "-mindepth" => {
                self.min_depth = self.value(name, "a number of levels", depth)?;
                Test::Constant(true)
            }
            "-depth" | "-d" => {
                self.depth_first = true;
                Test::Constant(true)
            }
            "-print" => return Ok(self.act(Action::Print)),
            "-print0" => return Ok(self.act(Action::PrintZero)),
            "-ls" => return Ok(self.act(Action::List)),
            "-prune" => return Ok(self.act(Action::Prune)),
            "-quit" => return Ok(self.act(Action::Quit)),
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                return Err(Failure::usage(format!(
                    "find: {name} is not here, because programs cannot open files in an image; \
                     pass the names of -print0 to xargs -0, or mount the image"
                )));
            }
            "-delete" => {
                return Err(Failure::usage("find: -delete is not here; pass the names to spindle rm"));
            }
            "-follow" | "-L" | "-H" => {
                return Err(Failure::usage(format!(
                    "find: {name} is not here; symbolic links are not followed"
                )));
            }
            "-o" | "-or" | "-a" | "-and" | ")" => {
                return Err(Failure::usage(format!("find: nothing stands before '{name}'")));
            }
            _ if !name.starts_with('-') => {
                return Err(Failure::usage(format!(
                    "find: '{name}' is no part of an expression; images come before it"
                )));
            }
            _ => {
                let near = crate::suggest::nearest(name, KNOWN.iter().copied());
                return Err(Failure::usage(format!(
                    "find: {name} is not known here{}; see spindle find --help",
                    crate::suggest::did_you_mean(near)
                )));
            }
        };
        Ok(Expression::Test(test))
    }
}

/// The primaries that there are.
const KNOWN: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-type",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-newer",
    "-newermt",
    "-user",
    "-uid",
    "-group",
    "-gid",
    "-links",
    "-inum",
    "-perm",
    "-empty",
    "-true",
    "-false",
    "-maxdepth",
    "-mindepth",
    "-depth",
    "-xdev",
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-not",
];

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_clock::Timestamp;
    use spindle_vfs::{Attr, Ino, Rdev};

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn attr() -> Attr {
        let time = Timestamp::new(1_000_000, 0);
        Attr {
            ino: Ino(7),
            generation: 1,
            kind: FileKind::Regular,
            perm: 0o4755,
            nlink: 2,
            uid: 1001,
            gid: 5,
            rdev: Rdev::default(),
            size: 1025,
            blocks512: 8,
            blksize: 4096,
            atime: time,
            mtime: time,
            ctime: time,
            birthtime: None,
            flags: 0,
        }
    }

    fn fits(expression: &Expression) -> bool {
        let now = Timestamp::new(1_000_000 + 3 * DAY + 5, 0);
        match expression {
            Expression::And(all) => all.iter().all(fits),
            Expression::Or(any) => any.iter().any(fits),
            Expression::Not(inner) => !fits(inner),
            Expression::Test(test) => {
                test.fits(b"/usr/Makefile", b"Makefile", &attr(), now, &|| Ok(false)).unwrap()
            }
            Expression::Action(_) => true,
        }
    }

    /// Promise: tests, operators and their precedence are those of find(1).
    #[test]
    fn expressions_are_those_of_find() {
        for (text, want) in [
            ("", true),
            ("-name Make*", true),
            ("-name make*", false),
            ("-iname make*", true),
            ("-path *usr*", true),
            ("-name *usr*", false),
            ("-type f", true),
            ("-type d", false),
            ("-size 3", true),
            ("-size +2", true),
            ("-size -3", false),
            ("-size 1025c", true),
            ("-size 2k", true),
            ("-mtime 3", true),
            ("-mtime +2", true),
            ("-mtime -3", false),
            ("-mtime +71h", true),
            ("-mmin +4319", true),
            ("-newermt 1970-01-12", true),
            ("-newermt 1980-01-01", false),
            ("-uid 1001 -gid 5", true),
            ("-user +1001", false),
            ("-links +1 -inum 7", true),
            ("-perm 755", false),
            ("-perm 4755", true),
            ("-perm -u+s", true),
            ("-perm /022", false),
            ("-perm -4000 -o -false", true),
            ("! -type f -o -true", true),
            ("! ( -type f -o -true )", false),
            ("-false -true -o -true", true),
            ("-true -o -true -false", true),
            ("-false -a ( -true -o -true )", false),
            ("-not -false", true),
            ("-empty", false),
            ("-maxdepth 2 -mindepth 1", true),
        ] {
            let parsed = parse(&words(text)).unwrap();
            assert_eq!(fits(&parsed.expression), want, "{text}");
        }
        let parsed = parse(&words("-maxdepth 2 -mindepth 1 -depth -print0")).unwrap();
        assert_eq!((parsed.max_depth, parsed.min_depth, parsed.depth_first), (2, 1, true));
    }

    /// Promise: what is no expression is refused with its word and what should stand there.
    #[test]
    fn other_words_are_refused() {
        for (text, wanted) in [
            ("-name", "-name needs an argument"),
            ("-type x", "give one of b, c, d"),
            ("-size 3x", "512-byte blocks"),
            ("-size +-3", "512-byte blocks"),
            ("-user root", "users of its own"),
            ("-perm u", "give permissions"),
            ("( -type f", "has no ')'"),
            ("-type f )", "')' is here without"),
            ("-type f -o", "nothing follows '-o'"),
            ("-o -type f", "nothing stands before '-o'"),
            ("!", "nothing follows '!'"),
            ("-exec rm {} ;", "xargs -0"),
            ("-delete", "spindle rm"),
            ("-nam x", "did you mean -name"),
            ("-regex x", "not known here"),
            ("-true file", "'file' is no part"),
            ("-mtime yesterday", "a number"),
        ] {
            let failure = parse(&words(text)).unwrap_err();
            assert!(failure.to_string().contains(wanted), "{text}: {failure}");
            assert_eq!(failure.code(), crate::error::USAGE);
        }
        let deep = parse(&words(&"! ".repeat(100_000))).unwrap_err();
        assert!(deep.to_string().contains("nested too deeply"));
    }
}
