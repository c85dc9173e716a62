//! Golden cases: answers from elsewhere, and a runner that holds the catalogue to them.
//!
//! A folder holds `manifest.json`, which names the calls, and `tensors.safetensors`, which holds
//! their inputs, outputs and gradients in `f64`. For each case the operation of that name is called
//! with its inputs and parameters, its backward rule with the cotangent, and both again under
//! automatic differentiation, with forward mode and both second derivatives; again with every input
//! in each strided arrangement; again in `f32`; and in `f16` and `bf16`, judged against `f64` on the
//! same rounded inputs. Compiled, all of them have the same bits in every dtype. A case that names an operation, input or parameter that the catalogue lacks
//! fails.

use extensor::autodiff::{hvp, hvp_reverse, jvp, vjp};
use extensor::check::{Arrangement, bit_difference};
use extensor::compile::compile;
use extensor::ops::catalogue;
use extensor::ops::operation::{self, Operation, apply, input_name};
use extensor::ops::params::{Params, Value};
use extensor::ops::record::Record;
use extensor::{DType, Tensor, Tolerance};
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;
use std::path::Path;

/// A failed case.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The case.
    pub id: String,
    /// The operation it names.
    pub op: String,
    /// What is wrong.
    pub reason: String,
}

/// How a run of cases ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// How many cases passed.
    pub passed: usize,
    /// Those that failed.
    pub failures: Vec<Failure>,
}

#[derive(Deserialize)]
struct Manifest {
    format: u64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    op: String,
    #[serde(default)]
    params: serde_json::Map<String, serde_json::Value>,
    inputs: Vec<String>,
    #[serde(default)]
    grads: Vec<String>,
    #[serde(default)]
    hvp: bool,
}

/// Runs the cases of a folder whose operation `chosen` accepts; `progress` is told how many there
/// are, and then of each whether it failed.
///
/// An error means that the folder cannot be read.
pub fn run(
    folder: &Path,
    chosen: &dyn Fn(&str) -> bool,
    progress: &mut dyn FnMut(usize, Option<&Failure>),
) -> Result<Summary, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        let bytes = std::fs::read(&path);
        bytes.map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    let broken = |name: &str, error: &dyn std::fmt::Display| {
        format!("{} is damaged: {error}", folder.join(name).display())
    };
    let text = read("manifest.json")?;
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| broken("manifest.json", &error))?;
    if manifest.format != 1 {
        let found = format!("format {} is not known, only 1", manifest.format);
        return Err(broken("manifest.json", &found));
    }
    let bytes = read("tensors.safetensors")?;
    let tensors =
        SafeTensors::deserialize(&bytes).map_err(|error| broken("tensors.safetensors", &error))?;
    let cases: Vec<&Case> = manifest.cases.iter().filter(|c| chosen(&c.op)).collect();
    let mut summary = Summary::default();
    for case in &cases {
        let outcome = catch(|| check_case(case, &tensors));
        match outcome {
            Ok(()) => {
                summary.passed += 1;
                progress(cases.len(), None);
            }
            Err(reason) => {
                let (id, op) = (case.id.clone(), case.op.clone());
                let failure = Failure { id, op, reason };
                progress(cases.len(), Some(&failure));
                summary.failures.push(failure);
            }
        }
    }
    Ok(summary)
}

/// A panic is a failure of the case, not the end of the run.
fn catch(check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    attempt.unwrap_or_else(|_| Err("panicked".into()))
}

/// A case with its tensors.
struct Call<'a> {
    record: &'static Record,
    op: Box<dyn Operation>,
    inputs: Vec<Tensor>,
    wanted: Vec<bool>,
    out: Tensor,
    cotangent: Option<Tensor>,
    /// In the order of the inputs.
    grads: Vec<(&'a str, Tensor)>,
    /// Along which the gradient is differentiated, and what that gives.
    second: Option<[Vec<Tensor>; 2]>,
}

