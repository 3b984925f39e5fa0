//! A process that executes commands on one file. It reads the commands from standard input, one on
//! each line, and answers each with a line: `ok`, the name of an error, or the text that it read.
//!
//! `flock sh|ex|un [nb] [turn]` · `fcntl rd|wr|un START LEN [wait] [turn]` (with `turn`, it answers
//! with the content of the file if it got the lock, and then unlocks everything) · `reopen` ·
//! `close` · `read` · `write AT TEXT` · `age` (as if last modified in 1970) · `fsync` · `map` ·
//! `map-write AT TEXT` · `map-read AT LEN` · `msync` · `unmap`
//!
//! Mappings belong here, and not into the process that serves the file: there, a store that waits
//! for the server holds up the memory that the server wants to allocate.

#![allow(unsafe_code)] // Mappings, and calls that take plain structures.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::SystemTime;

/// Size of a mapping in bytes.
const MAP_LEN: usize = 10_000;

/// A running client process, which is killed when this is dropped.
pub struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    pub fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("client")
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut client = Self { child, input, output: BufReader::new(output) };
        assert_eq!(client.receive(), "started");
        client
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub fn receive(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.receive()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

fn answer(result: libc::c_int) -> String {
    if result == 0 {
        return "ok".into();
    }
    match nix::errno::Errno::last() {
        nix::errno::Errno::EACCES => "EAGAIN".into(),
        error => format!("{error:?}"),
    }
}

fn flock(file: &File, words: &[&str]) -> String {
    let mut operation = match words[0] {
        "sh" => libc::LOCK_SH,
        "ex" => libc::LOCK_EX,
        _ => libc::LOCK_UN,
    };
    if words.contains(&"nb") {
        operation |= libc::LOCK_NB;
    }
    // SAFETY: the descriptor is open.
    answer(unsafe { libc::flock(file.as_raw_fd(), operation) })
}

fn fcntl(file: &File, kind: &str, start: i64, len: i64, wait: bool) -> String {
    let kind = match kind {
        "rd" => libc::F_RDLCK,
        "wr" => libc::F_WRLCK,
        _ => libc::F_UNLCK,
    };
    let lock = libc::flock {
        l_type: i16::try_from(kind).unwrap(),
        l_whence: 0,
        l_start: start,
        l_len: len,
        l_pid: 0,
    };
    let command = if wait { libc::F_SETLKW } else { libc::F_SETLK };
    // SAFETY: the descriptor is open and the structure lives through the call.
    answer(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw const lock) })
}

fn contents(file: &File) -> String {
    let mut bytes = [0; 100];
    let len = file.read_at(&mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

fn map(file: &File) -> &'static mut [u8] {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, kept until `unmap`, which takes it; the file is as long as what of it
    // is used. The tests need other processes to change the bytes.
    unsafe {
        let start = libc::mmap(std::ptr::null_mut(), MAP_LEN, access, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(start, libc::MAP_FAILED);
        std::slice::from_raw_parts_mut(start.cast(), MAP_LEN)
    }
}

fn msync(mapping: &mut [u8]) -> String {
    // SAFETY: the mapping lives through the call.
    answer(unsafe { libc::msync(mapping.as_mut_ptr().cast(), mapping.len(), libc::MS_SYNC) })
}

fn unmap(mapping: &'static mut [u8]) -> String {
    // SAFETY: the mapping is given up.
    answer(unsafe { libc::munmap(mapping.as_mut_ptr().cast(), mapping.len()) })
}

fn close(file: File) -> String {
    // SAFETY: the descriptor is given up.
    answer(unsafe { libc::close(file.into_raw_fd()) })
}

fn outcome(result: std::io::Result<()>) -> String {
    let number = result.err().map_or(0, |error| error.raw_os_error().unwrap());
    if number == 0 { "ok".into() } else { format!("{:?}", nix::errno::Errno::from_raw(number)) }
}

fn opened(file: Option<&File>) -> &File {
    file.expect("the file is open")
}

/// Executes commands until standard input ends.
pub fn run(path: &Path) {
    let mut file = Some(open(path));
    let mut mapping: &mut [u8] = &mut [];
    println!("started");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<usize>().unwrap();
        let answer = match words[0] {
            "flock" => flock(opened(file.as_ref()), &words[1..]),
            "fcntl" => {
                let (start, len) = (words[2].parse().unwrap(), words[3].parse().unwrap());
                fcntl(opened(file.as_ref()), words[1], start, len, words.contains(&"wait"))
            }
            "reopen" => {
                file = Some(open(path));
                "ok".into()
            }
            "close" => close(file.take().unwrap()),
            "read" => contents(opened(file.as_ref())),
            "write" => outcome(opened(file.as_ref()).write_all_at(words[2].as_bytes(), number(1) as u64)),
            "age" => outcome(opened(file.as_ref()).set_modified(SystemTime::UNIX_EPOCH)),
            "fsync" => outcome(opened(file.as_ref()).sync_all()),
            "map" => {
                mapping = map(opened(file.as_ref()));
                "ok".into()
            }
            "map-write" => {
                mapping[number(1)..][..words[2].len()].copy_from_slice(words[2].as_bytes());
                "ok".into()
            }
            "map-read" => String::from_utf8_lossy(&mapping[number(1)..][..number(2)]).into_owned(),
            "msync" => msync(mapping),
            "unmap" => unmap(std::mem::take(&mut mapping)),
            _ => "unknown command".into(),
        };
        if words.contains(&"turn") {
            println!("{}", if answer == "ok" { contents(opened(file.as_ref())) } else { answer });
            flock(opened(file.as_ref()), &["un"]);
            fcntl(opened(file.as_ref()), "un", 0, 0, false);
        } else {
            println!("{answer}");
        }
    }
}
