//! "Did you mean": the known names that are most like one that was given.

use strsim::normalized_damerau_levenshtein as likeness;

/// The name most like `given`, if it is at least `least` alike, 0 to 1. A dotted name may also be
/// the right one in the wrong table.
pub(crate) fn nearest<N: AsRef<str>>(
    given: &str,
    names: impl IntoIterator<Item = N>,
    least: f64,
) -> Option<N> {
    let likeness = |name: &N| {
        let name = name.as_ref();
        likeness(given, name).max(likeness(last_part(given), last_part(name)))
    };
    names
        .into_iter()
        .map(|name| (likeness(&name), name))
        .filter(|(likeness, _)| *likeness >= least)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// How much `given` is like a name that it may be a part of, 0 to 1, in small or capital letters.
pub(crate) fn likeness_to_part(given: &str, name: &str) -> f64 {
    let given = given.to_lowercase();
    let name = name.to_lowercase();
    if name.contains(&given) {
        return if given.is_empty() { 0.0 } else { 1.0 };
    }
    // A shortened name is compared with the beginning of the whole one.
    let start: String = name.chars().take(given.chars().count()).collect();
    likeness(&given, &name).max(likeness(&given, &start))
}

/// The names at least `least` alike, the most similar first.
pub(crate) fn most_alike<N>(names: impl IntoIterator<Item = (f64, N)>, least: f64) -> Vec<N> {
    let mut alike: Vec<(f64, N)> = names.into_iter().filter(|(like, _)| *like >= least).collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.into_iter().map(|(_, name)| name).collect()
}

/// Names for a message: the first few, and how many more there are.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST_LISTED: usize = 32;
    let mut names = names.into_iter();
    let shown: Vec<&str> = names.by_ref().take(MOST_LISTED).collect();
    let more = match names.count() {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_found_and_another_word_is_not() {
        let names = ["dovetail", "pld", "sampler.top_p"];
        assert_eq!(nearest("dovetial", names, 0.5), Some("dovetail"));
        assert_eq!(nearest("quantum", names, 0.5), None);
        assert_eq!(nearest("topp", names, 0.6), Some("sampler.top_p"));
        assert_eq!(nearest("controls.top_p", names, 0.6), Some("sampler.top_p"));
    }

    #[test]
    fn part_of_a_name_is_like_the_whole() {
        assert_eq!(likeness_to_part("QWEN", "qwen2.5-7b"), 1.0);
        assert_eq!(likeness_to_part("", "qwen2.5-7b"), 0.0);
        assert!(likeness_to_part("qvwen2", "qwen2.5-7b-instruct") > 0.5);
        assert!(likeness_to_part("zzzz", "qwen2.5-7b") < 0.1);
        assert_eq!(most_alike([(0.4, "a"), (0.7, "b"), (0.9, "c")], 0.5), ["c", "b"]);
    }
}
