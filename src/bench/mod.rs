//! Measurements and their tables. Must never know widgets.
