//! Recurrent layers of tiny models: their states against the recorded ones of the reference
//! program, and every way to reach a text against plain decoding of it, in every bit.

use crate::support::exact::{plain_rows, row};
use crate::support::kernels::bits;
use crate::support::library::{arch, arch_recording, load_files, off_by};
use dovetail::model::{CpuTarget, Target};
use dovetail::speculate::Tree;
use proptest::prelude::*;

/// Each with the numbers of its recurrent layers in the recording.
const MODELS: [(&str, &[usize]); 10] = [
    ("qwen3next", &[0, 1, 2]),
    ("qwen35", &[0, 1, 2]),
    ("qwen35moe", &[0, 1, 2]),
    ("lfm2", &[0, 2]),
    ("lfm2moe", &[0, 2]),
    ("mamba2", &[0, 1]),
    ("falcon-h1", &[0, 1]),
    ("granitehybrid", &[0, 2]),
    ("nemotron_h", &[0, 3]),
    ("nemotron_h_moe", &[0]),
];

const TOLERANCE: f32 = 1e-4;
const CONTEXT: usize = 256;

fn load(name: &str, threads: usize) -> CpuTarget {
    load_files(&arch(name), CONTEXT, threads)
}

/// The states of a target after its committed text, which a further pass applies.
fn states(target: &mut CpuTarget, layers: usize) -> Vec<[Vec<f32>; 2]> {
    target.verify(&Tree::root(1)).unwrap();
    (0..layers).map(|layer| target.recurrent_state(layer).unwrap()).collect()
}

/// How far the states are from the recorded ones, whose convolution is `[channels, taps − 1]`.
fn off_by_states(name: &str, at: &str, layers: &[usize], found: &[[Vec<f32>; 2]]) -> f32 {
    let mut most = 0f32;
    for (layer, [conv, state]) in layers.iter().zip(found) {
        let recorded = arch_recording(name, &format!("conv_{at}.{layer}")).1;
        let taps = if name.starts_with("lfm2") { 2 } else { 3 };
        let channels = recorded.len() / taps;
        let turned: Vec<f32> = (0..taps)
            .flat_map(|tap| (0..channels).map(move |channel| (channel, tap)))
            .map(|(channel, tap)| recorded[channel * taps + tap])
            .collect();
        assert_eq!(conv.len(), turned.len());
        most = most.max(off_by(conv, &turned));
        if !state.is_empty() {
            let recorded = arch_recording(name, &format!("ssm_{at}.{layer}")).1;
            assert_eq!(state.len(), recorded.len());
            most = most.max(off_by(state, &recorded));
        }
    }
    most
}

#[test]
fn states_are_the_reference_programs_also_after_a_wrong_continuation() {
    for (name, layers) in MODELS {
        let (tokens, expected) = arch_recording(name, "logits_one_by_one");
        let wrong = [1u32, 2, 3, 4, 5];
        let mut target = load(name, 2);
        let vocab = target.vocab();
        plain_rows(&mut target, &tokens[..20]);
        let at_20 = states(&mut target, layers.len());
        let off = off_by_states(name, "20", layers, &at_20);
        assert!(off < TOLERANCE, "{name} is off by {off}");
        // All of a wrong tree is dropped.
        let mut tree = Tree::root(wrong[0]);
        for &token in &wrong[1..] {
            tree.push(tree.len() - 1, token, -1.0);
        }
        target.verify(&tree).unwrap();
        assert_eq!(states(&mut target, layers.len()), at_20, "{name}");
        let rest = plain_rows(&mut target, &tokens[20..]);
        for (found, expected) in rest.iter().zip(expected.chunks_exact(vocab).skip(20)) {
            assert!(off_by(&found.logits, expected) < TOLERANCE, "{name}");
        }
        let at_40 = states(&mut target, layers.len());
        assert!(off_by_states(name, "40", layers, &at_40) < TOLERANCE, "{name}");
    }
}

/// The recorded wrong continuation, which is committed and taken back.
#[test]
fn a_continuation_that_was_committed_is_taken_back() {
    for (name, layers) in MODELS {
        let (tokens, _) = arch_recording(name, "logits");
        let wrong: Vec<u32> = wrong_tokens(name);
        let mut target = load(name, 2);
        target.prefill(&tokens[..20]).unwrap();
        let expected = arch_recording(name, "wrong_logits").1;
        let vocab = target.vocab();
        let found = plain_rows(&mut target, &wrong);
        for (found, expected) in found.iter().zip(expected.chunks_exact(vocab)) {
            assert!(off_by(&found.logits, expected) < TOLERANCE, "{name}");
        }
        let after = states(&mut target, layers.len());
        assert!(off_by_states(name, "wrong", layers, &after) < TOLERANCE, "{name}");
        // The prompt was long enough for a copy of its states.
        target.truncate(20);
        assert_eq!(target.len(), 20, "{name}");
        target.prefill(&tokens[20..]).unwrap();
        let back = states(&mut target, layers.len());
        assert!(off_by_states(name, "40", layers, &back) < TOLERANCE, "{name}");
        let mut plain = load(name, 1);
        plain_rows(&mut plain, &tokens);
        assert_eq!(states(&mut plain, layers.len()), back, "{name}");
    }
}

/// `wrong_tokens` of a recording.
fn wrong_tokens(name: &str) -> Vec<u32> {
    let floats = arch_recording(name, "wrong_tokens").1;
    floats.iter().map(|number| number.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// A text read in any chunks, cut back to any length, saved and restored in between, continues
    /// with the bits of plain decoding.
    #[test]
    fn any_way_to_a_text_is_plain_decoding(
        text in prop::collection::vec(0u32..260, 2..90),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        backs in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
        tail in prop::collection::vec(0u32..260, 1..30),
        threads in 1usize..4,
    ) {
        for (name, layers) in MODELS {
            let mut plain = load(name, 1);
            let whole = [&text[..], &tail].concat();
            let expected = plain_rows(&mut plain, &whole);
            let last = states(&mut plain, layers.len());
            let mut target = load(name, threads);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                let read = target.prefill(&text[pair[0]..pair[1]]).unwrap();
                if pair[0] < pair[1] {
                    prop_assert_eq!(bits(&read.logits), bits(&expected[pair[1] - 1].logits));
                }
            }
            for back in &backs {
                let len = back.index(target.len() + 1);
                let reachable = target.begin_prompt(&[], len);
                target.truncate(len);
                prop_assert_eq!(target.len(), reachable, "{}", name);
                prop_assert!(reachable <= len);
                let kept = target.len();
                if kept > 0 {
                    let saved = target.saved_kv(usize::MAX).unwrap();
                    prop_assert!(target.saved_kv(saved.len() - 1).is_none());
                    let mut other = load(name, 1);
                    prop_assert!(!other.restore_kv(kept, &saved[1..]));
                    prop_assert!(other.restore_kv(kept, &saved));
                    target = other;
                }
                for &token in text[kept..].iter().take(3) {
                    target.verify(&Tree::root(token)).unwrap();
                    target.commit(&[0]);
                }
            }
            let kept = target.len();
            for (&token, expected) in whole[kept..].iter().zip(&expected[kept..]) {
                let found = target.verify(&Tree::root(token)).unwrap();
                prop_assert_eq!(row(&target, &found, 0), row(&target, expected, 0));
                target.commit(&[0]);
            }
            prop_assert_eq!(states(&mut target, layers.len()), last);
        }
    }
}
