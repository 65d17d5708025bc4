use super::*;
use crate::plan::Setting;

fn read(text: &str) -> Result<Settings, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let path = folder.path().join("settings.toml");
    std::fs::write(&path, text).map_err(|e| e.to_string())?;
    load(Some(&path), &[], false)
        .map_err(|error| error.to_string().replace(&folder.path().display().to_string(), "DIR"))
        .map_err(|error| error.replace("DIR\\", "DIR/"))
}

#[test]
fn a_file_sets_every_kind_of_value() {
    let mut settings = read(concat!(
        "target = \"models/a.gguf\"\nmax_tokens = 64\nstop = [\"END\", \"\\n\\n\"]\n",
        "speculate = false\nkv = \"f16\"\nprefer = \"show\"\n",
        "[controls]\ngamma = 24\nblocks = \"auto\"\n[sampler]\ntemperature = 1\ntop_p = 0.9\n",
        "seed = 0x10\n[screen]\ntheme = \"light\"\nmarks = false\n",
    ))
    .unwrap();
    let mut expected = Settings {
        target: Some("models/a.gguf".into()),
        max_tokens: Setting::Fixed(64),
        stop: vec!["END".into(), "\n\n".into()],
        speculate: false,
        kv: KvFormat::F16,
        prefer: Prefer::Show,
        theme: ThemeName::Light,
        marks: false,
        ..Settings::default()
    };
    assert_eq!(settings.given.len(), 13);
    assert!(settings.given.values().all(|by| *by == SetBy::File));
    settings.given.clear();
    expected.controls.gamma = Setting::Fixed(24);
    expected.sampler.temperature = 1.0;
    expected.sampler.top_p = 0.9;
    expected.sampler.seed = 16;
    assert_eq!(settings, expected);
}

#[test]
fn a_typo_is_named_with_its_position_and_the_nearest_key() {
    let cases = [
        (
            "max_tokens = 5\n\n[sampler]\n  temprature = 0.7\n",
            "DIR/settings.toml:4:3: unknown key `sampler.temprature` (did you mean \
             `sampler.temperature`?); correct the line or delete it",
        ),
        (
            "gamma = 16\n",
            "DIR/settings.toml:1:1: unknown key `gamma` (did you mean `controls.gamma`?); \
             correct the line or delete it",
        ),
        (
            "[controls]\ngamma = 129\n",
            "DIR/settings.toml:2:9: `controls.gamma` must be a whole number from 1 to 128, or \
             \"auto\", not 129; correct the line or delete it",
        ),
        (
            "[screen]\ntheme = \"drak\"",
            "DIR/settings.toml:2:9: `screen.theme` must be \"auto\", \"dark\", \"light\" or \
             \"mono\", not \"drak\"; correct the line or delete it",
        ),
        ("[smapler]\ntop_k = 5", "DIR/settings.toml:1:2: unknown key `smapler`"),
        ("max_tokens = 1.5", "DIR/settings.toml:1:14: `max_tokens` must be a whole number"),
        ("sampler.top_p = 0", "DIR/settings.toml:1:17: `sampler.top_p` must be a number above 0"),
        ("stop = [1]", "DIR/settings.toml:1:8: `stop` must be a list of texts"),
        ("sampler = 3", "DIR/settings.toml:1:1: unknown key `sampler`"),
        ("target = \"x\"\ny", "DIR/settings.toml:2:2: not valid TOML: "),
    ];
    for (text, expected) in cases {
        let error = read(text).unwrap_err();
        assert!(error.starts_with(expected), "{text:?} gave\n{error}\nnot\n{expected}");
    }
}

