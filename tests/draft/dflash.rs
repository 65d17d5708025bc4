//! DFlash, DSpark and DFlash-2 drafters against llama.cpp's numbers, over two rounds, and what is
//! in their caches after every kind of round.

use std::collections::HashMap;

use crate::support::dflash::{CONTEXT, DFLASH, DflashCase, dflash_path, open_dflash};
use crate::support::golden::assert_close;
use crate::support::gpu::gpu;
use crate::support::library::{arch, change_json, open_head, refusal, spec};
use candle_core::{Device, Tensor};
use dovetail::draft::{Budget, DraftRequest, Drafter};
use dovetail::library::Spec;
use dovetail::model::{Config, DflashModel, Target};
use dovetail::speculate::{Ranking, Shape, Tree, top_log_probs};
use serde_json::{Value, json};

/// As the recordings' README requires.
const LOGITS: f32 = 1e-4;
const LATTICE: f32 = 2e-4;

/// The best candidates of every level, each after the best of the level before.
fn walk(model: &mut DflashModel, root: u32) -> Vec<u32> {
    let mut tokens = vec![root];
    for level in 0..model.config.levels() {
        let before = tokens[level];
        let best = model.candidates(level, &[before], &Ranking::new(1));
        tokens.push(best[0][0].0);
    }
    tokens.split_off(1)
}

/// Compares the draft of a round with the recorded one.
fn assert_round(case: &DflashCase, round: &str, model: &mut DflashModel) {
    let what = |what: &str| format!("{} {round} {what}", case.name);
    let block = case.tokens(&format!("{round}.block_tokens"));
    model.draft(block[0]).unwrap();
    let config = model.config.clone();
    let drafts = walk(model, block[0]);
    assert_eq!(drafts, case.tokens(&format!("{round}.draft_tokens")), "{}", what("tokens"));
    let exact = format!("{round}.block_logits_exact_gelu");
    let logits = match case.recorded.contains_key(&exact) {
        true => case.floats(&exact),
        false => case.floats(&format!("{round}.block_logits")),
    };
    let vocab = logits.len() / config.rows;
    let first = config.rows - config.levels();
    for (row, logits) in logits.chunks_exact(vocab).enumerate() {
        // Llama.cpp does not correct the row of the last token unless it drafts.
        let before = match row.checked_sub(first) {
            None => continue,
            Some(0) => block[0],
            Some(level) => drafts[level - 1],
        };
        let (found, confidence) = model.logits_after(row, &[before, block[0]]);
        let scored: Vec<f32> = logits.iter().copied().filter(|x| x.is_finite()).collect();
        assert_eq!(scored.len(), config.scored.unwrap_or(config.body.vocab));
        assert_close(&what("logits"), &found[..scored.len()], &scored, LOGITS);
        assert_eq!(!confidence.is_empty(), config.confidence);
        if config.confidence {
            let recorded = case.floats(&format!("{round}.confidence"));
            assert_close(&what("confidence"), &confidence[..1], &recorded[row..=row], LOGITS);
        }
        if let Some([_, count]) = config.selector {
            let candidates = case.tokens(&format!("{round}.lattice_candidates"));
            let scores = case.floats(&format!("{round}.lattice_scores"));
            let before = match row - first {
                0 => vec![block[0]; count],
                _ => candidates[(row - 1) * count..row * count].to_vec(),
            };
            let (tokens, found) = model.scores(row, &before).unwrap();
            let own = &candidates[row * count..(row + 1) * count];
            let recorded = &scores[row * count * count..(row + 1) * count * count];
            for (found, recorded) in found.chunks(count).zip(recorded.chunks(count)) {
                let sorted = tokens
                    .iter()
                    .map(|token| recorded[own.iter().position(|other| other == token).unwrap()]);
                let sorted: Vec<f32> = sorted.collect();
                assert_close(&what("lattice"), found, &sorted, LATTICE);
            }
        }
    }
}

