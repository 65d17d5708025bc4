//! A download's progress on stderr, and only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::library::DownloadProgress;
use crate::printable::printable_line;

/// One bar; gone when it is dropped.
pub(super) struct DownloadBar(ProgressBar);

impl DownloadBar {
    pub(super) fn new() -> anyhow::Result<Self> {
        let bar = ProgressBar::new(0);
        let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        bar.set_style(ProgressStyle::with_template(style)?);
        Ok(Self(bar))
    }

    pub(super) fn show(&self, progress: &DownloadProgress) {
        let Self(bar) = self;
        bar.set_length(progress.total);
        bar.set_position(progress.done);
        let doing = if progress.checking { "checking " } else { "" };
        bar.set_message(format!("{doing}{}", printable_line(&progress.file)));
    }
}

impl Drop for DownloadBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
