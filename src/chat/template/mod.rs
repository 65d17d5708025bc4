//! From a conversation to the text that a model was trained on: with the model's own Jinja
//! template, or with a built-in one for models that have none.

mod built_in;
mod generation_marks;

use std::sync::Arc;

use minijinja::Value;

use super::jinja::{Fault, Jinja};
use super::prompt::{self, FindControls};
use super::{Message, Prompt, Role, clock};
pub(super) use generation_marks::without_generation_marks;

/// Why a conversation could not be rendered.
#[derive(Debug, thiserror::Error)]
#[error("the chat template of {origin} {fault}")]
pub struct TemplateError {
    /// The file that the template came from.
    origin: String,
    fault: Fault,
}

/// Texts of the special tokens that a template may use; empty if the model does not have them.
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
    /// Whether the template refuses or drops a system message, which is then put at the start of
    /// the first user message.
    folds_system: bool,
    /// Whether the template reads the content of messages as a list of parts.
    as_parts: bool,
    stops: Vec<String>,
    adds_bos: bool,
    for_base_model: bool,
    thinking: Option<bool>,
}

impl ChatTemplate {
    /// Reads a model's template, which may be the name of a format. `origin` names its file in
    /// errors.
    ///
    /// # Errors
    /// [`TemplateError`], also if the template cannot render one short question within the limits,
    /// or leaves it out.
    pub fn new(source: &str, origin: &str, tokens: SpecialTokens) -> Result<Self, TemplateError> {
        let source = built_in::named(source.trim()).unwrap_or(source);
        let failed = |fault| TemplateError { origin: origin.to_owned(), fault };
        let mut template = Self {
            jinja: Arc::new(Jinja::new(without_generation_marks(source)).map_err(failed)?),
            tokens,
            origin: origin.to_owned(),
            folds_system: false,
            as_parts: false,
            stops: Vec::new(),
            adds_bos: false,
            for_base_model: false,
            thinking: None,
        };
        template.as_parts = template.wants_parts()?;
        template.folds_system = template.lacks_system()?;
        Ok(template)
    }

    /// The built-in template for a model that has none: Vicuna's format if the model's name says
    /// so, otherwise `User:` and `Assistant:` lines.
    ///
    /// # Errors
    /// As [`Self::new`], if the built-in text were damaged.
    pub fn built_in(model_name: &str, tokens: SpecialTokens) -> Result<Self, TemplateError> {
        let (source, stop) = built_in::source_for(model_name);
        let mut template = Self::new(source, "dovetail's built-in format", tokens)?;
        template.stops = vec![stop.to_owned()];
        template.adds_bos = true;
        template.for_base_model = !built_in::says_chat(model_name);
        Ok(template)
    }

    /// Whether the model is probably a base model, which continues a text instead of answering: it
    /// carries no template, and its name does not say that it was trained to chat.
    pub fn is_for_base_model(&self) -> bool {
        self.for_base_model
    }

    /// Strings that end an answer in addition to the end-of-sequence tokens; none for a model's own
    /// template, which ends its turns with tokens.
    pub fn stop_strings(&self) -> &[String] {
        &self.stops
    }

    /// Whether the tokenizer must add the begin-of-text token itself. Only the built-in formats
    /// leave it out; a model's own template writes it where the model needs it.
    pub fn wants_bos(&self) -> bool {
        self.adds_bos
    }

    /// The same template with the model's thoughts switched on or off; `None` leaves that to the
    /// template.
    #[must_use]
    pub fn with_thinking(&self, thinking: Option<bool>) -> Self {
        Self { thinking, ..self.clone() }
    }

    /// Whether the template writes something else when thoughts are switched off.
    pub fn switches_thinking(&self) -> bool {
        let question = [Message::new(Role::User, "question")];
        let now = clock::now();
        let told =
            |thinking| self.with_thinking(Some(thinking)).render_as_is(&question, true, now).ok();
        told(true) != told(false)
    }

    /// The text of `messages`; with `generate`, up to where the assistant's answer begins. For a
    /// target use [`Self::prompt`]: here, control tokens that a user typed look like the
    /// template's.
    ///
    /// # Errors
    /// [`TemplateError`] with the template's own words, or a limit.
    pub fn render(&self, messages: &[Message], generate: bool) -> Result<String, TemplateError> {
        self.render_as_is(&self.shaped(messages), generate, clock::now())
    }