fn check_case(case: &Case, tensors: &SafeTensors) -> Result<(), String> {
    let call = load(case, tensors)?;
    let exact = Tolerance::of(DType::F64);
    call.agrees(&call.inputs, exact)?;
    call.second(exact)?;
    for arrangement in Arrangement::STRIDED {
        let arranged = call.inputs.iter().map(|x| arrangement.of(x));
        let arranged: Vec<Tensor> = arranged.collect::<Result<_, _>>().map_err(text)?;
        call.agrees(&arranged, exact)
            .map_err(|reason| format!("inputs {arrangement} in memory: {reason}"))?;
    }
    let size = call.magnitude();
    let single = cast_floats(&call.inputs, DType::F32)?;
    call.agrees(&single, Tolerance::new(1e-4, 1e-5 * size))
        .map_err(|reason| format!("in f32: {reason}"))?;
    // Some are of single and double precision alone.
    let dtypes = call.record.dtypes;
    for dtype in [DType::F16, DType::BF16].into_iter().filter(|dtype| dtypes.contains(dtype)) {
        call.rounds(dtype, size).map_err(|reason| format!("in {dtype}: {reason}"))?;
    }
    for &dtype in dtypes {
        call.compiled(dtype).map_err(|reason| format!("compiled in {dtype}: {reason}"))?;
    }
    Ok(())
}

/// A function of a case's inputs, the cotangent and the tangents.
type Function<'a> = &'a dyn Fn(&Arguments) -> extensor::Result<Vec<Tensor>>;
type Arguments = (Vec<Tensor>, Vec<Tensor>, Vec<Tensor>);

fn load<'a>(case: &'a Case, tensors: &SafeTensors) -> Result<Call<'a>, String> {
    let record = catalogue::find(&case.op).map_err(text)?;
    let op = record.operation(&params(case)?).map_err(text)?;
    record.expect_inputs(case.inputs.len()).map_err(text)?;
    for (i, name) in case.inputs.iter().enumerate() {
        let known = input_name(record, i);
        if *name != known {
            return Err(format!("{}: input {i} is {known:?}, not {name:?}", case.op));
        }
    }
    if let Some(stray) = case.grads.iter().find(|g| !case.inputs.contains(g)) {
        return Err(format!("{stray:?} is to be differentiated by, and is no input"));
    }
    let get = |kind: &str| tensor(tensors, &format!("{}/{kind}", case.id));
    let wanted: Vec<bool> = case.inputs.iter().map(|n| case.grads.contains(n)).collect();
    let differentiated = case.inputs.iter().filter(|n| case.grads.contains(n));
    Ok(Call {
        record,
        op,
        inputs: case
            .inputs
            .iter()
            .map(|name| get(&format!("in/{name}")))
            .collect::<Result<_, _>>()?,
        out: get("out")?,
        cotangent: if wanted.contains(&true) { Some(get("cotangent")?) } else { None },
        grads: differentiated
            .clone()
            .map(|name| Ok((name.as_str(), get(&format!("grad/{name}"))?)))
            .collect::<Result<_, String>>()?,
        second: if case.hvp {
            let all = |kind: &str| -> Result<Vec<Tensor>, String> {
                differentiated.clone().map(|name| get(&format!("{kind}/{name}"))).collect()
            };
            Some([all("tangent")?, all("hvp")?])
        } else {
            None
        },
        wanted,
    })
}

