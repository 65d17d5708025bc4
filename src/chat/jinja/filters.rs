//! Jinja2's filters, tests and operators where MiniJinja's differ or are missing. It must not
//! depend on templates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Object, Rest, Tuple, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};

use super::guard::{CONCAT, EACH, REM, SLICE};
use super::meter::RenderMeter;
use super::methods::{Made, bind, given, padded, stripped, text, whole, wrong};
use super::text::{is_space, repr, shown};

/// The filters of [`filter`].
const FILTERS: &[&str] = &[
    "sum",
    "batch",
    "slice",
    "truncate",
    "wordcount",
    "center",
    "urlencode",
    "int",
    "float",
    "indent",
    "replace",
    "default",
    "d",
    "length",
    "count",
    "string",
    "trim",
    "first",
    "last",
    "format",
    "join",
    CONCAT,
    REM,
    SLICE,
    EACH,
];

fn items(value: &Value) -> Result<Vec<Value>, Error> {
    if value.is_none() {
        return Err(wrong("None is not iterable"));
    }
    value.try_iter()?.checked().collect()
}

fn filter(limit: &RenderMeter, name: &str, state: &mut State, args: &[Value]) -> Made {
    let on = args.first().ok_or_else(|| wrong("it takes a value"))?;
    Ok(match name {
        CONCAT => match args {
            [a, b] => (shown(a)? + &shown(b)?).into(),
            _ => return Err(wrong("it takes two values")),
        },
        REM => return remainder(limit, args),
        SLICE => return sliced(args),
        EACH if on.is_none() => return Err(wrong("None is not iterable")),
        EACH => on.clone(),
        "string" if on.is_safe() => on.clone(),
        "string" => shown(on)?.into(),
        "trim" => {
            let [on, chars] = bind(["value", "chars"], args)?;
            stripped(&shown(&on)?, name, &chars)?.into()
        }
        "first" | "last" => {
            let mut all = items(on)?.into_iter();
            (if name == "first" { all.next() } else { all.next_back() }).unwrap_or_default()
        }
        "length" | "count" if on.is_undefined() => 0.into(),
        "length" | "count" => {
            on.len().ok_or_else(|| wrong(format!("{} has no length", on.kind())))?.into()
        }
        "join" => {
            let [on, between, attribute] = bind(["value", "d", "attribute"], args)?;
            limit.check_join(&on, std::slice::from_ref(&between))?;
            let mut all = items(&on)?;
            if let Some(attribute) = given(&attribute) {
                let map = Kwargs::from_iter([("attribute", attribute.clone())]);
                all = items(&state.apply_filter("map", &[on.clone(), map.into()])?)?;
            }
            let all: Result<Vec<String>, Error> = all.iter().map(shown).collect();
            all?.join(&shown(&between)?).into()
        }
        "sum" => {
            let [on, attribute, start] = bind(["iterable", "attribute", "start"], args)?;
            let mut sum = if start.is_undefined() { Value::from(0) } else { start };
            for item in items(&on)? {
                let item = match given(&attribute).and_then(Value::as_str) {
                    Some(name) => {
                        name.split('.').try_fold(item, |item, part| item.get_attr(part))?
                    }
                    None => item,
                };
                sum = plus(&sum, &item)?;
            }
            sum
        }
        "batch" => {
            let [on, count, fill] = bind(["value", "linecount", "fill_with"], args)?;
            let count = limit.width(whole(&count, 0)?)?.max(1);
            let mut rows: Vec<Vec<Value>> = items(&on)?.chunks(count).map(<[_]>::to_vec).collect();
            if let (Some(fill), Some(row)) = (given(&fill), rows.last_mut()) {
                row.resize(count, fill.clone());
            }
            rows.into()
        }
        "slice" => {
            let [on, count, fill] = bind(["value", "slices", "fill_with"], args)?;
            let all = items(&on)?;
            let count = limit.width(whole(&count, 0)?)?;
            let (each, more) = (all.len() / count.max(1), all.len() % count.max(1));
            let mut rest = all.as_slice();
            let row = |at| {
                let (row, after) = rest.split_at(each + usize::from(at < more));
                rest = after;
                let fill = given(&fill).filter(|_| at >= more).cloned();
                row.iter().cloned().chain(fill).collect::<Vec<Value>>()
            };
            (0..count).map(row).collect::<Vec<_>>().into()
        }
        "truncate" => {
            let names = ["s", "length", "killwords", "end", "leeway"];
            let [on, length, kill, end, leeway] = bind(names, args)?;
            let end = if end.is_undefined() { "..." } else { text(&end)? };
            let at_least = |n: i64| usize::try_from(n).unwrap_or(0);
            let (length, leeway) = (at_least(whole(&length, 255)?), at_least(whole(&leeway, 5)?));
            let s = shown(&on)?;
            if s.chars().count() <= length.saturating_add(leeway) {
                return Ok(s.into());
            }
            let room = length.checked_sub(end.chars().count());
            let room = room.ok_or_else(|| wrong(format!("the length is below {}", end.len())))?;
            let cut: String = s.chars().take(room).collect();
            let cut = if kill.is_true() {
                &cut
            } else {
                cut.rsplit_once(' ').map_or(cut.as_str(), |it| it.0)
            };
            format!("{cut}{end}").into()
        }
        "wordcount" => {
            let s = shown(on)?;
            s.split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|word| !word.is_empty())
                .count()
                .into()
        }
        "center" => {
            let [on, width] = bind(["value", "width"], args)?;
            padded(&shown(&on)?, name, limit.width(whole(&width, 80)?)?, ' ').into()
        }
        "urlencode" => match on.kind() {
            ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
                let pair = |item: Value| {
                    let (key, value) = match on.kind() {
                        ValueKind::Map => (item.clone(), on.get_item(&item)?),
                        _ => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
                    };
                    Ok(quoted(&shown(&key)?, "").replace("%20", "+")
                        + "="
                        + &quoted(&shown(&value)?, "").replace("%20", "+"))
                };
                items(on)?
                    .into_iter()
                    .map(pair)
                    .collect::<Result<Vec<_>, Error>>()?
                    .join("&")
                    .into()
            }
            _ => quoted(&shown(on)?, "/").into(),
        },
        "int" => return int(args),
        "float" => {
            let [on, default] = bind(["value", "default"], args)?;
            let default = if default.is_undefined() { Value::from(0.0) } else { default };
            number(&on)?.map_or(default, Value::from)
        }
        "indent" => {
            let [on, width, first, blank] = bind(["s", "width", "first", "blank"], args)?;
            let s = text(&on)?;
            let by = match width.as_str() {
                Some(by) => by.to_owned(),
                None => " ".repeat(limit.width(whole(&width, 4)?)?),
            };
            let lines = super::methods::lines(s, false);
            limit.fits(
                lines.len().saturating_add(1).saturating_mul(by.len()).saturating_add(s.len()),
            )?;
            let last = if s.is_empty() || s.ends_with('\n') { Some("") } else { None };
            let lines = lines.into_iter().chain(last).enumerate().map(|(at, line)| {
                let pad =
                    if at == 0 { first.is_true() } else { blank.is_true() || !line.is_empty() };
                if pad { by.clone() + line } else { line.to_owned() }
            });
            lines.collect::<Vec<_>>().join("\n").into()
        }
        "replace" => {
            let [on, old, new, count] = bind(["s", "old", "new", "count"], args)?;
            let texts = [shown(&on)?, shown(&old)?, shown(&new)?].map(Value::from);
            limit.check_replace(&texts)?;
            let count = usize::try_from(whole(&count, -1)?).unwrap_or(usize::MAX);
            text(&texts[0])?.replacen(text(&texts[1])?, text(&texts[2])?, count).into()
        }
        "default" | "d" => {
            let [on, other, truth] = bind(["value", "default_value", "boolean"], args)?;
            let other = if args.len() < 2 { Value::from("") } else { other };
            if on.is_undefined() || truth.is_true() && !on.is_true() { other } else { on }
        }
        "format" => {
            let (named, with) = match args {
                [_, map] if map.is_kwargs() => (true, std::slice::from_ref(map)),
                [_, with @ ..] => (false, with),
                [] => (false, args),
            };
            return percent(limit, on, with, !named);
        }
        _ => return Err(wrong(format!("{name} is unknown"))),
    })
}

