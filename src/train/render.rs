//! A chat in the target's template and tokens, and which of the tokens are the assistant's. It must
//! not depend on files or features.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chat::{ChatTemplate, Message, Prompt, Role};
use crate::library::{TargetFiles, Tokenizer};

/// A chat as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The line of the chat in its file.
    pub line: usize,
    /// x_0 … x_{L−1}, cut at the window.
    pub tokens: Vec<u32>,
    /// The assistant's turns: ranges of positions, including the token that ends the turn.
    pub answers: Vec<Range<usize>>,
    /// Whether the window cut something off.
    pub cut: bool,
}

impl Text {
    /// `[L]`: whether x_i is the assistant's.
    pub fn mask(&self) -> Vec<bool> {
        let mut mask = vec![false; self.tokens.len()];
        for answer in &self.answers {
            mask[answer.clone()].fill(true);
        }
        mask
    }
}

/// Turns chats into [`Text`]s.
pub struct Renderer {
    template: ChatTemplate,
    tokenizer: Tokenizer,
    eos: Vec<u32>,
    window: usize,
    system: Option<String>,
}

impl Renderer {
    /// Renders this target's chats, up to `window` tokens of each. `system` is put before chats
    /// that have no system message.
    pub fn new(files: &TargetFiles, window: usize, system: Option<String>) -> Self {
        let template = files.template.clone();
        let tokenizer = files.tokenizer.clone();
        Self { template, tokenizer, eos: files.eos.clone(), window, system }
    }

    /// The tokens of a chat.
    ///
    /// # Errors
    /// Why nothing can be learnt from it, in a sentence.
    pub fn text(&self, line: usize, chat: &[Message]) -> Result<Text, String> {
        let chat = &self.opened(chat);
        let prompt = self.written(chat, false)?;
        let pieces = self.pieces(&prompt)?;
        let whole = prompt.text;
        let mut answers = Vec::new();
        let mut from = 0;
        for (index, message) in chat.iter().enumerate() {
            if message.role != Role::Assistant {
                continue;
            }
            let Some(said) = self.said(&whole, &chat[..index], message, from) else { continue };
            from = said.end;
            answers.extend(self.tokens_of(&pieces, said));
        }
        if answers.is_empty() {
            return Err("it contains no answer; with --self-answers the target answers".to_owned());
        }
        let begins = answers[0].start;
        if begins + 1 >= self.window {
            return Err(format!(
                "the first answer begins at token {begins}, after the window of {} tokens",
                self.window
            ));
        }
        let mut tokens: Vec<u32> = pieces.into_iter().map(|(token, _)| token).collect();
        let cut = tokens.len() > self.window;
        tokens.truncate(self.window);
        answers.retain_mut(|answer| {
            answer.end = answer.end.min(tokens.len());
            answer.start < answer.end
        });
        Ok(Text { line, tokens, answers, cut })
    }

    /// The prompt of a chat that ends with a question.
    ///
    /// # Errors
    /// The target's template or tokenizer does not accept it.
    pub fn prompt(&self, chat: &[Message]) -> Result<Vec<u32>, String> {
        let pieces = self.pieces(&self.written(&self.opened(chat), true)?)?;
        Ok(pieces.into_iter().map(|(token, _)| token).collect())
    }

    fn pieces(&self, prompt: &Prompt) -> Result<Vec<(u32, Range<usize>)>, String> {
        let pieces = self.tokenizer.encode_whole(prompt, self.template.wants_bos());
        pieces.map_err(|error| error.to_string())
    }

    fn opened(&self, chat: &[Message]) -> Vec<Message> {
        let has_system = chat.first().is_some_and(|message| message.role == Role::System);
        let system = self.system.iter().filter(|_| !has_system);
        let system = system.map(|text| Message::new(Role::System, text.clone()));
        system.chain(chat.iter().cloned()).collect()
    }

    fn written(&self, chat: &[Message], generate: bool) -> Result<Prompt, String> {
        let controls = |text: &str| self.tokenizer.controls_in(text);
        let prompt = self.template.prompt(chat, generate, &controls);
        prompt.map_err(|error| error.to_string())
    }

    /// Where in `whole` the assistant says `message` after `before`: from the beginning of its
    /// turn. `None` if the template leaves it out, as some do with old reasoning.
    fn said(
        &self,
        whole: &str,
        before: &[Message],
        message: &Message,
        from: usize,
    ) -> Option<Range<usize>> {
        // Up to where the target would begin to answer; without the end of the prompt if a template
        // opens a complete answer in a different way.
        let begins = [true, false].into_iter().find_map(|generate| {
            let text = self.written(before, generate).ok()?.text;
            (whole.starts_with(&text) && text.len() >= from).then_some(text.len())
        })?;
        let words = message.content.trim();
        let start = begins + whole[begins..].find(words)?;
        Some(start..start + words.len())
    }

