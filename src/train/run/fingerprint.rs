//! Whether a resumed training has the target with which it began. It must not depend on how targets
//! are distinguished.

use super::RunError;
use crate::library::TargetFingerprint;

/// Refuses a target other than `before`.
///
/// # Errors
/// [`RunError::Changed`] names what differs.
pub(super) fn check(before: &TargetFingerprint, now: &TargetFingerprint) -> Result<(), RunError> {
    match before.difference(now) {
        None => Ok(()),
        Some(found) => {
            let name = now.name.clone();
            let what = found.what;
            Err(RunError::Changed { what, name, before: found.before, now: found.now })
        }
    }
}
