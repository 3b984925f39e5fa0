//! The policies again, as their papers describe them, with lists that are searched from end to end:
//! slow and simple.
//!
//! In every list the first element is the newest.

use super::super::PolicyName;
use std::collections::HashMap;

/// A list of blocks, newest first.
type List = Vec<u32>;

fn take(list: &mut List, key: u32) -> bool {
    let place = list.iter().position(|&k| k == key);
    place.map(|place| list.remove(place)).is_some()
}

/// What a naive policy does.
pub(super) trait Naive {
    /// Uses a block as `Replacement::access` does, and returns the evicted blocks, too.
    fn access(&mut self, key: u32) -> (bool, Vec<u32>);
    /// Returns the lists of blocks in the cache, and the lists of blocks that have left it.
    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>);
    /// Forgets everything else that is known of a block.
    fn forget(&mut self, _key: u32) {}
}

/// Removes a block as `Replacement::remove` does.
pub(super) fn remove(policy: &mut dyn Naive, key: u32) -> bool {
    policy.forget(key);
    let (present, past) = policy.lists();
    for list in past {
        take(list, key);
    }
    present.into_iter().any(|list| take(list, key))
}

/// Returns the naive policy of this name.
pub(super) fn naive(name: PolicyName, c: usize) -> Box<dyn Naive> {
    match name {
        PolicyName::Lru => Box::new(Queue { c, list: List::new(), moves: true }),
        PolicyName::Fifo => Box::new(Queue { c, list: List::new(), moves: false }),
        PolicyName::Clock => Box::new(Clock { c, ..Clock::default() }),
        PolicyName::Sieve => Box::new(Sieve { c, ..Sieve::default() }),
        PolicyName::TwoQ => Box::new(TwoQ { c, ..TwoQ::default() }),
        PolicyName::Arc => Box::new(Arc { c, ..Arc::default() }),
        PolicyName::Lirs => Box::new(Lirs { c, ..Lirs::default() }),
        PolicyName::S3Fifo => Box::new(S3Fifo { c, ..S3Fifo::default() }),
        PolicyName::WTinyLfu => Box::new(WTinyLfu { c, ..WTinyLfu::default() }),
    }
}

/// LRU if used blocks move, otherwise FIFO.
struct Queue {
    c: usize,
    list: List,
    moves: bool,
}

impl Naive for Queue {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if self.list.contains(&key) {
            if self.moves {
                take(&mut self.list, key);
                self.list.insert(0, key);
            }
            return (true, vec![]);
        }
        let gone = if self.list.len() == self.c { self.list.pop() } else { None };
        self.list.insert(0, key);
        (false, gone.into_iter().collect())
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.list], vec![])
    }
}

#[derive(Default)]
struct Clock {
    c: usize,
    list: List,
    used: HashMap<u32, bool>,
}

impl Naive for Clock {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if self.list.contains(&key) {
            self.used.insert(key, true);
            return (true, vec![]);
        }
        let mut gone = vec![];
        while self.list.len() == self.c {
            let oldest = self.list.pop().unwrap();
            if self.used.insert(oldest, false) == Some(true) {
                self.list.insert(0, oldest);
            } else {
                gone.push(oldest);
            }
        }
        self.list.insert(0, key);
        self.used.insert(key, false);
        (false, gone)
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.list], vec![])
    }
}

#[derive(Default)]
struct Sieve {
    c: usize,
    list: List,
    used: HashMap<u32, bool>,
    hand: Option<u32>,
}

impl Sieve {
    /// Returns the next newer block than `key`.
    fn newer(&self, key: u32) -> Option<u32> {
        let place = self.list.iter().position(|&k| k == key).unwrap();
        place.checked_sub(1).map(|place| self.list[place])
    }
}

impl Naive for Sieve {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if self.list.contains(&key) {
            self.used.insert(key, true);
            return (true, vec![]);
        }
        let mut gone = vec![];
        if self.list.len() == self.c {
            let mut object = self.hand.unwrap_or(*self.list.last().unwrap());
            while self.used[&object] {
                self.used.insert(object, false);
                object = self.newer(object).unwrap_or(*self.list.last().unwrap());
            }
            self.hand = self.newer(object);
            take(&mut self.list, object);
            gone.push(object);
        }
        self.list.insert(0, key);
        self.used.insert(key, false);
        (false, gone)
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.list], vec![])
    }

    fn forget(&mut self, key: u32) {
        if self.hand == Some(key) {
            self.hand = self.newer(key);
        }
    }
}

