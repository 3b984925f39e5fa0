//! Clustering on against clustering off: the same mount with and without it, on an image file and
//! on a loop device; and on with writes that the kernel keeps (`writeback`).
//!
//! Off is block by block, as file systems did before: no cluster is read or written, nothing is
//! read ahead and nothing limits a writer. What the kernel does above (its read-ahead, its
//! gathering of writes) and below is the same.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_interop::tool::{command, run};
use spindle_interop::{Failure, Result};

use crate::contender::{Contender, Image, Medium, Mounted};
use crate::measure::time;
use crate::mounted::sources;
use crate::settings::Settings;
use crate::table::Table;

/// Bytes of each image.
const SIZE_BYTES: u64 = 4 << 30;

/// The ways, the one that the others are compared with first.
const WAYS: [(&str, &str); 3] =
    [("off", "nocluster,noreadahead,nowritelimit"), ("on", "rw"), ("on, writeback", "writeback")];

/// Measures all ways on both kinds of device.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    for medium in Medium::ALL {
        for (way, options) in WAYS {
            let image = Image::sparse(settings.directory.join("clusters.img"), SIZE_BYTES)?;
            let mounted = Mounted::new(Contender::Spindle, options, &image, medium)?;
            rows(&mounted, settings, way, medium.name(), table)?;
        }
    }
    Ok(())
}

fn rows(mounted: &Mounted<'_>, settings: &Settings, way: &str, kind: &str, table: &mut Table) -> Result<()> {
    let mut row = |name: &str, (amount, unit): (u64, &'static str), work: &dyn Fn() -> io::Result<()>| {
        let took = time(name, work)?;
        // Amounts are far below 2^52.
        #[expect(clippy::cast_precision_loss)]
        table.note(&format!("{kind}: {name}"), way, amount as f64, unit, took);
        Result::Ok(())
    };
    let mib = settings.scaled(512);
    let (large, small) = (mounted.directory().join("large"), mounted.directory().join("small"));
    for (name, path, request) in
        [("write by 1 MiB, fsync", &large, 1 << 20), ("write by 8 KiB, fsync", &small, 8 << 10)]
    {
        row(name, (mib, "MiB/s"), &|| {
            let buffer = vec![7; request];
            let mut file = File::create(path)?;
            (0..(mib << 20) / request as u64).try_for_each(|_| file.write_all(&buffer))?;
            file.sync_all()
        })?;
    }
    let archive = sources(settings)?;
    let tree = mounted.directory().join("tree");
    fs::create_dir(&tree).map_err(Failure::of(tree.display()))?;
    let listed = run(command("tar").arg("-tf").arg(&archive))?;
    let entries = ((listed.split(|&byte| byte == b'\n').count() - 1) as u64, "/s");
    row("untar, fsync", entries, &|| {
        run(command("tar").arg("-xf").arg(&archive).arg("-C").arg(&tree)).map_err(io::Error::other)?;
        File::open(&large)?.sync_all()
    })?;
    mounted.make_cold()?;
    for (name, path, request) in
        [("read by 1 MiB, cold", &large, 1 << 20), ("read by 8 KiB, cold", &small, 8 << 10)]
    {
        row(name, (mib, "MiB/s"), &|| {
            let mut buffer = vec![0; request];
            let mut file = File::open(path)?;
            while file.read(&mut buffer)? > 0 {}
            Ok(())
        })?;
    }
    row("read a tree, cold", entries, &|| {
        run(command("tar").args(["-cf", "/dev/zero"]).arg(&tree)).map(drop).map_err(io::Error::other)
    })?;
    mounted.make_cold()?;
    let count = settings.scaled(5000);
    row("random 20K read, cold", (count, "/s"), &|| {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut buffer = vec![0; 20 << 10];
        let file = File::open(&large)?;
        (0..count)
            .try_for_each(|_| file.read_exact_at(&mut buffer, rng.random_range(0..mib * 256 - 5) * 4096))
    })
}
