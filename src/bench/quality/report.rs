//! The result of `bench quality`, as lines of text and as JSON. Must never measure.

use std::io::{self, Write};

use serde::Serialize;

use super::QualityMeasurement;
use crate::library::TargetFiles;
use crate::model::CpuTarget;
use crate::printable::json_line;

/// What is printed.
#[derive(Serialize)]
pub(super) struct QualityReport {
    #[serde(rename = "type")]
    kind: &'static str,
    target: String,
    detail: String,
    text: String,
    threads: usize,
    isa: &'static str,
    /// Tokens of a window.
    window: usize,
    /// Tokens scored.
    tokens: usize,
    perplexity: f64,
    seconds: f64,
    tokens_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    candle: Option<Compared>,
}

#[derive(Serialize)]
struct Compared {
    perplexity: f64,
    seconds: f64,
    /// Mean KL(candle ‖ ours) of a token, in nats.
    mean_kl: f64,
    largest_kl: f64,
    /// Share of tokens with the same likeliest token.
    same_best: f64,
}

impl QualityReport {
    pub(super) fn new(
        files: &TargetFiles,
        target: &CpuTarget,
        text: String,
        window: usize,
        measured: &QualityMeasurement,
    ) -> Self {
        let seconds = measured.time.as_secs_f64();
        Self {
            kind: "quality",
            target: files.name.clone(),
            detail: files.detail.clone(),
            text,
            threads: target.pool().threads(),
            isa: target.pool().isa().name(),
            window,
            tokens: measured.ours.tokens,
            perplexity: measured.ours.perplexity(),
            seconds,
            tokens_s: measured.ours.tokens as f64 / seconds.max(1e-9),
            candle: measured.reference.as_ref().map(|other| Compared {
                perplexity: other.score.perplexity(),
                seconds: other.time.as_secs_f64(),
                mean_kl: other.divergence.mean_kl(),
                largest_kl: other.divergence.largest,
                same_best: other.divergence.same_best_share(),
            }),
        }
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(json_line(self)?.as_bytes())
    }

    pub(super) fn lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { target, detail, text, threads, isa, window, tokens, .. } = self;
        let plural = if *threads == 1 { "thread" } else { "threads" };
        writeln!(out, "{target}: {detail}; {threads} {plural}, {isa}")?;
        writeln!(out, "text: {text}, {tokens} tokens scored, in windows of at most {window}\n")?;
        writeln!(out, "perplexity         {:.3}", self.perplexity)?;
        writeln!(out, "time               {:.2} s, {:.0} tokens/s", self.seconds, self.tokens_s)?;
        if let Some(candle) = &self.candle {
            writeln!(
                out,
                "\ncompared token by token with candle-transformers' model of the same \
                           file"
            )?;
            writeln!(out, "its perplexity     {:.3}", candle.perplexity)?;
            writeln!(out, "its time           {:.2} s", candle.seconds)?;
            let (mean, largest) = (candle.mean_kl, candle.largest_kl);
            writeln!(out, "mean KL            {mean:.5} nats per token, at most {largest:.4}")?;
            writeln!(out, "equal best tokens  {:.1} %", 100.0 * candle.same_best)?;
        }
        Ok(())
    }
}
