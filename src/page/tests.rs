//! What is written into the page stays text, and the page needs nothing else.

use super::*;

/// Ends a script, would run one, moves a cursor, turns the direction round, and ends a string.
const HOSTILE: &str =
    "</script><img src=x onerror=alert(1)> \u{1b}[31m \u{202e} \0 \u{2028}\"\\{{data}}";

fn shown(message: PageMessage<'_>) -> (String, Value) {
    let page = page(&[message]);
    let begin = "<script id=\"data\" type=\"application/json\">";
    let data = page.split(begin).nth(1).unwrap().split("</script>").next().unwrap();
    let data = serde_json::from_str(data).unwrap();
    (page, data)
}

#[test]
fn hostile_text_stays_in_the_data_and_its_control_characters_are_visible() {
    let said = Message { thought: Some(HOSTILE.to_owned()), ..Message::new(Role::User, HOSTILE) };
    let (page, data) = shown(said.into());
    assert_eq!(page.matches("</script>").count(), 2, "that of the data and that of the script");
    assert!(!page.contains("<img") && !page.contains('\u{2028}') && !page.contains('\u{1b}'));
    let message = &data["messages"][0];
    for text in [&data["title"], &message["words"][0]["text"], &message["thought"]] {
        let text = text.as_str().unwrap();
        assert!(text.starts_with("</script><img src=x onerror=alert(1)> ␛[31m \\u{202e} ␀"));
        assert!(text.ends_with("\u{2028}\"\\{{data}}"), "{text}");
    }
}

#[test]
fn the_policy_permits_the_script_and_the_style_of_the_page_alone() {
    let page = page(&[]);
    let inside = |tag: &str| {
        let from = page.split(&format!("<{tag}>")).nth(1).unwrap();
        from.split(&format!("</{tag}>")).next().unwrap()
    };
    for tag in ["script", "style"] {
        let hash = BASE64_STANDARD.encode(Sha256::digest(inside(tag)));
        assert!(page.contains(&format!("; {tag}-src 'sha256-{hash}';")), "{tag}");
    }
    assert!(page.contains("default-src 'none';") && !page.contains("{{"));
    // Nothing is fetched, and no text is read as HTML or run.
    for word in [
        "http:",
        "https:",
        "src=",
        "href=\"/",
        "@import",
        "url(",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "style=\"",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn files_of_this_name_are_pages() {
    assert!(["a.html", "a.HTM", "b/.html"].iter().all(|name| is_page(name)));
    assert!(!["html", "a.md", "a.xhtml"].iter().any(|name| is_page(name)));
}

/// A token with what the target wanted.
fn committed(text: &str, origin: crate::decode::Origin) -> Committed {
    Committed { token: 1, text: text.to_owned(), thought: None, origin, logprobs: None }
}

#[test]
fn all_of_a_text_is_shown_whatever_is_known_of_its_tokens() {
    use crate::decode::Origin::{Forced, Target};
    let tokens = [committed("be", Target), committed("gun", Forced)];
    for (text, before, words) in [
        ("begun", 0, vec![("be", Some("target")), ("gun", Some("forced"))]),
        // The answer continues one of an earlier run.
        ("was begun", 4, vec![("was be", None), ("gun", Some("forced"))]),
        // More than the tokens say.
        ("begun now", 0, vec![("be", Some("target")), ("gun", Some("forced")), (" now", None)]),
    ] {
        let mut minds = BothMinds::default();
        minds.push(&tokens, None, before, false);
        let message = Message::new(Role::Assistant, text);
        let (_, data) = shown(PageMessage { message, minds, rounds: Vec::new() });
        let found = data["messages"][0]["words"].as_array().unwrap();
        let found =
            found.iter().map(|word| (word["text"].as_str().unwrap(), word["origin"].as_str()));
        assert_eq!(found.collect::<Vec<_>>(), words);
    }
}
