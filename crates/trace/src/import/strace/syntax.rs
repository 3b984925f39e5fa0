//! The syntax of strace's output.
//!
//! Source: strace(1) of strace 6.1, and its output: `-f` adds the process before a line (`1234 `,
//! on a terminal `[pid 1234] `), `-t`, `-tt`, `-ttt` and `-r` the time; `-y` adds the file's name
//! in angle brackets after a descriptor, `-yy` also the kind of device.

/// The time of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// Nanoseconds since 1970 (`-ttt`), or since midnight (`-t`, `-tt`).
    At(i64),
    /// Nanoseconds since the previous line (`-r`).
    Since(i64),
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) process: Option<u32>,
    pub(super) stamp: Option<Stamp>,
    pub(super) kind: LineKind<'a>,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind<'a> {
    /// A complete call, from its name on.
    Call(&'a str),
    /// The beginning of a call, from its name on.
    Unfinished(&'a str),
    /// The rest of a call.
    Resumed(&'a str),
    /// The process (or thread) has ended.
    Exit,
    /// A signal, or a message of strace.
    Message,
}

/// Parses a line; returns `None` if it is not strace's.
pub(super) fn line(text: &str) -> Option<Line<'_>> {
    let text = text.trim();
    if text.starts_with("strace: ") || text.starts_with("[ Process PID=") {
        return Some(Line { process: None, stamp: None, kind: LineKind::Message });
    }
    let (process, text) = process(text);
    let (stamp, text) = stamp(text);
    Some(Line { process, stamp, kind: kind(text)? })
}

fn process(text: &str) -> (Option<u32>, &str) {
    if let Some((inside, rest)) = text.strip_prefix("[pid ").and_then(|rest| rest.split_once(']')) {
        return (inside.trim().parse().ok(), rest.trim_start());
    }
    // A number and a space; times contain a point or colons.
    match text.split_once(' ') {
        Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            (number.parse().ok(), rest.trim_start())
        }
        _ => (None, text),
    }
}

fn stamp(text: &str) -> (Option<Stamp>, &str) {
    let Some((word, rest)) = text.split_once(' ') else { return (None, text) };
    match time(word) {
        Some(stamp) => (Some(stamp), rest.trim_start()),
        None => (None, text),
    }
}

fn time(word: &str) -> Option<Stamp> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let clock: Vec<&str> = whole.split(':').collect();
    let nanos = nanos(fraction)?;
    let number = |digits: &str| -> Option<i64> {
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(())?;
        digits.parse().ok()
    };
    let seconds = match clock[..] {
        [seconds] if !fraction.is_empty() => number(seconds)?,
        [hours, minutes, seconds] => number(hours)?
            .checked_mul(3600)?
            .checked_add(number(minutes)?.checked_mul(60)?)?
            .checked_add(number(seconds)?)?,
        _ => return None,
    };
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    // No log is from 1970, and no call takes ten days.
    Some(if clock.len() == 1 && seconds < 1_000_000 { Stamp::Since(at) } else { Stamp::At(at) })
}

fn nanos(fraction: &str) -> Option<i64> {
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{fraction:0<9}").parse().ok()
}

fn kind(text: &str) -> Option<LineKind<'_>> {
    if text.starts_with("+++ ") {
        let gone = ["exited", "killed", "superseded"].iter().any(|word| text[4..].starts_with(word));
        return Some(if gone { LineKind::Exit } else { LineKind::Message });
    }
    if text.starts_with("--- ") {
        return Some(LineKind::Message);
    }
    if let Some(rest) = text.strip_prefix("<... ") {
        let (_, rest) = rest.split_once(" resumed>")?;
        return Some(LineKind::Resumed(rest));
    }
    let name = text.split('(').next().unwrap_or("");
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    // `????` is a call whose name strace did not see.
    if name.len() == text.len() || name.is_empty() || !(name == "????" || name.bytes().all(is_name)) {
        return None;
    }
    match text.strip_suffix("<unfinished ...>") {
        // `exit_group(0 <unfinished ...>) = ?` is complete.
        Some(head) => Some(LineKind::Unfinished(head.trim_end())),
        None => Some(LineKind::Call(text)),
    }
}

