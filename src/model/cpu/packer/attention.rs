//! Packs the parts of a layer that look back: attention of each kind and recurrent states. It must
//! not depend on what comes after them in a layer.

use super::{Packer, RowOrder};
use crate::kernels::{StateKind, StateWeights};
use crate::model::cpu::layer::{GroupedQuery, Latent, NormWeights, Recurrent};
use crate::model::weights::{self, WeightError};
use crate::model::{Config, LatentAttention, QkNorm, RecurrentLayers};

impl<M> Packer<'_, M> {
    pub(super) fn grouped(
        &mut self,
        config: &Config,
        layer: usize,
        width: usize,
        name: &dyn Fn(&str) -> String,
    ) -> Result<GroupedQuery<M>, WeightError> {
        let block = &config.block;
        let shape = config.kv_shape(layer);
        let d = shape.key_dim;
        let q = config.heads * d;
        let k = shape.keys();
        let local = block.local_heads_of(layer);
        let rotary = local.map_or(config.rotary_dim(), |local| local.rotary_dim);
        let order = RowOrder::of(config, d, 0, rotary);
        let source = self.source;
        let bias = |part: &str, length: usize, order: Option<RowOrder>| {
            let name = name(&format!("self_attn.{part}_proj.bias"));
            let bias = weights::vector(source, &name, length)?;
            Ok(match order {
                Some(order) => (0..length).map(|row| bias[order.stored(row)]).collect(),
                None => bias,
            })
        };
        let norm = |part: &str, width: usize| {
            let name = name(&format!("self_attn.{part}_norm"));
            match config.block.qk_norm {
                QkNorm::PerHead | QkNorm::PerHeadAfterRope => self.norm(&config.block, &name, d),
                QkNorm::OverHeads => self.norm(&config.block, &name, width),
                QkNorm::LayerPerHead => {
                    let weight =
                        weights::floats(source, &format!("{name}.weight"), &[width / d, d])?;
                    Ok(NormWeights { weight, bias: Some(vec![0.0; d]) })
                }
            }
        };
        let has_keys = Packer::has_keys(block, layer);
        let qk_norm = match config.qk_norm {
            true if has_keys => Some([norm("q", q)?, norm("k", k)?]),
            true => Some([norm("q", q)?, NormWeights::rms(Vec::new())]),
            false => None,
        };
        let v = shape.values();
        let qkv_bias = match config.qkv_bias {
            true => Some([bias("q", q, order)?, bias("k", k, order)?, bias("v", v, None)?]),
            false => None,
        };
        // With gates, each head's queries and then its gates.
        let q = if block.output_gate { 2 * q } else { q };
        let q = self.matrix(&name("self_attn.q_proj.weight"), [q, width], order)?;
        let keys =
            has_keys.then(|| self.matrix(&name("self_attn.k_proj.weight"), [k, width], order));
        let k = keys.transpose()?;
        let has_values = Packer::has_values(block, layer);
        let v = has_values.then(|| self.matrix(&name("self_attn.v_proj.weight"), [v, width], None));
        Ok(GroupedQuery {
            kv_layer: (!has_keys).then(|| block.kv_layer(layer)),
            head_dim: d,
            q,
            k,
            v: v.transpose()?,
            value_norm: block.value_norm.then(|| NormWeights::rms(vec![1.0; shape.value_dim])),
            qkv_bias,
            qk_norm,
        })
    }

    pub(super) fn recurrent(
        &mut self,
        config: &Config,
        layer: usize,
        recurrent: &RecurrentLayers,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Recurrent<M>, WeightError> {
        let RecurrentLayers { shape, log_decay, .. } = recurrent;
        let mamba = shape.kind == StateKind::Mamba2;
        let h = config.hidden;
        let part = |part: &str| name(&format!("{}.{part}", recurrent.part()));
        let [input, gate] = recurrent.inputs().map(|part| format!("{part}.weight"));
        let kernel = part(recurrent.kernel());
        let kernel = weights::floats(self.source, &kernel, &[shape.channels, shape.taps])?;
        let taps = (0..shape.taps).flat_map(|tap| kernel.iter().skip(tap).step_by(shape.taps));
        let factors = recurrent
            .factors()
            .into_iter()
            .map(|(name, rows)| self.matrix(&part(&format!("{name}.weight")), [rows, h], None));
        let factors = factors.collect::<Result<_, _>>()?;
        let states = shape.heads > 0;
        let vector_if = |wanted: bool, name: &str, length: usize| {
            let values = self.vector_if(wanted, &part(name), length);
            values.map(Option::unwrap_or_default)
        };
        let mut decay = vector_if(states, "A_log", shape.heads)?;
        if *log_decay {
            for x in &mut decay {
                *x = -libm::expf(*x);
            }
        }
        let norm = if mamba { shape.outputs() } else { shape.value };
        Ok(Recurrent {
            index: (0..layer).filter(|&layer| config.block.recurrent_of(layer).is_some()).count(),
            factors,
            states: StateWeights {
                kernel: taps.copied().collect(),
                bias: vector_if(mamba, "conv1d.bias", shape.channels)?,
                skip: vector_if(mamba, "D", shape.heads)?,
                eps: config.rms_eps,
            },
            decay,
            step_bias: vector_if(states, "dt_bias", shape.heads)?,
            norm: vector_if(states && recurrent.norm, "norm.weight", norm)?,
            input: self.matrix(&part(&input), [shape.channels, h], None)?,
            gate: self.matrix(&part(&gate), [shape.outputs(), h], None)?,
            out: self.matrix(&part("out_proj.weight"), [h, shape.outputs()], None)?,
        })
    }

    pub(super) fn latent(
        &mut self,
        config: &Config,
        latent: &LatentAttention,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Latent<M>, WeightError> {
        let &LatentAttention { q_rank, kv_rank, nope_dim, rope_dim, value_dim } = latent;
        let h = config.hidden;
        let block = &config.block;
        let head = nope_dim + rope_dim;
        let q_a = match q_rank {
            Some(rank) => {
                let matrix = self.matrix(&name("self_attn.q_a_proj.weight"), [rank, h], None)?;
                Some((matrix, self.norm(block, &name("self_attn.q_a_layernorm"), rank)?))
            }
            None => None,
        };
        let (q_name, inputs) = match q_rank {
            Some(rank) => ("self_attn.q_b_proj.weight", rank),
            None => ("self_attn.q_proj.weight", h),
        };
        let order = RowOrder::of(config, head, nope_dim, rope_dim);
        let q_b = self.matrix(&name(q_name), [config.heads * head, inputs], order)?;
        let kv_a = name("self_attn.kv_a_proj_with_mqa.weight");
        let order = RowOrder::of(config, kv_rank + rope_dim, kv_rank, rope_dim);
        let kv_a = self.matrix(&kv_a, [kv_rank + rope_dim, h], order)?;
        let kv_norm = self.norm(block, &name("self_attn.kv_a_layernorm"), kv_rank)?;
        let mut k_b = Vec::with_capacity(config.heads);
        let mut v_b = Vec::with_capacity(config.heads);
        for i in 0..config.heads {
            let part = format!("self_attn.k_b.{i}.weight");
            k_b.push(self.matrix(&name(&part), [kv_rank, nope_dim], None)?);
            let part = format!("self_attn.v_b.{i}.weight");
            v_b.push(self.matrix(&name(&part), [value_dim, kv_rank], None)?);
        }
        Ok(Latent { q_a, q_b, kv_a, kv_norm, k_b, v_b })
    }
}
