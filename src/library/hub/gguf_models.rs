//! The models among a repository's GGUF files: their quantisations, taken from the file names, and
//! the shards of each. It must not depend on how they are downloaded.

use std::collections::BTreeMap;

use crate::library::shard_names::ShardName;
use crate::library::titles::is_weight_type;

/// A model: one file, or all its shards in order.
#[derive(Debug)]
pub(super) struct GgufModel<'a> {
    /// As in the name, e.g. `Q4_K_M`; empty if the name has none.
    pub(super) quantisation: &'a str,
    pub(super) files: Vec<&'a str>,
    /// How many files there should be.
    count: u64,
}

/// The models of a repository, by name. Image projectors (`mmproj`) and importance matrices are
/// separate files and not models.
pub(super) fn models(present: &[String]) -> Vec<GgufModel<'_>> {
    let mut models: BTreeMap<(&str, u64), Vec<(u64, &str)>> = BTreeMap::new();
    for file in present.iter().filter(|file| is_model(file)) {
        let shard = ShardName::parse(file);
        let key = shard.map_or((file.as_str(), 1), |shard| (shard.stem, shard.count));
        let number = shard.map_or(1, |shard| shard.number);
        models.entry(key).or_default().push((number, file));
    }
    let model = |((name, count), mut files): ((_, u64), Vec<(u64, _)>)| {
        files.sort_unstable();
        let files = files.into_iter().map(|(_, file)| file).collect();
        GgufModel { quantisation: quantisation(name).unwrap_or_default(), files, count }
    };
    models.into_iter().map(model).collect()
}

impl GgufModel<'_> {
    /// Whether `asked` names this model: one of its files, or its quantisation.
    pub(super) fn is(&self, asked: &str) -> bool {
        self.files.contains(&asked) || self.quantisation.eq_ignore_ascii_case(asked)
    }

    /// The files to download, or which file is missing.
    pub(super) fn all(&self) -> Result<Vec<String>, String> {
        if self.files.len() as u64 != self.count {
            let have = self.files.len();
            return Err(format!(
                "the repository has only {have} of the {} parts of {}",
                self.count, self.files[0]
            ));
        }
        Ok(self.files.iter().map(|file| (*file).to_owned()).collect())
    }
}

fn is_model(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.ends_with(".gguf") && !name.starts_with("mmproj") && !name.contains("imatrix")
}

/// The quantisation in a file's name: its last part with that form.
fn quantisation(file: &str) -> Option<&str> {
    let name = file.rsplit('/').next()?;
    let name = name.strip_suffix(".gguf").unwrap_or(name);
    let mut found = None;
    let mut start = 0;
    for part in name.split(['-', '.']) {
        // `name_Q4_K_M`: at the beginning of the part, or after an underscore.
        let behind = part.match_indices('_').map(|(at, _)| at + 1);
        if let Some(at) = std::iter::once(0).chain(behind).find(|&at| is_weight_type(&part[at..])) {
            let begin = start + at;
            // Unsloth's `UD-Q4_K_XL` as opposed to `Q4_K_XL`.
            let dynamic = if name[..begin].ends_with("UD-") { "UD-".len() } else { 0 };
            found = Some(begin - dynamic..start + part.len());
        }
        start += part.len() + 1;
    }
    found.map(|range| &name[range])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantisations_are_read_from_names() {
        for (file, expected) in [
            ("qwen2.5-7b-instruct-q4_k_m-00001-of-00002.gguf", "q4_k_m"),
            ("mistral-7b-instruct-v0.2.Q4_K_M.gguf", "Q4_K_M"),
            ("gemma-2-9b-it-IQ4_XS.gguf", "IQ4_XS"),
            ("BF16/DeepSeek-V3-BF16-00001-of-00030.gguf", "BF16"),
            ("Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
            ("gpt-oss-20b-MXFP4.gguf", "MXFP4"),
            ("tiny_llama_Q8_0.gguf", "Q8_0"),
            ("Llama-3.2-1B-Q4_0_4_4.gguf", "Q4_0_4_4"),
        ] {
            let present = [file.to_owned()];
            assert_eq!(models(&present)[0].quantisation, expected, "{file}");
        }
        for file in ["qwen2-7b.gguf", "ggml-model.gguf", "q-model.gguf"] {
            assert_eq!(models(&[file.to_owned()])[0].quantisation, "", "{file}");
        }
    }

    #[test]
    fn shards_are_one_model_and_projectors_none() {
        let present = [
            "m-Q8_0-00002-of-00002.gguf",
            "mmproj-m-f16.gguf",
            "m-Q8_0-00001-of-00002.gguf",
            "m-Q4_0.gguf",
            "m-Q2_K-00001-of-00002.gguf",
            "README.md",
        ]
        .map(str::to_owned);
        let models = models(&present);
        let names: Vec<_> = models.iter().map(|model| model.quantisation).collect();
        assert_eq!(names, ["Q2_K", "Q4_0", "Q8_0"]);
        let shards = ["m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf"];
        assert_eq!(models[2].all().unwrap(), shards);
        assert!(models[2].is("q8_0") && models[2].is(shards[1]) && !models[2].is("Q4_0"));
        let text = models[0].all().unwrap_err();
        assert!(text.contains("only 1 of the 2 parts of m-Q2_K-00001-of-00002.gguf"), "{text}");
    }
}
