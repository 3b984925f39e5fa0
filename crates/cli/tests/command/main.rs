//! Tests of the program as users run it: they compare output, exit codes and images.

mod analyze;
mod areas;
mod attributes;
mod block_devices;
mod damage;
mod failures;
mod files;
mod fitting;
mod helpers;
mod images;
mod interrupts;
mod lab;
mod log;
mod manifests;
mod manual;
mod messages;
mod mounts;
mod outfiles;
mod quota;
mod search;
mod sets;
mod support;
mod synth;
mod trees;
mod tunefs;
