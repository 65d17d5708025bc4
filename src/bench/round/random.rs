//! A target and a draft of random weights of known shapes, together in an engine. Must never know
//! prompts.

use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::small_passes::PassTimes;
use crate::bench::MeasureError;
use crate::decode::{Engine, TokenText};
use crate::draft::{Drafter, FeatureHead, SmallModel};
use crate::kernels::{Format, KvFormat, Pool, random_row};
use crate::model::head::{
    FusionKind, HeadConfig, HeadPrecision, HeadWeights, PackedHead, SharedTables, TensorSource,
    layout,
};
use crate::model::{
    Config, CpuDraft, CpuTarget, KnownShape, LoadRequest, RandomWeights, SharedVocabulary,
};

/// Tensors of a DGF head of some shape, made as they are asked for.
struct RandomHead {
    shapes: Vec<(String, Vec<usize>)>,
}

impl RandomHead {
    fn new(config: &HeadConfig) -> Self {
        Self { shapes: layout(config, FusionKind::Dgf).into_iter().collect() }
    }
}

impl TensorSource for RandomHead {
    fn names(&self) -> Vec<String> {
        self.shapes.iter().map(|(name, _)| name.clone()).collect()
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.shapes.iter().find(|(known, _)| known == name).map(|(_, shape)| shape.clone())
    }

    fn tensor(&self, name: &str) -> candle_core::Result<Tensor> {
        let missing = || candle_core::Error::CannotFindTensor { path: name.into() }.bt();
        let number = self.shapes.iter().position(|(known, _)| known == name).ok_or_else(missing)?;
        let shape = self.shapes[number].1.clone();
        let (rows, columns) = match *shape.as_slice() {
            [rows, columns] => (rows, columns),
            // A norm.
            _ => return Tensor::ones(shape, DType::F16, &Device::Cpu),
        };
        let mut bytes = Vec::with_capacity(2 * rows * columns);
        for row in 0..rows as u64 {
            bytes.extend(random_row(Format::F16, columns, ((number as u64) << 32) + row));
        }
        Tensor::from_raw_buffer(&bytes, DType::F16, &shape, &Device::Cpu)
    }
}

/// Names of the tokens of no vocabulary.
struct Numbers;

impl TokenText for Numbers {
    fn label(&self, token: u32) -> String {
        token.to_string()
    }

