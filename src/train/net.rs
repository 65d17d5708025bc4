//! The head as a differentiable function of its weights: it computes the same numbers as
//! [`crate::model::head`], for whole batches of texts and with gradients.

use std::collections::{BTreeMap, HashMap};

use candle_core::{DType, Device, Result, Tensor, Var};

use super::ops::{Products, masked_softmax, rms_norm, rotate, swiglu};
use super::{FirstWeights, TrainError};
use crate::model::head::{DraftVocabulary, HeadConfig, HeadKind, HeadWeights, layout};
use crate::model::{Config, frequencies};
use crate::speculate::Noise;

/// A trainable head: every weight by its published name (method.md, Published files of a head).
#[derive(Debug)]
pub struct DraftNet {
    /// Shape and constants.
    pub config: HeadConfig,
    /// Every weight by its published name.
    pub weights: BTreeMap<String, Var>,
    /// The scored tokens, if not all.
    pub draft_vocab: Option<DraftVocabulary>,
    frequencies: Vec<f32>,
    pub(super) device: Device,
    /// How its matrix products are computed.
    pub(super) products: Products,
}

/// The block of an EAGLE-3 head, by its authors' name.
const MIDLAYER: &str = "midlayer";
/// The map of the draft vocabulary, by its published name.
const D2T: &str = "d2t";

/// What the rows of a pass have seen before: the keys and values of each earlier step, `[batch,
/// kv_heads, rows, d]`, by block. Empty at the first step.
#[derive(Debug, Default)]
pub struct Past {
    blocks: Vec<Vec<(Tensor, Tensor)>>,
}

impl Past {
    /// How many steps there have been.
    fn steps(&self) -> usize {
        self.blocks.first().map_or(0, Vec::len)
    }
}

/// Rotations and masks of one pass over `[batch, rows]`.
struct PassTables {
    batch: usize,
    rows: usize,
    cos: Tensor,
    sin: Tensor,
    /// `[rows, rows + step]`: 0 where a row sees, −∞ elsewhere.
    mask: Tensor,
}

impl DraftNet {
    /// A head with random initial weights drawn from `seed`. It scores the tokens of `draft_vocab`,
    /// or all.
    ///
    /// # Errors
    /// If the device has no room.
    pub fn new(
        mut config: HeadConfig,
        draft_vocab: Option<DraftVocabulary>,
        (first, seed): (FirstWeights, u64),
        device: &Device,
    ) -> Result<Self> {
        config.draft_vocab = draft_vocab.as_ref().map(DraftVocabulary::len);
        let mut shapes = layout(&config);
        if config.kind.eagle3().is_some() {
            // No published head has it.
            shapes.remove("fc.bias");
        }
        let weights = shapes.into_iter().zip(0..).map(|((name, shape), number)| {
            let values = first_weights(first, &name, &shape, Noise::new(seed, number));
            let tensor = Tensor::from_vec(values, shape, device)?;
            Ok((name, Var::from_tensor(&tensor)?))
        });
        let weights = weights.collect::<Result<_>>()?;
        Ok(Self::with(config, draft_vocab, weights, device))
    }

    /// A head with these weights, in f32.
    ///
    /// # Errors
    /// [`TrainError::Head`] if they are not a head of this configuration.
    pub fn load(
        config: HeadConfig,
        tensors: &HashMap<String, Tensor>,
        device: &Device,
    ) -> std::result::Result<Self, TrainError> {
        let head = HeadWeights::load(&config, tensors)?;
        let mut weights = BTreeMap::new();
        for name in layout(&config).into_keys() {
            if let Some(tensor) = tensors.get(&name) {
                let tensor = tensor.to_device(device)?.to_dtype(DType::F32)?;
                weights.insert(name, Var::from_tensor(&tensor)?);
            }
        }
        Ok(Self::with(config, head.draft_vocab, weights, device))
    }

    fn with(
        config: HeadConfig,
        draft_vocab: Option<DraftVocabulary>,
        weights: BTreeMap<String, Var>,
        device: &Device,
    ) -> Self {
        let body = &config.body;
        let frequencies = frequencies(body.head_dim, body.rope_theta, &body.rope_scaling);
        let (device, products) = (device.clone(), Products::default());
        Self { weights, draft_vocab, frequencies, device, products, config }
    }

