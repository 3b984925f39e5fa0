//! A temporary directory in which tests run the program.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A temporary directory, and commands that run in it.
pub struct Bench {
    dir: tempfile::TempDir,
}

/// Exit code and output of a program.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub bytes: Vec<u8>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }
}

impl Bench {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `spindle` with these arguments, separated by blanks.
    pub fn run(&self, words: &str) -> Ran {
        self.run_args(words.split_whitespace())
    }

    pub fn run_args(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindle"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).output().unwrap().into()
    }

    /// Runs it, expects success, and returns standard output.
    pub fn ok(&self, words: &str) -> String {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "spindle {words}");
        ran.out
    }

    /// Runs it, and expects this exit code and these texts in the one line on standard error.
    pub fn fails(&self, words: &str, code: i32, wanted: &[&str]) {
        let ran = self.run(words);
        assert_eq!(ran.code, code, "spindle {words}: {}", ran.err);
        for want in wanted {
            assert!(ran.err.contains(want), "spindle {words}: {want} is not in {}", ran.err);
        }
        if code != 2 {
            let single = ran.err.starts_with("spindle: ") && ran.err.trim_end().lines().count() == 1;
            assert!(single, "spindle {words}: not one line: {}", ran.err);
        }
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
    }

    /// Runs a shell script in the directory, expects success, and returns standard output.
    pub fn shell(&self, script: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(self.dir.path());
        command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, 0, "{script}: {}", ran.err);
        ran.out
    }

    /// Runs it, expects success, and returns its output as JSON.
    pub fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(words)).unwrap()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Checks that an image is clean and without damage.
    pub fn check(&self, image: &str) {
        let output = self.ok(&format!("fsck -n {image}"));
        assert!(output.contains("no problems found\n"), "{output}");
    }
}

/// A loop device, detached with its partitions when it is dropped.
pub struct Loop(pub String);

impl Loop {
    /// Makes one over a file of the bench, which gets this size.
    pub fn over(bench: &Bench, file: &str, size: &str) -> Self {
        let script = format!("truncate -s {size} {file}; losetup --find --show {file}");
        Self(bench.shell(&script).trim().to_owned())
    }
}

impl Drop for Loop {
    /// Waits for partitions that are still in use, because a mount namespace which another test
    /// made meanwhile shows their mounts, too. They would stay, and be in the way of the next test
    /// that gets this device.
    fn drop(&mut self) {
        let name = self.0.trim_start_matches("/dev/");
        let partition = format!("{name}p");
        let has_partitions = || {
            let mut shown = std::fs::read_dir(format!("/sys/block/{name}")).into_iter().flatten().flatten();
            shown.any(|entry| entry.file_name().to_string_lossy().starts_with(&partition))
        };
        for _ in 0..100 {
            let _ = Command::new("partx").args(["-d", &self.0]).stderr(Stdio::null()).status();
            if !has_partitions() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = Command::new("/usr/sbin/losetup").args(["-d", &self.0]).status();
    }
}

/// Returns a line for each file below a directory: path, type and permissions, links, owner, size,
/// time, and target or checksum.
pub fn listing(dir: &Path) -> Vec<String> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().unwrap();
        let kind = meta.file_type();
        let rel = path.strip_prefix(dir).unwrap().display().to_string();
        let size = if kind.is_dir() { 0 } else { meta.size() };
        let nlink = if kind.is_dir() { 0 } else { meta.nlink() };
        let more = if kind.is_symlink() {
            path.read_link().unwrap().display().to_string()
        } else if kind.is_file() && size < 1 << 24 {
            let bytes = std::fs::read(&path).unwrap();
            format!("{:x}", bytes.iter().fold(7_u64, |sum, &b| sum.wrapping_mul(31).wrapping_add(b.into())))
        } else if kind.is_block_device() || kind.is_char_device() {
            meta.rdev().to_string()
        } else {
            String::new()
        };
        found.push(format!(
            "{rel} {:o} {nlink} {} {} {size} {}.{:09} {more}",
            meta.mode(),
            meta.uid(),
            meta.gid(),
            meta.mtime(),
            meta.mtime_nsec()
        ));
        if kind.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}
