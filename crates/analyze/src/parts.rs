//! Says how amounts of several traces become one, and how they are stored.
//!
//! The one idea: each field of the findings says once what it is ([`Count`], [`Sum`], [`Most`] and
//! so on), from which merging, writing and reading follow. Merging is associative to the last bit,
//! so that traces may be analysed in any groups. A reader believes nothing: lengths are not trusted
//! before the bytes are there, and what would break a later sum is refused.

use std::collections::BTreeSet;

/// Maximum of a count. No trace reaches it, and the sum of all counts of an array fits into 64
/// bits.
const MOST: u64 = 1 << 56;

/// Why stored findings cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    /// Offset in bytes from the beginning of what is read.
    pub(super) at: usize,
    /// What is wrong.
    pub(super) what: &'static str,
}

/// Result of reading.
pub(super) type Read<T> = Result<T, Damage>;

/// Something that merges and can be stored.
pub(super) trait Part: Sized {
    /// Adds what another trace has, which comes later in the order of the traces.
    fn merge(&mut self, other: &Self);
    /// Appends the bytes that [`Part::read`] reads.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads what [`Part::write`] wrote.
    fn read(from: &mut Reader<'_>) -> Read<Self>;
}

/// What a field of type `T` is, if its type alone does not say that.
pub(super) trait How<T> {
    /// Adds the value of another trace.
    fn merge(into: &mut T, other: &T);
    /// Appends a value.
    fn write(value: &T, out: &mut Vec<u8>);
    /// Reads a value.
    fn read(from: &mut Reader<'_>) -> Read<T>;
}

/// Implements [`Part`] for a struct whose fields say what they are; a condition may follow that
/// holds of what is read, and what is wrong if not.
macro_rules! parts {
    ($name:ty { $($field:ident: $how:ty),* $(,)? } $(, $holds:expr, $what:literal)?) => {
        impl $crate::parts::Part for $name {
            fn merge(&mut self, other: &Self) {
                $(<$how as $crate::parts::How<_>>::merge(&mut self.$field, &other.$field);)*
            }

            fn write(&self, out: &mut Vec<u8>) {
                $(<$how as $crate::parts::How<_>>::write(&self.$field, out);)*
            }

            fn read(from: &mut $crate::parts::Reader<'_>) -> $crate::parts::Read<Self> {
                let read = Self { $($field: <$how as $crate::parts::How<_>>::read(from)?),* };
                $(
                    let holds: fn(&Self) -> bool = $holds;
                    from.expect(holds(&read), $what)?;
                )?
                Ok(read)
            }
        }
    };
}
pub(super) use parts;

/// A number of things; stops at 2⁵⁶.
pub(super) enum Count {}
/// A number of bytes; stops at the largest number.
pub(super) enum Sum {}
/// A maximum.
pub(super) enum Most {}
/// A [`Part`].
pub(super) enum Whole {}
/// A table of as many.
pub(super) struct Each<K>(std::marker::PhantomData<K>);
/// Something that is known of all traces together only if it is of each.
pub(super) struct OfAll<K>(std::marker::PhantomData<K>);
/// The earliest time and the latest.
pub(super) enum Span {}
/// The earliest time.
pub(super) enum Earliest {}
/// Different lines, in the order of their first traces.
pub(super) enum Lines {}
/// Different names in one line, separated by semicolons.
pub(super) enum Listed {}
/// Different numbers.
pub(super) enum Numbers {}
/// One after the other, in the order of the traces.
pub(super) enum InOrder {}

impl How<u64> for Count {
    fn merge(into: &mut u64, other: &u64) {
        *into = into.saturating_add(*other).min(MOST);
    }

    fn write(value: &u64, out: &mut Vec<u8>) {
        number((*value).min(MOST), out);
    }

    fn read(from: &mut Reader<'_>) -> Read<u64> {
        let count = from.number()?;
        from.expect(count <= MOST, "an impossible count")?;
        Ok(count)
    }
}

impl How<u64> for Sum {
    fn merge(into: &mut u64, other: &u64) {
        *into = into.saturating_add(*other);
    }

    fn write(value: &u64, out: &mut Vec<u8>) {
        number(*value, out);
    }

