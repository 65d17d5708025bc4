//! Time limits of requests: retries while the hub is busy, and the minimum rate of a transfer. It
//! must not depend on what is downloaded.

use std::io::{self, Read};
use std::time::{Duration, Instant, SystemTime};

/// Answers that ask the client to try again: too many requests, bad gateway, unavailable, gateway
/// timeout.
pub(super) const BUSY: [u16; 4] = [429, 502, 503, 504];

/// How many requests a busy hub gets before we give up, no matter how long they took.
const TRIES: u32 = 6;

/// The bytes per second below which a connection counts as broken: otherwise a server that sends
/// one byte now and then would hold us for ever.
const SLOWEST: f64 = 1024.0;

/// How long a server may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long it may be silent before the connection counts as broken.
    pub silence: Duration,
    /// How long to wait before the first retry; each further one waits twice as long.
    pub pause: Duration,
    /// How long one request waits in all for a server that says that it is busy (429, 502, 503,
    /// 504), by its `Retry-After` or by `pause`.
    pub busy: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(30),
            pause: Duration::from_millis(500),
            busy: Duration::from_secs(60),
        }
    }
}

/// The fewest bytes that a connection must deliver within `patience`.
pub(super) fn least_bytes(patience: Duration) -> u64 {
    (SLOWEST * patience.as_secs_f64()) as u64
}

/// The waiting times of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pause: Duration,
    limit: Duration,
    waited: Duration,
    tries: u32,
}

impl Waits {
    /// `pause` before the second attempt, twice as long before each further one, `limit` in all.
    pub(super) fn new(pause: Duration, limit: Duration) -> Self {
        Self { pause, limit, waited: Duration::ZERO, tries: 0 }
    }

    /// How long to wait before the next attempt, never less than the hub asks for.
    ///
    /// # Errors
    /// Why there is no next attempt.
    pub(super) fn next(&mut self, asked: Option<Duration>) -> Result<Duration, String> {
        self.tries += 1;
        let wait = (self.pause * 2u32.pow(self.tries - 1)).max(asked.unwrap_or_default());
        if self.waited.saturating_add(wait) > self.limit {
            let wait = wait.as_secs();
            let limit = self.limit.as_secs();
            return Err(match asked {
                Some(_) => format!("the hub asks to wait {wait} s, and the limit is {limit} s"),
                None => format!("tried {} times within {limit} s", self.tries),
            });
        }
        if self.tries >= TRIES {
            return Err(format!("tried {TRIES} times"));
        }
        self.waited += wait;
        Ok(wait)
    }
}

/// Reads `Retry-After`: seconds, or the date until which to wait.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(value).ok()?;
    Some(until.duration_since(now).unwrap_or_default())
}

/// A body that must keep coming: reading fails if less than [`least_bytes`] came within `patience`.
pub(super) struct Steady<R> {
    body: R,
    patience: Duration,
    since: Instant,
    bytes: u64,
}

impl<R: Read> Steady<R> {
    pub(super) fn new(body: R, patience: Duration) -> Self {
        Self { body, patience, since: Instant::now(), bytes: 0 }
    }
}

impl<R: Read> Read for Steady<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.body.read(buffer)?;
        self.bytes += read as u64;
        let took = self.since.elapsed();
        if read > 0 && took >= self.patience {
            if self.bytes < least_bytes(took) {
                let problem = format!("received only {} bytes in {:.1?}", self.bytes, took);
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            (self.since, self.bytes) = (Instant::now(), 0);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(retry_after(" 120 ", now), Some(120 * SECOND));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:50:07 GMT", now), Some(30 * SECOND));
        // The date has passed, so retry at once.
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(Duration::ZERO));
        for none in ["", "soon", "-3", "1.5"] {
            assert_eq!(retry_after(none, now), None, "{none}");
        }
        assert_eq!(retry_after(&u64::MAX.to_string(), now), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn waits_double_follow_the_hub_and_end_at_the_limit() {
        let mut waits = Waits::new(SECOND, 60 * SECOND);
        assert_eq!(waits.next(None), Ok(SECOND));
        assert_eq!(waits.next(None), Ok(2 * SECOND));
        assert_eq!(waits.next(Some(30 * SECOND)), Ok(30 * SECOND));
        assert_eq!(waits.next(Some(Duration::ZERO)), Ok(8 * SECOND), "never faster than our own");
        let why = waits.next(Some(20 * SECOND)).unwrap_err();
        assert_eq!(why, "the hub asks to wait 20 s, and the limit is 60 s");
        assert!(waits.next(Some(Duration::MAX)).is_err());
        let mut waits = Waits::new(Duration::ZERO, SECOND);
        for _ in 1..TRIES {
            assert_eq!(waits.next(Some(Duration::ZERO)), Ok(Duration::ZERO));
        }
        assert!(waits.next(Some(Duration::ZERO)).is_err(), "the number of tries is limited too");
    }
}
