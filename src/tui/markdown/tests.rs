use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::decode::Committed;

/// Adds a token to a text.
fn push(text: &mut String, minds: &mut BothMinds, part: &str, origin: Origin) {
    let token =
        Committed { token: 0, text: part.to_string(), thought: None, origin, logprobs: None };
    minds.push(&[token], None, text.len(), false);
    text.push_str(part);
}

fn written(parts: &[(&str, Origin)]) -> (String, BothMinds) {
    let mut text = String::new();
    let mut minds = BothMinds::default();
    for (part, origin) in parts {
        push(&mut text, &mut minds, part, *origin);
    }
    (text, minds)
}

#[test]
fn what_an_earlier_run_wrote_has_no_origin() {
    let mut text = "old ".to_string();
    let mut minds = BothMinds::default();
    for (part, origin) in [("new", Origin::Target), (" word", Origin::Accepted)] {
        push(&mut text, &mut minds, part, origin);
    }
    text.push_str(" more");
    let pieces: Vec<_> = minds.origins(1..14).collect();
    assert_eq!(pieces, [(1..7, None), (7..12, Some(Origin::Accepted)), (12..14, None)]);
}

fn plain(rows: &[TextRow]) -> Vec<String> {
    rows.iter().map(|row| text_of(row)).collect()
}

fn rows(text: &str, width: usize) -> Vec<String> {
    plain(Document::default().lay_out(text, &BothMinds::default(), width))
}

const PLANETS: &str = "\
| Planet | Beschreibung | 直径 |
|:--|:--|--:|
| Mars | The red planet, named after the Roman god of war | 6779 km |
| 木星 | 太陽系で最も大きな惑星であり、大赤斑がある | 139820 km |
";

const CITIES: &str = "\
> | Name | Founded in | 人口 | Known for |
> |-|-|-|-|
> | Rome the eternal | long ago | 二百八十万人 | the Forum |
> | Oslo in Norway | 1040 or so || its fjord |
";

#[test]
fn each_block_has_its_rows() {
    let blocks = "# Title\nOne **two** `three`.\nNext line.\n\n- a\n- b\n  1. c\n\n> said\n> he\n\n\
        ```rust\nfn main() {}\n\n```\n---\nend";
    let shown = "Title\n\nOne two three.\nNext line.\n\n• a\n• b\n  1. c\n\n▏ said\n▏ he\n\n  \
        rust\n  fn main() {}\n  \n\n───\n\nend";
    let fruit =
        "> | Fruit | *Price* |\n> |:--|--:|\n> | apple | 3 |\n> | 柿 | **12** |\n> | fig |\n\nend";
    let data = format!("![dot](data:image/png;base64,{})", "A".repeat(9000));
    let begin = format!("(data:image/png;base64,{}…)", "A".repeat(58));
    let head = CITIES.lines().take(2).collect::<Vec<_>>().join("\n");
    for (text, width, shown) in [
        (blocks, 40, &[shown][..]),
        // What is left of a line of code is further in than its beginning.
        (
            "```\n    let one = two three;\n```",
            16,
            &["      let one =", "        two", "        three;"],
        ),
        (
            "So $x^2$ is \\(\\alpha\\), for $5-$6 and $7:\n\\[ \\frac{a}{b} \\\\ c \\]\n\
             `\\(` is code",
            60,
            &["So x² is α, for $5-$6 and $7:", "  a/b", "  c", "\\( is code"],
        ),
        ("| a |\n|-|\n| $$x_1$$ |", 20, &["a", "──", "x₁"]),
        ("See ![a fox](img/fox.png)!", 40, &["See image: a fox (img/fox.png)!"]),
        ("![a](<b\u{1b}[2J>)", 40, &["image: a (b␛[2J)"]),
        (&data, 90, &["image: dot", &begin]),
        ("- one two three", 9, &["• one two", "  three"]),
        ("10. one two three", 11, &["10. one two", "    three"]),
        (
            fruit,
            40,
            &[
                "▏ Fruit │ Price",
                "▏ ──────┼──────",
                "▏ apple │     3",
                "▏ 柿    │    12",
                "▏ fig   │",
                "",
                "end",
            ],
        ),
        // Until its second line is there it is a line like any other.
        ("| a | b |", 40, &["| a | b |"]),
        (
            PLANETS,
            100,
            &[
                "Planet │ Beschreibung                                     │      直径",
                "───────┼──────────────────────────────────────────────────┼──────────",
                "Mars   │ The red planet, named after the Roman god of war │   6779 km",
                "木星   │ 太陽系で最も大きな惑星であり、大赤斑がある       │ 139820 km",
            ],
        ),
        // A table that is wider than the chat wraps inside its cells.
        (
            PLANETS,
            60,
            &[
                "Planet │ Beschreibung                            │      直径",
                "───────┼─────────────────────────────────────────┼──────────",
                "Mars   │ The red planet, named after the Roman   │   6779 km",
                "       │ god of war                              │",
                "木星   │ 太陽系で最も大きな惑星であり、大赤斑が  │ 139820 km",
                "       │ ある                                    │",
            ],
        ),
        (
            PLANETS,
            40,
            &[
                "Planet │ Beschreibung        │      直径",
                "───────┼─────────────────────┼──────────",
                "Mars   │ The red planet,     │   6779 km",
                "       │ named after the     │",
                "       │ Roman god of war    │",
                "木星   │ 太陽系で最も大きな  │ 139820 km",
                "       │ 惑星であり、大赤斑  │",
                "       │ がある              │",
            ],
        ),
        // One of too many columns becomes a record per row.
        (
            CITIES,
            30,
            &[
                "▏ Name: Rome the eternal",
                "▏ Founded in: long ago",
                "▏ 人口: 二百八十万人",
                "▏ Known for: the Forum",
                "▏ ",
                "▏ Name: Oslo in Norway",
                "▏ Founded in: 1040 or so",
                "▏ Known for: its fjord",
            ],
        ),
        (head.as_str(), 16, &["▏ Name", "▏ Founded in", "▏ 人口", "▏ Known for"]),
    ] {
        assert_eq!(rows(text, width).join("\n"), shown.join("\n"), "{width}");
    }
}

