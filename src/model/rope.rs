//! Rotary positions ("rotate half"): frequencies, their scalings for long contexts, and the angles
//! of a pass's rows. It must not depend on a backend.
//!
//! Powers and logarithms come from the crate `libm`, because system libraries round them
//! differently and texts would then differ between systems. Cosines and sines still come from the
//! system.

use super::ConfigError;

/// How the rotary frequencies are changed for contexts longer than the model was first trained on.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RopeScaling {
    /// They are not changed.
    #[default]
    None,
    /// Positions are divided by `factor`.
    Linear {
        /// By how much the context was stretched.
        factor: f64,
    },
    /// Llama 3: low frequencies are divided by `factor`, high frequencies are kept, and those
    /// between are blended.
    Llama3 {
        /// The divisor of the low frequencies.
        factor: f64,
        /// Wavelengths above `original_positions / low_freq_factor` are low frequencies.
        low_freq_factor: f64,
        /// Wavelengths below `original_positions / high_freq_factor` are high frequencies.
        high_freq_factor: f64,
        /// The context length before stretching.
        original_positions: usize,
    },
    /// A divisor for each frequency, `[rotary_dim / 2]` (the `rope_freqs.weight` of GGUF files).
    Factors(Vec<f32>),
    /// YaRN (Peng et al. 2023): frequencies that turn often are kept, slow ones are divided by
    /// `factor`, with a ramp over the pairs between.
    Yarn {
        /// The divisor of the slow frequencies.
        factor: f64,
        /// The context length before stretching.
        original_positions: usize,
        /// How many turns over the original context a pair must make to be kept.
        beta_fast: f64,
        /// Below how many turns a pair is divided.
        beta_slow: f64,
        /// The factor of cosines and sines.
        attention_factor: f64,
        /// Whether the ramp begins and ends at whole pairs; in gpt-oss it does not.
        whole_pairs: bool,
    },
    /// LongRoPE (Phi-3): one set of divisors by pair for contexts up to `original_positions` and
    /// one for longer contexts, `[rotary_dim / 2]` each. The *configured* context decides, not the
    /// text.
    Long {
        /// Divisors for contexts up to the original length.
        short: Vec<f32>,
        /// Divisors for longer contexts.
        long: Vec<f32>,
        /// The context length before stretching.
        original_positions: usize,
        /// The factor of cosines and sines.
        attention_factor: f64,
    },
}

impl RopeScaling {
    /// Refuses numbers from which no frequencies can be computed.
    pub(super) fn check(&self, head_dim: usize) -> Result<(), ConfigError> {
        let refuse =
            |reason: &str| Err(ConfigError::new("rope_scaling", format!("{self:?}"), reason));
        let positive = |x: f64| x.is_finite() && x > 0.0;
        let divisors = |factors: &[f32]| {
            if factors.len() != head_dim / 2 {
                refuse(&format!("it must have {} numbers, half of head_dim", head_dim / 2))
            } else if factors.iter().all(|&x| positive(f64::from(x))) {
                Ok(())
            } else {
                refuse("all of its numbers must be positive")
            }
        };
        let mut original = 1;
        let numbers = match self {
            Self::None => vec![],
            Self::Linear { factor } if positive(*factor) => vec![],
            Self::Linear { .. } => return refuse("the factor must be a positive number"),
            &Self::Llama3 { factor, low_freq_factor, high_freq_factor, original_positions } => {
                original = original_positions;
                if high_freq_factor <= low_freq_factor {
                    return refuse("high_freq_factor must be above low_freq_factor");
                }
                vec![factor, low_freq_factor, high_freq_factor]
            }
            Self::Factors(factors) => return divisors(factors),
            &Self::Yarn {
                factor,
                original_positions,
                beta_fast,
                beta_slow,
                attention_factor,
                whole_pairs: _,
            } => {
                original = original_positions;
                vec![factor, beta_fast, beta_slow, attention_factor]
            }
            Self::Long { short, long, original_positions, attention_factor } => {
                original = *original_positions;
                divisors(short)?;
                divisors(long)?;
                vec![*attention_factor]
            }
        };
        if original == 0 || !numbers.into_iter().all(positive) {
            return refuse("all of its numbers must be positive");
        }
        Ok(())
    }

