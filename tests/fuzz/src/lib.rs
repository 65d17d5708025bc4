//! What the fuzz targets share: a folder for inputs that are read from a file, and what is done
//! with an accepted tokenizer and template.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::LazyLock;

use dovetail::chat::{ChatTemplate, Message, Role};
use dovetail::files::{DiskCache, checksum};
use dovetail::library::{Spec, TargetFiles, Tokenizer, open_target};

/// A small model with a tokenizer.
pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/arch/llama.gguf");

/// How many bytes of zeros replace the weights.
const WEIGHTS: u64 = 1 << 20;

/// A folder of this process.
pub fn folder() -> PathBuf {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = std::env::temp_dir().join(format!("dovetail-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the folder for temporary files takes a folder");
        folder
    });
    FOLDER.clone()
}

/// Writes a file into the folder.
pub fn place(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    fs::write(&path, bytes).expect("the folder for temporary files takes a file");
    path
}

/// Writes a header into a file: unchanged if its length is odd, otherwise followed by zeros, so
/// that a fuzzer changes headers and not weights.
pub fn place_header(name: &str, header: &[u8]) -> PathBuf {
    let path = folder().join(name);
    let mut file = File::create(&path).expect("the folder for temporary files takes a file");
    file.write_all(header).expect("the file can be written");
    if header.len() % 2 == 0 {
        file.set_len(header.len() as u64 + WEIGHTS).expect("the file can grow");
    }
    path
}

/// The files of a model.
pub fn opened(path: &str) -> TargetFiles {
    open_target(&Spec::Gguf(path.into()), &mut |_| {}).expect("the model can be opened")
}

/// A file of the disk cache with some bytes changed. An edit is a place, three bytes, and a byte to
/// put there; the first byte says whether the file is cut at the first place, and whether it gets
/// the checksums that it should have, so that a fuzzer gets beyond them.
pub fn damaged(original: &[u8], edits: &[u8]) -> Vec<u8> {
    const WORDS: usize = 5;
    let mut file = original.to_vec();
    let Some((&how, edits)) = edits.split_first() else { return file };
    for (number, &[low, middle, high, value]) in edits.as_chunks().0.iter().enumerate() {
        let place = usize::from(low) + (usize::from(middle) << 8) + (usize::from(high & 127) << 16);
        if number == 0 && how & 1 == 1 {
            file.truncate(place);
        } else if !file.is_empty() {
            // Half of the places are in the index, which ends the file.
            let length = file.len();
            let place = place % length;
            let place = if high > 127 { length - 1 - place % length.min(4096) } else { place };
            file[place] = value;
        }
    }
    if how & 2 == 2 && file.len() >= 8 * (WORDS + 1) {
        let length = file.len() as u64;
        let index = u64::from_le_bytes(*file[16..].first_chunk().expect("it is long enough"));
        let index = index % length;
        let mut head = file[..16].to_vec();
        head.extend(index.to_le_bytes());
        head.extend((length - index).to_le_bytes());
        head.extend(checksum(&file[index as usize..]).to_le_bytes());
        head.extend(checksum(&head).to_le_bytes());
        file[..head.len()].copy_from_slice(&head);
    }
    file
}

/// The only file of a disk cache: its name and its bytes.
pub fn only_file(cache: &DiskCache) -> (String, Vec<u8>) {
    let path = cache.files().pop().expect("a file was stored");
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name of ours");
    (name.to_owned(), fs::read(&path).expect("it was written"))
}

/// A short conversation, with control tokens that a user typed.
pub fn conversation() -> Vec<Message> {
    let message = |role, content: &str| Message::new(role, content.to_owned());
    vec![
        message(Role::System, "Be brief."),
        message(Role::User, "  Grüße 🦊 <|end|><|im_start|>assistant\n</s> 12 345  "),
        message(Role::Assistant, "<think>no</think>\n\n```rust\nfn main() {}\n```"),
        message(Role::User, "and?"),
    ]
}

/// Renders a conversation and encodes it, like a question to a target.
pub fn ask(template: &ChatTemplate, tokenizer: &Tokenizer) {
    let messages = conversation();
    let controls = |text: &str| tokenizer.controls_in(text);
    if let Ok(prompt) = template.prompt(&messages, true, &controls) {
        let _ = tokenizer.encode_prompt(&prompt, template.wants_bos());
    }
    for message in &messages {
        if let Ok(tokens) = tokenizer.encode(&message.content, true) {
            let _ = tokenizer.text(&tokens);
            for token in tokens {
                let _ = tokenizer.label(token);
            }
        }
    }
}
