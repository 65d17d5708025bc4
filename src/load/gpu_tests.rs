//! Loading with a GPU, which in most places is Vulkan's software device in the role of a card.

use std::cell::Cell;

use super::tests::{golden, load_on, loaded_on, machine, row, with};
use super::*;
use crate::draft::Depths;
use crate::hardware::{Adapter, AdapterKind, adapters};
use crate::library;
use crate::model;
use crate::model::head::DraftPrecision;
use crate::plan::{
    BUFFER_BYTES, DeviceChoice, DrafterId, GpuLayers, LayerSize, Obstacle, PlacementForecast,
    Reason, Setting,
};
use crate::settings::{HeadChoice, PrefillDevice, SettingValue};

/// The machine with its first GPU in the role of a card, because a software device is not chosen
/// automatically.
fn with_card() -> Option<Machine> {
    let Some(adapter) = adapters().first() else {
        println!("left out: everything on a GPU, for there is none (mesa-vulkan-drivers)");
        return None;
    };
    let card = Adapter { kind: AdapterKind::Discrete, ..adapter.info.clone() };
    Some(Machine { adapters: vec![card], ..machine() })
}

/// Whether the whole target is on the GPU.
fn target_is_there(reasons: &[LoadReason]) -> bool {
    let there = |why: &LoadReason| matches!(why, LoadReason::Plan(Reason::TargetOnGpu { .. }));
    reasons.iter().any(there)
}

/// Whether a draft is on the CPU because it is faster there.
fn drafts_stay(reasons: &[LoadReason]) -> bool {
    reasons.contains(&LoadReason::Plan(Reason::DraftOnCpu(Obstacle::CpuIsFaster)))
}

/// Placements are measured once and stored, and the stored times decide. A test cannot know whether
/// this machine's GPU pays off, so the second and third start find other times in the file.
#[test]
fn placements_are_measured_once_and_the_best_is_taken() {
    let Some(machine) = with_card() else { return };
    let folder = tempfile::tempdir().unwrap();
    let learned = Some(folder.path().to_owned());
    let settings = Settings { learned, ..Settings::default() };
    let start = || {
        let measured = Cell::new(false);
        let loaded = load(&settings, &machine, Purpose::Text, &|stage, _| {
            measured.set(measured.get() || stage == "measuring the CPU and the GPU");
        });
        (loaded.unwrap_or_else(|error| panic!("{error}")), measured.get())
    };
    let (loaded, measured) = start();
    assert!(measured);
    let first = &loaded.drafts.setup.reasons[0];
    assert!(matches!(first, LoadReason::Plan(Reason::BlockTimes { .. })), "{first:?}");
    drop(loaded);
    for (card_ms, cpu_ms, on_gpu) in [(1e-4, 50.0, true), (50.0, 1e-4, false)] {
        keep_times(folder.path(), [[cpu_ms; 2]; 2], [[card_ms; 2]; 2]);
        let (loaded, measured) = start();
        assert!(!measured, "it is kept");
        let Setup { reasons, device_bytes, notices, .. } = &loaded.drafts.setup;
        assert_eq!(*device_bytes > 0, on_gpu, "{reasons:?}");
        assert_eq!(target_is_there(reasons), on_gpu, "{reasons:?}");
        // With the target on the card, drafts can be anywhere: their times do not differ that much.
        assert!(on_gpu || drafts_stay(reasons), "the drafts: {reasons:?}");
        assert!(notices.is_empty(), "{notices:?}");
    }
}

#[test]
fn who_has_decided_where_things_run_waits_for_no_measurement() {
    let Some(card) = with_card() else { return };
    let on_cpu = Settings { device: DeviceChoice::Cpu, ..Settings::default() };
    let none = with([("gpu_layers", SettingValue::Whole(0))]);
    for (settings, machine) in [(on_cpu, &card), (none, &card), (Settings::default(), &machine())] {
        let loaded = load(&settings, machine, Purpose::Text, &|stage, _| {
            assert_ne!(stage, "measuring the CPU and the GPU");
        });
        assert!(loaded.is_ok());
    }
}