#[test]
fn code_blocks_come_in_order_without_fences() {
    let text = "Run\n\n```sh\nls *\n\ncd\n```\nor `pwd`\n\n    indented\n\n```\nopen";
    assert_eq!(code_blocks(text), ["ls *\n\ncd\n", "indented\n", "open"]);
}

#[test]
fn origins_survive_wrapping_inside_cells_and_records() {
    let (text, minds) = written(&[
        ("| First col | Second col |\n|-|-|\n| one two", Origin::Target),
        (" three four | five six", Origin::Accepted),
        (" seven eight |\n", Origin::Target),
    ]);
    for width in [24, 14] {
        let mut document = Document::default();
        let rows = document.lay_out(&text, &minds, width);
        let of = |word: &str| {
            let mut spans = rows.iter().flatten();
            let span = spans.find(|span| span.text.contains(word)).unwrap();
            let at = span.at.unwrap() + span.text.find(word).unwrap();
            assert_eq!(&text[at..at + word.len()], word, "it says where it stands");
            span.origin
        };
        for (word, origin) in [
            ("one", Origin::Target),
            ("three", Origin::Accepted),
            ("five", Origin::Accepted),
            ("eight", Origin::Target),
        ] {
            assert_eq!(of(word), Some(origin), "{word} at {width}");
        }
        assert!(plain(rows).iter().all(|row| row.width() <= width), "{:#?}", plain(rows));
    }
}

#[test]
fn origins_survive_rendering() {
    let (text, minds) = written(&[
        ("# Ti", Origin::Target),
        ("tle\n\n", Origin::Accepted),
        ("- **bo", Origin::Target),
        ("ld** `x", Origin::Accepted),
        ("y` &amp;", Origin::Target),
    ]);
    let mut document = Document::default();
    let rows = document.lay_out(&text, &minds, 40);
    let seen: Vec<(&str, Option<Origin>)> = rows
        .iter()
        .flatten()
        .filter(|piece| piece.look.role != SpanRole::Markup)
        .map(|piece| (piece.text.as_str(), piece.origin))
        .collect();
    let a = Some(Origin::Accepted);
    let t = Some(Origin::Target);
    assert_eq!(
        seen,
        [("Ti", t), ("tle", a), ("bo", t), ("ld", a), (" ", a), ("x", a), ("y", t), (" &", t)]
    );
}

#[test]
fn code_is_broken_between_words_and_keeps_its_indentation() {
    let text =
        "```rust\n    let answer = compute(everything);\n    unbreakable_identifier_here\n```";
    let found = rows(text, 30);
    // A word that no row holds is broken at the edge, after its indentation.
    for words in ["    let answer =", "compute(everything);", "    unbreakable_"] {
        assert!(found.iter().any(|row| row.contains(words)), "{found:#?}");
    }
}

