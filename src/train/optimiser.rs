//! AdamW (Loshchilov and Hutter 2019) with gradients clipped element by element, and the schedule
//! of the learning rate. It must not depend on the head.

use std::collections::BTreeMap;

use candle_core::{CpuStorage, Device, InplaceOp3, Layout, Result, Tensor, Var, bail};
use rayon::prelude::*;

use super::{Betas, Length, Options};

/// How many numbers of a weight a thread changes at a time.
const AT_ONCE: usize = 1 << 15;

/// First and second moment of a weight's gradient. They must not be cloned: a step on the CPU
/// changes them in place, and candle's tensors share their contents.
#[derive(Debug)]
pub struct Moments {
    /// Mean.
    pub first: Tensor,
    /// Mean of the square.
    pub second: Tensor,
}

/// The optimiser's state; weights are identified by name.
#[derive(Debug, Default)]
pub struct AdamW {
    /// How many steps it has made.
    pub steps: u64,
    /// The moments of every weight that ever had a gradient.
    pub moments: BTreeMap<String, Moments>,
}

impl AdamW {
    /// One step at `rate`, with the betas, ε, decay and clip from `options`. A weight without a
    /// gradient (a block that was not run) keeps its value and its moments.
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
        for (name, gradient) in gradients {
            let Some(weight) = weights.get(name) else { continue };
            // What stays until the next step must not keep this step's graph alive.
            let gradient = gradient.detach();
            if !self.moments.contains_key(name) {
                let first = gradient.zeros_like()?;
                let second = gradient.zeros_like()?;
                self.moments.insert(name.clone(), Moments { first, second });
            }
            let Some(moments) = self.moments.get_mut(name) else { continue };
            let update = Update { steps: self.steps, rate, options };
            if matches!(weight.device(), Device::Cpu) {
                update.in_place(weight, &gradient.contiguous()?, moments)?;
            } else {
                update.composed(weight, &gradient, moments)?;
            }
        }
        Ok(())
    }
}

/// The change of one weight in one step.
struct Update<'a> {
    /// How many steps were made, including this one.
    steps: u64,
    rate: f64,
    options: &'a Options,
}

impl Update<'_> {
    /// Composed of operations that candle has on every device; each of them makes a tensor.
    fn composed(&self, weight: &Var, gradient: &Tensor, moments: &mut Moments) -> Result<()> {
        let Betas { beta1: b1, beta2: b2 } = self.options.betas;
        let clip = self.options.clip as f32;
        let gradient = gradient.clamp(-clip, clip)?;
        let Moments { first, second } = &*moments;
        let first = ((first * b1)? + (&gradient * (1.0 - b1))?)?;
        let second = ((second * b2)? + (gradient.sqr()? * (1.0 - b2))?)?;
        let size = ((&second / self.short(b2))?.sqrt()? + self.options.epsilon)?;
        let update = ((&first / size)? * (self.rate / self.short(b1)))?;
        let kept = (weight.as_tensor() * self.kept())?;
        weight.set(&(kept - update)?)?;
        *moments = Moments { first, second };
        Ok(())
    }

    /// The same in three walks through memory.
    fn in_place(&self, weight: &Var, gradient: &Tensor, moments: &Moments) -> Result<()> {
        let Betas { beta1: b1, beta2: b2 } = self.options.betas;
        let clip = self.options.clip as f32;
        let Moments { first, second } = moments;
        let part = |beta: f64| (beta as f32, (1.0 - beta) as f32);
        let (keep, add) = part(b1);
        first.inplace_op3(
            gradient,
            gradient,
            &EachWeight(|x: &mut f32, g: f32, _| *x = *x * keep + g.clamp(-clip, clip) * add),
        )?;
        let (keep, add) = part(b2);
        second.inplace_op3(
            gradient,
            gradient,
            &EachWeight(|x: &mut f32, g: f32, _| {
                let g = g.clamp(-clip, clip);
                *x = *x * keep + g * g * add;
            }),
        )?;
        let kept = self.kept() as f32;
        let epsilon = self.options.epsilon as f32;
        let rate = (self.rate / self.short(b1)) as f32;
        let short = self.short(b2) as f32;
        weight.inplace_op3(
            first,
            second,
            &EachWeight(|x: &mut f32, first: f32, second: f32| {
                *x = *x * kept - first / ((second / short).sqrt() + epsilon) * rate;
            }),
        )
    }

    /// The factor by which a mean that started at 0 is too small by now.
    fn short(&self, beta: f64) -> f64 {
        1.0 - beta.powf(self.steps as f64)
    }

    /// The fraction of a weight that remains after its decay.
    fn kept(&self) -> f64 {
        1.0 - self.rate * self.options.weight_decay
    }
}

