//! The screen: a pure model of it, a pure update, one view a panel. Must never know tensors, files or the clock.