    /// The text of `messages` and the positions of their text in it, so that control tokens there
    /// can be read as text. `controls` finds where a text spells control tokens.
    ///
    /// # Errors
    /// As [`Self::render`]; also if the template turns the messages' text into control tokens of
    /// its own.
    pub fn prompt(
        &self,
        messages: &[Message],
        generate: bool,
        controls: FindControls<'_>,
    ) -> Result<Prompt, TemplateError> {
        let messages = &self.shaped(messages);
        let now = clock::now();
        let plain = self.render_as_is(messages, generate, now);
        if let Err(TemplateError { fault: Fault::Limit(_), .. }) = plain {
            return plain.map(|_| Prompt::default());
        }
        let texts = messages.iter().flat_map(Message::texts);
        let Some(sign) = prompt::unused_sign(texts.chain(plain.as_deref().ok())) else {
            return Err(self.refused("the messages contain every character that could mark them"));
        };
        let read = |controls| {
            let marked = prompt::marked(messages, sign, controls);
            let text = self.render_as_is(&marked, generate, now)?;
            Ok::<_, TemplateError>(Prompt::read(&text, sign))
        };
        let every = match (read(None), &plain) {
            // The template's own complaint, about the messages and not about the marks in them.
            (Err(_), Err(_)) => return plain.map(|_| Prompt::default()),
            (every, _) => every?,
        };
        if plain.is_ok_and(|text| text == every.text) {
            return Ok(every);
        }
        // The template examines the messages, for example to cut out thoughts, so only control
        // tokens are marked. Then it must not create any from the rest.
        let prompt = read(Some(controls))?;
        if prompt.own_controls(controls) != every.own_controls(controls) {
            return Err(self.refused("it turns text of the messages into control tokens"));
        }
        Ok(prompt)
    }

    fn refused(&self, reason: &str) -> TemplateError {
        let fault = Fault::Refused(reason.to_owned());
        TemplateError { origin: self.origin.clone(), fault }
    }

    fn shaped(&self, messages: &[Message]) -> Vec<Message> {
        if self.folds_system { folded(messages) } else { messages.to_vec() }
    }

    /// What the template writes right after an answer, e.g. `<|im_end|>\n`: it begins with the
    /// token that ends a turn. `None` if that cannot be determined.
    pub fn end_of_turn(&self) -> Option<String> {
        const ANSWER: &str = "dovetail-probe-answer";
        let conversation =
            [Message::new(Role::User, "question"), Message::new(Role::Assistant, ANSWER)];
        let text = self.render(&conversation, false).ok()?;
        text.rsplit_once(ANSWER).map(|(_, after)| after.to_owned())
    }

    fn render_as_is(
        &self,
        messages: &[Message],
        generate: bool,
        now: u64,
    ) -> Result<String, TemplateError> {
        let said = messages.iter().flat_map(Message::texts).map(str::len).sum();
        let turns = messages.len();
        let root = self.variables(messages, generate, now);
        let text = self.jinja.render(&root, said, turns, now);
        text.map_err(|fault| TemplateError { origin: self.origin.clone(), fault })
    }

    /// The variables that `transformers` passes to a template, and others that published templates
    /// use. What is left out is undefined, so that a template's own default applies.
    fn variables(&self, messages: &[Message], generate: bool, now: u64) -> Value {
        let messages = messages.iter().map(|message| variables_of(message, self.as_parts));
        let messages: Vec<Value> = messages.collect();
        let tokens = &self.tokens;
        let mut root = vec![
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(generate)),
            ("bos_token", Value::from(tokens.bos.as_str())),
            ("eos_token", Value::from(tokens.eos.as_str())),
            ("unk_token", Value::from(tokens.unk.as_str())),
            ("pad_token", Value::from(tokens.pad.as_str())),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            // For Llama 3; without it, older templates state a date from their training.
            ("date_string", Value::from(clock::local(now, "%d %b %Y"))),
        ];
        if let Some(thinking) = self.thinking {
            // The first is used by Qwen3, SmolLM3 and similar models; the second by Granite and
            // DeepSeek; the third, in tokens, by Seed-OSS, where it has no limit unless one is set.
            root.push(("enable_thinking", Value::from(thinking)));
            root.push(("thinking", Value::from(thinking)));
            if !thinking {
                root.push(("thinking_budget", Value::from(0)));
            }
        }
        Value::from_pairs(root)
    }

    /// Tries a question: whether it is rendered only if it is a list of parts.
    fn wants_parts(&self) -> Result<bool, TemplateError> {
        const QUESTION: &str = "dovetail-probe-question";
        let question = [Message::new(Role::User, QUESTION)];
        let now = clock::now();
        let told = |as_parts| Self { as_parts, ..self.clone() }.render_as_is(&question, true, now);
        let says = |text: &Result<String, _>| text.as_ref().is_ok_and(|it| it.contains(QUESTION));
        let plain = told(false);
        if says(&plain) {
            return Ok(false);
        }
        match plain {
            _ if says(&told(true)) => Ok(true),
            Ok(_) => Err(self.refused("it leaves out what the user says")),
            Err(limit @ TemplateError { fault: Fault::Limit(_), .. }) => Err(limit),
            // It may refuse a question without a system message, or one that is so short.
            Err(_) => Ok(false),
        }
    }

    /// Tries a system message: whether the template refuses it or leaves it out.
    fn lacks_system(&self) -> Result<bool, TemplateError> {
        const SYSTEM: &str = "dovetail-probe-system";
        let question = Message::new(Role::User, "question");
        let now = clock::now();
        let with =
            self.render_as_is(&[Message::new(Role::System, SYSTEM), question.clone()], true, now);
        if with.is_ok_and(|text| text.contains(SYSTEM)) {
            return Ok(false);
        }
        // Only a template that works without the system message can be said to refuse it.
        match self.render_as_is(&[question], true, now) {
            Ok(_) => Ok(true),
            Err(limit @ TemplateError { fault: Fault::Limit(_), .. }) => Err(limit),
            Err(_) => Ok(false),
        }
    }
}

