//! Whether a training that is resumed has the target that it began with. Must never know how a
//! target is told from another.

use super::RunError;
use crate::library::TargetFingerprint;

/// Refuses another target than `before`.
///
/// # Errors
/// [`RunError::Changed`] names what differs.
pub(super) fn check(before: &TargetFingerprint, now: &TargetFingerprint) -> Result<(), RunError> {
    match before.difference(now) {
        None => Ok(()),
        Some(found) => {
            let (name, what) = (now.name.clone(), found.what);
            Err(RunError::Changed { what, name, before: found.before, now: found.now })
        }
    }
}
