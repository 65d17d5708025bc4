//! Several draft heads that cannot be cut: the chosen one fits the target and the room, and changes
//! no token.

use crate::support::golden::golden;
use crate::worker::strategies::{folder, named};
use dovetail::chat::{Message, Role};
use dovetail::hardware::{Machine, adapters};
use dovetail::load::{Loaded, Purpose, StartError, load};
use dovetail::plan::{DeviceChoice, Strategy, TreeOverrides};
use dovetail::settings::{HeadChoice, ScoredTokens, Settings};
use dovetail::worker::{Backend, Controls, Event, Job, Setting, SharedControls};
use tempfile::TempDir;

fn heads(names: &[&str]) -> HeadChoice {
    HeadChoice::Named(names.iter().map(|name| named(&golden(name)).unwrap()).collect())
}

/// A recorded target with these heads of one, two and four blocks.
fn settings(draft: HeadChoice) -> (Settings, TempDir) {
    let target = folder("target_mha");
    let settings = Settings {
        target: named(target.path()),
        draft,
        device: DeviceChoice::Cpu,
        strategy: Strategy::named("dovetail"),
        context: Some(256),
        ..Settings::default()
    };
    (settings, target)
}

const ALL: [&str; 3] = ["draft_dgf_m1", "draft_dgf_m4", "draft_dgf_m2"];

fn loaded(settings: &Settings) -> Result<Loaded, StartError> {
    load(settings, &Machine::probe(), Purpose::Text, &mut |_, _| {})
}

fn text(settings: &Settings) -> String {
    let mut backend = Backend::from(loaded(settings).unwrap_or_else(|error| panic!("{error}")));
    let tree = TreeOverrides {
        gamma: Setting::Fixed(8),
        width: Setting::Fixed(3),
        depth: Setting::Fixed(3),
        blocks: Setting::Auto,
    };
    let strategy = settings.strategy;
    let controls = Controls { generation: 1, strategy, tree, ..Controls::default() };
    let controls = SharedControls::new(controls);
    let messages = vec![Message::new(Role::User, "Tell me of owls.")];
    let job = Job { generation: 1, messages, max_tokens: 24, ..Job::default() };
    let mut text = String::new();
    backend.answer(&job, &controls, &mut |event| {
        match event {
            Event::First { token, .. } => text += &token.text,
            Event::Round { round, .. } => {
                round.committed.iter().for_each(|token| text += &token.text);
            }
            Event::Failed { error, .. } => panic!("{error}"),
            _ => {}
        }
        true
    });
    text
}

#[test]
fn of_several_heads_one_is_taken_and_the_reason_tells_of_all() {
    let (settings, _target) = settings(heads(&ALL));
    let loaded = loaded(&settings).unwrap_or_else(|error| panic!("{error}"));
    let ready = loaded.ready;
    let reason = ready.reasons.iter().find(|line| line.contains("Using draft head "));
    let reason = reason.unwrap_or_else(|| panic!("{:?}", ready.reasons));
    for (name, blocks) in [("draft_dgf_m1", 1), ("draft_dgf_m2", 2), ("draft_dgf_m4", 4)] {
        let taken = format!("{name} (of 3, M = {blocks}): about ");
        let is_taken = ready.blocks == blocks;
        assert_eq!(reason.contains(&taken), is_taken, "{reason}");
        assert_eq!(reason.contains(&format!("{name} (M = {blocks}) ")), !is_taken, "{reason}");
    }
    assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
    // The status names the chosen head.
    let taken = format!("draft_dgf_m{}", ready.blocks);
    assert!(ready.models.draft.is_some_and(|draft| draft.ends_with(&taken)), "{taken}");
}

/// A head that scores fewer tokens reads less of its LM head, so more is expected of it.
#[test]
fn a_draft_vocabulary_is_weighed_as_what_it_costs() {
    let rates = |draft_vocab: Option<ScoredTokens>| -> Vec<f64> {
        let (settings, _target) = settings(heads(&ALL));
        let loaded = loaded(&Settings { draft_vocab, ..settings });
        let ready = loaded.unwrap_or_else(|error| panic!("{error}")).ready;
        let told = ready.reasons.join(" ");
        let (_, told) = told.split_once("Using draft head ").unwrap();
        let (taken, rest) = told.split_once(" tokens/s expected on the CPU. Others: ").unwrap();
        let first = taken.rsplit(' ').next();
        let others = rest.split(") ").skip(1).map(|rate| rate.split([';', ' ']).next().unwrap());
        let rates = first.into_iter().chain(others.take(2));
        rates.map(|rate| rate.trim_end_matches('.').parse().unwrap()).collect()
    };
    let all = rates(None);
    assert_eq!(all.len(), 3);
    let of = |setting| rates(Some(ScoredTokens::First(setting)));
    let few = of(Setting::Fixed(16));
    assert!(all.iter().zip(&few).all(|(all, few)| few > all), "{few:?} of 16, {all:?} of all");
    // The expectation for a vocabulary of 256 is that for the whole vocabulary.
    assert_eq!(of(Setting::Auto), of(Setting::Fixed(256)));
}

