//! Tensor types by the numbers of the format.

use crate::kernels::Format;

/// The format of a number, or the name of one that cannot be run.
pub(super) fn format_of(number: u32) -> Result<Format, String> {
    let name = match number {
        0 => return Ok(Format::F32),
        1 => return Ok(Format::F16),
        2 => return Ok(Format::Q4_0),
        8 => return Ok(Format::Q8_0),
        12 => return Ok(Format::Q4K),
        13 => return Ok(Format::Q5K),
        14 => return Ok(Format::Q6K),
        30 => return Ok(Format::BF16),
        3 => "Q4_1",
        6 => "Q5_0",
        7 => "Q5_1",
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        other => return Err(format!("type number {other}")),
    };
    Err(name.to_owned())
}
