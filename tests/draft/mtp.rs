//! Heads in their targets' own files against the reference program's numbers: the rows of a prompt
//! and of a verified draft, drafts from them, and what is kept between.

use dovetail::draft::{Budget, DraftRequest, Drafter};
use dovetail::model::Target;
use dovetail::model::head::{HeadBackend, Pairs};
use dovetail::speculate::{BeamRow, Ranking, Shape, Tree, top_log_probs};

use crate::support::gguf::Gguf;
use crate::support::golden::assert_close;
use crate::support::gpu::gpu;
use crate::support::library::arch_file;
use crate::support::mtp::{MTP_HEADS, MtpCase, Vectors, alike};

/// As the vectors' README requires.
const TOLERANCE: f32 = 1e-4;

fn best(logits: &[f32]) -> u32 {
    top_log_probs(logits, 1)[0].0
}

/// All tokens' log-probabilities of a row.
fn log_probs(logits: &[f32]) -> Vec<f32> {
    by_token(&top_log_probs(logits, logits.len()))
}

fn by_token(ranked: &[(u32, f32)]) -> Vec<f32> {
    let mut all = vec![f32::NAN; ranked.len()];
    for &(token, log_prob) in ranked {
        all[token as usize] = log_prob;
    }
    all
}

/// A round's vectors, and the width of a row.
struct Round<'a> {
    name: &'a str,
    vectors: &'a Vectors,
    round: &'a str,
    /// What follows the names of the first block's vectors.
    block: &'a str,
    vocab: usize,
    hidden: usize,
}

impl Round<'_> {
    fn floats(&self, what: &str) -> Vec<f32> {
        self.vectors.floats(&format!("{}.{what}", self.round))
    }

    fn is_near(&self, what: &str, found: &[f32], expected: &[f32]) {
        assert_close(&format!("{} {} {what}", self.name, self.round), found, expected, TOLERANCE);
    }

    /// The rows from `first` on, each run alone, with what each proposes; `head` has the rows
    /// before them.
    fn rows(&self, head: &mut dyn HeadBackend, first: usize, features: &[f32], tokens: &[u32]) {
        let expected = self.floats(&format!("process_hidden{}", self.block));
        let logits = self.floats(&format!("process_logits{}", self.block));
        let rows = expected.len() / self.hidden;
        for (i, &token) in tokens.iter().enumerate() {
            let features = &features[i * self.hidden..(i + 1) * self.hidden];
            head.extend(1 + first + i, Pairs { features, tokens: &[token] }, 1).unwrap();
            let row = rows - tokens.len() + i;
            let [hidden, vocab] = [self.hidden, self.vocab];
            let expected = &expected[row * hidden..(row + 1) * hidden];
            self.is_near("hidden", &head.outputs().unwrap(), expected);
            let ranked = head.rank_root(&Ranking::new(vocab)).unwrap();
            let expected = log_probs(&logits[row * vocab..(row + 1) * vocab]);
            self.is_near("log-probabilities", &by_token(&ranked), &expected);
        }
    }

    /// A chain of drafts after the last row of `head`, of which the first block drafts `own`.
    fn drafts(&self, head: &mut dyn HeadBackend, own: usize) {
        let tokens = self.vectors.tokens(&format!("{}.draft_tokens", self.round));
        let ranking = Ranking::new(self.vocab);
        let mut ranked = head.rank_root(&ranking).unwrap();
        for (step, &token) in tokens.iter().enumerate().take(own) {
            let expected = self.floats(&format!("draft{step}_hidden"));
            self.is_near("draft", &head.outputs().unwrap(), &expected);
            let expected = log_probs(&self.floats(&format!("draft{step}_logits")));
            self.is_near("draft's log-probabilities", &by_token(&ranked), &expected);
            assert_eq!(ranked[0].0, token, "{} {} {step}", self.name, self.round);
            let ancestors: Vec<usize> = (0..step).collect();
            let beam = BeamRow { token, source: ancestors.last().copied(), ancestors };
            ranked = head.step(&[beam], &ranking).unwrap().pop().unwrap_or_default();
        }
    }
}

