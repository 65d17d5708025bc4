//! The controller of `auto` with simulated drafters of known speed.

use super::*;
use crate::files::Cached as _;
use crate::speculate::{Budget, Tree};
use proptest::prelude::{Just, prop, prop_assert, prop_oneof, proptest};
use proptest::strategy::Strategy as _;

/// The time of a plain pass in milliseconds.
const PASS: f64 = 4.0;

/// The drafters that take time.
const MODELS: [DrafterId; 2] = [DrafterId::Head, DrafterId::SmallModel];

/// How well drafters do in a text: tokens and milliseconds per round for each.
#[derive(Clone, Copy, Debug)]
struct Text {
    context: (f64, f64),
    head: (f64, f64),
    small: (f64, f64),
    /// How many times as long as usual everything takes on the machine.
    slow: f64,
}

impl Text {
    fn of(&self, kind: DrafterId) -> (f64, f64) {
        match kind {
            DrafterId::Head => self.head,
            DrafterId::SmallModel => self.small,
            DrafterId::None => (1.0, PASS),
            _ => self.context,
        }
    }

    /// Tokens per millisecond of the best single choice for the whole text.
    fn best(&self) -> f64 {
        let kinds = [DrafterId::None, DrafterId::Context, DrafterId::Head, DrafterId::SmallModel];
        let rates = kinds.map(|kind| self.of(kind).0 / self.of(kind).1);
        rates.into_iter().fold(0.0, f64::max)
    }
}

/// The controller with T_V as it is learned from its rounds.
struct Started {
    controller: Box<dyn Controller>,
    times: VerifyTimes,
}

impl Started {
    fn observe(&mut self, round: &RoundObservation<'_>) {
        self.times.learn(round.tree.len(), round.verify_ms, round.other_ms);
        self.controller.observe(round, &self.times);
    }
}

fn started(show: bool) -> Started {
    let inputs = CostInputs::for_tests();
    let prefer = if show { Prefer::Show } else { Prefer::Speed };
    let space = SearchSpace::new(TreeOverrides::default(), Some(DraftSize::NOTHING));
    let space = SearchSpace { prefer, ..space };
    let measured = Measured { verify: vec![(1, PASS), (64, 4.0 * PASS)], level: None };
    let plan = |space: &SearchSpace| choose(&inputs, &measured, space);
    let always = SearchSpace { always: true, ..space };
    let model = |at| ModelArm::new(MODELS[at], at, &plan(&always), always);
    let models = vec![model(0), model(1)];
    let first = plan(&space);
    let controller = super::Strategy::automatic().controller(&first, space, models);
    Started { controller, times: first.costs.verify }
}

/// The time and the tokens of answers in a text, and how many rounds each drafter drafted.
#[derive(Debug, Default)]
struct Course {
    tokens: f64,
    ms: f64,
    rounds: Vec<DrafterId>,
}

impl Course {
    fn rate(&self) -> f64 {
        self.tokens / self.ms
    }

    fn share(&self, kind: DrafterId) -> f64 {
        let of = self.rounds.iter().filter(|&&drafted| drafted == kind).count();
        of as f64 / self.rounds.len() as f64
    }
}

/// Answers of `length` rounds each. The tokens of a round are integers around their mean.
fn answers(budgets: &mut Started, text: &Text, count: usize, length: usize) -> Course {
    let mut course = Course::default();
    let mut owed = [0.0f64; 2];
    let overrides = TreeOverrides::default();
    for _ in 0..count {
        let mut context = 40;
        budgets.controller.begin_answer(context, 0);
        for _ in 0..length {
            let first = budgets.controller.budget(&overrides);
            let rests = first.shape.gamma <= 1;
            let promised = if rests { 1.0 / PASS } else { text.context.0 / text.context.1 };
            let arm = budgets
                .controller
                .model_arm(&overrides, Schedule::Alternate)
                .filter(|arm| arm.rate > promised);
            let (kind, budget) = match arm {
                Some(arm) => (MODELS[arm.drafter], arm.budget),
                None if rests => (DrafterId::None, first),
                None => (DrafterId::Auto, first),
            };
            let (mean, ms) = text.of(kind);
            let ms = text.slow * ms;
            let pass = text.slow * PASS;
            let owes = &mut owed[usize::from(kind == DrafterId::Auto)];
            *owes += mean;
            let tokens = owes.floor().max(1.0);
            *owes -= tokens;
            let mut tree = Tree::root(0);
            let accepted: Vec<usize> =
                (1..tokens as usize).map(|node| tree.push(node - 1, 1, -0.3)).collect();
            context += tokens as usize;
            let draft_ms = if kind == DrafterId::None { 0.0 } else { ms - pass };
            budgets.observe(&RoundObservation {
                draft_ms: Some(draft_ms),
                verify_ms: pass,
                draft: kind,
                context,
                ..RoundObservation::for_tests(budget, &tree, &accepted)
            });
            course.tokens += tokens;
            course.ms += ms;
            course.rounds.push(kind);
        }
    }
    course
}

