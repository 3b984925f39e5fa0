//! What the caller gets: exit codes, limits, progress, a chosen replica, refusals.

use crate::images::{self, Image};
use spindle_device::MemoryDevice;
use spindle_ffs::check::{Options, Phase, Progress, Report, Severity, check};
use spindle_ffs::newfs::Parameters;

fn new() -> Image {
    Image::new(&images::new(&Parameters::new(8 << 20)))
}

fn with(image: &Image, options: &Options) -> Report {
    check(&MemoryDevice::from_bytes(&image.bytes), options, &mut |_| {}).expect("the check runs")
}

/// Promise: the list stops at the limit, the count does not, and the exit code does not forget.
#[test]
fn the_list_is_cut_off() {
    let mut image = new();
    for cgx in 0..image.layout().fs_ncg {
        image.put(image.cg(cgx) + 4, 0_u32);
    }
    let groups = u64::from(image.layout().fs_ncg);
    let report = with(&image, &Options { limit: 2, ..Options::default() });
    assert_eq!((report.findings.len(), report.unlisted, report.damages), (2, groups - 2, groups));
    assert!(!report.is_clean());
    let all = with(&image, &Options::default());
    assert_eq!((all.findings.len() as u64, all.unlisted, all.damages), (groups, 0, groups));
    let none = with(&image, &Options { limit: 0, ..Options::default() });
    assert_eq!((none.is_clean(), none.unlisted), (false, groups));
}

/// Promise: a note is listed but does not make the file system damaged, nor the exit code other
/// than 0.
#[test]
fn notes_are_no_damage() {
    let mut image = Image::new(&images::new(&Parameters { check_hashes: false, ..Parameters::new(8 << 20) }));
    image.put(image.sb() + 209, 0_u8);
    let report = with(&image, &Options::default());
    assert_eq!(report.findings.len(), 1);
    assert_eq!((report.findings[0].severity, report.findings[0].phase), (Severity::Note, Phase::Setup));
    assert!(report.is_clean() && !report.marked_clean);
}

/// Promise: every phase reports its progress, in order, and never more done than there is.
#[test]
fn progress_goes_through_the_phases() {
    let image = new();
    let mut seen = Vec::new();
    let mut progress = |progress: Progress| seen.push(progress);
    check(&MemoryDevice::from_bytes(&image.bytes), &Options::default(), &mut progress).unwrap();
    assert!(seen.is_sorted_by_key(|p| p.phase) && seen.iter().all(|p| p.done < p.total));
    for phase in [Phase::Inodes, Phase::Names, Phase::Connectivity, Phase::Links, Phase::Groups] {
        assert!(seen.iter().any(|p| p.phase == phase), "{phase}");
    }
}

/// Promise: a replica that the caller names is used even when the superblock is good; at another
/// place there is none.
#[test]
fn a_replica_can_be_named() {
    let image = new();
    let at = image.replica(1);
    let report = with(&image, &Options { replica: Some(at), ..Options::default() });
    assert_eq!((report.replica, report.damages), (Some(at), 0));
    let elsewhere = Options { replica: Some(at + 512), ..Options::default() };
    let device = MemoryDevice::from_bytes(&image.bytes);
    assert!(check(&device, &elsewhere, &mut |_| {}).is_err());
}

/// Promise: with the superblock and its whole block destroyed, a replica carries the check through,
/// and only the superblock is reported.
#[test]
fn a_lost_superblock_is_replaced() {
    let mut image = new();
    let at = usize::try_from(image.sb()).unwrap();
    image.bytes[at..at + 8192].fill(0xaa);
    let report = with(&image, &Options::default());
    let kinds: Vec<_> = report.findings.iter().map(|found| found.finding.kind()).collect();
    assert_eq!(kinds, ["SuperblockUnusable"]);
    assert!(report.replica.is_some());
}

/// Promise: what is no file system is refused, not reported on.
#[test]
fn noise_is_refused() {
    assert!(check(&MemoryDevice::new(1 << 20), &Options::default(), &mut |_| {}).is_err());
    assert!(
        check(&MemoryDevice::from_bytes(&vec![0x5a; 300_000]), &Options::default(), &mut |_| {}).is_err()
    );
}

/// Promise: the last line is fsck's: files, fragments used and free, and the share of loose
/// fragments.
#[test]
fn the_last_line_is_that_of_fsck() {
    let image = new();
    let report = with(&image, &Options::default());
    let usage = report.usage;
    let totals = image.superblock.totals();
    let free = totals.cs_nffree + totals.cs_nbfree * i64::from(image.layout().fs_frag);
    assert_eq!(usage.free_frags, free.cast_unsigned());
    // The root and .snap, a fragment each.
    assert_eq!((usage.files, usage.directories, usage.used_frags), (2, 2, 2));
    let percent = f64::from(u32::try_from(totals.cs_nffree).unwrap()) * 100.0
        / f64::from(u32::try_from(image.layout().fs_dsize).unwrap());
    let line = format!(
        "2 files, 2 used, {free} free ({} frags, {} blocks, {percent:.1}% fragmentation)",
        totals.cs_nffree, totals.cs_nbfree
    );
    assert_eq!(usage.to_string(), line);
}