#[derive(Default)]
struct TwoQ {
    c: usize,
    a1in: List,
    a1out: List,
    am: List,
}

impl TwoQ {
    fn reclaim(&mut self) -> Vec<u32> {
        let (kin, kout) = (1.max(self.c / 4), 1.max(self.c / 2));
        if self.a1in.len() + self.am.len() < self.c {
            return vec![];
        }
        if self.a1in.len() > kin || self.am.is_empty() {
            let gone = self.a1in.pop().unwrap();
            self.a1out.insert(0, gone);
            self.a1out.truncate(kout);
            return vec![gone];
        }
        vec![self.am.pop().unwrap()]
    }
}

impl Naive for TwoQ {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if take(&mut self.am, key) {
            self.am.insert(0, key);
            return (true, vec![]);
        }
        if self.a1in.contains(&key) {
            return (true, vec![]);
        }
        let known = take(&mut self.a1out, key);
        let gone = self.reclaim();
        let list = if known { &mut self.am } else { &mut self.a1in };
        list.insert(0, key);
        (false, gone)
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.a1in, &mut self.am], vec![&mut self.a1out])
    }
}

#[derive(Default)]
struct Arc {
    c: usize,
    p: f64,
    t1: List,
    t2: List,
    b1: List,
    b2: List,
}

#[expect(clippy::cast_precision_loss, clippy::float_cmp)] // Small numbers; and the paper compares so.
impl Arc {
    fn replace(&mut self, in_b2: bool) -> Vec<u32> {
        if self.t1.len() + self.t2.len() < self.c {
            return vec![];
        }
        let t1 = self.t1.len() as f64;
        let gone = if t1 >= 1.0 && ((in_b2 && t1 == self.p) || t1 > self.p) {
            let gone = self.t1.pop().unwrap();
            self.b1.insert(0, gone);
            gone
        } else {
            let gone = self.t2.pop().unwrap();
            self.b2.insert(0, gone);
            gone
        };
        vec![gone]
    }

    fn case_4(&mut self) -> Vec<u32> {
        let l1 = self.t1.len() + self.b1.len();
        let all = l1 + self.t2.len() + self.b2.len();
        if l1 == self.c {
            if self.t1.len() == self.c {
                return vec![self.t1.pop().unwrap()];
            }
            self.b1.pop();
            return self.replace(false);
        }
        if all >= self.c {
            if all == 2 * self.c {
                self.b2.pop();
            }
            return self.replace(false);
        }
        vec![]
    }
}

#[expect(clippy::cast_precision_loss)] // Small numbers.
impl Naive for Arc {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if take(&mut self.t1, key) || take(&mut self.t2, key) {
            self.t2.insert(0, key);
            return (true, vec![]);
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&key) {
            let step = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + step).min(self.c as f64);
            let gone = self.replace(false);
            take(&mut self.b1, key);
            self.t2.insert(0, key);
            return (false, gone);
        }
        if self.b2.contains(&key) {
            let step = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - step).max(0.0);
            let gone = self.replace(true);
            take(&mut self.b2, key);
            self.t2.insert(0, key);
            return (false, gone);
        }
        let gone = self.case_4();
        self.t1.insert(0, key);
        (false, gone)
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.t1, &mut self.t2], vec![&mut self.b1, &mut self.b2])
    }
}

#[derive(Default)]
struct Lirs {
    c: usize,
    /// The blocks that are LIR.
    lir: List,
    s: List,
    q: List,
}

impl Lirs {
    fn prune(&mut self) {
        while self.s.last().is_some_and(|bottom| !self.lir.contains(bottom)) {
            self.s.pop();
        }
    }
}

