//! The papers' experiments, rerun by the shipped file systems on modelled disks.
