//! `spindle mfs class`: the classes of data of files.

use crate::error::{Context, Failure, Result};
use crate::image::{self, ReadArgs, WriteArgs};
use crate::mount_point;
use crate::output::Output;
use crate::target::{ImagePath, Target};
use crate::text;
use spindle::flags;
use spindle::path::resolve;
use spindle::set::{self, CLASS_ATTRIBUTE};
use spindle_vfs::{Cred, Error, Vfs, XattrMode};
use std::ffi::OsStr;
use std::process::ExitCode;

/// Prints the class of a file, or gives it the class `name`.
pub fn run(target: &OsStr, name: Option<&str>) -> Result<ExitCode> {
    let target = Target::in_image(target)?;
    // An attribute of this name is an ordinary one in other file systems.
    let status = set::status(&mount_point::set(&target.image)?).context(&target.image)?;
    let Some(name) = name else {
        let class = image::read(&target.image, ReadArgs::default(), |vfs| {
            let node = resolve(vfs, &target.path, true).context(&target.image)?;
            Ok(vfs.fs().getxattr(node.ino(), CLASS_ATTRIBUTE)?)
        })?;
        let mut out = Output::stdout();
        out.line(text::printable(&class))?;
        out.finish()?;
        return Ok(ExitCode::SUCCESS);
    };
    if status.classes.iter().any(|class| class.read_only && class.name == *name) {
        let what = format!("class {name} of data is read-only: no file can get new data there");
        return Err(Failure::new(what)).context(&target.image);
    }
    let writable = status.classes.iter().filter(|class| !class.read_only);
    let classes: Vec<_> = writable.map(|class| class.name.as_str()).collect();
    if !classes.contains(&name) {
        let known = classes.join(", ");
        let what = format!("there is no class {name:?} of data; the set has: {known}");
        return Err(Failure::new(what)).context(&target.image);
    }
    image::change(&target.image, WriteArgs::default(), |vfs| set_class(vfs, &target, name))?;
    Ok(ExitCode::SUCCESS)
}

fn set_class(vfs: &Vfs, target: &ImagePath, name: &str) -> Result<()> {
    let node = resolve(vfs, &target.path, true).context(&target.image)?;
    let set = vfs.setxattr(&Cred::root(), node.ino(), CLASS_ATTRIBUTE, name.as_bytes(), XattrMode::Set);
    let refused = |what: &str| Err(Failure::new(what)).context(target.display());
    match set {
        Err(Error::NotEmpty) => refused(
            "it has data in blocks of another size than those of the class; copy it into a directory of the class",
        ),
        Err(Error::Invalid) => refused("a file of this kind has no data"),
        other => Ok(flags::explained(other, &[node.attr().flags]).context(target.display())?),
    }
}
