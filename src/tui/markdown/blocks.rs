//! Markdown to logical lines, one group a top-level block. Must never break a line: only tables are
//! fitted to the width here, since their lines depend on each other.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use unicode_width::UnicodeWidthStr;

use super::code::Highlighter;
use super::table::MarkdownTable;
use super::wrap::Logical;
use super::{Look, Origins, SpanRole, StyledSpan};

/// One top-level block.
pub struct MarkdownBlock {
    /// Byte of the text at which its first line starts.
    pub start: usize,
    pub lines: Vec<Logical>,
}

/// Parses `text[base..]`, with tables for `width` columns; `base` must be the start of a block.
pub fn parse(
    text: &str,
    base: usize,
    origins: &Origins,
    width: usize,
    code: &mut Highlighter,
) -> Vec<MarkdownBlock> {
    let source = &text[base..];
    let mut builder = Builder {
        source,
        base,
        origins,
        width,
        code,
        blocks: Vec::new(),
        line: Logical::default(),
        open: false,
        prefixes: Vec::new(),
        lists: Vec::new(),
        look: Look::default(),
        in_code: false,
        table: None,
        depth: 0,
    };
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        builder.event(event, range);
    }
    builder.flush();
    builder.blocks
}

/// A prefix that an open quote or list item puts before its lines.
struct LinePrefix {
    /// Before the first line, then taken.
    first: Option<String>,
    /// Before all others, of the same width.
    rest: String,
}

