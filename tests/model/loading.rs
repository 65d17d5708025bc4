//! Loading: what is reported on the way, what is held afterwards, and how a source that does not
//! fit is refused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail::kernels::{Format, KvFormat, Pool};
use dovetail::model::weights::tensors;
use dovetail::model::{
    Config, CpuTarget, KnownShape, LoadError, LoadRequest, Progress, RandomWeights, RawTensor,
    RopeScaling, WeightSource,
};

fn config() -> Config {
    Config {
        vocab: 500,
        hidden: 512,
        intermediate: 1024,
        layers: 2,
        heads: 8,
        kv_heads: 4,
        head_dim: 64,
        rope_scaling: RopeScaling::None,
        qkv_bias: true,
        qk_norm: true,
        ..KnownShape::B1.config()
    }
}

type Change = Box<dyn Fn(RawTensor<'_>) -> Option<RawTensor<'static>>>;

/// Random weights, one of them changed; counts what is released.
struct Source {
    weights: RandomWeights,
    changed: (&'static str, Change),
    released: RefCell<BTreeMap<String, usize>>,
}

impl Source {
    fn new(format: Format, name: &'static str, change: Change) -> Self {
        let weights = RandomWeights::new(&config(), format, 1);
        Self { weights, changed: (name, change), released: RefCell::default() }
    }
}

impl WeightSource for Source {
    fn describe(&self) -> String {
        "model.gguf".to_owned()
    }

    fn tensor(&self, name: &str) -> Option<RawTensor<'_>> {
        let tensor = self.weights.tensor(name)?;
        if name == self.changed.0 { (self.changed.1)(tensor) } else { Some(tensor) }
    }

    fn release(&self, name: &str) {
        *self.released.borrow_mut().entry(name.to_owned()).or_default() += 1;
    }
}

fn load(source: &Source, progress: &dyn Fn(Progress)) -> Result<CpuTarget, LoadError> {
    let (config, pool, kv) = (&config(), Arc::new(Pool::new(2)), KvFormat::F16);
    let request = LoadRequest::new(config, source, pool, 32, kv);
    CpuTarget::load(&LoadRequest { progress, ..request })
}

#[test]
fn progress_ends_at_its_total_and_every_tensor_is_let_go_once() {
    let source = Source::new(Format::Q4K, "", Box::new(|_| None));
    let told = RefCell::new(Vec::new());
    load(&source, &|progress| told.borrow_mut().push(progress)).unwrap();
    let told = told.into_inner();
    let total = config().layers;
    assert!((1..=total).map(|done| Progress { done, total }).eq(told));

    let released = source.released.borrow();
    let expected: BTreeMap<String, usize> =
        tensors(&config()).into_iter().map(|(name, _)| (name, 1)).collect();
    assert_eq!(*released, expected);
}

#[test]
fn packed_weights_are_no_more_than_five_per_cent_above_the_file() {
    for format in Format::ALL {
        let source = Source::new(format, "", Box::new(|_| None));
        let file: usize = tensors(&config())
            .iter()
            .filter(|(_, shape)| shape.len() == 2)
            .map(|(name, _)| source.tensor(name).unwrap().bytes.len())
            .sum();
        let held = load(&source, &|_| {}).unwrap().weight_bytes() as usize;
        assert!(held * 100 <= file * 105, "{format}: {held} bytes for {file}");
        assert!(held * 100 >= file * 95, "{format}: {held} bytes for {file}");
    }
}

fn owned(tensor: RawTensor<'_>) -> RawTensor<'static> {
    RawTensor { bytes: tensor.bytes.into_owned().into(), ..tensor }
}

#[test]
fn a_source_that_does_not_fit_is_refused_with_name_and_reason() {
    let cases: [(&str, Change, &str); 5] = [
        (
            "model.layers.1.mlp.up_proj.weight",
            Box::new(|_| None),
            "model.gguf: tensor `model.layers.1.mlp.up_proj.weight` is missing; the file is \
             incomplete or holds another architecture",
        ),
        (
            "lm_head.weight",
            Box::new(|tensor| Some(owned(RawTensor { shape: vec![512, 500], ..tensor }))),
            "model.gguf: tensor `lm_head.weight` is [512, 500], but the config says [500, 512]; \
             the weights and the config are from different models",
        ),
        (
            "model.layers.0.self_attn.q_norm.weight",
            Box::new(|tensor| Some(owned(RawTensor { format: Format::Q8_0, ..tensor }))),
            "model.gguf: tensor `model.layers.0.self_attn.q_norm.weight` (Q8_0): norms and \
             biases must be F32, F16 or BF16",
        ),
        (
            "model.layers.0.self_attn.k_proj.bias",
            Box::new(|tensor| Some(owned(RawTensor { format: Format::F16, ..tensor }))),
            "model.gguf: tensor `model.layers.0.self_attn.k_proj.bias` (F16): it has 512 values \
             instead of 256",
        ),
        (
            "model.layers.0.self_attn.k_proj.weight",
            Box::new(|tensor| {
                let bytes = tensor.bytes[..tensor.bytes.len() - 1].to_vec().into();
                Some(RawTensor { bytes, ..tensor })
            }),
            "model.gguf: tensor `model.layers.0.self_attn.k_proj.weight`: a Q8_0 \
             matrix of 256 × 512 has 139263 bytes",
        ),
    ];
    for (name, change, message) in cases {
        let source = Source::new(Format::Q8_0, name, change);
        let error = load(&source, &|_| {}).err().unwrap().to_string();
        // Only the beginnings: the rest of a packing error is the kernels' own text.
        assert!(error.starts_with(message), "{error}\ninstead of\n{message}");
    }
}

#[test]
fn a_context_beyond_the_model_is_refused_before_the_weights_are_read() {
    let none = Source::new(Format::F32, "", Box::new(|_| None));
    let config = config();
    for capacity in [0, config.max_positions + 1] {
        let (pool, kv) = (Arc::new(Pool::new(1)), KvFormat::F16);
        let request = LoadRequest::new(&config, &none, pool, capacity, kv);
        let error = CpuTarget::load(&request).err().unwrap();
        assert_eq!(error, LoadError::Capacity { capacity, most: config.max_positions });
        assert!(none.released.borrow().is_empty());
    }
}
