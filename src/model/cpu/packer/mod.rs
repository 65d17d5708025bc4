//! Packs a model's tensors, one after the other, into the blocks of a pass: for the CPU, or in the
//! form of another backend. It uses the Hugging Face names of the weights; it does not depend on
//! where they are stored.

use super::layer::{
    Attention, BesideExperts, Dense, GroupedQuery, Latent, Layer, Mixture, Mlp, NormWeights,
    PerLayer, Recurrent,
};
use super::per_layer::UnpackedMatrix;
use crate::kernels::{Matrix, PackError, Pool, StateKind, StateWeights, checked_row};
use crate::model::weights::{self, RawTensor, WeightError, WeightSource, layer_name};
use crate::model::{
    BlockOptions, Config, Experts, LatentAttention, NormKind, QkNorm, RecurrentLayers, RopeLayout,
};

/// How far loading has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Matrices packed.
    pub done: usize,
    /// Matrices in total.
    pub total: usize,
    /// Bytes packed so far.
    pub bytes: u64,
}

/// Packs matrix after matrix and reports each.
pub(in crate::model) struct Packer<'a, M = Matrix> {
    source: &'a dyn WeightSource,
    make: Make<'a, M>,
    progress: &'a mut dyn FnMut(Progress),
    state: Progress,
}

/// A tensor of the checkpoint that is to become a matrix.
pub(in crate::model) struct Unpacked<'a> {
    pub(in crate::model) name: &'a str,
    pub(in crate::model) tensor: &'a RawTensor<'a>,
    /// Rows and columns.
    pub(in crate::model) shape: [usize; 2],
    order: Option<RowOrder>,
}

/// Turns a tensor into a matrix, and returns how many bytes that takes.
type Make<'a, M> = Box<dyn FnMut(&Unpacked<'_>) -> Result<(M, u64), WeightError> + 'a>;

/// Where an interleaved checkpoint stores the rows of q or k. In each head, component (half, i) of
/// the `rotary` components from `first` on is stored as (i, half); the others stay in place.
#[derive(Clone, Copy)]
pub(in crate::model) struct RowOrder {
    head_dim: usize,
    first: usize,
    rotary: usize,
}

impl RowOrder {
    /// `None` if the checkpoint has the rows in their order.
    fn of(config: &Config, head_dim: usize, first: usize, rotary: usize) -> Option<Self> {
        let interleaved = config.rope_layout == RopeLayout::Interleaved;
        interleaved.then_some(Self { head_dim, first, rotary })
    }

    fn stored(self, row: usize) -> usize {
        let Self { head_dim, first, rotary } = self;
        let component = row % head_dim;
        if !(first..first + rotary).contains(&component) {
            return row;
        }
        let component = component - first;
        let half = component / (rotary / 2);
        row / head_dim * head_dim + first + 2 * (component % (rotary / 2)) + half
    }
}

