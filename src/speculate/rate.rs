//! How often something was right, by counting. It must not depend on what is counted.

/// Counted observations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    right: f32,
    tried: f32,
}

impl Rate {
    /// Counts an observation. After `memory` of them the old ones count half, because the rate
    /// follows the text.
    pub(crate) fn note(&mut self, right: bool, memory: f32) {
        if self.tried >= memory {
            self.right *= 0.5;
            self.tried *= 0.5;
        }
        self.right += f32::from(u8::from(right));
        self.tried += 1.0;
    }

    /// The estimated rate, if `expected` weighs as much as `prior` observations.
    pub(crate) fn estimate(self, prior: f32, expected: f32) -> f32 {
        (self.right + prior * expected) / (self.tried + prior)
    }
}
