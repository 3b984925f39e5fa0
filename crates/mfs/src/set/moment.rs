//! Which of the labels that were found counts.
//!
//! It is the newest one of those to which all others lead. So members of an earlier moment do not
//! count; and if there is none, members were used apart from each other, and both sides have
//! changes that the other lacks: nobody but their owner can know which are wanted.

use crate::format::label::Label;
use spindle_clock::Civil;
use spindle_vfs::{Error, Result};
use std::cmp::Ordering;

/// A label, with the name of its device.
pub type Named<'a> = (String, &'a Label);

/// Returns the label that counts, with what holds of its settling.
///
/// # Errors
/// [`Error::Unsupported`] if there is none, or the members were used apart from each other.
pub fn newest(found: &[Named<'_>]) -> Result<Label> {
    let all: Vec<_> = found.iter().map(|(_, label)| (*label).clone()).collect();
    let labels: Vec<_> = all.iter().map(|label| as_far_as_settled(label, &all)).collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    // Of equal ones the first counts.
    order.sort_by(|&a, &b| match (all[a].is_as_new_as(&all[b]), all[b].is_as_new_as(&all[a])) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, _) => Ordering::Greater,
    });
    let Some(&first) = order.first() else {
        return Err(Error::unsupported("a set without members", "name at least one"));
    };
    // The caller refuses those of other sets.
    order.retain(|&n| all[n].set_id == all[first].set_id);
    // One that is of no use, as its own label says, has nothing that could be missed.
    let mut rest = order.clone();
    rest.retain(|&n| !all[n].is_useless(all[n].member_id));
    let leads =
        |n: usize, to: usize| labels[n].settled <= all[to].epoch && !labels[n].is_apart_from(&all[to]);
    if let Some(newest) = order.into_iter().find(|&to| rest.iter().all(|&n| leads(n, to))) {
        return Ok(labels[newest].clone());
    }
    let mut sides = Vec::new();
    while let Some(&first) = rest.first() {
        let label = &all[first];
        let (apart, mut here): (Vec<usize>, Vec<usize>) =
            rest.into_iter().partition(|&n| labels[n].is_apart_from(label));
        // Others, of an earlier moment, belong to no side.
        here.retain(|&n| all[n].epoch >= label.settled);
        here.sort_by_key(|&n| label.members().iter().position(|id| *id == all[n].member_id));
        sides.push(side(label, here.into_iter().map(|n| &*found[n].0)));
        rest = apart;
    }
    Err(Error::unsupported(
        format!(
            "members of this set were used apart from each other, and each side has changes that the other lacks: {}",
            sides.join("; and ")
        ),
        "choose one side, and move the members of the other to another directory or machine: the set goes on \
         without them",
    ))
}

/// Returns the label with what holds of its settling: if another member that it needs has the same
/// epoch not settled, the change was interrupted before anything was acknowledged.
fn as_far_as_settled(label: &Label, all: &[Label]) -> Label {
    let is_behind = |other: &&Label| {
        let moment = |label: &Label| (label.set_id, label.history.opening, label.epoch);
        moment(other) == moment(label) && !label.is_useless(other.member_id)
    };
    let settled = all.iter().filter(is_behind).map(|other| other.settled).fold(label.settled, u64::min);
    Label { settled, ..label.clone() }
}

