//! The shaders and their pipelines, each compiled when it is first used. It must not depend on what
//! buffers hold.

use std::sync::OnceLock;

use wgpu::{BindGroupLayout, ComputePipeline, Device};

use crate::kernels::KvFormat;

/// How many words of immediate data there are, the same for all kernels: rows, slot of the first
/// row, committed positions, flags, then the kernel's own numbers.
pub(super) const WORDS: usize = 12;
/// The same in bytes.
pub(super) const IMMEDIATE_BYTES: u32 = 4 * WORDS as u32;

/// How the device stores the weights of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The gate of DGF.
    Blend,
    /// Copies of rows.
    Rows,
    /// Keeps rows in flight.
    Keep(KvFormat),
    /// Finds the likeliest tokens.
    Rank,
}

const COUNT: usize = 17;

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
    fn number(self) -> usize {
        let kv = |format: KvFormat| usize::from(format == KvFormat::F32);
        match self {
            Self::Product(layout) => layout as usize,
            Self::Norm => 6,
            Self::Rotate(format) => 7 + kv(format),
            Self::Attention(format) => 9 + kv(format),
            Self::Gated => 11,
            Self::Blend => 12,
            Self::Rows => 13,
            Self::Keep(format) => 14 + kv(format),
            Self::Rank => 16,
        }
    }

    fn source(self) -> String {
        let kv = |format: KvFormat, shader: &str| {
            let cache = match format {
                KvFormat::F16 => include_str!("shaders/cache_f16.wgsl"),
                KvFormat::F32 => include_str!("shaders/cache_f32.wgsl"),
            };
            [cache, shader].concat()
        };
        match self {
            Self::Product(layout) => {
                [layout.source(), include_str!("shaders/product.wgsl")].concat()
            }
            Self::Norm => include_str!("shaders/norm.wgsl").to_owned(),
            Self::Rotate(format) => kv(format, include_str!("shaders/rotate.wgsl")),
            Self::Attention(format) => kv(format, include_str!("shaders/attention.wgsl")),
            Self::Gated => include_str!("shaders/gated.wgsl").to_owned(),
            Self::Blend => include_str!("shaders/blend.wgsl").to_owned(),
            Self::Rows => include_str!("shaders/rows.wgsl").to_owned(),
            Self::Keep(format) => kv(format, include_str!("shaders/keep.wgsl")),
            Self::Rank => include_str!("shaders/rank.wgsl").to_owned(),
        }
    }

    /// Its buffers: how many are read, then how many are written.
    fn bindings(self) -> (u32, u32) {
        match self {
            Self::Product(_) => (4, 1),
            Self::Norm | Self::Blend | Self::Rows => (2, 1),
            Self::Rotate(_) => (4, 2),
            Self::Attention(_) => (3, 1),
            Self::Gated | Self::Keep(_) | Self::Rank => (1, 1),
        }
    }
}

/// A compiled kernel.
pub(super) struct Pipeline {
    pub(super) raw: ComputePipeline,
    pub(super) layout: BindGroupLayout,
}

/// The kernels used so far.
#[derive(Default)]
pub(super) struct Kernels {
    compiled: [OnceLock<Pipeline>; COUNT],
}

impl Kernels {
    /// The kernel, compiled at its first use.
    pub(super) fn get(&self, device: &Device, kernel: Shader) -> &Pipeline {
        self.compiled[kernel.number()].get_or_init(|| compile(device, kernel))
    }
}

fn compile(device: &Device, kernel: Shader) -> Pipeline {
    let label = format!("{kernel:?}");
    let (read, written) = kernel.bindings();
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
        source: wgpu::ShaderSource::Wgsl(kernel.source().into()),
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
