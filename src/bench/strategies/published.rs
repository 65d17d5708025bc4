//! Figures from the papers, shown next to ours only if the models are theirs. It must not compute.

use super::record::Models;

/// A note on the paper's own figures for this target; `None` for any other.
///
/// Dovetail (arXiv 2412.18934), as the method's description has it: the headline figures belong to
/// a draft of five blocks (its Table III, "DGF+4"). Figures by set are not restated there.
pub(super) fn beside(models: &Models) -> Option<String> {
    let name = models.target.to_lowercase().replace(['_', ' '], "-");
    let theirs = ["llama-2-7b-chat", "llama2-chat-7b", "llama2-7b-chat"];
    theirs.iter().any(|target| name.contains(target)).then(|| {
        "The Dovetail paper reports for Llama-2-7B-chat, with the target in f32 on the CPU and a \
         draft of five blocks on the GPU: 2.25× with τ 4.73, and 2.77× with τ 5.90."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_their_target_has_their_figures() {
        let models = |target: &str| Models {
            target: target.to_owned(),
            target_detail: String::new(),
            drafts: Vec::new(),
            parameters: Vec::new(),
            context: 0,
        };
        assert!(beside(&models("bundled target")).is_none());
        assert!(beside(&models("llama-3-8b-instruct")).is_none());
        assert!(beside(&models("Llama-2-7b-chat-hf")).unwrap().contains("2.25×"));
    }
}
