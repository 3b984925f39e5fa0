//! Names and messages as text that a terminal cannot be controlled by.

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
