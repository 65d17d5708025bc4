//! Conversations in the formats of other programs: Markdown for people, JSON with `messages`, and
//! JSON lines in ShareGPT's form, which `train` reads. It must not depend on files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::extras::SavedChat;
use super::session::SavedTurn;
use super::{Message, Role};

/// A format for a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// `.md`: for people to read, and can be imported again.
    Markdown,
    /// `.json`: `{"messages": [{"role": …, "content": …}]}`.
    Json,
    /// `.jsonl`: `{"conversations": [{"from": …, "value": …}]}`, one conversation per line.
    ShareGpt,
}

/// Begins the line before each message of a Markdown file.
const MARK: &str = "<!-- dovetail:";

impl Exchange {
    /// The format for a file name's extension.
    ///
    /// # Errors
    /// Lists the known extensions.
    pub fn of_name(name: &str) -> Result<Self, String> {
        let end = name.rsplit_once('.').map_or("", |(_, end)| end).to_lowercase();
        match end.as_str() {
            "md" | "markdown" => Ok(Self::Markdown),
            "json" => Ok(Self::Json),
            "jsonl" => Ok(Self::ShareGpt),
            _ => Err(format!(
                "cannot tell the format of `{name}`; name it .md, .json or .jsonl (ShareGPT); a \
                 page (.html) can only be exported"
            )),
        }
    }

    /// The whole text of a file, or for [`Self::ShareGpt`] one line of it.
    pub fn write(self, turns: &[SavedTurn]) -> String {
        let said = turns.iter().map(|turn| &turn.message);
        match self {
            Self::Markdown => said.map(markdown).collect::<Vec<_>>().join("\n\n") + "\n",
            Self::Json => {
                let one = |it: &Message| json!({"role": it.role, "content": it.content});
                format!("{:#}\n", json!({"messages": said.map(one).collect::<Vec<_>>()}))
            }
            Self::ShareGpt => {
                let one = |it: &Message| json!({"from": from(it.role), "value": it.content});
                format!("{}\n", json!({"conversations": said.map(one).collect::<Vec<_>>()}))
            }
        }
    }

    /// The conversation in a file's text, the first one of several; and what the file holds beyond
    /// it that has no place in a conversation here.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(self, text: &str) -> Result<(SavedChat, LeftOut), String> {
        // Editors on Windows begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut left_out = LeftOut::default();
        let messages = match self {
            Self::Markdown => read_markdown(text)?,
            Self::Json => read_json(&parse(text)?, &mut left_out)?,
            Self::ShareGpt => {
                let mut lines = text.lines().filter(|line| !line.trim().is_empty());
                let mut value = parse(lines.next().unwrap_or_default())?;
                let others: Vec<Value> = lines.filter_map(|line| parse(line).ok()).collect();
                if !others.is_empty() {
                    value = std::iter::once(value).chain(others).collect();
                }
                read_json(&value, &mut left_out)?
            }
        };
        if !messages.iter().any(|message| message.role == Role::User) {
            let others = left_out.to_string();
            let others = if others.is_empty() { others } else { format!(", only {others}") };
            return Err(format!("it has no message from a user{others}"));
        }
        let turns: Vec<SavedTurn> =
            one_system(messages).into_iter().map(SavedTurn::whole).collect();
        Ok((turns.into(), left_out))
    }
}

/// What a file holds that has no place in a conversation here: how many of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<String, usize>);

impl LeftOut {
    fn count(&mut self, what: impl Into<String>, many: usize) {
        if many > 0 {
            *self.0.entry(what.into()).or_default() += many;
        }
    }
}

/// As `1 tool message, 2 parts of type image_url`; nothing if nothing was left out.
impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let told = |(what, many): (&String, &usize)| match what.split_once(' ') {
            Some((word, rest)) if *many > 1 => format!("{many} {word}s {rest}"),
            _ => format!("{many} {what}"),
        };
        f.write_str(&self.0.iter().map(told).collect::<Vec<_>>().join(", "))
    }
}

