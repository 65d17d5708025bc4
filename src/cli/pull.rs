//! `dovetail pull`: fetches a model from the hub, so that later runs need no network.

use std::io::Write;

use anyhow::anyhow;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::PullArgs;
use super::exit::{Code, Failure, Outcome};
use super::output::stdout;
use crate::library::{Hub, HubId, Progress};
use crate::printable::printable_line;

/// Downloads what is missing and prints where it lies.
pub fn pull(args: &PullArgs) -> Outcome {
    let mut out = stdout()?;
    let id = HubId::parse(&args.model).ok_or_else(|| {
        let message = format!(
            "`{}` is no hub id; give owner/name, with @revision or :file.gguf behind it if needed",
            args.model
        );
        Failure::new(Code::Usage, anyhow!(message))
    })?;
    // Draws on stderr, and only on a terminal.
    let bar = ProgressBar::new(0);
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    bar.set_style(ProgressStyle::with_template(style).map_err(anyhow::Error::from)?);
    let mut show = |progress: &Progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        let doing = if progress.checking { "checking " } else { "" };
        bar.set_message(format!("{doing}{}", printable_line(&progress.file)));
    };
    let failed = |error| Failure::new(Code::Model, anyhow::Error::from(error));
    let hub = Hub::from_env().map_err(failed)?;
    let place = if args.head { hub.head(&id, &mut show) } else { hub.target(&id, &mut show) };
    bar.finish_and_clear();
    Ok(writeln!(out, "{}", place.map_err(failed)?.display())?)
}
