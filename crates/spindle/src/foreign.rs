//! What a device holds that this program does not read: other file systems, disks of virtual
//! machines, archives, compressed files. Each is known by its magic number, and has a remedy.

mod volume;

use self::volume::{Layout, ext, is_zfs};
use spindle_device::Device;
use spindle_vfs::{Error, Result};

pub(crate) use self::volume::{Volume, volume_at, volume_with};

/// Something that this program does not read.
#[derive(Debug, PartialEq, Eq)]
pub struct Foreign {
    /// What it is, with an article.
    pub name: &'static str,
    /// What can be done with it.
    pub remedy: &'static str,
    /// Where it is found.
    sort: Sort,
}

impl Foreign {
    /// Returns true if it is a file system, a disk or a part of one, which nobody overwrites by
    /// intent.
    #[must_use]
    pub const fn is_disk(&self) -> bool {
        !matches!(self.sort, Sort::File)
    }
}

/// Where something is found.
#[derive(Debug, PartialEq, Eq)]
enum Sort {
    /// A file system or the like, which may begin anywhere on a disk.
    Volume(Layout),
    /// A disk of a virtual machine, in a file of its own.
    Disk,
    /// Another file.
    File,
}

/// A magic number: its first byte on the device, and its bytes.
struct Magic(usize, &'static [u8]);

/// What has all of these magic numbers is the thing in the second place.
type Row = (&'static [Magic], Foreign);

const fn volume(name: &'static str, layout: Layout, remedy: &'static str) -> Foreign {
    Foreign { name, remedy, sort: Sort::Volume(layout) }
}

const fn disk(name: &'static str, remedy: &'static str) -> Foreign {
    Foreign { name, remedy, sort: Sort::Disk }
}

const fn file(name: &'static str, remedy: &'static str) -> Foreign {
    Foreign { name, remedy, sort: Sort::File }
}

const LINUX: &str = "Linux itself mounts it; Spindle does not read it";
const RAW: &str = "convert it to a raw image first: qemu-img convert -O raw FILE disk.img";
const UNPACK: &str = "unpack it first, and name the image that is in it";

/// The known ones; of several that fit, the first. Those with a weak magic number come last.
const TABLE: &[Row] = &[
    (&[Magic(0, b"XFSB")], volume("an XFS file system", Layout::Xfs, LINUX)),
    (&[Magic(0x1_0040, b"_BHRfS_M")], volume("a Btrfs file system", Layout::Btrfs, LINUX)),
    (
        &[Magic(0, b"hsqs")],
        volume("a squashfs", Layout::Squashfs, "unpack it with unsquashfs; Spindle does not read it"),
    ),
    (&[Magic(3, b"NTFS    ")], volume("an NTFS file system", Layout::Ntfs, LINUX)),
    (&[Magic(3, b"EXFAT   ")], volume("an exFAT file system", Layout::ExFat, LINUX)),
    (&[Magic(82, b"FAT32   "), BOOT], volume("a FAT32 file system", Layout::Fat, LINUX)),
    (&[Magic(54, b"FAT16   "), BOOT], volume("a FAT16 file system", Layout::Fat, LINUX)),
    (&[Magic(54, b"FAT12   "), BOOT], volume("a FAT12 file system", Layout::Fat, LINUX)),
    (&[Magic(4086, b"SWAPSPACE2")], volume("a Linux swap area", Layout::Swap(4096), "it holds no files")),
    (&[Magic(8182, b"SWAPSPACE2")], volume("a Linux swap area", Layout::Swap(8192), "it holds no files")),
    (&[Magic(65526, b"SWAPSPACE2")], volume("a Linux swap area", Layout::Swap(65536), "it holds no files")),
    (
        &[Magic(0, b"LUKS\xba\xbe")],
        volume(
            "a volume encrypted by LUKS",
            Layout::Unknown,
            "open it with cryptsetup, and name the device in /dev/mapper",
        ),
    ),
    (
        &[Magic(536, b"LVM2 001")],
        volume(
            "a physical volume of LVM",
            Layout::Lvm,
            "activate it with vgchange -ay, and name the logical volume",
        ),
    ),
    (&[Magic(0, b"QFI\xfb")], disk("a qcow2 disk of QEMU", RAW)),
    (&[Magic(0, b"KDMV")], disk("a VMDK disk of VMware", RAW)),
    (&[Magic(0, b"# Disk DescriptorFile")], disk("the description of a VMDK disk of VMware", RAW)),
    (&[Magic(64, b"\x7f\x10\xda\xbe")], disk("a VDI disk of VirtualBox", RAW)),
    (&[Magic(0, b"vhdxfile")], disk("a VHDX disk of Hyper-V", RAW)),
    (&[Magic(0, b"conectix")], disk("a VHD disk of Virtual PC", RAW)),
    (
        &[Magic(0, b"EVF\x09\x0d\x0a\xff\x00")],
        disk("an E01 image of EnCase", "convert it to a raw image first: ewfexport -f raw FILE"),
    ),
    (
        &[Magic(0, b"\x28\xb5\x2f\xfd")],
        file(
            "a file compressed with zstd",
            "decompress it first: zstd -dc FILE >disk.img; Spindle reads disks and their images",
        ),
    ),
    (
        &[Magic(0, b"\xfd7zXZ\x00")],
        file(
            "a file compressed with xz",
            "decompress it first: xz -dc FILE >disk.img; Spindle reads disks and their images",
        ),
    ),
    (
        &[Magic(0, b"BZh"), Magic(4, b"1AY&SY")],
        file(
            "a file compressed with bzip2",
            "decompress it first: bzip2 -dc FILE >disk.img; Spindle reads disks and their images",
        ),
    ),
    (
        &[Magic(0, b"\x1f\x8b\x08")],
        file(
            "a file compressed with gzip",
            "decompress it first: gzip -dc FILE >disk.img; Spindle reads disks and their images",
        ),
    ),
    (&[Magic(0, b"PK\x03\x04")], file("a zip archive", UNPACK)),
    (&[Magic(0, b"7z\xbc\xaf\x27\x1c")], file("a 7z archive", UNPACK)),
    (
        &[Magic(257, b"ustar")],
        file("a tar archive", "spindle import FILE disk.img makes a file system of it"),
    ),
    (&[Magic(0, b"PAR1")], file("a trace in a Parquet file", "spindle trace show FILE reads it")),
    (&[Magic(0x8001, b"CD001")], volume("an ISO 9660 file system", Layout::Iso, LINUX)),
];

/// The end of a boot sector.
const BOOT: Magic = Magic(510, b"\x55\xaa");

const EXT4: Foreign = volume("an ext4 file system", Layout::Ext, LINUX);
const EXT3: Foreign = volume("an ext3 file system", Layout::Ext, LINUX);
const EXT2: Foreign = volume("an ext2 file system", Layout::Ext, LINUX);
const ZFS: Foreign =
    volume("a device of a ZFS pool", Layout::Unknown, "import the pool with zpool; Spindle does not read it");
const ZEROS: Foreign = file(
    "nothing but zeros at its start",
    "spindle newfs makes a file system; if there was one, name a copy of its superblock with -b, or find \
     it with spindle scan",
);
const DUMP: Foreign = file("a stream of dump(8)", "spindle restore -t -f FILE lists it");
const EMPTY: Foreign = file(
    "empty or shorter than a sector of 512 bytes",
    "name a file or a device with a file system; spindle newfs and spindle import -s make one",
);

/// First byte of the superblocks of ext2 to ext4.
const EXT: usize = 1024;
/// The bytes at the start of a device that the magic numbers lie in.
pub(crate) const START_BYTES: usize = 256 << 10;

/// Returns what the device holds, if it is in the table.
///
/// # Errors
/// Those of the device.
pub fn recognise(device: &dyn Device) -> Result<Option<&'static Foreign>> {
    let sector = device.info().sector_bytes as usize;
    let size = usize::try_from(device.info().size_bytes).unwrap_or(usize::MAX);
    let mut start = vec![0; size.min(START_BYTES) / sector * sector];
    if start.is_empty() {
        return Ok(Some(&EMPTY));
    }
    device.read_at(0, &mut start)?;
    Ok(recognise_start(&start))
}

pub(crate) fn recognise_start(start: &[u8]) -> Option<&'static Foreign> {
    let has = |&Magic(at, bytes): &Magic| start.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    if let Some((_, found)) = TABLE.iter().find(|(magics, _)| magics.iter().all(has)) {
        return Some(found);
    }
    if let Some(found) = start.get(EXT..).and_then(ext) {
        return Some(found);
    }
    if is_zfs(start) {
        return Some(&ZFS);
    }
    if is_dump(start) {
        return Some(&DUMP);
    }
    start.iter().all(|&byte| byte == 0).then_some(&ZEROS)
}

