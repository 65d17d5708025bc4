//! The result of `bench quality`, as a record and as a table. It must not measure.

use serde::Serialize;

use super::QualityMeasurement;
use crate::bench::Table;
use crate::library::TargetFiles;
use crate::model::CpuTarget;

/// How well a model predicted a text.
#[derive(Debug, Serialize)]
pub struct QualityReport {
    #[serde(rename = "type")]
    kind: &'static str,
    target: String,
    detail: String,
    text: String,
    threads: usize,
    isa: &'static str,
    /// Number format of the KV cache.
    kv: &'static str,
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

#[derive(Debug, Serialize)]
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
        let QualityMeasurement { ours, reference } = measured;
        let seconds = ours.time.as_secs_f64();
        Self {
            kind: "quality",
            target: files.name.clone(),
            detail: files.detail.clone(),
            text,
            threads: target.pool().threads(),
            isa: target.pool().isa().name(),
            kv: target.kv_format().name(),
            window,
            tokens: ours.tokens,
            perplexity: ours.perplexity(),
            seconds,
            tokens_s: ours.tokens as f64 / seconds.max(1e-9),
            candle: reference.as_ref().map(|(score, divergence)| Compared {
                perplexity: score.perplexity(),
                seconds: score.time.as_secs_f64(),
                mean_kl: divergence.mean_kl(),
                largest_kl: divergence.largest,
                same_best: divergence.same_best_share(),
            }),
        }
    }

    /// Whether both engines compute the same model: `None` without another engine. Rounding, of
    /// weights or of activations, moves a prediction by much less than this.
    pub fn agrees(&self) -> Option<bool> {
        let compared = self.candle.as_ref()?;
        Some(compared.mean_kl < 0.05 && compared.same_best > 0.9)
    }

    /// The scores as a table.
    pub fn table(&self) -> Table {
        let Self { target, detail, text, threads, isa, kv, window, tokens, .. } = self;
        let plural = if *threads == 1 { "thread" } else { "threads" };
        let mut head = vec!["", "Dovetail"];
        let mut rows = vec![
            vec!["perplexity".to_owned(), format!("{:.3}", self.perplexity)],
            vec!["seconds".to_owned(), format!("{:.2}", self.seconds)],
            vec!["tokens/s".to_owned(), format!("{:.0}", self.tokens_s)],
        ];
        if let Some(candle) = &self.candle {
            head.push("candle");
            rows[0].push(format!("{:.3}", candle.perplexity));
            rows[1].push(format!("{:.2}", candle.seconds));
        }
        let mut table = Table::new(format!("{target}: {detail}; {threads} {plural}, {isa}"), &head)
            .with_rows(rows)
            .with_note(format!(
                "text: {text}, {tokens} tokens scored, in windows of at most {window}; KV cache in \
                 {kv}"
            ));
        if let Some(Compared { mean_kl, largest_kl, same_best, .. }) = self.candle {
            table.notes.push(format!(
                "Compared token by token with candle-transformers' model of the same files: mean \
                 KL {mean_kl:.5} nats per token, at most {largest_kl:.4}; the same likeliest token \
                 for {:.1} %.",
                100.0 * same_best
            ));
        }
        table
    }
}