    /// The factor of cosines and sines.
    fn attention_factor(&self) -> f32 {
        match self {
            Self::Yarn { attention_factor, .. } | Self::Long { attention_factor, .. } => {
                *attention_factor as f32
            }
            _ => 1.0,
        }
    }
}

/// How a pass rotates heads: the angle per position of each pair of components, and the factor of
/// cosines and sines.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTable {
    /// `[rotary_dim / 2]`.
    pub frequencies: Vec<f32>,
    /// The factor of cosines and sines; 1 except for YaRN and LongRoPE.
    pub scale: f32,
}

impl RopeTable {
    /// The tables of a model that runs with a context of `capacity` positions: the first is for
    /// layers that see everything, the second, if there is one, for layers with a window.
    pub fn of(config: &super::Config, capacity: usize) -> Vec<Self> {
        let dim = config.rotary_dim();
        let scaling = &config.rope_scaling;
        let scale = scaling.attention_factor();
        let scaled = match scaling {
            RopeScaling::Long { short, long, original_positions, .. } => {
                let divisors = if capacity > *original_positions { long } else { short };
                frequencies(dim, config.rope_theta, &RopeScaling::Factors(divisors.clone()))
            }
            other => frequencies(dim, config.rope_theta, other),
        };
        let local_dim = config.block.local_heads.map_or(dim, |local| local.rotary_dim);
        let local = config.block.local_rope_theta.map(|theta| Self {
            frequencies: frequencies(local_dim, theta, &RopeScaling::None),
            scale: 1.0,
        });
        [Self { frequencies: scaled, scale }].into_iter().chain(local).collect()
    }
}

/// YaRN's attention temperature (Peng et al. 2023, section 3.4). DeepSeek puts one `part` of it
/// into cosines and sines and another into the scale of the scores.
pub(super) fn yarn_temperature(factor: f64, part: f64) -> f64 {
    1.0 + 0.1 * part * libm::log(factor.max(1.0))
}

