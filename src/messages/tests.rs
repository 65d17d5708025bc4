use super::*;
use crate::kernels::Format;
use crate::load::{
    BlocksLimit, HeadMismatch, LoadReason, Missing, Needs, Notice, Repacking, SharedTokens,
    StartError, WhyLookup,
};
use crate::speculate::{Budget, Shape};

const MIB: u64 = 1 << 20;

fn card() -> String {
    "TestForce 1".to_owned()
}

fn head(name: &str, blocks: usize, rate: Result<f64, Obstacle>) -> HeadForecast {
    HeadForecast { name: name.to_owned(), blocks, rate }
}

/// One of each kind of reason, and of each way to say it.
fn all() -> Vec<Reason> {
    let shape = Shape { gamma: 16, width: 10, depth: 7 };
    let memory = GpuMemory::Known { free: 3840 * MIB, total: 4096 * MIB };
    let on_gpu =
        |memory: &GpuMemory, fit| Reason::DraftOnGpu { gpu: card(), memory: memory.clone(), fit };
    let split = |asked| Reason::TargetSplit { gpu: card(), layers: 10, of: 32, asked };
    let threads = |chosen, effect| Reason::ThreadsShared { draft: 2, threads: 8, chosen, effect };
    let blocks = |blocks, why| Reason::Blocks { blocks, most: 5, why };
    let tree = |fixed| Reason::Tree { shape, fixed, passes: 8, draft_ms: 59.7, verify_ms: 302.2 };
    let plain = PlacementForecast {
        draft: DrafterId::None,
        head: None,
        draft_on_gpu: false,
        layers: 0,
        streamed: false,
        of: 32,
        beside: false,
        budget: Budget::new(shape, 0),
        verify_ms: 0.0,
        draft_ms: 0.0,
        omega: 1.0,
        rate: 9.0,
    };
    let best =
        PlacementForecast { draft: DrafterId::Head, draft_on_gpu: true, rate: 12.34, ..plain };
    let placed = |on_cpu: Option<PlacementForecast>| Reason::Placed {
        best: Box::new(best),
        on_cpu: on_cpu.map(Box::new),
        gpu: card(),
        worth: 0.1,
    };
    let heads = vec![
        head("a", 1, Ok(30.0)),
        head("b", 2, Ok(42.04)),
        head("d", 4, Err(Obstacle::MainMemory { needed: 9 * MIB, free: 8 * MIB })),
    ];
    let duo =
        |why| Reason::DuoGamma { gamma: 8, why, step_ms: 1.2, pass_ms: 10.0, verify_ms: 11.0 };
    let offload = |beats: bool| Reason::Offload {
        gpu: card(),
        offload_ms: 340.0,
        transfer: 12e9,
        other: Box::new(PlacementForecast {
            verify_ms: 150.0,
            draft_ms: 90.0,
            omega: 3.0,
            layers: 32,
            streamed: !beats,
            ..best
        }),
        beats,
    };
    let gamma = |gamma, why| Reason::Gamma(gamma, why);
    vec![
        on_gpu(&memory, None),
        on_gpu(&memory, Some((2, 5))),
        on_gpu(&GpuMemory::Given(4096 * MIB), None),
        on_gpu(&GpuMemory::Shared, None),
        on_gpu(&GpuMemory::Unknown, None),
        Reason::TargetOnCpu(Obstacle::NoGpu),
        Reason::TargetOnGpu { gpu: card() },
        split(None),
        split(Some(20)),
        Reason::TargetCut { gpu: card(), layers: 10, of: 32 },
        Reason::TargetStreamed { gpu: card() },
        Reason::BlockTimes { cpu_ms: 5.0, gpu_ms: 0.5, gpu: card(), fit: 12, of: 32 },
        placed(Some(plain)),
        placed(None),
        offload(true),
        offload(false),
        Reason::HeadChosen { heads, taken: 1, on_gpu: true },
        Reason::OnlyHead("b".to_owned()),
        threads(false, OverlapEffect::Saves(12.3)),
        threads(true, OverlapEffect::Nothing),
        threads(false, OverlapEffect::OneThread),
        Reason::ThreadForGpu { threads: 8 },
        Reason::ReadsPrompt { beside: true },
        Reason::ReadsPrompt { beside: false },
        Reason::NoDraft,
        gamma(5, GammaReason::Fixed),
        gamma(1, GammaReason::NoTree { tree: 11.0, plain: 14.0 }),
        gamma(4, GammaReason::Enough(1.2)),
        blocks(5, BlocksReason::Only),
        blocks(3, BlocksReason::Fixed),
        blocks(5, BlocksReason::Each(0.12)),
        blocks(2, BlocksReason::Each(20.14)),
        tree((false, false)),
        tree((true, false)),
        tree((false, true)),
        tree((true, true)),
        Reason::KeptForShow { tree: 11.0, plain: 14.0 },
        Reason::Expected { tokens: 2.2, rate: 6.0, plain: 4.0 },
        Reason::Basis(Basis::Estimated),
        Reason::Basis(Basis::Measured),
        Reason::Basis(Basis::DraftMeasured),
        Reason::Basis(Basis::Rounds(0)),
        Reason::Basis(Basis::Rounds(1)),
        Reason::Basis(Basis::Rounds(40)),
        Reason::Sources { context: 11.0, models: Vec::new(), plain: 9.0 },
        Reason::Sources {
            context: 11.0,
            models: vec![(DrafterId::Head, 14.0), (DrafterId::SmallModel, 12.0)],
            plain: 9.0,
        },
        duo(DuoGammaReason::C),
        duo(DuoGammaReason::Acceptance),
        duo(DuoGammaReason::Fixed),
        Reason::DuoSequences(Some(3)),
        Reason::DuoSequences(None),
        Reason::Acceptance(Some(0.7)),
        Reason::Acceptance(None),
        Reason::GammaByTime { one_ms: 60.0, eight_ms: 75.0 },
        Reason::Lately(Some((6.5, 2.4))),
        Reason::Lately(None),
    ]
}

