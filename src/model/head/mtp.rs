//! A head in its target's own file (method.md, MTP heads): a fusion of embedding and hidden row,
//! and one decoder block of the target's kind. It must not depend on passes or on files.

use candle_core::{Device, Tensor};

use super::pack::{PackedFusion, encoded, on_cpu};
use super::packed_head::HeadParts;
use super::shared_tables::rows_of;
use super::{DraftPrecision, DraftVocabulary, HeadConfig, HeadError, HeadWeights, SharedTables};
use crate::kernels::{Format, Matrix, Pool};
use crate::model::cpu::layer::NormWeights;
use crate::model::cpu::packer::Packer;
use crate::model::weights::NORM;
use crate::model::{Config, LoadRequest, Narrowed, WeightError};

/// What the names of its tensors begin with; these are Qwen's.
pub const MTP: &str = "mtp.";

/// What a head in its target's file is in addition to its block.
#[derive(Clone, Debug, PartialEq)]
pub struct MtpConfig {
    /// Whether the rows that it reads and hands on are states of the stream before the final norm,
    /// and not the norm's output.
    pub before_norm: bool,
    /// How many such blocks the file has.
    pub blocks: usize,
    /// The format of its largest matrix.
    pub format: Format,
}

impl MtpConfig {
    /// How many of the blocks draft: each one level, or the only one all levels.
    pub fn steps(&self) -> usize {
        // Heads that read the stream before the norm were trained for one step each.
        if self.before_norm { self.blocks.max(1) } else { 1 }
    }

    /// What the names of the tensors of a block begin with.
    pub(crate) fn prefix(block: usize) -> String {
        if block == 0 { MTP.to_owned() } else { format!("{MTP}block.{block}.") }
    }
}

/// What an MTP head has in addition to its block.
pub(super) struct MtpFusion<M = Matrix> {
    pub(super) before_norm: bool,
    /// Reads the normed embedding, then the normed row.
    pub(super) fc: M,
    pub(super) embedding_norm: NormWeights,
    pub(super) state_norm: NormWeights,
    /// The norm before the LM head.
    pub(super) norm: NormWeights,
}

impl HeadConfig {
    /// A head in a target's file; `body` is its block.
    pub fn of_target(body: Config, mtp: MtpConfig) -> Self {
        Self { mtp: Some(mtp), ..Self::of_body(body) }
    }
}

/// Packs the head of this number from the tensors that `request` has.
pub(super) fn parts(
    weights: &HeadWeights,
    request: &LoadRequest<'_>,
    shared: &SharedTables,
    precision: DraftPrecision,
    block: usize,
) -> Result<HeadParts, HeadError> {
    let &LoadRequest { config, source, ref pool, .. } = request;
    let narrowed = Narrowed { source, precision, pool };
    let mut progress = |_| {};
    let packer = &mut Packer::new(&narrowed, pool, 0, &mut progress);
    let [h, vocab] = [config.hidden, config.vocab];
    let prefix = MtpConfig::prefix(block);
    let own = |part: &str| format!("{prefix}{part}");
    let has = |name: &str| source.tensor(name).is_some();
    let norm = |packer: &Packer<'_>, name: &str| packer.norm(&config.block, name, h);
    let head_norm = own("norm");
    let has_norm = has(&format!("{head_norm}.weight"));
    let fusion = MtpFusion {
        before_norm: weights.config.mtp.as_ref().is_some_and(|own| own.before_norm),
        fc: packer.matrix(&own("fc.weight"), [h, 2 * h], None)?,
        embedding_norm: norm(packer, &own("pre_fc_norm_embedding"))?,
        state_norm: norm(packer, &own("pre_fc_norm_hidden"))?,
        norm: norm(packer, if has_norm { &head_norm } else { NORM })?,
    };
    let layer = packer.layer_of(config, 0, &|part| own(&format!("layers.0.{part}")))?;
    let mut table = |part: &str| -> Result<Option<Matrix>, WeightError> {
        let name = own(part);
        has(&name).then(|| packer.matrix(&name, [vocab, h], None)).transpose()
    };
    let embedding = table("embed_tokens.weight")?;
    let mut lm_head = table("lm_head.weight")?;
    let draft_vocab = weights.draft_vocab.clone();
    if let Some(scored) = &draft_vocab {
        let all = lm_head.as_ref().unwrap_or(&shared.lm_head);
        lm_head = Some(scored_rows(all, scored, pool, precision)?);
    }
    let fusion = PackedFusion::Mtp(Box::new(fusion));
    Ok(HeadParts { fusion, layers: vec![layer], embedding, lm_head, draft_vocab })
}

/// The rows of an LM head that score these tokens.
pub(super) fn scored_rows(
    lm_head: &Matrix,
    scored: &DraftVocabulary,
    pool: &Pool,
    precision: DraftPrecision,
) -> Result<Matrix, HeadError> {
    let rows = rows_of(lm_head, scored.tokens());
    let rows = Tensor::from_vec(rows, (scored.len(), lm_head.inputs()), &Device::Cpu)?;
    on_cpu(pool, &encoded(&rows, precision)?)
}

impl From<WeightError> for HeadError {
    fn from(error: WeightError) -> Self {
        Self::Weights { problems: vec![error.to_string()] }
    }
}
