//! Names of models as users know them: those under which they are published. It must never read a
//! file.

/// Words that describe a conversion and not the model, in lower case.
const CONVERSIONS: [&str; 8] = ["fp8", "gguf", "ggml", "ggmlv3", "imatrix", "imat", "i1", "ud"];
/// Types of weights whose names are not a letter and a number of bits, in lower case.
const TYPES: [&str; 8] = ["f16", "f32", "bf16", "fp16", "fp32", "mxfp4", "nvfp4", "mxfp4_moe"];
/// How the words of training runs begin; a number follows.
const TRAINING: [&str; 11] =
    ["ep", "epoch", "epochs", "mix", "step", "steps", "iter", "ckpt", "checkpoint", "lc", "run"];
/// Names with capitals inside, as their makers write them.
const SPELLINGS: [&str; 8] =
    ["SmolLM", "TinyLlama", "CodeLlama", "DeepSeek", "StarCoder", "OLMo", "EXAONE", "GPT"];

/// The name of the model whose file (without its extension), folder or tag is `called`.
///
/// A file's name that states how large the model is takes precedence: the model was published under
/// it, and users look for it. Headers often contain the folder of a training run instead (`Smollm2
/// 135M 8k Lc100K Mix1 Ep2`). They are used if the file's name does not name the model, as with
/// `ggml-model-q4_0` or a hash. `header` reads a text under `general.` in a GGUF header.
pub(super) fn title<'a>(called: &str, header: impl Fn(&str) -> Option<&'a str>) -> String {
    // Ollama's tags are already names.
    if called.contains(':') {
        return called.to_owned();
    }
    published(called).or_else(|| of_header(header)).unwrap_or_else(|| without_type(called))
}

/// The name followed by `size`, unless it already contains a size.
pub(super) fn with_size(title: &str, size: &str) -> String {
    let has_size = title.split([' ', '-', '_', ':']).any(is_size);
    if has_size { title.to_owned() } else { format!("{title} {size}") }
}

/// The name in the form in which models are published, which states how large the model is; `None`
/// if it has another form.
fn published(name: &str) -> Option<String> {
    let words = words(name);
    let is_published = words.iter().any(|word| is_size(word));
    is_published.then(|| words.into_iter().map(respelled).collect::<Vec<_>>().join(" "))
}

/// What the header calls the model. Its parts are preferred, because the whole name is often a
/// folder of the person who converted the model.
fn of_header<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let said = |key: &str| {
        let part = header(key).map(str::trim).filter(|part| !part.is_empty())?;
        let is_run = words(part).into_iter().any(is_training);
        (!is_run).then(|| part.to_owned())
    };
    let parts = match (said("basename"), said("size_label")) {
        (Some(base), Some(size)) => {
            let rest = [said("version"), Some(size), said("finetune")];
            std::iter::once(base).chain(rest.into_iter().flatten()).collect::<Vec<_>>().join(" ")
        }
        (base, _) => said("name").or(base)?,
    };
    Some(published(&parts).unwrap_or(parts))
}

/// The words of a name, without those of its conversion.
fn words(name: &str) -> Vec<&str> {
    let parts = name.split(['-', ' ', '/']).flat_map(undotted);
    let parts = parts.filter(|part| !is_conversion(part));
    parts.flat_map(|part| part.split('_')).filter(|word| !word.is_empty()).collect()
}

/// Splits at the dots that are not in a number: `Instruct.Q4_1`, but not `v0.2`.
fn undotted(part: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for (dot, _) in part.match_indices('.') {
        if !part[dot + 1..].starts_with(|c: char| c.is_ascii_digit()) {
            pieces.push(&part[begin..dot]);
            begin = dot + 1;
        }
    }
    pieces.push(&part[begin..]);
    pieces
}

/// Whether a part of a name is a type of weights, such as `Q4_K_M`, `IQ4_XS`, `BF16`, `MXFP4_MOE`.
pub(super) fn is_weight_type(part: &str) -> bool {
    let part = part.to_lowercase();
    let code = ["iq", "tq", "q"].iter().find_map(|prefix| part.strip_prefix(prefix));
    let has_bits = code.is_some_and(|code| {
        let rest = code.strip_prefix(|c: char| c.is_ascii_digit());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    });
    has_bits || TYPES.contains(&part.as_str())
}

/// Whether it is a type of weights or a kind of file.
fn is_conversion(part: &str) -> bool {
    is_weight_type(part) || CONVERSIONS.contains(&part.to_lowercase().as_str())
}

/// `0.5b`, `135M`, `8x7B`.
fn is_size(word: &str) -> bool {
    let lower = word.to_lowercase();
    lower.strip_suffix(['b', 'm', 'k']).is_some_and(|number| {
        number.starts_with(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| c.is_ascii_digit() || c == '.' || c == 'x')
    })
}

