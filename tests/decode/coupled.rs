//! Coupled drafting: a draft that knows the target's noise is accepted more often. That it does not
//! change the text is tested with the other options.

use crate::support::bundled::{asked, bundled, heldout, user};
use crate::support::generate::generate;
use dovetail::decode::RoundOptions;
use dovetail::draft::Budget;
use dovetail::speculate::{SamplerSettings, Shape};
use dovetail::worker::Backend;

/// Tokens per round over some of the held-out prompts.
fn tokens_a_round(backend: &mut Backend, shape: Shape, coupled: bool) -> f64 {
    backend.engine.forget();
    let (mut tokens, mut rounds) = (0, 0);
    for (seed, turns) in heldout().into_iter().step_by(4).enumerate() {
        let request = asked(backend, &[user(&turns[0])], 48);
        let sampler =
            SamplerSettings { temperature: 1.0, seed: seed as u64, ..SamplerSettings::default() };
        let options = RoundOptions { coupled, ..RoundOptions::new(Budget::new(shape, 4), sampler) };
        let names = backend.names.as_ref();
        let (said, passes, _) = generate(&mut backend.engine, names, request, |_| options);
        tokens += said.len() - 1;
        rounds += passes.len();
    }
    tokens as f64 / rounds as f64
}

#[test]
fn coupling_raises_the_accepted_length_at_temperature_one() {
    let mut backend = bundled();
    for shape in [Shape { gamma: 16, width: 10, depth: 7 }, Shape { gamma: 6, width: 1, depth: 4 }]
    {
        let mut tokens = |coupled| tokens_a_round(&mut backend, shape, coupled);
        let (with, without) = (tokens(true), tokens(false));
        assert!(with > 1.05 * without, "{shape:?}: {with:.2} with the noise, {without:.2} without");
    }
}
