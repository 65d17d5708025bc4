//! Conversations in the formats of other programs: Markdown for people, JSON with `messages`, and
//! JSON lines in ShareGPT's form, which `train` reads. It must not depend on files.

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

    /// The conversation in a file's text; the first one of several.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(self, text: &str) -> Result<SavedChat, String> {
        let messages = match self {
            Self::Markdown => read_markdown(text)?,
            Self::Json => read_json(&parse(text)?)?,
            Self::ShareGpt => {
                let line = text.lines().find(|line| !line.trim().is_empty());
                read_json(&parse(line.unwrap_or_default())?)?
            }
        };
        if !messages.iter().any(|message| message.role == Role::User) {
            return Err("it has no message from a user".to_owned());
        }
        Ok(messages.into_iter().map(SavedTurn::whole).collect::<Vec<_>>().into())
    }
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

/// Messages of an object with `messages`, `conversations` or `conversation`, or of a bare list.
fn read_json(value: &Value) -> Result<Vec<Message>, String> {
    let fields = ["messages", "conversations", "conversation"];
    let list = fields.iter().find_map(|field| value.get(field)?.as_array());
    let list = list.or(value.as_array()).ok_or("it has no `messages` and no `conversations`")?;
    let message = |(at, item): (usize, &Value)| {
        let field = |names: [&str; 2]| {
            names.iter().find_map(|name| item.get(name)?.as_str()).unwrap_or_default()
        };
        let name = field(["role", "from"]);
        let content = field(["content", "value"]);
        let role = Role::named(name).ok_or(format!("message {}: unknown role `{name}`", at + 1))?;
        Ok(Message::new(role, content))
    };
    list.iter().enumerate().map(message).collect()
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
                prop_assert_eq!(&way.read(&way.write(&turns)).unwrap().turns, &turns, "{:?}", way);
            }
        }
    }

    #[test]
    fn files_of_others_are_read() {
        let open_ai = r#"[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes?"}]"#;
        let turns = Exchange::Json.read(open_ai).unwrap().turns;
        assert_eq!(turns, [said(Role::User, "Hi"), said(Role::Assistant, "Yes?")]);
        let share = r#"{"id":"x","conversations":[{"from":"human","value":"Hi"}]}"#;
        assert_eq!(Exchange::ShareGpt.read(share).unwrap().turns, [said(Role::User, "Hi")]);
        // An editor on Windows ends each line in `\r\n`.
        let written = Exchange::Markdown.write(&turns).replace('\n', "\r\n");
        assert_eq!(Exchange::Markdown.read(&written).unwrap().turns, turns);
    }

    #[test]
    fn what_is_no_conversation_is_refused_with_the_reason() {
        for (way, text, why) in [
            (Exchange::Markdown, "# Notes", "no `<!-- dovetail: user -->` lines"),
            (Exchange::Json, "{", "not JSON"),
            (Exchange::Json, "{}", "no `messages`"),
            (Exchange::Json, r#"[{"role":"tool","content":"x"}]"#, "`tool`"),
            (Exchange::Json, "[]", "no message from a user"),
            (Exchange::ShareGpt, "", "not JSON"),
        ] {
            let error = way.read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Exchange::of_name("chat.txt").unwrap_err().contains(".jsonl"));
    }
}
