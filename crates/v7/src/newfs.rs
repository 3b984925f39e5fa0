//! Making a file system (mkfs): an empty root, and all other blocks on the free list in the order
//! of the interleave.
//!
//! [`Plan::new`] turns [`Parameters`] into a checked layout without touching anything; [`write()`]
//! puts it on a device.

use crate::format::dinode::{Dinode, id, seconds};
use crate::format::free_list::interleaved;
use crate::format::kind::Format;
use crate::format::layout::{Block, Layout, ROOT_INO, index};
use crate::format::ondisk::{DIRSIZ, Direct, ENTRY_SIZE, Filsys, FilsysTail, NADDR, NICFREE, NICINOD};
use crate::format::superblock::Superblock;
use spindle_clock::Clock;
use spindle_device::Device;
use spindle_vfs::{Error, Result};

/// The parameters of a new file system. [`Parameters::new`] takes the defaults of the system's own
/// mkfs for all but format and size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The format.
    pub format: Format,
    /// Size in bytes; a partial block at the end is not used.
    pub size_bytes: u64,
    /// Number of inodes, rounded up to whole blocks of them. By default, one block in 25 holds
    /// inodes; in System V there is an inode for every four blocks.
    pub inodes: Option<u32>,
    /// Order of the free list: each block is `m` blocks after the one before, within cylinders
    /// of `n` blocks. By default 3 and 500; 7 and 400 in System V.
    pub interleave: Option<(u16, u16)>,
    /// Name of the file system, up to six bytes.
    pub name: Vec<u8>,
    /// Name of the disk pack, up to six bytes.
    pub pack: Vec<u8>,
    /// User and group of the root directory.
    pub root_owner: (u32, u32),
}

impl Parameters {
    /// Returns the defaults for a format and a size.
    #[must_use]
    pub const fn new(format: Format, size_bytes: u64) -> Self {
        Self {
            format,
            size_bytes,
            inodes: None,
            interleave: None,
            name: Vec::new(),
            pack: Vec::new(),
            root_owner: (0, 0),
        }
    }
}

/// The checked layout of a file system to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The geometry.
    pub layout: Layout,
    /// Order of the free list: `m` and `n`.
    pub interleave: (u16, u16),
    names: [[u8; 6]; 2],
    root_owner: (u16, u16),
}

/// Longest cylinder of the interleave (`MAXFN`).
const MAXFN: u16 = 500;
/// Bytes at the start of the device that are zeroed, because a superblock of another file system
/// there would be found again.
const FOREIGN_BYTES: u64 = 272 << 10;

impl Plan {
    /// Checks the parameters and computes the layout.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which names what is refused and what is possible.
    pub fn new(parameters: &Parameters) -> Result<Self> {
        let refuse = |what: String, allowed: &str| Err(Error::unsupported(format!("newfs: {what}"), allowed));
        let Parameters { format, size_bytes, inodes, interleave, ref name, ref pack, root_owner } =
            *parameters;
        if !format.is_possible() {
            return refuse(format!("format {format}"), "no system made such a file system");
        }
        let blocks = size_bytes / u64::from(format.bsize);
        let inopb = format.inopb();
        let most = u32::from(u16::MAX) / inopb;
        let by_default = if format.is_sysv() { blocks.div_ceil(4 * u64::from(inopb)) } else { blocks / 25 };
        let inode_blocks = match inodes {
            Some(inodes) if inodes.div_ceil(inopb) > most => {
                return refuse(format!("{inodes} inodes"), "at most 65535 can be numbered");
            }
            Some(inodes) => inodes.div_ceil(inopb),
            None => u32::try_from(by_default).unwrap_or(u32::MAX).min(most),
        };
        let s_isize = u16::try_from(inode_blocks.max(1) + 2).unwrap_or(u16::MAX);
        let head = Filsys { s_isize, s_fsize: u32::try_from(blocks).unwrap_or(u32::MAX), ..empty_head() };
        let Ok(layout) = Layout::new(format, &head) else {
            let allowed = format!("from {} to {} blocks of {}", s_isize + 1, 1 << 24, format.bsize);
            return refuse(format!("size {size_bytes}"), &allowed);
        };
        let interleave = interleave.unwrap_or(if format.is_sysv() { (7, 400) } else { (3, 500) });
        let (m, n) = interleave;
        if m == 0 || n > MAXFN || m > n {
            return refuse(format!("interleave {m}/{n}"), "m from 1 to n, and n at most 500");
        }
        let mut names = [[0; 6]; 2];
        for (name, field) in [name, pack].into_iter().zip(&mut names) {
            match field.get_mut(..name.len()) {
                Some(start) => start.copy_from_slice(name),
                None => return refuse(format!("name {}", name.escape_ascii()), "at most six bytes"),
            }
        }
        let (uid, gid) = root_owner;
        let (Ok(uid), Ok(gid)) = (id(uid), id(gid)) else {
            return refuse(format!("root owner {uid}:{gid}"), "numbers up to 65535");
        };
        Ok(Self { layout, interleave, names, root_owner: (uid, gid) })
    }
}

