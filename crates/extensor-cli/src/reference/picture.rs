//! Which picture shows an operation best: its curve with two derivatives, a slice through it, or
//! numbers before and after.

use super::chart::{Cells, Chart, Curve, cells};
use extensor::autodiff::jvp;
use extensor::check::suite::samples;
use extensor::ops::operation::apply;
use extensor::ops::params::Params;
use extensor::ops::record::{Class, Count, Family, Record};
use extensor::ops::samples::Sample;
use extensor::{DType, Result, Tensor};

/// A picture and what it shows.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The lines of an SVG element, in one.
    pub svg: String,
    /// What it shows, as Markdown.
    pub caption: String,
    /// The numbers along the horizontal axis, where there is one.
    pub across: Option<(f64, f64)>,
}

/// So many points make a curve.
/// An even number, so that steps at whole numbers fall between them.
const POINTS: usize = 480;

/// The picture of an operation, if there is one that says something.
pub fn picture(record: &'static Record) -> Option<Picture> {
    let all = samples(record, 0);
    let found = match record.family {
        Family::Loss => loss(record),
        Family::Normalization => varied(record, &all),
        Family::Shape | Family::Pooling => before_and_after(record),
        _ if record.name.ends_with("softmax") => varied(record, &all),
        _ if record.class == Class::Reduction || record.name.starts_with("cum") => {
            before_and_after(record)
        }
        _ if record.name == "matmul" || record.name == "outer" || record.name == "transpose" => {
            before_and_after(record)
        }
        _ if record.class == Class::Elementwise => curve(record, &all),
        _ => return None,
    };
    found.ok().flatten()
}

/// From where to where the smooth samples go, at round numbers if the function is finite there.
fn range(record: &'static Record, all: &[Sample]) -> Option<(f64, f64)> {
    let of = |all: &mut dyn Iterator<Item = &Sample>| {
        let values = all.flat_map(|s| s.inputs[0].to_f64_vec()).filter(|v| v.is_finite());
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |r, v| (r.0.min(v), r.1.max(v)))
    };
    let plain = |s: &&Sample| s.smooth && !s.far && s.note.is_empty() && s.inputs[0].len() < 1000;
    let (low, high) = of(&mut all.iter().filter(plain));
    if low >= high {
        return None;
    }
    // Numbers drawn at random come near the ends of their range and not to them: the roundest
    // numbers that are not far out are meant.
    let span = high - low;
    let decade = 10f64.powf(span.log10().floor());
    let units = [5.0, 2.0, 1.0, 0.5, 0.2, 0.1].map(|m| m * decade);
    let rounded = |unit: f64| ((low / unit).floor() * unit, (high / unit).ceil() * unit);
    let close = |&(a, b): &(f64, f64)| low - a <= 0.1 * span && b - high <= 0.1 * span;
    let outward = units.into_iter().map(rounded).find(close).unwrap_or((low, high));
    let finite = |at: f64| {
        let params = all.first().map_or_else(Params::new, |s| s.params.clone());
        let y = value(record, &params, &extensor::tensor([at]), &[]);
        y.is_ok_and(|y| y.to_f64_vec().iter().all(|v| v.is_finite()))
    };
    let inward = |at: f64, bound: f64, step: f64| if finite(at) { at } else { bound + step };
    Some((
        inward(outward.0, outward.0, 0.02 * (high - low)),
        inward(outward.1, outward.1, -0.02 * (high - low)),
    ))
}

/// The result for a number at a time, the other inputs being constants.
fn value(record: &'static Record, params: &Params, x: &Tensor, others: &[f64]) -> Result<Tensor> {
    let op = record.operation(params)?;
    let others: Vec<Tensor> = others
        .iter()
        .map(|&c| Tensor::full(x.shape().clone(), c, DType::F64))
        .collect::<Result<_>>()?;
    let mut inputs: Vec<&Tensor> = vec![x];
    inputs.extend(others.iter());
    Ok(apply(&*op, &inputs)?.swap_remove(0))
}

