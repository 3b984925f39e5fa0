//! What commands say to somebody who has made a mistake.

use crate::support::Bench;
use std::process::Command;

/// Promise: what is no file system of ours is named, with a remedy.
#[test]
fn foreign_images_are_named() {
    let bench = Bench::new();
    bench.ok("newfs -s 8m a.img");
    bench.shell("gzip -kc a.img >a.gz; xz -kc a.img >a.xz; bzip2 -kc a.img >a.bz2; tar cf a.tar a.img");
    for (file, wanted) in [
        ("a.gz", &["a.gz: is a file compressed with gzip; ", "gzip -dc FILE"][..]),
        ("a.xz", &["a.xz: is a file compressed with xz; ", "xz -dc FILE"]),
        ("a.bz2", &["a.bz2: is a file compressed with bzip2; ", "bzip2 -dc FILE"]),
        ("a.tar", &["a.tar: is a tar archive; ", "spindle import FILE"]),
    ] {
        for command in ["ls", "info", "df"] {
            bench.fails(&format!("{command} {file}"), 1, wanted);
        }
        bench.fails(&format!("fsck -n {file}"), 8, wanted);
    }
    bench.shell("truncate -s 64m ext.img; mke2fs -q -t ext4 ext.img");
    bench.fails("ls ext.img", 1, &["ext.img: is an ext4 file system; Linux itself mounts it"]);
    // It is not overwritten by mistake.
    bench.shell("cp ext.img before");
    bench.fails("newfs ext.img", 1, &["an ext4 file system", "--force"]);
    bench.shell("cmp ext.img before");
    bench.write("short", "x");
    bench.fails("ls short", 1, &["short: is empty or shorter than a sector", "import -s"]);
}

/// Promise: the commands that messages about compressed files, archives and streams name do what
/// the messages say, as they are printed, with the name of the file for FILE.
#[test]
fn named_commands_work_as_printed() {
    let bench = Bench::new();
    bench.write("src/file", "content\n");
    bench.ok("import src a.img");
    assert_eq!(bench.run("dump -f a.dump a.img").code, 0);
    let spindle = env!("CARGO_BIN_EXE_spindle");
    bench.shell(&format!(
        "cp a.img b.img; mkdir bin; ln -s {spindle} bin/spindle; tar -c -C src -f a.tar file"
    ));
    bench.shell("for p in gzip xz bzip2 zstd; do $p -c <a.img >disk.$p; $p -c <a.tar >tar.$p; done");
    let run = |said: &str, before: &str, after: &str, file: &str| {
        let (_, command) = said.split_once(before).unwrap_or_else(|| panic!("{said}"));
        let (command, _) = command.split_once(after).unwrap_or((command.trim_end(), ""));
        bench.shell(&format!("PATH=$PWD/bin:$PATH; {}", command.replace("FILE", file)))
    };
    for program in ["gzip", "xz", "bzip2", "zstd"] {
        let said = bench.run(&format!("ls disk.{program}")).err;
        run(&said, "decompress it first: ", ";", &format!("disk.{program}"));
        bench.shell("cmp a.img disk.img; rm disk.img");
        for target in ["new.img", "b.img:/"] {
            let said = bench.run(&format!("import tar.{program} {target}")).err;
            run(&said, "what this makes of it: ", "\n", &format!("tar.{program}"));
            assert_eq!(bench.run(&format!("import --force tar.{program}.tar {target}")).code, 0);
        }
        assert_eq!(bench.ok("cat new.img:/file"), "content\n");
        bench.shell("rm new.img");
    }
    run(&bench.run("ls a.tar").err, "archive; ", " makes a file system", "a.tar");
    assert_eq!(bench.ok("cat disk.img:/file"), "content\n");
    assert!(run(&bench.run("ls a.dump").err, "dump(8); ", " lists it", "a.dump").contains("file"));
    let said = bench.run("export a.img new.tar.gz").err.replace("IMAGE", "a.img");
    run(&said, "use a pipe: ", "\n", "");
    bench.shell("tar -tzf new.tar.gz | grep -q file");
}

