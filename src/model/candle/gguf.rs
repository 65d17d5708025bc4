//! GGUF files of architectures that candle-transformers and our engine both know, for comparing
//! them.

use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Result};
use candle_transformers::models::{
    quantized_llama, quantized_phi3, quantized_qwen2, quantized_qwen3,
};

use super::CandleModel;
use crate::files::{Open, open_regular};

/// The model in the file at `path`.
pub(super) fn load(path: &Path) -> Result<CandleModel> {
    let mut file = BufReader::new(open_regular(path, Open::Read)?);
    let content = Content::read(&mut file)?;
    let architecture = content.metadata.get("general.architecture");
    let architecture = architecture.and_then(|name| name.to_string().ok()).cloned();
    let file = &mut file;
    let cpu = &Device::Cpu;
    // Most clear their caches themselves at position 0.
    Ok(match architecture.as_deref().unwrap_or_default() {
        "llama" => {
            use quantized_llama::ModelWeights;
            let model = ModelWeights::from_gguf(content, file, cpu)?;
            CandleModel::of(model, |_| {}, ModelWeights::forward).stepping()
        }
        "qwen2" => {
            use quantized_qwen2::ModelWeights;
            let model = ModelWeights::from_gguf(content, file, cpu)?;
            CandleModel::of(model, |_| {}, ModelWeights::forward).stepping()
        }
        "qwen3" => {
            use quantized_qwen3::ModelWeights;
            let model = ModelWeights::from_gguf(content, file, cpu)?;
            CandleModel::of(model, ModelWeights::clear_kv_cache, ModelWeights::forward).stepping()
        }
        "phi3" => {
            use quantized_phi3::ModelWeights;
            let model = ModelWeights::from_gguf(false, content, file, cpu)?;
            CandleModel::of(model, |_| {}, ModelWeights::forward).stepping()
        }
        // Not gemma3: candle 0.11 puts SiLU where Gemma has GELU.
        other => candle_core::bail!(
            "the architecture `{other}` cannot be compared, only llama, qwen2, qwen3 and phi3"
        ),
    })
}
