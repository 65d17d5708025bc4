//! From a conversation to the text a model was trained on: the model's own Jinja template, or a
//! built-in one for models that carry none.

use std::sync::Arc;

use minijinja::{Value, context};

use super::jinja::{Fault, Jinja};
use super::prompt::{self, Controls, Marks};
use super::{Message, Prompt, Role, clock};

/// Why a conversation could not be written down.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The template is not valid Jinja.
    #[error(
        "the chat template of {origin} cannot be read: {reason}; \
         take another conversion of the model, or give a template of your own"
    )]
    Syntax {
        /// File the template came from.
        origin: String,
        /// What is wrong, with its line.
        reason: String,
    },
    /// The template refused this conversation or failed on it.
    #[error("the chat template of {origin} refuses this conversation: {reason}")]
    Render {
        /// File the template came from.
        origin: String,
        /// What the template says.
        reason: String,
    },
    /// The template asks for more than a template may.
    #[error(
        "the chat template of {origin} goes beyond a limit: {limit}; \
         take another conversion of the model"
    )]
    Limit {
        /// File the template came from.
        origin: String,
        /// Which, and how large it is.
        limit: String,
    },
}

impl TemplateError {
    fn new(origin: &str, fault: Fault) -> Self {
        let origin = origin.to_owned();
        match fault {
            Fault::Syntax(reason) => Self::Syntax { origin, reason },
            Fault::Refused(reason) => Self::Render { origin, reason },
            Fault::Limit(limit) => Self::Limit { origin, limit },
        }
    }
}

/// Texts of the special tokens a template may ask for; empty where the model has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialTokens {
    /// Begin of text, e.g. `<s>`.
    pub bos: String,
    /// End of text, e.g. `</s>`.
    pub eos: String,
    /// Unknown token.
    pub unk: String,
    /// Padding token.
    pub pad: String,
}

/// A chat template, ready to render. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    jinja: Arc<Jinja>,
    tokens: SpecialTokens,
    origin: String,
    system: SystemRole,
    stops: Vec<String>,
    adds_bos: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SystemRole {
    /// The template has a place for it.
    Kept,
    /// The template refuses or drops it: it opens the first user message instead.
    Folded,
}

