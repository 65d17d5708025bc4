//! Who proposed a token of a draft tree, so that accepted tokens can be credited. It must not
//! depend on a drafter.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::DrafterId;

/// A set of sources; serialised as a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources(u16);

impl Sources {
    /// No source.
    pub const NONE: Self = Self(0);

    /// Only this source.
    pub fn of(source: DrafterId) -> Self {
        Self(1 << source as u8)
    }

    /// The union of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Each source in the set.
    pub fn iter(self) -> impl Iterator<Item = DrafterId> {
        DrafterId::all().filter(move |&source| self.0 & Self::of(source).0 != 0)
    }
}

impl FromIterator<DrafterId> for Sources {
    fn from_iter<I: IntoIterator<Item = DrafterId>>(sources: I) -> Self {
        sources.into_iter().fold(Self::NONE, |all, source| all.and(Self::of(source)))
    }
}

impl Serialize for Sources {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Sources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<DrafterId>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// How many tokens each source is credited with. A token that several sources proposed counts for
/// each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credits(BTreeMap<DrafterId, usize>);

impl Credits {
    /// Credits a token to the sources that proposed it.
    pub fn add(&mut self, sources: Sources) {
        for source in sources.iter() {
            *self.0.entry(source).or_default() += 1;
        }
    }

    /// Adds the tokens of `others`.
    pub fn add_all(&mut self, others: &Self) {
        for (source, count) in others.iter() {
            *self.0.entry(source).or_default() += count;
        }
    }

    /// Each source that has any credits, with their number.
    pub fn iter(&self) -> impl Iterator<Item = (DrafterId, usize)> + '_ {
        self.0.iter().map(|(&source, &count)| (source, count))
    }

    /// Whether nothing was credited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_list_of_its_members_and_back() {
        assert!(DrafterId::all().enumerate().all(|(at, source)| at == source as usize));
        for bits in 0..1u16 << DrafterId::all().count() {
            let set = Sources(bits);
            assert_eq!(set.iter().collect::<Sources>(), set);
            let text = serde_json::to_string(&set).unwrap();
            assert_eq!(serde_json::from_str::<Sources>(&text).unwrap(), set);
        }
        let both = Sources::of(DrafterId::Suffix).and(Sources::of(DrafterId::SmallModel));
        assert_eq!(serde_json::to_string(&both).unwrap(), r#"["small_model","suffix"]"#);
        assert!(serde_json::from_str::<Sources>(r#"["oracle"]"#).is_err());
        let earlier = serde_json::from_str::<Sources>(r#"["small","rest"]"#).unwrap();
        let names: Vec<&str> = earlier.iter().map(|source| source.name()).collect();
        assert_eq!(names, ["small model", "retrieval"]);
        let mtp = serde_json::to_string(&Sources::of(DrafterId::Mtp)).unwrap();
        assert_eq!(mtp, r#"["mtp"]"#);
    }

    #[test]
    fn a_token_counts_for_each_who_proposed_it() {
        let mut credits = Credits::default();
        assert!(credits.is_empty());
        credits.add([DrafterId::Head, DrafterId::Suffix].into_iter().collect());
        credits.add(Sources::of(DrafterId::Suffix));
        credits.add(Sources::NONE);
        let mut twice = credits.clone();
        twice.add_all(&credits);
        assert_eq!(
            twice.iter().collect::<Vec<_>>(),
            [(DrafterId::Head, 2), (DrafterId::Suffix, 4)]
        );
        assert_eq!(serde_json::to_string(&credits).unwrap(), r#"{"head":1,"suffix":2}"#);
    }
}
