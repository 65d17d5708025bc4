//! Markdown to logical lines, one group a top-level block. Must never break a line: only tables are
//! fitted to the width here, since their lines depend on each other.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

use super::code::Highlighter;
use super::table::MarkdownTable;
use super::wrap::Logical;
use super::{Look, SpanRole, StyledSpan, math, text_of};
use crate::decode::BothMinds;

/// Most characters of an image's address, which may contain the whole image.
const LONGEST_PLACE: usize = 80;
/// Columns by which what is left of a long line of code is further in than its beginning.
const HANGING: usize = 2;

/// One top-level block.
pub struct MarkdownBlock {
    /// Byte of the text at which its first line starts.
    pub start: usize,
    pub lines: Vec<Logical>,
    pub links: Vec<Link>,
    /// Whether it is a fenced block of code whose text reaches the end of what was parsed.
    pub open: bool,
}

/// Text that leads somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its bytes in the message.
    pub bytes: Range<usize>,
    /// Where it leads: an address of the web or of mail, in visible ASCII.
    pub to: String,
}

/// Parses `source`, which ends the text from byte `base` on, with tables for `width` columns; it
/// must begin with a block. That block `continues` if its first line is repeated there from above.
pub fn parse(
    source: &str,
    base: usize,
    continues: bool,
    minds: &BothMinds,
    width: usize,
    code: &mut Highlighter,
) -> Vec<MarkdownBlock> {
    let parsed = with_dollars(source);
    let mut builder = Builder {
        source,
        parsed: &parsed,
        base,
        continues,
        minds,
        width,
        code,
        blocks: Vec::new(),
        line: None,
        prefixes: Vec::new(),
        lists: Vec::new(),
        look: Look::default(),
        to: None,
        image: None,
        table: None,
        depth: 0,
        fenced: false,
    };
    let options = Options::ENABLE_TABLES | Options::ENABLE_MATH;
    for (event, range) in Parser::new_ext(&parsed, options).into_offset_iter() {
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
    /// The same with other signs of mathematics, each as long as its own.
    parsed: &'a str,
    base: usize,
    continues: bool,
    /// Who wrote what.
    minds: &'a BothMinds,
    /// Columns of the screen.
    width: usize,
    code: &'a mut Highlighter,
    blocks: Vec<MarkdownBlock>,
    /// The line that has been begun.
    line: Option<Logical>,
    prefixes: Vec<LinePrefix>,
    /// Next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    look: Look,
    /// Where the link being read leads.
    to: Option<String>,
    /// The address of the image being read.
    image: Option<String>,
    /// The table being read.
    table: Option<MarkdownTable>,
    depth: usize,
    /// Whether the block of code being read has a fence.
    fenced: bool,
}

impl<'a> Builder<'a> {
    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        if self.depth == 0 && matches!(event, Event::Start(_) | Event::Rule) {
            self.block(range.start);
        }
        match event {
            Event::Start(tag) => {
                self.depth += 1;
                self.start(tag, range.start);
            }
            Event::End(tag) => {
                if let (TagEnd::Link, Some(block)) = (tag, self.blocks.last_mut()) {
                    let bytes = self.base + range.start..self.base + range.end;
                    block.links.extend(self.to.take().map(|to| Link { bytes, to }));
                }
                self.end(tag);
                self.depth = self.depth.saturating_sub(1);
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.text(self.written(&text, &range), &range);
            }
            Event::Code(text) => {
                let around = std::mem::replace(&mut self.look.role, SpanRole::Code);
                self.text(self.written(&text, &range), &range);
                self.look.role = around;
            }
            // Models break lines on purpose (verse, addresses), so a soft break is a break.
            Event::SoftBreak | Event::HardBreak => {
                self.begin();
                self.flush();
            }
            Event::Rule => {
                self.begin().text.push(StyledSpan::markup("───"));
                self.flush();
            }
            Event::InlineMath(text) | Event::DisplayMath(text) => self.math(&text, &range),
            // Not enabled in the parser; their source is shown if they ever are.
            Event::FootnoteReference(text) => self.text(&text, &range),
            Event::TaskListMarker(_) => {}
        }
    }

    fn block(&mut self, start: usize) {
        self.flush();
        // Indentation belongs to its block: without it code would be something else.
        let line = self.source[..start].rfind('\n').map_or(0, |at| at + 1);
        self.blocks.push(MarkdownBlock {
            start: self.base + line,
            lines: Vec::new(),
            links: Vec::new(),
            open: false,
        });
    }

    fn start(&mut self, tag: Tag<'_>, at: usize) {
        if is_block(tag.to_end()) {
            self.flush();
        }
        let quiet = |rest: &str| LinePrefix { first: None, rest: rest.to_string() };
        match tag {
            Tag::Heading { .. } => self.look.role = SpanRole::Heading,
            Tag::BlockQuote(_) => self.prefixes.push(quiet("▏ ")),
            Tag::CodeBlock(kind) => {
                let info = match &kind {
                    CodeBlockKind::Fenced(info) => info,
                    CodeBlockKind::Indented => "",
                };
                let language = info.split([' ', ',']).next().unwrap_or_default();
                self.code.open(language, self.base + at);
                self.look.code = true;
                self.fenced = kind.is_fenced();
                self.prefixes.push(quiet("  "));
                let continues = std::mem::take(&mut self.continues);
                if !language.is_empty() && !continues {
                    let name = self.mark(language);
                    self.begin().text.push(name);
                    self.flush();
                }
            }
            Tag::List(first) => self.lists.push(first),
            Tag::Item => {
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
                self.table = Some(MarkdownTable { alignments, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                self.look.strong = matches!(tag, Tag::TableHead);
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            // What comes next is the cell's: the line's prefixes are put before whole rows.
            Tag::TableCell => self.line = Some(Logical::default()),
            Tag::Link { dest_url, .. } => {
                // An answer is not trusted with other schemes, or with control characters.
                let schemes = ["https://", "http://", "mailto:"];
                let known = schemes.iter().any(|scheme| dest_url.starts_with(scheme));
                let plain = known && dest_url.chars().all(|c| c.is_ascii_graphic());
                self.to = plain.then(|| dest_url.to_string());
                self.look.role = SpanRole::Link;
            }
            Tag::Image { dest_url, .. } => {
                let name = self.mark("image: ");
                let line = self.begin();
                line.text.push(name);
                line.images.push(dest_url.to_string());
                let mut place: String = dest_url.chars().take(LONGEST_PLACE).collect();
                if place.len() < dest_url.len() {
                    place.push('…');
                }
                self.image = Some(place);
            }
            Tag::Strong => self.look.strong = true,
            Tag::Emphasis => self.look.emphasis = true,
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        // An item without text still has its bullet.
        let bullet = self.prefixes.last().is_some_and(|prefix| prefix.first.is_some());
        if tag == TagEnd::Item && bullet {
            self.begin();
        }
        if is_block(tag) {
            self.flush();
        }
        match tag {
            TagEnd::Heading(_) | TagEnd::Link => self.look.role = SpanRole::Text,
            TagEnd::BlockQuote(_) | TagEnd::CodeBlock | TagEnd::Item => {
                self.look.code = false;
                self.prefixes.pop();
            }
            TagEnd::List(_) => drop(self.lists.pop()),
            TagEnd::Image => {
                let place = self.image.take().map(|place| self.mark(format!(" ({place})")));
                self.begin().text.extend(place);
            }
            TagEnd::TableCell => {
                let cell = self.line.take().unwrap_or_default();
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell.text);
                }
            }
            TagEnd::Table => {
                let lead: usize = self.prefixes.iter().map(|prefix| prefix.rest.width()).sum();
                let room = self.width.saturating_sub(lead);
                for line in self.table.take().into_iter().flat_map(|table| table.lines(room)) {
                    self.begin().text = line;
                    self.flush();
                }
            }
            TagEnd::TableHead | TagEnd::Strong => self.look.strong = false,
            TagEnd::Emphasis => self.look.emphasis = false,
            _ => {}
        }
    }

    /// Our own mark, here.
    fn mark(&self, text: impl Into<String>) -> StyledSpan {
        let mut mark = StyledSpan::markup(text);
        mark.look.code = self.look.code;
        mark
    }

    /// The line, opened with the prefixes due.
    fn begin(&mut self) -> &mut Logical {
        let line = self.line.take().unwrap_or_else(|| {
            let mut prefixes = std::mem::take(&mut self.prefixes);
            let mut line = Logical::default();
            for prefix in &mut prefixes {
                let first = prefix.first.take().unwrap_or_else(|| prefix.rest.clone());
                line.first.push(self.mark(first));
                line.rest.push(self.mark(prefix.rest.clone()));
            }
            self.prefixes = prefixes;
            line
        });
        self.line.insert(line)
    }

    fn flush(&mut self) {
        let Some(mut line) = self.line.take() else { return };
        if self.look.code {
            // What is left of a long line hangs below its beginning.
            let text = text_of(&line.text).replace('\t', "    ");
            let indent = text.chars().take_while(|c| *c == ' ').count().min(self.width / 3);
            line.rest.push(self.mark(" ".repeat(indent + HANGING)));
        }
        if let Some(block) = self.blocks.last_mut() {
            block.lines.push(line);
        }
    }

    /// An event's text as it is in the source, if it is.
    fn written<'t>(&self, text: &'t str, range: &Range<usize>) -> &'t str
    where
        'a: 't,
    {
        let at = self.parsed[range.clone()].find(text).map(|at| range.start + at);
        at.map_or(text, |at| &self.source[at..at + text.len()])
    }

    fn math(&mut self, text: &str, range: &Range<usize>) {
        let source = &self.source[range.clone()];
        let after = self.source[range.end..].chars().next();
        // Between two prices there is no formula.
        if source.len() == text.len() + 2 && after.is_some_and(char::is_alphanumeric) {
            return self.text(source, range);
        }
        let shown = math::unicode(text);
        let block = ["$$", "\\["].iter().any(|display| source.starts_with(display));
        // A cell has one row.
        if !block || self.table.is_some() {
            return self.text(&shown.replace('\n', "; "), range);
        }
        for row in shown.lines() {
            self.flush();
            let indent = self.mark("  ");
            let line = self.begin();
            line.first.push(indent.clone());
            line.rest.push(indent);
            self.text(row.trim(), range);
        }
    }

    fn text(&mut self, text: &str, range: &Range<usize>) {
        if self.depth == 1
            && let Some(block) = self.blocks.last_mut()
        {
            block.open = self.look.code && self.fenced && range.end == self.source.len();
        }
        // Delimiters (`code`) stand around the text. An entity's text is not in the source.
        let shift = self.source[range.clone()].find(text);
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            self.begin();
            let stretches = match self.look.code {
                true => self.code.line(line),
                false => vec![(line.len(), self.look.role)],
            };
            for (len, role) in stretches {
                let part = text[offset..offset + len].trim_end_matches('\n');
                self.tagged(part, offset, shift, range, Look { role, ..self.look });
                offset += len;
            }
            if line.ends_with('\n') {
                self.flush();
            }
        }
    }

    /// Pushes `part`, which starts at byte `offset` of the event's text, with the origins of the
    /// source bytes it came from. The text is at byte `shift` of `range`; if it is not there, all
    /// of it has the origin of its first byte.
    fn tagged(
        &mut self,
        part: &str,
        offset: usize,
        shift: Option<usize>,
        range: &Range<usize>,
        look: Look,
    ) {
        let begin = self.base + range.start;
        let start = begin + shift.map_or(0, |shift| shift + offset);
        let length = if shift.is_some() { part.len() } else { 1 };
        let minds = self.minds;
        let line = self.begin();
        for (bytes, origin) in minds.origins(start..start + length) {
            // Tokens end at character borders in the text we are given; were one not to, its
            // character belongs to the token that began it.
            let from = ceil_char(part, bytes.start - start);
            let to = if shift.is_some() { ceil_char(part, bytes.end - start) } else { part.len() };
            if from < to {
                let text = part[from..to].to_string();
                line.text.push(StyledSpan { text, look, origin, at: Some(start + from) });
            }
        }
    }
}