impl Call<'_> {
    /// The result, and the auxiliary outputs after it.
    fn forward(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let outputs = apply(&*self.op, &inputs).map_err(text)?;
        let results = self.record.results(outputs.len());
        if results != 1 {
            return Err(format!("{} has {results} results", self.record.name));
        }
        Ok(outputs.into_vec())
    }

    fn backward(
        &self,
        grad: &Tensor,
        inputs: &[Tensor],
        outputs: &[Tensor],
    ) -> Result<Vec<Tensor>, String> {
        let [inputs, outputs] = [inputs, outputs].map(|l| l.iter().collect::<Vec<&Tensor>>());
        let grads = operation::backward(&*self.op, &[grad], &inputs, &outputs, &self.wanted);
        Ok(grads.map_err(text)?.into_iter().flatten().collect())
    }

    /// The operation and its backward rule give what is stored.
    fn agrees(&self, inputs: &[Tensor], tolerance: Tolerance) -> Result<(), String> {
        let outputs = self.forward(inputs)?;
        close("out", &outputs[0], &self.out, tolerance)?;
        let Some(cotangent) = &self.cotangent else {
            return Ok(());
        };
        let cotangent = extensor::ops::cast(cotangent, outputs[0].dtype()).map_err(text)?;
        let found = self.backward(&cotangent, inputs, &outputs)?;
        if found.len() != self.grads.len() {
            let (got, expected) = (found.len(), self.grads.len());
            return Err(format!("{got} gradients came back, expected {expected}"));
        }
        let (_, pullback) = vjp(|x: &Vec<Tensor>| self.result(inputs, x), &self.moving(inputs))
            .map_err(|error| format!("under vjp: {error}"))?;
        let traced = pullback.call(&cotangent).map_err(text)?;
        for ((got, traced), (name, want)) in found.iter().zip(&traced).zip(&self.grads) {
            close(&format!("grad/{name}"), got, want, tolerance)?;
            close(&format!("grad/{name} by autodiff"), traced, want, tolerance)?;
        }
        Ok(())
    }

    /// The inputs differentiated by.
    fn moving(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let moving = inputs.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted);
        moving.map(|(x, _)| x.clone()).collect()
    }

    /// The result, with these tensors in place of the inputs differentiated by.
    fn result(&self, inputs: &[Tensor], moving: &[Tensor]) -> extensor::Result<Tensor> {
        let mut moving = moving.iter();
        let at = inputs.iter().zip(&self.wanted);
        let at = at.map(|(x, &wanted)| if wanted { moving.next().unwrap_or(x) } else { x });
        let at: Vec<&Tensor> = at.collect();
        Ok(apply(&*self.op, &at)?.swap_remove(0))
    }

    /// Forward mode is the adjoint of the gradient, and both second derivatives are those stored.
    fn second(&self, tolerance: Tolerance) -> Result<(), String> {
        let (Some([tangents, want]), Some(cotangent)) = (&self.second, &self.cotangent) else {
            return Ok(());
        };
        let moving = self.moving(&self.inputs);
        let along = jvp(|x: &Vec<Tensor>| self.result(&self.inputs, x), &moving, tangents);
        let (_, along) = along.map_err(|error| format!("under jvp: {error}"))?;
        let inner = |a: &Tensor, b: &Tensor| {
            let terms = a.to_f64_vec().into_iter().zip(b.to_f64_vec()).map(|(x, y)| x * y);
            terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + f64::abs(t)))
        };
        let (left, size) = inner(cotangent, &along);
        let pairs = self.grads.iter().zip(tangents).map(|((_, g), t)| inner(g, t));
        let (right, other) = pairs.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        let bound = tolerance.absolute + tolerance.relative * (size + other);
        let apart = (left - right).abs();
        if apart.is_nan() || apart > bound {
            return Err(format!("<w, Jv> = {left:?} is not <grad, v> = {right:?}"));
        }
        let f = |x: &Vec<Tensor>| {
            let y = self.result(&self.inputs, x)?;
            extensor::ops::sum(&extensor::ops::multiply(&y, cotangent)?, ..)
        };
        let ways = [
            ("forward over reverse", hvp(f, &moving, tangents)),
            ("reverse over reverse", hvp_reverse(f, &moving, tangents)),
        ];
        for (way, found) in ways {
            let found = found.map_err(|error| format!("{way}: {error}"))?;
            for ((got, want), (name, _)) in found.iter().zip(want).zip(&self.grads) {
                close(&format!("hvp/{name}, {way},"), got, want, tolerance)?;
            }
        }
        Ok(())
    }

    /// In a 16-bit dtype both give what `f64` gives on the same rounded inputs.
    fn rounds(&self, dtype: DType, size: f64) -> Result<(), String> {
        let bound = Tolerance::of(dtype);
        let tolerance = Tolerance::new(bound.relative, bound.absolute * size);
        let inputs = cast_floats(&self.inputs, dtype)?;
        let wide = cast_floats(&inputs, DType::F64)?;
        let (outputs, exact) = (self.forward(&inputs)?, self.forward(&wide)?);
        close("out", &outputs[0], &exact[0], tolerance)?;
        let Some(cotangent) = &self.cotangent else {
            return Ok(());
        };
        let cast = |x: &Tensor, like: &Tensor| extensor::ops::cast(x, like.dtype()).map_err(text);
        let grad = cast(cotangent, &outputs[0])?;
        let found = self.backward(&grad, &inputs, &outputs)?;
        let saved = outputs.iter().zip(&exact).map(|(y, exact)| cast(y, exact));
        let saved: Vec<Tensor> = saved.collect::<Result<_, _>>()?;
        let agrees = |outputs: &[Tensor]| -> Result<(), String> {
            let exact = self.backward(&cast(&grad, &exact[0])?, &wide, outputs)?;
            for ((got, want), (name, _)) in found.iter().zip(&exact).zip(&self.grads) {
                close(&format!("grad/{name}"), got, want, tolerance)?;
            }
            Ok(())
        };
        // With outputs as they were rounded; or with those before that, where they are found again.
        agrees(&saved).or_else(|wrong| agrees(&exact).map_err(|_| wrong))
    }

    /// Compiled, the outputs and all derivatives have the bits that they have otherwise, and have them again.
    fn compiled(&self, dtype: DType) -> Result<(), String> {
        let inputs = cast_floats(&self.inputs, dtype)?;
        let like = self.forward(&inputs)?[0].dtype();
        let cotangent: Option<Tensor> = self
            .cotangent
            .as_ref()
            .map(|w| extensor::ops::cast(w, like))
            .transpose()
            .map_err(text)?;
        let tangents = match &self.second {
            Some([tangents, _]) => cast_floats(tangents, dtype)?,
            None => Vec::new(),
        };
        let second = self.second.is_some();
        let arguments = (inputs, Vec::from_iter(cotangent), tangents);
        let weighted = |(inputs, w, _): &Arguments, x: &Vec<Tensor>| {
            let y = self.result(inputs, x)?;
            extensor::ops::sum(&extensor::ops::multiply(&y, &w[0])?, ..)
        };
        let functions: [(&str, bool, Function<'_>); 5] = [
            ("out", true, &|(inputs, ..)| {
                Ok(apply(&*self.op, &inputs.iter().collect::<Vec<_>>())?.into_vec())
            }),
            ("gradients", self.cotangent.is_some(), &|(inputs, w, _)| {
                let f = |x: &Vec<Tensor>| self.result(inputs, x);
                vjp(f, &self.moving(inputs))?.1.call_once(&w[0])
            }),
            ("derivatives", second, &|(inputs, _, along)| {
                let f = |x: &Vec<Tensor>| self.result(inputs, x);
                let (y, dy) = jvp(f, &self.moving(inputs), along)?;
                Ok(vec![y, dy])
            }),
            ("forward over reverse", second, &|all| {
                hvp(|x: &Vec<Tensor>| weighted(all, x), &self.moving(&all.0), &all.2)
            }),
            ("reverse over reverse", second, &|all| {
                hvp_reverse(|x: &Vec<Tensor>| weighted(all, x), &self.moving(&all.0), &all.2)
            }),
        ];
        for (what, _, f) in functions.into_iter().filter(|(_, asked, _)| *asked) {
            let want = f(&arguments).map_err(|error| format!("{what}: {error}"))?;
            let compiled = compile(f);
            for _ in 0..2 {
                let got = compiled.call(&arguments).map_err(|error| format!("{what}: {error}"))?;
                if got.len() != want.len() {
                    return Err(format!("{what}: {} came back, not {}", got.len(), want.len()));
                }
                let mut pairs = got.iter().zip(&want).enumerate();
                let wrong = pairs.find_map(|(k, (a, b))| Some((k, bit_difference(a, b)?)));
                if let Some((k, wrong)) = wrong {
                    return Err(format!("{what}, number {k}: {wrong}"));
                }
            }
        }
        Ok(())
    }

    /// The largest magnitude among the case's tensors, at least 1.
    fn magnitude(&self) -> f64 {
        let grads = self.grads.iter().map(|(_, g)| g);
        let all = self.inputs.iter().chain([&self.out]).chain(grads);
        let values = all.filter(|x| x.dtype().is_float()).flat_map(Tensor::to_f64_vec);
        values.map(f64::abs).filter(|v| v.is_finite()).fold(1.0, f64::max)
    }
}

