//! Follows symbolic links in the names that programs give to calls.
//!
//! The kernel part sends these names as they are, because no tracepoint has the file that the
//! kernel finds. A name of a file whose directory is reached through a symbolic link, or through
//! `..` behind one, would not be the one under which the file was opened. So the directory is
//! looked up when the message is read, a fraction of a second after the call, and the result is
//! remembered until a recorded call changes a name above it. What is gone by then, or in the mount
//! namespace of a container, stays as the program gave it.

use crate::mounts::is_below;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of directories to remember.
const REMEMBERED: usize = 1 << 16;

/// Returns the path of an existing directory without symbolic links.
pub type Look = fn(&str) -> Option<String>;

/// The directories that were looked up.
#[derive(Debug)]
pub struct Links {
    look: Look,
    found: BTreeMap<Arc<str>, Arc<str>>,
    /// The same for paths with `..`, which do not show what is above them.
    found_above: BTreeMap<Arc<str>, Arc<str>>,
}

impl Links {
    /// Returns no directories yet, to be found by `look`.
    pub const fn new(look: Look) -> Self {
        Self { look, found: BTreeMap::new(), found_above: BTreeMap::new() }
    }

    /// Returns the real path of an absolute one of a directory. It must be below `root`, where the
    /// process that named it has its root, or else a link led out of there, which it cannot.
    pub fn real(&mut self, directory: &str, root: &str) -> Arc<str> {
        let is_plain = !directory.split('/').any(|part| part == "..");
        let found = if is_plain { &mut self.found } else { &mut self.found_above };
        if let Some(real) = found.get(directory) {
            return Arc::clone(real);
        }
        if found.len() >= REMEMBERED {
            found.clear();
        }
        let real = (self.look)(directory).filter(|real| is_below(real, root));
        let real: Arc<str> = real.map_or_else(|| as_written(directory), Arc::from);
        found.insert(directory.into(), Arc::clone(&real));
        real
    }

    /// Forgets what was found at or below a path that has come or gone.
    pub fn changed(&mut self, path: &str) {
        self.found_above.clear();
        self.found.remove(path);
        // In the order of paths, `0` follows `/`.
        let below = Arc::<str>::from(format!("{path}/"))..Arc::<str>::from(format!("{path}0"));
        while let Some((directory, _)) = self.found.range(below.clone()).next() {
            let directory = Arc::clone(directory);
            self.found.remove(&directory);
        }
    }
}

/// Resolves `.` and `..`, but not symbolic links.
fn as_written(path: &str) -> Arc<str> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a directory is looked up once, until a name at or above it changes; one that does
    /// not exist keeps its name, without `.` and `..`.
    #[test]
    fn what_changes_is_looked_up_again() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static LOOKED: AtomicU32 = AtomicU32::new(0);
        let mut links = Links::new(|path| {
            LOOKED.fetch_add(1, Ordering::Relaxed);
            path.strip_prefix("/link").map(|rest| format!("/real{rest}"))
        });
        let mut looks = |path: &str, real: &str, looks: u32| {
            let before = LOOKED.load(Ordering::Relaxed);
            assert_eq!(&*links.real(path, ""), real);
            assert_eq!(LOOKED.load(Ordering::Relaxed) - before, looks, "{path}");
        };
        looks("/link/a", "/real/a", 1);
        looks("/link/a", "/real/a", 0);
        looks("/gone/./a/../b", "/gone/b", 1);
        looks("/link0", "/real0", 1);
        links.changed("/link");
        let mut looks = |path: &str, looks: u32| {
            let before = LOOKED.load(Ordering::Relaxed);
            links.real(path, "");
            assert_eq!(LOOKED.load(Ordering::Relaxed) - before, looks, "{path}");
        };
        looks("/link/a", 1);
        looks("/gone/./a/../b", 1);
        looks("/link0", 0);
    }

    /// Promise: a link does not lead out of the root of a process.
    #[test]
    fn roots_hold() {
        let mut links = Links::new(|path| path.strip_prefix("/jail/etc").map(|_| "/etc".into()));
        assert_eq!(&*links.real("/jail/etc", "/jail"), "/jail/etc");
        links.changed("/jail");
        assert_eq!(&*links.real("/jail/etc", ""), "/etc");
    }

    /// Promise: the memory is bounded.
    #[test]
    fn memory_is_bounded() {
        let mut links = Links::new(|_| None);
        for number in 0..3 * REMEMBERED {
            links.real(&format!("/{number}"), "");
        }
        assert!(links.found.len() <= REMEMBERED);
    }
}
