use std::cell::RefCell;

use super::*;
use crate::draft::Depths;
use crate::hardware::{Adapter, AdapterKind, Cpu, Memory};
use crate::library::LibraryError;
use crate::plan::{DeviceChoice, Obstacle, Reason, Setting};
use crate::settings::{HeadChoice, SettingValue};
use crate::speculate::Shape;

pub(super) fn machine() -> Machine {
    Machine {
        cpu: Cpu {
            name: "test".into(),
            physical: 2,
            logical: 2,
            quota: None,
            performance: None,
            features: vec!["AVX2"],
        },
        memory: Memory { total: 8 << 30, free: 6 << 30 },
        gpu: Err("no NVIDIA GPU: the driver is not installed".into()),
        adapters: Vec::new(),
    }
}

pub(super) fn loaded_on(settings: &Settings, machine: &Machine) -> LoadedModels {
    let loaded = load(settings, machine, Purpose::Text, &|_, _| {});
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

fn loaded(settings: &Settings) -> LoadedModels {
    loaded_on(settings, &machine())
}

/// Settings in which these keys have been given.
pub(super) fn with<const N: usize>(pairs: [(&str, SettingValue); N]) -> Settings {
    let mut settings = Settings::default();
    for (key, value) in pairs {
        settings.set(key, &value).unwrap_or_else(|error| panic!("{error:?}"));
    }
    settings
}

fn refused(settings: &Settings) -> StartError {
    match load(settings, &machine(), Purpose::Text, &|_, _| {}) {
        Err(error) => error,
        Ok(loaded) => panic!("loaded {}", loaded.drafts.setup.target),
    }
}

/// [`load`] with GPUs opened by `open_gpu`.
pub(super) fn load_on(settings: &Settings, machine: &Machine, open_gpu: OpenGpu) -> LoadedModels {
    let mode = LoadMode { open_gpu, ..LoadMode::new(Purpose::Text, PlacementSource::Measured) };
    let files = ModelFiles::open(settings, &|_, _| {});
    let loaded = files.and_then(|files| load_files(settings, machine, mode, files, &|_, _| {}));
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

pub(super) fn row<'a>(setup: &'a Setup, name: &str) -> &'a StrategySetup {
    let row = setup.strategies.iter().find(|row| row.strategy.name == name);
    row.unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn the_bundled_pair_is_shown_with_a_tree_in_a_chat() {
    let stages = RefCell::new(Vec::new());
    let loaded = load(&Settings::default(), &machine(), Purpose::Chat, &|stage, _| {
        let mut stages = stages.borrow_mut();
        if stages.last().is_none_or(|last: &String| last != stage) {
            stages.push(stage.to_owned());
        }
    });
    let stages = stages.into_inner();
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    let setup = &loaded.drafts.setup;
    let shape = setup.budget.shape;
    assert!(shape.gamma >= 8 && shape.depth >= 3 && shape.width >= 3, "{setup:?}");
    assert_eq!(setup.context, loaded.target.capacity());
    let draft = setup.initial().and_then(|row| row.draft.as_deref());
    assert!(draft.is_some_and(|draft| draft.contains("DGF")), "{setup:?}");
    assert_eq!(setup.reasons[0], LoadReason::Plan(Reason::DraftOnCpu(Obstacle::NoGpu)));
    let sources = |why: &LoadReason| matches!(why, LoadReason::Plan(Reason::Sources { .. }));
    assert!(setup.reasons.iter().any(sources), "{:?}", setup.reasons);
    assert!(setup.notices.is_empty());
    assert_eq!(loaded.target.len(), 0, "the measurement leaves no trace");
    assert_eq!(stages.first().map(String::as_str), Some("opening the model"));
    assert_eq!(stages.last().map(String::as_str), Some("measuring"));
}

#[test]
fn what_was_to_run_on_a_gpu_that_is_not_there_runs_on_the_cpu_and_says_so() {
    let none = || Obstacle::NoGpu;
    let of_draft = |why| Notice::Reason(LoadReason::Plan(Reason::DraftOnCpu(why)));
    let of_target = |why| Notice::Reason(LoadReason::Plan(Reason::TargetOnCpu(why)));
    let layers = |wish: Setting| with([("gpu_layers", SettingValue::Text(wish.to_string()))]);
    let on = |number| Settings { device: DeviceChoice::Gpu(number), ..Settings::default() };
    let missing = || Obstacle::NoSuchGpu { number: 7, others: Vec::new() };
    for (settings, notice) in [
        (on(None), of_draft(none())),
        (on(Some(7)), of_draft(missing())),
        // Nothing would go there.
        (Settings { draft: HeadChoice::Lookup, ..on(Some(7)) }, Notice::AllOnCpu(missing())),
        (layers(Setting::Auto), of_target(none())),
        (layers(Setting::Fixed(3)), of_target(none())),
    ] {
        let setup = loaded(&settings).drafts.setup;
        assert_eq!((setup.notices, setup.device_bytes), (vec![notice], 0));
    }
}

#[test]
fn strategies_that_need_a_gpu_are_refused_with_the_reason_where_there_is_none() {
    let why = || Box::new(Notice::Reason(LoadReason::Plan(Reason::TargetOnCpu(Obstacle::NoGpu))));
    for (of, expected) in [
        ("offload", Missing::Streaming(Some(why()))),
        ("partial-plain", Missing::GpuLayers(Some(why()))),
        ("partial", Missing::GpuLayers(Some(why()))),
    ] {
        let settings = Settings { strategy: Strategy::named(of), ..Settings::default() };
        let error = refused(&settings);
        let StartError::Strategy { name, missing, .. } = error else { panic!("{error}") };
        assert_eq!((name, missing), (of, expected));
    }
    let loaded = loaded(&Settings::default());
    for (name, missing) in
        [("partial-plain", Missing::GpuLayers(None)), ("offload", Missing::Streaming(None))]
    {
        assert_eq!(row(&loaded.drafts.setup, name).missing, Some(missing));
    }
}

#[test]
fn held_values_are_what_the_first_round_gets() {
    let mut settings = Settings { draft: HeadChoice::Lookup, ..Settings::default() };
    settings.controls.gamma = Setting::Fixed(5);
    let lookup = loaded(&settings);
    let budget = lookup.drafts.setup.budget;
    assert_eq!((budget.shape.gamma, budget.blocks), (5, 0));
    assert_eq!(lookup.drafts.setup.reasons[0], LoadReason::Lookup(WhyLookup::Chosen));
    settings.draft = HeadChoice::Own;
    settings.strategy = Strategy::named("dovetail");
    settings.controls.blocks = Setting::Fixed(3);
    let head = loaded(&settings);
    let budget = head.drafts.setup.budget;
    assert_eq!((budget.shape.gamma, budget.blocks), (5, 3));
}

#[test]
fn what_cannot_be_run_is_refused_with_the_remedy() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/draft_dgf_m1");
    let draft = HeadChoice::named(Some(golden));
    let settings = Settings { draft, ..Settings::default() };
    let error = refused(&settings);
    let StartError::Library(error) = error else { panic!("{error}") };
    assert!(matches!(error, LibraryError::Misfit { .. }), "{error}");

    let mut small = machine();
    small.memory.total = 1 << 20;
    let error = load(&Settings::default(), &small, Purpose::Text, &|_, _| {}).err();
    assert!(matches!(error, Some(StartError::Memory { total: 0x10_0000, .. })), "{error:?}");
}

