//! A run of a workload on healthy members beside the model: what a run with a fault is compared
//! with.

use super::rig::{Rig, mount};
use super::subject::{Act, SPARE_ID, SetImage};
use crate::crash::images;
use crate::crash::operation::{Driver, Sync};
use crate::crash::oracle::{History, Promised, Tree};
use crate::crash::record::{apply_to_both, promised};
use crate::crash::workload::Workload;
use spindle_device::Device;
use spindle_mfs::Set;
use spindle_vfs::{FileSystem, Result};
use std::sync::Arc;

/// A workload, and what a healthy run of it did.
pub(super) struct Healthy {
    pub(super) workload: Workload,
    /// The versions and the promises.
    pub(super) history: History,
    /// Bytes that each step has written; none if it was refused.
    pub(super) written: Vec<Option<usize>>,
    /// Number of promises given before the first step and after each step.
    pub(super) promises: Vec<usize>,
}

impl Healthy {
    /// Runs a workload on the devices of `rig`, and unmounts.
    pub(super) fn of(image: &SetImage, workload: Workload, rig: &Rig) -> std::result::Result<Self, String> {
        let clock = images::clock();
        let model = images::model(&image.limits, clock.clone());
        let mut model_driver = Driver::new(&model);
        let mut history = History::default();
        history.add(Tree::of(&model, model_driver.held())?);
        let mut promises = vec![history.promise(Promised::All)];
        let set = rig.open_set().map_err(|e| format!("opening: {e}"))?;
        let fs = mount(&set, clock.clone(), image.mounting).map_err(|e| format!("opening: {e}"))?;
        let mut driver = Driver::new(&fs);
        let mut written = Vec::new();
        for (n, step) in workload.steps.iter().enumerate() {
            if image.mounting.ticks() {
                clock.advance(1);
            }
            if n == act_at(&workload) {
                act(image, rig, &set).map_err(|e| format!("{:?}: {e}", image.act))?;
            }
            let done = apply_to_both(&mut driver, &mut model_driver, &step.op, n as u64)?;
            written.push(done);
            history.add(Tree::of(&model, model_driver.held())?);
            if done.is_some() && step.sync != Sync::None {
                let promised = promised(&model, &model_driver, &step.op, step.sync)?;
                driver
                    .sync(&step.op, step.sync)
                    .map_err(|e| format!("{:?} after {}: {e}", step.sync, step.op))?;
                if let Some(promised) = promised {
                    history.promise(promised);
                }
            }
            promises.push(history.promises().len());
        }
        fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        history.promise(Promised::All);
        Ok(Self { workload, history, written, promises })
    }
}

/// Returns the step of a workload before which the members are changed.
pub(super) fn act_at(workload: &Workload) -> usize {
    workload.steps.len() / 2
}

/// Does to the members of a set what is to be done.
pub(super) fn act(image: &SetImage, rig: &Rig, set: &Set) -> Result<()> {
    let spare = || rig.members[image.ids.len()].clone() as Arc<dyn Device>;
    match image.act {
        Act::None => Ok(()),
        Act::Add(role, index) => set.add(role, index, &spare(), SPARE_ID, &mut |_| Ok(())),
        Act::Replace(member) => set.replace(image.ids[member], &spare(), SPARE_ID, &mut |_| Ok(())),
        Act::Remove(member) => set.remove(image.ids[member]),
        Act::Scrub => set.scrub(&mut |_| Ok(())).map(drop),
    }
}
