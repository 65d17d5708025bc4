//! Tensor types by their numbers in the format. It must not depend on how a type is unpacked.

use crate::kernels::Format;

/// The format with a number, or the name of a type that holds no weights.
pub(super) fn format_of(number: u32) -> Result<Format, String> {
    Format::from_ggml(number).ok_or_else(|| {
        let name = match number {
            9 => "Q8_1",
            15 => "Q8_K",
            24 => "I8",
            25 => "I16",
            26 => "I32",
            27 => "I64",
            28 => "F64",
            other => return format!("type {other}"),
        };
        name.to_owned()
    })
}
