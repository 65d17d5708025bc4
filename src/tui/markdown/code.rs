//! Syntax roles of the spans of a code line, by syntect's grammars. Lines of an open block that are
//! complete are kept with the parser's state after them, so that a streaming block costs one line
//! a frame. Must never know colours.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use super::SpanRole;

/// Stretches of a line: length in bytes and role.
type Stretches = Vec<(usize, SpanRole)>;

/// The parser of the code block being read, and what it found so far.
#[derive(Clone, Debug, Default)]
pub struct Highlighter {
    block: Option<CodeBlock>,
    /// The block of settled lines, since another may begin before its end is certain.
    settled: Option<CodeBlock>,
}

#[derive(Clone, Debug)]
struct CodeBlock {
    language: String,
    /// Byte of the text at which it starts.
    start: usize,
    /// Behind the last kept line; `None` for a language without a grammar.
    state: Option<(ParseState, ScopeStack)>,
    lines: Vec<(String, Stretches)>,
    /// The next line to be read.
    next: usize,
}

impl Highlighter {
    /// Begins a block, or begins again the one that was open.
    pub fn open(&mut self, language: &str, start: usize) {
        let is_it = |block: &CodeBlock| block.start == start && block.language == language;
        match &mut self.block {
            Some(block) if is_it(block) => block.next = 0,
            block if self.settled.as_ref().is_some_and(is_it) => block.clone_from(&self.settled),
            block => {
                let syntax = SYNTAXES.find_syntax_by_token(language);
                let state = syntax.map(|syntax| (ParseState::new(syntax), ScopeStack::new()));
                let language = language.to_string();
                *block = Some(CodeBlock { language, start, state, lines: Vec::new(), next: 0 });
            }
        }
    }

    /// The complete lines are never read again: the block that started at byte `from` now starts at
    /// byte `to`. `false` if a line was not kept, so that it has to be.
    pub fn settle(&mut self, from: usize, to: usize) -> bool {
        let Some(block) = &mut self.block else { return false };
        let in_step = block.state.is_none() || block.next <= block.lines.len() + 1;
        if in_step {
            block.start = block.start + to - from;
            block.lines.clear();
            block.next = 0;
            self.settled = Some(block.clone());
        }
        in_step
    }

    /// The next line of the open block, with its line feed if it is complete.
    pub fn line(&mut self, line: &str) -> Stretches {
        let plain = vec![(line.len(), SpanRole::Code)];
        let Some(block) = &mut self.block else { return plain };
        let at = block.next;
        block.next += 1;
        if let Some((_, stretches)) = block.lines.get(at).filter(|kept| kept.0 == line) {
            return stretches.clone();
        }
        let Some((mut parser, mut scopes)) = block.state.clone() else { return plain };
        let Some(stretches) = stretch(&mut parser, &mut scopes, line) else {
            if line.ends_with('\n') {
                block.state = None;
            }
            return plain;
        };
        if line.ends_with('\n') && at == block.lines.len() {
            block.state = Some((parser, scopes));
            block.lines.push((line.to_string(), stretches.clone()));
        }
        stretches
    }
}

fn stretch(parser: &mut ParseState, scopes: &mut ScopeStack, line: &str) -> Option<Stretches> {
    // A line on which the grammar fails is shown without roles.
    let changes = parser.parse_line(line, &SYNTAXES).ok()?;
    let mut stretches = Stretches::new();
    let mut at = 0;
    let mut push = |from: usize, to: usize, role: SpanRole| match stretches.last_mut() {
        _ if to <= from => {}
        Some(last) if last.1 == role => last.0 += to - from,
        _ => stretches.push((to - from, role)),
    };
    for (position, change) in changes {
        push(at, position, role(scopes));
        at = at.max(position);
        scopes.apply(&change).ok()?;
    }
    push(at, line.len(), role(scopes));
    Some(stretches)
}

fn role(scopes: &ScopeStack) -> SpanRole {
    static ROLES: LazyLock<Vec<(Scope, SpanRole)>> = LazyLock::new(|| {
        [
            ("comment", SpanRole::Comment),
            ("string", SpanRole::Literal),
            ("constant", SpanRole::Number),
            ("keyword.operator", SpanRole::Code),
            ("keyword", SpanRole::Keyword),
            ("storage", SpanRole::Keyword),
        ]
        .into_iter()
        .filter_map(|(name, role)| Some((Scope::new(name).ok()?, role)))
        .collect()
    });
    scopes
        .as_slice()
        .iter()
        .rev()
        .find_map(|scope| ROLES.iter().find(|role| role.0.is_prefix_of(*scope)))
        .map_or(SpanRole::Code, |role| role.1)
}

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);
