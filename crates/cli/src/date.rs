//! Dates as commands print and read them. All are in UTC: an image has no time zone.

use spindle_clock::{Civil, Timestamp};

/// Returns a time to the minute, as in listings.
pub fn minute(time: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, .. } = Civil::of(time.secs);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Returns the day of a time, in UTC.
pub fn day(time: Timestamp) -> String {
    let Civil { year, month, day, .. } = Civil::of(time.secs);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns a time in seconds since 1970 to the second, in UTC.
pub fn second(secs: i64) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of(secs);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Names of the months in the dates of ctime(3).
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Names of the days of the week, from the first day of 1970.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Returns a time in seconds since 1970 as ctime(3) prints it, in UTC and without the line end.
pub fn ctime(secs: i64) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::of(secs);
    let weekday = usize::try_from(secs.div_euclid(86_400).rem_euclid(7)).unwrap_or(0);
    let (weekday, month) = (DAYS[weekday], MONTHS[month as usize - 1]);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Parses a date as ctime(3) prints it. A zone may follow, as +0100; without one it is in UTC.
pub fn parse_ctime(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (&[_, month, day, time, year], zone) = words.split_first_chunk()?;
    let [hour, minute, second] = time.split(':').collect::<Vec<_>>()[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)?;
    let civil = Civil {
        year: number(year)?.into(),
        month: u32::try_from(month).ok()? + 1,
        day: number(day)?,
        hour: number(hour)?,
        minute: number(minute)?,
        second: number(second)?,
    };
    let east = match zone {
        [] => 0,
        [zone] => {
            let (sign, digits) = zone.split_at_checked(1)?;
            let digits = i64::from(number(digits).filter(|_| digits.len() == 4)?);
            let secs = (digits / 100 * 60 + digits % 100) * 60;
            match sign {
                "+" => secs,
                "-" => -secs,
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(civil.seconds()? - east)
}

/// Parses a date as commands print it, `2026-05-20T16:49:03.25Z`: the time of day, its seconds and
/// their fraction may be missing, a blank may stand for the `T`, and the `Z` is not needed. `@` and
/// a number are seconds since 1970.
///
/// # Errors
/// A message that says what to give.
pub fn parse(text: &str) -> Result<Timestamp, String> {
    parse_date(text).ok_or_else(|| {
        format!("'{text}' is no date; give one like 2026-05-20T16:49:03, in UTC, or @SECONDS since 1970")
    })
}

fn parse_date(text: &str) -> Option<Timestamp> {
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        return Some(Timestamp::new(whole.parse().ok()?, nanos(fraction)?));
    }
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let (time, fraction) = time.split_once(['.', ',']).unwrap_or((time, ""));
    let [year, month, day] = date.split('-').collect::<Vec<_>>()[..] else { return None };
    let (hour, minute, second) = match time.split(':').collect::<Vec<_>>()[..] {
        [hour, minute] if fraction.is_empty() => (hour, minute, "00"),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let year = if year.len() == 4 { number(year)?.into() } else { return None };
    let two = |text: &str| if text.len() == 2 { number(text) } else { None };
    let civil = Civil {
        year,
        month: two(month)?,
        day: two(day)?,
        hour: two(hour)?,
        minute: two(minute)?,
        second: two(second)?,
    };
    Some(Timestamp::new(civil.seconds()?, nanos(fraction)?))
}

/// Parses a date as `touch -t` has it, `[[CC]YY]MMDDhhmm[.SS]`; `now` has the year that may be
/// missing.
///
/// # Errors
/// A message that says what to give.
pub fn parse_stamp(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let stamp = || {
        let (digits, second) = text.split_once('.').unwrap_or((text, "00"));
        if second.len() != 2 || !digits.is_ascii() {
            return None;
        }
        let (year, rest) = digits.split_at_checked(digits.len().checked_sub(8)?)?;
        let year = match (year.len(), i64::from(number(if year.is_empty() { "0" } else { year })?)) {
            (0, _) => Civil::of(now.secs).year,
            // As POSIX has it.
            (2, year) => year + if year < 69 { 2000 } else { 1900 },
            (4, year) => year,
            _ => return None,
        };
        let two = |at: usize| number(&rest[at..at + 2]);
        let civil = Civil {
            year,
            month: two(0)?,
            day: two(2)?,
            hour: two(4)?,
            minute: two(6)?,
            second: number(second)?,
        };
        Some(Timestamp::new(civil.seconds()?, 0))
    };
    stamp().ok_or_else(|| format!("'{text}' is no date; give it as [[CC]YY]MMDDhhmm[.SS], in UTC"))
}

fn number(digits: &str) -> Option<u32> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Returns the nanoseconds of the digits behind a point.
fn nanos(digits: &str) -> Option<u32> {
    if digits.len() > 9 { None } else { number(&format!("{digits:0<9}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: times of listings are dates to the minute, and days.
    #[test]
    fn dates() {
        assert_eq!(minute(Timestamp::new(4_107_542_400, 0)), "2100-03-01 00:00");
        assert_eq!(day(Timestamp::new(4_107_542_399, 0)), "2100-02-28");
        assert_eq!(minute(Timestamp::new(-62_135_596_800, 0)), "0001-01-01 00:00");
    }

    /// Promise: a printed date is read as the time that it was, and shorter forms as their start.
    #[test]
    fn dates_are_read() {
        for secs in (-60_000_000_000_i64..250_000_000_000).step_by(77_777_777) {
            let time = Timestamp::new(secs, 987_654_321);
            assert_eq!(parse(&time.to_string()), Ok(time));
            assert_eq!(parse(&minute(time)), Ok(Timestamp::new(secs - secs.rem_euclid(60), 0)));
        }
        let at = |secs, nanos| Ok(Timestamp::new(secs, nanos));
        assert_eq!(parse("2000-02-29"), at(951_782_400, 0));
        assert_eq!(parse("2000-02-29 00:00:01.5"), at(951_782_401, 500_000_000));
        assert_eq!(parse("@1000.25"), at(1000, 250_000_000));
        for secs in (-60_000_000_000_i64..250_000_000_000).step_by(77_777_777) {
            assert_eq!(parse_ctime(&ctime(secs)), Some(secs));
        }
        assert_eq!(ctime(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(parse_ctime("Tue Feb 29 01:30:00 2000 +0130"), Some(951_782_400));
        assert_eq!(parse_ctime("Tue Feb 29 01:30:00 2000 CET"), None);
        let now = Timestamp::new(951_782_400, 0);
        assert_eq!(parse_stamp("200002290000.07", now), at(951_782_407, 0));
        assert_eq!(parse_stamp("0002290000", now), at(951_782_400, 0));
        assert_eq!(parse_stamp("02290001", now), at(951_782_460, 0));
        assert_eq!(parse_stamp("6901010000", now), at(-31_536_000, 0));
        for wrong in [
            "",
            "2001-02-29",
            "2000-13-01",
            "2000-1-1",
            "2000-01-01T24:00",
            "now",
            "@",
            "@x",
            "2000-01-01T1:2",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "0230000", "02300000", "200002290000.7", "x2290000", "+102290000", "ä2290000"]
        {
            assert!(parse_stamp(wrong, now).is_err(), "{wrong}");
        }
    }
}
