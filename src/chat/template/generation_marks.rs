//! The tag of training templates that Jinja does not know.

/// Training templates mark the assistant's text with `{% generation %}`, a tag that Jinja does not
/// know and that writes nothing. It becomes an `if true` with the same whitespace marks.
pub(in crate::chat) fn without_generation_marks(source: &str) -> String {
    let mut parts = source.split("{%");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += "{%";
        let tag = part.split_once("%}").map_or("", |(tag, _)| tag);
        match tag.trim_matches(['-', '+', ' ', '\t', '\n', '\r']) {
            "generation" => out += &part.replacen("generation", " if true ", 1),
            "endgeneration" => out += &part.replacen("endgeneration", " endif ", 1),
            _ => out += part,
        }
    }
    out
}
