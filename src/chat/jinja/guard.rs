//! Compiled templates with a check after every instruction that creates a value. It must not depend
//! on what a template says.

use minijinja::Value;
use minijinja::machinery::{Instruction, Instructions};

use super::meter::{BOUNDED, STORED};

/// Operators whose meaning is Python's; see [`super::filters`].
pub(super) const CONCAT: &str = "dovetail_concat";
pub(super) const REM: &str = "dovetail_rem";
pub(super) const SLICE: &str = "dovetail_slice";
/// Passes on what a loop can go through.
pub(super) const EACH: &str = "dovetail_each";

/// The same code, with the checks.
pub(super) fn guarded<'s>(code: &Instructions<'s>) -> Instructions<'s> {
    let mut groups = Vec::new();
    while let Some(instruction) = code.get(groups.len() as u32) {
        groups.push(group(instruction));
    }
    // Where each instruction's group begins, and where the code ends.
    let mut places = vec![0u32];
    for group in &groups {
        let begin = places[places.len() - 1];
        places.push(begin + group.len() as u32);
    }
    let moved = |target: u32| places.get(target as usize).copied().unwrap_or(target);
    let mut guarded = Instructions::new(code.name(), code.source());
    for (index, group) in (0u32..).zip(groups) {
        for instruction in group {
            let instruction = relocated(instruction, moved);
            match code.get_line(index).and_then(|line| u16::try_from(line).ok()) {
                Some(line) => guarded.add_with_line(instruction, line),
                None => guarded.add(instruction),
            };
        }
    }
    guarded
}

/// The replacement of one instruction.
fn group<'s>(instruction: &Instruction<'s>) -> Vec<Instruction<'s>> {
    use Instruction as I;
    // Not one of the filters that the compiler numbered.
    let check = |name| I::ApplyFilter(name, Some(1), u8::MAX);
    let python = |name, count| I::ApplyFilter(name, Some(count), u8::MAX);
    let own = instruction.clone();
    match instruction {
        // Emitted as a value, so that the formatter counts it.
        I::EmitRaw(text) => {
            let text = Value::from_safe_string((*text).to_owned());
            vec![I::LoadConst(text), I::Emit]
        }
        I::StringConcat => vec![python(CONCAT, 2), check(BOUNDED)],
        I::Rem => vec![python(REM, 2), check(BOUNDED)],
        I::Slice => vec![python(SLICE, 4), check(BOUNDED)],
        I::PushLoop(_) => vec![check(EACH), own],
        I::SetAttr(_) => vec![I::Swap, check(STORED), I::Swap, own],
        I::Add
        | I::Mul
        | I::Pow
        | I::BuildList(_)
        | I::BuildTuple(_)
        | I::BuildMap(_)
        | I::EndCapture
        | I::ApplyFilter(..)
        | I::CallFunction(..)
        | I::CallMethod(..)
        | I::CallObject(_)
        // These only produce a truth value, but may take long.
        | I::PerformTest(..)
        | I::In
        | I::Eq
        | I::Ne
        | I::Gt
        | I::Gte
        | I::Lt
        | I::Lte
        | I::CompareAndPreserve(_) => vec![own, check(BOUNDED)],
        _ => vec![own],
    }
}

fn relocated(instruction: Instruction<'_>, moved: impl Fn(u32) -> u32) -> Instruction<'_> {
    use Instruction as I;
    match instruction {
        I::Iterate(target) => I::Iterate(moved(target)),
        I::Jump(target) => I::Jump(moved(target)),
        I::JumpIfFalse(target) => I::JumpIfFalse(moved(target)),
        I::JumpIfFalseOrPop(target) => I::JumpIfFalseOrPop(moved(target)),
        I::JumpIfTrueOrPop(target) => I::JumpIfTrueOrPop(moved(target)),
        I::BuildMacro(name, target, flags) => I::BuildMacro(name, moved(target), flags),
        other => other,
    }
}
