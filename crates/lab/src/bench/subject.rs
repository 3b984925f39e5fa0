//! The file systems under test: made, opened on any device, and looked into.

use crate::{Error, Result};
use rand::SeedableRng;
use rand::rngs::StdRng;
use spindle_cache::Settings;
use spindle_clock::{Clock, ManualClock};
use spindle_device::Device;
use spindle_ffs::newfs::{self, Format, Geometry, Parameters, Plan};
use spindle_ffs::{Dialect, Ffs};
use spindle_sim::disk as model;
use spindle_sim::preset;
use spindle_v7::V7;
use spindle_vfs::{Extent, FileSystem, Ino};
use std::ops::Range;
use std::sync::Arc;

/// Start of all random numbers inside file systems.
const SEED: u64 = 4;

/// A kind of file system, on a disk of known size.
#[derive(Clone, Debug)]
pub enum Kind {
    /// The old file system.
    Old(spindle_v7::newfs::Parameters),
    /// The new file system.
    Fast(Box<Parameters>),
}

/// The geometry for which a file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    pub rpm: u32,
    /// Sectors of 512 bytes on a track.
    pub sectors: u32,
    /// Tracks in a cylinder.
    pub tracks: u32,
    pub cylinders: u32,
    /// True if it is made up, and says nothing of where sectors pass below the heads.
    pub is_made_up: bool,
}

/// The most of a disk with a made-up geometry that is used if nothing else limits it: 2 GiB.
const MOST_BYTES: u64 = 2 << 30;

impl Disk {
    /// The AMPEX Capricorn of the 1984 paper (4.4BSD's vax disktab).
    pub const CAPRICORN: Self = Self::of_tracks(3600, 32, 16, 1024);
    /// The IBM 0661-467, taken for the 400 MB drive of the 1991 paper; its cylinders are worked out
    /// from its capacity.
    pub const IBM_0661: Self = Self::of_tracks(4316, 48, 14, 1199);
    /// The Fujitsu M2361A of the paper on the multi-structured file system (4.3BSD-Tahoe's
    /// disktab).
    pub const SUPER_EAGLE: Self = Self::of_tracks(3600, 64, 20, 842);

    const fn of_tracks(rpm: u32, sectors: u32, tracks: u32, cylinders: u32) -> Self {
        Self { rpm, sectors, tracks, cylinders, is_made_up: false }
    }

    /// Returns the geometry of a preset's disk, or one that is made up, as for SCSI disks, where
    /// the disk has zones, spare sectors, or nothing that turns.
    ///
    /// # Errors
    /// When there is no such preset, its file is wrong, or its sectors are not of 512 bytes.
    pub fn of_preset(name: &str) -> Result<Self> {
        let spec = preset::disk(name)?;
        let disk = model::Disk::new(&spec)?;
        if disk.sector_bytes() != 512 {
            let why = format!("disk {name}: has other sectors than of 512 bytes");
            return Err(Error::Contradiction(why));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Thousands.
        let rpm = |geometry: &model::Geometry| geometry.rpm.round() as u32;
        if let Some(geometry) = &spec.geometry
            && let [zone] = geometry.zone.as_slice()
        {
            let found =
                Self::of_tracks(rpm(geometry), zone.sectors_per_track, geometry.heads, zone.cylinders);
            if found.bytes() == disk.capacity_sectors() * 512 {
                return Ok(found);
            }
        }
        let (sectors, tracks) = (32, 16);
        let cylinders = disk.capacity_sectors().min(MOST_BYTES / 512) / u64::from(sectors * tracks);
        Ok(Self {
            rpm: spec.geometry.as_ref().map_or(3600, rpm),
            sectors,
            tracks,
            cylinders: u32::try_from(cylinders).unwrap_or(u32::MAX),
            is_made_up: true,
        })
    }

    /// Returns its first cylinders, as many as so many bytes hold.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        let cylinder = Self { cylinders: 1, ..self }.bytes();
        let cylinders = u32::try_from(bytes / cylinder).unwrap_or(u32::MAX);
        Self { cylinders: self.cylinders.min(cylinders), ..self }
    }