#[test]
fn a_small_model_of_its_own_serves_the_strategies_that_need_one() {
    let settings =
        Settings { strategy: Strategy::named("sps"), context: Some(300), ..Settings::default() };
    let loaded = loaded(&settings);
    let setup = &loaded.drafts.setup;
    let shape = Shape { gamma: 6, width: 1, depth: 4 };
    assert_eq!((setup.budget.shape, setup.budget.blocks), (shape, 0));
    let draft = setup.initial().and_then(|row| row.draft.clone()).unwrap_or_default();
    assert!(draft.starts_with("small model dovetail-small"), "{draft}");
    let LoadReason::SmallModel { gpu: None, shared: None, .. } = &setup.reasons[0] else {
        panic!("{:?}", setup.reasons)
    };
    for name in ["small-model", "sps", "specexec"] {
        assert_eq!(row(setup, name).missing, None, "{name}");
    }

    let settings = Settings { draft_model: Some("/no/such/model".into()), ..settings };
    let error = refused(&settings);
    assert!(matches!(error, StartError::Library(_)), "{error}");
}

#[test]
fn more_than_the_models_can_is_cut_to_it_and_said() {
    let strategy = Strategy::named("dovetail");
    let mut settings = Settings { context: Some(1 << 20), strategy, ..Settings::default() };
    settings.controls.blocks = Setting::Fixed(9);
    let loaded = loaded(&settings);
    let setup = &loaded.drafts.setup;
    assert_eq!(setup.context, loaded.target.capacity());
    assert!(setup.context < 1 << 20);
    let used = setup.budget.blocks;
    let expected = [
        Notice::Context {
            requested: 1 << 20,
            most: setup.context,
            target: "dovetail-demo 6M".to_owned(),
        },
        Notice::Blocks { requested: 9, used, why: BlocksLimit::Most(used) },
    ];
    assert_eq!(setup.notices, expected);
}

