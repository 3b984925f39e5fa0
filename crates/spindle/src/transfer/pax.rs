//! The extended headers of POSIX `pax`: records `LENGTH KEY=VALUE\n`, and the numbers in them.

use crate::error::{Error, Result};
use spindle_clock::Timestamp;
use std::collections::BTreeMap;

/// Key of the record of BSD's file flags: their names with commas between them (star(5), tar(5) of
/// libarchive).
pub const FFLAGS: &[u8] = b"SCHILY.fflags";

/// Records by key; a later record replaces an earlier one. Their number and size are limited, so a
/// hostile stream cannot use up the memory.
#[derive(Clone, Debug, Default)]
pub struct Records {
    by_key: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Bytes of all keys and values.
    bytes: usize,
}

/// Maximum number of records of an entry.
const MAX_RECORDS: usize = 10_000;
/// Maximum number of bytes in the keys and values of an entry: enough for many attributes of 64
/// KiB.
const MAX_RECORD_BYTES: usize = 16 << 20;

impl Records {
    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.by_key.get(key).map(Vec::as_slice)
    }

    /// Returns all records, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.by_key.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        // GNU's first sparse format repeats its keys; the values become one list here.
        let is_list = matches!(key, b"GNU.sparse.offset" | b"GNU.sparse.numbytes");
        match self.by_key.get_mut(key) {
            Some(list) if is_list => {
                list.push(b',');
                list.extend_from_slice(value);
                self.bytes += 1 + value.len();
            }
            Some(old) => {
                self.bytes = self.bytes - old.len() + value.len();
                *old = value.to_vec();
            }
            None => {
                self.bytes += key.len() + value.len();
                self.by_key.insert(key.to_vec(), value.to_vec());
            }
        }
        if self.by_key.len() > MAX_RECORDS || self.bytes > MAX_RECORD_BYTES {
            return Err(Error::new(format!(
                "the extended headers have more than {MAX_RECORDS} records or {MAX_RECORD_BYTES} bytes; \
                 no file needs that many: the stream is damaged or malicious"
            )));
        }
        Ok(())
    }
}

/// Adds the records in `bytes` to `records`.
pub fn parse(mut bytes: &[u8], records: &mut Records) -> Result<()> {
    let wrong = || Error::new("an invalid extended header");
    while !bytes.is_empty() && bytes[0] != 0 {
        let blank = bytes.iter().position(|&b| b == b' ').ok_or_else(wrong)?;
        let len = number(&bytes[..blank]).and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong)?;
        let record = bytes.get(blank + 1..len).and_then(|r| r.strip_suffix(b"\n")).ok_or_else(wrong)?;
        let equals = record.iter().position(|&b| b == b'=').ok_or_else(wrong)?;
        records.add(&record[..equals], &record[equals + 1..])?;
        bytes = &bytes[len..];
    }
    Ok(())
}

/// Appends a record.
pub fn append(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    // The length counts its own digits.
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    out.extend_from_slice(len.to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Parses a decimal number.
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Parses a list of at most `most` numbers, separated by commas.
pub fn numbers(list: &[u8], most: usize) -> Option<Vec<u64>> {
    if list.is_empty() {
        return Some(Vec::new());
    }
    let parts = || list.split(|&b| b == b',');
    if parts().nth(most).is_some() { None } else { parts().map(number).collect() }
}

/// Parses a time in seconds, with a fraction.
pub fn time(text: &[u8]) -> Option<Timestamp> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match text.iter().position(|&b| b == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let secs = i64::try_from(number(whole)?).ok()?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
    Some(match (negative, nanos) {
        (false, _) => Timestamp::new(secs, nanos),
        (true, 0) => Timestamp::new(-secs, 0),
        (true, _) => Timestamp::new(-secs - 1, 1_000_000_000 - nanos),
    })
}

/// Returns a time in the form of a record.
pub fn time_text(time: Timestamp) -> String {
    let (sign, secs, nanos) = match (time.secs < 0, time.nanos) {
        (false, nanos) => ("", time.secs.unsigned_abs(), nanos),
        (true, 0) => ("-", time.secs.unsigned_abs(), 0),
        (true, nanos) => ("-", (time.secs + 1).unsigned_abs(), 1_000_000_000 - nanos),
    };
    if nanos == 0 {
        return format!("{sign}{secs}");
    }
    format!("{sign}{secs}.{nanos:09}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every record that is written is read back, also at lengths where the number of
    /// digits changes.
    #[test]
    fn records_round_trip() {
        for len in (0..120).chain(980..1010).chain(9985..10005) {
            let mut bytes = Vec::new();
            append(&mut bytes, b"SCHILY.xattr.user.k", &vec![b'\n'; len]);
            append(&mut bytes, b"path", b"b=c");
            let mut records = Records::default();
            parse(&bytes, &mut records).unwrap();
            assert_eq!(records.get(b"SCHILY.xattr.user.k").unwrap().len(), len);
            assert_eq!(records.get(b"path"), Some(&b"b=c"[..]));
        }
    }

    /// Promise: invalid headers are refused without a panic.
    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            "x",
            "5 a=b",
            "99 a=b\n",
            "6 a=bb\n",
            "5 ab\n",
            "3 \n",
            "99999999999999999999999 a=b\n",
            "0 a=b\n",
        ] {
            assert!(parse(wrong.as_bytes(), &mut Records::default()).is_err(), "{wrong}");
        }
    }

    /// Promise: the memory for records is limited for any number of headers, and the later
    /// value of a key replaces the earlier one.
    #[test]
    fn records_are_bounded() {
        let mut records = Records::default();
        for n in 0..MAX_RECORDS {
            let mut bytes = Vec::new();
            append(&mut bytes, n.to_string().as_bytes(), b"");
            parse(&bytes, &mut records).unwrap();
        }
        let refused = parse(b"7 key=\n", &mut records).unwrap_err().to_string();
        assert!(refused.contains("more than 10000 records"), "{refused}");

        for (key, fits) in [("path", true), ("GNU.sparse.offset", false)] {
            let mut bytes = Vec::new();
            append(&mut bytes, key.as_bytes(), &vec![b'1'; 1 << 20]);
            let mut records = Records::default();
            let all = (0..100).try_for_each(|_| parse(&bytes, &mut records));
            assert_eq!(all.is_ok(), fits, "{key}");
        }
        assert_eq!((numbers(b"1,2", 2), numbers(b"1,2,3", 2)), (Some(vec![1, 2]), None));
    }

    /// Promise: times keep their nanoseconds, also before 1970.
    #[test]
    fn times_round_trip() {
        for (secs, nanos, text) in [
            (0, 0, "0"),
            (1, 500_000_000, "1.5"),
            (1_700_000_000, 1, "1700000000.000000001"),
            (-1, 0, "-1"),
            (-2, 500_000_000, "-1.5"),
            (-1, 999_999_999, "-0.000000001"),
        ] {
            let time_value = Timestamp::new(secs, nanos);
            assert_eq!(time_text(time_value), text);
            assert_eq!(time(text.as_bytes()), Some(time_value));
        }
        assert_eq!(time(b"1.23456789012"), Some(Timestamp::new(1, 234_567_890)));
        assert_eq!((time(b""), time(b"1.x"), time(b"99999999999999999999")), (None, None, None));
    }
}
