//! Downloads from a hub that behaves like the real one, and from one whose connections break or
//! that refuses.

use crate::support::program::assert_has;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use crate::support::hub::{COMMIT, Manners, Server, demo, fetch, id, one_file, refusal};
use crate::support::library::{arch_file, open_head, open_target};
use dovetail::library::{Hub, Spec};

#[test]
fn a_repository_becomes_a_model_and_stays_one_offline() {
    let files = demo("target");
    let total: u64 = files.values().map(|content| content.len() as u64).sum();
    let server = Server::start(files, Manners::default());
    let hub = server.hub();
    let (folder, reports) = fetch(&hub).unwrap();
    let last = reports.last().unwrap();
    assert_eq!((last.done, last.total), (total, total));
    assert!(reports.windows(2).all(|two| two[0].done <= two[1].done));
    let target = open_target(&Spec::Folder(folder.clone())).unwrap();
    assert_eq!(target.config, open_target(&Spec::Bundled).unwrap().config);

    // Nothing is downloaded twice, and nothing at all is requested offline.
    let before = server.requests("/store/").len();
    assert_eq!(fetch(&hub).unwrap().0, folder);
    assert_eq!(server.requests("/store/").len(), before);
    let asked = server.log.lock().unwrap().len();
    let offline = Hub { offline: true, ..hub.clone() };
    assert_eq!(fetch(&offline).unwrap().0, folder);
    assert_eq!(server.log.lock().unwrap().len(), asked);

    // The network may be down too.
    let nowhere = Hub { endpoint: "http://127.0.0.1:9".to_owned(), ..hub };
    assert_eq!(fetch(&nowhere).unwrap().0, folder);
}

#[test]
fn a_draft_head_is_fetched_without_what_it_does_not_need() {
    let mut files = demo("head");
    files.insert("training_log.txt".to_owned(), vec![0; 50]);
    let server = Server::start(files, Manners::default());
    let folder = server.hub().head(&id("owner/model"), &mut |_| {}).unwrap();
    open_head(&Spec::Folder(folder)).unwrap();
    assert!(server.requests("training_log").is_empty());
}

#[test]
fn a_file_of_a_data_set_is_fetched_by_its_commit_and_kept() {
    let content = vec![7; 20_000];
    let files = HashMap::from([("chats.json".to_owned(), content.clone())]);
    let server = Server::start(files, Manners::default());
    let hub = server.hub();
    let chats = |file| id(&format!("owner/chats@{COMMIT}:{file}"));
    let path = hub.data_file(&chats("chats.json"), &mut |_| {}).unwrap();
    assert_eq!(fs::read(&path).unwrap(), content);
    assert!(path.components().any(|part| part.as_os_str() == "datasets--owner--chats"));
    assert!(server.requests("/resolve/")[0].path.starts_with("/datasets/owner/chats/resolve/"));
    let offline = Hub { offline: true, ..hub.clone() };
    assert_eq!(offline.data_file(&chats("chats.json"), &mut |_| {}).unwrap(), path);
    let error = hub.data_file(&chats("other.json"), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("the data set has no file other.json"), "{error}");
}

#[test]
fn a_quantisation_brings_all_shards_of_its_model() {
    let mut files = one_file(20_000);
    let shards: Vec<String> =
        (1..=3).map(|number| format!("tiny-F16-0000{number}-of-00003.gguf")).collect();
    for (number, shard) in (1..).zip(&shards) {
        let golden = arch_file(&format!("llama-0000{number}-of-00003.gguf"));
        files.insert(shard.clone(), fs::read(golden).unwrap());
    }
    files.insert("tiny-Q8_0.gguf".to_owned(), vec![0; 100]);
    let server = Server::start(files, Manners::default());
    let hub = server.hub();
    let text = hub.target(&id("owner/model:Q4_K_M"), &mut |_| {}).unwrap_err().to_string();
    assert!(text.contains("no file or quantisation Q4_K_M") && text.contains(&shards[0]), "{text}");
    assert!(server.requests("/resolve/").is_empty(), "nothing is fetched for it");

    let path = hub.target(&id("owner/model:f16"), &mut |_| {}).unwrap();
    assert_eq!(path.file_name().unwrap().to_str(), Some(shards[0].as_str()));
    let target = open_target(&Spec::Gguf(path.clone())).unwrap();
    assert_eq!(target.config.layers, 2);
    // Windows does not remove a file that is mapped.
    drop(target);
    for other in ["Q8_0", "m.gguf"] {
        assert!(server.requests("/resolve/").iter().all(|asked| !asked.path.contains(other)));
    }
    // Any of the shards identifies all of them, and the cache suffices offline.
    let offline = Hub { offline: true, ..hub };
    for name in ["F16", &shards[1]] {
        assert_eq!(offline.target(&id(&format!("owner/model:{name}")), &mut |_| {}).unwrap(), path);
    }
    fs::remove_file(path.with_file_name(&shards[2])).unwrap();
    assert!(offline.target(&id("owner/model:F16"), &mut |_| {}).is_err(), "a shard is missing");
}

