//! Suggestions for misspelt names: the known one that is nearest to what was given.

/// Returns the known name that `given` is probably a misspelling of, if there is one.
pub fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::jaro_winkler(given, name);
    let (best, name) =
        known.map(|name| (likeness(name), name)).max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    // A transposed or missing letter in a short name gives more, another word less.
    (best > 0.85).then_some(name)
}

/// Returns the question to add to a message.
pub fn did_you_mean(near: Option<&str>) -> String {
    near.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a misspelling finds its name, and another word finds none.
    #[test]
    fn misspellings() {
        let known = || ["ffs-table1", "ffs-table2", "cluster-iobench", "mfs-load"].into_iter();
        assert_eq!(nearest("ffs-tabel1", known()), Some("ffs-table1"));
        assert_eq!(nearest("cluster-iobnch", known()), Some("cluster-iobench"));
        assert_eq!(nearest("mfsload", known()), Some("mfs-load"));
        assert_eq!(nearest("quota", known()), None);
        assert_eq!(nearest("", known()), None);
    }
}
