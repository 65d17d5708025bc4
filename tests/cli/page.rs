//! A record as a page: what a browser shows of it.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::program::{Home, in_home};

/// What must stay text. Where it ran, the page would have another id, or an image.
const HOSTILE: &str = "</script><script>document.body.id='ran'</script>\
                       <img src=x onerror=\"document.body.id='ran'\">\u{1b}[31m\u{202e}\0";

/// The same as the page shows it.
const SHOWN: &str = "</script><script>document.body.id='ran'</script>\
                     <img src=x onerror=\"document.body.id='ran'\">␛[31m\\u{202e}␀";

/// The page of a record of the bundled pair, with hostile text in the question, in a node of the
/// first tree and in a token of the first round. Returns the record's lines, too.
fn exported(home: &Home) -> Vec<Value> {
    let [record, page] = ["record.jsonl", "page.html"].map(|name| home.path().join(name));
    let [record_name, page_name] = [&record, &page].map(|path| path.to_str().unwrap());
    let ask = ["run", "Tell me about a river.", "--max-tokens", "24", "--gamma", "8"];
    home.ran(0, &[&ask[..], &["--record", record_name]].concat());
    let text = fs::read_to_string(&record).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut of = |kind: &str| lines.iter_mut().find(|line| line["type"] == kind).unwrap().take();
    let (mut question, mut round) = (of("question"), of("round"));
    question["messages"][0]["content"] = HOSTILE.into();
    round["labels"][0] = HOSTILE.into();
    round["committed"][0]["text"] = HOSTILE.into();
    for changed in [question, round] {
        let place = lines.iter().position(Value::is_null).unwrap();
        lines[place] = changed;
    }
    let changed: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&record, changed).unwrap();
    let arguments = ["replay", record_name, "--html", page_name];
    assert_eq!(home.ran(0, &arguments), Default::default());
    home.refuses(2, &arguments, &["page.html", "already exists", "--html"]);
    lines
}

/// What the page shows at 360, 800 and 1400 pixels; `None` if there is no browser.
fn browsed(home: &Home) -> Option<Vec<Value>> {
    let check = home.path().join("check.html");
    fs::write(&check, include_str!("page.html")).unwrap();
    let mut command = Command::new("chromium");
    in_home(&mut command, home.path());
    // The page is in a frame of a page that looks at it, which is another file.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]);
    command.args(["--virtual-time-budget=5000", "--dump-dom"]);
    let output = command.arg(format!("file://{}", check.display())).output().ok()?;
    let shown = String::from_utf8(output.stdout).unwrap();
    let found =
        shown.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("{shown}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {shown}")))
}

#[test]
fn a_browser_shows_every_round_at_three_sizes_and_runs_nothing_of_the_text() {
    let home = Home::new();
    let lines = exported(&home);
    let Some(found) = browsed(&home) else {
        println!("left out: the exported page in a browser, for there is none (chromium)");
        return;
    };
    let first = lines.iter().filter(|line| line["type"] == "first").map(|line| &line["token"]);
    let rounds: Vec<&Value> = lines.iter().filter(|line| line["type"] == "round").collect();
    let text = |tokens: &mut dyn Iterator<Item = &Value>| {
        let text: String = tokens.map(|token| token["text"].as_str().unwrap()).collect();
        text.replace(HOSTILE, SHOWN)
    };
    let said = |from: usize, to: usize| {
        let tokens = rounds[from..to].iter().flat_map(|it| it["committed"].as_array().unwrap());
        text(&mut tokens.into_iter())
    };
    let all = rounds.len();
    assert!(all > 3, "{all}");
    let answer = text(&mut first.into_iter()) + &said(0, all);
    let widths: Vec<_> = found.iter().map(|one| one["width"].as_u64().unwrap()).collect();
    assert_eq!(widths.len(), 3, "{widths:?}");
    for one in found {
        assert_eq!(one["texts"], Value::from(vec![SHOWN, &answer]));
        assert_eq!(one["now"], said(2, 3));
        assert_eq!(one["later"], said(3, all));
        let places = [3, 4, 3, 2, all, 1].map(|round| format!("Round {round} of {all}"));
        assert_eq!(one["places"], Value::from(places.to_vec()));
        // The first round, with the token that the target chose below its accepted path.
        assert_eq!(one["root"], SHOWN.replace(' ', "␣"));
        let nodes = rounds[0]["labels"].as_array().unwrap().len() + 1;
        assert_eq!(one["nodes"], nodes);
        // The second token of the first round, then the next.
        let words: Vec<_> =
            one["words"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        assert!(answer.contains(&words.concat()), "{words:?}");
        assert!(one["minds"].as_array().unwrap().len() >= 10, "{one}");
        assert_eq!(one["heat"], "true");
        assert_eq!(one["overflow"], 0, "wider than the window: {one}");
        assert_eq!((&one["ran"], &one["elements"]), (&"".into(), &2.into()));
    }
}
