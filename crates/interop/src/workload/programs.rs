//! Programs of daily use, each with its own way to show that nothing was lost.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::record::{Kind, differences};
use crate::tool::{command, failed, repository, run};
use crate::{Failure, Result, host};

/// Clones the project's repository into `directory`, packs it anew, and lets git check every object
/// and file.
///
/// # Errors
/// What git said.
pub fn git(directory: &Path) -> Result<()> {
    let git = |at: &Path, words: &[&str]| {
        run(command("git").args(["-c", "safe.directory=*"]).args(words).current_dir(at))
    };
    let from = repository();
    git(directory, &["clone", "--quiet", "--no-local", &from.to_string_lossy(), "clone"])?;
    let clone = directory.join("clone");
    git(&clone, &["repack", "-a", "-d", "-q"])?;
    git(&clone, &["fsck", "--full", "--strict", "--no-progress"])?;
    let changed = git(&clone, &["status", "--porcelain"])?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("git status after a clone:\n{}", String::from_utf8_lossy(&changed))))
}

/// Fills databases of `sqlite3` under each of its ways of journalling, the write-ahead log with its
/// mapped index included.
///
/// # Errors
/// What `sqlite3` said, its integrity check included.
pub fn sqlite(directory: &Path) -> Result<()> {
    for mode in ["delete", "truncate", "persist", "wal"] {
        let script = format!(
            "pragma journal_mode={mode}; create table t(a integer primary key, b text);
             with recursive n(i) as (select 1 union all select i+1 from n where i < 20000)
             insert into t select i, hex(randomblob(20)) from n;
             create index x on t(b); begin; delete from t where a % 3 = 0; rollback;
             delete from t where a % 2 = 0; vacuum; pragma integrity_check; select count(*) from t;"
        );
        let mut sqlite = command("sqlite3");
        let said = run(sqlite.arg("-batch").arg(directory.join(format!("{mode}.db"))).arg(script))?;
        if said != format!("{mode}\nok\n10000\n").as_bytes() {
            return Err(failed(&sqlite, String::from_utf8_lossy(&said)));
        }
    }
    Ok(())
}

/// Builds a C program of many files with `make` and runs it.
///
/// # Errors
/// What the compiler said, or that the program's sum is wrong.
pub fn compile(directory: &Path) -> Result<()> {
    const FILES: u32 = 40;
    let directory = directory.join("program");
    let fail = |error| Failure::new(format!("{}: {error}", directory.display()));
    fs::create_dir(&directory).map_err(fail)?;
    let mut calls = String::new();
    let mut declarations = String::new();
    for number in 0..FILES {
        let text = format!("#include <stdio.h>\nint f{number}(void) {{ return {number}; }}\n");
        fs::write(directory.join(format!("f{number}.c")), text).map_err(fail)?;
        let _ = writeln!(declarations, "int f{number}(void);");
        let _ = write!(calls, "+f{number}()");
    }
    let main = format!("#include <stdio.h>\n{declarations}int main(void) {{ printf(\"%d\", 0{calls}); }}\n");
    fs::write(directory.join("main.c"), main).map_err(fail)?;
    let rules =
        "program: $(patsubst %.c,%.o,$(wildcard *.c))\n\tgcc -o $@ $^\n%.o: %.c\n\tgcc -O1 -g -c -o $@ $<\n";
    fs::write(directory.join("Makefile"), rules).map_err(fail)?;
    run(command("make").args(["--silent", "-j2"]).current_dir(&directory))?;
    let mut program = command(directory.join("program"));
    let said = run(&mut program)?;
    if said != (0..FILES).sum::<u32>().to_string().as_bytes() {
        return Err(failed(&program, String::from_utf8_lossy(&said)));
    }
    Ok(())
}

/// Copies the tree `source` to `directory`/`name` through two `tar`s and compares the two.
///
/// # Errors
/// What `tar` said, or how the copy differs.
pub fn tar(source: &Path, directory: &Path, name: &str) -> Result<()> {
    let copy = directory.join(name);
    fs::create_dir(&copy).map_err(Failure::of(copy.display()))?;
    let mut pack = command("tar");
    // The format that holds fractions of seconds.
    pack.args(["--format=posix", "--sparse", "-cf", "-", "-C"]).arg(source).arg(".").stdout(Stdio::piped());
    let mut packing = pack.spawn().map_err(Failure::of("tar"))?;
    let stream = packing.stdout.take().ok_or_else(|| failed(&pack, "no output"))?;
    run(command("tar").args(["--numeric-owner", "-xpf", "-", "-C"]).arg(&copy).stdin(stream))?;
    let packed = packing.wait().map_err(Failure::of("tar"))?;
    let mut expected = host::list(source)?;
    // tar leaves sockets out.
    expected.retain(|_, record| record.kind != Some(Kind::Socket));
    let differences = differences(&expected, &host::list(&copy)?, |_| true);
    if packed.success() && differences.is_empty() {
        return Ok(());
    }
    Err(failed(&pack, format!("{packed}\n{}", differences.join("\n"))))
}
