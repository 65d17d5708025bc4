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
        let Self { used, holds, .. } = self;
        // From 80 % on so little is left that it is time to say so.
        if used * 5 < holds * 4 {
            return None;
        }
        let full = match self.is_full() {
            true => "context full".to_string(),
            false => format!("context {}% full", used * 100 / holds.max(1)),
        };
        let count = format!("{} of {holds}", used.min(holds));
        let (long, short) = if self.can_grow() {
            (", or start with a larger --context", ", a larger --context")
        } else {
            ("; the model has no room for more", "")
        };
        let all = [
            format!("{full}, {count} tokens: /when-full makes room, /new starts over{long}"),
            format!("{full}, {count}: /when-full, /new{short}"),
            format!("{full}: /when-full, /new{short}"),
            format!("{full}: /when-full, /new"),
            full,
        ];
        all.into_iter().find(|words| words.chars().count() <= width)
    }

    /// That the prompt does not fit: a message, or an answer that was to continue.
    pub fn excess(self, goes_on: bool) -> String {
        let Self { used, holds, .. } = self;
        match goes_on {
            true => format!(
                "The conversation has {used} tokens, and the context holds {holds}: the answer has \
                 no room to continue."
            ),
            false => format!(
                "With this message the conversation has {used} tokens, and the context holds \
                 {holds}."
            ),
        }
    }

    /// What to do about a prompt that does not fit: a message, or an answer that `key` was to go
    /// on with.
    pub fn refusal(self, key: Option<String>) -> String {
        let Self { holds, most, .. } = self;
        let excess = self.excess(key.is_some());
        let back = "and bring this conversation back with /load.";
        let grow = match most {
            _ if !self.can_grow() => format!("This model has room for {holds} tokens at most."),
            0 => format!("Or start with a larger --context N {back}"),
            _ => format!("Or start with --context N, up to {most} tokens with this model, {back}"),
        };
        let new = "/new starts a new conversation; this one stays saved.";
        let returned = "Nothing is lost: the message is back in the input box.";
        let make_room = |again: &str| {
            format!(
                "To make room, drop the oldest exchanges with /when-full forget (or summarise), \
                 then {again}.\n{new}"
            )
        };
        let alone = if self.never_fits() { self.alone } else { None };
        let (what, room) = match (alone, key) {
            (Some(alone), None) => (
                format!(
                    "This message alone has {alone} tokens, and the context holds {holds}: it \
                     would not fit even if everything before it were forgotten. {returned}"
                ),
                "Shorten it, or send it in parts.".to_string(),
            ),
            (Some(alone), Some(_)) => (
                format!(
                    "The last question and its answer alone have {alone} tokens, and the context \
                     holds {holds}: there is no room to continue. Nothing is lost."
                ),
                new.to_string(),
            ),
            (None, None) => (format!("{excess} {returned}"), make_room("send it again")),
            (None, Some(key)) => {
                (format!("{excess} Nothing is lost."), make_room(&format!("press {key} again")))
            }
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
    fn the_warning_begins_at_80_percent_and_names_the_remedies_that_fit() {
        assert_eq!(context(799).warning(200), None);
        for (used, width, begin) in [
            (800, 200, "context 80% full, 800 of 1000 tokens"),
            (999, 60, "context 99% full"),
            (1001, 200, "context full, 1000 of 1000 tokens"),
        ] {
            let words = context(used).warning(width).unwrap();
            assert!(words.starts_with(begin), "{words}");
            for way in ["/new", "/when-full", "--context"] {
                assert!(words.contains(way), "{words}");
            }
        }
        for width in 0..200 {
            let words = context(900).warning(width);
            assert!(words.is_none_or(|words| words.chars().count() <= width));
        }
        assert_eq!(context(900).warning(20).as_deref(), Some("context 90% full"));
        assert_eq!(context(900).warning(5), None);
    }

    #[test]
    fn a_refusal_has_the_figures_and_the_remedies_of_its_case() {
        let with = |most, alone, used| ContextUsage { most, alone, ..context(used) };
        let key = || Some("Enter".to_string());
        for (context, key, has, lacks) in [
            (
                context(1500),
                None,
                &["1500", "input box", "/when-full", "/new", "--context"][..],
                &[][..],
            ),
            (with(4000, Some(1000), 1500), None, &["1500"], &["1000 tokens,"]),
            // Nothing that is forgotten would help.
            (with(4000, Some(1200), 1500), None, &["1200", "in parts"], &["1500", "/new"]),
            (
                with(4000, Some(1200), 1500),
                key(),
                &["to continue", "/new"],
                &["/when-full", "input box"],
            ),
            (context(1500), key(), &["to continue", "/when-full", "Enter"], &["input box"]),
            (with(1000, None, 1000), None, &["1000 tokens at most"], &["--context"]),
        ] {
            let words = context.refusal(key);
            assert!(has.iter().all(|part| words.contains(part)), "{words}");
            assert!(!lacks.iter().any(|part| words.contains(part)), "{words}");
        }
    }

    #[test]
    fn a_larger_context_is_named_only_if_the_model_has_one() {
        let most = ContextUsage { most: 1000, ..context(1000) };
        for width in [200, 72, 40] {
            let words = most.warning(width).unwrap();
            assert!(!words.contains("--context") && words.chars().count() <= width, "{words}");
        }
    }
}
