use super::*;
use crate::draft::{Budget, Depths};
use crate::model::{Piece, PieceKind, TargetError};
use crate::speculate::{BeamRow, Method, Shape};
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const VOCAB: usize = 13;

/// Rows of each pass; those that read the text count below zero.
type Passes = Arc<Mutex<Vec<isize>>>;

/// A language model whose logits are a hash of the text, and which checks its inputs.
struct Toy {
    capacity: usize,
    room: usize,
    text: Vec<u32>,
    flight: Vec<BeamRow>,
    logits: Vec<f32>,
    passes: Passes,
    /// Set after this many passes.
    stop: (usize, Arc<AtomicBool>),
}

impl Toy {
    fn new(capacity: usize, room: usize) -> Self {
        Self {
            capacity,
            room,
            text: Vec::new(),
            flight: Vec::new(),
            logits: Vec::new(),
            passes: Passes::default(),
            stop: (usize::MAX, Arc::default()),
        }
    }

    /// The tokens down to a row.
    fn path(&self, row: &BeamRow) -> Vec<u32> {
        let above = row.ancestors.iter().map(|&row| self.flight[row].token);
        above.chain([row.token]).collect()
    }

    fn done(&mut self, rows: isize) {
        let mut passes = self.passes.lock().unwrap();
        passes.push(rows);
        if passes.len() >= self.stop.0 {
            self.stop.1.store(true, Ordering::Relaxed);
        }
    }
}

fn logits(text: &[u32]) -> impl Iterator<Item = f32> {
    let mix = |state: u64, x: u64| (state ^ x).wrapping_mul(0x2545_F491_4F6C_DD1D).rotate_left(29);
    let state = text.iter().fold(7, |state, &token| mix(state, u64::from(token) + 1));
    (0..VOCAB as u64).map(move |token| (mix(state, token + 100) % 64) as f32 * 2.0)
}

impl SmallLm for Toy {
    fn describe(&self) -> String {
        "toy on paper".into()
    }

    fn vocab(&self) -> usize {
        VOCAB
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn room(&self) -> usize {
        self.room
    }

    fn len(&self) -> usize {
        self.text.len()
    }

    fn read(&mut self, tokens: &[u32]) -> Result<&[f32], TargetError> {
        self.text.extend(tokens);
        assert!(self.text.len() <= self.capacity && !tokens.is_empty());
        self.flight.clear();
        self.done(-(tokens.len() as isize));
        self.logits = logits(&self.text).collect();
        Ok(&self.logits)
    }

    fn grow(&mut self, first: usize, rows: &[BeamRow]) -> Result<&[f32], TargetError> {
        self.flight.truncate(first);
        assert!(first == self.flight.len() && first + rows.len() <= self.room);
        self.logits.clear();
        for row in rows {
            let twin = |other: &BeamRow| other == row;
            assert!(!self.flight.iter().any(twin), "a row is run once");
            assert_eq!(row.ancestors.last().copied(), row.source);
            let text = [self.text.clone(), self.path(row)].concat();
            assert!(text.len() <= self.capacity);
            self.logits.extend(logits(&text));
        }
        self.flight.extend(rows.iter().cloned());
        self.done(rows.len() as isize);
        Ok(&self.logits)
    }

    fn keep(&mut self, path: &[usize], stay: &[usize]) {
        let last = *path.last().unwrap();
        assert_eq!(self.flight[last].ancestors, path[..path.len() - 1]);
        self.text.extend(self.path(&self.flight[last]));
        let below = |&row: &usize| self.flight[row].ancestors.contains(&last);
        assert!((0..self.flight.len()).filter(below).eq(stay.iter().copied()));
        let number = |row: &usize| stay.binary_search(row).ok();
        let renumbered = |&row: &usize| {
            let BeamRow { token, ref ancestors, .. } = self.flight[row];
            let ancestors: Vec<usize> = ancestors.iter().filter_map(number).collect();
            BeamRow { token, source: ancestors.last().copied(), ancestors }
        };
        self.flight = stay.iter().map(renumbered).collect();
    }

    fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
        self.flight.clear();
    }

    fn bytes(&self) -> u64 {
        11
    }
}

fn small(toy: Toy, words: SharedVocabulary) -> SmallModel {
    SmallModel::new("tiny", Box::new(toy), words)
}

fn propose(model: &mut SmallModel, text: &[u32], budget: Budget) -> Tree {
    let root = text.last().copied().unwrap_or(3);
    model.propose(text, &DraftRequest::new(root, budget)).unwrap()
}

/// Drafts ahead of `tree` until it has enough, or is stopped before it begins.
fn ahead(model: &mut SmallModel, tree: &Tree, budget: Budget, stopped: bool) {
    let stop = &AtomicBool::new(stopped);
    let request = &DraftRequest::new(tree.nodes()[0].token, budget);
    model.draft_ahead(&AheadRequest { tree, request, stop, grown: None }).unwrap();
}

