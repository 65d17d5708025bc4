//! What the `config.json` of an EAGLE-3 head says beyond the numbers of a Llama block (method.md,
//! EAGLE-3), in the layouts of its authors, SpecForge and speculators. It must not depend on
//! tensors.

use serde_json::{Map, Value};

use super::misfit::Misfit;
use crate::model::ConfigError;
use crate::model::hf_fields::{Fields, whole_number};

/// The field that names the tapped states.
const IDS: &str = "eagle_aux_hidden_state_layer_ids";
/// How many states a head without ids taps.
const DEFAULT_TAPS: usize = 3;

/// The fields that only an EAGLE-3 head has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eagle3Config {
    /// H of the target, which may differ from the head's.
    pub target_hidden: usize,
    /// Which states it taps.
    pub taps: TappedStates,
    /// What is normed before `fc`.
    pub tap_norm: Option<TapNorm>,
    /// Attention adds to the normed state, not to the state itself (`norm_before_residual`).
    pub norm_before_residual: bool,
    /// The next row reads the final norm's output, not its input (`norm_output` of EAGLE-3.1).
    pub norm_output: bool,
}

/// Which states of the target a head taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TappedStates {
    /// The states in the authors' code: 2, N/2 and N − 3 of N layers.
    Default,
    /// States by their own numbers.
    Entering(Vec<usize>),
    /// The outputs of these layers: state i + 1 for layer i.
    OutputOf(Vec<usize>),
}

/// A norm of the tapped states before `fc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapNorm {
    /// One for each state (`fc_norm`).
    Each,
    /// One norm over all of them concatenated (`norm_before_fc`).
    Joined,
}

impl Eagle3Config {
    /// Reads it, and returns what remains: the Llama configuration of its only block, with
    /// `draft_vocab_size`.
    ///
    /// # Errors
    /// [`ConfigError`] for what is malformed or not supported.
    pub(super) fn from_json(json: &Value) -> Result<(Self, Value), ConfigError> {
        let nested = json.get("transformer_layer_config").and_then(Value::as_object);
        let speculators = nested.is_some();
        let mut body = match nested {
            Some(fields) => fields.clone(),
            None => json.as_object().cloned().unwrap_or_default(),
        };
        if let Some(count) = json.get("draft_vocab_size") {
            body.insert("draft_vocab_size".to_owned(), count.clone());
        }
        refuse_variants(json, &body)?;
        let fields = Fields(json);
        let flag = |name: &'static str, absent: bool| -> Result<bool, ConfigError> {
            Ok(fields.flag(name)?.unwrap_or(absent))
        };
        let tap_norm = match (flag("fc_norm", false)?, flag("norm_before_fc", false)?) {
            (true, true) => {
                let reason = "a head can have `fc_norm` or `norm_before_fc`, but not both";
                return Err(ConfigError::new("fc_norm", true, reason));
            }
            (true, false) => Some(TapNorm::Each),
            (false, true) => Some(TapNorm::Joined),
            (false, false) => None,
        };
        // The block's own reader reports a size that is missing.
        let own = body.get("hidden_size").and_then(Value::as_u64).unwrap_or(0) as usize;
        let target_hidden = fields.optional_size("target_hidden_size")?.unwrap_or(own);
        let eagle3 = Self {
            target_hidden,
            taps: TappedStates::from_json(json, speculators)?,
            tap_norm,
            // The trainer of this format writes it, and its reader assumes it.
            norm_before_residual: flag("norm_before_residual", speculators)?,
            norm_output: flag("norm_output", false)?,
        };
        Ok((eagle3, Value::Object(body)))
    }

    /// A configuration that taps these states of a target `target_hidden` wide, without the other
    /// options.
    pub(crate) fn tapping(target_hidden: usize, taps: TappedStates) -> Self {
        Self {
            target_hidden,
            taps,
            tap_norm: None,
            norm_before_residual: false,
            norm_output: false,
        }
    }

    /// How many states it taps.
    pub(crate) fn tap_count(&self) -> usize {
        match &self.taps {
            TappedStates::Default => DEFAULT_TAPS,
            TappedStates::Entering(ids) | TappedStates::OutputOf(ids) => ids.len(),
        }
    }

    /// How many numbers the feature of a position has: the inputs of `fc`.
    pub fn feature_width(&self) -> usize {
        self.tap_count() * self.target_hidden
    }

    /// How many numbers of a feature are normed together, if they are normed.
    pub(crate) fn normed_together(&self) -> usize {
        match self.tap_norm {
            Some(TapNorm::Joined) => self.feature_width(),
            Some(TapNorm::Each) | None => self.target_hidden,
        }
    }

    /// The states that it taps of a target with `layers` layers, ascending. State i enters layer i.
    ///
    /// # Errors
    /// [`Misfit`] if the target has no such states.
    pub fn states(&self, layers: usize) -> Result<Vec<usize>, Misfit> {
        let states: Vec<usize> = match &self.taps {
            // As in the authors' code; with fewer than seven layers two of them would be the same
            // state.
            TappedStates::Default if layers < 7 => return Err(Misfit::FewLayers { layers }),
            TappedStates::Default => vec![2, layers / 2, layers - 3],
            TappedStates::Entering(ids) => ids.clone(),
            TappedStates::OutputOf(ids) => ids.iter().map(|id| id + 1).collect(),
        };
        match states.last() {
            Some(&last) if last > layers => Err(Misfit::NoSuchState { state: last, layers }),
            _ => Ok(states),
        }
    }
}