#[test]
fn the_table_of_placements_names_all_that_fit() {
    let Some(card) = with_card() else { return };
    let found = placements(&Settings::default(), &card, &|_, _| {});
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    let found = found.unwrap_or_else(|why| panic!("{why:?}"));
    let count =
        |is: fn(&PlacementForecast) -> bool| found.rows.iter().filter(|row| is(row)).count();
    // The bundled target, its head and its small model fit on any device.
    assert_eq!(count(|row| row.draft == DrafterId::None), 2);
    assert_eq!(count(|row| row.beside), 2);
    assert_eq!(count(|row| row.draft == DrafterId::Head && row.draft_on_gpu), 2);
    assert!(found.rows.contains(&found.best) && found.reasons.len() == 3);
    assert!(found.rows.iter().all(|row| row.rate.is_finite() && row.rate > 0.0));
    let none = placements(&Settings::default(), &machine(), &|_, _| {});
    let none = none.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(none.err(), Some(Obstacle::NoGpu));
}

#[test]
fn heads_in_files_and_dflash_drafters_go_to_the_card() {
    let Some(card) = with_card() else { return };
    let setup = |target, draft| {
        let target = Some(golden(target));
        let device = DeviceChoice::Gpu(Some(0));
        let settings = Settings { target, draft, device, ..Settings::default() };
        loaded_on(&settings, &card).drafts.setup
    };
    let named = |file| HeadChoice::Named(vec![golden(file)]);
    for (target, draft, strategy) in [
        ("arch/qwen35.gguf", HeadChoice::Own, "dovetail"),
        ("arch/qwen35.gguf", named("drafters2026/dspark.gguf"), "dflash"),
        ("arch/qwen35.gguf", named("drafters2026/dflash2.gguf"), "dflash"),
        ("arch/gemma4.gguf", named("drafters2026/dspark-gemma4.gguf"), "dflash"),
    ] {
        let setup = setup(target, draft);
        let draft = row(&setup, strategy).draft.clone().unwrap_or_default();
        assert!(draft.contains(&card.adapters[0].name), "{draft}: {:?}", setup.reasons);
        assert!(setup.device_bytes > 0, "{:?}", setup.notices);
    }
    let why = Obstacle::OnlyCpu { drafter: "assistant", with: "the target's keys and values" };
    let notice = Notice::Reason(LoadReason::Plan(Reason::DraftOnCpu(why)));
    let notices = setup("arch/gemma4.gguf", named("drafters2026/gemma4-assistant.gguf")).notices;
    assert!(notices.contains(&notice), "{notices:?}");
}

#[test]
fn the_target_alone_may_have_the_gpu_in_two_ways() {
    let Some(card) = with_card() else { return };
    for name in ["offload", "partial-plain"] {
        let settings = Settings { strategy: Strategy::named(name), ..Settings::default() };
        let setup = loaded_on(&settings, &card).drafts.setup;
        let streams =
            |why: &LoadReason| matches!(why, LoadReason::Plan(Reason::TargetStreamed { .. }));
        let there = match name {
            "offload" => setup.reasons.iter().any(streams),
            _ => target_is_there(&setup.reasons),
        };
        assert_eq!(setup.strategy.name, name);
        assert!(setup.device_bytes > 0 && there, "{name}: {:?}", setup.reasons);
        let draft = row(&setup, "dovetail").draft.clone().unwrap_or_default();
        assert!(draft.contains("CPU"), "{name} leaves the GPU to the target: {draft}");
    }
}

/// The user streams the target for a strategy that drafts: the draft shares the card if it has room
/// next to the target.
#[test]
fn drafts_share_the_card_with_a_streamed_target() {
    let Some(card) = with_card() else { return };
    let streamed = with([("gpu_layers", SettingValue::Text("stream".into()))]);
    for name in ["specexec", "dovetail"] {
        let settings = Settings { strategy: Strategy::named(name), ..streamed.clone() };
        let setup = loaded_on(&settings, &card).drafts.setup;
        let streams =
            |why: &LoadReason| matches!(why, LoadReason::Plan(Reason::TargetStreamed { .. }));
        assert!(setup.reasons.iter().any(streams), "{name}: {:?}", setup.reasons);
        let draft = row(&setup, name).draft.clone().unwrap_or_default();
        assert!(draft.contains(&card.adapters[0].name), "{name} drafts there: {draft}");
        assert_eq!(row(&setup, "offload").missing, None);
        assert_eq!(row(&setup, "partial").missing, Some(Missing::GpuLayers(None)));
    }
    let room = bundled_layers().streamed() + BUFFER_BYTES;
    let settings =
        Settings { strategy: Strategy::named("specexec"), vram: Some(room), ..streamed.clone() };
    let setup = load_on(&settings, &card, of_any_size).drafts.setup;
    let draft = row(&setup, "specexec").draft.clone().unwrap_or_default();
    assert!(!draft.contains(&card.adapters[0].name), "no room is left: {draft}");
}

