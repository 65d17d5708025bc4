//! One decoder block's weights, which a target, a small model and a draft head share, with any type
//! of matrix (by default packed for the CPU). It does not depend on tensor names or passes.

use crate::kernels::{Format, Matrix, Pool, StateWeights, layer_norm, rms_norm};

/// One decoder block.
pub(in crate::model) struct Layer<M = Matrix> {
    /// `None` in the first block of a draft head and in blocks without input norms.
    pub(in crate::model) attention_norm: Option<NormWeights>,
    pub(in crate::model) attention: Option<Attention<M>>,
    /// A recurrent part instead of attention or next to it, from the same norm.
    pub(in crate::model) recurrent: Option<Box<Recurrent<M>>>,
    /// The norm of what attention computes, before `o`.
    pub(in crate::model) attention_inner_norm: Option<NormWeights>,
    pub(in crate::model) o: Option<M>,
    pub(in crate::model) o_bias: Option<Vec<f32>>,
    /// The norm of attention's output, before it is added to the stream.
    pub(in crate::model) attention_out_norm: Option<NormWeights>,
    pub(in crate::model) mlp_norm: Option<NormWeights>,
    pub(in crate::model) mlp: Option<Mlp<M>>,
    /// The norm of the MLP's output, before it is added to the stream.
    pub(in crate::model) mlp_out_norm: Option<NormWeights>,
    /// The sliding window of this layer.
    pub(in crate::model) window: Option<usize>,
    /// Whether a row of a block that is drafted at once sees only the rows before it (DFlash).
    pub(in crate::model) causal: bool,
    /// The index of the layer's [`crate::model::RopeTable`]; `None` if nothing is rotated.
    pub(in crate::model) rope: Option<usize>,
    /// Attention sinks, `[heads]`.
    pub(in crate::model) sinks: Option<Vec<f32>>,
    /// What convolves the input and the output of attention, and those of the MLP (DFlash-2).
    pub(in crate::model) convolutions: Option<Box<[Convolution<M>; 2]>>,
    /// What the layer adds for the token, after the MLP.
    pub(in crate::model) per_layer: Option<Box<PerLayer<M>>>,
    /// The factor of the stream at the end of the layer.
    pub(in crate::model) output_scale: Option<f32>,
}

/// A convolution over the rows of a pass, whose kernel depends on the row: one side for what goes
/// in, one for what comes out.
pub(in crate::model) struct Convolution<M = Matrix> {
    /// How many rows it reads: each row and those before it.
    pub(in crate::model) taps: usize,
    /// The part of the kernel that all rows share, `[2, taps, H]`.
    pub(in crate::model) base: Vec<f32>,
    /// Computes what a row adds to it from its input, `[2 · taps · groups, H]`.
    pub(in crate::model) dynamic: M,
}

/// stream += norm(projection(activation(gate(stream)) · the token's embedding for the layer)).
pub(in crate::model) struct PerLayer<M = Matrix> {
    pub(in crate::model) gate: M,
    pub(in crate::model) projection: M,
    pub(in crate::model) norm: NormWeights,
}

/// The weights that compute queries, keys and values.
pub(in crate::model) enum Attention<M = Matrix> {
    /// With a matrix for each.
    Grouped(Box<GroupedQuery<M>>),
    /// Through latent vectors.
    Latent(Box<Latent<M>>),
}

