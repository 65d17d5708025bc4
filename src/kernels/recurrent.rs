//! The states of recurrent layers, next to the keys and values of the others (method.md, Recurrent
//! layers). A state is the sum of all rows before it, so it cannot be cut back to fewer positions.
//! Each layer therefore keeps its state before the last committed rows, and the inputs of these
//! rows and of those in flight. The next pass applies the committed ones when it loads the state,
//! and computes the others' states on the way through the tree without keeping them. Copies of all
//! states are made while a long text is read, and [`KvCache::truncate`] goes back to one of them.
//! It must not depend on what a layer's products are.

use super::aligned::AlignedFloats;
use super::cache::KvCache;
use super::pool::Pool;
use super::recurrence::{self, RecurrentShape, StateStep, StateSteps, StateWeights};
use super::tree_mask::TreeMask;
use std::ops::Range;

/// How many rows at the end of a text that is being read are not applied yet, so that it can be
/// shortened by as many.
const TAIL: usize = 16;
/// How many copies of the states are kept.
const MOST_MARKS: usize = 4;

/// The states of all recurrent layers of one text.
#[derive(Clone, Debug)]
pub(super) struct RecurrentStates {
    shape: RecurrentShape,
    layers: Vec<LayerState>,
    /// The kept row where the convolution's window begins: those before it are needed no more.
    base: usize,
    /// The kept rows that are committed but not in the states.
    accepted: Vec<usize>,
    /// The kept rows in flight, except the first `ahead`, which are in the states already.
    flight: Vec<usize>,
    ahead: usize,
    /// How many rows of the next pass will be committed in any case.
    sure: usize,
    /// Copies of the states, the shortest text first.
    marks: Vec<Mark>,
    plan: StatePlan,
    /// The rows of a layer in a pass, and their convolutions.
    rows: Vec<f32>,
    convolved: Vec<f32>,
}

/// One layer.
#[derive(Clone, Debug)]
struct LayerState {
    /// From `base` on, the last taps − 1 rows in the state, then those that are not in it: `[rows,
    /// row]`.
    rows: Vec<f32>,
    /// `[heads, blocks of 16 values, key, 16]`.
    state: AlignedFloats,
}

/// The states of a text of `len` positions, of which the last `accepted` are kept rows.
#[derive(Clone, Debug)]
struct Mark {
    len: usize,
    accepted: usize,
    layers: Vec<LayerState>,
}

impl Mark {
    /// The shortest text that it can be cut to.
    fn base(&self) -> usize {
        self.len - self.accepted
    }
}

/// What every layer does in a pass.
#[derive(Clone, Debug, Default)]
struct StatePlan {
    /// The rows of the last pass that this one needs.
    kept: Vec<usize>,
    steps: StateSteps,
    /// How many rows to remove after the pass.
    removed: usize,
}

impl RecurrentStates {
    fn new(shape: RecurrentShape, layers: usize) -> Self {
        Self {
            shape,
            layers: vec![LayerState::new(&shape); layers],
            base: 0,
            accepted: Vec::new(),
            flight: Vec::new(),
            ahead: 0,
            sure: 0,
            marks: Vec::new(),
            plan: StatePlan::default(),
            rows: Vec::new(),
            convolved: Vec::new(),
        }
    }

    /// The kept rows that the convolution reads before the first one that is not in the states.
    fn window(&self) -> Range<usize> {
        self.base..self.base + self.shape.taps - 1
    }

    /// Plans a pass: the committed rows are applied first, then those that will be committed in any
    /// case, then the tree.
    fn begin(&mut self, mask: &TreeMask) {
        let window = self.shape.taps - 1;
        let sure = std::mem::take(&mut self.sure);
        let before = mask.first();
        let count = before + mask.len();
        let tree = window + self.accepted.len();
        let mut kept: Vec<usize> = self.window().collect();
        kept.append(&mut self.accepted);
        kept.extend_from_slice(&self.flight[..before]);
        let mut parents = vec![None; count];
        for row in 0..mask.len() {
            for pair in mask.visible(row).windows(2) {
                parents[pair[1] as usize] = Some(pair[0] as usize);
            }
        }
        let output = |row: usize| row.checked_sub(before);
        let in_place = |(row, output)| StateStep { row, output, from: 0, to: Some(0) };
        let committed = (window..tree).map(|row| (row, None));
        let certain = (0..sure).map(|row| (tree + row, output(row)));
        let mut steps: Vec<StateStep> = committed.chain(certain).map(in_place).collect();
        let mut order = TreeOrder::new(&parents, before, sure);
        order.visit(count, 0, 1);
        let of_tree = |&(row, from, to): &(usize, usize, Option<usize>)| {
            let output = output(row);
            StateStep { row: tree + row, output, from, to }
        };
        steps.extend(order.steps.iter().map(of_tree));
        let parent = |row: usize| match row.checked_sub(tree).and_then(|row| parents[row]) {
            Some(parent) => tree + parent,
            None => row.min(tree).saturating_sub(1),
        };
        let mut sources = Vec::with_capacity(steps.len() * self.shape.taps);
        for step in &steps {
            let path = std::iter::successors(Some(step.row), |&row| Some(parent(row)));
            sources.extend(path.take(self.shape.taps));
            let begin = sources.len() - self.shape.taps;
            sources[begin..].reverse();
        }
        let steps = StateSteps { steps, sources, states: order.states };
        // Removing the applied rows copies all others, so they stay until the next pass, except
        // those of a long text, which would take much memory.
        let done = tree - window + sure;
        let removed = if sure > 0 { done } else { 0 };
        self.plan = StatePlan { kept, steps, removed };
        self.base = done - removed;
        self.flight = (self.window().end..).take(count - sure).collect();
        self.ahead = sure;
    }

