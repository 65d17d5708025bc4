//! A DFlash drafter's passes on the CPU (method.md, DFlash): a cache that holds only what the
//! target's states put into it, and passes that draft all levels of a tree at once. It must not
//! depend on what is drafted from their results.

use std::sync::Arc;

use super::layer::{Convolution, Layer, NormWeights, format_of};
use super::packer::Packer;
use super::scratch::{CpuBlocks, PassScratch, PassTiming};
use super::{CHUNK, DflashModel, DflashPasses};
use crate::kernels::{KvCache, Matrix, Pool, TreeMask};
use crate::model::dflash::DflashConfig;
use crate::model::head::{HeadError, SharedTables};
use crate::model::weights::{self, WeightError, WeightSource, layer_name};
use crate::model::{LoadError, LoadRequest, RopeTable};

/// The blocks of a DFlash drafter on the CPU, with their cache.
pub struct CpuDflash {
    config: DflashConfig,
    pool: Arc<Pool>,
    /// Fuses the tapped states, and the norm of what it computes.
    fc: Matrix,
    fc_norm: NormWeights,
    layers: Vec<Layer>,
    norm: NormWeights,
    embedding: Arc<Matrix>,
    lm_head: Arc<Matrix>,
    rope: Vec<RopeTable>,
    cache: KvCache,
    own_bytes: u64,
    scratch: PassScratch,
    timing: PassTiming,
}

impl CpuDflash {
    /// Packs the weights and allocates a cache for a block of rows after the positions; the
    /// configuration in `request` is that of the blocks. What it has no table for it takes from the
    /// target, which is not copied.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        config: &DflashConfig,
        request: &LoadRequest<'_>,
        shared: &SharedTables,
    ) -> Result<DflashModel, LoadError> {
        let &LoadRequest { config: body, source, ref pool, capacity, kv, .. } = request;
        let slots = capacity.saturating_add(config.rows);
        let cache = KvCache::of_layers(body.kv_shapes(0..body.layers), slots, kv)
            .map_err(|error| LoadError::Cache { capacity: slots, error })?;
        let h = body.hidden;
        let mut packer = Packer::new(source, pool);
        let fc =
            packer.matrix("fc.weight", [h, config.states.len() * config.target_hidden], None)?;
        let fc_norm = packer.norm(&body.block, "enc.output_norm", h)?;
        let mut layers = Vec::with_capacity(body.layers);
        for index in 0..body.layers {
            layers.push(dflash_layer(&mut packer, source, config, index)?);
        }
        let mut table = |own: bool, name: &str, rows: usize, shared: &Arc<Matrix>| match own {
            true => packer.matrix(name, [rows, h], None).map(Arc::new),
            false => Ok(Arc::clone(shared)),
        };
        let [own_embedding, own_head] = config.own_tables;
        let scored = config.scored.unwrap_or(body.vocab);
        let embedding = table(own_embedding, weights::EMBEDDING, body.vocab, &shared.embedding)?;
        let lm_head = table(own_head, weights::HEAD, scored, &shared.lm_head)?;
        let norm = packer.norm(&body.block, weights::NORM, h)?;
        let passes = Self {
            norm,
            rope: RopeTable::of(body, capacity),
            config: config.clone(),
            pool: Arc::clone(pool),
            fc,
            fc_norm,
            layers,
            embedding,
            lm_head,
            cache,
            own_bytes: packer.bytes,
            scratch: PassScratch::default(),
            timing: PassTiming::default(),
        };
        Ok(DflashModel::new(Box::new(passes), config, request)?)
    }
}

impl DflashPasses for CpuDflash {
    fn describe(&self) -> String {
        format!("{} on CPU", format_of(&self.layers))
    }

    fn len(&self) -> usize {
        self.cache.len()
    }

    fn truncate(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    fn inject(&mut self, features: &[f32]) -> Result<(), HeadError> {
        let Self { config, pool, fc, fc_norm, layers, rope, cache, scratch, timing, .. } = self;
        for features in features.chunks(CHUNK * fc.inputs()) {
            let rows = features.len() / fc.inputs();
            let mask = TreeMask::causal(rows);
            let caches = std::slice::from_mut(&mut *cache);
            let mut blocks = CpuBlocks::begin(&config.body, pool, caches, scratch, timing);
            blocks.place(&mask, rope);
            let mut states = vec![0.0; rows * config.body.hidden];
            let mut fused = states.clone();
            blocks.products(features, &mut [(fc, &mut states)]);
            fc_norm.apply(pool, &states, config.body.rms_eps, &mut fused);
            for (index, layer) in layers.iter().enumerate() {
                blocks.inject(index, layer, &mask, &fused);
            }
            cache.commit(pool, &(0..rows).collect::<Vec<_>>());
        }
        Ok(())
    }

    fn draft(
        &mut self,
        tokens: &[u32],
        outputs: &mut [f32],
        logits: &mut Vec<f32>,
    ) -> Result<(), HeadError> {
        let Self { config, pool, layers, cache, scratch, timing, .. } = self;
        let DflashConfig { body, rows, .. } = &*config;
        let masks = [TreeMask::both_ways(*rows), TreeMask::causal(*rows)];
        let caches = std::slice::from_mut(cache);
        let mut blocks = CpuBlocks::begin(body, pool, caches, scratch, timing);
        blocks.place(&masks[0], &self.rope);
        let embedding = &self.embedding;
        pool.chunks(&mut blocks.scratch.stream, body.hidden, |row, stream| {
            embedding.row(tokens[row] as usize, stream);
            body.block.scale_embedding(stream);
        });
        for (index, layer) in layers.iter().enumerate() {
            blocks.run(index, layer, &masks[usize::from(layer.causal)]);
        }
        self.norm.apply(pool, &blocks.scratch.stream, body.rms_eps, outputs);
        logits.resize(rows * self.lm_head.outputs(), 0.0);
        blocks.products(outputs, &mut [(&self.lm_head, &mut *logits)]);
        body.block.finish_logits(pool, logits);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.own_bytes + self.cache.bytes() as u64
    }
}

/// A block of a drafter with its window and its convolutions, packed for any device.
pub(in crate::model) fn dflash_layer<M>(
    packer: &mut Packer<'_, M>,
    source: &dyn WeightSource,
    config: &DflashConfig,
    index: usize,
) -> Result<Layer<M>, WeightError> {
    let mut layer = packer.layer(&config.body, index)?;
    layer.window = config.windows[index];
    layer.causal = config.causal[index];
    let width = config.body.hidden;
    let mut convolution = |part: &str, [taps, groups]: [usize; 2]| {
        let name = |part_of: &str| layer_name(index, &format!("{part}_conv_{part_of}"));
        let base = weights::floats(source, &name("base"), &[2, taps, width])?;
        let rows = 2 * taps * groups;
        let dynamic = packer.matrix(&name("proj.weight"), [rows, width], None)?;
        Ok::<_, WeightError>(Convolution { taps, base, dynamic })
    };
    if let Some(shape) = config.convolution {
        let both = [convolution("attn", shape)?, convolution("ffn", shape)?];
        layer.convolutions = Some(Box::new(both));
    }
    Ok(layer)
}
