//! The shaders and their pipelines, each compiled when it is first used. It must not depend on what
//! buffers hold.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use wgpu::{BindGroupLayout, ComputePipeline, Device};

use crate::kernels::KvFormat;

/// How many words of immediate data there are, the same for all kernels: rows, slot of the first
/// row, committed positions, flags, then the kernel's own numbers.
pub(super) const WORDS: usize = 12;
/// The same in bytes.
pub(super) const IMMEDIATE_BYTES: u32 = 4 * WORDS as u32;

/// How the device stores the weights of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::model) enum ShaderLayout {
    /// 32-bit floats.
    F32,
    /// 16-bit IEEE floats.
    F16,
    /// bfloat16.
    BF16,
    /// Signed codes of 8 bits with a scale for every run of columns.
    Eight,
    /// Unsigned codes of 8 bits with a scale and a minimum.
    EightMin,
    /// Unsigned codes of 4 bits with a scale and a minimum.
    Four,
}

/// What the device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::model) enum Shader {
    /// A product with weights in a layout.
    Product(ShaderLayout),
    /// RMS norm.
    Norm,
    /// Norms of heads, rotary positions, writes to the cache.
    Rotate(KvFormat),
    /// Tree attention.
    Attention(KvFormat),
    /// Gated units.
    Gated,
    /// Convolutions over rows.
    Convolve,
    /// The gate of DGF.
    Blend,
    /// Copies of rows.
    Rows,
    /// Keeps rows in flight.
    Keep(KvFormat),
    /// Finds the likeliest tokens.
    Rank,
}

impl ShaderLayout {
    fn source(self) -> &'static str {
        match self {
            Self::F32 => include_str!("shaders/weights_f32.wgsl"),
            Self::F16 => include_str!("shaders/weights_f16.wgsl"),
            Self::BF16 => include_str!("shaders/weights_bf16.wgsl"),
            Self::Eight => include_str!("shaders/weights_eight.wgsl"),
            Self::EightMin => include_str!("shaders/weights_eight_min.wgsl"),
            Self::Four => include_str!("shaders/weights_four.wgsl"),
        }
    }
}

impl Shader {
    /// The parts of its text, and how many buffers it reads and then writes.
    fn source(self) -> (Vec<&'static str>, u32, u32) {
        let cache = |format: KvFormat| match format.on_device() {
            KvFormat::F16 | KvFormat::Q8 => include_str!("shaders/cache_f16.wgsl"),
            KvFormat::F32 => include_str!("shaders/cache_f32.wgsl"),
        };
        match self {
            Self::Product(layout) => {
                (vec![layout.source(), include_str!("shaders/product.wgsl")], 4, 1)
            }
            Self::Norm => (vec![include_str!("shaders/norm.wgsl")], 2, 1),
            Self::Rotate(kv) => (vec![cache(kv), include_str!("shaders/rotate.wgsl")], 4, 2),
            Self::Attention(kv) => (vec![cache(kv), include_str!("shaders/attention.wgsl")], 5, 1),
            Self::Gated => (vec![include_str!("shaders/gated.wgsl")], 1, 1),
            Self::Convolve => (vec![include_str!("shaders/convolve.wgsl")], 3, 1),
            Self::Blend => (vec![include_str!("shaders/blend.wgsl")], 2, 1),
            Self::Rows => (vec![include_str!("shaders/rows.wgsl")], 2, 1),
            Self::Keep(kv) => (vec![cache(kv), include_str!("shaders/keep.wgsl")], 1, 1),
            Self::Rank => (vec![include_str!("shaders/rank.wgsl")], 1, 1),
        }
    }
}

/// A compiled kernel.
#[derive(Clone)]
pub(super) struct Pipeline {
    pub(super) raw: ComputePipeline,
    pub(super) layout: BindGroupLayout,
}

/// The kernels used so far.
#[derive(Default)]
pub(super) struct Kernels(Mutex<HashMap<Shader, Pipeline>>);

impl Kernels {
    /// The kernel, compiled at its first use.
    pub(super) fn get(&self, device: &Device, kernel: Shader) -> Pipeline {
        let mut compiled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        compiled.entry(kernel).or_insert_with(|| compile(device, kernel)).clone()
    }
}

fn compile(device: &Device, kernel: Shader) -> Pipeline {
    let label = format!("{kernel:?}");
    let (parts, read, written) = kernel.source();
    let entries: Vec<wgpu::BindGroupLayoutEntry> = (0..read + written)
        .map(|binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: binding < read },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some(&label),
        entries: &entries,
    });
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(&label),
        source: wgpu::ShaderSource::Wgsl(parts.concat().into()),
    });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some(&label),
        bind_group_layouts: &[Some(&layout)],
        immediate_size: IMMEDIATE_BYTES,
    });
    let raw = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(&label),
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions {
            // Every kernel writes the workgroup memory before it reads it.
            zero_initialize_workgroup_memory: false,
            ..Default::default()
        },
        cache: None,
    });
    Pipeline { raw, layout }
}
