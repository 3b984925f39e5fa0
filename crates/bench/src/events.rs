//! How many events a simulation gets through in a second of real time: transfers of one client, and
//! of eight that share a drive and hand the baton around.

use std::sync::Arc;

use spindle_device::Device;
use spindle_interop::{Failure, Result};
use spindle_sim::disk::Disk;
use spindle_sim::preset::Library;
use spindle_sim::{Discipline, DriveDevice, HostClock, Simulation, Time};

use crate::measure::time;
use crate::settings::Settings;
use crate::table::Table;

/// Measures both.
pub fn all(settings: &Settings, table: &mut Table) -> Result<()> {
    for (name, clients) in [("one client", 1), ("eight clients", 8)] {
        let simulation = Simulation::new();
        let transfers = settings.scaled(400_000) / clients;
        let library = Library::built_in().map_err(Failure::of("presets"))?;
        let disk = Disk::new(library.disk("eagle").map_err(Failure::of("eagle"))?);
        let clock = Arc::new(HostClock::new(&simulation, |_| Time::ZERO));
        let disk = disk.map_err(Failure::of("eagle"))?;
        let device = Arc::new(DriveDevice::new(&simulation, &clock, disk, Discipline::Disksort));
        for client in 0..clients {
            let device = device.clone();
            simulation.spawn(name, move || {
                let mut sector = [0; 512];
                for nth in 0..transfers {
                    let at = (client * 1009 + nth * 7919) % 400_000 * 512;
                    // Inside its memory a modelled drive does not fail.
                    let _ = device.read_at(at, &mut sector);
                }
            });
        }
        let took = time(name, || {
            simulation.run();
            std::io::Result::Ok(())
        })?;
        // Far below 2^52.
        #[expect(clippy::cast_precision_loss)]
        let events = simulation.events() as f64;
        table.note("events of a simulation", name, events, "/s", took);
    }
    Ok(())
}
