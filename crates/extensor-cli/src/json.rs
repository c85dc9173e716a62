//! Results for machines.

use crate::golden::Summary;
use extensor::DType;
use extensor::check::suite::{Outcome, Plan};
use serde_json::{Value, json};

/// The outcomes of a run of the suite.
pub fn suite(plan: &Plan, outcomes: &[Outcome]) -> String {
    let operations: Vec<Value> = outcomes.iter().map(operation).collect();
    let dtypes: Vec<&str> = plan.dtypes.iter().map(|d| d.name()).collect();
    pretty(&json!({
        "format": 1,
        "seed": plan.seed,
        "order": plan.order,
        "dtypes": dtypes,
        "passed": outcomes.iter().all(Outcome::passed),
        "checks": outcomes.iter().map(|o| o.checks).sum::<usize>(),
        "failed": outcomes.iter().map(|o| o.failed).sum::<usize>(),
        "operations": operations,
    }))
}

/// The outcomes of a run over points or over all values.
pub fn outcomes(dtypes: &[DType], outcomes: &[Outcome]) -> String {
    let operations: Vec<Value> = outcomes.iter().map(operation).collect();
    let dtypes: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
    pretty(&json!({
        "format": 1,
        "dtypes": dtypes,
        "passed": outcomes.iter().all(Outcome::passed),
        "checks": outcomes.iter().map(|o| o.checks).sum::<usize>(),
        "failed": outcomes.iter().map(|o| o.failed).sum::<usize>(),
        "operations": operations,
    }))
}

fn operation(outcome: &Outcome) -> Value {
    let kinds: serde_json::Map<String, Value> =
        outcome.kinds.iter().map(|(kind, count)| (kind.to_string(), json!(count))).collect();
    let failures: Vec<Value> = outcome
        .failures
        .iter()
        .map(|f| json!({ "kind": f.kind, "at": f.at, "report": f.report }))
        .collect();
    json!({
        "name": outcome.name,
        "family": outcome.family.to_string(),
        "passed": outcome.passed(),
        "checks": outcome.checks,
        "kinds": kinds,
        "worst_error_over_tolerance": outcome.worst,
        "seconds": outcome.time.as_secs_f64(),
        "failed": outcome.failed,
        "failures": failures,
    })
}

/// The result of a run of golden cases.
pub fn golden(summary: &Summary) -> String {
    let failures: Vec<Value> = summary
        .failures
        .iter()
        .map(|f| json!({ "id": f.id, "op": f.op, "reason": f.reason }))
        .collect();
    pretty(&json!({
        "format": 1,
        "passed": summary.passed,
        "failed": summary.failures.len(),
        "failures": failures,
    }))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