impl Naive for Lirs {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        // A removal may have left blocks at the bottom that are not LIR; they go first.
        self.prune();
        let llirs = self.c - 1.max(self.c / 100);
        let hit = self.lir.contains(&key) || self.q.contains(&key);
        let mut gone = vec![];
        if !hit && self.lir.len() + self.q.len() == self.c {
            gone.push(self.q.pop().unwrap());
        }
        let in_s = take(&mut self.s, key);
        self.s.insert(0, key);
        if !self.lir.contains(&key) {
            take(&mut self.q, key);
            if llirs > 0 && (in_s || self.lir.len() < llirs) {
                self.lir.insert(0, key);
                if self.lir.len() > llirs {
                    let bottom = self.s.pop().unwrap();
                    assert!(take(&mut self.lir, bottom), "a LIR block is at the bottom");
                    self.q.insert(0, bottom);
                }
            } else {
                self.q.insert(0, key);
            }
        }
        self.prune();
        (hit, gone)
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.lir, &mut self.q], vec![&mut self.s])
    }
}

#[derive(Default)]
struct S3Fifo {
    c: usize,
    small: List,
    main: List,
    ghost: List,
    freq: HashMap<u32, u32>,
}

impl S3Fifo {
    fn evict_small(&mut self, gone: &mut Vec<u32>) {
        let main = self.c - 1.max(self.c / 10);
        let before = gone.len();
        while gone.len() == before && !self.small.is_empty() {
            let t = self.small.pop().unwrap();
            if self.freq[&t] > 1 {
                self.freq.insert(t, 0);
                self.main.insert(0, t);
                if self.main.len() > main {
                    self.evict_main(gone);
                }
            } else {
                self.ghost.insert(0, t);
                self.ghost.truncate(main);
                gone.push(t);
            }
        }
    }

    fn evict_main(&mut self, gone: &mut Vec<u32>) {
        let before = gone.len();
        while gone.len() == before && !self.main.is_empty() {
            let t = self.main.pop().unwrap();
            if self.freq[&t] > 0 {
                *self.freq.get_mut(&t).unwrap() -= 1;
                self.main.insert(0, t);
            } else {
                gone.push(t);
            }
        }
    }
}

impl Naive for S3Fifo {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        if self.small.contains(&key) || self.main.contains(&key) {
            let freq = self.freq.get_mut(&key).unwrap();
            *freq = 3.min(*freq + 1);
            return (true, vec![]);
        }
        let mut gone = vec![];
        while self.small.len() + self.main.len() == self.c {
            if self.small.len() >= 1.max(self.c / 10) {
                self.evict_small(&mut gone);
            } else {
                self.evict_main(&mut gone);
            }
        }
        let list = if take(&mut self.ghost, key) { &mut self.main } else { &mut self.small };
        list.insert(0, key);
        self.freq.insert(key, 0);
        (false, gone)
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.small, &mut self.main], vec![&mut self.ghost])
    }
}

#[derive(Default)]
struct WTinyLfu {
    c: usize,
    window: List,
    probation: List,
    protected: List,
    freq: HashMap<u32, u32>,
    accesses: usize,
}

impl Naive for WTinyLfu {
    fn access(&mut self, key: u32) -> (bool, Vec<u32>) {
        let (window, main) = (1.max(self.c / 100), self.c - 1.max(self.c / 100));
        let freq = self.freq.entry(key).or_insert(0);
        *freq = 15.min(*freq + 1);
        self.accesses += 1;
        if self.accesses.is_multiple_of(10 * self.c) {
            self.freq.values_mut().for_each(|freq| *freq /= 2);
        }
        if take(&mut self.window, key) {
            self.window.insert(0, key);
            return (true, vec![]);
        }
        if take(&mut self.probation, key) || take(&mut self.protected, key) {
            self.protected.insert(0, key);
            if self.protected.len() > main * 4 / 5 {
                self.probation.insert(0, self.protected.pop().unwrap());
            }
            return (true, vec![]);
        }
        self.window.insert(0, key);
        if self.window.len() <= window {
            return (false, vec![]);
        }
        let candidate = self.window.pop().unwrap();
        if self.probation.len() + self.protected.len() < main {
            self.probation.insert(0, candidate);
            return (false, vec![]);
        }
        let segment = if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
        let wins = segment.last().is_some_and(|victim| self.freq[&candidate] > self.freq[victim]);
        let gone = if wins { segment.pop().unwrap() } else { candidate };
        if wins {
            self.probation.insert(0, candidate);
        }
        (false, vec![gone])
    }

    fn lists(&mut self) -> (Vec<&mut List>, Vec<&mut List>) {
        (vec![&mut self.window, &mut self.probation, &mut self.protected], vec![])
    }

    fn forget(&mut self, key: u32) {
        self.freq.remove(&key);
    }
}
