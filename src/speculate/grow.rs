//! Growing and reranking a dynamic tree (EAGLE-2; method.md, Tree growth) as a state machine that a
//! drafter drives: it passes in the candidates of the first level, then for each beam the
//! candidates of its rows.
//!
//! SpecExec's search (method.md, Strategies) differs in only two numbers. Its beam is as wide as
//! its budget (up to [`SEARCH_BEAM`] rows) and does not depend on the branching. So every node is
//! expanded in the step after it was found, and what the paper calls the best unexpanded nodes are
//! those of the newest level. And every step down costs a factor ([`SEARCH_DECAY`]) in addition to
//! the token's probability, so that of equally likely nodes the shallower one is kept.
//!
//! Candidates have flat ids in order of creation and are ranked by (score descending, id
//! ascending). A child's score is not higher than its parent's and its id is higher, so the first n
//! nodes of that ranking always include the parents of all of them.
//!
//! **What is left out without changing the result.** The tree keeps the γ − 1 best candidates.
//! Ranks only fall as candidates are added, so a candidate that is not among the γ − 1 best is
//! forgotten at once. A child ranks after its parent, so a beam row is expanded only if its own
//! rank leaves room for one more, that is, if it is among the γ − 2 best. Leaving a row out makes
//! room in the next beam only for candidates that rank after the row's children, hence after the
//! row, and so are not kept either. A small γ thus saves most of the k·k products of a level, and
//! often whole levels.

use super::tree::{Method, Shape, Tree};

/// The most rows that a search expands at once.
pub const SEARCH_BEAM: usize = 128;
/// The factor by which a search lowers the rank of a node for each step down.
pub const SEARCH_DECAY: f32 = 0.95;

/// A row of the next draft forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeamRow {
    /// The token to embed.
    pub token: u32,
    /// The scratch row whose output is this row's feature, `None` for the last stable row. Scratch
    /// rows are numbered from 0 over all beams of the tree, in order of expansion.
    pub source: Option<usize>,
    /// The scratch rows that this row attends to in addition to the stable prefix and itself, from
    /// the first level down. The last one is `source`.
    pub ancestors: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    id: usize,
    /// Flat id of the parent, `None` below the root.
    parent: Option<usize>,
    /// The scratch row that proposed it.
    source: Option<usize>,
    token: u32,
    log_prob: f32,
    score: f32,
}

/// A tree while it grows.
#[derive(Clone, Debug)]
pub struct Growth {
    shape: Shape,
    /// The most rows in a beam.
    beam_width: usize,
    /// Added to a node's score for each step down, in addition to the log-probability; never
    /// above 0.
    step: f32,
    /// The best candidates so far, in ranking order; at most γ − 1.
    pool: Vec<Candidate>,
    /// How many candidates have been made so far.
    made: usize,
    /// The rows to expand next, and the candidate of each row.
    beam: Vec<BeamRow>,
    members: Vec<Candidate>,
    /// The ancestors of each scratch row, including itself.
    paths: Vec<Vec<usize>>,
    /// How many more expansions are allowed.
    levels: usize,
}

impl Growth {
    /// A tree of at most `shape.gamma` nodes, from the candidates of the first level: (token,
    /// log-probability), likeliest first, as [`super::top_log_probs`] of the last stable row with
    /// `shape.width` returns them. Candidates beyond `shape.width`, NaN and minus infinity are left
    /// out.
    ///
    /// By SpecExec's search it is the best `shape.gamma` nodes by decayed score, including the
    /// root, with at most `shape.depth` expansions below the first level; the log-probabilities in
    /// the tree do not include the decay. A drafter that cannot make sequences grows them as an
    /// ordinary tree.
    pub fn new(method: Method, shape: Shape, first: &[(u32, f32)]) -> Self {
        let (beam_width, step) = match method {
            Method::Search => (SEARCH_BEAM, SEARCH_DECAY.ln()),
            Method::Tree | Method::Sequences { .. } => (shape.width, 0.0),
        };
        Self::with_beam(shape, beam_width, step, first)
    }

    /// The tree of the most probable nodes, for a drafter to which the rows of a beam cost nothing:
    /// no beam leaves one of them out (DDTree, Ringel and Romano 2026).
    pub fn best_first(shape: Shape, first: &[(u32, f32)]) -> Self {
        Self::with_beam(shape, shape.gamma, 0.0, first)
    }

