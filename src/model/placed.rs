//! A target and the devices that hold its parts (method.md, Split target): all of it on the CPU,
//! its first blocks on a GPU and the rest on the CPU, all of it on a GPU, or all of it on the CPU
//! with a GPU that reads long prompts. Of a split target only the residual stream is transferred, H
//! floats per row.
//!
//! The shaders are row-invariant, as the CPU's kernels are: the target gives the same text with and
//! without speculation, bit for bit. The text may differ from that of the same model on the CPU
//! alone. It must not depend on why a part is where it is.

use std::ops::Range;
use std::sync::Arc;

use super::gpu::{Gpu, GpuBlocks, GpuModel, load_blocks, load_fitting, stream_blocks};
use super::prompts::PromptReader;
use super::{
    CpuTarget, FeatureSource, LoadError, LoadRequest, Target, TargetError, TrafficMeter, Verified,
};
use crate::speculate::Tree;

/// Loads the whole target on the CPU; the error is shown to the user.
pub type TargetFallback = Box<dyn FnOnce() -> Result<CpuTarget, String> + Send>;

/// Where the parts of a target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPlace {
    /// All of it is on the CPU.
    Cpu,
    /// The same, with a GPU that reads long prompts.
    Prompts,
    /// Its first blocks are on a GPU.
    Split,
    /// All of it is on a GPU.
    Gpu,
    /// All of it is computed on a GPU, to which every pass sends the blocks.
    Streamed,
}

/// A target on its devices.
pub struct PlacedTarget {
    /// The blocks that the CPU runs, with the embedding and the LM head of the whole model. It
    /// counts the committed positions.
    cpu: CpuTarget,
    gpu: GpuPart,
    fallback: Option<TargetFallback>,
}

enum GpuPart {
    None,
    Prompts(Box<PromptReader>),
    Lower(Box<GpuBlocks>),
    Whole(Box<GpuModel>),
}

impl From<CpuTarget> for PlacedTarget {
    fn from(cpu: CpuTarget) -> Self {
        Self { cpu, gpu: GpuPart::None, fallback: None }
    }
}

impl PlacedTarget {
    /// Puts as many of the first `layers` blocks on `gpu` as fit while `spare` bytes remain free
    /// for others, in the precision in which the checkpoint stores them, and says why not all of
    /// them fit. The rest is on the CPU as [`CpuTarget::load`] puts it there.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Device`] if none fits or the device has no kernels for such
    /// blocks.
    pub fn split(
        gpu: &Arc<Gpu>,
        layers: usize,
        spare: u64,
        request: &LoadRequest<'_>,
    ) -> Result<(Self, Option<LoadError>), LoadError> {
        let (lower, refused) = load_fitting(gpu, layers, spare, request)?;
        let cpu = CpuTarget::load_above(lower.count(), request)?;
        Ok((Self { cpu, gpu: GpuPart::Lower(Box::new(lower)), fallback: None }, refused))
    }

    /// Puts the target on `gpu` with a KV cache for the request's positions, including the rows of
    /// a tree. Main memory holds the embedding and the LM head too, for embeddings and for the
    /// drafts that share them.
    ///
    /// # Errors
    /// [`LoadError`]; [`LoadError::Device`] if the device has no room or no kernels for it.
    pub fn on_gpu(gpu: &Arc<Gpu>, request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        let cpu = CpuTarget::load_above(request.config.layers, request)?;
        let blocks = load_blocks(gpu, request.config.layers, request, 0)?;
        let model = GpuModel::around(blocks, request, cpu.embedding())?;
        Ok(Self { cpu, gpu: GpuPart::Whole(Box::new(model)), fallback: None })
    }

    /// Leaves the weights of the blocks in main memory, from where every pass sends them to `gpu`,
    /// alternating between two stages; the norm, the LM head and the KV cache stay there.
    ///
    /// # Errors
    /// As for [`Self::on_gpu`].
    pub fn streamed(gpu: &Arc<Gpu>, request: &LoadRequest<'_>) -> Result<Self, LoadError> {
        let cpu = CpuTarget::load_above(request.config.layers, request)?;
        let blocks = stream_blocks(gpu, request.config.layers, request)?;
        let model = GpuModel::around(blocks, request, cpu.embedding())?;
        Ok(Self { cpu, gpu: GpuPart::Whole(Box::new(model)), fallback: None })
    }