/// A function of each number by itself with its first two derivatives.
fn with_derivatives(f: &dyn Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<[Vec<f64>; 3]> {
    let ones = x.ones_like()?;
    let slope = |x: &Tensor| Ok(jvp(|x: &Tensor| f(x), x, &ones)?.1);
    let first = slope(x)?;
    // A function whose derivative is constant has a second one of zeros.
    let second = jvp(slope, x, &ones)?.1;
    Ok([f(x)?.to_f64_vec(), first.to_f64_vec(), second.to_f64_vec()])
}

/// Function, derivative and second derivative as a chart.
fn three(label: String, across_name: &str, xs: &[f64], values: [Vec<f64>; 3]) -> Chart {
    let across = (xs[0], xs[xs.len() - 1]);
    let span = |values: &mut dyn Iterator<Item = f64>| {
        let finite = values.filter(|v| v.is_finite());
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |r, v| (r.0.min(v), r.1.max(v)))
    };
    let mut sorted: Vec<f64> = values[0].iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = span(&mut values[0].iter().copied());
    let share =
        |part: usize| (sorted[sorted.len() / part], sorted[sorted.len() - 1 - sorted.len() / part]);
    let (near, far) = share(20);
    let room = (far - near).max(0.5);
    // A pole takes no more room than the rest does.
    let own = if low < near - 3.0 * room || high > far + 3.0 * room {
        let (near, far) = share(6);
        let room = (far - near).max(0.5);
        (low.max(near - room), high.min(far + room))
    } else {
        (low, high)
    };
    // Derivatives are shown as far as the function leaves room for.
    let reach = (own.1 - own.0).max(1.0);
    let shown = values[1..].iter().flatten().copied();
    let (low, high) = span(&mut shown.filter(|v| (own.0 - reach..=own.1 + reach).contains(v)));
    let (low, high) = (own.0.min(low).min(0.0), own.1.max(high).max(0.0));
    let margin = 0.05 * (high - low).max(0.1);
    let names = ["f", "f′", "f″"];
    let curves = names.into_iter().zip(values).map(|(name, values)| Curve {
        name: name.to_string(),
        points: interrupted(xs, &values, high - low),
    });
    Chart {
        label,
        across_name: across_name.to_string(),
        across,
        up: (low - margin, high + margin),
        curves: curves.collect(),
        powers: false,
    }
}

/// The points of a line, lifted off where it jumps.
fn interrupted(xs: &[f64], values: &[f64], height: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::with_capacity(xs.len());
    let steep = |i: usize| (values[i] - values[i - 1]).abs();
    for i in 0..xs.len() {
        // A jump is far larger than the steps before and after it.
        if i > 1 {
            let after = if i + 1 < xs.len() { steep(i + 1) } else { 0.0 };
            if steep(i) > 0.04 * height && steep(i) > 8.0 * steep(i - 1).max(after) {
                points.push((xs[i], f64::NAN));
            }
        }
        points.push((xs[i], values[i]));
    }
    points
}

fn curve(record: &'static Record, all: &[Sample]) -> Result<Option<Picture>> {
    let floats = |s: &Sample| s.inputs.iter().all(|x| x.dtype().is_float());
    if !all.iter().any(floats) || record.inputs.len() > 2 || !record.is_differentiable() {
        return Ok(None);
    }
    let params = all.first().map_or_else(Params::new, |s| s.params.clone());
    let (range, others) = match record.inputs.len() {
        1 => (range(record, all), vec![]),
        _ => (
            Some((if record.name == "power" { 0.0 } else { -4.0 }, 4.0)),
            vec![slice_at(record.name)],
        ),
    };
    let Some((low, high)) = range else { return Ok(None) };
    let x = Tensor::linspace(low, high, POINTS, DType::F64)?;
    let f = |x: &Tensor| value(record, &params, x, &others);
    let values = with_derivatives(&f, &x)?;
    let names: Vec<&str> = record.inputs.iter().map(|i| i.name).collect();
    let function = match others[..] {
        [] => format!("{}({})", record.name, names[0]),
        _ => format!("{} ↦ {}({}, {})", names[0], record.name, names[0], others[0]),
    };
    let chart = three(
        format!("{function} with its first two derivatives"),
        names[0],
        &x.to_f64_vec(),
        values,
    );
    let said = settings(&params);
    let caption =
        format!("`{function}`{said}, its derivative $f'$ and its second derivative $f''$.");
    Ok(Some(Picture {
        svg: chart.svg(&format!("clip-{}", record.name)),
        caption,
        across: Some((low, high)),
    }))
}

