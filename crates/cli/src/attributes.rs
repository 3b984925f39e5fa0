//! Changes of attributes: of the files that operands name, or with -R of everything below, too.

use crate::error::{Context, Result};
use crate::image::{self, WriteArgs};
use crate::interrupt;
use spindle::path::resolve;
use spindle::walk::{Walk, When};
use spindle_vfs::{Attr, Vfs};
use std::ffi::OsString;
use std::process::ExitCode;

/// Which files are changed.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Follow an operand that is a symbolic link
    pub follow: bool,
    /// Also everything below directories: a directory before what is in it, and symbolic links
    /// themselves
    pub recursive: bool,
}

/// Calls `change` with each file in the scope of the operands. One that fails does not keep the
/// others from their change; see [`image::Failures`].
pub fn change_each(
    words: &[OsString],
    write: WriteArgs,
    scope: Scope,
    change: impl Fn(&Vfs, &Attr) -> Result<()>,
) -> Result<ExitCode> {
    image::change_each(words, write, |vfs, target, failures| {
        let node = resolve(vfs, &target.path, scope.follow)?;
        if !scope.recursive {
            return change(vfs, node.attr()).named(&target.path);
        }
        for visit in Walk::new(&target.path, node) {
            interrupt::check()?;
            let changed = visit.map_err(Into::into).and_then(|visit| match visit.when {
                When::After => Ok(()),
                When::Once | When::Before => change(vfs, &visit.attr).named(&visit.path),
            });
            failures.unless(changed.context(&target.image))?;
        }
        Ok(())
    })
}
