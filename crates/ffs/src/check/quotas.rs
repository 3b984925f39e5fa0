//! Phase 6: NetBSD's quotas inside the file system. Their files must be readable, and say of every
//! user and group what its inodes hold (`fsck_ffs/pass6.c` of NetBSD).

use super::finding::Finding;
use super::inodes::ROOTINO;
use super::node::{Node, kind};
use super::{Checker, Phase};
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::format::units::Frag;
use crate::quota::inside::{Shape, kinds_inside, read};
use crate::quota::{Kind, Usage};
use std::collections::BTreeMap;

/// What phase 1 finds for the quotas inside a file system.
#[derive(Default)]
pub(crate) struct Quotas {
    /// Those that are on, with the inodes of their files (0 for none).
    kinds: Vec<(Kind, u64)>,
    /// The inode of the log, which nobody pays for.
    log: Option<u32>,
    /// What users use, and what groups use.
    usage: [BTreeMap<u32, Usage>; 2],
    /// The files.
    files: [File; 2],
}

/// The file of a quota.
#[derive(Default)]
struct File {
    /// `di_size`, if it is a regular file.
    size: Option<u64>,
    /// All its pointers were followed.
    whole: bool,
    /// Its blocks: their numbers and first fragments.
    blocks: Vec<(u64, u64)>,
}

impl Quotas {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        let log = superblock.log_place().and_then(|place| place.ino);
        Self { kinds: kinds_inside(superblock), log, ..Self::default() }
    }

    /// Returns the quota whose file an inode has.
    pub(crate) fn kind_of(&self, ino: u32) -> Option<Kind> {
        self.kinds.iter().find(|&&(_, file)| file == ino.into()).map(|&(kind, _)| kind)
    }

    /// Notes a block of the file of a quota.
    pub(crate) fn note_block(&mut self, kind: Kind, lbn: u64, frag: u64) {
        self.files[kind as usize].blocks.push((lbn, frag));
    }

    /// Notes an inode, which is in use; `whole` if all its pointers were followed.
    pub(crate) fn note(&mut self, ino: u32, node: &Node, whole: bool) {
        if self.kinds.is_empty() || ino < ROOTINO || self.log == Some(ino) {
            return;
        }
        if let Some(kind) = self.kind_of(ino) {
            let file = &mut self.files[kind as usize];
            file.size = (node.kind() == kind::REG && node.nlink == 1).then_some(node.size);
            file.whole = whole;
            return;
        }
        if node.is_snapshot() {
            return;
        }
        for (usage, id) in self.usage.iter_mut().zip([node.uid, node.gid]) {
            let sum = usage.entry(id).or_default();
            sum.blocks = sum.blocks.saturating_add(node.blocks);
            sum.inodes += 1;
        }
    }
}

impl File {
    /// Returns where its blocks are, if it is a file of whole blocks, and none is missing.
    fn places(&self, layout: &Layout) -> Option<Vec<u64>> {
        let size = self.size.filter(|_| self.whole)?;
        let count = size >> layout.fs_bshift;
        let is_complete = self.blocks.iter().map(|&(lbn, _)| lbn).eq(0..count);
        let is_whole = count > 0 && count << layout.fs_bshift == size;
        (is_whole && is_complete)
            .then(|| self.blocks.iter().map(|&(_, frag)| layout.byte(Frag(frag))).collect())
    }
}

impl Checker<'_> {
    /// Phase 6.
    pub(super) fn check_quotas(&mut self) {
        let quotas = std::mem::take(&mut self.state.quotas);
        let total = quotas.kinds.len() as u64;
        for (done, &(kind, ino)) in (0..).zip(&quotas.kinds) {
            self.report_progress(Phase::Quotas, done, total);
            let of = kind.word();
            if ino == 0 {
                self.findings.push(Finding::QuotaFileMissing { of });
                continue;
            }
            let why = match quotas.files[kind as usize].places(self.layout) {
                None => "it is no regular file of whole blocks without holes".to_owned(),
                Some(places) => match self.check_quota(kind, &places, &quotas.usage[kind as usize]) {
                    Some(why) => why,
                    None => continue,
                },
            };
            self.findings.push(Finding::QuotaFile { of, ino, why });
        }
        self.state.quotas = quotas;
    }

    /// Compares the records in these blocks with what was counted. Returns what is wrong with the
    /// file.
    fn check_quota(&mut self, kind: Kind, places: &[u64], usage: &BTreeMap<u32, Usage>) -> Option<String> {
        let bsize = self.layout.fs_bsize as usize;
        let mut bytes = Vec::with_capacity(places.len() * bsize);
        for &at in places {
            match self.reader.read(at, bsize, 0) {
                Ok(block) => bytes.extend_from_slice(block),
                Err(error) => {
                    self.unreadable(at, bsize as u64, &error);
                    return None;
                }
            }
        }
        let reading = read(kind, Shape::of(self.layout), &bytes);
        if reading.damage.is_some() {
            return reading.damage;
        }
        let records = &reading.contents.records;
        let mut ids: Vec<u32> = records.keys().chain(usage.keys()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let found = records.get(&id).map(|(_, record)| record.quota.usage()).unwrap_or_default();
            let expected = usage.get(&id).copied().unwrap_or_default();
            if found != expected {
                self.findings.push(Finding::QuotaUsage {
                    of: kind.word(),
                    id,
                    blocks: found.blocks,
                    inodes: found.inodes,
                    expected_blocks: expected.blocks,
                    expected_inodes: expected.inodes,
                });
            }
        }
        None
    }
}
