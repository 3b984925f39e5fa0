//! What follows the `=` of an option.

use crate::{Error, Result};

/// An option as it was given.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    /// All of it.
    pub(super) word: &'a str,
    /// What is before the `=`.
    pub(super) name: &'a str,
    /// What is behind the `=`, if there is one.
    pub(super) value: Option<&'a str>,
}

impl Given<'_> {
    /// Returns the error that this option `why`.
    pub(super) fn wrong(&self, why: &str) -> Error {
        Error::option(self.word, why)
    }

    /// Returns the value as a text.
    pub(super) fn text(&self) -> Result<String> {
        match self.value {
            Some(value) if !value.contains('\0') => Ok(value.into()),
            _ => Err(self.wrong("needs a value")),
        }
    }

    /// Returns the value as a number with this radix, at most `max`.
    pub(super) fn number(&self, radix: u32, max: u32) -> Result<u32> {
        let digits = self.value.unwrap_or_default();
        match u32::from_str_radix(digits, radix) {
            Ok(n) if n <= max && digits.bytes().all(|b| b.is_ascii_digit()) => Ok(n),
            _ if radix == 8 => Err(self.wrong(&format!("needs an octal number up to {max:o}"))),
            _ => Err(self.wrong(&format!("needs a number up to {max}"))),
        }
    }

    /// Returns the value as a number of bytes, with `k`, `m`, `g` or `t` for powers of 1024.
    pub(super) fn size(&self) -> Result<u64> {
        let value = self.value.unwrap_or_default();
        let (digits, shift) = match value.as_bytes().last().map(u8::to_ascii_lowercase) {
            Some(b'k') => (&value[..value.len() - 1], 10),
            Some(b'm') => (&value[..value.len() - 1], 20),
            Some(b'g') => (&value[..value.len() - 1], 30),
            Some(b't') => (&value[..value.len() - 1], 40),
            _ => (value, 0),
        };
        digits
            .parse::<u64>()
            .ok()
            .filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|n| n.checked_mul(1 << shift))
            .ok_or_else(|| self.wrong("needs a number of bytes, optionally with k, m, g or t"))
    }
}