/// `ep2`, `Lc100K`: a word of a training run.
fn is_training(word: &str) -> bool {
    let lower = word.to_lowercase();
    TRAINING.iter().any(|prefix| {
        let number = lower.strip_prefix(prefix).map(|rest| rest.trim_end_matches(['k', 'm']));
        number.is_some_and(|rest| {
            !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
    })
}

/// A name without the type of weights at its end.
fn without_type(called: &str) -> String {
    let mut name = called;
    while let Some(at) = name.rfind(['-', '.', ' ']).filter(|at| is_conversion(&name[at + 1..])) {
        name = &name[..at];
    }
    name.to_owned()
}

/// A word as it is published: sizes and names have capitals, versions have none.
fn respelled(word: &str) -> String {
    let lower = word.to_lowercase();
    if is_size(word) {
        return lower.to_uppercase().replace('X', "x");
    }
    let spelling = SPELLINGS.iter().find_map(|name| {
        let (start, rest) = word.split_at_checked(name.len())?;
        start.eq_ignore_ascii_case(name).then_some((name, rest))
    });
    if let Some((name, rest)) = spelling {
        return format!("{name}{rest}");
    }
    let is_version =
        lower.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut letters = word.chars();
    match letters.next() {
        Some(first) if word == lower && word != "it" && !is_version => {
            first.to_uppercase().chain(letters).collect()
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(texts: &[(&str, &'a str)]) -> impl Fn(&str) -> Option<&'a str> {
        |key| texts.iter().find(|(own, _)| *own == key).map(|(_, text)| *text)
    }

    #[test]
    fn a_file_gives_the_name_under_which_its_model_is_known() {
        for (called, expected) in [
            ("SmolLM2-135M-Instruct.Q4_1", "SmolLM2 135M Instruct"),
            ("smollm2-1.7b-instruct-q4_k_m", "SmolLM2 1.7B Instruct"),
            ("qwen2.5-0.5b-instruct-q4_k_m", "Qwen2.5 0.5B Instruct"),
            ("qwen2.5-coder-0.5b-instruct-q8_0", "Qwen2.5 Coder 0.5B Instruct"),
            ("Qwen2.5-0.5B-Instruct-AWQ.Q4_K_M", "Qwen2.5 0.5B Instruct AWQ"),
            ("Qwen3-0.6B-UD-Q4_K_XL", "Qwen3 0.6B"),
            ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "Meta Llama 3.1 8B Instruct"),
            ("llama-2-7b-chat.ggmlv3.q4_0", "Llama 2 7B Chat"),
            ("mistral-7b-instruct-v0.2.Q4_K_M", "Mistral 7B Instruct v0.2"),
            ("mixtral-8x7b-instruct-v0.1.Q4_K_M", "Mixtral 8x7B Instruct v0.1"),
            ("tinyllama-1.1b-chat-v1.0.Q4_K_M", "TinyLlama 1.1B Chat v1.0"),
            ("google_gemma-3-1b-it-Q4_K_M", "Google Gemma 3 1B it"),
            ("DeepSeek-R1-Distill-Qwen-1.5B-Q4_K_M", "DeepSeek R1 Distill Qwen 1.5B"),
            ("gpt-oss-20b-mxfp4", "GPT Oss 20B"),
            ("SmolLM2-135M-Instruct", "SmolLM2 135M Instruct"),
            // Without a size, as its owner wrote it.
            ("phi-2.Q8_0", "phi-2"),
            ("my_tuned.model-v3-f16", "my_tuned.model-v3"),
            ("twin", "twin"),
            // A tag of Ollama's.
            ("qwen2.5:0.5b", "qwen2.5:0.5b"),
        ] {
            assert_eq!(title(called, |_| None), expected, "{called}");
        }
    }

    #[test]
    fn the_header_of_a_training_run_does_not_name_the_model() {
        let whole = ("name", "Smollm2 135M 8k Lc100K Mix1 Ep2");
        let parts =
            [("basename", "smollm2"), ("size_label", "135M"), ("finetune", "8k-lc100k-mix1-ep2")];
        let all = [&[whole], &parts[..]].concat();
        assert_eq!(title("SmolLM2-135M-Instruct.Q4_1", header(&all)), "SmolLM2 135M Instruct");
        assert_eq!(title("ggml-model-q4_1", header(&all)), "SmolLM2 135M");
        assert_eq!(title("model", header(&[whole])), "model");
    }

    #[test]
    fn a_header_names_what_its_file_does_not() {
        let parts = [
            ("name", "models--x"),
            ("basename", "Qwen2.5-Coder"),
            ("size_label", "0.5B"),
            ("finetune", "Instruct"),
        ];
        let blob = format!("sha256-{}", "0123456789abcdef".repeat(4));
        for (called, bare) in [
            ("ggml-model-q4_0", "ggml-model"),
            ("unsloth.Q4_K_M", "unsloth"),
            ("consolidated", "consolidated"),
            (blob.as_str(), blob.as_str()),
        ] {
            assert_eq!(title(called, header(&parts)), "Qwen2.5 Coder 0.5B Instruct", "{called}");
            assert_eq!(title(called, header(&[("name", " Vicuna 7B ")])), "Vicuna 7B", "{called}");
            assert_eq!(title(called, header(&[("name", "My own")])), "My own", "{called}");
            assert_eq!(title(called, |_| None), bare);
        }
        let base = [("basename", "x-model"), ("name", "")];
        assert_eq!(title("model", header(&base)), "x-model");
    }

    #[test]
    fn a_size_is_told_once() {
        for (name, expected) in [
            ("dovetail-demo", "dovetail-demo 6M"),
            ("SmolLM2 135M Instruct", "SmolLM2 135M Instruct"),
            ("phi-2", "phi-2 6M"),
            ("qwen2.5:0.5b", "qwen2.5:0.5b"),
        ] {
            assert_eq!(with_size(name, "6M"), expected);
        }
    }
}
