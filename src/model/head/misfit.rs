//! Why a head cannot draft for a target. It must not depend on files.

/// What does not fit between head and target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A size differs.
    #[error(
        "the draft head does not fit the target: its {what} is {head}, but the target's is \
         {target}; use a head trained for this target"
    )]
    Size {
        /// The figure that differs.
        what: &'static str,
        /// Its value in the head.
        head: usize,
        /// Its value in the target.
        target: usize,
    },
    /// A tapped state is above the target's last layer.
    #[error(
        "the draft head does not fit the target: its `eagle_aux_hidden_state_layer_ids` read \
         state {state}, but the target has {layers} layers; use a head trained for this target"
    )]
    NoSuchState {
        /// The state.
        state: usize,
        /// Layers of the target.
        layers: usize,
    },
    /// The usual three states are not distinct.
    #[error(
        "the draft head does not fit the target: it reads layers 2, N/2 and N − 3, but with N = \
         {layers} these are not three layers; list the states it was trained with in \
         `eagle_aux_hidden_state_layer_ids` of its config.json"
    )]
    FewLayers {
        /// Layers of the target.
        layers: usize,
    },
}

impl Misfit {
    /// Checks sizes of a head, each with that of its target.
    pub(crate) fn unless_equal(
        sizes: impl IntoIterator<Item = (&'static str, usize, usize)>,
    ) -> Result<(), Self> {
        let differs = sizes.into_iter().find(|(_, head, target)| head != target);
        differs.map_or(Ok(()), |(what, head, target)| Err(Self::Size { what, head, target }))
    }
}
