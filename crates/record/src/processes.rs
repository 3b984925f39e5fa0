//! Processes that run already, and whose end ends a recording.

use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;

/// Running processes.
#[derive(Debug)]
pub struct Processes(Vec<OwnedFd>);

impl Processes {
    /// Returns the processes with these numbers.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is none with a number, or it is that of a thread.
    pub fn find(numbers: &[u32]) -> Result<Self> {
        let find = |&number: &u32| {
            let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH);
            pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty())).map_err(|error| {
                Error::Refused(match error {
                    Errno::SRCH => format!("there is no process {number}"),
                    Errno::INVAL | Errno::NOENT => {
                        format!("{number} is a thread; give the number of its process")
                    }
                    error => format!("process {number}: {error}"),
                })
            })
        };
        Ok(Self(numbers.iter().map(find).collect::<Result<_>>()?))
    }

    /// Waits until all of them have ended.
    ///
    /// # Errors
    /// [`Error::Refused`] if the system cannot wait for them, which is not expected.
    pub fn wait(&self) -> Result<()> {
        for process in &self.0 {
            loop {
                match poll(&mut [PollFd::new(process, PollFlags::IN)], None) {
                    Ok(_) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(Error::Refused(format!("waiting for a process: {error}"))),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Promise: the end of a process is noticed; a number that no process has is refused, and so is
    /// that of a thread.
    #[test]
    fn processes_end() {
        let mut shell = Command::new("sh");
        let mut child = shell.args(["-c", "read line"]).stdin(Stdio::piped()).spawn().unwrap();
        let found = Processes::find(&[child.id()]).unwrap();
        let waits = std::thread::spawn(move || found.wait());
        assert!(!waits.is_finished());
        drop(child.stdin.take());
        waits.join().unwrap().unwrap();
        child.wait().unwrap();
        assert!(Processes::find(&[child.id()]).unwrap_err().to_string().contains("no process"));
        assert!(Processes::find(&[0]).unwrap_err().to_string().contains("no process 0"));
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let mut numbers =
            threads.map(|entry| entry.unwrap().file_name().into_string().unwrap().parse().unwrap());
        let other = numbers.find(|&number: &u32| number != std::process::id()).unwrap();
        assert!(Processes::find(&[other]).unwrap_err().to_string().contains("is a thread"));
        drop(stop);
        let _ = thread.join();
    }
}
