//! Chats from a JSONL file, one per line, in the published formats: `messages` with `role` and
//! `content`, `conversations` with `from` and `value` (ShareGPT), or `turns`, which has only
//! questions. A line that is not a chat is reported and skipped. It must not depend on templates or
//! tokens.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Map, Value};

use super::TrainError;
use crate::chat::{Message, Role};
use crate::files::{Open, open_regular};

/// The most bytes of a line, far above any chat.
const LONGEST: u64 = 64_000_000;

/// A line of the file: its number, starting at 1, and the chat in it, or why there is none to learn
/// from, in a sentence.
pub type ChatLine = (usize, Result<Vec<Message>, String>);

/// Reads the chats of a file, line by line; blank lines are skipped silently.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> Result<impl Iterator<Item = Result<ChatLine, TrainError>>, TrainError> {
    let failed = |source| TrainError::file("read the chats in", path, source, "");
    let file = BufReader::with_capacity(1 << 16, open_regular(path, Open::Read).map_err(failed)?);
    Ok(lines(file).map(move |line| line.map_err(failed)))
}

fn lines(mut from: impl BufRead) -> impl Iterator<Item = io::Result<ChatLine>> {
    (1..)
        .map_while(move |number| line(&mut from, number).transpose())
        .filter(|line| line.as_ref().map_or(true, |(_, line)| !line.trim_ascii().is_empty()))
        .map(|line| line.map(|(number, line)| (number, parse(&line))))
}

/// The next line and its number; `None` at the end.
fn line(from: &mut impl BufRead, number: usize) -> io::Result<Option<(usize, Vec<u8>)>> {
    let mut line = Vec::new();
    from.take(LONGEST + 1).read_until(b'\n', &mut line)?;
    if line.len() as u64 > LONGEST {
        let problem = format!("line {number} is longer than {} MB", LONGEST / 1_000_000);
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    if line.is_empty() {
        return Ok(None);
    }
    line.pop_if(|last| *last == b'\n');
    Ok(Some((number, line)))
}

/// The chat in a line. Answers before the first question, which occur in chats cut into pieces, are
/// left out.
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
    fn the_chats_that_come_with_the_bundled_pair_are_sound() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/assets/demo/chats.jsonl");
        let chats: Vec<ChatLine> =
            read(Path::new(path)).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(chats.len() > 400 && chats.iter().all(|(_, chat)| chat.is_ok()));
    }
}
