//! The fields of a Hugging Face `config.json`, each read as the type that it must have. It must not
//! depend on what they mean or which family has them.

use serde_json::Value;

use super::ConfigError;

/// The fields of a `config.json`.
pub(super) struct Fields<'a>(pub(super) &'a Value);

impl<'a> Fields<'a> {
    /// The field; a JSON null counts as absent.
    pub(super) fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn optional_size(&self, field: &'static str) -> Result<Option<usize>, ConfigError> {
        self.get(field).map(|value| whole_number(field, value)).transpose()
    }

    pub(super) fn size(&self, field: &'static str) -> Result<usize, ConfigError> {
        self.optional_size(field)?
            .ok_or_else(|| ConfigError::new(field, "absent", "the configuration must contain it"))
    }

    pub(super) fn number(&self, field: &'static str) -> Result<Option<f64>, ConfigError> {
        number(self.0, field, field)
    }

    pub(super) fn float(&self, field: &'static str) -> Result<Option<f32>, ConfigError> {
        Ok(self.number(field)?.map(|value| value as f32))
    }

    pub(super) fn flag(&self, field: &'static str) -> Result<Option<bool>, ConfigError> {
        self.get(field)
            .map(|value| {
                value
                    .as_bool()
                    .ok_or_else(|| ConfigError::new(field, value, "it must be true or false"))
            })
            .transpose()
    }
}

pub(super) fn whole_number(field: &'static str, value: &Value) -> Result<usize, ConfigError> {
    let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
    size.ok_or_else(|| ConfigError::new(field, value, "it must be a whole number"))
}

/// The number called `name` in `object`, a part of `field`; a JSON null counts as absent.
pub(super) fn number(
    object: &Value,
    name: &str,
    field: &'static str,
) -> Result<Option<f64>, ConfigError> {
    object
        .get(name)
        .filter(|value| !value.is_null())
        .map(|value| {
            let reason = format!("`{name}` must be a number");
            value.as_f64().ok_or_else(|| ConfigError::new(field, value, reason))
        })
        .transpose()
}
