//! What every file system promises of a damaged directory.

use spindle_vfs::{Error, FileSystem, Ino};
use std::ops::ControlFlow;

/// Returns the names that are left of a damaged directory. Promise: a listing of it ends in an
/// error, also if each step of it has only one name.
///
/// # Panics
/// If the promise is not kept.
#[must_use]
pub fn names_left(fs: &dyn FileSystem, dir: Ino) -> Vec<String> {
    let (mut names, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next.take() {
        let read = fs.readdir(dir, from, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            next = Some(entry.next);
            ControlFlow::Break(())
        });
        assert!(next.is_some() || matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    }
    let mut whole = 0;
    let read = fs.readdir(dir, 0, &mut |_| {
        whole += 1;
        ControlFlow::Continue(())
    });
    assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
    assert_eq!(whole, names.len());
    names
}