fn plus(a: &Value, b: &Value) -> Made {
    let numeric = |it: &Value| matches!(it.kind(), ValueKind::Number | ValueKind::Bool);
    if let (ValueKind::Seq, ValueKind::Seq) = (a.kind(), b.kind()) {
        return Ok(a.try_iter()?.chain(b.try_iter()?).collect());
    }
    if !numeric(a) || !numeric(b) {
        return Err(wrong(format!("{} and {} have no sum", a.kind(), b.kind())));
    }
    if let (Ok(a), Ok(b)) = (i128::try_from(a.clone()), i128::try_from(b.clone())) {
        return a.checked_add(b).map(Value::from).ok_or_else(|| wrong("the sum is too large"));
    }
    Ok((f64::try_from(a.clone())? + f64::try_from(b.clone())?).into())
}

/// `%`: of a text it formats, of numbers it has the sign of the second.
fn remainder(limit: &RenderMeter, args: &[Value]) -> Made {
    let [a, b] = args else { return Err(wrong("it takes two values")) };
    if a.as_str().is_some() {
        return match b.kind() {
            ValueKind::Seq if b.is_tuple() => percent(limit, a, &items(b)?, true),
            kind => {
                let strict = !matches!(kind, ValueKind::Map | ValueKind::Seq);
                percent(limit, a, std::slice::from_ref(b), strict)
            }
        };
    }
    let integer = |it: &Value| it.is_integer() || it.kind() == ValueKind::Bool;
    if integer(a) && integer(b) {
        let (a, b) = (i128::try_from(a.clone())?, i128::try_from(b.clone())?);
        let rest = a.checked_rem(b).ok_or_else(|| wrong("it divides by zero"))?;
        let rest = if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest };
        return Ok(i64::try_from(rest).map_or_else(|_| Value::from(rest), Value::from));
    }
    let (a, b) = (f64::try_from(a.clone())?, f64::try_from(b.clone())?);
    if b == 0.0 {
        return Err(wrong("it divides by zero"));
    }
    let rest = a % b;
    let rest = if rest == 0.0 { 0.0_f64.copysign(b) } else { rest };
    Ok(Value::from(if (rest < 0.0) == (b < 0.0) { rest } else { rest + b }))
}

