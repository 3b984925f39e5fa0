//! What is on a device: its partitions, and what a file system says of itself.

use crate::failure::Result;
use crate::image::parse_kind;
use crate::messages::quietly;
use crate::work::{check_exists, work};
use pyo3::prelude::*;
use serde_json::{Value, json};
use spindle::detect::{Found, detect, detect_damaged, version_name};
use spindle::image::open_device_unlocked;
use spindle::newfs::clock;
use spindle::text::encoded;
use spindle::{Spec, partition};
use spindle_device::{Device, Partition, Window, partitions as table_of};
use spindle_ffs::{Ffs, Version};
use spindle_ondisk::Endian;
use spindle_vfs::{Error as FsError, Objection};
use std::sync::Arc;

/// Returns a report on the file system in `image`, as JSON. It may be mounted.
#[pyfunction]
#[pyo3(signature = (image, *, superblock, dialect))]
pub fn info(py: Python<'_>, image: &str, superblock: Option<u64>, dialect: Option<&str>) -> PyResult<String> {
    work(py, |_| {
        check_exists(&Spec::parse(image)?)?;
        let spec = partition::find(image)?;
        let device = open_device_unlocked(&spec)?;
        let kind = dialect.map(parse_kind).transpose()?;
        let found = spindle::Context::context(detect_damaged(&*device, kind, superblock), &spec)?;
        let mut report = report(&found, &device)?;
        report["image"] = spec.to_string().into();
        Ok(report.to_string())
    })
}

/// Returns the partitions of `image` and the file system in each, as JSON.
#[pyfunction]
pub fn partitions(py: Python<'_>, image: &str) -> PyResult<String> {
    work(py, |signals| {
        let spec = Spec::parse(image)?;
        check_exists(&spec)?;
        let device = open_device_unlocked(&spec)?;
        let table = table_of(&*device)?;
        let mut parts = Vec::new();
        for partition in table.partitions {
            signals.check()?;
            parts.push(describe(partition, &device));
        }
        let scheme = table.scheme.map(|scheme| scheme.to_string());
        Ok(json!({ "scheme": scheme, "partitions": parts, "notes": table.notes }).to_string())
    })
}

fn describe(partition: Partition, device: &Arc<dyn Device>) -> Value {
    let bytes_on_disk = partition.bytes_on_disk();
    let Partition { name, scheme, start_bytes, size_bytes, kind, label, problem, .. } = partition;
    let (mut file_system, mut damage) = (None, None);
    if problem.is_none() && size_bytes > 0 {
        let window = Window::new(Arc::clone(device), start_bytes, bytes_on_disk, name.clone());
        let found = window.map_err(FsError::from).and_then(|window| detect(&window));
        match found {
            Ok(found) => file_system = Some(name_of(&found)),
            Err(FsError::Unsupported { .. }) => {}
            Err(error) => damage = Some(error.to_string()),
        }
    }
    json!({
        "name": name, "scheme": scheme.to_string(), "start": start_bytes, "size": size_bytes,
        "kind": kind, "label": label, "problem": problem, "file_system": file_system, "damage": damage,
    })
}

/// Returns the name of the format of a file system.
fn name_of(found: &Found) -> String {
    match found {
        Found::Ffs(found) => version_name(found.layout.version, found.layout.inode_format).into(),
        Found::Old(found) => found.superblock.format.to_string(),
        Found::Mfs(_) => "mfs".into(),
    }
}

fn text_of(bytes: &[u8]) -> String {
    encoded(bytes.split(|&b| b == 0).next().unwrap_or_default())
}

const fn order_of(endian: Endian) -> &'static str {
    match endian {
        Endian::Little => "little",
        Endian::Big => "big",
        Endian::Pdp => "pdp",
    }
}

fn objections_of(objections: &[Objection]) -> Value {
    let list = objections.iter().map(|o| json!([o.reason, o.remedy, o.overridable]));
    list.collect::<Vec<_>>().into()
}

/// Returns what a file system says of itself. The names are those of `spindle info --json`.
fn report(found: &Found, device: &Arc<dyn Device>) -> Result<Value> {
    let mut report = match found {
        Found::Ffs(superblock) => {
            let (fs, layout) = (&superblock.fs, &superblock.layout);
            // As a mount would find it, which reports what it meets.
            let writing = || Ffs::objections_to_writing(superblock, device, &clock(None));
            let objections = quietly(writing)?;
            let totals = superblock.totals();
            let frags = totals.cs_nbfree.saturating_mul(layout.fs_frag.into());
            let frags = u64::try_from(frags.saturating_add(totals.cs_nffree)).unwrap_or(0);
            let new_fields = layout.version == Version::Ufs2 || layout.flags_updated;
            let written = if new_fields { fs.fs_time } else { fs.fs_old_time.cast_unsigned().into() };
            json!({
                "family": "ffs",
                "dialect": superblock.dialect.to_string(),
                "byte_order": order_of(layout.endian),
                "superblock_at": layout.fs_sblockloc,
                "salvaged": superblock.salvaged.is_some(),
                "clean": superblock.is_marked_clean(),
                "writable": objections.is_empty(),
                "objections": objections_of(&objections),
                "volume_name": text_of(superblock.volume_name()),
                "last_mounted_on": text_of(&fs.fs_fsmnt),
                "fs_id": format!("{:08x}{:08x}", fs.fs_id[0], fs.fs_id[1]),
                "last_written": written,
                "check_hashes": superblock.check_hashes(),
                "log": superblock.log_place(),
                "fs_bsize": layout.fs_bsize,
                "fs_fsize": layout.fs_fsize,
                "fs_size": layout.fs_size,
                "fs_dsize": layout.fs_dsize,
                "fs_ncg": layout.fs_ncg,
                "fs_fpg": layout.fs_fpg,
                "fs_ipg": layout.fs_ipg,
                "fs_minfree": fs.fs_minfree,
                "fs_sblkno": layout.fs_sblkno,
                "fs_cblkno": layout.fs_cblkno,
                "fs_iblkno": layout.fs_iblkno,
                "fs_dblkno": layout.fs_dblkno,
                "fs_maxfilesize": layout.fs_maxfilesize,
                "cs_ndir": totals.cs_ndir,
                "cs_nbfree": totals.cs_nbfree,
                "cs_nifree": totals.cs_nifree,
                "cs_nffree": totals.cs_nffree,
                "free_bytes": frags.saturating_mul(layout.fs_fsize.into()),
            })
        }
        Found::Old(found) => {
            let superblock = &found.superblock;
            let (format, layout) = (superblock.format, superblock.layout()?);
            let objections = found.objections(&**device);
            let is_known = found.unusable.is_none();
            json!({
                "family": "old",
                "byte_order": order_of(format.endian),
                "salvaged": !is_known,
                "clean": superblock.is_clean() && is_known,
                "writable": objections.is_empty(),
                "objections": objections_of(&objections),
                "volume_name": text_of(&superblock.tail.s_fname),
                "last_written": is_known.then(|| i64::from(superblock.head.s_time)),
                "bsize": format.bsize,
                "s_isize": layout.s_isize,
                "s_fsize": layout.s_fsize,
                "inodes": layout.last_ino(),
            })
        }
        Found::Mfs(_) => json!({ "family": "mfs" }),
    };
    report["kind"] = name_of(found).into();
    report["size_bytes"] = found.size_bytes().into();
    Ok(report)
}