impl TappedStates {
    /// The taps of a new head for a target of `layers` layers: the authors' states, or, if the
    /// target is too shallow for these, a low, a middle and the last state, as far as they differ.
    /// No such list begins with 1, which would be read as the number of a layer.
    pub(crate) fn of_new(layers: usize) -> Self {
        if layers >= 7 {
            return Self::Default;
        }
        let low = if layers >= 4 { 2 } else { 0 };
        let mut ids = vec![low, (low + layers) / 2, layers];
        ids.dedup();
        Self::Entering(ids)
    }

    /// What `config.json` says about them; `None` if it need not say anything.
    pub(crate) fn to_json(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Default => None,
            Self::Entering(ids) | Self::OutputOf(ids) => Some((IDS, ids.clone().into())),
        }
    }

    /// Two conventions share one field. For speculators and vLLM the numbers are states. For
    /// SpecForge, SGLang and the heads made with them they are layers whose outputs are tapped;
    /// their usual first number is 1, which no head uses for a state.
    pub(super) fn from_json(json: &Value, speculators: bool) -> Result<Self, ConfigError> {
        let inner = json.get("eagle_config").and_then(|config| config.get(IDS));
        let given = json.get(IDS).filter(|value| !value.is_null()).or(inner);
        let Some(value) = given.filter(|value| !value.is_null()) else { return Ok(Self::Default) };
        let reason = "it must be a list of layers in rising order";
        let list = value.as_array().ok_or_else(|| ConfigError::new(IDS, value, reason))?;
        let natural = |id: &Value| whole_number(IDS, id);
        let ids: Vec<usize> = list.iter().map(natural).collect::<Result<_, _>>()?;
        if ids.is_empty() || !ids.is_sorted_by(|a, b| a < b) {
            return Err(ConfigError::new(IDS, value, reason));
        }
        let outputs = !speculators && ids.first() == Some(&1);
        Ok(if outputs { Self::OutputOf(ids) } else { Self::Entering(ids) })
    }
}

