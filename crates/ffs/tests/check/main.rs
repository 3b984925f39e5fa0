//! The check of a whole file system: silent on good images, exact on planted damage, safe on any
//! bytes.

mod clean;
mod damage;
mod images;
mod mutations;
mod plants;
mod report;
mod tables;
