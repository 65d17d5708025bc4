//! Acceptance, which is lossless speculative sampling: the target draws one token per position, and
//! the walk continues to the child that holds it (method.md, Acceptance). Because the candidates
//! are a deterministic function of the text, this has the same distribution as rejecting them one
//! by one, for every sampler, and the draws are those of plain decoding.

use super::{Logprobs, Sampler, TokenUses, Tree};

/// The accepted path of a tree and the bonus token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Accepted nodes, root first, each the parent of the next.
    pub path: Vec<usize>,
    /// The bonus token: the target's own choice after the last accepted node. 0 if the root's row
    /// has no number, which [`no_number`] says; the walk ends before any other such row.
    pub bonus: u32,
    /// What the target thought of the position of each committed token, in order.
    pub logprobs: Vec<Logprobs>,
}

impl Accepted {
    /// The tokens the round commits: accepted drafts, then the bonus token.
    pub fn tokens<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = u32> + 'a {
        let drafted = self.path[1..].iter().map(|&node| tree.nodes()[node].token);
        drafted.chain([self.bonus])
    }
}

/// Whether no logit of `row` is a number, if `token` was drawn there: any number is drawn before
/// NaN.
pub fn no_number(row: &[f32], token: u32) -> bool {
    row[token as usize].is_nan() && row.iter().all(|logit| logit.is_nan())
}

/// Walks down `tree` to the end of the accepted path.
///
/// `logits` are the target's, `[tree.len(), vocab]` row-major; `position` is that of the root in
/// the text; `history` is the text up to and including the root, and is extended by every committed
/// token.
pub fn accept(
    tree: &Tree,
    logits: &[f32],
    sampler: &mut Sampler,
    position: usize,
    history: &mut TokenUses,
) -> Accepted {
    let vocab = logits.len() / tree.len();
    let mut path = vec![0];
    let mut logprobs = Vec::new();
    let mut node = 0;
    loop {
        let row = &logits[node * vocab..(node + 1) * vocab];
        let token = sampler.draw(row, position + path.len(), history);
        if path.len() > 1 && no_number(row, token) {
            // The token before it was chosen by numbers; the next round will begin here.
            path.pop();
            return Accepted { path, bonus: tree.nodes()[node].token, logprobs };
        }
        logprobs.push(sampler.logprobs(row, token, history));
        history.push(token);
        match tree.child(node, token) {
            Some(child) => {
                path.push(child);
                node = child;
            }
            None => return Accepted { path, bonus: token, logprobs },
        }
    }
}
