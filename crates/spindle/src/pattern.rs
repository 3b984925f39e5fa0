//! Patterns of file names, as `sh(1)` and `find(1)` have them: `*`, `?`, `[a-z]`, `[!a-z]`, and a
//! backslash before a character that means itself.

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    ignore_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This byte.
    Byte(u8),
    /// Any character.
    Any,
    /// Any number of characters.
    Run,
    /// A character in one of these ranges, or in none of them.
    Set { ranges: Vec<(u8, u8)>, inverted: bool },
}

impl Pattern {
    /// Reads a pattern, which has no errors: a bracket without its other half means itself.
    #[must_use]
    pub fn new(text: &[u8], ignore_case: bool) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let part = match byte {
                b'*' => Part::Run,
                b'?' => Part::Any,
                b'\\' if !rest.is_empty() => {
                    let part = Part::Byte(rest[0]);
                    rest = &rest[1..];
                    part
                }
                b'[' => match parse_set(rest) {
                    Some((part, after)) => {
                        rest = after;
                        part
                    }
                    None => Part::Byte(b'['),
                },
                byte => Part::Byte(byte),
            };
            if part != Part::Run || parts.last() != Some(&Part::Run) {
                parts.push(part);
            }
        }
        Self { parts, ignore_case }
    }

    /// Returns true if all of `name` has the form of the pattern. Slashes and dots are ordinary
    /// characters.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let (mut part, mut at) = (0, 0);
        // Where to go on if a run has to take one character more.
        let mut again: Option<(usize, usize)> = None;
        loop {
            let here = match self.parts.get(part) {
                None => at == name.len(),
                Some(Part::Run) => {
                    part += 1;
                    again = Some((part, at));
                    continue;
                }
                Some(wanted) => match self.length(wanted, &name[at..]) {
                    Some(len) => {
                        (part, at) = (part + 1, at + len);
                        continue;
                    }
                    None => false,
                },
            };
            match again {
                _ if here => return true,
                Some((after, from)) if from < name.len() => {
                    let next = from + character(&name[from..]);
                    again = Some((after, next));
                    (part, at) = (after, next);
                }
                _ => return false,
            }
        }
    }

    /// Returns how many bytes at the start of `rest` a part stands for, if it fits.
    fn length(&self, part: &Part, rest: &[u8]) -> Option<usize> {
        let &byte = rest.first()?;
        let fits = |byte: u8| match part {
            Part::Byte(wanted) => byte == *wanted,
            Part::Set { ranges, .. } => ranges.iter().any(|&(first, last)| (first..=last).contains(&byte)),
            Part::Any | Part::Run => true,
        };
        let fits = fits(byte)
            || self.ignore_case && (fits(byte.to_ascii_lowercase()) || fits(byte.to_ascii_uppercase()));
        match part {
            Part::Byte(_) => fits.then_some(1),
            Part::Any | Part::Run => Some(character(rest)),
            Part::Set { inverted, .. } => (fits != *inverted).then(|| character(rest)),
        }
    }
}

/// Returns the length of the first character; of a byte that is not UTF-8, 1.
fn character(bytes: &[u8]) -> usize {
    let chunk = bytes.utf8_chunks().next();
    chunk.and_then(|chunk| chunk.valid().chars().next()).map_or(1, char::len_utf8)
}

/// Reads a set behind its opening bracket. Returns also what is behind it.
fn parse_set(text: &[u8]) -> Option<(Part, &[u8])> {
    let inverted = matches!(text.first(), Some(b'!' | b'^'));
    let mut rest = if inverted { &text[1..] } else { text };
    let mut ranges = Vec::new();
    loop {
        let (&first, after) = rest.split_first()?;
        // A closing bracket in the first place means itself.
        if first == b']' && !ranges.is_empty() {
            return Some((Part::Set { ranges, inverted }, after));
        }
        rest = after;
        match rest {
            [b'-', last, after @ ..] if *last != b']' => {
                ranges.push((first, *last));
                rest = after;
            }
            _ => ranges.push((first, first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: patterns mean what they mean to `sh` and `find`.
    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*.c", &["a.c", ".c", "ü.c"][..], &["a.h", "a.c~", ""][..]),
            ("?", &["a", "ü", "/"], &["", "ab"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "x", "Ax"]),
            ("[!a-c]", &["d", "ü"], &["a", "", "de"]),
            ("[]]", &["]"], &["a", "[]]"]),
            ("[-a]", &["-", "a"], &["b"]),
            ("a[", &["a["], &["a"]),
            (r"\*", &["*"], &["a", r"\*"]),
            ("*a*b*c", &["abc", "xaxbxc", "aabbcc"], &["acb", "abcd", ""]),
            ("**", &["", "anything"], &[]),
            ("", &[""], &["a"]),
            ("/usr/*", &["/usr/a/b"], &["/us/a"]),
        ] {
            let pattern = Pattern::new(pattern.as_bytes(), false);
            for name in yes {
                assert!(pattern.matches(name.as_bytes()), "{pattern:?} {name}");
            }
            for name in no {
                assert!(!pattern.matches(name.as_bytes()), "{pattern:?} {name}");
            }
        }
        assert!(Pattern::new(b"read*[A-C]", true).matches(b"READMEb"));
        assert!(Pattern::new(b"?\xff", false).matches(b"\xfe\xff"));
    }

    /// Promise: a pattern with many runs takes no more than the product of the lengths.
    #[test]
    fn many_runs_end() {
        let pattern = Pattern::new(format!("{}c", "a*".repeat(200)).as_bytes(), false);
        assert!(!pattern.matches(&b"a".repeat(100_000)));
    }
}
