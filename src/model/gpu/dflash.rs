//! A DFlash drafter's passes on the device (method.md, DFlash). It must not depend on what is
//! drafted from their results.

use std::sync::Arc;

use super::block::{BlockShape, GpuBlocks};
use super::buffer::GpuBuffer;
use super::device::{Gpu, bytes_of};
use super::layers::{ROWS, encoder};
use super::maker::{GpuNorm, GpuProduct, StepMaker};
use super::matrix::{GpuMatrix, MatrixPlace};
use super::model::{GpuModel, Logits};
use super::places::PassRows;
use super::scores::LmHead;
use super::step::{PassRecorder, ShaderStep};
use crate::kernels::TreeMask;
use crate::model::cpu::packer::Packer;
use crate::model::cpu::{DflashModel, DflashPasses, dflash_layer};
use crate::model::head::{DraftPrecision, HeadError, SharedTables, upload_table};
use crate::model::taps::Taps;
use crate::model::weights::{EMBEDDING, HEAD, NORM};
use crate::model::{DflashConfig, LoadRequest, TrafficMeter};

/// The blocks of a DFlash drafter and what it takes from its target, on a device.
pub struct GpuDflash {
    model: GpuModel,
    /// Fuses tapped states into what the blocks' keys and values are computed from.
    fuses: Vec<ShaderStep>,
    fc: GpuMatrix,
    norm: Vec<GpuBuffer>,
    /// `[rows, states · target's H]`.
    features: GpuBuffer,
    /// What the rows of a pass that drafts see.
    mask: TreeMask,
}

impl GpuDflash {
    /// What a drafter has that only the CPU supports.
    pub fn unsupported(config: &DflashConfig) -> Option<&'static str> {
        let all = [
            (config.rows > ROWS, "so many rows in a pass"),
            (!config.body.block.input_norms, "layers without norms"),
        ];
        let own = all.into_iter().find_map(|(has, what)| has.then_some(what));
        own.or_else(|| GpuBlocks::unsupported(&config.body))
    }

    /// Puts a drafter on `gpu`; the configuration in `request` is that of its blocks.
    ///
    /// # Errors
    /// [`HeadError::Device`] if the device has no room, fails or is missing something that the
    /// drafter needs; [`HeadError::Weights`].
    pub fn load(
        gpu: &Arc<Gpu>,
        config: &DflashConfig,
        request: &LoadRequest<'_>,
        shared: &SharedTables,
        precision: DraftPrecision,
    ) -> Result<DflashModel, HeadError> {
        let &LoadRequest { config: body, source, ref pool, capacity, kv, .. } = request;
        if let Some(what) = Self::unsupported(config) {
            return Err(HeadError::Device(format!("the GPU kernels do not support {what}")));
        }
        let slots = capacity.saturating_add(config.rows);
        let shape = BlockShape { rows: ROWS, capacity, slots, kv };
        let mut blocks = GpuBlocks::new(gpu, body, body.layers, shape)?;
        let mut packer = encoder::<MatrixPlace>(gpu, source, pool);
        for index in 0..body.layers {
            let layer = dflash_layer(&mut packer, source, config, index)?;
            let matrices = layer.matrices().into_iter().cloned().collect();
            blocks.push(&layer, matrices, None)?;
        }
        let h = body.hidden;
        let width = config.states.len() * config.target_hidden;
        let fc = packer.matrix("fc.weight", [h, width], None)?;
        let fc_norm = packer.norm(&body.block, "enc.output_norm", h)?;
        let norm = packer.norm(&body.block, NORM, h)?;
        let [own_embedding, own_head] = config.own_tables;
        let lm_head = match own_head {
            true => packer.matrix(HEAD, [config.scored.unwrap_or(body.vocab), h], None)?,
            false => upload_table(gpu, &shared.lm_head, precision, pool)?,
        };
        let embedding = match own_embedding {
            true => Arc::new(Packer::new(source, pool).matrix(EMBEDDING, [body.vocab, h], None)?),
            false => Arc::clone(&shared.embedding),
        };
        let features = gpu.buffer(4 * (ROWS * width) as u64)?;
        let mut maker = StepMaker::new(gpu, body.rms_eps);
        let buffers = &blocks.buffers;
        maker.product(GpuProduct::new(&fc, &features, &buffers.stream))?;
        // What is injected is not convolved.
        let read = buffers.convolution.as_ref().map_or(&buffers.branch, |[_, read]| read);
        maker.norm(GpuNorm::new(&fc_norm.weight, &buffers.stream, read))?;
        let StepMaker { steps: fuses, vectors, .. } = maker;
        let head = LmHead { matrix: lm_head, norm: Some(&norm), bias: None };
        let model = GpuModel::new(blocks, head, embedding, request)?;
        let mask = TreeMask::both_ways(config.rows);
        let passes = Self { model, fuses, fc, norm: vectors, features, mask };
        Ok(DflashModel::new(Box::new(passes), config, request)?)
    }
}

impl DflashPasses for GpuDflash {
    fn describe(&self) -> String {
        format!("{} on {}", self.model.format(), self.model.blocks.gpu.name())
    }

    fn len(&self) -> usize {
        self.model.blocks.cache.len
    }

    fn truncate(&mut self, len: usize) {
        self.model.blocks.cache.truncate(len);
    }

    fn inject(&mut self, features: &[f32]) -> Result<(), HeadError> {
        let blocks = &mut self.model.blocks;
        let gpu = Arc::clone(&blocks.gpu);
        for features in features.chunks(ROWS * self.fc.inputs) {
            let rows = features.len() / self.fc.inputs;
            gpu.write(&self.features, 0, &bytes_of(features));
            let mut recorder = PassRecorder::new(&gpu);
            let mask = TreeMask::causal(rows);
            let at = blocks.begin(PassRows::all(&mask), &mut recorder)?;
            recorder.run_all(&self.fuses, at);
            blocks.inject(&mut recorder, at);
            recorder.submit_so_far()?;
            let len = blocks.cache.len;
            blocks.cache.place_at(len + rows);
        }
        Ok(())
    }

    fn draft(
        &mut self,
        tokens: &[u32],
        outputs: &mut [f32],
        logits: &mut Vec<f32>,
    ) -> Result<(), HeadError> {
        *logits = self.model.pass(tokens, &self.mask, outputs, &mut Taps::none(), Logits::All)?;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let norm: u64 = self.norm.iter().map(GpuBuffer::bytes).sum();
        self.model.bytes() + self.fc.bytes() + norm + self.features.bytes()
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        Some(self.model.blocks.gpu.traffic_meter())
    }
}
