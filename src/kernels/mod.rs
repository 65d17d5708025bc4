//! The CPU's skinny matrix products and tree attention, packed weights, the compute pool,
//! dispatch by CPU feature. Must never know models.
