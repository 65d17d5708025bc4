use super::*;
use crate::draft::Depths;
use crate::hardware::{Adapter, AdapterKind, Cpu, GpuFinding, Memory};
use crate::plan::{DeviceChoice, DraftDevice, Setting};
use crate::settings::{HeadChoice, SettingValue};

pub(super) fn machine() -> Machine {
    Machine {
        cpu: Cpu {
            name: "test".into(),
            physical: 2,
            logical: 2,
            performance: None,
            features: vec!["AVX2"],
        },
        memory: Memory { total: 8 << 30, free: 6 << 30 },
        gpu: GpuFinding::Absent { reason: "no NVIDIA GPU: the driver is not installed".into() },
        adapters: Vec::new(),
    }
}

fn loaded(settings: &Settings, purpose: Purpose) -> Result<Loaded, StartError> {
    load(settings, &machine(), purpose, &mut |_, _| {})
}

fn refused(settings: &Settings) -> String {
    match loaded(settings, Purpose::Text) {
        Err(error) => error.to_string(),
        Ok(loaded) => panic!("loaded {}", loaded.ready.target),
    }
}

#[test]
fn the_bundled_pair_is_shown_with_a_tree_in_a_chat() {
    let mut stages = Vec::new();
    let loaded = load(&Settings::default(), &machine(), Purpose::Chat, &mut |stage, _| {
        if stages.last().is_none_or(|last| last != stage) {
            stages.push(stage.to_owned());
        }
    });
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    let ready = &loaded.ready;
    assert!(ready.gamma >= 8 && ready.depth >= 3 && ready.width >= 3, "{ready:?}");
    assert_eq!(ready.context, loaded.target.capacity());
    assert!(ready.draft.as_ref().is_some_and(|draft| draft.contains("DGF")), "{ready:?}");
    assert!(ready.reasons[0].starts_with("No GPU found ("));
    assert!(
        ready
            .reasons
            .iter()
            .any(|line| line.starts_with("Each round uses the fastest source: conversation "))
    );
    assert!(loaded.notices.is_empty());
    assert_eq!(loaded.target.len(), 0, "the measurement leaves nothing behind");
    assert_eq!(stages.first().map(String::as_str), Some("opening the model"));
    assert_eq!(stages.last().map(String::as_str), Some("measuring"));
}

#[test]
fn a_gpu_that_is_not_there_moves_the_draft_to_the_cpu_and_says_so() {
    let settings = Settings { device: DeviceChoice::Gpu(None), ..Settings::default() };
    let loaded = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.notices.len(), 1, "{:?}", loaded.notices);
    assert!(loaded.notices[0].ends_with("; drafting on the CPU."), "{:?}", loaded.notices);
    assert_eq!(loaded.ready.vram_used, 0);
}

#[test]
fn blocks_of_the_target_stay_on_the_cpu_where_there_is_no_gpu_and_the_reason_is_said() {
    for wish in [Setting::Auto, Setting::Fixed(3)] {
        let mut settings = Settings::default();
        let value = SettingValue::Text(wish.to_string());
        settings.set("gpu_layers", &value).unwrap_or_else(|error| panic!("{error:?}"));
        let loaded = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.notices.len(), 1, "{:?}", loaded.notices);
        let notice = &loaded.notices[0];
        assert!(
            notice.starts_with("No GPU found (")
                && notice.ends_with("; the target runs on the CPU."),
            "{notice}"
        );
    }
}

#[test]
fn strategies_that_need_a_gpu_are_refused_with_the_reason_where_there_is_none() {
    for name in ["offload", "partial-plain", "partial"] {
        let settings = Settings { strategy: Strategy::named(name), ..Settings::default() };
        let error = refused(&settings);
        assert!(error.contains(name) && error.contains("no GPU"), "{error}");
    }
    let loaded = loaded(&Settings::default(), Purpose::Text).unwrap_or_else(|e| panic!("{e}"));
    let statuses = &loaded.ready.strategies;
    for (name, remedy) in
        [("partial-plain", "--gpu-layers auto"), ("offload", "--strategy offload")]
    {
        let status = statuses.iter().find(|status| status.name == name);
        let missing = status.and_then(|status| status.missing.as_deref()).unwrap_or_default();
        assert!(missing.contains(remedy), "{missing}");
    }
}

