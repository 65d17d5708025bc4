//! The tag of training templates that Jinja does not know.

/// Training templates mark the assistant's text with `{% generation %}`, a tag that Jinja does not
/// know and that writes nothing. It becomes an `if true` with the same whitespace marks.
pub(super) fn without_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        // After the opening: the percent sign in `{%}` cannot count twice.
        let inner = start + 2;
        let Some(length) = rest[inner..].find("%}") else { break };
        let tag = &rest[inner..inner + length];
        let replacement = match tag.trim_matches(['-', '+', ' ', '\t', '\n', '\r']) {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        out += &rest[..inner];
        match replacement {
            Some(replacement) => {
                let mark = |c: Option<char>| c.filter(|c| matches!(c, '-' | '+'));
                out.extend(mark(tag.chars().next()));
                out.extend([" ", replacement, " "]);
                out.extend(mark(tag.chars().last()));
            }
            None => out += tag,
        }
        out += "%}";
        rest = &rest[inner + length + 2..];
    }
    out + rest
}
