//! β, T_c and T_p of the cost model, fitted to measured passes (method.md, Cost model). It must
//! never measure.

use super::cost_inputs::{BETA, Throughput};

/// The steps in which β is tried from 0 to 1.
const STEPS: usize = 100;
/// The weight of β's distance from what is assumed without measurements. It decides only where
/// several β fit equally well: passes that are all bound by reading give β·T_c alone.
const ASSUMED: f64 = 1e-4;

/// T(γ) = max(γ·T_c, T_p) + β·min(γ·T_c, T_p): the time of a pass over γ rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassFit {
    /// T_c of one row, ms: what computing it takes.
    pub row_ms: f64,
    /// T_p, ms: what reading the weights once takes.
    pub read_ms: f64,
    /// β: the fraction of the shorter time that the longer does not hide.
    pub beta: f64,
}

impl PassFit {
    /// The fit with the least relative deviations from passes (γ, ms); `None` if there are none.
    pub fn of(passes: &[(usize, f64)]) -> Option<Self> {
        let mut passes: Vec<_> = passes.iter().copied().filter(|&(_, ms)| ms > 0.0).collect();
        passes.sort_by_key(|&(gamma, _)| gamma);
        let &(gamma, ms) = passes.first()?;
        // What explains a single pass: both take equally long.
        let read_ms = ms / (1.0 + BETA);
        let single = Self { row_ms: read_ms / gamma as f64, read_ms, beta: BETA };
        let betas = (0..=STEPS).map(|step| step as f64 / STEPS as f64);
        // The smaller passes are bound by reading, the larger by computing.
        let cuts = betas.flat_map(|beta| (0..=passes.len()).map(move |bound| (beta, bound)));
        let fits = cuts.filter_map(|(beta, bound)| Self::bound(&passes, beta, bound));
        fits.map(|fit| (fit, fit.badness(&passes)))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map_or(Some(single), |(fit, _)| Some(fit))
    }

    /// Least squares of the relative deviations with this β, if the first `bound` passes are bound
    /// by reading: T_p and T_c are then linear.
    fn bound(passes: &[(usize, f64)], beta: f64, bound: usize) -> Option<Self> {
        let [mut pp, mut pc, mut cc, mut p, mut c] = [0.0; 5];
        for (at, &(gamma, ms)) in passes.iter().enumerate() {
            let rows = gamma as f64;
            let (read, row) = if at < bound { (1.0, beta * rows) } else { (beta, rows) };
            let (read, row) = (read / ms, row / ms);
            pp += read * read;
            pc += read * row;
            cc += row * row;
            p += read;
            c += row;
        }
        let determinant = pp * cc - pc * pc;
        let read_ms = (p * cc - c * pc) / determinant;
        let row_ms = (c * pp - p * pc) / determinant;
        let is_sound = determinant > 1e-9 * pp * cc && read_ms > 0.0 && row_ms > 0.0;
        is_sound.then_some(Self { row_ms, read_ms, beta })
    }

    /// The time of a pass over `gamma` rows, ms.
    pub fn at(&self, gamma: usize) -> f64 {
        let computing = self.row_ms * gamma as f64;
        computing.max(self.read_ms) + self.beta * computing.min(self.read_ms)
    }

    /// By what fractions it deviates from passes.
    fn deviations(&self, passes: &[(usize, f64)]) -> impl Iterator<Item = f64> {
        passes.iter().map(|&(gamma, ms)| (self.at(gamma) / ms - 1.0).abs())
    }

    /// The largest of these.
    pub fn largest_deviation(&self, passes: &[(usize, f64)]) -> f64 {
        self.deviations(passes).fold(0.0, f64::max)
    }

    fn badness(&self, passes: &[(usize, f64)]) -> f64 {
        let squares: f64 = self.deviations(passes).map(|off| off * off).sum();
        squares + ASSUMED * (self.beta - BETA).powi(2)
    }

    /// What a processor does on which passes over so many weights in so many bytes take these
    /// times.
    pub fn throughput(&self, weights: u64, bytes: f64) -> Throughput {
        let per_second = |what: f64, ms: f64| (what * 1e3 / ms).max(1.0);
        Throughput {
            multiply_adds: per_second(weights as f64, self.row_ms),
            bandwidth: per_second(bytes, self.read_ms),
            overhead: 0.0,
            beta: self.beta,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GAMMAS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

    fn passes(of: PassFit) -> Vec<(usize, f64)> {
        GAMMAS.map(|gamma| (gamma, of.at(gamma))).to_vec()
    }

    proptest! {
        #[test]
        fn the_parameters_of_exact_passes_are_found(
            read_ms in 1.0f64..500.0,
            // Passes of both kinds were measured.
            crossing in 3.0f64..24.0,
            beta in 0.05f64..0.95,
        ) {
            let made = PassFit { row_ms: read_ms / crossing, read_ms, beta };
            let found = PassFit::of(&passes(made)).unwrap();
            prop_assert!(found.largest_deviation(&passes(made)) < 0.01, "{found:?} {made:?}");
            prop_assert!((found.beta - beta).abs() < 0.03, "{found:?} {made:?}");
            prop_assert!((found.row_ms / made.row_ms - 1.0).abs() < 0.03, "{found:?} {made:?}");
            prop_assert!((found.read_ms / read_ms - 1.0).abs() < 0.03, "{found:?} {made:?}");
        }
    }

    #[test]
    fn where_passes_do_not_tell_beta_is_as_assumed() {
        for (row_ms, read_ms) in [(0.1, 100.0), (10.0, 0.5)] {
            let made = PassFit { row_ms, read_ms, beta: BETA };
            let found = PassFit::of(&passes(made)).unwrap();
            assert!((found.beta - BETA).abs() < 0.011, "{found:?}");
            assert!(found.largest_deviation(&passes(made)) < 1e-6, "{found:?}");
        }
        let single = PassFit::of(&[(16, 40.0)]).unwrap();
        assert_eq!((single.beta, single.at(16)), (BETA, 40.0));
        assert_eq!(PassFit::of(&[]), None);
    }

    #[test]
    fn a_pass_that_is_off_does_not_bend_the_others() {
        let made = PassFit { row_ms: 6.0, read_ms: 60.0, beta: 0.2 };
        let mut passes = passes(made);
        passes[2].1 *= 1.05;
        let found = PassFit::of(&passes).unwrap();
        assert!((found.beta - 0.2).abs() < 0.1, "{found:?}");
        assert!(
            (found.read_ms - 60.0).abs() < 3.0 && (found.row_ms - 6.0).abs() < 0.3,
            "{found:?}"
        );
    }

    #[test]
    fn the_throughput_gives_the_passes_back() {
        let made = PassFit { row_ms: 6.0, read_ms: 60.0, beta: 0.2 };
        let throughput = made.throughput(3_000_000_000, 1.8e9);
        assert!((throughput.multiply_adds / 5e11 - 1.0).abs() < 1e-9, "{throughput:?}");
        assert!((throughput.bandwidth / 3e10 - 1.0).abs() < 1e-9, "{throughput:?}");
        for gamma in GAMMAS {
            let ms = crate::plan::cost::pass_ms(&throughput, gamma, 3e9, 1.8e9, 0);
            assert!((ms - made.at(gamma)).abs() < 1e-6, "{gamma}: {ms}");
        }
    }
}
