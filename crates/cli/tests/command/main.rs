//! The program as users run it: arguments in, output, exit code and images out.

mod analyze;
mod files;
mod helpers;
mod images;
mod interrupts;
mod lab;
mod log;
mod outfiles;
mod support;
mod synth;
mod trees;
mod tunefs;
