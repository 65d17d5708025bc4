//! How far a saved answer is what the target says, both as text. A file does not keep why an answer
//! ended: the token limit, a full context or the user may have cut it off anywhere.

/// How far they agree. Space around them does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    Same,
    /// The target continues where the answer ends.
    TargetGoesOn,
    /// The answer continues where the target ends, or where it is so far.
    AnswerGoesOn,
    /// They part after this many characters.
    Parts(usize),
}

/// What stands for a character that an answer ended inside.
const BROKEN: char = char::REPLACEMENT_CHARACTER;

/// Compares what was said with what the target says.
pub(super) fn likeness(said: &str, target: &str) -> Likeness {
    let said = said.trim();
    let target = target.trim();
    if said == target {
        return Likeness::Same;
    }
    let whole = said.trim_end_matches(BROKEN);
    if target.starts_with(said) || whole.len() < said.len() && goes_on(target, whole) {
        Likeness::TargetGoesOn
    } else if said.starts_with(target) {
        Likeness::AnswerGoesOn
    } else {
        Likeness::Parts(said.chars().zip(target.chars()).take_while(|(a, b)| a == b).count())
    }
}

fn goes_on(text: &str, begin: &str) -> bool {
    text.len() > begin.len() && text.starts_with(begin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_be_cut_off_anywhere_and_must_not_be_another_one() {
        assert_eq!(likeness(" One two.", "One two.\n"), Likeness::Same);
        assert_eq!(likeness("One t", "One two."), Likeness::TargetGoesOn);
        assert_eq!(likeness("", "One"), Likeness::TargetGoesOn);
        assert_eq!(likeness("One two.", "One "), Likeness::AnswerGoesOn);
        assert_eq!(likeness("One too.", "One two."), Likeness::Parts(5));
        assert_eq!(likeness("One two. Indeed.", "One two. Well"), Likeness::Parts(9));
        // Cut in the middle of a character.
        assert_eq!(likeness("caf\u{fffd}", "café au lait"), Likeness::TargetGoesOn);
        assert_eq!(likeness("caf\u{fffd}", "caf"), Likeness::AnswerGoesOn);
        assert_eq!(likeness("cof\u{fffd}", "café"), Likeness::Parts(1));
    }
}
