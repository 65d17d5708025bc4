//! Whichever drafter is used in a round, and however the choice is made, the text is that of plain
//! decoding. The choice depends on the clock; these tests make every choice at random.

use crate::support::generate::{generate, options, plain, request, samplers, verify_times};
use crate::support::toy::{Beside, Guess, Letters, Toy, ToyDrafter};
use dovetail::decode::{Engine, Round, RoundOptions};
use dovetail::draft::{Budget, ContextDraft, Drafter, Lookahead, PromptLookup};
use dovetail::plan::{Arm, Schedule, VerifyTimes};
use dovetail::speculate::{DrafterId, Node, Shape};
use proptest::prelude::*;

const VOCAB: usize = 30;
const CONTEXT: usize = 400;

fn toys() -> Vec<Box<dyn Drafter>> {
    let mut knowing = ToyDrafter::new(Guess::Knowing, 3, VOCAB);
    knowing.source = Some(DrafterId::SmallModel);
    let mut late = ToyDrafter::new(Guess::Wild, 3, VOCAB);
    late.beside = Beside::Stale;
    vec![
        Box::new(ContextDraft::new(DrafterId::Context)),
        Box::new(knowing),
        Box::new(late),
        Box::new(PromptLookup::default()),
        Box::new(Lookahead::default()),
    ]
}

/// One round's choices: the first drafter, the model arm, and what decides between them.
type Choice = ((usize, usize, bool), (Shape, Shape), (bool, f64, bool), bool);

fn choice() -> impl Strategy<Value = Choice> {
    let shape = || {
        (1usize..20, 1usize..5, 0usize..5).prop_map(|(gamma, width, depth)| Shape {
            gamma,
            width,
            depth,
        })
    };
    let rate = prop_oneof![Just(0.0), Just(f64::INFINITY), 0.0f64..20.0];
    (
        (0usize..6, 0usize..6, any::<bool>()),
        (shape(), shape()),
        (any::<bool>(), rate, any::<bool>()),
        prop::bool::weighted(0.9),
    )
}