#[test]
fn two_rounds_are_the_reference_programs() {
    let on_gpu = gpu().map(|gpu| (MTP_HEADS[0], Some(gpu)));
    for (name, gpu) in MTP_HEADS.map(|head| (head, None)).into_iter().chain(on_gpu) {
        let vectors = &Vectors::load(name);
        let mut case = MtpCase::load(name);
        let (vocab, hidden) = (case.target.vocab(), case.target.feature_width());
        // MiMo drafts its second token with its second block.
        let (head, own) = if name == "mimo2" { (".head0", 1) } else { ("", 4) };
        let of = |round| Round { name, vectors, round, block: head, vocab, hidden };
        let tokens = vectors.tokens("tokens");
        let n = tokens.len();

        let round = of("r1");
        let read = case.target.prefill(&tokens).unwrap();
        round.is_near("target", &read.features, &round.floats("target_hidden"));
        let logits = round.floats("target_logits");
        round.is_near("target's logits", &read.logits, &logits[(n - 1) * vocab..]);
        let mut head: Box<dyn HeadBackend> = match &gpu {
            Some(gpu) => Box::new(case.on_gpu(gpu)),
            None => Box::new(case.head()),
        };
        let head = head.as_mut();
        let zeros = &vec![0.0; hidden];
        head.extend(0, Pairs { features: zeros, tokens: &tokens[..1] }, 1).unwrap();
        round.is_near(
            "first row",
            &head.outputs().unwrap(),
            &round.floats(&format!("process_hidden{}", round.block))[..hidden],
        );
        round.rows(head, 0, &read.features[..(n - 1) * hidden], &tokens[1..]);
        let next = best(&read.logits);
        let last = &read.features[(n - 1) * hidden..];
        head.extend(n, Pairs { features: last, tokens: &[next] }, 1).unwrap();
        round.drafts(head, own);

        let round = of("r2");
        let checked = vectors.tokens("r2.tokens");
        let accepted = vectors.tokens("r2.accepted")[0] as usize;
        assert_eq!(checked[0], next);
        let mut tree = Tree::root(next);
        checked[1..].iter().for_each(|&token| _ = tree.push(tree.len() - 1, token, -1.0));
        let seen = case.target.verify(&tree).unwrap();
        round.is_near("target", &seen.features, &round.floats("target_hidden"));
        round.is_near("target's logits", &seen.logits, &round.floats("target_logits"));
        // The true rows replace the drafted ones.
        let rows = [last, &seen.features[..4 * hidden]].concat();
        round.rows(head, n - 1, &rows, &checked);
        // And what follows the accepted rows replaces the rejected ones.
        let bonus = best(&seen.logits[accepted * vocab..(accepted + 1) * vocab]);
        let features = &seen.features[accepted * hidden..(accepted + 1) * hidden];
        head.extend(n + 1 + accepted, Pairs { features, tokens: &[bonus] }, 1).unwrap();
        round.drafts(head, own);
    }
}

/// MiMo's two heads draft a level each, over two rounds.
#[test]
fn each_of_mimos_heads_drafts_a_level() {
    let vectors = &Vectors::load("mimo2");
    let case = MtpCase::load("mimo2");
    let (vocab, hidden) = (case.target.vocab(), case.target.feature_width());
    let of = |round| Round { name: "mimo2", vectors, round, block: ".head1", vocab, hidden };
    let tokens = vectors.tokens("tokens");
    let n = tokens.len();
    let mut heads = case.heads();
    let zeros = &vec![0.0; hidden];
    heads.extend(0, Pairs { features: zeros, tokens: &tokens[..1] }, 1).unwrap();
    let checked = vectors.tokens("r2.tokens");
    let mut features = of("r1").floats("target_hidden");
    let pairs = [&tokens[1..], &checked[..1]].concat();
    heads.extend(1, Pairs { features: &features, tokens: &pairs }, 1).unwrap();
    of("r1").drafts(heads.as_mut(), 2);
    let accepted = vectors.tokens("r2.accepted")[0] as usize;
    features = of("r2").floats("target_hidden")[..(accepted + 1) * hidden].to_vec();
    let logits = of("r2").floats("target_logits");
    let bonus = best(&logits[accepted * vocab..(accepted + 1) * vocab]);
    let pairs = [&checked[1..=accepted], &[bonus]].concat();
    heads.extend(n + 1, Pairs { features: &features, tokens: &pairs }, 1).unwrap();
    of("r2").drafts(heads.as_mut(), 2);
    // There is no third level.
    let row = BeamRow { token: 1, source: Some(1), ancestors: vec![0, 1] };
    assert_eq!(heads.step(&[row], &Ranking::new(3)).unwrap(), Vec::<Vec<_>>::new());
}

