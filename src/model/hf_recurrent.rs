//! The recurrent layers of each family, according to the fields of its `config.json`. It must not
//! depend on names of tensors.

use serde_json::Value;

use super::hf_families::Family;
use super::hf_fields::Fields;
use super::{ConfigError, RecurrentLayers};
use crate::kernels::{RecurrentShape, StateKind};

impl Family {
    /// The layers of gated DeltaNet.
    pub(super) fn gated_delta(self, fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
        let every = fields.optional_size("full_attention_interval")?.unwrap_or(4);
        let key_heads = fields.size("linear_num_key_heads")?;
        let heads = fields.size("linear_num_value_heads")?;
        let key = fields.size("linear_key_head_dim")?;
        let value = fields.size("linear_value_head_dim")?;
        let keys = key_heads.saturating_mul(key).saturating_mul(2);
        let shape = RecurrentShape {
            taps: fields.optional_size("linear_conv_kernel_dim")?.unwrap_or(4),
            channels: keys.saturating_add(heads.saturating_mul(value)),
            kind: StateKind::Delta,
            heads,
            key_heads,
            key,
            value,
            tiled: false,
        };
        let attends = |layer: usize| every > 0 && (layer + 1).is_multiple_of(every);
        let layers = recurrent_layers(fields, attends)?;
        Ok(RecurrentLayers {
            layers,
            beside_attention: false,
            norm: true,
            shape,
            log_decay: true,
            fused_gates: self == Self::Qwen3Next,
        })
    }

    /// The layers of Mamba-2.
    pub(super) fn mamba2(self, fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
        let heads = fields.size("mamba_n_heads")?;
        let key_heads = fields.size("mamba_n_groups")?;
        let key = fields.size("mamba_d_state")?;
        let inner = fields.size("mamba_d_ssm")?;
        let shape = RecurrentShape {
            taps: fields.size("mamba_d_conv")?,
            channels: inner.saturating_add(key_heads.saturating_mul(key).saturating_mul(2)),
            kind: StateKind::Mamba2,
            heads,
            key_heads,
            key,
            value: inner.checked_div(heads).unwrap_or(0),
            tiled: false,
        };
        Ok(RecurrentLayers {
            layers: recurrent_layers(fields, |_| false)?,
            beside_attention: self == Self::FalconH1,
            norm: fields.flag("mamba_rms_norm")?.unwrap_or(true),
            shape,
            log_decay: false,
            fused_gates: false,
        })
    }
}

/// For each layer whether it is recurrent: as `layer_types` says, otherwise if it is not one that
/// `attends`.
fn recurrent_layers(
    fields: &Fields<'_>,
    attends: impl Fn(usize) -> bool,
) -> Result<Vec<bool>, ConfigError> {
    if let Some(kinds) = fields.get("layer_types").and_then(Value::as_array) {
        let without = |kind: &Value| matches!(kind.as_str(), Some("full_attention" | "mlp"));
        return Ok(kinds.iter().map(|kind| !without(kind)).collect());
    }
    // The check of the configuration refuses a wrong count later.
    let layers = fields.size("num_hidden_layers")?.min(1 << 12);
    Ok((0..layers).map(|layer| !attends(layer)).collect())
}

/// The gated short convolutions of LFM2.
pub(super) fn short_convolutions(fields: &Fields<'_>) -> Result<RecurrentLayers, ConfigError> {
    let shape = RecurrentShape {
        taps: fields.optional_size("conv_L_cache")?.unwrap_or(3),
        channels: fields.size("hidden_size")?,
        kind: StateKind::Delta,
        heads: 0,
        key_heads: 0,
        key: 0,
        value: 0,
        tiled: false,
    };
    let attending = fields.get("full_attn_idxs").and_then(Value::as_array);
    let attends = |layer: usize| attending.is_none_or(|list| list.contains(&layer.into()));
    let layers = recurrent_layers(fields, attends)?;
    Ok(RecurrentLayers {
        layers,
        beside_attention: false,
        norm: false,
        shape,
        log_decay: false,
        fused_gates: false,
    })
}
