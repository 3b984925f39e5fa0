//! How the data of small files reaches data storage.

mod support;

use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_device::MemoryDevice;
use spindle_mfs::newfs::{Member, Wishes, make};
use spindle_mfs::{Mfs, OpenOptions, Role, Set};
use spindle_vfs::{FileKind, FileSystem, NewNode, Privilege};
use std::sync::Arc;
use support::{Event, Events, clock, recorders};

const BY: Privilege = Privilege::Root;
/// The member that has data storage.
const DATA: usize = 1;
const FILES: u8 = 64;
/// Bytes that a request for gathered blocks has at least, on average.
const AVERAGE: u64 = 32 << 10;

/// Returns a new set, in the order control, data, log.
fn new_set() -> Vec<MemoryDevice> {
    let media = [4, 8, 8].map(|mib| Arc::new(MemoryDevice::new(mib << 20)));
    let roles = [Role::Control, Role::Data, Role::Log];
    let members: Vec<_> =
        media.iter().zip(roles).map(|(device, role)| Member::of(device.clone(), role)).collect();
    make(&members, &Wishes::new(), &*clock(), &mut StdRng::seed_from_u64(5)).unwrap();
    media.iter().map(|device| device.branch()).collect()
}

/// Promise: files of a block or two are gathered: a sync writes those that lie beside each other
/// with few requests, whether their last block is full or not.
#[test]
fn small_files_are_written_together() {
    for bytes in [6000, 8192, 10_000] {
        let events = Events::default();
        let devices = recorders(&new_set(), &events);
        let fs = Mfs::open(&Set::open(&devices).unwrap(), clock(), &OpenOptions::default()).unwrap();
        for n in 0..FILES {
            let name = format!("file {n}");
            let node = NewNode::new(FileKind::Regular, 0o644);
            let ino = fs.create(fs.root(), name.as_bytes(), &node, BY).unwrap().ino;
            fs.write(ino, 0, &vec![n; bytes], BY).unwrap();
            fs.forget(ino, 1);
        }
        fs.sync().unwrap();
        let lengths: Vec<u64> = std::mem::take(&mut *events.lock())
            .iter()
            .filter_map(|event| match event {
                Event::Write { member: DATA, bytes, .. } => Some(bytes.len() as u64),
                _ => None,
            })
            .collect();
        let (sum, requests) = (lengths.iter().sum::<u64>(), lengths.len() as u64);
        assert!(sum >= u64::from(FILES) * bytes as u64);
        assert!(sum >= requests * AVERAGE, "files of {bytes} bytes: {requests} requests for {sum} bytes");
        fs.unmount().unwrap();
    }
}