/// Whether `got`, in its own dtype, is near enough to `want`; what is beyond the dtype's range may
/// be infinite or its largest number.
fn close(what: &str, got: &Tensor, want: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if got.shape() != want.shape() {
        return Err(format!("{what} has shape {}, not {}", got.shape(), want.shape()));
    }
    let kinds = (got.dtype().kind(), want.dtype().kind());
    if kinds.0 != kinds.1 {
        return Err(format!("{what} has dtype {}, not {}", got.dtype(), want.dtype()));
    }
    let limit = if got.dtype().is_float() { got.dtype().max_finite() } else { f64::INFINITY };
    for (i, (y, exact)) in got.to_f64_vec().into_iter().zip(want.to_f64_vec()).enumerate() {
        let beyond = exact.abs() >= limit && y.abs() >= limit && y.signum() == exact.signum();
        if !beyond && !tolerance.allows(y, exact) {
            let (error, bound) = ((y - exact).abs(), tolerance.bound(exact));
            return Err(format!(
                "{what} is {y:?} at element {i}, not {exact:?} (error {error:.3e}, allowed {bound:.3e})"
            ));
        }
    }
    Ok(())
}

fn cast_floats(tensors: &[Tensor], dtype: DType) -> Result<Vec<Tensor>, String> {
    let cast = |x: &Tensor| {
        if x.dtype().is_float() {
            extensor::ops::cast(x, dtype).map_err(text)
        } else {
            Ok(x.clone())
        }
    };
    tensors.iter().map(cast).collect()
}

