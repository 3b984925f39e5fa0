//! The program that libFuzzer drives: it reads inputs with the target that the environment variable
//! `SPINDLE_FUZZ` names (see `scripts/fuzz`).
#![no_main]

use libfuzzer_sys::fuzz_target;
use spindle_fuzz::{TARGETS, Target, target};
use std::sync::LazyLock;

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("SPINDLE_FUZZ").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("SPINDLE_FUZZ is {name:?}; targets: {}", names.join(", "))
    })
});

fuzz_target!(|data: &[u8]| (CHOSEN.run)(data));