    /// Returns the bytes per second of a track below its head; nothing where tracks are made up.
    pub fn track_rate(&self) -> Option<f64> {
        let bytes = f64::from(self.sectors) * 512.0 * f64::from(self.rpm) / 60.0;
        (!self.is_made_up).then_some(bytes)
    }

    /// Returns a rotational delay in milliseconds, or none where tracks are made up: nobody knows
    /// then which block comes after it.
    pub const fn rotdelay_ms(&self, wanted: u32) -> u32 {
        if self.is_made_up { 0 } else { wanted }
    }

    /// Returns the interleave of blocks of 1 KB that leaves the same time between two of them as
    /// `capricorn` does on that disk; none (1) where tracks are made up.
    pub fn interleave(&self, capricorn: u16) -> u16 {
        let rates = self.track_rate().zip(Self::CAPRICORN.track_rate());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Tens.
        rates.map_or(1, |(own, then)| (f64::from(capricorn) * own / then).round().max(1.0) as u16)
    }

    /// Returns all of it, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.sectors as u64 * self.tracks as u64 * self.cylinders as u64 * 512
    }
}

impl Kind {
    /// The interleave with which a new old file system is read fastest on a VAX 11/750 and a
    /// Capricorn: the free list is "initially ordered for optimal access", as the 1984 paper says.
    const BEST_INTERLEAVE: u16 = 6;

    /// Returns the old file system of 4.1BSD with the free list that is best for a VAX 11/750.
    pub fn old_at_its_best(disk: Disk) -> Self {
        Self::old(disk, disk.interleave(Self::BEST_INTERLEAVE))
    }

    /// Returns the old file system of 4.1BSD, with blocks of 1024 bytes. Its free list begins with
    /// every `interleave`th block of a cylinder.
    pub fn old(disk: Disk, interleave: u16) -> Self {
        let cylinder = u16::try_from(disk.sectors * disk.tracks / 2).unwrap_or(u16::MAX);
        Self::Old(spindle_v7::newfs::Parameters {
            interleave: Some((interleave, cylinder)),
            ..spindle_v7::newfs::Parameters::new(spindle_v7::Format::BSD41, disk.bytes())
        })
    }

    /// Returns the original file system, with blocks of 512 bytes, as 32V has it.
    pub const fn original(disk: Disk) -> Self {
        Self::Old(spindle_v7::newfs::Parameters::new(spindle_v7::Format::V32, disk.bytes()))
    }

    /// Returns the fast file system of 4.2BSD: blocks, fragments, a rotational delay in
    /// milliseconds ([`Disk::rotdelay_ms`]), a reserve of 10 %.
    pub fn fast_1984(disk: Disk, bsize: u32, fsize: u32, rotdelay_ms: u32) -> Self {
        Self::Fast(Box::new(Parameters {
            format: Format::Old,
            static_tables: true,
            bsize: Some(bsize),
            fsize: Some(fsize),
            minfree: Some(10),
            geometry: Geometry {
                rpm: Some(disk.rpm),
                nsect: Some(disk.sectors),
                ntrak: Some(disk.tracks),
                rotdelay_ms: Some(disk.rotdelay_ms(rotdelay_ms)),
                nrpos: Some(8),
                ..Geometry::default()
            },
            ..Parameters::new(disk.bytes())
        }))
    }

    /// Returns the same without a rotational delay, for clusters of `maxcontig` blocks.
    pub fn fast_clustered(disk: Disk, bsize: u32, fsize: u32, maxcontig: u32) -> Self {
        match Self::fast_1984(disk, bsize, fsize, 0) {
            Self::Fast(parameters) => {
                Self::Fast(Box::new(Parameters { maxcontig: Some(maxcontig), ..*parameters }))
            }
            other @ Self::Old(_) => other,
        }
    }

    /// Returns the UFS of `SunOS` 4.1: blocks of 8192 bytes in fragments of 1024, a reserve of 10
    /// %. Clusters have `maxcontig` blocks.
    pub fn sunos(disk: Disk, maxcontig: u32, rotdelay_ms: u32) -> Self {
        Self::Fast(Box::new(Parameters {
            format: Format::Ufs1,
            dialect: Some(Dialect::Sun { x86: false }),
            bsize: Some(8192),
            fsize: Some(1024),
            minfree: Some(10),
            maxcontig: Some(maxcontig),
            geometry: Geometry {
                rpm: Some(disk.rpm),
                nsect: Some(disk.sectors),
                ntrak: Some(disk.tracks),
                rotdelay_ms: Some(disk.rotdelay_ms(rotdelay_ms)),
                nrpos: Some(8),
                ..Geometry::default()
            },
            ..Parameters::new(disk.bytes())
        }))
    }

