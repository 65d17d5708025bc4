//! The message of a panic. It must not depend on where the panic came from.

use std::any::Any;

/// The message of a caught panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "unknown".to_owned())
}
