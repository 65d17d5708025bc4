//! Chats from a file, one per line or as one JSON array, in the published formats: `messages` with
//! `role` and `content`, `conversations` with `from` and `value` (ShareGPT), or `turns`, which has
//! only questions. An entry that is not a chat is reported and skipped. It must not depend on
//! templates or tokens.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Map, Value};

use super::{Result, TrainError};
use crate::chat::{Message, Role};
use crate::files::{Open, open_regular};

/// The most bytes of an entry, far above any chat.
const LONGEST: u64 = 64_000_000;

/// A line of the file or an entry of its array: its number, starting at 1, and the chat in it, or
/// why there is none to learn from, in a sentence.
pub type ChatLine = (usize, Result<Vec<Message>, String>);

/// Reads the chats of a file one by one; blank lines are skipped silently.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<ChatLine>>> {
    let failed = |source| TrainError::Chats(path.to_owned(), source);
    let file = BufReader::with_capacity(1 << 16, open_regular(path, Open::Read).map_err(failed)?);
    Ok(lines(file).map(move |line| line.map_err(failed)))
}

fn lines(mut from: impl BufRead) -> impl Iterator<Item = io::Result<ChatLine>> {
    let mut array = None;
    (1..)
        .map_while(move |number| {
            let next = match array {
                Some(array) => Ok(array),
                None => begins_array(&mut from),
            };
            let entry = next.and_then(|is_array| {
                array = Some(is_array);
                if is_array { element(&mut from, number) } else { line(&mut from, number) }
            });
            entry.transpose()
        })
        .filter(|line| line.as_ref().map_or(true, |(_, line)| !line.trim_ascii().is_empty()))
        .map(|line| line.map(|(number, line)| (number, parse(&line))))
}

/// The next line and its number; `None` at the end.
fn line(from: &mut impl BufRead, number: usize) -> io::Result<Option<(usize, Vec<u8>)>> {
    let mut line = Vec::new();
    from.take(LONGEST + 1).read_until(b'\n', &mut line)?;
    if line.len() as u64 > LONGEST {
        return Err(too_long("line", number));
    }
    if line.is_empty() {
        return Ok(None);
    }
    line.pop_if(|last| *last == b'\n');
    Ok(Some((number, line)))
}

fn too_long(what: &str, number: usize) -> io::Error {
    let problem = format!("{what} {number} is longer than {} MB", LONGEST / 1_000_000);
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Whether the file is one JSON array, as ShareGPT is published; its opening bracket is read then.
fn begins_array(from: &mut impl BufRead) -> io::Result<bool> {
    let start = from.fill_buf()?;
    let first = start.iter().position(|byte| !byte.is_ascii_whitespace());
    let Some(at) = first.filter(|&at| start[at] == b'[') else { return Ok(false) };
    from.consume(at + 1);
    Ok(true)
}

/// The next element of an array and its number; `None` at the end.
fn element(from: &mut impl BufRead, number: usize) -> io::Result<Option<(usize, Vec<u8>)>> {
    let mut element = Vec::new();
    let (mut depth, mut quoted, mut escaped) = (0u32, false, false);
    let mut ends = |byte: u8| {
        match (quoted, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (true, _) => {}
            (false, b',' | b']') if depth == 0 => return true,
            (false, b'[' | b'{') => depth += 1,
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            (false, _) => {}
        }
        false
    };
    loop {
        let some = from.fill_buf()?;
        let end = some.iter().position(|&byte| ends(byte));
        let taken = end.unwrap_or(some.len());
        element.extend_from_slice(&some[..taken]);
        let last = end.is_none_or(|end| some[end] == b']');
        let over = end.is_some() || some.is_empty();
        // The closing bracket stays, and ends the next element at once.
        from.consume(taken + usize::from(!last));
        if element.len() as u64 > LONGEST {
            return Err(too_long("entry", number));
        }
        if over {
            let nothing = last && element.trim_ascii().is_empty();
            return Ok((!nothing).then_some((number, element)));
        }
    }
}

/// The chat in an entry. Answers before the first question, which occur in chats cut into pieces,
/// are left out.
fn parse(line: &[u8]) -> Result<Vec<Message>, String> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("not valid JSON, or cut off: {error}"))?;
    let list = |field: &str| value.get(field).and_then(Value::as_array);
    let messages = if let Some(items) = list("messages") {
        items.iter().enumerate().map(|(i, item)| message(i, item, "role", "content")).collect()
    } else if let Some(items) = list("conversations").or_else(|| list("conversation")) {
        items.iter().enumerate().map(|(i, item)| message(i, item, "from", "value")).collect()
    } else if let Some(items) = list("turns") {
        items.iter().enumerate().map(|(i, item)| said(i, Role::User, Some(item))).collect()
    } else {
        Err("it has no `messages`, `conversations` or `turns`".to_owned())
    };
    let mut messages: Vec<Message> = messages?;
    let asked = messages.iter().position(|message| message.role == Role::User);
    let mut at = 0;
    messages.retain(|message| {
        at += 1;
        message.role != Role::Assistant || asked.is_some_and(|asked| at > asked)
    });
    if messages.iter().any(|message| message.role == Role::User) {
        Ok(messages)
    } else {
        Err("the chat is empty".to_owned())
    }
}

