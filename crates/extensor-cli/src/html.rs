//! A page with the error-against-ε plot of every operation, and functions beside their derivatives.

use extensor::check::Step;
use extensor::check::suite::{Outcome, Plan, convergence, samples};
use extensor::ops::catalogue;
use extensor::ops::operation::{self, apply};
use extensor::ops::params::Params;
use extensor::ops::record::{Class, Record};
use extensor::{DType, Tensor};
use std::fmt::Write;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 200.0;
const MARGIN: f64 = 34.0;

/// A self-contained page.
pub fn page(plan: &Plan, outcomes: &[Outcome]) -> String {
    let checks: usize = outcomes.iter().map(|o| o.checks).sum();
    let failed: usize = outcomes.iter().map(|o| o.failed).sum();
    let dtypes: Vec<&str> = plan.dtypes.iter().map(|d| d.name()).collect();
    let mut body = String::new();
    for outcome in outcomes {
        body += &section(plan, outcome);
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>extensor check</title>\n<style>{STYLE}</style></head><body>\n\
         <h1>extensor check</h1>\n\
         <p>{} operations, {checks} checks in {}, {failed} failed, seed {}.</p>\n\
         <p>Left: how the error of a central difference against the gradient moves with ε; \
         truncation falls to the left, rounding rises. Right: the function (solid) and its \
         derivative (dashed), where it is a function of one number.</p>\n{body}</body></html>\n",
        outcomes.len(),
        dtypes.join(", "),
        plan.seed
    )
}

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
padding:0 1rem;color:#222;background:#fff}h2{margin:2rem 0 .2rem;font-size:1.1rem}\
code{background:#f3f3f3;padding:0 .2em}.failed{color:#b00020}svg{margin-right:1rem}\
svg text{font:10px sans-serif;fill:#555}.axis{stroke:#bbb}.y{stroke:#1558b0}.dy{stroke:#c25700;\
stroke-dasharray:5 3}.line{fill:none;stroke-width:1.6}pre{background:#fff4f4;padding:.6rem;\
overflow:auto}table{border-spacing:.8rem 0;margin-left:-.8rem;color:#555}";

fn section(plan: &Plan, outcome: &Outcome) -> String {
    let Ok(record) = catalogue::find(outcome.name) else {
        return String::new();
    };
    let state = if outcome.passed() { "" } else { " <span class=\"failed\">failed</span>" };
    let mut text = format!(
        "<h2 id=\"{0}\">{0}{state}</h2>\n<p><code>{1}</code> {2}; {3}<br>\n\
         {4} checks, worst error {5:.3} of the tolerance, {6:.1} ms</p>\n",
        escape(outcome.name),
        escape(&record.signature()),
        escape(record.formula),
        escape(record.derivative),
        outcome.checks,
        outcome.worst,
        outcome.time.as_secs_f64() * 1e3
    );
    if let Ok(steps) = convergence(record, plan.seed)
        && !steps.is_empty()
    {
        text += &error_plot(&steps);
    }
    if let Some(curves) = curves(record, plan.seed) {
        text += &function_plot(&curves);
    }
    text += "<table><tr>";
    for (kind, count) in &outcome.kinds {
        let _ = write!(text, "<td>{} {count}</td>", escape(kind));
    }
    text += "</tr></table>\n";
    for failure in &outcome.failures {
        let words = format!("{}: {}\n{}", failure.kind, failure.at, failure.report);
        let _ = writeln!(text, "<pre>{}</pre>", escape(&words));
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A stretch of numbers shown along an axis.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Option<Range> {
        let mut range = Range { low: f64::INFINITY, high: f64::NEG_INFINITY };
        for value in values.filter(|v| v.is_finite()) {
            range = Range { low: range.low.min(value), high: range.high.max(value) };
        }
        let flat = range.low == range.high;
        let widened = Range { low: range.low - 0.5, high: range.high + 0.5 };
        range.low.is_finite().then_some(if flat { widened } else { range })
    }

    fn x(self, value: f64) -> f64 {
        MARGIN + (value - self.low) / (self.high - self.low) * (WIDTH - MARGIN - 8.0)
    }

    fn y(self, value: f64) -> f64 {
        HEIGHT - 20.0 - (value - self.low) / (self.high - self.low) * (HEIGHT - 30.0)
    }
}

/// A path through the points; those that are not finite interrupt it.
fn path(class: &str, points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut commands = String::new();
    let mut drawing = false;
    for (x, y) in points {
        if y.is_finite() && x.is_finite() {
            let _ = write!(commands, "{}{x:.1} {y:.1}", if drawing { 'L' } else { 'M' });
        }
        drawing = y.is_finite() && x.is_finite();
    }
    format!("<path class=\"line {class}\" d=\"{commands}\"/>")
}

fn frame(contents: &str, x: [(f64, String); 2], y: [(f64, String); 2], label: &str) -> String {
    let (bottom, right) = (HEIGHT - 20.0, WIDTH - 8.0);
    let mut text = format!(
        "<svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{label}\">\
         <path class=\"axis\" fill=\"none\" d=\"M{MARGIN} 8V{bottom}H{right}\"/>"
    );
    for (at, words) in x {
        let _ = write!(
            text,
            "<text x=\"{at:.0}\" y=\"{}\" text-anchor=\"middle\">{words}</text>",
            HEIGHT - 6.0
        );
    }
    for (at, words) in y {
        let _ = write!(
            text,
            "<text x=\"{}\" y=\"{at:.0}\" text-anchor=\"end\">{words}</text>",
            MARGIN - 3.0
        );
    }
    text + contents + "</svg>\n"
}

fn error_plot(steps: &[Step]) -> String {
    // An error of exactly 0 is drawn where the smallest number above it would be.
    let log = |v: f64| v.max(1e-17).log10();
    let eps = Range::of(steps.iter().map(|s| log(s.eps)));
    let error = Range::of(steps.iter().map(|s| log(s.error)));
    let (Some(eps), Some(error)) = (eps, error) else {
        return String::new();
    };
    let points = steps.iter().map(|s| (eps.x(log(s.eps)), error.y(log(s.error))));
    let power = |v: f64| format!("1e{v:.0}");
    frame(
        &path("y", points),
        [eps.low, eps.high].map(|v| (eps.x(v).min(WIDTH - 30.0), format!("ε = {}", power(v)))),
        [error.low, error.high].map(|v| (error.y(v) + 3.0, power(v))),
        "error against ε",
    )
}

/// A function of one number and its derivative.
struct Curves {
    x: Vec<f64>,
    y: Vec<f64>,
    dy: Vec<f64>,
}

fn curves(record: &'static Record, seed: u64) -> Option<Curves> {
    if record.inputs.len() != 1 || record.class != Class::Elementwise {
        return None;
    }
    let samples = samples(record, seed);
    let smooth = samples.iter().filter(|s| s.smooth);
    let values: Vec<f64> = smooth.flat_map(|s| s.inputs[0].to_f64_vec()).collect();
    let range = Range::of(values.into_iter())?;
    // With the parameters of the first sample: those without defaults are given there.
    let params = samples.first().map_or_else(Params::new, |s| s.params.clone());
    let op = record.operation(&params).ok()?;
    let x = Tensor::linspace(range.low, range.high, 241, DType::F64).ok()?;
    let outputs = apply(&*op, &[&x]).ok()?;
    let y = outputs.first().filter(|y| y.dtype().is_float() && y.shape() == x.shape())?;
    let ones = y.ones_like().ok()?;
    let grads = operation::backward(&*op, &[&ones], &[&x], &[y], &[true]).ok()?;
    let dy = grads.into_iter().next().flatten()?;
    Some(Curves { x: x.to_f64_vec(), y: y.to_f64_vec(), dy: dy.to_f64_vec() })
}

fn function_plot(curves: &Curves) -> String {
    let across = Range::of(curves.x.iter().copied());
    let up = Range::of(curves.y.iter().chain(&curves.dy).copied());
    let (Some(across), Some(up)) = (across, up) else {
        return String::new();
    };
    let line = |class, values: &[f64]| {
        let points = curves.x.iter().zip(values);
        path(class, points.map(|(&x, &y)| (across.x(x), up.y(y))))
    };
    let number = |v: f64| format!("{v:.1}");
    let zero = if up.low < 0.0 && up.high > 0.0 {
        let (left, right) = (across.x(across.low), across.x(across.high));
        path("axis", [(left, up.y(0.0)), (right, up.y(0.0))].into_iter())
    } else {
        String::new()
    };
    frame(
        &(zero + &line("y", &curves.y) + &line("dy", &curves.dy)),
        [across.low, across.high].map(|v| (across.x(v).min(WIDTH - 16.0), number(v))),
        [up.low, up.high].map(|v| (up.y(v) + 3.0, number(v))),
        "the function and its derivative",
    )
}
