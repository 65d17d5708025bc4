//! How threads are split between a target and a draft that work at the same time (overlap). It must
//! never start a thread.

use super::cost::Costs;
use super::cost_inputs::{CostInputs, DraftSize, TargetSize, Throughput};
use super::reason::{OverlapEffect, Reason};
use crate::hardware::Cpu;
use crate::speculate::Shape;

/// The tree with which a share is evaluated: the paper's.
const TREE: Shape = Shape { gamma: 16, width: 10, depth: 7 };

/// Threads of a draft that works at the same time as its target. When they take turns, both use all
/// threads.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadSplit {
    /// The draft's threads; the target keeps the others, at least one.
    pub draft: usize,
    /// The reason, and what to expect.
    pub reason: Reason,
}

/// Divides `threads`, of which the draft gets `fixed` if the user says so. Otherwise it gets the
/// number with which the slower of the two finishes soonest; of equal numbers the smallest, because
/// idle threads are better left to the target.
pub fn split_threads(
    cpu: &Cpu,
    threads: usize,
    fixed: Option<usize>,
    target: TargetSize,
    draft: DraftSize,
) -> ThreadSplit {
    let most = threads.saturating_sub(1).max(1);
    let costs = |verifying: usize, drafting: usize| {
        let throughputs = [verifying, drafting].map(|threads| Throughput::of_cpu(cpu, threads));
        let inputs =
            CostInputs { verifier: throughputs[0], target, draft: Some((draft, throughputs[1])) };
        let costs = Costs::guess(&inputs);
        (costs.verify_ms(TREE.gamma), costs.draft_ms(&TREE, draft.blocks))
    };
    let beside = |drafting: usize| costs(threads.saturating_sub(drafting).max(1), drafting);
    let slower = |drafting: usize| {
        let (verify, draft) = beside(drafting);
        verify.max(draft)
    };
    let drafting = match fixed {
        Some(fixed) => fixed.clamp(1, most),
        None => (1..=most).min_by(|&a, &b| slower(a).total_cmp(&slower(b))).unwrap_or(1),
    };
    let (verify, draft) = costs(threads, threads);
    let in_turn = verify + draft;
    let at_best = slower(drafting);
    let effect = if threads == 1 {
        OverlapEffect::OneThread
    } else if at_best < in_turn {
        OverlapEffect::Saves(100.0 * (1.0 - at_best / in_turn))
    } else {
        OverlapEffect::Nothing
    };
    let reason =
        Reason::ThreadsShared { draft: drafting, threads, chosen: fixed.is_some(), effect };
    ThreadSplit { draft: drafting, reason }
}

/// A draft on a GPU with a target on the CPU: one thread is kept free to serve the GPU.
pub fn split_threads_with_gpu(threads: usize) -> ThreadSplit {
    ThreadSplit { draft: 1, reason: Reason::ThreadForGpu { threads } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpu(physical: usize) -> Cpu {
        Cpu {
            name: "test".into(),
            physical,
            logical: physical,
            performance: None,
            features: vec!["AVX2"],
        }
    }

    /// Llama-2-7B in 4 bits and its head of five blocks in 8 bits.
    fn seven() -> (TargetSize, DraftSize) {
        let target = TargetSize { weights: 6_607_000_000, bytes: 3_716_000_000, layers: 32 };
        let draft = DraftSize {
            fixed: 198_000_000,
            lookup: 131_000_000,
            block: 202_000_000,
            bytes_per_weight: 34.0 / 32.0,
            blocks: 5,
            elastic: false,
        };
        (target, draft)
    }

    fn effect(split: &ThreadSplit) -> OverlapEffect {
        match split.reason {
            Reason::ThreadsShared { effect, .. } => effect,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_cores_are_one_and_one_and_save_nothing() {
        let (target, draft) = seven();
        let split = split_threads(&cpu(2), 2, None, target, draft);
        assert_eq!(split.draft, 1);
        let effect = OverlapEffect::Nothing;
        let reason = Reason::ThreadsShared { draft: 1, threads: 2, chosen: false, effect };
        assert_eq!(split.reason, reason);
    }

    #[test]
    fn many_cores_on_one_memory_give_the_draft_few() {
        let (target, draft) = seven();
        let found = split_threads(&cpu(16), 16, None, target, draft);
        assert!((2..=8).contains(&found.draft), "{found:?}");
        assert!(matches!(effect(&found), OverlapEffect::Saves(_)), "{found:?}");
        let tiny = DraftSize { fixed: 1_000_000, block: 500_000, ..draft };
        assert_eq!(split_threads(&cpu(16), 16, None, target, tiny).draft, 1);
    }

    #[test]
    fn a_fixed_number_is_kept_as_far_as_both_can_work() {
        let (target, draft) = seven();
        let split = |threads, fixed| split_threads(&cpu(8), threads, Some(fixed), target, draft);
        assert_eq!([split(8, 3).draft, split(8, 8).draft, split(1, 4).draft], [3, 7, 1]);
        assert!(matches!(split(8, 3).reason, Reason::ThreadsShared { chosen: true, .. }));
        assert_eq!(effect(&split(1, 1)), OverlapEffect::OneThread);
        assert_eq!(split_threads_with_gpu(1).draft, 1);
    }

    proptest! {
        #[test]
        fn both_have_a_thread_and_no_other_split_is_better(
            threads in 1usize..64,
            weights in 1_000_000u64..20_000_000_000,
            block in 100_000u64..500_000_000,
        ) {
            let target = TargetSize { weights, bytes: weights / 2, layers: 32 };
            let draft = DraftSize { block, ..seven().1 };
            let found = split_threads(&cpu(threads), threads, None, target, draft);
            prop_assert!(found.draft >= 1 && found.draft <= (threads - 1).max(1));
            let again = split_threads(&cpu(threads), threads, Some(found.draft), target, draft);
            prop_assert_eq!(again.draft, found.draft);
        }
    }
}
