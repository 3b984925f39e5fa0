//! The places of all structures of a valid image, so that mutations can name the field that they
//! change.
//!
//! This crate has just made the image, so its pointers are followed without checks. Fields come
//! from the `OFFSETS` of the declared structures: every declared field is mutated.

use spindle_ffs::ondisk::{
    Cg, Csum, DIRECT_HEADER, Dinode1, Dinode2, DirectHeader, Fs, FsNetBsd, FsRecovery, FsSun, OldCg,
    SBLOCK_UFS2,
};
use spindle_ffs::{Dialect, Frag, Layout, Superblock, Version};
use spindle_ondisk::{Endian, Field};
use std::ops::Range;

/// A field: name, byte offset in the structure, bytes.
pub type Row = (&'static str, usize, usize);

/// The header of an extended attribute (`sys/ufs/ufs/extattr.h`), which is read byte by byte.
const EXTATTR: &[Row] =
    &[("ea_length", 0, 4), ("ea_namespace", 4, 1), ("ea_contentpadlen", 5, 1), ("ea_namelength", 6, 1)];
const POINTER32: &[Row] = &[("pointer", 0, 4)];
const POINTER64: &[Row] = &[("pointer", 0, 8)];

/// One kind of structure, with its fields and every place where it stands.
#[derive(Clone, Debug)]
pub struct Structure {
    /// The declaration's name.
    pub name: &'static str,
    /// Its fields.
    pub fields: &'static [Row],
    /// The bytes on the device where one starts.
    pub places: Vec<usize>,
}

/// All structures of a valid image.
#[derive(Clone, Debug)]
pub struct Anatomy {
    /// The superblock before any mutation.
    pub superblock: Superblock,
    /// The structures.
    pub structures: Vec<Structure>,
    /// Byte ranges of metadata: superblock, cylinder groups, used inodes, directories, indirect
    /// blocks, extended attributes.
    pub metadata: Vec<Range<usize>>,
    /// Numbers of the inodes in use.
    pub inodes: Vec<u32>,
}

/// Returns a number of the image as an index.
fn index(n: u64) -> usize {
    usize::try_from(n).expect("the image is in memory")
}

/// The structures found so far.
struct Scanner<'a> {
    bytes: &'a [u8],
    layout: Layout,
    entries: Vec<usize>,
    pointers: Vec<usize>,
    attributes: Vec<usize>,
    metadata: Vec<Range<usize>>,
}

/// The fields of an inode that locate its data.
struct Node {
    mode: u16,
    size: usize,
    extsize: usize,
    db: Vec<u64>,
    ib: Vec<u64>,
    extb: Vec<u64>,
}

impl Scanner<'_> {
    fn get<T: Field>(&self, at: usize) -> T {
        T::get(&self.bytes[at..], self.layout.endian)
    }

    fn byte(&self, frag: u64) -> usize {
        index(self.layout.byte(Frag(frag)))
    }

    fn block(&self, frag: u64) -> Range<usize> {
        let at = self.byte(frag);
        at..(at + self.layout.fs_bsize as usize).min(self.bytes.len())
    }

    fn node(&self, at: usize) -> Node {
        if self.layout.version == Version::Ufs2 {
            let d: Dinode2 = self.get(at);
            let wide = |p: &[i64]| p.iter().map(|p| p.cast_unsigned()).collect();
            Node {
                mode: d.di_mode,
                size: index(d.di_size),
                extsize: d.di_extsize as usize,
                db: wide(&d.di_db),
                ib: wide(&d.di_ib),
                extb: wide(&d.di_extb),
            }
        } else {
            let d: Dinode1 = self.get(at);
            let wide = |p: &[i32]| p.iter().map(|p| p.cast_unsigned().into()).collect();
            Node {
                mode: d.di_mode,
                size: index(d.di_size),
                extsize: 0,
                db: wide(&d.di_db),
                ib: wide(&d.di_ib),
                extb: Vec::new(),
            }
        }
    }

    fn add_inode(&mut self, at: usize) {
        let node = self.node(at);
        let bsize = self.layout.fs_bsize as usize;
        self.metadata.push(at..at + self.layout.inode_size());
        let mut left = node.extsize;
        for &frag in node.extb.iter().filter(|&&frag| frag != 0) {
            self.add_attributes(self.byte(frag), left.min(bsize));
            left = left.saturating_sub(bsize);
        }
        let kind = node.mode & 0o170_000;
        let inline = kind == 0o120_000 && node.size < self.layout.fs_maxsymlinklen as usize;
        if inline || !matches!(kind, 0o040_000 | 0o100_000 | 0o120_000) {
            return;
        }
        if kind == 0o040_000 {
            for (n, &frag) in node.db.iter().enumerate().filter(|&(_, &frag)| frag != 0) {
                self.add_names(self.byte(frag), node.size.saturating_sub(n * bsize).min(bsize));
            }
        }
        for (level, &frag) in node.ib.iter().enumerate().filter(|&(_, &frag)| frag != 0) {
            self.add_indirect(frag, level);
        }
    }

    fn add_names(&mut self, start: usize, len: usize) {
        self.metadata.push(start..start + len);
        let mut at = start;
        while at + DIRECT_HEADER <= start + len {
            self.entries.push(at);
            at += usize::from(self.get::<u16>(at + 4)).max(DIRECT_HEADER);
        }
    }

    fn add_attributes(&mut self, start: usize, len: usize) {
        self.metadata.push(start..start + len);
        let mut at = start;
        while at + 8 <= start + len {
            let length = self.get::<u32>(at) as usize;
            if length == 0 {
                break;
            }
            self.attributes.push(at);
            at += length;
        }
    }

    fn add_indirect(&mut self, frag: u64, level: usize) {
        let block = self.block(frag);
        let size = self.layout.pointer_size();
        self.metadata.push(block.clone());
        for at in block.clone().step_by(size) {
            let pointer: u64 = if size == 8 { self.get(at) } else { self.get::<u32>(at).into() };
            // The first pointer stands for all holes of the block.
            if pointer != 0 || at == block.start {
                self.pointers.push(at);
            }
            if pointer != 0 && level > 0 {
                self.add_indirect(pointer, level - 1);
            }
        }
    }
}

