//! Values as the text that Python makes of them: `str` and `repr`. It must not depend on templates.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

/// What Python counts as white space.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// Python's `str`; empty for what is undefined.
pub(super) fn shown(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => Ok(value.as_str().unwrap_or_default().to_owned()),
        _ => repr(value),
    }
}

/// Python's `repr`. The meter limits how deep a value is nested.
pub(super) fn repr(value: &Value) -> Result<String, Error> {
    let list = || -> Result<Vec<String>, Error> {
        value.try_iter()?.checked().map(|item| repr(&item?)).collect()
    };
    Ok(match value.kind() {
        ValueKind::Undefined => "Undefined".to_owned(),
        ValueKind::String => quoted(value.as_str().unwrap_or_default()),
        ValueKind::Number if !value.is_integer() => {
            f64::try_from(value.clone()).map_or_else(|_| value.to_string(), float)
        }
        ValueKind::Seq if value.is_tuple() => match list()?.as_slice() {
            [one] => format!("({one},)"),
            items => format!("({})", items.join(", ")),
        },
        ValueKind::Seq | ValueKind::Iterable => format!("[{}]", list()?.join(", ")),
        ValueKind::Map => {
            let pair = |key: Result<Value, Error>| {
                let key = key?;
                Ok(format!("{}: {}", repr(&key)?, repr(&value.get_item(&key)?)?))
            };
            let pairs: Result<Vec<_>, Error> = value.try_iter()?.checked().map(pair).collect();
            format!("{{{}}}", pairs?.join(", "))
        }
        _ => value.to_string(),
    })
}

/// The shortest digits, with an exponent as Python writes it.
pub(super) fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let text = format!("{number:?}");
    match text.split_once('e') {
        Some((digits, power)) => match power.strip_prefix('-') {
            Some(power) => format!("{digits}e-{power:0>2}"),
            None => format!("{digits}e+{power:0>2}"),
        },
        None => text,
    }
}

fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '\t' => out += "\\t",
            '\\' => out += "\\\\",
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => out += &escaped(c),
        }
    }
    out.push(quote);
    out
}

fn escaped(c: char) -> String {
    match u32::from(c) {
        code @ ..=0xff => format!("\\x{code:02x}"),
        code @ ..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

/// Rust escapes the same classes of characters, and marks that extend a letter if nothing is before
/// them.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || format!("a{c}").escape_debug().nth(2).is_none()
}
