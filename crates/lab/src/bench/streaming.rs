//! Writing and reading a large file, as a program sees it.

use crate::bench::machine::{Machine, Rate};
use crate::bench::process::Process;
use crate::bench::subject::{Kind, Subject};
use crate::setting::Hardware;
use crate::{Error, Result};
use spindle_cache::Settings;
use spindle_device::MemoryDevice;
use spindle_vfs::FileKind;
use std::sync::Arc;

/// What is measured, and how.
#[derive(Clone, Debug)]
pub struct Streaming {
    /// The host and the disk.
    pub on: Hardware,
    /// The file system on the disk, and the memory it has.
    pub kind: Kind,
    pub cache: Settings,
    /// Bytes of the file, and of a call.
    pub file: u64,
    pub request: usize,
}

/// The results.
#[derive(Clone, Copy, Debug)]
pub struct Streamed {
    /// The file written for the first time.
    pub write: Rate,
    /// Read.
    pub read: Rate,
    /// Mean length of the file's extents in bytes.
    pub extent: f64,
}

impl Streaming {
    /// Measures on a branch of `store`, which stays as it is. As in the 1984 paper everything is
    /// done more than once, and the first time gets the system into a known state. A program's
    /// writes end when the system has taken the last one.
    ///
    /// # Errors
    /// As the file system.
    pub fn measure(&self, store: &MemoryDevice) -> Result<Streamed> {
        let machine = self.on.with(Arc::new(store.branch()))?;
        let own = self.clone();
        machine.run(move |machine| {
            let subject = own.kind.open(machine.drive.clone(), machine.clock.clone(), own.cache)?;
            own.stream(machine, &subject)
        })
    }

    fn stream(&self, machine: &Machine, subject: &Subject) -> Result<Streamed> {
        let fs = subject.fs();
        let mut process = Process::new(fs, &*machine.clock, self.request);
        let file = process.create(fs.root(), "measured", FileKind::Regular)?;
        let mut write = Rate::default();
        for _ in 0..2 {
            process.truncate(file)?;
            fs.sync()?;
            write = machine.measure(self.file, || process.write_all(file, self.file))?;
        }
        fs.sync()?;
        let mut read = Rate::default();
        for _ in 0..2 {
            read = machine.measure(self.file, || check(process.read_all(file)?, self.file))?;
        }
        Ok(Streamed { write, read, extent: subject.mean_extent([file])? })
    }
}

/// Checks that a whole file was read.
fn check(read: u64, written: u64) -> Result<()> {
    if read == written {
        Ok(())
    } else {
        Err(Error::Contradiction(format!("{read} bytes read of a file of {written}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::era;
    use crate::bench::subject::Disk;
    use spindle_sim::Time;

    /// Promise: measuring repeats to the nanosecond, leaves the disk as it was, and finds the rate
    /// that a rotational delay leaves: every other block, half of the disk's rate.
    #[test]
    fn repeats_and_leaves_no_trace() {
        let disk = Disk { cylinders: 64, ..Disk::CAPRICORN };
        let kind = Kind::fast_1984(disk, 8192, 1024, 4);
        let store = MemoryDevice::new(disk.bytes());
        kind.make(&store).unwrap();
        let before = store.to_bytes();
        let streaming = Streaming {
            on: Hardware { host: "today".into(), disk: "capricorn-massbus".into(), geometry: disk },
            kind,
            cache: era::bsd42(8192),
            file: 1 << 20,
            request: 8192,
        };
        let (first, second) = (streaming.measure(&store).unwrap(), streaming.measure(&store).unwrap());
        assert_eq!((first.read, first.write), (second.read, second.write));
        assert!(store.to_bytes() == before);
        let rate = first.read.bytes_per_second() / 983_040.0;
        assert!((0.45..=0.51).contains(&rate), "{rate}");
        assert!(first.read.busy > Time::ZERO && first.read.busy < first.read.elapsed);
    }
}