#[test]
fn two_rounds_are_llama_cpp_s() {
    for case in DflashCase::all() {
        assert_two_rounds(&case, case.model());
    }
}

#[test]
fn two_rounds_on_a_gpu_are_llama_cpp_s() {
    let Some(gpu) = gpu() else { return };
    for case in DflashCase::all() {
        assert_two_rounds(&case, case.on_gpu(&gpu).unwrap());
    }
}

/// No recording has layers of two kinds.
#[test]
fn layers_of_two_kinds_draft_alike_on_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let mut case = DflashCase::load(DFLASH[1]);
    let logits = |case: &DflashCase, mut model: DflashModel| {
        model.passes.inject(&case.floats("r1.features")).unwrap();
        model.draft(case.tokens("r1.block_tokens")[0]).unwrap();
        model.logits_after(2, &[7]).0
    };
    let alike = logits(&case, case.model());
    case.files.config.causal = vec![true, false];
    let expected = logits(&case, case.model());
    assert_ne!(expected, alike);
    assert_close(case.name, &logits(&case, case.on_gpu(&gpu).unwrap()), &expected, LOGITS);
}

fn assert_two_rounds(case: &DflashCase, mut model: DflashModel) {
    model.passes.inject(&case.floats("r1.features")).unwrap();
    assert_round(case, "r1", &mut model);
    assert_eq!(model.passes.len(), 24, "a draft leaves nothing in the cache");
    // All verified rows go in, then the rejected ones are dropped.
    model.passes.inject(&case.floats("r2.features")).unwrap();
    assert_eq!(model.passes.len(), 29);
    model.passes.truncate(25 + case.tokens("r2.accepted")[0] as usize);
    assert_round(case, "r2", &mut model);
}

/// The target gives the recorded states, in a prompt and in a verified tree.
#[test]
fn the_targets_states_are_llama_cpp_s() {
    for case in DflashCase::all() {
        // Llama.cpp reads its GELU from a table of halves.
        let tolerance = if case.target == "gemma4" { 2e-2 } else { LOGITS };
        let mut target = case.target();
        let read = target.prefill(&case.tokens("tokens")).unwrap();
        assert_close(case.name, &read.features, &case.floats("r1.features"), tolerance);
        let verified = case.tokens("r2.tokens");
        let mut tree = Tree::root(verified[0]);
        for (parent, &token) in verified[1..].iter().enumerate() {
            tree.push(parent, token, -1.0);
        }
        let seen = target.verify(&tree).unwrap();
        assert_close(case.name, &seen.features, &case.floats("r2.features"), tolerance);
    }
}

fn request(root: u32, gamma: usize, width: usize) -> DraftRequest {
    DraftRequest::new(root, Budget::new(Shape { gamma, width, depth: 15 }, 0))
}

/// The tree is the γ − 1 most probable nodes of all, found here by trying every path.
#[test]
fn the_tree_is_the_most_probable_one() {
    let width = 5;
    for case in DflashCase::all() {
        let mut drafter = case.drafter();
        let root = case.tokens("r1.block_tokens")[0];
        drafter.observe(&case.floats("r1.features"), &[0; 24]).unwrap();
        let tree = drafter.propose(&[], &request(root, 40, width)).unwrap();
        let mut model = case.model();
        model.passes.inject(&case.floats("r1.features")).unwrap();
        model.draft(root).unwrap();
        let mut all: Vec<(Vec<u32>, f32)> = Vec::new();
        let mut level: Vec<(Vec<u32>, f32)> = vec![(vec![root], 0.0)];
        for depth in 0..3 {
            let ends: Vec<u32> = level.iter().map(|(path, _)| path[depth]).collect();
            let candidates = model.candidates(depth, &ends, &Ranking::new(width));
            level = level
                .iter()
                .zip(candidates)
                .flat_map(|((path, score), own)| {
                    own.into_iter().map(move |(token, log_prob)| {
                        ([&path[..], &[token]].concat(), score + log_prob)
                    })
                })
                .collect();
            all.extend(level.iter().cloned());
        }
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let path = |mut node: usize| {
            let mut path = vec![tree.nodes()[node].token];
            while node > 0 {
                node = tree.nodes()[node].parent;
                path.insert(0, tree.nodes()[node].token);
            }
            path
        };
        let deepest = tree.nodes().iter().map(|node| node.depth).max();
        let found: Vec<Vec<u32>> = (1..tree.len()).map(path).collect();
        assert!(tree.len() > 10 && deepest >= Some(2), "{}: {tree:?}", case.name);
        let least = tree.nodes()[1..].iter().map(|node| node.score).fold(0.0, f32::min);
        for (path, score) in all.iter().filter(|(_, score)| *score > least + 1e-4) {
            assert!(found.contains(path), "{}: {path:?} with {score} over {least}", case.name);
        }
        let chain = drafter.propose(&[], &request(root, 16, 1)).unwrap();
        let tokens: Vec<u32> = chain.nodes()[1..].iter().map(|node| node.token).collect();
        assert_eq!(tokens, case.tokens("r1.draft_tokens")[..tokens.len()], "{}", case.name);
        assert!(case.files.config.confidence || tokens.len() == case.files.config.levels());
    }
}

