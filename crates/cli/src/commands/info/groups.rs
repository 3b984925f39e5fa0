//! The report of `spindle info -g` on cylinder groups.

use crate::error::{Failure, Result};
use crate::output::Output;
use serde::Serialize;
use spindle_device::Device;
use spindle_ffs::{Group, GroupMap, Superblock, Version, isset};
use std::ops::RangeInclusive;

/// A cylinder group. The names are those of `fs.h`.
#[derive(Debug, Serialize)]
pub struct GroupInfo {
    cgx: u32,
    start_byte: u64,
    ndblk: u32,
    cs_ndir: i32,
    cs_nbfree: i32,
    cs_nifree: i32,
    cs_nffree: i32,
    rotor: u32,
    frotor: u32,
    irotor: u32,
    /// Free runs of 1, 2, … fragments.
    frsum: Vec<u32>,
    /// Free clusters of 1, 2, … blocks; the last number also counts longer ones.
    clustersum: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initediblk: Option<u32>,
    /// Used inodes as ranges of numbers in the file system.
    inodes_used: Vec<(u32, u32)>,
    /// Free fragments as ranges of numbers in the group.
    frags_free: Vec<(u32, u32)>,
}

/// Reads the existing groups in `range`.
pub fn read(
    superblock: &Superblock,
    device: &dyn Device,
    range: RangeInclusive<u32>,
) -> Result<Vec<GroupInfo>> {
    let layout = &superblock.layout;
    if *range.start() >= layout.fs_ncg {
        return Err(Failure::new(format!(
            "there is no cylinder group {}; the last one is {}",
            range.start(),
            layout.fs_ncg - 1
        )));
    }
    let mut found = Vec::new();
    for cgx in *range.start()..=(*range.end()).min(layout.fs_ncg - 1) {
        let mut block = vec![0; layout.fs_bsize as usize];
        device.read_at(layout.byte(layout.cgtod(cgx)), &mut block)?;
        let map = GroupMap::check(layout, &block, cgx)?;
        let group = Group::new(layout, &map, &block);
        let cs = group.cs();
        let first = cgx * layout.fs_ipg;
        found.push(GroupInfo {
            cgx,
            start_byte: layout.byte(layout.cgbase(cgx)),
            ndblk: map.ndblk,
            cs_ndir: cs.cs_ndir,
            cs_nbfree: cs.cs_nbfree,
            cs_nifree: cs.cs_nifree,
            cs_nffree: cs.cs_nffree,
            rotor: group.rotor(),
            frotor: group.frotor(),
            irotor: group.irotor(),
            frsum: (1..layout.fs_frag).map(|frags| group.frsum(frags)).collect(),
            clustersum: (1..=layout.fs_contigsumsize).map(|blocks| group.clustersum(blocks)).collect(),
            initediblk: (layout.version == Version::Ufs2).then(|| group.initediblk()),
            inodes_used: runs(group.inosused(), layout.fs_ipg)
                .into_iter()
                .map(|(from, to)| (first + from, first + to))
                .collect(),
            frags_free: runs(group.blksfree(), map.ndblk),
        });
    }
    Ok(found)
}

/// Returns the runs of set bits among the first `len` bits, each as its first and last bit.
fn runs(map: &[u8], len: u32) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for n in (0..len).filter(|&n| isset(map, n)) {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => found.push((n, n)),
        }
    }
    found
}

fn ranges(runs: &[(u32, u32)]) -> String {
    let words: Vec<String> = runs
        .iter()
        .map(|&(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") })
        .collect();
    if words.is_empty() { "none".into() } else { words.join(", ") }
}

impl GroupInfo {
    /// Prints the group for people.
    pub fn show(&self, out: &mut Output) -> Result<()> {
        let numbers = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        out.line(format!("\ncg {}: at byte {}, ndblk {}", self.cgx, self.start_byte, self.ndblk))?;
        out.line(format!(
            "  nbfree {} nffree {} nifree {} ndir {}",
            self.cs_nbfree, self.cs_nffree, self.cs_nifree, self.cs_ndir
        ))?;
        out.line(format!("  rotor {} frotor {} irotor {}", self.rotor, self.frotor, self.irotor))?;
        if let Some(initialised) = self.initediblk {
            out.line(format!("  initediblk {initialised}"))?;
        }
        out.line(format!("  frsum {}", numbers(&self.frsum)))?;
        if !self.clustersum.is_empty() {
            out.line(format!("  clustersum {}", numbers(&self.clustersum)))?;
        }
        out.line(format!("  inodes used: {}", ranges(&self.inodes_used)))?;
        out.line(format!("  fragments free: {}", ranges(&self.frags_free)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: runs are shown as ranges that end at the last bit.
    #[test]
    fn runs_of_bits() {
        assert_eq!(ranges(&runs(&[0b1011_0111, 0b1000_0001], 16)), "0-2, 4-5, 7-8, 15");
        assert_eq!(ranges(&runs(&[0xff, 0xff], 9)), "0-8");
        assert_eq!(ranges(&runs(&[0], 8)), "none");
    }
}
