//! A settings file, and the checks between settings.
#![no_main]

use dovetail::settings::load;
use dovetail_fuzz::place;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = place("settings.toml", bytes);
    match load(Some(&path), &[], false) {
        Ok(settings) => {
            let _ = settings.check();
            let _ = settings.without_effect();
        }
        Err(error) => assert!(error.to_string().contains("settings.toml"), "{error}"),
    }
});
