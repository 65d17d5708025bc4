//! The TOML settings file and the flags, merged once into checked settings.
