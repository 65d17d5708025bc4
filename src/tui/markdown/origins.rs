//! Which bytes of an answer came from the draft and which from the target. Must never know how they
//! are shown.

use std::ops::Range;

use crate::decode::Origin;

/// Run-length map from the bytes of a growing text to who put them there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// `(end, origin)`: the run reaches up to byte `end` of the text. Ends rise.
    runs: Vec<(usize, Origin)>,
}

impl Origins {
    /// Notes that the next `bytes` of the text have this origin.
    pub fn push(&mut self, bytes: usize, origin: Origin) {
        if bytes == 0 {
            return;
        }
        let end = self.len() + bytes;
        match self.runs.last_mut() {
            Some(last) if last.1 == origin => last.0 = end,
            _ => self.runs.push((end, origin)),
        }
    }

    /// Keeps the first `bytes` of the text.
    pub fn truncate(&mut self, bytes: usize) {
        let kept = self.runs.partition_point(|run| run.0 < bytes);
        if let Some(last) = self.runs.get_mut(kept) {
            last.0 = bytes;
            self.runs.truncate(kept + usize::from(bytes > 0));
        }
    }

    /// Bytes covered; text beyond (or all of it, when empty) has no known origin.
    pub fn len(&self) -> usize {
        self.runs.last().map_or(0, |run| run.0)
    }

    /// Cuts `range` into pieces of one origin each, in order and without gaps.
    pub fn split(
        &self,
        range: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, Option<Origin>)> {
        let mut start = range.start;
        let mut run = self.runs.partition_point(|run| run.0 <= start);
        std::iter::from_fn(move || {
            if start >= range.end {
                return None;
            }
            let (end, origin) = match self.runs.get(run) {
                Some(&(end, origin)) => (end.min(range.end), Some(origin)),
                None => (range.end, None),
            };
            let piece = (start..end, origin);
            start = end;
            run += 1;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_merge_and_split_at_their_borders() {
        let mut origins = Origins::default();
        origins.push(2, Origin::Target);
        origins.push(3, Origin::Accepted);
        origins.push(1, Origin::Accepted);
        origins.push(0, Origin::Target);
        assert_eq!(origins.len(), 6);
        let pieces: Vec<_> = origins.split(1..8).collect();
        assert_eq!(
            pieces,
            [(1..2, Some(Origin::Target)), (2..6, Some(Origin::Accepted)), (6..8, None)]
        );
    }
}