/// After rounds in which everything, nothing and a part was accepted, and after a rollback, a
/// drafter proposes what a new one proposes that has read the whole text.
#[test]
fn the_cache_holds_the_committed_positions_after_every_round() {
    for case in DflashCase::all() {
        let mut target = case.target();
        let mut drafter = case.drafter();
        // A prompt of one token.
        let mut text = vec![case.tokens("tokens")[0]];
        let read = target.prefill(&text).unwrap();
        text.push(top_log_probs(&read.logits, 1)[0].0);
        drafter.observe(&read.features, &text[1..]).unwrap();
        for round in 0..12 {
            let root = text[text.len() - 1];
            let tree = drafter.propose(&text, &request(root, 9, 1)).unwrap();
            assert_eq!(drafter.injected(), text.len() - 1);
            let mut fresh = case.drafter();
            let mut again = case.target();
            let read = again.prefill(&text[..text.len() - 1]).unwrap();
            fresh.observe(&read.features, &text[1..]).unwrap();
            assert_eq!(fresh.propose(&text, &request(root, 9, 1)).unwrap(), tree, "{round}");
            let most = tree.len() - 1;
            assert!(most > 0 || case.files.config.confidence, "{} {round}", case.name);
            // As if the target had chosen so many of the drafted tokens.
            let accepted = [most, 0, most.div_ceil(2)][round % 3];
            let seen = target.verify(&tree).unwrap();
            let path: Vec<usize> = (0..=accepted).collect();
            let mut new: Vec<u32> =
                path[1..].iter().map(|&node| tree.nodes()[node].token).collect();
            new.push(3 + round as u32);
            let width = seen.features.len() / tree.len();
            target.commit(&path);
            drafter.observe(&seen.features[..width * path.len()], &new).unwrap();
            text.extend(&new);
            if round == 7 {
                // The user changes the text.
                text.truncate(4);
                drafter.truncate(3);
                // A recurrent target may have to read a part again.
                target.truncate(3);
                target.prefill(&text[target.len()..3]).unwrap();
            }
        }
        assert!(text.len() > 12);
    }
}

/// A block may be longer than what is left of the context; beyond that nothing is drafted.
#[test]
fn a_block_longer_than_the_rest_of_the_context_drafts() {
    for case in DflashCase::all() {
        let (features, root) = (case.floats("r1.features"), case.tokens("r1.block_tokens")[0]);
        let width = features.len() / 24;
        let mut drafter = case.drafter();
        for position in 0..=CONTEXT {
            let at = position % 24 * width;
            drafter.observe(&features[at..at + width], &[root]).unwrap();
        }
        drafter.truncate(CONTEXT);
        assert!(drafter.propose(&[], &request(root, 16, 2)).unwrap().len() > 1, "{}", case.name);
        drafter.observe(&features[..width], &[root]).unwrap();
        assert_eq!(drafter.propose(&[], &request(root, 16, 2)).unwrap(), Tree::root(root));
        drafter.truncate(0);
        assert_eq!(drafter.observed(), 0);
        assert_eq!(drafter.propose(&[], &request(root, 16, 2)).unwrap(), Tree::root(root));
        let error = drafter.observe(&features[..width - 1], &[root]).unwrap_err();
        assert!(error.to_string().contains("192 numbers per token"), "{error}");
    }
}

