//! Each kind of damage that the tests of the check plant.

use super::victim::{beyond_repair, checked, clock, damage, missing, repair, tree};
use crate::tables;
use spindle_device::{Device, MemoryDevice};
use spindle_ffs::check::Options;
use spindle_ffs::repair::{Scope, plan};
use std::sync::Arc;

/// The paths that the damage of a name costs; all others cost none.
pub const LOSSES: &[(&str, &[&str])] = &[
    // What can be no file.
    ("a kind that is none", &["/nil"]),
    ("a size beyond all", &["/nil"]),
    ("a device file without a device", &["/nil"]),
    // Content.
    ("a pointer beyond the file system", &["/one"]),
    ("a negative pointer", &["/one"]),
    ("a pointer into the inodes", &["/one"]),
    ("a pointer into the summaries", &["/one"]),
    ("a whole block that starts inside one", &["/large"]),
    ("a bad indirect block", &["/large"]),
    ("bad pointers without end", &["/large"]),
    ("a pointer of zeros", &["/large"]),
    ("a hole at the end", &["/one"]),
    ("a snapshot whose marks hold no space", &["/large"]),
    ("a NUL in a symbolic link", &["/link1"]),
    ("the block of a symbolic link", &["/long-link"]),
    ("a pointer beyond 31 bits", &["/ls"]),
    // It is in the other directory.
    ("a directory with two names whose '..' agrees with the later one", &["/bare"]),
    // Attributes.
    ("an extended attribute's name space", &["/xattrs"]),
    ("an extended attribute's length", &["/xattrs"]),
];

/// Promise: each kind of damage that the check finds is repaired: a check finds nothing afterwards,
/// a second repair changes nothing, and all files but those that the damage was in are there with
/// their contents, under their names or in `lost+found`. What the device cannot read is refused,
/// and nothing is changed.
#[test]
fn every_damage_is_repaired() {
    let mut wrong = Vec::new();
    for (image, table) in tables::all() {
        let Some(image) = image else { continue };
        let before = tree(&MemoryDevice::from_bytes(&image.bytes));
        for (name, plant) in table {
            let mut image = image.clone();
            plant(&mut image);
            if !image.unreadable.is_empty() {
                let device: Arc<dyn Device> = Arc::new(image.device());
                let limits = [Options::default(), Options { limit: 0, ..Options::default() }];
                for options in limits {
                    let plan = plan(&device, &clock(), &options, Scope::All, &mut |_| true, &mut |_| ());
                    let plan = plan.unwrap();
                    assert!(plan.refusal.is_some() && !plan.changes_anything(), "{name}");
                }
                continue;
            }
            let device = MemoryDevice::from_bytes(&image.bytes);
            let found = damage(&device);
            let plan = repair(&device);
            if let Some(refusal) = &plan.refusal {
                wrong.push(format!("{name}: refused: {refusal}\n   found {found:?}"));
                assert!(device.to_bytes() == image.bytes, "{name}: refused, and changed");
                continue;
            }
            assert!(!plan.before.findings.iter().any(|found| beyond_repair(&found.finding)));
            let left = damage(&device);
            if !left.is_empty() {
                wrong.push(format!("{name}: left: {left:?}"));
            }
            let report = checked(&device);
            if !found.is_empty() && !report.marked_clean {
                wrong.push(format!("{name}: not marked clean"));
            }
            let bytes = device.to_bytes();
            repair(&device);
            if device.to_bytes() != bytes {
                wrong.push(format!("{name}: a second repair writes"));
            }
            let gone = missing(&before, &tree(&device));
            let expected = LOSSES.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, lost)| lost);
            if gone != expected {
                wrong.push(format!("{name}: lost {gone:?}\n   found {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