/// Promise: if a disk has several file systems, the message lists the names to choose from, with
/// what each is.
#[test]
fn partitions_to_choose_from_are_listed() {
    let bench = Bench::new();
    bench.shell(
        "truncate -s 96M disk.img
         printf 'label: gpt\\nstart=2048, size=65536\\nsize=65536\\n' | sfdisk -q disk.img",
    );
    bench.ok("newfs disk.img@p1");
    bench.ok("newfs -O1 disk.img@p2");
    bench.fails(
        "ls disk.img",
        1,
        &["disk.img: has several partitions; name one of disk.img@p1 (UFS2, 32M), disk.img@p2 (UFS1, 32M)"],
    );
}

/// Promise: several reasons with one remedy name it once; a size without its unit is refused as
/// that; an option that there is not is not advised as an operand; a foreign volume has an article.
#[test]
fn remedies_make_sense() {
    let bench = Bench::new();
    bench.ok("newfs -s 8m a.img");
    bench.write("file", "text");
    bench.ok("cp file a.img:/file");
    bench.ok("debug -w a.img clri /file");
    for command in ["mkdir a.img:/x", "tunefs -m 5 a.img"] {
        let said = bench.run(command).err;
        let both = said.contains("fs_clean") && said.contains("FS_NEEDSFSCK");
        assert!(both && said.matches("insist with the option force").count() == 1, "{said}");
    }
    for command in
        ["newfs -s 10 b.img", "newfs -t v7 -s 10 b.img", "import -s 10 . b.img", "growfs -s 1 a.img"]
    {
        bench.fails(command, 2, &["no size of a file system; give it with k, m, g or t"]);
    }
    bench.shell("test ! -e b.img");
    for command in ["tunefs -z 3 a.img", "mount --lazy a.img mnt", "df -x a.img"] {
        let said = bench.run(command).err;
        assert!(said.contains("unexpected argument") && !said.contains("tip:"), "{said}");
    }
    bench.write("luks", [b"LUKS\xba\xbe".to_vec(), vec![0; 1 << 20]].concat());
    bench.fails("newfs luks", 1, &["contains a volume encrypted by LUKS already"]);
}

/// Promise: names in messages can be pasted into a shell.
#[test]
fn names_in_messages_are_quoted() {
    let bench = Bench::new();
    bench.ok("newfs -s 8m a.img");
    let message = |path: &str| bench.run_args(["cat", &format!("a.img:{path}")]).err;
    assert_eq!(message("/a b"), "spindle: a.img: '/a b': no such file or directory\n");
    assert_eq!(message("/it's"), "spindle: a.img: \"/it's\": no such file or directory\n");
    assert_eq!(message("/x\ny"), "spindle: a.img: $'/x\\ny': no such file or directory\n");
    assert_eq!(message("/plain"), "spindle: a.img: /plain: no such file or directory\n");
}

/// Promise: misspelt commands, options and names of experiments are recognised.
#[test]
fn misspellings_are_recognised() {
    let bench = Bench::new();
    bench.fails("mout", 2, &["similar", "mount"]);
    bench.fails("newfs --dialct sun x", 2, &["similar", "--dialect"]);
    bench.fails("lab run ffs-tabel1", 2, &["ffs-tabel1: no such experiment; did you mean ffs-table1?"]);
    bench.fails("lab presets ibm-661", 2, &["did you mean ibm-0661?"]);
    bench.fails("mount -o nolgo a.img mnt", 32, &["nolgo", "did you mean nolog?"]);
}

/// Returns the names of the commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names =
        lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(ToOwned::to_owned).collect()
}

/// Promise: the help of every command fits a terminal of 80 columns.
#[test]
fn help_fits_80_columns() {
    let mut todo: Vec<Vec<String>> = vec![Vec::new()];
    let (mut seen, mut wide) = (0, Vec::new());
    while let Some(words) = todo.pop() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(&words).arg("--help").env("COLUMNS", "80");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}");
        let help = String::from_utf8(output.stdout).unwrap();
        seen += 1;
        let over = help.lines().filter(|line| line.chars().count() > 80);
        wide.extend(over.map(|line| format!("{}: {line}", words.join(" "))));
        todo.extend(commands(&help).into_iter().map(|name| [words.clone(), vec![name]].concat()));
    }
    assert!(seen > 35, "only {seen} commands were found");
    assert!(wide.is_empty(), "wider than 80 columns:\n{}", wide.join("\n"));
}
