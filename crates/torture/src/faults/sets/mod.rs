//! Faults of one member of a set: what there are copies of goes on as if nothing had happened, and
//! what there are none of is refused, never lost silently.
//!
//! [`subject`] has the sets, and what is done to their members meanwhile. A workload of
//! [`crate::crash`] runs on healthy members beside the model (`healthy`), and then with a fault of
//! one member (`session`); `judge` opens what the members have afterwards. [`set_test`] says which
//! cases there are.
//!
//! The name of a case repeats it: `SUBJECT/WORKLOAD/PHASE/MEMBER/FAULT@FIRST-ENDs/END`.

mod healthy;
mod judge;
mod rig;
mod session;
pub mod set_test;
pub mod subject;