const POOR: (f64, f64) = (1.0, 1.8 * PASS);

#[test]
fn where_nothing_pays_hardly_anything_is_lost() {
    let text = Text { context: (1.0, 1.05 * PASS), head: POOR, small: POOR, slow: 1.0 };
    let mut budgets = started(false);
    answers(&mut budgets, &text, 1, 60);
    let course = answers(&mut budgets, &text, 40, 60);
    assert!(course.rate() > 0.975 / PASS, "{}", course.rate() * PASS);
}

#[test]
fn a_model_that_pays_drafts_within_ten_rounds_and_in_the_next_answer_at_once() {
    for small in [false, true] {
        let good = (2.0, 1.3 * PASS);
        let (head, small, kind) = match small {
            true => (POOR, good, DrafterId::SmallModel),
            false => (good, POOR, DrafterId::Head),
        };
        let text = Text { context: (1.1, 1.03 * PASS), head, small, slow: 1.0 };
        let mut budgets = started(false);
        let course = answers(&mut budgets, &text, 1, 60);
        assert!(course.rounds[10..24].iter().all(|&drafted| drafted == kind), "{course:?}");
        assert!(course.share(kind) > 0.8, "{course:?}");
        let next = answers(&mut budgets, &text, 1, 60);
        assert!(next.share(kind) > 0.9, "{next:?}");
    }
}

#[test]
fn the_context_drafts_where_it_promises_more() {
    let text = Text { context: (3.0, 1.1 * PASS), head: (2.0, 1.3 * PASS), small: POOR, slow: 1.0 };
    let mut budgets = started(false);
    answers(&mut budgets, &text, 1, 40);
    let course = answers(&mut budgets, &text, 4, 60);
    assert!(course.share(DrafterId::Auto) > 0.9, "{course:?}");
}

#[test]
fn a_text_that_changes_is_followed() {
    let chat =
        Text { context: (1.0, 1.03 * PASS), head: POOR, small: (2.2, 1.4 * PASS), slow: 1.0 };
    let code = Text { context: (2.5, 1.1 * PASS), head: POOR, small: (1.0, 1.4 * PASS), slow: 1.0 };
    let mut budgets = started(false);
    for _ in 0..3 {
        for text in [chat, code] {
            let course = answers(&mut budgets, &text, 6, 80);
            assert!(course.rate() > 0.93 * text.best(), "{text:?} {}", course.rate());
        }
    }
}

#[test]
fn a_machine_that_slows_down_or_recovers_does_not_stop_a_draft_that_pays() {
    let quiet = Text { context: (1.4, 1.15 * PASS), head: POOR, small: POOR, slow: 1.0 };
    let mut budgets = started(false);
    answers(&mut budgets, &quiet, 4, 60);
    for slow in [1.6, 1.0, 2.2, 0.7, 1.0] {
        let course = answers(&mut budgets, &Text { slow, ..quiet }, 1, 60);
        assert!(course.share(DrafterId::Auto) > 0.85, "{slow} {course:?}");
    }
}

#[test]
fn for_show_a_model_drafts_where_the_context_has_nothing() {
    let text =
        Text { context: (1.0, 1.02 * PASS), head: (1.5, 2.0 * PASS), small: POOR, slow: 1.0 };
    let course = answers(&mut started(true), &text, 3, 60);
    assert!(course.share(DrafterId::Head) > 0.85, "{course:?}");
    let repeating = Text { context: (3.0, 1.1 * PASS), ..text };
    let mut budgets = started(true);
    answers(&mut budgets, &repeating, 1, 60);
    assert!(answers(&mut budgets, &repeating, 1, 60).share(DrafterId::Auto) > 0.9);
}

