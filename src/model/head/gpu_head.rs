//! The head on a GPU: it holds only the blocks that are used, and for each level only tokens and
//! probabilities come back. It must not depend on drafting.

use std::sync::Arc;

use super::backend::{FeatureOrigin, check_room, feature_of};
use super::gpu_fusion::GpuFusion;
use super::pack::{self, bytes_in};
use super::shared_tables::rows_of;
use super::{
    Candidates, DraftPrecision, DraftVocabulary, HeadBackend, HeadConfig, HeadError, HeadKind,
    HeadRequest, Pairs, TREE_ROWS,
};
use crate::kernels::{Format, Matrix, Pool, TreeMask};
use crate::model::TrafficMeter;
use crate::model::gpu::{
    BlockShape, Gpu, GpuBlocks, GpuBuffer, GpuError, GpuMatrix, LmHead, PassRecorder, PassRows,
    Scores, bytes_of, bytes_of_words, encoder, floats_of,
};
use crate::speculate::{BeamRow, Ranking};

/// How many rows a submission has.
const ROWS: usize = 32;

/// A head on a GPU with its caches.
pub struct GpuHead {
    gpu: Arc<Gpu>,
    hidden: usize,
    capacity: usize,
    blocks: GpuBlocks,
    fusion: GpuFusion,
    scores: Scores,
    /// Embeddings stay in main memory, because a token needs only one row of them.
    embedding: Arc<Matrix>,
    draft_vocab: Option<DraftVocabulary>,
    /// The outputs of the last stable row and of every scratch row, `[1 + scratch, H]`, from which
    /// rows can continue.
    sources: GpuBuffer,
    /// How many blocks the last `extend` used.
    depth: usize,
    /// Scratch rows so far.
    scratch_rows: usize,
    /// How many rows of the last pass the stream still holds.
    last: usize,
}

impl From<GpuError> for HeadError {
    fn from(error: GpuError) -> Self {
        Self::Device(error.to_string())
    }
}

impl GpuHead {
    /// What a head has that only the CPU supports.
    pub fn unsupported(config: &HeadConfig) -> Option<&'static str> {
        let block = &config.body.block;
        match &config.kind {
            HeadKind::Dgf | HeadKind::Eagle | HeadKind::Eagle3(_) => None,
            HeadKind::Assistant(_) => Some("the target's keys and values"),
            _ if config.levels().is_some() => Some("a block for each level"),
            _ if block.final_softcap.is_some() || block.logit_divisor != 1.0 => {
                Some("scaled logits")
            }
            _ => GpuBlocks::unsupported(&config.body),
        }
    }

    /// Puts a head on `gpu`.
    ///
    /// # Errors
    /// [`HeadError::Device`] if the device has no room, fails or is missing something that the head
    /// needs; [`HeadError::Weights`] if a tensor is missing or misshapen.
    pub fn new(gpu: &Arc<Gpu>, request: &HeadRequest<'_>) -> Result<Self, HeadError> {
        let &HeadRequest { weights, shared, ref pool, capacity, precision, kv, .. } = request;
        if let Some(what) = Self::unsupported(&weights.config) {
            return Err(HeadError::Device(format!("the GPU kernels do not support {what}")));
        }
        let config = &weights.config.body;
        // The row before the pairs has a slot too.
        let capacity = capacity.saturating_add(usize::from(weights.config.kind.opens()));
        let slots = capacity.saturating_add(TREE_ROWS);
        let shape = BlockShape { rows: ROWS, capacity, slots, kv };
        let mut blocks = GpuBlocks::new(gpu, config, config.layers, shape)?;
        let sources = gpu.buffer(4 * ((1 + TREE_ROWS) * config.hidden) as u64)?;
        let narrowed = request.narrowed()?;
        let mut packer = encoder(gpu, &narrowed, pool);
        let (fusion, layers) = pack::parts(&mut packer, request, 0)?;
        let [embedding, lm_head] = pack::tables(request, 0)?;
        let fusion = GpuFusion::new(&weights.config, fusion, &blocks, &sources, ROWS)?;
        for layer in &layers {
            let matrices = layer.matrices().into_iter().cloned().collect();
            blocks.push(layer, matrices, fusion.attention_input())?;
        }
        let lm_head = lm_head.as_ref().unwrap_or(&shared.lm_head);
        let matrix = upload_table(gpu, lm_head, precision, pool)?;
        let lm_head = LmHead { matrix, norm: fusion.scored_norm.as_ref(), bias: None };
        Ok(Self {
            scores: Scores::new(&blocks, lm_head, ROWS)?,
            gpu: Arc::clone(gpu),
            hidden: config.hidden,
            capacity,
            fusion,
            embedding: embedding.map_or_else(|| Arc::clone(&shared.embedding), Arc::new),
            draft_vocab: weights.draft_vocab.clone(),
            sources,
            depth: config.layers,
            blocks,
            scratch_rows: 0,
            last: 0,
        })
    }

    /// Records the work for up to [`ROWS`] rows whose inputs are in the fusion's buffers.
    fn record(
        &mut self,
        recorder: &mut PassRecorder<'_>,
        tokens: &[u32],
        origin: FeatureOrigin,
        mask: &TreeMask,
    ) -> Result<(), HeadError> {
        let embeddings = rows_of(&self.embedding, tokens);
        self.gpu.write(&self.fusion.buffers.embeddings, 0, &bytes_of(&embeddings));
        let at = self.blocks.begin(PassRows::all(mask), recorder)?;
        recorder.run_all(self.fusion.before(origin), at);
        for block in 0..self.depth {
            self.blocks.run(block, recorder, at)?;
        }
        recorder.run_all(&self.fusion.after, at);
        self.last = tokens.len();
        Ok(())
    }

    /// Submits what was recorded together with the ranking of the first `rows` rows of the stream.
    fn rank(
        &mut self,
        recorder: PassRecorder<'_>,
        rows: usize,
        ranking: &Ranking,
    ) -> Result<Candidates, HeadError> {
        let tokens = self.draft_vocab.as_ref().map(DraftVocabulary::tokens);
        let token = |id: u32| tokens.map_or(id, |tokens| tokens[id as usize]);
        Ok(self.scores.rank(recorder, rows, ranking, token)?)
    }
}

