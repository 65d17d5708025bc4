//! Cost model, first choice of γ and M with its reasons, the live controller.
//! Pure functions; must never know tensors.