#[test]
fn heads_of_other_targets_are_refused_by_name_with_the_reason() {
    let (settings, _target) = settings(heads(&["eagle3/head_eagle3", "draft_dgf_m2"]));
    let one = loaded(&settings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((one.ready.blocks, one.notices.len()), (2, 1), "{:?}", one.notices);
    let notice = &one.notices[0];
    assert!(notice.contains("head_eagle3: the draft head does not fit the target"), "{notice}");
    let told = one.ready.reasons.join(" ");
    assert!(
        told.contains("Using draft head ") && told.contains("draft_dgf_m2, the only"),
        "{told}"
    );

    // A head of the same shape, whose folder says that it was made for another model.
    let other = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden("draft_dgf_m4").join(file), other.path().join(file)).unwrap();
    }
    let target = serde_json::json!([{
        "name": "another", "hidden": 64, "vocab": 256, "weights": "0", "tokenizer": "0"
    }]);
    std::fs::write(other.path().join("target.json"), target.to_string()).unwrap();
    let names = [named(other.path()), named(&golden("draft_dgf_m1"))].map(Option::unwrap);
    let of_another = Settings { draft: HeadChoice::Named(names.to_vec()), ..settings.clone() };
    let one = loaded(&of_another).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(one.ready.blocks, 1);
    assert!(
        one.notices[0].contains("the draft head was trained for another, not for"),
        "{:?}",
        one.notices
    );

    let draft = heads(&["eagle3/head_eagle3", "eagle3/head_eagle3"]);
    let error = match loaded(&Settings { draft, ..settings }) {
        Err(error) => error.to_string(),
        Ok(loaded) => panic!("{:?}", loaded.ready.draft),
    };
    assert!(error.starts_with("none of the draft heads fits"), "{error}");
    assert!(error.ends_with("Choose another with --draft"), "{error}");
}

#[test]
fn the_text_is_the_targets_whichever_head_is_taken() {
    let (plain, _target) = settings(HeadChoice::Lookup);
    let expected = text(&Settings { strategy: Strategy::named("plain"), ..plain.clone() });
    assert!(!expected.is_empty());
    let few = Some(ScoredTokens::First(Setting::Fixed(16)));
    for (names, draft_vocab) in
        [(&ALL[..], None), (&ALL[..2], None), (&ALL[2..], None), (&ALL[..], few)]
    {
        let settings = Settings { draft: heads(names), draft_vocab, ..plain.clone() };
        assert_eq!(text(&settings), expected, "{names:?}");
    }
}

/// With more and more video memory: none of the heads, then the one that is best here, with fewer
/// and fewer that have no room.
#[test]
fn the_room_on_a_card_decides_which_head_is_taken() {
    if adapters().is_empty() {
        println!("left out: everything on a GPU, for there is none (mesa-vulkan-drivers)");
        return;
    }
    let (settings, _target) = settings(heads(&ALL));
    let mut told_of = Vec::new();
    for kib in (0..=2048).step_by(256) {
        let vram = Some((32 << 20) + (kib << 10));
        let device = DeviceChoice::Gpu(Some(0));
        let loaded = loaded(&Settings { vram, device, ..settings.clone() });
        let ready = loaded.unwrap_or_else(|error| panic!("{error}")).ready;
        let told = ready.reasons.join(" ");
        let there = ready.vram_used > 0;
        assert_eq!(told.contains("tokens/s expected on the GPU"), there, "{told}");
        let left_out = told.matches("of GPU memory, but").count();
        if there {
            assert_eq!(ready.blocks, 1, "{told}");
            told_of.push(left_out);
        } else {
            assert_eq!((left_out, told_of.len()), (1, 0), "of the one on the CPU: {told}");
        }
    }
    told_of.dedup();
    assert_eq!(told_of, [2, 1, 0]);
}