impl<'a> Packer<'a> {
    /// Prepares to pack `total` matrices of `source` for the CPU.
    pub(in crate::model) fn new(
        source: &'a dyn WeightSource,
        pool: &'a Pool,
        total: usize,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        let make = move |unpacked: &Unpacked<'_>| {
            let matrix = pack(source, pool, unpacked)?.scaled(source.scale(unpacked.name));
            let bytes = matrix.bytes() as u64;
            Ok((matrix, bytes))
        };
        Self::making(source, Box::new(make), total, progress)
    }

    /// How many matrices the blocks from `first` on have.
    pub(in crate::model) fn count(config: &Config, blocks: std::ops::Range<usize>) -> usize {
        let block = &config.block;
        let dense = if block.gated { 3 } else { 2 };
        let recurrent = |layer| block.recurrent_of(layer).map_or(0, |all| 3 + all.factors().len());
        let attention = |layer| match &block.latent {
            _ if !block.attends(layer) => 0,
            Some(latent) => 3 + usize::from(latent.q_rank.is_some()) + 2 * config.heads,
            None => {
                let kv = [Self::has_keys(block, layer), Self::has_values(block, layer)];
                2 + kv.into_iter().filter(|&has| has).count()
            }
        };
        let mlp = |layer| match block.experts_of(layer) {
            Some(experts) => {
                let others =
                    usize::from(experts.shared_intermediate > 0) + usize::from(experts.beside_mlp);
                let latent = if experts.latent > 0 { 2 } else { 0 };
                1 + dense * (experts.count + others) + usize::from(experts.shared_gate) + latent
            }
            None if block.has_mlp(layer) => dense,
            None => 0,
        };
        let per_layer = if block.per_layer_dim > 0 { 2 } else { 0 };
        blocks.map(|layer| attention(layer) + recurrent(layer) + mlp(layer) + per_layer).sum()
    }

    /// Whether a layer has a matrix of keys.
    fn has_keys(block: &BlockOptions, layer: usize) -> bool {
        block.latent.is_none() && block.kv_layer(layer) == layer
    }

    /// Whether a layer has a matrix of values.
    fn has_values(block: &BlockOptions, layer: usize) -> bool {
        let are_keys = block.global_values_are_keys && block.window_of(layer).is_none();
        Self::has_keys(block, layer) && !are_keys
    }
}

impl<'a, M> Packer<'a, M> {
    /// Prepares to make `total` matrices from tensors of `source`.
    pub(in crate::model) fn making(
        source: &'a dyn WeightSource,
        make: Make<'a, M>,
        total: usize,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self { source, make, progress, state: Progress { done: 0, total, bytes: 0 } }
    }

    /// The block of this index.
    pub(in crate::model) fn layer(
        &mut self,
        config: &Config,
        layer: usize,
    ) -> Result<Layer<M>, WeightError> {
        self.layer_of(config, layer, &|part| layer_name(layer, part))
    }

    /// The same, whose tensors have other names.
    pub(in crate::model) fn layer_of(
        &mut self,
        config: &Config,
        layer: usize,
        name: &dyn Fn(&str) -> String,
    ) -> Result<Layer<M>, WeightError> {
        let h = config.hidden;
        let block = &config.block;
        let recurrent = match block.recurrent_of(layer) {
            Some(recurrent) => Some(Box::new(self.recurrent(config, layer, recurrent, name)?)),
            None => None,
        };
        let attends = block.attends(layer);
        let value_width = match &block.latent {
            None => config.heads * config.kv_shape(layer).value_dim,
            Some(latent) => config.heads * latent.value_dim,
        };
        let attention = match &block.latent {
            _ if !attends => None,
            None => Some(Attention::Grouped(Box::new(self.grouped(config, layer, name)?))),
            Some(latent) => Some(Attention::Latent(Box::new(self.latent(config, latent, name)?))),
        };
        let o = name("self_attn.o_proj.weight");
        let o = attends.then(|| self.matrix(&o, [h, value_width], None)).transpose()?;
        let window = block.window_of(layer);
        let rope = match window {
            _ if block.no_rope_every > 0 && (layer + 1).is_multiple_of(block.no_rope_every) => None,
            None if !block.global_rope => None,
            Some(_) if block.local_rope_theta.is_some() => Some(1),
            _ => Some(0),
        };
        let norm_if =
            |wanted: bool, part: &str| wanted.then(|| self.norm(block, &name(part), h)).transpose();
        let has_mlp = block.has_mlp(layer);
        let mixes = attends || recurrent.is_some();
        let attention_norm = norm_if(block.input_norms && mixes, "input_layernorm")?;
        let own_norm = block.input_norms && !block.parallel && has_mlp;
        let mlp_norm = if mixes { "post_attention_layernorm" } else { "input_layernorm" };
        let mlp_norm = norm_if(own_norm, mlp_norm)?;
        let attention_out_norm = norm_if(block.output_norms, weights::ATTENTION_OUT_NORM)?;
        let mlp_out_norm = norm_if(block.output_norms, weights::MLP_OUT_NORM)?;
        let inner = name(weights::ATTENTION_INNER_NORM);
        let inner = block.inner_norms.then(|| self.norm(block, &inner, value_width));
        Ok(Layer {
            attention_norm,
            attention,
            recurrent,
            attention_inner_norm: inner.transpose()?,
            o,
            o_bias: self.vector_if(config.o_bias && attends, &name("self_attn.o_proj.bias"), h)?,
            attention_out_norm,
            mlp_norm,
            mlp: match block.experts_of(layer) {
                Some(experts) => {
                    Some(Mlp::Experts(Box::new(self.mixture(config, layer, experts, name)?)))
                }
                None if !has_mlp => None,
                None => {
                    let width = config.intermediate_of(layer);
                    let bias = block.mlp_bias;
                    let widths = [config.hidden, width];
                    Some(Mlp::Dense(Box::new(self.dense(config, &name("mlp"), widths, bias)?)))
                }
            },
            mlp_out_norm,
            window,
            rope,
            sinks: self.vector_if(
                block.sinks && (block.global_sinks || window.is_some()),
                &name("self_attn.sinks"),
                config.heads,
            )?,
            convolutions: None,
            per_layer: match block.per_layer_dim {
                0 => None,
                dim => Some(Box::new(PerLayer {
                    gate: self.matrix(&name("per_layer_input_gate.weight"), [dim, h], None)?,
                    projection: self.matrix(
                        &name("per_layer_projection.weight"),
                        [h, dim],
                        None,
                    )?,
                    norm: self.norm(block, &name("post_per_layer_input_norm"), h)?,
                })),
            },
            output_scale: self
                .vector_if(block.output_scale, &name("layer_scalar"), 1)?
                .and_then(|scale| scale.first().copied()),
        })
    }