#[test]
fn a_cut_connection_goes_on_where_it_broke() {
    let files = one_file(300_000);
    let server = Server::start(
        files.clone(),
        Manners { cuts: vec![100_000, 0, 50_000], ..Manners::default() },
    );
    let (path, reports) = fetch(&server.hub()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), files["m.gguf"]);
    assert_eq!(reports.last().unwrap().done, 300_000);
    let starts: Vec<_> =
        server.requests("/store/").iter().map(|request| request.range.unwrap()).collect();
    assert_eq!(starts, [0, 100_000, 100_000, 150_000]);
}

#[test]
fn what_came_before_giving_up_is_kept_for_the_next_start() {
    let files = one_file(300_000);
    let mut cuts = vec![120_000];
    cuts.extend([0; 20]);
    let server = Server::start(files.clone(), Manners { cuts, ..Manners::default() });
    let text = refusal(&server.hub());
    assert!(text.contains("m.gguf") && text.contains("120000 of 300000"), "{text}");
    server.manners.lock().unwrap().cuts.clear();
    let (path, reports) = fetch(&server.hub()).unwrap();
    assert_eq!(reports[0].done, 120_000);
    assert_eq!(fs::read(path).unwrap(), files["m.gguf"]);
    assert_eq!(server.requests("/store/").last().unwrap().range, Some(120_000));
}

#[test]
fn a_silent_connection_and_a_store_without_ranges_do_not_spoil_the_file() {
    let cuts = vec![70_000];
    for manners in [
        Manners { cuts: cuts.clone(), stalls: true, ..Manners::default() },
        Manners { cuts, ignores_ranges: true, ..Manners::default() },
    ] {
        let files = one_file(200_000);
        let server = Server::start(files.clone(), manners);
        let mut hub = server.hub();
        hub.patience.silence = Duration::from_millis(300);
        let (path, reports) = fetch(&hub).unwrap();
        assert_eq!(fs::read(path).unwrap(), files["m.gguf"]);
        assert_eq!(reports.last().unwrap().done, 200_000);
    }
}

#[test]
fn the_token_goes_to_the_hub_and_not_to_its_store() {
    let server = Server::start(one_file(50_000), Manners::default());
    let hub = Hub { token: Some("right".to_owned()), ..server.hub() };
    fetch(&hub).unwrap();
    let asked = |part: &str| server.requests(part);
    assert!(asked("/api/").iter().all(|r| r.token.as_deref() == Some("Bearer right")));
    assert!(!asked("/store/").is_empty());
    assert!(asked("/store/").iter().all(|request| request.token.is_none()));
}

#[test]
fn the_token_stays_with_the_port_of_the_hub() {
    let other = Server::start(one_file(50_000), Manners::default());
    let list = format!("http://127.0.0.1:{}/api/models/owner/model/revision/main", other.port);
    for manners in [
        Manners { store_port: Some(other.port), ..Manners::default() },
        Manners { circle: vec![("/api/", list.leak())], ..Manners::default() },
    ] {
        let server = Server::start(one_file(50_000), manners);
        fetch(&Hub { token: Some("right".to_owned()), ..server.hub() }).unwrap();
        let asked = other.requests("");
        assert!(!asked.is_empty() && asked.iter().all(|request| request.token.is_none()));
        assert!(server.requests("/api/").iter().all(|request| request.token.is_some()));
        other.log.lock().unwrap().clear();
    }
}

#[test]
fn refusals_say_what_to_do() {
    type Refusal = (&'static str, u16, &'static str, bool);
    let cases: [(Refusal, Option<&str>, &[&str]); 9] = [
        (
            ("/resolve/", 401, "GatedRepo", true),
            None,
            &["needs your consent to its terms", "/owner/model", "HF_TOKEN"],
        ),
        (("/resolve/", 403, "GatedRepo", true), Some("wrong"), &["account of your HF_TOKEN"]),
        (("/api/", 401, "", true), Some("wrong"), &["rejects your token", "said by the server"]),
        (
            ("/api/", 401, "RepoNotFound", false),
            None,
            &["the repository does not exist", "set HF_TOKEN"],
        ),
        (
            ("/api/", 404, "RepoNotFound", false),
            Some("right"),
            &["the repository does not exist", "has access"],
        ),
        (("/api/", 404, "RevisionNotFound", false), None, &["does not have this revision"]),
        (("/api/", 503, "", false), None, &["responded 503", "try again later"]),
        (("/api/", 429, "", false), None, &["wait a few minutes"]),
        (("/resolve/", 404, "EntryNotFound", false), None, &["said by the server"]),
    ];
    for (refused, token, expected) in cases {
        let manners = Manners { refusal: Some(refused), ..Manners::default() };
        let server = Server::start(one_file(20), manners);
        let hub = Hub { token: token.map(str::to_owned), ..server.hub() };
        let text = refusal(&hub);
        assert!(text.contains("owner/model"), "{text}");
        assert_has(&text, expected);
    }
    let manners =
        Manners { refusal: Some(("/resolve/", 401, "GatedRepo", true)), ..Manners::default() };
    let server = Server::start(one_file(20), manners);
    fetch(&Hub { token: Some("right".to_owned()), ..server.hub() }).unwrap();
}

