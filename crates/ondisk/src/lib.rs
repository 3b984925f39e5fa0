//! On-disk structures, declared once.
//!
//! A structure of a foreign or own format is declared with [`structure!`]: the offset of each
//! field, its name in its source, and its fixed-width type. The declaration yields a plain struct
//! of native integers with `decode` and `encode`, and is checked at compile time: the offsets must
//! increase without overlaps, and the fields must fit into the stated size.
//!
//! Byte order belongs to the image, not to the type: it is an [`Endian`] passed to each call.
//!
//! Decoding never fails and checks nothing: its result is *unchecked*, and the caller converts it
//! into a typed value before computing with it. `encode` overwrites only the declared bytes, so
//! undeclared bytes survive decoding and encoding of the same buffer.

/// Byte order of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first (x86, VAX).
    Little,
    /// Most significant byte first (SPARC, 68000, `PowerPC`).
    Big,
    /// PDP-11: 16-bit words little-endian, the more significant word first.
    Pdp,
}

impl Endian {
    /// The byte order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "little") { Self::Little } else { Self::Big };
}

/// A value with a fixed size on disk.
pub trait Field: Sized {
    /// Size on disk in bytes.
    const SIZE: usize;
    /// Reads the value from the first [`Self::SIZE`] bytes.
    fn get(bytes: &[u8], endian: Endian) -> Self;
    /// Writes the value to the first [`Self::SIZE`] bytes.
    fn put(&self, bytes: &mut [u8], endian: Endian);
}

