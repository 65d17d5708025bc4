//! GGUF files that candle-transformers reads: of architectures that our engine does not know, and
//! of some that both know, for comparing them.

use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::Content;
use candle_core::{Device, Result, Tensor};
use candle_transformers::models::{
    quantized_gemma3, quantized_lfm2, quantized_llama, quantized_phi3, quantized_qwen2,
    quantized_qwen3,
};

use super::CandleModel;
use crate::files::{Open, open_regular};
use crate::model::hf_families::{Family, row};
use crate::model::{ArchitectureRow, RopeLayout};

/// Every architecture whose GGUF files candle-transformers runs, and our engine does not. A file's
/// sizes are read as those of a Llama.
pub const CANDLE_GGUF: &[ArchitectureRow] =
    &[row("LFM2", "lfm2", "llama", Family::Llama, RopeLayout::Halves)];

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
        "gemma3" => {
            use quantized_gemma3::ModelWeights;
            let model = ModelWeights::from_gguf(content, file, cpu)?;
            CandleModel::of(model, |_| {}, ModelWeights::forward).stepping()
        }
        "lfm2" => {
            use quantized_lfm2::ModelWeights;
            let mut model = ModelWeights::from_gguf(content, file, cpu)?;
            let path = path.to_owned();
            let mut begun = false;
            // Its convolutions keep what they have read until a first pass over several tokens
            // replaces it, so a text of a single token needs a new model.
            let pass = move |input: &Tensor, position| {
                if position == 0 && begun && input.dim(1)? == 1 {
                    let mut file = BufReader::new(open_regular(&path, Open::Read)?);
                    let content = Content::read(&mut file)?;
                    model = ModelWeights::from_gguf(content, &mut file, &Device::Cpu)?;
                }
                begun = true;
                model.forward(input, position)
            };
            CandleModel::new(pass).stepping()
        }
        other => candle_core::bail!(
            "the architecture `{other}` cannot be compared, only llama, qwen2, qwen3, phi3 and \
             gemma3"
        ),
    })
}
