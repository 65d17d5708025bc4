//! Python's methods of texts, lists and dictionaries. It must not depend on templates.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::meter::RenderMeter;
use super::text::{is_printable, is_space};

pub(super) type Made = Result<Value, Error>;

pub(super) fn wrong(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// The arguments of a call by the names of its parameters; undefined where none is given.
pub(super) fn bind<const N: usize>(names: [&str; N], args: &[Value]) -> Result<[Value; N], Error> {
    let mut bound = [const { Value::UNDEFINED }; N];
    let (positional, named) = match args {
        [all @ .., last] if last.is_kwargs() => (all, Some(last)),
        all => (all, None),
    };
    if positional.len() > N {
        return Err(wrong(format!("it takes at most {N} arguments")));
    }
    for (place, value) in bound.iter_mut().zip(positional) {
        *place = value.clone();
    }
    for name in named.map(Value::try_iter).transpose()?.into_iter().flatten() {
        let Some(at) = names.iter().position(|known| name.as_str() == Some(known)) else {
            return Err(wrong(format!("it takes no argument named {name}")));
        };
        bound[at] = named.unwrap_or(&name).get_item(&name)?;
    }
    Ok(bound)
}

pub(super) fn given(value: &Value) -> Option<&Value> {
    (!value.is_undefined() && !value.is_none()).then_some(value)
}

pub(super) fn text(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| wrong(format!("it takes a string, not {}", value.kind())))
}

pub(super) fn whole(value: &Value, default: i64) -> Result<i64, Error> {
    match given(value) {
        Some(value) if value.is_integer() || value.kind() == ValueKind::Bool => {
            i64::try_from(value.clone())
        }
        Some(value) => Err(wrong(format!("it takes a whole number, not {value}"))),
        None => Ok(default),
    }
}