    /// How many numbers its weights are.
    pub(super) fn parameters(&self) -> u64 {
        self.weights.values().map(|weight| weight.elem_count() as u64).sum()
    }

    /// The draft vocabulary as a tensor with its published name, if there is one.
    pub(super) fn d2t(&self) -> Result<Option<(String, Tensor)>> {
        let Some(tokens) = &self.draft_vocab else { return Ok(None) };
        Ok(Some((D2T.to_owned(), Tensor::new(tokens.offsets(), &Device::Cpu)?)))
    }

    /// What represents the feature of a true pair, `[batch, rows, H]`: `features` themselves, or
    /// the output of `fc` for tapped states.
    ///
    /// # Errors
    /// If the device fails.
    pub fn state(&self, features: &Tensor) -> Result<Tensor> {
        if self.config.kind.eagle3().is_none() {
            return Ok(features.clone());
        }
        let (batch, rows, width) = features.dims3()?;
        let flat = features.reshape((batch * rows, width))?;
        self.products.linear_of(&flat, self.weight("fc.weight")?)?.reshape((batch, rows, ()))
    }

    /// The LM head's input for the last block's output, `[n, H]`.
    ///
    /// # Errors
    /// If the device fails.
    pub fn scored(&self, output: &Tensor) -> Result<Tensor> {
        if self.config.kind.eagle3().is_none() {
            return Ok(output.clone());
        }
        rms_norm(output, self.weight("norm.weight")?, self.config.body.rms_eps)
    }

    /// Its own LM head, `[scored, H]`, if it has one.
    pub fn lm_head(&self) -> Option<&Var> {
        self.weights.get("lm_head.weight")
    }

    /// The outputs of the first `depth` blocks, `[batch · rows, H]` each, for pairs of `features`
    /// ([`Self::state`]) and `embeddings`, both `[batch, rows, H]`.
    ///
    /// With an empty `past` this is the causal pass on the target's features: pair i at RoPE
    /// position i. Called again with the same `past`, it is step s of a draft in every row at once:
    /// row i is the s-th node of a draft that began after the stable row i − s. It sees the first
    /// step's rows up to i − s and, for each later step t, the single row of its own path, i − s +
    /// t; positions stay those of the rows. Rows below s have no draft, and their outputs are
    /// meaningless.
    ///
    /// # Errors
    /// If the device fails.
    pub fn outputs(
        &self,
        features: &Tensor,
        embeddings: &Tensor,
        depth: usize,
        past: &mut Past,
    ) -> Result<Vec<Tensor>> {
        let (batch, rows, hidden) = features.dims3()?;
        past.blocks.resize_with(depth, Vec::new);
        let places = self.places(batch, rows, past.steps())?;
        let flat = (batch * rows, hidden);
        let features = features.reshape(flat)?;
        let embeddings = embeddings.reshape(flat)?;
        // EAGLE-3's attention reads token and state concatenated, and adds only to the state.
        let (mut x, mut attended) = match self.config.kind {
            HeadKind::Eagle3(_) => {
                let joined = self.joined(&features, &embeddings)?;
                (features, Some(joined))
            }
            _ => (self.fuse(&features, &embeddings)?, None),
        };
        let mut outputs = Vec::with_capacity(depth);
        for (block, past) in past.blocks.iter_mut().enumerate() {
            x = self.block(block, &x, attended.take(), &places, past)?;
            outputs.push(x.clone());
        }
        Ok(outputs)
    }

    /// Normed embeddings and states, concatenated, `[n, 2H]` (method.md, EAGLE-3).
    fn joined(&self, states: &Tensor, embeddings: &Tensor) -> Result<Tensor> {
        let norm = |x: &Tensor, name: &str| {
            rms_norm(x, self.weight(&format!("{MIDLAYER}.{name}"))?, self.config.body.rms_eps)
        };
        let embeddings = norm(embeddings, "input_layernorm.weight")?;
        Tensor::cat(&[&embeddings, &norm(states, "hidden_norm.weight")?], 1)
    }

