//! The load of postmark: the small files of a mail or news server.
//!
//! A set of files of 512 bytes to 10 KB in ten directories grows to a thousand; then files are
//! created, read, appended to and deleted at random, always in the same order.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Files that there are at most times.
const FILES: usize = 1000;
const DIRECTORIES: u64 = 10;

/// Does so many steps below `top`, and leaves what is then there.
pub fn postmark(top: &Path, steps: u64) -> io::Result<()> {
    let mut rng = SmallRng::seed_from_u64(7);
    let path = |n: u64| top.join(format!("mark-{}/{n}", n % DIRECTORIES));
    (0..DIRECTORIES).try_for_each(|n| fs::create_dir(top.join(format!("mark-{n}"))))?;
    let mut files = Vec::new();
    for n in 0..steps {
        let bytes = vec![b'x'; rng.random_range(512..10_000)];
        if files.len() < FILES || rng.random_range(0..4) == 0 {
            fs::write(path(n), &bytes)?;
            files.push(n);
            continue;
        }
        let picked = rng.random_range(0..files.len());
        match rng.random_range(0..3) {
            0 => drop(fs::read(path(files[picked]))?),
            1 => OpenOptions::new().append(true).open(path(files[picked]))?.write_all(&bytes[..512])?,
            _ => fs::remove_file(path(files.swap_remove(picked)))?,
        }
    }
    Ok(())
}
