//! How comments, documents and messages are written.

use spindle_tidy::{files, is, text};

/// Columns of a comment or a line of a document.
const COLUMNS: usize = 100;

/// Returns the lines of a document that are prose, with their numbers: neither tables nor examples.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut prose = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !(fenced || fence || line.starts_with('|') || line.starts_with("    ")) {
            prose.push((n + 1, line));
        }
    }
    prose
}

/// Returns the lines of a Rust file that are comments and nothing else, with their numbers.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    lines.filter(|(_, line)| line.trim_start().starts_with("//"))
}

/// Promise: comments and documents are no wider than a page.
#[test]
fn comments_and_documents_are_no_wider_than_100_columns() {
    let mut wrong = Vec::new();
    for file in files() {
        let text = text(&file);
        let lines = if is(&file, "rs") {
            comments(&text).collect()
        } else if is(&file, "md") {
            prose(&text)
        } else {
            continue;
        };
        let wide = lines.into_iter().filter(|(_, line)| line.chars().count() > COLUMNS);
        wrong.extend(wide.map(|(n, _)| format!("{file}:{n}")));
    }
    assert!(wrong.is_empty(), "wider than {COLUMNS} columns: {}", wrong.join(", "));
}

/// Plurals that a comment could begin with in the place of a verb.
const NOUNS: &[&str] = &[
    "Addresses",
    "Always",
    "As",
    "Blocks",
    "Bytes",
    "Entries",
    "Events",
    "Files",
    "Fragments",
    "Groups",
    "Inodes",
    "Is",
    "Its",
    "Lines",
    "Names",
    "Numbers",
    "Operations",
    "Pages",
    "Plans",
    "Requests",
    "Rows",
    "Seconds",
    "Sectors",
    "This",
    "Times",
    "Words",
];

/// Returns true if a comment begins with a verb in the third person, or names what it is the same
/// as.
fn begins_with_a_verb(comment: &str) -> bool {
    let word = comment.split([' ', ',', ':', '.', ';']).next().unwrap_or("");
    let verb = word.ends_with('s') && word.chars().all(char::is_alphabetic) && !NOUNS.contains(&word);
    verb || comment.starts_with("Promise") || comment.starts_with("[`")
}

/// Promise: the comment of a function begins with a verb: "Returns …", "Writes …".
#[test]
fn comments_of_functions_begin_with_a_verb() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| is(file, "rs")) {
        let text = text(file);
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        for (n, line) in lines.iter().enumerate() {
            let first = n == 0 || !lines[n - 1].starts_with("///");
            let Some(comment) = line.strip_prefix("/// ").filter(|_| first) else { continue };
            let item = lines[n..].iter().find(|line| !line.starts_with("//") && !line.starts_with("#["));
            let words = item.map_or("", |item| item.split('(').next().unwrap_or(""));
            let is_function = words.split(' ').any(|word| word == "fn") && !words.contains('=');
            if is_function && !begins_with_a_verb(comment) {
                wrong.push(format!("{file}:{}: {comment}", n + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "these comments begin with no verb:\n{}", wrong.join("\n"));
}

/// Words that a file format fixes, with the files that name them.
const FIXED: &[(&str, &str)] = &[
    ("crates/trace/src/event.rs", "nameless"),
    ("crates/interop/tests/record/main.rs", "nameless"),
    ("docs/SPEC-trace.md", "nameless"),
];

/// Returns the words that the last table of the glossary refuses.
fn refused() -> Vec<String> {
    let glossary = text("docs/GLOSSARY.md");
    let (_, table) = glossary.split_once("## Words that are not used").expect("the table");
    let cells = table.lines().filter_map(|line| line.trim_end_matches(" |").rsplit_once(" | "));
    let words = cells.flat_map(|(_, cell)| cell.split('`').skip(1).step_by(2));
    words.map(ToOwned::to_owned).collect()
}

/// Promise: nothing is called by the words that the glossary refuses.
#[test]
fn refused_words_are_not_used() {
    let refused = refused();
    assert!(refused.len() > 10, "the table is not read");
    let mut wrong = Vec::new();
    let readable = |file: &String| ["rs", "md", "sh", "toml"].iter().any(|kind| is(file, kind));
    for file in files().iter().filter(|file| readable(file)) {
        if file == "docs/GLOSSARY.md" || file == "crates/tidy/tests/words.rs" {
            continue;
        }
        for (n, line) in text(file).lines().enumerate() {
            let line = line.to_lowercase();
            let is_end = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
            for word in &refused {
                let found = line.match_indices(word.as_str()).any(|(at, _)| {
                    is_end(line[..at].chars().next_back()) && is_end(line[at + word.len()..].chars().next())
                });
                if found && !FIXED.contains(&(file, word)) {
                    wrong.push(format!("{file}:{}: {word}", n + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "the glossary says what to write instead:\n{}", wrong.join("\n"));
}
