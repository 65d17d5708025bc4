//! Whether weights whose formats would be expanded in every product are repacked: products are then
//! many times faster, but the weights take more memory than in the file. It must never measure.
#![allow(missing_docs, reason = "a variant's comment says what its fields are")]

use crate::hardware::Memory;
use crate::settings::Repack;

/// The share of the memory that stays free for other programs: 1/n.
const SPARED: u64 = 8;

/// What becomes of these weights, and why. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repacking {
    /// They are repacked, which takes so much more than in the file; whether the user chose it.
    Done { growth: u64, chosen: bool },
    /// They are expanded, because this much memory would have to be free.
    NoRoom { needed: u64, free: u64 },
    /// They are expanded, because the user chose it.
    Declined,
}

impl Repacking {
    /// For models that need `needed` bytes without it and `growth` more with it; `None` if there is
    /// nothing to repack.
    pub fn of(choice: Repack, memory: Memory, needed: u64, growth: u64) -> Option<Self> {
        let needed = needed.saturating_add(growth).saturating_add(memory.total / SPARED);
        let free = memory.free;
        match choice {
            _ if growth == 0 => None,
            Repack::Always => Some(Self::Done { growth, chosen: true }),
            Repack::Never => Some(Self::Declined),
            // If the size of the memory is unknown, both are 0.
            Repack::Auto if needed > free => Some(Self::NoRoom { needed, free }),
            Repack::Auto => Some(Self::Done { growth, chosen: false }),
        }
    }

    /// Whether they are repacked.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_repacked_if_the_memory_spares_a_part() {
        let of =
            |choice, free, growth| Repacking::of(choice, Memory { total: 800, free }, 300, growth);
        assert_eq!(of(Repack::Always, 0, 0), None);
        let done = |chosen| Some(Repacking::Done { growth: 200, chosen });
        assert_eq!(of(Repack::Auto, 600, 200), done(false));
        let no_room = Some(Repacking::NoRoom { needed: 600, free: 599 });
        assert_eq!(of(Repack::Auto, 599, 200), no_room);
        assert_eq!(of(Repack::Always, 0, 200), done(true));
        assert_eq!(of(Repack::Never, 800, 200), Some(Repacking::Declined));
        let unknown = Repacking::of(Repack::Auto, Memory { total: 0, free: 0 }, 300, 200);
        assert!(!unknown.unwrap().is_done());
    }
}
