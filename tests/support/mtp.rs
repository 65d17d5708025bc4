//! The recorded heads in their targets' own files: tests/golden/mtp.

use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use candle_core::quantized::gguf_file::Value;
use candle_core::{DType, Device, Tensor};
use dovetail::draft::FeatureHead;
use dovetail::kernels::Pool;
use dovetail::library::{HeadFiles, Spec, TargetFiles};
use dovetail::model::head::{
    GpuHead, HeadBackend, HeadRequest, HeadWeights, PackedHead, SharedTables,
};
use dovetail::model::{CpuTarget, Gpu, Target, WeightSource};
use safetensors::SafeTensors;

use super::gguf::Gguf;
use super::golden::golden;
use super::library::{arch_file, load_files, open_target};

/// The models that have a head in their file.
pub const MTP_HEADS: [&str; 3] = ["qwen35", "glm4moe", "mimo2"];

pub const CONTEXT: usize = 256;

/// The file that holds both models; that of MiMo has two blocks.
pub fn mtp_files(name: &str) -> TargetFiles {
    let path = match name {
        "mimo2" => golden("mtp/mimo2.gguf"),
        _ => arch_file(&format!("{name}.gguf")),
    };
    open_target(&Spec::Gguf(path)).unwrap()
}

/// A target and the head in its file, in the precision of the file.
pub struct MtpCase {
    pub target: CpuTarget,
    pub weights: HeadWeights,
    files: TargetFiles,
}

impl MtpCase {
    pub fn of(files: TargetFiles) -> Self {
        let mut target = load_files(&files, CONTEXT, 2);
        let head = HeadFiles::in_target(&files).unwrap();
        let weights = HeadWeights::load(&head.config, head.tensors.as_ref()).unwrap();
        target.set_features(weights.config.features(files.config.layers).unwrap());
        Self { target, weights, files }
    }

    pub fn load(name: &str) -> Self {
        Self::of(mtp_files(name))
    }

    /// The first head of the file.
    pub fn head(&self) -> PackedHead {
        self.with_request(|request| PackedHead::new(request).unwrap())
    }

    /// All heads of the file as the program drafts with them.
    pub fn heads(&self) -> Box<dyn HeadBackend> {
        self.with_request(|request| request.on_cpu().unwrap())
    }

    pub fn on_gpu(&self, gpu: &Arc<Gpu>) -> GpuHead {
        self.with_request(|request| GpuHead::new(gpu, request).unwrap())
    }

    fn with_request<T>(&self, pack: impl FnOnce(&HeadRequest<'_>) -> T) -> T {
        let pool = Arc::new(Pool::borrowing(Arc::clone(self.target.pool()), 1));
        let shared = SharedTables::of(&self.target);
        pack(&request(&self.files, &self.weights, &shared, pool, CONTEXT))
    }

    pub fn drafter(&self) -> FeatureHead {
        self.drafter_with(self.heads())
    }

    pub fn drafter_with(&self, heads: Box<dyn HeadBackend>) -> FeatureHead {
        let config = &self.weights.config;
        let source = config.features(self.files.config.layers).unwrap();
        FeatureHead::new(config, heads, CONTEXT).reading(source)
    }
}

/// For the heads in a target's file.
fn request<'a>(
    files: &'a TargetFiles,
    weights: &'a HeadWeights,
    shared: &'a SharedTables,
    pool: Arc<Pool>,
    capacity: usize,
) -> HeadRequest<'a> {
    let source = Some(&*files.weights as &dyn WeightSource);
    HeadRequest { source, ..HeadRequest::new(weights, shared, pool, capacity).exact() }
}

/// The head in the file of `target` as a drafter that drafts ahead; `None` if it has none.
pub fn own_head(files: &TargetFiles, target: &CpuTarget, context: usize) -> Option<FeatureHead> {
    let head = HeadFiles::in_target(files)?;
    let weights = HeadWeights::load(&head.config, head.tensors.as_ref()).unwrap();
    let cores = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
    let shared = SharedTables::of(target);
    let heads = request(files, &weights, &shared, Arc::clone(&cores), context).on_cpu().unwrap();
    let source = head.config.features(files.config.layers).unwrap();
    let drafter = FeatureHead::new(&head.config, heads, context);
    Some(drafter.reading(source).with_cores(cores))
}

/// MiMo with `blocks` blocks that are all its first one.
pub fn alike(blocks: usize) -> MtpCase {
    let mut file = Gguf::read(&golden("mtp/mimo2.gguf"));
    let first: Vec<String> =
        file.tensors.keys().filter(|name| name.starts_with("blk.3.")).cloned().collect();
    for block in 4..3 + blocks {
        for name in &first {
            let values = file.tensors[name].dequantize(&Device::Cpu).unwrap();
            let name = name.replacen("blk.3.", &format!("blk.{block}."), 1);
            let kind = file.tensors[&name.replacen(&format!("blk.{block}."), "blk.3.", 1)].dtype();
            file.tensor(&name, &values, kind);
        }
    }
    file.set("mimo2.block_count", Value::U32(3 + blocks as u32));
    file.set("mimo2.nextn_predict_layers", Value::U32(blocks as u32));
    for key in ["mimo2.attention.head_count_kv", "mimo2.attention.sliding_window_pattern"] {
        let Value::Array(mut all) = file.metadata[key].clone() else { panic!("{key}") };
        all.resize(3 + blocks, all[3].clone());
        file.set(key, Value::Array(all));
    }
    MtpCase::of(file.open().unwrap())
}

/// A model whose layers add nothing to the stream, with a head that does the same, so that both
/// predict from the last token alone and the head is always right.
pub fn agreeing() -> TargetFiles {
    let mut file = Gguf::read(&arch_file("qwen35.gguf"));
    let names: Vec<String> = file.tensors.keys().cloned().collect();
    let zeroed = ["ssm_out.weight", "attn_output.weight", "ffn_down.weight"];
    for name in names.iter().filter(|name| zeroed.iter().any(|part| name.ends_with(part))) {
        let shape = file.tensors[name].shape().clone();
        let zeros = Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        file.tensor(name, &zeros, GgmlDType::F32);
    }
    let h = 64;
    let eye = Tensor::eye(h, DType::F32, &Device::Cpu).unwrap();
    let rows = Tensor::zeros((h, h), DType::F32, &Device::Cpu).unwrap();
    let embedding = Tensor::cat(&[&eye, &rows], 1).unwrap();
    file.tensor("blk.4.nextn.eh_proj.weight", &embedding, GgmlDType::F32);
    let ones = Tensor::ones(h, DType::F32, &Device::Cpu).unwrap();
    file.tensor("blk.4.nextn.enorm.weight", &ones, GgmlDType::F32);
    let norm = file.tensors["output_norm.weight"].dequantize(&Device::Cpu).unwrap();
    file.tensor("blk.4.nextn.shared_head_norm.weight", &norm, GgmlDType::F32);
    file.open().unwrap()
}

/// Recorded numbers.
pub struct Vectors(Vec<u8>);

impl Vectors {
    pub fn load(name: &str) -> Self {
        Self(std::fs::read(golden(&format!("mtp/{name}.safetensors"))).unwrap())
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.words(name).into_iter().map(f32::from_le_bytes).collect()
    }

    pub fn tokens(&self, name: &str) -> Vec<u32> {
        self.words(name).into_iter().map(u32::from_le_bytes).collect()
    }

    fn words(&self, name: &str) -> Vec<[u8; 4]> {
        let tensors = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        tensor.data().as_chunks().0.to_vec()
    }
}
