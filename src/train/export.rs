//! A trained head as files: the published layout (method.md, Published files of a head) with our
//! own fields in `config.json`.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};

use super::files::{whole, write_tensors};
use super::net::DraftNet;
use super::{Result, TrainError};
use crate::model::head::{
    Eagle3Config, FusionKind, HeadConfig, HeadKind, HeadWeights, TappedStates,
};
use crate::model::{BlockOptions, Config, RopeScaling};

/// The configuration of a new head of this kind with `blocks` blocks: the target's sizes, without
/// the biases and norms that some targets add. If it taps states, they are those of these layers of
/// the target.
pub fn head_config(kind: FusionKind, target: &Config, blocks: usize, elastic: bool) -> HeadConfig {
    let rope_scaling = match &target.rope_scaling {
        // A head is trained with its own positions, and needs none of those for which a Llama's
        // `config.json` has no field.
        RopeScaling::Factors(_) | RopeScaling::Yarn { .. } | RopeScaling::Long { .. } => {
            RopeScaling::None
        }
        other => other.clone(),
    };
    // A latent target's single wide key head is the absorbed form of as many key heads as it has
    // query heads.
    let (head_dim, kv_heads) = match &target.block.latent {
        Some(latent) => ((latent.nope_dim + latent.rope_dim).next_multiple_of(2), target.heads),
        None => (target.head_dim, target.kv_heads),
    };
    let body = Config {
        layers: blocks,
        head_dim,
        kv_heads,
        block: BlockOptions::default(),
        rope_scaling,
        rope_layout: crate::model::RopeLayout::Halves,
        qkv_bias: false,
        o_bias: false,
        qk_norm: false,
        tied_head: false,
        ..target.clone()
    };
    let kind = match kind {
        FusionKind::Dgf => HeadKind::Dgf,
        FusionKind::Eagle => HeadKind::Eagle,
        FusionKind::Eagle3 => {
            let taps = TappedStates::of_new(target.layers);
            HeadKind::Eagle3(Eagle3Config::tapping(target.hidden, taps))
        }
    };
    HeadConfig { elastic, ..HeadConfig::of_body(body, kind) }
}

/// The `config.json` of a head, which [`HeadConfig::from_json`] reads back unchanged.
pub fn head_json(config: &HeadConfig) -> Value {
    let body = &config.body;
    let scaling = match &body.rope_scaling {
        RopeScaling::Linear { factor } => json!({"type": "linear", "factor": factor}),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
            json!({
                "rope_type": "llama3", "factor": factor, "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_positions,
            })
        }
        _ => Value::Null,
    };
    let mut json = json!({
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": body.hidden,
        "intermediate_size": body.intermediate,
        "num_hidden_layers": body.layers,
        "num_attention_heads": body.heads,
        "num_key_value_heads": body.kv_heads,
        "head_dim": body.head_dim,
        "vocab_size": body.vocab,
        "max_position_embeddings": body.max_positions,
        // Through its shortest decimal, not the full expansion of the f32.
        "rms_norm_eps": body.rms_eps.to_string().parse::<f64>().unwrap_or(body.rms_eps.into()),
        "rope_theta": body.rope_theta,
        "rope_scaling": scaling,
        "pretraining_tp": 1,
        "bias": config.kind == HeadKind::Eagle,
        "draft_type": config.kind.name().to_lowercase().replace('-', ""),
        "elastic_depth": config.elastic,
        "tie_word_embeddings": false,
        "torch_dtype": "float16",
    });
    if let Some(scored) = config.draft_vocab {
        json["draft_vocab_size"] = scored.into();
    }
    if let Some((field, states)) = config.kind.eagle3().and_then(|own| own.taps.to_json()) {
        json[field] = states;
    }
    json
}

impl DraftNet {
    /// The weights in the form in which they are exported, in f16.
    ///
    /// # Errors
    /// If the device fails.
    pub fn half(&self) -> Result<HashMap<String, Tensor>> {
        let half = self.weights.iter().map(|(name, weight)| {
            let tensor = weight.as_detached_tensor().to_device(&Device::Cpu)?;
            Ok((name.clone(), tensor.to_dtype(DType::F16)?))
        });
        let mut half: HashMap<_, _> = half.collect::<Result<_>>()?;
        half.extend(self.d2t()?);
        if let (HeadKind::Eagle3(_), Some(scored)) = (&self.config.kind, &self.draft_vocab) {
            // Loaders of this layout compare it with `d2t`.
            let vocab = self.config.body.vocab as u32;
            let flags: Vec<u8> = (0..vocab).map(|token| u8::from(scored.contains(token))).collect();
            half.insert("t2d".to_owned(), Tensor::new(flags, &Device::Cpu)?);
        }
        Ok(half)
    }

    /// The head in the form in which decoding runs it.
    ///
    /// # Errors
    /// If the device fails.
    pub fn head_weights(&self) -> Result<HeadWeights> {
        Ok(HeadWeights::load(&self.config, &self.half()?)?)
    }

    /// Writes `config.json` and `model.safetensors` to `folder`, which is created if it does not
    /// exist. Each file appears completely or not at all.
    ///
    /// # Errors
    /// [`TrainError::Failed`] if the disk is full or refuses.
    pub fn export(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|source| TrainError::write(folder, source))?;
        let half = self.half()?;
        let weights = folder.join("model.safetensors");
        whole(&weights, |file| write_tensors(file, half, None))?;
        let text = format!("{:#}\n", head_json(&self.config));
        whole(&folder.join("config.json"), |file| file.write_all(text.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_survives_its_file() {
        let llama_3 = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_positions: 8192,
        };
        let scalings = [
            RopeScaling::None,
            RopeScaling::Linear { factor: 2.0 },
            llama_3,
            RopeScaling::Factors(vec![1.0; 32]),
        ];
        let cases = [
            (FusionKind::Dgf, 3, true, None),
            (FusionKind::Eagle, 3, false, Some(1000)),
            (FusionKind::Eagle3, 1, false, Some(1000)),
        ];
        for (rope_scaling, layers) in scalings.into_iter().zip([6, 12, 6, 12]) {
            let target = Config {
                layers,
                rms_eps: 1e-5,
                rope_scaling,
                rope_layout: crate::model::RopeLayout::Interleaved,
                qkv_bias: true,
                o_bias: true,
                qk_norm: true,
                tied_head: true,
                ..crate::model::KnownShape::B1.config()
            };
            for (kind, blocks, elastic, draft_vocab) in cases {
                let config =
                    HeadConfig { draft_vocab, ..head_config(kind, &target, blocks, elastic) };
                let text = head_json(&config).to_string();
                assert!(text.contains("\"rms_norm_eps\":0.00001,"), "{text}");
                let json = serde_json::from_str(&text).unwrap();
                assert_eq!(HeadConfig::from_json(&json, kind).unwrap(), config);
                if kind == FusionKind::Eagle3 {
                    assert_eq!(config.features(layers).unwrap().states().len(), 3);
                }
            }
        }
    }
}
