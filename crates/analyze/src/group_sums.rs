//! Amounts of all names that were kept, which merge with those of other traces before the largest
//! are chosen.

use super::groups::{Amounts, Dimension, Group, Measure, Order};
use super::heavy::HeavyHitters;
use super::parts::{Each, How, Part, Read, Reader, Sum, number};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A [`Group`] before the largest names are chosen.
#[derive(Clone, Debug)]
pub(super) struct GroupSums {
    by: Dimension,
    totals: [u64; 6],
    missed: [u64; 6],
    names: BTreeMap<Arc<str>, [u64; 6]>,
}

impl GroupSums {
    pub(super) fn new(by: Dimension, heavy: &[HeavyHitters; 6]) -> Self {
        let mut names: BTreeMap<_, [u64; 6]> = BTreeMap::new();
        for (measure, heavy) in heavy.iter().enumerate() {
            for (name, &amount) in heavy.amounts() {
                names.entry(Arc::clone(name)).or_default()[measure] = amount;
            }
        }
        let of = |what: fn(&HeavyHitters) -> u64| Measure::ALL.map(|measure| what(&heavy[measure as usize]));
        Self { by, totals: of(HeavyHitters::total), missed: of(HeavyHitters::missed), names }
    }

    pub(super) const fn by(&self) -> Dimension {
        self.by
    }

    /// Returns the `top` names with the largest amounts of each measure; of equal ones the first in
    /// the order of their names.
    pub(super) fn largest(&self, top: usize) -> Group {
        let mut chosen: BTreeMap<&str, [u64; 6]> = BTreeMap::new();
        for measure in Measure::ALL {
            let amount = |amounts: &[u64; 6]| amounts[measure as usize];
            let mut all: Vec<_> = self.names.iter().filter(|(_, amounts)| amount(amounts) > 0).collect();
            all.sort_by_key(|(_, amounts)| std::cmp::Reverse(amount(amounts)));
            chosen.extend(all.into_iter().take(top).map(|(name, &amounts)| (&**name, amounts)));
        }
        let rows = chosen.into_iter().map(|(name, amounts)| Amounts { name: name.to_owned(), amounts });
        let &Self { by, totals, missed, .. } = self;
        let mut group = Group { by, totals, missed, order: Order::default(), rows: rows.collect() };
        group.sort(Order::default());
        group
    }
}

impl Part for GroupSums {
    fn merge(&mut self, other: &Self) {
        Each::<Sum>::merge(&mut self.totals, &other.totals);
        Each::<Sum>::merge(&mut self.missed, &other.missed);
        for (name, amounts) in &other.names {
            Each::<Sum>::merge(self.names.entry(Arc::clone(name)).or_default(), amounts);
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        number(self.by as u64, out);
        Each::<Sum>::write(&self.totals, out);
        Each::<Sum>::write(&self.missed, out);
        number(self.names.len() as u64, out);
        for (name, amounts) in &self.names {
            number(name.len() as u64, out);
            out.extend(name.as_bytes());
            Each::<Sum>::write(amounts, out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        let by = Dimension::ALL[from.index(Dimension::ALL.len(), "groups by something unknown")?];
        let (totals, missed) = (Each::<Sum>::read(from)?, Each::<Sum>::read(from)?);
        let mut names = BTreeMap::new();
        for _ in 0..from.number()? {
            let name = from.text()?;
            from.expect(!names.contains_key(name), "a name that is there twice")?;
            names.insert(name.into(), Each::<Sum>::read(from)?);
        }
        Ok(Self { by, totals, missed, names })
    }
}

/// Groups by the dimensions that all traces have.
pub(super) enum OfBoth {}

impl How<Vec<GroupSums>> for OfBoth {
    fn merge(into: &mut Vec<GroupSums>, other: &Vec<GroupSums>) {
        into.retain_mut(|group| {
            let same = other.iter().find(|same| same.by == group.by);
            same.inspect(|same| group.merge(same)).is_some()
        });
    }

    fn write(value: &Vec<GroupSums>, out: &mut Vec<u8>) {
        number(value.len() as u64, out);
        for group in value {
            group.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Vec<GroupSums>> {
        let mut read: Vec<GroupSums> = Vec::new();
        for _ in 0..from.index(Dimension::ALL.len() + 1, "too many groups")? {
            let group = GroupSums::read(from)?;
            from.expect(read.iter().all(|other| other.by != group.by), "the same group twice")?;
            read.push(group);
        }
        Ok(read)
    }
}
