//! Tests of the program as users run it: they compare output, exit codes and images.

mod analyze;
mod damage;
mod files;
mod fitting;
mod helpers;
mod images;
mod interrupts;
mod lab;
mod log;
mod manifests;
mod outfiles;
mod sets;
mod support;
mod synth;
mod trees;
mod tunefs;