/// The recurrent part of a layer.
pub(in crate::model) struct Recurrent<M = Matrix> {
    /// The index of its state in a cache, which counts the layers that have one.
    pub(in crate::model) index: usize,
    /// Computes what is convolved, `[channels, H]`.
    pub(in crate::model) input: M,
    /// Computes the gate of the results, `[outputs, H]`.
    pub(in crate::model) gate: M,
    /// DeltaNet: factors and steps, `[heads, H]` each, or both in one. Mamba-2: steps. Short
    /// convolution: what its input is multiplied with, `[channels, H]`.
    pub(in crate::model) factors: Vec<M>,
    pub(in crate::model) states: StateWeights,
    /// A head's decay is the exponential of this times its step, `[heads]`.
    pub(in crate::model) decay: Vec<f32>,
    /// Added to the steps, `[heads]`.
    pub(in crate::model) step_bias: Vec<f32>,
    /// DeltaNet: the norm of each head's result, `[value]`. Mamba-2: the norms of the groups'
    /// results, `[outputs]`, or empty.
    pub(in crate::model) norm: Vec<f32>,
    /// Computes what is added to the stream, `[H, outputs]`.
    pub(in crate::model) out: M,
}

/// Grouped-query attention.
pub(in crate::model) struct GroupedQuery<M = Matrix> {
    /// The layer whose keys and values are read, if not the layer's own.
    pub(in crate::model) kv_layer: Option<usize>,
    /// The width of a query and of a key.
    pub(in crate::model) head_dim: usize,
    pub(in crate::model) q: M,
    /// `None` in a layer that reads the keys and values of another.
    pub(in crate::model) k: Option<M>,
    /// `None` also if the values are the keys before norm and RoPE.
    pub(in crate::model) v: Option<M>,
    /// The norm of each value.
    pub(in crate::model) value_norm: Option<NormWeights>,
    pub(in crate::model) qkv_bias: Option<[Vec<f32>; 3]>,
    /// The norms of q and of k, as wide as a head or as all heads together.
    pub(in crate::model) qk_norm: Option<[NormWeights; 2]>,
}

/// Multi-head latent attention in its absorbed form.
pub(in crate::model) struct Latent<M = Matrix> {
    /// Computes the latent of the queries, and its norm; `None` if queries come from the stream.
    pub(in crate::model) q_a: Option<(M, NormWeights)>,
    /// `[heads · (nope + rope), q_rank or H]`.
    pub(in crate::model) q_b: M,
    /// `[kv_rank + rope, H]`.
    pub(in crate::model) kv_a: M,
    pub(in crate::model) kv_norm: NormWeights,
    /// Projects a head's query to the latent, `[kv_rank, nope]` each.
    pub(in crate::model) k_b: Vec<M>,
    /// Computes a head's value from the latent, `[value, kv_rank]` each.
    pub(in crate::model) v_b: Vec<M>,
}

/// The second half of a block.
pub(in crate::model) enum Mlp<M = Matrix> {
    /// One MLP for all rows.
    Dense(Box<Dense<M>>),
    /// A router and the MLPs that it chooses from.
    Experts(Box<Mixture<M>>),
}

/// down(activation(gate) · up), or down(activation(up)) without a gate.
pub(in crate::model) struct Dense<M = Matrix> {
    pub(in crate::model) gate: Option<M>,
    pub(in crate::model) up: M,
    pub(in crate::model) down: M,
    pub(in crate::model) gate_bias: Option<Vec<f32>>,
    pub(in crate::model) up_bias: Option<Vec<f32>>,
    pub(in crate::model) down_bias: Option<Vec<f32>>,
    /// The norm of the input of `down`.
    pub(in crate::model) inner_norm: Option<NormWeights>,
}

/// A mixture of experts.
pub(in crate::model) struct Mixture<M = Matrix> {
    /// `[E, H]`.
    pub(in crate::model) router: M,
    pub(in crate::model) router_bias: Option<Vec<f32>>,
    /// Added to the scores for the choice only.
    pub(in crate::model) selection_bias: Option<Vec<f32>>,
    pub(in crate::model) experts: Vec<Dense<M>>,
    /// The expert that every row uses.
    pub(in crate::model) shared: Option<Dense<M>>,
    /// The projection of what the experts read, `[latent, H]`, and that of their sum.
    pub(in crate::model) latent: Option<[M; 2]>,
    /// The gate of the shared expert, `[1, H]`.
    pub(in crate::model) shared_gate: Option<M>,
    /// The MLP next to the experts.
    pub(in crate::model) beside: Option<Box<BesideExperts<M>>>,
}

