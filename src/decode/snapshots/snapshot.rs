//! An engine's text with its KV cache, so that a later run can resume it. It must not depend on
//! files.

use crate::decode::Engine;

/// How many pairs drafters observe at once when a text is resumed.
const PAIRS: usize = 256;

/// A text and what was computed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Its tokens, one per committed position.
    pub tokens: Vec<u32>,
    /// The target's KV rows for them, as [`crate::model::Target::saved_kv`] returns them.
    pub kv: Vec<u8>,
    /// What a draft head read of the target, from position 0 on, `[positions, feature width]`;
    /// empty without such a drafter.
    pub features: Vec<f32>,
}

impl Engine {
    /// From now on, stores what a draft head reads of the target, which [`Self::snapshot`] needs.
    pub fn keep_features(&mut self) {
        self.forget();
        self.observed_features = Some(Vec::new());
    }

    /// The committed text; `None` if there is none, or if its KV rows cannot be read or take more
    /// than `most` bytes.
    pub fn snapshot(&self, most: usize) -> Option<Snapshot> {
        let tokens = self.text.get(..self.target.len())?.to_vec();
        let kv = self.target.saved_kv(most)?;
        let features = self.observed_features.clone().unwrap_or_default();
        Some(Snapshot { tokens, kv, features })
    }

    /// The committed tokens.
    pub fn committed(&self) -> &[u32] {
        &self.text[..self.target.len().min(self.text.len())]
    }

    /// Resumes a text, replacing the current one. Returns `false` if that is not possible; there is
    /// no text then, so the next prompt is read completely. The caller must ensure that the text
    /// belongs to this target.
    pub fn resume(&mut self, snapshot: &Snapshot) -> bool {
        self.forget();
        let count = snapshot.tokens.len();
        let width = self.target.feature_width();
        let reads = self.drafting.features().is_some();
        let rows = snapshot.features.len() / width.max(1);
        // A pair is a position's feature with the token after it.
        let pairs = if reads { rows.min(count.saturating_sub(1)) } else { count.saturating_sub(1) };
        let sound = snapshot.features.len().is_multiple_of(width.max(1))
            && count > 0
            && count <= self.target.capacity()
            && snapshot.tokens.iter().all(|&token| (token as usize) < self.target.vocab());
        if !sound || reads && pairs == 0 || !self.target.restore_kv(count, &snapshot.kv) {
            return false;
        }
        self.text.clone_from(&snapshot.tokens);
        if self.drafting.any() && pairs > 0 {
            for from in (0..pairs).step_by(PAIRS) {
                let to = (from + PAIRS).min(pairs);
                // There may be none if no drafter reads them.
                let features = snapshot.features.get(from * width..to * width).unwrap_or_default();
                self.drafting.observe(features, &snapshot.tokens[from + 1..=to]);
            }
        }
        if reads && let Some(features) = &mut self.observed_features {
            features.extend_from_slice(&snapshot.features[..pairs * width]);
        }
        true
    }
}