/// A method of Python, or the error for an unknown one.
pub(super) fn method(limit: &RenderMeter, on: &Value, name: &str, args: &[Value]) -> Made {
    match on.kind() {
        ValueKind::String => of_text(limit, on, on.as_str().unwrap_or_default(), name, args),
        ValueKind::Map => of_dict(on, name, args),
        ValueKind::Seq | ValueKind::Iterable => of_list(on, name, args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn of_dict(on: &Value, name: &str, args: &[Value]) -> Made {
    let keys: Vec<Value> = on.try_iter()?.collect();
    let value = |key: &Value| on.get_item(key);
    match (name, args) {
        ("keys", []) => Ok(keys.into()),
        ("values", []) => keys.iter().map(value).collect::<Result<Vec<_>, _>>().map(Value::from),
        ("items", []) => {
            let pair = |key: Value| Ok(Value::from(Tuple::from([key.clone(), value(&key)?])));
            keys.into_iter().map(pair).collect::<Result<Vec<_>, Error>>().map(Value::from)
        }
        ("copy", []) => Ok(on.clone()),
        ("get", [key] | [key, _]) => match value(key)? {
            found if !found.is_undefined() || keys.contains(key) => Ok(found),
            _ => Ok(args.get(1).cloned().unwrap_or_else(|| Value::from(()))),
        },
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn of_list(on: &Value, name: &str, args: &[Value]) -> Made {
    let mut items = on.try_iter()?;
    match (name, args) {
        ("count", [what]) => Ok(items.filter(|item| item == what).count().into()),
        ("index", [what]) => {
            let at = items.position(|item| item == *what);
            at.map(Value::from).ok_or_else(|| wrong(format!("{what} is not in the list")))
        }
        ("copy", []) => Ok(on.clone()),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn of_text(limit: &RenderMeter, on: &Value, s: &str, name: &str, args: &[Value]) -> Made {
    let all = |is: fn(char) -> bool| Ok((!s.is_empty() && s.chars().all(is)).into());
    let cased = |wanted: fn(char) -> bool, other: fn(char) -> bool| {
        Ok((s.chars().any(wanted) && !s.chars().any(other)).into())
    };
    if name.starts_with("is") || matches!(name, "upper" | "lower" | "title" | "swapcase") {
        let [] = bind([], args)?;
    }
    Ok(match name {
        "upper" => s.to_uppercase().into(),
        "lower" => s.to_lowercase().into(),
        "casefold" => s.to_lowercase().replace('ß', "ss").into(),
        "capitalize" => capitalized(s).into(),
        "title" => titled(s).into(),
        "swapcase" => {
            let swap = |c: char| match c.is_uppercase() {
                true => c.to_lowercase().collect::<String>(),
                false => c.to_uppercase().collect(),
            };
            s.chars().map(swap).collect::<String>().into()
        }
        "isalpha" => return all(char::is_alphabetic),
        "isalnum" => return all(char::is_alphanumeric),
        "isdigit" => return all(|c| c.is_numeric() && !is_fraction(c)),
        "isdecimal" => return all(|c| c.is_numeric() && !is_fraction(c) && !is_raised(c)),
        "isnumeric" => return all(char::is_numeric),
        "isspace" => return all(is_space),
        "isascii" => s.is_ascii().into(),
        "isprintable" => s.chars().all(is_printable).into(),
        "islower" => return cased(char::is_lowercase, char::is_uppercase),
        "isupper" => return cased(char::is_uppercase, char::is_lowercase),
        "istitle" => (titled(s) == s && s.chars().any(is_cased)).into(),
        "isidentifier" => {
            let letter = |c: char| c == '_' || c.is_alphabetic();
            let rest = s.chars().all(|c| letter(c) || c.is_numeric());
            (rest && s.chars().next().is_some_and(letter)).into()
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = bind(["chars"], args)?;
            stripped(s, name, &chars)?.into()
        }
        "split" | "rsplit" => {
            let [sep, most] = bind(["sep", "maxsplit"], args)?;
            let sep = given(&sep).map(text).transpose()?;
            let most = usize::try_from(whole(&most, -1)?).unwrap_or(usize::MAX);
            Value::from(pieces(s, sep, most, name == "rsplit")?)
        }
        "splitlines" => {
            let [keep] = bind(["keepends"], args)?;
            lines(s, keep.is_true()).into_iter().map(Value::from).collect()
        }
        "partition" | "rpartition" => {
            let [sep] = bind(["sep"], args)?;
            let sep = text(&sep)?;
            let last = name == "rpartition";
            if sep.is_empty() {
                return Err(wrong("the separator is empty"));
            }
            let found = if last { s.rsplit_once(sep) } else { s.split_once(sep) };
            let parts = match found {
                Some((before, after)) => [before, sep, after],
                None if last => ["", "", s],
                None => [s, "", ""],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "startswith" | "endswith" => {
            let [what, start, end] = bind(["prefix", "start", "end"], args)?;
            let Some((_, within)) = window(s, &start, &end)? else { return Ok(false.into()) };
            let is = |what: &Value| {
                let what = text(what)?;
                Ok(if name == "endswith" {
                    within.ends_with(what)
                } else {
                    within.starts_with(what)
                })
            };
            if !what.is_tuple() {
                return is(&what).map(Value::from);
            }
            let found: Result<Vec<bool>, Error> = what.try_iter()?.map(|what| is(&what)).collect();
            found?.contains(&true).into()
        }
        "find" | "rfind" | "index" | "rindex" | "count" => {
            let [what, start, end] = bind(["sub", "start", "end"], args)?;
            let what = text(&what)?;
            let within = window(s, &start, &end)?;
            if name == "count" {
                return Ok(within.map_or(0, |(_, within)| within.matches(what).count()).into());
            }
            let at = within.and_then(|(before, within)| {
                let at = if name.starts_with('r') { within.rfind(what) } else { within.find(what) };
                Some(before + within.get(..at?)?.chars().count())
            });
            match at {
                Some(at) => at.into(),
                None if name.ends_with("find") => (-1).into(),
                None => return Err(wrong("the text is not found")),
            }
        }
        "zfill" | "ljust" | "rjust" | "center" => {
            let [width, fill] = bind(["width", "fillchar"], args)?;
            let width = limit.width(whole(&width, 0)?)?;
            let fill = if name == "zfill" { "0" } else { given(&fill).map_or(Ok(" "), text)? };
            let mut chars = fill.chars();
            let (Some(fill), None) = (chars.next(), chars.next()) else {
                return Err(wrong("the fill character is not one character"));
            };
            padded(s, name, width, fill).into()
        }
        "expandtabs" => {
            let [size] = bind(["tabsize"], args)?;
            let size = limit.width(whole(&size, 8)?)?;
            limit.fits(s.len().saturating_add(s.matches('\t').count().saturating_mul(size)))?;
            tabs_expanded(s, size).into()
        }
        "removeprefix" | "removesuffix" => {
            let [what] = bind(["what"], args)?;
            let what = text(&what)?;
            let cut =
                if name == "removeprefix" { s.strip_prefix(what) } else { s.strip_suffix(what) };
            cut.unwrap_or(s).into()
        }
        "replace" => {
            let [old, new, count] = bind(["old", "new", "count"], args)?;
            limit.check_replace(&[on.clone(), old.clone(), new.clone()])?;
            let count = usize::try_from(whole(&count, -1)?).unwrap_or(usize::MAX);
            s.replacen(text(&old)?, text(&new)?, count).into()
        }
        "join" => {
            let [items] = bind(["iterable"], args)?;
            limit.check_join(&items, std::slice::from_ref(on))?;
            let items: Vec<Value> = items.try_iter()?.collect();
            let items: Result<Vec<&str>, Error> = items.iter().map(text).collect();
            items?.join(s).into()
        }
        "format" => {
            limit.check_format(on)?;
            minijinja::formatting::format(minijinja::formatting::FormatStyle::StrFormat, s, args)?
                .into()
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    })
}

fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase()
}

fn is_fraction(c: char) -> bool {
    matches!(c, '\u{bc}'..='\u{be}' | '\u{2150}'..='\u{218f}')
}

fn is_raised(c: char) -> bool {
    matches!(c, '²' | '³' | '¹' | '\u{2070}'..='\u{2089}' | '\u{2460}'..='\u{249b}')
}

/// The first letter in upper case, as in `SS` that becomes `Ss`.
fn first_up(c: char) -> String {
    let mut up = c.to_uppercase();
    up.next().into_iter().chain(up.flat_map(char::to_lowercase)).collect()
}

pub(super) fn capitalized(s: &str) -> String {
    let mut chars = s.chars();
    chars.next().map(first_up).unwrap_or_default() + &chars.as_str().to_lowercase()
}

fn titled(s: &str) -> String {
    let mut inside = false;
    let mut out = String::new();
    for c in s.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            out += &first_up(c)
        }
        inside = is_cased(c);
    }
    out
}

pub(super) fn stripped<'s>(s: &'s str, name: &str, chars: &Value) -> Result<&'s str, Error> {
    let chars = given(chars).map(text).transpose()?;
    let is = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let s = if name == "rstrip" { s } else { s.trim_start_matches(is) };
    Ok(if name == "lstrip" { s } else { s.trim_end_matches(is) })
}

fn pieces(s: &str, sep: Option<&str>, most: usize, last: bool) -> Result<Vec<Value>, Error> {
    let most = most.saturating_add(1);
    let mut parts: Vec<&str> = match sep {
        Some("") => return Err(wrong("the separator is empty")),
        Some(sep) if last => s.rsplitn(most, sep).collect(),
        Some(sep) => s.splitn(most, sep).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = s;
            loop {
                rest = if last {
                    rest.trim_end_matches(is_space)
                } else {
                    rest.trim_start_matches(is_space)
                };
                if rest.is_empty() {
                    break;
                }
                let cut = if last { rest.rfind(is_space) } else { rest.find(is_space) };
                let Some(cut) = cut.filter(|_| parts.len() + 1 < most) else {
                    parts.push(rest);
                    break;
                };
                let (before, after) = rest.split_at(cut);
                let space = after.chars().next().map_or(0, char::len_utf8);
                parts.push(if last { &after[space..] } else { before });
                rest = if last { before } else { after };
            }
            parts
        }
    };
    if last {
        parts.reverse();
    }
    Ok(parts.into_iter().map(Value::from).collect())
}

pub(super) fn lines(s: &str, keep: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = s;
    let is =
        |c: char| matches!(c, '\n'..='\r' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    while let Some(at) = rest.find(is) {
        let end = rest[at..].strip_prefix("\r\n").or_else(|| {
            let mut chars = rest[at..].chars();
            chars.next();
            Some(chars.as_str())
        });
        let after = end.unwrap_or_default();
        lines.push(if keep { &rest[..rest.len() - after.len()] } else { &rest[..at] });
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The part of a text between two positions as in a slice, and how many characters are before it.
fn window<'s>(s: &'s str, start: &Value, end: &Value) -> Result<Option<(usize, &'s str)>, Error> {
    let len = i64::try_from(s.chars().count()).unwrap_or(i64::MAX);
    let place = |at: i64| if at < 0 { (at + len).max(0) } else { at };
    let (start, end) = (place(whole(start, 0)?), place(whole(end, len)?).min(len));
    if start > end {
        return Ok(None);
    }
    let byte = |at: i64| {
        let at = usize::try_from(at).unwrap_or(0);
        s.char_indices().nth(at).map_or(s.len(), |(byte, _)| byte)
    };
    Ok(s.get(byte(start)..byte(end)).map(|within| (usize::try_from(start).unwrap_or(0), within)))
}

pub(super) fn padded(s: &str, name: &str, width: usize, fill: char) -> String {
    let missing = width.saturating_sub(s.chars().count());
    let left = match name {
        "ljust" => 0,
        // Python's own rounding.
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let fill = |count| std::iter::repeat_n(fill, count);
    let sign =
        if name == "zfill" { s.find(|c| c != '+' && c != '-').unwrap_or(0).min(1) } else { 0 };
    let (sign, rest) = s.split_at(sign);
    sign.chars().chain(fill(left)).chain(rest.chars()).chain(fill(missing - left)).collect()
}

fn tabs_expanded(s: &str, size: usize) -> String {
    let mut column = 0;
    let mut out = String::new();
    for c in s.chars() {
        if c == '\t' {
            let count = if size == 0 { 0 } else { size - column % size };
            out.extend(std::iter::repeat_n(' ', count));
            column += count;
        } else {
            out.push(c);
            column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    out
}