/// The parts of a layer by the names that the model requests, and the published ones.
const PARTS: [(&str, &str); 15] = [
    ("input_layernorm.weight", ""),
    ("post_attention_layernorm.weight", ""),
    ("self_attn.q_proj.weight", ""),
    ("self_attn.k_proj.weight", ""),
    ("self_attn.v_proj.weight", ""),
    ("self_attn.o_proj.weight", ""),
    ("self_attn.q_norm.weight", ""),
    ("self_attn.k_norm.weight", ""),
    ("mlp.gate_proj.weight", ""),
    ("mlp.up_proj.weight", ""),
    ("mlp.down_proj.weight", ""),
    ("attn_conv_base", "attention_conv.base_kernel"),
    ("attn_conv_proj.weight", "attention_conv.kernel_projection.weight"),
    ("ffn_conv_base", "mlp_conv.base_kernel"),
    ("ffn_conv_proj.weight", "mlp_conv.kernel_projection.weight"),
];

/// The same of all other tensors.
const OTHERS: [(&str, &str); 12] = [
    ("fc.weight", "fc.weight"),
    ("enc.output_norm.weight", "hidden_norm.weight"),
    ("model.norm.weight", "norm.weight"),
    ("model.embed_tokens.weight", "embed_tokens.weight"),
    ("lm_head.weight", "lm_head.weight"),
    ("markov_w1.weight", "markov_head.markov_w1.weight"),
    ("markov_w2.weight", "markov_head.markov_w2.weight"),
    ("conf_proj.weight", "confidence_head.proj.weight"),
    ("conf_proj.bias", "confidence_head.proj.bias"),
    ("selector_predecessor.weight", "candidate_selector.predecessor_codebook"),
    ("selector_successor.weight", "candidate_selector.successor_codebook"),
    ("selector_hidden.weight", "candidate_selector.hidden_projection.weight"),
];

/// A recorded drafter as its authors publish such drafters; `prefix` is before every name.
fn published(case: &DflashCase, prefix: &str) -> tempfile::TempDir {
    let config = &case.files.config;
    let weights = &case.files.weights;
    let mut tensors = HashMap::new();
    let mut put = |own: &str, published: String| {
        let Some(raw) = weights.tensor(own) else { return };
        let values = Tensor::from_vec(raw.values().unwrap(), raw.shape, &Device::Cpu).unwrap();
        tensors.insert(format!("{prefix}{published}"), values);
    };
    for (own, published) in OTHERS {
        put(own, published.to_owned());
    }
    for layer in 0..config.body.layers {
        for (own, published) in PARTS {
            let published = if published.is_empty() { own } else { published };
            put(&format!("model.layers.{layer}.{own}"), format!("layers.{layer}.{published}"));
        }
    }
    if let Some(d2t) = weights.tensor("d2t") {
        let tokens = d2t.bytes.as_chunks().0.iter().map(|&token| i64::from_le_bytes(token));
        let offsets: Vec<i64> = tokens.zip(0..).map(|(token, id)| token - id).collect();
        let offsets = Tensor::from_slice(&offsets, offsets.len(), &Device::Cpu).unwrap();
        tensors.insert(format!("{prefix}d2t"), offsets);
    }
    let body = &config.body;
    let block = &body.block;
    let kind = |window: &Option<usize>| match window {
        Some(_) => "sliding_attention",
        None => "full_attention",
    };
    let [taps, groups] = config.convolution.unwrap_or([0, 1]);
    let settings = json!({
        "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "hidden_act": "silu",
        "is_causal": false, "hidden_size": body.hidden, "intermediate_size": body.intermediate,
        "num_hidden_layers": body.layers, "num_attention_heads": body.heads,
        "num_key_value_heads": body.kv_heads, "head_dim": body.head_dim,
        "rms_norm_eps": body.rms_eps, "vocab_size": body.vocab, "tie_word_embeddings": false,
        "max_position_embeddings": body.max_positions,
        "rope_parameters": {"rope_theta": body.rope_theta, "rope_type": "default"},
        "sliding_window": config.windows.iter().flatten().next(), "use_sliding_window": true,
        "layer_types": config.windows.iter().map(kind).collect::<Vec<_>>(),
        "block_size": config.rows,
        "dflash_config": {
            "mask_token_id": config.mask,
            "target_layer_ids": config.states.iter().map(|state| state - 1).collect::<Vec<_>>(),
            "conv_kernel_size": taps, "conv_group_size": body.hidden / groups,
            "selector_top_k": config.selector.map(|[_, count]| count),
            "output_multiplier": 1.0 / block.logit_divisor,
            "final_logit_softcapping": block.final_softcap,
            "attention_value_scale": block.attention_out_scale,
        },
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), settings.to_string()).unwrap();
    candle_core::safetensors::save(&tensors, folder.path().join("model.safetensors")).unwrap();
    folder
}

