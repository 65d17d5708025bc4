//! Checks the pickle of a PyTorch file before candle reads it. candle allocates the size that a
//! length in the pickle claims, copies an object whenever it is named again, and recurses for each
//! level of nesting. So the pickle is walked here with sizes instead of objects.

use std::collections::HashMap;
use std::io::{Read, Seek};

use zip::ZipArchive;

/// The most bytes of a pickle, which holds names and shapes, no weights. A head of a thousand
/// tensors has a tenth.
const LONGEST: u64 = 4 << 20;
/// The most objects, counted as often as they are named.
const MOST: u64 = 8 << 20;
/// The deepest nesting of objects.
const DEEPEST: u64 = 200;

/// An object's size and depth.
#[derive(Clone, Copy, Default)]
struct PickledObject {
    objects: u64,
    depth: u64,
}

/// An object that holds no others.
const NEW: PickledObject = PickledObject { objects: 1, depth: 1 };

/// Checks that the pickles in an archive can be read safely; otherwise returns what is wrong.
pub(super) fn check(file: impl Read + Seek) -> Result<(), String> {
    let mut archive = ZipArchive::new(file).map_err(|error| error.to_string())?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| error.to_string())?;
        let name = entry.name().map_err(|error| error.to_string())?.into_owned();
        if !name.ends_with("data.pkl") {
            continue;
        }
        if entry.size() > LONGEST {
            let size = entry.size();
            return Err(format!("{name}: it has {size} bytes, and the limit is {LONGEST}"));
        }
        let mut pickle = Vec::new();
        let read = entry.by_ref().take(LONGEST + 1).read_to_end(&mut pickle);
        read.map_err(|error| format!("{name}: {error}"))?;
        if pickle.len() as u64 > LONGEST {
            return Err(format!("{name}: it has more than {LONGEST} bytes"));
        }
        walk(&pickle).map_err(|problem| format!("{name}: {problem}"))?;
    }
    Ok(())
}

/// The operations that candle knows, applied to sizes. What candle refuses itself is left to it.
fn walk(pickle: &[u8]) -> Result<(), String> {
    let mut rest = pickle;
    let mut stack: Vec<Option<PickledObject>> = Vec::new();
    let mut memo: HashMap<usize, PickledObject> = HashMap::new();
    let mut made = 0u64;
    loop {
        let at = pickle.len() - rest.len();
        let [operation] = taken(&mut rest, 1, at)? else { return Ok(()) };
        let operand = match operation {
            0x80 | b'K' | b'q' | b'h' => 1,
            b'M' => 2,
            b'J' | b'r' | b'j' => 4,
            b'G' => 8,
            0x8a => usize::from(taken(&mut rest, 1, at)?[0]),
            b'X' => number(taken(&mut rest, 4, at)?),
            _ => 0,
        };
        if *operation == 0x8a && operand > 8 {
            return Err(format!("a number of {operand} bytes at byte {at}"));
        }
        let operand = taken(&mut rest, operand, at)?;
        // What the operation leaves on the stack; `None` if nothing new.
        let left = match operation {
            b'.' => return Ok(()),
            0x80 => None,
            b'(' => {
                stack.push(None);
                None
            }
            b'c' => {
                for _ in 0..2 {
                    let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
                        return Err(format!("truncated at byte {at}"));
                    };
                    rest = &rest[end + 1..];
                }
                Some(NEW)
            }
            b'q' | b'r' => {
                let top = stack.last().copied().flatten().unwrap_or_default();
                memo.insert(number(operand), top);
                made += top.objects;
                None
            }
            b'h' | b'j' => Some(memo.get(&number(operand)).copied().unwrap_or_default()),
            0x85 | b'Q' => Some(around(&mut stack, 1)),
            0x86 | b'R' | b'b' | 0x81 => Some(around(&mut stack, 2)),
            0x87 => Some(around(&mut stack, 3)),
            b't' | b'd' => Some(to_mark(&mut stack)),
            b'a' => Some(joined(&mut stack, 1)),
            b's' => Some(joined(&mut stack, 2)),
            b'e' | b'u' => {
                let held = to_mark(&mut stack);
                let into = stack.pop().flatten().unwrap_or_default();
                Some(sum(into, held))
            }
            _ => Some(NEW),
        };
        if let Some(weight) = left {
            made += weight.objects;
            if weight.depth > DEEPEST {
                return Err(format!("nested deeper than {DEEPEST} at byte {at}"));
            }
            stack.push(Some(weight));
        }
        if made > MOST {
            return Err(format!("more than {MOST} objects at byte {at}"));
        }
    }
}

fn taken<'a>(rest: &mut &'a [u8], length: usize, at: usize) -> Result<&'a [u8], String> {
    let Some((head, tail)) = rest.split_at_checked(length) else {
        let left = rest.len();
        return Err(format!("{length} bytes expected at byte {at}, but only {left} follow"));
    };
    *rest = tail;
    Ok(head)
}

/// Up to four bytes, the lowest first.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn sum(a: PickledObject, b: PickledObject) -> PickledObject {
    PickledObject { objects: a.objects.saturating_add(b.objects), depth: a.depth.max(b.depth) }
}

/// Takes `count` objects off the stack and wraps them in one.
fn around(stack: &mut Vec<Option<PickledObject>>, count: usize) -> PickledObject {
    let held = (0..count).filter_map(|_| stack.pop().flatten()).fold(PickledObject::default(), sum);
    PickledObject { objects: held.objects.saturating_add(1), depth: held.depth + 1 }
}

/// Takes `count` objects off the stack into the object below them.
fn joined(stack: &mut Vec<Option<PickledObject>>, count: usize) -> PickledObject {
    let held = around(stack, count);
    let into = stack.pop().flatten().unwrap_or_default();
    sum(into, held)
}

fn to_mark(stack: &mut Vec<Option<PickledObject>>) -> PickledObject {
    let mut held = PickledObject::default();
    while let Some(Some(weight)) = stack.pop() {
        held = sum(held, weight);
    }
    PickledObject { objects: held.objects.saturating_add(1), depth: held.depth + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            let _ = walk(&bytes);
        }
    }
}