/// Returns the head of a super-block with all fields zero.
const fn empty_head() -> Filsys {
    Filsys {
        s_isize: 0,
        s_fsize: 0,
        s_nfree: 0,
        s_free: [0; NICFREE],
        s_ninode: 0,
        s_inode: [0; NICINOD],
        s_flock: 0,
        s_ilock: 0,
        s_fmod: 0,
        s_ronly: 0,
        s_time: 0,
    }
}

/// Makes the file system on a device, whose contents are lost.
///
/// # Errors
/// If the device is too small for the plan, or fails.
pub fn write(plan: &Plan, device: &dyn Device, clock: &dyn Clock) -> Result<()> {
    let Plan { layout, interleave, names, root_owner: (uid, gid) } = plan;
    let format = layout.format;
    let info = device.info();
    let bytes = layout.byte(Block(layout.s_fsize));
    if info.size_bytes < bytes || info.sector_bytes > format.bsize {
        let what =
            format!("newfs: {} has {} bytes in sectors of {}", info.name, info.size_bytes, info.sector_bytes);
        return Err(Error::unsupported(
            what,
            format!("{bytes} bytes and sectors of at most {} are needed", format.bsize),
        ));
    }
    let now = clock.now();
    let root_block = Block(layout.s_isize);
    let wiped = FOREIGN_BYTES.min(bytes).max(layout.byte(root_block));
    device.write_at(0, &vec![0; index(wiped / layout.bsize() as u64) * layout.bsize()])?;

    let (list, free_blocks) = interleaved(
        layout,
        *interleave,
        |block| block != root_block,
        |block, link| {
            let mut bytes = vec![0; layout.bsize()];
            format.encode_link(link, &mut bytes);
            Ok(device.write_at(layout.byte(block), &bytes)?)
        },
    )?;

    let mut names_of_root = vec![0; layout.bsize()];
    for (n, name) in [&b"."[..], b".."].into_iter().enumerate() {
        let mut d_name = [0; DIRSIZ];
        d_name[..name.len()].copy_from_slice(name);
        Direct { d_ino: ROOT_INO, d_name }.encode(&mut names_of_root[n * ENTRY_SIZE..], format.endian);
    }
    device.write_at(layout.byte(root_block), &names_of_root)?;

    let (inode_block, _) = layout.inode_at(ROOT_INO);
    let mut inodes = vec![0; layout.bsize()];
    let times = Dinode { atime: now, mtime: now, ctime: now, ..Dinode::default() };
    let mut addr = [0; NADDR];
    addr[0] = root_block.0;
    // Inode 1 was meant for bad blocks: a file without a name.
    let bad = Dinode { mode: 0o100_000, ..times.clone() };
    let (uid, gid) = (*uid, *gid);
    let root = Dinode { mode: 0o040_755, nlink: 2, uid, gid, size: 2 * ENTRY_SIZE as u64, addr, ..times };
    for (ino, inode) in [(1, bad), (ROOT_INO, root)] {
        inode.encode(&mut inodes[layout.inode_at(ino).1..], format.endian);
    }
    device.write_at(layout.byte(inode_block), &inodes)?;

    let head = Filsys {
        s_isize: u16::try_from(layout.s_isize).unwrap_or(u16::MAX),
        s_fsize: layout.s_fsize,
        s_nfree: list.0,
        s_free: list.1,
        ..empty_head()
    };
    let tail = FilsysTail {
        s_tfree: free_blocks,
        s_tinode: layout.last_ino() - ROOT_INO,
        s_m: interleave.0,
        s_n: interleave.1,
        s_fname: names[0],
        s_fpack: names[1],
    };
    let mut superblock = Superblock { format, head, tail, s_state: 0 };
    superblock.set_clean(true, seconds(now));
    let (block, offset) = layout.superblock_at();
    let mut bytes = vec![0; layout.bsize().max(512)];
    superblock.encode(&mut bytes[offset..]);
    device.write_at(layout.byte(block), &bytes)?;
    Ok(device.flush()?)
}