/// `value[start:stop:step]`.
fn sliced(args: &[Value]) -> Made {
    let [on, start, stop, step] = args else { return Err(wrong("it takes four values")) };
    let chars = on.as_str().map(|s| s.chars().map(String::from).map(Value::from).collect());
    let all: Vec<Value> = match (chars, on.kind()) {
        (Some(chars), _) => chars,
        (None, ValueKind::Seq | ValueKind::Iterable) => items(on)?,
        (None, ValueKind::Undefined) => return Err(wrong("an undefined value has no slices")),
        _ => return Ok(Value::UNDEFINED),
    };
    let len = i64::try_from(all.len()).unwrap_or(i64::MAX);
    let step = whole(step, 1)?;
    let (low, high) = if step < 0 { (-1, len - 1) } else { (0, len) };
    let place = |at: &Value, default| {
        let at = whole(at, default)?;
        let at = if at < 0 && at != default { at.saturating_add(len) } else { at };
        Ok::<_, Error>(at.clamp(low, high))
    };
    let (first, last) = if step < 0 { (high, low) } else { (low, high) };
    let stop = if given(stop).is_none() { last } else { place(stop, i64::MIN)? };
    let mut at = if given(start).is_none() { first } else { place(start, i64::MIN)? };
    let mut taken = Vec::new();
    match step {
        0 => return Err(wrong("the step of a slice is 0")),
        _ => {
            while if step < 0 { at > stop } else { at < stop } {
                taken.extend(usize::try_from(at).ok().and_then(|at| all.get(at)).cloned());
                at = at.saturating_add(step);
            }
        }
    }
    Ok(match on.as_str() {
        Some(_) => taken.iter().filter_map(Value::as_str).collect::<String>().into(),
        None if on.is_tuple() => Value::from(Tuple::from(taken)),
        None => taken.into(),
    })
}

