//! The fields of structures under their names on the disk.

use crate::format::layout::{InodeFormat, Layout, Version};
use crate::format::ondisk::{Dinode1, Dinode2, Fs};
use spindle_ondisk::{Endian, Field as _};

/// How people write a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number without a sign.
    Number,
    /// A number with a sign.
    Signed,
    /// A number in octal.
    Octal,
    /// A number in hexadecimal.
    Hex,
    /// A time in seconds since 1970.
    Time,
    /// Text that ends with a NUL.
    Text,
    /// Bytes.
    Bytes,
}

/// A field of a structure on the disk, or an element of one that is an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, with an index if it is an element: `di_db[0]`.
    pub name: String,
    /// Its first byte in the structure.
    pub at: usize,
    /// Its bytes.
    pub len: usize,
    /// How people write it.
    pub form: Form,
}

impl Field {
    /// Returns the number in the field; none if it is no number.
    #[must_use]
    pub fn number(&self, bytes: &[u8], endian: Endian) -> Option<i128> {
        let bytes = bytes.get(self.at..self.at + self.len)?;
        let signed = matches!(self.form, Form::Signed | Form::Time);
        Some(match (self.len, signed, self.form) {
            (_, _, Form::Text | Form::Bytes) => return None,
            (1, true, _) => i8::get(bytes, endian).into(),
            (1, false, _) => u8::get(bytes, endian).into(),
            (2, true, _) => i16::get(bytes, endian).into(),
            (2, false, _) => u16::get(bytes, endian).into(),
            (4, true, _) => i32::get(bytes, endian).into(),
            (4, false, _) => u32::get(bytes, endian).into(),
            (8, true, _) => i64::get(bytes, endian).into(),
            (8, false, _) => u64::get(bytes, endian).into(),
            _ => return None,
        })
    }

    /// Puts a number into the field. Returns false if it does not fit, or if it is no number.
    #[must_use]
    pub fn put(&self, bytes: &mut [u8], endian: Endian, value: i128) -> bool {
        fn put<T: TryFrom<i128> + spindle_ondisk::Field>(at: &mut [u8], endian: Endian, value: i128) -> bool {
            T::try_from(value).is_ok_and(|value| {
                value.put(at, endian);
                true
            })
        }
        let Some(at) = bytes.get_mut(self.at..self.at + self.len) else { return false };
        let signed = matches!(self.form, Form::Signed | Form::Time);
        match (self.len, signed, self.form) {
            (_, _, Form::Text | Form::Bytes) => false,
            (1, true, _) => put::<i8>(at, endian, value),
            (1, false, _) => put::<u8>(at, endian, value),
            (2, true, _) => put::<i16>(at, endian, value),
            (2, false, _) => put::<u16>(at, endian, value),
            (4, true, _) => put::<i32>(at, endian, value),
            (4, false, _) => put::<u32>(at, endian, value),
            (8, true, _) => put::<i64>(at, endian, value),
            (8, false, _) => put::<u64>(at, endian, value),
            _ => false,
        }
    }

    /// Returns the fields of an inode.
    #[must_use]
    pub fn of_inode(layout: &Layout) -> Vec<Self> {
        let (fields, pointer) = match layout.version {
            Version::Ufs1 => (Dinode1::OFFSETS, 4),
            Version::Ufs2 => (Dinode2::OFFSETS, 8),
        };
        let mut found = Vec::new();
        for &(name, at, size) in fields {
            let element = match name {
                "di_db" | "di_ib" | "di_extb" => pointer,
                "di_oldids" => 2,
                "di_modrev" | "di_spare" => size.min(if pointer == 4 || name == "di_spare" { 4 } else { 8 }),
                _ => size,
            };
            let form = match name {
                "di_mode" => Form::Octal,
                "di_nlink" => Form::Signed,
                "di_flags" | "di_kernflags" | "di_ckhash" => Form::Hex,
                _ if name.ends_with("nsec") => Form::Signed,
                _ if name.ends_with("time") => Form::Time,
                _ => Form::Number,
            };
            elements(&mut found, name_in(layout, name), at, size, element, form);
        }
        found
    }

    /// Returns the fields of the superblock, as FreeBSD names them.
    #[must_use]
    pub fn of_superblock() -> Vec<Self> {
        let mut found = Vec::new();
        for &(name, at, size) in Fs::OFFSETS {
            let form = match name {
                "fs_magic" | "fs_flags" | "fs_metackhash" | "fs_ckhash" => Form::Hex,
                "fs_fsmnt" | "fs_volname" => Form::Text,
                _ if name.ends_with("time") => Form::Time,
                _ => Form::Signed,
            };
            let element = match name {
                "fs_old_cstotal" | "fs_id" | "fs_snapinum" => 4,
                "fs_cstotal" => 8,
                _ => size,
            };
            let form =
                if matches!(element, 1 | 2 | 4 | 8) || form == Form::Text { form } else { Form::Bytes };
            elements(&mut found, name, at, size, element, form);
        }
        found
    }

    /// Finds a field by its name, with or without the prefix of its structure (`di_` or `fs_`).
    #[must_use]
    pub fn find<'f>(fields: &'f [Self], name: &str) -> Option<&'f Self> {
        fields.iter().find(|field| {
            field.name == name || field.name.split_once('_').is_some_and(|(_, short)| short == name)
        })
    }
}

/// Returns the name of a field of an inode in its format.
fn name_in(layout: &Layout, name: &'static str) -> &'static str {
    match (layout.inode_format, name) {
        (InodeFormat::Sun, "di_uid") => "di_shadow",
        (InodeFormat::Sun, "di_gid") => "di_uid",
        _ => name,
    }
}

/// Adds a field, or its elements if it is an array.
fn elements(found: &mut Vec<Field>, name: &str, at: usize, size: usize, len: usize, form: Form) {
    if size == len {
        found.push(Field { name: name.into(), at, len, form });
        return;
    }
    for n in 0..size / len {
        found.push(Field { name: format!("{name}[{n}]"), at: at + n * len, len, form });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::newfs::{Format, Parameters, Plan};

    /// Promise: every field of an inode and of the superblock is there once, within its structure,
    /// and takes a number back that it has given.
    #[test]
    fn fields_give_and_take() {
        for format in [Format::Ufs1, Format::Ufs2] {
            let mut wishes = Parameters::new(16 << 20);
            wishes.format = format;
            let layout = Plan::new(&wishes).unwrap().layout;
            for (fields, size) in
                [(Field::of_inode(&layout), layout.inode_size()), (Field::of_superblock(), Fs::SIZE)]
            {
                let mut end = 0;
                for field in &fields {
                    assert!(field.at >= end && field.at + field.len <= size, "{field:?}");
                    end = field.at + field.len;
                    let bytes: Vec<u8> = (0..size).map(|n| n.to_le_bytes()[0].wrapping_mul(37)).collect();
                    let mut copy = bytes.clone();
                    for endian in [Endian::Little, Endian::Big] {
                        let Some(value) = field.number(&bytes, endian) else { continue };
                        assert!(field.put(&mut copy, endian, value), "{field:?}");
                        assert_eq!(copy, bytes);
                    }
                    assert!(!field.put(&mut copy, Endian::Little, 1 << 64), "{field:?}");
                }
            }
            assert_eq!(Field::find(&Field::of_inode(&layout), "db[3]").unwrap().name, "di_db[3]");
        }
    }
}
