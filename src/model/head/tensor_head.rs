//! The head on candle: any device, f32, f16 or bf16. It must not depend on drafting.

use candle_core::{DType, Device, Tensor};

use super::backend::{Origin, RowCounts};
use super::net::HeadNet;
use super::{
    Candidates, DraftVocabulary, HeadBackend, HeadError, HeadWeights, Pairs, SharedTables,
    rank_tensor,
};
use crate::model::candle::{Places, Table, TensorCache};
use crate::speculate::{BeamRow, Ranking};

/// A head on one candle device with its caches.
pub struct TensorHead {
    net: HeadNet,
    cache: TensorCache,
    embedding: Tensor,
    /// `[scored tokens, H]`.
    lm_head: Tensor,
    /// The scored tokens, if not all.
    draft_vocab: Option<DraftVocabulary>,
    shared_bytes: u64,
    blocks: usize,
    rows: RowCounts,
    /// The outputs of the last pass, `[rows, H]`.
    outputs: Option<Tensor>,
    /// The outputs of the last stable row and of every scratch row, `[1 + scratch, H]`, from which
    /// rows can continue.
    sources: Option<Tensor>,
}

impl TensorHead {
    /// Puts the head and what it shares with the target on `device` in `dtype`.
    ///
    /// # Errors
    /// [`HeadError::Device`] if the device has no room or fails.
    pub fn new(
        weights: &HeadWeights,
        shared: &SharedTables,
        device: &Device,
        dtype: DType,
    ) -> Result<Self, HeadError> {
        let own_lm_head = weights.lm_head.is_some() || weights.draft_vocab.is_some();
        let lm_head = match (&weights.lm_head, &weights.draft_vocab) {
            (Some(own), _) => own.to_dtype(dtype)?.to_device(device)?,
            (None, None) => shared.lm_head.to_tensor(device, dtype)?,
            (None, Some(scored)) => {
                shared.lm_head.rows(scored.tokens())?.to_dtype(dtype)?.to_device(device)?
            }
        };
        let own = weights.embedding.clone().map(Table::Tensor);
        let table = own.as_ref().unwrap_or(&shared.embedding);
        let tied = table.is(&shared.lm_head) && !own_lm_head;
        let embedding = if tied { lm_head.clone() } else { table.to_tensor(device, dtype)? };
        let beside = if tied { 0 } else { lm_head.elem_count() };
        let shared_bytes = (embedding.elem_count() + beside) * dtype.size_in_bytes();
        let config = &weights.config.body;
        let cache =
            TensorCache::new(config.layers, config.kv_heads, config.head_dim, dtype, device)?;
        Ok(Self {
            net: HeadNet::new(weights, device, dtype)?,
            cache,
            shared_bytes: shared_bytes as u64,
            embedding,
            lm_head,
            draft_vocab: weights.draft_vocab.clone(),
            blocks: config.layers,
            rows: RowCounts::default(),
            outputs: None,
            sources: None,
        })
    }

    /// The forward pass without caches, for inspection and training.
    pub fn net(&self) -> &HeadNet {
        &self.net
    }

    fn pass(
        &self,
        (features, origin): (&Tensor, Origin),
        tokens: &[u32],
        places: &Places,
    ) -> Result<Tensor, HeadError> {
        let tokens = Tensor::from_slice(tokens, tokens.len(), self.net.device())?;
        let embeddings = self.embedding.index_select(&tokens, 0)?;
        let cache = |block| self.cache.block(block);
        Ok(self.net.forward((features, origin), &embeddings, self.blocks, places, cache)?)
    }

    fn rank(&self, outputs: &Tensor, ranking: &Ranking) -> Result<Candidates, HeadError> {
        let logits = self.net.scored(outputs)?.matmul(&self.lm_head.t()?)?;
        Ok(rank_tensor(&logits, self.draft_vocab.as_ref(), ranking)?)
    }

    fn sources(&self) -> Result<&Tensor, HeadError> {
        self.sources.as_ref().ok_or_else(no_pass)
    }
}

fn no_pass() -> HeadError {
    HeadError::Device("no forward pass has run yet".into())
}

impl HeadBackend for TensorHead {
    fn describe(&self) -> String {
        let device = match self.net.device() {
            Device::Cpu => "CPU".into(),
            other => match other.location() {
                candle_core::DeviceLocation::Cuda { gpu_id } => format!("CUDA {gpu_id}"),
                candle_core::DeviceLocation::Metal { gpu_id } => format!("Metal {gpu_id}"),
                candle_core::DeviceLocation::Cpu => "CPU".into(),
            },
        };
        format!("{} on {device}", self.net.dtype().as_str())
    }

    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError> {
        let Pairs { features, tokens } = pairs;
        let rows = tokens.len();
        self.cache.reserve(start + rows, start)?;
        self.blocks = blocks;
        let shape = (rows, features.len() / rows.max(1));
        let features = Tensor::from_slice(features, shape, self.net.device())?;
        let features = features.to_dtype(self.net.dtype())?;
        let places = self.net.causal(start, rows)?;
        let outputs = self.pass((&features, Origin::Target), tokens, &places)?;
        self.sources = Some(outputs.narrow(0, rows.saturating_sub(1), 1)?.contiguous()?);
        self.outputs = Some(outputs);
        self.rows = RowCounts::stable(start + rows);
        Ok(())
    }

    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
        let root = self.sources()?.narrow(0, 0, 1)?;
        let candidates = self.rank(&root, ranking)?;
        self.outputs = Some(root);
        Ok(candidates.into_iter().flatten().collect())
    }

    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError> {
        let RowCounts { stable, scratch } = self.rows;
        self.cache.reserve(self.rows.total() + beam.len(), self.rows.total())?;
        let numbers: Vec<u32> = beam.iter().map(|row| RowCounts::feature_of(row) as u32).collect();
        let numbers = Tensor::from_slice(&numbers, beam.len(), self.net.device())?;
        let features = self.sources()?.index_select(&numbers, 0)?;
        let places = self.net.further(stable, scratch, beam)?;
        let tokens: Vec<u32> = beam.iter().map(|row| row.token).collect();
        let outputs = self.pass((&features, Origin::Head), &tokens, &places)?;
        let candidates = self.rank(&outputs, ranking)?;
        self.sources = Some(Tensor::cat(&[self.sources()?, &outputs], 0)?);
        self.outputs = Some(outputs);
        self.rows.scratch += beam.len();
        Ok(candidates)
    }

    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        let outputs = self.outputs.as_ref().ok_or_else(no_pass)?;
        Ok(outputs.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    fn keys_and_values(&self, block: usize) -> Result<(Vec<f32>, Vec<f32>), HeadError> {
        let (keys, values) = self.cache.block(block).read(self.rows.total())?;
        let flat = |tensor: Tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1();
        Ok((flat(keys)?, flat(values)?))
    }

    fn device_bytes(&self) -> u64 {
        self.net.bytes() + self.cache.bytes() + self.shared_bytes
    }
}