fn quoted(s: &str, kept: &str) -> String {
    let mut out = String::new();
    for byte in s.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "_.-~".contains(c) || kept.contains(c) {
            out.push(c);
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// The number that Python's `float` reads in a value.
fn number(value: &Value) -> Result<Option<f64>, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(wrong("an undefined value is not a number")),
        ValueKind::Bool => Ok(Some(f64::from(u8::from(value.is_true())))),
        ValueKind::Number => f64::try_from(value.clone()).map(Some),
        ValueKind::String => {
            Ok(value.as_str().and_then(|s| s.trim_matches(is_space).replace('_', "").parse().ok()))
        }
        _ => Ok(None),
    }
}

fn int(args: &[Value]) -> Made {
    let [on, default, base] = bind(["value", "default", "base"], args)?;
    let default = if default.is_undefined() { Value::from(0) } else { default };
    if on.is_integer() {
        return Ok(on);
    }
    if let Some(s) = on.as_str() {
        let base = u32::try_from(whole(&base, 10)?).ok().filter(|base| (2..=36).contains(base));
        let s = s.trim_matches(is_space).replace('_', "").to_lowercase();
        let prefix = match base {
            Some(2) => "0b",
            Some(8) => "0o",
            Some(16) => "0x",
            _ => "",
        };
        let digits = s.strip_prefix(prefix).unwrap_or(&s);
        if let Some(Ok(number)) = base.map(|base| i128::from_str_radix(digits, base)) {
            return Ok(i64::try_from(number).map_or_else(|_| Value::from(number), Value::from));
        }
    }
    Ok(match number(&on)? {
        Some(number) if number.is_finite() => {
            let number = number.trunc() as i128;
            i64::try_from(number).map_or_else(|_| Value::from(number), Value::from)
        }
        _ => default,
    })
}

/// Python's `%` on a text. MiniJinja formats the numbers; texts are made here.
pub(super) fn percent(limit: &RenderMeter, pattern: &Value, with: &[Value], strict: bool) -> Made {
    limit.check_format(pattern)?;
    let source = text(pattern)?;
    let named = source.contains("%(");
    let (mut out, mut values) = (String::new(), Vec::new());
    let mut next = with.iter();
    let mut parts = source.split('%');
    out += parts.next().unwrap_or_default();
    while let Some(part) = parts.next() {
        if part.is_empty() {
            out += "%%";
            out += parts.next().ok_or_else(|| wrong("the format is incomplete"))?;
            continue;
        }
        let spec = part.find(|c: char| c.is_alphabetic() && !named || c == ')' && named);
        let spec = spec.ok_or_else(|| wrong("the format is incomplete"))?;
        let kind =
            if named { spec + part[spec..].find(char::is_alphabetic).unwrap_or(0) } else { spec };
        let (flags, rest) = part.split_at(kind);
        let mut flags = flags.to_owned();
        if let Some(at) = flags.find('*') {
            let width =
                next.next().map_or(Err(wrong("arguments are missing")), |it| whole(it, 0))?;
            flags.replace_range(at..=at, &limit.width(width)?.to_string());
        }
        let mut value = match named {
            true => {
                with.first().map_or(Ok(Value::UNDEFINED), |map| map.get_attr(&part[1..spec]))?
            }
            false => next.next().cloned().ok_or_else(|| wrong("arguments are missing"))?,
        };
        let letter = match &rest[..1] {
            "s" => {
                value = shown(&value)?.into();
                "s"
            }
            "r" | "a" => {
                value = repr(&value)?.into();
                "s"
            }
            "d" | "i" | "u" => {
                if let (false, Ok(number)) = (value.is_integer(), f64::try_from(value.clone())) {
                    value = Value::from(number as i64);
                }
                "d"
            }
            other => other,
        };
        let flags = if named { &flags[spec + 1..] } else { flags.as_str() };
        out = out + "%" + flags + letter + &rest[1..];
        values.push(value);
    }
    if strict && !named && next.next().is_some() {
        return Err(wrong("not all arguments are used by the format"));
    }
    format(FormatStyle::Printf, &out, &values).map(Value::from)
}