#[test]
fn other_answers_are_not_taken_for_the_hub() {
    let server = Server::start(one_file(20), Manners { stranger: true, ..Manners::default() });
    assert!(refusal(&server.hub()).contains("check HF_ENDPOINT"));
    let nowhere = Hub { endpoint: "http://127.0.0.1:9".to_owned(), ..server.hub() };
    assert!(refusal(&nowhere).contains("cannot reach http://127.0.0.1:9"));
    let offline = Hub { offline: true, ..server.hub() };
    assert!(refusal(&offline).contains("HF_HUB_OFFLINE"));
}

#[test]
fn a_name_that_leads_out_of_the_cache_is_never_fetched() {
    let manners =
        Manners { extra: vec!["../../evil.gguf", "/etc/evil.gguf"], ..Manners::default() };
    let server = Server::start(one_file(20), manners);
    fetch(&server.hub()).unwrap();
    assert!(server.requests("evil").is_empty());
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let server = Server::start(one_file(20), Manners::default());
    let file = server.cache.path().join("file");
    fs::write(&file, "").unwrap();
    let hub = Hub { cache: file.join("hub"), ..server.hub() };
    let text = refusal(&hub);
    let named = std::path::Path::new("file").join("hub");
    assert!(text.contains(named.to_str().unwrap()) && text.contains("HF_HOME"), "{text}");
}

#[test]
fn the_index_says_which_weights_are_fetched() {
    let odd = "model.safetensors-00001-of-00001.safetensors";
    let index = format!(r#"{{"weight_map": {{"a": "{odd}"}}}}"#);
    let mut files = HashMap::from([
        ("config.json".to_owned(), b"{}".to_vec()),
        ("model.safetensors.index.json".to_owned(), index.clone().into_bytes()),
        ("model-of-another.safetensors".to_owned(), vec![1; 50]),
    ]);
    let missing = Server::start(files.clone(), Manners::default());
    let text = refusal(&missing.hub());
    assert!(text.contains(odd), "{text}");
    files.insert(odd.to_owned(), vec![2; 20_000]);
    let server = Server::start(files, Manners::default());
    let (folder, _) = fetch(&server.hub()).unwrap();
    assert_eq!(fs::read(folder.join(odd)).unwrap(), vec![2; 20_000]);
    assert!(!folder.join("model-of-another.safetensors").exists());
    let offline = Hub { offline: true, ..server.hub() };
    assert_eq!(fetch(&offline).unwrap().0, folder);
    fs::remove_file(folder.join(odd)).unwrap();
    assert!(fetch(&offline).is_err());
}

#[test]
fn any_name_is_fetched_also_from_a_mirror_that_alone_knows_the_hash() {
    for mirrored in [false, true] {
        for name in ["a b.gguf", "a#b.gguf", "a?b.gguf", "100%.gguf", "é漢.gguf"] {
            let files = HashMap::from([(name.to_owned(), vec![3; 20_000])]);
            let server = Server::start(files, Manners { mirrored, ..Manners::default() });
            let hub = Hub { token: Some("secret".to_owned()), ..server.hub() };
            let (path, _) = fetch(&hub).unwrap();
            assert_eq!(fs::read(path).unwrap(), vec![3; 20_000], "{name}");
            let told = server.requests("/store/");
            assert!(told.iter().all(|request| request.token.is_none()), "{name}");
        }
    }
}

#[test]
fn two_downloads_of_one_file_both_succeed() {
    let server = Server::start(one_file(3_000_000), Manners::default());
    let hub = server.hub();
    std::thread::scope(|scope| {
        let both = [(); 4].map(|()| scope.spawn(|| fetch(&hub).map(|(path, _)| path)));
        for path in both.map(|one| one.join().unwrap().unwrap()) {
            assert_eq!(fs::read(path).unwrap().len(), 3_000_000);
        }
    });
}

#[test]
fn a_head_in_a_folder_is_fetched_alone() {
    let inside = demo("head").into_iter().map(|(name, content)| (format!("small/{name}"), content));
    let mut files: HashMap<_, _> = inside.collect();
    files.insert("other/config.json".to_owned(), b"{}".to_vec());
    let server = Server::start(files, Manners::default());
    let folder = server.hub().head(&id("owner/model:small"), &mut |_| {}).unwrap();
    assert!(folder.ends_with("small"));
    open_head(&Spec::Folder(folder)).unwrap();
    assert!(server.requests("other/").is_empty());
}
