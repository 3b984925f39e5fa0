//! The old UNIX file system: Seventh Edition, 32V and System V.
