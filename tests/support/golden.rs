//! The recorded files of the original program (tests/golden) as candle's tensors, and what the
//! recordings say about heads and prompts.

use std::collections::HashMap;

use candle_core::safetensors::BufferedSafetensors;
use candle_core::{DType, Device, Tensor};
use serde_json::Value;

pub use super::recorded::{
    File, assert_close, config, golden, json, recorded_target, recorded_target_in,
};

pub const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

pub const HEADS: [&str; 5] =
    ["draft_dgf_m1", "draft_dgf_m2", "draft_dgf_m4", "draft_eagle_m1", "draft_dgf_m2_gqa"];

pub type Tensors = HashMap<String, Tensor>;

/// All tensors of a file but `t2d`: candle knows no flags, and `d2t` says the same.
pub fn tensors(name: &str) -> Tensors {
    let bytes = std::fs::read(golden(name)).unwrap();
    let file = BufferedSafetensors::new(bytes).unwrap();
    let names = file.tensors().into_iter().map(|(name, _)| name).filter(|name| name != "t2d");
    names.map(|name| (name.clone(), file.load(&name, &Device::Cpu).unwrap())).collect()
}

pub fn floats(tensor: &Tensor) -> Vec<f32> {
    tensor.to_dtype(DType::F32).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

/// A list of token ids or of other natural numbers.
pub fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// The target that a recorded head drafts for.
pub fn target_of(head: &str) -> &'static str {
    if head.ends_with("gqa") { "target_gqa" } else { "target_mha" }
}

pub fn prompts() -> Vec<Vec<u32>> {
    let meta = json("trees.json");
    meta["meta"]["prompts"].as_object().unwrap().values().map(numbers).collect()
}