#[test]
fn flags_win_over_the_file_and_no_color_lies_between() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    std::fs::write(&path, "max_tokens = 7\ncontext = 100\n[screen]\ntheme = \"light\"\n").unwrap();
    let flag = |flag, key, text: &str| Override { flag, key, value: SettingValue::text(text) };
    let flags =
        [flag("--max-tokens", "max_tokens", "9"), flag("--gamma", "controls.gamma", "auto")];
    let settings = load(Some(&path), &flags, false).unwrap();
    assert_eq!((settings.max_tokens, settings.context), (Setting::Fixed(9), Some(100)));
    assert_eq!(settings.theme, ThemeName::Light);
    assert_eq!(load(Some(&path), &flags, true).unwrap().theme, ThemeName::Mono);
    let dark = [flag("--theme", "screen.theme", "dark")];
    assert_eq!(load(Some(&path), &dark, true).unwrap().theme, ThemeName::Dark);

    let wrong = [flag("--top-p", "sampler.top_p", "1.5")];
    let error = load(Some(&path), &wrong, false).unwrap_err().to_string();
    assert!(error.starts_with("--top-p: `sampler.top_p` must be a number above 0"), "{error}");
}

#[test]
fn a_named_file_that_is_not_there_is_an_error() {
    let error = load(Some(Path::new("no/such/file.toml")), &[], false).unwrap_err().to_string();
    assert!(error.contains("no/such/file.toml") && error.contains("--config"), "{error}");
}

#[test]
fn documented_defaults_are_the_defaults() {
    let mut checked = 0;
    for key in KEYS {
        let mut settings = Settings::default();
        let value = SettingValue::text(key.default);
        // Defaults in words, such as those that depend on the model, are not values.
        let words = key.default.contains(' ') || key.default == "none" || key.name == "gpu_layers";
        if !words {
            settings.set(key.name, &value).unwrap_or_else(|problem| panic!("{problem}"));
            settings.given.clear();
            assert_eq!(settings, Settings::default(), "{} = {}", key.name, key.default);
            checked += 1;
        }
    }
    assert!(checked >= 20, "only {checked}");
    let context = SettingKey::named("context").unwrap();
    assert!(context.default.ends_with(&Settings::AUTO_CONTEXT.to_string()));
}

#[test]
fn a_pace_is_a_time_with_or_without_its_unit() {
    let mut settings = Settings::default();
    let mut pace = |value: SettingValue| {
        settings.set("controls.pace", &value).map_err(|problem| problem.to_string())?;
        Ok::<usize, String>(settings.pace)
    };
    for (text, milliseconds) in [
        ("0.5", 500),
        ("0.5s", 500),
        ("500ms", 500),
        (" 2 s ", 2000),
        ("0", 0),
        ("off", 0),
        ("10", 10_000),
    ] {
        assert_eq!(pace(SettingValue::text(text)), Ok(milliseconds), "{text}");
    }
    assert_eq!(pace(SettingValue::Number(0.25)), Ok(250));
    assert_eq!(pace(SettingValue::Whole(1)), Ok(1000));
    for text in ["300", "11s", "-1", "fast", "nan", "", "s"] {
        let error = pace(SettingValue::text(text)).unwrap_err();
        assert!(error.contains("such as 0.5s or 500ms"), "{text}: {error}");
    }
}

#[test]
fn other_keys_are_handed_on_with_their_place() {
    let keys = read("[keys]\nhelp = \"ctrl+h\"\n\ncopy = [\"f3\", \"ctrl+y\"]\n").unwrap().keys;
    let seen: Vec<_> = keys.iter().map(|key| (key.action.as_str(), key.line, key.column)).collect();
    assert_eq!(seen, [("help", 2, 1), ("copy", 4, 1)]);
    assert_eq!(keys[1].keys, ["f3", "ctrl+y"]);
    let said = keys[1].wrong(&"no such thing");
    assert!(said.contains("settings.toml:4:1: no such thing; correct the line"), "{said}");
    for (wrong, part) in [
        ("[keys]\nhelp = 3\n", ":2:8: `keys.help` must be a key such as \"ctrl+x\""),
        ("[keys]\nhelp = []\n", "`keys.help` must be"),
        ("keys = \"x\"\n", ":1:8: `keys` must be a table"),
    ] {
        let why = read(wrong).unwrap_err();
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn every_key_says_what_it_takes() {
    for key in KEYS {
        let wrong = SettingValue::Other("date".to_owned());
        let said = Settings::default().set(key.name, &wrong).unwrap_err().to_string();
        assert_eq!(said, format!("`{}` must be {}, not a date", key.name, key.values()));
    }
}
