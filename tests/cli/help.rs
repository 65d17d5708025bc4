//! `dovetail help` from outside: in a pipe, on a terminal, with and without a pager.

use dovetail::guide::TOPICS;

use crate::support::program::{Home, assert_has};

#[test]
fn the_topics_are_listed_and_shown_as_markdown_in_a_pipe() {
    let home = Home::new();
    let (list, err) = home.ran(0, &["help"]);
    assert_eq!(err, "");
    for topic in TOPICS {
        assert_has(&list, &[&format!("  {} ", topic.name)]);
        let (page, err) = home.ran(0, &["help", topic.name]);
        assert!(page.starts_with(topic.text) && err.is_empty(), "{}: {page}", topic.name);
        assert!(!page.contains('\x1b'));
    }
    // The help of a command is that of its flag.
    for words in [&["run"][..], &["bench", "quality"]] {
        let flag = home.ran(0, &[words, &["--help"]].concat());
        assert_eq!(home.ran(0, &[&["help"], words].concat()), flag, "{words:?}");
    }
    let near = ["\"setings\"", "did you mean \"settings\"?", "exactness", "doctor"];
    home.refuses(2, &["help", "setings"], &near);
    let err = home.refuses(2, &["help", "zzzzzz"], &["settings"]);
    assert!(!err.contains("did you mean"), "{err}");
}

#[cfg(unix)]
mod on_a_terminal {
    use super::Home;
    use crate::support::program::on_a_terminal;
    use crate::support::pty::Pty;
    use portable_pty::CommandBuilder;

    fn help(home: &Home, topic: &str, pager: &str) -> CommandBuilder {
        let mut command = on_a_terminal(home.path(), &["help", topic]);
        command.env("PAGER", pager);
        command
    }

    #[test]
    fn a_page_goes_through_the_pager_styled_and_wrapped() {
        let home = Home::new();
        let copy = home.path().join("copy");
        let command = help(&home, "keys", &format!("tee {}", copy.display()));
        assert_eq!(Pty::start(command, 60, 30).end().code, 0);
        let shown = std::fs::read_to_string(copy).unwrap();
        assert!(shown.starts_with("\x1b[1mKeys\x1b[0m\n"), "{shown:?}");
        assert!(!shown.contains("|---"), "{shown}");
    }

    #[test]
    fn a_pager_that_is_missing_or_stops_early_is_no_failure() {
        let home = Home::new();
        let ended = Pty::start(help(&home, "exactness", "no-such-pager"), 80, 60).end();
        assert!(ended.code == 0 && ended.screen.contains("Exactness"), "{}", ended.screen);
        let ended = Pty::start(help(&home, "benchmarks", "head -n 1"), 80, 24).end();
        assert!(ended.code == 0 && ended.screen.trim() == "Benchmarks", "{}", ended.screen);
    }
}
