//! Members that fail during a repair.

use super::crashes::compare;
use super::random::{damage, places};
use super::support::{Failing, cases, clock};
use super::victim::Victim;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use spindle_conformance::random::seed;
use spindle_device::Device;
use spindle_mfs::Set;
use spindle_mfs::check::{Finding, repair};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Promise: when a copy of control storage fails during a repair, the repair goes on without it,
/// and finds nothing wrong afterwards, except that a copy cannot be read that failed after all
/// writes; when another member fails, the repair fails. Another repair finishes it, when the member
/// works again, and no file is lost that a repair without a fault keeps.
#[test]
fn torture_members_that_fail() {
    let seed = seed();
    println!("SPINDLE_SEED={seed} cargo test -p spindle-mfs --test repair torture_members_that_fail");
    let healthy = Victim::new(true, true);
    let places = places(&healthy);
    for case in 0..cases(40) {
        let case = seed.wrapping_add(case);
        let mut rng = StdRng::seed_from_u64(case);
        let victim = Victim::of(healthy.branch());
        for _ in 0..[1, 4, 12, 60][rng.random_range(0..4)] {
            damage(&victim, &places, &mut rng);
        }
        let whole = Victim::of(victim.branch());
        whole.repair(false);
        let (dying, after) = (rng.random_range(0..victim.media.len()), rng.random_range(1..100));
        let member = |(n, device)| {
            let left = if n == dying { after } else { i64::MAX };
            Arc::new(Failing::new(device, left))
        };
        let members: Vec<_> = victim.branch().into_iter().enumerate().map(member).collect();
        let devices: Vec<_> = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
        let repaired = repair(&Set::open(&devices).unwrap(), &*clock(), false, 100, &mut |_| ());
        let dead = members[dying].refused.load(Ordering::Relaxed);
        match repaired {
            Ok(repaired) => {
                let after = &repaired.after;
                let of_copies = after.findings.iter().any(|found| found.finding == Finding::Copies {});
                assert!(after.damages == u64::from(dead && of_copies), "seed {case}: {after:#?}");
                assert!(!dead || dying < 2, "seed {case}: a repair without member {dying} succeeded");
            }
            Err(error) => assert!(dead && dying >= 2, "seed {case}: {error}"),
        }
        let victim = Victim::of(members.iter().map(|member| member.device.branch()).collect());
        assert!(victim.repair(false).after.is_clean(), "seed {case}");
        assert_eq!(victim.findings(), Vec::<String>::new(), "seed {case}");
        compare(&whole.tree(), &victim.tree(), &format!("seed {case}, member {dying} after {after}"));
    }
}
