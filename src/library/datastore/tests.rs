use super::*;
use crate::library::tokenizer::pieces::char_of;
use crate::library::tokenizer::{Scheme, TokenKind, Vocabulary};
use std::cell::RefCell;
use std::path::PathBuf;

/// One token per byte.
fn tokenizer(special: &str) -> Tokenizer {
    let mut tokens: Vec<String> = (0..=255u8).map(|byte| char_of(byte).to_string()).collect();
    tokens.push(special.to_owned());
    let kinds = vec![TokenKind::Normal; tokens.len()];
    let scheme = Scheme::ByteLevel { merges: Vec::new(), pre: "gpt-2".to_owned() };
    Vocabulary { tokens, kinds, scheme, begin: None, end: None, marks_strip: false }
        .build("test")
        .unwrap()
}

struct Place {
    folder: tempfile::TempDir,
    stages: RefCell<Vec<String>>,
}

impl Place {
    fn new(text: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), stages: RefCell::default() };
        std::fs::write(place.text(), text).unwrap();
        place
    }

    fn text(&self) -> PathBuf {
        self.folder.path().join("words.txt")
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("a/cache")
    }

    fn open_with(&self, tokenizer: &Tokenizer, cache: &Path) -> Result<Datastore, LibraryError> {
        self.stages.borrow_mut().clear();
        let mut last = 0.0;
        let text = read::text(&self.text())?;
        Datastore::sorted(&self.text(), text, tokenizer, Some(cache), &mut |stage, done| {
            let mut stages = self.stages.borrow_mut();
            let new = stages.last().is_none_or(|last| last != stage);
            assert!((0.0..=1.0).contains(&done) && (new || done >= last));
            last = done;
            if new {
                stages.push(stage.to_owned());
            }
        })
    }

    fn open(&self) -> Datastore {
        self.open_with(&tokenizer("<a>"), &self.cache()).unwrap()
    }

    /// Whether the last opening had to sort.
    fn sorted(&self) -> bool {
        !self.stages.borrow().is_empty()
    }

    fn stored(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.cache()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

const TEXT: &str = "to be or not to be,\nthat is the question\nor not\n";

/// The contents of a store: tokens, order, and where a phrase is.
fn contents(store: Datastore) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let text = store.text;
    let phrase = tokenizer("<a>").encode("or not", false).unwrap();
    let mut found = text.order[text.find(&phrase)].to_vec();
    found.sort_unstable();
    (text.tokens, text.order, found)
}

#[test]
fn a_text_is_sorted_once_and_then_read() {
    let place = Place::new(TEXT);
    let first = place.open();
    assert_eq!((first.name.as_str(), &first.notice), ("words.txt", &None));
    assert_eq!(*place.stages.borrow(), ["splitting words.txt into tokens", "sorting words.txt"]);
    let first = contents(first);
    assert_eq!(first.0, tokenizer("<a>").encode(TEXT, false).unwrap());
    assert_eq!(first.2, [6, TEXT.rfind("or not").unwrap() as u32]);
    let second = place.open();
    assert!(!place.sorted());
    assert_eq!(contents(second), first);
    // No unfinished file remains.
    assert_eq!(place.stored().len(), 1);
    // A text this short would not have been stored, and gives the same result.
    let unused = place.folder.path().join("unused");
    let tokenizer = tokenizer("<a>");
    let store = Datastore::open(&place.text(), &tokenizer, Some(&unused), &mut |_, _| {}).unwrap();
    assert_eq!(contents(store), first);
    assert!(!unused.exists());
}

#[test]
fn a_long_text_is_split_as_it_stands_and_stored() {
    let text: String = (0..60_000).map(|i| format!("line {i} of it\n")).collect();
    let place = Place::new(&text);
    let tokenizer = tokenizer("<a>");
    let open = || Datastore::open(&place.text(), &tokenizer, Some(&place.cache()), &mut |_, _| {});
    let first = contents(open().unwrap());
    // One token per byte, so that any lost or misplaced piece is detected.
    assert!(tokenizer.text(&first.0) == text);
    assert_eq!(place.stored().len(), 1);
    assert!(contents(open().unwrap()) == first);
}

#[test]
fn another_text_or_tokenizer_is_another_file() {
    let place = Place::new(TEXT);
    place.open();
    place.open_with(&tokenizer("<b>"), &place.cache()).unwrap();
    assert!(place.sorted());
    std::fs::write(place.text(), TEXT.to_uppercase()).unwrap();
    place.open();
    assert!(place.sorted());
    assert_eq!(place.stored().len(), 3);
}

#[test]
fn a_damaged_file_is_made_anew() {
    let place = Place::new(TEXT);
    let want = contents(place.open());
    let file = place.stored().remove(0);
    let whole = std::fs::read(&file).unwrap();
    // Its tokens, and its index.
    for case in [4100, whole.len() - 10] {
        let mut bytes = whole.clone();
        bytes[case] ^= 0x40;
        std::fs::write(&file, bytes).unwrap();
        let store = place.open();
        assert!(place.sorted(), "case {case}");
        assert_eq!(contents(store), want, "case {case}");
        place.open();
        assert!(!place.sorted(), "case {case}: the new file was not stored");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_done_without() {
    let place = Place::new(TEXT);
    let want = contents(place.open());
    // A file in place of the folder has the same effect as a full disk.
    let blocked = place.folder.path().join("blocked");
    std::fs::write(&blocked, "").unwrap();
    let store = place.open_with(&tokenizer("<a>"), &blocked.join("cache")).unwrap();
    let notice = store.notice.as_ref().unwrap();
    assert!(notice.contains("kept in memory") && notice.contains("blocked"), "{notice}");
    assert_eq!(contents(store), want);
}

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let place = Place::new("");
    std::fs::write(place.text(), b"abc\xFFdef").unwrap();
    let open = || place.open_with(&tokenizer("<a>"), &place.cache()).err().unwrap().to_string();
    let error = open();
    assert!(error.contains("words.txt") && error.contains("byte 3"), "{error}");
    assert!(error.contains("convert it to UTF-8"), "{error}");
    std::fs::remove_file(place.text()).unwrap();
    assert!(open().contains("check the path"));
    std::fs::write(place.text(), "").unwrap();
    assert_eq!(contents(place.open()), (vec![], vec![], vec![]));
}