/// The bundled target's blocks on a GPU, with the default context.
fn bundled_layers() -> LayerSize {
    let target = library::open_target(&library::Spec::Bundled, &mut |_| {});
    let target = target.unwrap_or_else(|error| panic!("{error}"));
    sizes::of_layers(&target, Settings::AUTO_CONTEXT.min(target.config.max_positions))
}

/// A card on which there is always room: what is too much is decided by sizes alone.
fn of_any_size(number: usize, _: u64) -> Result<Arc<model::Gpu>, String> {
    own_device(number, u64::MAX)
}

/// A card that is fast but one byte too small for the whole target, next to a slow CPU: the stored
/// times decide, and the plan is carried out.
#[test]
fn a_target_that_does_not_fit_is_streamed_where_that_pays() {
    let Some(machine) = with_card() else { return };
    let folder = tempfile::tempdir().unwrap();
    let learned = Some(folder.path().to_owned());
    // A card as small as this one has no room for the buffers of a draft.
    let (draft, without_small) = (HeadChoice::Lookup, true);
    let settings = Settings { learned, draft, without_small, ..Settings::default() };
    drop(loaded_on(&settings, &machine));
    let layers = bundled_layers();
    let vram = Some(layers.held(layers.layers) - 1);
    let settings = Settings { vram, ..settings };
    for (card_ms, streams) in [(1e-4, true), (1e4, false)] {
        keep_times(folder.path(), [[50.0; 2]; 2], [[card_ms; 2]; 2]);
        let LoadedModels { drafts, misplaced, .. } = load_on(&settings, &machine, of_any_size);
        let LoadedDrafts { setup, shared, .. } = drafts;
        let reasons = &setup.reasons;
        let is_there =
            |why: &LoadReason| matches!(why, LoadReason::Plan(Reason::TargetStreamed { .. }));
        assert_eq!(reasons.iter().any(is_there), streams, "{reasons:?}");
        let found = shared.blocks();
        let expected = if streams { layers.layers } else { 0 };
        assert_eq!((found.held, found.streamed), (0, expected), "{reasons:?}");
        assert_eq!((setup.notices.len(), misplaced), (0, None), "{:?}", setup.notices);
    }
}

/// The stored measurement decides; the strategy keeps the target on the CPU, whose passes over one
/// row are faster.
#[test]
fn long_prompts_go_to_a_card_where_that_is_expected_to_pay() {
    let Some(machine) = with_card() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (learned, strategy) = (Some(folder.path().to_owned()), Strategy::named("plain"));
    let settings = Settings { learned, strategy, context: Some(512), ..Settings::default() };
    let start = |settings: &Settings| loaded_on(settings, &machine);
    drop(start(&settings));
    for (card_ms, pays) in [(2.1, true), (1e3, false)] {
        keep_times(folder.path(), [[1.0, 0.1], [320.0, 0.1]], [[2.0, 0.1], [card_ms, 0.1]]);
        let loaded = start(&settings);
        let Setup { reasons, device_bytes, notices, prompts_on, .. } = &loaded.drafts.setup;
        assert_eq!(prompts_on.is_some(), pays, "{reasons:?}");
        assert_eq!(*device_bytes > 0, pays, "{reasons:?}");
        let reads = |why: &LoadReason| matches!(why, LoadReason::PromptsOnGpu { .. });
        let expected = |why: &LoadReason| matches!(why, LoadReason::LongPrompt { .. });
        assert_eq!(reasons.iter().any(reads), pays, "{reasons:?}");
        assert_eq!(reasons.iter().any(expected), pays, "{reasons:?}");
        assert!(notices.is_empty(), "{notices:?}");
    }
    for (prefill, there) in [(PrefillDevice::Cpu, false), (PrefillDevice::Gpu, true)] {
        let loaded = start(&Settings { prefill, ..settings.clone() });
        assert_eq!(loaded.drafts.setup.prompts_on.is_some(), there, "{prefill:?}");
        assert!(loaded.drafts.setup.notices.is_empty(), "{:?}", loaded.drafts.setup.notices);
    }
}

/// The first GPU, opened separately, because others would share the room.
fn own_device(_: usize, room: u64) -> Result<Arc<model::Gpu>, String> {
    let limits = model::GpuLimits { room, ..model::GpuLimits::default() };
    model::Gpu::open(&adapters()[0], limits).map_err(|error| error.to_string())
}

