//! A training as one file: weights, moments and counters. A training that continues from it makes
//! the same steps, bit for bit, as one that was never interrupted. It must not depend on when it is
//! saved.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::export::head_json;
use super::files::{whole, write_tensors};
use super::net::DraftNet;
use super::optimiser::{AdamW, Moments};
use super::{Options, Result, TrainError};
use crate::files::read_regular;
use crate::model::head::{FusionKind, HeadConfig};

/// The entry of the file's metadata that holds [`CheckpointState`].
const STATE: &str = "dovetail-training";
const WEIGHT: &str = "weight.";
const FIRST: &str = "first.";
const SECOND: &str = "second.";

/// The position of a training. Every random number is a function of the seed and of these numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainPosition {
    /// Steps of the optimiser so far.
    pub steps: u64,
    /// Batches drawn so far.
    pub batches: u64,
    /// Completed passes over the examples.
    pub epoch: u64,
    /// Batches drawn in the current pass.
    pub cursor: usize,
    /// Pairs that went through the head so far.
    pub tokens: u64,
    /// Time spent in steps and in measurements during the training.
    pub seconds: f64,
    /// How many examples and tokens there were, once the first batch has been drawn.
    pub examples: Option<(usize, u64)>,
}

#[derive(Serialize, Deserialize)]
struct CheckpointState {
    options: Options,
    config: Value,
    #[serde(alias = "place")]
    position: TrainPosition,
    optimiser_steps: u64,
}

/// The state of a training.
pub(super) struct Checkpoint {
    pub(super) options: Options,
    pub(super) net: DraftNet,
    pub(super) adam: AdamW,
    pub(super) position: TrainPosition,
}

/// Writes a training to `path`; an existing file is replaced when the new one is complete.
pub(super) fn save(
    path: &Path,
    options: &Options,
    net: &DraftNet,
    adam: &AdamW,
    position: &TrainPosition,
) -> Result<()> {
    let state = CheckpointState {
        options: options.clone(),
        config: head_json(&net.config),
        position: position.clone(),
        optimiser_steps: adam.steps,
    };
    let state = serde_json::to_string(&state).map_err(|error| damaged(path, error))?;
    let mut tensors = HashMap::new();
    for (name, weight) in &net.weights {
        tensors.insert(format!("{WEIGHT}{name}"), weight.as_detached_tensor());
    }
    if let Some((name, tensor)) = net.d2t()? {
        tensors.insert(format!("{WEIGHT}{name}"), tensor);
    }
    for (name, Moments { first, second }) in &adam.moments {
        tensors.insert(format!("{FIRST}{name}"), first.clone());
        tensors.insert(format!("{SECOND}{name}"), second.clone());
    }
    let metadata = HashMap::from([(STATE.to_owned(), state)]);
    whole(path, |file| write_tensors(file, tensors, Some(metadata)))
}

/// Reads what [`save`] wrote.
pub(super) fn load(path: &Path, device: &Device) -> Result<Checkpoint> {
    let bytes = read_regular(path, u64::MAX).map_err(|source| TrainError::read(path, source))?;
    let torn = |error: safetensors::SafeTensorError| damaged(path, error);
    let (_, header) = SafeTensors::read_metadata(&bytes).map_err(torn)?;
    let state = header.metadata().as_ref().and_then(|entries| entries.get(STATE));
    let state = state.ok_or_else(|| damaged(path, "it is not a checkpoint of a training"))?;
    let state: CheckpointState =
        serde_json::from_str(state).map_err(|error| damaged(path, error))?;
    let mut parts: [HashMap<String, Tensor>; 3] = Default::default();
    for (name, view) in SafeTensors::deserialize(&bytes).map_err(torn)?.tensors() {
        for (prefix, part) in [WEIGHT, FIRST, SECOND].into_iter().zip(&mut parts) {
            if let Some(name) = name.strip_prefix(prefix) {
                let dtype = DType::try_from(view.dtype())?;
                let tensor = Tensor::from_raw_buffer(view.data(), dtype, view.shape(), device)?;
                part.insert(name.to_owned(), tensor);
            }
        }
    }
    let [weights, first, mut second] = parts;
    let kind = FusionKind::of(weights.keys().map(String::as_str)).unwrap_or(FusionKind::Eagle);
    let config =
        HeadConfig::from_json(&state.config, kind).map_err(|error| damaged(path, error))?;
    let net = DraftNet::load(config, &weights, device)?;
    let mut moments = BTreeMap::new();
    for (name, first) in first {
        let shape = net.weights.get(&name).map(|weight| weight.dims());
        match second.remove(&name) {
            Some(second) if shape == Some(first.dims()) && shape == Some(second.dims()) => {
                moments.insert(name, Moments { first, second });
            }
            _ => {
                let reason = format!("the moments of `{name}` do not match its weights");
                return Err(damaged(path, reason));
            }
        }
    }
    let adam = AdamW { steps: state.optimiser_steps, moments };
    Ok(Checkpoint { options: state.options, net, adam, position: state.position })
}

fn damaged(path: &Path, reason: impl Display) -> TrainError {
    TrainError::file("use the checkpoint", path, reason, "; start over without --resume")
}
