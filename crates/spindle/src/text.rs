//! Names, messages and numbers as text; names such that they cannot control a terminal.

use std::fmt::Write;

/// Returns a name or path as one line for people: [`encoded`], with invisible characters escaped
/// ([`terminal_safe`]).
#[must_use]
pub fn printable(name: &[u8]) -> String {
    terminal_safe(&encoded(name))
}

/// Returns a name or path as text for programs: control characters, backslashes and bytes that are
/// not UTF-8 are escaped.
#[must_use]
pub fn encoded(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_control() {
                out.extend(c.escape_default());
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Returns a name or path so that it can be pasted into a shell: as it is if it has only characters
/// that mean themselves there, otherwise in quotes. A name with control characters, invisible
/// characters or bytes that are not UTF-8 becomes `$'...'`, which all shells but the smallest know.
#[must_use]
pub fn quoted(name: &[u8]) -> String {
    let text = std::str::from_utf8(name).ok().filter(|text| terminal_safe(text) == *text);
    let Some(text) = text else { return dollar_quoted(name) };
    let first_is_special = text.starts_with(['~', '#']);
    if !text.is_empty() && !first_is_special && !text.contains(|c| SPECIAL.contains(c)) {
        return text.to_owned();
    }
    if !text.contains('\'') {
        format!("'{text}'")
    } else if text.contains(['"', '$', '`', '\\', '!']) {
        format!("'{}'", text.replace('\'', r"'\''"))
    } else {
        format!("\"{text}\"")
    }
}

/// Characters that mean something to a shell wherever they stand.
const SPECIAL: &str = " !\"$&'()*;<>?[\\]^`{|}";

/// Returns a name as `$'...'`, with octal numbers for all bytes of characters that are not plain.
fn dollar_quoted(name: &[u8]) -> String {
    let mut out = String::from("$'");
    let octal = |out: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(out, "\\{byte:03o}");
        }
    };
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out += "\\n",
                '\t' => out += "\\t",
                '\r' => out += "\\r",
                '\'' | '\\' => out.extend(['\\', c]),
                _ if terminal_safe(c.encode_utf8(&mut [0; 4])).chars().eq([c]) => out.push(c),
                _ => octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('\'');
    out
}

/// Returns a number of things, each of which is called `one`: "1 file", "2 files". For words whose
/// plural takes an s.
#[must_use]
pub fn counted(n: impl Into<u64>, one: &str) -> String {
    let n = n.into();
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Returns a number of bytes in at most four characters, as `-h` of the BSD commands prints it:
/// `512B`, `1.5K`, `20G`.
#[must_use]
pub fn human(n: u64) -> String {
    if n < 1000 {
        return format!("{n}B");
    }
    let in_units = |n: u128, shift: u32| (n + (1 << shift >> 1)) >> shift;
    for (shift, unit) in [(10, 'K'), (20, 'M'), (30, 'G'), (40, 'T'), (50, 'P')] {
        let tenths = in_units(u128::from(n) * 10, shift);
        if tenths < 100 {
            return format!("{}.{}{unit}", tenths / 10, tenths % 10);
        }
        let whole = in_units(n.into(), shift);
        if whole < 1000 {
            return format!("{whole}{unit}");
        }
    }
    let tenths = in_units(u128::from(n) * 10, 60);
    if tenths < 100 {
        format!("{}.{}E", tenths / 10, tenths % 10)
    } else {
        format!("{}E", in_units(n.into(), 60))
    }
}

/// Returns a text for people in which all characters are escaped that control a terminal, change
/// the direction of text, or are invisible (control characters, U+202E, U+200B, unusual blanks …),
/// also newlines and tabs.
#[must_use]
pub fn terminal_safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_escaped(&mut out, c));
    out
}

/// Does the same with several lines; newlines stay.
#[must_use]
pub fn terminal_safe_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' { out.push(c) } else { push_escaped(&mut out, c) }
    }
    out
}

fn push_escaped(out: &mut String, c: char) {
    if matches!(c, ' '..='~') {
        out.push(c);
        return;
    }
    // The standard library knows which characters are visible. After a letter it does not escape a
    // combining accent.
    let mut pair = String::from("a");
    pair.push(c);
    out.extend(pair.escape_debug().skip(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: one thing is one thing, and no things are several.
    #[test]
    fn things_are_counted() {
        assert_eq!([0_u64, 1, 2].map(|n| counted(n, "file")), ["0 files", "1 file", "2 files"]);
    }

    /// Promise: a shell that reads the quoted name gets the name, whatever bytes it has, and plain
    /// names stay plain.
    #[test]
    fn quoted_names_can_be_pasted() {
        for plain in ["/etc/fstab", "a-b_c.d,e:f+g@h%i=j", "für", "x~", "日本"] {
            assert_eq!(quoted(plain.as_bytes()), plain);
        }
        for (name, want) in [
            (&b""[..], "''"),
            (b"a b", "'a b'"),
            (b"it's", "\"it's\""),
            (b"it's $5", r"'it'\''s $5'"),
            (b"~", "'~'"),
            (b"back\\slash", r"'back\slash'"),
            (b"a\nb'\x1b\xff", r"$'a\nb\'\033\377'"),
            ("x\u{202e}y".as_bytes(), r"$'x\342\200\256y'"),
        ] {
            assert_eq!(quoted(name), want);
        }
        let every_byte: Vec<Vec<u8>> = (1..=255).map(|b| vec![b'a', b, b'9']).collect();
        let pairs: Vec<Vec<u8>> = (1..=127).map(|b| vec![b, b'\'', b'$']).collect();
        for name in every_byte.iter().chain(&pairs) {
            let script = format!("printf %s {}", quoted(name));
            let printed = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(printed.stdout, *name, "{script}");
        }
    }

    /// Promise: numbers of bytes are rounded to four characters at most, with tenths below 10.
    #[test]
    fn human_numbers() {
        for (n, want) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1.0K"),
            (1536, "1.5K"),
            (10_188, "9.9K"),
            (10_220, "10K"),
            (1_022_975, "999K"),
            (1_023_488, "1.0M"),
            (992 << 20, "992M"),
            (20 << 30, "20G"),
            (3 << 49, "1.5P"),
            (u64::MAX, "16E"),
        ] {
            assert_eq!(human(n), want);
        }
    }

    /// Promise: a name cannot control the terminal or hide a byte, and plain names are not changed.
    #[test]
    fn names_are_escaped() {
        assert_eq!(printable("für Elise.txt".as_bytes()), "für Elise.txt");
        assert_eq!(printable(b"a\x1b[2J\n\\\xff"), r"a\u{1b}[2J\n\\\xff");
        // Letters, combining accents and pictures stay; characters that turn or hide text
        // do not.
        let plain = "日本 e\u{301} русский עברית 🚀 'x' \"y\"";
        assert_eq!((printable(plain.as_bytes()), terminal_safe(plain)), (plain.to_owned(), plain.to_owned()));
        let hidden = "a\u{202e}gpj.exe \u{200b}\u{feff}\u{2028}\u{a0}\u{2066}";
        let shown = r"a\u{202e}gpj.exe \u{200b}\u{feff}\u{2028}\u{a0}\u{2066}";
        assert_eq!(
            (printable(hidden.as_bytes()), terminal_safe(hidden)),
            (shown.to_owned(), shown.to_owned())
        );
        assert_eq!(
            (terminal_safe("a\r\nb\\"), terminal_safe_lines("a\r\nb\\")),
            (r"a\r\nb\".to_owned(), "a\\r\nb\\".to_owned())
        );
    }
}
