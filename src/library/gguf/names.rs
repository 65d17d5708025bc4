//! GGUF's tensor names and the Hugging Face names the model asks for.

/// The Hugging Face name of a tensor, or `None` if no Llama-family model has it.
pub(super) fn canonical(name: &str) -> Option<String> {
    let fixed = match name {
        "token_embd.weight" => Some("model.embed_tokens.weight"),
        "output_norm.weight" => Some("model.norm.weight"),
        "output.weight" => Some("lm_head.weight"),
        _ => None,
    };
    if let Some(fixed) = fixed {
        return Some(fixed.to_owned());
    }
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    let layer: u32 = layer.parse().ok()?;
    let (part, kind) = part.split_once('.')?;
    let part = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" => "self_attn.q_norm",
        "attn_k_norm" => "self_attn.k_norm",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    matches!(kind, "weight" | "bias").then(|| format!("model.layers.{layer}.{part}.{kind}"))
}

/// Tensors without a part in the model's products: read elsewhere, or of no use.
pub(super) fn is_aside(name: &str) -> bool {
    name.ends_with(ROPE_FACTORS) || name.ends_with("attn_rot_embd.weight")
}

/// Divisors of the rotary frequencies (Llama 3).
pub(super) const ROPE_FACTORS: &str = "rope_freqs.weight";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_translated() {
        let pairs = [
            ("token_embd.weight", "model.embed_tokens.weight"),
            ("blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"),
            ("blk.31.attn_k.bias", "model.layers.31.self_attn.k_proj.bias"),
            ("blk.7.ffn_norm.weight", "model.layers.7.post_attention_layernorm.weight"),
        ];
        for (gguf, expected) in pairs {
            assert_eq!(canonical(gguf).as_deref(), Some(expected));
        }
        for unknown in ["blk.x.attn_q.weight", "blk.0.ffn_gate_exps.weight", "blk.0.attn_q", "x"] {
            assert_eq!(canonical(unknown), None, "{unknown}");
        }
    }
}
