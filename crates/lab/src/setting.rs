//! The machine of an experiment: the paper's, or one of one's own choice in its place.
//!
//! An experiment names each machine of its paper as [`Papers`], and takes what stands in its place
//! from [`Setting::in_place_of`]. The file system stays that of the paper, and about as large, at
//! the beginning of the other disk; only what it takes from a disk's geometry is that of the other.

use crate::Result;
use crate::bench::machine::Machine;
use crate::bench::subject::Disk;
use spindle_device::MemoryDevice;
use spindle_sim::preset;
use std::sync::Arc;

/// What takes the place of the machines of an experiment. By default nothing does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The preset of a disk, or a file with one, for all disks.
    pub disk: Option<String>,
    /// The preset of a host, or a file with one, for all hosts.
    pub host: Option<String>,
}

/// A machine of a paper: presets of host and disk, and the disk's geometry.
#[derive(Clone, Copy, Debug)]
pub struct Papers {
    pub(crate) host: &'static str,
    pub(crate) disk: &'static str,
    pub(crate) geometry: Disk,
}

/// A machine to run on: presets of host and disk, and the geometry for which file systems are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    pub host: String,
    pub disk: String,
    pub geometry: Disk,
}

impl Setting {
    /// Returns true if the experiment runs on the machines of its paper.
    #[must_use]
    pub const fn is_papers(&self) -> bool {
        self.disk.is_none() && self.host.is_none()
    }

    /// Returns what stands in the place of a machine.
    ///
    /// # Errors
    /// When there is no such preset, its file is wrong, or its sectors are not of 512 bytes.
    pub(crate) fn in_place_of(&self, papers: &Papers) -> Result<Hardware> {
        let geometry = match &self.disk {
            Some(disk) if disk != papers.disk => Disk::of_preset(disk)?.at_most(papers.geometry.bytes()),
            _ => papers.geometry,
        };
        let name = |own: &Option<String>, papers: &str| own.clone().unwrap_or_else(|| papers.to_owned());
        Ok(Hardware { host: name(&self.host, papers.host), disk: name(&self.disk, papers.disk), geometry })
    }

    /// Checks that what it names is there.
    ///
    /// # Errors
    /// When there is no such preset, or its file is wrong.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(disk) = &self.disk {
            Disk::of_preset(disk)?;
        }
        if let Some(host) = &self.host {
            preset::host(host)?;
        }
        Ok(())
    }
}

impl Hardware {
    /// Returns it with `store` on the disk.
    ///
    /// # Errors
    /// When there are no such presets.
    pub fn with(&self, store: Arc<MemoryDevice>) -> Result<Machine> {
        Machine::new(&self.host, &self.disk, store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Experiment, all};

    /// Promise: every machine that an experiment names is that of its presets, so that a paper's
    /// disk that is named explicitly is laid out as it is without a name.
    #[test]
    fn machines_of_the_papers() {
        let machines: Vec<_> = all().iter().flat_map(Experiment::machines).collect();
        assert!(machines.len() > 10);
        for papers in machines {
            let found = Disk::of_preset(papers.disk).unwrap();
            assert!(found == papers.geometry || found.is_made_up, "{}", papers.disk);
            let named = Setting { disk: Some(papers.disk.into()), host: Some(papers.host.into()) };
            let [named, unnamed] =
                [named, Setting::default()].map(|setting| setting.in_place_of(papers).unwrap());
            assert_eq!(
                (named.host, named.disk, named.geometry),
                (unnamed.host, unnamed.disk, unnamed.geometry)
            );
        }
    }

    /// Promise: the file system is no larger than on the paper's disk, nor than a smaller disk, and
    /// has the tracks of a disk that has equal ones.
    #[test]
    fn parts_of_disks() {
        let papers = Papers { host: "vax-11-750", disk: "capricorn-massbus", geometry: Disk::CAPRICORN };
        let geometry = |disk: &str| {
            let setting = Setting { disk: Some(disk.into()), host: None };
            setting.in_place_of(&papers).unwrap().geometry
        };
        let eagle = geometry("eagle");
        assert_eq!((eagle.sectors, eagle.tracks, eagle.cylinders), (48, 20, 546));
        assert!(geometry("rp06").bytes() < Disk::CAPRICORN.bytes());
        for disk in ["nvme", "nearline-20tb", "smr-8tb"] {
            let found = geometry(disk);
            assert_eq!(found.bytes(), Disk::CAPRICORN.bytes(), "{disk}");
            assert_eq!((found.track_rate(), found.rotdelay_ms(4)), (None, 0), "{disk}");
        }
        assert_eq!((eagle.rotdelay_ms(4), eagle.track_rate()), (4, Some(48.0 * 512.0 * 3961.0 / 60.0)));
    }

    /// Promise: what is not there is refused by name.
    #[test]
    fn unknown_presets() {
        let disk = Setting { disk: Some("none".into()), host: None };
        let host = Setting { disk: None, host: Some("nvme".into()) };
        for (setting, words) in [(disk, ["no disk `none`", "eagle"]), (host, ["no host `nvme`", "today"])] {
            let error = setting.check().unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
