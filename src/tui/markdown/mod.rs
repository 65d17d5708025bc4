//! Messages as rows of the screen: answers from Markdown, with the origin of every character kept,
//! the user's own as they were typed. Owns parsing, wrapping and their cache; must never know
//! colours.
//!
//! A streaming answer grows at its end, so blocks before the last cannot change any more: their
//! rows are kept, and only the tail is parsed again. So are the complete lines of a fenced block of
//! code that is still open: its first line is then put before the tail.

mod blocks;
mod code;
mod math;
mod table;
mod wrap;

use std::borrow::Cow;

use crate::decode::{BothMinds, Origin};

pub use self::blocks::{Link, code_blocks};
pub use self::wrap::{Logical, wrap};

/// Syntax role of a span of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanRole {
    /// Running text.
    #[default]
    Text,
    Heading,
    /// The text of a link.
    Link,
    /// Code without a closer role.
    Code,
    /// Code: a keyword.
    Keyword,
    /// Code: a string.
    Literal,
    /// Code: a comment.
    Comment,
    /// Code: a number or constant.
    Number,
    /// Bullets, quote bars, rules: decoration that is not part of the text.
    Markup,
}

/// Style of a span of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub role: SpanRole,
    /// `**strong**`.
    pub strong: bool,
    /// `*emphasis*`.
    pub emphasis: bool,
    /// In a block of code.
    pub code: bool,
}

/// A span of one style and one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StyledSpan {
    /// What is drawn.
    pub text: String,
    /// How.
    pub look: Look,
    /// Who put it there; `None` for our own marks and for texts of unknown origin.
    pub origin: Option<Origin>,
    /// The byte of the message at which it begins; `None` for our own marks.
    pub at: Option<usize>,
}

impl StyledSpan {
    /// Running text that is in the message from byte `at` on.
    pub fn plain(text: &str, at: Option<usize>) -> Self {
        Self { text: text.to_string(), look: Look::default(), origin: None, at }
    }

    /// Our own mark.
    fn markup(text: impl Into<String>) -> Self {
        let look = Look { role: SpanRole::Markup, ..Look::default() };
        Self { text: text.into(), look, origin: None, at: None }
    }
}

/// One row of the screen.
pub type TextRow = Vec<StyledSpan>;

/// What a row says.
pub fn text_of(row: &[StyledSpan]) -> String {
    row.iter().map(|span| span.text.as_str()).collect()
}

/// A longer first line of a block of code would cost more to repeat than its lines to parse.
const LONGEST_OPENER: usize = 256;

/// The rows of one growing text, fitted to one width.
#[derive(Clone, Debug, Default)]
pub struct Document {
    width: usize,
    /// Bytes of the text that `rows` shows.
    shown: usize,
    /// Bytes before the tail.
    settled_bytes: usize,
    /// Rows before the tail.
    settled_rows: usize,
    rows: Vec<TextRow>,
    links: Vec<Link>,
    /// The last row of each line with images, and their addresses.
    images: Vec<(usize, Vec<String>)>,
    code: code::Highlighter,
    /// The first line of the block of code whose lines before the tail are settled; else empty.
    opener: String,
}

impl Document {
    /// The rows of `text` at `width`. `text` may only have grown since the last call; a text that
    /// was replaced needs a new document.
    pub fn lay_out(&mut self, text: &str, minds: &BothMinds, width: usize) -> &[TextRow] {
        let width = width.max(1);
        if width != self.width || text.len() < self.shown {
            *self = Self { width, ..Self::default() };
        }
        if text.len() > self.shown {
            self.extend(text, minds);
            self.shown = text.len();
        }
        &self.rows
    }

    /// The rows of `text` as it was typed, whitespace included: nothing in it is markup.
    pub fn lay_out_verbatim(&mut self, text: &str, width: usize) -> &[TextRow] {
        let width = width.max(1);
        if width != self.width || text.len() != self.shown {
            *self = Self { width, shown: text.len(), ..Self::default() };
            let mut at = 0;
            let mut images = blocks::images(text);
            for line in text.split('\n') {
                self.rows.extend(wrap(&StyledSpan::plain(line, Some(at)).into(), width));
                at += line.len() + 1;
                let ended = images.iter().take_while(|(end, _)| *end < at).count();
                if ended > 0 {
                    let places = images.drain(..ended).map(|(_, place)| place).collect();
                    self.images.push((self.rows.len() - 1, places));
                }
            }
        }
        &self.rows
    }

    /// The rows as last laid out.
    pub fn rows(&self) -> &[TextRow] {
        &self.rows
    }

    /// The links as last laid out.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The addresses of the images below row `row`.
    pub fn images(&self, row: usize) -> &[String] {
        let at = self.images.binary_search_by_key(&row, |(row, _)| *row);
        at.map_or(&[], |at| &self.images[at].1)
    }

    fn extend(&mut self, text: &str, minds: &BothMinds) {
        self.rows.truncate(self.settled_rows);
        self.images.retain(|(row, _)| *row < self.settled_rows);
        let settled = self.settled_bytes;
        self.links.retain(|link| link.bytes.start < settled);
        let continues = !self.opener.is_empty();
        let source = match continues {
            true => Cow::Owned(format!("{}{}", self.opener, &text[settled..])),
            false => Cow::Borrowed(&text[settled..]),
        };
        let base = settled - self.opener.len();
        let blocks = blocks::parse(&source, base, continues, minds, self.width, &mut self.code);
        // A block that has just begun may still become part of the one before: `**` is text,
        // `***` on a line of its own a rule, `***a` text again.
        let begun = blocks.last().is_some_and(|block| !source[block.start - base..].contains('\n'));
        let last = blocks.len().saturating_sub(if begun { 2 } else { 1 });
        for (index, block) in blocks.into_iter().enumerate() {
            let is_rest = continues && index == 0;
            if index == last && !is_rest {
                self.opener.clear();
                self.settled_bytes = block.start;
                self.settled_rows = self.rows.len();
            }
            self.links.extend(block.links);
            if !self.rows.is_empty() && !is_rest {
                self.rows.push(TextRow::new());
            }
            let mut complete = self.rows.len();
            for line in block.lines {
                complete = self.rows.len();
                self.rows.extend(wrap(&line, self.width));
                if !line.images.is_empty() {
                    self.images.push((self.rows.len() - 1, line.images));
                }
            }
            if block.open {
                let complete = if source.ends_with('\n') { self.rows.len() } else { complete };
                self.settle_lines(&source, base, block.start, complete);
            }
        }
    }

    /// Settles the complete lines of the open block of code that starts at byte `start` of the text
    /// and ends `source`, and with them the first `rows` rows.
    fn settle_lines(&mut self, source: &str, base: usize, start: usize, rows: usize) {
        let Some(opener) = source[start - base..].split_inclusive('\n').next() else { return };
        let Some(end) = source.rfind('\n').map(|at| at + 1) else { return };
        // Of a line with a carriage return the parser makes two texts; see `Highlighter::line`.
        let begins = end <= start - base + opener.len() || opener.len() > LONGEST_OPENER;
        if begins || source.contains('\r') {
            return;
        }
        if self.code.settle(start, base + end - opener.len()) {
            self.settled_bytes = base + end;
            self.settled_rows = rows;
            self.opener = opener.to_string();
        }
    }
}

#[cfg(test)]
mod tests;
