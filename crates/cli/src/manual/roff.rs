//! The source of a manual page, in the macros of man(7).

use std::fmt::Write;

/// A piece of a line, with everything escaped that troff would interpret.
#[derive(Clone, Debug, Default)]
pub struct Inline(String);

impl Inline {
    /// Returns text in the usual font.
    pub fn roman(text: &str) -> Self {
        Self(escape(text))
    }

    /// Returns text that is typed as it stands.
    pub fn bold(text: &str) -> Self {
        Self(format!("\\fB{}\\fR", escape(text)))
    }

    /// Returns text that stands for something else.
    pub fn italic(text: &str) -> Self {
        Self(format!("\\fI{}\\fR", escape(text)))
    }

    /// Returns the pieces in sequence; no line is broken inside them.
    pub fn unbroken(pieces: impl IntoIterator<Item = Self>) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0.replace(' ', "\\~")).collect())
    }
}

/// Escapes text: what troff would interpret, and what it would print as another character.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            // It is missing in some fonts and character sets.
            '…' => out.push_str("..."),
            c if c.is_ascii() => out.push(c),
            c => write!(out, "\\[u{:04X}]", u32::from(c)).expect("a string can be written"),
        }
    }
    out
}

/// Columns of a source line; `mandoc -T lint` accepts no more.
const SOURCE_COLUMNS: usize = 80;
/// Columns by which man(1) indents text.
const TEXT_INDENT: usize = 7;
/// Columns by which the help indents examples.
const EXAMPLE_INDENT: usize = 4;

/// A page that is being written.
pub struct Page {
    source: String,
    /// Nothing stands below the last heading yet.
    at_heading: bool,
}

impl Page {
    /// Begins the page `name` in a section of the manual. `date` is `YYYY-MM-DD`.
    pub fn new(name: &str, section: u8, date: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let title = escape(&name.to_uppercase());
        // Left-adjusted and without hyphens that are not there: names must be found and copied.
        // groff takes up hyphenation again at each macro, as the register HY says.
        let source = format!(
            ".nr HY 0\n.TH {title} {section} {date} \"Spindle {version}\" \"Spindle Manual\"\n.ad l\n.nh\n"
        );
        Self { source, at_heading: true }
    }

    /// Returns the source.
    pub fn finish(self) -> String {
        self.source
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        self.heading("SH", title);
    }

    /// Begins a part of a section.
    pub fn subsection(&mut self, title: &str) {
        self.heading("SS", title);
    }

    fn heading(&mut self, macro_name: &str, title: &str) {
        self.line(&format!(".{macro_name} {}", escape(title)));
        self.at_heading = true;
    }

    /// Writes paragraphs, which empty lines separate.
    pub fn text(&mut self, text: &str) {
        for paragraph in paragraphs(text) {
            if !self.at_heading {
                self.line(".PP");
            }
            self.fill(&paragraph);
        }
    }

    /// Writes an item of a list: a term, and below it what it means.
    pub fn item(&mut self, term: &Inline, meaning: &str) {
        self.line(".TP");
        self.line(&term.0);
        for (n, paragraph) in paragraphs(meaning).iter().enumerate() {
            if n > 0 {
                self.line(".IP");
            }
            self.fill(paragraph);
        }
    }

    /// Writes items of a list inside an item.
    pub fn inner_items<'a>(&mut self, items: impl IntoIterator<Item = (&'a str, String)>) {
        self.line(".RS");
        for (term, meaning) in items {
            self.item(&Inline::bold(term), &meaning);
        }
        self.line(".RE");
    }

    /// Writes a command with its arguments, as a synopsis.
    pub fn synopsis(&mut self, command: &str, arguments: &[Inline]) {
        self.line(&format!(".SY \"{}\"", escape(command)));
        for argument in arguments {
            self.line(&argument.0);
        }
        self.line(".YS");
    }

    /// Writes pieces separated by commas.
    pub fn enumeration(&mut self, pieces: &[Inline]) {
        for (n, piece) in pieces.iter().enumerate() {
            let comma = if n + 1 < pieces.len() { "," } else { "" };
            self.line(&format!("{}{comma}", piece.0));
        }
    }

    /// Writes lines as they stand, in the columns in which the help shows them.
    pub fn verbatim(&mut self, lines: &[&str]) {
        if !self.at_heading {
            self.line(".PP");
        }
        let back = TEXT_INDENT - EXAMPLE_INDENT;
        self.line(&format!(".in -{back}n"));
        self.line(".nf");
        for line in lines {
            self.line(&protected(escape(line)));
        }
        self.line(".fi");
        self.line(&format!(".in +{back}n"));
    }

    fn line(&mut self, line: &str) {
        self.source.push_str(line);
        self.source.push('\n');
        self.at_heading = false;
    }

    /// Writes text of which troff makes lines. Each sentence begins a line of the source, so that
    /// troff separates all sentences alike.
    fn fill(&mut self, text: &str) {
        let mut line = String::new();
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let escaped = escape(word);
            if !line.is_empty() && line.len() + 1 + escaped.len() > SOURCE_COLUMNS - "\\&\\&".len() {
                // A line that ends with a full stop ends a sentence, for troff.
                self.line(&(protected(line) + "\\&"));
                line = String::new();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&escaped);
            if ends_sentence(word, words.peek().copied()) {
                self.line(&protected(std::mem::take(&mut line)));
            }
        }
    }
}

/// Returns a source line that troff takes for text, whatever it begins with.
fn protected(line: String) -> String {
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

/// Returns true if a word is the last of a sentence, before `next`.
fn ends_sentence(word: &str, next: Option<&str>) -> bool {
    let stops = word.trim_end_matches([')', '"']).ends_with(['.', '?', '!']);
    next.is_none_or(|next| stops && next.trim_start_matches(['(', '"']).starts_with(char::is_uppercase))
}

/// Returns the paragraphs of a text, which empty lines separate.
fn paragraphs(text: &str) -> Vec<String> {
    let joined = |lines: &[&str]| lines.join(" ");
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    lines.split(|line| line.is_empty()).filter(|lines| !lines.is_empty()).map(joined).collect()
}