#[test]
fn what_was_learned_spares_the_next_start_the_trial() {
    let text =
        Text { context: (1.1, 1.03 * PASS), head: POOR, small: (2.0, 1.3 * PASS), slow: 1.0 };
    let mut budgets = started(false);
    answers(&mut budgets, &text, 8, 60);
    let learned = budgets.controller.learned().unwrap();
    assert!(learned.is_sound());
    let text_of = serde_json::to_string(&learned).unwrap();
    let mut next = started(false);
    next.controller.recall(&serde_json::from_str(&text_of).unwrap());
    let course = answers(&mut next, &text, 1, 40);
    assert_eq!(course.share(DrafterId::Head), 0.0, "{course:?}");
    assert!(course.share(DrafterId::SmallModel) > 0.95, "{course:?}");
}

/// A pass at the start is measured on a short text, and later passes take longer. The rate of a
/// drafter that pauses is stored in that unit from start to start, and must not seem better because
/// of it.
#[test]
fn what_rests_looks_no_better_after_many_short_starts() {
    let text = Text { context: (1.0, 1.01 * PASS), head: POOR, small: POOR, slow: 1.3 };
    let mut budgets = started(false);
    answers(&mut budgets, &text, 8, 60);
    let mut learned = budgets.controller.learned().unwrap();
    let mut drafted = 0.0;
    let mut all = 0.0;
    for _ in 0..60 {
        let mut next = started(false);
        next.controller.recall(&learned);
        let course = answers(&mut next, &text, 1, 12);
        let models = course.share(DrafterId::Head) + course.share(DrafterId::SmallModel);
        drafted += models * course.rounds.len() as f64;
        all += course.rounds.len() as f64;
        learned = next.controller.learned().unwrap();
    }
    assert!(drafted / all < 0.02, "models drafted {drafted} of {all} rounds");
}

fn any_text() -> impl proptest::strategy::Strategy<Value = Text> {
    let arm = || (1.0f64..4.0, 1.0f64..3.0).prop_map(|(tokens, ms)| (tokens, ms * PASS));
    let context = (1.0f64..3.0, 1.0f64..1.1).prop_map(|(tokens, ms)| (tokens, ms * PASS));
    (context, arm(), arm()).prop_map(|(context, head, small)| Text {
        context,
        head,
        small,
        slow: 1.0,
    })
}

proptest! {
    #[test]
    fn whatever_the_texts_it_is_nearly_as_fast_as_the_best_choice_and_never_slower_than_plain(
        texts in prop::collection::vec(any_text(), 1..4),
    ) {
        let mut budgets = started(false);
        for (number, text) in texts.iter().enumerate() {
            let begun = answers(&mut budgets, text, 2, 100);
            let course = answers(&mut budgets, text, 8, 100);
            let share = course.rate() / text.best();
            // A drafter that was far too slow in another text is tried again only once the time has
            // been earned.
            prop_assert!(number > 0 || share > 0.85, "{share:.3} of the best: {text:?}");
            let ms = begun.ms + course.ms;
            let ratio = (begun.tokens + course.tokens) / ms * PASS;
            // A draft that loses four percent can hardly be distinguished from bad luck, and trials
            // cost one percent more. A change of the text has to be noticed first.
            let least = if number == 0 { 0.95 } else { 0.88 };
            prop_assert!(ratio > least, "{ratio:.3} times plain: {text:?}");
        }
    }

    #[test]
    fn times_that_no_clock_gives_break_nothing(
        rounds in prop::collection::vec(
            (0usize..4, prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -1.0f64..50.0], 0usize..5),
            1..120,
        ),
    ) {
        let mut budgets = started(false);
        let overrides = TreeOverrides::default();
        let mut context = 0;
        for (at, (who, ms, accepted)) in rounds.into_iter().enumerate() {
            if at % 20 == 0 {
                budgets.controller.begin_answer(context, context / 2);
            }
            let budget: Budget = budgets.controller.budget(&overrides);
            let arm = budgets.controller.model_arm(&overrides, Schedule::Alternate);
            prop_assert!(arm.is_none_or(|arm| arm.budget.shape.gamma > 1));
            let kinds = [DrafterId::None, DrafterId::Auto, DrafterId::Head, DrafterId::SmallModel];
            let mut tree = Tree::root(0);
            let accepted: Vec<usize> =
                (0..accepted).map(|node| tree.push(node, 1, -0.3)).collect();
            context += accepted.len() + 1;
            budgets.observe(&RoundObservation {
                draft_ms: Some(ms),
                verify_ms: ms,
                other_ms: ms,
                draft: kinds[who],
                context,
                ..RoundObservation::for_tests(budget, &tree, &accepted)
            });
        }
        prop_assert!(budgets.controller.learned().is_some_and(|learned| learned.is_sound()));
    }
}
