//! A draft head of random weights for a target, together in an engine. It must not depend on
//! prompts.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use crate::bench::MeasureError;
use crate::decode::{Engine, TokenText};
use crate::draft::{Drafter, FeatureHead};
use crate::kernels::{Format, random_row};
use crate::model::head::{
    HeadConfig, HeadKind, HeadRequest, HeadWeights, PackedHead, SharedTables, layout,
};
use crate::model::{BlockOptions, Config, CpuTarget};

/// A tensor of random weights, or a norm of ones; `number` tells it from the others of its head.
fn random_tensor(shape: Vec<usize>, number: u64) -> candle_core::Result<Tensor> {
    let [rows, columns] = *shape.as_slice() else {
        return Tensor::ones(shape, DType::F16, &Device::Cpu);
    };
    let row = |row: usize| random_row(Format::F16, columns, (number << 32) + row as u64);
    let bytes: Vec<u8> = (0..rows).flat_map(row).collect();
    Tensor::from_raw_buffer(&bytes, DType::F16, &shape, &Device::Cpu)
}

/// Tokens without a vocabulary: their names are numbers.
pub struct Numbers;

impl TokenText for Numbers {
    fn label(&self, token: u32) -> String {
        token.to_string()
    }

    fn text(&self, tokens: &[u32]) -> String {
        tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// `target` with a head of random weights on the CPU, for a context of `positions`.
///
/// # Errors
/// [`MeasureError`] if there is no memory.
pub fn with_head(
    target: CpuTarget,
    blocks: usize,
    positions: usize,
) -> Result<Engine, MeasureError> {
    // A head has Llama's blocks for every target.
    let block = BlockOptions::default();
    let body = Config { layers: blocks, block, qk_norm: false, ..target.config().clone() };
    let head = HeadConfig { elastic: true, ..HeadConfig::of_body(body, HeadKind::Dgf) };
    let head_failed = |error: crate::model::head::HeadError| {
        MeasureError::Options(format!("a head of {blocks} blocks: {error}"))
    };
    let shapes = layout(&head).into_iter().zip(0..);
    let tensors = shapes.map(|((name, shape), number)| Ok((name, random_tensor(shape, number)?)));
    let tensors: HashMap<String, Tensor> = tensors.collect::<candle_core::Result<_>>()?;
    let weights = HeadWeights::load(&head, &tensors).map_err(head_failed)?;
    let shared = SharedTables::of(&target);
    let pool = Arc::clone(target.pool());
    let request = HeadRequest::new(&weights, &shared, pool, positions);
    let backend = PackedHead::new(&request).map_err(head_failed)?;
    let drafter = FeatureHead::new(&weights.config, Box::new(backend), positions);
    Ok(Engine::new(Box::new(target), [Box::new(drafter) as Box<dyn Drafter>]))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::times::{TimesRequest, measure};
    use super::*;
    use crate::kernels::{KvFormat, Pool};
    use crate::model::KnownShape;
    use crate::speculate::SamplerSettings;

    #[test]
    fn rounds_of_random_models_take_time_by_budget() {
        let config = Config {
            vocab: 512,
            hidden: 128,
            intermediate: 256,
            layers: 2,
            heads: 4,
            kv_heads: 4,
            head_dim: 32,
            ..KnownShape::B1.config()
        };
        let pool = Arc::new(Pool::new(1));
        let target = CpuTarget::random(&config, Format::Q8_0, 1, pool, 256, KvFormat::F16).unwrap();
        let mut engine = with_head(target, 2, 256).unwrap();
        let request = TimesRequest {
            prompt: (0..16).collect(),
            answer: 100,
            sampler: SamplerSettings { temperature: 0.0, ..SamplerSettings::default() },
            gammas: vec![1, 4, 32],
            blocks: vec![1, 2],
            width: 4,
            depth: Some(3),
            drafter: 0,
            until: Instant::now() + Duration::from_secs(2),
        };
        let mut told = Vec::new();
        let times =
            measure(&mut engine, &Numbers, &request, &mut |blocks| told.push(blocks)).unwrap();
        assert_eq!(told, [1, 2]);
        let budgets: Vec<(Option<usize>, usize)> =
            times.iter().map(|times| (times.blocks, times.gamma)).collect();
        // The target alone has no blocks and is timed once.
        let expected = [(None, 1), (Some(1), 4), (Some(1), 32), (Some(2), 4), (Some(2), 32)];
        assert_eq!(budgets, expected);
        for times in &times {
            assert!(times.verify_ms > 0.0 && times.round_ms.is_finite(), "{times:?}");
            assert!(times.gamma == 1 || times.draft_ms > 0.0, "{times:?}");
        }
        // A tree of 32 nodes is drafted and checked in more time than none.
        assert!(times[2].round_ms / times[0].round_ms > 1.5, "{times:?}");

        let full = TimesRequest { prompt: (0..256).collect(), ..request };
        let error = measure(&mut engine, &Numbers, &full, &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("leaves no room"), "{error}");
    }
}
