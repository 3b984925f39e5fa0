//! The chain of the free list on the disk: following it, and making a new one.

use super::layout::{Block, BlockMap, Layout};
use super::ondisk::{Filsys, NICFREE};
use super::superblock::{free_addresses, holder};
use spindle_vfs::{Error, Result};

/// The contents of a link of the chain: the number of addresses, and the addresses.
pub(crate) type Link = (i16, [u32; NICFREE]);

/// Follows the chain from the super-block to its end. Returns the blocks in it, and an error if it
/// is damaged. A block that appears twice is an error, so this ends.
pub(crate) fn walk(
    layout: &Layout,
    head: &Filsys,
    mut read: impl FnMut(Block) -> Result<Link>,
) -> (BlockMap, Result<()>) {
    let mut free = BlockMap::new(layout);
    let mut link = (head.s_nfree, head.s_free);
    let mut held_by = None;
    let walked = (|| {
        loop {
            let damaged = |what: String| Error::corrupt(what, holder(held_by));
            let addresses = free_addresses(link.0, &link.1).map_err(damaged)?;
            for (n, &raw) in addresses.iter().enumerate() {
                if n == 0 && raw == 0 {
                    continue;
                }
                let block = layout
                    .data_block(raw)
                    .ok_or_else(|| damaged(format!("address {raw} is outside the data")))?;
                if !free.enter(block) {
                    return Err(damaged(format!("block {raw} is in it twice")));
                }
            }
            match addresses.first() {
                None | Some(0) => return Ok(()),
                Some(&next) => {
                    held_by = Some(Block(next));
                    link = read(Block(next))?;
                }
            }
        }
    })();
    (free, walked)
}

/// Makes a free list of the blocks for which `is_free` holds, in the order of mkfs and of the old
/// checkers' `-s`: in cylinders of `n` blocks, from each block to the next `m` further on. Returns
/// the link for the super-block and the number of blocks.
pub(crate) fn interleaved(
    layout: &Layout,
    (m, n): (u16, u16),
    is_free: impl Fn(Block) -> bool,
    mut write: impl FnMut(Block, Link) -> Result<()>,
) -> Result<(Link, u32)> {
    let (m, n) = (usize::from(m).max(1), usize::from(n).max(1));
    let mut order = Vec::with_capacity(n);
    let (mut taken, mut at) = (vec![false; n], 0);
    for _ in 0..n {
        while taken[at] {
            at = (at + 1) % n;
        }
        taken[at] = true;
        order.push(u32::try_from(at + 1).unwrap_or(u32::MAX));
        at = (at + m) % n;
    }
    let (mut count, mut top, mut list) = (0, 1, [0; NICFREE]);
    // The list is a stack, so the last cylinder comes first.
    let cylinders = layout.s_fsize.div_ceil(u32::try_from(n).unwrap_or(u32::MAX));
    for end in (1..=cylinders).rev().map(|cylinder| cylinder * u32::try_from(n).unwrap_or(u32::MAX)) {
        for block in
            order.iter().filter_map(|back| layout.data_block(end - back)).filter(|block| is_free(*block))
        {
            if top == NICFREE {
                write(block, (i16::try_from(top).unwrap_or(0), list))?;
                top = 0;
            }
            list[top] = block.0;
            top += 1;
            count += 1;
        }
    }
    Ok(((i16::try_from(top).unwrap_or(0), list), count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::kind::Format;

    /// Promise: with an interleave of 3 the list gives out every third block of a cylinder, from
    /// the first cylinder to the last, each block once.
    #[test]
    fn interleave() {
        let layout = Layout { format: Format::V7, s_isize: 4, s_fsize: 31 };
        let ((nfree, list), count) = interleaved(&layout, (3, 10), |_| true, |_, _| Ok(())).unwrap();
        assert_eq!((nfree, count), (28, 27));
        let taken: Vec<u32> = list[1..28].iter().rev().copied().collect();
        assert_eq!(taken[..6], [5, 8, 4, 7, 6, 9], "{taken:?}");
        assert_eq!(taken[6..9], [12, 15, 18]);
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (4..31).collect::<Vec<_>>());
    }
}