    /// A matrix that stays in its file, and the bytes of a row; `None` if the source has no file.
    pub(in crate::model) fn stored(
        &mut self,
        name: &str,
        shape: [usize; 2],
    ) -> Result<Option<UnpackedMatrix>, WeightError> {
        let Some(bytes) = self.source.mapped(name) else { return Ok(None) };
        let tensor = weights::fetch(self.source, name, &shape)?;
        let format = tensor.format;
        let row_bytes = checked_row(format, shape[0], shape[1], (*bytes).as_ref().len())
            .map_err(|error| WeightError::of(self.source, name, format!(": {error}")))?;
        self.state.done += 1;
        (self.progress)(self.state);
        Ok(Some(UnpackedMatrix { bytes, format, row_bytes, scale: self.source.scale(name) }))
    }

    /// A norm of the family's kind.
    pub(in crate::model) fn norm(
        &self,
        block: &BlockOptions,
        name: &str,
        width: usize,
    ) -> Result<NormWeights, WeightError> {
        let mut weight = weights::vector(self.source, &format!("{name}.weight"), width)?;
        for w in weight.iter_mut() {
            *w += block.norm_offset;
        }
        let bias = match block.norm {
            NormKind::Rms => None,
            NormKind::LayerWithoutBias => Some(vec![0.0; width]),
            NormKind::Layer => Some(weights::vector(self.source, &format!("{name}.bias"), width)?),
        };
        Ok(NormWeights { weight, bias })
    }

    fn vector_if(
        &self,
        wanted: bool,
        name: &str,
        length: usize,
    ) -> Result<Option<Vec<f32>>, WeightError> {
        wanted.then(|| weights::vector(self.source, name, length)).transpose()
    }

