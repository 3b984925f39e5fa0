//! The FUSE front-end under real programs, with the model file system behind it: what fails here is
//! the front-end's fault, or the model's, and no format's.

use std::path::Path;
use std::sync::Arc;

use spindle_clock::SystemClock;
use spindle_conformance::model::{ModelFs, ModelOptions};
use spindle_conformance::random::seed;
use spindle_fuse::{Access, MountOptions, mount};
use spindle_interop::record::differences;
use spindle_interop::tree::{Shape, plant};
use spindle_interop::workload::{fio, fsx, pjdfstest, programs, storm};
use spindle_interop::{Result, host};

/// Runs `work` in the root of a new mounted model and unmounts it.
fn mounted(work: impl FnOnce(&Path) -> Result<()>) {
    let options = ModelOptions { blocks: 1 << 17, files: 1 << 16, ..ModelOptions::default() };
    let model = Arc::new(ModelFs::new(options, Arc::new(SystemClock)));
    let directory = tempfile::tempdir().expect("temporary directory");
    let words = MountOptions {
        access: Access::Everyone,
        default_permissions: true,
        suid: Some(true),
        dev: Some(true),
        ..MountOptions::default()
    };
    let mut session = mount(model.clone(), directory.path(), "model", &words, None).expect("mounted");
    let done = work(directory.path());
    session.unmount().expect("nothing uses it any more");
    session.join().expect("a clean end");
    if let Err(error) = done {
        panic!("{error}");
    }
    assert_eq!(model.check(), Vec::<String>::new());
}

/// Promise: every call means what POSIX says.
#[test]
fn posix() {
    mounted(pjdfstest::run);
}

/// Promise: data is right under every way to read and write a file.
#[test]
fn data() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test front_end data");
    mounted(|directory| {
        fsx::run(directory, seed, 20_000)?;
        fio::run(directory)
    });
}

/// Promise: programs of daily use work.
#[test]
fn daily_use() {
    mounted(|directory| {
        programs::git(directory)?;
        programs::sqlite(directory)?;
        programs::compile(directory)
    });
}

/// Promise: a tree with everything in it arrives whole.
#[test]
fn archive() {
    mounted(|directory| {
        let source = tempfile::tempdir().expect("temporary directory");
        plant(source.path(), Shape::ufs2(4096, 4096), 1)?;
        programs::tar(source.path(), directory, "copy")
    });
}

/// Promise: four threads at work lose nothing.
#[test]
fn threads() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-interop --test front_end threads");
    mounted(|directory| {
        let expected = storm::run(&directory.join("storm"), 4, 40_000, seed)?;
        let mut actual = host::list(&directory.join("storm"))?;
        actual.remove(&b"."[..]);
        assert_eq!(differences(&expected, &actual, |_| true), Vec::<String>::new());
        Ok(())
    });
}
