//! A mixture of experts over some rows. The router chooses experts for each row, and rows that
//! share an expert pass through it together. Each row of an expert has its own sums, and a row adds
//! its experts in the order of their numbers, so its result does not depend on the other rows. It
//! must not depend on what precedes or follows it in the block.

use super::layer::{BesideExperts, Mixture};
use super::scratch::{CpuBlocks, add_bias, products};
use crate::kernels::add;
use crate::model::{Experts, Gating};

impl CpuBlocks<'_> {
    /// branch = the weighted sum of the outputs of the chosen experts for `branch`, plus the shared
    /// expert's.
    pub(super) fn experts(&mut self, mixture: &Mixture) {
        self.score(mixture);
        self.choose(mixture);
    }

    /// branch = norm(mlp(branch)) + norm(experts(norm(stream))).
    pub(super) fn experts_beside(&mut self, mixture: &Mixture, beside: &BesideExperts) {
        let Self { config, pool, .. } = *self;
        let eps = config.rms_eps;
        self.mlp(&beside.mlp);
        let s = &mut *self.scratch;
        s.shared_norm.resize(s.branch.len(), 0.0);
        beside.mlp_out_norm.apply(pool, &s.branch, eps, &mut s.shared_norm);
        self.norm(Some(&beside.router_norm));
        self.score(mixture);
        self.norm(Some(&beside.experts_norm));
        self.choose(mixture);
        let s = &mut *self.scratch;
        beside.experts_out_norm.apply(pool, &s.branch, eps, &mut s.branch_norm);
        std::mem::swap(&mut s.branch, &mut s.branch_norm);
        add(pool, &mut s.branch, &s.shared_norm);
    }

    /// The router's logits for `branch`.
    fn score(&mut self, mixture: &Mixture) {
        let Self { config, pool, .. } = *self;
        let s = &mut *self.scratch;
        let rows = s.branch.len() / config.hidden;
        let logits = &mut s.experts.logits;
        logits.resize(rows * mixture.router.outputs(), 0.0);
        products(pool, &mut s.rows, &s.branch, &mut [(&mixture.router, logits)]);
    }

    /// Sends `branch` through the experts that the logits choose.
    fn choose(&mut self, mixture: &Mixture) {
        let Self { config, pool, .. } = *self;
        let Some(shape) = &config.block.experts else { return };
        let s = &mut *self.scratch;
        let rows = s.branch.len() / config.hidden;
        let e = &mut s.experts;
        if let Some(bias) = &mixture.router_bias {
            add_bias(&mut e.logits, bias);
        }
        e.chosen.resize_with(shape.count, Vec::new);
        for chosen in &mut e.chosen {
            chosen.clear();
        }
        for (row, logits) in e.logits.chunks_exact(shape.count).enumerate() {
            for (expert, weight) in route(shape, logits, mixture.selection_bias.as_deref()) {
                e.chosen[expert].push((row, weight));
            }
        }

        s.mlp_out.clear();
        s.mlp_out.resize(s.branch.len(), 0.0);
        if let Some(shared) = &mixture.shared {
            shared.run(pool, config, &mut s.rows, &mut s.mlp, &s.branch, &mut s.mlp_out);
            if let Some(gate) = &mixture.shared_gate {
                e.gates.resize(rows, 0.0);
                products(pool, &mut s.rows, &s.branch, &mut [(gate, &mut e.gates)]);
                for (row, gate) in s.mlp_out.chunks_exact_mut(config.hidden).zip(&e.gates) {
                    let gate = 1.0 / (1.0 + libm::expf(-gate));
                    for x in row {
                        *x *= gate;
                    }
                }
            }
        }
        let h = if shape.latent > 0 { shape.latent } else { config.hidden };
        if let Some([down, _]) = &mixture.latent {
            e.latent.resize(rows * h, 0.0);
            products(pool, &mut s.rows, &s.branch, &mut [(down, &mut e.latent)]);
            std::mem::swap(&mut s.branch, &mut e.latent);
            // The shared expert's sum waits.
            e.shared.clear();
            e.shared.resize(rows * h, 0.0);
            std::mem::swap(&mut s.mlp_out, &mut e.shared);
        }
        for (expert, chosen) in mixture.experts.iter().zip(&e.chosen) {
            if chosen.is_empty() {
                continue;
            }
            e.input.clear();
            e.input.extend(chosen.iter().flat_map(|&(row, _)| &s.branch[row * h..(row + 1) * h]));
            e.output.resize(e.input.len(), 0.0);
            expert.run(pool, config, &mut s.rows, &mut s.mlp, &e.input, &mut e.output);
            for (&(row, weight), output) in chosen.iter().zip(e.output.chunks_exact(h)) {
                let sum = &mut s.mlp_out[row * h..(row + 1) * h];
                for (sum, x) in sum.iter_mut().zip(output) {
                    *sum += weight * x;
                }
            }
        }
        std::mem::swap(&mut s.branch, &mut s.mlp_out);
        if let Some([_, up]) = &mixture.latent {
            s.mlp_out.resize(rows * config.hidden, 0.0);
            products(pool, &mut s.rows, &s.branch, &mut [(up, &mut s.mlp_out)]);
            std::mem::swap(&mut s.branch, &mut s.mlp_out);
            add(pool, &mut s.branch, &e.shared);
        }
        self.timing.products += self.clock.lap();
    }
}

