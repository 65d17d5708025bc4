//! Blocks whose weights are in main memory and are sent to the device in every pass. They alternate
//! between two stages, so that one stage is filled while the block in the other is computed (the
//! papers' baseline `offload`). It must not depend on what a pass is for.

use super::device::Gpu;
use super::error::GpuError;
use super::matrix::{CodePlace, GpuMatrix, HostMatrix, MatrixPlace};
use crate::model::cpu::layer::Layer;

/// How many blocks are on the device at a time.
const STAGES: usize = 2;

/// The places of the parts of each of a block's matrices, in the order of [`Layer::matrices`].
type Stage = Vec<Vec<MatrixPlace>>;

/// The weights of some blocks in main memory, and where they are sent.
pub(super) struct StreamedWeights {
    layers: Vec<Layer<HostMatrix>>,
    stages: [Stage; STAGES],
    /// The work that last used each stage.
    used: [Option<wgpu::SubmissionIndex>; STAGES],
}

impl StreamedWeights {
    /// Makes stages that can hold any of these blocks, which have the same matrices.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full or lost.
    pub(super) fn new(gpu: &Gpu, layers: Vec<Layer<HostMatrix>>) -> Result<Self, GpuError> {
        let blocks: Vec<Vec<&HostMatrix>> = layers.iter().map(Layer::matrices).collect();
        let matrices = blocks.first().map_or(0, Vec::len);
        let stage = || -> Result<Stage, GpuError> {
            (0..matrices).map(|matrix| places(gpu, &blocks, matrix)).collect()
        };
        Ok(Self { stages: [stage()?, stage()?], layers, used: [None, None] })
    }

    /// The blocks, and their matrices as they are once they have been sent.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (&Layer<HostMatrix>, Vec<GpuMatrix>)> {
        self.layers.iter().enumerate().map(|(index, layer)| {
            let places = layer.matrices().into_iter().zip(&self.stages[index % STAGES]);
            (layer, places.map(|(matrix, places)| matrix.at(places)).collect())
        })
    }

    /// Sends a block's weights to its stage, after the previous block in that stage is done.
    ///
    /// # Errors
    /// [`GpuError`] if the device is lost or hangs.
    pub(super) fn send(&mut self, gpu: &Gpu, block: usize) -> Result<(), GpuError> {
        let stage = block % STAGES;
        if let Some(work) = self.used[stage].take() {
            gpu.wait(work)?;
        }
        for (matrix, places) in self.layers[block].matrices().into_iter().zip(&self.stages[stage]) {
            for (part, place) in matrix.parts.iter().zip(places) {
                gpu.write(&place.codes, 0, &part.place.codes);
                gpu.write(&place.scales, 0, &part.place.scales);
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
        self.layers.iter().flat_map(Layer::matrices).map(HostMatrix::bytes).sum()
    }
}

/// Places for the parts of one matrix, for any block.
fn places(
    gpu: &Gpu,
    blocks: &[Vec<&HostMatrix>],
    matrix: usize,
) -> Result<Vec<MatrixPlace>, GpuError> {
    let all = || blocks.iter().map(|block| block[matrix].parts.as_slice());
    let count = all().map(<[_]>::len).max().unwrap_or(0);
    let place = |part: usize| {
        let parts = || all().filter_map(|parts| parts.get(part)).map(|part| &part.place);
        let codes = parts().map(|place| place.codes.len()).max();
        let scales = parts().map(|place| place.scales.len()).max();
        MatrixPlace::new(gpu, codes.unwrap_or(0), scales.unwrap_or(0))
    };
    (0..count).map(place).collect()
}
