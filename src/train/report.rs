//! The report of one training step. Must never know how it is shown.

/// How good the head's estimates are, at one depth and after so many steps on its own outputs.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Measure {
    /// m: blocks run.
    pub depth: usize,
    /// 0: it read the target's features; s: it read its own outputs s times in a row.
    pub step: usize,
    /// Rows that counted.
    pub rows: usize,
    /// SmoothL1 between estimated and true features, the mean over rows and components.
    pub vloss: f64,
    /// Cross-entropy with the target's distribution, in nats a row.
    pub ploss: f64,
    /// Share of rows in which the target's likeliest token is among the head's 1, 2 and 3
    /// likeliest.
    pub right: [f64; 3],
}

/// One step of the optimiser.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct StepReport {
    /// Steps made, this one included.
    pub step: u64,
    /// Passes over the examples finished before this step.
    pub epoch: u64,
    /// Share of the training done, 0 to 1.
    pub progress: f64,
    /// The rate this step was made with.
    pub learning_rate: f64,
    /// What was minimised: the weighted losses of all measures.
    pub loss: f64,
    /// Each exit and feedback step that had a loss; the deepest exit on true features is first.
    pub measures: Vec<Measure>,
    /// Pairs that went through the head, padding left out.
    pub tokens: u64,
    /// Time of the step.
    pub seconds: f64,
}
