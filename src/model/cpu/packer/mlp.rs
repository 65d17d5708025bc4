//! Packs the parts of a layer that transform each row alone: MLPs and mixtures of experts. It must
//! not depend on what comes before them in a layer.

use super::Packer;
use crate::model::cpu::layer::{BesideExperts, Dense, Mixture, NormWeights};
use crate::model::weights::{self, WeightError};
use crate::model::{Config, Experts};

impl<M> Packer<'_, M> {
    pub(super) fn dense(
        &mut self,
        config: &Config,
        name: &str,
        [h, width]: [usize; 2],
        bias: bool,
    ) -> Result<Dense<M>, WeightError> {
        let gated = config.block.gated;
        let part = |part: &str| format!("{name}.{part}");
        let inner = config.block.inner_norms;
        let inner = inner.then(|| self.norm(&config.block, &part("ffn_sub_norm"), width));
        Ok(Dense {
            inner_norm: inner.transpose()?,
            gate: gated
                .then(|| self.matrix(&part("gate_proj.weight"), [width, h], None))
                .transpose()?,
            up: self.matrix(&part("up_proj.weight"), [width, h], None)?,
            down: self.matrix(&part("down_proj.weight"), [h, width], None)?,
            gate_bias: self.vector_if(bias && gated, &part("gate_proj.bias"), width)?,
            up_bias: self.vector_if(bias, &part("up_proj.bias"), width)?,
            down_bias: self.vector_if(bias, &part("down_proj.bias"), h)?,
        })
    }

    pub(super) fn mixture(
        &mut self,
        config: &Config,
        layer: usize,
        experts: &Experts,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Mixture<M>, WeightError> {
        let h = config.hidden;
        let count = experts.count;
        let router = self.matrix(&name("mlp.gate.weight"), [count, h], None)?;
        let latent = match experts.latent {
            0 => None,
            width => Some([
                self.matrix(&name("mlp.latent_down.weight"), [width, h], None)?,
                self.matrix(&name("mlp.latent_up.weight"), [h, width], None)?,
            ]),
        };
        let inner = if experts.latent > 0 { experts.latent } else { h };
        let mut all = Vec::with_capacity(count.min(1024));
        for i in 0..count {
            let name = name(&format!("mlp.experts.{i}"));
            all.push(self.dense(config, &name, [inner, experts.intermediate], experts.bias)?);
        }
        let shared = match experts.shared_intermediate {
            0 => None,
            width => Some(self.dense(config, &name("mlp.shared_experts"), [h, width], false)?),
        };
        let gate = name("mlp.shared_expert_gate.weight");
        let shared_gate =
            experts.shared_gate.then(|| self.matrix(&gate, [1, h], None)).transpose()?;
        let beside = experts.beside_mlp.then(|| self.beside(config, layer, name)).transpose()?;
        let selection = name("mlp.gate.e_score_correction_bias");
        Ok(Mixture {
            router,
            router_bias: self.vector_if(experts.bias, &name("mlp.gate.bias"), count)?,
            selection_bias: self.vector_if(experts.selection_bias, &selection, count)?,
            experts: all,
            shared,
            latent,
            shared_gate,
            beside: beside.map(Box::new),
        })
    }

    pub(super) fn beside(
        &mut self,
        config: &Config,
        layer: usize,
        name: &dyn Fn(&str) -> String,
    ) -> Result<BesideExperts<M>, WeightError> {
        let h = config.hidden;
        let norm = |part: &str| self.norm(&config.block, &name(part), h);
        let mut router_norm =
            NormWeights::rms(weights::vector(self.source, &name("router.scale"), h)?);
        for weight in router_norm.weight.iter_mut() {
            *weight /= (h as f32).sqrt();
        }
        Ok(BesideExperts {
            mlp_out_norm: norm("post_feedforward_layernorm_1")?,
            router_norm,
            experts_norm: norm("pre_feedforward_layernorm_2")?,
            experts_out_norm: norm("post_feedforward_layernorm_2")?,
            mlp: self.dense(config, &name("mlp"), [h, config.intermediate_of(layer)], false)?,
        })
    }
}
