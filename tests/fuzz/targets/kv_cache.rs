//! A stored KV cache with damage: the engine resumes exactly its text or none, and reads a prompt
//! afterwards.
#![no_main]

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dovetail::decode::{Engine, Request, SnapshotKeeper, SnapshotStore};
use dovetail::files::DiskCache;
use dovetail::kernels::{KvFormat, Pool};
use dovetail::library::TargetFiles;
use dovetail::model::{CpuTarget, LoadRequest};
use dovetail_fuzz::{MODEL, damaged, folder, only_file, opened, place};
use libfuzzer_sys::fuzz_target;

/// As many tokens as are worth storing, and room for an answer.
const TOKENS: usize = 80;
const CAPACITY: usize = 96;

thread_local! {
    static FILES: TargetFiles = opened(MODEL);
    static STORE: SnapshotStore = SnapshotStore::new(folder(), "a target".to_owned(), 1 << 30);
    static ENGINE: RefCell<Engine> = FILES.with(|files| {
        let (config, pool) = (&files.config, Arc::new(Pool::new(1)));
        let source = files.weights.as_ref();
        let request = LoadRequest::new(config, source, pool, CAPACITY, KvFormat::F32);
        let target = CpuTarget::load(&request).expect("the model can be loaded");
        RefCell::new(Engine::new(Box::new(target), []))
    });
    /// The name of the file of a stored text, and its bytes.
    static STORED: (String, Vec<u8>) = ENGINE.with_borrow_mut(store);
}

fn prompt(length: usize) -> Vec<u32> {
    (0..length as u32).map(|at| at % 32).collect()
}

fn read(engine: &mut Engine, prompt: Vec<u32>) {
    let (eos, stop, asked, forced) = Default::default();
    let request = Request { prompt, max_tokens: 1, eos, stop, asked, forced };
    FILES.with(|files| {
        let mut answer = engine.generate(request, &files.tokenizer).expect("the prompt fits");
        while !answer.prefill().expect("the model computes").is_complete() {}
    });
}

fn store(engine: &mut Engine) -> (String, Vec<u8>) {
    read(engine, prompt(TOKENS));
    let mut keeper = SnapshotKeeper::start(STORE.with(Clone::clone)).expect("it has a thread");
    keeper.begin(Some("a conversation"));
    keeper.keep(engine);
    keeper.finish(Instant::now() + Duration::from_secs(9));
    only_file(&DiskCache::new(folder(), "kv"))
}

fuzz_target!(|edits: &[u8]| {
    STORED.with(|(name, whole)| place(name, &damaged(whole, edits)));
    let Some(found) = STORE.with(|store| store.find(&prompt(TOKENS + 1), 0)) else { return };
    ENGINE.with_borrow_mut(|engine| {
        if engine.resume(&found) {
            assert_eq!(engine.committed(), found.tokens);
        }
        read(engine, prompt(TOKENS + 1));
    });
});
