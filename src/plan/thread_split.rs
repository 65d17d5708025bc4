//! How threads are split between a target and a draft that work at the same time (overlap). It must
//! never start a thread.

use super::cost::Costs;
use super::cost_inputs::{CostInputs, DraftSize, TargetSize, Throughput};
use super::reason::{OverlapEffect, Reason};
use crate::hardware::Cpu;
use crate::speculate::Shape;

/// The tree with which a share is evaluated: the paper's.
const TREE: Shape = Shape { gamma: 16, width: 10, depth: 7 };

/// Divides `threads` between a draft and a target that work at the same time: the draft's threads,
/// and the reason with what to expect. The target keeps the others, at least one. The draft gets
/// `fixed` threads if the user says so. Otherwise it gets the number with which the slower of the
/// two finishes soonest; of equal numbers the smallest, because idle threads are better left to the
/// target.
pub fn split_threads(
    cpu: &Cpu,
    threads: usize,
    fixed: Option<usize>,
    target: TargetSize,
    draft: DraftSize,
) -> (usize, Reason) {
    let costs = |verifying: usize, drafting: usize| {
        let verifier = Throughput::of_cpu(cpu, verifying);
        let draft = Some((draft, Throughput::of_cpu(cpu, drafting)));
        Costs::guess(&CostInputs { verifier, target, draft })
    };
    let slower = |drafting: usize| {
        let costs = costs(threads.saturating_sub(drafting).max(1), drafting);
        costs.verify_ms(TREE.gamma).max(costs.draft_ms(&TREE, draft.blocks))
    };
    let most = threads.saturating_sub(1).max(1);
    let drafting = match fixed {
        Some(fixed) => fixed.clamp(1, most),
        None => (1..=most).min_by(|&a, &b| slower(a).total_cmp(&slower(b))).unwrap_or(1),
    };
    let in_turn = costs(threads, threads).round_ms(&TREE, draft.blocks);
    let at_best = slower(drafting);
    let effect = if threads == 1 {
        OverlapEffect::OneThread
    } else if at_best < in_turn {
        OverlapEffect::Saves(100.0 * (1.0 - at_best / in_turn))
    } else {
        OverlapEffect::Nothing
    };
    let chosen = fixed.is_some();
    (drafting, Reason::ThreadsShared { draft: drafting, threads, chosen, effect })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::cpu;
    use proptest::prelude::*;

    /// Llama-2-7B in 4 bits and its head of five blocks in 8 bits.
    const TARGET: TargetSize = TargetSize::dense(6_607_000_000, 3_716_000_000, 32);
    const DRAFT: DraftSize = DraftSize {
        fixed: 198_000_000,
        lookup: 131_000_000,
        block: 202_000_000,
        bytes_per_weight: 34.0 / 32.0,
        blocks: 5,
        elastic: false,
        ..DraftSize::NOTHING
    };

    #[test]
    fn a_split_says_what_it_saves_and_who_chose_it() {
        let tiny = DraftSize { fixed: 1_000_000, block: 500_000, ..DRAFT };
        let split = |cores, threads, fixed, draft| {
            split_threads(&cpu(cores, &["AVX2"]), threads, fixed, TARGET, draft)
        };
        let two = Reason::ThreadsShared {
            draft: 1,
            threads: 2,
            chosen: false,
            effect: OverlapEffect::Nothing,
        };
        assert_eq!(split(2, 2, None, DRAFT), (1, two));
        let (draft, reason) = split(16, 16, None, DRAFT);
        let saves = |reason: &Reason| {
            matches!(reason, Reason::ThreadsShared { effect: OverlapEffect::Saves(_), .. })
        };
        assert!((2..=10).contains(&draft) && saves(&reason), "{draft} {reason:?}");
        assert_eq!(split(16, 16, None, tiny).0, 1);
        // A fixed number is kept as far as both can work.
        let fixed = [(8, 3), (8, 8), (1, 4)].map(|(all, fixed)| split(8, all, Some(fixed), DRAFT));
        assert_eq!(fixed.each_ref().map(|split| split.0), [3, 7, 1]);
        assert!(matches!(fixed[0].1, Reason::ThreadsShared { chosen: true, .. }));
        let alone = OverlapEffect::OneThread;
        assert!(matches!(fixed[2].1, Reason::ThreadsShared { effect, .. } if effect == alone));
    }

    proptest! {
        #[test]
        fn both_have_a_thread_and_no_other_split_is_better(
            threads in 1usize..64,
            weights in 1_000_000u64..20_000_000_000,
            block in 100_000u64..500_000_000,
        ) {
            let target = TargetSize::dense(weights, weights / 2, 32);
            let draft = DraftSize { block, ..DRAFT };
            let cpu = cpu(threads, &["AVX2"]);
            let (found, _) = split_threads(&cpu, threads, None, target, draft);
            prop_assert!(found >= 1 && found <= (threads - 1).max(1));
            let again = split_threads(&cpu, threads, Some(found), target, draft);
            prop_assert_eq!(again.0, found);
        }
    }
}