fn round_options(choice: &Choice, base: RoundOptions, times: VerifyTimes) -> RoundOptions {
    let &((first, other, cut), (shape, others), (has_arm, rate, overlap), speculate) = choice;
    let schedule = if overlap { Schedule::Overlap } else { Schedule::Alternate };
    let arm = Arm {
        drafter: other,
        budget: Budget::new(others, 2),
        schedule,
        rate,
        least_pass: 0.0,
        verify_times: times,
        cut,
    };
    RoundOptions {
        drafter: first,
        budget: Budget::new(shape, 2),
        speculate,
        schedule: if rate > 10.0 { schedule } else { Schedule::Alternate },
        coupled: cut,
        verify_times: cut.then_some(times),
        arm: has_arm.then_some(arm),
        ..base
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_choice_of_drafters_gives_plain_text(
        choices in prop::collection::vec(choice(), 1..40),
        which in 0usize..4,
    ) {
        let sampler = samplers()[which];
        let prompt = [1, 2, 3, 4, 1, 2, 3, 9, 1, 2];
        let mut alone = Engine::new(Box::new(Toy::new(3, VOCAB, CONTEXT)), None);
        let want = generate(&mut alone, &Letters, request(&prompt, 80), plain(sampler)).0;
        let mut engine = Engine::new(Box::new(Toy::new(3, VOCAB, CONTEXT)), toys());
        let times = verify_times();
        let base = options(Shape { gamma: 1, width: 1, depth: 0 }, true, sampler);
        for _ in 0..2 {
            let (got, rounds, _) =
                generate(&mut engine, &Letters, request(&prompt, 80), |round| {
                    round_options(&choices[round % choices.len()], base, times)
                });
            prop_assert_eq!(&got, &want);
            for (round, choice) in rounds.iter().zip(choices.iter().cycle()) {
                check(round, choice)?;
            }
        }
    }
}

/// The record names the drafter whose tree it was, and the tree is within that drafter's budget.
fn check(round: &Round, choice: &Choice) -> Result<(), TestCaseError> {
    let &((first, other, cut), (shape, others), (has_arm, rate, _), _) = choice;
    let Some(drafter) = round.drafter else {
        prop_assert_eq!(round.tree.len(), 1);
        return Ok(());
    };
    // If a tree is cut to what pays off, γ is what was verified; only a merged arm's is cut.
    let sized = |shape| if cut { Shape { gamma: round.tree.len(), ..shape } } else { shape };
    let is_arm =
        has_arm && drafter == other && [others, sized(others)].contains(&round.budget.shape);
    prop_assert!(is_arm || (drafter == first && round.budget.shape == sized(shape)));
    let exists = other < toys().len();
    if has_arm && exists && rate.is_infinite() && others.gamma > 1 && round.tree.len() > 1 {
        prop_assert!(is_arm, "an arm that promises everything drafts");
    }
    if has_arm && rate == 0.0 && first != other {
        prop_assert!(!is_arm, "an arm that promises nothing does not");
    }
    Ok(())
}

#[test]
fn accepted_tokens_are_credited_to_those_who_proposed_them() {
    let mut engine = Engine::new(Box::new(Toy::new(3, VOCAB, CONTEXT)), toys());
    let sampler = samplers()[0];
    let shape = Shape { gamma: 12, width: 3, depth: 3 };
    let mut answer = engine.generate(request(&[1, 2, 3, 1, 2, 3, 1, 2], 120), &Letters).unwrap();
    let of = |drafter| RoundOptions { drafter, ..options(shape, true, sampler) };
    answer.first_token(&of(0)).unwrap();
    let mut accepted = 0;
    while answer.finish().is_none() {
        let drafter = [0, 3][answer.summary().rounds % 2];
        let round = answer.round(&of(drafter)).unwrap();
        // Nothing is drafted after the last token.
        let last = round.finish.is_some() && round.drafter.is_none();
        assert!(last || round.drafter == Some(drafter));
        let credits = round.credits();
        let allowed: &[DrafterId] = match drafter {
            0 => &[DrafterId::Suffix, DrafterId::Recycling],
            _ => &[DrafterId::Lookup],
        };
        assert!(credits.iter().all(|(source, _)| allowed.contains(&source)), "{credits:?}");
        let most: usize = credits.iter().map(|(_, count)| count).sum();
        assert!(most >= round.accepted.len(), "every accepted token is somebody's: {credits:?}");
        accepted += most;
    }
    let credited: usize = answer.summary().accepted_by.iter().map(|(_, count)| count).sum();
    assert!(accepted > 0 && credited == accepted, "{credited} of {accepted}");
}

/// If a model drafts, the context's proposals are in the same tree: tokens that both propose are
/// one node, credited to both, and the tree is not larger than the model's may be.
#[test]
fn a_models_tree_and_the_contexts_are_one() {
    let sampler = samplers()[0];
    let shape = Shape { gamma: 9, width: 3, depth: 2 };
    let base = options(shape, true, sampler);
    let with = |schedule| RoundOptions {
        arm: Some(Arm {
            drafter: 1,
            budget: base.budget,
            schedule,
            rate: f64::INFINITY,
            verify_times: verify_times(),
            least_pass: 0.0,
            cut: false,
        }),
        ..base
    };
    let prompt = [1, 2, 3, 1, 2, 3, 1, 2];
    let mut alone = Engine::new(Box::new(Toy::new(3, VOCAB, CONTEXT)), None);
    let want = generate(&mut alone, &Letters, request(&prompt, 120), plain(sampler)).0;
    for (schedule, merges) in [(Schedule::Alternate, true), (Schedule::Overlap, false)] {
        let mut engine = Engine::new(Box::new(Toy::new(3, VOCAB, CONTEXT)), toys());
        let (got, rounds, _) =
            generate(&mut engine, &Letters, request(&prompt, 120), |_| with(schedule));
        assert_eq!(got, want);
        let nodes = || rounds.iter().flat_map(|round| &round.tree.nodes()[1..]);
        let of = |node: &Node| node.sources.iter().collect::<Vec<_>>();
        let model = nodes().any(|node| of(node) == [DrafterId::SmallModel]);
        let both =
            nodes().any(|node| of(node).contains(&DrafterId::SmallModel) && of(node).len() > 1);
        let context = nodes().any(|node| !of(node).contains(&DrafterId::SmallModel));
        assert_eq!((model, both, context), (true, merges, merges), "{schedule:?}");
        assert!(rounds.iter().all(|round| round.tree.len() <= shape.gamma));
    }
}
