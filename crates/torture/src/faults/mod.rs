//! Faults: whatever a device does, Spindle loses nothing that was acknowledged, and neither panics
//! nor hangs.
//!
//! A workload of [`crate::crash`] runs on a device ([`device`]) that injects a fault into its
//! requests ([`plan`]). [`fault_test`] says what must hold, and `running` checks it while the
//! workload runs. [`campaign`] injects faults into each request of many workloads.
//!
//! The name of a case repeats it: `FORMAT/WORKLOAD/PHASE/FAULT@FIRST-ENDs/END`.
//!
//! [`sets`] does the same with sets of the multi-structured file system, one of whose members has
//! the faults.

pub mod campaign;
pub mod device;
pub mod fault_test;
mod healthy_run;
pub mod plan;
mod running;
pub mod sets;
