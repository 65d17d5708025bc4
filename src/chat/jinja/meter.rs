//! What one rendering may create, and checks before the filters and methods that could create much
//! more out of little.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

use super::methods;
use super::text::shown;

/// Passes on a value that is within the limits.
pub(super) const BOUNDED: &str = "dovetail_bounded";
/// Passes on a value that a namespace may store.
pub(super) const STORED: &str = "dovetail_stored";

/// A template may repeat each message this many times, and add this many bytes of its own.
const TIMES: usize = 8;
const OWN: usize = 4 << 20;
/// The limit for all values of one rendering together: some templates build a conversation by
/// appending to a text turn by turn, which copies the earlier text.
const ALL_OWN: usize = 64 << 20;
const ALL_TIMES: usize = 64;
const ALL_TURNS: usize = 16;
const ALL_MOST: usize = 1 << 30;
/// How many bytes a value counts that is not a text.
const EACH: usize = 16;
/// The nesting of lists: the functions that walk them are recursive.
const DEEPEST: usize = 32;
/// Far more than any template takes, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most columns to indent by.
const WIDEST: usize = 1 << 10;

/// Counts what a rendering creates.
pub(super) struct RenderMeter {
    one: usize,
    all: usize,
    made: AtomicUsize,
    until: Instant,
    exceeded: Mutex<Option<String>>,
}

impl RenderMeter {
    /// For `turns` messages of `said` bytes in all.
    pub(super) fn new(said: usize, turns: usize) -> Self {
        let times = ALL_TIMES.saturating_add(turns.saturating_mul(ALL_TURNS));
        let one = said.saturating_mul(TIMES).saturating_add(OWN);
        let all = said.saturating_mul(times).saturating_add(ALL_OWN).min(ALL_MOST.max(one));
        let until = Instant::now() + PATIENCE;
        Self { one, all, made: AtomicUsize::new(0), until, exceeded: Mutex::new(None) }
    }

    /// The limit that was exceeded, if any.
    pub(super) fn exceeded(&self) -> Option<String> {
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a limit that was exceeded; the error ends the rendering.
    pub(super) fn over(&self, what: String) -> Error {
        let mut exceeded = self.exceeded.lock().unwrap_or_else(PoisonError::into_inner);
        Error::new(ErrorKind::InvalidOperation, exceeded.get_or_insert(what).clone())
    }

    fn too_large(&self) -> Error {
        self.over(format!("it builds a text or list of more than {} bytes", self.one))
    }

    pub(super) fn fits(&self, bytes: usize) -> Result<(), Error> {
        if bytes > self.one { Err(self.too_large()) } else { Ok(()) }
    }

    fn spend(&self, bytes: usize) -> Result<(), Error> {
        let made = self.made.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if made > self.all {
            return Err(self.over(format!("it builds more than {} bytes in total", self.all)));
        }
        if Instant::now() > self.until {
            return Err(self.over(format!("it takes longer than {} s", PATIENCE.as_secs())));
        }
        Ok(())
    }

    /// The bytes of a value; each part counts as often as it is contained.
    fn weight(&self, value: &Value) -> Result<usize, Error> {
        let mut left = self.one;
        self.weigh(value, 0, &mut left)?;
        Ok(self.one - left)
    }

    /// Takes the bytes of a value off `left`; returns whether it is or contains a namespace.
    fn weigh(&self, value: &Value, depth: usize, left: &mut usize) -> Result<bool, Error> {
        if depth > DEEPEST {
            return Err(self.over(format!("it nests values more than {DEEPEST} levels deep")));
        }
        let own = value.as_bytes().map_or(0, <[u8]>::len) + EACH;
        *left = left.checked_sub(own).ok_or_else(|| self.too_large())?;
        let object = value.as_object();
        let mut namespace = object.is_some_and(|it| it.type_name().ends_with("::Namespace"));
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()?.checked() {
                    namespace |= self.weigh(&item?, depth + 1, left)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    namespace |= self.weigh(&key, depth + 1, left)?;
                    namespace |= self.weigh(&value.get_item(&key)?, depth + 1, left)?;
                }
            }
            _ => {}
        }
        Ok(namespace)
    }

    /// The value, if it is within the limits, and whether it is or contains a namespace.
    fn bounded(&self, value: &Value) -> Result<(Value, bool), Error> {
        let mut left = self.one;
        // A lazy value would be computed again at each use, and could contain others like it.
        if value.kind() == ValueKind::Iterable {
            let mut items = Vec::new();
            let mut namespace = false;
            for item in value.try_iter()?.checked() {
                let item = item?;
                namespace |= self.weigh(&item, 1, &mut left)?;
                items.push(item);
            }
            self.spend(self.one - left + EACH)?;
            return Ok((Value::from(items), namespace));
        }
        let namespace = self.weigh(value, 0, &mut left)?;
        self.spend(self.one - left)?;
        Ok((value.clone(), namespace))
    }

    /// A namespace inside a value that it stores would form a cycle.
    fn stored(&self, value: &Value) -> Result<Value, Error> {
        match self.bounded(value)? {
            (_, true) => Err(self.over("it puts a namespace inside a namespace".to_owned())),
            (value, false) => Ok(value),
        }
    }

    /// Checks `items` joined by `joiner`, or by the text in its keyword arguments.
    pub(super) fn check_join(&self, items: &Value, joiner: &[Value]) -> Result<(), Error> {
        let count = items.len().or_else(|| items.as_str().map(str::len)).unwrap_or(0);
        let mut between = 0;
        for value in joiner {
            between += self.weight(value)?;
        }
        let size = count.saturating_mul(between).saturating_add(self.weight(items)?);
        self.fits(size)
    }

    pub(super) fn check_replace(&self, args: &[Value]) -> Result<(), Error> {
        let [Some(text), Some(from), Some(to)] = [0, 1, 2].map(|i| args.get(i)?.as_str()) else {
            return Ok(());
        };
        let count = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
        let size = count.saturating_mul(to.len()).saturating_add(text.len());
        self.fits(size)
    }

    /// A width in columns, or how many parts a list gets.
    pub(super) fn width(&self, columns: i64) -> Result<usize, Error> {
        match usize::try_from(columns.max(0)) {
            Ok(columns) if columns <= WIDEST => Ok(columns),
            _ => Err(self.over(format!("it asks for {columns} columns"))),
        }
    }

    /// A width in a format sets a size without any text.
    pub(super) fn check_format(&self, format: &Value) -> Result<(), Error> {
        let text = format.as_str().unwrap_or_default();
        let wide = text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 4);
        if wide {
            return Err(self.over("it formats with a width of more than four digits".to_owned()));
        }
        Ok(())
    }
}

/// Adds the limits to an environment.
pub(super) fn install(environment: &mut Environment<'_>, meter: &Arc<RenderMeter>) {
    let at = || Arc::clone(meter);
    let limit = at();
    environment.set_formatter(move |out, state, value| {
        limit.spend(limit.weight(value)?)?;
        let text = if value.as_str().is_none() { shown(value)?.into() } else { value.clone() };
        minijinja::escape_formatter(out, state, &text)
    });
    let limit = at();
    environment
        .add_filter(BOUNDED, move |value: &Value| limit.bounded(value).map(|(value, _)| value));
    let limit = at();
    environment.add_filter(STORED, move |value: &Value| limit.stored(value));
    let limit = at();
    environment.set_unknown_method_callback(move |_, value, method, args| {
        methods::method(&limit, value, method, args)
    });

    // No chat template uses it, and it creates much out of little.
    environment.remove_filter("pprint");
    environment.remove_global("debug");
}
