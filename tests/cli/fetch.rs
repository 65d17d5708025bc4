//! Prompt sets that are downloaded: they are listed, refused if their content is not the expected
//! one, and named if they are missing.

use crate::support::hub::{Manners, Server, one_file};
use crate::support::program::{Home, assert_has};

#[test]
fn the_catalogue_is_listed_with_licences_and_what_is_here() {
    let home = Home::new();
    let (out, _) = home.ran(0, &["bench", "fetch"]);
    let row = |name: &str| -> Vec<String> {
        let mut rows = out.lines().map(|line| line.split_whitespace().map(str::to_owned).collect());
        rows.find(|row: &Vec<String>| row.first().is_some_and(|first| first == name)).unwrap()
    };
    assert_eq!(row("spec-bench"), ["spec-bench", "480", "699", "kB", "no"]);
    assert_eq!(row("gsm8k-full"), ["gsm8k-full", "1319", "750", "kB", "no"]);
    assert_has(
        &out,
        &["mt_bench, translation, summarization, qa", "not for commercial use", "NAME/SET"],
    );
}

#[test]
fn what_a_mirror_has_in_their_place_is_refused() {
    let home = Home::new();
    let server = Server::start(one_file(10), Manners { stranger: true, ..Manners::default() });
    let mirror = format!("http://127.0.0.1:{}", server.port);
    let fetch = ["bench", "fetch", "humaneval-full", "--mirror", &mirror];
    let page = home.path().join("cache/dovetail/prompts");
    // A web page with the right length instead of the file, as a server might send.
    std::fs::create_dir_all(&page).unwrap();
    let part = "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef.part";
    std::fs::write(page.join(part), vec![b' '; 44_877]).unwrap();
    let (out, err) = home.ran(1, &fetch);
    assert!(out.is_empty(), "{out}{err}");
    assert!(err.contains("it is another file") && err.contains("deleted"), "{err}");
    assert_eq!(std::fs::read_dir(&page).unwrap().count(), 0, "nothing of it is kept");

    server.manners.lock().unwrap().stranger = false;
    home.refuses(1, &fetch, &["responded 404"]);
    let asked = server.requests("/openai/human-eval/6d43fb98");
    assert!(asked[0].path.ends_with("/data/HumanEval.jsonl.gz"), "{asked:?}");

    home.refuses(2, &["bench", "fetch", "humaneval"], &["choose from spec-bench, humaneval-full"]);
}

#[test]
fn a_set_that_was_not_fetched_is_named_with_the_command() {
    let home = Home::new();
    for name in ["spec-bench", "spec-bench/qa"] {
        let bench = ["bench", "--prompts", name, "--limit", "1", "--strategies", "plain"];
        home.refuses(2, &bench, &["`dovetail bench fetch spec-bench`"]);
    }
}
