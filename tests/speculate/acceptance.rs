//! The acceptance walk and the sampler against the recorded rounds and against textbook forms.

use crate::support::recorded::{File, json};
use dovetail::speculate::{
    Noise, Sampler, SamplerSettings, TokenUses, Tree, accept, argmax, log_softmax,
};
use proptest::prelude::*;
use serde_json::Value;

fn recorded_tree(value: &Value) -> Tree {
    let list = |name: &str| value[name].as_array().unwrap().iter().map(|v| v.as_i64().unwrap());
    let tokens: Vec<u32> = list("tokens").map(|t| t as u32).collect();
    let mut tree = Tree::root(tokens[0]);
    for (&token, parent) in tokens.iter().zip(list("parents")).skip(1) {
        tree.push(parent as usize, token, -1.0);
    }
    tree
}

fn indices(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as usize).collect()
}

#[test]
fn greedy_walks_of_the_recorded_rounds() {
    let trees = json("trees.json");
    for draft in ["draft_dgf_m2", "draft_dgf_m2_gqa"] {
        let file = File::golden(&format!("tree_{draft}.safetensors"));
        for prompt in ["p0", "p1"] {
            let key = format!("k10d7t16.{prompt}");
            let want = &trees["trees"][draft][&key];
            let logits = file.floats(&format!("{key}.verify.node_logits"));
            let mut history = TokenUses::default();
            let tree = recorded_tree(want);
            let got = accept(&tree, &logits, &mut Sampler::default(), 11, &mut history);
            assert_eq!(got.path, indices(&want["verify"]["accepted_nodes"]), "{draft} {key}");
            assert_eq!(u64::from(got.bonus), want["verify"]["bonus_token"].as_u64().unwrap());
            let tokens: Vec<u32> = got.tokens(&tree).collect();
            assert_eq!(history, TokenUses::new(&tokens));
        }
    }
}

/// The paper's rejection loop at one node: visits children in order, accepts with `u < p`,
/// otherwise removes the token and renormalises.
fn rejection(
    p: &mut [f64],
    tree: &Tree,
    node: usize,
    uniforms: &mut impl Iterator<Item = f64>,
) -> Option<usize> {
    for child in tree.children(node) {
        let token = tree.nodes()[child].token as usize;
        if uniforms.next().unwrap() < p[token] {
            return Some(child);
        }
        p[token] = 0.0;
        let rest: f64 = p.iter().sum();
        p.iter_mut().for_each(|x| *x /= rest);
    }
    None
}

#[test]
fn processed_distributions_and_recorded_uniforms_give_the_recorded_walks() {
    let file = File::golden("stochastic.safetensors");
    let cases = json("stochastic.json");
    for (name, case) in cases["cases"].as_object().unwrap() {
        let real = |key: &str| case[key].as_f64().unwrap() as f32;
        // In the recorded code, 0 means "off".
        let top_p = if real("top_p") < 1e-8 { 1.0 } else { real("top_p") };
        let top_k = case["top_k"].as_u64().unwrap() as usize;
        let temperature = real("temperature");
        let mut sampler =
            Sampler::new(SamplerSettings { temperature, top_p, top_k, ..Default::default() });
        let tree = recorded_tree(case);
        let logits = file.floats(&format!("{name}.node_logits"));
        let vocab = logits.len() / tree.len();
        let uniforms = case["uniforms_used"].as_array().unwrap();
        let mut uniforms = uniforms.iter().map(|u| u.as_f64().unwrap());
        let mut path = vec![0];
        let p = loop {
            let node = *path.last().unwrap();
            let row = &logits[node * vocab..(node + 1) * vocab];
            let mut p = vec![0.0; vocab];
            for (token, share) in sampler.distribution(row, &TokenUses::default()) {
                p[token as usize] = f64::from(share);
            }
            match rejection(&mut p, &tree, node, &mut uniforms) {
                Some(child) => path.push(child),
                None => break p,
            }
        };
        assert_eq!(path, indices(&case["accepted_nodes"]), "{name}");
        assert_eq!(uniforms.next(), None, "{name}");
        let want = file.floats(&format!("{name}.sample_p_correct"));
        for (token, (&got, want)) in p.iter().zip(want).enumerate() {
            assert!((got - f64::from(want)).abs() < 1e-4, "{name} token {token}: {got} for {want}");
        }
    }
}

// ---- the sampler ---------------------------------------------------------------------------

