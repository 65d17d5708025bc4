//! Which of several draft heads is used, as a sentence.

use super::obstacle;
use crate::plan::HeadForecast;

/// The head that was chosen, and what was weighed of the others.
pub(super) fn chosen(heads: &[HeadForecast], taken: usize, on_gpu: bool) -> String {
    let Some(head) = heads.get(taken) else { return String::new() };
    let place = if on_gpu { "GPU" } else { "CPU" };
    let rate = head.rate.as_ref().map_or(0.0, |rate| *rate);
    let mut text = format!(
        "Using draft head {} (of {}, M = {}): about {rate:.1} tokens/s expected on the {place}.",
        head.name,
        heads.len(),
        head.blocks
    );
    let others = heads.iter().enumerate().filter(|(index, _)| *index != taken);
    let others: Vec<String> = others.map(|(_, head)| other(head)).collect();
    if !others.is_empty() {
        text += &format!(" Others: {}.", others.join("; "));
    }
    text
}

fn other(head: &HeadForecast) -> String {
    let HeadForecast { name, blocks, rate } = head;
    match rate {
        Ok(rate) => format!("{name} (M = {blocks}) {rate:.1}"),
        Err(why) => format!("{name} (M = {blocks}) is not possible ({})", obstacle(why)),
    }
}
