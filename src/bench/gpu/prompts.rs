//! How fast a prompt is read where the blocks of the target are, and where they are streamed to the
//! GPU for it. Must never load anything.

use std::time::{Duration, Instant};

use crate::model::{LEAST_PROMPT, MOST_PROMPT_ROWS, Target, TargetError, prompt_tokens_for};
use crate::plan::PrefillForecast;

/// What a prompt may take on the CPU: a slow one gets a shorter prompt.
const LIMIT: Duration = Duration::from_secs(10);
/// Readings, of which the best counts; one at least, further ones as long as this has not passed.
const READINGS: usize = 3;
const ENOUGH: Duration = Duration::from_secs(2);

/// A reading of the prompt, and what was expected of it.
#[derive(Clone, Debug)]
pub struct PromptRun {
    /// Its tokens; 0 where the target could not be loaded.
    pub tokens: usize,
    /// Blocks of the target on the GPU.
    pub layers: usize,
    /// Whether the others are streamed there for the prompt.
    pub streamed: bool,
    /// Tokens a second that were expected; `None` where nothing is said of that.
    pub expected: Option<f64>,
    /// Tokens a second; why not, where it could not be.
    pub found: Result<f64, String>,
}

/// Tokens of the prompt: one slice of the GPU's and what stays on the CPU behind it, or fewer where
/// the CPU takes too long for these or the context has no room.
pub(super) fn tokens(expected: &PrefillForecast, context: usize) -> usize {
    let in_time = (expected.cpu * LIMIT.as_secs_f64()) as usize;
    let fewest = prompt_tokens_for(LEAST_PROMPT);
    let most = prompt_tokens_for(expected.slice);
    in_time.clamp(fewest, most).min(context)
}

/// Tokens a second of reading a prompt of `tokens`. Leaves the target empty.
///
/// # Errors
/// [`TargetError`] of the target.
pub(super) fn rate(target: &mut dyn Target, tokens: usize) -> Result<f64, TargetError> {
    let token = 1.min(target.vocab().saturating_sub(1)) as u32;
    let prompt = vec![token; tokens];
    let began = Instant::now();
    let mut best = f64::INFINITY;
    for reading in 0..READINGS {
        if reading > 0 && began.elapsed() >= ENOUGH {
            break;
        }
        target.truncate(0);
        let start = Instant::now();
        target.begin_prompt(std::slice::from_ref(&(0..tokens)), 0);
        let mut rest = prompt.as_slice();
        while !rest.is_empty() {
            let rows = target.next_rows(MOST_PROMPT_ROWS).min(rest.len());
            target.prefill(&rest[..rows])?;
            rest = &rest[rows..];
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    target.truncate(0);
    Ok(tokens as f64 / best.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_as_long_as_the_time_and_the_context_allow() {
        let expected = |cpu| PrefillForecast { cpu, gpu: 1.0, slice: 512, pays: false };
        assert_eq!(tokens(&expected(1e6), 4096), 528, "a slice and the end that stays here");
        assert_eq!(tokens(&expected(30.0), 4096), 300);
        assert_eq!(tokens(&expected(0.1), 4096), 144, "less would not go to the GPU at all");
        assert_eq!(tokens(&expected(1e6), 200), 200);
    }
}
