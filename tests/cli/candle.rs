//! Models that candle-transformers runs, from outside: they chat plainly, and everything says who
//! runs them.

use std::fs;

use dovetail::chat::{Message, Role};
use dovetail::model::ModelEngine;
use dovetail::settings::Settings;
use dovetail::worker::{Backend, Job};

use crate::support::bundled::{asked, loaded, user};
use crate::support::candle::{CANDLE_FAMILIES, CandleReference, write_checkpoint};
use crate::support::events::{Said, controls};
use crate::support::program::{Home, assert_has, flat};

/// A home folder with a model of each family.
fn home() -> Home {
    let home = Home::new();
    for family in CANDLE_FAMILIES {
        let folder = home.path().join("models").join(format!("tiny-{family}"));
        fs::create_dir_all(&folder).unwrap();
        write_checkpoint(family, &folder);
    }
    home.write_settings("max_tokens = 6\nmodel_folders = [\"~/models\"]\n");
    home
}

/// The likeliest tokens after a text, by candle's own model reading all of it for each.
fn greedy(family: &'static str, text: &[u32], count: usize) -> Vec<u32> {
    let reference = CandleReference::of(family);
    let mut text = text.to_vec();
    for _ in 0..count {
        let logits = reference.logits(&text);
        let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        text.push(best as u32);
    }
    text.split_off(text.len() - count)
}

#[test]
fn a_chat_says_what_candles_own_model_says() {
    let home = home();
    for family in CANDLE_FAMILIES {
        let folder = home.path().join("models").join(format!("tiny-{family}"));
        let target = folder.to_str().unwrap().to_owned();
        let settings = Settings { target: Some(target), ..Settings::default() };
        let models = loaded(&settings).unwrap();
        assert_eq!(models.drafts.setup.engine, ModelEngine::Candle);
        let available = models.drafts.setup.strategies.iter().filter(|row| row.missing.is_none());
        let available: Vec<&str> = available.map(|row| row.strategy.name).collect();
        assert_eq!(
            (available.as_slice(), models.drafts.setup.strategy.name),
            (&["plain"][..], "plain")
        );
        let mut backend = Backend::from(models);
        let mut messages = Vec::new();
        let mut spoken = Vec::new();
        // The second answer continues after the first.
        for words in ["Tell me a story.", "And then?"] {
            messages.push(user(words));
            let prompt = asked(&mut backend, &messages, 6).prompt;
            let job = Job { messages: messages.clone(), max_tokens: 6, ..Job::default() };
            let said = Said::of(&mut backend, &job, &controls());
            assert!(!said.tokens.is_empty());
            let expected = greedy(family, &prompt, said.tokens.len());
            assert_eq!(said.tokens, expected, "{family}, {words}");
            assert!(said.rounds.iter().all(|round| round.tree.len() == 1));
            messages.push(Message::new(Role::Assistant, said.text.clone()));
            spoken.push(said.text);
        }
        let name = format!("tiny-{family}");
        let (out, err) =
            home.ran(0, &["run", "Tell me a story.", "--target", &name, "--temperature", "0"]);
        assert_eq!(out.trim_end(), spoken[0].trim_end(), "{family}: {err}");
    }
}

#[test]
fn the_program_says_who_runs_a_model_and_what_it_cannot_do() {
    let home = home();
    let (out, _) = home.ran(0, &["doctor", "--target", "tiny-olmo"]);
    assert_has(&out, &["engine       candle-transformers"]);
    assert_has(&flat(&out), &["pld unavailable, needs an engine that verifies drafts"]);
    let no_gpu =
        "needs a GPU to stream to: candle-transformers, which runs this model, uses no GPU";
    assert_has(&flat(&out), &[no_gpu]);
    assert_has(&flat(&out), &["plain the target alone, one token per pass (in use)"]);
    assert_has(&home.ran(0, &["doctor"]).0, &["engine       Dovetail"]);
    assert_has(&home.ran(0, &["models", "tiny-mamba"]).0, &["engine       candle-transformers"]);
    assert_eq!(home.json(&["models", "tiny-falcon", "--json"])["engine"], "candle");
    assert_eq!(home.json(&["models", "bundled", "--json"])["engine"], "dovetail");
    let (out, _) = home.ran(0, &["models"]);
    let line = out.lines().find(|line| line.contains("tiny-helium")).unwrap();
    assert!(line.contains("F32, candle"), "{line}");

    fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["run", "Hi", "--target", "tiny-helium"], more].concat()
    }
    let needs = "the strategy `pld` needs an engine that verifies drafts";
    home.refuses(3, &run(&["--strategy", "pld"]), &[needs, "available strategies: plain"]);
    // A draft or a GPU that cannot be used is named.
    let (_, err) = home.ran(0, &run(&["--draft-model", "bundled", "--gpu-layers", "2"]));
    assert_has(&flat(&err), &["--draft-model have no effect", "uses no GPU"]);
    // It cannot draft, and it cannot be measured as ours are.
    home.refuses(3, &["run", "Hi", "--draft-model", "tiny-olmo"], &["cannot draft"]);
    let quality = ["bench", "quality", "--target", "tiny-olmo"];
    home.refuses(3, &quality, &["only candle-transformers runs this architecture"]);
    // Plain decoding against itself is not a comparison.
    for compares in [&["race", "Hi"][..], &["bench", "sweep", "--quick"]] {
        let args = [compares, &["--target", "tiny-olmo"]].concat();
        home.refuses(3, &args, &["nothing can be drafted for", "engine that verifies drafts"]);
    }
}

#[test]
fn both_engines_are_compared_where_both_know_the_model() {
    let home = home();
    let (out, _) = home.ran(0, &["doctor", "--check", "bundled"]);
    assert_has(&out, &["candle", "mean KL", "Both engines predict alike."]);
    let (_, err) = home.ran(3, &["doctor", "--check", "tiny-chatglm"]);
    assert_has(&err, &["only candle-transformers runs this architecture"]);
}