/// Describes one of several sides for people, by its newest label and the names of its members.
fn side<'a>(label: &Label, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let times = label.epoch.saturating_sub(1);
    let last = Civil::of(label.opened.div_euclid(1_000_000_000));
    let s = if times == 1 { "" } else { "s" };
    format!("{} (opened to write or changed {times} time{s}, last at {last}Z)", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::history::{History, Opening};
    use crate::format::label::{Area, Parameters, Role};

    const HERE: [u8; 16] = [1; 16];
    const THERE: [u8; 16] = [2; 16];

    /// Returns the label of a new set of two members, each with a copy of everything.
    fn new_set() -> Label {
        let parameters = Parameters::small();
        let area = |role, copy, member_id| {
            let (index, offset, len) = (0, 1 << 20, 1 << 20);
            Area { role, class: 0, index, copy, member_id, offset, len, lost: false, filling: None }
        };
        let roles = [Role::Control, Role::Data, Role::Log];
        Label {
            set_id: [9; 16],
            member_id: HERE,
            member_bytes: 64 << 20,
            epoch: 1,
            settled: 1,
            opened: 0,
            history: History::begun_by(Opening::MIN),
            unequal: false,
            unlogged: false,
            parameters,
            classes: Vec::new(),
            read_only: Vec::new(),
            areas: roles.iter().flat_map(|&role| [area(role, 0, HERE), area(role, 1, THERE)]).collect(),
        }
    }

    /// Returns the label of the member `id` after `opening`, which had these members.
    fn opened(before: &Label, opening: u32, id: [u8; 16], members: &[[u8; 16]], is_settled: bool) -> Label {
        let mut label = Label { member_id: id, epoch: before.epoch + 1, ..before.clone() };
        label.areas.iter_mut().filter(|area| !members.contains(&area.member_id)).for_each(|a| a.lost = true);
        let is_left = |id: &[u8; 16]| !before.is_useless(*id) && label.is_useless(*id);
        let parted = [HERE, THERE].iter().any(is_left);
        label.history = before.gone_on(Opening::new(opening).unwrap(), parted, false);
        label.opened = opening.into();
        if is_settled {
            label.settled = label.epoch;
        }
        label
    }

    fn found(labels: &[&Label]) -> Result<Label> {
        let named: Vec<_> = labels.iter().map(|label| ("member".to_owned(), *label)).collect();
        newest(&named)
    }

    /// Moments of a set: the label of a member then, and the moments from which it comes.
    type Moments = Vec<(Label, Vec<usize>)>;

    /// Returns the moments of a set that is used together, apart and together again, each half some
    /// times.
    fn moments() -> Moments {
        let mut all: Moments = vec![(new_set(), Vec::new())];
        let mut add = |from: usize, opening: u32, id, members: &[[u8; 16]]| {
            let (before, mut path) = all[from].clone();
            path.push(from);
            all.push((opened(&before, opening, id, members, true), path));
            all.len() - 1
        };
        let together = add(0, 10, HERE, &[HERE, THERE]);
        let (mut here, mut there) = (together, together);
        for n in 0..3 {
            here = add(here, 20 + n, HERE, &[HERE]);
        }
        for n in 0..8 {
            there = add(there, 30 + n, THERE, &[THERE]);
        }
        // A member that was brought back from a copy of an earlier moment, and used.
        add(0, 40, HERE, &[HERE]);
        all
    }

    /// Returns true if two moments come from each other, and none if they are of one member, which
    /// cannot be there twice.
    fn is_linear(all: &Moments, a: usize, b: usize) -> Option<bool> {
        let is_linear = a == b || all[a].1.contains(&b) || all[b].1.contains(&a);
        (is_linear || all[a].0.member_id != all[b].0.member_id).then_some(is_linear)
    }

    /// Promise: of all pairs of moments of a set, one counts if it comes from the other; otherwise
    /// both are refused, in either order, and the message names both sides.
    #[test]
    fn all_pairs_of_moments() {
        let all = moments();
        let mut refused = 0;
        for (a, (one, _)) in all.iter().enumerate() {
            for (b, (other, _)) in all.iter().enumerate() {
                let counts = found(&[one, other]);
                let Some(is_linear) = is_linear(&all, a, b) else { continue };
                match counts {
                    Ok(label) => assert!(is_linear && label.epoch == one.epoch.max(other.epoch), "{a} {b}"),
                    Err(error) => {
                        let times = |label: &Label| format!("changed {} time", label.epoch - 1);
                        let text = error.to_string();
                        assert!(
                            !is_linear && text.contains(&times(one)) && text.contains(&times(other)),
                            "{text}"
                        );
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 40, "{refused}");
    }

    /// Promise: if programs have written labels that know of no openings, halves that were used
    /// apart are found by what each calls lost, and no moments of one half are refused.
    #[test]
    fn moments_without_a_history() {
        let all = moments();
        let old = |label: &Label| Label { history: History::default(), ..label.clone() };
        for (a, (one, _)) in all.iter().enumerate() {
            for (b, (other, _)) in all.iter().enumerate() {
                let Some(is_linear) = is_linear(&all, a, b) else { continue };
                let is_alone = |label: &Label| label.areas.iter().any(|area| area.lost);
                let are_halves = is_alone(one) && is_alone(other) && one.member_id != other.member_id;
                for (one, other) in
                    [(old(one), old(other)), (one.clone(), old(other)), (old(one), other.clone())]
                {
                    let counts = found(&[&one, &other]);
                    assert!(counts.is_ok() || !is_linear, "{a} {b}: {counts:?}");
                    assert!(counts.is_err() || !are_halves, "{a} {b}: {counts:?}");
                }
            }
        }
    }

    /// Promise: an opening that was interrupted before all members knew it has acknowledged
    /// nothing: it is no reason to refuse, whichever half it was of and however often, also if one
    /// of two members had it as settled already; the state of the half that was used counts.
    #[test]
    fn an_interrupted_opening_is_no_use() {
        let set = new_set();
        let used = opened(&set, 20, HERE, &[HERE], true);
        let mut tried = Label { member_id: THERE, ..set.clone() };
        for n in 0..9 {
            tried = opened(&tried, 30 + n, THERE, &[THERE], false);
            for labels in [[&used, &tried], [&tried, &used]] {
                assert_eq!(found(&labels).unwrap().history, used.history, "{n} attempts");
            }
        }
        // Another member of that half has the same opening, not settled.
        let first = opened(&Label { member_id: THERE, ..set.clone() }, 30, THERE, &[THERE, [4; 16]], false);
        let mut areas = first.areas.clone();
        areas.push(Area { copy: 2, member_id: [4; 16], ..areas[1].clone() });
        let behind = Label { member_id: [4; 16], areas: areas.clone(), ..first.clone() };
        let ahead = Label { settled: first.epoch, areas, ..first };
        assert!(found(&[&used, &ahead]).is_err());
        assert_eq!(found(&[&used, &ahead, &behind]).unwrap().history, used.history);
    }

    /// Promise: a member that was lost in use, while the set went on without it, is no half that
    /// was used, however often the set is opened after that.
    #[test]
    fn a_member_that_was_lost_in_use_has_an_earlier_state() {
        let set = opened(&new_set(), 10, THERE, &[HERE, THERE], true);
        let mut now = Label { member_id: HERE, epoch: set.epoch + 1, settled: set.epoch + 1, ..set.clone() };
        now.areas.iter_mut().filter(|area| area.member_id == THERE).for_each(|area| area.lost = true);
        now.history = set.gone_on(Opening::new(10).unwrap(), true, true);
        for n in 0..20 {
            assert_eq!(found(&[&set, &now]).unwrap(), now, "{n}");
            now = opened(&now, 50 + n, HERE, &[HERE], true);
        }
        // The lost one is used alone: from now on each has what the other lacks.
        let alone = opened(&set, 90, THERE, &[THERE], true);
        assert!(found(&[&alone, &now]).is_err());
    }
}