/// A complete call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) args: Vec<&'a str>,
    /// Text after the equals sign.
    pub(super) result: &'a str,
    /// Duration (`-T`) in nanoseconds.
    pub(super) took: Option<i64>,
}

impl<'a> Call<'a> {
    /// Parses a call.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        let (args, rest) = arguments(rest)?;
        let result = rest.trim_start().strip_prefix('=')?.trim();
        let (result, took) = match result.rsplit_once(" <").map(|(result, took)| (result, duration(took))) {
            Some((result, Some(took))) => (result.trim_end(), Some(took)),
            _ => (result, None),
        };
        Some(Self { name, args, result, took })
    }

    /// Returns the numeric result, unless the call failed.
    pub(super) fn returned(&self) -> Option<u64> {
        let end = self.result.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.result.len());
        as_signed_size(self.result[..end].parse().ok()?)
    }

    /// Returns the number of bytes transferred; no call of Linux transfers 2 GiB or more.
    pub(super) fn transferred(&self) -> Option<u64> {
        self.returned().filter(|bytes| i32::try_from(*bytes).is_ok())
    }

    /// Returns true if the call succeeded; an address is a success, too.
    pub(super) fn succeeded(&self) -> bool {
        self.result.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Returns an argument, or an empty text if it is missing.
    pub(super) fn arg(&self, number: usize) -> &'a str {
        self.args.get(number).copied().unwrap_or("")
    }

    /// Returns an argument as a number (decimal or hexadecimal, not negative).
    pub(super) fn number(&self, number: usize) -> Option<u64> {
        integer(self.arg(number))
    }
}

/// Parses the seconds before a closing bracket into nanoseconds.
fn duration(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.strip_suffix('>')?.split_once('.')?;
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos(fraction)?)
}

/// Parses a number as strace writes it.
pub(super) fn integer(text: &str) -> Option<u64> {
    as_signed_size(match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    })
}

/// Returns a number if it is possible as a size or position, which are signed 64-bit numbers.
fn as_signed_size(number: u64) -> Option<u64> {
    i64::try_from(number).is_ok().then_some(number)
}