fn text(error: extensor::Error) -> String {
    error.to_string()
}

/// The parameters of a case.
fn params(case: &Case) -> Result<Params, String> {
    let mut params = Params::new();
    for (name, value) in &case.params {
        let value = parameter(value)
            .ok_or_else(|| format!("parameter {name:?} has a value of no known kind: {value}"))?;
        params = params.with(name, value);
    }
    Ok(params)
}

fn parameter(value: &serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match value {
        Json::Null => Value::None,
        Json::Bool(v) => Value::Bool(*v),
        Json::Number(v) => match v.as_i64() {
            Some(v) => Value::Int(v),
            None => Value::Float(v.as_f64()?),
        },
        Json::String(v) => Value::Text(v.clone()),
        Json::Array(items) if items.iter().any(Json::is_array) => {
            let pair = |item: &Json| match item.as_array()?.as_slice() {
                [a, b] => Some((a.as_i64()?, b.as_i64()?)),
                _ => None,
            };
            Value::Pairs(items.iter().map(pair).collect::<Option<_>>()?)
        }
        Json::Array(items) => Value::Ints(items.iter().map(Json::as_i64).collect::<Option<_>>()?),
        Json::Object(_) => return None,
    })
}

/// The tensor of this name.
fn tensor(tensors: &SafeTensors, name: &str) -> Result<Tensor, String> {
    let found = tensors
        .tensor(name)
        .map_err(|error| format!("tensors.safetensors: tensor {name:?}: {error}"))?;
    let shape = found.shape().to_vec();
    let words = || found.data().as_chunks::<8>().0.iter();
    let made = match found.dtype() {
        Dtype::F64 => Tensor::from_vec(words().map(|b| f64::from_le_bytes(*b)).collect(), shape),
        Dtype::I64 => Tensor::from_vec(words().map(|b| i64::from_le_bytes(*b)).collect(), shape),
        Dtype::BOOL => Tensor::from_vec(found.data().iter().map(|b| *b != 0).collect(), shape),
        other => {
            return Err(format!("tensor {name:?} has dtype {other:?}, expected F64, I64 or BOOL"));
        }
    };
    made.map_err(|error| format!("tensor {name:?}: {error}"))
}
