//! An answer while its tokens arrive: its text, and why it ends. It must not depend on why a token
//! was chosen.

use super::engine::Request;
use super::round::{Committed, Finish, Origin, Summary};
use super::text::{TextStream, TokenText};

/// The text of one answer and what ends it.
pub(super) struct Answer {
    eos: Vec<u32>,
    /// The most tokens, at least 1.
    pub(super) max_tokens: usize,
    pub(super) stream: TextStream,
}

impl Answer {
    pub(super) fn new(request: &Request) -> Self {
        let stream = TextStream::new(&request.stop);
        Self { eos: request.eos.clone(), max_tokens: request.max_tokens.max(1), stream }
    }

    /// Appends a token, counts it in `summary` and decides whether the answer ends with it.
    pub(super) fn emit(
        &mut self,
        token: u32,
        origin: Origin,
        summary: &mut Summary,
        names: &dyn TokenText,
    ) -> Committed {
        summary.tokens += 1;
        let mut committed = Committed { token, text: String::new(), thought: None, origin };
        if self.eos.contains(&token) {
            summary.finish = Some(Finish::Eos);
        } else {
            let piece = self.stream.push(token, names);
            committed.text = piece.text;
            if piece.stopped {
                summary.finish = Some(Finish::StopString);
                return committed;
            }
            if summary.tokens >= self.max_tokens {
                summary.finish = Some(Finish::MaxTokens);
            }
        }
        if summary.finish.is_some() {
            self.flush(Some(&mut committed), names);
        }
        committed
    }

    /// Gives the held text to the answer's last token.
    pub(super) fn flush(&mut self, last: Option<&mut Committed>, names: &dyn TokenText) {
        if let Some(last) = last {
            last.text.push_str(&self.stream.finish(names));
        }
    }
}