#[test]
fn prompts_that_cannot_go_to_a_gpu_stay_and_the_reason_is_said() {
    let asked = Settings { prefill: PrefillDevice::Gpu, ..Settings::default() };
    let why = |settings: &Settings, machine: &Machine| {
        let loaded = load_on(settings, machine, own_device);
        assert!(loaded.drafts.setup.prompts_on.is_none());
        match &loaded.drafts.setup.notices[..] {
            [Notice::PromptsOnCpu(why)] => why.clone(),
            others => panic!("{others:?}"),
        }
    };
    assert_eq!(why(&asked, &machine()), Obstacle::NoGpu);
    let Some(card) = with_card() else { return };
    let mut full = card.clone();
    full.memory.free = 20 << 20;
    let main = why(&asked, &full);
    assert!(matches!(main, Obstacle::TargetTwice { free: 0x140_0000, .. }), "{main:?}");
    let little = Settings { vram: Some(8 << 20), ..asked };
    let small = why(&little, &card);
    let Obstacle::Error(error) = &small else { panic!("{small:?}") };
    assert!(error.starts_with("the GPU's memory is full"), "{error}");
}

/// Writes stored times of CPU and card for passes over 1 and 32 rows: ms of one block and of the
/// rest of a pass.
fn keep_times(folder: &std::path::Path, cpu: [[f64; 2]; 2], card: [[f64; 2]; 2]) {
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let file = files.find(|path| read(path).contains("transfer")).unwrap();
    let mut content: serde_json::Value = serde_json::from_str(&read(&file)).unwrap();
    for (device, [one, many]) in [("cpu", cpu), ("gpu", card)] {
        let times = [(1, one), (32, many)].map(|(gamma, [block_ms, rest_ms])| {
            serde_json::json!({ "gamma": gamma, "block_ms": block_ms, "rest_ms": rest_ms })
        });
        content["kept"][device] = times.to_vec().into();
    }
    content["kept"]["trip_ms"] = 1e-4.into();
    content["kept"]["transfer"] = 1e12.into();
    std::fs::write(&file, content.to_string()).unwrap();
}

/// The drafts of a target on the CPU are changed: with the stored times they go where they would go
/// at a start, and if the target would then go elsewhere, it has to be loaded again.
#[test]
fn other_drafts_go_where_a_start_would_have_them() {
    let Some(machine) = with_card() else { return };
    let folder = tempfile::tempdir().unwrap();
    let learned = Some(folder.path().to_owned());
    let settings = Settings { learned, without_small: true, ..Settings::default() };
    let lookup = Settings { draft: HeadChoice::Lookup, ..settings.clone() };
    let start = |settings: &Settings| loaded_on(settings, &machine);
    drop(start(&lookup));
    let slow_card = ([1e-3, 1e-3], [50.0, 50.0]);
    // A block costs nothing there, but every pass of the whole target takes a second.
    let card_for_drafts = ([5.0, 1.0], [1e-4, 1e3]);
    let fast_card = ([50.0, 50.0], [1e-4, 1e-4]);
    let keep = |(cpu, card): ([f64; 2], [f64; 2])| keep_times(folder.path(), [cpu; 2], [card; 2]);
    keep(slow_card);
    let loaded = start(&lookup);
    let target = &loaded.drafts.shared;
    assert_eq!((loaded.drafts.setup.device_bytes, target.gpu_layers), (0, 0));
    let drafts = |settings: &Settings| {
        load_drafts(settings, &machine, Purpose::Text, target, &|stage, _| {
            assert_ne!(stage, "measuring the CPU and the GPU", "the target is at work");
        })
    };
    for (times, there) in [(slow_card, false), (card_for_drafts, true)] {
        keep(times);
        let setup = drafts(&settings).unwrap_or_else(|error| panic!("{error}")).setup;
        let reasons = &setup.reasons;
        assert_eq!(setup.device_bytes > 0, there, "{reasons:?}");
        assert_eq!(drafts_stay(reasons), !there, "{reasons:?}");
        let placed = |why: &LoadReason| {
            matches!(why, LoadReason::Plan(Reason::Placed { best, .. })
                if best.draft == DrafterId::Head && best.draft_on_gpu && best.layers == 0)
        };
        assert_eq!(reasons.iter().any(placed), there, "{reasons:?}");
        // A start with the same draft gives the same result.
        let first = start(&settings).drafts.setup;
        assert_eq!((first.device_bytes > 0, first.strategy), (there, setup.strategy));
    }
    keep(fast_card);
    let error = drafts(&settings).err();
    assert!(matches!(error, Some(StartError::Moves { before: 0, .. })), "{error:?}");
    let moved = start(&settings);
    assert!(moved.drafts.setup.device_bytes > 0 && moved.drafts.shared.gpu_layers > 0);

    // If the user has said where things run, they are not asked to move them.
    let held = Settings { device: DeviceChoice::Gpu(Some(0)), ..settings.clone() };
    assert!(drafts(&held).is_ok_and(|drafts| drafts.setup.device_bytes > 0));
}