/// Changes every number of a tensor on the CPU, using the numbers at the same place in two others.
struct EachWeight<F>(F);

impl<F: Fn(&mut f32, f32, f32) + Sync> InplaceOp3 for EachWeight<F> {
    fn name(&self) -> &'static str {
        "each-weight"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        at: &Layout,
        y: &CpuStorage,
        y_at: &Layout,
        z: &CpuStorage,
        z_at: &Layout,
    ) -> Result<()> {
        let (CpuStorage::F32(x), Some((from, to))) = (x, at.contiguous_offsets()) else {
            bail!("a weight is not f32 in one piece")
        };
        let y = numbers(y, y_at)?.par_chunks(AT_ONCE);
        let others = y.zip(numbers(z, z_at)?.par_chunks(AT_ONCE));
        x[from..to].par_chunks_mut(AT_ONCE).zip(others).for_each(|(x, (y, z))| {
            for (x, (&y, &z)) in x.iter_mut().zip(y.iter().zip(z)) {
                (self.0)(x, y, z);
            }
        });
        Ok(())
    }
}

fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(all), Some((from, to))) => Ok(&all[from..to]),
        _ => bail!("a gradient is not f32 in one piece"),
    }
}

/// The learning rate of step `step` (starting at 0) at `progress` (0 to 1): a linear rise over the
/// warm-up, then a linear fall to 0 at the end.
pub fn rate(options: &Options, step: u64, progress: f64) -> f64 {
    let rise = if options.warmup == 0 {
        1.0
    } else {
        ((step + 1) as f64 / options.warmup as f64).min(1.0)
    };
    // If a training is counted in minutes, it is not known in advance how much of it the warm-up
    // takes.
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
    fn a_step_is_what_the_formula_says_in_place_and_composed() {
        // More numbers than a thread changes at a time.
        const COUNT: usize = 70_000;
        let wave = |phase: f64| -> Vec<f32> {
            (0..COUNT).map(|i| ((i as f64 * 0.7 + phase).sin()) as f32).collect()
        };
        let tensor = |values| Tensor::from_vec(values, COUNT, &Device::Cpu).unwrap();
        let options = Options { weight_decay: 0.1, ..options() };
        for in_place in [true, false] {
            let weight = Var::from_tensor(&tensor(wave(0.0))).unwrap();
            let zeros = || tensor(vec![0.0; COUNT]);
            let mut moments = Moments { first: zeros(), second: zeros() };
            let mut w: Vec<f64> = wave(0.0).into_iter().map(f64::from).collect();
            let mut m = vec![0.0; COUNT];
            let mut v = vec![0.0; COUNT];
            for steps in 1..=3 {
                let update = Update { steps, rate: 0.01, options: &options };
                let gradient = wave(steps as f64);
                for (i, &g) in gradient.iter().enumerate() {
                    let g = f64::from(g).clamp(-0.5, 0.5);
                    m[i] = 0.9 * m[i] + 0.1 * g;
                    v[i] = 0.95 * v[i] + 0.05 * g * g;
                    let m = m[i] / (1.0 - 0.9f64.powi(steps as i32));
                    let v: f64 = v[i] / (1.0 - 0.95f64.powi(steps as i32));
                    w[i] = w[i] * (1.0 - 0.001) - 0.01 * m / (v.sqrt() + 1e-8);
                }
                match in_place {
                    true => update.in_place(&weight, &tensor(gradient), &moments),
                    false => update.composed(&weight, &tensor(gradient), &mut moments),
                }
                .unwrap();
            }
            for (found, expected) in weight.to_vec1::<f32>().unwrap().iter().zip(&w) {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} {expected}");
            }
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