#[test]
fn held_values_are_what_the_first_round_gets() {
    let mut settings = Settings { draft: HeadChoice::Lookup, ..Settings::default() };
    settings.controls.gamma = Setting::Fixed(5);
    let lookup = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((lookup.ready.gamma, lookup.ready.blocks), (5, 0));
    assert!(lookup.ready.reasons[0].contains("as you chose"), "{:?}", lookup.ready.reasons);
    settings.draft = HeadChoice::Own;
    settings.strategy = Strategy::named("dovetail");
    settings.controls.blocks = Setting::Fixed(3);
    let head = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((head.ready.gamma, head.ready.blocks), (5, 3));
}

#[test]
fn what_cannot_be_run_is_refused_with_the_remedy() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/draft_dgf_m1");
    let draft = HeadChoice::named(Some(golden));
    let settings = Settings { draft, ..Settings::default() };
    let error = refused(&settings);
    assert!(error.contains("does not fit the target: its hidden size"), "{error}");

    let mut small = machine();
    small.memory.total = 1 << 20;
    let error = match load(&Settings::default(), &small, Purpose::Text, &mut |_, _| {}) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it cannot fit"),
    };
    assert!(error.contains("but this machine has 1 MiB; use a smaller model"), "{error}");
}

#[test]
fn a_small_model_of_its_own_serves_the_strategies_that_need_one() {
    let settings =
        Settings { strategy: Strategy::named("sps"), context: Some(300), ..Settings::default() };
    let loaded = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
    let ready = &loaded.ready;
    assert_eq!((ready.gamma, ready.width, ready.depth, ready.blocks), (6, 1, 4, 0));
    let draft = ready.draft.as_deref().unwrap_or_default();
    assert!(draft.starts_with("small model dovetail-small"), "{draft}");
    assert!(ready.reasons[0].contains("and has the target's vocabulary"), "{:?}", ready.reasons);
    for name in ["small-model", "sps", "specexec"] {
        let status = ready.strategies.iter().find(|status| status.name == name);
        assert!(status.is_some_and(|status| status.missing.is_none()), "{name}");
    }

    let settings = Settings { draft_model: Some("/no/such/model".into()), ..settings };
    assert!(refused(&settings).contains("no model named \"/no/such/model\""));
}

#[test]
fn more_than_the_models_can_is_cut_to_it_and_said() {
    let strategy = Strategy::named("dovetail");
    let mut settings = Settings { context: Some(1 << 20), strategy, ..Settings::default() };
    settings.controls.blocks = Setting::Fixed(9);
    let loaded = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
    let (context, blocks) = (loaded.ready.context, loaded.ready.blocks);
    assert_eq!(context, loaded.target.capacity());
    assert!(context < 1 << 20);
    let [of_context, of_blocks] = &loaded.notices[..] else { panic!("{:?}", loaded.notices) };
    let told = format!("`context` is 1048576, but dovetail-demo 6M supports {context} tokens");
    assert!(of_context.starts_with(&told), "{of_context}");
    assert!(of_blocks.contains("`blocks` is 9"), "{of_blocks}");
    assert!(of_blocks.ends_with(&format!("using {blocks}.")), "{of_blocks} {blocks}");
}