/// A card that other programs have filled since it reported its memory.
fn half_of_what_it_said(number: usize, room: u64) -> Result<Arc<model::Gpu>, String> {
    own_device(number, room / 2)
}

#[test]
fn blocks_that_a_full_card_does_not_take_stay_on_the_cpu() {
    let Some(card) = with_card() else { return };
    // Drafts are to have no room next to the target.
    let settings = Settings {
        context: Some(512),
        draft: HeadChoice::Lookup,
        without_small: true,
        strategy: Strategy::named("plain"),
        ..with([("gpu_layers", SettingValue::Text("all".into()))])
    };
    let all = library::open_target(&library::Spec::Bundled, &mut |_| {});
    let all = all.unwrap_or_else(|error| panic!("{error}")).config.layers;
    let mut there = Vec::new();
    let mut cut = 0;
    for mib in (2..60).step_by(2) {
        let settings = Settings { vram: Some(mib << 20), ..settings.clone() };
        let loaded = load_on(&settings, &card, half_of_what_it_said);
        let LoadedDrafts { setup, shared, .. } = loaded.drafts;
        let layers = shared.gpu_layers;
        let place = &shared.reasons[..];
        assert!(setup.device_bytes <= mib << 20);
        // The part that is there can run.
        assert!(!setup.verify_times.is_empty(), "{place:?}");
        there.push(layers);
        match setup.notices.as_slice() {
            // The size alone was not a reason to put more there.
            [] => {
                let chosen = LoadReason::Plan(Reason::TargetSplit {
                    gpu: card.adapters[0].name.clone(),
                    layers,
                    of: all,
                    asked: Some(all),
                });
                assert!(layers == all || *place == [chosen], "{place:?}");
            }
            [Notice::TargetFailed { .. }] if layers == 0 => {}
            [notice] if layers == 0 => {
                assert!(matches!(notice.obstacle(), Some(Obstacle::BlockTooLarge { .. })));
            }
            [Notice::TargetCut { layers: cut_to, error, .. }] => {
                assert_eq!(*cut_to, layers);
                assert!(error.contains("the GPU's memory is full"), "{error}");
                let gpu = card.adapters[0].name.clone();
                let expected = LoadReason::Plan(Reason::TargetCut { gpu, layers, of: all });
                assert_eq!(*place, [expected]);
                cut += 1;
            }
            several => panic!("{several:?}"),
        }
        if layers == all {
            break;
        }
    }
    assert!(there.is_sorted() && there.ends_with(&[all]), "{there:?}");
    let some = there.iter().any(|&layers| 0 < layers && layers < all);
    assert!(some && cut > 0, "all or nothing: {there:?}, {cut}");
}

/// A part of the target leaves room for a small model, as for a head; if the whole target is there,
/// the small model drafts on the CPU.
#[test]
fn blocks_of_the_target_leave_room_for_a_small_model() {
    let Some(card) = with_card() else { return };
    let settings = Settings {
        context: Some(512),
        draft: HeadChoice::Lookup,
        device: DeviceChoice::Gpu(Some(0)),
        strategy: Strategy::named("sps"),
        ..Settings::default()
    };
    let target = library::open_target(&library::Spec::Bundled, &mut |_| {});
    let target = target.unwrap_or_else(|error| panic!("{error}"));
    let LayerSize { layers, layer, head, .. } = sizes::of_layers(&target, 512);
    let small = library::open_small(&library::Spec::Bundled, &mut |_| {});
    let small = sizes::of_draft(&small.unwrap_or_else(|error| panic!("{error}")), 512);
    let beside = small + BUFFER_BYTES;
    for (asked, room, there, on_gpu) in [
        (layers, 4 * (layers as u64 * layer + head), layers, false),
        (layers - 1, (layers - 1) as u64 * layer + beside, layers - 1, true),
        (layers - 1, (layers - 1) as u64 * layer + beside - 1, layers - 2, true),
    ] {
        let (gpu_layers, vram) = (GpuLayers::Held(Setting::Fixed(asked)), Some(room));
        let settings = Settings { gpu_layers, vram, ..settings.clone() };
        let loaded = load_on(&settings, &card, own_device);
        let LoadedDrafts { setup, shared, .. } = loaded.drafts;
        let Setup { reasons, notices, .. } = &setup;
        assert_eq!(shared.gpu_layers, there, "{notices:?} {reasons:?}");
        let drafts = |why: &LoadReason| match why {
            LoadReason::SmallModel { gpu, .. } => gpu.is_some() == on_gpu,
            _ => false,
        };
        assert!(reasons.iter().any(drafts), "{reasons:?}");
    }
}

