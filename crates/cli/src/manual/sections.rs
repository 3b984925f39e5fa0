//! The sections below the options in the help of a command: exit codes, examples and others.

/// A section: a title in capitals, and indented lines below it.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// The title, as the help has it.
    pub title: &'a str,
    /// The lines, without the indentation that all of them have.
    pub lines: Vec<&'a str>,
}

/// What lines of a section are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A row of a table with two columns: what it is about, and what is said about it.
    Item(String, String),
    /// Words.
    Text(String),
}

/// Columns by which the lines of a section are indented.
const INDENT: &str = "    ";
/// What separates columns, at least.
const GAP: &str = "  ";

/// Returns the sections of a text.
pub fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found: Vec<Section> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix(INDENT), found.last_mut()) {
            (None, _) if !line.trim().is_empty() => {
                found.push(Section { title: line.trim(), lines: Vec::new() });
            }
            (line, Some(section)) => section.lines.push(line.unwrap_or("")),
            _ => {}
        }
    }
    for section in &mut found {
        while section.lines.last().is_some_and(|line| line.is_empty()) {
            section.lines.pop();
        }
    }
    found
}

impl<'a> Section<'a> {
    /// Returns true if its lines are examples, whose columns are kept.
    pub fn is_examples(&self) -> bool {
        self.title == "EXAMPLES"
    }

    /// Returns true if it has the exit codes.
    pub fn is_exit_codes(&self) -> bool {
        self.title == "EXIT CODES"
    }

    /// Returns its rows and words, or nothing if it has more than two columns, so that only the
    /// lines as they stand are right.
    pub fn parts(&self) -> Option<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        for (first, more) in self.chunks() {
            let more = more.join(" ");
            let part = match first.split_once(GAP) {
                Some((about, said)) => {
                    Part::Item(about.to_owned(), format!("{} {more}", said.trim()).trim().to_owned())
                }
                None if !more.is_empty() => Part::Item(first.to_owned(), more),
                None => Part::Text(first.to_owned()),
            };
            match (parts.last_mut(), part) {
                (_, Part::Item(_, said)) if said.contains(GAP) => return None,
                (Some(Part::Text(text)), Part::Text(first)) => *text = format!("{text} {first}"),
                (_, part) => parts.push(part),
            }
        }
        Some(parts)
    }

    /// Returns the lines that are not indented, each with the indented ones below it.
    fn chunks(&self) -> Vec<(&'a str, Vec<&'a str>)> {
        let mut chunks: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in self.lines.iter().filter(|line| !line.is_empty()) {
            match chunks.last_mut() {
                Some((_, more)) if line.starts_with(' ') => more.push(line.trim()),
                _ if self.is_exit_codes() => chunks.extend(codes(line).map(|code| (code, Vec::new()))),
                _ => chunks.push((line, Vec::new())),
            }
        }
        chunks
    }
}

/// Returns the exit codes of a line that has several: each begins with a digit, behind a wide gap.
fn codes(line: &str) -> impl Iterator<Item = &str> {
    let wide = line.match_indices("    ").map(|(at, gap)| at + gap.len());
    let starts = wide.filter(|&at| line[at..].starts_with(|c: char| c.is_ascii_digit()));
    let starts: Vec<_> = std::iter::once(0).chain(starts).chain([line.len()]).collect();
    (1..starts.len()).map(move |n| line[starts[n - 1]..starts[n]].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(about: &str, said: &str) -> Part {
        Part::Item(about.into(), said.into())
    }

    /// Promise: tables of two columns become lists, however their rows are written, exit codes also
    /// if a line has several; wider tables are left as they stand.
    #[test]
    fn tables() {
        let text = "EXIT CODES
    With a COMMAND its
    own.
    0  done    1  failed    130, 143  ended
    4  problems
       remain

OPTIONS OF -o
    ro, rw      read-only or not
    noatime, strictatime
                reading changes
                times
WIDE
    a  b  c";
        let found = sections(text);
        assert_eq!(
            found.iter().map(|s| s.title).collect::<Vec<_>>(),
            ["EXIT CODES", "OPTIONS OF -o", "WIDE"]
        );
        let text = Part::Text("With a COMMAND its own.".into());
        let codes =
            [item("0", "done"), item("1", "failed"), item("130, 143", "ended"), item("4", "problems remain")];
        assert_eq!(found[0].parts().unwrap(), [vec![text], codes.into()].concat());
        let options =
            [item("ro, rw", "read-only or not"), item("noatime, strictatime", "reading changes times")];
        assert_eq!(found[1].parts().unwrap(), options);
        assert_eq!((found[2].parts(), &found[2].lines[..]), (None, &["a  b  c"][..]));
    }
}
