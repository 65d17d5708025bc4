//! Calendar dates of Unix times, in UTC: for `strftime_now` of templates and for session names.
//! Must never know time zones.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Seconds since 1970; 0 if the system clock is before that.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// Year, month (1-12) and day (1-31) of a day counted from 1970-01-01.
///
/// Works on 400-year eras whose years begin in March, so that the leap day comes last.
fn civil(day: u64) -> (u64, u64, u64) {
    let shifted = day + 719_468; // days from 0000-03-01 to 1970-01-01
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// `format` with the common conversions of C's `strftime`; unknown ones are left as they are.
pub(super) fn format(seconds: u64, format: &str) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let month_name = MONTHS[(month as usize - 1) % 12];
    let weekday = WEEKDAYS[(days % 7) as usize];
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('Y') => out += &year.to_string(),
            Some('y') => out += &format!("{:02}", year % 100),
            Some('m') => out += &format!("{month:02}"),
            Some('d') => out += &format!("{day:02}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('A') => out += weekday,
            Some('a') => out += &weekday[..3],
            Some('H') => out += &format!("{hour:02}"),
            Some('I') => out += &format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => out += if hour < 12 { "AM" } else { "PM" },
            Some('M') => out += &format!("{minute:02}"),
            Some('S') => out += &format!("{:02}", second % 60),
            Some('F') => out += &format!("{year}-{month:02}-{day:02}"),
            Some('T') => out += &format!("{hour:02}:{minute:02}:{:02}", second % 60),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_times() {
        assert_eq!(format(0, "%A %d %B %Y %T"), "Thursday 01 January 1970 00:00:00");
        assert_eq!(format(951_782_400, "%F"), "2000-02-29");
        assert_eq!(format(4_107_542_399, "%F %H:%M:%S"), "2100-02-28 23:59:59");
        assert_eq!(format(4_107_542_400, "%d %b %Y"), "01 Mar 2100");
        assert_eq!(format(1_721_995_200, "%d %b %Y, %a %I%p"), "26 Jul 2024, Fri 12PM");
    }

    #[test]
    fn unknown_conversions_are_kept() {
        assert_eq!(format(0, "100% %Q %%"), "100% %Q %");
        assert_eq!(format(0, "%"), "%");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = civil(0);
        for day in 1..150_000 {
            let today = civil(day);
            let next = today.2 == before.2 + 1 && today.1 == before.1 && today.0 == before.0;
            let first = today.2 == 1 && before.2 >= 28 && (today.1 == before.1 % 12 + 1);
            assert!(next || first, "{before:?} then {today:?}");
            before = today;
        }
    }
}
