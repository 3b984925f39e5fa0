//! The rows about making an image of a directory: `import` against `makefs`, and `tar` as what no
//! image can beat.

use std::fs;

use spindle_interop::Result;
use spindle_interop::tool::{command, run};

use crate::contender::spindle;
use crate::measure::time;
use crate::mounted::source_tree;
use crate::settings::{Group, Settings};
use crate::table::Table;

const ROW: &str = "image of a tree";

/// Measures them, if wanted. The source is read once before, so that all find it in memory.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    if !settings.wants(Group::Image) {
        return Ok(());
    }
    let tree = source_tree()?;
    let image = settings.directory.join("tree.img");
    let listed = run(command("tar").arg("-cvf").arg(&image).arg(&tree))?;
    let entries = listed.split(|&byte| byte == b'\n').count() - 1;
    // A count of files is far below 2^52.
    #[expect(clippy::cast_precision_loss)]
    let entries = entries as f64;
    for (name, mut make) in
        [("tar", command("tar")), ("makefs", command("makefs")), ("spindle import", command(spindle()))]
    {
        match name {
            "tar" => make.arg("-cf").arg(&image).arg(&tree),
            "makefs" => {
                make.args(["-t", "ffs", "-o", "version=2,bsize=32768,fsize=4096"]).arg(&image).arg(&tree)
            }
            _ => make.args(["import", "-s", "fit"]).arg(&tree).arg(&image),
        };
        // A new file each time: writing over an old one's blocks is another thing.
        let _ = fs::remove_file(&image);
        let took = time(name, || run(&mut make).map(drop))?;
        table.note(ROW, name, entries, "/s", took);
    }
    Ok(())
}