/// Splits the text after an opening parenthesis into the arguments and the text after the closing
/// one.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let bytes = text.as_bytes();
    let (mut args, mut start, mut depth, mut at) = (Vec::new(), 0, 0_u32, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = quoted(bytes, at)?,
            b'/' if bytes.get(at + 1) == Some(&b'*') => at = at + 2 + text[at + 2..].find("*/")? + 1,
            b'<' if opens_label(bytes, at) => at = label_end(bytes, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim();
                if !(args.is_empty() && last.is_empty()) {
                    args.push(last);
                }
                return Some((args, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                args.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the index of the quote that closes the one at `at`.
fn quoted(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    while *bytes.get(at)? != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

/// Returns true if the bracket at `at` follows a descriptor and is not a shift.
fn opens_label(bytes: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| bytes[before]);
    before.is_some_and(|byte| byte.is_ascii_digit() || byte == b'D') && bytes.get(at + 1) != Some(&b'<')
}

/// Returns the index of the bracket that closes the label opened at `at`; labels nest and may
/// contain arrows.
fn label_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_u32;
    for (place, &byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'<' => depth += 1,
            b'>' if matches!(bytes[place - 1], b'-' | b'=') => {}
            b'>' if depth == 1 => return Some(place),
            b'>' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The object that a descriptor refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// Not shown.
    Unknown,
    /// A file or directory, with its name.
    File(String),
    /// A file without a name, with its former name.
    Deleted(String),
    /// A pipe, a socket, a device.
    Other,
}

/// Parses a descriptor: its number (`None` for `AT_FDCWD`) and its object. Returns `None` if the
/// text is not a descriptor.
pub(super) fn descriptor(text: &str) -> Option<(Option<i32>, Label)> {
    let (number, label) = match text.find('<') {
        Some(at) => (&text[..at], &text[at..]),
        None => (text.split(' ').next().unwrap_or(""), ""),
    };
    let number =
        if number == "AT_FDCWD" { None } else { Some(number.parse::<i32>().ok().filter(|fd| *fd >= 0)?) };
    if label.is_empty() {
        return Some((number, Label::Unknown));
    }
    let end = label_end(label.as_bytes(), 0)?;
    let (inside, rest) = (&label[1..end], &label[end + 1..]);
    let label = if !inside.starts_with('/') || inside.contains('<') {
        Label::Other
    } else if rest.starts_with("(deleted)") {
        Label::Deleted(unescaped(inside))
    } else {
        Label::File(unescaped(inside))
    };
    Some((number, label))
}

/// Returns the text between quotes without escapes; `None` if it is not quoted or was shortened.
pub(super) fn text(arg: &str) -> Option<String> {
    let inside = arg.strip_prefix('"')?.strip_suffix('"')?;
    Some(unescaped(inside))
}

/// Replaces escapes; bytes that are not UTF-8 become U+FFFD.
fn unescaped(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        let [escape, after @ ..] = rest else { break };
        let digits = |base: u32, most: usize, from: &[u8]| {
            let digit = |byte: &u8| char::from(*byte).to_digit(base);
            let len = from.iter().take(most).take_while(|byte| digit(byte).is_some()).count();
            let value = from[..len].iter().filter_map(digit).fold(0, |value, digit| value * base + digit);
            // A larger value is not an escape of strace; keep its low byte.
            (value.to_le_bytes()[0], len)
        };
        let (byte, len) = match escape {
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            b'r' => (b'\r', 1),
            b'v' => (0x0b, 1),
            b'f' => (0x0c, 1),
            b'x' => {
                let (byte, len) = digits(16, 2, after);
                (byte, len + 1)
            }
            b'0'..=b'7' => digits(8, 3, rest),
            other => (*other, 1),
        };
        out.push(byte);
        rest = &rest[len..];
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the value of a field in a structure, such as `st_size=12`.
pub(super) fn field<'a>(structure: &'a str, name: &str) -> Option<&'a str> {
    let at = structure.find(&format!("{name}="))? + name.len() + 1;
    let rest = &structure[at..];
    Some(&rest[..rest.find([',', '}']).unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Call<'_> {
        Call::parse(text).unwrap_or_else(|| panic!("{text}"))
    }

    /// Promise: the process and the time are found in all forms that strace has, and are not
    /// confused.
    #[test]
    fn prefixes() {
        for (text, process, stamp) in [
            ("close(3) = 0", None, None),
            ("77 close(3) = 0", Some(77), None),
            ("[pid    77] close(3) = 0", Some(77), None),
            ("77  1795326858.393002 close(3) = 0", Some(77), Some(Stamp::At(1_795_326_858_393_002_000))),
            ("1795326858.393002123 close(3) = 0", None, Some(Stamp::At(1_795_326_858_393_002_123))),
            ("77 01:00:02 close(3) = 0", Some(77), Some(Stamp::At(3_602_000_000_000))),
            ("01:00:02.5 close(3) = 0", None, Some(Stamp::At(3_602_500_000_000))),
            ("     0.000012 close(3) = 0", None, Some(Stamp::Since(12_000))),
        ] {
            assert_eq!(
                line(text),
                Some(Line { process, stamp, kind: LineKind::Call("close(3) = 0") }),
                "{text}"
            );
        }
        for (text, what) in [
            ("77 +++ exited with 0 +++", LineKind::Exit),
            ("77 +++ killed by SIGKILL (core dumped) +++", LineKind::Exit),
            ("77 --- SIGCHLD {si_signo=SIGCHLD} ---", LineKind::Message),
            ("strace: Process 77 attached", LineKind::Message),
            ("77 <... read resumed>\"\", 4) = 0", LineKind::Resumed("\"\", 4) = 0")),
            ("77 read(3,  <unfinished ...>", LineKind::Unfinished("read(3,")),
        ] {
            assert_eq!(line(text).map(|line| line.kind), Some(what), "{text}");
        }
        for text in ["", "hello", "a b(c)", "12,34"] {
            assert_eq!(line(text), None, "{text}");
        }
    }

    /// Promise: arguments are split at their commas, whatever texts, structures and labels contain.
    #[test]
    fn arguments_are_split() {
        let read = call(r#"read(3</a,b(c)>, "x\", )"..., 4096)   = 17"#);
        assert_eq!(read.args, ["3</a,b(c)>", r#""x\", )"..."#, "4096"]);
        assert_eq!((read.name, read.returned(), read.number(2)), ("read", Some(17), Some(4096)));
        let open =
            call(r#"openat(AT_FDCWD</>, "a", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000012>"#);
        assert_eq!((open.returned(), open.succeeded(), open.took), (None, false, Some(12_000)));
        let open = call("open(\"a\", O_RDONLY) = 3</a> <1.000001>");
        assert_eq!((open.result, open.took), ("3</a>", Some(1_000_001_000)));
        assert_eq!(call("getpid() = 7").args, [""; 0]);
        let socket = call("sendfile(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, 3</a>, [0] => [20], 20) = 20");
        assert_eq!(socket.args[2], "[0] => [20]");
        assert_eq!(call("mmap(NULL, 4, PROT_NONE, MAP_X|21<<MAP_HUGE_SHIFT, -1, 0) = 0x7f00").args.len(), 6);
        assert!(call("mmap(NULL) = 0x7f00").succeeded());
        assert_eq!(call("fork() = 5").arg(3), "");
        for text in ["read(3", "read(3)", "read(3, \"a) = 1", "read(]) = 1", "x", "a(b<) 1"] {
            assert_eq!(Call::parse(text), None, "{text}");
        }
    }

    /// Promise: descriptors are files, deleted files or other objects, with their names.
    #[test]
    fn descriptors() {
        for (text, fd, label) in [
            ("3", Some(3), Label::Unknown),
            ("3 (flags O_RDWR)", Some(3), Label::Unknown),
            ("AT_FDCWD", None, Label::Unknown),
            ("AT_FDCWD</tmp>", None, Label::File("/tmp".into())),
            (r"3</tmp/a\74b\76\x20c\303\244>", Some(3), Label::File("/tmp/a<b> cä".into())),
            ("3</tmp/p>(deleted)", Some(3), Label::Deleted("/tmp/p".into())),
            ("1</dev/null<char 1:3>>", Some(1), Label::Other),
            ("4<pipe:[123]>", Some(4), Label::Other),
            ("4<TCP:[127.0.0.1:1->127.0.0.1:2]>", Some(4), Label::Other),
        ] {
            assert_eq!(descriptor(text), Some((fd, label)), "{text}");
        }
        for text in ["-1", "", "NULL", "-1 EBADF (Bad file descriptor)", "3<"] {
            assert_eq!(descriptor(text), None, "{text}");
        }
        assert_eq!(text(r#""/a\n""#).as_deref(), Some("/a\n"));
        assert_eq!(text("0x7ffe"), None);
        assert_eq!(text(r#""/a"..."#), None);
        assert_eq!(field("{st_mode=S_IFREG|0644, st_size=12, ...}", "st_size"), Some("12"));
        assert_eq!(field("{st_size=12}", "st_size"), Some("12"));
        assert_eq!(field("{...}", "st_size"), None);
    }
}