#[test]
fn a_named_small_model_drafts_and_the_bundled_target_stays_greedy() {
    let settings = Settings { draft_model: Some("bundled".into()), ..Settings::default() };
    let loaded = loaded(&settings);
    let setup = &loaded.drafts.setup;
    assert_eq!(setup.strategy.name, "auto");
    let draft = setup.initial().and_then(|row| row.draft.as_deref());
    assert!(draft.is_some_and(|draft| draft.contains("small model")));
    assert_eq!(setup.sampler, settings.sampler);
    assert!(setup.sampling.iter().all(|row| row.origin == "default"), "{:?}", setup.sampling);
    assert!(setup.notices.is_empty(), "{:?}", setup.notices);
}

#[test]
fn a_card_that_is_lost_at_once_leaves_the_whole_head_to_the_cpu() {
    let card = Adapter {
        number: 0,
        name: "a card".into(),
        kind: AdapterKind::Discrete,
        interface: "Vulkan".into(),
        driver: "1".into(),
        bus: String::new(),
        memory: None,
        bandwidth: None,
    };
    let machine = Machine { adapters: vec![card], ..machine() };
    let device = DeviceChoice::Gpu(Some(0));
    let settings = Settings { context: Some(2048), device, ..Settings::default() };
    let setup = load_on(&settings, &machine, |_, _| Err("out of memory".into())).drafts.setup;
    let depths = setup.initial().map(|row| row.depths);
    assert_eq!((depths, setup.device_bytes), (Some(Depths::Elastic(4)), 0));
    assert!(setup.strategies.iter().all(|row| row.limit.is_none()));
}

#[test]
fn models_that_do_not_fit_beside_those_in_use_are_refused_with_both_sizes() {
    let mut full = machine();
    full.memory.free = 1 << 20;
    let settings = Settings::default();
    let refused = load_beside(&settings, &full, Purpose::Text, &|_, _| {}).err();
    let Some(StartError::NoRoom { what: Needs::Model(_), needed, free }) = refused else {
        panic!("{refused:?}")
    };
    assert!(needed > free && free == 1 << 20);
    assert!(load_beside(&settings, &machine(), Purpose::Text, &|_, _| {}).is_ok());
}

#[test]
fn a_context_that_the_memory_has_no_room_for_is_shortened_and_then_refused() {
    let settings = Settings { context: Some(4096), ..Settings::default() };
    let files = ModelFiles::open(&settings, &|_, _| {}).unwrap();
    let most = 4096.min(files.target.config.max_positions);
    let needed = |context| files.resident(context, &settings);
    let fitted = |free| {
        let machine = Machine { memory: Memory { free, ..machine().memory }, ..machine() };
        let open = super::context::open_gpu;
        let mut ctx = LoadContext::new(&settings, &machine, &files, open, None, &|_, _| {});
        ctx.fit_context().map(|()| (ctx.context, ctx.shortened))
    };
    let (context, notice) = fitted(needed(most)).unwrap();
    assert!(context == most && !matches!(notice, Some(Notice::ContextForMemory { .. })));
    let (context, notice) = fitted(needed(1024) + 1).unwrap();
    assert_eq!(context, 1024);
    let figures = Notice::ContextForMemory {
        requested: most,
        used: 1024,
        needed: needed(most),
        free: needed(1024) + 1,
    };
    assert_eq!(notice, Some(figures));
    let refused = fitted(needed(512) - 1).err();
    assert!(matches!(refused, Some(StartError::FreeMemory { context: 512, .. })), "{refused:?}");
    // The bundled small model's cache grows as well.
    let cache = |positions| sizes::kv_bytes(&files.target.config, positions, settings.kv);
    assert!(needed(most) - needed(512) > cache(most) - cache(512));
}

