//! Coupled drafting: a draft that knows the noise with which the target will draw can rank its
//! candidates with it (Daliri et al. 2024). If draft and target agree on the probabilities, they
//! then agree on the token, at any temperature. It does not change the text, because the target
//! still decides.

use super::{Noise, SamplerSettings};

/// The target's noise around a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    /// How the target draws.
    pub sampler: SamplerSettings,
    /// Position of the tree's root in the text.
    pub root: usize,
}

impl Coupling {
    /// The noise of the draw that decides the nodes at `depth` (1: the root's children).
    pub fn noise(&self, depth: usize) -> Noise {
        Noise::new(self.sampler.seed, self.root + depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speculate::{Sampler, TokenUses, Tree, accept};

    #[test]
    fn the_noise_is_that_of_the_acceptance_walk() {
        // With equal logits, the draw is the argmax of the noise.
        let vocab = 50;
        let settings = SamplerSettings { temperature: 1.0, seed: 9, ..SamplerSettings::default() };
        let coupling = Coupling { sampler: settings, root: 17 };
        let best = |depth: usize| {
            let noise = coupling.noise(depth);
            let gumbel = |token: &u32| noise.gumbel(*token);
            (0..vocab).max_by(|a, b| gumbel(a).total_cmp(&gumbel(b))).unwrap()
        };
        let mut tree = Tree::root(3);
        let mut node = 0;
        for depth in 1..=4 {
            node = tree.push(node, best(depth), -1.0);
        }
        let mut sampler = Sampler::new(settings);
        let logits = vec![0.0; tree.len() * vocab as usize];
        let mut history = TokenUses::new(&[3]);
        let accepted = accept(&tree, &logits, &mut sampler, coupling.root, &mut history);
        assert_eq!(accepted.path, [0, 1, 2, 3, 4]);
    }
}