macro_rules! byte_field {
    ($($t:ty),*) => {$(
        impl Field for $t {
            const SIZE: usize = 1;
            #[inline]
            fn get(bytes: &[u8], _: Endian) -> Self {
                <$t>::from_ne_bytes([bytes[0]])
            }
            #[inline]
            fn put(&self, bytes: &mut [u8], _: Endian) {
                bytes[..1].copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

/// `$swap` reorders the little-endian bytes into PDP-11 order; it is its own inverse.
macro_rules! int_field {
    ($($t:ty, $n:literal, $swap:expr);*) => {$(
        impl Field for $t {
            const SIZE: usize = $n;
            #[inline]
            fn get(bytes: &[u8], endian: Endian) -> Self {
                let mut raw = [0; $n];
                raw.copy_from_slice(&bytes[..$n]);
                match endian {
                    Endian::Little => <$t>::from_le_bytes(raw),
                    Endian::Big => <$t>::from_be_bytes(raw),
                    Endian::Pdp => <$t>::from_le_bytes($swap(raw)),
                }
            }
            #[inline]
            fn put(&self, bytes: &mut [u8], endian: Endian) {
                bytes[..$n].copy_from_slice(&match endian {
                    Endian::Little => self.to_le_bytes(),
                    Endian::Big => self.to_be_bytes(),
                    Endian::Pdp => $swap(self.to_le_bytes()),
                });
            }
        }
    )*};
}

byte_field!(u8, i8);
int_field!(
    u16, 2, |b: [u8; 2]| b;
    i16, 2, |b: [u8; 2]| b;
    u32, 4, |b: [u8; 4]| [b[2], b[3], b[0], b[1]];
    i32, 4, |b: [u8; 4]| [b[2], b[3], b[0], b[1]];
    u64, 8, |b: [u8; 8]| [b[6], b[7], b[4], b[5], b[2], b[3], b[0], b[1]];
    i64, 8, |b: [u8; 8]| [b[6], b[7], b[4], b[5], b[2], b[3], b[0], b[1]]
);

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    const SIZE: usize = T::SIZE * N;
    #[inline]
    fn get(bytes: &[u8], endian: Endian) -> Self {
        std::array::from_fn(|i| T::get(&bytes[i * T::SIZE..], endian))
    }
    #[inline]
    fn put(&self, bytes: &mut [u8], endian: Endian) {
        for (i, value) in self.iter().enumerate() {
            value.put(&mut bytes[i * T::SIZE..], endian);
        }
    }
}

/// Repeats an expression for each byte order, which is a constant there: one choice for a structure
/// takes the place of one for each field.
#[doc(hidden)]
#[macro_export]
macro_rules! in_order {
    ($endian:expr, $order:ident => $work:expr) => {
        match $endian {
            $crate::Endian::Little => {
                let $order = $crate::Endian::Little;
                $work
            }
            $crate::Endian::Big => {
                let $order = $crate::Endian::Big;
                $work
            }
            $crate::Endian::Pdp => {
                let $order = $crate::Endian::Pdp;
                $work
            }
        }
    };
}

/// Declares an on-disk structure: `structure! { /// doc` `pub struct Name: SIZE { OFFSET field:
/// type, … } }`.
///
/// Defines the struct, `Name::SIZE`, a constant `Name::OFFSETS` of `(field, offset, size)` rows,
/// `decode` and `encode` (also through [`Field`]). Offsets may leave gaps, whose bytes are never
/// touched; they must increase and fields must not overlap.
#[macro_export]
macro_rules! structure {
    ($(#[$meta:meta])* $vis:vis struct $name:ident : $size:literal {
        $($(#[$fmeta:meta])* $offset:literal $field:ident : $type:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::struct_field_names)] // The source's names, with their prefixes.
        $vis struct $name { $($(#[$fmeta])* pub $field: $type),* }

        impl $name {
            /// Size on disk in bytes.
            pub const SIZE: usize = $size;
            /// Every field with its byte offset and size, in order.
            pub const OFFSETS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), $offset, <$type as $crate::Field>::SIZE)),*];

            /// Reads the structure from the start of `bytes`, which must hold at least
            /// [`Self::SIZE`].
            #[must_use]
            #[inline]
            pub fn decode(bytes: &[u8], endian: $crate::Endian) -> Self {
                $crate::in_order!(endian, order => {
                    let bytes = &bytes[..$size];
                    Self { $($field: <$type as $crate::Field>::get(&bytes[$offset..], order)),* }
                })
            }

            /// Writes the declared fields to the start of `bytes`; leaves the gaps unchanged.
            #[inline]
            pub fn encode(&self, bytes: &mut [u8], endian: $crate::Endian) {
                $crate::in_order!(endian, order => {
                    let bytes = &mut bytes[..$size];
                    $($crate::Field::put(&self.$field, &mut bytes[$offset..], order);)*
                });
            }
        }

        impl $crate::Field for $name {
            const SIZE: usize = $size;
            #[inline]
            fn get(bytes: &[u8], endian: $crate::Endian) -> Self {
                Self::decode(bytes, endian)
            }
            #[inline]
            fn put(&self, bytes: &mut [u8], endian: $crate::Endian) {
                self.encode(bytes, endian);
            }
        }

        const _: () = {
            let mut end = 0;
            let mut i = 0;
            while i < $name::OFFSETS.len() {
                let (_, offset, size) = $name::OFFSETS[i];
                assert!(offset >= end, "a field overlaps the one before it");
                end = offset + size;
                i += 1;
            }
            assert!(end <= $size, "the fields are longer than the structure");
        };
    };
}

#[cfg(test)]
mod tests {
    use super::{Endian, Field};

    structure! {
        /// A structure with a gap.
        pub struct Sample: 16 {
            /// A word.
            0 word: u32,
            /// Two shorts.
            4 pair: [i16; 2],
            /// A field after a gap of four bytes.
            12 last: i32,
        }
    }

    /// Promise: encoding and decoding are inverse in every byte order, and gaps stay unchanged.
    #[test]
    fn round_trip_keeps_gaps() {
        for endian in [Endian::Little, Endian::Big, Endian::Pdp] {
            let mut bytes = [0xaa; Sample::SIZE];
            let value = Sample { word: 0x0102_0304, pair: [-2, 5], last: -7 };
            value.encode(&mut bytes, endian);
            assert_eq!(Sample::decode(&bytes, endian), value);
            assert_eq!(bytes[8..12], [0xaa; 4]);
        }
    }

    /// Promise: the PDP-11 puts the more significant word first, each word little-endian.
    #[test]
    fn pdp_order() {
        assert_eq!(u32::get(&[2, 1, 4, 3], Endian::Pdp), 0x0102_0304);
        let mut out = [0; 8];
        0x0102_0304_0506_0708_u64.put(&mut out, Endian::Pdp);
        assert_eq!(out, [2, 1, 4, 3, 6, 5, 8, 7]);
    }
}