/// Where a function of two numbers is cut.
fn slice_at(name: &str) -> f64 {
    match name {
        "copysign" => -1.0,
        "prelu" => 0.25,
        "modulo" | "floor_divide" | "maximum" | "minimum" => 1.0,
        _ => 2.0,
    }
}

fn settings(params: &Params) -> String {
    let all: Vec<String> =
        params.iter().map(|(name, value)| format!("`{name} = {value}`")).collect();
    if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
}

/// A loss against the prediction, the target being held.
fn loss(record: &'static Record) -> Result<Option<Picture>> {
    let params = Params::new().with("reduction", "none");
    let (low, high, target) = match record.name {
        "binary_cross_entropy" => (0.02, 0.98, 1.0),
        "kl_divergence" => (-4.0, 0.0, 0.5),
        "hinge_loss" => (-3.0, 3.0, 1.0),
        "cross_entropy" | "focal_loss" | "binary_cross_entropy_with_logits" => (-5.0, 5.0, 1.0),
        _ => (-3.0, 3.0, 0.0),
    };
    let x = Tensor::linspace(low, high, POINTS, DType::F64)?;
    let several = record.name == "cross_entropy";
    let f = |x: &Tensor| {
        if !several {
            return value(record, &params, x, &[target]);
        }
        // The logits x, 0, 0, of which the first is right.
        let rest = Tensor::zeros([POINTS, 2], DType::F64)?;
        let logits = extensor::ops::concatenate(&[&x.expand_dims(1)?, &rest], 1)?;
        let targets = Tensor::zeros([POINTS], DType::I64)?;
        Ok(apply(&*record.operation(&params)?, &[&logits, &targets])?.swap_remove(0))
    };
    let values = with_derivatives(&f, &x)?;
    let name = record.inputs[0].name;
    let chart =
        three(format!("{} against the prediction", record.name), "x", &x.to_f64_vec(), values);
    let caption = if several {
        "The loss of the logits $(x, 0, 0)$ where the first class is right, its derivative $f'$ and its second derivative $f''$ by $x$.".to_string()
    } else {
        format!(
            "The loss against `{name}` ($x$) at the target {target}, its derivative $f'$ and its second derivative $f''$."
        )
    };
    Ok(Some(Picture {
        svg: chart.svg(&format!("clip-{}", record.name)),
        caption,
        across: Some((low, high)),
    }))
}

/// What becomes of three numbers as the first of them moves.
fn varied(record: &'static Record, _: &[Sample]) -> Result<Option<Picture>> {
    let (low, high) = (-5.0, 5.0);
    let x = Tensor::linspace(low, high, POINTS, DType::F64)?;
    let rest = extensor::tensor([[0.0, 1.0]]).broadcast_to([POINTS, 2])?;
    let row = extensor::ops::concatenate(&[&x.expand_dims(1)?, &rest], 1)?;
    let (input, params) = match record.name {
        "layer_norm" | "rms_norm" => (row, Params::new().with("normalized_shape", vec![3])),
        "group_norm" => (row.reshape([POINTS, 3, 1])?, Params::new().with("num_groups", 1)),
        "instance_norm" => (row.reshape([POINTS, 1, 3])?, Params::new()),
        name if name.ends_with("softmax") => (row, Params::new().with("axis", -1)),
        _ => return Ok(None),
    };
    let y = apply(&*record.operation(&params)?, &[&input])?.swap_remove(0).reshape([POINTS, 3])?;
    let (xs, all) = (x.to_f64_vec(), y.to_f64_vec());
    let curves: Vec<Curve> = ["y₀", "y₁", "y₂"]
        .into_iter()
        .enumerate()
        .map(|(k, name)| Curve {
            name: name.to_string(),
            points: xs.iter().enumerate().map(|(i, &x)| (x, all[3 * i + k])).collect(),
        })
        .collect();
    let (least, most) = all.iter().fold((0.0f64, 0.0f64), |r, &v| (r.0.min(v), r.1.max(v)));
    let margin = 0.05 * (most - least);
    let chart = Chart {
        label: format!("{} of three numbers as the first moves", record.name),
        across_name: "x".into(),
        across: (low, high),
        up: (least - margin, most + margin),
        curves,
        powers: false,
    };
    let caption = format!("`{}` of the numbers $(x, 0, 1)$ as $x$ moves.", record.name);
    Ok(Some(Picture {
        svg: chart.svg(&format!("clip-{}", record.name)),
        caption,
        across: Some((low, high)),
    }))
}

