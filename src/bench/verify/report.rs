//! The result of `bench verify`, as a table and as JSON. Must never measure.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::VerifyOptions;
use crate::kernels::{KvFormat, Roofline};
use crate::model::{CpuTarget, PassTiming};
use crate::printable::json_line;

/// Medians of one γ.
pub(super) struct Medians {
    pub(super) gamma: usize,
    pub(super) whole: Duration,
    pub(super) parts: PassTiming,
    pub(super) candle: Option<Duration>,
}

/// What is printed.
#[derive(Serialize)]
pub(super) struct Report {
    #[serde(rename = "type")]
    kind: &'static str,
    subject: String,
    threads: usize,
    isa: &'static str,
    context: usize,
    kv: &'static str,
    /// Bytes of weights that one pass reads.
    weight_bytes: u64,
    limits: Measured,
    rows: Vec<GammaRow>,
    /// A prompt of one chunk, without `--quick`.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefill_tokens_s: Option<f64>,
}

#[derive(Serialize)]
struct Measured {
    read_gb_s: f64,
    int8_gop_s: f64,
}

#[derive(Serialize)]
struct GammaRow {
    gamma: usize,
    ms: f64,
    /// Time over that of the first γ.
    ratio: f64,
    gb_s: f64,
    gb_s_share: f64,
    gop_s: f64,
    gop_s_share: f64,
    products_ms: f64,
    attention_ms: f64,
    other_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    candle_products_ms: Option<f64>,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Report {
    pub(super) fn new(
        subject: String,
        target: &CpuTarget,
        options: &VerifyOptions,
        roofline: Roofline,
        rows: Vec<Medians>,
        prefill_tokens_s: Option<f64>,
    ) -> Self {
        let bytes = target.pass_bytes();
        let first = rows.first().map_or(Duration::ZERO, |row| row.whole);
        let line = |row: &Medians| {
            let seconds = row.whole.as_secs_f64();
            let gb_s = bytes as f64 / seconds / 1e9;
            // One multiplication and one addition a weight and row.
            let operations = 2.0 * target.config().linear_weights() as f64 * row.gamma as f64;
            let gop_s = operations / seconds / 1e9;
            GammaRow {
                gamma: row.gamma,
                ms: ms(row.whole),
                ratio: seconds / first.as_secs_f64(),
                gb_s,
                gb_s_share: gb_s / roofline.read_gb_s,
                gop_s,
                gop_s_share: gop_s / roofline.int8_gop_s,
                products_ms: ms(row.parts.products),
                attention_ms: ms(row.parts.attention),
                other_ms: ms(row.parts.other),
                candle_products_ms: row.candle.map(ms),
            }
        };
        Self {
            kind: "verify",
            subject,
            threads: target.pool().threads(),
            isa: target.pool().isa().name(),
            context: options.context,
            kv: match target.kv_format() {
                KvFormat::F16 => "f16",
                KvFormat::F32 => "f32",
            },
            weight_bytes: bytes,
            limits: Measured { read_gb_s: roofline.read_gb_s, int8_gop_s: roofline.int8_gop_s },
            rows: rows.iter().map(line).collect(),
            prefill_tokens_s,
        }
    }

    pub(super) fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(json_line(self)?.as_bytes())
    }

    pub(super) fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { subject, threads, isa, context, kv, limits, .. } = self;
        let plural = if *threads == 1 { "thread" } else { "threads" };
        writeln!(out, "{subject}")?;
        writeln!(out, "{threads} {plural}, {isa}; context {context}, KV {kv}")?;
        writeln!(
            out,
            "limits measured in this run: memory read {:.1} GB/s, int8 {:.0} GOP/s",
            limits.read_gb_s, limits.int8_gop_s
        )?;
        let candle = self.rows.iter().any(|row| row.candle_products_ms.is_some());
        write!(
            out,
            "\n  γ        ms   ratio   GB/s  of limit   GOP/s  of limit  products  attention  other"
        )?;
        writeln!(out, "{}", if candle { "  candle's products" } else { "" })?;
        for row in &self.rows {
            write!(
                out,
                "{:>3} {:>9.2} {:>7.2} {:>6.1} {:>8.0}% {:>7.0} {:>8.0}% {:>9.2} {:>10.2} {:>6.2}",
                row.gamma,
                row.ms,
                row.ratio,
                row.gb_s,
                row.gb_s_share * 100.0,
                row.gop_s,
                row.gop_s_share * 100.0,
                row.products_ms,
                row.attention_ms,
                row.other_ms,
            )?;
            match row.candle_products_ms {
                Some(candle) => {
                    writeln!(out, " {candle:>9.2} ({:.2}×)", candle / row.products_ms)?;
                }
                None => writeln!(out)?,
            }
        }
        if let Some(rate) = self.prefill_tokens_s {
            writeln!(out, "\nprefill: {rate:.0} tokens/s")?;
        }
        writeln!(out, "\nMedians of passes run in turn. ratio: time relative to the first γ.")?;
        if candle {
            writeln!(
                out,
                "candle's products: only the linear layers, repeated on some of the layers; in \
                 brackets, their time relative to our products."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(candle: Option<f64>) -> Report {
        let line = |gamma: usize, ms: f64| GammaRow {
            gamma,
            ms,
            ratio: ms / 80.0,
            gb_s: 3800.0 / ms,
            gb_s_share: 3800.0 / ms / 62.5,
            gop_s: 13_215.0 * gamma as f64 / ms,
            gop_s_share: 13_215.0 * gamma as f64 / ms / 930.0,
            products_ms: ms * 0.875,
            attention_ms: ms * 0.0625,
            other_ms: ms * 0.0625,
            candle_products_ms: candle.map(|times| times * ms * 0.875),
        };
        Report {
            kind: "verify",
            subject: "7b shape, Q4_K, random weights".to_owned(),
            threads: 2,
            isa: "avx512",
            context: 256,
            kv: "f16",
            weight_bytes: 3_800_000_000,
            limits: Measured { read_gb_s: 62.5, int8_gop_s: 930.0 },
            rows: vec![line(1, 80.0), line(16, 320.0)],
            prefill_tokens_s: candle.map(|_| 53.0),
        }
    }

    fn table(report: &Report) -> String {
        let mut out = Vec::new();
        report.table(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_without_candle() {
        insta::assert_snapshot!(table(&report(None)));
    }

    #[test]
    fn the_table_with_candle() {
        insta::assert_snapshot!(table(&report(Some(2.5))));
    }

    #[test]
    fn json_is_one_line_with_the_same_figures() {
        let mut out = Vec::new();
        report(None).json(&mut out).unwrap();
        assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), 1);
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["type"], "verify");
        assert_eq!(json["rows"][1]["gamma"], 16);
        assert_eq!(json["rows"][1]["ratio"], 4.0);
        assert_eq!(json["limits"]["read_gb_s"], 62.5);
        assert!(json["rows"][0].get("candle_products_ms").is_none());
    }
}