#[test]
fn other_drafts_share_the_targets_threads_matrices_and_times() {
    let loaded = loaded(&Settings::default());
    let settings = Settings { draft_model: Some("bundled".to_owned()), ..Settings::default() };
    let target = &loaded.drafts.shared;
    let drafts = load_drafts(&settings, &machine(), Purpose::Text, target, &|_, _| {});
    let drafts = drafts.unwrap_or_else(|error| panic!("{error}"));
    assert!(Arc::ptr_eq(&drafts.shared.pool, &target.pool));
    assert_eq!(drafts.setup.strategy.name, "auto");
    assert!(!target.measured.verify.is_empty() && target.measured.level.is_none());
    assert_eq!(drafts.setup.target, loaded.drafts.setup.target);
    assert_eq!(drafts.setup.context, loaded.drafts.setup.context);
    // If there is no memory for them, they are refused like a target.
    let mut full = machine();
    full.memory.free = 1000;
    let refused = load_drafts(&settings, &full, Purpose::Text, target, &|_, _| {}).err();
    assert!(matches!(refused, Some(StartError::NoRoom { .. })));
}

pub(super) fn golden(name: &str) -> String {
    format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_head_in_a_targets_file_drafts_unless_another_is_named() {
    let of = |file: &str| Settings { target: Some(golden(file)), ..Settings::default() };
    for (file, blocks, weights) in [
        ("arch/qwen35.gguf", 1, 50_176),
        ("arch/glm4moe.gguf", 1, 48_640),
        ("mtp/mimo2.gguf", 2, 35_840),
    ] {
        let loaded = loaded(&of(file));
        let setup = &loaded.drafts.setup;
        let drafted = row(setup, "dovetail");
        let draft = drafted.draft.as_deref().unwrap_or_default();
        assert_eq!(draft, "MTP head, 1 block, 4 bits on CPU", "{file}");
        assert_eq!((drafted.depths, &drafted.missing), (Depths::Fixed(1), &None), "{file}");
        assert_eq!(drafted.parameters, [weights], "{file}");
        assert!(setup.reasons.contains(&LoadReason::HeadInFile { blocks }), "{:?}", setup.reasons);
        assert!(setup.target_detail.ends_with(", MTP head"), "{}", setup.target_detail);
        assert!(loaded.levels.iter().any(|(kind, _)| *kind == DrafterId::Head), "T_D is measured");
        let ignored = |notice: &Notice| matches!(notice, Notice::HeadIgnored { .. });
        assert!(!setup.notices.iter().any(ignored), "{:?}", setup.notices);
    }
    let file = "arch/qwen35.gguf";
    let setup = loaded(&Settings { draft: HeadChoice::None, ..of(file) }).drafts.setup;
    assert!(row(&setup, "dovetail").missing.is_some());
    let head = HeadChoice::Named(vec![golden("eagle3/head_eagle3")]);
    let error = refused(&Settings { draft: head, ..of(file) });
    assert!(matches!(error, StartError::Library(LibraryError::Misfit { .. })), "{error}");
    let on_gpu = Settings { device: DeviceChoice::Gpu(None), ..of("arch/glm4moe.gguf") };
    let setup = loaded(&on_gpu).drafts.setup;
    let why = Obstacle::OnlyCpu { drafter: "MTP", with: "a mixture of experts" };
    let why = LoadReason::Plan(Reason::DraftOnCpu(why));
    assert!(setup.notices.contains(&Notice::Reason(why)), "{:?}", setup.notices);
}

#[test]
fn a_model_runs_without_the_head_in_its_file_if_that_is_damaged() {
    let mut bytes = std::fs::read(golden("arch/qwen35.gguf")).unwrap();
    let name = b"blk.4.ffn_up.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    bytes[at + name.len() - 8] = b'q';
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    let target = Some(path.display().to_string());
    let setup = loaded(&Settings { target, ..Settings::default() }).drafts.setup;
    assert!(row(&setup, "dovetail").missing.is_some());
    let ignored = setup.notices.iter().find_map(|notice| match notice {
        Notice::HeadIgnored { why: HeadMismatch::Shape(why), .. } => Some(why),
        _ => None,
    });
    let why = ignored.unwrap_or_else(|| panic!("{:?}", setup.notices));
    assert!(why.contains("`mtp.layers.0.mlp.up_proj.weight` is missing"), "{why}");
}