/// An MLP next to a mixture: norm(mlp) + norm(experts(norm(stream))).
pub(in crate::model) struct BesideExperts<M = Matrix> {
    pub(in crate::model) mlp: Dense<M>,
    pub(in crate::model) mlp_out_norm: NormWeights,
    /// The norm of the stream that the router reads.
    pub(in crate::model) router_norm: NormWeights,
    pub(in crate::model) experts_norm: NormWeights,
    pub(in crate::model) experts_out_norm: NormWeights,
}

/// A norm: by the root mean square, or, with a bias, by mean and variance.
pub(in crate::model) struct NormWeights {
    /// As wide as a row; for a norm with a bias, the weights of several rows in turn.
    pub(in crate::model) weight: Vec<f32>,
    pub(in crate::model) bias: Option<Vec<f32>>,
}

impl NormWeights {
    /// By the root mean square.
    pub(in crate::model) fn rms(weight: Vec<f32>) -> Self {
        Self { weight, bias: None }
    }

    /// Writes the norm of each row of `x` to `out`.
    pub(in crate::model) fn apply(&self, pool: &Pool, x: &[f32], eps: f32, out: &mut [f32]) {
        match &self.bias {
            Some(bias) => layer_norm(pool, x, &self.weight, bias, eps, out),
            None => rms_norm(pool, x, &self.weight, eps, out),
        }
    }
}

impl<M> Dense<M> {
    fn matrices(&self) -> impl Iterator<Item = &M> {
        self.gate.iter().chain([&self.up, &self.down])
    }
}

impl<M> Layer<M> {
    /// All its matrices.
    pub(in crate::model) fn matrices(&self) -> Vec<&M> {
        let mut all: Vec<&M> = self.o.iter().collect();
        match &self.attention {
            None => {}
            Some(Attention::Grouped(grouped)) => {
                all.push(&grouped.q);
                all.extend(grouped.k.iter().chain(&grouped.v));
            }
            Some(Attention::Latent(latent)) => {
                all.extend(latent.q_a.iter().map(|(matrix, _)| matrix));
                all.extend([&latent.q_b, &latent.kv_a]);
                all.extend(latent.k_b.iter().chain(&latent.v_b));
            }
        }
        if let Some(recurrent) = &self.recurrent {
            all.extend([&recurrent.input, &recurrent.gate, &recurrent.out]);
            all.extend(&recurrent.factors);
        }
        match &self.mlp {
            None => {}
            Some(Mlp::Dense(dense)) => all.extend(dense.matrices()),
            Some(Mlp::Experts(mixture)) => {
                all.push(&mixture.router);
                all.extend(mixture.latent.iter().flatten());
                all.extend(&mixture.shared_gate);
                let experts = mixture.experts.iter().chain(&mixture.shared);
                let beside = mixture.beside.iter().map(|beside| &beside.mlp);
                all.extend(experts.chain(beside).flat_map(Dense::matrices));
            }
        }
        all.extend(self.convolutions.iter().flat_map(|all| all.iter().map(|own| &own.dynamic)));
        all.extend(self.per_layer.iter().flat_map(|own| [&own.gate, &own.projection]));
        all
    }

    /// The matrix whose format represents the layer: in mixed files, the format of most weights.
    fn typical(&self) -> Option<&M> {
        let of_mlp = match &self.mlp {
            Some(Mlp::Dense(dense)) => Some(&dense.up),
            Some(Mlp::Experts(mixture)) => mixture.experts.first().map(|expert| &expert.up),
            None => None,
        };
        of_mlp.or_else(|| self.matrices().first().copied())
    }
}

/// The format that represents these layers.
pub(in crate::model) fn format_of(layers: &[Layer]) -> Format {
    layers.first().and_then(Layer::typical).map_or(Format::F32, Matrix::format)
}
