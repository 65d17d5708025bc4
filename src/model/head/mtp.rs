//! A head in its target's own file (method.md, MTP heads): a fusion of embedding and hidden row,
//! and one decoder block of the target's kind. It must not depend on passes or on files.

use super::pack::PackedFusion;
use super::{HeadConfig, HeadError, HeadKind, HeadRequest};
use crate::kernels::{Format, Matrix};
use crate::model::cpu::layer::{Layer, NormWeights};
use crate::model::cpu::packer::Packer;
use crate::model::weights::NORM;
use crate::model::{Config, WeightError};

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
    pub fn of_target(body: Config, own: MtpConfig) -> Self {
        Self::of_body(body, HeadKind::Mtp(own))
    }

    /// How many levels it drafts at most, if each takes a block of its own.
    pub fn levels(&self) -> Option<usize> {
        match &self.kind {
            HeadKind::Mtp(own) if own.steps() > 1 => Some(own.steps()),
            _ => None,
        }
    }
}

/// The head of this number, whose tensors `packer` packs: its fusion and its block.
pub(super) fn block_of<M>(
    packer: &mut Packer<'_, M>,
    request: &HeadRequest<'_>,
    own_config: &MtpConfig,
    block: usize,
) -> Result<(PackedFusion<M>, Layer<M>), HeadError> {
    let config = &request.weights.config.body;
    let h = config.hidden;
    let prefix = MtpConfig::prefix(block);
    let own = |part: &str| format!("{prefix}{part}");
    let norm = |packer: &Packer<'_, M>, name: &str| packer.norm(&config.block, name, h);
    let head_norm = own("norm");
    let has_norm = request.tensors()?.tensor(&format!("{head_norm}.weight")).is_some();
    let fusion = MtpFusion {
        before_norm: own_config.before_norm,
        fc: packer.matrix(&own("fc.weight"), [h, 2 * h], None)?,
        embedding_norm: norm(packer, &own("pre_fc_norm_embedding"))?,
        state_norm: norm(packer, &own("pre_fc_norm_hidden"))?,
        norm: norm(packer, if has_norm { &head_norm } else { NORM })?,
    };
    let layer = packer.layer_of(config, 0, h, &|part| own(&format!("layers.0.{part}")))?;
    Ok((PackedFusion::Mtp(Box::new(fusion)), layer))
}

impl From<WeightError> for HeadError {
    fn from(error: WeightError) -> Self {
        match error {
            WeightError::Device { .. } => Self::Device(error.to_string()),
            _ => Self::Weights { problems: vec![error.to_string()] },
        }
    }
}
