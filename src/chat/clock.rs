//! Local calendar dates of Unix times, for `strftime_now` in templates and for lists. It must not
//! depend on what the dates are for.

use jiff::Timestamp;
use jiff::fmt::strtime::{BrokenDownTime, Config};
use jiff::tz::TimeZone;

/// Seconds since 1970; 0 if the system clock is before that.
pub(super) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}

/// The local time of this machine, in a format with the conversions of C's `strftime`; unknown
/// conversions are left unchanged.
pub(super) fn local(seconds: u64, format: &str) -> String {
    at(seconds, TimeZone::system(), format)
}

/// How long ago that was, for lists: from a week on its date.
pub(super) fn ago(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const TWO_DAYS: u64 = 2 * DAY;
    const WEEK: u64 = 7 * DAY;
    match now().saturating_sub(seconds) {
        ..MINUTE => "just now".to_owned(),
        past @ MINUTE..HOUR => format!("{} min ago", past / MINUTE),
        past @ HOUR..DAY => format!("{} h ago", past / HOUR),
        DAY..TWO_DAYS => "yesterday".to_owned(),
        past @ TWO_DAYS..WEEK => format!("{} days ago", past / DAY),
        _ => local(seconds, "%Y-%m-%d"),
    }
}

fn at(seconds: u64, zone: TimeZone, format: &str) -> String {
    // A time after the year 9999 can only come from a file that was edited by hand.
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let time = BrokenDownTime::from(&time.unwrap_or(Timestamp::MAX).to_zoned_datetime(zone));
    let config = Config::new().lenient(true);
    time.to_string_with_config(&config, format).unwrap_or_else(|_| format.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(seconds: u64, format: &str) -> String {
        at(seconds, TimeZone::UTC, format)
    }

    #[test]
    fn dates_of_known_times() {
        assert_eq!(utc(0, "%A %d %B %Y %T"), "Thursday 01 January 1970 00:00:00");
        assert_eq!(utc(951_782_400, "%F"), "2000-02-29");
        assert_eq!(utc(4_107_542_399, "%F %H:%M:%S"), "2100-02-28 23:59:59");
        assert_eq!(utc(1_721_995_200, "%d %b %Y, %a %I%p"), "26 Jul 2024, Fri 12PM");
        assert_eq!(utc(u64::MAX, "%Y"), "9999");
    }

    #[test]
    fn the_past_is_told_in_the_unit_that_fits() {
        let ago = |past| ago(now() - past);
        let times = [0, 59, 90, 7_300, 90_000, 600_000].map(ago);
        let wanted = ["just now", "just now", "1 min ago", "2 h ago", "yesterday", "6 days ago"];
        assert_eq!(times, wanted);
        assert_eq!(ago(700_000).len(), "2024-02-29".len());
        assert_eq!(super::ago(now() + 100), "just now");
    }

    #[test]
    fn a_place_has_its_own_hours_and_its_summer() {
        let helsinki = TimeZone::posix("EET-2EEST,M3.5.0/3,M10.5.0/4").unwrap();
        assert_eq!(at(1_721_995_200, helsinki.clone(), "%F %H:%M"), "2024-07-26 15:00");
        assert_eq!(at(1_735_689_599, helsinki, "%F %H:%M"), "2025-01-01 01:59");
    }

    #[test]
    fn unknown_conversions_are_kept() {
        assert_eq!(utc(0, "100% %J %%"), "100% %J %");
        assert_eq!(utc(0, "%"), "%");
    }
}