    /// Has `gpu` read the long prompts of `cpu`, which was loaded with `request`.
    ///
    /// # Errors
    /// [`LoadError::Device`] if the device has no room or no kernels for such blocks; the target is
    /// returned unchanged.
    pub fn reading_prompts(
        cpu: CpuTarget,
        gpu: &Arc<Gpu>,
        request: &LoadRequest<'_>,
    ) -> Result<Self, Box<(CpuTarget, LoadError)>> {
        match PromptReader::load(gpu, request) {
            Ok(reader) => Ok(Self { cpu, gpu: GpuPart::Prompts(Box::new(reader)), fallback: None }),
            Err(error) => Err(Box::new((cpu, error))),
        }
    }

    /// With a way to load the same model on the CPU when the GPU fails.
    #[must_use]
    pub fn with_fallback(self, fallback: TargetFallback) -> Self {
        Self { fallback: Some(fallback), ..self }
    }

    /// Where its parts are.
    pub fn place(&self) -> TargetPlace {
        match &self.gpu {
            GpuPart::None => TargetPlace::Cpu,
            GpuPart::Prompts(_) => TargetPlace::Prompts,
            GpuPart::Lower(_) => TargetPlace::Split,
            GpuPart::Whole(_) if self.streamed_bytes() > 0 => TargetPlace::Streamed,
            GpuPart::Whole(_) => TargetPlace::Gpu,
        }
    }

    /// The part on the CPU, which has the embedding and the LM head of the whole model.
    pub fn cpu(&self) -> &CpuTarget {
        &self.cpu
    }

    /// The part on the CPU, without the others.
    pub(crate) fn into_cpu(self) -> CpuTarget {
        self.cpu
    }

    /// How many blocks are on a GPU.
    pub fn gpu_layers(&self) -> usize {
        self.cpu.config().layers - self.cpu.layers()
    }

    /// The blocks on the GPU.
    fn blocks(&self) -> Option<&GpuBlocks> {
        match &self.gpu {
            GpuPart::None => None,
            GpuPart::Prompts(reader) => reader.gpu.as_ref(),
            GpuPart::Lower(blocks) => Some(blocks),
            GpuPart::Whole(model) => Some(&model.blocks),
        }
    }

    /// Bytes on the GPU: weights, KV cache and buffers.
    pub fn device_bytes(&self) -> u64 {
        match &self.gpu {
            GpuPart::Whole(model) => model.bytes(),
            _ => self.blocks().map_or(0, GpuBlocks::bytes),
        }
    }

    /// Bytes of blocks in main memory that every pass or slice of a prompt sends to the GPU.
    pub fn streamed_bytes(&self) -> u64 {
        self.blocks().map_or(0, GpuBlocks::host_bytes)
    }

    /// The name of the GPU that reads long prompts, and the most rows in a slice of them.
    pub fn prompts_on(&self) -> Option<(&str, usize)> {
        let GpuPart::Prompts(reader) = &self.gpu else { return None };
        reader.gpu.as_ref().map(|gpu| (gpu.gpu.name(), gpu.rows))
    }

    /// The committed rows that a GPU computed as parts of prompts, ascending.
    pub fn computed_there(&self) -> &[Range<usize>] {
        match &self.gpu {
            GpuPart::Prompts(reader) => &reader.computed,
            _ => &[],
        }
    }
}

impl Target for PlacedTarget {
    fn vocab(&self) -> usize {
        self.cpu.vocab()
    }

    fn set_features(&mut self, source: FeatureSource) {
        self.cpu.set_features(source);
    }

    fn feature_width(&self) -> usize {
        self.cpu.feature_width()
    }

    fn capacity(&self) -> usize {
        self.cpu.capacity()
    }

