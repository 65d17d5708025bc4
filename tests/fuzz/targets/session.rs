//! A saved session: everything that was opened is still there when it is saved again.
#![no_main]

use dovetail::chat::{SavedTurn, SessionStore};
use dovetail_fuzz::{conversation, folder, place};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    place("input.json", bytes);
    let store = SessionStore::at(folder());
    let _ = store.list();
    let _ = store.find("a");
    if let Ok(mut open) = store.load("input") {
        let mut turns = open.session().turns();
        let message = conversation().remove(0);
        turns.push(SavedTurn { interrupted: true, ..SavedTurn::whole(message) });
        open.update(turns);
        let saved = store.save(&mut open).expect("what was opened can be saved");
        assert!(!saved.copied, "nobody else wrote there");
        let again = store.load("input").expect("what was saved can be opened");
        assert_eq!(again.session(), open.session());
    }
});