#[test]
fn every_reason_is_a_sentence() {
    let said: Vec<String> = all().iter().map(reason).collect();
    for sentence in &said {
        let first = sentence.chars().next();
        assert!(first.is_some_and(|first| !first.is_lowercase() || first == 'γ'), "{sentence}");
        assert!(sentence.ends_with('.'), "{sentence}");
    }
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn every_obstacle_says_why_the_cpu_drafts() {
    let others = vec![(0, card()), (1, "another".to_owned())];
    let memory = GpuMemory::Known { free: 1792 * MIB, total: 2048 * MIB };
    let (needed, room) = (3273 * MIB, 1212 * MIB);
    let obstacles = [
        Obstacle::Chosen,
        Obstacle::CpuIsFaster,
        Obstacle::TargetHasGpu,
        Obstacle::NoGpu,
        Obstacle::SoftwareOnly { name: "llvmpipe".to_owned(), number: 0 },
        Obstacle::NoSuchGpu { number: 7, others: Vec::new() },
        Obstacle::NoSuchGpu { number: 7, others },
        Obstacle::NoVulkan(card()),
        Obstacle::Failed,
        Obstacle::DraftTooLarge { needed, gpu: card(), room, memory },
        Obstacle::BlockTooLarge { block: 400 * MIB, draft: needed, gpu: card(), room },
        Obstacle::MainMemory { needed, free: room },
        Obstacle::NoRoomNextToTarget,
        Obstacle::OnlyCpu { drafter: "MTP", with: "a mixture of experts" },
    ];
    let said = obstacles.map(|why| reason(&Reason::DraftOnCpu(why)));
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn what_is_expected_of_prompts_and_cut_heads_is_said() {
    let forecast = PrefillForecast { cpu: 59.0, gpu: 586.0, slice: 512, pays: true };
    insta::assert_snapshot!(
        long_prompt(&forecast, "a card"),
        @"Expected for a long prompt: 586 tokens/s through a card in slices of 512, 59 on the CPU."
    );
    let memory = GpuMemory::Shared;
    let placed = |fit| Reason::DraftOnGpu { gpu: card(), memory: memory.clone(), fit };
    assert_eq!(cut(&placed(None)), None);
    insta::assert_snapshot!(
        cut(&placed(Some((2, 4)))).unwrap(),
        @"TestForce 1 has room for 2 of the head's 4 blocks"
    );
}

/// One of each kind of what the loader reports, and of each way to say it.
#[test]
fn what_the_loader_reports_is_said() {
    let name = || "a model".to_owned();
    let error = || "out of memory".to_owned();
    let small = |gpu: Option<String>, shared, most_context| LoadReason::SmallModel {
        name: name(),
        gpu,
        shared,
        most_context,
    };
    let vocabulary = |text| LoadReason::RequestedVocabulary { tokens: 16, vocab: 256, text };
    let repack = |repacking| LoadReason::Repack { format: Format::Iq2Xs, repacking };
    let states = |from_one| LoadReason::HeadStates { layers: vec![2, 4, 5], from_one };
    let forecast = PrefillForecast { cpu: 59.0, gpu: 586.0, slice: 512, pays: true };
    let reasons = [
        LoadReason::Plan(Reason::NoDraft),
        LoadReason::HeadNumbers(vec![("a".to_owned(), 1), ("b".to_owned(), 4)]),
        LoadReason::HeadFound(name()),
        LoadReason::HeadInFile { blocks: 1 },
        LoadReason::HeadInFile { blocks: 3 },
        LoadReason::HeadVocabulary(32_000),
        vocabulary(None),
        vocabulary(Some("words.txt".to_owned())),
        states(false),
        states(true),
        small(None, None, None),
        small(Some(card()), Some(SharedTokens { shared: 9, of: 10 }), Some(300)),
        LoadReason::Lookup(WhyLookup::Chosen),
        LoadReason::Lookup(WhyLookup::NoHeadChosen),
        LoadReason::Lookup(WhyLookup::NoHead),
        LoadReason::Lookup(WhyLookup::NextToHead),
        LoadReason::Text("words.txt".to_owned()),
        LoadReason::Lookahead,
        LoadReason::Context(DrafterId::Suffix),
        LoadReason::Context(DrafterId::Recycling),
        LoadReason::Context(DrafterId::Context),
        LoadReason::History(476),
        LoadReason::Ngrams { name: name(), contexts: 476 },
        LoadReason::Ngrams { name: name(), contexts: 1_493_476 },
        LoadReason::PromptsOnGpu { gpu: card(), rows: 512, bytes: 300 * MIB },
        LoadReason::LongPrompt { gpu: card(), forecast },
        LoadReason::PassTransfers(300 * MIB),
        repack(Repacking::Done { growth: 1_234_000_000, chosen: false }),
        repack(Repacking::Done { growth: 1_234_000_000, chosen: true }),
        repack(Repacking::NoRoom { needed: 9_400_000_000, free: 8_000_000_000 }),
        repack(Repacking::Declined),
        LoadReason::Candle,
    ];
    let blocks = |why| Notice::Blocks { requested: 9, used: 4, why };
    let ignored = |why| Notice::HeadIgnored { name: "a head".to_owned(), why };
    let room = Reason::DraftOnGpu { gpu: card(), memory: GpuMemory::Shared, fit: Some((4, 6)) };
    let other = HeadMismatch::MadeFor { model: "another".to_owned(), target: name() };
    let cut = Notice::TargetCut { layers: 3, planned: 9, gpu: card(), error: error() };
    let on_cpu = Notice::Reason(LoadReason::Plan(Reason::TargetOnCpu(Obstacle::NoGpu)));
    let notices = [
        Notice::Text("A sentence of the settings.".to_owned()),
        on_cpu.clone(),
        Notice::Context { requested: 9000, most: 2048, target: name() },
        Notice::NoThinking(name()),
        Notice::BaseModel(name()),
        Notice::Embeds(name()),
        Notice::Recommended { origin: "config".to_owned(), problem: "too large".to_owned() },
        Notice::AllOnCpu(Obstacle::NoGpu),
        Notice::HeadFailed(error()),
        Notice::GpuFailed(error()),
        Notice::SmallModelFailed(error()),
        Notice::TargetFailed { layers: 9, error: error() },
        cut.clone(),
        Notice::Misplaced { layers: 3, of: 32, planned: 9 },
        Notice::PromptsOnCpu(Obstacle::NoGpu),
        Notice::PromptsOnCpu(Obstacle::Error(error())),
        Notice::PromptsOnCpu(Obstacle::TargetTwice { needed: 9 * MIB, free: 8 * MIB }),
        Notice::PromptsOnCpu(Obstacle::PromptsTooLarge {
            needed: 9 * MIB,
            draft: 2 * MIB,
            gpu: card(),
            room: 10 * MIB,
        }),
        blocks(BlocksLimit::Room(room)),
        blocks(BlocksLimit::Always(4)),
        blocks(BlocksLimit::Most(4)),
        ignored(HeadMismatch::Shape("its hidden size is 64, not 96".to_owned())),
        ignored(other),
        Notice::NoDrafts(name()),
        Notice::ContextForMemory { requested: 8192, used: 4096, needed: 9 * MIB, free: 8 * MIB },
    ];
    let lacks = [
        Missing::Drafter("a draft head for this target; name one with --draft"),
        Missing::NotBuilt,
        Missing::Trees,
        Missing::GpuLayers(None),
        Missing::GpuLayers(Some(Box::new(on_cpu.clone()))),
        Missing::GpuLayers(Some(Box::new(cut))),
        Missing::Streaming(None),
        Missing::Streaming(Some(Box::new(on_cpu))),
    ];
    let unmeasured = [
        Obstacle::NoGpu,
        Obstacle::ModelsInUse,
        Obstacle::Error(error()),
        Obstacle::OneBlock,
        Obstacle::NoTime,
        Obstacle::NoPlacement,
        Obstacle::Candle,
    ];
    let no_room = |what| StartError::NoRoom { what, needed: 9 * MIB, free: 8 * MIB };
    let unusable = |error| StartError::DraftVocab { text: "words.txt".to_owned(), error };
    let errors = [
        StartError::NoHead { target: name(), refused: notices[20..22].to_vec() },
        unusable(None),
        unusable(Some("cannot read words.txt: it is a folder".to_owned())),
        StartError::Strategy {
            name: "offload",
            missing: Missing::Streaming(None),
            available: vec!["plain", "pld"],
        },
        no_room(Needs::Model(name())),
        no_room(Needs::Head),
        no_room(Needs::DraftOn(card())),
        StartError::Moves { layers: 9, of: 32, gpu: card(), before: 0 },
        StartError::NoNumbers { name: name() },
        StartError::Memory { name: name(), needed: 9 * MIB, total: 8 * MIB },
        StartError::FreeMemory { name: name(), context: 512, needed: 9 * MIB, free: 8 * MIB },
    ];
    let said = [
        load_reasons(&reasons),
        super::notices(&notices),
        lacks.iter().map(missing).collect(),
        unmeasured.iter().map(obstacle).collect(),
        errors.iter().map(start_error).collect(),
    ];
    insta::assert_snapshot!(said.concat().join("\n"));
}

#[test]
fn a_reason_that_two_drafters_share_is_said_once() {
    let both = [LoadReason::History(9), LoadReason::Lookahead, LoadReason::History(9)];
    assert_eq!(load_reasons(&both).len(), 2);
}

#[test]
fn the_target_runs_where_its_reason_says() {
    let gpu = card();
    let split = Reason::TargetSplit { gpu: gpu.clone(), layers: 12, of: 28, asked: None };
    for (reason, place) in [
        (Reason::TargetOnGpu { gpu: gpu.clone() }, "on TestForce 1"),
        (split, "with 12 of its 28 blocks on TestForce 1"),
        (Reason::TargetStreamed { gpu }, "streamed to TestForce 1"),
        (Reason::NoDraft, "on the CPU"),
    ] {
        assert_eq!(target_runs(&[Reason::NoDraft.into(), reason.into()]), place);
    }
}