/// The messages with one system message, at the beginning: the conversation here has no other.
fn one_system(messages: Vec<Message>) -> Vec<Message> {
    let (system, mut talk): (Vec<_>, Vec<_>) =
        messages.into_iter().partition(|message| message.role == Role::System);
    let texts: Vec<String> = system.into_iter().map(|message| message.content).collect();
    if !texts.is_empty() {
        talk.insert(0, Message::new(Role::System, texts.join("\n\n")));
    }
    talk
}

fn from(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "human",
        Role::Assistant => "gpt",
    }
}

fn markdown(message: &Message) -> String {
    let (name, heading) = match message.role {
        Role::System => ("system", "**System**"),
        Role::User => ("user", "**You**"),
        Role::Assistant => ("assistant", "**Model**"),
    };
    let lines: Vec<String> = message
        .content
        .split('\n')
        .map(|line| {
            // A message may quote such a file.
            let quoted = line.trim_start_matches('\\').starts_with(MARK);
            if quoted { format!("\\{line}") } else { line.to_owned() }
        })
        .collect();
    format!("{MARK} {name} -->\n{heading}\n\n{}", lines.join("\n"))
}

fn read_markdown(text: &str) -> Result<Vec<Message>, String> {
    // Where an editor ended each line in `\r\n`, the first line shows it; in any other file, a `\r`
    // is part of a message.
    let returns = text.split('\n').next().is_some_and(|first| first.ends_with('\r'));
    let mut messages: Vec<(Role, Vec<&str>)> = Vec::new();
    for line in text.split('\n') {
        let line = if returns { line.strip_suffix('\r').unwrap_or(line) } else { line };
        let marked = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix("-->"));
        if let Some(name) = marked {
            let name = name.trim();
            let role = Role::named(name).ok_or(format!("unknown role `{name}`"))?;
            messages.push((role, Vec::new()));
        } else if let Some((_, lines)) = messages.last_mut() {
            let quoted = line.trim_start_matches('\\').starts_with(MARK);
            lines.push(if quoted { line.strip_prefix('\\').unwrap_or(line) } else { line });
        }
    }
    if messages.is_empty() {
        return Err(format!("it has no `{MARK} user -->` lines to separate the messages"));
    }
    let content = |(role, lines): (Role, Vec<&str>)| {
        // A heading and an empty line come first; after the message comes an empty line or the end
        // of the file.
        let begin = lines.len().min(2);
        let end = lines.len().saturating_sub(1).max(begin);
        Message::new(role, lines[begin..end].join("\n"))
    };
    Ok(messages.into_iter().map(content).collect())
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

/// The lists in which programs keep the messages of a conversation.
const LISTS: [&str; 5] = ["messages", "conversations", "conversation", "items", "input"];

/// Messages of an object with one of [`LISTS`] or of ChatGPT's export, or of a bare list; of a list
/// of conversations, the first.
fn read_json(value: &Value, left_out: &mut LeftOut) -> Result<Vec<Message>, String> {
    let list_of = |value: &Value| -> Option<Vec<Value>> {
        let list = LISTS.iter().find_map(|field| value.get(field)?.as_array());
        list.cloned().or_else(|| mapped(value))
    };
    let mut value = value;
    if let Some([first, others @ ..]) = value.as_array().map(Vec::as_slice)
        && list_of(first).is_some()
    {
        left_out.count("conversation after the first", others.len());
        value = first;
    }
    let list = list_of(value).or_else(|| value.as_array().cloned());
    let list = list.ok_or("it has no `messages` and no `conversations`")?;
    // Anthropic's requests have the system prompt next to the messages.
    let system = value.get("system").and_then(text_of);
    let mut messages: Vec<Message> =
        system.into_iter().map(|text| Message::new(Role::System, text)).collect();
    for item in &list {
        let field = |names: &[&str]| names.iter().find_map(|name| item.get(name));
        let name = field(&["role", "from"]).or_else(|| item.get("author")?.get("role"));
        let name = name.and_then(Value::as_str).unwrap_or_default();
        let Some(role) = Role::named(name) else {
            let what = if name.is_empty() { "without a role" } else { name };
            left_out.count(format!("message ({what})"), 1);
            continue;
        };
        let calls = ["tool_calls", "function_call"].iter().filter_map(|name| item.get(name));
        let calls = calls.map(|calls| calls.as_array().map_or(1, Vec::len));
        left_out.count("call of tools", calls.sum());
        let content = field(&["content", "value", "text"]).unwrap_or(&Value::Null);
        let parts = content.get("parts").unwrap_or(content).as_array().into_iter().flatten();
        for part in parts.filter(|part| text_of(part).is_none()) {
            let kind = ["type", "content_type"].iter().find_map(|name| part.get(name)?.as_str());
            left_out.count(format!("part ({})", kind.unwrap_or("not text")), 1);
        }
        let thought = field(&["thought", "reasoning_content", "reasoning"]);
        let thought = thought.and_then(Value::as_str).filter(|thought| !thought.is_empty());
        match text_of(content) {
            None if thought.is_none() => {}
            content => messages.push(Message {
                thought: thought.map(str::to_owned),
                ..Message::new(role, content.unwrap_or_default())
            }),
        }
    }
    Ok(messages)
}