/// A message in the form in which templates read it. Thoughts have two names: Qwen3's and
/// gpt-oss's.
fn variables_of(message: &Message, as_parts: bool) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let content = Value::from(message.content.as_str());
    let content = match as_parts {
        true => Value::from(vec![Value::from_pairs([("type", "text".into()), ("text", content)])]),
        false => content,
    };
    let mut fields = vec![("role", Value::from(role)), ("content", content)];
    if let Some(thought) = &message.thought {
        let thought = Value::from(thought.as_str());
        fields.extend([("reasoning_content", thought.clone()), ("thinking", thought)]);
    }
    Value::from_pairs(fields)
}

/// Moves leading system messages into the first user message, separated by a blank line.
fn folded(messages: &[Message]) -> Vec<Message> {
    let mut system = String::new();
    let mut turns = Vec::new();
    for message in messages {
        if message.role == Role::System {
            system += &message.content;
            system += "\n\n";
        } else if message.role == Role::User && !system.is_empty() {
            let content = std::mem::take(&mut system) + &message.content;
            turns.push(Message::new(Role::User, content));
        } else {
            turns.push(message.clone());
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_marks_write_nothing() {
        let source = "{% for m in messages %}{%- generation -%} {{ m.content }} {% endgeneration %}\n!{% endfor %}";
        let template = ChatTemplate::new(source, "test", SpecialTokens::default()).unwrap();
        let text = template.render(&[Message::new(Role::User, "hi")], false).unwrap();
        assert_eq!(text, "hi !");
    }

    #[test]
    fn an_opening_that_overlaps_a_closing_is_a_syntax_error() {
        for source in ["{%}", "{% if true %}a{%}", "{%}generation%}"] {
            let error = ChatTemplate::new(source, "test", SpecialTokens::default()).unwrap_err();
            assert!(matches!(error.fault, Fault::Syntax(_)), "{source}: {error}");
        }
    }

    #[test]
    fn what_the_user_says_gets_through_or_the_template_is_refused() {
        let new = |source: &str| ChatTemplate::new(source, "a.gguf", SpecialTokens::default());
        let question = [Message::new(Role::System, "Brief."), Message::new(Role::User, "Why?")];
        let parts = "{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}\
                     {{ m.role }}: {{ part.text }}\n{% endif %}{% endfor %}{% endfor %}";
        let text = new(parts).unwrap().render(&question, true).unwrap();
        assert_eq!(text, "system: Brief.\nuser: Why?\n");
        let text = new(" chatml\n").unwrap().render(&question, true).unwrap();
        let expected = "<|im_start|>system\nBrief.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n\
                        <|im_start|>assistant\n";
        assert_eq!(text, expected);
        for source in
            ["llama3", "{{ bos_token }}", "{% for m in messages %}{{ m.role }}{% endfor %}"]
        {
            let error = new(source).unwrap_err().to_string();
            assert!(error.contains("a.gguf") && error.contains("what the user says"), "{error}");
        }
    }

    #[test]
    fn a_model_without_a_template_is_a_base_model_unless_its_name_says_chat() {
        let is_base = |name| {
            ChatTemplate::built_in(name, SpecialTokens::default()).unwrap().is_for_base_model()
        };
        for name in ["Llama-2-7b", "Qwen2.5-0.5B", "gpt2", "Deity 1B", ""] {
            assert!(is_base(name), "{name}");
        }
        for name in
            ["vicuna-7b-v1.3", "Llama-2-7b-chat-hf", "SmolLM2-135M-Instruct", "gemma-2-2b-it"]
        {
            assert!(!is_base(name), "{name}");
        }
        // A template of its own is made to chat, even if the name does not say so.
        let own = ChatTemplate::new("{{ messages }}", "test", SpecialTokens::default()).unwrap();
        assert!(!own.is_for_base_model());
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
        let text = template.render(&[Message::new(Role::User, "<b> & 'c'")], false).unwrap();
        assert_eq!(
            text,
            "{\"role\": \"user\", \"content\": \"<b> & 'c'\"}|\
            {\n  \"role\": \"user\",\n  \"content\": \"<b> & 'c'\"\n}"
        );
    }
}