/// Numbers in, numbers out: at the first sample that fits into a few cells, filled with 1, 2, 3, ….
fn before_and_after(record: &'static Record) -> Result<Option<Picture>> {
    let plane = |x: &Tensor| {
        let sizes: Vec<usize> = x.shape().iter().copied().filter(|&s| s != 1).collect();
        sizes.len() <= 2 && (2..=36).contains(&x.len()) && sizes.iter().all(|&s| s <= 8)
    };
    for sample in candidates(record) {
        let mut next = 0.0;
        let mut filled: Vec<Tensor> = Vec::new();
        for x in &sample.inputs {
            filled.push(if x.dtype().is_float() {
                let values: Vec<f64> = (0..x.len())
                    .map(|_| {
                        next += 1.0;
                        next
                    })
                    .collect();
                let values = if shuffled(record.name) { stirred(&values) } else { values };
                Tensor::from_vec(values, x.shape().clone())?
            } else {
                x.clone()
            });
        }
        let inputs: Vec<&Tensor> = filled.iter().collect();
        let outputs = apply(&*record.operation(&sample.params)?, &inputs)?;
        let results = &outputs[..record.results(outputs.len())];
        if !inputs.iter().copied().chain(results).all(plane)
            || inputs.len() > 3
            || results.len() > 3
        {
            continue;
        }
        let most = next.max(1.0);
        let mut matrices: Vec<Cells> = Vec::new();
        for (i, x) in inputs.iter().enumerate() {
            matrices.push(table(&extensor::ops::operation::input_name(record, i), x, most));
        }
        let many = results.len() > 1;
        for (k, y) in results.iter().enumerate() {
            matrices.push(table(&if many { format!("y{k}") } else { "y".into() }, y, most));
        }
        let label = format!("{}: numbers before and after", record.name);
        let caption = format!(
            "`{}`{}: the shade of a number is its size.",
            record.name,
            settings(&sample.params)
        );
        return Ok(Some(Picture { svg: cells(&label, &matrices), caption, across: None }));
    }
    Ok(None)
}

fn shuffled(name: &str) -> bool {
    ["sort", "pool", "max", "min", "cum"].iter().any(|part| name.contains(part))
}

/// The numbers in another order, always the same.
fn stirred(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let step = (n / 2..)
        .find(|s| (2..=n).all(|d| !n.is_multiple_of(d) || !s.is_multiple_of(d)))
        .unwrap_or(1);
    (0..n).map(|i| values[(i * step + 1) % n]).collect()
}

/// Samples worth drawing: the record's small ones, those of matrices first.
fn candidates(record: &'static Record) -> Vec<Sample> {
    let mut all: Vec<Sample> = samples(record, 0)
        .into_iter()
        .filter(|s| !s.large && s.inputs.iter().all(|x| x.len() > 1 || x.ndim() == 0))
        .collect();
    let many = record.inputs.iter().any(|i| i.count == Count::Many);
    all.sort_by_key(|s| {
        let wide = s.inputs[0].shape().iter().filter(|&&size| size > 1).count();
        (usize::from(wide != 2) - usize::from(many && wide == 1), s.inputs[0].len())
    });
    all
}

fn table(name: &str, x: &Tensor, most: f64) -> Cells {
    let sizes: Vec<usize> = x.shape().iter().copied().filter(|&s| s != 1).collect();
    let columns = sizes.last().copied().unwrap_or(1);
    // A vector whose axis comes before one of size 1 stands upright.
    let upright = sizes.len() == 1 && x.ndim() >= 2 && x.shape()[x.ndim() - 1] == 1;
    let columns = if upright { 1 } else { columns };
    let float = x.dtype().is_float();
    let cell = |v: f64| {
        let words = format!("{v:.2}");
        let words = words.trim_end_matches('0').trim_end_matches('.').replace('-', "−");
        (words, if float { v / most } else { 0.0 })
    };
    let values = x.to_f64_vec();
    Cells {
        name: name.to_string(),
        rows: values.chunks(columns).map(|row| row.iter().map(|&v| cell(v)).collect()).collect(),
    }
}