const PLAIN: &str = "\
{%- for message in messages -%}
{%- if message.role == 'system' -%}{{ message.content }}{{ '\n\n' }}
{%- elif message.role == 'user' -%}{{ 'User: ' + message.content + '\n' }}
{%- else -%}{{ 'Assistant: ' + message.content + '\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}";

const VICUNA: &str = "\
{%- if messages[0].role == 'system' -%}
{%- set system = messages[0].content -%}{%- set turns = messages[1:] -%}
{%- else -%}
{%- set system = 'A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user\\'s questions.' -%}
{%- set turns = messages -%}
{%- endif -%}
{{ system }}
{%- for message in turns -%}
{%- if message.role == 'user' -%}{{ ' USER: ' + message.content }}
{%- else -%}{{ ' ASSISTANT: ' + message.content + eos_token }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ ' ASSISTANT:' }}{%- endif -%}";

impl ChatTemplate {
    /// Reads a model's template. `origin` names its file in errors.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`]; [`TemplateError::Limit`], also if the template cannot write down
    /// one short question within the limits.
    pub fn new(source: &str, origin: &str, tokens: SpecialTokens) -> Result<Self, TemplateError> {
        let jinja = Jinja::new(without_generation_marks(source));
        let mut template = Self {
            jinja: Arc::new(jinja.map_err(|fault| TemplateError::new(origin, fault))?),
            tokens,
            origin: origin.to_owned(),
            system: SystemRole::Kept,
            stops: Vec::new(),
            adds_bos: false,
        };
        template.system = template.probe_system()?;
        Ok(template)
    }

    /// The built-in template for a model that carries none: Vicuna's format if the model's name
    /// says so, else `User:` and `Assistant:` lines.
    ///
    /// # Errors
    /// As [`Self::new`], if the built-in text were damaged.
    pub fn built_in(model_name: &str, tokens: SpecialTokens) -> Result<Self, TemplateError> {
        let vicuna = model_name.to_lowercase().contains("vicuna");
        let (source, stop) = if vicuna { (VICUNA, "USER:") } else { (PLAIN, "\nUser:") };
        let mut template = Self::new(source, "dovetail's built-in format", tokens)?;
        template.stops = vec![stop.to_owned()];
        template.adds_bos = true;
        Ok(template)
    }

    /// Strings that end an answer beside the end-of-sequence tokens; none for a model's own
    /// template, which ends its turns by tokens.
    pub fn stop_strings(&self) -> &[String] {
        &self.stops
    }

    /// Whether the tokenizer must add the begin-of-text token itself: only the built-in formats
    /// leave it out; a model's own template writes it where the model wants it.
    pub fn wants_bos(&self) -> bool {
        self.adds_bos
    }

    /// The text of `messages`; with `generate`, up to where the assistant's answer begins. For a
    /// target take [`Self::prompt`]: here control tokens that somebody typed look like the
    /// template's.
    ///
    /// # Errors
    /// [`TemplateError::Render`] with the template's own words, or [`TemplateError::Limit`].
    pub fn render(&self, messages: &[Message], generate: bool) -> Result<String, TemplateError> {
        self.render_as_is(&self.shaped(messages), generate, clock::now())
    }

    /// The text of `messages` and the places of what they say in it, so that control tokens in
    /// those can be taken as text. `controls` tells where a text spells control tokens.
    ///
    /// # Errors
    /// As [`Self::render`]; also if the template turns what is said into control tokens of its own.
    pub fn prompt(
        &self,
        messages: &[Message],
        generate: bool,
        controls: Controls<'_>,
    ) -> Result<Prompt, TemplateError> {
        let messages = &self.shaped(messages);
        let now = clock::now();
        let plain = self.render_as_is(messages, generate, now);
        if let Err(TemplateError::Limit { .. }) = plain {
            return plain.map(|_| Prompt::default());
        }
        let texts = messages.iter().map(|message| message.content.as_str());
        let Some(sign) = prompt::unused_sign(texts.chain(plain.as_deref().ok())) else {
            return Err(self.refused("the messages use up the characters to mark them by"));
        };
        let read = |marks| {
            let marked = prompt::marked(messages, sign, marks);
            let text = self.render_as_is(&marked, generate, now)?;
            Ok::<_, TemplateError>(Prompt::read(&text, sign))
        };
        let every = match (read(Marks::Every), &plain) {
            // The template's own complaint, about what was said and not about the signs in it.
            (Err(_), Err(_)) => return plain.map(|_| Prompt::default()),
            (every, _) => every?,
        };
        if plain.is_ok_and(|text| text == every.text) {
            return Ok(every);
        }
        // The template looks into what is said, for thoughts to cut out, say: so only control
        // tokens are marked. Then it must not make any out of the rest.
        let prompt = read(Marks::Controls(controls))?;
        if prompt.own_controls(controls) != every.own_controls(controls) {
            return Err(self.refused("it makes control tokens out of what the messages say"));
        }
        Ok(prompt)
    }

    fn refused(&self, reason: &str) -> TemplateError {
        TemplateError::Render { origin: self.origin.clone(), reason: reason.to_owned() }
    }

    fn shaped(&self, messages: &[Message]) -> Vec<Message> {
        match self.system {
            SystemRole::Kept => messages.to_vec(),
            SystemRole::Folded => folded(messages),
        }
    }

    /// What the template writes right behind an answer, e.g. `<|im_end|>\n`: it begins with the
    /// token that ends a turn. `None` if that cannot be told.
    pub fn end_of_turn(&self) -> Option<String> {
        const ANSWER: &str = "dovetail-probe-answer";
        let conversation = [message(Role::User, "question"), message(Role::Assistant, ANSWER)];
        let text = self.render(&conversation, false).ok()?;
        text.rsplit_once(ANSWER).map(|(_, after)| after.to_owned())
    }

    fn render_as_is(
        &self,
        messages: &[Message],
        generate: bool,
        now: u64,
    ) -> Result<String, TemplateError> {
        let said = messages.iter().map(|message| message.content.len()).sum();
        let turns = messages.len();
        let messages: Vec<Value> = messages
            .iter()
            .map(|message| {
                let role = match message.role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                };
                context! { role => role, content => message.content.as_str() }
            })
            .collect();
        let root = context! {
            messages => messages,
            add_generation_prompt => generate,
            bos_token => self.tokens.bos.as_str(),
            eos_token => self.tokens.eos.as_str(),
            unk_token => self.tokens.unk.as_str(),
            pad_token => self.tokens.pad.as_str(),
            tools => (),
            documents => (),
        };
        let text = self.jinja.render(&root, said, turns, now);
        text.map_err(|fault| TemplateError::new(&self.origin, fault))
    }

    /// Tries a system message: a template that refuses it or leaves it out gets it folded.
    fn probe_system(&self) -> Result<SystemRole, TemplateError> {
        const SYSTEM: &str = "dovetail-probe-system";
        let question = message(Role::User, "question");
        let now = clock::now();
        let with = self.render_as_is(&[message(Role::System, SYSTEM), question.clone()], true, now);
        if with.is_ok_and(|text| text.contains(SYSTEM)) {
            return Ok(SystemRole::Kept);
        }
        // Only a template that works without it can be said to refuse the system message.
        match self.render_as_is(&[question], true, now) {
            Ok(_) => Ok(SystemRole::Folded),
            Err(limit @ TemplateError::Limit { .. }) => Err(limit),
            Err(_) => Ok(SystemRole::Kept),
        }
    }
}

fn message(role: Role, content: &str) -> Message {
    Message { role, content: content.to_owned() }
}

/// Moves leading system messages into the first user message, a blank line between.
fn folded(messages: &[Message]) -> Vec<Message> {
    let mut system = String::new();
    let mut turns = Vec::new();
    for message in messages {
        if message.role == Role::System {
            system += &message.content;
            system += "\n\n";
        } else if message.role == Role::User && !system.is_empty() {
            let content = std::mem::take(&mut system) + &message.content;
            turns.push(Message { role: Role::User, content });
        } else {
            turns.push(message.clone());
        }
    }
    turns
}

/// Training templates mark the assistant's text with `{% generation %}`, a tag that Jinja itself
/// does not know and that writes nothing: an `if true` with the same whitespace marks.
fn without_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        // Behind the opening: the percent sign of `{%}` is not both.
        let inner = start + 2;
        let Some(length) = rest[inner..].find("%}") else { break };
        let tag = &rest[inner..inner + length];
        let replacement = match tag.trim_matches(['-', '+', ' ', '\t', '\n', '\r']) {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        out += &rest[..inner];
        match replacement {
            Some(replacement) => {
                let mark = |c: Option<char>| c.filter(|c| matches!(c, '-' | '+'));
                out.extend(mark(tag.chars().next()));
                out.extend([" ", replacement, " "]);
                out.extend(mark(tag.chars().last()));
            }
            None => out += tag,
        }
        out += "%}";
        rest = &rest[inner + length + 2..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_marks_write_nothing() {
        let source = "{% for m in messages %}{%- generation -%} {{ m.content }} {% endgeneration %}\n!{% endfor %}";
        let template = ChatTemplate::new(source, "test", SpecialTokens::default()).unwrap();
        let text = template.render(&[message(Role::User, "hi")], false).unwrap();
        assert_eq!(text, "hi !");
    }

    #[test]
    fn an_opening_that_overlaps_a_closing_is_a_syntax_error() {
        for source in ["{%}", "{% if true %}a{%}", "{%}generation%}"] {
            let error = ChatTemplate::new(source, "test", SpecialTokens::default()).unwrap_err();
            assert!(matches!(error, TemplateError::Syntax { .. }), "{source}: {error}");
        }
    }

    #[test]
    fn a_broken_template_names_file_and_line() {
        let source = "line one\n{% if %}";
        let error = ChatTemplate::new(source, "model.gguf", SpecialTokens::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("model.gguf") && text.contains("line 2"), "{text}");
    }

    #[test]
    fn json_is_written_as_python_does() {
        let source = "{{ messages[0] | tojson }}|{{ messages[0] | tojson(indent=2) }}";
        let template = ChatTemplate::new(source, "test", SpecialTokens::default()).unwrap();
        let text = template.render(&[message(Role::User, "<b> & 'c'")], false).unwrap();
        assert_eq!(
            text,
            "{\"role\": \"user\", \"content\": \"<b> & 'c'\"}|{\n  \"role\": \"user\",\n  \"content\": \"<b> & 'c'\"\n}"
        );
    }
}
