//! Separates what a reasoning model thinks from what it answers, while the text arrives. It must
//! not depend on tokens: control tokens come by name.
//!
//! Two forms are known. In the first, the answer begins with a block such as `<think>…</think>`;
//! the template may have written the opening tag at the end of the prompt, and Gemma 4 names the
//! block in a line of its own. In the second (gpt-oss), control tokens divide the text into
//! messages on channels, and `final` is the answer.

use super::Prompt;

/// The tags that open and close a block of thoughts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThoughtTags {
    open: &'static str,
    close: &'static str,
}

/// The blocks that published models are trained on.
const BLOCKS: [ThoughtTags; 4] = [
    ThoughtTags { open: "<think>", close: "</think>" },
    ThoughtTags { open: "<seed:think>", close: "</seed:think>" },
    ThoughtTags { open: "[THINK]", close: "[/THINK]" },
    NAMED,
];
/// Gemma 4's block, whose first line is its name.
const NAMED: ThoughtTags = ThoughtTags { open: "<|channel>", close: "<channel|>" };

/// Begins the name of a channel.
const CHANNEL: &str = "<|channel|>";
/// Ends the name of a channel; its text follows.
const MESSAGE: &str = "<|message|>";
/// Begins the next message with its role.
const START: &str = "<|start|>";
/// Ends a message that is not the last.
const END: &str = "<|end|>";
/// The channel of the answer.
const FINAL: &str = "final";

/// What a piece of text made certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Text of the answer.
    pub answer: String,
    /// Text of the thoughts; `None` if the piece does not belong to them, empty if it does but no
    /// text is certain yet.
    pub thought: Option<String>,
}

/// Where in the model's text the next piece belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ThoughtPlace {
    /// Before the first character that is not white space.
    Start,
    /// In the name of a block of thoughts, which is left out.
    Name(ThoughtTags),
    /// In a block of thoughts.
    Block(ThoughtTags),
    /// Between a block and the answer; white space is left out here.
    Behind,
    /// In the answer.
    Answer,
    /// In a message's role, which is left out.
    Role,
    /// In the name of a channel.
    Channel(String),
    /// In a message on a channel other than the answer's.
    Aside,
}

impl ThoughtPlace {
    fn is_thought(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Block(_) | Self::Aside)
    }

    fn in_block(block: ThoughtTags) -> Self {
        if block == NAMED { Self::Name(block) } else { Self::Block(block) }
    }
}

/// Divides one answer into thoughts and answer. The result does not depend on how the text is cut
/// into pieces; white space around thoughts is left out.
#[derive(Clone, Debug)]
pub struct ThoughtSplitter {
    place: ThoughtPlace,
    /// Text that is not decided yet: white space, or the beginning of a tag.
    held: String,
    /// Whether a thought has been given out, and whether the next belongs to a new message.
    begun: bool,
    apart: bool,
}

impl ThoughtSplitter {
    /// For an answer to `prompt`, whose end may have opened a block of thoughts.
    pub fn new(opened: Option<Opened>) -> Self {
        let place = opened.map_or(ThoughtPlace::Start, |Opened(block)| ThoughtPlace::Block(block));
        Self { place, held: String::new(), begun: false, apart: false }
    }

    /// Takes the next piece of the text.
    pub fn text(&mut self, text: &str) -> Split {
        let mut split = self.begin();
        self.held.push_str(text);
        self.advance(&mut split);
        split
    }

