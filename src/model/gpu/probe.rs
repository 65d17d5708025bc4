//! How long transfers to a device take: how fast bytes get there, and how long an empty answer
//! takes. It must not depend on models.

use std::time::Instant;

use super::device::Gpu;
use super::error::GpuError;
use super::step::PassRecorder;

/// How many bytes are sent to time their transfer.
const SENT: usize = 32 << 20;
/// How many attempts are made; the best one counts.
const TRIES: usize = 3;

impl Gpu {
    /// Bytes per second from main memory to the device: the best of a few transfers of 32 MiB, or
    /// of as much as fits in one buffer.
    ///
    /// # Errors
    /// [`GpuError`] if the device is full, lost or hangs.
    pub(crate) fn measure_transfer(&self) -> Result<f64, GpuError> {
        let bytes = (SENT as u64).min(self.limits.binding) as usize;
        // Its last word comes back when all of it has arrived.
        Ok(bytes as f64 / self.best_trip(bytes, TRIES)?.max(f64::MIN_POSITIVE))
    }

    /// Milliseconds of a submission that only answers, the shortest of a few.
    ///
    /// # Errors
    /// As for [`Self::measure_transfer`].
    pub(crate) fn measure_trip(&self) -> Result<f64, GpuError> {
        Ok(self.best_trip(16, 4 * TRIES)? * 1e3)
    }

    /// Seconds until `bytes` bytes have been sent and the last word has come back.
    fn best_trip(&self, bytes: usize, tries: usize) -> Result<f64, GpuError> {
        let data = vec![1u8; bytes];
        let buffer = self.buffer(bytes as u64)?;
        let mut best = f64::INFINITY;
        for _ in 0..tries {
            let start = Instant::now();
            self.write(&buffer, 0, &data);
            PassRecorder::new(self).submit_and_read(&[(&buffer, bytes / 4 - 1, 1)])?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(best)
    }
}