fn budget(method: Method, gamma: usize, width: usize, depth: usize) -> Budget {
    Budget { method, ..Budget::new(Shape { gamma, width, depth }, 0) }
}

fn tokens(tree: &Tree) -> Vec<u32> {
    tree.nodes().iter().map(|node| node.token).collect()
}

/// The toy's continuation of `text`, `count` tokens long.
fn greedy(text: &[u32], count: usize) -> Vec<u32> {
    let mut text = text.to_vec();
    for _ in 0..count {
        let row: Vec<f32> = logits(&text).collect();
        text.push(crate::speculate::argmax(&row));
    }
    text.split_off(text.len() - count)
}

/// The target's tokens 0, 2, 4, … are letters that the small model has under other ids; the odd
/// ones are two letters, which it must spell.
fn other_words() -> SharedVocabulary {
    let letter = |i: usize| char::from(b'a' + (i % 26) as u8).to_string();
    let piece = |text: String| Some(Piece { kind: PieceKind::Text, bytes: text.into_bytes() });
    let target: Vec<_> = (0..14)
        .map(|i| piece(if i % 2 == 0 { letter(i / 2) } else { letter(i / 2) + &letter(i / 2 + 1) }))
        .collect();
    let small: Vec<_> = (0..VOCAB).map(|i| piece(letter(VOCAB - 1 - i))).collect();
    SharedVocabulary::new(&target, &small)
}