/// The text of each code block of an answer, in order, without its fences.
pub fn code_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut events = Parser::new(text);
    while let Some(event) = events.next() {
        if matches!(event, Event::Start(Tag::CodeBlock(_))) {
            let inside = events.by_ref().take_while(|event| !matches!(event, Event::End(_)));
            let texts = inside.filter_map(|event| match event {
                Event::Text(text) => Some(text.into_string()),
                _ => None,
            });
            blocks.push(texts.collect());
        }
    }
    blocks
}

/// The images in a text, each with the byte at which it ends, and its address.
pub fn images(text: &str) -> Vec<(usize, String)> {
    let is_there = text.contains("![");
    let events = is_there.then(|| Parser::new(text).into_offset_iter()).into_iter().flatten();
    let image = |(event, range): (Event<'_>, Range<usize>)| match event {
        Event::Start(Tag::Image { dest_url, .. }) => Some((range.end, dest_url.into_string())),
        _ => None,
    };
    events.filter_map(image).collect()
}

/// `\(` … `\)` and `\[` … `\]`, by which models mark mathematics, as dollars, which the parser
/// knows. Every byte stays where it is.
fn with_dollars(source: &str) -> Cow<'_, str> {
    if !["\\(", "\\["].iter().any(|sign| source.contains(sign)) {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.next_if(|_| c == '\\') {
            Some('(' | ')' | '[' | ']') => out.push_str("$$"),
            next => out.extend(std::iter::once(c).chain(next)),
        }
    }
    Cow::Owned(out)
}

/// Whether it begins and ends lines of its own. Rows of a table are fitted to each other first.
fn is_block(tag: TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Paragraph
            | TagEnd::Heading(_)
            | TagEnd::BlockQuote(_)
            | TagEnd::CodeBlock
            | TagEnd::HtmlBlock
            | TagEnd::List(_)
            | TagEnd::Item
            | TagEnd::Table
    )
}

fn ceil_char(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