/// The experts of one row and their weights. Of equal scores, the one with the lower number wins.
fn route(shape: &Experts, logits: &[f32], selection_bias: Option<&[f32]>) -> Vec<(usize, f32)> {
    let probabilities = match shape.gating {
        Gating::Softmax => softmax(logits),
        Gating::SoftmaxOfChosen => logits.to_vec(),
        Gating::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + libm::expf(-x))).collect(),
    };
    let mut scores = probabilities.clone();
    if let Some(bias) = selection_bias {
        for (score, bias) in scores.iter_mut().zip(bias) {
            *score += bias;
        }
    }
    if let Some((groups, used)) = shape.groups {
        let counted = if shape.selection_bias { 2 } else { 1 };
        keep_best_groups(&mut scores, groups, used, counted);
    }
    let chosen = best(&scores, shape.used);
    let mut weights: Vec<f32> = chosen.iter().map(|&expert| probabilities[expert]).collect();
    if shape.gating == Gating::SoftmaxOfChosen {
        weights = softmax(&weights);
    }
    if shape.normalised {
        let sum = weights.iter().sum::<f32>().max(f32::MIN_POSITIVE);
        for weight in weights.iter_mut() {
            *weight /= sum;
        }
    }
    chosen.into_iter().zip(weights).map(|(expert, weight)| (expert, weight * shape.scale)).collect()
}

/// The indices of the `n` greatest scores, in the order of the scores.
fn best(scores: &[f32], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(n);
    order
}

/// Leaves only the experts of the `used` best groups in the choice. A group's score is the sum of
/// its `counted` best scores: one in DeepSeek V2 (section 2.2.2 of its paper), two in V3.
fn keep_best_groups(scores: &mut [f32], groups: usize, used: usize, counted: usize) {
    let size = scores.len() / groups;
    let worth: Vec<f32> = scores
        .chunks_exact(size)
        .map(|group| best(group, counted).into_iter().map(|i| group[i]).sum())
        .collect();
    let kept = best(&worth, used);
    for (group, scores) in scores.chunks_exact_mut(size).enumerate() {
        if !kept.contains(&group) {
            scores.fill(f32::NEG_INFINITY);
        }
    }
}

fn softmax(logits: &[f32]) -> Vec<f32> {
    let peak = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = logits.iter().map(|x| libm::expf(x - peak)).collect();
    let sum: f32 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(gating: Gating) -> Experts {
        Experts { count: 4, used: 2, intermediate: 8, gating, scale: 1.0, ..Experts::default() }
    }

    #[test]
    fn softmax_routing_weighs_over_all_experts_unless_normalised() {
        let logits = [0.0, (2.0f32).ln(), f32::NEG_INFINITY, 0.0];
        let chosen = route(&shape(Gating::Softmax), &logits, None);
        assert_eq!(chosen.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 0]);
        assert!((chosen[0].1 - 0.5).abs() < 1e-6 && (chosen[1].1 - 0.25).abs() < 1e-6);
        let normalised = Experts { normalised: true, ..shape(Gating::Softmax) };
        let chosen = route(&normalised, &logits, None);
        assert!((chosen[0].1 - 2.0 / 3.0).abs() < 1e-6, "{chosen:?}");
        assert_eq!(route(&shape(Gating::SoftmaxOfChosen), &logits, None)[0].1, chosen[0].1);
    }

    #[test]
    fn a_selection_bias_changes_the_choice_and_not_the_weight() {
        let sigmoid = shape(Gating::Sigmoid);
        let bias = [0.0, 0.0, 5.0, 0.0];
        let chosen = route(&sigmoid, &[1.0, 2.0, 0.0, -1.0], Some(&bias));
        assert_eq!(chosen[0], (2, 0.5));
        assert_eq!(chosen[1].0, 1);
    }

    #[test]
    fn experts_outside_the_best_groups_are_not_chosen() {
        let one = Experts { groups: Some((2, 1)), ..shape(Gating::Sigmoid) };
        let two = Experts { selection_bias: true, ..one.clone() };
        // The single best expert is in the group whose two best add up to less.
        let chosen = |shape: &Experts| {
            let chosen = route(shape, &[4.0, -9.0, 2.0, 2.5], None);
            chosen.iter().map(|c| c.0).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&two), [3, 2]);
        assert_eq!(chosen(&one), [0, 1]);
    }

    proptest! {
        /// As in the paper: every expert that can be chosen is in a group such that fewer than
        /// `used` other groups have a better best expert, and it is not worse than those that were
        /// left out there.
        #[test]
        fn groups_are_ranked_by_their_best_expert(
            logits in prop::collection::vec(-4.0f32..4.0, 12),
            used in 1usize..=4,
        ) {
            let grouped = Experts {
                count: 12,
                used: 3,
                groups: Some((4, used)),
                ..shape(Gating::Softmax)
            };
            let best_of = |group: usize| {
                logits[group * 3..group * 3 + 3].iter().copied().fold(f32::MIN, f32::max)
            };
            let admitted = |expert: usize| {
                let own = best_of(expert / 3);
                (0..4).filter(|&group| best_of(group) > own).count() < used
            };
            let sum: f32 = logits.iter().map(|x| x.exp()).sum();
            let chosen = route(&grouped, &logits, None);
            prop_assert_eq!(chosen.len(), 3);
            for &(expert, weight) in &chosen {
                prop_assert!(admitted(expert));
                prop_assert!((weight - logits[expert].exp() / sum).abs() < 1e-6);
                let better = (0..12).filter(|&o| admitted(o) && logits[o] > logits[expert]);
                prop_assert!(better.count() < 3);
            }
        }
    }

    #[test]
    fn a_group_of_one_is_its_expert() {
        let grouped = Experts { groups: Some((4, 2)), ..shape(Gating::Softmax) };
        let logits = [0.5, -1.0, 0.75, 0.0];
        assert_eq!(route(&grouped, &logits, None), route(&shape(Gating::Softmax), &logits, None));
    }
}
