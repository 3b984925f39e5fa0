//! Every policy: small cases worked out by hand.

use super::*;

/// The policy of `name` for `capacity` blocks.
fn policy(name: PolicyName, capacity: u32) -> Policy {
    Policy::new(name, NonZeroU32::new(capacity).unwrap())
}

/// What each access of `keys` says: whether it was a hit, and what was evicted.
fn accesses(policy: &mut Policy, keys: &[u32]) -> Vec<(bool, Vec<u32>)> {
    let mut log = Vec::new();
    for &key in keys {
        let mut gone = Vec::new();
        let hit = policy.access(key, |victim| gone.push(victim));
        log.push((hit, gone));
    }
    log
}

/// Promise: names are read as they are written, whatever their case, and a wrong one is told the right ones.
#[test]
fn names_are_read_as_written() {
    for &name in PolicyName::ALL {
        assert_eq!(name.to_string().to_uppercase().parse(), Ok(name));
        assert_eq!(policy(name, 1).name(), name);
    }
    let error = "mru".parse::<PolicyName>().unwrap_err().to_string();
    assert!(error.contains("\"mru\"") && error.contains("lru"), "{error}");
}

/// Promise: LRU gives up what was used longest ago, and a removed block makes room.
#[test]
fn lru_by_hand() {
    let mut lru = policy(PolicyName::Lru, 2);
    let hit = |key| (true, vec![key; 0]);
    let miss = |gone: &[u32]| (false, gone.to_vec());
    assert_eq!(accesses(&mut lru, &[1, 2, 1, 3]), [miss(&[]), miss(&[]), hit(1), miss(&[2])]);
    assert!(lru.remove(1) && !lru.remove(1) && !lru.contains(1));
    assert_eq!(accesses(&mut lru, &[4, 3]), [miss(&[]), hit(3)]);
    assert_eq!(lru.len(), 2);
}