    fn grouped(
        &mut self,
        config: &Config,
        layer: usize,
        name: &dyn Fn(&str) -> String,
    ) -> Result<GroupedQuery<M>, WeightError> {
        let h = config.hidden;
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
        let q = self.matrix(&name("self_attn.q_proj.weight"), [q, h], order)?;
        let keys = has_keys.then(|| self.matrix(&name("self_attn.k_proj.weight"), [k, h], order));
        let k = keys.transpose()?;
        let has_values = Packer::has_values(block, layer);
        let v = has_values.then(|| self.matrix(&name("self_attn.v_proj.weight"), [v, h], None));
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

    fn recurrent(
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
        let kernel = weights::table(self.source, &kernel, [shape.channels, shape.taps])?;
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

    fn latent(
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

    fn dense(
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

    fn mixture(
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
        let beside = match experts.beside_mlp {
            true => Some(Box::new(self.beside(config, layer, name)?)),
            false => None,
        };
        let selection = name("mlp.gate.e_score_correction_bias");
        Ok(Mixture {
            router,
            router_bias: self.vector_if(experts.bias, &name("mlp.gate.bias"), count)?,
            selection_bias: self.vector_if(experts.selection_bias, &selection, count)?,
            experts: all,
            shared,
            latent,
            shared_gate,
            beside,
        })
    }

    fn beside(
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

    /// Makes a matrix whose rows the checkpoint stores in this order.
    pub(in crate::model) fn matrix(
        &mut self,
        name: &str,
        shape: [usize; 2],
        order: Option<RowOrder>,
    ) -> Result<M, WeightError> {
        let tensor = weights::fetch(self.source, name, &shape)?;
        let unpacked = Unpacked { name, tensor: &tensor, shape, order };
        let (matrix, bytes) = (self.make)(&unpacked)?;
        drop(tensor);
        self.source.release(name);
        self.state.done += 1;
        self.state.bytes += bytes;
        (self.progress)(self.state);
        Ok(matrix)
    }
}

impl Unpacked<'_> {
    /// Appends some of its rows, in the order of the matrix, as they are stored in the file.
    ///
    /// # Errors
    /// [`PackError`] if the tensor has more or fewer bytes than its shape needs.
    pub(in crate::model) fn append_rows(
        &self,
        rows: std::ops::Range<usize>,
        file: &mut Vec<u8>,
    ) -> Result<(), PackError> {
        let bytes = &*self.tensor.bytes;
        let [outputs, inputs] = self.shape;
        let row = checked_row(self.tensor.format, outputs, inputs, bytes.len())?;
        for i in rows {
            let i = self.order.map_or(i, |order| order.stored(i));
            file.extend_from_slice(&bytes[i * row..(i + 1) * row]);
        }
        Ok(())
    }

    /// The error that a device does not accept this tensor.
    pub(in crate::model) fn not_taken(&self, reason: String) -> WeightError {
        WeightError::Device { name: self.name.to_owned(), reason }
    }

    /// The error that this tensor cannot be packed.
    pub(in crate::model) fn refused(
        &self,
        source: &dyn WeightSource,
        error: PackError,
    ) -> WeightError {
        WeightError::of(source, self.name, format!(": {error}"))
    }
}

/// The matrix packed for the CPU, or as an earlier load packed it, if a part of that has the bytes
/// that it gets when it is packed now.
fn pack(
    source: &dyn WeightSource,
    pool: &Pool,
    unpacked: &Unpacked<'_>,
) -> Result<Matrix, WeightError> {
    let &Unpacked { name, tensor, shape: [rows, cols], order } = unpacked;
    let format = tensor.format;
    let bytes = &*tensor.bytes;
    let refused = |error| unpacked.refused(source, error);
    let row = checked_row(format, rows, cols, bytes.len()).map_err(refused)?;
    let at = |i: usize| &bytes[order.map_or(i, |order| order.stored(i)) * row..][..row];
    let store = source.packed();
    if let Some(store) = store
        && let Some(kept) = store.get(name, format, [rows, cols], pool)
    {
        if kept.agrees_with(at) {
            return Ok(kept);
        }
        store.refuse(name);
    }
    let matrix =
        Matrix::pack_rows(format, rows, cols, at, source.repacks(), pool).map_err(refused)?;
    if let Some(store) = store {
        store.put(name, &matrix);
    }
    Ok(matrix)
}