impl Anatomy {
    /// Finds the structures of a valid image.
    ///
    /// # Panics
    /// If it is not valid.
    #[must_use]
    pub fn of(bytes: &[u8], superblock: Superblock) -> Self {
        let layout = superblock.layout.clone();
        let (sb, ufs2) = (index(layout.fs_sblockloc), layout.version == Version::Ufs2);
        let mut d = Scanner {
            bytes,
            layout: layout.clone(),
            entries: Vec::new(),
            pointers: Vec::new(),
            attributes: Vec::new(),
            metadata: Vec::new(),
        };
        let groups = (0..layout.fs_ncg).map(|cgx| d.byte(layout.cgtod(cgx).0)).collect::<Vec<_>>();
        let replicas = (0..layout.fs_ncg).map(|cgx| d.byte(layout.cgsblock(cgx).0)).collect();
        d.metadata.push(sb..sb + layout.fs_sbsize as usize);
        d.metadata.extend(groups.iter().map(|&at| at..at + layout.fs_cgsize as usize));
        let mut inodes = Vec::new();
        let mut places = Vec::new();
        for ino in 2..layout.inodes() {
            let (block, offset) = layout.ino_to_fsba(ino);
            let at = d.byte(block.0) + offset;
            // An inode that was never initialised reads as zeros.
            if at + layout.inode_size() <= bytes.len() && d.get::<u16>(at) != 0 {
                inodes.push(ino);
                places.push(at);
                d.add_inode(at);
            }
        }
        let summaries = d.byte(layout.fs_csaddr.0);
        d.metadata.push(summaries..summaries + layout.fs_cssize as usize);

        let superblock_alias = match superblock.dialect {
            Dialect::NetBsd => Some(("FsNetBsd", FsNetBsd::OFFSETS)),
            Dialect::Sun { .. } => Some(("FsSun", FsSun::OFFSETS)),
            _ => None,
        };
        let mut structures = vec![
            Structure { name: "Fs", fields: Fs::OFFSETS, places: vec![sb] },
            Structure { name: "Fs (replica)", fields: Fs::OFFSETS, places: replicas },
            Structure {
                name: if layout.old_cg { "OldCg" } else { "Cg" },
                fields: if layout.old_cg { OldCg::OFFSETS } else { Cg::OFFSETS },
                places: groups,
            },
            Structure {
                name: "Csum",
                fields: Csum::OFFSETS,
                places: (0..layout.fs_ncg as usize).map(|cgx| summaries + cgx * Csum::SIZE).collect(),
            },
            Structure {
                name: if ufs2 { "Dinode2" } else { "Dinode1" },
                fields: if ufs2 { Dinode2::OFFSETS } else { Dinode1::OFFSETS },
                places,
            },
            Structure { name: "DirectHeader", fields: DirectHeader::OFFSETS, places: d.entries },
            Structure {
                name: "indirect block",
                fields: if ufs2 { POINTER64 } else { POINTER32 },
                places: d.pointers,
            },
        ];
        if let Some((name, fields)) = superblock_alias {
            structures.push(Structure { name, fields, places: vec![sb] });
        }
        if ufs2 {
            structures.push(Structure { name: "extattr", fields: EXTATTR, places: d.attributes });
            structures.push(Structure {
                name: "FsRecovery",
                fields: FsRecovery::OFFSETS,
                places: vec![index(SBLOCK_UFS2) - FsRecovery::SIZE],
            });
        }
        structures.retain(|s| !s.places.is_empty());
        Self { superblock, structures, metadata: d.metadata, inodes }
    }

    /// Returns the geometry before any mutation.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.superblock.layout
    }

    /// Returns the byte order of the image.
    #[must_use]
    pub const fn endian(&self) -> Endian {
        self.superblock.layout.endian
    }

    /// Returns the byte offset of an inode.
    #[must_use]
    pub fn inode(&self, ino: u32) -> usize {
        let (block, offset) = self.layout().ino_to_fsba(ino);
        index(self.layout().byte(block)) + offset
    }

    /// Returns the number of different fields.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.structures.iter().map(|s| s.fields.len()).sum()
    }

    /// Returns field `n` of all fields: its structure and row.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn field(&self, mut n: usize) -> (&Structure, Row) {
        for structure in &self.structures {
            match structure.fields.get(n) {
                Some(&row) => return (structure, row),
                None => n -= structure.fields.len(),
            }
        }
        panic!("there are only {} fields", self.fields());
    }
}