    fn text(&self, tokens: &[u32]) -> String {
        tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// What drafts for a random target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomDraft {
    /// A DGF head of the target's width.
    Head {
        /// Its blocks.
        blocks: usize,
    },
    /// A small model.
    Small {
        /// Its shape.
        shape: KnownShape,
        /// Its threads while it works beside the target.
        threads: usize,
    },
}

/// Models of random weights.
pub struct RandomModels {
    /// The target with its drafter.
    pub engine: Engine,
    /// Names of its tokens.
    pub names: Box<dyn TokenText>,
    /// What passes of a small model take; `None` for a head.
    pub passes: Option<PassTimes>,
}

/// The models' sizes and where they run.
#[derive(Clone, Copy)]
struct Room {
    format: Format,
    /// Positions of the context.
    positions: usize,
    threads: usize,
}

/// A target of `shape` in `format` with a draft on the CPU, for a context of `positions`.
///
/// # Errors
/// [`MeasureError`] if there is no memory, or the vocabularies differ.
pub fn random_models(
    shape: KnownShape,
    format: Format,
    draft: RandomDraft,
    positions: usize,
    threads: usize,
) -> Result<RandomModels, MeasureError> {
    let room = Room { format, positions, threads };
    match draft {
        RandomDraft::Head { blocks } => with_head(&shape.config(), blocks, room),
        RandomDraft::Small { shape: small, threads } => {
            with_small(&shape.config(), (&small.config(), small.name(), threads), room)
        }
    }
}

fn target(config: &Config, room: Room, pool: &Arc<Pool>) -> Result<CpuTarget, MeasureError> {
    let Room { format, positions, .. } = room;
    Ok(CpuTarget::random(config, format, 1, Arc::clone(pool), positions, KvFormat::F16)?)
}

fn with_head(config: &Config, blocks: usize, room: Room) -> Result<RandomModels, MeasureError> {
    let (pool, positions) = (Arc::new(Pool::new(room.threads)), room.positions);
    let target = target(config, room, &pool)?;
    let head = HeadConfig {
        body: Config { layers: blocks, ..config.clone() },
        elastic: true,
        draft_vocab: None,
        position_limit: None,
        eagle3: None,
    };
    let head_failed = |error: crate::model::head::HeadError| {
        MeasureError::Options(format!("a head of {blocks} blocks: {error}"))
    };
    let weights = HeadWeights::load(&head, &RandomHead::new(&head)).map_err(head_failed)?;
    let shared = SharedTables::of(&target);
    let (precision, kv) = (HeadPrecision::Four, KvFormat::F16);
    let backend =
        PackedHead::new(&weights, &shared, pool, positions, precision, kv).map_err(head_failed)?;
    let drafter = FeatureHead::new(&weights.config, FusionKind::Dgf, Box::new(backend), positions);
    let engine = Engine::new(Box::new(target), [Box::new(drafter) as Box<dyn Drafter>]);
    Ok(RandomModels { engine, names: Box::new(Numbers), passes: None })
}

/// Tokens in front of the passes of a small model that are timed.
const BEFORE_PASSES: usize = 64;

fn with_small(
    config: &Config,
    (small, name, threads): (&Config, &str, usize),
    room: Room,
) -> Result<RandomModels, MeasureError> {
    if small.vocab != config.vocab {
        let (own, other) = (small.vocab, config.vocab);
        let reason = format!("a small model of {own} tokens cannot draft for one of {other}");
        return Err(MeasureError::Options(reason));
    }
    let pool = Arc::new(Pool::new(room.threads));
    let target = target(config, room, &pool)?;
    let own = Arc::new(Pool::borrowing(pool, threads));
    let request = LoadRequest {
        config: small,
        source: &RandomWeights::new(small, room.format, 2),
        pool: Arc::clone(&own),
        capacity: room.positions,
        kv: KvFormat::F16,
    };
    let mut lm = CpuDraft::load(&request, &mut |_| {})?;
    let before = BEFORE_PASSES.min(room.positions / 2);
    let prompt: Vec<u32> = (0..before).map(|at| (at * 7 % small.vocab) as u32).collect();
    let passes = Some(PassTimes::measure(&mut lm, &prompt)?);
    let words = SharedVocabulary::identical(small.vocab);
    let drafter = SmallModel::new(name, Box::new(lm), words).with_pool(own);
    let engine = Engine::new(Box::new(target), [Box::new(drafter) as Box<dyn Drafter>]);
    Ok(RandomModels { engine, names: Box::new(Numbers), passes })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::times::{RoundTimes, TimesRequest, measure};
    use super::super::turned::Turned;
    use super::*;
    use crate::plan::Strategy;
    use crate::speculate::SamplerSettings;

    /// A model of two layers.
    fn tiny(hidden: usize) -> Config {
        Config {
            vocab: 512,
            hidden,
            intermediate: 2 * hidden,
            layers: 2,
            heads: 4,
            kv_heads: 4,
            head_dim: hidden / 4,
            ..KnownShape::B1.config()
        }
    }

    fn request(strategy: &str, turned: &[Turned], gammas: &[usize]) -> TimesRequest {
        TimesRequest {
            prompt: (0..16).collect(),
            answer: 100,
            sampler: SamplerSettings { temperature: 0.0, ..SamplerSettings::default() },
            strategy: Strategy::named(strategy).unwrap(),
            gammas: gammas.to_vec(),
            turned: turned.to_vec(),
            width: 4,
            depth: 3,
            drafter: 0,
            until: Instant::now() + Duration::from_secs(2),
        }
    }

    const ROOM: Room = Room { format: Format::Q8_0, positions: 256, threads: 1 };

    #[test]
    fn rounds_of_random_models_take_time_by_budget() {
        let RandomModels { mut engine, names, .. } = with_head(&tiny(128), 2, ROOM).unwrap();
        let turned = [1, 2].map(Turned::Blocks);
        let request = request("dovetail", &turned, &[1, 4, 32]);
        let mut told = Vec::new();
        let times = measure(&mut engine, names.as_ref(), &request, &mut |turned| told.push(turned))
            .unwrap();
        assert_eq!(told, turned);
        let budgets: Vec<(Option<Turned>, usize)> =
            times.iter().map(|times| (times.turned, times.gamma)).collect();
        // The target alone has no blocks and is timed once.
        let of = |blocks, gamma| (Some(Turned::Blocks(blocks)), gamma);
        assert_eq!(budgets, [(None, 1), of(1, 4), of(1, 32), of(2, 4), of(2, 32)]);
        for times in &times {
            assert!(times.verify_ms > 0.0 && times.total_ms().is_finite(), "{times:?}");
            assert!(times.gamma == 1 || times.draft_ms > 0.0, "{times:?}");
        }
        // A tree of 32 nodes is drafted and checked in more time than none.
        let ratio = times[2].total_ms() / times[0].total_ms();
        assert!(ratio > 1.5, "{times:?}");

        let full = TimesRequest { prompt: (0..256).collect(), ..request };
        let error = measure(&mut engine, names.as_ref(), &full, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("leaves no room"), "{error}");
    }

    #[test]
    fn a_random_small_model_drafts_chains_in_turn_and_sequences_beside() {
        let small = tiny(64);
        let models = with_small(&tiny(128), (&small, "tiny", 1), ROOM).unwrap();
        let RandomModels { mut engine, names, passes } = models;
        let passes = passes.unwrap();
        assert!(passes.ms(1) > 0.0 && passes.ms(128) > passes.ms(1), "{passes:?}");

        let chains = request("sps", &[Turned::Width(1)], &[1, 4, 16]);
        let times = measure(&mut engine, names.as_ref(), &chains, &mut |_| {}).unwrap();
        assert_eq!(times.len(), 3);
        // 15 passes take longer than three.
        assert!(times[2].draft_ms > 2.0 * times[1].draft_ms, "{times:?}");
        assert!(times.iter().all(|times| times.root_ms.is_none()));

        let duo = request("duo", &[1, 2, 3].map(Turned::Width), &[1, 4, 12]);
        let times = measure(&mut engine, names.as_ref(), &duo, &mut |_| {}).unwrap();
        let k = |times: &RoundTimes| times.turned.map_or(0, Turned::value);
        let budgets: Vec<(usize, usize)> = times.iter().map(|t| (k(t), t.gamma)).collect();
        assert_eq!(budgets, [(0, 1), (1, 4), (1, 12), (2, 4), (2, 12), (3, 12)]);
        for times in &times[1..] {
            assert!(times.draft_ms > 0.0 && times.verify_ms > 0.0, "{times:?}");
            // A round is no shorter than the slower of the two.
            assert!(times.root_ms.unwrap() >= 0.8 * times.draft_ms.min(times.verify_ms));
        }
        let none = request("duo", &[Turned::Width(3)], &[4]);
        let error = measure(&mut engine, names.as_ref(), &none, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("--widths"), "{error}");

        let other = Config { vocab: 256, ..small };
        let error = with_small(&tiny(128), (&other, "other", 1), ROOM).map(drop).unwrap_err();
        assert!(error.to_string().contains("256 tokens"), "{error}");
    }
}
