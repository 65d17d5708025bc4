//! The code blocks of an answer, for copying. Must never know how they are shown.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// The text of each, in order, without its fences.
pub fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut inside = false;
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                inside = true;
                blocks.push(String::new());
            }
            Event::End(TagEnd::CodeBlock) => inside = false,
            Event::Text(text) if inside => {
                if let Some(block) = blocks.last_mut() {
                    block.push_str(&text);
                }
            }
            _ => {}
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_in_order_without_fences() {
        let text = "Run\n\n```sh\nls *\n\ncd\n```\nor `pwd`\n\n    indented\n\n```\nopen";
        assert_eq!(code_blocks(text), ["ls *\n\ncd\n", "indented\n", "open"]);
    }
}