    /// Takes a control token that is not in the text, by its name.
    pub fn control(&mut self, name: &str) -> Split {
        let mut split = self.begin();
        let channels = matches!(
            self.place,
            ThoughtPlace::Role | ThoughtPlace::Channel(_) | ThoughtPlace::Aside
        );
        match name {
            CHANNEL => self.turn_to(ThoughtPlace::Channel(String::new()), &mut split),
            MESSAGE => {
                if let ThoughtPlace::Channel(channel) = &self.place {
                    let answer = channel.trim().starts_with(FINAL);
                    let place = if answer { ThoughtPlace::Behind } else { ThoughtPlace::Aside };
                    self.turn_to(place, &mut split);
                }
            }
            START | END if channels => self.turn_to(ThoughtPlace::Role, &mut split),
            // Tags of a block that are control tokens in this model's vocabulary.
            mark => match self.place {
                ThoughtPlace::Start => {
                    if let Some(block) = BLOCKS.into_iter().find(|block| block.open == mark) {
                        self.turn_to(ThoughtPlace::in_block(block), &mut split);
                    }
                }
                ThoughtPlace::Name(block) | ThoughtPlace::Block(block) if block.close == mark => {
                    if matches!(self.place, ThoughtPlace::Name(_)) {
                        self.held.clear();
                    }
                    self.turn_to(ThoughtPlace::Behind, &mut split);
                }
                _ => {}
            },
        }
        split
    }

    /// Ends the text and returns what is still held.
    pub fn finish(&mut self) -> Split {
        let mut split = self.begin();
        if self.place == ThoughtPlace::Start {
            split.answer = std::mem::take(&mut self.held);
        }
        self.turn_to(ThoughtPlace::Answer, &mut split);
        split
    }

    fn begin(&self) -> Split {
        Split { answer: String::new(), thought: self.place.is_thought().then(String::new) }
    }

    /// Moves to another place; text held in a thought belongs to it, without the white space.
    fn turn_to(&mut self, place: ThoughtPlace, split: &mut Split) {
        let held = std::mem::take(&mut self.held);
        if self.place.is_thought() {
            self.think(held.trim_end(), split);
            self.apart = self.begun;
        }
        if place.is_thought() {
            split.thought.get_or_insert_default();
        }
        self.place = place;
    }

    /// Decides as much of the held text as possible.
    fn advance(&mut self, split: &mut Split) {
        loop {
            match &mut self.place {
                ThoughtPlace::Start => {
                    let text = self.held.trim_start();
                    if let Some(block) = BLOCKS.into_iter().find(|b| text.starts_with(b.open)) {
                        let rest = text[block.open.len()..].to_owned();
                        self.turn_to(ThoughtPlace::in_block(block), split);
                        self.held = rest;
                    } else if BLOCKS.iter().any(|block| block.open.starts_with(text)) {
                        return;
                    } else {
                        self.place = ThoughtPlace::Answer;
                    }
                }
                ThoughtPlace::Name(block) => {
                    let Some(end) = self.held.find('\n') else { return };
                    self.held.drain(..=end);
                    self.place = ThoughtPlace::Block(*block);
                }
                ThoughtPlace::Block(block) => {
                    let close = block.close;
                    if let Some(at) = self.held.find(close) {
                        let rest = self.held.split_off(at);
                        self.turn_to(ThoughtPlace::Behind, split);
                        self.held = rest[close.len()..].to_owned();
                    } else {
                        return self.think_until(unfinished(&self.held, close), split);
                    }
                }
                ThoughtPlace::Aside => return self.think_until(self.held.len(), split),
                ThoughtPlace::Behind => {
                    self.held = self.held.trim_start().to_owned();
                    if self.held.is_empty() {
                        return;
                    }
                    self.place = ThoughtPlace::Answer;
                }
                ThoughtPlace::Answer => {
                    return split.answer.push_str(&std::mem::take(&mut self.held));
                }
                ThoughtPlace::Role => return self.held.clear(),
                ThoughtPlace::Channel(name) => {
                    return name.push_str(&std::mem::take(&mut self.held));
                }
            }
        }
    }

    /// Gives out the held text before byte `end` as thought, without the white space at its end.
    fn think_until(&mut self, end: usize, split: &mut Split) {
        let end = self.held[..end].trim_end().len();
        let rest = self.held.split_off(end);
        let text = std::mem::replace(&mut self.held, rest);
        self.think(&text, split);
    }

