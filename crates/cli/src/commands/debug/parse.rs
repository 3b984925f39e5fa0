//! The words of a line, and the numbers in them.

use crate::error::{Failure, Result};

/// Returns the commands of a line, each as its words.
///
/// # Errors
/// If a quotation does not end.
pub fn commands(line: &str) -> Result<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            _ if quoted => word.get_or_insert_default().push(letter),
            '#' if word.is_none() => break,
            ';' => {
                finish(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            _ if letter.is_whitespace() => finish(&mut commands, &mut word),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quoted {
        return Err(Failure::new("a quotation has no end; close it with \""));
    }
    finish(&mut commands, &mut word);
    commands.retain(|words| !words.is_empty());
    Ok(commands)
}

fn finish(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let Some(command) = commands.last_mut() {
        command.extend(word.take());
    }
}

/// Parses a number: decimal, octal with 0 in front, hexadecimal with 0x.
///
/// # Errors
/// If it is none, or too large.
pub fn number<T: TryFrom<i128>>(word: &str) -> Result<T> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |rest| (-1, rest));
    let plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if plain(hex) => i128::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') && plain(digits) => {
            i128::from_str_radix(&digits[1..], 8).ok()
        }
        None if plain(digits) => digits.parse().ok(),
        _ => None,
    };
    let parsed = parsed.ok_or_else(|| {
        Failure::new(format!("{word}: give a number: decimal, octal with 0 or hexadecimal with 0x in front"))
    })?;
    T::try_from(sign * parsed).map_err(|_| Failure::new(format!("{word}: is out of range")))
}

/// Returns the number of an inode that is named by it; none if the word is a path.
///
/// # Errors
/// As [`number`].
pub fn inode_number(word: &str) -> Result<Option<u32>> {
    if let Some(inner) = word.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return number(inner).map(Some);
    }
    if word.starts_with(|letter: char| letter.is_ascii_digit()) && !word.contains('/') {
        return number(word).map(Some);
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: quotations hold words together, semicolons part commands, # begins a comment.
    #[test]
    fn words_of_lines() {
        let words = |line| commands(line).unwrap().iter().map(|c| c.join("|")).collect::<Vec<_>>();
        assert_eq!(words("ls \"a b\"c ; inode \\#2 # all"), ["ls|a bc", "inode|#2"]);
        assert_eq!(words(" ;; \t"), Vec::<String>::new());
        assert_eq!(words("cat \"\""), ["cat|"]);
        assert!(commands("ls \"a").is_err());
    }

    /// Promise: numbers are read in three bases, and what is none or does not fit is refused.
    #[test]
    fn numbers_of_words() {
        assert_eq!((number::<u32>("0644").unwrap(), number::<u32>("0xff").unwrap()), (0o644, 255));
        assert_eq!((number::<i64>("-1").unwrap(), number::<u8>("0").unwrap()), (-1, 0));
        for wrong in ["", "-", "0x", "9a", "08", "1.5", "--1", "99999999999999999999999999999999999999999"] {
            assert!(number::<i128>(wrong).is_err(), "{wrong}");
        }
        assert!(number::<u32>("-1").is_err() && number::<u8>("256").is_err());
        assert_eq!(inode_number("<7>").unwrap(), Some(7));
        assert_eq!((inode_number("12").unwrap(), inode_number("12/a").unwrap()), (Some(12), None));
    }
}
