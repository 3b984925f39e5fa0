//! Calibration of modelled disks, whose figures are known.

mod modelled;
mod turning;

use modelled::{Modelled, near};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use spindle_device::Op;
use spindle_lab::calibrate::Probe;
use spindle_lab::calibrate::solid::{Measured, Way, reads, writes};
use spindle_lab::preset::{Model, Preset, disk};
use spindle_lab::sim::Transfer;

fn measured(name: &str) -> Measured {
    let mut modelled = Modelled::new(name);
    let read = reads(&mut modelled, 1984).unwrap();
    let write = writes(&mut modelled, 1985).unwrap();
    let capacity_bytes = modelled.size_bytes();
    Measured { title: "A disk".into(), source: "a model".into(), capacity_bytes, read, write: Some(write) }
}

/// Promise: the figures of a solid-state disk that accesses show come back as they are.
#[test]
fn figures_are_found() {
    for name in ["nvme", "sata-ssd"] {
        let spec = disk(name).unwrap().flash.unwrap();
        let Measured { read, write, .. } = measured(name);
        let (write, flush_us) = write.unwrap();
        near(read.random_us, spec.random_read_us, 1.0);
        near(read.sequential_us, spec.sequential_read_us, 1.0);
        near(read.iops, spec.iops, 10.0);
        near(read.mb_s, spec.read_mb_s, 5.0);
        near(write.random_us, spec.random_write_us, 1.0);
        near(write.sequential_us, spec.sequential_write_us, 1.0);
        near(write.mb_s, spec.write_mb_s, 5.0);
        near(flush_us, spec.flush_us, 1.0);
    }
}

/// Promise: a disk that is made from what was measured takes as long as the measured one for what
/// was not measured: transfers of other sizes, and reads among writes.
#[test]
fn calibrated_disks_take_as_long() {
    for name in ["nvme", "sata-ssd"] {
        let text = measured(name).preset().unwrap();
        let Model::Disk(spec) = Preset::parse("mine", &text).unwrap().model else { panic!("no disk") };
        for (sectors, depth, reads) in [(32, 4, 10), (128, 2, 10), (8, 16, 7), (2048, 2, 5)] {
            let mean = |mut modelled: Modelled| {
                let mut random = SmallRng::seed_from_u64(1);
                let units = modelled.size_bytes() / (1 << 20) - 1;
                let all = (0..2000).map(|_| {
                    let op = if random.random_range(0..10) < reads { Op::Read } else { Op::Write };
                    Transfer::new(op, random.random_range(0..units) * 2048, sectors)
                });
                let run = modelled.transfers(depth, all.collect::<Vec<_>>().into_iter());
                run.total.as_secs_f64() / f64::from(u32::try_from(run.each.len()).unwrap())
            };
            near(mean(Modelled::of(&spec)), mean(Modelled::new(name)), 10.0);
        }
    }
}

/// Promise: small and fast disks, as those of virtual machines, become presets that read as fast,
/// too; writes that were not measured are estimates.
#[test]
fn unusual_disks_become_presets() {
    for (mib, random_us, iops, mb_s) in [
        (16, 12.0, 400_000.0, 8000.0),
        (1024, 50.0, 67_000.0, 1900.0),
        (4096, 900.0, 7500.0, 30.0),
        (8 << 20, 4.0, 1_500_000.0, 12_000.0),
    ] {
        let read = Way { random_us, sequential_us: random_us / 2.0, iops, depth: 32, mb_s };
        let all = Measured {
            title: "Disk \"x\"".into(),
            source: "here".into(),
            capacity_bytes: mib << 20,
            read,
            write: None,
        };
        let text = all.preset().unwrap();
        assert!(text.contains("random_write_us = { value = 5") && text.contains("estimated"), "{text}");
        let Model::Disk(spec) = Preset::parse("mine", &text).unwrap().model else { panic!("no disk") };
        let again = reads(&mut Modelled::of(&spec), 1).unwrap();
        near(again.random_us, random_us, 1.0);
        near(again.iops, iops, 10.0);
        near(again.mb_s, mb_s, 10.0);
    }
}