/// Refuses fields that turn it into another kind of head.
fn refuse_variants(json: &Value, body: &Map<String, Value>) -> Result<(), ConfigError> {
    let layers = body.get("num_hidden_layers");
    if let Some(count) = layers.filter(|count| count.as_u64() != Some(1)) {
        let reason = "only EAGLE-3 heads with one layer are supported; use one of these";
        return Err(ConfigError::new("num_hidden_layers", count, reason));
    }
    let taps = json.get("eagle_config").and_then(|config| config.get("use_aux_hidden_state"));
    if let Some(taps @ Value::Bool(false)) = taps {
        let reason = "heads that read no hidden states of the target are not supported; use one \
            that does";
        return Err(ConfigError::new("use_aux_hidden_state", taps, reason));
    }
    for field in ["kv_lora_rank", "mask_token_id", "ptd_token_id"] {
        if let Some(value) = body.get(field).or(json.get(field)).filter(|value| !value.is_null()) {
            let reason = "heads with latent attention or parallel drafting are not supported";
            return Err(ConfigError::new(field, value, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taps(json: &Value) -> TappedStates {
        Eagle3Config::from_json(json).unwrap().0.taps
    }

    #[test]
    fn the_authors_layers_are_tapped_where_none_are_named() {
        let (eagle3, _) = Eagle3Config::from_json(&json!({"hidden_size": 64})).unwrap();
        for (layers, states) in [(8, [2, 4, 5]), (28, [2, 14, 25]), (32, [2, 16, 29])] {
            assert_eq!(eagle3.states(layers).unwrap(), states);
        }
        assert_eq!(eagle3.states(7).unwrap(), [2, 3, 4]);
        assert_eq!(eagle3.states(6), Err(Misfit::FewLayers { layers: 6 }));
        assert_eq!((eagle3.tap_count(), eagle3.feature_width()), (3, 192));
    }

    #[test]
    fn a_new_head_taps_what_its_file_says_of_it() {
        for layers in 1..12 {
            let taps = TappedStates::of_new(layers);
            let mut config = json!({"hidden_size": 64});
            if let Some((field, ids)) = taps.to_json() {
                config[field] = ids;
            }
            let (read, _) = Eagle3Config::from_json(&config).unwrap();
            assert_eq!(read.taps, taps);
            let states = read.states(layers).unwrap();
            assert_eq!(states.len(), if layers == 1 { 2 } else { 3 }, "{states:?} of {layers}");
            assert!(states.is_sorted_by(|a, b| a < b) && states[states.len() - 1] <= layers);
        }
    }

    #[test]
    fn both_conventions_of_one_field_are_told_apart() {
        let ids = |ids: Value| json!({"hidden_size": 64, IDS: ids});
        assert_eq!(taps(&ids(json!([2, 4, 5]))), TappedStates::Entering(vec![2, 4, 5]));
        assert_eq!(taps(&ids(json!([1, 3, 4]))), TappedStates::OutputOf(vec![1, 3, 4]));
        let sglang = json!({"hidden_size": 64, "eagle_config": {IDS: [1, 46, 90]}});
        let (eagle3, _) = Eagle3Config::from_json(&sglang).unwrap();
        assert_eq!(eagle3.states(94).unwrap(), [2, 47, 91]);
        assert_eq!(eagle3.states(90), Err(Misfit::NoSuchState { state: 91, layers: 90 }));
        let container = json!({IDS: [1, 3, 5], "transformer_layer_config": {"hidden_size": 64}});
        assert_eq!(taps(&container), TappedStates::Entering(vec![1, 3, 5]));
    }

    #[test]
    fn the_residual_is_normed_where_the_container_is_speculators() {
        let of = |json: Value| Eagle3Config::from_json(&json).unwrap().0;
        let nested = json!({"hidden_size": 64});
        assert!(of(json!({"transformer_layer_config": nested})).norm_before_residual);
        let told = json!({"transformer_layer_config": nested, "norm_before_residual": false});
        assert!(!of(told).norm_before_residual);
        assert!(!of(nested).norm_before_residual);
        assert_eq!(of(json!({"hidden_size": 8, "target_hidden_size": 64})).target_hidden, 64);
    }

    #[test]
    fn other_kinds_of_heads_are_refused_by_field() {
        for (changes, field) in [
            (json!({"num_hidden_layers": 4}), "num_hidden_layers"),
            (json!({"eagle_config": {"use_aux_hidden_state": false}}), "use_aux_hidden_state"),
            (json!({"kv_lora_rank": 512}), "kv_lora_rank"),
            (json!({"mask_token_id": 7}), "mask_token_id"),
            (json!({"fc_norm": true, "norm_before_fc": true}), "fc_norm"),
            (json!({"fc_norm": 1}), "fc_norm"),
            (json!({"target_hidden_size": -1}), "target_hidden_size"),
            (json!({IDS: [2, 2, 5]}), IDS),
            (json!({IDS: [5, 2]}), IDS),
            (json!({IDS: []}), IDS),
            (json!({IDS: "all"}), IDS),
            (json!({IDS: [2, "x"]}), IDS),
        ] {
            assert_eq!(Eagle3Config::from_json(&changes).unwrap_err().field, field, "{changes}");
        }
    }
}
