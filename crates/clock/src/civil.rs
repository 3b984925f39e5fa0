//! Dates of the calendar, in UTC.

use crate::Timestamp;
use std::fmt;

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is the one before the year 1.
    pub year: i64,
    /// From 1 on.
    pub month: u32,
    /// From 1 on.
    pub day: u32,
    /// From 0 to 23.
    pub hour: u32,
    /// From 0 to 59.
    pub minute: u32,
    /// From 0 to 59.
    pub second: u32,
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAY: i64 = 719_468;
/// Days in 400 years.
const ERA_DAYS: i64 = 146_097;

impl Civil {
    /// Returns the date of a time in seconds since 1970.
    #[must_use]
    pub fn of(secs: i64) -> Self {
        // Days since 0000-03-01 of the proleptic Gregorian calendar, in eras of 400 years; a year
        // that starts in March has its leap day at the end.
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
        Self {
            year,
            month: small(month),
            day: small(day),
            hour: small(rest / 3600),
            minute: small(rest / 60 % 60),
            second: small(rest % 60),
        }
    }

    /// Returns the time in seconds since 1970; none if there is no such date.
    #[must_use]
    pub fn seconds(self) -> Option<i64> {
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
        (Self::of(seconds) == self).then_some(seconds)
    }
}

impl fmt::Display for Civil {
    /// Writes the date and the time of day (RFC 3339) without a time zone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

impl fmt::Display for Timestamp {
    /// Writes the date and the time of day with nanoseconds (RFC 3339), in UTC.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}Z", Civil::of(self.secs), self.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: dates are right on leap days, before 1970, and far away.
    #[test]
    fn dates_are_right() {
        for (secs, nanos, date) in [
            (0, 0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400, 5, "2000-02-29T00:00:00.000000005Z"),
            (-1, 0, "1969-12-31T23:59:59.000000000Z"),
            (4_107_542_400, 0, "2100-03-01T00:00:00.000000000Z"),
            (-62_135_596_800, 0, "0001-01-01T00:00:00.000000000Z"),
        ] {
            assert_eq!(Timestamp::new(secs, nanos).to_string(), date);
            assert_eq!(Civil::of(secs).seconds(), Some(secs), "{date}");
        }
        assert!(!Timestamp::new(i64::MAX / 2, 0).to_string().is_empty());
    }
}