    fn with_beam(shape: Shape, beam_width: usize, step: f32, first: &[(u32, f32)]) -> Self {
        let mut growth = Self {
            shape,
            beam_width,
            step,
            pool: Vec::new(),
            made: 0,
            beam: Vec::new(),
            members: Vec::new(),
            paths: Vec::new(),
            levels: shape.depth,
        };
        growth.add(None, None, 0.0, first);
        growth.close(0);
        growth
    }

    /// How many levels it has so far, without the root.
    pub fn levels(&self) -> usize {
        1 + self.shape.depth - self.levels
    }

    /// The rows of the next draft forward; empty when the tree is complete.
    pub fn beam(&self) -> &[BeamRow] {
        if self.levels == 0 { &[] } else { &self.beam }
    }

    /// Whether there is a next draft forward, of which at least `least_pass` rows are expected to
    /// be accepted.
    pub fn pays(&self, least_pass: f64) -> bool {
        let accepted: f64 = self.members.iter().map(|member| f64::from(member.score).exp()).sum();
        !self.beam().is_empty() && accepted >= least_pass
    }

    /// Takes the candidates of each row of [`Self::beam`], in the form that [`Self::new`] takes,
    /// and chooses the next beam. A row without candidates (or a missing one) ends there.
    pub fn expand(&mut self, candidates: &[Vec<(u32, f32)>]) {
        if self.beam().is_empty() {
            return;
        }
        let level = self.made;
        let rows = std::mem::take(&mut self.beam);
        let members = std::mem::take(&mut self.members);
        for (i, (row, member)) in rows.into_iter().zip(members).enumerate() {
            let number = self.paths.len();
            let mut path = row.ancestors;
            path.push(number);
            self.paths.push(path);
            let children = candidates.get(i).map_or(&[][..], Vec::as_slice);
            self.add(Some(member.id), Some(number), member.score, children);
        }
        self.levels -= 1;
        self.close(level);
    }

    /// The best γ − 1 candidates (or all, if there are fewer) under `root`, in order of creation.
    pub fn finish(mut self, root: u32) -> Tree {
        self.pool.sort_unstable_by_key(|candidate| candidate.id);
        let mut tree = Tree::root(root);
        for candidate in &self.pool {
            // The pool is closed under parents and parents have lower ids.
            let parent = candidate
                .parent
                .and_then(|id| self.pool.binary_search_by_key(&id, |c| c.id).ok())
                .map_or(0, |rank| rank + 1);
            tree.push(parent, candidate.token, candidate.log_prob);
        }
        tree
    }

    /// Appends the children of one row to the pool, unranked.
    fn add(
        &mut self,
        parent: Option<usize>,
        source: Option<usize>,
        above: f32,
        children: &[(u32, f32)],
    ) {
        for &(token, log_prob) in children.iter().take(self.shape.width) {
            let id = self.made;
            self.made += 1;
            // Rounding may make a log-probability positive; scores must not rise.
            let log_prob = log_prob.min(0.0);
            // Adding 0 turns -0 into 0, because the two must have the same rank.
            let score = above + self.step + log_prob + 0.0;
            if log_prob.is_finite() && score.is_finite() {
                self.pool.push(Candidate { id, parent, source, token, log_prob, score });
            }
        }
    }

    /// Ranks the pool, forgets what cannot be kept and chooses the beam among the candidates with
    /// ids from `level` on.
    fn close(&mut self, level: usize) {
        self.pool.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.id.cmp(&b.id)));
        self.pool.truncate(self.shape.gamma.saturating_sub(1));
        let hopeful = self.pool.iter().take(self.shape.gamma.saturating_sub(2));
        let newest = hopeful.filter(|candidate| candidate.id >= level);
        self.members = newest.take(self.beam_width).copied().collect();
        let row = |candidate: &Candidate| BeamRow {
            token: candidate.token,
            source: candidate.source,
            ancestors: candidate.source.map_or_else(Vec::new, |row| self.paths[row].clone()),
        };
        self.beam = self.members.iter().map(row).collect();
    }
}