    /// The tokens that hold `said`, and the token that ends the turn if it follows immediately.
    fn tokens_of(
        &self,
        pieces: &[(u32, Range<usize>)],
        said: Range<usize>,
    ) -> Option<Range<usize>> {
        // Some tokenizers exclude white space from a token's place, which can then be empty.
        let holds = |(_, place): &(u32, Range<usize>)| {
            place.start.max(said.start) < place.end.min(said.end)
        };
        let start = pieces.iter().position(holds)?;
        let last = pieces.iter().rposition(holds)?;
        let ends = pieces.get(last + 1).is_some_and(|(token, _)| self.eos.contains(token));
        Some(start..last + 1 + usize::from(ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::{Spec, open_target};

    fn chat(turns: &[(Role, &str)]) -> Vec<Message> {
        let message = |&(role, text): &(Role, &str)| Message::new(role, text.to_owned());
        turns.iter().map(message).collect()
    }

    fn bundled() -> TargetFiles {
        open_target(&Spec::Bundled, &mut |_| {}).unwrap()
    }

    /// The assistant's tokens, separately for each turn.
    fn spoken(files: &TargetFiles, text: &Text) -> Vec<String> {
        let label = |&token: &u32| files.tokenizer.label(token);
        let turn = |answer: &Range<usize>| text.tokens[answer.clone()].iter().map(label).collect();
        text.answers.iter().map(turn).collect()
    }

    #[test]
    fn the_mask_is_on_what_the_target_would_write() {
        let files = bundled();
        let renderer = Renderer::new(&files, 256, None);
        // The answers' words also occur in the questions and in the template's own text.
        let turns = [
            (Role::User, "assistant or user?"),
            (Role::Assistant, "  assistant \n"),
            (Role::User, "user"),
            (Role::Assistant, "user"),
        ];
        let text = renderer.text(7, &chat(&turns)).unwrap();
        assert_eq!(spoken(&files, &text), ["assistant<|end|>", "user<|end|>"]);
        assert_eq!((text.line, text.cut), (7, false));
        // What precedes an answer is the prompt that the program would use.
        let prompt = renderer.prompt(&chat(&turns[..3])).unwrap();
        assert_eq!(text.tokens[..text.answers[1].start], prompt);
        let mask = text.mask();
        let masked = mask.iter().filter(|&&m| m).count();
        assert_eq!(masked, text.answers.iter().map(ExactSizeIterator::len).sum::<usize>());
        assert!(mask[text.answers[0].start] && !mask[text.answers[0].start - 1]);
    }

    #[test]
    fn the_window_cuts_and_says_so() {
        let files = bundled();
        let long = "word ".repeat(100);
        let turns = [(Role::User, "Hi"), (Role::Assistant, long.as_str())];
        let text = Renderer::new(&files, 32, None).text(1, &chat(&turns)).unwrap();
        assert_eq!((text.tokens.len(), text.cut), (32, true));
        assert_eq!(text.answers.last().unwrap().end, 32);
        let turns = [(Role::User, long.as_str()), (Role::Assistant, "Hi")];
        let error = Renderer::new(&files, 32, None).text(1, &chat(&turns)).unwrap_err();
        assert!(error.to_string().contains("after the window of 32"), "{error}");
    }

    #[test]
    fn questions_alone_teach_nothing_and_a_system_message_is_put_in_front() {
        let files = bundled();
        let asked = chat(&[(Role::User, "Hi")]);
        let error = Renderer::new(&files, 99, None).text(1, &asked).unwrap_err();
        insta::assert_snapshot!(
            error,
            @"it contains no answer; with --self-answers the target answers"
        );
        let brief = Renderer::new(&files, 99, Some("Be brief.".to_owned()));
        let prompt = brief.prompt(&asked).unwrap();
        assert!(files.tokenizer.text(&prompt).starts_with("Be brief."));
        let own = chat(&[(Role::System, "Sing."), (Role::User, "Hi")]);
        assert!(!files.tokenizer.text(&brief.prompt(&own).unwrap()).contains("brief"));
    }

    #[test]
    fn a_model_without_a_template_works_too() {
        let mut files = bundled();
        files.template = ChatTemplate::built_in("some model", Default::default()).unwrap();
        let turns = [(Role::User, "Hi"), (Role::Assistant, "Good day"), (Role::User, "Bye")];
        let text = Renderer::new(&files, 99, None).text(1, &chat(&turns)).unwrap();
        assert_eq!(spoken(&files, &text).concat().trim(), "Good day");
    }
}
