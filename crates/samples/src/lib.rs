//! Images that real systems wrote, each with the listing that Linux's own driver gave of it.
//!
//! They are not in the repository: they stand, as `NAME.img.zst` and `NAME.tsv`, in the folder that
//! `SPINDLE_IMAGES` names, `../shared/images` beside the checkout where it is not set. A checkout
//! that stands alone passes its tests without them; where `CI` is set, they must be there.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An image that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its name.
    pub name: &'static str,
    folder: PathBuf,
}

/// Returns where images are looked for.
fn folder() -> PathBuf {
    std::env::var_os("SPINDLE_IMAGES").map_or_else(
        || {
            // Two levels up is the checkout; a path without `..` is one that a user can look up.
            let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
            crates.unwrap_or(Path::new("/")).join("shared/images")
        },
        PathBuf::from,
    )
}

/// Returns those of the named images that are there. Says in one line how many are left out and
/// where they were looked for.
///
/// # Panics
/// If one is missing where `CI` is set.
#[must_use]
pub fn present(names: &[&'static str]) -> Vec<Sample> {
    let (found, missing) = sort(&folder(), names);
    if let Some(text) = missing {
        assert!(std::env::var_os("CI").is_none(), "{text} (CI is set, so they must be there)");
        // Not `eprintln`, which is heard only of tests that fail.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
    found
}

/// Returns what is there of the named images, and what to say of the rest.
fn sort(folder: &Path, names: &[&'static str]) -> (Vec<Sample>, Option<String>) {
    let samples = names.iter().map(|&name| Sample { name, folder: folder.to_owned() });
    let (found, missing): (Vec<_>, Vec<_>) =
        samples.partition(|sample| sample.image_file().exists() && sample.listing_file().exists());
    let text = format!(
        "real images left out: {} of {}, not in {} (SPINDLE_IMAGES names another folder)",
        missing.len(),
        names.len(),
        folder.display()
    );
    (found, (!missing.is_empty()).then_some(text))
}

impl Sample {
    fn image_file(&self) -> PathBuf {
        self.folder.join(format!("{}.img.zst", self.name))
    }

    fn listing_file(&self) -> PathBuf {
        self.folder.join(format!("{}.tsv", self.name))
    }

    /// Returns the bytes of the image.
    ///
    /// # Panics
    /// If it cannot be read or unpacked.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        let file = self.image_file();
        let out = Command::new("zstd").arg("-dqc").arg(&file).output();
        let out = out.unwrap_or_else(|e| panic!("zstd: {e}: run `make setup`"));
        assert!(out.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    /// Returns the listing, as text.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn listing(&self) -> String {
        let file = self.listing_file();
        fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an image counts as there with its listing only; one line says how many are not
    /// there, and the folder.
    #[test]
    fn missing_images_are_counted() {
        let folder = std::env::temp_dir().join(format!("spindle-samples-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        for file in ["a.img.zst", "a.tsv", "b.img.zst"] {
            fs::write(folder.join(file), "").unwrap();
        }
        let found = sort(&folder, &["a", "b", "c"]);
        let all = sort(&folder, &["a"]);
        fs::remove_dir_all(&folder).unwrap();
        let a = vec![Sample { name: "a", folder: folder.clone() }];
        let text = format!(
            "real images left out: 2 of 3, not in {} (SPINDLE_IMAGES names another folder)",
            folder.display()
        );
        assert_eq!(found, (a.clone(), Some(text)));
        assert_eq!(all, (a, None));
    }
}