/// The angle per position of each pair of components, `[head_dim / 2]`, with scaling applied. For
/// LongRoPE it uses the divisors of short contexts ([`RopeTable::of`] chooses by context).
pub fn frequencies(head_dim: usize, theta: f64, scaling: &RopeScaling) -> Vec<f32> {
    (0..head_dim / 2)
        .map(|i| {
            let plain = libm::pow(theta, -((2 * i) as f64) / head_dim as f64);
            let scaled = match scaling {
                RopeScaling::None => plain,
                RopeScaling::Linear { factor } => plain / factor,
                RopeScaling::Factors(factors) | RopeScaling::Long { short: factors, .. } => {
                    plain / f64::from(factors[i])
                }
                &RopeScaling::Yarn {
                    factor,
                    original_positions,
                    beta_fast,
                    beta_slow,
                    whole_pairs,
                    ..
                } => {
                    // The pair that makes this many turns over the original context.
                    let pair = |turns: f64| {
                        let positions = original_positions as f64;
                        let stretch = positions / (turns * 2.0 * std::f64::consts::PI);
                        head_dim as f64 * libm::log(stretch) / (2.0 * libm::log(theta))
                    };
                    let mut low = pair(beta_fast);
                    let mut high = pair(beta_slow);
                    if whole_pairs {
                        (low, high) = (low.floor(), high.ceil());
                    }
                    let low = low.max(0.0);
                    let high = high.min(head_dim as f64 - 1.0);
                    let kept = 1.0 - ((i as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                    kept * plain + (1.0 - kept) * plain / factor
                }
                &RopeScaling::Llama3 {
                    factor,
                    low_freq_factor: low,
                    high_freq_factor: high,
                    original_positions,
                } => {
                    // How many turns this pair makes over the original context.
                    let turns = original_positions as f64 * plain / (2.0 * std::f64::consts::PI);
                    // 0 for low frequencies, 1 for high ones.
                    let blend = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    blend * plain + (1.0 - blend) * plain / factor
                }
            };
            scaled as f32
        })
        .collect()
}

/// Cosines and sines of the rows of one pass, shared by all layers and heads.
#[derive(Clone, Debug, Default)]
pub struct Rotations {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rotations {
    /// Makes room for exactly `rows` rows of heads `head_dim` wide.
    pub fn fit(&mut self, rows: usize, head_dim: usize) {
        self.half = head_dim / 2;
        self.cos.resize(rows * self.half, 1.0);
        self.sin.resize(rows * self.half, 0.0);
    }

    /// Sets row `row` to `position`. The angle is rounded to f32, as the reference implementation
    /// does.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn set(&mut self, row: usize, position: usize, table: &RopeTable) {
        let at = row * self.half..(row + 1) * self.half;
        let row = self.cos[at.clone()].iter_mut().zip(&mut self.sin[at]);
        for ((cos, sin), &frequency) in row.zip(&table.frequencies) {
            let (s, c) = (position as f32 * frequency).sin_cos();
            (*sin, *cos) = (s * table.scale, c * table.scale);
        }
    }

    /// Cosines and sines, `[rows, head_dim / 2]` each.
    pub fn rows(&self) -> (&[f32], &[f32]) {
        (&self.cos, &self.sin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Pool, rope};
    use proptest::prelude::*;

    fn turned(head: &[f32], position: usize, scaling: &RopeScaling) -> Vec<f32> {
        let mut rotations = Rotations::default();
        rotations.fit(1, head.len());
        let frequencies = frequencies(head.len(), 10_000.0, scaling);
        rotations.set(0, position, &RopeTable { frequencies, scale: 1.0 });
        let mut head = head.to_vec();
        let (width, (cos, sin)) = (head.len(), rotations.rows());
        rope(&Pool::new(1), &mut head, width, width, cos, sin);
        head
    }

    const LLAMA_3_1: RopeScaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_positions: 8192,
    };

    #[test]
    fn llama_3_keeps_high_frequencies_and_slows_low_ones() {
        let plain = frequencies(128, 500_000.0, &RopeScaling::None);
        let scaled = frequencies(128, 500_000.0, &LLAMA_3_1);
        assert_eq!(plain[0], 1.0);
        assert_eq!(scaled[0], plain[0]);
        let last = plain.len() - 1;
        assert!((scaled[last] * 8.0 / plain[last] - 1.0).abs() < 1e-6);
        // Between these two frequencies the divisor only grows.
        let divisors: Vec<f32> = plain.iter().zip(&scaled).map(|(p, s)| p / s).collect();
        assert!(divisors.windows(2).all(|w| w[1] >= w[0] - 1e-6), "{divisors:?}");
        assert!(divisors.iter().any(|&d| d > 1.5 && d < 7.5));
    }

    #[test]
    fn a_list_of_divisors_does_what_the_rule_behind_it_does() {
        let plain = frequencies(64, 10_000.0, &RopeScaling::None);
        let rule = frequencies(64, 10_000.0, &LLAMA_3_1);
        let divisors = plain.iter().zip(&rule).map(|(p, r)| p / r).collect();
        let listed = frequencies(64, 10_000.0, &RopeScaling::Factors(divisors));
        for (a, b) in rule.iter().zip(listed) {
            assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn linear_scaling_stretches_positions() {
        let head: Vec<f32> = (0..8).map(|i| i as f32 - 3.5).collect();
        let stretched = RopeScaling::Linear { factor: 4.0 };
        assert_eq!(turned(&head, 3, &RopeScaling::None), turned(&head, 12, &stretched));
    }

    proptest! {
        /// The point of RoPE: the product of two rotated heads depends only on their distance.
        #[test]
        fn products_depend_on_distance(
            q in prop::collection::vec(-1.0f32..1.0, 16),
            k in prop::collection::vec(-1.0f32..1.0, 16),
            at in 0usize..200, distance in 0usize..200, shift in 0usize..500,
        ) {
            let product = |from: usize| {
                let q = turned(&q, from + distance, &RopeScaling::None);
                let k = turned(&k, from, &RopeScaling::None);
                q.iter().zip(&k).map(|(a, b)| a * b).sum::<f32>()
            };
            prop_assert!((product(at) - product(at + shift)).abs() < 1e-3);
        }
    }
}
