//! The report of one training step. It must not depend on how it is shown.

/// How good the head's estimates are, at one depth and after a number of steps on its own outputs.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Measure {
    /// m: how many blocks were run.
    pub depth: usize,
    /// 0 if it read the target's features; s if it read its own outputs s times in a row.
    pub step: usize,
    /// How many rows counted.
    pub rows: usize,
    /// SmoothL1 between estimated and true features, averaged over rows and components.
    pub vloss: f64,
    /// Cross-entropy with the target's distribution, in nats per row.
    pub ploss: f64,
    /// The share of rows in which the target's likeliest token is among the head's 1, 2 and 3
    /// likeliest.
    pub right: [f64; 3],
}

/// One step of the optimiser.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StepReport {
    /// How many steps were made, including this one.
    pub step: u64,
    /// How many passes over the examples were completed before this step.
    pub epoch: u64,
    /// The fraction of the training that is done, 0 to 1.
    pub progress: f64,
    /// The learning rate of this step.
    pub learning_rate: f64,
    /// What was minimised: the weighted losses of all measures.
    pub loss: f64,
    /// Each exit and feedback step that had a loss; the deepest exit on true features comes first.
    pub measures: Vec<Measure>,
    /// How many pairs went through the head, without padding.
    pub tokens: u64,
    /// Time of the step.
    pub seconds: f64,
}
