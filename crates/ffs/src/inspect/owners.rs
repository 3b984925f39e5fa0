//! Whose a fragment is.

use super::extents::walk_pieces;
use super::{Inspector, Progress};
use crate::check::BlockPlace;
use crate::check::node::Node;
use crate::format::layout::Layout;
use crate::format::units::Frag;
use serde::Serialize;
use spindle_vfs::Result;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// What has a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "owner")]
pub enum Owner {
    /// The boot area in front of everything, and what there is up to the first superblock copy.
    Boot,
    /// The superblock copy of a cylinder group.
    Superblock {
        /// The group.
        group: u32,
    },
    /// The block of a cylinder group.
    Group {
        /// The group.
        group: u32,
    },
    /// Inodes.
    Inodes {
        /// The first inode in the fragment.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// The summaries.
    Summaries,
    /// A file.
    File {
        /// Its inode.
        ino: u32,
        /// What the block is in it.
        place: BlockPlace,
    },
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boot => f.write_str("boot area"),
            Self::Superblock { group } => write!(f, "superblock copy of group {group}"),
            Self::Group { group } => write!(f, "block of group {group}"),
            Self::Inodes { first, last } => write!(f, "inodes {first} to {last}"),
            Self::Summaries => f.write_str("summaries"),
            Self::File { ino, place } => write!(f, "inode {ino}, {place}"),
        }
    }
}

impl Inspector<'_> {
    /// Returns who has each of these fragments; more than one if several claim it.
    ///
    /// # Errors
    /// As [`Self::check_frag`].
    pub fn owners(&mut self, frags: &[u64], progress: Progress<'_>) -> Result<BTreeMap<u64, Vec<Owner>>> {
        let layout = self.layout;
        let mut owners = BTreeMap::new();
        for &frag in frags {
            self.check_frag(frag)?;
            owners.insert(frag, structure(layout, frag).into_iter().collect());
        }
        let mut entered = HashSet::new();
        self.each_inode(progress, &mut |reader, walker, ino, bytes| {
            let node = Node::decode(layout, bytes);
            if !node.known_kind(layout) {
                return;
            }
            walk_pieces(layout, reader, walker, &node, &mut entered, &mut |piece| {
                let range = piece.frag..piece.frag + u64::from(piece.frags);
                for (_, claims) in owners.range_mut(range) {
                    let claims: &mut Vec<Owner> = claims;
                    claims.push(Owner::File { ino, place: piece.place });
                }
            });
        });
        Ok(owners)
    }
}

/// Returns the structure of the file system itself that a fragment belongs to.
pub(super) fn structure(layout: &Layout, frag: u64) -> Option<Owner> {
    let group = layout.dtog(Frag(frag));
    let summaries = u64::from(layout.fs_cssize).div_ceil(layout.fs_fsize.into());
    let (sblock, cblock, inodes) = (layout.cgsblock(group).0, layout.cgtod(group).0, layout.cgimin(group).0);
    if (layout.fs_csaddr.0..layout.fs_csaddr.0 + summaries).contains(&frag) {
        return Some(Owner::Summaries);
    }
    if frag < sblock {
        return (group == 0).then_some(Owner::Boot);
    }
    if frag < cblock {
        return Some(Owner::Superblock { group });
    }
    if frag < inodes {
        return Some(Owner::Group { group });
    }
    if frag < layout.cgdmin(group).0 {
        let per_frag = layout.fs_inopb / layout.fs_frag;
        let within = u32::try_from(frag - inodes).unwrap_or(0).saturating_mul(per_frag);
        if per_frag > 0 && within < layout.fs_ipg {
            let first = group * layout.fs_ipg + within;
            return Some(Owner::Inodes { first, last: first + per_frag - 1 });
        }
        return Some(Owner::Group { group });
    }
    None
}