struct Builder<'a> {
    source: &'a str,
    base: usize,
    origins: &'a Origins,
    /// Columns of the screen.
    width: usize,
    code: &'a mut Highlighter,
    blocks: Vec<MarkdownBlock>,
    line: Logical,
    /// Whether `line` has been begun.
    open: bool,
    prefixes: Vec<LinePrefix>,
    /// Next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    look: Look,
    in_code: bool,
    /// The table being read.
    table: Option<MarkdownTable>,
    depth: usize,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => {
                if self.depth == 0 {
                    self.block(range.start);
                }
                self.depth += 1;
                self.start(tag, range.start);
            }
            Event::End(tag) => {
                self.end(tag);
                self.depth = self.depth.saturating_sub(1);
            }
            Event::Text(text) if self.in_code => self.code_text(&text, &range),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text(&text, &range, self.look);
            }
            Event::Code(text) => {
                self.text(&text, &range, Look { role: SpanRole::Code, ..self.look })
            }
            // Models break lines on purpose (verse, addresses), so a soft break is a break.
            Event::SoftBreak | Event::HardBreak => {
                self.begin();
                self.flush();
            }
            Event::Rule => {
                if self.depth == 0 {
                    self.block(range.start);
                }
                self.begin();
                self.line.push("───", (Look { role: SpanRole::Markup, ..Look::default() }, None));
                self.flush();
            }
            // Not enabled in the parser; their source is shown if they ever are.
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text, &range, self.look)
            }
            Event::TaskListMarker(_) => {}
        }
    }

    fn block(&mut self, start: usize) {
        self.flush();
        // Indentation belongs to its block: without it code would be something else.
        let line = self.source[..start].rfind('\n').map_or(0, |at| at + 1);
        self.blocks.push(MarkdownBlock { start: self.base + line, lines: Vec::new() });
    }

    fn start(&mut self, tag: Tag<'_>, at: usize) {
        match tag {
            Tag::Heading { .. } => self.look.role = SpanRole::Heading,
            Tag::BlockQuote(_) => {
                self.flush();
                self.prefixes.push(LinePrefix { first: None, rest: "▏ ".to_string() });
            }
            Tag::CodeBlock(kind) => {
                self.flush();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',']).next().unwrap_or_default().to_string()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                self.code.open(&language, self.base + at);
                self.in_code = true;
                self.prefixes.push(LinePrefix { first: None, rest: "  ".to_string() });
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                let bullet = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let bullet = format!("{number}. ");
                        *number = number.saturating_add(1);
                        bullet
                    }
                    _ => "• ".to_string(),
                };
                let rest = " ".repeat(bullet.chars().count());
                self.prefixes.push(LinePrefix { first: Some(bullet), rest });
            }
            Tag::Table(alignments) => {
                self.flush();
                self.table = Some(MarkdownTable::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                self.look.strong = matches!(tag, Tag::TableHead);
                if let Some(table) = &mut self.table {
                    table.row();
                }
            }
            // What comes next is the cell's: the line's prefixes are put before whole rows.
            Tag::TableCell => self.open = true,
            Tag::Strong => self.look.strong = true,
            Tag::Emphasis => self.look.emphasis = true,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.look.role = SpanRole::Text;
                self.flush();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
            }
            TagEnd::CodeBlock => {
                self.flush();
                self.in_code = false;
                self.prefixes.pop();
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Item => {
                // An item without text still has its bullet.
                if self.prefixes.last().is_some_and(|prefix| prefix.first.is_some()) {
                    self.begin();
                }
                self.flush();
                self.prefixes.pop();
            }
            TagEnd::TableCell => {
                self.open = false;
                let cell = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::TableHead => self.look.strong = false,
            TagEnd::Table => {
                let lead: usize = self.prefixes.iter().map(|prefix| prefix.rest.width()).sum();
                let room = self.width.saturating_sub(lead);
                for line in self.table.take().into_iter().flat_map(|table| table.lines(room)) {
                    self.begin();
                    self.line.append(&line);
                    self.flush();
                }
            }
            TagEnd::HtmlBlock => self.flush(),
            TagEnd::Strong => self.look.strong = false,
            TagEnd::Emphasis => self.look.emphasis = false,
            _ => {}
        }
    }

    /// Opens the line with the prefixes due.
    fn begin(&mut self) {
        if self.open {
            return;
        }
        self.open = true;
        let look = Look { role: SpanRole::Markup, ..Look::default() };
        let fragment = |text: String| StyledSpan { text, look, origin: None, at: None };
        for prefix in &mut self.prefixes {
            let first = prefix.first.take().unwrap_or_else(|| prefix.rest.clone());
            self.line.first.push(fragment(first));
            self.line.rest.push(fragment(prefix.rest.clone()));
        }
    }

    fn flush(&mut self) {
        if !self.open {
            return;
        }
        self.open = false;
        let line = std::mem::take(&mut self.line);
        if let Some(block) = self.blocks.last_mut() {
            block.lines.push(line);
        }
    }

    fn text(&mut self, text: &str, range: &Range<usize>, look: Look) {
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            self.begin();
            self.tagged(line.trim_end_matches('\n'), offset, text, range, look);
            if line.ends_with('\n') {
                self.flush();
            }
            offset += line.len();
        }
    }

    /// Pushes `part`, which starts at byte `offset` of the event's `text`, with the origins of the
    /// source bytes it came from.
    fn tagged(&mut self, part: &str, offset: usize, text: &str, range: &Range<usize>, look: Look) {
        let source = &self.source[range.clone()];
        // Delimiters (`code`) stand around the text. An entity's text is not in the source: all of
        // it then has the origin of its first byte.
        let Some(shift) = source.find(text) else {
            let origin = self.origins.at(self.base + range.start);
            let at = Some(self.base + range.start);
            self.line.push_from(part, (look, origin), at);
            return;
        };
        let start = self.base + range.start + shift + offset;
        for (bytes, origin) in self.origins.split(start..start + part.len()) {
            // Tokens end at character borders in the text we are given; were one not to, its
            // character belongs to the token that began it.
            let from = ceil_char(part, bytes.start - start);
            let to = ceil_char(part, bytes.end - start);
            self.line.push_from(&part[from..to], (look, origin), Some(start + from));
        }
    }

    fn code_text(&mut self, text: &str, range: &Range<usize>) {
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            self.begin();
            let mut at = 0;
            for (len, role) in self.code.line(line) {
                let part = line[at..at + len].trim_end_matches('\n');
                let look = Look { role, ..Look::default() };
                self.tagged(part, offset + at, text, range, look);
                at += len;
            }
            if line.ends_with('\n') {
                self.flush();
            }
            offset += line.len();
        }
    }
}

fn ceil_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
