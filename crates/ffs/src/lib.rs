//! ffs
