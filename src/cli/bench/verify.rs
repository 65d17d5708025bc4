//! `dovetail bench verify`: from flags to a measurement. Must never measure by itself.

use anyhow::anyhow;

use super::args::VerifyArgs;
use super::not_measured;
use crate::bench::verify::{self, Subject, VerifyOptions};
use crate::cli::exit::{Code, CommandResult, Failure};
use crate::cli::output::stdout;
use crate::cli::threads::compute_threads;
use crate::kernels::Format;
use crate::model::KnownShape;

/// Times the target's passes.
pub(super) fn measure(args: &VerifyArgs) -> CommandResult {
    let subject = subject(args)?;
    let options = VerifyOptions {
        gammas: args.gammas.clone(),
        context: args.context,
        threads: compute_threads(args.threads),
        against_candle: args.against.is_some(),
        quick: args.quick,
        json: args.json,
        ..VerifyOptions::default()
    };
    verify::run(&subject, &options, &mut stdout()?).map_err(not_measured)
}

/// The model named, or random weights in a known shape.
fn subject(args: &VerifyArgs) -> Result<Subject, Failure> {
    if let Some(model) = &args.model {
        return Ok(Subject::Model(args.file.model(model)?));
    }
    let unknown = |what: &str, given: &str, known: Vec<String>| {
        let message = format!("--{what}: `{given}` is not one of {}", known.join(", "));
        Failure::new(Code::Usage, anyhow!(message))
    };
    let shapes = [KnownShape::B1, KnownShape::B7, KnownShape::B13];
    let shape = shapes.into_iter().find(|shape| shape.name() == args.shape).ok_or_else(|| {
        unknown("shape", &args.shape, shapes.map(|shape| shape.name().to_owned()).to_vec())
    })?;
    let format = Format::from_name(&args.format).ok_or_else(|| {
        let known = Format::ALL.map(|format| format.to_string().to_lowercase());
        unknown("format", &args.format, known.to_vec())
    })?;
    Ok(Subject::Shape(shape, format))
}
