//! A model's tree and the context's tree merged into one, on the bundled models: the text equals
//! that of plain decoding, and nothing is lost by merging.

use crate::support::bundled::{asked, bundled, heldout, user};
use crate::support::generate::{generate, plain, samplers, verify_times};
use dovetail::decode::{Round, RoundOptions};
use dovetail::draft::Budget;
use dovetail::plan::{Arm, Schedule};
use dovetail::speculate::{DrafterId, SamplerSettings, Shape};

#[test]
fn heads_and_small_models_with_the_context_give_plain_text_and_more_tokens_a_round() {
    let mut alone = bundled();
    let mut drafting = bundled();
    let index = |words: &str| {
        let has = |at: &usize| {
            drafting.engine.drafter(*at).is_some_and(|drafter| drafter.describe().contains(words))
        };
        (0..9).rev().find(has).unwrap_or_else(|| panic!("{words}"))
    };
    let (context, head, small) =
        (index("suffix tree and recycled tokens"), index("DGF head, "), index("small model"));
    let shape = Shape { gamma: 8, width: 4, depth: 4 };
    let budget = Budget::new(shape, 4);
    // Tokens and rounds of the head, of the head with the context, and the same for the small
    // model.
    let mut won = [[0usize; 2]; 4];
    let mut credited = 0;
    for (i, turns) in heldout().into_iter().step_by(6).enumerate() {
        let request = asked(&mut alone, &[user(&turns[0])], 64);
        for sampler in [samplers()[0], samplers()[2]] {
            let sampler = SamplerSettings { seed: i as u64, ..sampler };
            let names = alone.names.as_ref();
            let want = generate(&mut alone.engine, names, request.clone(), plain(sampler)).0;
            for (at, model) in [head, small].into_iter().enumerate() {
                for (merges, first) in [model, context].into_iter().enumerate() {
                    let arm = Arm {
                        drafter: model,
                        budget,
                        schedule: Schedule::Alternate,
                        rate: f64::INFINITY,
                        verify_times: verify_times(),
                        least_pass: 0.0,
                        cut: false,
                    };
                    let options = RoundOptions {
                        drafter: first,
                        arm: (merges == 1).then_some(arm),
                        ..RoundOptions::new(budget, sampler)
                    };
                    let (got, rounds, _) =
                        generate(&mut drafting.engine, names, request.clone(), |_| options);
                    assert_eq!(got, want, "{sampler:?}");
                    won[2 * at + merges][0] += got.len() - 1;
                    won[2 * at + merges][1] += rounds.len();
                    let both = |round: &Round| {
                        let credits = round.credits();
                        let has = |wanted| credits.iter().any(|(source, _)| source == wanted);
                        (has(DrafterId::Head) || has(DrafterId::SmallModel))
                            && (has(DrafterId::Suffix) || has(DrafterId::Recycling))
                    };
                    credited += rounds.iter().filter(|round| both(round)).count();
                }
            }
        }
    }
    let tau = |at: usize| won[at][0] as f64 / won[at][1] as f64;
    assert!(credited > 0, "no round was won by a model and the context together");
    assert!(tau(1) >= 0.99 * tau(0) && tau(3) > tau(2), "{won:?}");
}