    /// u from features and embeddings, `[n, H]` each (method.md, Draft heads).
    fn fuse(&self, features: &Tensor, embeddings: &Tensor) -> Result<Tensor> {
        match self.config.kind {
            HeadKind::Dgf => {
                let h1 = self.products.matmul(features, self.weight("W_1")?)?;
                let norm = self.weight("input_layernorm.weight")?;
                let normed = rms_norm(embeddings, norm, self.config.body.rms_eps)?;
                let h2 = self.products.matmul(&normed, self.weight("W_2")?)?.silu()?;
                let joined = Tensor::cat(&[&h1, &h2], 1)?;
                let gate = self.products.matmul(&joined, self.weight("W_z")?)?;
                let gate = candle_nn::ops::sigmoid(&gate)?;
                // z ⊙ h1 + (1 − z) ⊙ h2
                &h2 + (gate * (h1 - &h2)?)?
            }
            _ => {
                let joined = Tensor::cat(&[embeddings, features], 1)?;
                let fused = self.products.linear(&joined, self.weight("fc.weight")?)?;
                match self.weights.get("fc.bias") {
                    Some(bias) => fused.broadcast_add(bias),
                    None => Ok(fused),
                }
            }
        }
    }

    fn block(
        &self,
        block: usize,
        x: &Tensor,
        attended: Option<Tensor>,
        places: &PassTables,
        past: &mut Vec<(Tensor, Tensor)>,
    ) -> Result<Tensor> {
        let eps = self.config.body.rms_eps;
        let at = match self.config.kind {
            HeadKind::Eagle3(_) => MIDLAYER.to_owned(),
            _ => format!("layers.{block}"),
        };
        let weight = |part: &str| self.weight(&format!("{at}.{part}.weight"));
        let linear = |x: &Tensor, part: &str| self.products.linear(x, weight(part)?);
        // Block 0 reads the fused input directly (method.md, Draft heads).
        let normed = match (attended, block) {
            (Some(attended), _) => attended,
            (None, 0) => x.clone(),
            (None, _) => rms_norm(x, weight("input_layernorm")?, eps)?,
        };
        let [q, k, v] = ["q", "k", "v"].map(|part| {
            let part = format!("self_attn.{part}_proj");
            let product = linear(&normed, &part)?;
            match self.weights.get(&format!("{at}.{part}.bias")) {
                Some(bias) => product.broadcast_add(bias),
                None => Ok(product),
            }
        });
        let attended = self.attend([q?, k?, v?], places, past)?;
        let x = (x + linear(&attended, "self_attn.o_proj")?)?;
        let normed = rms_norm(&x, weight("post_attention_layernorm")?, eps)?;
        let inner = swiglu(&linear(&normed, "mlp.gate_proj")?, &linear(&normed, "mlp.up_proj")?)?;
        &x + linear(&inner, "mlp.down_proj")?
    }

