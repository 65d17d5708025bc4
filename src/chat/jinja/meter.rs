//! What one rendering may make, and the filters and methods that could make much more out of
//! little: those are asked before they run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use minijinja_contrib::pycompat;

/// Passes a value on that is within the limits.
pub(super) const BOUNDED: &str = "dovetail_bounded";
/// Passes a value on that a namespace may keep.
pub(super) const STORED: &str = "dovetail_stored";

/// A template may say each message this many times over, and this much of its own.
const TIMES: usize = 8;
const OWN: usize = 4 << 20;
/// All values of one rendering together: some templates write a conversation down by adding to a
/// text turn by turn, which copies what was there.
const ALL_OWN: usize = 64 << 20;
const ALL_TIMES: usize = 64;
const ALL_TURNS: usize = 16;
const ALL_MOST: usize = 1 << 30;
/// What a value counts that is no text.
const EACH: usize = 16;
/// Lists in lists; what walks them calls itself.
const DEEPEST: usize = 32;
/// Far from what any template takes, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(10);
/// Columns to indent by.
const WIDEST: usize = 1 << 10;

/// Counts what a rendering makes.
pub(super) struct RenderMeter {
    one: usize,
    all: usize,
    made: AtomicUsize,
    until: Instant,
    exceeded: Mutex<Option<String>>,
}

impl RenderMeter {
    /// For messages of `said` bytes in `turns`.
    pub(super) fn new(said: usize, turns: usize) -> Self {
        let times = ALL_TIMES.saturating_add(turns.saturating_mul(ALL_TURNS));
        let one = said.saturating_mul(TIMES).saturating_add(OWN);
        let all = said.saturating_mul(times).saturating_add(ALL_OWN).min(ALL_MOST.max(one));
        let until = Instant::now() + PATIENCE;
        Self { one, all, made: AtomicUsize::new(0), until, exceeded: Mutex::new(None) }
    }