/// A machine whose card has room for the bundled head's first `blocks` blocks, and settings that
/// say so.
fn card_for(blocks: usize) -> Option<(Machine, Settings)> {
    let mut machine = with_card()?;
    machine.adapters[0].name = "a small card".to_owned();
    let head = library::open_head(&library::Spec::Bundled, &mut |_| {});
    let mut config = head.unwrap_or_else(|error| panic!("{error}")).config;
    config.body.layers = blocks;
    let context = 2048;
    let weight = sizes::head_weight(DraftPrecision::Eight, Format::F16, true);
    let settings = Settings {
        context: Some(context),
        device: DeviceChoice::Gpu(Some(0)),
        vram: Some(sizes::head_on_gpu(&config, weight, context) + BUFFER_BYTES),
        without_small: true,
        ..Settings::default()
    };
    Some((machine, settings))
}

#[test]
fn only_the_blocks_that_video_memory_has_room_for_are_uploaded() {
    for blocks in [2, 4] {
        let Some((machine, settings)) = card_for(blocks) else { return };
        let room = settings.vram.unwrap_or_default();
        let setup = load_on(&settings, &machine, own_device).drafts.setup;
        assert!((1..=room).contains(&setup.device_bytes), "{} of {room}", setup.device_bytes);
        assert_eq!(setup.initial().map(|row| row.depths), Some(Depths::Elastic(blocks)));
        assert!(setup.budget.blocks <= blocks);
        let limit = row(&setup, "dovetail").limit.as_ref();
        let LoadReason::Plan(first) = &setup.reasons[0] else { panic!("{:?}", setup.reasons) };
        let cut = (blocks < 4).then_some(("a small card", blocks, 4));
        assert_eq!((limit.and_then(Reason::cut), first.cut()), (cut, cut), "{first:?}");
        assert!(setup.notices.is_empty(), "{:?}", setup.notices);
    }
}

#[test]
fn more_blocks_than_video_memory_has_room_for_are_refused_with_the_reason() {
    let strategy = Strategy::named("dovetail");
    let Some((machine, settings)) = card_for(2) else { return };
    let mut settings = Settings { strategy, ..settings };
    settings.controls.blocks = Setting::Fixed(4);
    let setup = load_on(&settings, &machine, own_device).drafts.setup;
    assert_eq!(setup.budget.blocks, 2);
    let [Notice::Blocks { requested: 4, used: 2, why: BlocksLimit::Room(why) }] =
        &setup.notices[..]
    else {
        panic!("{:?}", setup.notices)
    };
    assert_eq!(why.cut(), Some(("a small card", 2, 4)));
}

#[test]
fn a_draft_on_another_device_reads_prompts_while_the_target_does() {
    let Some(card) = with_card() else { return };
    // The small model leaves the card to a target that is all there.
    for (device, layers, beside) in [("cpu", "0", false), ("gpu", "0", true), ("gpu", "all", true)]
    {
        let settings = with([
            ("device", SettingValue::text(device)),
            ("gpu_layers", SettingValue::text(layers)),
            ("prefill", SettingValue::text("cpu")),
            ("strategy", SettingValue::text("duo")),
        ]);
        let loaded = loaded_on(&settings, &card);
        let reads = LoadReason::Plan(Reason::ReadsPrompt { beside });
        assert!(loaded.drafts.setup.reasons.contains(&reads), "{device}, {layers}");
        let mut drafters = loaded.drafts.drafters.iter();
        let small = drafters.find(|it| it.source() == Some(DrafterId::SmallModel));
        assert_eq!(small.map(|it| it.reads_beside()), Some(beside), "{device}, {layers}");
    }
}
