//! After an answer, a line in the place of the keys about a feature that was not used here yet.
//! Each is shown once. Must never know which file remembers it.

use crate::chat::SessionStore;
use crate::tui::actions::Action as A;
use crate::tui::display::Focus;
use crate::tui::event::Effect;
use crate::tui::state::ScreenState;

/// Answers of a run before the first tip: by then the screen is no longer new.
const AFTER: usize = 2;

/// A feature that is easily missed.
#[derive(Debug)]
struct Tip {
    /// Its name in the file.
    name: &'static str,
    /// Whether this action uses it.
    is_used_by: fn(A) -> bool,
    words: fn(&ScreenState) -> String,
}

#[rustfmt::skip] // A row per tip.
const TIPS: &[Tip] = &[
    Tip { name: "minds", is_used_by: |action| matches!(action, A::LookWord(_)), words: |state| {
        let reach = match state.display.mouse {
            true => "A click on a word".to_owned(),
            false => {
                let back = state.display.keys.name(A::FocusBack);
                format!("{back} to the conversation, then ←")
            }
        };
        format!("{reach} shows what the target wanted there and what the draft guessed")
    } },
    Tip { name: "rounds", is_used_by: |action| matches!(action, A::Look(_)), words: |state| {
        let name = |action| state.display.keys.name(action);
        let shown = match state.shows(Focus::Tree) {
            true => String::new(),
            false => format!("{} shows the draft tree: ", name(A::Layout)),
        };
        format!("{shown}{} to the tree, then ← goes back round by round", name(A::FocusNext))
    } },
    Tip { name: "versions", is_used_by: |action| matches!(action, A::Regenerate | A::Version(_)),
        words: |state| {
            let name = |action| state.display.keys.name(action);
            let [again, before] = [A::Regenerate, A::Version(-1)].map(name);
            format!("{again} writes another version of the answer, {before} shows the one before")
        } },
    Tip { name: "branch", is_used_by: |action| action == A::Branch, words: |_| {
        "/branch continues from an earlier message in a new conversation".to_owned()
    } },
    Tip { name: "export", is_used_by: |action| action == A::Export, words: |_| {
        "/export FILE.html writes a page that replays the rounds in a browser".to_owned()
    } },
    // The start of the program uses it.
    Tip { name: Tips::RECORD, is_used_by: |_| false, words: |_| {
        "dovetail --record FILE keeps every round, dovetail replay FILE shows them again".to_owned()
    } },
];

/// Which tips there were, and the one that is shown.
#[derive(Debug)]
pub struct Tips {
    /// The names of those that were shown or used, with a space between; `None` shows none.
    done: Option<String>,
    answers: usize,
    shown: Option<&'static Tip>,
}

impl Tips {
    /// The name of the tip about records.
    pub(crate) const RECORD: &'static str = "record";

    pub fn new(done: Option<String>) -> Self {
        Self { done, answers: 0, shown: None }
    }
}

impl ScreenState {
    /// Takes the next tip, if there is one, after an answer.
    pub(crate) fn next_tip(&mut self) {
        let Some(done) = &self.tips.done else { return };
        self.tips.answers += 1;
        let is_left = |tip: &&Tip| done.split_whitespace().all(|name| name != tip.name);
        let next = TIPS.iter().find(is_left).filter(|_| self.tips.answers >= AFTER);
        self.tips.shown = next;
        next.into_iter().for_each(|tip| self.tip_done(tip));
    }

    /// No tip is needed about what `action` does.
    pub(crate) fn no_tip_about(&mut self, action: A) {
        if let Some(tip) = TIPS.iter().find(|tip| (tip.is_used_by)(action)) {
            self.tip_done(tip);
        }
    }

    fn tip_done(&mut self, tip: &Tip) {
        let Some(done) = &mut self.tips.done else { return };
        if done.split_whitespace().all(|name| name != tip.name) {
            done.push_str(tip.name);
            done.push(' ');
            let text = done.clone();
            self.emit(Effect::Remember(SessionStore::TIPS, text));
        }
    }

    /// The tip that is shown now: none while something is written or answered.
    pub fn tip(&self) -> Option<String> {
        let rests = self.overlays.open.is_none() && !self.answering() && self.input.is_empty();
        let tip = self.tips.shown.filter(|_| rests && self.display.focus == Focus::Input)?;
        Some((tip.words)(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::state::StateConfig;
    use crate::tui::tests::{answer, config, controls, ready, say_all, type_keys};
    use crate::worker::Event;

    /// What is shown after each of `count` answers, and what is remembered at last.
    fn shown(done: Option<&str>, count: u64) -> (ScreenState, Vec<Option<String>>) {
        let config = StateConfig { tips: done.map(str::to_owned), ..config() };
        let mut state = ScreenState::new(config, controls());
        say_all(&mut state, vec![Event::Ready(Box::new(ready()))]);
        let tips = (1..=count).map(|of| {
            type_keys(&mut state, "Once more<enter>");
            say_all(&mut state, answer(of, "Once", 8));
            state.tip()
        });
        let tips = tips.collect();
        (state, tips)
    }

    #[test]
    fn each_feature_that_was_not_used_is_told_once() {
        let (mut state, tips) = shown(Some("versions record "), 6);
        let begins = [None, Some("Shift+Tab"), Some("F2"), Some("/branch"), Some("/export"), None];
        for (tip, begin) in tips.iter().zip(begins) {
            let is_it = tip.as_ref().is_some_and(|tip| begin.is_some_and(|it| tip.starts_with(it)));
            assert!(is_it || (tip.is_none() && begin.is_none()), "{tip:?}, not {begin:?}");
        }
        let effects = type_keys(&mut state, "/branch<enter><esc>");
        assert!(
            !effects.iter().any(|effect| matches!(effect, Effect::Remember(..))),
            "{effects:?}"
        );
        let (mut state, tips) = shown(Some(""), 2);
        assert!(tips[1].is_some());
        type_keys(&mut state, "x");
        assert_eq!(state.tip(), None, "the keys are there while something is written");
        let used = type_keys(&mut state, "<c-u>/export a.md<enter>");
        let kept = Effect::Remember(SessionStore::TIPS, "minds export ".to_owned());
        assert!(used.contains(&kept), "{used:?}");
        assert_eq!(shown(None, 3).1, [None, None, None], "switched off");
    }
}
