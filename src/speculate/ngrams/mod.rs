//! An n-gram table: what a target considered likely after the last one to five tokens, made in
//! advance from its own texts. It is token recycling (Luo et al. 2024, arXiv 2408.08696) that
//! starts with what earlier texts have shown, or llama.cpp's static lookup cache with the target's
//! probabilities instead of counts. It must not depend on files.
//!
//! The table is flat: the hash of a context determines its slot, which holds a check value of the
//! context and the tokens that are likely there. Two contexts with the same check value (one pair
//! in four billion) cost a wrong guess and never change the text.

mod builder;

pub use builder::NgramBuilder;

/// The longest context.
pub const ORDERS: usize = 5;
/// How many tokens a slot has: what is less likely than the fourth is hardly ever worth a node.
pub const KEPT: usize = 4;

/// How many slots are searched before a context counts as unknown.
const PROBES: usize = 32;
/// How many steps of a stored probability make one nat.
const STEPS: f32 = 16.0;
/// Stored instead of a probability if a slot has fewer tokens.
const NO_TOKEN: u8 = u8::MAX;

/// Next tokens by context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NgramTable {
    /// `[slots]`: the check value of the context in the slot; 0 if the slot is empty.
    checks: Vec<u32>,
    /// `[slots, KEPT]`: likeliest first.
    tokens: Vec<u32>,
    /// `[slots, KEPT]`: −ln p in steps of 1/16.
    costs: Vec<u8>,
}

/// The parts of a table have different lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{checks} slots with {tokens} tokens and {costs} probabilities instead of {KEPT} of each")]
pub struct UnevenTable {
    checks: usize,
    tokens: usize,
    costs: usize,
}

impl NgramTable {
    /// A table from these parts: for each slot a check value, and four tokens with their costs.
    ///
    /// # Errors
    /// If their lengths do not match.
    pub fn new(checks: Vec<u32>, tokens: Vec<u32>, costs: Vec<u8>) -> Result<Self, UnevenTable> {
        let parts = (checks.len(), tokens.len(), costs.len());
        if parts.1 != parts.0 * KEPT || parts.2 != parts.1 {
            return Err(UnevenTable { checks: parts.0, tokens: parts.1, costs: parts.2 });
        }
        Ok(Self { checks, tokens, costs })
    }

    /// Checks, tokens and costs, slot by slot.
    pub fn parts(&self) -> (&[u32], &[u32], &[u8]) {
        (&self.checks, &self.tokens, &self.costs)
    }

    /// How many contexts are known.
    pub fn len(&self) -> usize {
        self.checks.iter().filter(|&&check| check != 0).count()
    }

    /// Whether no context is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest known suffix of `text` (its length) and what is likely after it: (token, ln p),
    /// likeliest first.
    pub fn after(&self, text: &[u32]) -> Option<(usize, Vec<(u32, f32)>)> {
        (1..=ORDERS.min(text.len())).rev().find_map(|order| {
            let slot = self.slot(&text[text.len() - order..])?;
            Some((order, self.likely(slot)))
        })
    }

    fn likely(&self, slot: usize) -> Vec<(u32, f32)> {
        let at = slot * KEPT..(slot + 1) * KEPT;
        let pairs = self.tokens[at.clone()].iter().zip(&self.costs[at]);
        let known = pairs.filter(|&(_, &cost)| cost != NO_TOKEN);
        known.map(|(&token, &cost)| (token, -f32::from(cost) / STEPS)).collect()
    }

    /// The slot of a context.
    fn slot(&self, context: &[u32]) -> Option<usize> {
        let (check, way) = way(context, self.checks.len());
        for slot in way {
            match self.checks[slot] {
                0 => return None,
                found if found == check => return Some(slot),
                _ => {}
            }
        }
        None
    }

    /// An empty table with this many slots.
    fn with_slots(slots: usize) -> Self {
        Self {
            checks: vec![0; slots],
            tokens: vec![0; slots * KEPT],
            costs: vec![NO_TOKEN; slots * KEPT],
        }
    }