    fn len(&self) -> usize {
        self.cpu.len()
    }

    fn begin_prompt(&mut self, asked: &[Range<usize>], common: usize) -> usize {
        match &mut self.gpu {
            GpuPart::Prompts(reader) => reader.begin_prompt(asked, common),
            _ => self.cpu.begin_prompt(asked, common),
        }
    }

    fn next_rows(&self, rows: usize) -> usize {
        match &self.gpu {
            GpuPart::Prompts(reader) => reader.next_rows(self.len(), rows),
            _ => rows,
        }
    }

    fn prefill(&mut self, tokens: &[u32]) -> Result<Verified, TargetError> {
        let cpu = &mut self.cpu;
        match &mut self.gpu {
            GpuPart::None => cpu.prefill(tokens),
            GpuPart::Prompts(reader) => reader.prefill(cpu, tokens),
            GpuPart::Lower(lower) => cpu.prefill_above(tokens, Some(&mut **lower)),
            GpuPart::Whole(model) => model.prefill(cpu, tokens),
        }
    }

    fn verify(&mut self, tree: &Tree) -> Result<Verified, TargetError> {
        let cpu = &mut self.cpu;
        match &mut self.gpu {
            GpuPart::None | GpuPart::Prompts(_) => cpu.verify(tree),
            GpuPart::Lower(lower) => cpu.verify_above(tree, Some(&mut **lower)),
            GpuPart::Whole(model) => model.verify(cpu, tree),
        }
    }

    fn commit(&mut self, path: &[usize]) {
        self.cpu.commit(path);
        match &mut self.gpu {
            GpuPart::None | GpuPart::Prompts(_) => {}
            GpuPart::Lower(blocks) => blocks.cache.commit(path),
            GpuPart::Whole(model) => model.blocks.cache.commit(path),
        }
    }

    fn reuse(&mut self, logits: Vec<f32>) {
        self.cpu.reuse(logits);
    }

    fn truncate(&mut self, len: usize) {
        self.cpu.truncate(len);
        match &mut self.gpu {
            GpuPart::None => {}
            GpuPart::Prompts(reader) => reader.truncate(len),
            GpuPart::Lower(blocks) => blocks.cache.truncate(len),
            GpuPart::Whole(model) => model.blocks.cache.truncate(len),
        }
    }

    fn fall_back(&mut self) -> Result<&'static str, TargetError> {
        if let GpuPart::Prompts(reader) = &mut self.gpu
            && reader.give_up()
        {
            self.truncate(0);
            return Ok("from now on the CPU reads the prompts");
        }
        let nowhere = || TargetError::Device("the target has no other device to run on".to_owned());
        let load = self.fallback.take().ok_or_else(nowhere)?;
        let mut cpu = load().map_err(TargetError::Device)?;
        cpu.set_features(self.cpu.features().clone());
        self.cpu = cpu;
        self.gpu = GpuPart::None;
        Ok("the target continues on the CPU")
    }

    fn saved_kv(&self, most: usize) -> Option<Vec<u8>> {
        match &self.gpu {
            GpuPart::None => self.cpu.saved_kv(most),
            GpuPart::Prompts(reader) => reader.saved_kv(&self.cpu, most),
            GpuPart::Lower(_) | GpuPart::Whole(_) => None,
        }
    }

    fn restore_kv(&mut self, len: usize, bytes: &[u8]) -> bool {
        match &mut self.gpu {
            GpuPart::None => self.cpu.restore_kv(len, bytes),
            GpuPart::Prompts(reader) => reader.restore_kv(&mut self.cpu, len, bytes),
            GpuPart::Lower(_) | GpuPart::Whole(_) => false,
        }
    }

    fn traffic(&self) -> Option<TrafficMeter> {
        match &self.gpu {
            // It remains after the GPU has failed.
            GpuPart::Prompts(reader) => Some(reader.meter.clone()),
            _ => self.blocks().map(|blocks| blocks.gpu.traffic_meter()),
        }
    }
}