/// Returns true if these bytes begin a stream of dump(8): the header of a tape (`TS_TAPE`) with a
/// magic number in either byte order (`OFS_MAGIC`, `NFS_MAGIC`, `FS_UFS2_MAGIC`).
#[must_use]
pub fn is_dump(start: &[u8]) -> bool {
    let magic = start.get(24..28).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
    let is_one = |magic| [60_011, 60_012, 0x1954_0119].contains(&magic);
    start.len() >= 1024 && magic.is_some_and(|magic| is_one(magic) || is_one(magic.swap_bytes()))
}

/// Returns the error of a device without a file system that this program knows: what it is, if that
/// is known, and otherwise `unknown`.
///
/// # Errors
/// Those of the device.
pub fn refusal(device: &dyn Device, unknown: Error) -> Result<Error> {
    Ok(match recognise(device)? {
        Some(Foreign { name, remedy, .. }) => {
            let is = if *name == ZEROS.name { "has" } else { "is" };
            Error::unsupported(format!("{}: {is} {name}", device.info().name), *remedy)
        }
        None => unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindle_device::MemoryDevice;
    use std::fs::File;
    use std::io::Read;
    use std::process::Command;

    fn holding(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut start = vec![0xa5; START_BYTES];
        start[at..at + bytes.len()].copy_from_slice(bytes);
        start
    }

    /// Promise: each row of the table is found by its magic numbers, by all of them, and no row
    /// hides another.
    #[test]
    fn each_row_is_found() {
        for (magics, foreign) in TABLE {
            let mut start = vec![0xa5; START_BYTES];
            for Magic(at, bytes) in *magics {
                start[*at..*at + bytes.len()].copy_from_slice(bytes);
            }
            assert_eq!(recognise_start(&start), Some(foreign));
            for Magic(at, _) in *magics {
                let mut torn = start.clone();
                torn[*at] ^= 1;
                assert_ne!(recognise_start(&torn), Some(foreign));
            }
            // A short device does not have it.
            let last = magics.iter().map(|Magic(at, bytes)| at + bytes.len()).max().unwrap();
            assert_ne!(recognise_start(&start[..last - 1]), Some(foreign));
        }
        assert_eq!(recognise_start(&vec![0xa5; START_BYTES]), None);
    }

    /// Promise: ZFS is found in any slot of its ring, in either byte order; empty devices are.
    #[test]
    fn zfs_and_empty_devices_are_found() {
        for slot in [0, 1, 64, 127] {
            for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
                assert_eq!(recognise_start(&holding((128 << 10) + slot * 1024, &magic)), Some(&ZFS));
            }
        }
        assert_eq!(recognise(&MemoryDevice::new(1 << 20)).unwrap(), Some(&ZEROS));
        assert_eq!(recognise(&MemoryDevice::new(0)).unwrap(), Some(&EMPTY));
    }

    /// Promise: what the programs of this machine make is recognised as what it is.
    #[test]
    fn real_ones_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let made = |script: &str, want: &str| {
            let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
            let mut command = Command::new("sh");
            let ran =
                command.args(["-ec", script]).current_dir(dir.path()).env("PATH", path).output().unwrap();
            if !ran.status.success() {
                // Not installed here: the magic numbers are tested above.
                let error = String::from_utf8_lossy(&ran.stderr).into_owned();
                assert!(error.contains("not found"), "{script}: {error}");
                return;
            }
            let mut start = Vec::new();
            let file = File::open(dir.path().join("x")).unwrap();
            file.take(START_BYTES as u64).read_to_end(&mut start).unwrap();
            let found = recognise_start(&start);
            assert_eq!(found.map(|found| found.name), Some(want), "{script}");
        };
        let new = "rm -f x; truncate -s 400m x;";
        for (make, want) in [
            ("mke2fs -q -t ext2 x", "an ext2 file system"),
            ("mke2fs -q -t ext3 x", "an ext3 file system"),
            ("mke2fs -q -t ext4 x", "an ext4 file system"),
            ("mkswap x", "a Linux swap area"),
            ("mkfs.xfs -q x", "an XFS file system"),
            ("mkfs.btrfs -q x", "a Btrfs file system"),
            ("mkfs.vfat -F 32 x", "a FAT32 file system"),
            ("mkfs.vfat -F 16 x", "a FAT16 file system"),
            ("qemu-img create -q -f qcow2 x 64m", "a qcow2 disk of QEMU"),
            ("qemu-img create -q -f vmdk x 64m", "a VMDK disk of VMware"),
            ("qemu-img create -q -f vdi x 64m", "a VDI disk of VirtualBox"),
            ("qemu-img create -q -f vpc x 64m", "a VHD disk of Virtual PC"),
            ("qemu-img create -q -f vhdx x 64m", "a VHDX disk of Hyper-V"),
        ] {
            made(&format!("{new} {make}"), want);
        }
        for (make, want) in [
            ("gzip -c </bin/sh >x", "a file compressed with gzip"),
            ("xz -c </bin/sh >x", "a file compressed with xz"),
            ("bzip2 -c </bin/sh >x", "a file compressed with bzip2"),
            ("zstd -qc </bin/sh >x", "a file compressed with zstd"),
            ("tar cf x -C / bin", "a tar archive"),
            ("rm -f x; zip -q x.zip /etc/passwd && mv x.zip x", "a zip archive"),
        ] {
            made(make, want);
        }
    }
}