    /// One layer's part of a pass; see [`KvCache::recur`].
    fn run(
        &mut self,
        pool: &Pool,
        layer: usize,
        weights: &StateWeights,
        [inputs, gates]: [&[f32]; 2],
        out: &mut [f32],
    ) {
        let Self { shape, layers, plan, rows, convolved, .. } = self;
        let (row, channels, both) = (shape.row(), shape.channels, 2 * shape.heads);
        let LayerState { rows: old, state } = &mut layers[layer];
        rows.resize((plan.kept.len() + inputs.len() / channels) * row, 0.0);
        pool.chunks(rows, row, |i, to| match plan.kept.get(i) {
            Some(&at) => to.copy_from_slice(&old[at * row..(at + 1) * row]),
            None => {
                let i = i - plan.kept.len();
                let (input, gate) = to.split_at_mut(channels);
                input.copy_from_slice(&inputs[i * channels..(i + 1) * channels]);
                gate.copy_from_slice(&gates[i * both..(i + 1) * both]);
            }
        });
        recurrence::convolve(pool, shape, weights, &plan.steps, rows, convolved);
        if shape.heads > 0 {
            recurrence::advance(pool, shape, weights, &plan.steps, [rows, convolved], state, out);
        } else {
            for (step, from) in plan.steps.steps.iter().zip(convolved.chunks_exact(channels)) {
                if let Some(to) = step.output {
                    out[to * channels..(to + 1) * channels].copy_from_slice(from);
                }
            }
        }
        if plan.removed == 0 {
            std::mem::swap(old, rows);
        } else {
            old.clear();
            old.extend_from_slice(&rows[plan.removed * row..]);
        }
    }

    /// Commits `path` after `len` positions; the rows in `stay` remain in flight, as the first
    /// ones.
    pub(super) fn keep(&mut self, len: usize, path: &[usize], stay: &[usize]) {
        // Rows that no pass has computed change no state.
        let kept = |&row: &usize| self.flight.get(row.checked_sub(self.ahead)?).copied();
        self.accepted.extend(path.iter().filter_map(kept));
        let stay = stay.iter().filter_map(kept).collect();
        let read = std::mem::take(&mut self.ahead) > 0;
        self.flight = stay;
        if read {
            self.mark(len + path.len());
        }
    }

    /// Copies the states. Of too many copies, the one with the nearest neighbours is dropped.
    fn mark(&mut self, len: usize) {
        let layers = (0..self.layers.len()).map(|layer| self.committed(layer)).collect();
        self.marks.push(Mark { len, accepted: self.accepted.len(), layers });
        if self.marks.len() > MOST_MARKS {
            let gap = |&at: &usize| {
                self.marks[at + 1].len - at.checked_sub(1).map_or(0, |at| self.marks[at].len)
            };
            if let Some(at) = (0..MOST_MARKS).min_by_key(gap) {
                self.marks.remove(at);
            }
        }
    }

    /// A layer without its rows in flight.
    fn committed(&self, layer: usize) -> LayerState {
        let LayerState { rows, state } = &self.layers[layer];
        let row = self.shape.row();
        let kept = self.window().chain(self.accepted.iter().copied());
        let rows = kept.flat_map(|at| &rows[at * row..(at + 1) * row]).copied().collect();
        LayerState { rows, state: state.clone() }
    }

    /// Replaces all states; the last `accepted` positions are not in them.
    fn put(&mut self, layers: Vec<LayerState>, accepted: usize) {
        self.layers = layers;
        self.base = 0;
        self.accepted = (self.window().end..).take(accepted).collect();
        self.flight.clear();
        self.ahead = 0;
    }

