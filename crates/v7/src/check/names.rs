//! Phases 2 to 4: names, whether the root leads to every directory, and counts of names.

use super::{Checker, Entry, EntryDamage, Finding};
use crate::format::entry::{is_name, name_of};
use crate::format::layout::{Block, ROOT_INO, index};
use crate::format::ondisk::{Direct, ENTRY_SIZE, SECTOR};
use spindle_vfs::FileKind;
use std::collections::BTreeSet;

impl Checker<'_> {
    /// Carries out phase 2: checks all names.
    pub(super) fn check_names(&mut self) {
        let dirs: Vec<u16> = self.dirs.keys().copied().collect();
        for dir in dirs {
            let blocks = self.dirs.get(&dir).map(|directory| directory.blocks.clone()).unwrap_or_default();
            let mut seen = BTreeSet::new();
            let named = self.inodes[usize::from(dir)].size.div_ceil(u64::from(self.layout.format.bsize));
            let held: BTreeSet<u64> = blocks.iter().map(|(lbn, _)| *lbn).collect();
            if let Some(lbn) = (0..named).find(|lbn| !held.contains(lbn)) {
                self.findings.push(Finding::DirectoryHole { dir, lbn });
            }
            for (lbn, block) in blocks {
                let start = lbn * u64::from(self.layout.format.bsize);
                let end =
                    self.inodes[usize::from(dir)].size.saturating_sub(start).min(self.layout.bsize() as u64);
                let bytes = self.block(block);
                for (n, sector) in bytes[..index(end)].chunks(SECTOR).enumerate() {
                    let offset = start + (n * SECTOR) as u64;
                    // Of the first one '.' is missing.
                    if offset > 0 && sector.iter().all(|&byte| byte == 0) {
                        self.findings.push(Finding::LostNames { dir, offset, block: block.0 });
                    }
                }
                for (n, entry) in bytes[..index(end)].chunks_exact(ENTRY_SIZE).enumerate() {
                    let direct = Direct::decode(entry, self.layout.format.endian);
                    if direct.d_ino != 0 {
                        self.check_entry((dir, start + (n * ENTRY_SIZE) as u64, block), &direct, &mut seen);
                    }
                }
            }
        }
    }

    fn check_entry(&mut self, at: (u16, u64, Block), direct: &Direct, seen: &mut BTreeSet<Vec<u8>>) {
        let (dir, offset, Block(block)) = at;
        let (name, ino) = (name_of(&direct.d_name), direct.d_ino);
        let shown = String::from_utf8_lossy(name).into_owned();
        let entry = Entry { dir, offset, block, name: shown, ino };
        let damage = if !is_name(name) {
            Some(EntryDamage::BadName)
        } else if !seen.insert(name.to_vec()) {
            Some(EntryDamage::Duplicate)
        } else if let Some(dots) = [&b"."[..], b".."].iter().position(|dots| *dots == name) {
            // Their inodes are checked when the parents are known.
            if let Some(directory) = self.dirs.get_mut(&dir) {
                directory.dots[dots] = Some(entry);
            }
            return;
        } else if !(ROOT_INO..=self.layout.last_ino()).contains(&ino) {
            Some(EntryDamage::OutOfRange)
        } else {
            match self.inodes[usize::from(ino)].kind {
                None => {
                    // The findings of phase 1 about this inode can be reported with a path.
                    self.inodes[usize::from(ino)].name.get_or_insert((dir, direct.d_name));
                    Some(EntryDamage::Unallocated)
                }
                Some(FileKind::Directory) => match self.dirs.get_mut(&ino) {
                    Some(child) if ino != ROOT_INO && child.named_by.is_none() => {
                        child.named_by = Some(entry.clone());
                        None
                    }
                    _ => Some(EntryDamage::SecondParent),
                },
                Some(_) => None,
            }
        };
        if let Some(damage) = damage {
            self.findings.push(Finding::BadEntry { entry, damage });
            return;
        }
        let inode = &mut self.inodes[usize::from(ino)];
        inode.names = inode.names.saturating_add(1);
        inode.name.get_or_insert((dir, direct.d_name));
    }

    /// Carries out phase 3: checks that every directory can be reached from the root.
    pub(super) fn check_connectivity(&mut self) {
        let mut reached = BTreeSet::from([ROOT_INO]);
        let dirs: Vec<u16> = self.dirs.keys().copied().collect();
        let parent =
            |checker: &Self, dir| checker.dirs.get(&dir).and_then(|d| d.named_by.as_ref()).map(|e| e.dir);
        for &dir in &dirs {
            let mut climbed = BTreeSet::new();
            let mut at = dir;
            while !reached.contains(&at) && climbed.insert(at) {
                match parent(self, at) {
                    Some(above) => at = above,
                    None => break,
                }
            }
            if climbed.contains(&at) && parent(self, at).is_some() {
                // The directory that the climb came back to is in the cycle: removing its name
                // breaks it.
                let entry = self.dirs.get_mut(&at).and_then(|directory| directory.named_by.take());
                if let Some(entry) = entry {
                    self.inodes[usize::from(at)].names = 0;
                    self.inodes[usize::from(at)].name = None;
                    self.findings.push(Finding::BadEntry { entry, damage: EntryDamage::Ring });
                }
            }
            reached.extend(climbed);
        }
        for &dir in &dirs {
            let parent = if dir == ROOT_INO { Some(ROOT_INO) } else { parent(self, dir) };
            if parent.is_none() {
                self.findings.push(Finding::OrphanDirectory { ino: dir });
            }
            let dots = self.dirs.get(&dir).map(|directory| directory.dots.clone()).unwrap_or_default();
            for (entry, name, expected) in
                dots.into_iter().zip([".", ".."]).zip([Some(dir), parent]).map(|((e, n), p)| (e, n, p))
            {
                match (entry, expected) {
                    (Some(entry), Some(expected)) if entry.ino != expected => {
                        self.findings.push(Finding::BadDots { entry, expected });
                    }
                    (None, Some(expected)) => {
                        self.findings.push(Finding::MissingDots { dir, name, expected });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Carries out phase 4: checks the counts of names.
    pub(super) fn check_links(&mut self) {
        let mut below = vec![0_u16; self.inodes.len()];
        for parent in self.dirs.values().filter_map(|directory| directory.named_by.as_ref()).map(|e| e.dir) {
            below[usize::from(parent)] = below[usize::from(parent)].saturating_add(1);
        }
        // Inode 1 was meant for bad blocks and has no name.
        for ino in ROOT_INO..=self.layout.last_ino() {
            let inode = &self.inodes[usize::from(ino)];
            let (nlink, size) = (inode.nlink, inode.size);
            let finding = match inode.kind {
                None => continue,
                Some(FileKind::Directory) => {
                    let names = if ino == ROOT_INO { 1 } else { inode.names };
                    let expected = names.saturating_add(1).saturating_add(below[usize::from(ino)]);
                    (names > 0 && nlink != expected).then_some(Finding::LinkCount { ino, nlink, expected })
                }
                Some(_) if inode.names == 0 => Some(if nlink == 0 || size == 0 {
                    Finding::Leftover { ino }
                } else {
                    Finding::OrphanFile { ino, nlink, size }
                }),
                Some(_) => {
                    let expected = inode.names;
                    (nlink != expected).then_some(Finding::LinkCount { ino, nlink, expected })
                }
            };
            if let Some(finding) = finding {
                self.findings.push(finding);
            }
        }
    }
}
