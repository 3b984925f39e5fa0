//! The rules of the house that a compiler does not know: which crate may name which, what may be
//! named nowhere, and that every file has a user. The tests are in `tests/`; here is what they look
//! at the tree with.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the root of the repository.
///
/// # Panics
/// Never: this crate stands two levels below it.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/tidy is two levels down")
        .to_owned()
}

/// Runs a command in the repository and gives what it printed.
///
/// # Panics
/// If it fails.
#[must_use]
pub fn output(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).current_dir(root()).output().expect("the program runs");
    assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// Returns the files of the project, relative to its root: those that git tracks and that are still
/// there.
#[must_use]
pub fn files() -> Vec<String> {
    output("git", &["-c", "safe.directory=*", "ls-files"])
        .lines()
        .filter(|file| root().join(file).is_file())
        .map(ToOwned::to_owned)
        .collect()
}

/// Returns the text of a file of the project; empty if it is not text.
#[must_use]
pub fn text(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_default()
}

/// Returns true if a file's name ends in `.extension`.
#[must_use]
pub fn is(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|found| found == extension)
}