/// Writes its text from the second use on.
#[derive(Debug)]
struct Joiner(String, AtomicBool);

impl Object for Joiner {
    fn call(self: &Arc<Self>, _: &mut State, _: &[Value]) -> Made {
        let used = self.1.swap(true, Ordering::Relaxed);
        Ok(Value::from(if used { self.0.as_str() } else { "" }))
    }
}

/// Goes through its values again and again.
#[derive(Debug)]
struct Cycler(Vec<Value>, AtomicUsize);

impl Object for Cycler {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let at = self.1.load(Ordering::Relaxed) % self.0.len();
        (key.as_str() == Some("current")).then(|| self.0.get(at).cloned())?
    }

    fn call_method(self: &Arc<Self>, _: &mut State, name: &str, _: &[Value]) -> Made {
        match name {
            "next" => {
                let at = self.1.fetch_add(1, Ordering::Relaxed) % self.0.len();
                Ok(self.0.get(at).cloned().unwrap_or_default())
            }
            "reset" => {
                self.1.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(minijinja::ErrorKind::UnknownMethod)),
        }
    }
}

/// Adds them to an environment.
pub(super) fn install(environment: &mut Environment<'_>, meter: &Arc<RenderMeter>) {
    for name in FILTERS {
        let limit = Arc::clone(meter);
        environment.add_filter(*name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.iter().map(|arg| (**arg).clone()).collect();
            filter(&limit, name, state, &args)
        });
    }
    let plain = |value: &Value| matches!(value.kind(), ValueKind::Map | ValueKind::Seq);
    let namespace =
        |value: &Value| value.as_object().is_some_and(|it| it.type_name().ends_with("::Namespace"));
    environment.add_test("sequence", move |value: &Value| {
        plain(value) && !namespace(value) || value.as_str().is_some() || value.is_undefined()
    });
    environment.add_test("mapping", move |value: &Value| {
        value.kind() == ValueKind::Map && !namespace(value)
    });
    environment.add_test("iterable", move |value: &Value| {
        value.try_iter().is_ok() && !value.is_none() && !namespace(value)
    });
    environment.add_test("callable", |value: &Value| {
        matches!(value.kind(), ValueKind::Plain | ValueKind::Undefined)
    });
    environment.add_function("joiner", |args: Rest<ValueOrKwargs>| {
        let args: Vec<Value> = args.iter().map(|arg| (**arg).clone()).collect();
        let [sep] = bind(["sep"], &args)?;
        let sep = if sep.is_undefined() { ", ".to_owned() } else { shown(&sep)? };
        Ok::<_, Error>(Value::from_object(Joiner(sep, AtomicBool::new(false))))
    });
    environment.add_function("cycler", |values: Rest<Value>| {
        if values.is_empty() {
            return Err(wrong("a cycler needs values"));
        }
        Ok(Value::from_object(Cycler(values.0, AtomicUsize::new(0))))
    });
}
