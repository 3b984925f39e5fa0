//! The GUID partition table (UEFI specification, chapter 5).
//!
//! A header in the disk's second sector points to an array of entries; both have a checksum, and a
//! copy of both is at the disk's end. The primary is used if it is intact, otherwise the backup.
//! The boot record in the first sector must have a slot that covers the GPT: if it has only other
//! slots, a tool that did not know the GPT has made new slices, and those are used.

use super::bsd::Numbering;
use super::{Host, Label, Nested, Partition, Scheme, bytes_at, mark_overlaps, mbr};
use crate::{Device, Result};
use spindle_ondisk::{Endian, Field, structure};

structure! {
    /// The header.
    struct GptHeader: 92 {
        /// [`SIGNATURE`].
        0 signature: [u8; 8],
        /// Number of bytes that the header's checksum covers.
        12 header_size: u32,
        /// CRC-32 of the header with this field zero.
        16 header_crc32: u32,
        /// Sector of this header.
        24 my_lba: u64,
        /// Sector of the other header.
        32 alternate_lba: u64,
        /// First sector that partitions may use.
        40 first_usable_lba: u64,
        /// Last sector that partitions may use.
        48 last_usable_lba: u64,
        /// First sector of the entries.
        72 partition_entry_lba: u64,
        /// Number of entries.
        80 number_of_partition_entries: u32,
        /// Bytes from one entry to the next.
        84 size_of_partition_entry: u32,
        /// CRC-32 of all entries.
        88 partition_entry_array_crc32: u32,
    }
}

structure! {
    /// An entry.
    struct GptEntry: 128 {
        /// Type of the content; zero if the entry is free.
        0 partition_type_guid: [u8; 16],
        /// First sector.
        32 starting_lba: u64,
        /// Last sector.
        40 ending_lba: u64,
        /// Name in UTF-16.
        56 partition_name: [u16; 36],
    }
}

const SIGNATURE: [u8; 8] = *b"EFI PART";
/// Sector sizes of disks with a GPT, in bytes.
const SECTORS: [u64; 2] = [512, 4096];
/// Maximum size of the entries in bytes: enough for a thousand times the usual partitions.
const MAX_ENTRY_BYTES: u64 = 2 << 20;

/// Type of FreeBSD's slice with a disklabel inside.
const FREEBSD: &str = "516e7cb4-6ecf-11d6-8ff8-00022d09712b";
/// Type of `OpenBSD`'s slice with a disklabel inside.
const OPENBSD: &str = "824cc7a0-36a8-11e3-890a-952519ad3f61";

/// Returns the partitions of the disk, if it has a GPT.
pub(super) fn read(device: &dyn Device) -> Result<Option<Label>> {
    let protected = mbr::protects_gpt(device)?;
    if protected == Some(false) {
        return Ok(None);
    }
    let size = device.info().size_bytes;
    let mut why = None;
    for sector in SECTORS {
        match read_copy(device, sector, 1)? {
            Ok(label) => return Ok(Some(label)),
            Err(reason) => why = why.or(reason),
        }
    }
    for sector in SECTORS {
        // The backup is in the last sector, unless the image grew; then the primary may point to
        // it.
        let known = header(device, sector, 1)?.ok().map(|(header, _)| header.alternate_lba);
        for lba in (size / sector).checked_sub(1).into_iter().chain(known) {
            if lba > 1
                && let Ok(mut label) = read_copy(device, sector, lba)?
            {
                let why = why.unwrap_or("it is missing");
                label
                    .notes
                    .push(format!("the primary GPT is damaged ({why}); this is the backup at the end"));
                return Ok(Some(label));
            }
        }
    }
    if protected.is_none() && why.is_none() {
        return Ok(None);
    }
    let why = why.unwrap_or("the boot record announces one, but it is missing");
    Ok(Some(Label { notes: vec![format!("no usable GPT: {why}")], ..Label::default() }))
}

/// A valid copy, or the reason why it is invalid; no reason if nothing looks like a GPT.
type Copy<T> = std::result::Result<T, Option<&'static str>>;

/// Returns the header at a sector, and its bytes.
fn header(device: &dyn Device, sector: u64, lba: u64) -> Result<Copy<(GptHeader, Vec<u8>)>> {
    let Some(offset) = lba.checked_mul(sector) else {
        return Ok(Err(None));
    };
    let Some(mut bytes) = bytes_at(device, offset, 512)? else {
        return Ok(Err(None));
    };
    let header = GptHeader::decode(&bytes, Endian::Little);
    if header.signature != SIGNATURE {
        return Ok(Err(None));
    }
    let len = header.header_size as usize;
    if !(GptHeader::SIZE..=bytes.len()).contains(&len) {
        return Ok(Err(Some("its header has an impossible size")));
    }
    bytes.truncate(len);
    bytes[16..20].fill(0);
    if crc32fast::hash(&bytes) != header.header_crc32 {
        return Ok(Err(Some("its header's checksum is wrong")));
    }
    if header.my_lba != lba {
        return Ok(Err(Some("its header is not at its own place")));
    }
    Ok(Ok((header, bytes)))
}

