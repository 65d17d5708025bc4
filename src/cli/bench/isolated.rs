//! One candidate in a process of its own, so that its memory is its own: the same program with the
//! same flags, and its results as JSON. It must not measure by itself.

use std::process::{Command, Stdio};

use super::args::BenchRunArgs;
use crate::bench::strategies::{BenchRun, CandidateLine, Results};
use crate::cli::exit::Code;
use crate::settings::SettingValue;

/// Measures `line` and the target alone: the results, and whether the process says that something
/// failed.
///
/// # Errors
/// The exit code, and why nothing was measured.
pub(super) fn run(
    args: &BenchRunArgs,
    run: &BenchRun,
    line: &CandidateLine,
) -> Result<(Results, bool), (Code, String)> {
    let failed = |error: std::io::Error| (Code::Failed, format!("cannot start a process: {error}"));
    // The sets as they are here: files may be named differently from the folder they came from.
    let folder = tempfile::tempdir().map_err(failed)?;
    let mut places = Vec::new();
    for (number, set) in run.sets.iter().enumerate() {
        let place = folder.path().join(format!("{number:03}"));
        std::fs::create_dir(&place).map_err(failed)?;
        let lines: Result<Vec<String>, _> = set.prompts.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(|error| (Code::Failed, error.to_string()))?;
        let file = place.join(format!("{}.jsonl", set.name));
        std::fs::write(file, lines.join("\n")).map_err(failed)?;
        places.push(place.display().to_string());
    }
    let temperatures: Vec<String> = run.temperatures.iter().map(f32::to_string).collect();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["bench", "--json", "--strategies", &line.text()]);
    command.arg(format!("--prompts={}", places.join(",")));
    command.arg(format!("--temperature={}", temperatures.join(",")));
    command.args(flags(args));
    if let Some(config) = &args.shared.file.config {
        command.arg("--config").arg(config);
    }
    let output = command.stdin(Stdio::null()).output().map_err(failed)?;
    let code = output.status.code();
    match serde_json::from_slice::<Results>(&output.stdout) {
        Ok(results) => Ok((results, code == Some(Code::Failed as i32))),
        Err(_) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let reason = reason(&said).unwrap_or("its process ended early");
            let code = match code {
                Some(2) => Code::Usage,
                Some(3) => Code::Model,
                _ => Code::Failed,
            };
            Err((code, reason.to_owned()))
        }
    }
}

/// Why a process measured nothing, from what it said: why its candidate was left out, without the
/// name, which is known; else its error.
fn reason(said: &str) -> Option<&str> {
    let left = said.lines().rev().find_map(|line| line.strip_prefix("left out: "));
    let without_name = |left: &str| -> Option<usize> {
        let (name, _) = left.strip_prefix('`')?.split_once('`')?;
        Some(name.len() + 2)
    };
    let left = left.map(|left| &left[without_name(left).unwrap_or(0)..]);
    let left = left.map(|left| left.trim_start_matches(':').trim_start());
    let error = said.lines().find_map(|line| line.strip_prefix("error: "));
    left.or(error).or(said.lines().last())
}

/// The flags that hold for all candidates, as they were given.
fn flags(args: &BenchRunArgs) -> Vec<String> {
    // Temperatures have a list of their own, and the strategy is the candidate's.
    let apart = ["sampler.temperature", "strategy"];
    let mut all = Vec::new();
    let flags = args.shared.settings.0.iter();
    // The process inherits the variables.
    let flags = flags.filter(|over| over.flag.starts_with("--"));
    for over in flags.filter(|over| !apart.contains(&over.key)) {
        match &over.value {
            SettingValue::Switch(_) => all.push(over.flag.to_owned()),
            SettingValue::List(texts) => {
                all.extend(texts.iter().map(|text| format!("{}={text}", over.flag)));
            }
            SettingValue::Text(text) => all.push(format!("{}={text}", over.flag)),
            other => all.push(format!("{}={other}", over.flag)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn a_candidate_that_was_left_out_says_why() {
        let said = "left out: `plain:x` needs a GPU\nleft out: `a:x`: no file `b`\n\
                    error: no strategy is left to measure";
        assert_eq!(reason(said), Some("no file `b`"));
        let placed = "left out: `offload` needs a GPU\nerror: no strategy";
        assert_eq!(reason(placed), Some("needs a GPU"));
        assert_eq!(reason("a note\nerror: no memory\n"), Some("no memory"));
        assert_eq!(reason("killed"), Some("killed"));
        assert_eq!(reason(""), None);
    }
}
