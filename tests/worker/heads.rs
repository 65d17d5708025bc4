//! Several draft heads that cannot be cut: the chosen one fits the target and the room, and changes
//! no token.

use crate::support::bundled::{loaded, user};
use crate::support::events::Said;
use crate::support::golden::golden;
use crate::worker::strategies::{folder, named};
use dovetail::hardware::adapters;
use dovetail::load::{HeadMismatch, LoadReason, Notice, Setup, StartError};
use dovetail::plan::{DeviceChoice, HeadForecast, Obstacle, Reason, Strategy, TreeOverrides};
use dovetail::settings::{HeadChoice, ScoredTokens, Settings};
use dovetail::worker::{Backend, Controls, Job, Setting, SharedControls};
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

fn setup(settings: &Settings) -> Setup {
    loaded(settings).unwrap_or_else(|error| panic!("{error}")).drafts.setup
}

/// The heads that were compared, which of them is used, and whether on the GPU.
fn compared(setup: &Setup) -> (&[HeadForecast], usize, bool) {
    let chosen = setup.reasons.iter().find_map(|why| match why {
        LoadReason::Plan(Reason::HeadChosen { heads, taken, on_gpu }) => {
            Some((&heads[..], *taken, *on_gpu))
        }
        _ => None,
    });
    chosen.unwrap_or_else(|| panic!("{:?}", setup.reasons))
}

fn text(settings: &Settings) -> String {
    let mut backend = Backend::from(loaded(settings).unwrap_or_else(|error| panic!("{error}")));
    let tree = TreeOverrides {
        gamma: Setting::Fixed(8),
        width: Setting::Fixed(3),
        depth: Setting::Fixed(3),
        ..TreeOverrides::default()
    };
    let strategy = settings.strategy;
    let controls = Controls { generation: 1, strategy, tree, ..Controls::default() };
    let controls = SharedControls::new(controls);
    let messages = vec![user("Tell me of owls.")];
    let job = Job { generation: 1, messages, max_tokens: 24, ..Job::default() };
    Said::of(&mut backend, &job, &controls).text
}

#[test]
fn of_several_heads_one_is_taken_and_the_reason_tells_of_all() {
    let (settings, _target) = settings(heads(&ALL));
    let setup = setup(&settings);
    let (heads, taken, _) = compared(&setup);
    for (head, (name, blocks)) in
        heads.iter().zip([("draft_dgf_m1", 1), ("draft_dgf_m4", 4), ("draft_dgf_m2", 2)])
    {
        assert!(head.name.ends_with(name) && head.blocks == blocks, "{head:?}");
        assert!(head.rate.as_ref().is_ok_and(|rate| *rate > 0.0), "{head:?}");
    }
    assert_eq!((heads.len(), heads[taken].blocks), (3, setup.budget.blocks));
    assert!(setup.notices.is_empty(), "{:?}", setup.notices);
    // The models name the chosen head.
    assert_eq!(setup.models.draft.as_ref(), Some(&heads[taken].name));
}

/// A head that scores fewer tokens reads less of its LM head, so more is expected of it.
#[test]
fn a_draft_vocabulary_is_weighed_as_what_it_costs() {
    let rates = |draft_vocab: Option<ScoredTokens>| -> Vec<f64> {
        let (settings, _target) = settings(heads(&ALL));
        let setup = setup(&Settings { draft_vocab, ..settings });
        let rate = |head: &HeadForecast| *head.rate.as_ref().unwrap();
        compared(&setup).0.iter().map(rate).collect()
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
    let one = setup(&settings);
    assert_eq!((one.budget.blocks, one.notices.len()), (2, 1), "{:?}", one.notices);
    let Notice::HeadIgnored { name, why: HeadMismatch::Shape(_) } = &one.notices[0] else {
        panic!("{:?}", one.notices)
    };
    assert!(name.ends_with("head_eagle3"), "{name}");
    let only = |why: &LoadReason| match why {
        LoadReason::Plan(Reason::OnlyHead(name)) => name.ends_with("draft_dgf_m2"),
        _ => false,
    };
    assert!(one.reasons.iter().any(only), "{:?}", one.reasons);

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
    let one = setup(&of_another);
    assert_eq!(one.budget.blocks, 1);
    let [Notice::HeadIgnored { why: HeadMismatch::MadeFor { model, .. }, .. }] = &one.notices[..]
    else {
        panic!("{:?}", one.notices)
    };
    assert_eq!(model, "another");

    let draft = heads(&["eagle3/head_eagle3", "eagle3/head_eagle3"]);
    let error = loaded(&Settings { draft, ..settings }).err();
    let Some(StartError::NoHead { refused, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(refused.len(), 2);
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
        let setup = setup(&Settings { vram, device, ..settings.clone() });
        let there = setup.device_bytes > 0;
        let (heads, _, on_gpu) = compared(&setup);
        assert_eq!(on_gpu, there, "{heads:?}");
        let too_large =
            |head: &&HeadForecast| matches!(head.rate, Err(Obstacle::DraftTooLarge { .. }));
        let left_out = heads.iter().filter(too_large).count();
        if there {
            assert_eq!(setup.budget.blocks, 1, "{heads:?}");
            told_of.push(left_out);
        } else {
            assert_eq!((left_out, told_of.len()), (0, 0), "{heads:?}");
            let first = &setup.reasons[0];
            let LoadReason::Plan(Reason::DraftOnCpu(Obstacle::DraftTooLarge { .. })) = first else {
                panic!("{first:?}")
            };
        }
    }
    told_of.dedup();
    assert_eq!(told_of, [2, 1, 0]);
}