    /// Makes one on `device`.
    ///
    /// # Errors
    /// When it cannot be had, or the device fails.
    pub fn make(&self, device: &dyn Device) -> Result<()> {
        let clock = ManualClock::at(0);
        match self {
            Self::Old(parameters) => {
                spindle_v7::newfs::write(&spindle_v7::newfs::Plan::new(parameters)?, device, &clock)?;
            }
            Self::Fast(parameters) => {
                let mut random = StdRng::seed_from_u64(SEED);
                let plan = Plan::new(parameters)?;
                newfs::write(&plan, device, &clock, &mut random, &mut |_, _| {})?;
            }
        }
        Ok(())
    }

    /// Opens one.
    ///
    /// # Errors
    /// As the file system.
    pub fn open(&self, device: Arc<dyn Device>, clock: Arc<dyn Clock>, cache: Settings) -> Result<Subject> {
        match self {
            Self::Old(parameters) => {
                let format = Some(parameters.format);
                let options = spindle_v7::OpenOptions { format, cache, ..Default::default() };
                Ok(Subject::Old(Arc::new(V7::open(device, clock, &options)?)))
            }
            Self::Fast(_) => {
                let options = spindle_ffs::OpenOptions { seed: Some(SEED), cache, ..Default::default() };
                Ok(Subject::Fast(Arc::new(Ffs::open(device, clock, &options)?)))
            }
        }
    }
}

/// An open file system under test.
#[derive(Clone)]
pub enum Subject {
    /// The old file system.
    Old(Arc<V7>),
    /// The new file system.
    Fast(Arc<Ffs>),
}

impl Subject {
    /// Returns it as a `FileSystem`.
    pub fn fs(&self) -> &dyn FileSystem {
        match self {
            Self::Old(fs) => &**fs,
            Self::Fast(fs) => &**fs,
        }
    }

    /// Lets users fill everything but `percent` of the space; the old file system has no reserve.
    ///
    /// # Errors
    /// As the file system.
    pub fn set_reserve(&self, percent: u32) -> Result<()> {
        match self {
            Self::Old(_) => Ok(()),
            Self::Fast(fs) => Ok(fs.set_minfree(percent)?),
        }
    }

    /// Returns the extents of a file.
    ///
    /// # Errors
    /// As the file system.
    pub fn extents(&self, ino: Ino) -> Result<Vec<Extent>> {
        match self {
            Self::Old(fs) => Ok(fs.extents(ino)?),
            Self::Fast(fs) => Ok(fs.extents(ino)?),
        }
    }

    /// Returns the mean length in bytes of the extents of some files: bytes over extents. 0 for
    /// empty files alone.
    ///
    /// # Errors
    /// As the file system.
    #[allow(clippy::cast_precision_loss)] // A mean.
    pub fn mean_extent(&self, files: impl IntoIterator<Item = Ino>) -> Result<f64> {
        let (mut bytes, mut count) = (0, 0_u64);
        for file in files {
            for extent in self.extents(file)? {
                bytes += extent.len;
                count += 1;
            }
        }
        Ok(if count == 0 { 0.0 } else { bytes as f64 / count as f64 })
    }

    /// Returns the bytes of the device in which inodes stand.
    pub fn inode_areas(&self) -> Vec<Range<u64>> {
        match self {
            Self::Old(fs) => {
                let layout = fs.layout();
                let first = layout.byte(layout.inode_at(1).0);
                let area = first..layout.byte(spindle_v7::Block(layout.s_isize));
                std::iter::once(area).collect()
            }
            Self::Fast(fs) => {
                let layout = fs.layout();
                (0..layout.fs_ncg)
                    .map(|cgx| layout.byte(layout.cgimin(cgx))..layout.byte(layout.cgdmin(cgx)))
                    .collect()
            }
        }
    }
}
