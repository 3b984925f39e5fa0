//! Looking inside a mutated image, and changing single fields of it.
//!
//! As in [`crate::exercise`], results are not checked, because on a damaged image any error is
//! correct; but each call must return.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_ffs::inspect::{Editor, Field, Grid, Inspector};
use spindle_ffs::{ROOT_INO, Superblock};
use std::collections::HashSet;
use std::sync::Arc;

/// Inodes that are looked at one by one.
const INODES: u32 = 12;
/// Most bytes of a file that are read.
const MOST_BYTES: usize = 1 << 22;
/// Number of random changes.
const CHANGES: usize = 8;

/// Asks everything that there is to ask about an image.
///
/// # Panics
/// If the rows of the map are not the whole file system.
pub fn look(device: &dyn Device, rng: &mut SmallRng) {
    let Ok(superblock) = Superblock::salvage(device) else { return };
    let layout = &superblock.layout;
    let mut inspector = Inspector::new(device, &superblock);
    let survey = inspector.survey(Grid::new(layout, 24, 70), &mut |_, _| ());
    let shown: u64 = survey.grid.rows().iter().map(|row| row.frags).sum();
    assert_eq!(shown, layout.fs_size, "the rows of the map");
    let _ = survey.fragmentation.layout_score();
    let deleted = inspector.deleted(&mut |_, _| ());
    for inode in &deleted.inodes {
        let mut left = MOST_BYTES;
        let _ = inspector.read_deleted(&deleted, inode, &mut |_, bytes| spend(&mut left, bytes.len()));
    }
    let inodes: Vec<u32> = (0..INODES)
        .map(|n| if n % 2 == 0 { n } else { rng.random_range(0..=layout.inodes()) })
        .chain([u32::MAX])
        .collect();
    for &ino in &inodes {
        let _ = (inspector.inode(ino), inspector.is_inode_used(ino));
        let _ = (inspector.file_map(ino), inspector.list(ino));
        let mut left = MOST_BYTES;
        let _ = inspector.read_file(ino, &mut |_, bytes| {
            spend(&mut left, bytes.len()).map_err(|()| spindle_vfs::Error::NotFound)
        });
    }
    let _ = inspector.lookup(ROOT_INO, b"../lost+found/./none");
    let _ = inspector.names(&inodes.iter().copied().collect::<HashSet<_>>(), &mut |_, _| ());
    let frags = [0, 1, layout.fs_size / 2, layout.fs_size - 1].map(|frag| frag.min(layout.fs_size - 1));
    let _ = inspector.owners(&frags, &mut |_, _| ());
    for frag in frags.into_iter().chain([layout.fs_size, u64::MAX]) {
        let _ = (inspector.is_frag_used(frag), inspector.structure_at(frag));
        if let Ok(bytes) = inspector.block(frag, 1) {
            let _ = (inspector.directory_slots(&bytes), inspector.pointers(&bytes));
        }
    }
}

/// Ends a read that has had enough.
fn spend(left: &mut usize, bytes: usize) -> Result<(), ()> {
    *left = left.checked_sub(bytes).ok_or(())?;
    Ok(())
}

/// Changes fields and names at random. Returns true if the image could be changed at all.
pub fn edit(device: Arc<dyn Device>, clock: Arc<dyn Clock>, rng: &mut SmallRng) -> bool {
    let Ok(mut editor) = Editor::begin(device, clock, true) else { return false };
    let fields = Field::of_inode(&editor.superblock().layout);
    let super_fields = Field::of_superblock();
    let inodes = editor.superblock().layout.inodes();
    for _ in 0..CHANGES {
        let ino = if rng.random() { rng.random_range(0..8) } else { rng.random_range(0..=inodes) };
        let value = i128::from(rng.random::<i64>() >> rng.random_range(0..64));
        if let Some(field) = fields.choose(rng) {
            let _ = editor.set_inode(ino, &field.name, value);
        }
        if let Some(field) = super_fields.choose(rng) {
            let _ = editor.set_superblock(&field.name, value);
        }
        let _ = editor.link(ROOT_INO, format!("new{ino}").as_bytes(), ino);
        let _ = editor.unlink(if rng.random() { ROOT_INO } else { ino }, b"..");
        if rng.random_ratio(1, 4) {
            let _ = editor.clear_inode(ino);
        }
    }
    true
}
