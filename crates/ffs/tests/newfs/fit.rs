//! newfs sized to fit: the plan has the space that is needed, and none that is a fragment smaller
//! has it.

use super::audit::FORMATS;
use super::seeded;
use rand::Rng;
use spindle_ffs::newfs::{Need, Parameters, Plan, fit};

/// Returns true if a new file system of this plan has the space, by its counts.
fn meets(need: &Need, plan: &Plan) -> bool {
    let totals = plan.totals();
    let layout = &plan.layout;
    let free = totals.cs_nbfree * i64::from(layout.fs_frag) + totals.cs_nffree;
    let reserve = (layout.fs_dsize * u64::from(plan.minfree())).div_ceil(100);
    let frags = (need.bytes + need.free_bytes).div_ceil(layout.fs_fsize.into()) + reserve;
    frags <= u64::try_from(free).unwrap()
        && need.inodes + need.free_inodes.unwrap() <= u64::try_from(totals.cs_nifree).unwrap()
}

/// Promise: a file system sized to fit has space for what is needed and its reserve, and is the
/// smallest: with a few fragments less, newfs makes none that has it.
#[test]
fn fits_and_is_smallest() {
    let mut random = seeded("fits_and_is_smallest");
    for (round, (format, dialect, static_tables)) in FORMATS.into_iter().cycle().take(40).enumerate() {
        let mut parameters = Parameters::new(0);
        (parameters.format, parameters.dialect) = (format, dialect);
        parameters.static_tables = static_tables;
        let bsize: u32 = 1 << random.random_range(12..=15);
        let fsize = bsize >> random.random_range(0..=3);
        (parameters.bsize, parameters.fsize) = (Some(bsize), Some(fsize));
        parameters.minfree = Some([0, 8][random.random_range(0..2)]);
        let files = random.random_range(0..3000);
        let need = Need {
            bytes: random.random_range(0..20_000) * u64::from(fsize),
            inodes: files,
            free_bytes: [0, 0, 100_000][random.random_range(0..3)] * u64::from(fsize) / 1024,
            free_inodes: Some([0, 700][random.random_range(0..2)]),
        };
        let plan = fit(&parameters, &need, 0).unwrap();
        assert!(meets(&need, &plan), "round {round}: {need:?} in\n{plan}");
        for less in 1..=12 {
            let size_bytes = plan.size_bytes().saturating_sub(less * u64::from(fsize));
            let held = Plan::new(&Parameters { size_bytes, ..parameters.clone() })
                .is_ok_and(|smaller| smaller.size_bytes() < plan.size_bytes() && meets(&need, &smaller));
            assert!(!held, "round {round}: {less} fragments less hold {need:?} of\n{plan}");
        }
    }
}

/// Promise: a least size is kept, free space gets inodes, and a density that is asked for is used.
#[test]
fn wishes_are_kept() {
    let parameters = Parameters::new(0);
    let need = Need { bytes: 5 << 20, inodes: 10, free_bytes: 80 << 20, free_inodes: None };
    let plan = fit(&parameters, &need, 0).unwrap();
    assert!(plan.totals().cs_nifree >= (80 << 20) / 8192);
    let least = fit(&parameters, &need, 300 << 20).unwrap();
    assert_eq!(least.size_bytes(), 300 << 20);
    let dense = fit(&Parameters { density: Some(2048), ..parameters }, &need, 0).unwrap();
    assert!(dense.totals().cs_nifree > 40_000 && dense.size_bytes() > plan.size_bytes());
}
