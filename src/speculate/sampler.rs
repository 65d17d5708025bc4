//! From logits to the target's token: processors, then one draw a position.

use serde::{Deserialize, Serialize};

/// How the target's token is drawn. Temperature 0 is greedy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplerSettings {
    /// 0 takes the likeliest token.
    pub temperature: f32,
    /// Keep the k likeliest; 0 keeps all.
    pub top_k: usize,
    /// Nucleus mass; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens with at least this share of the likeliest one's probability; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens already used; 1 is none.
    pub repetition_penalty: f32,
    /// Subtracted once from tokens already used.
    pub presence_penalty: f32,
    /// Subtracted for every earlier use.
    pub frequency_penalty: f32,
    /// One seed gives one text.
    pub seed: u64,
}

impl Default for SamplerSettings {
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
        }
    }
}