impl HeadBackend for GpuHead {
    fn describe(&self) -> String {
        let format = self.blocks.format().map(pack::called).unwrap_or_default();
        format!("{format} on {}", self.gpu.name())
    }

    fn extend(&mut self, start: usize, pairs: Pairs<'_>, blocks: usize) -> Result<(), HeadError> {
        let Pairs { features, tokens } = pairs;
        let rows = tokens.len();
        check_room(start + rows, self.capacity)?;
        self.depth = blocks.min(self.blocks.count());
        self.blocks.cache.place_at(start);
        let width = features.len() / rows.max(1);
        let gpu = Arc::clone(&self.gpu);
        for (tokens, features) in tokens.chunks(ROWS).zip(features.chunks(ROWS * width.max(1))) {
            let begin = self.blocks.cache.len;
            self.gpu.write(&self.fusion.buffers.features, 0, &bytes_of(features));
            let mask = TreeMask::causal(tokens.len());
            let mut recorder = PassRecorder::new(&gpu);
            self.record(&mut recorder, tokens, FeatureOrigin::Target, &mask)?;
            let last = (tokens.len() - 1) * self.hidden;
            recorder.copy(&self.blocks.buffers.stream, last, &self.sources, 0, self.hidden);
            recorder.submit_so_far()?;
            self.blocks.cache.place_at(begin + tokens.len());
        }
        self.scratch_rows = 0;
        Ok(())
    }

    fn rank_root(&mut self, ranking: &Ranking) -> Result<Vec<(u32, f32)>, HeadError> {
        let gpu = Arc::clone(&self.gpu);
        let mut recorder = PassRecorder::new(&gpu);
        recorder.copy(&self.sources, 0, &self.blocks.buffers.stream, 0, self.hidden);
        self.last = 1;
        Ok(self.rank(recorder, 1, ranking)?.pop().unwrap_or_default())
    }

    fn step(&mut self, beam: &[BeamRow], ranking: &Ranking) -> Result<Candidates, HeadError> {
        if self.scratch_rows + beam.len() > TREE_ROWS {
            // The tree has reached its largest size.
            return Ok(Vec::new());
        }
        let gpu = Arc::clone(&self.gpu);
        let mut candidates = Vec::with_capacity(beam.len());
        for beam in beam.chunks(ROWS) {
            let sources: Vec<u32> = beam.iter().map(|row| feature_of(row) as u32).collect();
            gpu.write(&self.fusion.buffers.chosen, 0, &bytes_of_words(&sources));
            let tokens: Vec<u32> = beam.iter().map(|row| row.token).collect();
            let ancestors = beam.iter().map(|row| row.ancestors.as_slice());
            let mask = TreeMask::level(self.scratch_rows, ancestors);
            let mut recorder = PassRecorder::new(&gpu);
            self.record(&mut recorder, &tokens, FeatureOrigin::Head, &mask)?;
            let to = (1 + self.scratch_rows) * self.hidden;
            let floats = beam.len() * self.hidden;
            recorder.copy(&self.blocks.buffers.stream, 0, &self.sources, to, floats);
            candidates.extend(self.rank(recorder, beam.len(), ranking)?);
            self.scratch_rows += beam.len();
        }
        Ok(candidates)
    }

    /// If a pass has more rows than a submission, these are the last ones.
    fn outputs(&self) -> Result<Vec<f32>, HeadError> {
        let parts = [(&self.blocks.buffers.stream, 0, self.last * self.hidden)];
        Ok(floats_of(&PassRecorder::new(&self.gpu).submit_and_read(&parts)?))
    }

    fn device_bytes(&self) -> u64 {
        self.blocks.bytes() + self.fusion.bytes() + self.scores.bytes() + self.sources.bytes()
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        Some(self.gpu.traffic_meter())
    }
}

/// A table in this precision, a few rows at a time.
pub(in crate::model) fn upload_table(
    gpu: &Gpu,
    table: &Matrix,
    precision: DraftPrecision,
    pool: &Pool,
) -> Result<GpuMatrix, HeadError> {
    let outputs = table.outputs();
    let inputs = table.inputs();
    let stored = match table.format() {
        floats @ (Format::F32 | Format::BF16) => floats,
        _ => Format::F16,
    };
    let format = precision.format(stored, inputs);
    let mut fill = |at: std::ops::Range<usize>, file: &mut Vec<u8>| {
        let at: Vec<u32> = at.map(|row| row as u32).collect();
        file.extend(bytes_in(format, &rows_of(table, &at)));
    };
    Ok(GpuMatrix::encode(gpu, format, [outputs, inputs], pool, &mut fill)?)
}
