//! The recorded assistant with its target, tests/golden/drafters2026.

use std::sync::Arc;

use dovetail::draft::FeatureHead;
use dovetail::kernels::Pool;
use dovetail::library::{HeadFiles, Spec, TargetFiles};
use dovetail::model::head::{AssistantHead, HeadRequest, HeadWeights, SharedTables};
use dovetail::model::{CpuTarget, Target, WeightSource, weights};
use serde_json::json;
use tempfile::TempDir;

use super::gguf::{Stored, published};
use super::golden::{Tensors, floats, golden, tensors};
use super::library::{arch, load_files, open_head};

pub const CONTEXT: usize = 128;

pub fn assistant_spec() -> Spec {
    Spec::Gguf(golden("drafters2026/gemma4-assistant.gguf"))
}

/// The recorded assistant as a folder of safetensors, with the names of transformers.
pub fn published_assistant(files: &HeadFiles) -> TempDir {
    let mut names: Vec<(String, String)> = [
        weights::EMBEDDING,
        "model.norm.weight",
        "pre_projection.weight",
        "post_projection.weight",
    ]
    .map(|name| (name.to_owned(), name.to_owned()))
    .into();
    for layer in 0..files.config.body.layers {
        let parts = [
            ("input_layernorm.weight", "input_layernorm.weight"),
            ("self_attn.out_norm.weight", "post_attention_layernorm.weight"),
            ("post_attention_layernorm.weight", "pre_feedforward_layernorm.weight"),
            ("mlp.out_norm.weight", "post_feedforward_layernorm.weight"),
            ("self_attn.q_proj.weight", "self_attn.q_proj.weight"),
            ("self_attn.q_norm.weight", "self_attn.q_norm.weight"),
            ("self_attn.o_proj.weight", "self_attn.o_proj.weight"),
            ("mlp.gate_proj.weight", "mlp.gate_proj.weight"),
            ("mlp.up_proj.weight", "mlp.up_proj.weight"),
            ("mlp.down_proj.weight", "mlp.down_proj.weight"),
            ("layer_scalar", "layer_scalar"),
        ];
        let of_layer = |part| weights::layer_name(layer, part);
        names.extend(parts.map(|(asked, stored)| (of_layer(asked), of_layer(stored))));
    }
    let source = files.weights.as_deref().unwrap();
    let stored = names.into_iter().map(|(asked, stored)| {
        (stored, Stored::of(&source.tensor(&asked).unwrap_or_else(|| panic!("{asked}"))))
    });
    let stored: Vec<(String, Stored)> = stored.collect();
    let config = json!({
        "model_type": "gemma4_assistant", "backbone_hidden_size": 64,
        "use_ordered_embeddings": false, "tie_word_embeddings": true,
        "text_config": {
            "model_type": "gemma4_text", "hidden_activation": "gelu_pytorch_tanh",
            "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
            "num_kv_shared_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1,
            "num_global_key_value_heads": 1, "head_dim": 16, "global_head_dim": 32,
            "vocab_size": 278, "rms_norm_eps": 1e-6, "max_position_embeddings": 2048,
            "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"],
            "attention_k_eq_v": true, "hidden_size_per_layer_input": 0,
            "enable_moe_block": false, "use_double_wide_mlp": false,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                    "rope_theta": 1e6},
            },
        },
    });
    published(&config, stored.iter().map(|(name, tensor)| (name, tensor)))
}

/// The assistant as the library opens it, its target, and the recording.
pub struct AssistantCase {
    pub files: HeadFiles,
    pub target_files: TargetFiles,
    shared: SharedTables,
    recorded: Tensors,
    /// Where its files are, if not in the recordings.
    _folder: Option<TempDir>,
}

impl AssistantCase {
    pub fn load() -> Self {
        let target_files = arch("gemma4");
        let shared = SharedTables::of(&load_files(&target_files, CONTEXT, 2));
        let recorded = tensors("drafters2026/gemma4-assistant.safetensors");
        let files = open_head(&assistant_spec()).unwrap();
        Self { files, target_files, shared, recorded, _folder: None }
    }

    /// The same from a folder of safetensors, as assistants are published.
    pub fn published() -> Self {
        let case = Self::load();
        let folder = published_assistant(&case.files);
        let files = open_head(&Spec::Folder(folder.path().to_owned())).unwrap();
        Self { files, _folder: Some(folder), ..case }
    }

    fn weights(&self) -> HeadWeights {
        HeadWeights::load(&self.files.config, self.files.tensors.as_ref()).unwrap()
    }

    fn packed(&self, weights: &HeadWeights, pool: Arc<Pool>) -> AssistantHead {
        let request = HeadRequest::new(weights, &self.shared, pool, CONTEXT).exact();
        let source = self.files.weights.as_deref().map(|source| source as &dyn WeightSource);
        AssistantHead::new(&HeadRequest { source, ..request }).unwrap()
    }

    pub fn head(&self) -> AssistantHead {
        self.packed(&self.weights(), Arc::new(Pool::new(2)))
    }

    /// The target, returning what the assistant reads.
    pub fn target(&self) -> CpuTarget {
        let mut target = load_files(&self.target_files, CONTEXT, 2);
        target.set_features(self.files.config.features(target.config().layers).unwrap());
        target
    }

    /// The assistant as a drafter that drafts ahead, next to `target`.
    pub fn drafter(&self, target: &CpuTarget) -> FeatureHead {
        let weights = self.weights();
        let cores = Arc::new(Pool::borrowing(Arc::clone(target.pool()), 1));
        let head = Box::new(self.packed(&weights, Arc::clone(&cores)));
        let source = weights.config.features(target.config().layers).unwrap();
        let drafter = FeatureHead::new(&weights.config, head, CONTEXT);
        drafter.reading(source).with_cores(cores)
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        floats(&self.recorded[name])
    }

    pub fn tokens(&self, name: &str) -> Vec<u32> {
        self.floats(name).into_iter().map(|token| token as u32).collect()
    }
}