    fn read(from: &mut Reader<'_>) -> Read<u64> {
        from.number()
    }
}

impl How<u64> for Most {
    fn merge(into: &mut u64, other: &u64) {
        *into = (*into).max(*other);
    }

    fn write(value: &u64, out: &mut Vec<u8>) {
        number(*value, out);
    }

    fn read(from: &mut Reader<'_>) -> Read<u64> {
        from.number()
    }
}

impl How<f64> for Most {
    fn merge(into: &mut f64, other: &f64) {
        *into = into.max(*other);
    }

    fn write(value: &f64, out: &mut Vec<u8>) {
        real(*value, out);
    }

    fn read(from: &mut Reader<'_>) -> Read<f64> {
        from.real()
    }
}

impl<T: Part> How<T> for Whole {
    fn merge(into: &mut T, other: &T) {
        into.merge(other);
    }

    fn write(value: &T, out: &mut Vec<u8>) {
        value.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Read<T> {
        T::read(from)
    }
}

impl<K: How<T>, T: Copy + Default, const N: usize> How<[T; N]> for Each<K> {
    fn merge(into: &mut [T; N], other: &[T; N]) {
        into.iter_mut().zip(other).for_each(|(into, other)| K::merge(into, other));
    }

    fn write(value: &[T; N], out: &mut Vec<u8>) {
        number(N as u64, out);
        for value in value {
            K::write(value, out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<[T; N]> {
        let len = from.number()?;
        from.expect(len == N as u64, "a table of another length")?;
        let mut read = [T::default(); N];
        for value in &mut read {
            *value = K::read(from)?;
        }
        Ok(read)
    }
}

impl<K: How<T>, T> How<Option<T>> for OfAll<K> {
    fn merge(into: &mut Option<T>, other: &Option<T>) {
        match (into.as_mut(), other) {
            (Some(into), Some(other)) => K::merge(into, other),
            _ => *into = None,
        }
    }

    fn write(value: &Option<T>, out: &mut Vec<u8>) {
        number(value.is_some().into(), out);
        if let Some(value) = value {
            K::write(value, out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Option<T>> {
        from.is_there()?.then(|| K::read(from)).transpose()
    }
}

impl How<Option<(i64, i64)>> for Span {
    fn merge(into: &mut Option<(i64, i64)>, other: &Option<(i64, i64)>) {
        *into = match (*into, *other) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    fn write(value: &Option<(i64, i64)>, out: &mut Vec<u8>) {
        number(value.is_some().into(), out);
        if let Some((first, last)) = value {
            out.extend([first.to_le_bytes(), last.to_le_bytes()].concat());
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Option<(i64, i64)>> {
        from.is_there()?.then(|| Ok((from.time()?, from.time()?))).transpose()
    }
}

impl How<Option<i64>> for Earliest {
    fn merge(into: &mut Option<i64>, other: &Option<i64>) {
        *into = into.iter().chain(other).min().copied();
    }

    fn write(value: &Option<i64>, out: &mut Vec<u8>) {
        number(value.is_some().into(), out);
        if let Some(time) = value {
            out.extend(time.to_le_bytes());
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Option<i64>> {
        from.is_there()?.then(|| from.time()).transpose()
    }
}

impl How<Vec<String>> for Lines {
    fn merge(into: &mut Vec<String>, other: &Vec<String>) {
        let mut seen = BTreeSet::new();
        let all = std::mem::take(into).into_iter().chain(other.iter().cloned());
        *into = all.filter(|line| seen.insert(line.clone())).collect();
    }

    fn write(value: &Vec<String>, out: &mut Vec<u8>) {
        <InOrder as How<_>>::write(value, out);
    }

    fn read(from: &mut Reader<'_>) -> Read<Vec<String>> {
        <InOrder as How<_>>::read(from)
    }
}

impl How<String> for Listed {
    fn merge(into: &mut String, other: &String) {
        let names = |line: &str| line.split("; ").filter(|name| !name.is_empty()).map(Into::into).collect();
        let mut all: Vec<String> = names(into);
        Lines::merge(&mut all, &names(other));
        *into = all.join("; ");
    }

    fn write(value: &String, out: &mut Vec<u8>) {
        value.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Read<String> {
        String::read(from)
    }
}

impl How<BTreeSet<u32>> for Numbers {
    fn merge(into: &mut BTreeSet<u32>, other: &BTreeSet<u32>) {
        into.extend(other);
    }

    fn write(value: &BTreeSet<u32>, out: &mut Vec<u8>) {
        number(value.len() as u64, out);
        for &value in value {
            number(value.into(), out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<BTreeSet<u32>> {
        let mut read = BTreeSet::new();
        for _ in 0..from.number()? {
            let value = from.number()?;
            let value = u32::try_from(value).ok().filter(|&value| read.insert(value));
            from.expect(value.is_some(), "an impossible number, or one that is there twice")?;
        }
        Ok(read)
    }
}

impl<T: Part + Clone> How<Vec<T>> for InOrder {
    fn merge(into: &mut Vec<T>, other: &Vec<T>) {
        into.extend(other.iter().cloned());
    }

    fn write(value: &Vec<T>, out: &mut Vec<u8>) {
        number(value.len() as u64, out);
        for value in value {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Read<Vec<T>> {
        let len = from.number()?;
        let mut read = Vec::new();
        for _ in 0..len {
            read.push(T::read(from)?);
        }
        Ok(read)
    }
}

impl Part for String {
    fn merge(&mut self, other: &Self) {
        <Listed as How<_>>::merge(self, other);
    }

    fn write(&self, out: &mut Vec<u8>) {
        number(self.len() as u64, out);
        out.extend(self.as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Read<Self> {
        from.text().map(ToOwned::to_owned)
    }
}

/// Appends a number in groups of seven bits, the lowest first; all but the last have bit 7 set.
pub(super) fn number(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}

/// Appends a number as it is in memory, so that it comes back to the last bit.
pub(super) fn real(value: f64, out: &mut Vec<u8>) {
    out.extend(value.to_bits().to_le_bytes());
}

/// Reads findings from bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the last item began.
    item: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, item: 0 }
    }

    /// Refuses the last item that was read unless something holds.
    pub(super) fn expect(&self, holds: bool, what: &'static str) -> Read<()> {
        if holds { Ok(()) } else { Err(Damage { at: self.item, what }) }
    }

    fn take(&mut self, len: usize) -> Read<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or(Damage { at: self.at, what: "the end is missing" })?;
        (self.item, self.at) = (self.at, self.at + len);
        Ok(taken)
    }

    fn eight(&mut self) -> Read<[u8; 8]> {
        let mut eight = [0; 8];
        eight.copy_from_slice(self.take(8)?);
        Ok(eight)
    }

    /// Reads what [`number`] wrote.
    pub(super) fn number(&mut self) -> Read<u64> {
        let start = self.at;
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                self.item = start;
                return Ok(value);
            }
        }
        Err(Damage { at: start, what: "a number of more than 64 bits" })
    }

    /// Reads a number that is less than `limit`.
    pub(super) fn index(&mut self, limit: usize, what: &'static str) -> Read<usize> {
        let value = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        self.expect(value < limit, what)?;
        Ok(value)
    }

    /// Reads what [`real`] wrote: a measurement, which is finite and not negative.
    pub(super) fn real(&mut self) -> Read<f64> {
        let value = f64::from_bits(u64::from_le_bytes(self.eight()?));
        self.expect(value.is_finite() && value >= 0.0, "an impossible measurement")?;
        Ok(value)
    }

    fn time(&mut self) -> Read<i64> {
        Ok(i64::from_le_bytes(self.eight()?))
    }

    fn is_there(&mut self) -> Read<bool> {
        Ok(self.index(2, "neither there nor missing")? == 1)
    }

    /// Reads 16 bytes, the lowest first.
    pub(super) fn wide(&mut self) -> Read<u128> {
        let (low, high) = (self.eight()?, self.eight()?);
        Ok(u128::from(u64::from_le_bytes(low)) | u128::from(u64::from_le_bytes(high)) << 64)
    }

    /// Reads a text.
    pub(super) fn text(&mut self) -> Read<&'a str> {
        let len = self.number()?;
        let bytes = self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        std::str::from_utf8(bytes).map_err(|_| Damage { at: self.item, what: "a text that is not UTF-8" })
    }

    /// Refuses bytes after the last item.
    pub(super) fn finish(mut self) -> Read<()> {
        self.item = self.at;
        self.expect(self.at == self.bytes.len(), "bytes after the end")
    }
}