/// The documented processors in f64, by full sorts.
fn textbook(logits: &[f32], settings: &SamplerSettings, history: &[u32]) -> Vec<(u32, f64)> {
    let mut row: Vec<f64> = logits.iter().map(|&x| f64::from(x)).collect();
    for (token, x) in row.iter_mut().enumerate() {
        let uses = history.iter().filter(|&&t| t as usize == token).count();
        if uses > 0 {
            let penalty = f64::from(settings.repetition_penalty);
            *x = if *x > 0.0 { *x / penalty } else { *x * penalty };
            *x -= f64::from(settings.presence_penalty)
                + f64::from(settings.frequency_penalty) * uses as f64;
        }
    }
    let top = row.iter().copied().filter(|x| !x.is_nan()).fold(f64::MIN, f64::max);
    let weight =
        |x: f64| if x.is_nan() { 0.0 } else { ((x - top) / f64::from(settings.temperature)).exp() };
    let mut all: Vec<(u32, f64)> = (0..).zip(row.iter().map(|&x| weight(x))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let total: f64 = all.iter().map(|&(_, w)| w).sum();
    let mut before = 0.0;
    let mut kept = Vec::new();
    for (rank, &(token, w)) in all.iter().enumerate() {
        let outside = before / total >= f64::from(settings.top_p) && settings.top_p < 1.0
            || settings.top_k > 0 && rank >= settings.top_k
            || w < f64::from(settings.min_p);
        if rank > 0 && outside || w == 0.0 {
            break;
        }
        before += w;
        kept.push((token, w));
    }
    let total: f64 = kept.iter().map(|&(_, w)| w).sum();
    kept.into_iter().map(|(token, w)| (token, w / total)).collect()
}

fn settings() -> impl Strategy<Value = SamplerSettings> {
    (
        0.2f32..3.0,
        prop_oneof![Just(0usize), 1usize..200],
        prop_oneof![Just(1.0f32), 0.01f32..1.0],
        prop_oneof![Just(0.0f32), 0.0f32..0.9],
        prop_oneof![Just((1.0f32, 0.0f32, 0.0f32)), (0.5f32..2.0, -1.0f32..1.0, -0.5f32..0.5)],
        any::<u64>(),
    )
        .prop_map(
            |(temperature, top_k, top_p, min_p, (repetition, presence, frequency), seed)| {
                SamplerSettings {
                    temperature,
                    top_k,
                    top_p,
                    min_p,
                    repetition_penalty: repetition,
                    presence_penalty: presence,
                    frequency_penalty: frequency,
                    seed,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn distributions_are_the_documented_ones(
        settings in settings(),
        logits in proptest::collection::vec(-12f32..12.0, 1..400),
        history in proptest::collection::vec(0u32..40, 0..30),
    ) {
        let mut sampler = Sampler::new(settings);
        let mut got = sampler.distribution(&logits, &TokenUses::new(&history));
        let mut want = textbook(&logits, &settings, &history);
        // Probabilities that f32 can hardly represent may be 0.
        got.retain(|&(_, p)| p > 1e-30);
        want.retain(|&(_, p)| p > 1e-30);
        // Rounding may put a token at the edge of a filter on either side.
        let (have, need) = (got.len(), want.len());
        prop_assert!(have.abs_diff(need) <= 1, "{} and {} tokens", have, need);
        if got.len() == want.len() {
            got.sort_by_key(|&(token, _)| token);
            want.sort_by_key(|&(token, _)| token);
            for (&(a, p), &(b, q)) in got.iter().zip(&want) {
                prop_assert_eq!(a, b);
                prop_assert!((f64::from(p) - q).abs() < 1e-4, "token {}: {} for {}", a, p, q);
            }
        }
    }

    #[test]
    fn a_draw_is_the_gumbel_argmax_over_the_distribution(
        settings in settings(),
        logits in proptest::collection::vec(
            prop_oneof![20 => -12f32..12.0, 1 => Just(f32::NAN), 1 => Just(f32::NEG_INFINITY)],
            1..400),
        history in proptest::collection::vec(0u32..40, 0..30),
        position in 0usize..10_000,
    ) {
        prop_assume!(logits.iter().any(|x| *x > f32::MIN));
        let history = TokenUses::new(&history);
        let mut sampler = Sampler::new(settings);
        let drawn = sampler.draw(&logits, position, &history);
        prop_assert_eq!(drawn, sampler.draw(&logits, position, &history));
        let noise = Noise::new(settings.seed, position);
        let scores: Vec<(u32, f64)> = sampler.distribution(&logits, &history).into_iter()
            .map(|(token, p)| (token, f64::from(p).ln() + noise.gumbel(token))).collect();
        let best = scores.iter().map(|s| s.1).fold(f64::MIN, f64::max);
        let score = scores.iter().find(|s| s.0 == drawn).map(|s| s.1);
        prop_assert!(score.is_some_and(|s| s > best - 1e-4), "{:?} is not {}", score, best);
    }

    #[test]
    fn greedy_is_the_argmax_whatever_the_filters(
        settings in settings(),
        logits in proptest::collection::vec((-8i8..8).prop_map(f32::from), 1..300),
    ) {
        let plain = SamplerSettings {
            temperature: 1e-5,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            ..settings
        };
        let mut sampler = Sampler::new(plain);
        let history = TokenUses::new(&[1, 2, 3]);
        prop_assert_eq!(sampler.draw(&logits, 9, &history), argmax(&logits));
        prop_assert_eq!(sampler.distribution(&logits, &history), vec![(argmax(&logits), 1.0)]);
    }

    #[test]
    fn a_walk_draws_what_plain_decoding_draws(
        settings in settings(),
        rows in proptest::collection::vec(proptest::collection::vec(-3f32..3.0, 6), 1..30),
        shape in proptest::collection::vec((any::<prop::sample::Index>(), 0u32..6), 0..29),
        position in 0usize..1000,
    ) {
        let mut tree = Tree::root(0);
        for (parent, token) in shape.iter().take(rows.len() - 1) {
            let parent = parent.index(tree.len());
            // Siblings hold different tokens.
            if tree.child(parent, *token).is_none() {
                tree.push(parent, *token, -1.0);
            }
        }
        let logits: Vec<f32> = rows[..tree.len()].concat();
        let mut sampler = Sampler::new(settings);
        let mut history = TokenUses::new(&[0]);
        let got = accept(&tree, &logits, &mut sampler, position, &mut history);
        let mut text = vec![0];
        for (depth, &node) in got.path.iter().enumerate() {
            let token = sampler.draw(&rows[node], position + depth + 1, &TokenUses::new(&text));
            text.push(token);
            prop_assert_eq!(tree.child(node, token), got.path.get(depth + 1).copied());
        }
        prop_assert_eq!(got.tokens(&tree).collect::<Vec<_>>(), &text[1..]);
    }
}

/// Chi-square of draws at many positions against the distribution; tokens expected fewer than five
/// times are counted together.
fn chi_square(settings: SamplerSettings, logits: &[f32]) -> (f64, usize) {
    const DRAWS: usize = 40_000;
    let mut sampler = Sampler::new(settings);
    let history = TokenUses::default();
    let mut counts = vec![0u32; logits.len()];
    for position in 0..DRAWS {
        counts[sampler.draw(logits, position, &history) as usize] += 1;
    }
    let (mut sum, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    for (token, p) in sampler.distribution(logits, &history) {
        let (expected, seen) = (f64::from(p) * DRAWS as f64, f64::from(counts[token as usize]));
        counts[token as usize] = 0;
        if expected < 5.0 {
            rest = (rest.0 + expected, rest.1 + seen);
        } else {
            sum += (seen - expected).powi(2) / expected;
            cells += 1;
        }
    }
    assert_eq!(counts.iter().sum::<u32>(), 0, "a token outside the distribution was drawn");
    if rest.0 >= 5.0 {
        sum += (rest.1 - rest.0).powi(2) / rest.0;
        cells += 1;
    }
    (sum, cells)
}

#[test]
fn draws_follow_the_distribution() {
    let logits: Vec<f32> =
        (0..200).map(|i| ((i * 37 % 101) as f32 / 101.0).powi(4) * 6.0).collect();
    let base = SamplerSettings { temperature: 1.0, ..Default::default() };
    let cases = [
        base,
        SamplerSettings { temperature: 0.6, seed: 1, ..base },
        SamplerSettings { temperature: 2.5, seed: 2, ..base },
        SamplerSettings { top_k: 7, seed: 3, ..base },
        SamplerSettings { top_p: 0.8, seed: u64::MAX, ..base },
        SamplerSettings { min_p: 0.3, seed: 5, ..base },
        SamplerSettings { temperature: 1.5, top_k: 40, top_p: 0.9, min_p: 0.05, seed: 6, ..base },
    ];
    for settings in cases {
        let (sum, cells) = chi_square(settings, &logits);
        // Mean n − 1, variance 2(n − 1): five standard deviations, plus the skew of few cells.
        let freedom = cells as f64 - 1.0;
        let bound = freedom + 5.0 * (2.0 * freedom).sqrt() + 10.0;
        assert!(sum < bound, "{settings:?}: chi-square {sum} with {cells} cells");
        assert!(cells > 3, "{settings:?}");
    }
}

#[test]
fn seeds_and_positions_change_the_draw() {
    let logits = vec![0.0f32; 1000];
    let draw = |seed, position| {
        let settings = SamplerSettings { temperature: 1.0, seed, ..Default::default() };
        Sampler::new(settings).draw(&logits, position, &TokenUses::default())
    };
    assert_eq!(draw(1, 5), draw(1, 5));
    let same =
        (0..200).filter(|&i| draw(1, i) == draw(2, i) || draw(1, i) == draw(1, i + 1)).count();
    assert!(same < 5, "{same} of 200 draws agree by chance");
}

#[test]
fn log_softmax_sums_to_one_over_a_large_vocabulary() {
    let row: Vec<f32> = (0..150_000).map(|i| ((i * 7919) % 1000) as f32 / 100.0).collect();
    let sum: f64 = log_softmax(&row).iter().map(|&x| f64::from(x).exp()).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{sum}");
}
