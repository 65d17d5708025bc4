//! The picture and the recording of the README, as `tests/pictures.rs` makes them.

use crate::support::chat::{ANSWER, Chat};
use crate::support::picture;

#[test]
fn the_screen_is_drawn_with_its_colours_and_marks() {
    let mut chat = Chat::with("answers.jsonl", 120, 36, &[]).ready();
    chat.type_until("Where did the <fox> run?\r", ANSWER);
    chat.wait_for("○ ready");
    let svg = chat.pty.see(|screen| picture::svg(screen, picture::DARK));
    assert!(svg.contains("&lt;fox&gt;"), "{svg}");
    assert!(svg.contains("text-decoration=\"underline\""), "no accepted token is marked");
    assert!(svg.contains("draft tree"), "{svg}");
    let light = chat.pty.see(|screen| picture::svg(screen, picture::LIGHT));
    assert!(light != svg && light.len() == svg.len(), "only the ground differs");
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    chat.quit();
}

#[test]
fn a_recording_plays_back_to_the_same_screen() {
    let mut chat = Chat::with("answers.jsonl", 100, 30, &[]).ready();
    chat.type_until("漢字 👍\r", ANSWER);
    let cast = picture::cast("a chat", 100, 30, &chat.pty.written());
    chat.quit();
    let mut lines = cast.lines();
    let header: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&header["width"], &header["height"]), (&100.into(), &30.into()));
    let mut played = vt100::Parser::new(30, 100, 0);
    let mut last = 0.0;
    for line in lines {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let at = event[0].as_f64().unwrap();
        assert!(at >= last, "{line}");
        last = at;
        played.process(event[2].as_str().unwrap().as_bytes());
    }
    let screen = played.screen().contents();
    assert!(screen.contains("漢字 👍") && screen.contains(ANSWER), "{screen}");
}
