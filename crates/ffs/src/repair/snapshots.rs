//! What a repair gives to snapshots, so that they show what they have shown before.
//!
//! A snapshot needs a block of the file system if it has none of its own in its place (its pointer
//! is 0), as far as the fragments were in use when it was made. When everything else is planned, it
//! gets a copy of each such block that the repair changes, or of which a part is free afterwards,
//! with the bytes of before the repair; one that is wholly free becomes its own. This changes
//! inodes and maps, so rounds follow until there is nothing more to give.
//!
//! As a copy must not be missing when the block changes, such a repair happens as a whole
//! ([`super::redo`]).

use super::Image;
use super::put_pointer;
use super::space::Space;
use crate::check::snapshots::{PointerPlace, SnapshotView, without};
use crate::check::state::BlockMap;
use crate::check::{Checker, Findings};
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::format::units::{Frag, index};
use spindle_device::CowDevice;
use spindle_vfs::{Error, Result};

/// What to do if there is no space for what snapshots need.
const REMEDY: &str = "copy its files away, or remove a snapshot on its own system";

/// What one snapshot gets.
struct Share {
    ino: u32,
    /// Blocks of which it gets a copy.
    copied: Vec<u64>,
    /// Blocks that become its own.
    claimed: Vec<u64>,
}

/// Gives the snapshots that the `superblock` of the planned state lists what they need. `used` are
/// the fragments that were in use before the repair; `kept` gets those that snapshots need. Returns
/// false if they need nothing more.
///
/// # Errors
/// [`Error::Unsupported`] if there is no space; device errors.
pub(super) fn preserve(
    overlay: &CowDevice,
    superblock: &Superblock,
    used: &BlockMap,
    kept: &mut BlockMap,
) -> Result<bool> {
    let layout = &superblock.layout;
    let mut quiet = |_| ();
    let mut planned =
        Checker::run(overlay, superblock, None, Findings::new(0), &mut quiet)?.state.used.clone();
    let changed = changed(overlay, layout)?;
    let mut shares = Vec::new();
    for ino in superblock.snapshots() {
        let view = SnapshotView::open(overlay, layout, ino)?;
        if !view.node.is_snapshot() {
            continue;
        }
        let shown = view.used()?;
        let mut share = Share { ino, copied: Vec::new(), claimed: Vec::new() };
        view.each_pointer(&mut |block, pointer| {
            let (first, here) = frags(layout, block);
            let needed = shown.bits(first, here);
            if pointer != 0 || needed == 0 {
                return Ok(());
            }
            kept.set_bits(first, here);
            let freed = without(&shown, &planned, first, here);
            let is_free = planned.bits(first, here) == 0 && here == layout.fs_frag;
            if changed.bits(first, here) & needed != 0 || (freed != 0 && !is_free) {
                share.copied.push(block);
            } else if freed != 0 {
                share.claimed.push(block);
                planned.set_bits(first, here);
            }
            Ok(())
        })?;
        shares.push(share);
    }
    shares.retain(|share| !share.copied.is_empty() || !share.claimed.is_empty());
    for other in [used, &*kept, &changed] {
        planned.join(other);
    }
    let mut space = Space::new(layout, planned);
    let image = Image { device: overlay, layout, hashes: superblock.check_hashes() };
    for share in &shares {
        give(overlay, &image, &mut space, share)?;
    }
    Ok(!shares.is_empty())
}

/// Returns the first fragment of a block, and how many it has.
fn frags(layout: &Layout, block: u64) -> (u64, u32) {
    let first = block * u64::from(layout.fs_frag);
    let left = u32::try_from(layout.fs_size - first).unwrap_or(u32::MAX);
    (first, left.min(layout.fs_frag))
}

/// Returns the fragments that a repair changes.
pub(super) fn changed(overlay: &CowDevice, layout: &Layout) -> Result<BlockMap> {
    let mut changed = BlockMap::new(layout.fs_size);
    for change in overlay.changes()? {
        let frag = change.at >> layout.fs_fshift;
        if frag < layout.fs_size {
            changed.set(frag);
        }
    }
    Ok(changed)
}

/// Gives a snapshot its share.
fn give(overlay: &CowDevice, image: &Image<'_>, space: &mut Space<'_>, share: &Share) -> Result<()> {
    let layout = image.layout;
    let view = SnapshotView::open(overlay, layout, share.ino)?;
    for &block in &share.copied {
        let Some(to) = space.take(layout.fs_frag) else {
            let what = format!("there is no space for what the snapshot in inode {} needs", share.ino);
            return Err(Error::unsupported(what, REMEDY));
        };
        let (first, here) = frags(layout, block);
        let mut bytes = vec![0; layout.fs_bsize as usize];
        let there = (here << layout.fs_fshift) as usize;
        overlay.under().read_at(layout.byte(Frag(first)), &mut bytes[..there])?;
        image.put(layout.byte(Frag(to)), &bytes)?;
        set_pointer(image, &view, block, to)?;
    }
    for &block in &share.claimed {
        set_pointer(image, &view, block, frags(layout, block).0)?;
    }
    let blocks = (share.copied.len() + share.claimed.len()) as u64 * u64::from(layout.fs_bsize / 512);
    image.change_inode(share.ino, |fields| fields.set_blocks(view.node.blocks + blocks))?;
    Ok(())
}

fn set_pointer(image: &Image<'_>, view: &SnapshotView<'_>, block: u64, frag: u64) -> Result<()> {
    match view.pointer(block)?.0 {
        PointerPlace::Inode(n) => image.change_inode(view.ino(), |fields| fields.set_pointer(n, frag))?,
        PointerPlace::Byte(at) => {
            let width = image.layout.pointer_size();
            image.change(at, width, |bytes| put_pointer(image.layout, bytes, frag))?
        }
    };
    Ok(())
}

/// Returns the places of so many free blocks, that no file and no snapshot has or needs before the
/// repair or after it.
///
/// # Errors
/// [`Error::Unsupported`] if there are too few.
pub(super) fn places(layout: &Layout, taken: BlockMap, blocks: usize) -> Result<Vec<u64>> {
    let mut space = Space::new(layout, taken);
    let places: Vec<u64> = std::iter::from_fn(|| space.take(layout.fs_frag)).take(blocks).collect();
    if places.len() < blocks {
        let bytes = index(blocks as u64) << layout.fs_bshift;
        let what = format!("there are no {bytes} free bytes to write the repair down in, for the snapshots");
        return Err(Error::unsupported(what, REMEDY));
    }
    Ok(places.into_iter().map(|frag| layout.byte(Frag(frag))).collect())
}