#[test]
fn code_is_given_roles() {
    let mut document = Document::default();
    let rows = document.lay_out("```rust\nlet x = 1; // one\n", &BothMinds::default(), 40);
    let kinds: Vec<_> = rows[1].iter().map(|piece| (piece.text.trim(), piece.look.role)).collect();
    for kind in [("let", SpanRole::Keyword), ("1", SpanRole::Number), ("// one", SpanRole::Comment)]
    {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
}

#[test]
fn indented_code_stays_code_while_it_streams() {
    let mut document = Document::default();
    document.lay_out("    - ", &BothMinds::default(), 20);
    let rows = document.lay_out("    - x", &BothMinds::default(), 20);
    assert_eq!(plain(rows), ["  - x"]);
    assert_eq!(rows[0].last().unwrap().look.role, SpanRole::Code);
}

/// Without this a block of code costs more for each line the longer it is.
#[test]
fn complete_lines_of_open_code_are_settled() {
    let openers = [("", "```", "rust"), ("", "~~~~", ""), ("Text.\n\n  ", "```", "unknown")];
    for (before, fence, language) in openers {
        let mut text = format!("{before}{fence}{language}\n");
        let mut document = Document::default();
        for number in 0..40 {
            let line = format!("  let a = \"{number}\"; /* to\nbe */ f(");
            for part in [&line[..9], &line[9..], ")\n"] {
                text.push_str(part);
                let rows = document.lay_out(&text, &BothMinds::default(), 20).to_vec();
                let mut whole = Document::default();
                assert_eq!(rows, whole.lay_out(&text, &BothMinds::default(), 20));
            }
            assert_eq!(document.settled_bytes, text.len());
        }
        text.push_str(&format!("{fence}\nafter"));
        let shown = plain(document.lay_out(&text, &BothMinds::default(), 20));
        assert_eq!(shown, rows(&text, 20));
        assert_eq!(shown.last().map(String::as_str), Some("after"));
    }
}

/// What comes after the end of a block of code may still be part of it while it is short.
#[test]
fn settled_code_keeps_its_roles_while_the_next_block_begins() {
    let mut text = "```rust\n/* one\n".to_string();
    let mut document = Document::default();
    for part in ["", "two */ let x\n```\n```js", "on", "\nlet"] {
        text.push_str(part);
        let rows = document.lay_out(&text, &BothMinds::default(), 20).to_vec();
        assert_eq!(rows, Document::default().lay_out(&text, &BothMinds::default(), 20));
    }
}

fn fragment() -> impl Strategy<Value = String> {
    const MARKS: &str = "\n|\n\n|- |1. |> |# |**|`|```rust\n|```\n|    |&lt;|<b>|👩‍👧";
    const ROWS: [&str; 2] = ["|a|b", "|-|-|\n"];
    const CODE: [&str; 8] = ["~~~\n", "  ```js\n", "````\n", "\"", "/*", "*/", "\t", "\\("];
    let marks: Vec<&str> = MARKS.split('|').chain(ROWS).chain(CODE).collect();
    let mark = prop::sample::select(marks).prop_map(str::to_string);
    prop_oneof![1 => "[a-z é日]{1,8}", 16 => mark]
}

proptest! {
    // Documents are small and the cases many: borders between blocks are where it can go wrong.
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The cache has no effect on the rows: a text that streamed in is laid out as a whole one.
    #[test]
    fn streamed_text_is_laid_out_as_the_whole_text(
        parts in prop::collection::vec(fragment(), 0..40),
        width in 1usize..50,
        every in 1usize..4,
    ) {
        let mut text = String::new();
        let mut minds = BothMinds::default();
        let mut streamed = Document::default();
        for (index, part) in parts.iter().enumerate() {
            let origin = if index % 3 == 0 { Origin::Target } else { Origin::Accepted };
            push(&mut text, &mut minds, part, origin);
            if index % every == 0 {
                streamed.lay_out(&text, &minds, width);
            }
        }
        let streamed = streamed.lay_out(&text, &minds, width).to_vec();
        let mut document = Document::default();
        prop_assert_eq!(streamed, document.lay_out(&text, &minds, width).to_vec());
    }

    /// Every drawn fragment of the model's text has an origin.
    #[test]
    fn every_character_has_an_origin(parts in prop::collection::vec(fragment(), 0..40)) {
        let (text, minds) = written(&[(&parts.concat(), Origin::Accepted)]);
        let mut document = Document::default();
        for piece in document.lay_out(&text, &minds, 30).iter().flatten() {
            prop_assert!(piece.look.role == SpanRole::Markup || piece.origin.is_some());
        }
    }
}

#[test]
fn links_lead_to_the_web_alone() {
    let text =
        "See [the *book*](https://a.example/b) or [this](javascript:x), <mailto:a@b.example>.";
    let mut document = Document::default();
    for end in 0..=text.len() {
        document.lay_out(&text[..end], &BothMinds::default(), 40);
    }
    let found = document.links().iter().map(|link| (&text[link.bytes.clone()], link.to.as_str()));
    let book = ("[the *book*](https://a.example/b)", "https://a.example/b");
    let mail = ("<mailto:a@b.example>", "mailto:a@b.example");
    assert_eq!(found.collect::<Vec<_>>(), [book, mail]);
}
