//! Partition tables of all kinds.

use crate::Target;
use spindle::detect::contents;
use spindle_device::{Device, MemoryDevice, Window, partitions};
use std::sync::Arc;

/// The beginning of a disk.
pub const LABEL: Target = Target { name: "label", about: "the beginning of a disk", seeds, run };

/// Bytes of the disk; what an input does not have is zeros.
const DISK: u64 = 20_000 * 512;
/// Most bytes of an input that are used.
const MOST: usize = 64 << 10;
/// `DISKMAGIC` of BSD's labels.
const DISKMAGIC: u32 = 0x8256_4557;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Returns boot sectors and labels of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let mut mbr = vec![0; 70 * 512];
    for (slot, (typ, start, len)) in
        [(0xa5_u8, 63_u32, 4000_u32), (5, 5000, 8000), (0xbf, 13_000, 4000), (0xee, 1, 19_999)]
            .into_iter()
            .enumerate()
    {
        let at = 446 + 16 * slot;
        mbr[at + 4] = typ;
        put(&mut mbr, at + 8, &start.to_le_bytes());
        put(&mut mbr, at + 12, &len.to_le_bytes());
    }
    put(&mut mbr, 510, &[0x55, 0xaa]);
    let mut bsd = vec![0; 1024];
    for (at, value) in [(512, DISKMAGIC), (512 + 132, DISKMAGIC), (512 + 40, 512)] {
        put(&mut bsd, at, &value.to_le_bytes());
    }
    put(&mut bsd, 512 + 138, &8_u16.to_le_bytes());
    put(&mut bsd, 512 + 148, &3000_u32.to_le_bytes());
    put(&mut bsd, 512 + 152, &16_u32.to_le_bytes());
    let both = {
        let mut both = mbr.clone();
        put(&mut both, 64 * 512, &bsd[512..]);
        both
    };
    let mut gpt = vec![0; 34 * 512];
    put(&mut gpt, 510, &[0x55, 0xaa]);
    put(&mut gpt, 512, b"EFI PART\0\0\x01\0\x5c\0\0\0");
    for (at, value) in [(24, 1_u64), (32, 19_999), (40, 34), (48, 19_966), (72, 2)] {
        put(&mut gpt, 512 + at, &value.to_le_bytes());
    }
    put(&mut gpt, 512 + 80, &128_u32.to_le_bytes());
    put(&mut gpt, 512 + 84, &128_u32.to_le_bytes());
    put(&mut gpt, 1024, b"\xb6\x7c\x6e\x51\xcf\x6e\xd6\x11\x8f\xf8\x00\x02\x2d\x09\x71\x2b");
    put(&mut gpt, 1024 + 32, &40_u64.to_le_bytes());
    put(&mut gpt, 1024 + 40, &1039_u64.to_le_bytes());
    let mut sun = vec![0; 512];
    put(&mut sun, 128, &1_u32.to_be_bytes());
    put(&mut sun, 188, &0x600d_deee_u32.to_be_bytes());
    put(&mut sun, 436, &[0, 2, 0, 5]);
    put(&mut sun, 448, &500_u32.to_be_bytes());
    put(&mut sun, 508, &[0xda, 0xbe]);
    let mut apple = vec![0; 4 * 512];
    put(&mut apple, 0, b"ER\x02\0");
    for map in [512, 1024] {
        put(&mut apple, map, b"PM\0\0\0\0\0\x02\0\0\0\x0a\0\0\x01\xf4");
        put(&mut apple, map + 48, b"Apple_UFS");
    }
    let mut next = vec![0; 16 * 512];
    put(&mut next, 0, b"dlV3");
    let mut ultrix = vec![0; 34 * 512];
    put(&mut ultrix, 31 * 512 + 512 - 72, &0x0003_2957_u32.to_le_bytes());
    vec![mbr, bsd, both, gpt, sun, apple, next, ultrix]
}

/// Lists the partitions, and looks at what is in each.
fn run(data: &[u8]) {
    let mut bytes = data[..data.len().min(MOST)].to_vec();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    mend(&mut bytes);
    let device = Arc::new(MemoryDevice::new(DISK));
    device.write_at(0, &bytes).expect("the disk is larger");
    let Ok(table) = partitions(&*device) else { return };
    assert!(table.partitions.len() < 1000 && table.notes.len() < 1000);
    for partition in table.partitions.iter().take(20) {
        if table.find(&partition.name).is_err() {
            continue;
        }
        let end = partition.start_bytes.checked_add(partition.bytes_on_disk());
        assert!(end.is_some_and(|end| end <= DISK), "{partition:?}");
        let whole: Arc<dyn Device> = device.clone();
        if let Ok(part) =
            Window::new(whole, partition.start_bytes, partition.bytes_on_disk(), partition.name.clone())
        {
            let _ = contents(&part);
        }
    }
}

fn sum(bytes: &[u8]) -> [u8; 2] {
    bytes.chunks_exact(2).fold([0; 2], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]])
}

/// Corrects the checksums of labels.
fn mend(bytes: &mut [u8]) {
    if let Some(header) = bytes.get(512..1024).filter(|header| header.starts_with(b"EFI PART")) {
        let len = u32::from_le_bytes([header[12], header[13], header[14], header[15]]) as usize;
        if let Some(entries) = bytes.get(1024..1024 + 128 * 128) {
            let crc = crc32fast::hash(entries);
            put(bytes, 512 + 88, &crc.to_le_bytes());
        }
        bytes[512 + 16..512 + 20].fill(0);
        let crc = crc32fast::hash(&bytes[512..512 + len.min(512)]);
        put(bytes, 512 + 16, &crc.to_le_bytes());
    }
    for sector in bytes.chunks_exact_mut(512) {
        if sector[508..510] == [0xda, 0xbe] {
            let sum = sum(&sector[..510]);
            put(sector, 510, &sum);
        }
        for order in [u32::to_le_bytes, u32::to_be_bytes] {
            if sector[..4] == order(DISKMAGIC) {
                let count = [sector[138], sector[139]];
                let little = order(1)[0] == 1;
                let count = if little { u16::from_le_bytes(count) } else { u16::from_be_bytes(count) };
                sector[136..138].fill(0);
                let sum = sum(&sector[..148 + 16 * usize::from(count).min(22)]);
                put(sector, 136, &sum);
            }
        }
    }
}
