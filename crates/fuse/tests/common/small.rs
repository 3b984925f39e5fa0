//! A small model, to be filled.

use crate::common::big_model;
use spindle_conformance::model::ModelOptions;
use std::fs::File;
use std::path::Path;

/// Returns a model of 300 blocks, 20 of them reserved for the superuser.
pub fn small_model() -> ModelOptions {
    ModelOptions { blocks: 300, reserve_blocks: 20, files: 100, ..big_model() }
}

/// Allocates all free blocks of the model mounted on `dir` except `blocks`.
pub fn fill_but(dir: &Path, blocks: u64) {
    let free = nix::sys::statvfs::statvfs(dir).unwrap();
    let bytes = free.blocks_free() * free.fragment_size() - blocks * 4096;
    let file = File::create(dir.join("filler")).unwrap();
    let mode = nix::fcntl::FallocateFlags::empty();
    nix::fcntl::fallocate(&file, mode, 0, i64::try_from(bytes).unwrap()).unwrap();
}