#[test]
fn published_files_draft_what_the_converted_ones_do() {
    for (name, prefix) in [("dflash", ""), ("dspark", ""), ("dflash2", "model.")] {
        let target = DFLASH.into_iter().find(|(other, _)| *other == name).unwrap();
        let converted = DflashCase::load(target);
        let folder = published(&converted, prefix);
        let files = open_dflash(&Spec::Folder(folder.path().to_owned()));
        assert_eq!(files.config, converted.files.config, "{name}");
        let case = DflashCase { files, ..converted };
        assert_two_rounds(&case, case.model());
        let error = refusal(open_head(&spec(folder.path())));
        assert!(error.contains("a DFlash drafter") && error.contains("--draft"), "{error}");
        change_json(folder.path(), "config.json", |json| json["block_size"] = 1.into());
        let error = refusal(open_head(&spec(folder.path())));
        assert!(error.contains("`block_size` is 1: it must be between 2 and 256"), "{error}");
    }
}

/// Without `is_causal`, the rows of layers with a window see only those before them.
#[test]
fn layers_with_a_window_are_causal_unless_the_config_says_otherwise() {
    let case = DflashCase::load(DFLASH[1]);
    let folder = published(&case, "");
    change_json(folder.path(), "config.json", |json| json["is_causal"] = Value::Null);
    let files = open_dflash(&Spec::Folder(folder.path().to_owned()));
    assert_eq!(files.config.causal, [true, false]);
}

#[test]
fn a_drafter_for_another_target_is_refused_with_the_figures() {
    let files = open_dflash(&Spec::Gguf(dflash_path("dflash")));
    let config = arch("qwen35").config;
    let fits = |change: &dyn Fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        files.config.fits_target(&config)
    };
    assert!(fits(&|_| ()).is_ok());
    let told = |change: &dyn Fn(&mut Config)| fits(change).unwrap_err().to_string();
    let layers = told(&|config| config.layers = 2);
    for part in ["last tapped layer is 3, but the target's is 2", "use a head"] {
        assert!(layers.contains(part), "{layers}");
    }
    let width = told(&|config| config.hidden = 32);
    assert!(width.contains("hidden size is 64, but the target's is 32"), "{width}");
    let vocab = told(&|config| config.vocab = 300);
    assert!(vocab.contains("vocabulary size is 267, but the target's is 300"), "{vocab}");
    let model = Spec::Gguf(crate::support::library::arch_file("qwen3.gguf"));
    let error = refusal(open_head(&model));
    assert!(error.contains("is a language model"), "{error}");
}