/// Three heads with the same weights draft what one of them drafts alone, in every bit.
#[test]
fn heads_that_are_alike_draft_as_one() {
    let mut case = alike(3);
    let text = Vectors::load("mimo2").tokens("tokens");
    let features = case.target.prefill(&text[..text.len() - 1]).unwrap().features;
    let root = text[text.len() - 1];
    let tree = |heads| {
        let mut drafter = case.drafter_with(heads);
        drafter.observe(&features, &text[1..]).unwrap();
        let shape = Shape { gamma: 24, width: 4, depth: 2 };
        drafter.propose(&text, &DraftRequest::new(root, Budget::new(shape, 1))).unwrap()
    };
    let chained = tree(case.heads());
    assert_eq!(chained.nodes().iter().map(|node| node.depth).max(), Some(3), "{chained:?}");
    assert_eq!(chained, tree(Box::new(case.head())));
}

/// A text's tree after any history of the drafter is that of a new drafter, in every bit.
#[test]
fn what_was_dropped_leaves_no_trace() {
    for name in MTP_HEADS {
        let mut case = MtpCase::load(name);
        let hidden = case.target.feature_width();
        let shape = Shape { gamma: 12, width: 3, depth: 4 };
        let request = |root| DraftRequest::new(root, Budget::new(shape, 1));
        let text = Vectors::load(name).tokens("tokens");
        let mut other = text.clone();
        other[0] ^= 1;
        other.truncate(9);
        let mut used = case.drafter();
        // Texts that begin like others or do not, down to a prompt of one token.
        for text in [&text[..], &text[..7], &other[..], &other[..2], &text[..2], &text[..]] {
            case.target.truncate(0);
            let features = case.target.prefill(&text[..text.len() - 1]).unwrap().features;
            let root = text[text.len() - 1];
            let mut fresh = case.drafter();
            fresh.observe(&features, &text[1..]).unwrap();
            let expected = fresh.propose(text, &request(root)).unwrap();
            assert!(expected.len() > 8, "{name}: {expected:?}");
            // A wrong token in the middle is drafted from and dropped.
            let half = text.len() / 2;
            used.truncate(0);
            used.observe(&features[..half * hidden], &text[1..=half]).unwrap();
            let wrong = text[half] ^ 3;
            used.truncate(half - 1);
            used.observe(&features[(half - 1) * hidden..half * hidden], &[wrong]).unwrap();
            let told = [&text[..half], &[wrong]].concat();
            used.propose(&told, &request(wrong)).unwrap();
            used.truncate(half - 1);
            used.observe(&features[(half - 1) * hidden..], &text[half..]).unwrap();
            assert_eq!(used.propose(text, &request(root)).unwrap(), expected, "{name}");
        }
    }
}

/// A file of the model alone still says how many blocks there were.
#[test]
fn a_file_without_the_blocks_has_no_head() {
    let mut file = Gguf::read(&arch_file("qwen35.gguf"));
    assert!(file.open().unwrap().mtp.is_some_and(|head| head.blocks() == 1));
    file.tensors.retain(|name, _| !name.starts_with("blk.4."));
    assert!(file.open().unwrap().mtp.is_none());
}
