//! The machine's roofline, measured on request: the memory bandwidth and the arithmetic rate that
//! bound every matrix product. It does not depend on formats or models.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::lanes::{self, LANES, Lanes, Work};
use super::pages::{OutOfMemory, Pages};
use super::pool::Pool;

/// The upper bounds for all threads of a pool together.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Roofline {
    /// Bytes read from memory, in 10⁹ per second.
    pub read_gb_s: f64,
    /// 8-bit multiplications and additions from vector registers, as products of a few rows do most
    /// of theirs (as narrow sums), in 10⁹ per second.
    pub int8_gop_s: f64,
}

impl Roofline {
    /// Measures for about half a second.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is not enough memory for a block too large for the caches.
    pub fn measure(pool: &Pool) -> Result<Self, OutOfMemory> {
        Ok(Self { read_gb_s: Self::measure_reading(pool)?, int8_gop_s: multiply(pool) })
    }

    /// Measures [`Roofline::read_gb_s`] only, in half the time.
    ///
    /// # Errors
    /// [`OutOfMemory`] as [`Roofline::measure`].
    pub fn measure_reading(pool: &Pool) -> Result<f64, OutOfMemory> {
        const BYTES: usize = 1 << 29;
        const TASK: usize = 1 << 22;
        let mut block = Pages::zeroed(BYTES)?;
        // The block is written once, because the system maps all untouched pages to one page of
        // zeros.
        pool.chunks(&mut block, TASK, |i, chunk| chunk.fill(i as u8));
        let block = &block;
        Ok(best(BYTES as f64, || {
            pool.run(BYTES / TASK, |i| {
                black_box(lanes::run(pool.isa(), ReadSum(&block[i * TASK..(i + 1) * TASK])));
            });
        }))
    }
}

/// The best rate among as many runs, each of `units` of work, as fit in a tenth of a second (two at
/// least).
fn best(units: f64, run: impl Fn()) -> f64 {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    while runs < 2 || begin.elapsed() < Duration::from_millis(100) {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    units / best / 1e9
}

fn multiply(pool: &Pool) -> f64 {
    const TASKS: usize = 64;
    let operations = TASKS * Dots::ROUNDS * Dots::SUMS * Dots::STEPS * LANES * 4 * 2;
    best(operations as f64, || {
        pool.run(TASKS, |_| lanes::run(pool.isa(), Dots));
    })
}

/// Reads a block as the products read weights: line by line into registers, with prefetches.
struct ReadSum<'a>(&'a [u8]);

impl ReadSum<'_> {
    /// Bytes between the line that is prefetched and the line that is read.
    const PREFETCH: usize = 4 << 10;
    /// Independent sums.
    const SUMS: usize = 4;
}

impl Work for ReadSum<'_> {
    type Output = [f32; LANES];

    #[inline(always)]
    fn run<L: Lanes>(self) -> [f32; LANES] {
        let ones = [1i8; 4];
        let mut sums = [L::splat_i(0); ReadSum::SUMS];
        for lines in self.0.as_chunks::<{ ReadSum::SUMS * 64 }>().0 {
            for (i, sum) in sums.iter_mut().enumerate() {
                let line = lines[64 * i..].as_ptr();
                L::prefetch(line.wrapping_add(ReadSum::PREFETCH));
                // SAFETY: 64 bytes of the block, four activations. The sums may wrap because they
                // are not used.
                *sum = unsafe { L::dot(*sum, L::load_b(line), ones.as_ptr()) };
            }
        }
        let mut out = [0.0; LANES];
        for sum in sums {
            // SAFETY: 16 floats.
            unsafe { L::store(out.as_mut_ptr(), L::float(sum)) };
            black_box(&mut out);
        }
        out
    }
}

/// Dot products of registers.
struct Dots;

impl Dots {
    const SUMS: usize = 12;
    const STEPS: usize = 16;
    const ROUNDS: usize = 256;

    /// `N` independent sums, which hide each other's latency.
    #[inline(always)]
    fn sums<L: Lanes, const N: usize>() {
        let weights = [3u8; 64];
        let x = [1i8; 4 * Dots::STEPS];
        // SAFETY: 64 bytes.
        let w = unsafe { L::load_b(black_box(weights.as_ptr())) };
        let mut sums = [L::splat_i(0); N];
        for _ in 0..Dots::ROUNDS {
            let x = black_box(x.as_ptr());
            for step in 0..Dots::STEPS {
                for sum in &mut sums {
                    // SAFETY: four activations at each step; weights at most 127. The sums may wrap
                    // because they are not used.
                    *sum = unsafe { L::dot_narrow(*sum, w, x.add(4 * step)) };
                }
            }
        }
        let mut out = [0.0; LANES];
        for sum in sums {
            // SAFETY: 16 floats.
            unsafe { L::store(out.as_mut_ptr(), L::float(sum)) };
            black_box(&mut out);
        }
    }
}

impl Work for Dots {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self) {
        if const { L::BLOCKS > 1 } {
            return Self::sums::<L, { Dots::SUMS }>();
        }
        // There are not registers for more at a time.
        Self::sums::<L, { Dots::SUMS / 2 }>();
        Self::sums::<L, { Dots::SUMS / 2 }>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Isa;

    #[test]
    fn every_instruction_set_has_a_rate() {
        for isa in Isa::ALL {
            assert!(multiply(&Pool::with_isa(2, isa)) > 0.01, "{isa:?}");
        }
    }

    #[test]
    fn bandwidth_and_arithmetic_rate_are_measured() {
        let roofline = Roofline::measure(&Pool::new(2)).unwrap();
        assert!(roofline.read_gb_s > 0.1 && roofline.int8_gop_s > 0.1, "{roofline:?}");
    }
}
