//! Blocks whose weights are in main memory and are sent to the device in every pass. They alternate
//! between two stages, so that one stage is filled while the block in the other is computed (the
//! papers' baseline `offload`). It must not depend on what a pass is for.

use super::device::Gpu;
use super::error::GpuError;
use super::matrix::{GpuMatrix, HostMatrix, MatrixPlace};
use crate::model::cpu::layer::{Attention, Dense, GroupedQuery, Layer, Mlp};

/// How many blocks are on the device at a time.
const STAGES: usize = 2;

/// The weights of some blocks in main memory, and where they are sent.
pub(super) struct StreamedWeights {
    /// The matrices of each block, in the same order for all.
    blocks: Vec<Vec<HostMatrix>>,
    /// For each stage, the places of each matrix's parts.
    stages: [Vec<Vec<MatrixPlace>>; STAGES],
    /// The work that last used each stage.
    used: [Option<wgpu::SubmissionIndex>; STAGES],
}

impl StreamedWeights {
    /// Makes stages that can hold any of these blocks. Returns the blocks in the form that they
    /// have once their weights have been sent.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost, or such blocks must stay on the CPU.
    pub(super) fn new(
        gpu: &Gpu,
        layers: Vec<Layer<HostMatrix>>,
    ) -> Result<(Self, Vec<Layer<GpuMatrix>>), GpuError> {
        let mut blocks = Vec::with_capacity(layers.len());
        let mut assembled = Vec::with_capacity(layers.len());
        for layer in layers {
            let (matrices, assemble) = parted(layer)?;
            blocks.push(matrices);
            assembled.push(assemble);
        }
        let stage = || -> Result<Vec<Vec<MatrixPlace>>, GpuError> {
            let matrices = blocks.first().map_or(0, Vec::len);
            (0..matrices).map(|matrix| places(gpu, &blocks, matrix)).collect()
        };
        let stages = [stage()?, stage()?];
        let all = assembled.into_iter().zip(&blocks).enumerate();
        let there = all.map(|(index, (assemble, block))| {
            let stage = &stages[index % STAGES];
            let at = |matrix: usize| block[matrix].at(&stage[matrix]);
            assemble([0, 1, 2, 3, 4, 5, 6].map(at))
        });
        let there = there.collect();
        Ok((Self { blocks, stages, used: [None, None] }, there))
    }

    /// Sends a block's weights to its stage, after the previous block in that stage is done.
    ///
    /// # Errors
    /// [`GpuError::Lost`] or [`GpuError::Hangs`].
    pub(super) fn send(&mut self, gpu: &Gpu, block: usize) -> Result<(), GpuError> {
        let stage = block % STAGES;
        if let Some(work) = self.used[stage].take() {
            gpu.wait(work)?;
        }
        for (matrix, places) in self.blocks[block].iter().zip(&self.stages[stage]) {
            for (part, place) in matrix.parts.iter().zip(places) {
                gpu.write(&place.codes, 0, &part.codes);
                gpu.write(&place.scales, 0, &part.scales);
            }
        }
        gpu.check()
    }

    /// Notes the work that runs a block.
    pub(super) fn runs(&mut self, block: usize, work: wgpu::SubmissionIndex) {
        self.used[block % STAGES] = Some(work);
    }

    /// Bytes of both stages.
    pub(super) fn device_bytes(&self) -> u64 {
        self.stages.iter().flatten().flatten().map(MatrixPlace::bytes).sum()
    }

    /// Bytes in main memory, which every pass sends to the device.
    pub(super) fn host_bytes(&self) -> u64 {
        self.blocks.iter().flatten().map(HostMatrix::bytes).sum()
    }
}

/// Places for the parts of one matrix, for any block.
fn places(
    gpu: &Gpu,
    blocks: &[Vec<HostMatrix>],
    matrix: usize,
) -> Result<Vec<MatrixPlace>, GpuError> {
    let all = || blocks.iter().map(|block| &block[matrix].parts);
    let count = all().map(Vec::len).max().unwrap_or(0);
    let most = |part: usize| {
        let parts = all().filter_map(|parts| parts.get(part));
        parts.fold((0, 0), |(codes, scales), part| {
            (codes.max(part.codes.len()), scales.max(part.scales.len()))
        })
    };
    let sizes = (0..count).map(most);
    sizes.map(|(codes, scales)| MatrixPlace::new(gpu, codes as u64, scales as u64)).collect()
}

/// Assembles a block from its matrices: q, k, v, o, gate, up and down.
type Assemble = Box<dyn FnOnce([GpuMatrix; 7]) -> Layer<GpuMatrix>>;

/// Separates a block from its matrices.
fn parted(layer: Layer<HostMatrix>) -> Result<(Vec<HostMatrix>, Assemble), GpuError> {
    let stays = || GpuError::Unsupported("the GPU kernels do not support such blocks".to_owned());
    let (Attention::Grouped(attention), Mlp::Dense(mlp)) = (layer.attention, layer.mlp) else {
        return Err(stays());
    };
    let GroupedQuery { q, k, v, qkv_bias, qk_norm } = *attention;
    let Dense { gate, up, down, gate_bias, up_bias, down_bias } = *mlp;
    let gate = gate.ok_or_else(stays)?;
    let matrices = vec![q, k, v, layer.o, gate, up, down];
    let Layer { attention_norm, o_bias, attention_out_norm, mlp_norm, mlp_out_norm, .. } = layer;
    let Layer { window, rope, sinks, .. } = layer;
    let assemble = move |[q, k, v, o, gate, up, down]: [GpuMatrix; 7]| {
        let attention = GroupedQuery { q, k, v, qkv_bias, qk_norm };
        let gate = Some(gate);
        Layer {
            attention_norm,
            attention: Attention::Grouped(Box::new(attention)),
            o,
            o_bias,
            attention_out_norm,
            mlp_norm,
            mlp: Mlp::Dense(Box::new(Dense { gate, up, down, gate_bias, up_bias, down_bias })),
            mlp_out_norm,
            window,
            rope,
            sinks,
        }
    };
    Ok((matrices, Box::new(assemble)))
}