    /// Inserts a context that is not in the table yet; `false` if all slots that it may use are
    /// taken.
    fn put(&mut self, context: &[u32], likely: &[(u32, f32)]) -> bool {
        let (check, mut way) = way(context, self.checks.len());
        let Some(slot) = way.find(|&slot| self.checks[slot] == 0) else { return false };
        self.checks[slot] = check;
        for (kept, &(token, probability)) in likely.iter().take(KEPT).enumerate() {
            self.tokens[slot * KEPT + kept] = token;
            self.costs[slot * KEPT + kept] = cost(probability);
        }
        true
    }
}

/// A probability in its stored form.
fn cost(probability: f32) -> u8 {
    let steps = (-probability.max(f32::MIN_POSITIVE).ln() * STEPS).round();
    // It is below 0 only if rounding made a sum of probabilities exceed 1.
    steps.clamp(0.0, f32::from(NO_TOKEN - 1)) as u8
}

/// A context's check value, and the slots that it may use, in the order in which they are tried.
fn way(context: &[u32], slots: usize) -> (u32, impl Iterator<Item = usize>) {
    // The length comes first, above every token, so that no context looks like the end of a longer
    // one. Multiplied and shifted as in splitmix64.
    let hash = context.iter().fold((context.len() as u64) << 32, |hash, &token| {
        let mixed = (hash ^ u64::from(token)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    });
    let hash = hash ^ (hash >> 32);
    let first = ((u128::from(hash) * slots as u128) >> 64) as usize;
    let tried = (0..PROBES.min(slots)).map(move |step| (first + step) % slots);
    ((hash as u32).max(1), tried)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_known_context_answers() {
        let mut table = NgramTable::with_slots(16);
        assert!(table.put(&[3], &[(4, 0.5), (5, 0.25)]));
        assert!(table.put(&[2, 3], &[(6, 1.0)]));
        assert!(table.put(&[9, 9, 1, 2, 3], &[(7, 0.1), (8, 0.1), (9, 0.1), (1, 0.1), (2, 0.1)]));
        let best = |text: &[u32]| table.after(text).map(|(order, likely)| (order, likely[0].0));
        assert_eq!(best(&[1, 2, 3]), Some((2, 6)));
        assert_eq!(best(&[4, 9, 9, 1, 2, 3]), Some((5, 7)));
        assert_eq!(best(&[8, 3]), Some((1, 4)));
        assert_eq!((best(&[]), best(&[2])), (None, None));
        assert_eq!((table.len(), table.is_empty()), (3, false));
        let (_, likely) = table.after(&[3]).unwrap();
        assert_eq!(likely.len(), 2);
        assert!((likely[0].1 - 0.5f32.ln()).abs() < 1.0 / STEPS, "{likely:?}");
        assert_eq!(table.after(&[9, 9, 1, 2, 3]).unwrap().1.len(), KEPT);
    }

    #[test]
    fn a_full_table_says_so_and_a_hostile_one_ends() {
        let mut table = NgramTable::with_slots(4);
        let put = (0..9).filter(|&token| table.put(&[token], &[(1, 1.0)])).count();
        assert_eq!((put, table.len()), (4, 4));
        assert!(NgramTable::default().after(&[1, 2]).is_none());
        let full = NgramTable::new(vec![7; 99], vec![0; 396], vec![0; 396]).unwrap();
        assert!(full.after(&[1, 2, 3]).is_none());
        let error = NgramTable::new(vec![0; 3], vec![0; 12], vec![0; 11]).unwrap_err();
        assert!(error.to_string().starts_with("3 slots with 12 tokens and 11"), "{error}");
    }

    #[test]
    fn probabilities_are_kept_to_a_sixteenth_of_a_nat() {
        for probability in [1.0, 1.0001, 0.9, 0.5, 0.01, 1e-6, 0.0, f32::NAN] {
            let stored = -f32::from(cost(probability)) / STEPS;
            assert!((-16.0..=0.0).contains(&stored));
            if (1e-6..1.0).contains(&probability) {
                assert!((stored - probability.ln()).abs() <= 0.5 / STEPS, "{probability}");
            }
        }
    }
}