#[test]
fn a_named_small_model_drafts_and_the_bundled_target_stays_greedy() {
    let settings = Settings { draft_model: Some("bundled".into()), ..Settings::default() };
    let loaded = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.ready.strategy, "auto");
    assert!(loaded.ready.draft.is_some_and(|draft| draft.contains("small model")));
    assert_eq!(loaded.ready.sampler, Some(settings.sampler));
    assert!(loaded.sampling.iter().all(|row| row.origin == "default"), "{:?}", loaded.sampling);
    assert!(loaded.notices.is_empty(), "{:?}", loaded.notices);
}

#[test]
fn a_card_that_is_lost_at_once_leaves_the_whole_head_to_the_cpu() {
    let card = Adapter {
        number: 0,
        name: "a card".into(),
        kind: AdapterKind::Discrete,
        interface: "Vulkan".into(),
        driver: "1".into(),
        memory: None,
    };
    let machine = Machine { adapters: vec![card], ..machine() };
    let device = DeviceChoice::Gpu(Some(0));
    let settings = Settings { context: Some(2048), device, ..Settings::default() };
    let full: OpenDevice = |device, _| match device {
        DraftDevice::Cpu => Ok(None),
        _ => Err("out of memory".into()),
    };
    let loaded = load_on(&settings, &machine, Purpose::Text, full, &mut |_, _| {});
    let ready = loaded.unwrap_or_else(|error| panic!("{error}")).ready;
    assert_eq!((ready.depths, ready.vram_used), (Depths::Elastic(4), 0));
    assert!(ready.strategies.iter().all(|status| status.limit.is_none()));
}

#[test]
fn models_that_do_not_fit_beside_those_in_use_are_refused_with_both_sizes() {
    let mut full = machine();
    full.memory.free = 1 << 20;
    let settings = Settings::default();
    let refused = load_beside(&settings, &full, Purpose::Text, &mut |_, _| {}).err();
    let refused =
        refused.map(|error| (matches!(error, StartError::NoRoom { .. }), error.to_string()));
    let Some((true, error)) = refused else { panic!("{refused:?}") };
    assert!(error.contains("in addition to the models in use, but only 1 MiB are free"), "{error}");
    assert!(load(&settings, &full, Purpose::Text, &mut |_, _| {}).is_ok(), "alone they fit");
    assert!(load_beside(&settings, &machine(), Purpose::Text, &mut |_, _| {}).is_ok());
}

#[test]
fn other_drafts_share_the_targets_threads_matrices_and_times() {
    let loaded = loaded(&Settings::default(), Purpose::Text).unwrap_or_else(|e| panic!("{e}"));
    let settings = Settings { draft_model: Some("bundled".to_owned()), ..Settings::default() };
    let target = &loaded.shared;
    let drafts = load_drafts(&settings, &machine(), Purpose::Text, target, &mut |_, _| {});
    let drafts = drafts.unwrap_or_else(|error| panic!("{error}"));
    assert!(Arc::ptr_eq(&drafts.shared.pool, &target.pool));
    assert_eq!(drafts.ready.strategy, "auto");
    assert!(!target.measured.verify.is_empty() && target.measured.level.is_none());
    let (drafts, loaded) = (drafts.ready, loaded.ready);
    assert_eq!((drafts.target, drafts.context), (loaded.target, loaded.context));
    // If there is no memory for them, they are refused like a target.
    let mut full = machine();
    full.memory.free = 1000;
    let refused = load_drafts(&settings, &full, Purpose::Text, target, &mut |_, _| {}).err();
    assert!(matches!(refused, Some(StartError::NoRoom { .. })));
}

#[test]
fn a_device_that_is_not_there_is_told_also_where_nothing_would_go_there() {
    for draft in [HeadChoice::Own, HeadChoice::Lookup] {
        let device = DeviceChoice::Gpu(Some(7));
        let settings = Settings { device, draft, ..Settings::default() };
        let loaded = loaded(&settings, Purpose::Text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(loaded.notices.len(), 1, "{:?}", loaded.notices);
        assert!(loaded.notices[0].contains("gpu:7 does not exist"), "{:?}", loaded.notices);
    }
}
