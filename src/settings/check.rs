//! Checks across settings: the strategy they lead to, contradictions, flags without effect. Must
//! never open a model.

use super::{HeadChoice, ScoredTokens, SetBy, Settings};
use crate::plan::{DeviceChoice, DrafterId, GpuLayers, Setting, Strategy};

impl Settings {
    /// The strategy to begin with: the one asked for, else prompt lookup if the draft names it,
    /// else the one that chooses among all drafters there are.
    pub fn initial_strategy(&self) -> &'static Strategy {
        match (self.strategy, &self.draft) {
            (Some(strategy), _) => strategy,
            (None, HeadChoice::Lookup) => Strategy::first_with(DrafterId::Lookup),
            (None, _) => Strategy::automatic(),
        }
    }

    /// Whether the plan decides where target and drafts run.
    pub fn leaves_placement_open(&self) -> bool {
        let asks_for_blocks = self.strategy.is_some_and(|row| row.gpu_layers);
        self.device == DeviceChoice::Auto
            && self.target_blocks() == GpuLayers::Held(Setting::Auto)
            && !self.given.contains_key("gpu_layers")
            && !asks_for_blocks
    }

    /// Where the target's blocks go: where the strategy needs them, else where the user wants them.
    pub fn target_blocks(&self) -> GpuLayers {
        let streamed = self.strategy.is_some_and(|row| row.streamed);
        if streamed { GpuLayers::Streamed } else { self.gpu_layers }
    }

    /// What is missing to draft in this way, with the remedy.
    pub fn lacks(&self, kind: DrafterId) -> Option<&'static str> {
        let bundled = self.target.as_deref().is_none_or(|target| target == "bundled");
        match (kind, &self.draft) {
            (DrafterId::Head, HeadChoice::Lookup) => {
                Some("a draft head, but `draft` is `lookup`; name a head with --draft")
            }
            (DrafterId::Head, HeadChoice::None) => {
                Some("a draft head, but `draft` is `none`; name a head with --draft")
            }
            (DrafterId::Head, HeadChoice::Own) if !bundled => {
                Some("a draft head for this target; name one with --draft")
            }
            (DrafterId::Dflash, draft) if !matches!(draft, HeadChoice::Named(_)) => {
                Some("a DFlash drafter; name one with --draft")
            }
            (DrafterId::SmallModel, _) if !bundled && self.draft_model.is_none() => {
                Some("a small language model; name one with --draft-model")
            }
            (DrafterId::Retrieval, _) if self.rest_text.is_none() => {
                Some("a text to draft from; name one with --rest-text")
            }
            _ => None,
        }
    }

    /// Refuses what cannot hold at once.
    ///
    /// # Errors
    /// What contradicts what, or what is missing, with the remedy.
    pub fn check(&self) -> Result<(), String> {
        let strategy = self.initial_strategy();
        let name = strategy.name;
        let flag = |key: &str, name: &str| self.flag(key) == Some(name);
        if flag("speculate", "--plain")
            && flag("strategy", "--strategy")
            && strategy.draft != DrafterId::None
        {
            return Err(format!(
                "--plain and --strategy {name} contradict each other; leave one out"
            ));
        }
        // Without a name, the head may be found by its target once that is open.
        let open = strategy.draft == DrafterId::Head && self.draft == HeadChoice::Own;
        match self.lacks(strategy.draft) {
            Some(missing) if !open => Err(format!("the strategy `{name}` needs {missing}")),
            _ => Ok(()),
        }
    }

    /// What the command line asks for without effect, one sentence each. A settings file may hold
    /// more than one run uses.
    pub fn without_effect(&self) -> Vec<String> {
        let strategy = self.initial_strategy();
        let name = strategy.name;
        let kind = strategy.draft;
        let lookup = self.draft == HeadChoice::Lookup;
        // What speculation alone uses, and the only drafter that does, if it is one.
        let used_by = [
            ("strategy", None),
            ("draft", Some(if lookup { DrafterId::Lookup } else { DrafterId::Head })),
            ("draft_vocab", Some(DrafterId::Head)),
            ("draft_model", Some(DrafterId::SmallModel)),
            ("rest_text", Some(DrafterId::Retrieval)),
            ("overlap", None),
            ("controls.gamma", None),
            ("controls.blocks", Some(DrafterId::Head)),
            ("controls.width", None),
            ("controls.depth", None),
        ];
        let given = used_by.into_iter().filter_map(|(key, of)| Some((key, self.flag(key)?, of)));
        let mut all = Vec::new();
        if !self.speculate {
            let off = match self.flag("speculate") {
                Some(flag) => format!("{flag} turns speculation off"),
                None => "`speculate` is false in the settings".to_owned(),
            };
            // `--strategy plain` says the same.
            let flags = given.filter(|(key, ..)| *key != "strategy" || kind != DrafterId::None);
            let flags: Vec<&str> = flags.map(|(_, flag, _)| flag).collect();
            if !flags.is_empty() {
                let have = if flags.len() == 1 { "has" } else { "have" };
                all.push(format!("{} {have} no effect: {off}.", flags.join(", ")));
            }
            return all;
        }
        for (key, flag, of) in given {
            // No head is what every strategy can do with, as it can with automatic blocks; the name
            // may be that of a DFlash drafter.
            let suits_all = match key {
                "draft" => self.draft == HeadChoice::None || kind == DrafterId::Dflash,
                "draft_vocab" => {
                    let of_text = matches!(self.draft_vocab, Some(ScoredTokens::OfText(_)));
                    kind == DrafterId::SmallModel && !of_text
                }
                "controls.blocks" => self.controls.blocks == Setting::Auto,
                _ => false,
            };
            let models = kind.is_model() || kind == DrafterId::Auto;
            match of {
                Some(of) if of != kind && !(kind == DrafterId::Auto && of.is_model()) => {
                    let other = Strategy::first_with(of).name;
                    if !suits_all {
                        all.push(format!(
                            "{flag} has no effect on the strategy `{name}`; --strategy {other} \
                             uses it."
                        ));
                    }
                }
                None if key == "overlap" && !models => all.push(format!(
                    "{flag} has no effect: the strategy `{name}` uses no draft model."
                )),
                _ => {}
            }
        }
        all
    }

    /// The flag that set `key`, if one did.
    fn flag(&self, key: &str) -> Option<&'static str> {
        match self.given.get(key) {
            Some(SetBy::Flag(flag)) => Some(flag),
            Some(SetBy::File) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Override, SettingValue, load};
    use super::*;

    /// The settings that flags give, each flag with its key and value.
    fn flags(given: &[(&'static str, &'static str, &str)]) -> Settings {
        let empty = tempfile::NamedTempFile::new().unwrap();
        let overrides: Vec<Override> = given
            .iter()
            .map(|&(flag, key, text)| Override { flag, key, value: SettingValue::text(text) })
            .collect();
        load(Some(empty.path()), &overrides, false).unwrap()
    }

    const OWN: (&str, &str, &str) = ("--target", "target", "own.gguf");
    const SMALL: (&str, &str, &str) = ("--draft-model", "draft_model", "small.gguf");
    const HEAD: (&str, &str, &str) = ("--draft", "draft", "head");
    const OFF: (&str, &str, &str) = ("--plain", "speculate", "false");

    fn strategy(name: &'static str) -> (&'static str, &'static str, &'static str) {
        ("--strategy", "strategy", name)
    }

    #[test]
    fn the_strategy_is_the_one_asked_for_or_chooses_among_what_there_is() {
        let begun = |given: &[_]| flags(given).initial_strategy().name;
        for given in [&[][..], &[OWN], &[OWN, HEAD], &[SMALL], &[OWN, SMALL], &[SMALL, HEAD]] {
            assert_eq!(begun(given), "auto", "{given:?}");
        }
        assert_eq!(begun(&[OWN, SMALL, strategy("duo")]), "duo");
        assert_eq!(begun(&[("--draft", "draft", "lookup")]), "pld");
    }

    #[test]
    fn blocks_are_streamed_for_a_strategy_that_needs_it_or_as_the_user_says() {
        let layers = |text| ("--gpu-layers", "gpu_layers", text);
        for (given, expected, open) in [
            (&[][..], "auto", true),
            (&[layers("auto")], "auto", false),
            (&[layers("3")], "3", false),
            (&[layers("stream")], "stream", false),
            (&[SMALL, strategy("specexec"), layers("stream")], "stream", false),
            (&[strategy("offload")], "stream", false),
            (&[strategy("offload"), layers("3")], "stream", false),
        ] {
            let settings = flags(given);
            assert_eq!(settings.target_blocks().to_string(), expected, "{given:?}");
            assert_eq!(settings.leaves_placement_open(), open, "{given:?}");
        }
    }

    #[test]
    fn contradictions_are_refused_with_the_remedy() {
        let refused = |given: &[_]| flags(given).check().unwrap_err();
        assert!(refused(&[strategy("rest")]).contains("--rest-text"));
        assert!(refused(&[OWN, strategy("sps")]).contains("--draft-model"));
        // A head may be found by the target that it was made for, once that is opened.
        assert_eq!(flags(&[OWN, strategy("dovetail")]).check(), Ok(()));
        assert!(refused(&[("--draft", "draft", "lookup"), strategy("partial")]).contains("lookup"));
        let both = refused(&[OFF, strategy("sps")]);
        assert!(both.contains("--plain and --strategy sps"), "{both}");
        for fine in [
            &[][..],
            &[OFF, strategy("plain")],
            &[OWN, SMALL, strategy("sps")],
            &[OFF, ("DOVETAIL_STRATEGY", "strategy", "sps")],
            &[("--rest-text", "rest_text", "a.txt"), strategy("rest")],
        ] {
            assert_eq!(flags(fine).check(), Ok(()), "{fine:?}");
        }
    }

    #[test]
    fn a_flag_without_effect_is_reported_and_a_file_may_hold_more() {
        let told = |given: &[_]| flags(given).without_effect();
        assert_eq!(
            told(&[HEAD, SMALL, strategy("dovetail")]),
            [concat!(
                "--draft-model has no effect on the strategy `dovetail`; ",
                "--strategy small-model uses it."
            )]
        );
        assert_eq!(told(&[HEAD, strategy("pld"), ("--blocks", "controls.blocks", "2")]).len(), 2);
        assert!(told(&[("--rest-text", "rest_text", "a.txt")])[0].contains("--strategy rest"));
        let scored = |text| [SMALL, strategy("sps"), ("--draft-vocab", "draft_vocab", text)];
        assert!(told(&scored("text:a.txt"))[0].contains("--strategy dovetail uses it"));
        assert_eq!(told(&scored("9")), [""; 0]);
        assert!(
            told(&[strategy("pld"), ("--overlap", "overlap", "true")])[0].contains("--overlap")
        );
        let off = told(&[OFF, HEAD, ("--gamma", "controls.gamma", "4")]);
        assert!(off[0].contains("--draft, --gamma") && off.len() == 1, "{off:?}");
        for fine in [
            &[][..],
            &[HEAD],
            &[SMALL],
            &[HEAD, SMALL],
            &[OFF],
            &[OFF, strategy("plain")],
            &[HEAD, ("--blocks", "controls.blocks", "2"), ("--overlap", "overlap", "true")],
        ] {
            assert_eq!(told(fine), [""; 0], "{fine:?}");
        }
        let mut file = Settings::default();
        file.set("rest_text", &SettingValue::text("a.txt")).unwrap();
        assert_eq!(file.without_effect(), [""; 0]);
    }
}