/// Returns the partitions of one copy of the GPT.
fn read_copy(device: &dyn Device, sector: u64, lba: u64) -> Result<Copy<Label>> {
    let header = match header(device, sector, lba)? {
        Ok((header, _)) => header,
        Err(reason) => return Ok(Err(reason)),
    };
    let entry_size = u64::from(header.size_of_partition_entry);
    let total = u64::from(header.number_of_partition_entries) * entry_size;
    if entry_size < GptEntry::SIZE as u64 || !entry_size.is_multiple_of(8) || total > MAX_ENTRY_BYTES {
        return Ok(Err(Some("its entries have an impossible size or number")));
    }
    let (Some(offset), Ok(total), Ok(entry_size)) =
        (header.partition_entry_lba.checked_mul(sector), usize::try_from(total), usize::try_from(entry_size))
    else {
        return Ok(Err(Some("its entries are at an impossible place")));
    };
    let Some(entries) = bytes_at(device, offset, total)? else {
        return Ok(Err(Some("its entries are beyond the end of the disk")));
    };
    if crc32fast::hash(&entries) != header.partition_entry_array_crc32 {
        return Ok(Err(Some("the checksum of its entries is wrong")));
    }
    let mut label = Label::default();
    for (bytes, number) in entries.chunks_exact(entry_size).zip(1..) {
        let entry = GptEntry::decode(bytes, Endian::Little);
        if entry.partition_type_guid == [0; 16] {
            continue;
        }
        add(&mut label, number, &entry, &header, sector);
    }
    mark_overlaps(label.partitions.iter_mut());
    Ok(Ok(label))
}

fn add(label: &mut Label, number: usize, entry: &GptEntry, header: &GptHeader, sector: u64) {
    let GptEntry { starting_lba, ending_lba, .. } = *entry;
    let sectors = ending_lba.checked_sub(starting_lba).and_then(|n| n.checked_add(1));
    let guid = guid_text(&entry.partition_type_guid);
    let name = String::from_utf16_lossy(&entry.partition_name);
    let name = name.split('\0').next().unwrap_or_default();
    let mut partition = Partition {
        name: format!("p{number}"),
        scheme: Scheme::Gpt,
        start_bytes: starting_lba.saturating_mul(sector),
        size_bytes: sectors.unwrap_or(0).saturating_mul(sector),
        kind: kind(&guid).map_or_else(|| guid.clone(), str::to_owned),
        label: (!name.is_empty()).then(|| name.to_owned()),
        missing_bytes: 0,
        problem: None,
    };
    if sectors.is_none() {
        partition.set_problem(|| "it ends before it begins".to_owned());
    }
    if starting_lba < header.first_usable_lba || ending_lba > header.last_usable_lba {
        partition.set_problem(|| "it is outside the area that the GPT allows for partitions".to_owned());
    }
    let numbering = match guid.as_str() {
        FREEBSD => Some(Numbering::Relative),
        OPENBSD => Some(Numbering::Absolute),
        _ => None,
    };
    label.hosts.push(numbering.map(|numbering| Host {
        start: partition.start_bytes,
        size: partition.size_bytes,
        nested: Nested::Bsd(numbering),
    }));
    label.partitions.push(partition);
}

/// Formats a GUID as usual; its first three fields are little-endian on disk.
fn guid_text(guid: &[u8; 16]) -> String {
    let node = u64::get(&guid[8..], Endian::Big);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        u32::get(guid, Endian::Little),
        u16::get(&guid[4..], Endian::Little),
        u16::get(&guid[6..], Endian::Little),
        node >> 48,
        node & 0xffff_ffff_ffff
    )
}

fn kind(guid: &str) -> Option<&'static str> {
    Some(match guid {
        "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" => "EFI system",
        "21686148-6449-6e6f-744e-656564454649" => "BIOS boot",
        "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7" => "Microsoft basic data",
        "0fc63daf-8483-4772-8e79-3d69d8477de4" => "Linux",
        "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f" => "Linux swap",
        FREEBSD => "FreeBSD disklabel",
        "83bd6b9d-7f41-11dc-be0b-001560b84f0f" => "FreeBSD boot",
        "516e7cb5-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD swap",
        "516e7cb6-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD UFS",
        "516e7cb8-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD Vinum",
        "516e7cba-6ecf-11d6-8ff8-00022d09712b" => "FreeBSD ZFS",
        "49f48d32-b10e-11dc-b99b-0019d1879648" => "NetBSD swap",
        "49f48d5a-b10e-11dc-b99b-0019d1879648" => "NetBSD FFS",
        "49f48d82-b10e-11dc-b99b-0019d1879648" => "NetBSD LFS",
        "49f48daa-b10e-11dc-b99b-0019d1879648" => "NetBSD RAIDframe",
        OPENBSD => "OpenBSD disklabel",
        "55465300-0000-11aa-aa11-00306543ecac" => "Apple UFS",
        "48465300-0000-11aa-aa11-00306543ecac" => "Apple HFS+",
        "6a898cc3-1dd2-11b2-99a6-080020736631" => "Solaris /usr or ZFS",
        "6a85cf4d-1dd2-11b2-99a6-080020736631" => "Solaris root",
        _ => return None,
    })
}