    /// Attention of `[n, width]` queries over the keys of this step and of the past, `[n, heads ·
    /// d]`.
    fn attend(
        &self,
        [q, k, v]: [Tensor; 3],
        places: &PassTables,
        past: &mut Vec<(Tensor, Tensor)>,
    ) -> Result<Tensor> {
        let Config { heads, kv_heads, head_dim, .. } = self.config.body;
        let &PassTables { batch, rows, ref cos, ref sin, ref mask } = places;
        let group = heads / kv_heads;
        let by_head = |x: &Tensor, heads: usize| {
            x.reshape((batch, rows, heads, head_dim))?.transpose(1, 2)?.contiguous()
        };
        let q = rotate(&by_head(&q, heads)?, cos, sin)?;
        let k = rotate(&by_head(&k, kv_heads)?, cos, sin)?;
        past.push((k, by_head(&v, kv_heads)?));
        let step = past.len() - 1;

        // The query heads of a group are treated as more rows over the same keys.
        let (stable_keys, stable_values) = &past[0];
        let flat = |x: &Tensor| x.reshape((batch * kv_heads, (), head_dim));
        let queries = flat(&q)?;
        let scores = self.products.matmul(&queries, &flat(stable_keys)?.t()?)?;
        let scores = scores.reshape((batch, kv_heads, group, rows, rows))?;
        let grouped = q.reshape((batch, kv_heads, group, rows, head_dim))?;
        let mut columns = vec![scores];
        let mut values = Vec::with_capacity(step);
        for (t, (key, value)) in past.iter().enumerate().skip(1) {
            let key = shifted(key, step - t)?.unsqueeze(2)?;
            columns.push(grouped.broadcast_mul(&key)?.sum_keepdim(4)?);
            values.push(shifted(value, step - t)?.unsqueeze(2)?);
        }
        let scores = if step == 0 { columns.remove(0) } else { Tensor::cat(&columns, 4)? };
        let shares = masked_softmax(&scores, (head_dim as f64).sqrt().recip(), mask)?;

        let on_stable = if step == 0 { shares.clone() } else { shares.narrow(4, 0, rows)? };
        let on_stable = on_stable.reshape((batch * kv_heads, group * rows, rows))?;
        let mixed = self.products.matmul(&on_stable, &flat(stable_values)?)?;
        let mut mixed = mixed.reshape((batch, kv_heads, group, rows, head_dim))?;
        for (t, value) in values.iter().enumerate() {
            let share = shares.narrow(4, rows + t, 1)?;
            mixed = (mixed + share.broadcast_mul(value)?)?;
        }
        let mixed = mixed.reshape((batch, heads, rows, head_dim))?.transpose(1, 2)?;
        mixed.reshape((batch * rows, heads * head_dim))
    }

    fn places(&self, batch: usize, rows: usize, step: usize) -> Result<PassTables> {
        let angles = (0..rows)
            .flat_map(|row| self.frequencies.iter().map(move |frequency| row as f32 * frequency));
        let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
        let put = |values| Tensor::from_vec(values, (rows, self.frequencies.len()), &self.device);
        let mask = (0..rows).flat_map(|row| {
            let stable = (0..rows).map(move |column| column + step <= row);
            stable.chain(std::iter::repeat_n(true, step))
        });
        let mask: Vec<f32> =
            mask.map(|looks| if looks { 0.0 } else { f32::NEG_INFINITY }).collect();
        let mask = Tensor::from_vec(mask, (rows, rows + step), &self.device)?;
        Ok(PassTables { batch, rows, cos: put(cos)?, sin: put(sin)?, mask })
    }

    fn weight(&self, name: &str) -> Result<&Tensor> {
        match self.weights.get(name) {
            Some(var) => Ok(var.as_tensor()),
            None => Err(candle_core::Error::CannotFindTensor { path: name.into() }.bt()),
        }
    }
}

/// `x` `[batch, heads, rows, d]` moved down by `by` rows, with zeros at the front.
fn shifted(x: &Tensor, by: usize) -> Result<Tensor> {
    if by == 0 {
        return Ok(x.clone());
    }
    let (batch, heads, rows, dim) = x.dims4()?;
    let by = by.min(rows);
    let front = Tensor::zeros((batch, heads, by, dim), x.dtype(), x.device())?;
    Tensor::cat(&[&front, &x.narrow(2, 0, rows - by)?], 2)
}

fn first_weights(first: FirstWeights, name: &str, shape: &[usize], noise: Noise) -> Vec<f32> {
    let count: usize = shape.iter().product();
    if name.ends_with("norm.weight") {
        return vec![1.0; count];
    }
    let writes = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
    if writes && first == FirstWeights::ZeroOutputs {
        return vec![0.0; count];
    }
    let bound = match shape {
        // Stored [in, out]: the published trainer's own initialisation.
        [inputs, outputs] if name.starts_with("W_") => (6.0 / (inputs + outputs) as f64).sqrt(),
        [_, inputs] => (*inputs as f64).sqrt().recip(),
        // The bias of `fc`, scaled by the inputs of its weight.
        [outputs] => (2.0 * *outputs as f64).sqrt().recip(),
        _ => 0.0,
    };
    let uniform = |i: usize| (noise.bits(i as u32) >> 11) as f64 / (1u64 << 53) as f64;
    (0..count).map(|i| ((2.0 * uniform(i) - 1.0) * bound) as f32).collect()
}
