//! `dovetail pull`: downloads a model or a pair of the catalogue from the hub, so that later runs
//! need no network.

use std::io::Write;
use std::path::PathBuf;

use anyhow::anyhow;

use super::args::PullArgs;
use super::backend::with_download;
use super::exit::{CommandResult, Failure, report};
use super::output::stdout;
use crate::library::{CataloguePair, Hub, HubId, PairDraft, pair};

/// Downloads what is missing and prints where it lies.
pub fn pull(args: &PullArgs) -> CommandResult {
    let mut out = stdout()?;
    if let Some(id) = HubId::parse(&args.model) {
        return Ok(writeln!(out, "{}", fetch(&id, args.head)?.display())?);
    }
    let pair = pair(&args.model).map_err(|near| unknown(&args.model, &near))?;
    let CataloguePair { target, draft, licence, .. } = pair;
    let named = draft.as_ref().map(|draft| format!(", draft {}", draft.id())).unwrap_or_default();
    report(&format!("{}: target {target} ({licence}){named}", pair.title));
    writeln!(out, "{}", fetch(target, false)?.display())?;
    let mut command = format!("dovetail --target {target}");
    if let Some(draft) = draft {
        let is_head = matches!(draft, PairDraft::Head(_));
        writeln!(out, "{}", fetch(draft.id(), is_head)?.display())?;
        command = format!("{command} {} {}", draft.flag(), draft.id());
    }
    report(&format!("start it with: {command}"));
    Ok(())
}

fn unknown(given: &str, near: &[&str]) -> Failure {
    let near = match near {
        [] => String::new(),
        near => format!("; similar names: {}", near.join(", ")),
    };
    let message = format!(
        "no pair named \"{given}\"{near}. `dovetail models` lists the pairs. To download a single \
         model, give its hub id: owner/name, if needed followed by @revision, :file.gguf or \
         :Q4_K_M"
    );
    Failure::model(anyhow!(message))
}

/// Fetches a model, or a draft head; gives its place.
fn fetch(id: &HubId, is_head: bool) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::model(anyhow::Error::from(error));
    let hub = Hub::from_env().map_err(failed)?;
    let fetch = if is_head { Hub::head } else { Hub::target };
    with_download(|show| fetch(&hub, id, show))?.map_err(failed)
}