#[derive(Clone, Debug)]
enum Step {
    Observe(Vec<u32>),
    Truncate(prop::sample::Index),
    Propose(Budget),
    /// With the number of passes after which it is stopped.
    SequencesAhead(Budget, usize),
    /// The likeliest tokens come true, this many of them.
    Confirm(usize),
    /// Reads more of a prompt, perhaps not to its end.
    Read(Vec<u32>, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let budget =
        (any::<bool>(), 1usize..20, 1usize..20, 0usize..5).prop_map(|(search, g, w, d)| {
            budget(if search { Method::Search } else { Method::Tree }, g, w, d)
        });
    let step = prop_oneof![
        2 => prop::collection::vec(0..14u32, 1..4).prop_map(Step::Observe),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        4 => budget.clone().prop_map(Step::Propose),
        3 => (budget, 0usize..9).prop_map(|(budget, passes)| Step::SequencesAhead(budget, passes)),
        3 => (1usize..7).prop_map(Step::Confirm),
        2 => (prop::collection::vec(0..14u32, 0..50), any::<bool>())
            .prop_map(|(more, stopped)| Step::Read(more, stopped)),
    ];
    prop::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever trees were run before, whether they came true or not, a tree equals the one grown
    /// by a model that observes the text for the first time.
    #[test]
    fn what_was_run_before_changes_no_tree(
        steps in steps(), identical: bool, capacity in 5usize..80,
        room in prop_oneof![Just(5000usize), 10usize..60],
    ) {
        let words = if identical { SharedVocabulary::identical(VOCAB) } else { other_words() };
        let stop = Arc::new(AtomicBool::new(false));
        let toy = Toy::new(capacity, room);
        let passes = toy.passes.clone();
        let mut model = small(Toy { stop: (4, stop.clone()), ..toy }, words.clone());
        let mut text = vec![4];
        let mut last = Tree::root(4);
        for step in steps {
            match step {
                Step::Observe(tokens) => text.extend(tokens),
                Step::Truncate(len) => {
                    let pairs = len.index(text.len());
                    model.truncate(pairs);
                    text.truncate(pairs + 1);
                }
                Step::Propose(budget) => {
                    last = propose(&mut model, &text, budget);
                    let mut fresh = small(Toy::new(capacity, 2000), words.clone());
                    let expected = propose(&mut fresh, &text, budget);
                    if room == 5000 {
                        prop_assert_eq!(&last, &expected);
                    } else {
                        // A tree may be smaller if rows in flight have filled the room.
                        prop_assert!(last.len() <= expected.len());
                    }
                    let known = |&token: &u32| words.counterpart(token).is_some();
                    prop_assert!(tokens(&last)[1..].iter().all(known));
                }
                Step::SequencesAhead(budget, most) => {
                    passes.lock().unwrap().clear();
                    stop.store(most == 0, Ordering::Relaxed);
                    let request = DraftRequest::new(*text.last().unwrap(), budget);
                    let tree = &last;
                    let request = &request;
                    let ahead = AheadRequest { tree, request, stop: &stop, grown: None };
                    model.draft_ahead(&ahead).unwrap();
                    prop_assert!(passes.lock().unwrap().len() <= 4, "it stops when told to");
                }
                Step::Read(more, stopped) => {
                    text.extend(more);
                    model.read(&text, 0, &AtomicBool::new(stopped)).unwrap();
                }
                Step::Confirm(count) => {
                    let mut likely = Vec::new();
                    let mut small_text = Vec::new();
                    text.iter().for_each(|&token| words.translate(token, &mut small_text));
                    for own in greedy(&small_text, count) {
                        likely.extend((0..14u32).find(|&t| words.counterpart(t) == Some(own)));
                    }
                    text.extend(likely);
                }
            }
        }
    }
}

#[test]
fn a_chain_costs_a_pass_a_token_and_what_came_true_is_not_run_again() {
    let toy = Toy::new(100, 100);
    let passes = toy.passes.clone();
    let run = || std::mem::take(&mut *passes.lock().unwrap());
    let mut model = small(toy, SharedVocabulary::identical(VOCAB));
    let text = vec![1, 2, 3];
    let sps = budget(Method::Tree, 6, 1, 4);
    let tree = propose(&mut model, &text, sps);
    let likely = greedy(&text, 5);
    assert_eq!(tokens(&tree)[1..], likely);
    assert_eq!(run(), [-3, 1, 1, 1, 1]);
    // Three come true, then something else.
    let wrong = (likely[3] + 1) % VOCAB as u32;
    let text = [&text[..], &likely[..3], &[wrong]].concat();
    propose(&mut model, &text, sps);
    assert_eq!(run(), [-1, 1, 1, 1, 1]);
    assert!(!model.was_drafted_ahead(), "nothing was drafted while a tree was checked");
    // The text is rolled back and continues as before.
    model.truncate(4);
    propose(&mut model, &text, sps);
    assert!(run().is_empty());
}

#[test]
fn a_chain_ends_where_its_path_is_too_unlikely() {
    let full = budget(Method::Tree, 9, 1, 7);
    let text = [1, 2, 3];
    let tree_with = |least_pass| {
        let toy = Toy::new(100, 100);
        let passes = toy.passes.clone();
        let request = DraftRequest { least_pass, ..DraftRequest::new(3, full) };
        let mut model = small(toy, SharedVocabulary::identical(VOCAB));
        let tree = model.propose(&text, &request).unwrap();
        (tree, passes.lock().unwrap().len())
    };
    let (whole, passes) = tree_with(0.0);
    assert_eq!((whole.len(), passes), (9, 8));
    let path = |nodes: usize| -> f64 {
        whole.nodes()[1..nodes].iter().map(|node| f64::from(node.log_prob)).sum::<f64>().exp()
    };
    for nodes in 2..9 {
        // No further pass after a path that is less likely.
        let (tree, passes) = tree_with(path(nodes) + 1e-6);
        assert!(tree.len() <= nodes && passes == tree.len() - 1, "{tree:?}");
        assert_eq!(tree.nodes(), &whole.nodes()[..tree.len()]);
    }
    assert_eq!(tree_with(1.1).0.len(), 2, "the first token takes no pass of its own");
}

#[test]
fn what_was_grown_ahead_and_came_true_is_there_already() {
    let toy = Toy::new(100, 100);
    let passes = toy.passes.clone();
    let run = || std::mem::take(&mut *passes.lock().unwrap());
    let mut model = small(toy, SharedVocabulary::identical(VOCAB));
    let text = vec![1, 2, 3];
    let budget = budget(Method::Tree, 5, 1, 3);
    let tree = propose(&mut model, &text, budget);
    ahead(&mut model, &tree, budget, false);
    // The leaf, the token after it, three rows of the next chain; then what is less likely.
    let first = run();
    assert!(first.starts_with(&[-3, 1, 1, 1, 1, 1, 1, 1, 1]) && first.len() > 12, "{first:?}");
    let likely = greedy(&text, 9);
    let tree = propose(&mut model, &[&text[..], &likely[..5]].concat(), budget);
    assert_eq!(tokens(&tree), likely[4..]);
    assert!(run().is_empty());
    assert!(model.was_drafted_ahead());
    // The next outcome is none of the above.
    ahead(&mut model, &tree, budget, true);
    assert!(run().is_empty(), "it stops before it begins");
}

#[test]
fn a_full_context_ends_the_draft_and_not_the_text() {
    let mut model = small(Toy::new(6, 100), SharedVocabulary::identical(VOCAB));
    assert_eq!(model.capacity(), 6);
    let budget = budget(Method::Tree, 20, 2, 8);
    let text = [1, 2, 3, 4, 5, 6, 7];
    // After four tokens, positions 4 and 5 can still be run, so there are three levels.
    for (count, height) in [(4, 3), (6, 1), (7, 0), (4, 3)] {
        assert_eq!(propose(&mut model, &text[..count], budget).height(), height, "{count}");
    }
}

#[test]
fn without_a_text_or_a_budget_nothing_is_run() {
    let toy = Toy::new(50, 50);
    let passes = toy.passes.clone();
    let mut model = small(toy, SharedVocabulary::identical(VOCAB));
    assert_eq!(propose(&mut model, &[], budget(Method::Tree, 9, 2, 3)), Tree::root(3));
    for (gamma, width) in [(1, 3), (5, 0)] {
        let none = budget(Method::Tree, gamma, width, 3);
        assert_eq!(propose(&mut model, &[1, 2], none), Tree::root(2));
    }
    assert!(passes.lock().unwrap().is_empty());
    assert_eq!(model.describe(), "small model tiny, toy on paper");
    assert_eq!((model.depths(), model.device_bytes()), (Depths::Fixed(0), 11));
}

#[test]
fn sequences_go_on_behind_the_tail_while_it_is_checked() {
    let toy = Toy::new(100, 100);
    let passes = toy.passes.clone();
    let run = || std::mem::take(&mut *passes.lock().unwrap());
    let mut model = small(toy, SharedVocabulary::identical(VOCAB));
    let mut text = vec![1, 2, 3];
    let likely = greedy(&text, 18);
    let one = budget(Method::Sequences { fixed: Some(1) }, 6, 1, 4);
    // A target that finishes first waits until the budget is drafted.
    let tree = propose(&mut model, &text, one);
    assert_eq!((tree.clone(), run()), (Tree::root(3), vec![]));
    ahead(&mut model, &tree, one, true);
    assert_eq!(run(), [-3, 1, 1, 1, 1, 1]);
    // The target's token begins the sequence: the rest of it is the tail, and costs nothing more.
    text.push(likely[0]);
    let tree = propose(&mut model, &text, one);
    assert_eq!((tokens(&tree), run()), (likely[..6].to_vec(), vec![]));
    assert!(model.was_drafted_ahead());
    // Only the last token of the tail has not been run yet.
    ahead(&mut model, &tree, one, true);
    assert_eq!(run(), [1; 6]);
    text.extend(&likely[1..7]);
    let tree = propose(&mut model, &text, one);
    assert_eq!(tokens(&tree), likely[6..12]);
    // The tail is rejected, so nothing after it is valid.
    ahead(&mut model, &tree, one, true);
    let wrong = (likely[9] + 1) % VOCAB as u32;
    text.extend([likely[7], likely[8], wrong]);
    assert_eq!(propose(&mut model, &text, one), Tree::root(wrong));
    assert!(!model.was_drafted_ahead());
    // Nor is anything after a fresh start.
    ahead(&mut model, &Tree::root(wrong), one, true);
    model.truncate(0);
    text.extend(greedy(&text, 1));
    assert_eq!(propose(&mut model, &text, one).len(), 1);
}

#[test]
fn several_sequences_grow_in_the_same_passes() {
    let toy = Toy::new(100, 100);
    let passes = toy.passes.clone();
    let mut model = small(toy, SharedVocabulary::identical(VOCAB));
    let text = [1, 2, 3];
    let two = budget(Method::Sequences { fixed: Some(2) }, 6, 1, 4);
    let tree = propose(&mut model, &text, two);
    ahead(&mut model, &tree, two, false);
    assert_eq!(*passes.lock().unwrap(), [-3, 2, 2]);
    let row: Vec<f32> = logits(&text).collect();
    let second = crate::speculate::top_k(&row, 2)[1].0;
    let text = [&text[..], &[second]].concat();
    let tree = propose(&mut model, &text, two);
    assert_eq!(tokens(&tree), [&[second], &greedy(&text, 2)[..]].concat());
}

#[test]
fn a_prompt_read_beside_the_target_is_not_read_again() {
    let toy = Toy::new(500, 2000);
    let passes = toy.passes.clone();
    let stop = Arc::clone(&toy.stop.1);
    let mut model =
        small(Toy { stop: (2, stop.clone()), ..toy }, SharedVocabulary::identical(VOCAB));
    let mut text: Vec<u32> = (0..100).map(|i| i % 13).collect();
    // The target has read its first chunk after two slices, and its second after the rest.
    model.read(&text, 0, &stop).unwrap();
    model.read(&text, 0, &AtomicBool::new(false)).unwrap();
    text.push(7);
    propose(&mut model, &text, budget(Method::Tree, 4, 1, 1));
    let read: Vec<isize> = passes.lock().unwrap().iter().copied().filter(|&n| n < 0).collect();
    assert_eq!(read, [-32, -32, -32, -4, -1]);
}