    fn think(&mut self, text: &str, split: &mut Split) {
        let fresh = !self.begun || self.apart;
        let text = if fresh { text.trim_start() } else { text };
        if text.is_empty() {
            return;
        }
        let thought = split.thought.get_or_insert_default();
        if std::mem::take(&mut self.apart) {
            thought.push_str("\n\n");
        }
        thought.push_str(text);
        self.begun = true;
    }
}

/// Where `text` ends with an incomplete `mark`; its length if it does not.
fn unfinished(text: &str, mark: &str) -> usize {
    let starts = mark.char_indices().skip(1).map(|(at, _)| at);
    let longest = starts.filter(|&at| text.ends_with(&mark[..at])).max();
    text.len() - longest.unwrap_or(0)
}

/// A block of thoughts that a prompt has opened for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened(ThoughtTags);

impl Prompt {
    /// The block of thoughts that the template opened at the end of the prompt.
    pub fn opened_thought(&self) -> Option<Opened> {
        let text = self.text.trim_end();
        let block = BLOCKS.into_iter().find(|block| text.ends_with(block.open))?;
        let place = text.len() - block.open.len()..text.len();
        (!self.says(&place)).then_some(Opened(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A piece of the model's output.
    #[derive(Clone, Debug)]
    enum Part {
        Text(String),
        Control(&'static str),
    }

    fn whole(opened: bool, parts: &[Part]) -> (String, Option<String>) {
        let opened = opened.then_some(Opened(BLOCKS[0]));
        let mut splitter = ThoughtSplitter::new(opened);
        let mut answer = String::new();
        let mut thought = None::<String>;
        let mut add = |split: Split| {
            answer += &split.answer;
            if let Some(text) = split.thought {
                *thought.get_or_insert_default() += &text;
            }
        };
        for part in parts {
            add(match part {
                Part::Text(text) => splitter.text(text),
                Part::Control(name) => splitter.control(name),
            });
        }
        add(splitter.finish());
        (answer, thought)
    }

    /// The parts of an output in which these names are control tokens.
    fn parts(output: &str, names: &[&'static str]) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = output;
        while !rest.is_empty() {
            let next = names.iter().filter_map(|name| Some((rest.find(name)?, *name))).min();
            let (end, control) = next.unwrap_or((rest.len(), ""));
            parts.push(Part::Text(rest[..end].to_owned()));
            rest = &rest[end + control.len()..];
            parts.extend((!control.is_empty()).then_some(Part::Control(control)));
        }
        parts
    }

    fn split(opened: bool, text: &str) -> (String, Option<String>) {
        whole(opened, &[Part::Text(text.to_owned())])
    }

    fn both(answer: &str, thought: &str) -> (String, Option<String>) {
        (answer.to_owned(), Some(thought.to_owned()))
    }

    #[test]
    fn a_block_at_the_beginning_is_thought_to_its_end() {
        for (opened, text, answer, thought) in [
            (false, "<think>\nHm.\n</think>\n\nYes.", "Yes.", "Hm."),
            (false, "\n <think>a\n\nb</think>c\n", "c\n", "a\n\nb"),
            (false, "[THINK]a[/THINK]b", "b", "a"),
            (false, "<|channel>thought\na\n<channel|>b", "b", "a"),
            (false, "<think>\n\n</think>\n\nYes.", "Yes.", ""),
            (true, "\nHm.\n</think>\n\nYes.", "Yes.", "Hm."),
            // Not closed.
            (false, "<think> so, </thin", "", "so, </thin"),
            (true, "so ", "", "so"),
            (true, "", "", ""),
            // Only the first block is thought: the answer may mention such tags.
            (false, "<think>a</think><think>b</think>", "<think>b</think>", "a"),
        ] {
            assert_eq!(split(opened, text), both(answer, thought), "{text:?}");
        }
    }

    #[test]
    fn what_only_looks_like_thought_is_answer() {
        let texts = ["", " \n", "  Yes.", "<", "<thi", "<thing>", "</think> a", "[TH"];
        for text in texts.into_iter().chain(["Write <think>x</think>."]) {
            assert_eq!(split(false, text), (text.to_owned(), None), "{text:?}");
        }
    }

    #[test]
    fn marks_may_be_control_tokens_and_channels_are_told_apart() {
        let marked = parts("[THINK] a\n[/THINK]\nb[THINK]", &["[THINK]", "[/THINK]"]);
        assert_eq!(whole(false, &marked), both("b", "a"));
        let gemma = |text| whole(false, &parts(text, &["<|channel>", "<channel|>"]));
        assert_eq!(gemma("<|channel>thought\nHm.\n<channel|>Yes."), both("Yes.", "Hm."));
        assert_eq!(gemma("<|channel>thought<channel|>Yes."), both("Yes.", ""));
        assert_eq!(gemma("<|channel>thou"), both("", "thou"), "cut off");
        let channels = parts(
            "<|channel|>analysis<|message|>They greet. <|end|><|start|>assistant<|channel|>\
             commentary<|message|>Still.<|end|><|start|>assistant<|channel|>final<|message|>\
             Hello <think>!",
            &[CHANNEL, MESSAGE, START, END],
        );
        assert_eq!(whole(false, &channels), both("Hello <think>!", "They greet.\n\nStill."));
        // Without channels these names mean nothing.
        let parts = parts("a<|end|><|start|>b", &[START, END]);
        assert_eq!(whole(false, &parts), ("ab".to_owned(), None));
    }

    #[test]
    fn a_prompt_may_open_the_block() {
        let prompt = |text: &str, said: std::ops::Range<usize>| Prompt {
            text: text.to_owned(),
            said: Vec::from([said]),
        };
        assert_eq!(prompt("<a>Q<b><think>\n", 3..4).opened_thought(), Some(Opened(BLOCKS[0])));
        assert_eq!(prompt("Q<think></think>\n", 0..1).opened_thought(), None);
        assert_eq!(prompt("Q<think>", 0..8).opened_thought(), None, "the user said it");
    }

    fn part() -> impl Strategy<Value = Part> {
        const TEXTS: &str = "<think> </think> [THINK] [/THINK] <thi </t é word final analysis \
            <seed:think> </seed: nk> <|channel> <channel|>";
        let texts: Vec<&str> = TEXTS.split(' ').chain([" ", "\n"]).collect();
        let text = proptest::sample::select(texts);
        prop_oneof![
            8 => text.prop_map(|text| Part::Text(text.to_owned())),
            1 => prop_oneof![
                Just(CHANNEL), Just(MESSAGE), Just(START), Just(END), Just("<think>"),
                Just("</think>"), Just("<pad>"), Just("<|channel>"), Just("<channel|>")
            ].prop_map(Part::Control),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_cutting_gives_the_same(
            parts in proptest::collection::vec(part(), 0..12),
            opened: bool,
            cuts in proptest::collection::vec(0usize..5, 1..40),
        ) {
            // Text between two control tokens is one piece.
            let mut joined: Vec<Part> = Vec::new();
            for part in &parts {
                match (joined.last_mut(), part) {
                    (Some(Part::Text(last)), Part::Text(text)) => last.push_str(text),
                    _ => joined.push(part.clone()),
                }
            }
            let mut cut = Vec::new();
            let mut lengths = cuts.iter().cycle();
            for part in &joined {
                match part {
                    Part::Control(_) => cut.push(part.clone()),
                    Part::Text(text) => {
                        let mut chars = text.chars().peekable();
                        while chars.peek().is_some() {
                            let length = *lengths.next().unwrap_or(&1);
                            cut.push(Part::Text(chars.by_ref().take(length.max(1)).collect()));
                        }
                    }
                }
            }
            let one = whole(opened, &joined);
            prop_assert_eq!(&whole(opened, &cut), &one);
            prop_assert_eq!(&whole(opened, &parts), &one);
        }

        #[test]
        fn an_answer_without_marks_is_left_as_it_is(text in "[a-z \n<\\[/]{0,20}") {
            prop_assume!(!BLOCKS.iter().any(|block| text.contains(block.open)));
            prop_assert_eq!(split(false, &text), (text, None));
        }
    }
}
