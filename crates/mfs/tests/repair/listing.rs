//! Listings of damaged directories.

use crate::support::clock;
use crate::victim::{BLOCK, Victim, word};
use spindle_mfs::{Mfs, OpenOptions};
use spindle_vfs::{Error, FileSystem};
use std::ops::ControlFlow;

/// Promise: where a node of a name map is damaged, the names of all others are listed, also of
/// those behind it, and the listing ends in an error, also if each step of it has only one name.
#[test]
fn a_damaged_node_costs_its_names() {
    let victim = Victim::new(false, true);
    let list = |step: bool| {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let fs = Mfs::open(&victim.set(), clock(), &options).unwrap();
        let (mut names, mut next) = (Vec::new(), Some(0));
        let mut read = Ok(());
        while let Some(from) = next.take() {
            read = fs.readdir(fs.root(), from, &mut |entry| {
                names.push(entry.name.to_vec());
                next = step.then_some(entry.next);
                if step { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
        }
        (names, read)
    };
    let (whole, read) = list(false);
    read.unwrap();
    let (stepped, read) = list(true);
    read.unwrap();
    assert_eq!(stepped, whole);
    let child = word(&victim.node_bytes(victim.name_map(2)), 40);
    victim.edit(child * BLOCK as u64, BLOCK, None, |bytes| bytes[500] ^= 1);
    for step in [false, true] {
        let (left, read) = list(step);
        assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
        assert!(left.len() > 2 && left.len() < whole.len(), "{} of {}", left.len(), whole.len());
        // The first node has the least keys, so the last names are those of the others.
        assert!(whole.ends_with(&left[2..]), "{left:?}");
    }
}
