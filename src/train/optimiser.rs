//! AdamW (Loshchilov and Hutter 2019) with gradients clipped element by element, and the schedule
//! of the learning rate. Must never know the head.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor, Var};

use super::{Length, Options};

/// First and second moment of a weight's gradient.
#[derive(Clone, Debug)]
pub struct Moments {
    /// Mean.
    pub first: Tensor,
    /// Mean of the square.
    pub second: Tensor,
}

/// The optimiser's state; weights are known by name.
#[derive(Clone, Debug, Default)]
pub struct AdamW {
    /// Steps made.
    pub steps: u64,
    /// Of every weight that ever had a gradient.
    pub moments: BTreeMap<String, Moments>,
}

impl AdamW {
    /// One step at `rate`, by `options`' betas, ε, decay and clip. A weight without a gradient (a
    /// block that was not run) keeps its value and its moments.
    ///
    /// # Errors
    /// If the device fails.
    pub fn step(
        &mut self,
        weights: &BTreeMap<String, Var>,
        gradients: &BTreeMap<String, Tensor>,
        rate: f64,
        options: &Options,
    ) -> Result<()> {
        self.steps += 1;
        let (b1, b2) = options.betas;
        // Both means start at 0 and are too small at first.
        let short = |beta: f64| 1.0 - beta.powf(self.steps as f64);
        let (short_1, short_2) = (short(b1), short(b2));
        for (name, gradient) in gradients {
            let Some(weight) = weights.get(name) else { continue };
            // What is kept until the next step must not keep this step's graph.
            let gradient = gradient.detach().clamp(-options.clip as f32, options.clip as f32)?;
            let (first, second) = match self.moments.get(name) {
                Some(Moments { first, second }) => (first.clone(), second.clone()),
                None => (gradient.zeros_like()?, gradient.zeros_like()?),
            };
            let first = ((first * b1)? + (&gradient * (1.0 - b1))?)?;
            let second = ((second * b2)? + (gradient.sqr()? * (1.0 - b2))?)?;
            let size = ((&second / short_2)?.sqrt()? + options.epsilon)?;
            let update = ((&first / size)? * (rate / short_1))?;
            let kept = (weight.as_tensor() * (1.0 - rate * options.weight_decay))?;
            weight.set(&(kept - update)?)?;
            self.moments.insert(name.clone(), Moments { first, second });
        }
        Ok(())
    }
}

/// The learning rate of step `step` (the first is 0) at `progress` (0 to 1): a linear rise over the
/// warm-up, then a linear fall to 0 at the end.
pub fn rate(options: &Options, step: u64, progress: f64) -> f64 {
    let rise = if options.warmup == 0 {
        1.0
    } else {
        ((step + 1) as f64 / options.warmup as f64).min(1.0)
    };
    // What the warm-up takes of a training counted in minutes is not known beforehand.
    let before = match options.length {
        Length::Steps(steps) => (options.warmup as f64 / steps as f64).min(1.0),
        Length::Minutes(_) => 0.0,
    };
    let fall = if progress <= before { 1.0 } else { (1.0 - progress) / (1.0 - before) };
    options.learning_rate * rise * fall.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn options() -> Options {
        Options { length: Length::Steps(100), warmup: 10, learning_rate: 1.0, ..Options::default() }
    }

    #[test]
    fn the_rate_rises_then_falls_to_zero() {
        let options = options();
        let rates: Vec<f64> =
            (0..100).map(|step| rate(&options, step, step as f64 / 100.0)).collect();
        assert!((rates[0] - 0.1).abs() < 1e-12);
        assert!((rates[9] - 1.0).abs() < 1e-12 && (rates[10] - 1.0).abs() < 1e-12);
        assert!(rates[10..].windows(2).all(|pair| pair[1] < pair[0]));
        assert!((rates[55] - 0.5).abs() < 1e-12 && rates[99] < 0.02);
        assert_eq!(rate(&options, 100, 1.0), 0.0);
        let no_warmup = Options { warmup: 0, length: Length::Minutes(2.0), ..options };
        assert_eq!(rate(&no_warmup, 0, 0.0), 1.0);
        assert_eq!(rate(&no_warmup, 7, 0.75), 0.25);
    }

    #[test]
    fn a_step_is_what_the_formula_says() {
        let weight = Var::new(&[1.0f32, -2.0, 0.5], &Device::Cpu).unwrap();
        let weights = BTreeMap::from([("w".to_owned(), weight)]);
        let options = Options { weight_decay: 0.1, ..options() };
        let mut adam = AdamW::default();
        let (mut w, mut m, mut v) = ([1.0f64, -2.0, 0.5], [0.0f64; 3], [0.0f64; 3]);
        for (t, gradient) in [[0.3f32, -7.0, 0.0], [-0.1, 0.2, 0.0]].iter().enumerate() {
            let tensor = Tensor::new(gradient, &Device::Cpu).unwrap();
            adam.step(&weights, &BTreeMap::from([("w".to_owned(), tensor)]), 0.01, &options)
                .unwrap();
            for i in 0..3 {
                let g = f64::from(gradient[i]).clamp(-0.5, 0.5);
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.95 * v[i] + 0.05 * g * g;
                let (m, v) = (
                    m[i] / (1.0 - 0.9f64.powi(t as i32 + 1)),
                    v[i] / (1.0 - 0.95f64.powi(t as i32 + 1)),
                );
                w[i] = w[i] * (1.0 - 0.001) - 0.01 * m / (v.sqrt() + 1e-8);
            }
        }
        let found = weights["w"].to_vec1::<f32>().unwrap();
        for (found, expected) in found.iter().zip(w) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn a_weight_without_gradient_stays() {
        let weights =
            BTreeMap::from([("w".to_owned(), Var::new(&[1.0f32], &Device::Cpu).unwrap())]);
        AdamW::default().step(&weights, &BTreeMap::new(), 1.0, &options()).unwrap();
        assert_eq!(weights["w"].to_vec1::<f32>().unwrap(), [1.0]);
    }
}