    /// The longest text of at most `len` of the `of` positions that it can go back to.
    fn reachable(&self, of: usize, len: usize) -> usize {
        if len >= of || of - len <= self.accepted.len() {
            return len.min(of);
        }
        let usable = self.marks.iter().filter(|mark| mark.base() <= len);
        usable.map(|mark| mark.len.min(len)).max().unwrap_or(0)
    }

    /// Goes back from `of` positions to [`Self::reachable`].
    pub(super) fn truncate(&mut self, of: usize, len: usize) -> usize {
        let to = self.reachable(of, len);
        self.marks.retain_mut(|mark| {
            let fits = mark.base() <= to;
            if fits && mark.len > to {
                mark.accepted -= mark.len - to;
                mark.len = to;
            }
            fits
        });
        self.marks.dedup_by_key(|mark| mark.len);
        self.flight.clear();
        self.ahead = 0;
        match self.marks.iter().find(|mark| mark.len == to) {
            _ if of - to <= self.accepted.len() => {
                self.accepted.truncate(self.accepted.len() - (of - to));
            }
            Some(mark) => self.put(mark.layers.clone(), mark.accepted),
            None => {
                let fresh = LayerState::new(&self.shape);
                self.put(vec![fresh; self.layers.len()], 0);
            }
        }
        to
    }

    /// Bytes that [`Self::save`] appends.
    pub(super) fn saved_bytes(&self) -> usize {
        8 + self.layers.len() * self.layer_bytes(self.accepted.len())
    }

    fn layer_bytes(&self, accepted: usize) -> usize {
        let rows = self.window().len().saturating_add(accepted).saturating_mul(self.shape.row());
        rows.saturating_add(self.shape.state()).saturating_mul(size_of::<f32>())
    }

    /// Appends how many rows are not in the states, and then each layer's rows and state.
    pub(super) fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.accepted.len() as u64).to_le_bytes());
        for layer in 0..self.layers.len() {
            let LayerState { rows, state } = self.committed(layer);
            out.extend(rows.iter().chain(&*state).flat_map(|number| number.to_ne_bytes()));
        }
    }

    /// Whether `bytes` are states of a text of `len` positions.
    pub(super) fn fits(&self, len: usize, bytes: &[u8]) -> bool {
        let Some((count, rest)) = bytes.split_first_chunk::<8>() else { return false };
        let accepted = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let bytes = self.layers.len().saturating_mul(self.layer_bytes(accepted));
        accepted <= len && rest.len() == bytes
    }

    /// Replaces all states by saved ones, which must fit.
    pub(super) fn restore(&mut self, bytes: &[u8]) {
        let numbers: Vec<f32> =
            bytes[8..].as_chunks().0.iter().map(|&bytes| f32::from_ne_bytes(bytes)).collect();
        let layer = numbers.len() / self.layers.len().max(1);
        let rows = layer - self.shape.state();
        let split = |numbers: &[f32]| {
            let (rows, state) = numbers.split_at(rows);
            LayerState { rows: rows.to_vec(), state: AlignedFloats::from(state) }
        };
        let accepted = rows / self.shape.row() - self.window().len();
        let layers = numbers.chunks_exact(layer.max(1)).map(split).collect();
        self.marks.clear();
        self.put(layers, accepted);
    }

    pub(super) fn bytes(&self) -> usize {
        let layer =
            |layer: &LayerState| size_of_val(&layer.rows[..]) + size_of_val(&layer.state[..]);
        let marks = self.marks.iter().flat_map(|mark| &mark.layers);
        self.layers.iter().chain(marks).map(layer).sum()
    }
}

impl LayerState {
    fn new(shape: &RecurrentShape) -> Self {
        let rows = vec![0.0; (shape.taps - 1) * shape.row()];
        Self { rows, state: AlignedFloats::zeroed(shape.state()) }
    }
}

/// The order in which a tree's rows are computed: depth first, with the last child's state in place
/// of its parent's. The child with most rows below it is the last, so a tree of n rows takes at
/// most log₂(n) + 1 states.
struct TreeOrder {
    /// The children of every row, and of the text, by how many rows there are below.
    children: Vec<Vec<usize>>,
    /// Row, the state that it starts from, and its own if there are rows below it.
    steps: Vec<(usize, usize, Option<usize>)>,
    states: usize,
}

impl TreeOrder {
    /// For the rows from `sure` on that are not `before` a pass or have such a row below them.
    fn new(parents: &[Option<usize>], before: usize, sure: usize) -> Self {
        let count = parents.len();
        let mut below = vec![0; count + 1];
        let mut children = vec![Vec::new(); count + 1];
        for row in (sure..count).rev() {
            below[row] += usize::from(row >= before);
            if below[row] > 0 {
                let parent = parents[row].filter(|&parent| parent >= sure).unwrap_or(count);
                below[parent] += below[row];
                children[parent].push(row);
            }
        }
        for children in &mut children {
            children.sort_by_key(|&row| below[row]);
        }
        Self { children, steps: Vec::new(), states: 0 }
    }

