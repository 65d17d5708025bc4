//! candle-transformers' own quantised models, as an independent implementation to compare with.
//! It must not depend on our kernels or our reader of files.

use std::io::BufReader;
use std::path::Path;

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::{
    quantized_gemma3, quantized_llama, quantized_phi3, quantized_qwen2, quantized_qwen3,
};

use super::ReferenceModel;
use crate::files::{Open, open_regular};

/// The model in the GGUF file at `path`, on the CPU.
pub(super) fn open(path: &Path) -> Result<Box<ReferenceModel<'static>>> {
    let mut file = BufReader::new(open_regular(path, Open::Read)?);
    let content = Content::read(&mut file)?;
    let architecture = content.metadata.get("general.architecture");
    let architecture = architecture.and_then(|name| name.to_string().ok()).cloned();
    let file = &mut file;
    let cpu = &Device::Cpu;
    Ok(match architecture.as_deref().unwrap_or_default() {
        "llama" => {
            let model = quantized_llama::ModelWeights::from_gguf(content, file, cpu)?;
            reference(model, quantized_llama::ModelWeights::forward)
        }
        "qwen2" => {
            let model = quantized_qwen2::ModelWeights::from_gguf(content, file, cpu)?;
            reference(model, quantized_qwen2::ModelWeights::forward)
        }
        "qwen3" => {
            let model = quantized_qwen3::ModelWeights::from_gguf(content, file, cpu)?;
            reference(model, |model, input, position| {
                // The others notice that themselves.
                if position == 0 {
                    model.clear_kv_cache();
                }
                model.forward(input, position)
            })
        }
        "phi3" => {
            let model = quantized_phi3::ModelWeights::from_gguf(false, content, file, cpu)?;
            reference(model, quantized_phi3::ModelWeights::forward)
        }
        "gemma3" => {
            let model = quantized_gemma3::ModelWeights::from_gguf(content, file, cpu)?;
            reference(model, quantized_gemma3::ModelWeights::forward)
        }
        other => candle_core::bail!(
            "cannot compare the architecture `{other}`, only llama, qwen2, qwen3, phi3 and \
             gemma3; leave out --against"
        ),
    })
}

/// One of candle-transformers' models, with its pass over one token.
fn reference<M: 'static>(
    mut model: M,
    forward: fn(&mut M, &Tensor, usize) -> Result<Tensor>,
) -> Box<ReferenceModel<'static>> {
    Box::new(move |token, position| {
        let input = Tensor::new(&[[token]], &Device::Cpu)?;
        forward(&mut model, &input, position)?.flatten_all()?.to_dtype(DType::F32)?.to_vec1()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::MeasureError;
    use crate::bench::quality::measure;
    use crate::kernels::{KvFormat, Pool};
    use crate::library::{Spec, open_target};

    fn golden(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/arch").join(name)
    }

    #[test]
    fn both_models_of_a_file_predict_alike() {
        for name in ["llama.gguf", "qwen2.gguf", "qwen3.gguf"] {
            let path = golden(name);
            let files = open_target(&Spec::Gguf(path.clone()), &mut |_| {}).unwrap();
            let mut target = files.on_cpu(Pool::new(2), 64, KvFormat::F32).unwrap();
            let mut candle = open(&path).unwrap();
            let vocab = files.config.vocab as u32;
            // Two windows: the second must not see the first.
            let windows: Vec<Vec<u32>> =
                (1..3).map(|seed| (0..40).map(|i| (i * i + 7 * seed) % vocab).collect()).collect();
            let measured = measure(&mut target, Some(candle.as_mut()), &windows).unwrap();
            let (score, divergence) = measured.reference.unwrap();
            assert_eq!((measured.ours.tokens, divergence.positions), (78, 78));
            // Both round activations to 8 bits where weights are quantised, in blocks of their own.
            assert!(divergence.mean_kl() < 2e-3, "{name}: {divergence:?}");
            assert!(divergence.same_best_share() > 0.9, "{name}: {divergence:?}");
            let ratio = measured.ours.perplexity() / score.perplexity();
            assert!((ratio - 1.0).abs() < 0.02, "{name}: {ratio}");

            // The comparison notices another text.
            let shifted: Vec<Vec<u32>> = windows.iter().map(|w| w[1..].to_vec()).collect();
            let other_text = measure(&mut target, None, &shifted).unwrap();
            assert_ne!(other_text.ours.log_probability, measured.ours.log_probability);
        }
    }

    #[test]
    fn an_architecture_without_a_model_is_named_with_those_that_have_one() {
        let error = open(&golden("olmo2.gguf")).err().unwrap();
        let text = MeasureError::from(error).to_string();
        assert!(text.contains("`olmo2`") && text.contains("qwen3"), "{text}");
    }
}