/// The text of a message's content: a string, or parts of which some are text; `None` if none is.
pub(super) fn text_of(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().filter_map(text_of).collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        Value::Object(part) => {
            let text = ["text", "parts", "refusal", "value", "content"];
            text.iter().find_map(|name| part.get(*name)).and_then(text_of)
        }
        _ => None,
    }
}

/// The messages of a conversation in ChatGPT's export, a tree: those from its root to the message
/// that was shown last.
fn mapped(value: &Value) -> Option<Vec<Value>> {
    let nodes = value.get("mapping")?.as_object()?;
    let mut at = value.get("current_node").and_then(Value::as_str);
    let mut path = Vec::new();
    while let Some(node) = at.and_then(|at| nodes.get(at)).filter(|_| path.len() < nodes.len()) {
        path.push(node.get("message").cloned().unwrap_or_default());
        at = node.get("parent").and_then(Value::as_str);
    }
    path.retain(|message| !message.is_null());
    path.reverse();
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(role: Role, content: &str) -> SavedTurn {
        SavedTurn::whole(Message::new(role, content))
    }

    const ALL: [Exchange; 3] = [Exchange::Markdown, Exchange::Json, Exchange::ShareGpt];

    proptest! {
        #[test]
        fn what_was_written_is_read_again(
            contents in proptest::collection::vec("[a-z\\\\#*`\r\n \"é]{0,20}", 1..5),
            quoted in any::<bool>(),
        ) {
            let mut turns = vec![said(Role::System, "Be brief.\n")];
            for (at, content) in contents.iter().enumerate() {
                let role = if at % 2 == 0 { Role::User } else { Role::Assistant };
                turns.push(said(role, content));
            }
            if quoted {
                turns.push(said(Role::User, "<!-- dovetail: user -->\n\\<!-- dovetail: x"));
            }
            for way in ALL {
                let read = way.read(&way.write(&turns)).unwrap().0.turns;
                prop_assert_eq!(&read, &turns, "{:?}", way);
            }
        }
    }

    #[test]
    fn files_of_others_are_read() {
        let open_ai = r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"}]"#;
        let turns = Exchange::Json.read(open_ai).unwrap().0.turns;
        assert_eq!(turns, [said(Role::User, "Hi"), said(Role::Assistant, "Yes?")]);
        let share = r#"{"id":"x","conversations":[{"from":"human","value":"Hi"}]}"#;
        assert_eq!(Exchange::ShareGpt.read(share).unwrap().0.turns, [said(Role::User, "Hi")]);
        // An editor on Windows ends each line in `\r\n`.
        let written = Exchange::Markdown.write(&turns).replace('\n', "\r\n");
        assert_eq!(Exchange::Markdown.read(&written).unwrap().0.turns, turns);
    }

    #[test]
    fn everything_with_a_place_here_is_read_and_the_rest_is_named() {
        use Role::{Assistant, System, User};
        type Said = &'static [(Role, &'static str)];
        let cases: [(&str, Said, &str); 11] = [
            (
                r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},
                  {"type":"input_text","text":"b"}]}]"#,
                &[(User, "a\nb")],
                "1 part (image_url)",
            ),
            (
                r#"{"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,
                  "tool_calls":[{},{}]},{"role":"tool","content":"7"},
                  {"role":"user","content":"x"}]}"#,
                &[(User, "Hi"), (User, "x")],
                "2 calls of tools, 1 message (tool)",
            ),
            (
                "\u{feff}[{\"role\":\"system\",\"content\":\"a\"},
                 {\"role\":\"user\",\"content\":\"Hi\"},
                 {\"role\":\"developer\",\"content\":\"b\"}]",
                &[(System, "a\n\nb"), (User, "Hi")],
                "",
            ),
            (
                r#"[{"id":"1","conversations":[{"from":"human","value":"Hi"}]},{"items":[]},{}]"#,
                &[(User, "Hi")],
                "2 conversations after the first",
            ),
            (
                r#"[{"current_node":"c","mapping":{"a":{"message":null},
                  "b":{"parent":"a","message":{"author":{"role":"user"},
                  "content":{"content_type":"text","parts":["Hi"]}}},
                  "c":{"parent":"b","message":{"author":{"role":"assistant"},
                  "content":{"content_type":"text","parts":["Yes?"]}}}}}]"#,
                &[(User, "Hi"), (Assistant, "Yes?")],
                "",
            ),
            (
                r#"{"system":"a","messages":[
                  {"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#,
                &[(System, "a"), (User, "Hi")],
                "",
            ),
            (
                r#"[{"role":"user","content":"Hi"},{"role":"narrator","content":"x"},
                  {"content":"y"}]"#,
                &[(User, "Hi")],
                "1 message (narrator), 1 message (without a role)",
            ),
            (
                r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":[
                  {"type":"refusal","refusal":"No."}]}]"#,
                &[(User, "Hi"), (Assistant, "No.")],
                "",
            ),
            (
                r#"[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"Hm",
                  "content":null}]"#,
                &[(User, "Hi"), (Assistant, "")],
                "",
            ),
            (r#"{"input":[{"role":"user","content":"Hi"}]}"#, &[(User, "Hi")], ""),
            (r#"[{"role":"User","content":""}]"#, &[(User, "")], ""),
        ];
        for (text, all, without) in cases {
            let (chat, left_out) = Exchange::Json.read(text).unwrap();
            let all: Vec<_> = all.iter().map(|(role, text)| (*role, (*text).to_owned())).collect();
            let read = chat.turns.into_iter().map(|turn| (turn.message.role, turn.message.content));
            assert_eq!(read.collect::<Vec<_>>(), all, "{text}");
            assert_eq!(left_out.to_string(), without, "{text}");
        }
        // A message in each line, as some logs have it.
        let lines = "{\"role\":\"user\",\"content\":\"Hi\"}\n\n\
                     {\"role\":\"assistant\",\"content\":\"Yes?\"}";
        assert_eq!(Exchange::ShareGpt.read(lines).unwrap().0.turns.len(), 2);
    }

    #[test]
    fn what_is_no_conversation_is_refused_with_the_reason() {
        for (way, text, why) in [
            (Exchange::Markdown, "# Notes", "no `<!-- dovetail: user -->` lines"),
            (Exchange::Json, "{", "not JSON"),
            (Exchange::Json, "{}", "no `messages`"),
            (Exchange::Json, r#"[{"role":"tool","content":"x"}]"#, "only 1 message (tool)"),
            (Exchange::Json, "[]", "no message from a user"),
            (Exchange::ShareGpt, "", "not JSON"),
        ] {
            let error = way.read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Exchange::of_name("chat.txt").unwrap_err().contains(".jsonl"));
    }
}