    /// The limit that was exceeded, if one was.
    pub(super) fn exceeded(&self) -> Option<String> {
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes a limit that is exceeded; the error ends the rendering.
    pub(super) fn over(&self, what: String) -> Error {
        let mut exceeded = self.exceeded.lock().unwrap_or_else(PoisonError::into_inner);
        Error::new(ErrorKind::InvalidOperation, exceeded.get_or_insert(what).clone())
    }

    fn too_large(&self) -> Error {
        self.over(format!("it builds a text or list of more than {} bytes", self.one))
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

    /// Bytes of a value, all that it holds counted as often as it is held.
    fn weight(&self, value: &Value) -> Result<usize, Error> {
        let mut left = self.one;
        self.weigh(value, 0, &mut left)?;
        Ok(self.one - left)
    }

    fn weigh(&self, value: &Value, depth: usize, left: &mut usize) -> Result<(), Error> {
        if depth > DEEPEST {
            return Err(self.over(format!("it nests values more than {DEEPEST} levels deep")));
        }
        let own = value.as_bytes().map_or(0, <[u8]>::len) + EACH;
        *left = left.checked_sub(own).ok_or_else(|| self.too_large())?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()?.checked() {
                    self.weigh(&item?, depth + 1, left)?;
                }
            }
            ValueKind::Map => {
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    self.weigh(&key, depth + 1, left)?;
                    self.weigh(&value.get_item(&key)?, depth + 1, left)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn bounded(&self, value: &Value) -> Result<Value, Error> {
        // A lazy one would be worked out again whenever it is used, and hold others like it.
        if value.kind() == ValueKind::Iterable {
            let (mut items, mut left) = (Vec::new(), self.one);
            for item in value.try_iter()?.checked() {
                let item = item?;
                self.weigh(&item, 1, &mut left)?;
                items.push(item);
            }
            self.spend(self.one - left + EACH)?;
            return Ok(Value::from(items));
        }
        self.spend(self.weight(value)?)?;
        Ok(value.clone())
    }

    /// A namespace within what it keeps would be a circle.
    fn stored(&self, value: &Value) -> Result<Value, Error> {
        fn holds_namespace(value: &Value, depth: usize) -> Result<bool, Error> {
            let named = |object: &minijinja::value::DynObject| object.type_name();
            if value.as_object().is_some_and(|object| named(object).ends_with("::Namespace")) {
                return Ok(true);
            }
            match value.kind() {
                ValueKind::Seq | ValueKind::Iterable | ValueKind::Map if depth <= DEEPEST => {
                    for key in value.try_iter()?.checked() {
                        let key = key?;
                        let held = value.kind() == ValueKind::Map
                            && holds_namespace(&value.get_item(&key)?, depth + 1)?;
                        if held || holds_namespace(&key, depth + 1)? {
                            return Ok(true);
                        }
                    }
                    Ok(false)
                }
                _ => Ok(false),
            }
        }
        let value = self.bounded(value)?;
        if holds_namespace(&value, 0)? {
            return Err(self.over("it puts a namespace inside a namespace".to_owned()));
        }
        Ok(value)
    }

    /// `items` joined by `joiner`, or by the text in its keyword arguments.
    fn check_join(&self, items: &Value, joiner: &[Value]) -> Result<(), Error> {
        let count = items.len().or_else(|| items.as_str().map(str::len)).unwrap_or(0);
        let mut between = 0;
        for value in joiner {
            between += self.weight(value)?;
        }
        let size = count.saturating_mul(between).saturating_add(self.weight(items)?);
        if size > self.one { Err(self.too_large()) } else { Ok(()) }
    }

    fn check_replace(&self, args: &[Value]) -> Result<(), Error> {
        let [Some(text), Some(from), Some(to)] = [0, 1, 2].map(|i| args.get(i)?.as_str()) else {
            return Ok(());
        };
        let count = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() };
        let size = count.saturating_mul(to.len()).saturating_add(text.len());
        if size > self.one { Err(self.too_large()) } else { Ok(()) }
    }

    fn check_indent(&self, args: &[Value]) -> Result<(), Error> {
        let width = |value: &Value| match value.kind() {
            ValueKind::Map => value.get_attr("width").ok().and_then(|width| width.as_usize()),
            _ => value.as_usize(),
        };
        let text = args.first().and_then(Value::as_str).unwrap_or_default();
        let width = args.iter().skip(1).filter_map(width).max().unwrap_or(4);
        let lines = text.matches('\n').count() + 1;
        if width > WIDEST {
            return Err(self.over(format!("it indents by {width} columns")));
        }
        let size = lines.saturating_mul(width).saturating_add(text.len());
        if size > self.one { Err(self.too_large()) } else { Ok(()) }
    }

    /// A width in a format is a size without a text.
    fn check_format(&self, format: &Value) -> Result<(), Error> {
        let text = format.as_str().unwrap_or_default();
        let wide = text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 4);
        if wide || text.contains('*') {
            return Err(self.over("it formats with a width of more than four digits".to_owned()));
        }
        Ok(())
    }

    fn check_method(&self, value: &Value, method: &str, args: &[Value]) -> Result<(), Error> {
        match (method, args) {
            ("join", [items, ..]) => self.check_join(items, std::slice::from_ref(value)),
            ("replace", args) => {
                let all: Vec<Value> = std::iter::once(value).chain(args).cloned().collect();
                self.check_replace(&all)
            }
            ("format", _) => self.check_format(value),
            _ => Ok(()),
        }
    }
}

/// Asked before a filter runs with these arguments.
type Check = fn(&RenderMeter, &[Value]) -> Result<(), Error>;

/// Gives an environment its limits.
pub(super) fn install(environment: &mut Environment<'_>, meter: &Arc<RenderMeter>) {
    let at = || Arc::clone(meter);
    let limit = at();
    environment.set_formatter(move |out, state, value| {
        limit.spend(limit.weight(value)?)?;
        minijinja::escape_formatter(out, state, value)
    });
    let limit = at();
    environment.add_filter(BOUNDED, move |value: &Value| limit.bounded(value));
    let limit = at();
    environment.add_filter(STORED, move |value: &Value| limit.stored(value));
    let limit = at();
    environment.set_unknown_method_callback(move |state, value, method, args| {
        limit.check_method(value, method, args)?;
        pycompat::unknown_method_callback(state, value, method, args)
    });

    let filter = |name, inner: Value, check: Check| {
        let limit = at();
        (name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.iter().map(|arg| (**arg).clone()).collect();
            check(&limit, &args)?;
            inner.call(state, &args)
        })
    };
    for (name, filter) in [
        filter("join", Value::from_function(filters::join), |limit, args| match args {
            [items, joiner @ ..] => limit.check_join(items, joiner),
            [] => Ok(()),
        }),
        filter("replace", Value::from_function(filters::replace), RenderMeter::check_replace),
        filter("indent", Value::from_function(filters::indent), RenderMeter::check_indent),
        filter("format", Value::from_function(filters::format), |limit, args| {
            args.first().map_or(Ok(()), |format| limit.check_format(format))
        }),
    ] {
        environment.add_filter(name, filter);
    }
    // No chat template uses these, and each can make much out of little.
    for filter in ["batch", "pprint", "slice", "sum"] {
        environment.remove_filter(filter);
    }
    environment.remove_global("debug");
}
