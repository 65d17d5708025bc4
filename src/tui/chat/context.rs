//! How full the context is, and what the user can do about it. Must never know where it is shown.

use crate::tui::state::ScreenState;

/// The context after the latest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextUsage {
    /// Tokens that prompt and answer take; a prompt that was refused may take more than there are.
    pub used: usize,
    /// Tokens it holds.
    pub holds: usize,
    /// Tokens the model was made for; 0 if that is not known.
    pub most: usize,
    /// Tokens of a prompt that was refused, without what was said before the last message; `None`
    /// if that is not known.
    pub alone: Option<usize>,
}

impl ContextUsage {
    /// Whether so little is left that it is time to say so: from 80 % on.
    pub fn is_short(self) -> bool {
        self.used * 5 >= self.holds * 4
    }

    /// Whether nothing is left.
    pub fn is_full(self) -> bool {
        self.used >= self.holds
    }

    /// Whether the last message does not fit even if all is forgotten that was said before it.
    pub fn never_fits(self) -> bool {
        self.alone.is_some_and(|alone| alone > self.holds)
    }

    /// Whether starting again with a larger `--context` would help.
    fn can_grow(self) -> bool {
        self.most == 0 || self.most > self.holds
    }

    /// How full it is and the ways out, in `width` columns; `None` while there is room, and where
    /// not even the shortest words fit.
    pub fn warning(self, width: usize) -> Option<String> {
        if !self.is_short() {
            return None;
        }
        let Self { used, holds, .. } = self;
        let full = if self.is_full() {
            "context full".to_string()
        } else {
            format!("context {}% full", used * 100 / holds.max(1))
        };
        let count = format!("{} of {holds}", used.min(holds));
        let (long, short) = if self.can_grow() {
            (", or start with a larger --context", ", a larger --context")
        } else {
            ("; the model has no room for more", "")
        };
        [
            format!("{full}, {count} tokens: /when-full makes room, /new starts over{long}"),
            format!("{full}, {count}: /when-full, /new{short}"),
            format!("{full}: /when-full, /new{short}"),
            format!("{full}: /when-full, /new"),
            full,
        ]
        .into_iter()
        .find(|words| words.chars().count() <= width)
    }

    /// What to do about a prompt that does not fit: a message, or an answer that `key` was to go
    /// on with.
    pub fn refusal(self, key: Option<String>) -> String {
        let Self { used, holds, most, alone } = self;
        let grow = if !self.can_grow() {
            format!("This model has room for {holds} tokens at most.")
        } else if most == 0 {
            "Or start with a larger --context N and bring this conversation back with /load."
                .to_string()
        } else {
            format!(
                "Or start with --context N, up to {most} tokens with this model, and bring this \
                 conversation back with /load."
            )
        };
        let alone = if self.never_fits() { alone } else { None };
        let what = match (alone, &key) {
            (Some(alone), None) => format!(
                "This message alone has {alone} tokens, and the context holds {holds}: it would \
                 not fit even if everything before it were forgotten. Nothing is lost: the message \
                 is back in the input box."
            ),
            (Some(alone), Some(_)) => format!(
                "The last question and its answer alone have {alone} tokens, and the context \
                 holds {holds}: there is no room to continue. Nothing is lost."
            ),
            (None, None) => format!(
                "With this message the conversation has {used} tokens, and the context holds \
                 {holds}. Nothing is lost: the message is back in the input box."
            ),
            (None, Some(_)) => format!(
                "The conversation has {used} tokens, and the context holds {holds}: the answer \
                 has no room to continue. Nothing is lost."
            ),
        };
        let room = match (alone, key) {
            (Some(_), None) => "Shorten it, or send it in parts.".to_string(),
            (Some(_), Some(_)) => {
                "/new starts a new conversation; this one stays saved.".to_string()
            }
            (None, key) => format!(
                "To make room, drop the oldest exchanges with /when-full forget (or summarise), \
                 then {}.\n\
                 /new starts a new conversation; this one stays saved.",
                key.map_or_else(|| "send it again".to_string(), |key| format!("press {key} again"))
            ),
        };
        format!("{what}\n\n{room}\n{grow}")
    }
}

impl ScreenState {
    /// How full the context is; `None` while nothing is loaded.
    pub fn context(&self) -> Option<ContextUsage> {
        let ready = self.models.ready.as_ref()?;
        let used = self.meters.answer.context();
        let alone = self.meters.answer.alone;
        Some(ContextUsage { used, holds: ready.context, most: ready.most_context, alone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(used: usize) -> ContextUsage {
        ContextUsage { used, holds: 1000, most: 4000, alone: None }
    }

    #[test]
    fn the_warning_begins_at_80_percent_and_names_the_remedies() {
        assert_eq!(context(799).warning(200), None);
        let near = context(800).warning(200).unwrap();
        assert!(near.starts_with("context 80% full, 800 of 1000 tokens"), "{near}");
        assert!(context(999).warning(200).unwrap().starts_with("context 99% full"));
        let full = context(1001).warning(200).unwrap();
        assert!(full.starts_with("context full, 1000 of 1000 tokens"), "{full}");
        for words in [near, full, context(999).warning(60).unwrap(), context(1000).refusal(None)] {
            for way in ["/new", "/when-full", "--context"] {
                assert!(words.contains(way), "{words}");
            }
        }
    }

    #[test]
    fn a_message_that_never_fits_is_told_with_its_own_tokens() {
        let large = ContextUsage { alone: Some(1200), ..context(1500) };
        let words = large.refusal(None);
        assert!(large.never_fits() && words.contains("1200") && words.contains("in parts"));
        assert!(!words.contains("1500") && !words.contains("/new"), "{words}");
        for alone in [None, Some(1000)] {
            let fits = ContextUsage { alone, ..context(1500) };
            assert!(!fits.never_fits() && fits.refusal(None).contains("1500"), "{alone:?}");
        }
    }

    #[test]
    fn an_answer_that_cannot_go_on_is_no_message_that_came_back() {
        for alone in [None, Some(1200)] {
            let full = ContextUsage { alone, ..context(1500) };
            let words = full.refusal(Some("Enter".to_string()));
            assert!(words.contains("to continue") && !words.contains("input box"), "{words}");
            assert!(words.contains("--context") && words.contains("/new"), "{words}");
            // Nothing that is forgotten would help the second.
            assert_eq!(words.contains("/when-full") && words.contains("Enter"), alone.is_none());
        }
    }

    #[test]
    fn a_larger_context_is_named_only_if_the_model_has_one() {
        let most = ContextUsage { most: 1000, ..context(1000) };
        for width in [200, 72, 40] {
            let words = most.warning(width).unwrap();
            assert!(!words.contains("--context") && words.chars().count() <= width, "{words}");
        }
        assert!(most.refusal(None).contains("1000 tokens at most"));
    }

    #[test]
    fn a_narrow_screen_gets_fewer_words() {
        for width in 0..200 {
            if let Some(words) = context(900).warning(width) {
                assert!(words.chars().count() <= width);
            }
        }
        assert_eq!(context(900).warning(20).as_deref(), Some("context 90% full"));
        assert_eq!(context(900).warning(5), None);
    }
}
