//! Virtual time, its client scheduler, and models of disks and hosts.