fn message(index: usize, item: &Value, role: &str, text: &str) -> Result<Message, String> {
    let nobody = Map::new();
    let fields = item.as_object().unwrap_or(&nobody);
    let name = fields.get(role).and_then(Value::as_str).unwrap_or_default();
    let unknown = || format!("message {}: unknown role `{name}`", index + 1);
    let who = Role::named(name).ok_or_else(unknown)?;
    said(index, who, fields.get(text))
}

/// The text itself, or its parts if all of them are text.
fn said(index: usize, role: Role, content: Option<&Value>) -> Result<Message, String> {
    let content = match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let text = |part: &Value| part["text"].as_str().map(str::to_owned);
            parts.iter().map(text).collect::<Option<String>>().unwrap_or_default()
        }
        _ => String::new(),
    };
    if content.trim().is_empty() {
        return Err(format!("message {} has no text", index + 1));
    }
    Ok(Message::new(role, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Result<Vec<(Role, String)>, String> {
        let chat = parse(line.as_bytes())?;
        Ok(chat.into_iter().map(|message| (message.role, message.content)).collect())
    }

    #[test]
    fn the_published_ways_say_the_same() {
        let expected = vec![(Role::User, "Hi".to_owned()), (Role::Assistant, "Hello".to_owned())];
        for line in [
            concat!(
                r#"{"messages": [{"role": "user", "content": "Hi"}, "#,
                r#"{"role": "assistant", "content": "Hello"}]}"#
            ),
            concat!(
                r#"{"id": "x_1", "conversations": [{"from": "human", "value": "Hi"}, "#,
                r#"{"from": "gpt", "value": "Hello"}]}"#
            ),
            concat!(
                r#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "H"}, "#,
                r#"{"type": "text", "text": "i"}]}, {"role": "assistant", "content": "Hello"}]}"#
            ),
            concat!(
                r#"{"conversations": [{"from": "gpt", "value": "cut off"}, "#,
                r#"{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}"#
            ),
        ] {
            assert_eq!(one(line).unwrap(), expected, "{line}");
        }
        let asked = one(r#"{"id": "a", "turns": ["Hi", "Why?"]}"#).unwrap();
        assert_eq!(asked, [(Role::User, "Hi".to_owned()), (Role::User, "Why?".to_owned())]);
    }

    #[test]
    fn what_is_no_chat_is_named() {
        let why = [
            r#"{"messages": [{"role": "us"#,
            r#"{"text": "a book"}"#,
            r#"{"messages": []}"#,
            r#"{"messages": [{"role": "assistant", "content": "Hm"}]}"#,
            r#"{"messages": [{"role": "tool", "content": "3"}]}"#,
            r#"{"conversations": [{"from": "human", "value": " "}]}"#,
            r#"{"messages": [7]}"#,
        ]
        .map(|line| one(line).unwrap_err());
        insta::assert_snapshot!(why.join("\n"), @r"
        not valid JSON, or cut off: EOF while parsing a string at line 1 column 26
        it has no `messages`, `conversations` or `turns`
        the chat is empty
        the chat is empty
        message 1: unknown role `tool`
        message 1 has no text
        message 1: unknown role ``
        ");
        assert!(parse(b"\xff\xfe\n").is_err());
    }

    #[test]
    fn a_line_without_an_end_is_refused_at_the_limit() {
        let endless = BufReader::new(io::repeat(b'a'));
        let why = lines(endless).next().unwrap().unwrap_err().to_string();
        assert_eq!(why, "line 1 is longer than 64 MB");
    }

    #[test]
    fn lines_are_counted_with_the_blank_ones() {
        let file = "{\"turns\": [\"a\"]}\n\n  \r\n{\"turns\": [\n{\"turns\": [\"b\"]}";
        let found: Vec<_> = lines(file.as_bytes())
            .map(|line| line.map(|(at, chat)| (at, chat.is_ok())))
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(found, [(1, true), (4, false), (5, true)]);
    }

    #[test]
    fn a_file_may_be_one_array() {
        let found = |file: &str| -> Vec<(usize, bool)> {
            // Pieces of three bytes: an entry ends anywhere.
            lines(BufReader::with_capacity(3, file.as_bytes()))
                .map(|line| line.map(|(at, chat)| (at, chat.is_ok())).unwrap())
                .collect()
        };
        let file = r#"[
          {"conversations": [{"from": "human", "value": "a ], \"b\" }, \\"}]},
          7, {"turns": ["c"]}
        ]
        "#;
        assert_eq!(found(file), [(1, true), (2, false), (3, true)]);
        assert_eq!(found("[]"), []);
        assert_eq!(found(r#"[{"turns": ["c"]}, {"turns": ["#), [(1, true), (2, false)]);
        let mut chats = lines(file.as_bytes());
        let (_, chat) = chats.next().unwrap().unwrap();
        assert_eq!(chat.unwrap()[0].content, r#"a ], "b" }, \"#);
        let endless = BufReader::new(b"[\"".chain(io::repeat(b'a')));
        let why = lines(endless).next().unwrap().unwrap_err().to_string();
        assert_eq!(why, "entry 1 is longer than 64 MB");
    }

    #[test]
    fn the_chats_that_come_with_the_bundled_pair_are_sound() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/chats.jsonl");
        let chats: Vec<ChatLine> =
            read(Path::new(path)).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(chats.len() > 400 && chats.iter().all(|(_, chat)| chat.is_ok()));
    }
}
