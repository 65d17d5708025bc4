//! From a conversation to the text a model was trained on: the model's own Jinja template, or a
//! built-in one for models that carry none.

use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};

use super::{Message, Role, clock, json};

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
    environment: Arc<Environment<'static>>,
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

/// What renders without end is cut off: no honest template needs as many steps.
const FUEL: u64 = 5_000_000;

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
    /// [`TemplateError::Syntax`].
    pub fn new(source: &str, origin: &str, tokens: SpecialTokens) -> Result<Self, TemplateError> {
        let syntax_error = |error: &Error| TemplateError::Syntax {
            origin: origin.to_owned(),
            reason: describe(error),
        };
        let mut environment = Environment::new();
        // As `transformers` sets up Jinja.
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|error| syntax_error(&error))?;
        environment.set_syntax(syntax);
        environment.set_fuel(Some(FUEL));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", json::tojson);
        environment.add_function("raise_exception", |message: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment
            .add_function("strftime_now", |format: String| clock::format(clock::now(), &format));
        environment
            .add_template_owned("chat", without_generation_marks(source))
            .map_err(|error| syntax_error(&error))?;
        let mut template = Self {
            environment: Arc::new(environment),
            tokens,
            origin: origin.to_owned(),
            system: SystemRole::Kept,
            stops: Vec::new(),
            adds_bos: false,
        };
        template.system = template.probe_system();
        Ok(template)
    }

    /// The built-in template for a model that carries none: Vicuna's format if the model's name
    /// says so, else `User:` and `Assistant:` lines.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`], if the built-in text were damaged.
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

    /// The prompt of `messages`; with `generate`, up to where the assistant's answer begins.
    ///
    /// # Errors
    /// [`TemplateError::Render`] with the template's own words.
    pub fn render(&self, messages: &[Message], generate: bool) -> Result<String, TemplateError> {
        match self.system {
            SystemRole::Kept => self.render_as_is(messages, generate),
            SystemRole::Folded => self.render_as_is(&folded(messages), generate),
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

    fn render_as_is(&self, messages: &[Message], generate: bool) -> Result<String, TemplateError> {
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
        let render = || {
            self.environment.get_template("chat")?.render(context! {
                messages => messages,
                add_generation_prompt => generate,
                bos_token => self.tokens.bos.as_str(),
                eos_token => self.tokens.eos.as_str(),
                unk_token => self.tokens.unk.as_str(),
                pad_token => self.tokens.pad.as_str(),
                tools => (),
                documents => (),
            })
        };
        render().map_err(|error| TemplateError::Render {
            origin: self.origin.clone(),
            reason: describe(&error),
        })
    }

    /// Tries a system message: a template that refuses it or leaves it out gets it folded.
    fn probe_system(&self) -> SystemRole {
        const SYSTEM: &str = "dovetail-probe-system";
        let question = message(Role::User, "question");
        let with = self.render_as_is(&[message(Role::System, SYSTEM), question.clone()], true);
        match with {
            Ok(text) if text.contains(SYSTEM) => SystemRole::Kept,
            // Only a template that works without it is at odds with the system message.
            _ if self.render_as_is(&[question], true).is_ok() => SystemRole::Folded,
            _ => SystemRole::Kept,
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
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start + 2..start + length];
        let replacement = match tag.trim_matches(['-', '+', ' ', '\t', '\n', '\r']) {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        out += &rest[..start + 2];
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
        rest = &rest[start + length + 2..];
    }
    out + rest
}

/// The error with its line and, for `raise_exception`, the template's own sentence.
fn describe(error: &Error) -> String {
    let text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{text} (line {line} of the template)"),
        None => text,
    }
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
    fn a_broken_template_names_file_and_line() {
        let source = "line one\n{% if %}";
        let error = ChatTemplate::new(source, "model.gguf", SpecialTokens::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("model.gguf") && text.contains("line 2"), "{text}");
    }

    #[test]
    fn an_endless_template_is_cut_off() {
        let source = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% endfor %}";
        let template = ChatTemplate::new(source, "test", SpecialTokens::default()).unwrap();
        let error = template.render(&[message(Role::User, "hi")], true).unwrap_err();
        assert!(matches!(error, TemplateError::Render { .. }), "{error}");
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
