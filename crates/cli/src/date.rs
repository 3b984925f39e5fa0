//! Dates as commands print and read them. All are in UTC: an image has no time zone.

use spindle_clock::Timestamp;

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Civil {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAY: i64 = 719_468;
/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;

/// Returns the date of a time.
fn civil(secs: i64) -> Civil {
    // Days since 0000-03-01 of the proleptic Gregorian calendar, in eras of 400 years; a year that
    // starts in March has its leap day at the end.
    let (days, rest) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let days = days + EPOCH_DAY;
    let (era, doe) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let march_month = (5 * doy + 2) / 153;
    let day = doy - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    let small = |n: i64| u32::try_from(n).unwrap_or(0);
    Civil {
        year,
        month: small(month),
        day: small(day),
        hour: small(rest / 3600),
        minute: small(rest / 60 % 60),
        second: small(rest % 60),
    }
}

impl Civil {
    /// Returns the time in seconds; none if there is no such date.
    fn seconds(self) -> Option<i64> {
        let Self { year, month, day, hour, minute, second } = self;
        let in_range = (1..=12).contains(&month) && day >= 1 && hour < 24 && minute < 60 && second < 60;
        if !in_range || !(0..=9999).contains(&year) {
            return None;
        }
        let march_year = year - i64::from(month <= 2);
        let march_month = i64::from((month + 9) % 12);
        let (era, yoe) = (march_year.div_euclid(400), march_year.rem_euclid(400));
        let doy = (153 * march_month + 2) / 5 + i64::from(day) - 1;
        let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
        let days = era * ERA_DAYS + doe - EPOCH_DAY;
        let seconds = days * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
        // February 30 would be in March.
        (civil(seconds) == self).then_some(seconds)
    }
}

/// Returns a time to the minute, as in listings.
pub fn minute(time: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, .. } = civil(time.secs);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// Returns the day of a time, in UTC.
pub fn day(time: Timestamp) -> String {
    let Civil { year, month, day, .. } = civil(time.secs);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns a time in seconds since 1970 to the second, in UTC.
pub fn second(secs: i64) -> String {
    let Civil { year, month, day, hour, minute, second } = civil(secs);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Names of the months in the dates of ctime(3).
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Names of the days of the week, from the first day of 1970.
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Returns a time in seconds since 1970 as ctime(3) prints it, in UTC and without the line end.
pub fn ctime(secs: i64) -> String {
    let Civil { year, month, day, hour, minute, second } = civil(secs);
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

/// Returns a time with nanoseconds (RFC 3339).
pub fn exact(time: Timestamp) -> String {
    let Civil { year, month, day, hour, minute, second } = civil(time.secs);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", time.nanos)
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
            (0, _) => civil(now.secs).year,
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

    /// Promise: dates are right on leap days, before 1970, and far away.
    #[test]
    fn dates() {
        assert_eq!(exact(Timestamp::new(0, 0)), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(exact(Timestamp::new(951_782_400, 5)), "2000-02-29T00:00:00.000000005Z");
        assert_eq!(exact(Timestamp::new(-1, 0)), "1969-12-31T23:59:59.000000000Z");
        assert_eq!(minute(Timestamp::new(4_107_542_400, 0)), "2100-03-01 00:00");
        assert_eq!(day(Timestamp::new(4_107_542_399, 0)), "2100-02-28");
        assert_eq!(minute(Timestamp::new(-62_135_596_800, 0)), "0001-01-01 00:00");
        exact(Timestamp::new(i64::MAX / 2, 0));
    }

    /// Promise: a printed date is read as the time that it was, and shorter forms as their start.
    #[test]
    fn dates_are_read() {
        for secs in (-60_000_000_000_i64..250_000_000_000).step_by(77_777_777) {
            let time = Timestamp::new(secs, 987_654_321);
            assert_eq!(parse(&exact(time)), Ok(time));
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
