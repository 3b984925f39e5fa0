//! Phases 3 and 4: does every directory hang from the root, and has every inode as many names as it
//! says.

use super::finding::Finding;
use super::inodes::ROOTINO;
use super::node::kind;
use super::state::Link;
use super::{Checker, Phase};
use crate::format::dialect::Dialect;
use crate::format::layout::Version;
use crate::format::ondisk::{FsNetBsd, Q2_HEAD_MAGIC};
use crate::log::locate::netbsd_journal;

/// `fs_journal_location`: the journal is an inode of the file system.
const WAPBL_IN_FILE_SYSTEM: u8 = 2;

impl Checker<'_> {
    /// Phase 3: climbs from every directory until the root, a known directory, the top of a tree or
    /// a loop.
    pub(super) fn check_connectivity(&mut self) {
        let total = self.state.dirs.len();
        self.report_progress(Phase::Connectivity, 0, total as u64);
        let mut trail = Vec::new();
        for start in 0..total {
            let mut row = start;
            let end = loop {
                let dir = &mut self.state.dirs[row];
                match dir.link {
                    Link::Unknown => {}
                    Link::Climbing => {
                        // A loop: the lowest inode in it stands for it.
                        let from = trail.iter().position(|&seen| seen == row).unwrap_or(0);
                        let lowest = trail[from..].iter().copied().min().unwrap_or(row);
                        let ino = self.state.dirs[lowest].ino;
                        self.findings.push(Finding::DirectoryLoop { ino });
                        break Link::Below;
                    }
                    Link::Orphan => break Link::Below,
                    known => break known,
                }
                if dir.ino == ROOTINO {
                    dir.link = Link::Reached(0);
                    break dir.link;
                }
                if dir.parent == 0 {
                    dir.link = Link::Orphan;
                    let (ino, dotdot) = (dir.ino, dir.dotdot);
                    self.findings.push(Finding::UnreferencedDirectory { ino, dotdot });
                    break Link::Below;
                }
                dir.link = Link::Climbing;
                trail.push(row);
                let parent = dir.parent;
                match self.state.dir(parent) {
                    Some(up) => row = up,
                    None => break Link::Below,
                }
            };
            let mut link = end;
            while let Some(row) = trail.pop() {
                if let Link::Reached(depth) = link {
                    link = Link::Reached(depth + 1);
                }
                self.state.dirs[row].link = link;
            }
        }
        self.check_depths();
    }

    /// Checks the depth of directories, which FreeBSD keeps since version 14 as a hint for the
    /// allocation; 0 where it has not been kept.
    fn check_depths(&mut self) {
        if self.superblock.dialect != Dialect::FreeBsd || self.layout.version != Version::Ufs2 {
            return;
        }
        for dir in &self.state.dirs {
            if let Link::Reached(expected) = dir.link
                && dir.depth != 0
                && dir.depth != expected
            {
                let finding = Finding::DirectoryDepth { ino: dir.ino, found: dir.depth, expected };
                self.findings.push(finding);
            }
        }
    }

    /// Returns the inodes of NetBSD's journal and quotas, which have no names.
    fn inodes_without_names(&self) -> Vec<u64> {
        if self.superblock.dialect != Dialect::NetBsd {
            return Vec::new();
        }
        let (raw, endian) = (self.superblock.raw(), self.layout.endian);
        let netbsd = FsNetBsd::decode(raw, endian);
        let mut unnamed = Vec::new();
        let journal = netbsd_journal(raw, endian).unwrap_or(netbsd);
        if journal.fs_journal_location == WAPBL_IN_FILE_SYSTEM {
            unnamed.push(journal.fs_journallocs[3]);
        }
        if netbsd.fs_quota_magic == Q2_HEAD_MAGIC {
            unnamed.extend(netbsd.fs_quotafile);
        }
        unnamed
    }

    /// Phase 4.
    pub(super) fn check_links(&mut self) {
        for ino in std::mem::take(&mut self.state.shadows) {
            if let Some(state) = self.state.inode_mut(self.layout, ino)
                && state.kind == kind::SHAD
            {
                state.names += 1;
            }
        }
        let unnamed = self.inodes_without_names();
        for cgx in 0..self.layout.fs_ncg {
            self.report_progress(Phase::Links, cgx.into(), self.layout.fs_ncg.into());
            let first = cgx * self.layout.fs_ipg;
            for (ino, state) in (first..).zip(&self.state.inodes[cgx as usize]) {
                if state.kind == 0 || state.clear || unnamed.contains(&ino.into()) {
                    continue;
                }
                let found = state.nlink;
                let mut expected = state.names;
                if state.kind == kind::DIR {
                    let row = self.state.dirs.binary_search_by_key(&ino, |dir| dir.ino);
                    if row.is_ok_and(|row| self.state.dirs[row].link == Link::Orphan) {
                        // The name that reconnecting it will give.
                        expected += 1;
                    }
                } else if expected == 0 {
                    self.findings.push(Finding::UnreferencedFile { ino, nlink: found });
                    continue;
                }
                if expected != u32::from(found) {
                    self.findings.push(Finding::LinkCount { ino, found, expected });
                }
            }
        }
    }
}
