//! `dovetail help` from outside: in a pipe, on a terminal, with and without a pager.

use dovetail::guide::TOPICS;

use crate::support::program::{Home, run};

#[test]
fn the_topics_are_listed_and_shown_as_markdown_in_a_pipe() {
    let (code, out, err) = run(&["help"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for topic in TOPICS {
        assert!(out.contains(&format!("  {} ", topic.name)), "{} is missing: {out}", topic.name);
        let (code, page, err) = run(&["help", topic.name]);
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(page.starts_with(topic.text), "{}: {page}", topic.name);
        assert!(!page.contains('\x1b'));
    }
}

#[test]
fn the_help_of_a_command_is_that_of_its_flag() {
    for words in [&["run"][..], &["bench", "quality"]] {
        let (code, out, _) = run(&[&["help"][..], words].concat());
        assert_eq!((code, out), (0, run(&[words, &["--help"]].concat()).1), "{words:?}");
    }
}

#[test]
fn an_unknown_topic_is_named_with_the_nearest_and_all_others() {
    let (code, out, err) = run(&["help", "setings"]);
    assert_eq!((code, out.as_str()), (2, ""));
    for words in ["\"setings\"", "did you mean \"settings\"?", "exactness", "doctor"] {
        assert!(err.contains(words), "{words} is missing: {err}");
    }
    let (_, _, err) = run(&["help", "zzzzzz"]);
    assert!(!err.contains("did you mean") && err.contains("settings"), "{err}");
}

#[cfg(unix)]
mod on_a_terminal {
    use super::Home;
    use crate::support::program::at_home;
    use crate::support::pty::Pty;
    use portable_pty::CommandBuilder;

    fn help(home: &Home, words: &[&str], pager: &str) -> CommandBuilder {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_dovetail"));
        command.arg("help");
        words.iter().for_each(|word| command.arg(word));
        at_home(&mut command, home.path());
        command.env("PAGER", pager);
        command
    }

    #[test]
    fn a_page_goes_through_the_pager_styled_and_wrapped() {
        let home = Home::new();
        let copy = home.path().join("copy");
        let command = help(&home, &["keys"], &format!("tee {}", copy.display()));
        assert_eq!(Pty::start(command, 60, 30).end().code, 0);
        let shown = std::fs::read_to_string(copy).unwrap();
        assert!(shown.starts_with("\x1b[1mKeys\x1b[0m\n"), "{shown:?}");
        assert!(!shown.contains("|---"), "{shown}");
    }

    #[test]
    fn a_pager_that_is_missing_or_stops_early_is_no_failure() {
        let home = Home::new();
        let ended = Pty::start(help(&home, &["exactness"], "no-such-pager"), 80, 60).end();
        assert!(ended.code == 0 && ended.screen.contains("Exactness"), "{}", ended.screen);
        let ended = Pty::start(help(&home, &["benchmarks"], "head -n 1"), 80, 24).end();
        assert!(ended.code == 0 && ended.screen.trim() == "Benchmarks", "{}", ended.screen);
    }
}
