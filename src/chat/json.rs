//! JSON as Python's `json.dumps` writes it, which chat templates expect of `tojson`. (MiniJinja's
//! own filter escapes HTML characters, and models were never trained on that.) It must not depend
//! on conversations.

use std::io;

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// One line, with a space after `,` and `:`.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The `tojson` filter: `indent` as in Python; other keyword arguments are accepted and ignored.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    // More than the indentation of any document; it bounds what a template can make us allocate.
    const MOST_INDENT: usize = 16;
    let indent: Option<usize> = options.get("indent")?;
    let mut out = Vec::new();
    let written = match indent {
        Some(width) => {
            let pad = " ".repeat(width.min(MOST_INDENT));
            let pretty = PrettyFormatter::with_indent(pad.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, pretty))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, OneLine)),
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Value::from(String::from_utf8_lossy(&out).into_owned()))
}
