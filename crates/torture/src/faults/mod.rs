//! Faults: whatever a device does, nothing that was acknowledged is lost by us, and nothing panics
//! or hangs.
//!
//! A workload of [`crate::crash`] runs on a device ([`device`]) to whose requests something happens
//! ([`plan`]); [`trial`] says what must hold ([`running`] while it runs), and [`campaign`] strikes
//! each request of many workloads.
//!
//! A case is repeated by its text alone: `FORMAT/WORKLOAD/PHASE/FAULT@FIRST-ENDs/END`.

pub mod campaign;
pub mod device;
pub mod plan;
mod running;
pub mod trial;
