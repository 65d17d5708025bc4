//! The differences between two runs' models, machines and settings, and how parts of one
//! measurement are joined. It must not depend on figures.

use super::record::Results;

impl Results {
    /// Adds another part of the same measurement, and notes the differences.
    pub fn join(&mut self, mut other: Self) {
        let first = self.next_batch();
        for answer in &mut other.answers {
            answer.batch += first;
        }
        self.notes.extend(differences(self, &other));
        self.notes.extend(other.notes);
        self.complete &= other.complete;
        self.answers.extend(other.answers);
        for sweep in other.sweeps {
            if !self.sweeps.contains(&sweep) {
                self.sweeps.push(sweep);
            }
        }
    }
}

/// The differences between two runs, one sentence each.
pub(super) fn differences(a: &Results, b: &Results) -> Vec<String> {
    let gpu =
        |results: &Results| results.environment.gpu.clone().unwrap_or_else(|| "none".to_owned());
    let drafts = |r: &Results| {
        let each = r.models.drafts.iter().map(|(name, draft)| format!("{name} {draft}"));
        each.collect::<Vec<_>>().join(", ")
    };
    let target = |r: &Results| format!("{} ({})", r.models.target, r.models.target_detail);
    [
        ("kind of run", a.kind.clone(), b.kind.clone()),
        ("version", a.version.clone(), b.version.clone()),
        ("processor", a.environment.cpu.clone(), b.environment.cpu.clone()),
        ("threads", a.environment.threads.to_string(), b.environment.threads.to_string()),
        ("GPU", gpu(a), gpu(b)),
        ("target", target(a), target(b)),
        ("drafts", drafts(a), drafts(b)),
        ("maximum tokens per answer", a.max_tokens.to_string(), b.max_tokens.to_string()),
        ("seed", a.seed.to_string(), b.seed.to_string()),
        ("settings", a.settings.join(" "), b.settings.join(" ")),
    ]
    .into_iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("Different {what}: A has {a}, B has {b}."))
    .collect()
}
