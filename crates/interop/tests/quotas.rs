//! Quotas on mounts: what the user of a process sees.

use spindle_interop::spindle::{Mounted, fsck, spindle};
use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Runs a script as a user on a new pseudo terminal, which stays open for a moment longer. Returns
/// what the terminal shows, without carriage returns; what the script itself prints goes nowhere.
fn on_terminal(directory: &Path, uid: u32, script: &str) -> Result<String> {
    let inner = format!("exec 1>/dev/null 2>&1; {script}; sleep 1");
    let user = format!("setpriv --reuid={uid} --regid={uid} --clear-groups sh -c '{inner}'");
    let shown = run(command("script").args(["-qec", &user, "/dev/null"]).current_dir(directory))?;
    Ok(String::from_utf8_lossy(&shown).replace('\r', ""))
}

/// Promise: a user who passes a soft limit, or meets a hard one, reads so on the terminal of the
/// process, once; on the terminals of others and of root nothing appears, and no operation depends
/// on it.
#[test]
fn users_are_warned_on_their_terminals() -> Result<()> {
    let directory = TempDir::new().map_err(Failure::of("temporary directory"))?;
    let image = directory.path().join("image");
    let word = image.to_str().expect("a path in UTF-8");
    spindle(["newfs", "-s", "64m", word])?;
    spindle(["quota", "check", word])?;
    spindle(["quota", "edit", word, "-u", "1001", "--blocks", "100k:300k", "--inodes", "0:5"])?;
    let mounted = Mounted::new(&image, "userquota,allow_other")?;
    let dir = mounted.path();
    for path in [dir.to_path_buf(), dir.join("open")] {
        fs::create_dir_all(&path).map_err(Failure::of("a directory"))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&path, mode).map_err(Failure::of("a directory"))?;
    }
    let line = |what: &str| format!("\n{}: {what}\n", dir.display());
    let write = |name: &str, kib: u32| format!("dd if=/dev/zero of=open/{name} bs=1k count={kib}");
    assert_eq!(on_terminal(dir, 1001, &write("a", 50))?, "");
    assert_eq!(on_terminal(dir, 1001, &write("a", 150))?, line("warning, user disk quota exceeded"));
    let full = on_terminal(dir, 1001, &format!("{0}; {0}", write("b", 500)))?;
    let refused = line("write failed, user disk limit reached");
    // The second attempt gives back first what the first one got.
    assert_eq!(full, format!("{refused}{refused}"));
    assert_eq!(on_terminal(dir, 1002, &write("c", 500))?, "");
    assert_eq!(on_terminal(dir, 0, &write("d", 500))?, "");
    assert_eq!(on_terminal(dir, 0, "dd if=/dev/zero of=open/a bs=1k count=900")?, "");
    assert_eq!(
        on_terminal(dir, 1001, "rm open/a open/b; for f in e f g h i j; do touch open/$f; done")?,
        line("write failed, user inode limit reached")
    );
    // Without a terminal the operations are the same.
    let without = run(command("setpriv")
        .args(["--reuid=1001", "--clear-groups", "setsid", "--wait"])
        .args(["sh", "-c", &format!("cd {}; ! {} && ! mkdir open/l", dir.display(), write("k", 9))]));
    assert!(without.is_ok(), "{without:?}");
    mounted.unmount()?;
    fsck(&image)
}