    /// The rows below `row`, whose state is `from`, with the states from `free` on.
    fn visit(&mut self, row: usize, from: usize, free: usize) {
        let children = std::mem::take(&mut self.children[row]);
        for (i, &child) in children.iter().enumerate() {
            // The layer's own state stays.
            let to = if i + 1 == children.len() && from != 0 { from } else { free };
            let is_leaf = self.children[child].is_empty();
            self.steps.push((child, from, (!is_leaf).then_some(to)));
            if !is_leaf {
                self.states = self.states.max(to);
                self.visit(child, to, free.max(to + 1));
            }
        }
    }
}

impl KvCache {
    /// The same cache with the states of `layers` recurrent layers.
    ///
    /// # Panics
    /// If a width is not a multiple of 16 or the convolution does not span two rows.
    #[must_use]
    pub fn with_recurrent(mut self, shape: RecurrentShape, layers: usize) -> Self {
        let RecurrentShape { taps, channels, heads, key_heads, key, .. } = shape;
        assert!([channels, key].iter().all(|width| width.is_multiple_of(16)));
        assert!(taps > 1 && (heads == 0 || key_heads > 0 && heads.is_multiple_of(key_heads)));
        self.recurrent = Some(Box::new(RecurrentStates::new(shape, layers)));
        self
    }

    /// Bytes of the states of `layers` recurrent layers and of their copies.
    pub fn recurrent_bytes(shape: &RecurrentShape, layers: usize) -> usize {
        let rows = shape.row().saturating_mul(shape.taps - 1 + TAIL);
        let layer = shape.state().saturating_add(rows).saturating_mul(size_of::<f32>());
        layers.saturating_mul(layer).saturating_mul(1 + MOST_MARKS)
    }

    /// Announces that the `rows` rows of the next pass follow one another and will be committed.
    pub fn will_commit(&mut self, rows: usize) {
        if let Some(states) = &mut self.recurrent {
            states.sure = rows.saturating_sub(TAIL);
        }
    }

    /// Begins a pass on `mask`. Recurrent layers need this, others do not.
    pub fn begin(&mut self, mask: &TreeMask) {
        if let Some(states) = &mut self.recurrent {
            states.begin(mask);
        }
    }

    /// Runs the rows of a pass through recurrent layer `layer`: their convolution's `inputs`, `[m,
    /// channels]`, and `gates`, `[m, 2 · heads]`, which are the decays and then the factors of all
    /// heads. The results are `[m, RecurrentShape::outputs]`. Every cache has the same number of
    /// rows, the first cache the first ones.
    ///
    /// # Panics
    /// If a cache has states but not of this layer, [`Self::begin`] was not called or the shapes
    /// disagree.
    pub fn recur(
        pool: &Pool,
        caches: &mut [Self],
        layer: usize,
        weights: &StateWeights,
        [inputs, gates]: [&[f32]; 2],
        out: &mut [f32],
    ) {
        let parts = caches.len();
        let part = |all: usize, i: usize| all / parts * i..all / parts * (i + 1);
        let results = out.len();
        for (i, cache) in caches.iter_mut().enumerate() {
            let [inputs, gates] = [inputs, gates].map(|all| &all[part(all.len(), i)]);
            if let Some(states) = &mut cache.recurrent {
                states.run(pool, layer, weights, [inputs, gates], &mut out[part(results, i)]);
            }
        }
    }

    /// The state of recurrent layer `layer` before the rows of the last pass: the last inputs of
    /// its convolution, `[taps − 1, channels]`, and the states of its heads, `[heads, value, key]`;
    /// `None` if there is no such layer. For inspection.
    pub fn recurrent_state(&self, layer: usize) -> Option<[Vec<f32>; 2]> {
        let states = self.recurrent.as_ref()?;
        let RecurrentShape { channels, heads, key, value, .. } = states.shape;
        let LayerState { rows, state } = states.layers.get(layer)?;
        let rows = rows.chunks_exact(states.shape.row());
        let rows = rows.skip(states.base).take(states.window().len());
        let at = |head: usize, v: usize, k: usize| {
            state[((head * states.shape.blocks() + v / 16) * key + k) * 16 + v % 16]
        };
        let all = (0..heads).flat_map(|head| (0..value).map(move |v| (head, v)));
        let numbers = all.flat_map(|(head, v)| (0..key).map(move |k| at(head, v, k)));
        Some([rows.flat_map(|row| &row[..channels]).copied().collect(), numbers.collect()])
    }

    /// How many of the first `len` positions [`Self::truncate`] would leave.
    pub fn reachable(&self, len: usize) -> usize {
        self.recurrent.as_ref().map_or(len, |states| states.reachable(self.len, len))
    }
}
